# SPDX-License-Identifier: BSD-2-Clause
"""The benchmark runs, at a small size: it checks its data itself."""
import json
import os
import subprocess
import sys

import pytest

import fathom

BENCH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bench",
                     "bench_python.py")


@pytest.mark.skipif(bool(os.environ.get("FTH_SANITIZE")), reason="once is enough")
def test_all_rows_run(tmp_path):
    run = subprocess.run(
        [sys.executable, BENCH, "--package", os.path.dirname(os.path.dirname(fathom.__file__)),
         "--directory", str(tmp_path), "--size", str(64 << 20), "--limit", str(192 << 20),
         "--memory", str(8 << 20), "--seconds", "0.05", "--rounds", "1", "--sql-rows", "100000",
         "--items", "5000", "--vertices", "2000"], stdout=subprocess.PIPE, text=True)
    if run.returncode == 77:
        pytest.skip(run.stdout.strip())
    assert run.returncode == 0, run.stdout
    line = json.loads(run.stdout.splitlines()[-1])
    for row in ("random", "sequential", "hot", "single", "sql", "cache", "pagerank"):
        assert all(side["rate"] > 0 for side in line[row].values())
    assert os.listdir(tmp_path) == []
