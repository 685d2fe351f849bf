/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/remote/remote.h"

#include "base/port.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define IDLE_MAX 8u

/* ---- connecting ---- */

static int connect_to(const struct sockaddr *address, socklen_t length, int family)
{
	int fd = fth_fd_high(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)), one = 1, rc;

	if (fd < 0)
		return -errno;
	if (connect(fd, address, length) < 0) {
		rc = -errno;
		close(fd);
		return rc;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static int connect_unix(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path));
	return connect_to((struct sockaddr *)&address, sizeof(address), AF_UNIX);
}

static int connect_tcp(const char *where)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
	const char *colon = strrchr(where, ':');
	size_t length = colon ? (size_t)(colon - where) : 0;
	char host[256] = "";
	int fd = -EINVAL;

	if (!colon || length >= sizeof(host))
		return -EINVAL;
	if (length >= 2 && where[0] == '[' && where[length - 1] == ']')
		memcpy(host, where + 1, length - 2);
	else
		memcpy(host, where, length);
	if (getaddrinfo(host[0] == '\0' ? "localhost" : host, colon + 1, &hints, &found) != 0)
		return -EADDRNOTAVAIL;
	for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next)
		fd = connect_to(a->ai_addr, a->ai_addrlen, a->ai_family);
	freeaddrinfo(found);
	return fd;
}

static int dial(const char *where)
{
	bool local = strncmp(where, "unix:", 5) == 0;
	int fd = local ? 0 : fth_port_check(where);

	if (fd < 0)
		return fd;
	fd = local ? connect_unix(where + 5) : connect_tcp(where);
	return fd < 0 ? fth_fail(-fd, "storage daemon at %s: %s", where, strerror(-fd)) : fd;
}

/* ---- connections ---- */

static void *grow(void *user, void *bytes, size_t old_room, size_t room)
{
	(void)user;
	(void)old_room;
	return realloc(bytes, room);
}

static void count_bytes(struct remote_conn *c)
{
	atomic_fetch_add_explicit(&c->remote->sent, c->socket.sent - c->counted_sent,
				  memory_order_relaxed);
	atomic_fetch_add_explicit(&c->remote->received, c->socket.received - c->counted_received,
				  memory_order_relaxed);
	c->counted_sent = c->socket.sent;
	c->counted_received = c->socket.received;
}

static void conn_free(struct remote_conn *c)
{
	count_bytes(c);
	if (c->socket.fd >= 0)
		close(c->socket.fd);
	free(c->out.bytes);
	free(c->in);
	free(c);
}

int remote_send(struct remote_conn *c)
{
	int rc = wire_send_frame(&c->socket, &c->out, fth_now_ns() + REMOTE_TIMEOUT_NS);

	c->broken |= rc < 0;
	return rc < 0 ? fth_fail_in(rc, "storage daemon") : 0;
}

static int take_payload(struct remote_conn *c, const unsigned char *header, uint32_t length,
			uint64_t deadline)
{
	int rc;

	if (length > c->in_room) {
		unsigned char *larger = realloc(c->in, length);

		if (!larger)
			return -ENOMEM;
		c->in = larger;
		c->in_room = length;
	}
	rc = wire_receive(&c->socket, c->in, length, deadline);
	if (rc == 0)
		rc = wire_verify(header, !c->in ? (void *)c : c->in, length);
	c->payload = (struct wire_in){c->in, length, 0, false};
	return rc;
}

/* An error that the daemon reports. */
static int told(struct remote_conn *c)
{
	int rc = (int)wire_get_u32(&c->payload);
	char text[FTH_ERROR_TEXT_MAX];

	wire_get_string(&c->payload, text, sizeof(text));
	if (!wire_get_end(&c->payload) || rc >= 0 || rc < -4095)
		return fth_fail(EBADMSG, "the storage daemon sent an invalid error code");
	return fth_fail(-rc, "%s", text);
}

