/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Algorithm 1 of FlatFlash: the sum of the counts in the SSD-cache, epochs, and the threshold that
 * follows from both.
 */
#include "flat/flat_internal.h"
#include "fth_test.h"

#include "fathom/base/rng.h"
#include "fathom/flat.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#define PAGE  4096u
#define EPOCH 10000u

/* cmocka installs handlers for each test, after the library's. */
static void on_fault(int sig, siginfo_t *info, void *context)
{
	if (!fth_flat_fault(sig, info, context))
		signal(sig, SIG_DFL);
}

static struct fth_flat *open_region(const char *uri, uint64_t budget, uint64_t cache)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;
	struct fth_flat *flat;

	options.policy = FTH_FLAT_PAPER;
	options.foreground = true; /* so that the same happens in each run */
	options.cache = cache;
	assert_ok(fth_flat_open(uri, budget, &options, &flat));
	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGSEGV, &action, NULL);
	return flat;
}

static uint64_t sum_of_counts(const struct fth_flat *flat)
{
	const struct flat_directory *d = &flat->directory;
	uint64_t sum = 0;

	for (uint64_t i = 0; i < d->sets * d->ways; i++)
		sum += d->slots[i].page == FLAT_NONE ? 0 : d->slots[i].count;
	return sum;
}

/* However a page leaves the SSD-cache: evicted, promoted, on advice, or discarded. */
static void a_page_takes_its_count_along(void **unused)
{
	struct fth_flat *flat = open_region("mem:2M", 64 * PAGE, 0);
	volatile uint8_t *at = fth_flat_base(flat);
	struct fth_rng rng = {5};

	(void)unused;
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t page = fth_rng_below(&rng, fth_rng_below(&rng, 2) ? flat->pages : 40);

		at[page * PAGE + 7]++;
		if (i % 100 == 0)
			assert_ok(fth_flat_advise(flat, (void *)(at + page * PAGE), PAGE,
						  (enum fth_flat_advice)fth_rng_below(&rng, 3)));
		if (i % 100 == 50)
			discard_pages(flat, page, page + 1);
		assert_int_equal(flat->directory.counts, sum_of_counts(flat));
	}
	assert_true(fth_flat_stat(flat, FTH_FLAT_STAT_PROMOTIONS) > 0);
	assert_true(fth_flat_stat(flat, FTH_FLAT_STAT_EVICTIONS) > 0);
	assert_ok(fth_flat_close(flat));
}

/* Accesses one page after the other until each is in DRAM. Returns the lowest threshold since. */
static uint32_t promote_pages(struct fth_flat *flat, uint64_t first, uint64_t pages)
{
	volatile uint8_t *at = fth_flat_base(flat);
	uint32_t lowest = UINT32_MAX;

	for (uint64_t i = 0; i < pages; i++) {
		uint64_t page = (first + i) % flat->pages;

		while (word_state(&flat->words[page]) != WORD_DRAM)
			(void)at[page * PAGE];
		lowest = flat->policy.threshold < lowest ? flat->policy.threshold : lowest;
	}
	return lowest;
}

/* Pages that are used again are promoted soon, in the second epoch and later as in the first. */
static void epochs_begin_alike(void **unused)
{
	struct fth_flat *flat = open_region("mem:16M", 1024 * PAGE, 0);

	(void)unused;
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(promote_pages(flat, i * 2000, 2000), 1);
	assert_true(fth_flat_stat(flat, FTH_FLAT_STAT_LOADS) > 0);
	assert_ok(fth_flat_close(flat));
}

/* The threshold falls also if the pages in the SSD-cache have more accesses than an epoch has. */
static void a_large_cache_learns_too(void **unused)
{
	struct fth_flat *flat = open_region("mem:64M", 15000 * PAGE, 12000 * PAGE);
	volatile uint8_t *at = fth_flat_base(flat);

	(void)unused;
	for (unsigned i = 0; i < 3 * 4000; i++)
		(void)at[i % 4000 * PAGE];
	assert_true(flat->directory.counts > EPOCH);
	assert_int_equal(flat->policy.threshold, 7);
	assert_true(promote_pages(flat, 4000, 10000) < 7);
	assert_ok(fth_flat_close(flat));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_page_takes_its_count_along),
		cmocka_unit_test(epochs_begin_alike),
		cmocka_unit_test(a_large_cache_learns_too),
	};
	struct fth_flat *flat;
	int rc = fth_flat_open("mem:2M", 64 * PAGE, NULL, &flat);

	if (rc == -ENOTSUP || (rc == 0 && !fth_flat_emulates())) {
		printf("skipped: %s\n", rc < 0 ? fth_error_text(rc)
					       : "every page that is accessed moves to DRAM here");
		return 77;
	}
	fth_flat_discard(flat);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
