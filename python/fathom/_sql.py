# SPDX-License-Identifier: BSD-2-Clause
"""Statements: parameters, and results as tuples, numpy arrays, data frames and Arrow streams."""
from __future__ import annotations

import datetime
import decimal
import errno
import math
import os
import re
import tempfile
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from . import _core
from ._common import fail

ALL = (1 << 64) - 1

# What may stand in a statement around parameters: strings, names, comments, $$ texts.
_PARTS = re.compile(r"""
    '(?:[^']|'')*'              # a string
  | "(?:[^"]|"")*"              # a name
  | --[^\n]*                    # a comment
  | /\*.*?\*/
  | \$([A-Za-z_]*)\$.*?\$\1\$   # a string
  | \?                          # a parameter
""", re.X | re.S)
_READS = {"select", "with", "values", "table", "explain"}


def literal(value: Any) -> str:
    """A Python value as a constant of SQL."""
    if value is None:
        return "null"
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(int(value)) if value >= 0 else "(%d)" % int(value)
    if isinstance(value, (float, np.floating)):
        if not math.isfinite(value):
            raise ValueError("%r is no number of SQL" % value)
        return "cast('%r' as double precision)" % float(value)
    if isinstance(value, decimal.Decimal):
        if not value.is_finite():
            raise ValueError("%r is no number of SQL" % value)
        return "(%s)" % format(value, "f")
    if isinstance(value, datetime.datetime):
        if value.time() != datetime.time() or value.tzinfo:
            raise ValueError("a date has no time: %s" % value)
        value = value.date()
    if isinstance(value, datetime.date):
        return "date '%s'" % value.isoformat()
    if isinstance(value, np.datetime64):
        return "date '%s'" % np.datetime64(value, "D")
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError("a string of SQL has no null character")
        return "'%s'" % value.replace("'", "''")
    raise TypeError("%s is no type of SQL" % type(value).__name__)


def bind(sql: str, params: Optional[Sequence[Any]]) -> str:
    """Put constants in place of the question marks outside of strings, names and comments."""
    if params is None:
        return sql
    values = iter(params)
    count = 0

    def put(match: "re.Match[str]") -> str:
        nonlocal count
        if match.group() != "?":
            return match.group()
        count += 1
        try:
            return literal(next(values))
        except StopIteration:
            raise ValueError("the statement has more than the %d given parameters"
                             % len(params)) from None

    bound = _PARTS.sub(put, sql)
    if count != len(params):
        raise ValueError("the statement has %d parameters, not %d" % (count, len(params)))
    return bound


def reads(sql: str) -> bool:
    """Whether a statement gives rows, by its first word."""
    text = re.sub(r"^(?:\s|\(|--[^\n]*(?:\n|$)|/\*.*?\*/)+", "", sql, flags=re.S)
    word = re.match(r"[A-Za-z]*", text)
    return word is not None and word.group().lower() in _READS


def _unique(names: List[str]) -> List[str]:
    """Names of which none occurs twice: the second x is x_1."""
    seen: Dict[str, int] = {}
    result = []
    for name in names:
        while name in seen:
            seen[name] += 1
            name = "%s_%d" % (name, seen[name])
        seen[name] = 0
        result.append(name)
    return result


def _array(kind: str, values: Any) -> np.ndarray:
    if kind == "s":
        out = np.empty(len(values), object)
        out[:] = values
        return out
    dtype = np.dtype({"?": "?", "i": "i4", "l": "i8", "d": "f8", "D": "i8"}[kind])
    array = np.frombuffer(values, dtype) if len(memoryview(values)) else np.empty(0, dtype)
    return array.view("M8[D]") if kind == "D" else array


