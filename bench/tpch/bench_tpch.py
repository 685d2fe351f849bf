#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""fathom bench tpch: the 22 queries of TPC-H in a memory budget, against DuckDB or PostgreSQL on the same text. Siblings:
tpch_data.py makes the data, tpch_driver.c and tpch_rival.py run a query in a process of its own, tpch_answer.py compares the
answers.

Each query has a process of its own on each side, and runs there twice: the first run reads from storage, since the tables
were dropped from the page cache; the second one is warm. Sides alternate.
"""
import json
import os

import bench_cli
import bench_process
import tpch_answer
import tpch_data
import tpch_rival
from bench_cli import Failed, Option, Skipped, Usage
from bench_report import median, over, print_json
from tpch_rival import METRICS, RUNS

TEXT = """The 22 queries of TPC-H in a memory budget, against DuckDB (node's package
@duckdb/node-api, also in the folder that FTH_DUCKDB names) or PostgreSQL on
the same text, each query in a process of its own. Tables that are missing
in --dir are made first: 1.6 GB for each GB of text. Answers are compared.
Without the rival ours runs alone, and answers are compared with those of
--answers or, at scale factors 0.01, 1 and 10, with digests of known ones.

commands:
  generate      make the tables, as the reference generator does
  query         print one of the 22 queries
  schema        print the statements that create the tables"""
OPTIONS = [
    Option("sf", "double", 1.0, "scale factor; 1 is 1 GB of text"),
    Option("budget", "renamed", "memory", ""),
    Option("memory", "size", 64 << 20, "memory of a query of ours, which the kernel enforces", 1 << 20, 1 << 44),
    Option("soft", "flag", False, "the engine alone keeps the budget"),
    Option("threads", "number", 0, "of both sides; 0: one for each processor", 0, 256),
    Option("queries", "string", None, "those to run, as 1,6; default all"),
    Option("rival", "string", "duckdb", "duckdb, postgres or none"),
    Option("rival-memory", "size", 0, "limit that the rival is told; 0: its default", 0, 1 << 44),
    Option("shuffle", "string", None, "rows in random order: lineitem, or both orders and lineitem"),
    Option("answers", "string", None, "folder with q01.txt to q22.txt to compare with as well"),
    bench_cli.ROUNDS,
    Option("dir", "string", None, "keep the data here; default: a folder in TMPDIR that is removed"),
    Option("fathom", "string", None, "program; default: the one beside this"),
    bench_cli.SMALLEST,
]
QUERIES = 22
SCALE_MIN, SCALE_MAX = 0.001, 100000.0
MIB = 1 << 20


class Side:
    """What all rounds of a query gave on one side."""

    def __init__(self):
        self.error, self.rounds, self.charged = None, [], 0

    def note(self, work):
        """A query that fails is a result."""
        try:
            work()
        except (Failed, Skipped) as failed:
            self.error = str(failed)

    def value(self, run, metric):
        return median([runs[run][metric] for runs in self.rounds])


class Bench:
    def __init__(self, options, numbers, rival):
        self.options, self.rival = options, rival
        self.queries = {number: {side: Side() for side in self.sides()} for number in numbers}

    def sides(self):
        return ("ours", "peer") if self.rival else ("ours",)

    # ---- runs ----

    def run_ours(self, number, side, answer):
        options = self.options
        command = bench_process.driver("tpch", "--query", number, "--database", self.data.ours.path, "--answer", answer,
                                       "--budget", options.memory, "--threads", options.threads)
        result = json.loads(bench_process.run(command + ["--soft"] * options.soft).text)
        side.rounds.append(result["runs"])
        side.charged = max(side.charged, result["charged_bytes"])
        self.rows, self.digest = result["rows"], int(result["digest"], 16)

    def run_peer(self, number, side, answer):
        path = self.data.path("query.sql")
        bench_process.run([self.data.fathom, "bench", "tpch", "query", number], output=path)
        side.rounds.append(self.rival.run(self.data.peer.path, path, answer))

    def compare(self, number, ours, peer):
        """Our answer against the rival's, against the one in --answers, and, without either, against its digest."""
        if self.rival and not self.queries[number]["peer"].error:
            tpch_answer.compare(ours, peer)
        if self.options.answers:
            tpch_answer.compare(ours, "%s/q%02d.txt" % (self.options.answers, number), skip=1)
        elif not self.rival and self.options.sf in tpch_answer.KNOWN:
            tpch_answer.verify(self.options.sf, number, self.rows, self.digest)

    def reference(self):
        """What our answers are compared with."""
        if self.rival:
            return self.rival.name
        known = "digests of known answers" if self.options.sf in tpch_answer.KNOWN else None
        return "--answers" if self.options.answers else known

    def run_query(self, number):
        sides = self.queries[number]
        ours, peer = self.data.path("ours.txt"), self.data.path("peer.txt")
        self.data.drop()
        if not sides["ours"].error:
            sides["ours"].note(lambda: self.run_ours(number, sides["ours"], ours))
        if self.rival and not sides["peer"].error:
            sides["peer"].note(lambda: self.run_peer(number, sides["peer"], peer))
        if not sides["ours"].error:
            sides["ours"].note(lambda: self.compare(number, ours, peer))

    def run_rounds(self, data):
        self.data, done = data, 0
        try:
            for _ in range(self.options.rounds):
                for number in self.queries:
                    done += 1
                    bench_cli.progress("query", done, self.options.rounds * len(self.queries))
                    self.run_query(number)
        finally:
            bench_cli.progress_end()
            for name in ("query.sql", "ours.txt", "peer.txt"):
                bench_process.remove(data.path(name))

    # ---- report ----

    def failed(self, side):
        return sum(1 for sides in self.queries.values() if side in sides and sides[side].error)

    def sum(self, side, run, metric):
        """Over the queries that ran: all of ours, or, with a rival, those that both finished."""
        return sum(sides[side].value(run, metric) for sides in self.queries.values()
                   if side in sides and not any(one.error for one in sides.values()))

    def print_row(self, label, side, values):
        name = "fathom" if side == "ours" else self.rival.name
        formats = ("%8.3f", "%8.3f", "%8.3f", "%9.1f", "%9.1f", "%9.1f")
        print("%-3s %-8s %s" % (label if side == "ours" else "", name,
                                " ".join(text % value for text, value in zip(formats, values))))

    def print_side(self, number, side):
        query = self.queries[number][side]
        if query.error:
            name = "fathom" if side == "ours" else self.rival.name
            print("%-3s %-8s failed: %s" % (number if side == "ours" else "", name, query.error))
            return
        self.print_row(number, side, (query.value(0, "cpu_s"), query.value(1, "cpu_s"), query.value(0, "wall_s"),
                                      query.value(0, "read_bytes") / MIB, query.value(0, "spilled_bytes") / MIB,
                                      query.value(RUNS - 1, "peak_rss_bytes") / MIB))

    def print_storage(self):
        data = self.data
        text = "tables: fathom %s, loaded in %.1f CPU s" % (bench_cli.bytes_text(data.ours.bytes), data.ours.load_cpu)
        if data.peer:
            text += "; %s %s, %.1f CPU s" % (self.rival.name, bench_cli.bytes_text(data.peer.bytes), data.peer.load_cpu)
        print(text)

    def print_report(self):
        options = self.options
        order = {None: "", "lineitem": ", rows of lineitem shuffled",
                 "both": ", rows of orders and lineitem shuffled"}[options.shuffle]
        print("TPC-H at scale factor %g%s, %s %d MiB, %d threads, %s" % (
            options.sf, order, "budget" if options.soft else "hard limit", options.memory // MIB, options.threads,
            self.rival.version if self.rival else "no rival"))
        self.print_storage()
        reference = self.reference()
        print("answers: " + ("compared with " + reference if reference
                             else "not compared, no reference at this scale factor"))
        print("%-3s %-8s %8s %8s %8s %9s %9s %9s" % ("Q", "engine", "CPU s", "warm", "wall s", "read MiB", "spilled",
                                                     "RSS MiB"))
        for number in self.queries:
            for side in self.sides():
                self.print_side(number, side)
        for side in self.sides():
            self.print_row("sum", side, (self.sum(side, 0, "cpu_s"), self.sum(side, 1, "cpu_s"),
                                         self.sum(side, 0, "wall_s"), self.sum(side, 0, "read_bytes") / MIB,
                                         self.sum(side, 0, "spilled_bytes") / MIB))
        if self.rival:
            ours = self.sum("ours", 0, "cpu_s")
            print("CPU: %.2f of %s's first run, %.2f of its warm one; wall: %.2f" % (
                over(ours, self.sum("peer", 0, "cpu_s")), self.rival.name, over(ours, self.sum("peer", 1, "cpu_s")),
                over(self.sum("ours", 0, "wall_s"), self.sum("peer", 0, "wall_s"))))

    def side_members(self, side):
        members = {"error": side.error} if side.error else {}
        if side.charged:
            members["charged_bytes"] = side.charged
        for run, key in enumerate(("first", "warm")):
            if not side.error:
                members[key] = {metric: side.value(run, metric) for metric in METRICS}
        return members

    def print_json(self):
        options, data = self.options, self.data
        ours, peer = self.sum("ours", 0, "cpu_s"), self.sum("peer", 0, "cpu_s")
        storage = {"table_bytes": data.ours.bytes, "load_cpu_s": data.ours.load_cpu}
        if self.rival:
            storage.update(peer_table_bytes=data.peer.bytes, peer_load_cpu_s=data.peer.load_cpu)
        # Without a peer there is nothing to compare with: the seconds alone.
        print_json("tpch", ours, peer, over(peer, ours) if self.rival else ours,
                   peer_version=self.rival.version if self.rival else None, reference=self.reference(), sf=options.sf,
                   budget=options.memory, hard=not options.soft, shuffled=options.shuffle is not None,
                   shuffle=options.shuffle, threads=options.threads, peer_memory=options.rival_memory,
                   rounds=options.rounds, failed=self.failed("ours"), peer_failed=self.failed("peer"),
                   peer_warm=self.sum("peer", 1, "cpu_s"), **storage,
                   queries=[{"query": number, **{side: self.side_members(sides[side]) for side in self.sides()}}
                            for number, sides in self.queries.items()])


