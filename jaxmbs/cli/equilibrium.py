"""`jaxmbs equilibrium`: find a configuration at rest."""

from __future__ import annotations

import numpy as np

import jaxmbs as mbs
from jaxmbs.analyses.equilibrium import METHODS
from jaxmbs.cli.options import add_model, add_tolerance, finite, read_model, status_names
from jaxmbs.cli.report import FAILED, OK, Report, without_noise, working


def arguments(parser) -> None:
    """Add the arguments of `jaxmbs equilibrium` to its parser."""
    add_equilibrium(parser)
    parser.add_argument(
        "--steady", action="store_true", help="find a steady motion at the rates of the drivers instead"
    )


def run(args) -> Report:
    """Find the equilibrium of a model near its guess and report it."""
    model = read_model(args)
    with working("finding the equilibrium"):
        rest = equilibrium_of(args, model, steady=args.steady)
    q = np.asarray(rest.q)
    configuration = dict(zip(model.layout.coordinates, without_noise(q, np.max(np.abs(q), initial=1)), strict=True))
    values = {
        "name": model.name or args.model.stem,
        "status": status_names(rest.status),
        "stability": rest.stability,
        "largest unbalanced force": float(rest.residual),
        "configuration": configuration,
    }
    return Report(values, OK if rest.status == mbs.Status.CONVERGED else FAILED)


def add_equilibrium(parser) -> None:
    """Add the model and the options of an equilibrium to a parser."""
    add_model(parser)
    parser.add_argument(
        "--time", type=finite, default=0.0, metavar="T", help="time at which drivers have their values; 0"
    )
    parser.add_argument("--method", choices=METHODS, default=METHODS[0], help="newton also finds unstable equilibria")
    add_tolerance(parser)


def equilibrium_of(args, model, steady: bool = False) -> mbs.Equilibrium:
    """Return the equilibrium of a model near its guess."""
    return mbs.equilibrium(model, t=args.time, method=args.method, steady=steady, tolerance=args.tolerance)
