/* SPDX-License-Identifier: BSD-2-Clause */
/* Persist on the CPU. */
#include <errno.h>
#include <inttypes.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "fathom/base/error.h"
#include "pm/pm_internal.h"

uint32_t pm_best_line(void)
{
#if defined(__x86_64__)
	unsigned a, b = 0, c, d;

	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
		b = 0;
	if (b & bit_CLWB)
		return FTH_PM_LINE_CLWB;
	return b & bit_CLFLUSHOPT ? FTH_PM_LINE_CLFLUSHOPT : FTH_PM_LINE_CLFLUSH;
#else
	return getauxval(AT_HWCAP) & HWCAP_DCPOP ? FTH_PM_LINE_CLWB : FTH_PM_LINE_CLFLUSH;
#endif
}

/* Elsewhere a persist concerns the processor alone, so children of fork() may. */
static bool uses_device(const struct fth_pm *pm)
{
	return pm->view.mode == FTH_PM_MODE_WRITE_BACK || pm->view.mode == FTH_PM_MODE_WINDOW;
}

static int check_range(const struct fth_pm *pm, const void *ptr, uint64_t length)
{
	uint64_t at = (uint64_t)((uintptr_t)ptr - (uintptr_t)pm->view.base);

	if (at > pm->view.size || length > pm->view.size - at)
		return fth_fail(ERANGE, "%" PRIu64 " bytes at %p are outside the mapped memory",
				length, ptr);
	if (pm->readonly)
		return fth_fail(EROFS, "mapped read-only");
	return uses_device(pm) ? pm_process_check(pm) : 0;
}

static int count_error(struct fth_pm *pm, int rc)
{
	if (rc < 0)
		fth_stats_add(pm->stats, FTH_PM_STAT_ERRORS, 1);
	return rc;
}

int fth_pm_flush(struct fth_pm *pm, const void *ptr, uint64_t length)
{
	int rc = check_range(pm, ptr, length);

	if (rc < 0)
		return count_error(pm, rc);
	fth_stats_add(pm->stats, FTH_PM_STAT_BYTES, length);
	fth_pm_flush_range(&pm->view, ptr, length);
	return 0;
}

int fth_pm_drain(struct fth_pm *pm)
{
	fth_stats_add(pm->stats, FTH_PM_STAT_PERSISTS, 1);
	return count_error(pm, pm->readonly ? fth_fail(EROFS, "mapped read-only")
					    : fth_pm_fence(&pm->view));
}

int fth_pm_persist(struct fth_pm *pm, const void *ptr, uint64_t length)
{
	int rc = fth_pm_flush(pm, ptr, length);

	return rc < 0 ? rc : fth_pm_drain(pm);
}

/* A window has no flush without a wait: it persists at once, and fences return the error. */
void fth_pm_flush_window(const struct fth_pm_view *view, const void *p, uint64_t length)
{
	struct fth_pm *pm = view->host;
	uint64_t none = 0;
	int rc;

	/* The control block is shared with the process that mapped the memory. */
	if (pm_process_is_other(pm) || fth_load_acquire_sys64(&view->control->error))
		return;
	rc = fth_dev_window_persist(pm->window, (uint64_t)((const uint8_t *)p - pm->memory), length,
				    fth_deadline_ns(view->timeout_ns));
	if (rc < 0)
		fth_cas_acqrel_sys64(&view->control->error, &none, (uint64_t)-rc);
}
