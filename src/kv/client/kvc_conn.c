/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection that many threads share. There are no other threads: those that call do the work.
 *
 *	gathered --(encoded by the sender)--> in flight --(answer read by the leader)--> done
 *	    \------------------ given up by its caller, or the connection failed ---------^
 *
 * 1. One thread at a time sends, one at a time receives (the leader). Neither holds the lock while
 *    it is in a system call on the socket. `out` belongs to the sender, `in` to the leader.
 * 2. A thread sleeps only while another leads or was appointed to. A leader that leaves appoints
 *    the newest sleeper, whose answer is the last to come; if nobody sleeps, nobody leads.
 * 3. An operation leaves the client once: by its answer, by the failure of the connection, or by
 *    its caller's deadline. After KVC_DONE was stored its memory belongs to the caller.
 * 4. Answers are matched with requests by their order. An operation that is given up keeps its
 *    place until its answer has come, or the connection is broken.
 * 5. The descriptor is closed when nobody sends or receives, so that it is never another file's.
 * 6. With TLS the leader makes the handshake. Afterwards the sender and the leader use the session
 *    by turns (session_lock), for calls that do not wait.
 *
 * Gathered operations are sent when nothing is in flight, when they fill a segment, or when the
 * oldest has waited for flush_us; those that are gathered while others are sent wait for the next
 * time. The first sleeper whose operation is gathered has the timer for that.
 */
#include "kv/client/client.h"

#include "base/net/tls.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"

#include <errno.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define IN_BYTES     (64u << 10) /* read at once */
#define IN_KEEP	     (1u << 20)	 /* a larger buffer is not kept */
#define REQUEST_COST 32u	 /* bytes of a request beside key and value, about */
#define IDLE_NS	     1000000000u /* after so long the server may have closed an idle connection */

/* ---- sleeping and waking ---- */

static long futex(uint32_t *word, int op, uint32_t value, const struct timespec *until,
		  uint32_t bits)
{
	return syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, until, NULL, bits);
}

static uint32_t *word_of(struct kvc_conn *conn, const struct kvc_call *call)
{
	return &conn->words[call->sequence / 32 % KVC_GROUPS];
}

static uint32_t bit_of(const struct kvc_call *call)
{
	return UINT32_C(1) << call->sequence % 32;
}

/* Sleep unless the word has changed since it was read. The time is absolute, as futexes have it
 * with a bit set: on the clock of fth_now_ns(). */
static void sleep_until(uint32_t *word, uint32_t seen, uint32_t bit, uint64_t until)
{
	struct timespec ts = {.tv_sec = (time_t)(until / 1000000000u),
			      .tv_nsec = (long)(until % 1000000000u)};

	(void)futex(word, FUTEX_WAIT_BITSET, seen, until == FTH_NEVER ? NULL : &ts, bit);
}

/* Release the lock, then wake those whose state has changed. */
void kvc_conn_unlock(struct kvc_conn *conn)
{
	uint32_t wakes[KVC_GROUPS];
	uint64_t groups = conn->groups;

	for (uint64_t left = groups; left; left &= left - 1) {
		unsigned group = (unsigned)__builtin_ctzll(left);

		wakes[group] = conn->wakes[group];
		conn->wakes[group] = 0;
		/* The change of state comes before: who reads the new word finds it. */
		__atomic_fetch_add(&conn->words[group], 1, __ATOMIC_RELEASE);
	}
	conn->groups = 0;
	pthread_mutex_unlock(&conn->lock);
	for (uint64_t left = groups; left; left &= left - 1) {
		unsigned group = (unsigned)__builtin_ctzll(left);

		(void)futex(&conn->words[group], FUTEX_WAKE_BITSET, INT32_MAX, NULL, wakes[group]);
	}
}

static void wake_later(struct kvc_conn *conn, const struct kvc_call *call)
{
	unsigned group = call->sequence / 32 % KVC_GROUPS;

	conn->groups |= UINT64_C(1) << group;
	conn->wakes[group] |= bit_of(call);
}

static bool is_done(struct fth_kvc_op *op)
{
	/* Pairs with complete(): the results are there. */
	return __atomic_load_n(&kvc_call(op)->state, __ATOMIC_ACQUIRE) == KVC_DONE;
}

