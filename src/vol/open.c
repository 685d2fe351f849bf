/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening a volume: from a heap of devices to members in order. Nothing here writes, but an update
 * that was cut short is completed.
 *
 * Siblings: catalog/ has the labels, the catalog and its slots on the media, and finds space;
 * objects.c changes the catalog; open_object.c and channel/ are open objects; format.c makes
 * volumes; vol_check.c and replica_sync.c examine and mend them; lock.c opens devices by URI;
 * scheme.c is vol(...).
 */
#include "vol/vol.h"

#include "fathom/base/error.h"

#include "dev/lock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *fth_vol_uuid_text(const uint8_t u[16], char text[FTH_VOL_UUID_TEXT])
{
	snprintf(text, FTH_VOL_UUID_TEXT,
		 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
		 u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
		 u[15]);
	return text;
}

uint64_t fth_vol_counter(const struct fth_vol *vol, enum fth_vol_counter which)
{
	return fth_stats_read(vol->stats, which);
}

/* ---- members ---- */

/* Labels of one volume agree in all but what is each device's own. */
static bool same_volume(const struct vol_label *a, const struct vol_label *b)
{
	return memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0;
}

static bool same_shape(const struct vol_label *a, const struct vol_label *b)
{
	return a->count == b->count && a->block == b->block && a->slot_bytes == b->slot_bytes &&
	       a->unit == b->unit && a->replicas == b->replicas && a->quorum == b->quorum;
}

static int foreign(const char *uri, const struct vol_label *label, const char *other,
		   const struct vol_label *expected)
{
	char mine[FTH_VOL_UUID_TEXT], theirs[FTH_VOL_UUID_TEXT];

	return fth_fail(EXDEV, "%s belongs to volume %s, %s to volume %s", uri,
			fth_vol_uuid_text(label->uuid, mine), other,
			fth_vol_uuid_text(expected->uuid, theirs));
}

static int place_member(struct fth_vol *vol, struct fth_dev *dev, const struct vol_label *label,
			struct fth_dev *first)
{
	struct vol_member *member = &vol->members[label->index];
	const struct vol_label *common = &vol->defaults;

	if (vol->count == 0) {
		vol->defaults = *label;
		vol->count = label->count;
	} else if (!same_volume(label, common)) {
		return foreign(fth_dev_uri(dev), label, fth_dev_uri(first), common);
	} else if (!same_shape(label, common)) {
		return fth_fail(ENOTUNIQ,
				"%s and %s have the same uuid, but belong to different volumes",
				fth_dev_uri(dev), fth_dev_uri(first));
	}
	if (member->dev)
		return fth_fail(ENOTUNIQ, "%s and %s are both device %u of the volume",
				fth_dev_uri(member->dev), fth_dev_uri(dev), label->index);
	/* Pieces of a buffer begin at any block of it. */
	if (fth_dev_info(dev)->align > label->block)
		return fth_fail(
			EINVAL,
			"%s requires an alignment of %u, the block size of the volume is %u",
			fth_dev_uri(dev), fth_dev_info(dev)->align, label->block);
	member->dev = dev;
	member->label = *label;
	vol->space.device[label->index].start = label->data_start;
	vol->space.device[label->index].end = label->data_end;
	return 0;
}

static unsigned first_missing(const struct fth_vol *vol)
{
	return (unsigned)__builtin_ctzll(vol->missing);
}

bool vol_is_sure(const struct fth_vol *vol)
{
	unsigned here = vol->count - (unsigned)__builtin_popcountll(vol->missing);

	return here + vol->defaults.quorum > vol->count;
}

/* What those who open a volume without some of its devices should know. */
static void warn_of_missing(struct fth_vol *vol)
{
	bool one = (vol->missing & (vol->missing - 1)) == 0;
	size_t room = sizeof(vol->warning), at = 0;

	at += (size_t)snprintf(vol->warning, room, one ? "device" : "devices");
	for (unsigned i = 0; i < vol->count; i++)
		if (vol->missing >> i & 1)
			at += (size_t)snprintf(vol->warning + at, room - at, "%s %u",
					       i > first_missing(vol) ? "," : "", i);
	snprintf(vol->warning + at, room - at, " of %u %s missing%s", vol->count,
		 one ? "is" : "are",
		 vol_is_sure(vol)
			 ? ""
			 : " and may hold newer data: what is read here may be out of date");
}

