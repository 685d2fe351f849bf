#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""sql_budget_test.py FATHOM [--queries N] [--seed N] [--budgets LIST] [--strict] [--report FILE]

Random queries over tables that do not fit into the smaller budgets (sql_budget_queries.py), each in
every budget of the list of MiB, against PostgreSQL's answers. What may go wrong:

    wrong     other rows than PostgreSQL's
    crashed   ended by a signal, or with an error that is not about memory
    ended     for want of memory, although it had started
    short     refused, and it does not run with the memory that the refusal says it needs
    worked    refused, but after it had read or written data
    slow      over 20 times its processor time in the largest budget, and over 2 seconds

wrong, crashed and worked fail the test in every budget; ended, short and slow in budgets of at
least 8 MiB, or with --strict in every one. --report appends a line of JSON for each query and
budget. With FTH_LONG_TESTS there are 6,000 queries. Exits 77 without PostgreSQL.
"""
import argparse
import collections
import csv
import io
import json
import os
import pathlib
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import sql_budget_queries as queries  # noqa: E402
import sql_differential as differential  # noqa: E402

BUDGETS = "64,16,8,6,5,4,3,2"
SHORT_QUERIES, LONG_QUERIES, PER_ROUND = 16, 6000, 40
SLOWER_MOST, SLOW_SECONDS = 20, 2.0
LENIENT, LENIENT_BELOW = ("ended", "short", "slow"), 8  # MiB: fathom/query.h promises less there
REFUSED = re.compile(r"needs (?:at least|more than) (\d+) (bytes|KiB|MiB)")
UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20}
MEMORY = ("memory", "Cannot allocate")
FIRST_SECONDS = 60  # of processor time in the largest budget
WORK_BYTES = 4 << 20  # a query that is refused reads statistics of tables only
SERVER_SETUP = """set client_min_messages = error; set statement_timeout = 30000;
drop schema public cascade; create schema public;
"""
PATIENCE = 900  # seconds, if the machine stands still


class Run:
    """A query in a budget: status, lines and errors, processor seconds, bytes read and written."""

    def __init__(self, fathom, db, query, budget, threads, cpu_most):
        command = [fathom, "sql", "--csv", "--no-header", "--null", differential.NULL, "--readonly",
                   "--memory", str(budget), "--threads", str(threads), "--scratch",
                   os.path.dirname(db), db, "-c", query]

        def limit():
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_most, cpu_most + 2))

        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            child = subprocess.Popen(command, stdout=out, stderr=errors, stdin=subprocess.DEVNULL,
                                     preexec_fn=limit)
            timer = threading.Timer(PATIENCE, child.kill)
            timer.start()
            _, status, used = os.wait4(child.pid, 0)
            timer.cancel()
            child.returncode = self.status = os.waitstatus_to_exitcode(status)
            self.text, self.error = self.read(out), self.read(errors).strip()
        self.cpu = used.ru_utime + used.ru_stime
        self.read_bytes, self.written_bytes = used.ru_inblock * 512, used.ru_oublock * 512

    @staticmethod
    def read(file):
        file.seek(0)
        return file.read().decode(errors="replace")

    def needed(self):
        """Bytes that a refused query asks for, or None."""
        found = REFUSED.search(self.error)
        return int(found[1]) * UNITS[found[2]] if found else None


class Query:
    """Its answer, and what budgets made of it."""

    def __init__(self, text, expected):
        self.text, self.expected, self.accepted, self.usual = text, expected, None, None

    def is_right(self, text):
        lines = text.splitlines()
        if " order by " not in self.text:
            lines.sort()
        if lines == self.accepted:
            return True
        rows = [row or [""] for row in csv.reader(io.StringIO(text))]
        if not differential.same_rows(self.expected, rows, " order by " in self.text):
            return False
        self.accepted = lines
        return True


class Test:
    def __init__(self, options):
        self.options = options
        self.budgets = sorted((int(word) for word in options.budgets.split(",")), reverse=True)
        self.counts = collections.Counter()
        self.failed = 0

    def enforced(self, what, budget):
        return what not in LENIENT or self.options.strict or budget >= LENIENT_BELOW

    def note(self, query, budget, threads, what, run):
        self.counts[what, budget] += 1
        if self.options.report:
            with open(self.options.report, "a") as file:
                file.write(json.dumps({
                    "query": query.text, "budget": budget, "threads": threads, "what": what,
                    "seed": self.seed, "cpu": round(run.cpu, 3), "usual": query.usual,
                    "read": run.read_bytes, "written": run.written_bytes,
                    "error": run.error[:300]}) + "\n")
        if what in ("right", "refused") or not self.enforced(what, budget):
            return
        self.failed += 1
        if self.failed <= 20:
            print("seed %d, %d MiB, %d threads: %s: %s;" % (
                self.seed, budget, threads, what, query.text))
            print("  status %d, %.2f processor seconds, usually %.2f; %s" % (
                run.status, run.cpu, query.usual or 0, run.error[:300] or run.text[:300]),
                flush=True)

    def judge(self, query, run, threads):
        """One of the words above, right, or refused."""
        if run.status == -signal.SIGXCPU:
            return "slow"
        if run.status == 0:
            if not query.is_right(run.text):
                return "wrong"
            usual = run.cpu if query.usual is None else query.usual
            return "slow" if run.cpu > max(SLOWER_MOST * usual, SLOW_SECONDS) else "right"
        if run.status != 1 or not any(word in run.error for word in MEMORY):
            return "crashed"
        needed = run.needed()
        if needed is None:
            return "ended"
        again = self.run(query, needed, threads)
        if again.status != 0 or not query.is_right(again.text):
            return "short"
        return "worked" if max(run.read_bytes, run.written_bytes) > WORK_BYTES else "refused"

    def run(self, query, budget, threads):
        usual = FIRST_SECONDS if query.usual is None else SLOWER_MOST * query.usual
        return Run(self.options.fathom, self.db, query.text, budget, threads,
                   int(max(usual, SLOW_SECONDS)) + 1)

    def test_query(self, query, threads):
        for budget in self.budgets:
            run = self.run(query, budget << 20, threads)
            self.note(query, budget, threads, self.judge(query, run, threads), run)
            if budget == self.budgets[0] and run.status == 0:
                query.usual = run.cpu

    def ask_server(self, server, script, texts):
        """A query for each text that PostgreSQL has an answer to in time."""
        asked = "".join("select '%s%d';\n%s;\n" % (differential.MARK, i, text)
                        for i, text in enumerate(texts))
        answers = differential.split_answers(
            server.answer(SERVER_SETUP + script + queries.Data.indexes() + asked))
        for i, text in enumerate(texts):
            rows, error = answers[i]
            if error and "statement timeout" in error:
                self.counts["too slow for PostgreSQL", 0] += 1
            elif error:
                print("PostgreSQL: %s;\n  %s" % (text, error))
                self.failed += 1
            else:
                yield Query(text, rows)

    def round(self, server, count):
        rng = random.Random(self.seed)
        data = queries.Data(self.seed)
        generator = queries.Generator(rng, data)
        with tempfile.TemporaryDirectory(prefix="fathom-budget-") as folder:
            os.chmod(folder, 0o755)
            self.db = folder + "/db"
            script = data.write(folder)
            subprocess.run([self.options.fathom, "sql", "--create", self.db, "-"], input=script,
                           text=True, check=True, stdout=subprocess.DEVNULL)
            texts = [generator.query() for _ in range(count)]
            for query in self.ask_server(server, script, texts):
                self.test_query(query, rng.choice((1, 2)))

    def run_all(self):
        server = differential.PostgreSQL()
        left, self.seed = self.options.queries, self.options.seed
        try:
            while left > 0:
                self.round(server, min(left, PER_ROUND))
                left -= PER_ROUND
                self.seed += 1
                if self.options.verbose:
                    self.print_counts()
        finally:
            server.close()
        self.print_counts()

    def print_counts(self):
        for what in sorted({what for what, _ in self.counts}):
            counts = [(self.counts[what, budget], budget) for budget in self.budgets + [0]]
            print("%-8s %s" % (what, ", ".join("%d in %d MiB" % pair if pair[1] else str(pair[0])
                                               for pair in counts if pair[0])), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("fathom")
    count = LONG_QUERIES if os.environ.get("FTH_LONG_TESTS") else SHORT_QUERIES
    parser.add_argument("--queries", type=int, default=count)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budgets", default=BUDGETS)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--report")
    test = Test(parser.parse_args())
    test.run_all()
    if test.failed:
        print("sql_budget_test: %d failures" % test.failed)
    sys.exit(1 if test.failed else 0)


if __name__ == "__main__":
    main()
