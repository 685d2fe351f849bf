# SPDX-License-Identifier: BSD-2-Clause
"""DB-API 2.0 (PEP 249) over databases of Fathom.

    import fathom.dbapi

    connection = fathom.dbapi.connect("data.fathom", memory="256M")
    pandas.read_sql("select * from people where id > ?", connection, params=[7])

Every statement is atomic, and durable when execute() returns: commit() does nothing, and rollback()
is refused after a change.
"""
from __future__ import annotations

import datetime
import errno
import time
from typing import Any, Iterator, List, Optional, Sequence, Tuple

from . import _core, _db, _sql

apilevel = "2.0"
threadsafety = 2  # threads may share connections
paramstyle = "qmark"


class Warning(Exception):
    """Never raised."""


class Error(Exception):
    """An error of a statement or a connection; errno has its number, if it has one."""

    errno: Optional[int] = None


class InterfaceError(Error):
    """A wrong use of this module."""


class DatabaseError(Error):
    """An error of the database."""


class DataError(DatabaseError):
    """A value that does not fit."""


class OperationalError(DatabaseError):
    """An error of the storage, or too little memory."""


class IntegrityError(DatabaseError):
    """Never raised: constraints are not enforced."""


class InternalError(DatabaseError):
    """Never raised."""


class ProgrammingError(DatabaseError):
    """A wrong statement, or wrong parameters."""


class NotSupportedError(DatabaseError):
    """A statement that is not supported."""


class _Type:
    """Equal to the codes of some Arrow formats."""

    def __init__(self, *codes: str):
        self.codes = codes

    def __eq__(self, other: object) -> bool:
        return self is other or isinstance(other, str) and other[:1] in self.codes

    def __hash__(self) -> int:
        return hash(self.codes)


STRING = _Type("u")
BINARY = _Type("z")
NUMBER = _Type("b", "i", "l", "g", "d")
DATETIME = _Type("t")
ROWID = _Type()

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:
    return datetime.date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:
    return datetime.time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:
    return datetime.datetime(*time.localtime(ticks)[:6])


def _translated(e: Exception) -> Error:
    number = getattr(e, "errno", None)
    kinds = {errno.EINVAL: ProgrammingError, errno.ENOENT: ProgrammingError,
             errno.EEXIST: ProgrammingError, errno.EOPNOTSUPP: NotSupportedError,
             errno.ERANGE: DataError, errno.EDOM: DataError}
    if isinstance(e, _core.Error):
        error = kinds.get(number, OperationalError)(e.strerror)
    else:
        error = ProgrammingError(str(e))
    error.errno = number
    return error


class Connection:
    """A connection to a database. Made by connect()."""

    Warning, Error, InterfaceError, DatabaseError = Warning, Error, InterfaceError, DatabaseError
    DataError, OperationalError, IntegrityError = DataError, OperationalError, IntegrityError
    InternalError, ProgrammingError = InternalError, ProgrammingError
    NotSupportedError = NotSupportedError

    def __init__(self, database: _db.Database, owned: bool):
        self._database, self._owned, self._changed = database, owned, False
        self._closed = False

    def _check(self) -> _db.Database:
        if self._closed or self._database.closed:
            raise InterfaceError("the connection is closed")
        return self._database

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._owned:
                self._database.close()

    def commit(self) -> None:
        """Does nothing: every statement is durable already."""
        self._check()
        self._changed = False

    def rollback(self) -> None:
        """Refused if a statement has changed something since the last commit."""
        self._check()
        if self._changed:
            raise NotSupportedError("statements cannot be undone: each is durable at once")

    def cursor(self) -> "Cursor":
        self._check()
        return Cursor(self)

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()


class Cursor:
    """A statement and its rows."""

    def __init__(self, connection: Connection):
        self.connection = connection
        self.arraysize = 1
        self.description: Optional[List[Tuple[Any, ...]]] = None
        self.rowcount = -1
        self._rows: List[Tuple[Any, ...]] = []
        self._stream: Any = None
        self._closed = False

    def _check(self) -> _db.Database:
        if self._closed:
            raise InterfaceError("the cursor is closed")
        return self.connection._check()

    def close(self) -> None:
        self._end()
        self._closed = True

    def _end(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream, self._rows, self.description, self.rowcount = None, [], None, -1

    def execute(self, operation: str, parameters: Optional[Sequence[Any]] = None) -> "Cursor":
        database = self._check()
        self._end()
        try:
            sql = _sql.bind(operation, parameters)
            if _sql.reads(sql):
                self._stream = _core.Stream(database._engine(), sql)
                database._streams.add(self._stream)
                self.description = [(name, form, None, None, None, None, None)
                                    for name, form in self._stream.columns()]
            else:
                self.rowcount = database._engine().run(sql)
                self.connection._changed = True
        except (_core.Error, ValueError, TypeError) as e:
            raise _translated(e) from e
        return self

    def executemany(self, operation: str, parameters: Sequence[Sequence[Any]]) -> "Cursor":
        total = 0
        for row in parameters:
            self.execute(operation, row)
            if self._stream is not None:
                raise ProgrammingError("executemany() is for statements without rows")
            total += self.rowcount
        self.rowcount = total
        return self

    def _fill(self, n: int) -> None:
        self._check()
        if self._stream is None:
            raise InterfaceError("no statement with rows was executed")
        try:
            while len(self._rows) < n and (more := self._stream.rows()):
                self._rows += more
        except _core.Error as e:
            raise _translated(e) from e

    def fetchmany(self, size: Optional[int] = None) -> List[Tuple[Any, ...]]:
        n = self.arraysize if size is None else size
        self._fill(n)
        rows, self._rows = self._rows[:n], self._rows[n:]
        return rows

    def fetchone(self) -> Optional[Tuple[Any, ...]]:
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchall(self) -> List[Tuple[Any, ...]]:
        return self.fetchmany(_sql.ALL)

    def __iter__(self) -> Iterator[Tuple[Any, ...]]:
        while (rows := self.fetchmany(4096)):
            yield from rows

    def setinputsizes(self, sizes: Any) -> None:
        """Does nothing."""

    def setoutputsize(self, size: int, column: Optional[int] = None) -> None:
        """Does nothing."""

    def __enter__(self) -> "Cursor":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()


def connect(database: Any, **options: Any) -> Connection:
    """Connect to a database: its path, with the options of fathom.open(), or an open Database."""
    if isinstance(database, _db.Database):
        return Connection(database, False)
    try:
        return Connection(_db.open(database, **options), True)
    except OSError as e:
        raise _translated(e) from e
