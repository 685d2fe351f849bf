#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the seed corpus of fuzz_vol: python3 tests/fuzz/seeds/seeds_vol.py

Each seed changes a field or two of the volume that fuzz_vol.c makes, in each of its modes, so that
mutations begin behind the checksums.
"""
import pathlib
import struct

HERE = pathlib.Path(__file__).parent.parent / "corpus" / "fuzz_vol"
SET, XOR, ADD, EDGE = range(4)
LABEL0, LABEL1, SLOT0, SLOT1 = range(4)


def change(area, offset, how, value, device=0):
    return bytes([device | area << 1]) + struct.pack("<H", offset) + bytes([how, value])


def both_slots(offset, how, value):
    return change(SLOT0, offset, how, value) + change(SLOT1, offset, how, value)


BODIES = {
    "untouched": b"",
    "label-version": change(LABEL0, 8, SET, 1) + change(LABEL1, 8, SET, 1),
    "label-index": change(LABEL0, 32, SET, 1),
    "label-count": change(LABEL0, 36, SET, 3),
    "label-size": change(LABEL0, 41, ADD, 1),
    "label-areas": change(LABEL0, 72, EDGE, 2) + change(LABEL0, 80, EDGE, 3),
    "label-quorum-none": change(LABEL0, 88, SET, 0) + change(LABEL1, 88, SET, 0),
    "label-quorum": change(LABEL0, 88, SET, 2) + change(LABEL1, 88, SET, 2),
    "label-end": change(LABEL1, 20, XOR, 1, device=1),
    "head-objects": both_slots(12, ADD, 1),
    "head-bytes": both_slots(40, ADD, 8),
    "head-sequence": both_slots(32, EDGE, 2),
    "head-next-id": both_slots(64, EDGE, 0),
    "record-bytes": both_slots(128, ADD, 8),
    "record-name": both_slots(132, ADD, 1),
    "record-width": both_slots(134, SET, 3),
    "record-replicas": both_slots(135, SET, 2),
    "record-id": both_slots(136, EDGE, 0),
    "record-size": both_slots(145, ADD, 64),
    "record-stale": both_slots(152, SET, 3),
    "record-unit": both_slots(160, SET, 3),
    "record-segments": both_slots(164, EDGE, 2),
    "record-first": both_slots(168, SET, 9),
    "record-flags": both_slots(169, SET, 1),
    "rows": both_slots(176, EDGE, 2),
    "extent": both_slots(184, EDGE, 5),
    "extent-moved": both_slots(185, ADD, 16),
    "name": both_slots(200, SET, 255),
    "one-slot": change(SLOT1, 145, ADD, 1, device=1),
}


def main():
    HERE.mkdir(parents=True, exist_ok=True)
    for name, body in BODIES.items():
        for mode in (0, 3, 7, 15):
            (HERE / f"{name}-{mode}").write_bytes(bytes([mode]) + body)


main()
