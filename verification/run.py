"""Run cases in several processes, and collect their results."""

import json
import multiprocessing
import os
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

# File of the results of all cases, from which the page is written.
RESULTS = Path(__file__).with_name("results.json")
# Packages whose versions the file of results records.
PACKAGES = ("jaxmbs", "jax", "numpy", "llvmlite", "mujoco", "pin", "exudyn")


def run_alone(name: str) -> Result:
    """Run a case, and clear the compiled programs."""
    result = run(name)
    jax.clear_caches()
    return result


def in_processes(function: Callable, tasks: list[tuple], jobs: int, quick: bool = False) -> Iterator[tuple[tuple, Any]]:
    """Yield (task, function(*task)) in the order of completion; `quick` compiles without optimisation."""
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
    """Yield results in the order of completion; cases that took longest in the last run start first."""
    known = {case["name"]: case["seconds"] for case in read().get("cases", [])}
    ordered = sorted(names, key=lambda name: -known.get(name, np.inf))
    for _, result in in_processes(run_alone, [(name,) for name in ordered], jobs, quick=True):
        yield result


def read() -> dict:
    """Read the last results, {} if there are none."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def entry(result: Result) -> dict:
    """Return a case and its result for the results file."""
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
    """Return machine, date, minutes, processes and versions of packages."""
    packages = {name: installed_version(name) for name in PACKAGES}
    return machine() | {"minutes": round(wall / 60, 1), "processes": jobs, "packages": packages}


def installed_version(name: str) -> str | None:
    """Return the version of a package, None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def as_json(known: list[dict], results: list[Result], jobs: int, wall: float) -> dict:
    """Return the content of the results file, cases in their order.

    Args:
        known: entries of earlier runs.
        results: results of this run.
        jobs: number of processes.
        wall: wall time in all (s).
    """
    order = {name: k for k, name in enumerate(CASES)}
    cases = sorted([*known, *map(entry, results)], key=lambda case: order[case["name"]])
    return {"setting": setting(jobs, wall), "cases": cases}
