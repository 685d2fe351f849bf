/* SPDX-License-Identifier: BSD-2-Clause */
/* Spans and pieces; pins, cursors and how they spare the device. */
#include "array_fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LINE	4096u
#define IN_LINE (LINE / 4)
#define LINES	9000u

static const struct array_shape shape = {
	.line = LINE, .frames = 256, .element = 4, .count = (uint64_t)LINES * IN_LINE};

/* ---- spans ---- */

struct tally {
	uint64_t pieces, elements, stop_after;
	uint32_t sum;
};

static int add_up(void *context, size_t which, uint64_t first, const void *elements, uint64_t n)
{
	const uint32_t *values = elements;
	struct tally *tally = context;

	(void)which, (void)first;
	for (uint64_t k = 0; k < n; k++)
		tally->sum += values[k];
	tally->elements += n;
	return ++tally->pieces == tally->stop_after ? -ECANCELED : 0;
}

static uint32_t model_sum(struct array_fixture *f, uint64_t first, uint64_t n)
{
	uint32_t sum = 0;

	for (uint64_t i = first; i < first + n; i++)
		sum += *(uint32_t *)array_fixture_model(f, i);
	return sum;
}

/* More lines than a batch holds, so that the span is left and entered again. */
static void a_span_may_be_everything(void **state)
{
	struct fth_span all = {1, shape.count - 2};
	struct tally tally = {0};
	struct array_fixture f;

	(void)state;
	array_fixture_open(&f, &shape);
	assert_ok(fth_array_walk(f.array, &all, 1, add_up, &tally));
	assert_int_equal(tally.pieces, LINES);
	assert_int_equal(tally.elements, all.count);
	assert_int_equal(tally.sum, model_sum(&f, 1, all.count));
	assert_int_equal(fth_cache_stat(f.cache, FTH_CACHE_BYTES_READ), (uint64_t)LINES * LINE);
	array_fixture_close(&f);
}

static void spans_in_one_line_share_its_fetch(void **state)
{
	struct fth_span spans[100];
	struct tally tally = {0};
	struct array_fixture f;

	(void)state;
	array_fixture_open(&f, &shape);
	for (unsigned k = 0; k < 100; k++)
		spans[k] = (struct fth_span){k * 10, k % 10};
	assert_ok(fth_array_walk(f.array, spans, 100, add_up, &tally));
	assert_int_equal(tally.pieces, 90);
	assert_int_equal(fth_cache_stat(f.cache, FTH_CACHE_MISSES), 1);
	assert_int_equal(fth_cache_stat(f.cache, FTH_CACHE_HITS), 89);
	array_fixture_close(&f);
}

static void the_callback_ends_a_walk(void **state)
{
	struct fth_span spans[] = {{0, 5}, {10, 5}, {20 * IN_LINE, 5}};
	struct tally tally = {.stop_after = 2};
	struct array_fixture f;

	(void)state;
	array_fixture_open(&f, &shape);
	assert_int_equal(fth_array_walk(f.array, spans, 3, add_up, &tally), -ECANCELED);
	assert_int_equal(tally.pieces, 2);
	array_fixture_close(&f);
}

/* ---- whole lines ---- */

static void writing_whole_lines_fetches_nothing(void **state)
{
	uint64_t n = 100 * IN_LINE;
	struct array_fixture f;
	struct fth_cursor cursor;

	(void)state;
	array_fixture_open(&f, &shape);
	array_fixture_bytes(f.model, n * 4, 1);
	assert_ok(fth_array_write(f.array, 0, n, f.model));
	memset(array_fixture_model(&f, n), 0x5a, n * 4);
	assert_ok(fth_array_fill(f.array, n, n, array_fixture_model(&f, n)));
	fth_cursor_open(&cursor, f.array, FTH_CACHE_OVERWRITE);
	for (uint64_t i = 2 * n; i < 3 * n; i++) {
		*(uint32_t *)array_fixture_model(&f, i) = (uint32_t)i;
		assert_ok(fth_cursor_store(&cursor, i, &(uint32_t){(uint32_t)i}, 4));
	}
	fth_cursor_close(&cursor);
	assert_int_equal(fth_cache_stat(f.cache, FTH_CACHE_BYTES_READ), 0);
	/* One element more at each end, and the two lines there have to be fetched. */
	assert_ok(fth_array_write(f.array, 5 * n - 1, n + 2, array_fixture_model(&f, 5 * n - 1)));
	assert_int_equal(fth_cache_stat(f.cache, FTH_CACHE_BYTES_READ), 2 * LINE);
	array_fixture_close(&f);
}

