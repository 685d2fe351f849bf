/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Admin commands (5): dispatch, queues, abort, asynchronous events.
 *
 * All of it runs under exclusive world: no worker is in a pass, so queues can come and go. A
 * command ends at once, except three kinds that are held:
 *
 *	asynchronous event request	until there is an event to tell
 *	delete submission queue		until the queue's last command in flight has completed
 *	abort				until the entry it found in a ring is fetched
 */
#include "nvme/ctrl/ctrl_internal.h"

#include <stdlib.h>
#include <string.h>

#define ADMIN_BATCH 16	    /* commands per turn: the workers wait meanwhile */
#define HELD	    0xffffu /* no status: the command ends later */
#define NOT_ABORTED 1u	    /* bit 0 of Abort's result */

static struct ctrl_sq *io_sq(struct fth_nvme_ctrl *ctrl, uint32_t id)
{
	return id >= 1 && id <= ctrl->io_queues ? &ctrl->sqs[id] : NULL;
}

static struct ctrl_cq *io_cq(struct fth_nvme_ctrl *ctrl, uint32_t id)
{
	return id >= 1 && id <= ctrl->io_queues ? &ctrl->cqs[id] : NULL;
}

/* ---- completions ---- */

static bool reserve(struct fth_nvme_ctrl *ctrl)
{
	return fth_ctrl_cq_reserve(ctrl, &ctrl->cqs[0], 1) == 1;
}

static void unreserve(struct fth_nvme_ctrl *ctrl)
{
	ctrl->cqs[0].reserved--;
}

/* Into the slot that was reserved. */
static void complete(struct fth_nvme_ctrl *ctrl, uint16_t cid, uint16_t status, uint32_t result)
{
	fth_stats_add(ctrl->stats, FTH_NVME_CTRL_STAT_ADMIN, 1);
	fth_ctrl_cq_post(&ctrl->cqs[0], &ctrl->sqs[0], cid, status, result);
	fth_ctrl_interrupt(ctrl, &ctrl->cqs[0]);
}

/* Complete a held command; if there is no room now, come back. */
static bool complete_held(struct fth_nvme_ctrl *ctrl, uint16_t cid, uint16_t status,
			  uint32_t result)
{
	if (!reserve(ctrl)) {
		fth_ctrl_attention(ctrl);
		return false;
	}
	complete(ctrl, cid, status, result);
	return true;
}

/* ---- creating queues ---- */

static void list_active(struct fth_nvme_ctrl *ctrl)
{
	ctrl->active_count = 0;
	for (uint32_t id = 1; id <= ctrl->io_queues; id++)
		if (ctrl->sqs[id].state == CTRL_SQ_LIVE)
			ctrl->active[ctrl->active_count++] = (uint16_t)id;
}

/* What both kinds of queue have in common: size, contiguity, memory. */
static uint16_t check_ring(struct fth_nvme_ctrl *ctrl, const struct fth_nvme_sqe *sqe,
			   uint32_t entry_bytes, uint32_t *size, void **ring)
{
	uint32_t entries = (sqe->cdw10 >> FTH_NVME_CREATE_SIZE_SHIFT) + 1;

	if (entries < 2 || entries > ctrl->queue_entries)
		return FTH_NVME_QUEUE_SIZE_INVALID;
	if (!(sqe->cdw11 & FTH_NVME_CREATE_CONTIGUOUS))
		return FTH_NVME_INVALID_FIELD;
	if (sqe->prp1 % FTH_NVME_PAGE_SIZE)
		return FTH_NVME_PRP_OFFSET_INVALID;
	*ring = fth_ctrl_translate(ctrl, sqe->prp1, (uint64_t)entries * entry_bytes);
	*size = entries;
	return *ring ? FTH_NVME_SUCCESS : FTH_NVME_INVALID_FIELD;
}

static uint16_t create_cq(struct fth_nvme_ctrl *ctrl, const struct fth_nvme_sqe *sqe)
{
	uint16_t id = (uint16_t)sqe->cdw10, status;
	uint32_t vector = sqe->cdw11 >> FTH_NVME_CREATE_CQ_VECTOR_SHIFT, size;
	struct ctrl_cq *cq = io_cq(ctrl, id);
	void *ring;

	if (!cq || cq->exists)
		return FTH_NVME_QID_INVALID;
	status = check_ring(ctrl, sqe, sizeof(struct fth_nvme_cqe), &size, &ring);
	if (status)
		return status;
	/* There is a vector for each queue. */
	if (!(sqe->cdw11 & FTH_NVME_CREATE_CQ_INTERRUPT))
		vector = CTRL_NO_VECTOR;
	else if (vector > ctrl->io_queues)
		return FTH_NVME_INTERRUPT_VECTOR_INVALID;
	fth_ctrl_cq_open(ctrl, id, size, vector, ring);
	return FTH_NVME_SUCCESS;
}

