/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Invariants:
 *  - Slots are used in a ring: `begun` and `taken` only grow, slot i is at i % depth. A slot is free when
 *    the group in it is done; groups are done in the order in which they were begun.
 *  - A slot's requests are all in flight or all back: `pending` counts those in flight, `error` is the first
 *    failure. Nobody looks into a buffer while pending is not 0.
 *  - Late columns have one buffer, since one group is taken at a time.
 */
#include "scan.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <string.h>

#define PAGE	     4096u
#define CHANNELS_MAX (2 * SCAN_DEPTH_MAX)
#define SUBMIT_MAX   32u
#define CANCEL_NS    50000000u /* how long a wait does not look whether it is canceled */

struct channel {
	struct fth_dev_chan *chan; /* NULL: unused */
	uint32_t file;
	bool mapped;
	uint64_t used; /* when, in turns of the reader */
};

struct slot {
	struct scan_group group; /* first: scan_done() gets it back */
	unsigned char *buffer;
	unsigned pending;
	int error;
};

struct scan_reader {
	const struct scan_spec *spec;
	struct fth_qmem *mem;
	size_t early_bytes, late_bytes; /* of a slot's buffer, of the late buffer */
	unsigned char *memory;		/* all buffers, whole pages */
	unsigned char *memory_base;	/* as allocated */
	size_t memory_bytes;
	unsigned char *late;
	struct slot slots[SCAN_DEPTH_MAX];
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

/* The largest sum over one group of the columns from `first` to before `end`. */
static size_t widest_group(const struct scan_spec *spec, unsigned first, unsigned end)
{
	size_t most = 0;

	for (uint32_t g = 0; g < fth_table_groups(spec->table); g++) {
		size_t sum = 0;

		for (unsigned i = first; i < end; i++)
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

static size_t reqs_bytes(const struct scan_spec *spec)
{
	return (size_t)spec->depth * spec->count * sizeof(struct fth_dev_req);
}

static size_t buffers_bytes(const struct scan_spec *spec)
{
	return spec->depth * widest_group(spec, 0, spec->early) +
	       widest_group(spec, spec->early, spec->count) + PAGE;
}

uint64_t scan_memory(const struct scan_spec *spec)
{
	return fth_qmem_cost(sizeof(struct scan_reader)) + fth_qmem_cost(buffers_bytes(spec)) +
	       fth_qmem_cost(reqs_bytes(spec)) +
	       spec->depth * (fth_qmem_cost(pages_bytes(spec)) + fth_qmem_cost(images_bytes(spec)));
}

/* ---- opening and closing ---- */

static int alloc_slots(struct scan_reader *r)
{
	unsigned char *at = r->memory;

	for (unsigned i = 0; i < r->spec->depth; i++) {
		struct slot *s = &r->slots[i];

		s->buffer = at;
		at += r->early_bytes;
		s->group.pages = fth_qmem_alloc(r->mem, pages_bytes(r->spec));
		s->group.images = fth_qmem_alloc(r->mem, images_bytes(r->spec));
		if (s->group.pages == NULL || s->group.images == NULL)
			return -ENOMEM;
	}
	r->late = at;
	return 0;
}

int scan_open(const struct scan_spec *spec, struct fth_qmem *mem, struct scan_reader **out)
{
	struct scan_reader *r = fth_qmem_zalloc(mem, sizeof(*r));
	int rc;

	*out = NULL;
	if (r == NULL)
		return -ENOMEM;
	r->spec = spec;
	r->mem = mem;
	r->early_bytes = widest_group(spec, 0, spec->early);
	r->late_bytes = widest_group(spec, spec->early, spec->count);
	r->memory_bytes = buffers_bytes(spec);
	r->memory_base = fth_qmem_alloc(mem, r->memory_bytes);
	r->reqs = fth_qmem_alloc(mem, reqs_bytes(spec));
	if (r->memory_base == NULL || r->reqs == NULL) {
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
	return r->spec->depth * r->early_bytes + r->late_bytes;
}

static void close_channel(struct scan_reader *r, struct channel *c)
{
	struct fth_dev *dev;

	if (c->chan == NULL)
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

	if (r == NULL)
		return;
	mem = r->mem;
	for (unsigned i = 0; i < CHANNELS_MAX; i++)
		close_channel(r, &r->channels[i]);
	for (unsigned i = 0; i < r->spec->depth; i++) {
		fth_qmem_free(mem, r->slots[i].group.pages, pages_bytes(r->spec));
		fth_qmem_free(mem, r->slots[i].group.images, images_bytes(r->spec));
	}
	fth_qmem_free(mem, r->reqs, reqs_bytes(r->spec));
	fth_qmem_free(mem, r->memory_base, r->memory_bytes);
	fth_qmem_free(mem, r, sizeof(*r));
}

/* ---- channels ---- */

/* An unused entry, or that of the channel that was idle for longest; some are idle, since there are more
 * channels than groups on their way. */
static struct channel *free_channel(struct scan_reader *r)
{
	struct channel *oldest = NULL;

	for (unsigned i = 0; i < CHANNELS_MAX; i++) {
		struct channel *c = &r->channels[i];

		if (c->chan == NULL)
			return c;
		if (fth_dev_chan_in_flight(c->chan) == 0 &&
		    (oldest == NULL || c->used < oldest->used))
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
		if (c->chan != NULL && c->file == file) {
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

/* The request for column i of the slot's group; the device's blocks around its chunk go to `buffer`. */
static struct fth_dev_req *make_request(struct scan_reader *r, struct slot *s, unsigned i,
					unsigned char *buffer, uint64_t block)
{
	const struct fth_table_chunk *chunk =
		fth_table_chunk(r->spec->table, r->spec->columns[i], s->group.group);
	struct fth_dev_req *req = &r->reqs[(size_t)(s - r->slots) * r->spec->count + i];
	uint64_t from = chunk->offset / block * block;
	uint64_t to = (chunk->offset + chunk->bytes + block - 1) / block * block;

	s->group.images[i] = buffer + (chunk->offset - from);
	fth_dev_req_init(req, FTH_DEV_READ, buffer, to - from, from);
	req->user = s;
	r->bytes += chunk->bytes;
	r->chunks++;
	return req;
}

static void collect(struct fth_dev_req *const *done, int n)
{
	for (int i = 0; i < n; i++) {
		struct slot *s = done[i]->user;

		s->pending--;
		if (done[i]->result < 0 && s->error == 0)
			s->error = done[i]->result;
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

/* Read columns first to before end of the slot's group into buffer. */
static int start(struct scan_reader *r, struct slot *s, unsigned first, unsigned end,
		 unsigned char *buffer)
{
	struct fth_dev_req *reqs[SUBMIT_MAX];
	uint32_t file = fth_table_group(r->spec->table, s->group.group)->file;
	uint64_t block = fth_dev_info(fth_table_dev(r->spec->table, file))->block;
	struct channel *c = NULL;
	unsigned n = 0;
	int rc = first == end ? 0 : find_channel(r, file, &c);

	for (unsigned i = first; i < end && rc == 0; i++) {
		reqs[n++] = make_request(r, s, i, buffer, block);
		buffer += room_for(
			fth_table_chunk(r->spec->table, r->spec->columns[i], s->group.group));
		if (n == SUBMIT_MAX || i + 1 == end) {
			rc = submit_all(r, c, s, reqs, n);
			n = 0;
		}
	}
	return rc;
}

static bool canceled(const struct scan_reader *r)
{
	return r->spec->cancel != NULL &&
	       atomic_load_explicit(r->spec->cancel, memory_order_relaxed);
}

/* Wait until nothing of the slot is in flight. */
static int await(struct scan_reader *r, struct slot *s)
{
	uint32_t file = fth_table_group(r->spec->table, s->group.group)->file;
	uint64_t deadline = fth_deadline_ns(FTH_DEV_TIMEOUT_NS);
	struct fth_dev_req *done[32];
	struct channel *c = NULL;
	int rc = s->pending == 0 ? 0 : find_channel(r, file, &c);

	while (rc == 0 && s->pending > 0) {
		uint64_t now = fth_now_ns();

		if (canceled(r))
			return fth_fail(ECANCELED, "the query was canceled");
		if (now >= deadline)
			return fth_fail(ETIMEDOUT, "a read of table %s takes longer than 30 s",
					fth_table_name(r->spec->table));
		rc = fth_dev_reap(c->chan, done, 32, 1, now + CANCEL_NS);
		if (rc == -ETIME)
			rc = 0;
		if (rc > 0) {
			collect(done, rc);
			rc = 0;
		}
	}
	return rc < 0 ? rc : s->error;
}

static int verify(struct scan_reader *r, struct slot *s, unsigned first, unsigned end)
{
	for (unsigned i = first; i < end; i++) {
		int rc =
			fth_table_page_open(&s->group.pages[i], r->spec->table, r->spec->columns[i],
					    s->group.group, s->group.images[i]);

		if (rc < 0)
			return rc;
	}
	return 0;
}

static int finish(struct scan_reader *r, struct slot *s, unsigned first, unsigned end)
{
	int rc = await(r, s);

	if (rc == -EIO)
		return fth_fail(EIO, "table %s, group %u: a read failed",
				fth_table_name(r->spec->table), s->group.group);
	return rc < 0 ? rc : verify(r, s, first, end);
}

/* ---- the interface ---- */

bool scan_room(const struct scan_reader *r)
{
	return r->begun - r->taken + (r->taken_slot != NULL) < r->spec->depth;
}

int scan_begin(struct scan_reader *r, uint32_t group)
{
	const struct fth_table_group *g = fth_table_group(r->spec->table, group);
	struct slot *s = &r->slots[r->begun % r->spec->depth];

	s->group.group = group;
	s->group.rows = g->rows;
	s->group.first = g->first;
	s->error = 0;
	s->pending = 0;
	r->begun++;
	return start(r, s, 0, r->spec->early, s->buffer);
}

int scan_next(struct scan_reader *r, struct scan_group **out)
{
	struct slot *s = &r->slots[r->taken % r->spec->depth];
	int rc;

	*out = NULL;
	if (r->taken == r->begun)
		return 0;
	rc = finish(r, s, 0, r->spec->early);
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
	int rc;

	if (r->spec->early == r->spec->count)
		return 0;
	rc = start(r, s, r->spec->early, r->spec->count, r->late);
	return rc < 0 ? rc : finish(r, s, r->spec->early, r->spec->count);
}

void scan_done(struct scan_reader *r, struct scan_group *group)
{
	(void)group;
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
