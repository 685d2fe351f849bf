# SPDX-License-Identifier: BSD-2-Clause
"""Scene of the demo: `fathom kv serve` and, where it is installed, memcached with extstore get the same items, more than fit
into their memory, and the same load, in which `fathom kv bench` verifies every value."""
import contextlib
import json
import os
import socket
import subprocess
import threading
import time

import bench_process
from bench_cli import Failed, Skipped
from demo_measured import FATHOM, has_program, tool, wait_until
from demo_tell import MICROSECONDS, PER_SECOND, Row

ITEMS, SMALLEST_ITEMS = 196608, 2000
OUR_MEMORY, PEER_MEMORY = "8M", "64"  # MiB for memcached's slabs of all sizes: both are equally large then
PEER_RATE = 60000  # sets per second; with more, extstore loses items
START_SECONDS = 30


@contextlib.contextmanager
def fathom_server(path, size, persist, memory=OUR_MEMORY):
    """The process, its port, and what it said when it started."""
    process = bench_process.start(
        [FATHOM, "--json", "kv", "serve", "--memory", memory, "--flash", "file:%s?create=on&size=%s" % (path, size),
         "--persist", persist, "--listen", "127.0.0.1:0", "--workers", "1"], stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        if not line:
            raise Failed("the server did not start")
        said = json.loads(line)
        yield process, said["port"], said
    finally:
        bench_process.kill(process)
        process.stdout.close()


def drop_pages(path, stop):
    """Keep the file of memcached out of the page cache, which is memory as well."""
    while not stop.wait(0.05):
        bench_process.drop_cache(path)


def answers(port):
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as s:
            s.sendall(b"version\r\n")
            return s.recv(64).startswith(b"VERSION")
    except OSError:
        return False


@contextlib.contextmanager
def memcached_server(path):
    port, stop = bench_process.free_port(), threading.Event()
    as_root = ["-u", "root"] if os.geteuid() == 0 else []
    process = bench_process.start(
        ["memcached", "-l", "127.0.0.1", "-U", "0", "-p", str(port), "-m", PEER_MEMORY, "-t", "1", "-o",
         "hashpower=18,ext_path=%s:512M,ext_threads=8,ext_item_age=0" % path, *as_root], stderr=subprocess.DEVNULL)
    dropper = threading.Thread(target=drop_pages, args=(path, stop))
    try:
        wait_until(lambda: process.poll() is not None or answers(port), START_SECONDS, "memcached")
        if process.poll() is not None:
            raise Skipped("memcached did not start")
        dropper.start()
        yield process, port, {}
    finally:
        stop.set()
        if dropper.ident:
            dropper.join()
        bench_process.kill(process)


def measure(tell, server, rate):
    """Fill and read; what `fathom kv bench` counted, and what the server used for it."""
    process, port, _ = server
    load = ["kv", "bench", "--server", "127.0.0.1:%d" % port, "--items", SMALLEST_ITEMS if tell.smallest else ITEMS,
            "--seed", tell.seed]
    fill = tool(*load, "--fill-only", "--rate", rate)["fill"]
    if fill["refused"]:
        raise Failed("%d items were not stored" % fill["refused"])
    if not tell.smallest:
        time.sleep(1)  # what it still has to write
    before = bench_process.cpu_seconds(process.pid)
    seen = tool(*load, "--no-fill", "--seconds", 0.2 if tell.smallest else 2)["load"]
    seen["cpu_us"] = (bench_process.cpu_seconds(process.pid) - before) * 1e6 / max(seen["gets"], 1)
    seen["mib"] = bench_process.read_fields("/proc/%d/status" % process.pid, "VmRSS")[0] / 1024
    return seen


def scene(tell):
    tell.begin("kv", "A cache server on flash, for any memcached client",
               "   %d items of 1 KiB, most of them in a file. One server thread,\n   32 connections, random keys." %
               (SMALLEST_ITEMS if tell.smallest else ITEMS))
    peer, note = None, "missing: apt install memcached"
    with bench_process.temporary_folder("fathom-demo-") as folder:
        with fathom_server(os.path.join(folder, "flash"), "512M", "off") as server:
            ours = measure(tell, server, 0)
        if has_program("memcached"):
            try:
                with memcached_server(os.path.join(folder, "extstore")) as server:
                    peer = measure(tell, server, 0 if tell.smallest else PEER_RATE)
            except Skipped:
                note = "did not start"
    sides = [("fathom kv serve, %.0f MiB resident" % ours["mib"], ours, True)]
    if peer:
        sides.append(("memcached, extstore, %.0f MiB" % peer["mib"], peer, False))
    missing = [] if peer else [Row("memcached with extstore", note=note)]
    tell.bars("gets", PER_SECOND, [Row(name, seen["keys_per_second"], mine) for name, seen, mine in sides] + missing)
    if peer:
        tell.bars("processor time per get", MICROSECONDS, [Row(name, seen["cpu_us"], mine) for name, seen, mine in sides])
    gone = [seen["misses"] for _, seen, _ in sides]
    if any(gone):
        tell.say("\n   Gets of items that were gone: %d%s." % (gone[0], ", memcached %d" % gone[1] if peer else ""))
    tell.end(sum(seen["gets"] for _, seen, _ in sides), "values", sum(seen["wrong"] for _, seen, _ in sides))


# ---- for the scene of failures ----

def talk(port, requests, count_answers):
    """Send requests and read until an answer is complete: all of it, as bytes."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), 30) as s:
        sender = threading.Thread(target=s.sendall, args=(requests,))
        sender.start()
        while not count_answers(answer):
            part = s.recv(1 << 20)
            if not part:
                break
            answer += part
        sender.join()
    return answer


def value_of(number):
    return (b"value of %d " % number) * 40


def killed_server(tell):
    """Store items, kill -9, start again: how many were acknowledged, found and right, and the seconds of the recovery."""
    items = SMALLEST_ITEMS if tell.smallest else 16384
    sets = b"".join(b"set key-%d 0 0 %d\r\n%s\r\n" % (i, len(value_of(i)), value_of(i)) for i in range(items))
    gets = b"".join(b"get key-%d\r\n" % i for i in range(items))
    with bench_process.temporary_folder("fathom-demo-") as folder:
        path = os.path.join(folder, "flash")
        with fathom_server(path, "64M", "write-through") as (process, port, _):
            stored = talk(port, sets, lambda seen: seen.endswith(b"\r\n") and seen.count(b"\r\n") >= items).count(b"STORED\r\n")
            process.kill()
            process.wait()
        with fathom_server(path, "64M", "write-through") as (_, port, said):
            text = talk(port, gets, lambda seen: seen.endswith(b"END\r\n") and seen.count(b"END\r\n") >= items)
    right = sum(b"VALUE key-%d 0 %d\r\n%s\r\nEND\r\n" % (i, len(value_of(i)), value_of(i)) == answer + b"END\r\n"
                for i, answer in enumerate(text.split(b"END\r\n")[:items]))
    return stored, right, said["recovery_seconds"]
