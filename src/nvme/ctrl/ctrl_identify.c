/* SPDX-License-Identifier: BSD-2-Clause */
/* Identify (5.15): what the controller and its one namespace are. */
#include "nvme/ctrl/ctrl_internal.h"

#include <stdio.h>
#include <string.h>

#define ONLY_NSID	   1u
#define ENTRY_SIZES(shift) ((uint8_t)((shift) << 4 | (shift))) /* required and maximum */
#define ATOMIC_BLOCKS	   0u				       /* one block, 0's based */
#define WARNING_KELVIN	   343
#define CRITICAL_KELVIN	   353

/* Text fields are padded with spaces. */
static void put_text(char *field, size_t size, const char *text)
{
	size_t len = strlen(text);

	memset(field, ' ', size);
	memcpy(field, text, len < size ? len : size);
}

static void put_capacity(const struct fth_nvme_ctrl *ctrl, uint8_t field[16])
{
	uint64_t bytes = ctrl->blocks << ctrl->lba_shift;

	memcpy(field, &bytes, sizeof(bytes));
}

static void put_subsystem_name(const struct fth_nvme_ctrl *ctrl, char *field, size_t size)
{
	size_t at = (size_t)snprintf(field, size, "nqn.2014-08.org.nvmexpress:uuid:");

	for (unsigned i = 0; i < sizeof(ctrl->uuid); i++)
		at += (size_t)snprintf(field + at, size - at, "%s%02x",
				       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
				       ctrl->uuid[i]);
}

static void describe_controller(const struct fth_nvme_ctrl *ctrl, struct fth_nvme_id_ctrl *id)
{
	memcpy(id->sn, ctrl->serial, sizeof(id->sn));
	put_text(id->mn, sizeof(id->mn), "Fathom software NVMe controller");
	put_text(id->fr, sizeof(id->fr), "1.0");
	id->mdts = (uint8_t)ctrl->mdts;
	id->ver = FTH_NVME_VERSION_1_4;
	id->cntrltype = FTH_NVME_CNTRLTYPE_IO;
	id->acl = CTRL_ABORT_MAX - 1;
	id->aerl = CTRL_AER_MAX - 1;
	id->frmw = 1u << 1 | 1u; /* one slot, read only */
	id->lpa = FTH_NVME_LPA_EXTENDED;
	id->elpe = CTRL_ERROR_LOG - 1;
	id->wctemp = WARNING_KELVIN;
	id->cctemp = CRITICAL_KELVIN;
	put_capacity(ctrl, id->tnvmcap);
	id->sqes = ENTRY_SIZES(6);
	id->cqes = ENTRY_SIZES(4);
	id->nn = ONLY_NSID;
	id->oncs = FTH_NVME_ONCS_COMPARE | FTH_NVME_ONCS_DSM | FTH_NVME_ONCS_WRITE_ZEROES |
		   FTH_NVME_ONCS_SELECT;
	id->vwc = FTH_NVME_VWC_PRESENT | FTH_NVME_VWC_FLUSH_ALL;
	id->awun = ATOMIC_BLOCKS;
	id->awupf = ATOMIC_BLOCKS;
	put_subsystem_name(ctrl, id->subnqn, sizeof(id->subnqn));
}

static void describe_namespace(const struct fth_nvme_ctrl *ctrl, struct fth_nvme_id_ns *id)
{
	id->nsze = ctrl->blocks;
	id->ncap = ctrl->blocks;
	id->nuse = ctrl->blocks;
	id->lbaf[0].data_shift = (uint8_t)ctrl->lba_shift;
	put_capacity(ctrl, id->nvmcap);
}

static void list_ids(const struct fth_nvme_ctrl *ctrl, uint8_t *page)
{
	struct fth_nvme_id_descriptor head = {.type = FTH_NVME_ID_UUID,
					      .length = sizeof(ctrl->uuid)};

	memcpy(page, &head, sizeof(head));
	memcpy(page + sizeof(head), ctrl->uuid, sizeof(ctrl->uuid));
}

union page {
	struct fth_nvme_id_ctrl controller;
	struct fth_nvme_id_ns namespace;
	uint32_t nsids[FTH_NVME_IDENTIFY_SIZE / 4];
	uint8_t bytes[FTH_NVME_IDENTIFY_SIZE];
};

static uint16_t fill(const struct fth_nvme_ctrl *ctrl, const struct fth_nvme_sqe *sqe,
		     union page *page)
{
	switch (sqe->cdw10 & 0xff) {
	case FTH_NVME_CNS_CONTROLLER:
		describe_controller(ctrl, &page->controller);
		return FTH_NVME_SUCCESS;
	case FTH_NVME_CNS_NAMESPACE:
		if (sqe->nsid != ONLY_NSID)
			return FTH_NVME_INVALID_NAMESPACE;
		describe_namespace(ctrl, &page->namespace);
		return FTH_NVME_SUCCESS;
	case FTH_NVME_CNS_ACTIVE_NAMESPACES: /* those above the given one */
		if (sqe->nsid >= FTH_NVME_NSID_ALL - 1)
			return FTH_NVME_INVALID_NAMESPACE;
		page->nsids[0] = sqe->nsid < ONLY_NSID ? ONLY_NSID : 0;
		return FTH_NVME_SUCCESS;
	case FTH_NVME_CNS_NAMESPACE_IDS:
		if (sqe->nsid != ONLY_NSID)
			return FTH_NVME_INVALID_NAMESPACE;
		list_ids(ctrl, page->bytes);
		return FTH_NVME_SUCCESS;
	default:
		return FTH_NVME_INVALID_FIELD;
	}
}

uint16_t fth_ctrl_identify(struct fth_nvme_ctrl *ctrl, const struct fth_nvme_sqe *sqe)
{
	union page page;
	uint16_t status;

	memset(&page, 0, sizeof(page));
	status = fill(ctrl, sqe, &page);
	if (status)
		return status;
	return fth_ctrl_prp_to_host(ctrl, sqe, &page, sizeof(page), sizeof(page));
}
