# SPDX-License-Identifier: BSD-2-Clause
"""Arrays and processes: kill -9, fork, Ctrl-C, full disks, closed descriptors, the end."""
import errno
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import fathom


def test_flushed_rows_survive_a_kill(tmp_path, program):
    """Each flush is followed by a line; rows of later rounds are old or new."""
    writer = program("""
        import sys, numpy as np, fathom
        db = fathom.open(sys.argv[1], memory="2M")
        a = db.array("x", (4096, 128), "i8")
        ids = np.random.default_rng(1).permutation(4096)
        for round in range(1, 1000000):
            for part in np.array_split(ids, 8):
                a[part] = round
            a.flush()
            print(round, flush=True)
        """, tmp_path)
    rounds = 0
    while rounds < 5:
        rounds = int(writer.process.stdout.readline())
    writer.process.kill()
    rest = writer.process.communicate()[0].split()
    last = int(rest[-1]) if rest else rounds
    with fathom.open(tmp_path) as db:
        got = db.array("x")[:]
    assert (got >= last).all() and (got <= last + 1).all()
    # A row of 1 KiB lies in two blocks, each of which is written as a whole.
    halves = got.reshape(-1, 64)
    assert (halves == halves[:, :1]).all()


def test_a_child_of_fork_is_refused_and_the_parent_goes_on(matrix):
    path, values = matrix
    a = fathom.load(path, readonly=False)
    a[0] = 5
    child = os.fork()
    if child == 0:
        status = 1
        try:
            a[0]
        except PermissionError as e:
            status = 0 if e.errno == errno.EPERM and "fork" in str(e) else 2
        try:
            a.close()
            del a
            b = fathom.load(path.parent / "own.npy") if (path.parent / "own.npy").exists() else None
        except BaseException:
            status = 3
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (a[0] == 5).all()
    a[1] = 6
    a.close()
    assert (np.load(path)[:2].T == [5, 6]).all()


def test_a_child_of_fork_opens_its_own(matrix):
    path, values = matrix
    a = fathom.load(path)
    a[:100]
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if np.array_equal(fathom.load(path)[[7, 8]], values[[7, 8]]) else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert np.array_equal(a[:], values)


def test_control_c_ends_a_long_read(tmp_path, program):
    """The file is a hole of 4 TiB: reading it takes an hour."""
    reader = program("""
        import sys, numpy as np, fathom
        path = sys.argv[1] + "/hole"
        with open(path, "wb") as f:
            f.truncate(4 << 40)
        a = fathom.load(path, dtype="u1", shape=(1 << 30, 4096), memory="64M")
        out = np.empty((4096, 4096), "u1")
        print("reading", flush=True)
        try:
            while True:
                for i in range(0, 1 << 30, 4096):
                    a.take(np.arange(i, i + 4096), out=out)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        assert (a[5] == 0).all()
        """, tmp_path)
    reader.wait_for("reading")
    time.sleep(.2)
    reader.process.send_signal(signal.SIGINT)
    reader.wait_for("interrupted")
    reader.end()


def test_changes_are_written_when_the_interpreter_ends(matrix, program):
    path, _ = matrix
    program("""
        import sys, fathom
        a = fathom.load(sys.argv[1], readonly=False)
        a[17] = 4
        """, path).end()
    assert (np.load(path)[17] == 4).all()
    program("""
        import sys, fathom
        db = fathom.open(sys.argv[1] + ".db")
        a = db.array("x", (100,), "i4")
        a[17] = 4
        sys.exit(3)
        """, path).end(3)
    assert np.load(str(path) + ".db/fathom.arrays/x.npy")[17] == 4


def test_closed_descriptors_do_no_harm(matrix):
    path, values = matrix
    code = ("import sys, fathom\n"
            "a = fathom.load(%r, readonly=False)\na[3] = 1\na.close()\n"
            "assert (fathom.load(%r)[3] == 1).all()\n" % (str(path), str(path)))
    run = subprocess.run(["bash", "-c", "exec \"$0\" -c \"$1\" <&- >&- 2>&-", sys.executable, code])
    assert run.returncode == 0
    values[3] = 1
    assert np.array_equal(np.load(path), values)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_full_disk_is_an_error_and_loses_nothing(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8M", "none", small],
                           stderr=subprocess.DEVNULL)
    if mount.returncode:
        pytest.skip("cannot mount")
    try:
        db = fathom.open(small, memory="4M")
        a = db.array("x", (64, 1 << 18), "u1")  # 16 MiB
        with pytest.raises(fathom.Error) as e:
            for i in range(64):
                a[i] = i + 1
                a.flush()
        assert e.value.errno == errno.ENOSPC
        with pytest.raises(fathom.Error):
            a.close()
        subprocess.run(["mount", "-o", "remount,size=32M", small], check=True)
        a.close()  # what could not be written before is still there
        with fathom.load(small / "fathom.arrays" / "x.npy") as a:
            assert i > 8 and (a[:i + 1] == np.arange(1, i + 2)[:, None]).all()
        db.close()
    finally:
        subprocess.run(["umount", "-l", small], check=True)


def test_a_file_without_permission(matrix):
    path, _ = matrix
    if os.geteuid() == 0:
        pytest.skip("root may do everything")
    path.chmod(0o400)
    fathom.load(path)[3]
    with pytest.raises(PermissionError):
        fathom.load(path, readonly=False)
