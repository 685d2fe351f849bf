#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""sql_certificate_test.py FATHOM

What EXPLAIN promises holds: for the 22 queries of TPC-H at scale factor 0.01 every task reads at most the bytes of
its certificate, and exactly these where nothing can be left out while it runs; memory stays below its bound, and the
bound below the budget.
"""
import csv
import io
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import sql_tpch_test as tpch  # noqa: E402

MEBI = 1 << 20


def explain(fathom, db, query, options, *arguments):
    run = subprocess.run([fathom, "sql", "--csv", "--no-header", *arguments, str(db), "-c",
                          f"explain ({options}) {query}"], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    return "\n".join(row[0] for row in csv.reader(io.StringIO(run.stdout)) if row)


def check_task(task, budget, where):
    actual = task["actual"]
    assert actual["bytes"] <= task["bytes"], where
    assert actual["memory"] <= task["memory"] <= budget, where
    assert actual["kept"], where
    # Nested tasks may find a row group that they read before; others read what was not skipped.
    if not task["nested"] and actual["chunks_skipped"] == 0 and not task["fetches"]:
        assert actual["bytes"] == task["bytes"], where


def check_query(fathom, db, number, memory, threads):
    select = tpch.run([fathom, "bench", "tpch", "query", str(number)], None)
    arguments = ["--memory", f"{memory}M", "--threads", str(threads)]
    before = json.loads(explain(fathom, db, select, "format json", *arguments))
    after = json.loads(explain(fathom, db, select, "analyze, format json", *arguments))
    where = f"query {number}, {memory} MiB, {threads} threads: {after}"
    assert "actual" not in before and after["actual"]["kept"], where
    assert [t["bytes"] for t in before["tasks"]] == [t["bytes"] for t in after["tasks"]], where
    assert after["actual"]["memory"] <= after["budget"] == memory * MEBI, where
    assert after["actual"]["bytes"] <= after["bytes"], where
    for task in after["tasks"]:
        check_task(task, after["budget"], where)


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


def main():
    fathom = sys.argv[1]
    with tempfile.TemporaryDirectory(prefix="fathom-certificate-") as folder:
        db = folder + "/db"
        subprocess.run([fathom, "bench", "tpch", "generate", "--sf", "0.01", "--output", folder], check=True,
                       stdout=subprocess.DEVNULL)
        tpch.run([fathom, "sql", "--create", db], tpch.load(folder))
        check_text(fathom, db)
        check_bounds(fathom, db)
        for memory, threads in ((64, 2), (16, 1)):
            for number in range(1, 23):
                check_query(fathom, db, number, memory, threads)
    print("certificate: 44 queries kept what they promised")


if __name__ == "__main__":
    main()
