# SPDX-License-Identifier: BSD-2-Clause
"""Comparing the answers of two engines.

An answer is a file of rows, a line each, fields separated by '|'. Fields are equal if their bytes are, blanks at the end
aside, or if both are numbers that differ by at most 1e-9 of the larger: one engine has averages as decimals, another
one as doubles. Rows may be in any order, since rows of equal sort key are.
"""
import functools
import math

import bench_cli

TOLERANCE = 1e-9

# Digests of the 22 answers: the sum of the checksums of the rows. They are of our answers after they had been compared with
# DuckDB's on the same tables and, at scale factor 1, with the published ones. Query 11 has no rows at scale factor 10.
KNOWN = {
    0.01: (
        0x951fc603b3ea2ffd, 0x41584bfaa7cce415, 0x758a15540d59bdb5, 0x44474ee3a2608701, 0x451a864e8ff3ec45, 0x96d8bcafd05f9dd7,
        0xbc9a8f2c518f24fb, 0x24759ee7a3401f4b, 0x8cdbe2e06071d96d, 0x7da3fa1a7cc6d369, 0x42ec91bbeb93ce2f, 0x3024cd09ccd9b256,
        0x72bd462d3a05fdc8, 0xce49974aff00f600, 0x21a0955946e5d246, 0xed5d4b22f008aaea, 0x2d06800538d394c2, 0xecd6fabe0c2e6cd3,
        0x7b9874ded36944ae, 0xbe7996631281becd, 0xa8d958c4e3f71d28, 0x3c2352fa33d26d32,
    ),
    1: (
        0x23731dbe4d443d82, 0x780eebff8c5529bd, 0x62c30a43fc82b95e, 0x61ea93ecdb2b5f88, 0x29161f4ba85ecee3, 0x7b850113b0917ccb,
        0x5b12539958952566, 0x457a48ccd45cde99, 0x8d87ceaa93db0c0c, 0xf452af6c0b300f4e, 0x7dcd4ebf8664745d, 0x8d53726f78f8f19d,
        0xa4ee170e499935c4, 0x8044522849be7bf1, 0x0e178e1dd7284e02, 0x99dca94aaba57777, 0x72bb7468eb3daa66, 0x1d2dfd243306b7e5,
        0xbee6fed5fae4c507, 0xa0f66335121eed81, 0xc56834e380ef1a76, 0x0ce726243924e4a6,
    ),
    10: (
        0x3cbb6182626f513f, 0x171cc5e80db18d63, 0x78add547a0f49e69, 0xed1de8eb8511057b, 0x0408d12bcfc6880d, 0xb74dd8dd8c7ab3ed,
        0xa509221abab2a4aa, 0xb821f0081cdbf65c, 0x19857786c9ec9c25, 0x3949b0aa26f82f0e, 0, 0xf2b4f1bdb979c966,
        0xab5107c0429919ef, 0x408636a9415a89fc, 0xe125abeaac181a1d, 0x5489a170ff83dfea, 0xfe8a4cfe145d4348, 0xf03fb8df78c1c3af,
        0x4dd184a477a47469, 0xdc97619cd330adbd, 0xdec39ce925e408b1, 0x9f66157b00c1acfc,
    ),
}


def read_rows(path, skip=0):
    """skip: lines at the top that are no rows."""
    with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        text = file.read()
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.split("|") for line in lines[skip:]]


def number_of(field):
    try:
        value = float(field) if len(field) < 64 and "_" not in field else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def same_field(a, b):
    a, b = a.rstrip(" "), b.rstrip(" ")
    if a == b:
        return True
    x, y = number_of(a), number_of(b)
    return x is not None and y is not None and abs(x - y) <= TOLERANCE * max(abs(x), abs(y))


def same_row(a, b):
    return len(a) == len(b) and all(map(same_field, a, b))


def compare_rows(a, b):
    """Order rows by the text of the first field that differs, so that rows of both files which count as equal get the same
    place."""
    for x, y in zip(a, b):
        if not same_field(x, y):
            return -1 if x < y else 1
    return len(a) - len(b)


def compare(got_path, expected_path, skip=0):
    """Raises Failed with the first difference. skip: lines at the top of `expected` that are no rows."""
    got, expected = read_rows(got_path), read_rows(expected_path, skip)
    if len(got) != len(expected):
        raise bench_cli.Failed("%d rows, expected %d" % (len(got), len(expected)))
    if all(map(same_row, got, expected)):
        return
    got.sort(key=functools.cmp_to_key(compare_rows))
    expected.sort(key=functools.cmp_to_key(compare_rows))
    for number, (a, b) in enumerate(zip(got, expected), 1):
        if not same_row(a, b):
            raise bench_cli.Failed("row %d is %.100s, expected %.100s" % (number, "|".join(a), "|".join(b)))


def verify(scale, query, rows, digest):
    """Compare with the known digest of the answer of a query at a scale factor."""
    expected = KNOWN[scale][query - 1]
    if digest != expected:
        raise bench_cli.Failed("%d rows with digest 0x%016x, expected 0x%016x" % (rows, digest, expected))
