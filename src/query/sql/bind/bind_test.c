/* SPDX-License-Identifier: BSD-2-Clause */
/* Names, types, errors with their positions, and statements that are not queries. */
#include "fth_test.h"

#include "query/sql/test/reference_fixture.h"
#include "query/sql/test/tree_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ref_db db;

static void execute(const char *text)
{
	struct sql_arena *arena = sql_arena_new(1u << 24);
	struct sql_statement *st;
	struct ref_rows rows = {0};

	assert_ok(ref_run(&db, text, arena, &st, &rows));
	sql_free(st);
	sql_arena_free(arena);
}

static int setup(void **state)
{
	(void)state;
	ref_open(&db);
	execute("create table t (a int primary key, b bigint, c decimal(10,2), d date, s "
		"varchar(10),"
		" f char(3) not null, x double precision, y boolean)");
	execute("create table u (a int not null, v text, primary key (a, v))");
	execute("create view w as select a, v as name from u where a > 1");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ref_close(&db);
	return 0;
}

/* The types of the results, separated by blanks. */
static const char *types(const char *text)
{
	static char names[400];
	struct sql_statement *st;
	size_t n = 0;

	assert_ok(sql_compile(&db.catalog, text, NULL, &st, NULL));
	assert_ok(sql_tree_check(&st->query));
	for (unsigned i = 0; i < st->query.output_count; i++) {
		char type[40];

		n += (size_t)snprintf(
			names + n, sizeof(names) - n, "%s%s", i ? " " : "",
			sql_type_name(st->query.columns[st->query.outputs[i]].type, type));
	}
	sql_free(st);
	return names;
}

static void numbers_have_types_as_in_postgresql(void **state)
{
	(void)state;
	assert_string_equal(types("select 1, 3000000000, 1.50, -2147483648, -9223372036854775808"),
			    "integer bigint decimal(3,2) integer bigint");
	assert_string_equal(
		types("select a + 1, a + b, b * c, c * c, c / a, a / 2, x + c, -c from t"),
		"integer bigint decimal(29,2) decimal(20,4) decimal(38,16) integer double"
		" decimal(10,2)");
	assert_string_equal(
		types("select sum(a), sum(b), sum(c), avg(a), avg(c), avg(x), count(*),"
		      " min(c), max(s) from t"),
		"bigint decimal(38,0) decimal(38,2) decimal(38,16) decimal(38,16) double"
		" bigint decimal(10,2) text");
	assert_string_equal(types("select case when y then 1 else 2.5 end, coalesce(a, b), "
				  "nullif(a, 1) from t"),
			    "decimal(11,1) bigint integer");
}

static void dates_and_strings_have_types(void **state)
{
	(void)state;
	assert_string_equal(
		types("select d + 1, d - d, d - interval '1 year', extract(year from d),"
		      " date_part('month', d) from t"),
		"date integer date decimal(7,0) double");
	assert_string_equal(
		types("select s || f, length(s), substring(s from 2 for 1), 'abc', null,"
		      " s like 'a%', cast(a as varchar(5)), '1' from t"),
		"text integer text text text boolean varchar(5) text");
	assert_string_equal(types("select a from t union select 1.5 union all select null"),
			    "decimal(11,1)");
}

static void literals_take_the_type_of_their_context(void **state)
{
	struct sql_error error;
	struct sql_statement *st;

	(void)state;
	assert_string_equal(
		types("select a from t where d >= '1998-01-01' and c < '1.5' and y = 'true'"
		      " and d between '1998-01-01' and '1998-12-31' and a in ('1', '2')"),
		"integer");
	assert_int_equal(sql_compile(&db.catalog, "select 1 from t\nwhere d = '1998-02-30'", NULL,
				     &st, &error),
			 -EINVAL);
	assert_string_equal(error.text,
			    "date/time field value out of range for date: \"1998-02-30\"");
	assert_int_equal(error.line, 2);
	assert_int_equal(error.column, 11);
}

struct wrong {
	const char *text;
	int rc;
	unsigned line, column;
	const char *says;
};

