# SPDX-License-Identifier: BSD-2-Clause
"""Databases: arrays by name, and one ceiling for their memory."""
import errno
import os
import subprocess
import sys

import numpy as np
import pytest

import fathom


def test_arrays_by_name(tmp_path, rng):
    values = rng.normal(size=(1000, 7))
    with fathom.open(tmp_path / "d", memory="4M") as db:
        assert db.arrays() == []
        a = db.array("x", (1000, 7), "f8")
        assert (a[:] == 0).all()
        a[:] = values
        assert db.array("x") is a
        db.array("scalars", 10, "i4")[3] = 4
        assert db.arrays() == ["scalars", "x"]
        with pytest.raises(fathom.Error):
            db.array("x", (1000, 8), "f8")
        with pytest.raises(fathom.Error):
            db.array("x", (1000, 7), "f4")
        with pytest.raises(FileNotFoundError):
            db.array("y")
        for wrong in ("", "a/b", ".x", "a\0b"):
            with pytest.raises(ValueError):
                db.array(wrong, 1, "i4")
    assert np.array_equal(np.load(tmp_path / "d/fathom.arrays/x.npy"), values)
    with fathom.open(tmp_path / "d", readonly=True) as db:
        assert np.array_equal(db.array("x")[[1, 999]], values[[1, 999]])
        assert db.array("scalars")[3] == 4
        with pytest.raises(ValueError):
            db.array("x")[0] = 1
    with fathom.open(tmp_path / "d") as db:
        db.remove_array("x")
        assert db.arrays() == ["scalars"]
        with pytest.raises(FileNotFoundError):
            db.remove_array("x")


def test_closing_a_database_closes_its_arrays(tmp_path):
    db = fathom.open(tmp_path)
    a = db.array("x", 10, "f4")
    a[3] = 1
    db.close()
    db.close()
    for call in (lambda: a[3], lambda: db.array("x"), db.arrays, db.flush):
        with pytest.raises(ValueError, match="closed"):
            call()
    with fathom.open(tmp_path) as db:
        assert db.array("x")[3] == 1


def test_a_missing_database(tmp_path):
    with pytest.raises(FileNotFoundError):
        fathom.open(tmp_path / "no", create=False)
    with pytest.raises(FileNotFoundError):
        fathom.open(tmp_path / "no", readonly=True)


def test_memory_is_divided_and_bounded(tmp_path):
    with fathom.open(tmp_path, memory="64M", arrays="48M") as db:
        assert db.memory == {"limit": 64 << 20, "free": 64 << 20}
        a = db.array("x", 10, "f4")
        assert db.memory == {"limit": 64 << 20, "free": 16 << 20, "arrays": 48 << 20}
        stats = a.stats
        assert stats["data_bytes"] + stats["metadata_bytes"] <= 48 << 20
    with fathom.open(tmp_path, memory="1M", arrays="2M") as db:
        with pytest.raises(MemoryError) as e:
            db.array("x")
        assert e.value.errno == errno.ENOMEM and "2097152" in str(e.value)


def resident(text, *args):
    """Run a program, and return how much more memory it took at most than after its imports."""
    whole = ("import resource, sys, numpy as np, fathom\n"
             "def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10\n"
             "before = peak()\n" + text + "\nprint(peak() - before)")
    run = subprocess.run([sys.executable, "-c", whole] + [str(a) for a in args], check=True,
                         stdout=subprocess.PIPE, text=True)
    return int(run.stdout)


@pytest.mark.skipif(bool(os.environ.get("FTH_SANITIZE")), reason="a sanitizer takes memory")
def test_the_ceiling_holds(tmp_path):
    """256 MiB are written and read at random in 16 MiB."""
    more = resident("""
db = fathom.open(sys.argv[1], memory="16M", arrays="16M")
a = db.array("x", (1 << 18, 256), "f4")
rng = np.random.default_rng(1)
for first in range(0, 1 << 18, 1 << 12):
    a[first:first + (1 << 12)] = np.arange(first, first + (1 << 12), dtype="f4")[:, None]
for _ in range(20):
    ids = rng.integers(0, 1 << 18, 2048)
    assert (a[ids] == ids.astype("f4")[:, None]).all()
db.close()
""", tmp_path)
    assert more < (16 << 20) + (12 << 20), more  # 4 MiB of rows at a time, converted


def test_two_processes_make_one_array(tmp_path):
    """Both create it: one wins, and the other opens it or is told that it is in use."""
    text = ("import sys, fathom\n"
            "db = fathom.open(sys.argv[1])\n"
            "try:\n"
            "    a = db.array('x', 1000, 'i8')\n"
            "    a[:] = 1\n"
            "    sys.stdin.read()\n"
            "except fathom.Error as e:\n"
            "    assert e.errno in (16, 17), e\n")
    both = [subprocess.Popen([sys.executable, "-c", text, str(tmp_path)], stdin=subprocess.PIPE)
            for _ in range(4)]
    for p in both:
        p.stdin.close()
    assert [p.wait(timeout=60) for p in both] == [0] * 4
    with fathom.open(tmp_path) as db:
        assert (db.array("x")[:] == 1).all()
