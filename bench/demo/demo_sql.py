# SPDX-License-Identifier: BSD-2-Clause
"""Scene of the demo: SQL inside 16 MiB. Tables of TPC-H are made and loaded. Three queries run with 16 MiB and in SQLite
with a page cache of 16 MiB (and that of the kernel), and answers are compared; all 22 queries of TPC-H run in 16 MiB and
again in plenty of memory, and both answers must agree."""
import csv
import io
import os
import re
import sqlite3
import time

import bench_process
from bench_cli import Failed, Skipped, progress
from demo_measured import FATHOM, tool
from demo_tell import SECONDS, Row

BUDGET, PLENTY = "16M", "512M"
QUERIES = 22
# Pricing summary, local revenue and lost discounts: like queries 1, 3 and 6 of TPC-H, in SQL that both understand.
QUESTIONS = [
    """select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1 - l_discount)),
       count(*) from lineitem where l_shipdate <= '1998-09-02' group by l_returnflag, l_linestatus order by 1, 2""",
    """select o_orderkey, sum(l_extendedprice * (1 - l_discount)) as revenue from customer, orders, lineitem
       where c_mktsegment = 'BUILDING' and c_custkey = o_custkey and l_orderkey = o_orderkey and o_orderdate < '1995-03-15'
       and l_shipdate > '1995-03-15' group by o_orderkey order by revenue desc, o_orderkey limit 10""",
    """select sum(l_extendedprice * l_discount) from lineitem where l_shipdate >= '1994-01-01' and l_shipdate < '1995-01-01'
       and l_discount between 0.05 and 0.07 and l_quantity < 24""",
]
TIMING = re.compile(r"time: ([0-9.]+) s, read .*, memory ([0-9.]+) (B|KiB|MiB|GiB)")
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def ask(db, question, memory):
    """Rows, seconds and bytes of memory."""
    with open(os.path.join(db, "..", "timing"), "w+") as errors:
        process = bench_process.start([FATHOM, "sql", "--csv", "--no-header", "--timing", "--memory", memory, db, "-c", question],
                                      stdout=bench_process.subprocess.PIPE, stderr=errors, text=True)
        try:
            text = process.stdout.read()
            process.wait()
        finally:
            bench_process.kill(process)
            process.stdout.close()
        errors.seek(0)
        said = errors.read()
    found = TIMING.findall(said)
    if process.returncode or not found:
        raise Failed(said.strip() or "fathom sql failed")
    seconds, amount, unit = found[-1]
    return list(csv.reader(io.StringIO(text))), float(seconds), float(amount) * UNITS[unit]


def same_value(a, b):
    """Equal, or equal as numbers: SQLite calculates with doubles."""
    if str(a) == str(b):
        return True
    try:
        return abs(float(a) - float(b)) < 1e-9 * abs(float(a))
    except ValueError:
        return False


def same_answer(ours, theirs):
    return len(ours) == len(theirs) and all(
        len(a) == len(b) and all(map(same_value, a, b)) for a, b in zip(ours, theirs))


def load(folder, db, sf):
    """The tables as text, and in a database; rows of each."""
    made = tool("bench", "tpch", "generate", "--sf", sf, "--output", folder)
    schema = bench_process.run([FATHOM, "bench", "tpch", "schema"]).text
    bench_process.run([FATHOM, "sql", "--create", db, "-c", schema])
    for number, table in enumerate(made["tables"]):
        progress("loading tables", number, len(made["tables"]))
        bench_process.run([FATHOM, "sql", "load", db, table["table"], os.path.join(folder, table["table"] + ".tbl")])
    return schema, made["rows"]


def load_sqlite(folder, schema):
    connection = sqlite3.connect(os.path.join(folder, "sqlite"))
    connection.executescript("pragma journal_mode=off; pragma synchronous=off; pragma cache_size=-16384;" + schema)
    for table in ("customer", "orders", "lineitem"):
        with open(os.path.join(folder, table + ".tbl")) as file:
            rows = (line.rstrip("\n").rstrip("|").split("|") for line in file)
            first = next(rows)
            insert = "insert into %s values (%s)" % (table, ",".join("?" * len(first)))
            connection.execute(insert, first)
            connection.executemany(insert, rows)
    connection.commit()
    return connection


def ask_sqlite(folder, schema, ours):
    """Seconds, and how many answers differ."""
    progress("loading tables into SQLite", 1, 2)
    connection = load_sqlite(folder, schema)
    seconds = different = 0
    for question, answer in zip(QUESTIONS, ours):
        begin = time.monotonic()
        theirs = connection.execute(question).fetchall()
        seconds += time.monotonic() - begin
        different += not same_answer(answer, theirs)
    connection.close()
    return seconds, different


def ask_all(db):
    """The 22 queries in little and in plenty of memory: seconds, the most bytes, and how many answers differ."""
    seconds = most = different = 0
    for number in range(1, QUERIES + 1):
        progress("queries of TPC-H", number - 1, QUERIES)
        question = bench_process.run([FATHOM, "bench", "tpch", "query", str(number)]).text
        small, took, memory = ask(db, question, BUDGET)
        large, _, _ = ask(db, question, PLENTY)
        seconds, most = seconds + took, max(most, memory)
        different += sorted(small) != sorted(large)  # rows of equal sort key may come in any order
    return seconds, most, different


def scene(tell):
    if "\n  sql " not in bench_process.run([FATHOM, "--help"]).text:
        raise Skipped("this build has no SQL")
    with bench_process.temporary_folder("fathom-demo-") as folder:
        db = os.path.join(folder, "db")
        schema, rows = load(folder, db, 0.002 if tell.smallest else 0.05)
        tell.begin("query", "SQL inside a memory budget",
                   "   %.1f million rows of TPC-H in columns on flash; a query allocates at most\n"
                   "   16 MiB in all." % (rows / 1e6))
        answers = [ask(db, question, BUDGET) for question in QUESTIONS]
        theirs, different = ask_sqlite(folder, schema, [answer[0] for answer in answers])
        tell.bars("three queries: scan, join, filter", SECONDS, [
            Row("Fathom, budget of 16 MiB", sum(answer[1] for answer in answers), True),
            Row("SQLite, page cache of 16 MiB", theirs)])
        seconds, most, wrong = ask_all(db)
    tell.say("\n   All %d queries of TPC-H in the same budget: %.2f s, at most %.1f MiB." % (QUERIES, seconds, most / 2**20))
    tell.end(len(QUESTIONS) + QUERIES, "answers", different + wrong + (most > 16 << 20))
