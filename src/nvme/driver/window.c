/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The byte-addressable window, the host's side: finds and enables it by registers, maps its BAR,
 * copies by accesses that device memory allows (mmio.h), and makes stores durable.
 *
 * Invariants
 * 1. A bit of nvme->windows is set while the window of that kind is open: one owner, since
 *    enabling and disabling is for all.
 * 2. The PMR is enabled, and PMRSTS was seen ready, while its window is open, unless the
 *    function was reset behind our back: then PMRSTS says so and persist fails.
 */
#include "nvme/window.h"

#include "driver_internal.h"
#include "dev/mmio.h"

#include "fathom/base/error.h"
#include "fathom/dev/delay.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define POLL_SLEEP_NS  100000
#define TIMEOUT_MIN_NS 500000000ull
#define MINUTE_NS      60000000000ull

struct fth_nvme_window {
	struct fth_nvme *nvme;
	struct fth_nvme_window_info info;
	const struct fth_dev_window_model *model;
	uint64_t timeout_ns; /* of enabling and disabling */
};

/* ---- registers ---- */

static uint32_t read32(const struct fth_nvme_window *window, uint32_t offset)
{
	struct fth_nvme_transport *transport = window->nvme->transport;

	return transport->ops->read32(transport, offset);
}

static void write32(const struct fth_nvme_window *window, uint32_t offset, uint32_t value)
{
	struct fth_nvme_transport *transport = window->nvme->transport;

	transport->ops->write32(transport, offset, value);
}

/* ---- CMB ---- */

static uint32_t cmb_flags(uint32_t cmbsz)
{
	return (cmbsz & FTH_NVME_CMBSZ_SQS ? FTH_NVME_WINDOW_SQS : 0) |
	       (cmbsz & FTH_NVME_CMBSZ_CQS ? FTH_NVME_WINDOW_CQS : 0) |
	       (cmbsz & FTH_NVME_CMBSZ_LISTS ? FTH_NVME_WINDOW_LISTS : 0) |
	       (cmbsz & FTH_NVME_CMBSZ_RDS ? FTH_NVME_WINDOW_RDS : 0) |
	       (cmbsz & FTH_NVME_CMBSZ_WDS ? FTH_NVME_WINDOW_WDS : 0);
}

/*
 * CMBSZ shows itself once CMBMSC.CRE is set; before revision 1.4 there was no such register, and
 * CMBSZ is simply there. CMSE stays off: it is for commands that use the buffer.
 */
static int find_cmb(struct fth_nvme_window *window)
{
	struct fth_nvme_window_info *info = &window->info;
	uint32_t cmbsz, cmbloc, unit;

	if (window->nvme->cap & FTH_NVME_CAP_CMBS) {
		write32(window, FTH_NVME_REG_CMBMSC, FTH_NVME_CMBMSC_CRE);
		write32(window, FTH_NVME_REG_CMBMSC + 4, 0);
	}
	cmbsz = read32(window, FTH_NVME_REG_CMBSZ);
	cmbloc = read32(window, FTH_NVME_REG_CMBLOC);
	if (cmbsz == UINT32_MAX)
		return fth_fail(ENODEV,
				"the controller does not respond: it was removed or has failed");
	if (cmbsz >> FTH_NVME_CMBSZ_SZ_SHIFT == 0)
		return fth_fail(EOPNOTSUPP, "the drive has no controller memory buffer");
	unit = cmbsz >> FTH_NVME_CMBSZ_SZU_SHIFT & FTH_NVME_CMBSZ_SZU_MASK;
	if (unit > FTH_NVME_CMBSZ_SZU_MAX)
		return fth_fail(EIO, "CMBSZ %#x has an unknown size unit", cmbsz);
	info->bar = cmbloc & FTH_NVME_CMBLOC_BIR_MASK;
	info->bar_offset = (uint64_t)(cmbloc >> FTH_NVME_CMBLOC_OFST_SHIFT) << (12 + 4 * unit);
	info->size = (uint64_t)(cmbsz >> FTH_NVME_CMBSZ_SZ_SHIFT) << (12 + 4 * unit);
	info->flags = cmb_flags(cmbsz);
	return 0;
}

/* ---- PMR ---- */

static uint64_t pmr_timeout_ns(uint32_t pmrcap)
{
	uint64_t unit = pmrcap >> FTH_NVME_PMRCAP_PMRTU_SHIFT & FTH_NVME_PMRCAP_PMRTU_MASK
				? MINUTE_NS
				: TIMEOUT_MIN_NS;
	uint64_t count = pmrcap >> FTH_NVME_PMRCAP_PMRTO_SHIFT & FTH_NVME_PMRCAP_PMRTO_MASK;

	return count ? count * unit : TIMEOUT_MIN_NS;
}

