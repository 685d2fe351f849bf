#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The header of a swap file is what the kernel reads, and the sides are those that were asked for."""
import os
import struct
import sys
import types
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../common")]
from bench_cli import Usage
import bench_flatredis
import swap_file


class Swap(unittest.TestCase):
    def test_header(self):
        page = swap_file.header(64 << 20)
        self.assertEqual(len(page), 4096)
        self.assertEqual(struct.unpack_from("<III", page, 1024), (1, 16383, 0))
        self.assertTrue(page.endswith(b"SWAPSPACE2"))


class Sides(unittest.TestCase):
    def sides(self, peer=None, no_peer=False):
        return bench_flatredis.choose_sides(types.SimpleNamespace(peer=peer, no_peer=no_peer))

    def test_choice(self):
        self.assertEqual(self.sides(), ["ours", "swap", "swap_default", "mmap_random", "mmap_default"])
        self.assertEqual(self.sides(peer="swap"), ["ours", "swap"])
        self.assertEqual(self.sides(no_peer=True), ["ours"])
        for peer in ("ours", "nosuch"):
            with self.assertRaises(Usage):
                self.sides(peer=peer)


if __name__ == "__main__":
    unittest.main()
