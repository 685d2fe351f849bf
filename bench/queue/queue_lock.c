/* SPDX-License-Identifier: BSD-2-Clause */
/* One lock around everything (one_lock.h), for threads of the CPU. */
#include "one_lock.h"
#include "queue_design.h"

#include <pthread.h>
#include <stdlib.h>

struct queue_lock {
	pthread_mutex_t lock;
	struct fth_nvme_qp *qp;
	uint64_t doorbells;
	struct one_lock inside;
};

static void lock_close(void *queue)
{
	struct queue_lock *q = queue;

	pthread_mutex_destroy(&q->lock);
	free(q);
}

static void *lock_open(struct fth_nvme_qp *qp)
{
	struct queue_lock *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	pthread_mutex_init(&q->lock, NULL);
	q->qp = qp;
	one_lock_init(&q->inside, qp->ids);
	return q;
}

static bool try_submit(struct queue_lock *q, const struct fth_nvme_sqe *command, uint32_t *id)
{
	bool room;

	pthread_mutex_lock(&q->lock);
	room = one_lock_submit(&q->inside, q->qp, command, id);
	q->doorbells += room || one_lock_drain(&q->inside, q->qp);
	pthread_mutex_unlock(&q->lock);
	return room;
}

static bool try_collect(struct queue_lock *q, uint32_t id, uint32_t *status)
{
	bool finished;

	pthread_mutex_lock(&q->lock);
	q->doorbells += one_lock_drain(&q->inside, q->qp);
	finished = one_lock_collect(&q->inside, id, status);
	pthread_mutex_unlock(&q->lock);
	return finished;
}

static uint16_t lock_exec(void *queue, const struct fth_nvme_sqe *command, uint32_t hint)
{
	struct queue_lock *q = queue;
	struct fth_backoff backoff = {0};
	uint32_t id, status;

	(void)hint;
	while (!try_submit(q, command, &id))
		fth_backoff_pause(&backoff);
	backoff.spins = 0;
	while (!try_collect(q, id, &status)) {
		while (!fth_load_relaxed_dev32(&q->inside.done[id]) &&
		       !one_lock_news(&q->inside, q->qp))
			fth_backoff_pause(&backoff);
	}
	return (uint16_t)status;
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
