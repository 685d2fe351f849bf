/* SPDX-License-Identifier: BSD-2-Clause */
/* Locks of pages: a bit, and a futex for those who have to wait. */
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "flat/paging/page_word.h"

#include "fathom/hd/wait.h"

#define LOCK_SPINS 100

bool word_try_lock(uint32_t *word)
{
	uint32_t old = __atomic_load_n(word, __ATOMIC_RELAXED);

	/* acquire: what the last holder did to the page comes before what this one does */
	return !(old & WORD_LOCKED) &&
	       __atomic_compare_exchange_n(word, &old, old | WORD_LOCKED, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

static void wait_for(uint32_t *word)
{
	uint32_t old = __atomic_load_n(word, __ATOMIC_RELAXED);

	while (old & WORD_LOCKED) {
		if (__atomic_compare_exchange_n(word, &old, old | WORD_WAITED, false,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
			(void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old | WORD_WAITED, NULL);
			return;
		}
	}
}

void word_lock(uint32_t *word)
{
	for (unsigned spins = 0; !word_try_lock(word); spins++) {
		if (spins < LOCK_SPINS)
			fth_cpu_relax();
		else
			wait_for(word);
	}
}

void word_unlock(uint32_t *word)
{
	/* release: what this holder did comes before what the next one does */
	uint32_t old = __atomic_fetch_and(word, ~(WORD_LOCKED | WORD_WAITED), __ATOMIC_RELEASE);

	if (old & WORD_WAITED)
		(void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX);
}
