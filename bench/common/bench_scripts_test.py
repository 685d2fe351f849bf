#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Options, processes and reports of the benchmarks that are scripts."""
import contextlib
import io
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bench_cli
import bench_process
import bench_report
from bench_cli import Option

OPTIONS = [Option("sf", "double", 1.0, "scale"), Option("size", "size", 64 << 20, "bytes", 4096, 1 << 30),
           Option("rival-name", "string", None, "of it"), Option("soft", "flag", False, "less"), bench_cli.ROUNDS]


class Options(unittest.TestCase):
    def test_values(self):
        values = bench_cli.parse_words(OPTIONS, ["--sf", "0.5", "--size=1.5M", "--rival", "x", "--soft"])
        self.assertEqual((values.sf, values.size, values.rival_name, values.soft, values.rounds), (0.5, 3 << 19, "x", True, 3))

    def test_help(self):
        self.assertIsNone(bench_cli.parse_words(OPTIONS, ["--help"]))
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            bench_cli.print_help("x", "Text.", OPTIONS)
        self.assertIn("  --size SIZE               bytes [64M]\n", out.getvalue())

    def test_invalid_options(self):
        for words in (["--nosuch"], ["--s", "1"], ["--sf"], ["--sf", "x"], ["--size", "1K"], ["--size", "x"], ["--soft=1"],
                      ["word"], ["--rounds", "0"], ["--rounds", "-1"], ["-x"]):
            with self.subTest(words=words), self.assertRaises(bench_cli.Usage):
                bench_cli.parse_words(OPTIONS, words)

    def test_sizes(self):
        for text, value in (("1", 1), ("64K", 65536), ("1.5G", 3 << 29), ("4GB", 4 * 10**9), ("4GiB", 4 << 30), ("2B", 2)):
            self.assertEqual(bench_cli.parse_size(text), value, text)
        for text in ("", "K", "1.5", "1X", "-1", "1 K", "1KK", "1iB"):
            self.assertIsNone(bench_cli.parse_size(text), text)
        self.assertEqual(bench_cli.size_text(3 << 19), "1536K")

    def test_completion(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            bench_cli.complete(OPTIONS, [], "--s")
            bench_cli.complete(OPTIONS, ["--sf"], "--s")
            bench_cli.complete(OPTIONS, [], "x")
        self.assertEqual([line.split("\t")[0] for line in out.getvalue().splitlines()], ["--sf", "--size", "--soft"])


class Processes(unittest.TestCase):
    def test_output(self):
        self.assertEqual(bench_process.run(["echo", "a"]).text, "a\n")

    def test_failures(self):
        with self.assertRaisesRegex(bench_cli.Failed, "^last$"):
            bench_process.run(["sh", "-c", "echo first >&2; echo fathom: last >&2; exit 3"])
        with self.assertRaisesRegex(bench_cli.Failed, "sh was killed by signal 9"):
            bench_process.run(["sh", "-c", "kill -9 $$"])
        with self.assertRaisesRegex(bench_cli.Skipped, "no GPU"):
            bench_process.run(["sh", "-c", "echo no GPU >&2; exit 77"])
        with self.assertRaises(bench_cli.Skipped):
            bench_process.run(["fathom-no-such-program"])

    def test_deadline(self):
        with self.assertRaisesRegex(bench_cli.Failed, "does not end"):
            bench_process.run(["sleep", "60"], seconds=0.1)

    def test_conversation(self):
        with bench_process.Conversation(["sh", "-c", 'while read a b; do echo "[\\"$b $a\\"]"; done']) as program:
            self.assertEqual(program.ask("x", 1), ["1 x"])
        with self.assertRaisesRegex(bench_cli.Failed, "^why$"):
            with bench_process.Conversation(["sh", "-c", "read a; echo why >&2; exit 1"]) as program:
                program.ask("x")

    def test_own_figures(self):
        self.assertGreater(bench_process.peak_bytes(os.getpid()), 1 << 20)
        self.assertGreaterEqual(bench_process.cpu_seconds(os.getpid()), 0)


class Reports(unittest.TestCase):
    def test_medians(self):
        rounds = bench_report.Rounds()
        for ours, peer in ((3, 1), (1, 2), (2, 4)):
            rounds.add(ours, peer)
        self.assertEqual((rounds.ours, rounds.peer, rounds.ratio), (2, 2, 1))

    def test_json(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            bench_report.print_json("x", 1.5, 0, float("inf"), sf=1, runs=[float("nan")])
        self.assertEqual(out.getvalue(), '{"bench":"x","ours":1.5,"peer":0,"ratio":null,"sf":1,"runs":[null]}\n')


if __name__ == "__main__":
    unittest.main()
