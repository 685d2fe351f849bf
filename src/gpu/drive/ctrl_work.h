/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The software controller on GPU blocks: how one warp of it works. ctrl_move.h moves the data.
 *
 * Invariants, of the block that serves a queue pair. Tickets count entries since the start.
 *
 *  1. `claimed` only grows, and never beyond the tail that the doorbell told. A warp that moves it
 *     from a to b executes the commands [a, b), and nobody else does.
 *  2. `fetched` follows: it grows from a to b only by that warp, after it has read those entries,
 *     so in the order of the claims. Completions tell it to the client, who may overwrite what is
 *     before it.
 *  3. `posted` hands out positions in the completion ring. It lies in one word with `fetched`, so
 *     that completions, in their order in the ring, tell a head that never goes back.
 *  4. A position of the completion ring is written once `consumed`, which follows the client's
 *     doorbell, is less than a ring behind it.
 *  5. A doorbell is read after the number that it is compared with: it is never the older of the
 *     two, and differences of positions are differences of tickets.
 */
#ifndef FTH_GPU_CTRL_WORK_H
#define FTH_GPU_CTRL_WORK_H

#include "ctrl_move.h"

#include "fathom/detail/hd/ring.h"
#include "fathom/hd/wait.h"

#define IDLE_FIRST  32u
#define IDLE_MOST   1024u
#define LOOK_EVERY  64u /* batches: at the stop flag, and counts are told */
#define PRP_ALIGNED 15u /* bits of an address that must be 0: lanes move 16 bytes */

/* What the warps of a block share. */
struct shared {
	uint32_t claimed;
	uint32_t consumed;
	uint64_t heads; /* fetched << 32 | posted */
};

/* One warp. */
struct worker {
	const struct fth_gpu_ctrl *ctrl;
	struct fth_gpu_ctrl_queue queue;
	struct fth_gpu_ctrl_ssd *ssd;
	struct shared *shared;
	uint32_t lane;
	uint32_t number; /* among all warps */
	struct fth_gpu_ctrl_count count;
};

/* A command as its lane keeps it. */
struct command {
	struct move move;
	uint32_t cid;
	uint32_t opcode;
	uint32_t status;
};

/* log2 of the pieces that a block is moved in. */
FTH_WARP uint32_t pieces_shift(const struct worker *w)
{
	return w->ctrl->block_shift - FTH_GPU_PIECE_SHIFT;
}

/* ---- fetching ---- */

/* Lane 0: claim entries, at most a batch. How many, and the first one's ticket. */
FTH_WARP uint32_t claim_some(struct worker *w, uint32_t *first)
{
	/* acquire: stops the doorbell from being read before this (invariant 5). */
	uint32_t from = fth_load_acquire_blk32(&w->shared->claimed);
	/* relaxed: an idle controller must not keep throwing away the L1 of its neighbours. */
	uint32_t rung = fth_load_relaxed_dev32(w->queue.sq_doorbell), n;

	if (rung == fth_ring_position(from, w->queue.sq_shift))
		return 0;
	/* acquire: stops the entries from being read before the doorbell. */
	rung = fth_load_acquire_dev32(w->queue.sq_doorbell);
	if (rung > fth_ring_mask(w->queue.sq_shift)) {
		fth_store_relaxed_dev32(&w->ctrl->control->broken, 1 + w->queue.qid);
		return 0;
	}
	n = min(fth_ring_advance_to(from, rung, w->queue.sq_shift) - from, w->ctrl->batch);
	*first = from;
	/* Each atomic orders only what invariant 5 needs: who claims looked first. */
	return fth_cas_acqrel_blk32(&w->shared->claimed, &from, from + n) ? n : 0;
}

/* Each lane reads the entry of its ticket. Strong loads: L1 may hold the ring's last turn. */
FTH_WARP void read_entry(const struct worker *w, uint32_t ticket, struct command *c)
{
	const struct fth_nvme_sqe *entry =
		&w->queue.sq[fth_ring_position(ticket, w->queue.sq_shift)];
	uint4 a = move_load((uint64_t)entry), b = move_load((uint64_t)entry + 16);
	uint4 d = move_load((uint64_t)entry + 32), e = move_load((uint64_t)entry + 48);
	uint64_t lba = d.z | (uint64_t)d.w << 32;
	uint32_t nsid = a.y;

	c->opcode = a.x & 0xff;
	c->cid = a.x >> 16;
	c->move.prp1 = b.z | (uint64_t)b.w << 32;
	c->move.prp2 = d.x | (uint64_t)d.y << 32;
	c->move.pieces = ((e.x & FTH_NVME_RW_BLOCKS_MASK) + 1) << pieces_shift(w);
	c->move.write = c->opcode == FTH_NVME_WRITE;
	c->move.medium = lba;
	c->status = FTH_NVME_SUCCESS;
	if (nsid != 1)
		c->status = FTH_NVME_INVALID_NAMESPACE;
	else if (a.x & (FTH_NVME_FLAGS_PSDT << 8))
		c->status = FTH_NVME_INVALID_FIELD;
}