static uint32_t pmr_flags(uint32_t pmrcap, uint32_t pmrebs)
{
	return FTH_NVME_WINDOW_PERSISTENT |
	       (pmrcap & FTH_NVME_PMRCAP_WBM_READ ? FTH_NVME_WINDOW_BARRIER_READ : 0) |
	       (pmrcap & FTH_NVME_PMRCAP_WBM_STATUS ? FTH_NVME_WINDOW_BARRIER_STATUS : 0) |
	       (pmrcap & FTH_NVME_PMRCAP_RDS ? FTH_NVME_WINDOW_RDS : 0) |
	       (pmrcap & FTH_NVME_PMRCAP_WDS ? FTH_NVME_WINDOW_WDS : 0) |
	       (pmrebs & FTH_NVME_PMREBS_RBB ? FTH_NVME_WINDOW_READ_BYPASS : 0);
}

static int find_pmr(struct fth_nvme_window *window)
{
	struct fth_nvme_window_info *info = &window->info;
	uint32_t pmrcap, pmrebs;

	if (!(window->nvme->cap & FTH_NVME_CAP_PMRS))
		return fth_fail(EOPNOTSUPP, "the drive has no persistent memory region");
	pmrcap = read32(window, FTH_NVME_REG_PMRCAP);
	pmrebs = read32(window, FTH_NVME_REG_PMREBS);
	if (pmrcap == UINT32_MAX)
		return fth_fail(ENODEV,
				"the controller does not respond: it was removed or has failed");
	window->timeout_ns = pmr_timeout_ns(pmrcap);
	info->bar = pmrcap >> FTH_NVME_PMRCAP_BIR_SHIFT & FTH_NVME_PMRCAP_BIR_MASK;
	info->size = UINT64_MAX; /* all of its BAR */
	info->elasticity = fth_nvme_pmr_bytes(pmrebs);
	info->sustained = fth_nvme_pmr_bytes(read32(window, FTH_NVME_REG_PMRSWTP));
	info->flags = pmr_flags(pmrcap, pmrebs);
	return 0;
}

/* Set PMRCTL.EN and wait until PMRSTS.NRDY follows. */
static int pmr_switch(struct fth_nvme_window *window, bool on)
{
	uint64_t deadline = fth_deadline_ns(window->timeout_ns);
	const struct timespec pause = {0, POLL_SLEEP_NS};

	write32(window, FTH_NVME_REG_PMRCTL, on ? FTH_NVME_PMRCTL_EN : 0);
	for (;;) {
		uint32_t status = read32(window, FTH_NVME_REG_PMRSTS);

		if (status == UINT32_MAX)
			return fth_fail(
				ENODEV,
				"the controller does not respond: it was removed or has failed");
		if (!(status & FTH_NVME_PMRSTS_NRDY) == on)
			return 0;
		if (fth_now_ns() >= deadline)
			return fth_fail(ETIMEDOUT,
					"the persistent memory region is not %s after %llu ms",
					on ? "ready" : "disabled",
					(unsigned long long)(window->timeout_ns / 1000000));
		nanosleep(&pause, NULL);
	}
}

static unsigned health_of(uint32_t status)
{
	return status >> FTH_NVME_PMRSTS_HSTS_SHIFT & FTH_NVME_PMRSTS_HSTS_MASK;
}

/* PMRSTS as an errno. */
static int judge(uint32_t status)
{
	if (status == UINT32_MAX)
		return fth_fail(ENODEV,
				"the controller does not respond: it was removed or has failed");
	if (status & FTH_NVME_PMRSTS_NRDY)
		return fth_fail(ENXIO, "the persistent memory region is no longer enabled");
	if (status & FTH_NVME_PMRSTS_ERR_MASK)
		return fth_fail(EIO, "the persistent memory region has lost writes (PMRSTS.ERR %u)",
				status & FTH_NVME_PMRSTS_ERR_MASK);
	switch (health_of(status)) {
	case FTH_NVME_PMR_NORMAL:
	case FTH_NVME_PMR_RESTORE_ERROR: /* about the past; what is stored now is kept */
		return 0;
	case FTH_NVME_PMR_READ_ONLY:
		return fth_fail(EROFS, "the persistent memory region has become read-only");
	default:
		return fth_fail(EIO, "the persistent memory region is unreliable (PMRSTS.HSTS %u)",
				health_of(status));
	}
}

static int enable_pmr(struct fth_nvme_window *window)
{
	uint32_t status;
	int rc = 0;

	if (read32(window, FTH_NVME_REG_PMRCTL) & FTH_NVME_PMRCTL_EN)
		rc = pmr_switch(window, false);
	if (rc == 0)
		rc = pmr_switch(window, true);
	if (rc < 0)
		return rc;
	status = read32(window, FTH_NVME_REG_PMRSTS);
	if (health_of(status) == FTH_NVME_PMR_RESTORE_ERROR)
		window->info.flags |= FTH_NVME_WINDOW_RESTORE_ERROR;
	rc = judge(status);
	if (rc == -EROFS) {
		window->info.flags |= FTH_NVME_WINDOW_READ_ONLY;
		rc = 0;
	}
	return rc;
}

