/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Power losses and persist. A program writes records of words that only grow and persists some, on
 * a device that loses its power at each of its operations in turn: while it runs, and again while
 * the log is replayed. Whatever is found afterwards is at least as new as what was persisted or
 * synced, no record that was persisted as a whole is torn, and nothing is there that was never
 * stored. FTH_LONG_TESTS runs 12,000 losses of each kind.
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
#include <string.h>

#define PAGE	4096u
#define PAGES	128u
#define BUDGET	(64u * PAGE)
#define LOG	(64u << 10)
#define RECORDS 96u
#define WORDS	5u	    /* of a record: all equal when it is whole */
#define STRIDE	(PAGE + 8u) /* some lie in two pages */

struct run {
	struct fth_dev *dev;
	struct fth_flat *flat;
	struct fth_rng rng;
	uint64_t log;
	uint64_t safe[RECORDS];	  /* at least that is durable */
	uint64_t stored[RECORDS]; /* and nothing above that was ever stored */
	uint64_t begun
		[RECORDS]; /* a store that may have been cut off; 0: none since the last whole one */
	uint64_t persists, syncs, errors, losses, recoveries;
};

static sigjmp_buf jump;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	if (!fth_flat_fault(sig, info, context))
		siglongjmp(jump, 1);
}

static int open_region(struct run *r)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;
	int rc;

	options.log = r->log;
	options.length = PAGES * PAGE + r->log;
	options.policy = (enum fth_flat_policy)fth_rng_below(&r->rng, FTH_FLAT_POLICY_COUNT);
	rc = fth_flat_open_dev(r->dev, BUDGET, &options, &r->flat);
	if (rc < 0)
		return rc;
	sigaction(SIGBUS, &action, NULL);
	assert_true(fth_flat_persistent(r->flat, fth_flat_base(r->flat), RECORDS * STRIDE + PAGE) >=
		    0);
	return 0;
}

static volatile uint64_t *record(const struct run *r, unsigned i)
{
	return (volatile uint64_t *)((char *)fth_flat_base(r->flat) + (i + 1) * STRIDE - 24);
}

/*
 * What is there is the newest of the durable past, whole unless a store or a write of its page was
 * cut off.
 */
static void check(struct run *r)
{
	for (unsigned i = 0; i < RECORDS; i++) {
		volatile uint64_t *at = record(r, i);

		for (unsigned w = 0; w < WORDS; w++)
			if (at[w] < r->safe[i] || at[w] > r->stored[i])
				fail_msg("word %u of record %u is %llu, not %llu to %llu", w, i,
					 (unsigned long long)at[w], (unsigned long long)r->safe[i],
					 (unsigned long long)r->stored[i]);
		for (unsigned w = 1; w < WORDS && !r->begun[i]; w++)
			if (at[w] != at[0])
				fail_msg("record %u is torn: %llu and %llu", i,
					 (unsigned long long)at[0], (unsigned long long)at[w]);
	}
}

/* Begin again with a state that is known. */
static void settle(struct run *r)
{
	for (unsigned i = 0; i < RECORDS; i++) {
		uint64_t most = 0;

		for (unsigned w = 0; w < WORDS; w++)
			most = record(r, i)[w] > most ? record(r, i)[w] : most;
		for (unsigned w = 0; w < WORDS; w++)
			record(r, i)[w] = most;
		r->safe[i] = r->stored[i] = most;
		r->begun[i] = 0;
	}
	assert_ok(fth_flat_sync(r->flat, FTH_DEV_TIMEOUT));
}

static void store(struct run *r, unsigned i)
{
	uint64_t value = ++r->stored[i]; /* before the store: it may be made and cut off */

	r->begun[i] = value;
	for (unsigned w = 0; w < WORDS; w++)
		record(r, i)[w] = value;
}

/* A record that is persisted whole and not stored to again is whole after a power loss. */
static void persist(struct run *r, unsigned i)
{
	if (fth_flat_persist((const void *)record(r, i), WORDS * 8) < 0) {
		r->errors++;
		return;
	}
	r->persists++;
	r->safe[i] = r->stored[i];
	r->begun[i] = 0;
}

static void sync_region(struct run *r)
{
	if (fth_flat_sync(r->flat, FTH_DEV_TIMEOUT) < 0) {
		r->errors++;
		return;
	}
	r->syncs++;
	for (unsigned i = 0; i < RECORDS; i++) {
		r->safe[i] = r->stored[i];
		r->begun[i] = 0;
	}
}

