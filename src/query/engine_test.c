/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From SQL text to rows: front end, planner and executor on small tables, in several budgets and
 * threads.
 */
#include "table/test/table_fixture.h"

#include "query/db_catalog.h"
#include "query/plan/plan.h"
#include "query/query.h"
#include "query/sql/sql.h"
#include "query/exec/exec.h"
#include "query/spill/result_rows.h"
#include "scalar/calendar.h"
#include "scalar/calendar.h"
#include "scalar/num.h"

struct answer {
	const struct task *last;
	FILE *out;
};

static void print_value(FILE *out, struct fth_type type, const struct fth_vec *v, unsigned i)
{
	char text[FTH_NUM_TEXT];
	struct fth_str s;

	if (v->nulls && fth_bit(v->nulls, i)) {
		fputs("null", out);
	} else if (fth_type_is_text(type)) {
		s = rows_text(v, i);
		fwrite(s.data, 1, s.len, out);
	} else if (type.kind == FTH_T_DOUBLE) {
		fprintf(out, "%g", ((const double *)v->data)[i]);
	} else if (type.kind == FTH_T_BOOL) {
		fputs(fth_bit(v->data, i) ? "true" : "false", out);
	} else if (type.kind == FTH_T_DATE) {
		fwrite(text, 1, fth_date_text((int32_t)fth_vec_int(v, i), text), out);
	} else {
		fwrite(text, 1,
		       fth_dec_text(fth_vec_int(v, i), type.kind == FTH_T_DECIMAL ? type.scale : 0,
				    text),
		       out);
	}
}

static int print_rows(void *user, const struct fth_vec *columns, const struct fth_sel *sel)
{
	struct answer *a = user;

	for (unsigned i = 0; i < sel->n; i++) {
		if (!fth_bit(sel->bits, i))
			continue;
		for (unsigned k = 0; k < a->last->result_count; k++) {
			fputs(k == 0 ? "" : "|", a->out);
			print_value(a->out, a->last->result[k].type, &columns[k], i);
		}
		fputs(" ", a->out);
	}
	return 0;
}

/*
 * Rows as text, "a|b c|d ", or "error: ..."; to be freed. Everything that was allocated is given
 * back.
 */
static char *ask(struct table_fixture *f, const char *sql, uint64_t budget, unsigned threads)
{
	struct fth_qmem *mem = fth_qmem_new(budget);
	struct exec_options options = {.mem = mem, .threads = threads};
	struct plan_options plan = {.mem = mem, .open = catalog_table};
	struct sql_statement *statement = NULL;
	struct fth_arena arena = {0};
	struct catalog *catalog;
	struct task_set set;
	struct answer a;
	size_t length;
	char *text;
	int rc;

	a.out = open_memstream(&text, &length);
	assert_ok(catalog_new(f->db, mem, &catalog));
	plan.self = catalog;
	fth_arena_init(&arena, mem, 1 << 14);
	rc = sql_compile(catalog_sql(catalog), sql, NULL, &statement, NULL);
	if (rc == 0)
		rc = plan_query(&statement->query, &plan, &arena, &set);
	if (rc == 0) {
		a.last = &set.tasks[set.task_count - 1];
		rc = exec_run(&set, &options, print_rows, &a, NULL);
	}
	if (rc < 0)
		fprintf(a.out, "error: %s", fth_error_text(rc));
	fclose(a.out);
	sql_free(statement);
	fth_arena_release(&arena);
	catalog_free(catalog);
	assert_int_equal(fth_qmem_close(mem), 0);
	return text;
}

static void expect(struct table_fixture *f, const char *sql, const char *want)
{
	for (unsigned threads = 1; threads <= 3; threads++) {
		char *got = ask(f, sql, 64 << 20, threads);

		if (strcmp(got, want) != 0)
			fail_msg("%s\nwant %s\ngot  %s", sql, want, got);
		free(got);
	}
}

static void open_shop(struct table_fixture *f)
{
	fixture_open(f);
	fixture_fill(f, "people",
		     "id int not null, name varchar(20), town varchar(20), born date, worth double",
		     "1,ann,ulm,1990-01-31,1.5\n2,bob,bonn,1985-05-05,-2\n3,cid,,2000-02-29,\n4,"
		     "dora,ulm,,"
		     "0.25\n");
	fixture_fill(f, "sales", "item int not null, person int, price decimal(10,2), paid bool",
		     "10,1,5.50,true\n11,1,4.50,false\n12,2,100.00,true\n13,,1.00,true\n14,9,2.00,"
		     "\n15,1,,"
		     "true\n");
	fixture_fill(f, "nothing", "id int, name varchar(10)", "");
}

