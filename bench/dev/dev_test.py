#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Reading fio's JSON, and the list of depths."""
import os
import sys
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../common")]
from bench_cli import Failed, Usage
import bench_dev

TYPICAL = """{"fio version" : "fio-3.33", "global options" : {"rw" : "read"},
  "jobs" : [{"job options" : {"name" : "read", "rw" : "randread"},
             "read" : {"bw_bytes" : 1, "iops" : 138241.5, "iops_min" : 7}, "write" : {"iops":2048}}]}"""


class Fio(unittest.TestCase):
    def test_the_right_number_is_found(self):
        self.assertEqual(bench_dev.parse_fio(TYPICAL, "read"), 138241.5)
        self.assertEqual(bench_dev.parse_fio(TYPICAL, "write"), 2048)

    def test_anything_else_is_an_error(self):
        for text in ("", "fio: failed", '{"jobs":', '{"jobs":[]}', '{"jobs":[{"read":"no","iops":1}]}',
                     '{"jobs":[{"read":{"iops":"x"}}]}', '{"jobs":[{"read":{"iops":0}}]}', '{"read":{"iops":1}}'):
            with self.subTest(text=text), self.assertRaises(Failed):
                bench_dev.parse_fio(text, "read")

    def test_colons_in_paths(self):
        command = bench_dev.fio_command("a:b\\c", "read", {"half": 8, "direct": True}, 1, 1, 0.5)
        self.assertIn("--filename=a\\:b\\\\c", command)
        self.assertIn("--runtime=500ms", command)


class Depths(unittest.TestCase):
    def test_depths(self):
        self.assertEqual(bench_dev.parse_depths("1,32"), [1, 32])
        for text in ("", "0", "1,", "x", "1025", ",".join(["1"] * 17)):
            with self.subTest(text=text), self.assertRaises(Usage):
                bench_dev.parse_depths(text)


if __name__ == "__main__":
    unittest.main()
