# SPDX-License-Identifier: BSD-2-Clause
"""Databases: a directory, and one ceiling for the memory of all that is in it.

Tables lie in the directory as the library has them, so that `fathom sql` opens it too; arrays are
files .npy in the folder fathom.arrays, graphs files in fathom.graphs.
"""
from __future__ import annotations

import errno
import os
import tempfile
import weakref
from typing import Any, List, Optional, Sequence

import numpy as np

from . import _core, _graph, _sql
from ._array import Array, load, make_cache
from ._common import Path, Size, fail, size_of, track

_ARRAYS, _GRAPHS = "fathom.arrays", "fathom.graphs"  # no table can have these names
HEADER = 4096  # bytes of the header of our own .npy files: rows begin at a block


class Budget:
    """Who has how much of a fixed amount of memory."""

    def __init__(self, limit: int):
        self.limit = limit
        self.parts: "dict[str, int]" = {}

    @property
    def free(self) -> int:
        return self.limit - sum(self.parts.values())

    def reserve(self, name: str, amount: int) -> int:
        if amount > self.free:
            others = ", ".join("%s has %d" % part for part in self.parts.items())
            raise fail(errno.ENOMEM, "%s needs %d bytes of memory, and %d of %d are free%s"
                       % (name, amount, self.free, self.limit, others and ": " + others))
        self.parts[name] = amount
        return amount

    def release(self, name: str) -> None:
        self.parts.pop(name, None)


