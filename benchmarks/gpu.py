"""All checks and measurements on a GPU: `python benchmarks/gpu.py [--seconds 540] [--only words]`.

First the checks, each in its own process and all at once: a case as a kernel on the GPU against the CPU, with status and
gap. Then the speed, one case after the other: steps per second for batches from 2¹⁰ to 2²⁰, beside some programs as
elementwise XLA, a chain in MJX if that is installed, and the four-bar in textbook JAX. Programs that take minutes to
compile do so while kernels are measured. Writes the section "On a GPU" of gpu.md, and its pictures; cases without time left
are named. `--draw` draws the pictures from the numbers of the page, on any machine.

`--host` runs all of it on a CPU with small batches, the kernels thread by thread: it tests this script and measures
nothing. It needs only the package: `pip install --no-deps .` on an image that has JAX.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
# Parallel checks share the memory of the GPU.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import matplotlib as mpl
import models
import numpy as np
import textbook
from gpu_cases import CASES, STEP, STEPS
from matplotlib.figure import Figure
from page import PAGE, write
from timing import measure

import jaxmbs as mbs
from jaxmbs.programs import default_platform, emission
from jaxmbs.viz import style

# Folder of the benchmarks.
FOLDER = Path(__file__).parent
# Batch sizes at which kernels are measured.
SIZES = tuple(2**k for k in range(10, 21, 2))
# Batch sizes at which code is measured that compiles for minutes, once for each size.
SLOW_SIZES = SIZES[0], 2**16
# A check fails above this difference from the CPU, relative to the largest number. Fusion changes the order of sums.
MAX_DIFFERENCE = {"float64": 1e-10, "float32": 1e-3}
# A check fails above this largest |Φ| of four-bars (m).
MAX_GAP = {"float64": 1e-10, "float32": 1e-4}
# Name of the emission as elementwise XLA.
XLA = "xla"
# Words in tables for names of emissions that are not shown as they are.
CODES = {XLA: "XLA"}
# Elementwise XLA or another simulator is stopped if it compiles for longer than this many seconds.
MAX_COMPILE_SECONDS = 240
# No larger batch is measured after a run of this many seconds.
MAX_RUN_SECONDS = 2
# Text of the cell of a case that failed.
FAILED = "**failed**"


# Lines of the page with its pictures.
PICTURES = (
    "How large a batch has to be, float64:", "", "![Steps per second over the size of the batch](gpu_batch.png)", "",
    "The two precisions:", "", "![Steps per second in float64 and float32](gpu_precision.png)", "",
    "Gradients:", "", "![Steps per second of runs, and of value and gradient](gpu_gradients.png)", "",
    "Other code:", "", "![Steps per second of kernels, of elementwise XLA and of MJX](gpu_other_code.png)",
)  # fmt: skip


class Setting(NamedTuple):
    """Options of a run.

    Attributes:
        kernel: emission that runs as a kernel.
        sizes: sizes of batches.
        slow_sizes: sizes of batches of code that compiles for minutes.
        end: time to stop, of `time.monotonic`.
        only: words in the names of the cases to run, or None.
    """

    kernel: str
    sizes: tuple[int, ...]
    slow_sizes: tuple[int, ...]
    end: float
    only: list[str] | None

    @property
    def check_size(self):
        """Number of samples of a check, the smallest batch size."""
        return self.sizes[0]

    @property
    def seconds_left(self):
        """Return the seconds until the time limit of the run."""
        return self.end - time.monotonic()

    def kinds(self):
        """Yield (name, type, code) of all runs: first kernels, then the code that is compared with them."""
        chosen = {
            name: case for name, case in CASES.items() if not self.only or any(word in name for word in self.only)
        }
        for name, case in chosen.items():
            yield from ((name, dtype, self.kernel) for dtype in ("float64", *["float32"] * case.single))
        for name, case in chosen.items():
            yield from ((name, dtype, other) for other in case.others for dtype in ("float64", "float32"))
        yield from ((name, "float64", XLA) for name, case in chosen.items() if case.compared)

    def sizes_of(self, code):
        """Return the batch sizes at which code of a kind is measured."""
        return self.sizes if code == self.kernel else self.slow_sizes


def function_and_batch(name, dtype, code):
    """Return the function of a batch of a case by this code, and the function from a size to a batch."""
    case = CASES[name]
    function, batch = case.others.get(code, case.make)(np.dtype(dtype).type)
    return batch_function(function, "llvm" if code in case.others else code), batch


def batch_function(function, name):
    """Return a new jitted function over a batch whose programs run by an emission."""
    inner = jax.jit(lambda *args: jax.vmap(function)(*args))

    def run(*args):
        """Return the results for a batch, computed with the emission chosen."""
        with emission(name):
            return inner(*args)

    return run


def check(name, dtype, code, samples, *other_sizes):
    """Return seconds of the first call, largest relative difference from the CPU, and gap; fail if a status differs.

    Other sizes are compiled too, for the cache on disk.
    """
    case = CASES[name]
    function, batch = function_and_batch(name, dtype, code)
    args = batch(samples)
    begin = time.perf_counter()
    found = jax.block_until_ready(function(*args))
    first = time.perf_counter() - begin
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        reference = function_and_batch(name, dtype, "llvm")[0]
        expected = reference(*jax.device_put(args, jax.local_devices(backend="cpu")[0]))
    differences = []
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype.kind != "f":
            assert (a == b).all(), f"{(a != b).sum()} statuses differ"
        else:
            differences.append(float(np.max(np.abs(a - b)) / np.max(np.abs(b))))
    for size in other_sizes:
        jax.block_until_ready(function(*batch(size)))
    return {"first": first, "difference": max(differences), "gap": _gap(found[0], args[0]) if case.closes else None}


def _gap(q, designs):
    """Return the largest |Φ| of four-bars."""
    residual = lambda b, q: mbs.constraints(models.four_bar(b), q)
    return float(np.max(np.abs(np.asarray(jax.jit(jax.vmap(residual))(designs, q)))))


def checks(setting, pool):
    """Run `check` for each kind in its own process; return a future of its result or error for each kind."""

    def run(kind):
        """Return the dict that `check` returns in its own process, or one with the text of its error."""
        kernel = kind[2] == setting.kernel
        sizes = setting.sizes[:1] if kernel else setting.slow_sizes
        command = [sys.executable, __file__, "--check", *kind, *map(str, sizes)]
        limit = min(setting.seconds_left, math.inf if kernel else MAX_COMPILE_SECONDS)
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=max(1.0, limit))
        except subprocess.TimeoutExpired:
            return {"error": f"not compiled in {limit:.0f} s"}
        if done.returncode != 0:
            print(done.stderr[-3000:], file=sys.stderr)
            return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1][:200]}
        return json.loads(done.stdout.splitlines()[-1])

    return {kind: pool.submit(run, kind) for kind in setting.kinds()}


def checks_table(found, kernel):
    """Return the lines of the table of checks."""
    lines = ["| case | type | difference from the CPU | gap, m | |", "|---|---|---|---|---|"]
    for (name, dtype, code), future in found.items():
        if code != kernel:
            continue
        result = future.result()
        if "error" in result:
            cells = ["", "", f"{FAILED}: {result['error']}"]
        else:
            difference, gap = result["difference"], result["gap"]
            good = difference <= MAX_DIFFERENCE[dtype] and (gap is None or gap <= MAX_GAP[dtype])
            cells = [f"{difference:.1e}", "" if gap is None else f"{gap:.1e}", "agrees" if good else "**differs**"]
        lines.append(f"| {name} | {dtype} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return lines


def speeds(setting, name, dtype, code):
    """Return (batch, steps per second, peak bytes) for all sizes within the time limit."""
    case = CASES[name]
    run, batch = function_and_batch(name, dtype, code)
    found, median = [], 0.0
    for size in setting.sizes_of(code):
        # The time of four runs of the next size grows at most with the size.
        if size > case.largest or setting.seconds_left < 10 + 4 * 4 * median or median > MAX_RUN_SECONDS:
            break
        args = jax.block_until_ready(batch(size))
        try:
            _, (median, _) = measure(run, *args, repeats=3)
        except jax.errors.JaxRuntimeError as error:  # no memory is left
            print(name, size, str(error).splitlines()[0], file=sys.stderr)
            break
        memory = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0)
        found.append((size, size * case.steps / median, memory))
    return found


def textbook_speed(setting):
    """Return the smallest batch, and its steps per second by dense equations with `jnp.linalg.solve` in float64."""
    size = setting.sizes[0]
    designs = models.four_bar_batch(size, 0.05)
    start = jax.vmap(lambda b: mbs.assemble(models.four_bar(b), models.four_bar_guess(b, 1.0)).q)(designs)
    run = jax.jit(jax.vmap(lambda b, q: textbook.rollout(models.four_bar(b), q, jnp.zeros_like(q), STEP, STEPS)[0]))
    _, runs = measure(run, designs, start, repeats=1)
    return size, size * STEPS / runs.median


def speed_table(setting, checked):
    """Return the lines of the table of speeds, and the measurements of each kind."""
    powers = [f"2^{size.bit_length() - 1}" for size in setting.sizes]
    head = ["case", "type", "code", "first call, s", *powers, "MB at most"]
    lines, measured, peak = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"], {}, 0
    for kind in setting.kinds():
        name, dtype, code = kind
        row = [name, dtype, "kernel" if code == setting.kernel else CODES.get(code, code)]
        result = checked[kind].result()
        if "error" in result or setting.seconds_left < 15:
            lines.append(f"| {' | '.join(row)} | {result.get('error', 'no time left')} |")
            continue
        jax.config.update("jax_enable_x64", dtype == "float64")
        try:
            measured[kind] = found = speeds(setting, *kind)
        except Exception as error:
            traceback.print_exc()
            lines.append(f"| {' | '.join(row)} | {FAILED}: {str(error).splitlines()[0][:200]} |")
            continue
        speed = {size: rate for size, rate, _ in found}
        cells = [f"{speed[size]:.2e}" if size in speed else "" for size in setting.sizes]
        # The peak is that of all cases so far, so it is shown only if it grows.
        before, peak = peak, max((x[2] for x in found), default=0)
        memory = f"{peak / 1e6:.0f}" if peak > before else ""
        first = f"{result['first']:.1f}"
        lines.append(f"| {' | '.join([*row, first, *cells, memory])} |")
        print(lines[-1], flush=True)
    return lines, measured


def ratios(setting, measured, checked):
    """Return lines with the cost of gradients relative to their runs, and of other code relative to kernels."""
    at = {kind: {size: rate for size, rate, _ in found} for kind, found in measured.items()}
    lines = []
    for (name, dtype, code), rates in at.items():
        whole = at.get((name.removesuffix(", gradient"), dtype, code), {})
        common = max(set(rates) & set(whole), default=None)
        if name.endswith(", gradient") and common:
            times = whole[common] / rates[common]
            lines.append(f"- {name}: {times:.1f} times the run without gradient, {common} samples")
        kernels = at.get((name, dtype, setting.kernel), {})
        for common in sorted(set(rates) & set(kernels)) if code != setting.kernel else ():
            times, other = kernels[common] / rates[common], "elementwise XLA" if code == XLA else code
            difference = checked[name, dtype, code].result()["difference"]
            lines.append(
                f"- {name}, {dtype}: the kernel is {times:.0f} times as fast as {other}, {common} samples; "
                f"they differ by {difference:.0e}"
            )
    return lines


def speeds_of_page():
    """Return {(case, type, code): {batch: steps per second}} from the table of speeds of the page."""
    found, sizes = {}, []
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[:4] == ["case", "type", "code", "first call, s"]:
            sizes = [2 ** int(cell[2:]) for cell in cells[4:-1]]
        elif sizes and len(cells) == len(sizes) + 5 and not cells[0].startswith("-"):
            rates = zip(sizes, cells[4:-1], strict=True)
            found[tuple(cells[:3])] = {size: float(rate) for size, rate in rates if rate}
    return found


def draw():
    """Draw the speeds of the page: by the size of the batch, by precision, of gradients, and beside other code."""
    speeds = speeds_of_page()
    draw_batches(speeds, FOLDER / "gpu_batch.png")
    cases = dict.fromkeys(
        name for name, dtype, code in speeds if (name, "float32", code) in speeds and code == "kernel"
    )
    pairs = {shown(name): [(name, dtype, "kernel") for dtype in ("float64", "float32")] for name in cases}
    draw_pairs(speeds, pairs, ("float64", "float32"), FOLDER / "gpu_precision.png")
    gradients = [name.removesuffix(", gradient") for name, *_ in speeds if name.endswith(", gradient")]
    pairs = {shown(name): [(name + more, "float64", "kernel") for more in ("", ", gradient")] for name in gradients}
    draw_pairs(speeds, pairs, ("run", "value and gradient"), FOLDER / "gpu_gradients.png")
    others = [kind for kind in speeds if kind[2] != "kernel"]
    pairs = {
        f"{shown(name)}\n{code}, {dtype}": [(name, dtype, "kernel"), (name, dtype, code)]
        for name, dtype, code in others
    }
    draw_pairs(speeds, pairs, ("kernel", "other code"), FOLDER / "gpu_other_code.png")


def draw_batches(speeds, path):
    """Draw steps per second over the size of the batch, of kernels in float64."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    kept = [name for name, dtype, code in speeds if dtype == "float64" and code == "kernel"]
    kept = [name for name in kept if "1,000 steps" not in name and "gradient" not in name]
    for k, name in enumerate(kept):
        rates = speeds[name, "float64", "kernel"]
        axes.loglog(rates.keys(), rates.values(), "o-", color=style.colour_of(k), markersize=5)
        end = max(rates), rates[max(rates)]
        # The two fastest curves end close to each other.
        shift = {"four-bar, Augmented": 5, "kinematics": -5}.get(name, 0)
        axes.annotate(
            shown(name), end, (8, shift), textcoords="offset points", va="center", fontsize=9, color=style.INK
        )
    axes.set_xlim(800, 5e7)
    axes.set_xticks(SIZES, [f"$2^{{{size.bit_length() - 1}}}$" for size in SIZES])
    axes.minorticks_off()
    axes.set(xlabel="samples of the batch", ylabel="steps per second")
    style.tidy(axes, equal=False)
    figure.savefig(path, dpi=150)