static void single_tables(void **state)
{
	struct table_fixture f;

	(void)state;
	open_shop(&f);
	expect(&f, "select 1 + 1, 'a' || 'b'", "2|ab ");
	expect(&f, "select name from people where id > 2 order by name desc", "dora cid ");
	expect(&f,
	       "select id, born + interval '1 month' from people where born is not null order by "
	       "id",
	       "1|1990-02-28 2|1985-06-05 3|2000-03-29 ");
	expect(&f, "select count(*), count(town), sum(worth), min(born), max(name) from people",
	       "4|3|-0.25|1985-05-05|dora ");
	expect(&f, "select town, count(*) from people group by town order by town nulls first",
	       "null|1 bonn|1 ulm|2 ");
	expect(&f, "select distinct town from people where town is not null order by 1",
	       "bonn ulm ");
	expect(&f, "select sum(price), avg(price), count(distinct person) from sales",
	       "113.00|22.6000000000000000|3 ");
	expect(&f, "select paid, sum(price) from sales group by paid order by paid nulls last",
	       "false|4.50 true|106.50 null|2.00 ");
	expect(&f, "select item from sales order by price desc nulls last, item limit 2 offset 1",
	       "10 11 ");
	expect(&f, "select * from nothing", "");
	expect(&f, "select count(*), sum(id) from nothing", "0|null ");
	expect(&f, "select name, count(*) from nothing group by name", "");
	expect(&f,
	       "select id from people where id = 1 union all select item from sales where item = "
	       "10 order by 1",
	       "1 10 ");
	fixture_close(&f);
}

static void joins(void **state)
{
	struct table_fixture f;

	(void)state;
	open_shop(&f);
	expect(&f, "select name, price from people, sales where id = person order by item",
	       "ann|5.50 ann|4.50 bob|100.00 ann|null ");
	expect(&f,
	       "select name, count(item) from people left join sales on id = person group by name "
	       "order by 1",
	       "ann|3 bob|1 cid|0 dora|0 ");
	expect(&f,
	       "select name, item from people left join sales on id = person and price > 5 order "
	       "by 1, 2",
	       "ann|10 bob|12 cid|null dora|null ");
	expect(&f,
	       "select name from people where exists (select * from sales where person = id) order "
	       "by 1",
	       "ann bob ");
	expect(&f,
	       "select name from people where not exists (select * from sales where person = id) "
	       "order by 1",
	       "cid dora ");
	expect(&f, "select name from people where id in (select person from sales) order by 1",
	       "ann bob ");
	expect(&f, "select name from people where id not in (select person from sales)", "");
	expect(&f,
	       "select name from people where id not in (select person from sales where person is "
	       "not null) order by 1",
	       "cid dora ");
	expect(&f,
	       "select a.name, b.name from people a, people b where a.id < b.id and a.town = "
	       "b.town",
	       "ann|dora ");
	expect(&f,
	       "select s.item from sales s where exists (select * from sales t where t.person = "
	       "s.person and "
	       "t.item <> s.item) order by 1",
	       "10 11 15 ");
	expect(&f,
	       "select s.item from sales s where person is not null and not exists (select * from "
	       "sales t "
	       "where t.person = s.person and t.item <> s.item) order by 1",
	       "12 14 ");
	expect(&f,
	       "select name, (select max(price) from sales where person = id) from people order by "
	       "1",
	       "ann|5.50 bob|100.00 cid|null dora|null ");
	expect(&f,
	       "select item from sales where not exists (select * from people where id = person "
	       "and price > 5) order by 1",
	       "11 13 14 15 ");
	expect(&f, "select name, item from people full join sales on id = person order by id, item",
	       "ann|10 ann|11 ann|15 bob|12 cid|null dora|null null|13 null|14 ");
	expect(&f,
	       "select count(*), count(name), count(item) from people full join sales on id = "
	       "person and price > 5 where name is null or price is not null",
	       "6|2|6 ");
	expect(&f, "select count(*) from people, sales", "24 ");
	expect(&f, "select count(*) from people left join nothing on people.id = nothing.id", "4 ");
	expect(&f, "select name, (select item from sales where person = id) from people",
	       "error: more than one row returned by a subquery used as an expression");
	fixture_close(&f);
}

