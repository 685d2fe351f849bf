# SPDX-License-Identifier: BSD-2-Clause
"""What the tests of `fathom flat run` share: TEST.py FATHOM PROGRAM."""
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

FATHOM, PROGRAM = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
LONG = bool(os.environ.get("FTH_LONG_TESTS"))
MIB = 1 << 20
NAME = os.path.basename(sys.argv[0]).removesuffix(".py")
work = tempfile.mkdtemp()
device = "mem:512M"


def say(text):
    print(f"{NAME}: {text}", flush=True)


def fail(text):
    print(f"{NAME}: {text}", file=sys.stderr)
    sys.exit(1)


def flat(options, program, **kwargs):
    command = [FATHOM, "flat", "run", *options, "--", *program]
    kwargs = {"capture_output": True, "timeout": 600, "cwd": work, **kwargs}
    return subprocess.run(command, **kwargs)


def plain(program, **kwargs):
    """The same without Fathom."""
    return subprocess.run(program, **{"capture_output": True, "timeout": 600, "cwd": work, **kwargs})


def expect(condition, what, done):
    if not condition:
        fail(f"{what}: status {done.returncode}\n{done.stdout.decode(errors='replace')[-2000:]}"
             f"\n{done.stderr.decode(errors='replace')[-2000:]}")


def expect_ok(what, done):
    expect(done.returncode == 0 and done.stdout == b"ok\n", what, done)


class Redis:
    """A redis-server under `fathom flat run`, and a connection to it."""

    def __init__(self, options, arguments=()):
        path = os.path.join(work, "redis")
        self.process = subprocess.Popen(
            [FATHOM, "flat", "run", "--json", *options, "--", "redis-server", "--port", "0", "--unixsocket", path,
             "--save", "", "--dir", work, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=work)
        self.link = socket.socket(socket.AF_UNIX)
        deadline = time.time() + 60
        while self.link.connect_ex(path) != 0:
            if time.time() > deadline or self.process.poll() is not None:
                fail("redis-server does not start")
            time.sleep(0.01)
        self.answers = self.link.makefile("rb")

    def send(self, *commands):
        self.link.sendall(b"".join(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word)
                                                                       for word in words) for words in commands))

    def ask(self, *words):
        """One command; its answer, a line or a string."""
        self.send(words)
        line = self.answers.readline()
        return self.answers.read(int(line[1:]) + 2)[:-2] if line[:1] == b"$" else line.strip()

    def fill(self, records, value):
        for first in range(0, records, 100):
            self.send(*[(b"SET", b"key%d" % i, value(i)) for i in range(first, first + 100)])
            for _ in range(100):
                if self.answers.readline() != b"+OK\r\n":
                    fail("redis-server does not keep a value")

    def wait_for_save(self):
        """Returns what it says of its last background save."""
        deadline = time.time() + 250
        while True:
            text = self.ask(b"INFO", b"persistence")
            if b"rdb_bgsave_in_progress:0" in text:
                return text
            if time.time() > deadline:
                fail(f"a background save does not end: {text}")
            time.sleep(0.02)

    def end(self):
        """Returns what was printed on standard error."""
        self.send((b"SHUTDOWN", b"NOSAVE"))
        error = self.process.communicate(timeout=600)[1]
        if self.process.returncode != 0:
            fail(f"redis-server: {self.process.returncode} {error}")
        return error


def main(tests):
    try:
        probe = flat(["--flash", "mem:16M"], ["true"])
        if probe.returncode == 77 or b"is not in" in probe.stderr:
            say(f"skipped: {probe.stderr.decode().strip()}")
            sys.exit(77)
        expect(probe.returncode == 0, "true", probe)
        for test in tests:
            start = time.time()
            test()
            say(f"{test.__name__}: {time.time() - start:.1f} s")
        say("passed")
    finally:
        shutil.rmtree(work, ignore_errors=True)


__all__ = ["FATHOM", "PROGRAM", "LONG", "MIB", "Redis", "device", "expect", "expect_ok", "fail", "flat", "main", "plain",
           "say", "work"]