def draw_pairs(speeds, pairs, names, path):
    """Draw the two speeds of each pair of kinds of runs at their largest common batch, and the ratio of the speeds."""
    figure = Figure(figsize=(7, 1.0 + 0.42 * len(pairs)), layout="constrained")
    axes = figure.subplots()
    labels = []
    for k, (label, kinds) in enumerate(pairs.items()):
        first, second = (speeds[kind] for kind in kinds)
        size = max(set(first) & set(second))
        labels.append(f"{label}, $2^{{{size.bit_length() - 1}}}$ samples")
        rates = first[size], second[size]
        axes.plot(rates, (k, k), color=style.GROUND_COLOUR, linewidth=1.5, zorder=1)
        for place, rate in enumerate(rates):
            name = names[place] if k == 0 else None
            axes.plot(rate, k, "o", color=style.colour_of(place), markersize=9, label=name)
        ratio = max(rates) / min(rates)
        text = f"{ratio:.1f} ×" if ratio < 10 else f"{ratio:.0f} ×"
        middle = math.sqrt(rates[0] * rates[1])
        axes.annotate(text, (middle, k), (0, 4), textcoords="offset points", ha="center", fontsize=9, color=style.INK)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.6)
    axes.set_xscale("log")
    axes.margins(x=0.1)
    axes.xaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda rate, _: power_of_ten(rate)))
    axes.xaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1, 3)))
    axes.minorticks_off()
    axes.set_xlabel("steps per second")
    axes.legend(frameon=False, fontsize=9, ncols=2, loc="lower right", bbox_to_anchor=(1, 1))
    style.tidy(axes, equal=False)
    axes.grid(False, axis="y")
    figure.savefig(path, dpi=150)


