# SPDX-License-Identifier: BSD-2-Clause
"""Arrow streams, read through the capsule as another library would."""
import ctypes
import gc

import numpy as np
import pytest

import fathom
from fathom import _core

pytestmark = pytest.mark.skipif(not hasattr(_core, "Engine"), reason="built without SQL")


class Schema(ctypes.Structure):
    pass


class Batch(ctypes.Structure):
    pass


class Stream(ctypes.Structure):
    pass


Schema._fields_ = [("format", ctypes.c_char_p), ("name", ctypes.c_char_p),
                   ("metadata", ctypes.c_char_p), ("flags", ctypes.c_int64),
                   ("n_children", ctypes.c_int64),
                   ("children", ctypes.POINTER(ctypes.POINTER(Schema))),
                   ("dictionary", ctypes.c_void_p),
                   ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(Schema))),
                   ("private_data", ctypes.c_void_p)]
Batch._fields_ = [("length", ctypes.c_int64), ("null_count", ctypes.c_int64),
                  ("offset", ctypes.c_int64), ("n_buffers", ctypes.c_int64),
                  ("n_children", ctypes.c_int64), ("buffers", ctypes.POINTER(ctypes.c_void_p)),
                  ("children", ctypes.POINTER(ctypes.POINTER(Batch))),
                  ("dictionary", ctypes.c_void_p),
                  ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(Batch))),
                  ("private_data", ctypes.c_void_p)]
Stream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.POINTER(Schema))),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.POINTER(Batch))),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(Stream))),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(Stream))),
    ("private_data", ctypes.c_void_p)]

pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype = ctypes.c_void_p
pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def stream_of(thing):
    capsule = thing.__arrow_c_stream__()
    return capsule, Stream.from_address(pointer(capsule, b"arrow_array_stream"))


@pytest.fixture
def db(tmp_path):
    with fathom.open(tmp_path, memory="64M") as database:
        database.insert("t", {"a": np.arange(20000), "x": np.arange(20000) / 4}, create=True)
        yield database


def test_a_stream_has_all_rows(db):
    capsule, stream = stream_of(db.sql("select a, x from t order by a").arrow())
    schema = Schema()
    assert stream.get_schema(stream, schema) == 0
    assert [(schema.children[i].contents.name, schema.children[i].contents.format)
            for i in range(schema.n_children)] == [(b"a", b"l"), (b"x", b"g")]
    schema.release(schema)
    numbers = []
    while True:
        batch = Batch()
        assert stream.get_next(stream, batch) == 0
        if not batch.release:
            break
        column = batch.children[0].contents
        numbers += (ctypes.c_int64 * column.length).from_address(column.buffers[1])
        batch.release(batch)
    assert numbers == list(range(20000))
    stream.release(stream)
    del capsule, stream
    gc.collect()


def test_a_stream_may_be_dropped_at_any_time(db):
    for take in range(3):
        capsule, stream = stream_of(db.sql("select a from t"))
        for _ in range(take):
            batch = Batch()
            assert stream.get_next(stream, batch) == 0
            batch.release(batch)
        del stream, capsule
        gc.collect()


def test_a_stream_outlives_its_database_object(tmp_path):
    db = fathom.open(tmp_path, memory="32M")
    db.insert("t", {"a": [5]}, create=True)
    capsule, stream = stream_of(db.sql("select a from t"))
    del db
    gc.collect()
    batch = Batch()
    assert stream.get_next(stream, batch) == 0
    assert (ctypes.c_int64 * 1).from_address(batch.children[0].contents.buffers[1])[0] == 5
    batch.release(batch)
    del stream, capsule


def test_other_libraries(db):
    pyarrow = pytest.importorskip("pyarrow")
    assert pyarrow.table(db.sql("select a from t").arrow()).num_rows == 20000
