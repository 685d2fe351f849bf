/* SPDX-License-Identifier: BSD-2-Clause */
/* Identify data comes from outside: every field is checked before it is believed. */
#include "nvme/driver.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <string.h>

#define LBA_SHIFT_MIN 9
#define LBA_SHIFT_MAX 16

/* One PRP list page per command: what it can name, whatever the controller would take. */
#define TRANSFER_MAX ((uint64_t)FTH_NVME_PAGE_SIZE / 8 * FTH_NVME_PAGE_SIZE)

/* ASCII padded with spaces to text. */
static void copy_text(char *to, const char *from, size_t len)
{
	while (len > 0 && (from[len - 1] == ' ' || from[len - 1] == '\0'))
		len--;
	for (size_t i = 0; i < len; i++)
		to[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
	to[len] = '\0';
}

static uint64_t max_transfer(const struct fth_nvme_id_ctrl *ctrl)
{
	uint64_t bytes = TRANSFER_MAX;

	if (ctrl->mdts && ctrl->mdts < 32 && (uint64_t)FTH_NVME_PAGE_SIZE << ctrl->mdts < bytes)
		bytes = (uint64_t)FTH_NVME_PAGE_SIZE << ctrl->mdts;
	return bytes;
}

int fth_nvme_parse_identify(const struct fth_nvme_id_ctrl *ctrl, const struct fth_nvme_id_ns *ns,
			    struct fth_nvme_info *info)
{
	const struct fth_nvme_lba_format *format = &ns->lbaf[ns->flbas & 0xf];

	memset(info, 0, sizeof(*info));
	copy_text(info->serial, ctrl->sn, sizeof(ctrl->sn));
	copy_text(info->model, ctrl->mn, sizeof(ctrl->mn));
	copy_text(info->firmware, ctrl->fr, sizeof(ctrl->fr));
	if ((ctrl->sqes & 0xf) > 6 || ctrl->sqes >> 4 < 6 || (ctrl->cqes & 0xf) > 4 ||
	    ctrl->cqes >> 4 < 4)
		return fth_fail(EOPNOTSUPP,
				"the controller does not support queue entries of 64 and 16 bytes");
	if (ns->nsze == 0)
		return fth_fail(ENODEV, "the namespace is empty or does not exist");
	if ((ns->flbas & 0xf) > ns->nlbaf)
		return fth_fail(EINVAL, "the namespace reports LBA format %u, but has %u",
				ns->flbas & 0xfu, ns->nlbaf + 1u);
	if (format->metadata != 0 || ns->dps & 7)
		return fth_fail(EOPNOTSUPP,
				"the namespace is formatted with metadata (%u bytes "
				"per block): format it without",
				format->metadata);
	if (format->data_shift < LBA_SHIFT_MIN || format->data_shift > LBA_SHIFT_MAX)
		return fth_fail(EOPNOTSUPP, "blocks of 2^%u bytes are not supported",
				format->data_shift);
	if (ns->nsze > UINT64_MAX >> format->data_shift)
		return fth_fail(EINVAL, "the namespace is larger than 2^64 bytes");
	if (max_transfer(ctrl) < 1ull << format->data_shift)
		return fth_fail(EOPNOTSUPP,
				"the maximum transfer is less than a block of 2^%u bytes",
				format->data_shift);
	info->lba_shift = format->data_shift;
	info->blocks = ns->nsze;
	info->max_transfer = max_transfer(ctrl);
	info->write_cache = ctrl->vwc & FTH_NVME_VWC_PRESENT;
	info->has_discard = ctrl->oncs & FTH_NVME_ONCS_DSM;
	info->has_write_zeroes = ctrl->oncs & FTH_NVME_ONCS_WRITE_ZEROES;
	return 0;
}
