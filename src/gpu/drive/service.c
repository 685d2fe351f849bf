/* SPDX-License-Identifier: BSD-2-Clause */
#include "service.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"
#include "nvme/soft.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define THREADS 4u /* of the controller, where nothing else is asked for */
#define SLOT	8192u
#define POLL_NS 20000

/* ---- options ---- */

static int check_opts(const struct fth_gpu_drive_options *o)
{
	if (o->ssds != 1)
		return fth_fail(
			EINVAL,
			"%u SSDs: expected 1 for a device; use vol(...) to stripe over several",
			o->ssds);
	if (o->model)
		return fth_fail(EINVAL, "options.model applies to gpu: drives only; specify "
					"?model=NAME in the URI of a device");
	if (o->memory || o->late_data || o->warps || o->batch || o->block)
		return fth_fail(
			EINVAL,
			"memory, late_data, warps, batch and block apply to gpu: drives only");
	if (o->queues < 1 || o->queues > FTH_GPU_QUEUES_MAX)
		return fth_fail(EINVAL, "%u queue pairs, expected 1 to %u", o->queues,
				FTH_GPU_QUEUES_MAX);
	if (o->timeout_ms == 0)
		return fth_fail(EINVAL, "timeout_ms is 0");
	if (o->slot && (o->slot < FTH_GPU_BLOCK_MIN || o->slot > SLOT || (o->slot & (o->slot - 1))))
		return fth_fail(EINVAL, "slot %u is not a power of two from %u to %u", o->slot,
				FTH_GPU_BLOCK_MIN, SLOT);
	return 0;
}

/* The device's blocks are the drive's: a line must be able to hold one, and a slot as well. */
static int check_block(const struct fth_dev *dev, const struct fth_gpu_drive_options *o)
{
	uint32_t block = fth_dev_info(dev)->block;

	if (block > FTH_GPU_BLOCK_MAX)
		return fth_fail(EOPNOTSUPP, "the device has blocks of %u bytes, larger than %u",
				block, FTH_GPU_BLOCK_MAX);
	if (o->slot && o->slot < block)
		return fth_fail(EINVAL, "slot %u is smaller than the device's blocks of %u bytes",
				o->slot, block);
	return 0;
}

/* ---- opening ---- */

/* The software controller, and the driver that brings it up. */
static int open_ctrl(struct fth_gpu_service *s, const struct fth_gpu_drive_options *o)
{
	struct fth_nvme_ctrl_options ctrl = FTH_NVME_CTRL_OPTIONS_INIT;
	struct fth_nvme_options driver = FTH_NVME_OPTIONS_INIT;
	struct fth_nvme_transport *transport;
	int rc;

	ctrl.queue_entries = o->entries;
	ctrl.io_queues = o->queues;
	ctrl.threads = o->threads ? o->threads : o->queues < THREADS ? o->queues : THREADS;
	ctrl.lba_shift = 0; /* the device's blocks, or 512 */
	driver.queues = o->queues;
	driver.entries = o->entries;
	driver.timeout_ns = o->timeout_ms * 1000000ull;
	rc = fth_nvme_ctrl_new(s->dev, &ctrl, &s->ctrl);
	if (rc < 0)
		return rc;
	rc = fth_nvme_soft_new(s->ctrl, &transport);
	if (rc < 0) {
		fth_nvme_ctrl_free(s->ctrl);
		return rc;
	}
	rc = fth_nvme_open(transport, &driver, &s->nvme);
	if (rc < 0)
		transport->ops->close(transport);
	return rc;
}

/* Something that is an NVMe drive already needs no other: its queues are the GPU's. */
static int open_driver(struct fth_gpu_service *s, const struct fth_gpu_drive_options *o)
{
	s->nvme = fth_nvme_of_dev(s->dev);
	if (!s->nvme)
		return open_ctrl(s, o);
	s->of_dev = true;
	s->ctrl = fth_nvme_soft_ctrl(s->nvme);
	return 0;
}

static int make_slots(struct fth_gpu_service *s, const struct fth_gpu_drive_options *o)
{
	const struct fth_nvme_info *info = fth_nvme_info(s->nvme);

	s->queues = o->queues < info->queues ? o->queues : info->queues;
	s->shift = fth_nvme_qp(s->nvme, 0)->sq_shift;
	/* Whole words of the id bitmap: warps that take and return 32 at once leave them whole. */
	s->ids = info->ids < 32 ? info->ids : info->ids / 32 * 32;
	s->slot = o->slot ? o->slot : SLOT;
	s->blocks = info->blocks;
	s->block_shift = info->lba_shift;
	if (s->slot > info->max_transfer)
		return fth_fail(
			EOPNOTSUPP,
			"the drive's maximum transfer is %llu bytes, less than a slot of %u",
			(unsigned long long)info->max_transfer, s->slot);
	return fth_nvme_dma_alloc(s->nvme, (size_t)s->queues * s->ids * s->slot, &s->bounce);
}

