/* SPDX-License-Identifier: BSD-2-Clause */
#include "fth_test.h"
#include "gpu_read.h"

#include <stdlib.h>
#include <string.h>

#define WORDS 512

static void fill(uint64_t words[WORDS])
{
	struct fth_rng rng = {7};

	for (int i = 0; i < WORDS; i++)
		words[i] = fth_rng_next(&rng);
}

/* In any order and in any pieces it is the same. */
static void test_sum_of_pieces(void **state)
{
	uint64_t words[WORDS], whole, pieces = 0;

	(void)state;
	fill(words);
	whole = gpu_read_sum(words, WORDS, 100);
	pieces += gpu_read_sum(words + 300, WORDS - 300, 400);
	pieces += gpu_read_sum(words, 1, 100);
	pieces += gpu_read_sum(words + 1, 299, 101);
	assert_int_equal(whole, pieces);
}

/* Known, so that a checksum that somebody has noted down stays good. */
static void test_sum_is_fixed(void **state)
{
	const uint64_t words[3] = {0, 1, UINT64_MAX};

	(void)state;
	assert_int_equal(gpu_read_sum(words, 0, 0), 0);
	assert_int_equal(gpu_read_sum(words, 1, 0), UINT64_C(0xe220a8397b1dcdaf));
	assert_int_not_equal(gpu_read_sum(words, 1, 1), gpu_read_sum(words, 1, 0));
}

/* A word that is another, in another place, or missing is noticed; zeroes too. */
static void test_sum_sees_changes(void **state)
{
	uint64_t words[WORDS], before, zeroes[WORDS] = {0};

	(void)state;
	fill(words);
	before = gpu_read_sum(words, WORDS, 0);
	assert_int_not_equal(before, gpu_read_sum(words, WORDS - 1, 0));
	assert_int_not_equal(before, gpu_read_sum(words, WORDS, 1));
	for (int i = 0; i < WORDS; i++) {
		words[i] ^= UINT64_C(1) << i % 64;
		assert_int_not_equal(before, gpu_read_sum(words, WORDS, 0));
		words[i] ^= UINT64_C(1) << i % 64;
	}
	for (int i = 1; i < WORDS; i++) {
		uint64_t first = words[0];

		words[0] = words[i];
		words[i] = first;
		assert_int_not_equal(before, gpu_read_sum(words, WORDS, 0));
		words[i] = words[0];
		words[0] = first;
	}
	assert_int_not_equal(gpu_read_sum(zeroes, WORDS, 0), gpu_read_sum(zeroes, WORDS - 1, 0));
}

/* Every line comes once, whatever their number. */
static void test_order(void **state)
{
	(void)state;
	for (uint64_t lines = 1; lines < 1500; lines += 1 + lines / 20) {
		for (int random = 0; random < 2; random++) {
			struct gpu_read_order order = gpu_read_order(lines, random);
			uint8_t *seen = calloc(lines, 1);
			uint64_t in_place = 0;

			assert_non_null(seen);
			for (uint64_t k = 0; k < lines; k++) {
				uint64_t line = gpu_read_line(&order, k);

				assert_true(line < lines);
				assert_int_equal(seen[line], 0);
				seen[line] = 1;
				in_place += line == k;
			}
			free(seen);
			if (!random)
				assert_int_equal(in_place, lines);
			else if (lines > 100)
				assert_true(in_place < lines / 10);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sum_of_pieces),
		cmocka_unit_test(test_sum_is_fixed),
		cmocka_unit_test(test_sum_sees_changes),
		cmocka_unit_test(test_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
