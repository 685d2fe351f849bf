/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The parallel queue pair: one NVMe submission and completion ring used by any number of
 * threads, CPU or GPU, without a lock around it.
 *
 * It is derived from the queue of BaM (Qureshi, dissertation, ch. 5), with tickets, marks and a
 * tail that the holder of the lock moves over all ready entries. src/nvme/README.md lists the
 * differences. One command goes through
 *
 *	take	get a command id: the only step that waits for a full queue
 *	put	get a ticket, write the entry at its position, mark the position ready
 *	ring	move the tail over all ready entries and write the doorbell, or leave that to
 *		the thread that is doing it
 *	poll	reap the completion ring, once for all threads, into the slots of the command ids
 *	wait	read the command's own slot; poll while it is not done
 *
 * Invariants
 *
 *  1. A thread holds a command id before it takes a ticket, and the id is free again only after
 *     its completion was reaped. There are at most size - 1 ids, so the submission ring never
 *     holds more than size - 1 entries, and the completion ring cannot be overrun.
 *  2. Tickets are handed out once. Ticket t is the only writer of position t mod size until
 *     mark[t mod size] == t, and no thread writes there again before sq_head has passed t.
 *  3. tail only grows, only the holder of ring_lock changes it, and every ticket before it is
 *     marked. The doorbell holds tail mod size.
 *  4. cq_head and sq_head only grow, and only the holder of reap_lock changes them. Only its phase
 *     bit shows that an entry is new, not its position.
 *  5. sq_head passes ticket t before the slot of t's command is done. So the holder of an id
 *     finds its ticket's position free: of the tickets in [sq_head, t] all still hold ids, and
 *     those are at most size - 1.
 *  6. A slot changes from WAITING once: to DONE by the reaper, or to ABANDONED by a waiter that
 *     gave up or finds the queue pair failed. A DONE id is freed by its waiter, an ABANDONED one
 *     by the reaper or by reset: never while the controller may still work on the command.
 *  7. Once failed is set no id is handed out, nothing is reaped, and every wait ends, until
 *     reset and resume.
 *
 *	slot:	FREE --put--> WAITING --reap--> DONE --wait--> FREE
 *				 |
 *				 +--abandon, failed--> ABANDONED --reap or reset--> FREE
 *
 * The steps are modelled in src/nvme/queue/model/queue.pml. Memory orders are given at each access;
 * "stops" names the reordering that would be wrong.
 */
#ifndef FATHOM_NVME_QUEUE_H
#define FATHOM_NVME_QUEUE_H

#include "fathom/detail/hd/ring.h"
#include "fathom/hd/wait.h"
#include "fathom/detail/nvme/barrier.h"
#include "fathom/detail/nvme/spec.h"
#include "fathom/detail/nvme/status.h"

#define FTH_NVME_CACHE_LINE 64
#define FTH_NVME_ALIGNED    __attribute__((aligned(FTH_NVME_CACHE_LINE)))
#define FTH_NVME_SHIFT_MIN  1u
#define FTH_NVME_SHIFT_MAX  16u
#define FTH_NVME_NO_ID	    UINT32_MAX

enum fth_nvme_slot_state {
	FTH_NVME_SLOT_FREE,
	FTH_NVME_SLOT_WAITING,
	FTH_NVME_SLOT_DONE,
	FTH_NVME_SLOT_ABANDONED
};

/* What became of one command id: the map that completions are reaped into. */
struct fth_nvme_slot {
	uint32_t word;	     /* state in bits 7:0; once DONE the status field in 31:16 */
	uint32_t result;     /* double word 0 of the completion */
	uint32_t ticket;     /* of the command that holds the id */
	uint32_t generation; /* how often the id was freed */
};

/* Bit i of word w: command id 32 * w + i is free. A cache line each, so that threads which keep
 * to words of their own do not meet. */
struct fth_nvme_id_word {
	FTH_NVME_ALIGNED uint32_t bits;
};

