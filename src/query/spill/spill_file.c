/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Spill files.
 *
 * 1. A block belongs to one stream or is free. Which are free is a bitmap under the lock; no I/O
 *    happens while it is held.
 * 2. A block's checksum covers its header and records and is seeded with its address and its place
 *    in the stream: a block that lies elsewhere, or is older, does not verify.
 * 3. The blocks of a stream are listed in memory; 8 bytes for 128 KiB.
 */
#include "query/spill/spill_file.h"
#include "query/vec/vec.h"

#include "fathom/base/checksum.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SEED	    0x6c6c697073687466u
#define BLOCKS_MOST ((uint64_t)1 << 19) /* a bit for each is kept in memory */

struct block_header {
	uint64_t checksum; /* of all that follows, up to `used` */
	uint64_t stream;
	uint32_t index;
	uint32_t used; /* bytes, with this header */
};
_Static_assert(sizeof(struct block_header) == 24, "layout");

struct spill_file {
	struct fth_qmem *mem;
	struct fth_dev *dev;
	bool owns_dev;
	const atomic_bool *cancel[2]; /* either may be NULL */
	pthread_mutex_t lock;
	uint32_t block;	 /* bytes of one */
	uint64_t *taken; /* a bit for each block */
	uint64_t blocks, next, in_use, written, streams;
};

struct spill_stream {
	struct spill_file *spill;
	uint64_t id;
	char *buffer;
	uint32_t used;
	uint64_t *blocks;
	uint32_t count, room;
	int error;
};

struct spill_reader {
	struct spill_stream *stream;
	char *buffer;
	uint32_t block; /* the next one */
	uint32_t at, used;
	char *record; /* one that lies in several blocks */
	size_t record_room;
};

/* ---- the device ---- */

static size_t bitmap_bytes(uint64_t blocks)
{
	return (blocks + 63) / 64 * sizeof(uint64_t);
}

int spill_file_open(struct fth_qmem *mem, struct fth_dev *dev, uint32_t block,
		    struct spill_file **out)
{
	struct spill_file *s = fth_qmem_zalloc(mem, sizeof(*s));

	*out = NULL;
	if (!s)
		return -ENOMEM;
	s->mem = mem;
	s->dev = dev;
	s->block = block;
	s->blocks = fth_dev_info(dev)->size / block;
	s->taken = fth_qmem_zalloc(mem, bitmap_bytes(s->blocks));
	if (!s->taken) {
		fth_qmem_free(mem, s, sizeof(*s));
		return -ENOMEM;
	}
	pthread_mutex_init(&s->lock, NULL);
	*out = s;
	return 0;
}

/* A few blocks for each of many streams should be a small part of the memory. */
uint32_t spill_file_block_for(struct fth_qmem *mem)
{
	uint64_t part = fth_qmem_available(mem) / 256;
	uint32_t block = FTH_SPILL_BLOCK_MIN;

	while (block < FTH_SPILL_BLOCK && 2 * (uint64_t)block <= part)
		block *= 2;
	return block;
}

/*
 * A file without a name where the file system has that, or one that loses its name at once. Its
 * path is valid as long as it is open. Returns a descriptor or a negative errno.
 */
static int nameless_file(const char *folder, char *path, size_t room)
{
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0) {
		if ((size_t)snprintf(path, room, "%s/fathom-spill-XXXXXX", folder) >= room)
			return -ENAMETOOLONG;
		fd = mkostemp(path, O_CLOEXEC);
		if (fd >= 0)
			unlink(path);
	}
	if (fd < 0)
		return fth_fail(errno, "%s: cannot create a scratch file", folder);
	snprintf(path, room, "/proc/self/fd/%d", fd);
	return fd;
}

int spill_file_open_folder(struct fth_qmem *mem, const char *folder, uint64_t limit,
			   struct spill_file **out)
{
	char path[1024], uri[1100];
	uint32_t block = spill_file_block_for(mem);
	struct fth_dev *dev;
	int fd, rc;

	*out = NULL;
	if (limit / block > BLOCKS_MOST)
		limit = BLOCKS_MOST * block;
	fd = nameless_file(folder, path, sizeof(path));
	if (fd < 0)
		return fd;
	if (ftruncate(fd, (off_t)(limit / block * block)) < 0) {
		rc = fth_fail(errno, "%s: cannot allocate a scratch file of %llu bytes", folder,
			      (unsigned long long)limit);
	} else {
		snprintf(uri, sizeof(uri), "file:%s", path);
		rc = fth_dev_open(uri, &dev);
	}
	close(fd);
	if (rc < 0)
		return rc;
	rc = spill_file_open(mem, dev, block, out);
	if (rc < 0)
		fth_dev_close(dev);
	else
		(*out)->owns_dev = true;
	return rc;
}

void spill_file_close(struct spill_file *s)
{
	if (!s)
		return;
	if (s->owns_dev)
		fth_dev_close(s->dev);
	pthread_mutex_destroy(&s->lock);
	fth_qmem_free(s->mem, s->taken, bitmap_bytes(s->blocks));
	fth_qmem_free(s->mem, s, sizeof(*s));
}

