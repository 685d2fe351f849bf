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

/* What lanes meet for. Those of a mask must have come for the same. */
enum fixture_purpose { MEET_SYNC, MEET_VOTE, MEET_SHUFFLE, MEET_MATCH, MEET_REDUCE };

struct fixture_lane {
	ucontext_t context;
	char *stack;
	bool ended;
	uint32_t apart;			 /* the lanes it goes with, of those it left; 0: all */
	uint32_t waiting;		 /* the lanes it waits for; 0: for none */
	enum fixture_purpose purpose;	 /* of that */
	uint64_t brings;		 /* to that meeting */
	uint64_t brought[FIXTURE_LANES]; /* by all lanes, to the last one it was at */
};

struct fixture_warp {
	struct fixture_lane lanes[FIXTURE_LANES];
	ucontext_t scheduler;
	uint32_t current;
	uint32_t naps;
	uint32_t number; /* fixture_number_warp() */
	bool numbered;
	void (*body)(void *arg, uint32_t lane);
	void *arg;
};

static thread_local struct fixture_warp *fixture_here;
static uint32_t fixture_napped; /* a bit for each warp with a number that has slept */

static inline uint32_t fth_warp_lane(void)
{
	return fixture_here->current;
}

/* A number that other warps do not have. */
static inline uint32_t fth_gpu_warp_(void)
{
	return fixture_here->number;
}

static inline void fixture_number_warp(uint32_t number)
{
	fixture_here->number = number;
	fixture_here->numbered = true;
}

static inline void fixture_change_over(void)
{
	struct fixture_warp *warp = fixture_here;

	swapcontext(&warp->lanes[warp->current].context, &warp->scheduler);
}

/* If all lanes of mask are here, hand round what they brought, and let them go. */
static inline void fixture_hold_meeting(struct fixture_warp *warp, uint32_t mask)
{
	for (uint32_t l = 0; l < FIXTURE_LANES; l++)
		if ((mask & 1u << l) && warp->lanes[l].waiting != mask)
			return;
	for (uint32_t l = 0; l < FIXTURE_LANES; l++) {
		if (!(mask & 1u << l))
			continue;
		if (warp->lanes[l].purpose != warp->lanes[warp->current].purpose)
			abort(); /* its lanes are at different instructions */
		for (uint32_t from = 0; from < FIXTURE_LANES; from++)
			warp->lanes[l].brought[from] = warp->lanes[from].brings;
		warp->lanes[l].waiting = 0;
	}
}

/* Wait for all lanes of mask to come here as well; returns what each of them brought. */
static inline const uint64_t *fixture_meet(uint32_t mask, uint64_t value,
					   enum fixture_purpose purpose)
{
	struct fixture_warp *warp = fixture_here;
	struct fixture_lane *me = &warp->lanes[warp->current];

	if (!(mask & 1u << warp->current))
		abort(); /* a lane that is not in its own mask */
	me->brings = value;
	me->waiting = mask;
	me->purpose = purpose;
	fixture_hold_meeting(warp, mask);
	while (me->waiting) {
		for (uint32_t l = 0; l < FIXTURE_LANES; l++)
			if ((mask & 1u << l) && warp->lanes[l].ended)
				abort(); /* waits for a lane that has gone */
		fixture_change_over();
	}
	return me->brought;
}

static inline void __syncwarp(uint32_t mask = ~0u)
{
	fixture_meet(mask, 0, MEET_SYNC);
}

static inline uint32_t __ballot_sync(uint32_t mask, bool yes)
{
	const uint64_t *brought = fixture_meet(mask, yes, MEET_VOTE);
	uint32_t bits = 0;

	for (uint32_t l = 0; l < FIXTURE_LANES; l++)
		if ((mask & 1u << l) && brought[l])
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
	return (T)fixture_meet(mask, (uint64_t)value, MEET_SHUFFLE)[from % FIXTURE_LANES];
}

static inline uint32_t __match_any_sync(uint32_t mask, uint64_t value)
{
	const uint64_t *brought = fixture_meet(mask, value, MEET_MATCH);
	uint32_t bits = 0;

	for (uint32_t l = 0; l < FIXTURE_LANES; l++)
		if ((mask & 1u << l) && brought[l] == value)
			bits |= 1u << l;
	return bits;
}

static inline uint32_t __reduce_or_sync(uint32_t mask, uint32_t value)
{
	const uint64_t *brought = fixture_meet(mask, value, MEET_REDUCE);
	uint32_t all = 0;

	for (uint32_t l = 0; l < FIXTURE_LANES; l++)
		if (mask & 1u << l)
			all |= (uint32_t)brought[l];
	return all;
}

static inline uint32_t __reduce_add_sync(uint32_t mask, uint32_t value)
{
	const uint64_t *brought = fixture_meet(mask, value, MEET_REDUCE);
	uint32_t all = 0;

	for (uint32_t l = 0; l < FIXTURE_LANES; l++)
		if (mask & 1u << l)
			all += (uint32_t)brought[l];
	return all;
}

static inline int __reduce_min_sync(uint32_t mask, int value)
{
	const uint64_t *brought = fixture_meet(mask, (uint64_t)(int64_t)value, MEET_REDUCE);

	for (uint32_t l = 0; l < FIXTURE_LANES; l++)
		if ((mask & 1u << l) && (int)brought[l] < value)
			value = (int)brought[l];
	return value;
}

static inline int __popc(uint32_t word)
{
	return __builtin_popcount(word);
}

/* From now on this lane calls together with those of mask, and apart from all others. */
static inline void fixture_go_apart(uint32_t mask)
{
	fixture_here->lanes[fixture_here->current].apart = mask;
}

static inline uint32_t __activemask(void)
{
	uint32_t apart = fixture_here->lanes[fixture_here->current].apart;

	return apart ? apart : ~0u;
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

	if (fixture_here->numbered)
		__atomic_or_fetch(&fixture_napped, 1u << fixture_here->number % 32,
				  __ATOMIC_RELEASE);
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

template <typename T> static inline T atomicAdd(T *at, T value)
{
	return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}

template <typename T> static inline T atomicXor(T *at, T value)
{
	return __atomic_fetch_xor(at, value, __ATOMIC_RELAXED);
}

template <typename T> static inline T atomicCAS(T *at, T expected, T value)
{
	__atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
	return expected;
}

template <typename T> static inline T atomicMin(T *at, T value)
{
	T old = __atomic_load_n(at, __ATOMIC_RELAXED);

	while (value < old && !__atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_RELAXED,
							   __ATOMIC_RELAXED))
		;
	return old;
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

/* A thread that is a warp: a Client has a number, and a body for each lane. */
template <typename Client> static inline void *fixture_client_thread(void *arg)
{
	fixture_run_warp(
		[](void *arg, uint32_t lane) {
			Client *me = (Client *)arg;

			fixture_number_warp(me->number);
			me->body(me, lane);
		},
		arg);
	return NULL;
}

#endif
