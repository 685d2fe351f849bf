/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When replicas are not the same any more: a device that failed a write, a block that can not be
 * read.
 *
 * Invariants
 * 1. A device that did not take a change of a replicated object is in obj->stale, and in the
 *    catalog, before that change is acknowledged. It is neither read nor written for this object
 *    from then on.
 * 2. obj->stale never takes the last good replica of a column. A change that no replica took, or
 *    that would need that, fails; then nobody knows which replica holds what of it, and all reads
 *    of the object come from the first good one, as after a crash.
 * 3. A repair copies what a good replica holds while no change is in flight and none can
 *    begin, so it cannot overwrite newer data with older.
 */
#include "vol/open_object.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REPAIRING 0x80000000u

/* ---- obj->changes: how many are in flight, or REPAIRING ---- */

bool vol_change_begin(struct vol_object *obj)
{
	/* acqrel: what follows is not done before no repair was seen */
	if (!(fth_add_acqrel_dev32(&obj->changes, 1) & REPAIRING))
		return true;
	vol_change_end(obj);
	return false;
}

void vol_change_end(struct vol_object *obj)
{
	/* acqrel: what was done inside is seen by a repair that finds nobody inside */
	uint32_t before = fth_add_acqrel_dev32(&obj->changes, UINT32_MAX);

	/* relaxed: one that is noted right now is given to the worker by who notes it */
	if (before == 1 && fth_load_relaxed_dev32(&obj->repair_count) > 0)
		vol_worker_repair(obj);
}

static bool lock_for_repair(struct vol_object *obj)
{
	uint32_t nobody = 0;

	/* acqrel, in the accessor: sees all that those who left have done */
	return fth_cas_acqrel_dev32(&obj->changes, &nobody, REPAIRING);
}

static void unlock_after_repair(struct vol_object *obj)
{
	/* acqrel: the repair is done before anybody passes. Not a store: some may be knocking. */
	fth_and_acqrel_dev32(&obj->changes, ~REPAIRING);
	vol_worker_repair_ended(obj);
}

/* ---- repairs ---- */

void vol_note_repair(struct vol_object *obj, uint64_t offset, uint64_t length, unsigned replica)
{
	uint32_t n;

	pthread_mutex_lock(&obj->repair_lock);
	n = fth_load_relaxed_dev32(&obj->repair_count);
	for (uint32_t i = 0; i < n; i++)
		if (obj->repairs[i].offset == offset && obj->repairs[i].replica == replica)
			length = 0;
	/* With a full list it stays unrepaired until it is read again. */
	if (length > 0 && n < VOL_REPAIRS_MAX) {
		obj->repairs[n] = (struct vol_repair){offset, length, replica,
						      length == obj->vol->space.block};
		fth_store_relaxed_dev32(&obj->repair_count, n + 1);
	}
	pthread_mutex_unlock(&obj->repair_lock);
	vol_worker_repair(obj);
}

/* Read a block from the first good replica but `bad` that can give it. */
static int read_good(struct vol_object *obj, const struct vol_place *place, unsigned bad, char *buf)
{
	/* acquire: see vol_choose() in channel_parts.c */
	uint64_t stale = fth_load_acquire_dev64(&obj->stale);
	int rc = -EIO;

	for (unsigned r = 0; rc < 0 && r < obj->entry->replicas; r++) {
		unsigned device = vol_place_device(obj, place, r);

		if (r != bad && !(stale >> device & 1))
			rc = fth_dev_read(obj->vol->members[device].dev, buf, obj->vol->space.block,
					  vol_place_offset(obj, place, r), FTH_DEV_TIMEOUT);
	}
	return rc;
}

/* Write one block of a replica anew, from another one. */
static int repair_block(struct vol_object *obj, const struct vol_place *place, unsigned bad,
			char *buf)
{
	unsigned device = vol_place_device(obj, place, bad);
	int rc;

	/* acquire: see vol_choose() in channel_parts.c */
	if (fth_load_acquire_dev64(&obj->stale) >> device & 1)
		return -ESTALE;
	rc = read_good(obj, place, bad, buf);
	if (rc < 0)
		return rc;
	return fth_dev_write(obj->vol->members[device].dev, buf, obj->vol->space.block,
			     vol_place_offset(obj, place, bad), FTH_DEV_TIMEOUT);
}

static bool needs_repair(struct vol_object *obj, const struct vol_repair *what,
			 const struct vol_place *place, char *buf)
{
	unsigned device = vol_place_device(obj, place, what->replica);

	return what->sure ||
	       fth_dev_read(obj->vol->members[device].dev, buf, obj->vol->space.block,
			    vol_place_offset(obj, place, what->replica), FTH_DEV_TIMEOUT) < 0;
}

/*
 * A write that timed out may still happen, over newer data. From here on the device is not read
 * for this object; if that can not be had, nothing is written any more.
 */
