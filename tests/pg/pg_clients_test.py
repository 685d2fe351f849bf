#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""pg_clients_test.py FATHOM CLIENT

What real clients of PostgreSQL do with `fathom sql serve`: psql, psycopg2, psycopg, asyncpg. Skipped (77) where the client is
missing. It runs in Debian's Python, whose packages the clients are.
"""
import asyncio
import datetime
import decimal
import importlib
import os
import shutil
import subprocess
import sys

from pg_server import Folder, Server

TABLES = """create table t (a int not null, s varchar(10), n decimal(12,2), d date, f double precision, b bool, c char(5),
l bigint, x text);
insert into t values (1, 'one', 1.50, '2024-02-29', 1.5, true, 'ab', 123456789012, 'tab'),
(2, null, -0.07, '1999-12-31', -0.25, false, null, -5, 'q"uote'), (3, 'three', 12345678.90, null, null, null, 'x', 0, '');
create view v as select a, n * 2 as twice from t where a < 3"""

ROWS = [(1, "one", decimal.Decimal("1.50"), datetime.date(2024, 2, 29), 1.5, True, 123456789012),
        (2, None, decimal.Decimal("-0.07"), datetime.date(1999, 12, 31), -0.25, False, -5),
        (3, "three", decimal.Decimal("12345678.90"), None, None, None, 0)]
COLUMNS = "a, s, n, d, f, b, l"


def skip(what):
    print("skipped: %s is missing" % what)
    sys.exit(77)


def need(module):
    try:
        return importlib.import_module(module)
    except ImportError:
        return skip(module)


def url(server, **more):
    options = {"host": "127.0.0.1", "port": server.port, "user": "tester", "dbname": "fathom", **more}
    return " ".join("%s=%s" % item for item in options.items())


def psql(server, *arguments, stdin=None, status=0, env=None, **more):
    if not shutil.which("psql"):
        skip("psql")
    result = subprocess.run(["psql", "-X", "-v", "ON_ERROR_STOP=1", url(server, **more), *arguments], input=stdin,
                            capture_output=True, text=True, timeout=60, env={**os.environ, **(env or {})})
    assert result.returncode == status, result
    return result


def test_psql(fathom, folder, server):
    out = psql(server, "-At", "-c", "select %s from t order by a" % COLUMNS).stdout
    assert out.splitlines()[0] == "1|one|1.50|2024-02-29|1.5|t|123456789012", out
    assert psql(server, "-c", "select nosuch from t", status=1).stderr.startswith("ERROR:  column \"nosuch\" does not exist")
    # \copy both ways, prepared statements of psql, a FETCH_COUNT that makes it use cursors.
    psql(server, "-c", "\\copy t to '%s/t.csv' csv header" % folder)
    psql(server, "-c", "create table u (a int not null, s varchar(10), n decimal(12,2), d date, f double precision, b bool, "
         "c char(5), l bigint, x text)", "-c", "\\copy u from '%s/t.csv' csv header" % folder)
    assert psql(server, "-At", "-c", "select count(*) from u, t where u.a = t.a and u.l = t.l and u.x = t.x").stdout == "3\n"
    script = "\\set FETCH_COUNT 2\nselect a from t order by a;\n\\timing on\nbegin;\ninsert into u(a) values (9);\nrollback;\n"
    assert psql(server, "-At", stdin=script).stdout.startswith("1\n2\n3\n")
    assert psql(server, "-At", "-c", "explain select a from t where a = 1").stdout != ""


def test_psql_secure(fathom, folder, server):
    """Passwords by SCRAM-SHA-256, and TLS."""
    if not shutil.which("openssl"):
        skip("openssl")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", folder + "/key", "-out",
                    folder + "/cert", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
                   check=True, capture_output=True)
    with open(folder + "/users", "w", encoding="ascii") as users:
        users.write("alice:secret:with colon\n# a comment\ntester:tests\n"
                    "user:SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:"
                    "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=\n")
    secure = Server(fathom, folder + "/db2", "--auth", folder + "/users", "--tls-cert", folder + "/cert", "--tls-key",
                    folder + "/key")
    for user, password in (("alice", "secret:with colon"), ("user", "pencil")):  # the second is that of RFC 7677
        for tls in ("disable", "require", "verify-full"):
            out = psql(secure, "-At", "-c", "select 1", user=user, sslmode=tls, sslrootcert=folder + "/cert",
                       env={"PGPASSWORD": password}).stdout
            assert out == "1\n"
    for user, password in (("alice", "wrong"), ("nobody", "x"), ("tester", "")):
        error = psql(secure, "-c", "select 1", user=user, env={"PGPASSWORD": password}, status=2).stderr
        assert "password" in error, error
    assert secure.stop()[0] == 0
    assert "does not support SSL" in psql(server, "-c", "select 1", sslmode="require", status=2).stderr


def test_psycopg2(_fathom, _folder, server):
    psycopg2 = need("psycopg2")
    connection = psycopg2.connect(url(server))
    cursor = connection.cursor()
    cursor.execute("select %s from t order by a" % COLUMNS)
    assert cursor.fetchall() == ROWS
    cursor.execute("select a from t where s = %s and d = %s", ("one", datetime.date(2024, 2, 29)))
    assert cursor.fetchall() == [(1,)] and [c.name for c in cursor.description] == ["a"]
    cursor.execute("create table p2 (a int, s text)")
    connection.commit()
    cursor.execute("insert into p2 values (%s, %s)", (1, "x'y"))
    connection.rollback()
    cursor.execute("select count(*) from p2")
    assert cursor.fetchone() == (0,)
    connection.commit()
    cursor.executemany("insert into p2 values (%s, %s)", [(i, str(i)) for i in range(100)])
    connection.commit()
    named = connection.cursor("named")
    named.itersize = 7
    named.execute("select a from p2 order by a")
    assert [row[0] for row in named] == list(range(100))
    named.close()
    try:
        cursor.execute("select 1 / (a - 1) from t")
        raise AssertionError("no error")
    except psycopg2.errors.DivisionByZero:
        connection.rollback()
    with open("/dev/null", encoding="ascii") as nothing:
        cursor.copy_from(nothing, "p2")
    connection.close()


def test_psycopg(_fathom, _folder, server):
    psycopg = need("psycopg")
    with psycopg.connect(url(server)) as connection:
        assert connection.execute("select %s from t order by a" % COLUMNS).fetchall() == ROWS
        assert connection.cursor(binary=True).execute("select %s from t order by a" % COLUMNS).fetchall() == ROWS
        values = (1, decimal.Decimal("0.5"), datetime.date(2024, 2, 29), "one", 1.5, True)
        for binary in "%s", "%b", "%t":
            text = "select a from t where a = {0} and n > {0} and d = {0} and s = {0} and f = {0} and b = {0}".format(binary)
            assert connection.execute(text, values).fetchall() == [(1,)], binary
        for i in range(8):  # prepared after five
            assert len(connection.execute("select a from t where a = %s", (i,)).fetchall()) == (1 <= i <= 3)
        connection.execute("create table p3 (a int, s text)")
        with connection.cursor() as cursor:
            cursor.executemany("insert into p3 values (%s, %s)", [(i, str(i)) for i in range(100)])
            connection.commit()
            with cursor.copy("copy p3 from stdin") as copy:
                for i in range(100, 200):
                    copy.write_row((i, "a\tb\\c\n"))
            connection.commit()
            with cursor.copy("copy (select a, s from p3 where a > 98 order by a limit 2) to stdout") as copy:
                assert list(copy.rows()) == [("99", "99"), ("100", "a\tb\\c\n")]
        with connection.cursor("server side") as cursor:
            cursor.execute("select a from p3 where a >= %s order by a", (10,))
            assert cursor.fetchmany(5) == [(i,) for i in range(10, 15)] and len(cursor.fetchall()) == 185
        connection.commit()
        try:
            with connection.transaction():
                connection.execute("insert into p3 values (1, 'x')")
                raise psycopg.Rollback
        except psycopg.Rollback:
            pass
        with connection.pipeline():
            results = [connection.execute("select %s::int + 1", (i,)) for i in range(10)]
        assert [r.fetchone()[0] for r in results] == list(range(1, 11))
        assert connection.execute("select count(*) from p3").fetchone() == (200,)


def test_asyncpg(_fathom, _folder, server):
    asyncpg = need("asyncpg")

    async def run():
        connection = await asyncpg.connect(host="127.0.0.1", port=server.port, user="tester", database="fathom")
        assert [tuple(r) for r in await connection.fetch("select %s from t order by a" % COLUMNS)] == ROWS
        assert await connection.fetchval("select a from t where a = $1 and d >= $2 and n < $3 and s = $4", 1,
                                         datetime.date(2000, 1, 1), decimal.Decimal("1.51"), "one") == 1
        await connection.execute("create table ap (a int, s text)")
        await connection.copy_records_to_table("ap", records=[(i, "z") for i in range(50)], columns=["a", "s"])
        await connection.executemany("insert into ap values ($1, $2)", [(i, None) for i in range(50, 100)])
        async with connection.transaction():
            seen = [r["a"] async for r in connection.cursor("select a from ap order by a", prefetch=7)]
        assert seen == list(range(100))
        for text, error in (("select * from nosuch", asyncpg.UndefinedTableError),
                            ("select 1 / (a - 1) from t", asyncpg.DivisionByZeroError)):
            try:
                await connection.fetch(text)
                raise AssertionError("no error")
            except error:
                pass
        try:
            await connection.execute("select count(*) from ap x, ap y, ap z, ap p, ap q where x.a + y.a + z.a + p.a < q.a",
                                     timeout=.3)
            raise AssertionError("no timeout")
        except asyncio.TimeoutError:
            pass
        assert await connection.fetchval("select count(*) from ap") == 100
        await connection.close()

    asyncio.run(run())


def main():
    fathom = os.path.abspath(sys.argv[1])
    test = globals()["test_" + sys.argv[2]]
    with Folder() as folder:
        subprocess.run([fathom, "sql", "--create", folder + "/db", "-c", TABLES], check=True, capture_output=True)
        server = Server(fathom, folder + "/db")
        try:
            test(fathom, folder, server)
        finally:
            status, log = server.stop()
        assert status == 0 and "stopped" in log, (status, log)


if __name__ == "__main__":
    main()
