/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue pair of fathom/detail/nvme/queue.h for the lanes of a GPU warp that work together: the
 * same rings, the same state, the same invariants, fewer accesses.
 *
 *	take	every lane looks at one word of the id bitmap; a word is taken from with one atomic
 *	put	one atomic add hands out the tickets of all lanes
 *	ring	one knock for all; whoever holds the lock looks at one mark per lane at a time
 *	poll	whoever holds the lock enters one completion per lane at a time
 *	wait	each lane looks at its slot; ids go back with one atomic per word of the bitmap
 *
 * Lanes, single threads and other warps may use one queue pair at the same time.
 *
 * Every function here is called by all lanes of `warp.mask` together, and each lane gets its own
 * answer. A lane without a command of its own says so with FTH_NVME_NO_ID or `want` false, and
 * helps the others. Nothing here keeps ids while it waits for more of them: a warp that gets fewer
 * than it asked for submits those first. So nobody waits for an id that will not come back.
 * Of deadlines the earliest counts, for all lanes; the queue pair is the same in all of them.
 *
 * Where an order between lanes is needed, there is a __syncwarp() between one lane's access and
 * the other's: orders in CUDA's memory model are cumulative across it.
 */
#ifndef FATHOM_NVME_QUEUE_WARP_H
#define FATHOM_NVME_QUEUE_WARP_H

#include "fathom/detail/nvme/queue.h"

/* FTH_WARP_ON_HOST: a test has defined what CUDA would, for warps made of CPU threads. */
#if defined(__CUDACC__) || defined(FTH_WARP_ON_HOST)

#ifdef FTH_WARP_ON_HOST
#define FTH_WARP static inline
#else
#define FTH_WARP static __device__ __forceinline__

FTH_WARP uint32_t fth_warp_lane(void)
{
	uint32_t lane;

	asm("mov.u32 %0, %%laneid;" : "=r"(lane));
	return lane;
}
#endif

/*
 * The lanes that are here at once, and say the same number. For masks that the hardware decides, in
 * place of __activemask(), whose value is taken to be the same in all lanes that run together. It
 * is not: lanes with different masks may come to the same instruction, and then run together
 * (src/gpu/README.md).
 */
FTH_WARP uint32_t fth_warp_together(uint64_t number)
{
	return __match_any_sync(__activemask(), number);
}

struct fth_nvme_warp {
	uint32_t mask;	 /* the lanes that work together */
	uint32_t lane;	 /* which one this is, 0 to 31, */
	uint32_t rank;	 /* and which among those in mask */
	uint32_t count;	 /* lanes in mask */
	uint32_t leader; /* the lowest of them */
};

/* The lanes of mask; all of them call. */
FTH_WARP struct fth_nvme_warp fth_nvme_warp_of(uint32_t mask)
{
	struct fth_nvme_warp warp;

	warp.lane = fth_warp_lane();
	warp.mask = mask;
	warp.rank = (uint32_t)__popc(mask & ((1u << warp.lane) - 1));
	warp.count = (uint32_t)__popc(mask);
	warp.leader = (uint32_t)__ffs((int)mask) - 1;
	return warp;
}

/* How many lanes, counted from the lowest, say yes before the first that says no. */
FTH_WARP uint32_t fth_nvme_warp_run_(const struct fth_nvme_warp *warp, bool yes)
{
	uint32_t no = __ballot_sync(warp->mask, !yes);

	return no ? (uint32_t)__popc(warp->mask & ((no & (0u - no)) - 1)) : warp->count;
}

/* ---- pausing ---- */

#define FTH_NVME_PAUSE_FIRST 32u
#define FTH_NVME_PAUSE_MOST  4096u

/*
 * Sleep a little longer each time: what has been waited for long is looked at less often, which
 * leaves the memory to those who work, and costs a quarter of the wait at most.
 */
FTH_WARP void fth_nvme_warp_pause_(uint32_t *ns)
{
	__nanosleep(*ns);
	if (*ns < FTH_NVME_PAUSE_MOST)
		*ns += *ns / 4;
}

