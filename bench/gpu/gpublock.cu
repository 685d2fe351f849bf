/* SPDX-License-Identifier: BSD-2-Clause */
/* The engine of `fathom bench gpublock`: memory, runs, checks. gpublock_kernels.h has the kernels.
 */
#include "gpublock.h"

#include "gpu_common.h"
#include "gpublock_kernels.h"

#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 262144u
#define PER_BLOCK   128u
#define FILL_BLOCKS 1056u
#define QUEUES_MAX  1024u

struct gpublock {
	struct gpublock_setup setup;
	struct gpu_rig rig;
	struct gpublock_job job; /* what all runs share */
	unsigned long long *wrong;
	uint64_t next; /* command: fresh blocks for every run */
	uint32_t stamps;
};

/* ---- memory ---- */

static int alloc_all(struct gpublock *b)
{
	struct gpublock_job *job = &b->job;
	int rc = gpu_rig_open(&b->rig, b->setup.medium);

	job->medium = b->rig.medium.mapped;
	TRY(rc, cudaMalloc((void **)&job->data, b->setup.data));
	TRY(rc, cudaMalloc((void **)&job->done, THREADS_MAX * sizeof(uint32_t)));
	TRY(rc, cudaMalloc((void **)&job->failed, 2 * sizeof(uint32_t)));
	TRY(rc, cudaMalloc((void **)&job->locks, QUEUES_MAX * sizeof(struct gpublock_lock)));
	TRY(rc, cudaMalloc((void **)&b->wrong, sizeof(*b->wrong)));
	return rc;
}

static void set_block(struct gpublock *b, uint32_t block, bool write)
{
	b->job.block = block;
	b->job.mask = b->setup.medium / b->setup.ssds / block - 1;
	b->job.view.ssds = b->setup.ssds;
	b->job.write = write;
}

/* Stamp the whole medium, over PCIe. */
static int fill_medium(struct gpublock *b)
{
	int rc = 0;

	set_block(b, 512, false);
	b->job.first = 0;
	b->job.stamp = 0;
	gpublock_fill<<<FILL_BLOCKS, 256, 0, b->rig.stream>>>(
		b->job, (b->job.mask + 1) * b->setup.ssds, true);
	TRY(rc, cudaGetLastError());
	TRY(rc, cudaStreamSynchronize(b->rig.stream));
	return rc;
}

int gpublock_open(const struct gpublock_setup *setup, struct gpublock **out)
{
	struct gpublock *b = (struct gpublock *)calloc(1, sizeof(*b));
	int rc;

	if (!b)
		return -ENOMEM;
	b->setup = *setup;
	rc = alloc_all(b);
	if (rc == 0)
		rc = fill_medium(b);
	if (rc < 0) {
		gpublock_close(b);
		return rc;
	}
	*out = b;
	return 0;
}

void gpublock_close(struct gpublock *b)
{
	if (!b)
		return;
	/* What fails here fails because the GPU has; the results were told before. */
	(void)cudaFree(b->job.data);
	(void)cudaFree(b->job.done);
	(void)cudaFree(b->job.failed);
	(void)cudaFree(b->job.locks);
	(void)cudaFree(b->wrong);
	gpu_rig_close(&b->rig);
	free(b);
}

const char *gpublock_gpu(const struct gpublock *b)
{
	return b->rig.gpu.name;
}

double gpublock_pin_seconds(const struct gpublock *b)
{
	return b->rig.medium.seconds;
}

/* ---- before and after a run of n commands ---- */

/* Spoil the place that data goes to; for writes, fill the place that it comes from. */
static int prepare(struct gpublock *b, uint64_t n)
{
	struct gpublock_job *job = &b->job;
	int rc = 0;

	job->first = b->next;
	job->stamp = job->write ? ++b->stamps : 0;
	b->next += n;
	TRY(rc, cudaMemsetAsync(job->failed, 0, 2 * sizeof(uint32_t), b->rig.stream));
	TRY(rc, cudaMemsetAsync(b->wrong, 0, sizeof(*b->wrong), b->rig.stream));
	if (!job->write) {
		TRY(rc, cudaMemsetAsync(job->data, 0xa5, n * job->block, b->rig.stream));
	} else {
		gpublock_fill<<<FILL_BLOCKS, 256, 0, b->rig.stream>>>(*job, n, false);
		TRY(rc, cudaGetLastError());
	}
	TRY(rc, cudaStreamSynchronize(b->rig.stream));
	return rc;
}

