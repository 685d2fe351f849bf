# SPDX-License-Identifier: BSD-2-Clause
"""Arrays: what numpy gives for the same index, for files of all kinds."""
import errno
import gc
import os
import pickle
import threading

import numpy as np
import pytest

import fathom
from conftest import descriptors

KEYS = [
    0, -1, 4999, np.int64(17), slice(None), slice(3, 9), slice(-5, None), slice(9, 3),
    slice(None, None, 7), slice(100, 50, -3), [1, 5, 1, -1], [], np.array([[1, 2], [3, 4]]),
    np.uint64([7, 8]), np.int8([-1, 3]), Ellipsis, (), (3, 4), (slice(1, 4), slice(2, 5)),
    ([1, 2, 3], 5), ([1, 2, 3], slice(None, None, 2)), (Ellipsis, 3), (slice(2, 6), None),
    (5, Ellipsis), (Ellipsis, slice(1, 3)), (np.array([[1, 2], [3, 4]]), 2),
]


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_an_index_gives_what_numpy_gives(matrix, key):
    path, values = matrix
    with fathom.load(path, memory="1M") as a:
        got, want = a[key], values[key]
        assert np.shape(got) == np.shape(want)
        assert np.array_equal(got, want)
        assert got.dtype == want.dtype


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_an_assignment_does_what_numpy_does(matrix, key):
    path, values = matrix
    if isinstance(key, tuple) and any(k is None for k in key):
        return
    for value in (5, np.arange(np.size(values[key])).reshape(np.shape(values[key]))):
        with fathom.load(path, memory="1M", readonly=False) as a:
            a[key] = value
            values[key] = value
            assert np.array_equal(a[:], values)
        assert np.array_equal(np.load(path), values)


def test_masks(matrix):
    path, values = matrix
    mask = values[:, 0] % 3 == 0
    with fathom.load(path, memory="1M", readonly=False) as a:
        assert np.array_equal(a[mask], values[mask])
        assert np.array_equal(a[list(mask)], values[mask])
        a[mask] = 1
        values[mask] = 1
        assert np.array_equal(a[...], values)
        for wrong in (mask[:-1], np.ones((5000, 25), bool), True):
            with pytest.raises(IndexError):
                a[wrong]


def test_the_last_of_equal_rows_wins(matrix):
    path, values = matrix
    with fathom.load(path, memory="1M", readonly=False) as a:
        ids = [9, 4, 9, 9, 4]
        a[ids] = values[:5]
        assert np.array_equal(a[9], values[3]) and np.array_equal(a[4], values[4])


@pytest.mark.parametrize("wrong", [5000, -5001, [0, 5000], [-5001], 1.5, [1.5], None, "x",
                                   1 << 70, np.uint64([1 << 63]), ([1, 2], [3, 4])], ids=repr)
def test_wrong_indices_are_refused(matrix, wrong):
    path, values = matrix
    with fathom.load(path, readonly=False) as a:
        with pytest.raises((IndexError, OverflowError)):
            a[wrong]
        if not isinstance(wrong, tuple):
            with pytest.raises((IndexError, OverflowError)):
                a[wrong] = 0
        assert np.array_equal(a[...], values)


@pytest.mark.parametrize("dtype", ["u1", "i2", ">i4", "f2", "f8", "c16", "S3", "U5", "M8[s]",
                                   "m8[D]", "?", [("a", "i4"), ("b", "f8", 3)], "V7"], ids=repr)
def test_types(tmp_path, rng, dtype):
    dtype = np.dtype(dtype)
    values = rng.integers(0, 100, (1000, 3, dtype.itemsize), dtype=np.uint8)
    values = values.view(dtype).reshape(1000, 3) if dtype.kind not in "Ub" else \
        rng.integers(0, 2, (1000, 3)).astype(dtype)
    for path, shape in ((tmp_path / "two.npy", values), (tmp_path / "one.npy", values[:, 0])):
        np.save(path, shape)
        same = (lambda a, b: a.tobytes() == b.tobytes())
        with fathom.load(path, memory="1M", readonly=False) as a:
            assert a.dtype == dtype and same(a[[5, 999, 5]], shape[[5, 999, 5]])
            assert same(np.asarray(a[7]), np.asarray(shape[7]))
            assert same(a[10:20], shape[10:20])
            a[3] = shape[900]
            a[[8, 9]] = shape[[1, 2]]
            assert same(a[[3, 8, 9]], shape[[900, 1, 2]])


def test_attributes(matrix):
    path, values = matrix
    a = fathom.load(path)
    assert (a.shape, a.ndim, a.size, a.itemsize, a.nbytes, len(a)) == (
        values.shape, 2, values.size, 4, values.nbytes, 5000)
    assert np.array_equal(np.asarray(a), values) and np.array_equal(np.array(a, "f8"), values)
    assert str(path) in repr(a)
    assert all(np.array_equal(x, y) for x, y in zip(a, values))
    assert a.stats["misses"] > 0