static void one_step(struct run *r)
{
	unsigned i = (unsigned)fth_rng_below(&r->rng, fth_rng_below(&r->rng, 2) ? RECORDS : 8);

	store(r, i);
	if (fth_rng_below(&r->rng, 4) != 0)
		persist(r, i);
	if (fth_rng_below(&r->rng, 25) == 0)
		sync_region(r);
	if (fth_rng_below(&r->rng, 10) == 0)
		(void)fth_flat_advise(r->flat, (void *)(uintptr_t)record(r, i), 8, FTH_FLAT_COLD);
}

/* An access fails when the power is off. */
static void try_step(struct run *r)
{
	if (sigsetjmp(jump, 1) == 0)
		one_step(r);
	else
		r->errors++;
}

/* Until the power goes or all of it is done. Returns false if the power stayed. */
static bool use(struct run *r)
{
	for (unsigned step = 0; step < 60 && fth_dev_crash_powered(r->dev); step++)
		try_step(r);
	return !fth_dev_crash_powered(r->dev);
}

/* Open it, and lose power during that at its 1st, 2nd, ... operation, until it succeeds. */
static void recover(struct run *r)
{
	for (uint64_t nth = 1;; nth++) {
		int rc;

		assert_ok(fth_dev_crash_at(r->dev, nth, fth_rng_next(&r->rng)));
		rc = open_region(r);
		assert_ok(fth_dev_crash_powered(r->dev) ? fth_dev_crash_at(r->dev, 0, 0) : 0);
		if (rc == 0 && fth_dev_crash_powered(r->dev))
			return;
		if (rc == 0)
			fth_flat_discard(r->flat);
		r->recoveries++;
		assert_ok(fth_dev_crash_restart(r->dev));
	}
}

static void lose_at(struct run *r, uint64_t nth)
{
	assert_ok(fth_dev_crash_at(r->dev, nth, fth_rng_next(&r->rng)));
	if (!use(r))
		assert_ok(fth_dev_crash_power_loss(r->dev, fth_rng_next(&r->rng)));
	fth_flat_discard(r->flat);
	assert_ok(fth_dev_crash_restart(r->dev));
	r->losses++;
	recover(r);
	check(r);
	settle(r);
}

static void nothing_persisted_is_lost(const char *uri, uint64_t log)
{
	unsigned points = getenv("FTH_LONG_TESTS") ? 12000 : 400;
	struct run *r = calloc(1, sizeof(*r));

	r->rng.state = 17;
	r->log = log;
	assert_ok(fth_dev_open(uri, &r->dev));
	assert_ok(open_region(r));
	settle(r);
	for (uint64_t nth = 1; r->losses + r->recoveries < points; nth = nth % 300 + 1)
		lose_at(r, nth);
	assert_ok(fth_flat_close(r->flat));
	fth_dev_close(r->dev);
	printf("%llu losses, %llu during recovery; %llu persists, %llu syncs, %llu errors\n",
	       (unsigned long long)r->losses, (unsigned long long)r->recoveries,
	       (unsigned long long)r->persists, (unsigned long long)r->syncs,
	       (unsigned long long)r->errors);
	assert_true(r->persists > r->losses && r->errors > 0 && r->syncs > 0);
	free(r);
}

static void with_the_log_on_blocks(void **unused)
{
	(void)unused;
	nothing_persisted_is_lost("crash(mem:1M)", LOG);
}

static void with_blocks_of_4096(void **unused)
{
	(void)unused;
	nothing_persisted_is_lost("crash(mem:1M?block=4096)", LOG);
}

static void with_the_log_in_the_window(void **unused)
{
	(void)unused;
	nothing_persisted_is_lost("crash(softnvme(mem:1M)?pmr=256K)", 0);
}

/* In place: pages may be torn by sectors, so records are not whole. */
static void without_a_log(void **unused)
{
	(void)unused;
	nothing_persisted_is_lost("crash(mem:1M)", 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(with_the_log_on_blocks),
		cmocka_unit_test(with_blocks_of_4096),
		cmocka_unit_test(with_the_log_in_the_window),
		cmocka_unit_test(without_a_log),
	};

	return FLAT_RUN(tests);
}
