#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""fathom bench dev: random 4 KiB reads and writes through a file: device, against fio with the same engine on the same file.
dev_driver.c is our side. Both sides read the first half of the file; fio writes to the second one, since the first holds data
that is checked.
"""
import json
import math
import os

import bench_cli
import bench_process
from bench_cli import Failed, Option, Skipped, Usage
from bench_report import Rounds, over, print_json

TEXT = """Random 4 KiB reads and writes through a file: device, against fio with
io_uring, registered file and buffers, at the same depths on the same
file. Runs alternate; medians are compared. Every block read is checked
at both ends, every 64th whole, and all of them after writing. The file
is made and removed unless it exists."""
DEPTHS_MAX, DEPTH_LIMIT = 16, 1024
SIZE_MIN = 16 << 20
OPTIONS = [
    Option("file", "renamed", "flash", ""),
    Option("flash", "string", None, "file or block device; default: a new file in TMPDIR or /tmp"),
    Option("size", "size", 1 << 30, "size of a new file", SIZE_MIN, 1 << 44),
    Option("seconds", "double", 1.0, "duration of one run"),
    Option("rounds", "number", 5, "runs of each side", 1, bench_cli.ROUNDS_MAX),
    Option("depths", "string", "1,32,128", "requests in flight"),
    Option("batch", "number", 0, "most requests submitted at once, 0 for depth/16", 0, DEPTH_LIMIT),
    Option("options", "string", None, "of the device, as in its URI"),
    Option("force", "flag", False, "overwrite a file"),
    bench_cli.SMALLEST,
]
# Taking all that has completed before submitting anything lets the device run dry in between; one at a time costs a system
# call for each. A sixteenth of the depth is close to the best of both on disks.
BATCH_SHARE = 16


def parse_fio(text, kind):
    """The iops of the "read" or "write" object in fio's JSON."""
    try:
        iops = json.loads(text)["jobs"][0][kind]["iops"]
    except (ValueError, LookupError, TypeError):
        iops = 0
    if not isinstance(iops, (int, float)) or iops <= 0:
        raise Failed("no result in fio's output: %.200s" % text)
    return iops


def fio_command(path, kind, file, depth, batch, seconds):
    # fio takes several files with colons between them, and backslashes to mean a real one.
    name = path.replace("\\", "\\\\").replace(":", "\\:")
    return ["fio", "--name=peer", "--filename=" + name, "--offset=%d" % (file["half"] if kind == "write" else 0),
            "--size=%d" % file["half"], "--rw=rand" + kind, "--bs=4k", "--iodepth=%d" % depth,
            "--iodepth_batch=%d" % batch, "--iodepth_batch_complete_max=%d" % batch, "--time_based",
            "--runtime=%dms" % (seconds * 1000), "--ioengine=io_uring", "--direct=%d" % file["direct"],
            "--registerfiles=1", "--fixedbufs=1", "--norandommap", "--randrepeat=0",
            "--gtod_reduce=1",  # it need not measure latencies, as we do not
            "--fallocate=none", "--output-format=json"]


def parse_depths(text):
    depths = [bench_cli.parse_number(word) for word in text.split(",")]
    if len(depths) > DEPTHS_MAX or any(not depth or depth > DEPTH_LIMIT for depth in depths):
        raise Usage("--depths %s: expected up to %d numbers from 1 to %d, such as 1,32" % (text, DEPTHS_MAX, DEPTH_LIMIT))
    return depths


class Cell:
    """One line of the table: reads or writes at one depth."""

    def __init__(self, kind, depth, batch):
        self.kind, self.depth, self.iops = kind, depth, Rounds()
        self.batch = min(max(batch or depth // BATCH_SHARE, 1), depth)

    def measure(self, ours, file, options):
        for _ in range(options.rounds):
            iops = ours.ask(self.kind, self.depth, self.batch, options.seconds)["iops"]
            command = fio_command(options.flash, self.kind, file, self.depth, self.batch, options.seconds)
            self.iops.add(iops, parse_fio(bench_process.run(command).text, self.kind))

    def print_row(self):
        print("%-6s %6d %14.0f %14.0f %8.3f" % (self.kind, self.depth, self.iops.ours, self.iops.peer, self.iops.ratio),
              flush=True)


def measure(options, depths, ours, file):
    """All cells, and how many blocks were checked whole after writing."""
    cells, verified = [], 0
    if not options.json:
        print("%-6s %6s %14s %14s %8s" % ("kind", "depth", "ours, IOPS", "fio, IOPS", "ratio"))
    for number, (kind, depth) in enumerate([(kind, depth) for kind in ("read", "write") for depth in depths]):
        cells.append(Cell(kind, depth, options.batch))
        bench_cli.progress("measuring", number, 2 * len(depths))
        cells[-1].measure(ours, file, options)
        if kind == "write":
            verified += ours.ask("verify")["blocks"]
        bench_cli.progress_end()
        if not options.json:
            cells[-1].print_row()
    return cells, verified


def report(options, version, file, cells, verified):
    ours = math.exp(sum(math.log(cell.iops.ours) for cell in cells) / len(cells))
    peer = math.exp(sum(math.log(cell.iops.peer) for cell in cells) / len(cells))
    least = min(cell.iops.ratio for cell in cells)
    if not options.json:
        print("geometric mean %13.0f %14.0f %8.3f   (least %.3f)" % (ours, peer, over(ours, peer), least))
    print_json("dev", ours, peer, over(ours, peer), min_ratio=least, unit="IOPS, geometric mean over kinds and depths",
               device=file["device"], size=file["size"], block=file["block"], direct=file["direct"],
               seconds=options.seconds, rounds=options.rounds, fio=version, check_sample=file["check_sample"],
               blocks_verified=verified,
               results=[{"kind": cell.kind, "depth": cell.depth, "batch": cell.batch, **cell.iops.members()}
                        for cell in cells])


def fio_version():
    try:
        return bench_process.run(["fio", "--version"]).text.strip()
    except (Skipped, Failed):
        raise Skipped("fio, the program to compare with, is not installed") from None


def run(options):
    if options.smallest:
        options.size, options.seconds, options.rounds, options.depths = SIZE_MIN, 0.1, 1, "1,32"
    depths = parse_depths(options.depths)
    options.flash = options.file or "%s/fathom-bench-%d.data" % (bench_process.scratch_folder(), os.getpid())
    if os.path.exists(options.flash) and not options.force:
        raise Usage("%s exists; --force overwrites it" % options.flash)
    version = fio_version()
    command = bench_process.driver("dev", "--file", options.flash, "--size", options.size)
    with bench_process.Conversation(command + (["--options", options.options] if options.options else [])) as ours:
        file = ours.answer()
        if not options.json:
            print("%s, %s, %s; %s; %g s each, median of %d" % (
                options.flash, bench_cli.bytes_text(file["size"]), "direct" if file["direct"] else "buffered", version,
                options.seconds, options.rounds))
        report(options, version, file, *measure(options, depths, ours, file))


if __name__ == "__main__":
    bench_cli.main("dev", TEXT, OPTIONS, run)
