"""`jaxmbs convert`: write a model in another format."""

from __future__ import annotations

from pathlib import Path

import jaxmbs as mbs
from jaxmbs.cli.options import add_model, read_model
from jaxmbs.cli.report import Report


def arguments(parser) -> None:
    """Add the arguments of `jaxmbs convert` to its parser."""
    add_model(parser)
    parser.add_argument("output", type=Path, metavar="FILE", help="the file to write: .json, .xml or .mjcf, .urdf")


def run(args) -> Report:
    """Read a model and write it in the format of the output's suffix."""
    model = read_model(args)
    written = mbs.save(model, args.output, name=model.name or args.model.stem)
    values = {"name": model.name or args.model.stem, "bodies": len(model.bodies), "constraints": len(model.constraints)}
    return Report(values | {"drivers": len(model.drivers), "forces": len(model.forces), "written": written})
