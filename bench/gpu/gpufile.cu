/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine of `fathom bench gpufile`: the drive, our side of every case, and both in turn.
 * gpufile_kernels.h has our kernels, gpufile_peer.cu the other side.
 *
 * Idle threads of a service sleep, so it stays as it is while the peer runs. No kernel of a service
 * drive is in the way of anything: GPU memory may be taken and freed at any time.
 */
#include "gpufile_internal.h"
#include "gpufile_kernels.h"

#include "fathom/hd/wait.h"

#include <stdlib.h>
#include <string.h>

#define PER_BLOCK    256u
#define CACHE_SHARE  8
#define RANDOM_SHARE 4
#define REQUEST	     (128u << 10)

/* ---- opening and closing ---- */

static uint64_t power_of_two_below(uint64_t n)
{
	while (n & (n - 1))
		n &= n - 1;
	return n;
}

int gpufile_open(const struct gpufile_setup *setup, struct gpufile **out)
{
	struct gpufile *b = (struct gpufile *)calloc(1, sizeof(*b));
	uint64_t data = 2ull * GPUFILE_LINE * setup->gpu_threads;
	int rc;

	if (!b)
		return -ENOMEM;
	b->setup = *setup;
	rc = gpu_rig_open(&b->rig, setup->cpu_threads * GPUFILE_BUFFERS * gpufile_tile(b));
	TRY(rc, cudaMalloc((void **)&b->report, sizeof(*b->report)));
	TRY(rc, cudaMalloc((void **)&b->data, data));
	TRY(rc, cudaMemsetAsync(b->data, 0xa5, data, b->rig.stream));
	TRY(rc, cudaStreamSynchronize(b->rig.stream));
	if (rc == 0)
		rc = gpufile_peer_open(b);
	if (rc < 0) {
		gpufile_close(b);
		return rc;
	}
	*out = b;
	return 0;
}

void gpufile_close(struct gpufile *b)
{
	if (!b)
		return;
	/* What fails here fails because the GPU has; the results were told before. */
	(void)fth_gpu_cache_close(b->cache);
	gpufile_peer_close(b);
	(void)fth_gpu_drive_close(b->drive);
	(void)cudaFree(b->data);
	(void)cudaFree(b->report);
	gpu_rig_close(&b->rig);
	free(b);
}

/* ---- the device ---- */

static int open_drive(struct gpufile *b, const char *uri)
{
	struct fth_gpu_drive_opts opts = FTH_GPU_DRIVE_OPTS_INIT;
	struct fth_gpu_view view;
	uint64_t bytes;
	int rc;

	opts.queues = b->setup.queues;
	opts.entries = b->setup.entries;
	opts.threads = b->setup.cpu_threads;
	opts.slot = GPUFILE_LINE;
	rc = fth_gpu_drive_open_uri(uri, &opts, &b->drive);
	if (rc < 0)
		return rc;
	b->dev = fth_gpu_drive_dev(b->drive);
	if (!b->dev)
		return fth_fail(EINVAL, "%s is not served by CPU threads", uri);
	view = fth_gpu_drive_view(b->drive);
	bytes = view.blocks << view.block_shift;
	b->size = power_of_two_below(bytes < b->setup.size ? bytes : b->setup.size);
	bytes = fth_dev_info(b->dev)->max_length;
	b->request = (uint32_t)power_of_two_below(bytes < REQUEST ? bytes : REQUEST);
	if (b->setup.cache == 0)
		b->setup.cache = b->size / CACHE_SHARE;
	return 0;
}

static int check_sizes(const struct gpufile *b)
{
	uint64_t lines = b->size / GPUFILE_LINE, held = b->setup.cache / GPUFILE_LINE;
	uint64_t wanted = 2ull * (b->setup.gpu_threads / 32) * b->setup.ahead;

	if (lines < b->setup.gpu_threads)
		return fth_fail(EINVAL, "%u threads are too many for %llu blocks of %u bytes",
				b->setup.gpu_threads, (unsigned long long)lines, GPUFILE_LINE);
	if (held > lines / 2)
		return fth_fail(EINVAL, "the cache is more than half of the %llu bytes used",
				(unsigned long long)b->size);
	if (held < wanted)
		return fth_fail(EINVAL, "a cache of %llu lines, and %llu are needed",
				(unsigned long long)held, (unsigned long long)wanted);
	if (b->request < GPUFILE_LINE)
		return fth_fail(EINVAL, "the device takes no requests of %u bytes", GPUFILE_LINE);
	return 0;
}

