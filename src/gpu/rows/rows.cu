/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows gathered by their numbers: an array of bytes on a service drive, and a kernel in which a
 * warp copies a row.
 *
 * 1. The status word is 0, or the first error since the last wait: the index of the id above 16
 *    bits of errno. Kernels set it from 0 only; a wait clears it on its stream.
 * 2. Everything is opened in the order drive, cache, status, and released in the reverse order.
 */
#include "fathom/gpu/rows.h"

#include "base/cuda_error.h"
#include "base/options.h"
#include "fathom/gpu/array.h"

#include <stdlib.h>
#include <string.h>

#define WARPS_PER_BLOCK 4u
#define QUEUES		8u
#define ENTRIES		1024u

struct fth_gpu_rows {
	struct fth_gpu_rows_options options;
	struct fth_gpu_drive *drive;
	struct fth_gpu_cache *cache;
	fth_gpu_array<uint8_t> bytes;
	unsigned long long *status;   /* in GPU memory */
	unsigned long long *reported; /* pinned: what a wait read of it */
	uint32_t blocks_max;	      /* of a kernel: as many as run at once */
};

struct gather {
	fth_gpu_array<uint8_t> bytes;
	uint64_t offset, rows, row;
	const int64_t *ids;
	uint64_t n;
	uint8_t *out;
	unsigned long long *status;
};

__global__ static void gather_rows(struct gather g)
{
	uint64_t thread = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
	uint64_t warps = (uint64_t)gridDim.x * blockDim.x / 32;

	for (uint64_t k = thread / 32; k < g.n; k += warps) {
		int64_t id = g.ids[k];
		uint64_t row = (uint64_t)(id < 0 ? id + (int64_t)g.rows : id);
		int rc = -ERANGE;

		if (row < g.rows)
			rc = fth_gpu_warp_read(g.bytes, g.offset + row * g.row, g.row,
					       g.out + k * g.row);
		if (rc < 0 && thread % 32 == 0)
			atomicCAS(g.status, 0ull, (unsigned long long)(k << 16 | (uint32_t)-rc));
	}
}

static int check_options(const struct fth_gpu_rows_options *options)
{
	int rc = fth_options_check("gpu rows", options->size, sizeof(*options));

	if (rc < 0)
		return rc;
	if (options->row == 0 || options->rows == 0)
		return fth_fail(
			EINVAL, "gpu rows: %llu rows of %llu bytes, expected at least 1 of 1",
			(unsigned long long)options->rows, (unsigned long long)options->row);
	if (options->rows > (uint64_t)INT64_MAX / options->row ||
	    options->offset > (uint64_t)INT64_MAX - options->rows * options->row)
		return fth_fail(EINVAL, "gpu rows: %llu rows of %llu bytes end beyond 2^63",
				(unsigned long long)options->rows,
				(unsigned long long)options->row);
	return 0;
}

static int open_drive(struct fth_gpu_rows *rows, const char *uri)
{
	struct fth_gpu_drive_options options = FTH_GPU_DRIVE_OPTIONS_INIT;

	options.queues = QUEUES;
	options.entries = ENTRIES;
	options.slot = rows->options.line;
	options.timeout_ms = rows->options.timeout_ms;
	return fth_gpu_drive_open_uri(uri, &options, &rows->drive);
}

/* The array reaches from byte 0 of the device, since its offset must be a multiple of a block. */
static int open_cache(struct fth_gpu_rows *rows)
{
	struct fth_gpu_cache_options cache = FTH_GPU_CACHE_OPTIONS_INIT;
	struct fth_gpu_array_options array = FTH_GPU_ARRAY_OPTIONS_INIT;
	const struct fth_gpu_rows_options *o = &rows->options;
	int rc;

	cache.bytes = o->memory;
	cache.line = o->line;
	cache.timeout_ms = o->timeout_ms;
	rc = fth_gpu_cache_open(rows->drive, &cache, &rows->cache);
	if (rc < 0)
		return rc;
	array.count = o->offset + o->rows * o->row;
	array.readonly = true;
	return fth_gpu_array_open(rows->cache, &array, &rows->bytes);
}

/* A warp pins a line while it copies: a small cache has fewer warps, not warps without a frame. */
static uint32_t blocks_within(const struct fth_gpu_rows_options *options, uint64_t blocks)
{
	uint64_t most = options->memory / options->line / (4 * WARPS_PER_BLOCK);

	if (blocks > most)
		blocks = most;
	return blocks > 0 ? (uint32_t)blocks : 1;
}