/* Look at every byte that was moved; put the medium back as it was. */
static int verify(struct gpublock *b, uint64_t n)
{
	struct gpublock_job restore = b->job;
	unsigned long long wrong = 0;
	int rc = 0;

	gpublock_check<<<FILL_BLOCKS, 256, 0, b->rig.stream>>>(b->job, n, b->job.write, b->wrong);
	TRY(rc, cudaGetLastError());
	if (b->job.write) {
		restore.stamp = 0;
		gpublock_fill<<<FILL_BLOCKS, 256, 0, b->rig.stream>>>(restore, n, true);
		TRY(rc, cudaGetLastError());
	}
	TRY(rc, cudaMemcpyAsync(&wrong, b->wrong, sizeof(wrong), cudaMemcpyDeviceToHost,
				b->rig.stream));
	TRY(rc, cudaStreamSynchronize(b->rig.stream));
	if (rc == 0 && wrong)
		rc = fth_fail(EILSEQ, "%llu sixteen-byte words of %llu blocks were wrong", wrong,
			      (unsigned long long)n);
	return rc;
}

/* ---- the limit ---- */

static void launch_copy(struct gpublock *b, unsigned way, uint64_t n)
{
	unsigned processors = (unsigned)b->rig.gpu.multiProcessorCount;

	switch (way) {
	case 0:
		gpublock_copy<1><<<8 * processors, 256, 0, b->rig.stream>>>(b->job, n);
		break;
	case 1:
		gpublock_copy<8><<<2 * processors, 256, 0, b->rig.stream>>>(b->job, n);
		break;
	case 2:
		gpublock_copy<4><<<4 * processors, 256, 0, b->rig.stream>>>(b->job, n);
		break;
	default:
		gpublock_copy<8><<<8 * processors, 256, 0, b->rig.stream>>>(b->job, n);
	}
}

int gpublock_raw(struct gpublock *b, uint32_t block, bool write, double *rate)
{
	uint64_t n = b->setup.data / block / 8 * 8;
	uint32_t *done = b->job.done;
	int rc = 0;

	*rate = 0;
	set_block(b, block, write);
	b->job.done = NULL; /* all is */
	for (unsigned way = 0; rc == 0 && way < 4; way++) {
		double seconds = 0;

		rc = prepare(b, n);
		TRY(rc, cudaEventRecord(b->rig.begin, b->rig.stream));
		if (rc < 0)
			break;
		launch_copy(b, way, n);
		TRY(rc, cudaGetLastError());
		if (rc == 0)
			rc = gpu_rig_elapsed(&b->rig, &seconds);
		if (rc == 0)
			rc = verify(b, n);
		if (rc == 0 && (double)n / seconds > *rate)
			*rate = (double)n / seconds;
	}
	b->job.done = done;
	return rc;
}

/* ---- a run ---- */

static int open_drive(struct gpublock *b, const struct gpublock_point *p,
		      struct fth_gpu_drive **drive)
{
	struct fth_gpu_drive_opts opts = FTH_GPU_DRIVE_OPTS_INIT;

	opts.medium = p->nothing ? FTH_GPU_MEDIUM_NONE : FTH_GPU_MEDIUM_HOST;
	opts.ssds = b->setup.ssds;
	opts.bytes = b->setup.medium / opts.ssds;
	opts.memory = b->rig.medium.host;
	opts.queues = p->queues;
	opts.entries = b->setup.entries;
	opts.warps = b->setup.warps;
	opts.batch = b->setup.batch;
	opts.model = b->setup.model;
	opts.ordered = b->setup.ordered;
	return fth_gpu_drive_open(&opts, drive);
}

