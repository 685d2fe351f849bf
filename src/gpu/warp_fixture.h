/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Warps without a GPU, so that code for warps is tested everywhere: the 32 lanes of a warp are
 * contexts that take turns on one thread, and change over where they wait for each other; several
 * warps are several threads. Includes what CUDA would define, as far as our code uses it.
 *
 * What it can not show: orders between memory accesses that only a GPU changes, and lanes that run
 * in step.
 */
#ifndef FTH_GPU_WARP_FIXTURE_H
#define FTH_GPU_WARP_FIXTURE_H

#define FTH_WARP_ON_HOST

#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <ucontext.h>

#define FIXTURE_LANES 32
#define FIXTURE_STACK (256 << 10)
#define FIXTURE_KEPT  8

struct fixture_lane {
	ucontext_t context;
	char *stack;
	bool ended;
	uint32_t meetings; /* how often it has met others */
	/* What it brought to the last few. A lane that meets few others may be ahead by some. */
	uint64_t brought[FIXTURE_KEPT];
};

struct fixture_warp {
	struct fixture_lane lanes[FIXTURE_LANES];
	ucontext_t scheduler;
	uint32_t current;
	uint32_t naps;
	void (*body)(void *arg, uint32_t lane);
	void *arg;
};

static thread_local struct fixture_warp *fixture_here;

static inline uint32_t fth_warp_lane(void)
{
	return fixture_here->current;
}

static inline void fixture_change_over(void)
{
	struct fixture_warp *warp = fixture_here;

	swapcontext(&warp->lanes[warp->current].context, &warp->scheduler);
}

/* Wait for all lanes of mask to come here as well; returns which of brought[] is this one's. */
static inline uint32_t fixture_meet(uint32_t mask, uint64_t value)
{
	struct fixture_warp *warp = fixture_here;
	struct fixture_lane *me = &warp->lanes[warp->current];
	uint32_t turn = ++me->meetings;

	if (!(mask & 1u << warp->current))
		abort(); /* a lane that is not in its own mask */
	me->brought[turn % FIXTURE_KEPT] = value;
	for (uint32_t l = 0; l < FIXTURE_LANES; l++)
		while ((mask & 1u << l) && (int32_t)(warp->lanes[l].meetings - turn) < 0) {
			if (warp->lanes[l].ended)
				abort(); /* waits for a lane that has gone */
			fixture_change_over();
		}
	return turn % FIXTURE_KEPT;
}

static inline void __syncwarp(uint32_t mask = ~0u)
{
	fixture_meet(mask, 0);
}

static inline uint32_t __ballot_sync(uint32_t mask, bool yes)
{
	uint32_t turn = fixture_meet(mask, yes), bits = 0;

	for (uint32_t l = 0; l < FIXTURE_LANES; l++)
		if ((mask & 1u << l) && fixture_here->lanes[l].brought[turn])
			bits |= 1u << l;
	return bits;
}

static inline bool __any_sync(uint32_t mask, bool yes)
{
	return __ballot_sync(mask, yes) != 0;
}

static inline bool __all_sync(uint32_t mask, bool yes)
{
	return __ballot_sync(mask, !yes) == 0;
}

template <typename T> static inline T __shfl_sync(uint32_t mask, T value, int from)
{
	uint32_t turn = fixture_meet(mask, (uint64_t)value);

	return (T)fixture_here->lanes[from % FIXTURE_LANES].brought[turn];
}

static inline uint32_t __match_any_sync(uint32_t mask, uint32_t value)
{
	uint32_t turn = fixture_meet(mask, value), bits = 0;

	for (uint32_t l = 0; l < FIXTURE_LANES; l++)
		if ((mask & 1u << l) && fixture_here->lanes[l].brought[turn] == value)
			bits |= 1u << l;
	return bits;
}

static inline uint32_t __reduce_or_sync(uint32_t mask, uint32_t value)
{
	uint32_t turn = fixture_meet(mask, value), all = 0;

	for (uint32_t l = 0; l < FIXTURE_LANES; l++)
		if (mask & 1u << l)
			all |= (uint32_t)fixture_here->lanes[l].brought[turn];
	return all;
}

static inline uint32_t __reduce_add_sync(uint32_t mask, uint32_t value)
{
	uint32_t turn = fixture_meet(mask, value), all = 0;

	for (uint32_t l = 0; l < FIXTURE_LANES; l++)
		if (mask & 1u << l)
			all += (uint32_t)fixture_here->lanes[l].brought[turn];
	return all;
}

static inline int __popc(uint32_t word)
{
	return __builtin_popcount(word);
}

static inline int __ffs(int word)
{
	return __builtin_ffs(word);
}

static inline uint32_t min(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* The other lanes' turn; and, once for all lanes, that of other warps, who may be short of cores.
 */
static inline void __nanosleep(uint32_t ns)
{
	struct timespec nap = {0, 20000};

	if (ns && ++fixture_here->naps % FIXTURE_LANES == 0)
		nanosleep(&nap, NULL);
	fixture_change_over();
}

static inline void __threadfence(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void __threadfence_system(void)
{
	__threadfence();
}

struct uint4 {
	uint32_t x, y, z, w;
};

static inline struct uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
	struct uint4 v = {x, y, z, w};

	return v;
}

static inline void fixture_start(void)
{
	struct fixture_warp *warp = fixture_here;

	warp->body(warp->arg, warp->current);
	warp->lanes[warp->current].ended = true;
	for (;;)
		fixture_change_over();
}

static inline void fixture_make_lane(struct fixture_lane *lane)
{
	lane->stack = (char *)malloc(FIXTURE_STACK);
	getcontext(&lane->context);
	lane->context.uc_stack.ss_sp = lane->stack;
	lane->context.uc_stack.ss_size = FIXTURE_STACK;
	makecontext(&lane->context, fixture_start, 0);
}

/* Run body(arg, lane) as a warp on this thread, until all its lanes have returned. */
static inline void fixture_run_warp(void (*body)(void *arg, uint32_t lane), void *arg)
{
	struct fixture_warp *warp = (struct fixture_warp *)calloc(1, sizeof(*warp));
	bool running = true;

	warp->body = body;
	warp->arg = arg;
	fixture_here = warp;
	for (uint32_t l = 0; l < FIXTURE_LANES; l++)
		fixture_make_lane(&warp->lanes[l]);
	while (running) {
		running = false;
		for (warp->current = 0; warp->current < FIXTURE_LANES; warp->current++) {
			if (warp->lanes[warp->current].ended)
				continue;
			running = true;
			swapcontext(&warp->scheduler, &warp->lanes[warp->current].context);
		}
	}
	for (uint32_t l = 0; l < FIXTURE_LANES; l++)
		free(warp->lanes[l].stack);
	free(warp);
}

#endif
