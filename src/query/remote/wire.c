/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/remote/wire.h"

#include "fathom/base/checksum.h"
#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define CHECKED 16u /* bytes of the header that the checksum covers */

static void store_le(unsigned char *to, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		to[i] = (unsigned char)(value >> 8 * i);
}

static uint64_t load_le(const unsigned char *from, unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t)from[i] << 8 * i;
	return value;
}

static uint64_t checksum(const unsigned char *header, const void *payload, size_t length)
{
	return fth_checksum(payload, length, fth_checksum(header, CHECKED, 0));
}

/* ---- building ---- */

static bool make_room(struct wire_out *o, size_t n)
{
	size_t room = o->room == 0 ? 4096 : o->room;
	void *larger;

	if (o->error != 0)
		return false;
	if (n > WIRE_HEADER + WIRE_PAYLOAD_MAX - o->used) {
		o->error = -EMSGSIZE;
		return false;
	}
	while (room - o->used < n)
		room *= 2;
	if (room == o->room)
		return true;
	larger = o->grow ? o->grow(o->user, o->bytes, o->room, room) : NULL;
	if (!larger) {
		o->error = -ENOMEM;
		return false;
	}
	o->bytes = larger;
	o->room = room;
	return true;
}

void *wire_room(struct wire_out *o, size_t n)
{
	void *at;

	if (!make_room(o, n))
		return NULL;
	at = o->bytes + o->used;
	o->used += n;
	return at;
}

void wire_begin(struct wire_out *o, enum wire_type type)
{
	unsigned char *header;

	o->used = 0;
	o->error = 0;
	header = wire_room(o, WIRE_HEADER);
	if (!header)
		return;
	memset(header, 0, WIRE_HEADER);
	store_le(header, WIRE_MAGIC, 4);
	store_le(header + 4, type, 2);
}

void wire_put(struct wire_out *o, const void *bytes, size_t n)
{
	void *at = wire_room(o, n);

	if (at && n > 0)
		memcpy(at, bytes, n);
}

static void put_le(struct wire_out *o, uint64_t value, unsigned bytes)
{
	unsigned char *at = wire_room(o, bytes);

	if (at)
		store_le(at, value, bytes);
}

void wire_u8(struct wire_out *o, uint8_t value)
{
	put_le(o, value, 1);
}

void wire_u32(struct wire_out *o, uint32_t value)
{
	put_le(o, value, 4);
}

void wire_u64(struct wire_out *o, uint64_t value)
{
	put_le(o, value, 8);
}

void wire_string(struct wire_out *o, const char *text)
{
	size_t n = strlen(text);

	wire_u32(o, (uint32_t)n);
	wire_put(o, text, n);
}

int wire_end(struct wire_out *o)
{
	if (o->error != 0)
		return o->error == -EMSGSIZE
			       ? fth_fail(EMSGSIZE, "a message is larger than %u bytes",
					  WIRE_PAYLOAD_MAX)
			       : o->error;
	store_le(o->bytes + 8, o->used - WIRE_HEADER, 4);
	store_le(o->bytes + CHECKED,
		 checksum(o->bytes, o->bytes + WIRE_HEADER, o->used - WIRE_HEADER), 8);
	return 0;
}

/* ---- reading ---- */

const void *wire_get(struct wire_in *in, size_t n)
{
	const void *at = in->bytes + in->at;

	if (in->bad || n > in->length - in->at) {
		in->bad = true;
		return NULL;
	}
	in->at += n;
	return at;
}

static uint64_t get_le(struct wire_in *in, unsigned bytes)
{
	const unsigned char *at = wire_get(in, bytes);

	return at ? load_le(at, bytes) : 0;
}

uint8_t wire_get_u8(struct wire_in *in)
{
	return (uint8_t)get_le(in, 1);
}

uint32_t wire_get_u32(struct wire_in *in)
{
	return (uint32_t)get_le(in, 4);
}

uint64_t wire_get_u64(struct wire_in *in)
{
	return get_le(in, 8);
}

