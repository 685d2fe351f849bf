/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue of BaM as its author describes it (Qureshi, dissertation, 5.1 to 5.4), on CPU
 * threads: position and turn from a ticket; a turn counter per position that counts submitted
 * and consumed; marks that the holder of the tail lock resets; a completion ring that every
 * waiter searches from its head, with a lock per position for dequeueing; command ids that are
 * locked until the head has passed their completion. Marks are words here, not bits.
 */
#include "queue_design.h"

#include <stdlib.h>

#define IDS 65536u

struct queue_bam {
	struct fth_nvme_qp *qp;
	uint32_t *id_locks;    /* per command id */
	uint32_t *turns;       /* per submission position */
	uint32_t *tail_marks;  /* per submission position */
	uint32_t *head_marks;  /* per completion position */
	uint32_t *head_locks;  /* per completion position */
	uint64_t sq_doorbells; /* under tail_lock */
	uint64_t cq_doorbells; /* under head_lock */
	FTH_NVME_ALIGNED uint32_t id_ticket;
	FTH_NVME_ALIGNED uint32_t ticket;
	FTH_NVME_ALIGNED uint32_t tail_lock;
	uint32_t tail;
	FTH_NVME_ALIGNED uint32_t sq_head;
	FTH_NVME_ALIGNED uint32_t head_lock;
	uint32_t cq_head;
};

static void bam_close(void *queue)
{
	struct queue_bam *q = queue;

	free(q->id_locks);
	free(q->turns);
	free(q->tail_marks);
	free(q->head_marks);
	free(q->head_locks);
	free(q);
}

static void *bam_open(struct fth_nvme_qp *qp)
{
	size_t sq = fth_ring_size(qp->sq_shift), cq = fth_ring_size(qp->cq_shift);
	struct queue_bam *q = aligned_alloc(64, (sizeof(*q) + 63) / 64 * 64);

	if (!q)
		return NULL;
	*q = (struct queue_bam){.qp = qp};
	q->id_locks = calloc(IDS, sizeof(uint32_t));
	q->turns = calloc(sq, sizeof(uint32_t));
	q->tail_marks = calloc(sq, sizeof(uint32_t));
	q->head_marks = calloc(cq, sizeof(uint32_t));
	q->head_locks = calloc(cq, sizeof(uint32_t));
	if (!q->id_locks || !q->turns || !q->tail_marks || !q->head_marks || !q->head_locks) {
		bam_close(q);
		return NULL;
	}
	return q;
}

static void lock(uint32_t *word)
{
	struct fth_backoff backoff = {0};

	while (fth_xchg_acqrel_dev32(word, 1))
		fth_backoff_pause(&backoff);
}

static void unlock(uint32_t *word)
{
	fth_store_release_dev32(word, 0);
}

/* 5.1: reset the marks from the tail on, until the ring is full or a mark is not set. */
static void move_tail(struct queue_bam *q)
{
	uint32_t shift = q->qp->sq_shift, tail = fth_load_relaxed_dev32(&q->tail), first = tail;

	while (fth_ring_used(fth_load_acquire_dev32(&q->sq_head), tail) < fth_ring_mask(shift) &&
	       fth_xchg_acqrel_dev32(&q->tail_marks[fth_ring_position(tail, shift)], 0))
		tail++;
	if (tail == first)
		return;
	q->sq_doorbells++;
	fth_store_release_sys32(q->qp->sq_doorbell, fth_ring_position(tail, shift));
	fth_store_release_dev32(&q->tail, tail);
}

static void enqueue(struct queue_bam *q, const struct fth_nvme_sqe *command, uint16_t id)
{
	uint32_t ticket = fth_add_relaxed_dev32(&q->ticket, 1);
	uint32_t position = fth_ring_position(ticket, q->qp->sq_shift);
	uint32_t turn = 2 * fth_ring_turn(ticket, q->qp->sq_shift);
	struct fth_backoff backoff = {0};

	while (fth_load_acquire_dev32(&q->turns[position]) != turn)
		fth_backoff_pause(&backoff);
	q->qp->sq[position] = *command;
	q->qp->sq[position].cid = id;
	fth_store_release_dev32(&q->tail_marks[position], 1);
	backoff.spins = 0;
	while (fth_load_acquire_dev32(&q->tail_marks[position])) {
		if (!fth_xchg_acqrel_dev32(&q->tail_lock, 1)) {
			move_tail(q);
			unlock(&q->tail_lock);
		} else {
			fth_backoff_pause(&backoff);
		}
	}
	fth_add_acqrel_dev32(&q->turns[position], 1); /* submitted (5.4) */
}

