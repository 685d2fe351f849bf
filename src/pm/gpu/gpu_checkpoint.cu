/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checkpoints of buffers in GPU memory. Kernels write straight into persistent memory and sum up
 * what they write; the host, which has the records, switches to the copy. A save or restore by the
 * CPU understands them, and the other way round.
 */
#include "pm/gpu/gpu_internal.h"

#include "fathom/detail/pm/checkpoint_warp.h"

#include <stdlib.h>
#include <string.h>

#define SAVE_THREADS 256u
#define SAVE_WARPS   (SAVE_THREADS / 32)
#define SAVE_BLOCKS  1056u

/* A buffer of a group, for a kernel. */
struct checkpoint_piece {
	struct fth_pm_view pm;
	uint8_t *data;	       /* of the buffer, in persistent memory */
	const uint8_t *buffer; /* in GPU memory */
	uint64_t bytes;
	uint64_t number; /* of the first block, in the group's data */
	uint64_t *sums;	 /* GPU memory: of all blocks of the group */
	unsigned long long *written;
	bool known;
};

__device__ static uint64_t first_block(void)
{
	return blockIdx.x * SAVE_WARPS + threadIdx.x / 32;
}

__global__ static void save_blocks(struct checkpoint_piece p)
{
	uint64_t blocks = (p.bytes + FTH_PM_CP_BLOCK - 1) / FTH_PM_CP_BLOCK, written = 0;

	for (uint64_t b = first_block(); b < blocks; b += gridDim.x * SAVE_WARPS) {
		uint64_t at = b * FTH_PM_CP_BLOCK, left = p.bytes - at;

		written += fth_pm_cp_warp_save(&p.pm, p.data + at, p.buffer + at, left,
					       (p.number + b) * (FTH_PM_CP_BLOCK / 8),
					       &p.sums[p.number + b], p.known);
	}
	if (threadIdx.x % 32 == 0 && written)
		atomicAdd(p.written, (unsigned long long)written * FTH_PM_CP_BLOCK);
}

__global__ static void sum_blocks(const uint8_t *data, uint64_t blocks, uint64_t *sums)
{
	for (uint64_t b = first_block(); b < blocks; b += gridDim.x * SAVE_WARPS) {
		uint64_t sum = fth_pm_cp_warp_verify(data + b * FTH_PM_CP_BLOCK,
						     b * (FTH_PM_CP_BLOCK / 8));

		if (threadIdx.x % 32 == 0)
			sums[b] = sum;
	}
}

static uint32_t grid_for(uint64_t blocks)
{
	uint64_t grid = (blocks + SAVE_WARPS - 1) / SAVE_WARPS;

	return grid > SAVE_BLOCKS ? SAVE_BLOCKS : (uint32_t)grid;
}

/* ---- sums in GPU memory ---- */

static int free_scratch(struct pm_gpu_scratch *scratch)
{
	int rc = fth_gpu_check(cudaFree(scratch->sums), "GPU memory");

	free(scratch);
	return rc;
}

int pm_gpu_scratch_free(struct fth_gpu_pm *gpu)
{
	int rc = 0;

	while (gpu->scratch) {
		struct pm_gpu_scratch *scratch = gpu->scratch;
		int next;

		gpu->scratch = scratch->next;
		next = free_scratch(scratch);
		rc = rc < 0 ? rc : next;
	}
	return rc;
}

static struct pm_gpu_scratch *pop_scratch(struct fth_gpu_pm *gpu)
{
	struct pm_gpu_scratch *scratch;

	pthread_mutex_lock(&gpu->lock);
	scratch = gpu->scratch;
	if (scratch)
		gpu->scratch = scratch->next;
	pthread_mutex_unlock(&gpu->lock);
	return scratch;
}

static void give_scratch(struct fth_gpu_pm *gpu, struct pm_gpu_scratch *scratch)
{
	pthread_mutex_lock(&gpu->lock);
	scratch->next = gpu->scratch;
	gpu->scratch = scratch;
	pthread_mutex_unlock(&gpu->lock);
}

