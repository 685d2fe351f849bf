/* SPDX-License-Identifier: BSD-2-Clause */
/* What vol_check.c and replica_sync.c share. */
#ifndef FTH_VOL_CHECK_H
#define FTH_VOL_CHECK_H

#include "vol/open_object.h"

struct vol_checker {
	struct fth_vol *vol; /* as far as it could be put together */
	unsigned flags;
	fth_vol_report report;
	fth_vol_progress progress;
	void *user;
	int findings; /* neither harmless nor repaired */
	bool cancelled;
	uint64_t done, total; /* bytes of objects */
};

/* Tell of a finding. */
void vol_find(struct vol_checker *c, enum fth_vol_finding_kind kind, bool harmless, bool repaired,
	      const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Look at the replicas of one object, and with FTH_VOL_REPAIR make them the same. */
int vol_check_replicas(struct vol_checker *c, const struct vol_entry *entry);

#endif
