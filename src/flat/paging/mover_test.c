/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages that move in the background: stores meanwhile, streams, clean pages, the threshold. */
#include "flat/test/flat_fixture.h"

#include "fathom/base/rng.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STORERS 4

struct storer {
	uint64_t *page;
	unsigned number;
	const bool *stop;
	uint64_t shadow[128];
};

/* Words of its own all over the page. */
static void *store_all_the_time(void *raw)
{
	struct storer *s = raw;

	for (uint64_t i = 0; !__atomic_load_n(s->stop, __ATOMIC_RELAXED); i++) {
		unsigned slot = i * 7 % 128;
		volatile uint64_t *at = s->page + slot * STORERS + s->number;

		if (*at != s->shadow[slot])
			abort();
		*at = s->shadow[slot] = i << 32 | i;
	}
	return NULL;
}

static void stores_during_a_move_are_kept(void **unused)
{
	struct fth_flat *flat = open_region("mem:2M", BUDGET, FTH_FLAT_COUNTERS);
	struct storer storers[STORERS];
	pthread_t threads[STORERS];
	bool stop = false;

	(void)unused;
	if (!fth_flat_emulates()) {
		assert_ok(fth_flat_close(flat));
		return;
	}
	/* while DRAM has room, pages would move at once, in the threads that use them */
	assert_ok(fth_flat_advise(flat, (uint8_t *)fth_flat_base(flat) + (1u << 20), BUDGET,
				  FTH_FLAT_HOT));
	latency_set(flat, &(struct flat_latency_model){.promote_ns = 500000});
	for (unsigned i = 0; i < STORERS; i++) {
		storers[i] = (struct storer){.page = (uint64_t *)fth_flat_base(flat) + 512 * 9,
					     .number = i,
					     .stop = &stop};
		assert_int_equal(pthread_create(&threads[i], NULL, store_all_the_time, &storers[i]),
				 0);
	}
	for (uint64_t moves = 0; moves < 20;) {
		assert_ok(fth_flat_advise(flat, storers[0].page, PAGE, FTH_FLAT_COLD));
		moves = fth_flat_stat(flat, FTH_FLAT_STAT_BACKGROUND);
		usleep(1000);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < STORERS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < STORERS; i++)
		for (unsigned slot = 0; slot < 128; slot++)
			assert_true(storers[i].page[slot * STORERS + i] == storers[i].shadow[slot]);
	assert_ok(fth_flat_close(flat));
}

static bool has_clean_page(const struct fth_flat *flat)
{
	for (uint64_t page = 0; page < flat->pages; page++) {
		uint32_t word = word_get(&flat->words[page]);

		if ((word & (WORD_STATE | WORD_DIRTY | WORD_LOCKED)) == WORD_CACHED)
			return true;
	}
	return false;
}

/*
 * Changed pages of the SSD-cache are written before their slots are needed. Each page that comes in
 * is stored to, and there is no sync: one that is there and clean was cleaned.
 */
static void changed_pages_are_cleaned(void **unused)
{
	struct fth_flat *flat = open_region("mem:2M", BUDGET, FTH_FLAT_NEVER);
	uint64_t *words = fth_flat_base(flat), shadow[512] = {0};
	struct fth_rng rng = {9};
	bool cleaned = false;

	(void)unused;
	assert_ok(fth_flat_advise(flat, words, fth_flat_size(flat), FTH_FLAT_RANDOM));
	for (uint64_t i = 0; i < 100000 && !cleaned && fth_flat_emulates(); i++) {
		uint64_t page = fth_rng_below(&rng, 512);

		words[page * 512 + 5] = shadow[page] = i;
		cleaned = i % 16 == 0 && has_clean_page(flat);
	}
	assert_true(cleaned || !fth_flat_emulates());
	for (uint64_t page = 0; page < 512; page++)
		assert_true(words[page * 512 + 5] == shadow[page]);
	assert_ok(fth_flat_close(flat));
}

/*
 * Buffers for pages on their way to DRAM: each belongs to one thread; without one a page takes a
 * slot of the SSD-cache.
 */