/* 5.3: search the completion ring from its head; returns the virtual position. */
static uint32_t search(struct queue_bam *q, uint16_t id, uint16_t *status)
{
	uint32_t shift = q->qp->cq_shift;
	struct fth_backoff backoff = {0};

	for (;;) {
		uint32_t head = fth_load_acquire_dev32(&q->cq_head);

		for (uint32_t i = 0; i < fth_ring_mask(shift); i++) {
			uint32_t at = fth_ring_position(head + i, shift);
			uint32_t info = fth_load_acquire_sys32(&q->qp->cq[at].info);

			if (fth_nvme_cqe_phase(info) != fth_ring_phase(head + i, shift))
				break;
			if (fth_nvme_cqe_cid(info) == id) {
				*status = fth_nvme_cqe_status(info);
				return head + i;
			}
		}
		fth_backoff_pause(&backoff);
	}
}

/* 5.4: move the submission head as the last entry says, and count "consumed" on the way. */
static void move_sq_head(struct queue_bam *q, uint32_t reported)
{
	uint32_t shift = q->qp->sq_shift, head = fth_load_relaxed_dev32(&q->sq_head);
	uint32_t target = fth_ring_advance_to(head, reported, shift);

	for (; head != target; head++)
		fth_add_acqrel_dev32(&q->turns[fth_ring_position(head, shift)], 1);
	fth_store_release_dev32(&q->sq_head, target);
}

static void move_head(struct queue_bam *q)
{
	uint32_t shift = q->qp->cq_shift, head = fth_load_relaxed_dev32(&q->cq_head), first = head;
	uint32_t reported = 0;

	while (fth_xchg_acqrel_dev32(&q->head_marks[fth_ring_position(head, shift)], 0)) {
		reported = fth_nvme_cqe_sq_head(q->qp->cq[fth_ring_position(head, shift)].queue);
		head++;
	}
	if (head == first)
		return;
	move_sq_head(q, reported);
	q->cq_doorbells++;
	fth_store_release_sys32(q->qp->cq_doorbell, fth_ring_position(head, shift));
	fth_store_release_dev32(&q->cq_head, head);
}

/* 5.2 and 5.3: mark the entry consumed and see the head past it, alone on its position. */
static void dequeue(struct queue_bam *q, uint32_t at)
{
	uint32_t position = fth_ring_position(at, q->qp->cq_shift);
	struct fth_backoff backoff = {0};

	lock(&q->head_locks[position]);
	fth_store_release_dev32(&q->head_marks[position], 1);
	while (fth_load_acquire_dev32(&q->head_marks[position]) ||
	       !fth_ring_before(at, fth_load_acquire_dev32(&q->cq_head))) {
		if (!fth_xchg_acqrel_dev32(&q->head_lock, 1)) {
			move_head(q);
			unlock(&q->head_lock);
		} else {
			fth_backoff_pause(&backoff);
		}
	}
	unlock(&q->head_locks[position]);
}

static uint16_t bam_exec(void *queue, const struct fth_nvme_sqe *command, uint32_t hint)
{
	struct queue_bam *q = queue;
	uint16_t id = (uint16_t)fth_add_relaxed_dev32(&q->id_ticket, 1), status;
	uint32_t at;

	(void)hint;
	lock(&q->id_locks[id]);
	enqueue(q, command, id);
	at = search(q, id, &status);
	dequeue(q, at);
	unlock(&q->id_locks[id]);
	return status;
}

static uint64_t bam_doorbells(void *queue)
{
	struct queue_bam *q = queue;

	return q->sq_doorbells + q->cq_doorbells;
}

const struct queue_design queue_design_bam = {
	.name = "bam",
	.open = bam_open,
	.close = bam_close,
	.exec = bam_exec,
	.doorbells = bam_doorbells,
};
