/* SPDX-License-Identifier: BSD-2-Clause */
#include "kv_stats_view.h"

#include "cli.h"

#include "base/port.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SLICE_MS   100 /* how often a wait looks whether it should end */
#define ANSWER_MAX (1u << 20)
#define PORT	   "11211"

/* ---- connecting ---- */

static const char *address_of(const struct fth_kv_link *link)
{
	return link->via ? link->via : link->server;
}

static int wait_for(const struct fth_kv_link *link, int fd, short events, uint64_t deadline)
{
	struct pollfd p = {.fd = fd, .events = events};

	for (;;) {
		int n = poll(&p, 1, SLICE_MS);

		if (n > 0)
			return 0;
		if (fth_cli_stopped())
			return -ECANCELED;
		if (n < 0 && errno != EINTR)
			return fth_fail(errno, "%s: %s", link->server, strerror(errno));
		if (fth_now_ns() >= deadline)
			return fth_fail(ETIMEDOUT, "%s: timed out after %.1f s", link->server,
					(double)link->timeout_ns / 1e9);
	}
}

static int connect_to(const struct fth_kv_link *link, const struct sockaddr *address,
		      socklen_t length, uint64_t deadline)
{
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc = 0;
	int error = 0;
	socklen_t size = sizeof(error);

	if (fd < 0)
		return fth_fail(errno, "%s: %s", link->server, strerror(errno));
	if (connect(fd, address, length) < 0) {
		error = errno;
		if (error == EINPROGRESS)
			rc = wait_for(link, fd, POLLOUT, deadline);
		if (error == EINPROGRESS && rc == 0)
			(void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
		if (rc == 0 && error)
			rc = fth_fail(error, "cannot connect to %s: %s", link->server,
				      strerror(error));
	}
	if (rc == 0)
		return fd;
	close(fd);
	return rc;
}

static int connect_unix(const struct fth_kv_link *link, uint64_t deadline)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *path = address_of(link) + strlen("unix:");

	if (strlen(path) >= sizeof(address.sun_path))
		return fth_fail(ENAMETOOLONG, "%s: socket path is longer than %zu bytes",
				address_of(link), sizeof(address.sun_path) - 1);
	memcpy(address.sun_path, path, strlen(path) + 1);
	return connect_to(link, (const struct sockaddr *)&address, sizeof(address), deadline);
}

/* "HOST:PORT", "[ADDRESS]:PORT" or "HOST" to its parts; NULL: no memory. */
static char *split_server(const char *server, const char **host, const char **port)
{
	char *copy = strdup(server), *colon, *end;

	if (!copy)
		return NULL;
	*host = copy;
	*port = PORT;
	end = *copy == '[' ? strchr(copy, ']') : NULL;
	colon = strrchr(end ? end : copy, ':');
	/* More than one colon and no brackets: an address of IPv6 without a port. */
	if (colon && (end || strchr(copy, ':') == colon)) {
		*colon = 0;
		*port = colon + 1;
	}
	if (end) {
		*end = 0;
		*host = copy + 1;
	}
	return copy;
}

static int connect_tcp(const struct fth_kv_link *link, uint64_t deadline)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *list = NULL;
	const char *host, *port;
	int rc = fth_port_check(address_of(link)), fd;
	char *copy;

	if (rc < 0)
		return rc;
	copy = split_server(address_of(link), &host, &port);
	if (!copy)
		return -ENOMEM;
	rc = getaddrinfo(*host ? host : NULL, port, &hints, &list);
	free(copy);
	if (rc != 0)
		return fth_fail(EADDRNOTAVAIL, "%s: %s; expected HOST:PORT or unix:PATH",
				link->server, gai_strerror(rc));
	fd = -ECONNREFUSED;
	for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
		fd = connect_to(link, a->ai_addr, a->ai_addrlen, deadline);
	freeaddrinfo(list);
	return fd;
}

