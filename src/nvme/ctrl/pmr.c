/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The persistent memory region of the software controller. Two copies of it tell what survives:
 *
 *	memory	what the host sees. It stores there whenever it likes; nobody is told.
 *	durable	what a power loss leaves for certain
 *
 * A barrier compares the two and takes over what differs; a power loss decides, line by line, for
 * one or the other.
 *
 * Invariants
 * 1. durable changes only under the lock: at a barrier, when the region is enabled or disabled,
 *    at a shutdown and at a power loss.
 * 2. While the region is enabled and was enabled without error, a step in which memory and
 *    durable differ has been stored to since the last barrier over it.
 * 3. A barrier answers with ERR = 0 only if all that was taken over since the region was enabled
 *    is on dev and flushed. ERR stays until the region is disabled.
 * 4. Memory is read and written by words, relaxed: a host may be storing at the same time, and
 *    what it stores then is not covered by the barrier, whichever half of it is taken over.
 */
#include "nvme/ctrl/ctrl_internal.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define LINE	      FTH_NVME_CTRL_PMR_LINE
#define LOCK_SLEEP_NS 50000
#define ERROR_MEDIUM  1u /* PMRSTS.ERR: the device that keeps the region has failed */

/* ---- the two copies ---- */

/* Make [at, at + len) of durable what memory is. True if it was not. */
static bool take_over(struct ctrl_pmr *pmr, uint64_t at, uint64_t len)
{
	const uint64_t *from = (const uint64_t *)(const void *)(pmr->memory + at);
	uint64_t *to = (uint64_t *)(void *)(pmr->durable + at);
	bool changed = false;

	for (uint64_t i = 0; i < len / sizeof(*to); i++) {
		uint64_t word = fth_load_relaxed_sys64(&from[i]);

		if (word == to[i])
			continue; /* not stored: a page nobody used stays unallocated */
		to[i] = word;
		changed = true;
	}
	return changed;
}

/* Make [at, at + len) of memory what durable is. */
static void take_back(struct ctrl_pmr *pmr, uint64_t at, uint64_t len)
{
	const uint64_t *from = (const uint64_t *)(const void *)(pmr->durable + at);
	uint64_t *to = (uint64_t *)(void *)(pmr->memory + at);

	for (uint64_t i = 0; i < len / sizeof(*to); i++)
		if (fth_load_relaxed_sys64(&to[i]) != from[i])
			fth_store_relaxed_sys64(&to[i], from[i]);
}

static bool differs(const struct ctrl_pmr *pmr, uint64_t line)
{
	return memcmp(pmr->memory + line, pmr->durable + line, LINE) != 0;
}

/* ---- keeping ---- */

static int write_run(struct ctrl_pmr *pmr, uint64_t start, uint64_t end, uint64_t deadline)
{
	if (!pmr->dev || start == end)
		return 0;
	pmr->unflushed = true;
	return fth_dev_write(pmr->dev, pmr->durable + start, end - start, start, deadline);
}

/* Take over what differs in [start, end), whole steps, and write it to dev in as few runs. */
static int keep(struct ctrl_pmr *pmr, uint64_t start, uint64_t end, uint64_t deadline)
{
	uint64_t run = start;
	int rc = 0;

	for (uint64_t at = start; at < end; at += pmr->step) {
		int result;

		if (take_over(pmr, at, pmr->step))
			continue;
		result = write_run(pmr, run, at, deadline);
		rc = rc < 0 ? rc : result;
		run = at + pmr->step;
	}
	if (run < end) {
		int result = write_run(pmr, run, end, deadline);

		rc = rc < 0 ? rc : result;
	}
	return rc;
}

static int flush(struct ctrl_pmr *pmr, uint64_t deadline)
{
	int rc = pmr->unflushed ? fth_dev_flush(pmr->dev, deadline) : 0;

	pmr->unflushed = rc < 0;
	return rc;
}

