/* SPDX-License-Identifier: BSD-2-Clause */
#include "flat/paging/futex_lock.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fathom/hd/wait.h"

#define LOCK_SPINS 100

bool futex_try_lock(uint32_t *word)
{
	uint32_t old = __atomic_load_n(word, __ATOMIC_RELAXED);

	/* acquire: what the last holder did comes before what this one does */
	return !(old & FUTEX_LOCKED) &&
	       __atomic_compare_exchange_n(word, &old, old | FUTEX_LOCKED, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

static void wait_for(uint32_t *word)
{
	uint32_t old = __atomic_load_n(word, __ATOMIC_RELAXED);

	while (old & FUTEX_LOCKED) {
		if (__atomic_compare_exchange_n(word, &old, old | FUTEX_WAITED, false,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
			(void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old | FUTEX_WAITED,
				      NULL);
			return;
		}
	}
}

void futex_lock(uint32_t *word)
{
	for (unsigned spins = 0; !futex_try_lock(word); spins++) {
		if (spins < LOCK_SPINS)
			fth_cpu_relax();
		else
			wait_for(word);
	}
}

void futex_unlock(uint32_t *word)
{
	/* release: what this holder did comes before what the next one does */
	uint32_t old = __atomic_fetch_and(word, ~(FUTEX_LOCKED | FUTEX_WAITED), __ATOMIC_RELEASE);

	if (old & FUTEX_WAITED)
		(void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX);
}
