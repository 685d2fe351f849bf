/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening and closing a connection of the client: the addresses of its server one after the other,
 * then TLS.
 *
 *	CLOSED --dial--> CONNECTING --connected--> HANDSHAKE (with TLS) --> OPEN
 *	   ^----------------- the last address has failed ------/
 */
#include "kv/client/client.h"

#include "base/net/tls.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

static void close_socket(struct kvc_conn *conn)
{
	tls_detach(conn->session);
	conn->session = NULL;
	if (conn->fd >= 0)
		close(conn->fd);
	conn->fd = -1;
	conn->state = KVC_CLOSED;
}

void kvc_conn_close(struct kvc_conn *conn)
{
	close_socket(conn);
	conn->blocked = conn->pending = false;
	conn->in.from = conn->in.to = conn->out.from = conn->out.to = 0;
}

/* The server is down: nothing can be sent. */
static void conn_refused(struct kvc_conn *conn, int error, const char *reason)
{
	conn->stats.breaks++;
	kvc_server_failed(conn->server, error, reason);
	kvc_conn_close(conn);
	conn->tried = 0;
	kvc_conn_fail_gathered(conn, -EHOSTDOWN);
}

static void conn_opened(struct kvc_conn *conn)
{
	int one = 1;

	if (conn->server->port)
		(void)setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	conn->state = KVC_OPEN;
	conn->tried = 0;
	conn->heard = false;
	conn->heard_ns = fth_now_ns();
	conn->stats.connects++;
	if (conn->options->auth &&
	    kvc_flight_password(&conn->flight, conn->options->auth, &conn->out) < 0)
		kvc_conn_fail(conn, ENOMEM);
}

static int conn_try(struct kvc_conn *conn)
{
	const struct sockaddr *to =
		(const struct sockaddr *)&conn->server->at[conn->address].address;
	int fd = fth_fd_high(socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));

	if (fd < 0)
		return -errno;
	if (connect(fd, to, conn->server->at[conn->address].length) < 0 && errno != EINPROGRESS) {
		int err = errno;

		close(fd);
		return -err;
	}
	conn->fd = fd;
	return 0;
}

/* The attempt with this address has failed: another, or none is left. */
void kvc_conn_next_address(struct kvc_conn *conn, int error, const char *reason)
{
	close_socket(conn);
	conn->address = (conn->address + 1) % conn->server->addresses;
	if (++conn->tried == conn->server->addresses)
		conn_refused(conn, error, reason);
}

void kvc_conn_dial(struct kvc_conn *conn)
{
	do {
		int rc = conn_try(conn);

		if (rc == 0) {
			conn->state = KVC_CONNECTING;
			conn->heard_ns = fth_now_ns();
			return;
		}
		kvc_conn_next_address(conn, -rc, NULL);
	} while (conn->tried);
}

static void begin_handshake(struct kvc_conn *conn)
{
	conn->session = tls_attach_client(conn->tls, conn->fd, kvc_server_tls_name(conn->server));
	if (!conn->session) {
		kvc_conn_next_address(conn, ENOMEM, NULL);
		return;
	}
	conn->state = KVC_HANDSHAKE;
	conn->awaits = POLLOUT;
	conn->heard_ns = fth_now_ns(); /* the whole handshake has timeout_ms */
}

/* Without the lock meanwhile: in this state only the leader changes the connection. */
void kvc_conn_handshake(struct kvc_conn *conn)
{
	int rc;

	kvc_conn_unlock(conn);
	rc = tls_handshake(conn->session, &conn->awaits);
	pthread_mutex_lock(&conn->lock);
	if (rc == 0)
		conn_opened(conn);
	else if (rc != -EAGAIN)
		kvc_conn_next_address(conn, -rc, fth_error_text(rc));
}

/* The socket of a connection that is being made has become writable. */
void kvc_conn_connected(struct kvc_conn *conn)
{
	int error = 0;
	socklen_t length = sizeof(error);

	if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0)
		error = errno;
	if (error)
		kvc_conn_next_address(conn, error, NULL);
	else if (conn->tls)
		begin_handshake(conn);
	else
		conn_opened(conn);
}
