"""`jaxmbs export`: write functions of a model as C, or the model as an FMU."""

from __future__ import annotations

import re
from pathlib import Path

import jaxmbs as mbs
from jaxmbs.cli.options import add_model, read_model
from jaxmbs.cli.report import Report, working
from jaxmbs.cli.varied import number_at, place_of, with_number


def arguments(parser) -> None:
    """Add the arguments of `jaxmbs export` to its parser."""
    add_model(parser)
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--c", type=Path, metavar="FOLDER", help="folder for the C code")
    target.add_argument("--fmu", type=Path, metavar="FILE", help="FMU for co-simulation and model exchange")
    parser.add_argument(
        "--functions",
        nargs="+",
        default=["kinematics"],
        metavar="NAME",
        help="with --c, one or more of kinematics, inverse_dynamics, jacobian, step (kinematics)",
    )
    parser.add_argument("--step", type=float, default=1e-3, help="length of a step in seconds (1e-3)")
    parser.add_argument(
        "--name", help="with --c, first part of the names of functions and files (the name of the model file)"
    )
    parser.add_argument("--fmi", choices=("2.0", "3.0"), default="2.0", help="version of the FMU (2.0)")
    parser.add_argument(
        "--inputs", nargs="+", default=[], metavar="NAME", help="drivers and forces that are inputs of the FMU"
    )
    parser.add_argument(
        "--parameters", nargs="+", default=[], metavar="PATH",
        help="numbers that are parameters of the FMU: bodies.rod.mass, constraints.A.point_i.0, …",
    )  # fmt: skip
    parser.add_argument("--no-binary", action="store_true", help="an FMU of sources only, which needs no C compiler")


def run(args) -> Report:
    """Read a model and write its functions, or its FMU."""
    model = read_model(args)
    if args.fmu is not None:
        return _write_fmu(args, model)
    stem = re.sub(r"[^A-Za-z0-9]+", "_", args.model.name.partition(".")[0]).strip("_")
    name = args.name or (stem if stem[:1].isalpha() else f"model_{stem}")
    with working("writing C code"):
        files = mbs.export_c(model, args.c, args.functions, guess=model.guess, step=args.step, name=name)
    return Report({"name": name, "functions": args.functions, "written": [str(file) for file in files]})


def _write_fmu(args, model) -> Report:
    """Write the FMU of a model whose numbers at the paths `--parameters` are parameters."""
    places = {path: place_of(model, path) for path in args.parameters}

    def build(parameters):
        """Return the model with other numbers at the places."""
        changed = model
        for path, value in parameters.items():
            changed = with_number(changed, places[path], value)
        return changed

    with working("writing the FMU"):
        file = mbs.export_fmu(
            build,
            args.fmu,
            version=args.fmi,
            parameters={path: number_at(model, place) for path, place in places.items()},
            inputs=args.inputs,
            step=args.step,
            binary=not args.no_binary,
        )
    return Report({"version": args.fmi, "parameters": args.parameters, "inputs": args.inputs, "written": [str(file)]})
