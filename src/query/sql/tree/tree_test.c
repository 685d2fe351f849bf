/* SPDX-License-Identifier: BSD-2-Clause */
/* Trees as text: what the rewrites make of a query. */
#include "fth_test.h"

#include "query/sql/test/reference_fixture.h"
#include "query/sql/test/tree_fixture.h"

#include <string.h>

struct golden {
	const char *name, *query, *tree;
};

static const struct golden goldens[] = {
	{"a_correlated_exists_keeps_its_inequality",
	 "select a from t where exists (select 1 from u where u.k = t.a and u.v <> t.b)",
	 "semi join on ((k#4 = a#0) and (v#5 <> b#1))\n"
	 "  scan t: a#0, b#1\n"
	 "  scan u: k#4, v#5\n"},
	{"not_in_keeps_the_null_rule_where_nulls_are",
	 "select a from t where b not in (select v from u)",
	 "anti join true or null (b#1 = v#5)\n"
	 "  scan t: a#0, b#1\n"
	 "  scan u: v#5\n"},
	{"not_in_without_nulls_is_an_anti_join",
	 "select a from t where a not in (select k from u where w = t.s)",
	 "anti join on ((w#6 = s#3) and (a#0 = k#4))\n"
	 "  scan t: a#0, s#3\n"
	 "  scan u: k#4, w#6\n"},
	{"a_filter_on_the_right_makes_a_left_join_inner",
	 "select t.a from t left join u on t.a = u.k where u.n > 5",
	 "inner join on (a#0 = k#4)\n"
	 "  scan t: a#0\n"
	 "  filter (n#7 > 5)\n"
	 "    scan u: k#4, n#7\n"},
	{"group_keys_are_reduced_to_the_determining_one",
	 "select t.a, t.s, p.name, count(*) from t join p on t.b = p.id group by t.a, t.s, p.name",
	 "aggregate by a#0 carrying s#3, name#5: count#7 = count(*)\n"
	 "  inner join on (b#1 = id#4)\n"
	 "    scan t: a#0, b#1, s#3\n"
	 "    scan p: id#4, name#5\n"},
	{"distinct_rows_need_no_distinct", "select distinct a, s from t", "scan t: a#0, s#3\n"},
	{"contradictions_give_no_rows", "select a from t where a > 3 and b = 1 and a <= 2",
	 "values 0 rows: a#0\n"},
	{"constants_spread_over_equalities", "select t.a from t, p where t.b = p.id and p.id = 7",
	 "inner join on (b#1 = id#4)\n"
	 "  filter (b#1 = 7)\n"
	 "    scan t: a#0, b#1\n"
	 "  filter (id#4 = 7)\n"
	 "    scan p: id#4\n"},
	{"or_gives_up_what_is_common_and_what_it_implies",
	 "select t.a from t, u where (t.a = u.k and u.v = 1 and t.b = 2) or (t.a = u.k and u.v = 3 "
	 "and t.b = 4)",
	 "inner join on ((a#0 = k#4) and (((v#5 = 1) and (b#1 = 2)) or ((v#5 = 3) and (b#1 = "
	 "4))))\n"
	 "  filter b#1 in (2, 4)\n"
	 "    scan t: a#0, b#1\n"
	 "  filter v#5 in (1, 3)\n"
	 "    scan u: k#4, v#5\n"},
	{"a_scalar_aggregate_is_grouped_and_joined",
	 "select a, (select sum(n) from u where u.k = t.a) from t",
	 "left join on (k#4 = a#0)\n"
	 "  scan t: a#0\n"
	 "  aggregate by k#4: sum#8 = sum(n#7)\n"
	 "    scan u: k#4, n#7\n"},
	{"a_count_of_nothing_is_zero",
	 "select a from t where (select count(*) from u where u.k = t.a) < b",
	 "filter (coalesce(count#8, 0) < cast(b#1 as bigint))\n"
	 "  left join on (k#4 = a#0)\n"
	 "    scan t: a#0, b#1\n"
	 "    aggregate by k#4: count#8 = count(*)\n"
	 "      scan u: k#4\n"},
	{"an_inequality_is_unnested_over_its_domain",
	 "select a, (select count(*) from u where u.n > t.c) from t",
	 "project a#0, ?column?#9 = coalesce(count#8, 0)\n"
	 "  left join on (c#2 is not distinct from c#12)\n"
	 "    scan t: a#0, c#2\n"
	 "    aggregate by c#12: count#8 = count(*)\n"
	 "      inner join on (n#7 > c#12)\n"
	 "        distinct by c#12\n"
	 "          scan t: c#12\n"
	 "        scan u: n#7\n"},
	{"exists_under_or_is_a_left_join",
	 "select a from t where b = 1 or exists (select 1 from u where u.k = t.a)",
	 "filter ((b#1 = 1) or (coalesce(rows#9, 0) > 0))\n"
	 "  left join on (k#4 = a#0)\n"
	 "    scan t: a#0, b#1\n"
	 "    aggregate by k#4: rows#9 = count(*)\n"
	 "      scan u: k#4\n"},
	{"a_left_join_that_nobody_looks_at_goes", "select t.a from t left join p on t.b = p.id",
	 "scan t: a#0\n"},
	{"a_scalar_subquery_by_key_is_a_left_join",
	 "select a, (select name from p where p.id = t.b) from t",
	 "left join on (id#4 = b#1)\n"
	 "  scan t: a#0, b#1\n"
	 "  scan p: id#4, name#5\n"},
	{"a_scalar_subquery_without_key_is_a_single_join",
	 "select a, (select w from u where u.k = t.a) from t",
	 "single join on (k#4 = a#0)\n"
	 "  scan t: a#0\n"
	 "  scan u: k#4, w#6\n"},
	{"predicates_go_through_unions",
	 "select s, sum(x) from (select s, c * 2 as x, b from t union all select w, n, v from u) q "
	 "where b > 3 group by s",
	 "aggregate by s#15: sum#18 = sum(x#16)\n"
	 "  union all: s#15, x#16\n"
	 "    project s#9 = s#3, x#10 = (c#2 * 2)\n"
	 "      filter (b#1 > 3)\n"
	 "        scan t: b#1, c#2, s#3\n"
	 "    project w#12 = w#7, n#13 = cast(n#8 as decimal(20,2))\n"
	 "      filter (v#6 > 3)\n"
	 "        scan u: v#6, w#7, n#8\n"},
	{"in_is_a_semi_join",
	 "select count(*) from t where s in (select name from p where parent = t.b)",
	 "aggregate: count#7 = count(*)\n"
	 "  semi join on ((parent#6 = b#1) and (s#3 = name#5))\n"
	 "    scan t: b#1, s#3\n"
	 "    scan p: name#5, parent#6\n"},
	{"nested_subqueries_see_all_levels",
	 "select a from t where exists (select 1 from u where u.k = t.a and not exists (select 1 "
	 "from p where p.id = u.v and p.parent = t.b))",
	 "semi join on ((a#0 is not distinct from a#13) and (b#1 is not distinct from b#14))\n"
	 "  scan t: a#0, b#1\n"
	 "  anti join on ((a#13 is not distinct from a#17) and (b#14 is not distinct from b#18) "
	 "and (id#8 = v#5))\n"
	 "    inner join on (k#4 = a#13)\n"
	 "      scan t: a#13, b#14\n"
	 "      scan u: k#4, v#5\n"
	 "    inner join on (parent#10 = b#18)\n"
	 "      scan t: a#17, b#18\n"
	 "      scan p: id#8, parent#10\n"},
};

