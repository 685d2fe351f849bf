/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the controller's warps move data: pieces of 512 bytes, 16 bytes per lane, several pieces
 * under way at once, whichever commands they belong to. A block is one piece or more. Over PCIe a
 * piece takes microseconds, so the rate is what is under way divided by that.
 */
#ifndef FTH_GPU_CTRL_MOVE_H
#define FTH_GPU_CTRL_MOVE_H

#include "ctrl.h"

#include "fathom/detail/nvme/queue_warp.h"

#define MOVE_DEPTH 8 /* pieces on their way at once, for each warp */
#define ALL_LANES  0xffffffffu

/* An array in registers needs indices that the compiler knows. */
#ifdef __CUDACC__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL
#endif

/* A command as its lane keeps it while the warp works on it. */
struct move {
	uint64_t medium; /* address of the first piece; of no meaning without pieces */
	uint64_t prp1, prp2;
	uint32_t pieces; /* 0: nothing to move */
	uint32_t write;
};

/* Strong loads: neither a stale line of L1 nor one that the CPU has changed since. */
FTH_WARP uint4 move_load(uint64_t address)
{
#ifdef __CUDA_ARCH__
	uint4 v;

	asm volatile("ld.relaxed.sys.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
		     : "l"(address)
		     : "memory");
	return v;
#else
	return *(const uint4 *)address;
#endif
}

FTH_WARP void move_store(uint64_t address, uint4 v)
{
#ifdef __CUDA_ARCH__
	asm volatile("st.relaxed.sys.v4.u32 [%0], {%1, %2, %3, %4};"
		     :
		     : "l"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
		     : "memory");
#else
	*(uint4 *)address = v;
#endif
}

/*
 * Where byte `at` of a transfer lies (NVMe 1.4, 4.3): the first page by prp1, the second by prp2,
 * or all after the first by a list that prp2 points to.
 */
FTH_WARP uint64_t move_prp(uint64_t prp1, uint64_t prp2, uint32_t bytes, uint32_t at)
{
	uint32_t offset = (uint32_t)prp1 & (FTH_NVME_PAGE_SIZE - 1), from = offset + at;

	if (from < FTH_NVME_PAGE_SIZE)
		return prp1 + at;
	if (offset + bytes > 2 * FTH_NVME_PAGE_SIZE)
		prp2 = ((const uint64_t *)prp2)[from / FTH_NVME_PAGE_SIZE - 1];
	return prp2 + from % FTH_NVME_PAGE_SIZE;
}

FTH_WARP uint64_t move_shfl(uint64_t value, uint32_t lane)
{
	return __shfl_sync(ALL_LANES, value, (int)lane);
}

/* The next piece of a batch. */
struct move_cursor {
	uint32_t left;	/* lanes whose commands have pieces to move yet */
	uint32_t piece; /* the next of the first of these */
};

/* Where this lane's 16 bytes of the cursor's piece come from and go to; moves the cursor on. */
FTH_WARP void move_next(const struct move *mine, struct move_cursor *at, uint32_t lane,
			uint64_t *from, uint64_t *to)
{
	uint32_t command = (uint32_t)__ffs((int)at->left) - 1;
	uint32_t pieces = __shfl_sync(ALL_LANES, mine->pieces, (int)command);
	uint32_t write = __shfl_sync(ALL_LANES, mine->write, (int)command);
	uint32_t byte = (at->piece << FTH_GPU_PIECE_SHIFT) + 16 * lane;
	uint64_t medium = move_shfl(mine->medium, command) + byte;
	uint64_t memory = move_prp(move_shfl(mine->prp1, command), move_shfl(mine->prp2, command),
				   pieces << FTH_GPU_PIECE_SHIFT, byte);

	*from = write ? memory : medium;
	*to = write ? medium : memory;
	if (++at->piece == pieces) {
		at->piece = 0;
		at->left &= at->left - 1;
	}
}

/* Move the pieces of all lanes' commands. All lanes of the warp call. */
FTH_WARP void move_all(const struct move *mine, uint32_t lane)
{
	uint32_t total = __reduce_add_sync(ALL_LANES, mine->pieces);
	struct move_cursor at = {__ballot_sync(ALL_LANES, mine->pieces > 0), 0};

	while (total > 0) {
		uint32_t n = min(total, (uint32_t)MOVE_DEPTH);
		uint64_t from, to[MOVE_DEPTH];
		uint4 data[MOVE_DEPTH];

		UNROLL
		for (uint32_t i = 0; i < MOVE_DEPTH; i++) {
			if (i < n) {
				move_next(mine, &at, lane, &from, &to[i]);
				data[i] = move_load(from);
			}
		}
		UNROLL
		for (uint32_t i = 0; i < MOVE_DEPTH; i++)
			if (i < n)
				move_store(to[i], data[i]);
		total -= n;
	}
}

#endif
