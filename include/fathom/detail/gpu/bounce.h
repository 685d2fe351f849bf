/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data on its way between GPU memory and a drive that cannot reach it: one that CPU threads play,
 * or an NVMe drive whose data comes to host memory. For fathom/gpu/io.h and frames.h; device code
 * only.
 *
 * Every command id of every queue pair has a slot of host memory, at
 *
 *	view->bounce + (queue * ids + id) * view->bounce_slot
 *
 * for the GPU, and as far into view->bounce_bus for the drive.
 *
 * Invariants
 *  1. A slot belongs to whoever holds its id. It is filled before the command is put, and read
 *     before the id is given back.
 *  2. A command that was left behind keeps its id until the drive has answered, and so its slot:
 *     a drive that comes late does no harm to anybody.
 *  3. What the drive reads was stored before the doorbell was written, which is a release to the
 *     whole system; what it wrote is read after its completion was seen by such an acquire. The
 *     warp is synchronised between those who copy and those who put, or have waited.
 */
#ifndef FATHOM_GPU_BOUNCE_H
#define FATHOM_GPU_BOUNCE_H

#include "fathom/gpu.h"
#include "fathom/detail/nvme/queue_warp.h"

#if defined(__CUDACC__) || defined(FTH_WARP_ON_HOST)

/* 16 bytes: neither from a stale line of a cache of the GPU, nor left in one. */
FTH_WARP uint4 fth_gpu_bounce_load_(const uint8_t *at)
{
#ifdef __CUDA_ARCH__
	uint4 v;

	asm volatile("ld.relaxed.sys.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
		     : "l"(at)
		     : "memory");
	return v;
#else
	return *(const uint4 *)(const void *)at;
#endif
}

FTH_WARP void fth_gpu_bounce_store_(uint8_t *at, uint4 v)
{
#ifdef __CUDA_ARCH__
	asm volatile("st.relaxed.sys.v4.u32 [%0], {%1, %2, %3, %4};"
		     :
		     : "l"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
		     : "memory");
#else
	*(uint4 *)(void *)at = v;
#endif
}

/*
 * What each lane that is `mine` has to copy, one after the other, all lanes together, 16 bytes
 * each. One load at a time: this is compiled into every kernel that does I/O, and more of them
 * would take registers from those whose drive needs no copies. Warps are many.
 */
FTH_WARP void fth_gpu_bounce_copy_(const struct fth_nvme_warp *warp, bool mine, uint8_t *to,
				   const uint8_t *from, uint32_t bytes)
{
	uint32_t todo = __ballot_sync(warp->mask, mine);

	/* Invariant 3: after the waits of all lanes, */
	__syncwarp(warp->mask);
	for (; todo; todo &= todo - 1) {
		int lane = __ffs((int)todo) - 1;
		uint64_t source = __shfl_sync(warp->mask, (uint64_t)from, lane);
		uint64_t target = __shfl_sync(warp->mask, (uint64_t)to, lane);
		uint32_t n = __shfl_sync(warp->mask, bytes, lane);

		for (uint32_t at = 16 * warp->rank; at < n; at += 16 * warp->count)
			fth_gpu_bounce_store_((uint8_t *)target + at,
					      fth_gpu_bounce_load_((const uint8_t *)source + at));
	}
	/* and before any lane puts its command, or gives its id back. */
	__syncwarp(warp->mask);
}

/* How far into the bounce memory the slot of an id is. */
FTH_WARP uint64_t fth_gpu_bounce_at_(const struct fth_gpu_view *view, const struct fth_nvme_qp *qp,
				     uint32_t id)
{
	return ((uint64_t)(qp - view->qps) * qp->ids + id) * view->bounce_slot;
}

/*
 * Before commands are put: those of lanes with an id move `bytes` from or to their slots instead
 * of `memory`, and what they are to write goes there. All lanes of warp->mask call, and lanes
 * without an id say FTH_NVME_NO_ID.
 */
FTH_WARP void fth_gpu_bounce_out_(const struct fth_gpu_view *view, const struct fth_nvme_qp *qp,
				  const struct fth_nvme_warp *warp, uint32_t id, void *memory,
				  uint32_t bytes, struct fth_nvme_sqe *command)
{
	uint64_t at = id == FTH_NVME_NO_ID ? 0 : fth_gpu_bounce_at_(view, qp, id);
	uint64_t bus = view->bounce_bus + at;

	command->prp1 = bus;
	command->prp2 = bus % FTH_NVME_PAGE_SIZE + bytes > FTH_NVME_PAGE_SIZE
				? (bus | (FTH_NVME_PAGE_SIZE - 1)) + 1
				: 0;
	fth_gpu_bounce_copy_(warp, id != FTH_NVME_NO_ID && command->opcode == FTH_NVME_WRITE,
			     view->bounce + at, (const uint8_t *)memory, bytes);
}

/*
 * After fth_nvme_warp_wait_keep(), before fth_nvme_warp_release(): lanes whose reads ended well
 * (`arrived`) have their data brought to `memory`. All lanes of warp->mask call.
 */
FTH_WARP void fth_gpu_bounce_in_(const struct fth_gpu_view *view, const struct fth_nvme_qp *qp,
				 const struct fth_nvme_warp *warp, uint32_t id, bool arrived,
				 void *memory, uint32_t bytes)
{
	uint64_t at = arrived ? fth_gpu_bounce_at_(view, qp, id) : 0;

	fth_gpu_bounce_copy_(warp, arrived, (uint8_t *)memory, view->bounce + at, bytes);
}

#endif
#endif
