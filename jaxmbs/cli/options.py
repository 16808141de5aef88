"""Arguments that several commands share, and their conversion."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

import jaxmbs as mbs
from jaxmbs.numerics.results import Status

# Integrators that `--method` takes, names of classes in `jaxmbs`.
METHODS = ("RK4", "SemiImplicitEuler", "GeneralizedAlpha", "HHT", "CoordinatePartitioning", "Adaptive")
# Options that count times, samples or steps refuse larger numbers, which do not fit into memory.
MAX_COUNT = 10_000_000
# The option for the number of designs of a sweep refuses larger numbers; designs are never in memory all at once.
MAX_DESIGNS = 10**12
# Class in `jaxmbs` for each formulation that `--formulation` takes.
FORMULATIONS = {"augmented": "Augmented", "natural": "Natural", "joint": "JointCoordinates", "kane": "Kane"}


def add_model(parser: argparse.ArgumentParser, optional: bool = False) -> None:
    """Add the arguments for a model file."""
    parser.add_argument(
        "model", type=Path, nargs="?" if optional else None, metavar="MODEL",
        help="a file that ends in .json, .xml, .mjcf, .urdf or .sdf",
    )  # fmt: skip
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="TAG",
        help="leave out elements without mention, by their tag in MJCF, URDF or SDF: contact, limit, …",
    )  # fmt: skip
    parser.add_argument("--strict", action="store_true", help="refuse elements that cannot be represented")
    parser.add_argument(
        "--allow", action="append", default=[], metavar="FOLDER",
        help="a folder outside that of the model, relative to it, in which files may be read: ../meshes",
    )  # fmt: skip
    parser.add_argument(
        "--base", choices=("fixed", "free"), help="connect the root of a robot with the ground, or let it move"
    )


def read_model(args):
    """Return the model of the arguments of `add_model`."""
    return mbs.load(args.model, strict=args.strict, ignore=args.ignore, allow=args.allow, base=args.base)


def add_tolerance(parser: argparse.ArgumentParser) -> None:
    """Add the option for the largest gap of redundant constraints, for models whose geometry is inexact."""
    parser.add_argument(
        "--tolerance", type=positive, default=1e-8, metavar="PART",
        help="largest gap that redundant constraints may keep, relative to the size of the mechanism (1e-8)",
    )  # fmt: skip


def add_times(parser: argparse.ArgumentParser, count: int) -> None:
    """Add the options for the times of a motion."""
    parser.add_argument("--until", type=positive, default=1.0, metavar="T", help="the last time (1.0)")
    parser.add_argument(
        "--times", type=whole_number(2), default=count, metavar="N", help=f"number of times, the first is 0 ({count})"
    )


def times_of(args):
    """Return the times of the options of `add_times`."""
    return np.linspace(0, args.until, args.times)


def add_integrator(parser: argparse.ArgumentParser) -> None:
    """Add the options for step, method and formulation of a simulation."""
    parser.add_argument("--step", type=positive, metavar="H", help="largest step; by default 4,000 steps in all")
    parser.add_argument("--method", choices=METHODS, default="RK4", help="integrator (RK4)")
    parser.add_argument(
        "--formulation", choices=FORMULATIONS, default="augmented", help="equations of motion (augmented)"
    )


def integrator_of(args) -> dict:
    """Return the arguments of `simulate` for the options of `add_integrator`."""
    method = getattr(mbs, args.method)
    # Usual values of the parameters for numerical damping.
    known = {"GeneralizedAlpha": (0.9,), "HHT": (-0.1,)}
    return {
        "step": args.step,
        "method": method(*known.get(args.method, ())),
        "formulation": getattr(mbs, FORMULATIONS[args.formulation])(),
    }


def positive(text: str) -> float:
    """Parse a positive number."""
    value = finite(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"must be positive, got {text}")
    return value


def finite(text: str) -> float:
    """Parse a finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"must be a number, got {text}")
    return value


def whole_number(smallest: int, largest: int = MAX_COUNT) -> Callable[[str], int]:
    """Return a function that parses a whole number between two bounds, both included."""

    def parse(text: str) -> int:
        """Return the number of a text, or raise `ArgumentTypeError`."""
        try:
            value = int(text)
        except ValueError:
            value = smallest - 1
        if not smallest <= value <= largest:
            raise argparse.ArgumentTypeError(f"must be a whole number from {smallest} to {largest}, got {text}")
        return value

    return parse


def status_names(status) -> dict[str, int]:
    """Return how many times of a motion have each status, by its name."""
    codes, counts = np.unique(np.asarray(status), return_counts=True)
    return {Status(int(code)).name: int(count) for code, count in zip(codes, counts, strict=True)}
