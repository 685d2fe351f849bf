#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""plot.py [DATA-FOLDER [FIGURE-FOLDER]]: figures out of what benchmarks printed.

Reads every *.json in the data folder (doc/data), a JSON object on each line, and writes into the
figure folder (doc/figures) those figures that there is data for:

  gpu-iops.svg  IOPS over threads and queue pairs, from `fathom bench gpublock --sweep`
  gpu-time.svg  compute, cache and storage of each workload, from `fathom bench gpugraph`

Lines of other benchmarks are passed over. A line that can not be read ends it with exit status 1,
the file and the line, before any figure is written. Needs Python's own library only.
"""
import json
import math
import os
import sys
from xml.sax.saxutils import escape, quoteattr

# Each name: colour on a light page, colour on a dark one. Okabe and Ito's, where kinds differ.
COLOURS = {
    "page": ("#ffffff", "#0d1117"),
    "ink": ("#1f2328", "#e6edf3"),
    "faint": ("#59636e", "#9198a1"),
    "grid": ("#d8dee4", "#30363d"),
    "other": ("#d55e00", "#ff9f5a"),
    "compute": ("#0072b2", "#56a5dc"),
    "cache": ("#e69f00", "#f0b93a"),
    "storage": ("#009e73", "#35c79c"),
    "whole": ("#8c959f", "#6e7681"),
}
# Dark to bright (viridis): for lines that have an order. Ends that the page swallows are left out.
RAMP = "#440154 #472d7b #3b528b #2c728e #21918c #28ae80 #5ec962 #addc30 #fde725".split()
ON_LIGHT, ON_DARK = (0.0, 0.78), (0.3, 1.0)
# Designs other than ours, as `fathom bench gpublock` calls them.
DESIGNS = {"lock": "one lock", "thread": "single threads"}
PARTS = ("compute", "cache", "storage")
NOISE = 0.05  # of a time


class BadData(Exception):
    """What is wrong, with file and line."""


# ---- reading ----


def read_lines(folder):
    """(where, object) for each line of each file."""
    names = sorted(n for n in os.listdir(folder) if n.endswith(".json"))
    if not names:
        raise BadData(f"{folder}: no *.json here")
    for name in names:
        path = os.path.join(folder, name)
        with open(path, "rb") as file:
            for count, text in enumerate(file, 1):
                where = f"{path}:{count}"
                if not text.strip():
                    continue
                try:
                    line = json.loads(text.decode("utf-8"))
                except UnicodeDecodeError:
                    raise BadData(f"{where}: no UTF-8") from None
                except json.JSONDecodeError as error:
                    place = f"{error.msg} at column {error.colno}"
                    raise BadData(f"{where}: no JSON: {place}") from None
                if not isinstance(line, dict) or not isinstance(line.get("bench"), str):
                    raise BadData(f"{where}: no object with the name of a \"bench\"")
                yield where, line


def number(where, line, key, least=0.0):
    value = line.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise BadData(f"{where}: \"{key}\" is missing, or no number")
    if value < least:
        raise BadData(f"{where}: \"{key}\" is {value:g}, less than {least:g}")
    return value


def read_point(where, line, points):
    """A line of a sweep. One that comes again replaces the first."""
    if line.get("block") != 512 or line.get("kind") != "read":
        return
    key = str(line["design"]), number(where, line, "queues", 1)
    points.setdefault(key, {})[number(where, line, "threads", 1)] = {
        "rate": number(where, line, "rate", 1),
        "limit": number(where, line, "limit", 1),
        "gpu": str(line.get("gpu", "GPU")),
    }


def read_bar(where, line, bars):
    """A workload's time. The parts must be all of it."""
    whole = number(where, line, "seconds")
    # Parts are differences of what was measured: a small one may come out below nothing.
    bar = {part: max(number(where, line, part + "_s", -NOISE * whole), 0.0) for part in PARTS}
    if abs(sum(bar.values()) - whole) > 2 * NOISE * whole:
        raise BadData(f"{where}: parts of {sum(bar.values()):g} s do not add up to {whole:g} s")
    if line.get("zero_copy_s") is not None:
        bar["whole"] = number(where, line, "zero_copy_s")
    group = str(line.get("graph", line["bench"]))
    bars.setdefault(group, {})[str(line.get("algorithm", line.get("query", "")))] = bar


