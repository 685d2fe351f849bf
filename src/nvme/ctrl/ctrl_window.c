/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The windows of the software controller: their registers, and the CMB, which is no more than
 * memory. The persistent memory region is in ctrl/pmr.c.
 */
#include "nvme/ctrl/ctrl_internal.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"
#include "fathom/base/rng.h"

#include <errno.h>
#include <sys/mman.h>

#define WINDOW_MIN   FTH_NVME_PAGE_SIZE
#define CMB_MAX	     (2ull << 30) /* CMBSZ.SZ in units of 4 KiB, and a power of two */
#define PMR_MAX	     (1ull << 40)
#define PMR_TIMEOUT  60u /* PMRCAP.PMRTO: 30 s, in units of 500 ms */
#define CMB_UNIT_LOG 12

/* ---- registers ---- */

bool fth_ctrl_window_has(uint32_t offset)
{
	return offset == FTH_NVME_REG_CMBLOC || offset == FTH_NVME_REG_CMBSZ ||
	       (offset >= FTH_NVME_REG_CMBMSC && offset <= FTH_NVME_REG_CMBSTS) ||
	       (offset >= FTH_NVME_REG_PMRCAP && offset <= FTH_NVME_REG_PMRMSC + 4);
}

static uint32_t read_cmb(struct ctrl_window *window, uint32_t offset)
{
	bool shown = fth_load_relaxed_dev32(&window->cmbmsc[0]) & FTH_NVME_CMBMSC_CRE;

	switch (offset) {
	case FTH_NVME_REG_CMBLOC:
		return shown ? FTH_NVME_CTRL_CMB_BAR : 0;
	case FTH_NVME_REG_CMBSZ:
		return shown ? (uint32_t)(window->cmb_size >> CMB_UNIT_LOG)
				       << FTH_NVME_CMBSZ_SZ_SHIFT
			     : 0;
	case FTH_NVME_REG_CMBMSC:
		return fth_load_relaxed_dev32(&window->cmbmsc[0]);
	case FTH_NVME_REG_CMBMSC + 4:
		return fth_load_relaxed_dev32(&window->cmbmsc[1]);
	default:
		return 0; /* CMBSTS: there is no address that the controller refuses */
	}
}

static uint32_t read_pmr(struct ctrl_pmr *pmr, uint32_t offset)
{
	switch (offset) {
	case FTH_NVME_REG_PMRCAP:
		return FTH_NVME_CTRL_PMR_BAR << FTH_NVME_PMRCAP_BIR_SHIFT |
		       FTH_NVME_PMRCAP_WBM_STATUS | PMR_TIMEOUT << FTH_NVME_PMRCAP_PMRTO_SHIFT;
	case FTH_NVME_REG_PMRCTL:
		return fth_ctrl_pmr_enabled(pmr) ? FTH_NVME_PMRCTL_EN : 0;
	case FTH_NVME_REG_PMRSTS:
		return fth_ctrl_pmr_barrier(pmr, 0, pmr->size, fth_deadline_ns(FTH_DEV_TIMEOUT_NS));
	default:
		return 0; /* no elasticity buffer and no throughput are told; no PMRMSC */
	}
}

uint32_t fth_ctrl_window_read(struct ctrl_window *window, uint32_t offset)
{
	if (offset >= FTH_NVME_REG_PMRCAP)
		return window->pmr.size ? read_pmr(&window->pmr, offset) : 0;
	return window->cmb_size ? read_cmb(window, offset) : 0;
}

void fth_ctrl_window_write(struct ctrl_window *window, uint32_t offset, uint32_t value)
{
	if (offset == FTH_NVME_REG_PMRCTL)
		fth_ctrl_pmr_enable(&window->pmr, value & FTH_NVME_PMRCTL_EN);
	if (!window->cmb_size)
		return;
	if (offset == FTH_NVME_REG_CMBMSC)
		fth_store_relaxed_dev32(&window->cmbmsc[0],
					value & ~(FTH_NVME_PAGE_SIZE - 1 - FTH_NVME_CMBMSC_CRE -
						  FTH_NVME_CMBMSC_CMSE));
	if (offset == FTH_NVME_REG_CMBMSC + 4)
		fth_store_relaxed_dev32(&window->cmbmsc[1], value);
}

uint64_t fth_ctrl_window_cap(const struct ctrl_window *window)
{
	return (window->pmr.size ? FTH_NVME_CAP_PMRS : 0) |
	       (window->cmb_size ? FTH_NVME_CAP_CMBS : 0);
}

void fth_ctrl_window_reset(struct ctrl_window *window)
{
	struct fth_rng rng = {window->cmb_garbage};
	uint64_t *words = (uint64_t *)(void *)window->cmb;

	if (!window->cmb_garbage)
		return;
	for (uint64_t i = 0; i < window->cmb_size / sizeof(*words); i++)
		fth_store_relaxed_sys64(&words[i], fth_rng_next(&rng));
	window->cmb_garbage = rng.state | 1; /* other garbage next time */
}

/* ---- memory ---- */

void *fth_nvme_ctrl_bar(struct fth_nvme_ctrl *ctrl, unsigned bar, uint64_t *size)
{
	struct ctrl_window *window = &ctrl->window;

	*size = 0;
	if (bar == FTH_NVME_CTRL_CMB_BAR) {
		*size = window->cmb_size;
		return window->cmb;
	}
	if (bar == FTH_NVME_CTRL_PMR_BAR) {
		*size = window->pmr.size;
		return window->pmr.memory;
	}
	return NULL;
}

void *fth_ctrl_window_memory(uint64_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static int check_size(const char *name, uint64_t size, uint64_t max)
{
	if (size && (size < WINDOW_MIN || size > max || size & (size - 1)))
		return fth_fail(EINVAL, "%s size %llu is not a power of two from %u to %llu", name,
				(unsigned long long)size, WINDOW_MIN, (unsigned long long)max);
	return 0;
}

int fth_ctrl_window_open(struct ctrl_window *window, const struct fth_nvme_ctrl_options *opts)
{
	int rc = check_size("pmr_size", opts->pmr_size, PMR_MAX);

	if (rc == 0)
		rc = check_size("cmb_size", opts->cmb_size, CMB_MAX);
	if (rc == 0)
		rc = fth_ctrl_pmr_open(&window->pmr, opts);
	if (rc < 0 || !opts->cmb_size)
		return rc;
	window->cmb = fth_ctrl_window_memory(opts->cmb_size);
	if (!window->cmb)
		return -ENOMEM;
	window->cmb_size = opts->cmb_size;
	window->cmb_garbage = opts->cmb_garbage;
	return 0;
}

void fth_ctrl_window_close(struct ctrl_window *window)
{
	if (window->cmb)
		munmap(window->cmb, window->cmb_size);
	fth_ctrl_pmr_close(&window->pmr);
}