def choose_queries(text):
    numbers = text.split(",") if text else [str(number) for number in range(1, QUERIES + 1)]
    if any(not number.isdigit() or not 1 <= int(number) <= QUERIES for number in numbers):
        raise Usage("--queries %s: expected numbers from 1 to %d, such as 1,6" % (text, QUERIES))
    return sorted({int(number) for number in numbers})


def check_options(options):
    if options.smallest:
        options.sf, options.rounds, options.rival = 0.01, 1, "none"
    if not SCALE_MIN <= options.sf <= SCALE_MAX:
        raise Usage("--sf %g: expected a number from %g to %g" % (options.sf, SCALE_MIN, SCALE_MAX))
    if options.shuffle not in tpch_data.ORDERS:
        raise Usage("--shuffle %s: expected lineitem or both" % options.shuffle)
    if options.rival not in list(tpch_rival.SCRIPTS) + ["none"]:
        raise Usage("--rival %s: expected duckdb, postgres or none" % options.rival)
    options.threads = options.threads or os.cpu_count()


def find_rival(options):
    if options.rival == "none":
        return None
    try:
        return tpch_rival.Rival(options.rival, options.threads, options.rival_memory)
    except Skipped as skipped:
        bench_cli.error("%s: measuring fathom alone" % skipped)
        return None


def run(options):
    check_options(options)
    numbers = choose_queries(options.queries)
    rival = find_rival(options)
    bench = Bench(options, numbers, rival)
    with tpch_data.open_root(options.dir, options.sf) as root:
        bench.run_rounds(tpch_data.Data(root, options.sf, options.shuffle, options.threads,
                                        options.fathom or bench_process.find_fathom(), rival))
    if not options.json:
        bench.print_report()
    bench.print_json()
    if bench.failed("ours"):
        raise Failed("%d queries failed" % bench.failed("ours"))


if __name__ == "__main__":
    bench_cli.main("tpch", TEXT, OPTIONS, run)
