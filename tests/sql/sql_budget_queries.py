# SPDX-License-Identifier: BSD-2-Clause
"""Random queries whose parts do not fit into a few MiB, for sql_budget_test.py: tables as text, and
queries that bound the number of rows which their joins make.

Each column knows its multiplicity, the most rows of one value. A join of two sources makes at most
the rows of one times the multiplicity of the other's key; a source that would make too many gets a
condition on its id first.
"""
import collections
import random

ROWS_MOST = 400000  # of a join
TABLES = {"a": (30000, 50000), "b": (12000, 25000), "c": (500, 3000), "d": (20, 40), "e": (0, 0)}
# name, type, kind: i number, s text, d decimal, t date
COLUMNS = [
    ("id", "int not null", "i"), ("f", "int not null", "i"), ("g", "int", "i"), ("z", "int", "i"),
    ("n", "bigint", "i"), ("s", "varchar(60)", "s"), ("w", "varchar(12)", "s"), ("u", "text", "s"),
    ("d", "decimal(12,2)", "d"), ("t", "date", "t"),
]
NAMES = [name for name, _, _ in COLUMNS]
KINDS = {name: kind for name, _, kind in COLUMNS}
OPERATORS = ("=", "<>", "<", ">=")
JOINS = ("join", "join", "join", "left join", "left join", "right join", "full join")
LETTERS = "abcdefghijklmnopqrstuvwxyz   012345"


def text_of(number):
    """Of 8 to 43 characters; equal numbers have equal texts, in all tables."""
    return "%08x%s" % (number * 2654435761 % 2**32, LETTERS[:number * 7 % 36].rstrip())


