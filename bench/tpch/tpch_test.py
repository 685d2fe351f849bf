#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Answers are compared as bench_tpch.py promises, and shuffling lines loses none."""
import os
import sys
import tempfile
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../common")]
import bench_cli
import tpch_answer
import tpch_data

LINES = 30000
tpch_data.PART_BYTES = 1 << 20  # four parts


class Answers(unittest.TestCase):
    def compare(self, got, expected, skip=0):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("got", got), ("expected", expected)):
                with open(os.path.join(folder, name), "w") as file:
                    file.write(text)
            tpch_answer.compare(folder + "/got", folder + "/expected", skip)

    def test_equal_answers(self):
        self.compare("", "")
        self.compare("\n", "\n")  # a row with one null
        self.compare("a|1\nb|2\n", "a|1\nb|2\n")
        self.compare("a|1\n", "name|n\na|1\n", 1)
        self.compare("a  |1\n", "a|1\n")
        self.compare("0.05008133906964237698|x\n", "0.05008133906964238|x\n")
        self.compare("5|-7.00\n", "5|-7\n")

    def test_rows_in_any_order(self):
        self.compare("b|2\na|1\nc|3\n", "c|3\nb|2\na|1\n")
        self.compare("1.0000000000001|x\n1|y\n", "1|y\n1.0|x\n")

    def test_different_answers(self):
        pairs = [("a|1\n", "a|2\n"), ("a|1\n", "a|1\na|1\n"), ("a|1\na|1\n", "a|1\na|2\n"), ("\n", ""), ("a|1|\n", "a|1\n"),
                 ("a\n", "a|1\n"), ("|1\n", "0|1\n"), ("100.001\n", "100.002\n"), ("1995-03-05\n", "1995-03-06\n"),
                 ("nan\n", "inf\n"), ("1_0\n", "10\n")]
        for got, expected in pairs:
            with self.subTest(got=got, expected=expected), self.assertRaises(bench_cli.Failed):
                self.compare(got, expected)

    def test_known_answers(self):
        """Query 11 has no rows at scale factor 10; any row is wrong then."""
        self.assertEqual(sorted(tpch_answer.KNOWN), [0.01, 1, 10])
        self.assertTrue(all(len(digests) == 22 for digests in tpch_answer.KNOWN.values()))
        tpch_answer.verify(10.0, 11, 0, 0)
        for scale, rows, digest in ((1.0, 0, 0), (10.0, 1, 0x123)):
            with self.assertRaises(bench_cli.Failed):
                tpch_answer.verify(scale, 11, rows, digest)

    def test_a_missing_file(self):
        with self.assertRaises(FileNotFoundError):
            tpch_answer.compare("/nowhere/a", "/nowhere/b")


class Shuffle(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.plain = os.path.join(self.folder.name, "plain")
        with open(self.plain, "w") as file:
            file.writelines("%d|%s\n" % (i, "0" * (100 + i % 7)) for i in range(LINES))

    def shuffled(self, seed):
        """Numbers of the lines, in order. Each line must be whole, and come once."""
        target = os.path.join(self.folder.name, "shuffled")
        tpch_data.shuffle_lines(self.plain, target, seed)
        with open(target) as file:
            lines = [line.rstrip("\n").split("|") for line in file]
        numbers = [int(number) for number, _ in lines]
        self.assertEqual(sorted(numbers), list(range(LINES)))
        self.assertTrue(all(len(rest) == 100 + number % 7 for number, (_, rest) in zip(numbers, lines)))
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["plain", "shuffled"])
        return numbers

    def test_every_order_is_likely(self):
        """Half of the neighbours ascend, and 9/16 of the lines move by more than a quarter."""
        numbers = self.shuffled(7)
        ascending = sum(a < b for a, b in zip(numbers, numbers[1:]))
        moved_far = sum(abs(number - i) > LINES // 4 for i, number in enumerate(numbers))
        self.assertTrue(0.49 < ascending / LINES < 0.51)
        self.assertTrue(0.55 < moved_far / LINES < 0.58)

    def test_the_seed_decides(self):
        first = self.shuffled(7)
        self.assertEqual(first, self.shuffled(7))
        self.assertNotEqual(first, self.shuffled(8))


if __name__ == "__main__":
    unittest.main()
