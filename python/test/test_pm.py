# SPDX-License-Identifier: BSD-2-Clause
"""Logs, checkpoints and flat arrays: what survives, and what is refused."""
import errno
import os

import numpy as np
import pytest

import fathom


def test_a_log(tmp_path):
    with fathom.Log(tmp_path / "l", size="64K") as log:
        assert list(log) == [] and len(log) == 0
        log.append(b"first")
        log.append(np.arange(3, dtype=np.uint8))
        log.append(b"")
        with pytest.raises(fathom.Error) as e:
            log.append(bytes(1 << 20))
        assert e.value.errno == errno.ENOSPC
    with fathom.Log(tmp_path / "l") as log:
        assert list(log) == [b"first", b"\0\1\2", b""] and len(log) == 3
        with pytest.raises(fathom.Error) as e:
            while True:
                log.append(bytes(1000))
        assert e.value.errno == errno.ENOSPC and len(log) > 50
        log.clear()
        log.append(b"again")
        assert list(log) == [b"again"]
    with pytest.raises(ValueError, match="closed"):
        log.append(b"")


def test_appended_entries_survive_a_kill(tmp_path, program):
    writer = program("""
        import sys, fathom
        log = fathom.Log(sys.argv[1], size="1M")
        for i in range(1000000):
            log.append(b"%d" % i)
            print(i, flush=True)
        """, tmp_path / "l")
    last = 0
    while last < 20:
        last = int(writer.process.stdout.readline())
    writer.process.kill()
    rest = writer.process.communicate()[0].split("\n")
    last = int(rest[-2]) if len(rest) > 1 else last
    with fathom.Log(tmp_path / "l") as log:
        entries = list(log)
    assert entries == [b"%d" % i for i in range(len(entries))] and len(entries) > last


def test_a_checkpoint(tmp_path):
    def arrays():
        return {"weights": np.zeros((100, 30), "f4"), "step": np.zeros(1, "i8"),
                "when": np.zeros(2, "M8[s]")}

    first = arrays()
    with fathom.Checkpoint(tmp_path / "c", **first) as c:
        assert c.version == 0 and not c.restore()
        for i in range(3):
            with c.step():
                first["weights"] += 1.5
                first["step"] += 1
        with pytest.raises(ZeroDivisionError):
            with c.step():
                first["step"] += 1
                1 / 0
        assert c.version == 3
    second = arrays()
    with fathom.Checkpoint(tmp_path / "c", **second) as c:
        assert c.version == 3 and c.restore()
        assert (second["weights"] == 4.5).all() and second["step"][0] == 3
        with pytest.raises(fathom.Error) as e:
            fathom.Checkpoint(tmp_path / "c", **second)
        assert e.value.errno == errno.EBUSY
    with pytest.raises(fathom.Error):
        fathom.Checkpoint(tmp_path / "c", weights=np.zeros(5))
    for wrong in ({}, {"a": [1]}, {"a": np.zeros(0)}, {"a": np.zeros((4, 4))[:, ::2]},
                  {"a": np.array([None])}):
        with pytest.raises(ValueError):
            fathom.Checkpoint(tmp_path / "d", **wrong)


def test_a_checkpoint_is_old_or_new_after_a_kill(tmp_path, program):
    writer = program("""
        import sys, numpy as np, fathom
        a = np.zeros(100000)
        c = fathom.Checkpoint(sys.argv[1], a=a)
        for i in range(1000000):
            with c.step():
                a += 1
            print(i + 1, flush=True)
        """, tmp_path / "c")
    last = 0
    while last < 10:
        last = int(writer.process.stdout.readline())
    writer.process.kill()
    rest = writer.process.communicate()[0].split("\n")
    last = int(rest[-2]) if len(rest) > 1 else last
    a = np.zeros(100000)
    with fathom.Checkpoint(tmp_path / "c", a=a) as c:
        assert c.restore()
    assert a[0] in (last, last + 1) and (a == a[0]).all()


def flat_or_skip(*args, **options):
    try:
        return fathom.flat(*args, **options)
    except fathom.Error as e:
        if e.errno == errno.ENOTSUP:
            pytest.skip("no userfaultfd here")
        raise


@pytest.mark.skipif(os.environ.get("FTH_SANITIZE") == "address",
                    reason="AddressSanitizer handles the signals")
def test_flat_arrays(tmp_path, program):
    a = flat_or_skip(tmp_path / "f", (1000, 1000), "f8", memory="1M")
    assert isinstance(a, np.ndarray) and a.shape == (1000, 1000)
    a[:] = np.arange(1000)
    a[5] *= 2
    assert a.sum() == 1000 * 999 * 500 + 999 * 500
    view = a[10:20, ::3]
    view.sync()
    assert np.array_equal(np.fromfile(tmp_path / "f", "f8", 1000), np.arange(1000))
    del a, view
    b = flat_or_skip(tmp_path / "f", (1000, 1000), readonly=True)
    assert (b[5] == 2 * np.arange(1000)).all()
    with pytest.raises(ValueError):
        b[0] = 1
    with pytest.raises(ValueError):
        fathom.flat(tmp_path / "f", (5000, 1000), readonly=True)
    del b
    program("""
        import sys, fathom
        a = fathom.flat(sys.argv[1], 1000000, memory="1M")
        a[77] = 42
        """, tmp_path / "f").end()
    assert np.fromfile(tmp_path / "f")[77] == 42
