#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""fathom bench kv: `fathom kv serve` against memcached with extstore, under one load generator. kv_server.py has the servers,
kv_load_driver.c the load.

Both servers run at the same time, and are under load one after the other. Processor time is that of the whole process, its
io_uring workers included, since these are threads of it. Reads are counted by the device that the files are on, and so
include those of others.
"""
import contextlib
import os

import bench_cli
import bench_process
import kv_server
from bench_cli import Failed, Option, Skipped, U64_MAX, Usage
from bench_report import Rounds, print_json

# What both servers of a row hold, and where: items on flash, ours with little memory (cold) or with so much that it has the
# peer's RSS (equal); in memory, without flash (dram); many items of 100 bytes on flash (small); items to be overwritten
# (wear); still more small ones, ours alone (huge).
HOLDINGS = ("cold", "equal", "dram", "small", "wear", "huge")


class Row:
    def __init__(self, name, what, holding, connections=32, batch=1, sets=0, zipf=0, asked=False):
        self.name, self.what, self.holding, self.connections, self.batch = name, what, holding, connections, batch
        self.sets, self.zipf, self.asked = sets, zipf, asked  # asked: runs only if it is named


ROWS = (
    Row("cold", "get, 32 connections", "cold"),
    Row("cold200", "get, 200 connections", "cold", connections=200),
    Row("multiget", "get of 10 keys, 32 connections", "cold", batch=10),
    Row("mixed", "95 % get, 5 % set, 32 connections", "cold", sets=0.05),
    Row("set", "set, 32 connections", "cold", sets=1),
    Row("zipf", "get, zipf 0.99, equal RSS", "equal", zipf=0.99),
    Row("dram", "get, all items in memory", "dram"),
    Row("small", "get, items of 100 bytes; memory for an item", "small"),
    Row("wear", "overwriting at random; write amplification", "wear", sets=1),
    Row("huge", "get, still more items of 100 bytes; ours alone", "huge", asked=True),
)
TEXT = """`fathom kv serve` on a file with direct I/O against memcached with
extstore (8 I/O threads, everything sent to flash at once, its file kept
out of the page cache), both as processes of their own, under one load
generator. Runs alternate; medians are compared. Every value is verified.
Without memcached ours runs alone. Rows:
""" + "\n".join("  %-10s %s%s" % (row.name, row.what, " (only if named)" * row.asked) for row in ROWS)
OPTIONS = [
    Option("rows", "string", None, "those to run, as a,b; default all"),
    Option("items", "size", 1 << 20, "items", 200, 1 << 32),
    Option("value", "size", 1024, "bytes of a value", 16, 1 << 20),
    Option("small-items", "size", 5 << 20, "items of row small", 200, 1 << 32),
    Option("huge-items", "size", 20 << 20, "items of row huge", 200, 1 << 32),
    Option("memory", "size", 32 << 20, "of ours for items, where they are on flash", 4 << 20, 1 << 44),
    Option("peer-memory", "size", 0, "of the peer with flash; 0: 134 bytes an item", 0, 1 << 44),
    Option("threads", "number", 0, "of a server; 0: the processors that the client leaves", 0, 256),
    Option("client-threads", "number", 1, "of the load generator", 1, 32),
    Option("pace", "number", 60000, "items in a second while the peer is filled, and in row wear; 0: any", 0, U64_MAX),
    Option("seconds", "double", 4.0, "duration of one run"),
    Option("rounds", "number", 5, "runs of each side", 1, bench_cli.ROUNDS_MAX),
    Option("dir", "string", None, "where the files are; default TMPDIR or /tmp"),
    Option("fathom", "string", None, "program; default: the one beside this"),
    Option("memcached", "string", "memcached", "program"),
    bench_cli.SMALLEST,
]
METRICS = ("keys_per_second", "cpu_us", "p50_us", "p99_us", "p999_us", "rss", "device_reads", "read_bytes", "hits")
FILL_BATCH = SWEEP_BATCH = 16
KEY_BYTES = 16
SMALL_VALUE = 100
OVERHEAD = 96  # bytes of flash for an item beside its value, at most
PEER_ITEM = 134  # bytes of memory for an item on flash: 256 MB for 2 M
PEER_DRAM_ITEM = 400  # the same beside its value, where it is in memory
PEER_MEMORY_MIN, OURS_MEMORY_MIN = 64 << 20, 8 << 20
OURS_BASE = 26 << 20  # RSS beside index and items: program, buffers of log and reads
OURS_INDEX_ITEM = 17
WEAR_ROUNDS = 2  # times that as many items are overwritten as there are
WEAR_SECONDS = 1e6


def over(a, b):
    return a / b if b else 0


class Pair:
    """Two servers with the same items, and the load generator of each: sides "ours" and, unless it is missing, "peer"."""

    def __init__(self, options, holding, has_peer):
        self.options, self.holding, self.stack, self.sides = options, holding, contextlib.ExitStack(), {}
        small = holding in ("small", "huge")
        self.items = {"small": options.small_items, "huge": options.huge_items}.get(holding, options.items)
        self.value = SMALL_VALUE if small else options.value
        self.flash = 0 if holding == "dram" else 2 * self.items * (self.value + OVERHEAD) + (64 << 20)
        self.has_peer = has_peer and holding != "huge"

    def __enter__(self):
        try:
            if self.has_peer:
                self.open_side("peer", kv_server.Memcached, self.options.memcached, self.peer_memory())
            self.memory = self.ours_memory()
            self.open_side("ours", kv_server.Fathom, self.options.fathom, self.memory)
        except BaseException:
            self.stack.close()
            raise
        return self

    def __exit__(self, *_):
        self.stack.close()

    def peer_memory(self):
        if self.options.peer_memory and self.holding != "dram":
            return self.options.peer_memory
        item = self.value + PEER_DRAM_ITEM if self.holding == "dram" else PEER_ITEM
        return max(self.items * item, PEER_MEMORY_MIN)

    def ours_memory(self):
        """The peer runs already where its RSS is the measure."""
        if self.holding == "dram":
            return self.items * (self.value + PEER_DRAM_ITEM) + OURS_MEMORY_MIN
        if self.holding != "equal" or not self.has_peer:
            return self.options.memory
        rss = self.sides["peer"][0].counts().rss
        return max(rss - OURS_BASE - self.items * OURS_INDEX_ITEM, OURS_MEMORY_MIN)

    def open_side(self, side, kind, program, memory):
        options = self.options
        path = "%s/fathom-bench-%d-kv-%s" % (bench_process.scratch_folder(options.dir), os.getpid(), side)
        server = kind(program, self.items, self.value, memory, options.threads, self.flash, path)
        self.stack.enter_context(server)
        command = bench_process.driver("kvload", "--server", server.address(), "--items", self.items, "--value", self.value,
                                       "--threads", options.client_threads)
        load = self.stack.enter_context(bench_process.Conversation(command))
        load.answer()
        self.sides[side] = server, load
        self.fill(side)

    def fill(self, side):
        server, load = self.sides[side]
        result = load.ask("fill", FILL_BATCH, self.options.pace if side == "peer" and self.flash else 0)
        if side == "ours" and result["stored"] != self.items:
            raise Failed("ours stored %d of %d items: %s" % (result["stored"], self.items, result["answer"]))
        server.settle(self.options.settle)

    def names(self):
        return [side for side in ("ours", "peer") if side in self.sides]


class Measured:
    """What a row gave."""

    def __init__(self, row, ours_only):
        self.row, self.ours_only = row, ours_only
        self.metrics = {name: Rounds() for name in METRICS}
        self.wrong = {"ours": 0, "peer": 0}  # wrong and stale values
        self.index_per_item, self.rss_per_item = 0, {"ours": 0.0, "peer": 0.0}
        self.amplification, self.kept = {"ours": 0.0, "peer": 0.0}, {"ours": 0.0, "peer": 0.0}

    # ---- a run on one server ----

    def run_load(self, pair, side, *order):
        """The result of a load, and the counters before and after it."""
        server, load = pair.sides[side]
        name = "ours" if side == "ours" else pair.options.memcached
        before = server.counts()
        result = load.ask(*order)
        self.wrong[side] += result["wrong"] + result["stale"]
        # Wrong values of the peer are counted and reported; they do not end the run.
        if side == "ours" and (result["wrong"] or result["stale"]):
            raise Failed("ours gave %d wrong and %d stale values" % (result["wrong"], result["stale"]))
        if result["timeouts"] or result["broken"]:
            raise Failed("%s: %d requests timed out, %d connections broke: %s" % (
                name, result["timeouts"], result["broken"], result["answer"]))
        return result, before, server.counts()

    def metrics_of(self, result, before, after):
        keys, gets = result["gets"] + result["sets"], result["gets"]
        return {"keys_per_second": over(keys * 1e9, result["ns"]), "cpu_us": over((after.cpu - before.cpu) * 1e6, keys),
                "p50_us": result["p50_us"], "p99_us": result["p99_us"], "p999_us": result["p999_us"], "rss": after.rss,
                "device_reads": over(after.device_reads - before.device_reads, gets),
                "read_bytes": over(after.read - before.read, gets), "hits": over(result["hits"], gets)}

    def measure_round(self, pair, seed):
        row, values = self.row, {"ours": {}, "peer": {}}
        for side in pair.names():
            values[side] = self.metrics_of(*self.run_load(pair, side, "mix", row.connections, row.batch, row.sets, row.zipf,
                                                          pair.options.seconds, 0, 0, seed))
            if row.sets:
                pair.sides[side][0].settle(pair.options.settle)
        for name in METRICS:
            self.metrics[name].add(values["ours"][name], values["peer"].get(name, 0))

    # ---- rows that measure more ----

    def measure_memory(self, pair):
        self.index_per_item = pair.sides["ours"][0].stat("index_bytes") / pair.items
        for side in pair.names():
            rss = pair.sides[side][0].counts().rss
            self.rss_per_item[side] = (rss - (pair.memory if side == "ours" else 0)) / pair.items

    def measure_wear(self, pair, side):
        """Overwrite at random; then look which keys are left."""
        server = pair.sides[side][0]
        result, before, _ = self.run_load(pair, side, "mix", 32, 1, 1, 0, WEAR_SECONDS, WEAR_ROUNDS * pair.items,
                                          pair.options.pace, 1)
        server.settle(pair.options.settle)
        stored = result["stored"] * (KEY_BYTES + pair.value)
        self.amplification[side] = over(server.counts().written - before.written, stored)
        result = self.run_load(pair, side, "sweep", SWEEP_BATCH)[0]
        self.kept[side] = over(result["hits"], result["gets"])

    def measure(self, pair):
        if self.row.holding == "wear":
            for side in pair.names():
                self.measure_wear(pair, side)
            return
        for number in range(pair.options.rounds):
            bench_cli.progress(self.row.name, number, pair.options.rounds)
            self.measure_round(pair, number + 1)
        bench_cli.progress_end()
        if self.row.holding in ("small", "huge"):
            self.measure_memory(pair)

    # ---- report ----

    def print_side(self, name, side):
        rate, cpu, p50, p99, rss, reads, read_bytes, hits = (
            getattr(self.metrics[metric], side) for metric in METRICS if metric != "p999_us")
        print("%-9s %-6s %9.0f %8.2f %9.1f %9.1f %8.1f %7.2f %8.0f %7.2f" % (
            name, side, rate, cpu, p50, p99, rss / (1 << 20), reads, read_bytes, 100 * hits))

    def print_row(self):
        name = self.row.name
        if self.metrics["keys_per_second"].ours_runs:
            self.print_side(name, "ours")
            if not self.ours_only:
                self.print_side("", "peer")
                print("%-9s %-6s %9.2f %8.2f %9.2f %9.2f %8.2f" % (
                    "", "ratio", *(self.metrics[metric].ratio for metric in ("keys_per_second", "cpu_us", "p50_us", "p99_us",
                                                                            "rss"))))
        if self.wrong["peer"]:
            print("%-9s peer   gave %d wrong or stale values" % (name, self.wrong["peer"]))
        if self.index_per_item:
            print("%-9s index %.2f bytes an item, RSS beyond the items in memory %.1f; peer RSS %.1f" % (
                name, self.index_per_item, self.rss_per_item["ours"], self.rss_per_item["peer"]))
        for side, bytes_written in self.amplification.items():
            if bytes_written:
                print("%-9s %-6s %.3f bytes written for a byte set, %.2f %% of the keys kept" % (
                    name, side, bytes_written, 100 * self.kept[side]))

    def members(self):
        members = {"row": self.row.name, "ours_only": self.ours_only, "peer_wrong_or_stale": self.wrong["peer"]}
        members.update({name: rounds.members() for name, rounds in self.metrics.items() if rounds.ours_runs})
        if self.index_per_item:
            members.update(index_per_item=self.index_per_item, rss_per_item=self.rss_per_item)
        if self.amplification["ours"]:
            members.update(write_amplification=self.amplification, keys_kept=self.kept)
        return members


def choose_rows(text):
    if not text:
        return [row for row in ROWS if not row.asked]
    names = text.split(",")
    for name in names:
        if name not in [row.name for row in ROWS]:
            raise Usage("--rows: unknown row %s" % name)
    return [row for row in ROWS if row.name in names]


def check_options(options):
    options.settle = 0.5  # seconds: a server that writes nothing for so long is at rest
    if options.smallest:
        options.items, options.small_items, options.huge_items, options.memory = 4000, 8000, 8000, 4 << 20
        options.rounds, options.seconds, options.settle, options.pace = 1, 0.1, 0.01, 0
    options.threads = options.threads or max(os.cpu_count() - options.client_threads, 1)
    options.fathom = options.fathom or bench_process.find_fathom()


def print_report(options, version, measured):
    """The ratio is that of the first row that has one; cold is the first of all."""
    rates = [one.metrics["keys_per_second"] for one in measured]
    main = next((rate for rate in rates if rate.ours_runs), Rounds())
    print_json("kv", main.ours, main.peer, main.ratio, peer_version=version, items=options.items, value=options.value,
               small_items=options.small_items, huge_items=options.huge_items, memory=options.memory,
               threads=options.threads, client_threads=options.client_threads, pace=options.pace, rounds=options.rounds,
               seconds=options.seconds, rows=[one.members() for one in measured])


def run(options):
    rows, measured = choose_rows(options.rows), []
    check_options(options)
    try:
        version = kv_server.memcached_version(options.memcached)
    except Skipped as skipped:
        version = ""
        bench_cli.error("%s: measuring fathom alone" % skipped)
    if not options.json:
        print("%d items of %d bytes, %d server threads, %s" % (options.items, options.value, options.threads,
                                                              version or "no peer"))
        print("%-9s %-6s %9s %8s %9s %9s %8s %7s %8s %7s" % ("row", "server", "keys/s", "CPU us", "p50 us", "p99 us",
                                                             "RSS MiB", "reads", "bytes", "hits %"))
    for holding in HOLDINGS:
        chosen = [row for row in rows if row.holding == holding]
        if not chosen:
            continue
        with Pair(options, holding, bool(version)) as pair:
            for row in chosen:
                measured.append(Measured(row, not pair.has_peer))
                measured[-1].measure(pair)
                if not options.json:
                    measured[-1].print_row()
    print_report(options, version, measured)


if __name__ == "__main__":
    bench_cli.main("kv", TEXT, OPTIONS, run)
