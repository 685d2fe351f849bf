/* SPDX-License-Identifier: BSD-2-Clause */
#include "fth_test.h"

#include "cache_fixture.h"

#include <errno.h>
#include <string.h>

#define MIB	     "1M"
#define DEVICE_WORDS ((1u << 20) / 8)

static const struct fth_cache_options plain = FTH_CACHE_OPTIONS_INIT;

/* Full and compact, each with every policy. */
static void for_each_kind(void (*fn)(struct fth_cache_options options))
{
	struct fth_cache_options options = plain;

	for (unsigned compact = 0; compact < 2; compact++)
		for (unsigned p = 0; p < FTH_CACHE_POLICY_COUNT; p++) {
			options.compact = compact;
			options.policy = (enum fth_cache_policy)p;
			fn(options);
		}
}

static void read_everything(struct fth_cache_options options)
{
	struct cache_fixture f;
	struct fth_rng rng = {1};
	uint64_t value;

	cache_fixture_open(&f, "mem:" MIB, options, 16);
	for (uint64_t k = 0; k < DEVICE_WORDS; k += 512) {
		assert_int_equal(cache_fixture_get(&f, k, &value), 0);
		assert_true(value == cache_stamp(k));
	}
	for (unsigned i = 0; i < 2000; i++) {
		uint64_t k = fth_rng_below(&rng, DEVICE_WORDS);

		assert_int_equal(cache_fixture_get(&f, k, &value), 0);
		assert_true(value == cache_stamp(k));
	}
	assert_true(fth_cache_stat(f.cache, FTH_CACHE_EVICTIONS) > 0);
	assert_int_equal(fth_cache_stat(f.cache, FTH_CACHE_MISSES) +
				 fth_cache_stat(f.cache, FTH_CACHE_HITS),
			 DEVICE_WORDS / 512 + 2000);
	cache_fixture_close(&f);
}

static void what_is_read_is_what_is_there(void **state)
{
	(void)state;
	for_each_kind(read_everything);
}

static void write_and_reopen(struct fth_cache_options options)
{
	struct cache_fixture f;
	uint64_t value;

	options.line = 512;
	cache_fixture_open(&f, "mem:" MIB, options, 32);
	for (uint64_t k = 0; k < DEVICE_WORDS; k += 7)
		assert_int_equal(cache_fixture_set(&f, k, ~k), 0);
	for (uint64_t k = 0; k < DEVICE_WORDS; k++) {
		assert_int_equal(cache_fixture_get(&f, k, &value), 0);
		assert_true(value == (k % 7 ? cache_stamp(k) : ~k));
	}
	assert_int_equal(fth_cache_flush_all(f.cache), 0);
	for (uint64_t k = 0; k < DEVICE_WORDS; k += 64) {
		uint64_t words[64];

		assert_int_equal(fth_dev_read(f.dev, words, sizeof(words), k * 8, FTH_DEV_TIMEOUT),
				 0);
		for (unsigned i = 0; i < 64; i++)
			assert_true(words[i] == ((k + i) % 7 ? cache_stamp(k + i) : ~(k + i)));
	}
	cache_fixture_close(&f);
}

static void what_is_written_comes_back_and_reaches_the_medium(void **state)
{
	(void)state;
	for_each_kind(write_and_reopen);
}

struct seen {
	uint32_t line;
	const uint64_t *lines;
	unsigned calls;
	uint64_t fill; /* 0: check stamps */
};

static int look(void *context, size_t which, uint8_t *data)
{
	struct seen *s = context;
	uint64_t *words = (uint64_t *)data, first = s->lines[which] * s->line / 8;

	s->calls++;
	for (unsigned i = 0; i < s->line / 8; i++) {
		if (s->fill)
			words[i] = s->fill;
		else if (words[i] != cache_stamp(first + i))
			return -EILSEQ;
	}
	return 0;
}

