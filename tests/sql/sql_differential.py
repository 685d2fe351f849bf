#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""sql_differential.py [--seed N] [--queries N] [--null TEXT] [--keep] PROGRAM [ARG...]

Compares PROGRAM's answers to random SQL with PostgreSQL's. PROGRAM reads a script from its input and prints
rows as CSV without a header, NULL as the text after --null, and each failure as a line with "ERROR", or one
that begins with "fathom: ". The argument {db} stands for a new, empty folder. A status of 1 says that a statement
failed.

A throw-away PostgreSQL runs in a temporary directory, as an unprivileged user. Exits 77 without one.
Tables have duplicates, NULLs, extreme values; one is empty. With FTH_LONG_TESTS set more is tried.
"""
import argparse
import csv
import glob
import io
import os
import pwd
import random
import re
import shutil
import subprocess
import sys
import tempfile

NULL = "<null>"
MARK = "@@"

# name, type, kind; kinds: i int, l bigint, n decimal, d date, s text, f char, b boolean, x double
COLUMNS = [
    ("a", "int", "i"), ("b", "int", "i"), ("c", "bigint", "l"), ("n", "decimal(12,2)", "n"),
    ("m", "decimal(6,4)", "n"), ("d", "date", "d"), ("s", "varchar(12)", "s"),
    ("f", "char(4)", "f"), ("g", "boolean", "b"), ("x", "double precision", "x"),
]
WORDS = ["", "a", "ab", "abc", "b", "B", "ba%", "a_c", "\u00e4\u00f6", "zebra", "Zebra", "x y", "it''s", "a ", "ab  "]
DATES = ["1992-01-01", "1995-12-31", "1996-02-29", "1998-08-02", "2000-01-31", "1970-01-01",
         "1969-12-31", "2001-03-30"]


class Data:
    """Tables, as SQL that makes them."""

    def __init__(self, rng):
        self.rng = rng
        self.tables = {"t1": 40, "t2": 25, "t3": 0, "t4": 12, "big": 120}

    def value(self, kind, nulls):
        r = self.rng
        if nulls and r.random() < 0.15:
            return "null"
        if kind == "i":
            return str(r.choice([r.randint(-3, 8), r.randint(-3, 8), r.randint(0, 3), r.choice([0, 2147483647, -2147483648, 100])]))
        if kind == "l":
            return str(r.choice([r.randint(-5, 5), r.randint(-5, 5), 9223372036854775807, -9223372036854775807, 3000000000]))
        if kind == "n":
            return "%.2f" % r.choice([r.randint(-400, 900) / 100, 0, 9.99, 12.5, -99.99])
        if kind == "d":
            return "'%s'" % r.choice(DATES)
        if kind == "s":
            return "'%s'" % r.choice(WORDS)
        if kind == "f":
            return "'%s'" % r.choice(["a", "ab", "abcd", "b", "zz", ""])
        if kind == "b":
            return r.choice(["true", "false"])
        return r.choice(["0", "1.5", "-2.25", "1e10", "3"])

    def script(self):
        lines = []
        for table, rows in self.tables.items():
            keyed = table == "t4"
            columns = ", ".join("%s %s%s" % (name, kind, " primary key" if keyed and name == "a" else
                                             " not null" if keyed and name in "bs" else "")
                                for name, kind, _ in COLUMNS)
            lines.append("create table %s (%s);" % (table, columns))
            for i in range(rows):
                values = [self.value(kind, not (keyed and name in "abs")) for name, _, kind in COLUMNS]
                if keyed:
                    values[0] = str(i - 2)
                lines.append("insert into %s values (%s);" % (table, ", ".join(values)))
        lines.append("create view v1 as select a, count(*) as cnt, sum(n) as total from t1 group by a;")
        return "\n".join(lines) + "\n"


class Generator:
    """Random queries that PostgreSQL accepts."""

    def __init__(self, rng, data):
        self.rng, self.data, self.aliases = rng, data, 0

    def pick(self, *options):
        return self.rng.choice(options)

    def alias(self):
        self.aliases += 1
        return "q%d" % self.aliases

    # Scopes are lists of (reference, kind).
    def columns(self, scope, kinds):
        return [ref for ref, kind in scope if kind in kinds]

    def column(self, scope, kinds):
        refs = self.columns(scope, kinds)
        return self.rng.choice(refs) if refs else None

    def integer(self, scope, depth=2):
        r = self.rng.random()
        ref = self.column(scope, "i")
        if depth == 0 or r < 0.45:
            return ref if ref and r < 0.4 else str(self.rng.randint(-3, 9))
        if r < 0.6:
            return "(%s %s %s)" % (self.small(scope), self.pick("+", "-", "*"), self.small(scope))
        if r < 0.65:
            return "length(%s)" % self.text(scope, depth - 1)
        if r < 0.68:
            return "position(%s in %s)" % (self.text(scope, 0), self.text(scope, depth - 1))
        if r < 0.76:
            return "coalesce(%s, %s)" % (self.integer(scope, depth - 1), self.integer(scope, depth - 1))
        if r < 0.86:
            return "case when %s then %s else %s end" % (self.condition(scope, depth - 1), self.integer(scope, depth - 1), self.integer(scope, depth - 1))
        if r < 0.92:
            return "(%s - %s)" % (self.date(scope, 0), self.date(scope, 0))
        if r < 0.94:
            return "abs(%s)" % self.small(scope)
        if r < 0.96:
            return "%s(%s)" % (self.pick("greatest", "least"), ", ".join(self.integer(scope, 0) for _ in range(self.rng.randint(1, 4))))
        return "nullif(%s, %s)" % (self.integer(scope, depth - 1), self.integer(scope, depth - 1))

    def small(self, scope):
        """An integer that arithmetic does not push out of its range."""
        ref = self.column(scope, "i")
        return "(%s %% 100)" % ref if ref and self.rng.random() < 0.7 else str(self.rng.randint(-9, 9))

    def number(self, scope, depth=2):
        r = self.rng.random()
        ref = self.column(scope, "n")
        if depth == 0 or r < 0.4:
            return ref if ref and r < 0.35 else "%.2f" % (self.rng.randint(-500, 900) / 100)
        if r < 0.6:
            return "(%s %s %s)" % (self.number(scope, 0), self.pick("+", "-", "*"), self.number(scope, 0))
        if r < 0.68:
            return "(%s / %s)" % (self.number(scope, 0), self.pick("2", "3.0", "nullif(%s, 0)" % self.number(scope, 0)))
        if r < 0.76:
            return "round(%s, %d)" % (self.number(scope, 0), self.rng.randint(-2, 3))
        if r < 0.79:
            return "%s(%s)" % (self.pick("abs", "floor", "ceil", "round"), self.number(scope, 0))
        if r < 0.84:
            return "cast(%s as decimal(14,2))" % self.integer(scope, 0)
        if r < 0.92:
            return "case when %s then %s end" % (self.condition(scope, depth - 1), self.number(scope, depth - 1))
        return "%s(%s, %s)" % (self.pick("greatest", "least", "coalesce"), self.number(scope, 0), self.number(scope, 0))

    def text(self, scope, depth=2):
        r = self.rng.random()
        ref = self.column(scope, "s")
        if depth == 0 or r < 0.5:
            return ref if ref and r < 0.45 else "'%s'" % self.rng.choice(WORDS)
        if r < 0.65:
            return "(%s || %s)" % (self.text(scope, 0), self.text(scope, depth - 1))
        if r < 0.74:
            return "%s(%s)" % (self.pick("upper", "lower", "trim"), self.text(scope, 0))
        if r < 0.77:
            return "%s(%s, '%s')" % (self.pick("btrim", "ltrim", "rtrim"), self.text(scope, 0), self.pick("a", "ab", " ", "\u00e4b", ""))
        if r < 0.8:
            return "%s(%s, %d)" % (self.pick("left", "right"), self.text(scope, 0), self.rng.randint(-2, 3))
        if r < 0.9:
            return "substring(%s from %d for %d)" % (self.text(scope, 0), self.rng.randint(-1, 3), self.rng.randint(0, 3))
        return "coalesce(%s, %s)" % (self.text(scope, 0), self.text(scope, 0))

    def date(self, scope, depth=1):
        r = self.rng.random()
        ref = self.column(scope, "d")
        if depth == 0 or r < 0.6:
            return ref if ref and r < 0.55 else "date '%s'" % self.rng.choice(DATES)
        if r < 0.8:
            return "cast(%s %s interval '%d %s' as date)" % (self.date(scope, 0), self.pick("+", "-"), self.rng.randint(1, 14), self.pick("day", "month", "year"))
        return "(%s + %d)" % (self.date(scope, 0), self.rng.randint(-40, 40))

    def comparison(self, scope, depth):
        op = self.pick("=", "<>", "<", "<=", ">", ">=", "is distinct from", "is not distinct from")
        r = self.rng.random()
        if r < 0.4:
            return "%s %s %s" % (self.integer(scope, depth), op, self.integer(scope, depth))
        if r < 0.6:
            return "%s %s %s" % (self.number(scope, 0), op, self.pick(self.number(scope, 0), self.integer(scope, 0)))
        if r < 0.8:
            return "%s %s %s" % (self.text(scope, depth), op, self.text(scope, 0))
        if r < 0.9:
            return "%s %s %s" % (self.date(scope), op, self.date(scope, 0))
        ref = self.column(scope, "f")
        other = self.pick("'a'", "'ab '", "'b'", "'zz'", self.text(scope, 1), self.column(scope, "sf"))
        return "%s %s %s" % (ref, op, other) if ref else "1 = 1"

    def condition(self, scope, depth=2):
        r = self.rng.random()
        if depth <= 0 or r < 0.35:
            return self.comparison(scope, 0)
        if r < 0.42:
            return "(%s and %s)" % (self.condition(scope, depth - 1), self.condition(scope, depth - 1))
        if r < 0.5:
            return "(%s or %s)" % (self.condition(scope, depth - 1), self.condition(scope, depth - 1))
        if r < 0.55:
            return "not (%s)" % self.condition(scope, depth - 1)
        if r < 0.62:
            return "%s is %snull" % (self.rng.choice([ref for ref, _ in scope]) if scope else "null::int", self.pick("", "not "))
        if r < 0.68:
            return "%s %sbetween %s and %s" % (self.integer(scope, 1), self.pick("", "not "), self.integer(scope, 0), self.integer(scope, 0))
        if r < 0.76:
            items = [self.integer([], 0) for _ in range(self.rng.randint(1, 4))] + self.pick([], [], ["null"])
            return "%s %sin (%s)" % (self.integer(scope, 1), self.pick("", "not "), ", ".join(items))
        if r < 0.84:
            return "%s %slike '%s'" % (self.text(scope, 0), self.pick("", "not "), self.pick("%a%", "a%", "_b%", "%", "\\%", "%c", "Z%a", "a\\_c"))
        if r < 0.88:
            ref = self.column(scope, "b")
            return ref if ref else "true"
        if r < 0.92:
            return "(%s) is %s%s" % (self.comparison(scope, 0), self.pick("", "not "), self.pick("true", "false", "unknown"))
        if r < 0.96:
            return "extract(%s from %s) = %d" % (self.pick("year", "month", "day", "quarter"), self.date(scope, 0), self.pick(1, 2, 12, 1996, 30))
        return self.comparison(scope, 1)

    def table(self, lateral_free=True):
        """A FROM item and its columns."""
        r = self.rng.random()
        alias = self.alias()
        if r < 0.8:
            name = self.rng.choice(["t1", "t2", "t1", "t2", "t3", "t4", "t4", "big"])
            return "%s %s" % (name, alias), [("%s.%s" % (alias, n), k) for n, _, k in COLUMNS]
        if r < 0.86:
            return "v1 %s" % alias, [("%s.a" % alias, "i"), ("%s.cnt" % alias, "l")]
        inner, columns = self.table()
        picked = self.rng.sample(columns, min(3, len(columns)))
        names = ["k%d" % i for i in range(len(picked))]
        text = "select %s%s from %s" % (self.pick("", "", "distinct "), ", ".join("%s as %s" % (ref, name) for (ref, _), name in zip(picked, names)), inner)
        if self.rng.random() < 0.5:
            text += " where " + self.condition(columns, 1)
        return "(%s) %s" % (text, alias), [("%s.%s" % (alias, name), kind) for name, (_, kind) in zip(names, picked)]

    def join_on(self, left, right):
        for kinds in self.rng.sample(["i", "i", "s", "sf", "d", "n"], 6):
            a, b = self.column(left, kinds), self.column(right, kinds)
            if a and b:
                text = "%s = %s" % (a, b)
                if self.rng.random() < 0.25:
                    text += " and " + self.condition(left + right, 1)
                return text
        return "1 = 1"

    def tables(self, most=3):
        text, scope = self.table()
        for _ in range(self.rng.randint(0, most - 1)):
            item, columns = self.table()
            r = self.rng.random()
            if r < 0.45:
                text += " join %s on %s" % (item, self.join_on(scope, columns))
            elif r < 0.8:
                kind, on = self.pick("left", "left", "right", "full"), self.join_on(scope, columns)
                # PostgreSQL can do a full join by one equality of two columns only.
                kind = kind if re.fullmatch(r"\w+\.\w+ = \w+\.\w+", on) or kind != "full" else "left"
                text += " %s join %s on %s" % (kind, item, on)
            elif r < 0.84 and item.startswith("t") and text.split()[0] in ("t1", "t2", "t4") and " " not in text.split(" ", 1)[1]:
                text += " %s join %s using (%s)" % (self.pick("left", ""), item, self.pick("a", "b", "s"))
            elif "big" in text or "big" in item:
                text += " join %s on %s" % (item, self.join_on(scope, columns))
            else:
                text += " cross join %s" % item
            scope = scope + columns
        return text, scope

    def subquery_from(self, outer, correlate):
        item, columns = self.tables(2) if self.rng.random() < 0.3 else self.table()
        conditions = []
        if correlate and outer:
            kinds = self.rng.choice(["i", "i", "s", "n", "d"])
            a, b = self.column(columns, kinds), self.column(outer, kinds)
            if a and b:
                conditions.append("%s %s %s" % (a, self.pick("=", "=", "=", "<>", "<", ">"), b))
                if self.rng.random() < 0.3:
                    a, b = self.column(columns, "i"), self.column(outer, "i")
                    if a and b:
                        conditions.append("%s %s %s" % (a, self.pick("=", "<>"), b))
        if self.rng.random() < 0.4:
            conditions.append(self.condition(columns, 1))
        text = "from %s" % item
        if conditions:
            text += " where " + " and ".join(conditions)
        return text, columns

    def aggregate(self, scope, depth=1):
        r = self.rng.random()
        if r < 0.2:
            return "count(*)", "l"
        if r < 0.3:
            return "count(%s%s)" % (self.pick("", "distinct "), self.rng.choice([ref for ref, _ in scope])), "l"
        if r < 0.45:
            return "sum(%s%s)" % (self.pick("", "", "distinct "), self.integer(scope, depth)), "l"
        if r < 0.6:
            return "sum(%s)" % self.number(scope, depth), "n"
        if r < 0.7:
            return "avg(%s)" % self.pick(self.integer(scope, 0), self.number(scope, 0)), "q"
        if r < 0.8:
            return "%s(%s)" % (self.pick("min", "max"), self.integer(scope, depth)), "i"
        if r < 0.9:
            return "%s(%s)" % (self.pick("min", "max"), self.text(scope, 0)), "s"
        return "%s(%s)" % (self.pick("min", "max"), self.date(scope, 0)), "d"

    def subquery_condition(self, outer, depth=1):
        correlate = self.rng.random() < 0.75
        text, columns = self.subquery_from(outer, correlate)
        if depth and self.rng.random() < 0.15:
            # one level deeper, where columns of both levels are seen
            text += " and " if " where " in text.rsplit(")", 1)[-1] else " where " if " where " not in text else " and "
            text += self.subquery_condition(columns + outer, depth - 1)
        r = self.rng.random()
        if r < 0.3:
            tail = ""
            if self.rng.random() < 0.15 and self.column(columns, "i"):
                tail = " group by %s having count(*) > %d" % (self.column(columns, "i"), self.rng.randint(0, 2))
                return "%sexists (select 1 %s%s)" % (self.pick("", "not "), text, tail)
            return "%sexists (select * %s)" % (self.pick("", "not "), text)
        if r < 0.6:
            kinds = self.rng.choice(["i", "i", "s", "sf"])
            inner, value = self.column(columns, kinds), self.column(outer, kinds)
            if inner and value:
                return "%s %sin (select %s%s %s)" % (value, self.pick("", "not "), self.pick("", "distinct "), inner, text)
        if r < 0.64:
            rows = [(self.column(columns, k), self.column(outer, k)) for k in "is"]
            if all(a and b for a, b in rows):
                return "(%s, %s) %sin (select %s, %s %s)" % (rows[0][1], rows[1][1], self.pick("", "not "), rows[0][0], rows[1][0], text)
        if r < 0.7:
            inner = self.column(columns, "i")
            if inner:
                return "%s %s %s (select %s %s)" % (self.integer(outer, 0), self.pick("<", ">=", "=", "<>"), self.pick("any", "all"), inner, text)
        aggregate, kind = self.aggregate(columns, 0)
        while kind not in "lin":
            aggregate, kind = self.aggregate(columns, 0)
        return "%s %s (select %s %s)" % (self.pick(self.integer(outer, 0), self.number(outer, 0)), self.pick("<", ">", "=", "<>"), aggregate, text)

    def where(self, scope):
        parts = []
        for _ in range(self.pick(0, 1, 1, 2)):
            parts.append(self.condition(scope))
        if self.rng.random() < 0.55:
            sub = self.subquery_condition(scope)
            if self.rng.random() < 0.3:
                sub = "(%s or %s)" % (self.condition(scope, 1), sub)
            elif self.rng.random() < 0.1:
                sub = "not (%s and %s)" % (self.condition(scope, 1), sub)
            parts.append(sub)
        return " where " + " and ".join(parts) if parts else ""

    def value(self, scope):
        r = self.rng.random()
        if r < 0.3:
            return self.integer(scope), "i"
        if r < 0.45:
            return self.number(scope), "q"
        if r < 0.6:
            return self.text(scope), "s"
        if r < 0.7:
            return self.date(scope), "d"
        if r < 0.78:
            return "(%s)" % self.condition(scope, 1), "b"
        if r < 0.8 and self.column(scope, "i"):
            # at most one row, by t4's key; or perhaps more
            alias = self.alias()
            table = self.pick("t4", "t4", "t4", "t2")
            return "(select %s.%s from %s %s where %s.a = %s)" % (alias, self.pick("s", "b"), table, alias, alias, self.column(scope, "i")), "s"
        if r < 0.82:
            return "(%s / %s)" % (self.integer(scope, 0), self.integer(scope, 0)), "i"
        if r < 0.88:
            text, columns = self.subquery_from(scope, True)
            aggregate, kind = self.aggregate(columns, 0)
            return "(select %s %s)" % (aggregate, text), kind
        if r < 0.9:
            return "(%s)" % self.subquery_condition(scope), "b"
        return self.rng.choice(scope) if scope else ("1", "i")

    def ordering(self, count):
        keys = ["%d%s%s" % (i + 1, self.pick("", " desc"), self.pick("", "", " nulls first", " nulls last")) for i in range(count)]
        text = " order by " + ", ".join(keys)
        if self.rng.random() < 0.4:
            text += " limit %d" % self.rng.randint(0, 8)
            if self.rng.random() < 0.4:
                text += " offset %d" % self.rng.randint(0, 4)
        return text

    def plain(self):
        text, scope = self.tables()
        values = [self.value(scope) for _ in range(self.rng.randint(1, 4))]
        distinct = self.rng.random() < 0.15
        query = "select %s%s from %s%s" % ("distinct " if distinct else "", ", ".join("%s as c%d" % (v, i) for i, (v, _) in enumerate(values)), text, self.where(scope))
        # Quotients differ in their last digits, so nothing is cut off by their order.
        if self.rng.random() < 0.5 and all(kind not in "qx" for _, kind in values):
            query += self.ordering(len(values))
        return query

    def grouped(self):
        text, scope = self.tables()
        keys = [self.rng.choice([s for s in scope if s[1] != "x"])[0] for _ in range(self.rng.randint(0, 2))]
        if keys and self.rng.random() < 0.2:
            keys[0] = "extract(year from %s)" % self.date(scope, 0)
        keys = list(dict.fromkeys(keys))
        values = [self.aggregate(scope) for _ in range(self.rng.randint(1, 3))]
        query = "select %s from %s%s" % (", ".join("%s as c%d" % (v, i) for i, v in enumerate(keys + [v for v, _ in values])), text, self.where(scope))
        if keys:
            query += " group by " + ", ".join(str(i + 1) if self.rng.random() < 0.5 else key for i, key in enumerate(keys))
        if self.rng.random() < 0.35:
            having, kind = self.aggregate(scope)
            if kind in "lin" and self.rng.random() < 0.3:
                inner, columns = self.subquery_from([], False)
                query += " having %s %s (select %s %s)" % (having, self.pick("<", ">", "<>"), "count(*)", inner)
            elif kind in "lin":
                query += " having %s %s %d" % (having, self.pick("<", ">", "<>"), self.rng.randint(-2, 9))
        if keys and self.rng.random() < 0.4 and all(kind not in "qx" for _, kind in values):
            query += self.ordering(len(keys) + len(values))
        return query

    def setop(self):
        kinds = [self.rng.choice("isd") for _ in range(self.rng.randint(1, 2))]
        sides = []
        for _ in range(self.rng.randint(2, 3)):
            text, scope = self.tables(2)
            values = [{"i": self.integer, "s": self.text, "d": self.date}[kind](scope, 1) for kind in kinds]
            sides.append("select %s from %s%s" % (", ".join(values), text, self.where(scope)))
        query = sides[0]
        for side in sides[1:]:
            query += " %s %s" % (self.pick("union", "union all", "intersect", "except"), side)
        return query

    def with_query(self):
        text, scope = self.tables(2)
        keys = [ref for ref in self.rng.sample(scope, 1)]
        aggregate, kind = self.aggregate(scope, 0)
        outer = [("w.k", keys[0][1]), ("w.v", kind)]
        query = "with w(k, v) as (select %s, %s from %s%s group by 1)" % (keys[0][0], aggregate, text, self.where(scope))
        item, columns = self.table()
        query += " select w.k, w.v, count(*) from w %s join %s on %s" % (self.pick("left", ""), item, self.join_on(outer, columns))
        if self.rng.random() < 0.5:
            query += " where exists (select 1 from w w2 where w2.k = w.k)"
        return query + " group by 1, 2"

    def query(self):
        return self.rng.choice([self.plain, self.plain, self.plain, self.grouped, self.grouped, self.setop, self.with_query])()


class PostgreSQL:
    """A server in a directory of its own."""

    def __init__(self):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
        if not found or not shutil.which("psql"):
            print("sql_differential: skipped, PostgreSQL's server is not here")
            sys.exit(77)
        self.bin = os.path.dirname(found[-1])
        self.folder = tempfile.mkdtemp(prefix="fathom-pg-")
        self.user = None
        if os.geteuid() == 0:
            self.user = next((u for u in ("postgres", "nobody") if self.exists(u)), None)
            shutil.chown(self.folder, self.user)
        os.chmod(self.folder, 0o755)
        self.run("initdb", "-D", self.folder + "/data", "-A", "trust", "-E", "UTF8", "--locale=C", "-U", "test", "-N")
        self.run("pg_ctl", "-D", self.folder + "/data", "-w", "-t", "120", "-l", self.folder + "/log", "-o",
                 "-c listen_addresses='' -c unix_socket_directories=%s -c fsync=off -c jit=off" % self.folder, "start")

    @staticmethod
    def exists(user):
        try:
            return pwd.getpwnam(user)
        except KeyError:
            return None

    def run(self, program, *args):
        done = subprocess.run([self.bin + "/" + program, *args], user=self.user, cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            print("sql_differential: skipped, %s fails: %s" % (program, done.stderr))
            sys.exit(77)

    def answer(self, script):
        command = ["psql", "-h", self.folder, "-U", "test", "-d", "postgres", "-X", "-q", "-t", "--csv", "-P", "null=" + NULL]
        return subprocess.run(command, input=script, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout

    def close(self):
        subprocess.run([self.bin + "/pg_ctl", "-D", self.folder + "/data", "-m", "immediate", "stop"], user=self.user, cwd="/", capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def split_answers(text):
    """The lines after each mark: {number: (rows, error)}."""
    answers, current = {}, None
    lines = []
    for line in text.splitlines(keepends=True):
        if line.startswith(MARK):
            current = int(line[len(MARK):])
            answers[current] = lines = []
        else:
            lines.append(line)
    result = {}
    for number, part in answers.items():
        error = next((line.strip() for line in part if "ERROR" in line or line.startswith("fathom: ")), None)
        rows = [] if error else [row or [""] for row in csv.reader(io.StringIO("".join(part)))]
        result[number] = (rows, error)
    return result


def close_enough(a, b):
    if a == b or a.rstrip(" ") == b.rstrip(" "):
        return True
    try:
        x, y = float(a), float(b)
    except ValueError:
        return False
    return abs(x - y) <= 1e-9 * max(1, abs(x), abs(y))


def sort_key(row):
    key = []
    for cell in row:
        try:
            key.append((0, round(float(cell), 6), ""))
        except ValueError:
            key.append((1, 0, cell.rstrip(" ")))
    return key


def same_rows(a, b, ordered):
    if len(a) != len(b):
        return False
    if not ordered:
        a, b = sorted(a, key=sort_key), sorted(b, key=sort_key)
    return all(len(x) == len(y) and all(map(close_enough, x, y)) for x, y in zip(a, b))


# What a row may raise; which rows are looked at is up to the engine.
OF_ROWS = ("division by zero", "out of range", "more than one row", "field overflow")


def is_refused(ours):
    """A construct that is not supported, and said so: no wrong answer, but rare."""
    return ours is not None and ours[1] is not None and "is not supported" in ours[1]


def verdict(query, theirs, ours):
    """None, or what is wrong."""
    if ours is None:
        return "no answer"
    if theirs[1] and ours[1]:
        return None
    if theirs[1]:
        return None if any(text in theirs[1] for text in OF_ROWS) else "PostgreSQL fails: " + theirs[1]
    if ours[1]:
        return None if any(text in ours[1] for text in OF_ROWS) or "digits after the point" in ours[1] or is_refused(ours) else "fails: " + ours[1]
    if same_rows(theirs[0], ours[0], " order by " in query):
        return None
    return "differs:\n  theirs %r\n  ours   %r" % (sorted(theirs[0], key=sort_key)[:8], sorted(ours[0], key=sort_key)[:8])


def compare(server, program, seed, count):
    rng = random.Random(seed)
    data = Data(rng)
    setup = data.script()
    generator = Generator(rng, data)
    queries = [generator.query() for _ in range(count)]
    asked = "".join("select '%s%d';\n%s;\n" % (MARK, i, query) for i, query in enumerate(queries))
    database = "drop view if exists v1;" + "".join("drop table if exists %s;" % t for t in data.tables)
    theirs = split_answers(server.answer("set client_min_messages = error;" + database + setup + asked))
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([folder if word == "{db}" else word for word in program], input=setup + asked,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    ours = split_answers(done.stdout)
    wrong = failed = refused = 0
    for i, query in enumerate(queries):
        failed += theirs[i][1] is not None
        refused += is_refused(ours.get(i))
        what = verdict(query, theirs[i], ours.get(i))
        if what:
            wrong += 1
            if wrong <= 20:
                print("seed %d, query %d: %s;\n  %s" % (seed, i, query, what))
    if done.returncode not in (0, 1):
        print("seed %d: %s ends with %d" % (seed, program[0], done.returncode))
        wrong += 1
    if refused * 100 > count:
        print("seed %d: %d queries are refused" % (seed, refused))
        wrong += 1
    print("seed %d: %d queries, %d of them fail in PostgreSQL, %d refused, %d wrong" % (seed, count, failed, refused, wrong))
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--queries", type=int, default=3000 if os.environ.get("FTH_LONG_TESTS") else 300)
    parser.add_argument("program", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    server = PostgreSQL()
    try:
        wrong, seed, left = 0, options.seed, options.queries
        while left > 0:
            wrong += compare(server, options.program, seed, min(left, 300))
            left -= 300
            seed += 1
    finally:
        server.close()
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
