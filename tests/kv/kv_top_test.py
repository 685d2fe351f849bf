#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""kv_top_test.py FATHOM: `fathom kv top` on a terminal and in a pipe.

A pseudo-terminal stands for the screen: the figures come, the window changes its size, the server goes away
and comes back, q quits and leaves the terminal as it was.
"""
import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time

FATHOM = sys.argv[1]
PATIENCE = 600  # seconds; a slow machine is no failure
# The one leak is in libtinfo; the file says which. LeakSanitizer would print that it was suppressed.
LSAN = "print_suppressions=0:suppressions=" + os.path.splitext(os.path.abspath(__file__))[0] + ".supp"


def fail(text):
    print("kv_top_test:", text, file=sys.stderr)
    sys.exit(1)


def start_server(port):
    """A server in memory; returns the process and its port."""
    server = subprocess.Popen([FATHOM, "kv", "serve", "--json", "--flash", "none", "--memory", "8M",
                               "--listen", "127.0.0.1:%d" % port],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    report = server.stdout.readline()
    if not report:
        fail("no server: %s" % server.stderr.read())
    return server, json.loads(report)["port"]


def set_size(fd, rows, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class Screen:
    """A program on a pseudo-terminal, and what it has written since the last look."""

    def __init__(self, arguments, terminal):
        self.master, slave = pty.openpty()
        set_size(self.master, 40, 100)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.text = ""
        self.process = subprocess.Popen(arguments, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                        env=dict(os.environ, TERM=terminal, LSAN_OPTIONS=LSAN))

    def wait_for(self, *words):
        """Until all words were written since the last call."""
        deadline = time.monotonic() + PATIENCE
        while not all(word in self.text for word in words):
            if time.monotonic() > deadline or (self.process.poll() is not None and not self.readable(0.2)):
                fail("no %r on the screen: %r" % (words, self.text[-2000:]))
            if self.readable(0.1):
                data = os.read(self.master, 65536).decode("utf-8", "replace")
                self.text += re.sub(r"\x1b(\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|[=>78])", "", data)
        self.text = ""

    def readable(self, seconds):
        return select.select([self.master], [], [], seconds)[0]

    def wait_end(self):
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            if self.readable(0.05):
                self.text += os.read(self.master, 65536).decode("utf-8", "replace")
            if time.monotonic() > deadline:
                self.process.kill()
                fail("it does not end")
        return self.process.returncode


def test_screen(server, port):
    screen = Screen([FATHOM, "kv", "top", "--server", "127.0.0.1:%d" % port, "--interval", "0.2"], "xterm")
    screen.wait_for("hit rate", "latency", "queue depth", "memory used", "connections", "q quits")
    set_size(screen.master, 8, 30)
    os.kill(screen.process.pid, signal.SIGWINCH)
    screen.wait_for("per second")
    set_size(screen.master, 2, 5)
    os.kill(screen.process.pid, signal.SIGWINCH)
    set_size(screen.master, 40, 100)
    os.kill(screen.process.pid, signal.SIGWINCH)
    screen.wait_for("hit rate", "q quits")
    server.kill()
    server.wait()
    screen.wait_for("trying")
    server, _ = start_server(port)
    screen.wait_for("hit rate")
    os.write(screen.master, b"+-x")
    time.sleep(0.1)
    os.write(screen.master, b"q")
    if screen.wait_end() != 0:
        fail("status %d after q" % screen.process.returncode)
    if termios.tcgetattr(screen.slave) != screen.before:
        fail("the terminal is not as it was")
    return server


def test_signal(port):
    screen = Screen([FATHOM, "kv", "top", "--server", "127.0.0.1:%d" % port], "xterm")
    screen.wait_for("hit rate")
    screen.process.send_signal(signal.SIGTERM)
    if screen.wait_end() != 130:
        fail("status %d after SIGTERM" % screen.process.returncode)
    if termios.tcgetattr(screen.slave) != screen.before:
        fail("the terminal is not as it was")


def test_unknown_terminal(port):
    screen = Screen([FATHOM, "kv", "top", "--server", "127.0.0.1:%d" % port], "no-such-terminal")
    screen.wait_for("--once works without ncurses")
    if screen.wait_end() != 77:
        fail("status %d on an unknown terminal" % screen.process.returncode)


def run(*arguments):
    return subprocess.run([FATHOM, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=PATIENCE)


def test_batch(port):
    where = ["--server", "127.0.0.1:%d" % port]
    once = run("kv", "top", "--once", "--interval", "0.1", *where)
    if once.returncode != 0 or "hit rate" not in once.stdout or "\x1b" in once.stdout:
        fail("--once: %r" % once)
    with socket.create_connection(("127.0.0.1", port)) as client:
        answers = client.makefile("rb")
        top = subprocess.Popen([FATHOM, "--json", "kv", "top", "--count", "3", "--interval", "0.3", *where],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        objects = []
        while top.poll() is None:  # hits while it looks
            client.sendall(b"set a 0 0 1\r\nx\r\nget a\r\nget b\r\n")
            for line in range(5):
                answers.readline()
            time.sleep(0.002)
        objects = [json.loads(line) for line in top.stdout]
    if top.returncode != 0 or len(objects) != 3 or any(o["since_start"] for o in objects):
        fail("--json: %r" % objects)
    for o in objects:
        if not (0.2 < o["seconds"] and abs(o["hit_rate"] - 0.5) < 0.2 and o["sets"] > 0 and
                o["latency_us"]["get"]["p50"] > 0 and o["queue_depth"] > 0):
            fail("figures of an interval: %r" % o)
    nobody = run("kv", "top", "--once", "--server", "127.0.0.1:1")
    if nobody.returncode != 1 or "cannot connect" not in nobody.stderr:
        fail("no server: %r" % nobody)
    if run("kv", "top", "--interval", "0").returncode != 2:
        fail("an interval of 0")


def main():
    server, port = start_server(0)
    try:
        test_batch(port)
        screen = run("kv", "top", "--help")
        if screen.returncode != 0:
            fail("--help")
        probe = Screen([FATHOM, "kv", "top", "--server", "127.0.0.1:%d" % port, "--count", "1", "--interval", "0.1"],
                       "xterm")
        if probe.wait_end() == 77:
            print("skipped: no ncurses: %s" % probe.text)
            sys.exit(77)
        server = test_screen(server, port)
        test_signal(port)
        test_unknown_terminal(port)
    finally:
        server.kill()
    print("kv_top_test: passed")


main()
