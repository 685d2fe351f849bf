# SPDX-License-Identifier: BSD-2-Clause
"""Cache: a dict that forgets, on flash."""
import errno
import os
import threading

import numpy as np
import pytest

import fathom


@pytest.fixture
def cache(tmp_path):
    with fathom.Cache(tmp_path / "c", memory="8M", flash="64M") as c:
        yield c


def test_a_dict(cache):
    values = {"s": "text \U0001f40b", b"b": b"\0bytes", 5: [1, {"a": None}], (1, "x"): 2.5,
              "k" * 1000: "long key", "": "empty", "none": None}
    for key, value in values.items():
        assert key not in cache
        cache[key] = value
        assert key in cache and cache[key] == value and type(cache[key]) is type(value)
    assert len(cache) == len(values)
    assert cache.get_many(list(values) + ["missing"]) == values
    assert cache["none"] is None and cache.get("missing", 7) == 7 and cache.get("missing") is None
    with pytest.raises(KeyError):
        cache["missing"]
    del cache["s"]
    with pytest.raises(KeyError):
        del cache["s"]
    assert cache.pop(b"b") == b"\0bytes" and b"b" not in cache and cache.pop("no", 3) == 3
    assert not cache.add(5, 1) and cache[5] == [1, {"a": None}] and cache.add("new", 1)
    cache.clear()
    assert all(key not in cache for key in values)
    # Keys of different types are different keys.
    cache["1"], cache[1], cache[b"1"] = "str", "int", "bytes"
    assert (cache["1"], cache[1], cache[b"1"]) == ("str", "int", "bytes")


def test_arrays_are_values(cache):
    a = np.arange(1000.)
    cache["a"] = a
    assert np.array_equal(cache["a"], a)


def test_items_expire(cache):
    cache.set("short", 1, expire=-5)
    cache.set("long", 1, expire=1000)
    assert "short" not in cache and "long" in cache
    assert cache.touch("long", expire=-5) and "long" not in cache
    assert not cache.touch("missing")


def test_more_items_than_memory(cache):
    """24 MiB of values in 8 MiB of memory, all still there."""
    values = {i: os.urandom(512) * 2 for i in range(24000)}
    for first in range(0, 24000, 1000):
        cache.set_many({i: values[i] for i in range(first, first + 1000)})
    assert cache.get_many(range(24000)) == values
    assert cache.stats["flash_reads"] > 0
    for i in range(0, 24000, 997):
        assert cache[i] == values[i]


def test_old_items_go_when_flash_is_full(tmp_path):
    with fathom.Cache(tmp_path / "c", memory="4M", flash="16M", persist="none") as c:
        for i in range(40000):
            c[i] = bytes(1024)
        assert 39999 in c and sum(i in c for i in range(1000)) < 1000


@pytest.mark.parametrize("persist", ["write-back", "write-through"])
def test_items_survive_closing(tmp_path, persist):
    with fathom.Cache(tmp_path / "c", flash="32M", persist=persist) as c:
        c["a"] = "b"
    with fathom.Cache(tmp_path / "c", persist=persist) as c:
        assert c["a"] == "b"


def test_stored_items_survive_a_kill(tmp_path, program):
    writer = program("""
        import sys, fathom
        c = fathom.Cache(sys.argv[1], flash="64M", persist="write-through")
        for i in range(1000000):
            c[i] = "value %d" % i
            print(i, flush=True)
        """, tmp_path / "c")
    last = 0
    while last < 20:
        last = int(writer.process.stdout.readline())
    writer.process.kill()
    rest = writer.process.communicate()[0].split("\n")
    last = int(rest[-2]) if len(rest) > 1 else last
    with fathom.Cache(tmp_path / "c", persist="write-through") as c:
        assert all(c[i] == "value %d" % i for i in range(last + 1))


def test_errors(tmp_path, cache):
    with pytest.raises(fathom.Error) as e:
        cache["big"] = bytes(2 << 20)
    assert e.value.errno == errno.EMSGSIZE
    with pytest.raises(fathom.Error) as e:
        fathom.Cache(cache.path)
    assert e.value.errno == errno.EBUSY
    (tmp_path / "other").write_bytes(b"something else" * 10000)
    with pytest.raises(fathom.Error):
        fathom.Cache(tmp_path / "other")
    with pytest.raises(ValueError):
        fathom.Cache(persist="maybe")
    cache.close()
    cache.close()
    with pytest.raises(ValueError, match="closed"):
        cache["a"]


def test_memoize(cache):
    calls = []

    @cache.memoize(expire=1000)
    def square(x, *, plus=0):
        calls.append(x)
        return x * x + plus

    assert [square(3), square(3), square(3, plus=1), square(4)] == [9, 9, 10, 16]
    assert calls == [3, 3, 4]


def test_threads_share_a_cache(cache):
    errors = []

    def work(k):
        for i in range(300):
            cache[(k, i)] = [k, i]
            if cache[(k, i)] != [k, i] or cache.get_many([(k, j) for j in range(i)]) != {
                    (k, j): [k, j] for j in range(i)}:
                errors.append((k, i))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def test_in_memory_only_and_fork():
    with fathom.Cache(memory="4M") as c:
        c["a"] = 1
        child = os.fork()
        if child == 0:
            try:
                c["a"]
            except PermissionError:
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert c["a"] == 1
