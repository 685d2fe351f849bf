#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""flat_run_hard_test.py FATHOM PROGRAM: `fathom flat run` where it is hard.

PROGRAM is flat_run_hard.c: each of its topics ends well without Fathom, and with an eighth of its memory as well."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

FATHOM, PROGRAM = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
work = tempfile.mkdtemp()
device = "mem:512M"


def fail(text):
    print(f"flat_run_hard_test: {text}", file=sys.stderr)
    sys.exit(1)


def flat(options, program, **kwargs):
    command = [FATHOM, "flat", "run", *options, "--", *program]
    kwargs = {"capture_output": True, "timeout": 280, "cwd": work, **kwargs}
    return subprocess.run(command, **kwargs)


def expect(condition, what, done):
    if not condition:
        fail(f"{what}: status {done.returncode}\n{done.stdout.decode(errors='replace')[-2000:]}"
             f"\n{done.stderr.decode(errors='replace')[-2000:]}")


def test_topics():
    for topic in ["waiting", "vectors", "messages", "leaves", "sent"]:
        plain = subprocess.run([PROGRAM, topic], capture_output=True, cwd=work, timeout=280)
        expect(plain.returncode == 0 and plain.stdout == b"ok\n", f"{topic}, without Fathom", plain)
        for policy in ["always", "counters"]:
            dram = "4M" if topic == "messages" else "6M"
            done = flat(["--dram", dram, "--file", device, "--policy", policy], [PROGRAM, topic])
            expect(done.returncode == 0 and done.stdout == b"ok\n", f"{topic}, {policy}", done)
    done = flat(["--dram", "6M", "--file", device], [PROGRAM, "sent-by-default"])
    expect(done.returncode == -signal.SIGSEGV, "SIGSEGV that is sent", done)


def main():
    probe = flat(["--file", "mem:16M"], ["true"])
    if probe.returncode == 77 or b"is not in" in probe.stderr:
        print(f"flat_run_hard_test: skipped: {probe.stderr.decode().strip()}")
        sys.exit(77)
    expect(probe.returncode == 0, "true", probe)
    for test in [test_topics]:
        start = time.time()
        test()
        print(f"flat_run_hard_test: {test.__name__}: {time.time() - start:.1f} s", flush=True)
    print("flat_run_hard_test: passed")


try:
    main()
finally:
    shutil.rmtree(work, ignore_errors=True)
