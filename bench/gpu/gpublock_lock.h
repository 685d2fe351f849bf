/* SPDX-License-Identifier: BSD-2-Clause */
/* One lock around everything (one_lock.h), for threads of a GPU; `deadline` ends their waits. */
#ifndef FTH_BENCH_GPUBLOCK_LOCK_H
#define FTH_BENCH_GPUBLOCK_LOCK_H

#include "queue/one_lock.h"

struct gpublock_lock {
	FTH_NVME_ALIGNED uint32_t lock;
	struct one_lock inside;
};

static __device__ void gpublock_lock_init(struct gpublock_lock *q, uint32_t ids)
{
	q->lock = 0;
	one_lock_init(&q->inside, ids);
}

static __device__ bool gpublock_lock_get(struct gpublock_lock *q)
{
	return !fth_load_relaxed_dev32(&q->lock) && !fth_xchg_acqrel_dev32(&q->lock, 1);
}

static __device__ void gpublock_lock_drop(struct gpublock_lock *q)
{
	fth_store_release_dev32(&q->lock, 0);
}

static __device__ int gpublock_lock_exec(struct gpublock_lock *q, struct fth_nvme_qp *qp,
					 const struct fth_nvme_sqe *command, uint64_t deadline)
{
	bool submitted = false, finished = false;
	uint32_t id = 0, status = 0, ns = 32;

	while (!finished) {
		bool worth = !submitted || fth_load_relaxed_dev32(&q->inside.done[id]) ||
			     one_lock_news(&q->inside, qp);

		if (worth && gpublock_lock_get(q)) {
			if (!submitted) {
				submitted = one_lock_submit(&q->inside, qp, command, &id);
				if (!submitted)
					(void)one_lock_drain(&q->inside, qp);
			} else {
				(void)one_lock_drain(&q->inside, qp);
				finished = one_lock_collect(&q->inside, id, &status);
			}
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
