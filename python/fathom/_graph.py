# SPDX-License-Identifier: BSD-2-Clause
"""Graphs on flash: built from arrays, scipy matrices and edge files; algorithms give arrays."""
from __future__ import annotations

import os
from typing import Any, Optional, Tuple, Union

import numpy as np

from . import _core
from ._array import make_cache
from ._common import Path, Size, size_of, track

NONE = 0xffffffff  # no vertex
FAR = 0xffffffffffffffff  # no path

Vertex = Union[int, str]


class Graph:
    """A graph in a file, whose edges are read through a cache of fixed size.

    Made by fathom.graph(), fathom.build_graph() and fathom.import_graph(), or by the methods of
    these names of a Database. Vertices are numbers from 0 on; those of a graph that was imported
    with names may be given by name. Beside the cache, algorithms take memory for each vertex: 8
    bytes for its offset, and 4 to 20 for its state.
    """

    def __init__(self, cache: "_core.Cache", path: Path, owns_cache: bool = False):
        self.path = os.fspath(path)
        self._cache, self._owns_cache = cache, owns_cache
        self._graph = _core.Graph(cache, "file:%s?readonly=on&tail=on" % _core.escape(
            os.path.abspath(self.path)))
        (self.vertices, self.edges, self.undirected, self.weighted,
         self.has_names) = self._graph.info()
        track(self)

    def __repr__(self) -> str:
        return "fathom.Graph(%r, vertices=%d, edges=%d)" % (self.path, self.vertices, self.edges)

    def vertex(self, name: Vertex) -> int:
        """The number of a vertex, by name in a graph with names."""
        if isinstance(name, str):
            return int(self._graph.find(name))
        return int(name)

    def name(self, vertex: int) -> str:
        """The name of a vertex; without names, its number."""
        return str(self._graph.label(vertex))

    def degree(self, vertex: Vertex) -> int:
        """The number of edges from a vertex."""
        return int(self._graph.degree(self.vertex(vertex)))

    def pagerank(self, iterations: int = 20, tolerance: float = 0, damping: float = .85
                 ) -> np.ndarray:
        """The rank of each vertex; they sum to 1. Stops when ranks change by less in sum."""
        return np.frombuffer(self._graph.pagerank(iterations, tolerance, damping), np.float64)

    def bfs(self, source: Vertex) -> np.ndarray:
        """The parent of each vertex in a tree of shortest paths; fathom.NONE: not reached."""
        return np.frombuffer(self._graph.bfs(self.vertex(source)), np.uint32)

    def components(self) -> np.ndarray:
        """The least vertex of the (weakly) connected component of each vertex."""
        return np.frombuffer(self._graph.components(), np.uint32)

    def sssp(self, source: Vertex) -> np.ndarray:
        """The length of the shortest path to each vertex, by weight; fathom.FAR: no path."""
        return np.frombuffer(self._graph.sssp(self.vertex(source)), np.uint64)

    def close(self) -> None:
        """Close the graph."""
        self._graph.close()
        if self._owns_cache:
            self._cache.close()

    def __enter__(self) -> "Graph":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()


def graph(path: Path, memory: Size = "64M") -> Graph:
    """Open a graph file, made here or by `fathom graph import`."""
    return Graph(make_cache(size_of(memory), 4096, os.stat(path).st_size), path, True)


def _edges(edges: Any, weights: Any) -> Tuple[np.ndarray, np.ndarray, Optional[np.ndarray], int]:
    least = 0
    if hasattr(edges, "tocoo"):  # a scipy matrix: rows, columns and, unless all are 1, weights
        matrix = edges.tocoo()
        source, target, least = matrix.row, matrix.col, max(matrix.shape)
        if weights is True:
            weights = matrix.data
    else:
        source, target = edges if isinstance(edges, tuple) else np.asarray(edges).T
    source = np.ascontiguousarray(source, np.int64)
    target = np.ascontiguousarray(target, np.int64)
    if source.ndim != 1 or source.shape != target.shape:
        raise ValueError("edges are two arrays of the same length, or rows of two vertices")
    if source.size and min(source.min(), target.min()) < 0:
        raise ValueError("a vertex is negative")
    if weights is not None and weights is not True:
        weights = np.ascontiguousarray(weights, np.float64)
        if weights.shape != source.shape:
            raise ValueError("there are %d weights for %d edges" % (weights.size, source.size))
    return source, target, weights, least


def _scratch(path: str) -> str:
    return os.environ.get("TMPDIR") or os.path.dirname(path) or "."


def _publish(path: str, made: Any) -> None:
    """Build at a temporary name, and give the result its own."""
    path = os.path.abspath(path)
    new = "%s.new-%d" % (path, os.getpid())
    try:
        _, _, size = made(_core.escape(new), _scratch(path))
        os.truncate(new, -(-size // 4096) * 4096)
        os.replace(new, path)
    except BaseException:
        if os.path.exists(new):
            os.unlink(new)
        raise


def build_graph(path: Path, edges: Any, weights: Any = None, *, vertices: int = 0,
                undirected: bool = False, memory: Size = "64M") -> Graph:
    """Build a graph from edges in memory, sorted on disk, and open it.

    edges       a pair of arrays (sources, targets), an array of shape (n, 2), or a scipy.sparse
                matrix, whose row i has the edges from vertex i
    weights     positive integers, for sssp(); True: the values of the matrix
    vertices    how many there are at least
    undirected  add the opposite of each edge
    memory      for sorting, and for the cache of the opened graph

    Loops are dropped; of several equal edges the lightest stays.
    """
    source, target, values, least = _edges(edges, weights)
    _publish(os.fspath(path), lambda new, scratch: _core.build_graph(
        new, source, target, values, max(vertices, least), undirected, False,
        max(size_of(memory), 1 << 20), scratch))
    return graph(path, memory)


def import_graph(path: Path, text: Path, *, names: bool = False, undirected: bool = False,
                 weighted: bool = False, delimiter: str = "", memory: Size = "64M") -> Graph:
    """Build a graph from a file of edges, "FROM TO [WEIGHT]" a line, and open it.

    names      vertices are any names, which the graph keeps; else numbers
    delimiter  what separates fields, "," for CSV; default blanks
    A file .mtx is in the coordinate format of Matrix Market.
    """
    with open(text, "rb") as file:
        _publish(os.fspath(path), lambda new, scratch: _core.import_graph(
            new, file.fileno(), os.fspath(text).endswith(".mtx"), delimiter, names, undirected,
            weighted, max(size_of(memory), 1 << 20), scratch))
    return graph(path, memory)