static void pages_arrive_without_a_buffer(void **unused)
{
	struct fth_flat *flat = open_region("mem:2M", BUDGET, FTH_FLAT_ALWAYS);
	uint64_t *words = fth_flat_base(flat), n = fth_flat_size(flat) / 8;
	uint8_t *landings[FLAT_CHANNELS];

	(void)unused;
	for (uint64_t i = 0; i < n; i++)
		words[i] = i * 5;
	for (unsigned i = 0; i < FLAT_CHANNELS; i++) {
		landings[i] = io_take_buffer(flat);
		assert_non_null(landings[i]);
		for (unsigned k = 0; k < i; k++)
			assert_true(landings[k] + PAGE <= landings[i] ||
				    landings[i] + PAGE <= landings[k]);
		memset(landings[i], 0xaa, PAGE);
	}
	assert_null(io_take_buffer(flat));
	for (uint64_t i = 0; i < n; i += 64)
		assert_true(words[i] == i * 5);
	for (unsigned i = 0; i < FLAT_CHANNELS; i++) {
		for (unsigned k = 0; k < PAGE; k++)
			assert_int_equal(landings[i][k], 0xaa);
		io_give_buffer(flat, landings[i]);
	}
	assert_ptr_equal(io_take_buffer(flat), landings[0]);
	io_give_buffer(flat, landings[0]);
	for (uint64_t i = 0; i < n; i += 64)
		assert_true(words[i] == i * 5);
	/* all of them are given back */
	for (unsigned i = 0; i < FLAT_CHANNELS; i++)
		while (!futex_try_lock(&flat->read_buffers.locks[i]))
			usleep(100);
	for (unsigned i = 0; i < FLAT_CHANNELS; i++)
		futex_unlock(&flat->read_buffers.locks[i]);
	assert_ok(fth_flat_close(flat));
}

static void streams_are_read_ahead(void **unused)
{
	struct fth_flat *flat = open_region("mem:8M", 512 * PAGE, FTH_FLAT_COUNTERS);
	uint64_t *words = fth_flat_base(flat), n = fth_flat_size(flat) / 8;

	(void)unused;
	for (uint64_t i = 0; i < n; i++)
		words[i] = i * 3;
	while (fth_flat_stat(flat, FTH_FLAT_STAT_AHEAD) < 100)
		for (uint64_t i = 0; i < n; i++)
			assert_true(words[i] == i * 3);
	check_memory(flat, 512 * PAGE);
	assert_ok(fth_flat_close(flat));
}

static void advice_about_streams(void **unused)
{
	struct fth_flat *flat = open_region("mem:8M", 512 * PAGE, FTH_FLAT_COUNTERS);
	volatile uint8_t *bytes = fth_flat_base(flat);

	(void)unused;
	assert_ok(fth_flat_advise(flat, fth_flat_base(flat), 4u << 20, FTH_FLAT_RANDOM));
	for (uint64_t at = 0; at < 4u << 20; at += 512)
		assert_int_equal(bytes[at], 0);
	assert_int_equal(fth_flat_stat(flat, FTH_FLAT_STAT_AHEAD), 0);
	assert_ok(fth_flat_advise(flat, (uint8_t *)fth_flat_base(flat) + (4u << 20), 4u << 20,
				  FTH_FLAT_SEQUENTIAL));
	if (fth_flat_emulates()) {
		assert_int_equal(bytes[5u << 20], 0); /* the first page is enough */
		assert_true(fth_flat_stat(flat, FTH_FLAT_STAT_AHEAD) > 0);
	}
	assert_int_equal(fth_flat_advise(flat, fth_flat_base(flat), 1, (enum fth_flat_advice)99),
			 -EINVAL);
	assert_ok(fth_flat_close(flat));
}

static void without_a_thread(void **unused)
{
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;
	struct fth_flat *flat;
	uint64_t *words;

	(void)unused;
	options.foreground = true;
	assert_ok(fth_flat_open("mem:4M", BUDGET, &options, &flat));
	take_signals();
	words = fth_flat_base(flat);
	for (uint64_t i = 0; i < (4u << 20) / 8; i++)
		words[i] = ~i;
	for (uint64_t i = 0; i < (4u << 20) / 8; i++)
		assert_true(words[i] == ~i);
	assert_int_equal(fth_flat_stat(flat, FTH_FLAT_STAT_BACKGROUND), 0);
	assert_ok(fth_flat_close(flat));
}

static void without_polling(void **unused)
{
	struct fth_flat *flat;
	uint64_t *words;

	(void)unused;
	assert_int_equal(setenv("FTH_FLAT_POLL", "0", 1), 0);
	flat = open_region("delay(mem:2M)?read_us=50", BUDGET, FTH_FLAT_ALWAYS);
	unsetenv("FTH_FLAT_POLL");
	words = fth_flat_base(flat);
	for (unsigned i = 0; i < FLAT_CHANNELS; i++)
		assert_false(flat->channels[i].polls);
	for (unsigned i = 0; i < 512; i++)
		words[i * 512] = i;
	for (unsigned i = 0; i < 512; i++)
		assert_true(words[i * 512] == i);
	assert_ok(fth_flat_close(flat));
	flat = open_region("mem:2M", BUDGET, FTH_FLAT_ALWAYS);
	assert_true(flat->channels[0].polls);
	assert_ok(fth_flat_close(flat));
}