void spill_file_cancel_by(struct spill_file *s, const atomic_bool *const flags[2])
{
	s->cancel[0] = flags[0];
	s->cancel[1] = flags[1];
}

static int check_canceled(const struct spill_file *s)
{
	for (unsigned i = 0; i < 2; i++)
		if (s->cancel[i] && atomic_load_explicit(s->cancel[i], memory_order_relaxed))
			return fth_fail(ECANCELED, "the query was canceled");
	return 0;
}

uint32_t spill_file_block(const struct spill_file *s)
{
	return s->block;
}

struct fth_qmem *spill_file_mem(const struct spill_file *s)
{
	return s->mem;
}

uint64_t spill_file_blocks(struct spill_file *s)
{
	uint64_t blocks;

	pthread_mutex_lock(&s->lock);
	blocks = s->in_use;
	pthread_mutex_unlock(&s->lock);
	return blocks;
}

uint64_t spill_file_written(struct spill_file *s)
{
	uint64_t written;

	pthread_mutex_lock(&s->lock);
	written = s->written;
	pthread_mutex_unlock(&s->lock);
	return written;
}

/* Blocks go round, so that those of a stream are neighbours as a rule. */
static int take_block(struct spill_file *s, uint64_t *block)
{
	int rc = -ENOSPC;

	pthread_mutex_lock(&s->lock);
	for (uint64_t i = 0; i < s->blocks && s->in_use < s->blocks; i++) {
		uint64_t at = (s->next + i) % s->blocks;

		if (s->taken[at / 64] >> at % 64 & 1)
			continue;
		s->taken[at / 64] |= (uint64_t)1 << at % 64;
		s->next = at + 1;
		s->in_use++;
		s->written += s->block;
		*block = at;
		rc = 0;
		break;
	}
	pthread_mutex_unlock(&s->lock);
	if (rc < 0)
		fth_fail(ENOSPC, "spill: all %llu bytes of scratch space are in use",
			 (unsigned long long)(s->blocks * s->block));
	return rc;
}

/* A discard that fails leaves data on the device, and the block free all the same. */
static void give_block(struct spill_file *s, uint64_t block)
{
	fth_dev_discard(s->dev, s->block, block * s->block, FTH_DEV_TIMEOUT);
	pthread_mutex_lock(&s->lock);
	s->taken[block / 64] &= ~((uint64_t)1 << block % 64);
	s->in_use--;
	pthread_mutex_unlock(&s->lock);
}

/* ---- writing ---- */

int spill_stream_open(struct spill_file *spill, struct spill_stream **out)
{
	struct spill_stream *s = fth_qmem_zalloc(spill->mem, sizeof(*s));

	*out = NULL;
	if (!s)
		return -ENOMEM;
	s->spill = spill;
	s->buffer = fth_qmem_alloc(spill->mem, spill->block);
	s->used = sizeof(struct block_header);
	if (!s->buffer) {
		fth_qmem_free(spill->mem, s, sizeof(*s));
		return -ENOMEM;
	}
	pthread_mutex_lock(&spill->lock);
	s->id = ++spill->streams;
	pthread_mutex_unlock(&spill->lock);
	*out = s;
	return 0;
}

static uint64_t block_checksum(const char *buffer, uint32_t used, uint64_t block)
{
	return fth_checksum(buffer + sizeof(uint64_t), used - sizeof(uint64_t), SEED ^ block);
}

static int note_block(struct spill_stream *s, uint64_t block)
{
	if (s->count == s->room) {
		uint32_t room = s->room ? 2 * s->room : 64;
		uint64_t *larger =
			fth_qmem_realloc(s->spill->mem, s->blocks, s->room * sizeof(*s->blocks),
					 room * sizeof(*s->blocks));

		if (!larger)
			return -ENOMEM;
		s->blocks = larger;
		s->room = room;
	}
	s->blocks[s->count++] = block;
	return 0;
}

static int write_block(struct spill_stream *s)
{
	struct block_header *h = (struct block_header *)s->buffer;
	uint64_t block = 0;
	int rc = check_canceled(s->spill);

	if (rc == 0)
		rc = take_block(s->spill, &block);
	if (rc < 0)
		return rc;
	*h = (struct block_header){.stream = s->id, .index = s->count, .used = s->used};
	h->checksum = block_checksum(s->buffer, s->used, block);
	memset(s->buffer + s->used, 0, s->spill->block - s->used);
	rc = fth_dev_write(s->spill->dev, s->buffer, s->spill->block, block * s->spill->block,
			   FTH_DEV_TIMEOUT);
	if (rc == 0)
		rc = note_block(s, block);
	if (rc < 0)
		give_block(s->spill, block);
	s->used = sizeof(*h);
	return rc;
}

static int put_bytes(struct spill_stream *s, const void *bytes, size_t size)
{
	const char *from = bytes;

	while (size > 0) {
		size_t part = s->spill->block - s->used;
		int rc = part > 0 ? 0 : write_block(s);

		if (rc < 0)
			return rc;
		if (part == 0)
			continue;
		part = part < size ? part : size;
		memcpy(s->buffer + s->used, from, part);
		s->used += (uint32_t)part;
		from += part;
		size -= part;
	}
	return 0;
}

