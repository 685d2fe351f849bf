/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One thread accepts; each connection has a thread that carries bytes both ways. The socket is in a
 * folder that only this user can enter.
 */
#include "kv_tunnel.h"

#include "kv_load_internal.h"

#include "fathom/base/error.h"

#include "kv/server/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define CARRY_BYTES  65536u
#define HANDSHAKE_S  10
#define ANSWER_BYTES 64

/* A connection. */
struct carrier {
	struct carrier *next;
	struct fth_kv_tunnel *tunnel;
	pthread_t thread;
	int local, remote; /* sockets, closed when the tunnel is */
	void *session;	   /* of TLS; NULL: none */
};

struct fth_kv_tunnel {
	const struct fth_kv_tunnel_options *options;
	const char *target; /* the server */
	char *host;	    /* that its certificate must name; NULL: any */
	char folder[32], server[64];
	void *tls; /* NULL: none */
	int listener, stop[2];
	pthread_t thread;
	bool runs;
	struct carrier *carriers; /* of the accepting thread until it has ended */
};

/* Bytes on their way in one direction. */
struct flow {
	size_t from, to;
	char data[CARRY_BYTES];
};

/* ---- the server's side ---- */

static ssize_t remote_read(const struct carrier *c, void *to, size_t n)
{
	return c->session ? tls_read(c->session, to, n) : recv(c->remote, to, n, 0);
}

static ssize_t remote_send(const struct carrier *c, const void *from, size_t n)
{
	return c->session ? tls_send(c->session, from, n) : send(c->remote, from, n, MSG_NOSIGNAL);
}

/* memcached's way: a set of any key, whose value is the password. The socket blocks. */
static int say_password(const struct carrier *c, const char *auth)
{
	char request[1024], answer[ANSWER_BYTES] = "";
	int length = snprintf(request, sizeof(request), "set auth 0 0 %zu\r\n%s\r\n", strlen(auth),
			      auth);
	ssize_t n;

	if (length < 0 || (size_t)length >= sizeof(request))
		return fth_fail(EINVAL, "the password is too long");
	n = remote_send(c, request, (size_t)length);
	if (n == length)
		n = remote_read(c, answer, sizeof(answer) - 1);
	if (n <= 0)
		return fth_fail(EPROTO, "%s: no reply to the authentication", c->tunnel->target);
	answer[strcspn(answer, "\r\n")] = 0;
	return strcmp(answer, "STORED") == 0
		       ? 0
		       : fth_fail(EACCES, "%s: %s", c->tunnel->target, answer);
}

