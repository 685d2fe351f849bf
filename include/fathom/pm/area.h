/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Areas: the logs, checkpoints and transaction areas in persistent memory, found by a scan of all
 * offsets that are multiples of 4096 bytes. For tools.
 */
#ifndef FATHOM_PM_AREA_H
#define FATHOM_PM_AREA_H

#include <stdint.h>

#include "fathom/base/decls.h"
#include "fathom/pm.h"

FTH_BEGIN_DECLS

enum fth_pm_area_kind {
	FTH_PM_AREA_HCL,	/* fathom/pm/log.h */
	FTH_PM_AREA_CONV,	/* the same */
	FTH_PM_AREA_CHECKPOINT, /* fathom/pm/checkpoint.h */
	FTH_PM_AREA_TX,		/* fathom/pm/tx.h */
	FTH_PM_AREA_WAL,	/* fathom/pm/wal.h */
	FTH_PM_AREA_KINDS
};

struct fth_pm_area {
	enum fth_pm_area_kind kind;
	uint64_t offset; /* from fth_pm_base() */
	uint64_t bytes;	 /* 0 if it is damaged */
	uint64_t
		parts; /* of a log (1 of a wal), groups of checkpoints, undo logs of transactions */
	uint64_t items;	  /* entries of a log, groups that were saved, open transactions */
	int damage;	  /* 0, or -EBADMSG */
	const char *text; /* of the damage; valid during the call */
};

/*
 * Find the areas and verify them: headers, entries of logs, data of checkpoints. Changes nothing.
 * Areas at other offsets than multiples of 4096 are not found. Calls `found` for each area; a
 * result other than 0 ends the search. Returns 0, the result of `found`, or -ENOMEM.
 */
int fth_pm_areas(struct fth_pm *pm, int (*found)(const struct fth_pm_area *area, void *user),
		 void *user);

/* "hcl log", "log", "checkpoints", "transactions", "wal"; "unknown" for other values. */
const char *fth_pm_area_kind_name(enum fth_pm_area_kind kind);

FTH_END_DECLS
#endif