/* Tell that the entries of our claim are read, after those of every claim before it. */
FTH_WARP void mark_fetched(struct worker *w, uint32_t first, uint32_t n)
{
	__syncwarp();
	if (w->lane == 0) {
		/* Ends: who claimed before us only reads its entries, and then does this. */
		while ((uint32_t)(fth_load_acquire_blk64(&w->shared->heads) >> 32) != first)
			__nanosleep(20);
		/* release: stops our reads from sinking below the sight of the new head. */
		fth_add_acqrel_blk64(&w->shared->heads, (uint64_t)n << 32);
	}
	__syncwarp();
}

/* ---- checking ---- */

FTH_WARP uint32_t transfer_status(const struct worker *w, const struct command *c)
{
	const struct move *move = &c->move;
	uint32_t offset = (uint32_t)move->prp1 & (FTH_NVME_PAGE_SIZE - 1);
	uint32_t bytes = move->pieces << FTH_GPU_PIECE_SHIFT;
	uint32_t blocks = move->pieces >> pieces_shift(w);
	uint32_t list = (uint32_t)move->prp2 & (FTH_NVME_PAGE_SIZE - 1);

	if (move->medium >= w->ssd->blocks || blocks > w->ssd->blocks - move->medium)
		return FTH_NVME_LBA_RANGE;
	if (move->pieces > FTH_GPU_TRANSFER_MAX)
		return FTH_NVME_INVALID_FIELD;
	if (move->prp1 & PRP_ALIGNED)
		return FTH_NVME_PRP_OFFSET_INVALID;
	if (offset + bytes <= FTH_NVME_PAGE_SIZE)
		return FTH_NVME_SUCCESS;
	if (offset + bytes <= 2 * FTH_NVME_PAGE_SIZE)
		return list ? FTH_NVME_PRP_OFFSET_INVALID : FTH_NVME_SUCCESS;
	/* A list within its page: what we allow in one command needs no second one. */
	list += (offset + bytes - 1) / FTH_NVME_PAGE_SIZE * 8;
	return move->prp2 % 8 || list > FTH_NVME_PAGE_SIZE ? FTH_NVME_PRP_OFFSET_INVALID
							   : FTH_NVME_SUCCESS;
}

/* Decide what a lane's command comes to, and count it. */
FTH_WARP void check(struct worker *w, struct command *c)
{
	if (c->status == FTH_NVME_SUCCESS) {
		if (c->opcode == FTH_NVME_READ || c->opcode == FTH_NVME_WRITE)
			c->status = transfer_status(w, c);
		else if (c->opcode != FTH_NVME_FLUSH)
			c->status = FTH_NVME_INVALID_OPCODE;
	}
	if (c->status != FTH_NVME_SUCCESS || c->opcode == FTH_NVME_FLUSH)
		c->move.pieces = 0;
	if (c->status != FTH_NVME_SUCCESS)
		c->status |= FTH_NVME_STATUS_DO_NOT_RETRY;
	c->move.medium = (uint64_t)w->ssd->medium + (c->move.medium << w->ctrl->block_shift);
}

/* ---- the speed of a model ---- */

/* What a command takes from the rate: as fth_dev_speed_cost(). */
FTH_WARP uint64_t cost_of(const struct fth_gpu_ctrl_speed *speed, uint64_t bytes)
{
	if (bytes <= 512)
		return speed->cost_512;
	if (bytes > 4096)
		return speed->cost_4k * bytes / 4096;
	return (speed->cost_512 * (4096 - bytes) + speed->cost_4k * (bytes - 512)) / (4096 - 512);
}

