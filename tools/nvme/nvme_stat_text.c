/* SPDX-License-Identifier: BSD-2-Clause */
/* What a controller is, for people. */
#include "cli.h"
#include "nvme_stat.h"
#include "u128.h"

#include <stdio.h>
#include <string.h>

#define KELVIN	   273
#define FORMAT_MAX 16

static const char *yes(bool is)
{
	return is ? "yes" : "no";
}

static void print_version(uint32_t version)
{
	printf("specification    NVMe %u.%u", version >> 16, version >> 8 & 0xff);
	if (version & 0xff)
		printf(".%u", version & 0xff);
	putchar('\n');
}

static void print_capacity(const uint8_t bytes[16])
{
	char text[FTH_CLI_BYTES_MAX], digits[FTH_U128_MAX];
	uint64_t words[2];

	memcpy(words, bytes, sizeof(words));
	if (!words[0] && !words[1])
		return; /* the controller does not say */
	printf("capacity         %s bytes", fth_u128_text(digits, words));
	if (!words[1])
		printf(" (%s)", fth_cli_bytes(text, words[0]));
	putchar('\n');
}

static void print_controller(const struct nvme_info *info)
{
	const struct fth_nvme_id_ctrl *ctrl = &info->ctrl;
	char text[sizeof(ctrl->subnqn) + 1], bytes[FTH_CLI_BYTES_MAX];
	uint64_t most = nvme_info_transfer(info);

	printf("device           %s\n", info->name);
	printf("model            %s\n", nvme_info_field(text, ctrl->mn, sizeof(ctrl->mn)));
	printf("serial           %s\n", nvme_info_field(text, ctrl->sn, sizeof(ctrl->sn)));
	printf("firmware         %s\n", nvme_info_field(text, ctrl->fr, sizeof(ctrl->fr)));
	printf("vendor           %04x, controller %u\n", ctrl->vid, ctrl->cntlid);
	print_version(ctrl->ver);
	printf("name             %s\n", nvme_info_field(text, ctrl->subnqn, sizeof(ctrl->subnqn)));
	print_capacity(ctrl->tnvmcap);
	printf("namespaces       up to %u\n", ctrl->nn);
	printf("per command      %s\n", most ? fth_cli_bytes(bytes, most) : "no limit");
	printf("write cache      %s\n",
	       ctrl->vwc & FTH_NVME_VWC_PRESENT
		       ? "volatile: what was not flushed is lost with power"
		       : "none: what was written is durable");
	printf("write zeroes     %s\n", yes(ctrl->oncs & FTH_NVME_ONCS_WRITE_ZEROES));
	printf("deallocate       %s\n", yes(ctrl->oncs & FTH_NVME_ONCS_DSM));
	printf("compare          %s\n", yes(ctrl->oncs & FTH_NVME_ONCS_COMPARE));
	if (ctrl->wctemp)
		printf("warning at       %d C (critical: %d C)\n", ctrl->wctemp - KELVIN,
		       ctrl->cctemp - KELVIN);
}

static void print_formats(const struct fth_nvme_id_ns *ns)
{
	for (unsigned i = 0; i < FORMAT_MAX; i++) {
		if (!nvme_info_block(ns, i))
			continue;
		printf("  format %-2u      %llu bytes", i,
		       (unsigned long long)nvme_info_block(ns, i));
		if (ns->lbaf[i].metadata)
			printf(" and %u of metadata", ns->lbaf[i].metadata);
		printf("%s\n", i == (ns->flbas & 0xfu) ? ", in use" : "");
	}
}

static void print_id(const char *label, const uint8_t *id, unsigned size)
{
	bool any = false;

	for (unsigned i = 0; i < size; i++)
		any = any || id[i];
	if (!any)
		return;
	printf("  %-14s ", label);
	for (unsigned i = 0; i < size; i++)
		printf("%02x", id[i]);
	putchar('\n');
}

