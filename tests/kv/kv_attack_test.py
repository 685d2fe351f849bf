#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""kv_attack_test.py FATHOM: `fathom kv serve` against clients and surroundings that are bad to it.

1,000 connections of which half are slow or broken, requests made to hurt, flash that is full, fails or
is slow, limits of the system, signals. The server stays up, its memory is bounded, well-behaved
clients get right answers, and it says what went wrong.
"""
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from kv_fixture import WAIT_S, Client, Folder, Server, fail, until

FATHOM = sys.argv[1]
with open(FATHOM, "rb") as program:
    SANITIZED = b"__asan_init" in (image := program.read()) or b"__tsan_init" in image
MIB = 1 << 20
HELD = 160 * MIB  # what slow connections may hold: WORKER_MAX of one worker, and some more
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset


def check_memory(server, before, what):
    grown = server.memory() - before
    if grown > HELD and not SANITIZED:
        fail("%s: %d MiB more than before" % (what, grown >> 20))


def check_serves(server):
    with server.dial() as c:
        if c.set(b"alive", b"yes") != b"STORED" or c.get(b"alive") != b"yes":
            fail("the server does not serve")


# ---- 1,000 connections ----


def value_of(who, turn):
    text = b"%d/%d;" % (who, turn)
    return text * (1 + (who * 37 + turn * 211) % 400)


def misbehave(port, i):
    """A connection that is bad in one of many ways; None if it is closed already."""
    s = socket.create_connection(("127.0.0.1", port), 60)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.sendall((b"set a 0 0 1000000\r\nonly this",
               b"get ",
               b"set a 0 0 99999999999\r\n",
               b"x" * 5000,
               b"mg a v\r\nms c 5\r\n12345678\r\n",
               b"get " + b" ".join(b"c%d-%d" % (i * 7 + k, k % 4) for k in range(80)) + b"\r\n",
               b"".join(b"get c%d-%d\r\n" % (i + k, k % 4) for k in range(300)))[i % 7])
    if i % 3 == 0:  # with reads in flight
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        s.close()
        return None
    return s


def behave(clients, first, turn):
    """Each stores and reads back; then reads what another one has stored: that or nothing."""
    for i, c in enumerate(clients):
        who = first + i
        value = value_of(who, turn)
        other = b"c%d-%d" % ((who * 13 + turn) % 500, turn % 4)
        c.send(b"set c%d-%d %d 0 %d\r\n%s\r\nget c%d-%d\r\nget %s\r\n" %
               (who, turn % 4, who, len(value), value, who, turn % 4, other))
    for i, c in enumerate(clients):
        who = first + i
        value = value_of(who, turn)
        assert c.line() == b"STORED"
        assert c.line() == b"VALUE c%d-%d %d %d" % (who, turn % 4, who, len(value))
        assert c.file.read(len(value) + 2) == value + b"\r\n"
        assert c.line() == b"END"
        other = (who * 13 + turn) % 500
        head = c.line()
        if head != b"END":
            words = head.split()
            assert words[:3] == [b"VALUE", b"c%d-%d" % (other, turn % 4), b"%d" % other], head
            got = c.file.read(int(words[3]) + 2)[:-2]
            assert got in (value_of(other, turn), value_of(other, turn - 4)), (head, got[:40])
            assert c.line() == b"END"


def test_crowd():
    with Server(FATHOM, "--memory", "8M", "--flash", "delay(mem:64M)?read_us=1000",
                "--connections", "1500") as server:
        before = server.memory()
        bad = [misbehave(server.port, i) for i in range(500)]
        good = [server.dial() for _ in range(500)]
        for turn in range(4, 10):
            behave(good, 0, turn)
            for i in range(turn, 500, 10):  # more that come and go
                if bad[i]:
                    bad[i].close()
                bad[i] = misbehave(server.port, i + turn)
        check_memory(server, before, "1,000 connections")
        if server.stat("curr_connections") < 500:
            fail("connections were lost")
        for c in good + [b for b in bad if b]:
            c.close()
        server.stop()


# ---- memory ----


def test_slow_readers():
    """1,000 ask for 10 MB each and read nothing."""
    with Server(FATHOM, "--memory", "8M", "--flash", "mem:64M", "--workers", "1") as server:
        with server.dial() as c:
            for i in range(40):
                assert c.set(b"b%d" % i, b"%05d" % i * 200000) == b"STORED"
            before = server.memory()
            slow = []
            for i in range(900):
                s = socket.create_connection(("127.0.0.1", server.port), 60)
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                s.sendall(b"".join(b"get b%d\r\n" % ((i + k) % 40) for k in range(10)))
                slow.append(s)
                if i % 100 == 0:
                    check_memory(server, before, "readers that do not read")
            until(lambda: c.stat("slow_kicks") > 0, "no slow connection was closed")
            check_memory(server, before, "readers that do not read")
            assert c.get(b"b7") == b"00007" * 200000
            check_memory(server, before, "readers that do not read")
        for s in slow:
            s.close()
        server.stop()


def test_slow_writers():
    """500 send most of a value and stop."""
    with Server(FATHOM, "--memory", "8M", "--flash", "mem:64M", "--workers", "1") as server:
        before = server.memory()
        slow = []
        for i in range(500):
            s = socket.create_connection(("127.0.0.1", server.port), 60)
            s.settimeout(5)
            try:
                s.sendall(b"set w%d 0 0 1000000\r\n" % i + b"w" * 900000)
            except OSError:
                pass  # closed, or not read from
            slow.append(s)
        check_memory(server, before, "values that do not end")
        check_serves(server)
        if server.stat("slow_kicks") == 0:
            fail("no slow connection was closed")
        for s in slow:
            s.close()
        server.stop()


# ---- requests ----


def test_hostile_requests():
    with Server(FATHOM, "--memory", "8M", "--flash", "mem:64M") as server:
        before = server.memory()
        for data in (b"get " + b"k" * (8 * MIB), b"x" * (8 * MIB), b"\x00" * (4 * MIB),
                     b"set k 0 0 18446744073709551615\r\n", b"set k 0 0 -9223372036854775808\r\n",
                     b"set k 0 0 9223372036854775807\r\nabc\r\n", b"\r\n" * 100000,
                     b"get " + b"k " * 200000 + b"\r\n", b"ms k 1 " + b"q " * 100000,
                     b"incr k 99999999999999999999999\r\n", b"verbosity " * 1000 + b"\r\n",
                     b"\x80" + b"\x00" * 23, b"\x80\x01\xff\xff" + b"\xff" * 20):
            s = socket.create_connection(("127.0.0.1", server.port), 60)
            reader = threading.Thread(target=read_all, args=(s,))
            reader.start()
            try:
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the server has closed: its right
            reader.join(60)
            assert not reader.is_alive()
            s.close()
        with server.dial() as c:
            c.send(b"delete nosuch noreply\r\n" * 500000 + b"set n 0 0 1 noreply\r\nx\r\n" * 100000)
            assert c.ask(b"mn\r\n") == b"MN"
        check_serves(server)
        check_memory(server, before, "hostile requests")
        server.stop()


def read_all(s):
    try:
        while s.recv(65536):
            pass
    except OSError:
        pass


# ---- flash ----


def fill(c, count, size=100000):
    """Values that tell their key; not all of them can be kept. How many were stored."""
    stored = 0
    for i in range(count):
        answer = c.set(b"f%d" % i, (b"%06d" % i) * (size // 6))
        if answer != b"STORED" and not answer.startswith(b"SERVER_ERROR"):
            fail("set: %s" % answer)
        stored += answer == b"STORED"
    return stored


def check_values(c, count, size=100000):
    hits = 0
    for i in range(count):
        value = c.get(b"f%d" % i)
        if value is not None and value != (b"%06d" % i) * (size // 6):
            fail("a wrong value of f%d" % i)
        hits += value is not None
    return hits


def test_bad_flash():
    for flash, arguments, event in (
            ("mem:32M", (), None),  # full: the oldest items go
            ("mem:32M", ("--persist", "write-back"), None),
            ("delay(mem:64M)?read_us=3000&write_us=20000", (), None),
            ("fault(mem:64M)?kind=read&nth=20&every=3", (), "flash-error"),
            ("fault(mem:64M)?kind=write&nth=8&every=1", (), "flash-error"),
            ("fault(mem:64M)?kind=write&nth=40&every=1", ("--persist", "write-through"),
             "flash-error"),
            ("fault(mem:64M)?kind=flush&nth=5&every=1", ("--persist", "write-back"),
             "flash-error")):
        with Server(FATHOM, "--memory", "8M", "--flash", flash, "--log", "json",
                    *arguments) as server:
            with server.dial() as c:
                before = server.memory()
                stored = fill(c, 600)
                hits = check_values(c, 600)
                check_memory(server, before, flash)
                if stored == 0 or hits == 0:
                    fail("%s: %d stored, %d found" % (flash, stored, hits))
                assert c.ask(b"mn\r\n") == b"MN"
            if event:
                until(lambda: '"event":"%s"' % event in server.errors(), flash + ": no word of it")
            server.process.terminate()
            server.process.wait(60)


def test_full_disk():
    """The file system has less room than the file says: writes fail, the server does not."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (24 * MIB, 24 * MIB))

    with Folder() as folder:
        for size, persist in (("64M", "off"), ("16M", "write-back")):
            with Server(FATHOM, "--memory", "8M", "--flash", folder.flash("full" + size, size),
                        "--persist", persist, wait=False, preexec_fn=limit) as server:
                if size == "64M":  # larger than a file may be
                    if server.process.wait(60) != 1 or "File too large" not in server.errors():
                        fail("a file that is too large: %d, %s" %
                             (server.process.returncode, server.errors()))
                    continue
                server.wait_ready()
                check_serves(server)
                server.stop()
        # A sparse file that cannot grow: made before the limit.
        path = folder.file("sparse")
        with open(path, "wb") as f:
            f.truncate(64 * MIB)
        with Server(FATHOM, "--memory", "8M", "--flash", "file:" + path, "--log", "text",
                    preexec_fn=limit) as server:
            with server.dial() as c:
                fill(c, 600)
                check_values(c, 600)
            until(lambda: "writes failed" in server.errors(), "a full disk: no word of it")
            check_serves(server)
            server.process.terminate()
            server.process.wait(60)


