# SPDX-License-Identifier: BSD-2-Clause
"""fathom.gpu: rows as tensors where a GPU and torch are, a clear error where they are not."""
import errno
import os

import numpy as np
import pytest

import fathom
import fathom.gpu


def find_torch():
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


torch = find_torch()
needs_gpu = pytest.mark.skipif(torch is None, reason="no torch with a GPU")


@pytest.fixture
def features(tmp_path):
    data = np.random.default_rng(1).normal(size=(5000, 100)).astype("f4")
    np.save(tmp_path / "features.npy", data)
    return tmp_path / "features.npy", data


def test_bad_arguments_come_before_the_gpu(tmp_path):
    with pytest.raises(FileNotFoundError):
        fathom.gpu.load(tmp_path / "missing.npy")
    with pytest.raises(ValueError):
        fathom.gpu.load(tmp_path / "raw", shape=(2, 2))
    np.save(tmp_path / "text.npy", np.array(["a", "b"]))
    with pytest.raises(TypeError, match="GPU tensors"):
        fathom.gpu.load(tmp_path / "text.npy")


@pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="there is a GPU")
def test_no_gpu_is_an_error(features):
    with pytest.raises(fathom.Error) as e:
        fathom.gpu.load(features[0])
    assert e.value.errno == errno.EOPNOTSUPP


@needs_gpu
def test_rows_are_those_of_numpy(features):
    path, data = features
    with fathom.gpu.load(path, memory="1M") as g:
        assert len(g) == 5000 and g.shape == (5000, 100) and g.dtype == np.float32
        for size in (1, 33, 20000):
            ids = torch.randint(-5000, 5000, (size,), device="cuda")
            assert np.array_equal(g[ids].cpu().numpy(), data[ids.cpu().numpy()])
        ids = torch.arange(6, device="cuda").reshape(2, 3)
        assert np.array_equal(g[ids].cpu().numpy(), data[np.arange(6).reshape(2, 3)])
        out = torch.empty(6, 100, device="cuda")
        assert g.take(ids.reshape(6), out=out) is out
        assert g[torch.empty(0, dtype=torch.int64, device="cuda")].shape == (0, 100)
        assert g.bytes_read > 0


@needs_gpu
def test_other_streams(features):
    path, data = features
    with fathom.gpu.load(path, memory="4M") as g:
        ids = torch.randint(5000, (4096,), device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(torch.cuda.Stream()):
            rows = g.take(ids, wait=False)
            total = rows.double().sum()
            g.check()
        assert np.isclose(total.item(), data[ids.cpu().numpy()].astype("f8").sum())


@needs_gpu
def test_errors(features):
    with fathom.gpu.load(features[0], memory="4M") as g:
        with pytest.raises(IndexError, match="index 1 "):
            g[torch.tensor([0, 5000], device="cuda")]
        assert g[torch.tensor([0], device="cuda")].shape == (1, 100)
        for ids in (torch.tensor([0]), np.arange(3), [1, 2]):
            with pytest.raises(TypeError):
                g[ids]
        with pytest.raises(TypeError, match="type"):
            g[torch.tensor([0], dtype=torch.int32, device="cuda")]
        with pytest.raises(ValueError, match="contiguous"):
            g[torch.arange(8, device="cuda")[::2]]
        with pytest.raises(ValueError, match="shape"):
            g.take(torch.arange(8, device="cuda"), out=torch.empty(7, 100, device="cuda"))
    with pytest.raises(fathom.Error) as e:
        g[torch.tensor([0], device="cuda")]
    assert e.value.errno == errno.EBADF


@needs_gpu
def test_cupy(features):
    cupy = pytest.importorskip("cupy")
    path, data = features
    with fathom.gpu.load(path, memory="4M") as g:
        ids = cupy.arange(100, 200)
        assert np.array_equal(g[ids].get(), data[100:200])
