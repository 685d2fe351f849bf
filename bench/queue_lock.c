/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One lock around everything: whoever submits writes its entry and the doorbell inside it, and
 * whoever waits drains the completion ring inside it. What a driver looks like before anybody
 * has measured it.
 */
#include "queue_design.h"

#include <pthread.h>
#include <stdlib.h>

struct queue_lock {
	pthread_mutex_t lock;
	struct fth_nvme_qp *qp;
	uint32_t tail, sq_head, cq_head;
	uint64_t doorbells;
	uint32_t free_count;
	uint16_t *free_ids;
	uint32_t *done; /* per command id: 0, or 1 + status once completed; read without the lock */
};

static void lock_close(void *queue)
{
	struct queue_lock *q = queue;

	pthread_mutex_destroy(&q->lock);
	free(q->free_ids);
	free(q->done);
	free(q);
}

static void *lock_open(struct fth_nvme_qp *qp)
{
	struct queue_lock *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	pthread_mutex_init(&q->lock, NULL);
	q->qp = qp;
	q->free_ids = calloc(qp->ids, sizeof(q->free_ids[0]));
	q->done = calloc(qp->ids, sizeof(q->done[0]));
	if (!q->free_ids || !q->done) {
		lock_close(q);
		return NULL;
	}
	while (q->free_count < qp->ids) {
		q->free_ids[q->free_count] = (uint16_t)q->free_count;
		q->free_count++;
	}
	return q;
}

static void drain(struct queue_lock *q)
{
	struct fth_nvme_qp *qp = q->qp;
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
	if (q->cq_head == first)
		return;
	q->doorbells++;
	fth_store_release_sys32(qp->cq_doorbell, fth_ring_position(q->cq_head, qp->cq_shift));
}

static bool try_submit(struct queue_lock *q, const struct fth_nvme_sqe *command, uint16_t *id)
{
	struct fth_nvme_qp *qp = q->qp;
	struct fth_nvme_sqe *entry;
	bool room;

	pthread_mutex_lock(&q->lock);
	room = q->free_count > 0 && q->tail - q->sq_head < fth_ring_mask(qp->sq_shift);
	if (room) {
		*id = q->free_ids[--q->free_count];
		fth_store_relaxed_dev32(&q->done[*id], 0);
		entry = &qp->sq[fth_ring_position(q->tail, qp->sq_shift)];
		*entry = *command;
		entry->cid = *id;
		q->tail++;
		q->doorbells++;
		fth_store_release_sys32(qp->sq_doorbell, fth_ring_position(q->tail, qp->sq_shift));
	} else {
		drain(q);
	}
	pthread_mutex_unlock(&q->lock);
	return room;
}

static uint16_t lock_exec(void *queue, const struct fth_nvme_sqe *command, uint32_t hint)
{
	struct queue_lock *q = queue;
	struct fth_backoff backoff = {0};
	uint32_t done;
	uint16_t id;

	(void)hint;
	while (!try_submit(q, command, &id))
		fth_backoff_pause(&backoff);
	backoff.spins = 0;
	for (;;) {
		pthread_mutex_lock(&q->lock);
		drain(q);
		done = q->done[id];
		if (done)
			q->free_ids[q->free_count++] = id;
		pthread_mutex_unlock(&q->lock);
		if (done)
			return (uint16_t)(done - 1);
		/* Polling for one's own completion needs no lock (dissertation, 5.5). */
		while (!fth_load_acquire_dev32(&q->done[id])) {
			uint32_t head = fth_load_relaxed_dev32(&q->cq_head);
			uint32_t info = fth_load_relaxed_sys32(
				&q->qp->cq[fth_ring_position(head, q->qp->cq_shift)].info);

			if (fth_nvme_cqe_phase(info) == fth_ring_phase(head, q->qp->cq_shift))
				break;
			fth_backoff_pause(&backoff);
		}
	}
}

static uint64_t lock_doorbells(void *queue)
{
	return ((struct queue_lock *)queue)->doorbells;
}

const struct queue_design queue_design_lock = {
	.name = "lock",
	.open = lock_open,
	.close = lock_close,
	.exec = lock_exec,
	.doorbells = lock_doorbells,
};
