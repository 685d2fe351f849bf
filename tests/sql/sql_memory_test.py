#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""sql_memory_test.py FATHOM [--concurrent]: queries whose parts do not fit into memory end right, and never for want of it.

Each query runs in plenty of memory and in little, with one thread and with two, and must give the same rows; most
answers are also computed here. With --concurrent each query of a known answer runs once, with two threads in the least memory:
a form for ThreadSanitizer, under which runs with one thread find nothing and take most of the time.
"""
import collections
import random
import subprocess
import sys
import tempfile

FATHOM = sys.argv[1]
ROWS, OTHERS = 90000, 60000
PLENTY = "256M"
CONCURRENT = sys.argv[2:] == ["--concurrent"]
LITTLE = [("5M", "2")] if CONCURRENT else [("5M", "1"), ("5M", "2"), ("8M", "2")]


def fail(text):
    print("sql_memory_test:", text, file=sys.stderr)
    sys.exit(1)


def run(db, script, *options):
    return subprocess.run([FATHOM, "sql", "--csv", "--no-header", "--null", "null", *options, db, "-"], input=script,
                          capture_output=True, text=True)


def must(db, script, *options):
    done = run(db, script, *options)
    if done.returncode:
        fail("%s %s: status %d: %s" % (script[:100], options, done.returncode, done.stderr))
    return done.stdout


class Data:
    """t has distinct values; u has one key in half of its rows, nulls, and doubles that t has as well."""

    def __init__(self):
        rng = random.Random(7)
        self.t = [(i, rng.randrange(10 ** 9), i % 5, rng.randrange(10 ** 20), "s%d" % rng.randrange(10 ** 9),
                   rng.choice([-0.0, 0.0, 2.5]) if i % 1000 == 0 else rng.random()) for i in range(ROWS)]
        self.u = [(i, None if i % 9973 == 5 else rng.randrange(10 ** 9) if i % 3 else self.t[i][1],
                   1 if i % 2 else rng.randrange(1000), "u%d" % rng.randrange(10 ** 9),
                   "NaN" if i % 5000 == 7 else self.t[i][5] if i % 100 == 0 else rng.random()) for i in range(OTHERS)]

    def load(self, folder):
        db = folder + "/db"
        for name, rows in ("t", self.t), ("u", self.u):
            with open("%s/%s.tbl" % (folder, name), "w") as file:
                for row in rows:
                    file.write("|".join("" if value is None else str(value) for value in row) + "\n")
        must(db, "create table t (id int not null, v int not null, g int not null, d decimal(38,0) not null, s varchar(20), "
                 "x double precision); create table u (id int not null, v int, k int not null, s varchar(20), "
                 "x double precision);", "--create")
        for name in "t", "u":
            must(db, "copy %s from '%s/%s.tbl' with (delimiter '|', null '')" % (name, folder, name))
        return db


def distinct_queries(data):
    """Distinct values of one group, and several such aggregates."""
    columns = list(zip(*data.t))
    counts = [len(set(columns[i])) for i in (4, 1, 5, 3)]  # s, v, x, d
    yield "select count(distinct v), sum(distinct v) from t", "%d,%d" % (counts[1], sum(set(columns[1])))
    yield "select count(distinct s), count(distinct v), count(distinct x) from t", ",".join(map(str, counts[:3]))
    yield "select count(distinct d), sum(distinct d), min(s), count(*), count(distinct g) from t", "%d,%d,%s,%d,5" % (
        counts[3], sum(set(columns[3])), min(columns[4]), ROWS)
    for g in range(5):
        mine = [row for row in data.t if row[2] == g]
        yield "select count(distinct s), sum(distinct v), max(x) < 3 from t where g = %d" % g, "%d,%d,t" % (
            len({row[4] for row in mine}), sum({row[1] for row in mine}))
    yield "select g, count(distinct s), count(distinct d), sum(distinct v), count(*) from t group by g order by g", None


def union_queries(data):
    """Branches that are larger than the memory."""
    texts = [row[4] for row in data.t] + 2 * [row[3] for row in data.u]
    yield ("select count(*), min(s), max(s) from (select s from t union all select s from u union all select s from u) z",
           "%d,%s,%s" % (len(texts), min(texts), max(texts)))
    yield "select count(*) from (select s from t union select s from u) z", str(len(set(texts)))
    yield "select s, id from t union all select s, id from u order by 2, 1 offset %d" % (ROWS + OTHERS - 20), None
    yield "select count(*) from (select s from u except select s from t) z", str(len({row[3] for row in data.u}))
    yield "select count(*) from (select x from u intersect select x from t) z", str(
        len({row[4] for row in data.u} & {row[5] for row in data.t}))


def key_queries(data):
    """Doubles and nulls as keys."""
    known = {}
    for row in data.t:
        known[row[5]] = known.get(row[5], 0) + 1
    yield "select count(*) from t, u where t.x = u.x", str(sum(known.get(row[4], 0) for row in data.u))
    yield "select count(*) from u where x in (select x from t)", str(sum(row[4] in known for row in data.u))
    yield "select count(*) from u a, u b where a.x = b.x and a.x = 'NaN'", str(sum(row[4] == "NaN" for row in data.u) ** 2)
    nulls = sum(row[1] is None for row in data.u)
    theirs = {row[1] for row in data.u} - {None}
    yield "select count(*) from t where v not in (select v from u)", "0"
    yield "select count(*) from t where v not in (select v from u where v is not null)", str(
        sum(row[1] not in theirs for row in data.t))
    yield "select count(*) from u where v not in (select v from t where id < 1000)", str(
        sum(row[1] is not None and row[1] not in {r[1] for r in data.t[:1000]} for row in data.u))
    yield "select count(*) from u where v not in (select v from t where id < 0)", str(OTHERS)
    yield ("select count(*) from u a join u b on a.v is not distinct from b.v where a.v is null", str(nulls * nulls))


def pair_queries(data):
    """One key with most rows, and no key at all."""
    many = [row for row in data.u if row[2] == 1]
    yield ("select count(*), sum(a.id), max(b.s) from u a, u b where a.k = b.k and a.k = 1 and a.id < 40",
           "%d,%d,%s" % (len(many) * sum(row[0] < 40 for row in many),
                         len(many) * sum(row[0] for row in many if row[0] < 40), max(row[3] for row in many)))
    yield "select count(*), count(b.id), max(b.s) from u a left join u b on a.k = b.k and b.id > a.id + 55000 where a.id % 40 = 1", None
    yield ("select count(*), sum(a.id) from u a where a.id % 50 = 1 and not exists "
           "(select 1 from u b where a.k = b.k and b.id > a.id + 59000)", None)
    yield "select count(*), sum(length(b.s)) from u a cross join u b where a.id < 30", "%d,%d" % (
        30 * OTHERS, 30 * sum(len(row[3]) for row in data.u))
    yield ("select count(*), min(s) from (select a.id as i, b.s as s from u a cross join u b where a.id < 4 order by 2, 1) z",
           "%d,%s" % (4 * OTHERS, min(row[3] for row in data.u)))
    yield "select count(*) from t where 's' || g in (select 's' || (k / 1000) from u)", str(sum(row[2] == 0 for row in data.t))


def nested_queries(data):
    """Groups in the middle of a plan, over a join whose structure is built in parts, and joined again."""
    theirs, groups, texts = collections.Counter(row[1] for row in data.u), collections.Counter(), collections.Counter()
    for row in data.t:
        groups[row[4]] += theirs[row[1]]
        texts[row[4]] += 1
    groups = {s: n for s, n in groups.items() if n}
    yield ("select count(*), sum(z.n), min(c.s) from (select a.s as s, count(*) as n, sum(b.id) as m from t a join u b on a.v = b.v "
           "group by a.s) z join t c on z.s = c.s", "%d,%d,%s" % (
               sum(texts[s] for s in groups), sum(n * texts[s] for s, n in groups.items()), min(groups)))
    yield ("select count(*), count(z.s), sum(z.n) from t c left join (select a.s as s, count(*) as n, count(distinct b.s) as m "
           "from t a join u b on a.v = b.v group by a.s) z on z.s = c.s", "%d,%d,%d" % (
               ROWS, sum(texts[s] for s in groups), sum(n * texts[s] for s, n in groups.items())))
    yield ("select count(*), max(y.n) from (select z.d as d, count(*) as n from (select a.d as d, b.s as s, count(*) as k from t a "
           "join u b on a.v = b.v group by a.d, b.s) z group by z.d) y join t c on y.d = c.d", None)


def wide_queries(data):
    """Several structures that do not fit, and rows whose columns do not fit beside them: the query is run again with less."""
    mine = collections.Counter(row[1] for row in data.t)
    yield ("select count(*), sum(b.id), max(c.s), min(e.s) from t a join u b on a.v = b.v join t c on a.s = c.s join t e on c.d = e.d "
           "join u f on b.s = f.s", None)
    yield ("select a.s, b.s, c.s, a.d, b.id, c.id, a.x from t a left join u b on a.v = b.v left join u c on a.s = c.s "
           "order by 5, 1, 2, 3 limit 20", None)
    yield ("select count(*), min(a.s), max(b.s), min(c.s), sum(c.id), count(distinct a.d), count(distinct b.s), count(distinct a.x) "
           "from t a left join u b on a.v = b.v left join t c on a.id = c.id", None)
    yield ("select count(*), min(z.s), max(z.t) from (select a.s, b.s as t, c.s as r from t a left join u b on a.s = b.s "
           "join t c on a.d = c.d) z left join u y on z.t = y.s", None)
    yield ("select count(*), sum(length(a.s) + length(b.s) + length(c.s)) from u a join t b on a.v = b.v join t c on b.d = c.d", "%d,%d" % (
        sum(mine[row[1]] for row in data.u),
        sum(len(row[3]) + 2 * len(other[4]) for row in data.u if row[1] in mine for other in self_rows(data, row[1]))))
    # Rows in the order of a sort, which are held until the query cannot fail any more.
    yield ("select a.id, a.s, b.s, c.s, b.x from t a join u b on a.v = b.v join t c on a.s = c.s order by a.s, b.s, c.s, 1", None)


def self_rows(data, v):
    """Rows of t with a value of v."""
    if not hasattr(data, "by_v"):
        data.by_v = collections.defaultdict(list)
        for row in data.t:
            data.by_v[row[1]].append(row)
    return data.by_v[v]


def check_explained(db):
    """EXPLAIN ANALYZE says whether the query was run again; an unlimited one was not."""
    query, _ = next(wide_queries(Data()))
    for memory, runs in ("5M", ("cut", "frugal")), (PLENTY, ("plain",)):
        found = must(db, "explain (analyze, format json) " + query, "--memory", memory)
        if not any('""run"":""%s""' % run in found for run in runs):
            fail("%s in %s was not run %s: %s" % (query, memory, runs, found[-300:]))
    if "run again: " not in must(db, "explain analyze " + query, "--memory", "5M"):
        fail("EXPLAIN ANALYZE does not say that the query was run again")


def check(db, query, want, little=LITTLE):
    if CONCURRENT and want is None:
        return
    plenty = want + "\n" if CONCURRENT else must(db, query, "--memory", PLENTY)
    if want is not None and plenty != want + "\n":
        fail("%s: %s, not %s" % (query, plenty.strip(), want))
    for memory, threads in little:
        found = must(db, query, "--memory", memory, "--threads", threads)
        if found != plenty:
            fail("%s in %s, %s threads: %s, not %s" % (query, memory, threads, found[:200], plenty[:200]))


def check_shrunk(folder):
    """A structure that is made smaller as a task starts: the task's groups are those of all its parts."""
    rng, db = random.Random(19), folder + "/shrunk"
    with open(folder + "/w.tbl", "w") as file:
        file.writelines("%d|%d|0\n" % (i // 4, rng.randint(-30000, 30000)) for i in range(120000))
    with open(folder + "/c.tbl", "w") as file:
        file.writelines("%d|%d|0\n" % (i, rng.randint(-30000, 30000)) for i in range(OTHERS))
    must(db, "create table w (id int not null, i int not null, j int not null);"
             "create table c (id int primary key, i int not null, m int);"
             "copy w from '%s/w.tbl' with (delimiter '|'); copy c from '%s/c.tbl' with (delimiter '|')" % (folder, folder),
         "--create")
    query = ("select count(*), sum(n), sum(sy) from (select x.id, count(*) as n, sum(y.id) as sy "
             "from w x join c y on x.i = y.i group by x.id) z where n > 1")
    want = must(db, query, "--memory", PLENTY)
    for memory in "2600k", "3000k", "3400k", "4M":
        got = must(db, query, "--memory", memory, "--threads", "1")
        if got != want:
            fail("%s in %s: %s, expected %s" % (query, memory, got, want))


def check_texts(folder):
    """A map by rank takes as many records as fit; the text beside them needs memory too."""
    rng, db, rows, texts = random.Random(23), folder + "/texts", 500000, 2500
    keys = [6 * i + rng.randrange(6) for i in range(rows)]
    rng.shuffle(keys)
    with open(folder + "/n.tbl", "w") as file:
        file.writelines("%d|%d\n" % (key, rng.randrange(texts)) for key in keys)
    with open(folder + "/d.tbl", "w") as file:
        file.writelines("%d|%d-%s\n" % (i, i, "x" * 180) for i in range(texts))
    with open(folder + "/p.tbl", "w") as file:
        file.writelines("%d\n" % rng.randrange(6 * rows) for i in range(100000))
    must(db, "create table n (k int not null, d int not null); create table d (d int not null, s varchar(200) not null);"
             "create table p (k int not null); create table m (k int not null, s varchar(200) not null);"
             "copy n from '{0}/n.tbl' with (delimiter '|'); copy d from '{0}/d.tbl' with (delimiter '|'); copy p from '{0}/p.tbl';"
             "insert into m select n.k, d.s from n join d on n.d = d.d".format(folder), "--create")
    query = "select count(*), count(m.k), max(m.s), min(m.s), sum(length(m.s)) from p left join m on p.k = m.k and m.s <> 'x'"
    want = must(db, query, "--memory", PLENTY)
    for memory in "3500k", "4M", "5M":
        for threads in "1", "2":
            got = must(db, query, "--memory", memory, "--threads", threads)
            if got != want:
                fail("%s in %s, %s threads: %s, expected %s" % (query, memory, threads, got, want))


def check_many(folder):
    """A task that looks up in more than a hundred structures, of which the last is built part by part."""
    rng, db, rows, joins = random.Random(29), folder + "/many", 250000, 135
    with open(folder + "/l.tbl", "w") as file:
        file.writelines("%d|%d-%060x\n" % (key, key, rng.getrandbits(240)) for key in rng.sample(range(rows), rows))
    with open(folder + "/q.tbl", "w") as file:
        file.writelines("%d|%d\n" % (rng.randrange(2 * rows), i % 20) for i in range(20000))
    must(db, "create table l (k int not null, s varchar(80) not null); create table q (k int not null, v int not null);"
             "create table e (v int not null, w int not null);"
             "copy l from '{0}/l.tbl' with (delimiter '|'); copy q from '{0}/q.tbl' with (delimiter '|');"
             "insert into e values (1, 1), (2, 2), (3, 30)".format(folder), "--create")
    query = ("select count(*), count(l.k), sum(length(l.s)), min(l.s), sum(%s) from q " % " + ".join("e%d.w" % i for i in range(joins)) +
             "".join("left join e e%d on q.v = e%d.v " % (i, i) for i in range(joins)) + "left join l on q.k = l.k and l.s <> 'x'")
    want = must(db, query, "--memory", PLENTY)
    for memory in "32M", "40M":
        got = must(db, query, "--memory", memory, "--threads", "1")
        if got != want:
            fail("%d joins in %s: %s, expected %s" % (joins + 1, memory, got, want))


def main():
    data = Data()
    with tempfile.TemporaryDirectory() as folder:
        db = data.load(folder)
        for queries in distinct_queries, union_queries, key_queries, pair_queries, nested_queries:
            for query, want in queries(data):
                check(db, query, want)
        for query, want in wide_queries(data):
            check(db, query, want, LITTLE[:1])
        if not CONCURRENT:
            check_shrunk(folder)
            check_texts(folder)
            check_many(folder)
            check_explained(db)
    print("sql_memory_test: passed")


main()
