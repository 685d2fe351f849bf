/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host's side of a GPU drive, and of the controller on GPU blocks, ctrl.cu. The other back end
 * is drive_service.cu.
 */
#include "drive.h"
#include "base/options.h"

#include "base/cuda_error.h"
#include "fathom/hd/wait.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINE		 128u /* of the GPU's caches */
#define WARPS_IN_ALL	 512u /* of the controller, where queue pairs are few */
#define BATCH_OF_DATA	 16u
#define BATCH_OF_NOTHING 32u
#define NAP_NS		 50000

/* ---- options ---- */

static int check_block(const struct fth_gpu_drive_options *o)
{
	if (o->block & (o->block - 1) || o->block < FTH_GPU_BLOCK_MIN ||
	    o->block > FTH_GPU_BLOCK_MAX)
		return fth_fail(EINVAL, "gpu drive: block %u is not a power of two from %u to %u",
				o->block, FTH_GPU_BLOCK_MIN, FTH_GPU_BLOCK_MAX);
	if (o->bytes % o->block)
		return fth_fail(EINVAL,
				"gpu drive: bytes %llu is not a multiple of its blocks of %u bytes",
				(unsigned long long)o->bytes, o->block);
	return 0;
}

static int check_opts(const struct fth_gpu_drive_options *o)
{
	int rc = fth_options_check("gpu drive", o->size, sizeof(*o));

	if (rc < 0)
		return rc;
	if ((unsigned)o->medium > FTH_GPU_MEDIUM_NONE)
		return fth_fail(EINVAL, "gpu drive: unknown medium %u", (unsigned)o->medium);
	if (o->ssds < 1 || o->ssds > FTH_GPU_SSDS_MAX)
		return fth_fail(EINVAL, "gpu drive: %u SSDs, expected 1 to %u", o->ssds,
				FTH_GPU_SSDS_MAX);
	if (o->queues < o->ssds || o->queues > FTH_GPU_QUEUES_MAX)
		return fth_fail(
			EINVAL,
			"gpu drive: %u queue pairs for %u SSDs, expected one for each to %u",
			o->queues, o->ssds, FTH_GPU_QUEUES_MAX);
	if (o->timeout_ms == 0)
		return fth_fail(EINVAL, "gpu drive: timeout_ms is 0");
	if (o->entries < 2 || o->entries > 65536 || (o->entries & (o->entries - 1)))
		return fth_fail(EINVAL,
				"gpu drive: entries %u is not a power of two from 2 to 65536",
				o->entries);
	if (o->bytes == 0 || o->bytes % FTH_NVME_PAGE_SIZE || o->bytes > SIZE_MAX / o->ssds)
		return fth_fail(EINVAL, "gpu drive: bytes %llu is not a multiple of %u",
				(unsigned long long)o->bytes, FTH_NVME_PAGE_SIZE);
	if (o->warps > FTH_GPU_CTRL_WARPS_MAX || o->batch > 32)
		return fth_fail(EINVAL, "gpu drive: warps %u, batch %u: at most %u and 32",
				o->warps, o->batch, FTH_GPU_CTRL_WARPS_MAX);
	return o->block ? check_block(o) : 0;
}

static void choose(struct fth_gpu_drive *drive)
{
	struct fth_gpu_drive_options *o = &drive->opts;
	uint32_t warps = WARPS_IN_ALL / o->queues;

	if (o->warps == 0)
		o->warps = warps < 1			    ? 1
			   : warps > FTH_GPU_CTRL_WARPS_MAX ? FTH_GPU_CTRL_WARPS_MAX
							    : warps;
	if (o->batch == 0)
		o->batch = o->medium == FTH_GPU_MEDIUM_NONE ? BATCH_OF_NOTHING : BATCH_OF_DATA;
	if (o->block == 0)
		o->block = FTH_GPU_BLOCK_MIN;
	while ((1u << drive->block_shift) < o->block)
		drive->block_shift++;
	while ((1u << drive->shift) < o->entries)
		drive->shift++;
	/* Whole words of the id bitmap: warps that take and return 32 at once leave them whole. */
	drive->ids = (o->entries - 1) / 32 * 32;
	if (drive->ids == 0)
		drive->ids = o->entries - 1;
}

