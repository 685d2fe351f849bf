/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Catalog slots: where the catalog lies, twice on every device, and how it is replaced.
 *
 * Invariants
 * 1. An update writes the slot of each device that does not hold its newest catalog, and flushes.
 *    The other one stays as it is, so a torn write costs the update and nothing else.
 * 2. The catalog with the highest sequence on any device is the one that counts. An update is
 *    acknowledged when it is durable on `quorum` devices: so any count - quorum + 1 devices have
 *    one among them that knows it. A device that did not take it is `behind`, is noted as such in
 *    the next one, and is tried again then.
 * 3. If it is durable on fewer, it may yet be there after a restart. What would follow could then
 *    contradict it, so the volume fails until it is opened anew.
 * 4. Each catalog carries the digest of the one that it replaced. A device that is not behind
 *    holds the newest or the one before; anything else is a device of another history.
 */
#include "vol/vol.h"

#include "fathom/base/error.h"
#include "fathom/hd/atomic.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t slot_offset(const struct fth_vol *vol, unsigned slot)
{
	return VOL_AREA + slot * vol->space.slot_bytes;
}

static uint64_t whole_grains(uint64_t bytes)
{
	return (bytes + VOL_GRAIN - 1) / VOL_GRAIN * VOL_GRAIN;
}

/* ---- reading ---- */

static void judge_head(const struct fth_vol *vol, const struct vol_catalog_head *head,
		       struct vol_slot *out)
{
	const char *reason = NULL;

	if (memcmp(head->magic, VOL_CATALOG_MAGIC, sizeof(head->magic)) != 0) {
		static const char zeroes[sizeof(head->magic)];

		out->state =
			memcmp(head->magic, zeroes, sizeof(zeroes)) ? VOL_DAMAGED : VOL_NOTHING;
		reason = out->state == VOL_NOTHING ? "never used" : "does not begin like a catalog";
	} else if (memcmp(head->uuid, vol->space.uuid, sizeof(head->uuid)) != 0) {
		reason = "belongs to another volume";
	} else if (head->bytes < sizeof(*head) || head->bytes > vol->space.slot_bytes ||
		   head->bytes % 8) {
		reason = "its length is invalid";
	}
	if (reason)
		snprintf(out->why, sizeof(out->why), "%s", reason);
	else
		out->state = VOL_FOUND;
}

/* The head is well; read the rest and look at the checksum. */
static int read_body(const struct fth_vol *vol, unsigned i, unsigned slot,
		     const struct vol_catalog_head *head, struct vol_slot *out)
{
	uint64_t bytes = whole_grains(head->bytes);
	void *buf;
	int rc;

	if (posix_memalign(&buf, VOL_GRAIN, bytes) != 0)
		return -ENOMEM;
	rc = fth_dev_read(vol->members[i].dev, buf, bytes, slot_offset(vol, slot), FTH_DEV_TIMEOUT);
	out->state = VOL_DAMAGED;
	if (rc < 0) {
		snprintf(out->why, sizeof(out->why), "cannot be read: %s", strerror(-rc));
	} else if (memcmp(buf, head, sizeof(*head)) != 0 ||
		   vol_catalog_checksum(buf, head->bytes, i, slot) != head->checksum) {
		snprintf(out->why, sizeof(out->why), "its checksum is wrong");
	} else if (head->version != VOL_VERSION) {
		out->state = VOL_OTHER_VERSION;
		snprintf(out->why, sizeof(out->why), "format version %u, this library knows %u",
			 head->version, VOL_VERSION);
	} else {
		*out = (struct vol_slot){.state = VOL_FOUND,
					 .sequence = head->sequence,
					 .previous = head->previous,
					 .behind = head->behind,
					 .digest = vol_catalog_digest(buf, head->bytes),
					 .buf = buf,
					 .bytes = head->bytes};
		return 0;
	}
	free(buf);
	return 0;
}

