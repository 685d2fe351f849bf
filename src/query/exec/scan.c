/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Invariants:
 *  - A slot is free, queued (begun and not taken) or taken. Groups are taken in the order in which
 *    they were begun: queue[taken % depth] to before queue[begun % depth].
 *  - Columns from 0 to before `ready` of a slot's group are in its buffer and verified; those from
 *    there to before `asked` are on their way. A free slot keeps them: its group may be begun
 *    again.
 *  - `pending` counts the slot's requests in flight, `error` is the first failure. Nobody looks
 *    into a buffer while pending is not 0. A slot with an error holds no group.
 */
#include "query/exec/scan.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <string.h>

#define PAGE	     4096u
#define CHANNELS_MAX (2 * SCAN_DEPTH_MAX)
#define SUBMIT_MAX   32u
#define CANCEL_NS    50000000u /* how long a wait does not look whether it is canceled */
#define NO_GROUP     UINT32_MAX

struct channel {
	struct fth_dev_chan *chan; /* NULL: unused */
	uint32_t file;
	bool mapped;
	uint64_t used; /* when, in turns of the reader */
};

struct slot {
	struct scan_group group; /* first: scan_done() gets it back */
	unsigned char *buffer;
	unsigned ready, asked; /* columns */
	uint64_t *blocks;      /* by column: text blocks that scan_blocks() brought, the first 64 */
	bool busy;	       /* queued or taken */
	uint64_t used;	       /* when, in turns of the reader */
	unsigned pending;
	int error;
	unsigned failed; /* the column that had the error */
};

struct scan_reader {
	const struct scan_spec *spec;
	struct fth_qmem *mem;
	size_t slot_bytes;	    /* of a slot's buffer */
	unsigned char *memory;	    /* all buffers, whole pages */
	unsigned char *memory_base; /* as allocated */
	size_t memory_bytes;
	struct slot slots[SCAN_DEPTH_MAX];
	struct slot *queue[SCAN_DEPTH_MAX];
	struct slot *taken_slot;
	uint64_t begun, taken, turn;
	struct channel channels[CHANNELS_MAX];
	struct fth_dev_req *reqs; /* for each column of each slot */
	uint64_t bytes, chunks;
};

static size_t whole_pages(size_t n)
{
	return (n + PAGE - 1) / PAGE * PAGE;
}

/* Bytes in a buffer for a chunk: its range rounded out to any block of up to a page. */
static size_t room_for(const struct fth_table_chunk *chunk)
{
	return whole_pages(chunk->bytes) + PAGE;
}

/* The largest sum over one group. */
static size_t widest_group(const struct scan_spec *spec)
{
	size_t most = 0;

	for (uint32_t g = 0; g < fth_table_groups(spec->table); g++) {
		size_t sum = 0;

		for (unsigned i = 0; i < spec->count; i++)
			sum += room_for(fth_table_chunk(spec->table, spec->columns[i], g));
		if (sum > most)
			most = sum;
	}
	return most;
}

static size_t pages_bytes(const struct scan_spec *spec)
{
	return spec->count * sizeof(struct fth_table_page);
}

static size_t images_bytes(const struct scan_spec *spec)
{
	return spec->count * sizeof(unsigned char *);
}

static size_t blocks_bytes(const struct scan_spec *spec)
{
	return spec->count * sizeof(uint64_t);
}

static size_t reqs_bytes(const struct scan_spec *spec)
{
	return (size_t)spec->depth * spec->count * sizeof(struct fth_dev_req);
}

static size_t buffers_bytes(const struct scan_spec *spec)
{
	return spec->depth * widest_group(spec) + PAGE;
}

uint64_t scan_memory(const struct scan_spec *spec)
{
	return fth_qmem_cost(sizeof(struct scan_reader)) + fth_qmem_cost(buffers_bytes(spec)) +
	       fth_qmem_cost(reqs_bytes(spec)) +
	       spec->depth * (fth_qmem_cost(pages_bytes(spec)) + fth_qmem_cost(images_bytes(spec)) +
			      fth_qmem_cost(blocks_bytes(spec)));
}

/* ---- opening and closing ---- */

static int alloc_slots(struct scan_reader *r)
{
	unsigned char *at = r->memory;

	for (unsigned i = 0; i < r->spec->depth; i++) {
		struct slot *s = &r->slots[i];

		s->buffer = at;
		s->group.group = NO_GROUP;
		at += r->slot_bytes;
		s->group.pages = fth_qmem_alloc(r->mem, pages_bytes(r->spec));
		s->group.images = fth_qmem_alloc(r->mem, images_bytes(r->spec));
		s->blocks = fth_qmem_alloc(r->mem, blocks_bytes(r->spec));
		if (!s->group.pages || !s->group.images || !s->blocks)
			return -ENOMEM;
	}
	return 0;
}

