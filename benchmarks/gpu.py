"""Everything that a GPU has to prove, in one command: `python benchmarks/gpu.py [--seconds 540] [--only words]`.

First the checks: each case as a kernel on the GPU against the same case on the CPU, its status, its gap, its gradient. Then
the speed: steps per second for batches from 2¹⁰ to 2²⁰, beside the same programs as elementwise XLA, and the four-bar in
textbook JAX. Writes the section "On a GPU" of gpu.md, and gpu.png; what there is no time for is left out, and named.

`--host` runs all of it on a CPU with small batches, the kernels thread by thread: it tests this script, and measures
nothing. It needs the package, without a network: `pip install --no-deps .` on an image that has JAX.
"""

import argparse
import sys
import time
import traceback
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import jax.numpy as jnp
import models
import numpy as np
import textbook
from gpu_cases import CASES, STEP, STEPS
from page import write
from timing import measure

import jaxmbs as mbs
from jaxmbs.programs.jax_compat import default_platform
from jaxmbs.programs.primitive import emission

FOLDER = Path(__file__).parent
CHECKED = 1000  # samples that are compared with the CPU's
SIZES = tuple(2**k for k in range(10, 21, 2))
# Agreement with the CPU, relative to the largest number: the order of sums differs by what is fused.
CLOSE = {np.float64: 1e-10, np.float32: 1e-3}
GAP = {np.float64: 1e-10, np.float32: 1e-4}


class Setting(NamedTuple):
    """Which emission runs as a kernel, sizes of batches, samples that are checked, when to end, and words of cases."""

    kernel: str
    sizes: tuple[int, ...]
    checked: int
    end: float
    only: list[str] | None

    @property
    def seconds_left(self):
        return self.end - time.monotonic()


def batched(function, name):
    """A new jitted function over a batch, whose programs run by an emission."""
    inner = jax.jit(lambda *args: jax.vmap(function)(*args))

    def run(*args):
        with emission(name):
            return inner(*args)

    return run


def kinds():
    """(name, case, dtype) of all that is run."""
    for name, case in CASES.items():
        for dtype in (np.float64, np.float32) if case.single else (np.float64,):
            yield name, case, dtype


def checked(setting, name, case, dtype):
    """The largest difference between kernels and CPU over the largest number, the gap, and whether both are small enough;
    an error if statuses differ."""
    function, batch = case.make(dtype)
    args = batch(setting.checked)
    found = jax.block_until_ready(batched(function, setting.kernel)(*args))
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        expected = batched(function, "llvm")(*jax.device_put(args, jax.local_devices(backend="cpu")[0]))
    differences = []
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype.kind != "f":
            assert (a == b).all(), f"{(a != b).sum()} statuses differ"
        else:
            differences.append(float(np.max(np.abs(a - b)) / np.max(np.abs(b))))
    gap = _gap(found[0], args[0]) if case.closes else None
    good = max(differences) <= CLOSE[dtype] and (gap is None or gap <= GAP[dtype])
    return max(differences), gap, good


def _gap(q, designs):
    residual = lambda b, q: mbs.constraints(models.four_bar(b), q)
    return float(np.max(np.abs(np.asarray(jax.jit(jax.vmap(residual))(designs, q)))))


def speeds(setting, case, dtype, name):
    """Seconds of the first call, and (batch, steps per second, bytes at most) for the sizes that there is time for."""
    function, batch = case.make(dtype)
    run, first, found, last = batched(function, name), None, [], 0.0
    for size in setting.sizes:
        # The next size may take as much longer as it is larger.
        if size > case.largest or setting.seconds_left < 60 + 5 * last:
            break
        args = jax.block_until_ready(batch(size))
        begin = time.perf_counter()
        jax.block_until_ready(run(*args))
        first = first or time.perf_counter() - begin
        begin = time.perf_counter()
        _, runs = measure(run, *args, repeats=3)
        last = time.perf_counter() - begin
        memory = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0)
        found.append((size, size * case.steps / runs.median, memory))
        if last > 20:
            break
    return first, found


def textbook_speed(setting):
    """Steps per second of dense equations with `jnp.linalg.solve`, in float64, at the smallest batch."""
    size = setting.sizes[0]
    designs = models.four_bar_batch(size, 0.05)
    start = jax.vmap(lambda b: mbs.assemble(models.four_bar(b), models.four_bar_guess(b, 1.0)).q)(designs)
    run = jax.jit(jax.vmap(lambda b, q: textbook.rollout(models.four_bar(b), q, jnp.zeros_like(q), STEP, STEPS)[0]))
    _, runs = measure(run, designs, start, repeats=1)
    return size, size * STEPS / runs.median


