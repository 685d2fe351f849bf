/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/net/listen.h"
#include "base/port.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 1024

static unsigned port_of(int fd)
{
	struct sockaddr_storage bound;
	socklen_t length = sizeof(bound);

	if (getsockname(fd, (struct sockaddr *)&bound, &length) < 0)
		return 0;
	if (bound.ss_family == AF_INET6)
		return ntohs(((struct sockaddr_in6 *)&bound)->sin6_port);
	return bound.ss_family == AF_INET ? ntohs(((struct sockaddr_in *)&bound)->sin_port) : 0;
}

/* Only this machine can reach it: a Unix socket, or one that is bound to a loopback address. */
static bool is_local(int fd)
{
	struct sockaddr_storage bound;
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&bound;
	const struct in6_addr *v6 = &((const struct sockaddr_in6 *)&bound)->sin6_addr;
	socklen_t length = sizeof(bound);

	if (getsockname(fd, (struct sockaddr *)&bound, &length) < 0)
		return false;
	if (bound.ss_family == AF_INET)
		return ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	if (bound.ss_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(v6) ||
		       (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == IN_LOOPBACKNET);
	return bound.ss_family == AF_UNIX;
}

static int keep(struct fth_listen *l, int fd, const char *where)
{
	if (fd >= 0 && l->local_only && !is_local(fd)) {
		close(fd);
		return fth_fail(EACCES, "%s: other machines can reach this address%s", where,
				l->local_only);
	}
	if (fd < 0 || listen(fd, BACKLOG) < 0) {
		int err = errno;

		if (fd >= 0)
			close(fd);
		return fth_fail(err, "%s: %s", where, strerror(err));
	}
	l->fd[l->count++] = fd;
	if (!l->port)
		l->port = port_of(fd);
	return 0;
}

static int listen_unix(struct fth_listen *l, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct stat st;
	int fd, rc;

	if (strlen(path) >= sizeof(address.sun_path))
		return fth_fail(ENAMETOOLONG, "unix:%s: the socket path is longer than %zu bytes",
				path, sizeof(address.sun_path) - 1);
	memcpy(address.sun_path, path, strlen(path));
	/* What a server that was killed has left; a socket that somebody listens on stays. */
	fd = fth_fd_high(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd >= 0 && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode)) {
		if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ||
		    errno != ECONNREFUSED) {
			close(fd);
			return fth_fail(EADDRINUSE, "unix:%s: another process is listening on it",
					path);
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
	rc = keep(l, fd, path);
	if (rc == 0)
		l->unlink[l->count - 1] = strdup(path);
	return rc;
}

static int bind_address(const struct addrinfo *a, const char *where)
{
	int one = 1, rc;
	int fd = fth_fd_high(socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
				    a->ai_protocol));

	if (fd < 0)
		return fth_fail(errno, "%s: %s", where, strerror(errno));
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (a->ai_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(fd, a->ai_addr, a->ai_addrlen) == 0)
		return fd;
	rc = fth_fail(errno, "%s: %s", where, strerror(errno));
	close(fd);
	return rc;
}

static int look_up(const char *where, struct addrinfo **found)
{
	struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
	const char *colon = strrchr(where, ':'), *name = where;
	char host[256] = "";
	size_t length;
	int rc;

	if (!colon)
		return fth_fail(EINVAL, "%s: expected HOST:PORT, unix:PATH or fd:N", where);
	rc = fth_port_check(where);
	if (rc < 0)
		return rc;
	length = (size_t)(colon - where);
	if (length >= 2 && where[0] == '[' && where[length - 1] == ']') {
		name++;
		length -= 2;
	}
	if (length >= sizeof(host))
		return fth_fail(ENAMETOOLONG, "%s: the host name is longer than %zu bytes", where,
				sizeof(host) - 1);
	memcpy(host, name, length);
	rc = getaddrinfo(*host ? host : NULL, colon + 1, &hints, found);
	if (rc != 0)
		return fth_fail(EADDRNOTAVAIL, "%s: %s", where, gai_strerror(rc));
	return 0;
}

/* All addresses of a name; with port 0 one of them, since each would get a port of its own. */
static int listen_tcp(struct fth_listen *l, const char *where)
{
	bool any_port = strcmp(strrchr(where, ':') ? strrchr(where, ':') : "", ":0") == 0;
	unsigned before = l->count;
	struct addrinfo *found;
	int rc = look_up(where, &found);

	if (rc < 0)
		return rc;
	for (const struct addrinfo *a = found; a && l->count < FTH_LISTEN_MAX; a = a->ai_next) {
		int fd;

		if (any_port && l->count > before)
			break;
		fd = bind_address(a, where);
		rc = fd < 0 ? fd : keep(l, fd, where);
		/* A machine without IPv6 has the address all the same. */
		if (rc < 0 && rc != -EADDRNOTAVAIL && rc != -EAFNOSUPPORT)
			break;
	}
	freeaddrinfo(found);
	return l->count > before && (rc == 0 || rc == -EADDRNOTAVAIL || rc == -EAFNOSUPPORT) ? 0
											     : rc;
}

int fth_listen_one(const char *where, int *fd, unsigned *port)
{
	struct addrinfo *found;
	int rc = look_up(where, &found);

	if (rc < 0)
		return rc;
	*fd = bind_address(found, where);
	freeaddrinfo(found);
	if (*fd < 0)
		return *fd;
	if (listen(*fd, BACKLOG) < 0) {
		rc = fth_fail(errno, "%s: %s", where, strerror(errno));
		close(*fd);
		return rc;
	}
	*port = port_of(*fd);
	return 0;
}

/* A socket that is bound already, as systemd hands it over. */
static int listen_fd(struct fth_listen *l, const char *where)
{
	char *end;
	long fd = strtol(where + 3, &end, 10);
	struct stat st;
	int type = 0;
	socklen_t length = sizeof(type);

	if (end == where + 3 || *end || fd < 3 || fd > INT32_MAX || fstat((int)fd, &st) < 0 ||
	    !S_ISSOCK(st.st_mode) || getsockopt((int)fd, SOL_SOCKET, SO_TYPE, &type, &length) < 0 ||
	    type != SOCK_STREAM)
		return fth_fail(
			EBADF,
			"%s: expected a listening stream socket with a descriptor of at least 3",
			where);
	if (fcntl((int)fd, F_SETFL, O_NONBLOCK) < 0 || fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
		return fth_fail(errno, "%s: %s", where, strerror(errno));
	return keep(l, (int)fd, where);
}

int fth_listen_open(struct fth_listen *l, const char *where)
{
	if (l->count == FTH_LISTEN_MAX)
		return fth_fail(EINVAL, "more than %u sockets to listen on", FTH_LISTEN_MAX);
	if (strncmp(where, "unix:", 5) == 0)
		return listen_unix(l, where + 5);
	if (strncmp(where, "fd:", 3) == 0)
		return listen_fd(l, where);
	return listen_tcp(l, where);
}

void fth_listen_close(struct fth_listen *l)
{
	for (unsigned i = 0; i < l->count; i++) {
		close(l->fd[i]);
		if (l->unlink[i])
			unlink(l->unlink[i]);
		free(l->unlink[i]);
	}
	l->count = 0;
}