static uint16_t create_sq(struct fth_nvme_ctrl *ctrl, const struct fth_nvme_sqe *sqe)
{
	uint16_t id = (uint16_t)sqe->cdw10, status;
	struct ctrl_sq *sq = io_sq(ctrl, id);
	struct ctrl_cq *cq = io_cq(ctrl, sqe->cdw11 >> FTH_NVME_CREATE_SQ_CQID_SHIFT);
	uint32_t size;
	void *ring;

	if (!sq || sq->state != CTRL_SQ_NONE)
		return FTH_NVME_QID_INVALID;
	if (!cq || !cq->exists)
		return FTH_NVME_CQ_INVALID;
	status = check_ring(ctrl, sqe, sizeof(struct fth_nvme_sqe), &size, &ring);
	if (status)
		return status;
	if (!sq->cids)
		sq->cids = calloc(CTRL_CID_WORDS, sizeof(*sq->cids));
	if (!sq->cids)
		return FTH_NVME_INTERNAL_ERROR;
	fth_ctrl_sq_open(ctrl, id, cq, size, ring);
	list_active(ctrl);
	return FTH_NVME_SUCCESS;
}

/* ---- deleting queues ---- */

static uint16_t delete_cq(struct fth_nvme_ctrl *ctrl, const struct fth_nvme_sqe *sqe)
{
	struct ctrl_cq *cq = io_cq(ctrl, sqe->cdw10 & 0xffff);

	if (!cq || !cq->exists)
		return FTH_NVME_QID_INVALID;
	if (cq->sq_count > 0)
		return FTH_NVME_QUEUE_DELETION_INVALID;
	fth_ctrl_cq_close(cq);
	return FTH_NVME_SUCCESS;
}

static void give_up_aborts(struct fth_nvme_ctrl *ctrl, const struct ctrl_sq *sq)
{
	for (unsigned i = 0; i < CTRL_ABORT_MAX; i++)
		if (ctrl->aborts[i].used && ctrl->aborts[i].sqid == sq->id)
			ctrl->aborts[i].resolved = true;
}

/* No more is fetched from now on; what was fetched completes as usual, and then the queue goes. */
static uint16_t delete_sq(struct fth_nvme_ctrl *ctrl, const struct fth_nvme_sqe *sqe)
{
	struct ctrl_sq *sq = io_sq(ctrl, sqe->cdw10 & 0xffff);

	if (!sq || sq->state != CTRL_SQ_LIVE)
		return FTH_NVME_QID_INVALID;
	sq->state = CTRL_SQ_DELETING;
	sq->delete_cid = sqe->cid;
	ctrl->deleting++;
	list_active(ctrl);
	give_up_aborts(ctrl, sq);
	return HELD;
}

static unsigned finish_deletes(struct fth_nvme_ctrl *ctrl)
{
	unsigned n = 0;

	for (uint32_t id = 1; ctrl->deleting > 0 && id <= ctrl->io_queues; id++) {
		struct ctrl_sq *sq = &ctrl->sqs[id];

		/* acquire: its last completion was posted before the count became 0. */
		if (sq->state != CTRL_SQ_DELETING || fth_load_acquire_dev32(&sq->in_flight))
			continue;
		if (!complete_held(ctrl, sq->delete_cid, FTH_NVME_SUCCESS, 0))
			break;
		fth_ctrl_sq_close(sq);
		ctrl->deleting--;
		n++;
	}
	return n;
}

/* ---- asynchronous events ---- */

static uint16_t hold_event_request(struct fth_nvme_ctrl *ctrl, const struct fth_nvme_sqe *sqe)
{
	if (ctrl->aer_count == CTRL_AER_MAX)
		return FTH_NVME_ASYNC_EVENT_LIMIT;
	ctrl->aers[ctrl->aer_count++] = sqe->cid;
	return HELD;
}

/* Error events: told once, and then masked until the host reads the error log. */
static unsigned tell_event(struct fth_nvme_ctrl *ctrl)
{
	uint32_t events = fth_load_relaxed_dev32(&ctrl->events), kind;

	if (!events || (ctrl->events_masked & 1u << FTH_NVME_EVENT_ERROR) || !ctrl->aer_count)
		return 0;
	kind = (uint32_t)__builtin_ctz(events);
	if (!complete_held(ctrl, ctrl->aers[0], FTH_NVME_SUCCESS,
			   fth_nvme_event(FTH_NVME_EVENT_ERROR, kind, FTH_NVME_LOG_ERROR)))
		return 0;
	fth_and_acqrel_dev32(&ctrl->events, ~(1u << kind));
	ctrl->events_masked |= 1u << FTH_NVME_EVENT_ERROR;
	ctrl->aer_count--;
	memmove(ctrl->aers, ctrl->aers + 1, ctrl->aer_count * sizeof(ctrl->aers[0]));
	return 1;
}

