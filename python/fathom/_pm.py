# SPDX-License-Identifier: BSD-2-Clause
"""Logs and checkpoints: what was appended or saved survives a crash."""
from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, Iterator

import numpy as np

from . import _core
from ._common import Path, Size, size_of, track


def _name(path: Path) -> str:
    """The name of persistent memory: shm:NAME as it is, a path as a file."""
    text = os.fspath(path)
    if text.startswith(("shm:", "pmem:", "file:")):
        return text
    return "file:" + _core.escape(os.path.abspath(text))


class Log:
    """A log of entries of bytes, each durable when append() returns.

        with fathom.Log("events.log", size="16M") as log:
            log.append(b"started")
            for entry in log:
                print(entry)

    size is that of a new log; it cannot grow, and append() raises an error with ENOSPC when it is
    full: clear() it then. Mapping it takes as much memory. shm:NAME is shared memory, which
    survives the process but not the machine.
    """

    def __init__(self, path: Path, size: Size = "16M"):
        bytes_ = min(max(size_of(size) // 128 * 128, 256), 1 << 30)
        self.path = os.fspath(path)
        self._log = _core.Log(_name(path), bytes_)
        track(self)

    def append(self, data: Any) -> None:
        """Add an entry: bytes, or a contiguous array."""
        self._log.append(data)

    def __iter__(self) -> Iterator[bytes]:
        cursor = 0
        while (found := self._log.read(cursor)) is not None:
            entry, cursor = found
            yield entry

    def __len__(self) -> int:
        return int(self._log.count())

    def __bool__(self) -> bool:
        return True

    def clear(self) -> None:
        """Remove all entries."""
        self._log.clear()

    def close(self) -> None:
        """Close the log; its entries stay."""
        self._log.close()

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()


class Checkpoint:
    """A checkpoint of arrays, which are saved and restored together.

        weights, step = np.zeros(1000), np.zeros(1, int)
        with fathom.Checkpoint("model.ckpt", weights=weights, step=step) as checkpoint:
            checkpoint.restore()                # False if nothing was saved yet
            while step[0] < 100:
                with checkpoint.step():         # saved at its end, if nothing was raised
                    weights += 1
                    step += 1

    A save is atomic: after a crash the arrays are those of the latest save that returned. Only
    blocks of 4 KiB that have changed are written. The file takes twice the size of the arrays, and
    as much memory while it is open. The same arrays, by sizes in the order of their names, have to
    be given each time.
    """

    def __init__(self, path: Path, **arrays: np.ndarray):
        if not arrays:
            raise ValueError("a checkpoint needs arrays")
        self.path = os.fspath(path)
        self.arrays: Dict[str, np.ndarray] = dict(sorted(arrays.items()))
        for name, array in self.arrays.items():
            if not isinstance(array, np.ndarray) or not array.flags.c_contiguous:
                raise ValueError("%s is no contiguous numpy array" % name)
            if array.dtype.hasobject or array.nbytes == 0:
                raise ValueError("%s has Python objects, or nothing" % name)
        self._checkpoint = _core.Checkpoint(
            _name(path), [a.reshape(-1).view(np.uint8) for a in self.arrays.values()])
        track(self)

    @property
    def version(self) -> int:
        """The number of saves ever; 0: there is nothing to restore."""
        return int(self._checkpoint.version())

    def save(self) -> None:
        """Save the arrays. The checkpoint is durable when this returns."""
        self._checkpoint.save()

    def restore(self) -> bool:
        """Fill the arrays from the latest checkpoint. False if there is none."""
        return bool(self._checkpoint.restore())

    @contextlib.contextmanager
    def step(self) -> Iterator["Checkpoint"]:
        """Save at the end of the block; not if it raises an exception."""
        yield self
        self.save()

    def close(self) -> None:
        """Close, without saving."""
        self._checkpoint.close()

    def __enter__(self) -> "Checkpoint":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()
