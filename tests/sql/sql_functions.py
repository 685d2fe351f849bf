#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Topics of sql_postgresql_test.py: aggregates and functions, over columns and over constants."""
import itertools


def table_of_numbers():
    """Groups with many rows, with one, with nulls only; extremes of the types."""
    rows = ["(%d, %s, %s, %s, %s, %s)" % (i % 7, "null" if i % 5 == 0 else (i * 37) % 101 - 50, "null" if i % 6 == 0 else (i * 7919) % 100003 - 50000,
                                         "null" if i % 4 == 0 else "%d.%02d" % ((i * 31) % 200 - 100, i % 100), "null" if i % 3 == 0 else i * 0.37 - 20,
                                         ("true", "false", "null")[i % 3] if i % 7 != 2 else "true") for i in range(200)]
    return ["create table t (g int, a int, b bigint, n decimal(12,2), x double precision, p boolean)", "insert into t values %s" % ", ".join(rows),
            "insert into t values (90, 5, 5, 5, 5, true), (91, null, null, null, null, null), (92, 2147483, 4000000, 9999999.99, double precision '1e300', false),"
            " (92, -2147483, -4000000, -9999999.99, double precision '-1e300', true), (93, 0, 0, 0, 0, false), (93, 0, 0, 0, 0, false)",
            "create table e (g int, a int, b bigint, n decimal(12,2), x double precision, p boolean)"]


def aggregates():
    """bool_and and its like, variances, FILTER; of groups, of all rows, of none."""
    queries = []
    calls = ["%s(%s)" % call for call in itertools.product(("bool_and", "bool_or", "every"), ("p", "a > 0", "p and n > 1", "null::boolean", "distinct p"))]
    calls += ["%s(%s)" % call for call in itertools.product(("stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop"),
                                                            ("a", "b", "n", "a + 0.5", "a * 2", "case when p then a end", "1", "null::int", "all a"))]
    for call, source in itertools.product(calls, ("t", "e")):
        queries += [text.replace("CALL", call).replace("FROM", source) for text in (
            "select CALL from FROM", "select g, CALL from FROM group by g order by g", "select CALL filter (where a > 3) from FROM",
            "select g, CALL filter (where p) from FROM group by g order by g", "select g from FROM group by g having CALL is not null order by g")]
    queries += ["select g, count(*) filter (where p), sum(a) filter (where n > 0), avg(b) filter (where not p), min(a) filter (where a > 900) from t group by g order by g",
                "select g, count(distinct a) filter (where a > 0), sum(distinct a) filter (where p) from t group by g order by g",
                "select stddev(a) + variance(a), bool_and(p) or bool_or(p), count(a), sum(a) from t", "select bool_and(a) from t", "select stddev(p) from t",
                "select bool_and(p, p) from t", "select a from t where bool_and(p)", "select bool_or(bool_and(p)) from t", "select stddev(*) from t",
                "select max(s) from (select g, stddev(n) s from t group by g) q", "select g, case when bool_or(p) then 'some' else 'none' end from t group by g order by 1"]
    return table_of_numbers(), queries


