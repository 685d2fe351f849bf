# SPDX-License-Identifier: BSD-2-Clause
"""The graph of a benchmark, in a file: one that the user names and keeps, or one of its own."""
import json
import os

import bench_process
from bench_cli import Failed, Option, Usage

THREADS_MAX = 256
OPTIONS = [
    Option("file", "string", None, "a graph, kept; made if it is not there; default: a temporary one"),
    Option("dir", "string", None, "folder for temporary files; default TMPDIR or /tmp"),
    Option("scale", "number", 22, "2^N vertices", 4, 31),
    Option("degree", "number", 16, "edges drawn per vertex", 1, 4096),
    Option("seed", "number", 1, "of the graph and of where to begin"),
    Option("threads", "number", 0, "0: one per CPU", 0, THREADS_MAX),
]


class GraphFile:
    """with GraphFile(options) as graph: reads what the file is, or draws a Kronecker graph into a new one; removes a temporary
    file, and after a failure also one that was made under the user's name."""

    def __init__(self, options):
        self.options, self.made = options, False
        self.folder = bench_process.scratch_folder(options.dir)
        self.path = options.file or "%s/fathom-graph-%d.data" % (self.folder, os.getpid())
        if any(letter in self.path for letter in "%?&()"):
            raise Usage("%s: the path must not contain %%, ?, &, ( or )" % self.path)

    def __enter__(self):
        try:
            if not os.path.exists(self.path):
                self.draw()
            command = [bench_process.find_fathom(), "--json", "graph", "stat", self.path]
            self.info = json.loads(bench_process.run(command).text)
            if not self.info["undirected"]:
                raise Failed("%s: the graph must be undirected" % self.path)
        except BaseException:
            self.remove(True)
            raise
        return self

    def __exit__(self, kind, *_):
        self.remove(kind is not None)

    def draw(self):
        options, self.made = self.options, True
        bench_process.run([bench_process.find_fathom(), "graph", "generate", "--scale", options.scale, "--degree",
                           options.degree, "--seed", options.seed, "--threads", options.threads, "--memory", "1G", "--scratch",
                           self.folder, self.path])

    def remove(self, failed):
        if self.made and (failed or not self.options.file):
            bench_process.remove(self.path)

    def pick(self, count):
        """Vertices to begin searches at, by the seed."""
        command = bench_process.driver("graph", "--file", self.path, "--pick", count, "--seed", self.options.seed)
        return json.loads(bench_process.run(command).text)["sources"]

    def edge_bytes(self):
        return self.info["edges"] * 4

    def copy_serialized(self, target):
        """As GAPBS serializes a graph (.sg): a byte that says whether it is directed, the numbers of edges and vertices,
        offsets, neighbours."""
        info = self.info
        with open(self.path, "rb") as source, open(target, "xb") as out:
            out.write(bytes([not info["undirected"]]))
            out.write(info["edges"].to_bytes(8, "little") + info["vertices"].to_bytes(8, "little"))
            for at, length in ((info["offsets_at"], 8 * (info["vertices"] + 1)), (info["edges_at"], self.edge_bytes())):
                source.seek(at)
                while length:
                    piece = source.read(min(length, 1 << 20))
                    if not piece:
                        raise Failed("%s ends early" % self.path)
                    out.write(piece)
                    length -= len(piece)


def check_threads(options):
    options.threads = options.threads or os.cpu_count()