/* Room for the sums of so many blocks, and a count behind them; give_scratch() takes it back. */
static int take_scratch(struct fth_gpu_pm *gpu, uint64_t blocks, struct pm_gpu_scratch **out)
{
	uint64_t bytes = (blocks + 1) * sizeof(uint64_t);
	struct pm_gpu_scratch *scratch = pop_scratch(gpu);
	int rc = 0;

	if (scratch && scratch->bytes < bytes) {
		rc = free_scratch(scratch);
		scratch = NULL;
	}
	if (rc == 0 && !scratch) {
		scratch = (struct pm_gpu_scratch *)calloc(1, sizeof(*scratch));
		if (!scratch)
			return -ENOMEM;
		scratch->bytes = bytes;
		rc = fth_gpu_check(cudaMalloc((void **)&scratch->sums, bytes), "GPU memory");
		if (rc < 0)
			free(scratch);
	}
	*out = scratch;
	return rc;
}

static int copy_sums(void *to, const void *from, uint64_t count, cudaStream_t stream)
{
	return fth_gpu_check(
		cudaMemcpyAsync(to, from, count * sizeof(uint64_t), cudaMemcpyDefault, stream),
		"checksums of a checkpoint");
}

static int finish_stream(cudaStream_t stream)
{
	return fth_gpu_check(cudaStreamSynchronize(stream), "a checkpoint's kernel");
}

/* The registration of the memory that a checkpoint is in. */
static int gpu_of(const struct fth_pm_checkpoint *cp, struct fth_gpu_pm **gpu)
{
	const struct fth_pm *pm = fth_pm_checkpoint_memory(cp);

	*gpu = pm->gpu;
	return pm->gpu ? 0
		       : fth_fail(EINVAL, "checkpoint: %s is not registered with CUDA", pm->name);
}

/* ---- saving ---- */

static int save_buffers(struct fth_gpu_pm *gpu, const struct fth_pm_cp_plan *plan, uint64_t *sums,
			cudaStream_t stream)
{
	struct checkpoint_piece p = {};
	int rc = 0;

	p.pm = gpu->view;
	p.sums = sums;
	p.written = (unsigned long long *)sums + plan->bytes / FTH_PM_CP_BLOCK;
	p.known = plan->known;
	for (uint32_t i = 0; rc == 0 && i < plan->count; i++) {
		const struct fth_pm_cp_buffer *b = &plan->buffers[i];

		p.data = gpu->view.base + plan->offset + b->at;
		p.buffer = (const uint8_t *)b->address;
		p.bytes = b->bytes;
		p.number = b->at / FTH_PM_CP_BLOCK;
		save_blocks<<<grid_for((b->bytes + FTH_PM_CP_BLOCK - 1) / FTH_PM_CP_BLOCK),
			      SAVE_THREADS, 0, stream>>>(p);
		rc = fth_gpu_check(cudaGetLastError(), "a kernel's launch");
	}
	return rc;
}

static int save_with(struct fth_gpu_pm *gpu, struct fth_pm_cp_plan *plan, uint64_t *sums,
		     uint64_t *written, cudaStream_t stream)
{
	uint64_t blocks = plan->bytes / FTH_PM_CP_BLOCK;
	int rc = plan->known ? copy_sums(sums, plan->sums, blocks, stream) : 0;

	*written = 0;
	if (rc == 0)
		rc = copy_sums(sums + blocks, written, 1, stream);
	if (rc == 0)
		rc = save_buffers(gpu, plan, sums, stream);
	if (rc == 0)
		rc = copy_sums(plan->sums, sums, blocks, stream);
	if (rc == 0)
		rc = copy_sums(written, sums + blocks, 1, stream);
	return rc < 0 ? rc : finish_stream(stream);
}

