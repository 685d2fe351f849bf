/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection.
 *
 *	bytes in --lines--> tasks, in order --complete, from the first on--> bytes out
 *
 * Invariants
 * 1. Tasks are in the list in the order of their commands, and replies are written in that order.
 * 2. A command does not start while another one of the same connection for the same key is in
 *    progress, unless both are gets; flush_all waits for all. So a connection sees its own changes, and
 *    changes of different keys overlap. The task that has to wait is the last of the list, and no
 *    line is parsed until it has started.
 * 3. Memory is bounded. A connection has at most TASKS_MAX tasks, OUT_MAX bytes of replies and one more
 *    reply, HELD_MAX bytes of values and one more value, a line, and a value that is being received. The length of a
 *    value is known when the cache returns it: until then it is estimated from earlier values
 *    (`guess`). If all connections of a worker hold and expect WORKER_HELD bytes, each has one
 *    command at a time, and those that read no replies are closed. Above held_max no value is read
 *    from the cache or received. A quarter of that is for connections that have read their replies so far:
 *    any number of others that do not read delay these no more than by their share of the worker's time.
 *    While a connection waits for memory, those that make no progress with a reply or a value
 *    are closed, so that the others can continue.
 * 4. A closed connection exists until its last operation has returned from the cache: a reply cannot
 *    reach the next owner of its descriptor.
 * 5. A reply that waits, for those before it or for the peer, does not hold an item in the cache's memory.
 * 6. Buffers belong to the worker while nothing is in them, so that an idle connection has none.
 */
#include "kv/server/server.h"

#include "fathom/hd/wait.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES  16384u
#define POOLED_MAX  1024u
#define BINARY	    0x80 /* first byte of a request of the binary protocol */
#define BINARY_HEAD 24u

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
	task->started_ns = w->now;
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
	conn->held -= task->held;
	w->held -= task->held + task->came;
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

/* Long values count at once, short ones by and by. */
static void learn(uint64_t *guess, uint64_t length)
{
	*guess = length > *guess ? length : *guess - (*guess - length) / 8;
}

void conn_op_begins(struct task *task)
{
	struct conn *conn = task->conn;

	task->flying = true;
	task->expected = (uint32_t)conn->guess;
	conn->worker->expected += task->expected;
	conn->flying++;
	conn->mutating += task->mutates;
}

/* It is not in the cache any more. */
void conn_op_ends(struct task *task)
{
	struct conn *conn = task->conn;

	task->flying = false;
	conn->worker->expected -= task->expected;
	conn->flying--;
	conn->mutating -= task->mutates;
}

/*
 * The answer has to wait. It gets a copy of the value, so that the item does not stay in the cache's memory for
 * it: new items need that. If memory is short it keeps the item.
 */
static void detach_value(struct kvs_worker *w, struct task *task)
{
	uint32_t length = task->op.length;

	/* What was read from flash is in a buffer of its own. */
	if (!length || (task->op.from_flash && !task->mutates) || task->value)
		return;
	task->value = malloc(length);
	if (!task->value)
		return;
	memcpy(task->value, task->op.data, length);
	fth_kv_release(w->kv, &task->op);
	task->op.data = (const uint8_t *)task->value;
	task->op.length = length;
}

void conn_op_done(struct task *task)
{
	struct conn *conn = task->conn;

	conn_op_ends(task);
	if (command_more(task))
		return;
	task->complete = true;
	task->held = task->op.length;
	conn->held += task->held;
	conn->worker->held += task->held;
	if (task->op.result == 0 && !task->op.value) {
		learn(&conn->guess, task->held);
		learn(&conn->worker->guess, task->held);
	}
	if (conn->flying && conn->first != task)
		detach_value(conn->worker, task);
}

/* ---- reading ---- */

static unsigned tasks_max(const struct conn *conn)
{
	uint64_t n = HELD_MAX / (conn->guess ? conn->guess : 1);

	if (conn->worker->held + conn->worker->expected > WORKER_HELD || n == 0)
		return 1;
	return n < TASKS_MAX ? (unsigned)n : TASKS_MAX;
}