/* ---- what the controller is given ---- */

static void set_speed(struct fth_gpu_ctrl_speed *to, const struct fth_dev_speed *from)
{
	to->latency_ns = from->latency_ns;
	to->cost_512 = fth_dev_speed_cost(from, 512);
	to->cost_4k = fth_dev_speed_cost(from, 4096);
}

static int set_ssds(struct fth_gpu_drive *drive)
{
	struct fth_gpu_ctrl_ssd *ssds = drive->stage->ssds;
	const struct fth_dev_model *model = drive->opts.model;

	for (uint32_t i = 0; i < drive->opts.ssds; i++) {
		ssds[i].medium = (char *)fth_gpu_drive_mapped(drive, i);
		ssds[i].blocks = drive->opts.bytes >> drive->block_shift;
		if (!model)
			continue;
		set_speed(&ssds[i].read, &model->read);
		set_speed(&ssds[i].write, &model->write);
		ssds[i].flush_ns = model->flush_ns;
	}
	return fth_gpu_check(cudaMemcpyAsync(drive->arena.ssds, ssds,
					     drive->opts.ssds * sizeof(ssds[0]),
					     cudaMemcpyHostToDevice, drive->side_stream),
			     "describing the SSDs");
}

static void set_ctrl(struct fth_gpu_drive *drive)
{
	struct fth_gpu_ctrl *ctrl = &drive->ctrl;

	ctrl->queues = drive->arena.queues;
	ctrl->ssds = drive->arena.ssds;
	ctrl->control = drive->arena.control;
	ctrl->counts = drive->arena.counts;
	ctrl->late = drive->opts.late_data ? drive->arena.late : NULL;
	ctrl->queue_count = drive->opts.queues;
	ctrl->warps = drive->opts.warps;
	ctrl->batch = drive->opts.batch;
	ctrl->block_shift = drive->block_shift;
	ctrl->host_medium = drive->opts.medium == FTH_GPU_MEDIUM_HOST;
	ctrl->modelled = drive->opts.model != NULL;
	ctrl->late_ns = drive->opts.late_us * 1000ull;
}

/* ---- queue pairs ---- */

__global__ static void init_queues(struct fth_gpu_arena a, uint32_t queues, uint32_t ssds,
				   uint32_t shift, uint32_t ids)
{
	uint32_t q = blockIdx.x * blockDim.x + threadIdx.x;
	struct fth_nvme_qp_setup setup = {};
	struct fth_gpu_ctrl_queue *seen = &a.queues[q];

	if (q >= queues)
		return;
	setup.sq = a.sq + ((size_t)q * sizeof(struct fth_nvme_sqe) << shift);
	setup.cq = a.cq + ((size_t)q * sizeof(struct fth_nvme_cqe) << shift);
	setup.memory = a.memory + q * a.memory_each;
	setup.sq_doorbell = (uint32_t *)(a.doorbells + (size_t)q * 2 * LINE);
	setup.cq_doorbell = (uint32_t *)(a.doorbells + ((size_t)q * 2 + 1) * LINE);
	setup.sq_shift = shift;
	setup.cq_shift = shift;
	setup.ids = ids;
	setup.qid = q + 1;
	*setup.sq_doorbell = 0;
	*setup.cq_doorbell = 0;
	fth_nvme_qp_init(&a.qps[q], &setup); /* can not fail: the options were checked */
	seen->sq = (const struct fth_nvme_sqe *)setup.sq;
	seen->cq = (struct fth_nvme_cqe *)setup.cq;
	seen->sq_doorbell = setup.sq_doorbell;
	seen->cq_doorbell = setup.cq_doorbell;
	seen->sq_shift = shift;
	seen->cq_shift = shift;
	seen->qid = q + 1;
	seen->ssd = q % ssds;
}

