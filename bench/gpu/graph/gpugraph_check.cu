/* SPDX-License-Identifier: BSD-2-Clause */
#include "gpugraph.h"

#include "fathom/graph.h"

#define THREADS 256u
#define BLOCKS	4096u

/*
 * Levels: an edge spans one level at most, none leads out of what is reached, and each vertex but
 * the source has a neighbour one level lower.
 */
struct search {
	const uint32_t *level;

	__device__ bool start(uint64_t v, uint64_t source) const
	{
		return v == source ? level[v] == 0 : level[v] != 0;
	}

	__device__ bool reached(uint64_t v) const
	{
		return level[v] != UINT32_MAX;
	}

	__device__ bool legal(uint64_t v, uint32_t u, uint32_t) const
	{
		return reached(u) == reached(v) && (!reached(v) || level[u] <= level[v] + 1);
	}

	__device__ bool from(uint64_t v, uint32_t u, uint32_t) const
	{
		return level[u] + 1 == level[v];
	}
};

/* Distances likewise; no weight is negative. */
struct paths {
	const uint64_t *distance;

	__device__ bool start(uint64_t v, uint64_t source) const
	{
		return v != source || distance[v] == 0;
	}

	__device__ bool reached(uint64_t v) const
	{
		return distance[v] != FTH_GRAPH_FAR;
	}

	__device__ bool legal(uint64_t v, uint32_t u, uint32_t weight) const
	{
		return reached(u) == reached(v) &&
		       (!reached(v) || distance[u] <= distance[v] + weight);
	}

	__device__ bool from(uint64_t v, uint32_t u, uint32_t weight) const
	{
		return distance[u] + weight == distance[v];
	}
};

/* Labels: the same at both ends, and the label of a vertex is one that has itself as its label. */
struct components {
	const uint32_t *label;

	__device__ bool start(uint64_t v, uint64_t) const
	{
		return label[v] <= v && label[label[v]] == label[v];
	}

	__device__ bool reached(uint64_t) const
	{
		return false;
	}

	__device__ bool legal(uint64_t v, uint32_t u, uint32_t) const
	{
		return label[u] == label[v];
	}

	__device__ bool from(uint64_t, uint32_t, uint32_t) const
	{
		return false;
	}
};

template <typename Rules>
__global__ static void count_wrong(struct gpugraph_lists lists, Rules rules, uint64_t source,
				   unsigned long long *count)
{
	uint64_t v = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;

	for (; v < lists.vertices; v += (uint64_t)gridDim.x * blockDim.x) {
		bool right = rules.start(v, source), found = v == source || !rules.reached(v);

		for (uint64_t e = lists.offsets[v]; right && e < lists.offsets[v + 1]; e++) {
			uint32_t u = lists.edges_at[e];
			uint32_t weight = lists.weights_at ? lists.weights_at[e] : 0;

			right = rules.legal(v, u, weight);
			found = found || rules.from(v, u, weight);
		}
		if (!right || !found)
			atomicAdd(count, 1ull);
	}
}

template <typename Rules>
static int check(const struct gpugraph_lists *lists, Rules rules, uint64_t source,
		 unsigned long long *count, cudaStream_t stream)
{
	unsigned long long wrong = 0;
	int rc = 0;

	TRY(rc, cudaMemsetAsync(count, 0, sizeof(*count), stream));
	if (rc == 0)
		count_wrong<<<BLOCKS, THREADS, 0, stream>>>(*lists, rules, source, count);
	TRY(rc, cudaGetLastError());
	TRY(rc, cudaMemcpyAsync(&wrong, count, sizeof(wrong), cudaMemcpyDeviceToHost, stream));
	TRY(rc, cudaStreamSynchronize(stream));
	if (rc == 0 && wrong)
		rc = fth_fail(EILSEQ, "the result is wrong at %llu vertices", wrong);
	return rc;
}

int gpugraph_check(const struct gpugraph_lists *lists, enum gpugraph_algorithm algorithm,
		   const void *values, uint64_t source, unsigned long long *count,
		   cudaStream_t stream)
{
	struct search search = {(const uint32_t *)values};
	struct paths paths = {(const uint64_t *)values};
	struct components components = {(const uint32_t *)values};

	switch (algorithm) {
	case GPUGRAPH_BFS_PUSH:
	case GPUGRAPH_BFS:
		return check(lists, search, source, count, stream);
	case GPUGRAPH_CC:
		return check(lists, components, source, count, stream);
	case GPUGRAPH_SSSP:
		return check(lists, paths, source, count, stream);
	default:
		return 0;
	}
}
