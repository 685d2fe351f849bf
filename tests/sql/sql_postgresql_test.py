#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""sql_postgresql_test.py FATHOM SQL_REFERENCE [TOPIC ...]: the engine and the reference interpreter against PostgreSQL, by topic.

sql_differential.py tries random queries; here are all combinations of constructs whose rules are easy to get
wrong. A query that PostgreSQL refuses must be refused, and all others must give its rows. Exits 77 without PostgreSQL.
"""
import itertools
import subprocess
import sys
import tempfile

import sql_functions
from sql_differential import MARK, NULL, PostgreSQL, same_rows, split_answers

JOINS = ("join", "left join", "right join", "full join")


def strings_of_all_types():
    """Trailing blanks count in text and varchar, and not where char meets char or varchar(n)."""
    types = {"c4": "char(4)", "c9": "char(9)", "v": "varchar(12)", "w": "varchar(5)", "t": "text"}
    words = ["'a'", "'a '", "'a  '", "'ab'", "'ab  '", "''", "' '", "'b'", "null", "'a b '"]
    setup, queries = [], []
    tables = {"s": 12, "l": 90}  # the planner builds the smaller side
    for (size, rows), (name, kind) in itertools.product(tables.items(), types.items()):
        values = ", ".join("(%d, %s)" % (i, words[(i * 7 + rows) % len(words)]) for i in range(rows))
        setup += ["create table %s%s (i int not null, k %s)" % (size, name, kind), "insert into %s%s values %s" % (size, name, values)]
    names = [size + name for size in tables for name in types]
    for x, y in ((size + a, other + b) for a, b in itertools.product(types, types) for size, other in ("sl", "ls")):
        queries += ["select x.i, y.i from %s x %s %s y on x.k = y.k" % (x, join, y) for join in JOINS]
        queries += [text.replace("X", x).replace("Y", y) for text in (
            "select x.i from X x where exists (select 1 from Y y where x.k = y.k)",
            "select x.i from X x where not exists (select 1 from Y y where x.k = y.k)",
            "select x.i from X x where x.k in (select y.k from Y y where y.i < 50)",
            "select x.i from X x where x.k not in (select y.k from Y y where y.k is not null)",
            "select x.i from X x where x.k = all (select y.k from Y y where y.i = x.i)",
            "select x.i, y.i from X x join Y y using (k)",
            "select x.i, y.i from X x join Y y on (x.k, x.i) = (y.k, y.i)",
            "select x.i from X x join Y y on x.k = y.k where y.k = 'a '",
            "select x.i from X x join Y y on x.k = y.k and x.k = 'a'",
            "select x.k, count(*) from X x join Y y on x.k = y.k group by x.k",
            "select y.k, count(*), count(distinct x.k) from X x join Y y on x.k = y.k group by y.k",
            "select count(*) from (select k from X union select k from Y) q",
            "select k from X intersect select k from Y",
            "select k from X except select k from Y",
            "select x.i, (select count(*) from Y y where y.k = x.k) from X x",
            "select x.i from X x where x.k = (select max(y.k) from Y y where y.i < 9)",
            "select x.i, y.i, x.k = y.k, x.k < y.k, x.k is distinct from y.k, nullif(x.k, y.k) || '|', coalesce(x.k, y.k) = y.k,"
            " greatest(x.k, y.k) || '|' from X x, Y y where x.i < 12 and y.i < 10",
            "select x.i, y.i from X x, Y y where x.k in (y.k, 'b', 'a ') and x.i < 12 and y.i < 12",
            "select x.i, case x.k when y.k then 1 else 0 end, case when x.i < 5 then x.k else y.k end || '|' from X x, Y y where x.i < 9 and y.i < 4",
        )]
    for name, word in itertools.product(names, ("'a'", "'a '", "'a '::char(3)", "'a '::varchar(5)", "'a '::text", "'a'::text")):
        queries += ["select i from %s where k %s" % (name, test % word) for test in ("= %s", "<> %s", "< %s", ">= %s", "in (%s)", "in (%s, 'ab ')", "in ('b', %s)")]
    for name in names:
        queries += ["select k, count(*) from %s group by k" % name, "select count(distinct k), min(k), max(k) from %s" % name,
                    "select i from %s order by k, i" % name, "select cast(k as char(3)), count(*) from %s group by 1" % name,
                    "select i, k like 'ab', k like 'ab  ', k like 'a%%' from %s" % name]
    queries += ["select cast('ab' as char(4)) like 'ab', cast('ab' as char(4)) like 'ab  ', cast('ab' as text) like 'ab'"]
    return setup, queries


def columns_of_joins():
    """USING and NATURAL: the merged columns, then the rest of the left side, then that of the right side."""
    setup = ["create table t1 (a int, b int, c int)", "create table t2 (b int, a bigint, d int)", "create table t3 (d int, a int, e int)",
             "create table u1 (k char(4), p int)", "create table u2 (q int, k varchar(6))", "create table u3 (k text, r int)", "create table n (z int)",
             "insert into t1 values (1, 2, 3), (4, 5, 6), (null, 1, 1), (7, 8, 10)", "insert into t2 values (2, 1, 9), (8, 7, 6), (null, 4, 11)",
             "insert into t3 values (9, 1, 7), (6, 7, 8), (11, 40, 12)", "insert into u1 values ('a', 1), ('ab', 2), ('c', 3)",
             "insert into u2 values (5, 'a '), (6, 'ab'), (7, 'x ')", "insert into u3 values ('a ', 8), ('ab', 9), ('y', 10)", "insert into n values (77)"]
    queries = ["select * from t1 join t2 using (a, a)", "select * from t1 join t2 using (zz)", "select * from t1 join t3 using (b)",
               "select b from t1 join t2 using (a)", "select a from t1 join t2 using (a), t3", "select t9.* from t1 join t2 using (a)",
               "select * from t1 join t2 on t1.a = t2.a natural join t3", "select * from (t1 join t2 using (a)) join t3 using (d)",
               "select * from t1 x natural join t1 y", "select x.*, y.* from t1 x join t1 y using (a, b, c)",
               "select * from t1 x full join t1 y using (a) full join t2 using (a) order by 1, 2, 3, 4, 5, 6",
               "with w as (select * from t1 join t2 using (a)) select x.d, y.c from w x(a, b, c, bb, d) join w y(a, b, c, bb, d) using (a)"]
    for join in JOINS:
        for columns, text in itertools.product(("a", "b", "a, b", "b, a"), (
                "select * from t1 J t2 using (C)", "select t2.*, t1.* from t1 J t2 using (C)", "select *, t1.*, t2.* from t1 J t2 using (C)",
                "select * from n, t1 J t2 using (C)", "select * from t1 J t2 using (C) cross join n", "select q.* from (select * from t1 J t2 using (C)) q(x, y)")):
            queries.append(text.replace("J", join).replace("C", columns))
        queries += [text.replace("J", join) for text in (
            "select * from t1 natural J t2", "select * from t2 natural J t1", "select a, t1.a, t2.a from t1 J t2 using (a)",
            "select a, count(*), count(t1.a), sum(d) from t1 J t2 using (a) group by a", "select a, t1.a from t1 J t2 using (a) group by a",
            "select a, t2.a from t1 J t2 using (a) group by a", "select c, d from t1 J t2 using (a) where a > 3",
            "select c, d from t1 J t2 using (a) order by a desc nulls first, c, d", "select (select max(e) from t3 join n on t3.a = t2.a) from t1 J t2 using (a)",
            "select a from t1 J t2 using (a) where exists (select 1 from t3 where t3.a = t1.a)", "select * from t1 where a in (select a from t2 J t3 using (d))")]
        for second, text in itertools.product(JOINS, (
                "select * from t1 J t2 using (a) K t3 using (a)", "select * from t1 natural J t2 natural K t3", "select * from t1 J (t2 K t3 using (d)) on t1.a = t2.a",
                "select t3.*, t1.* from t1 J (t2 K t3 using (a)) using (a)", "select * from t1 J (t2 K t3 using (a, d)) using (a)",
                "select t1.b, t3.e, a from t1 J t2 using (a, b) K t3 using (a)")):
            queries.append(text.replace("J", join).replace("K", second))
        for x, y in itertools.permutations(("u1", "u2", "u3"), 2):
            queries += [text.replace("J", join).replace("X", x).replace("Y", y) for text in (
                "select * from X J Y using (k)", "select k || '|', X.k || '|', Y.k || '|' from X J Y using (k)",
                "select k = 'a'::text, k = 'a '::varchar(3), k = 'a '::text from X J Y using (k)")]
    return setup, queries


def with_queries():
    """A WITH query is checked whether it is used or not, and sees what stands around the WITH."""
    setup = ["create table t1 (a int, b int)", "create table t2 (a int, x int)", "insert into t1 values (1, 2), (3, 4), (5, 6)",
             "insert into t2 values (1, 10), (3, 30), (3, 31)"]
    return setup, [
        "with w as (select nosuch from t1) select 1", "with w as (select * from nosuch) select 1", "with w as (select 1/0) select 2",
        "with w as (select a from t1), v as (select b from w) select 1", "with w as (select a from t1), w as (select a from t2) select 1",
        "with w(x, y, z) as (select a from t1) select 1", "with w as (select a from v), v as (select a from t1) select 1",
        "with w as (select sum(a), b from t1) select 1", "with w as (select a from t1 union select a, b from t1) select 1",
        "select (with w as (select nosuch) select 1)", "select a from t1 where exists (with w as (select nosuch from t2) select 1 from t2)",
        "with w as (with v as (select nosuch from t1) select 1) select 2", "with w as (select nosuch from t1) values (1)",
        "with w as (select nosuch from t1) select a from t2 union select a from t2", "with w as (select a from t1) select a from t2 union select a from t2",
        "with w as (select a from t1 where b = x) select 1 from t2", "with w as (select a from t1 where b = x) select (select count(*) from w) from t2",
        "with w as (select a from t1 where b = x) select * from t2 where exists (select 1 from w)",
        "select x, (with w as (select a from t1 where t1.a = t2.a) select count(*) from w) from t2",
        "select x, (with w as (select a from t1 where t1.a < t2.x) select count(*) from w where exists (select 1 from w v where v.a > w.a)) from t2",
        "select x, (with w as (select a from t1 where t1.a = t2.a) select max(a) from t1 where a in (select a from w)) from t2",
        "with w as (select a from t1) select * from w", "with w as (select a from t1), v as (select a + 1 from w) select * from w",
        "with t1 as (select a from t1 where a > 1) select * from t1"]


def lists():
    """IN of few and of many values, of all types, with and without NULL."""
    types = {"a": ("int", "%d"), "b": ("bigint", "%d"), "n": ("decimal(12,2)", "%d.50"), "d": ("date", "date '2000-01-01' + %d"), "x": ("double precision", "%d.25"),
             "s": ("varchar(10)", "'v%d'"), "t": ("text", "'w%d '"), "f": ("char(6)", "'c%d'")}
    rows = ["(%s, %s)" % (", ".join("null" if (i + len(name)) % 11 == 0 else item % i for name, (_, item) in types.items()), ("true", "false", "null")[i % 3]) for i in range(60)]
    setup = ["create table t (%s, g boolean)" % ", ".join("%s %s" % (name, kind) for name, (kind, _) in types.items()), "insert into t values %s" % ", ".join(rows)]
    queries = ["select a from t where g in (true, null)", "select a from t where g in (false, false, true)", "select a from t where g not in (false, 'f')",
               "select a from t where a in (1.5, 2.0, 3)", "select a from t where a in (1.5e0, 2e0, 3, 4.25)", "select a from t where x in (1, 2.25, 3.25)",
               "select a from t where n in (1, 2.5, 3.50, 4.5e0)", "select a from t where x in ('nan', '-0', '3.25')", "select a from t where 3 in (a, 5, b)",
               "select a, a in (b, 4, n), a not in (b, null) from t", "select a from t where (a, s) in ((1, 'v1'), (2, 'v9'), (5, 'v5'))"]
    for (name, (_, item)), n in itertools.product(types.items(), (1, 2, 5, 70, 4096, 5000)):
        values = ", ".join(item % (3 * i) for i in range(n))
        for test in ("in (%s)", "not in (%s)", "in (%s, null)", "not in (null, %s)"):
            queries.append("select a, %s %s from t where %s %s or a < 9" % (name, test % values, name, test % values))
    return setup, queries


def dates():
    """Dates that both read, and dates that both refuse; the engine reads those of columns."""
    words = ["1999-01-08", "1999-1-8", "0099-01-08", "099-01-08", "99-01-08", "19-1-1", "00-01-01", "19990108", "10000-01-01", "1999-02-29", "2000-02-29",
             "1900-02-29", "1999-13-01", "1999-00-01", "1999-01-32", " 1999-01-08 ", "", "x", "1999-01", "1999", "-1999-01-08", "0000-01-01", "31-12-1999"]
    setup = ["create table t (i int, s varchar(20))"] + ["insert into t values (%d, '%s')" % (i, word) for i, word in enumerate(words)]
    return setup, ["select date '%s'" % word for word in words] + ["select cast(s as date) from t where i = %d" % i for i in range(len(words))]


def decimals_of_38_digits():
    """Comparisons of decimals whose digits together are more than 38."""
    columns = {"a": ("decimal(38,0)", ["9" * 38, "-" + "9" * 38, "12345678901234567890123456789012345678", "1", "0", "-1"]),
               "b": ("decimal(38,10)", ["9" * 28 + "." + "9" * 10, "-" + "9" * 28 + "." + "9" * 10, "1", "0", "-1", "0.0000000001"]),
               "c": ("decimal(38,38)", ["0." + "9" * 38, "-0." + "9" * 38, "0", "0." + "0" * 37 + "1", "-0.5", "0.5"]),
               "e": ("decimal(20,4)", ["9" * 16 + ".9999", "-" + "9" * 16 + ".9999", "1", "0", "-1", "0.5"]),
               "k": ("bigint", ["9223372036854775807", "-9223372036854775807", "1", "0", "-1", "5"]), "x": ("double precision", ["1", "0", "-1", "0.5", "1e30", "-1e30"])}
    setup = ["create table d (i int, %s)" % ", ".join("%s %s" % (name, kind) for name, (kind, _) in columns.items())]
    setup += ["insert into d values (%d, %s)" % (i, ", ".join(values[i] for _, values in columns.values())) for i in range(6)]
    queries = []
    for x, y in itertools.product(columns, columns):
        queries += [text.replace("X", x).replace("Y", y) for text in (
            "select p.i, q.i, p.X < q.Y, p.X = q.Y, p.X <> q.Y, p.X >= q.Y, nullif(p.X, q.Y) is null from d p, d q", "select p.i, q.i from d p join d q on p.X = q.Y",
            "select p.i, q.i from d p left join d q on p.X = q.Y", "select p.i from d p where p.X in (select Y from d)", "select p.i from d p where p.X not in (select Y from d)")]
    for name, word in itertools.product(columns, ("9" * 38, "-" + "9" * 38, "0." + "9" * 38, "1", "1.5", "-1", "0." + "0" * 37 + "1", "9" * 28 + "." + "9" * 10, "1e37", "-0.5")):
        queries += ["select i from d where %s %s" % (name, test % word) for test in ("= %s", "< %s", ">= %s", "<> %s", "in (%s, 2)", "between %s and 2")]
    return setup, queries


def verdict(query, theirs, ours):
    """None, or what is wrong."""
    if ours is None:
        return "no answer"
    if theirs[1] or ours[1]:
        return None if theirs[1] and ours[1] else "PostgreSQL: %s, ours: %s" % (theirs[1], ours[1])
    if same_rows(theirs[0], ours[0], " order by " in query):
        return None
    return "%d rows of PostgreSQL, %d of ours; the first: %r, %r" % (len(theirs[0]), len(ours[0]), theirs[0][:5], ours[0][:5])


def compare(server, programs, topic):
    setup, queries = topic()
    script = "".join(text + ";\n" for text in setup) + "".join("select '%s%d';\n%s;\n" % (MARK, i, query) for i, query in enumerate(queries))
    theirs = split_answers(server.answer("set client_min_messages = error; drop schema public cascade; create schema public;\n" + script))
    wrong = 0
    for program in programs:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([folder if word == "{db}" else word for word in program], input=script, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        ours = split_answers(done.stdout)
        for i, query in enumerate(queries):
            what = verdict(query, theirs[i], ours.get(i))
            if what:
                wrong += 1
                if wrong <= 10:
                    print("%s: %.400s;\n  %s" % (program[0], query, what))
        if done.returncode not in (0, 1):
            print("%s ends with %d: %s" % (program[0], done.returncode, done.stdout[-500:]))
            wrong += 1
    print("%s: %d queries, %d wrong" % (topic.__name__, len(queries), wrong))
    return wrong


def main():
    only = sys.argv[3:]  # names of topics
    programs = [[sys.argv[1], "sql", "{db}", "--csv", "--no-header", "--null", NULL, "--keep-going"], [sys.argv[2], "--null", NULL]]
    server = PostgreSQL()
    try:
        topics = (strings_of_all_types, columns_of_joins, with_queries, lists, dates, decimals_of_38_digits) + sql_functions.TOPICS
        wrong = sum(compare(server, programs, topic) for topic in topics if not only or topic.__name__ in only)
    finally:
        server.close()
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
