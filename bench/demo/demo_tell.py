# SPDX-License-Identifier: BSD-2-Clause
"""What the demo prints: scenes of rows with bars, 80 columns wide at most, or the same as JSON."""
import sys

import bench_cli

NAME_WIDTH, FIGURE_WIDTH, BAR_WIDTH = 35, 14, 24
# The unit in JSON; the head of a column of figures; whether the longer bar is the better one.
PER_SECOND, SECONDS, MICROSECONDS = ("1/s", None, True), ("s", "seconds", False), ("us", "us", False)


class Row:
    """value None: not measured, and the note says why."""

    def __init__(self, name, value=None, ours=False, note=None):
        self.name, self.value, self.ours, self.note = name, value, ours, note


def number_text(value):
    """Three digits or so."""
    if value >= 1e6:
        return "%.1f M" % (value / 1e6)
    if value >= 1e4:
        return "%.0f K" % (value / 1e3)
    return "%.*f" % (0 if value >= 100 else 1 if value >= 10 else 2, value)


class Teller:
    def __init__(self, options):
        self.json, self.smallest, self.seed = options.json, options.smallest, options.seed
        self.scenes, self.scene, self.wrong = {}, None, 0

    def say(self, text):
        bench_cli.progress_end()
        if not self.json:
            print(text, flush=True)

    def begin(self, key, title, text):
        """A scene: its key in JSON, a title and a sentence or two."""
        self.scene = self.scenes[key] = {"title": title, "rows": [], "checked": 0, "wrong": 0}
        self.say("\n%s%d. %s%s\n\n%s" % (bench_cli.style(sys.stdout, "1"), len(self.scenes), title,
                                        bench_cli.style(sys.stdout, "0"), text))

    def bars(self, what, unit, rows):
        """A group of rows. `what` is counted or done."""
        name, head, longer = unit
        for row in rows:
            self.scene["rows"].append({"name": row.name, "what": what, "unit": name, "value": row.value or 0,
                                       "ours": row.ours, "note": row.note})
        self.say("\n  %-*s %*s  %s" % (NAME_WIDTH, "" if longer else what, FIGURE_WIDTH, what + "/s" if longer else head,
                                       "(longer is better)" if longer else "(shorter is better)"))
        most = max(row.value or 0 for row in rows)
        for row in rows:
            length = max(round((row.value or 0) / most * BAR_WIDTH), 1) if row.value else 0
            self.say("  %s%-*s %*s  %s%s" % (bench_cli.style(sys.stdout, "1") if row.ours else "", NAME_WIDTH, row.name,
                                             FIGURE_WIDTH, number_text(row.value) if row.value else "-", row.note or "#" * length,
                                             bench_cli.style(sys.stdout, "0") if row.ours else ""))

    def end(self, checked, what, wrong=0):
        """What was checked in the scene."""
        self.scene.update(checked=checked, wrong=wrong)
        self.wrong += wrong
        if wrong:
            self.say("\n  %s%d of %d %s WRONG%s" % (bench_cli.style(sys.stdout, "31"), wrong, checked, what,
                                                   bench_cli.style(sys.stdout, "0")))
        else:
            self.say("\n  %d %s checked, all right." % (checked, what))

    def close(self):
        self.scene = None