struct fth_nvme_qp {
	/* Set by fth_nvme_qp_init() and only read after that. */
	struct fth_nvme_sqe *sq;
	struct fth_nvme_cqe *cq;
	uint32_t *sq_doorbell;
	uint32_t *cq_doorbell;
	uint32_t *mark; /* per position: the last ticket whose entry was complete */
	struct fth_nvme_id_word *free_ids;
	struct fth_nvme_slot *slots; /* per command id */
	uint32_t sq_shift;
	uint32_t cq_shift;
	uint32_t ids;
	uint32_t qid;
	uint32_t far; /* a look at the completion ring is slow: only one thread looks at a time */

	FTH_NVME_ALIGNED uint32_t ticket; /* the next one */

	FTH_NVME_ALIGNED uint32_t ring_lock; /* 0: free; n: held, and n - 1 have knocked */
	uint32_t tail;
	uint64_t sq_doorbell_writes;

	FTH_NVME_ALIGNED uint32_t reap_lock;
	uint32_t cq_head;
	uint64_t cq_doorbell_writes;

	FTH_NVME_ALIGNED uint32_t sq_head;

	FTH_NVME_ALIGNED uint32_t failed; /* 0, or the errno that every wait ends with */

	FTH_NVME_ALIGNED uint32_t waiters; /* warps without an id; see queue_warp.h */
};

/* How a command ended. */
struct fth_nvme_done {
	uint32_t result;
	uint16_t status; /* the status field; fth_nvme_status_errno() makes an errno of it */
};

/* One use of a command id; see fth_nvme_qp_settled(). */
struct fth_nvme_ref {
	uint32_t id;
	uint32_t generation;
};

/* ---- setting up ---- */

/* Bytes of working memory a queue pair needs besides its rings. Align it to 64. */
FTH_HD size_t fth_nvme_qp_memory(uint32_t sq_shift, uint32_t ids)
{
	size_t marks = (size_t)sizeof(uint32_t) << sq_shift;
	size_t words = sizeof(struct fth_nvme_id_word) * ((ids + 31) / 32);

	return words + sizeof(struct fth_nvme_slot) * ids + marks;
}

/* What a queue pair is made of. */
struct fth_nvme_qp_setup {
	void *sq;     /* 64 bytes << sq_shift, page-aligned; the controller reads it */
	void *cq;     /* 16 bytes << cq_shift, page-aligned, ZEROED; the controller writes it */
	void *memory; /* fth_nvme_qp_memory() bytes for the threads alone */
	uint32_t *sq_doorbell;
	uint32_t *cq_doorbell;
	uint32_t sq_shift; /* log2 of entries, 1 to 16 */
	uint32_t cq_shift;
	uint32_t ids; /* commands in flight at most; 0 means as many as the rings allow */
	uint32_t qid;
	/* The completion ring is in memory of another processor: the host's, for threads of a GPU.
	 */
	bool far;
};

/* The most command ids that two rings allow (invariant 1). */
FTH_HD uint32_t fth_nvme_qp_ids_max(uint32_t sq_shift, uint32_t cq_shift)
{
	return fth_ring_mask(sq_shift < cq_shift ? sq_shift : cq_shift);
}

/* The state that init and reset begin from; the rings must be known to nobody else. */
FTH_HD void fth_nvme_qp_rewind_(struct fth_nvme_qp *qp)
{
	for (uint32_t i = 0; i < fth_ring_size(qp->sq_shift); i++)
		qp->mark[i] = i - fth_ring_size(qp->sq_shift); /* the turn before the first */
	for (uint32_t i = 0; i < fth_ring_size(qp->cq_shift); i++) {
		qp->cq[i].result = 0;
		qp->cq[i].reserved = 0;
		qp->cq[i].queue = 0;
		/* atomic: a late poller may still look at the phase, as invariant 7 allows */
		fth_store_relaxed_sys32(&qp->cq[i].info, 0);
	}
	fth_store_relaxed_dev32(&qp->ticket, 0);
	fth_store_relaxed_dev32(&qp->tail, 0);
	fth_store_relaxed_dev32(&qp->cq_head, 0);
	fth_store_relaxed_dev32(&qp->sq_head, 0);
}

