/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The peer of `bench queue` on the CPU and of `bench gpublock` on the GPU: one lock around a queue
 * pair. Whoever submits writes its entry and the doorbell inside it, and whoever waits reaps the
 * completion ring inside it. What a driver looks like before anybody has measured it; it trusts
 * the controller.
 *
 * The lock and the waiting are the caller's: queue_lock.c for threads of the CPU, gpublock_lock.h
 * for those of a GPU. All but one_lock_news() is called with the lock held.
 */
#ifndef FTH_BENCH_ONE_LOCK_H
#define FTH_BENCH_ONE_LOCK_H

#include "fathom/detail/nvme/queue.h"

#define ONE_LOCK_IDS 4096u

struct one_lock {
	uint32_t tail, sq_head, cq_head;
	uint32_t free_count;
	uint16_t free_ids[ONE_LOCK_IDS];
	uint32_t done[ONE_LOCK_IDS]; /* 0, or 1 + status; read without the lock */
};

FTH_HD void one_lock_init(struct one_lock *q, uint32_t ids)
{
	q->tail = q->sq_head = q->cq_head = 0;
	for (q->free_count = 0; q->free_count < ids && q->free_count < ONE_LOCK_IDS;
	     q->free_count++)
		q->free_ids[q->free_count] = (uint16_t)q->free_count;
}

/* True if there was something, and the doorbell was written. */
FTH_HD bool one_lock_drain(struct one_lock *q, struct fth_nvme_qp *qp)
{
	uint32_t first = q->cq_head;

	for (;;) {
		struct fth_nvme_cqe *entry = &qp->cq[fth_ring_position(q->cq_head, qp->cq_shift)];
		/* acquire: the rest of the entry is not read before its phase. */
		uint32_t info = fth_load_acquire_sys32(&entry->info);

		if (fth_nvme_cqe_phase(info) != fth_ring_phase(q->cq_head, qp->cq_shift))
			break;
		q->sq_head = fth_ring_advance_to(q->sq_head, fth_nvme_cqe_sq_head(entry->queue),
						 qp->sq_shift);
		/* release: the data that came is there for whoever sees this. */
		fth_store_release_dev32(&q->done[fth_nvme_cqe_cid(info)],
					1u + fth_nvme_cqe_status(info));
		fth_store_relaxed_dev32(&q->cq_head, q->cq_head + 1);
	}
	if (q->cq_head == first)
		return false;
	/* release: stops the controller from reusing entries that we have yet to read. */
	fth_store_release_sys32(qp->cq_doorbell, fth_ring_position(q->cq_head, qp->cq_shift));
	return true;
}

/* False when there is no room; what is reaped then makes some. */
FTH_HD bool one_lock_submit(struct one_lock *q, struct fth_nvme_qp *qp,
			    const struct fth_nvme_sqe *command, uint32_t *id)
{
	struct fth_nvme_sqe *entry = &qp->sq[fth_ring_position(q->tail, qp->sq_shift)];

	if (q->free_count == 0 || q->tail - q->sq_head >= fth_ring_mask(qp->sq_shift))
		return false;
	*id = q->free_ids[--q->free_count];
	fth_store_relaxed_dev32(&q->done[*id], 0);
	*entry = *command;
	entry->cid = (uint16_t)*id;
	q->tail++;
	/* release: stops the doorbell from overtaking the entry. */
	fth_store_release_sys32(qp->sq_doorbell, fth_ring_position(q->tail, qp->sq_shift));
	return true;
}

/* Is there a completion that nobody has reaped? Needs no lock (dissertation, 5.5). */
FTH_HD bool one_lock_news(struct one_lock *q, struct fth_nvme_qp *qp)
{
	uint32_t head = fth_load_relaxed_dev32(&q->cq_head);
	uint32_t info = fth_load_relaxed_sys32(&qp->cq[fth_ring_position(head, qp->cq_shift)].info);

	return fth_nvme_cqe_phase(info) == fth_ring_phase(head, qp->cq_shift);
}

/* Take the result of a command, which gives its id back; false if it has not been reaped. */
FTH_HD bool one_lock_collect(struct one_lock *q, uint32_t id, uint32_t *status)
{
	/* acquire: the data that came is not read before this. */
	uint32_t done = fth_load_acquire_dev32(&q->done[id]);

	if (!done)
		return false;
	q->free_ids[q->free_count++] = (uint16_t)id;
	*status = done - 1;
	return true;
}

#endif
