"""Time measurements, rows of results, and their drawing.

Measurements run on one core, pinned inside the process before JAX starts its threads (`use_one_core()` first, then
`import jax`), with the default flags of XLA. Absolute times hold for one machine; only ratios between rows of one run are
comparable.
"""

import datetime
import json
import math
import os
import platform
import statistics
import time
from pathlib import Path
from typing import NamedTuple

# Folder of the benchmarks and their results.
FOLDER = Path(__file__).parent
# Nanoseconds in a second.
NS = 1e9
# Shortest time that is measured, in processor seconds: shorter calls are repeated within it.
MIN_SECONDS = 0.02
# Calls that take more processor seconds are measured only once.
LONG_SECONDS = 5.0


def use_one_core():
    """Pin this process and its later threads to one core, on systems that can.

    It is the first core that the process may use: `taskset -c 1 python …` chooses another.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def machine() -> dict:
    """Return date, processor, system, number of cores, and version of Python."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    wide = " with AVX-512" if any("avx512f" in line for line in lines) else ""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "processor": (names[0] if names else platform.processor() or "unknown processor") + wide,
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def cpu_seconds(call, repeats: int = 5, clock=time.process_time) -> float:
    """Return the processor seconds of a call, the median of several measurements after a first call.

    With `clock=time.perf_counter` these are seconds of wall time, for calls that wait for a GPU.
    """
    call()
    begin = clock()
    call()
    once = clock() - begin
    if once > LONG_SECONDS:
        return once
    count, measured = max(1, int(MIN_SECONDS / max(once, 1e-7))), []
    for _ in range(repeats):
        begin = clock()
        for _ in range(count):
            call()
        measured.append((clock() - begin) / count)
    return statistics.median(measured)


def compile_function(function, *args):
    """Return the function compiled for these arguments, and the seconds of tracing and compilation."""
    import jax

    begin = time.perf_counter()
    result = jax.jit(function).lower(*args).compile()
    return result, time.perf_counter() - begin


class Runs(NamedTuple):
    """Seconds of several runs: median and best."""

    median: float
    best: float


class AccuracyRun(NamedTuple):
    """A simulation of known result: number of steps, error, and processor seconds for each motion."""

    steps: int
    error: float
    seconds: float


def measure(function, *args, repeats=5):
    """Return the result of a call, and the `Runs` of several calls after a first one."""
    import jax

    result = jax.block_until_ready(function(*args))
    runs = []
    for _ in range(repeats):
        begin = time.perf_counter()
        result = jax.block_until_ready(function(*args))
        runs.append(time.perf_counter() - begin)
    return result, Runs(statistics.median(runs), min(runs))


def row(name, runs, count, *, kind="other", note="", **more):
    """Return a row: nanoseconds for each of `count` (systems times steps) by the median and the best run, and more columns.

    `kind` is "jaxmbs", "limit" for the handwritten kernel, "jax" or "other", and gives the colour in the plot.
    """
    times = {"ns": NS * runs.median / count, "ns at best": NS * runs.best / count}
    return {"name": name, "kind": kind, **times, **more, "note": note}


def skipped_row(name, reason):
    """Return the row of a case that was not measured, with the reason."""
    return {"name": name, "skipped": str(reason)}


def line_of(entry):
    """Return a row as a line of text."""
    if "skipped" in entry:
        return f"{entry['name']:28} skipped: {entry['skipped']}"
    numbers = {key: value for key, value in entry.items() if isinstance(value, (int, float)) and key != "ns"}
    rest = ", ".join(f"{key} {value:.4g}" for key, value in numbers.items())
    time = f"{entry['ns']:12.1f} ns" if "ns" in entry else ""
    return f"{entry['name']:28} {time:15}   {rest}"


def save(tables, setting, path=FOLDER / "results.json"):
    """Write tables (name → rows) with their setting; tables and rows that were not measured keep their old results.

    Without a `setting` the stored one is kept.
    """
    stored = json.loads(path.read_text()) if path.exists() else {"setting": {}, "tables": {}}
    setting, old = {**(setting or stored["setting"]), **machine()}, stored["tables"]
    for title, rows in tables.items():
        known = {entry["name"]: entry for entry in old.get(title, [])}
        tables[title] = [known.get(entry["name"], entry) if "skipped" in entry else entry for entry in rows]
    tables = {**old, **tables}
    path.write_text(json.dumps({"setting": setting, "tables": tables}, indent=1, ensure_ascii=False) + "\n")


def label(ns):
    """Return a time with three digits and its unit."""
    for unit, scale in (("ns", 1), ("µs", 1e3), ("ms", 1e6)):
        if ns < 999.5 * scale or unit == "ms":
            return f"{ns / scale:.3g} {unit}"


def plot(rows, path=FOLDER / "results.png", *, title="Four-bar: time per system and Runge–Kutta step", below=""):
    """Draw rows as horizontal bars on a logarithmic scale, the fastest on top, without skipped rows."""
    import matplotlib.pyplot as plt

    from jaxmbs.viz import style

    rows = sorted((entry for entry in rows if "skipped" not in entry), key=lambda entry: -entry["ns"])
    if not rows:
        return
    colours = {"jaxmbs": style.ACCENT, "limit": style.PALETTE[2], "jax": style.PALETTE[0]}
    figure, ax = plt.subplots(figsize=(7.5, 1.1 + 0.42 * len(rows)), layout="constrained")
    style.tidy(ax, equal=False)
    ax.grid(False, axis="y")
    values = [entry["ns"] for entry in rows]
    bars = ax.barh(
        [entry["name"] for entry in rows],
        values,
        height=0.62,
        color=[colours.get(entry["kind"], style.GROUND_COLOUR) for entry in rows],
    )
    ax.bar_label(bars, [label(value) for value in values], padding=5, color=style.INK, fontsize=9)
    ax.set_xscale("log")
    ax.set_xlim(10.0 ** math.floor(math.log10(min(values) / 1.5)), max(values) * 4)
    ax.tick_params(axis="y", labelsize=9.5, labelcolor=style.INK)
    ticks = [tick for tick in (10.0**k for k in range(0, 9)) if ax.get_xlim()[0] <= tick <= ax.get_xlim()[1]]
    ax.set_xticks(ticks, [label(tick) for tick in ticks])
    ax.minorticks_off()
    ax.set_title(title, loc="left", fontsize=11, color=style.INK)
    if below:
        ax.set_xlabel(below, fontsize=8, color=style.GROUND_COLOUR, loc="left")
    figure.savefig(path, dpi=150, facecolor=style.PAPER)
    plt.close(figure)