/* 0 or -EINVAL. One thread, before the queue pair is shared. */
FTH_HD int fth_nvme_qp_init(struct fth_nvme_qp *qp, const struct fth_nvme_qp_setup *setup)
{
	char *memory = (char *)setup->memory;
	uint32_t ids = setup->ids;

	if (setup->sq_shift < FTH_NVME_SHIFT_MIN || setup->sq_shift > FTH_NVME_SHIFT_MAX ||
	    setup->cq_shift < FTH_NVME_SHIFT_MIN || setup->cq_shift > FTH_NVME_SHIFT_MAX)
		return -EINVAL;
	if (ids == 0)
		ids = fth_nvme_qp_ids_max(setup->sq_shift, setup->cq_shift);
	if (ids > fth_nvme_qp_ids_max(setup->sq_shift, setup->cq_shift))
		return -EINVAL;
	qp->sq = (struct fth_nvme_sqe *)setup->sq;
	qp->cq = (struct fth_nvme_cqe *)setup->cq;
	qp->sq_doorbell = setup->sq_doorbell;
	qp->cq_doorbell = setup->cq_doorbell;
	qp->sq_shift = setup->sq_shift;
	qp->cq_shift = setup->cq_shift;
	qp->ids = ids;
	qp->qid = setup->qid;
	qp->far = setup->far;
	qp->free_ids = (struct fth_nvme_id_word *)memory;
	memory += sizeof(struct fth_nvme_id_word) * ((ids + 31) / 32);
	qp->slots = (struct fth_nvme_slot *)memory;
	qp->mark = (uint32_t *)(memory + sizeof(struct fth_nvme_slot) * ids);
	for (uint32_t i = 0; i < ids; i++) {
		qp->slots[i].word = FTH_NVME_SLOT_FREE;
		qp->slots[i].result = 0;
		qp->slots[i].ticket = 0;
		qp->slots[i].generation = 0;
	}
	for (uint32_t w = 0; w < (ids + 31) / 32; w++)
		qp->free_ids[w].bits = ids - 32 * w >= 32 ? UINT32_MAX : (1u << (ids - 32 * w)) - 1;
	qp->ring_lock = 0;
	qp->reap_lock = 0;
	qp->sq_doorbell_writes = 0;
	qp->cq_doorbell_writes = 0;
	qp->failed = 0;
	qp->waiters = 0;
	fth_nvme_qp_rewind_(qp);
	return 0;
}

/* ---- failing ---- */

/*
 * End every wait on this queue pair with -err, now and until reset; the first error stays. Whoever
 * wants waiters to reuse their buffers at once sees to it that the controller has let go of them
 * (queue deleted or controller disabled) before this.
 */
FTH_HD void fth_nvme_qp_cancel(struct fth_nvme_qp *qp, uint32_t err)
{
	uint32_t none = 0;

	fth_cas_acqrel_dev32(&qp->failed, &none, err);
}

/* 0, or the negative errno the queue pair has failed with. */
FTH_HD int fth_nvme_qp_failed(const struct fth_nvme_qp *qp)
{
	return -(int)fth_load_acquire_dev32(&qp->failed);
}

/* ---- command ids ---- */

FTH_HD uint32_t fth_nvme_lowest_bit_(uint32_t word)
{
#ifdef __CUDA_ARCH__
	return (uint32_t)__ffs((int)word) - 1;
#else
	return (uint32_t)__builtin_ctz(word);
#endif
}

FTH_HD void fth_nvme_qp_free_id_(struct fth_nvme_qp *qp, uint32_t id)
{
	/* Only the one thread that ends the command is here: no atomic add is needed. */
	uint32_t next = fth_load_relaxed_dev32(&qp->slots[id].generation) + 1;

	fth_store_release_dev32(&qp->slots[id].generation, next);
	/* release: stops our last look at the slot from sinking below its next use. */
	fth_or_release_dev32(&qp->free_ids[id / 32].bits, 1u << (id % 32));
}

FTH_HD uint32_t fth_nvme_qp_take_from_(struct fth_nvme_qp *qp, uint32_t w, uint32_t prefer)
{
	uint32_t word = fth_load_relaxed_dev32(&qp->free_ids[w].bits);

	while (word) {
		uint32_t bit = word & prefer ? prefer : 1u << fth_nvme_lowest_bit_(word);

		/* acquire: stops our use of the slot from rising above the last one's end. */
		word = fth_and_acquire_dev32(&qp->free_ids[w].bits, ~bit);
		if (word & bit)
			return 32 * w + fth_nvme_lowest_bit_(bit);
	}
	return FTH_NVME_NO_ID;
}

