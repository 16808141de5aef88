"""`jaxmbs export`: write functions of a model as C."""

from __future__ import annotations

import re
from pathlib import Path

import jaxmbs as mbs
from jaxmbs.cli.options import add_model, read_model
from jaxmbs.cli.report import Report, working


def arguments(parser) -> None:
    """Add the arguments of `jaxmbs export` to its parser."""
    add_model(parser)
    parser.add_argument("--c", type=Path, metavar="FOLDER", required=True, help="folder for the C code")
    parser.add_argument(
        "--functions",
        nargs="+",
        default=["kinematics"],
        metavar="NAME",
        help="one or more of kinematics, inverse_dynamics, jacobian, step (kinematics)",
    )
    parser.add_argument("--step", type=float, default=1e-3, help="length of a step in seconds (1e-3)")
    parser.add_argument("--name", help="first part of the names of functions and files (the name of the model file)")


def run(args) -> Report:
    """Read a model and write its functions."""
    model = read_model(args)
    stem = re.sub(r"[^A-Za-z0-9]+", "_", args.model.name.partition(".")[0]).strip("_")
    name = args.name or (stem if stem[:1].isalpha() else f"model_{stem}")
    with working("writing C code"):
        files = mbs.export_c(model, args.c, args.functions, guess=model.guess, step=args.step, name=name)
    return Report({"name": name, "functions": args.functions, "written": [str(file) for file in files]})
