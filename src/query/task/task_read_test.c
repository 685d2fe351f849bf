/* SPDX-License-Identifier: BSD-2-Clause */
/* Task text: what is printed is read back as it was; wrong text is refused with its place. */
#include "table/test/table_fixture.h"

#include "fathom/base/error.h"
#include "fathom/query/task.h"
#include "query/db_catalog.h"
#include "query/plan/plan.h"
#include "query/sql/sql.h"
#include "query/task/task_read.h"
#include "query/task/task_show.h"

struct shop {
	struct table_fixture f;
	struct fth_query_db *db;
	struct fth_query *query;
};

static int no_rows(const struct fth_query_batch *batch, void *user)
{
	(void)batch;
	(void)user;
	return 0;
}

static void sql(struct shop *s, const char *text)
{
	if (fth_query_run(s->query, text, no_rows, NULL) < 0)
		fail_msg("%s: %s", text, fth_error_text(-EINVAL));
}

static void open_shop(struct shop *s)
{
	fixture_open(&s->f);
	assert_ok(fth_query_open(s->f.path, NULL, &s->db));
	assert_ok(fth_query_new(s->db, &s->query));
	sql(s, "create table people (id int primary key, name varchar(20), born date, pay "
	       "decimal(10,2))");
	sql(s,
	    "insert into people values (1, 'ann', date '1970-02-03', 10.50), (2, 'bo''b', null, 0),"
	    " (3, 'c\"id', date '2004-02-29', -7.25), (4, null, date '1999-12-31', null)");
	sql(s, "create table sales (person int, item varchar, price double precision, paid boolean,"
	       " n bigint not null)");
	sql(s, "insert into sales values (1, 'tea', 1.5, true, 9000000000), (1, 'jam', null, "
	       "false, 2),"
	       " (3, 'tea', 0.1, null, 3), (null, 'bun', 1e30, true, -4)");
	sql(s, "create table lines (key bigint not null, part int not null, amount int not null)"
	       " ");
	sql(s, "insert into lines values (1, 1, 5), (1, 2, 6), (2, 1, 7), (5, 1, -1), (5, 2, 3)");
}

static void close_shop(struct shop *s)
{
	fth_query_free(s->query);
	fth_query_close(s->db);
	fixture_close(&s->f);
}

/* ---- answers ---- */

static int print_rows(const struct fth_query_batch *batch, void *user)
{
	char text[256];

	for (unsigned row = 0; row < fth_query_rows(batch); row++) {
		for (unsigned i = 0; i < fth_query_columns(batch); i++) {
			fth_query_text(batch, row, i, text, sizeof(text));
			fprintf(user, "%s%s|", fth_query_null(batch, row, i) ? "null" : "", text);
		}
		putc('\n', user);
	}
	return 0;
}

static char *answer(struct fth_tasks *tasks)
{
	char *text;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	int rc = fth_tasks_run(tasks, print_rows, out);

	if (rc < 0)
		fprintf(out, "error: %s", fth_error_text(rc));
	fclose(out);
	return text;
}

/* Both texts of a set are read back: the same text, the same answer. */
static void round_trip(struct shop *s, const char *query)
{
	struct fth_tasks *planned, *read, *brief;
	char *text, *again, *want, *got, *got_brief, *short_text;
	int rc = fth_tasks_plan(s->query, query, &planned);

	if (rc < 0)
		fail_msg("%s: %s", query, fth_error_text(rc));
	text = fth_tasks_text(planned, true);
	short_text = fth_tasks_text(planned, false);
	want = answer(planned);
	rc = fth_tasks_parse(s->query, text, &read);
	if (rc < 0)
		fail_msg("%s\n%s\n%s", query, text, fth_error_text(rc));
	again = fth_tasks_text(read, true);
	assert_string_equal(text, again);
	rc = fth_tasks_parse(s->query, short_text, &brief);
	if (rc < 0)
		fail_msg("%s\n%s\n%s", query, short_text, fth_error_text(rc));
	got = answer(read);
	got_brief = answer(brief);
	assert_string_equal(want, got);
	assert_string_equal(want, got_brief);
	fth_tasks_free(planned);
	fth_tasks_free(read);
	fth_tasks_free(brief);
	free(text);
	free(short_text);
	free(again);
	free(want);
	free(got);
	free(got_brief);
}

