/* SPDX-License-Identifier: BSD-2-Clause */
/* Sockets to listen on. */
#include "kv/server/server.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 1024

static int keep(struct fth_kv_server *server, int fd, const char *where)
{
	if (fd < 0 || listen(fd, BACKLOG) < 0) {
		int err = errno;

		if (fd >= 0)
			close(fd);
		return fth_fail(err, "%s: %s", where, strerror(err));
	}
	server->listen[server->listen_count++] = fd;
	return 0;
}

static int listen_unix(struct fth_kv_server *server, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct stat st;
	int fd, rc;

	if (strlen(path) >= sizeof(address.sun_path))
		return fth_fail(ENAMETOOLONG, "unix:%s: the path of a socket has at most %zu bytes",
				path, sizeof(address.sun_path) - 1);
	memcpy(address.sun_path, path, strlen(path));
	/* What a server that was killed has left; a socket that somebody listens on stays. */
	fd = fth_fd_high(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd >= 0 && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode)) {
		if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
			close(fd);
			return fth_fail(EADDRINUSE, "unix:%s: somebody listens there", path);
		}
		unlink(path);
		close(fd);
		fd = fth_fd_high(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	}
	if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		rc = fth_fail(errno, "unix:%s: %s", path, strerror(errno));
		close(fd);
		return rc;
	}
	rc = keep(server, fd, path);
	if (rc == 0)
		server->unlink[server->listen_count - 1] = strdup(path);
	return rc;
}

static int listen_address(struct fth_kv_server *server, const struct addrinfo *a, const char *where)
{
	struct sockaddr_storage bound;
	socklen_t length = sizeof(bound);
	int one = 1, fd, rc;

	fd = fth_fd_high(socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
				a->ai_protocol));
	if (fd >= 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd >= 0 && a->ai_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (fd >= 0 && bind(fd, a->ai_addr, a->ai_addrlen) < 0) {
		rc = fth_fail(errno, "%s: %s", where, strerror(errno));
		close(fd);
		return rc;
	}
	rc = keep(server, fd, where);
	if (rc == 0 && !server->port && getsockname(fd, (struct sockaddr *)&bound, &length) == 0)
		server->port = ntohs(bound.ss_family == AF_INET6
					     ? ((struct sockaddr_in6 *)&bound)->sin6_port
					     : ((struct sockaddr_in *)&bound)->sin_port);
	return rc;
}

static int listen_tcp(struct fth_kv_server *server, const char *where)
{
	struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM}, *found;
	const char *colon = strrchr(where, ':');
	char host[256] = "";
	size_t length;
	int rc;

	if (!colon)
		return fth_fail(EINVAL, "%s: expected HOST:PORT, unix:PATH or fd:N", where);
	length = (size_t)(colon - where);
	if (length >= 2 && where[0] == '[' && where[length - 1] == ']') {
		where++;
		length -= 2;
	}
	if (length >= sizeof(host))
		return fth_fail(ENAMETOOLONG, "%s: too long a name", where);
	memcpy(host, where, length);
	rc = getaddrinfo(*host ? host : NULL, colon + 1, &hints, &found);
	if (rc != 0)
		return fth_fail(EADDRNOTAVAIL, "%s: %s", where, gai_strerror(rc));
	rc = 0;
	for (const struct addrinfo *a = found;
	     a && rc == 0 && server->listen_count < FTH_KV_LISTEN_MAX; a = a->ai_next)
		rc = listen_address(server, a, where);
	freeaddrinfo(found);
	return rc;
}

int listen_open(struct fth_kv_server *server, const char *where)
{
	if (server->listen_count == FTH_KV_LISTEN_MAX)
		return fth_fail(EINVAL, "more than %u sockets to listen on", FTH_KV_LISTEN_MAX);
	if (strncmp(where, "unix:", 5) == 0)
		return listen_unix(server, where + 5);
	if (strncmp(where, "fd:", 3) == 0) {
		int fd = atoi(where + 3);

		if (fd < 3 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
			return fth_fail(EBADF, "%s: not a socket to listen on", where);
		return keep(server, fd, where);
	}
	return listen_tcp(server, where);
}

void listen_close(struct fth_kv_server *server)
{
	for (unsigned i = 0; i < server->listen_count; i++) {
		close(server->listen[i]);
		if (server->unlink[i])
			unlink(server->unlink[i]);
		free(server->unlink[i]);
	}
	server->listen_count = 0;
}
