/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The data of an object: can all of it be read, are its replicas the same, and if not, which one is
 * right?
 *
 *	marked stale		one that is not
 *	unsynced (a crash)	the first good one: it is the one that was read since
 *	otherwise		what most of the good ones say; of two, nobody knows
 */
#include "vol/check.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK (256u << 10)

struct tally {
	uint64_t bytes, first; /* how much, and where the first of it is in the object */
	bool unmended;
};

struct compare {
	struct vol_checker *c;
	struct vol_object *obj;
	bool unsynced;
	char *bufs;				      /* replicas * CHUNK */
	int read[FTH_VOL_DEVICES_MAX];		      /* of each replica, the result */
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

static char *buf_of(const struct compare *x, unsigned replica)
{
	return x->bufs + (size_t)replica * CHUNK;
}

static bool is_good(const struct compare *x, const struct vol_place *place, unsigned r)
{
	return x->read[r] == 0 && !(x->obj->stale >> vol_place_device(x->obj, place, r) & 1);
}

/* How many good replicas say what r says. */
static unsigned votes(const struct compare *x, const struct vol_place *place, unsigned r,
		      uint64_t n)
{
	unsigned same = 0;

	for (unsigned k = 0; k < x->obj->entry->replicas; k++)
		same += is_good(x, place, k) && memcmp(buf_of(x, k), buf_of(x, r), n) == 0;
	return same;
}

/* The replica that is right, or -1; *sure when there is no doubt about it. */
static int choose(const struct compare *x, const struct vol_place *place, uint64_t n, bool *sure)
{
	unsigned good = 0, most = 0;
	int best = -1;

	for (unsigned r = 0; r < x->obj->entry->replicas; r++) {
		unsigned v;

		if (!is_good(x, place, r))
			continue;
		good++;
		if (x->unsynced && best >= 0)
			continue;
		v = votes(x, place, r, n);
		if (v > most) {
			most = v;
			best = (int)r;
		}
	}
	*sure = x->unsynced || 2 * most > good;
	return best;
}

static bool mend(struct compare *x, const struct vol_place *place, unsigned r, const char *right,
		 uint64_t n)
{
	unsigned device = vol_place_device(x->obj, place, r);

	return !x->obj->vol->readonly &&
	       fth_dev_write(x->obj->vol->members[device].dev, right, n,
			     vol_place_offset(x->obj, place, r), FTH_DEV_TIMEOUT) == 0;
}

static void compare_chunk(struct compare *x, uint64_t offset, const struct vol_place *place,
			  uint64_t n)
{
	bool sure;
	int right;

	for (unsigned r = 0; r < x->obj->entry->replicas; r++) {
		struct fth_dev *dev = x->obj->vol->members[vol_place_device(x->obj, place, r)].dev;

		x->read[r] = dev ? fth_dev_read(dev, buf_of(x, r), n,
						vol_place_offset(x->obj, place, r), FTH_DEV_TIMEOUT)
				 : -ENODEV;
	}
	right = choose(x, place, n, &sure);
	if (right < 0) {
		count(&x->lost, offset, n, false);
		return;
	}
	for (unsigned r = 0; r < x->obj->entry->replicas; r++) {
		unsigned device = vol_place_device(x->obj, place, r);
		const char *from = buf_of(x, (unsigned)right);

		if (x->read[r] < 0 && x->read[r] != -ENODEV)
			count(&x->unreadable[device], offset, n,
			      sure && mend(x, place, r, from, n));
		else if (x->read[r] == 0 && memcmp(buf_of(x, r), from, n) != 0)
			count(&x->differing[device], offset, n, sure && mend(x, place, r, from, n));
	}
}

static void compare_all(struct compare *x)
{
	uint64_t size = x->obj->entry->size, block = x->obj->vol->space.block;

	size = (size + block - 1) / block * block;
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
			 "\"%s\": %llu bytes can not be read, the first at %llu", e->name,
			 (unsigned long long)x->lost.bytes, (unsigned long long)x->lost.first);
	for (unsigned i = 0; i < x->obj->vol->count; i++) {
		const struct tally *t = &x->unreadable[i];

		if (t->bytes)
			vol_find(x->c, FTH_VOL_F_DATA, false, !t->unmended,
				 "\"%s\": %llu bytes can not be read from device %u, the first at "
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
	rc = vol_object_new(c->vol, copy, &x->obj);
	if (rc == 0) {
		x->unsynced = copy->flags & VOL_OBJECT_UNSYNCED;
		rc = check(x);
		vol_object_drop(x->obj);
	}
	free(x);
	return rc;
}
