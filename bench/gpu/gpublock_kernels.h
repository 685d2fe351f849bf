/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernels of `fathom bench gpublock`. Command c of a run moves block gpublock_block(c) of the
 * medium from or to place c of the data, so that after the run every byte that was moved can be
 * checked, and no block is moved twice before all the others were.
 */
#ifndef FTH_BENCH_GPUBLOCK_KERNELS_H
#define FTH_BENCH_GPUBLOCK_KERNELS_H

#include "gpu_data.h"
#include "gpublock_lock.h"

#include "fathom/gpu/io.h"

#define GPUBLOCK_PATIENCE_NS 30000000000ull

struct gpublock_job {
	struct fth_gpu_view view;
	struct gpublock_lock *locks; /* per queue pair */
	char *medium;		     /* as kernels see it */
	char *data;
	uint32_t *done; /* per thread: how many commands it has finished */
	uint64_t first; /* number of the run's first command */
	uint64_t mask;	/* blocks of an SSD - 1 */
	uint64_t limit_ns;
	uint32_t block; /* bytes */
	uint32_t threads;
	uint32_t rounds; /* commands of one thread, at most */
	uint32_t stamp;	 /* which data, see gpu_word() */
	uint32_t write;
	uint32_t *failed; /* [0] how many, [1] the last error */
};

/*
 * The block of command c, counted over all SSDs, which lie one behind the other. The 32 commands of
 * a warp are for the SSD of its queue pair.
 */
FTH_HD uint64_t gpublock_block(const struct gpublock_job *job, uint64_t c)
{
	uint64_t n = job->first + c, warp = n / 32, ssds = job->view.ssds;

	return warp % ssds * (job->mask + 1) + gpu_shuffle(warp / ssds * 32 + n % 32, job->mask);
}

/* ---- filling and checking: a warp for each sector of 64 words ---- */

struct gpublock_place {
	uint64_t *words; /* of this lane: two */
	uint64_t sector; /* which it must be */
};

/* Sector s of a run: where it lies in the data, or in the medium. */
static __device__ struct gpublock_place gpublock_place_of(const struct gpublock_job *job,
							  uint64_t s, bool in_medium)
{
	uint32_t each = job->block / 512;
	uint64_t block = gpublock_block(job, s / each), lane = threadIdx.x % 32;
	struct gpublock_place place;

	place.sector = block * each + s % each;
	place.words =
		(uint64_t *)(in_medium ? job->medium + place.sector * 512 : job->data + s * 512) +
		2 * lane;
	return place;
}

/* Fill the sectors of n commands in the data or the medium. */
static __global__ void gpublock_fill(struct gpublock_job job, uint64_t n, bool in_medium)
{
	uint64_t warps = (uint64_t)gridDim.x * blockDim.x / 32, lane = threadIdx.x % 32;

	for (uint64_t s = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) / 32;
	     s < n * (job.block / 512); s += warps) {
		struct gpublock_place p = gpublock_place_of(&job, s, in_medium);
		uint64_t i = p.sector * GPU_SECTOR_WORDS + 2 * lane;

		*(ulonglong2 *)p.words =
			make_ulonglong2(gpu_word(i, job.stamp), gpu_word(i + 1, job.stamp));
	}
}

/* Was the command of this sector finished? Command c is round c / threads of thread c % threads. */
static __device__ bool gpublock_was_done(const struct gpublock_job *job, uint64_t s)
{
	uint64_t c = s / (job->block / 512);

	return !job->done || c / job->threads < job->done[c % job->threads];
}

static __global__ void gpublock_check(struct gpublock_job job, uint64_t n, bool in_medium,
				      unsigned long long *wrong)
{
	uint64_t warps = (uint64_t)gridDim.x * blockDim.x / 32, lane = threadIdx.x % 32;

	for (uint64_t s = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) / 32;
	     s < n * (job.block / 512); s += warps) {
		struct gpublock_place p = gpublock_place_of(&job, s, in_medium);
		uint64_t i = p.sector * GPU_SECTOR_WORDS + 2 * lane;
		ulonglong2 found = *(const ulonglong2 *)p.words;

		if ((found.x != gpu_word(i, job.stamp) || found.y != gpu_word(i + 1, job.stamp)) &&
		    gpublock_was_done(&job, s))
			atomicAdd(wrong, 1);
	}
}

/* ---- the limit: the same blocks with no queue between ---- */

