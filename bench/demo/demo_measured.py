# SPDX-License-Identifier: BSD-2-Clause
"""Scenes of the demo whose figures commands of the tool measure: arrays, plain pointers, persistent memory."""
import json
import os
import shutil
import sys
import time

import bench_cgroup
import bench_graph
import bench_process
from bench_cli import Failed, Skipped, progress
from demo_tell import PER_SECOND, SECONDS, Row

FATHOM = bench_process.find_fathom()
NEEDS_ROOT = "not run: needs root (a cgroup)"
SLACK = 4 << 20


def tool(*words, **how):
    """What a command of `fathom` prints as JSON."""
    text = bench_process.run([FATHOM, "--json", *map(str, words)], what="fathom " + words[0], **how).text
    return json.loads(text) if text else {}


# ---- arrays: PageRank on a graph in a file ----

ITERATIONS, SHARE = 5, 4


def rank(side, path, cache, line, limit=None):
    """The driver of `fathom bench graph`, in a memory cgroup if there is a limit; what it printed, and its peak."""
    command = bench_process.driver("graph", "--file", path, "--side", side, "--task", "pagerank", "--iterations", ITERATIONS,
                                   "--cache", cache, "--line", line, "--threads", min(os.cpu_count() or 1, 8))
    bench_process.drop_cache(path)
    if limit is None:
        return json.loads(bench_process.run(command).text), 0
    with bench_cgroup.Cgroup(limit) as group:
        return json.loads(bench_process.run(command, prepare=group.enter).text), group.peak()


