/* SPDX-License-Identifier: BSD-2-Clause */
#include "queue_design.h"

static void *ours_open(struct fth_nvme_qp *qp)
{
	return qp;
}

static void ours_close(void *queue)
{
	(void)queue;
}

static uint16_t ours_exec(void *queue, const struct fth_nvme_sqe *command, uint32_t hint)
{
	struct fth_nvme_done done = {0, 0};
	int rc = fth_nvme_qp_exec(queue, command, hint, FTH_NEVER, &done, NULL);

	return rc < 0 && done.status == 0 ? FTH_NVME_INTERNAL_ERROR : done.status;
}

static uint64_t ours_doorbells(void *queue)
{
	struct fth_nvme_qp *qp = queue;

	return qp->sq_doorbell_writes + qp->cq_doorbell_writes;
}

const struct queue_design queue_design_ours = {
	.name = "ours",
	.open = ours_open,
	.close = ours_close,
	.exec = ours_exec,
	.doorbells = ours_doorbells,
};
