#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Random rows of a file into a CUDA tensor: fathom.gpu beside a loader over numpy.memmap.

The loader is torch's DataLoader with 8 workers, each with its own memmap, and a copy to the GPU.
The maps have MADV_RANDOM. `host` is fathom.load(), which reads the same rows into host memory. The
page cache is dropped before each run, which needs root. Each run checks every row that it moved,
outside of the time that is measured. Ends with one line of JSON.
"""
import argparse
import json
import mmap
import os
import tempfile
import time

import numpy as np
import torch

import fathom
import fathom.gpu


def make_file(path, rows, width):
    """Row i is i, i + 1, ... modulo 2^24, as float32."""
    file = np.lib.format.open_memmap(path, "w+", "f4", (rows, width))
    steps = np.arange(width)
    for start in range(0, rows, 16384):
        numbers = np.arange(start, min(start + 16384, rows))[:, None]
        file[start:start + 16384] = (numbers + steps) % (1 << 24)
    file.flush()
    del file
    os.sync()


def drop_caches():
    with open("/proc/sys/vm/drop_caches", "w") as file:
        file.write("3")


def check_batch(ids, batch):
    wanted = (ids[:, None] + torch.arange(batch.shape[1], device=ids.device)) % (1 << 24)
    if not torch.equal(batch, wanted.float()):
        raise SystemExit("wrong rows")


def run_fathom(path, batches, memory):
    with fathom.gpu.load(path, memory=memory) as rows:
        out = torch.empty(batches.shape[1], rows.shape[1], device="cuda")
        rows.take(batches[0][:1].contiguous(), out=out[:1])
        spent = 0.0
        for ids in batches:
            began = time.perf_counter()
            rows.take(ids, out=out)
            spent += time.perf_counter() - began
            check_batch(ids, out)
    return spent


class MapRows(torch.utils.data.Dataset):
    def __init__(self, path, batches):
        self.path, self.batches, self.map = path, batches, None

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, i):
        if self.map is None:
            self.map = np.load(self.path, mmap_mode="r")
            self.map._mmap.madvise(mmap.MADV_RANDOM)
        return torch.from_numpy(self.map[self.batches[i]])


def run_loader(path, batches):
    data = MapRows(path, batches.cpu().numpy())
    loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=8, pin_memory=True)
    spent, began = 0.0, time.perf_counter()
    for ids, batch in zip(batches, loader):
        batch = batch.cuda()
        torch.cuda.synchronize()
        spent += time.perf_counter() - began
        check_batch(ids, batch)
        began = time.perf_counter()
    return spent


def run_host(path, batches, memory):
    """The same rows into host memory, by fathom.load()."""
    with fathom.load(path, memory=memory) as rows:
        out = np.empty((batches.shape[1], rows.shape[1]), "f4")
        spent = 0.0
        for ids in batches.cpu().numpy():
            began = time.perf_counter()
            rows.take(ids, out=out)
            spent += time.perf_counter() - began
            check_batch(torch.from_numpy(ids), torch.from_numpy(out))
    return spent


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", type=int, default=2_000_000)
    options.add_argument("--row", type=int, default=4096, help="bytes of a row")
    options.add_argument("--batch", type=int, default=4096)
    options.add_argument("--batches", type=int, default=40)
    options.add_argument("--memory", default="256M")
    options.add_argument("--folder")
    options = options.parse_args()
    torch.manual_seed(1)
    batches = torch.randint(options.rows, (options.batches, options.batch), device="cuda")
    count = options.batches * options.batch
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = os.path.join(folder, "rows.npy")
        make_file(path, options.rows, options.row // 4)
        rates = {}
        for name, run in (("loader", lambda: run_loader(path, batches)),
                          ("ours", lambda: run_fathom(path, batches, options.memory)),
                          ("host", lambda: run_host(path, batches, options.memory))):
            drop_caches()
            rates[name] = count / run()
            print("%-7s %10.0f rows/s, %7.1f MB/s"
                  % (name, rates[name], rates[name] * options.row / 1e6), flush=True)
    print(json.dumps({"bench": "python-gpu", "ours": round(rates["ours"]),
                      "peer": round(rates["loader"]),
                      "ratio": round(rates["ours"] / rates["loader"], 2),
                      "host": round(rates["host"]), **vars(options)}))


if __name__ == "__main__":
    main()
