# SPDX-License-Identifier: BSD-2-Clause
"""Tables and SQL: values there and back, parameters, results in all forms, errors."""
import datetime
import errno
import gc
import os
import signal
import threading
import time
from decimal import Decimal

import numpy as np
import pytest

import fathom
from fathom import _core

pytestmark = pytest.mark.skipif(not hasattr(_core, "Engine"), reason="built without SQL")


@pytest.fixture
def db(tmp_path):
    with fathom.open(tmp_path / "db", memory="64M") as database:
        yield database


ROWS = [
    (1, 10 ** 12, 1.5, True, datetime.date(1969, 12, 31), Decimal("12.34"), "häß'lich"),
    (-7, -1, -0.0, False, datetime.date(2024, 2, 29), Decimal("-0.05"), ""),
    (None,) * 7,
    (2 ** 31 - 1, 2 ** 63 - 1, 1e308, True, datetime.date(9999, 12, 31), Decimal(0), "\U0001f40b"),
]


@pytest.fixture
def types(db):
    db.sql("create table types (i integer, l bigint, d double precision, b boolean, t date, "
           "n decimal(10,2), s text)")
    for row in ROWS:
        db.sql("insert into types values (?, ?, ?, ?, ?, ?, ?)", row)
    return db


def test_values_there_and_back(types):
    result = types.sql("select * from types")
    assert result.columns == ["i", "l", "d", "b", "t", "n", "s"]
    assert sorted(result, key=repr) == sorted(ROWS, key=repr)
    assert sorted(result.fetchall(), key=repr) == sorted(ROWS, key=repr)  # a second run
    assert types.sql("select count(*) from types").one() == 4


def test_numpy(types):
    data = types.sql("select * from types where i is not null order by i").numpy()
    assert {n: a.dtype.str for n, a in data.items()} == {
        "i": "<i4", "l": "<i8", "d": "<f8", "b": "|b1", "t": "<M8[D]", "n": "<f8", "s": "|O"}
    rows = sorted((r for r in ROWS if r[0] is not None), key=lambda r: r[0])
    for name, want in zip(data, zip(*rows)):
        assert data[name].tolist() == [float(v) if isinstance(v, Decimal) else v for v in want]
        assert name == "s" or data[name].flags.writeable
    data = types.sql("select * from types order by i").numpy()
    for name, array in data.items():
        if name == "s":
            assert sum(v is None for v in array) == 1
        else:
            assert np.ma.getmaskarray(array).sum() == 1
    assert {n: len(a) for n, a in types.sql("select i, s from types where i = 5").numpy().items()
            } == {"i": 0, "s": 0}
    assert list(types.sql("select i, i, i + 0 as i_1 from types").numpy()) == ["i", "i_1", "i_1_1"]


def test_data_frames(types):
    pandas = pytest.importorskip("pandas")
    frame = types.sql("select * from types order by i").df()
    assert frame.shape == (4, 7)
    assert frame["i"].isna().sum() == 1 and frame["i"][0] == -7 and frame["l"][1] == 10 ** 12
    assert pandas.isna(frame["t"][3]) and frame["t"][2] == datetime.date(9999, 12, 31)
    assert frame["s"][1] == "häß'lich"
    frame = types.sql("select i, d, t, s from types where l < 1000 * 1000 or l is null").df()
    assert str(frame["t"].dtype) == "datetime64[ns]"
    types.insert("copy", frame[["d", "t", "s"]], create=True)
    assert sorted(types.sql("select t, s from copy"), key=repr) == sorted(
        types.sql("select t, s from types where l < 1000 * 1000 or l is null"), key=repr)


def test_parameters_are_values_and_nothing_else(db):
    db.sql("create table t (s text)")
    evil = ["'; drop table t; --", "a\\'b", "$$", "?", "/*", '"', "\n", "e'\\x27"]
    for text in evil:
        db.sql("insert into t values (?)", [text])
        assert db.sql("select s from t where s = ?", [text]).one() == text
    assert db.sql("select count(*) from t").one() == len(evil)
    assert db.sql("select '?' as \"a?\", ? -- ?\n /* ? */ as b from t limit 1", [5]).fetchall() == \
        [("?", 5)]
    for wrong in ([], [1, 2]):
        with pytest.raises(ValueError):
            db.sql("select s from t where s = ?", wrong)
    for wrong in (float("nan"), "a\0b", object(), [1], datetime.datetime(2020, 1, 1, 5)):
        with pytest.raises((ValueError, TypeError)):
            db.sql("select s from t where s = ?", [wrong])
    with pytest.raises(ValueError):
        db.sql("select 1\0")


