#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""sql_certificate_test.py FATHOM [--strict] [--db FOLDER]

What EXPLAIN promises holds: for the 22 queries of TPC-H at scale factor 0.01, in four budgets,
every task reads at most the bytes of its certificate, and exactly these where nothing can be left
out while it runs; memory stays below its bound, and the bound below the budget. EXPLAIN ANALYZE has
the promises of EXPLAIN. A query that is refused runs with the memory that it asks for.

With --strict the queries of `fathom bench spill` are asked as well, one budget is 4 MiB, and bytes
that are spilled stay below their bound too.
FTH_LONG_TESTS takes scale factor 0.1, with one thread and with two, rows as they are made and
shuffled. --db: these tables instead of made ones.
"""
import argparse
import csv
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent.parent / "bench" / "spill"))
import spill_queries  # noqa: E402
import sql_tpch_test as tpch  # noqa: E402

MEBI = 1 << 20
EXACT_FROM = 16 * MEBI  # for tables of the short form; else a bound may be for reading twice
BUDGETS = {64: 2, 32: 1, 16: 1, 8: 2}  # MiB, and threads in the short form
STRICT_BUDGETS = {64: 2, 16: 1, 8: 2, 4: 1}


class Broken(Exception):
    """A promise that was not kept, or a query that failed."""


def promise(kept, text):
    if not kept:
        raise Broken(text)


def explain(fathom, db, query, options, *arguments):
    run = subprocess.run([fathom, "sql", "--csv", "--no-header", *arguments, str(db), "-c",
                          f"explain ({options}) {query}"], capture_output=True, text=True)
    promise(run.returncode == 0, run.stderr.strip())
    return "\n".join(row[0] for row in csv.reader(io.StringIO(run.stdout)) if row)


def check_task(task, budget, strict, exact):
    actual, where = task["actual"], "task %d, %s" % (task["task"], task["source"])
    for what in ("bytes", "memory") + ("spill",) * strict:
        promise(task[what] is not None, "%s: no bound for %s" % (where, what))
        promise(actual[what] <= task[what], "%s: %s %d, promised %d" % (
            where, what, actual[what], task[what]))
    promise(task["memory"] <= budget, "%s: may take more than the budget" % where)
    promise(actual["kept"], "%s: says itself that its promise is broken" % where)
    # Nested tasks may find a row group that they read before; others read what was not skipped.
    whole = not task["nested"] and actual["chunks_skipped"] == 0 and not task["fetches"]
    if whole and exact:
        promise(actual["bytes"] == task["bytes"], "%s: reads %d bytes, not %d" % (
            where, actual["bytes"], task["bytes"]))


def check_total(report, memory, strict):
    actual = report["actual"]
    promise(report["budget"] == memory, "the budget is %d" % report["budget"])
    promise(actual["memory"] <= memory, "memory %d" % actual["memory"])
    promise(actual["bytes"] <= report["bytes"], "all tasks: bytes %d, promised %d" % (
        actual["bytes"], report["bytes"]))
    spilled = sum(task["actual"]["spill"] for task in report["tasks"])
    promise(not strict or spilled <= report["spill"], "all tasks: spill %d, promised %d" % (
        spilled, report["spill"]))
    promise(actual["kept"], "says itself that its promise is broken")


class Check:
    def __init__(self, options):
        self.fathom, self.strict = options.fathom, options.strict
        self.long = "FTH_LONG_TESTS" in os.environ
        self.asked = self.refused = self.broken = 0

    def queries(self, scale):
        """Pairs: name and statement."""
        for number in range(1, 23):
            command = [self.fathom, "bench", "tpch", "query", str(number)]
            yield "query %d" % number, tpch.run(command, None)
        for name, _, text in spill_queries.SPILL + spill_queries.TEXT if self.strict else ():
            yield name, spill_queries.statement(text, scale)

    def check_query(self, db, select, memory, threads):
        arguments = ["--memory", str(memory), "--threads", str(threads)]
        before = json.loads(explain(self.fathom, db, select, "format json", *arguments))
        after = json.loads(explain(self.fathom, db, select, "analyze, format json", *arguments))
        promise("actual" not in before, "EXPLAIN ran the query")
        for what in ("bytes", "memory", "spill"):
            promise([task[what] for task in before["tasks"]] == [
                task[what] for task in after["tasks"]], "EXPLAIN promises other %s" % what)
        for task in after["tasks"]:
            check_task(task, memory, self.strict, not self.long and memory >= EXACT_FROM)
        check_total(after, memory, self.strict)

    def check_or_refused(self, db, select, memory, threads):
        self.asked += 1
        try:
            self.check_query(db, select, memory, threads)
        except Broken as failed:
            needed = re.search(r"needs at least (\d+) MiB of memory", str(failed))
            if not needed:
                raise
            self.refused += 1
            self.check_query(db, select, int(needed[1]) * MEBI, threads)

    def check_database(self, db, order, scale):
        budgets = STRICT_BUDGETS if self.strict else BUDGETS
        for name, select in self.queries(scale):
            for memory, usual in budgets.items():
                for threads in (1, 2) if self.long else (usual,):
                    try:
                        self.check_or_refused(db, select, memory * MEBI, threads)
                    except Broken as failed:
                        self.broken += 1
                        print("%s, rows %s, %d MiB, %d threads: %s" % (
                            name, order, memory, threads, failed), flush=True)


def check_text(fathom, db):
    text = explain(fathom, db, "select count(*) from lineitem where l_quantity < 5", "analyze")
    for word in ("task 0: table lineitem", "certificate", "bytes at most", "measured", "promise", "kept"):
        assert word in text, text
    assert "BROKEN" not in text, text
    # Rows before the offset take memory too.
    for query in ("select l_orderkey, l_comment from lineitem limit 3 offset 50000",
                  "select l_orderkey from lineitem order by l_comment limit 3 offset 50000"):
        text = explain(fathom, db, query, "analyze")
        assert "kept" in text and "BROKEN" not in text, text


def check_bounds(fathom, db):
    """Figures that 64 bits do not hold: in words, and null in JSON."""
    tables = ["l%d" % i for i in range(7)]
    select = "select %s from %s where %s" % (", ".join(t + ".l_orderkey" for t in tables), ", ".join("lineitem " + t for t in tables),
                                             " and ".join("%s.l_shipmode = l0.l_shipmode" % t for t in tables[1:]))
    text = explain(fathom, db, select, "format text")
    assert "no bound" in text and "18446744073709551615" not in text and "4294967295" not in text, text
    tasks = json.loads(explain(fathom, db, select, "format json"))["tasks"]
    assert any(task["rows_out"] is None for task in tasks), tasks
    assert all(value is None or task[key] < 10**18 for task in tasks for key, value in task.items() if key in ("rows_in", "rows_out", "bytes")), tasks


def check_made_tables(check):
    scale = 0.1 if check.long else 0.01
    with tempfile.TemporaryDirectory(prefix="fathom-certificate-") as folder:
        subprocess.run([check.fathom, "bench", "tpch", "generate", "--sf", str(scale), "--output",
                        folder], check=True, stdout=subprocess.DEVNULL)
        for order in ("made", "shuffled") if check.long else ("made",):
            if order == "shuffled":
                tpch.shuffle(folder, "orders")
                tpch.shuffle(folder, "lineitem")
            db = "%s/db-%s" % (folder, order)
            tpch.run([check.fathom, "sql", "--create", db], tpch.load(folder))
            if order == "made":
                check_text(check.fathom, db)
                check_bounds(check.fathom, db)
            check.check_database(db, order, scale)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("fathom")
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--db")
    options = parser.parse_args()
    check = Check(options)
    if options.db:
        check.check_database(options.db, options.db, 1)
    else:
        check_made_tables(check)
    print("certificate: %d queries, %d refused, %d broke what they promised" % (
        check.asked, check.refused, check.broken))
    sys.exit(1 if check.broken else 0)


if __name__ == "__main__":
    main()
