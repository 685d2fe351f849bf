/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lock in two bits of a word of 32 bits, with a futex for threads that have to wait. The other
 * bits are the owner's. Zero is unlocked.
 */
#ifndef FATHOM_SRC_FLAT_PAGING_FUTEX_LOCK_H
#define FATHOM_SRC_FLAT_PAGING_FUTEX_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#define FUTEX_LOCKED 0x4u
#define FUTEX_WAITED 0x8u /* a thread sleeps until the lock is released */

static inline bool futex_try_lock(uint32_t *word)
{
	uint32_t old = __atomic_load_n(word, __ATOMIC_RELAXED);

	/* acquire: what the last holder did comes before what this one does */
	return !(old & FUTEX_LOCKED) &&
	       __atomic_compare_exchange_n(word, &old, old | FUTEX_LOCKED, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

/* futex_lock() and futex_unlock() with other threads at the lock. */
void futex_lock_waiting(uint32_t *word);
void futex_wake(uint32_t *word);

/* Lock; waits. */
static inline void futex_lock(uint32_t *word)
{
	if (!futex_try_lock(word))
		futex_lock_waiting(word);
}

static inline void futex_unlock(uint32_t *word)
{
	/* release: what this holder did comes before what the next one does */
	uint32_t old = __atomic_fetch_and(word, ~(FUTEX_LOCKED | FUTEX_WAITED), __ATOMIC_RELEASE);

	if (old & FUTEX_WAITED)
		futex_wake(word);
}

#endif
