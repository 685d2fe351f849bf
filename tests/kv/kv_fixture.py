# SPDX-License-Identifier: BSD-2-Clause
"""What tests of `fathom kv serve` in Python share: a server, and a plain client."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../bench/common"))
from bench_process import free_port  # noqa: E402

WAIT_S = 240  # for anything: a test fails instead of hanging
NUTCRACKER = shutil.which("nutcracker", path=os.environ["PATH"] + ":/usr/sbin")


def fail(text):
    sys.exit("%s: %s" % (os.path.basename(sys.argv[0]), text))


def skip(text):
    print("skipped: " + text)
    sys.exit(77)


class Folder:
    """A folder that is gone afterwards."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="fathom-kv-test-")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def file(self, name):
        return os.path.join(self.path, name)

    def flash(self, name, size="64M"):
        return "file:%s?create=on&size=%s" % (self.file(name), size)


class Server:
    """A server on a port of its own, or on `port`. Its log is in a file."""

    def __init__(self, fathom, *arguments, port=0, wait=True, **popen):
        self.log = tempfile.TemporaryFile("w+")
        command = [fathom, "kv", "serve", "--json", "--listen", "127.0.0.1:%d" % port, *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, **popen)
        self.port = port
        if wait:
            self.wait_ready()

    def wait_ready(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait(WAIT_S)
            if "not permitted" in self.errors() or "not implemented" in self.errors():
                skip(self.errors())
            fail("the server did not start: " + self.errors())
        self.report = json.loads(line)
        self.port = self.report["port"]

    def errors(self):
        self.log.seek(0)
        return self.log.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(WAIT_S)
        self.process.stdout.close()
        self.log.close()

    def stop(self):
        """In good order: status 0."""
        self.process.terminate()
        status = self.process.wait(WAIT_S)
        if status:
            fail("status %d after SIGTERM: %s" % (status, self.errors()))

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(WAIT_S)

    def alive(self):
        return self.process.poll() is None

    def memory(self):
        """Bytes resident."""
        with open("/proc/%d/statm" % self.process.pid) as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def dial(self):
        return Client(self.port)

    def stat(self, name):
        with self.dial() as c:
            return c.stat(name)


class Client:
    """Lines out, lines in."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), WAIT_S)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def line(self):
        return self.file.readline().rstrip(b"\r\n")

    def ask(self, data, lines=1):
        self.send(data)
        answer = [self.line() for _ in range(lines)]
        return answer[0] if lines == 1 else answer

    def set(self, key, value, more=b"0 0"):
        return self.ask(b"set %s %s %d\r\n%s\r\n" % (key, more, len(value), value))

    def get(self, key):
        head = self.ask(b"get %s\r\n" % key).split()
        if head == [b"END"]:
            return None
        if head[:1] != [b"VALUE"] or head[1] != key:
            fail("get %s: %s" % (key, head))
        value = self.file.read(int(head[3]))
        assert self.line() == b"" and self.line() == b"END"
        return value

    def stat(self, name):
        self.send(b"stats\r\n")
        found = None
        while True:
            words = self.line().split(b" ")
            if words == [b"END"]:
                return found
            if words[:2] == [b"STAT", name.encode()]:
                found = int(words[2])


def until(condition, what):
    """Wait for a condition."""
    end = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > end:
            fail("timed out: " + what)
        time.sleep(0.02)


class Daemon:
    """A process that listens on self.port some time after its start."""

    def __init__(self, command, port, **popen):
        self.port = port
        self.process = subprocess.Popen(command, **popen)
        until(self.listens, "%s does not listen" % command[0])

    def listens(self):
        if self.process.poll() is not None:
            fail("%s has ended" % self.process.args[0])
        try:
            Client(self.port).close()
            return True
        except OSError:
            return False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.process.terminate()
        self.process.wait(WAIT_S)


class Nutcracker(Daemon):
    """twemproxy in front of three nodes, with the settings of contrib/nutcracker.yml."""

    def __init__(self, folder, nodes):
        with open(os.path.join(os.path.dirname(__file__), "../../contrib/nutcracker.yml")) as f:
            text = f.read()
        port = free_port()
        text = text.replace("listen: 127.0.0.1:11211", "listen: 127.0.0.1:%d" % port)
        for n, node in enumerate(nodes):
            text, count = re.subn(r"127\.0\.0\.1:1131%d:" % (n + 1), "127.0.0.1:%d:" % node.port, text)
            assert count == 1
        with open(folder.file("nutcracker.yml"), "w") as f:
            f.write(text)
        super().__init__([NUTCRACKER, "-c", folder.file("nutcracker.yml"),
                          "-s", str(free_port()), "-o", folder.file("nutcracker.log")], port)
