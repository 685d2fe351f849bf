#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""flat_run_hard_test.py FATHOM PROGRAM: `fathom flat run` where it is hard.

PROGRAM is flat_run_hard.c: each of its topics ends well without Fathom, and with an eighth of its memory as well."""
import signal

from flat_run_fixture import PROGRAM, device, expect, expect_ok, flat, main, plain


def test_topics():
    for topic in ["waiting", "vectors", "messages", "leaves", "sent", "stacks", "within"]:
        expect_ok(f"{topic}, without Fathom", plain([PROGRAM, topic]))
        for policy in ["always", "counters"]:
            dram = "4M" if topic == "messages" else "6M"
            expect_ok(f"{topic}, {policy}",
                      flat(["--memory", dram, "--flash", device, "--policy", policy], [PROGRAM, topic]))
    done = flat(["--memory", "6M", "--flash", device], [PROGRAM, "sent-by-default"])
    expect(done.returncode == -signal.SIGSEGV, "SIGSEGV that is sent", done)


main([test_topics])
