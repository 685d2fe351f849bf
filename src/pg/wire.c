/* SPDX-License-Identifier: BSD-2-Clause */
#include "pg/wire.h"
#include "base/net/tls.h"

#include "fathom/hd/wait.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define INPUT_LEAST 8192u

void pg_wire_init(struct pg_wire *w, int fd, uint64_t timeout_ns)
{
	*w = (struct pg_wire){.fd = fd, .timeout_ns = timeout_ns};
}

void pg_wire_release(struct pg_wire *w)
{
	if (w->tls)
		tls_detach(w->tls);
	free(w->out);
	free(w->in);
	*w = (struct pg_wire){.fd = -1};
}

/* Wait until the socket has events, or the deadline. 0 or a negative errno. */
static int wait_for(struct pg_wire *w, short events, uint64_t deadline)
{
	for (;;) {
		struct pollfd p = {.fd = w->fd, .events = events};
		uint64_t now = fth_now_ns();
		int ms, n;

		if (deadline != UINT64_MAX && now >= deadline)
			return -ETIMEDOUT;
		ms = deadline == UINT64_MAX ? -1 : (int)((deadline - now + 999999) / 1000000);
		n = poll(&p, 1, ms);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

int pg_start_tls(struct pg_wire *w, void *tls)
{
	uint64_t deadline = fth_deadline_ns(w->timeout_ns);
	short events = 0;
	int rc;

	w->tls = tls_attach(tls, w->fd);
	if (!w->tls)
		return -ENOMEM;
	while ((rc = tls_handshake(w->tls, &events)) == -EAGAIN) {
		rc = wait_for(w, events, deadline);
		if (rc < 0)
			break;
	}
	return rc;
}

/* ---- output ---- */

char *pg_put_room(struct pg_wire *w, size_t n)
{
	size_t need = w->out_length + n, room = w->out_room ? w->out_room : PG_OUTPUT_FLUSH * 2;
	char *bytes;

	if (w->failed < 0)
		return NULL;
	if (need <= w->out_room)
		return w->out + w->out_length;
	while (room < need)
		room *= 2;
	bytes = realloc(w->out, room);
	if (!bytes) {
		w->failed = -ENOMEM;
		return NULL;
	}
	w->out = bytes;
	w->out_room = room;
	return w->out + w->out_length;
}

void pg_put_used(struct pg_wire *w, size_t n)
{
	w->out_length += n;
}

void pg_put_bytes(struct pg_wire *w, const void *bytes, size_t n)
{
	char *to = pg_put_room(w, n);

	if (!to)
		return;
	if (n > 0)
		memcpy(to, bytes, n);
	w->out_length += n;
}

void pg_put_u8(struct pg_wire *w, uint8_t value)
{
	pg_put_bytes(w, &value, 1);
}

void pg_put_i16(struct pg_wire *w, int value)
{
	uint8_t b[2] = {(uint8_t)((unsigned)value >> 8), (uint8_t)value};

	pg_put_bytes(w, b, 2);
}

static void store_be32(char *to, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		to[i] = (char)(value >> (24 - 8 * i));
}

void pg_put_i32(struct pg_wire *w, int32_t value)
{
	char *to = pg_put_room(w, 4);

	if (!to)
		return;
	store_be32(to, (uint32_t)value);
	w->out_length += 4;
}

void pg_put_i64(struct pg_wire *w, int64_t value)
{
	pg_put_i32(w, (int32_t)(value >> 32));
	pg_put_i32(w, (int32_t)value);
}

void pg_put_string(struct pg_wire *w, const char *text)
{
	pg_put_bytes(w, text, strlen(text) + 1);
}

void pg_put_begin(struct pg_wire *w, char type)
{
	w->open = w->out_length;
	pg_put_u8(w, (uint8_t)type);
	pg_put_i32(w, 0);
}

int pg_put_end(struct pg_wire *w)
{
	size_t length = w->out_length - w->open - 1;

	if (w->failed < 0)
		return w->failed;
	if (length > INT32_MAX) {
		w->out_length = w->open;
		return -E2BIG;
	}
	store_be32(w->out + w->open + 1, (uint32_t)length);
	return w->out_length >= PG_OUTPUT_FLUSH ? pg_flush(w) : 0;
}

void pg_put_drop(struct pg_wire *w)
{
	if (w->failed == 0)
		w->out_length = w->open;
}

int pg_put_empty(struct pg_wire *w, char type)
{
	pg_put_begin(w, type);
	return pg_put_end(w);
}

int pg_put_raw(struct pg_wire *w, const void *bytes, size_t n)
{
	pg_put_bytes(w, bytes, n);
	return pg_flush(w);
}

static ssize_t send_some(struct pg_wire *w, const char *from, size_t n)
{
	return w->tls ? tls_send(w->tls, from, n) : send(w->fd, from, n, MSG_NOSIGNAL);
}

int pg_flush(struct pg_wire *w)
{
	size_t at = 0;

	if (w->drain && w->failed == 0) {
		w->failed = w->drain(w->user, w->out, w->out_length);
		at = w->out_length;
	}
	while (w->failed == 0 && at < w->out_length) {
		ssize_t n = send_some(w, w->out + at, w->out_length - at);

		if (n > 0) {
			at += (size_t)n;
			w->sent += (uint64_t)n;
		} else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
			w->failed = wait_for(w, POLLOUT, fth_deadline_ns(w->timeout_ns));
		} else {
			w->failed = n < 0 && errno != 0 ? -errno : -ECONNRESET;
		}
	}
	w->out_length = 0;
	if (w->out_room > PG_OUTPUT_FLUSH * 16) { /* a long row is over */
		free(w->out);
		w->out = NULL;
		w->out_room = 0;
	}
	return w->failed;
}

/* ---- input ---- */

bool pg_input_waits(const struct pg_wire *w)
{
	return w->in_at < w->in_end || (w->tls && tls_pending(w->tls));
}

char pg_next_type(const struct pg_wire *w)
{
	return w->in_at < w->in_end ? w->in[w->in_at] : 0;
}

static int make_room(struct pg_wire *w, size_t n)
{
	size_t have = w->in_end - w->in_at, room = w->in_room ? w->in_room : INPUT_LEAST;
	char *bytes;

	if (w->in_at > 0 && have > 0)
		memmove(w->in, w->in + w->in_at, have);
	w->in_at = 0;
	w->in_end = have;
	if (w->in_room > (1u << 20) && n <= INPUT_LEAST && have <= INPUT_LEAST) {
		room = INPUT_LEAST; /* a long message is over */
	} else {
		while (room < n)
			room *= 2;
		if (room == w->in_room)
			return 0;
	}
	bytes = realloc(w->in, room);
	if (!bytes)
		return -ENOMEM;
	w->in = bytes;
	w->in_room = room;
	return 0;
}

static ssize_t receive_some(struct pg_wire *w, char *to, size_t n)
{
	return w->tls ? tls_read(w->tls, to, n) : recv(w->fd, to, n, 0);
}

/* At least n bytes from in_at on. */
static int fill(struct pg_wire *w, size_t n, uint64_t deadline)
{
	int rc = 0;

	if (w->in_end - w->in_at >= n)
		return 0;
	rc = make_room(w, n);
	while (rc == 0 && w->in_end - w->in_at < n) {
		ssize_t got = receive_some(w, w->in + w->in_end, w->in_room - w->in_end);

		if (got > 0) {
			w->in_end += (size_t)got;
			w->received += (uint64_t)got;
		} else if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
			rc = wait_for(w, POLLIN, deadline);
		} else {
			rc = got < 0 && errno != 0 ? -errno : -ECONNRESET;
		}
	}
	return rc;
}

