"""`jaxmbs simulate`: compute a motion under forces."""

from __future__ import annotations

import numpy as np

import jaxmbs as mbs
from jaxmbs.cli.motion import add_output, check_output, report_of
from jaxmbs.cli.options import add_integrator, add_model, add_times, add_tolerance, integrator_of, read_model, times_of
from jaxmbs.cli.report import Report, without_noise, working


def arguments(parser) -> None:
    """Add the arguments of `jaxmbs simulate` to its parser."""
    add_model(parser)
    add_times(parser, 101)
    add_integrator(parser)
    add_tolerance(parser)
    add_output(parser)


def run(args) -> Report:
    """Simulate a model from its guess and report or write the motion."""
    check_output(args.output)
    model = read_model(args)
    with working("simulating"):
        motion = mbs.simulate(model, times_of(args), tolerance=args.tolerance, **integrator_of(args))
        motion.q.block_until_ready()
    total = np.full(2, np.nan)
    if motion.energy is not None:
        largest = max(np.max(np.abs(part)) for part in (motion.energy.kinetic, motion.energy.potential))
        total = without_noise(motion.energy.total, largest)
    return report_of(args, model, motion, energy={"first": float(total[0]), "last": float(total[-1])})
