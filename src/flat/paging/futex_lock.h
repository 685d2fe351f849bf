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

/* Lock; waits. */
void futex_lock(uint32_t *word);
bool futex_try_lock(uint32_t *word);
void futex_unlock(uint32_t *word);

#endif
