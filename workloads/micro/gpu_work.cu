/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the GPU workloads share. gpu_vector.cu has vectorAdd and the sum, gpu_scan.cu the prefix
 * sum, gpu_pattern.cu the patterns, taxi/gpu.cu the queries; gpu_lines.h what their kernels use.
 */
#include "gpu_work_internal.h"

#include <errno.h>
#include <stdlib.h>

#define BLOCKS_EACH_MAX 8u /* per processor */

/* ---- opening ---- */

static int check_opts(const struct fth_gpu_work_options *o)
{
	if (o->ahead < 1 || o->ahead > FTH_GPU_AHEAD_MAX)
		return fth_fail(EINVAL, "opts.ahead must be 1 to %u lines", FTH_GPU_AHEAD_MAX);
	if (o->chunks == 0 || o->timeout_ms == 0)
		return fth_fail(EINVAL, "opts.chunks or the timeout is 0");
	if (o->chunks > SIZE_MAX / sizeof(struct scan_chunk))
		return fth_fail(EINVAL, "the memory is too small for opts.chunks");
	return 0;
}

static size_t sums_bytes(const struct fth_gpu_work *work)
{
	return (size_t)FTH_GPU_TAXI_SLOTS * work->warps * sizeof(struct taxi_part_sum);
}

static int set_up(struct fth_gpu_work *work)
{
	int device = 0, processors = 0;
	int rc = fth_gpu_check(cudaGetDevice(&device), "asking for the GPU");

	if (rc == 0)
		rc = fth_gpu_check(
			cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
			"asking for its size");
	if (rc < 0)
		return rc;
	if (work->opts.blocks == 0)
		work->opts.blocks = 2 * (uint32_t)processors;
	if (work->opts.blocks > BLOCKS_EACH_MAX * (uint32_t)processors)
		return fth_fail(EINVAL, "too many blocks: the maximum is %u",
				BLOCKS_EACH_MAX * processors);
	work->warps = BLOCKS_EACH_MAX * (uint32_t)processors * FTH_GPU_WORK_THREADS / 32;
	rc = fth_gpu_check(cudaStreamCreateWithFlags(&work->stream, cudaStreamNonBlocking),
			   "a stream");
	if (rc == 0)
		rc = fth_gpu_check(cudaMalloc((void **)&work->state,
					      (1 + FTH_GPU_TAXI_SLOTS) * sizeof(*work->state)),
				   "GPU memory");
	work->taxi_states = work->state + 1;
	if (rc == 0)
		rc = fth_gpu_check(cudaMalloc((void **)&work->chunks,
					      work->opts.chunks * sizeof(*work->chunks)),
				   "GPU memory for chunks");
	if (rc == 0)
		rc = fth_gpu_check(cudaMalloc((void **)&work->sums, sums_bytes(work)),
				   "GPU memory for sums");
	return rc < 0 ? rc
		      : fth_gpu_check(cudaMallocHost(&work->stage, sums_bytes(work)), "memory");
}

int fth_gpu_work_open(const struct fth_gpu_work_options *opts, struct fth_gpu_work **out)
{
	struct fth_gpu_work *work;
	int rc = check_opts(opts);

	if (rc < 0)
		return rc;
	work = (struct fth_gpu_work *)calloc(1, sizeof(*work));
	if (!work)
		return -ENOMEM;
	work->opts = *opts;
	rc = set_up(work);
	if (rc < 0) {
		(void)fth_gpu_work_close(work);
		return rc;
	}
	*out = work;
	return 0;
}

int fth_gpu_work_close(struct fth_gpu_work *work)
{
	int rc = 0, next;

	if (!work)
		return 0;
	rc = fth_gpu_check(cudaFree(work->state), "freeing");
	next = fth_gpu_check(cudaFree(work->chunks), "freeing");
	rc = rc < 0 ? rc : next;
	next = fth_gpu_check(cudaFree(work->sums), "freeing");
	rc = rc < 0 ? rc : next;
	next = fth_gpu_check(cudaFreeHost(work->stage), "freeing");
	rc = rc < 0 ? rc : next;
	if (work->stream) {
		next = fth_gpu_check(cudaStreamDestroy(work->stream), "a stream");
		rc = rc < 0 ? rc : next;
	}
	free(work);
	return rc;
}

int fth_gpu_work_tune(struct fth_gpu_work *work, uint32_t blocks, uint32_t ahead)
{
	uint32_t most = work->warps / (FTH_GPU_WORK_THREADS / 32);

	if (blocks > most || ahead > FTH_GPU_AHEAD_MAX)
		return fth_fail(EINVAL, "too many blocks or lines ahead: the maximum is %u and %u",
				most, FTH_GPU_AHEAD_MAX);
	if (blocks)
		work->opts.blocks = blocks;
	if (ahead)
		work->opts.ahead = ahead;
	return 0;
}

const char *fth_gpu_work_kernel_name(enum fth_gpu_work_kernel kernel)
{
	static const char *const names[FTH_GPU_WORK_KERNELS] = {"add", "reduce", "scan", "pattern",
								"taxi"};

	return (unsigned)kernel < FTH_GPU_WORK_KERNELS ? names[kernel] : "unknown";
}

int fth_gpu_work_registers(enum fth_gpu_work_kernel kernel)
{
	static const void *(*const kernels[FTH_GPU_WORK_KERNELS])(void) = {
		work_add_kernel, work_reduce_kernel, work_scan_kernel, work_pattern_kernel,
		work_taxi_kernel};
	struct cudaFuncAttributes attributes;
	int rc;

	if ((unsigned)kernel >= FTH_GPU_WORK_KERNELS)
		return fth_fail(EINVAL, "unknown kernel");
	rc = fth_gpu_check(cudaFuncGetAttributes(&attributes, kernels[kernel]()),
			   "asking for a kernel's registers");
	return rc < 0 ? rc : attributes.numRegs;
}

/* ---- running ---- */

int work_check_source(const struct fth_gpu_source *source)
{
	if (source->element != 8)
		return fth_fail(EINVAL, "elements have %u bytes, expected 8", source->element);
	if (source->line < 512 || (source->line & (source->line - 1)))
		return fth_fail(EINVAL, "the line size is not a power of two of at least 512");
	if ((uint64_t)source->plain % 16)
		return fth_fail(EINVAL, "the memory is not aligned to 16 bytes");
	return 0;
}

int work_check_target(const struct fth_gpu_source *to, const struct fth_gpu_source *from)
{
	int rc = work_check_source(to);

	if (rc == 0 && !to->plain && !from->plain && to->array.words == from->array.words)
		rc = fth_fail(EINVAL,
			      "through a cache, source and destination must be different arrays");
	return rc;
}

int work_begin(struct fth_gpu_work *work)
{
	return fth_gpu_check(cudaMemsetAsync(work->state, 0, sizeof(*work->state), work->stream),
			     "clearing the state");
}

int work_end(struct fth_gpu_work *work, const char *what, uint64_t *sum)
{
	struct work_state *state = (struct work_state *)work->stage;
	int rc = fth_gpu_check(cudaGetLastError(), what);

	if (rc == 0)
		rc = fth_gpu_check(cudaMemcpyAsync(state, work->state, sizeof(*state),
						   cudaMemcpyDeviceToHost, work->stream),
				   what);
	if (rc == 0)
		rc = fth_gpu_check(cudaStreamSynchronize(work->stream), what);
	if (rc < 0)
		return rc;
	if (state->failed)
		return fth_fail(-state->rc, "%s: %llu warps failed, one with %d", what,
				state->failed, state->rc);
	if (sum)
		*sum = state->sum;
	return 0;
}
