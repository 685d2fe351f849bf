/* SPDX-License-Identifier: BSD-2-Clause */
/* Patterns of LIKE: their needle, and the search for it in many rows at once. */
#include "fth_test.h"

#include "query/vec/like.h"

#include "fathom/base/rng.h"

#include <stdlib.h>

/* Hits across two rows do not count, and every row that holds the text does. */
static void a_block_is_searched_as_a_whole(void **state)
{
	void *memory = malloc(fth_like_bytes(5));
	struct fth_rng rng = {3};
	struct fth_like like;

	(void)state;
	assert_ok(fth_like_compile(fth_str_of("%aba%"), '\\', memory, &like));
	assert_true(fth_like_is_contains(&like));
	for (unsigned round = 0; round < 2000; round++) {
		struct fth_str rows[100];
		uint64_t bits[2];
		char block[1000];
		size_t at = 0;

		for (unsigned i = 0; i < 100; i++) {
			uint32_t len = (uint32_t)fth_rng_below(&rng, 9);

			rows[i] = (struct fth_str){block + at, len, 0};
			for (uint32_t j = 0; j < len; j++)
				block[at++] = (char)('a' + fth_rng_below(&rng, 2));
		}
		fth_like_search(fth_like_needle(&like), rows, 100, block, at, bits);
		for (unsigned i = 0; i < 100; i++)
			assert_int_equal(fth_bit(bits, i), fth_like_match(&like, rows[i]));
	}
	free(memory);
}

/* The longest text that is tied neither to the start nor to the end, and has no wildcard. */
static void patterns_have_a_needle(void **state)
{
	static const char *const cases[][2] = {
		{"%special%requests%", "requests"},
		{"a%bcd%e", "bcd"},
		{"%ab_cde%f%", "f"},
		{"abc%", NULL},
		{"%abc", NULL},
		{"abc", NULL},
		{"%", NULL},
		{"", NULL},
		{"%a_b%", NULL},
		{"abc%de", NULL},
		{"%ab%cd", "ab"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct fth_like_piece *needle;
		struct fth_str pattern = fth_str_of(cases[i][0]);
		void *memory = malloc(fth_like_bytes(pattern.len));
		struct fth_like like;

		assert_ok(fth_like_compile(pattern, '\\', memory, &like));
		needle = fth_like_needle(&like);
		assert_int_equal(needle != NULL, cases[i][1] != NULL);
		if (needle) {
			assert_int_equal(needle->len, strlen(cases[i][1]));
			assert_memory_equal(needle->text, cases[i][1], needle->len);
		}
		free(memory);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(patterns_have_a_needle),
		cmocka_unit_test(a_block_is_searched_as_a_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
