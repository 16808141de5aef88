"""`jaxmbs synthesize`: find a linkage for a path, a function, a set of poses or the shape of a curve."""

from __future__ import annotations

import argparse
import contextlib
import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from jaxmbs.cli.options import positive, whole_number
from jaxmbs.cli.report import Report, working

# Tasks of `jaxmbs synthesize`, names of functions in `jaxmbs.synthesis`.
TASKS = ("path", "function", "motion", "curve")
# End of the output names for which `jaxmbs synthesize` writes the mechanism that it found as a model file.
MODEL_SUFFIX = ".model.json"
# Tasks that take each of these options of `jaxmbs synthesize`; all tasks take the others.
TASKS_OF_OPTION = {
    "closed": ("path", "curve"),
    "whole-turn": ("path",),
    "resume": ("path", "curve"),
    "output-span": ("function",),
    "input-span": ("function",),
    "links": ("curve",),
    "sliders": ("curve",),
    "ratio": ("curve",),
    "lower": ("path", "function", "motion"),
    "upper": ("path", "function", "motion"),
}


def arguments(parser) -> None:
    """Add the arguments of `jaxmbs synthesize` to its parser."""
    parser.add_argument("task", choices=TASKS, help="task of the linkage")
    parser.add_argument(
        "targets", type=Path, metavar="FILE",
        help="CSV, one line each: x, y of points, with a third column their crank angles in degrees (path); x, y of a "
        "function; x, y and the angle of a body in degrees (motion); x, y of points along a curve. A first line of words "
        "is left out. A curve may also be the path of an SVG or the outline of a dark shape in a PNG or JPG.",
    )  # fmt: skip
    parser.add_argument(
        "--mechanism", help="four-bar, slider-crank, Watt I, Stephenson III, … (four-bar; curve: all topologies)"
    )
    parser.add_argument(
        "--closed", action=argparse.BooleanOptionalAction,
        help="path, curve: the points go all round a closed curve (path: no; curve: if its ends are near to each other)",
    )  # fmt: skip
    parser.add_argument("--whole-turn", action="store_true", help="path: only linkages whose crank turns fully")
    parser.add_argument("--links", type=whole_number(1), help="curve: the largest number of links that move (7)")
    parser.add_argument("--sliders", action="store_true", help="curve: try sliders and blocks as well")
    parser.add_argument("--ratio", type=positive, help="curve: the largest ratio of two lengths")
    parser.add_argument("--lower", type=float, help="lower bound on all lengths")
    parser.add_argument("--upper", type=float, help="upper bound on all lengths")
    parser.add_argument(
        "--transmission-angle", type=float, metavar="DEGREES", help="smallest transmission angle allowed"
    )
    parser.add_argument(
        "--output-span", type=float, metavar="X", help="function: range of the rocker in degrees, or of the slide"
    )
    parser.add_argument("--input-span", type=float, metavar="DEGREES", help="function: range of the crank")
    parser.add_argument("--starts", type=whole_number(1), help="number of random starts")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers (0)")
    parser.add_argument(
        "--resume", type=Path, metavar="FILE", help="path, curve: file that keeps the search, to continue it"
    )
    parser.add_argument(
        "--output", type=Path, action="append", default=[], metavar="FILE",
        help="write the best one: .svg or .dxf drawing, .csv path, .json numbers, .gif or .html film, .model.json model",
    )  # fmt: skip


def run(args) -> Report:
    """Search a linkage for the targets of a file, report it, and write the outputs asked for."""
    from jaxmbs.io.outlines import read_table

    # Check names before the search.
    known = (".json", ".csv", ".svg", ".dxf", ".gif", ".html", ".mp4")
    for path in args.output:
        if path.suffix.lower() not in known:
            raise ValueError(f"{path.name}: the name of an output must end in {', '.join(known)}")
    _refuse_options(args, args.task, *(name for name, tasks in TASKS_OF_OPTION.items() if args.task not in tasks))
    points = mbs.io.read_curve(args.targets) if args.task == "curve" else read_table(args.targets)
    searches = {"path": _search_path, "function": _search_function, "motion": _search_poses, "curve": _search_curve}
    found = searches[args.task](args, points)
    best = found.best
    for path in args.output:
        if path.name.endswith(MODEL_SUFFIX):
            mbs.save(best.mechanism, path, guess=best.guess, name=path.name.removesuffix(MODEL_SUFFIX))
        else:
            mbs.io.export(best, path)
    values = (_values_of_curve if args.task == "curve" else _values)(args, found)
    return Report(values | ({"written": args.output} if args.output else {}))