static void print_namespace(const struct nvme_info *info)
{
	const struct fth_nvme_id_ns *ns = &info->ns;
	uint64_t block = nvme_info_block(ns, ns->flbas & 0xfu);
	char bytes[FTH_CLI_BYTES_MAX];

	if (!info->nsid) {
		printf("\nno namespace\n");
		return;
	}
	printf("\nnamespace        %u\n", info->nsid);
	printf("  size           %llu blocks", (unsigned long long)ns->nsze);
	if (block && ns->nsze <= UINT64_MAX / block)
		printf(" (%s)", fth_cli_bytes(bytes, ns->nsze * block));
	printf("\n  capacity       %llu blocks, %llu in use\n", (unsigned long long)ns->ncap,
	       (unsigned long long)ns->nuse);
	print_formats(ns);
	print_id("EUI64", ns->eui64, sizeof(ns->eui64));
	print_id("NGUID", ns->nguid, sizeof(ns->nguid));
}

static void print_queues(const struct nvme_info *info)
{
	printf("\nqueues           %u pairs created, each for %u commands in flight\n",
	       info->driver->queues, info->driver->ids);
	printf("  longest        %u entries\n", fth_nvme_cap_mqes(info->cap) + 1);
	printf("  doorbells      %u bytes apart\n", fth_nvme_cap_stride(info->cap));
	printf("  ready within   %u ms\n", fth_nvme_cap_timeout(info->cap) * 500);
}

static void print_cmb(const struct nvme_info *info)
{
	static const struct {
		uint32_t bit;
		const char *what;
	} uses[] = {
		{FTH_NVME_CMBSZ_SQS, "submission queues"},
		{FTH_NVME_CMBSZ_CQS, "completion queues"},
		{FTH_NVME_CMBSZ_LISTS, "PRP lists"},
		{FTH_NVME_CMBSZ_RDS, "data read"},
		{FTH_NVME_CMBSZ_WDS, "data written"},
	};
	uint64_t size = nvme_info_cmb_size(info);
	char bytes[FTH_CLI_BYTES_MAX], offset[FTH_CLI_BYTES_MAX];

	printf("\nmemory buffer    ");
	if (!size) {
		printf("%s\n", info->cap & FTH_NVME_CAP_CMBS
				       ? "there; its size shows once it is enabled"
				       : "none");
		return;
	}
	printf("%s at %s of BAR %u; does not survive power loss\n", fth_cli_bytes(bytes, size),
	       fth_cli_bytes(offset, nvme_info_cmb_offset(info)),
	       info->cmbloc & FTH_NVME_CMBLOC_BIR_MASK);
	for (unsigned i = 0; i < sizeof(uses) / sizeof(uses[0]); i++)
		printf("  %-22s %s\n", uses[i].what, yes(info->cmbsz & uses[i].bit));
}

static void print_pmr(const struct nvme_info *info)
{
	uint64_t buffer = fth_nvme_pmr_bytes(info->pmrebs),
		 rate = fth_nvme_pmr_bytes(info->pmrswtp);
	char bytes[FTH_CLI_BYTES_MAX];

	if (!(info->cap & FTH_NVME_CAP_PMRS)) {
		printf("persistent mem.  none\n");
		return;
	}
	printf("persistent mem.  BAR %u, %s; health: %s\n",
	       info->pmrcap >> FTH_NVME_PMRCAP_BIR_SHIFT & FTH_NVME_PMRCAP_BIR_MASK,
	       info->pmrctl & FTH_NVME_PMRCTL_EN ? "enabled" : "not enabled",
	       nvme_info_pmr_health(info));
	printf("  persist by     %s%s%s\n",
	       info->pmrcap & FTH_NVME_PMRCAP_WBM_READ ? "reading it" : "",
	       (info->pmrcap & FTH_NVME_PMRCAP_WBM_READ) &&
			       (info->pmrcap & FTH_NVME_PMRCAP_WBM_STATUS)
		       ? " or "
		       : "",
	       info->pmrcap & FTH_NVME_PMRCAP_WBM_STATUS ? "reading its status" : "");
	if (buffer)
		printf("  write buffer   %s\n", fth_cli_bytes(bytes, buffer));
	if (rate)
		printf("  write rate     %s/s\n", fth_cli_bytes(bytes, rate));
}

void nvme_info_print(const struct nvme_info *info)
{
	print_controller(info);
	print_namespace(info);
	if (!info->driver)
		return;
	print_queues(info);
	print_cmb(info);
	print_pmr(info);
}
