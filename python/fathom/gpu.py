# SPDX-License-Identifier: BSD-2-Clause
"""Rows of a file that is larger than memory, gathered into tensors on a GPU.

    import fathom.gpu
    import torch

    features = fathom.gpu.load("features.npy", memory="8G")
    ids = torch.randint(len(features), (4096,), device="cuda")
    batch = features[ids]                   # a CUDA tensor of the rows

GPU threads find rows in a cache in GPU memory and fetch missing ones from the file themselves; CPU
threads of the library execute their reads. No kernel runs between calls. Needs libfathom_cuda: a
build with nvcc (`FATHOM_CUDA=1 pip install ./python`), and a GPU of compute capability 8.0 or newer.
Uses CUDA device 0. CUDA's run-time library is the one that torch or CuPy has loaded: import that
first where the system has none.
"""
from __future__ import annotations

import ctypes
import errno
import os
import sys
import threading
from typing import Any, Optional, Tuple

import numpy as np

from ._array import find_place
from ._common import Path, Size, fail, file_uri, size_of, track

__all__ = ["Rows", "load"]


class _Options(ctypes.Structure):
    """struct fth_gpu_rows_options of fathom/gpu/rows.h."""
    _fields_ = [("size", ctypes.c_size_t), ("memory", ctypes.c_uint64),
                ("offset", ctypes.c_uint64), ("rows", ctypes.c_uint64), ("row", ctypes.c_uint64),
                ("line", ctypes.c_uint32), ("timeout_ms", ctypes.c_uint32)]


_SIGNATURES = {
    "fth_gpu_rows_open": [ctypes.c_char_p, ctypes.POINTER(_Options),
                          ctypes.POINTER(ctypes.c_void_p)],
    "fth_gpu_rows_gather": [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p,
                            ctypes.c_void_p],
    "fth_gpu_rows_wait": [ctypes.c_void_p, ctypes.c_void_p],
    "fth_gpu_rows_bytes_read": [ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)],
    "fth_gpu_rows_close": [ctypes.c_void_p],
}
_library: Optional[ctypes.CDLL] = None


def _load_library() -> ctypes.CDLL:
    global _library
    if _library is None:
        path = os.path.join(os.path.dirname(__file__), "_gpu.so")
        try:
            library = ctypes.CDLL(path)
        except OSError as e:
            raise fail(errno.EOPNOTSUPP, "fathom.gpu needs a build with nvcc, and CUDA's run-time "
                       "library: %s" % e) from None
        for name, types in _SIGNATURES.items():
            function = getattr(library, name)
            function.argtypes, function.restype = types, ctypes.c_int
        library.fth_error_text.argtypes = [ctypes.c_int]
        library.fth_error_text.restype = ctypes.c_char_p
        _library = library
    return _library


def _check(rc: int) -> None:
    if rc < 0:
        text = _load_library().fth_error_text(rc).decode(errors="replace")
        if rc == -errno.ERANGE:
            raise IndexError(text)
        raise fail(-rc, text)


def _pointer(what: str, array: Any, kind: np.dtype) -> Tuple[int, Tuple[int, ...]]:
    """Address and shape of an array in GPU memory, which must be contiguous and of this type."""
    face = getattr(array, "__cuda_array_interface__", None)
    if face is None:
        raise TypeError("%s is %s, expected an array in GPU memory: a CUDA tensor of torch or an "
                        "array of CuPy" % (what, type(array).__name__))
    if np.dtype(face["typestr"]) != kind:
        raise TypeError("%s has type %s, expected %s" % (what, face["typestr"], kind.str))
    shape = tuple(face["shape"])
    if face.get("strides") is not None:
        stride = kind.itemsize
        for n, step in zip(reversed(shape), reversed(face["strides"])):
            if n > 1 and step != stride:
                raise ValueError("%s is not contiguous" % what)
            stride *= n
    if getattr(getattr(array, "device", None), "index", 0) not in (0, None):
        raise ValueError("%s is on %s, expected CUDA device 0" % (what, array.device))
    return face["data"][0] or 0, shape


def _framework(array: Any) -> Any:
    """torch or cupy, whichever made the array; None for others."""
    name = type(array).__module__.partition(".")[0]
    return sys.modules.get(name) if name in ("torch", "cupy") else None


def _stream(framework: Any) -> int:
    if framework is None:
        return 0
    if framework.__name__ == "torch":
        return int(framework.cuda.current_stream().cuda_stream)
    return int(framework.cuda.get_current_stream().ptr)


