/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lines that a warp is about to overwrite, up to 32 at once, one of each lane: frames are found and
 * dirty lines written for all of them together, and they are published together. One at a time each
 * would wait for its own atomics and, often, for its own write.
 *
 * 1. A claimed line is BUSY, with a reference, and its frame is this warp's, until lines_give().
 * 2. A lane whose line is there already, or being fetched, or that finds no frame soon, claims
 *    nothing: that line is pinned by itself when its turn comes. So a warp that has claimed some
 *    never waits for more.
 */
#ifndef FTH_APPS_GPU_CLAIM_H
#define FTH_APPS_GPU_CLAIM_H

#include "gpu_lines.h"

#define CLAIM_ROUNDS 2 /* of looking for frames */

/* A lane's. */
struct claim {
	uint32_t frame; /* FTH_GPU_NO_FRAME: nothing is claimed */
	uint32_t version;
};

FTH_GPU struct fth_gpu_want claim_want(struct fth_gpu_cache_state *cache, uint32_t array,
				       uint64_t line, struct claim claim)
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

/* All 32 lanes; those that say `mine` want to overwrite their line. */
FTH_GPU_CALL struct claim claim_lines(struct fth_gpu_cache_state *cache, uint32_t array,
				      uint64_t line, bool mine)
{
	struct claim claim = {FTH_GPU_NO_FRAME, 0};
	struct fth_gpu_want want = claim_want(cache, array, line, claim);

	if (mine)
		want.owner = fth_gpu_own_(want.word, fth_load_relaxed_dev64(want.word));
	__syncwarp();
	for (int round = 0; round < CLAIM_ROUNDS && __any_sync(ALL, want.owner); round++) {
		fth_gpu_fetch_round_(cache, ALL, &want);
		if (want.owner && want.arrived) {
			claim.frame = want.frame;
			claim.version = want.version;
			want.owner = false;
		}
		__syncwarp();
	}
	/* The others leave their lines as they were; one may have got a frame in the end. */
	if (want.owner) {
		if (want.frame != FTH_GPU_NO_FRAME)
			fth_gpu_free_frame_(cache, want.frame, want.version);
		fth_add_acqrel_dev64(want.word, (uint64_t)0 - FTH_LINE_BUSY - FTH_LINE_ONE);
	}
	__syncwarp();
	return claim;
}

/* Let everyone see the lines that were `filled`, and forget those that were not. */
FTH_GPU_CALL void claim_give(struct fth_gpu_cache_state *cache, uint32_t array, uint64_t line,
			     struct claim claim, bool filled)
{
	struct fth_gpu_want want;

	/* What all lanes have written is before the publishing of each. */
	__syncwarp();
	if (claim.frame == FTH_GPU_NO_FRAME)
		return;
	want = claim_want(cache, array, line, claim);
	if (filled) {
		if (!fth_load_relaxed_dev32(&cache->dirtied))
			fth_store_relaxed_dev32(&cache->dirtied, 1);
		fth_gpu_publish_(&want, FTH_LINE_DIRTY, false);
	} else {
		fth_gpu_free_frame_(cache, claim.frame, claim.version);
		fth_add_acqrel_dev64(want.word, (uint64_t)0 - FTH_LINE_BUSY - FTH_LINE_ONE);
	}
}

/* ---- for kernels ---- */

/* Claim those of lines [first, first + n) that are in the array to their end. */
FTH_GPU struct claim lines_claim(const struct fth_gpu_array &a, uint64_t first, uint32_t n)
{
	uint32_t lane = fth_warp_lane();
	bool mine = lane < n && elements_of(a, first + lane) << 3 >> a.line_shift;

	__syncwarp();
	return FTH_GPU_FAR_(claim_lines)(a.cache, a.range, first + (mine ? lane : 0), mine);
}

/* Where line k of them is to be written; NULL: it was not claimed, pin it. */
FTH_GPU uint8_t *lines_claimed(const struct fth_gpu_array &a, struct claim claim, uint32_t k)
{
	uint32_t frame = __shfl_sync(ALL, claim.frame, (int)k);

	return frame == FTH_GPU_NO_FRAME ? NULL : a.data + ((uint64_t)frame << a.line_shift);
}

/* The first `filled` of them have been written. */
FTH_GPU void lines_give(const struct fth_gpu_array &a, uint64_t first, struct claim claim,
			uint32_t filled)
{
	uint32_t lane = fth_warp_lane();

	FTH_GPU_FAR_(claim_give)(a.cache, a.range, first + lane, claim, lane < filled);
}

FTH_GPU struct claim lines_claim(const struct plain &, uint64_t, uint32_t)
{
	struct claim none = {FTH_GPU_NO_FRAME, 0};

	return none;
}

FTH_GPU uint8_t *lines_claimed(const struct plain &, struct claim, uint32_t)
{
	return NULL;
}

FTH_GPU void lines_give(const struct plain &, uint64_t, struct claim, uint32_t)
{
}

#endif
