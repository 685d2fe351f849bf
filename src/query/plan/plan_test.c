/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rules of the planner on a schema of books: which tasks a query becomes, and that its answer is
 * right.
 */
#include "table/test/table_fixture.h"

#include "query/db_catalog.h"
#include "query/plan/plan.h"
#include "query/sql/sql.h"
#include "query/exec/exec.h"
#include "query/task/task_show.h"

#define BOOKS	7000
#define SALES	(BOOKS * 20)
#define AUTHORS 500
#define REGIONS 5

/*
 * books: id ascending, author = id % AUTHORS. shops: 50. sales in random order of books: none of
 * every seventh book, amount = 1 to 9.
 */
static int counts[BOOKS], sums[BOOKS];
static int first_shop[BOOKS], last_shop[BOOKS]; /* the least and the largest */
static int in_region[BOOKS][REGIONS]; /* sales in shops, whose number gives their region */

static void open_books(struct table_fixture *f)
{
	struct fth_rng rng = {7};
	char *text;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	fixture_open(f);
	for (int i = 0; i < BOOKS; i++)
		fprintf(out, "%d,%d,%d\n", i, i % AUTHORS, i % 90);
	fclose(out);
	fixture_fill(f, "books", "id int not null, author int not null, price int not null", text);
	free(text);
	out = open_memstream(&text, &length);
	for (int i = 0; i < 50; i++)
		fprintf(out, "%d,town%d\n", i, i);
	fclose(out);
	fixture_fill(f, "shops", "shop int not null, town varchar(20) not null", text);
	free(text);
	memset(counts, 0, sizeof(counts));
	memset(sums, 0, sizeof(sums));
	memset(in_region, 0, sizeof(in_region));
	out = open_memstream(&text, &length);
	for (int i = 0; i < SALES; i++) {
		int book = (int)fth_rng_below(&rng, BOOKS), amount = 1 + i % 9;

		book -= book % 7 == 0 && book > 0;
		if (book == 0)
			book = 1;
		if (counts[book] == 0 || i % 50 < first_shop[book])
			first_shop[book] = i % 50;
		if (counts[book] == 0 || i % 50 > last_shop[book])
			last_shop[book] = i % 50;
		counts[book]++;
		sums[book] += amount;
		in_region[book][i % 50 % REGIONS]++;
		fprintf(out, "%d,%d,%d\n", book, i % 50, amount);
	}
	fclose(out);
	fixture_fill(f, "sales", "book int not null, at int not null, amount int not null", text);
	free(text);
}

static int take_first(void *user, const struct fth_vec *columns, const struct fth_sel *sel)
{
	int64_t *first = user;

	for (unsigned i = 0; i < sel->n; i++)
		if (fth_bit(sel->bits, i))
			*first = (int64_t)fth_vec_int(&columns[0], i);
	return 0;
}

/* The memory of the planner for the latest query. */
static uint64_t planned_bytes;

/* The tasks of a query as text, to be freed; *answer is its first value. */
static char *plan_and_run_in(struct table_fixture *f, uint64_t budget, const char *sql,
			     int64_t *answer)
{
	struct sql_limits limits = {.memory = budget / 8};
	struct fth_qmem *mem = fth_qmem_new(budget);
	struct exec_options options = {.mem = mem, .threads = 2};
	struct plan_options plan = {.mem = mem, .open = catalog_table};
	struct sql_statement *statement = NULL;
	struct fth_arena arena = {0};
	struct catalog *catalog;
	struct task_set set;
	size_t length;
	char *text;
	FILE *out = open_memstream(&text, &length);

	assert_ok(catalog_new(f->db, mem, &catalog));
	plan.self = catalog;
	fth_arena_init(&arena, mem, 1 << 14);
	assert_ok(sql_compile(catalog_sql(catalog), sql, &limits, &statement, NULL));
	planned_bytes = fth_qmem_used(mem);
	assert_ok(plan_query(&statement->query, &plan, &arena, &set));
	planned_bytes = fth_qmem_used(mem) - planned_bytes;
	for (unsigned i = 0; i < set.task_count; i++)
		task_show_task(out, &set, i);
	fclose(out);
	assert_ok(exec_run(&set, &options, take_first, answer, NULL));
	sql_free(statement);
	fth_arena_release(&arena);
	catalog_free(catalog);
	assert_int_equal(fth_qmem_close(mem), 0);
	return text;
}