/*
 * Take a command id without waiting: a number below qp->ids, or FTH_NVME_NO_ID when all are in
 * use or the queue pair has failed. `hint` is the id to try first: give the one you had last, or
 * 32 times a number of your own, so that threads keep to different words.
 */
FTH_HD uint32_t fth_nvme_qp_take(struct fth_nvme_qp *qp, uint32_t hint)
{
	uint32_t words = (qp->ids + 31) / 32;
	uint32_t first = (hint / 32) % words;

	for (uint32_t i = 0; i < words; i++) {
		uint32_t w = first + i < words ? first + i : first + i - words;
		uint32_t id = fth_nvme_qp_take_from_(qp, w, 1u << (hint % 32));

		if (id == FTH_NVME_NO_ID)
			continue;
		/*
		 * After the take, not before: reset() looks at the bitmap with a
		 * read-modify-write, so either it sees our bit gone, or we see its `failed`.
		 */
		if (!fth_load_acquire_dev32(&qp->failed))
			return id;
		fth_nvme_qp_free_id_(qp, id);
		break;
	}
	return FTH_NVME_NO_ID;
}

/* Give back an id that was taken and not put. */
FTH_HD void fth_nvme_qp_untake(struct fth_nvme_qp *qp, uint32_t id)
{
	fth_nvme_qp_free_id_(qp, id);
}

/* ---- submitting ---- */

/*
 * Write a command into the ring under the id it was given. It is the controller's only after a
 * ring; put any number and ring once. The entry's cid is filled in here.
 */
FTH_HD void fth_nvme_qp_put(struct fth_nvme_qp *qp, uint32_t id, const struct fth_nvme_sqe *command)
{
	struct fth_nvme_sqe entry = *command;
	struct fth_backoff backoff = {0};
	uint32_t ticket, position;

	entry.cid = (uint16_t)id;
	/* relaxed: nobody looks at this slot until the controller answers our ticket. */
	fth_store_relaxed_dev32(&qp->slots[id].word, FTH_NVME_SLOT_WAITING);
	ticket = fth_add_relaxed_dev32(&qp->ticket, 1);
	qp->slots[id].ticket = ticket;
	position = fth_ring_position(ticket, qp->sq_shift);
	/*
	 * The position is free (invariant 5); what may still be on its way is the sight of it.
	 * acquire: stops our entry from being written before the controller has read the last.
	 */
	while (fth_ring_used(fth_load_acquire_dev32(&qp->sq_head), ticket) >=
	       fth_ring_mask(qp->sq_shift)) {
		if (fth_load_relaxed_dev32(&qp->failed))
			return; /* the rings are dead until reset; our wait says so */
		fth_backoff_pause(&backoff);
	}
	qp->sq[position] = entry;
	/* release: stops the mark from being seen before the entry is. */
	fth_store_release_dev32(&qp->mark[position], ticket);
}

/* The holder of ring_lock moves the tail over every entry that is ready. */
FTH_HD void fth_nvme_qp_move_tail_(struct fth_nvme_qp *qp)
{
	uint32_t first = fth_load_relaxed_dev32(&qp->tail), tail = first;

	/* acquire: with the mark's release, the entries are whole before the doorbell rings. */
	while (fth_load_acquire_dev32(&qp->mark[fth_ring_position(tail, qp->sq_shift)]) == tail)
		tail++;
	if (tail == first)
		return;
	fth_store_relaxed_dev32(&qp->tail, tail);
	fth_store_relaxed_dev64(&qp->sq_doorbell_writes,
				fth_load_relaxed_dev64(&qp->sq_doorbell_writes) + 1);
	/* Stops the doorbell from overtaking the entries (and tail, see legal_). */
	fth_nvme_mmio_write32(qp->sq_doorbell, fth_ring_position(tail, qp->sq_shift));
}

/*
 * Make every command that this thread has put known to the controller. Never waits: a thread
 * that finds the lock held has knocked by counting it up, and the holder, who can only let go
 * of the count it has seen, looks again.
 */
FTH_HD void fth_nvme_qp_ring(struct fth_nvme_qp *qp)
{
	/* acqrel: our marks are in the count's history before the holder's next look. */
	uint32_t seen = fth_add_acqrel_dev32(&qp->ring_lock, 1) + 1;

	if (seen != 1)
		return;
	do {
		fth_nvme_qp_move_tail_(qp);
	} while (!fth_cas_acqrel_dev32(&qp->ring_lock, &seen, 0));
}