def read_cases(where, line, bars):
    """Workloads that are part of one line, where ours and the peer's are their seconds."""
    if not isinstance(line["cases"], list):
        raise BadData(f"{where}: \"cases\" is no array")
    for case in line["cases"]:
        if not isinstance(case, dict):
            raise BadData(f"{where}: a case is no object")
        named = {part + "_s": case.get(part) for part in PARTS}
        named.update(seconds=case.get("ours"), zero_copy_s=case.get("peer"), bench=line["bench"])
        read_bar(where, {**case, **named}, bars)


def read(folder):
    points, bars = {}, {}
    for where, line in read_lines(folder):
        if line["bench"] == "gpublock" and "design" in line:
            read_point(where, line, points)
        elif line["bench"] == "gpugraph" and "cases" in line:
            read_cases(where, line, bars)
        elif "compute_s" in line or (line["bench"] == "gpugraph" and "algorithm" in line):
            read_bar(where, line, bars)
    return points, bars


# ---- drawing ----


def ramp(share):
    """A colour of RAMP, for 0 to 1."""
    at = share * (len(RAMP) - 1)
    i = min(int(at), len(RAMP) - 2)
    ends = [[int(RAMP[i + k][c : c + 2], 16) for c in (1, 3, 5)] for k in (0, 1)]
    mixed = (round(a + (b - a) * (at - i)) for a, b in zip(*ends))
    return "#" + "".join(f"{c:02x}" for c in mixed)


def ordered_colours(n):
    """n colours in order, each for a light and for a dark page."""
    shares = [k / (n - 1) if n > 1 else 0.5 for k in range(n)]
    ends = ON_LIGHT, ON_DARK
    return [tuple(ramp(low + (high - low) * share) for low, high in ends) for share in shares]


class Svg:
    """A drawing whose colours follow the page's. `colours` adds to COLOURS."""

    def __init__(self, width, height, title, colours):
        self.size = width, height
        self.title = title
        self.colours = {**COLOURS, **colours}
        self.body = []

    def add(self, tag, kind, text=None, **attributes):
        """kind: classes. Attributes: numbers are rounded; _ stands for -."""
        words = [tag, f'class="{kind}"']
        for key, value in attributes.items():
            value = f"{value:.1f}" if isinstance(value, float) else str(value)
            words.append(f"{key.replace('_', '-')}={quoteattr(value)}")
        opened = " ".join(words)
        self.body.append(f"<{opened}/>" if text is None else f"<{opened}>{text}</{tag}>")

    def text(self, x, y, text, kind="faint", anchor="start"):
        self.add("text", kind, escape(text), x=float(x), y=float(y), text_anchor=anchor)

    def line(self, x1, y1, x2, y2, kind="line grid"):
        self.add("line", kind, x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2))

    def mark(self, x, y, kind, shape, hover=None):
        """Shape 0: a disc, 1: a square, 2: a square on its tip, and these again."""
        if shape == 0:
            self.add("circle", kind, hover, cx=float(x), cy=float(y), r=3.5)
            return
        turned = {"transform": f"rotate(45 {x:.1f} {y:.1f})"} if shape % 2 == 0 else {}
        self.add("rect", kind, hover, x=x - 3.5, y=y - 3.5, width=7, height=7, **turned)

    def rules(self, page):
        """Classes: each a colour to fill with, or for a line."""
        return "\n".join(
            f".{name}{{fill:{colour[page]}}} .line.{name}{{stroke:{colour[page]};fill:none}}"
            for name, colour in self.colours.items()
        )

    def style(self):
        return f"""
text{{font:13px system-ui,sans-serif}} .head{{font-weight:600;font-size:15px}}
.line{{stroke-width:1}}
.series{{stroke-width:2;stroke-linejoin:round}} .dash{{stroke-dasharray:5 4}}
{self.rules(0)}
@media (prefers-color-scheme:dark){{
{self.rules(1)}
}}
"""

    def write(self, path):
        width, height = self.size
        size = f'width="{width}" height="{height}"'
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {size}'
            f' role="img">\n<title>{escape(self.title)}</title>\n<style>{self.style()}</style>\n'
            f'<rect class="page" {size} rx="6"/>\n'
        )
        # Whole or not at all.
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(head + "\n".join(self.body) + "\n</svg>\n")
        os.replace(path + ".new", path)


def thousands(n):
    return f"{n / 1024:g} K" if n >= 1024 else f"{n:g}"


def nice_step(top, steps=5):
    """A step of 1, 2 or 5 times a power of ten that divides [0, top] into about that many."""
    raw = top / steps
    power = 10.0 ** math.floor(math.log10(raw))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)


# ---- IOPS over threads ----