static void note_counts(struct fth_gpu_service *s)
{
	for (unsigned i = 0; s->ctrl && i < FTH_NVME_CTRL_STAT_COUNT; i++)
		s->before[i] = fth_nvme_ctrl_stat(s->ctrl, (enum fth_nvme_ctrl_stat)i);
}

int fth_gpu_service_open(const char *uri, const struct fth_gpu_drive_options *opts,
			 struct fth_gpu_service **out)
{
	struct fth_gpu_service *s;
	int rc = check_opts(opts);

	if (rc < 0)
		return rc;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	rc = fth_dev_open(uri, &s->dev);
	if (rc == 0)
		rc = check_block(s->dev, opts);
	if (rc == 0)
		rc = open_driver(s, opts);
	if (rc == 0)
		rc = make_slots(s, opts);
	if (rc < 0) {
		fth_gpu_service_close(s);
		return fth_fail_in(rc, uri);
	}
	note_counts(s);
	*out = s;
	return 0;
}

void fth_gpu_service_close(struct fth_gpu_service *s)
{
	if (!s)
		return;
	if (s->nvme) {
		/* A controller that may still use the slots is disabled before they go. */
		if (!s->stopped)
			fth_nvme_fail(s->nvme, ESHUTDOWN);
		fth_nvme_dma_free(s->nvme, &s->bounce);
	}
	if (!s->of_dev)
		fth_nvme_close(s->nvme);
	fth_dev_close(s->dev);
	free(s);
}

/* ---- queue pairs ---- */

void fth_gpu_service_setup(const struct fth_gpu_service *s, uint32_t q,
			   struct fth_nvme_qp_setup *setup)
{
	const struct fth_nvme_qp *qp = fth_nvme_qp(s->nvme, q);

	*setup = (struct fth_nvme_qp_setup){.sq = qp->sq,
					    .cq = qp->cq,
					    .sq_doorbell = qp->sq_doorbell,
					    .cq_doorbell = qp->cq_doorbell,
					    .sq_shift = qp->sq_shift,
					    .cq_shift = qp->cq_shift,
					    .ids = s->ids,
					    .qid = qp->qid};
}

/* ---- stopping and starting ---- */

/* By hand, since the driver would wait as long as CAP.TO says. */
static int disable(struct fth_nvme_ctrl *ctrl, uint64_t deadline)
{
	uint32_t cc = fth_nvme_ctrl_read32(ctrl, FTH_NVME_REG_CC);
	const struct timespec pause = {0, POLL_NS};

	fth_nvme_ctrl_write32(ctrl, FTH_NVME_REG_CC, cc & ~FTH_NVME_CC_ENABLE);
	while (fth_nvme_ctrl_read32(ctrl, FTH_NVME_REG_CSTS) & FTH_NVME_CSTS_READY) {
		if (fth_now_ns() >= deadline)
			return fth_fail(ETIME, "timed out disabling the controller");
		nanosleep(&pause, NULL);
	}
	return 0;
}

int fth_gpu_service_stop(struct fth_gpu_service *s, uint64_t deadline)
{
	uint32_t csts;
	int rc = 0;

	if (s->stopped)
		return 0;
	if (s->ctrl)
		rc = disable(s->ctrl, deadline);
	if (rc < 0)
		return rc;
	fth_nvme_fail(s->nvme, ESHUTDOWN);
	csts = fth_nvme_register32(s->nvme, FTH_NVME_REG_CSTS);
	/* All ones: the drive has left, and touches nothing. */
	if (csts != UINT32_MAX && (csts & FTH_NVME_CSTS_READY))
		return fth_fail(ETIME, "timed out disabling the drive");
	s->stopped = true;
	return 0;
}

int fth_gpu_service_start(struct fth_gpu_service *s)
{
	int rc = fth_nvme_recover(s->nvme);

	if (rc < 0)
		return rc;
	s->stopped = false;
	note_counts(s);
	return 0;
}

/* ---- asking ---- */

static uint64_t since(const struct fth_gpu_service *s, enum fth_nvme_ctrl_stat which)
{
	return s->ctrl ? fth_nvme_ctrl_stat(s->ctrl, which) - s->before[which] : 0;
}

void fth_gpu_service_stats(const struct fth_gpu_service *s, struct fth_gpu_drive_stats *stats)
{
	stats->flushes = since(s, FTH_NVME_CTRL_STAT_FLUSHES);
	stats->commands = since(s, FTH_NVME_CTRL_STAT_READS) + since(s, FTH_NVME_CTRL_STAT_WRITES) +
			  since(s, FTH_NVME_CTRL_STAT_OTHERS) + stats->flushes;
	stats->batches = since(s, FTH_NVME_CTRL_STAT_DOORBELLS);
	stats->blocks_read = since(s, FTH_NVME_CTRL_STAT_BYTES_READ) >> s->block_shift;
	stats->blocks_written = since(s, FTH_NVME_CTRL_STAT_BYTES_WRITTEN) >> s->block_shift;
	stats->errors = since(s, FTH_NVME_CTRL_STAT_ERRORS);
}