class Data:
    """The tables of a round. f: a key of b; g: 50 values, or null; z: one value in half of the
    rows; n: null in 4 of 10 rows; s: 15,000 texts; w: 300 words, some of them much more often than
    others; u: unique text; d: 2,000 amounts; t: 960 days."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.rows = {name: self.make(rng, rng.randint(*bounds)) for name, bounds in TABLES.items()}
        self.most = {name: self.multiplicities(rows) for name, rows in self.rows.items()}

    @classmethod
    def make(cls, rng, count):
        order = list(range(count))
        rng.shuffle(order)
        return [cls.make_row(rng, number) for number in order]

    @staticmethod
    def make_row(rng, number):
        def perhaps(value, nulls):
            return None if rng.random() < nulls else value

        return (number, rng.randrange(25000), perhaps(rng.randrange(50), 0.02),
                perhaps(7 if rng.random() < 0.5 else rng.randrange(1000), 0.05),
                perhaps(rng.randrange(20000) * 3000000019, 0.4),
                perhaps(text_of(rng.randrange(15000)), 0.03),
                perhaps("w%d" % (rng.randrange(300) ** 2 // 300), 0.01),
                perhaps("%s %d" % (text_of(number), number), 0.01),
                "%d.%02d" % divmod(rng.randrange(2000) * 37, 100),
                "%d-%02d-%02d" % (1992 + rng.randrange(8), rng.randint(1, 12), rng.randint(1, 10)))

    @staticmethod
    def multiplicities(rows):
        columns = zip(*rows) if rows else [()] * len(NAMES)
        counts = [collections.Counter(column) for column in columns]
        return {name: max([n for value, n in count.items() if value is not None], default=1)
                for name, count in zip(NAMES, counts)}

    @staticmethod
    def indexes():
        """For PostgreSQL, which runs a correlated subquery for each row."""
        pairs = [(table, name) for table in TABLES for name in NAMES]
        return "".join("create index on %s (%s);\n" % pair for pair in pairs) + "analyze;\n"

    def write(self, folder):
        """The script that loads the files, which it writes to the folder."""
        columns, script = ", ".join("%s %s" % (name, kind) for name, kind, _ in COLUMNS), ""
        for table, rows in self.rows.items():
            path = "%s/%s.tbl" % (folder, table)
            with open(path, "w") as file:
                for row in rows:
                    words = ["" if value is None else str(value) for value in row]
                    file.write("|".join(words) + "\n")
            script += "create table %s (%s);\n" % (table, columns)
            script += "copy %s from '%s' with (delimiter '|', null '');\n" % (table, path)
        return script


class Source:
    """Part of FROM: columns are {reference: (kind, multiplicity)}. narrow: a column by which its
    rows can be limited, or None."""

    def __init__(self, text, columns, rows, narrow=None):
        self.text, self.columns, self.rows, self.narrow = text, columns, rows, narrow

    def of_kind(self, kinds):
        return [ref for ref, (kind, _) in self.columns.items() if kind in kinds]


def where(*conditions):
    conditions = [text for text in conditions if text]
    return " where " + " and ".join(conditions) if conditions else ""


def named(values):
    return ", ".join("%s as c%d" % (value, i) for i, value in enumerate(values))


def joined(left, right, keys, how, rows, extra=""):
    x, y = keys
    times_left, times_right = right.columns[y][1], left.columns[x][1]
    columns = {ref: (kind, most * times_left) for ref, (kind, most) in left.columns.items()}
    columns.update({ref: (kind, most * times_right)
                    for ref, (kind, most) in right.columns.items()})
    rows += left.rows if how in ("left join", "full join") else 0
    rows += right.rows if how in ("right join", "full join") else 0
    text = "%s %s %s on %s = %s%s" % (left.text, how, right.text, x, y, extra)
    return Source(text, columns, rows, left.narrow)


class Generator:
    def __init__(self, rng, data):
        self.rng, self.data, self.count, self.conditions = rng, data, 0, []

    def pick(self, *options):
        return self.rng.choice(options)

    def chance(self, part):
        return self.rng.random() < part

    def alias(self):
        self.count += 1
        return "x%d" % self.count

    # ---- sources ----

    def table(self, names="aaaabbbcde"):
        name, alias = self.rng.choice(names), self.alias()
        columns = {"%s.%s" % (alias, column): (KINDS[column], most)
                   for column, most in self.data.most[name].items()}
        return Source("%s %s" % (name, alias), columns, len(self.data.rows[name]), alias + ".id")

    def grouped(self):
        """A derived table of groups."""
        inner, alias = self.table("aab"), self.alias()
        key = self.column(inner)
        values = [self.aggregate(inner) for _ in range(self.rng.randint(1, 2))]
        columns = {alias + ".c0": (inner.columns[key][0], 1)}
        columns.update({"%s.c%d" % (alias, i): (kind, inner.rows)
                        for i, (_, kind) in enumerate(values, 1)})
        also = where(self.condition(inner)) if self.chance(0.3) else ""
        text = "(select %s from %s%s group by %s) %s" % (
            named([key] + [value for value, _ in values]), inner.text, also, key, alias)
        return Source(text, columns, inner.rows)

    def distinct(self):
        """A derived table of distinct rows."""
        inner, alias = self.table("aab"), self.alias()
        refs = self.rng.sample(list(inner.columns), 2)
        columns = {"%s.c%d" % (alias, i): inner.columns[ref] for i, ref in enumerate(refs)}
        text = "(select distinct %s from %s) %s" % (named(refs), inner.text, alias)
        return Source(text, columns, inner.rows)

    def source(self):
        r = self.rng.random()
        return self.table() if r < 0.8 else self.grouped() if r < 0.93 else self.distinct()

    def bound(self, left, right, keys):
        """Rows of a join; left may get a condition for it. None: too many."""
        times = right.columns[keys[1]][1]
        rows = min(left.rows * times, right.rows * left.columns[keys[0]][1])
        if rows <= ROWS_MOST:
            return rows
        limit = ROWS_MOST // times
        if not left.narrow or limit < 5 or " full " in left.text or " right " in left.text:
            return None
        self.conditions.append("%s < %d" % (left.narrow, limit))
        return limit * times

    def join(self, left, right):
        """The two joined by an equality; left alone if none is small enough."""
        kind = self.pick("i", "i", "i", "s", "s", "s", "d", "t")
        pairs = [(x, y) for x in left.of_kind(kind) for y in right.of_kind(kind)]
        self.rng.shuffle(pairs)
        for keys in pairs:
            rows = self.bound(left, right, keys)
            if rows is None:
                continue
            how = self.pick(*JOINS)
            if " join " in left.text and rows > ROWS_MOST // 4:
                how = "join"
            if self.conditions and how in ("right join", "full join"):
                how = "left join"
            both, extra = Source("", {**left.columns, **right.columns}, 0), ""
            if how in ("join", "left join") and self.chance(0.2):
                extra = " and " + self.comparison(both)
            return joined(left, right, keys, how, rows, extra)
        return left

    def sources(self, most):
        source = self.source()
        for _ in range(self.rng.randint(0, most - 1)):
            source = self.join(source, self.source())
        return source

    # ---- expressions ----

    def column(self, source, kinds="isdt"):
        refs = source.of_kind(kinds)
        return self.rng.choice(refs) if refs else None

    def constant(self, kind):
        r = self.rng
        if kind == "i":
            return str(self.pick(7, r.randrange(50), r.randrange(1000), r.randrange(25000)))
        if kind == "s":
            return "'%s'" % text_of(r.randrange(15000))
        if kind == "d":
            return "%d.%02d" % (r.randrange(740), r.randrange(100))
        return "date '%d-0%d-05'" % (1992 + r.randrange(8), r.randint(1, 9))

    def comparison(self, source):
        ref = self.column(source)
        kind = source.columns[ref][0]
        r = self.rng.random()
        if r < 0.15:
            return "%s is %snull" % (ref, self.pick("", "not "))
        if r < 0.3 and kind == "i":
            return "%s %% %d = %d" % (ref, self.pick(2, 3, 7), self.pick(0, 1))
        if r < 0.4 and kind == "s":
            return "%s like '%s'" % (ref, self.pick("%a%", "0%", "%cd%", "w1%"))
        if r < 0.6:
            return "%s %s %s" % (ref, self.pick(*OPERATORS), self.column(source, kind))
        return "%s %s %s" % (ref, self.pick("<>", "<", ">="), self.constant(kind))

    def condition(self, source):
        if self.chance(0.6):
            return self.comparison(source)
        return "(%s %s %s)" % (self.comparison(source), self.pick("and", "or"),
                               self.comparison(source))

    def aggregate(self, source):
        """With its kind."""
        r = self.rng.random()
        if r < 0.2:
            return "count(*)", "i"
        if r < 0.45:
            return "count(%s%s)" % ("" if r < 0.3 else "distinct ", self.column(source)), "i"
        number, amount = self.column(source, "i"), self.column(source, "d")
        if r < 0.65 and number:
            return "sum(%s%s %% 1000)" % (self.pick("", "", "", "distinct "), number), "i"
        if r < 0.7 and amount:
            return "sum(%s)" % amount, "d"
        ref = self.column(source)
        return "%s(%s)" % (self.pick("min", "max"), ref), source.columns[ref][0]

    def aggregates(self, source, most):
        return [self.aggregate(source)[0] for _ in range(self.rng.randint(1, most))]

    def subquery(self, source):
        """A condition with a subquery, which becomes a join. PostgreSQL runs one with an aggregate
        for each row, and so has no derived table there."""
        r = self.rng.random()
        inner = self.table("aabbcde") if r >= 0.8 or self.chance(0.8) else self.grouped()
        kind, word = self.pick("i", "i", "s", "s", "d"), self.pick("", "not ")
        x, y = self.column(source, kind), self.column(inner, kind)
        if not x or not y:
            return None
        also = self.condition(inner) if self.chance(0.5) else None
        if r < 0.4:
            return "%s %sin (select %s from %s%s)" % (x, word, y, inner.text, where(also))
        equal, value, other = "%s = %s" % (y, x), self.column(source, "i"), self.column(inner, "i")
        if r < 0.8 or not value or not other:
            different = "%s <> %s" % (value, other) if value and other and r < 0.5 else None
            return "%sexists (select 1 from %s%s)" % (word, inner.text,
                                                      where(equal, also, different))
        return "%s %s (select %s(%s) from %s%s)" % (
            value, self.pick("<", ">="), self.pick("min", "max"), other, inner.text,
            where(equal, also))

    def all_conditions(self, source):
        count = self.pick(0, 0, 1, 1, 2) if source.rows <= ROWS_MOST else 0
        also = self.condition(source) if self.chance(0.3) else None
        return where(*self.conditions, also, *[self.subquery(source) for _ in range(count)])

    def ordering(self, count):
        """By all columns, so that the answer is known with a limit as well."""
        order = list(range(1, count + 1))
        self.rng.shuffle(order)
        keys = ["%d%s nulls %s" % (i, self.pick("", " desc"), self.pick("first", "last"))
                for i in order]
        limit = self.pick("", " limit 40", " limit 25 offset %d" % self.rng.randrange(60000))
        return " order by " + ", ".join(keys) + limit

    # ---- queries ----

    def one_group(self):
        source = self.sources(4)
        return "select %s from %s%s" % (", ".join(self.aggregates(source, 5)), source.text,
                                        self.all_conditions(source))

    def groups(self):
        """As they are, or counted and reduced to one row."""
        source = self.sources(3)
        keys = list(dict.fromkeys(self.column(source) for _ in range(self.pick(1, 1, 2, 3))))
        values = keys + self.aggregates(source, 3)
        text = "select %s from %s%s group by %s" % (
            named(values), source.text, self.all_conditions(source), ", ".join(keys))
        if self.chance(0.2):
            text += " having count(*) %s %d" % (self.pick(">", "<", "<>"), self.pick(1, 2, 3))
        if self.chance(0.3):
            return text + self.ordering(len(values))
        reduced = ["%s(c%d)" % (self.pick("min", "max", "count"), i) for i in range(len(values))]
        return "select count(*), %s from (%s) q" % (", ".join(reduced), text)

    def rows(self):
        """Rows of sources, sorted or distinct."""
        source = self.sources(2)
        most = min(self.rng.randint(1, 3), len(source.columns))
        refs = self.rng.sample(list(source.columns), most)
        text = "select %s%s from %s%s" % (self.pick("", "distinct "), named(refs), source.text,
                                          self.all_conditions(source))
        if self.chance(0.75):
            return text + self.ordering(len(refs))
        return "select count(*), count(c0), min(c0), max(c0) from (%s) q" % text

    def set_operation(self):
        kinds = [self.pick("i", "s", "s", "t") for _ in range(self.pick(1, 2))]
        sides = []
        for _ in range(2):
            source = self.table("aabbc")
            also = where(self.condition(source)) if self.chance(0.3) else ""
            refs = [self.column(source, kind) for kind in kinds]
            sides.append("select %s from %s%s" % (named(refs), source.text, also))
        text = (" %s " % self.pick("union", "union all", "intersect", "except")).join(sides)
        if self.chance(0.3):
            return text + self.ordering(len(kinds))
        return "select count(*), min(c0), max(c0) from (%s) q" % text

    def self_join(self):
        """Of large tables, on nearly unique texts or numbers."""
        left, right = self.table("ab"), self.table("ab")
        column = self.pick("u", "s", "n", "id", "s")
        keys = [side.narrow.replace(".id", "." + column) for side in (left, right)]
        rows = left.rows * right.columns[keys[1]][1]
        how = self.pick("join", "left join", "full join", "join")
        source = joined(left, right, keys, how, rows)
        return "select %s from %s" % (", ".join(self.aggregates(source, 4)), source.text)

    def twice(self):
        """WITH, used twice."""
        inner, join = self.grouped(), self.pick("join", "left join")
        kind = next(iter(inner.columns.values()))[0]
        column = self.pick(*[name for name in NAMES if KINDS[name] == kind])
        tables = "cd" if self.data.most["b"][column] > 20 else "abc"
        return ("with w as (select * from %s) select count(*), min(p.c0), max(q.c0), max(p.c1) "
                "from w p %s w q on p.c0 = q.c0 %s %s r on r.%s = p.c0" % (
                    inner.text, join, join, self.rng.choice(tables), column))

    def query(self):
        self.conditions = []
        return self.pick(self.one_group, self.one_group, self.groups, self.groups, self.groups,
                         self.rows, self.rows, self.set_operation, self.self_join, self.twice)()
