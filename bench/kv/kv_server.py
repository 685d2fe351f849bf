# SPDX-License-Identifier: BSD-2-Clause
"""The servers of `fathom bench kv` and `kvclient`: ours (`fathom kv serve`) and memcached, with extstore or without, each as a
process of its own, and what the kernel counts of it."""
import json
import os
import select
import socket
import subprocess
import threading
import time
import types

import bench_process
from bench_cli import Failed, Skipped

START_S, STOP_S, DROP_S = 30, 30, 0.1
EXT_PAGE = 64 << 20  # of extstore
EXT_PAGES_MIN = 8
EXT_ITEM_MAX = 512  # extstore's default of the smallest item that goes to flash
HASHPOWER_MIN, HASHPOWER_MAX = 16, 31


class Server:
    """items, memory (bytes for items), threads; flash: bytes of the file `path`, or 0: items are in memory only."""

    def __init__(self, program, items, value, memory, threads, flash=0, path=None):
        self.program, self.items, self.value, self.memory, self.threads = program, items, value, memory, threads
        self.flash, self.path = flash, path if flash else None
        self.process, self.port = None, 0

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        bench_process.kill(self.process, STOP_S)
        if self.path:
            bench_process.remove(self.path)

    def address(self):
        return "127.0.0.1:%d" % self.port

    def check(self, deadline):
        """Has it ended, or taken too long, before it was ready?"""
        status = self.process.poll()
        if status is not None:
            raise Failed("%s exited with status %d before it was ready" % (self.program, status))
        if time.monotonic() > deadline:
            raise Failed("%s did not start in %d s" % (self.program, START_S))

    def stat(self, name):
        """The number that `stats` gives for a name."""
        with socket.create_connection(("127.0.0.1", self.port), START_S) as connection:
            connection.sendall(b"stats\r\n")
            for line in connection.makefile("rb"):
                words = line.split()
                if words[:1] == [b"END"]:
                    break
                if words[:2] == [b"STAT", name.encode()]:
                    return int(words[2])
        raise Failed("%s has no counter %s" % (self.program, name))

    def counts(self):
        """cpu (seconds of all threads), rss, bytes read and written, and reads, the requests of everybody on the device
        of the file."""
        pid = self.process.pid
        read, written = bench_process.read_fields("/proc/%d/io" % pid, "read_bytes", "write_bytes")
        rss = bench_process.read_fields("/proc/%d/status" % pid, "VmRSS")[0] << 10
        return types.SimpleNamespace(cpu=bench_process.cpu_seconds(pid), rss=rss, read=read, written=written,
                                     device_reads=device_reads(self.path))

    def settle(self, seconds):
        """Wait until it has written nothing for so long, 60 times as long at most."""
        before = None
        for _ in range(60):
            now = self.counts().written
            if now == before:
                return
            before = now
            time.sleep(seconds)


class Fathom(Server):
    def start(self):
        if self.flash:
            with open(self.path, "xb") as file:
                os.posix_fallocate(file.fileno(), 0, self.flash)
        self.process = bench_process.start(
            [self.program, "kv", "serve", "--json", "--listen", "127.0.0.1:0", "--memory", self.memory, "--items", self.items,
             "--flash", "file:" + self.path if self.flash else "none", "--force", "--workers", self.threads,
             "--connections", 4096], stdout=subprocess.PIPE)
        deadline, line = time.monotonic() + START_S, b""
        while not line.endswith(b"\n"):  # which has the port
            self.check(deadline)
            if select.select([self.process.stdout], [], [], 0.1)[0]:
                line += os.read(self.process.stdout.fileno(), 4096)
        self.port = json.loads(line)["port"]


class Memcached(Server):
    """It reads through the page cache: a thread keeps its file out of there."""

    stopped = dropper = None

    def options(self):
        """ext_item_age=0: everything goes to flash at once, or it loses items while flash is free. The hash table has its final
        size from the beginning. ext_item_size: small items go to flash as well."""
        power = min(max((self.items - 1).bit_length(), HASHPOWER_MIN), HASHPOWER_MAX)
        if not self.flash:
            return "hashpower=%d" % power
        pages = max(-(-self.flash // EXT_PAGE), EXT_PAGES_MIN)
        return "hashpower=%d,ext_path=%s:%dM,ext_threads=8,ext_item_age=0,ext_item_size=%d" % (
            power, self.path, pages * (EXT_PAGE >> 20), min(self.value // 2, EXT_ITEM_MAX))

    def start(self):
        self.port = bench_process.free_port()
        command = [self.program, "-l", "127.0.0.1", "-p", self.port, "-U", 0, "-m", self.memory >> 20, "-t", self.threads,
                   "-c", 4096, "-o", self.options()] + (["-u", "root"] if os.getuid() == 0 else [])
        self.process = bench_process.start(command, stderr=subprocess.DEVNULL)
        deadline, pid = time.monotonic() + START_S, None
        while pid is None:
            self.check(deadline)
            try:
                pid = self.stat("pid")
            except OSError:
                time.sleep(0.02)
        if pid != self.process.pid:
            raise Failed("another server took the port")
        if self.flash:
            self.stopped = threading.Event()
            self.dropper = threading.Thread(target=self.drop, daemon=True)
            self.dropper.start()

    def drop(self):
        with open(self.path, "rb") as file:
            while not self.stopped.wait(DROP_S):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self):
        if self.dropper:
            self.stopped.set()
            self.dropper.join()
        super().close()


def memcached_version(program):
    """Raises Skipped if it is not installed."""
    try:
        return bench_process.run([program, "-V"]).text.split("\n")[0]
    except (Skipped, Failed, OSError):
        raise Skipped("%s is not installed" % program) from None


def device_reads(path):
    """Requests that the device of a file has read so far; 0 if the kernel does not say."""
    try:
        device = os.stat(path or "").st_dev
        with open("/sys/dev/block/%d:%d/stat" % (os.major(device), os.minor(device))) as file:
            return int(file.read().split()[0])
    except (OSError, IndexError):
        return 0
