/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom nvme stat: what a controller says of itself. nvme_info_*.c print it. */
#include "commands.h"
#include "nvme_stat.h"
#include "nvme_source.h"

#include "fathom/base/error.h"

#include <stdio.h>
#include <string.h>

const char *nvme_info_field(char *text, const char *field, size_t size)
{
	size_t n = strnlen(field, size);

	while (n > 0 && field[n - 1] == ' ')
		n--;
	for (size_t i = 0; i < n; i++)
		text[i] = field[i] >= ' ' && field[i] <= '~' ? field[i] : '?';
	text[n] = '\0';
	return text;
}

uint64_t nvme_info_transfer(const struct nvme_info *info)
{
	unsigned shift = info->ctrl.mdts + 12 + fth_nvme_cap_page_min(info->cap);

	return info->ctrl.mdts && shift < 64 ? (uint64_t)1 << shift : 0;
}

uint64_t nvme_info_block(const struct fth_nvme_id_ns *ns, unsigned i)
{
	unsigned shift = ns->lbaf[i & 0xf].data_shift;

	return i <= ns->nlbaf && shift >= 9 && shift < 32 ? (uint64_t)1 << shift : 0;
}

/* 0 where the register is 0 or its unit makes no sense. */
static uint64_t cmb_unit(const struct nvme_info *info)
{
	uint32_t unit = info->cmbsz >> FTH_NVME_CMBSZ_SZU_SHIFT & FTH_NVME_CMBSZ_SZU_MASK;

	return unit > FTH_NVME_CMBSZ_SZU_MAX ? 0 : (uint64_t)4096 << (4 * unit);
}

uint64_t nvme_info_cmb_size(const struct nvme_info *info)
{
	return (info->cmbsz >> FTH_NVME_CMBSZ_SZ_SHIFT) * cmb_unit(info);
}

uint64_t nvme_info_cmb_offset(const struct nvme_info *info)
{
	return (info->cmbloc >> FTH_NVME_CMBLOC_OFST_SHIFT) * cmb_unit(info);
}

const char *nvme_info_pmr_health(const struct nvme_info *info)
{
	switch (info->pmrsts >> FTH_NVME_PMRSTS_HSTS_SHIFT & FTH_NVME_PMRSTS_HSTS_MASK) {
	case FTH_NVME_PMR_NORMAL:
		return "normal";
	case FTH_NVME_PMR_RESTORE_ERROR:
		return "restore error";
	case FTH_NVME_PMR_READ_ONLY:
		return "read only";
	case FTH_NVME_PMR_UNRELIABLE:
		return "unreliable";
	default:
		return "unknown";
	}
}

static void read_registers(struct fth_nvme *nvme, struct nvme_info *info)
{
	info->driver = fth_nvme_info(nvme);
	info->cap = fth_nvme_register64(nvme, FTH_NVME_REG_CAP);
	info->cmbloc = fth_nvme_register32(nvme, FTH_NVME_REG_CMBLOC);
	info->cmbsz = fth_nvme_register32(nvme, FTH_NVME_REG_CMBSZ);
	if (!(info->cap & FTH_NVME_CAP_PMRS))
		return;
	info->pmrcap = fth_nvme_register32(nvme, FTH_NVME_REG_PMRCAP);
	info->pmrctl = fth_nvme_register32(nvme, FTH_NVME_REG_PMRCTL);
	info->pmrsts = fth_nvme_register32(nvme, FTH_NVME_REG_PMRSTS);
	info->pmrebs = fth_nvme_register32(nvme, FTH_NVME_REG_PMREBS);
	info->pmrswtp = fth_nvme_register32(nvme, FTH_NVME_REG_PMRSWTP);
}

/* The namespace that our driver has open, or the first there is. */
static int choose_namespace(struct nvme_source *source, struct nvme_info *info)
{
	uint32_t active[FTH_NVME_IDENTIFY_SIZE / 4];
	int rc;

	if (info->driver) {
		info->nsid = info->driver->nsid;
		return 0;
	}
	rc = nvme_source_identify(source, FTH_NVME_CNS_ACTIVE_NAMESPACES, 0, active);
	info->nsid = rc < 0 ? 0 : active[0];
	return rc;
}

static int ask(struct nvme_source *source, struct nvme_info *info)
{
	int rc;

	info->name = source->name;
	if (source->nvme)
		read_registers(source->nvme, info);
	rc = nvme_source_identify(source, FTH_NVME_CNS_CONTROLLER, 0, &info->ctrl);
	if (rc == 0)
		rc = choose_namespace(source, info);
	if (rc == 0 && info->nsid)
		rc = nvme_source_identify(source, FTH_NVME_CNS_NAMESPACE, info->nsid, &info->ns);
	return rc;
}

static int run(int argc, char **argv)
{
	static const struct fth_cli_usage usage = {
		.synopsis = "nvme stat URI|BDF",
		.text = "Print what a controller and its namespace say of themselves: by URI "
			"(nvme:BDF,\n"
			"softnvme(URI)), or by the PCI address of a drive. While the kernel's "
			"driver has it,\n"
			"registers, and with them queues and windows, are not shown.",
		.min_args = 1,
		.max_args = 1,
	};
	static struct nvme_info info;
	struct nvme_source source;
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	rc = nvme_source_open(&source, args[0]);
	if (rc == 0) {
		rc = ask(&source, &info);
		if (rc == 0 && fth_cli_json())
			nvme_info_print_json(&info);
		else if (rc == 0)
			nvme_info_print(&info);
		nvme_source_close(&source);
	}
	if (rc < 0) {
		fth_cli_error("%s: %s", args[0], fth_error_text(rc));
		return FTH_EXIT_FAILED;
	}
	return FTH_EXIT_OK;
}

const struct fth_command fth_cmd_nvme_stat = {
	.name = "stat",
	.summary = "print identity and limits of a controller and its namespace",
	.run = run,
};
