/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading single elements in patterns, on a GPU. */
#include "gpu_work_internal.h"

#include <errno.h>

#define RUN 16u /* times that a warp goes on where it is before it goes elsewhere */

/* Neighbouring accesses by the lanes of a warp; all lanes go round as often as the first. */
template <class A>
static __global__ void __launch_bounds__(256, 6)
	pattern_kernel(A a, struct fth_gpu_accesses accesses, struct work_state *state)
{
	uint32_t warps = gridDim.x * (blockDim.x / 32), lane = fth_warp_lane();
	uint64_t first = (uint64_t)fth_gpu_warp_() * RUN * 32, sum = 0;
	uint32_t turn = 0;
	int rc = 0;

	while (first < accesses.n && rc == 0) {
		uint64_t j = first + lane, v = 0;
		/* Lanes behind the end read what the first one reads. */
		uint64_t i = fth_gpu_access_index(&accesses, j < accesses.n ? j : first);

		rc = lines_get(a, i, &v);
		sum += j < accesses.n ? v ^ j : 0;
		rc = __any_sync(ALL, rc < 0) ? chunk_worst(rc) : 0;
		first += ++turn % RUN ? 32 : ((uint64_t)(warps - 1) * RUN + 1) * 32;
	}
	sum = chunk_sum(sum);
	if (lane == 0)
		atomicAdd(&state->sum, sum);
	chunk_tell(state, rc);
}

static int check_accesses(const struct fth_gpu_source *a, const struct fth_gpu_accesses *accesses)
{
	if (accesses->count == 0 || accesses->count > a->count)
		return fth_fail(EINVAL, "%llu accesses to an array of %llu elements",
				(unsigned long long)accesses->count, (unsigned long long)a->count);
	if ((unsigned)accesses->pattern >= FTH_GPU_PATTERNS)
		return fth_fail(EINVAL, "unknown pattern");
	if (accesses->pattern == FTH_GPU_STRIDED &&
	    (accesses->stride == 0 || accesses->count % accesses->stride))
		return fth_fail(EINVAL, "the stride does not divide the number of elements");
	return 0;
}

int fth_gpu_access_run(struct fth_gpu_work *work, const struct fth_gpu_source *a,
		       const struct fth_gpu_accesses *accesses, uint64_t *sum)
{
	fth_gpu_array<uint64_t> cached;
	int rc = work_check_source(a);

	if (rc == 0)
		rc = check_accesses(a, accesses);
	if (rc == 0)
		rc = work_cached(a, &cached);
	if (rc == 0)
		rc = work_begin(work);
	if (rc < 0)
		return rc;
	if (a->plain)
		pattern_kernel<<<work->opts.blocks, FTH_GPU_WORK_THREADS, 0, work->stream>>>(
			work_plain<uint64_t>(a), *accesses, work->state);
	else
		pattern_kernel<<<work->opts.blocks, FTH_GPU_WORK_THREADS, 0, work->stream>>>(
			cached, *accesses, work->state);
	return work_end(work, "reading in a pattern", sum);
}

const void *work_pattern_kernel(void)
{
	return (const void *)pattern_kernel<fth_gpu_array<uint64_t>>;
}
