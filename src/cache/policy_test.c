/* SPDX-License-Identifier: BSD-2-Clause */
/* Replacement in the cache itself: what stays, and that the ring of trials keeps its frames. */
#include "cache/test/model_fixture.h"

#include "cache/cache_internal.h"

#include <pthread.h>
#include <stdlib.h>

#define THREADS 8

static struct fth_cache_range *open_cache(enum fth_cache_policy policy, bool compact,
					  uint32_t frames, uint32_t lines)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;

	options.line = 512;
	options.depth = 1;
	options.policy = policy;
	options.compact = compact;
	return model_open_cache(model_open_dev("mem:%llu", (unsigned long long)lines * 512),
				&options, frames);
}

static void close_cache(struct fth_cache_range *range)
{
	struct fth_dev *dev = fth_cache_dev(range);

	assert_ok(fth_cache_close(fth_cache_of(range)));
	fth_dev_close(dev);
}

/* ---- the ring ---- */

struct reader {
	struct fth_cache_range *range;
	pthread_t thread;
	uint64_t seed;
	int rc;
};

static void *read_at_random(void *arg)
{
	struct reader *r = arg;
	struct fth_rng rng = {r->seed};

	for (unsigned i = 0; i < 20000 && r->rc == 0; i++) {
		uint64_t element = fth_rng_below(&rng, fth_cache_lines(r->range)) * 64, value;

		r->rc = model_get(r->range, element, &value);
	}
	return NULL;
}

static bool is_in_ring(const struct fth_cache *cache, uint32_t frame)
{
	for (uint32_t i = 0; i < cache->trial_count; i++)
		if (cache->trial[i] == frame)
			return true;
	return false;
}

/* A frame on trial that no place knows would never be judged, and its line never go. */
static void every_frame_on_trial_has_a_place(void **state)
{
	struct fth_cache_range *range = open_cache(FTH_CACHE_TRIAL, false, 64, 256);
	const struct fth_cache *cache = fth_cache_of(range);
	struct reader readers[THREADS];

	(void)state;
	for (unsigned i = 0; i < THREADS; i++) {
		readers[i] = (struct reader){.range = range, .seed = i};
		assert_int_equal(
			pthread_create(&readers[i].thread, NULL, read_at_random, &readers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(readers[i].thread, NULL);
	for (unsigned i = 0; i < THREADS; i++)
		assert_ok(readers[i].rc);
	assert_true(cache->trial_count > 0);
	for (uint32_t f = 0; f < cache->frame_count; f++)
		if (cache->frames[f].trial && !is_in_ring(cache, f))
			fail_msg("frame %u is on trial, and in no place of the ring", f);
	close_cache(range);
}

/* ---- what stays ---- */

/* Hits of a second round of reads over the first `lines` lines. */
static uint64_t hits_of_round(struct fth_cache_range *range, uint64_t lines)
{
	uint64_t before = fth_cache_stat(fth_cache_of(range), FTH_CACHE_HITS), value;

	for (uint64_t line = 0; line < lines; line++)
		assert_ok(model_get(range, line * 64, &value));
	return fth_cache_stat(fth_cache_of(range), FTH_CACHE_HITS) - before;
}

/* A loop over twice the cache: a clock never hits, lines on trial come to stay in part. */
static void part_of_a_loop_stays(void **state)
{
	(void)state;
	for (unsigned compact = 0; compact < 2; compact++) {
		struct fth_cache_range *clock = open_cache(FTH_CACHE_CLOCK, compact, 128, 256);
		struct fth_cache_range *trial = open_cache(FTH_CACHE_TRIAL, compact, 128, 256);
		uint64_t clock_hits = 0, trial_hits = 0;

		for (unsigned round = 0; round < 40; round++) {
			clock_hits += hits_of_round(clock, 256);
			trial_hits += hits_of_round(trial, 256);
		}
		assert_int_equal(clock_hits, 0);
		assert_true(trial_hits > 39 * 256 * 2 / 5); /* at most half can stay */
		close_cache(clock);
		close_cache(trial);
	}
}

enum scan { READ, WRITTEN, PREFETCHED, SCANS };

static void scan_line(struct fth_cache_range *range, uint64_t line, enum scan how)
{
	uint64_t value;

	if (how == PREFETCHED)
		fth_cache_prefetch(range, line + 2, 1); /* arrives before it is used */
	if (how == WRITTEN)
		assert_ok(model_set(range, line * 64, model_value(line * 64, 1)));
	else
		assert_ok(model_get(range, line * 64, &value));
	/* What is dirty cannot go; on memory the worker would be too slow. */
	if (how == WRITTEN && line % 4 == 3)
		assert_ok(fth_cache_flush(range, line - 3, 4));
}

/* Lines in use outlive a scan of ten times the cache, however it is done. */
static void a_scan_does_not_push_out_what_is_used(void **state)
{
	(void)state;
	for (unsigned how = 0; how < SCANS; how++) {
		struct fth_cache_range *range = open_cache(FTH_CACHE_TRIAL, false, 128, 2048);

		for (unsigned round = 0; round < 3; round++)
			hits_of_round(range, 64);
		for (uint64_t line = 256; line < 256 + 1280; line++)
			scan_line(range, line, (enum scan)how);
		assert_true(hits_of_round(range, 64) > 48);
		close_cache(range);
	}
}

/* As many lines as the limit says can be prefetched before the first is read. */
static void prefetched_lines_wait_to_be_used(void **state)
{
	(void)state;
	for (int policy = FTH_CACHE_FIFO; policy < FTH_CACHE_POLICY_COUNT; policy++) {
		struct fth_cache_range *range =
			open_cache((enum fth_cache_policy)policy, false, 128, 2048);
		uint64_t limit = fth_cache_prefetch_limit(fth_cache_of(range)), misses;

		assert_in_range(limit, 1, 128);
		assert_true(policy == FTH_CACHE_TRIAL ? limit < 128 : limit == 128);
		hits_of_round(range, 256); /* all frames are in use */
		for (uint64_t line = 0; line < limit; line++)
			fth_cache_prefetch(range, 512 + line, 1);
		misses = fth_cache_stat(fth_cache_of(range), FTH_CACHE_MISSES);
		for (uint64_t line = 0; line < limit; line++)
			scan_line(range, 512 + line, READ);
		assert_int_equal(fth_cache_stat(fth_cache_of(range), FTH_CACHE_MISSES), misses);
		close_cache(range);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_frame_on_trial_has_a_place),
		cmocka_unit_test(part_of_a_loop_stays),
		cmocka_unit_test(a_scan_does_not_push_out_what_is_used),
		cmocka_unit_test(prefetched_lines_wait_to_be_used),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
