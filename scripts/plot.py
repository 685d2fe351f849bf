#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""plot.py [DATA-FOLDER [FIGURE-FOLDER]]: figures out of what benchmarks printed.

Reads every *.json in the data folder (doc/data), a JSON object on each line, and writes into the
figure folder (doc/figures) those figures that there is data for:

  gpu-iops.svg  IOPS over threads and queue pairs, from `fathom bench gpublock --sweep`
  gpu-time.svg  compute, cache and storage of each workload, from `fathom bench gpugraph`
  pm-logs.svg   logs of GPU threads by size of entry, from `fathom bench gpupm`
  pm-work.svg   GPM's workloads against persistence by the CPU, from `fathom bench pmwork`
  pm-cpu.svg    logs and transactions of the CPU against peers, from `fathom bench pm`

Lines of other benchmarks are passed over. A line that cannot be read ends it with exit status 1,
the file and the line, before any figure is written. Needs Debian's python3-matplotlib; the same
data gives the same bytes.
"""
import json
import math
import os
import sys

# Okabe and Ito's colours, which differ for colour-blind readers too.
COLOURS = {"compute": "#0072b2", "cache": "#e69f00", "storage": "#009e73", "zero copy": "#8c959f"}
OTHER = "#d55e00"
MARKERS = "osD^v"
# Designs other than ours, as `fathom bench gpublock` calls them.
DESIGNS = {"lock": "one lock", "thread": "single threads"}
PARTS = ("compute", "cache", "storage")
NOISE = 0.05  # of a time
# Members of a line, and what the legend calls them.
LOGS = {
    "plain_gbs": "plain stores",
    "hcl_gbs": "HCL log",
    "gpm_gbs": "GPM's conventional log",
    "conventional_gbs": "conventional log",
}
WORK = {
    "mapped": "CPU persists, mapped memory",
    "file": "CPU persists, file",
    "cpu_threads": "16 CPU threads do all of it",
}
SERIES = ("#8c959f", "#0072b2", "#e69f00", "#009e73")


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


def read_groups(where, line, key, series, groups):
    """A group of bars: one line of the members of `series`. One that comes again replaces the first."""
    if not isinstance(line[key], (int, str)):
        raise BadData(f"{where}: \"{key}\" is neither a number nor a name")
    groups[str(line[key])] = [number(where, line, name) for name in series]


def read_ratios(where, line, ratios):
    """Cases of one line, each with what it is, its peer and the ratio to that."""
    if not isinstance(line["cases"], list):
        raise BadData(f"{where}: \"cases\" is no array")
    for case in line["cases"]:
        if not isinstance(case, dict):
            raise BadData(f"{where}: a case is no object")
        name = f"{case.get('what', '')} ({case.get('peer_name', '')})"
        ratios[name] = number(where, case, "ratio")


def read(folder):
    points, bars, logs, work, ratios = {}, {}, {}, {}, {}
    for where, line in read_lines(folder):
        if line["bench"] == "gpublock" and "design" in line:
            read_point(where, line, points)
        elif line["bench"] == "gpugraph" and "cases" in line:
            read_cases(where, line, bars)
        elif line["bench"] == "gpupm" and "entry" in line:
            read_groups(where, line, "entry", LOGS, logs)
        elif line["bench"] == "pmwork" and "workload" in line:
            read_groups(where, line, "workload", WORK, work)
        elif line["bench"] == "pm" and "cases" in line:
            read_ratios(where, line, ratios)
        elif "compute_s" in line or (line["bench"] == "gpugraph" and "algorithm" in line):
            read_bar(where, line, bars)
    return points, bars, logs, work, ratios


# ---- drawing ----

SETTINGS = {
    "svg.hashsalt": "fathom",  # ids that are the same each time
    "svg.fonttype": "none",  # text stays text
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid.axis": "y",
    "axes.grid": True,
    "grid.color": "#d8dee4",
    "axes.axisbelow": True,
    "legend.frameon": False,
}


def load_matplotlib():
    """It takes a while: not before there is something to draw."""
    global pyplot, ticker
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update(SETTINGS)
    from matplotlib import pyplot, ticker


def save(figure, path):
    """Whole or not at all; without a date."""
    figure.savefig(path + ".new", format="svg", metadata={"Date": None}, bbox_inches="tight")
    pyplot.close(figure)
    os.replace(path + ".new", path)


def plural(n, what):
    return f"{n:g} {what}" + "s" * (n != 1)


def draw_iops(points, path):
    figure, axes = pyplot.subplots(figsize=(7.5, 4.6))
    ours = sorted((key for key in points if key[0] == "warp"), reverse=True)
    others = sorted(key for key in points if key[0] != "warp")
    colours = pyplot.get_cmap("viridis").resampled(len(ours) + 1)
    for i, key in enumerate(ours + others):
        threads, at = zip(*sorted(points[key].items()))
        rates = [point["rate"] / 1e6 for point in at]
        if key[0] == "warp":
            name = plural(key[1], "queue pair")
            style = {"color": colours(len(ours) - 1 - i), "marker": MARKERS[0]}
        else:
            name = f"{DESIGNS.get(key[0], key[0])}, " + plural(key[1], "pair")
            style = {"color": OTHER, "marker": MARKERS[1 + (i - len(ours)) % 4], "ls": "--"}
        (line,) = axes.plot(threads, rates, label=name, markersize=4.5, linewidth=1.6, **style)
        line.set_gid(f"series-{key[0]}-{key[1]:g}")
    limit = max(point["limit"] for series in points.values() for point in series.values()) / 1e6
    axes.axhline(limit, color="black", linestyle=":", linewidth=1.2).set_gid("limit")
    axes.annotate(
        f"the same blocks copied with no queue: {limit:.1f}",
        (0.01, limit),
        xycoords=("axes fraction", "data"),
        xytext=(0, 4),
        textcoords="offset points",
    )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.margins(y=0.12)
    axes.xaxis.set_major_locator(ticker.LogLocator(base=2, numticks=20))
    axes.xaxis.set_major_formatter(lambda n, _: f"{n / 1024:g} K" if n >= 1024 else f"{n:g}")
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5), numticks=20))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(ticker.NullLocator())
    axes.set_xlabel("GPU threads")
    axes.set_ylabel("million reads per second")
    gpu = next(iter(points[(ours + others)[0]].values()))["gpu"]
    axes.set_title(f"512-byte random reads by GPU threads, {gpu}", loc="left", fontsize=11)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.02))
    save(figure, path)


def duration(seconds):
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def draw_time(bars, path):
    """Ours in parts, zero copy beside it, in units of zero copy's time; above, the time of ours."""
    workloads = [(group, name, bar) for group, all in bars.items() for name, bar in all.items()]
    groups = [group for group, _, _ in workloads]
    places = [i + 0.7 * list(bars).index(group) for i, group in enumerate(groups)]
    units = [bar.get("whole") or sum(bar[part] for part in PARTS) or 1.0 for *_, bar in workloads]
    figure, axes = pyplot.subplots(figsize=(max(0.85 * places[-1] + 1.6, 5), 4.2))
    tops = [0.0] * len(workloads)
    for part in PARTS:
        shares = [bar[part] / unit for (*_, bar), unit in zip(workloads, units)]
        left = [x - 0.2 for x in places]
        drawn = axes.bar(left, shares, 0.38, tops, color=COLOURS[part], label=part)
        for rectangle, (group, name, _) in zip(drawn, workloads):
            rectangle.set_gid(f"bar-{group}-{name}-{part}")
        tops = [top + share for top, share in zip(tops, shares)]
    whole = [(x, w) for x, w in zip(places, workloads) if "whole" in w[2]]
    if whole:
        right, label = [x + 0.2 for x, _ in whole], "zero copy from host memory, all of it"
        drawn = axes.bar(right, 1, 0.38, color=COLOURS["zero copy"], label=label)
        for rectangle, (_, (group, name, _)) in zip(drawn, whole):
            rectangle.set_gid(f"bar-{group}-{name}-zero-copy")
    offset = {"textcoords": "offset points", "ha": "center"}
    for x, top, unit in zip(places, tops, units):
        axes.annotate(duration(top * unit), (x, max(top, 1)), (0, 3), **offset)
    axes.set_xticks(places, [name for _, name, _ in workloads])
    for group in bars:
        mine = [x for x, g in zip(places, groups) if g == group]
        at, below = (sum(mine) / len(mine), 0), ("data", "axes fraction")
        axes.annotate(group, at, (0, -32), below, weight="bold", **offset)
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel("share of zero copy's time")
    title = "Where the time of workloads on a GPU goes (above: time through the cache)"
    axes.set_title(title, loc="left", fontsize=11, pad=30)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, columnspacing=1.2, handlelength=1)
    save(figure, path)