static void leave_sleepers(struct kvc_conn *conn, struct fth_kvc_op *op)
{
	struct kvc_call *call = kvc_call(op);

	if (!call->asleep)
		return;
	call->asleep = false;
	if (call->newer)
		kvc_call(call->newer)->older = call->older;
	else
		conn->sleepers = call->older;
	if (call->older)
		kvc_call(call->older)->newer = call->newer;
}

/* Change the state of an operation whose caller may sleep. */
static void change_state(struct kvc_conn *conn, struct fth_kvc_op *op, uint32_t state)
{
	struct kvc_call *call = kvc_call(op);

	leave_sleepers(conn, op);
	if (call->state == KVC_SLEEPING)
		wake_later(conn, call);
	/* Release: the results are there before the state says so. Then op is not ours any more. */
	__atomic_store_n(&call->state, state, __ATOMIC_RELEASE);
}

static void complete(struct kvc_conn *conn, struct fth_kvc_op *op, int result)
{
	if (conn->timer == op)
		conn->timer = NULL;
	kvc_call(op)->place = KVC_NOWHERE;
	op->result = result;
	if (op->verb == FTH_KV_GET || op->verb == FTH_KV_TOUCH) {
		conn->stats.hits += result == 0 || result == -EMSGSIZE;
		conn->stats.misses += result == -ENOENT;
	}
	change_state(conn, op, KVC_DONE);
}

static void answered(void *context, struct fth_kvc_op *op, int result)
{
	complete(context, op, result);
}

/* ---- gathered operations ---- */

static size_t cost_of(const struct fth_kvc_op *op)
{
	return REQUEST_COST + op->key_length + op->value_length;
}

static void gather(struct kvc_conn *conn, struct fth_kvc_op *op)
{
	struct kvc_call *call = kvc_call(op);

	call->place = KVC_GATHERED;
	call->next = NULL;
	call->previous = conn->last;
	*(conn->last ? &kvc_call(conn->last)->next : &conn->first) = op;
	conn->last = op;
	conn->waiting++;
	conn->gathered += cost_of(op);
}

static void ungather(struct kvc_conn *conn, struct fth_kvc_op *op)
{
	struct kvc_call *call = kvc_call(op);

	call->place = KVC_NOWHERE;
	*(call->previous ? &kvc_call(call->previous)->next : &conn->first) = call->next;
	*(call->next ? &kvc_call(call->next)->previous : &conn->last) = call->previous;
	conn->waiting--;
	conn->gathered -= cost_of(op);
}

/* Gets of a broken connection are tried once more, before those that came later. */
static void gather_again(struct kvc_conn *conn, struct fth_kvc_op *op, struct fth_kvc_op **after)
{
	struct kvc_call *call = kvc_call(op);
	struct fth_kvc_op *next = *after ? kvc_call(*after)->next : conn->first;

	call->retried = true;
	call->place = KVC_GATHERED;
	call->previous = *after;
	call->next = next;
	*(*after ? &kvc_call(*after)->next : &conn->first) = op;
	*(next ? &kvc_call(next)->previous : &conn->last) = op;
	conn->waiting++;
	conn->gathered += cost_of(op);
	conn->stats.retries++;
	*after = op;
}

void kvc_conn_fail_gathered(struct kvc_conn *conn, int result)
{
	while (conn->first) {
		struct fth_kvc_op *op = conn->first;

		ungather(conn, op);
		complete(conn, op, result);
	}
}

/* ---- breaking ---- */

/* Break an open connection. Gets are sent again once, all else in flight ends with the error. */
void kvc_conn_fail(struct kvc_conn *conn, int error)
{
	struct fth_kvc_op *op, *after = NULL;
	bool down = !conn->heard || error == ETIMEDOUT || error == EACCES;

	if (conn->state != KVC_OPEN)
		return;
	conn->stats.breaks++;
	conn->state = KVC_BROKEN;
	(void)shutdown(conn->fd, SHUT_RDWR); /* a leader that waits returns */
	while ((op = kvc_flight_pop(&conn->flight)) != NULL) {
		if (op->verb == FTH_KV_GET && error == ECONNRESET && !kvc_call(op)->retried)
			gather_again(conn, op, &after);
		else
			complete(conn, op, -error);
	}
	if (down) {
		kvc_server_failed(conn->server, error, NULL);
		kvc_conn_fail_gathered(conn, -EHOSTDOWN);
	} else {
		kvc_server_untried(conn->server);
	}
	if (!conn->leading && !conn->sending)
		kvc_conn_close(conn);
}

