# SPDX-License-Identifier: BSD-2-Clause
"""Arrays in files: shapes, types and numpy's ways of indexing, over rows of bytes (_core.Rows)."""
from __future__ import annotations

import collections
import errno
import functools
import math
import operator
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Iterable, Iterator, Optional, Tuple

import numpy as np

from . import _core
from ._common import Path, Size, fail, file_uri, size_of, track

_STEP = 16 << 20  # bytes that are converted at once
_FRAME = 64  # bytes of metadata for a line in the cache, at most


def make_cache(memory: int, line: int = 4096, data: Optional[int] = None) -> "_core.Cache":
    """A cache that takes this much memory in all.

    Its directory is compact unless the size of the data is known and the other kind, which finds
    hot lines faster, takes little memory: 8 bytes for each line of the data.
    """
    directory = None if data is None else (data // line + 1) * 8
    compact = directory is None or directory > memory // 16
    if not compact:
        memory -= directory
    return _core.Cache(max(memory * line // (line + _FRAME), 64 * line), line, compact)


class _NoRows:
    """Rows of an array without elements."""

    def get(self, i: int, out: Any) -> None:
        raise IndexError("row %d is out of range: the array has no elements" % i)

    def nothing(self, *args: Any) -> None:
        pass

    read = write = gather = scatter = prefetch = flush = close = discard = nothing


def _can_export(dtype: np.dtype) -> bool:
    try:
        memoryview(np.empty(0, dtype))
    except (ValueError, BufferError):
        return False
    return True


def _ahead(jobs: Iterable[Callable[[], Any]]) -> Iterator[Any]:
    """The results of jobs, each of which runs while the result of the one before is used."""
    pending: "collections.deque[Any]" = collections.deque()
    with ThreadPoolExecutor(1, thread_name_prefix="fathom-ahead") as pool:
        try:
            for job in jobs:
                pending.append(pool.submit(job))
                if len(pending) > 1:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for job in pending:
                job.cancel()


class Array:
    """An array in a file, read and written through a cache of fixed size.

    The first axis is that of rows. Indexing gives numpy arrays with copies of the data: a[i],
    a[i:j:k], a[ids], a[mask], a[..., columns] and so on; assigning changes the rows in the cache,
    which writes them back some time later. flush() and close() make changes durable. Rows that
    were not flushed may be old or new after a crash, block by block.

    Made by fathom.load() and Database.array(). Threads may use an array at the same time.
    """

    __slots__ = ("_rows", "_get", "_empty", "_raw", "_cache", "_owns_cache", "_reopen", "shape",
                 "dtype", "readonly", "path", "__weakref__")

    shape: Tuple[int, ...]
    dtype: np.dtype
    readonly: bool
    path: str

    def __init__(self, cache: "_core.Cache", path: Path, shape: Tuple[int, ...], dtype: np.dtype,
                 offset: int, readonly: bool, owns_cache: bool = False, reopen: Any = None):
        self.shape, self.dtype, self.readonly = shape, dtype, readonly
        self.path = os.fspath(path)
        self._cache, self._owns_cache, self._reopen = cache, owns_cache, reopen
        self._raw = not _can_export(dtype)
        row = math.prod(shape[1:]) * dtype.itemsize
        if row * shape[0]:
            self._rows = _core.Rows(cache, file_uri(path, readonly), offset, row, shape[0],
                                    readonly)
        else:
            self._rows = _NoRows()
        self._get = self._rows.get
        self._empty = functools.partial(np.empty, shape[1:], dtype)
        track(self)

    # ---- what numpy arrays have ----

    ndim = property(lambda self: len(self.shape), doc="The number of axes.")
    size = property(lambda self: math.prod(self.shape), doc="The number of elements.")
    itemsize = property(lambda self: self.dtype.itemsize, doc="Bytes of an element.")
    nbytes = property(lambda self: self.size * self.itemsize, doc="Bytes of all elements.")

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return "fathom.Array(%r, shape=%r, dtype=%s)" % (self.path, self.shape, self.dtype)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        """All of it, in memory."""
        if copy is False:
            raise ValueError("an array in a file cannot be had without a copy")
        everything = self[:]
        return everything if dtype is None else everything.astype(dtype, copy=False)

    def __iter__(self) -> Iterator[Any]:
        for block in self.blocks():
            yield from block

    # ---- reading ----

    def __getitem__(self, key: Any) -> Any:
        if type(key) is int and not self._raw:
            out = self._empty()
            self._get(key, out)
            return out if out.ndim else out[()]
        first, rest = self._split(key)
        rows = self._read(first)
        if not rest:
            return rows
        if isinstance(first, int):
            return rows[rest]
        lead = (slice(None),) * (rows.ndim - self.ndim + 1)
        if not isinstance(first, slice) and any(np.ndim(k) for k in rest
                                                if not isinstance(k, (slice, type(Ellipsis)))):
            raise IndexError("index rows and columns by lists one after the other: "
                             "a[rows][:, columns]")
        return rows[lead + rest]

    def _split(self, key: Any) -> Tuple[Any, Tuple[Any, ...]]:
        """An index of rows (an int, a slice or an array of int64), and indices of other axes."""
        if not isinstance(key, tuple):
            key = (key,)
        if not key or key[0] is Ellipsis:
            gap = self.ndim - (len(key) - 1) if key else 0
            key = (slice(None),) + (key if gap > 1 else key[1:])
        first, rest = key[0], key[1:]
        if isinstance(first, slice):
            return first, rest
        if first is None or isinstance(first, (bool, np.bool_)):
            raise IndexError("rows are indexed by numbers, slices, lists and masks")
        try:
            return operator.index(first), rest
        except TypeError:
            return self._ids(first), rest

    def _ids(self, key: Any) -> np.ndarray:
        ids = np.asarray(key)
        if ids.dtype == bool:
            if ids.shape != self.shape[:1]:
                raise IndexError("a mask of shape %r does not select rows of an array of shape %r"
                                 % (ids.shape, self.shape))
            return np.flatnonzero(ids)
        if ids.size == 0 and ids.dtype == np.float64:  # an empty list
            ids = ids.astype(np.int64)
        if ids.dtype.kind not in "iu":
            raise IndexError("rows are indexed by integers, not by %s" % ids.dtype)
        if ids.dtype == np.uint64 and ids.size and int(ids.max()) > np.iinfo(np.int64).max:
            raise IndexError("row %d is out of range" % ids.max())
        return np.ascontiguousarray(ids, np.int64)

    def _memory(self, array: np.ndarray) -> Any:
        """The memory of a contiguous array, for types that the buffer protocol does not know."""
        return array.reshape(-1).view(np.uint8) if self._raw else array

    def _read(self, key: Any) -> Any:
        if isinstance(key, int):
            out = self._empty()
            self._get(key, self._memory(out))
            return out if out.ndim else out[()]
        if isinstance(key, slice):
            start, stop, step = key.indices(self.shape[0])
            if step != 1:
                return self.take(np.arange(start, stop, step, np.int64))
            n = max(stop - start, 0)
            out = np.empty((n,) + self.shape[1:], self.dtype)
            if n:
                self._rows.read(start, n, self._memory(out))
            return out
        return self.take(key)

    def take(self, ids: Any, out: Optional[np.ndarray] = None) -> np.ndarray:
        """Rows by number, or by a mask, as numpy.take(a, ids, axis=0) gives them.

        All rows that are not in memory are read at once. `out` is a contiguous array of the right
        shape and type; it saves allocating one.
        """
        ids = self._ids(ids)
        shape = ids.shape + self.shape[1:]
        if out is None:
            out = np.empty(shape, self.dtype)
        elif out.shape != shape or out.dtype != self.dtype or not out.flags.c_contiguous:
            raise ValueError("out must be a contiguous array of shape %r and type %s"
                             % (shape, self.dtype))
        self._rows.gather(ids, self._memory(out))
        return out

    def prefetch(self, ids: Any) -> None:
        """Start to read rows into the cache, and return without waiting. A hint."""
        self._rows.prefetch(self._ids(ids))

    def blocks(self, rows: Optional[int] = None) -> Iterator[np.ndarray]:
        """Consecutive blocks of rows; the next one is read while one is used.

        By default a block has as many rows as fit into 4 MiB.
        """
        if rows is None:
            row = math.prod(self.shape[1:]) * self.itemsize
            rows = max((4 << 20) // max(row, 1), 1)
        if rows < 1:
            raise ValueError("blocks of %d rows" % rows)
        spans = (slice(i, i + rows) for i in range(0, len(self), rows))
        return _ahead(functools.partial(self._read, span) for span in spans)

    def batches(self, ids: Any, size: Optional[int] = None
                ) -> Iterator[Tuple[np.ndarray, np.ndarray]]:
        """Pairs of row numbers and their rows; the next rows are read while these are used.

        ids is an iterable of arrays of row numbers, a sampler for example. With size, it is one
        array of row numbers, which is cut into batches of this size.
        """
        if size is not None:
            if size < 1:
                raise ValueError("batches of %d rows" % size)
            every = self._ids(ids).reshape(-1)
            ids = (every[i:i + size] for i in range(0, len(every), size))

        def job(batch: Any) -> Callable[[], Any]:
            batch = self._ids(batch)
            return lambda: (batch, self.take(batch))

        return _ahead(job(batch) for batch in ids)

    # ---- writing ----

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.readonly:
            raise ValueError("the array was opened for reading only")
        first, rest = self._split(key)
        if isinstance(value, Array):
            value = value[...]
        value = np.asarray(value)
        if rest:
            return self._set_part(first, rest, value)
        if isinstance(first, int):
            if first < 0:
                first += len(self)
            if not 0 <= first < len(self):
                raise IndexError("row %d is out of range: the array has %d rows"
                                 % (first, len(self)))
            first = slice(first, first + 1)
            value = np.broadcast_to(value, self.shape[1:])[None]
        if isinstance(first, slice):
            start, stop, step = first.indices(self.shape[0])
            n = len(range(start, stop, step))
            value = np.broadcast_to(value, (n,) + self.shape[1:])
            self._put(n, value, lambda i, k: start + i * step if step == 1 else
                      np.arange(start + i * step, start + (i + k) * step, step, np.int64))
            return
        value = np.broadcast_to(value, first.shape + self.shape[1:])
        first = first.reshape(-1)
        value = value.reshape((len(first),) + self.shape[1:])
        # Numbers out of range are found before anything is written.
        if len(first) and not -len(self) <= first.min() <= first.max() < len(self):
            raise IndexError("a row is out of range: the array has %d rows" % len(self))
        self._put(len(first), value, lambda i, k: first[i:i + k])

    def _put(self, n: int, value: np.ndarray, where: Callable[[int, int], Any]) -> None:
        """Set n rows, a part at a time: `value` may be one row that stands for many."""
        row = max(math.prod(self.shape[1:]) * self.itemsize, 1)
        step = max(_STEP // row, 1)
        for i in range(0, n, step):
            k = min(step, n - i)
            part = self._memory(np.ascontiguousarray(value[i:i + k], self.dtype))
            at = where(i, k)
            if isinstance(at, int):
                self._rows.write(at, k, part)
            else:
                self._rows.scatter(at, part)

    def _set_part(self, first: Any, rest: Tuple[Any, ...], value: np.ndarray) -> None:
        """Some columns: read the rows, change them, write them."""
        rows = self._read(first)
        if isinstance(first, int):
            rows[rest] = value
        else:
            rows[(slice(None),) * (rows.ndim - self.ndim + 1) + rest] = value
        self[first] = rows

    def flush(self) -> None:
        """Make all changes durable."""
        self._rows.flush()

    # ---- closing ----

    def close(self) -> None:
        """Make all changes durable and close the array. Closing it again does nothing."""
        self._rows.close()
        if self._owns_cache:
            self._cache.close()

    def discard(self) -> None:
        """Close the array without writing: changes since the last flush may be lost.

        For an array that cannot be closed because its disk is full or has failed.
        """
        self._rows.discard()
        if self._owns_cache:
            self._cache.close()

    def __enter__(self) -> "Array":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()

    def __reduce__(self) -> Any:
        if self._reopen is None:
            raise TypeError("only arrays of fathom.load() that are read-only can be sent to "
                            "another process")
        return self._reopen

    @property
    def stats(self) -> "dict[str, int]":
        """Counters of the cache that the array is in: hits, misses, bytes and so on."""
        return dict(self._cache.stats())


def read_header(path: Path) -> Tuple[Tuple[int, ...], np.dtype, int]:
    """Shape, type and the place of the data in a .npy file."""
    with open(path, "rb") as file:
        try:
            version = np.lib.format.read_magic(file)
            read = (np.lib.format.read_array_header_1_0 if version == (1, 0) else
                    np.lib.format.read_array_header_2_0)
            shape, fortran, dtype = read(file)
        except ValueError as e:
            raise fail(errno.EBADMSG, "%s is no .npy file: %s" % (path, e)) from None
        offset = file.tell()
    if fortran and sum(n > 1 for n in shape) > 1:
        raise fail(errno.EINVAL, "%s has Fortran order: its rows are not contiguous" % path)
    return shape, dtype, offset


def _check(path: Path, shape: Tuple[int, ...], dtype: np.dtype, offset: int) -> None:
    if dtype.hasobject:
        raise fail(errno.EINVAL, "%s holds Python objects, which are no plain bytes" % path)
    if not shape:
        raise fail(errno.EINVAL, "%s holds one value and no rows" % path)
    need, have = offset + math.prod(shape) * dtype.itemsize, os.stat(path).st_size
    if need > have:
        raise fail(errno.EINVAL, "%s has %d bytes; an array of shape %r and type %s needs %d"
                   % (path, have, shape, dtype, need))


def find_place(path: Path, dtype: Any, shape: Any,
               offset: int) -> Tuple[Tuple[int, ...], np.dtype, int]:
    """Shape, type and offset of the array in a file; the arguments are those of load()."""
    if shape is not None and dtype is None:
        raise ValueError("a shape needs a dtype")
    if dtype is None:
        place = read_header(path)
    else:
        kind = np.dtype(dtype)
        if shape is None:
            shape = ((os.stat(path).st_size - offset) // kind.itemsize,)
        shape = (operator.index(shape),) if np.ndim(shape) == 0 else tuple(shape)
        place = shape, kind, offset
    _check(path, *place)
    return place


def load(path: Path, memory: Size = "64M", *, readonly: bool = True, dtype: Any = None,
         shape: Any = None, offset: int = 0, line: int = 4096,
         cache: Optional["_core.Cache"] = None) -> Array:
    """Open an array in a file: a .npy file, or raw data if dtype is given.

    memory    how much memory the array takes, whatever its size: bytes or "64M", "2G"
    readonly  False: the array can be changed; only one process may have it open then
    dtype, shape, offset
              raw data: the type; the shape, by default as many elements as the file has, in one
              axis; where it begins, in bytes
    line      bytes that are read at once: a power of two from 512 to 65536
    """
    place = find_place(path, dtype, shape, offset)
    reopen = None
    if readonly and cache is None:
        make = functools.partial(load, memory=memory, dtype=dtype, shape=shape, offset=offset,
                                 line=line)
        reopen = make, (os.path.abspath(path),)
    owned = cache is None
    if cache is None:
        cache = make_cache(size_of(memory), line, os.stat(path).st_size)
    return Array(cache, path, *place, readonly, owned, reopen)