/* ---- command ids ---- */

/* The place of the nth bit (from 0) that is set in word. */
FTH_WARP uint32_t fth_nvme_nth_bit_(uint32_t word, uint32_t n)
{
	uint32_t at = 0;

	for (uint32_t half = 16; half > 0; half /= 2) {
		uint32_t below = (uint32_t)__popc((word >> at) & ((1u << half) - 1));

		if (n >= below) {
			n -= below;
			at += half;
		}
	}
	return at;
}

/*
 * How many of the ids in its word each lane is to take so that all lanes together take `need`. One
 * word that has them all is best: a warp that stays in one word gives it back whole.
 */
FTH_WARP uint32_t fth_nvme_warp_share_(const struct fth_nvme_warp *warp, uint32_t bits,
				       uint32_t need)
{
	uint32_t have = (uint32_t)__popc(bits), share = 0;
	uint32_t some = __ballot_sync(warp->mask, have > 0);
	uint32_t all = __ballot_sync(warp->mask, have >= need);

	if (all)
		return (uint32_t)__ffs((int)all) - 1 == warp->lane ? need : 0;
	for (; some && need; some &= some - 1) {
		uint32_t from = (uint32_t)__ffs((int)some) - 1;
		uint32_t part = min(__shfl_sync(warp->mask, have, (int)from), need);

		if (warp->lane == from)
			share = part;
		need -= part;
	}
	return share;
}

/* Hand the ids that lanes have got to those who want one, in order; `got` is bits of word w. */
FTH_WARP uint32_t fth_nvme_warp_deal_(const struct fth_nvme_warp *warp, uint32_t w, uint32_t got,
				      uint32_t wanting)
{
	uint32_t some = __ballot_sync(warp->mask, got != 0), id = FTH_NVME_NO_ID;
	uint32_t mine = (uint32_t)__popc(wanting & ((1u << warp->lane) - 1));

	for (; some; some &= some - 1) {
		int from = __ffs((int)some) - 1;
		uint32_t bits = __shfl_sync(warp->mask, got, from);
		uint32_t word = __shfl_sync(warp->mask, w, from), n = (uint32_t)__popc(bits);

		if (mine < n)
			id = 32 * word + fth_nvme_nth_bit_(bits, mine);
		mine = mine < n ? UINT32_MAX : mine - (mine == UINT32_MAX ? 0 : n);
	}
	return wanting & 1u << warp->lane ? id : FTH_NVME_NO_ID;
}

/* Give ids back, one atomic for each word of the bitmap. */
FTH_WARP void fth_nvme_warp_free_ids_(struct fth_nvme_qp *qp, const struct fth_nvme_warp *warp,
				      uint32_t id)
{
	bool has = id != FTH_NVME_NO_ID;
	uint32_t same = __match_any_sync(warp->mask, has ? id / 32 : UINT32_MAX), bits;

	if (has) {
		uint32_t *generation = &qp->slots[id].generation;

		fth_store_release_dev32(generation, fth_load_relaxed_dev32(generation) + 1);
	}
	bits = __reduce_or_sync(same, has ? 1u << (id % 32) : 0);
	__syncwarp(warp->mask);
	/* release: stops the last look at the slots from sinking below their next use. */
	if (has && (uint32_t)__ffs((int)same) - 1 == warp->lane)
		fth_or_release_dev32(&qp->free_ids[id / 32].bits, bits);
}

/*
 * fth_nvme_qp_take() for each lane that wants an id, without waiting. Some may get one and others
 * not. `hint` is the same in all lanes: a number that other warps do not have.
 */
