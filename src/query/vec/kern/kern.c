/* SPDX-License-Identifier: BSD-2-Clause */
/* Which set of kernels is in use. */
#include "query/vec/kern/kern.h"

#include "fathom/hd/atomic.h"

#include <stdlib.h>

static const struct fth_kern *sets[3];
static uint32_t set_count; /* atomic: 0 until somebody looked */
static const struct fth_kern *chosen;

#if defined(__x86_64__)
static bool has_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
}

static bool has_avx512(void)
{
	return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
	       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi2") &&
	       __builtin_cpu_supports("avx512vbmi");
}
#endif

/* Threads that come at the same time find the same, so it does not matter who writes. */
static unsigned look(void)
{
	unsigned count = 1;

	__atomic_store_n(&sets[0], &fth_kern_base, __ATOMIC_RELAXED);
#if defined(__x86_64__)
	if (has_avx2())
		__atomic_store_n(&sets[count++], &fth_kern_avx2, __ATOMIC_RELAXED);
	if (count == 2 && has_avx512())
		__atomic_store_n(&sets[count++], &fth_kern_avx512, __ATOMIC_RELAXED);
#endif
	/* Release: who sees the count sees the sets. */
	fth_store_release_dev32(&set_count, count);
	return count;
}

const struct fth_kern *fth_kern_at(unsigned i)
{
	unsigned count = fth_load_acquire_dev32(&set_count);

	if (count == 0)
		count = look();
	return i < count ? __atomic_load_n(&sets[i], __ATOMIC_RELAXED) : NULL;
}

void fth_kern_use(const struct fth_kern *k)
{
	__atomic_store_n(&chosen, k, __ATOMIC_RELAXED);
}

static const struct fth_kern *choose(void)
{
	const char *wanted = getenv("FATHOM_SIMD");
	const struct fth_kern *best = NULL, *k;

	for (unsigned i = 0; (k = fth_kern_at(i)); i++) {
		best = k;
		if (wanted && strcmp(k->name, wanted) == 0)
			break;
	}
	fth_kern_use(best);
	return best;
}

const struct fth_kern *fth_kern(void)
{
	/* Relaxed: the sets are constants. */
	const struct fth_kern *k = __atomic_load_n(&chosen, __ATOMIC_RELAXED);

	return k ? k : choose();
}