# ---- surroundings ----


def run(arguments, program=FATHOM, **popen):
    p = subprocess.run([program, "kv", "serve", "--listen", "127.0.0.1:0", *arguments],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=WAIT_S, **popen)
    return p.returncode, p.stderr.decode()


def expect_error(arguments, texts, **popen):
    """The server ends with status 1 and says `texts`, or one of them."""
    status, errors = run(arguments, **popen)
    if isinstance(texts, str):
        texts = (texts,)
    if status != 1 or not any(text in errors for text in texts):
        fail("%s: status %d: %s" % (arguments, status, errors))


def test_no_start():
    def other_user():
        os.setgroups([])
        os.setuid(65534)

    with Folder() as folder:
        path = folder.file("secret")
        with open(path, "wb") as f:
            f.truncate(64 * MIB)
        os.chmod(path, 0)
        os.chmod(folder.path, 0o755)
        if os.getuid() == 0:
            # That user may not be able to enter the folder of the build.
            program = shutil.copy(FATHOM, folder.file("fathom"))
            os.chmod(program, 0o755)
            expect_error(["--flash", "file:" + path], path + ": Permission denied",
                         program=program, preexec_fn=other_user)
        else:
            expect_error(["--flash", "file:" + path], path + ": Permission denied")
        expect_error(["--flash", "file:/nonexistent/x?create=on&size=64M"], "/nonexistent/x")
        expect_error(["--flash", folder.flash("small", "64K")], "too small")
        with open(folder.file("text"), "wb") as f:
            f.write(b"not a cache " * 100000)
        expect_error(["--flash", "file:" + folder.file("text")], "")
        if not SANITIZED:
            # Which of the two comes first depends on the size of the program, so on its build.
            for mib in (40, 70, 100):
                expect_error(["--memory", "64M", "--flash", folder.flash("a")],
                             ("no memory for", "cannot start"),
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS,
                                                                   (mib * MIB, mib * MIB)))
        with Server(FATHOM, "--flash", folder.flash("one")) as server:
            expect_error(["--wait", "0", "--flash", "file:" + folder.file("one")], "in use")
            expect_error(["--wait", "0", "--listen", "127.0.0.1:%d" % server.port], "in use")
            check_serves(server)
            server.stop()


