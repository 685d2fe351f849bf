#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""table_kill_test.py FATHOM: kill -9 of `fathom sql load`, at any time.

A table has all rows of a load or none, in a directory and in a volume. Every page and every fact of it is right afterwards,
and the next load works and takes back the space that the killed one had. FTH_LONG_TESTS=1: 150 kills of each.
"""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

FATHOM = sys.argv[1]
KILLS = 150 if os.environ.get("FTH_LONG_TESTS") else 8
ROWS = 150000  # of a load: three groups
COLUMNS = "id bigint not null, day date, price decimal(15,2), mode char(10), note varchar(44)"


def fail(text):
    sys.exit("table_kill_test: " + text)


def run(*arguments):
    done = subprocess.run([FATHOM, "sql", *arguments], capture_output=True, text=True)
    if done.returncode:
        fail("table %s: %s%s" % (" ".join(arguments), done.stdout, done.stderr))
    return done.stdout


def write_text(path):
    rng = random.Random(5)
    with open(path, "w") as out:
        for i in range(ROWS):
            out.write("%d|199%d-0%d-11|%d.%02d|%s|note %x\n" % (
                i, i % 10, 1 + i % 9, i % 5000, i % 100, rng.choice(("RAIL", "SHIP", "AIR")), rng.getrandbits(100)))


def rows_of(db):
    """Rows of the table, after everything in it was verified."""
    run("check", db, "t")
    return json.loads(run("stat", "--json", db, "t"))["rows"]


def kill_load(db, text, seconds):
    """Start a load and kill it after a while. Was it in time?"""
    load = subprocess.Popen([FATHOM, "sql", "load", db, "t", text], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    load.kill()
    return load.wait() < 0


def loads_that_are_killed(name, db, text):
    rng = random.Random(17)
    run("create", db, "t", COLUMNS)
    began = time.monotonic()
    run("load", db, "t", text)
    whole = time.monotonic() - began  # what a load takes here
    rows, killed, kept = ROWS, 0, 0
    for number in range(KILLS):
        killed += kill_load(db, text, 2 * whole * (number + rng.random() * (number > 0)) / KILLS)
        now = rows_of(db)
        if now not in (rows, rows + ROWS):
            fail("%s: %d rows after kill %d, expected %d or %d" % (name, now, number, rows, rows + ROWS))
        kept += now != rows
        rows = now
        if rows >= 6 * ROWS:  # begin anew: what remains to verify would grow
            run("rm", db, "t")
            run("create", db, "t", COLUMNS)
            rows = 0
    run("load", db, "t", text)
    if rows_of(db) != rows + ROWS:
        fail("%s: the load after the kills" % name)
    if killed == 0:
        fail("%s: every load ended before it was killed" % name)
    print("%s: %d loads of about %.2f s, %d killed, %d of all are there whole" % (name, KILLS, whole, killed, kept))


def main():
    if "  sql " not in subprocess.run([FATHOM, "--help"], capture_output=True, text=True).stdout:
        print("skipped: built without LZ4")
        sys.exit(77)
    folder = tempfile.mkdtemp(prefix="fathom-table-kill-")
    try:
        text = folder + "/t.tbl"
        write_text(text)
        loads_that_are_killed("directory", folder + "/db", text)
        left = [name for name in os.listdir(folder + "/db/t") if name not in ("manifest", "data", "lock")]
        if left:
            fail("files are left: %s" % left)
        data = os.stat(folder + "/db/t/data").st_size
        if data != json.loads(run("stat", "--json", folder + "/db", "t"))["bytes"]:
            fail("%d bytes of data, of which a killed load left some" % data)
        disk = "file:%s/disk" % folder
        subprocess.run([FATHOM, "vol", "create", disk + "?create=on&size=256M"], check=True, stdout=subprocess.DEVNULL)
        loads_that_are_killed("volume", "vol(%s)" % disk, text)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("table_kill_test: passed")


if __name__ == "__main__":
    main()
