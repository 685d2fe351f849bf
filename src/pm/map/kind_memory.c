/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of the process in the role of persistent memory, for the crash explorer and other tests.
 */
#include "pm/pm_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int memory_open(struct fth_pm *pm, const struct pm_request *request)
{
	(void)request;
	pm->guarantee = FTH_PM_VOLATILE;
	pm->view.mode = FTH_PM_MODE_FENCE;
	snprintf(pm->text, sizeof(pm->text), "Memory of the process: nothing survives.");
	return 0;
}

static int memory_close(struct fth_pm *pm)
{
	(void)pm;
	return 0;
}

static const struct pm_kind kind_memory = {
	.id = FTH_PM_KIND_SHM, .open = memory_open, .close = memory_close};

int pm_map_memory(void *memory, uint64_t length, const struct fth_pm_options *options,
		  struct fth_pm **out)
{
	return pm_map_kind(&kind_memory, memory, length, options, out);
}
