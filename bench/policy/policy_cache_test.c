/* SPDX-License-Identifier: BSD-2-Clause */
/* What the simulation says of a policy is what the cache does: the same hits on the same traces. */
#include "fth_test.h"

#include "policy.h"

#include "fathom/cache.h"
#include "fathom/hd/wait.h"

#include <stdio.h>

#define LINE 512

static int64_t hits_in_cache(const struct fth_policy_trace *trace, enum fth_cache_policy policy,
			     bool compact)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
	struct fth_cache_range *range;
	struct fth_cache *cache;
	struct fth_dev *dev;
	int64_t hits;
	char uri[64];

	snprintf(uri, sizeof(uri), "mem:%llu", (unsigned long long)trace->universe * LINE);
	options.line = LINE;
	options.memory = (uint64_t)trace->frames * LINE;
	options.depth = 1; /* more in flight would mean more frames on trial */
	options.policy = policy;
	options.compact = compact;
	assert_ok(fth_dev_open(uri, &dev));
	assert_ok(fth_cache_open(&options, &cache));
	assert_ok(fth_cache_add(cache, dev, 0, FTH_CACHE_TO_END, 0, &range));
	for (size_t i = 0; i < trace->n; i++) {
		struct fth_cache_pin pin;

		assert_ok(fth_cache_pin(range, trace->lines[i], FTH_CACHE_READ,
					fth_deadline_ns(10000000000u), &pin));
		fth_cache_unpin(&pin, false);
	}
	hits = (int64_t)fth_cache_stat(cache, FTH_CACHE_HITS);
	assert_ok(fth_cache_close(cache));
	fth_dev_close(dev);
	return hits;
}

static void the_cache_hits_as_often_as_the_simulation(void **state)
{
	const struct fth_policy_scale scale = {.frames = 1024, .accesses = 20000, .graph = 12};

	(void)state;
	for (const struct fth_policy_workload *w = fth_policy_workloads; w->name; w++) {
		struct fth_policy_trace trace = {.frames = scale.frames};

		w->make(&trace, &scale, w->kind);
		assert_int_equal(trace.error, 0);
		for (unsigned i = FTH_CACHE_FIFO; i < FTH_CACHE_POLICY_COUNT; i++) {
			enum fth_cache_policy policy = (enum fth_cache_policy)i;
			const struct fth_policy *sim =
				fth_policy_find(fth_cache_policy_name(policy));

			assert_non_null(sim);
			assert_int_equal(hits_in_cache(&trace, policy, i % 2),
					 sim->run(sim, &trace));
		}
		fth_policy_trace_free(&trace);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_cache_hits_as_often_as_the_simulation),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
