/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of PostgreSQL's protocol 3 over a socket, with TLS or without: a byte for the type,
 * four for the length, which counts itself, and the contents. One thread at a time uses a wire.
 */
#ifndef PG_WIRE_H
#define PG_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PG_MESSAGE_MAX	(64u << 20) /* bytes of a message from a client */
#define PG_OUTPUT_FLUSH (64u << 10) /* bytes that wait for more before they are sent */

struct pg_wire {
	int fd;
	void *tls;	     /* session, or NULL */
	uint64_t timeout_ns; /* for a peer that is in the middle of a message, or takes no bytes */
	uint64_t sent, received;
	/* Takes the output instead of the socket; or NULL. 0 or a negative errno. */
	int (*drain)(void *user, const char *bytes, size_t n);
	void *user;
	/* output: whole messages, and the one that is being written, from `open` on */
	char *out;
	size_t out_length, out_room, open;
	int failed; /* negative errno: nothing more is sent */
	/* input */
	char *in;
	size_t in_at, in_end, in_room;
};

void pg_wire_init(struct pg_wire *w, int fd, uint64_t timeout_ns);
void pg_wire_release(struct pg_wire *w);
/* The handshake of a server. Blocks. 0 or a negative errno. */
int pg_start_tls(struct pg_wire *w, void *tls);

/* ---- output: errors are kept in `failed` and returned by put_end() and flush ---- */

void pg_put_begin(struct pg_wire *w, char type);
void pg_put_u8(struct pg_wire *w, uint8_t value);
void pg_put_i16(struct pg_wire *w, int value);
void pg_put_i32(struct pg_wire *w, int32_t value);
void pg_put_i64(struct pg_wire *w, int64_t value);
void pg_put_bytes(struct pg_wire *w, const void *bytes, size_t n);
void pg_put_string(struct pg_wire *w, const char *text); /* with its zero */
/* Room for n bytes, which the caller writes, then pg_put_used(); NULL: failed. */
char *pg_put_room(struct pg_wire *w, size_t n);
void pg_put_used(struct pg_wire *w, size_t n);
/* The message is complete; sends if enough wait. Blocks. 0 or a negative errno. */
int pg_put_end(struct pg_wire *w);
/* Drop the message that was begun. */
void pg_put_drop(struct pg_wire *w);
/* A message without contents. */
int pg_put_empty(struct pg_wire *w, char type);
int pg_flush(struct pg_wire *w);
/* Bytes that are no message: the answer to a request for TLS. */
int pg_put_raw(struct pg_wire *w, const void *bytes, size_t n);

/* ---- input ---- */

/* A message, valid until the next is read. Reading beyond its end sets `bad`. */
struct pg_message {
	char type;
	const char *at, *end;
	bool bad;
};

/*
 * The next message of at most `most` bytes. Blocks without limit for its first byte unless `soon`,
 * and for timeout_ns for the rest. 0; -ECONNRESET: the peer is gone; -ETIMEDOUT; -EPROTO: the
 * length is impossible; -ENOMEM.
 */
int pg_read_message(struct pg_wire *w, size_t most, bool soon, struct pg_message *m);
/* The first message of a connection, which has no type. */
int pg_read_startup(struct pg_wire *w, struct pg_message *m);
/* The type of the next message, if it has been received already; else 0. */
char pg_next_type(const struct pg_wire *w);
/* Bytes were read that no message has used. */
bool pg_input_waits(const struct pg_wire *w);

uint8_t pg_get_u8(struct pg_message *m);
int pg_get_i16(struct pg_message *m);
int32_t pg_get_i32(struct pg_message *m);
const char *pg_get_bytes(struct pg_message *m, size_t n); /* NULL: bad */
const char *pg_get_string(struct pg_message *m);	  /* "" if bad */

/* Big-endian numbers. */
static inline uint16_t pg_be16(const void *from)
{
	const uint8_t *b = from;

	return (uint16_t)(b[0] << 8 | b[1]);
}

static inline uint32_t pg_be32(const void *from)
{
	const uint8_t *b = from;

	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static inline uint64_t pg_be64(const void *from)
{
	return (uint64_t)pg_be32(from) << 32 | pg_be32((const char *)from + 4);
}

#endif
