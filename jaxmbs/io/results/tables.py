"""Solutions as JSON, and their motions as CSV."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxmbs.io.files import json_value
from jaxmbs.io.results.case import Case, fields, is_function_generator

# Name of the format in the head of a solution written as JSON.
FORMAT = "jaxmbs solution"
# Version of the format of solutions written as JSON.
VERSION = 1
# Note on units in the head of a solution written as JSON.
UNITS = "lengths in the unit of the targets, angles in radians; a cycle of the motor takes one unit of time"


def write_json(case: Case, path: Path) -> None:
    """Write all fields except the mechanism. Numbers that are not finite become null."""
    held = {name: json_value(value, f"solution: {name}") for name, value in fields(case.solution).items()}
    head = {"format": FORMAT, "version": VERSION, "kind": type(case.solution).__name__, "units": UNITS}
    path.write_text(json.dumps({**head, **held}, indent=1, allow_nan=False, ensure_ascii=False) + "\n", "utf-8")


def read_solution(path: str | os.PathLike) -> dict[str, Any]:
    """Read the fields of a solution that `export` wrote as JSON.

    Args:
        path: the file.

    Returns:
        the fields by name, with lists of numbers as arrays.

    Raises:
        ValueError: the file does not hold such a solution, or one of a later version.

    Examples:
        >>> from types import SimpleNamespace
        >>> path = mbs.io.export(SimpleNamespace(mechanism=mech, guess=guess, error=0.25), "found.json")
        >>> mbs.io.read_solution(path)["error"]
        0.25
    """
    try:
        held = json.loads(Path(path).read_text("utf-8"))
        known = held["format"] == FORMAT and held["version"] <= VERSION
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a solution written by mbs.io.export") from error
    if not known:
        raise ValueError(f"{path} holds {held['format']!r} of version {held['version']}, not {FORMAT!r} of {VERSION}")
    return {name: _with_arrays(value) for name, value in held.items()}


def _with_arrays(value):
    """Return a tree of JSON with lists of numbers as arrays."""
    if isinstance(value, dict):
        return {name: _with_arrays(part) for name, part in value.items()}
    if isinstance(value, list) and value:
        try:
            array = np.array(value, float)
        except (TypeError, ValueError):
            return [_with_arrays(part) for part in value]
        return array
    return value


def write_csv(case: Case, path: Path) -> None:
    """Write a line of names, and a row for each time, or for each x of a function generator.

    Angles are in degrees. Places are empty where the motion fails.
    """
    columns = _columns_of_function(case.solution) if is_function_generator(case.solution) else _columns_of_motion(case)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            writer.writerow(["" if isinstance(x, float) and math.isnan(x) else x for x in row])


def _columns_of_function(solution) -> dict[str, list]:
    """Return the columns of the table of a function generator by name, a row for each x."""
    columns = {"x": solution.x, "crank_angle_deg": np.rad2deg(solution.crank_angles)}
    # The output is the angle of a rocker or the position of a slide.
    angular = "rocker" in solution.design
    for name in ("output", "wanted"):
        values = getattr(solution, name)
        columns[f"{name}_deg" if angular else name] = np.rad2deg(values) if angular else values
    return {name: np.asarray(values).tolist() for name, values in columns.items()}


def _columns_of_motion(case: Case) -> dict[str, list]:
    """Return the columns of the table of a motion by name, a row for each time."""
    columns = {"time": np.asarray(case.motion.t)}
    if case.crank_angle is not None:
        columns["crank_angle_deg"] = np.rad2deg(case.crank_angle)
    curve = case.curve
    if curve is not None:
        columns |= dict(zip("xyz", curve.T, strict=False))
        design = getattr(case.solution, "design", None)
        frame = design.get("frame") if isinstance(design, Mapping) else None
        if frame is not None and case.point is not None:
            turned = np.rad2deg(np.asarray(case.motion.position(f"{case.point[0]}.phi")) + frame)
            columns["angle_deg"] = np.where(case.good, turned, np.nan)
    else:
        for name in case.mechanism.layout.coordinates:
            columns[name] = np.where(case.good, np.asarray(case.motion.position(name)), np.nan)
    columns["status"] = np.asarray(case.motion.status)
    return {name: np.asarray(values).tolist() for name, values in columns.items()}
