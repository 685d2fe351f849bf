/* SPDX-License-Identifier: BSD-2-Clause */
#include "kv_wire.h"

#include "cli.h"

#include "base/port.h"
#include "base/net/tls.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SLICE_MS    100 /* how often a wait looks whether it should end */
#define ANSWER_MAX  (1u << 20)
#define REQUEST_MAX 1024u
#define PORT	    "11211"
#define UNIX_PREFIX "unix:"

/* When a call has to end. */
struct limit {
	uint64_t timeout_ns, deadline;
};

static struct limit limit_of(uint64_t timeout_ns)
{
	return (struct limit){timeout_ns, fth_deadline_ns(timeout_ns)};
}

static int wire_wait(const struct fth_kv_wire *wire, short events, const struct limit *limit)
{
	struct pollfd p = {.fd = wire->fd, .events = events};

	for (;;) {
		int n = poll(&p, 1, SLICE_MS);

		if (n > 0)
			return 0;
		if (fth_cli_stopped())
			return -ECANCELED;
		if (n < 0 && errno != EINTR)
			return fth_fail(errno, "%s: %s", wire->server, strerror(errno));
		if (fth_now_ns() >= limit->deadline)
			return fth_fail(ETIMEDOUT, "%s: timed out after %.1f s", wire->server,
					(double)limit->timeout_ns / 1e9);
	}
}

/* ---- connecting ---- */

/* A Unix socket that does not block refuses while the server's queue is full. */
static int connect_patiently(int fd, const struct sockaddr *address, socklen_t length,
			     const struct limit *limit)
{
	int rc;

	while ((rc = connect(fd, address, length)) < 0 && errno == EAGAIN &&
	       fth_now_ns() < limit->deadline && !fth_cli_stopped())
		(void)poll(NULL, 0, 1);
	return rc;
}

static int connect_to(struct fth_kv_wire *wire, const struct sockaddr *address, socklen_t length,
		      const struct limit *limit)
{
	int one = 1, error = 0, rc = 0;
	socklen_t size = sizeof(error);

	wire->fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (wire->fd < 0)
		return fth_fail(errno, "%s: %s", wire->server, strerror(errno));
	if (connect_patiently(wire->fd, address, length, limit) < 0) {
		error = errno;
		if (error == EINPROGRESS)
			rc = wire_wait(wire, POLLOUT, limit);
		if (error == EINPROGRESS && rc == 0)
			(void)getsockopt(wire->fd, SOL_SOCKET, SO_ERROR, &error, &size);
		if (rc == 0 && error)
			rc = fth_fail(error, "cannot connect to %s: %s", wire->server,
				      strerror(error));
	}
	if (rc == 0 && address->sa_family != AF_UNIX)
		(void)setsockopt(wire->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (rc < 0)
		fth_kv_wire_close(wire);
	return rc;
}

static int connect_unix(struct fth_kv_wire *wire, const char *path, const struct limit *limit)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (strlen(path) >= sizeof(address.sun_path))
		return fth_fail(ENAMETOOLONG, "%s: socket path is longer than %zu bytes",
				wire->server, sizeof(address.sun_path) - 1);
	memcpy(address.sun_path, path, strlen(path) + 1);
	return connect_to(wire, (const struct sockaddr *)&address, sizeof(address), limit);
}

/*
 * "HOST:PORT", "[ADDRESS]:PORT" or "HOST" to its parts. The caller frees the result; NULL: no
 * memory.
 */
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

static int connect_tcp(struct fth_kv_wire *wire, const char *host, const char *port,
		       const struct limit *limit)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *list = NULL;
	int rc = getaddrinfo(*host ? host : NULL, port, &hints, &list);

	if (rc != 0)
		return fth_fail(EADDRNOTAVAIL, "%s: %s; expected HOST:PORT or unix:PATH",
				wire->server, gai_strerror(rc));
	rc = -ECONNREFUSED;
	for (const struct addrinfo *a = list; a && rc < 0 && rc != -ECANCELED; a = a->ai_next)
		rc = connect_to(wire, a->ai_addr, a->ai_addrlen, limit);
	freeaddrinfo(list);
	return rc;
}

/* host: the name that the server's certificate must have; NULL: any. */
static int shake_hands(struct fth_kv_wire *wire, const struct fth_kv_tls *tls, const char *host,
		       const struct limit *limit)
{
	short events = 0;
	int rc;

	wire->session = tls_attach_client(tls->context, wire->fd, host);
	if (!wire->session)
		return -ENOMEM;
	while ((rc = tls_handshake(wire->session, &events)) == -EAGAIN) {
		rc = wire_wait(wire, events, limit);
		if (rc < 0)
			break;
	}
	return rc;
}