/* ---- abort ---- */

static bool abort_event_request(struct fth_nvme_ctrl *ctrl, uint16_t cid)
{
	for (unsigned i = 0; i < ctrl->aer_count; i++) {
		if (ctrl->aers[i] != cid)
			continue;
		if (!complete_held(ctrl, cid, FTH_NVME_ABORT_REQUESTED, 0))
			return false;
		ctrl->aer_count--;
		memmove(ctrl->aers + i, ctrl->aers + i + 1,
			(ctrl->aer_count - i) * sizeof(ctrl->aers[0]));
		return true;
	}
	return false;
}

/* A command that waits ends; one on the device stops before its next request, if it has one. */
static bool abort_in_worker(struct ctrl_worker *w, const struct ctrl_sq *sq, uint16_t cid)
{
	for (unsigned i = 0; i < w->ctrl->depth; i++) {
		struct ctrl_cmd *cmd = &w->cmds[i];

		if (cmd->state == CTRL_CMD_FREE || cmd->sq != sq || cmd->sqe.cid != cid)
			continue;
		cmd->abort_wanted = true;
		w->kick = true;
		return cmd->state == CTRL_CMD_WAITING;
	}
	return false;
}

/* Where in the ring, not yet fetched, lies the command? */
static bool find_in_ring(struct fth_nvme_ctrl *ctrl, struct ctrl_sq *sq, uint16_t cid,
			 uint32_t *position)
{
	uint32_t n = fth_ctrl_sq_pending(ctrl, sq), at = sq->head;
	struct fth_nvme_sqe sqe;

	for (; n > 0; n--, at = fth_ctrl_sq_after(sq, at)) {
		fth_ctrl_sq_copy(sq, at, &sqe);
		if (sqe.cid == cid) {
			*position = at;
			return true;
		}
	}
	return false;
}

static struct ctrl_abort *free_abort(struct fth_nvme_ctrl *ctrl)
{
	for (unsigned i = 0; i < CTRL_ABORT_MAX; i++)
		if (!ctrl->aborts[i].used)
			return &ctrl->aborts[i];
	return NULL;
}

static uint16_t abort_io(struct fth_nvme_ctrl *ctrl, struct ctrl_sq *sq, uint16_t target,
			 uint16_t cid, struct ctrl_abort *slot, uint32_t *result)
{
	uint32_t position;

	for (unsigned i = 0; i < ctrl->worker_count; i++)
		if (abort_in_worker(&ctrl->workers[i], sq, target))
			*result = 0;
	if (*result == 0 || !find_in_ring(ctrl, sq, target, &position))
		return FTH_NVME_SUCCESS;
	*slot = (struct ctrl_abort){
		.used = true, .cid = cid, .sqid = sq->id, .target = target, .position = position};
	sq->abort_marks++;
	return HELD;
}

static uint16_t abort_command(struct fth_nvme_ctrl *ctrl, const struct fth_nvme_sqe *sqe,
			      uint32_t *result)
{
	uint16_t target = (uint16_t)(sqe->cdw10 >> 16);
	struct ctrl_sq *sq = io_sq(ctrl, sqe->cdw10 & 0xffff);
	struct ctrl_abort *slot = free_abort(ctrl);

	if (!slot)
		return FTH_NVME_ABORT_LIMIT;
	*result = NOT_ABORTED;
	if ((sqe->cdw10 & 0xffff) == 0 && abort_event_request(ctrl, target))
		*result = 0;
	if (!sq || sq->state != CTRL_SQ_LIVE)
		return FTH_NVME_SUCCESS;
	return abort_io(ctrl, sq, target, sqe->cid, slot, result);
}

/*
 * A worker fetched an entry of a queue that has marks. It holds the queue's lock and world,
 * shared: marks of other queues are not its own.
 */
void fth_ctrl_abort_check(struct fth_nvme_ctrl *ctrl, struct ctrl_sq *sq, uint32_t position,
			  struct ctrl_cmd *cmd)
{
	for (unsigned i = 0; i < CTRL_ABORT_MAX; i++) {
		struct ctrl_abort *abort = &ctrl->aborts[i];

		if (!abort->used || abort->sqid != sq->id || abort->resolved ||
		    abort->position != position)
			continue;
		abort->resolved = true;
		abort->hit = abort->target == cmd->sqe.cid;
		cmd->abort_wanted |= abort->hit;
		sq->abort_marks--;
		fth_ctrl_attention(ctrl);
	}
}