/* ---- completing ---- */

/*
 * Does a completion keep to the protocol? Its id is in flight, it is for our submission queue, and
 * the submission head in it is between sq_head, which is what it was, and the tail, and past the
 * command that is answered. *to becomes that head, where it can be told.
 */
FTH_HD bool fth_nvme_qp_legal_(const struct fth_nvme_qp *qp, const struct fth_nvme_cqe *entry,
			       uint32_t info, uint32_t sq_head, uint32_t *to)
{
	uint32_t id = fth_nvme_cqe_cid(info), queue = entry->queue, state;
	uint32_t position = fth_nvme_cqe_sq_head(queue);

	*to = sq_head;
	if (id >= qp->ids || fth_nvme_cqe_sq_id(queue) != qp->qid ||
	    position > fth_ring_mask(qp->sq_shift))
		return false;
	state = fth_load_relaxed_dev32(&qp->slots[id].word) & 0xff;
	if (state != FTH_NVME_SLOT_WAITING && state != FTH_NVME_SLOT_ABANDONED)
		return false;
	*to = fth_ring_advance_to(sq_head, position, qp->sq_shift);
	/* tail is as new as the doorbell that the controller saw before it answered. */
	return !fth_ring_before(fth_load_relaxed_dev32(&qp->tail), *to) &&
	       fth_ring_before(qp->slots[id].ticket, *to);
}

/* Into the slot of its id, which is below qp->ids. False when that was not waiting. */
FTH_HD bool fth_nvme_qp_enter_(struct fth_nvme_qp *qp, const struct fth_nvme_cqe *entry,
			       uint32_t info)
{
	uint32_t old = FTH_NVME_SLOT_WAITING, id = fth_nvme_cqe_cid(info);
	struct fth_nvme_slot *slot = &qp->slots[id];

	slot->result = entry->result;
	/* release: the result, and sq_head, are seen before the slot is done (invariant 5). */
	if (fth_cas_acqrel_dev32(&slot->word, &old,
				 FTH_NVME_SLOT_DONE | (uint32_t)fth_nvme_cqe_status(info) << 16))
		return true;
	if (old != FTH_NVME_SLOT_ABANDONED)
		return false;
	/* Nobody waits any more: a late answer is dropped here, and its id usable again. */
	fth_store_relaxed_dev32(&slot->word, FTH_NVME_SLOT_FREE);
	fth_nvme_qp_free_id_(qp, id);
	return true;
}

/* Enter one completion into the map. False when the controller broke the protocol. */
FTH_HD bool fth_nvme_qp_settle_(struct fth_nvme_qp *qp, const struct fth_nvme_cqe *entry,
				uint32_t info)
{
	uint32_t sq_head = fth_load_relaxed_dev32(&qp->sq_head);

	if (!fth_nvme_qp_legal_(qp, entry, info, sq_head, &sq_head))
		return false;
	/* release: the controller's read of those entries is over for whoever sees this. */
	fth_store_release_dev32(&qp->sq_head, sq_head);
	return fth_nvme_qp_enter_(qp, entry, info);
}

/* The completion at cq_head, or 0 if none is new. */
FTH_HD uint32_t fth_nvme_qp_new_info_(struct fth_nvme_qp *qp, uint32_t head, bool *is_new)
{
	/* Stops the rest of the entry, and the data, from being read before its phase bit. */
	uint32_t info = fth_nvme_mmio_read32(&qp->cq[fth_ring_position(head, qp->cq_shift)].info);

	*is_new = fth_nvme_cqe_phase(info) == fth_ring_phase(head, qp->cq_shift);
	return info;
}

/* ---- reaping, one completion at a time ---- */

/*
 * For a driver that hands each completion to its owner at once, so that no id waits for a thread
 * that does not look:
 *
 *	if (fth_nvme_qp_reap_begin(qp, &reap)) {
 *		while (fth_nvme_qp_reap_next(qp, &reap, &id))
 *			if (fth_nvme_qp_try(qp, id, &done)) ...
 *		fth_nvme_qp_reap_end(qp, &reap);
 *	}
 *
 * Between begin and end the caller holds reap_lock: keep it short, and do no I/O.
 */
