/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The peer on the GPU: one lock around a queue pair, as queue_lock.c is on the CPU. Whoever submits
 * writes its entry and the doorbell inside the lock, and whoever waits drains the completion ring
 * inside it. Here to be measured: it trusts the controller, and only `deadline` ends its waits.
 */
#ifndef FTH_BENCH_GPUBLOCK_LOCK_H
#define FTH_BENCH_GPUBLOCK_LOCK_H

#include "fathom/nvme/queue.h"

#define GPUBLOCK_LOCK_IDS 1024u

struct gpublock_lock {
	FTH_NVME_ALIGNED uint32_t lock;
	uint32_t tail, sq_head, cq_head;
	uint32_t free_count;
	uint16_t free_ids[GPUBLOCK_LOCK_IDS];
	uint32_t done[GPUBLOCK_LOCK_IDS]; /* 0, or 1 + status; read without the lock */
};

static __device__ void gpublock_lock_init(struct gpublock_lock *q, uint32_t ids)
{
	q->lock = q->tail = q->sq_head = q->cq_head = 0;
	for (q->free_count = 0; q->free_count < ids; q->free_count++)
		q->free_ids[q->free_count] = (uint16_t)q->free_count;
}

static __device__ bool gpublock_lock_get(struct gpublock_lock *q)
{
	return !fth_load_relaxed_dev32(&q->lock) && !fth_xchg_acqrel_dev32(&q->lock, 1);
}

static __device__ void gpublock_lock_drop(struct gpublock_lock *q)
{
	fth_store_release_dev32(&q->lock, 0);
}

static __device__ void gpublock_lock_drain(struct gpublock_lock *q, struct fth_nvme_qp *qp)
{
	uint32_t first = q->cq_head;

	for (;;) {
		struct fth_nvme_cqe *entry = &qp->cq[fth_ring_position(q->cq_head, qp->cq_shift)];
		uint32_t info = fth_load_acquire_sys32(&entry->info);

		if (fth_nvme_cqe_phase(info) != fth_ring_phase(q->cq_head, qp->cq_shift))
			break;
		q->sq_head = fth_ring_advance_to(q->sq_head, fth_nvme_cqe_sq_head(entry->queue),
						 qp->sq_shift);
		fth_store_release_dev32(&q->done[fth_nvme_cqe_cid(info)],
					1u + fth_nvme_cqe_status(info));
		fth_store_relaxed_dev32(&q->cq_head, q->cq_head + 1);
	}
	if (q->cq_head != first)
		fth_store_release_sys32(qp->cq_doorbell,
					fth_ring_position(q->cq_head, qp->cq_shift));
}

/* With the lock held: submit, or drain when there is no room. */
static __device__ bool gpublock_lock_submit(struct gpublock_lock *q, struct fth_nvme_qp *qp,
					    const struct fth_nvme_sqe *command, uint32_t *id)
{
	struct fth_nvme_sqe *entry = &qp->sq[fth_ring_position(q->tail, qp->sq_shift)];

	if (q->free_count == 0 || q->tail - q->sq_head >= fth_ring_mask(qp->sq_shift)) {
		gpublock_lock_drain(q, qp);
		return false;
	}
	*id = q->free_ids[--q->free_count];
	fth_store_relaxed_dev32(&q->done[*id], 0);
	*entry = *command;
	entry->cid = (uint16_t)*id;
	q->tail++;
	fth_store_release_sys32(qp->sq_doorbell, fth_ring_position(q->tail, qp->sq_shift));
	return true;
}

/* Is there a completion that nobody has drained? Needs no lock (dissertation, 5.5). */
static __device__ bool gpublock_lock_news(struct gpublock_lock *q, struct fth_nvme_qp *qp)
{
	uint32_t head = fth_load_relaxed_dev32(&q->cq_head);
	uint32_t info = fth_load_relaxed_sys32(&qp->cq[fth_ring_position(head, qp->cq_shift)].info);

	return fth_nvme_cqe_phase(info) == fth_ring_phase(head, qp->cq_shift);
}

/* With the lock held: drain, and take our own result if it has come. */
static __device__ bool gpublock_lock_collect(struct gpublock_lock *q, struct fth_nvme_qp *qp,
					     uint32_t id, uint32_t *status)
{
	uint32_t done;

	gpublock_lock_drain(q, qp);
	done = fth_load_acquire_dev32(&q->done[id]);
	if (!done)
		return false;
	q->free_ids[q->free_count++] = (uint16_t)id;
	*status = done - 1;
	return true;
}

static __device__ int gpublock_lock_exec(struct gpublock_lock *q, struct fth_nvme_qp *qp,
					 const struct fth_nvme_sqe *command, uint64_t deadline)
{
	bool submitted = false, finished = false;
	uint32_t id = 0, status = 0, ns = 32;

	while (!finished) {
		bool worth = !submitted || fth_load_relaxed_dev32(&q->done[id]) ||
			     gpublock_lock_news(q, qp);

		if (worth && gpublock_lock_get(q)) {
			if (!submitted)
				submitted = gpublock_lock_submit(q, qp, command, &id);
			else
				finished = gpublock_lock_collect(q, qp, id, &status);
			gpublock_lock_drop(q);
			ns = 32;
			continue;
		}
		__nanosleep(ns);
		ns = ns < 1024 ? 2 * ns : ns;
		if (fth_now_ns() >= deadline)
			return -ETIME;
	}
	return fth_nvme_status_errno(status);
}

#endif
