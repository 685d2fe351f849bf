/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of logs share: log.c is for users, log_create.c makes them, log_layout.c reads
 * headers.
 */
#ifndef FATHOM_SRC_PM_AREAS_LOG_INTERNAL_H
#define FATHOM_SRC_PM_AREAS_LOG_INTERNAL_H

#include "base/private.h"
#include "fathom/pm/log.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- log_layout.c ---- */

/*
 * Copy the header of the log at `offset`, and check it: magic, version, checksum, shape, size.
 * Reads bytes of the memory only. -EINVAL, -ERANGE, -ENOENT or -EBADMSG, with a text.
 */
FTH_PRIVATE int fth_pm_log_header_read(const struct fth_pm_view *pm, uint64_t offset,
				       struct fth_pm_log_header *header);
uint64_t pm_log_header_sum(const struct fth_pm_log_header *header);

/* The range must lie in the memory. */
int pm_log_range_check(const struct fth_pm_view *pm, uint64_t offset, uint64_t bytes);

/*
 * The view of a log with such a header, without volatile state. -EBADMSG if the epoch is damaged.
 */
FTH_PRIVATE int fth_pm_log_view_of(const struct fth_pm_view *pm, uint64_t offset,
				   const struct fth_pm_log_header *header,
				   struct fth_pm_log_view *view);

/* Begin the next epoch of an HCL log, persistently. The counts are the caller's business. */
FTH_PRIVATE int fth_pm_log_next_epoch(struct fth_pm_log_view *view);
int pm_log_set_epoch(struct fth_pm_log_view *view, uint32_t epoch);

/* Remove all entries of an HCL log, of whatever epoch. */
int pm_log_wipe_hcl(const struct fth_pm_log_view *view);

/* ---- log_create.c ---- */

/*
 * Make an empty log at `offset`, in place of what is there. The header has a valid shape and its
 * size; a salt, or 0 for a random one.
 */
int pm_log_make(const struct fth_pm_view *pm, uint64_t offset, struct fth_pm_log_header *header);

/* ---- log.c ---- */

/* Open the log at `offset` of memory that is not mapped by name, for tests. */
int pm_log_open_view(const struct fth_pm_view *pm, uint64_t offset, struct fth_pm_log **out);

/* Find all entries: fills the volatile state of the view. -EBADMSG with a text. */
int pm_log_scan(const struct fth_pm_log_view *view);

#ifdef __cplusplus
}
#endif
#endif