static char *plan_and_run(struct table_fixture *f, const char *sql, int64_t *answer)
{
	return plan_and_run_in(f, 64 << 20, sql, answer);
}

/* The answer, and pieces of the plan that come in this order; the last one is NULL. */
static void expect_plan(struct table_fixture *f, const char *sql, int64_t want,
			const char *const *pieces)
{
	int64_t answer = -1;
	char *text = plan_and_run(f, sql, &answer);
	const char *at = text;

	for (; *pieces; pieces++) {
		const char *found = strstr(at, *pieces);

		if (!found)
			fail_msg("%s\n%s\nlacks: %s", sql, text, *pieces);
		at = found + 1;
	}
	if (answer != want)
		fail_msg("%s\n%s\ngives %lld, not %lld", sql, text, (long long)answer,
			 (long long)want);
	free(text);
}

static void aggregates_are_made_for_wanted_keys(void **state)
{
	/* Books of one author are a set; sales are grouped for these books only. */
	const char *const pieces[] = {"table books",   "set by id", "table sales", "semi: book",
				      "group by book", "map by",    "table sales", NULL};
	struct table_fixture f;
	int64_t want = 0;

	(void)state;
	open_books(&f);
	for (int i = 0; i < BOOKS; i++)
		want += i % AUTHORS == 5 ? counts[i] : 0;
	expect_plan(
		&f,
		"select count(*) from sales s, books b where s.book = b.id and b.author = 5 and "
		"s.amount <= (select 9 * max(t.amount) from sales t where t.book = b.id)",
		want, pieces);
	fixture_close(&f);
}

static void groups_come_before_a_left_join(void **state)
{
	const char *const pieces[] = {"table sales", "group by book", "map by book", "table books",
				      "left: id",    "coalesce(",     NULL};
	const char *const plain[] = {"multimap by book", "table books", "left: id", NULL};
	struct table_fixture f;
	int64_t none = 0, most = 0;

	(void)state;
	open_books(&f);
	for (int i = 0; i < BOOKS; i++) {
		none += counts[i] == 0;
		most = counts[i] > most ? counts[i] : most;
	}
	assert_true(none > 500);
	expect_plan(
		&f,
		"select count(*) from (select id, count(amount) as n from books left join sales "
		"on id = book group by id) as t where n = 0",
		none, pieces);
	expect_plan(
		&f,
		"select max(n) from (select id, count(amount) as n from books left join sales on "
		"id = book group by id) as t",
		most, pieces);
	/* Here a book without sales counts as one: the rows of the join are needed. */
	expect_plan(
		&f,
		"select min(n) from (select id, count(coalesce(amount, 0)) as n from books left "
		"join sales on id = book group by id) as t",
		1, plain);
	fixture_close(&f);
}

static void what_removes_most_is_looked_up_first(void **state)
{
	const char *const pieces[] = {"task 0: table books", "author",	    "set by id",
				      "task 1: table shops", "table sales", "look up in 0",
				      "look up in 1",	     NULL};
	struct table_fixture f;
	int64_t want = 0;

	(void)state;
	open_books(&f);
	for (int i = 0; i < BOOKS; i++)
		want += i % AUTHORS == 5 ? sums[i] : 0;
	expect_plan(&f,
		    "select sum(amount) from sales, shops, books where book = id and at = shop and "
		    "author = 5 and town <> 'nowhere'",
		    want, pieces);
	fixture_close(&f);
}

static void lacks(struct table_fixture *f, const char *sql, int64_t want, const char *piece)
{
	int64_t answer = -1;
	char *text = plan_and_run(f, sql, &answer);

	if (strstr(text, piece))
		fail_msg("%s\n%s\nhas: %s", sql, text, piece);
	assert_int_equal(answer, want);
	free(text);
}

