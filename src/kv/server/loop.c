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
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS	   128
#define TICK_MS	   100 /* how often timeouts are looked at */
#define ACCEPT_MAX 16  /* connections taken in one go */
#define RETRY_MAX  16  /* connections that waited for memory or the cache, the same */

/* What an event is for, where it is not a connection. */
static char for_flash, for_wake;

static void watch_listening(struct kvs_worker *w, bool on)
{
	for (unsigned i = 0; i < w->server->listen.count; i++) {
		struct epoll_event event = {.events = EPOLLIN | EPOLLEXCLUSIVE,
					    .data.ptr = &w->server->listen.fd[i]};

		(void)epoll_ctl(w->epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL,
				w->server->listen.fd[i], &event);
	}
}

static void take_connection(struct kvs_worker *w, int fd)
{
	static const char full[] = "SERVER_ERROR too many connections\r\n";
	struct fth_kv_server *server = w->server;
	int one = 1, unsent = OUT_MAX;

	if (__atomic_add_fetch(&server->connections, 1, __ATOMIC_RELAXED) >
	    server->connections_max) {
		__atomic_fetch_sub(&server->connections, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&server->refused, 1, __ATOMIC_RELAXED);
		(void)!send(fd, full, sizeof(full) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		close(fd);
		return;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* fails on Unix ones */
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	/*
	 * Or the system takes several MB for a peer that does not read, and the time to copy them.
	 */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
	kvs_add(&w->counts.accepted, 1);
	if (conn_open(w, fd) < 0) {
		__atomic_fetch_sub(&server->connections, 1, __ATOMIC_RELAXED);
		close(fd);
	}
}

static void take_connections(struct kvs_worker *w, int listening)
{
	for (unsigned i = 0; i < ACCEPT_MAX; i++) {
		int fd = fth_fd_high(accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));

		if (fd >= 0) {
			take_connection(w, fd);
			continue;
		}
		/* It stays in the queue, and would be reported again at once. */
		if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS) {
			w->not_accepting = true;
			watch_listening(w, false);
		}
		return;
	}
}

/* Is the event one of a listening socket? */
static bool take_listening(struct kvs_worker *w, const void *what)
{
	struct fth_kv_server *server = w->server;

	for (unsigned i = 0; i < server->listen.count; i++)
		if (what == &server->listen.fd[i]) {
			take_connections(w, server->listen.fd[i]);
			return true;
		}
	return false;
}

/*
 * Send the answers of this round. They are sent one after the other, when all requests have been
 * dealt with, so that a client on the same machine is woken once and not for each.
 */
static void send_answers(struct kvs_worker *w)
{
	struct conn *conn;

	while ((conn = w->sending)) {
		w->sending = conn->next_sending;
		if (!w->sending)
			w->sending_end = &w->sending;
		conn->sending = false;
		conn_flush(conn);
	}
	w->deferred = 0;
}

/*
 * Operations that are complete: note all of them, then let each connection go on once. Its tasks
 * may be gone after that, and so may the connection. If the device reports many reads at once, only
 * a part of them is collected: the requests that these answers cause start reads before the next
 * part.
 */
static void collect(struct kvs_worker *w)
{
	struct fth_kv_op *done[EVENTS];
	struct conn *conns[EVENTS];
	int n;

	do {
		w->submitted = false;
		n = fth_kv_reap(w->kv, done, EVENTS, 0, 0);
		for (int i = 0; i < n; i++) {
			conns[i] = ((struct task *)done[i])->conn;
			command_done((struct task *)done[i]);
		}
		for (int i = 0; i < n; i++) {
			if (!conns[i]->advancing)
				conns[i]->advancing = true;
			else
				conns[i] = NULL;
		}
		/* All give back the items of their answers before one asks for room in memory. */
		for (int i = 0; i < n; i++)
			if (conns[i])
				conn_answer(conns[i]);
		for (int i = 0; i < n; i++)
			if (conns[i]) {
				conns[i]->advancing = false;
				conn_advance(conns[i]);
			}
		send_answers(w);
		/*
		 * What they went on with may need reads, which go to the device in the next reap.
		 */
	} while (n == EVENTS || w->submitted);
}

/*
 * Connections of conn_retry_later() try again, first those that have waited for longest. No more
 * than RETRY_MAX go on, so that the sockets of others are looked at in between. True: there may be
 * more.
 */
static bool retry_connections(struct kvs_worker *w)
{
	struct conn *conn, *list = w->retry, **end;
	unsigned went_on = 0;

	w->retry = NULL;
	w->retry_end = &w->retry;
	while ((conn = list) && went_on < RETRY_MAX) {
		list = conn->next_retry;
		conn->retrying = false;
		end = w->retry_end;
		conn_advance(conn); /* may free it, or put it into the list again */
		went_on += w->retry_end == end;
	}
	if (!list)
		return false;
	for (conn = list; conn->next_retry; conn = conn->next_retry)
		;
	conn->next_retry = w->retry;
	if (!w->retry)
		w->retry_end = &conn->next_retry;
	w->retry = list;
	return true;
}

static void close_slow(struct kvs_worker *w, struct conn *conn)
{
	kvs_add(&w->counts.closed_slow, 1);
	conn_close(conn);
}

