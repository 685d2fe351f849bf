# SPDX-License-Identifier: BSD-2-Clause
"""Memory cgroups: what a peer that lets the kernel page is given when ours has a cache of that size.

    with Cgroup(64 << 20) as group:
        bench_process.run(command, prepare=group.enter)
        print(group.peak())

The memory controller of either version of cgroups does; it needs the right to make a group, which as a rule means root.
"""
import itertools
import os
import time

from bench_cli import Skipped

NUMBERS = itertools.count()


def put(path, text):
    with open(path, "w") as file:
        file.write(text)


def find_mount():
    """The folder of a memory controller that may have groups, and whether it is of version 2."""
    with open("/proc/self/mounts") as mounts:
        for _, folder, kind, options, *_ in map(str.split, mounts):
            if kind == "cgroup" and "memory" in options.split(","):
                return folder, False
            if kind != "cgroup2":
                continue
            try:
                with open(folder + "/cgroup.controllers") as file:
                    found = "memory" in file.read().split()
                if found:
                    put(folder + "/cgroup.subtree_control", "+memory")
                    return folder, True
            except OSError:
                pass
    raise Skipped("no memory cgroup is mounted or writable")


class Cgroup:
    """memory: bytes, of processes, their page tables and the page cache that they fill; None: any amount. Without `swap`
    the kernel does not swap. Raises Skipped if there can be no group here."""

    def __init__(self, memory=None, swap=False):
        folder, self.v2 = find_mount()
        self.path = "%s/fathom-%d-%d" % (folder, os.getpid(), next(NUMBERS))
        try:
            os.mkdir(self.path, 0o755)
            if memory:
                put(self.path + ("/memory.max" if self.v2 else "/memory.limit_in_bytes"), str(memory))
        except OSError as failed:
            self.close()
            raise Skipped("cannot create cgroup %s: %s" % (self.path, failed.strerror)) from None
        try:
            if not swap:  # where there is no swap neither file is needed, so that a failure is none
                put(self.path + ("/memory.swap.max" if self.v2 else "/memory.swappiness"), "0")
        except OSError:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def enter(self):
        """Move this process into the group: for a child, before it becomes another program."""
        put(self.path + "/cgroup.procs", "0")

    def number(self, v2_name, v1_name):
        """A number that the kernel keeps; 0 if it does not."""
        try:
            with open("%s/%s" % (self.path, v2_name if self.v2 else v1_name)) as file:
                return int(file.read())
        except (OSError, ValueError):
            return 0

    def peak(self):
        """The most bytes so far."""
        return self.number("memory.peak", "memory.max_usage_in_bytes")

    def close(self):
        """The kernel may be busy with a process that has just left; tries are counted."""
        for _ in range(50):
            try:
                os.rmdir(self.path)
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.01)


def require():
    """Raises Skipped if there can be no group here."""
    Cgroup(16 << 20).close()
