/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Time and waiting, for host and device.
 *
 * A deadline is an absolute time on fth_now_ns()'s clock. Every wait in Fathom takes one, or
 * ends by other means that its comment names.
 */
#ifndef FATHOM_HD_WAIT_H
#define FATHOM_HD_WAIT_H

#include "fathom/hd/atomic.h"

#ifndef __CUDA_ARCH__
#include <sched.h>
#include <time.h>
#endif

#define FTH_NEVER UINT64_MAX /* no deadline */

/* The current time in ns: CLOCK_MONOTONIC on the host, the global timer on a GPU. */
FTH_HD uint64_t fth_now_ns(void)
{
#ifdef __CUDA_ARCH__
	uint64_t t;
	asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
	return t;
#else
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
#endif
}

/* The deadline `ns` from now; does not overflow past FTH_NEVER. */
FTH_HD uint64_t fth_deadline_ns(uint64_t ns)
{
	uint64_t now = fth_now_ns();
	return ns > FTH_NEVER - now ? FTH_NEVER : now + ns;
}

/* Pause in a spin loop: PAUSE or YIELD on the host, 20 ns of sleep on a GPU. */
FTH_HD void fth_cpu_relax(void)
{
#if defined(__CUDA_ARCH__)
	__nanosleep(20);
#elif defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* A wait that spins briefly, then lets others run. Zero-initialise; one per wait. */
struct fth_backoff {
	uint32_t spins;
};

/* On few cores the awaited thread may need ours: yield early rather than burn a time slice. */
#define FTH_BACKOFF_SPINS 64

/* Pause once: spin FTH_BACKOFF_SPINS times, then yield the processor on each call. */
FTH_HD void fth_backoff_pause(struct fth_backoff *b)
{
	fth_cpu_relax();
#ifndef __CUDA_ARCH__
	if (++b->spins >= FTH_BACKOFF_SPINS)
		sched_yield();
#else
	(void)b;
#endif
}

/*
 * Pause, and say whether the deadline has passed. The clock is read on every 16th call only
 * while spinning, since it costs more than a spin.
 */
FTH_HD bool fth_backoff_expired(struct fth_backoff *b, uint64_t deadline)
{
	fth_backoff_pause(b);
	if (deadline == FTH_NEVER)
		return false;
#ifndef __CUDA_ARCH__
	if (b->spins < FTH_BACKOFF_SPINS && (b->spins & 15))
		return false;
#endif
	return fth_now_ns() >= deadline;
}

#endif