static const struct wrong wrongs[] = {
	{"select 1 +", -EINVAL, 1, 11, "syntax error at end of input"},
	{"", -EINVAL, 0, 0, "the statement is empty"},
	{"select 1; select 2", -EINVAL, 1, 10,
	 "expected a single statement, found another after it"},
	{"select z from t", -EINVAL, 1, 8, "column \"z\" does not exist"},
	{"select\n  t.nme from t", -EINVAL, 2, 3, "table \"t\" has no column \"nme\""},
	{"select q.a from t", -EINVAL, 1, 8, "table or alias \"q\" is not in the FROM clause"},
	{"select nme from w", -EINVAL, 1, 8,
	 "column \"nme\" does not exist; did you mean \"name\"?"},
	{"select 1 from lineitems", -EINVAL, 1, 15, "table \"lineitems\" does not exist"},
	{"select a from t, u", -EINVAL, 1, 8,
	 "column \"a\" is ambiguous: both \"t\" and \"u\" have one"},
	{"select 1 from t, t", -EINVAL, 1, 18,
	 "table name \"t\" is used more than once; give one an alias"},
	{"select '\xc3\xa4' || a, z from t", -EINVAL, 1, 18, "column \"z\" does not exist"},
	{"select a, sum(b) from t", -EINVAL, 1, 8,
	 "column \"a\" must appear in GROUP BY or in an aggregate"},
	{"select 1 from t where sum(a) > 1", -EINVAL, 1, 23,
	 "aggregate sum is not allowed in WHERE"},
	{"select sum(max(a)) from t", -EINVAL, 1, 12, "aggregate calls cannot be nested"},
	{"select s + 1 from t", -EINVAL, 1, 10, "operator + does not take varchar(10) and integer"},
	{"select 1 from t where d = a", -EINVAL, 1, 25,
	 "comparison with =: types date and integer do not match"},
	{"select 1 from t where a", -EINVAL, 1, 23, "WHERE must be of type boolean, not integer"},
	{"select a from t group by 2", -EINVAL, 1, 26,
	 "GROUP BY position 2 is outside the select list"},
	{"select (select a, b from t)", -EINVAL, 1, 8,
	 "a subquery used as a value has 2 columns, expected 1"},
	{"select upper(1, 2, 3)", -EINVAL, 1, 8, "upper takes 1 arguments, not 3"},
	{"select uper('a')", -EINVAL, 1, 8,
	 "function \"uper\" does not exist; did you mean \"upper\"?"},
	{"select a from t limit -1", -EINVAL, 1, 23, "LIMIT must not be negative"},
	{"insert into u values (1)", -EINVAL, 1, 13,
	 "column \"v\" of table \"u\" is NOT NULL and has no value"},
	{"insert into u (a, w) values (1, 2)", -EINVAL, 1, 19, "table \"u\" has no column \"w\""},
	{"create table q (a int, a int)", -EINVAL, 1, 24, "column \"a\" is declared twice"},
	{"create table q (a int) with (cluster_by = 'b')", -EINVAL, 1, 30,
	 "table \"q\" has no column \"b\""},
	{"select sum(a) over () from t", -EOPNOTSUPP, 1, 8,
	 "a window function (OVER) is not supported"},
	{"select 1 from t where s ilike 'a' escape 'a'", -EOPNOTSUPP, 1, 42,
	 "ILIKE with a letter as its ESCAPE is not supported"},
	{"select stddev(distinct a) from t", -EOPNOTSUPP, 1, 8,
	 "stddev(DISTINCT ...) is not supported"},
	{"select ln(1.5)", -EOPNOTSUPP, 1, 8,
	 "ln of decimal (cast to double precision) is not supported"},
	{"select 1 from t where a = any (s)", -EOPNOTSUPP, 1, 32,
	 "ANY or ALL of an array that is not ARRAY[...] or a literal is not supported"},
	{"select 1 from t where a = any ('{1')", -EINVAL, 1, 32,
	 "malformed array literal: it does not end with }"},
	{"select grouping(a) from t", -EINVAL, 1, 8,
	 "arguments of GROUPING must be keys of GROUP BY"},
	{"select b from t group by rollup (a)", -EINVAL, 1, 8,
	 "column \"b\" must appear in GROUP BY or in an aggregate"},
	{"with recursive r as (select 1) select * from r", -EOPNOTSUPP, 1, 1,
	 "WITH RECURSIVE is not supported"},
	{"select array[1]", -EOPNOTSUPP, 1, 8, "an array is not supported"},
	{"delete from t", -EOPNOTSUPP, 0, 0, "DELETE is not supported"},
	{"select now()", -EOPNOTSUPP, 1, 8, "function now is not supported"},
	{"select cast(1 as json)", -EOPNOTSUPP, 1, 18, "type json is not supported"},
	{"select interval '3 hours' + d from t", -EINVAL, 1, 17,
	 "interval \"3 hours\": only intervals of years, months, weeks and days are supported"},
	{"select interval '1 day'", -EOPNOTSUPP, 1, 17,
	 "an interval that is not added to a date is not supported"},
	{"values (interval '1 day')", -EOPNOTSUPP, 1, 18,
	 "an interval that is not added to a date is not supported"},
	{"select d + coalesce(interval '1 day', null) from t", -EOPNOTSUPP, 1, 30,
	 "an interval that is not added to a date is not supported"},
	{"select a from t where s like f", -EOPNOTSUPP, 1, 30,
	 "a LIKE pattern that is not a constant is not supported"},
	{"with w as (insert into u values (1)) select 1", -EOPNOTSUPP, 1, 6,
	 "INSERT, UPDATE or DELETE in WITH (\"w\") is not supported"},
	{"with w as (select 1), v as (delete from t) select * from w", -EOPNOTSUPP, 1, 23,
	 "INSERT, UPDATE or DELETE in WITH (\"v\") is not supported"},
	{"with w as (select nope from u) select 1", -EINVAL, 1, 19,
	 "column \"nope\" does not exist"},
	{"with w as (select 1), w as (select 2) select 3", -EINVAL, 1, 23,
	 "WITH has two queries named \"w\""},
	{"select $1", -EOPNOTSUPP, 1, 8, "a parameter ($1) is not supported"},
	{"select 1,\n'\xc3\xa4\xff'", -EINVAL, 2, 3,
	 "invalid byte sequence for encoding \"UTF8\": 0xff"},
	{"insert into t(s) values ('\xc3')", -EINVAL, 1, 27,
	 "invalid byte sequence for encoding \"UTF8\": 0xc3 0x27"},
	{"select E'\\xff'", -EINVAL, 0, 0, "invalid byte sequence for encoding \"UTF8\": 0xff"},
};

