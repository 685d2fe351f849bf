# SPDX-License-Identifier: BSD-2-Clause
"""Scene of the demo: devices whose requests fail and whose power is lost, a server and a program that are killed. Nothing
that was acknowledged is lost, and every value is checked."""
import os
import time

import bench_process
from bench_cli import Failed
from demo_kv import killed_server
from demo_measured import FATHOM, tool

POWER_LOSSES, KILLS = 8, 4


def stress(tell, uri, *options):
    small = ["--span", "4M", "--commands", 4000] if tell.smallest else ["--commands", 200000]
    return tool("dev", "stress", "--force", "--threads", 8, "--depth", 32, "--block", 4096, "--run-max", 1, "--writes", 0.3,
                "--seed", tell.seed, *small, *options, uri)


def work(name, items, *options):
    return [FATHOM, "--json", "bench", "pmwork", "run", "--name", name, "--items", str(items), *options, "kvs"]


def killed_program(tell):
    """A key-value store in persistent memory, killed again and again: how often in its work, and whether its data are those
    of a run without interruption."""
    items, steps = (20000, 40) if tell.smallest else (200000, 60)
    options = ["--steps", str(steps), "--threads", "2"]
    names = ["shm:fathom-demo-%d-%d" % (os.getpid(), i) for i in range(2)]
    killed = 0
    try:
        begin = time.monotonic()
        expected = tool(*work(names[0], items, "--fresh", *options)[2:])
        pause = (time.monotonic() - begin) / (KILLS + 2)
        for _ in range(KILLS):
            process = bench_process.start(work(names[1], items, *options), stderr=bench_process.subprocess.DEVNULL)
            try:
                time.sleep(pause)
                killed += process.poll() is None
            finally:
                process.kill()
                process.wait()
        found = tool(*work(names[1], items, *options)[2:])
    finally:
        for name in names:
            bench_process.start([FATHOM, "pm", "rm", name], stderr=bench_process.subprocess.DEVNULL).wait()
    return killed, found["resumed"], found["digest"] == expected["digest"]


def scene(tell):
    tell.begin("faults", "And when something fails?", "   What a program was told is durable, is there afterwards.")
    failing = stress(tell, "softnvme(fault(mem:64M)?kind=read,write&rate=0.01)", "--errors-allowed")
    tell.say("\n   An NVMe drive (in software) of which 1 % of the requests fail:\n"
             "     {errors} of {all} requests failed and said so, {wrong} blocks are wrong".format(
                 all=failing["errors"] + failing["reads"] + failing["writes"], **failing))
    losing = stress(tell, "crash(mem:64M)", "--power-losses", POWER_LOSSES)
    tell.say("   A device whose power is lost %d times, which drops, tears and reorders\n   what was not flushed:\n"
             "     %d of %d blocks that were read are wrong" % (POWER_LOSSES, losing["wrong"], losing["checked"]))
    stored, right, seconds = killed_server(tell)
    tell.say("   A cache server that is killed (kill -9) and started again:\n"
             "     %d of %d acknowledged items are there, after %.3f s" % (right, stored, seconds))
    killed, resumed, same = killed_program(tell)
    tell.say("   A program with transactions in persistent memory, killed %d times:\n     its data are %s" %
             (killed, "those of a run without interruption" if same else "WRONG"))
    tell.end(failing["checked"] + losing["checked"] + stored + 1, "values",
             failing["wrong"] + losing["wrong"] + stored - right + (not same))
    if not stored:
        raise Failed("the server stored nothing")
