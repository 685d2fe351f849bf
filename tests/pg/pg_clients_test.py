#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""pg_clients_test.py FATHOM CLIENT

What real clients of PostgreSQL do with `fathom sql serve`: psql, psycopg2, psycopg, asyncpg, SQLAlchemy, pandas, JDBC, ODBC and
pgcli, with their queries of catalogs. Skipped (77) where the client is missing. It runs in
Debian's Python, whose packages the clients are.
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


def test_psql_catalogs(_fathom, _folder, server):
    """What psql asks for \\d and its like, and for completion."""
    def cells(command):
        return [line.split("|") for line in psql(server, "-At", "-c", command).stdout.splitlines()]

    assert cells("\\d") == [["public", "t", "table", "tester"], ["public", "v", "view", "tester"]]
    assert cells("\\dt") == [["public", "t", "table", "tester"]] and cells("\\dv") == [["public", "v", "view", "tester"]]
    assert [row[:2] for row in cells("\\d t")] == [
        ["a", "integer"], ["s", "character varying(10)"], ["n", "numeric(12,2)"], ["d", "date"], ["f", "double precision"],
        ["b", "boolean"], ["c", "character(5)"], ["l", "bigint"], ["x", "text"]]
    assert cells("\\d t")[0][3] == "not null" and cells("\\d t")[1][3] == ""
    assert [row[0] for row in cells("\\d v")] == ["a", "twice"]
    assert "n * 2" in psql(server, "-c", "\\d+ v").stdout
    assert cells("\\dn") == [["public", "tester"]] and cells("\\l")[0][:5] == ["fathom", "tester", "UTF8", "C", "C"]
    assert "Did not find any relation" in psql(server, "-c", "\\d nosuch", status=1).stderr
    for command in ("\\dt+", "\\d+ t", "\\du", "\\df", "\\di", "\\ds", "\\dT", "\\dp", "\\db", "\\dx", "\\dO", "\\dE", "\\dm",
                    "\\dRp", "\\d t*"):
        psql(server, "-c", command)
    assert psql(server, "-At", stdin="select a, n from t \\gdesc\n").stdout == "a|integer\nn|numeric(12,2)\n"
    assert cells("select 't'::regclass, 't'::regclass::oid = (select oid from pg_class where relname = 't')") == [["t", "t"]]
    assert cells("select current_database(), current_user, current_schema(), pg_backend_pid() > 0, version()")[0][:4] == [
        "fathom", "tester", "public", "t"]
    # What the engine can do itself it does, and what nobody can is refused with its name.
    assert cells("select 1 + 1") == [["2"]]
    assert "nosuch" in psql(server, "-c", "select nosuch()", status=1).stderr
    assert "pg_nosuch" in psql(server, "-c", "select * from pg_nosuch", status=1).stderr