static int reset_arena(struct fth_gpu_drive *drive)
{
	const struct fth_gpu_drive_options *o = &drive->opts;
	struct fth_gpu_arena *a = &drive->arena;
	int rc = fth_gpu_check(cudaMemsetAsync(a->base, 0, a->bytes, drive->side_stream),
			       "clearing queue pairs");

	if (rc < 0)
		return rc;
	init_queues<<<(o->queues + 31) / 32, 32, 0, drive->side_stream>>>(*a, o->queues, o->ssds,
									  drive->shift, drive->ids);
	rc = fth_gpu_check(cudaGetLastError(), "launching a kernel");
	if (rc == 0)
		rc = set_ssds(drive);
	return rc < 0 ? rc
		      : fth_gpu_drive_finish(drive->side_stream, fth_gpu_drive_deadline(drive),
					     "making queue pairs on the GPU");
}

/* ---- talking to the controller while it runs ---- */

static void nap(void)
{
	struct timespec time = {0, NAP_NS};

	nanosleep(&time, NULL);
}

uint64_t fth_gpu_drive_deadline(const struct fth_gpu_drive *drive)
{
	return fth_deadline_ns(drive->opts.timeout_ms * 1000000ull);
}

int fth_gpu_drive_finish(cudaStream_t stream, uint64_t deadline, const char *what)
{
	for (;;) {
		cudaError_t err = cudaStreamQuery(stream);

		if (err != cudaErrorNotReady)
			return fth_gpu_check(err, what);
		if (fth_now_ns() >= deadline)
			return fth_fail(ETIME, "%s: timed out waiting for the GPU", what);
		nap();
	}
}

static int fetch(struct fth_gpu_drive *drive, void *to, const void *from, size_t bytes)
{
	int rc = fth_gpu_check(
		cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, drive->side_stream),
		"reading GPU memory");

	return rc < 0 ? rc
		      : fth_gpu_drive_finish(drive->side_stream, fth_gpu_drive_deadline(drive),
					     "reading GPU memory");
}

static int wait_until_up(struct fth_gpu_drive *drive)
{
	uint32_t warps = drive->opts.queues * drive->opts.warps;
	uint64_t deadline = fth_gpu_drive_deadline(drive);

	for (;;) {
		int rc = fetch(drive, &drive->stage->control, drive->arena.control,
			       sizeof(drive->stage->control));

		if (rc < 0 || drive->stage->control.up == warps)
			return rc;
		if (fth_now_ns() >= deadline)
			return fth_fail(ETIME,
					"timed out: only %u of %u warps of the controller started",
					drive->stage->control.up, warps);
		nap();
	}
}

/* ---- starting and stopping ---- */

/* All blocks at once, or a queue pair would never be served. */
static int check_capacity(struct fth_gpu_drive *drive)
{
	uint32_t blocks = 0;
	int rc = fth_gpu_check(fth_gpu_ctrl_capacity(&drive->ctrl, drive->device, &blocks),
			       "asking for the GPU's size");

	if (rc == 0 && blocks < drive->opts.queues)
		rc = fth_fail(ENOSPC,
			      "the GPU runs %u blocks of %u warps at once, the drive needs %u",
			      blocks, drive->opts.warps, drive->opts.queues);
	return rc;
}

static int start_ctrl(struct fth_gpu_drive *drive)
{
	int rc = reset_arena(drive);

	if (rc == 0)
		rc = fth_gpu_check(fth_gpu_ctrl_launch(&drive->ctrl, drive->run_stream),
				   "launching the controller");
	return rc < 0 ? rc : wait_until_up(drive);
}

/* By the copy engine: it needs no place on a GPU that is full of kernels that wait. */
int fth_gpu_drive_cancel(struct fth_gpu_drive *drive)
{
	int rc;

	for (uint32_t q = 0; q < drive->opts.queues; q++)
		drive->stage->errors[q] = ESHUTDOWN;
	rc = fth_gpu_check(cudaMemcpy2DAsync(&drive->arena.qps->failed, sizeof(struct fth_nvme_qp),
					     drive->stage->errors, sizeof(uint32_t),
					     sizeof(uint32_t), drive->opts.queues,
					     cudaMemcpyHostToDevice, drive->side_stream),
			   "cancelling waits");
	return rc < 0 ? rc
		      : fth_gpu_drive_finish(drive->side_stream, fth_gpu_drive_deadline(drive),
					     "cancelling waits");
}