uint64_t conn_held_max(const struct conn *conn)
{
	uint64_t most = conn->worker->server->held_max;

	return conn->reads ? most : most / 4 * 3;
}

/* There is no room for more of the value that comes in. */
static bool value_waits(const struct conn *conn)
{
	return conn->state == CONN_VALUE && conn->worker->held > conn_held_max(conn);
}

static bool may_go_on(const struct conn *conn)
{
	return !conn->dead && !value_waits(conn) && conn->state != CONN_CLOSING && !conn->waiting &&
	       bytes_count(&conn->out) < OUT_MAX && conn->held < HELD_MAX &&
	       conn->tasks - (conn->storing != NULL) < tasks_max(conn);
}

/* The binary protocol has its own way to say no. False: its header is not all there. */
static bool refuse_binary(struct conn *conn)
{
	static const char text[] = "the binary protocol is not supported, use the text protocol";
	const uint8_t *head = (const uint8_t *)conn->in.data + conn->in.from;
	uint8_t answer[BINARY_HEAD] = {0x81, head[1], [7] = 0x83, [11] = sizeof(text) - 1};

	if (bytes_count(&conn->in) < BINARY_HEAD)
		return false;
	memcpy(answer + 12, head + 12, 4); /* opaque */
	bytes_put(&conn->out, answer, sizeof(answer));
	bytes_put(&conn->out, text, sizeof(text) - 1);
	conn->state = CONN_CLOSING;
	return true;
}

/* The line is longer than any but a get may be, and its end has not come. */
static bool take_long_line(struct conn *conn, const char *at, size_t count)
{
	struct kvp_line line;

	conn->spoke = true;
	kvp_parse(at, count, conn->worker->server->value_max, &line);
	if (conn->trusted && line.command == KVP_GET && !line.error) {
		conn->in.from += (size_t)(line.key.at - at);
		command_start(conn, at, count);
		return true;
	}
	command_say(conn, "CLIENT_ERROR line too long");
	conn->state = CONN_CLOSING;
	return true;
}

/* A line is there: start its command. False: it is not all there yet. */
static bool take_line(struct conn *conn)
{
	size_t count = bytes_count(&conn->in), length;
	const char *at = conn->in.data + conn->in.from;
	const char *end = count ? memchr(at, '\n', count) : NULL;

	if (count && !conn->spoke && (uint8_t)*at == BINARY)
		return refuse_binary(conn);
	if (!end)
		return count > LINE_MAX_BYTES && take_long_line(conn, at, count);
	conn->spoke = true;
	length = (size_t)(end - at);
	conn->in.from += length + 1;
	if (length && at[length - 1] == '\r')
		length--;
	command_start(conn, at, length);
	if (conn->state == CONN_KEYS) /* they are taken one by one */
		conn->in.from = (size_t)(conn->get.key.at - conn->in.data);
	return true;
}

/* Up to the end of the line. */
static bool take_discard(struct conn *conn)
{
	size_t count = bytes_count(&conn->in);
	const char *at = conn->in.data + conn->in.from;
	const char *end = count ? memchr(at, '\n', count) : NULL;

	if (!end) {
		conn->in.from = conn->in.to;
		return false;
	}
	conn->in.from += (size_t)(end - at) + 1;
	conn->state = CONN_LINE;
	return true;
}

static size_t skip_spaces(const char *at, size_t count)
{
	size_t n = 0;

	while (n < count && at[n] == ' ')
		n++;
	return n;
}

/* Is the end of the line next? Bytes up to behind it; 0: no, or it cannot be told yet. */
static size_t line_end(const char *at, size_t count)
{
	size_t n = skip_spaces(at, count);

	if (n < count && at[n] == '\r')
		n++;
	return n < count && at[n] == '\n' ? n + 1 : 0;
}

