/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection.
 *
 *	bytes in --lines--> tasks, in order --complete, from the first on--> bytes out
 *
 * Invariants
 * 1. Tasks are in the list in the order of their commands, and answers are written in that order.
 * 2. No command is started while a change of the same connection is under way, so a connection sees
 *    its own changes. Gets may overlap.
 * 3. What one connection can hold is bounded: TASKS_MAX tasks, OUT_MAX bytes of answers and one
 *    answer more, a line, a value. Beyond that it is not read from.
 * 4. A closed connection lives until its last operation is back from the cache: an answer can not
 *    reach whoever gets its descriptor next.
 */
#include "kv/server/server.h"

#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES 16384u
#define POOLED_MAX 1024u
#define KEEP_BYTES 65536u /* a larger buffer is given back when it is empty */

/* ---- bytes ---- */

char *bytes_room(struct bytes *b, size_t n)
{
	if (b->from == b->to)
		b->from = b->to = 0;
	if (b->room - b->to < n && b->from > 0) {
		memmove(b->data, b->data + b->from, b->to - b->from);
		b->to -= b->from;
		b->from = 0;
	}
	if (b->room - b->to < n) {
		size_t room = b->room ? b->room : 2048;
		char *data;

		while (room - b->to < n)
			room *= 2;
		data = realloc(b->data, room);
		if (!data)
			return NULL;
		b->data = data;
		b->room = room;
	}
	return b->data + b->to;
}

void bytes_put(struct bytes *b, const void *data, size_t n)
{
	char *to = bytes_room(b, n);

	if (!to)
		return;
	memcpy(to, data, n);
	b->to += n;
}

