#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""fathom bench flatredis: redis-server, unchanged, with four times as much data as memory: by `fathom flat run`, against the same
server in a memory cgroup of the same size, with a swap file on the same disk (swap_file.py), and with an allocator on a mapped
file there (file_heap.c). Ours is in such a group too, so that the kernel enforces on all sides that all of it (program, data,
tables, page cache, and the clients, redis_driver.c) is not more.
"""
import contextlib
import math
import os
import socket
import struct
import subprocess
import time

import bench_cgroup
import bench_cli
import bench_process
from bench_cli import Failed, Option, Skipped, U64_MAX, Usage
from bench_report import median, over, print_json
from swap_file import SwapFile

TEXT = """redis-server with more data than memory, by `fathom flat run`, against the same server
with a swap file, and with an allocator on a mapped file, in memory cgroups of the same
size. Loads like YCSB's B and D. Every value that is read is checked. The ratio is that
of the 99th percentiles of B, swap's to ours."""
SIDES = {"ours": "flat run", "swap": "swap, single pages", "swap_default": "swap", "mmap_random": "mmap, MADV_RANDOM",
         "mmap_default": "mmap"}
LOADS = {"b": "95 % reads, 5 % updates, zipf", "d": "95 % reads of the latest, 5 % inserts"}
OPTIONS = [
    Option("memory", "size", 256 << 20, "of a server, all of it", 48 << 20, 1 << 40),
    Option("times", "number", 4, "data are larger than that", 1, 64),
    Option("value", "size", 1024, "bytes of a value", 32, 32768),
    Option("ops", "number", 50000, "requests per run", 100, 1 << 32),
    Option("warm", "number", 100000, "requests before", 1, 1 << 32),
    Option("clients", "number", 4, "connections", 1, 64),
    Option("seed", "number", 1, "of all random choices", 0, U64_MAX),
    Option("dir", "string", None, "for the files on disk"),
    Option("policy", "string", "always", "of `fathom flat run`"),
    Option("no-peer", "flag", False, "ours alone"),
    Option("peer", "string", None, "only swap, swap_default, mmap_random or mmap_default"),
    Option("redis", "string", "redis-server", "the server"),
    Option("rounds", "number", 1, "runs of each side", 1, bench_cli.ROUNDS_MAX),
    bench_cli.SMALLEST,
]
LIBRARY = "libfathom_file_heap.so"
FIGURES = ("ops_per_s", "p50_us", "p99_us", "p999_us", "pages_read", "pages_written", "cpu_us")
RECORD_BESIDE = 540  # bytes of a record beside its value, as jemalloc rounds them
OURS_BESIDE = 24 << 20  # the program, its tables and the clients: not for the region
PAGE = 4096
START_S, END_S = 60, 20
SOCKET_PATH_MAX = 100


class Redis:
    """with Redis(...): a server of a side, in a cgroup, on a Unix socket in `folder`."""

    def __init__(self, options, side, folder, heap, group):
        self.path, self.process, self.pid = os.path.join(folder, "socket"), None, 0
        command = [options.redis, "--port", 0, "--unixsocket", self.path, "--save", "", "--dir", folder]
        environment = dict(os.environ)
        if side == "ours":
            command = [bench_process.find_fathom(), "flat", "run", "--memory", options.memory - OURS_BESIDE, "--policy",
                       options.policy, "--flash", folder, "--"] + command
        elif side.startswith("mmap"):
            environment.update(LD_PRELOAD=bench_process.find_beside(LIBRARY), FTH_BENCH_FILE_HEAP=heap)
            if side == "mmap_random":
                environment["FTH_BENCH_FILE_HEAP_RANDOM"] = "1"
        self.command, self.environment, self.group = command, environment, group

    def connect(self):
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self.path)
        except OSError:
            connection.close()
            raise
        return connection

    def __enter__(self):
        errors = None if os.environ.get("FTH_BENCH_VERBOSE") else subprocess.DEVNULL
        self.process = bench_process.start(self.command, env=self.environment, stderr=errors, prepare=self.group.enter)
        try:
            self.wait()
        except BaseException:
            bench_process.kill(self.process)
            raise
        return self

    def wait(self):
        deadline = time.monotonic() + START_S
        while True:
            try:
                with self.connect() as connection:  # which knows the process that listens
                    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
                    self.pid = struct.unpack("iII", credentials)[0]
                    return
            except OSError as failed:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise Failed("redis-server did not start: %s" % failed.strerror) from None
                time.sleep(0.02)

    def use(self):
        """Processor seconds, and pages read and written, so far."""
        read, written = bench_process.read_fields("/proc/%d/io" % self.pid, "read_bytes", "write_bytes")
        return bench_process.cpu_seconds(self.pid), read / PAGE, written / PAGE

    def __exit__(self, *_):
        """Without saving."""
        with contextlib.suppress(OSError), self.connect() as connection:
            connection.sendall(b"*2\r\n$8\r\nSHUTDOWN\r\n$6\r\nNOSAVE\r\n")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_S)
        bench_process.kill(self.process)
        bench_process.remove(self.path)


