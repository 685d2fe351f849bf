/* SPDX-License-Identifier: BSD-2-Clause */
/* Many places at once: larger than a batch, in any order, counted right; lists of lines. */
#include "array_fixture.h"
#include "internal.h"

#include <stdbool.h>
#include <stdlib.h>

#define LINE	4096u
#define IN_LINE (LINE / 8)

static const struct array_shape shapes[] = {
	{.line = LINE, .frames = 64, .element = 8, .count = 1000 * IN_LINE},
	{.line = LINE, .frames = 64, .element = 8, .count = 1000 * IN_LINE, .compact = true},
};

/* ---- memory that runs out ---- */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

static bool no_memory;

void *__wrap_malloc(size_t size)
{
	return no_memory ? NULL : __real_malloc(size);
}

/* ---- batches ---- */

static struct fth_batch batch;

static void group(uint32_t n, const uint64_t *lines, struct array_fixture *f, fth_cache_visit_fn fn)
{
	fth_batch_init(&batch, n);
	assert_true(batch.capacity >= n);
	fth_batch_clear(&batch, 1000);
	for (uint32_t k = 0; k < n; k++) {
		assert_true(fth_batch_has_room(&batch, 1000 + k));
		fth_batch_add(&batch, lines[k], 1000 + k);
	}
	assert_ok(fth_batch_visit(&batch, f->array, FTH_CACHE_READ, fn, NULL));
}

static int look_at_nothing(void *context, size_t which, uint8_t *data)
{
	(void)context, (void)which, (void)data;
	return 0;
}

/* Each position is under its line, once, and lines come in order, once. */
static void check_groups(const uint64_t *lines, uint32_t n)
{
	uint32_t seen = 0;

	for (uint32_t l = 0; l < batch.line_count; l++) {
		assert_true(l == 0 || batch.lines[l] > batch.lines[l - 1]);
		assert_true(batch.starts[l + 1] > batch.starts[l]);
		for (uint32_t s = batch.starts[l]; s < batch.starts[l + 1]; s++) {
			assert_int_equal(lines[batch.order[s]], batch.lines[l]);
			assert_true(s == batch.starts[l] || batch.order[s] > batch.order[s - 1]);
			seen++;
		}
	}
	assert_int_equal(seen, n);
}

static void batches_group_by_line(void **state)
{
	static const uint32_t sizes[] = {1, 2, 100, 128, 129, 5000, FTH_BATCH_LARGE};
	uint64_t *lines = malloc(FTH_BATCH_LARGE * sizeof(*lines));
	struct fth_rng rng = {1};
	struct array_fixture f;

	(void)state;
	assert_non_null(lines);
	array_fixture_open(&f, &shapes[0]);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (unsigned spread = 1; spread <= 1000; spread *= 10) {
			for (uint32_t k = 0; k < sizes[i]; k++)
				lines[k] = fth_rng_below(&rng, spread);
			group(sizes[i], lines, &f, look_at_nothing);
			check_groups(lines, sizes[i]);
			fth_batch_release(&batch);
		}
	array_fixture_close(&f);
	free(lines);
}

static void positions_far_apart_do_not_share_a_batch(void **state)
{
	(void)state;
	fth_batch_init(&batch, 10);
	fth_batch_clear(&batch, 5);
	assert_true(fth_batch_has_room(&batch, 5 + (uint64_t)UINT32_MAX));
	assert_false(fth_batch_has_room(&batch, 6 + (uint64_t)UINT32_MAX));
	fth_batch_release(&batch);
}

/* ---- gather and scatter ---- */

#define MANY (3 * FTH_BATCH_LARGE + 17)

static uint64_t indices[MANY], values[MANY];

static void random_indices(const struct array_fixture *f, uint64_t seed)
{
	struct fth_rng rng = {seed};

	for (size_t k = 0; k < MANY; k++)
		indices[k] = fth_rng_below(&rng, f->shape.count);
}

static uint64_t model(struct array_fixture *f, uint64_t i)
{
	return *(uint64_t *)array_fixture_model(f, i);
}

static void gathers_more_than_a_batch(void **state)
{
	(void)state;
	for (unsigned s = 0; s < 2; s++) {
		struct array_fixture f;

		array_fixture_open(&f, &shapes[s]);
		random_indices(&f, 7);
		assert_ok(fth_array_gather(f.array, indices, MANY, values));
		for (size_t k = 0; k < MANY; k++)
			assert_int_equal(values[k], model(&f, indices[k]));
		/* Every element was a hit or part of a miss. */
		assert_true(fth_cache_stat(f.cache, FTH_CACHE_HITS) +
				    fth_cache_stat(f.cache, FTH_CACHE_MISSES) +
				    fth_cache_stat(f.cache, FTH_CACHE_MERGED) >=
			    MANY);
		assert_int_equal(fth_cache_stat(f.cache, FTH_CACHE_BYTES_WANTED), MANY * 8);
		array_fixture_close(&f);
	}
}

