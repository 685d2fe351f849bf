#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""flat_run_fork_test.py FATHOM PROGRAM: children of fork() under `fathom flat run` have the memory as of the fork.

PROGRAM is flat_run_fork.c: parents, children and grandchildren change all of their memory at the same time, end in any order, or are
killed. redis-server saves in a child while its data changes; Python's multiprocessing makes its workers by fork()."""
import os
import shutil
import subprocess
import sys

from flat_run_fixture import FATHOM, LONG, PROGRAM, Redis, device, expect, expect_ok, fail, flat, main, plain, say, work

TOPICS = ["reads", "stores", "several", "grandchild", "uses", "allocates", "threads", "kills", "cancelled", "descriptors", "limit",
          "wiped"]
on_disk = ["--memory", "4M", "--size", "256M", "--flash", work]
# in memory if possible: it is the mechanism that is tested, and a disk takes long
memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) and shutil.disk_usage("/dev/shm").free > 512 << 20 else work
scratch = on_disk[:-1] + [memory]


def test_topics():
    for topic in TOPICS:
        expect_ok(f"{topic}, without Fathom", plain([PROGRAM, topic]))
        expect_ok(topic, flat(scratch, [PROGRAM, topic]))
    for topic in TOPICS if LONG else ["reads"]:
        expect_ok(f"{topic}, on a disk", flat(on_disk, [PROGRAM, topic]))
    for policy in ["counters", "never"] if LONG else ["counters"]:
        expect_ok(f"stores, {policy}", flat([*scratch, "--policy", policy], [PROGRAM, "stores"]))
    expect_ok("code", flat([*scratch, "--policy", "never"], [PROGRAM, "code"]))
    for page, dram, mib, topic in [("64K", "4M", "12", "stores"), ("2M", "128M", "200", "reads")]:
        for topic in ["stores", "threads", "grandchild"] if LONG else [topic]:
            options = [*scratch, "--page", page, "--memory", dram, "--size", "256M"]
            expect_ok(f"{topic}, pages of {page}", flat(options, [PROGRAM, topic, mib]))
    done = flat(scratch, [PROGRAM, "hard-limit"])
    expect(done.returncode == 0 and done.stdout == b"child: stopped\nok\n", "a limit that cannot be raised", done)
    expect(b"a child of fork() used a flat region of its parent" in done.stderr, "no explanation", done)


def test_ends():
    """Children that outlive their parent, or what it was."""
    done = flat(scratch, [PROGRAM, "orphan"])
    expect(done.returncode == 0 and sorted(done.stdout.split(b"\n")) == [b"", b"ok", b"orphan: right"], "orphan", done)
    done = flat(scratch, [PROGRAM, "becomes"])
    expect(done.returncode == 0 and sorted(done.stdout.split(b"\n")) == [b"", b"child: right", b"ok"], "becomes", done)


def test_stop():
    """Where the region is no scratch file, or if it is wanted so, such a child is stopped."""
    for options in [["--memory", "4M", "--flash", device], [*scratch, "--fork", "stop"]]:
        done = flat(options, [PROGRAM, "full"])
        expect(done.returncode == 0 and done.stdout == b"child: stopped\nok\n", f"stop: {options}", done)
        expect(b"a child of fork() used a flat region of its parent" in done.stderr, "no explanation", done)
    for options, text in [(["--fork", "share"], b"--fork share is neither copy nor stop"),
                          (["--fork", "copy", "--flash", device], b"--fork copy needs a scratch file")]:
        done = flat(options, ["true"])
        expect(done.returncode == 1 and text in done.stderr, f"{options}", done)


def test_full():
    """A parent that needs all of the disk goes on, and its child is stopped with a message."""
    small = os.path.join(work, "small")
    os.mkdir(small)
    if os.getuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=11M", "none", small],
                                          capture_output=True).returncode != 0:
        say("no small file system to be had: a full disk is left out")
        return
    try:
        done = flat(["--memory", "4M", "--flash", small, "--size", "64M"], [PROGRAM, "full"])
    finally:
        subprocess.run(["umount", "-l", small])
    expect(done.returncode == 0 and done.stdout == b"child: stopped\nok\n", "full disk", done)
    expect(b"the disk of the scratch file is full: a child of fork() is stopped" in done.stderr, "full disk", done)
    done = flat(["--memory", "4M", "--flash", work, "--size", "64M"], [PROGRAM, "full"])
    expect(done.returncode == 0 and done.stdout == b"child: as of the fork\nok\n", "a disk with room", done)


def test_multiprocessing():
    script = """
import multiprocessing, sys
multiprocessing.set_start_method("fork")
big = bytearray(8 << 20)
for i in range(0, len(big), 4096):
    big[i] = i // 4096 % 251
def work(k):
    mine = range(k * 4096, len(big), 3 * 4096)
    n = sum(big[i] for i in mine)
    for i in mine:
        big[i] = 0  # its own
    return n
with multiprocessing.Pool(3) as pool:
    print(pool.map(work, range(3)), sum(big))
queue = multiprocessing.Queue()
process = multiprocessing.Process(target=lambda: queue.put(sum(big)))
process.start()
print(queue.get())
process.join()
print(process.exitcode, sum(big))
"""
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    without, done = plain([python, "-c", script]), flat(on_disk, [python, "-c", script])
    expect(without.returncode == 0, "multiprocessing, without Fathom", without)
    expect(done.returncode == 0 and done.stdout == without.stdout, "multiprocessing", done)


def test_redis():
    if not shutil.which("redis-server"):
        say("redis-server is not here: left out")
        return
    records = 20000 if LONG else 6000
    debug = ["--enable-debug-command", "yes"]
    server = Redis(["--memory", "5M", "--size", "512M", "--flash", memory], debug)
    if b"ERR" in server.ask(b"DEBUG", b"DIGEST"):
        fail("redis-server has no DEBUG DIGEST")
    server.fill(records, lambda i: b"%07d " % i * 128)
    for save in range(2):
        digest = server.ask(b"DEBUG", b"DIGEST")
        server.ask(b"BGSAVE")
        server.fill(records // 2, lambda i: b"%07d." % (i + save) * 128)
        text = server.wait_for_save()
        if b"rdb_last_bgsave_status:ok" not in text:
            fail(f"BGSAVE failed: {text}")
        if server.ask(b"DEBUG", b"DIGEST") == digest:
            fail("nothing changed during BGSAVE")
    server.end()
    # what was saved is what was there when BGSAVE began
    server = Redis(["--memory", "16M", "--size", "512M", "--flash", memory], debug)
    if server.ask(b"DEBUG", b"DIGEST") != digest or server.ask(b"DBSIZE") != b":%d" % records:
        fail("the dump of redis-server is not its data as of the fork")
    server.end()


def test_kill():
    """Program and children are killed at any moment: nothing stays."""
    for i in range(10 if LONG else 4):
        process = subprocess.Popen([FATHOM, "flat", "run", *on_disk, "--", PROGRAM, "kills"], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, cwd=work, start_new_session=True)
        try:
            process.wait(0.2 + 0.1 * i)
        except subprocess.TimeoutExpired:
            pass
        os.killpg(process.pid, 9)
        process.wait()
    if [name for name in os.listdir(work) if name.startswith("fathom-flat")]:
        fail(f"a scratch file stays: {os.listdir(work)}")


main([test_topics, test_ends, test_stop, test_full, test_multiprocessing, test_redis, test_kill])
