#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The second rival of `fathom bench tpch`: PostgreSQL, a server of its own that is started for each call.

    tpch_postgres.py version
    tpch_postgres.py load DATABASE THREADS MEMORY SCHEMA FOLDER
    tpch_postgres.py run DATABASE THREADS MEMORY RUNS QUERY ANSWER

tpch_rival.py says what these do and print. DATABASE is a folder. Tables get primary keys, indexes on the columns that refer to
others, and statistics. MEMORY is shared_buffers, 0 a quarter of the machine's. Processor seconds are those of
the server and of all its processes; the resident memory is that of the session, shared buffers included.
"""
import glob
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import sys
import time

TICKS = os.sysconf("SC_CLK_TCK")
STATEMENT_S = 900  # a query that takes longer has failed
KEYS = """
alter table region add primary key (r_regionkey);
alter table nation add primary key (n_nationkey);
alter table supplier add primary key (s_suppkey);
alter table customer add primary key (c_custkey);
alter table part add primary key (p_partkey);
alter table partsupp add primary key (ps_partkey, ps_suppkey);
alter table orders add primary key (o_orderkey);
alter table lineitem add primary key (l_orderkey, l_linenumber);
create index on supplier (s_nationkey);
create index on customer (c_nationkey);
create index on partsupp (ps_suppkey);
create index on orders (o_custkey);
create index on lineitem (l_partkey, l_suppkey);
create index on lineitem (l_suppkey);
vacuum analyze;
"""


def find_programs():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"))
    if not found or not shutil.which("psql"):
        print("PostgreSQL's server is not installed", file=sys.stderr)
        sys.exit(77)
    return os.path.dirname(found[-1])


def server_user():
    """PostgreSQL refuses to run as root."""
    if os.geteuid():
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            pass
    return None


class Server:
    def __init__(self, folder, threads, memory):
        self.bin, self.user, self.folder = find_programs(), server_user(), os.path.abspath(folder)
        memory = int(memory) or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
        if not os.path.exists(self.folder + "/data"):
            os.makedirs(self.folder)
            if self.user:
                shutil.chown(self.folder, self.user)
            subprocess.run([self.bin + "/initdb", "-D", self.folder + "/data", "-A", "trust", "-E", "UTF8", "--locale=C",
                            "-U", "bench", "-N"], user=self.user, cwd="/", check=True, stdout=subprocess.DEVNULL)
        settings = {
            "listen_addresses": "", "unix_socket_directories": self.folder, "fsync": "off", "autovacuum": "off",
            "shared_buffers": "%dkB" % max(memory // 1024, 1024), "statement_timeout": "%ds" % STATEMENT_S,
            "max_parallel_workers_per_gather": int(threads) - 1, "max_parallel_workers": threads, "max_wal_size": "4GB",
        }
        self.process = subprocess.Popen(
            [self.bin + "/postgres", "-D", self.folder + "/data"] + ["-c%s=%s" % pair for pair in settings.items()],
            user=self.user, cwd="/", stdout=subprocess.DEVNULL, stderr=open(self.folder + "/log", "w"))
        while subprocess.run([self.bin + "/pg_isready", "-q", "-h", self.folder]).returncode:
            if self.process.poll() is not None:
                sys.exit("the server does not start: " + pathlib.Path(self.folder + "/log").read_text()[-300:])
            time.sleep(0.05)
        self.psql = subprocess.Popen(["psql", "-h", self.folder, "-U", "bench", "-d", "postgres", "-XqAt", "-F", "|",
                                      "-v", "ON_ERROR_STOP=1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True)
        self.session = int(self.ask("select pg_backend_pid();"))

    def ask(self, script):
        """What a script prints. Ends the program if it fails."""
        self.psql.stdin.write(script + "\n\\echo @@done\n")
        try:
            self.psql.stdin.flush()
        except BrokenPipeError:
            pass
        out = ""
        for line in self.psql.stdout:
            if line == "@@done\n":
                return out
            out += line
        print(self.psql.stderr.read().strip().split("\n")[0], file=sys.stderr)
        self.close()
        sys.exit(1)

    def pids(self):
        children = pathlib.Path("/proc/%d/task/%d/children" % (self.process.pid, self.process.pid)).read_text()
        return [self.process.pid] + [int(pid) for pid in children.split()]

    def usage(self):
        """Seconds, and bytes read and written, of the server, its processes, and those that ended."""
        cpu = read = written = 0
        for pid in self.pids():
            stat = pathlib.Path("/proc/%d/stat" % pid).read_text().rpartition(")")[2].split()
            ended = pid == self.process.pid
            cpu += sum(map(int, stat[11:15] if ended else stat[11:13])) / TICKS
            io = pathlib.Path("/proc/%d/io" % pid).read_text()
            read += int(re.search(r"^read_bytes: (\d+)", io, re.M)[1])
            written += int(re.search(r"^write_bytes: (\d+)", io, re.M)[1])
        return cpu, time.time(), read, written

    def measured(self, script):
        before = self.usage()
        self.ask(script)
        after = self.usage()
        peak = re.search(r"^VmHWM:\s+(\d+)", pathlib.Path("/proc/%d/status" % self.session).read_text(), re.M)
        print("%.3f %.6f %d %d %d" % (*[a - b for a, b in zip(after, before)], int(peak[1]) * 1024))

    def close(self):
        self.psql.stdin.close()
        self.psql.wait()
        self.process.send_signal(2)  # fast shutdown
        self.process.wait()


def load(folder, threads, memory, schema, text):
    server = Server(folder, threads, memory)
    sql = pathlib.Path(schema).read_text()
    script = sql
    for table in re.findall(r"create table (\w+)", sql):
        script += "\\copy %s from '%s/%s.tbl' with (delimiter '|')\n" % (table, os.path.abspath(text), table)
    server.measured(script + KEYS + "checkpoint;")
    server.close()


def run(folder, threads, memory, runs, query, answer):
    server = Server(folder, threads, memory)
    sql = pathlib.Path(query).read_text()
    for number in range(int(runs)):
        server.measured("\\o %s\n%s\n\\o\n" % (answer if number == 0 else "/dev/null", sql))
    server.close()


def version():
    print(subprocess.run([find_programs() + "/postgres", "--version"], capture_output=True, text=True,
                         check=True).stdout.replace("postgres (PostgreSQL)", "PostgreSQL").split("(")[0].strip())


if __name__ == "__main__":
    {"version": version, "load": load, "run": run}[sys.argv[1]](*sys.argv[2:])
