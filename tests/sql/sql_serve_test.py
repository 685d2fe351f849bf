#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""sql_serve_test.py FATHOM

The 22 queries of TPC-H at scale factor 0.01 through `fathom sql serve`: in budgets of the daemon that hold them and in one
that holds few, and as plain reads of columns, from two hosts at a time. Then a daemon that is killed, one that is stopped,
addresses that other machines can reach, and wrong options.
"""
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import sql_tpch_test as tpch


class Daemon:
    def __init__(self, fathom, db, folder, *options):
        self.where = "unix:%s/socket-%s" % (folder, time.monotonic_ns())
        self.log = open("%s/log-%s" % (folder, time.monotonic_ns()), "w+")
        self.process = subprocess.Popen([fathom, "sql", "serve-tasks", "--listen", self.where, "--log", "text", *options, db],
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        assert self.where in line, line

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        status = self.process.wait(60)
        self.process.stdout.close()
        self.log.seek(0)
        text = self.log.read()
        self.log.close()
        return status, text


def run(fathom, where, script, *options):
    return subprocess.run([fathom, "sql", "--csv", "--no-header", "--storage", where, *options], input=script,
                          capture_output=True, text=True)


def test_answers(fathom, db, folder, memory, *options):
    """All queries, from two hosts at a time."""
    script, wrong, results = tpch.queries(fathom), 0, [None, None]
    daemon = Daemon(fathom, db, folder, "--memory", memory)

    def ask(i):
        results[i] = run(fathom, daemon.where, script, *options)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if result.returncode != 0:
            print(result.stderr)
        wrong += tpch.compare("sql serve, budget %s %s" % (memory, " ".join(options)), result.stdout)
    status, log = daemon.stop()
    if status != 0 or "stopped: " not in log:
        print("sql serve: exit status %d, log %s" % (status, log[-500:]))
        wrong += 1
    return wrong


def test_kill(fathom, db, folder):
    """A daemon that is killed: an error with its place, no hang, no part of an answer."""
    daemon = Daemon(fathom, db, folder)
    where = daemon.where
    host = subprocess.Popen([fathom, "sql", "--csv", "--storage", where], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    host.stdin.write("select count(*) from lineitem;\n")
    host.stdin.flush()
    daemon.stop(signal.SIGKILL)
    output, error = host.communicate("select sum(l_tax) from lineitem;\n", timeout=600)
    assert host.returncode != 0 and "storage daemon" in error, (output, error)
    result = run(fathom, where, "select 1;")
    assert result.returncode != 0 and "storage daemon at " in result.stderr, result.stderr
    # The socket that it left is no obstacle.
    again = subprocess.Popen([fathom, "sql", "serve-tasks", "--listen", where, db], stdout=subprocess.PIPE, text=True)
    try:
        assert where in again.stdout.readline()
        result = run(fathom, where, "select count(*) from region;")
        assert result.stdout == "5\n", result
        second = subprocess.run([fathom, "sql", "serve-tasks", "--listen", where, db], capture_output=True, text=True)
        assert second.returncode == 1 and "another process is listening" in second.stderr, second
    finally:
        again.terminate()
        status = again.wait(60)
        again.stdout.close()
    assert status == 0


def test_scratch(fathom, db, folder):
    """Temporary files of the daemon: groups that do not fit, with space for them and without."""
    script = """select count(*), max(n) from (select l_orderkey, l_linenumber, count(*) as n, sum(l_quantity) as q,
                sum(l_tax) as t from lineitem group by l_orderkey, l_linenumber) x;"""
    for limit, status in (("0", 0), ("64K", 1)):
        daemon = Daemon(fathom, db, folder, "--memory", "2M", "--threads", "1", "--scratch", folder,
                        "--scratch-limit", limit)
        result = run(fathom, daemon.where, script)
        log = daemon.stop()[1]
        spilled = [int(n) for n in re.findall(r"(\d+)(?: bytes)? spilled", log)]
        assert len(spilled) == 2 and spilled[0] > 0 and spilled[0] == spilled[1], log  # the set, and the total
        assert result.returncode == status, (limit, result)
        assert result.stdout == ("60175,1\n" if status == 0 else ""), result
        assert status == 0 or "space" in result.stderr, result
    assert not [name for name in os.listdir(folder) if "spill" in name]


def test_options(fathom, db, folder):
    for options, text in ((["--log", "xml", db], "expected off, text or json"),
                          (["--listen", "nowhere", db], "expected HOST:PORT"),
                          (["--memory", "1K", db], "--memory"),
                          (["--scratch", folder + "/missing", db], "is not a directory"),
                          (["--listen", "unix:%s/x" % folder, folder + "/missing"], "missing")):
        result = subprocess.run([fathom, "sql", "serve-tasks", *options], capture_output=True, text=True)
        assert result.returncode != 0 and text in result.stderr, (options, result)
    help_text = subprocess.run([fathom, "sql", "serve-tasks", "--help"], capture_output=True, text=True).stdout
    assert "--listen" in help_text and "--memory" in help_text


def test_listen(fathom, db):
    """Clients are not authenticated: other machines are kept out, unless an option lets them in."""
    reachable = socket.create_server(("0.0.0.0", 0))
    bound = "fd:%d" % reachable.fileno()
    for where in ("0.0.0.0:0", ":0", bound, "127.0.0.1:0,0.0.0.0:0"):
        result = subprocess.run([fathom, "sql", "serve-tasks", "--listen", where, db], capture_output=True, text=True, timeout=60,
                                pass_fds=[reachable.fileno()])
        assert result.returncode == 1 and not result.stdout, (where, result)
        assert "%s: other machines can reach this address, and clients are not authenticated" % where.split(",")[-1] \
            in result.stderr and "--insecure-listen" in result.stderr, (where, result)
    for options in (["--insecure-listen", "--listen", "0.0.0.0:0"], ["--listen", "127.0.0.1:0"]):
        daemon = subprocess.Popen([fathom, "sql", "serve-tasks", *options, db], stdout=subprocess.PIPE, text=True)
        try:
            port = re.search(r"port (\d+)", daemon.stdout.readline()).group(1)
            result = run(fathom, "127.0.0.1:" + port, "select count(*) from region;")
            assert result.stdout == "5\n", result
        finally:
            daemon.terminate()
            daemon.wait(60)
            daemon.stdout.close()
    reachable.close()


def main():
    fathom = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([fathom, "bench", "tpch", "generate", "--sf", "0.01", "--output", folder], check=True,
                       stdout=subprocess.DEVNULL)
        db = folder + "/db"
        tpch.run([fathom, "sql", "--create", db], tpch.load(folder))
        wrong = test_answers(fathom, db, folder, "64M")
        wrong += test_answers(fathom, db, folder, "2M")
        wrong += test_answers(fathom, db, folder, "64M", "--plain")
        test_kill(fathom, db, folder)
        test_scratch(fathom, db, folder)
        test_listen(fathom, db)
        test_options(fathom, db, folder)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
