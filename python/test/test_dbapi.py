# SPDX-License-Identifier: BSD-2-Clause
"""DB-API 2.0, and pandas over it."""
import warnings

import numpy as np
import pytest

import fathom
from fathom import _core

pytestmark = pytest.mark.skipif(not hasattr(_core, "Engine"), reason="built without SQL")
dbapi = pytest.importorskip("fathom.dbapi")


@pytest.fixture
def connection(tmp_path):
    with dbapi.connect(tmp_path / "db", memory="32M") as c:
        c.cursor().execute("create table t (i integer, s text)")
        yield c


def test_the_module():
    assert dbapi.apilevel == "2.0" and dbapi.paramstyle == "qmark" and dbapi.threadsafety == 2
    assert issubclass(dbapi.ProgrammingError, dbapi.DatabaseError)
    assert issubclass(dbapi.DatabaseError, dbapi.Error)
    assert dbapi.Date(2020, 1, 2) == dbapi.DateFromTicks(1577966400)


def test_a_cursor(connection):
    with connection.cursor() as c:
        assert c.description is None and c.rowcount == -1
        c.executemany("insert into t values (?, ?)", [(i, "s%d" % i) for i in range(10)])
        assert c.rowcount == 10 and c.description is None
        c.execute("select i, s from t order by i")
        assert [d[0] for d in c.description] == ["i", "s"]
        assert c.description[0][1] == dbapi.NUMBER and c.description[1][1] == dbapi.STRING
        assert c.description[0][1] != dbapi.STRING
        assert c.fetchone() == (0, "s0")
        assert c.fetchmany(2) == [(1, "s1"), (2, "s2")]
        assert c.fetchmany() == [(3, "s3")]
        assert len(c.fetchall()) == 6 and c.fetchall() == [] and c.fetchone() is None
        assert [r[0] for r in c.execute("select i from t where i > ? order by i", (7,))] == [8, 9]
    with pytest.raises(dbapi.InterfaceError):
        c.execute("select 1")


def test_errors_and_transactions(connection):
    c = connection.cursor()
    for wrong in ("select x from t", "nonsense", "select * from missing"):
        with pytest.raises(dbapi.ProgrammingError):
            c.execute(wrong)
    with pytest.raises(dbapi.ProgrammingError):
        c.execute("select i from t where i = ?", ())
    with pytest.raises(dbapi.InterfaceError):
        c.fetchone()
    connection.commit()
    connection.rollback()  # nothing was changed since
    c.execute("insert into t values (1, 'x')")
    with pytest.raises(dbapi.NotSupportedError):
        connection.rollback()
    connection.commit()
    connection.close()
    with pytest.raises(dbapi.InterfaceError):
        connection.cursor()
    with pytest.raises(dbapi.Error):
        dbapi.connect("/nonexistent/place", create=False)


def test_a_connection_to_an_open_database(tmp_path):
    with fathom.open(tmp_path, memory="32M") as db:
        db.insert("t", {"a": np.arange(5)}, create=True)
        with dbapi.connect(db) as connection:
            assert connection.cursor().execute("select sum(a) from t").fetchone() == (10,)
        assert db.sql("select count(*) from t").one() == 5


def test_pandas_reads_sql(connection):
    pandas = pytest.importorskip("pandas")
    connection.cursor().executemany("insert into t values (?, ?)", [(1, "a"), (2, None)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it was not tested with this module
        frame = pandas.read_sql("select * from t where i < ? order by i", connection, params=[5])
        assert frame["i"].tolist() == [1, 2] and frame["s"].tolist() == ["a", None]
        with pytest.raises(pandas.io.sql.DatabaseError):
            pandas.read_sql("select * from missing", connection)
