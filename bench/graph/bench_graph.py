#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""fathom bench graph: breadth-first search and PageRank on a graph four times as large as the cache, against the same
algorithms over a mapped file, in as much memory. graph_driver.c is one run of either side.

Each run is a process of its own inside a memory cgroup, and begins with nothing of the file in memory. How much memory it
may use, page cache included, is what ours was seen to need in a run without a bound.
"""
import json

import bench_cgroup
import bench_cli
import bench_process
from bench_cli import Failed, Option, Skipped, Usage, bytes_text
from bench_report import median, over, print_json
from graph_file import OPTIONS as FILE_OPTIONS, GraphFile, check_threads

TEXT = """Breadth-first search and PageRank on a Kronecker graph in a file, with a
cache of a quarter of its edges, against the same algorithms over mmap
(MADV_RANDOM, and the default) in a memory cgroup of the same size. Runs
alternate and begin with a cold cache; results are compared. Needs the
right to make cgroups."""
POLICIES = ("default", "fifo", "clock", "trial")
OPTIONS = FILE_OPTIONS + [
    bench_cli.ROUNDS,
    Option("sources", "number", 2, "searches per run", 1, 64),
    Option("iterations", "number", 5, "of PageRank", 1, 10000),
    Option("cache", "renamed", "memory", ""),
    Option("memory", "size", 0, "of the cache; 0: a quarter of the edges"),
    # Large lines cost less, and both tasks read most of the edges.
    Option("line", "size", 65536, "bytes of a line", 512, 65536),
    Option("policy", "string", "clock", "replacement policy: " + ", ".join(POLICIES)),
    Option("one-way", "flag", False, "PageRank sweeps forward only"),
    Option("peer-unlimited", "flag", False, "no bound on memory, where there are no cgroups"),
    bench_cli.SMALLEST,
]
TASKS = ("bfs", "pagerank")
SIDES = {"ours": "ours", "mmap random": "random", "mmap default": "default"}
CACHE_SHARE = 4  # of the edges: one in so many bytes
UNBOUNDED = 1 << 42
SLACK = 3 << 20  # what one run may need more than another, for its program and for the kernel too
RANK_TOLERANCE = 1e-6


def near(a, b):
    return abs(a - b) <= RANK_TOLERANCE * (abs(a) + abs(b))


def compare_digests(a, b):
    """Raises Failed if two results, as graph_digest.c has them, differ."""
    if a["bad_parents"] or b["bad_parents"]:
        raise Failed("a BFS tree does not lead to its source")
    if a["reached"] != b["reached"]:
        raise Failed("the searches reached %d and %d vertices" % (a["reached"], b["reached"]))
    if a["depths"] != b["depths"]:
        raise Failed("the depths of the searches differ")
    if not near(a["sum"], b["sum"]) or not near(a["weighted"], b["weighted"]):
        raise Failed("the ranks differ")
    for x, y in zip(a["sample"], b["sample"]):
        if not near(x, y):
            raise Failed("a rank differs: %g and %g" % (x, y))


class Bench:
    def __init__(self, options, graph):
        self.options, self.graph = options, graph
        line = options.line
        self.cache = max(options.memory or graph.edge_bytes() // CACHE_SHARE // line * line, 4 * line)
        self.sources = ",".join(map(str, graph.pick(options.sources)))
        self.memory, self.cells = {}, {}

    # ---- runs ----

    def run_once(self, side, task, memory):
        """What the driver printed, and the most memory of the run."""
        options = self.options
        command = bench_process.driver(
            "graph", "--file", self.graph.path, "--side", SIDES[side], "--task", task, "--threads", options.threads,
            "--sources", self.sources, "--iterations", options.iterations, "--cache", self.cache, "--line", options.line,
            "--policy", options.policy) + ["--one-way"] * options.one_way
        bench_process.drop_cache(self.graph.path)
        if options.peer_unlimited:
            return json.loads(bench_process.run(command).text), 0
        with bench_cgroup.Cgroup(memory) as group:
            return json.loads(bench_process.run(command, what="the run of " + side, prepare=group.enter).text), group.peak()

    def measure_task(self, task):
        first, peak = self.run_once("ours", task, UNBOUNDED)
        if not peak and not self.options.peer_unlimited:
            raise Skipped("the kernel does not report the memory used")
        self.memory[task] = peak + SLACK
        runs = {side: [] for side in SIDES}
        for number in range(self.options.rounds * len(SIDES)):
            side = list(SIDES)[number % len(SIDES)]
            bench_cli.progress(task, number, self.options.rounds * len(SIDES))
            runs[side].append(self.run_once(side, task, self.memory[task])[0])
            compare_digests(first["digest"], runs[side][-1]["digest"])
        bench_cli.progress_end()
        for side in SIDES:  # all but the seconds are of the last round
            seconds = [run["seconds"] for run in runs[side]]
            self.cells[task, side] = {**runs[side][-1], "runs": seconds, "seconds": median(seconds)}

    # ---- reporting ----

    def ratio(self, task, side):
        return over(self.cells[task, side]["seconds"], self.cells[task, "ours"]["seconds"])

    def peer_seconds(self, task):
        """Of the better of the two peers."""
        return min(self.cells[task, side]["seconds"] for side in SIDES if side != "ours")

    def print_head(self):
        options, graph = self.options, self.graph
        print("%s: %s; edges %s, cache %s in lines of %d; %d threads, median of %d" % (
            graph.path, graph.info["made_by"], bytes_text(graph.edge_bytes()), bytes_text(self.cache), options.line,
            options.threads, options.rounds))

    def print_task(self, task):
        print("%s, each in %s of memory" % (
            task, "any amount" if self.options.peer_unlimited else bytes_text(self.memory[task])))
        print("  %-13s %9s %9s %12s %13s %8s" % ("", "seconds", "CPU", "read", "major faults", "ratio"))
        for side in SIDES:
            cell = self.cells[task, side]
            print("  %-13s %9.3f %9.3f %12s %13d %8.2f" % (
                side, cell["seconds"], cell["cpu_seconds"], bytes_text(cell["bytes_read"]), cell["major_faults"],
                self.ratio(task, side)), flush=True)

    def cell_members(self, task, side):
        cell = self.cells[task, side]
        names = ["seconds", "cpu_seconds", "bytes_read", "major_faults"] + ["requests", "hit_rate"] * (side == "ours")
        return {"task": task, "side": side, **{name: cell[name] for name in names}, "memory": self.memory[task],
                "runs": cell["runs"]}

    def print_json(self):
        options, info = self.options, self.graph.info
        ours = sum(self.cells[task, "ours"]["seconds"] for task in TASKS)
        peer = sum(self.peer_seconds(task) for task in TASKS)
        ratios = {"%s_ratio_%s" % (name, SIDES[side]): self.ratio(task, side)
                  for name, task in zip(("bfs", "pr"), TASKS) for side in SIDES if side != "ours"}
        print_json("graph", ours, peer, over(peer, ours), **ratios,
                   unit="seconds of both tasks, the better mmap for each", graph=info["made_by"],
                   vertices=info["vertices"], edges=info["edges"], cache=self.cache, line=options.line,
                   policy=options.policy, threads=options.threads, sources=options.sources,
                   iterations=options.iterations, rounds=options.rounds, one_way=options.one_way,
                   peer_unlimited=options.peer_unlimited,
                   results=[self.cell_members(task, side) for task in TASKS for side in SIDES])


def run(options):
    if options.smallest:
        options.scale, options.rounds, options.sources, options.iterations = 14, 1, 2, 3
    if options.policy not in POLICIES:
        raise Usage("--policy %s: expected one of %s" % (options.policy, ", ".join(POLICIES)))
    check_threads(options)
    if not options.peer_unlimited:
        bench_cgroup.require()
    with GraphFile(options) as graph:
        bench = Bench(options, graph)
        if not options.json:
            bench.print_head()
        for task in TASKS:
            bench.measure_task(task)
            if not options.json:
                bench.print_task(task)
        bench.print_json()


if __name__ == "__main__":
    bench_cli.main("graph", TEXT, OPTIONS, run)
