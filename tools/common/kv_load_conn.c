/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection of the load generator: one request in flight, of one key or several.
 *
 *	IDLE --load_conn_start()--> BUSY --last answer--> IDLE, and at once the next request
 *	                       BUSY --error, time-out--> CLOSED
 *
 * Answers are taken from the buffer one by one, each as soon as it is whole.
 */
#include "kv_load_internal.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define LINE_BYTES 96u /* of a command or an answer, without value; more than any of ours has */
#define CONNECT_NS 10000000000u
#define PICKS_MAX  64u /* times that a key is picked for a set while others set it */

/* ---- life ---- */

static void watch(struct load_conn *conn, int how)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};

	if (conn->wants_write)
		event.events |= EPOLLOUT;
	(void)epoll_ctl(conn->thread->epoll, how, conn->wire.fd, &event);
}

int load_conn_init(struct load_conn *conn, struct load_thread *thread, unsigned number)
{
	const struct fth_kv_load *load = thread->run->load;
	size_t item = load->data->value_bytes + LINE_BYTES;
	int rc;

	conn->thread = thread;
	conn->rng.state = fth_mix64(load->seed + 0x1000 + number);
	conn->in_room = conn->out_room = load->batch * item + LINE_BYTES;
	conn->in = malloc(conn->in_room);
	conn->out = malloc(conn->out_room);
	if (!conn->in || !conn->out)
		return -ENOMEM;
	rc = fth_kv_wire_open(&conn->wire, load->server, load->tls, load->auth, CONNECT_NS);
	if (rc < 0)
		return rc;
	watch(conn, EPOLL_CTL_ADD);
	load_add_idle(thread, conn);
	return 0;
}

void load_conn_release(struct load_conn *conn)
{
	fth_kv_wire_close(&conn->wire);
	free(conn->in);
	free(conn->out);
}

static void close_conn(struct load_conn *conn)
{
	fth_kv_wire_close(&conn->wire);
	conn->state = CONN_CLOSED;
	conn->thread->busy--;
	conn->thread->closed++;
}

void load_conn_give_up(struct load_conn *conn)
{
	conn->thread->result.timeouts++;
	close_conn(conn);
}

static void note_answer(struct load_conn *conn, const char *line, size_t length)
{
	struct fth_kv_load_result *r = &conn->thread->result;

	if (*r->answer)
		return;
	if (length >= sizeof(r->answer))
		length = sizeof(r->answer) - 1;
	memcpy(r->answer, line, length);
	r->answer[length] = '\0';
}

/* ---- requests ---- */

static void put(struct load_conn *conn, const void *data, size_t n)
{
	memcpy(conn->out + conn->out_to, data, n);
	conn->out_to += n;
}

static void put_key(struct load_conn *conn, uint64_t index)
{
	kv_data_key(index, conn->out + conn->out_to);
	conn->out_to += FTH_KV_LOAD_KEY;
}

static uint64_t pick(struct load_conn *conn)
{
	const struct load_run *run = conn->thread->run;

	if (run->load->zipf > 0)
		return kv_zipf_pick(&run->zipf, &conn->rng);
	return fth_rng_below(&conn->rng, run->load->data->items);
}

/* The next keys of FILL and SWEEP; 0 when all are taken. */
static unsigned take_sequence(struct load_conn *conn)
{
	struct load_run *run = conn->thread->run;
	uint64_t items = run->load->data->items, batch = run->load->batch;
	uint64_t first = __atomic_fetch_add(&run->next, batch, __ATOMIC_RELAXED);
	unsigned n = 0;

	for (; n < batch && first + n < items; n++)
		conn->keys[n] = first + n;
	return n;
}

static void put_set(struct load_conn *conn, uint64_t index, uint32_t version)
{
	const struct load_run *run = conn->thread->run;
	const struct fth_kv_data *data = run->load->data;

	put(conn, "set ", 4);
	put_key(conn, index);
	put(conn, run->set_tail, strlen(run->set_tail));
	kv_data_value(data, index, version, conn->out + conn->out_to);
	conn->out_to += data->value_bytes;
	put(conn, "\r\n", 2);
}

/* A random key that nobody else sets. */
static bool make_random_set(struct load_conn *conn)
{
	struct fth_kv_data *data = conn->thread->run->load->data;
	uint32_t version;

	for (unsigned i = 0; i < PICKS_MAX; i++) {
		uint64_t index = pick(conn);

		if (!kv_data_begin_set(data, index, &version))
			continue;
		conn->keys[0] = index;
		conn->count = 1;
		put_set(conn, index, version);
		return true;
	}
	return false;
}