static int open_array(struct gpufile *b)
{
	struct fth_gpu_cache_opts cache = FTH_GPU_CACHE_OPTS_INIT;
	struct fth_gpu_array_opts array = FTH_GPU_ARRAY_OPTS_INIT;
	int rc;

	cache.bytes = b->setup.cache;
	cache.line = GPUFILE_LINE;
	array.count = b->size / 8;
	array.readonly = true;
	rc = fth_gpu_cache_open(b->drive, &cache, &b->cache);
	return rc < 0 ? rc : fth_gpu_cache_array(b->cache, 8, &array, &b->array);
}

static struct gpufile_order order_of(const struct gpufile *b, uint32_t bytes, bool random)
{
	struct gpufile_order order = {};

	order.first = random ? b->next : 0;
	order.mask = b->size / bytes - 1;
	while (gpufile_bytes(&order) < bytes)
		order.shift++;
	order.stamp = b->setup.seed;
	order.random = random;
	return order;
}

int gpufile_start(struct gpufile *b, const char *uri)
{
	struct gpufile_order all;
	int rc = open_drive(b, uri);

	if (rc == 0)
		rc = check_sizes(b);
	if (rc < 0)
		return rc;
	all = order_of(b, b->request, false);
	rc = gpufile_fill(b->dev, &all, b->setup.cpu_threads, &b->setup.watch);
	if (rc == 0)
		rc = gpufile_peer_start(b);
	return rc < 0 ? rc : open_array(b);
}

void gpufile_info(const struct gpufile *b, struct gpufile_info *info)
{
	struct fth_gpu_view view = fth_gpu_drive_view(b->drive);

	info->gpu = b->rig.gpu.name;
	info->size = b->size;
	info->cache = b->setup.cache;
	info->block = 1u << view.block_shift;
	info->queues = view.queues;
	info->request = b->request;
	info->tile = gpufile_tile(b);
}

bool gpufile_can(const struct gpufile *b, enum gpufile_case what)
{
	return what != GPUFILE_READ_512 || fth_gpu_drive_view(b->drive).block_shift == 9;
}

/* ---- a run, by either side ---- */

static int clear_report(struct gpufile *b)
{
	int rc = gpufile_stopped(b);

	TRY(rc, cudaMemsetAsync(b->report, 0, sizeof(*b->report), b->rig.stream));
	TRY(rc, cudaStreamSynchronize(b->rig.stream));
	return rc;
}

/* What the kernels told. */
static int judge(struct gpufile *b, struct gpufile_report *told)
{
	int rc = 0;

	TRY(rc,
	    cudaMemcpyAsync(told, b->report, sizeof(*told), cudaMemcpyDeviceToHost, b->rig.stream));
	TRY(rc, cudaStreamSynchronize(b->rig.stream));
	if (rc == 0 && told->work.failed)
		rc = fth_fail(-told->work.rc, "%llu warps failed, one with %s", told->work.failed,
			      strerror(-told->work.rc));
	if (rc == 0 && told->wrong)
		rc = fth_fail(EILSEQ, "%llu threads of the GPU found something wrong", told->wrong);
	return rc;
}

static double seconds_since(uint64_t begin)
{
	return (double)(fth_now_ns() - begin) * 1e-9;
}

static int run_peer(struct gpufile *b, const struct gpufile_order *order, uint64_t n, bool write,
		    double *seconds)
{
	struct gpufile_report told;
	uint64_t begin;
	int rc = clear_report(b);

	if (rc < 0)
		return rc;
	begin = fth_now_ns();
	rc = gpufile_peer_run(b, order, n, write);
	*seconds = seconds_since(begin);
	return rc < 0 ? rc : judge(b, &told);
}

/* ---- random blocks ---- */

static int launch_blocks(struct gpufile *b, const struct gpufile_order *order, bool write,
			 double *seconds)
{
	uint32_t blocks = b->setup.gpu_threads / PER_BLOCK;
	struct gpufile_job job = {};
	uint64_t begin;
	int rc = clear_report(b);

	if (rc < 0)
		return rc;
	job.view = fth_gpu_drive_view(b->drive);
	job.order = *order;
	job.data = b->data;
	job.report = b->report;
	job.limit_ns = b->setup.ms * 1000000ull;
	job.threads = b->setup.gpu_threads;
	/* No block twice in a run: nobody else writes what is read back. */
	job.rounds = (uint32_t)((order->mask + 1) / job.threads);
	begin = fth_now_ns();
	if (write)
		gpufile_blocks<true><<<blocks, PER_BLOCK, 0, b->rig.stream>>>(job);
	else
		gpufile_blocks<false><<<blocks, PER_BLOCK, 0, b->rig.stream>>>(job);
	TRY(rc, cudaGetLastError());
	TRY(rc, cudaStreamSynchronize(b->rig.stream));
	*seconds = seconds_since(begin);
	return rc;
}

