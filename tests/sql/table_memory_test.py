#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""table_memory_test.py FATHOM: table load, COPY and INSERT keep to their memory.

The most memory that a process had is compared with that of one that does nothing. The rows are such that each part of a
writer would like much: numbers in random order, of which uniqueness is to be proved, long strings, short ones for
dictionaries, and many columns. Under a sanitizer only the rows are compared.
"""
import os
import pathlib
import random
import subprocess
import sys
import tempfile

FATHOM = sys.argv[1]
MIB = 1 << 20
ROWS = 150000
# What malloc() loses between blocks, and PostgreSQL's grammar while it parses.
SLACK = 3 * MIB
COLUMNS = ("id int not null, a bigint not null, b int, c int, d decimal(12,2), e decimal(30,3), f date, g double precision, "
           "h char(10), i varchar(20), j varchar(300), k text, l int, m int, n int, o int")


def fail(text):
    print("table_memory_test:", text, file=sys.stderr)
    sys.exit(1)


def run(*arguments, script=None):
    """Returns status, output, errors, and the most bytes that the process had."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as text:
        text.write((script or "").encode())
        text.seek(0)
        child = subprocess.Popen([FATHOM, *arguments], stdin=text, stdout=out, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return child.returncode, out.read().decode(), err.read().decode(), usage.ru_maxrss * 1024


def sql(db, script, *options):
    status, out, err, peak = run("sql", "--csv", "--no-header", *options, db, script=script)
    if status:
        fail("%s %s: status %d: %s" % (script[:100], options, status, err))
    return out, peak


def is_sanitized():
    program = pathlib.Path(FATHOM).read_bytes()
    return b"__asan_init" in program or b"__tsan_init" in program


def write_rows(path):
    rng = random.Random(31)
    ids = list(range(ROWS))
    rng.shuffle(ids)
    with open(path, "w") as file:
        for i in ids:
            file.write("|".join(map(str, (
                i, rng.getrandbits(60), i % 7, rng.getrandbits(31), rng.randrange(10**10) / 100, rng.getrandbits(80),
                "19%02d-01-%02d" % (i % 100, 1 + i % 28), rng.random(), "c%d" % (i % 5), "name%d" % (i * 7 % 9000),
                "%x" % rng.getrandbits(4 * rng.randint(1, 290)), "text " * (i % 40), i, ROWS - i, i * 3 % ROWS, i % 2))) + "\n")


class Bench:
    def __init__(self, folder):
        self.db, self.text = folder + "/db", folder + "/rows.tbl"
        # In a process of its own, since this one's memory counts for those that it starts.
        subprocess.run([sys.executable, __file__, FATHOM, self.text], check=True)
        sql(self.db, "create table t (%s); create table u (%s)" % (COLUMNS, COLUMNS), "--create")
        self.base = None if is_sanitized() else max(run("sql", "ls", self.db)[3], sql(self.db, "select 1")[1])

    def check_peak(self, what, peak, budget):
        if self.base and peak - self.base > budget + SLACK:
            fail("%s took %.1f MiB, the budget is %.1f" % (what, (peak - self.base) / MIB, budget / MIB))

    def check_rows(self, what, table="t"):
        """All rows are there, and what was proved is what a load in much memory proves."""
        query = ("select count(*), count(distinct id), sum(a), sum(b), sum(e), min(f), max(h), count(distinct i), sum(length(j)), "
                 "sum(length(k)), sum(o) from " + table)
        got = sql(self.db, query)[0]
        self.want = getattr(self, "want", got)
        if got != self.want:
            fail("%s: %s, expected %s" % (what, got, self.want))
        sql(self.db, "drop table %s; create table %s (%s)" % (table, table, COLUMNS))

    def load(self, memory, threads):
        what = "load with %d MiB and %d threads" % (memory, threads)
        status, _, err, peak = run("sql", "load", "--memory", "%dM" % memory, "--threads", str(threads), self.db, "t", self.text)
        if status:
            fail("%s: %s" % (what, err))
        self.check_peak(what, peak, memory * MIB)
        status, _, err, _ = run("sql", "check", self.db, "t")
        if status:
            fail("%s: the table is damaged: %s" % (what, err))

    def copy(self, memory, threads):
        _, peak = sql(self.db, "copy t from '%s' with (delimiter '|')" % self.text, "--memory", "%dM" % memory, "--threads", str(threads))
        self.check_peak("COPY with %d MiB" % memory, peak, memory * MIB)

    def insert(self, memory, threads):
        _, peak = sql(self.db, "insert into u select * from t", "--memory", "%dM" % memory, "--threads", str(threads))
        self.check_peak("INSERT with %d MiB" % memory, peak, memory * MIB)

    def select(self, memory):
        """All rows, which go nowhere: this process must stay small."""
        done = subprocess.run([FATHOM, "sql", "--csv", "--memory", memory, "--threads", "4", self.db, "-c", "select * from t"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            fail("SELECT with %s: %s" % (memory, done.stderr))

    def values(self, memory):
        rows = ", ".join("(%d, %d, '%s')" % (i, i * 7919, "v" * (i % 200)) for i in range(200))
        _, peak = sql(self.db, "insert into t (id, a, j) values %s" % rows, "--memory", "%dM" % memory)
        self.check_peak("INSERT of values with %d MiB" % memory, peak, memory * MIB)
        if sql(self.db, "select count(*), sum(a), count(b), sum(length(j)) from t")[0] != "200,%d,0,%d\n" % (
                7919 * 200 * 199 // 2, sum(i % 200 for i in range(200))):
            fail("INSERT of values with %d MiB: the rows are wrong" % memory)


def check_too_little(bench):
    """Memory for nothing is refused before a row is read."""
    status, _, err, _ = run("sql", "load", "--memory", "64k", bench.db, "t", "/nonexistent")
    if status != 1 or "t: appending needs at least" not in err or "the limit is 64 KiB" not in err:
        fail("load with 64 KiB: status %d: %s" % (status, err))
    sql(bench.db, "create table wide (%s)" % ", ".join("c%d text" % i for i in range(80)))
    for script in "copy wide from '/nonexistent'", "insert into wide (c0) values ('x')":
        status, _, err, _ = run("sql", "--memory", "1M", bench.db, script=script)
        if status != 1 or "of a budget of 1024 KiB: wide: appending needs at least" not in err:
            fail("%s with 1 MiB: status %d: %s" % (script, status, err))


def main():
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder)
        check_too_little(bench)
        bench.values(8)
        sql(bench.db, "drop table t; create table t (%s)" % COLUMNS)
        for memory, threads in (1024, 2), (32, 4), (8, 2), (2, 1):
            bench.load(memory, threads)
            bench.check_rows("load with %d MiB" % memory)
        for memory, threads in (16, 4), (4, 1):
            bench.copy(memory, threads)
            if memory == 16:
                bench.insert(16, 4)
                bench.check_rows("INSERT", "u")
                # Text that is unpacked leaves memory to the threads, or there are fewer of them.
                for less in "8M", "10M":
                    bench.select(less)
            bench.check_rows("COPY with %d MiB" % memory)
    print("table_memory_test: passed")


if len(sys.argv) > 2:
    write_rows(sys.argv[2])
else:
    main()