static bool make_fill(struct load_conn *conn)
{
	struct fth_kv_data *data = conn->thread->run->load->data;
	unsigned n = 0;
	uint32_t version;

	for (unsigned i = 0; i < conn->count; i++)
		if (kv_data_begin_set(data, conn->keys[i], &version)) {
			put_set(conn, conn->keys[i], version);
			conn->keys[n++] = conn->keys[i];
		}
	conn->count = n;
	return n > 0;
}

static void make_get(struct load_conn *conn)
{
	const struct fth_kv_data *data = conn->thread->run->load->data;

	put(conn, "get", 3);
	for (unsigned i = 0; i < conn->count; i++) {
		conn->before[i] = kv_data_before_get(data, conn->keys[i]);
		put(conn, " ", 1);
		put_key(conn, conn->keys[i]);
	}
	put(conn, "\r\n", 2);
}

static bool make_request(struct load_conn *conn)
{
	const struct fth_kv_load *load = conn->thread->run->load;

	conn->out_from = conn->out_to = conn->in_from = conn->in_to = 0;
	conn->answered = conn->count = 0;
	if (load->mode != FTH_KV_LOAD_MIX) {
		conn->is_set = load->mode == FTH_KV_LOAD_FILL;
		do /* a set of which nobody knows how it ended may be in the way of all of them */
			conn->count = take_sequence(conn);
		while (conn->count && conn->is_set && !make_fill(conn));
	} else {
		conn->is_set = load->set_share > 0 && fth_rng_unit(&conn->rng) < load->set_share;
		if (conn->is_set && !make_random_set(conn))
			conn->is_set = false;
		if (!conn->is_set)
			for (; conn->count < load->batch; conn->count++)
				conn->keys[conn->count] = pick(conn);
	}
	if (!conn->is_set && conn->count)
		make_get(conn);
	return conn->count > 0;
}

/* False: the connection is gone. */
static bool send_rest(struct load_conn *conn)
{
	bool wants;

	while (conn->out_from < conn->out_to) {
		ssize_t n = fth_kv_wire_send(&conn->wire, conn->out + conn->out_from,
					     conn->out_to - conn->out_from);

		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0 && errno != EINTR) {
			conn->thread->result.broken++;
			close_conn(conn);
			return false;
		}
		conn->out_from += n > 0 ? (size_t)n : 0;
	}
	wants = conn->out_from < conn->out_to;
	if (wants != conn->wants_write) {
		conn->wants_write = wants;
		watch(conn, EPOLL_CTL_MOD);
	}
	return true;
}

bool load_conn_start(struct load_conn *conn, uint64_t now)
{
	struct load_thread *thread = conn->thread;

	if (!make_request(conn))
		return false;
	thread->issued += conn->count;
	thread->busy++;
	conn->state = CONN_BUSY;
	conn->started = now;
	(void)send_rest(conn);
	return true;
}

/* ---- answers ---- */

enum taken { TAKEN_ALL, TAKEN_ONE, TAKEN_NONE, TAKEN_BROKEN };

static bool begins(const char *at, size_t count, const char *text)
{
	size_t length = strlen(text);

	return count >= length && memcmp(at, text, length) == 0;
}

/* The length of the line at `at`, its end included; 0: it is not whole. */
static size_t line_length(const char *at, size_t count)
{
	const char *end = memchr(at, '\n', count);

	return end ? (size_t)(end - at) + 1 : 0;
}

static enum taken take_stored(struct load_conn *conn)
{
	struct fth_kv_load_result *r = &conn->thread->result;
	const char *at = conn->in + conn->in_from;
	size_t length = line_length(at, conn->in_to - conn->in_from);
	bool stored = begins(at, length, "STORED\r\n");

	if (!length)
		return TAKEN_NONE;
	if (!stored)
		note_answer(conn, at, length - 1);
	if (!stored && !begins(at, length, "SERVER_ERROR") && !begins(at, length, "NOT_STORED"))
		return TAKEN_BROKEN;
	conn->in_from += length;
	r->sets++;
	r->stored += stored;
	r->refused += !stored;
	kv_data_end_set(conn->thread->run->load->data, conn->keys[conn->answered++], stored);
	return conn->answered == conn->count ? TAKEN_ALL : TAKEN_ONE;
}

