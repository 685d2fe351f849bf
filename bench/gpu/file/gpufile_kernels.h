/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernels of `fathom bench gpufile`; gpufile_warp.h has what a warp of them does. */
#ifndef FTH_BENCH_GPUFILE_KERNELS_H
#define FTH_BENCH_GPUFILE_KERNELS_H

#include "gpufile_internal.h"
#include "gpufile_warp.h"

#define GPUFILE_PATIENCE_NS 30000000000ull /* for a block */

static __device__ void gpufile_tell(struct gpufile_report *report, uint64_t wrong, int rc)
{
	if (wrong)
		atomicAdd(&report->wrong, 1);
	chunk_tell(&report->work, chunk_worst(rc));
}

/* ---- ours: blocks ---- */

struct gpufile_job {
	struct fth_gpu_view view;
	struct gpufile_order order;
	char *data; /* twice a block for each thread */
	struct gpufile_report *report;
	uint64_t limit_ns;
	uint32_t threads;
	uint32_t rounds; /* at most */
};

static __device__ struct gpufile_share gpufile_share_of(const struct gpufile_job *job,
							uint32_t first)
{
	uint64_t bytes = gpufile_bytes(&job->order);
	struct gpufile_share share = {};

	share.view = job->view;
	share.order = job->order;
	share.from = job->data + first * bytes;
	share.to = share.from + job->threads * bytes;
	share.queue = first / 32 % job->view.queues;
	share.hint = first / 32 / job->view.queues;
	return share;
}

template <bool WRITE>
static __global__ void __launch_bounds__(256) gpufile_blocks(struct gpufile_job job)
{
	uint32_t first = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 32, round;
	uint64_t begin = fth_now_ns(), wrong = 0;
	struct gpufile_share share = gpufile_share_of(&job, first);
	int rc = 0;

	for (round = 0; round < job.rounds; round++) {
		uint64_t c = (uint64_t)round * job.threads + first;

		if (__any_sync(~0u, rc < 0 || fth_now_ns() - begin >= job.limit_ns))
			break;
		share.deadline = fth_deadline_ns(GPUFILE_PATIENCE_NS);
		rc = WRITE ? gpufile_write_read(&share, c, &wrong)
			   : gpufile_read(&share, c, share.queue, &wrong);
	}
	if (threadIdx.x % 32 == 0)
		atomicAdd(&job.report->rounds, round);
	gpufile_tell(job.report, wrong, rc);
}

/* ---- ours: lines ---- */

/* A line for each of the first n lanes, all at once; the other lanes bring in the last as well. */
static __device__ int gpufile_bring(const fth_gpu_array<uint64_t> &a,
				    const struct gpufile_order *order, uint64_t c, uint32_t n)
{
	uint32_t lane = fth_warp_lane();

	return chunk_worst(lines_bring(a, gpufile_piece(order, c + (lane < n ? lane : n - 1))));
}

/* n lines in the given order: a warp brings in `ahead` of them, then looks at each. */
static __global__ void __launch_bounds__(256, 6)
	gpufile_lines(fth_gpu_array<uint64_t> a, struct gpufile_order order, uint64_t n,
		      uint32_t ahead, struct gpufile_report *report)
{
	uint64_t c, wrong = 0;
	int rc = 0;

	while (rc == 0 && (c = chunk_take(&report->work) * ahead) < n) {
		uint32_t count = n - c < ahead ? (uint32_t)(n - c) : ahead;

		rc = gpufile_bring(a, &order, c, count);
		for (uint32_t k = 0; k < count && rc == 0; k++)
			rc = gpufile_look(a, gpufile_piece(&order, c + k), order.stamp, &wrong);
	}
	gpufile_tell(report, wrong, rc);
}

#endif
