# SPDX-License-Identifier: BSD-2-Clause
"""Results of the benchmarks that are scripts: medians, and the line of JSON."""
import json
import math
import statistics


def median(values):
    return statistics.median(values) if values else 0


def finite(value):
    """JSON has no infinity: null. Whole numbers have no point, as those that C prints."""
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(inner) for inner in value]
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() else value


def over(a, b):
    return a / b if b else math.inf


class Rounds:
    """What alternating runs of both sides gave."""

    def __init__(self):
        self.ours_runs, self.peer_runs = [], []

    def add(self, ours, peer):
        self.ours_runs.append(ours)
        self.peer_runs.append(peer)

    @property
    def ours(self):
        return median(self.ours_runs)

    @property
    def peer(self):
        return median(self.peer_runs)

    @property
    def ratio(self):
        return over(self.ours, self.peer)

    def members(self):
        return {"ours": self.ours, "peer": self.peer, "ratio": self.ratio, "ours_runs": self.ours_runs,
                "peer_runs": self.peer_runs}


def print_json(bench, ours, peer, ratio, **parameters):
    """The last line of standard output."""
    line = {"bench": bench, "ours": ours, "peer": peer, "ratio": ratio, **parameters}
    print(json.dumps(finite(line), separators=(",", ":")))