def checks_table(setting):
    """Lines of the table of checks."""
    lines = ["| case | type | difference from the CPU | gap, m | |", "|---|---|---|---|---|"]
    for name, case, dtype in kinds():
        if setting.only and not any(word in name for word in setting.only):
            continue
        jax.config.update("jax_enable_x64", dtype == np.float64)
        try:
            difference, gap, good = checked(setting, name, case, dtype)
            cells = [f"{difference:.1e}", "" if gap is None else f"{gap:.1e}", "agrees" if good else "**differs**"]
        except Exception as error:
            traceback.print_exc()
            cells = ["", "", f"**failed**: {type(error).__name__}: {str(error).splitlines()[0][:200]}"]
        lines.append(f"| {name} | {np.dtype(dtype).name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return lines


def speed_table(setting):
    """Lines of the table of speeds, and the curves for the picture."""
    head = [
        "case",
        "type",
        "code",
        "first call, s",
        *(f"2^{size.bit_length() - 1}" for size in setting.sizes),
        "MB at most",
    ]
    lines, curves = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"], {}
    for code in (setting.kernel, "xla"):
        for name, case, dtype in kinds():
            if setting.only and not any(word in name for word in setting.only):
                continue
            if setting.seconds_left < 60 or (code == "xla" and (dtype == np.float32 or case.steps > STEPS)):
                continue
            jax.config.update("jax_enable_x64", dtype == np.float64)
            try:
                first, found = speeds(setting, case, dtype, code)
            except Exception as error:
                traceback.print_exc()
                lines.append(
                    f"| {name} | {np.dtype(dtype).name} | {code} | **failed**: {str(error).splitlines()[0][:200]} |"
                )
                continue
            if not found:
                continue
            speed = {size: rate for size, rate, _ in found}
            cells = [f"{speed[size]:.2e}" if size in speed else "" for size in setting.sizes]
            kind = "kernel" if code == setting.kernel else "XLA"
            curves[f"{name}, {np.dtype(dtype).name}, {kind}"] = found
            memory = f"{max(x[2] for x in found) / 1e6:.0f}"
            lines.append(f"| {' | '.join([name, np.dtype(dtype).name, kind, f'{first:.1f}', *cells, memory])} |")
            print(lines[-1], flush=True)
    return lines, curves


def draw(curves, path):
    """Steps per second over the size of the batch, kernels and XLA."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    colours = {}
    for label, found in curves.items():
        name, kind = label.rsplit(", ", 1)
        colour = colours.setdefault(name, f"C{len(colours) % 10}")
        sizes, rates, _ = zip(*found, strict=True)
        axes.loglog(sizes, rates, "o-" if kind == "kernel" else "x:", color=colour, label=label, markersize=4)
    axes.set_xlabel("samples of the batch")
    axes.set_ylabel("steps per second")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, ncols=2, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.12))
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=540, help="when to stop measuring")
    parser.add_argument("--only", nargs="*", help="words of the cases; nothing is written then")
    parser.add_argument("--host", action="store_true", help="small batches on a CPU, to test the script")
    options = parser.parse_args()
    platform = default_platform()
    if not options.host and platform != "cuda":
        sys.exit(f"JAX computes on {platform} here; --host tests this script without a GPU")
    end = time.monotonic() + options.seconds
    setting = Setting("llvm", SIZES, CHECKED, end, options.only)
    if options.host:
        setting = setting._replace(kernel="gpu-on-host", sizes=(4, 16), checked=5)
    device = jax.devices()[0]
    print(f"{device.device_kind}, JAX {jax.__version__}", flush=True)
    checks = checks_table(setting)
    table, curves = speed_table(setting)
    jax.config.update("jax_enable_x64", True)
    more = []
    if setting.seconds_left > 60:
        size, rate = textbook_speed(setting)
        more = [
            "",
            f"Textbook JAX (dense, `jnp.linalg.solve`, float64), four-bar, batch of {size}: {rate:.2e} steps per second.",
        ]
        print(more[-1])
    if options.only or options.host:
        return
    draw(curves, FOLDER / "gpu.png")
    where = f"{device.device_kind}, JAX {jax.__version__}, {CHECKED} samples checked"
    intro = f"{where}. Steps per second by the size of the batch:"
    write("On a GPU", [*checks, "", intro, "", *table, *more, "", "![steps per second](gpu.png)"])


if __name__ == "__main__":
    main()