class Bench:
    def __init__(self, options, sides, folder):
        self.options, self.sides, self.folder, self.heap = options, sides, folder, os.path.join(folder, "heap")
        self.outcomes = {(side, load): [] for side in sides for load in LOADS}
        self.peak = {}

    # ---- runs ----

    def disk_space(self):
        """More than the data: allocators leave gaps."""
        return self.options.memory * (self.options.times + 2) // PAGE * PAGE

    @contextlib.contextmanager
    def storage(self, side):
        """What a side needs on the disk beside the folder."""
        if side.startswith("swap"):
            with SwapFile(self.folder, self.disk_space(), side == "swap"):
                yield
            return
        try:
            if side.startswith("mmap"):
                with open(self.heap, "xb") as file:
                    os.posix_fallocate(file.fileno(), 0, self.disk_space())
            yield
        finally:
            bench_process.remove(self.heap)

    def clients(self, server, group):
        options = self.options
        records = options.memory * options.times // (options.value + RECORD_BESIDE)
        command = bench_process.driver("redisload", "--socket", server.path, "--records", records, "--value", options.value,
                                       "--ops", max(options.ops, options.warm), "--clients", options.clients)
        return bench_process.Conversation(command, prepare=group.enter)

    def measure_load(self, server, clients, load, seed):
        options = self.options
        clients.ask("run", load, options.warm, seed + 1000)
        before = server.use()
        result = clients.ask("run", load, options.ops, seed)
        cpu, read, written = ((b - a) / options.ops for a, b in zip(before, server.use()))
        return {**result, "pages_read": read, "pages_written": written, "cpu_us": cpu * 1e6}

    def measure_side(self, round_number, side):
        seed = self.options.seed + round_number * 97
        with self.storage(side), bench_cgroup.Cgroup(self.options.memory, swap=side.startswith("swap")) as group:
            with Redis(self.options, side, self.folder, self.heap, group) as server:
                with self.clients(server, group) as clients:
                    clients.answer()
                    clients.ask("fill")
                    for load in LOADS:
                        self.outcomes[side, load].append(self.measure_load(server, clients, load, seed))
            self.peak[side] = group.peak()

    def measure(self):
        runs = [(number, side) for number in range(self.options.rounds) for side in self.sides]
        for done, run_of in enumerate(runs):
            bench_cli.progress("flatredis", done, len(runs))
            self.measure_side(*run_of)
        bench_cli.progress_end()

    # ---- results ----

    def figure(self, side, load, name):
        """Not a number without that side."""
        return median([outcome[name] for outcome in self.outcomes[side, load]]) if side in self.sides else math.nan

    def p99_ratio(self, side, load):
        """How many times ours the 99th percentile of that side is."""
        return over(self.figure(side, load, "p99_us"), self.figure("ours", load, "p99_us"))

    def print_table(self):
        for load, text in LOADS.items():
            print("%s: %s" % (load, text))
        print("pages read and written, and the server's CPU time, are per request\n")
        print("%-4s %-19s %9s %8s %8s %8s %8s %8s %8s %10s" % (
            "load", "", "ops/s", "p50 us", "p99 us", "p99.9 us", "read", "written", "CPU us", "our p99 of"))
        for load in LOADS:
            for side in self.sides:
                figures = [self.figure(side, load, name) for name in FIGURES]
                text = "%-4s %-19s %9.0f %8.0f %8.0f %8.0f %8.2f %8.2f %8.1f" % (
                    load if side == "ours" else "", SIDES[side], *figures)
                print(text if side == "ours" else text + " %10.2f" % over(1, self.p99_ratio(side, load)))

    def side_members(self, side, load):
        members = {name: self.figure(side, load, name) for name in FIGURES}
        return members if side == "ours" else {**members, "p99_ratio": self.p99_ratio(side, load)}

    def print_json(self):
        options = self.options
        mmap = [ratio for ratio in (self.p99_ratio(side, "b") for side in ("mmap_random", "mmap_default"))
                if not math.isnan(ratio)]
        print_json("flatredis", self.figure("ours", "b", "p99_us"), self.figure("swap", "b", "p99_us"),
                   self.p99_ratio("swap", "b"), mmap_ratio=min(mmap, default=None),
                   peer_name="redis-server with a swap file, single pages read",
                   unit="us, 99th percentile; a ratio is the peer's to ours", memory=options.memory, times=options.times,
                   value=options.value, ops=options.ops, clients=options.clients, rounds=options.rounds,
                   **{load: {side: self.side_members(side, load) for side in self.sides} for load in LOADS},
                   peak_memory=self.peak)  # of the last round, with loading


def choose_sides(options):
    """Ours always, and the peers that are wanted."""
    peers = [side for side in SIDES if side != "ours"]
    if options.peer and options.peer not in peers:
        raise Usage("--peer %s: expected swap, swap_default, mmap_random or mmap_default" % options.peer)
    return ["ours"] + [side for side in peers if not options.no_peer and options.peer in (None, side)]


def check_redis(options):
    try:
        bench_process.run([options.redis, "--version"])
    except (Failed, Skipped, OSError):
        raise Skipped("%s is not installed" % options.redis) from None


def run(options):
    if options.smallest:
        options.memory, options.times, options.ops, options.warm, options.rounds = 64 << 20, 1, 1000, 1000, 1
    sides = choose_sides(options)
    check_redis(options)
    bench_cgroup.require()
    if not bench_process.find_beside(LIBRARY):
        raise Failed("%s is not beside fathom-bench" % LIBRARY)
    with bench_process.temporary_folder("fathom-redis-", options.dir) as folder:
        if len(folder) > SOCKET_PATH_MAX - len("/socket"):
            raise Failed("%s is too long for a socket path" % folder)
        bench = Bench(options, sides, folder)
        bench.measure()
    if not options.json:
        bench.print_table()
    bench.print_json()


if __name__ == "__main__":
    bench_cli.main("flatredis", TEXT, OPTIONS, run)
