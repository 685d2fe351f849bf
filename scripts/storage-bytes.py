#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""storage-bytes.py FATHOM DB [MEMORY]

For each query of TPC-H: bytes over the wire with the tasks at a storage daemon, and as plain reads of columns. DB has the
tables; MEMORY is the budget of the daemon, 64M without.
"""
import re
import subprocess
import sys
import tempfile


def explain(fathom, where, query, *options):
    out = subprocess.run([fathom, "sql", "--csv", "--no-header", "--storage", where, *options, "-c",
                          "explain analyze " + query], capture_output=True, text=True, check=True).stdout
    return out


def timing(fathom, where, query):
    """Bytes that a plain run receives: of its report."""
    out = subprocess.run([fathom, "sql", "--csv", "--no-header", "--storage", where, "--plain", "--timing", "-c", query],
                         capture_output=True, text=True, check=True).stderr
    return int(re.search(r"wire (\d+) bytes sent, (\d+) received", out).group(2))


def main():
    fathom, db = sys.argv[1:3]
    memory = sys.argv[3] if len(sys.argv) > 3 else "64M"
    total = [0, 0, 0]
    with tempfile.TemporaryDirectory() as folder:
        where = "unix:%s/socket" % folder
        daemon = subprocess.Popen([fathom, "sql", "serve-tasks", "--listen", where, "--memory", memory, db], stdout=subprocess.PIPE)
        daemon.stdout.readline()
        print("| Q | over the wire, tasks at the daemon | columns read there | over the wire, plain reads | suspended |")
        print("|---|---|---|---|---|")
        for n in range(1, 23):
            query = subprocess.run([fathom, "bench", "tpch", "query", str(n)], capture_output=True, text=True, check=True).stdout
            text = explain(fathom, where, query)
            sent, received, columns = map(int, re.search(r"wire: (\d+) bytes sent, (\d+) received; .* would be (\d+)",
                                                         text).groups())
            suspended = re.search(r"suspended: (\d+)", text)
            plain = timing(fathom, where, query)
            row = [sent + received, columns, plain]
            total = [a + b for a, b in zip(total, row)]
            print("| %d | %d | %d | %d | %s |" % (n, *row, suspended.group(1) if suspended else ""))
        print("| sum | %d | %d | %d | |" % tuple(total))
        daemon.terminate()
        daemon.wait()
        daemon.stdout.close()


if __name__ == "__main__":
    main()