static void all_parts(void **state)
{
	static const char *const queries[] = {
		"select 1",
		"select * from people order by id",
		"select id + 1, -id, id % 2, pay * 1.05, pay / 3, price * 2 from people, sales "
		"where id = person",
		"select name from people where name like '%n%' or name is null or id in (2, 3)",
		"select \"name\" as \"a b\"\"c\" from people where id between 1 and 2",
		"select extract(year from born), born + interval '1 month', born - date "
		"'2000-01-01' from people",
		"select upper(name) || 'x', substring(name from 2 for 1), length(name) from people "
		"order by 1",
		"select case when paid then 1 when price > 1 then 2 end, coalesce(item, 'none') "
		"from sales",
		"select cast(n as decimal(20,3)), cast(price as double precision), n::text from "
		"sales where n < 5",
		"select a.item from sales a join sales b on cast(a.n as decimal(38,0)) = "
		"cast(b.n as decimal(38,10))",
		"select count(*), count(item), count(distinct item), sum(n), avg(price), "
		"min(born), max(pay)"
		" from sales left join people on id = person",
		"select item, sum(n), avg(n) from sales group by item having count(*) > 1 order by "
		"item",
		"select key, sum(amount), min(part) from lines group by key order by sum(amount) "
		"desc nulls first"
		" limit 2 offset 1",
		"select name from people where not exists (select * from sales where person = id)",
		"select name, (select max(n) from sales where person = id) from people order by 1",
		"select id from people union select n from sales where n < 5 order by 1",
		"select distinct paid from sales",
		"select p.name, q.name from people p, people q where p.id < q.id order by 1, 2",
		"select sum(amount) from lines, people where key = id and pay > 0",
		"select * from (values (1, 'a'), (2, null)) as v (n, t)",
		"select sum(amount) from lines where amount > 100",
	};
	struct shop s;

	(void)state;
	open_shop(&s);
	for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++)
		round_trip(&s, queries[i]);
	close_shop(&s);
}

/* ---- random sets ---- */

static const char *pick(uint64_t *seed, const char *const *list, size_t n)
{
	*seed = fth_mix64(*seed + 1);
	return list[*seed % n];
}
#define PICK(list) pick(&seed, list, sizeof(list) / sizeof((list)[0]))

static void random_sets(void **state)
{
	static const char *const from[] = {"people", "people join sales on id = person",
					   "people left join sales on id = person",
					   "people join lines on id = key",
					   "people left join lines on id = key and part = 1"};
	static const char *const number[] = {
		"id",	   "pay", "id * 3 - 7",
		"pay / 7", "-id", "case when id > 2 then pay else 1.5 end"};
	static const char *const where[] = {
		"id > 1",
		"name <> 'ann'",
		"born < date '2000-01-01' or pay > 1",
		"id in (1, 3, 4)",
		"pay is not null",
		"id in (select key from lines)",
		"name like '_n%'",
		"not exists (select * from sales where person = id and n > 2)"};
	static const char *const aggregate[] = {"sum", "min",	"max",
						"avg", "count", "count(distinct "};
	static const char *const key[] = {"name", "born", "id % 2", "extract(month from born)",
					  "paid"};
	struct shop s;

	(void)state;
	open_shop(&s);
	for (uint64_t seed = 1, i = 0; i < 150; i++) {
		const char *tables = PICK(from), *group = PICK(key), *a = PICK(aggregate);
		char text[600];

		if (strcmp(group, "paid") == 0)
			tables = from[1];
		if (i % 3 == 0)
			snprintf(text, sizeof(text),
				 "select %s, %s, name from %s where %s order by 1, 2, 3 limit %u",
				 PICK(number), PICK(number), tables, PICK(where),
				 (unsigned)(seed % 7));
		else
			snprintf(text, sizeof(text),
				 "select %s, %s%s%s), count(*) from %s where %s and %s group by %s "
				 "order by 1",
				 group, a, strchr(a, '(') ? "" : "(", PICK(number), tables,
				 PICK(where), PICK(where), group);
		round_trip(&s, text);
	}
	close_shop(&s);
}