def test_closed_descriptors():
    """What a missing standard descriptor would have gone to must not be the flash."""
    with Folder() as folder:
        for fds in ((0,), (2,), (0, 1, 2)):
            flash = folder.flash("closed%d" % len(fds))
            listener = socket.socket()
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
            listener.close()
            process = subprocess.Popen(
                [FATHOM, "kv", "serve", "--listen", "127.0.0.1:%d" % port, "--memory", "8M",
                 "--flash", flash, "--persist", "write-back", "--log", "text"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                preexec_fn=lambda: [os.close(fd) for fd in fds])
            until(lambda: can_dial(port), "closed descriptors %s: it does not listen" % (fds,))
            with Client(port) as c:
                fill(c, 100)
            process.terminate()
            process.communicate(timeout=WAIT_S)
            with Server(FATHOM, "--flash", flash, "--persist", "write-back") as server:
                if not server.report["clean"] or server.report["items"] != 100:
                    fail("closed descriptors %s: %s" % (fds, server.report))
                with server.dial() as c:
                    assert check_values(c, 100) == 100
                server.stop()


def can_dial(port):
    try:
        Client(port).close()
        return True
    except OSError:
        return False


def test_few_descriptors():
    with Server(FATHOM, "--memory", "8M", "--flash", "none", preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_NOFILE, (64, 64))) as server:
        many = [socket.create_connection(("127.0.0.1", server.port), 60) for _ in range(100)]
        with_answer = 0
        for s in many[:30]:
            s.sendall(b"mn\r\n")
            with_answer += s.recv(10) == b"MN\r\n"
        assert with_answer == 30
        for s in many:
            s.close()
        check_serves(server)
        server.stop()