class Database:
    """A directory with tables, arrays and graphs, and one ceiling for the memory that they take.

    Made by fathom.open(). db.memory says who has what. Results that are given out as numpy arrays
    and Python objects belong to the caller, and are not part of it.
    """

    _close_last = 1

    def __init__(self, path: Path, memory: Size, arrays: Optional[Size], sql: Optional[Size],
                 threads: int, readonly: bool, create: bool):
        self.path = os.path.abspath(os.fspath(path))
        self.readonly = readonly
        self.closed = False
        self._budget = Budget(size_of(memory))
        self._for_arrays = self._budget.limit // 2 if arrays is None else size_of(arrays)
        self._for_sql = self._budget.limit * 3 // 8 if sql is None else size_of(sql)
        self._threads = threads
        self._cache: Optional[_core.Cache] = None
        self._sql: Any = None
        self._streams: "weakref.WeakSet[Any]" = weakref.WeakSet()
        self._open: "weakref.WeakValueDictionary[str, Any]" = weakref.WeakValueDictionary()
        if not readonly and create:
            os.makedirs(self.path, exist_ok=True)
        if not os.path.isdir(self.path):
            raise fail(errno.ENOENT, "%s is no directory" % self.path)
        track(self)

    def __repr__(self) -> str:
        return "fathom.Database(%r)" % self.path

    @property
    def memory(self) -> "dict[str, int]":
        """Bytes of memory: the limit, what is free, and the part of each that has some."""
        return {"limit": self._budget.limit, "free": self._budget.free, **self._budget.parts}

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("the database is closed")

    # ---- arrays ----

    def _array_cache(self) -> "_core.Cache":
        self._check_open()
        if self._cache is None:
            self._budget.reserve("arrays", self._for_arrays)
            try:
                self._cache = make_cache(self._for_arrays)
            except BaseException:
                self._budget.release("arrays")
                raise
        return self._cache

    def _array_path(self, name: str) -> str:
        if not name or "/" in name or "\0" in name or name.startswith("."):
            raise ValueError("%r is no name of an array" % name)
        return os.path.join(self.path, _ARRAYS, name + ".npy")

    def arrays(self) -> List[str]:
        """The names of the arrays."""
        self._check_open()
        try:
            names = os.listdir(os.path.join(self.path, _ARRAYS))
        except FileNotFoundError:
            return []
        return sorted(n[:-4] for n in names if n.endswith(".npy") and not n.startswith("."))

    def array(self, name: str, shape: Any = None, dtype: Any = None, *,
              readonly: Optional[bool] = None) -> Array:
        """Open the array of this name; with a shape, create it if it does not exist.

        A new array has zeroes, and takes space on disk as it is filled. It is a .npy file, which
        numpy.load() can read. Several processes may have an array open for reading, or one for
        writing.
        """
        path = self._array_path(name)
        cache = self._array_cache()
        if readonly is None:
            readonly = self.readonly
        array = self._open.get(path)
        if array is None or array.readonly != readonly:
            if shape is not None and not self.readonly and not os.path.exists(path):
                try:
                    _create(path, shape, np.dtype(dtype))
                except FileExistsError:
                    pass  # another process was faster
            array = load(path, readonly=readonly, cache=cache)
            self._open[path] = array
        wanted = None if shape is None else ((int(shape),) if np.ndim(shape) == 0 else tuple(shape))
        if wanted not in (None, array.shape) or dtype is not None and array.dtype != dtype:
            raise fail(errno.EINVAL, "array %s has shape %r and type %s, not %r and %s" % (
                name, array.shape, array.dtype, shape, dtype))
        return array

    def load(self, path: Path, **options: Any) -> Array:
        """fathom.load() of a file, in the memory of this database."""
        return load(path, cache=self._array_cache(), **options)

    def remove_array(self, name: str) -> None:
        """Remove an array and its file. It must not be open for writing elsewhere."""
        self._check_open()
        path = self._array_path(name)
        array = self._open.pop(path, None)
        if array is not None:
            array.close()
        if self.readonly:
            raise fail(errno.EROFS, "the database was opened for reading only")
        try:
            os.unlink(path)
        except FileNotFoundError:
            raise fail(errno.ENOENT, "there is no array %s" % name) from None

    # ---- graphs ----

    def _graph_path(self, name: str) -> str:
        if not name or "/" in name or "\0" in name or name.startswith("."):
            raise ValueError("%r is no name of a graph" % name)
        return os.path.join(self.path, _GRAPHS, name + ".graph")

    def graphs(self) -> List[str]:
        """The names of the graphs."""
        self._check_open()
        try:
            names = os.listdir(os.path.join(self.path, _GRAPHS))
        except FileNotFoundError:
            return []
        return sorted(n[:-6] for n in names if n.endswith(".graph"))

    def graph(self, name: str) -> _graph.Graph:
        """Open a graph. Its edges are read through the cache of arrays."""
        path = self._graph_path(name)
        graph = self._open.get(path)
        if graph is None:
            graph = self._open[path] = _graph.Graph(self._array_cache(), path)
        return graph

    def build_graph(self, name: str, edges: Any, weights: Any = None, **options: Any
                    ) -> _graph.Graph:
        """fathom.build_graph() under a name, sorted in memory that is free in the database."""
        return self._new_graph(name, _graph.build_graph, edges, weights, options)

    def import_graph(self, name: str, text: Path, **options: Any) -> _graph.Graph:
        """fathom.import_graph() under a name, sorted in memory that is free in the database."""
        return self._new_graph(name, _graph.import_graph, text, None, options)

    def _new_graph(self, name: str, make: Any, source: Any, weights: Any, options: Any
                   ) -> _graph.Graph:
        path = self._graph_path(name)
        self._check_open()
        if self.readonly:
            raise fail(errno.EROFS, "the database was opened for reading only")
        if path in self._open:
            raise fail(errno.EBUSY, "graph %s is open" % name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        memory = self._budget.reserve("sorting", min(self._budget.free, 256 << 20))
        try:
            args = (source,) if weights is None else (source, weights)
            make(path, *args, memory=memory, **options).close()
        finally:
            self._budget.release("sorting")
        return self.graph(name)

    # ---- tables ----

    def _engine(self) -> Any:
        self._check_open()
        if self._sql is None:
            if not hasattr(_core, "Engine"):
                raise fail(errno.ENOSYS, "the package was built without SQL")
            self._budget.reserve("sql", self._for_sql)
            try:
                self._sql = _core.Engine(self.path, self._for_sql, self._threads,
                                         readonly=self.readonly)
            except BaseException:
                self._budget.release("sql")
                raise
        return self._sql

    def sql(self, statement: str, params: Optional[Sequence[Any]] = None) -> _sql.Result:
        """Run a statement of SQL; question marks in it stand for params.

        A SELECT runs when the rows of the result are asked for. Other statements run at once, are
        atomic, and durable when this returns. CREATE TABLE, INSERT, COPY ... FROM a CSV file and
        views are in the library's documentation (fathom/query.h).
        """
        statement = _sql.bind(statement, params)
        if "\0" in statement:
            raise ValueError("the statement has a null character")
        if _sql.reads(statement):
            return _sql.Result(self, statement)
        return _sql.Result(self, statement, self._engine().run(statement))

    def tables(self) -> List[str]:
        """The names of the tables."""
        return list(self._engine().tables())

    def insert(self, table: str, data: Any, create: bool = False) -> int:
        """Append rows to a table, all or none, and return their number.

        data    columns: a dict of numpy arrays (or fathom arrays, of any size) and lists, a
                structured array or a pandas.DataFrame. None, NaT and masked values are null.
        create  create the table first if it does not exist, with types that fit the columns
        """
        columns = _sql.columns_of(data)
        rows = next(iter(columns.values())).shape[0]
        engine = self._engine()
        if create and table.lower() not in engine.tables():
            engine.run("create table %s (%s)" % (_sql.quoted(table), ", ".join(
                "%s %s" % (_sql.quoted(name.lower()), _sql.type_of(name, column))
                for name, column in columns.items())))
        memory = self._budget.reserve("insert", min(self._budget.free, 64 << 20))
        try:
            writer = _core.Writer(engine, table, memory)
            try:
                _sql.append(writer, columns, rows)
                writer.commit()
            finally:
                writer.close()
        finally:
            self._budget.release("insert")
        return rows

    # ---- closing ----

    def flush(self) -> None:
        """Make all changes of arrays durable."""
        self._check_open()
        if self._cache is not None:
            self._cache.flush()

    def close(self) -> None:
        """Make all changes durable, and close the database and all that is open in it."""
        if self.closed:
            return
        for thing in list(self._open.values()):
            thing.close()
        for stream in list(self._streams):
            stream.close()
        if self._sql is not None:
            self._sql.close()
        if self._cache is not None:
            self._cache.close()
        self.closed = True

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()


def _create(path: str, shape: Any, dtype: np.dtype) -> None:
    """A new .npy file full of zeroes, under its name when it is complete."""
    if dtype.hasobject:
        raise fail(errno.EINVAL, "arrays in files cannot hold Python objects")
    shape = (int(shape),) if np.ndim(shape) == 0 else tuple(int(n) for n in shape)
    if not shape or min(shape) < 0:
        raise ValueError("%r is no shape of an array with rows" % (shape,))
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".new-", delete=False) as file:
        try:
            file.write(header(shape, dtype))
            file.truncate(HEADER + int(np.prod(shape, dtype=object)) * dtype.itemsize)
            publish(file, path)
        finally:
            os.unlink(file.name)


