/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading and writing blocks from kernels, on a drive of fathom/gpu.h, with the warp functions of
 * fathom/detail/nvme/queue_warp.h. All lanes of warp->mask call together. A mask of the lanes that
 * happen to run together comes from fth_warp_together(), not from __activemask()
 * (src/gpu/README.md, "Lanes that call together").
 *
 * Each lane gets its own error: that of the status (-ERANGE: no such block), -ETIME, or the failure
 * of the queue pair (-ESHUTDOWN: the drive was stopped). After the latter two the drive may still
 * write to the buffer, until it is closed.
 *
 * A block has 1 << view->block_shift bytes. It is the unit of `first` and `blocks` below, of
 * view->blocks and of the drive's statistics.
 */
#ifndef FATHOM_GPU_IO_H
#define FATHOM_GPU_IO_H

#include "fathom/detail/gpu/bounce.h"

#if defined(__CUDACC__) || defined(FTH_WARP_ON_HOST)

/* A transfer of one lane. */
struct fth_gpu_io {
	uint64_t first;	 /* block of the queue's SSD */
	uint32_t blocks; /* 1 or more; all in one page of 4096 bytes, or in two, or in a slot */
	uint8_t opcode;	 /* FTH_NVME_READ, FTH_NVME_WRITE, FTH_NVME_FLUSH */
	void *memory;	 /* in GPU memory, a multiple of 16 */
};

/* `bytes`: the length of the transfer, passed in because callers have it already. */
FTH_WARP struct fth_nvme_sqe fth_gpu_io_command_(const struct fth_gpu_io *io, uint32_t bytes)
{
	uint64_t address = (uint64_t)io->memory;
	struct fth_nvme_sqe command = {};

	command.opcode = io->opcode;
	command.nsid = 1;
	command.prp1 = address;
	if (address % FTH_NVME_PAGE_SIZE + bytes > FTH_NVME_PAGE_SIZE)
		command.prp2 = (address | (FTH_NVME_PAGE_SIZE - 1)) + 1;
	command.cdw10 = (uint32_t)io->first;
	command.cdw11 = (uint32_t)(io->first >> 32);
	command.cdw12 = io->blocks - 1;
	return command;
}

/* The leader's part of the rule below: the leader that gets the lock sends one command for all that
 * asked before. */
FTH_WARP int fth_gpu_order_lead_(const struct fth_gpu_view *view, struct fth_nvme_qp *qp,
				 uint32_t hint, uint64_t deadline)
{
	struct fth_gpu_order *order = view->order;
	uint32_t mine = fth_add_acqrel_dev32(&order->tail, 1), ns = FTH_NVME_PAUSE_FIRST;
	struct fth_nvme_sqe command = {};
	struct fth_nvme_done done;
	int rc = 0;

	command.opcode = FTH_NVME_FLUSH;
	command.nsid = 1;
	/* acquire: stops the data from being read before the second command was answered. */
	while (rc == 0 && !fth_ring_before(mine, fth_load_acquire_dev32(&order->head))) {
		if (!fth_xchg_acqrel_dev32(&order->lock, 1)) {
			/*
			 * acquire: the warps that asked saw their completions before this command
			 * is sent.
			 */
			uint32_t upto = fth_add_acqrel_dev32(&order->tail, 0);

			if (!fth_ring_before(mine, fth_load_acquire_dev32(&order->head))) {
				rc = fth_nvme_qp_exec(qp, &command, hint, deadline, &done, NULL);
				order->commands++;
				if (rc == 0)
					fth_store_release_dev32(&order->head, upto);
			}
			fth_store_release_dev32(&order->lock, 0);
		} else {
			fth_nvme_warp_pause_(&ns);
			if (deadline != FTH_NEVER && fth_now_ns() >= deadline)
				rc = -ETIME;
		}
	}
	return rc;
}

/*
 * The write-ordering rule of GPUDirect (Qureshi, dissertation, 8.2.1): a drive's data and its
 * completion may reach the GPU's threads in the wrong order. But a read by the drive pushes its
 * writes ahead. A command that is sent after a completion was seen, and answered, proves such a
 * read: of the command itself. One such command serves all warps that saw their completion before
 * it was sent.
 */