/* memcached's way: a set of any key, whose value is the password. */
static int give_password(struct fth_kv_wire *wire, const char *auth, uint64_t timeout_ns)
{
	char request[REQUEST_MAX], *answer;
	int n = snprintf(request, sizeof(request), "set auth 0 0 %zu\r\n%s\r\n", strlen(auth),
			 auth);
	int rc;

	if ((size_t)n >= sizeof(request))
		return fth_fail(EINVAL, "the password is too long");
	rc = fth_kv_wire_ask(wire, request, (size_t)n, timeout_ns, &answer);
	if (rc < 0)
		return rc;
	answer[strcspn(answer, "\r\n")] = 0;
	if (strcmp(answer, "STORED") != 0)
		rc = fth_fail(EACCES, "%s: %.80s (rejected the user and password)", wire->server,
			      answer);
	free(answer);
	return rc;
}

int fth_kv_wire_open(struct fth_kv_wire *wire, const char *server, const struct fth_kv_tls *tls,
		     const char *auth, uint64_t timeout_ns)
{
	bool local = strncmp(server, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0;
	struct limit limit = limit_of(timeout_ns);
	const char *host = NULL, *port = NULL;
	char *copy = NULL;
	int rc = local ? 0 : fth_port_check(server);

	*wire = (struct fth_kv_wire){.server = server, .fd = -1};
	if (rc == 0 && !local) {
		copy = split_server(server, &host, &port);
		rc = copy ? 0 : -ENOMEM;
	}
	if (rc == 0)
		rc = local ? connect_unix(wire, server + strlen(UNIX_PREFIX), &limit)
			   : connect_tcp(wire, host, port, &limit);
	if (rc == 0 && tls && tls->context)
		rc = shake_hands(wire, tls, host, &limit);
	if (rc == 0 && auth)
		rc = give_password(wire, auth, timeout_ns);
	free(copy);
	if (rc < 0)
		fth_kv_wire_close(wire);
	return rc;
}

void fth_kv_wire_close(struct fth_kv_wire *wire)
{
	tls_detach(wire->session);
	wire->session = NULL;
	if (wire->fd >= 0)
		close(wire->fd);
	wire->fd = -1;
}

/* ---- TLS ---- */

int fth_kv_tls_open(struct fth_kv_tls *tls)
{
	return tls->on || tls->ca ? tls_open_client(tls->ca, &tls->context) : 0;
}

void fth_kv_tls_close(struct fth_kv_tls *tls)
{
	tls_close(tls->context);
	tls->context = NULL;
}

/* ---- talking ---- */

ssize_t fth_kv_wire_read(struct fth_kv_wire *wire, void *to, size_t n)
{
	return wire->session ? tls_read(wire->session, to, n) : recv(wire->fd, to, n, 0);
}

ssize_t fth_kv_wire_send(struct fth_kv_wire *wire, const void *from, size_t n)
{
	return wire->session ? tls_send(wire->session, from, n)
			     : send(wire->fd, from, n, MSG_NOSIGNAL);
}

bool fth_kv_wire_pending(const struct fth_kv_wire *wire)
{
	return wire->session && tls_pending(wire->session);
}

static int send_all(struct fth_kv_wire *wire, const char *text, size_t length,
		    const struct limit *limit)
{
	while (length > 0) {
		ssize_t n = fth_kv_wire_send(wire, text, length);
		int rc = 0;

		if (n < 0 && errno == EAGAIN)
			rc = wire_wait(wire, POLLOUT, limit);
		else if (n < 0)
			rc = fth_fail(errno, "%s: %s", wire->server, strerror(errno));
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

static int take_answer(struct fth_kv_wire *wire, const struct limit *limit, char *text)
{
	size_t have = 0;
	int rc = 0;

	while (rc == 0) {
		ssize_t n = fth_kv_wire_read(wire, text + have, ANSWER_MAX - 1 - have);

		if (n > 0) {
			have += (size_t)n;
			text[have] = 0;
			if (ends(text, have))
				return 0;
			if (have == ANSWER_MAX - 1)
				rc = fth_fail(EPROTO, "%s: the reply is longer than %u bytes",
					      wire->server, ANSWER_MAX);
		} else if (n == 0) {
			rc = fth_fail(ECONNRESET, "%s closed the connection", wire->server);
		} else if (errno == EAGAIN) {
			rc = wire_wait(wire, POLLIN, limit);
		} else {
			rc = fth_fail(errno, "%s: %s", wire->server, strerror(errno));
		}
	}
	return rc;
}

int fth_kv_wire_ask(struct fth_kv_wire *wire, const char *request, size_t length,
		    uint64_t timeout_ns, char **answer)
{
	struct limit limit = limit_of(timeout_ns);
	int rc = send_all(wire, request, length, &limit);

	*answer = rc == 0 ? malloc(ANSWER_MAX) : NULL;
	if (rc == 0)
		rc = *answer ? take_answer(wire, &limit, *answer) : -ENOMEM;
	if (rc < 0) {
		free(*answer);
		*answer = NULL;
	}
	return rc;
}