# ---- signals ----


def load(port, over, stored):
    try:
        with Client(port) as c:
            i = 0
            while not over.is_set():
                if c.set(b"l%d" % (i % 2000), b"%d;" % i * 300) != b"STORED":
                    return
                stored[i % 2000] = i
                i += 1
    except (OSError, AssertionError):
        pass


def test_term_under_load():
    """SIGTERM while a client writes: status 0, and all that was acknowledged is there."""
    with Folder() as folder:
        flash = folder.flash("term")
        stored = {}
        for _ in range(3):
            with Server(FATHOM, "--memory", "8M", "--flash", flash, "--persist",
                        "write-back") as server:
                over = threading.Event()
                thread = threading.Thread(target=load, args=(server.port, over, stored))
                already = dict(stored)
                thread.start()
                until(lambda: stored != already and len(stored) > 500, "nothing is stored")
                server.stop()
                over.set()
                thread.join(60)
            with Server(FATHOM, "--memory", "8M", "--flash", flash, "--persist",
                        "write-back") as server:
                assert server.report["clean"]
                with server.dial() as c:
                    for k, i in stored.items():
                        got = c.get(b"l%d" % k)
                        # One more may have been stored whose answer did not arrive.
                        if got not in (b"%d;" % i * 300, b"%d;" % (i + 2000) * 300):
                            fail("l%d after SIGTERM: %s" % (k, got and got[:20]))
                server.stop()


def test_term_while_starting():
    """A signal that comes early, while the log is replayed, does no harm."""
    with Folder() as folder:
        flash = folder.flash("early")
        with Server(FATHOM, "--memory", "8M", "--flash", flash, "--persist", "write-through",
                    "--checkpoint", "0") as server:
            with server.dial() as c:
                fill(c, 300)
            server.kill()
        for n in range(5):
            with Server(FATHOM, "--memory", "8M", "--flash", flash, "--persist", "write-through",
                        wait=False) as server:
                time.sleep(0.004 * n)
                server.process.send_signal(signal.SIGTERM)
                status = server.process.wait(60)
                if status not in (0, -signal.SIGTERM):  # before or after it is caught
                    fail("SIGTERM while starting: %d %s" % (status, server.errors()))
        with Server(FATHOM, "--memory", "8M", "--flash", flash, "--persist",
                    "write-through") as server:
            with server.dial() as c:
                assert check_values(c, 300) == 300
            server.stop()


def main():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        print("skipped: at most %d descriptors" % hard)
        sys.exit(77)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    for name, test in list(globals().items()):
        if name.startswith("test_") and (len(sys.argv) < 3 or name in sys.argv[2:]):
            begin = time.monotonic()
            test()
            print("%s: %.1f s" % (name, time.monotonic() - begin), flush=True)


main()