static void repair_hung(struct vol_object *obj, unsigned device)
{
	if (vol_devices_failed(obj, (uint64_t)1 << device, -ETIMEDOUT) < 0)
		fth_store_relaxed_dev32(&obj->vol->failed, ETIMEDOUT);
}

enum outcome { DONE, NEXT, NOT_NOW };

/* Repair the first block of a range, if it needs that, between two changes of the object. */
static enum outcome repair_first(struct vol_object *obj, const struct vol_repair *what)
{
	_Alignas(VOL_BLOCK_MAX) char buf[VOL_BLOCK_MAX];
	struct vol_place place = vol_place(obj, what->offset);
	int rc;

	if (!needs_repair(obj, what, &place, buf))
		return NEXT;
	if (!lock_for_repair(obj))
		return NOT_NOW; /* it is tried again when the last one leaves */
	rc = repair_block(obj, &place, what->replica, buf);
	if (rc == -ETIMEDOUT)
		repair_hung(obj, vol_place_device(obj, &place, what->replica));
	unlock_after_repair(obj);
	fth_stats_add(obj->vol->stats, rc == 0 ? FTH_VOL_REPAIRS : FTH_VOL_REPAIR_FAILURES, 1);
	/* A block that could not be written back is no worse than before; nor are the others. */
	return rc == 0 ? NEXT : DONE;
}

/* Take the first range off the list, or as much of it as was done. False: the list is empty. */
static bool advance_repairs(struct vol_object *obj, uint64_t done, struct vol_repair *next)
{
	uint32_t n;

	pthread_mutex_lock(&obj->repair_lock);
	n = fth_load_relaxed_dev32(&obj->repair_count);
	if (n > 0 && done < obj->repairs[0].length) {
		obj->repairs[0].offset += done;
		obj->repairs[0].length -= done;
	} else if (n > 0) {
		memmove(obj->repairs, obj->repairs + 1, --n * sizeof(obj->repairs[0]));
		fth_store_relaxed_dev32(&obj->repair_count, n);
	}
	*next = obj->repairs[0];
	pthread_mutex_unlock(&obj->repair_lock);
	return n > 0;
}

void vol_run_repairs(struct vol_object *obj)
{
	uint32_t block = obj->vol->space.block;
	struct vol_repair next;
	uint64_t done = 0;

	/* Ends: ranges are noted by reads that fail, and a list that is full takes no more. */
	while (advance_repairs(obj, done, &next)) {
		enum outcome outcome;

		if (fth_load_relaxed_dev32(&obj->repair_stop) || obj->vol->readonly ||
		    vol_failed(obj->vol) < 0)
			return;
		outcome = repair_first(obj, &next);
		if (outcome == NOT_NOW)
			return;
		done = outcome == NEXT ? block : UINT64_MAX;
	}
}

/* ---- devices that fail ---- */

uint64_t vol_lost_flushes(const struct vol_object *obj)
{
	/* acquire: see vol_choose() in channel_parts.c */
	uint64_t look = obj->used & ~fth_load_acquire_dev64(&obj->stale), lost = 0;

	for (unsigned i = 0; i < obj->vol->count; i++)
		/* relaxed: a flush that failed before this one began was counted before */
		if (look >> i & 1 && fth_load_relaxed_dev32(&obj->vol->members[i].flush_failures) !=
					     obj->flush_seen[i])
			lost |= (uint64_t)1 << i;
	return lost;
}

/* Put it into the catalog that these devices are out of date for obj. Under vol->update. */
static int record_stale(struct vol_object *obj, uint64_t stale)
{
	struct vol_entry *now, *changed;

	obj->entry->stale |= stale;
	/* release: whoever is told of the write from here on finds the device out of date */
	fth_store_release_dev64(&obj->stale, fth_load_relaxed_dev64(&obj->stale) | stale);
	if (obj->pending) /* it goes into the catalog with the object */
		return 0;
	now = vol_entry_of(obj->vol, obj->entry->id);
	changed = vol_entry_clone(now);
	if (!changed)
		return -ENOMEM;
	changed->stale |= stale;
	return vol_replace_entry(obj->vol, now, changed);
}

int vol_devices_failed(struct vol_object *obj, uint64_t failed, int error)
{
	struct fth_vol *vol = obj->vol;
	uint64_t known;
	int rc;

	pthread_mutex_lock(&vol->update);
	known = fth_load_relaxed_dev64(&obj->stale); /* changes under it only */
	failed &= ~known;
	if (!vol_entry_survives(obj->entry, known | failed, vol->count)) {
		/* relaxed: a read that misses it by a moment overlapped the failed change */
		fth_store_relaxed_dev32(&obj->unsynced, 1);
		rc = error;
	} else {
		rc = failed ? record_stale(obj, failed) : vol_failed(vol);
	}
	pthread_mutex_unlock(&vol->update);
	if (rc == 0)
		fth_stats_add(vol->stats, FTH_VOL_DEGRADED_WRITES, 1);
	return rc;
}