FTH_WARP uint32_t fth_nvme_warp_take(struct fth_nvme_qp *qp, const struct fth_nvme_warp *warp,
				     bool want, uint32_t hint)
{
	uint32_t wanting = __ballot_sync(warp->mask, want), words = (qp->ids + 31) / 32;
	uint32_t need = (uint32_t)__popc(wanting), first = hint % words, id = FTH_NVME_NO_ID;

	for (uint32_t looked = 0; need && looked < words; looked += warp->count) {
		uint32_t i = looked + warp->rank, w = (first + i) % words;
		uint32_t bits = i < words ? fth_load_relaxed_dev32(&qp->free_ids[w].bits) : 0;
		uint32_t share = fth_nvme_warp_share_(warp, bits, need), got = 0;

		if (share) {
			uint32_t most = fth_nvme_nth_bit_(bits, share - 1);

			got = bits & (UINT32_MAX >> (31 - most));
			/* acquire: stops our use of the slots from rising above the last one's. */
			got &= fth_and_acquire_dev32(&qp->free_ids[w].bits, ~got);
		}
		if (!__any_sync(warp->mask, got))
			continue;
		id = fth_nvme_warp_deal_(warp, w, got, wanting);
		/* The barrier puts the use of an id after the acquire of the lane that took it. */
		__syncwarp(warp->mask);
		break;
	}
	/* After the take, as in fth_nvme_qp_take(). */
	if (__any_sync(warp->mask, id != FTH_NVME_NO_ID && fth_load_acquire_dev32(&qp->failed))) {
		fth_nvme_warp_free_ids_(qp, warp, id);
		return FTH_NVME_NO_ID;
	}
	return id;
}

/* ---- submitting ---- */

/* Four stores of 16 bytes. */
FTH_WARP void fth_nvme_warp_write_entry_(struct fth_nvme_sqe *to, const struct fth_nvme_sqe *from,
					 uint32_t id)
{
	uint4 *at = (uint4 *)(void *)to;

	at[0] = make_uint4(from->opcode | (uint32_t)from->flags << 8 | id << 16, from->nsid,
			   from->cdw2, from->cdw3);
	at[1] = make_uint4((uint32_t)from->metadata, (uint32_t)(from->metadata >> 32),
			   (uint32_t)from->prp1, (uint32_t)(from->prp1 >> 32));
	at[2] = make_uint4((uint32_t)from->prp2, (uint32_t)(from->prp2 >> 32), from->cdw10,
			   from->cdw11);
	at[3] = make_uint4(from->cdw12, from->cdw13, from->cdw14, from->cdw15);
}

/* See fth_nvme_qp_put(): the position is free, but that may have to be seen. False: failed. */
FTH_WARP bool fth_nvme_warp_room_(struct fth_nvme_qp *qp, const struct fth_nvme_warp *warp,
				  uint32_t last)
{
	uint32_t room = 1, ns = FTH_NVME_PAUSE_FIRST;

	if (warp->lane == warp->leader) {
		/* acquire: stops entries from being written before the last were read. */
		while (fth_ring_used(fth_load_acquire_dev32(&qp->sq_head), last) >=
		       fth_ring_mask(qp->sq_shift)) {
			room = !fth_load_relaxed_dev32(&qp->failed);
			if (!room)
				break; /* the rings are dead until reset; our wait says so */
			fth_nvme_warp_pause_(&ns);
		}
	}
	__syncwarp(warp->mask);
	return __shfl_sync(warp->mask, room, (int)warp->leader);
}