static int stop_ctrl(struct fth_gpu_drive *drive)
{
	uint64_t deadline = fth_gpu_drive_deadline(drive);
	int rc;

	drive->stage->one = 1;
	rc = fth_gpu_check(cudaMemcpyAsync(&drive->arena.control->stop, &drive->stage->one,
					   sizeof(drive->stage->one), cudaMemcpyHostToDevice,
					   drive->side_stream),
			   "telling the controller to stop");
	if (rc == 0)
		rc = fth_gpu_drive_finish(drive->run_stream, deadline, "stopping the controller");
	/* Only now: whoever sees the failure may reuse its buffers, nobody writes to them. */
	return rc < 0 ? rc : fth_gpu_drive_cancel(drive);
}

int fth_gpu_drive_start(struct fth_gpu_drive *drive)
{
	int rc = drive->stopping ? fth_gpu_drive_stop(drive) : 0;
	struct fth_gpu_kept kept;

	if (rc < 0 || drive->running)
		return rc;
	drive->running = true;
	rc = drive->ops->start(drive);
	if (rc == 0)
		return 0;
	kept = fth_gpu_keep(rc);
	(void)fth_gpu_drive_stop(drive);
	return fth_gpu_tell(&kept);
}

int fth_gpu_drive_stop(struct fth_gpu_drive *drive)
{
	int rc;

	if (!drive->running)
		return 0;
	rc = drive->ops->stop(drive);
	drive->running = drive->stopping = rc == -ETIME;
	return rc;
}

/* What the warps have counted. */
static void add_up(const struct fth_gpu_drive *drive, struct fth_gpu_drive_stats *stats)
{
	const struct fth_gpu_stage *stage = drive->stage;

	for (uint32_t i = 0; i < drive->opts.queues * drive->opts.warps; i++) {
		stats->commands += stage->counts[i].commands;
		stats->batches += stage->counts[i].batches;
		stats->blocks_read += stage->counts[i].blocks_read;
		stats->blocks_written += stage->counts[i].blocks_written;
		stats->flushes += stage->counts[i].flushes;
		stats->errors += stage->counts[i].errors;
	}
}

static const struct fth_gpu_drive_ops on_gpu_blocks = {true, start_ctrl, stop_ctrl, add_up};

/* ---- opening and closing ---- */

int fth_gpu_drive_make_streams(struct fth_gpu_drive *drive)
{
	int rc = fth_gpu_check(cudaStreamCreateWithFlags(&drive->run_stream, cudaStreamNonBlocking),
			       "a stream");

	return rc < 0 ? rc
		      : fth_gpu_check(cudaStreamCreateWithFlags(&drive->side_stream,
								cudaStreamNonBlocking),
				      "a stream");
}

static int load_kernels(void)
{
	struct cudaFuncAttributes attributes;
	int rc = fth_gpu_check(fth_gpu_ctrl_load(), "loading the controller");

	return rc < 0 ? rc
		      : fth_gpu_check(cudaFuncGetAttributes(&attributes, init_queues),
				      "loading kernels");
}

static int set_up(struct fth_gpu_drive *drive)
{
	int rc = fth_gpu_check(cudaGetDevice(&drive->device), "finding the GPU");

	if (rc == 0)
		rc = load_kernels();
	if (rc == 0)
		rc = fth_gpu_drive_make_streams(drive);
	if (rc == 0)
		rc = fth_gpu_drive_alloc_arena(drive);
	if (rc == 0)
		rc = fth_gpu_drive_alloc_medium(drive);
	if (rc < 0)
		return rc;
	set_ctrl(drive);
	rc = check_capacity(drive);
	return rc < 0 ? rc : fth_gpu_drive_start(drive);
}

int fth_gpu_drive_open(const struct fth_gpu_drive_options *opts, struct fth_gpu_drive **out)
{
	struct fth_gpu_drive *drive;
	int rc = check_opts(opts);

	if (rc < 0)
		return rc;
	drive = (struct fth_gpu_drive *)calloc(1, sizeof(*drive));
	if (!drive)
		return -ENOMEM;
	drive->opts = *opts;
	drive->ops = &on_gpu_blocks;
	choose(drive);
	rc = set_up(drive);
	if (rc < 0)
		return fth_gpu_drive_give_up(drive, rc);
	*out = drive;
	return 0;
}

