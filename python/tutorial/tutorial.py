# SPDX-License-Identifier: BSD-2-Clause
"""Ten minutes with fathom: run it, or read it. The tests run it as it stands.

Every step works on data that could be a thousand times as large: the memory that it takes is the
amount that is named, whatever the size of the data.
"""
import csv
import os

import numpy as np

import fathom

# 1. A place for everything, and one ceiling for its memory.
db = fathom.open("tutorial.fathom", memory="128M")

# 2. A table from a CSV file. COPY reads it a piece at a time.
rng = np.random.default_rng(1)
with open("calls.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["caller", "callee", "seconds", "day"])
    days = np.datetime64("2024-01-01") + rng.integers(0, 366, 50_000)
    for row in zip(rng.zipf(1.5, 50_000) % 2000, rng.integers(0, 2000, 50_000),
                   rng.integers(1, 3600, 50_000), days):
        writer.writerow(row)
db.sql("create table calls (caller integer, callee integer, seconds integer, day date)")
loaded = db.sql("copy calls from '%s' with (format csv, header)" % os.path.abspath("calls.csv"))
print("loaded", loaded.rowcount, "rows")

# 3. SQL. The plan says how much memory it can take, before it runs.
busiest = db.sql("select caller, count(*) as calls, sum(seconds) as seconds from calls "
                 "where day >= ? group by caller order by calls desc limit 3", ["2024-07-01"])
print(busiest.explain())
for caller, calls, seconds in busiest:
    print(caller, "called", calls, "times,", seconds, "seconds")

# 4. A result that stays on flash, as arrays.
edges = db.sql("select distinct caller, callee from calls where caller <> callee").save("edges")
print("edges:", edges["caller"].shape, edges["caller"].dtype)

# 5. A graph of them, and its ranks: a numpy array.
graph = db.build_graph("calls", (edges["caller"][:], edges["callee"][:]), vertices=2000)
ranks = graph.pagerank()
assert abs(ranks.sum() - 1) < 1e-6
print("called by the most important:", ranks.argsort()[-3:][::-1])

# 6. Rows of features, by the thousand, at random: what numpy.memmap is slow at.
features = db.array("features", (2000, 64), "float32")
for first in range(0, 2000, 500):
    features[first:first + 500] = rng.normal(size=(500, 64))
features.flush()
total = np.zeros(64)
for ids, rows in features.batches((rng.integers(0, 2000, 256) for _ in range(10))):
    total += rows.sum(axis=0)  # the next batch is being read meanwhile
assert np.isfinite(total).all()

# 7. Results that took long to compute are kept, with a time when they expire.
with fathom.Cache("results.kv", memory="16M", flash="64M") as cache:
    @cache.memoize(expire=3600)
    def average(caller):
        return db.sql("select avg(seconds) from calls where caller = ?", [caller]).one()

    assert average(1) == average(1)
    print("average of caller 1:", round(float(average(1)), 1))

# 8. A computation that goes on where it was when it was killed.
state, step = np.zeros(64), np.zeros(1, int)
with fathom.Checkpoint("state.ckpt", state=state, step=step) as checkpoint:
    checkpoint.restore()
    while step[0] < 5:
        with checkpoint.step():
            state += total
            step += 1

# 9. Who has how much memory.
print(db.memory)
db.close()
