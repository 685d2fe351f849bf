/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocks of checkpoints, moved and summed up by warps: 512 words of 8 bytes, 16 for each lane. What
 * comes out is the same as on the CPU, bit for bit (fathom/detail/pm/checkpoint.h). All 32 lanes
 * call.
 */
#ifndef FATHOM_DETAIL_PM_CHECKPOINT_WARP_H
#define FATHOM_DETAIL_PM_CHECKPOINT_WARP_H

#include "fathom/detail/pm/checkpoint.h"

#if defined(__CUDACC__) || defined(FTH_WARP_ON_HOST)

#define FTH_PM_CP_LANE_WORDS (FTH_PM_CP_BLOCK / 8 / 32)

/* The words of a block that a lane has: those with numbers lane, lane + 32, ... */
struct fth_pm_cp_lane {
	uint64_t words[FTH_PM_CP_LANE_WORDS];
};

/* Word `number` of a block of which `left` bytes are there, at any address; zeroes follow. */
FTH_WARP uint64_t fth_pm_cp_load_(const uint8_t *from, uint32_t number, uint64_t left)
{
	uint64_t at = (uint64_t)number * 8, word = 0;

	if (at + 8 <= left && (uintptr_t)from % 8 == 0)
		return *(const uint64_t *)(const void *)(from + at);
	for (uint32_t i = 0; i < 8 && at + i < left; i++)
		word |= (uint64_t)from[at + i] << 8 * i;
	return word;
}

FTH_WARP void fth_pm_cp_warp_load(struct fth_pm_cp_lane *lane, const uint8_t *from, uint64_t left)
{
	for (uint32_t k = 0; k < FTH_PM_CP_LANE_WORDS; k++)
		lane->words[k] = fth_pm_cp_load_(from, k * 32 + fth_warp_lane(), left);
}

/* The block's checksum, for all lanes; its first word is word `number` of the group's data. */
FTH_WARP uint64_t fth_pm_cp_warp_sum(const struct fth_pm_cp_lane *lane, uint64_t number)
{
	uint64_t sum = 0;

	for (uint32_t k = 0; k < FTH_PM_CP_LANE_WORDS; k++)
		sum += fth_pm_cp_word(number + k * 32 + fth_warp_lane(), lane->words[k]);
	for (uint32_t other = 16; other > 0; other /= 2)
		sum += __shfl_sync(~0u, sum, (int)(fth_warp_lane() ^ other));
	return sum;
}

/*
 * Save a block of which `left` bytes are at `from`, to `to` in persistent memory, unless its
 * checksum is *sum and `known` says that the block there has it. Sets *sum. Returns whether it was
 * written. The stores are flushed; a fence of the host, after the kernel, makes them persistent.
 */
FTH_WARP bool fth_pm_cp_warp_save(const struct fth_pm_view *pm, uint8_t *to, const uint8_t *from,
				  uint64_t left, uint64_t number, uint64_t *sum, bool known)
{
	struct fth_pm_cp_lane lane;
	uint64_t now;

	fth_pm_cp_warp_load(&lane, from, left);
	now = fth_pm_cp_warp_sum(&lane, number);
	if (known && *sum == now)
		return false;
	for (uint32_t k = 0; k < FTH_PM_CP_LANE_WORDS; k++)
		fth_pm_put64(pm, (uint64_t *)(void *)to + k * 32 + fth_warp_lane(), lane.words[k]);
	/* All lanes have read *sum, and their stores come before the mark of the page. */
	__threadfence_system();
	__syncwarp();
	if (fth_warp_lane() == 0) {
		*sum = now;
		fth_pm_flush_range(pm, to, FTH_PM_CP_BLOCK);
	}
	return true;
}

/* The checksum of a block of persistent memory, for all lanes. */
FTH_WARP uint64_t fth_pm_cp_warp_verify(const uint8_t *block, uint64_t number)
{
	struct fth_pm_cp_lane lane;

	fth_pm_cp_warp_load(&lane, block, FTH_PM_CP_BLOCK);
	return fth_pm_cp_warp_sum(&lane, number);
}

#endif
#endif
