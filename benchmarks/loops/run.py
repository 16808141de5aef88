"""Benchmark of closed loops: `python benchmarks/loops/run.py [--only jaxmbs MuJoCo …] [--models …] [--batches 1 64 4096]`.

Each tool simulates each mechanism in a process of its own, on one core, compiled before it is timed. Writes results.json
and README.md beside this file; results that are not measured again are kept. `--wheels FOLDER` first installs the wheels
of a folder, joined if they are in parts `name.whl.part0`, ….
"""

import argparse
import importlib
import importlib.metadata
import json
import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import timing  # noqa: E402
from benchmarks.loops import export, page  # noqa: E402

# File of the results.
RESULTS = Path(__file__).parent / "results.json"
# Error of the places of the bodies at the end, relative to the size of the mechanism, that each tool has to reach.
WANTED_ERROR = 1e-4
# Default limit on the wall time of a tool with one mechanism (s).
MAX_SECONDS = 600.0
# Variants of tools: module and class by name.
VARIANTS = {
    "jaxmbs, joint coordinates": ("tools", "JaxmbsJoints"),
    "jaxmbs, augmented": ("tools", "JaxmbsAugmented"),
    "MuJoCo, RK4": ("tools", "MuJoCoRK4"),
    "MuJoCo, implicitfast": ("tools", "MuJoCoImplicit"),
    "MJX": ("tools", "MJX"),
    "MuJoCo Warp": ("tools_gpu", "Warp"),
    "Newton, Kamino": ("tools_gpu", "Kamino"),
    "Pinocchio": ("tools", "Pinocchio"),
    "Exudyn": ("tools", "Exudyn"),
}
# Names of the mechanisms; those of `models.CASES`, which this process does not import.
MECHANISMS = ("four-bar", "slider-crank", "Stewart platform", "Delta robot", "wobble pump", "walker")


def variant(name: str):
    """Return the class of a variant."""
    module, kind = VARIANTS[name]
    return getattr(importlib.import_module(f"benchmarks.loops.{module}"), kind)


def measure(name: str, mechanism: str, batches) -> None:
    """Measure a variant with a mechanism in this process, and print results as lines of JSON while they come in."""
    import numpy as np

    facts, kind = export.facts(mechanism), variant(name)
    on_gpu = runs_on_gpu(kind.platform)
    clock = time.perf_counter if on_gpu else time.process_time
    if not on_gpu:
        timing.use_one_core()
    final = np.array(facts["final"])[:, :3]
    tool = kind(mechanism)
    report = lambda **found: print("RESULT " + json.dumps(found), flush=True)
    report(settings=tool.settings, version=importlib.metadata.version(tool.package))
    for count, steps in enumerate(tool.step_counts):
        run = tool.prepare(steps, 1)
        poses = run()
        if not count:
            report(**{"first call s": time.process_time()})
        error = float(np.abs(poses[:, :3] - final).max() / facts["size"])
        if error < WANTED_ERROR or steps == tool.step_counts[-1]:
            break
    report(steps=steps, error=error if np.isfinite(error) else None, poses=poses.tolist())
    for batch in batches:
        if batch <= tool.largest_batch:
            run = run if batch == 1 else tool.prepare(steps, batch)
            seconds = timing.cpu_seconds(run, clock=clock)
            report(**{f"steps per s, batch {batch}": batch * steps / seconds, "peak MB": peak_megabytes()})
    if hasattr(tool, "gradient"):
        report(**{"gradient s": timing.cpu_seconds(tool.gradient(steps), 3, clock)})


def runs_on_gpu(platform: str) -> bool:
    """Return True if a tool with this `platform` computes on a GPU, where processor seconds are no measure."""
    if platform != "jax":
        return platform == "gpu"
    import jax

    return jax.default_backend() != "cpu"


