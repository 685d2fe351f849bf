/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A kernel that reads all of a device through a cache in GPU memory: a warp for each line. Runs are
 * short, so that the host can stop between two of them.
 */
#include "gpu_engine.h"
#include "gpu_read.h"

#include "fathom/gpu/array.h"
#include "base/cuda_error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PER_BLOCK	  256u
#define BLOCKS		  4u /* for each processor; the drive's controller needs some as well */
#define QUEUES_OF_GPU	  128u
#define QUEUES_OF_SERVICE 8u
#define PIECE		  (16u << 20) /* of a medium, copied at once */

struct report {
	unsigned long long sum, failed;
	int rc; /* of one that failed */
};

struct gpu_reader {
	struct gpu_reader_setup setup;
	struct cudaDeviceProp gpu;
	struct fth_gpu_drive *drive;
	struct fth_gpu_cache *cache;
	fth_gpu_array<uint64_t> array;
	struct gpu_read_order order;
	uint64_t next; /* of the order */
	cudaStream_t stream;
	struct report *report; /* in GPU memory */
	uint64_t *piece;       /* pinned */
};

/* Go on only while nothing has failed. */
#define TRY(rc, call)                                      \
	do {                                               \
		if ((rc) == 0)                             \
			(rc) = fth_gpu_check(call, #call); \
	} while (0)

/* ---- the kernel ---- */

/* What this lane has of a line. */
static __device__ uint64_t sum_line(const uint64_t *data, uint64_t line, uint32_t words)
{
	uint64_t sum = 0;

	for (uint32_t i = 2 * (threadIdx.x % 32); i < words; i += 64) {
		ulonglong2 pair = *(const ulonglong2 *)(data + i);

		sum += gpu_read_sum_word(pair.x, line * words + i) +
		       gpu_read_sum_word(pair.y, line * words + i + 1);
	}
	return sum;
}

static __global__ void __launch_bounds__(256, 6)
	read_lines(fth_gpu_array<uint64_t> a, struct gpu_read_order order, uint64_t first,
		   uint64_t end, struct report *report)
{
	uint64_t warp = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) / 32, sum = 0;
	struct fth_gpu_cursor cursor = fth_gpu_cursor_open();
	int rc = 0;

	for (uint64_t k = first + warp; k < end && rc == 0;
	     k += (uint64_t)gridDim.x * blockDim.x / 32) {
		uint64_t line = gpu_read_line(&order, k);
		const uint64_t *data = fth_gpu_cursor_line(a, &cursor, line, FTH_GPU_READ, &rc);

		if (data)
			sum += sum_line(data, line, 1u << (a.line_shift - 3));
	}
	fth_gpu_cursor_close(a, &cursor, FTH_GPU_READ);
	for (int step = 16; step > 0; step /= 2)
		sum += __shfl_xor_sync(~0u, sum, step);
	if (threadIdx.x % 32 == 0)
		atomicAdd(&report->sum, sum);
	if (threadIdx.x % 32 == 0 && rc < 0) {
		atomicAdd(&report->failed, 1);
		report->rc = rc;
	}
}

/* ---- opening and closing ---- */

static int find_gpu(struct gpu_reader *r)
{
	int n = 0, rc;

	/* Before CUDA starts: a kernel can not be loaded while the controller runs. */
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	rc = fth_gpu_check(cudaGetDeviceCount(&n), "looking for a GPU");
	if (rc == 0 && n == 0)
		rc = fth_fail(EOPNOTSUPP, "no GPU found");
	if (rc == 0 && r->setup.device >= (unsigned)n)
		rc = fth_fail(ENODEV, "GPU %u does not exist: GPUs are 0 to %d", r->setup.device,
			      n - 1);
	TRY(rc, cudaSetDevice((int)r->setup.device));
	TRY(rc, cudaGetDeviceProperties(&r->gpu, (int)r->setup.device));
	return rc;
}

