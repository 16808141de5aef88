"""`jaxmbs check`: describe a mechanism and diagnose its constraints."""

from __future__ import annotations

import numpy as np

import jaxmbs as mbs
from jaxmbs.cli.options import FORMULATIONS, add_model, add_times, add_tolerance, finite, read_model, times_of
from jaxmbs.cli.report import FAILED, OK, Report, without_noise, working


def arguments(parser) -> None:
    """Add the arguments of `jaxmbs check` to its parser."""
    add_model(parser)
    add_times(parser, 101)
    add_tolerance(parser)
    parser.add_argument(
        "--formulation",
        choices=FORMULATIONS,
        help="also count the operations of a simulation in this formulation by RK4",
    )
    parser.add_argument(
        "--at", type=finite, default=0.0, metavar="T", help="time at which the mechanism is assembled (0)"
    )


def run(args) -> Report:
    """Assemble a model and report its size, degrees of freedom and redundant constraints."""
    with working("reading"):
        model = read_model(args)
    layout = model.layout
    values = {
        "name": model.name or args.model.stem,
        "bodies": list(model.bodies),
        "constraints": list(model.constraints),
        "drivers": list(model.drivers),
        "forces": list(model.forces),
        "coordinates": layout.n,
        "velocities": layout.m,
        "equations": len(layout.row_owners),
    }
    with working("assembling"):
        start = mbs.assemble(model, t=args.at, tolerance=args.tolerance)
        found = mbs.diagnose(model, start.q, args.at, tolerance=args.tolerance)
    status = mbs.Status(int(start.status))
    singular_values = without_noise(found.singular_values, np.max(found.singular_values, initial=0))
    values |= {
        "status": status.name,
        "residual": float(start.residual),
        "degrees of freedom": found.dof,
        "free with drivers": found.free,
        "rank": found.rank,
        "redundant": list(found.redundant),
        "consistent": bool(found.consistent),
        "misfits": found.misfits,
        "smallest singular value": float(np.min(singular_values, initial=np.inf)),
    }
    with working("counting operations"):
        own = None if args.formulation is None else getattr(mbs, FORMULATIONS[args.formulation])()
        explained = mbs.explain(model, start.q, args.at, formulation=own, simulation=own is not None)
    values |= {"path": explained.path, "operations": explained.operations}
    assembled = status in (mbs.Status.CONVERGED, mbs.Status.SINGULAR)
    if assembled and len(layout.row_owners) and layout.m == len(layout.row_owners) == found.rank:
        with working("finding singularities"):
            singular = mbs.find_singularities(model, times_of(args), start.q, tolerance=args.tolerance)
        values["singularities"] = [
            {"time": float(t), "kind": kind} for t, kind in zip(singular.times, singular.kinds, strict=True)
        ]
    return Report(values, OK if assembled and found.consistent else FAILED)
