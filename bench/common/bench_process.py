# SPDX-License-Identifier: BSD-2-Clause
"""Processes of the benchmarks that are scripts: programs with a deadline, what the kernel counted of them, memory
cgroups, files and folders that are removed."""
import contextlib
import ctypes
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import types

import bench_cli

HERE = os.path.dirname(os.path.realpath(__file__))
NO_PROGRAM, NOT_HERE = 127, 77
PR_SET_PDEATHSIG = 1
PORT_BEGIN = 10000
LIBC = ctypes.CDLL(None, use_errno=True)


def find_beside(name):
    """A program or script in the folder of these scripts."""
    path = os.path.join(HERE, name)
    return path if os.path.exists(path) else None


def find_fathom():
    """`fathom-bench` says where `fathom` is; else it is beside, or in PATH."""
    return os.environ.get("FTH_BENCH_FATHOM") or find_beside("fathom") or "fathom"


def driver(name, *arguments):
    """The command line of a part of a benchmark that is in C."""
    program = os.environ.get("FTH_BENCH_PROGRAM") or find_beside("fathom-bench") or "fathom-bench"
    return [program, "driver", name] + [str(argument) for argument in arguments]


def free_port():
    """A port for a server that cannot choose its own. The kernel gives ports of its local range to any connection at any
    time, even to one that waits for this very server, so it comes from below that range."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
        end = max(int(f.read().split()[0]), PORT_BEGIN + 1024)
    while True:
        port = random.SystemRandom().randrange(PORT_BEGIN, end)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("", port))
            return port


# ---- programs ----

def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start(command, **how):
    """A process that ends when this one does. Standard input and, unless told otherwise, output are /dev/null."""
    how.setdefault("stdout", subprocess.DEVNULL)
    how.setdefault("stdin", subprocess.DEVNULL)
    prepare = how.pop("prepare", None)

    def before():
        die_with_parent()
        if prepare:
            prepare()

    try:
        return subprocess.Popen([str(word) for word in command], preexec_fn=before, **how)
    except FileNotFoundError:
        raise bench_cli.Skipped("%s is not installed" % command[0]) from None


def finish(process, seconds=None):
    """Wait for the end of a process, at most so many seconds; what it used."""
    deadline = seconds and time.monotonic() + seconds
    try:
        while True:
            pid, status, used = os.wait4(process.pid, os.WNOHANG if deadline else 0)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                return used
            if time.monotonic() > deadline:
                raise bench_cli.Failed("%s does not end within %d s" % (process.args[0], seconds))
            time.sleep(0.02)
    finally:
        kill(process)


def kill(process, grace=5):
    """End a process that may have ended: first in good order, so that it can remove its files."""
    if not process or process.returncode is not None:
        return
    process.terminate()
    try:
        process.wait(grace)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def run(command, output=None, seconds=None, what=None, **how):
    """Run a program to its end. Returns text (its standard output, unless that goes to the file `output`), and the seconds
    cpu and wall. A program that fails raises Failed with its last line on standard error; one that is
    missing or exits with 77 raises Skipped."""
    begin = time.monotonic()
    with tempfile.TemporaryFile() as errors, (open(output, "wb") if output else tempfile.TemporaryFile()) as out:
        process = start(command, stdout=out, stderr=errors, **how)
        used = finish(process, seconds)
        if process.returncode:
            fail(what or os.path.basename(str(command[0])), process.returncode, errors)
        text = ""
        if not output:
            out.seek(0)
            text = out.read().decode(errors="replace")
    return types.SimpleNamespace(text=text, cpu=used.ru_utime + used.ru_stime, wall=time.monotonic() - begin)


def fail(name, status, errors):
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().split("\n")
    if status < 0:
        raise bench_cli.Failed("%s was killed by signal %d" % (name, -status))
    if status == NO_PROGRAM:
        raise bench_cli.Skipped("%s is not installed" % name)
    text = lines[-1] or "%s exited with status %d" % (name, status)
    raise (bench_cli.Skipped if status == NOT_HERE else bench_cli.Failed)(text.removeprefix("fathom: "))


class Conversation:
    """A program that answers each line on its standard input with a line of JSON, until that is closed."""

    def __init__(self, command, **how):
        self.errors, self.name = tempfile.TemporaryFile(), os.path.basename(str(command[0]))
        self.process = start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, **how)

    def answer(self):
        """Its next line. A program that has ended raises its error."""
        line = self.process.stdout.readline()
        if line.endswith("\n"):
            return json.loads(line)
        self.process.wait()
        fail(self.name, self.process.returncode, self.errors)

    def ask(self, *words):
        try:
            print(*words, file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass
        return self.answer()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        """It ends by itself, and removes its files."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        if kind:
            kill(self.process)
        elif self.process.wait(60):
            fail(self.name, self.process.returncode, self.errors)


# ---- /proc ----

def read_fields(path, *names):
    """Numbers after `NAME:` in a file of /proc; 0 if it is gone."""
    values = dict.fromkeys(names, 0)
    try:
        with open(path) as file:
            for line in file:
                name, _, rest = line.partition(":")
                if name in values:
                    values[name] = int(rest.split()[0])
    except (OSError, IndexError, ValueError):
        pass
    return [values[name] for name in names]


def peak_bytes(pid):
    return read_fields("/proc/%d/status" % pid, "VmHWM")[0] << 10


def cpu_seconds(pid):
    """Processor seconds of a process, user and system."""
    with open("/proc/%d/stat" % pid) as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---- files ----

def files_of(path):
    if os.path.isfile(path):
        return [path]
    return [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]


def bytes_of(path):
    return sum(os.path.getsize(name) for name in files_of(path))


def drop_cache(path):
    """Drop a file, or all files of a folder, from the page cache, so that the next to read them pays for it: pages that are
    there are charged to the process that brought them in."""
    for name in files_of(path):
        with open(name, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def scratch_folder(folder=None):
    """`folder`, or where files that nobody keeps are made."""
    return folder or os.environ.get("TMPDIR") or "/tmp"


def temporary_folder(prefix, folder=None):
    """As tempfile.TemporaryDirectory."""
    return tempfile.TemporaryDirectory(prefix=prefix, dir=scratch_folder(folder), ignore_cleanup_errors=True)


def remove(path):
    """A file or a tree, or nothing."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.unlink(path)
