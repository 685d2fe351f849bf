/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The software controller: its registers, and how it is enabled, reset and shut down. ctrl.h lists
 * the siblings.
 *
 *	          CC.EN=1                CC.SHN
 *	   OFF ------------> READY ---------------> STOPPING --> FLUSHING --> SHUT
 *	    ^ \                |                        |            |          |
 *	    |  `--> FAILED     | CC.EN=0                |            |          |
 *	    |          |       v                        v            v          v
 *	    `----------+-- RESETTING <---- CC.EN=0 -----+------------+----------'
 *
 * Invariants
 * 1. Commands are fetched in READY only; admin commands run in READY only.
 * 2. RESETTING lasts until no context is taken and no flush is out. CSTS.RDY falls after that, so
 *    a host that sees RDY = 0 has its memory for itself.
 * 3. CSTS changes only in here, under exclusive world.
 */
#include "nvme/ctrl/ctrl_internal.h"

#include <errno.h>

#define TIMEOUT_UNITS	  60u /* CAP.TO: 30 s, in units of 500 ms */
#define ADMIN_ENTRIES_MIN 2u
#define SHST_OCCURRING	  (1u << FTH_NVME_CSTS_SHUTDOWN_SHIFT)
#define SHST_COMPLETE	  (2u << FTH_NVME_CSTS_SHUTDOWN_SHIFT)
#define CC_SIZES_MASK	  (0xffu << FTH_NVME_CC_SQES_SHIFT)
#define CC_SIZES	  (6u << FTH_NVME_CC_SQES_SHIFT | 4u << FTH_NVME_CC_CQES_SHIFT)
#define CC_ZERO_MASK	  /* command set, page size and arbitration: only their 0 is offered */ \
	(7u << FTH_NVME_CC_CSS_SHIFT | 0xfu << FTH_NVME_CC_PAGE_SHIFT | 7u << FTH_NVME_CC_AMS_SHIFT)

/* ---- registers as words ---- */

static uint32_t *reg(struct fth_nvme_ctrl *ctrl, uint32_t offset)
{
	return &ctrl->regs[offset / 4];
}

static uint32_t get(struct fth_nvme_ctrl *ctrl, uint32_t offset)
{
	/* acquire: a host that sees RDY fall also sees the last writes into its memory. */
	return fth_load_acquire_dev32(reg(ctrl, offset));
}

static uint64_t get64(struct fth_nvme_ctrl *ctrl, uint32_t offset)
{
	return get(ctrl, offset) | (uint64_t)get(ctrl, offset + 4) << 32;
}

static void set(struct fth_nvme_ctrl *ctrl, uint32_t offset, uint32_t value)
{
	fth_store_release_dev32(reg(ctrl, offset), value); /* pairs with get() */
}

static void change_csts(struct fth_nvme_ctrl *ctrl, uint32_t clear, uint32_t add)
{
	set(ctrl, FTH_NVME_REG_CSTS, (get(ctrl, FTH_NVME_REG_CSTS) & ~clear) | add);
}

static bool enabled(struct fth_nvme_ctrl *ctrl)
{
	return get(ctrl, FTH_NVME_REG_CC) & FTH_NVME_CC_ENABLE;
}

/* ---- enable ---- */

static bool open_admin_queues(struct fth_nvme_ctrl *ctrl)
{
	uint32_t aqa = get(ctrl, FTH_NVME_REG_AQA);
	uint32_t sq_size = (aqa & FTH_NVME_AQA_SIZE_MASK) + 1;
	uint32_t cq_size = (aqa >> FTH_NVME_AQA_ACQS_SHIFT & FTH_NVME_AQA_SIZE_MASK) + 1;
	void *sq = fth_ctrl_translate(ctrl, get64(ctrl, FTH_NVME_REG_ASQ),
				      sq_size * sizeof(struct fth_nvme_sqe));
	void *cq = fth_ctrl_translate(ctrl, get64(ctrl, FTH_NVME_REG_ACQ),
				      cq_size * sizeof(struct fth_nvme_cqe));

	if (sq_size < ADMIN_ENTRIES_MIN || cq_size < ADMIN_ENTRIES_MIN || !sq || !cq)
		return false;
	fth_ctrl_cq_open(ctrl, 0, cq_size, 0, cq);
	fth_ctrl_sq_open(ctrl, 0, &ctrl->cqs[0], sq_size, sq);
	return true;
}

static void enable(struct fth_nvme_ctrl *ctrl)
{
	uint32_t cc = get(ctrl, FTH_NVME_REG_CC);

	if ((cc & CC_ZERO_MASK) || (cc & CC_SIZES_MASK) != CC_SIZES || !open_admin_queues(ctrl)) {
		ctrl->state = CTRL_FAILED;
		change_csts(ctrl, 0, FTH_NVME_CSTS_FATAL);
		return;
	}
	ctrl->state = CTRL_READY;
	change_csts(ctrl, 0, FTH_NVME_CSTS_READY);
}

/* ---- reset and shutdown ---- */