def log_ticks(low, high):
    """1, 2 and 5 times powers of ten that are inside."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = (m * 10.0**p for p in powers for m in (1, 2, 5))
    return [tick for tick in ticks if low <= tick <= high]


class IopsAxes:
    """Both axes are logarithmic."""

    left, top, right, bottom = 60, 64, 580, 400

    def __init__(self, svg, points):
        threads = [t for series in points.values() for t in series]
        all_points = [p for series in points.values() for p in series.values()]
        rates = [p["rate"] for p in all_points]
        self.limit = max(p["limit"] for p in all_points)
        self.threads = min(threads), max(max(threads), 2 * min(threads))
        self.rates = min(rates) / 1.3, max(rates + [self.limit]) * 1.5
        self.svg = svg

    def at(self, value, span, first, last):
        share = math.log(value / span[0]) / math.log(span[1] / span[0])
        return first + share * (last - first)

    def x(self, threads):
        return self.at(threads, self.threads, self.left + 12, self.right - 12)

    def y(self, rate):
        return self.at(rate, self.rates, self.bottom, self.top)

    def draw(self):
        svg = self.svg
        for rate in log_ticks(*self.rates):
            svg.line(self.left, self.y(rate), self.right, self.y(rate))
            svg.text(self.left - 8, self.y(rate) + 4.5, f"{rate / 1e6:g}", anchor="end")
        threads = self.threads[0]
        while threads <= self.threads[1]:
            svg.line(self.x(threads), self.bottom, self.x(threads), self.bottom + 5, "line faint")
            svg.text(self.x(threads), self.bottom + 20, thousands(threads), anchor="middle")
            threads *= 2
        svg.line(self.left, self.bottom, self.right, self.bottom, "line faint")
        svg.text((self.left + self.right) / 2, self.bottom + 42, "GPU threads", anchor="middle")
        svg.text(14, self.top - 14, "million reads per second")
        self.draw_limit(self.y(self.limit))

    def draw_limit(self, y):
        name = f"the same blocks copied with no queue: {self.limit / 1e6:.1f}"
        self.svg.line(self.left, y, self.right, y, "line ink dash limit")
        self.svg.text(self.left + 4, y - 7, name, "ink")


def draw_series(svg, axes, series, kind, name, shape):
    """Shape 0 is ours; the others are dashed."""
    in_order = sorted(series.items())
    at = [(axes.x(threads), axes.y(p["rate"])) for threads, p in in_order]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
    svg.add("polyline", f"line series {kind}" + (" dash" if shape else ""), points=path)
    for (x, y), (threads, p) in zip(at, in_order):
        told = f"{name}, {thousands(threads)} threads: {p['rate'] / 1e6:.3g} M/s"
        svg.mark(x, y, f"point {kind}", shape, f"<title>{escape(told)}</title>")


def draw_key(svg, x, y, kind, name, shape):
    svg.line(x, y, x + 26, y, f"line series {kind}" + (" dash" if shape else ""))
    svg.mark(x + 13, y, kind, shape)
    svg.text(x + 34, y + 4.5, name, "ink")


def series_of(points):
    """(key, class, name, shape): ours with the most queue pairs first, as the lines lie."""
    ours = sorted(key for key in points if key[0] == "warp")
    others = sorted(key for key in points if key[0] != "warp")
    named = []
    for i, key in enumerate(ours):
        named.append((key, f"pairs{i}", f"{key[1]:g} queue pair" + "s" * (key[1] != 1), 0))
    named.reverse()
    for i, key in enumerate(others):
        name = DESIGNS.get(key[0], key[0])
        named.append((key, "other", f"{name}, {key[1]:g} pair" + "s" * (key[1] != 1), i + 1))
    return named


def draw_iops(points, path):
    series = series_of(points)
    colours = ordered_colours(sum(shape == 0 for *_, shape in series))
    gpu = next(iter(points[series[0][0]].values()))["gpu"]
    title = f"512-byte random reads by GPU threads, {gpu}"
    svg = Svg(775, 460, title, {f"pairs{i}": c for i, c in enumerate(colours)})
    svg.text(14, 27, title, "ink head")
    axes = IopsAxes(svg, points)
    axes.draw()
    y = axes.top + 8
    for key, kind, name, shape in series:
        draw_series(svg, axes, points[key], kind, name, shape)
        y += 12 * (shape == 1)  # a gap before those that are not ours
        draw_key(svg, axes.right + 20, y, kind, name, shape)
        y += 22
    svg.write(path)


# ---- where time goes ----


def unit(bar):
    """What a workload's bars are measured in: zero copy's time; where there is none, its own."""
    return bar.get("whole") or sum(bar[part] for part in PARTS) or 1.0


def duration(seconds):
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


class TimeAxes:
    left, top, bottom = 60, 88, 330
    bar, gap, between = 22, 14, 34  # widths: of a bar, between workloads, between groups
    letter = 7

    def __init__(self, bars):
        all_bars = [b for group in bars.values() for b in group.values()]
        self.most = max(max(sum(b[p] for p in PARTS) / unit(b), 1.0) for b in all_bars)
        self.step = nice_step(self.most)
        self.high = self.step * math.ceil(self.most / self.step - 1e-9)
        self.width = sum(self.group_width(g) for g in bars.values()) + self.between * len(bars)
        self.right = max(self.left + self.width, 470)

    def bars_width(self, bar):
        return self.bar * (2 if "whole" in bar else 1)

    def slot(self, name, bar):
        """The width of a workload: of its bars and how long it took, or of its name."""
        return max(self.bars_width(bar) + 2 * self.gap, self.letter * len(name))

    def group_width(self, group):
        slots = sum(self.slot(name, bar) for name, bar in group.items())
        return slots + self.gap * (len(group) - 1)

    def y(self, share):
        return self.bottom - share / self.high * (self.bottom - self.top)

    def draw(self, svg):
        for k in range(round(self.high / self.step) + 1):
            y = self.y(k * self.step)
            svg.line(self.left, y, self.right, y, "line faint" if k == 0 else "line grid")
            svg.text(self.left - 8, y + 4.5, f"{k * self.step:.10g}", anchor="end")
        svg.text(14, self.top - 14, "of zero copy's time")


def draw_part(svg, axes, x, kind, name, begin, end, one):
    """From `begin` to `end` seconds; `one` of them are as high as 1."""
    hover = f"<title>{escape(name)}: {end - begin:.3g} s</title>"
    top, height = axes.y(end / one), axes.y(begin / one) - axes.y(end / one)
    svg.add("rect", f"bar {kind}", hover, x=x + 1.0, y=top, width=axes.bar - 2, height=height)


def draw_bar(svg, axes, x, bar, name):
    """Ours, in parts from below, and the whole of zero copy beside it; above, how long ours took."""
    done, one = 0.0, unit(bar)
    for part in PARTS:
        draw_part(svg, axes, x, part, f"{name}, {part}", done, done + bar[part], one)
        done += bar[part]
    middle, top = x + axes.bars_width(bar) / 2, axes.y(max(done / one, 1.0))
    svg.text(middle, top - 6, duration(done), "ink", anchor="middle")
    if "whole" in bar:
        draw_part(svg, axes, x + axes.bar, "whole", f"{name}, zero copy", 0.0, bar["whole"], one)


def draw_groups(svg, axes, bars):
    x = axes.left + axes.between / 2
    for group, members in bars.items():
        middle = x + axes.group_width(members) / 2
        svg.text(middle, axes.bottom + 44, group, "ink", anchor="middle")
        for name, bar in members.items():
            slot = axes.slot(name, bar)
            draw_bar(svg, axes, x + (slot - axes.bars_width(bar)) / 2, bar, f"{group}, {name}")
            svg.text(x + slot / 2, axes.bottom + 20, name, anchor="middle")
            x += slot + axes.gap
        x += axes.between - axes.gap


def draw_time(bars, path):
    axes = TimeAxes(bars)
    title = "Where the time of workloads on a GPU goes"
    svg = Svg(round(axes.right) + 20, 400, title, {})
    svg.text(14, 27, title, "ink head")
    axes.draw(svg)
    draw_groups(svg, axes, bars)
    keys = [(part, part) for part in PARTS]
    if any("whole" in bar for members in bars.values() for bar in members.values()):
        keys.append(("whole", "zero copy from host memory, all of it"))
    x = axes.left
    for kind, name in keys:
        svg.add("rect", kind, x=float(x), y=42.0, width=12, height=12)
        svg.text(x + 18, 52.5, name, "ink")
        x += 36 + axes.letter * len(name)
    svg.write(path)


# ---- the command ----


def main(arguments):
    if len(arguments) > 2 or any(a.startswith("-") for a in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    data, figures = (arguments + ["doc/data", "doc/figures"][len(arguments) :])[:2]
    try:
        points, bars = read(data)
        if not points and not bars:
            raise BadData(f"{data}: nothing to make a figure of")
        os.makedirs(figures, exist_ok=True)
        todo = ("gpu-iops.svg", points, draw_iops), ("gpu-time.svg", bars, draw_time)
        for name, found, draw in todo:
            if found:
                draw(found, os.path.join(figures, name))
                print(os.path.join(figures, name))
    except BadData as error:
        print(f"plot: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"plot: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