def test_errors_have_a_number_and_a_position(db):
    db.sql("create table t (i integer)")
    for statement, number in (("select x from t", errno.EINVAL), ("selec", errno.EINVAL),
                              ("insert into t values ('a')", errno.EINVAL), ("", errno.EINVAL),
                              ("insert into no values (1)", errno.EINVAL)):
        with pytest.raises(fathom.Error) as e:
            db.sql(statement)
        assert e.value.errno in (number, errno.ENOENT), statement
    with pytest.raises(fathom.Error, match="column 8"):
        db.sql("select x from t")
    with pytest.raises(fathom.Error, match="no rows"):
        list(db.sql("insert into t values (1)"))


def test_plans_have_the_memory_before_they_run(db):
    db.sql("create table t (i integer)")
    plan = db.sql("select i, count(*) from t group by i").explain()
    assert "memory at most" in plan and "budget" in plan


def test_too_little_memory_is_an_error(tmp_path):
    with fathom.open(tmp_path, memory="4M", sql="1M") as db:
        n = 200000
        rng = np.random.default_rng(1)
        db.insert("t", {"a": rng.permutation(n), "b": rng.permutation(n)}, create=True)
        try:
            got = db.sql("select a, count(*), max(b) from t group by a").numpy()
            assert len(got["a"]) == n  # spilled
        except fathom.Error as e:
            assert e.errno == errno.ENOMEM and isinstance(e, MemoryError)


def test_inserts_from_memory(db, tmp_path):
    n = 100000
    rng = np.random.default_rng(3)
    data = {"i": np.arange(n, dtype=np.int32), "u": rng.integers(0, 255, n, dtype=np.uint8),
            "f": rng.normal(size=n).astype("f4"), "b": rng.integers(0, 2, n) == 1,
            "s": np.array(["x%d" % i for i in range(n)]),
            "t": np.datetime64("2000-01-01") + np.arange(n) % 9999}
    assert db.insert("t", data, create=True) == n
    got = db.sql("select * from t order by i").numpy()
    for name in data:
        assert np.array_equal(got[name], data[name]), name
    # Columns that are arrays in files are read a part at a time.
    db.array("x", n, "f8")[:] = data["f"]
    db.insert("arrays", {"x": db.array("x")}, create=True)
    assert np.array_equal(np.sort(db.sql("select x from arrays").numpy()["x"]),
                          np.sort(data["f"].astype("f8")))
    for wrong in ({"i": [1]}, {**data, "more": data["i"]}, {**data, "i": data["i"][:5]}, {},
                  {**data, "i": data["f"]}):
        with pytest.raises((ValueError, TypeError)):
            db.insert("t", wrong)
    with pytest.raises(TypeError):
        db.insert("c", {"c": np.zeros(3, "c16")}, create=True)
    with pytest.raises(OverflowError):
        db.insert("big", {"u": np.array([1 << 63], np.uint64)}, create=True)
    assert db.sql("select count(*) from t").one() == n
    with pytest.raises(fathom.Error):
        db.insert("missing", {"i": [1]})


def test_csv_files(db, tmp_path):
    (tmp_path / "p.csv").write_text("id,name\n1,Ada\n2,\"Grace, Admiral\"\n")
    db.sql("create table people (id integer, name text)")
    assert db.sql("copy people from '%s' with (format csv, header)" % (tmp_path / "p.csv")
                  ).rowcount == 2
    assert db.sql("select name from people where id = 2").one() == "Grace, Admiral"
    assert db.tables() == ["people"]