int vol_slot_read(const struct fth_vol *vol, unsigned i, unsigned slot, struct vol_slot *out)
{
	_Alignas(VOL_GRAIN) char first[VOL_GRAIN];
	struct vol_catalog_head head;
	int rc;

	*out = (struct vol_slot){.state = VOL_DAMAGED};
	rc = fth_dev_read(vol->members[i].dev, first, sizeof(first), slot_offset(vol, slot),
			  FTH_DEV_TIMEOUT);
	if (rc < 0) {
		snprintf(out->why, sizeof(out->why), "cannot be read: %s", strerror(-rc));
		return 0;
	}
	memcpy(&head, first, sizeof(head));
	judge_head(vol, &head, out);
	return out->state == VOL_FOUND ? read_body(vol, i, slot, &head, out) : 0;
}

/* Take what member i holds into the table; *best is the newest catalog of all so far. */
static int load_member(struct fth_vol *vol, unsigned i, struct vol_slot *best)
{
	struct vol_member *member = &vol->members[i];

	for (unsigned slot = 0; slot < VOL_SLOTS; slot++) {
		struct vol_slot found;
		int rc = vol_slot_read(vol, i, slot, &found);

		if (rc < 0)
			return rc;
		if (found.state == VOL_OTHER_VERSION)
			return fth_fail(EPROTONOSUPPORT, "%s: catalog: %s",
					fth_dev_uri(member->dev), found.why);
		if (found.state == VOL_FOUND && found.sequence >= member->held) {
			member->held = found.sequence;
			member->held_digest = found.digest;
			member->good_slot = slot;
		}
		if (found.state == VOL_FOUND && (!best->buf || found.sequence > best->sequence)) {
			free(best->buf);
			*best = found;
			found.buf = NULL;
		}
		free(found.buf);
	}
	return 0;
}

bool vol_leads_to(const struct fth_vol *vol, unsigned i, const struct vol_catalog *cat)
{
	const struct vol_member *member = &vol->members[i];

	if (member->held == cat->sequence)
		return member->held_digest == cat->digest;
	/* One without a readable catalog has no history that could contradict. */
	if (member->held == 0 || cat->behind >> i & 1)
		return true;
	return member->held + 1 == cat->sequence && member->held_digest == cat->previous;
}

static int check_histories(const struct fth_vol *vol)
{
	const struct vol_member *newest = NULL;

	for (unsigned i = 0; i < vol->count; i++)
		if (vol->members[i].dev && vol->members[i].held == vol->cat.sequence &&
		    vol->members[i].held_digest == vol->cat.digest)
			newest = &vol->members[i];
	for (unsigned i = 0; i < vol->count; i++)
		if (vol->members[i].dev && !vol_leads_to(vol, i, &vol->cat))
			return fth_fail(ENOTUNIQ,
					"%s (update %llu) and %s (update %llu) have the same uuid "
					"but different histories; they may belong to two volumes",
					fth_dev_uri(vol->members[i].dev),
					(unsigned long long)vol->members[i].held,
					newest ? fth_dev_uri(newest->dev) : "?",
					(unsigned long long)vol->cat.sequence);
	return 0;
}

int vol_catalog_load(struct fth_vol *vol)
{
	struct vol_slot best = {.state = VOL_NOTHING};
	struct vol_judge judge = {0};
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < vol->count; i++)
		if (vol->members[i].dev)
			rc = load_member(vol, i, &best);
	if (rc == 0 && !best.buf)
		rc = fth_fail(EBADMSG, "no device has a readable catalog");
	if (rc == 0) {
		rc = vol_catalog_parse(best.buf, best.bytes, &vol->space, &judge, &vol->cat);
		if (rc < 0)
			rc = fth_fail_in(rc, "catalog");
	}
	free(best.buf);
	return rc < 0 ? rc : check_histories(vol);
}

/* ---- writing ---- */

int vol_failed(const struct fth_vol *vol)
{
	/* relaxed: whoever sees it a little late could as well have been a little earlier */
	uint32_t error = fth_load_relaxed_dev32(&vol->failed);

	return error ? fth_fail((int)error, "the volume failed (%s) and must be reopened",
				strerror((int)error))
		     : 0;
}

int vol_writable(const struct fth_vol *vol)
{
	if (vol->readonly)
		return fth_fail(EROFS, "the volume is open read-only");
	return vol_failed(vol);
}

