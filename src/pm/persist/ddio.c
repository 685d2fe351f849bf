/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Persist regions of devices. A device's stores into memory may end in the processor's last-level cache (Intel's Data Direct
 * I/O), and are not on a persistent memory module then; GPM (Pandey et al., ASPLOS 2022, section 3.1) switches that off
 * for the GPU's root port meanwhile. It matters for persistent memory modules alone: shared memory and drained memory
 * are DRAM, from which a drain reads through the caches, and with eADR the caches are durable.
 */
#include <errno.h>

#include "fathom/base/error.h"
#include "pm/pm_internal.h"

int fth_pm_begin(struct fth_pm *pm)
{
	if (pm->kind->id != FTH_PM_KIND_PMEM || pm->guarantee != FTH_PM_POWER || pm->auto_flush)
		return FTH_PM_DDIO_NOT_NEEDED;
	return fth_fail(ENOTSUP, "device writes may stay in the processor's caches (DDIO), and "
				 "this machine has no means to disable that; persist from the CPU");
}

int fth_pm_end(struct fth_pm *pm)
{
	(void)pm;
	return FTH_PM_DDIO_NOT_NEEDED;
}