/* More threads than pages of DRAM, and all want one at once: they wait for each other. */
#define CROWD 64

/*
 * 4 MiB, so many pages of them in DRAM, and a policy that works in the accesses themselves: the
 * same each time.
 */
static struct fth_flat *open_counting(uint64_t budget)
{
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;
	struct fth_flat *flat;

	options.policy = FTH_FLAT_COUNTERS;
	options.foreground = true;
	assert_ok(fth_flat_open("mem:4M", budget * PAGE, &options, &flat));
	take_signals();
	return flat;
}

/*
 * A hot set of four fifths of the budget and a few accesses elsewhere: hot pages do not push one
 * another out for ever.
 */
static void a_hot_set_comes_to_rest(void **unused)
{
	const uint64_t budget = 256, pages = 4 * budget, accesses = 50000;
	struct fth_rng rng = {1};
	uint64_t moved = 0;
	struct fth_flat *flat;
	volatile uint8_t *bytes;

	(void)unused;
	flat = open_counting(budget);
	bytes = fth_flat_base(flat);
	for (unsigned i = 0; i < 4 * accesses; i++) {
		uint64_t page = fth_rng_below(&rng, fth_rng_below(&rng, 10) ? pages / 5 : pages);

		bytes[page * PAGE]++;
		if (i == 3 * accesses)
			moved = fth_flat_stat(flat, FTH_FLAT_STAT_PROMOTIONS);
	}
	moved = fth_flat_stat(flat, FTH_FLAT_STAT_PROMOTIONS) - moved;
	/* were every cold page moved, there would be five times as many */
	assert_true(!fth_flat_emulates() || moved < accesses / 50);
	fth_flat_discard(flat);
}

/* No page is used so often that it would move: the threshold comes down until some do. */
static void a_threshold_that_no_page_reaches_falls(void **unused)
{
	const uint64_t budget = 64, pages = 16 * budget;
	struct fth_rng rng = {1};
	struct fth_flat *flat;
	volatile uint8_t *bytes;

	(void)unused;
	flat = open_counting(budget);
	bytes = fth_flat_base(flat);
	flat->policy.threshold = 60;
	for (unsigned i = 0; i < 20000; i++)
		bytes[fth_rng_below(&rng, pages) * PAGE]++;
	assert_true(!fth_flat_emulates() || flat->policy.threshold < 30);
	fth_flat_discard(flat);
}

static void *page_in_often(void *raw)
{
	uint8_t *bytes = raw;
	struct fth_rng rng = {(uintptr_t)&rng};

	for (unsigned i = 0; i < 60; i++)
		__atomic_fetch_add(&bytes[fth_rng_below(&rng, 500) * PAGE + 8], 1,
				   __ATOMIC_RELAXED);
	return NULL;
}

static void a_crowd_gets_no_bus_error(void **unused)
{
	struct fth_flat *flat = open_region("delay(mem:2M)?read_us=200", BUDGET, FTH_FLAT_ALWAYS);
	uint8_t *bytes = fth_flat_base(flat);
	pthread_t threads[CROWD];
	unsigned sum = 0;

	(void)unused;
	bus_errors = 0;
	if (sigsetjmp(jump, 1) != 0)
		abort(); /* in another thread's stack, or here */
	for (unsigned i = 0; i < CROWD; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, page_in_often, bytes), 0);
	for (unsigned i = 0; i < CROWD; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < 500; i++)
		sum += bytes[i * PAGE + 8];
	assert_int_equal(sum, CROWD * 60);
	assert_int_equal(bus_errors, 0);
	assert_ok(fth_flat_close(flat));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stores_during_a_move_are_kept),
		cmocka_unit_test(changed_pages_are_cleaned),
		cmocka_unit_test(pages_arrive_without_a_buffer),
		cmocka_unit_test(streams_are_read_ahead),
		cmocka_unit_test(advice_about_streams),
		cmocka_unit_test(without_a_thread),
		cmocka_unit_test(without_polling),
		cmocka_unit_test(a_hot_set_comes_to_rest),
		cmocka_unit_test(a_threshold_that_no_page_reaches_falls),
		cmocka_unit_test(a_crowd_gets_no_bus_error),
	};

	return FLAT_RUN(tests);
}
