# SPDX-License-Identifier: BSD-2-Clause
"""The data of `fathom bench tpch` and `fathom bench spill`, in a folder for each scale factor:

    text/TABLE.tbl       as the generator makes them; both engines load these files
    schema.sql           the statements that create the tables
    ours                 the tables of Fathom
    duckdb               the file of DuckDB, or another rival's folder
    *-shuffled           the same of text with rows of orders and lineitem in random order
    *-shuffled-lineitem  of lineitem alone
    NAME.load            what loading ours or a rival's tables took: processor seconds, seconds

Tables have another name until they are complete, so that a benchmark that was interrupted makes them again.
"""
import contextlib
import os
import random
import re
import tempfile

import bench_process

ORDERS = {None: ("", ()), "lineitem": ("-shuffled-lineitem", ("lineitem",)),
          "both": ("-shuffled", ("orders", "lineitem"))}
PART_BYTES = 16 << 20
PARTS_MAX = 512


@contextlib.contextmanager
def open_root(folder, scale):
    """The folder of a scale factor in `folder`, or a temporary one."""
    if folder:
        root = os.path.join(folder, "sf%g" % scale)
        os.makedirs(root, exist_ok=True)
        yield os.path.abspath(root)
        return
    with bench_process.temporary_folder("fathom-tpch-") as root:
        os.chmod(root, 0o755)  # a rival may run as another user
        yield root


class Tables:
    """Those of one engine."""

    def __init__(self, path):
        self.path, self.bytes, self.load_cpu, self.load_wall = path, 0, 0.0, 0.0

    def measure(self):
        self.bytes = bench_process.bytes_of(self.path)
        try:
            with open(self.path + ".load") as file:
                self.load_cpu, self.load_wall = map(float, file.read().split())
        except (OSError, ValueError):
            pass


class Data:
    """Makes what is missing. rival: see tpch_rival.py, or None."""

    def __init__(self, root, scale, order, threads, fathom, rival):
        self.root, self.scale, self.fathom, self.threads, self.rival = root, scale, fathom, threads, rival
        self.suffix, self.shuffled = ORDERS[order]
        self.ours = self.open_tables("ours", self.load_ours)
        self.peer = self.open_tables(rival.name, rival.load) if rival else None

    def path(self, name):
        return os.path.join(self.root, name)

    def drop(self):
        """Drop the tables from the page cache, so that the next query reads them from storage."""
        for tables in filter(None, (self.ours, self.peer)):
            bench_process.drop_cache(tables.path)

    def open_tables(self, name, load):
        tables = Tables(self.path(name + self.suffix))
        if not os.path.exists(tables.path):
            partial = tables.path + ".partial"
            bench_process.remove(partial)
            took = load(partial, self.open_schema(), self.open_text())
            os.rename(partial, tables.path)
            with open(tables.path + ".load", "w") as file:
                file.write("%.3f %.3f\n" % (took.cpu, took.wall))
        tables.measure()
        return tables

    def open_schema(self):
        bench_process.run([self.fathom, "bench", "tpch", "schema"], output=self.path("schema.sql"))
        return self.path("schema.sql")

    def open_text(self):
        plain, folder = self.path("text"), self.path("text" + self.suffix)
        if not os.path.exists(plain + "/lineitem.tbl"):
            bench_process.run([self.fathom, "bench", "tpch", "generate", "--sf", "%g" % self.scale, "--output", plain,
                               "--force"])
        if self.shuffled:
            self.shuffle_text(plain, folder)
        return folder

    def shuffle_text(self, plain, folder):
        os.makedirs(folder, exist_ok=True)
        for number, name in enumerate(sorted(os.listdir(plain))):
            source, target = os.path.join(plain, name), os.path.join(folder, name)
            if os.path.exists(target):
                continue
            if name.removesuffix(".tbl") in self.shuffled:
                shuffle_lines(source, target, number)
            else:
                os.link(source, target)

    def load_ours(self, database, schema, text):
        script = self.path("load.sql")
        with open(schema) as file:
            sql = file.read()
        with open(script, "w") as file:
            file.write(sql)
            for table in re.findall(r"create table (\w+)", sql):
                file.write("copy %s from '%s/%s.tbl' with (delimiter '|');\n" % (table, text, table))
        return bench_process.run([self.fathom, "sql", "--create", "--threads", self.threads, database, script])


def shuffle_lines(source, target, seed):
    """Write the lines of a file, which all end with a newline, to a new file, every order equally likely; the order
    depends on the seed alone. Needs about 64 MiB of memory, and room for a second copy beside the target, which appears
    when it is complete."""
    numbers = random.Random(seed)
    count = min(os.path.getsize(source) // PART_BYTES + 1, PARTS_MAX)
    with contextlib.ExitStack() as stack:
        parts = [stack.enter_context(tempfile.TemporaryFile(dir=os.path.dirname(target))) for _ in range(count)]
        with open(source, "rb") as file:
            for line in file:
                parts[int(numbers.random() * count)].write(line)
        out = stack.enter_context(open(target + ".partial", "wb"))
        stack.callback(bench_process.remove, target + ".partial")
        for part in parts:
            part.seek(0)
            lines = part.readlines()
            part.close()
            numbers.shuffle(lines)
            out.writelines(lines)
        out.close()
        os.rename(target + ".partial", target)