static void errors_name_the_thing_and_its_position(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
		struct sql_statement *st;
		struct sql_error error;
		int rc = sql_compile(&db.catalog, wrongs[i].text, NULL, &st, &error);

		if (rc != wrongs[i].rc || strcmp(error.text, wrongs[i].says) ||
		    error.line != wrongs[i].line || error.column != wrongs[i].column)
			fail_msg("%s: %d, %u:%u \"%s\"", wrongs[i].text, rc, error.line,
				 error.column, error.text);
	}
}

/* A text of n times `unit` between head and tail. */
static char *repeated(const char *head, const char *unit, const char *tail, size_t n)
{
	char *text = malloc(strlen(head) + n * strlen(unit) + strlen(tail) + 1), *at = text;

	assert_non_null(text);
	at = stpcpy(at, head);
	while (n--)
		at = stpcpy(at, unit);
	strcpy(at, tail);
	return text;
}

static void deep_nesting_is_refused(void **state)
{
	static const char *const units[] = {"1+",
					    "(",
					    "- ",
					    "not ",
					    "f(1,",
					    "1 union select ",
					    "case when true then ",
					    "(select ",
					    "1, 2 union all select ",
					    "a.b join "};

	(void)state;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		for (size_t n = 100; n <= 30000; n *= 10) {
			char *text = repeated("select ", units[i], "1", n);
			struct sql_statement *st = NULL;
			int rc = sql_compile(&db.catalog, text, NULL, &st, NULL);

			assert_true(rc == 0 || rc == -EINVAL || rc == -EOPNOTSUPP);
			if (rc == 0)
				sql_free(st);
			free(text);
		}
	}
}