static struct ref_db db;

static void execute(const char *text)
{
	struct sql_arena *arena = sql_arena_new(1u << 24);
	struct sql_statement *st;
	struct ref_rows rows = {0};

	assert_ok(ref_run(&db, text, arena, &st, &rows));
	sql_arena_free(arena);
}

static int setup(void **state)
{
	(void)state;
	ref_open(&db);
	execute("create table t (a int primary key, b int, c decimal(10,2), s varchar(10) not "
		"null)");
	execute("create table u (k int not null, v int, w varchar(10), n decimal(10,2), unique (k, "
		"v))");
	execute("create table p (id int primary key, name varchar(20) not null, parent int)");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ref_close(&db);
	return 0;
}

/* The dump without its first line and one step of indentation. */
static void strip(const char *dump, char *to, size_t size)
{
	size_t n = 0;

	dump = strchr(dump, '\n') + 1;
	while (*dump && n + 1 < size) {
		size_t line = strcspn(dump, "\n") + 1;

		assert_true(line > 2 && n + line < size);
		memcpy(to + n, dump + 2, line - 2);
		n += line - 2;
		dump += line;
	}
	to[n] = '\0';
}

static void trees_are_as_expected(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(goldens) / sizeof(goldens[0]); i++) {
		struct sql_statement *st;
		char text[4000];

		assert_ok(sql_compile(&db.catalog, goldens[i].query, NULL, &st, NULL));
		assert_ok(sql_tree_check(&st->query));
		strip(sql_tree_dump(&st->query, st->arena), text, sizeof(text));
		if (strcmp(text, goldens[i].tree))
			fail_msg("%s: %s\n%s", goldens[i].name, goldens[i].query, text);
		sql_free(st);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trees_are_as_expected),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