def numbers():
    """Functions of all types of numbers; those of decimals that are not exact are refused."""
    queries = []
    one = ("abs", "sign", "floor", "ceil", "ceiling", "round", "trunc", "sqrt", "exp", "ln", "log", "log10")
    values = ("0", "1", "-1", "2.5", "-2.5", "0.0001", "99999999.99", "double precision '1'", "double precision '-0.5'", "double precision '1.5'", "double precision '2.5'", "double precision '700'", "double precision '-800'", "double precision '1e300'", "double precision 'nan'", "null::int",
              "null::decimal(9,2)", "'infinity'::double precision", "'-infinity'::double precision", "2147483647", "9223372036854775807", "4", "'4'", "true", "date '2000-01-01'")
    for name, value in itertools.product(one, values):
        inexact = name in ("exp", "ln", "log", "log10") and ("." in value or "decimal" in value) and "double" not in value
        if not inexact and not (name == "trunc" and value == "'4'"):
            queries.append("select %s(%s)" % (name, value))
    for name, column in itertools.product(one, "abnx"):
        if not (name in ("exp", "ln", "log", "log10") and column == "n"):
            queries += ["select g, a, %s(%s) from t where %s > 0 and %s < 100 order by 1, 2, 3" % (name, column, column, column),
                        "select %s(%s) from t where %s < -3 and %s > -100 order by 1" % (name, column, column, column),
                        "select count(*) from t where case when %s between 1 and 9 then %s(%s) > 2 end" % (column, name, column)]
    for digits, value in itertools.product((-3, -1, 0, 1, 2, 3, 9), ("1234.5678", "-1234.5678", "n", "a", "0.005", "5", "-15")):
        queries += ["select %s(%s, %d) from t where g in (1, 90, 92) order by 1" % (name, value, digits) for name in ("round", "trunc")]
    for x, y in itertools.product(("double precision '0'", "2", "-2", "double precision '0.5'", "double precision '-0.5'", "double precision '1e200'", "'nan'::double precision", "'infinity'::double precision", "null::int"),
                                  ("0", "1", "-1", "2", "double precision '0.5'", "double precision '-0.5'", "double precision '1e10'", "'nan'::double precision", "'-infinity'::double precision", "3")):
        queries += ["select power(%s, %s)" % (x, y), "select pow(%s, %s)" % (x, y), "select (%s) ^ (%s)" % (x, y)]
    queries += ["select power(a, 2), power(x, 2), a ^ 2, power(a, a / 20) from t where abs(a) between 1 and 50 and abs(x) < 100 order by 1, 2", "select mod(a, 7), mod(b, 100), mod(n, 0.3) from t order by 1, 2, 3",
                "select sqrt(n * n) - abs(n) from t where abs(n) < 1000 order by 1", "select sqrt(2.0), sqrt(0.0), sqrt(1e30::decimal(38,0)), sqrt(0.0000000001)",
                "select sqrt(99999999999999999999999999999999999999::decimal(38,0))", "select sqrt(-1)", "select sqrt(-1.0)", "select sqrt(n) from t", "select sqrt(a) from t where a >= 0 order by 1",
                "select case when a >= 0 then sqrt(a) end, case when n > 0 then sqrt(n) end from t order by 1, 2", "select sign(n), count(*) from t group by sign(n) order by 1",
                "select trunc(x), count(*) from t where abs(x) < 1000 group by 1 order by 1", "select sqrt('x')", "select sqrt(1, 2)", "select power(1)", "select trunc(double precision '1.5', 1)"]
    return table_of_numbers(), queries


WORDS = ["''", "'a'", "'abc'", "'äöü'", "'日本語'", "' x '", "'aXbXc'", "'AbC'", "null", "'a%b_c'", "'xx'", "'aaaa'", "'ab  '"]


