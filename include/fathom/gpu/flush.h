/* SPDX-License-Identifier: BSD-2-Clause */
/* Flushing a cache in GPU memory from kernels. */
#ifndef FATHOM_GPU_FLUSH_H
#define FATHOM_GPU_FLUSH_H

#include "fathom/detail/gpu/lines.h"

#if defined(__CUDACC__) || defined(FTH_WARP_ON_HOST)

/* Write the line in frame f if it is dirty; wait for a write that another has under way. */
FTH_GPU bool fth_gpu_flush_look_(struct fth_gpu_cache_state *cache, uint32_t f,
				 struct fth_gpu_move *write)
{
	uint64_t tag = fth_load_relaxed_dev64(&cache->tags[f]), now;
	uint64_t *word = fth_gpu_tag_word_(cache, tag);

	if (!word)
		return true;
	now = fth_load_relaxed_dev64(word);
	if (!fth_line_ready(now) || fth_line_frame(now) != f ||
	    !(now & (FTH_LINE_DIRTY | FTH_LINE_WRITING)))
		return true;
	if (!(now & FTH_LINE_WRITING))
		fth_gpu_start_write_(tag, word, write);
	return false;
}

/* One frame per lane of mask: return when the lines that were dirty in them are written. */
FTH_GPU int fth_gpu_flush_frames_(struct fth_gpu_cache_state *cache, uint32_t mask, uint32_t f)
{
	struct fth_gpu_move none = fth_gpu_move_none_(), write = fth_gpu_move_none_();
	uint64_t deadline = fth_deadline_ns(cache->timeout_ns);
	uint32_t no_frame = FTH_GPU_NO_FRAME, version;
	bool done = f >= cache->frames, writes;
	int rc = 0;

	while (__any_sync(mask, !done)) {
		if (!done)
			done = fth_gpu_flush_look_(cache, f, &write);
		writes = write.want;
		__syncwarp(mask);
		if (__any_sync(mask, writes)) {
			fth_gpu_move_both_(cache, mask, &none, &write);
			fth_gpu_count_(cache, mask, writes && write.rc == 0, FTH_GPU_WRITE_BACKS);
			fth_gpu_count_(cache, mask, writes && write.lost, FTH_GPU_LOST_FRAMES);
		} else {
			__nanosleep(1000);
		}
		if (writes) {
			fth_gpu_after_write_(cache, &write, false, &no_frame, &version);
			rc = write.rc;
			done = true;
		} else if (!done && fth_now_ns() >= deadline) {
			rc = -ETIMEDOUT;
			done = true;
		}
		__syncwarp(mask);
	}
	return rc;
}

/*
 * Write the lines that are dirty now in part p of n of the cache. All 32 lanes call. The data is
 * durable after fth_gpu_flush_drive(). Returns 0 or the first error of any lane. After an error the
 * other lines are written nevertheless; after two timeouts of the drive they are not.
 */
FTH_GPU_CALL int fth_gpu_flush_part(struct fth_gpu_cache_state *cache, uint32_t p, uint32_t n)
{
	uint32_t late = 0;
	int first = 0;

	for (uint64_t f = (uint64_t)p * 32; f < cache->frames && late < 2; f += (uint64_t)n * 32) {
		int rc = fth_gpu_flush_frames_(cache, ~0u, (uint32_t)f + fth_warp_lane());

		first = first ? first : rc;
		late += __any_sync(~0u, rc == -ETIME) ? 1 : 0;
	}
	return __reduce_min_sync(~0u, first);
}

/* Flush every SSD. All 32 lanes of one warp call, after all parts were written. */
FTH_GPU_CALL int fth_gpu_flush_drive(struct fth_gpu_cache_state *cache)
{
	uint64_t deadline = fth_deadline_ns(cache->timeout_ns);
	struct fth_nvme_warp warp = fth_nvme_warp_of(~0u);
	struct fth_gpu_io io = {};
	int first = 0;

	io.opcode = FTH_NVME_FLUSH;
	io.blocks = 1;
	for (uint32_t ssd = 0; ssd < cache->drive.ssds; ssd++) {
		int rc = fth_gpu_io(&cache->drive, ssd, &warp, warp.lane == 0, &io, fth_gpu_warp_(),
				    deadline);

		first = first ? first : rc;
	}
	return __reduce_min_sync(~0u, first);
}

#endif
#endif