/* Decimals of different scales are equal if their values are. */
static void keys_of_two_scales(void **state)
{
	struct table_fixture f;

	(void)state;
	fixture_open(&f);
	fixture_fill(&f, "a", "x decimal(6,2), u int", "1.50,1\n2.00,2\n3.25,3\n");
	fixture_fill(&f, "b", "y decimal(8,4), v int", "1.5000,1\n2.0000,1\n3.2500,3\n3.2500,4\n");
	expect(&f, "select u, v from a, b where x = y order by 1, 2", "1|1 2|1 3|3 3|4 ");
	expect(&f,
	       "select u from a where exists (select * from b where y = x and v <> u) order by 1",
	       "2 3 ");
	expect(&f,
	       "select v from b where not exists (select * from a where y = x and v <> u) order by "
	       "1",
	       "1 3 ");
	fixture_close(&f);
}

/* Strings that have no dictionary: they are fetched late, but not inside a look-up. */
static void wide_strings(void **state)
{
	struct table_fixture f;
	char *notes;
	size_t length;
	FILE *text = open_memstream(&notes, &length);

	(void)state;
	for (int i = 0; i < 400; i++)
		fprintf(text, "%d,note %d of number %d\n", i, i * 7919 % 1000, i);
	fprintf(text, "400,\n");
	fclose(text);
	fixture_open(&f);
	fixture_fill(&f, "notes", "id int not null, note varchar(40)", notes);
	free(notes);
	/* Sorted, and enough of them for a nested build, if they were integers. */
	text = open_memstream(&notes, &length);
	for (int i = 0; i < 5000; i++)
		fprintf(text, "%d,name %06d\n", i % 7, i);
	fclose(text);
	fixture_fill(&f, "names", "id int not null, name varchar(40) not null", notes);
	free(notes);
	expect(&f,
	       "select count(*) from notes p where note not in (select note from notes q where "
	       "q.id < p.id)",
	       "400 ");
	expect(&f, "select count(*) from names a, names b where a.name = b.name and a.id = b.id",
	       "5000 ");
	expect(&f, "select note from notes where id = (select max(id) - 1 from notes)",
	       "note 681 of number 399 ");
	fixture_close(&f);
}

static void errors_of_rows(void **state)
{
	struct table_fixture f;

	(void)state;
	open_shop(&f);
	expect(&f, "select 10 / (id - 2) from people where id > 2 order by id", "10 5 ");
	expect(&f, "select 10 / (id - 2) from people", "error: division by zero");
	expect(&f, "select id * 2000000000 from people where id = 2",
	       "error: integer out of range");
	fixture_close(&f);
}

/* Tables of several row groups, sorted by the key: nested builds and groups of runs. */
static void sorted_tables(void **state)
{
	struct table_fixture f;
	char *orders, *lines, want[64];
	size_t length;
	FILE *o = open_memstream(&orders, &length), *l;
	int64_t sum = 0, late = 0;

	(void)state;
	l = open_memstream(&lines, &length);
	for (int i = 0; i < 150000; i++) {
		fprintf(o, "%d,%d\n", i * 4, i % 7);
		for (int k = 0; k <= i % 3; k++) {
			fprintf(l, "%d,%d,%d\n", i * 4, k, i % 11);
			if (i % 7 == 3)
				sum += i % 11;
		}
		late += i % 3 == 2;
	}
	fclose(o);
	fclose(l);
	fixture_open(&f);
	fixture_fill(&f, "orders", "o_key int not null, o_kind int not null", orders);
	fixture_fill(&f, "lines", "l_key int not null, l_line int not null, l_amount int not null",
		     lines);
	snprintf(want, sizeof(want), "%lld ", (long long)sum);
	expect(&f, "select sum(l_amount) from lines, orders where l_key = o_key and o_kind = 3",
	       want);
	snprintf(want, sizeof(want), "%lld ", (long long)late);
	expect(&f,
	       "select count(*) from orders where o_key in (select l_key from lines group by l_key "
	       "having "
	       "count(*) = 3)",
	       want);
	expect(&f,
	       "select count(*) from orders where exists (select * from lines where l_key = o_key "
	       "and "
	       "l_line = 2)",
	       want);
	expect(&f,
	       "select count(*) from (select l_key, count(*) as n from lines group by l_key) as t "
	       "where n = 3",
	       want);
	free(orders);
	free(lines);
	fixture_close(&f);
}