template <int DEPTH> static __global__ void gpublock_copy(struct gpublock_job job, uint64_t n)
{
	uint64_t warps = (uint64_t)gridDim.x * blockDim.x / 32, lane = threadIdx.x % 32;
	uint64_t warp = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) / 32;
	uint32_t each = job.block / 512;

	/* Sectors of one block stay together: DEPTH is 1, 4 or 8, blocks have 1 or 8. */
	for (uint64_t s = warp * DEPTH; s < n * each; s += warps * DEPTH) {
		uint4 v[DEPTH];

#pragma unroll
		for (int i = 0; i < DEPTH; i++) {
			struct gpublock_place p = gpublock_place_of(&job, s + i, !job.write);

			v[i] = __ldcg((const uint4 *)(void *)p.words);
		}
#pragma unroll
		for (int i = 0; i < DEPTH; i++) {
			struct gpublock_place p = gpublock_place_of(&job, s + i, job.write);

			*(uint4 *)(void *)p.words = v[i];
		}
	}
	(void)lane;
}

/* ---- the designs ---- */

static __device__ struct fth_gpu_io gpublock_io(const struct gpublock_job *job, uint64_t c)
{
	uint64_t block = gpublock_block(job, c) & job->mask;
	struct fth_gpu_io io = {};

	io.opcode = job->write ? FTH_NVME_WRITE : FTH_NVME_READ;
	io.blocks = job->block / 512; /* of the drive: a constant, it asks for no others */
	io.first = block * io.blocks;
	io.memory = job->data + c * job->block;
	return io;
}

static __device__ void gpublock_note(const struct gpublock_job *job, int rc)
{
	atomicAdd(&job->failed[0], 1);
	job->failed[1] = (uint32_t)-rc;
}

static __global__ void gpublock_warp(struct gpublock_job job)
{
	uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x, round;
	struct fth_nvme_warp warp = fth_nvme_warp_of(~0u);
	uint64_t begin = fth_now_ns(), deadline = begin + GPUBLOCK_PATIENCE_NS;
	uint32_t queue = thread / 32 % job.view.queues;
	int rc = 0;

	for (round = 0; round < job.rounds; round++) {
		struct fth_gpu_io io = gpublock_io(&job, (uint64_t)round * job.threads + thread);

		if (__any_sync(~0u, rc < 0 || fth_now_ns() - begin >= job.limit_ns))
			break;
		rc = fth_gpu_io(&job.view, queue, &warp, true, &io, thread / 32 / job.view.queues,
				deadline);
	}
	if (rc < 0)
		gpublock_note(&job, rc);
	job.done[thread] = round;
}

static __global__ void gpublock_thread(struct gpublock_job job)
{
	uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x, round;
	uint64_t begin = fth_now_ns(), deadline = begin + GPUBLOCK_PATIENCE_NS;
	struct fth_nvme_qp *qp = &job.view.qps[thread / 32 % job.view.queues];
	struct fth_nvme_done done;
	int rc = 0;

	for (round = 0; round < job.rounds; round++) {
		struct fth_gpu_io io = gpublock_io(&job, (uint64_t)round * job.threads + thread);
		struct fth_nvme_sqe command = fth_gpu_io_command_(&io, 512 * io.blocks);

		if (rc < 0 || fth_now_ns() - begin >= job.limit_ns)
			break;
		rc = fth_nvme_qp_exec(qp, &command, thread, deadline, &done, NULL);
	}
	if (rc < 0)
		gpublock_note(&job, rc);
	job.done[thread] = round;
}

static __global__ void gpublock_one_lock(struct gpublock_job job)
{
	uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x, round;
	uint64_t begin = fth_now_ns(), deadline = begin + GPUBLOCK_PATIENCE_NS;
	uint32_t queue = thread / 32 % job.view.queues;
	int rc = 0;

	for (round = 0; round < job.rounds; round++) {
		struct fth_gpu_io io = gpublock_io(&job, (uint64_t)round * job.threads + thread);
		struct fth_nvme_sqe command = fth_gpu_io_command_(&io, 512 * io.blocks);

		if (rc < 0 || fth_now_ns() - begin >= job.limit_ns)
			break;
		rc = gpublock_lock_exec(&job.locks[queue], &job.view.qps[queue], &command,
					deadline);
	}
	if (rc < 0)
		gpublock_note(&job, rc);
	job.done[thread] = round;
}

static __global__ void gpublock_init_locks(struct gpublock_job job)
{
	gpublock_lock_init(&job.locks[blockIdx.x], job.view.qps[blockIdx.x].ids);
}

#endif