static unsigned finish_aborts(struct fth_nvme_ctrl *ctrl)
{
	unsigned n = 0;

	for (unsigned i = 0; i < CTRL_ABORT_MAX; i++) {
		struct ctrl_abort *abort = &ctrl->aborts[i];

		if (!abort->used || !abort->resolved)
			continue;
		if (!complete_held(ctrl, abort->cid, FTH_NVME_SUCCESS,
				   abort->hit ? 0 : NOT_ABORTED))
			break;
		abort->used = false;
		n++;
	}
	return n;
}

/* ---- dispatch ---- */

static bool cid_is_held(const struct fth_nvme_ctrl *ctrl, uint16_t cid)
{
	for (unsigned i = 0; i < ctrl->aer_count; i++)
		if (ctrl->aers[i] == cid)
			return true;
	for (unsigned i = 0; i < CTRL_ABORT_MAX; i++)
		if (ctrl->aborts[i].used && ctrl->aborts[i].cid == cid)
			return true;
	for (uint32_t id = 1; ctrl->deleting > 0 && id <= ctrl->io_queues; id++)
		if (ctrl->sqs[id].state == CTRL_SQ_DELETING && ctrl->sqs[id].delete_cid == cid)
			return true;
	return false;
}

static uint16_t execute(struct fth_nvme_ctrl *ctrl, const struct fth_nvme_sqe *sqe,
			uint32_t *result)
{
	if (cid_is_held(ctrl, sqe->cid))
		return FTH_NVME_CID_CONFLICT;
	if (sqe->flags & (FTH_NVME_FLAGS_FUSED | FTH_NVME_FLAGS_PSDT))
		return FTH_NVME_INVALID_FIELD;
	switch (sqe->opcode) {
	case FTH_NVME_IDENTIFY:
		return fth_ctrl_identify(ctrl, sqe);
	case FTH_NVME_CREATE_CQ:
		return create_cq(ctrl, sqe);
	case FTH_NVME_CREATE_SQ:
		return create_sq(ctrl, sqe);
	case FTH_NVME_DELETE_CQ:
		return delete_cq(ctrl, sqe);
	case FTH_NVME_DELETE_SQ:
		return delete_sq(ctrl, sqe);
	case FTH_NVME_SET_FEATURES:
		return fth_ctrl_set_features(ctrl, sqe, result);
	case FTH_NVME_GET_FEATURES:
		return fth_ctrl_get_features(ctrl, sqe, result);
	case FTH_NVME_GET_LOG_PAGE:
		return fth_ctrl_get_log_page(ctrl, sqe);
	case FTH_NVME_ABORT:
		return abort_command(ctrl, sqe, result);
	case FTH_NVME_ASYNC_EVENT:
		return hold_event_request(ctrl, sqe);
	default:
		return FTH_NVME_INVALID_OPCODE;
	}
}

/* Run the next command of the admin queue; its completion's slot is reserved. */
static void run_next(struct fth_nvme_ctrl *ctrl)
{
	struct ctrl_sq *sq = &ctrl->sqs[0];
	struct fth_nvme_sqe sqe;
	uint32_t result = 0;
	uint16_t status;

	fth_ctrl_sq_copy(sq, sq->head, &sqe);
	fth_store_relaxed_dev32(&sq->head, fth_ctrl_sq_after(sq, sq->head));
	status = execute(ctrl, &sqe, &result);
	if (status == HELD) {
		unreserve(ctrl);
		return;
	}
	if (status)
		fth_ctrl_log_error(ctrl, 0, &sqe, status);
	complete(ctrl, sqe.cid, status, result);
}

unsigned fth_ctrl_admin_service(struct fth_nvme_ctrl *ctrl)
{
	unsigned n = 0;

	while (n < ADMIN_BATCH && fth_ctrl_sq_pending(ctrl, &ctrl->sqs[0]) > 0 && reserve(ctrl)) {
		run_next(ctrl);
		n++;
	}
	n += finish_deletes(ctrl);
	n += finish_aborts(ctrl);
	n += tell_event(ctrl);
	return n;
}

/* There may be admin commands to run. world is held shared. */
bool fth_ctrl_admin_wanted(const struct fth_nvme_ctrl *ctrl)
{
	return ctrl->state == CTRL_READY && fth_ctrl_sq_rung(&ctrl->sqs[0]);
}

void fth_ctrl_admin_reset(struct fth_nvme_ctrl *ctrl)
{
	ctrl->deleting = 0;
	ctrl->aer_count = 0;
	ctrl->events_masked = 0;
	fth_store_relaxed_dev32(&ctrl->events, 0);
	memset(ctrl->aborts, 0, sizeof(ctrl->aborts));
}