def power_of_ten(number):
    """Return a positive number with one digit as mathematical text, such as 3·10⁸."""
    exponent = math.floor(math.log10(number) + 1e-9)
    digit = round(number / 10**exponent)
    return f"$10^{{{exponent}}}$" if digit == 1 else f"${digit}·10^{{{exponent}}}$"


def shown(name):
    """Return the name of a case as pictures show it."""
    whole = name if name.startswith(("four-bar", "Bricard", "spatial", "five-bar")) else f"four-bar, {name}"
    return whole.replace("joint coordinates", "JointCoordinates").replace(", 1,000 steps", "")


def main():
    """Run the command line: check and measure all cases, and write the page and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=540, help="time limit")
    parser.add_argument("--only", nargs="*", help="words in the names of cases; writes no files")
    parser.add_argument("--host", action="store_true", help="small batches on a CPU, to test the script")
    parser.add_argument("--draw", action="store_true", help="only draw the pictures, from the numbers of the page")
    parser.add_argument("--check", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.check:
        name, dtype, code, *sizes = options.check
        mbs.enable_cache()
        jax.config.update("jax_enable_x64", dtype == "float64")
        print(json.dumps(check(name, dtype, code, *map(int, sizes))))
        return
    if options.draw:
        draw()
        return
    end = time.monotonic() + options.seconds
    setting = Setting("llvm", SIZES, SLOW_SIZES, end, options.only)
    if options.host:
        setting = setting._replace(kernel="gpu-on-host", sizes=(4, 16), slow_sizes=(4,))
    elif default_platform() != "cuda":
        sys.exit(f"JAX computes on {default_platform()} here; --host tests this script without a GPU")
    with tempfile.TemporaryDirectory() as cache, ThreadPoolExecutor(os.cpu_count()) as pool:
        # Measurements use the programs that the checks have compiled.
        os.environ["JAXMBS_CACHE"] = cache
        mbs.enable_cache()
        checked = checks(setting, pool)
        checks_lines = checks_table(checked, setting.kernel)
        table, measured = speed_table(setting, checked)
        more = ratios(setting, measured, checked)
        jax.config.update("jax_enable_x64", True)
        if setting.seconds_left > 20:
            size, rate = textbook_speed(setting)
            textbook_name = "textbook JAX (dense, `jnp.linalg.solve`, float64), four-bar"
            more.append(f"- {textbook_name}, {size} samples: {rate:.2e} steps per second")
    print("\n".join(more))
    if options.only or options.host:
        return
    where = f"{jax.devices()[0].device_kind}, JAX {jax.__version__}"
    intro = f"{where}, {setting.check_size} samples of each case beside the CPU:"
    speed = (
        "Steps per second by the size of the batch (first calls: all checks at once, on the processors of one machine):"
    )
    write("On a GPU", [intro, "", *checks_lines, "", speed, "", *table, "", *more, "", *PICTURES])
    draw()


if __name__ == "__main__":
    main()
