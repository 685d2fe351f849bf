#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""fathom bench spill: queries whose groups, sorts and joins do not fit into memory, and joins that
carry text, on the tables of TPC-H. Siblings: spill_queries.py has the queries; data, processes of
a query and the comparison of answers are those of bench/tpch.

Each query has a process of its own on each side, tables dropped from the page cache before.
"""
import json
import os
import resource
import signal
import sys

import bench_cli
import bench_process
import spill_queries
import tpch_answer
import tpch_data
import tpch_rival
from bench_cli import Failed, Option, Skipped, Usage
from bench_report import median, over, print_json
from tpch_rival import METRICS

TEXT = """Queries with large groups, distinct values, sorts and joins on text, and joins
that carry text, on the tables of TPC-H as they are made and with the rows of
orders and lineitem in random order. Each runs in --memory, those that spill
also in --little, and in DuckDB (as of `fathom bench tpch`) with a limit of
--rival-memory. Processor time is compared, and every answer. A query that
fails, or needs more than --deadline, is a result and reported as such.
Without the rival answers are compared between the two sizes of memory and, at
scale factor 0.01, with digests of known ones."""
OPTIONS = [
    Option("sf", "double", 1.0, "scale factor of the tables; 1 is 1 GB of text"),
    Option("memory", "size", 64 << 20, "memory of a query of ours", 1 << 20, 1 << 44),
    Option("little", "size", 8 << 20, "memory of its second run", 1 << 20, 1 << 44),
    Option("hard", "flag", False, "the kernel enforces these, as in `fathom bench tpch`"),
    Option("rival", "string", "duckdb", "duckdb or none"),
    Option("rival-memory", "size", 64 << 20, "limit that the rival is told; 0: its default",
           0, 1 << 44),
    Option("threads", "number", 0, "of both sides; 0: one for each processor", 0, 256),
    Option("queries", "string", None, "names, or spill or text for a group; default all"),
    Option("order", "string", "both", "rows of orders and lineitem: made, random or both"),
    Option("deadline", "number", 120, "processor seconds of a query; 4 times that as seconds",
           1, 86400),
    bench_cli.ROUNDS,
    Option("dir", "string", None,
           "keep the data here; default: a folder in TMPDIR that is removed"),
    Option("fathom", "string", None, "program; default: the one beside this"),
    bench_cli.SMALLEST,
]
ORDERS = {"made": (None,), "random": ("both",), "both": (None, "both")}
ORDER_NAMES = {None: "made", "both": "random"}
PATIENCE = 4  # seconds on the clock for each processor second
LITTLE_MOST, PEER_MOST = 2.5, 1.0  # wanted of each query
MIB = 1 << 20


class Side:
    """What all rounds of a query gave on one side. A side that did not finish has an error, and
    `least`: the processor seconds that it took for that, at least."""

    def __init__(self, what):
        self.what, self.error, self.wrong, self.least, self.rounds = what, None, False, 0.0, []

    def note(self, work, deadline):
        try:
            self.rounds.append(work())
        except (Failed, Skipped) as failed:
            self.error = str(failed)
            if "signal %d" % signal.SIGXCPU in self.error:
                self.error, self.least = "over %d processor seconds" % deadline, float(deadline)
            elif "does not end" in self.error:
                self.error = "over %d s" % (PATIENCE * deadline)

    def note_wrong(self, compare):
        try:
            compare()
        except Failed as failed:
            self.error, self.wrong = "WRONG: %s" % failed, True

    def value(self, metric):
        return median([figures[metric] for figures in self.rounds])

    @property
    def cpu(self):
        """Processor seconds, or the least that they could be."""
        return self.least if self.error else self.value("cpu_s")

    def text(self):
        if not self.error:
            return "%.2f" % self.cpu
        return ">%.0f" % self.least if self.least else "failed"

    def members(self):
        if self.error:
            return {"error": self.error, "at_least_cpu_s": self.least}
        return {metric: self.value(metric) for metric in METRICS}


class Query:
    """A query on tables of one order."""

    def __init__(self, order, group, name, sql):
        self.order, self.group, self.name, self.sql = order, group, name, sql
        self.much, self.little, self.peer = Side("memory"), Side("little"), Side("rival")
        self.digest = None

    def sides(self, rival):
        return [self.much] + [self.little] * (self.group == "spill") + [self.peer] * bool(rival)

    def ratio(self, side, of):
        """`side` over `of`: None if that is not known, and whether it is at least that."""
        if of.error or not of.cpu or (side.error and not side.least):
            return None, False
        return side.cpu / of.cpu, bool(side.error)


class Bench:
    def __init__(self, options, rival):
        self.options, self.rival = options, rival
        self.queries = [Query(order, group, name, sql) for order in ORDERS[options.order]
                        for group, name, sql in choose_queries(options.queries, options.sf)]

    def limits(self):
        seconds = self.options.deadline
        return {"seconds": PATIENCE * seconds,
                "prepare": lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))}

    # ---- runs ----

    def run_ours(self, query, memory, answer):
        options = self.options
        command = bench_process.driver(
            "tpch", "--file", self.data.path("query.sql"), "--database", self.data.ours.path,
            "--answer", answer, "--budget", memory, "--threads", options.threads, "--runs", 1)
        command += ["--soft"] * (not options.hard)
        result = json.loads(bench_process.run(command, **self.limits()).text)
        query.digest = int(result["digest"], 16)
        return result["runs"][0]

    def run_peer(self, query, answer):
        return self.rival.run(self.data.peer.path, self.data.path("query.sql"), answer, runs=1)[0]

    def check_digest(self, query, side):
        known = self.options.sf == spill_queries.KNOWN_SF
        if not side.error and known and query.digest != spill_queries.KNOWN[query.name]:
            side.error, side.wrong = "WRONG: digest 0x%016x" % query.digest, True

    def run_side(self, query, side, answers):
        """The side's answer, if it finished."""
        answer = self.data.path(side.what + ".txt")
        deadline = self.options.deadline
        self.data.drop()
        if side is query.peer:
            side.note(lambda: self.run_peer(query, answer), deadline)
        else:
            memory = self.options.memory if side is query.much else self.options.little
            side.note(lambda: self.run_ours(query, memory, answer), deadline)
            self.check_digest(query, side)
        if not side.error:
            answers[side.what] = answer

    def run_query(self, query):
        answers = {}
        with open(self.data.path("query.sql"), "w") as file:
            file.write(query.sql)
        for side in query.sides(self.rival):
            if not side.error:
                self.run_side(query, side, answers)
        expected = answers.get("rival") or answers.get("memory")
        for side in (query.much, query.little):
            if answers.get(side.what, expected) != expected:
                side.note_wrong(lambda: tpch_answer.compare(answers[side.what], expected))

    def run_order(self, data):
        self.data = data
        mine = [query for query in self.queries if ORDER_SUFFIX[query.order] == data.suffix]
        try:
            for done, query in enumerate(mine * self.options.rounds, 1):
                bench_cli.progress("query", done, self.options.rounds * len(mine))
                self.run_query(query)
                if done > len(mine) * (self.options.rounds - 1):
                    self.print_query(query)
        finally:
            bench_cli.progress_end()
            for name in ("query.sql", "memory.txt", "little.txt", "rival.txt"):
                bench_process.remove(data.path(name))

    # ---- report ----

    def finished_by_peer(self, group):
        return [query for query in self.queries
                if query.group == group and self.rival and not query.peer.error]

    def sums(self, group):
        """Ours and the peer's over queries that it finishes, and how many of them ours did not."""
        both = self.finished_by_peer(group)
        return (sum(query.much.cpu for query in both), sum(query.peer.cpu for query in both),
                sum(1 for query in both if query.much.error))

    def count(self, test):
        return sum(1 for query in self.queries for side in query.sides(self.rival)
                   if test(query, side))

    def failed(self):
        return self.count(lambda query, side: side is not query.peer and side.error)

    def wrong(self):
        return self.count(lambda query, side: side.wrong)

    def over_limit(self, group, side, of, most):
        """Queries with a ratio that is unknown or above the limit; a peer that failed sets none."""
        queries = [query for query in self.queries if query.group == group]
        if of == "peer":
            queries = self.finished_by_peer(group)
        ratios = [query.ratio(getattr(query, side), getattr(query, of)) for query in queries]
        return sum(1 for ratio, _ in ratios if ratio is None or ratio > most), len(ratios)

    def print_head(self):
        options = self.options
        print("spill: TPC-H at scale factor %g, %d and %d MiB%s, %d threads, %s" % (
            options.sf, options.memory // MIB, options.little // MIB,
            ", enforced" if options.hard else "", options.threads,
            "%s with %d MiB" % (self.rival.version, options.rival_memory // MIB)
            if self.rival else "no rival"))
        print("%-7s %-16s %8s %8s %7s %8s %7s %9s %9s %9s" % (
            "rows", "query", "CPU s", "little", "over", "rival", "of it", "read MiB", "spilled",
            "little"), flush=True)

    def print_query(self, query):
        """As soon as it is done: all of them take long."""
        def ratio_text(side, of):
            ratio, least = query.ratio(side, of)
            return "-" if ratio is None else "%s%.2f" % (">" if least else "", ratio)

        if self.options.json:
            return
        bench_cli.progress_end()
        spills = query.group == "spill"
        print("%-7s %-16s %8s %8s %7s %8s %7s %9s %9s %9s" % (
            ORDER_NAMES[query.order], query.name, query.much.text(),
            query.little.text() if spills else "",
            ratio_text(query.little, query.much) if spills else "",
            query.peer.text() if self.rival else "", ratio_text(query.much, query.peer),
            mib(query.much, "read_bytes"), mib(query.much, "spilled_bytes"),
            mib(query.little, "spilled_bytes") if spills else ""))
        for side in query.sides(self.rival):
            if side.error:
                name = self.rival.name if side is query.peer else "fathom"
                print("        %s, %s: %s" % (name, side.what, side.error))
        sys.stdout.flush()

    def print_sum(self, group):
        ours, peer, lost = self.sums(group)
        print("%s: %.2f CPU s, %s%.2f of %s's on the queries that it finishes" % (
            group, ours, "over " if lost else "", over(ours, peer), self.rival.name))

    def print_sums(self):
        options = self.options
        groups = {query.group for query in self.queries}
        if "spill" in groups:
            print("spill: CPU in %d MiB over %.1f of that in %d MiB, or not finished: %d of %d" % (
                options.little // MIB, LITTLE_MOST, options.memory // MIB,
                *self.over_limit("spill", "little", "much", LITTLE_MOST)))
        for group in sorted(groups if self.rival else ()):
            self.print_sum(group)
            print("%s: over the CPU of %s, or not finished: %d of %d" % (
                group, self.rival.name, *self.over_limit(group, "much", "peer", PEER_MOST)))

    def print_json(self):
        options, groups = self.options, sorted({query.group for query in self.queries})
        sums = {group: dict(zip(("ours", "peer", "unfinished"), self.sums(group)))
                for group in groups}
        ours, peer = (sum(one[side] for one in sums.values()) for side in ("ours", "peer"))
        if not self.rival:
            ours = sum(query.much.cpu for query in self.queries)
        print_json("spill", ours, peer, over(peer, ours) if self.rival else ours,
                   peer_version=self.rival.version if self.rival else None, sf=options.sf,
                   budget=options.memory, little=options.little, hard=options.hard,
                   peer_memory=options.rival_memory, threads=options.threads, order=options.order,
                   deadline=options.deadline, rounds=options.rounds, failed=self.failed(),
                   wrong=self.wrong(), peer_failed=self.count(
                       lambda query, side: side is query.peer and side.error),
                   sums=sums, queries=[{
                       "query": query.name, "group": query.group, "order": ORDER_NAMES[query.order],
                       **{side.what: side.members() for side in query.sides(self.rival)}}
                       for query in self.queries])


ORDER_SUFFIX = {order: tpch_data.ORDERS[order][0] for order in (None, "both")}


def mib(side, metric):
    return "" if side.error or not side.rounds else "%.1f" % (side.value(metric) / MIB)


def choose_queries(text, scale):
    """Triples: group, name, statement."""
    known = [(group, name, sql) for group, queries in spill_queries.GROUPS.items()
             for name, _, sql in queries]
    wanted = text.split(",") if text else list(spill_queries.GROUPS)
    for word in wanted:
        if not any(word in (group, name) for group, name, _ in known):
            raise Usage("--queries %s: no query or group %s" % (text, word))
    return [(group, name, spill_queries.statement(sql, scale)) for group, name, sql in known
            if group in wanted or name in wanted]


def check_options(options):
    if options.smallest:
        options.sf, options.rounds, options.little = spill_queries.KNOWN_SF, 1, 4 << 20
        options.order = "random"
    if not 0.001 <= options.sf <= 100000:
        raise Usage("--sf %g: expected a number from 0.001 to 100000" % options.sf)
    if options.order not in ORDERS:
        raise Usage("--order %s: expected made, random or both" % options.order)
    if options.rival not in ("duckdb", "none"):
        raise Usage("--rival %s: expected duckdb or none" % options.rival)
    options.threads = options.threads or os.cpu_count()


def find_rival(options, limits):
    if options.rival == "none":
        return None
    try:
        return tpch_rival.Rival(options.rival, options.threads, options.rival_memory, **limits)
    except Skipped as skipped:
        bench_cli.error("%s: measuring fathom alone" % skipped)
        return None


def run(options):
    check_options(options)
    bench = Bench(options, None)
    bench.rival = find_rival(options, bench.limits())
    if not options.json:
        bench.print_head()
    with tpch_data.open_root(options.dir, options.sf) as root:
        for order in ORDERS[options.order]:
            bench.run_order(tpch_data.Data(
                root, options.sf, order, options.threads,
                options.fathom or bench_process.find_fathom(), bench.rival))
    if not options.json:
        bench.print_sums()
    bench.print_json()
    if bench.wrong():
        raise Failed("%d answers are wrong" % bench.wrong())
    if options.smallest and bench.failed():
        raise Failed("%d queries failed" % bench.failed())


if __name__ == "__main__":
    bench_cli.main("spill", TEXT, OPTIONS, run)