struct fth_nvme_reap {
	uint32_t first, head;
};

FTH_HD void fth_nvme_qp_reap_start_(struct fth_nvme_qp *qp, struct fth_nvme_reap *reap)
{
	reap->first = reap->head = fth_load_relaxed_dev32(&qp->cq_head);
}

/* True when this thread reaps now. False when nothing is new, or another thread reaps. */
FTH_HD bool fth_nvme_qp_reap_begin(struct fth_nvme_qp *qp, struct fth_nvme_reap *reap)
{
	bool is_new = true;

	/* A look without the lock first: most polls find nothing, and should write nothing. */
	if (!qp->far)
		fth_nvme_qp_new_info_(qp, fth_load_relaxed_dev32(&qp->cq_head), &is_new);
	if (!is_new || fth_load_relaxed_dev32(&qp->reap_lock))
		return false;
	/* acquire: stops our look at the heads from rising above the last holder's change. */
	if (fth_xchg_acquire_dev32(&qp->reap_lock, 1))
		return false;
	fth_nvme_qp_reap_start_(qp, reap);
	return true;
}

/* As begin, but waits for a thread that reaps. It ends soon, whatever the controller does. */
FTH_HD void fth_nvme_qp_reap_lock(struct fth_nvme_qp *qp, struct fth_nvme_reap *reap)
{
	struct fth_backoff backoff = {0};

	while (fth_xchg_acquire_dev32(&qp->reap_lock, 1)) /* acquire: as in begin */
		fth_backoff_pause(&backoff);
	fth_nvme_qp_reap_start_(qp, reap);
}

/*
 * Enter the next completion into the map: *id is its command's. False when none is new, the queue
 * pair has failed, or as many were entered as the ring holds: the caller has more to do.
 */
FTH_HD bool fth_nvme_qp_reap_next(struct fth_nvme_qp *qp, struct fth_nvme_reap *reap, uint32_t *id)
{
	uint32_t position = fth_ring_position(reap->head, qp->cq_shift), info;
	bool is_new;

	if (reap->head - reap->first == fth_ring_size(qp->cq_shift) ||
	    fth_load_acquire_dev32(&qp->failed))
		return false;
	info = fth_nvme_qp_new_info_(qp, reap->head, &is_new);
	if (!is_new)
		return false;
	reap->head++;
	if (!fth_nvme_qp_settle_(qp, &qp->cq[position], info)) {
		fth_nvme_qp_cancel(qp, EPROTO);
		return false;
	}
	*id = fth_nvme_cqe_cid(info);
	return true;
}

/* Tell the controller once what was read, and let others reap. Returns how many were entered. */
FTH_HD uint32_t fth_nvme_qp_reap_end(struct fth_nvme_qp *qp, const struct fth_nvme_reap *reap)
{
	uint32_t n = reap->head - reap->first;

	if (n > 0) {
		fth_store_relaxed_dev32(&qp->cq_head, reap->head);
		fth_store_relaxed_dev64(&qp->cq_doorbell_writes,
					fth_load_relaxed_dev64(&qp->cq_doorbell_writes) + 1);
		/* Stops the controller from reusing entries that we have yet to read. */
		fth_nvme_mmio_write32(qp->cq_doorbell, fth_ring_position(reap->head, qp->cq_shift));
	}
	/* release: stops our changes from sinking below the unlock. */
	fth_store_release_dev32(&qp->reap_lock, 0);
	return n;
}

/*
 * Reap what has arrived, for all threads. Returns how many completions this call entered; 0
 * also when another thread is at it. Never waits.
 */
FTH_HD uint32_t fth_nvme_qp_poll(struct fth_nvme_qp *qp)
{
	struct fth_nvme_reap reap;
	uint32_t id;

	if (!fth_nvme_qp_reap_begin(qp, &reap))
		return 0;
	while (fth_nvme_qp_reap_next(qp, &reap, &id))
		;
	return fth_nvme_qp_reap_end(qp, &reap);
}