static int take(struct pg_wire *w, size_t header, size_t least, size_t most, uint64_t deadline,
		struct pg_message *m)
{
	uint32_t length;
	int rc = fill(w, header, deadline);

	if (rc < 0)
		return rc;
	length = pg_be32(w->in + w->in_at + header - 4);
	if (length < least || length - 4 > most)
		return -EPROTO;
	m->type = header == 5 ? w->in[w->in_at] : 0;
	rc = fill(w, header - 4 + length, fth_deadline_ns(w->timeout_ns));
	if (rc < 0)
		return rc;
	m->at = w->in + w->in_at + header;
	m->end = m->at + length - 4;
	m->bad = false;
	w->in_at += header - 4 + length;
	return 0;
}

int pg_read_message(struct pg_wire *w, size_t most, bool soon, struct pg_message *m)
{
	uint64_t deadline = soon ? fth_deadline_ns(w->timeout_ns) : UINT64_MAX;
	int rc = fill(w, 1, deadline);

	return rc < 0 ? rc : take(w, 5, 4, most, fth_deadline_ns(w->timeout_ns), m);
}

int pg_read_startup(struct pg_wire *w, struct pg_message *m)
{
	return take(w, 4, 8, 10000, fth_deadline_ns(w->timeout_ns), m);
}

const char *pg_get_bytes(struct pg_message *m, size_t n)
{
	const char *at = m->at;

	if (m->bad || (size_t)(m->end - m->at) < n) {
		m->bad = true;
		return NULL;
	}
	m->at += n;
	return at;
}

uint8_t pg_get_u8(struct pg_message *m)
{
	const char *b = pg_get_bytes(m, 1);

	return b ? (uint8_t)*b : 0;
}

int pg_get_i16(struct pg_message *m)
{
	const char *b = pg_get_bytes(m, 2);

	return b ? (int16_t)pg_be16(b) : 0;
}

int32_t pg_get_i32(struct pg_message *m)
{
	const char *b = pg_get_bytes(m, 4);

	return b ? (int32_t)pg_be32(b) : 0;
}

const char *pg_get_string(struct pg_message *m)
{
	const char *at = m->at;
	const char *zero = m->bad ? NULL : memchr(m->at, 0, (size_t)(m->end - m->at));

	if (!zero) {
		m->bad = true;
		return "";
	}
	m->at = zero + 1;
	return at;
}
