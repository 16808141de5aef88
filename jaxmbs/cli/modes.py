"""`jaxmbs modes`: report frequencies and damping of small motions about an equilibrium, and film a mode."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import jaxmbs as mbs
from jaxmbs.cli.equilibrium import add_equilibrium, equilibrium_of
from jaxmbs.cli.options import read_model, status_names, whole_number
from jaxmbs.cli.report import FAILED, OK, Report, without_noise, working


def arguments(parser) -> None:
    """Add the arguments of `jaxmbs modes` to its parser."""
    add_equilibrium(parser)
    parser.add_argument("--film", type=Path, metavar="FILE", help="write a film of a mode: .gif, .html or .mp4")
    parser.add_argument("--mode", type=whole_number(1), default=1, metavar="K", help="mode to film, from 1; 1")


def run(args) -> Report:
    """Find the equilibrium of a model and its modes, report them, and write a film."""
    model = read_model(args)
    with working("finding the equilibrium"):
        rest = equilibrium_of(args, model)
    values = {
        "name": model.name or args.model.stem,
        "equilibrium": status_names(rest.status),
        "stability": rest.stability,
    }
    if rest.status not in (mbs.Status.CONVERGED, mbs.Status.SINGULAR):
        return Report(values, FAILED)
    with working("finding the modes"):
        modes = mbs.modes(model, rest.q, args.time)
    if args.film is not None and args.mode > len(modes.frequencies):
        raise ValueError(f"--mode {args.mode}: there are {len(modes.frequencies)} modes")
    frequencies, damping = np.asarray(modes.frequencies), np.asarray(modes.damping)
    # The eigenvalue of a motion that nothing holds is a double zero, which rounding splits by its square root.
    held = frequencies > np.finfo(frequencies.dtype).eps ** 0.4 * np.max(frequencies, initial=0)
    values |= {
        "status": status_names(modes.status),
        "frequencies": without_noise(np.where(held, frequencies, 0), np.max(frequencies, initial=0)),
        "damping ratios": without_noise(np.where(held, damping, 0), 1),
    }
    good = modes.status == mbs.Status.CONVERGED
    if args.film is not None and good:
        with working("drawing the film"):
            values["written"] = modes.animate(args.mode - 1, args.film)
    return Report(values, OK if good else FAILED)