/* Identifiers of books grow by one: the row of a book is known without a structure. */
static void a_key_that_counts_rows_needs_no_structure(void **state)
{
	const char *const carried[] = {"map by row", "table sales", "compute row",
				       "look up in 0, inner: row", NULL};
	const char *const fetched[] = {"table sales", "compute row", "fetch from titles", NULL};
	const char *const reduced[] = {"set by number",
				       "map by row",
				       "table sales",
				       "look up in 0, inner: book",
				       "compute row",
				       "look up in 1, inner: row",
				       NULL};
	const char *const needed[] = {"set by number", "table wishes", "look up in 0", NULL};
	struct table_fixture f;
	int64_t words = 0, few = 0;
	char *text;
	size_t length;
	FILE *out;

	(void)state;
	open_books(&f);
	out = open_memstream(&text, &length);
	for (int i = 0; i < BOOKS; i++)
		fprintf(out, "%d,%d,%0*d\n", i, i % 3, 3 + i % 5, i);
	fclose(out);
	fixture_fill(&f, "titles",
		     "number int not null, kind int not null, title varchar(20) not null", text);
	free(text);
	fixture_fill(&f, "wishes", "wanted int", "-1\n0\n5\n\n6999\n7000\n5\n");
	for (int i = 0; i < BOOKS; i++) {
		int length_of = i >= 1000 && i % 5 == 0 ? 4 : 3 + i % 5;

		words += counts[i] * length_of;
		few += i % 3 == 1 ? counts[i] * length_of : 0;
	}
	lacks(&f, "select count(*) from sales, titles where book = number", SALES, "look up");
	lacks(&f, "select count(*) from sales where book in (select number from titles)", SALES,
	      "look up");
	expect_plan(&f, "select sum(length(title)) from sales, titles where book = number", words,
		    carried);
	/* Few rows need the text. */
	expect_plan(&f,
		    "select sum(length(title)) from sales, titles where book = number and at = 77",
		    0, fetched);
	expect_plan(&f,
		    "select sum(length(title)) from sales, titles where book = number and kind = 1",
		    few, reduced);
	/* Others than rows of titles are wanted, and null is. */
	expect_plan(&f, "select count(*) from wishes where wanted in (select number from titles)",
		    4, needed);
	fixture_close(&f);
}

/*
 * Sales of one shop are few: only their books are grouped, to find sales of the same book
 * elsewhere.
 */
static void groups_are_made_for_keys_that_are_looked_up(void **state)
{
	const char *const pieces[] = {"table shops", "table sales", "set by book",
				      "table sales", "semi: book",  "group by book",
				      "map by book", "inner: book", NULL};
	struct table_fixture f;
	int64_t want = 0, answer = -1;
	char *text;

	(void)state;
	open_books(&f);
	text = plan_and_run(&f, "select count(*) from sales where at = 7", &answer);
	free(text);
	want = answer;
	for (int i = 0; i < BOOKS; i++) /* those whose book was sold nowhere else */
		want -= counts[i] > 0 && first_shop[i] == 7 && last_shop[i] == 7 ? counts[i] : 0;
	assert_true(want > 0);
	expect_plan(&f,
		    "select count(*) from sales s, shops where s.at = shop and town = 'town7' and "
		    "exists (select * from sales t where t.book = s.book and t.at <> s.at)",
		    want, pieces);
	expect_plan(&f,
		    "select count(*) from sales s, shops where s.at = shop and town = 'town7' and "
		    "not exists (select * from sales t where t.book = s.book and t.at <> s.at)",
		    answer - want, (const char *const[]){"set by book", "semi: book", NULL});
	fixture_close(&f);
}

