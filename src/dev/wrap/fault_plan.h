/* SPDX-License-Identifier: BSD-2-Clause */
/* Plans of the fault device: from a URI, and what they say about operation number i. */
#ifndef FTH_DEV_FAULT_PLAN_H
#define FTH_DEV_FAULT_PLAN_H

#include "fathom/base/uri.h"
#include "fathom/dev/fault.h"

/* *given says whether there was any option. Does not call fth_uri_finish(). */
int fth_fault_plan_parse(struct fth_uri *uri, struct fth_dev_fault_plan *plan, bool *given);
int fth_fault_plan_check(const struct fth_dev_fault_plan *plan);

bool fth_fault_plan_matches(const struct fth_dev_fault_plan *plan, const struct fth_dev_req *req);
/* Whether the number-th matching operation is hit; numbers start at 1. count is not looked at. */
bool fth_fault_plan_hits(const struct fth_dev_fault_plan *plan, uint64_t number);
/* How many bytes of a torn write are written: less than all, and possibly none. */
uint64_t fth_fault_plan_prefix(const struct fth_dev_fault_plan *plan, uint64_t number,
			       const struct fth_dev_req *req, uint32_t block);

#endif
