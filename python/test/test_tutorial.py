# SPDX-License-Identifier: BSD-2-Clause
"""The tutorial runs; and the pitch: a pipeline in a memory cgroup that its data does not fit."""
import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "bench", "common"))
LONG = bool(os.environ.get("FTH_LONG_TESTS"))
LIMIT = 200 << 20
STEP = 1 << 19  # lines

# CSV to table to SQL to arrays to PageRank to numpy, with sums that are known.
PIPELINE = """
import os, sys
import numpy as np
import fathom
path, step, times, n = sys.argv[1], *map(int, sys.argv[2:])
rows = step * times
db = fathom.open(path + "/db", memory="96M", arrays="24M", sql="56M", threads=2)
db.sql("create table edges (a integer, b integer, w bigint)")
db.sql("copy edges from '%s/edges.csv' with (format csv)" % path)
count, total = db.sql("select count(*), sum(w) from edges").fetchall()[0]
assert (count, total) == (rows, times * step * (step - 1) // 2), (count, total)
by = db.sql("select a, count(*) as n, sum(w) as w from edges group by a order by a").numpy()
assert int(by["n"].sum()) == rows and len(by["a"]) == min(n, step)
saved = db.sql("select a, b from edges where w < %d" % (step // 4)).save("some")
assert len(saved["a"]) == rows // 4
picked = saved["a"][np.random.default_rng(1).integers(0, rows // 4, 5000)]
assert picked.min() >= 0 and picked.max() < n
db.sql("drop table edges")
k = min(rows // 4, 1 << 20)
graph = db.build_graph("g", (saved["a"][:k], saved["b"][:k]), vertices=n)
ranks = graph.pagerank(iterations=5)
assert abs(ranks.sum() - 1) < 1e-5
db.close()
print("done")
"""


def test_the_tutorial_runs(tmp_path):
    tutorial = os.path.join(os.path.dirname(HERE), "tutorial", "tutorial.py")
    run = subprocess.run([sys.executable, "-W", "error", tutorial], cwd=tmp_path, text=True,
                         stdout=subprocess.PIPE, check=True)
    assert "loaded 50000 rows" in run.stdout and "memory at most" in run.stdout


def write_edges(path, size, vertices):
    """Lines a,b,w of about so many bytes, the same STEP lines again and again."""
    import numpy as np
    w = np.arange(STEP)
    a, b = w * 2654435761 % vertices, w * 40503 % vertices
    block = "".join(map("%d,%d,%d\n".__mod__, zip(a.tolist(), b.tolist(), w.tolist()))).encode()
    times = -(-size // len(block))
    with open(path, "wb") as file:
        for _ in range(times):
            file.write(block)
    return times


@pytest.mark.skipif(bool(os.environ.get("FTH_SANITIZE")), reason="a sanitizer takes memory")
def test_a_pipeline_in_little_memory_is_not_killed(tmp_path):
    """10 GB in the long version and 1 GB in the other, in 200 MiB."""
    from bench_cgroup import Cgroup
    from bench_cli import Skipped
    vertices = 1 << 18
    size = 10 ** 10 if LONG else 10 ** 9
    if os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize < 3 * size:
        pytest.skip("no space for the data")
    try:
        group = Cgroup(LIMIT)
    except Skipped as why:
        pytest.skip(str(why))
    times = write_edges(tmp_path / "edges.csv", size, vertices)
    try:
        run = subprocess.run([sys.executable, "-c", PIPELINE, str(tmp_path), str(STEP),
                              str(times), str(vertices)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, preexec_fn=group.enter)
        assert run.returncode == 0 and run.stdout.endswith("done\n"), (run.returncode, run.stderr)
    finally:
        os.unlink(tmp_path / "edges.csv")
        group.close()