def test_take_into_memory(matrix):
    path, values = matrix
    a = fathom.load(path)
    ids = np.array([[1, 2], [4000, -1]])
    out = np.zeros((2, 2, 25), np.int32)
    assert a.take(ids, out=out) is out and np.array_equal(out, values[ids])
    for wrong in (np.zeros((2, 2, 24), np.int32), np.zeros((2, 2, 25), np.int64),
                  np.zeros((2, 2, 50), np.int32)[..., ::2]):
        with pytest.raises(ValueError):
            a.take(ids, out=wrong)
    out.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        a.take(ids, out=out)


def test_blocks_and_batches_read_ahead(matrix, rng):
    path, values = matrix
    a = fathom.load(path, memory="512K")
    for rows in (None, 1, 999, 5000, 10000):
        assert np.array_equal(np.concatenate(list(a.blocks(rows))), values)
        if rows == 1:
            assert len(next(iter(a.blocks(rows)))) == 1
    batches = [rng.integers(0, 5000, n) for n in (100, 0, 7, 3000)]
    seen = list(a.batches(batches))
    assert len(seen) == 4
    for (ids, rows), batch in zip(seen, batches):
        assert np.array_equal(ids, batch) and np.array_equal(rows, values[batch])
    assert [len(ids) for ids, _ in a.batches(np.arange(250), size=100)] == [100, 100, 50]
    with pytest.raises(IndexError):
        list(a.batches([[1], [5000]]))
    some = a.blocks(100)
    next(some)
    some.close()
    a.close()


def test_prefetched_rows_are_hits(matrix):
    path, values = matrix
    a = fathom.load(path, memory="2M")
    ids = np.arange(0, 5000, 100)
    a.prefetch(ids)
    before = a.stats["misses"]
    assert np.array_equal(a[ids], values[ids])
    assert a.stats["misses"] == before and a.stats["prefetches"] > 0


def test_raw_files(tmp_path, rng):
    path = tmp_path / "raw"
    values = rng.normal(size=1003)
    path.write_bytes(b"HEAD" + values.tobytes() + b"xyz")
    with fathom.load(path, dtype="f8", offset=4) as a:
        assert a.shape == (1003,) and np.array_equal(a[:], values)
    with fathom.load(path, dtype="f8", offset=4, shape=(17, 59), readonly=False) as a:
        assert np.array_equal(a[:], values.reshape(17, 59))
        a[16] = 0
    assert path.read_bytes() == b"HEAD" + values[:-59].tobytes() + bytes(59 * 8) + b"xyz"


def test_the_size_of_a_file_never_changes(tmp_path):
    path = tmp_path / "odd.npy"
    for n in (1, 5, 511, 4096, 4097, 10000):
        np.save(path, np.zeros(n, "u1"))
        size = path.stat().st_size
        with fathom.load(path, readonly=False) as a:
            a[-1] = 9
            a.flush()
            assert path.stat().st_size == size
        assert path.stat().st_size == size and np.load(path)[-1] == 9


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (3, 0, 2)], ids=repr)
def test_empty_arrays(tmp_path, shape):
    path = tmp_path / "e.npy"
    np.save(path, np.zeros(shape))
    with fathom.load(path, readonly=False) as a:
        assert a[:].shape == shape and a[[]].shape == (0,) + shape[1:]
        a[:] = 1
        a.flush()
        assert list(a.blocks(2)) is not None
        with pytest.raises(IndexError):
            a[shape[0]]


def test_what_is_no_array_is_refused(tmp_path):
    cases = {
        "text.npy": b"not an array",
        "short.npy": b"\x93NUMPY",
        "version.npy": b"\x93NUMPY\x09\x00\x10\x00" + b" " * 16,
        "bad.npy": b"\x93NUMPY\x01\x00\x10\x00" + b"{'descr': 'zz'} ",
    }
    for name, text in cases.items():
        (tmp_path / name).write_bytes(text)
        with pytest.raises(fathom.Error) as e:
            fathom.load(tmp_path / name)
        assert e.value.errno == errno.EBADMSG and name in str(e.value)
    np.save(tmp_path / "f.npy", np.asfortranarray(np.zeros((3, 4))))
    np.save(tmp_path / "o.npy", np.array([None]), allow_pickle=True)
    np.save(tmp_path / "z.npy", np.float64(1))
    np.save(tmp_path / "cut.npy", np.zeros(10000))
    os.truncate(tmp_path / "cut.npy", 80000)
    for name in ("f.npy", "o.npy", "z.npy", "cut.npy"):
        with pytest.raises(fathom.Error) as e:
            fathom.load(tmp_path / name)
        assert e.value.errno == errno.EINVAL
    with pytest.raises(FileNotFoundError):
        fathom.load(tmp_path / "missing.npy")
    with pytest.raises(IsADirectoryError):
        fathom.load(tmp_path)
    with pytest.raises(ValueError):
        fathom.load(tmp_path / "f.npy", shape=(3, 4))
    with pytest.raises(ValueError):
        fathom.load(tmp_path / "cut.npy", dtype="f8", memory="much")


