"""`jaxmbs export`: write functions of a model as C, or the model as an FMU or as a web page to drag."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import jaxmbs as mbs
from jaxmbs.cli.options import add_model, finite, read_model
from jaxmbs.cli.report import Report, working
from jaxmbs.cli.varied import check_values, number_at, place_of, with_number
from jaxmbs.element import errors_of, require

# Default length of a step, in seconds.
STEP = 1e-3
# Options and the targets that they are for.
NEEDS = {
    "parameters": ("c", "fmu"), "step": ("c", "fmu"), "inputs": ("c", "fmu"), "functions": ("c",), "name": ("c",),
    "elementary": ("c",), "fmi": ("fmu",), "no_binary": ("fmu",), "vary": ("html",),
}  # fmt: skip


def arguments(parser) -> None:
    """Add the arguments of `jaxmbs export` to its parser."""
    add_model(parser)
    parser.add_argument("--c", type=Path, metavar="FOLDER", help="folder for the C code")
    parser.add_argument("--fmu", type=Path, metavar="FILE", help="an FMU for co-simulation and model exchange")
    parser.add_argument("--html", type=Path, metavar="FILE", help="a web page with the mechanism to drag")
    parser.add_argument(
        "--point", nargs="+", metavar=("BODY", "X"),
        help='body and coordinates of a point: an output "point" of C code and FMU, and the curve of the page',
    )  # fmt: skip
    parser.add_argument(
        "--parameters", nargs="+", default=[], metavar="PLACE",
        help="with --c and --fmu, numbers that are parameters: bodies.rod.mass, constraints.A.point_i.0, …",
    )  # fmt: skip
    parser.add_argument("--step", type=float, help="length of a step in seconds (1e-3)")
    parser.add_argument(
        "--functions", nargs="+", metavar="NAME",
        help="with --c, one or more of kinematics, inverse_dynamics, jacobian, step, linearisation (kinematics)",
    )  # fmt: skip
    parser.add_argument(
        "--name", help="with --c, first part of the names of functions and files (the name of the model file)"
    )
    parser.add_argument(
        "--elementary",
        choices=("libm", "own"),
        help="with --c, functions such as sine: of math.h (libm) or as in Python (own)",
    )
    parser.add_argument("--fmi", choices=("2.0", "3.0"), help="version of the FMU (2.0)")
    parser.add_argument(
        "--inputs", nargs="+", default=[], metavar="NAME",
        help="drivers and forces that are inputs of the FMU, and of the linearisation in C",
    )  # fmt: skip
    parser.add_argument("--no-binary", action="store_true", help="an FMU of sources only, which needs no C compiler")
    parser.add_argument(
        "--vary", action="append", default=[], metavar="PLACE=LOW:HIGH",
        help="with --html, a slider for a number, in place of those for lengths: constraints.A.point_i.0=0.1:0.3",
    )  # fmt: skip


def run(args) -> Report:
    """Read a model, and write what is asked for."""
    targets = {"C code": (args.c, _write_c), "the FMU": (args.fmu, _write_fmu), "the page": (args.html, _write_page)}
    require(
        any(path is not None for path, _ in targets.values()),
        "nothing to write: give --c FOLDER, --fmu FILE or --html FILE",
    )
    for option, needed in NEEDS.items():
        is_given = getattr(args, option) not in (None, [], False)
        if is_given and all(getattr(args, target) is None for target in needed):
            wanted = " or ".join(f"--{target}" for target in needed)
            raise ValueError(f"--{option.replace('_', '-')} is for {wanted}, which is not given")
    model, point, files = read_model(args), _point(args.point), []
    for what, (path, write) in targets.items():
        if path is not None:
            with working(f"writing {what}"):
                files += write(model, point, args)
    return Report({"written": [str(file) for file in files]})


def _write_c(model, point, args) -> list[Path]:
    """Write functions of a model as C."""
    stem = re.sub(r"[^A-Za-z0-9]+", "_", args.model.name.partition(".")[0]).strip("_")
    name = args.name or (stem if stem[:1].isalpha() else f"model_{stem}")
    places = {place: place_of(model, place) for place in args.parameters}
    functions = args.functions or ["kinematics"]
    options = {"guess": model.guess, "step": args.step or STEP, "linear_inputs": args.inputs, "name": name}
    options |= {"points": point, "elementary": args.elementary or "libm"}
    if not places:
        return mbs.export_c(model, args.c, functions, **options)
    return mbs.export_c(_with_numbers(model, places), args.c, functions, parameters=_numbers(model, places), **options)


def _write_fmu(model, point, args) -> list[Path]:
    """Write a model as an FMU."""
    places = {place: place_of(model, place) for place in args.parameters}
    options = {"version": args.fmi or "2.0", "inputs": args.inputs, "binary": not args.no_binary}
    options["step"] = args.step or STEP
    build, numbers = _with_numbers(model, places), _numbers(model, places)
    return [mbs.export_fmu(build, args.fmu, parameters=numbers, points=point, **options)]


def _write_page(model, point, args) -> list[Path]:
    """Write the page of a model."""
    title = getattr(model, "name", None) or args.model.stem
    options = {"guess": model.guess, "point": None if point is None else point["point"], "title": title}
    if not args.vary:
        return [mbs.export_html(model, args.html, **options)]
    design, places = {}, {}
    for text in args.vary:
        with errors_of("--vary"):
            name, (low, high) = _range(text)
            places[name] = place_of(model, name)
            check_values(model, places[name], (low, high))
            design[name] = (low, high, number_at(model, places[name]))
    return [mbs.export_html(_with_numbers(model, places), args.html, design=design, **options)]


def _with_numbers(model, places):
    """Return a function of numbers by place, such as {"bodies.rod.mass": 2.0}, that returns the model with them."""

    def build(numbers):
        """Return the model with other numbers."""
        varied = model
        for name, value in numbers.items():
            varied = with_number(varied, places[name], value)
        return varied

    return build


def _numbers(model, places):
    """Return the numbers of a model at places, by name."""
    return {name: number_at(model, place) for name, place in places.items()}


def _point(words):
    """Return the body and the coordinates of `--point` in a dict; None without it."""
    if words is None:
        return None
    body, *numbers = words
    try:
        return {"point": (body, [finite(x) for x in numbers])}
    except argparse.ArgumentTypeError as error:
        raise ValueError(f"--point: each coordinate {error}") from None


def _range(text: str) -> tuple[str, tuple[float, float]]:
    """Return the path to a number and its range, from a text such as "bodies.rod.mass=0.5:1.5"."""
    path, _, values = text.partition("=")
    try:
        low, high = map(float, values.split(":"))
    except ValueError:
        raise ValueError(f"must be PLACE=LOW:HIGH, got {text!r}") from None
    return path, (low, high)