def texts():
    """Functions of text, over columns with and without a dictionary and over constants."""
    setup = ["create table w (i int, s varchar(20), t text, c char(6), k int, p boolean, d date, n decimal(6,2), x double precision)"]
    for i in range(60):
        s, t = WORDS[i % len(WORDS)], WORDS[(i * 5 + 3) % len(WORDS)]
        setup.append("insert into w values (%d, %s, %s, %s, %s, %s, %s, %s, %s)" % (
            i, s, t, WORDS[(i * 3 + 1) % len(WORDS)], "null" if i % 9 == 0 else i % 12 - 3, ("true", "false", "null")[i % 3],
            "null" if i % 5 == 0 else "date '2000-01-28' + %d" % i, "null" if i % 4 == 0 else "%d.5" % i, "null" if i % 7 == 0 else i * 0.25))
    calls = ["replace(s, 'X', 'yy')", "replace(t, 'a', '')", "replace(s, '', 'q')", "replace(s, t, 'z')", "replace(s, t, c)", "replace(c, 'b', 'ö')", "replace(s, null, 'a')",
             "lpad(s, 5)", "rpad(s, 5)", "lpad(s, k)", "rpad(s, k)", "lpad(s, 7, 'xy')", "rpad(t, 7, 'ö日')", "lpad(t, k, s)", "rpad(c, k, t)", "lpad(s, 3, '')", "lpad(s, -1, 'x')",
             "repeat(s, 3)", "repeat(s, k)", "repeat(t, 0)", "repeat(c, 2)", "reverse(s)", "reverse(t)", "reverse(c)", "starts_with(s, 'a')", "starts_with(s, t)", "starts_with(t, '')",
             "starts_with(c, 'ab')", "concat(s, t)", "concat(s)", "concat(s, k, p, d, n, x)", "concat(c, '|')", "concat(null, null)", "concat_ws(',', s, t, k)", "concat_ws(', ', c, p, 'x')",
             "concat_ws(s, t, 'e', k)", "concat_ws(null, s, t)", "concat_ws('', s, t)", "concat_ws('-', null, s, null, t)", "concat_ws(c, s, t)", "length(reverse(s) || lpad(t, 4))",
             "s ~~ 'a%'", "s !~~ 'a%'", "t ~~ '%b%'", "c ~~ 'ab%'", "s ilike 'A%'", "t not ilike '%B%'", "c ilike 'AB  '", "c ~~* 'AB%'", "s !~~* 'AB_'", "s ilike 'A!_%' escape '!'", "s ilike null",
             "upper(s)", "lower(t)", "trim(s)", "ltrim(s, 'a')", "rtrim(c)", "trim(both 'ax' from s)", "strpos(s, 'X')", "position('b' in t)", "left(s, 2)", "right(t, -1)", "char_length(s)",
             "substring(s from 2 for 2)", "nullif(s, t)", "greatest(s, t)", "least(s, t, c)", "coalesce(s, t, c)"]
    queries = ["select i, %s from w order by i" % call for call in calls]
    queries += ["select %s, count(*) from w group by 1 order by 1, 2" % call for call in calls]
    queries += ["select count(*) from w where %s is null" % call for call in calls]
    queries += ["select replace('a', 'b')", "select lpad('a')", "select reverse(5)", "select repeat('a', 'b')", "select concat()", "select concat_ws(',')", "select starts_with('a', 1)",
                "select lpad('x', 2000000000)", "select repeat('xxxx', 2000000000)", "select rpad('x', 3, 'ab'), lpad('äöü', 2), repeat('ab', -1), reverse('äb'), concat(1, true, 1.50, null)",
                "select i from w where lpad(s, 3, '0') = '00a' order by i", "select i from w where concat(s, '-', t) = 'a-' order by i"]
    return setup, queries


def date_fields():
    """EXTRACT and date_part of all fields; date_trunc as a date."""
    days = [0, 1, 3, 4, 58, 59, 60, 364, 365, 366, 10957, 10958, 11322, 11323, 16436, 18262, 18627, 19000, -1, -365, -25567, -700000, 2932896, 18992, 18993, 18994]
    setup = ["create table d (i int, k date)"] + ["insert into d values (%d, date '1970-01-01' + (%d))" % (i, day) for i, day in enumerate(days)] + ["insert into d values (99, null)"]
    queries = []
    for field in ("year", "quarter", "month", "day", "dow", "isodow", "doy", "week", "isoyear", "decade", "century", "millennium", "epoch", "julian", "hour", "nosuch", "Week"):
        queries += ["select i, date_part('%s', k) from d order by i" % field] if field != "hour" else []
        queries += ["select i, extract(%s from k) from d order by i" % field,
                    "select extract(%s from k), count(*) from d group by 1 order by 1" % field, "select i from d where extract(%s from k) > 20 order by i" % field,
                    "select extract(%s from date '2021-01-03')" % field]
    for unit in ("day", "week", "month", "quarter", "year", "decade", "century", "millennium"):
        queries += ["select i, date_trunc('%s', k)::date from d order by i" % unit, "select date_trunc('%s', k)::date, count(*) from d group by 1 order by 1" % unit,
                    "select i from d where date_trunc('%s', k) = date '2000-01-01' order by i" % unit, "select date_trunc('%s', date '2021-05-16')::date" % unit]
    queries += ["select date_trunc('nosuch', k) from d", "select date_trunc(k) from d", "select extract(week from 5)"]
    return setup, queries