/* One more key of a get. False: it is not all there yet. */
static bool take_key(struct conn *conn)
{
	const char *at = conn->in.data + conn->in.from;
	size_t count = bytes_count(&conn->in), skip = skip_spaces(at, count), n = 0, end;

	conn->in.from += skip;
	at += skip;
	count -= skip;
	end = line_end(at, count);
	if (end) {
		conn->in.from += end;
		conn->state = CONN_LINE;
		command_say(conn, "END");
		return true;
	}
	while (n < count && n <= FTH_KV_KEY_MAX + 1 && at[n] != ' ' && at[n] != '\n')
		n++;
	if (n == count && n <= FTH_KV_KEY_MAX + 1)
		return false;
	if (at[n] == '\n' && n && at[n - 1] == '\r')
		n--;
	if (n > FTH_KV_KEY_MAX) {
		command_say(conn, "CLIENT_ERROR bad command line format");
		conn->state = CONN_DISCARD;
		return true;
	}
	end = line_end(at + n, count - n);
	conn->in.from += n + end;
	if (end)
		conn->state = CONN_LINE;
	command_key(conn, at, n, end > 0);
	return true;
}

static void value_came(struct task *task, size_t n)
{
	task->value_have += n;
	task->came += (uint32_t)n;
	task->conn->worker->held += n;
}

/*
 * The operation is not complete, and its value is in the connection's buffer: it gets a place of its own. If
 * memory is short that is the buffer, and the connection ends, since what follows is lost with it.
 */
static void keep_value(struct conn *conn, struct task *task)
{
	size_t n = (size_t)task->line.bytes;

	value_came(task, n);
	task->value = malloc(n + 1);
	if (task->value) {
		task->op.value = memcpy(task->value, task->op.value, n);
		return;
	}
	task->value = conn->in.data;
	memset(&conn->in, 0, sizeof(conn->in));
	conn->state = CONN_CLOSING;
}

/* The line of the value's end is in the buffer too: it is stored from there. */
static void take_whole_value(struct conn *conn, struct task *task)
{
	const char *value = conn->in.data + conn->in.from;
	bool good = memcmp(value + task->line.bytes, "\r\n", 2) == 0;

	conn->in.from += (size_t)task->line.bytes + 2;
	conn->storing = NULL;
	conn->state = CONN_LINE;
	command_value(conn, task, value, good);
	if (!task->complete)
		keep_value(conn, task);
}

/* The value of a store: bytes that have come are copied, the rest is read where it belongs. */
static bool take_value(struct conn *conn)
{
	struct task *task = conn->storing;
	size_t want = (size_t)task->line.bytes + 2 - task->value_have;
	size_t have = bytes_count(&conn->in);
	bool good;

	if (!task->value && have >= want) {
		take_whole_value(conn, task);
		return true;
	}
	if (!task->value && !(task->value = malloc(want))) {
		command_no_memory(conn, task);
		return true;
	}
	if (have > want)
		have = want;
	if (have)
		memcpy(task->value + task->value_have, conn->in.data + conn->in.from, have);
	conn->in.from += have;
	value_came(task, have);
	if (have < want)
		return false;
	conn->holds_ns = conn->worker->now;
	good = memcmp(task->value + task->line.bytes, "\r\n", 2) == 0;
	conn->storing = NULL;
	conn->state = CONN_LINE;
	command_value(conn, task, task->value, good);
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

	if (conn->waiting)
		command_retry(conn);
	while (more && may_go_on(conn)) {
		switch (conn->state) {
		case CONN_KEYS:
			more = take_key(conn);
			break;
		case CONN_VALUE:
			more = take_value(conn);
			break;
		case CONN_SKIP:
			more = take_skip(conn);
			break;
		case CONN_DISCARD:
			more = take_discard(conn);
			break;
		default:
			more = take_line(conn);
		}
	}
}

static ssize_t receive(struct conn *conn, void *to, size_t n)
{
	return conn->tls ? tls_read(conn->tls, to, n) : recv(conn->fd, to, n, 0);
}

