/* SPDX-License-Identifier: BSD-2-Clause */
#include "fth_test.h"

#include "tpch_shuffle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINES 350000u /* three parts */
#define WIDTH 128

static char folder[32], plain[64], shuffled[64], again[64];

static int make_folder(void **state)
{
	FILE *file;

	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/tpch-shuffle-XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(plain, sizeof(plain), "%s/plain", folder);
	snprintf(shuffled, sizeof(shuffled), "%s/shuffled", folder);
	snprintf(again, sizeof(again), "%s/again", folder);
	file = fopen(plain, "w");
	assert_non_null(file);
	for (unsigned i = 0; i < LINES; i++)
		fprintf(file, "%u|%0*u\n", i, 100 + i % 7, 0);
	assert_int_equal(fclose(file), 0);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	unlink(plain);
	unlink(shuffled);
	unlink(again);
	return rmdir(folder);
}

/* Numbers of the lines of a file, in order. Each line must be whole, and come once. */
static unsigned *numbers_of(const char *path)
{
	unsigned *numbers = calloc(LINES, sizeof(*numbers)), count = 0;
	char *seen = calloc(LINES, 1), line[WIDTH];
	FILE *file = fopen(path, "r");

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		char *end;
		unsigned number = (unsigned)strtoul(line, &end, 10);

		assert_true(number < LINES && count < LINES && !seen[number]);
		assert_int_equal(strlen(end), 1 + 100 + number % 7 + 1);
		seen[number] = 1;
		numbers[count++] = number;
	}
	assert_int_equal(count, LINES);
	fclose(file);
	free(seen);
	return numbers;
}

static void every_line_is_there_once(void **state)
{
	unsigned *numbers, ascending = 0, moved_far = 0;

	(void)state;
	assert_ok(tpch_shuffle_lines(plain, shuffled, 7));
	numbers = numbers_of(shuffled);
	for (unsigned i = 1; i < LINES; i++) {
		unsigned distance = numbers[i] > i ? numbers[i] - i : i - numbers[i];

		ascending += numbers[i] > numbers[i - 1];
		moved_far += distance > LINES / 4;
	}
	/* Half of the neighbours ascend, and 9/16 of the lines move by more than a quarter. */
	assert_in_range(ascending, LINES / 100 * 49, LINES / 100 * 51);
	assert_in_range(moved_far, LINES / 100 * 55, LINES / 100 * 58);
	free(numbers);
}

static void the_seed_decides(void **state)
{
	unsigned *first, *second;

	(void)state;
	assert_ok(tpch_shuffle_lines(plain, again, 7));
	first = numbers_of(shuffled);
	second = numbers_of(again);
	assert_memory_equal(first, second, LINES * sizeof(*first));
	free(second);
	assert_ok(tpch_shuffle_lines(plain, again, 8));
	second = numbers_of(again);
	assert_memory_not_equal(first, second, LINES * sizeof(*first));
	free(first);
	free(second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_line_is_there_once),
		cmocka_unit_test(the_seed_decides),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