FTH_HD void fth_nvme_qp_finish_(struct fth_nvme_qp *qp, uint32_t id, uint32_t word,
				struct fth_nvme_done *done)
{
	done->result = qp->slots[id].result;
	done->status = (uint16_t)(word >> 16);
	fth_store_relaxed_dev32(&qp->slots[id].word, FTH_NVME_SLOT_FREE);
	fth_nvme_qp_free_id_(qp, id);
}

/*
 * Look whether a command has completed, without polling. True: *done is filled and the id is no
 * longer the caller's.
 */
FTH_HD bool fth_nvme_qp_try(struct fth_nvme_qp *qp, uint32_t id, struct fth_nvme_done *done)
{
	/* acquire: stops the result (and the data read) from being looked at too early. */
	uint32_t word = fth_load_acquire_dev32(&qp->slots[id].word);

	if ((word & 0xff) != FTH_NVME_SLOT_DONE)
		return false;
	fth_nvme_qp_finish_(qp, id, word, done);
	return true;
}

/*
 * Leave a command of ours behind. 0: it had completed after all, *done is filled. Else `error`: its
 * id comes back when the late completion arrives or the queue pair is reset, and until then
 * (fth_nvme_qp_settled()) its buffers belong to the controller. Either way the id is no longer
 * the caller's.
 */
FTH_HD int fth_nvme_qp_leave_(struct fth_nvme_qp *qp, uint32_t id, int error,
			      struct fth_nvme_done *done)
{
	uint32_t old = FTH_NVME_SLOT_WAITING;

	if (fth_cas_acqrel_dev32(&qp->slots[id].word, &old, FTH_NVME_SLOT_ABANDONED))
		return error;
	fth_nvme_qp_try(qp, id, done);
	return 0;
}

/*
 * On behalf of any thread, with reap_lock held: leave a command behind that is in the ring. False
 * when it is not there yet, or not any more.
 */
FTH_HD bool fth_nvme_qp_drop(struct fth_nvme_qp *qp, uint32_t id)
{
	uint32_t old = FTH_NVME_SLOT_WAITING;

	return fth_cas_acqrel_dev32(&qp->slots[id].word, &old, FTH_NVME_SLOT_ABANDONED);
}

/* Give up a command: 0 and *done if it had completed, or -ETIME and it is left behind. */
FTH_HD int fth_nvme_qp_abandon(struct fth_nvme_qp *qp, uint32_t id, struct fth_nvme_done *done)
{
	return fth_nvme_qp_leave_(qp, id, -ETIME, done);
}

/* On a failed queue pair: 0 and *done if the command had completed, or the failure. */
FTH_HD int fth_nvme_qp_collect(struct fth_nvme_qp *qp, uint32_t id, struct fth_nvme_done *done)
{
	return fth_nvme_qp_leave_(qp, id, fth_nvme_qp_failed(qp), done);
}

/*
 * Wait for a command. 0: it completed, *done says how, and the id is no longer the caller's.
 * -ETIME: the deadline passed and nothing has changed: wait again, or abandon. Any other error:
 * the queue pair has failed, and the command is left behind as by abandon.
 */
FTH_HD int fth_nvme_qp_wait(struct fth_nvme_qp *qp, uint32_t id, uint64_t deadline,
			    struct fth_nvme_done *done)
{
	struct fth_backoff backoff = {0};

	for (;;) {
		if (fth_nvme_qp_try(qp, id, done))
			return 0;
		if (fth_load_acquire_dev32(&qp->failed))
			return fth_nvme_qp_collect(qp, id, done);
		if (fth_nvme_qp_poll(qp))
			continue;
		if (fth_backoff_expired(&backoff, deadline))
			return fth_nvme_qp_try(qp, id, done) ? 0 : -ETIME;
	}
}

/* Take a command id, polling until one is free. An id, -ETIME, or the queue pair's failure. */
FTH_HD int fth_nvme_qp_take_wait(struct fth_nvme_qp *qp, uint32_t hint, uint64_t deadline)
{
	struct fth_backoff backoff = {0};

	for (;;) {
		uint32_t id = fth_nvme_qp_take(qp, hint);
		int failure;

		if (id != FTH_NVME_NO_ID)
			return (int)id;
		failure = fth_nvme_qp_failed(qp); /* once: a resume may come between two looks */
		if (failure < 0)
			return failure;
		if (!fth_nvme_qp_poll(qp) && fth_backoff_expired(&backoff, deadline))
			return -ETIME;
	}
}