def array(tell):
    line = 4096 if tell.smallest else 65536
    with bench_process.temporary_folder("fathom-demo-") as folder:
        path = os.path.join(folder, "graph")
        info = tool("graph", "generate", "--scale", 12 if tell.smallest else 20, "--seed", tell.seed, path)
        edges = info["edges"] * 4
        quarter = max(edges // SHARE // line, 4) * line
        tell.begin("array", "Arrays larger than memory: PageRank on a graph in a file",
                   "   %.1f million edges take %.0f MiB; the cache has %.0f MiB of memory for them." %
                   (info["edges"] / 1e6, edges / 2**20, quarter / 2**20))
        options = ["--iterations", ITERATIONS, "--line", line, path]
        whole = tool("graph", "pagerank", "--memory", 2 * edges + (4 << 20), "--trials", 2, "--verify", *options)
        rows = [Row("Fathom, all edges in memory", whole["trials"][1]["seconds"], True)]
        try:
            ours, peak = rank("ours", path, quarter, line, limit=1 << 40)
            peer, _ = rank("default", path, quarter, line, limit=peak + SLACK)
            bench_graph.compare_digests(ours["digest"], peer["digest"])
            rows += [Row("Fathom, a quarter of that memory", ours["seconds"], True),
                     Row("mmap(), the same quarter", peer["seconds"])]
        except Skipped:
            ours, _ = rank("ours", path, quarter, line)
            rows += [Row("Fathom, a quarter of that memory", ours["seconds"], True),
                     Row("mmap(), the same quarter", note=NEEDS_ROOT)]
        tool("graph", "pagerank", "--memory", quarter, "--verify", *options)
        tell.bars("%d iterations" % ITERATIONS, SECONDS, rows)
        tell.end(2 * info["vertices"], "ranks")


# ---- plain pointers ----

TIMES = 4  # a program wants so many times the memory that it gets
PROGRAM = """
import sys, zlib
mib, passes = int(sys.argv[1]), int(sys.argv[2])
data, sums = bytearray(mib << 20), []
for at in range(mib):
    data[at << 20:(at + 1) << 20] = (b"%08d" % (at * 7919)) * 131072
for _ in range(passes):
    for at in range(0, mib, 4):
        sums.append(zlib.crc32(memoryview(data)[at << 20:(at + 4) << 20]))
print(sums)
"""


def plain_program(tell):
    """A Python program as it is, and in a quarter of its memory: rows, values that were compared, and wrong ones."""
    mib, passes = (32, 1) if tell.smallest else (128, 2)
    command = [sys.executable, "-c", PROGRAM, mib, passes]
    plain = bench_process.run(command)
    with bench_process.temporary_folder("fathom-demo-") as folder:
        flat_run = [FATHOM, "flat", "run", "--memory", "%dM" % (mib // TIMES), "--page", "64K", "--flash", folder, "--"]
        try:
            ours = bench_process.run(flat_run + command)
        except Failed as failed:
            if "libfathom_flat_run.so is not in" in str(failed):  # not built for this machine
                raise Skipped(str(failed)) from None
            raise
    expected, found = json.loads(plain.text), json.loads(ours.text)
    wrong = sum(x != y for x, y in zip(expected, found)) + abs(len(expected) - len(found))
    rows = [Row("python3, %d MiB of memory" % mib, plain.wall), Row("fathom flat run, %d MiB" % (mib // TIMES), ours.wall, True)]
    return rows, len(expected), wrong


def flat(tell):
    checked = wrong = 0
    tell.begin("flat", "Plain pointers to data larger than memory",
               "   A program that knows nothing of Fathom, in a quarter of the memory it wants.")
    try:
        rows, checked, wrong = plain_program(tell)
        tell.bars("fill a buffer and read it, in order", SECONDS, rows)
    except Skipped as skipped:
        tell.say("\n   Not run: %s" % skipped)
    size, milliseconds = ("32M", 50) if tell.smallest else ("128M", 300)
    try:
        seen = tool("bench", "flat", "--only", "disk", "--disk-size", size, "--disk-ms", milliseconds, "--rounds", 1)["rows"]
    except Skipped as skipped:
        tell.say("\n   Random access to a file, beside mmap(): %s" % skipped)
        seen = {}
    if seen:
        tell.say("\n   Random loads and stores of 8 bytes in a file of %s, in a quarter of that:" % size)
        random_access, gather = seen["disk_random"], seen["disk_gather"]
        tell.bars("accesses", PER_SECOND, [
            Row("mmap(), 8 threads", random_access["mmap_default"]),
            Row("mmap(), MADV_RANDOM, 8 threads", random_access["mmap_random"]),
            Row("Fathom, the same code, 8 threads", random_access["ours"], True),
            Row("mmap(), MADV_RANDOM, 1 thread", gather["mmap_random"]),
            Row("Fathom, 1 thread, fth_flat_gather()", gather["ours"], True),
        ])
        rates = [row[side] for row in (random_access, gather) for side in ("ours", "mmap_random")]
        checked += int(sum(rates) * milliseconds / 1000)
    tell.end(checked, "checksums and words", wrong)


# ---- persistent memory ----

PM_GROUPS = {
    "memory": [("log, 64 B", "Entries that survive the end of the process:", "entries", "Fathom, log in shared memory"),
               ("transaction, 1 range of 64 B", "Transactions that survive it:", "transactions", "Fathom, transactions")],
    "disk": [("log on a disk, 64 B, 8 threads", "Entries that survive a power loss:", "entries",
              "Fathom, log on a disk, 8 threads")],
}
PEER_NAMES = {"fdatasync": "write() + fdatasync(), 8 threads"}


def pm(tell):
    size = ["--smallest"] if tell.smallest else ["--disk-entries", 200, "--rounds", 1]
    checked = 0
    tell.begin("pm", "Persistent memory: data that survives",
               "   Entries of 64 bytes; each is durable when the call that appends it returns.")
    for part, groups in PM_GROUPS.items():
        progress("persistent memory", 1, 2)
        try:
            seen = tool("bench", "pm", "--only", part, *size)
        except Skipped as skipped:  # PMDK is not installed
            tell.say("\n   In memory, beside PMDK: not run: %s" % skipped)
            continue
        cases = {case["what"]: case for case in seen["cases"]}
        for what, text, unit, name in groups:
            case = cases[what]
            tell.say("\n   " + text)
            tell.bars(unit, PER_SECOND, [Row(name, case["ours"], True),
                                         Row(PEER_NAMES.get(case["peer_name"], case["peer_name"]), case["peer"])])
        checked += 2 * len(cases)
    tell.end(checked, "logs and tables of accounts")


def has_program(name):
    return shutil.which(name) is not None


def wait_until(ready, seconds, what):
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise Skipped("%s did not start" % what)
        time.sleep(0.02)
