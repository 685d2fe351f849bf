#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""flat_run_test.py FATHOM PROGRAM: `fathom flat run` and `fathom flat stat`.

Programs as they are (sort, sqlite3, python3 with numpy) print the same with a quarter of the memory of their data as
without. PROGRAM is flat_run_program.c: system calls on cold pages, threads, signals, children. Then the ways a
program can end, and what cannot be run."""
import fcntl
import json
import os
import pty
import random
import shutil
import signal
import struct
import subprocess
import sys
import time

from flat_run_fixture import (FATHOM, LONG, MIB, PROGRAM, Redis, device, expect, expect_ok, fail, flat, main, plain, say,
                              work)


def figures(done):
    return json.loads(done.stderr.decode().strip().split("\n")[-1])


def same(name, program, options, stdin=b"", least=None):
    """The program's output and status are those without Fathom; `least` bytes were in the region."""
    without = plain(program, input=stdin)
    done = flat(["--json", *options], program, input=stdin)
    expect(without.returncode == 0, f"{name}, without Fathom", without)
    expect(done.stdout == without.stdout and done.returncode == 0, name, done)
    seen = figures(done)
    if least is not None:
        expect(seen["bytes_most"] >= least, f"{name}: too little in the region", done)
        expect(seen["misses"] > 0 and seen["write_backs"] > 0, f"{name}: nothing was moved", done)
    say(f"{name}: the same output; {seen['bytes_most'] >> 20} MiB in {seen['dram'] >> 20},"
        f" {seen['faults']} faults, {seen['calls_held']} system calls on the region")


# ---- programs as they are ----

