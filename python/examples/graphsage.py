#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Trains a GraphSAGE model from node features that stay in a file, through fathom.gpu.

A made-up graph: nodes of 8 classes, edges mostly within a class, features that are noise around the
mean of the class. The features are never in memory as a whole; each step samples neighbours on the
GPU and gathers the rows that it needs. Needs torch with a GPU and torch_geometric.
"""
import argparse
import os
import tempfile

import numpy as np
import torch
from torch_geometric.nn import SAGEConv

import fathom.gpu

CLASSES = 8


class Sage(torch.nn.Module):
    def __init__(self, width, hidden=64):
        super().__init__()
        self.first, self.second = SAGEConv(width, hidden), SAGEConv(hidden, CLASSES)

    def forward(self, x, edges):
        return self.second(self.first(x, edges).relu(), edges)


def make_features(path, labels, width, rng):
    means = rng.normal(size=(CLASSES, width))
    file = np.lib.format.open_memmap(path, "w+", "f4", (len(labels), width))
    for start in range(0, len(labels), 65536):
        part = labels[start:start + 65536]
        file[start:start + 65536] = means[part] + 4 * rng.normal(size=(len(part), width))
    file.flush()


def make_neighbours(labels, degree, rng):
    """degree neighbours for each node: nine of ten of its class."""
    by_class = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[by_class], np.arange(CLASSES + 1))
    low, high = starts[labels], starts[labels + 1]
    same = by_class[rng.integers(low[:, None], high[:, None], (len(labels), degree))]
    other = rng.integers(0, len(labels), (len(labels), degree))
    return np.where(rng.random((len(labels), degree)) < 0.9, same, other)


def sample(neighbours, seeds):
    """The nodes within two hops of the seeds, seeds first, and the edges among them."""
    hop = neighbours[seeds]
    sources, targets = [hop.reshape(-1)], [seeds.repeat_interleave(hop.shape[1])]
    middle = torch.unique(sources[0])
    hop = neighbours[middle]
    sources.append(hop.reshape(-1))
    targets.append(middle.repeat_interleave(hop.shape[1]))
    every = torch.unique(torch.cat([seeds, *sources]))
    rest = every[~torch.isin(every, seeds)]
    nodes = torch.cat([seeds, rest])
    place = torch.empty(len(neighbours), dtype=torch.int64, device=nodes.device)
    place[nodes] = torch.arange(len(nodes), device=nodes.device)
    return nodes, torch.stack([place[torch.cat(sources)], place[torch.cat(targets)]])


def train(features, neighbours, labels, steps, batch):
    model = Sage(features.shape[1]).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    right = []
    for step in range(steps):
        seeds = torch.randperm(len(labels), device="cuda")[:batch]
        nodes, edges = sample(neighbours, seeds)
        scores = model(features[nodes], edges)[:len(seeds)]
        loss = torch.nn.functional.cross_entropy(scores, labels[seeds])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right.append((scores.argmax(1) == labels[seeds]).float().mean().item())
        if step % 10 == 0:
            print("step %3d  loss %.3f  right %.2f" % (step, loss.item(), right[-1]))
    return sum(right[-5:]) / len(right[-5:])


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--nodes", type=int, default=200_000)
    options.add_argument("--width", type=int, default=256)
    options.add_argument("--memory", default="32M", help="GPU memory for features")
    options.add_argument("--steps", type=int, default=60)
    options = options.parse_args()
    rng = np.random.default_rng(1)
    labels = rng.integers(0, CLASSES, options.nodes)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "features.npy")
        make_features(path, labels, options.width, rng)
        neighbours = torch.from_numpy(make_neighbours(labels, 8, rng)).cuda()
        with fathom.gpu.load(path, memory=options.memory) as features:
            right = train(features, neighbours, torch.from_numpy(labels).cuda(), options.steps, 512)
            print("%d nodes, %d MiB of features, %s of GPU memory for them: %.2f right, %d MiB read"
                  % (options.nodes, os.path.getsize(path) >> 20, options.memory, right,
                     features.bytes_read >> 20))
    if right < 0.8:
        raise SystemExit("the model learned nothing: %.2f right" % right)


if __name__ == "__main__":
    main()