/* Structures that do not fit the smaller budget: the same rows, from several passes. */
static void joins_in_parts(void **state)
{
	static const char *const queries[] = {
		"select count(*), sum(a.v), sum(b.w) from a, b where a.k = b.k",
		"select count(*), sum(b.w) from a left join b on a.k = b.k and b.w > 500",
		"select count(*) from a where exists (select * from b where a.k = b.k and b.w < "
		"a.v)",
		"select count(*) from a where not exists (select * from b where a.k = b.k and b.w "
		"< a.v)",
		"select count(*) from a where k not in (select k from b where w < 300)",
		"select n, count(*) from (select a.id, count(b.w) as n from a left join b on a.k = "
		"b.k "
		"group by a.id) as t group by n order by n",
		"select count(*), sum(c.w), max(c.name) from a, b, b as c where a.k = b.k and b.k "
		"= c.k "
		"and c.w = a.v",
	};
	struct table_fixture f;
	char *left, *right;
	size_t length;
	FILE *l = open_memstream(&left, &length), *r;

	(void)state;
	r = open_memstream(&right, &length);
	for (uint64_t i = 0; i < 20000; i++) {
		uint64_t x = i * 2654435761u % 20000;

		fprintf(l, "%llu,%llu,%llu\n", (unsigned long long)i, (unsigned long long)x,
			(unsigned long long)(i % 1000));
		fprintf(r, "%llu,%llu,name %llu\n",
			(unsigned long long)(i % 5 == 0 ? x / 2 : i * 7 % 20000),
			(unsigned long long)(i * 37 % 1000), (unsigned long long)(x % 3000));
	}
	fclose(l);
	fclose(r);
	fixture_open(&f);
	fixture_fill(&f, "a", "id int not null, k int not null, v int not null", left);
	fixture_fill(&f, "b", "k int not null, w int not null, name varchar(20) not null", right);
	for (unsigned q = 0; q < sizeof(queries) / sizeof(*queries); q++) {
		char *want = ask(&f, queries[q], 1 << 30, 1);

		assert_null(strstr(want, "error"));
		for (unsigned threads = 1; threads <= 4; threads *= 2) {
			char *got = ask(&f, queries[q], 2 << 20, threads);

			if (strcmp(got, want) != 0)
				fail_msg("%s\nwant %s\ngot  %s", queries[q], want, got);
			free(got);
		}
		free(want);
	}
	free(left);
	free(right);
	fixture_close(&f);
}

static void too_small_a_budget(void **state)
{
	struct table_fixture f;
	bool worked = false;

	(void)state;
	open_shop(&f);
	for (uint64_t budget = 64 << 10; !worked && budget < (uint64_t)1 << 30;
	     budget += budget / 8) {
		char *got =
			ask(&f,
			    "select name, count(item) from people left join sales on id = person "
			    "group by name order by 1",
			    budget, 2);

		worked = strcmp(got, "ann|3 bob|1 cid|0 dora|0 ") == 0;
		if (!worked)
			assert_non_null(strstr(got, "error: "));
		free(got);
	}
	assert_true(worked);
	fixture_close(&f);
}

/* An INSERT that was compiled for one table does not write into another that has replaced it. */
static void columns_are_compared(void **state)
{
	static const char *const columns[] = {
		"a decimal(10,2)", "a decimal(10,4)",
		"b decimal(10,2)", "a decimal(10,2) not null",
		"a decimal(9,2)",  "a decimal(10,2), b int",
		"a varchar(10)",   "a varchar(11)",
		"a int",
	};
	enum { N = sizeof(columns) / sizeof(columns[0]) };
	struct fth_table_schema schema[N] = {0};

	(void)state;
	for (unsigned i = 0; i < N; i++)
		assert_ok(fth_table_schema_parse(&schema[i], columns[i]));
	for (unsigned i = 0; i < N; i++)
		for (unsigned j = 0; j < N; j++)
			assert_int_equal(append_same_columns(&schema[i], &schema[j]), i == j);
	for (unsigned i = 0; i < N; i++)
		fth_table_schema_release(&schema[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(columns_are_compared),
		cmocka_unit_test(single_tables),
		cmocka_unit_test(joins),
		cmocka_unit_test(errors_of_rows),
		cmocka_unit_test(sorted_tables),
		cmocka_unit_test(joins_in_parts),
		cmocka_unit_test(too_small_a_budget),
		cmocka_unit_test(wide_strings),
		cmocka_unit_test(keys_of_two_scales),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
