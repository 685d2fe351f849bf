# SPDX-License-Identifier: BSD-2-Clause
"""A file that the kernel swaps to, for the time of a measurement. Needs root."""
import ctypes
import os
import struct
import tempfile

import bench_process
from bench_cli import Skipped

PAGE = 4096
CLUSTER = "/proc/sys/vm/page-cluster"


def header(size):
    """What mkswap writes: a header behind the first 1024 bytes, and a signature at the end of the page."""
    page = bytearray(PAGE)
    struct.pack_into("<III", page, 1024, 1, size // PAGE - 1, 0)
    page[-10:] = b"SWAPSPACE2"
    return bytes(page)


class SwapFile:
    """with SwapFile(...): one of so many bytes in a folder. single: pages are read one by one, as random accesses want it;
    otherwise as the machine is set up (vm.page-cluster). Everything is as it was afterwards."""

    def __init__(self, folder, size, single):
        self.folder, self.size, self.single, self.path, self.on, self.cluster = folder, size, single, None, False, None

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        try:
            fd, self.path = tempfile.mkstemp(prefix="fathom-swap-", dir=self.folder)
            try:
                os.posix_fallocate(fd, 0, self.size)
                os.pwrite(fd, header(self.size), 0)
                os.fsync(fd)
            finally:
                os.close(fd)
            if bench_process.LIBC.swapon(os.fsencode(self.path), 0) < 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        except OSError as failed:
            raise Skipped("cannot use a swap file in %s: %s" % (self.folder, failed.strerror)) from None
        self.on = True
        if self.single:
            with open(CLUSTER) as file:
                self.cluster = file.read()
            self.set_cluster("0")

    def set_cluster(self, text):
        with open(CLUSTER, "w") as file:
            file.write(text)

    def __exit__(self, *_):
        if self.on:
            bench_process.LIBC.swapoff(os.fsencode(self.path))
        if self.path:
            bench_process.remove(self.path)
        if self.cluster:
            self.set_cluster(self.cluster)