int scan_open(const struct scan_spec *spec, struct fth_qmem *mem, struct scan_reader **out)
{
	struct scan_reader *r = fth_qmem_zalloc(mem, sizeof(*r));
	int rc;

	*out = NULL;
	if (!r)
		return -ENOMEM;
	r->spec = spec;
	r->mem = mem;
	r->slot_bytes = widest_group(spec);
	r->memory_bytes = buffers_bytes(spec);
	r->memory_base = fth_qmem_alloc(mem, r->memory_bytes);
	r->reqs = fth_qmem_alloc(mem, reqs_bytes(spec));
	if (!r->memory_base || !r->reqs) {
		scan_close(r);
		return -ENOMEM;
	}
	r->memory = r->memory_base + (-(uintptr_t)r->memory_base & (PAGE - 1));
	rc = alloc_slots(r);
	if (rc < 0) {
		scan_close(r);
		return rc;
	}
	*out = r;
	return 0;
}

static size_t mapped_bytes(const struct scan_reader *r)
{
	return r->spec->depth * r->slot_bytes;
}

static void close_channel(struct scan_reader *r, struct channel *c)
{
	struct fth_dev *dev;

	if (!c->chan)
		return;
	dev = fth_dev_chan_dev(c->chan);
	fth_dev_chan_close(c->chan);
	if (c->mapped)
		fth_dev_unmap(dev, r->memory, mapped_bytes(r));
	c->chan = NULL;
}

void scan_close(struct scan_reader *r)
{
	struct fth_qmem *mem;

	if (!r)
		return;
	mem = r->mem;
	for (unsigned i = 0; i < CHANNELS_MAX; i++)
		close_channel(r, &r->channels[i]);
	for (unsigned i = 0; i < r->spec->depth; i++) {
		fth_qmem_free(mem, r->slots[i].group.pages, pages_bytes(r->spec));
		fth_qmem_free(mem, r->slots[i].group.images, images_bytes(r->spec));
		fth_qmem_free(mem, r->slots[i].blocks, blocks_bytes(r->spec));
	}
	fth_qmem_free(mem, r->reqs, reqs_bytes(r->spec));
	fth_qmem_free(mem, r->memory_base, r->memory_bytes);
	fth_qmem_free(mem, r, sizeof(*r));
}

/* ---- channels ---- */

/*
 * An unused entry, or that of the channel that was idle for longest; some are idle, since there are
 * more channels than groups on their way.
 */
static struct channel *free_channel(struct scan_reader *r)
{
	struct channel *oldest = NULL;

	for (unsigned i = 0; i < CHANNELS_MAX; i++) {
		struct channel *c = &r->channels[i];

		if (!c->chan)
			return c;
		if (fth_dev_chan_in_flight(c->chan) == 0 && (!oldest || c->used < oldest->used))
			oldest = c;
	}
	close_channel(r, oldest);
	return oldest;
}

static int find_channel(struct scan_reader *r, uint32_t file, struct channel **out)
{
	struct fth_dev *dev = fth_table_dev(r->spec->table, file);
	struct channel *c;
	int rc;

	for (unsigned i = 0; i < CHANNELS_MAX; i++) {
		c = &r->channels[i];
		if (c->chan && c->file == file) {
			*out = c;
			return 0;
		}
	}
	c = free_channel(r);
	rc = fth_dev_chan_open(dev, r->spec->depth * r->spec->count, &c->chan);
	if (rc < 0)
		return rc;
	c->file = file;
	c->mapped = fth_dev_map(dev, r->memory, mapped_bytes(r)) == 0;
	*out = c;
	return 0;
}

/* ---- reading ---- */

static const struct fth_table_chunk *chunk_of(const struct scan_reader *r, const struct slot *s,
					      unsigned column)
{
	return fth_table_chunk(r->spec->table, r->spec->columns[column], s->group.group);
}

static struct fth_dev_req *request_of(struct scan_reader *r, const struct slot *s, unsigned column)
{
	return &r->reqs[(size_t)(s - r->slots) * r->spec->count + column];
}

/* Bytes of a chunk that a first read brings. */
static uint32_t first_bytes(const struct scan_reader *r, const struct fth_table_chunk *chunk)
{
	return r->spec->heads && chunk->encoding == FTH_TABLE_BLOCKS ? chunk->head : chunk->bytes;
}

/*
 * The request for `bytes` bytes from `at` on of the chunk of column i, with the device's blocks
 * around them. The chunk's image begins at images[i] if all of it is read.
 */