static void visit_many(struct fth_cache_options options)
{
	struct cache_fixture f;
	uint64_t lines[1000];
	struct fth_rng rng = {5};
	struct seen s = {.lines = lines};

	cache_fixture_open(&f, "mem:" MIB, options, 24);
	s.line = f.line;
	for (unsigned i = 0; i < 1000; i++)
		lines[i] =
			i < 500 ? fth_rng_below(&rng, 256) : (i - 500) % 256; /* and twice over */
	assert_int_equal(fth_cache_visit(f.range, FTH_CACHE_READ, lines, 1000, look, &s), 0);
	assert_int_equal(s.calls, 1000);
	/* Neighbours share requests. */
	assert_true(fth_cache_stat(f.cache, FTH_CACHE_READ_REQUESTS) <
		    fth_cache_stat(f.cache, FTH_CACHE_MISSES));
	lines[999] = 256;
	assert_int_equal(fth_cache_visit(f.range, FTH_CACHE_READ, lines, 1000, look, &s), -ERANGE);
	assert_int_equal(s.calls, 1000);
	cache_fixture_close(&f);
}

static void a_visit_sees_every_line_of_its_list(void **state)
{
	(void)state;
	for_each_kind(visit_many);
}

static void overwrite_many(struct fth_cache_options options)
{
	struct cache_fixture f;
	uint64_t lines[256], *words = malloc(1 << 20);
	struct seen s = {.lines = lines, .fill = 77};

	cache_fixture_open(&f, "mem:" MIB, options, 40);
	s.line = f.line;
	for (unsigned i = 0; i < 256; i++)
		lines[i] = i;
	assert_int_equal(fth_cache_visit(f.range, FTH_CACHE_OVERWRITE, lines, 256, look, &s), 0);
	assert_int_equal(fth_cache_stat(f.cache, FTH_CACHE_BYTES_READ), 0);
	assert_int_equal(fth_cache_flush(f.range, 0, 256), 0);
	assert_int_equal(fth_dev_read(f.dev, words, 1 << 20, 0, FTH_DEV_TIMEOUT), 0);
	for (unsigned i = 0; i < DEVICE_WORDS; i++)
		assert_int_equal(words[i], 77);
	free(words);
	cache_fixture_close(&f);
}

static void whole_lines_are_overwritten_without_a_read(void **state)
{
	(void)state;
	for_each_kind(overwrite_many);
}

