/* SPDX-License-Identifier: BSD-2-Clause */
#include "fth_test.h"

#include "fathom/base/checksum.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

static void a_text_belongs_to_its_error(void **state)
{
	(void)state;
	assert_int_equal(fth_fail(EINVAL, "part %d is bad", 7), -EINVAL);
	assert_string_equal(fth_error_text(-EINVAL), "part 7 is bad");
	assert_string_equal(fth_error_text(-EIO), strerror(EIO));
	assert_string_equal(fth_error_text(0), "success");
}

static void a_prefix_says_where(void **state)
{
	(void)state;
	fth_fail(EIO, "block 3");
	assert_int_equal(fth_fail_in(-EIO, "volume a"), -EIO);
	assert_string_equal(fth_error_text(-EIO), "volume a: block 3");
}

static void a_long_text_is_cut_not_overrun(void **state)
{
	char longer[2 * FTH_ERROR_TEXT_MAX];

	(void)state;
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	fth_fail(EIO, "%s", longer);
	assert_int_equal(strlen(fth_error_text(-EIO)), FTH_ERROR_TEXT_MAX - 1);
	fth_fail_in(-EIO, longer);
	assert_int_equal(strlen(fth_error_text(-EIO)), FTH_ERROR_TEXT_MAX - 1);
}

static void *fail_elsewhere(void *arg)
{
	fth_fail(EIO, "other thread");
	return arg;
}

static void texts_are_per_thread(void **state)
{
	pthread_t thread;

	(void)state;
	fth_fail(EIO, "mine");
	assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
	pthread_join(thread, NULL);
	assert_string_equal(fth_error_text(-EIO), "mine");
	fth_error_clear();
	assert_string_equal(fth_error_text(-EIO), strerror(EIO));
}

static void checksums_see_every_bit_and_the_seed(void **state)
{
	unsigned char data[64] = {0};
	uint64_t clean = fth_checksum(data, sizeof(data), 1);

	(void)state;
	/* The published XXH3 value for empty input and seed 0: what is on media must not drift. */
	assert_true(fth_checksum("", 0, 0) == 0x2d06800538d394c2u);
	assert_true(fth_checksum(data, sizeof(data), 2) != clean);
	for (unsigned bit = 0; bit < 8 * sizeof(data); bit++) {
		data[bit / 8] ^= (unsigned char)(1u << bit % 8);
		assert_true(fth_checksum(data, sizeof(data), 1) != clean);
		data[bit / 8] ^= (unsigned char)(1u << bit % 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_text_belongs_to_its_error),
		cmocka_unit_test(a_prefix_says_where),
		cmocka_unit_test(a_long_text_is_cut_not_overrun),
		cmocka_unit_test(texts_are_per_thread),
		cmocka_unit_test(checksums_see_every_bit_and_the_seed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
