/* SPDX-License-Identifier: BSD-2-Clause */
#include "workloads/micro/gups.h"

#include "fth_test.h"

#include <errno.h>
#include <stdlib.h>

#define WORDS 65536u /* 512 KiB, eight times the cache */

struct table {
	struct fth_cache *cache;
	struct fth_array *array;
};

static void open_table(struct table *table, const char *uri, uint32_t line)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;

	options.memory = 64 << 10;
	options.line = line;
	assert_ok(fth_cache_open(&options, &table->cache));
	assert_ok(fth_array_open(table->cache, uri, sizeof(uint64_t), NULL, &table->array));
}

static void close_table(struct table *table)
{
	assert_ok(fth_array_close(table->array));
	assert_ok(fth_cache_close(table->cache));
}

static void the_sequence_is_hpcc_s(void **state)
{
	uint64_t r = 1;

	(void)state;
	for (uint64_t n = 0; n < 1000; n++, r = fth_gups_next(r))
		assert_int_equal(fth_gups_nth(n), r);
	/* The 64th power of x is x^2 + x + 1, and squaring it gives the 128th. */
	assert_int_equal(fth_gups_nth(64), 7);
	assert_int_equal(fth_gups_nth(128), 0x15);
	/* The period that HPCC gives for it. */
	assert_int_equal(fth_gups_nth(1317624576693539401u), 1);
}

static void updates_do_what_a_plain_loop_does(void **state)
{
	struct fth_gups_options how = {.words = WORDS, .updates = 50000, .first = 99, .threads = 3};
	uint64_t *plain = malloc(WORDS * 8), *found = malloc(WORDS * 8), r = fth_gups_nth(99);
	struct table table;

	(void)state;
	open_table(&table, "mem:512K", 512);
	assert_ok(fth_gups_fill(table.array, &how));
	assert_ok(fth_gups_run(table.array, &how));
	for (uint64_t i = 0; i < WORDS; i++)
		plain[i] = i;
	for (uint64_t i = 0; i < 50000; i++, r = fth_gups_next(r))
		plain[r % WORDS] ^= r;
	assert_ok(fth_array_read(table.array, 0, WORDS, found));
	assert_memory_equal(found, plain, WORDS * 8);
	close_table(&table);
	free(found);
	free(plain);
}

static void twice_is_as_never(void **state)
{
	struct fth_gups_options how = {
		.updates = 40000, .first = 1000000, .threads = 4, .batch = 100};
	struct table table;
	uint64_t wrong;

	(void)state;
	open_table(&table, "mem:512K", 4096);
	assert_ok(fth_gups_fill(table.array, &how));
	assert_ok(fth_gups_run(table.array, &how));
	assert_ok(fth_gups_check(table.array, &how, &wrong));
	assert_true(wrong > WORDS / 4);
	assert_ok(fth_gups_run(table.array, &how));
	assert_ok(fth_gups_check(table.array, &how, &wrong));
	assert_int_equal(wrong, 0);
	close_table(&table);
}

static void options_that_can_not_be_are_refused(void **state)
{
	struct fth_gups_options how = {.words = 3}, settled;
	struct table table;

	(void)state;
	open_table(&table, "mem:512K", 512);
	assert_int_equal(fth_gups_settle(table.array, &how, &settled), -EINVAL);
	how.words = 2 * WORDS;
	assert_int_equal(fth_gups_run(table.array, &how), -EINVAL);
	assert_ok(fth_gups_settle(table.array, NULL, &settled));
	assert_int_equal(settled.words, WORDS);
	assert_int_equal(settled.updates, 4 * WORDS);
	close_table(&table);
}

static bool now(void)
{
	return true;
}

static void it_can_be_stopped(void **state)
{
	struct fth_gups_options how = {.threads = 2, .stopped = now};
	struct table table;

	(void)state;
	open_table(&table, "mem:512K", 512);
	assert_int_equal(fth_gups_run(table.array, &how), -EINTR);
	close_table(&table);
}

static void a_failed_read_is_an_error(void **state)
{
	struct fth_gups_options how = {.words = WORDS, .updates = 20000, .threads = 2};
	struct table table;

	(void)state;
	open_table(&table, "fault(mem:512K)?kind=read&nth=500&every=1", 512);
	assert_ok(fth_gups_fill(table.array, &how));
	assert_int_equal(fth_gups_run(table.array, &how), -EIO);
	close_table(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_sequence_is_hpcc_s),
		cmocka_unit_test(updates_do_what_a_plain_loop_does),
		cmocka_unit_test(twice_is_as_never),
		cmocka_unit_test(options_that_can_not_be_are_refused),
		cmocka_unit_test(it_can_be_stopped),
		cmocka_unit_test(a_failed_read_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