def draw_groups(axes, groups, series, colours):
    """Bars side by side, a group for each name."""
    width = 0.8 / len(series)
    for i, (name, label) in enumerate(series.items()):
        places = [x + (i - (len(series) - 1) / 2) * width for x in range(len(groups))]
        heights = [group[i] for group in groups.values()]
        drawn = axes.bar(places, heights, 0.92 * width, color=colours[i], label=label)
        for rectangle, group in zip(drawn, groups):
            rectangle.set_gid(f"bar-{group}-{name}")
    axes.set_xticks(range(len(groups)), list(groups))
    axes.tick_params(axis="x", length=0)


def draw_logs(logs, path):
    figure, axes = pyplot.subplots(figsize=(6.5, 3.8))
    draw_groups(axes, {f"{name} B": logs[name] for name in logs}, LOGS, SERIES)
    axes.set_ylabel("GB/s of payload")
    title = "Entries that a million GPU threads log in host memory"
    axes.set_title(title, loc="left", fontsize=11, pad=44)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, columnspacing=1.2, handlelength=1)
    save(figure, path)


def draw_work(work, path):
    figure, axes = pyplot.subplots(figsize=(8.5, 4))
    draw_groups(axes, work, WORK, SERIES[1:])
    axes.axhline(1, color="black", linestyle=":", linewidth=1.2).set_gid("limit")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylabel("time, in units of kernels that persist")
    title = "GPM's workloads: how much longer a step takes without persistence by kernels"
    axes.set_title(title, loc="left", fontsize=11, pad=24)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, columnspacing=1.2, handlelength=1)
    save(figure, path)