/* ---- opening and closing ---- */

/* Cut the window to its BAR, as the specification allows it to be larger, and map it. */
static int map(struct fth_nvme_window *window)
{
	struct fth_nvme_transport *transport = window->nvme->transport;
	struct fth_nvme_window_info *info = &window->info;
	uint64_t size;
	int rc = transport->ops->bar_size(transport, info->bar, &size);

	if (rc < 0)
		return rc;
	if (info->bar_offset >= size)
		return fth_fail(EIO, "the window starts beyond the end of BAR %u", info->bar);
	if (info->size > size - info->bar_offset)
		info->size = size - info->bar_offset;
	return transport->ops->bar(transport, info->bar, info->bar_offset, info->size, &info->base);
}

static void unmap(struct fth_nvme_window *window)
{
	struct fth_nvme_transport *transport = window->nvme->transport;

	if (window->info.base)
		transport->ops->bar_unmap(transport, window->info.base, window->info.size);
}

static void turn_off(struct fth_nvme_window *window)
{
	/* A region that does not turn off has no use for us to insist. */
	if (window->info.kind == FTH_NVME_WINDOW_PMR)
		(void)pmr_switch(window, false);
	else if (window->nvme->cap & FTH_NVME_CAP_CMBS)
		write32(window, FTH_NVME_REG_CMBMSC, 0);
}

static int open_window(struct fth_nvme_window *window)
{
	bool pmr = window->info.kind == FTH_NVME_WINDOW_PMR;
	int rc = pmr ? find_pmr(window) : find_cmb(window);

	if (rc == 0)
		rc = map(window);
	if (rc == 0 && pmr)
		rc = enable_pmr(window);
	if (rc < 0) {
		if (!pmr || window->info.base)
			turn_off(window);
		unmap(window);
	}
	return rc;
}

int fth_nvme_window_open(struct fth_nvme *nvme, enum fth_nvme_window_kind kind,
			 struct fth_nvme_window **out)
{
	struct fth_nvme_window *window;
	int rc;

	*out = NULL;
	if (!nvme)
		return fth_fail(ENODEV, "not an NVMe device");
	if (!nvme->transport->ops->bar)
		return fth_fail(EOPNOTSUPP, "this transport cannot map BARs");
	window = calloc(1, sizeof(*window));
	if (!window)
		return -ENOMEM;
	/* acquire: what the last owner wrote to the registers is before what we write. */
	if (fth_or_acqrel_dev32(&nvme->windows, 1u << kind) & 1u << kind) {
		free(window);
		return fth_fail(EBUSY, "the window is already open");
	}
	window->nvme = nvme;
	window->info.kind = kind;
	window->model = nvme->transport->window_model;
	rc = open_window(window);
	if (rc < 0) {
		fth_and_acqrel_dev32(&nvme->windows, ~(1u << kind));
		free(window);
		return rc;
	}
	if (kind == FTH_NVME_WINDOW_PMR && nvme->transport->pmr_note)
		window->info.flags |= FTH_NVME_WINDOW_EMULATED;
	*out = window;
	return 0;
}

void fth_nvme_window_close(struct fth_nvme_window *window)
{
	if (!window)
		return;
	turn_off(window);
	unmap(window);
	/* release: the next owner sees the window off. */
	fth_and_acqrel_dev32(&window->nvme->windows, ~(1u << window->info.kind));
	free(window);
}

const struct fth_nvme_window_info *fth_nvme_window_info(const struct fth_nvme_window *window)
{
	return &window->info;
}

/* ---- use ---- */

static int check_range(const struct fth_nvme_window *window, uint64_t offset, uint64_t length)
{
	if (offset > window->info.size || length > window->info.size - offset)
		return fth_fail(ERANGE, "%llu bytes at %llu exceed the window of %llu bytes",
				(unsigned long long)length, (unsigned long long)offset,
				(unsigned long long)window->info.size);
	return 0;
}

/* When an access that begins now may end, by the model: so much for each line it touches. */
static uint64_t model_end(const struct fth_nvme_window *window, uint64_t offset, uint64_t length,
			  bool store)
{
	const struct fth_dev_window_model *model = window->model;
	uint64_t first = offset / model->line_bytes;
	uint64_t last = (offset + length - 1) / model->line_bytes;

	return fth_deadline_ns((last - first + 1) *
			       (store ? model->line_write_ns : model->line_read_ns));
}