class Result:
    """A statement of SQL and its rows. Made by Database.sql().

    A SELECT runs when its rows are asked for, anew each time: by iteration (tuples), numpy(), df(),
    arrow(), batches() or save(). Other statements have run already; rowcount has the number of
    their rows. Decimals are decimal.Decimal in tuples, and float64 in arrays.
    """

    def __init__(self, database: Any, sql: str, rowcount: Optional[int] = None):
        self._database, self.text = database, sql
        self.rowcount = -1 if rowcount is None else rowcount
        self._plan: Optional[str] = None
        self._runs = rowcount is None
        if self._runs and not re.match(r"\s*explain\b", sql, re.I):
            self.explain()  # a wrong statement is refused now

    def __repr__(self) -> str:
        return "fathom.Result(%r)" % self.text

    def _stream(self) -> Any:
        if not self._runs:
            raise fail(errno.EINVAL, "the statement gives no rows: %s" % self.text)
        stream = _core.Stream(self._database._engine(), self.text)
        self._database._streams.add(stream)
        return stream

    def explain(self) -> str:
        """The plan, with the most bytes of memory that each step of it can take."""
        if self._plan is None:
            if not self._runs:
                raise fail(errno.EINVAL, "the statement has run already: %s" % self.text)
            try:
                stream = _core.Stream(self._database._engine(), "explain " + self.text)
            except _core.Error:
                self._stream().close()  # the same error, with the right column
                raise
            lines = []
            while rows := stream.rows():
                lines += [row[0] for row in rows]
            stream.close()
            self._plan = "\n".join(lines)
        return self._plan

    @property
    def columns(self) -> List[str]:
        """The names of the columns."""
        return [name for name, _ in self._describe()]

    def _describe(self) -> List[Tuple[str, str]]:
        if not self._runs:
            return []
        stream = self._stream()
        try:
            return list(stream.columns())
        finally:
            stream.close()

    def __iter__(self) -> Iterator[Tuple[Any, ...]]:
        stream = self._stream()
        try:
            while rows := stream.rows():
                yield from rows
        finally:
            stream.close()

    def fetchall(self) -> List[Tuple[Any, ...]]:
        """All rows, as a list of tuples."""
        return list(self)

    def one(self) -> Any:
        """The only row; its value if it has one column."""
        rows = self.fetchall()
        if len(rows) != 1:
            raise ValueError("the statement gave %d rows, not one" % len(rows))
        return rows[0][0] if len(rows[0]) == 1 else rows[0]

    def batches(self, rows: int = 1 << 16) -> Iterator[Dict[str, np.ndarray]]:
        """The rows as dicts of numpy arrays, of about so many rows each."""
        stream = self._stream()
        try:
            names = _unique([name for name, _ in stream.columns()])
            while True:
                part = _dict(names, stream.fetch(rows))
                if part and len(next(iter(part.values()))) == 0:
                    return
                yield part
        finally:
            stream.close()

    def numpy(self) -> Dict[str, np.ndarray]:
        """All rows as a dict of numpy arrays, masked arrays where values are null.

        Dates are datetime64[D], decimals float64, strings objects (None if they are null).
        """
        stream = self._stream()
        try:
            names = _unique([name for name, _ in stream.columns()])
            return _dict(names, stream.fetch(ALL))
        finally:
            stream.close()

    def df(self) -> Any:
        """All rows as a pandas.DataFrame.

        Integers and booleans with nulls have pandas' types. Dates before 1678 or after 2261, which
        pandas' type has no room for, are datetime.date.
        """
        import pandas
        data = {}
        for name, array in self.numpy().items():
            if isinstance(array, np.ma.MaskedArray):
                mask, values = np.ma.getmaskarray(array), array.data
                if values.dtype.kind == "i":
                    array = pandas.arrays.IntegerArray(values, mask)
                elif values.dtype.kind == "b":
                    array = pandas.arrays.BooleanArray(values, mask)
                else:
                    array = array.filled(np.datetime64("NaT") if values.dtype.kind == "M"
                                         else np.nan)
            if getattr(array.dtype, "kind", "") == "M" and not _fits_pandas(array):
                array = array.astype(object)
            data[name] = array
        return pandas.DataFrame(data)

    def arrow(self) -> "Arrow":
        """The rows as an Arrow stream, for pyarrow.table(), polars and others: see Arrow."""
        return Arrow(self)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._stream().capsule()

    def save(self, prefix: str) -> Dict[str, Any]:
        """Write the columns as arrays of the database, PREFIX_COLUMN, and open them.

        They take no more memory than a batch of rows. Strings and nulls have no array type.
        """
        return _save(self, prefix)


class Arrow:
    """An object with __arrow_c_stream__(): the rows of a result, for libraries that read Arrow."""

    def __init__(self, result: Result):
        self._result = result

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._result.__arrow_c_stream__(requested_schema)


def _fits_pandas(dates: np.ndarray) -> bool:
    known = dates[~np.isnat(dates)]
    return len(known) == 0 or (known.min() >= np.datetime64("1678-01-01")
                               and known.max() < np.datetime64("2262-01-01"))


def _dict(names: List[str], columns: Any) -> Dict[str, np.ndarray]:
    data = {}
    for name, (kind, values, nulls) in zip(names, columns):
        array = _array(kind, values)
        data[name] = array if nulls is None else np.ma.MaskedArray(array,
                                                                   np.frombuffer(nulls, "?"))
    return data


def _save(result: Result, prefix: str) -> Dict[str, Any]:
    from ._db import header, publish, HEADER
    database = result._database
    files: Dict[str, Any] = {}
    types: Dict[str, Any] = {}
    rows = 0
    folder = os.path.dirname(database._array_path(prefix))
    os.makedirs(folder, exist_ok=True)
    try:
        for part in result.batches():
            for name, array in part.items():
                if isinstance(array, np.ma.MaskedArray) or array.dtype.hasobject:
                    raise fail(errno.EINVAL, "column %s has nulls or strings, which no array holds"
                               % name)
                if name not in files:
                    files[name] = tempfile.NamedTemporaryFile(dir=folder, prefix=".new-",
                                                              delete=False)
                    files[name].seek(HEADER)
                    types[name] = array.dtype
                files[name].write(array.tobytes())
            rows += len(next(iter(part.values())))
        if not files:
            raise fail(errno.ENODATA, "the statement gave no rows")
        for name, file in files.items():
            file.seek(0)
            file.write(header((rows,), types[name]))
            publish(file, database._array_path("%s_%s" % (prefix, name)))
    finally:
        for file in files.values():
            file.close()
            os.unlink(file.name)
    return {name: database.array("%s_%s" % (prefix, name)) for name in files}


