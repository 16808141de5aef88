"""`jaxmbs animate`: write a motion as a film."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import jaxmbs as mbs
from jaxmbs.cli.motion import motion_of
from jaxmbs.cli.options import add_integrator, add_model, add_times, add_tolerance, positive, read_model, status_names
from jaxmbs.cli.report import FAILED, OK, Report, working
from jaxmbs.dynamics.quantities import is_driven
from jaxmbs.element import unknown

# Suffixes of the films that `jaxmbs animate` writes.
SUFFIXES = (".gif", ".html", ".mp4", ".glb")


def arguments(parser) -> None:
    """Add the arguments of `jaxmbs animate` to its parser."""
    add_model(parser)
    parser.add_argument("film", type=Path, metavar="FILM", help=f"the file to write: {', '.join(SUFFIXES)}")
    add_times(parser, 101)
    add_integrator(parser)
    add_tolerance(parser)
    parser.add_argument("--fps", type=positive, default=25.0, help="frames per second (25)")
    parser.add_argument(
        "--trace", nargs="+", action="append", default=[], metavar=("BODY", "X"),
        help="draw the curve of a point: a body and coordinates on it; may be given several times",
    )  # fmt: skip


def run(args) -> Report:
    """Write the motion of a model as a film: by its drivers if they determine it, else by simulation."""
    if args.film.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{args.film.name}: the name of a film must end in {', '.join(SUFFIXES)}")
    model = read_model(args)
    traces = [_trace(model, words) for words in args.trace]
    with working("computing the motion"):
        motion = motion_of(args, model)
    values = {"name": model.name or args.model.stem, "motion": "kinematics" if is_driven(model) else "simulation"}
    values |= {"status": status_names(motion.status)}
    if np.all(np.asarray(motion.status)):
        return Report(values | {"written": None}, FAILED)
    with working("drawing"):
        args.film.parent.mkdir(parents=True, exist_ok=True)
        mbs.viz.animate(model, motion, args.film, traces=traces, fps=args.fps, title=model.name or None)
    return Report(values | {"written": args.film}, OK if not np.any(np.asarray(motion.status)) else FAILED)


def _trace(model, words: list[str]) -> tuple:
    """Return a body and a point on it in its frame; the origin of the frame by default."""
    body, *numbers = words
    if body not in model.bodies:
        raise ValueError(f"--trace: {unknown('body', body, list(model.bodies))}")
    dimension = model.bodies[body].dimension
    try:
        point = [float(x) for x in numbers]
    except ValueError:
        raise ValueError(f"--trace {body}: coordinates must be numbers, got {' '.join(numbers)}") from None
    point = point or [0.0] * dimension
    if len(point) != dimension:
        raise ValueError(f"--trace {body}: a point has {dimension} coordinates, got {len(point)}")
    return body, tuple(point)
