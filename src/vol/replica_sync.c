/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The data of an object: can all of it be read, are its replicas the same, and if not, which one is
 * right? Asked of each block by itself:
 *
 *	marked stale		one that is not
 *	unsynced (a crash)	the first good one: it is the one that was read since
 *	otherwise		what most of the good ones say; of two, nobody knows
 */
#include "vol/vol_check.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK  (256u << 10)
#define BLOCKS (CHUNK / VOL_BLOCK_MIN) /* of a chunk, at most */

struct tally {
	uint64_t bytes, first; /* how much, and where the first of it is in the object */
	bool unmended;
};

enum state { READ, UNREADABLE, MISSING };
enum fix { NOTHING, MEND_UNREADABLE, MEND_DIFFERING };

/* A chunk of one replica. */
struct copy {
	char *buf;
	uint8_t state[BLOCKS]; /* enum state of each block */
	uint8_t fix
		[BLOCKS]; /* enum fix: what it is to be overwritten for; buf holds the right bytes */
};

struct compare {
	struct vol_checker *c;
	struct vol_object *obj;
	bool unsynced;
	uint32_t block;
	char *bufs;				      /* replicas * CHUNK */
	struct copy copies[FTH_VOL_DEVICES_MAX];      /* by replica */
	struct tally unreadable[FTH_VOL_DEVICES_MAX]; /* by device */
	struct tally differing[FTH_VOL_DEVICES_MAX];
	struct tally lost; /* no replica could be read */
};

static void count(struct tally *tally, uint64_t offset, uint64_t bytes, bool mended)
{
	if (tally->bytes == 0)
		tally->first = offset;
	tally->bytes += bytes;
	tally->unmended = tally->unmended || !mended;
}

static char *block_of(const struct compare *x, unsigned replica, unsigned b)
{
	return x->copies[replica].buf + (size_t)b * x->block;
}

static bool is_good(const struct compare *x, const struct vol_place *place, unsigned r, unsigned b)
{
	return x->copies[r].state[b] == READ &&
	       !(x->obj->stale >> vol_place_device(x->obj, place, r) & 1);
}

/* How many good replicas say what r says of block b. */
static unsigned votes(const struct compare *x, const struct vol_place *place, unsigned r,
		      unsigned b)
{
	unsigned same = 0;

	for (unsigned k = 0; k < x->obj->entry->replicas; k++)
		same += is_good(x, place, k, b) &&
			memcmp(block_of(x, k, b), block_of(x, r, b), x->block) == 0;
	return same;
}

/* The replica that is right about block b, or -1; *sure when there is no doubt about it. */
static int choose(const struct compare *x, const struct vol_place *place, unsigned b, bool *sure)
{
	unsigned good = 0, most = 0;
	int best = -1;

	for (unsigned r = 0; r < x->obj->entry->replicas; r++) {
		unsigned v;

		if (!is_good(x, place, r, b))
			continue;
		good++;
		if (x->unsynced && best >= 0)
			continue;
		v = votes(x, place, r, b);
		if (v > most) {
			most = v;
			best = (int)r;
		}
	}
	*sure = x->unsynced || 2 * most > good;
	return best;
}

/* ---- a chunk ---- */

/* Read a chunk of one replica: all of it, or else each block by itself. */
static void read_copy(struct compare *x, const struct vol_place *place, unsigned r, uint64_t n)
{
	struct fth_dev *dev = x->obj->vol->members[vol_place_device(x->obj, place, r)].dev;
	uint64_t at = vol_place_offset(x->obj, place, r);
	struct copy *copy = &x->copies[r];

	memset(copy->state, dev ? READ : MISSING, sizeof(copy->state));
	memset(copy->fix, NOTHING, sizeof(copy->fix));
	if (!dev || fth_dev_read(dev, copy->buf, n, at, FTH_DEV_TIMEOUT) == 0)
		return;
	for (unsigned b = 0; b < n / x->block; b++)
		if (fth_dev_read(dev, block_of(x, r, b), x->block, at + (uint64_t)b * x->block,
				 FTH_DEV_TIMEOUT) < 0)
			copy->state[b] = UNREADABLE;
}

