/* SPDX-License-Identifier: BSD-2-Clause */
/* Which facts are proved, and which an append keeps. */
#include "table/test/table_fixture.h"

#define ORDER                                                                           \
	(FTH_TABLE_SORTED | FTH_TABLE_STRICT | FTH_TABLE_CLUSTERED | FTH_TABLE_UNIQUE | \
	 FTH_TABLE_DENSE)

static struct fth_table_facts facts_of(struct table_fixture *f, const char *name)
{
	struct fth_table_facts facts;
	struct fth_table *table;

	assert_ok(fth_table_open(f->db, name, NULL, &table));
	facts = *fth_table_facts(table, 0);
	assert_int_equal(fth_table_check(table, fixture_say, NULL, NULL), 0);
	fth_table_close(table);
	return facts;
}

/* Append values to table t, in a batch of their own, and return the order facts then. */
static uint32_t order_after(struct table_fixture *f, const int64_t *values, uint32_t n)
{
	fixture_append_ints(f, "t", values, NULL, n, NULL);
	return facts_of(f, "t").flags & ORDER;
}

#define ORDER_AFTER(f, ...)                            \
	order_after(f, (const int64_t[]){__VA_ARGS__}, \
		    sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static void start(struct table_fixture *f)
{
	fixture_open(f);
	fixture_create(f, "t", "a bigint");
}

static void sorted_columns_stay_sorted(void **state)
{
	struct table_fixture f;

	(void)state;
	start(&f);
	assert_int_equal(ORDER_AFTER(&f, 1, 2, 3), ORDER);
	assert_int_equal(ORDER_AFTER(&f, 4), ORDER);
	assert_int_equal(ORDER_AFTER(&f, 6, 7), ORDER & ~FTH_TABLE_DENSE);
	assert_int_equal(ORDER_AFTER(&f, 7, 7), FTH_TABLE_SORTED | FTH_TABLE_CLUSTERED);
	assert_int_equal(facts_of(&f, "t").max_run, 3);
	assert_int_equal(facts_of(&f, "t").distinct, 6);
	/* Below all that was there: not sorted, and still clustered. */
	assert_int_equal(ORDER_AFTER(&f, 0), FTH_TABLE_CLUSTERED);
	/* 5 is between the smallest and the largest, so nobody knows. */
	assert_int_equal(ORDER_AFTER(&f, 5), 0);
	assert_int_equal(ORDER_AFTER(&f, 100), 0);
	fixture_close(&f);
}

static void unsorted_columns_can_be_unique(void **state)
{
	struct table_fixture f;

	(void)state;
	start(&f);
	assert_int_equal(ORDER_AFTER(&f, 3, 1, 2),
			 FTH_TABLE_CLUSTERED | FTH_TABLE_UNIQUE | FTH_TABLE_DENSE);
	assert_int_equal(ORDER_AFTER(&f, 5, 4),
			 FTH_TABLE_CLUSTERED | FTH_TABLE_UNIQUE | FTH_TABLE_DENSE);
	assert_int_equal(ORDER_AFTER(&f, 9, 8, 9), 0);
	fixture_close(&f);
}

static void values_that_return_are_not_clustered(void **state)
{
	struct table_fixture f;

	(void)state;
	start(&f);
	assert_int_equal(ORDER_AFTER(&f, 1, 1, 5, 5, 3, 3), FTH_TABLE_CLUSTERED);
	fixture_close(&f);
	start(&f);
	assert_int_equal(ORDER_AFTER(&f, 1, 1, 5, 5, 1), 0);
	fixture_close(&f);
}

static void nulls_end_all_order(void **state)
{
	static const uint8_t nulls[] = {0, 1, 0};
	static const int64_t values[] = {1, 2, 3};
	struct fth_table_facts facts;
	struct table_fixture f;

	(void)state;
	start(&f);
	fixture_append_ints(&f, "t", values, nulls, 3, NULL);
	facts = facts_of(&f, "t");
	assert_int_equal(facts.flags & (ORDER | FTH_TABLE_NO_NULLS), 0);
	assert_int_equal(facts.nulls, 1);
	assert_int_equal(ORDER_AFTER(&f, 4), 0);
	fixture_close(&f);
}

static void little_memory_proves_less(void **state)
{
	struct fth_table_write_options options = FTH_TABLE_WRITE_OPTIONS_INIT;
	int64_t values[1000];
	struct table_fixture f;

	(void)state;
	options.fact_memory = 64 << 10;
	for (int64_t i = 0; i < 1000; i++)
		values[i] = i * 1000003;
	start(&f);
	fixture_append_ints(&f, "t", values, NULL, 1000, &options);
	/* Sorted values need no memory. */
	assert_int_equal(facts_of(&f, "t").flags & ORDER, ORDER & ~FTH_TABLE_DENSE);
	fixture_close(&f);
	values[999] = -1;
	start(&f);
	fixture_append_ints(&f, "t", values, NULL, 1000, &options);
	assert_int_equal(facts_of(&f, "t").flags & ORDER, 0);
	fixture_close(&f);
}

/*
 * Keys of three times a column's memory are proved unique where another column needs none of its
 * own.
 */
static void columns_leave_memory_to_others(void **state)
{
	enum { ROWS = 1000, APART = 3001 };
	struct fth_table_write_options options = FTH_TABLE_WRITE_OPTIONS_INIT;
	int64_t keys[ROWS], others[ROWS];
	const struct fth_table_vector vectors[] = {
		{.values = keys}, {.values = others}, {.values = others}};
	struct fth_table_writer *writer;
	struct table_fixture f;

	(void)state;
	options.fact_memory = 150 << 10;
	options.group_rows = 100;
	for (int64_t i = 0; i < ROWS; i++) {
		keys[i] = (ROWS - i) * APART; /* 92 pages of 4 KiB */
		others[i] = i % 2;
	}
	for (int repeated = 0; repeated < 2; repeated++) {
		uint32_t wanted = repeated ? 0 : FTH_TABLE_CLUSTERED | FTH_TABLE_UNIQUE;

		fixture_open(&f);
		fixture_create(&f, "t", "a bigint, b bigint, c bigint");
		keys[ROWS - 1] = repeated ? keys[0] : keys[ROWS - 1];
		assert_ok(fth_table_writer_open(f.db, "t", &options, &writer));
		assert_ok(fth_table_writer_append(writer, vectors, ROWS));
		assert_ok(fth_table_writer_commit(writer));
		fth_table_writer_close(writer);
		assert_int_equal(facts_of(&f, "t").flags & ORDER, wanted);
		fixture_close(&f);
	}
}

/* Runs of 1 to 7 equal keys, as orders have items. */
static void groups_are_cut_between_keys(void **state)
{
	struct fth_table_write_options options = FTH_TABLE_WRITE_OPTIONS_INIT;
	struct fth_rng rng = {5};
	struct fth_table *table;
	struct table_fixture f;
	int64_t values[20000], key = 0;
	uint32_t run = 0;

	(void)state;
	options.group_rows = 8000;
	for (uint32_t i = 0; i < 20000; i++) {
		if (run == 0) {
			run = 1 + (uint32_t)fth_rng_below(&rng, 7);
			key += 1 + (int64_t)fth_rng_below(&rng, 25);
		}
		run--;
		values[i] = key;
	}
	start(&f);
	fixture_append_ints(&f, "t", values, NULL, 20000, &options);
	assert_true(facts_of(&f, "t").flags & FTH_TABLE_WHOLE_RUNS);
	assert_ok(fth_table_open(f.db, "t", NULL, &table));
	assert_int_equal(fth_table_groups(table), 3);
	assert_int_equal(fth_table_chunk(table, 0, 0)->encoding, FTH_TABLE_RUNS);
	fth_table_close(table);
	fixture_close(&f);
}

static void long_keys_span_groups(void **state)
{
	struct fth_table_write_options options = FTH_TABLE_WRITE_OPTIONS_INIT;
	int64_t values[2500] = {0};
	struct table_fixture f;

	(void)state;
	options.group_rows = 1000;
	fixture_open(&f);
	fixture_create(&f, "t", "a bigint cluster by (a)");
	values[0] = -1;
	fixture_append_ints(&f, "t", values, NULL, 2500, &options);
	assert_int_equal(facts_of(&f, "t").flags & (ORDER | FTH_TABLE_WHOLE_RUNS),
			 FTH_TABLE_SORTED | FTH_TABLE_CLUSTERED | FTH_TABLE_DENSE);
	assert_int_equal(facts_of(&f, "t").max_run, 2499);
	fixture_close(&f);
}

/* Append strings, of which there are `distinct`, named by prefix. */
static void append_words(struct table_fixture *f, const char *prefix, uint32_t distinct,
			 uint32_t rows)
{
	char *bytes = malloc((size_t)rows * 40);
	uint32_t *offsets = calloc(rows + 1, sizeof(*offsets));
	struct fth_table_vector vector = {.offsets = offsets, .bytes = bytes};
	struct fth_table_writer *writer;

	for (uint32_t i = 0; i < rows; i++)
		offsets[i + 1] = offsets[i] + (uint32_t)sprintf(bytes + offsets[i], "%s%06u",
								prefix, (i * 7919) % distinct);
	assert_ok(fth_table_writer_open(f->db, "t", NULL, &writer));
	assert_ok(fth_table_writer_append(writer, &vector, rows));
	assert_ok(fth_table_writer_commit(writer));
	fth_table_writer_close(writer);
	free(bytes);
	free(offsets);
}

static void dictionaries_grow_until_they_are_full(void **state)
{
	const uint32_t codes = FTH_TABLE_ALL_CODES | FTH_TABLE_ORDERED_CODES;
	struct fth_table_facts facts;
	struct table_fixture f;

	(void)state;
	fixture_open(&f);
	fixture_create(&f, "t", "a varchar");
	append_words(&f, "b", 100, 1000);
	facts = facts_of(&f, "t");
	assert_int_equal(facts.flags & (codes | FTH_TABLE_DISTINCT), codes | FTH_TABLE_DISTINCT);
	assert_int_equal(facts.distinct, 100);
	append_words(&f, "c", 50, 1000);
	assert_int_equal(facts_of(&f, "t").flags & codes, codes);
	assert_int_equal(facts_of(&f, "t").dictionary, 150);
	append_words(&f, "a", 50, 1000);
	assert_int_equal(facts_of(&f, "t").flags & codes, FTH_TABLE_ALL_CODES);
	append_words(&f, "d", 30000, 30000);
	facts = facts_of(&f, "t");
	assert_int_equal(facts.flags & codes, 0);
	assert_int_equal(facts.dictionary, 200);
	assert_in_range(facts.distinct, 27000, 33000);
	append_words(&f, "d", 300, 30000);
	facts_of(&f, "t");
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sorted_columns_stay_sorted),
		cmocka_unit_test(unsorted_columns_can_be_unique),
		cmocka_unit_test(values_that_return_are_not_clustered),
		cmocka_unit_test(nulls_end_all_order),
		cmocka_unit_test(little_memory_proves_less),
		cmocka_unit_test(columns_leave_memory_to_others),
		cmocka_unit_test(groups_are_cut_between_keys),
		cmocka_unit_test(long_keys_span_groups),
		cmocka_unit_test(dictionaries_grow_until_they_are_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