def _values(args, found) -> dict[str, Any]:
    """Return the values of the report of a path, function or motion."""
    rows = [{"rank": k + 1, "error": one.error, **one.checks} for k, one in enumerate(found.all)]
    best = found.best
    return {
        "mechanism": _linkage_name(args), "error": best.error, "design": _design(best), "checks": best.checks, "all": rows
    }  # fmt: skip


def _values_of_curve(args, found) -> dict[str, Any]:
    """Return the values of the report of a curve."""
    best = found.best
    front = [_curve_row(one) for one in found.front]
    return {**_curve_row(best), "design": _design(best), "checks": best.checks, "front": front}


def _curve_row(solution) -> dict[str, Any]:
    """Return links, errors and topology of a linkage for a curve."""
    return {
        "links": solution.links,
        "error": solution.error,
        "ordered error": solution.ordered_error,
        "topology": solution.linkage.name,
    }


def _design(solution) -> dict[str, Any]:
    """Return the numbers of a linkage found by synthesis, such as its lengths, by name."""
    return {name: value for name, value in solution.design.items() if value is not None}


def _linkage_name(args) -> str:
    """Return the name of the linkage, by default a four-bar."""
    return args.mechanism or "four-bar"


def _shared_arguments(args) -> dict[str, Any]:
    """Return the arguments that `synthesis.path`, `function` and `motion` share, from the command line."""
    options = {"mechanism": _linkage_name(args), "lower": args.lower, "upper": args.upper, "seed": args.seed}
    more = {"starts": args.starts, "transmission_angle": args.transmission_angle}
    return options | {name: value for name, value in more.items() if value is not None}


def _check_columns(table, counts: tuple[int, ...], rows: str) -> None:
    """Raise `ValueError` unless a table has one of these numbers of columns; the message calls its rows `rows`."""
    if table.shape[1] not in counts:
        raise ValueError(f"{rows} must have {' or '.join(map(str, counts))} columns, got {table.shape[1]}")


def _refuse_options(args, task: str, *names: str) -> None:
    """Raise `ValueError` for options with these names that are given; the message says that `task` does not take them."""
    for name in names:
        value = getattr(args, name.replace("-", "_"))
        if value is not None and value is not False:
            raise ValueError(f"--{name} is not an option of {task}")


def _search_path(args, table):
    """Search linkages whose coupler point passes the points of a table; return the result of `synthesis.path`."""
    _check_columns(table, (2, 3), "points of a path")
    angles = np.deg2rad(table[:, 2]) if table.shape[1] == 3 else None
    with contextlib.closing(mbs.viz.progress_bar("path")) as bar:
        return mbs.synthesis.path(
            table[:, :2],
            crank_angles=angles,
            closed=bool(args.closed),
            whole_turn=args.whole_turn,
            progress=bar,
            resume=args.resume,
            **_shared_arguments(args),
        )


def _search_function(args, table):
    """Search linkages whose output angle follows the function of a table; return the result of `synthesis.function`."""
    _check_columns(table, (2,), "points of a function")
    if args.output_span is None:
        raise ValueError("--output-span is missing: give the range of the output")
    table = table[np.argsort(table[:, 0])]
    if len(table) < 4 or np.any(np.diff(table[:, 0]) <= 0):
        raise ValueError("a function needs at least 4 points with different x")
    x, y = (jnp.asarray(column) for column in table.T)
    spline = mbs.motion.Spline(x, y)
    curve = jax.jit(lambda at: spline(at))
    slides = _linkage_name(args) == "slider-crank"
    spans: dict[str, Any] = {"output_span": args.output_span if slides else math.radians(args.output_span)}
    if args.input_span is not None:
        spans["input_span"] = math.radians(args.input_span)
    with working("function"):
        return mbs.synthesis.function(
            lambda x: curve(jnp.asarray(x)), (float(x[0]), float(x[-1])), **spans, **_shared_arguments(args)
        )


def _search_poses(args, table):
    """Search linkages whose coupler takes the poses of a table; return the result of `synthesis.motion`."""
    _check_columns(table, (3,), "poses")
    poses = np.column_stack([table[:, :2], np.deg2rad(table[:, 2])])
    with working("motion"):
        return mbs.synthesis.motion(poses, **_shared_arguments(args))


def _search_curve(args, points):
    """Search linkages that trace the shape of a curve; return the result of `synthesis.curve`."""
    if args.mechanism is not None:
        _refuse_options(args, "use with --mechanism", "links", "sliders")
    names = ("mechanism", "links", "ratio", "transmission_angle", "starts")
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    with contextlib.closing(mbs.viz.progress_bar("curve")) as bar:
        return mbs.synthesis.curve(
            points, closed=args.closed, sliders=args.sliders, seed=args.seed, progress=bar, resume=args.resume, **given
        )