def arrays():
    """ANY and ALL of arrays, with nulls, without elements, with quotes."""
    setup = ["create table t (a int, b bigint, n decimal(6,2), s text, c char(4), d date, p boolean)"]
    setup += ["insert into t values (%s, %s, %s, %s, %s, %s, %s)" % (
        "null" if i % 7 == 0 else i % 6, "null" if i % 5 == 0 else i, "null" if i % 4 == 0 else "%d.5" % (i % 5), WORDS[i % len(WORDS)], WORDS[(i + 3) % len(WORDS)] + "::char(4)",
        "date '2000-01-01' + %d" % (i % 4), ("true", "false", "null")[i % 3]) for i in range(40)]
    queries = []
    lists = {"a": ("'{1,2,3}'::int[]", "'{}'::int[]", "'{1,null}'::int[]", "array[1, 2, 3]", "array[a, 3]", "array[1.5, 2]", "array[null, 2]", "array[]::int[]", "null::int[]", "'{1, 2 ,\t3}'",
                   "'{1,2}'", "'{x}'::int[]", "'{1'::int[]", "'1,2'::int[]", "'{1,}'::int[]", "'{,1}'::int[]", "'{1}x'::int[]", "array['1', '2']", "array[b, a]", "array[]", "'{1,2}'::bigint[]", "5", "'{1,2}'::text[]"),
             "n": ("'{1.5,2}'::numeric[]", "array[0.5, 3.5]", "array[1, 2]", "'{2.50}'::decimal(9,4)[]"),
             "s": ("'{a,abc,\"aXbXc\"}'::text[]", "'{\"\",\"a%b_c\",NULL}'::text[]", "array['a', '']", "array['ab  ', null]", "'{\"a\\\\b\", a b }'::text[]", "array[s]", "'{a,xx}'", "'{null,\"null\"}'::text[]",
                   "'{a,xx}'::varchar[]", "'{a,xx}'::varchar(9)[]"),
             "c": ("'{a,ab}'::text[]", "array['a', 'ab  ']", "'{a,\"ab  \"}'::char(4)[]", "'{a,ab}'"),
             "d": ("'{2000-01-01,2000-01-03}'::date[]", "array[date '2000-01-02']", "'{2000-01-02}'", "array['2000-01-02'::date, null]"), "p": ("'{t,f}'::bool[]", "array[true, null]")}
    for column, arrays_of in lists.items():
        for array, (op, kind) in itertools.product(arrays_of, itertools.product(("=", "<>", "<", ">="), ("any", "all", "some"))):
            queries.append("select a, b, %s %s %s (%s) from t" % (column, op, kind, array))
            queries.append("select count(*) from t where %s %s %s (%s)" % (column, op, kind, array))
    queries += ["select 1 = any (array[1, 2]), 1 <> all (array[2, 3]), null = any (array[1]), 3 = any ('{}'::int[])", "select a from t where not a = any ('{1,2}'::int[]) order by a",
                "select a from t where a = any (select a from t where b > 20) order by a"]
    return setup, queries


def grouping_sets():
    """GROUPING SETS, ROLLUP and CUBE, of columns and expressions, over rows and over none."""
    setup = ["create table t (a int, b int, s varchar(5), n decimal(8,2))", "create table u (a int, v int)", "create table e (a int, b int, s varchar(5), n decimal(8,2))"]
    setup += ["insert into t values (%s, %s, %s, %s)" % ("null" if i % 9 == 0 else i % 4, "null" if i % 7 == 0 else i % 3, WORDS[i % 4], "%d.25" % i) for i in range(50)]
    setup += ["insert into u values (%d, %d)" % (i % 5, i) for i in range(12)]
    sets = ["rollup (a)", "rollup (a, b)", "rollup ((a, b), s)", "cube (a)", "cube (a, b)", "cube (a, b, s)", "grouping sets (a, b)", "grouping sets ((a, b), (a), ())", "grouping sets ((), ())", "()",
            "a, rollup (b)", "a, b, cube (s)", "rollup (a), rollup (b)", "grouping sets (rollup (a), cube (b))", "grouping sets (a, grouping sets (b, ()))", "a, grouping sets ((b), ())", "(a, b)", "(a, b), s",
            "rollup (a, a)", "grouping sets ((a, b), (b, a))", "cube (a, b), grouping sets (a, ())", "a, ()", "rollup (b, s, a)", "cube ((a, s), b)"]
    queries = []
    for clause, source in itertools.product(sets, ("t", "e")):
        has = [name for name in "abs" if name in clause.replace("cube", "").replace("grouping sets", "").replace("rollup", "")]
        names = "".join(name + ", " for name in has)
        call = "grouping(%s)" % ", ".join(has) if has else "1"
        queries += ["select %scount(*), sum(n), min(b), %s from %s group by %s" % (names, call, source, clause),
                    "select %savg(n), count(distinct b) from %s where b > 0 group by %s having count(*) > 1" % (names, source, clause),
                    "select distinct %sbool_and(a > 1) from %s group by %s" % (names, source, clause), "select count(*) from (select %ssum(n) from %s group by %s) q" % (names, source, clause)]
    queries += ["select a, b, sum(n) from t group by rollup (a, b) order by grouping(a, b), a, b", "select a, count(*) from t group by rollup (a) order by a nulls first, grouping(a), 2 limit 3",
                "select a + 1, count(*) from t group by rollup (a + 1)", "select a + 1, a, count(*) from t group by rollup (a, a + 1)", "select a + b, sum(n) from t group by cube (a, b)",
                "select coalesce(s, 'all'), case when grouping(s) = 1 then 'total' else 'part' end, sum(n) from t group by rollup (s)", "select s, max(upper(s)) from t group by cube (s)",
                "select a as x, count(*) from t group by rollup (x)", "select a, b, count(*) from t group by rollup (1, 2)", "select a, b from t group by rollup (a)", "select grouping(b) from t group by rollup (a)",
                "select grouping(a) from t group by a", "select grouping(a) from t", "select a from t where grouping(a) = 0 group by rollup (a)", "select sum(grouping(a)) from t group by rollup (a)",
                "select a, grouping(a) from t group by a having grouping(a) = 0", "select t.a, v, sum(n), grouping(t.a, v) from t join u on t.a = u.a group by cube (t.a, v)",
                "select a, (select count(*) from u where u.a = t.a) from t group by rollup (a)", "select a, sum(n) from t group by rollup (a) union all select v, 1 from u",
                "with w as (select a, s, sum(n) as m from t group by cube (a, s)) select w.a, s, m, v from w left join u on w.a = u.a", "select a, count(*) from t group by rollup (a) having a is null",
                "select * from (select a, b, count(*) as c from t group by grouping sets ((a), (b))) q where a > 1 or b = 0", "select 'x', a, count(*) from t group by rollup (a)", "select null, count(*) from t group by rollup (a)",
                "select count(*) from t group by rollup (a), a", "select a, stddev(n), variance(b) from t group by rollup (a)"]
    return setup, queries


