/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading, judging and writing labels. */
#include "vol/catalog/label.h"

#include "fathom/base/checksum.h"
#include "fathom/base/error.h"
#include "fathom/vol.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define LABEL_SEED UINT64_C(0x6c6162656c766f6c)

uint64_t vol_label_checksum(const struct vol_label *label)
{
	struct vol_label copy = *label;

	copy.checksum = 0;
	return fth_checksum(&copy, sizeof(copy), LABEL_SEED + label->copy);
}

uint64_t vol_label_offset(uint64_t size, unsigned copy)
{
	return copy == 0 ? 0 : size / VOL_AREA * VOL_AREA - VOL_AREA;
}

static bool power_of_two(uint64_t n)
{
	return n && !(n & (n - 1));
}

/* The fields of a label whose checksum holds; NULL when they can be true together. */
static const char *contradiction(const struct vol_label *l)
{
	if (l->bytes != sizeof(*l))
		return "its length is wrong";
	if (l->count == 0 || l->count > FTH_VOL_DEVICES_MAX || l->index >= l->count)
		return "its index is not below its count";
	if (!power_of_two(l->block) || l->block < VOL_BLOCK_MIN || l->block > VOL_BLOCK_MAX)
		return "its block size is invalid";
	if (!power_of_two(l->unit) || l->unit < l->block || l->unit > FTH_VOL_UNIT_MAX)
		return "its stripe unit is invalid";
	if (l->replicas == 0 || l->replicas > l->count)
		return "its replica count is invalid";
	if (l->quorum == 0 || l->quorum > l->count)
		return "its quorum is not between 1 and its count";
	if (l->slot_bytes % VOL_GRAIN || l->slot_bytes < VOL_SLOT_MIN ||
	    l->slot_bytes > VOL_SLOT_MAX)
		return "its catalog size is invalid";
	if (l->size % VOL_AREA || l->data_end != l->size - VOL_AREA || l->size < 2 * VOL_AREA ||
	    l->data_start != VOL_AREA + VOL_SLOTS * l->slot_bytes || l->data_start > l->data_end)
		return "its areas do not fit its size";
	return NULL;
}

static enum vol_found judge(const struct vol_label *l, unsigned copy, char why[96])
{
	const char *reason = NULL;
	enum vol_found state = VOL_DAMAGED;

	if (memcmp(l->magic, VOL_LABEL_MAGIC, sizeof(l->magic)) != 0) {
		state = VOL_NOTHING;
		reason = "not there";
	} else if (l->copy != copy || l->checksum != vol_label_checksum(l)) {
		reason = "its checksum is wrong";
	} else if (l->version != VOL_VERSION) {
		snprintf(why, 96, "format version %u, this library knows %u", l->version,
			 VOL_VERSION);
		return VOL_OTHER_VERSION;
	} else {
		reason = contradiction(l);
	}
	if (!reason)
		return VOL_FOUND;
	snprintf(why, 96, "%s", reason);
	return state;
}

/* Read the area at `offset`, whatever blocks the device has. */
static int read_copy(struct fth_dev *dev, uint64_t offset, unsigned copy, struct vol_labels *labels)
{
	_Alignas(VOL_AREA) char area[VOL_AREA];
	int rc = fth_dev_read(dev, area, sizeof(area), offset, FTH_DEV_TIMEOUT);

	if (rc < 0) {
		snprintf(labels->why[copy], sizeof(labels->why[copy]), "cannot be read: %s",
			 strerror(-rc));
		labels->state[copy] = VOL_DAMAGED;
		return rc;
	}
	memcpy(&labels->copy[copy], area, sizeof(labels->copy[copy]));
	labels->state[copy] = judge(&labels->copy[copy], copy, labels->why[copy]);
	return 0;
}

int vol_labels_read(struct fth_dev *dev, struct vol_labels *labels)
{
	const struct fth_dev_info *info = fth_dev_info(dev);
	uint64_t size = info->size;
	int first, second;

	memset(labels, 0, sizeof(*labels));
	if (info->block > VOL_BLOCK_MAX)
		return fth_fail(EINVAL, "%s: its block size %u is greater than %u",
				fth_dev_uri(dev), info->block, VOL_BLOCK_MAX);
	if (size < 2 * VOL_AREA) {
		snprintf(labels->why[0], sizeof(labels->why[0]), "not there");
		snprintf(labels->why[1], sizeof(labels->why[1]), "not there");
		return 0;
	}
	first = read_copy(dev, 0, 0, labels);
	/* A device that has grown has its second copy where it used to end. */
	if (labels->state[0] == VOL_FOUND && labels->copy[0].size < size)
		size = labels->copy[0].size;
	second = read_copy(dev, vol_label_offset(size, 1), 1, labels);
	if (first < 0 && second < 0)
		return fth_fail(-first, "%s: label %s", fth_dev_uri(dev), labels->why[0]);
	return 0;
}

const struct vol_label *vol_labels_best(const struct vol_labels *labels)
{
	for (unsigned i = 0; i < 2; i++)
		if (labels->state[i] == VOL_FOUND)
			return &labels->copy[i];
	return NULL;
}

bool vol_labels_agree(const struct vol_labels *labels)
{
	struct vol_label a = labels->copy[0], b = labels->copy[1];

	a.copy = b.copy = 0;
	a.checksum = b.checksum = 0;
	return memcmp(&a, &b, sizeof(a)) == 0;
}

int vol_labels_usable(const struct vol_labels *labels, struct fth_dev *dev)
{
	const struct vol_label *best = vol_labels_best(labels);
	const char *uri = fth_dev_uri(dev);

	for (unsigned i = 0; !best && i < 2; i++)
		if (labels->state[i] == VOL_OTHER_VERSION)
			return fth_fail(EPROTONOSUPPORT, "%s: %s", uri, labels->why[i]);
	if (!best && labels->state[0] == VOL_NOTHING && labels->state[1] == VOL_NOTHING)
		return fth_fail(EMEDIUMTYPE, "%s is not part of a volume", uri);
	if (!best)
		return fth_fail(EBADMSG, "%s: both copies of the label are damaged (%s; %s)", uri,
				labels->why[0], labels->why[1]);
	if (fth_dev_info(dev)->size < best->size)
		return fth_fail(ERANGE, "%s has %llu bytes, its label says %llu", uri,
				(unsigned long long)fth_dev_info(dev)->size,
				(unsigned long long)best->size);
	if (fth_dev_info(dev)->block > best->block)
		return fth_fail(EINVAL, "%s has blocks of %u bytes, the volume has %u", uri,
				fth_dev_info(dev)->block, best->block);
	return 0;
}

int vol_label_write(struct fth_dev *dev, const struct vol_label *label, unsigned copy)
{
	_Alignas(VOL_AREA) char area[VOL_AREA] = {0};
	struct vol_label sealed = *label;

	sealed.copy = copy;
	sealed.checksum = vol_label_checksum(&sealed);
	memcpy(area, &sealed, sizeof(sealed));
	return fth_dev_write(dev, area, sizeof(area), vol_label_offset(label->size, copy),
			     FTH_DEV_TIMEOUT);
}
