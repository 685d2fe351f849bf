#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The Python package beside what people use: bench_python.py --package FOLDER [ROW...]

Rows: random, sequential, hot, single, sql, cache, pagerank. Each side is a process of its own, in a
memory cgroup where it needs a limit, alternating with the other sides; the page cache is emptied of
the file before each run, and all data is checked. Prints medians and ratios of this run; the last
line is JSON. Needs root for cgroups; peers that are not installed are left out and named.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "bench", "common"))

ROW = 1024  # bytes
BATCH = 4096


# ---- workers: one side of a row, in a process of its own ----

def timed(seconds, step):
    """Call step, which returns how much it did, for so long. (amount, seconds, CPU seconds)."""
    amount, start, cpu = 0, time.perf_counter(), time.process_time()
    while True:
        amount += step()
        now = time.perf_counter()
        if now - start >= seconds:
            return {"amount": amount, "seconds": now - start, "cpu": time.process_time() - cpu}


def open_matrix(side, path, memory):
    import mmap
    import numpy as np
    if side.startswith("fathom"):
        import fathom
        return fathom.load(path, memory=memory)
    if side == "numpy":
        return np.load(path)
    array = np.load(path, mmap_mode="r")
    if side == "memmap-random":
        array._mmap.madvise(mmap.MADV_RANDOM)
    return array


def work_random(side, o):
    import numpy as np
    a = open_matrix(side, o.path, o.memory)
    rng = np.random.default_rng(o.seed)

    def check(ids, rows):
        assert (rows[:, [0, -1]] == ids[:, None].astype("f4")).all()
        return len(ids)

    if side == "fathom-batches":
        batches = a.batches(rng.integers(0, len(a), BATCH) for _ in iter(int, 1))
        return timed(o.seconds, lambda: check(*next(batches)))

    def step():
        ids = rng.integers(0, len(a), BATCH)
        if side == "memmap-sorted":
            ids.sort()
        return check(ids, a[ids])

    return timed(o.seconds, step)


def work_sequential(side, o):
    a = open_matrix(side, o.path, o.memory)
    step = (4 << 20) // ROW
    blocks = a.blocks(step) if side == "fathom" else (
        a[i:i + step] for i in range(0, len(a), step))
    start, cpu, first = time.perf_counter(), time.process_time(), 0
    for block in blocks:
        assert block[0, 0] == first and block[-1, -1] == first + len(block) - 1
        first += len(block)
    assert first == len(a)
    return {"amount": first * ROW, "seconds": time.perf_counter() - start,
            "cpu": time.process_time() - cpu}