void wire_get_string(struct wire_in *in, char *to, size_t room)
{
	uint32_t n = wire_get_u32(in);
	const char *bytes = wire_get(in, n);

	to[0] = '\0';
	if (!bytes)
		return;
	if (n >= room || memchr(bytes, '\0', n)) {
		in->bad = true;
		return;
	}
	memcpy(to, bytes, n);
	to[n] = '\0';
}

bool wire_get_end(const struct wire_in *in)
{
	return !in->bad && in->at == in->length;
}

int wire_header(const unsigned char header[WIRE_HEADER], uint32_t most, struct wire_frame *out)
{
	uint64_t type = load_le(header + 4, 2);

	if (load_le(header, 4) != WIRE_MAGIC || load_le(header + 6, 2) != 0 ||
	    load_le(header + 12, 4) != 0 || type == 0 || type >= WIRE_TYPES)
		return fth_fail(EBADMSG,
				"invalid frame: wrong magic number of the storage protocol");
	out->type = (enum wire_type)type;
	out->length = (uint32_t)load_le(header + 8, 4);
	if (out->length > most)
		return fth_fail(EBADMSG, "a frame has %u bytes, the limit is %u", out->length,
				most);
	return 0;
}

int wire_verify(const unsigned char header[WIRE_HEADER], const void *payload, uint32_t length)
{
	if (load_le(header + CHECKED, 8) != checksum(header, payload, length))
		return fth_fail(EBADMSG, "checksum mismatch in a frame");
	return 0;
}

/* ---- sockets ---- */

/* Wait until the socket is ready. Returns 0 or -ETIMEDOUT. */
static int wait_for(int fd, short events, uint64_t deadline)
{
	for (;;) {
		struct pollfd p = {.fd = fd, .events = events};
		uint64_t now = fth_now_ns();
		uint64_t left = now >= deadline ? 0 : (deadline - now) / 1000000 + 1;
		int rc = poll(&p, 1, left > 60000 ? 60000 : (int)left);

		if (rc > 0)
			return 0;
		if (rc < 0 && errno != EINTR)
			return -errno;
		if (fth_now_ns() >= deadline)
			return fth_fail(ETIMEDOUT, "timed out: the peer neither reads nor writes");
	}
}

int wire_wait(struct wire_socket *s, uint64_t deadline)
{
	return wait_for(s->fd, POLLIN, deadline);
}

int wire_send(struct wire_socket *s, const void *bytes, size_t n, uint64_t deadline)
{
	const char *at = bytes;

	while (n > 0) {
		ssize_t done = send(s->fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
		int rc = 0;

		if (done > 0) {
			at += done;
			n -= (size_t)done;
			s->sent += (uint64_t)done;
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			rc = wait_for(s->fd, POLLOUT, deadline);
		} else if (errno != EINTR) {
			rc = fth_fail(errno == EPIPE ? ECONNRESET : errno, "connection lost: %s",
				      strerror(errno));
		}
		if (rc < 0)
			return rc;
	}
	return 0;
}

int wire_receive(struct wire_socket *s, void *bytes, size_t n, uint64_t deadline)
{
	char *at = bytes;

	while (n > 0) {
		ssize_t done = recv(s->fd, at, n, MSG_DONTWAIT);
		int rc = 0;

		if (done > 0) {
			at += done;
			n -= (size_t)done;
			s->received += (uint64_t)done;
		} else if (done == 0) {
			rc = fth_fail(ECONNRESET, "connection closed by the peer");
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			rc = wait_for(s->fd, POLLIN, deadline);
		} else if (errno != EINTR) {
			rc = fth_fail(errno, "connection lost: %s", strerror(errno));
		}
		if (rc < 0)
			return rc;
	}
	return 0;
}

int wire_send_frame(struct wire_socket *s, struct wire_out *o, uint64_t deadline)
{
	int rc = wire_end(o);

	return rc < 0 ? rc : wire_send(s, o->bytes, o->used, deadline);
}
