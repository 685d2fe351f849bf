/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers, as PostgreSQL 15 gives them, by trees as they are bound and by simplified ones. */
#include "fth_test.h"

#include "query/sql/test/reference_fixture.h"
#include "query/sql/value/value.h"

#include <stdint.h>
#include <string.h>

struct answer {
	const char *query;
	const char *rows; /* or the error */
};

static const char *const tables[] = {
	"create table t (a int primary key, b int, s varchar(10), d date, n decimal(10,2))",
	"insert into t values (1, 10, 'abc', '1996-01-31', 1.25), (2, null, 'a_c', '1996-02-29', "
	"null),"
	" (3, 30, null, null, -0.05), (4, 10, 'x', '2000-12-31', 9.99)",
	"create table e (a int, b int)",
	"create table nn (a int, b int)",
	"insert into nn values (1, null), (2, 5), (null, 7)",
};

static const struct answer answers[] = {
	{"select cast(date '1996-01-31' + interval '1 month' as date), cast(date '1996-03-31' - "
	 "interval '1' month as date), cast(date '1996-02-29' + interval '1 year' as date)",
	 "1996-02-29,1996-02-29,1997-02-28"},
	{"select date '2000-03-01' - date '2000-02-28', date '1998-12-01' - 90", "2,1998-09-02"},
	{"select extract(quarter from d), extract(day from d) from t where d is not null order by "
	 "d",
	 "1,31\n1,29\n4,31"},
	{"select 7 / 2, -7 / 2, 7 % -3, -7 % 3, 7.0 / 2", "3,-3,1,-1,3.5000000000000000"},
	{"select round(2.5, 0), round(-2.5, 0), round(1.005, 2), cast(2.5 as int), cast(-2.5 as "
	 "int), cast(1.005 as decimal(10,2))",
	 "3,-3,1.01,3,-3,1.01"},
	{"select 0.1 + 0.2, 1.10 * 1.1, 1 / 3.0", "0.3,1.210,0.3333333333333333"},
	{"select 2147483647 + 1", "integer out of range"},
	{"select 9223372036854775807 + 1", "bigint out of range"},
	{"select 1 / 0", "division by zero"},
	{"select cast('x' as int)", "invalid input syntax for type integer: \"x\""},
	{"select cast(123.456 as decimal(4,2))", "numeric field overflow"},
	{"select case when b = 10 then 1 / (a - 1) else 0 end from t where a <> 1 order by a",
	 "0\n0\n0"},
	{"select sum(b), count(b), count(*), avg(b), min(s), max(d) from t",
	 "50,3,4,16.6666666666666667,a_c,2000-12-31"},
	{"select sum(a), count(*), max(a) from e", "<null>,0,<null>"},
	{"select count(*) from e group by a", ""},
	{"select 1 from e having count(*) = 0", "1"},
	{"select a from t where s like 'a_c' order by 1", "1\n2"},
	{"select a from t where s like 'a\\_c' order by 1", "2"},
	{"select a from t where s not like '%c' order by 1", "4"},
	{"select 'a%c' like 'a!%c' escape '!', 'abc' like 'a!%c' escape '!', 'abc' like 'abc' "
	 "escape ''",
	 "t,f,t"},
	{"select a from t where b not in (select b from nn) order by 1", ""},
	{"select a from t where b not in (select b from nn where b is not null) order by 1",
	 "1\n3\n4"},
	{"select a from t where b not in (select b from e) order by 1", "1\n2\n3\n4"},
	{"select a, b in (select b from nn) from t order by 1",
	 "1,<null>\n2,<null>\n3,<null>\n4,<null>"},
	{"select a, b in (select b from e) from t order by 1", "1,f\n2,f\n3,f\n4,f"},
	{"select a, b = any (select b * 2 from nn), b > all (select b from nn) from t order by 1",
	 "1,t,<null>\n2,<null>,<null>\n3,<null>,<null>\n4,t,<null>"},
	{"select a, (select max(b) from nn where nn.a = t.a), (select count(*) from nn where nn.a "
	 "= t.a) from t order by 1",
	 "1,<null>,1\n2,5,1\n3,<null>,0\n4,<null>,0"},
	{"select (select a from t)",
	 "more than one row returned by a subquery used as an expression"},
	{"select a from t where (a, b) in (select a, b from t where b = 10) order by 1", "1\n4"},
	{"select null = null, null is null, null is distinct from 1, 1 in (2, null), 1 not in (2, "
	 "null), not null, null and false, null or true",
	 "<null>,t,t,<null>,<null>,<null>,f,t"},
	{"select nullif(1, 1), coalesce(null, 2), greatest(1, null, 3), least(null, 2)",
	 "<null>,2,3,2"},
	{"select substring('hello' from 2 for 3), substring('hello' from -1 for 3), "
	 "substring('hello' from 4), upper('abC'), length('\xc3\xa4"
	 "b'), position('l' in 'hello'), trim(both 'x' from 'xxaxx'), left('abc', -1), "
	 "right('abc', 2), 'a' || 1 || 'b'",
	 "ell,h,lo,ABC,2,3,a,ab,bc,a1b"},
	{"select a, b from t order by b desc, a", "2,<null>\n3,30\n1,10\n4,10"},
	{"select a, b from t order by b nulls first, a desc limit 2 offset 1", "4,10\n1,10"},
	{"select distinct b from t order by 1", "10\n30\n<null>"},
	{"select b, count(*) from t group by b order by 2 desc, 1", "10,2\n30,1\n<null>,1"},
	{"select t.a, nn.b from t left join nn on t.a = nn.a and nn.b > 1 order by 1",
	 "1,<null>\n2,5\n3,<null>\n4,<null>"},
	{"select t.a, nn.b from t right join nn using (a) order by nn.b",
	 "2,5\n<null>,7\n1,<null>"},
	{"select a from t union select a from nn order by 1", "1\n2\n3\n4\n<null>"},
	{"select b from t intersect select b from t where a > 1 order by 1", "10\n30\n<null>"},
	{"select b from t except select b from nn order by 1", "10\n30"},
	{"select x + 1 from (values (1), (2), (null)) v(x) order by 1", "2\n3\n<null>"},
	{"with q as (select b, count(*) as c from t group by b) select q.b, q.c, (select max(c) "
	 "from q) from q order by 1",
	 "10,2,2\n30,1,2\n<null>,1,2"},
	{"select sum(distinct b), count(distinct b), avg(distinct b) from t",
	 "40,2,20.0000000000000000"},
	{"select b, sum(n) filter (where n > 0) from t group by b order by b",
	 "10,11.24\n30,<null>\n<null>,<null>"},
	{"select 1 where exists (select 1 from e) or not exists (select * from e where a = 1)",
	 "1"},
	{"select cast(1.5 as double precision) * 2, cast('1e3' as double precision)", "3,1000"},
	{"select true and (1 = 1) is not false, cast('yes' as boolean), not true", "t,t,f"},
	{"select a from t where (b = 10 and a = 1) or (b = 10 and a = 4) order by a", "1\n4"},
	{"select date '1996-02-30'",
	 "line 1, column 13: date/time field value out of range for date: \"1996-02-30\""},
	{"select a from t where a between 2 and 3 and a not between 3 and 4", "2"},
};