static bool is_gpu_uri(const char *uri)
{
	return strncmp(uri, "gpu:", 4) == 0;
}

static int open_drive(struct gpu_reader *r)
{
	struct fth_gpu_drive_options opts = FTH_GPU_DRIVE_OPTIONS_INIT;

	opts.queues = r->setup.queues;
	if (opts.queues == 0)
		opts.queues = is_gpu_uri(r->setup.uri) ? QUEUES_OF_GPU : QUEUES_OF_SERVICE;
	return fth_gpu_drive_open_uri(r->setup.uri, &opts, &r->drive);
}

static int open_array(struct gpu_reader *r)
{
	struct fth_gpu_cache_options cache = FTH_GPU_CACHE_OPTIONS_INIT;
	struct fth_gpu_array_options array = FTH_GPU_ARRAY_OPTIONS_INIT;
	int rc;

	if (r->setup.line == 0)
		r->setup.line = max(GPU_READER_LINE, gpu_reader_block(r));
	cache.bytes = r->setup.cache;
	cache.line = r->setup.line;
	rc = fth_gpu_cache_open(r->drive, &cache, &r->cache);
	if (rc < 0)
		return rc;
	array.readonly = true;
	rc = fth_gpu_array_open(r->cache, &array, &r->array);
	if (rc == -ERANGE || (rc == 0 && gpu_reader_lines(r) == 0))
		rc = fth_fail(ERANGE, "the device is smaller than a line of %u bytes",
			      r->setup.line);
	if (rc < 0)
		return rc;
	r->order = gpu_read_order(gpu_reader_lines(r), r->setup.random);
	return 0;
}

int gpu_reader_open(const struct gpu_reader_setup *setup, struct gpu_reader **out)
{
	struct gpu_reader *r = (struct gpu_reader *)calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return -ENOMEM;
	r->setup = *setup;
	rc = find_gpu(r);
	TRY(rc, cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking));
	TRY(rc, cudaMalloc((void **)&r->report, sizeof(*r->report)));
	TRY(rc, cudaHostAlloc((void **)&r->piece, PIECE, cudaHostAllocDefault));
	if (rc == 0)
		rc = open_drive(r);
	if (rc == 0)
		rc = open_array(r);
	if (rc < 0)
		return gpu_reader_close(r, rc);
	*out = r;
	return 0;
}

static int release(struct gpu_reader *r)
{
	int rc = fth_gpu_cache_close(r->cache), closed = fth_gpu_drive_close(r->drive);

	if (rc == 0)
		rc = closed;
	/* A controller that did not end would hold up what follows for ever. */
	if (closed < 0)
		return rc;
	if (r->report)
		TRY(rc, cudaFree(r->report));
	if (r->piece)
		TRY(rc, cudaFreeHost(r->piece));
	if (r->stream)
		TRY(rc, cudaStreamDestroy(r->stream));
	return rc;
}

int gpu_reader_close(struct gpu_reader *r, int rc)
{
	char text[FTH_ERROR_TEXT_MAX];
	int released;

	snprintf(text, sizeof(text), "%s", rc < 0 ? fth_error_text(rc) : "");
	released = release(r);
	free(r);
	return rc < 0 ? fth_fail(-rc, "%s", text) : released;
}

/* ---- using ---- */

const char *gpu_reader_gpu(const struct gpu_reader *r)
{
	return r->gpu.name;
}

uint64_t gpu_reader_lines(const struct gpu_reader *r)
{
	return r->array.count * sizeof(uint64_t) / r->setup.line;
}

uint32_t gpu_reader_line(const struct gpu_reader *r)
{
	return r->setup.line;
}

uint32_t gpu_reader_block(const struct gpu_reader *r)
{
	return 1u << fth_gpu_drive_view(r->drive).block_shift;
}