/* ---- cursors ---- */

static void a_cursor_reads_each_line_once_and_ahead(void **state)
{
	struct array_fixture f;
	struct fth_cursor cursor;
	uint32_t value = 0, sum = 0;

	(void)state;
	array_fixture_open(&f, &shape);
	fth_cursor_open(&cursor, f.array, FTH_CACHE_READ);
	for (uint64_t i = 0; i < 1000 * IN_LINE; i++) {
		assert_ok(fth_cursor_load(&cursor, i, &value, 4));
		sum += value;
	}
	assert_int_equal(sum, model_sum(&f, 0, 1000 * IN_LINE));
	assert_true(fth_cache_stat(f.cache, FTH_CACHE_PREFETCHES) > 500);
	fth_cursor_close(&cursor);
	array_fixture_close(&f);
}

static void a_cursor_hands_out_what_is_left_of_a_line(void **state)
{
	struct array_fixture f;
	struct fth_cursor cursor;
	uint64_t i = 5, n;
	uint32_t sum = 0;
	int error = 0;

	(void)state;
	array_fixture_open(&f, &shape);
	fth_cursor_open(&cursor, f.array, FTH_CACHE_READ);
	while (i < 10 * IN_LINE) {
		const uint32_t *at = fth_cursor_span(&cursor, i, 4, &n, &error);

		assert_non_null(at);
		assert_int_equal(n, IN_LINE - i % IN_LINE);
		for (uint64_t k = 0; k < n; k++)
			sum += at[k];
		i += n;
	}
	assert_int_equal(sum, model_sum(&f, 5, 10 * IN_LINE - 5));
	assert_null(fth_cursor_span(&cursor, shape.count, 4, &n, &error));
	assert_int_equal(error, -ERANGE);
	fth_cursor_close(&cursor);
	array_fixture_close(&f);
}

static void a_cursor_to_read_does_not_write(void **state)
{
	struct fth_cursor cursor = {0}, other;
	struct array_fixture f;
	uint32_t value = 1;

	(void)state;
	fth_cursor_close(&cursor);
	array_fixture_open(&f, &shape);
	fth_cursor_open(&cursor, f.array, FTH_CACHE_READ);
	fth_cursor_open(&other, f.array, FTH_CACHE_WRITE);
	assert_int_equal(fth_cursor_store(&cursor, 0, &value, 4), -EROFS);
	assert_ok(fth_cursor_store(&other, 0, &value, 4));
	assert_int_equal(fth_cursor_store(&cursor, 0, &value, 4), -EROFS);
	memcpy(f.model, &value, 4);
	fth_cursor_close(&cursor);
	fth_cursor_close(&other);
	fth_cursor_close(&other);
	array_fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_span_may_be_everything),
		cmocka_unit_test(spans_in_one_line_share_its_fetch),
		cmocka_unit_test(the_callback_ends_a_walk),
		cmocka_unit_test(writing_whole_lines_fetches_nothing),
		cmocka_unit_test(a_cursor_reads_each_line_once_and_ahead),
		cmocka_unit_test(a_cursor_hands_out_what_is_left_of_a_line),
		cmocka_unit_test(a_cursor_to_read_does_not_write),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
