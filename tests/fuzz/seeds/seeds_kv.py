#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the seed corpus of fuzz_kv_image: python3 tests/fuzz/seeds/seeds_kv.py

Each seed changes a field or two of the image that fuzz_kv_image.c makes, in some of its modes, so
that mutations begin behind the checksums.
"""
import pathlib
import struct

HERE = pathlib.Path(__file__).parent.parent / "corpus" / "fuzz_kv_image"
SET, XOR, ADD, EDGE = range(4)
SUPER, SUPER_AGAIN, INDEX_HEADER, BUCKETS, MOVED, CHUNK_HEADER, RECORDS, ANYWHERE = range(8)
LOSS, SEAL_SUPER, SEAL_INDEX, SEAL_CHUNK, SEAL_RECORD = 1, 2, 4, 8, 16


def change(area, offset, how, value, which=0):
    return bytes([area + 8 * which]) + struct.pack("<I", offset)[:3] + bytes([how, value])


def supers(offset, how, value):
    return change(SUPER, offset, how, value) + change(SUPER_AGAIN, offset, how, value)


def indexes(area, offset, how, value):
    return change(area, offset, how, value) + change(area, offset, how, value, which=1)


BODIES = {
    "untouched": b"",
    "super-magic": supers(0, XOR, 1),
    "super-chunk": supers(16, EDGE, 4),
    "super-chunk-double": supers(18, ADD, 1),
    "super-chunks": supers(24, EDGE, 2),
    "super-buckets": supers(32, EDGE, 2),
    "super-buckets-more": supers(32, ADD, 50),
    "super-index-at": supers(40, EDGE, 2),
    "super-log-at": supers(57, ADD, 16),
    "super-which": supers(72, XOR, 1),
    "super-number": supers(80, ADD, 1),
    "super-flight": supers(96, EDGE, 0),
    "super-one": change(SUPER, 100, XOR, 255),
    "index-moved": indexes(INDEX_HEADER, 32, EDGE, 4),
    "index-replay": indexes(INDEX_HEADER, 40, EDGE, 0),
    "index-replay-far": indexes(INDEX_HEADER, 40, EDGE, 3),
    "index-replay-next": indexes(INDEX_HEADER, 42, ADD, 1),
    "index-next": indexes(INDEX_HEADER, 48, EDGE, 2),
    "index-clean": indexes(INDEX_HEADER, 56, XOR, 1),
    "index-flush": indexes(INDEX_HEADER, 72, EDGE, 2),
    "bucket-where": indexes(BUCKETS, 0, EDGE, 2) + indexes(BUCKETS, 64, EDGE, 2),
    "bucket-length": indexes(BUCKETS, 1, ADD, 127) + indexes(BUCKETS, 129, ADD, 127),
    "bucket-kind": indexes(BUCKETS, 8, XOR, 1) + indexes(BUCKETS, 72, XOR, 3),
    "moved-entry": indexes(INDEX_HEADER, 32, SET, 2) + indexes(MOVED, 8, SET, 2)
    + indexes(MOVED, 16, SET, 3),
    "chunk-number": change(CHUNK_HEADER, 16, ADD, 1, which=1),
    "chunk-before": change(CHUNK_HEADER, 24, ADD, 16, which=2),
    "chunk-gone": change(CHUNK_HEADER, 0, EDGE, 0, which=1),
    "record-length": change(RECORDS, 48 + 4, EDGE, 2),
    "record-length-short": change(RECORDS, 48 + 5, ADD, 255),
    "record-type": change(RECORDS, 48 + 8, SET, 0, which=1),
    "record-gone": change(RECORDS, 48 + 8, SET, 2),
    "record-flush": change(RECORDS, 48 + 8, SET, 3),
    "record-pad": change(RECORDS, 48 + 8, SET, 4),
    "record-key": change(RECORDS, 48 + 9, SET, 255),
    "record-key-none": change(RECORDS, 48 + 9, SET, 0),
    "record-value": change(RECORDS, 1000, XOR, 4, which=1),
}


def main():
    HERE.mkdir(parents=True, exist_ok=True)
    for name, body in BODIES.items():
        for mode in (0, LOSS, SEAL_SUPER | SEAL_INDEX, 31, 30):
            (HERE / f"{name}-{mode}").write_bytes(bytes([mode]) + body)


main()