static void spin_until(uint64_t end)
{
	while (fth_now_ns() < end)
		fth_cpu_relax();
}

int fth_nvme_window_load(const struct fth_nvme_window *window, uint64_t offset, void *to,
			 uint64_t length)
{
	int rc = check_range(window, offset, length);
	uint64_t end = 0;

	if (rc < 0 || length == 0)
		return rc;
	if (window->model)
		end = model_end(window, offset, length, false);
	mmio_copy_from(to, (const char *)window->info.base + offset, length);
	if (window->model)
		spin_until(end);
	return 0;
}

int fth_nvme_window_store(struct fth_nvme_window *window, uint64_t offset, const void *from,
			  uint64_t length)
{
	int rc = check_range(window, offset, length);
	uint64_t end = 0;

	if (rc < 0 || length == 0)
		return rc;
	if (window->info.flags & FTH_NVME_WINDOW_READ_ONLY)
		return fth_fail(EROFS, "the persistent memory region is read-only");
	if (window->model)
		end = model_end(window, offset, length, true);
	mmio_copy_to((char *)window->info.base + offset, from, length);
	if (window->model)
		spin_until(end);
	return 0;
}

/* Do the barrier and return what PMRSTS says after it. */
static uint32_t barrier(struct fth_nvme_window *window, uint64_t offset, uint64_t length,
			uint64_t deadline)
{
	struct fth_nvme_transport *transport = window->nvme->transport;

	/* Our stores have left the processor before the read that pushes them through the bus. */
	mmio_fence();
	if (transport->ops->pmr_barrier)
		return transport->ops->pmr_barrier(transport, offset, length, deadline);
	if (!(window->info.flags & FTH_NVME_WINDOW_BARRIER_STATUS)) {
		(void)mmio_load(window->info.base, 8);
		mmio_fence(); /* it has been answered before PMRSTS is asked */
	}
	return read32(window, FTH_NVME_REG_PMRSTS);
}

int fth_nvme_window_persist(struct fth_nvme_window *window, uint64_t offset, uint64_t length,
			    uint64_t deadline)
{
	const uint32_t barriers = FTH_NVME_WINDOW_BARRIER_READ | FTH_NVME_WINDOW_BARRIER_STATUS;
	int rc = check_range(window, offset, length);

	if (rc < 0)
		return rc;
	if (window->info.kind == FTH_NVME_WINDOW_CMB)
		return fth_fail(EOPNOTSUPP, "a controller memory buffer is volatile");
	if (!(window->info.flags & barriers))
		return fth_fail(
			EOPNOTSUPP,
			"the persistent memory region reports no write barrier (PMRCAP.PMRWBM)");
	rc = judge(barrier(window, offset, length, deadline));
	/* A keeper that ran out of time shows as writes that were lost, and so they may be. */
	if (rc == -EIO && fth_now_ns() >= deadline)
		rc = fth_fail(ETIMEDOUT, "the write barrier of the persistent memory region "
					 "timed out");
	return rc;
}

int fth_nvme_window_check(const struct fth_nvme_window *window)
{
	if (window->info.kind == FTH_NVME_WINDOW_PMR)
		return judge(read32(window, FTH_NVME_REG_PMRSTS));
	if (read32(window, FTH_NVME_REG_CSTS) == UINT32_MAX)
		return fth_fail(ENODEV,
				"the controller does not respond: it was removed or has failed");
	return 0;
}

/* ---- the report ---- */

static const char *barrier_text(uint32_t flags)
{
	if (flags & FTH_NVME_WINDOW_BARRIER_STATUS)
		return "what was persisted, by a read of PMRSTS, survives a power loss";
	if (flags & FTH_NVME_WINDOW_BARRIER_READ)
		return "what was persisted, by a read of the region, survives a power loss";
	return "it names no write barrier, so nothing can be made certain to survive";
}

int fth_nvme_window_report(const struct fth_nvme_window *window, char *text, size_t size)
{
	const char *note = window->nvme->transport->pmr_note;
	uint32_t flags = window->info.flags;

	if (window->info.kind == FTH_NVME_WINDOW_CMB)
		return snprintf(text, size,
				"Controller memory buffer: nothing survives a power loss, and a "
				"reset of the controller need not leave anything either.");
	return snprintf(
		text, size,
		"Persistent memory region: %s; a store that was not persisted may be lost, kept, "
		"or "
		"kept in part.%s%s%s%s",
		barrier_text(flags),
		flags & FTH_NVME_WINDOW_RESTORE_ERROR
			? " The drive says that it may not have restored what the region held."
			: "",
		flags & FTH_NVME_WINDOW_READ_ONLY ? " It is read-only now." : "", note ? " " : "",
		note ? note : " This is the drive's promise; nothing but a power loss tests it.");
}
