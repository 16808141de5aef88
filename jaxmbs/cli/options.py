"""Arguments that several commands share, and what they mean."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

METHODS = ("RK4", "SemiImplicitEuler", "GeneralizedAlpha", "HHT", "CoordinatePartitioning", "Adaptive")
# Times, samples, steps: more of them do not fit into memory.
MAX_COUNT = 10_000_000
# Designs of a sweep, which are never in memory all at once.
MAX_DESIGNS = 10**12
FORMULATIONS = {"augmented": "Augmented", "natural": "Natural", "joint": "JointCoordinates", "kane": "Kane"}


def add_model(parser: argparse.ArgumentParser, optional: bool = False) -> None:
    """The model file, and how it is read."""
    parser.add_argument(
        "model", type=Path, nargs="?" if optional else None, metavar="MODEL",
        help="a file that ends in .json, .xml, .mjcf or .urdf",
    )  # fmt: skip
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="TAG",
        help="leave out what cannot be represented, by its tag in MJCF or URDF: contact, actuator, …",
    )  # fmt: skip


def read_model(args):
    """The model of `add_model`."""
    import jaxmbs as mbs

    return mbs.load(args.model, ignore=args.ignore)


def add_tolerance(parser: argparse.ArgumentParser) -> None:
    """Add the option for the largest gap of redundant constraints, for models whose geometry is inexact."""
    parser.add_argument(
        "--tolerance", type=positive, default=1e-8, metavar="PART",
        help="largest gap that redundant constraints may keep, relative to the size of the mechanism (1e-8)",
    )  # fmt: skip


def add_times(parser: argparse.ArgumentParser, count: int) -> None:
    """The times of a motion."""
    parser.add_argument("--until", type=positive, default=1.0, metavar="T", help="the last time (1.0)")
    parser.add_argument(
        "--times", type=times_count, default=count, metavar="N", help=f"number of times, the first is 0 ({count})"
    )


def times_of(args):
    """The times of `add_times`."""
    import numpy as np

    return np.linspace(0, args.until, args.times)


def add_integrator(parser: argparse.ArgumentParser) -> None:
    """How a motion under forces is computed."""
    parser.add_argument("--step", type=positive, metavar="H", help="the largest step; 4,000 steps in all unless given")
    parser.add_argument("--method", choices=METHODS, default="RK4", help="of integration (RK4)")
    parser.add_argument(
        "--formulation", choices=FORMULATIONS, default="augmented", help="of the equations of motion (augmented)"
    )


def integrator_of(args) -> dict:
    """The arguments of `simulate`."""
    import jaxmbs as mbs

    method = getattr(mbs, args.method)
    # Their numbers decide how much of fast vibrations they take away; these are the usual ones.
    known = {"GeneralizedAlpha": (0.9,), "HHT": (-0.1,)}
    return {
        "step": args.step,
        "method": method(*known.get(args.method, ())),
        "formulation": getattr(mbs, FORMULATIONS[args.formulation])(),
    }


def positive(text: str) -> float:
    """A positive number."""
    value = finite(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"must be positive, got {text}")
    return value


def finite(text: str) -> float:
    """A number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"must be a number, got {text}")
    return value


def times_count(text: str) -> int:
    """A number of times."""
    return _whole(text, 2)


def positive_count(text: str) -> int:
    """A whole number from 1 on."""
    return _whole(text, 1)


def designs_count(text: str) -> int:
    """A number of designs."""
    return _whole(text, 1, MAX_DESIGNS)


def _whole(text: str, least: int, most: int = MAX_COUNT) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        raise argparse.ArgumentTypeError(f"must be a whole number from {least} to {most}, got {text}")
    return value


def status_names(status) -> dict[str, int]:
    """How many of the times ended how, by name."""
    import numpy as np

    from jaxmbs.numerics.results import Status

    codes, counts = np.unique(np.asarray(status), return_counts=True)
    return {Status(int(code)).name: int(count) for code, count in zip(codes, counts, strict=True)}