/* The peer's system has all that was sent: its buffers do not hold a long reply that nobody reads. */
static bool all_is_taken(const struct conn *conn)
{
	int left = 0;

	return !bytes_count(&conn->out) && ioctl(conn->fd, SIOCOUTQ, &left) == 0 && left == 0;
}

/* Read what is there; notes the end. False: the connection is broken. */
static bool fill(struct conn *conn)
{
	struct task *task = conn->storing;
	size_t room = READ_BYTES;
	ssize_t n;
	char *to;

	/* A long value goes straight to its place. */
	if (conn->state == CONN_VALUE && task->value && bytes_count(&conn->in) == 0 &&
	    task->line.bytes + 2 - task->value_have > READ_BYTES) {
		room = (size_t)task->line.bytes + 2 - task->value_have;
		n = receive(conn, task->value + task->value_have, room);
		if (n > 0)
			value_came(task, (size_t)n);
	} else {
		bytes_lend(&conn->in, conn->worker);
		to = bytes_room(&conn->in, room);
		if (!to)
			return false;
		n = receive(conn, to, room);
		if (n > 0)
			conn->in.to += (size_t)n;
	}
	if (n > 0) {
		kvs_add(&conn->worker->counts.bytes_read, (uint64_t)n);
		conn->active_ns = conn->worker->now;
		if (!conn->reads && conn->sent)
			conn->reads = all_is_taken(conn);
		return true;
	}
	conn->eof = n == 0;
	return n == 0 || errno == EAGAIN || errno == EINTR;
}

/* ---- writing ---- */

static void answer_tasks(struct conn *conn)
{
	struct kvs_worker *w = conn->worker;

	if (conn->first && conn->first->complete)
		w->now = fth_now_ns();
	while (conn->first && conn->first->complete && bytes_count(&conn->out) < OUT_MAX) {
		struct task *task = conn->first;

		stats_latency(w, task);
		command_answer(task, &conn->out);
		conn->mid_get = task->line.command == KVP_GET && !task->simple && !task->last_key;
		fth_kv_release(w->kv, &task->op);
		task_free(task);
	}
}

void conn_answer(struct conn *conn)
{
	if (!conn->dead)
		answer_tasks(conn);
}

/*
 * Answers of a get wait for those of its other keys, since each send costs as much as several of them.
 * Some are under way, so that the connection is looked at again.
 */
static bool is_held_back(const struct conn *conn)
{
	return conn->mid_get && conn->flying > 0 && bytes_count(&conn->out) < HOLD_MAX;
}

static ssize_t transmit(struct conn *conn, const void *from, size_t n)
{
	return conn->tls ? tls_send(conn->tls, from, n) : send(conn->fd, from, n, MSG_NOSIGNAL);
}