/* fth_nvme_qp_put() for each lane that has an id. */
FTH_WARP void fth_nvme_warp_put(struct fth_nvme_qp *qp, const struct fth_nvme_warp *warp,
				uint32_t id, const struct fth_nvme_sqe *command)
{
	uint32_t putting = __ballot_sync(warp->mask, id != FTH_NVME_NO_ID);
	uint32_t n = (uint32_t)__popc(putting), ticket = 0, position;

	if (n == 0)
		return;
	if (id != FTH_NVME_NO_ID)
		/* relaxed: nobody looks at this slot until the controller answers our ticket. */
		fth_store_relaxed_dev32(&qp->slots[id].word, FTH_NVME_SLOT_WAITING);
	if (warp->lane == warp->leader)
		ticket = fth_add_relaxed_dev32(&qp->ticket, n);
	ticket = __shfl_sync(warp->mask, ticket, (int)warp->leader);
	if (!fth_nvme_warp_room_(qp, warp, ticket + n - 1) || id == FTH_NVME_NO_ID)
		return;
	ticket += (uint32_t)__popc(putting & ((1u << warp->lane) - 1));
	qp->slots[id].ticket = ticket;
	position = fth_ring_position(ticket, qp->sq_shift);
	fth_nvme_warp_write_entry_(&qp->sq[position], command, id);
	/* release: stops the mark from being seen before the entry is. */
	fth_store_release_dev32(&qp->mark[position], ticket);
}

/* The holder of ring_lock moves the tail over every entry that is ready. */
FTH_WARP void fth_nvme_warp_move_tail_(struct fth_nvme_qp *qp, const struct fth_nvme_warp *warp)
{
	uint32_t first = fth_load_relaxed_dev32(&qp->tail), tail = first, n;

	do {
		uint32_t ticket = tail + warp->rank;
		uint32_t at = fth_ring_position(ticket, qp->sq_shift);

		/* acquire: the entries are whole before the doorbell rings. */
		n = fth_nvme_warp_run_(warp, fth_load_acquire_dev32(&qp->mark[at]) == ticket);
		tail += n;
	} while (n == warp->count);
	__syncwarp(warp->mask);
	if (tail == first || warp->lane != warp->leader)
		return;
	fth_store_relaxed_dev32(&qp->tail, tail);
	fth_store_relaxed_dev64(&qp->sq_doorbell_writes,
				fth_load_relaxed_dev64(&qp->sq_doorbell_writes) + 1);
	/* release: stops the doorbell from overtaking the entries (and tail, see legal_). */
	fth_store_release_sys32(qp->sq_doorbell, fth_ring_position(tail, qp->sq_shift));
}

/* fth_nvme_qp_ring() for what all lanes have put. Never waits. */
FTH_WARP void fth_nvme_warp_ring(struct fth_nvme_qp *qp, const struct fth_nvme_warp *warp)
{
	uint32_t seen = 0, held = 1;

	__syncwarp(warp->mask);
	/* acqrel: all lanes' marks are in the count's history before the holder's next look. */
	if (warp->lane == warp->leader)
		seen = fth_add_acqrel_dev32(&qp->ring_lock, 1) + 1;
	if (__shfl_sync(warp->mask, seen, (int)warp->leader) != 1)
		return;
	while (held) {
		__syncwarp(warp->mask);
		fth_nvme_warp_move_tail_(qp, warp);
		if (warp->lane == warp->leader)
			held = !fth_cas_acqrel_dev32(&qp->ring_lock, &seen, 0);
		held = __shfl_sync(warp->mask, held, (int)warp->leader);
	}
}

/* ---- completing ---- */

/*
 * Enter the completions that are new at head, one per lane at most; returns how many were. This is
 * fth_nvme_qp_settle_() for several, whose sq_head is what it was before all of them.
 */
