/* SPDX-License-Identifier: BSD-2-Clause */
/* What a controller is, for programs. */
#include "json.h"
#include "nvme_stat.h"
#include "u128.h"

#include <string.h>

#define FORMAT_MAX 16

static void field(struct fth_json *j, const char *key, const char *from, size_t size)
{
	char text[257];

	fth_json_string(j, key, nvme_info_field(text, from, size));
}

static void controller(struct fth_json *j, const struct nvme_info *info)
{
	const struct fth_nvme_id_ctrl *ctrl = &info->ctrl;
	char digits[FTH_U128_MAX];
	uint64_t words[2];

	memcpy(words, ctrl->tnvmcap, sizeof(words));
	fth_json_object(j, "controller");
	field(j, "model", ctrl->mn, sizeof(ctrl->mn));
	field(j, "serial", ctrl->sn, sizeof(ctrl->sn));
	field(j, "firmware", ctrl->fr, sizeof(ctrl->fr));
	field(j, "subnqn", ctrl->subnqn, sizeof(ctrl->subnqn));
	fth_json_u64(j, "vendor", ctrl->vid);
	fth_json_u64(j, "id", ctrl->cntlid);
	fth_json_u64(j, "version", ctrl->ver);
	fth_json_digits(j, "capacity", fth_u128_text(digits, words));
	fth_json_u64(j, "namespaces_max", ctrl->nn);
	fth_json_u64(j, "transfer_max", nvme_info_transfer(info));
	fth_json_bool(j, "volatile_write_cache", ctrl->vwc & FTH_NVME_VWC_PRESENT);
	fth_json_bool(j, "write_zeroes", ctrl->oncs & FTH_NVME_ONCS_WRITE_ZEROES);
	fth_json_bool(j, "deallocate", ctrl->oncs & FTH_NVME_ONCS_DSM);
	fth_json_bool(j, "compare", ctrl->oncs & FTH_NVME_ONCS_COMPARE);
	fth_json_u64(j, "warning_kelvin", ctrl->wctemp);
	fth_json_u64(j, "critical_kelvin", ctrl->cctemp);
	fth_json_end(j);
}

static void namespace_(struct fth_json *j, const struct nvme_info *info)
{
	const struct fth_nvme_id_ns *ns = &info->ns;

	if (!info->nsid) {
		fth_json_string(j, "namespace", NULL);
		return;
	}
	fth_json_object(j, "namespace");
	fth_json_u64(j, "id", info->nsid);
	fth_json_u64(j, "blocks", ns->nsze);
	fth_json_u64(j, "capacity", ns->ncap);
	fth_json_u64(j, "used", ns->nuse);
	fth_json_u64(j, "format", ns->flbas & 0xfu);
	fth_json_array(j, "formats");
	for (unsigned i = 0; i < FORMAT_MAX; i++) {
		if (!nvme_info_block(ns, i))
			continue;
		fth_json_object(j, NULL);
		fth_json_u64(j, "number", i);
		fth_json_u64(j, "block", nvme_info_block(ns, i));
		fth_json_u64(j, "metadata", ns->lbaf[i].metadata);
		fth_json_end(j);
	}
	fth_json_end(j);
	fth_json_end(j);
}

static void queues(struct fth_json *j, const struct nvme_info *info)
{
	fth_json_object(j, "queues");
	fth_json_u64(j, "pairs", info->driver->queues);
	fth_json_u64(j, "commands_each", info->driver->ids);
	fth_json_u64(j, "entries_max", fth_nvme_cap_mqes(info->cap) + 1);
	fth_json_u64(j, "doorbell_stride", fth_nvme_cap_stride(info->cap));
	fth_json_u64(j, "ready_timeout_ms", fth_nvme_cap_timeout(info->cap) * 500);
	fth_json_end(j);
}

static void memory_buffer(struct fth_json *j, const struct nvme_info *info)
{
	uint64_t size = nvme_info_cmb_size(info);

	fth_json_object(j, "cmb");
	fth_json_bool(j, "present", size || info->cap & FTH_NVME_CAP_CMBS);
	fth_json_u64(j, "size", size); /* 0 until it is enabled, too */
	fth_json_u64(j, "offset", nvme_info_cmb_offset(info));
	fth_json_u64(j, "bar", info->cmbloc & FTH_NVME_CMBLOC_BIR_MASK);
	fth_json_bool(j, "submission_queues", info->cmbsz & FTH_NVME_CMBSZ_SQS);
	fth_json_bool(j, "completion_queues", info->cmbsz & FTH_NVME_CMBSZ_CQS);
	fth_json_bool(j, "lists", info->cmbsz & FTH_NVME_CMBSZ_LISTS);
	fth_json_bool(j, "read_data", info->cmbsz & FTH_NVME_CMBSZ_RDS);
	fth_json_bool(j, "write_data", info->cmbsz & FTH_NVME_CMBSZ_WDS);
	fth_json_end(j);
}

static void persistent_memory(struct fth_json *j, const struct nvme_info *info)
{
	fth_json_object(j, "pmr");
	fth_json_bool(j, "present", info->cap & FTH_NVME_CAP_PMRS);
	fth_json_u64(j, "bar",
		     info->pmrcap >> FTH_NVME_PMRCAP_BIR_SHIFT & FTH_NVME_PMRCAP_BIR_MASK);
	fth_json_bool(j, "enabled", info->pmrctl & FTH_NVME_PMRCTL_EN);
	fth_json_string(j, "health", nvme_info_pmr_health(info));
	fth_json_bool(j, "barrier_read", info->pmrcap & FTH_NVME_PMRCAP_WBM_READ);
	fth_json_bool(j, "barrier_status", info->pmrcap & FTH_NVME_PMRCAP_WBM_STATUS);
	fth_json_u64(j, "write_buffer", fth_nvme_pmr_bytes(info->pmrebs));
	fth_json_u64(j, "write_bytes_per_second", fth_nvme_pmr_bytes(info->pmrswtp));
	fth_json_end(j);
}

void nvme_info_print_json(const struct nvme_info *info)
{
	struct fth_json j;

	fth_json_begin(&j, stdout);
	fth_json_string(&j, "device", info->name);
	controller(&j, info);
	namespace_(&j, info);
	if (info->driver) {
		queues(&j, info);
		memory_buffer(&j, info);
		persistent_memory(&j, info);
	}
	fth_json_finish(&j);
}