static void *compile_in_thread(void *arg)
{
	static const char *const units[] = {"1+", "(", "not ", "case when true then ", "(select "};

	(void)arg;
	for (size_t i = 0; i < 40; i++) {
		char *text = repeated("select ", units[i % 5], "1", 3 + i * i);
		struct sql_statement *st = NULL;
		int rc = sql_compile(&db.catalog, text, NULL, &st, NULL);

		if (rc == 0)
			sql_free(st);
		free(text);
		rc = sql_compile(&db.catalog,
				 "select a, (select count(*) from u where u.a = t.a) from t where"
				 " exists (select 1 from w where w.name = t.s)",
				 NULL, &st, NULL);
		if (rc < 0)
			return "a query is refused";
		sql_free(st);
	}
	return NULL;
}

/* Small stacks: what nests too deeply for them is refused. */
static void threads_compile_at_the_same_time(void **state)
{
	pthread_t threads[4];
	pthread_attr_t attr;
	void *wrong;

	(void)state;
	assert_int_equal(pthread_attr_init(&attr), 0);
	assert_int_equal(pthread_attr_setstacksize(&attr, 1u << 20), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], &attr, compile_in_thread, NULL), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(threads[i], &wrong), 0);
		assert_null(wrong);
	}
	pthread_attr_destroy(&attr);
}

/* A chain of WITH queries that doubles at each step. */
static void growth_is_bounded(void **state)
{
	char text[4000], *at = text + sprintf(text, "with w0 as (select 1 as x)");
	struct sql_statement *st;

	(void)state;
	for (int i = 1; i < 40; i++)
		at += sprintf(at, ", w%d as (select p.x from w%d p, w%d q)", i, i - 1, i - 1);
	strcpy(at, " select * from w39");
	assert_int_equal(sql_compile(&db.catalog, text, NULL, &st, NULL), -EINVAL);
	assert_non_null(strstr(fth_error_text(-EINVAL), "more than 1000 SELECTs"));
}

static void long_lists_are_not_deep(void **state)
{
	char *text = repeated("select a from t where a in (0", ",1", ")", 20000);
	struct sql_statement *st;

	(void)state;
	assert_ok(sql_compile(&db.catalog, text, NULL, &st, NULL));
	sql_free(st);
	free(text);
	text = repeated("select a from t where a = 0", " or b = 1 and c = 2", "", 500);
	assert_ok(sql_compile(&db.catalog, text, NULL, &st, NULL));
	sql_free(st);
	free(text);
}

struct account {
	ptrdiff_t used, limit;
};

static int charge_account(void *user, ptrdiff_t bytes)
{
	struct account *account = user;

	if (account->used + bytes > account->limit)
		return -ENOMEM;
	account->used += bytes;
	return 0;
}

static void memory_has_a_limit(void **state)
{
	struct account account = {.limit = PTRDIFF_MAX};
	struct sql_limits limits = {.memory = 100000, .charge = charge_account, .user = &account};
	char *text = repeated("select a from t where a in (0", ",1", ")", 20000);
	struct sql_statement *st;

	(void)state;
	assert_int_equal(sql_compile(&db.catalog, text, &limits, &st, NULL), -ENOMEM);
	assert_int_equal(account.used, 0);
	limits.memory = 0;
	account.limit = 1000000;
	assert_int_equal(sql_compile(&db.catalog, text, &limits, &st, NULL), -ENOMEM);
	assert_int_equal(account.used, 0);
	/* tokens are freed, and so is the parser's work space: the two trees are left */
	account.limit = 20000 * 400;
	assert_ok(sql_compile(&db.catalog, text, &limits, &st, NULL));
	assert_in_range(account.used, 1, 20000 * 330);
	sql_free(st);
	assert_int_equal(account.used, 0);
	free(text);
}