/* When a lane's command may be answered, in ns of the GPU's clock. */
FTH_WARP uint64_t due(struct worker *w, const struct command *c, uint64_t now)
{
	bool write = c->opcode == FTH_NVME_WRITE;
	const struct fth_gpu_ctrl_speed *speed = write ? &w->ssd->write : &w->ssd->read;
	uint64_t *turn = write ? &w->ssd->write_turn : &w->ssd->read_turn, mine;
	uint64_t cost = cost_of(speed, (uint64_t)c->move.pieces << FTH_GPU_PIECE_SHIFT);
	uint64_t start = now * 16;

	if (c->status != FTH_NVME_SUCCESS)
		return now;
	if (c->opcode == FTH_NVME_FLUSH)
		return now + w->ssd->flush_ns;
	/*
	 * A rate that was not used is not saved up. In 1/16 ns the GPU's clock, which counts from
	 * 1970, does not fit into 64 bits: only differences mean something.
	 */
	mine = fth_load_relaxed_dev64(turn);
	while ((mine == 0 || (int64_t)(mine - start) < 0) &&
	       !fth_cas_acqrel_dev64(turn, &mine, start))
		;
	mine = fth_add_relaxed_dev64(turn, cost);
	return now + (mine + cost - start) / 16 + speed->latency_ns;
}

/* ---- completing ---- */

/* Wait until the completion ring has room for a ticket. False: stopped. */
FTH_WARP bool wait_for_room(struct worker *w, uint32_t ticket)
{
	uint32_t shift = w->queue.cq_shift;

	for (;;) {
		/* acquire: stops the doorbell from being read before this (invariant 5). */
		uint32_t seen = fth_load_acquire_blk32(&w->shared->consumed), rung;

		if (ticket - seen < fth_ring_mask(shift))
			return true;
		if (fth_load_relaxed_dev32(&w->ctrl->control->stop))
			return false;
		/* acquire: stops the entry from being written before the client has read it. */
		rung = fth_load_acquire_dev32(w->queue.cq_doorbell) & fth_ring_mask(shift);
		fth_cas_acqrel_blk32(&w->shared->consumed, &seen,
				     fth_ring_advance_to(seen, rung, shift));
	}
}

/* Post the completions of the lanes that have one, in the order of the lanes. */
FTH_WARP void post(struct worker *w, bool mine, const struct command *c)
{
	uint32_t lanes = __ballot_sync(ALL_LANES, mine), n = (uint32_t)__popc(lanes);
	bool to_host = w->ctrl->host_medium && c->move.write && c->move.pieces;
	uint32_t shift = w->queue.cq_shift, ticket;
	struct fth_nvme_cqe *entry;
	uint64_t heads = 0;

	if (w->lane == 0)
		/* acqrel: what was read before `fetched` grew was read before we tell it. */
		heads = fth_add_acqrel_blk64(&w->shared->heads, n);
	heads = move_shfl(heads, 0);
	ticket = (uint32_t)heads + (uint32_t)__popc(lanes & ((1u << w->lane) - 1));
	if (mine && !wait_for_room(w, ticket))
		mine = false;
	entry = &w->queue.cq[fth_ring_position(ticket, shift)];
	if (mine) {
		entry->result = 0;
		entry->reserved = 0;
		entry->queue = fth_ring_position((uint32_t)(heads >> 32), w->queue.sq_shift) |
			       w->queue.qid << 16;
	}
	/*
	 * release: stops the phase from being seen before the entry, and before the data that any
	 * lane has moved; for the CPU as well where it went to the CPU's memory.
	 */
	if (__any_sync(ALL_LANES, to_host || c->opcode == FTH_NVME_FLUSH))
		__threadfence_system();
	else
		__threadfence();
	__syncwarp();
	if (mine)
		fth_store_relaxed_dev32(&entry->info,
					fth_nvme_cqe_info((uint16_t)c->cid,
							  fth_ring_phase(ticket, shift),
							  (uint16_t)c->status));
}

/* Post each completion when it is due. */
FTH_WARP void post_when_due(struct worker *w, bool mine, const struct command *c, uint64_t when)
{
	while (__any_sync(ALL_LANES, mine)) {
		bool now = mine && fth_now_ns() >= when;

		if (__any_sync(ALL_LANES, now))
			post(w, now, c);
		/* One lane's look decides: the host may come between two. */
		else if (__shfl_sync(ALL_LANES, fth_load_relaxed_dev32(&w->ctrl->control->stop), 0))
			return;
		else
			__nanosleep(100);
		mine = mine && !now;
	}
}

/* ---- data that comes after its completion, on purpose ---- */

/*
 * What a GPU may see of a drive that writes to it over PCIe: the completion before the data. What
 * such a drive does keep to is that its reads push its writes: before a command is fetched all data
 * of completions before it is there. late[] is odd while a warp owes data.
 */
