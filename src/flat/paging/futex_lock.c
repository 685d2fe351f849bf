/* SPDX-License-Identifier: BSD-2-Clause */
#include "flat/paging/futex_lock.h"

#include "fathom/hd/wait.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOCK_SPINS 100

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

void futex_lock_waiting(uint32_t *word)
{
	for (unsigned spins = 0; !futex_try_lock(word); spins++) {
		if (spins < LOCK_SPINS)
			fth_cpu_relax();
		else
			wait_for(word);
	}
}

void futex_wake(uint32_t *word)
{
	(void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX);
}
