"""Running the cases on several processes, and what is kept of a run."""

import json
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax
import numpy as np
from timing import machine

import quick_compilation
from verification import cases as cases
from verification.case import CASES, Result, run

RESULTS = Path(__file__).with_name("results.json")
PACKAGES = ("jaxmbs", "jax", "numpy", "llvmlite", "mujoco", "pin", "exudyn")


def run_alone(name: str) -> Result:
    """A case, and nothing of it is kept."""
    result = run(name)
    jax.clear_caches()
    return result


def in_processes(function: Callable, tasks: list[tuple], jobs: int, quick: bool = False) -> Iterator[tuple[tuple, Any]]:
    """(task, function(*task)) of each, as they come; quick: programs run once, so that compiling them quickly counts."""
    flags = os.environ.get("XLA_FLAGS", "")
    if quick:
        quick_compilation.choose()
    try:
        with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            running = {pool.submit(function, *task): task for task in tasks}
            for done in as_completed(running):
                yield running[done], done.result()
    finally:
        os.environ["XLA_FLAGS"] = flags


def results_of(names: list[str], jobs: int) -> Iterator[Result]:
    """The results as they come, those that took longest in the last run first."""
    known = {case["name"]: case["seconds"] for case in read().get("cases", [])}
    ordered = sorted(names, key=lambda name: -known.get(name, np.inf))
    for _, result in in_processes(run_alone, [(name,) for name in ordered], jobs, quick=True):
        yield result


def read() -> dict:
    """The last run that was kept."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def entry(result: Result) -> dict:
    """A case and its result, as the page needs it."""
    case = CASES[result.name]
    lines = [line._asdict() | {"holds": line.holds} for line in result.comparisons]
    return {
        "name": case.name,
        "source": case.source,
        "problem": case.problem,
        "coordinates": case.by.coordinates,
        "by": case.by.label,
        "references": list(case.references),
        "lines": lines,
        "seconds": round(result.seconds, 1),
        "error": result.error,
    }


def setting(jobs: int, wall: float) -> dict:
    """Where and when."""
    packages = {name: installed(name) for name in PACKAGES}
    return machine() | {"minutes": round(wall / 60, 1), "processes": jobs, "packages": packages}


def installed(name: str) -> str | None:
    """The version of a package, None where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def kept(known: list[dict], results: list[Result], jobs: int, wall: float) -> dict:
    """What is written of a run, its cases in their order.

    Args:
        known: what an earlier run has kept of other cases. wall: seconds in all.
    """
    order = {name: k for k, name in enumerate(CASES)}
    cases = sorted([*known, *map(entry, results)], key=lambda case: order[case["name"]])
    return {"setting": setting(jobs, wall), "cases": cases}
