# SPDX-License-Identifier: BSD-2-Clause
"""A server for the tests of `fathom sql serve`, and a client of the protocol that hides nothing."""
import atexit
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile


class Server:
    """`fathom sql serve` on a port that the kernel chooses."""

    def __init__(self, fathom, db, *options, memory="64M"):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [fathom, "sql", "serve", "--listen", "127.0.0.1:0", "--create", "--log", "text", "--memory", memory, *options,
             db], stdout=subprocess.PIPE, stderr=self.log, text=True)
        atexit.register(self.kill)
        line = self.process.stdout.readline()
        found = re.search(r"port (\d+)", line)
        assert found, (line, self.stop())
        self.port = int(found.group(1))

    def kill(self):
        """After a test that has failed."""
        if self.process.poll() is None:
            self.process.kill()

    def stop(self, how=signal.SIGTERM):
        """Exit status and log."""
        self.process.send_signal(how)
        status = self.process.wait(60)
        self.process.stdout.close()
        self.log.seek(0)
        text = self.log.read()
        self.log.close()
        return status, text

    def memory(self):
        """Bytes that are resident."""
        with open("/proc/%d/status" % self.process.pid, encoding="ascii") as status:
            return int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1)) * 1024

    def descriptors(self):
        return len(os.listdir("/proc/%d/fd" % self.process.pid))

    def threads(self):
        return len(os.listdir("/proc/%d/task" % self.process.pid))


class Folder:
    """A temporary directory that is removed at the end."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="fathom-pg-")
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path)


class Refused(Exception):
    """An ErrorResponse: its fields."""

    def __init__(self, fields):
        super().__init__(fields.get("M"))
        self.fields = fields
        self.state = fields["C"]


def fields_of(body):
    return {part[:1].decode(): part[1:].decode() for part in body.rstrip(b"\0").split(b"\0") if part}


class Wire:
    """A connection, message by message."""

    def __init__(self, port, user="tester", database="db", log_in=True, **settings):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.notices, self.status, self.key = [], None, None
        self.settings = {}
        if log_in:
            self.send_startup(user=user, database=database, **settings)
            self.until_ready()

    def close(self):
        self.socket.close()

    def send_startup(self, version=196608, **options):
        body = b"".join(b"%s\0%s\0" % (k.encode(), v.encode()) for k, v in options.items()) + b"\0"
        self.socket.sendall(struct.pack("!ii", len(body) + 8, version) + body)

    def send(self, kind, body=b""):
        self.socket.sendall(kind.encode() + struct.pack("!i", len(body) + 4) + body)

    def take(self, n):
        got = b""
        while len(got) < n:
            more = self.socket.recv(n - len(got))
            if not more:
                raise ConnectionError("closed")
            got += more
        return got

    def receive(self):
        """The next message: its type and contents. Notices and settings are kept aside."""
        while True:
            kind, length = struct.unpack("!ci", self.take(5))
            kind, body = kind.decode(), self.take(length - 4)
            if kind == "N":
                self.notices.append(fields_of(body))
            elif kind == "S":
                name, value = body.rstrip(b"\0").split(b"\0") if body.count(b"\0") == 2 and body[-2:-1] != b"\0" else (
                    body.split(b"\0")[0], b"")
                self.settings[name.decode()] = value.decode()
            elif kind == "K":
                self.key = struct.unpack("!ii", body)
            else:
                return kind, body

    def until_ready(self):
        """All messages until ReadyForQuery; an error among them is raised then."""
        messages, error = [], None
        while True:
            kind, body = self.receive()
            if kind == "E":
                error = Refused(fields_of(body))
                if error.fields["S"] == "FATAL":
                    raise error
            if kind == "Z":
                self.status = body.decode()
                break
            messages.append((kind, body))
        if error:
            raise error
        return messages

    def query(self, text):
        """Rows of a simple query, and the last tag."""
        self.send("Q", text.encode() + b"\0")
        return rows_of(self.until_ready())

    # ---- the parts of extended queries ----

    def parse(self, text, name="", types=()):
        self.send("P", name.encode() + b"\0" + text.encode() + b"\0" + struct.pack("!h%di" % len(types), len(types), *types))

    def bind(self, values=(), name="", portal="", formats=(), results=()):
        body = portal.encode() + b"\0" + name.encode() + b"\0"
        body += struct.pack("!h%dh" % len(formats), len(formats), *formats) + struct.pack("!h", len(values))
        for value in values:
            raw = value.encode() if isinstance(value, str) else value
            body += struct.pack("!i", -1) if raw is None else struct.pack("!i", len(raw)) + raw
        self.send("B", body + struct.pack("!h%dh" % len(results), len(results), *results))

    def describe(self, what="S", name=""):
        self.send("D", what.encode() + name.encode() + b"\0")

    def execute(self, portal="", most=0):
        self.send("E", portal.encode() + b"\0" + struct.pack("!i", most))

    def sync(self):
        self.send("S")
        return self.until_ready()


def row_of(body):
    count, at, row = struct.unpack("!h", body[:2])[0], 2, []
    for _ in range(count):
        length = struct.unpack("!i", body[at:at + 4])[0]
        at += 4
        row.append(None if length < 0 else body[at:at + length])
        at += max(length, 0)
    assert at == len(body), body
    return row


def rows_of(messages):
    """Rows as tuples of text, and the last tag."""
    rows, tag = [], None
    for kind, body in messages:
        if kind == "D":
            rows.append(tuple(None if cell is None else cell.decode() for cell in row_of(body)))
        elif kind == "C":
            tag = body[:-1].decode()
    return rows, tag


def columns_of(body):
    """Name, type and modifier of each column of a RowDescription."""
    count, at, columns = struct.unpack("!h", body[:2])[0], 2, []
    for _ in range(count):
        end = body.index(b"\0", at)
        _, _, oid, _, modifier, form = struct.unpack("!ihihih", body[end + 1:end + 19])
        columns.append((body[at:end].decode(), oid, modifier, form))
        at = end + 19
    return columns
