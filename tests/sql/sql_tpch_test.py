#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""sql_tpch_test.py FATHOM [PROGRAM [ARG...]]

Runs the 22 queries of TPC-H at scale factor 0.01 and compares with tests/tpch. PROGRAM reads a script from its
input and prints rows as CSV without a header, NULL as nothing. FATHOM makes the tables and knows the
queries. Without PROGRAM the engine is tested, `FATHOM sql`: in several budgets and numbers of threads, on tables
as they are generated and on tables whose rows are in random order.
"""
import csv
import io
import pathlib
import random
import subprocess
import sys
import tempfile

ANSWERS = pathlib.Path(__file__).parent.parent / "tpch"
SCHEMA = """
create table region (r_regionkey int primary key, r_name char(25) not null, r_comment varchar(152) not null);
create table nation (n_nationkey int primary key, n_name char(25) not null, n_regionkey int not null,
  n_comment varchar(152) not null);
create table part (p_partkey int primary key, p_name varchar(55) not null, p_mfgr char(25) not null,
  p_brand char(10) not null, p_type varchar(25) not null, p_size int not null, p_container char(10) not null,
  p_retailprice decimal(15,2) not null, p_comment varchar(23) not null);
create table supplier (s_suppkey int primary key, s_name char(25) not null, s_address varchar(40) not null,
  s_nationkey int not null, s_phone char(15) not null, s_acctbal decimal(15,2) not null,
  s_comment varchar(101) not null);
create table partsupp (ps_partkey int not null, ps_suppkey int not null, ps_availqty int not null,
  ps_supplycost decimal(15,2) not null, ps_comment varchar(199) not null, primary key (ps_partkey, ps_suppkey));
create table customer (c_custkey int primary key, c_name varchar(25) not null, c_address varchar(40) not null,
  c_nationkey int not null, c_phone char(15) not null, c_acctbal decimal(15,2) not null,
  c_mktsegment char(10) not null, c_comment varchar(117) not null);
create table orders (o_orderkey bigint primary key, o_custkey int not null, o_orderstatus char(1) not null,
  o_totalprice decimal(15,2) not null, o_orderdate date not null, o_orderpriority char(15) not null,
  o_clerk char(15) not null, o_shippriority int not null, o_comment varchar(79) not null);
create table lineitem (l_orderkey bigint not null, l_partkey int not null, l_suppkey int not null,
  l_linenumber int not null, l_quantity decimal(15,2) not null, l_extendedprice decimal(15,2) not null,
  l_discount decimal(15,2) not null, l_tax decimal(15,2) not null, l_returnflag char(1) not null,
  l_linestatus char(1) not null, l_shipdate date not null, l_commitdate date not null, l_receiptdate date not null,
  l_shipinstruct char(25) not null, l_shipmode char(10) not null, l_comment varchar(44) not null,
  primary key (l_orderkey, l_linenumber));
"""
BUDGETS = ["16M", "64M"]
TABLES = ["region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem"]


def close_enough(a, b):
    if a.rstrip() == b.rstrip():
        return True
    try:
        x, y = float(a), float(b)
    except ValueError:
        return False
    return abs(x - y) <= 1e-9 * max(abs(x), abs(y))


def same(expected, got):
    return len(expected) == len(got) and all(
        len(x) == len(y) and all(map(close_enough, x, y)) for x, y in zip(expected, got))


def answers(text):
    """Rows by query, from what the program printed."""
    found, rows = {}, []
    for row in csv.reader(io.StringIO(text)):
        if row and row[0].startswith("@@"):
            rows = found.setdefault(int(row[0][2:]), [])
        else:
            rows.append(row or [""])
    return found


def queries(fathom):
    script = ""
    for n in range(1, 23):
        query = subprocess.run([fathom, "bench", "tpch", "query", str(n)], check=True, capture_output=True, text=True)
        script += "select '@@%d';\n%s\n" % (n, query.stdout)
    return script


def load(folder):
    return SCHEMA + "".join("copy %s from '%s/%s.tbl' with (delimiter '|');\n" % (t, folder, t) for t in TABLES)


def shuffle(folder, table):
    path = pathlib.Path(folder) / (table + ".tbl")
    lines = path.read_text().splitlines(keepends=True)
    random.Random(1).shuffle(lines)
    path.write_text("".join(lines))


def compare(name, text):
    """The number of wrong answers."""
    got = answers(text)
    wrong = 0
    for n in range(1, 23):
        expected = [line.split("|") for line in (ANSWERS / ("q%02d.txt" % n)).read_text().splitlines()[1:]]
        rows = got.get(n, [])
        # Rows of equal sort key may come in any order.
        if not same(expected, rows) and not same(sorted(expected), sorted(rows)):
            wrong += 1
            print("%s: query %d: %d rows, expected %d" % (name, n, len(rows), len(expected)))
            print("  got      %r\n  expected %r" % (rows[:2], expected[:2]))
    print("sql_tpch_test: %s: %d of 22 answers are right" % (name, 22 - wrong))
    return wrong


def run(program, script):
    return subprocess.run(program, input=script, stdout=subprocess.PIPE, text=True, check=True).stdout


def test_tasks(fathom, db):
    """The tasks of each query as text: read back they are the same, and run they give the same answers."""
    sql = [fathom, "sql", "--csv", "--no-header", db]
    text, wrong = "", 0
    for n in range(1, 23):
        query = run([fathom, "bench", "tpch", "query", str(n)], None)
        tasks = run(sql + ["--show-tasks"], query)
        if run(sql + ["--show-tasks", "--tasks", "-"], tasks) != tasks:
            wrong += 1
            print("tasks of query %d: read back they are others" % n)
        text += "@@%d\n%s" % (n, run(sql + ["--tasks", "-"], tasks))
    return wrong + compare("tasks as text", text)


def test_engine(fathom, folder, order):
    """The engine on a database of the files in folder."""
    db = folder + "/db-" + order
    wrong = 0
    run([fathom, "sql", "--create", db], load(folder))
    script = queries(fathom)
    for budget in BUDGETS:
        for threads in (1, 2):
            program = [fathom, "sql", "--csv", "--no-header", "--memory", budget, "--threads", str(threads), db]
            wrong += compare("%s order, budget %s, %d threads" % (order, budget, threads), run(program, script))
    return wrong + test_tasks(fathom, db)


def main():
    fathom, program = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([fathom, "bench", "tpch", "generate", "--sf", "0.01", "--output", folder], check=True,
                       stdout=subprocess.DEVNULL)
        if program:
            wrong = compare(program[0], run(program, load(folder) + queries(fathom)))
        else:
            wrong = test_engine(fathom, folder, "generated")
            shuffle(folder, "orders")
            shuffle(folder, "lineitem")
            wrong += test_engine(fathom, folder, "random")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