def test_read_only_arrays_refuse_changes(matrix):
    path, values = matrix
    a = fathom.load(path)
    for key in (0, [0], slice(3)):
        with pytest.raises(ValueError):
            a[key] = 1
    assert np.array_equal(a[:], values)


def test_readers_share_and_a_writer_is_alone(matrix):
    path, _ = matrix
    a, b = fathom.load(path), fathom.load(path)
    with pytest.raises(fathom.Error) as e:
        fathom.load(path, readonly=False)
    assert e.value.errno == errno.EBUSY
    a.close()
    b.close()
    with fathom.load(path, readonly=False):
        with pytest.raises(OSError):
            fathom.load(path)
    fathom.load(path)


def test_closed_arrays_say_so(matrix):
    path, _ = matrix
    a = fathom.load(path, readonly=False)
    a.close()
    a.close()
    for call in (lambda: a[0], lambda: a[[1]], lambda: a[:2], a.flush, lambda: a.prefetch([1])):
        with pytest.raises(ValueError, match="closed"):
            call()
    with pytest.raises(ValueError, match="closed"):
        a[0] = 1


def test_arrays_close_themselves(matrix):
    path, values = matrix
    before = descriptors()
    a = fathom.load(path, readonly=False)
    a[3] = 77
    del a
    gc.collect()
    assert descriptors() == before
    assert (np.load(path)[3] == 77).all()


def test_many_opens_leave_nothing_behind(matrix):
    path, values = matrix
    n = 10000 if os.environ.get("FTH_LONG_TESTS") else 200
    for _ in range(20):
        fathom.load(path, memory="256K")[3]
    before = descriptors()
    for i in range(n):
        a = fathom.load(path, memory="256K")
        assert a[i % 5000][0] == values[i % 5000][0]
        if i % 2:
            a.close()
    del a
    gc.collect()
    assert descriptors() == before


def test_read_only_arrays_can_be_sent(matrix):
    path, values = matrix
    a = pickle.loads(pickle.dumps(fathom.load(path, memory="1M")))
    assert np.array_equal(a[[5, 6]], values[[5, 6]])
    a.close()
    with fathom.load(path, readonly=False) as b:
        with pytest.raises(TypeError):
            pickle.dumps(b)


def test_threads_share_an_array(matrix, rng):
    path, values = matrix
    a = fathom.load(path, memory="512K", readonly=False)
    errors = []

    def reader(seed):
        ids = np.random.default_rng(seed).integers(0, 2500, 500)
        for _ in range(20):
            if not np.array_equal(a[ids], values[ids]):
                errors.append("read")

    def writer(number):
        mine = np.arange(2500 + number, 5000, 4)
        for i in range(20):
            a[mine] = i + number
            if not (a[mine] == i + number).all():
                errors.append("write")

    threads = [threading.Thread(target=reader, args=(i,)) for i in range(3)]
    threads += [threading.Thread(target=writer, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    a.close()
    got = np.load(path)
    assert np.array_equal(got[:2500], values[:2500])
    for number in range(4):
        assert (got[2500 + number::4] == 19 + number).all()


def test_an_array_in_use_is_not_closed(matrix):
    path, values = matrix
    a = fathom.load(path, memory="256K")
    stop, refused = threading.Event(), []

    def use():
        try:
            while not stop.is_set():
                assert np.array_equal(a[100:4000], values[100:4000])
        except ValueError:
            pass  # closed between two calls

    threads = [threading.Thread(target=use) for _ in range(2)]
    for t in threads:
        t.start()
    for _ in range(50):
        try:
            a.close()
        except fathom.Error as e:
            assert e.errno == errno.EBUSY
            refused.append(e)
    stop.set()
    for t in threads:
        t.join()
    a.close()


def test_row_numbers_that_change_during_a_call_do_no_harm(matrix):
    path, values = matrix
    a = fathom.load(path, memory="256K")
    ids, stop = np.arange(5000), threading.Event()

    def change():
        while not stop.is_set():
            ids[:] = 1 << 60
            ids[:] = np.arange(5000)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(100):
            try:
                a._rows.gather(ids, np.empty((5000, 25), np.int32))
            except IndexError:
                pass
    finally:
        stop.set()
        thread.join()
    assert np.array_equal(a[:], values)


def test_dask_reads_arrays(matrix):
    dask = pytest.importorskip("dask.array")
    path, values = matrix
    lazy = dask.from_array(fathom.load(path, memory="1M"), chunks=(1000, 25))
    assert np.array_equal(lazy.sum(axis=0).compute(), values.sum(axis=0))
    assert np.array_equal(lazy[::7, 3].compute(), values[::7, 3])