/* Find out which replicas of block b are to be overwritten, and with what. */
static void judge_block(struct compare *x, const struct vol_place *place, uint64_t offset,
			unsigned b)
{
	bool sure;
	int right = choose(x, place, b, &sure);

	if (right < 0) {
		count(&x->lost, offset + (uint64_t)b * x->block, x->block, false);
		return;
	}
	for (unsigned r = 0; r < x->obj->entry->replicas; r++) {
		unsigned device = vol_place_device(x->obj, place, r);
		const char *from = block_of(x, (unsigned)right, b);
		struct copy *copy = &x->copies[r];
		enum fix fix = NOTHING;

		if (copy->state[b] == UNREADABLE)
			fix = MEND_UNREADABLE;
		else if (copy->state[b] == READ && memcmp(block_of(x, r, b), from, x->block) != 0)
			fix = MEND_DIFFERING;
		if (fix == NOTHING)
			continue;
		if (sure && !x->obj->vol->readonly) {
			memcpy(block_of(x, r, b), from, x->block);
			copy->fix[b] = (uint8_t)fix;
		} else {
			count(fix == MEND_UNREADABLE ? &x->unreadable[device]
						     : &x->differing[device],
			      offset + (uint64_t)b * x->block, x->block, false);
		}
	}
}

/* Overwrite blocks [b, b + n) of a replica with what its buffer holds now. */
static bool write_copy(struct compare *x, const struct vol_place *place, unsigned r, unsigned b,
		       unsigned n)
{
	return fth_dev_write(x->obj->vol->members[vol_place_device(x->obj, place, r)].dev,
			     block_of(x, r, b), (uint64_t)n * x->block,
			     vol_place_offset(x->obj, place, r) + (uint64_t)b * x->block,
			     FTH_DEV_TIMEOUT) == 0;
}

/* Overwrite what judge_block() said, in runs; where a run fails, each block of it by itself. */
static void mend_copy(struct compare *x, const struct vol_place *place, uint64_t offset, unsigned r,
		      unsigned blocks)
{
	unsigned device = vol_place_device(x->obj, place, r);
	const struct copy *copy = &x->copies[r];

	for (unsigned b = 0, n; b < blocks; b += n) {
		bool mended;

		for (n = 0; b + n < blocks && copy->fix[b + n] != NOTHING; n++)
			;
		if (n == 0) {
			n = 1;
			continue;
		}
		mended = write_copy(x, place, r, b, n);
		for (unsigned k = b; k < b + n; k++)
			count(copy->fix[k] == MEND_UNREADABLE ? &x->unreadable[device]
							      : &x->differing[device],
			      offset + (uint64_t)k * x->block, x->block,
			      mended || write_copy(x, place, r, k, 1));
	}
}

static bool is_same(const struct compare *x, uint64_t n)
{
	for (unsigned r = 0; r < x->obj->entry->replicas; r++)
		if (memchr(x->copies[r].state, UNREADABLE, n / x->block) ||
		    memchr(x->copies[r].state, MISSING, n / x->block) ||
		    memcmp(x->copies[0].buf, x->copies[r].buf, n) != 0)
			return false;
	return true;
}

static void compare_chunk(struct compare *x, uint64_t offset, const struct vol_place *place,
			  uint64_t n)
{
	unsigned blocks = (unsigned)(n / x->block);

	for (unsigned r = 0; r < x->obj->entry->replicas; r++)
		read_copy(x, place, r, n);
	if (is_same(x, n))
		return;
	for (unsigned b = 0; b < blocks; b++)
		judge_block(x, place, offset, b);
	for (unsigned r = 0; r < x->obj->entry->replicas; r++)
		mend_copy(x, place, offset, r, blocks);
}

/* ---- an object ---- */

static void compare_all(struct compare *x)
{
	uint64_t size = (x->obj->entry->size + x->block - 1) / x->block * x->block;

	for (uint64_t at = 0; at < size && !x->c->cancelled;) {
		struct vol_place place = vol_place(x->obj, at);
		uint64_t n = place.run < size - at ? place.run : size - at;

		if (n > CHUNK)
			n = CHUNK;
		compare_chunk(x, at, &place, n);
		at += n;
		x->c->done += n;
		if (x->c->progress && x->c->progress(x->c->done, x->c->total, x->c->user) != 0)
			x->c->cancelled = true;
	}
}