static void close_idle(struct kvs_worker *w)
{
	struct fth_kv_server *server = w->server;
	bool stopping = __atomic_load_n(&server->stopping, __ATOMIC_ACQUIRE);
	uint64_t now = fth_now_ns(), by = __atomic_load_n(&server->stop_by, __ATOMIC_RELAXED);
	struct conn *conn, *next;

	for (conn = w->conns; conn; conn = next) {
		bool busy = conn->tasks || bytes_count(&conn->out);
		uint64_t quiet = now - conn->active_ns;

		next = conn->next;
		if (stopping && (!busy || now >= by)) {
			conn_close(conn);
		} else if (server->idle_ns && now > conn->active_ns && quiet > server->idle_ns) {
			kvs_add(&w->counts.closed_idle, 1);
			conn_close(conn);
		} else if (w->held > WORKER_HELD && bytes_count(&conn->out) &&
			   now > conn->active_ns && quiet > STALL_NS) {
			close_slow(w, conn);
		}
	}
}

/*
 * The connection that has had an answer to read, or a value to send, for longest. NULL: none for
 * long.
 */
static struct conn *find_slow_reader(const struct kvs_worker *w)
{
	struct conn *found = NULL;

	for (struct conn *conn = w->conns; conn; conn = conn->next)
		if ((bytes_count(&conn->out) || conn->storing) &&
		    w->now > conn->holds_ns + SLOW_NS &&
		    (!found || conn->holds_ns < found->holds_ns))
			found = conn;
	return found;
}

/*
 * If a connection waits for memory: close connections that never read an answer and do not read
 * this one, then those that have had an answer to read, or a value to send, for longest.
 */
static void close_slow_readers(struct kvs_worker *w)
{
	struct conn *conn, *next;

	if (!w->memory_short)
		return;
	w->memory_short = false;
	for (conn = w->conns; conn; conn = next) {
		next = conn->next;
		if (!conn->reads && w->now > conn->active_ns + STUCK_NS && conn_is_stuck(conn))
			close_slow(w, conn);
	}
	while (w->held > w->server->held_max / 2 && (conn = find_slow_reader(w)) != NULL)
		close_slow(w, conn);
}

static void tick(struct kvs_worker *w, bool *stopping)
{
	if (!*stopping && __atomic_load_n(&w->server->stopping, __ATOMIC_ACQUIRE)) {
		*stopping = true;
		if (!w->not_accepting)
			watch_listening(w, false);
		w->not_accepting = false;
	}
	if (w->not_accepting) {
		w->not_accepting = false;
		watch_listening(w, true);
	}
	close_idle(w);
}

static void *loop_main(void *context)
{
	struct kvs_worker *w = context;
	struct epoll_event events[EVENTS];
	uint64_t ticked = fth_now_ns();
	bool stopping = false, hurry = false;

	/* Closed connections have operations in the cache, which end by its timeout. */
	while (!stopping || w->conns || w->dying) {
		int n = epoll_wait(w->epoll, events, EVENTS, hurry ? 0 : TICK_MS);
		uint64_t count;

		w->now = fth_now_ns();
		kvs_add(&w->counts.rounds, 1);
		for (int i = 0; i < n; i++) {
			void *what = events[i].data.ptr;

			if (what == &for_wake)
				(void)!read(w->wake, &count, sizeof(count));
			else if (what != &for_flash && !take_listening(w, what))
				conn_event(what, events[i].events);
		}
		collect(w);
		close_slow_readers(w);
		hurry = false;
		if (w->retry) {
			hurry = retry_connections(w);
			collect(w);
		}
		if (w->now - ticked > TICK_MS * 1000000u / 2) {
			tick(w, &stopping);
			ticked = w->now;
		}
	}
	return NULL;
}

static int watch(struct kvs_worker *w, int fd, unsigned events, void *what)
{
	struct epoll_event event = {.events = events, .data.ptr = what};

	return fd < 0 ? fd : epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int loop_thread(pthread_t *thread, void *(*run)(void *), void *context)
{
	sigset_t all, before;
	int rc;

	/*
	 * Signals are the program's; SIGPIPE would end it when OpenSSL writes to a closed socket.
	 */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(thread, NULL, run, context);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
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
		fth_kv_worker_batch(w->kv, true);
	if (rc == 0)
		rc = watch(w, w->wake, EPOLLIN, &for_wake);
	if (rc == 0)
		rc = watch(w, fth_kv_worker_fd(w->kv), EPOLLIN, &for_flash);
	if (rc == 0)
		watch_listening(w, true);
	w->retry_end = &w->retry;
	w->sending_end = &w->sending;
	w->now = fth_now_ns();
	w->value_estimate = ESTIMATE_BYTES;
	if (rc == 0) {
		rc = -loop_thread(&w->thread, loop_main, w);
		if (rc < 0)
			fth_fail(-rc, "cannot start worker %u: %s", w->number, strerror(-rc));
	}
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
	while (w->spares)
		bytes_release(&w->spare[--w->spares]);
	if (w->epoll >= 0)
		close(w->epoll);
	if (w->wake >= 0)
		close(w->wake);
}