void bytes_printf(struct bytes *b, const char *format, ...)
{
	char text[512];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (n > 0)
		bytes_put(b, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

void bytes_release(struct bytes *b)
{
	free(b->data);
	memset(b, 0, sizeof(*b));
}

/* ---- tasks ---- */

struct task *task_new(struct conn *conn)
{
	struct kvs_worker *w = conn->worker;
	struct task *task = w->pool;

	if (task) {
		w->pool = task->next;
		w->pooled--;
	} else {
		task = malloc(sizeof(*task));
		if (!task)
			return NULL;
	}
	memset(task, 0, offsetof(struct task, key));
	task->conn = conn;
	*conn->last = task;
	conn->last = &task->next;
	conn->tasks++;
	return task;
}

/* The first task of its connection is answered. */
void task_free(struct task *task)
{
	struct conn *conn = task->conn;
	struct kvs_worker *w = conn->worker;

	conn->first = task->next;
	if (!conn->first)
		conn->last = &conn->first;
	conn->tasks--;
	free(task->value);
	bytes_release(&task->long_text);
	if (w->pooled >= POOLED_MAX) {
		free(task);
		return;
	}
	task->next = w->pool;
	w->pool = task;
	w->pooled++;
}

void conn_op_done(struct task *task)
{
	struct conn *conn = task->conn;

	task->complete = true;
	conn->flying--;
	if (task->mutates)
		conn->mutating--;
}

/* ---- reading ---- */

static bool may_go_on(const struct conn *conn)
{
	return !conn->dead && conn->state != CONN_CLOSING && conn->tasks < TASKS_MAX &&
	       bytes_count(&conn->out) < OUT_MAX && conn->mutating == 0;
}

/* A line is there: start its command. False: it is not all there yet. */
static bool take_line(struct conn *conn)
{
	size_t count = bytes_count(&conn->in), length;
	const char *at = conn->in.data + conn->in.from;
	const char *end = count ? memchr(at, '\n', count) : NULL;

	if (!end) {
		if (count > LINE_MAX_BYTES) {
			static const char long_line[] = "CLIENT_ERROR line too long\r\n";

			bytes_put(&conn->out, long_line, sizeof(long_line) - 1);
			conn->state = CONN_CLOSING;
		}
		return false;
	}
	length = (size_t)(end - at);
	conn->in.from += length + 1;
	if (length && at[length - 1] == '\r')
		length--;
	command_start(conn, at, length);
	return true;
}

/* The value of a store: bytes that have come are copied, the rest is read where it belongs. */
static bool take_value(struct conn *conn)
{
	struct task *task = conn->storing;
	size_t want = (size_t)task->line.bytes + 2 - task->value_have;
	size_t have = bytes_count(&conn->in);
	bool good;

	if (have > want)
		have = want;
	memcpy(task->value + task->value_have, conn->in.data + conn->in.from, have);
	conn->in.from += have;
	task->value_have += have;
	if (have < want)
		return false;
	good = memcmp(task->value + task->line.bytes, "\r\n", 2) == 0;
	conn->storing = NULL;
	conn->state = CONN_LINE;
	command_value(conn, task, good);
	return true;
}

static bool take_skip(struct conn *conn)
{
	uint64_t have = bytes_count(&conn->in);

	if (have > conn->skip)
		have = conn->skip;
	conn->in.from += (size_t)have;
	conn->skip -= have;
	if (conn->skip)
		return false;
	conn->state = CONN_LINE;
	return true;
}

static void take_commands(struct conn *conn)
{
	bool more = true;

	while (more && may_go_on(conn)) {
		if (conn->state == CONN_VALUE)
			more = take_value(conn);
		else if (conn->state == CONN_SKIP)
			more = take_skip(conn);
		else
			more = take_line(conn);
	}
}

/* Read what is there. False: the connection is over. */
static bool fill(struct conn *conn)
{
	struct task *task = conn->storing;
	size_t room = READ_BYTES;
	ssize_t n;
	char *to;

	/* A long value goes straight to its place. */
	if (conn->state == CONN_VALUE && bytes_count(&conn->in) == 0 &&
	    task->line.bytes + 2 - task->value_have > READ_BYTES) {
		room = (size_t)task->line.bytes + 2 - task->value_have;
		n = read(conn->fd, task->value + task->value_have, room);
		if (n > 0)
			task->value_have += (size_t)n;
	} else {
		to = bytes_room(&conn->in, room);
		if (!to)
			return false;
		n = read(conn->fd, to, room);
		if (n > 0)
			conn->in.to += (size_t)n;
	}
	if (n > 0) {
		__atomic_fetch_add(&conn->worker->bytes_read, (uint64_t)n, __ATOMIC_RELAXED);
		conn->active_ns = fth_now_ns();
		return true;
	}
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* ---- writing ---- */

static void answer_tasks(struct conn *conn)
{
	while (conn->first && conn->first->complete && bytes_count(&conn->out) < OUT_MAX) {
		struct task *task = conn->first;

		command_answer(task, &conn->out);
		fth_kv_release(conn->worker->kv, &task->op);
		task_free(task);
	}
}

/* False: the connection is over. */
static bool drain(struct conn *conn)
{
	while (bytes_count(&conn->out)) {
		ssize_t n = send(conn->fd, conn->out.data + conn->out.from, bytes_count(&conn->out),
				 MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN;
		conn->out.from += (size_t)n;
		__atomic_fetch_add(&conn->worker->bytes_written, (uint64_t)n, __ATOMIC_RELAXED);
		conn->active_ns = fth_now_ns();
	}
	if (conn->out.room > KEEP_BYTES)
		bytes_release(&conn->out);
	return true;
}

/* ---- going on ---- */

static void free_when_idle(struct conn *conn)
{
	if (!conn->dead || conn->flying)
		return;
	while (conn->first) {
		fth_kv_release(conn->worker->kv, &conn->first->op);
		task_free(conn->first);
	}
	bytes_release(&conn->in);
	bytes_release(&conn->out);
	free(conn);
}

void conn_close(struct conn *conn)
{
	if (!conn->dead) {
		close(conn->fd); /* takes it out of the epoll set */
		conn->fd = -1;
		conn->dead = true;
		*conn->link = conn->next;
		if (conn->next)
			conn->next->link = conn->link;
		__atomic_fetch_sub(&conn->worker->conn_count, 1, __ATOMIC_RELAXED);
	}
	free_when_idle(conn);
}

void conn_advance(struct conn *conn)
{
	bool blocked, wants;

	if (conn->dead) {
		free_when_idle(conn);
		return;
	}
	/* Answers make room for commands, and some commands are complete at once. */
	do {
		take_commands(conn);
		answer_tasks(conn);
		if (!drain(conn)) {
			conn_close(conn);
			return;
		}
	} while (conn->first && conn->first->complete && bytes_count(&conn->out) < OUT_MAX);
	if (conn->state == CONN_CLOSING && !conn->first && bytes_count(&conn->out) == 0) {
		conn_close(conn);
		return;
	}
	blocked = !may_go_on(conn);
	wants = bytes_count(&conn->out) > 0;
	if (blocked != conn->blocked || wants != conn->wants_write) {
		conn->blocked = blocked;
		conn->wants_write = wants;
		loop_watch(conn, false);
	}
	if (bytes_count(&conn->in) == 0 && conn->in.room > KEEP_BYTES)
		bytes_release(&conn->in);
}

void conn_event(struct conn *conn, unsigned events)
{
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP) && !conn->blocked &&
	    !fill(conn)) {
		/* What was asked is still answered to a peer that only stopped sending. */
		if (conn->state != CONN_VALUE && !(events & (EPOLLHUP | EPOLLERR)) &&
		    (conn->first || bytes_count(&conn->out) || bytes_count(&conn->in))) {
			take_commands(conn);
			conn->state = CONN_CLOSING;
		} else {
			conn_close(conn);
			return;
		}
	} else if (events & (EPOLLHUP | EPOLLERR) && conn->blocked) {
		conn_close(conn);
		return;
	}
	conn_advance(conn);
}

int conn_open(struct kvs_worker *worker, int fd)
{
	struct conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return -ENOMEM;
	conn->worker = worker;
	conn->fd = fd;
	conn->last = &conn->first;
	conn->active_ns = fth_now_ns();
	conn->next = worker->conns;
	conn->link = &worker->conns;
	if (conn->next)
		conn->next->link = &conn->next;
	worker->conns = conn;
	__atomic_fetch_add(&worker->conn_count, 1, __ATOMIC_RELAXED);
	loop_watch(conn, true);
	return 0;
}
