/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A worker: one epoll set over its sockets, the sockets that it accepts from, and the flash.
 *
 * Events of sockets are all dealt with before operations are collected: only collecting frees
 * connections other than the one at hand, so that no event of a round is for one that is gone.
 */
#include "kv/server/server.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS	   128
#define TICK_MS	   100 /* how often timeouts are looked at */
#define ACCEPT_MAX 16  /* connections taken in one go */

/* What an event is for, where it is not a connection. */
static char for_flash, for_wake;

void loop_watch(struct conn *conn, bool add)
{
	struct epoll_event event = {.data.ptr = conn};

	event.events = EPOLLRDHUP;
	if (!conn->blocked)
		event.events |= EPOLLIN;
	else
		event.events &= ~(unsigned)EPOLLRDHUP; /* it would be reported all the time */
	if (conn->wants_write)
		event.events |= EPOLLOUT;
	(void)epoll_ctl(conn->worker->epoll, add ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, conn->fd, &event);
}

static unsigned connections(const struct fth_kv_server *server)
{
	unsigned n = 0;

	for (unsigned i = 0; i < server->workers_count; i++)
		n += __atomic_load_n(&server->workers[i].conn_count, __ATOMIC_RELAXED);
	return n;
}

static void take_connection(struct kvs_worker *w, int fd)
{
	static const char full[] = "SERVER_ERROR too many connections\r\n";
	struct fth_kv_server *server = w->server;
	int one = 1;

	if (connections(server) >= server->connections_max) {
		__atomic_fetch_add(&server->refused, 1, __ATOMIC_RELAXED);
		(void)!send(fd, full, sizeof(full) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		close(fd);
		return;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* fails on Unix ones */
	__atomic_fetch_add(&w->accepted, 1, __ATOMIC_RELAXED);
	if (conn_open(w, fd) < 0)
		close(fd);
}

static void take_connections(struct kvs_worker *w, int listening)
{
	for (unsigned i = 0; i < ACCEPT_MAX; i++) {
		int fd = fth_fd_high(accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));

		if (fd < 0)
			return; /* none, or no descriptors left: it waits in the queue */
		take_connection(w, fd);
	}
}

/* Is the event one of a listening socket? */
static bool take_listening(struct kvs_worker *w, const void *what)
{
	struct fth_kv_server *server = w->server;

	for (unsigned i = 0; i < server->listen_count; i++)
		if (what == &server->listen[i]) {
			take_connections(w, server->listen[i]);
			return true;
		}
	return false;
}

/*
 * Operations that are complete: note all of them, then let each connection go on once. Its tasks may
 * be gone after that, and so may the connection.
 */
static void collect(struct kvs_worker *w)
{
	struct fth_kv_op *done[EVENTS];
	struct conn *conns[EVENTS];
	int n;

	do {
		n = fth_kv_reap(w->kv, done, EVENTS, 0, 0);
		for (int i = 0; i < n; i++) {
			conns[i] = ((struct task *)done[i])->conn;
			conn_op_done((struct task *)done[i]);
		}
		for (int i = 0; i < n; i++) {
			if (!conns[i]->advancing)
				conns[i]->advancing = true;
			else
				conns[i] = NULL;
		}
		for (int i = 0; i < n; i++)
			if (conns[i]) {
				conns[i]->advancing = false;
				conn_advance(conns[i]);
			}
	} while (n == EVENTS);
}

static void close_idle(struct kvs_worker *w)
{
	struct fth_kv_server *server = w->server;
	bool stopping = __atomic_load_n(&server->stopping, __ATOMIC_ACQUIRE);
	uint64_t now = fth_now_ns(), by = __atomic_load_n(&server->stop_by, __ATOMIC_RELAXED);
	struct conn *conn, *next;

	for (conn = w->conns; conn; conn = next) {
		bool busy = conn->tasks || bytes_count(&conn->out);

		next = conn->next;
		if ((stopping && (!busy || now >= by)) ||
		    (server->idle_ns && now - conn->active_ns > server->idle_ns))
			conn_close(conn);
	}
}

static void stop_listening(struct kvs_worker *w)
{
	for (unsigned i = 0; i < w->server->listen_count; i++)
		(void)epoll_ctl(w->epoll, EPOLL_CTL_DEL, w->server->listen[i], NULL);
}

static void *loop_main(void *context)
{
	struct kvs_worker *w = context;
	struct fth_kv_server *server = w->server;
	struct epoll_event events[EVENTS];
	uint64_t ticked = fth_now_ns();
	bool stopping = false;

	while (!stopping || w->conns) {
		int n = epoll_wait(w->epoll, events, EVENTS, TICK_MS);
		uint64_t count;

		for (int i = 0; i < n; i++) {
			void *what = events[i].data.ptr;

			if (what == &for_wake)
				(void)!read(w->wake, &count, sizeof(count));
			else if (what != &for_flash && !take_listening(w, what))
				conn_event(what, events[i].events);
		}
		collect(w);
		if (fth_now_ns() - ticked > TICK_MS * 1000000u / 2) {
			if (!stopping && __atomic_load_n(&server->stopping, __ATOMIC_ACQUIRE)) {
				stopping = true;
				stop_listening(w);
			}
			close_idle(w);
			ticked = fth_now_ns();
		}
	}
	return NULL;
}

static int watch(struct kvs_worker *w, int fd, unsigned events, void *what)
{
	struct epoll_event event = {.events = events, .data.ptr = what};

	return fd < 0 ? fd : epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int loop_start(struct kvs_worker *w)
{
	struct fth_kv_server *server = w->server;
	int rc;

	w->epoll = fth_fd_high(epoll_create1(EPOLL_CLOEXEC));
	w->wake = fth_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	rc = w->epoll < 0 ? w->epoll : w->wake < 0 ? w->wake : 0;
	if (rc == 0)
		rc = fth_kv_worker_open(server->kv, &w->kv);
	if (rc == 0)
		rc = watch(w, w->wake, EPOLLIN, &for_wake);
	if (rc == 0)
		rc = watch(w, fth_kv_worker_fd(w->kv), EPOLLIN, &for_flash);
	for (unsigned i = 0; rc == 0 && i < server->listen_count; i++)
		rc = watch(w, server->listen[i], EPOLLIN | EPOLLEXCLUSIVE, &server->listen[i]);
	if (rc == 0)
		rc = -pthread_create(&w->thread, NULL, loop_main, w);
	w->runs = rc == 0;
	return rc;
}

void loop_stop(struct kvs_worker *w)
{
	static const uint64_t one = 1;

	if (w->runs) {
		(void)!write(w->wake, &one, sizeof(one));
		pthread_join(w->thread, NULL);
	}
	fth_kv_worker_close(w->kv);
	while (w->pool) {
		struct task *task = w->pool;

		w->pool = task->next;
		free(task);
	}
	if (w->epoll >= 0)
		close(w->epoll);
	if (w->wake >= 0)
		close(w->wake);
}
