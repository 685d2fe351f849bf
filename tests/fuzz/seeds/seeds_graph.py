#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the seed corpus of fuzz_graph: python3 tests/fuzz/seeds/seeds_graph.py"""
import pathlib
import struct

HERE = pathlib.Path(__file__).parent.parent / "corpus" / "fuzz_graph"
MATRIX, ONE_BASED, WEIGHTED, SCALED, RELABEL, COMMAS, HEADER = 1, 2, 4, 8, 16, 32, 0x80
SECTION = 65536


def header(vertices, edges, weighted, name=b"a graph"):
    def align(n):
        return (n + SECTION - 1) // SECTION * SECTION

    offsets_at = SECTION
    edges_at = offsets_at + align((vertices + 1) * 8)
    end = edges_at + align(edges * 4)
    weights_at = end if weighted else 0
    total = end + align(edges * 4) if weighted else end
    return (b"FTHGRAPH" + struct.pack("<IIQQIIQQQQQ", 1, 3 if weighted else 1, vertices, edges, 4,
                                      4 if weighted else 0, offsets_at, edges_at, weights_at,
                                      total, 7) + name.ljust(96, b"\0") + bytes(8))


def labelled(vertices, edges, label_bytes):
    index = (vertices * 8 + 8 + SECTION - 1) // SECTION * SECTION
    text = (label_bytes + SECTION - 1) // SECTION * SECTION
    ends = [SECTION + index, SECTION + 2 * index, SECTION + 2 * index + text]
    total = ends[2] + (edges * 4 + SECTION - 1) // SECTION * SECTION
    return (b"FTHGRAPH" + struct.pack("<IIQQIIQQQQQ", 1, 4, vertices, edges, 4, 0, SECTION, ends[2],
                                      0, total, 7) + b"a graph".ljust(96, b"\0") + bytes(8)
            + struct.pack("<QQQIIQ", ends[0], ends[1], label_bytes, 9, 0, 0))


def banner(field, symmetry):
    return f"%%MatrixMarket matrix coordinate {field} {symmetry}\n% words\n".encode()


SEEDS = {
    "list": bytes([0]) + b"# comment\n0 1\n2 0\n\n3 3\n",
    "list-one": bytes([ONE_BASED]) + b"1 2\n4294967295 1\n",
    "list-weights": bytes([WEIGHTED]) + b"0 1 5\n1 0 4294967294\n",
    "list-scaled": bytes([WEIGHTED | SCALED]) + b"0 1 0.25\n1 0 1e3\n",
    "list-names": bytes([RELABEL | WEIGHTED]) + b"bob alice 5\r\n\tcarol bob 4294967294\n",
    "list-quoted": bytes([RELABEL | COMMAS]) + b'"New York",b,3\nc,"d, ""e"""\n',
    "list-header": bytes([RELABEL]) + b"source target\n1 2\n",
    "header-labels": bytes([HEADER | 1]) + labelled(1000, 9000, 5000),
    "list-large": bytes([0]) + b"4294967294 99999999999999999999\n",
    "matrix": bytes([MATRIX]) + banner("pattern", "general") + b"3 4 2\n1 4\n3 1\n",
    "matrix-real": bytes([MATRIX | WEIGHTED | SCALED]) + banner("real", "symmetric")
    + b"2 2 1\n2 1 0.5\n",
    "matrix-whole": bytes([MATRIX | WEIGHTED]) + banner("integer", "general") + b"2 2 1\n2 1 7\n",
    "matrix-empty": bytes([MATRIX]) + banner("pattern", "general") + b"9 9 0\n",
    "header": bytes([HEADER | 1]) + header(1000, 5000, False),
    "header-weighted": bytes([HEADER | 1]) + header(1 << 20, 1 << 24, True),
    "header-damaged": bytes([HEADER]) + header(1000, 5000, False),
    "header-name": bytes([HEADER | 1]) + header(1, 0, False, b"x" * 96),
}

HERE.mkdir(parents=True, exist_ok=True)
for seed, content in SEEDS.items():
    (HERE / seed).write_bytes(content)
