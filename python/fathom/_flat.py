# SPDX-License-Identifier: BSD-2-Clause
"""Flat arrays: real numpy arrays whose memory is a file, with a limit on what is in DRAM."""
from __future__ import annotations

import atexit
import math
import os
import sys
import weakref
from typing import Any

import numpy as np

from . import _core
from ._common import Path, Size, size_of


_regions: "weakref.WeakSet[Any]" = weakref.WeakSet()


@atexit.register
def _sync_all() -> None:
    """Make regions durable when the interpreter ends: arrays over them may still be there."""
    for region in list(_regions):
        try:
            region.sync()
        except Exception as e:  # there is nobody to raise it to
            print("fathom: %s" % e, file=sys.stderr)


class FlatArray(np.ndarray):
    """A numpy array over a flat region. Made by fathom.flat()."""

    _region: Any = None

    def __array_finalize__(self, other: Any) -> None:
        self._region = getattr(other, "_region", None)

    def sync(self) -> None:
        """Make all changes of the region durable."""
        if self._region is None:
            raise ValueError("the array is a copy in memory")
        self._region.sync()


def flat(path: Path, shape: Any, dtype: Any = "f8", memory: Size = "64M", *,
         readonly: bool = False) -> FlatArray:
    """A numpy array whose memory is a file, created if it does not exist, for code that needs one.

    At most `memory` of it is in DRAM; other pages are read when they are accessed. Every function
    of numpy works, and reads one page at a time: where rows can be named ahead, fathom.load() is
    faster. sync() makes changes durable; the file is closed when the last array over it is gone.

    System calls cannot use the memory (a.tofile() fails: write a copy), and a child of fork()
    must not touch it.
    """
    kind = np.dtype(dtype)
    if kind.hasobject:
        raise ValueError("a file cannot hold Python objects")
    shape = (int(shape),) if np.ndim(shape) == 0 else tuple(int(n) for n in shape)
    count = math.prod(shape)
    size = -(-max(count * kind.itemsize, 1) // 4096) * 4096
    name = os.path.abspath(os.fspath(path))
    uri = "file:" + _core.escape(name)
    if readonly:
        uri += "?readonly=on"
    elif not os.path.exists(name):
        uri += "?create=on&size=%d" % size
    region = _core.Flat(uri, size_of(memory), readonly)
    bytes_ = np.frombuffer(region, np.uint8)
    if len(bytes_) < count * kind.itemsize:
        raise ValueError("%s has %d bytes, and the array %d" % (path, len(bytes_),
                                                               count * kind.itemsize))
    array = bytes_[:count * kind.itemsize].view(kind).reshape(shape).view(FlatArray)
    array._region = region
    if not readonly:
        _regions.add(region)
    return array