/* What extents on a missing device are checked against: nothing is known of its size. */
static int note_missing(struct fth_vol *vol, unsigned flags)
{
	for (unsigned i = 0; i < vol->count; i++) {
		if (vol->members[i].dev)
			continue;
		vol->missing |= (uint64_t)1 << i;
		vol->space.device[i].start = vol->defaults.data_start;
		vol->space.device[i].end = (uint64_t)1 << 63;
	}
	if (!vol->missing)
		return 0;
	if (!(flags & FTH_VOL_DEGRADED))
		return fth_fail(ENODEV, "device %u of %u of the volume is missing",
				first_missing(vol), vol->count);
	if ((flags & FTH_VOL_MINORITY) != FTH_VOL_MINORITY && !vol_is_sure(vol))
		return fth_fail(
			ESTALE,
			"device %u of %u of the volume is missing and may hold newer data "
			"than the %u present ones: at least %u must be present, or reading "
			"old data must be allowed (FTH_VOL_MINORITY, --minority, minority=on)",
			first_missing(vol), vol->count,
			vol->count - (unsigned)__builtin_popcountll(vol->missing),
			vol->count - vol->defaults.quorum + 1);
	warn_of_missing(vol);
	return 0;
}

int vol_assemble(struct fth_vol *vol, struct fth_dev *const *devs, unsigned n, unsigned flags)
{
	if (n == 0 || n > FTH_VOL_DEVICES_MAX)
		return fth_fail(EINVAL, "a volume needs 1 to %u devices, %u given",
				FTH_VOL_DEVICES_MAX, n);
	for (unsigned i = 0; i < n; i++) {
		struct vol_labels labels;
		int rc = vol_labels_read(devs[i], &labels);

		if (rc == 0)
			rc = vol_labels_usable(&labels, devs[i]);
		if (rc == 0)
			rc = place_member(vol, devs[i], vol_labels_best(&labels), devs[0]);
		if (rc < 0)
			return rc;
	}
	memcpy(vol->space.uuid, vol->defaults.uuid, sizeof(vol->space.uuid));
	vol->space.count = vol->count;
	vol->space.block = vol->defaults.block;
	vol->space.slot_bytes = vol->defaults.slot_bytes;
	return note_missing(vol, flags);
}

/* ---- opening ---- */

/*
 * What was read may be in a device's cache only, when whoever wrote it ended before its flush. It
 * is about to be relied on, so it is made durable first.
 */
static int settle(struct fth_vol *vol)
{
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < vol->count; i++) {
		rc = vol_flush_member(vol, i);
		if (rc < 0)
			rc = fth_fail(-rc, "%s: flush: %s", fth_dev_uri(vol->members[i].dev),
				      strerror(-rc));
	}
	return rc;
}

/*
 * The newest catalog is on fewer devices than an update has to be: one that was cut short, which
 * nobody was told of. It is about to be relied on, so it is completed.
 */
static int complete_update(struct fth_vol *vol)
{
	struct vol_catalog next;
	unsigned hold = 0;
	int rc;

	for (unsigned i = 0; i < vol->count; i++)
		hold += vol->members[i].held == vol->cat.sequence;
	if (hold >= vol->defaults.quorum)
		return 0;
	rc = vol_catalog_change(&vol->cat, NULL, NULL, &next);
	return rc < 0 ? rc : vol_commit(vol, &next);
}

struct fth_vol *vol_new(void)
{
	struct fth_vol *vol = calloc(1, sizeof(*vol));

	if (!vol)
		return NULL;
	pthread_mutex_init(&vol->lock, NULL);
	pthread_mutex_init(&vol->update, NULL);
	vol_worker_init(&vol->worker);
	for (unsigned i = 0; i < FTH_VOL_DEVICES_MAX; i++)
		vol->members[i].lock_fd = -1;
	return vol;
}

