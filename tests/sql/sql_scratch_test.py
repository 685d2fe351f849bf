#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""sql_scratch_test.py FATHOM: temporary files of queries that do not fit into memory.

Groups, sorts and distinct values that spill give the same rows as in plenty of memory. Without space for it the query
ends with an error that says so: a limit, and a file system that is really full (where tmpfs can be mounted). A result
that is larger than that space is no reason to fail. Ctrl-C and kill -9 in the middle of a spill leave nothing behind:
stages of it are told by the bytes that the process has moved. FTH_LONG_TESTS tries many more stages, and sizes of that space.
"""
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

FATHOM = sys.argv[1]
ROWS = 150000
SMALL = ["--memory", "8M", "--threads", "2"]
SPILLING = {
    "groups": "select count(*), sum(n), min(m) from (select k, min(s) as m, count(*) as n from t group by k) g",
    "groups of texts": "select count(*), max(m) from (select s, max(k) as m from t group by s) g",
    "sort": "select k, s from t order by s, k",
    "distinct": "select k % 1000, count(distinct s) from t group by 1 order by 1",
}
# Runs long enough to be stopped in the middle.
LONG = "select s, k from large order by 1, 2"
# Queries that are stopped at several stages.
MANY = "large" if os.environ.get("FTH_LONG_TESTS") else "t"
STAGED = {
    "groups": f"select count(*), sum(n), min(m) from (select k, min(s) as m, count(*) as n from {MANY} group by k) g",
    "groups of texts": f"select count(*), max(m) from (select s, max(k) as m from {MANY} group by s) g",
    "sort": f"select k, s from {MANY} order by s, k limit 5 offset 100000",
    "distinct": f"select k % 1000, count(distinct s) from {MANY} group by 1 order by 1",
    "join": "select count(*), max(a.s), min(b.k) from t a join t b on a.s = b.s",
    "join of groups": "select count(*), min(a.s) from (select s, count(*) as n from t group by s) a join t b on a.s = b.s",
}
STAGES = 18 if os.environ.get("FTH_LONG_TESTS") else 1


def fail(text):
    print("sql_scratch_test:", text, file=sys.stderr)
    sys.exit(1)


def run(db, script, *options):
    return subprocess.run([FATHOM, "sql", "--csv", *options, db, "-"], input=script, capture_output=True, text=True)


def must(db, script, *options):
    done = run(db, script, *options)
    if done.returncode:
        fail("%s: status %d: %s" % (script[:60], done.returncode, done.stderr))
    return done.stdout


def make_table(folder):
    rng = random.Random(3)
    db = folder + "/db"
    with open(folder + "/t.tbl", "w") as file:
        for i in range(ROWS):
            file.write("%d|%s\n" % (i * 7919 % ROWS, "%064x" % rng.getrandbits(256)))
    for table, times in ("t", 1), ("large", 4):
        copy = "copy %s from '%s/t.tbl' with (delimiter '|');" % (table, folder)
        must(db, "create table %s (k bigint not null, s varchar(80)); %s" % (table, copy * times), "--create")
    return db


def check_counts(db, folder):
    """Many small groups and a few with more rows than 16 bits count, some of them without values; spilled several times."""
    keys, large = 150000, 12
    with open(folder + "/p.tbl", "w") as file:
        for k in range(keys):
            file.write("%d|%d\n" % (k, k % 7))
        for i in range(70000):
            for k in range(large):
                file.write("%d|%s\n" % (k * 12345, "" if k < 4 else "1"))
    must(db, "create table p (k bigint not null, v bigint); copy p from '%s/p.tbl' with (delimiter '|', null '');" % folder)
    query = "select count(*), sum(n), sum(m), max(n), sum(s) from (select k, count(*) n, count(v) m, sum(v) s from p group by k) g"
    right = must(db, query, "--memory", "256M")
    if right.split("\n")[1] != "%d,%d,%d,70001,%d" % (
        keys, keys + large * 70000, keys + 8 * 70000, sum(k % 7 for k in range(keys)) + 8 * 70000):
        fail("in plenty of memory: " + right)
    for memory in "4M", "6M", "8M":
        for threads in "1", "2":
            found = must(db, query, "--memory", memory, "--threads", threads)
            if found != right:
                fail("groups in %s, %s threads: %s, not %s" % (memory, threads, found, right))


def check_answers(db, scratch):
    for name, query in SPILLING.items():
        plenty = must(db, query, "--memory", "256M")
        if must(db, query, *SMALL, "--scratch", scratch) != plenty:
            fail("%s: other rows in little memory" % name)
        if must(db, query, *SMALL) != plenty:  # temporary files in the database's directory
            fail("%s: other rows with temporary files beside the tables" % name)
    if os.listdir(scratch) or any("spill" in name for name in os.listdir(db)):
        fail("temporary files were left: %s, %s" % (os.listdir(scratch), os.listdir(db)))


def check_full(db, scratch, limit, what):
    for name, query in SPILLING.items():
        done = run(db, query, *SMALL, "--scratch", scratch, "--scratch-limit", limit)
        if done.returncode != 1 or not ("space" in done.stderr or "full" in done.stderr):
            fail("%s, %s: status %d: %s" % (what, name, done.returncode, done.stderr))
        if os.listdir(scratch):
            fail("%s, %s: left: %s" % (what, name, os.listdir(scratch)))
    must(db, "select count(*) from t")


def check_large_result(db, scratch):
    """Rows of a join in parts are kept until it cannot fail any more, but only if there is space for them."""
    query = "select a.k, b.k, a.s from t a join t b on a.s = b.s"
    plenty = sorted(must(db, query, "--memory", "256M").splitlines())
    for limit in "1M", "1G":
        found = must(db, query, *SMALL, "--scratch", scratch, "--scratch-limit", limit)
        if sorted(found.splitlines()) != plenty:
            fail("a join with %s of temporary space: other rows" % limit)


def check_full_file_system(db, folder):
    where = folder + "/tmpfs"
    os.mkdir(where)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", where], capture_output=True)
    if mounted.returncode:
        print("sql_scratch_test: no tmpfs can be mounted: the full file system was left out")
        return
    try:
        # The limit is above what there is, so that the write fails and not the reservation.
        check_full(db, where, "1G", "a full file system")
        free = os.statvfs(where)
        if free.f_bfree < free.f_blocks - 2:
            fail("temporary space was not released: %d of %d blocks" % (free.f_bfree, free.f_blocks))
    finally:
        subprocess.run(["umount", where], check=True)


def start_and_wait_for_spill(db, scratch):
    """A query that has begun to write its temporary file."""
    child = subprocess.Popen([FATHOM, "sql", "--csv", *SMALL, "--scratch", scratch, db, "-c", LONG],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and child.poll() is None:
        folder = "/proc/%d/fd" % child.pid
        for fd in os.listdir(folder):
            try:
                if os.readlink(folder + "/" + fd).startswith(scratch) and os.stat(folder + "/" + fd).st_blocks > 0:
                    return child
            except OSError:
                pass
        time.sleep(0.002)
    child.kill()
    fail("the query does not spill: %s" % child.communicate()[1])


def check_stopped(db, scratch):
    child = start_and_wait_for_spill(db, scratch)
    child.send_signal(signal.SIGINT)
    errors = child.communicate(timeout=600)[1]
    if child.returncode == 0 or "canceled" not in errors:
        fail("Ctrl-C during a spill: status %d: %s" % (child.returncode, errors))
    child = start_and_wait_for_spill(db, scratch)
    if os.listdir(scratch):
        fail("a temporary file has a name: %s" % os.listdir(scratch))
    child.kill()
    child.communicate()
    if os.listdir(scratch):
        fail("kill -9 left %s" % os.listdir(scratch))


def moved_bytes(pid):
    """Bytes that a process read and wrote, 0 if it is gone."""
    try:
        with open("/proc/%d/io" % pid) as file:
            fields = dict(line.split(": ") for line in file.read().splitlines())
        return int(fields["read_bytes"]) + int(fields["write_bytes"])
    except (OSError, KeyError, ValueError):
        return 0


def start_query(db, query, scratch, *options):
    return subprocess.Popen([FATHOM, "sql", "--csv", *SMALL, "--scratch", scratch, *options, db, "-c", query],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_to_end(db, query, scratch):
    """Its rows, and the bytes that it moved."""
    child = start_query(db, query, scratch)
    most = 0
    while child.poll() is None:
        most = max(most, moved_bytes(child.pid))
        time.sleep(0.002)
    rows, errors = child.communicate()
    if child.returncode:
        fail("%s: status %d: %s" % (query, child.returncode, errors))
    return rows, most


def stop_at(db, name, scratch, at, signal_number):
    """Stop a query when it has moved so many bytes. Returns its rows if it was faster."""
    child = start_query(db, STAGED[name], scratch)
    while child.poll() is None and moved_bytes(child.pid) < at:
        time.sleep(0.001)
    child.send_signal(signal_number)
    rows, errors = child.communicate(timeout=600)
    stopped = child.returncode == -signal.SIGKILL if signal_number == signal.SIGKILL else "canceled" in errors
    if child.returncode and not stopped:
        fail("%s, signal %d at %d bytes: status %d: %s" % (name, signal_number, at, child.returncode, errors))
    if os.listdir(scratch):
        fail("%s, signal %d at %d bytes left %s" % (name, signal_number, at, os.listdir(scratch)))
    return None if stopped else rows


def limit_to(db, name, scratch, limit):
    """Run a query in so many bytes of temporary space. Returns its rows, or None if it needs more."""
    done = run(db, STAGED[name], *SMALL, "--scratch", scratch, "--scratch-limit", str(limit))
    if done.returncode == 0:
        return done.stdout
    if "space" not in done.stderr and "full" not in done.stderr:
        fail("%s in %d bytes of space: status %d: %s" % (name, limit, done.returncode, done.stderr))
    return None


def check_stages(db, scratch):
    """Ctrl-C, kill -9 and too little space at stages of a query; the short form has one of them for each query."""
    ways = [lambda name, at: stop_at(db, name, scratch, at, signal.SIGINT),
            lambda name, at: stop_at(db, name, scratch, at, signal.SIGKILL),
            lambda name, at: limit_to(db, name, scratch, max(at, 1 << 16))]
    ended = 0
    for i, (name, query) in enumerate(STAGED.items()):
        right, moved = run_to_end(db, query, scratch)
        for stage in range(1, STAGES + 1):
            for way in ways if STAGES > 1 else [ways[i % 3]]:
                rows = way(name, moved * stage // (STAGES + 1))
                if rows not in (None, right):
                    fail("%s at stage %d of %d: other rows" % (name, stage, STAGES))
                ended += rows is None
    if not ended:
        fail("no query was stopped")
    if must(db, "select count(*) from large", "--memory", "64M").split("\n")[1] != str(4 * ROWS):
        fail("rows of the table were lost")


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        scratch = folder + "/scratch"
        os.mkdir(scratch)
        db = make_table(folder)
        check_counts(db, folder)
        check_answers(db, scratch)
        check_full(db, scratch, "128K", "a limit")
        check_large_result(db, scratch)
        check_full_file_system(db, folder)
        check_stopped(db, scratch)
        check_stages(db, scratch)
        done = run(db, "select 1", "--scratch", folder + "/nowhere")
        if done.returncode != 1 or "not a directory" not in done.stderr:
            fail("a scratch directory that is not there: status %d: %s" % (done.returncode, done.stderr))
    print("sql_scratch_test: passed")


main()
