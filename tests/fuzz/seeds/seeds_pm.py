#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the seed corpus of fuzz_pm: python3 tests/fuzz/seeds/seeds_pm.py

Each seed changes a few bytes of one part, with the checks that cover it made to hold again or not.
"""
import pathlib
import struct

HERE = pathlib.Path(__file__).parent.parent / "corpus" / "fuzz_pm"
MEMORY, HCL, HCL_ENTRIES, CONV, CONV_ENTRIES, CHECKPOINTS, RECORDS, TX, TX_ENTRIES, ANYWHERE = range(10)
SET, XOR, ADD, EDGE = range(4)
FIX_MEMORY, FIX_AREAS, FIX_RECORDS, FIX_ENTRY = 1, 2, 4, 8


def change(part, at, how, value):
    return bytes([part]) + struct.pack("<H", at) + bytes([how, value])


SEEDS = {
    "nothing": bytes([0]),
    "memory-length": bytes([FIX_MEMORY]) + change(MEMORY, 24, EDGE, 6),
    "memory-version": bytes([0]) + change(MEMORY, 8, ADD, 1),
    "hcl-threads": bytes([FIX_AREAS]) + change(HCL, 32, EDGE, 4),
    "hcl-entries": bytes([FIX_AREAS]) + change(HCL, 40, EDGE, 5),
    "hcl-entry": bytes([0]) + change(HCL_ENTRIES, 130, XOR, 4),
    "conv-partitions": bytes([FIX_AREAS]) + change(CONV, 48, EDGE, 4),
    "conv-bytes": bytes([FIX_AREAS]) + change(CONV, 56, EDGE, 1),
    "conv-entry-length": bytes([0]) + change(CONV_ENTRIES, 128, SET, 255),
    "checkpoint-groups": bytes([FIX_AREAS]) + change(CHECKPOINTS, 12, SET, 255),
    "checkpoint-capacity": bytes([FIX_AREAS]) + change(CHECKPOINTS, 24, EDGE, 6),
    "record-bytes": bytes([FIX_RECORDS]) + change(RECORDS, 144, EDGE, 7),
    "record-version": bytes([FIX_RECORDS]) + change(RECORDS, 128, EDGE, 6),
    "tx-lanes": bytes([FIX_AREAS]) + change(TX, 12, SET, 200),
    "tx-lane-bytes": bytes([FIX_AREAS]) + change(TX, 16, EDGE, 1),
    "entry-offset": bytes([FIX_ENTRY]) + change(TX_ENTRIES, 64, EDGE, 5),
    "entry-onto-the-log": bytes([FIX_ENTRY]) + change(TX_ENTRIES, 64, EDGE, 7) + change(TX_ENTRIES, 66, SET, 1),
    "entry-length": bytes([FIX_ENTRY]) + change(TX_ENTRIES, 72, SET, 255) + change(TX_ENTRIES, 73, SET, 3),
    "entry-previous": bytes([FIX_ENTRY]) + change(TX_ENTRIES, 88, SET, 64),
    "anywhere": bytes([0]) + change(ANYWHERE, 40000, XOR, 1) + change(ANYWHERE, 50000, XOR, 128),
}

HERE.mkdir(parents=True, exist_ok=True)
for name, data in SEEDS.items():
    (HERE / name).write_bytes(data)
print(f"{len(SEEDS)} seeds in {HERE}")