FTH_WARP uint32_t fth_nvme_warp_drain_some_(struct fth_nvme_qp *qp,
					    const struct fth_nvme_warp *warp, uint32_t head)
{
	const struct fth_nvme_cqe *entry =
		&qp->cq[fth_ring_position(head + warp->rank, qp->cq_shift)];
	uint32_t sq_head = fth_load_relaxed_dev32(&qp->sq_head), to = sq_head, before, good, n;
	/* acquire: stops the rest of the entry from being read before its phase bit. */
	uint32_t info = fth_load_acquire_sys32(&entry->info);
	bool legal;

	n = fth_nvme_warp_run_(warp, fth_nvme_cqe_phase(info) ==
					     fth_ring_phase(head + warp->rank, qp->cq_shift));
	if (n == 0)
		return 0;
	legal = warp->rank < n && fth_nvme_qp_legal_(qp, entry, info, sq_head, &to);
	/* A head that goes back is as wrong as one that goes too far. */
	before = __shfl_sync(warp->mask, to, (int)fth_nvme_nth_bit_(warp->mask, warp->rank - 1));
	legal = legal && (warp->rank == 0 || !fth_ring_before(to, before));
	good = fth_nvme_warp_run_(warp, legal);
	if (good > 0 && warp->rank == good - 1)
		/* release: the controller's read of those entries is over for whoever sees it. */
		fth_store_release_dev32(&qp->sq_head, to);
	__syncwarp(warp->mask);
	/* Not waiting after all: the same id twice in one look. */
	if (warp->rank < good)
		legal = fth_nvme_qp_enter_(qp, entry, info);
	if (warp->rank < n && !legal)
		fth_nvme_qp_cancel(qp, EPROTO);
	__syncwarp(warp->mask);
	return n;
}

/* The holder of reap_lock: one look after the other, each told to the controller. */
FTH_WARP uint32_t fth_nvme_warp_drain_(struct fth_nvme_qp *qp, const struct fth_nvme_warp *warp)
{
	uint32_t first = fth_load_relaxed_dev32(&qp->cq_head), head = first, n;

	do {
		/* one lane asks, since the lanes must agree */
		uint32_t failed = fth_load_acquire_dev32(&qp->failed);

		if (__shfl_sync(warp->mask, failed, (int)warp->leader))
			break;
		n = fth_nvme_warp_drain_some_(qp, warp, head);
		head += n;
		if (n == 0 || warp->lane != warp->leader)
			continue;
		fth_store_relaxed_dev32(&qp->cq_head, head);
		fth_store_relaxed_dev64(&qp->cq_doorbell_writes,
					fth_load_relaxed_dev64(&qp->cq_doorbell_writes) + 1);
		/* release: stops the controller from reusing entries that we have yet to read. */
		fth_store_release_sys32(qp->cq_doorbell, fth_ring_position(head, qp->cq_shift));
	} while (n == warp->count);
	return head - first;
}

/* One lane: is there something new at the head? A hint, unless reap_lock is held. */
FTH_WARP bool fth_nvme_warp_news_(const struct fth_nvme_qp *qp)
{
	uint32_t head = fth_load_relaxed_dev32(&qp->cq_head);
	uint32_t info = fth_load_relaxed_sys32(&qp->cq[fth_ring_position(head, qp->cq_shift)].info);

	return fth_nvme_cqe_phase(info) == fth_ring_phase(head, qp->cq_shift);
}

/*
 * One lane: take reap_lock if there is something new. Where a look is slow the lock is taken
 * before it: hundreds of warps that look at one place of the host's memory would keep the bus from
 * those who work, and each other waiting.
 */
FTH_WARP bool fth_nvme_warp_lock_drain_(struct fth_nvme_qp *qp)
{
	if (fth_load_relaxed_dev32(&qp->reap_lock) || (!qp->far && !fth_nvme_warp_news_(qp)))
		return false;
	/* acquire: stops our look at the heads from rising above the last holder's. */
	if (fth_xchg_acquire_dev32(&qp->reap_lock, 1))
		return false;
	if (!qp->far || fth_nvme_warp_news_(qp))
		return true;
	fth_store_release_dev32(&qp->reap_lock, 0);
	return false;
}

/* fth_nvme_qp_poll(), by all lanes for everybody. Never waits. */
FTH_WARP uint32_t fth_nvme_warp_poll(struct fth_nvme_qp *qp, const struct fth_nvme_warp *warp)
{
	uint32_t locked = 0, n;

	if (warp->lane == warp->leader)
		locked = fth_nvme_warp_lock_drain_(qp);
	if (!__shfl_sync(warp->mask, locked, (int)warp->leader))
		return 0;
	__syncwarp(warp->mask);
	n = fth_nvme_warp_drain_(qp, warp);
	__syncwarp(warp->mask);
	/* release: stops our changes from sinking below the unlock. */
	if (warp->lane == warp->leader)
		fth_store_release_dev32(&qp->reap_lock, 0);
	return n;
}