static void close_queues(struct fth_nvme_ctrl *ctrl)
{
	for (uint32_t i = 0; i <= ctrl->io_queues; i++)
		fth_ctrl_sq_close(&ctrl->sqs[i]);
	for (uint32_t i = 0; i <= ctrl->io_queues; i++)
		fth_ctrl_cq_close(&ctrl->cqs[i]);
	for (size_t i = 0; i < ctrl->doorbells_size / sizeof(*ctrl->doorbells); i++)
		fth_store_relaxed_sys32(&ctrl->doorbells[i], 0);
	ctrl->active_count = 0;
}

static void begin_shutdown(struct fth_nvme_ctrl *ctrl)
{
	ctrl->state = CTRL_STOPPING;
	change_csts(ctrl, FTH_NVME_CSTS_SHUTDOWN_MASK, SHST_OCCURRING);
}

static void begin_reset(struct fth_nvme_ctrl *ctrl)
{
	ctrl->state = CTRL_RESETTING;
	fth_ctrl_workers_drop_waiting(ctrl);
	fth_stats_add(ctrl->stats, FTH_NVME_CTRL_STAT_RESETS, 1);
}

static bool flush_is_out(struct fth_nvme_ctrl *ctrl)
{
	/* acquire: pairs with the worker that collected it. */
	return ctrl->flush_sent && !fth_load_acquire_dev32(&ctrl->flush_done);
}

static unsigned finish_reset(struct fth_nvme_ctrl *ctrl)
{
	if (fth_ctrl_workers_in_flight(ctrl) > 0 || flush_is_out(ctrl))
		return 0;
	ctrl->flush_sent = false;
	close_queues(ctrl);
	fth_ctrl_admin_reset(ctrl);
	fth_ctrl_features_reset(ctrl);
	fth_ctrl_window_reset(&ctrl->window);
	ctrl->state = CTRL_OFF;
	set(ctrl, FTH_NVME_REG_CSTS, 0);
	if (enabled(ctrl))
		enable(ctrl);
	else if (get(ctrl, FTH_NVME_REG_CC) & FTH_NVME_CC_SHUTDOWN_MASK)
		begin_shutdown(ctrl);
	return 1;
}

static unsigned send_flush(struct ctrl_worker *w)
{
	struct fth_nvme_ctrl *ctrl = w->ctrl;
	struct fth_dev_req *req = &ctrl->flush;
	int rc;

	if (fth_ctrl_workers_in_flight(ctrl) > 0)
		return 0;
	fth_dev_req_init(req, FTH_DEV_FLUSH, NULL, 0, 0);
	fth_store_relaxed_dev32(&ctrl->flush_done, 0);
	rc = fth_dev_submit(w->chan, &req, 1);
	if (rc == -EAGAIN)
		return 0;
	if (rc < 0) {
		ctrl->flush.result = rc;
		fth_store_relaxed_dev32(&ctrl->flush_done, 1);
	}
	ctrl->flush_sent = true;
	ctrl->state = CTRL_FLUSHING;
	return 1;
}

static unsigned finish_shutdown(struct fth_nvme_ctrl *ctrl)
{
	bool kept;

	if (flush_is_out(ctrl))
		return 0;
	kept = fth_ctrl_pmr_shutdown(&ctrl->window.pmr) && ctrl->flush.result == 0;
	ctrl->flush_sent = false;
	ctrl->state = CTRL_SHUT;
	change_csts(ctrl, FTH_NVME_CSTS_SHUTDOWN_MASK,
		    SHST_COMPLETE | (kept ? 0 : FTH_NVME_CSTS_FATAL));
	return 1;
}

bool fth_ctrl_in_transition(const struct fth_nvme_ctrl *ctrl)
{
	return ctrl->state == CTRL_RESETTING || ctrl->state == CTRL_STOPPING ||
	       ctrl->state == CTRL_FLUSHING;
}

/* What can not be done in a shared pass. world is held exclusively. */
unsigned fth_ctrl_service(struct ctrl_worker *w)
{
	struct fth_nvme_ctrl *ctrl = w->ctrl;

	/* acquire: we see what the attention is for. Taken before looking, so none is lost. */
	fth_xchg_acqrel_dev32(&ctrl->attention, 0);
	switch (ctrl->state) {
	case CTRL_READY:
		return fth_ctrl_admin_service(ctrl);
	case CTRL_RESETTING:
		return finish_reset(ctrl);
	case CTRL_STOPPING:
		return send_flush(w);
	case CTRL_FLUSHING:
		return finish_shutdown(ctrl);
	default:
		return 0;
	}
}

/* ---- register writes ---- */