/* ---- whole commands ---- */

/*
 * Execute one command and wait for it. 0 or a negative errno: what the status says, -ETIME, or
 * the queue pair's failure. After the latter two the command may still happen, and its buffers
 * belong to the controller until fth_nvme_qp_settled(*ref); ref may be NULL if they are never
 * reused.
 */
FTH_HD int fth_nvme_qp_exec(struct fth_nvme_qp *qp, const struct fth_nvme_sqe *command,
			    uint32_t hint, uint64_t deadline, struct fth_nvme_done *done,
			    struct fth_nvme_ref *ref)
{
	int id = fth_nvme_qp_take_wait(qp, hint, deadline);
	int rc;

	if (id < 0)
		return id;
	if (ref) {
		ref->id = (uint32_t)id;
		ref->generation = fth_load_relaxed_dev32(&qp->slots[id].generation);
	}
	fth_nvme_qp_put(qp, (uint32_t)id, command);
	fth_nvme_qp_ring(qp);
	rc = fth_nvme_qp_wait(qp, (uint32_t)id, deadline, done);
	if (rc == -ETIME)
		rc = fth_nvme_qp_abandon(qp, (uint32_t)id, done);
	return rc < 0 ? rc : fth_nvme_status_errno(done->status);
}

/* True once the controller has let go of the buffers of that use of the id. */
FTH_HD bool fth_nvme_qp_settled(const struct fth_nvme_qp *qp, struct fth_nvme_ref ref)
{
	/* acquire: stops the buffer's next use from rising above the last one's end. */
	return fth_load_acquire_dev32(&qp->slots[ref.id].generation) != ref.generation;
}

/* ---- after a failure ---- */

/* How many ids are held by threads (not free and not abandoned), as reset must see it. */
FTH_HD uint32_t fth_nvme_qp_held_(struct fth_nvme_qp *qp)
{
	uint32_t held = 0;

	for (uint32_t id = 0; id < qp->ids; id++) {
		/* A read-modify-write, so that it is ordered against take(). */
		uint32_t word = fth_or_acqrel_dev32(&qp->free_ids[id / 32].bits, 0);
		uint32_t state = fth_load_acquire_dev32(&qp->slots[id].word) & 0xff;

		if (!(word & 1u << (id % 32)) && state != FTH_NVME_SLOT_ABANDONED)
			held++;
	}
	return held;
}

/*
 * Make a failed queue pair new: empty rings, phase from the start, abandoned ids free. The
 * controller must have forgotten the queues (deleted, or disabled). Still nobody gets in until
 * fth_nvme_qp_resume(). -EBUSY while a thread holds an id: it will collect its error and let go;
 * try again. -EINVAL when the queue pair has not failed. One thread at a time.
 */
FTH_HD int fth_nvme_qp_reset(struct fth_nvme_qp *qp)
{
	if (!fth_load_acquire_dev32(&qp->failed))
		return -EINVAL;
	/* Once `failed` is set no thread reaps for long: a later try finds the lock free. */
	if (fth_xchg_acquire_dev32(&qp->reap_lock, 1))
		return -EBUSY;
	/* Nobody holds an id: so nobody is between take and wait, in put or in ring. */
	if (fth_nvme_qp_held_(qp)) {
		fth_store_release_dev32(&qp->reap_lock, 0);
		return -EBUSY;
	}
	fth_nvme_qp_rewind_(qp);
	for (uint32_t id = 0; id < qp->ids; id++) {
		if ((fth_load_relaxed_dev32(&qp->slots[id].word) & 0xff) != FTH_NVME_SLOT_ABANDONED)
			continue;
		fth_store_relaxed_dev32(&qp->slots[id].word, FTH_NVME_SLOT_FREE);
		fth_nvme_qp_free_id_(qp, id);
	}
	fth_store_release_dev32(&qp->reap_lock, 0);
	return 0;
}

/* Open a queue pair again after reset, once the controller knows the queues anew. */
FTH_HD void fth_nvme_qp_resume(struct fth_nvme_qp *qp)
{
	/* release: whoever sees the queue pair alive sees it new. */
	fth_store_release_dev32(&qp->failed, 0);
}

#endif
