#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""fathom bench graphmem: breadth-first search, components and PageRank with everything in the cache (hot) and with a cache of a
quarter of the edges, against GAPBS in memory. Without GAPBS the peer is the same algorithm with everything in the cache.

graphmem_driver.c runs ours. GAPBS are the programs bfs, cc and pr of the GAP Benchmark Suite (Beamer, Asanovic, Patterson,
arXiv:1508.03619).
"""
import json
import os
import re
import tempfile

import bench_cli
import bench_process
from bench_cli import Failed, Option, bytes_text
from bench_report import median, over, print_json
from graph_file import OPTIONS as FILE_OPTIONS, GraphFile, check_threads

TEXT = """Breadth-first search, components and PageRank on a Kronecker graph in a
file, with a cache of all edges and with one of a quarter, against the GAP
Benchmark Suite in memory. FTH_GAPBS names the folder of its programs bfs,
cc and pr; without it the peer is the same algorithm with all in the
cache. The speed is the peer's time over ours. Results are verified."""
OPTIONS = FILE_OPTIONS + [
    Option("rounds", "number", 5, "runs of each side", 1, bench_cli.ROUNDS_MAX),
    Option("sources", "number", 4, "searches per round", 1, 16),
    Option("iterations", "number", 5, "of PageRank", 1, 10000),
    Option("line", "size", 65536, "bytes of a line", 512, 65536),
    bench_cli.SMALLEST,
]
TASKS = ("bfs", "cc", "pagerank")


def parse_trials(output, trials):
    """`Trial Time: SECONDS` for each trial, and `Verification: PASS` where there was one."""
    if any("PASS" not in line for line in re.findall(r"^Verification:.*", output, re.M)):
        raise Failed("GAPBS reports a wrong result of its own")
    seconds = [float(text) for text in re.findall(r"^Trial Time:\s*(\S+)", output, re.M)]
    if len(seconds) != trials:
        raise Failed("GAPBS printed the times of %d trials, expected %d" % (len(seconds), trials))
    return seconds


class Gapbs:
    """The programs in a folder, on a copy of the graph."""

    def __init__(self, folder, graph, path, threads):
        self.folder, self.path, self.threads = folder, path, threads
        graph.copy_serialized(path)

    def run(self, program, trials, *arguments):
        environment = {"OMP_PROC_BIND": "true", **os.environ, "OMP_NUM_THREADS": str(self.threads)}  # bound it is faster
        command = [os.path.join(self.folder, program), "-f", self.path, "-n", trials, *arguments]
        return parse_trials(bench_process.run(command, env=environment).text, trials)

    def verify(self, source):
        self.run("bfs", 1, "-r", source, "-v")

    def seconds(self, task, options, sources):
        """Of each round; of searches the mean over all sources."""
        if task == "cc":
            return self.run("cc", options.rounds)
        if task == "pagerank":
            return self.run("pr", options.rounds, "-i", options.iterations, "-t", 0)
        searches = [self.run("bfs", options.rounds, "-r", source) for source in sources]
        return [sum(one) / len(sources) for one in zip(*searches)]


class Bench:
    def __init__(self, options, graph, gapbs, sources):
        self.options, self.graph, self.gapbs, self.sources = options, graph, gapbs, sources
        self.peer = "gapbs" if gapbs else "hot"
        self.cells = {}

    def measure(self, task):
        options = self.options
        if self.gapbs:
            self.cells[task, "gapbs"] = {"seconds": self.gapbs.seconds(task, options, self.sources), "bytes_read": 0,
                                         "state_bytes": 0}
        command = bench_process.driver(
            "graphmem", "--file", self.graph.path, "--task", task, "--threads", options.threads, "--rounds", options.rounds,
            "--sources", ",".join(map(str, self.sources)), "--iterations", options.iterations, "--line", options.line)
        for side, cell in json.loads(bench_process.run(command).text).items():
            self.cells[task, side] = cell

    def seconds(self, task, side):
        return median(self.cells[task, side]["seconds"])

    def speed(self, task, side):
        """The peer's time over ours."""
        return over(self.seconds(task, self.peer), self.seconds(task, side))

    def sides(self, task):
        return [side for side in ("hot", "quarter", "gapbs") if (task, side) in self.cells]

    def print_head(self):
        options, graph = self.options, self.graph
        print("%s: %s; edges %s, caches of all and of %s in lines of %d; %d threads, median of %d" % (
            graph.path, graph.info["made_by"], bytes_text(graph.edge_bytes()),
            bytes_text(self.cells["bfs", "quarter"]["cache"]), options.line, options.threads, options.rounds))
        print("%-9s %-8s %9s %8s %12s %12s" % ("", "", "seconds", "speed", "read", "vertices"))

    def print_task(self, task):
        for side in self.sides(task):
            cell = self.cells[task, side]
            print("%-9s %-8s %9.4f %8.2f %12s %12s" % (
                task, side, self.seconds(task, side), self.speed(task, side),
                "" if side == "gapbs" else bytes_text(cell["bytes_read"]),
                "" if side == "gapbs" else bytes_text(cell["state_bytes"])), flush=True)

    def print_json(self):
        options, info = self.options, self.graph.info
        ours = "hot" if self.gapbs else "quarter"
        results = [{"task": task, "side": side, "seconds": self.seconds(task, side), "ratio": self.speed(task, side),
                    "bytes_read": self.cells[task, side]["bytes_read"],
                    "state_bytes": self.cells[task, side]["state_bytes"]} for task in TASKS for side in self.sides(task)]
        print_json("graphmem", self.seconds("bfs", ours), self.seconds("bfs", self.peer), self.speed("bfs", ours),
                   unit="seconds of a search", peer_name="GAPBS in memory" if self.gapbs else "everything in the cache",
                   graph=info["made_by"], vertices=info["vertices"], edges=info["edges"],
                   cache=self.cells["bfs", "quarter"]["cache"], line=options.line, threads=options.threads,
                   sources=options.sources, iterations=options.iterations, rounds=options.rounds, results=results)


def execute(options, graph, gapbs):
    bench = Bench(options, graph, gapbs, graph.pick(options.sources))
    if gapbs:
        gapbs.verify(bench.sources[0])
    for number, task in enumerate(TASKS):
        bench_cli.progress("graphmem", number, len(TASKS))
        bench.measure(task)
        bench_cli.progress_end()
        if not options.json:
            if task == TASKS[0]:
                bench.print_head()
            bench.print_task(task)
    bench.print_json()


def run(options):
    if options.smallest:
        options.scale, options.rounds, options.sources, options.iterations = 14, 1, 2, 2
    check_threads(options)
    folder = os.environ.get("FTH_GAPBS")
    with GraphFile(options) as graph:
        if not folder:
            execute(options, graph, None)
            return
        with tempfile.TemporaryDirectory(prefix="fathom-gapbs-", dir=graph.folder) as copies:
            execute(options, graph, Gapbs(folder, graph, copies + "/graph.sg", options.threads))


if __name__ == "__main__":
    bench_cli.main("graphmem", TEXT, OPTIONS, run)