static void tables_are_declared(void **state)
{
	struct sql_statement *st;

	(void)state;
	assert_ok(sql_compile(
		&db.catalog,
		"create table if not exists q (a int not null, b char(10), c decimal(15,2),"
		" primary key (a), unique (b, c)) with (cluster_by = 'a')",
		NULL, &st, NULL));
	assert_int_equal(st->kind, SQL_CREATE_TABLE);
	assert_true(st->if_not_exists);
	assert_int_equal(st->declared.column_count, 3);
	assert_false(st->declared.columns[0].nullable);
	assert_int_equal(st->declared.columns[1].type.length, 10);
	assert_int_equal(st->declared.columns[2].type.scale, 2);
	assert_int_equal(st->declared.key_count, 2);
	assert_int_equal(st->declared.keys[1].ordinals[1], 2);
	assert_string_equal(st->options[0].value, "a");
	sql_free(st);
}

static void other_statements_are_read(void **state)
{
	struct sql_statement *st;

	(void)state;
	assert_ok(sql_compile(
		&db.catalog, "copy u (v, a) from '/tmp/x' with (format csv, delimiter '|', header)",
		NULL, &st, NULL));
	assert_int_equal(st->kind, SQL_COPY_FROM);
	assert_string_equal(st->file, "/tmp/x");
	assert_int_equal(st->targets[0], 1);
	assert_int_equal(st->option_count, 3);
	assert_string_equal(st->options[1].name, "delimiter");
	assert_string_equal(st->options[1].value, "|");
	sql_free(st);
	assert_ok(sql_compile(&db.catalog,
			      "create or replace view q (i, \"n\"\"m\") as select a, v from u;",
			      NULL, &st, NULL));
	assert_true(st->or_replace);
	assert_string_equal(st->text,
			    "SELECT * FROM ( select a, v from u\n) AS v(\"i\",\"n\"\"m\")");
	sql_free(st);
	assert_ok(sql_compile(&db.catalog, "drop table if exists t, u", NULL, &st, NULL));
	assert_int_equal(st->kind, SQL_DROP_TABLE);
	assert_int_equal(st->name_count, 2);
	sql_free(st);
	assert_ok(sql_compile(&db.catalog, "explain analyze select 1", NULL, &st, NULL));
	assert_true(st->explain && st->analyze);
	sql_free(st);
	assert_ok(sql_compile(&db.catalog, "insert into u select a, 'x' from t", NULL, &st, NULL));
	assert_int_equal(st->kind, SQL_INSERT);
	sql_free(st);
}

static void scripts_are_split(void **state)
{
	static const char script[] =
		"select ';' ; -- x;\n/* ; /* */ ; */ select \"a;b\", $$;$$, E'\\';' ;;";
	size_t begin, length, at;

	(void)state;
	at = sql_split(script, 0, &begin, &length);
	assert_true(at > 0);
	assert_int_equal(length, strlen("select ';'"));
	at = sql_split(script, at, &begin, &length);
	assert_true(at > 0);
	assert_memory_equal(script + begin, "select \"a;b\", $$;$$, E'\\';'", length);
	assert_int_equal(sql_split(script, at, &begin, &length), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_have_types_as_in_postgresql),
		cmocka_unit_test(dates_and_strings_have_types),
		cmocka_unit_test(literals_take_the_type_of_their_context),
		cmocka_unit_test(errors_name_the_thing_and_its_position),
		cmocka_unit_test(deep_nesting_is_refused),
		cmocka_unit_test(threads_compile_at_the_same_time),
		cmocka_unit_test(growth_is_bounded),
		cmocka_unit_test(long_lists_are_not_deep),
		cmocka_unit_test(memory_has_a_limit),
		cmocka_unit_test(tables_are_declared),
		cmocka_unit_test(other_statements_are_read),
		cmocka_unit_test(scripts_are_split),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