static int open_status(struct fth_gpu_rows *rows)
{
	struct cudaDeviceProp gpu;
	int device, blocks, rc;

	rc = fth_gpu_check(cudaMalloc(&rows->status, sizeof(*rows->status)), "allocating");
	if (rc == 0)
		rc = fth_gpu_check(cudaMemset(rows->status, 0, sizeof(*rows->status)), "clearing");
	if (rc == 0)
		rc = fth_gpu_check(cudaMallocHost(&rows->reported, sizeof(*rows->reported)),
				   "pinning memory");
	if (rc == 0)
		rc = fth_gpu_check(cudaGetDevice(&device), "the current GPU");
	if (rc == 0)
		rc = fth_gpu_check(cudaGetDeviceProperties(&gpu, device), "properties of the GPU");
	if (rc == 0)
		rc = fth_gpu_check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
					   &blocks, gather_rows, 32 * WARPS_PER_BLOCK, 0),
				   "occupancy");
	if (rc == 0)
		rows->blocks_max =
			blocks_within(&rows->options, (uint64_t)blocks * gpu.multiProcessorCount);
	return rc;
}

int fth_gpu_rows_open(const char *uri, const struct fth_gpu_rows_options *options,
		      struct fth_gpu_rows **out)
{
	int rc = check_options(options);
	struct fth_gpu_rows *rows;
	struct fth_gpu_kept kept;

	if (rc < 0)
		return rc;
	rows = (struct fth_gpu_rows *)calloc(1, sizeof(*rows));
	if (!rows)
		return fth_fail(ENOMEM, "gpu rows: no memory");
	rows->options = *options;
	rc = open_drive(rows, uri);
	if (rc == 0)
		rc = open_cache(rows);
	if (rc == 0)
		rc = open_status(rows);
	if (rc < 0) {
		kept = fth_gpu_keep(rc);
		(void)fth_gpu_rows_close(rows);
		return fth_gpu_tell(&kept);
	}
	*out = rows;
	return 0;
}

int fth_gpu_rows_gather(struct fth_gpu_rows *rows, const int64_t *ids, uint64_t n, void *out,
			void *stream)
{
	uint64_t blocks = n / WARPS_PER_BLOCK + (n % WARPS_PER_BLOCK > 0);
	struct gather g;

	if (n == 0)
		return 0;
	g.bytes = rows->bytes;
	g.offset = rows->options.offset;
	g.rows = rows->options.rows;
	g.row = rows->options.row;
	g.ids = ids;
	g.n = n;
	g.out = (uint8_t *)out;
	g.status = rows->status;
	if (blocks > rows->blocks_max)
		blocks = rows->blocks_max;
	gather_rows<<<(unsigned)blocks, 32 * WARPS_PER_BLOCK, 0, (cudaStream_t)stream>>>(g);
	return fth_gpu_check(cudaGetLastError(), "gathering rows");
}

static int report(const struct fth_gpu_rows *rows)
{
	unsigned long long index = *rows->reported >> 16;
	int err = (int)(*rows->reported & 0xffff);

	if (err == 0)
		return 0;
	if (err == ERANGE)
		return fth_fail(ERANGE, "gpu rows: the id at index %llu is outside of %llu rows",
				index, (unsigned long long)rows->options.rows);
	return fth_fail(err, "gpu rows: reading the row at index %llu: %s", index, strerror(err));
}

int fth_gpu_rows_wait(struct fth_gpu_rows *rows, void *stream)
{
	cudaStream_t s = (cudaStream_t)stream;
	int rc = fth_gpu_check(cudaMemcpyAsync(rows->reported, rows->status, sizeof(*rows->status),
					       cudaMemcpyDeviceToHost, s),
			       "reading the status");

	if (rc == 0)
		rc = fth_gpu_check(cudaStreamSynchronize(s), "gathering rows");
	if (rc < 0 || *rows->reported == 0)
		return rc;
	rc = fth_gpu_check(cudaMemsetAsync(rows->status, 0, sizeof(*rows->status), s), "clearing");
	if (rc == 0)
		rc = fth_gpu_check(cudaStreamSynchronize(s), "clearing");
	return rc < 0 ? rc : report(rows);
}

int fth_gpu_rows_bytes_read(struct fth_gpu_rows *rows, uint64_t *bytes)
{
	struct fth_gpu_cache_stats stats;
	int rc = fth_gpu_cache_stats(rows->cache, &stats);

	if (rc == 0)
		*bytes = stats.bytes_read;
	return rc;
}

static int first_error(int rc, int next)
{
	return rc < 0 ? rc : next;
}

int fth_gpu_rows_close(struct fth_gpu_rows *rows)
{
	int rc;

	if (!rows)
		return 0;
	rc = fth_gpu_check(cudaFreeHost(rows->reported), "freeing");
	rc = first_error(rc, fth_gpu_check(cudaFree(rows->status), "freeing"));
	rc = first_error(rc, fth_gpu_cache_close(rows->cache));
	rc = first_error(rc, fth_gpu_drive_close(rows->drive));
	free(rows);
	return rc;
}