int remote_receive(struct remote_conn *c, uint64_t deadline, enum wire_type *type)
{
	unsigned char header[WIRE_HEADER];
	struct wire_frame frame = {0};
	int rc = wire_receive(&c->socket, header, sizeof(header), deadline);

	if (rc == 0)
		rc = wire_header(header, WIRE_PAYLOAD_MAX, &frame);
	if (rc == 0)
		rc = take_payload(c, header, frame.length, deadline);
	if (rc < 0) {
		c->broken = true;
		return fth_fail_in(rc, "storage daemon");
	}
	*type = frame.type;
	return frame.type == WIRE_ERROR ? told(c) : 0;
}

int remote_ask(struct remote_conn *c, enum wire_type answer)
{
	enum wire_type type;
	int rc = remote_send(c);

	if (rc == 0)
		rc = remote_receive(c, fth_now_ns() + REMOTE_TIMEOUT_NS, &type);
	if (rc == 0 && type != answer) {
		c->broken = true;
		return fth_fail(EBADMSG, "unexpected message from the storage daemon");
	}
	return rc;
}

static int greet(struct remote_conn *c)
{
	uint32_t version;
	int rc;

	wire_begin(&c->out, WIRE_HELLO);
	wire_u32(&c->out, WIRE_VERSION);
	rc = remote_ask(c, WIRE_WELCOME);
	if (rc < 0)
		return rc;
	version = wire_get_u32(&c->payload);
	c->remote->budget = wire_get_u64(&c->payload);
	if (!wire_get_end(&c->payload) || version != WIRE_VERSION)
		return fth_fail(EPROTO, "the storage daemon uses protocol version %u, expected %u",
				version, WIRE_VERSION);
	return 0;
}

static int conn_new(struct remote *r, struct remote_conn **out)
{
	struct remote_conn *c = calloc(1, sizeof(*c));
	int rc;

	*out = NULL;
	if (!c)
		return -ENOMEM;
	c->remote = r;
	c->out.grow = grow;
	c->socket.fd = dial(r->where);
	rc = c->socket.fd < 0 ? c->socket.fd : greet(c);
	if (rc < 0) {
		conn_free(c);
		return rc;
	}
	*out = c;
	return 0;
}

/* A connection that the daemon has closed meanwhile is readable. */
static bool is_alive(const struct remote_conn *c)
{
	struct pollfd p = {.fd = c->socket.fd, .events = POLLIN};

	return poll(&p, 1, 0) == 0;
}

int remote_take(struct remote *r, struct remote_conn **out)
{
	struct remote_conn *c;

	do {
		pthread_mutex_lock(&r->lock);
		c = r->idle;
		if (c) {
			r->idle = c->next;
			r->idle_count--;
		}
		pthread_mutex_unlock(&r->lock);
		if (c && !is_alive(c)) {
			conn_free(c);
			continue;
		}
		break;
	} while (true);
	*out = c;
	return c ? 0 : conn_new(r, out);
}

void remote_give(struct remote_conn *c)
{
	struct remote *r;

	if (!c)
		return;
	r = c->remote;
	count_bytes(c);
	pthread_mutex_lock(&r->lock);
	if (!c->broken && r->idle_count < IDLE_MAX) {
		c->next = r->idle;
		r->idle = c;
		r->idle_count++;
		c = NULL;
	}
	pthread_mutex_unlock(&r->lock);
	if (c)
		conn_free(c);
}

int remote_open(const char *where, struct remote **out)
{
	struct remote *r = calloc(1, sizeof(*r));
	struct remote_conn *c = NULL;
	int rc = -ENOMEM;

	*out = NULL;
	if (!r)
		return -ENOMEM;
	pthread_mutex_init(&r->lock, NULL);
	r->where = strdup(where);
	if (r->where)
		rc = remote_take(r, &c);
	remote_give(c);
	if (rc < 0) {
		remote_close(r);
		return rc;
	}
	*out = r;
	return 0;
}

void remote_close(struct remote *r)
{
	if (!r)
		return;
	while (r->idle) {
		struct remote_conn *next = r->idle->next;

		conn_free(r->idle);
		r->idle = next;
	}
	pthread_mutex_destroy(&r->lock);
	free(r->where);
	free(r);
}