static void all_pinned(struct fth_cache_options options)
{
	struct cache_fixture f;
	struct fth_cache_pin pins[4], more;

	cache_fixture_open(&f, "mem:" MIB, options, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(fth_cache_pin(f.range, i, FTH_CACHE_READ, FTH_NEVER, &pins[i]), 0);
	assert_int_equal(fth_cache_pin(f.range, 9, FTH_CACHE_READ, fth_deadline_ns(2000000), &more),
			 -ENOBUFS);
	assert_int_equal(fth_cache_remove(f.range), -EBUSY);
	fth_cache_unpin(&pins[2], false);
	assert_int_equal(
		fth_cache_pin(f.range, 9, FTH_CACHE_READ, fth_deadline_ns(CACHE_SECOND), &more), 0);
	fth_cache_unpin(&more, false);
	for (unsigned i = 0; i < 4; i++)
		if (i != 2)
			fth_cache_unpin(&pins[i], false);
	cache_fixture_close(&f);
}

static void with_all_lines_pinned_a_miss_ends_with_an_error(void **state)
{
	(void)state;
	for_each_kind(all_pinned);
}

static void prefetch_then_read(struct fth_cache_options options)
{
	struct cache_fixture f;
	uint64_t value;

	cache_fixture_open(&f, "mem:" MIB, options, 64);
	assert_true(fth_cache_prefetch(f.range, 250, 100) == 6); /* clipped to the range */
	for (uint64_t line = 250; line < 256; line++) {
		assert_int_equal(cache_fixture_get(&f, line * 512, &value), 0);
		assert_true(value == cache_stamp(line * 512));
	}
	assert_int_equal(fth_cache_stat(f.cache, FTH_CACHE_PREFETCHES), 6);
	assert_int_equal(fth_cache_stat(f.cache, FTH_CACHE_MISSES), 0);
	assert_int_equal(fth_cache_stat(f.cache, FTH_CACHE_BYTES_READ), 6 * 4096);
	assert_int_equal(fth_cache_prefetch(f.range, 256, 1), 0);
	cache_fixture_close(&f);
}

static void prefetched_lines_are_no_misses(void **state)
{
	(void)state;
	for_each_kind(prefetch_then_read);
}

static void last_line(struct fth_cache_options options)
{
	struct cache_fixture f;
	struct fth_cache_range *range;
	struct fth_cache_pin pin;
	uint8_t block[512];

	options.line = 4096;
	cache_fixture_open(&f, "mem:" MIB, options, 8);
	assert_int_equal(fth_cache_remove(f.range), 0);
	/* Frames that have held other bytes. */
	assert_int_equal(fth_cache_add(f.cache, f.dev, 0, FTH_CACHE_TO_END, 0, &range), 0);
	for (uint64_t line = 0; line < 16; line++) {
		assert_int_equal(fth_cache_pin(range, line, FTH_CACHE_READ, FTH_NEVER, &pin), 0);
		fth_cache_unpin(&pin, false);
	}
	assert_int_equal(fth_cache_remove(range), 0);
	/* Three lines and one block, from the second block on. */
	assert_int_equal(fth_cache_add(f.cache, f.dev, 512, 3 * 4096 + 512, 0, &range), 0);
	assert_int_equal(fth_cache_lines(range), 4);
	assert_int_equal(fth_cache_pin(range, 3, FTH_CACHE_WRITE, FTH_NEVER, &pin), 0);
	assert_true(*(uint64_t *)pin.data == cache_stamp((512 + 3 * 4096) / 8));
	for (unsigned i = 512; i < 4096; i++)
		assert_int_equal(pin.data[i], 0);
	memset(pin.data, 1, 4096);
	fth_cache_unpin(&pin, true);
	assert_int_equal(fth_cache_flush(range, 0, 4), 0);
	/* Nothing behind the end was touched. */
	assert_int_equal(fth_dev_read(f.dev, block, 512, 512 + 3 * 4096, FTH_DEV_TIMEOUT), 0);
	assert_int_equal(block[511], 1);
	assert_int_equal(fth_dev_read(f.dev, block, 512, 512 + 3 * 4096 + 512, FTH_DEV_TIMEOUT), 0);
	assert_true(*(uint64_t *)block == cache_stamp((512 + 3 * 4096 + 512) / 8));
	cache_fixture_close(&f);
}

static void the_last_line_may_be_short(void **state)
{
	(void)state;
	for_each_kind(last_line);
}

static void bad_options_and_ranges_are_refused(void **state)
{
	struct fth_cache_options options = plain;
	struct fth_cache *cache;
	struct fth_cache_range *range, *other;
	struct fth_cache_pin pin;
	struct fth_dev *dev;

	(void)state;
	options.line = 1000;
	assert_int_equal(fth_cache_open(&options, &cache), -EINVAL);
	options.line = 128 << 10;
	assert_int_equal(fth_cache_open(&options, &cache), -EINVAL);
	options.line = 4096;
	options.memory = 3 * 4096;
	assert_int_equal(fth_cache_open(&options, &cache), -EINVAL);
	options.memory = 4 * 4096;
	assert_int_equal(fth_cache_open(&options, &cache), 0);
	assert_int_equal(fth_dev_open("mem:1M", &dev), 0);
	assert_int_equal(fth_cache_add(cache, dev, 7, 4096, 0, &range), -EINVAL);
	assert_int_equal(fth_cache_add(cache, dev, 0, 2 << 20, 0, &range), -ERANGE);
	assert_int_equal(fth_cache_add(cache, dev, 1 << 20, FTH_CACHE_TO_END, 0, &range), -EINVAL);
	assert_int_equal(fth_cache_add(cache, dev, 0, 8192, FTH_CACHE_READONLY, &range), 0);
	assert_int_equal(fth_cache_add(cache, dev, 4096, 4096, 0, &other), -EEXIST);
	assert_int_equal(fth_cache_add(cache, dev, 4096, 4096, FTH_CACHE_READONLY, &other), 0);
	assert_int_equal(fth_cache_pin(range, 0, FTH_CACHE_WRITE, FTH_NEVER, &pin), -EROFS);
	assert_int_equal(fth_cache_pin(range, 2, FTH_CACHE_READ, FTH_NEVER, &pin), -ERANGE);
	assert_int_equal(fth_cache_close(cache), 0);
	fth_dev_close(dev);
}

static void metadata_is_bounded(void **state)
{
	struct fth_cache_options options = plain;
	struct fth_cache_footprint full, compact;
	struct cache_fixture f;

	(void)state;
	cache_fixture_open(&f, "mem:" MIB, options, 16);
	fth_cache_footprint(f.cache, &full);
	assert_int_equal(full.line_bytes, 8 * full.lines);
	assert_int_equal(full.lines, 256);
	cache_fixture_close(&f);
	options.compact = true;
	cache_fixture_open(&f, "mem:" MIB, options, 16);
	fth_cache_footprint(f.cache, &compact);
	assert_int_equal(compact.line_bytes, 0);
	assert_true(compact.frame_bytes <= 64 * compact.frames);
	cache_fixture_close(&f);
}

/*
 * A line that was pinned for reading does not become dirty, even if unpin says that it was written.
 */
static void a_pin_for_reading_changes_nothing(void **state)
{
	struct fth_cache_footprint footprint;
	struct fth_cache_pin pin;
	struct cache_fixture f;

	(void)state;
	cache_fixture_open(&f, "mem:" MIB, plain, 16);
	assert_int_equal(fth_cache_pin(f.range, 3, FTH_CACHE_READ, FTH_NEVER, &pin), 0);
	fth_cache_unpin(&pin, true);
	fth_cache_footprint(f.cache, &footprint);
	assert_int_equal(footprint.dirty, 0);
	cache_fixture_close(&f);
}

static void evicted_lines_are_fetched_again(void **state)
{
	struct cache_fixture f;
	uint64_t value;

	(void)state;
	for (unsigned compact = 0; compact < 2; compact++) {
		struct fth_cache_options options = plain;

		options.compact = compact;
		cache_fixture_open(&f, "mem:" MIB, options, 16);
		assert_int_equal(cache_fixture_set(&f, 5, 55), 0);
		assert_int_equal(fth_cache_evict(f.range, 0, 16), 0);
		assert_int_equal(fth_cache_stat(f.cache, FTH_CACHE_EVICTIONS), 1);
		assert_int_equal(cache_fixture_get(&f, 5, &value), 0);
		assert_int_equal(value, 55);
		assert_int_equal(fth_cache_stat(f.cache, FTH_CACHE_MISSES), 2);
		cache_fixture_close(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_read_is_what_is_there),
		cmocka_unit_test(what_is_written_comes_back_and_reaches_the_medium),
		cmocka_unit_test(a_visit_sees_every_line_of_its_list),
		cmocka_unit_test(whole_lines_are_overwritten_without_a_read),
		cmocka_unit_test(with_all_lines_pinned_a_miss_ends_with_an_error),
		cmocka_unit_test(prefetched_lines_are_no_misses),
		cmocka_unit_test(the_last_line_may_be_short),
		cmocka_unit_test(bad_options_and_ranges_are_refused),
		cmocka_unit_test(metadata_is_bounded),
		cmocka_unit_test(a_pin_for_reading_changes_nothing),
		cmocka_unit_test(evicted_lines_are_fetched_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
