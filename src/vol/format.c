/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Making a volume. Labels come last, when every device has its catalog: a power loss in between
 * leaves devices of which some have no label, and so no volume, or a volume that is whole.
 */
#include "vol/vol.h"
#include "base/options.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define DATA_MIN (64u << 10)

static bool power_of_two(uint64_t n)
{
	return n && !(n & (n - 1));
}

static uint64_t usable(const struct fth_dev *dev)
{
	return fth_dev_info(dev)->size / VOL_AREA * VOL_AREA;
}

/* The block that suits all devices, and buffers cut at any block of it. */
static uint32_t common_block(struct fth_dev *const *devs, unsigned n)
{
	uint32_t block = VOL_BLOCK_MIN;

	for (unsigned i = 0; i < n; i++) {
		const struct fth_dev_info *info = fth_dev_info(devs[i]);

		block = info->block > block ? info->block : block;
		block = info->align > block ? info->align : block;
	}
	return block;
}

static uint64_t default_slot(struct fth_dev *const *devs, unsigned n)
{
	uint64_t least = UINT64_MAX, slot;

	for (unsigned i = 0; i < n; i++)
		least = usable(devs[i]) < least ? usable(devs[i]) : least;
	slot = least / 256 / VOL_GRAIN * VOL_GRAIN;
	if (slot < VOL_SLOT_MIN)
		return VOL_SLOT_MIN;
	return slot < 4u << 20 ? slot : 4u << 20;
}

static int check_options(const struct vol_label *label, uint32_t least_block)
{
	if (!power_of_two(label->block) || label->block < least_block ||
	    label->block > VOL_BLOCK_MAX)
		return fth_fail(EINVAL, "block size %u is not a power of two between %u and %u",
				label->block, least_block, VOL_BLOCK_MAX);
	if (!power_of_two(label->unit) || label->unit < label->block ||
	    label->unit > FTH_VOL_UNIT_MAX)
		return fth_fail(EINVAL, "stripe unit %u is not a power of two between %u and %u",
				label->unit, label->block, FTH_VOL_UNIT_MAX);
	if (label->replicas > label->count)
		return fth_fail(EINVAL, "%u replicas exceed the number of devices, %u",
				label->replicas, label->count);
	if (label->slot_bytes < VOL_SLOT_MIN || label->slot_bytes > VOL_SLOT_MAX)
		return fth_fail(EINVAL, "catalog size %llu is not between %u and %u",
				(unsigned long long)label->slot_bytes, VOL_SLOT_MIN, VOL_SLOT_MAX);
	return 0;
}

static int make_uuid(uint8_t uuid[16])
{
	for (unsigned i = 0; i < 16; i++)
		if (uuid[i])
			return 0;
	if (getrandom(uuid, 16, 0) != 16)
		return fth_fail(EIO, "cannot read random numbers for a uuid");
	uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x40); /* RFC 4122, version 4 */
	uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80);
	return 0;
}

/* What all labels have in common. */
static int plan(struct fth_dev *const *devs, unsigned n,
		const struct fth_vol_format_options *options, struct vol_label *label)
{
	uint32_t least = common_block(devs, n);
	int rc;

	memset(label, 0, sizeof(*label));
	memcpy(label->magic, VOL_LABEL_MAGIC, sizeof(label->magic));
	label->version = VOL_VERSION;
	label->bytes = sizeof(*label);
	label->count = n;
	label->block = options->block ? options->block : least;
	label->unit = options->unit ? options->unit : VOL_UNIT_DEFAULT;
	label->replicas = options->replicas ? options->replicas : 1;
	/* A mirror of two has to go on with one of them: it can not ask for a majority. */
	label->quorum = n > 2 ? n / 2 + 1 : 1;
	label->slot_bytes = options->catalog
				    ? (options->catalog + VOL_GRAIN - 1) / VOL_GRAIN * VOL_GRAIN
				    : default_slot(devs, n);
	memcpy(label->uuid, options->uuid, sizeof(label->uuid));
	rc = check_options(label, least);
	return rc < 0 ? rc : make_uuid(label->uuid);
}