def test_sqlalchemy(_fathom, _folder, server):
    need("psycopg2")
    sqlalchemy = need("sqlalchemy")
    engine = sqlalchemy.create_engine("postgresql+psycopg2://tester@127.0.0.1:%d/fathom" % server.port)
    inspector = sqlalchemy.inspect(engine)
    assert inspector.get_table_names() == ["t"] and inspector.get_view_names() == ["v"]
    assert "public" in inspector.get_schema_names()
    columns = inspector.get_columns("t")
    assert [type(c["type"]).__name__ for c in columns] == ["INTEGER", "VARCHAR", "NUMERIC", "DATE", "DOUBLE_PRECISION", "BOOLEAN",
                                                           "CHAR", "BIGINT", "TEXT"], columns
    assert columns[1]["type"].length == 10 and columns[2]["type"].scale == 2
    assert [c["nullable"] for c in columns] == [False] + [True] * 8
    assert inspector.get_pk_constraint("t")["constrained_columns"] == [] and inspector.get_foreign_keys("t") == []
    assert inspector.get_indexes("t") == [] and inspector.get_unique_constraints("t") == []
    assert inspector.get_check_constraints("t") == [] and inspector.get_table_comment("t")["text"] is None
    assert inspector.has_table("t") and not inspector.has_table("nosuch")
    table = sqlalchemy.Table("t", sqlalchemy.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        query = sqlalchemy.select(table.c.a, table.c.n).where(table.c.a < 3).order_by(table.c.a)
        assert [tuple(r) for r in connection.execute(query)] == [(1, decimal.Decimal("1.50")), (2, decimal.Decimal("-0.07"))]
    metadata = sqlalchemy.MetaData()
    made = sqlalchemy.Table("made", metadata, sqlalchemy.Column("k", sqlalchemy.Integer), sqlalchemy.Column("s", sqlalchemy.Text))
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(made.insert(), [{"k": i, "s": str(i)} for i in range(10)])
    with engine.connect() as connection:
        assert connection.execute(sqlalchemy.select(sqlalchemy.func.count()).select_from(made)).scalar() == 10


def test_pandas(_fathom, _folder, server):
    need("psycopg2")
    sqlalchemy = need("sqlalchemy")
    pandas = need("pandas")
    engine = sqlalchemy.create_engine("postgresql+psycopg2://tester@127.0.0.1:%d/fathom" % server.port)
    frame = pandas.read_sql("select a, f from t order by a", engine)
    assert frame["a"].tolist() == [1, 2, 3] and frame["f"].tolist()[:2] == [1.5, -0.25]
    pandas.DataFrame({"k": [1, 2, 3], "v": ["a", "b", None]}).to_sql("frame", engine, index=False)
    back = pandas.read_sql_table("frame", engine)
    assert back["k"].tolist() == [1, 2, 3] and back["v"].tolist() == ["a", "b", None]


def test_pgcli(_fathom, _folder, server):
    execute = need("pgcli.pgexecute").PGExecute("fathom", "tester", "", "127.0.0.1", server.port, None)
    assert list(execute.tables()) == [("public", "t")] and list(execute.views()) == [("public", "v")]
    assert "public" in execute.schemata() and list(execute.databases()) == ["fathom"]
    assert [row[2:4] for row in execute.table_columns()][:2] == [("a", "integer"), ("s", "character varying")]
    assert list(execute.foreignkeys()) == [] and list(execute.functions()) == []
    assert list(list(execute.run("select a from t order by a"))[0][1]) == [(1,), (2,), (3,)]


def test_odbc(_fathom, _folder, server):
    if not shutil.which("isql") or not any(os.path.exists(d + "/psqlodbcw.so") for d in (
            "/usr/lib/x86_64-linux-gnu/odbc", "/usr/lib/aarch64-linux-gnu/odbc")):
        skip("odbc-postgresql or unixodbc")

    def isql(text):
        where = "DRIVER=PostgreSQL Unicode;SERVER=127.0.0.1;PORT=%d;UID=tester;PWD=x;DATABASE=fathom" % server.port
        result = subprocess.run(["isql", "-b", "-v", "-d|", "-k", where], input=text, capture_output=True, text=True, timeout=60)
        assert result.returncode == 0, result
        return result.stdout.splitlines()

    assert isql("select a, s, n, d from t where a = 1\n")[0] == "1|one|1.50|2024-02-29"
    assert [line.split("|")[2:4] for line in isql("help\n")] == [["t", "TABLE"], ["v", "VIEW"]]
    assert [line.split("|")[3] for line in isql("help t\n")] == ["a", "s", "n", "d", "f", "b", "c", "l", "x"]


JAVA = """import java.sql.*;
public class Client {
    static void check(boolean ok, String what) { if (!ok) throw new RuntimeException(what); }
    static int count(ResultSet r, String column, StringBuilder names) throws SQLException {
        int n = 0;
        while (r.next()) { n++; names.append(r.getString(column)).append(' '); }
        return n;
    }
    public static void main(String[] a) throws Exception {
        Connection c = DriverManager.getConnection("jdbc:postgresql://127.0.0.1:" + a[0] + "/fathom?user=tester");
        DatabaseMetaData m = c.getMetaData();
        StringBuilder names = new StringBuilder();
        check(count(m.getTables(null, "public", "%", null), "TABLE_NAME", names) == 2 && names.toString().equals("t v "), "tables " + names);
        names.setLength(0);
        check(count(m.getColumns(null, null, "t", "%"), "TYPE_NAME", names) == 9, "columns");
        check(names.toString().equals("int4 varchar numeric date float8 bool bpchar int8 text "), "types " + names);
        check(!m.getPrimaryKeys(null, null, "t").next() && !m.getIndexInfo(null, null, "t", false, false).next(), "keys");
        check(!m.getImportedKeys(null, null, "t").next() && m.getSchemas().next() && m.getTypeInfo().next(), "schemas");
        PreparedStatement p = c.prepareStatement("select a, s, n, d, f, b, l from t where a = ? and s = ? and n < ? and d = ?");
        for (int i = 0; i < 8; i++) {
            p.setInt(1, 1); p.setString(2, "one"); p.setBigDecimal(3, new java.math.BigDecimal("2")); p.setDate(4, Date.valueOf("2024-02-29"));
            ResultSet r = p.executeQuery();
            check(r.next() && r.getInt(1) == 1 && r.getBigDecimal(3).toString().equals("1.50") && r.getDouble(5) == 1.5 &&
                r.getDate(4).equals(Date.valueOf("2024-02-29")) && r.getBoolean(6) && r.getLong(7) == 123456789012L, "values");
        }
        c.createStatement().execute("create table j (a int, s text)");
        c.setAutoCommit(false);
        PreparedStatement b = c.prepareStatement("insert into j values (?, ?)");
        for (int i = 0; i < 50; i++) { b.setInt(1, i); b.setString(2, "x" + i); b.addBatch(); }
        b.executeBatch();
        c.commit();
        Statement s = c.createStatement();
        s.setFetchSize(7);
        ResultSet r = s.executeQuery("select a from j order by a");
        int n = 0;
        while (r.next()) check(r.getInt(1) == n++, "order");
        check(n == 50, "rows");
        try { s.executeQuery("select 1 / (a - 1) from j"); check(false, "no error"); }
        catch (SQLException e) { check(e.getSQLState().equals("22012"), e.getSQLState()); }
        c.rollback();
        c.close();
        System.out.println("ok");
    }
}
"""


def test_jdbc(_fathom, folder, server):
    jar = "/usr/share/java/postgresql.jar"
    if not os.path.exists(jar) or not shutil.which("javac"):
        skip("libpostgresql-jdbc-java or a JDK")
    with open(folder + "/Client.java", "w", encoding="ascii") as program:
        program.write(JAVA)
    result = subprocess.run(["java", "-cp", jar, folder + "/Client.java", str(server.port)], capture_output=True, text=True, timeout=120)
    assert result.stdout == "ok\n", result


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
