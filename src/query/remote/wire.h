/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The protocol of host and storage daemon: frames over a stream socket.
 *
 * A frame is a header of WIRE_HEADER bytes and a payload. The header has, little-endian: magic (4
 * bytes), type (2), zero (2), length of the payload (4), zero (4), and a checksum (8) over the
 * header before it and the payload. Integers in a payload are little-endian; a string is its length
 * (4 bytes) and its bytes.
 *
 *	host -> daemon				daemon -> host
 *	HELLO version				WELCOME version, budget
 *	LIST					NAMES
 *	MANIFEST table				BYTES ... until all are there
 *	OPEN table, id, file, bytes		OPENED handle, size, block
 *	READ handle, offset, length		BYTES
 *	RUN threads, tables, versions, text	BATCH ..., ALIVE now and then, DONE
 *	CANCEL, while RUN runs			(DONE with -ECANCELED)
 *						ERROR, in place of any answer
 *
 * A connection has one request at a time. HELLO is the first. Whatever is wrong with a frame ends
 * the connection.
 */
#ifndef FTH_QUERY_WIRE_H
#define FTH_QUERY_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_VERSION	 1u
#define WIRE_MAGIC	 0x44545346u /* "FSTD" */
#define WIRE_HEADER	 24u
#define WIRE_PAYLOAD_MAX (4u << 20)
#define WIRE_REQUEST_MAX (1u << 20)   /* of a frame to the daemon */
#define WIRE_READ_MAX	 (256u << 10) /* bytes of one READ */

enum wire_type {
	WIRE_HELLO = 1,
	WIRE_WELCOME,
	WIRE_LIST,
	WIRE_NAMES,
	WIRE_MANIFEST,
	WIRE_BYTES,
	WIRE_OPEN,
	WIRE_OPENED,
	WIRE_READ,
	WIRE_RUN,
	WIRE_BATCH,
	WIRE_DONE,
	WIRE_CANCEL,
	WIRE_ERROR,
	WIRE_ALIVE,
	WIRE_TYPES
};

/* ---- payloads ---- */

/* A frame that is built: header and payload in memory of the caller, which grows by `grow`. */
struct wire_out {
	unsigned char *bytes;
	size_t used, room;
	/* Room for `room` bytes; returns NULL if there is none. NULL: the room is fixed. */
	void *(*grow)(void *user, void *bytes, size_t old_room, size_t room);
	void *user;
	int error; /* -ENOMEM or -EMSGSIZE; sticky */
};

/* Keeps the memory. */
void wire_begin(struct wire_out *o, enum wire_type type);
void wire_put(struct wire_out *o, const void *bytes, size_t n);
void wire_u8(struct wire_out *o, uint8_t value);
void wire_u32(struct wire_out *o, uint32_t value);
void wire_u64(struct wire_out *o, uint64_t value);
void wire_string(struct wire_out *o, const char *text);
/* Room for n bytes, to be filled at once; NULL and o->error if there is none. */
void *wire_room(struct wire_out *o, size_t n);
/* Complete the header. Returns 0 or the error. */
int wire_end(struct wire_out *o);

/* A payload that is read. Reading beyond the end gives zeroes and sets `bad`. */
struct wire_in {
	const unsigned char *bytes;
	size_t length, at;
	bool bad;
};
uint8_t wire_get_u8(struct wire_in *in);
uint32_t wire_get_u32(struct wire_in *in);
uint64_t wire_get_u64(struct wire_in *in);
const void *wire_get(struct wire_in *in, size_t n); /* or NULL */
/* Copy a string of less than `room` bytes without zero bytes. */
void wire_get_string(struct wire_in *in, char *to, size_t room);
/* Nothing was wrong, and nothing is left. */
bool wire_get_end(const struct wire_in *in);

/* ---- frames ---- */

struct wire_frame {
	enum wire_type type;
	uint32_t length; /* of the payload */
};

/*
 * Verify a header. Returns 0, or -EBADMSG with a text for a frame that is none or has a payload of
 * more than `most`.
 */
int wire_header(const unsigned char header[WIRE_HEADER], uint32_t most, struct wire_frame *out);
/* Verify the checksum. Returns 0 or -EBADMSG with a text. */
int wire_verify(const unsigned char header[WIRE_HEADER], const void *payload, uint32_t length);

/* ---- sockets ---- */

/* A connected socket that does not block, and what went over it. */
struct wire_socket {
	int fd;
	uint64_t sent, received;
};

/*
 * Send or receive exactly n bytes until the deadline (fth_now_ns()). Returns 0, -ETIMEDOUT,
 * -ECONNRESET if the other side closed the connection, or another error of the socket.
 */
int wire_send(struct wire_socket *s, const void *bytes, size_t n, uint64_t deadline);
int wire_receive(struct wire_socket *s, void *bytes, size_t n, uint64_t deadline);
/* Wait until there is something to receive. Returns 0 or -ETIMEDOUT. */
int wire_wait(struct wire_socket *s, uint64_t deadline);
/* Send a frame that is built. */
int wire_send_frame(struct wire_socket *s, struct wire_out *o, uint64_t deadline);

#endif