/* How many pieces were moved; the service must have seen as many commands. */
static int run_blocks(struct gpufile *b, const struct gpufile_order *order, bool write,
		      uint64_t *pieces, double *seconds)
{
	struct fth_gpu_drive_stats before, after;
	struct gpufile_report told;
	uint64_t commands;
	int rc = fth_gpu_drive_stats(b->drive, &before);

	if (rc == 0)
		rc = launch_blocks(b, order, write, seconds);
	if (rc == 0)
		rc = judge(b, &told);
	if (rc == 0)
		rc = fth_gpu_drive_stats(b->drive, &after);
	if (rc < 0)
		return rc;
	*pieces = told.rounds * 32;
	commands = *pieces * (write ? 2 : 1);
	if (after.commands - before.commands != commands)
		return fth_fail(EIO, "%llu commands were asked for, %llu served",
				(unsigned long long)commands,
				(unsigned long long)(after.commands - before.commands));
	return 0;
}

static int compare_blocks(struct gpufile *b, uint32_t bytes, bool write,
			  struct gpufile_round *round)
{
	struct gpufile_order order = order_of(b, bytes, true);
	double ours = 0, peer = 0;
	uint64_t pieces = 0;
	int rc;

	order.stamp += write ? ++b->writes : 0;
	rc = run_blocks(b, &order, write, &pieces, &ours);
	b->next += pieces;
	if (rc < 0)
		return rc;
	order = order_of(b, bytes, true);
	order.stamp += write ? ++b->writes : 0;
	rc = run_peer(b, &order, pieces, write, &peer);
	b->next += pieces;
	if (rc < 0)
		return rc;
	round->commands = pieces * (write ? 2 : 1);
	round->ours = (double)round->commands / ours;
	round->peer = (double)round->commands / peer;
	return 0;
}

/* ---- lines through the cache ---- */

static int launch_lines(struct gpufile *b, const struct gpufile_order *order, uint64_t n,
			double *seconds)
{
	struct gpufile_report told;
	uint64_t begin;
	int rc = clear_report(b);

	if (rc < 0)
		return rc;
	begin = fth_now_ns();
	gpufile_lines<<<b->setup.gpu_threads / PER_BLOCK, PER_BLOCK, 0, b->rig.stream>>>(
		b->array, *order, n, b->setup.ahead, b->report);
	TRY(rc, cudaGetLastError());
	TRY(rc, cudaStreamSynchronize(b->rig.stream));
	*seconds = seconds_since(begin);
	return rc < 0 ? rc : judge(b, &told);
}

/* n lines, none of which is there before; how many were read, some of them twice perhaps. */
static int run_lines(struct gpufile *b, const struct gpufile_order *order, uint64_t n,
		     uint64_t *reads, double *seconds)
{
	struct fth_gpu_cache_stats before, after;
	int rc = fth_gpu_cache_empty(b->cache);

	if (rc == 0)
		rc = fth_gpu_cache_stats(b->cache, &before);
	if (rc == 0)
		rc = launch_lines(b, order, n, seconds);
	if (rc == 0)
		rc = fth_gpu_cache_stats(b->cache, &after);
	if (rc < 0)
		return rc;
	*reads = after.count[FTH_GPU_READS] - before.count[FTH_GPU_READS];
	if (*reads < n)
		return fth_fail(EIO, "%llu of %llu lines were read", (unsigned long long)*reads,
				(unsigned long long)n);
	return 0;
}

static int compare_lines(struct gpufile *b, bool random, struct gpufile_round *round)
{
	struct gpufile_order order = order_of(b, GPUFILE_LINE, random);
	uint64_t n = b->size / GPUFILE_LINE / (random ? RANDOM_SHARE : 1), pieces = n;
	double ours = 0, peer = 0, bytes = (double)n * GPUFILE_LINE;
	int rc = run_lines(b, &order, n, &round->commands, &ours);

	if (rc < 0)
		return rc;
	b->next += n;
	order = order_of(b, random ? GPUFILE_LINE : b->request, random);
	if (!random)
		pieces = b->size / b->request;
	rc = run_peer(b, &order, pieces, false, &peer);
	b->next += n;
	if (rc < 0)
		return rc;
	round->ours = bytes / ours;
	round->peer = bytes / peer;
	return 0;
}

int gpufile_run(struct gpufile *b, enum gpufile_case what, struct gpufile_round *round)
{
	switch (what) {
	case GPUFILE_READ_512:
		return compare_blocks(b, 512, false, round);
	case GPUFILE_READ_4096:
		return compare_blocks(b, 4096, false, round);
	case GPUFILE_SEQUENTIAL:
		return compare_lines(b, false, round);
	case GPUFILE_RANDOM:
		return compare_lines(b, true, round);
	case GPUFILE_WRITE_READ:
		return compare_blocks(b, 4096, true, round);
	default:
		return fth_fail(EINVAL, "no such case");
	}
}
