#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""How memcached is configured, which rows run, and how a load becomes metrics."""
import os
import sys
import types
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../common")]
from bench_cli import Usage
import bench_kv
import kv_server


class Memcached(unittest.TestCase):
    def options(self, items, value, flash):
        return kv_server.Memcached("memcached", items, value, 64 << 20, 1, flash, "/f").options()

    def test_options(self):
        self.assertEqual(self.options(1 << 20, 1024, 0), "hashpower=20")
        self.assertEqual(self.options((1 << 20) + 1, 1024, 0), "hashpower=21")
        self.assertEqual(self.options(100, 100, 1), "hashpower=16,ext_path=/f:512M,ext_threads=8,ext_item_age=0,ext_item_size=50")
        self.assertIn("ext_path=/f:640M", self.options(100, 4096, (640 << 20) - 1))
        self.assertIn("ext_item_size=512", self.options(100, 4096, 1))

    def test_device_of_no_file(self):
        self.assertEqual(kv_server.device_reads(None), 0)


class Rows(unittest.TestCase):
    def test_choice(self):
        self.assertEqual([row.name for row in bench_kv.choose_rows("huge,cold")], ["cold", "huge"])
        self.assertNotIn("huge", [row.name for row in bench_kv.choose_rows(None)])
        with self.assertRaisesRegex(Usage, "unknown row nosuch"):
            bench_kv.choose_rows("cold,nosuch")

    def test_metrics(self):
        before = types.SimpleNamespace(cpu=1.0, rss=1, read=0, written=0, device_reads=10)
        after = types.SimpleNamespace(cpu=1.5, rss=7, read=4096, written=0, device_reads=14)
        result = {"ns": 2e9, "gets": 4, "sets": 1, "hits": 3, "p50_us": 1, "p99_us": 2, "p999_us": 3}
        metrics = bench_kv.Measured(bench_kv.ROWS[0], True).metrics_of(result, before, after)
        self.assertEqual(sorted(metrics), sorted(bench_kv.METRICS))
        self.assertEqual([metrics[name] for name in ("keys_per_second", "cpu_us", "rss", "device_reads", "read_bytes", "hits")],
                         [2.5, 1e5, 7, 1, 1024, 0.75])


if __name__ == "__main__":
    unittest.main()