static struct fth_dev_req *make_request(struct scan_reader *r, struct slot *s, unsigned i,
					uint32_t at, uint32_t bytes, uint64_t block)
{
	const struct fth_table_chunk *chunk = chunk_of(r, s, i);
	struct fth_dev_req *req = request_of(r, s, i);
	uint64_t begin = chunk->offset / block * block;
	uint64_t from = (chunk->offset + at) / block * block;
	uint64_t to = (chunk->offset + at + bytes + block - 1) / block * block;
	unsigned char *buffer = (unsigned char *)s->group.images[i] - (chunk->offset - begin);

	fth_dev_req_init(req, FTH_DEV_READ, buffer + (from - begin), to - from, from);
	req->user = s;
	r->bytes += bytes;
	return req;
}

static void collect(struct scan_reader *r, struct fth_dev_req *const *done, int n)
{
	for (int i = 0; i < n; i++) {
		struct slot *s = done[i]->user;

		s->pending--;
		if (done[i]->result < 0 && s->error == 0) {
			s->error = done[i]->result;
			s->failed = (unsigned)((done[i] - r->reqs) % r->spec->count);
		}
	}
}

static int submit_all(struct scan_reader *r, struct channel *c, struct slot *s,
		      struct fth_dev_req **reqs, unsigned n)
{
	c->used = ++r->turn;
	for (unsigned sent = 0; sent < n;) {
		int rc = fth_dev_submit(c->chan, reqs + sent, n - sent);

		if (rc < 0)
			return rc;
		s->pending += (unsigned)rc;
		sent += (unsigned)rc;
	}
	return 0;
}

static uint32_t file_of(const struct scan_reader *r, const struct slot *s)
{
	return fth_table_group(r->spec->table, s->group.group)->file;
}

static uint64_t block_of(const struct scan_reader *r, const struct slot *s)
{
	return fth_dev_info(fth_table_dev(r->spec->table, file_of(r, s)))->block;
}

/* Where the image of each column of the slot's group will be. */
static void place_images(struct scan_reader *r, struct slot *s)
{
	unsigned char *buffer = s->buffer;
	uint64_t block = block_of(r, s);

	for (unsigned i = 0; i < r->spec->count; i++) {
		s->group.images[i] = buffer + chunk_of(r, s, i)->offset % block;
		buffer += room_for(chunk_of(r, s, i));
	}
}

/* Read the columns from `asked` to before `end` of the slot's group. */
static int start_columns(struct scan_reader *r, struct slot *s, unsigned end)
{
	struct fth_dev_req *reqs[SUBMIT_MAX];
	struct channel *c = NULL;
	unsigned n = 0;
	int rc = s->asked >= end ? 0 : find_channel(r, file_of(r, s), &c);

	for (unsigned i = s->asked; i < end && rc == 0; i++) {
		reqs[n++] =
			make_request(r, s, i, 0, first_bytes(r, chunk_of(r, s, i)), block_of(r, s));
		r->chunks++;
		s->asked = i + 1;
		if (n == SUBMIT_MAX || i + 1 == end) {
			rc = submit_all(r, c, s, reqs, n);
			n = 0;
		}
	}
	return rc;
}

static bool canceled(const struct scan_reader *r)
{
	for (unsigned i = 0; i < 2; i++)
		if (r->spec->cancel[i] &&
		    atomic_load_explicit(r->spec->cancel[i], memory_order_relaxed))
			return true;
	return false;
}

/* Wait until nothing of the slot is in flight. */
static int await_slot(struct scan_reader *r, struct slot *s)
{
	uint64_t deadline = fth_deadline_ns(FTH_DEV_TIMEOUT_NS);
	struct fth_dev_req *done[32];
	struct channel *c = NULL;
	int rc = s->pending == 0 ? 0 : find_channel(r, file_of(r, s), &c);

	while (rc == 0 && s->pending > 0) {
		uint64_t now = fth_now_ns();

		if (canceled(r))
			return fth_fail(ECANCELED, "the query was canceled");
		if (now >= deadline)
			return fth_fail(ETIMEDOUT, "a read of table %s timed out after 30 s",
					fth_table_name(r->spec->table));
		rc = fth_dev_reap(c->chan, done, 32, 1, now + CANCEL_NS);
		if (rc == -ETIME)
			rc = 0;
		if (rc > 0) {
			collect(r, done, rc);
			rc = 0;
		}
	}
	return rc;
}

