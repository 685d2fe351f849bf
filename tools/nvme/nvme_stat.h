/* SPDX-License-Identifier: BSD-2-Clause */
/* What `fathom nvme stat` has found out, and its two ways to print it. */
#ifndef FTH_TOOLS_NVME_INFO_H
#define FTH_TOOLS_NVME_INFO_H

#include "nvme/driver.h"

struct nvme_info {
	const char *name; /* the URI, or /dev/nvme0 */
	struct fth_nvme_id_ctrl ctrl;
	struct fth_nvme_id_ns ns;
	uint32_t nsid; /* of ns; 0: there is no namespace */

	/* Only if our driver has it; else NULL, and the registers are 0. */
	const struct fth_nvme_info *driver;
	uint64_t cap;
	uint32_t cmbloc, cmbsz;
	uint32_t pmrcap, pmrctl, pmrsts, pmrebs, pmrswtp;
};

/* A text field of identify data, without its padding and what can not be printed. */
const char *nvme_info_field(char *text, const char *field, size_t size);

/* Bytes per command at most; 0: no limit is told. */
uint64_t nvme_info_transfer(const struct nvme_info *info);

/* Bytes per block of format i, 0 if the drive does not have it. */
uint64_t nvme_info_block(const struct fth_nvme_id_ns *ns, unsigned i);

/* Bytes of the controller memory buffer, 0: none or not shown. */
uint64_t nvme_info_cmb_size(const struct nvme_info *info);
uint64_t nvme_info_cmb_offset(const struct nvme_info *info);

const char *nvme_info_pmr_health(const struct nvme_info *info);

void nvme_info_print(const struct nvme_info *info);
void nvme_info_print_json(const struct nvme_info *info);

#endif