static void write_cc(struct fth_nvme_ctrl *ctrl, uint32_t value)
{
	uint32_t old = get(ctrl, FTH_NVME_REG_CC);
	bool was = old & FTH_NVME_CC_ENABLE, is = value & FTH_NVME_CC_ENABLE;

	set(ctrl, FTH_NVME_REG_CC, value);
	if (ctrl->state == CTRL_SHUT && !was && !(value & FTH_NVME_CC_SHUTDOWN_MASK)) {
		ctrl->state = CTRL_OFF;
		set(ctrl, FTH_NVME_REG_CSTS, 0);
	}
	if (was && !is && ctrl->state != CTRL_RESETTING)
		begin_reset(ctrl);
	else if (!was && is && ctrl->state == CTRL_OFF)
		enable(ctrl);
	else if (!was && is)
		begin_reset(ctrl); /* out of a shutdown; enabled when that is over */
	if ((value & FTH_NVME_CC_SHUTDOWN_MASK) && !(old & FTH_NVME_CC_SHUTDOWN_MASK) &&
	    (ctrl->state == CTRL_READY || ctrl->state == CTRL_OFF))
		begin_shutdown(ctrl);
}

static void write_locked(struct fth_nvme_ctrl *ctrl, uint32_t offset, uint32_t value)
{
	uint32_t mask = get(ctrl, FTH_NVME_REG_INTMS);

	switch (offset) {
	case FTH_NVME_REG_CC:
		write_cc(ctrl, value);
		break;
	case FTH_NVME_REG_INTMS:
		set(ctrl, FTH_NVME_REG_INTMS, mask | value);
		set(ctrl, FTH_NVME_REG_INTMC, mask | value);
		break;
	case FTH_NVME_REG_INTMC:
		set(ctrl, FTH_NVME_REG_INTMS, mask & ~value);
		set(ctrl, FTH_NVME_REG_INTMC, mask & ~value);
		break;
	case FTH_NVME_REG_ASQ:
	case FTH_NVME_REG_ACQ:
		value &= ~(FTH_NVME_PAGE_SIZE - 1);
		/* fall through */
	case FTH_NVME_REG_ASQ + 4:
	case FTH_NVME_REG_ACQ + 4:
	case FTH_NVME_REG_AQA:
		if (!enabled(ctrl))
			set(ctrl, offset, value);
		break;
	default:
		break;
	}
}

static void write_doorbell(struct fth_nvme_ctrl *ctrl, uint32_t offset, uint32_t value)
{
	offset -= FTH_NVME_REG_DOORBELL;
	if (offset < ctrl->doorbells_size)
		fth_store_release_sys32(&ctrl->doorbells[offset / 4], value);
}

void fth_nvme_ctrl_write32(struct fth_nvme_ctrl *ctrl, uint32_t offset, uint32_t value)
{
	if (offset % 4)
		return;
	if (offset >= FTH_NVME_REG_DOORBELL) {
		write_doorbell(ctrl, offset, value);
		return;
	}
	if (fth_ctrl_window_has(offset)) {
		fth_ctrl_window_write(&ctrl->window, offset, value);
		return;
	}
	pthread_rwlock_wrlock(&ctrl->world);
	write_locked(ctrl, offset, value);
	pthread_rwlock_unlock(&ctrl->world);
	/* Without workers, a change that has nothing to wait for happens at once. */
	if (ctrl->thread_count == 0 && offset == FTH_NVME_REG_CC)
		fth_nvme_ctrl_step(ctrl);
}

void fth_nvme_ctrl_write64(struct fth_nvme_ctrl *ctrl, uint32_t offset, uint64_t value)
{
	if (offset % 8)
		return;
	fth_nvme_ctrl_write32(ctrl, offset, (uint32_t)value);
	fth_nvme_ctrl_write32(ctrl, offset + 4, (uint32_t)(value >> 32));
}

uint32_t fth_nvme_ctrl_read32(struct fth_nvme_ctrl *ctrl, uint32_t offset)
{
	if (offset % 4)
		return 0;
	if (fth_ctrl_window_has(offset))
		return fth_ctrl_window_read(&ctrl->window, offset);
	return offset < sizeof(ctrl->regs) ? get(ctrl, offset) : 0;
}

uint64_t fth_nvme_ctrl_read64(struct fth_nvme_ctrl *ctrl, uint32_t offset)
{
	if (offset % 8)
		return 0;
	return fth_nvme_ctrl_read32(ctrl, offset) | (uint64_t)fth_nvme_ctrl_read32(ctrl, offset + 4)
							    << 32;
}

void *fth_nvme_ctrl_doorbells(struct fth_nvme_ctrl *ctrl)
{
	return ctrl->doorbells;
}

void fth_ctrl_registers_init(struct fth_nvme_ctrl *ctrl)
{
	uint64_t cap = (ctrl->queue_entries - 1) | FTH_NVME_CAP_CQR |
		       (uint64_t)TIMEOUT_UNITS << FTH_NVME_CAP_TIMEOUT_SHIFT |
		       FTH_NVME_CAP_CSS_NVM | fth_ctrl_window_cap(&ctrl->window);

	set(ctrl, FTH_NVME_REG_CAP, (uint32_t)cap);
	set(ctrl, FTH_NVME_REG_CAP + 4, (uint32_t)(cap >> 32));
	set(ctrl, FTH_NVME_REG_VS, FTH_NVME_VERSION_1_4);
}