/* A device of its own: large enough, not twice, and without a label unless that may go. */
static int check_device(struct fth_dev *const *devs, unsigned i, const struct vol_label *label,
			bool force)
{
	uint64_t needed = 2 * VOL_AREA + VOL_SLOTS * label->slot_bytes + DATA_MIN;
	struct vol_labels labels;
	int rc;

	for (unsigned k = 0; k < i; k++)
		if (devs[k] == devs[i])
			return fth_fail(ENOTUNIQ, "%s is given twice", fth_dev_uri(devs[i]));
	if (usable(devs[i]) < needed)
		return fth_fail(ENOSPC, "%s has %llu bytes, a volume needs at least %llu",
				fth_dev_uri(devs[i]), (unsigned long long)usable(devs[i]),
				(unsigned long long)needed);
	rc = vol_labels_read(devs[i], &labels);
	if (rc < 0)
		return rc;
	if (!force && (labels.state[0] != VOL_NOTHING || labels.state[1] != VOL_NOTHING))
		return fth_fail(
			EEXIST,
			"%s has the label of a volume; use --force (options.force) to overwrite it",
			fth_dev_uri(devs[i]));
	return 0;
}

static void complete(struct vol_label *label, const struct fth_dev *dev, unsigned i)
{
	label->index = i;
	label->size = usable(dev);
	label->data_start = VOL_AREA + VOL_SLOTS * label->slot_bytes;
	label->data_end = label->size - VOL_AREA;
}

/* An empty catalog in slot 0, nothing in slot 1; no label yet, and none any more. */
static int write_catalog(struct fth_dev *dev, unsigned i, const struct vol_label *label)
{
	_Alignas(VOL_AREA) char area[VOL_AREA] = {0};
	struct vol_catalog cat = {.sequence = 1, .next_id = 1};
	struct vol_space space = {.count = label->count};
	uint64_t bytes = vol_catalog_bytes(&cat), checksum;
	int rc = fth_dev_write(dev, area, sizeof(area), 0, FTH_DEV_TIMEOUT);

	if (rc == 0)
		rc = fth_dev_write(dev, area, sizeof(area), vol_label_offset(label->size, 1),
				   FTH_DEV_TIMEOUT);
	if (rc == 0)
		rc = fth_dev_write(dev, area, sizeof(area), VOL_AREA + label->slot_bytes,
				   FTH_DEV_TIMEOUT);
	if (rc < 0)
		return rc;
	memcpy(space.uuid, label->uuid, sizeof(space.uuid));
	vol_catalog_write(&cat, &space, area);
	checksum = vol_catalog_checksum(area, bytes, i, 0);
	memcpy(area + offsetof(struct vol_catalog_head, checksum), &checksum, sizeof(checksum));
	rc = fth_dev_write(dev, area, sizeof(area), VOL_AREA, FTH_DEV_TIMEOUT);
	return rc < 0 ? rc : fth_dev_flush(dev, FTH_DEV_TIMEOUT);
}

static int write_label(struct fth_dev *dev, const struct vol_label *label, unsigned copy)
{
	int rc = vol_label_write(dev, label, copy);

	return rc < 0 ? rc : fth_dev_flush(dev, FTH_DEV_TIMEOUT);
}

static int write_volume(struct fth_dev *const *devs, unsigned n, struct vol_label *label)
{
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < n; i++) {
		complete(label, devs[i], i);
		rc = write_catalog(devs[i], i, label);
	}
	for (unsigned k = 2; k-- > 0;)
		for (unsigned i = 0; rc == 0 && i < n; i++) {
			complete(label, devs[i], i);
			rc = write_label(devs[i], label, k);
		}
	return rc;
}

int fth_vol_format(struct fth_dev *const *devs, unsigned n,
		   const struct fth_vol_format_options *options)
{
	const struct fth_vol_format_options defaults = FTH_VOL_FORMAT_OPTIONS_INIT;
	struct vol_label label;
	int rc;

	if (!options)
		options = &defaults;
	rc = fth_options_check("vol", options->size, sizeof(*options));
	if (rc < 0)
		return rc;
	if (n == 0 || n > FTH_VOL_DEVICES_MAX)
		return fth_fail(EINVAL, "a volume needs 1 to %u devices, %u given",
				FTH_VOL_DEVICES_MAX, n);
	rc = plan(devs, n, options, &label);
	for (unsigned i = 0; rc == 0 && i < n; i++)
		rc = check_device(devs, i, &label, options->force);
	return rc < 0 ? rc : write_volume(devs, n, &label);
}

int fth_vol_format_uris(const char *const *uris, unsigned n,
			const struct fth_vol_format_options *options)
{
	struct vol_opened opened;
	int rc = vol_open_all(uris, n, VOL_ACCESS_WRITE, &opened);

	if (rc < 0)
		return rc;
	rc = fth_vol_format(opened.devs, opened.count, options);
	vol_close_all(&opened);
	return rc;
}
