#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the seed corpora of fuzz_flat_log and fuzz_names: python3 tests/fuzz/seeds/seeds_flat.py

Each seed changes a few bytes of a header, a record or an entry, with the checks made to hold again or not.
"""
import pathlib
import struct

HERE = pathlib.Path(__file__).parent.parent / "corpus"
SET, XOR, ADD, EDGE = range(4)
FIX_HEADERS, FIX_RECORDS = 1, 2


def change(where, at, how, value):
    return bytes([where]) + struct.pack("<H", at) + bytes([how, value])


def both(at, how, value, other=128):
    """The same field of both headers."""
    return change(0, at, how, value) + change(0, at + other, how, value)


LOG = {
    "nothing": bytes([0]),
    "magic": bytes([0]) + both(0, XOR, 1),
    "one-header": bytes([0]) + change(0, 16, XOR, 1),
    "both-headers": bytes([0]) + both(16, XOR, 1),
    "ring-size-0": bytes([FIX_HEADERS]) + both(48, EDGE, 0),
    "ring-size-huge": bytes([FIX_HEADERS]) + both(48, EDGE, 4),
    "guarded-size-0": bytes([FIX_HEADERS]) + both(48, EDGE, 0) + both(40, EDGE, 10),
    "region-size": bytes([FIX_HEADERS]) + both(40, EDGE, 3),
    "tail-huge": bytes([FIX_HEADERS]) + both(56, EDGE, 3),
    "tail-odd": bytes([FIX_HEADERS]) + both(56, SET, 3),
    "sequence": bytes([FIX_HEADERS]) + both(64, SET, 9),
    "epoch": bytes([FIX_HEADERS]) + both(72, ADD, 1),
    "version": bytes([FIX_HEADERS]) + both(76, SET, 7),
    "id": bytes([FIX_HEADERS | FIX_RECORDS]) + both(24, XOR, 1),
    "record-at": bytes([FIX_RECORDS]) + change(1, 520, EDGE, 3),
    "record-edge": bytes([FIX_RECORDS]) + change(1, 520, EDGE, 6),
    "record-length": bytes([FIX_RECORDS]) + change(1, 536, SET, 255),
    "record-sequence": bytes([FIX_RECORDS]) + change(1, 528, EDGE, 3),
    "record-data": bytes([0]) + change(1, 1600, XOR, 1),
}
NAMES = {
    "nothing": bytes([0]),
    "magic": bytes([0]) + both(0, XOR, 1, 64),
    "generation": bytes([FIX_HEADERS]) + both(16, EDGE, 3, 64),
    "sequence": bytes([FIX_HEADERS]) + both(24, EDGE, 3, 64),
    "inode": bytes([FIX_HEADERS]) + both(40, EDGE, 3, 64),
    "entry-op": bytes([FIX_RECORDS]) + change(2, 32, SET, 9),
    "entry-remove": bytes([FIX_RECORDS]) + change(2, 32, SET, 3),
    "entry-length": bytes([FIX_RECORDS]) + change(2, 33, SET, 255) + change(2, 34, SET, 255),
    "entry-empty": bytes([FIX_RECORDS]) + change(2, 33, SET, 0),
    "entry-inode": bytes([FIX_RECORDS]) + change(2, 24, EDGE, 3),
    "entry-name": bytes([0]) + change(2, 600, XOR, 1),
    "zero-in-a-name": bytes([FIX_RECORDS]) + change(2, 42, SET, 0),
}
for folder, seeds in [("fuzz_flat_log", LOG), ("fuzz_names", NAMES)]:
    (HERE / folder).mkdir(parents=True, exist_ok=True)
    for name, seed in seeds.items():
        (HERE / folder / name).write_bytes(seed)
