#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""kv_kill_test.py FATHOM: kill -9 of `fathom kv serve` while clients write.

With write-through all that was acknowledged is there afterwards; with write-back all that was
acknowledged a window before the last answer. No key ever has a value that was not stored for it, and
none an older one than it had after an earlier kill. Checkpoints are written all the time, so that some
kills hit one. FTH_LONG_TESTS=1: 100 kills of each.
"""
import os
import random
import sys
import threading
import time

from kv_fixture import Client, Folder, Server, fail, until

FATHOM = sys.argv[1]
KILLS = 100 if os.environ.get("FTH_LONG_TESTS") else 3
WINDOW_MS = 50
KEYS = 400  # of each client
CLIENTS = 4


def value_of(key, version):
    return b"%s=%d;" % (key, version) * (1 + (version * 7919) % 300)


class Key:
    """What is known of it: the versions that it may have, the oldest first."""

    def __init__(self):
        self.found = 0  # by the last check; 0: it is not there
        self.sent = []  # (version, when it was acknowledged or None), since then


class Writer(threading.Thread):
    """Stores until the server is gone; a few requests are in flight at once."""

    def __init__(self, number, state, seed):
        super().__init__(daemon=True)
        self.number, self.state = number, state
        self.random = random.Random(seed)
        self.answered = 0
        self.began = 0.0  # when the last request that was answered was sent

    def key(self, i):
        return b"w%d-%d" % (self.number, i)

    def work(self, port):
        with Client(port) as c:
            while True:
                batch = self.random.sample(range(KEYS), self.random.choice((1, 4, 16)))
                began = time.monotonic()
                text = b""
                for i in batch:
                    self.state.version += 1  # of this client alone
                    version = 0 if self.random.random() < 0.1 else self.state.version
                    self.state.keys[i].sent.append([version, None])
                    if version:
                        value = value_of(self.key(i), version)
                        text += b"set %s 0 0 %d\r\n%s\r\n" % (self.key(i), len(value), value)
                    else:
                        text += b"delete %s\r\n" % self.key(i)
                c.send(text)
                for i in batch:
                    answer = c.line()
                    if answer not in (b"STORED", b"DELETED", b"NOT_FOUND"):
                        return  # the connection has ended
                    self.state.keys[i].sent[-1][1] = time.monotonic()
                    self.answered += 1
                    if answer != b"NOT_FOUND":
                        self.began = began

    def run(self):
        try:
            self.work(self.state.port)
        except OSError:
            pass


class State:
    def __init__(self):
        self.keys = [Key() for _ in range(KEYS)]
        self.version = 0
        self.port = 0


def check_key(c, name, key, before):
    """before: what was acknowledged by then must be there."""
    value = c.get(name)
    allowed = [key.found]
    for version, when in key.sent:
        if when is not None and when <= before:
            allowed = []
        allowed.append(version)
    found = 0 if value is None else int(value[len(name) + 1:value.index(b";")])
    if value is not None and value != value_of(name, found):
        fail("%s has a value that was never stored: %s" % (name, value[:40]))
    if found not in allowed:
        fail("%s has version %d, allowed are %s" % (name, found, allowed))
    key.found, key.sent = found, []


def start(folder, persist):
    # Long enough that nothing is reclaimed which was written a few kills ago.
    return Server(FATHOM, "--memory", "8M", "--flash", folder.flash(persist, "256M"), "--persist",
                  persist, "--window-ms", str(WINDOW_MS), "--checkpoint", "1", "--items", "100000",
                  "--value-max", "16K", "--chunk", "256K", "--buffers", "4")


def check_all(server, states):
    with server.dial() as c:
        for n, state in enumerate(states):
            for i, key in enumerate(state.keys):
                check_key(c, b"w%d-%d" % (n, i), key, state.before)


def one_kill(folder, persist, states, rng):
    with start(folder, persist) as server:
        check_all(server, states)
        for state in states:
            state.port = server.port
        writers = [Writer(n, state, rng.random()) for n, state in enumerate(states)]
        for w in writers:
            w.start()
        until(lambda: min(w.answered for w in writers) >= 50, "no answers")
        time.sleep(rng.random() * 1.3)  # a checkpoint comes after 1 s
        server.kill()
        for w in writers:
            w.join(60)
            assert not w.is_alive()
        last = max(w.began for w in writers)
        for state in states:
            state.before = float("inf") if persist == "write-through" else last - WINDOW_MS / 1000
        return sum(w.answered for w in writers)


def check_mode(persist):
    rng = random.Random(7)
    states = [State() for _ in range(CLIENTS)]
    for state in states:
        state.before = 0.0
    answered = 0
    with Folder() as folder:
        for _ in range(KILLS):
            answered += one_kill(folder, persist, states, rng)
        with start(folder, persist) as server:
            check_all(server, states)
            server.stop()
    print("%s: %d kills, %d changes acknowledged" % (persist, KILLS, answered))


for mode in ("write-through", "write-back"):
    check_mode(mode)
