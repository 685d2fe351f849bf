/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Power losses. A program stores numbers that only grow, by plain pointers, on a device that loses
 * its power at a random operation. Whatever is found afterwards is at least as new as the last sync
 * that succeeded, and nothing that was never stored. FTH_LONG_TESTS runs more than 10,000 losses.
 */
#include "flat/test/flat_main_fixture.h"

#include "fathom/base/rng.h"
#include "fathom/dev/crash.h"
#include "fathom/flat.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGE	 4096u
#define PAGES	 160u
#define PER_PAGE 8u /* words used of a page, one a sector */
#define WORDS	 (PAGES * PER_PAGE)
#define BUDGET	 (64u * PAGE)

struct run {
	struct fth_dev *dev;
	struct fth_flat *flat;
	struct fth_rng rng;
	uint64_t synced[WORDS]; /* at least that is durable */
	uint64_t stored[WORDS]; /* and nothing above that was ever stored */
	uint64_t syncs, errors;
};

static sigjmp_buf jump;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	if (!fth_flat_fault(sig, info, context))
		siglongjmp(jump, 1);
}

static void open_region(struct run *r, enum fth_flat_policy policy)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;

	options.policy = policy;
	assert_ok(fth_flat_open_dev(r->dev, BUDGET, &options, &r->flat));
	sigaction(SIGBUS, &action, NULL);
}

static volatile uint64_t *word(const struct run *r, unsigned i)
{
	return (volatile uint64_t *)((char *)fth_flat_base(r->flat) + i / PER_PAGE * PAGE +
				     i % PER_PAGE * 512);
}

static void check(struct run *r)
{
	for (unsigned i = 0; i < WORDS; i++) {
		uint64_t found = *word(r, i);

		if (found < r->synced[i] || found > r->stored[i])
			fail_msg("word %u is %llu, not %llu to %llu", i, (unsigned long long)found,
				 (unsigned long long)r->synced[i],
				 (unsigned long long)r->stored[i]);
		r->synced[i] = r->stored[i] = found; /* what was found is on the device */
	}
}

static void sync_region(struct run *r)
{
	if (fth_flat_sync(r->flat, FTH_DEV_TIMEOUT) < 0) {
		r->errors++;
		return;
	}
	r->syncs++;
	for (unsigned i = 0; i < WORDS; i++)
		r->synced[i] = r->stored[i];
}

/* Until the power goes. */
static void use(struct run *r)
{
	while (fth_dev_crash_powered(r->dev)) {
		unsigned i =
			(unsigned)fth_rng_below(&r->rng, fth_rng_below(&r->rng, 2) ? WORDS : 40);

		if (fth_rng_below(&r->rng, 60) == 0)
			sync_region(r);
		r->stored[i]++; /* before the store: it may be made and cut off */
		if (sigsetjmp(jump, 1) == 0)
			*word(r, i) = r->stored[i];
		else
			r->errors++;
	}
}

static void nothing_synced_is_lost(void **unused)
{
	unsigned losses = getenv("FTH_LONG_TESTS") ? 12000 : 150;
	static struct run r;

	(void)unused;
	r.rng.state = 11;
	assert_ok(fth_dev_open("crash(mem:640K)", &r.dev));
	for (unsigned i = 0; i < losses; i++) {
		open_region(&r, (enum fth_flat_policy)fth_rng_below(&r.rng, FTH_FLAT_POLICY_COUNT));
		check(&r);
		assert_ok(fth_dev_crash_at(r.dev, 1 + fth_rng_below(&r.rng, 150),
					   fth_rng_next(&r.rng)));
		use(&r);
		fth_flat_discard(r.flat);
		assert_ok(fth_dev_crash_restart(r.dev));
	}
	open_region(&r, FTH_FLAT_DEFAULT);
	check(&r);
	assert_ok(fth_flat_close(r.flat));
	fth_dev_close(r.dev);
	assert_true(r.syncs > losses / 4);
	assert_true(r.errors > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_synced_is_lost),
	};

	return FLAT_RUN(tests);
}