static struct ref_db db;

static size_t put(char *to, size_t n, const char *text, size_t length)
{
	assert_true(n + length < 1000);
	memcpy(to + n, text, length);
	to[n + length] = '\0';
	return n + length;
}

static void print_rows(const struct sql_query *query, const struct ref_rows *rows, char *to)
{
	size_t n = put(to, 0, "", 0);

	for (size_t i = 0; i < rows->count * rows->width; i++) {
		struct sql_type type = query->columns[query->outputs[i % rows->width]].type;
		const struct sql_value *value = &rows->cells[i];
		char text[SQL_VALUE_TEXT];

		if (i)
			n = put(to, n, i % rows->width ? "," : "\n", 1);
		if (value->null)
			n = put(to, n, "<null>", 6);
		else if (sql_is_string(type.kind))
			n = put(to, n, value->text, value->length);
		else
			n = put(to, n, text, sql_value_print(type, value, text));
	}
}

static void run(const char *query, char *to)
{
	struct sql_arena *arena = sql_arena_new(SIZE_MAX / 2);
	struct sql_statement *st = NULL;
	struct ref_rows rows = {0};
	int rc = ref_run(&db, query, arena, &st, &rows);

	if (rc < 0)
		put(to, 0, fth_error_text(rc), strlen(fth_error_text(rc)));
	else if (st)
		print_rows(&st->query, &rows, to);
	else
		put(to, 0, "", 0);
	sql_free(st);
	sql_arena_free(arena);
}

static int setup(void **state)
{
	char text[1000];

	(void)state;
	ref_open(&db);
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		run(tables[i], text);
		assert_string_equal(text, "");
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ref_close(&db);
	return 0;
}

static void check_answers(bool keep_as_bound)
{
	db.keep_as_bound = keep_as_bound;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		char text[1000];

		run(answers[i].query, text);
		if (strcmp(text, answers[i].rows))
			fail_msg("%s\n%s\nexpected\n%s", answers[i].query, text, answers[i].rows);
	}
}

static void trees_as_bound_give_the_answers(void **state)
{
	(void)state;
	check_answers(true);
}

static void simplified_trees_give_the_answers(void **state)
{
	(void)state;
	check_answers(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trees_as_bound_give_the_answers),
		cmocka_unit_test(simplified_trees_give_the_answers),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