/* Take the results of the lanes that are done. */
FTH_WARP void fth_nvme_warp_result_(struct fth_nvme_qp *qp, uint32_t id, bool is_done,
				    struct fth_nvme_done *done)
{
	uint32_t word;

	if (!is_done)
		return;
	/* acquire: stops result and data from being looked at too early. */
	word = fth_load_acquire_dev32(&qp->slots[id].word);
	done->result = qp->slots[id].result;
	done->status = (uint16_t)(word >> 16);
}

/*
 * Give back the ids of lanes whose commands were done (fth_nvme_warp_wait_keep()). Lanes without
 * one say FTH_NVME_NO_ID.
 */
FTH_WARP void fth_nvme_warp_release(struct fth_nvme_qp *qp, const struct fth_nvme_warp *warp,
				    uint32_t id)
{
	if (id != FTH_NVME_NO_ID)
		fth_store_relaxed_dev32(&qp->slots[id].word, FTH_NVME_SLOT_FREE);
	fth_nvme_warp_free_ids_(qp, warp, id);
}

/* Until all lanes that have an id are done, the deadline has passed, or the queue pair failed. */
FTH_WARP bool fth_nvme_warp_await_(struct fth_nvme_qp *qp, const struct fth_nvme_warp *warp,
				   uint32_t id, uint64_t deadline, uint32_t *failed)
{
	bool has = id != FTH_NVME_NO_ID, is_done, expired = false;
	uint32_t ns = FTH_NVME_PAUSE_FIRST;

	*failed = 0;
	for (;;) {
		is_done = has && (fth_load_relaxed_dev32(&qp->slots[id].word) & 0xff) ==
					 FTH_NVME_SLOT_DONE;
		if (expired || *failed || __all_sync(warp->mask, is_done || !has))
			return is_done;
		if (fth_nvme_warp_poll(qp, warp))
			continue;
		fth_nvme_warp_pause_(&ns);
		/* One lane's clock and one lane's look decide, so that the lanes agree. */
		*failed = __shfl_sync(warp->mask, fth_load_relaxed_dev32(&qp->failed),
				      (int)warp->leader);
		expired = __any_sync(warp->mask, fth_now_ns() >= deadline);
	}
}

/*
 * fth_nvme_qp_wait() for each lane that has an id, until all of them have completed. Other lanes
 * get 0 and nothing in *done.
 */
FTH_WARP int fth_nvme_warp_wait(struct fth_nvme_qp *qp, const struct fth_nvme_warp *warp,
				uint32_t id, uint64_t deadline, struct fth_nvme_done *done)
{
	uint32_t failed;
	bool is_done = fth_nvme_warp_await_(qp, warp, id, deadline, &failed);

	fth_nvme_warp_result_(qp, id, is_done, done);
	fth_nvme_warp_release(qp, warp, is_done ? id : FTH_NVME_NO_ID);
	if (id == FTH_NVME_NO_ID || is_done)
		return 0;
	return failed ? fth_nvme_qp_collect(qp, id, done) : -ETIME;
}

/*
 * The same, but a lane that gets 0 keeps its id, and with it what belongs to the id, until
 * fth_nvme_warp_release(); and one that runs out of time leaves its command behind at once, as by
 * fth_nvme_qp_abandon(). After an error the id is no longer the lane's.
 */
