/* SPDX-License-Identifier: BSD-2-Clause */
/* What each atomic does, to whom, and which lines it leaves changed. */
#include "array_fixture.h"

#include <errno.h>

static struct array_shape shape = {.line = 512, .frames = 8, .count = 5000};

static void open_with(struct array_fixture *f, size_t element, bool compact)
{
	shape.element = element;
	shape.compact = compact;
	array_fixture_open(f, &shape);
}

static void of_four_bytes(void **state)
{
	struct array_fixture f;
	uint32_t old, *model, expected;

	(void)state;
	for (int compact = 0; compact < 2; compact++) {
		open_with(&f, 4, compact);
		for (uint64_t i = 0; i < shape.count; i += 37) {
			model = array_fixture_model(&f, i);
			assert_ok(fth_array_add32(f.array, i, 0xfffffff0u, &old));
			assert_int_equal(old, *model);
			*model += 0xfffffff0u;
			assert_ok(fth_array_min32(f.array, i, 1u << 31, &old));
			assert_int_equal(old, *model);
			*model = *model < 1u << 31 ? *model : 1u << 31;
			expected = *model + 1;
			assert_int_equal(fth_array_cas32(f.array, i, &expected, 5), 0);
			assert_int_equal(expected, *model);
			assert_int_equal(fth_array_cas32(f.array, i, &expected, 6), 1);
			*model = 6;
			assert_ok(fth_array_add32(f.array, i, 1, NULL));
			*model += 1;
		}
		array_fixture_compare(&f);
		array_fixture_close(&f);
	}
}

static void of_eight_bytes(void **state)
{
	struct array_fixture f;
	uint64_t old, *model, expected;

	(void)state;
	for (int compact = 0; compact < 2; compact++) {
		open_with(&f, 8, compact);
		for (uint64_t i = 0; i < shape.count; i += 37) {
			model = array_fixture_model(&f, i);
			assert_ok(fth_array_add64(f.array, i, UINT64_MAX, &old));
			assert_int_equal(old, *model);
			*model -= 1;
			assert_ok(fth_array_xor64(f.array, i, i, &old));
			assert_int_equal(old, *model);
			*model ^= i;
			assert_ok(fth_array_min64(f.array, i, (uint64_t)1 << 63, &old));
			assert_int_equal(old, *model);
			*model = *model < (uint64_t)1 << 63 ? *model : (uint64_t)1 << 63;
			expected = *model + 1;
			assert_int_equal(fth_array_cas64(f.array, i, &expected, 5), 0);
			assert_int_equal(expected, *model);
			assert_int_equal(fth_array_cas64(f.array, i, &expected, 6), 1);
			*model = 6;
			assert_ok(fth_array_xor64(f.array, i, 1, NULL));
			*model ^= 1;
		}
		array_fixture_compare(&f);
		array_fixture_close(&f);
	}
}

static void what_changes_nothing_writes_nothing(void **state)
{
	struct array_fixture f;
	uint64_t *first, expected;

	(void)state;
	open_with(&f, 8, false);
	first = array_fixture_model(&f, 0);
	expected = *first + 1;
	assert_ok(fth_array_add64(f.array, 0, 0, NULL));
	assert_ok(fth_array_xor64(f.array, 0, 0, NULL));
	assert_ok(fth_array_min64(f.array, 0, UINT64_MAX, NULL));
	assert_int_equal(fth_array_cas64(f.array, 0, &expected, 1), 0);
	assert_ok(fth_array_flush(f.array, 0, FTH_ARRAY_ALL));
	assert_int_equal(fth_cache_stat(f.cache, FTH_CACHE_BYTES_WRITTEN), 0);
	array_fixture_close(&f);
}

/* Each alone, with nothing beside it that makes the line dirty: the smallest change is durable. */
static void the_smallest_change_reaches_the_medium(void **state)
{
	(void)state;
	for (unsigned kind = 0; kind < 5; kind++) {
		struct array_fixture f;
		uint64_t *model, expected;
		int rc = 0;

		open_with(&f, 8, false);
		model = array_fixture_model(&f, 5);
		expected = *model;
		switch (kind) {
		case 0:
			rc = fth_array_add64(f.array, 5, 1, NULL);
			*model += 1;
			break;
		case 1:
			rc = fth_array_xor64(f.array, 5, 1, NULL);
			*model ^= 1;
			break;
		case 2:
			rc = fth_array_min64(f.array, 5, *model - 1, NULL);
			*model -= 1;
			break;
		case 3:
			rc = fth_array_cas64(f.array, 5, &expected, expected + 1) - 1;
			*model += 1;
			break;
		default:
			*model += 1;
			rc = fth_array_set(f.array, 5, model, 8);
			break;
		}
		assert_ok(rc);
		array_fixture_close(&f);
	}
}

static void of_another_size_are_refused(void **state)
{
	uint64_t index = 0, v64 = 0;
	struct array_fixture f;
	uint32_t v32 = 0;

	(void)state;
	open_with(&f, 4, false);
	assert_int_equal(fth_array_add64(f.array, 0, 1, NULL), -EINVAL);
	assert_int_equal(fth_array_xor64(f.array, 0, 1, NULL), -EINVAL);
	assert_int_equal(fth_array_min64(f.array, 0, 1, NULL), -EINVAL);
	assert_int_equal(fth_array_cas64(f.array, 0, &v64, 1), -EINVAL);
	assert_int_equal(fth_array_xor64_many(f.array, &index, 1, &v64), -EINVAL);
	array_fixture_close(&f);
	open_with(&f, 8, false);
	assert_int_equal(fth_array_add32(f.array, 0, 1, NULL), -EINVAL);
	assert_int_equal(fth_array_min32(f.array, 0, 1, NULL), -EINVAL);
	assert_int_equal(fth_array_cas32(f.array, 0, &v32, 1), -EINVAL);
	array_fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_four_bytes),
		cmocka_unit_test(of_eight_bytes),
		cmocka_unit_test(what_changes_nothing_writes_nothing),
		cmocka_unit_test(the_smallest_change_reaches_the_medium),
		cmocka_unit_test(of_another_size_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