def test_sort():
    rng = random.Random(1)
    lines = b"".join(b"%032x %d\n" % (rng.getrandbits(128), i) for i in range(400000 if LONG else 60000))
    same("sort", ["sort", "-S", "16M"], ["--memory", "4M", "--flash", device], lines, 16 * MIB)
    same("sort, on a file", ["sort", "-S", "16M", "--parallel=1"], ["--memory", "8M", "--flash", work],
         lines[:len(lines) // 3])


def test_sqlite():
    if not shutil.which("sqlite3"):
        say("sqlite3 is not here: left out")
        return
    rows = 100000 if LONG else 5000
    script = f"""
        PRAGMA cache_size = 100000;
        PRAGMA temp_store = MEMORY;
        CREATE TABLE t (id INTEGER PRIMARY KEY, word TEXT, n INT);
        WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < {rows})
          INSERT INTO t SELECT i, hex(i * 7919 % 99991) || printf('%0400d', i), i * 31 % 1009 FROM c;
        CREATE INDEX word ON t (word);
        SELECT n, count(*), max(word) FROM t GROUP BY n ORDER BY n LIMIT 20;
        SELECT sum(id) FROM t WHERE word > 'A';
        UPDATE t SET n = n + 1 WHERE id % 3 = 0;
        SELECT sum(n), count(DISTINCT word) FROM t;
        PRAGMA integrity_check;
    """.encode()
    # its pages are single allocations of a page and a bit
    same("sqlite3", ["sqlite3", ":memory:"], ["--memory", "4M", "--min-alloc", "4K", "--flash", device], script, 12 * MIB)


def python_with_numpy():
    for name in ["/usr/bin/python3", sys.executable]:
        if os.path.exists(name) and subprocess.run([name, "-c", "import numpy"], capture_output=True).returncode == 0:
            return name
    return None


def test_python():
    script = """
import hashlib, subprocess
d = {i: str(i) * 3 for i in range(30000)}
l = sorted(d.values())
print(len(d), l[:3], hashlib.sha256(''.join(l).encode()).hexdigest())
b = bytearray(12 << 20)
b[::4096] = b'x' * len(b[::4096])
print(hashlib.sha256(b).hexdigest())
print(subprocess.run(['echo', 'a child'], capture_output=True).stdout)
print(subprocess.run('echo another', shell=True, capture_output=True).stdout)
"""
    same("python3", ["/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable, "-c", script],
         ["--memory", "5M", "--flash", device], least=16 * MIB)
    name = python_with_numpy()
    if not name:
        say("numpy is not here: left out")
        return
    script = """
import numpy as np
rng = np.random.default_rng(1)
a = rng.random(%d)
b = a[::-1].copy()
print(a.sum(), (a * b).mean(), np.sort(a)[::10000], np.fft.rfft(a)[:3])
a[::513] = 7
print(np.unique(a.astype(np.float32)).size, np.where(a == 7)[0].sum())
m = rng.random((400, 400))
print(np.linalg.norm(m @ m))
""" % (2 << 20 if LONG else 256 << 10)
    same("numpy", [name, "-c", script], ["--memory", "4M", "--flash", device], least=14 * MIB)


def test_redis():
    if not shutil.which("redis-server"):
        say("redis-server is not here: left out")
        return
    records = 20000

    def value(i):
        return b"%07d " % i * 128

    server = Redis(["--memory", "6M", "--flash", device])
    server.fill(records, value)
    for i in random.Random(2).sample(range(records), 2000):
        if server.ask(b"GET", b"key%d" % i) != value(i):
            fail(f"redis-server has lost value {i}")
    # on a device its children cannot see the data: they stop, and the server goes on
    server.ask(b"BGSAVE")
    if b"rdb_last_bgsave_status:err" not in server.wait_for_save():
        fail("BGSAVE did not fail")
    error = server.end()
    seen = json.loads(error.decode().strip().split("\n")[-1])
    if b"a child of fork() used a flat region of its parent" not in error or seen["bytes_most"] < 24 * MIB or \
            seen["misses"] == 0:
        fail(f"redis-server: {error}")
    say(f"redis-server: {seen['bytes_most'] >> 20} MiB in 6, {seen['faults']} faults")


# ---- what programs do ----

def test_topics():
    for topic in ["calls", "allocation", "threads", "signals", "children", "other-uses", "closes"]:
        expect_ok(f"{topic}, without Fathom", plain([PROGRAM, topic]))
        done = flat(["--json", "--memory", "8M", "--flash", device], [PROGRAM, topic])
        expect_ok(topic, done)
        expect(figures(done)["bytes_most"] > 0, f"{topic}: nothing in the region", done)
    for policy in ["counters", "paper"] + (["never"] if LONG else []):
        expect_ok(f"policy {policy}", flat(["--memory", "8M", "--flash", device, "--policy", policy], [PROGRAM, "calls"]))
    say("system calls, threads, signals, children")


def test_fork():
    done = flat(["--memory", "8M", "--flash", device], [PROGRAM, "child-access"])
    expect(done.returncode == 0 and done.stdout == b"child: stopped\nok\n", "a child's access", done)
    expect(b"a child of fork() used a flat region of its parent" in done.stderr, "no explanation", done)


def test_endings():
    done = flat(["--flash", device], [PROGRAM, "exit"])
    expect(done.returncode == 42, "exit status", done)
    done = flat(["--flash", device], [PROGRAM, "raise"])
    expect(done.returncode == -signal.SIGTERM, "death by a signal", done)
    done = flat(["--flash", device], [PROGRAM, "wild"])
    expect(done.returncode == -signal.SIGSEGV, "death by a wild pointer", done)
    expect(b"fork" not in done.stderr, "a wild pointer is explained by a fork", done)
    done = flat(["--flash", device], ["sh", "-c", "kill -BUS $$"])
    expect(done.returncode == -signal.SIGBUS, "SIGBUS from outside", done)
    done = flat(["--flash", device, "--output", "figures", "--json"], [PROGRAM, "exit"])
    expect(done.stderr == b"", "figures in two places", done)
    with open(os.path.join(work, "figures")) as file:
        if json.load(file)["bytes_most"] < 48 * MIB:
            fail("--output has no figures")
    # without standard input and output
    done = subprocess.run(["sh", "-c", '"$0" flat run --flash mem:64M -- "$1" exit <&- >&-', FATHOM, PROGRAM],
                          stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=work)
    if done.returncode != 42:
        fail(f"closed streams: {done.returncode} {done.stderr}")
    done = subprocess.run(["sh", "-c", '"$0" flat run --flash mem:64M -- cat <&- >&-', FATHOM],
                          stderr=subprocess.PIPE, cwd=work)
    if done.returncode != 1 or b"Bad file descriptor" not in done.stderr:
        fail(f"cat with closed streams: {done.returncode} {done.stderr}")


def start_waiting(**kwargs):
    process = subprocess.Popen([FATHOM, "flat", "run", "--memory", "8M", "--flash", work, "--", PROGRAM, "waits"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=work, **kwargs)
    if process.stdout.readline() != b"ready\n":
        fail(f"it does not start: {process.communicate()}")
    return process


def test_stat_and_signals():
    process = start_waiting()
    stat = subprocess.run([FATHOM, "flat", "stat", "--json"], capture_output=True)
    mine = [json.loads(line) for line in stat.stdout.splitlines()]
    mine = [one for one in mine if one["program"] == "flat_run_program" and f"/{process.pid}/" in one["device"]]
    expect(len(mine) == 1 and mine[0]["bytes"] == 48 * MIB, "flat stat", stat)
    pid = mine[0]["pid"]
    before = mine[0]["faults"]
    deadline = time.time() + 60
    while before == json.loads(subprocess.run([FATHOM, "flat", "stat", "--json", str(pid)], capture_output=True,
                                              check=True).stdout)["faults"]:
        if time.time() > deadline:
            fail("the figures of flat stat do not change")
    text = subprocess.run([FATHOM, "flat", "stat", str(pid)], capture_output=True)
    expect(b"flat_run_program (process %d), 48.0 MiB in 8.0 MiB" % pid in text.stdout, "flat stat", text)
    other = subprocess.run([FATHOM, "flat", "stat", str(os.getpid())], capture_output=True)
    expect(other.returncode == 1 and b"was not started by" in other.stderr, "flat stat of another", other)
    other = subprocess.run([FATHOM, "flat", "stat", "nonsense"], capture_output=True)
    expect(other.returncode == 2, "flat stat nonsense", other)
    # a signal to the launcher reaches the program; figures are printed all the same
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=600)
    if process.returncode != -signal.SIGTERM or b"48.0 MiB at most" not in err:
        fail(f"SIGTERM: {process.returncode} {err}")
    # kill -9 of the program, and of both: nothing stays
    process = start_waiting()
    children = f"/proc/{process.pid}/task/{process.pid}/children"
    with open(children) as file:
        os.kill(int(file.read()), signal.SIGKILL)
    process.communicate(timeout=600)
    if process.returncode != -signal.SIGKILL:
        fail(f"SIGKILL: {process.returncode}")
    process = start_waiting()
    with open(children.replace(children.split("/")[2], str(process.pid))) as file:
        child = int(file.read())
    os.kill(process.pid, signal.SIGKILL)
    os.kill(child, signal.SIGKILL)
    process.communicate(timeout=600)
    if [name for name in os.listdir(work) if name.startswith("fathom-flat")]:
        fail(f"a scratch file stays: {os.listdir(work)}")


def test_terminal():
    """Ctrl-C, and the line of --progress."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(work)
        os.execv(FATHOM, [FATHOM, "flat", "run", "--memory", "8M", "--progress", "--flash", device, "--", PROGRAM, "waits"])
    text = b""
    deadline = time.time() + 120
    while b"faults," not in text or b"ready" not in text:
        text += os.read(terminal, 4096)
        if time.time() > deadline:
            fail(f"no progress: {text}")
    os.write(terminal, b"\x03")
    try:
        while True:
            more = os.read(terminal, 4096)
            if not more:
                break
            text += more
    except OSError:
        pass
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGINT or b"at most" not in text:
        fail(f"Ctrl-C: {status} {text[-500:]}")


# ---- what cannot be ----

def refuse(what, options, program, text, status=1, **kwargs):
    done = flat(options, program, **kwargs)
    expect(done.returncode == status and text in done.stderr and done.stdout == b"", what, done)
    if done.stderr.count(b"\n") != 1:
        fail(f"{what}: more than a line: {done.stderr}")


def elf(name, segments=b"", count=0, machine=62, mode=0o755):
    """A program that cannot run, but looks like one."""
    path = os.path.join(work, name)
    header = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0, 64, 0, 0, 64, 56, count, 0, 0, 0)
    with open(path, "wb") as file:
        file.write(header + segments)
    os.chmod(path, mode)
    return path


def test_refusals():
    refuse("missing program", [], ["/nonexistent/program"], b"cannot start /nonexistent/program: No such file")
    refuse("missing program", [], ["no-such-program"], b"cannot start no-such-program: No such file")
    refuse("a folder", [], ["/tmp"], b"cannot start /tmp: Permission denied")
    refuse("static", [], [elf("static")], b"is statically linked", 77)
    refuse("other processor", [], [elf("other", machine=183)], b"is not an x86-64 program", 77)
    linker = b"/lib/ld-musl-x86_64.so.1\0"
    segment = struct.pack("<IIQQQQQQ", 3, 4, 64 + 56, 0, 0, len(linker), len(linker), 1) + linker
    refuse("another C library", [], [elf("musl", segment, 1)], b"not that of glibc", 77)
    script = os.path.join(work, "script")
    with open(script, "w") as file:
        file.write(f"#!{elf('interpreter')}\n")
    os.chmod(script, 0o755)
    refuse("script", [], [script], b"interpreter is statically linked", 77)
    if os.getuid() == 0:
        path = elf("setuid", mode=0o755)
        os.chown(path, 1, 1)
        os.chmod(path, 0o4755)
        refuse("setuid", [], [path], b"is setuid or setgid", 77)
    refuse("missing folder", ["--flash", "/nonexistent/scratch"], ["true"], b"/nonexistent/scratch: No such file")
    refuse("existing file", ["--flash", script], ["true"], b"exists; --force overwrites it")
    existing = os.path.join(work, "existing")
    with open(existing, "wb") as file:
        file.truncate(64 * MIB)
    done = flat(["--flash", existing, "--force", "--memory", "4M"], [PROGRAM, "exit"])
    expect(done.returncode == 42 and os.path.getsize(existing) == 64 * MIB, "an existing file", done)
    # not while somebody else has it; and the file of that name, not that of the name as a URI
    with open(existing, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for name in [existing, f"file:{existing}"]:
            refuse("a locked file", ["--flash", name, "--force"], ["true"], b"in use by another process")
    # the same rule for a path and for a URI, however deep in it the file is
    with open(existing, "r+b") as file:
        file.write(b"precious")
    for uri in [f"file:{existing}", f"fault(delay(file:{existing}))"]:
        refuse("an existing file by URI", ["--flash", uri], ["true"], b"exists; --force overwrites it")
    with open(existing, "rb") as file:
        expect(file.read(8) == b"precious", "an existing file by URI", done)
    done = flat(["--flash", f"file:{existing}", "--force", "--memory", "4M"], [PROGRAM, "exit"])
    expect(done.returncode == 42, "an existing file by URI, with --force", done)
    done = flat(["--flash", f"file:{existing}.new?create=on&size=64M", "--memory", "4M"], [PROGRAM, "exit"])
    expect(done.returncode == 42, "a new file by URI", done)
    os.remove(f"{existing}.new")
    # and for an object of a volume
    disk = os.path.join(work, "disk")
    with open(disk, "wb") as file:
        file.truncate(96 << 20)
    for command in [["create", f"file:{disk}"], ["new", f"file:{disk}", "heap", "64M"]]:
        subprocess.run([FATHOM, "vol", *command], check=True, stdout=subprocess.DEVNULL)
    refuse("an object", ["--flash", f"vol(file:{disk})?object=heap"], ["true"], b"exists; --force overwrites it")
    done = flat(["--flash", f"vol(file:{disk})?object=heap", "--force", "--memory", "4M"], [PROGRAM, "exit"])
    expect(done.returncode == 42, "an object, with --force", done)
    os.remove(disk)
    odd, other = os.path.join(work, "odd%41?"), os.path.join(work, "oddA")
    os.rename(existing, odd)
    with open(other, "wb") as file:
        file.write(b"other" * MIB)
    done = flat(["--flash", odd, "--force", "--memory", "4M"], [PROGRAM, "exit"])
    expect(done.returncode == 42 and os.path.getsize(odd) == 64 * MIB, "a name with %", done)
    with open(other, "rb") as file:
        expect(file.read() == b"other" * MIB, "another file", done)
    os.remove(odd)
    os.remove(other)
    refuse("missing device", ["--flash", "file:/nonexistent"], ["true"], b"/nonexistent")
    refuse("policy", ["--policy", "best"], ["true"], b"--policy best: expected counters, paper, always or never")
    refuse("too little address space", ["--flash", "mem:64M", "--memory", "32M"], ["true"], b"flat run: ",
           preexec_fn=lambda: __import__("resource").setrlimit(__import__("resource").RLIMIT_AS, (80 * MIB, 80 * MIB)))
    done = flat(["--memory", "1K"], ["true"])
    expect(done.returncode == 2, "--memory 1K", done)
    # a region that is too small: the program is told so
    done = flat(["--flash", work, "--size", "8M", "--memory", "4M"], [PROGRAM, "exit"])
    expect(done.returncode == 1 and b"refused       1 allocations" in done.stderr, "a region that is full", done)


def test_advice():
    """A program that thrashes is told what would help; others are not."""
    script = "b = bytearray(16 << 20)\nfor k in range(%d):\n  for i in range(0, len(b), 4096): b[i] = k\n"
    for rounds, dram, wanted in [(12, "4M", True), (1, "4M", False), (12, "64M", False)]:
        done = flat(["--memory", dram, "--flash", device], [sys.executable, "-c", script % rounds])
        expect(done.returncode == 0 and (b"times on average; a --memory" in done.stderr) == wanted, "advice", done)


def test_errors():
    """Pages that cannot be written: a message and SIGBUS, not a hang."""
    done = flat(["--memory", "4M", "--flash", "fault(mem:128M)?kind=write&nth=100&every=1"], [PROGRAM, "exit"])
    expect(done.returncode == -signal.SIGBUS, "failing writes", done)
    expect(b"cannot read or write a page of fault(mem:128M)" in done.stderr, "failing writes", done)
    small = os.path.join(work, "small")
    os.mkdir(small)
    if os.getuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16M", "none", small],
                                          capture_output=True).returncode != 0:
        say("no small file system to be had: a full disk is left out")
        return
    try:
        done = flat(["--memory", "4M", "--flash", small, "--size", "128M"], [PROGRAM, "exit"])
    finally:
        subprocess.run(["umount", "-l", small])
    expect(done.returncode == -signal.SIGBUS and b"No space left on device" in done.stderr, "full disk", done)


main([test_topics, test_fork, test_endings, test_stat_and_signals, test_terminal, test_refusals, test_errors, test_advice, test_sort,
      test_sqlite, test_python, test_redis])
