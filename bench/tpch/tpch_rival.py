# SPDX-License-Identifier: BSD-2-Clause
"""The engine that `fathom bench tpch` and `fathom bench spill` compare with: a script that drives it, a process for each call.

    SCRIPT version                                         a line: name and version
    SCRIPT load DATABASE THREADS MEMORY SCHEMA FOLDER      make DATABASE from FOLDER/TABLE.tbl
    SCRIPT run DATABASE THREADS MEMORY RUNS QUERY ANSWER   run a query; the rows go to the file ANSWER

Both print a line for each run: processor seconds, seconds, bytes read, bytes written, most resident bytes. MEMORY is the
limit in bytes that the engine is told to keep; 0 is its default. Exit status 77: the engine is not installed.
"""
import types

import bench_cli
import bench_process

SCRIPTS = {"duckdb": ("node", "tpch_duckdb.mjs"), "postgres": ("python3", "tpch_postgres.py")}
METRICS = ("cpu_s", "wall_s", "read_bytes", "spilled_bytes", "peak_rss_bytes")
RUNS = 2  # of a query in one process: the first one, and a warm one


class Rival:
    """Raises Skipped if it is not installed. limits: how each query is run, as bench_process.run() takes it."""

    def __init__(self, name, threads, memory, **limits):
        interpreter, script = SCRIPTS[name]
        path = bench_process.find_beside(script)
        if not path:
            raise bench_cli.Skipped("%s is not in the directory of fathom-bench" % script)
        self.name, self.threads, self.memory, self.command = name, threads, memory, [interpreter, path]
        self.limits = limits
        self.version = self.call("version").strip()

    def call(self, *arguments, **limits):
        return bench_process.run(self.command + list(arguments), **limits).text

    def figures(self, *arguments, **limits):
        """A dictionary for each run."""
        lines = [line.split() for line in self.call(*arguments, **limits).splitlines()]
        if not lines or any(len(line) != len(METRICS) for line in lines):
            raise bench_cli.Failed("cannot parse the rival's results")
        return [dict(zip(METRICS, map(float, line))) for line in lines]

    def load(self, database, schema, folder):
        """Queries have the limit of memory, loading has none."""
        took = self.figures("load", database, self.threads, 0, schema, folder)[0]
        return types.SimpleNamespace(cpu=took["cpu_s"], wall=took["wall_s"])

    def run(self, database, query_path, answer, runs=RUNS):
        return self.figures("run", database, self.threads, self.memory, runs, query_path, answer, **self.limits)
