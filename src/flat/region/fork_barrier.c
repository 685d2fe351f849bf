/* SPDX-License-Identifier: BSD-2-Clause */
/* The barrier that keeps threads off the pages while the process forks. */
#include "flat/flat_internal.h"

#include "fathom/hd/wait.h"

static struct {
	bool used, closed;
	uint32_t inside; /* threads that use pages */
} barrier;		 /* atomic */

bool fork_barrier_enter(void)
{
	struct fth_backoff backoff = {0};

	if (!__atomic_load_n(&barrier.used, __ATOMIC_RELAXED))
		return false;
	for (;;) {
		/*
		 * seq_cst, with fork_barrier_close(): either that sees this thread inside, or this
		 * sees it closed
		 */
		__atomic_fetch_add(&barrier.inside, 1, __ATOMIC_SEQ_CST);
		if (!__atomic_load_n(&barrier.closed, __ATOMIC_SEQ_CST))
			return true;
		__atomic_fetch_sub(&barrier.inside, 1, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(&barrier.closed, __ATOMIC_RELAXED))
			fth_backoff_pause(&backoff);
	}
}

void fork_barrier_exit(void)
{
	__atomic_fetch_sub(&barrier.inside, 1, __ATOMIC_SEQ_CST);
}

void fork_barrier_use(void)
{
	__atomic_store_n(&barrier.used, true, __ATOMIC_RELAXED);
}

bool fork_barrier_close(uint64_t deadline)
{
	struct fth_backoff backoff = {0};

	__atomic_store_n(&barrier.closed, true, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&barrier.inside, __ATOMIC_SEQ_CST) > 0) {
		if (fth_now_ns() >= deadline) {
			fork_barrier_open();
			return false;
		}
		fth_backoff_pause(&backoff);
	}
	return true;
}

void fork_barrier_open(void)
{
	/* release: what was done while it was closed comes before what others do */
	__atomic_store_n(&barrier.closed, false, __ATOMIC_RELEASE);
}

void fork_barrier_forked(void)
{
	/*
	 * A thread of the parent that found the barrier closed may have been counted for a moment;
	 * the child does not have that thread.
	 */
	__atomic_store_n(&barrier.inside, 0, __ATOMIC_RELAXED);
}