static int launch(struct gpublock *b, const struct gpublock_point *p)
{
	uint32_t per_block = p->threads < PER_BLOCK ? p->threads : PER_BLOCK;
	uint32_t blocks = p->threads / per_block;
	int rc = 0;

	if (p->design == GPUBLOCK_LOCK)
		gpublock_init_locks<<<p->queues, 1, 0, b->rig.stream>>>(b->job);
	TRY(rc, cudaEventRecord(b->rig.begin, b->rig.stream));
	if (p->design == GPUBLOCK_WARP)
		gpublock_warp<<<blocks, per_block, 0, b->rig.stream>>>(b->job);
	else if (p->design == GPUBLOCK_THREAD)
		gpublock_thread<<<blocks, per_block, 0, b->rig.stream>>>(b->job);
	else
		gpublock_one_lock<<<blocks, per_block, 0, b->rig.stream>>>(b->job);
	TRY(rc, cudaGetLastError());
	return rc;
}

/* What the threads have done, and whether any of it failed. */
static int collect(struct gpublock *b, const struct gpublock_point *p, uint64_t *commands)
{
	uint32_t *done = (uint32_t *)malloc(p->threads * sizeof(*done)), failed[2] = {0, 0};
	int rc = done ? 0 : -ENOMEM;

	TRY(rc, cudaMemcpyAsync(done, b->job.done, p->threads * sizeof(*done),
				cudaMemcpyDeviceToHost, b->rig.stream));
	TRY(rc, cudaMemcpyAsync(failed, b->job.failed, sizeof(failed), cudaMemcpyDeviceToHost,
				b->rig.stream));
	TRY(rc, cudaStreamSynchronize(b->rig.stream));
	*commands = 0;
	for (uint32_t i = 0; rc == 0 && i < p->threads; i++)
		*commands += done[i];
	free(done);
	if (rc == 0 && failed[0])
		rc = fth_fail((int)failed[1], "%u threads failed, the last with %s", failed[0],
			      strerror((int)failed[1]));
	return rc;
}

static int run_on(struct gpublock *b, const struct gpublock_point *p, struct fth_gpu_drive *drive,
		  struct gpublock_result *result)
{
	uint64_t n = (uint64_t)b->job.rounds * p->threads;
	struct fth_gpu_drive_stats stats;
	double seconds = 0;
	int rc = prepare(b, n);

	b->job.view = fth_gpu_drive_view(drive);
	if (rc == 0)
		rc = launch(b, p);
	if (rc == 0)
		rc = gpu_rig_elapsed(&b->rig, &seconds);
	if (rc == 0)
		rc = collect(b, p, &result->commands);
	if (rc == 0 && !p->nothing)
		rc = verify(b, n);
	if (rc == 0)
		rc = fth_gpu_drive_stop(drive);
	if (rc == 0)
		rc = fth_gpu_drive_stats(drive, &stats);
	if (rc < 0)
		return rc;
	if (stats.commands != result->commands + stats.second_commands || stats.errors)
		return fth_fail(EIO, "%llu commands were asked for, %llu served, %llu failed",
				(unsigned long long)result->commands,
				(unsigned long long)stats.commands,
				(unsigned long long)stats.errors);
	result->rate = (double)result->commands / seconds;
	result->per_doorbell = (double)stats.commands / (double)stats.sq_doorbells;
	result->per_batch = (double)stats.commands / (double)stats.batches;
	result->second_commands = stats.second_commands;
	return 0;
}

int gpublock_run(struct gpublock *b, const struct gpublock_point *p, struct gpublock_result *result)
{
	uint64_t room = b->setup.data / p->block / p->threads;
	struct fth_gpu_drive *drive;
	int rc, closed;

	set_block(b, p->block, p->write);
	b->job.threads = p->threads;
	b->job.rounds = room > 4096 ? 4096 : (uint32_t)room;
	b->job.limit_ns = b->setup.ms * 1000000ull;
	if (room == 0 || p->threads > THREADS_MAX || p->threads % 32 || p->queues > QUEUES_MAX)
		return fth_fail(EINVAL, "%u threads are too many for the data", p->threads);
	rc = open_drive(b, p, &drive);
	if (rc < 0)
		return rc;
	rc = run_on(b, p, drive, result);
	closed = fth_gpu_drive_close(drive);
	return rc < 0 ? rc : closed;
}
