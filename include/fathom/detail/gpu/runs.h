/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs of bytes copied between a cache in GPU memory and other memory, for fathom/gpu/array.h. */
#ifndef FATHOM_GPU_RUNS_H
#define FATHOM_GPU_RUNS_H

#include "fathom/detail/gpu/pins.h"

#if defined(__CUDACC__) || defined(FTH_WARP_ON_HOST)

/* One piece within a line, all lanes; 16 bytes each where both sides allow it. */
FTH_GPU void fth_gpu_copy_(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
	uint32_t lane = fth_warp_lane();

	if ((((uint64_t)to | (uint64_t)from | bytes) & 15) == 0) {
		for (uint32_t k = 16 * lane; k < bytes; k += 512)
			*(uint4 *)(to + k) = *(const uint4 *)(from + k);
	} else {
		for (uint32_t k = lane; k < bytes; k += 32)
			to[k] = from[k];
	}
}

/* Bring in the next 32 lines of a run, all at once. */
FTH_GPU void fth_gpu_run_ahead_(struct fth_gpu_cache_state *cache, uint32_t array, uint64_t line,
				uint64_t last)
{
	line += fth_warp_lane();
	/* What fails here fails again below, where someone looks at the error. */
	(void)fth_gpu_access_(cache, array, (line < last ? line : last) << cache->line_shift,
			      FTH_GPU_OP_PREFETCH, 0, 0, 0);
	__syncwarp();
}

/*
 * Copy bytes [byte, byte + bytes) of an array, not 0, from or to memory: lines step, step + steps
 * and so on of the run. Lines that are written whole are not brought in.
 */
FTH_GPU_CALL int fth_gpu_run_(struct fth_gpu_cache_state *cache, uint32_t array, uint64_t byte,
			      uint64_t bytes, uint8_t *memory, bool write, uint32_t step,
			      uint32_t steps)
{
	uint32_t size = 1u << cache->line_shift;
	uint64_t first = byte >> cache->line_shift, last = (byte + bytes - 1) >> cache->line_shift;
	uint64_t turn = 0;

	for (uint64_t line = first + step; line <= last; line += steps, turn++) {
		uint64_t from = line << cache->line_shift, to = from + size;
		struct fth_gpu_pin pin;
		bool whole;

		if (!write && steps == 1 && turn % 32 == 0)
			fth_gpu_run_ahead_(cache, array, line, last);
		from = from < byte ? byte : from;
		to = to > byte + bytes ? byte + bytes : to;
		whole = to - from == size;
		pin = fth_gpu_pin_(cache, ~0u, array, line,
				   !write  ? FTH_GPU_READ
				   : whole ? FTH_GPU_OVERWRITE
					   : FTH_GPU_WRITE);
		if (pin.rc < 0)
			return pin.rc;
		if (write)
			fth_gpu_copy_(pin.data + (from & (size - 1)), memory + (from - byte),
				      (uint32_t)(to - from));
		else
			fth_gpu_copy_(memory + (from - byte), pin.data + (from & (size - 1)),
				      (uint32_t)(to - from));
		fth_gpu_unpin_(cache, ~0u, array, line, pin, write);
	}
	return 0;
}

#endif
#endif