/* ---- wrong text ---- */

static void refuse(struct shop *s, const char *text, const char *want)
{
	struct fth_tasks *tasks;
	int rc = fth_tasks_parse(s->query, text, &tasks);

	assert_true(rc < 0);
	assert_null(tasks);
	if (!strstr(fth_error_text(rc), want))
		fail_msg("%s\nwant %s\ngot  %s", text, want, fth_error_text(rc));
}

#define PEOPLE "task 0: table people: id#0, name#1, pay#2, born#3\n"

static void wrong_text(void **state)
{
	struct shop s;

	(void)state;
	open_shop(&s);
	refuse(&s, "", "line 1, column 1: expected task, found the end");
	refuse(&s, "task 1: table people: id#0 output: id#0",
	       "line 1, column 7: expected task 0 here");
	refuse(&s, "task 0: table nobody: id#0 output",
	       "line 1, column 15: table nobody does not exist");
	refuse(&s, "task 0: table people: ix#0 output", "table people has no column ix");
	refuse(&s, "task 0: table people: id#0, id#0 output", "slot #0 is assigned twice");
	refuse(&s, PEOPLE "output: id#0\nresult \"a\", \"b\"",
	       "line 3, column 11: expected task, result or");
	refuse(&s, PEOPLE "select id#0 > 1\n",
	       "line 3, column 1: expected a step or a reducer, found the end");
	refuse(&s, PEOPLE "select id#0\noutput: id#0", "line 2, column 8: expected a condition");
	refuse(&s, PEOPLE "select id#0 = 'x' output: id#0",
	       "= does not take 2 arguments of these types");
	refuse(&s, PEOPLE "select id#9 = 1 output: id#0",
	       "line 2, column 8: slot #9 has no value here");
	refuse(&s, PEOPLE "select ic#0 = 1 output: id#0",
	       "line 2, column 8: the name of slot #0 is id");
	refuse(&s, PEOPLE "compute x#4 text = id#0 + 1 output: x#4", "x has type int32 here");
	refuse(&s, PEOPLE "compute x#4 = 'open", "line 2, column 15");
	refuse(&s, PEOPLE "select id#0 = 99999999999 output", "'99999999999' is not a valid int32");
	refuse(&s, PEOPLE "select born#3 = date '1999-02-30' output",
	       "'1999-02-30' is not a valid date");
	refuse(&s, PEOPLE "look up in 0, inner: id#0 output", "cannot refer to an earlier task");
	refuse(&s, PEOPLE "output: id#0\ntask 1: result of 0: id#0 look up in 0, semi: id#0 output",
	       "not a set or map");
	refuse(&s, PEOPLE "set by id#0\ntask 1: result of 0: output", "reads a set or map as rows");
	refuse(&s,
	       PEOPLE "set by id#0\ntask 1: table people: name#0 look up in 0, semi: name#0 output",
	       "keys of different types");
	refuse(&s, PEOPLE "group by name#1: sum(name#1)", "sum does not take text");
	refuse(&s, PEOPLE "group by name#1: count(*)", "the last task does not end with output");
	refuse(&s, PEOPLE "fetch from people at id#0: born#5 output: born#5",
	       "cannot hold row numbers");
	refuse(&s, PEOPLE "group runs by name#1 -> name#4 output: name#4",
	       "whose runs may cross row groups");
	refuse(&s, PEOPLE "output: id#0\n$", "expected task, result or the end, found $");
	refuse(&s,
	       "task 0: table lines: key#0; once for each row group of task 0 where key = key set "
	       "by key#0",
	       "task 0 is nested in task 0");
	close_shop(&s);
}