/* A value has come: of the next key of the request that it can be of. Those before were misses. */
static bool take_item(struct load_conn *conn, uint64_t index, const char *value, size_t length)
{
	struct fth_kv_load_result *r = &conn->thread->result;

	while (conn->answered < conn->count) {
		unsigned i = conn->answered++;

		r->gets++;
		if (conn->keys[i] != index)
			continue;
		r->hits++;
		switch (kv_data_check(conn->thread->run->load->data, index, conn->before[i], value,
				      length)) {
		case KV_RIGHT:
			break;
		case KV_STALE:
			r->stale++;
			break;
		case KV_WRONG:
			r->wrong++;
			break;
		}
		return true;
	}
	return false;
}

/* A number behind a space; NULL: there is none. The line ends, so that this ends. */
static const char *take_number(const char *at, uint64_t *number)
{
	uint64_t n = 0;

	if (at[0] != ' ' || at[1] < '0' || at[1] > '9')
		return NULL;
	for (at++; *at >= '0' && *at <= '9' && n <= UINT32_MAX; at++)
		n = n * 10 + (uint64_t)(*at - '0');
	*number = n;
	return at;
}

static enum taken take_value(struct load_conn *conn, const char *at, size_t line)
{
	size_t count = conn->in_to - conn->in_from, length;
	const char *space = memchr(at + 6, ' ', line - 6);
	uint64_t flags, bytes, index;

	if (!space || !kv_data_parse_key(at + 6, (size_t)(space - at - 6), &index) ||
	    !(space = take_number(space, &flags)) || !(space = take_number(space, &bytes)) ||
	    (*space != ' ' && *space != '\r') || bytes > conn->in_room)
		return TAKEN_BROKEN;
	length = line + bytes + 2;
	if (length > conn->in_room)
		return TAKEN_BROKEN;
	if (count < length)
		return TAKEN_NONE;
	if (memcmp(at + line + bytes, "\r\n", 2) != 0 || !take_item(conn, index, at + line, bytes))
		return TAKEN_BROKEN;
	conn->in_from += length;
	return TAKEN_ONE;
}

static enum taken take_got(struct load_conn *conn)
{
	struct fth_kv_load_result *r = &conn->thread->result;
	const char *at = conn->in + conn->in_from;
	size_t line = line_length(at, conn->in_to - conn->in_from);

	if (!line)
		return TAKEN_NONE;
	if (begins(at, line, "VALUE ")) {
		enum taken taken = take_value(conn, at, line);

		if (taken == TAKEN_BROKEN)
			note_answer(conn, at, line - 1);
		return taken;
	}
	if (!begins(at, line, "END\r\n")) {
		note_answer(conn, at, line - 1);
		return TAKEN_BROKEN;
	}
	r->gets += conn->count - conn->answered;
	conn->in_from += line;
	return TAKEN_ALL;
}

static void finish_request(struct load_conn *conn)
{
	struct load_thread *thread = conn->thread;
	uint64_t now = fth_now_ns();

	thread->result.requests++;
	fth_latency_add(&thread->result.latency, now - conn->started);
	__atomic_fetch_add(&thread->run->done, conn->count, __ATOMIC_RELAXED);
	thread->busy--;
	conn->state = CONN_IDLE;
	if (!load_may_send(thread, now) || !load_conn_start(conn, now))
		if (conn->state == CONN_IDLE)
			load_add_idle(thread, conn);
}

static void take_answers(struct load_conn *conn)
{
	enum taken taken;

	do
		taken = conn->is_set ? take_stored(conn) : take_got(conn);
	while (taken == TAKEN_ONE);
	if (taken == TAKEN_ALL) {
		finish_request(conn);
	} else if (taken == TAKEN_BROKEN) {
		conn->thread->result.broken++;
		close_conn(conn);
	}
}

static void receive(struct load_conn *conn)
{
	ssize_t n;

	if (conn->in_from && conn->in_to == conn->in_room) {
		memmove(conn->in, conn->in + conn->in_from, conn->in_to - conn->in_from);
		conn->in_to -= conn->in_from;
		conn->in_from = 0;
	}
	n = fth_kv_wire_read(&conn->wire, conn->in + conn->in_to, conn->in_room - conn->in_to);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || conn->state != CONN_BUSY) {
		/* The server has closed it, or says something that was not asked for. */
		if (conn->state == CONN_IDLE)
			conn->thread->busy++;
		conn->thread->result.broken++;
		close_conn(conn);
		return;
	}
	conn->in_to += (size_t)n;
	take_answers(conn);
}

void load_conn_event(struct load_conn *conn, unsigned events)
{
	if (conn->state == CONN_CLOSED)
		return;
	if (events & EPOLLOUT && !send_rest(conn))
		return;
	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		return;
	do
		receive(conn);
	while (conn->state != CONN_CLOSED && fth_kv_wire_pending(&conn->wire));
}