def draw_ratios(ratios, path):
    figure, axes = pyplot.subplots(figsize=(7, 0.32 * len(ratios) + 0.9))
    names = list(ratios)[::-1]
    heights = [ratios[name] for name in names]
    colours = [SERIES[1] if height >= 1 else OTHER for height in heights]
    drawn = axes.barh(range(len(names)), heights, 0.7, color=colours)
    for i, (rectangle, height) in enumerate(zip(drawn, heights)):
        rectangle.set_gid(f"bar-{len(names) - 1 - i}")
        axes.annotate(f"{height:.2f}", (height, i), (3, 0), textcoords="offset points", va="center")
    axes.axvline(1, color="black", linestyle=":", linewidth=1.2).set_gid("limit")
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("operations per second, in units of the peer's")
    axes.set_title("Persistence from CPU threads against peers", loc="left", fontsize=11)
    save(figure, path)


# ---- the command ----


def main(arguments):
    if len(arguments) > 2 or any(a.startswith("-") for a in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    data, figures = (arguments + ["doc/data", "doc/figures"][len(arguments) :])[:2]
    try:
        found_all = read(data)
        if not any(found_all):
            raise BadData(f"{data}: nothing to make a figure of")
        load_matplotlib()
        os.makedirs(figures, exist_ok=True)
        todo = (
            ("gpu-iops.svg", draw_iops),
            ("gpu-time.svg", draw_time),
            ("pm-logs.svg", draw_logs),
            ("pm-work.svg", draw_work),
            ("pm-cpu.svg", draw_ratios),
        )
        for (name, draw), found in zip(todo, found_all):
            if found:
                draw(found, os.path.join(figures, name))
                print(os.path.join(figures, name))
    except BadData as error:
        print(f"plot: {error}", file=sys.stderr)
        return 1
    except ImportError as error:
        print(f"plot: {error}; Debian has it as python3-matplotlib", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"plot: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
