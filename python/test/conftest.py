# SPDX-License-Identifier: BSD-2-Clause
"""Fixtures: data, and programs of their own that are killed, interrupted or confined."""
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def matrix(tmp_path, rng):
    """A .npy file and the array in it: rows of 100 bytes, so that many lie in two lines."""
    values = rng.integers(0, 1 << 30, (5000, 25), dtype=np.int32)
    np.save(tmp_path / "m.npy", values)
    return tmp_path / "m.npy", values


class Program:
    """A Python program as a process of its own."""

    def __init__(self, text, *args, **options):
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(text)] + [str(a) for a in args],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            **options)

    def wait_for(self, line):
        got = self.process.stdout.readline().strip()
        assert got == line, (got, self.process.communicate())

    def end(self, status=0):
        out, err = self.process.communicate(timeout=100)
        assert self.process.returncode == status, (self.process.returncode, out, err)
        return out, err


@pytest.fixture
def program():
    started = []

    def start(text, *args, **options):
        started.append(Program(text, *args, **options))
        return started[-1]

    yield start
    for p in started:
        if p.process.poll() is None:
            p.process.kill()
        p.process.communicate()


def descriptors():
    return len(os.listdir("/proc/self/fd"))
