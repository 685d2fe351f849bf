# SPDX-License-Identifier: BSD-2-Clause
"""Graphs: beside plain algorithms in memory."""
import errno
import heapq

import numpy as np
import pytest

import fathom

N = 500


@pytest.fixture
def edges(rng):
    pairs = np.unique(rng.integers(0, N, (3000, 2)), axis=0)
    return pairs[pairs[:, 0] != pairs[:, 1]]


def ranks(edges, n, rounds=20, d=.85):
    degree = np.bincount(edges[:, 0], minlength=n)
    r = np.full(n, 1 / n)
    for _ in range(rounds):
        share = np.where(degree, r / np.maximum(degree, 1), 0)
        new = np.bincount(edges[:, 1], share[edges[:, 0]], minlength=n)
        r = (1 - d) / n + d * (new + r[degree == 0].sum() / n)
    return r


def distances(edges, weights, n, source):
    out = [[] for _ in range(n)]
    for (a, b), w in zip(edges, weights):
        out[a].append((b, w))
    dist, queue = [fathom.FAR] * n, [(0, source)]
    dist[source] = 0
    while queue:
        d, v = heapq.heappop(queue)
        for u, w in out[v]:
            if d + w < dist[u]:
                dist[u] = int(d + w)
                heapq.heappush(queue, (dist[u], u))
    return np.array(dist, np.uint64)


def test_pagerank(tmp_path, edges):
    with fathom.build_graph(tmp_path / "g", edges, vertices=N, memory="4M") as g:
        assert (g.vertices, g.edges, g.undirected, g.weighted) == (N, len(edges), False, False)
        assert np.allclose(g.pagerank(), ranks(edges, N))
        assert g.pagerank(iterations=50).sum() == pytest.approx(1)
        assert g.degree(7) == (edges[:, 0] == 7).sum()
    with fathom.graph(tmp_path / "g") as g:
        assert np.allclose(g.pagerank(), ranks(edges, N))


def test_bfs_and_components(tmp_path, edges):
    few = edges[:300]
    with fathom.build_graph(tmp_path / "g", (few[:, 0], few[:, 1]), vertices=N,
                            undirected=True) as g:
        label = np.arange(N)
        for _ in range(N):
            new = label.copy()
            np.minimum.at(new, few[:, 0], label[few[:, 1]])
            np.minimum.at(new, few[:, 1], label[few[:, 0]])
            if (new == label).all():
                break
            label = new
        assert np.array_equal(g.components(), label)
        source = int(few[0, 0])
        parent = g.bfs(source)
        assert np.array_equal(parent != fathom.NONE, label == label[source])
        assert parent[source] == source
        pairs = set(map(tuple, few)) | {(b, a) for a, b in few}
        assert all((p, v) in pairs for v, p in enumerate(parent.tolist())
                   if p != fathom.NONE and v != source)


def test_shortest_paths(tmp_path, edges, rng):
    weights = rng.integers(1, 100, len(edges))
    with fathom.build_graph(tmp_path / "g", edges, weights, vertices=N) as g:
        assert np.array_equal(g.sssp(3), distances(edges, weights, N, 3))
    with fathom.build_graph(tmp_path / "h", edges) as g:
        with pytest.raises(fathom.Error):
            g.sssp(3)


def test_scipy_matrices(tmp_path, edges):
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.csr_matrix((np.full(len(edges), 7), edges.T), shape=(N, N))
    with fathom.build_graph(tmp_path / "g", matrix, weights=True) as g:
        assert g.vertices == N and g.weighted and np.allclose(g.pagerank(), ranks(edges, N))
        assert np.array_equal(g.sssp(3), distances(edges, [7] * len(edges), N, 3))


def test_names_are_kept(tmp_path):
    (tmp_path / "e.csv").write_text("source,target\nAda,Grace\nGrace,Edsger\nEdsger,Grace\n")
    with fathom.import_graph(tmp_path / "g", tmp_path / "e.csv", names=True, delimiter=",") as g:
        assert g.vertices == 3 and g.has_names
        assert g.name(int(g.pagerank().argmax())) == "Grace"
        assert g.bfs("Ada")[g.vertex("Edsger")] == g.vertex("Grace")
        with pytest.raises(FileNotFoundError):
            g.vertex("Alan")


def test_graphs_in_a_database(tmp_path, edges):
    with fathom.open(tmp_path / "db", memory="16M") as db:
        g = db.build_graph("links", edges, vertices=N)
        assert np.allclose(g.pagerank(), ranks(edges, N))
        assert db.graphs() == ["links"] and db.graph("links") is g
        assert db.memory["arrays"] == 8 << 20
    with fathom.open(tmp_path / "db", readonly=True) as db:
        assert db.graph("links").edges == len(edges)


def test_wrong_edges(tmp_path, edges):
    for wrong in (np.array([[-1, 2]]), np.zeros((2, 3)), (np.arange(3), np.arange(4))):
        with pytest.raises(ValueError):
            fathom.build_graph(tmp_path / "g", wrong)
    with pytest.raises(ValueError):
        fathom.build_graph(tmp_path / "g", edges, weights=[1])
    with pytest.raises(fathom.Error):
        fathom.build_graph(tmp_path / "g", edges, weights=np.full(len(edges), .5))
    (tmp_path / "bad").write_text("1 2\nnonsense here\n")
    with pytest.raises(fathom.Error):
        fathom.import_graph(tmp_path / "g", tmp_path / "bad")
    with pytest.raises(FileNotFoundError):
        fathom.graph(tmp_path / "missing")
    (tmp_path / "other").write_bytes(bytes(8192))
    with pytest.raises(fathom.Error) as e:
        fathom.graph(tmp_path / "other")
    assert e.value.errno == errno.EBADMSG
    assert [p.name for p in tmp_path.iterdir()] == ["bad", "other"] or not (
        tmp_path / "g").exists()
    with fathom.build_graph(tmp_path / "g", edges) as g:
        with pytest.raises(fathom.Error):
            g.bfs(10 ** 6)
    with pytest.raises(ValueError, match="closed"):
        g.pagerank()


def test_control_c_ends_an_algorithm(tmp_path, program):
    """A hundred million iterations do not end by themselves."""
    import signal
    import time
    worker = program("""
        import sys, numpy as np, fathom
        edges = np.random.default_rng(1).integers(0, 100000, (500000, 2))
        g = fathom.build_graph(sys.argv[1], edges, memory="16M")
        print("running", flush=True)
        try:
            g.pagerank(iterations=10 ** 8)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        assert abs(g.pagerank(iterations=3).sum() - 1) < 1e-6
        """, tmp_path / "g")
    worker.wait_for("running")
    time.sleep(.3)
    worker.process.send_signal(signal.SIGINT)
    worker.wait_for("interrupted")
    worker.end()
