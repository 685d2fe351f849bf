/* SPDX-License-Identifier: BSD-2-Clause */
/* Ranges come and go while other threads use the cache. */
#include "cache/test/model_fixture.h"

#include <errno.h>
#include <pthread.h>

#define ROUNDS 80

struct shared {
	struct fth_cache *cache;
	struct fth_cache_range *stays;
	struct fth_dev *devs[2];
	uint32_t stop;
};

struct thread {
	struct shared *shared;
	pthread_t id;
	unsigned number;
	int rc;
};

static void *read_elsewhere(void *arg)
{
	struct thread *t = arg;
	struct fth_rng rng = {t->number};

	while (!fth_load_acquire_dev32(&t->shared->stop) && t->rc == 0) {
		uint64_t element = fth_rng_below(&rng, 4096), value;

		t->rc = model_get(t->shared->stays, element, &value);
		if (t->rc == 0 && !model_in_place(value, element))
			t->rc = -EBADMSG;
	}
	return NULL;
}

/* Calls that go through all ranges. */
static void *look_at_all(void *arg)
{
	struct thread *t = arg;

	while (!fth_load_acquire_dev32(&t->shared->stop) && t->rc == 0) {
		struct fth_cache_footprint footprint;

		fth_cache_footprint(t->shared->cache, &footprint);
		t->rc = fth_cache_flush_all(t->shared->cache);
	}
	return NULL;
}

/* Add a range, change all its lines, remove it; the changes are on the medium then. */
static void come_and_go(struct shared *shared, unsigned round)
{
	struct fth_dev *dev = shared->devs[1];
	struct fth_cache_range *range;
	uint64_t element;

	assert_ok(fth_cache_add(shared->cache, dev, 0, FTH_CACHE_TO_END, 0, &range));
	for (element = 0; element < 64 * 40; element += 64)
		assert_ok(model_set(range, element, model_value(element, round)));
	fth_cache_prefetch(range, 50, 8);
	assert_ok(fth_cache_remove(range));
	for (element = 0; element < 64 * 40; element += 64 * 7)
		assert_int_equal(model_on_medium(dev, element), model_value(element, round));
}

static void ranges_come_and_go_under_threads(void **state)
{
	(void)state;
	for (unsigned compact = 0; compact < 2; compact++) {
		struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
		struct shared shared = {0};
		struct thread threads[3];

		options.line = 512;
		options.compact = compact;
		options.depth = 4;
		for (unsigned i = 0; i < 2; i++)
			shared.devs[i] = model_open_dev("mem:64K");
		shared.stays = model_open_cache(shared.devs[0], &options, 24);
		shared.cache = fth_cache_of(shared.stays);
		for (unsigned i = 0; i < 3; i++) {
			threads[i] = (struct thread){.shared = &shared, .number = i};
			assert_int_equal(pthread_create(&threads[i].id, NULL,
							i == 2 ? look_at_all : read_elsewhere,
							&threads[i]),
					 0);
		}
		for (unsigned round = 1; round <= ROUNDS; round++)
			come_and_go(&shared, round);
		fth_store_release_dev32(&shared.stop, 1);
		for (unsigned i = 0; i < 3; i++)
			pthread_join(threads[i].id, NULL);
		for (unsigned i = 0; i < 3; i++)
			assert_ok(threads[i].rc);
		assert_ok(fth_cache_close(shared.cache));
		for (unsigned i = 0; i < 2; i++)
			fth_dev_close(shared.devs[i]);
	}
}

static void a_range_with_pinned_lines_stays(void **state)
{
	(void)state;
	for (unsigned compact = 0; compact < 2; compact++) {
		struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
		struct fth_dev *dev = model_open_dev("mem:64K");
		struct fth_cache_range *range;
		struct fth_cache_pin pin;
		struct fth_cache *cache;
		uint64_t value;

		options.line = 512;
		options.compact = compact;
		range = model_open_cache(dev, &options, 8);
		cache = fth_cache_of(range);
		assert_ok(fth_cache_pin(range, 3, FTH_CACHE_READ, fth_deadline_ns(PATIENCE), &pin));
		assert_int_equal(fth_cache_remove(range), -EBUSY);
		assert_ok(model_get(range, 700, &value));
		assert_int_equal(value, model_value(700, 0));
		fth_cache_unpin(&pin, false);
		assert_ok(fth_cache_remove(range));
		assert_ok(fth_cache_close(cache));
		fth_dev_close(dev);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_come_and_go_under_threads),
		cmocka_unit_test(a_range_with_pinned_lines_stays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
