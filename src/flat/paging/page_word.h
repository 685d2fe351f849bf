/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The word of a page: its state, its lock and its counter in 32 bits.
 *
 * 1. All bits but WAITED and QUEUED change only while the word is LOCKED, by the thread that locked
 *    it.
 * 2. A thread locks several pages in ascending order, or tries and gives up.
 * 3. Signals other than SIGBUS and SIGSEGV are blocked while a thread holds a lock, so that no
 *    handler of the program waits for a lock of the thread that it interrupted.
 */
#ifndef FATHOM_SRC_FLAT_PAGING_PAGE_WORD_H
#define FATHOM_SRC_FLAT_PAGING_PAGE_WORD_H

#include <stdbool.h>
#include <stdint.h>

#include "flat/paging/futex_lock.h"

enum word_state {
	WORD_FLASH = 0, /* not in memory */
	WORD_CACHED =
		1, /* in memory, not mapped for the program; in the directory of the SSD-cache */
	WORD_DRAM = 2,	 /* mapped for the program; in the ring of DRAM */
	WORD_BROKEN = 3, /* a read timed out and may still arrive: unusable until close */
};

#define WORD_STATE	 0x3u
#define WORD_LOCKED	 FUTEX_LOCKED
#define WORD_WAITED	 FUTEX_WAITED
#define WORD_DIRTY	 0x10u
#define WORD_FRESH	 0x20u /* zero until it is written to the device, whatever that holds */
#define WORD_PERSIST	 0x40u /* in a persistent range */
#define WORD_QUEUED	 0x80u /* has an entry in the ring; changes under the lock of that */
#define WORD_HOLDS_SHIFT 8     /* 6 bits: how often it is held in DRAM */
#define WORD_HOLDS	 (0x3fu << WORD_HOLDS_SHIFT)
#define WORD_ASKED	 0x4000u /* CACHED: the mover was asked to move it up */
#define WORD_MOVING	 0x8000u /* CACHED: the mover copies it */
#define WORD_COUNT_SHIFT 16	 /* 8 bits: accesses while not in DRAM */
#define WORD_COUNT	 (0xffu << WORD_COUNT_SHIFT)
#define WORD_EPOCH_SHIFT 24 /* 8 bits: when they were last counted */
#define WORD_EPOCH	 (0xffu << WORD_EPOCH_SHIFT)

/*
 * DONATED is BROKEN and FRESH: ordinary memory lies at its address (donate.c). A page that timed
 * out is never FRESH.
 */
#define WORD_DONATED (WORD_BROKEN | WORD_FRESH)

static inline void word_lock(uint32_t *word)
{
	futex_lock(word);
}

static inline bool word_try_lock(uint32_t *word)
{
	return futex_try_lock(word);
}

static inline void word_unlock(uint32_t *word)
{
	futex_unlock(word);
}

/* By the thread that holds the lock. */
static inline uint32_t word_get(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static inline enum word_state word_state(const uint32_t *word)
{
	return (enum word_state)(word_get(word) & WORD_STATE);
}

/* Also without the lock, where it may become so, or cease to be so, at any time. */
static inline bool word_is_donated(const uint32_t *word)
{
	return (word_get(word) & (WORD_STATE | WORD_FRESH)) == WORD_DONATED;
}

/* Replace the bits in `mask`. WAITED and QUEUED may be changed by others meanwhile. */
static inline void word_set(uint32_t *word, uint32_t mask, uint32_t bits)
{
	uint32_t old = word_get(word);

	while (!__atomic_compare_exchange_n(word, &old, (old & ~mask) | bits, true,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

#endif
