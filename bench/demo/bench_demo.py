# SPDX-License-Identifier: BSD-2-Clause
"""fathom demo: the ways to use data larger than memory, each beside its usual alternative, and what happens when something
fails. Commands of the tool do the work, and check all data; this script starts them and tells what they found. A scene that
cannot run here is skipped with its reason."""
import json
import os
import sys

import bench_cli
import demo_faults
import demo_kv
import demo_measured
import demo_sql
from bench_cli import Failed, Option, Skipped, Usage
from demo_tell import Teller

SCENES = {
    "array": demo_measured.array,
    "flat": demo_measured.flat,
    "pm": demo_measured.pm,
    "kv": demo_kv.scene,
    "query": demo_sql.scene,
    "faults": demo_faults.scene,
}
TEXT = """Show the five ways to use data larger than memory, each beside its everyday
rival where that is installed, and what happens when devices, servers and
programs fail. Takes about a minute, about 1 GB of temporary files in TMPDIR
or /tmp, and no privileges; only root can limit the memory of mmap."""
OPTIONS = [
    Option("only", "string", None, "scenes to show: array, flat, pm, kv, query, faults, separated by commas"),
    Option("seed", "number", 1, "of all random choices"),
    Option("smallest", "flag", False, "little data, for tests"),
]
BEGIN = """Fathom: data larger than memory, on flash, in five ways. Each scene compares
Fathom with the usual alternative, with the same amount of memory, and
checks all data. It takes about a minute."""
END = """
Where to go next

   README.md         ten lines to copy for each way in; when not to use it
   examples/         small complete programs
   doc/results.md    measurements on named machines, gains and losses
   make install      the tool, the library and man pages: man fathom_array

   The tool is %s
   Its --help lists the commands; its command bench compares at length."""


def wanted(only):
    names = only.split(",") if only else list(SCENES)
    for name in names:
        if name not in SCENES:
            raise Usage("demo: unknown scene %s" % name)
    return [name for name in SCENES if name in names]


def show(tell, names):
    for name in names:
        try:
            SCENES[name](tell)
        except Skipped as skipped:
            bench_cli.error("%s: %s (skipped)" % (name, skipped))
        except Failed as failed:
            raise Failed("%s: %s" % (name, failed)) from None
        finally:
            tell.close()
        if tell.wrong:
            raise Failed("%s: wrong result" % name)


def run(options):
    names = wanted(options.only)
    tell = Teller(options)
    whole = False
    try:
        tell.say(BEGIN)
        show(tell, names)
        whole = True
        tell.say(END % os.path.realpath(demo_measured.FATHOM))
    finally:
        if options.json:
            json.dump({"scenes": tell.scenes, "ok": whole}, sys.stdout, separators=(",", ":"))
            print(flush=True)


if __name__ == "__main__":
    bench_cli.main("demo", TEXT, OPTIONS, run, group="")