static void scatters_more_than_a_batch(void **state)
{
	(void)state;
	for (unsigned s = 0; s < 2; s++) {
		struct array_fixture f;

		array_fixture_open(&f, &shapes[s]);
		random_indices(&f, 8);
		for (size_t k = 0; k < MANY; k++) {
			values[k] = indices[k] * 3;
			*(uint64_t *)array_fixture_model(&f, indices[k]) = values[k];
		}
		assert_ok(fth_array_scatter(f.array, indices, MANY, values));
		array_fixture_compare(&f);
		array_fixture_close(&f);
	}
}

/* Unlike scatter, an index that comes twice counts twice. */
static void xor_applies_each_value(void **state)
{
	struct array_shape narrow = shapes[0];
	struct array_fixture f;

	(void)state;
	narrow.count = 5000;
	array_fixture_open(&f, &narrow);
	random_indices(&f, 9);
	for (size_t k = 0; k < MANY; k++) {
		values[k] = fth_mix64(k + 1);
		*(uint64_t *)array_fixture_model(&f, indices[k]) ^= values[k];
	}
	assert_ok(fth_array_xor64_many(f.array, indices, MANY, values));
	array_fixture_compare(&f);
	array_fixture_close(&f);
}

static void without_memory_it_goes_in_smaller_steps(void **state)
{
	struct array_fixture f;

	(void)state;
	array_fixture_open(&f, &shapes[0]);
	random_indices(&f, 11);
	no_memory = true;
	assert_ok(fth_array_gather(f.array, indices, MANY, values));
	no_memory = false;
	for (size_t k = 0; k < MANY; k++)
		assert_int_equal(values[k], model(&f, indices[k]));
	array_fixture_close(&f);
}

static void elements_of_a_line_share_one_fetch(void **state)
{
	struct array_fixture f;
	size_t n = 0;

	(void)state;
	array_fixture_open(&f, &shapes[0]);
	/* 20 lines in an order that is none, 10 elements of each, one by one. */
	for (uint64_t e = 0; e < 10; e++)
		for (uint64_t line = 0; line < 20; line++)
			indices[n++] = line * 7 % 20 * 40 * IN_LINE + e * 3;
	assert_ok(fth_array_gather(f.array, indices, n, values));
	assert_int_equal(fth_cache_stat(f.cache, FTH_CACHE_MISSES), 20);
	assert_int_equal(fth_cache_stat(f.cache, FTH_CACHE_MERGED), 0);
	assert_int_equal(fth_cache_stat(f.cache, FTH_CACHE_HITS), n - 20);
	assert_int_equal(fth_cache_stat(f.cache, FTH_CACHE_BYTES_READ), 20 * LINE);
	array_fixture_close(&f);
}

static void neighbours_share_a_request(void **state)
{
	struct array_fixture f;

	(void)state;
	array_fixture_open(&f, &shapes[0]);
	for (uint64_t k = 0; k < 32; k++)
		indices[k] = (k * 5 % 32) * IN_LINE;
	assert_ok(fth_array_gather(f.array, indices, 32, values));
	assert_int_equal(fth_cache_stat(f.cache, FTH_CACHE_MISSES), 32);
	assert_true(fth_cache_stat(f.cache, FTH_CACHE_READ_REQUESTS) < 32);
	array_fixture_close(&f);
}

static void nothing_is_done_if_one_index_is_outside(void **state)
{
	struct array_fixture f;

	(void)state;
	array_fixture_open(&f, &shapes[0]);
	random_indices(&f, 3);
	indices[MANY - 1] = f.shape.count;
	values[0] = 77;
	assert_int_equal(fth_array_gather(f.array, indices, MANY, values), -ERANGE);
	assert_int_equal(values[0], 77);
	assert_int_equal(fth_array_scatter(f.array, indices, MANY, values), -ERANGE);
	assert_int_equal(fth_array_xor64_many(f.array, indices, MANY, values), -ERANGE);
	assert_int_equal(fth_cache_stat(f.cache, FTH_CACHE_MISSES), 0);
	array_fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(batches_group_by_line),
		cmocka_unit_test(positions_far_apart_do_not_share_a_batch),
		cmocka_unit_test(gathers_more_than_a_batch),
		cmocka_unit_test(scatters_more_than_a_batch),
		cmocka_unit_test(xor_applies_each_value),
		cmocka_unit_test(without_memory_it_goes_in_smaller_steps),
		cmocka_unit_test(elements_of_a_line_share_one_fetch),
		cmocka_unit_test(neighbours_share_a_request),
		cmocka_unit_test(nothing_is_done_if_one_index_is_outside),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