/* Each record has its length before it. */
int spill_stream_append(struct spill_stream *s, const void *record, uint32_t size)
{
	if (s->error < 0)
		return s->error;
	if (size > FTH_SPILL_RECORD)
		return s->error =
			       fth_fail(EMSGSIZE, "spill: a record has %u bytes, the limit is %u",
					size, FTH_SPILL_RECORD);
	s->error = put_bytes(s, &size, sizeof(size));
	if (s->error == 0)
		s->error = put_bytes(s, record, size);
	return s->error;
}

int spill_stream_finish(struct spill_stream *s)
{
	if (s->error == 0 && s->buffer && s->used > sizeof(struct block_header))
		s->error = write_block(s);
	fth_qmem_free(s->spill->mem, s->buffer, s->spill->block);
	s->buffer = NULL;
	return s->error;
}

void spill_stream_drop(struct spill_stream *s)
{
	struct fth_qmem *mem;

	if (!s)
		return;
	mem = s->spill->mem;
	for (uint32_t i = 0; i < s->count; i++)
		give_block(s->spill, s->blocks[i]);
	fth_qmem_free(mem, s->buffer, s->spill->block);
	fth_qmem_free(mem, s->blocks, s->room * sizeof(*s->blocks));
	fth_qmem_free(mem, s, sizeof(*s));
}

/* ---- reading ---- */

uint64_t spill_reader_bound(const struct spill_file *spill)
{
	return fth_qmem_cost(sizeof(struct spill_reader)) + fth_qmem_cost(spill->block);
}

int spill_reader_open(struct spill_stream *s, struct spill_reader **out)
{
	struct spill_reader *r = fth_qmem_zalloc(s->spill->mem, sizeof(*r));

	*out = NULL;
	if (!r)
		return -ENOMEM;
	r->stream = s;
	r->buffer = fth_qmem_alloc(s->spill->mem, s->spill->block);
	if (!r->buffer) {
		fth_qmem_free(s->spill->mem, r, sizeof(*r));
		return -ENOMEM;
	}
	*out = r;
	return 0;
}

static int read_block(struct spill_reader *r)
{
	const struct block_header *h = (const struct block_header *)r->buffer;
	struct spill_stream *s = r->stream;
	uint64_t block = s->blocks[r->block];
	int rc = check_canceled(s->spill);

	if (rc == 0)
		rc = fth_dev_read(s->spill->dev, r->buffer, s->spill->block,
				  block * s->spill->block, FTH_DEV_TIMEOUT);
	if (rc < 0)
		return rc;
	if (h->used > s->spill->block || h->used < sizeof(*h) || h->stream != s->id ||
	    h->index != r->block || h->checksum != block_checksum(r->buffer, h->used, block))
		return fth_fail(EILSEQ, "spill: block %llu of the scratch file is damaged",
				(unsigned long long)block);
	r->block++;
	r->at = sizeof(*h);
	r->used = h->used;
	return 0;
}

/* The next bytes, from as many blocks as they are in. */
static int get_bytes(struct spill_reader *r, void *out, size_t size)
{
	char *to = out;

	while (size > 0) {
		size_t part = r->used - r->at;
		int rc = 0;

		if (part == 0) {
			if (r->block == r->stream->count)
				return fth_fail(EILSEQ, "spill: a record is truncated");
			rc = read_block(r);
			if (rc < 0)
				return rc;
			continue;
		}
		part = part < size ? part : size;
		memcpy(to, r->buffer + r->at, part);
		r->at += (uint32_t)part;
		to += part;
		size -= part;
	}
	return 0;
}

static int get_long(struct spill_reader *r, const void **record, uint32_t size)
{
	int rc;

	if (r->record_room < size) {
		fth_qmem_free(r->stream->spill->mem, r->record, r->record_room);
		r->record = fth_qmem_alloc(r->stream->spill->mem, size);
		r->record_room = r->record ? size : 0;
		if (!r->record)
			return -ENOMEM;
	}
	rc = get_bytes(r, r->record, size);
	*record = r->record;
	return rc < 0 ? rc : 1;
}

int spill_reader_next(struct spill_reader *r, const void **record, uint32_t *size)
{
	int rc;

	if (r->at == r->used && r->block == r->stream->count)
		return 0;
	rc = get_bytes(r, size, sizeof(*size));
	if (rc < 0)
		return rc;
	if (*size > FTH_SPILL_RECORD)
		return fth_fail(EILSEQ, "spill: a record has an invalid length of %u bytes", *size);
	if (*size > r->used - r->at)
		return get_long(r, record, *size);
	*record = r->buffer + r->at;
	r->at += *size;
	return 1;
}

void spill_reader_close(struct spill_reader *r)
{
	if (!r)
		return;
	fth_qmem_free(r->stream->spill->mem, r->record, r->record_room);
	fth_qmem_free(r->stream->spill->mem, r->buffer, r->stream->spill->block);
	fth_qmem_free(r->stream->spill->mem, r, sizeof(*r));
}