def rows_and_values():
    """VALUES with subqueries and columns of outer queries; rows in order; BETWEEN SYMMETRIC."""
    setup = ["create table t (a int, b int, s text)"] + ["insert into t values (%s, %s, %s)" % ("null" if i % 6 == 0 else i % 5, "null" if i % 5 == 0 else i % 4, WORDS[i % 9]) for i in range(36)]
    queries = ["values ((select max(a) from t)), (2)", "select * from (values (1), ((select min(a) from t)), (3)) v(x) order by x", "values ((select a from t))", "values ((select s from t where a = 99), 1), ('x', 2)",
               "values (1, (select count(*) from t)), ((select 5), null), (7, 8)", "select * from (values ('a', (select max(s) from t)), (null, 'c')) v(x, y) where y is not null",
               "select (select max(v) from (values (t.a), (t.b)) q(v)) from t", "select a from t where exists (select 1 from (values (1), (t.b)) q(v) where v = t.a)", "values ((select 1), 'x'), (2.5, null)",
               "select * from t where a in (values (1), ((select 3)))", "values ((select 'x')), ('2')", "values ((select max(a) from t)), ('x')", "values ((select nosuch from t))", "values (sum(1))",
               "select x + 1 from (values ((select 1)), (2)) v(x) union all select a from t", "values ((select 1)), ((select 2)), (3), (4), ((select 5)) order by 1 desc limit 3",
               "select a, b, row(a, b) < row(b, a), row(a, b, 1) >= row(2, 3, a) from t", "select (1, 'a') < (1, 'b'), (1, 2) <= (1, 2)"]
    for op, right in itertools.product(("<", "<=", ">", ">=", "=", "<>"), ("(2, 1)", "(a, 2)", "(null, 1)", "(2, null)", "(b, a)")):
        queries += ["select a, b from t where (a, b) %s %s" % (op, right), "select a, b, (a, b) %s %s from t" % (op, right), "select a, b from t where not (a, b) %s %s" % (op, right)]
    for low, high in itertools.product(("1", "3", "null", "b", "2.5"), repeat=2):
        queries += ["select a, a between symmetric %s and %s from t" % (low, high), "select a from t where a not between symmetric %s and %s" % (low, high)]
    return setup, queries


TOPICS = (aggregates, numbers, texts, date_fields, arrays, grouping_sets, rows_and_values)