FTH_WARP void wait_for_late_data(const struct worker *w)
{
	uint32_t all = w->ctrl->queue_count * w->ctrl->warps;

	for (uint32_t i = w->lane; i < all; i += 32) {
		uint32_t seen = fth_load_acquire_dev32(&w->ctrl->late[i]);

		/* Ends: who owes data waits for nobody. Our own is even. */
		while (seen % 2 && fth_load_acquire_dev32(&w->ctrl->late[i]) == seen)
			__nanosleep(100);
	}
	__syncwarp();
}

FTH_WARP void execute_late(struct worker *w, bool mine, struct command *c)
{
	uint32_t *late = &w->ctrl->late[w->number];

	if (w->lane == 0)
		fth_add_acqrel_dev32(late, 1);
	__syncwarp();
	post(w, mine, c);
	__nanosleep((uint32_t)w->ctrl->late_ns);
	move_all(&c->move, w->lane);
	__syncwarp();
	if (w->lane == 0)
		fth_add_acqrel_dev32(late, 1);
}

/* ---- the loop ---- */

FTH_WARP void count_batch(struct worker *w, uint32_t n, const struct command *c)
{
	uint32_t blocks = c->move.pieces >> pieces_shift(w);

	w->count.commands += n;
	w->count.batches++;
	w->count.blocks_read += __reduce_add_sync(ALL_LANES, c->move.write ? 0 : blocks);
	w->count.blocks_written += __reduce_add_sync(ALL_LANES, c->move.write ? blocks : 0);
	w->count.flushes += __popc(__ballot_sync(ALL_LANES, c->opcode == FTH_NVME_FLUSH &&
								    c->status == FTH_NVME_SUCCESS));
	w->count.errors += __popc(__ballot_sync(ALL_LANES, c->status != FTH_NVME_SUCCESS));
}

FTH_WARP void serve(struct worker *w, uint32_t first, uint32_t n)
{
	bool mine = w->lane < n;
	struct command c = {};
	uint64_t when = 0;

	c.opcode = 0xff;
	if (mine)
		read_entry(w, first + w->lane, &c);
	if (w->ctrl->late)
		wait_for_late_data(w);
	mark_fetched(w, first, n);
	if (mine)
		check(w, &c);
	count_batch(w, n, &c);
	if (!w->ssd->medium)
		c.move.pieces = 0;
	if (w->ctrl->modelled && mine)
		when = due(w, &c, fth_now_ns());
	if (w->ctrl->late) {
		execute_late(w, mine, &c);
		return;
	}
	move_all(&c.move, w->lane);
	__syncwarp();
	if (w->ctrl->modelled)
		post_when_due(w, mine, &c, when);
	else
		post(w, mine, &c);
}

FTH_WARP void tell(const struct worker *w)
{
	if (w->lane == 0)
		w->ctrl->counts[w->number] = w->count;
}

FTH_WARP void work(struct worker *w)
{
	uint32_t idle = IDLE_FIRST, since = 0;
	bool stop = false;

	while (!stop) {
		uint32_t first = 0, n = 0;

		if (w->lane == 0)
			n = claim_some(w, &first);
		n = __shfl_sync(ALL_LANES, n, 0);
		first = __shfl_sync(ALL_LANES, first, 0);
		__syncwarp();
		/* release: makes our stores part of what the doorbell told; src/gpu/README.md. */
		if (n)
			__threadfence();
		if (n) {
			serve(w, first, n);
			idle = IDLE_FIRST;
			since++;
		}
		if (n && since % LOOK_EVERY)
			continue;
		if (since)
			tell(w);
		since = 0;
		stop = __shfl_sync(ALL_LANES, fth_load_relaxed_dev32(&w->ctrl->control->stop), 0);
		__nanosleep(n ? 0 : idle);
		if (idle < IDLE_MOST)
			idle += idle / 4;
	}
	tell(w);
}

#ifdef __CUDACC__
/* The block that serves a queue pair: all its threads call, and those of the first warps work. */
static __device__ __forceinline__ void serve_queue(const struct fth_gpu_ctrl *ctrl, uint32_t number)
{
	static __shared__ struct shared shared;
	struct worker w = {};

	if (threadIdx.x == 0) {
		shared.claimed = 0;
		shared.consumed = 0;
		shared.heads = 0;
	}
	__syncthreads();
	if (threadIdx.x / 32 >= ctrl->warps)
		return;
	w.ctrl = ctrl;
	w.queue = ctrl->queues[number];
	w.ssd = &ctrl->ssds[w.queue.ssd];
	w.shared = &shared;
	w.lane = threadIdx.x % 32;
	w.number = number * ctrl->warps + threadIdx.x / 32;
	if (w.lane == 0)
		fth_add_relaxed_dev32(&ctrl->control->up, 1);
	work(&w);
}
#endif

#endif
