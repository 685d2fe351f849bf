/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Claims: a warp overwrites up to 32 lines, and gets the frames of all of them, writes back the
 * dirty lines that were in these frames, and publishes all of them together. Pinned one at a time,
 * each line would wait for its own atomics and, often, for its own write-back.
 *
 *	struct fth_gpu_claim claim = fth_gpu_claim_lines(a, first, n);
 *
 *	for (k = 0; k < n; k++)
 *		if ((data = fth_gpu_claim_data(a, claim, k)))
 *			(all lanes together set every byte of line first + k)
 *	fth_gpu_claim_give(a, first, claim, n);
 *	(what was not claimed: one by one, with a cursor)
 *
 * All 32 lanes call, with the same arguments.
 *
 * 1. A claimed line is BUSY, with a reference of the lane that has it, and its frame belongs to
 *    this warp until fth_gpu_claim_give(); other warps wait for it as for a fetch. Give the lines
 *    within the cache's timeout, on error paths too.
 * 2. Claiming returns no error and waits only briefly. It skips a line that is in the cache or
 *    being fetched, that is only partly inside the array, or for which no frame is found soon; and
 *    all lines of a read-only array and outside the array: pinning those returns the error.
 * 3. Claims hold frames. A warp that gives its lines before it waits for anything makes progress
 *    with any number of frames. A warp that fetches or pins lines meanwhile needs a cache with
 *    frames to spare when all warps have their claims; otherwise it may wait for itself: -ENOBUFS.
 */
#ifndef FATHOM_GPU_CLAIM_H
#define FATHOM_GPU_CLAIM_H

#include "fathom/detail/gpu/pins.h"

#if defined(__CUDACC__) || defined(FTH_WARP_ON_HOST)

#define FTH_GPU_CLAIM_ROUNDS 2 /* of looking for frames */

/* The part of a lane: lane k has line k. */
struct fth_gpu_claim {
	uint32_t frame; /* FTH_GPU_NO_FRAME: nothing is claimed */
	uint32_t version;
};

FTH_GPU struct fth_gpu_want fth_gpu_claim_want_(struct fth_gpu_cache_state *cache, uint32_t array,
						uint64_t line, struct fth_gpu_claim claim)
{
	struct fth_gpu_want want = {};

	want.word = &cache->ranges[array].words[line];
	want.line = line;
	want.array = array;
	want.frame = claim.frame;
	want.version = claim.version;
	want.blank = true;
	return want;
}

/* All 32 lanes; those that say `mine` want to overwrite their line, each another. */
FTH_GPU_CALL struct fth_gpu_claim fth_gpu_claim_(struct fth_gpu_cache_state *cache, uint32_t array,
						 uint64_t line, bool mine)
{
	struct fth_gpu_claim claim = {FTH_GPU_NO_FRAME, 0};
	struct fth_gpu_want want = fth_gpu_claim_want_(cache, array, line, claim);

	if (mine && line < cache->ranges[array].lines && !cache->ranges[array].readonly)
		want.owner = fth_gpu_own_(want.word, fth_load_relaxed_dev64(want.word));
	__syncwarp();
	for (int round = 0; round < FTH_GPU_CLAIM_ROUNDS && __any_sync(~0u, want.owner); round++) {
		fth_gpu_fetch_round_(cache, ~0u, &want);
		if (want.owner && want.arrived) {
			claim.frame = want.frame;
			claim.version = want.version;
			want.owner = false;
		}
		__syncwarp();
	}
	/* The other lanes claim nothing; a lane may have got a frame in the last round. */
	if (want.owner)
		fth_gpu_disown_(cache, &want);
	__syncwarp();
	return claim;
}

/* Publish the lines that were `filled`, and drop those that were not. */
FTH_GPU_CALL void fth_gpu_claim_give_(struct fth_gpu_cache_state *cache, uint32_t array,
				      uint64_t line, struct fth_gpu_claim claim, bool filled)
{
	struct fth_gpu_want want;

	/* What all lanes have written is before the publishing of each. */
	__syncwarp();
	if (claim.frame == FTH_GPU_NO_FRAME)
		return;
	want = fth_gpu_claim_want_(cache, array, line, claim);
	if (!filled) {
		fth_gpu_disown_(cache, &want);
		return;
	}
	fth_gpu_dirties_(cache);
	fth_gpu_publish_(&want, FTH_LINE_DIRTY, false);
}

/* ---- for kernels ---- */

/* Is the whole line inside the array? The bytes after the end of an array are not its own. */
template <typename T> FTH_GPU bool fth_gpu_claim_whole_(const fth_gpu_array<T> &a, uint64_t line)
{
	return line < a.count >> (a.line_shift - fth_gpu_shift_<T>());
}

/* Claim what can be claimed of lines [first, first + n); n is at most 32. */
template <typename T>
FTH_GPU struct fth_gpu_claim fth_gpu_claim_lines(const fth_gpu_array<T> &a, uint64_t first,
						 uint32_t n)
{
	uint64_t line = first + fth_warp_lane();
	bool mine = fth_warp_lane() < n && fth_gpu_claim_whole_(a, line);

	__syncwarp();
	return FTH_GPU_FAR_(fth_gpu_claim_)(a.cache, a.range, line, mine);
}

/* The elements of line first + k, for writing; the same in all lanes. NULL: not claimed. */
template <typename T>
FTH_GPU T *fth_gpu_claim_data(const fth_gpu_array<T> &a, struct fth_gpu_claim claim, uint32_t k)
{
	uint32_t frame = __shfl_sync(~0u, claim.frame, (int)k);

	return frame == FTH_GPU_NO_FRAME ? NULL : (T *)(a.data + ((uint64_t)frame << a.line_shift));
}

/* Publish the first `filled` lines and release the claims of the others, which are unchanged. */
template <typename T>
FTH_GPU void fth_gpu_claim_give(const fth_gpu_array<T> &a, uint64_t first,
				struct fth_gpu_claim claim, uint32_t filled)
{
	uint32_t lane = fth_warp_lane();

	FTH_GPU_FAR_(fth_gpu_claim_give_)(a.cache, a.range, first + lane, claim, lane < filled);
}

#endif
#endif