/* ---- sending ---- */

/* Encode what is gathered, a segment at most. Returns the number of operations. */
static unsigned encode(struct kvc_conn *conn)
{
	unsigned before = conn->waiting;

	if (kvc_flight_count(&conn->flight) == 0)
		conn->heard_ns = fth_now_ns();
	while (conn->first && conn->out.to - conn->out.from < conn->options->segment &&
	       !kvc_flight_full(&conn->flight)) {
		struct fth_kvc_op *op = conn->first;
		struct kvc_call *call = kvc_call(op);

		ungather(conn, op);
		call->place = KVC_FLYING;
		if (kvc_flight_put(&conn->flight, op, &conn->out, &call->slot) < 0)
			complete(conn, op, -ENOMEM);
		else
			conn->stats.requests++;
	}
	kvc_flight_end(&conn->flight, &conn->out);
	conn->timer =
		NULL; /* what is left waits for the leader: the flight or the socket is full */
	return before - conn->waiting;
}

/* An idle connection may have been closed by the server meanwhile. */
static bool is_stale(struct kvc_conn *conn)
{
	char byte;

	if (kvc_flight_count(&conn->flight) || conn->out.to != conn->out.from ||
	    fth_now_ns() - conn->heard_ns < IDLE_NS)
		return false;
	return recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

/* Send some of `out`, without the lock. Returns false if there is nothing more to do for now. */
static bool send_some(struct kvc_conn *conn)
{
	size_t n = conn->out.to - conn->out.from;
	ssize_t sent;
	int err;

	kvc_conn_unlock(conn);
	if (conn->session) {
		pthread_mutex_lock(&conn->session_lock);
		sent = tls_send(conn->session, conn->out.data + conn->out.from, n);
		err = errno;
		pthread_mutex_unlock(&conn->session_lock);
	} else {
		sent = send(conn->fd, conn->out.data + conn->out.from, n,
			    MSG_DONTWAIT | MSG_NOSIGNAL);
		err = errno;
	}
	pthread_mutex_lock(&conn->lock);
	if (conn->state != KVC_OPEN)
		return false;
	conn->stats.segments++;
	if (sent < 0 && err != EAGAIN && err != EINTR) {
		kvc_conn_fail(conn, ECONNRESET);
		return false;
	}
	if (sent > 0) {
		/* A long request that moves on is no silence. */
		if (conn->out.from || (size_t)sent < n)
			conn->heard_ns = fth_now_ns();
		conn->stats.bytes_sent += (uint64_t)sent;
		conn->out.from += (size_t)sent;
	}
	if (conn->out.from == conn->out.to)
		conn->out.from = conn->out.to = 0;
	conn->blocked = conn->out.to != 0 && err != EINTR;
	return !conn->blocked;
}

static uint64_t flush_at(const struct kvc_conn *conn)
{
	return kvc_call(conn->first)->since + (uint64_t)conn->options->flush_us * 1000;
}

static bool is_time_to_send(const struct kvc_conn *conn, uint64_t now)
{
	if (conn->out.to != conn->out.from && !conn->sending)
		return true;
	if (!conn->first)
		return false;
	return kvc_flight_count(&conn->flight) == 0 || conn->gathered >= conn->options->segment ||
	       now >= flush_at(conn);
}

/*
 * Send all that is gathered, unless somebody does. The lock is released meanwhile. Requests that
 * are gathered later wait for their time: each segment costs both sides system calls.
 */
static void flush(struct kvc_conn *conn)
{
	unsigned left;

	if (conn->sending || conn->blocked)
		return;
	conn->sending = true;
	if (is_stale(conn))
		kvc_conn_fail(conn, ECONNRESET);
	left = conn->waiting;
	while (conn->state == KVC_OPEN) {
		if (conn->out.to == conn->out.from &&
		    (left || is_time_to_send(conn, fth_now_ns()))) {
			unsigned n = encode(conn);

			left -= n < left ? n : left;
		}
		if (conn->out.to == conn->out.from || !send_some(conn))
			break;
	}
	conn->sending = false;
	if (conn->state == KVC_BROKEN && !conn->leading)
		kvc_conn_close(conn);
	if (conn->blocked && conn->polling) {
		uint64_t one = 1;

		/*
		 * The leader has to watch for room in the socket. It cannot fail: the count is
		 * small.
		 */
		(void)!write(conn->nudge, &one, sizeof(one));
	}
}

/* ---- receiving ---- */

static void receive(struct kvc_conn *conn)
{
	struct kvc_bytes *in = &conn->in;
	bool pending = false;
	size_t need;
	ssize_t n;
	int err;

	if (!kvc_bytes_room(in, IN_BYTES)) {
		kvc_conn_fail(conn, ENOMEM);
		return;
	}
	kvc_conn_unlock(conn);
	if (conn->session) {
		pthread_mutex_lock(&conn->session_lock);
		n = tls_read(conn->session, in->data + in->to, in->room - in->to);
		err = errno;
		pending = n > 0 && tls_pending(conn->session);
		pthread_mutex_unlock(&conn->session_lock);
	} else {
		n = recv(conn->fd, in->data + in->to, in->room - in->to, MSG_DONTWAIT);
		err = errno;
	}
	pthread_mutex_lock(&conn->lock);
	conn->pending = pending;
	if (conn->state != KVC_OPEN || (n < 0 && (err == EAGAIN || err == EINTR)))
		return;
	if (n <= 0) {
		kvc_conn_fail(conn, ECONNRESET);
		return;
	}
	in->to += (size_t)n;
	conn->stats.bytes_received += (uint64_t)n;
	conn->heard_ns = fth_now_ns();
	n = kvc_flight_take(&conn->flight, in->data + in->from, in->to - in->from, &need);
	if (n < 0) {
		kvc_conn_fail(conn, (int)-n);
		return;
	}
	in->from += (size_t)n;
	if (n > 0) {
		conn->heard = true;
		kvc_server_answered(conn->server);
	}
	if (in->from == in->to)
		in->from = in->to = 0;
	if (in->to == 0 && in->room > IN_KEEP)
		kvc_bytes_release(in);
	else if (need > in->to - in->from && !kvc_bytes_room(in, need - (in->to - in->from)))
		kvc_conn_fail(conn, ENOMEM);
}

static bool is_dialling(const struct kvc_conn *conn)
{
	return conn->state == KVC_CONNECTING || conn->state == KVC_HANDSHAKE;
}

/* The latest time at which the leader has to look again. */
static uint64_t look_again_at(const struct kvc_conn *conn, uint64_t deadline)
{
	uint64_t until = deadline, silence;

	if (kvc_flight_count(&conn->flight) || is_dialling(conn) || conn->blocked) {
		silence = conn->heard_ns + (uint64_t)conn->options->timeout_ms * 1000000;
		until = silence < until ? silence : until;
	}
	if (conn->state == KVC_OPEN && conn->first && !conn->blocked &&
	    !kvc_flight_full(&conn->flight) && flush_at(conn) < until)
		until = flush_at(conn);
	return until;
}

/* Wait until something can be done, without the lock. Returns the events of the socket. */
static int conn_poll(struct kvc_conn *conn, uint64_t until)
{
	bool wants_room = conn->blocked || conn->state == KVC_CONNECTING;
	struct pollfd fds[2] = {
		{.fd = conn->fd,
		 .events = conn->state == KVC_HANDSHAKE
				   ? conn->awaits
				   : (short)(POLLIN | (wants_room ? POLLOUT : 0))},
		{.fd = conn->nudge, .events = POLLIN},
	};
	uint64_t now = fth_now_ns(), ns = until > now ? until - now : 0, count;
	struct timespec ts = {.tv_sec = (time_t)(ns / 1000000000u),
			      .tv_nsec = (long)(ns % 1000000000u)};
	int rc;

	if (conn->pending) /* poll() does not know of it */
		return POLLIN;
	conn->polling = !wants_room;
	kvc_conn_unlock(conn);
	rc = ppoll(fds, 2, until == FTH_NEVER ? NULL : &ts, NULL);
	if (rc > 0 && fds[1].revents)
		(void)!read(conn->nudge, &count, sizeof(count));
	pthread_mutex_lock(&conn->lock);
	conn->polling = false;
	return rc > 0 ? fds[0].revents : 0;
}

static bool is_silent(const struct kvc_conn *conn)
{
	return (kvc_flight_count(&conn->flight) || conn->blocked || is_dialling(conn)) &&
	       fth_now_ns() >= conn->heard_ns + (uint64_t)conn->options->timeout_ms * 1000000;
}

static void conn_look(struct kvc_conn *conn, uint64_t until)
{
	int events = conn_poll(conn, until);

	if (is_dialling(conn)) {
		if (events && conn->state == KVC_CONNECTING)
			kvc_conn_connected(conn);
		else if (is_silent(conn))
			kvc_conn_next_address(conn, ETIMEDOUT, NULL);
		else if (events)
			kvc_conn_handshake(conn);
		return;
	}
	if (conn->state != KVC_OPEN)
		return;
	if (events & POLLOUT)
		conn->blocked = false;
	if (events & ~POLLOUT)
		receive(conn);
	else if (!events && is_silent(conn))
		kvc_conn_fail(conn, ETIMEDOUT);
}

/* ---- leading ---- */

/* Bring a broken or closed connection into a state in which it can be waited for. */
static bool conn_ready(struct kvc_conn *conn)
{
	if (conn->state == KVC_BROKEN && conn->sending) {
		/* The sender does not wait for anything, and is back in a moment. */
		kvc_conn_unlock(conn);
		sched_yield();
		pthread_mutex_lock(&conn->lock);
		return false;
	}
	if (conn->state == KVC_BROKEN)
		kvc_conn_close(conn);
	if (conn->state == KVC_CLOSED) {
		kvc_conn_dial(conn);
		return false;
	}
	return true;
}

/* Send and receive for all until op is complete or its deadline has passed. */
static void conn_lead(struct kvc_conn *conn, struct fth_kvc_op *op, uint64_t deadline)
{
	bool expired = false;

	while (!is_done(op)) {
		uint64_t now = fth_now_ns();

		if (!conn_ready(conn))
			continue;
		if (conn->state == KVC_OPEN && is_time_to_send(conn, now)) {
			flush(conn);
			if (conn->state != KVC_OPEN || is_done(op))
				continue;
		}
		if (expired)
			break;
		/* One look after the deadline: what has come already is taken. */
		expired = now >= deadline;
		conn_look(conn, expired ? now : look_again_at(conn, deadline));
	}
}

static void appoint(struct kvc_conn *conn)
{
	conn->leading = conn->sleepers != NULL;
	if (conn->sleepers)
		change_state(conn, conn->sleepers, KVC_LEADS);
	else if (conn->state == KVC_BROKEN && !conn->sending)
		kvc_conn_close(conn);
	else if (conn->state == KVC_OPEN && conn->first)
		flush(conn);
}

/* The caller does not wait any longer. */
static void abandon(struct kvc_conn *conn, struct fth_kvc_op *op)
{
	struct kvc_call *call = kvc_call(op);
	bool had_timer = conn->timer == op;

	conn->stats.timeouts++;
	kvc_server_untried(conn->server);
	if (call->place == KVC_GATHERED)
		ungather(conn, op);
	else if (call->place == KVC_FLYING && kvc_flight_abandon(&conn->flight, call->slot) < 0)
		kvc_conn_fail(conn, ENOMEM);
	complete(conn, op, -ETIMEDOUT);
	if (had_timer && conn->state == KVC_OPEN && conn->first)
		flush(conn);
}

/*
 * Sleep until somebody has completed the operation or left the lead to it, or until the deadline.
 */
static void conn_sleep(struct kvc_conn *conn, struct fth_kvc_op *op, uint64_t deadline)
{
	struct kvc_call *call = kvc_call(op);
	uint32_t *word = word_of(conn, call), seen;
	uint64_t until = deadline;

	if (call->place == KVC_GATHERED && !conn->timer && conn->state == KVC_OPEN) {
		conn->timer = op;
		until = flush_at(conn) < deadline ? flush_at(conn) : deadline;
	}
	call->asleep = true;
	call->newer = NULL;
	call->older = conn->sleepers;
	if (conn->sleepers)
		kvc_call(conn->sleepers)->newer = op;
	conn->sleepers = op;
	call->state = KVC_SLEEPING;
	seen = __atomic_load_n(word, __ATOMIC_RELAXED);
	kvc_conn_unlock(conn);
	sleep_until(word, seen, bit_of(call), until);
	if (is_done(op))
		return;
	pthread_mutex_lock(&conn->lock);
	leave_sleepers(conn, op);
	if (conn->timer == op) {
		conn->timer = NULL;
		if (conn->state == KVC_OPEN && conn->first && fth_now_ns() >= flush_at(conn))
			flush(conn);
	}
	kvc_conn_unlock(conn);
}

void kvc_conn_wait(struct kvc_conn *conn, struct fth_kvc_op *op, uint64_t deadline)
{
	struct kvc_call *call = kvc_call(op);

	while (!is_done(op)) {
		bool leads;

		pthread_mutex_lock(&conn->lock);
		leads = call->state == KVC_LEADS || !conn->leading;
		if (!leads && call->state != KVC_DONE && fth_now_ns() < deadline) {
			conn_sleep(conn, op, deadline);
			continue;
		}
		if (leads && call->state != KVC_DONE) {
			conn->leading = true;
			call->state = KVC_RUNNING;
			conn_lead(conn, op, deadline);
			appoint(conn);
		}
		if (call->state != KVC_DONE)
			abandon(conn, op);
		kvc_conn_unlock(conn);
	}
}

/* ---- from outside ---- */

/* Send what is gathered if it is time; `all`: in any case, unless a leader will. */
static void push_gathered(struct kvc_conn *conn, bool all)
{
	if (conn->state == KVC_CLOSED && !conn->leading && conn->first)
		kvc_conn_dial(conn);
	if (conn->state == KVC_OPEN && conn->first &&
	    ((all && !conn->leading) || is_time_to_send(conn, kvc_call(conn->first)->since)))
		flush(conn);
}

void kvc_conn_add(struct kvc_conn *conn, struct fth_kvc_op *op, bool push)
{
	pthread_mutex_lock(&conn->lock);
	kvc_call(op)->since = fth_now_ns();
	kvc_call(op)->sequence = conn->sequence++;
	gather(conn, op);
	if (push)
		push_gathered(conn, false);
	kvc_conn_unlock(conn);
}

void kvc_conn_push(struct kvc_conn *conn)
{
	pthread_mutex_lock(&conn->lock);
	push_gathered(conn, true);
	kvc_conn_unlock(conn);
}

int kvc_conn_init(struct kvc_conn *conn, struct kvc_server *server,
		  const struct fth_kvc_options *options, void *tls)
{
	conn->tls = tls;
	pthread_mutex_init(&conn->session_lock, NULL);
	conn->server = server;
	conn->options = options;
	conn->fd = -1;
	conn->flight.done = answered;
	conn->flight.context = conn;
	conn->flight.value_max = options->value_max;
	pthread_mutex_init(&conn->lock, NULL);
	conn->nudge = fth_fd_high(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	return conn->nudge < 0 ? conn->nudge : 0;
}

void kvc_conn_release(struct kvc_conn *conn)
{
	while (kvc_flight_pop(&conn->flight))
		;
	kvc_conn_close(conn);
	if (conn->nudge >= 0)
		close(conn->nudge);
	kvc_bytes_release(&conn->in);
	kvc_bytes_release(&conn->out);
	pthread_mutex_destroy(&conn->session_lock);
	pthread_mutex_destroy(&conn->lock);
}

void kvc_conn_stats(struct kvc_conn *conn, struct fth_kvc_stats *sum)
{
	const uint64_t *from = (const uint64_t *)&conn->stats;
	uint64_t *to = (uint64_t *)sum;

	pthread_mutex_lock(&conn->lock);
	for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += from[i];
	sum->gets += conn->flight.gets;
	sum->late += conn->flight.late;
	pthread_mutex_unlock(&conn->lock);
}