/* False: the connection is over. */
static bool drain(struct conn *conn)
{
	if (conn->out.failed)
		return false;
	while (bytes_count(&conn->out)) {
		ssize_t n =
			transmit(conn, conn->out.data + conn->out.from, bytes_count(&conn->out));

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

/* ---- going on ---- */

static void unlink_starved(struct conn *conn)
{
	for (struct conn **link = &conn->worker->starved; *link; link = &(*link)->next_starved)
		if (*link == conn) {
			*link = conn->next_starved;
			if (!*link)
				conn->worker->starved_end = link;
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

/* Leave the answers to the end of the round. False: they are too many, or there are none. */
static bool put_off(struct conn *conn)
{
	struct kvs_worker *w = conn->worker;
	size_t count = bytes_count(&conn->out);

	if (conn->sending && count <= PUT_OFF_MAX)
		return true;
	if (!count || count > PUT_OFF_MAX || w->put_off > PUT_OFF_ALL || conn->out.failed)
		return false;
	w->put_off += count;
	conn->sending = true;
	conn->next_sending = NULL;
	*w->sending_end = conn;
	w->sending_end = &conn->next_sending;
	return true;
}

static void free_when_idle(struct conn *conn)
{
	struct kvs_worker *w = conn->worker;

	if (!conn->dead || conn->flying)
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

	if (!conn->dead) {
		tls_detach(conn->tls);
		close(conn->fd); /* takes it out of the epoll set */
		conn->fd = -1;
		conn->dead = true;
		conn->waiting = NULL;
		if (conn->starved)
			unlink_starved(conn);
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
	/* Not blocked, so that all commands that came are started; a value that stopped remains. */
	return conn->eof && may_go_on(conn) && conn->first == conn->storing;
}

/* Take commands, answer, send, until none of these goes on. False: the connection is broken. */
static bool turn(struct conn *conn)
{
	bool again;

	do {
		bool blocked;

		take_commands(conn);
		blocked = !may_go_on(conn);
		answer_tasks(conn);
		if (!is_held_back(conn) && !put_off(conn) && !drain(conn))
			return false;
		/* Answers make room for commands. */
		again = (blocked && may_go_on(conn)) ||
			(conn->first && conn->first->complete && bytes_count(&conn->out) < OUT_MAX);
		if (!again && conn->tls && !conn->eof && may_go_on(conn) &&
		    tls_pending(conn->tls)) {
			if (!fill(conn))
				return false;
			again = true;
		}
	} while (again);
	return true;
}

/* The answers that it keeps count as memory of the worker. */
static void count_out(struct conn *conn)
{
	conn->worker->held += conn->out.room - conn->out_counted;
	conn->out_counted = conn->out.room;
}

void conn_starve(struct conn *conn)
{
	if (conn->starved)
		return;
	conn->starved = true;
	conn->next_starved = NULL;
	*conn->worker->starved_end = conn;
	conn->worker->starved_end = &conn->next_starved;
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

/* What is left is waited for, and empty buffers go back. */
static void settle(struct conn *conn)
{
	struct kvs_worker *w = conn->worker;
	bool blocked, wants;

	bytes_return(&conn->in, w);
	bytes_return(&conn->out, w);
	count_out(conn);
	/* The peer takes no more answers. */
	if (conn->first && conn->first->complete)
		for (struct task *task = conn->first; task; task = task->next)
			if (task->complete)
				detach_value(w, task);
	blocked = !may_go_on(conn) || conn->eof;
	wants = bytes_count(&conn->out) > 0 && !conn->sending && !is_held_back(conn);
	if (!wants && !conn->storing)
		conn->holds_ns = w->now;
	if (value_waits(conn)) {
		w->crowded = true;
		conn_starve(conn);
	}
	if (conn->blocked && !blocked)
		conn->active_ns = w->now; /* the peer could send nothing */
	if (blocked != conn->blocked || wants != conn->wants_write) {
		conn->blocked = blocked;
		conn->wants_write = wants;
		loop_watch(conn, false);
	}
}

void conn_advance(struct conn *conn)
{
	if (conn->dead) {
		free_when_idle(conn);
		return;
	}
	bytes_lend(&conn->out, conn->worker);
	if (!turn(conn) || is_over(conn))
		conn_close(conn);
	else
		settle(conn);
}

void conn_flush(struct conn *conn)
{
	if (!drain(conn) || is_over(conn))
		conn_close(conn);
	else
		settle(conn);
}

void conn_event(struct conn *conn, unsigned events)
{
	bool broken = events & (EPOLLHUP | EPOLLERR);

	/* A peer that is gone is told all the time: nothing may wait for it. */
	if (broken && conn->blocked) {
		conn_close(conn);
		return;
	}
	if ((broken || events & (EPOLLIN | EPOLLRDHUP)) && !conn->blocked && !fill(conn)) {
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
	conn->guess = worker->guess;
	conn->trusted = !access_has_users(server->access);
	conn->active_ns = conn->holds_ns = worker->now;
	conn->next = worker->conns;
	conn->link = &worker->conns;
	if (conn->next)
		conn->next->link = &conn->next;
	worker->conns = conn;
	__atomic_fetch_add(&worker->conn_count, 1, __ATOMIC_RELAXED);
	loop_watch(conn, true);
	return 0;
}
