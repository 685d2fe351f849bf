/* SPDX-License-Identifier: BSD-2-Clause */
#include "kv_load_internal.h"

#include "base/port.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define UNIX_PREFIX  "unix:"
#define STAT_SECONDS 10
#define ANSWER_BYTES 65536u
#define HOST_BYTES   256u
#define DEFAULT_PORT "11211"

static int connect_unix(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		int err = errno;

		close(fd);
		return -err;
	}
	return fd;
}

/* "HOST:PORT", "HOST" or "[HOST]:PORT" to its parts. */
static bool split_server(const char *server, char host[HOST_BYTES], const char **port)
{
	const char *colon = strrchr(server, ':');
	size_t length = colon ? (size_t)(colon - server) : strlen(server);

	if (*server == '[' && length >= 2 && server[length - 1] == ']') {
		server++;
		length -= 2;
	}
	if (length >= HOST_BYTES)
		return false;
	memcpy(host, server, length);
	host[length] = '\0';
	*port = colon ? colon + 1 : DEFAULT_PORT;
	return true;
}

static int connect_address(const struct addrinfo *address)
{
	int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0)
		return -errno;
	if (connect(fd, address->ai_addr, address->ai_addrlen) < 0) {
		int err = errno;

		close(fd);
		return -err;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static int connect_tcp(const char *server)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
	char host[HOST_BYTES];
	const char *port;
	int fd = -ECONNREFUSED;

	if (!split_server(server, host, &port) || getaddrinfo(host, port, &hints, &list) != 0)
		return -EHOSTUNREACH;
	for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
		fd = connect_address(a);
	freeaddrinfo(list);
	return fd;
}

int kv_load_connect(const char *server)
{
	size_t prefix = sizeof(UNIX_PREFIX) - 1;
	bool local = strncmp(server, UNIX_PREFIX, prefix) == 0;
	int fd = local ? 0 : fth_port_check(server);

	if (fd < 0)
		return fd;
	fd = local ? connect_unix(server + prefix) : connect_tcp(server);
	return fd < 0 ? fth_fail(-fd, "cannot connect to %s: %s", server, strerror(-fd)) : fd;
}

/* ---- stats ---- */

/* Read until END or the end. The bytes, or a negative errno. */
static int read_stats(int fd, char *buf, size_t room)
{
	size_t used = 0;

	while (used + 1 < room) {
		ssize_t n = recv(fd, buf + used, room - 1 - used, 0);

		if (n <= 0)
			return n < 0 ? -errno : -ECONNRESET;
		used += (size_t)n;
		buf[used] = '\0';
		if (used >= 5 && strcmp(buf + used - 5, "END\r\n") == 0)
			return (int)used;
	}
	return -EMSGSIZE;
}

static int find_stat(const char *text, const char *name, uint64_t *value)
{
	size_t length = strlen(name);

	while ((text = strstr(text, "STAT "))) {
		text += 5;
		if (strncmp(text, name, length) == 0 && text[length] == ' ') {
			*value = strtoull(text + length + 1, NULL, 10);
			return 0;
		}
	}
	return -ENOENT;
}

int fth_kv_load_stat(const char *server, const char *what, const char *name, uint64_t *value)
{
	struct timeval limit = {.tv_sec = STAT_SECONDS};
	char *answer, request[64];
	int fd = kv_load_connect(server), length, rc;

	if (fd < 0)
		return fd;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	length = snprintf(request, sizeof(request), "stats%s%s\r\n", *what ? " " : "", what);
	answer = malloc(ANSWER_BYTES);
	rc = answer ? 0 : -ENOMEM;
	if (rc == 0 && send(fd, request, (size_t)length, MSG_NOSIGNAL) != length)
		rc = -EPIPE;
	if (rc == 0)
		rc = read_stats(fd, answer, ANSWER_BYTES);
	if (rc > 0)
		rc = find_stat(answer, name, value);
	free(answer);
	close(fd);
	return rc;
}
