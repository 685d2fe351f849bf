#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""sql_shell_test.py FATHOM: the shell of `fathom sql` on a pseudo-terminal.

Statements over several lines, completion of names and keywords, Ctrl-C at the prompt and during a query, errors,
the commands with a backslash, the history of the session before, end of input, SIGTERM.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

FATHOM = sys.argv[1]
PATIENCE = 600  # seconds; a slow machine is no failure
NINE = "(values (1), (2), (3), (4), (5), (6), (7), (8), (9))"
# More rows than any machine counts while this test waits.
ENDLESS = "select sum(a0.x * a1.x) from " + ", ".join("%s a%d(x)" % (NINE, i) for i in range(16)) + ";"


def fail(text):
    print("sql_shell_test:", text, file=sys.stderr)
    sys.exit(1)


class Shell:
    """The tool on a terminal. Text is what it has written since the last wait."""

    def __init__(self, folder, *arguments):
        self.master, slave = pty.openpty()
        # So wide that no line is broken: a newline is the end of a statement.
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 4000, 0, 0))
        self.text = ""
        environment = dict(os.environ, TERM="xterm", FATHOM_HISTORY=folder + "/history", INPUTRC="/dev/null",
                           ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
        self.process = subprocess.Popen([FATHOM, "sql", *arguments], stdin=slave, stdout=slave, stderr=slave,
                                        start_new_session=True, env=environment,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.wait_for("fathom> ")

    def read(self, seconds):
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.master, 65536).decode("utf-8", "replace")
        except OSError:  # the terminal has no other side any more
            return False
        self.text += re.sub(r"\x1b(\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|[=>78])", "", data).replace("\r", "")
        return True

    def wait_for(self, words):
        """Wait until this was written; returns all text up to it."""
        deadline = time.monotonic() + PATIENCE
        while words not in self.text:
            if time.monotonic() > deadline or (not self.read(0.1) and self.process.poll() is not None):
                fail("no %r on the terminal: %r" % (words, self.text[-2000:]))
        before, self.text = self.text.split(words, 1)
        return before

    def type(self, text):
        os.write(self.master, text.encode())

    def ask(self, statement):
        """Type a statement; returns what comes before the next prompt."""
        self.type(statement + "\n")
        self.wait_for("\n")
        return self.wait_for("fathom> ")

    def wait_end(self):
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            self.read(0.05)
            if time.monotonic() > deadline:
                self.process.kill()
                fail("it does not end: %r" % self.text[-2000:])
        return self.process.returncode


def check(text, *words):
    for word in words:
        if word not in text:
            fail("no %r in %r" % (word, text))


def test_statements(shell):
    check(shell.ask("create table people (id int, birthplace varchar(20));"), "CREATE TABLE")
    check(shell.ask("insert into people values (1, 'ulm'), (2, 'bonn');"), "INSERT 2", "time:")
    shell.type("select id\n")
    shell.wait_for("...> ")
    shell.type("\n")  # an empty line is part of the statement
    shell.wait_for("...> ")
    shell.type("from people\n")
    shell.wait_for("...> ")
    check(shell.ask("order by 1; select 7 as seven;"), "(2 rows)", " seven")
    check(shell.ask("select nosuch from people;"), 'column "nosuch" does not exist', "\n         ^")
    check(shell.ask("select 1 / 0;"), "division by zero")


def test_commands(shell):
    shell.ask("create view towns as select birthplace from people;")
    check(shell.ask("\\d"), "people", "2 rows", "towns", "view")
    check(shell.ask("\\d people"), "birthplace", "varchar(20)")
    check(shell.ask("\\d towns"), "select birthplace from people")
    check(shell.ask("\\timing"), "timing is off")
    if "time:" in shell.ask("select 1;"):
        fail("timing is not off")
    check(shell.ask("\\?"), "\\q")


def test_completion(shell):
    shell.type("sel\t")
    shell.wait_for("SELECT")
    shell.type(" birthp\t")
    shell.wait_for("birthplace")
    shell.type(" from peo\t")
    shell.wait_for("people")
    check(shell.ask(" where id = 2;"), "bonn", "(1 row)")


def test_interrupt(shell):
    shell.type("select nonsense")
    shell.wait_for("nonsense")
    shell.type("\x03")
    shell.wait_for("fathom> ")
    check(shell.ask("select 5 as five;"), "five")
    shell.type("select 1\n")
    shell.wait_for("...> ")
    shell.type("\x03")
    shell.wait_for("fathom> ")
    shell.type("select 8 as eight; " + ENDLESS + "\n")
    shell.wait_for("(1 row)")  # the line was read, and the other statement begins
    deadline = time.monotonic() + PATIENCE
    while "canceled" not in shell.text:  # the query may not have begun when the first Ctrl-C comes
        if time.monotonic() > deadline:
            fail("Ctrl-C does not cancel: %r" % shell.text)
        shell.type("\x03")
        time.sleep(0.2)
        shell.read(0)
    shell.wait_for("fathom> ")
    check(shell.ask("select 6 as six;"), "six")


def has_readline(folder):
    """Without it nothing is completed, and the history is not kept."""
    shell = Shell(folder)
    shell.type("sel\t\n")
    found = "SELECT" in shell.wait_for("...> ")
    shell.type("\x04")
    shell.wait_end()
    return found


def main():
    with tempfile.TemporaryDirectory() as folder:
        edits = has_readline(folder)
        shell = Shell(folder, "--create", folder + "/db")
        test_statements(shell)
        test_commands(shell)
        if edits:
            test_completion(shell)
        test_interrupt(shell)
        shell.type("\x04")
        if shell.wait_end() != 0:
            fail("status %d at the end of input" % shell.process.returncode)
        if edits:
            shell = Shell(folder, folder + "/db")
            shell.type("\x1b[A")
            shell.wait_for("select 6 as six;")
            check(shell.ask(""), "six")
        else:
            shell = Shell(folder, folder + "/db")
        shell.type("\\q\n")
        if shell.wait_end() != 0:
            fail("status %d after \\q" % shell.process.returncode)
        shell = Shell(folder)
        shell.process.send_signal(signal.SIGTERM)
        shell.wait_end()
    print("sql_shell_test: passed" + ("" if edits else ", without readline"))


main()