def test_results_that_stay_on_flash(db):
    n = 50000
    db.insert("t", {"a": np.arange(n), "b": np.arange(n) / 2}, create=True)
    saved = db.sql("select a, b * 2 as c from t where a >= 100 order by a").save("r")
    assert list(saved) == ["a", "c"] and db.arrays() == ["r_a", "r_c"]
    assert np.array_equal(saved["a"][:], np.arange(100, n))
    assert np.array_equal(saved["c"][:], np.arange(100, n).astype(float))
    with pytest.raises(FileExistsError):
        db.sql("select a, b as c from t").save("r")
    db.sql("create table s (s text)")
    db.sql("insert into s values ('x')")
    with pytest.raises(fathom.Error):
        db.sql("select s from s").save("s")
    with pytest.raises(fathom.Error):
        db.sql("select a from t where a < 0").save("none")
    assert db.arrays() == ["r_a", "r_c"]
    assert not [f for f in os.listdir(os.path.join(db.path, "fathom.arrays")) if f[0] == "."]
    assert sum(len(part["a"]) for part in db.sql("select a from t").batches(7000)) == n


def test_closing_ends_results(tmp_path):
    db = fathom.open(tmp_path, memory="64M")
    db.insert("t", {"a": np.arange(300000)}, create=True)
    rows = iter(db.sql("select a from t"))
    next(rows)
    capsule = db.sql("select a from t").__arrow_c_stream__()
    with pytest.raises(fathom.Error) as e:
        db.close()
    assert e.value.errno == errno.EBUSY
    del capsule
    db.close()
    with pytest.raises(ValueError, match="closed"):
        list(rows)
    with pytest.raises(ValueError, match="closed"):
        db.sql("select 1")
    with fathom.open(tmp_path, memory="64M") as db:
        for _ in range(20):  # abandoned half-way
            next(iter(db.sql("select a from t")))
        gc.collect()


def test_the_tool_opens_the_same_database(db):
    import subprocess
    tool = os.environ.get("FTH_TOOL")
    if not tool or not os.path.exists(tool):
        pytest.skip("no tool")
    db.insert("t", {"a": [1, 2]}, create=True)
    db.array("x", 5, "f4")
    out = subprocess.run([tool, "sql", db.path, "--csv", "-c", "select sum(a) from t"], check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    assert out.split()[-1] == "3"


def test_threads_run_statements_at_the_same_time(db):
    n = 100000
    db.insert("t", {"a": np.arange(n), "g": np.arange(n) % 7}, create=True)
    errors = []

    def work(k):
        for _ in range(5):
            try:
                if db.sql("select sum(a) from t where g = ?", [k]).one() != sum(range(k, n, 7)):
                    errors.append(k)
            except Exception as e:
                errors.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def test_a_result_belongs_to_one_thread_at_a_time(db):
    db.insert("t", {"a": np.arange(100000)}, create=True)
    stream = _core.Stream(db._engine(), "select a from t")
    seen, refused = [], []

    def read():
        while True:
            try:
                rows = stream.rows()
            except fathom.Error as e:
                assert e.errno == errno.EBUSY
                refused.append(1)
                continue
            if not rows:
                return
            seen.append(len(rows))

    threads = [threading.Thread(target=read) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sum(seen) == 100000


def test_control_c_ends_a_statement(tmp_path, program):
    """A cross join of 10^18 rows does not end by itself."""
    reader = program("""
        import sys, numpy as np, fathom
        db = fathom.open(sys.argv[1], memory="64M")
        db.insert("t", {"a": np.arange(1000000)}, create=True)
        query = db.sql("select count(*) from t x, t y, t z where x.a + y.a > z.a")
        print("running", flush=True)
        try:
            query.one()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        assert db.sql("select count(*) from t").one() == 1000000
        db.close()
        """, tmp_path)
    reader.wait_for("running")
    time.sleep(.3)
    reader.process.send_signal(signal.SIGINT)
    reader.wait_for("interrupted")
    reader.end()


def test_a_child_of_fork_is_refused(db):
    db.insert("t", {"a": [1]}, create=True)
    child = os.fork()
    if child == 0:
        try:
            db.sql("select a from t")
        except PermissionError:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert db.sql("select a from t").one() == 1


def test_readers_beside_a_writer(tmp_path):
    with fathom.open(tmp_path, memory="32M") as writer:
        writer.insert("t", {"a": [1]}, create=True)
        with fathom.open(tmp_path, memory="32M", readonly=True) as reader:
            assert reader.sql("select a from t").one() == 1
            writer.insert("t", {"a": [2]})
            assert sorted(reader.sql("select a from t")) == [(1,), (2,)]
            with pytest.raises(fathom.Error):
                reader.sql("insert into t values (3)")
