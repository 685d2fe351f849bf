#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""kv_full_test.py FATHOM: `fathom kv serve` with its default index, and more items than flash holds.

No set is refused, with and without --persist, also beyond the limit of --items; as many items are kept as flash
has room for, and they are the newest ones. Restarts with a larger and with a smaller --items honour it. The
statistic `evictions` counts the items that are lost, and not those that leave memory for flash.
"""
import sys

from kv_fixture import Folder, Server, fail

FATHOM = sys.argv[1]
FLASH = 16 << 20
BATCH = 500
SMALL = ("--memory", "1M", "--value-max", "60K", "--chunk", "256K")


def key(i):
    return b"key-%07d" % i


def fill(server, first, last, bytes_):
    value = b"v" * bytes_
    with server.dial() as c:
        for at in range(first, last, BATCH):
            batch = range(at, min(at + BATCH, last))
            c.send(b"".join(b"set %s 0 0 %d\r\n%s\r\n" % (key(i), bytes_, value) for i in batch))
            for i in batch:
                answer = c.line()
                if answer != b"STORED":
                    fail("set of item %d, of %d bytes: %s" % (i, bytes_, answer.decode()))


def kept(server, first, last):
    """How many of these items there are."""
    found = 0
    with server.dial() as c:
        for at in range(first, last, BATCH):
            c.send(b"get %s\r\n" % b" ".join(key(i) for i in range(at, min(at + BATCH, last))))
            line = c.line()
            while line != b"END":
                c.file.read(int(line.split()[3]) + 2)
                found += 1
                line = c.line()
    return found


def record(bytes_):
    """Bytes of an item in the log."""
    return (32 + len(key(0)) + bytes_ + 15) // 16 * 16


def flash_is_used_up(folder, bytes_, *persist):
    """Until flash is full nothing is lost; then it stays full."""
    with Server(FATHOM, *SMALL, "--flash", folder.flash("full%d%d" % (bytes_, len(persist)), "16M"),
                *persist) as server:
        ring = server.stat("flash_bytes")
        if ring < FLASH * 0.7:
            fail("a log of %d bytes in %d of flash" % (ring, FLASH))
        room = ring // record(bytes_)
        fill(server, 0, room * 8 // 10, bytes_)
        if server.stat("evictions") or server.stat("evicted") == 0:
            fail("%d evictions, %d items left memory" % (server.stat("evictions"), server.stat("evicted")))
        found = kept(server, 0, room * 8 // 10)
        if found != room * 8 // 10:
            fail("%d of %d items of %d bytes are left" % (found, room * 8 // 10, bytes_))
        fill(server, room * 8 // 10, room * 3 // 2, bytes_)
        found = kept(server, room * 3 // 2 - room * 8 // 10, room * 3 // 2)
        if found != room * 8 // 10:
            fail("%d of the last %d items of %d bytes are left" % (found, room * 8 // 10, bytes_))
        if not 0 < server.stat("evictions") <= room * 7 // 10:
            fail("%d evictions of %d items" % (server.stat("evictions"), room * 3 // 2))
        server.stop()


def items_is_honoured(folder):
    """A limit of the index, then a larger and a smaller one."""
    arguments = SMALL + ("--flash", folder.flash("items", "16M"), "--persist", "write-back")
    with Server(FATHOM, *arguments, "--items", "20000") as server:
        fill(server, 0, 40000, 50)
        # A part of what the index has are older items in memory.
        if kept(server, 28000, 40000) != 12000:
            fail("%d of the last 12000 items" % kept(server, 28000, 40000))
        if kept(server, 0, 40000) > 25000:
            fail("%d items with --items 20000" % kept(server, 0, 40000))
        server.stop()
    with Server(FATHOM, *arguments, "--items", "50000") as server:
        if kept(server, 28000, 40000) != 12000:
            fail("%d of 12000 items after a restart" % kept(server, 28000, 40000))
        fill(server, 40000, 70000, 50)
        if kept(server, 28000, 70000) != 42000:
            fail("%d of 42000 items with --items 50000" % kept(server, 28000, 70000))
        server.stop()
    with Server(FATHOM, *arguments, "--items", "15000") as server:
        if kept(server, 62000, 70000) != 8000 or kept(server, 0, 70000) > 20000:
            fail("%d of all and %d of the last 8000 items with --items 15000" %
                 (kept(server, 0, 70000), kept(server, 62000, 70000)))
        server.stop()


with Folder() as folder:
    for size in (300, 100):
        flash_is_used_up(folder, size, "--persist", "write-back")
        flash_is_used_up(folder, size)
    items_is_honoured(folder)
