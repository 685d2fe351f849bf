#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""fathom bench kvclient: many threads get random keys, through one client that batches their requests, and each with a connection
of its own and one request in flight (kvclient_driver.c). Both against our server and against memcached, with all items in memory.
"""
import json

import bench_cli
import bench_process
import kv_server
from bench_cli import Option, Skipped
from bench_report import print_json

TEXT = """Threads that share a client, which batches their requests, against threads with a
connection each and one request at a time; our server and memcached, all in memory."""
OPTIONS = [
    Option("threads", "number", 128, "that get", 1, 1024),
    Option("keys", "number", 100000, "items", 1, 10000000),
    Option("value", "size", 1024, "bytes of a value", 1, 65536),
    Option("ms", "number", 1000, "per measurement", 1, 60000),
    Option("workers", "number", 1, "threads of the server", 1, 64),
    Option("connections", "number", 0, "of ours; 0: default", 0, 64),
    Option("segment", "size", 0, "of ours; 0: default", 0, 16 << 20),
    Option("flush-us", "number", 0, "of ours; 0: default", 0, 1000000),
    Option("rounds", "number", 5, "runs of each side", 1, bench_cli.ROUNDS_MAX),
    bench_cli.SMALLEST,
]
DRIVEN = ("threads", "keys", "value", "ms", "connections", "segment", "flush_us", "rounds")


def servers(options):
    memory = options.keys * (options.value + 256) * 2 + (64 << 20)
    settings = (options.keys, options.value, memory, options.workers)
    yield "fathom", kv_server.Fathom(bench_process.find_fathom(), *settings)
    try:
        kv_server.memcached_version("memcached")
    except Skipped as skipped:
        bench_cli.error("bench kvclient: %s: skipping its row" % skipped)
        return
    yield "memcached", kv_server.Memcached("memcached", *settings)


def measure(options, server):
    words = ["--port", server.port]
    for name in DRIVEN:
        words += ["--" + name.replace("_", "-"), getattr(options, name)]
    return json.loads(bench_process.run(bench_process.driver("kvclient", *words)).text)


def run(options):
    if options.smallest:
        options.threads, options.keys, options.ms, options.rounds = 16, 1000, 100, 1
    outcomes = {}
    for name, server in servers(options):
        bench_cli.progress("kvclient", len(outcomes), 2)
        with server:
            outcome = outcomes[name] = measure(options, server)
        bench_cli.progress_end()
        if options.json:
            continue
        if name == "fathom":
            print("%-10s %12s %16s %8s %14s" % ("server", "batched/s", "one at a time/s", "ratio", "requests/send"))
        print("%-10s %12.0f %16.0f %8.2f %14.1f" % (name, outcome["ours"], outcome["peer"], outcome["ratio"],
                                                   outcome["batch"]), flush=True)
    worst = min(outcomes.values(), key=lambda outcome: outcome["ratio"])
    print_json("kvclient", worst["ours"], worst["peer"], worst["ratio"], peer_name="one request at a time", unit="gets/s",
               threads=options.threads, keys=options.keys, value=options.value, ms=options.ms, workers=options.workers,
               connections=options.connections, segment=options.segment, flush_us=options.flush_us, **outcomes)


if __name__ == "__main__":
    bench_cli.main("kvclient", TEXT, OPTIONS, run)