static void too_deep(void **state)
{
	struct shop s;
	char *text;
	size_t length;
	FILE *out;

	(void)state;
	open_shop(&s);
	for (int form = 0; form < 3; form++) {
		static const char *const piece[] = {"(", "neg(", "1 + "};

		out = open_memstream(&text, &length);
		fputs(PEOPLE "compute x#4 = ", out);
		for (int i = 0; i < 100000; i++)
			fputs(piece[form], out);
		fputs("1", out);
		fclose(out);
		refuse(&s, text, "the expression nests deeper than 500");
		free(text);
	}
	close_shop(&s);
}

/* Ranges that the tables do not prove are not believed: the answer stays right. */
static void wrong_ranges(void **state)
{
	static const char text[] =
		"task 0: table lines: key#0 int64 [1..1], amount#1 int32 [7..7]\n"
		"    compute twice#2 int32 [0..3] = amount#1 * 2\n"
		"    group by key#0: sum(twice#2) as total int64 null [0..1]\n"
		"task 1: result of 0: key#0 int64 [5..5], total#1 int64 null [0..2]\n"
		"    sort by key#0: key#0, total#1\n"
		"task 2: result of 1: key#0, total#1\n"
		"    output: key#0, total#1\n";
	struct fth_tasks *tasks;
	struct shop s;
	char *got;

	(void)state;
	open_shop(&s);
	assert_ok(fth_tasks_parse(s.query, text, &tasks));
	got = answer(tasks);
	assert_string_equal(got, "1|22|\n2|14|\n5|4|\n");
	free(got);
	fth_tasks_free(tasks);
	/* A row number that is none. */
	assert_ok(fth_tasks_parse(s.query,
				  "task 0: table lines: key#0\n"
				  "    compute at#1 = key#0 * 1000\n"
				  "    fetch from people at at#1: name#2\n"
				  "    output: name#2\n",
				  &tasks));
	got = answer(tasks);
	assert_non_null(strstr(got, "error: table people has no row "));
	free(got);
	fth_tasks_free(tasks);
	close_shop(&s);
}

/* Damaged text gives an error or a set that runs. */
static void damaged_text(void **state)
{
	static const char *const queries[] = {"select name, sum(n) from people left join sales on "
					      "id = person group by name order by 2",
					      "select key, count(*) from lines where key in "
					      "(select id from people) group by key"};
	struct shop s;
	uint64_t seed = 7;

	(void)state;
	open_shop(&s);
	for (int q = 0; q < 2; q++) {
		struct fth_tasks *tasks;
		char *text;
		size_t n;

		assert_ok(fth_tasks_plan(s.query, queries[q], &tasks));
		text = fth_tasks_text(tasks, true);
		fth_tasks_free(tasks);
		n = strlen(text);
		for (int i = 0; i < 2000; i++) {
			char *copy = strdup(text);

			for (int k = 0; k < 1 + i % 3; k++) {
				seed = fth_mix64(seed);
				copy[seed % n] = "0123456789#,:()'ab \n[].-"[(seed >> 32) % 23];
			}
			if (fth_tasks_parse(s.query, copy, &tasks) == 0) {
				free(answer(tasks));
				fth_tasks_free(tasks);
			}
			free(copy);
		}
		free(text);
	}
	close_shop(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_parts),	cmocka_unit_test(random_sets),
		cmocka_unit_test(wrong_text),	cmocka_unit_test(too_deep),
		cmocka_unit_test(wrong_ranges), cmocka_unit_test(damaged_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