/* Which line, and what the drive said. */
static int tell_failure(struct gpu_reader *r, const struct report *report)
{
	struct fth_gpu_failure failure;
	int rc = fth_gpu_cache_failure(r->cache, &failure);

	if (rc < 0)
		return rc;
	if (rc == 0)
		return fth_fail(-report->rc, "%llu warps failed: %s", report->failed,
				strerror(-report->rc));
	return fth_fail(-failure.error, "reading byte %llu: %s (NVMe status 0x%x)",
			(unsigned long long)(failure.line * r->setup.line),
			strerror(-failure.error), failure.status);
}

int gpu_reader_run(struct gpu_reader *r, uint64_t n, uint64_t *sum)
{
	unsigned blocks = BLOCKS * (unsigned)r->gpu.multiProcessorCount;
	uint64_t left = r->order.lines - r->next;
	struct report report;
	int rc = 0;

	n = n < left ? n : left;
	TRY(rc, cudaMemsetAsync(r->report, 0, sizeof(*r->report), r->stream));
	if (rc < 0)
		return rc;
	read_lines<<<blocks, PER_BLOCK, 0, r->stream>>>(r->array, r->order, r->next, r->next + n,
							r->report);
	TRY(rc, cudaGetLastError());
	TRY(rc,
	    cudaMemcpyAsync(&report, r->report, sizeof(report), cudaMemcpyDeviceToHost, r->stream));
	TRY(rc, cudaStreamSynchronize(r->stream));
	if (rc < 0)
		return rc;
	if (report.failed)
		return tell_failure(r, &report);
	r->next += n;
	*sum += report.sum;
	return 0;
}

int gpu_reader_stats(struct gpu_reader *r, struct gpu_reader_stats *stats)
{
	struct fth_gpu_cache_stats cache;
	struct fth_gpu_drive_stats drive;
	int rc = fth_gpu_cache_stats(r->cache, &cache);

	if (rc == 0)
		rc = fth_gpu_drive_stats(r->drive, &drive);
	if (rc < 0)
		return rc;
	stats->misses = cache.count[FTH_GPU_MISSES];
	stats->merged = cache.count[FTH_GPU_MERGED];
	stats->reads = cache.count[FTH_GPU_READS];
	stats->bytes_read = cache.bytes_read;
	stats->evictions = cache.count[FTH_GPU_EVICTIONS];
	stats->errors = cache.count[FTH_GPU_ERRORS];
	stats->metadata = fth_gpu_cache_metadata(r->cache);
	stats->commands = drive.commands;
	stats->sq_doorbells = drive.sq_doorbells;
	return 0;
}

/* ---- the same by the CPU ---- */

struct fth_dev *gpu_reader_dev(const struct gpu_reader *r)
{
	return fth_gpu_drive_dev(r->drive);
}

/* Lines go round the SSDs; each has its own lines one behind the other. */
int gpu_reader_medium(struct gpu_reader *r, uint64_t *at, uint64_t *sum)
{
	uint64_t ssds = fth_gpu_drive_view(r->drive).ssds, words = r->setup.line / 8;
	uint64_t each = gpu_reader_lines(r) / ssds * r->setup.line, ssd = *at / each;
	uint64_t offset = *at % each, bytes = each - offset < PIECE ? each - offset : PIECE;
	const char *medium;
	int rc = 0;

	if (ssd == ssds)
		return 0;
	medium = (const char *)fth_gpu_drive_mapped(r->drive, (uint32_t)ssd);
	if (!medium)
		return fth_fail(EINVAL, "a drive without data cannot be verified");
	TRY(rc, cudaMemcpyAsync(r->piece, medium + offset, bytes, cudaMemcpyDefault, r->stream));
	TRY(rc, cudaStreamSynchronize(r->stream));
	for (uint64_t done = 0; rc == 0 && done < bytes; done += r->setup.line) {
		uint64_t line = (offset + done) / r->setup.line * ssds + ssd;

		*sum += gpu_read_sum(r->piece + done / 8, words, line * words);
	}
	*at += bytes;
	return rc < 0 ? rc : 1;
}
