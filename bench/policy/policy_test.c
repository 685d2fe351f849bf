/* SPDX-License-Identifier: BSD-2-Clause */
/* The simulated policies on traces small enough to work out by hand. */
#include "fth_test.h"

#include "policy.h"

#include <string.h>

/* The reference string of Silberschatz's textbook, three frames: 9 faults OPT, 15 FIFO. */
static const char textbook[] = "70120304230321201701";
/* Belady's anomaly: FIFO misses 9 with three frames and 10 with four. */
static const char anomaly[] = "123412512345";

static int64_t misses(const char *policy, const char *text, uint32_t frames)
{
	struct fth_policy_trace trace = {.frames = frames};
	const struct fth_policy *found = fth_policy_find(policy);
	int64_t hits;

	assert_non_null(found);
	for (const char *c = text; *c; c++)
		fth_policy_trace_add(&trace, (uint64_t)(*c - '0'));
	assert_int_equal(trace.error, 0);
	hits = found->run(found, &trace);
	assert_true(hits >= 0);
	fth_policy_trace_free(&trace);
	return (int64_t)strlen(text) - hits;
}

/* Hits of `rounds` rounds over `lines` lines. */
static int64_t loop_hits(const char *policy, uint32_t frames, uint32_t lines, unsigned rounds)
{
	struct fth_policy_trace trace = {.frames = frames};
	const struct fth_policy *found = fth_policy_find(policy);
	int64_t hits;

	assert_non_null(found);
	for (uint64_t i = 0; i < (uint64_t)rounds * lines; i++)
		fth_policy_trace_add(&trace, i % lines);
	hits = found->run(found, &trace);
	fth_policy_trace_free(&trace);
	return hits;
}

static void opt_and_fifo_match_the_textbook(void **state)
{
	(void)state;
	assert_int_equal(misses("opt", textbook, 3), 9);
	assert_int_equal(misses("fifo", textbook, 3), 15);
}

static void fifo_shows_beladys_anomaly(void **state)
{
	(void)state;
	assert_int_equal(misses("fifo", anomaly, 3), 9);
	assert_int_equal(misses("fifo", anomaly, 4), 10);
}

/* 0 is used before each new line comes, so the hand passes it by; FIFO lets it go. */
static void clock_keeps_what_is_used(void **state)
{
	(void)state;
	assert_int_equal(misses("clock", "01020304050", 2), 6);
	assert_int_equal(misses("fifo", "01020304050", 2), 8);
}

static void whatever_fits_misses_once(void **state)
{
	(void)state;
	for (const struct fth_policy *policy = fth_policies; policy->name; policy++)
		if (strcmp(policy->name, "drrip sets"))
			assert_int_equal(loop_hits(policy->name, 64, 64, 5), 4 * 64);
}

static void a_loop_that_does_not_fit_never_hits_in_order_of_age(void **state)
{
	(void)state;
	assert_int_equal(loop_hits("fifo", 64, 65, 20), 0);
	assert_int_equal(loop_hits("clock", 64, 65, 20), 0);
}

/* OPT keeps 63 of 65 lines for good, and gets one more of the others now and then. */
static void a_loop_that_does_not_fit_is_kept_in_part(void **state)
{
	int64_t limit = loop_hits("opt", 64, 128, 50), all = 49 * 128;

	(void)state;
	assert_true(limit >= all * 63 / 128 - 64 && limit <= all / 2);
	assert_true(loop_hits("trial", 64, 128, 50) > limit * 3 / 4);
	assert_true(loop_hits("drrip sets", 1024, 2048, 50) > 0);
}

static void s3fifo_keeps_what_is_used_through_a_scan(void **state)
{
	struct fth_policy_trace trace = {.frames = 100};
	int64_t s3, fifo;

	(void)state;
	for (uint64_t i = 0; i < 20; i++)
		for (uint64_t line = 0; line < 50; line++)
			fth_policy_trace_add(&trace, line);
	for (uint64_t line = 50; line < 1050; line++)
		fth_policy_trace_add(&trace, line);
	for (uint64_t line = 0; line < 50; line++)
		fth_policy_trace_add(&trace, line);
	s3 = fth_policy_run_s3fifo(NULL, &trace);
	fifo = fth_policy_run_clock(fth_policy_find("fifo"), &trace);
	fth_policy_trace_free(&trace);
	assert_int_equal(fifo, 19 * 50);
	assert_int_equal(s3, 19 * 50 + 50);
}

static void nothing_beats_opt_and_every_trace_is_within_its_universe(void **state)
{
	const struct fth_policy_scale scale = {.frames = 1024, .accesses = 20000, .graph = 12};

	(void)state;
	for (const struct fth_policy_workload *w = fth_policy_workloads; w->name; w++) {
		struct fth_policy_trace trace = {.frames = scale.frames};
		int64_t limit;

		w->make(&trace, &scale, w->kind);
		assert_int_equal(trace.error, 0);
		assert_true(trace.n > 1000 && trace.frames >= 64);
		for (size_t i = 0; i < trace.n; i++)
			assert_true(trace.lines[i] < trace.universe);
		limit = fth_policy_run_opt(NULL, &trace);
		for (const struct fth_policy *p = fth_policies; p->name; p++)
			assert_true(p->run(p, &trace) <= limit);
		fth_policy_trace_free(&trace);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opt_and_fifo_match_the_textbook),
		cmocka_unit_test(fifo_shows_beladys_anomaly),
		cmocka_unit_test(clock_keeps_what_is_used),
		cmocka_unit_test(whatever_fits_misses_once),
		cmocka_unit_test(a_loop_that_does_not_fit_never_hits_in_order_of_age),
		cmocka_unit_test(a_loop_that_does_not_fit_is_kept_in_part),
		cmocka_unit_test(s3fifo_keeps_what_is_used_through_a_scan),
		cmocka_unit_test(nothing_beats_opt_and_every_trace_is_within_its_universe),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