static int fail_read(const struct scan_reader *r, const struct slot *s)
{
	const struct fth_table_schema *schema = fth_table_schema(r->spec->table);

	return fth_fail(-s->error, "table %s, column %s, group %u: a read failed: %s",
			fth_table_name(r->spec->table),
			schema->column[r->spec->columns[s->failed]].name, s->group.group,
			strerror(-s->error));
}

/* Wait for the columns that were asked for, and verify them. */
static int finish_columns(struct scan_reader *r, struct slot *s)
{
	int rc = await_slot(r, s);

	if (rc == 0 && s->error < 0)
		rc = fail_read(r, s);
	for (unsigned i = s->ready; i < s->asked && rc == 0; i++) {
		rc = fth_table_page_open(&s->group.pages[i], r->spec->table, r->spec->columns[i],
					 s->group.group, s->group.images[i]);
		s->ready += rc == 0;
	}
	return rc;
}

/* ---- the interface ---- */

bool scan_room(const struct scan_reader *r)
{
	return r->begun - r->taken + !!r->taken_slot < r->spec->depth;
}

/* A free slot: the one that has the group already, or that was not used for longest. */
static struct slot *free_slot(struct scan_reader *r, uint32_t group)
{
	struct slot *oldest = NULL;

	for (unsigned i = 0; i < r->spec->depth; i++) {
		struct slot *s = &r->slots[i];

		if (s->busy)
			continue;
		if (s->group.group == group)
			return s;
		if (!oldest || s->used < oldest->used)
			oldest = s;
	}
	return oldest;
}

int scan_begin(struct scan_reader *r, uint32_t group, bool all)
{
	const struct fth_table_group *g = fth_table_group(r->spec->table, group);
	struct slot *s = free_slot(r, group);
	int rc;

	if (s->group.group != group) {
		s->group.group = group;
		s->group.rows = g->rows;
		s->group.first = g->first;
		s->ready = s->asked = 0;
		memset(s->blocks, 0, blocks_bytes(r->spec));
		place_images(r, s);
	}
	s->busy = true;
	s->error = 0;
	r->queue[r->begun++ % r->spec->depth] = s;
	rc = start_columns(r, s, all ? r->spec->count : r->spec->early);
	return rc;
}

int scan_next(struct scan_reader *r, struct scan_group **out)
{
	struct slot *s = r->queue[r->taken % r->spec->depth];
	int rc;

	*out = NULL;
	if (r->taken == r->begun)
		return 0;
	rc = finish_columns(r, s);
	if (rc < 0)
		return rc;
	r->taken++;
	r->taken_slot = s;
	*out = &s->group;
	return 1;
}

int scan_late(struct scan_reader *r, struct scan_group *group)
{
	struct slot *s = (struct slot *)group;
	int rc = start_columns(r, s, r->spec->count);

	return rc < 0 ? rc : finish_columns(r, s);
}

bool scan_has(const struct scan_group *group, unsigned column)
{
	return column < ((const struct slot *)group)->ready;
}

int scan_blocks(struct scan_reader *r, struct scan_group *group, unsigned column,
		const uint32_t *rows, unsigned n)
{
	struct slot *s = (struct slot *)group;
	const struct fth_table_page *page = &group->pages[column];
	struct channel *c = NULL;
	uint32_t end = 0; /* blocks before it are there */
	int rc = 0;

	if (chunk_of(r, s, column)->encoding != FTH_TABLE_BLOCKS)
		return 0;
	for (unsigned i = 0; i < n && rc == 0; i++) {
		uint32_t number = fth_table_page_block_of(page, rows[i]);
		struct fth_table_block block;
		struct fth_dev_req *req;

		if (number < end)
			continue;
		end = number + 1;
		if (number < 64 && s->blocks[column] >> number & 1)
			continue;
		rc = fth_table_page_block(page, number, &block);
		if (rc == 0)
			rc = find_channel(r, file_of(r, s), &c);
		if (rc < 0)
			break;
		req = make_request(r, s, column, block.at, block.stored, block_of(r, s));
		rc = submit_all(r, c, s, &req, 1);
		if (rc == 0)
			rc = await_slot(r, s);
		if (rc == 0 && s->error < 0)
			rc = fail_read(r, s);
		if (rc == 0 && number < 64)
			s->blocks[column] |= (uint64_t)1 << number;
	}
	return rc;
}

void scan_done(struct scan_reader *r, struct scan_group *group)
{
	struct slot *s = (struct slot *)group;

	s->busy = false;
	s->used = ++r->turn;
	r->taken_slot = NULL;
}

uint64_t scan_bytes(const struct scan_reader *r)
{
	return r->bytes;
}

uint64_t scan_chunks(const struct scan_reader *r)
{
	return r->chunks;
}
