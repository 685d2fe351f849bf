#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""sql_limits_test.py FATHOM: SQL where something is short.

The 22 queries of TPC-H with an address space that leaves 16 MiB beyond what the program takes by itself; COPY and
INSERT on a volume that is full: the old rows are there, and the space is free again; COPY that is killed: all new
rows or none. Long lists. FTH_LONG_TESTS kills more often.
"""
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import time

FATHOM = sys.argv[1]
MIB = 1 << 20
BUDGET = 16 * MIB
# Outside of the budget: PostgreSQL's grammar while it parses, and what malloc() loses between blocks.
SLACK = 6 * MIB
STACK = 2 * MIB
KILLS = 100 if os.environ.get("FTH_LONG_TESTS") else 10
TABLES = ["region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem"]


def fail(text):
    print("sql_limits_test:", text, file=sys.stderr)
    sys.exit(1)


def sql(db, script, *options, limit=None):
    """Run a script; returns (status, output, errors)."""
    def shrink():
        resource.setrlimit(resource.RLIMIT_STACK, (STACK, STACK))
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    done = subprocess.run([FATHOM, "sql", "--csv", "--no-header", *options, db], input=script, capture_output=True,
                          text=True, env=dict(os.environ, MALLOC_ARENA_MAX="1"), preexec_fn=shrink if limit else None)
    return done.returncode, done.stdout, done.stderr


def must(db, script, *options):
    status, out, err = sql(db, script, *options)
    if status:
        fail("%s: status %d: %s" % (script[:60], status, err))
    return out


def is_sanitized():
    return b"__asan_init" in pathlib.Path(FATHOM).read_bytes() or b"__tsan_init" in pathlib.Path(FATHOM).read_bytes()


# ---- memory ----

def schema():
    text = subprocess.run([FATHOM, "bench", "tpch", "schema"], check=True, capture_output=True, text=True).stdout
    return text if text.rstrip().endswith(";") else text + ";"


def load_tpch(folder):
    db = folder + "/tpch"
    subprocess.run([FATHOM, "bench", "tpch", "generate", "--sf", "0.01", "--output", folder], check=True, stdout=subprocess.DEVNULL)
    must(db, schema() + "".join("copy %s from '%s/%s.tbl' with (delimiter '|');\n" % (t, folder, t) for t in TABLES),
         "--create")
    return db


def smallest_limit(db):
    """The smallest address space with which the program starts and reads a table."""
    low, high = 1 * MIB, 1024 * MIB
    while high - low > MIB // 2:
        middle = (low + high) // 2
        status, out, _ = sql(db, "select count(*) from region", "--memory", "1M", "--threads", "2", limit=middle)
        if status == 0 and out == "5\n":
            high = middle
        else:
            low = middle
    return high


def test_memory(folder):
    db = load_tpch(folder)
    script = "".join(subprocess.run([FATHOM, "bench", "tpch", "query", str(n)], check=True, capture_output=True,
                                    text=True).stdout + "\n" for n in range(1, 23))
    plenty = must(db, script, "--memory", "1G", "--threads", "2")
    if is_sanitized():
        limit = None
    else:
        limit = smallest_limit(db) + BUDGET + SLACK
    status, out, err = sql(db, script, "--memory", "16M", "--threads", "2", limit=limit)
    if status or sorted(out.splitlines()) != sorted(plenty.splitlines()):
        fail("16 MiB: status %d: %s" % (status, err))
    status, out, err = sql(db, "select * from lineitem order by l_comment", "--memory", "1M", "--threads", "1", limit=limit)
    if status not in (0, 1) or (status == 1 and "memory" not in err):
        fail("1 MiB: status %d: %s" % (status, err))


# ---- space ----

def test_space(folder):
    disk = folder + "/disk"
    with open(disk, "wb") as file:
        file.truncate(10 * MIB)
    made = subprocess.run([FATHOM, "vol", "create", "file:" + disk], capture_output=True, text=True)
    if made.returncode:
        print("sql_limits_test: no volume here: %s" % made.stderr.strip())
        return
    db = "vol(file:%s)" % disk
    must(db, "create table t (id int not null, s varchar(100)); insert into t values (1, 'old'), (2, 'older');")
    rng = random.Random(1)
    with open(folder + "/large.tbl", "w") as file:
        for i in range(250000):
            file.write("%d|%s\n" % (i, "%080x" % rng.getrandbits(320)))
    for _ in range(3):
        status, _, err = sql(db, "copy t from '%s/large.tbl' with (delimiter '|')" % folder)
        if status != 1 or "full" not in err:
            fail("COPY into a full volume: status %d: %s" % (status, err))
        if must(db, "select count(*), max(s) from t") != "2,older\n":
            fail("the old rows are not there after a COPY that failed")
    # What failed has left its space: this does not fit beside it.
    with open(folder + "/some.tbl", "w") as file:
        for i in range(40000):
            file.write("%d|%s\n" % (i, "%080x" % rng.getrandbits(320)))
    must(db, "copy t from '%s/some.tbl' with (delimiter '|')" % folder)
    status, _, err = sql(db, "insert into t select a.id, a.s || b.s from t a, t b where b.id < 20 and b.s > 'o'; "
                             "insert into t select a.id, a.s from t a, t b where b.id < 9")
    if status != 1:
        fail("INSERT into a full volume: status %d: %s" % (status, err))
    count = int(must(db, "select count(*) from t"))
    if count < 40002:
        fail("%d rows after an INSERT that failed" % count)


# ---- long lists ----

def test_lists(folder):
    db = folder + "/lists"
    must(db, "create table t (a int not null, s varchar(10), x double precision, f char(8), g boolean); " + "".join(
        "insert into t values %s;" % ", ".join("(%d, 'v%d', %d.5, 'c%d', %s)" % (i, i, i, i, i % 2 == 0) for i in range(at, at + 1000))
        for at in range(0, 10000, 1000)), "--create")

    def count(condition, n, item, *options):
        text = condition % ", ".join(item % (3 * i) for i in range(n))
        return must(db, "select count(*) from t where %s" % text, "--memory", "64M", *options).strip()

    for condition, n, item, found in (
            ("a in (%s)", 100000, "%d", "3334"), ("a not in (%s)", 100000, "%d", "6666"), ("a + 0 in (%s, null)", 50000, "%d", "3334"),
            ("a not in (%s, null)", 50000, "%d", "0"), ("s in (%s)", 50000, "'v%d'", "3334"), ("f in (%s)", 50000, "'c%d '", "3334"),
            ("x in (%s)", 50000, "%d.5", "3334"), ("x not in (%s)", 4096, "%d.5", "6666"), ("g in (%s)", 4096, "%d <> 1", "5000")):
        if count(condition, n, item) != found:
            fail("%s with %d values: %s, not %s" % (condition, n, count(condition, n, item), found))
    # as a storage daemon reads it
    text = "select count(*) from t where a in (%s)" % ", ".join(str(i) for i in range(20000))
    tasks = subprocess.run([FATHOM, "sql", db, "--show-tasks", "-c", text], capture_output=True, text=True)
    if tasks.returncode or must(db, tasks.stdout, "--tasks", "-").strip() != "10000":
        fail("tasks with 20000 values: %s" % tasks.stderr)
    for condition, error in (("(a, s) in (%s)" % ", ".join("(%d, 'x%d')" % (i, i) for i in range(5000)), "or of 5000 operands is not supported, the limit is 4096"),
                             ("a in (%s)" % ", ".join("%d" % i for i in range(200000)), "bytes, the limit is 1048576")):
        status, _, err = sql(db, "select count(*) from t where %s" % condition)
        if status != 1 or error not in err:
            fail("expected %s: status %d: %s" % (error, status, err))


# ---- kills ----

def test_kills(folder):
    rows = 200000
    with open(folder + "/kill.tbl", "w") as file:
        for i in range(rows):
            file.write("%d|%d\n" % (i, i * 7919 % 1000003))
    db = folder + "/kills"
    copy = "copy t from '%s/kill.tbl' with (delimiter '|')" % folder
    must(db, "create table t (a int not null, b int)", "--create")
    start = time.monotonic()
    must(db, copy)
    seconds = time.monotonic() - start
    rng, before, killed = random.Random(2), rows, 0
    for turn in range(KILLS):
        child = subprocess.Popen([FATHOM, "sql", db, "-c", copy], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.random() * seconds * 1.2)
        child.kill()
        killed += child.wait() == -9
        out = must(db, "select count(*), sum(a) from t").strip()
        count = int(out.split(",")[0])
        if count not in (before, before + rows) or int(out.split(",")[1]) != count // rows * (rows * (rows - 1) // 2):
            fail("turn %d: %s after %d rows" % (turn, out, before))
        before = count
        if before > 4 * rows:
            must(db, "drop table t; create table t (a int not null, b int); " + copy)
            before = rows
    print("sql_limits_test: %d of %d loads were killed" % (killed, KILLS))


def main():
    with tempfile.TemporaryDirectory() as folder:
        test_memory(folder)
        test_space(folder)
        test_lists(folder)
        test_kills(folder)
    print("sql_limits_test: passed")


main()
