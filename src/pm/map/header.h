/* SPDX-License-Identifier: BSD-2-Clause */
/* The header on the medium: the first 4 KiB of persistent memory. */
#ifndef FATHOM_SRC_PM_MAP_HEADER_H
#define FATHOM_SRC_PM_MAP_HEADER_H

#include <stdbool.h>
#include <stdint.h>

#define PM_HEADER_MAGIC	   0x317264686d707466u /* "ftpmhdr1" */
#define PM_HEADER_CREATING 0x306b616d6d707466u /* "ftpmmak0" */
#define PM_HEADER_VERSION  1u
#define PM_HEADER_SEED	   0x706d2068656164u

struct pm_header {
	uint64_t magic;
	uint32_t version; /* the checksum covers all from here to itself */
	uint32_t kind;	  /* that created it: of enum fth_pm_kind */
	uint32_t header_bytes;
	uint32_t pad;
	uint64_t length; /* with the header */
	uint64_t tag;
	uint64_t created; /* seconds since 1970 */
	uint64_t reserved[9];
	uint64_t checksum;
};
_Static_assert(sizeof(struct pm_header) == 128, "two lines");

/* Whether it is a header: magic, version and checksum. */
bool pm_header_matches(const struct pm_header *header);

#endif