static int save_plan(struct fth_gpu_pm *gpu, struct fth_pm_cp_plan *plan, uint64_t *written,
		     cudaStream_t stream)
{
	struct pm_gpu_scratch *scratch;
	int rc = take_scratch(gpu, plan->bytes / FTH_PM_CP_BLOCK, &scratch);

	if (rc < 0)
		return rc;
	rc = save_with(gpu, plan, scratch->sums, written, stream);
	give_scratch(gpu, scratch);
	return rc;
}

int fth_gpu_pm_checkpoint_save(struct fth_pm_checkpoint *cp, uint32_t group, uint32_t flags,
			       struct CUstream_st *stream)
{
	struct fth_pm_cp_plan plan;
	struct fth_gpu_pm *gpu;
	uint64_t written;
	int rc = gpu_of(cp, &gpu);

	if (rc == 0)
		rc = fth_pm_checkpoint_plan_save(cp, group, flags, &plan);
	if (rc == 0)
		rc = save_plan(gpu, &plan, &written, stream);
	return rc < 0 ? rc : fth_pm_checkpoint_commit(cp, &plan, written);
}

/* ---- restoring ---- */

static int sum_plan(struct fth_gpu_pm *gpu, const struct fth_pm_cp_plan *plan, cudaStream_t stream)
{
	uint64_t blocks = plan->bytes / FTH_PM_CP_BLOCK;
	struct pm_gpu_scratch *scratch;
	int rc = take_scratch(gpu, blocks, &scratch);

	if (rc < 0)
		return rc;
	sum_blocks<<<grid_for(blocks), SAVE_THREADS, 0, stream>>>(gpu->view.base + plan->offset,
								  blocks, scratch->sums);
	rc = fth_gpu_check(cudaGetLastError(), "a kernel's launch");
	if (rc == 0)
		rc = copy_sums(plan->sums, scratch->sums, blocks, stream);
	if (rc == 0)
		rc = finish_stream(stream);
	give_scratch(gpu, scratch);
	return rc;
}

/* Nothing is copied before all of it was found to be whole. */
static int verify_plan(struct fth_gpu_pm *gpu, const struct fth_pm_cp_plan *plan,
		       cudaStream_t stream)
{
	uint64_t blocks = plan->bytes / FTH_PM_CP_BLOCK, sum = 0;
	int rc = sum_plan(gpu, plan, stream);

	if (rc < 0)
		return rc;
	for (uint64_t i = 0; i < blocks; i++)
		sum += plan->sums[i];
	if (sum == plan->sum)
		return 0;
	return fth_fail(EBADMSG,
			"checkpoint: the data of version %llu of group %u is damaged: the checksum "
			"does not match",
			(unsigned long long)plan->version, plan->group);
}

static int copy_buffers(struct fth_gpu_pm *gpu, const struct fth_pm_cp_plan *plan,
			cudaStream_t stream)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < plan->count; i++)
		rc = fth_gpu_check(
			cudaMemcpyAsync(plan->buffers[i].address,
					gpu->pm->view.base + plan->offset + plan->buffers[i].at,
					plan->buffers[i].bytes, cudaMemcpyDefault, stream),
			"restoring a buffer");
	return rc < 0 ? rc : finish_stream(stream);
}

int fth_gpu_pm_checkpoint_restore(struct fth_pm_checkpoint *cp, uint32_t group,
				  struct CUstream_st *stream)
{
	struct fth_pm_cp_plan plan;
	struct fth_gpu_pm *gpu;
	int rc = gpu_of(cp, &gpu);

	if (rc == 0)
		rc = fth_pm_checkpoint_plan_restore(cp, group, &plan);
	if (rc == 0)
		rc = verify_plan(gpu, &plan, stream);
	if (rc == 0)
		rc = copy_buffers(gpu, &plan, stream);
	if (rc < 0)
		return rc;
	fth_pm_checkpoint_verified(cp, &plan);
	return plan.result;
}