/* Everything is the same now: make it durable, and take the marks off. */
static bool clear_marks(struct compare *x)
{
	struct fth_vol *vol = x->obj->vol;
	struct vol_entry *now = vol_entry_of(vol, x->obj->entry->id), *changed;

	for (unsigned i = 0; i < vol->count; i++)
		if (x->obj->used >> i & 1 && vol_flush_member(vol, i) < 0)
			return false;
	changed = vol_entry_clone(now);
	if (!changed)
		return false;
	changed->stale = 0;
	changed->flags &= ~VOL_OBJECT_UNSYNCED;
	return vol_replace_entry(vol, now, changed) == 0;
}

static bool all_same(const struct compare *x)
{
	bool same = x->lost.bytes == 0;

	for (unsigned i = 0; i < x->obj->vol->count; i++)
		same = same && !x->differing[i].unmended && !x->unreadable[i].unmended;
	return same;
}

static void report(struct compare *x, bool compared, bool mended)
{
	const struct vol_entry *e = x->obj->entry;
	uint64_t stale = e->stale;

	if (x->lost.bytes)
		vol_find(x->c, FTH_VOL_F_DATA, false, false,
			 "\"%s\": %llu bytes cannot be read, the first at %llu", e->name,
			 (unsigned long long)x->lost.bytes, (unsigned long long)x->lost.first);
	for (unsigned i = 0; i < x->obj->vol->count; i++) {
		const struct tally *t = &x->unreadable[i];

		if (t->bytes)
			vol_find(x->c, FTH_VOL_F_DATA, false, !t->unmended,
				 "\"%s\": %llu bytes cannot be read from device %u, the first at "
				 "%llu",
				 e->name, (unsigned long long)t->bytes, i,
				 (unsigned long long)t->first);
		t = &x->differing[i];
		if (t->bytes && !(stale >> i & 1))
			vol_find(x->c, FTH_VOL_F_REPLICA, x->unsynced, !t->unmended,
				 "\"%s\": %llu bytes differ on device %u, the first at %llu",
				 e->name, (unsigned long long)t->bytes, i,
				 (unsigned long long)t->first);
		if (stale >> i & 1)
			vol_find(x->c, FTH_VOL_F_REPLICA, false, mended,
				 "\"%s\": what device %u holds of it is out of date", e->name, i);
	}
	if (x->unsynced)
		vol_find(x->c, FTH_VOL_F_REPLICA, true, mended,
			 "\"%s\" was open for writing when the power went: its replicas %s",
			 e->name,
			 mended	    ? "are the same again"
			 : compared ? "were compared"
				    : "may differ in what was not flushed");
}

static int check(struct compare *x)
{
	struct vol_checker *c = x->c;
	const struct vol_entry *e = x->obj->entry;
	bool marked = e->stale || x->unsynced, mended = false, compared;

	compared = c->flags & FTH_VOL_CHECK_DATA || (marked && !c->vol->readonly);
	if (compared) {
		x->bufs = NULL;
		if (posix_memalign((void **)&x->bufs, VOL_GRAIN, (size_t)e->replicas * CHUNK) != 0)
			return -ENOMEM;
		for (unsigned r = 0; r < e->replicas; r++)
			x->copies[r].buf = x->bufs + (size_t)r * CHUNK;
		compare_all(x);
		free(x->bufs);
	}
	if (compared && marked && !c->vol->readonly && !c->cancelled && all_same(x))
		mended = clear_marks(x);
	report(x, compared, mended);
	return 0;
}

int vol_check_replicas(struct vol_checker *c, const struct vol_entry *entry)
{
	struct compare *x = calloc(1, sizeof(*x));
	struct vol_entry *copy = vol_entry_clone(entry);
	int rc;

	if (!x || !copy) {
		free(x);
		vol_entry_free(copy);
		return -ENOMEM;
	}
	x->c = c;
	rc = vol_object_new(c->vol, copy, false, &x->obj);
	if (rc == 0) {
		x->block = c->vol->space.block;
		x->unsynced = copy->flags & VOL_OBJECT_UNSYNCED;
		rc = check(x);
		vol_object_drop(x->obj);
	}
	free(x);
	return rc;
}
