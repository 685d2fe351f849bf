/* SPDX-License-Identifier: BSD-2-Clause */
/* The invariants of ctrl/README.md as code, for tests and fuzzing. */
#include "nvme/ctrl/ctrl_internal.h"

#include "fathom/base/error.h"

#include <errno.h>

#define REQUIRE(condition)                                                    \
	do {                                                                  \
		if (!(condition))                                             \
			return fth_fail(EFAULT, "%s", "not so: " #condition); \
	} while (0)

static int check_cq(const struct fth_nvme_ctrl *ctrl, const struct ctrl_cq *cq)
{
	if (!cq->exists)
		return 0;
	REQUIRE(cq->size >= 2 && cq->size <= 65536);
	REQUIRE(cq->head < cq->size && cq->tail < cq->size && cq->phase <= 1);
	REQUIRE(cq->used + cq->reserved <= cq->size - 1);
	REQUIRE((cq->head + cq->used) % cq->size == cq->tail);
	REQUIRE(cq->sq_count <= ctrl->io_queues + 1);
	REQUIRE(cq->lock == 0);
	return 0;
}

static int check_sq(const struct fth_nvme_ctrl *ctrl, const struct ctrl_sq *sq)
{
	if (sq->state == CTRL_SQ_NONE)
		return 0;
	REQUIRE(sq->head < sq->size);
	REQUIRE(sq->cq->exists && sq->cq->sq_count > 0);
	REQUIRE(sq->in_flight <= ctrl->worker_count * ctrl->depth);
	REQUIRE(sq->abort_marks <= CTRL_ABORT_MAX);
	REQUIRE(sq->lock == 0);
	return 0;
}

static int check_grants(const struct fth_nvme_ctrl *ctrl)
{
	for (unsigned i = 1; i < ctrl->grant_count; i++) {
		const struct ctrl_grant *grant = &ctrl->grants[i - 1];

		REQUIRE(grant->iova + (grant->len - 1) < ctrl->grants[i].iova);
	}
	return 0;
}

/* Every context is in exactly one place. */
static int check_worker(const struct ctrl_worker *w)
{
	unsigned free = 0, waiting = 0, on_dev = 0, bounces = w->bounce_count;

	for (unsigned i = 0; i < w->ctrl->depth; i++) {
		const struct ctrl_cmd *cmd = &w->cmds[i];

		free += cmd->state == CTRL_CMD_FREE;
		waiting += cmd->state == CTRL_CMD_WAITING;
		on_dev += cmd->state == CTRL_CMD_ON_DEV;
		bounces += cmd->state != CTRL_CMD_FREE && cmd->bounce;
		REQUIRE(cmd->state == CTRL_CMD_FREE || cmd->piece_count <= CTRL_PIECES);
	}
	REQUIRE(free == w->free_count);
	REQUIRE(free + waiting + on_dev == w->ctrl->depth);
	REQUIRE(bounces == CTRL_BOUNCE_COUNT);
	REQUIRE(w->ended_count == 0);
	REQUIRE(on_dev >= w->batch_count);
	for (const struct ctrl_cmd *cmd = w->waiting; cmd; cmd = cmd->next)
		waiting--;
	REQUIRE(waiting == 0);
	return 0;
}

static int check_all(const struct fth_nvme_ctrl *ctrl)
{
	int rc = check_grants(ctrl);

	for (uint32_t i = 0; rc == 0 && i <= ctrl->io_queues; i++) {
		rc = check_cq(ctrl, &ctrl->cqs[i]);
		if (rc == 0)
			rc = check_sq(ctrl, &ctrl->sqs[i]);
	}
	for (unsigned i = 0; rc == 0 && i < ctrl->worker_count; i++)
		rc = check_worker(&ctrl->workers[i]);
	return rc;
}

int fth_ctrl_check(struct fth_nvme_ctrl *ctrl)
{
	int rc;

	pthread_rwlock_wrlock(&ctrl->world);
	rc = check_all(ctrl);
	pthread_rwlock_unlock(&ctrl->world);
	return rc;
}
