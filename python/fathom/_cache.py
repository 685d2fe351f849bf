# SPDX-License-Identifier: BSD-2-Clause
"""Cache: a dict of limited size on flash, with times at which items expire."""
from __future__ import annotations

import functools
import hashlib
import os
import pickle
import time
from typing import Any, Callable, Dict, Iterable, Mapping, Optional, Tuple

from . import _core
from ._common import Path, Size, size_of, track

# The kind of a value, in its flags.
_BYTES, _STR, _PICKLE = 0, 1, 2
_KEY_MAX = 250
_PERSISTENCE = {"none": 0, "write-back": 1, "write-through": 2}


def _key(key: Any) -> bytes:
    """Bytes that stand for a key; keys of different types are different."""
    if isinstance(key, str):
        data = b"s" + key.encode("utf-8", "surrogatepass")
    elif isinstance(key, bytes):
        data = b"b" + key
    else:
        data = b"p" + pickle.dumps(key, 4)
    if len(data) <= _KEY_MAX:
        return data
    return b"h" + hashlib.blake2b(data, digest_size=32).digest()


def _encode(value: Any) -> Tuple[bytes, int]:
    if type(value) is bytes:
        return value, _BYTES
    if type(value) is str:
        return value.encode("utf-8", "surrogatepass"), _STR
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL), _PICKLE


def _decode(item: Tuple[bytes, int]) -> Any:
    value, kind = item
    if kind == _BYTES:
        return value
    if kind == _STR:
        return value.decode("utf-8", "surrogatepass")
    return pickle.loads(value)


def _expires(expire: Optional[float]) -> int:
    """Seconds from now as seconds since 1970; an item lives at least as long."""
    if expire is None:
        return 0
    return max(int(time.time() + expire + .999), 1)


class Cache:
    """A dict on flash that forgets: the oldest items when it is full, others when they expire.

        cache = fathom.Cache("cache.kv", memory="64M", flash="1G")
        cache["key"] = {"any": "value"}
        cache.set("session", b"bytes", expire=3600)
        cache.get("missing", "default")
        cache.get_many(["a", "b", "c"])         # all reads of flash at once

    path     a file; without one, items are in memory only, and are gone in the end
    memory   for new and hot items. The index takes 18 to 20 bytes for each item in addition.
    flash    the size of a new file
    persist  what survives the end of the process and a crash: "write-back", all but the last
             100 ms; "write-through", all that was stored when the call returned; "none"

    Keys are str, bytes, or anything that pickle turns into the same bytes each time (numbers,
    tuples). Bytes and str are stored as they are, other values are pickled: open only files that
    you trust. Values have at most value_max bytes. One process has the file open at a time; its
    threads share the object.
    """

    def __init__(self, path: Optional[Path] = None, memory: Size = "64M", flash: Size = "1G", *,
                 persist: str = "write-back", value_max: Size = 1 << 20):
        if persist not in _PERSISTENCE:
            raise ValueError("persist is one of %s" % ", ".join(_PERSISTENCE))
        uri = None
        if path is not None:
            name = os.path.abspath(os.fspath(path))
            uri = "file:" + _core.escape(name)
            if not os.path.exists(name):
                uri += "?create=on&size=%d" % (size_of(flash) // 4096 * 4096)
        self.path = None if path is None else os.fspath(path)
        level = _PERSISTENCE[persist] if path is not None else 0
        self._kv = _core.Kv(uri, size_of(memory), level, size_of(value_max))
        self._get = self._kv.get
        track(self)

    def __repr__(self) -> str:
        return "fathom.Cache(%r)" % self.path

    # ---- single items ----

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a key, or a default."""
        item = self._get(_key(key))
        return default if item is None else _decode(item)

    def __getitem__(self, key: Any) -> Any:
        item = self._get(_key(key))
        if item is None:
            raise KeyError(key)
        return _decode(item)

    def __contains__(self, key: Any) -> bool:
        return self._get(_key(key)) is not None

    def set(self, key: Any, value: Any, expire: Optional[float] = None) -> None:
        """Store a value; it expires after so many seconds, or never."""
        data, kind = _encode(value)
        self._kv.store(_core.KV_SET, _key(key), data, kind, _expires(expire))

    def __setitem__(self, key: Any, value: Any) -> None:
        self.set(key, value)

    def add(self, key: Any, value: Any, expire: Optional[float] = None) -> bool:
        """Store a value if the key has none. True if it was stored."""
        data, kind = _encode(value)
        return self._kv.store(_core.KV_ADD, _key(key), data, kind, _expires(expire)) == 0

    def touch(self, key: Any, expire: Optional[float] = None) -> bool:
        """Set the time when an item expires. False if there is no such item."""
        return self._kv.store(_core.KV_TOUCH, _key(key), b"", 0, _expires(expire)) == 0

    def delete(self, key: Any) -> bool:
        """Remove an item. False if there was none."""
        return self._kv.store(_core.KV_DELETE, _key(key), b"", 0, 0) == 0

    def __delitem__(self, key: Any) -> None:
        if not self.delete(key):
            raise KeyError(key)

    def pop(self, key: Any, default: Any = None) -> Any:
        """Remove an item and return its value, or a default. Not atomic between threads."""
        value = self.get(key, default)
        self.delete(key)
        return value

    # ---- many items ----

    def get_many(self, keys: Iterable[Any]) -> Dict[Any, Any]:
        """The values of those keys that have one, with many reads of flash at once."""
        keys = list(keys)
        items = self._kv.get_many([_key(key) for key in keys])
        return {key: _decode(item) for key, item in zip(keys, items) if item is not None}

    def set_many(self, items: Mapping[Any, Any], expire: Optional[float] = None) -> None:
        """Store all items of a dict."""
        values = [_encode(value) for value in items.values()]
        self._kv.set_many([_key(key) for key in items], [data for data, _ in values],
                          [kind for _, kind in values], _expires(expire))

    def clear(self) -> None:
        """Remove all items."""
        self._kv.store(_core.KV_CLEAR, b"", b"", 0, 0)

    def memoize(self, expire: Optional[float] = None) -> Callable[[Any], Any]:
        """A decorator: results of a function are kept by its arguments."""
        def decorate(function: Any) -> Any:
            name = "%s.%s" % (function.__module__, function.__qualname__)
            missing = object()

            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                key = (name, args, tuple(sorted(kwargs.items())))
                value = self.get(key, missing)
                if value is missing:
                    value = function(*args, **kwargs)
                    self.set(key, value, expire)
                return value
            return wrapper
        return decorate

    # ---- the rest ----

    def __len__(self) -> int:
        """The number of items, among them those that have expired and were not looked at since."""
        return int(self._kv.stats()["items"])

    def __bool__(self) -> bool:
        return True

    @property
    def stats(self) -> Dict[str, int]:
        """Counters and sizes."""
        return dict(self._kv.stats())

    def checkpoint(self) -> None:
        """Write the index now, so that opening after a crash reads less."""
        self._kv.checkpoint()

    def close(self) -> None:
        """Make everything durable, unless persist is "none", and close."""
        self._kv.close()

    def __enter__(self) -> "Cache":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()
