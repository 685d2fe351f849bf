/* SPDX-License-Identifier: BSD-2-Clause */
/* Every width of packed blocks, and sequences of all shapes. */
#include "table/page/bits.h"
#include "table/page/sequence.h"

#include "fth_test.h"

#include "fathom/base/rng.h"

#include <stdlib.h>
#include <string.h>

static uint64_t element(const void *values, unsigned size, uint32_t i)
{
	uint64_t value = 0;

	memcpy(&value, (const char *)values + (size_t)i * size, size);
	return value;
}

static void every_width_comes_back(void **state)
{
	const uint64_t base = UINT64_C(0xf123456789abcdef);
	struct fth_rng rng = {1};
	uint64_t values[BITS_BLOCK], out[BITS_BLOCK];
	unsigned char *packed;

	(void)state;
	for (unsigned width = 0; width <= 64; width++) {
		size_t bytes = bits_bytes(BITS_BLOCK, width);

		/*
		 * The end of the allocation is the end of the block: sanitizers see a read beyond.
		 */
		packed = malloc(bytes ? bytes : 1);
		for (unsigned i = 0; i < BITS_BLOCK; i++)
			values[i] = width == 0	 ? 0
				    : i % 7 == 0 ? ~(uint64_t)0 >> (64 - width)
						 : fth_rng_next(&rng) >> (64 - width);
		bits_pack(values, width, packed);
		bits_unpack(packed, width, 0, out);
		for (uint32_t i = 0; i < BITS_BLOCK; i++) {
			assert_int_equal(element(out, bits_size(width), i), values[i]);
			assert_int_equal(bits_at(packed, width, i), values[i]);
		}
		bits_unpack(packed, width, base, out);
		for (uint32_t i = 0; i < BITS_BLOCK; i++) {
			uint64_t sum = values[i] + base;

			assert_int_equal(element(out, bits_size(width), i),
					 element(&sum, bits_size(width), 0));
		}
		free(packed);
	}
}

static void compare_sequence(const int64_t *values, uint32_t n)
{
	struct sequence_stats stats;
	struct sequence_plan plan;
	struct fth_table_sequence sequence;
	unsigned char *bytes;
	int64_t *out = calloc(n, sizeof(*out));
	uint64_t at = 0;

	sequence_measure(values, n, &stats);
	sequence_choose(values, &stats, &plan);
	bytes = malloc(plan.bytes);
	sequence_write(values, n, &plan, bytes);
	assert_true(sequence_find(bytes, plan.bytes, &at, n, &sequence));
	assert_int_equal(at, plan.bytes);
	for (unsigned size = 1; size <= 8; size *= 2) {
		for (uint32_t from = 0; from < n; from += n / 5 + 1) {
			uint32_t to = from + n / 3 < n ? from + n / 3 : n;

			sequence_get(&sequence, from, to, out, size);
			for (uint32_t i = from; i < to; i++)
				assert_memory_equal((char *)out + (size_t)(i - from) * size,
						    &values[i], size);
		}
	}
	for (uint32_t i = 0; i < n; i += n / 50 + 1)
		assert_int_equal(sequence_at(&sequence, i), values[i]);
	/* A header that claims one byte more than there is. */
	at = 0;
	assert_false(sequence_find(bytes, plan.bytes - 1, &at, n, &sequence));
	free(bytes);
	free(out);
}

static void sequences_of_all_shapes_come_back(void **state)
{
	static const uint32_t lengths[] = {1, 2, 63, 1023, 1024, 1025, 5000};
	struct fth_rng rng = {2};
	int64_t values[5000];

	(void)state;
	for (unsigned l = 0; l < sizeof(lengths) / sizeof(*lengths); l++) {
		for (unsigned shape = 0; shape < 70; shape++) {
			int64_t base = (int64_t)fth_rng_next(&rng) >> fth_rng_below(&rng, 64), step;

			for (uint32_t i = 0; i < lengths[l]; i++) {
				step = (int64_t)(fth_rng_next(&rng) >>
						 (shape < 64 ? 63 - shape : 60));
				if (shape < 64)
					values[i] = (int64_t)((uint64_t)base + (uint64_t)step);
				else if (shape < 67)
					values[i] = (int64_t)((uint64_t)(i ? values[i - 1] : base) +
							      (uint64_t)step);
				else
					values[i] = (int64_t)((uint64_t)step * 100);
			}
			compare_sequence(values, lengths[l]);
		}
	}
}

static void extreme_values_come_back(void **state)
{
	static const int64_t values[] = {INT64_MIN, INT64_MAX, 0,	  -1,
					 1,	    INT64_MIN, INT64_MIN, INT64_MAX};

	(void)state;
	for (uint32_t n = 1; n <= 8; n++)
		compare_sequence(values, n);
}

static void multiples_are_divided(void **state)
{
	struct sequence_stats stats;
	struct sequence_plan plan;
	int64_t values[1024];

	(void)state;
	for (int64_t i = 0; i < 1024; i++)
		values[i] = 300 + (i * 7 % 50) * 100;
	sequence_measure(values, 1024, &stats);
	sequence_choose(values, &stats, &plan);
	assert_int_equal(plan.factor, 100);
	assert_int_equal(plan.width, 6);
	assert_false(plan.delta);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_width_comes_back),
		cmocka_unit_test(sequences_of_all_shapes_come_back),
		cmocka_unit_test(extreme_values_come_back),
		cmocka_unit_test(multiples_are_divided),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