def peak_megabytes() -> float:
    """Return the largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def command_of(name: str, mechanism: str, batches) -> list[str]:
    """Return the command of the process that measures a variant with a mechanism."""
    return [sys.executable, __file__, "--measure", name, mechanism, "--batches", *map(str, batches)]


def result_of(name: str, mechanism: str, batches, seconds: float = MAX_SECONDS) -> dict:
    """Return the results of a variant with a mechanism from a process of its own, or the reason why there are none."""
    command = command_of(name, mechanism, batches)
    environment = os.environ | {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    found, text = {}, ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=environment)
        text, reason = done.stdout, "" if not done.returncode else last_line(done.stderr)
    except subprocess.TimeoutExpired as error:
        text, reason = (error.stdout or b"").decode(), f"stopped after {seconds:g} s"
    for line in text.splitlines():
        if line.startswith("RESULT "):
            found |= json.loads(line.removeprefix("RESULT "))
    if "poses" in found:
        found["gap"] = relative_gap(mechanism, found.pop("poses"))
    missing = re.match(r"ModuleNotFoundError: No module named '([\w.]+)'", reason)
    if missing:
        reason = f"not installed: {missing[1]}"
    return found | ({"reason": reason} if reason else {})


def last_line(text: str) -> str:
    """Return the last error, or else the last line, of the output of a failed process, at most 200 characters."""
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]+(Error|Exception)\b", line)]
    return (errors or lines or ["failed without a message"])[-1][:200]


def relative_gap(mechanism: str, poses) -> float | None:
    """Return the largest gap between points that a joint holds together, relative to the size; None if not finite."""
    import numpy as np

    from benchmarks.loops.geometry import gap

    found = gap(export.facts(mechanism), poses)
    return found if np.isfinite(found) else None


def join_wheels(folder: Path) -> list[str]:
    """Join wheels in parts, and return the names of the wheels that lack a part."""
    incomplete, parts = [], {}
    for path in folder.glob("*.whl.part*"):
        whole, _, number = path.name.rpartition(".part")
        if number.isdigit():
            parts.setdefault(whole, {})[int(number)] = path
    for whole, numbered in sorted(parts.items()):
        if sorted(numbered) != list(range(len(numbered))):
            incomplete.append(whole)
            continue
        with (folder / whole).open("wb") as out:
            for k in range(len(numbered)):
                out.write(numbered[k].read_bytes())
    return incomplete


def install_wheels(folder: Path) -> list[str]:
    """Install the wheels of a folder without a network, and return messages about those that could not be installed."""
    messages = [f"{name}: a part is missing" for name in join_wheels(folder)]
    bad = {message.partition(":")[0] for message in messages}
    for wheel in sorted(folder.glob("*.whl")):
        if wheel.name in bad:
            continue
        command = [sys.executable, "-m", "pip", "install", "--no-index", "--find-links", str(folder), str(wheel)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            messages.append(f"{wheel.name}: {(errors or [last_line(done.stderr)])[0]}")
    return messages


def main() -> None:
    """Run the command line: measure tools, and write the results file and the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", help="tools or variants to measure, by the beginning of their names")
    parser.add_argument("--models", nargs="*", choices=MECHANISMS, default=MECHANISMS, help="mechanisms")
    parser.add_argument("--batches", nargs="*", type=int, default=[1, 64, 4096], help="sizes of batches")
    parser.add_argument("--seconds", type=float, default=MAX_SECONDS, help="limit on the wall time of each process")
    parser.add_argument("--wheels", type=Path, help="folder of wheels to install first")
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(*options.measure, options.batches)
        return
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"rows": {}}
    if options.wheels:
        print("\n".join(install_wheels(options.wheels)) or "all wheels are installed")
    chosen = [name for name in VARIANTS if not options.only or name.startswith(tuple(options.only))]
    for name in [] if options.page else chosen:
        for mechanism in options.models:
            found = result_of(name, mechanism, options.batches, options.seconds)
            print(f"{name}, {mechanism}: {json.dumps(found, ensure_ascii=False)}", flush=True)
            results["rows"].setdefault(mechanism, {})[name] = found | {"machine": timing.machine()}
            results["wanted error"] = WANTED_ERROR
            order = {key: results["rows"][key] for key in MECHANISMS if key in results["rows"]}
            results["rows"] = {key: {n: rows[n] for n in VARIANTS if n in rows} for key, rows in order.items()}
            RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    page.write(results)


if __name__ == "__main__":
    main()