class Rows:
    """An array in a file whose rows are gathered into GPU memory. load() opens it.

    Threads may share it; calls follow one another. A child of fork() opens its own.
    """

    def __init__(self, uri: str, shape: Tuple[int, ...], dtype: np.dtype, offset: int,
                 memory: int, line: int) -> None:
        self._handle: Optional[ctypes.c_void_p] = None
        self.shape, self.dtype = shape, dtype
        self._lock, self._pid = threading.Lock(), os.getpid()
        row = int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize
        options = _Options(ctypes.sizeof(_Options), memory, offset, shape[0], row, line, 30000)
        handle = ctypes.c_void_p()
        self._lib = _load_library()
        _check(self._lib.fth_gpu_rows_open(uri.encode(), ctypes.byref(options),
                                           ctypes.byref(handle)))
        self._handle = handle
        track(self)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return "<fathom.gpu.Rows of shape %r, type %s%s>" % (
            self.shape, self.dtype, "" if self._handle else ", closed")

    def _live(self) -> ctypes.c_void_p:
        if self._handle is None:
            raise fail(errno.EBADF, "the rows are closed")
        if self._pid != os.getpid():
            raise fail(errno.EPERM, "a child of fork() opens its own rows")
        return self._handle

    def take(self, ids: Any, out: Any = None, *, wait: bool = True) -> Any:
        """The rows with these numbers, on the caller's current stream.

        ids   int64, of any shape, contiguous, in GPU memory; negative ones count from the end
        out   where the rows go, of shape ids.shape + shape[1:]; by default a new tensor of torch,
              or array of CuPy, as ids is
        wait  False: return at once; the rows are right only if check() raises nothing later
        """
        address, shape = _pointer("ids", ids, np.dtype("<i8"))
        framework = _framework(ids)
        shape += self.shape[1:]
        if out is None:
            if framework is None:
                raise TypeError("out= is needed: ids come from neither torch nor CuPy")
            more = {"device": ids.device} if framework.__name__ == "torch" else {}
            out = framework.empty(shape, dtype=getattr(framework, self.dtype.name), **more)
        target, have = _pointer("out", out, self.dtype)
        if have != shape:
            raise ValueError("out has shape %r, expected %r" % (have, shape))
        stream, n = _stream(framework), 1
        for size in shape[:len(shape) - len(self.shape) + 1]:
            n *= size
        with self._lock:
            _check(self._lib.fth_gpu_rows_gather(self._live(), address, n, target, stream))
            if wait:
                _check(self._lib.fth_gpu_rows_wait(self._live(), stream))
        return out

    def __getitem__(self, ids: Any) -> Any:
        return self.take(ids)

    def check(self, ids: Any = None) -> None:
        """Wait for the gathers of take(wait=False) and raise their first error.

        ids   an array of the framework whose current stream they are on; by default torch's, if
              that is loaded
        """
        framework = _framework(ids) if ids is not None else sys.modules.get("torch")
        with self._lock:
            _check(self._lib.fth_gpu_rows_wait(self._live(), _stream(framework)))

    @property
    def bytes_read(self) -> int:
        """Bytes read from the file so far."""
        count = ctypes.c_uint64()
        with self._lock:
            _check(self._lib.fth_gpu_rows_bytes_read(self._live(), ctypes.byref(count)))
        return count.value

    def close(self) -> None:
        """Release GPU memory and the file. A second call has no effect."""
        with self._lock:
            handle, self._handle = self._handle, None
            if handle is not None and self._pid == os.getpid():
                _check(self._lib.fth_gpu_rows_close(handle))

    def __enter__(self) -> "Rows":
        return self

    def __exit__(self, *unused: Any) -> None:
        self.close()


def load(path: Path, memory: Size = "1G", *, dtype: Any = None, shape: Any = None,
         offset: int = 0, line: int = 4096) -> Rows:
    """Open an array in a file for a GPU, read-only: a .npy file, or raw data if dtype is given.

    memory    GPU memory for rows that were read, whatever the size of the file; an index of
              8 bytes for each line of the file comes on top
    dtype, shape, offset
              as for fathom.load()
    line      bytes that are read at once: a power of two from 512 to 8192
    """
    shape, kind, offset = find_place(path, dtype, shape, offset)
    if not kind.isnative or kind.kind not in "biufc":
        raise TypeError("%s has type %s, which GPU tensors do not have" % (path, kind))
    return Rows(file_uri(path, True), shape, kind, offset, size_of(memory), line)
