/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection: the state machine of its input, its answers, and its socket.
 *
 *	bytes in --> requests --> operations of the cache --> answers --> bytes out
 *	conn.c       input.c      command.c, task.c           answer.c    conn.c
 *
 * The calls go from left to right. loop.c calls conn_event() when the socket is ready, and when
 * operations have ended command_done() for each, then conn_answer() and conn_advance(). All of
 * these end in drive().
 *
 * States of the input (enum conn_state; the switch is in take_input(), a function for each is in
 * input.c):
 *
 *	FIRST --text--> LINE --get--> KEYS --end of the line--> LINE
 *	  |              |             `----key is too long---> DISCARD --end of the line--> LINE
 *	  |              |--store--> VALUE --its last byte----> LINE
 *	  |              |             `----no memory for it--> SKIP --its last byte--> LINE
 *	  |              |--store with an error---------------> SKIP
 *	  |              `--other commands--------------------> LINE
 *	  |              |
 *	  | binary       | quit, line too long, bad password, no memory for a task
 *	  v protocol     v
 *	CLOSING ---all is answered and sent---> CLOSED <---peer is gone, slow or idle--- any state
 *
 * Operations are in progress beside that: the tasks of a connection (server.h) are in a list, in
 * the order of their commands.
 *
 * Invariants
 * 1. Tasks are in the list in the order of their commands, and replies are written in that order.
 * 2. A command does not start while another one of the same connection for the same key is in
 *    progress, unless both are gets; flush_all waits for all. So a connection sees its own changes,
 *    and changes of different keys overlap. The task that has to wait is the last of the list, and
 *    no line is parsed until it has started.
 * 3. Memory is bounded. A connection has at most TASKS_MAX tasks, OUT_MAX bytes of replies and one
 *    more reply, HELD_MAX bytes of values and one more value, a line, and a value that is being
 *    received. The length of a value is known when the cache returns it: until then it is estimated
 *    from earlier values (`value_estimate`). If all connections of a worker hold and expect
 *    WORKER_HELD bytes, each has one command at a time, and those that read no replies are closed.
 *    Above held_max no value is read from the cache or received. A quarter of that is for
 *    connections that have read their replies so far: any number of others that do not read delay
 *    these no more than by their share of the worker's time. While a connection waits for memory,
 *    those that make no progress with a reply or a value are closed, so that the others can
 *    continue.
 * 4. A closed connection exists until its last operation has returned from the cache: a reply
 *    cannot reach the next owner of its descriptor.
 * 5. A reply that waits, for those before it or for the peer, does not hold an item in the cache's
 *    memory.
 * 6. Buffers belong to the worker while nothing is in them, so that an idle connection has none.
 */
#include "kv/server/server.h"

#include "fathom/hd/wait.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- input ---- */

static unsigned tasks_max(const struct conn *conn)
{
	uint64_t n = HELD_MAX / (conn->value_estimate ? conn->value_estimate : 1);

	if (conn->worker->held + conn->worker->expected > WORKER_HELD || n == 0)
		return 1;
	return n < TASKS_MAX ? (unsigned)n : TASKS_MAX;
}

/* There is no room for more of the value that comes in. */
static bool value_waits(const struct conn *conn)
{
	return conn->state == CONN_VALUE && conn->worker->held > conn_held_max(conn);
}

/* The limits of invariant 3 allow another request. */
static bool may_take_input(const struct conn *conn)
{
	return conn->state < CONN_CLOSING && !value_waits(conn) && !conn->waiting &&
	       bytes_count(&conn->out) < OUT_MAX && conn->held < HELD_MAX &&
	       conn->tasks - (conn->storing != NULL) < tasks_max(conn);
}

/* A step may be possible. A value gets its memory before its first byte has come. */
static bool has_input(const struct conn *conn)
{
	return bytes_count(&conn->in) || conn->state == CONN_VALUE;
}

/* One step. False: it needs more bytes than have come. */
static bool take_input(struct conn *conn)
{
	switch (conn->state) {
	case CONN_FIRST:
		return input_first(conn);
	case CONN_LINE:
		return input_line(conn);
	case CONN_KEYS:
		return input_key(conn);
	case CONN_VALUE:
		return input_value(conn);
	case CONN_SKIP:
		return input_skip(conn);
	case CONN_DISCARD:
		return input_discard(conn);
	case CONN_CLOSING:
	case CONN_CLOSED:
		break;
	}
	return false;
}

/*
 * The peer's system has all that was sent: its buffers do not hold a long reply that nobody reads.
 */
static bool all_is_taken(const struct conn *conn)
{
	int left = 0;

	return !bytes_count(&conn->out) && ioctl(conn->fd, SIOCOUTQ, &left) == 0 && left == 0;
}

/* Receive what is there, once; notes the end. False: the connection is broken. */
static bool receive(struct conn *conn)
{
	size_t room;
	char *to = input_room(conn, &room);
	ssize_t n;

	if (!to)
		return false;
	n = conn->tls ? tls_read(conn->tls, to, room) : recv(conn->fd, to, room, 0);
	if (n > 0) {
		input_came(conn, (size_t)n);
		kvs_add(&conn->worker->counts.bytes_read, (uint64_t)n);
		conn->active_ns = conn->worker->now;
		if (!conn->reads && conn->sent)
			conn->reads = all_is_taken(conn);
		return true;
	}
	conn->eof = n == 0;
	return n == 0 || errno == EAGAIN || errno == EINTR;
}

/* ---- answers ---- */

static void answer_tasks(struct conn *conn)
{
	struct kvs_worker *w = conn->worker;

	if (conn->first && conn->first->complete)
		w->now = fth_now_ns();
	while (conn->first && conn->first->complete && bytes_count(&conn->out) < OUT_MAX) {
		struct task *task = conn->first;

		stats_latency(w, task);
		answer_write(task, &conn->out);
		conn->mid_get = task->line.command == KVP_GET && !task->simple && !task->last_key;
		fth_kv_release(w->kv, &task->op);
		task_free(task);
	}
}

void conn_answer(struct conn *conn)
{
	if (conn->state != CONN_CLOSED)
		answer_tasks(conn);
}

/*
 * Answers of a get wait for those of its other keys, since each send costs as much as several of
 * them. Some are under way, so that the connection is looked at again.
 */
static bool is_held_back(const struct conn *conn)
{
	return conn->mid_get && conn->flying > 0 && bytes_count(&conn->out) < HOLD_MAX;
}

/* Send as much as the socket takes. False: the connection is over. */
static bool send_out(struct conn *conn)
{
	if (conn->out.failed)
		return false;
	while (bytes_count(&conn->out)) {
		const char *from = conn->out.data + conn->out.from;
		size_t count = bytes_count(&conn->out);
		ssize_t n = conn->tls ? tls_send(conn->tls, from, count)
				      : send(conn->fd, from, count, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 && errno == EAGAIN;
		conn->out.from += (size_t)n;
		conn->sent = true;
		kvs_add(&conn->worker->counts.bytes_written, (uint64_t)n);
		conn->active_ns = conn->worker->now;
	}
	return true;
}

/* Leave the answers to the end of the round. False: they are too many, or there are none. */
static bool defer_send(struct conn *conn)
{
	struct kvs_worker *w = conn->worker;
	size_t count = bytes_count(&conn->out);

	if (conn->sending && count <= DEFER_MAX)
		return true;
	if (!count || count > DEFER_MAX || w->deferred > DEFER_ALL || conn->out.failed)
		return false;
	w->deferred += count;
	conn->sending = true;
	conn->next_sending = NULL;
	*w->sending_end = conn;
	w->sending_end = &conn->next_sending;
	return true;
}

/* ---- the machine ---- */

/* Take requests, answer, send, until none of these goes on. False: the connection is broken. */
static bool drive(struct conn *conn)
{
	for (;;) {
		bool full = false;

		if (conn->waiting)
			command_retry(conn);
		while (has_input(conn) && !(full = !may_take_input(conn)) && take_input(conn))
			;
		answer_tasks(conn);
		if (!is_held_back(conn) && !defer_send(conn) && !send_out(conn))
			return false;
		if (full && may_take_input(conn)) /* answers have made room for requests */
			continue;
		if (conn->first && conn->first->complete && bytes_count(&conn->out) < OUT_MAX)
			continue;
		/* epoll does not know of bytes that OpenSSL has received already. */
		if (!conn->tls || conn->eof || !may_take_input(conn) || !tls_pending(conn->tls))
			return true;
		if (!receive(conn))
			return false;
	}
}

/* ---- closing ---- */

static void unlink_retry(struct conn *conn)
{
	for (struct conn **link = &conn->worker->retry; *link; link = &(*link)->next_retry)
		if (*link == conn) {
			*link = conn->next_retry;
			if (!*link)
				conn->worker->retry_end = link;
			return;
		}
}

static void unlink_sending(struct conn *conn)
{
	struct kvs_worker *w = conn->worker;

	for (struct conn **link = &w->sending; *link; link = &(*link)->next_sending)
		if (*link == conn) {
			*link = conn->next_sending;
			if (!*link)
				w->sending_end = link;
			return;
		}
}

static void free_when_idle(struct conn *conn)
{
	struct kvs_worker *w = conn->worker;

	if (conn->state != CONN_CLOSED || conn->flying)
		return;
	while (conn->first) {
		fth_kv_release(w->kv, &conn->first->op);
		task_free(conn->first);
	}
	bytes_release(&conn->in);
	w->dying--;
	free(conn);
}

void conn_close(struct conn *conn)
{
	struct kvs_worker *w = conn->worker;

	if (conn->state != CONN_CLOSED) {
		tls_detach(conn->tls);
		close(conn->fd); /* takes it out of the epoll set */
		conn->fd = -1;
		conn->state = CONN_CLOSED;
		conn->waiting = NULL;
		if (conn->retrying)
			unlink_retry(conn);
		if (conn->sending)
			unlink_sending(conn);
		*conn->link = conn->next;
		if (conn->next)
			conn->next->link = conn->link;
		w->held -= conn->out_counted;
		bytes_release(&conn->out);
		w->dying++;
		__atomic_fetch_sub(&w->conn_count, 1, __ATOMIC_RELAXED);
		__atomic_fetch_sub(&w->server->connections, 1, __ATOMIC_RELAXED);
	}
	free_when_idle(conn);
}

/* Nothing more can come of it. */
static bool is_over(const struct conn *conn)
{
	if (bytes_count(&conn->out))
		return false;
	if (conn->state == CONN_CLOSING)
		return !conn->first;
	/* All requests that came are started; the rest of a value will not come. */
	return conn->eof && may_take_input(conn) && conn->first == conn->storing;
}

/* ---- events ---- */

/* The buffer of answers counts as memory of the worker. */
static void count_out(struct conn *conn)
{
	conn->worker->held += conn->out.room - conn->out_counted;
	conn->out_counted = conn->out.room;
}

bool conn_is_stuck(const struct conn *conn)
{
	struct pollfd p = {.fd = conn->fd};

	if (conn->wants_write)
		p.events |= POLLOUT;
	if (conn->storing && conn->storing->came && !conn->blocked)
		p.events |= POLLIN;
	return p.events && poll(&p, 1, 0) == 0;
}

static void watch(struct conn *conn, int how)
{
	struct epoll_event event = {.data.ptr = conn};

	/* While it is not read from, the end of what it sends would be reported all the time. */
	if (!conn->blocked)
		event.events = EPOLLIN | EPOLLRDHUP;
	if (conn->wants_write)
		event.events |= EPOLLOUT;
	(void)epoll_ctl(conn->worker->epoll, how, conn->fd, &event);
}

/* Return empty buffers, and watch the socket for what the connection waits for. */
static void rearm(struct conn *conn)
{
	struct kvs_worker *w = conn->worker;
	bool blocked, wants;

	bytes_return(&conn->in, w);
	bytes_return(&conn->out, w);
	count_out(conn);
	/* The peer takes no more answers: invariant 5. */
	if (conn->first && conn->first->complete)
		for (struct task *task = conn->first; task; task = task->next)
			if (task->complete)
				task_detach_value(task);
	blocked = !may_take_input(conn) || conn->eof;
	wants = bytes_count(&conn->out) > 0 && !conn->sending && !is_held_back(conn);
	if (!wants && !conn->storing)
		conn->holds_ns = w->now;
	if (value_waits(conn)) {
		w->memory_short = true;
		conn_retry_later(conn);
	}
	if (conn->blocked && !blocked)
		conn->active_ns = w->now; /* the peer could send nothing */
	if (blocked != conn->blocked || wants != conn->wants_write) {
		conn->blocked = blocked;
		conn->wants_write = wants;
		watch(conn, EPOLL_CTL_MOD);
	}
}

void conn_advance(struct conn *conn)
{
	if (conn->state == CONN_CLOSED) {
		free_when_idle(conn);
		return;
	}
	bytes_lend(&conn->out, conn->worker);
	if (!drive(conn) || is_over(conn))
		conn_close(conn);
	else if (conn->sending)
		bytes_return(&conn->in, conn->worker); /* conn_flush() does the rest */
	else
		rearm(conn);
}

void conn_flush(struct conn *conn)
{
	if (!send_out(conn) || is_over(conn))
		conn_close(conn);
	else
		rearm(conn);
}

void conn_event(struct conn *conn, unsigned events)
{
	bool broken = events & (EPOLLHUP | EPOLLERR);

	/* epoll reports a peer that is gone all the time: nothing may wait for it. */
	if (broken && conn->blocked) {
		conn_close(conn);
		return;
	}
	if ((broken || events & (EPOLLIN | EPOLLRDHUP)) && !conn->blocked && !receive(conn)) {
		conn_close(conn);
		return;
	}
	conn_advance(conn);
}

int conn_open(struct kvs_worker *worker, int fd)
{
	struct fth_kv_server *server = worker->server;
	struct conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return -ENOMEM;
	if (access_has_tls(server->access)) {
		conn->tls = access_attach(server->access, fd);
		if (!conn->tls) {
			free(conn);
			return -ENOMEM;
		}
	}
	conn->worker = worker;
	conn->fd = fd;
	conn->last = &conn->first;
	conn->value_estimate = worker->value_estimate;
	conn->trusted = !access_has_users(server->access);
	conn->active_ns = conn->holds_ns = worker->now;
	conn->next = worker->conns;
	conn->link = &worker->conns;
	if (conn->next)
		conn->next->link = &conn->next;
	worker->conns = conn;
	__atomic_fetch_add(&worker->conn_count, 1, __ATOMIC_RELAXED);
	watch(conn, EPOLL_CTL_ADD);
	return 0;
}