FTH_WARP int fth_gpu_order_wait_(const struct fth_gpu_view *view, struct fth_nvme_qp *qp,
				 const struct fth_nvme_warp *warp, uint32_t hint, uint64_t deadline)
{
	int rc = 0;

	__syncwarp(warp->mask);
	if (warp->lane == warp->leader)
		rc = fth_gpu_order_lead_(view, qp, hint, deadline);
	__syncwarp(warp->mask);
	return __shfl_sync(warp->mask, rc, (int)warp->leader);
}

/*
 * Does the transfer fit one command? For a third page the drive would read PRP 2 as the address of
 * a list, and there is none. Compares blocks, because the number of bytes may exceed 32 bits.
 */
FTH_WARP bool fth_gpu_io_fits_(const struct fth_gpu_view *view, const struct fth_gpu_io *io)
{
	uint32_t at = (uint32_t)(uint64_t)io->memory % FTH_NVME_PAGE_SIZE;
	uint32_t room = view->bounce ? view->bounce_slot : 2 * FTH_NVME_PAGE_SIZE - at;

	return at % 16 == 0 && io->blocks - 1 < room >> view->block_shift;
}

/* fth_nvme_warp_exec() of the transfers, with the drive's slots in between if it has any. */
FTH_WARP int fth_gpu_io_exec_(const struct fth_gpu_view *view, struct fth_nvme_qp *qp,
			      const struct fth_nvme_warp *warp, bool want,
			      const struct fth_gpu_io *io, uint32_t hint, uint64_t deadline)
{
	bool moves = io->opcode != FTH_NVME_FLUSH;
	uint32_t bytes = moves ? io->blocks << view->block_shift : 0, id;
	struct fth_nvme_sqe command = fth_gpu_io_command_(io, bytes);
	struct fth_nvme_done done = {0, 0};
	int rc = 0, taken;

	if (want && moves && !fth_gpu_io_fits_(view, io))
		rc = -EINVAL;
	want = want && rc == 0;
	while (__any_sync(warp->mask, want)) {
		taken = fth_nvme_warp_take_wait(qp, warp, want, hint, deadline, &id);
		if (taken < 0)
			return want ? taken : rc;
		if (view->bounce)
			fth_gpu_bounce_out_(view, qp, warp, id, io->memory, bytes, &command);
		fth_nvme_warp_put(qp, warp, id, &command);
		fth_nvme_warp_ring(qp, warp);
		taken = fth_nvme_warp_wait_keep(qp, warp, id, deadline, &done);
		if (id != FTH_NVME_NO_ID) {
			rc = taken < 0 ? taken : fth_nvme_status_errno(done.status);
			want = false;
		}
		if (view->bounce)
			fth_gpu_bounce_in_(view, qp, warp, id,
					   id != FTH_NVME_NO_ID && rc == 0 &&
						   io->opcode == FTH_NVME_READ,
					   io->memory, bytes);
		fth_nvme_warp_release(qp, warp, taken < 0 ? FTH_NVME_NO_ID : id);
	}
	return rc;
}

/*
 * One transfer for each lane with `want`, through queue pair `queue`, which is the same in all
 * lanes. Waits for all of them. `hint`: a number that differs between warps. Returns 0 or an error
 * per lane; -EINVAL for a transfer that one command cannot describe, see struct fth_gpu_io.
 */
FTH_WARP int fth_gpu_io(const struct fth_gpu_view *view, uint32_t queue,
			const struct fth_nvme_warp *warp, bool want, const struct fth_gpu_io *io,
			uint32_t hint, uint64_t deadline)
{
	struct fth_nvme_qp *qp = &view->qps[queue];
	int rc = fth_gpu_io_exec_(view, qp, warp, want, io, hint, deadline), second;
	bool reads = want && rc == 0 && io->opcode == FTH_NVME_READ;

	if (!view->order || !__any_sync(warp->mask, reads))
		return rc;
	second = fth_gpu_order_wait_(view, qp, warp, hint, deadline);
	return reads ? second : rc;
}

#endif
#endif
