/* SPDX-License-Identifier: BSD-2-Clause */
#include "gpu/cub_error.h"
#include "gpugraph.h"

#include "graph/build/gen_edge.h"

#include <cub/device/device_scan.cuh>

#define THREADS 256u
#define BLOCKS	(132u * 16)

typedef unsigned long long u64;

/* How long the list of v will be, into offsets[v + 1]. */
__global__ static void count_edges(struct fth_graph_gen gen, uint64_t count, u64 *offsets)
{
	uint64_t step = (uint64_t)gridDim.x * blockDim.x;

	for (uint64_t e = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; e < count; e += step) {
		uint32_t from, to;

		fth_graph_gen_edge_(&gen, e, &from, &to);
		if (from == to)
			continue;
		atomicAdd(&offsets[from + 1], 1);
		atomicAdd(&offsets[to + 1], 1);
	}
}

__device__ static void put(uint32_t from, uint32_t to, uint32_t weight, u64 *ends, uint32_t *edges,
			   uint32_t *weights)
{
	u64 at = atomicAdd(&ends[from], 1);

	edges[at] = to;
	if (weights)
		weights[at] = weight;
}

__global__ static void put_edges(struct fth_graph_gen gen, uint64_t count, uint64_t seed, u64 *ends,
				 uint32_t *edges, uint32_t *weights)
{
	uint64_t step = (uint64_t)gridDim.x * blockDim.x;

	for (uint64_t e = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; e < count; e += step) {
		uint32_t from, to, weight = 0;

		fth_graph_gen_edge_(&gen, e, &from, &to);
		if (from == to)
			continue;
		if (weights)
			weight = fth_graph_gen_weight_(seed, from, to);
		put(from, to, weight, ends, edges, weights);
		put(to, from, weight, ends, edges, weights);
	}
}

/* Lengths become beginnings. */
static int scan(u64 *offsets, uint64_t n, cudaStream_t stream)
{
	size_t bytes = 0;
	void *room = NULL;
	int rc = 0;

	TRY_CUB(rc,
		cub::DeviceScan::InclusiveSum(NULL, bytes, offsets, offsets, (int64_t)n, stream));
	TRY(rc, cudaMalloc(&room, bytes));
	TRY_CUB(rc,
		cub::DeviceScan::InclusiveSum(room, bytes, offsets, offsets, (int64_t)n, stream));
	TRY(rc, cudaStreamSynchronize(stream));
	(void)cudaFree(room);
	return rc;
}

int gpugraph_make_lists(const struct fth_graph_gen *gen, uint64_t count, uint64_t seed,
			struct gpugraph_lists *lists, cudaStream_t stream)
{
	uint64_t n = lists->vertices;
	u64 *offsets = (u64 *)lists->offsets, *ends = NULL;
	int rc = 0;

	TRY(rc, cudaMalloc((void **)&ends, n * sizeof(u64)));
	TRY(rc, cudaMemsetAsync(offsets, 0, (n + 1) * sizeof(u64), stream));
	if (rc == 0)
		count_edges<<<BLOCKS, THREADS, 0, stream>>>(*gen, count, offsets);
	TRY(rc, cudaGetLastError());
	if (rc == 0)
		rc = scan(offsets, n + 1, stream);
	TRY(rc, cudaMemcpyAsync(ends, offsets, n * sizeof(u64), cudaMemcpyDeviceToDevice, stream));
	if (rc == 0)
		put_edges<<<BLOCKS, THREADS, 0, stream>>>(*gen, count, seed, ends, lists->edges_at,
							  lists->weights_at);
	TRY(rc, cudaGetLastError());
	TRY(rc, cudaMemcpyAsync(&lists->edges, offsets + n, sizeof(u64), cudaMemcpyDeviceToHost,
				stream));
	TRY(rc, cudaStreamSynchronize(stream));
	(void)cudaFree(ends);
	return rc;
}