int fth_vol_open(struct fth_dev *const *devs, unsigned n, unsigned flags, struct fth_vol **out)
{
	struct fth_vol *vol = vol_new();
	int rc;

	*out = NULL;
	if (!vol)
		return -ENOMEM;
	vol->readonly = flags & (FTH_VOL_READONLY | FTH_VOL_DEGRADED);
	vol->stats = fth_stats_new(FTH_VOL_COUNTERS);
	rc = vol->stats ? vol_assemble(vol, devs, n, flags) : -ENOMEM;
	if (rc == 0)
		rc = vol_catalog_load(vol);
	if (rc == 0 && !vol->readonly)
		rc = settle(vol);
	if (rc == 0 && !vol->readonly)
		rc = complete_update(vol);
	if (rc < 0) {
		fth_vol_close(vol);
		return rc;
	}
	*out = vol;
	return 0;
}

void vol_own(struct fth_vol *vol, const struct vol_opened *opened)
{
	for (unsigned i = 0; i < vol->count; i++)
		for (unsigned k = 0; k < opened->count; k++)
			if (vol->members[i].dev == opened->devs[k]) {
				vol->members[i].owned = true;
				vol->members[i].lock_fd = opened->locks[k];
			}
}

int fth_vol_open_uris(const char *const *uris, unsigned n, unsigned flags, struct fth_vol **out)
{
	bool readonly = flags & (FTH_VOL_READONLY | FTH_VOL_DEGRADED);
	struct vol_opened opened;
	int rc;

	*out = NULL;
	rc = vol_open_all(uris, n, readonly ? VOL_ACCESS_READ : VOL_ACCESS_WRITE, &opened);
	if (rc < 0)
		return rc;
	rc = fth_vol_open(opened.devs, opened.count, flags, out);
	if (rc < 0)
		vol_close_all(&opened);
	else
		vol_own(*out, &opened);
	return rc;
}

void fth_vol_close(struct fth_vol *vol)
{
	if (!vol)
		return;
	vol_worker_release(&vol->worker);
	for (unsigned i = 0; i < FTH_VOL_DEVICES_MAX; i++) {
		if (vol->members[i].owned)
			fth_dev_close(vol->members[i].dev);
		fth_dev_unlock(vol->members[i].lock_fd);
	}
	vol_catalog_release(&vol->cat);
	fth_stats_free(vol->stats);
	pthread_mutex_destroy(&vol->lock);
	pthread_mutex_destroy(&vol->update);
	free(vol);
}

struct fth_dev *fth_vol_dev(struct fth_vol *vol, unsigned i)
{
	return i < vol->count ? vol->members[i].dev : NULL;
}

const char *fth_vol_warning(const struct fth_vol *vol)
{
	return vol->warning;
}

void fth_vol_info(struct fth_vol *vol, struct fth_vol_info *info)
{
	memset(info, 0, sizeof(*info));
	pthread_mutex_lock(&vol->lock);
	memcpy(info->uuid, vol->space.uuid, sizeof(info->uuid));
	info->devices = vol->count;
	info->block = vol->space.block;
	info->unit = vol->defaults.unit;
	info->replicas = vol->defaults.replicas;
	info->quorum = vol->defaults.quorum;
	info->missing = vol->missing;
	info->objects = vol->cat.count;
	info->sequence = vol->cat.sequence;
	info->catalog = vol->space.slot_bytes;
	info->catalog_used = vol_catalog_bytes(&vol->cat);
	for (unsigned i = 0; i < vol->count; i++) {
		if (vol->members[i].dev)
			info->total += vol->space.device[i].end - vol->space.device[i].start;
		if (vol->members[i].dev && vol->members[i].held != vol->cat.sequence)
			info->behind |= (uint64_t)1 << i;
	}
	info->free = vol->missing ? 0 : vol_free_bytes(vol);
	pthread_mutex_unlock(&vol->lock);
}