int vol_flush_member(struct fth_vol *vol, unsigned i)
{
	int rc = fth_dev_flush(vol->members[i].dev, FTH_DEV_TIMEOUT);

	if (rc < 0)
		/*
		 * relaxed: a count; who must see it is ordered by vol->update or by its own flush
		 */
		fth_add_relaxed_dev32(&vol->members[i].flush_failures, 1);
	return rc;
}

/* Write the catalog in buf to one device and make it durable. */
static int write_slot(struct fth_vol *vol, unsigned i, char *buf, uint64_t bytes,
		      const struct vol_catalog *next)
{
	struct vol_member *member = &vol->members[i];
	unsigned slot = member->held ? !member->good_slot : 0;
	uint64_t checksum = vol_catalog_checksum(buf, bytes, i, slot);
	int rc;

	/* Its late write could land on a newer catalog. */
	if (member->hung)
		return -ETIMEDOUT;
	memcpy(buf + offsetof(struct vol_catalog_head, checksum), &checksum, sizeof(checksum));
	rc = fth_dev_write(member->dev, buf, whole_grains(bytes), slot_offset(vol, slot),
			   FTH_DEV_TIMEOUT);
	if (rc == 0)
		rc = vol_flush_member(vol, i);
	member->hung = rc == -ETIMEDOUT;
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&vol->lock);
	member->held = next->sequence;
	member->held_digest = next->digest;
	member->good_slot = slot;
	pthread_mutex_unlock(&vol->lock);
	return 0;
}

static int write_all(struct fth_vol *vol, char *buf, uint64_t bytes, const struct vol_catalog *next)
{
	unsigned written = 0;
	int error = 0;

	for (unsigned i = 0; i < vol->count; i++) {
		int rc = write_slot(vol, i, buf, bytes, next);

		written += rc == 0;
		if (rc < 0) {
			fth_stats_add(vol->stats, FTH_VOL_COMMIT_FAILURES, 1);
			error = rc;
		}
	}
	if (written >= vol->defaults.quorum)
		return 0;
	fth_store_relaxed_dev32(&vol->failed, (uint32_t)-error);
	return fth_fail(-error, "the catalog was written to %u of %u devices, %u are needed: %s",
			written, vol->count, vol->defaults.quorum, strerror(-error));
}

static uint64_t behind(const struct fth_vol *vol)
{
	uint64_t mask = 0;

	for (unsigned i = 0; i < vol->count; i++)
		if (vol->members[i].held != vol->cat.sequence)
			mask |= (uint64_t)1 << i;
	return mask;
}

static int commit(struct fth_vol *vol, struct vol_catalog *next)
{
	uint64_t bytes = vol_catalog_bytes(next);
	void *buf;
	int rc;

	if (bytes > vol->space.slot_bytes)
		return fth_fail(ENOSPC, "the catalog is full: it has %llu bytes and needs %llu",
				(unsigned long long)vol->space.slot_bytes,
				(unsigned long long)bytes);
	if (posix_memalign(&buf, VOL_GRAIN, whole_grains(bytes)) != 0)
		return -ENOMEM;
	memset(buf, 0, whole_grains(bytes));
	next->sequence = vol->cat.sequence + 1;
	next->previous = vol->cat.digest;
	next->behind = behind(vol);
	vol_catalog_write(next, &vol->space, buf);
	next->digest = vol_catalog_digest(buf, bytes);
	rc = write_all(vol, buf, bytes, next);
	free(buf);
	return rc;
}

int vol_commit(struct fth_vol *vol, struct vol_catalog *next)
{
	int rc = vol_writable(vol);

	if (rc == 0)
		rc = commit(vol, next);
	if (rc < 0) {
		vol_catalog_forget(next);
		return rc;
	}
	fth_stats_add(vol->stats, FTH_VOL_COMMITS, 1);
	pthread_mutex_lock(&vol->lock);
	vol_catalog_forget(&vol->cat);
	vol->cat = *next;
	pthread_mutex_unlock(&vol->lock);
	return 0;
}

int vol_replace_entry(struct fth_vol *vol, struct vol_entry *drop, struct vol_entry *add)
{
	struct vol_catalog next;
	int rc = vol_catalog_change(&vol->cat, drop, add, &next);

	if (rc == 0)
		rc = vol_commit(vol, &next);
	vol_entry_free(rc == 0 ? drop : add);
	return rc;
}