FTH_WARP int fth_nvme_warp_wait_keep(struct fth_nvme_qp *qp, const struct fth_nvme_warp *warp,
				     uint32_t id, uint64_t deadline, struct fth_nvme_done *done)
{
	uint32_t failed, old = FTH_NVME_SLOT_WAITING;
	bool is_done = fth_nvme_warp_await_(qp, warp, id, deadline, &failed);
	int rc = failed ? -(int)failed : -ETIME;

	if (id == FTH_NVME_NO_ID)
		return 0;
	/* acqrel: as in fth_nvme_qp_leave_(); where it fails the command is done after all. */
	if (!is_done && fth_cas_acqrel_dev32(&qp->slots[id].word, &old, FTH_NVME_SLOT_ABANDONED))
		return rc;
	fth_nvme_warp_result_(qp, id, true, done);
	return 0;
}

/* ---- whole commands ---- */

/* Wait before the next try to take an id; more sleep the more warps wait. 0, -ETIME, failure. */
FTH_WARP int fth_nvme_warp_queue_up_(struct fth_nvme_qp *qp, const struct fth_nvme_warp *warp,
				     uint64_t deadline)
{
	uint32_t failed = fth_load_acquire_dev32(&qp->failed);
	uint32_t waiters = fth_load_relaxed_dev32(&qp->waiters);

	failed = __shfl_sync(warp->mask, failed, (int)warp->leader);
	if (failed)
		return -(int)failed;
	if (fth_nvme_warp_poll(qp, warp))
		return 0;
	waiters = __shfl_sync(warp->mask, waiters, (int)warp->leader);
	__nanosleep(min(FTH_NVME_PAUSE_FIRST * waiters, 16 * FTH_NVME_PAUSE_MOST));
	if (__any_sync(warp->mask, fth_now_ns() >= deadline))
		return -ETIME;
	return 0;
}

/* Ids for some of the lanes that want one, for one lane at least; 0, -ETIME or the failure. */
FTH_WARP int fth_nvme_warp_take_wait(struct fth_nvme_qp *qp, const struct fth_nvme_warp *warp,
				     bool want, uint32_t hint, uint64_t deadline, uint32_t *id)
{
	bool queued = false;
	int rc = 0;

	for (;;) {
		*id = fth_nvme_warp_take(qp, warp, want, hint++);
		if (rc < 0 || __any_sync(warp->mask, *id != FTH_NVME_NO_ID))
			break;
		/* relaxed: a count that others only estimate their wait from. */
		if (!queued && warp->lane == warp->leader)
			fth_add_relaxed_dev32(&qp->waiters, 1);
		queued = true;
		rc = fth_nvme_warp_queue_up_(qp, warp, deadline);
	}
	if (queued && warp->lane == warp->leader)
		fth_add_relaxed_dev32(&qp->waiters, UINT32_MAX);
	return __any_sync(warp->mask, *id != FTH_NVME_NO_ID) ? 0 : rc;
}

/*
 * fth_nvme_qp_exec() for each lane that wants it, in as many turns as the ids need. Lanes that do
 * not get 0. `ref` as there, or NULL.
 */
FTH_WARP int fth_nvme_warp_exec(struct fth_nvme_qp *qp, const struct fth_nvme_warp *warp, bool want,
				const struct fth_nvme_sqe *command, uint32_t hint,
				uint64_t deadline, struct fth_nvme_done *done,
				struct fth_nvme_ref *ref)
{
	int rc = 0;

	while (__any_sync(warp->mask, want)) {
		uint32_t id;
		int taken = fth_nvme_warp_take_wait(qp, warp, want, hint, deadline, &id);

		if (taken < 0)
			return want ? taken : rc;
		if (id != FTH_NVME_NO_ID && ref) {
			ref->id = id;
			ref->generation = fth_load_relaxed_dev32(&qp->slots[id].generation);
		}
		fth_nvme_warp_put(qp, warp, id, command);
		fth_nvme_warp_ring(qp, warp);
		taken = fth_nvme_warp_wait(qp, warp, id, deadline, done);
		if (id == FTH_NVME_NO_ID)
			continue;
		if (taken == -ETIME)
			taken = fth_nvme_qp_abandon(qp, id, done);
		rc = taken < 0 ? taken : fth_nvme_status_errno(done->status);
		want = false;
	}
	return rc;
}

#endif
#endif
