#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Results of graph algorithms are compared, and the output of GAPBS is read, as the benchmarks promise."""
import os
import sys
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../common")]
from bench_cli import Failed
import bench_graph
import bench_graphmem

DIGEST = {"bad_parents": 0, "reached": 5, "depths": 77, "sum": 1.0, "weighted": 3.5, "sample": [0.1, 0.2, 0.3]}


class Digests(unittest.TestCase):
    def differs(self, **changes):
        with self.assertRaises(Failed):
            bench_graph.compare_digests(DIGEST, {**DIGEST, **changes})

    def test_ranks_may_differ_by_rounding_only(self):
        bench_graph.compare_digests(DIGEST, {**DIGEST, "sum": 1 + 1e-9, "sample": [0.1, 0.2 * (1 + 1e-9), 0.3]})
        self.differs(sum=1.001)
        self.differs(weighted=3.51)
        self.differs(sample=[0.1, 0.201, 0.299])

    def test_searches_that_differ(self):
        self.differs(reached=4)
        self.differs(depths=78)
        self.differs(bad_parents=1)


class Trials(unittest.TestCase):
    def test_times(self):
        output = "Source: 5\nTrial Time:          0.01500\nTrial Time: 0.02\nAverage Time: 0.0175\n"
        self.assertEqual(bench_graphmem.parse_trials(output, 2), [0.015, 0.02])
        with self.assertRaisesRegex(Failed, "2 trials, expected 3"):
            bench_graphmem.parse_trials(output, 3)

    def test_verification(self):
        bench_graphmem.parse_trials("Trial Time: 1\nVerification:           PASS\n", 1)
        with self.assertRaisesRegex(Failed, "wrong result"):
            bench_graphmem.parse_trials("Trial Time: 1\nVerification:           FAIL\n", 1)


if __name__ == "__main__":
    unittest.main()