static void barrier_locked(struct ctrl_pmr *pmr, uint64_t offset, uint64_t len, uint64_t deadline)
{
	uint64_t end = len > pmr->size - offset ? pmr->size : offset + len;
	uint64_t start = offset / pmr->step * pmr->step;
	int rc;

	end = (end + pmr->step - 1) / pmr->step * pmr->step;
	if (pmr->health == FTH_NVME_PMR_READ_ONLY) {
		take_back(pmr, start, end - start);
		return;
	}
	rc = keep(pmr, start, end, deadline);
	if (rc == 0)
		rc = flush(pmr, deadline);
	if (rc < 0)
		pmr->error = ERROR_MEDIUM;
}

static uint32_t status_locked(const struct ctrl_pmr *pmr)
{
	return pmr->error | (pmr->enabled ? 0 : FTH_NVME_PMRSTS_NRDY) |
	       (uint32_t)pmr->health << FTH_NVME_PMRSTS_HSTS_SHIFT;
}

/*
 * The holder waits for its device, until a deadline of its own. pthread_mutex_clocklock() would be
 * the call for this, but the thread sanitizer of GCC 12 does not know it.
 */
static bool lock_until(struct ctrl_pmr *pmr, uint64_t deadline)
{
	const struct timespec pause = {0, LOCK_SLEEP_NS};

	while (pthread_mutex_trylock(&pmr->lock) != 0) {
		if (fth_now_ns() >= deadline)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

uint32_t fth_ctrl_pmr_barrier(struct ctrl_pmr *pmr, uint64_t offset, uint64_t len,
			      uint64_t deadline)
{
	uint32_t status;

	if (!pmr->size)
		return 0;
	if (!lock_until(pmr, deadline))
		return ERROR_MEDIUM;
	if (pmr->enabled && offset < pmr->size)
		barrier_locked(pmr, offset, len, deadline);
	status = status_locked(pmr);
	pthread_mutex_unlock(&pmr->lock);
	return status;
}

bool fth_ctrl_pmr_shutdown(struct ctrl_pmr *pmr)
{
	uint64_t deadline = fth_deadline_ns(FTH_DEV_TIMEOUT_NS);

	return !(fth_ctrl_pmr_barrier(pmr, 0, pmr->size, deadline) & FTH_NVME_PMRSTS_ERR_MASK);
}

/* ---- enabling and disabling ---- */

static void enable(struct ctrl_pmr *pmr)
{
	pmr->error = 0;
	if (pmr->dev) {
		int rc = fth_dev_read(pmr->dev, pmr->durable, pmr->size, 0, FTH_DEV_TIMEOUT);

		if (rc < 0)
			pmr->health = FTH_NVME_PMR_RESTORE_ERROR;
		else if (pmr->health == FTH_NVME_PMR_RESTORE_ERROR)
			pmr->health = FTH_NVME_PMR_NORMAL;
	}
	take_back(pmr, 0, pmr->size);
	pmr->enabled = true;
}

static void disable(struct ctrl_pmr *pmr)
{
	barrier_locked(pmr, 0, pmr->size, fth_deadline_ns(FTH_DEV_TIMEOUT_NS));
	pmr->enabled = false;
}

void fth_ctrl_pmr_enable(struct ctrl_pmr *pmr, bool wanted)
{
	if (!pmr->size)
		return;
	pthread_mutex_lock(&pmr->lock);
	if (wanted && !pmr->enabled)
		enable(pmr);
	else if (!wanted && pmr->enabled)
		disable(pmr);
	pthread_mutex_unlock(&pmr->lock);
}

bool fth_ctrl_pmr_enabled(struct ctrl_pmr *pmr)
{
	bool enabled;

	if (!pmr->size)
		return false;
	pthread_mutex_lock(&pmr->lock);
	enabled = pmr->enabled;
	pthread_mutex_unlock(&pmr->lock);
	return enabled;
}

/* ---- for tests ---- */

static int lose_power(struct ctrl_pmr *pmr, uint64_t seed)
{
	uint64_t deadline = fth_deadline_ns(FTH_DEV_TIMEOUT_NS);
	struct fth_rng rng = {seed};
	int rc;

	for (uint64_t line = 0; line < pmr->size; line += LINE)
		if (differs(pmr, line) && fth_rng_below(&rng, 2))
			take_back(pmr, line, LINE);
	rc = keep(pmr, 0, pmr->size, deadline);
	if (rc == 0)
		rc = flush(pmr, deadline);
	pmr->enabled = false;
	pmr->error = 0;
	return rc;
}

int fth_nvme_ctrl_pmr_power_loss(struct fth_nvme_ctrl *ctrl, uint64_t seed)
{
	struct ctrl_pmr *pmr = &ctrl->window.pmr;
	int rc;

	if (!pmr->size)
		return fth_fail(ENODEV, "the controller has no persistent memory region");
	pthread_mutex_lock(&pmr->lock);
	rc = pmr->enabled ? lose_power(pmr, seed)
			  : fth_fail(ENXIO, "the persistent memory region is disabled");
	pthread_mutex_unlock(&pmr->lock);
	return rc;
}

int fth_nvme_ctrl_pmr_health(struct fth_nvme_ctrl *ctrl, unsigned health)
{
	struct ctrl_pmr *pmr = &ctrl->window.pmr;

	if (!pmr->size)
		return fth_fail(ENODEV, "the controller has no persistent memory region");
	if (health > FTH_NVME_PMR_UNRELIABLE)
		return fth_fail(EINVAL, "unknown PMR health status %u", health);
	pthread_mutex_lock(&pmr->lock);
	pmr->health = (uint8_t)health;
	pthread_mutex_unlock(&pmr->lock);
	return 0;
}

struct fth_dev *fth_nvme_ctrl_pmr_dev(const struct fth_nvme_ctrl *ctrl)
{
	return ctrl->window.pmr.dev;
}

uint32_t fth_nvme_ctrl_pmr_barrier(struct fth_nvme_ctrl *ctrl, uint64_t offset, uint64_t len,
				   uint64_t deadline)
{
	return fth_ctrl_pmr_barrier(&ctrl->window.pmr, offset, len, deadline);
}

/* ---- life ---- */

static int check_dev(struct fth_dev *dev, uint64_t size)
{
	const struct fth_dev_info *info = fth_dev_info(dev);

	if (info->size < size)
		return fth_fail(EINVAL, "pmr_size %llu is greater than the device of %llu bytes",
				(unsigned long long)size, (unsigned long long)info->size);
	if (info->block & (info->block - 1) || info->block > size)
		return fth_fail(
			EINVAL,
			"pmr_size %llu is not a multiple of the device's blocks of %u bytes",
			(unsigned long long)size, info->block);
	return 0;
}

int fth_ctrl_pmr_open(struct ctrl_pmr *pmr, const struct fth_nvme_ctrl_options *opts)
{
	int rc;

	if (!opts->pmr_size)
		return opts->pmr_dev ? fth_fail(EINVAL, "pmr_dev needs pmr_size") : 0;
	pmr->step = LINE;
	if (opts->pmr_dev) {
		rc = check_dev(opts->pmr_dev, opts->pmr_size);
		if (rc < 0)
			return rc;
		if (fth_dev_info(opts->pmr_dev)->block > LINE)
			pmr->step = fth_dev_info(opts->pmr_dev)->block;
	}
	pmr->dev = opts->pmr_dev;
	pmr->memory = fth_ctrl_window_memory(opts->pmr_size);
	pmr->durable = fth_ctrl_window_memory(opts->pmr_size);
	pthread_mutex_init(&pmr->lock, NULL);
	pmr->size = opts->pmr_size;
	return pmr->memory && pmr->durable ? 0 : -ENOMEM;
}

void fth_ctrl_pmr_close(struct ctrl_pmr *pmr)
{
	if (!pmr->size)
		return;
	if (pmr->memory)
		munmap(pmr->memory, pmr->size);
	if (pmr->durable)
		munmap(pmr->durable, pmr->size);
	pthread_mutex_destroy(&pmr->lock);
	pmr->size = 0;
}
