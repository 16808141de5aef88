"""`jaxmbs identify`: estimate parameters of a model from measurements."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import jax
import numpy as np

import jaxmbs as mbs
from jaxmbs.cli.options import add_integrator, add_model, integrator_of, read_model, whole_number
from jaxmbs.cli.report import FAILED, OK, Report, working
from jaxmbs.cli.varied import number_at, place_of, with_number
from jaxmbs.element import errors_of

# Name of the column of a record with the times.
TIME = "t"


def arguments(parser) -> None:
    """Add the arguments of `jaxmbs identify` to its parser."""
    add_model(parser)
    parser.add_argument(
        "data", type=Path, nargs="+", metavar="DATA",
        help=f"CSV, one file for each run: a column {TIME!r}, and one for each signal, such as rocker.phi, "
        "velocity.crank.phi, acceleration.slider.x, motor.effort",
    )  # fmt: skip
    parser.add_argument(
        "--free", action="append", required=True, metavar="PLACE[=A:B]",
        help="an unknown parameter, as bodies.rod.mass, or with bounds forces.spring.stiffness=0:100",
    )  # fmt: skip
    parser.add_argument(
        "--deviation", action="append", default=[], metavar="[SIGNAL=]S",
        help="standard deviation of the noise of all signals or of one; estimated by default",
    )  # fmt: skip
    parser.add_argument(
        "--segments", type=whole_number(1), default=1, metavar="N", help="segments of each run, for long runs (1)"
    )
    parser.add_argument("--starts", type=whole_number(1), default=8, metavar="N", help="starts of the search (8)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random starts (0)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="file for the model with the estimates, .json")
    add_integrator(parser)


def run(args) -> Report:
    """Fit the free numbers of a model to recorded signals, and report them with their deviations."""
    if args.output is not None and args.output.suffix != ".json":
        raise ValueError(f"{args.output.name}: the name of a model must end in .json")
    model = read_model(args)
    bounds = dict(map(_bounds, args.free))
    if len(bounds) < len(args.free):
        raise ValueError("--free: give each place once")
    places = {path: place_of(model, path) for path in bounds}
    guess = {path: number_at(model, steps) for path, steps in places.items()}
    records = [_record(path, args.deviation) for path in args.data]

    def build(numbers):
        """Return the model with the free numbers in their places."""
        mech = model
        for path, steps in places.items():
            mech = with_number(mech, steps, numbers[path])
        return mech

    with working("identifying"):
        found = mbs.identify(
            build, guess, records, starts=args.starts, seed=args.seed, segments=args.segments, **integrator_of(args),
            lower={path: low for path, (low, _) in bounds.items()},
            upper={path: high for path, (_, high) in bounds.items()},
        )  # fmt: skip
    values = {
        "name": model.name or args.model.stem,
        "samples": [len(record.times) for record in records],
        "converged": found.converged,
        "cost": found.cost,
        "noise": found.noise,
        "parameters": [
            {
                "parameter": name,
                "before": guess[name],
                "estimate": found.estimates[name],
                "deviation": _number_or_unknown(found.deviations[name]),
                "low": _number_or_unknown(found.intervals[name][0]),
                "high": _number_or_unknown(found.intervals[name][1]),
            }
            for name in guess
        ],
        "undetermined": [" ".join(f"{name} {part:+.3g}" for name, part in d.items()) for d in found.undetermined],
        "at bounds": found.at_bounds,
        "left over": found.tests.lines(),
    }
    if args.output is not None:
        mbs.save(build(jax.tree.map(np.asarray, found.parameters)), args.output)
        values["written"] = args.output
    return Report(values, OK if found.converged and not found.undetermined else FAILED)


def _number_or_unknown(x: float) -> float | str:
    """Return a number for a report, or "unknown" if it is not finite."""
    return x if math.isfinite(x) else "unknown"


def _bounds(text: str) -> tuple[str, tuple[float, float]]:
    """Return the place and the bounds that `--free` gives."""
    path, sign, interval = text.partition("=")
    if not sign:
        return path, (-math.inf, math.inf)
    try:
        low, high = (float(x) for x in interval.split(":"))
    except ValueError:
        raise ValueError(f"--free {text}: bounds must be two numbers, as in {path}=0:10") from None
    return path, (low, high)


def _record(path: Path, deviations: list[str]):
    """Return a CSV table as an `mbs.Record`."""
    with path.open(newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    if not rows or rows[0][0].strip() != TIME or len(rows[0]) < 2:
        raise ValueError(f"{path.name}: the first line must be {TIME!r} and the names of the signals")
    names = [name.strip() for name in _join_bracketed(rows[0])]
    with errors_of(path.name):
        table = [[float(x) for x in row] for row in rows[1:]]
    for number, row in enumerate(table, 2):
        if len(row) != len(names):
            raise ValueError(f"{path.name}, line {number}: must have {len(names)} numbers, got {len(row)}")
    columns = list(zip(*table, strict=True)) or [()] * len(names)
    noise: dict[str, float] = {}
    for text in deviations:
        noise |= _deviation(text, names[1:])
    with errors_of(path.name):
        return mbs.Record(columns[0], dict(zip(names[1:], columns[1:], strict=True)), noise or None)


def _join_bracketed(names: list[str]) -> list[str]:
    """Join names of columns that were split at a comma within brackets, as point(rod,0.3,0).x."""
    found: list[str] = []
    for name in names:
        if found and found[-1].count("(") > found[-1].count(")"):
            found[-1] += f",{name}"
        else:
            found.append(name)
    return found


def _deviation(text: str, names: list[str]) -> dict[str, float]:
    """Return the standard deviation of each signal that an option `--deviation` gives."""
    name, sign, number = text.rpartition("=")
    try:
        value = float(number)
    except ValueError:
        raise ValueError(f"--deviation {text}: must be a number, or SIGNAL=number") from None
    if sign and name not in names:
        raise ValueError(f"--deviation {text}: no signal is called {name!r}; the signals are {', '.join(names)}")
    return {name: value} if sign else dict.fromkeys(names, value)
