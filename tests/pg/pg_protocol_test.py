#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""pg_protocol_test.py FATHOM

PostgreSQL's protocol as `fathom sql serve` speaks it, message by message: simple and extended queries, parameters, portals,
cursors, COPY, transactions, errors with their codes, cancel requests, passwords, garbage, many connections, killed clients and
servers.
"""
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from pg_server import Folder, Refused, Server, Wire, columns_of, row_of, rows_of

LONG = bool(os.environ.get("FTH_LONG_TESTS"))


def refused(wire, text, state):
    """The statement fails with this SQLSTATE."""
    try:
        result = wire.query(text)
    except Refused as error:
        assert error.state == state, (text, error.fields)
        return error
    raise AssertionError("%s: expected %s, got %s" % (text, state, result))


def fill(wire):
    wire.query("""create table t (a int not null, s varchar(10), n decimal(12,2), d date, f double precision, b bool, c char(5),
                  l bigint, x text)""")
    wire.query("""insert into t values (1, 'one', 1.50, '2024-02-29', 1.5, true, 'ab', 123456789012, 'tab'),
                  (2, null, -0.07, '1999-12-31', -0.25, false, null, -5, 'q"uote'),
                  (3, 'three', 12345678.90, null, null, null, 'x', 0, '')""")


def test_simple(server):
    w = Wire(server.port)
    assert w.settings["server_encoding"] == "UTF8" and w.settings["integer_datetimes"] == "on", w.settings
    fill(w)
    w.send("Q", b"select * from t order by a\0")
    messages = w.until_ready()
    assert [c[:3] for c in columns_of(messages[0][1])] == [
        ("a", 23, -1), ("s", 1043, 14), ("n", 1700, (12 << 16 | 2) + 4), ("d", 1082, -1), ("f", 701, -1), ("b", 16, -1),
        ("c", 1042, 9), ("l", 20, -1), ("x", 25, -1)], columns_of(messages[0][1])
    rows, tag = rows_of(messages)
    assert rows == [("1", "one", "1.50", "2024-02-29", "1.5", "t", "ab", "123456789012", "tab"),
                    ("2", None, "-0.07", "1999-12-31", "-0.25", "f", None, "-5", 'q"uote'),
                    ("3", "three", "12345678.90", None, None, None, "x", "0", "")], rows
    assert tag == "SELECT 3"
    assert w.query("select 1; select 2 as b; select 'x;y'") == ([("1",), ("2",), ("x;y",)], "SELECT 1")
    w.send("Q", b" ; -- nothing\0")
    assert [kind for kind, _ in w.until_ready()] == ["I"]
    # The statements behind an error are not run.
    error = refused(w, "select 1; selec 2; create table never (a int)", "42601")
    assert "never" not in str(w.query("select 'ok'")) and refused(w, "select * from never", "42P01")
    assert error.fields["P"] == "1", error.fields
    assert refused(w, "select a,\n nosuch from t", "42703").fields["P"] == "12"
    w.close()


def test_errors(server):
    w = Wire(server.port)
    for text, state in (("select 1 / (a - 1) from t", "22012"), ("select * from nosuch", "42P01"), ("selec", "42601"),
                        ("select nosuch(1)", "42883"), ("select a from t where d = 'x'", "22007"),
                        ("select a from t where a = 'x'", "22P02"), ("insert into t(s) values ('x')", "23502"),
                        ("create table t (a int)", "42P07"), ("update t set a = 1", "0A000"),
                        ("select a + s from t", "42883"), ("select sum(a), s from t", "42803"),
                        ("insert into t(a, n) values (1, 99999999999.5)", "22003"), ("fetch 1 from nosuch", "34000"),
                        ("insert into t(a, s) values (1, 'more than ten characters')", "22001"),
                        ("set nosuch = 1", "42704"), ("set client_encoding = 'LATIN1'", "22023"), ("show nosuch", "42704"),
                        ("copy t from '/etc/passwd'", "42501"), ("copy t to '/tmp/x'", "42501"),
                        ("copy t to program 'id'", "42501"), ("savepoint s", "25P01"), ("deallocate nosuch", "26000"),
                        ("declare c cursor for select 1", "25P01"), ("select 2147483647 + 1", "22003")):
        refused(w, text, state)
        assert w.status == "I"
    w.close()


def test_extended(server):
    w = Wire(server.port)
    w.parse("select a, s, n, d, f, b, l, $3 as p from t where a = $1 and d > $2", "one", types=(0, 1082, 25))
    w.describe("S", "one")
    messages = w.sync()
    assert [kind for kind, _ in messages] == ["1", "t", "T"], messages
    assert struct.unpack("!h3i", messages[1][1]) == (3, 23, 1082, 25)
    assert columns_of(messages[2][1])[7][:2] == ("p", 25)
    # The same values as text and in binary, with results in both formats.
    date = struct.pack("!i", -366)  # 1998-12-31
    for values, formats in ((("1", "1998-12-31", "é"), ()), ((struct.pack("!i", 1), date, "é"), (1, 1, 0)),
                            ((struct.pack("!i", 1), date, "é".encode()), (1,))):
        w.bind(values, "one", formats=formats)
        w.describe("P")
        w.execute()
        rows, tag = rows_of(w.sync())
        assert rows == [("1", "one", "1.50", "2024-02-29", "1.5", "t", "123456789012", "é")] and tag == "SELECT 1", rows
    w.bind(("1", "1998-12-31", None), "one", results=(1,))
    w.describe("P")
    w.execute()
    messages = w.sync()
    assert {c[3] for c in columns_of(messages[1][1])} == {1}
    a, s, n, d, f, b, l, p = row_of(messages[2][1])
    assert (struct.unpack("!i", a), s, p) == ((1,), b"one", None)
    assert struct.unpack("!hhhh2h", n) == (2, 0, 0, 2, 1, 5000) and struct.unpack("!i", d) == (8825,)
    assert struct.unpack("!d", f) == (1.5,) and b == b"\1" and struct.unpack("!q", l) == (123456789012,)
    # A wrong value, a wrong number of values; the messages behind an error are skipped until Sync.
    for values, state in ((("x", "1998-12-31", ""), "22P02"), (("1",), "08P01")):
        w.bind(values, "one")
        w.execute()
        w.parse("select 1", "skipped")
        try:
            w.sync()
            raise AssertionError("no error")
        except Refused as error:
            assert error.state == state, error.fields
    for send, state in ((lambda: w.bind((), "skipped"), "26000"), (lambda: w.execute("nosuch"), "34000"),
                        (lambda: w.describe("P", "nosuch"), "34000"), (lambda: w.parse("select 2", "one"), "42P05"),
                        (lambda: w.parse("select 1; select 2"), "42601"), (lambda: w.parse("select $70000"), "42P02")):
        send()
        try:
            w.sync()
            raise AssertionError("no error")
        except Refused as error:
            assert error.state == state, error.fields
    w.send("C", b"Sone\0")
    w.parse("select 5", "one")
    w.bind((), "one")
    w.execute()
    assert rows_of(w.sync())[0] == [("5",)]
    w.parse("insert into t(a, s) values ($1, $2)")
    w.describe()
    messages = w.sync()
    assert messages[1][1] == struct.pack("!hii", 2, 23, 25) and messages[2][0] == "n", messages
    w.close()


NUMBERS = """create table numbers (a int not null);
insert into numbers select 10 * x.i + y.i from (values (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)) as x(i),
(values (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)) as y(i);
insert into numbers select 100 * x.a + y.a + 100 from numbers x, numbers y where x.a < 99"""


def test_portals(server):
    w = Wire(server.port)
    w.query(NUMBERS)
    assert w.query("select count(*), min(a), max(a) from numbers")[0] == [("10000", "0", "9999")]
    w.parse("select a, 'some text that takes space' from numbers order by a")
    w.bind()
    seen = []
    # Portions of a portal, with another query in between, which drops the unnamed portal.
    for most, want in ((3, "s"), (5, "s"), (9000, "s"), (0, "C")):
        w.execute("", most)
        w.send("H")
        while True:
            kind, body = w.receive()
            if kind == "D":
                seen.append(int(row_of(body)[0]))
            elif kind in "sC":
                assert kind == want, (most, kind)
                break
    assert seen == list(range(10000)), len(seen)
    w.sync()
    w.execute()
    try:
        w.sync()
        raise AssertionError("a portal outlived its transaction")
    except Refused as error:
        assert error.state == "34000"
    # Cursors.
    w.query("begin; declare c cursor for select a from numbers order by a; declare h cursor with hold for select 7")
    assert [w.query("fetch 2 from c")[0], w.query("move 3 in c")[1], w.query("fetch next in c")] == [
        [("0",), ("1",)], "MOVE 3", ([("5",)], "FETCH 1")]
    assert len(w.query("fetch all from c")[0]) == 9994 and w.query("fetch c")[1] == "FETCH 0"
    refused(w, "fetch backward 1 from c", "55000")
    assert w.status == "E"
    w.query("rollback")
    refused(w, "fetch 1 from c", "34000")
    w.query("begin; declare h cursor with hold for select 7; commit")
    assert w.query("fetch all from h")[0] == [("7",)] and w.query("close h")[1] == "CLOSE CURSOR"
    w.close()


def test_transactions(server):
    w, other = Wire(server.port), Wire(server.port)
    w.query("create table x (a int); create table y (a int)")
    assert w.query("begin")[1] == "BEGIN" and w.status == "T"
    assert w.query("insert into x values (1), (2)")[1] == "INSERT 0 2"
    assert other.query("select count(*) from x")[0] == [("0",)]
    refused(w, "select * from x", "0A000")
    assert w.status == "E"
    refused(w, "select 1", "25P02")
    assert w.query("commit")[1] == "ROLLBACK" and w.status == "I"
    assert other.query("select count(*) from x")[0] == [("0",)]
    w.query("begin; insert into x values (3); insert into x values (4); commit")
    assert other.query("select sum(a) from x")[0] == [("7",)]
    w.query("begin; insert into x values (5); rollback")
    w.query("begin; savepoint p")
    refused(w, "selec", "42601")
    assert w.query("rollback to p")[1] == "ROLLBACK" and w.status == "T"
    w.query("insert into x values (6)")
    refused(w, "rollback to p", "0A000")
    w.query("rollback")
    assert other.query("select sum(a) from x")[0] == [("7",)]
    w.query("begin; insert into x values (8)")
    refused(other, "insert into x values (9)", "55006")  # one writer at a time
    w.close()  # without a commit
    for _ in range(600):
        try:
            other.query("insert into x values (9)")
            break
        except Refused:
            time.sleep(.05)
    assert other.query("select sum(a), count(*) from x")[0] == [("16", "3")]
    # INSERTs before one Sync are one batch; an error undoes those before it.
    other.parse("insert into y values ($1)", "i")
    for value in ("1", "2", "3"):
        other.bind((value,), "i")
        other.execute()
    other.sync()
    assert other.query("select sum(a) from y")[0] == [("6",)]
    for value in ("4", "five", "6"):
        other.bind((value,), "i")
        other.execute()
    try:
        other.sync()
        raise AssertionError("no error")
    except Refused:
        pass
    assert other.query("select sum(a) from y")[0] == [("6",)]
    other.notices.clear()
    other.query("begin; create table z (a int); rollback")
    assert [n["S"] for n in other.notices] == ["WARNING", "WARNING"], other.notices
    other.query("commit; drop table z")
    assert other.notices[-1]["C"] == "25P01"
    other.close()


def test_copy(server):
    w = Wire(server.port)
    w.send("Q", b"copy (select a, s, x from t where a < 4 order by a) to stdout with (format csv, header)\0")
    data = b"".join(body for kind, body in w.until_ready() if kind == "d")
    assert data == b'a,s,x\n1,one,tab\n2,,"q""uote"\n3,three,""\n', data
    w.query("create table c (a int, s text)")

    def copy(how, *parts, end="c"):
        w.send("Q", ("copy c " + how).encode() + b"\0")
        kind, _ = w.receive()
        assert kind == "G", kind
        for part in parts:
            w.send("d", part)
        w.send(end, b"" if end == "c" else b"enough\0")
        return rows_of(w.until_ready())[1]

    assert copy("from stdin", b"1\tone\\tx\n2\t\\N\n3", b"\tb\\\\s\\n\n") == "COPY 3"
    assert copy("(s, a) from stdin with (format csv, header)", b'"S",A\n"fo""ur",4\n') == "COPY 1"
    assert copy("from stdin with (format csv, delimiter ';', null 'nil')", b"5;nil\n6;a,b\n") == "COPY 2"
    rows = [(1, "one\tx"), (2, None), (3, "b\\s\n"), (4, 'fo"ur'), (5, None), (6, "a,b")]
    want = [(str(a), s) for a, s in rows]
    assert w.query("select a, s from c order by a")[0] == want
    w.send("Q", b"copy c to stdout (format binary)\0")
    binary = b"".join(body for kind, body in w.until_ready() if kind == "d")
    w.send("Q", b"copy c to stdout\0")
    text = b"".join(body for kind, body in w.until_ready() if kind == "d")
    w.query("drop table c; create table c (a int, s text)")
    # Byte by byte, and in one piece.
    assert copy("from stdin binary", *(binary[i:i + 1] for i in range(len(binary)))) == "COPY 6"
    assert copy("from stdin", *(text[i:i + 1] for i in range(len(text)))) == "COPY 6"
    assert w.query("select a, s from c order by a, s")[0] == sorted(want * 2, key=lambda r: (r[0], r[1] or "~"))
    # All or nothing.
    for how, parts, end, state in (("from stdin", [b"7\tx\n", b"8\n"], "c", "22P04"),
                                   ("from stdin", [b"7\tx\nseven\tx\n"], "c", "22P02"),
                                   ("from stdin", [b"7\tx\n"], "f", "57014"),
                                   ("from stdin (format csv)", [b'7,"x\n'], "c", "22P04"),
                                   ("from stdin binary", [binary[:-9]], "c", "22P04"),
                                   ("from stdin binary", [b"no binary data, whatever it says\n"], "c", "22P04")):
        try:
            copy(how, *parts, end=end)
            raise AssertionError("%s %s succeeded" % (how, parts))
        except Refused as error:
            assert error.state == state, (how, parts, error.fields)
        assert w.status == "I" and w.query("select count(*) from c")[0] == [("12",)]
    w.query("begin")
    assert copy("from stdin", b"7\tx\n") == "COPY 1"
    w.query("rollback")
    # A client that goes away in the middle.
    w.send("Q", b"copy c from stdin\0")
    w.receive()
    w.send("d", b"9\tx\n" * 1000)
    w.close()
    w = Wire(server.port)
    for _ in range(600):  # until its writer is gone
        try:
            w.query("insert into c values (10, 'last')")
            break
        except Refused:
            time.sleep(.05)
    assert w.query("select count(*) from c")[0] == [("13",)]
    w.close()


SLOW = "select count(*) from numbers x, numbers y, numbers z where x.a + y.a < z.a"


def test_cancel(server):
    w = Wire(server.port)
    w.send("Q", SLOW.encode() + b"\0")
    stop, errors = threading.Event(), []

    def cancel():
        while not stop.wait(.05):
            try:
                c = Wire(server.port, log_in=False)
                c.socket.sendall(struct.pack("!iiii", 16, 80877102, *w.key))
                c.close()
            except OSError as error:
                errors.append(error)

    thread = threading.Thread(target=cancel)
    thread.start()
    try:
        w.until_ready()
        raise AssertionError("it was not canceled")
    except Refused as error:
        assert error.state == "57014", error.fields
    stop.set()
    thread.join()
    assert not errors and w.query("select 1")[0] == [("1",)]
    # A key of nobody, a time limit, and clients that go away.
    c = Wire(server.port, log_in=False)
    c.socket.sendall(struct.pack("!iiii", 16, 80877102, w.key[0], w.key[1] ^ 1))
    c.close()
    w.query("set statement_timeout = '100ms'")
    assert "timeout" in refused(w, SLOW, "57014").fields["M"]
    w.query("reset statement_timeout")
    for _ in range(3):
        gone = Wire(server.port)
        gone.send("Q", SLOW.encode() + b"\0")
        gone.close()
    w.close()
    for _ in range(600):
        if server.threads() <= 4:
            break
        time.sleep(.05)
    assert server.threads() <= 4, server.threads()


def garbage(rng):
    """Bytes that a client would not send: noise, or messages with damage."""
    startup = struct.pack("!ii", 23, 196608) + b"user\0me\0\0" + b"\0" * 6
    kind = rng.randrange(5)
    if kind == 0:
        return rng.randbytes(rng.randrange(1, 300))
    if kind == 1:
        return struct.pack("!i", rng.choice([-1, 0, 4, 7, 9, 10001, 2 ** 31 - 1])) + rng.randbytes(20)
    text = startup[:4 + 19]
    text = struct.pack("!ii", 17, 196608) + b"user\0me\0\0"
    for _ in range(rng.randrange(1, 6)):
        body = rng.choice([b"select 1\0", b"\0select $1\0\0\0", b"\0\0\0\0\0\1\0\0\0\1x\0\0", b"S\0", b"\0\0\0\0\0", rng.randbytes(30)])
        length = len(body) + 4 + (rng.choice([-6, -1, 1, 1000, 2 ** 30]) if rng.random() < .2 else 0)
        text += bytes([rng.choice(b"QPBDECSHXdcfpF" if rng.random() < .9 else range(256))]) + struct.pack("!i", length) + body
    if kind == 4:
        at = rng.randrange(len(text))
        text = text[:at] + rng.randbytes(3) + text[at + 3:]
    return text


def test_garbage(server):
    """2,000 streams in the long version; the server answers, or closes, and stays."""
    rng = random.Random(4711)
    before = server.descriptors()
    for i in range(2000 if LONG else 300):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as s:
            try:
                s.sendall(garbage(rng))
                if i % 3:
                    s.shutdown(socket.SHUT_WR)
                    while s.recv(65536):
                        pass
            except OSError:
                pass
    w = Wire(server.port)
    assert w.query("select count(*) from t")[0] == [("3",)]
    w.close()
    for _ in range(600):
        if server.descriptors() <= before:
            break
        time.sleep(.05)
    assert server.descriptors() <= before, (before, server.descriptors())


def test_crowd(fathom, db):
    """200 connections that all ask, in a budget that a few of them fill; one more is refused."""
    server = Server(fathom, db, "--connections", "200", "--threads", "1")
    wires = [Wire(server.port) for _ in range(200)]
    try:
        Wire(server.port)
        raise AssertionError("connection 201 was accepted")
    except Refused as error:
        assert error.state == "53300", error.fields
    for w in wires:
        w.send("Q", b"select a, count(*) from numbers where a % 2 = 0 group by a order by a limit 3\0")
    short = 0
    for w in wires:
        try:
            assert rows_of(w.until_ready())[0] == [("0", "1"), ("2", "1"), ("4", "1")]
        except Refused as error:  # the budget is used by others
            assert error.state == "53200", error.fields
            short += 1
    assert short < 200, short
    for w in wires:
        assert w.query("select 1")[0] == [("1",)]
        w.close()
    status, log = server.stop()
    assert status == 0 and "200 connections" in log, log[-300:]


def test_slow_reader(fathom, db):
    """A client that takes no results is dropped; others are served meanwhile."""
    server = Server(fathom, db, "--timeout-ms", "1500")
    w, slow = Wire(server.port), Wire(server.port)
    slow.send("Q", b"select x.a, y.a, 'text to fill the buffers of the socket' from numbers x, numbers y where x.a < 300\0")
    assert w.query("select count(*) from t")[0] == [("3",)]
    for _ in range(600):
        if server.threads() <= 4:
            break
        time.sleep(.05)
    assert server.threads() <= 4, server.threads()
    slow.close()
    w.close()
    assert server.stop()[0] == 0


def test_kill(fathom, db):
    """kill -9 in the middle of appends: what was acknowledged is there, and nothing else."""
    done = 0
    for round_ in range(8 if LONG else 3):
        server = Server(fathom, db)
        w = Wire(server.port)
        if round_ == 0:
            w.query("create table k (a int)")
        assert int(w.query("select count(*) from k")[0][0][0]) in (done, done + 100), done
        done = int(w.query("select count(*) from k")[0][0][0])
        threading.Timer(.3 + .2 * round_, server.process.kill).start()
        try:
            while True:
                w.query("insert into k select a from numbers where a < 100")
                done += 100
        except (ConnectionError, OSError):
            pass
        w.close()
        server.stop(signal.SIGKILL)
    check = subprocess.run([fathom, "sql", "check", db, "k"], capture_output=True, text=True)
    assert check.returncode == 0, check


def test_stop(fathom, db):
    """SIGTERM ends running statements and idle connections."""
    server = Server(fathom, db)
    idle, busy = Wire(server.port), Wire(server.port)
    busy.send("Q", SLOW.encode() + b"\0")
    status, log = server.stop()
    assert status == 0 and "stopped: 2 connections" in log, log
    idle.close()
    busy.close()


def test_listen(fathom, db):
    for options, text in ((["--listen", "0.0.0.0:0", db], "other machines can reach"),
                          (["--auth", "/nonexistent", db], "/nonexistent"), (["--tls-cert", "x", db], "go together"),
                          (["--log", "xml", db], "expected off, text or json")):
        result = subprocess.run([fathom, "sql", "serve", *options], capture_output=True, text=True)
        assert result.returncode != 0 and text in result.stderr, (options, result)


def test_readonly(fathom, db):
    server = subprocess.Popen([fathom, "sql", "serve", "--readonly", "--listen", "127.0.0.1:0", db], stdout=subprocess.PIPE,
                              text=True)
    w = Wire(int(server.stdout.readline().split()[-1]))
    assert w.query("select count(*) from t")[0] == [("3",)]
    refused(w, "insert into t(a) values (1)", "25006")
    w.close()
    server.terminate()
    assert server.wait(60) == 0
    server.stdout.close()


def main():
    fathom = os.path.abspath(sys.argv[1])
    with Folder() as folder:
        db = folder + "/db"
        server = Server(fathom, db)
        for test in (test_simple, test_errors, test_extended, test_portals, test_transactions, test_copy, test_cancel,
                     test_garbage):
            test(server)
            print(test.__name__, flush=True)
        status, log = server.stop()
        assert status == 0 and "stopped" in log, (status, log[-500:])
        for test in (test_crowd, test_slow_reader, test_kill, test_stop, test_listen, test_readonly):
            test(fathom, db)
            print(test.__name__, flush=True)


if __name__ == "__main__":
    main()