# ---- rows from memory ----

_NAMES = {"b": "boolean", "i": "bigint", "u": "bigint", "f": "double precision", "M": "date",
          "U": "text", "S": "text", "O": "text"}


def columns_of(data: Any) -> Dict[str, np.ndarray]:
    """Columns of a dict of arrays, a structured array or a data frame."""
    if hasattr(data, "to_dict") and hasattr(data, "columns"):
        data = {str(name): data[name].to_numpy() for name in data.columns}
    elif isinstance(data, np.ndarray) and data.dtype.names:
        data = {name: data[name] for name in data.dtype.names}
    columns = {}
    for name, column in data.items():
        if not hasattr(column, "dtype"):
            column = np.asarray(column)
        if len(column.shape) != 1:
            raise ValueError("column %s has %d axes" % (name, len(column.shape)))
        columns[name] = column
    if not columns:
        raise ValueError("there are no columns")
    if len({c.shape for c in columns.values()}) > 1:
        raise ValueError("columns differ in length: %s"
                         % {n: c.shape[0] for n, c in columns.items()})
    return columns


def type_of(name: str, column: Any) -> str:
    """The type of SQL for a column."""
    if column.dtype.kind not in _NAMES:
        raise TypeError("column %s: %s is no type of SQL" % (name, column.dtype))
    if column.dtype.kind in "iu" and column.dtype.itemsize < 4 + (column.dtype.kind == "i"):
        return "integer"
    return _NAMES[column.dtype.kind]


def _nulls(part: np.ndarray) -> Optional[np.ndarray]:
    if isinstance(part, np.ma.MaskedArray):
        return np.ascontiguousarray(np.ma.getmaskarray(part), np.uint8)
    if part.dtype == object:
        return np.fromiter((v is None or v != v for v in part), np.uint8, len(part))
    if part.dtype.kind == "M":
        return np.isnat(part).astype(np.uint8)
    return None


def _vector(name: str, kind: str, scale: int, part: np.ndarray) -> Tuple[Any, ...]:
    """What Writer.append() takes for a column."""
    nulls = _nulls(part)
    if isinstance(part, np.ma.MaskedArray):
        part = part.filled(0 if part.dtype.kind != "M" else np.datetime64(0, "D"))
    if kind == "s":
        texts = [b"" if nulls is not None and nulls[i] else
                 v if isinstance(v, bytes) else str(v).encode() for i, v in enumerate(part)]
        offsets = np.zeros(len(texts) + 1, np.uint32)
        np.cumsum([len(t) for t in texts], out=offsets[1:])
        return None, offsets, b"".join(texts), nulls
    if nulls is not None and part.dtype == object:
        part = np.array([0 if n else v for n, v in zip(nulls, part)])
    if kind == "D":
        return part.astype("M8[D]").astype(np.int64), None, None, nulls
    if kind == "d":
        return np.ascontiguousarray(part, np.float64), None, None, nulls
    if kind == "n":
        scaled = [int((decimal.Decimal(str(v)) * 10 ** scale).to_integral_value()) for v in part]
        return np.array(scaled, np.int64), None, None, nulls
    if part.dtype.kind not in "biu":
        raise TypeError("column %s: %s are no integers" % (name, part.dtype))
    if part.dtype == np.uint64 and len(part) and int(part.max()) > np.iinfo(np.int64).max:
        raise OverflowError("column %s: %d is no bigint" % (name, part.max()))
    return part.astype(np.int64), None, None, nulls


def append(writer: Any, columns: Dict[str, Any], rows: int) -> None:
    """Append all rows of columns, which may be arrays in files, a part at a time."""
    described = writer.columns()
    known = {name for name, _, _ in described}
    lower = {name.lower(): column for name, column in columns.items()}
    unknown, missing = set(lower) - known, known - set(lower)
    if unknown or missing:
        raise ValueError("columns of the table that are missing: %s; columns it does not have: %s"
                         % (sorted(missing), sorted(unknown)))
    step = 1 << 14
    for i in range(0, rows, step):
        n = min(step, rows - i)
        writer.append(n, [_vector(name, kind, scale, lower[name][i:i + n])
                          for name, kind, scale in described])


def quoted(name: str) -> str:
    return '"%s"' % name.replace('"', '""')
