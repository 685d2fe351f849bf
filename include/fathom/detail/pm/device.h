/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How threads of a GPU wait for write-back. The control block is across the bus, where a look takes
 * microseconds, and hundreds of warps that look keep the bus from those that work. So lanes that
 * call together wait as one, and only the holder of a lock in GPU memory looks at the control
 * block; it tells the others by the mirror, a copy in GPU memory.
 *
 *	done, error	written by the holder of the lock; done only grows
 *
 * Included by fathom/detail/pm/view.h, which has the invariants of the control block.
 */
#ifndef FATHOM_DETAIL_PM_VIEW_H
#include "fathom/detail/pm/view.h" /* includes this one, in the right place */
#endif
#ifndef FATHOM_DETAIL_PM_DEVICE_H
#define FATHOM_DETAIL_PM_DEVICE_H

#include "fathom/detail/nvme/queue_warp.h"

#define FTH_PM_LOOK_NS 200u /* between two looks of a warp */

/* In GPU memory, zeroed. */
struct fth_pm_mirror {
	uint64_t done;	/* of the control block, a little late */
	uint64_t error; /* likewise */
	uint32_t lock;
	uint32_t pad;
};

#if defined(__CUDACC__) || defined(FTH_WARP_ON_HOST)

/* Look across the bus, unless another warp does so now. */
FTH_WARP void fth_pm_gpu_look_(struct fth_pm_control *control, struct fth_pm_mirror *mirror)
{
	uint32_t unlocked = 0;
	uint64_t done;

	/* acquire: done was written by an earlier holder, and must not go back. */
	if (fth_load_relaxed_dev32(&mirror->lock) != 0 ||
	    !fth_cas_acquire_dev32(&mirror->lock, &unlocked, 1))
		return;
	done = fth_load_acquire_sys64(&control->done);
	/* release: a thread that sees the round also sees what the round did before. */
	if (done > fth_load_relaxed_dev64(&mirror->done))
		fth_store_release_dev64(&mirror->done, done);
	else
		fth_store_release_dev64(&mirror->error, fth_load_acquire_sys64(&control->error));
	fth_store_release_dev32(&mirror->lock, 0);
}

/* The leader's part: invariants 3 and 4 of the control block. */
FTH_WARP int fth_pm_gpu_wait_(const struct fth_pm_view *v)
{
	struct fth_pm_mirror *mirror = (struct fth_pm_mirror *)v->host;
	uint64_t begun = fth_load_relaxed_sys64(&v->control->begun), error;
	uint64_t deadline = fth_deadline_ns(3 * v->timeout_ns); /* two rounds */

	__threadfence_system(); /* begun is read before the server hears of us */
	fth_store_relaxed_sys64(&v->control->wanted, 1);
	for (;;) {
		fth_pm_gpu_look_(v->control, mirror);
		if (fth_load_acquire_dev64(&mirror->done) > begun)
			return 0;
		error = fth_load_acquire_dev64(&mirror->error);
		if (error)
			return -(int)error;
		if (fth_now_ns() >= deadline) {
			/* For good: what this thread stored may become durable later. */
			fth_store_release_sys64(&v->control->error, ETIMEDOUT);
			return -ETIMEDOUT;
		}
		__nanosleep(FTH_PM_LOOK_NS);
	}
}

/* The lanes that are here, with the same memory, wait for one round together. */
FTH_WARP int fth_pm_gpu_fence_(const struct fth_pm_view *v)
{
	struct fth_nvme_warp warp =
		fth_nvme_warp_of(fth_warp_together((uint64_t)(uintptr_t)v->control));
	int rc = 0;

	__threadfence_system(); /* marks are set before begun is read, */
	__syncwarp(warp.mask);	/* those of all lanes */
	if (warp.lane == warp.leader)
		rc = fth_pm_gpu_wait_(v);
	return __shfl_sync(warp.mask, rc, (int)warp.leader);
}

#endif
#endif