static int reach_server(struct carrier *c)
{
	const struct fth_kv_tunnel *t = c->tunnel;
	struct timeval limit = {.tv_sec = HANDSHAKE_S}, none = {0};
	int rc;

	c->remote = kv_load_connect(t->target);
	if (c->remote < 0)
		return c->remote;
	(void)setsockopt(c->remote, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	(void)setsockopt(c->remote, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	rc = t->tls ? tls_connect(t->tls, c->remote, t->host, &c->session) : 0;
	if (rc == 0 && t->options->auth)
		rc = say_password(c, t->options->auth);
	(void)setsockopt(c->remote, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
	(void)setsockopt(c->remote, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none));
	return rc;
}

static void leave_server(struct carrier *c)
{
	tls_detach(c->session);
	c->session = NULL;
	if (c->remote >= 0)
		close(c->remote);
	c->remote = -1;
}

/* ---- carrying ---- */

/* What a read or a write says: 1 it moved bytes, 0 not now, -1 this is the end. */
static int moved(ssize_t n)
{
	if (n > 0)
		return 1;
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

/* The next step of a flow has moved n bytes. */
static int step(struct flow *f, ssize_t n)
{
	if (n > 0 && f->from == f->to) {
		f->from = 0;
		f->to = (size_t)n;
	} else if (n > 0) {
		f->from += (size_t)n;
	}
	return moved(n);
}

static int carry_up(struct carrier *c, struct flow *f)
{
	return step(f, f->from == f->to ? recv(c->local, f->data, CARRY_BYTES, 0)
					: remote_send(c, f->data + f->from, f->to - f->from));
}

static int carry_down(struct carrier *c, struct flow *f)
{
	return step(f, f->from == f->to
			       ? remote_read(c, f->data, CARRY_BYTES)
			       : send(c->local, f->data + f->from, f->to - f->from, MSG_NOSIGNAL));
}

static void wait_for_either(const struct carrier *c, const struct flow *up, const struct flow *down)
{
	struct pollfd p[2] = {{.fd = c->local}, {.fd = c->remote}};

	if (up->from == up->to)
		p[0].events |= POLLIN;
	else
		p[1].events |= POLLOUT;
	if (down->from == down->to)
		p[1].events |= POLLIN;
	else
		p[0].events |= POLLOUT;
	(void)poll(p, 2, -1);
}

static void carry(struct carrier *c)
{
	struct flow *flows = calloc(2, sizeof(*flows));
	int up = 0, down = 0;

	if (!flows)
		return;
	(void)fcntl(c->local, F_SETFL, O_NONBLOCK);
	(void)fcntl(c->remote, F_SETFL, O_NONBLOCK);
	while (up >= 0 && down >= 0) {
		up = carry_up(c, &flows[0]);
		down = carry_down(c, &flows[1]);
		if (up == 0 && down == 0)
			wait_for_either(c, &flows[0], &flows[1]);
	}
	free(flows);
}

static void *carrier_main(void *context)
{
	struct carrier *c = context;

	if (reach_server(c) == 0)
		carry(c);
	/* The descriptors stay until the tunnel is closed, which may be about to use them. */
	(void)shutdown(c->local, SHUT_RDWR);
	if (c->remote >= 0)
		(void)shutdown(c->remote, SHUT_RDWR);
	return NULL;
}

/* ---- the tool's side ---- */

static void *accept_main(void *context)
{
	struct fth_kv_tunnel *t = context;
	struct pollfd p[2] = {{.fd = t->listener, .events = POLLIN},
			      {.fd = t->stop[0], .events = POLLIN}};

	while (poll(p, 2, -1) >= 0 || errno == EINTR) {
		struct carrier *c;
		int fd;

		if (p[1].revents)
			break;
		fd = accept4(t->listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		c = calloc(1, sizeof(*c));
		if (c)
			*c = (struct carrier){.tunnel = t, .local = fd, .remote = -1};
		if (!c || pthread_create(&c->thread, NULL, carrier_main, c) != 0) {
			close(fd);
			free(c);
			continue;
		}
		c->next = t->carriers;
		t->carriers = c;
	}
	return NULL;
}

static int listen_on(struct fth_kv_tunnel *t)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	strcpy(t->folder, "/tmp/fathom-kv-XXXXXX");
	if (!mkdtemp(t->folder)) {
		t->folder[0] = 0;
		return fth_fail(errno, "cannot create a directory in /tmp: %s", strerror(errno));
	}
	snprintf(t->server, sizeof(t->server), "unix:%s/socket", t->folder);
	strcpy(address.sun_path, t->server + strlen("unix:"));
	t->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (t->listener < 0 || bind(t->listener, (struct sockaddr *)&address, sizeof(address)) ||
	    listen(t->listener, 1024) || pipe2(t->stop, O_CLOEXEC))
		return fth_fail(errno, "%s: %s", t->server, strerror(errno));
	return 0;
}

/* Signals are for the threads of the tool; a write to a closed connection is no reason to end. */
static int start_accepting(struct fth_kv_tunnel *t)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	rc = -pthread_create(&t->thread, NULL, accept_main, t);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	t->runs = rc == 0;
	return rc < 0 ? fth_fail(-rc, "cannot start a thread: %s", strerror(-rc)) : 0;
}

/* The name of "HOST:PORT", "[HOST]:PORT" or "HOST"; NULL for a Unix socket. */
static char *host_of(const char *server)
{
	const char *colon = strrchr(server, ':');
	size_t length = colon ? (size_t)(colon - server) : strlen(server);

	if (strncmp(server, "unix:", 5) == 0)
		return NULL;
	if (*server == '[' && length >= 2 && server[length - 1] == ']')
		return strndup(server + 1, length - 2);
	return strndup(server, length);
}

int fth_kv_tunnel_open(const struct fth_kv_tunnel_options *options, const char **server,
		       struct fth_kv_tunnel **out)
{
	struct fth_kv_tunnel *t;
	struct carrier probe = {.remote = -1};
	int rc = 0;

	*out = NULL;
	if (!options->tls && !options->ca && !options->auth)
		return 0;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	*t = (struct fth_kv_tunnel){.options = options,
				    .target = *server,
				    .host = host_of(*server),
				    .listener = -1,
				    .stop = {-1, -1}};
	if (options->tls || options->ca)
		rc = tls_open_client(options->ca, &t->tls);
	if (rc == 0) {
		probe.tunnel = t;
		rc = reach_server(&probe);
		leave_server(&probe);
	}
	if (rc == 0)
		rc = listen_on(t);
	if (rc == 0)
		rc = start_accepting(t);
	if (rc < 0) {
		fth_kv_tunnel_close(t);
		return rc;
	}
	*server = t->server;
	*out = t;
	return 0;
}

static void end_carrier(struct carrier *c)
{
	(void)shutdown(c->local, SHUT_RDWR);
	pthread_join(c->thread, NULL);
	leave_server(c);
	close(c->local);
	free(c);
}

void fth_kv_tunnel_close(struct fth_kv_tunnel *tunnel)
{
	if (!tunnel)
		return;
	if (tunnel->runs) {
		close(tunnel->stop[1]);
		tunnel->stop[1] = -1;
		pthread_join(tunnel->thread, NULL);
	}
	while (tunnel->carriers) {
		struct carrier *c = tunnel->carriers;

		tunnel->carriers = c->next;
		end_carrier(c);
	}
	if (tunnel->listener >= 0)
		close(tunnel->listener);
	for (unsigned i = 0; i < 2; i++)
		if (tunnel->stop[i] >= 0)
			close(tunnel->stop[i]);
	if (tunnel->folder[0]) {
		(void)unlink(tunnel->server + strlen("unix:"));
		(void)rmdir(tunnel->folder);
	}
	tls_close(tunnel->tls);
	free(tunnel->host);
	free(tunnel);
}
