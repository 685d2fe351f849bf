# SPDX-License-Identifier: BSD-2-Clause
"""Data larger than memory, in an amount of memory that you set.

    import fathom

    a = fathom.load("features.npy", memory="256M")      # any size; reads what is needed
    rows = a[ids]                                       # a numpy array; many reads at once

    db = fathom.open("data.fathom", memory="256M")      # arrays and tables under one ceiling
    x = db.array("x", (1_000_000_000,), "float32")
    x[ids] = values
    x.flush()                                           # durable
    db.insert("people", {"id": [1, 2], "name": ["Ada", "Grace"]}, create=True)
    db.sql("select name from people where id > ?", [1]).fetchall()
    db.close()

    fathom.Cache("cache.kv")["key"] = "value"           # a dict that forgets
    fathom.build_graph("links.graph", (sources, targets)).pagerank()

fathom.Log and fathom.Checkpoint survive crashes; fathom.flat() gives a numpy array whose memory is
a file; fathom.dbapi is a module of DB-API 2.0 (PEP 249), for pandas.read_sql() and others.

Errors are fathom.Error, an OSError. Objects are closed when they are no longer used, when the
interpreter ends, by close() and by `with`. Threads may share them; a child of fork() opens its own.
"""
from ._array import Array, load
from ._cache import Cache
from ._core import Error, version as __version__
from ._db import Database, open
from ._flat import FlatArray, flat
from ._graph import FAR, NONE, Graph, build_graph, graph, import_graph
from ._pm import Checkpoint, Log
from ._sql import Arrow, Result

__all__ = ["Array", "Arrow", "Cache", "Checkpoint", "Database", "Error", "FAR", "FlatArray",
           "Graph", "Log", "NONE", "Result", "build_graph", "flat", "graph", "import_graph", "load",
           "open"]