int fth_gpu_drive_give_up(struct fth_gpu_drive *drive, int rc)
{
	struct fth_gpu_kept kept = fth_gpu_keep(rc);

	if (!drive->running) {
		(void)fth_gpu_drive_release(drive);
		free(drive);
	}
	return fth_gpu_tell(&kept);
}

int fth_gpu_drive_close(struct fth_gpu_drive *drive)
{
	struct fth_gpu_kept kept;
	int rc;

	if (!drive)
		return 0;
	rc = fth_gpu_drive_stop(drive);
	/* A controller that still runs still uses all of it: better lost than freed under it. */
	if (rc == -ETIME)
		return rc;
	kept = fth_gpu_keep(rc);
	rc = fth_gpu_drive_release(drive);
	free(drive);
	return kept.rc < 0 ? fth_gpu_tell(&kept) : rc;
}

/* ---- asking ---- */

struct fth_gpu_view fth_gpu_drive_view(const struct fth_gpu_drive *drive)
{
	struct fth_gpu_view view = {};

	view.qps = drive->arena.qps;
	view.order = drive->opts.ordered ? drive->arena.order : NULL;
	view.blocks = drive->opts.bytes >> drive->block_shift;
	view.block_shift = drive->block_shift;
	view.queues = drive->opts.queues;
	view.ssds = drive->opts.ssds;
	if (drive->service) {
		view.bounce = (uint8_t *)drive->slots.device;
		view.bounce_bus = drive->service->bounce.iova;
		view.bounce_slot = drive->service->slot;
	}
	return view;
}

struct fth_dev *fth_gpu_drive_dev(const struct fth_gpu_drive *drive)
{
	return drive->service && !drive->service->of_dev ? drive->service->dev : NULL;
}

void *fth_gpu_drive_medium(const struct fth_gpu_drive *drive, uint32_t ssd)
{
	char *base = drive->opts.medium == FTH_GPU_MEDIUM_HOST ? drive->host : drive->mapped;

	if (drive->opts.memory)
		base = (char *)drive->opts.memory;

	return base ? base + ssd * drive->opts.bytes : NULL;
}

void *fth_gpu_drive_mapped(const struct fth_gpu_drive *drive, uint32_t ssd)
{
	return drive->mapped ? drive->mapped + ssd * drive->opts.bytes : NULL;
}

/* What the queue pairs have counted. */
static void add_queues(const struct fth_gpu_drive *drive, struct fth_gpu_drive_stats *stats)
{
	const struct fth_gpu_stage *stage = drive->stage;

	for (uint32_t q = 0; q < drive->opts.queues; q++) {
		stats->sq_doorbells += stage->qps[q].sq_doorbell_writes;
		stats->cq_doorbells += stage->qps[q].cq_doorbell_writes;
	}
	stats->second_commands = stage->order.commands;
}

int fth_gpu_drive_stats(struct fth_gpu_drive *drive, struct fth_gpu_drive_stats *stats)
{
	struct fth_gpu_stage *stage = drive->stage;
	struct fth_gpu_arena *arena = &drive->arena;
	size_t queues = drive->opts.queues, warps = queues * drive->opts.warps;
	int rc = fetch(drive, stage->counts, arena->counts, warps * sizeof(stage->counts[0]));

	memset(stats, 0, sizeof(*stats));
	if (rc == 0)
		rc = fetch(drive, stage->qps, arena->qps, queues * sizeof(stage->qps[0]));
	if (rc == 0)
		rc = fetch(drive, &stage->order, arena->order, sizeof(stage->order));
	if (rc == 0)
		rc = fetch(drive, &stage->control, arena->control, sizeof(stage->control));
	if (rc < 0)
		return rc;
	drive->ops->stats(drive, stats);
	add_queues(drive, stats);
	if (stage->control.broken)
		return fth_fail(EPROTO,
				"queue pair %u: an invalid value was written to its doorbell",
				stage->control.broken - 1);
	return 0;
}
