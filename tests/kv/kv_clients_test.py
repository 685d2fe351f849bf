#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""kv_clients_test.py FATHOM: clients of memcached that are in use: pymemcache, pylibmc, memcaslap
and other tools of libmemcached."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import zlib

from kv_fixture import WAIT_S, Folder, Server, fail, skip, until

try:
    import pylibmc
    import pymemcache
    from pymemcache.client.base import Client as PyClient
    from pymemcache.exceptions import (MemcacheClientError, MemcacheIllegalInputError,
                                       MemcacheServerError)
except ImportError as e:
    skip("%s (python3-pymemcache, python3-pylibmc)" % e)

FATHOM = sys.argv[1]
LONG = os.environ.get("FTH_LONG_TESTS")


def raises(kind, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except kind:
        return True
    return False


# ---- pymemcache ----


def check_stores(c):
    assert c.set("a", b"1", noreply=False) is True
    assert c.get("a") == b"1" and c.get("none") is None and c.get("none", b"x") == b"x"
    assert c.add("a", b"2", noreply=False) is False and c.add("b", b"2", noreply=False) is True
    assert c.replace("c", b"3", noreply=False) is False
    assert c.replace("b", b"3", noreply=False) is True
    assert c.append("b", b"4", noreply=False) and c.prepend("b", b"2", noreply=False)
    assert c.get("b") == b"234"
    assert c.append("none", b"4", noreply=False) is False
    assert c.set_many({"m%d" % i: b"%d" % i for i in range(300)}, noreply=False) == []
    assert c.get_many(["m%d" % i for i in range(400)]) == {"m%d" % i: b"%d" % i for i in range(300)}
    assert c.delete("m0", noreply=False) is True and c.delete("m0", noreply=False) is False
    assert c.delete_many(["m%d" % i for i in range(300)], noreply=False)
    assert c.get_many(["m%d" % i for i in range(400)]) == {}


def check_numbers(c):
    c.set("n", b"10", noreply=False)
    assert c.incr("n", 5) == 15 and c.decr("n", 10) == 5 and c.decr("n", 10) == 0
    assert c.incr("none", 1) is None
    assert c.incr("n", 2**64 - 1) == 2**64 - 1 and c.incr("n", 2) == 1
    c.set("n", b"words", noreply=False)
    assert raises(MemcacheClientError, c.incr, "n", 1)
    assert c.get("n") == b"words"


def check_cas(c):
    c.set("a", b"1", noreply=False)
    value, number = c.gets("a")
    assert value == b"1" and c.gets("none") == (None, None)
    assert c.cas("a", b"2", number, noreply=False) is True
    assert c.cas("a", b"3", number, noreply=False) is False
    assert c.cas("none", b"3", number, noreply=False) is None
    assert c.get("a") == b"2"
    many = c.gets_many(["a", "none"])
    assert list(many) == ["a"] and many["a"][0] == b"2"


def check_times(c):
    c.set("t", b"1", expire=1000, noreply=False)
    assert c.touch("t", 2000, noreply=False) is True and c.touch("none", 1, noreply=False) is False
    assert c.get("t") == b"1"
    c.set("t", b"1", expire=1, noreply=False)
    until(lambda: c.get("t") is None, "an item that does not expire")
    c.set("t", b"1", noreply=False)
    assert c.touch("t", -1, noreply=False) is True and c.get("t") is None


def check_noreply(c):
    for i in range(2000):
        c.set("q%d" % (i % 50), b"%d" % i, noreply=True)
    assert c.get("q49") == b"1999"
    c.incr("q49", 1, noreply=True)
    c.delete("q48", noreply=True)
    c.touch("q47", 100, noreply=True)
    c.append("q46", b"x", noreply=True)
    c.flush_all(noreply=True) if c.get("q49") == b"2000" and c.get("q48") is None else fail("noreply")
    assert c.get("q49") is None


def check_bytes(c):
    every = bytes(range(256)) * 5
    for size in (0, 1, 1024, 16383, 65536, 300000, 1000000, 1048576):
        value = (every * (size // len(every) + 1))[:size]
        assert c.set("size", value, noreply=False) is True and c.get("size") == value
    assert raises(MemcacheServerError, c.set, "size", b"x" * 1048577, noreply=False)
    assert c.get("size") is None  # what is there would be old
    assert c.set("k" * 250, b"1", noreply=False) and c.get("k" * 250) == b"1"
    assert raises(MemcacheIllegalInputError, c.set, "k" * 251, b"1")
    assert c.version().startswith(b"1.6.18 fathom-")
    stats = c.stats()
    assert int(stats[b"cmd_set"]) > 2000 and b"limit_maxbytes" in stats
    assert c.stats("settings") and c.stats("items") is not None
    assert c.flush_all(noreply=False) is True and c.get("k" * 250) is None
    c.quit()


def check_pymemcache(server):
    for nodelay in (False, True):
        c = PyClient(("127.0.0.1", server.port), timeout=WAIT_S, no_delay=nodelay)
        for check in (check_stores, check_numbers, check_cas, check_times, check_noreply, check_bytes):
            check(c)
        c.close()
    print("pymemcache %s" % pymemcache.__version__)


# ---- pylibmc ----


def check_pylibmc(server):
    address = "127.0.0.1:%d" % server.port
    c = pylibmc.Client([address], behaviors={"tcp_nodelay": True, "cas": True})
    objects = {"text": "words", "number": 2**40, "small": 7, "bytes": bytes(range(256)),
               "list": [1, "two", 3.0, None], "empty": "", "true": True}
    assert c.set_multi(objects) == []
    assert c.get_multi(list(objects) + ["none"]) == objects  # flags say what they are
    value, number = c.gets("text")
    assert value == "words" and c.cas("text", "new", number) is True
    assert raises(pylibmc.NotFound, c.incr, "none")
    assert c.incr("small", 3) == 10 and c.decr("small", 10) == 0
    assert c.add("text", "x") is False and c.replace("none", "x") is False
    c.set("line", b"b")
    assert c.append("line", b"c") and c.prepend("line", b"a") and c.get("line") == b"abc"
    assert c.touch("line", 100) is True and c.delete("line") is True and c.get("line") is None
    prefix = c.set_multi({"1": 1, "2": 2}, key_prefix="p:")
    assert prefix == [] and c.get_multi(["1", "2"], key_prefix="p:") == {"1": 1, "2": 2}
    assert c.delete_multi(["1", "2"], key_prefix="p:") and c.get("p:1") is None
    # Compressed values: longer than the server takes, shorter on the wire.
    text = "fathom " * 400000
    assert c.set("zip", text, min_compress_len=1000) is True and c.get("zip") == text
    assert len(zlib.compress(text.encode())) < 100000
    noise = os.urandom(900000)
    assert c.set("noise", noise) is True and c.get("noise") == noise
    assert raises(pylibmc.Error, c.set, "noise", os.urandom(1100000))
    (_, stats), = c.get_stats()
    assert int(stats[b"curr_items" if b"curr_items" in stats else "curr_items"]) > 0
    assert c.flush_all() is True and c.get("zip") is None
    # Without waiting for room in the socket.
    quiet = pylibmc.Client([address], behaviors={"no_block": True, "tcp_nodelay": True})
    for i in range(3000):
        quiet.set("b%d" % i, i)
    assert quiet.get("b2999") == 2999
    assert c.get_multi(["b%d" % i for i in range(3000)]) == {"b%d" % i: i for i in range(3000)}
    print("pylibmc %s, libmemcached %s" % (pylibmc.__version__, pylibmc.libmemcached_version))


def check_threads(server):
    """A pool of clients; the value tells its key."""
    pool = pylibmc.ClientPool(pylibmc.Client(["127.0.0.1:%d" % server.port]), 8)
    wrong = []

    def work(seed):
        for n in range(400):
            key = "pool%d" % ((seed * 31 + n * 7) % 200)
            with pool.reserve(block=True) as c:
                if n % 3 == 0:
                    c.set(key, "%s:%d" % (key, n) * 100)
                value = c.get(key)
            if value is not None and not value.startswith(key + ":"):
                wrong.append((key, value[:30]))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert not wrong and not any(t.is_alive() for t in threads), wrong[:3]


# ---- memcaslap ----


class Liar:
    """A relay that changes a byte of some values: what a test of right values must notice."""

    def __init__(self, port):
        self.to = port
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.create_connection(("127.0.0.1", self.to))
            threading.Thread(target=self.relay, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self.relay, args=(server, client, True), daemon=True).start()

    @staticmethod
    def relay(source, to, lie):
        try:
            while True:
                data = bytearray(source.recv(65536))
                if not data:
                    break
                if lie and len(data) > 600:
                    data[len(data) // 2] = (data[len(data) // 2] + 1) % 10 + 48
                to.sendall(data)
        except OSError:
            pass
        to.close()


def memcaslap(port, count):
    """(values that were verified wrong, values that were not there, gets)"""
    p = subprocess.run(["memcaslap", "--servers=127.0.0.1:%d" % port, "--threads=1",
                        "--concurrency=8", "--execute_number=%d" % count, "--fixed_size=1000",
                        "--win_size=1k", "--verify=1.0"],
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    text = p.stdout.decode()
    found = [re.search(r"^\s*%s: (\d+)" % name, text, re.M)
             for name in ("verify_failed", "verify_misses", "cmd_get")]
    if p.returncode or not all(found):
        fail("memcaslap: status %d: %s" % (p.returncode, text[-1000:]))
    return [int(m.group(1)) for m in found]


def check_memcaslap(server):
    wrong, missing, gets = memcaslap(server.port, 200000 if LONG else 20000)
    if wrong or missing or gets < 10000:
        fail("memcaslap: %d wrong, %d missing of %d gets" % (wrong, missing, gets))
    seen, _, _ = memcaslap(Liar(server.port).port, 2000)
    if seen == 0:
        fail("memcaslap notices no wrong value: its result says nothing")
    print("memcaslap: %d gets verified; of changed values it noticed %d" % (gets, seen))


# ---- memcping, memcstat, memcdump ----


def check_tools(server):
    """They parse the version, as libmemcached does, before anything else."""
    with server.dial() as c:
        assert c.set(b"for-memcdump", b"x") == b"STORED"
    for tool, wanted in (("memcping", ""), ("memcstat", "\tversion: 1.6.18"),
                         ("memcdump", "for-memcdump\n")):
        p = subprocess.run([tool, "--servers=127.0.0.1:%d" % server.port], timeout=60,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        text = p.stdout.decode()
        if p.returncode or wanted not in text:
            fail("%s: status %d: %s" % (tool, p.returncode, text[-1000:]))


def check_share(server):
    """Items that touch finds on flash are no part of the gets that do."""
    with server.dial() as c:
        assert c.ask(b"stats reset\r\n") == b"RESET"
        for i in range(5000):
            assert c.set(b"s%d" % i, b"%04d" % i * 1000) == b"STORED"
        for i in range(100):
            assert c.ask(b"touch s%d 0\r\n" % i) == b"TOUCHED"
        for i in range(1000, 1050):
            assert c.get(b"s%d" % i) == b"%04d" % i * 1000
        assert c.stat("kv_hits_flash") > 50
    text = subprocess.run([FATHOM, "--json", "kv", "stat", "--server", "127.0.0.1:%d" % server.port],
                          timeout=60, stdout=subprocess.PIPE, check=True).stdout
    share = json.loads(text)["flash_share_of_hits"]
    if not 0 < share <= 1:
        fail("kv stat: %s of the hits are from flash" % share)


def main():
    if not shutil.which("memcaslap"):
        skip("memcaslap is not installed (libmemcached-tools)")
    with Folder() as folder:
        # Little memory, so that much comes from flash.
        with Server(FATHOM, "--memory", "8M", "--flash", folder.flash("c", "256M")) as server:
            for check in (check_pymemcache, check_pylibmc, check_threads, check_memcaslap,
                          check_tools):
                begin = time.monotonic()
                check(server)
                print("%s: %.1f s" % (check.__name__, time.monotonic() - begin), flush=True)
            if server.stat("get_extstore") == 0:
                fail("nothing was read from flash")
            check_share(server)
            server.stop()


main()