def publish(file: Any, path: str) -> None:
    """Give a complete temporary file its name, durably; FileExistsError if there is one."""
    file.flush()
    os.fchmod(file.fileno(), 0o666 & ~_umask())
    os.fsync(file.fileno())
    os.link(file.name, path)
    directory = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _umask() -> int:
    with builtin_open("/proc/self/status") as status:
        for line in status:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0o022


def header(shape: Any, dtype: np.dtype) -> bytes:
    """A header of HEADER bytes, version 1.0, with blanks up to its end."""
    text = repr({"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False,
                 "shape": shape}).encode("latin1")
    room = HEADER - 10
    if len(text) >= room:
        raise ValueError("the type of the elements is too long for a header")
    return b"\x93NUMPY\x01\x00" + room.to_bytes(2, "little") + text.ljust(room - 1) + b"\n"


builtin_open = open


def open(path: Path, memory: Size = "256M", *, arrays: Optional[Size] = None,
         sql: Optional[Size] = None, threads: int = 0, readonly: bool = False,
         create: bool = True) -> Database:
    """Open a database, a directory, and create it if it does not exist.

    memory    the ceiling for everything in it: bytes or "256M", "2G"
    arrays    the part of it for the cache of arrays; default half
    sql       the part of it for queries; default three eighths. insert() uses what is left.
    threads   of a query; default one for each processor
    """
    return Database(path, memory, arrays, sql, threads, readonly, create)
