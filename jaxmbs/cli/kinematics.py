"""`jaxmbs kinematics`: compute a motion that drivers determine."""

from __future__ import annotations

import jaxmbs as mbs
from jaxmbs.cli.motion import add_output, check_output, report_of
from jaxmbs.cli.options import add_model, add_times, add_tolerance, read_model, times_of
from jaxmbs.cli.report import Report, working


def arguments(parser) -> None:
    """Add the arguments of `jaxmbs kinematics` to its parser."""
    add_model(parser)
    add_times(parser, 101)
    add_tolerance(parser)
    add_output(parser)


def run(args) -> Report:
    """Move a model by its drivers and report or write the motion."""
    check_output(args.output)
    model = read_model(args)
    with working("following the motion"):
        motion = mbs.kinematics(model, times_of(args), tolerance=args.tolerance)
        motion.q.block_until_ready()
    return report_of(args, model, motion)