/* ---- talking ---- */

static int send_all(const struct fth_kv_link *link, const char *text, size_t length,
		    uint64_t deadline)
{
	while (length > 0) {
		ssize_t n = send(link->fd, text, length, MSG_NOSIGNAL);
		int rc = 0;

		if (n < 0 && errno == EAGAIN)
			rc = wait_for(link, link->fd, POLLOUT, deadline);
		else if (n < 0)
			rc = fth_fail(errno, "%s: %s", link->server, strerror(errno));
		if (rc < 0)
			return rc;
		text += n > 0 ? n : 0;
		length -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static bool ends(const char *text, size_t length)
{
	return (length >= 5 && memcmp(text + length - 5, "END\r\n", 5) == 0) ||
	       (strncmp(text, "STAT ", 5) != 0 && strstr(text, "\r\n"));
}

/* Until END, or one line of another kind. The caller frees *out. */
static int take_answer(const struct fth_kv_link *link, uint64_t deadline, char **out)
{
	char *text = malloc(ANSWER_MAX);
	size_t have = 0;
	int rc = text ? 0 : -ENOMEM;

	while (rc == 0) {
		ssize_t n = recv(link->fd, text + have, ANSWER_MAX - 1 - have, 0);

		if (n > 0) {
			have += (size_t)n;
			text[have] = 0;
			if (ends(text, have))
				break;
			if (have == ANSWER_MAX - 1)
				rc = fth_fail(EPROTO, "%s: the reply is longer than %u bytes",
					      link->server, ANSWER_MAX);
		} else if (n == 0) {
			rc = fth_fail(ECONNRESET, "%s closed the connection", link->server);
		} else if (errno == EAGAIN) {
			rc = wait_for(link, link->fd, POLLIN, deadline);
		} else {
			rc = fth_fail(errno, "%s: %s", link->server, strerror(errno));
		}
	}
	*out = text;
	if (rc < 0) {
		free(text);
		*out = NULL;
	}
	return rc;
}

int fth_kv_read_password(const char *path, char line[FTH_KV_PASSWORD_MAX])
{
	FILE *file = fopen(path, "re");
	int rc = 0;
	char *colon;

	if (!file || !fgets(line, FTH_KV_PASSWORD_MAX, file))
		rc = fth_fail(file ? EINVAL : errno, "%s: %s", path,
			      file ? "the file is empty" : strerror(errno));
	if (file)
		fclose(file);
	if (rc < 0)
		return rc;
	line[strcspn(line, "\r\n")] = 0;
	colon = strchr(line, ':');
	if (!colon)
		return fth_fail(EINVAL, "%s: the first line is not user:password", path);
	*colon = ' ';
	return 0;
}

/* As clients do it for memcached: a set of any key to "user password". */
static int give_password(const struct fth_kv_link *link, uint64_t deadline)
{
	char line[FTH_KV_PASSWORD_MAX], request[FTH_KV_PASSWORD_MAX + 64], *answer;
	int rc = fth_kv_read_password(link->auth_file, line), n;

	if (rc < 0)
		return rc;
	n = snprintf(request, sizeof(request), "set auth 0 0 %zu\r\n%s\r\n", strlen(line), line);
	rc = send_all(link, request, (size_t)n, deadline);
	if (rc == 0)
		rc = take_answer(link, deadline, &answer);
	if (rc < 0)
		return rc;
	if (strcmp(answer, "STORED\r\n") != 0)
		rc = fth_fail(EACCES, "%s rejected the user and password in %s", link->server,
			      link->auth_file);
	free(answer);
	return rc;
}

static int link_open(struct fth_kv_link *link, uint64_t deadline)
{
	int rc = 0;

	if (link->fd >= 0)
		return 0;
	link->fd = strncmp(address_of(link), "unix:", 5) == 0 ? connect_unix(link, deadline)
							      : connect_tcp(link, deadline);
	if (link->fd < 0) {
		rc = link->fd;
		link->fd = -1;
	} else if (link->auth_file) {
		rc = give_password(link, deadline);
	}
	return rc;
}

void fth_kv_link_close(struct fth_kv_link *link)
{
	if (link->fd >= 0)
		close(link->fd);
	link->fd = -1;
}

/* ---- figures ---- */

void fth_kv_figures_release(struct fth_kv_figures *figures)
{
	free(figures->text);
	free(figures->list);
	memset(figures, 0, sizeof(*figures));
}

/* Cut the text into names and values. A terminal must not obey what a server sends. */
static int parse(struct fth_kv_figures *out)
{
	unsigned lines = 0;
	char *save = NULL;

	for (char *at = out->text; *at; at++) {
		lines += *at == '\n';
		if (((unsigned char)*at < ' ' && *at != '\r' && *at != '\n') || *at == 0x7f)
			*at = '?';
	}
	out->list = calloc(lines + 1, sizeof(*out->list));
	if (!out->list)
		return -ENOMEM;
	for (char *line = strtok_r(out->text, "\r\n", &save); line;
	     line = strtok_r(NULL, "\r\n", &save)) {
		char *name = line + strlen("STAT "), *blank;

		if (strncmp(line, "STAT ", strlen("STAT ")) != 0)
			break;
		blank = strchr(name, ' ');
		if (blank)
			*blank = 0;
		out->list[out->count++] = (struct fth_kv_figure){name, blank ? blank + 1 : ""};
	}
	return 0;
}

static int ask(struct fth_kv_link *link, const char *what, struct fth_kv_figures *out)
{
	uint64_t deadline = fth_deadline_ns(link->timeout_ns);
	char request[64];
	int n = snprintf(request, sizeof(request), "stats%s%s\r\n", *what ? " " : "", what);
	int rc = link_open(link, deadline);

	if (rc == 0)
		rc = send_all(link, request, (size_t)n, deadline);
	if (rc == 0)
		rc = take_answer(link, deadline, &out->text);
	if (rc < 0)
		return rc;
	out->taken_ns = fth_now_ns();
	if (strncmp(out->text, "STAT ", 5) == 0 || strcmp(out->text, "END\r\n") == 0)
		return parse(out);
	if (strcmp(out->text, "ERROR\r\n") == 0)
		return fth_fail(EOPNOTSUPP, "%s does not support stats %s", link->server, what);
	out->text[strcspn(out->text, "\r\n")] = 0;
	return fth_fail(EPROTO, "%s replied \"%.80s\"%s", link->server, out->text,
			strstr(out->text, "unauthenticated") ? "; --auth names a file with "
							       "user:password"
							     : "");
}

int fth_kv_link_stats(struct fth_kv_link *link, const char *what, struct fth_kv_figures *out)
{
	int rc;

	fth_kv_figures_release(out);
	rc = ask(link, what, out);
	if (rc == 0)
		return 0;
	if (rc != -EOPNOTSUPP)
		fth_kv_link_close(link);
	free(out->text);
	out->text = NULL;
	return rc;
}

const char *fth_kv_figure(const struct fth_kv_figures *figures, const char *name)
{
	for (unsigned i = 0; i < figures->count; i++)
		if (strcmp(figures->list[i].name, name) == 0)
			return figures->list[i].value;
	return NULL;
}

bool fth_kv_figure_u64(const struct fth_kv_figures *figures, const char *name, uint64_t *out)
{
	const char *value = fth_kv_figure(figures, name);
	char *end;

	if (!value || *value < '0' || *value > '9')
		return false;
	errno = 0;
	*out = strtoull(value, &end, 10);
	return errno == 0 && *end == 0;
}

uint64_t fth_kv_figure_or_0(const struct fth_kv_figures *figures, const char *name)
{
	uint64_t value;

	return fth_kv_figure_u64(figures, name, &value) ? value : 0;
}
