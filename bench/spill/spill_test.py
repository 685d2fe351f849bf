#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Queries, sides and sums of bench_spill.py: a query that did not finish stays in the report."""
import os
import resource
import sys
import types
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), folder)
                for folder in (".", "../common", "../tpch")]
import bench_cli
import bench_process
import bench_spill
import spill_queries
from bench_spill import Query, Side


def finished(what, cpu):
    side = Side(what)
    side.note(lambda: {"cpu_s": cpu, "wall_s": 1, "read_bytes": 0, "spilled_bytes": 0,
                       "peak_rss_bytes": 0}, 60)
    return side


def failed(what, text, deadline=60):
    def fail():
        raise bench_cli.Failed(text)

    side = Side(what)
    side.note(fail, deadline)
    return side


def query_of(group, much, peer, little=None):
    query = Query(None, group, "q", "select 1")
    query.much, query.peer, query.little = much, peer, little or Side("little")
    return query


class Queries(unittest.TestCase):
    def test_all_are_there(self):
        self.assertEqual((len(spill_queries.SPILL), len(spill_queries.TEXT)), (30, 12))
        self.assertEqual(len(spill_queries.KNOWN), 42)  # names are unique
        self.assertTrue(all(spill_queries.KNOWN.values()))

    def test_choice(self):
        self.assertEqual(len(bench_spill.choose_queries(None, 1)), 42)
        self.assertEqual(len(bench_spill.choose_queries("text", 1)), 12)
        chosen = bench_spill.choose_queries("j-self,s-comment", 2)
        self.assertEqual([name for _, name, _ in chosen], ["s-comment", "j-self"])
        self.assertIn("offset 8000000", chosen[0][2])
        for text in ("nosuch", "text,", "j-self,x"):
            with self.subTest(text=text), self.assertRaises(bench_cli.Usage):
                bench_spill.choose_queries(text, 1)


class Sides(unittest.TestCase):
    def test_deadline(self):
        """A program that computes without end is stopped by the kernel, and has a least time."""
        limits = {"prepare": lambda: resource.setrlimit(resource.RLIMIT_CPU, (1, 2)), "seconds": 60}
        side = Side("memory")
        side.note(lambda: bench_process.run(["python3", "-c", "while True: pass"], **limits), 1)
        self.assertEqual((side.error, side.least), ("over 1 processor seconds", 1.0))
        self.assertEqual(failed("memory", "x does not end within 240 s").error, "over 240 s")

    def test_ratios(self):
        much, little = finished("memory", 2.0), finished("little", 5.0)
        query = query_of("spill", much, Side("rival"), little)
        self.assertEqual(query.ratio(little, much), (2.5, False))
        over = failed("little", "fathom-bench was killed by signal 24")
        self.assertEqual(query.ratio(over, much), (30.0, True))
        self.assertEqual(query.ratio(failed("little", "too little memory"), much), (None, False))
        self.assertEqual(query.ratio(little, over), (None, False))

    def test_sums(self):
        """Over the queries that the peer finishes; ours counts with its deadline."""
        bench = bench_spill.Bench(types.SimpleNamespace(order="made", queries="t-part", sf=1), None)
        bench.rival = types.SimpleNamespace(name="duckdb")
        bench.queries = [
            query_of("text", finished("memory", 2.0), finished("rival", 4.0)),
            query_of("text", failed("memory", "killed by signal 24"), finished("rival", 1.0)),
            query_of("text", finished("memory", 7.0), failed("rival", "Out of Memory Error"))]
        self.assertEqual(bench.sums("text"), (62.0, 5.0, 1))
        self.assertEqual(bench.over_limit("text", "much", "peer", 1.0), (1, 2))
        self.assertEqual((bench.failed(), bench.wrong()), (1, 0))

    def test_a_wrong_answer(self):
        def compare():
            raise bench_cli.Failed("3 rows, expected 4")

        query = query_of("text", finished("memory", 2.0), finished("rival", 4.0))
        query.much.note_wrong(compare)
        self.assertTrue(query.much.wrong)
        self.assertEqual(query.much.text(), "failed")


if __name__ == "__main__":
    unittest.main()
