/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows that a client has not fetched: messages, in memory while they are few, else in a file
 * without a name, whose space is free when the spool is freed or the process ends.
 */
#include "pg/session.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES (256u << 10)

struct pg_spool {
	struct fth_pg *server;
	struct pg_wire wire; /* its output is what is in memory */
	int file;	     /* -1: none */
	uint64_t written;    /* bytes of the file */
	/* reading */
	uint64_t at; /* of the next message */
	char *buffer;
	uint64_t buffer_at;
	size_t buffer_length, buffer_room;
};

static int open_file(struct pg_spool *spool)
{
	const char *folder = spool->server->scratch, *from = folder;
	int fd;

	if (!from)
		from = getenv("TMPDIR");
	if (!from || !*from)
		from = "/tmp";
	fd = fth_fd_open(from, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return fth_fail(errno, "%s: cannot make a temporary file: %s", from,
				strerror(errno));
	spool->file = fd;
	return 0;
}

static int drain(void *user, const char *bytes, size_t n)
{
	struct pg_spool *spool = user;
	uint64_t limit = spool->server->scratch_limit;
	int rc = spool->file < 0 ? open_file(spool) : 0;

	if (rc == 0 && limit > 0 && spool->written + n > limit)
		return fth_fail(ENOSPC, "rows that were not fetched need more than %llu bytes",
				(unsigned long long)limit);
	while (rc == 0 && n > 0) {
		ssize_t done = pwrite(spool->file, bytes, n, (off_t)spool->written);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return fth_fail(done < 0 ? errno : EIO, "a temporary file: %s",
					strerror(done < 0 ? errno : EIO));
		spool->written += (uint64_t)done;
		bytes += done;
		n -= (size_t)done;
	}
	return rc;
}

int pg_spool_new(struct fth_pg *server, struct pg_spool **out)
{
	struct pg_spool *spool = calloc(1, sizeof(*spool));

	*out = spool;
	if (!spool)
		return -ENOMEM;
	spool->server = server;
	spool->file = -1;
	pg_wire_init(&spool->wire, -1, 0);
	spool->wire.drain = drain;
	spool->wire.user = spool;
	return 0;
}

void pg_spool_free(struct pg_spool *spool)
{
	if (!spool)
		return;
	pg_wire_release(&spool->wire);
	if (spool->file >= 0)
		close(spool->file);
	free(spool->buffer);
	free(spool);
}

struct pg_wire *pg_spool_wire(struct pg_spool *spool)
{
	return &spool->wire;
}

int pg_spool_seal(struct pg_spool *spool)
{
	/* What fits into the buffer of the wire stays there. */
	return spool->file >= 0 ? pg_flush(&spool->wire) : spool->wire.failed;
}

void pg_spool_rewind(struct pg_spool *spool)
{
	spool->at = 0;
}

/* n bytes from `at` on; NULL with *rc. */
static const char *look(struct pg_spool *spool, uint64_t at, size_t n, int *rc)
{
	size_t room = n > READ_BYTES ? n : READ_BYTES;

	if (spool->file < 0)
		return spool->wire.out + at;
	if (at >= spool->buffer_at && at + n <= spool->buffer_at + spool->buffer_length)
		return spool->buffer + (at - spool->buffer_at);
	if (room > spool->buffer_room) {
		char *bytes = realloc(spool->buffer, room);

		if (!bytes) {
			*rc = -ENOMEM;
			return NULL;
		}
		spool->buffer = bytes;
		spool->buffer_room = room;
	}
	spool->buffer_at = at;
	spool->buffer_length = 0;
	while (spool->buffer_length < n) {
		ssize_t got = pread(spool->file, spool->buffer + spool->buffer_length,
				    spool->buffer_room - spool->buffer_length,
				    (off_t)(at + spool->buffer_length));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			*rc = fth_fail(got < 0 ? errno : EIO, "a temporary file: %s",
				       strerror(got < 0 ? errno : EIO));
			return NULL;
		}
		spool->buffer_length += (size_t)got;
	}
	return spool->buffer;
}

int pg_spool_send(struct pg_spool *spool, struct pg_wire *w, uint64_t most, uint64_t *sent,
		  bool *more)
{
	uint64_t end = spool->file < 0 ? spool->wire.out_length : spool->written;
	int rc = 0;

	*sent = 0;
	while (rc == 0 && spool->at < end && (most == 0 || *sent < most)) {
		const char *message = look(spool, spool->at, 5, &rc);
		size_t length = message ? 1 + (size_t)pg_be32(message + 1) : 0;

		if (message)
			message = look(spool, spool->at, length, &rc);
		if (!message)
			return rc;
		if (w) {
			pg_put_begin(w, *message);
			pg_put_bytes(w, message + 5, length - 5);
			rc = pg_put_end(w);
		}
		spool->at += length;
		(*sent)++;
	}
	*more = spool->at < end;
	return rc;
}
