#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""flat_run_maps_test.py FATHOM PROGRAM: `fathom flat run` with mappings at addresses that the program chooses.

PROGRAM is flat_run_maps.c: each of its topics ends well without Fathom, and with an eighth of its memory as well."""
from flat_run_fixture import PROGRAM, device, expect_ok, flat, main, plain


def test_topics():
    for topic in ["remaps", "remaps-left", "segments", "changes", "pieces"]:
        expect_ok(f"{topic}, without Fathom", plain([PROGRAM, topic]))
        for policy in ["always", "counters"]:
            expect_ok(f"{topic}, {policy}",
                      flat(["--memory", "6M", "--flash", device, "--policy", policy], [PROGRAM, topic]))
        expect_ok(f"{topic}, long pages",
                  flat(["--memory", "24M", "--flash", "mem:128M", "--page", "64K"], [PROGRAM, topic]))


main([test_topics])