/* Readers are found by their number, and not by their region, which 600 of them share. */
static void keys_with_many_rows_are_expensive(void **state)
{
	enum { READERS = 3000, LOANS = 9000 };
	struct table_fixture f;
	int64_t want = 0;
	char *text;
	size_t length;
	FILE *out;

	(void)state;
	open_books(&f);
	out = open_memstream(&text, &length);
	for (int i = 0; i < READERS; i++)
		fprintf(out, "%d,%d\n", i, i % REGIONS);
	fclose(out);
	fixture_fill(&f, "readers", "reader int not null, home int not null", text);
	free(text);
	out = open_memstream(&text, &length);
	for (int i = 0; i < 50; i++)
		fprintf(out, "%d,%d\n", i, i % REGIONS);
	fclose(out);
	fixture_fill(&f, "places", "place int not null, region int not null", text);
	free(text);
	out = open_memstream(&text, &length);
	for (int i = 0; i < LOANS; i++) {
		int book = i * 13 % 6000, reader = i * 7 % READERS;

		want += in_region[book][reader % REGIONS];
		fprintf(out, "%d,%d\n", book, reader);
	}
	fclose(out);
	fixture_fill(&f, "loans", "lent int not null, borrower int not null", text);
	free(text);
	assert_true(want > 0);
	lacks(&f,
	      "select count(*) from sales, places, loans, readers where book = lent and at = place "
	      "and borrower = reader and home = region",
	      want, "multimap by home");
	fixture_close(&f);
}

/* How often sales are read. */
static unsigned scans_of_sales(struct table_fixture *f, const char *sql, int64_t want)
{
	int64_t answer = -1;
	char *text = plan_and_run(f, sql, &answer);
	unsigned scans = 0;

	for (const char *at = text; (at = strstr(at, "table sales")); at++)
		scans++;
	assert_int_equal(answer, want);
	free(text);
	return scans;
}

/* A WITH query that is named twice is run once if both give the same groups. */
static void equal_groups_are_made_once(void **state)
{
	struct table_fixture f;
	int64_t most = 0, large = 0, best = 0;

	(void)state;
	open_books(&f);
	for (int i = 0; i < BOOKS; i++)
		most = sums[i] > most ? sums[i] : most;
	for (int i = 0; i < BOOKS; i++) {
		best += sums[i] == most;
		large += counts[i] > 0 && 2 * sums[i] > most;
	}
	assert_int_equal(
		scans_of_sales(&f,
			       "with sold(book, n) as (select book, sum(amount) from sales "
			       "group by book) select count(*) from sold where n = "
			       "(select max(n) from sold)",
			       best),
		1);
	assert_int_equal(
		scans_of_sales(&f,
			       "with sold(book, n) as (select book, sum(amount) from sales "
			       "group by book) select count(*) from sold where 2 * n > "
			       "(select max(n) from sold)",
			       large),
		1);
	/* These differ. */
	assert_int_equal(
		scans_of_sales(&f,
			       "select count(*) from (select book, sum(amount) as n from "
			       "sales group by book) x where n = (select max(n) from "
			       "(select book, sum(amount) as n from sales where amount < 100 "
			       "group by book) y)",
			       best),
		2);
	fixture_close(&f);
}

/* All of 64 shops are the same: each is joined with the one before it, or with the first. */
static char *join_of_shops(unsigned count, bool star)
{
	char *text;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	fprintf(out, "select count(*) from shops s0");
	for (unsigned i = 1; i < count; i++)
		fprintf(out, ", shops s%u", i);
	for (unsigned i = 1; i < count; i++)
		fprintf(out, " %s s%u.town = s%u.town", i == 1 ? "where" : "and", star ? 0 : i - 1,
			i);
	fclose(out);
	return text;
}

static void joins_of_many_tables_are_planned_in_little_memory(void **state)
{
	struct table_fixture f;

	(void)state;
	open_books(&f);
	for (unsigned star = 0; star < 2; star++) {
		char *sql = join_of_shops(64, star != 0);
		int64_t answer = -1;

		free(plan_and_run_in(&f, 8 << 20, sql, &answer));
		assert_int_equal(answer, 50);
		assert_in_range(planned_bytes, 0, 1 << 20);
		free(sql);
	}
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(aggregates_are_made_for_wanted_keys),
		cmocka_unit_test(groups_come_before_a_left_join),
		cmocka_unit_test(what_removes_most_is_looked_up_first),
		cmocka_unit_test(a_key_that_counts_rows_needs_no_structure),
		cmocka_unit_test(groups_are_made_for_keys_that_are_looked_up),
		cmocka_unit_test(equal_groups_are_made_once),
		cmocka_unit_test(keys_with_many_rows_are_expensive),
		cmocka_unit_test(joins_of_many_tables_are_planned_in_little_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