def work_hot(side, o):
    """Rows of a part that is in the cache; numpy takes them from an array in memory."""
    import numpy as np
    a = open_matrix("fathom" if side == "fathom" else "memmap", o.path, o.memory)
    n = (32 << 20) // ROW
    if side == "numpy":
        a = np.array(a[:n])
    else:
        for i in range(0, n, BATCH):
            a[i:i + BATCH]
    rng = np.random.default_rng(o.seed)
    out = np.empty((BATCH, ROW // 4), "f4")
    lists = [rng.integers(0, n, BATCH) for _ in range(64)]

    def step():
        ids = lists[rng.integers(64)]
        if side == "numpy":
            np.take(a, ids, axis=0, out=out, mode="clip")
        else:
            a.take(ids, out=out)
        assert out[0, 0] == ids[0] and out[-1, -1] == ids[-1]
        return BATCH

    return timed(o.seconds, step)


def work_single(side, o):
    a = open_matrix("fathom" if side == "fathom" else "memmap", o.path, o.memory)

    def step():
        for i in range(1000):
            a[i]
        assert a[7][0] == 7
        return 1000

    return timed(o.seconds, step)


def work_sql(side, o):
    """All rows of a table of two columns to numpy; the C side reads the Arrow stream to its end."""
    import resource
    import fathom
    from fathom import _core
    with fathom.open(o.path + ".db", memory="256M", sql="128M") as db:
        n = db.sql("select count(*) from t").one()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start, cpu = time.perf_counter(), time.process_time()
        if side == "fathom":
            got = db.sql("select a, b from t").numpy()
            assert len(got["a"]) == n and int(got["a"].sum()) == n * (n - 1) // 2
        else:
            sys.path.insert(0, os.path.join(os.path.dirname(HERE), "test"))
            import test_arrow as arrow
            capsule, stream = arrow.stream_of(db.sql("select a, b from t"))
            seen = 0
            while True:
                batch = arrow.Batch()
                assert stream.get_next(stream, batch) == 0
                if not batch.release:
                    break
                seen += batch.length
                batch.release(batch)
            assert seen == n
            stream.release(stream)
        took, used = time.perf_counter() - start, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"amount": n, "seconds": took, "cpu": used, "peak_mb": peak // 1024}


def open_cache(side, o):
    """(get, set many, finish) of a cache in a folder."""
    folder = o.path + ".cache-" + side.split("-")[0]
    if side.startswith("fathom"):
        import fathom
        cache = fathom.Cache(folder, memory=o.memory, flash="2G")
        return cache.get, cache.set_many, cache.close, cache.get_many
    if side.startswith("diskcache"):
        import diskcache
        cache = diskcache.Cache(folder, size_limit=8 << 30)

        def put(items):
            with cache.transact():
                for key, value in items.items():
                    cache[key] = value
        return cache.get, put, cache.close, None
    import lmdb
    env = lmdb.open(folder, map_size=8 << 30, readahead=False, sync=False)

    def get(key):
        with env.begin() as txn:
            return txn.get(b"%d" % key)

    def put(items):
        with env.begin(write=True) as txn:
            for key, value in items.items():
                txn.put(b"%d" % key, value)

    def many(keys):
        with env.begin() as txn:
            return {key: txn.get(b"%d" % key) for key in keys}
    return get, put, env.close, many


def value_of(i):
    return (b"%016d" % i) * (ROW // 16)


def work_cache(side, o):
    import random
    get, put, finish, many = open_cache(side, o)
    if "set" in side:
        done = [0]

        def step():
            first = done[0]
            done[0] += 512
            put({i: value_of(i) for i in range(first, min(done[0], o.items))})
            return 512

        start, cpu = time.perf_counter(), time.process_time()
        while done[0] < o.items:
            step()
        finish()
        return {"amount": o.items, "seconds": time.perf_counter() - start,
                "cpu": time.process_time() - cpu}
    draw = random.Random(o.seed)
    missed = [0]

    def check(key, value):
        """A cache may forget an item, and must not have another value."""
        missed[0] += value is None
        assert value is None or value == value_of(key)

    def step_many():
        keys = [draw.randrange(o.items) for _ in range(256)]
        found = many(keys)
        for key in keys:
            check(key, found.get(key))
        return 256

    def step_one():
        for _ in range(64):
            key = draw.randrange(o.items)
            check(key, get(key))
        return 64

    result = timed(o.seconds, step_many if "many" in side else step_one)
    assert missed[0] * 10000 <= result["amount"], "%d missed" % missed[0]
    finish()
    return result


def work_pagerank(side, o):
    import numpy as np
    n, m = o.vertices, o.vertices * 10
    rng = np.random.default_rng(1)
    edges = np.unique(np.stack([rng.integers(0, n, m), rng.integers(0, n, m)], 1), axis=0)
    edges = edges[edges[:, 0] != edges[:, 1]]
    if side == "fathom":
        import fathom
        graph = fathom.build_graph(o.path + ".graph", edges, vertices=n, memory="64M")
        start, cpu = time.perf_counter(), time.process_time()
        rank = graph.pagerank(iterations=20)
    elif side == "scipy":
        import scipy.sparse
        degree = np.maximum(np.bincount(edges[:, 0], minlength=n), 1)
        matrix = scipy.sparse.csr_matrix(
            (1 / degree[edges[:, 0]], (edges[:, 1], edges[:, 0])), shape=(n, n))
        empty = np.bincount(edges[:, 0], minlength=n) == 0
        start, cpu = time.perf_counter(), time.process_time()
        rank = np.full(n, 1 / n)
        for _ in range(20):
            rank = .15 / n + .85 * (matrix @ rank + rank[empty].sum() / n)
    else:
        import networkx
        graph = networkx.DiGraph()
        graph.add_nodes_from(range(n))
        graph.add_edges_from(edges.tolist())
        start, cpu = time.perf_counter(), time.process_time()
        found = networkx.pagerank(graph, max_iter=100, tol=1e-6 / n)
        rank = np.array([found[i] for i in range(n)])
    took, used = time.perf_counter() - start, time.process_time() - cpu
    assert abs(rank.sum() - 1) < 1e-4
    return {"amount": len(edges), "seconds": took, "cpu": used, "first": float(rank[:100].sum())}


# ---- rows: which sides, what is before them ----

def make_matrix(o):
    import numpy as np
    rows = o.size // ROW
    a = np.lib.format.open_memmap(o.path, mode="w+", dtype="f4", shape=(rows, ROW // 4))
    for i in range(0, rows, 1 << 14):
        a[i:i + (1 << 14)] = np.arange(i, min(i + (1 << 14), rows), dtype="f4")[:, None]
    a.flush()
    del a


def make_table(o):
    import numpy as np
    import fathom
    n = o.sql_rows
    with fathom.open(o.path + ".db", memory="256M") as db:
        db.insert("t", {"a": np.arange(n), "b": np.arange(n) / 7}, create=True)


def forget(path):
    """Take a file out of the page cache."""
    if os.path.isdir(path):
        for name in os.listdir(path):
            forget(os.path.join(path, name))
        return
    if not os.path.exists(path):
        return
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


ROWS = {
    "random": (work_random, ["fathom", "fathom-batches", "memmap-random", "memmap-sorted",
                             "memmap"], "rows/s"),
    "sequential": (work_sequential, ["fathom", "memmap"], "bytes/s"),
    "hot": (work_hot, ["fathom", "numpy"], "rows/s"),
    "single": (work_single, ["fathom", "memmap"], "rows/s"),
    "sql": (work_sql, ["fathom", "c-arrow"], "rows/s"),
    "cache": (work_cache, ["fathom-set", "diskcache-set", "lmdb-set", "fathom-get",
                           "diskcache-get", "lmdb-get", "fathom-many", "lmdb-many"], "items/s"),
    "pagerank": (work_pagerank, ["fathom", "scipy", "networkx"], "edges/s"),
}
LIMITED = ("random", "sequential", "cache")
MODULES = {"diskcache": "diskcache", "lmdb": "lmdb", "scipy": "scipy", "networkx": "networkx"}


def missing(side):
    module = MODULES.get(side.split("-")[0])
    if module is None:
        return False
    return subprocess.run([sys.executable, "-c", "import " + module],
                          stderr=subprocess.DEVNULL).returncode != 0


def run_side(o, row, side, seed, limit):
    """One run in a process of its own; its result."""
    from bench_cgroup import Cgroup
    command = [sys.executable, os.path.abspath(__file__), "--package", o.package, "--worker",
               row + ":" + side, "--path", o.path, "--memory", str(o.memory), "--seconds",
               str(o.seconds), "--seed", str(seed), "--items", str(o.items), "--vertices",
               str(o.vertices)]
    forget(o.path)
    forget(o.path + ".cache-" + side.split("-")[0])
    if limit is None:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    else:
        with Cgroup(limit) as group:
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True,
                                  preexec_fn=group.enter)
    return json.loads(done.stdout.splitlines()[-1])


def run_fio(o):
    """Reads of 4 KiB per second at the depth of a call, and bytes of 1 MiB, without a cache."""
    if not shutil.which("fio"):
        return None
    rates = {}
    for name, kind, block, depth in (("random", "randread", "4k", 128),
                                     ("sequential", "read", "1m", 8)):
        done = subprocess.run(
            ["fio", "--name=x", "--filename=" + o.path, "--rw=" + kind, "--bs=" + block,
             "--iodepth=%d" % depth, "--ioengine=io_uring", "--direct=1", "--readonly",
             "--size=%d" % (o.size // 4096 * 4096), "--runtime=%g" % max(o.seconds, 1),
             "--time_based", "--output-format=json"], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            return None
        read = json.loads(done.stdout)["jobs"][0]["read"]
        rates[name] = read["iops"] if name == "random" else read["bw_bytes"]
    return rates


def run_row(o, row):
    _, sides, unit = ROWS[row]
    sides = [side for side in sides if not (missing(side) and print(
        "%s: skipped, its module is not installed" % side) is None)]
    runs = {side: [] for side in sides}
    limit = o.limit if row in LIMITED else None
    for round_ in range(o.rounds):
        for side in sides:
            if side.endswith("-set"):
                shutil.rmtree(o.path + ".cache-" + side.split("-")[0], ignore_errors=True)
                if os.path.isfile(o.path + ".cache-" + side.split("-")[0]):
                    os.unlink(o.path + ".cache-" + side.split("-")[0])
            runs[side].append(run_side(o, row, side, round_ + 1, limit))
    result = {}
    for side, list_ in runs.items():
        rate = statistics.median(r["amount"] / r["seconds"] for r in list_)
        cpu = statistics.median(r["cpu"] / r["amount"] for r in list_)
        peak = max((r.get("peak_mb", 0) for r in list_), default=0)
        result[side] = {"rate": rate, "cpu_us": cpu * 1e6}
        print("%-10s %-15s %14.0f %-8s %10.3f us of CPU each%s" % (
            row, side, rate, unit, cpu * 1e6, "  %d MB more resident" % peak if peak else ""))
    return result


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS) + "; default all")
    p.add_argument("--package", required=True, help="the folder with the package fathom")
    p.add_argument("--directory", default="/var/tmp", help="where the data goes")
    p.add_argument("--size", type=int, default=1600 << 20, help="bytes of the matrix")
    p.add_argument("--limit", type=int, default=320 << 20, help="bytes of the cgroup")
    p.add_argument("--memory", type=int, default=192 << 20, help="bytes of Fathom's cache")
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--sql-rows", type=int, default=10000000)
    p.add_argument("--items", type=int, default=1000000, help="of 1 KiB in the caches")
    p.add_argument("--vertices", type=int, default=100000, help="of the graph, with 10 edges each")
    p.add_argument("--worker", help=argparse.SUPPRESS)
    p.add_argument("--path", help=argparse.SUPPRESS)
    p.add_argument("--seed", type=int, default=1, help=argparse.SUPPRESS)
    o = p.parse_args()
    sys.path.insert(0, o.package)
    if o.worker:
        row, side = o.worker.split(":")
        print(json.dumps(ROWS[row][0](side, o)))
        return 0
    unknown = set(o.rows) - set(ROWS)
    if unknown:
        p.error("unknown rows: " + ", ".join(sorted(unknown)))
    from bench_cgroup import require
    from bench_cli import Skipped
    try:
        require()
    except Skipped as why:
        print("skipped: %s" % why)
        return 77
    folder = tempfile.mkdtemp(dir=o.directory, prefix="fathom-bench-")
    try:
        o.path = os.path.join(folder, "matrix.npy")
        make_matrix(o)
        rows = o.rows or list(ROWS)
        if "sql" in rows:
            make_table(o)
        results = {row: run_row(o, row) for row in rows}
        if {"random", "sequential"} & set(rows):
            results["fio"] = run_fio(o)
            print("fio        %s" % results["fio"])
        print(json.dumps({"bench": "python", **results}, separators=(",", ":")))
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
