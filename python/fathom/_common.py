# SPDX-License-Identifier: BSD-2-Clause
"""What the modules of the package share: sizes, paths, closing at the end."""
from __future__ import annotations

import atexit
import errno
import os
import weakref
from typing import Any, Protocol, Union

from . import _core

Size = Union[int, str]
Path = Union[str, "os.PathLike[str]"]


class _Closable(Protocol):
    def close(self) -> None: ...


_open: "weakref.WeakSet[Any]" = weakref.WeakSet()


def track(thing: _Closable) -> None:
    """Close an object when the interpreter ends, if it is open then."""
    _open.add(thing)


@atexit.register
def _close_all() -> None:
    # Objects of the library first, what they are in afterwards.
    for thing in sorted(_open, key=lambda t: getattr(t, "_close_last", 0)):
        try:
            thing.close()
        except Exception as e:  # the interpreter ends: there is nobody to raise it to
            import sys
            print("fathom: %r: %s" % (thing, e), file=sys.stderr)


def size_of(size: Size) -> int:
    """Bytes of 1048576, "64M" or "1.5G"."""
    if isinstance(size, str):
        return int(_core.parse_size(size))
    n = int(size)
    if n < 0:
        raise ValueError("size %d is negative" % n)
    return n


def file_uri(path: Path, readonly: bool) -> str:
    name = os.path.abspath(os.fspath(path))
    return "file:%s?tail=on%s" % (_core.escape(name), "&readonly=on" if readonly else "")


def fail(number: int, text: str) -> Exception:
    """An exception of the class for this errno."""
    special = {errno.ENOENT: _core.NotFoundError, errno.EEXIST: _core.ExistsError,
               errno.ENOMEM: _core.NoMemoryError}
    return special.get(number, _core.Error)(number, text)
