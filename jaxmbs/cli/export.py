"""`jaxmbs export`: write functions of a model as C, or the model as a web page to drag."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import jaxmbs as mbs
from jaxmbs.cli.options import add_model, finite, read_model
from jaxmbs.cli.report import Report, working
from jaxmbs.cli.varied import check_values, number_at, place_of, with_number
from jaxmbs.element import errors_of


def arguments(parser) -> None:
    """Add the arguments of `jaxmbs export` to its parser."""
    add_model(parser)
    parser.add_argument("--c", type=Path, metavar="FOLDER", help="folder for the C code")
    parser.add_argument(
        "--functions",
        nargs="+",
        default=["kinematics"],
        metavar="NAME",
        help="one or more of kinematics, inverse_dynamics, jacobian, step (kinematics)",
    )
    parser.add_argument("--step", type=float, default=1e-3, help="length of a step in seconds (1e-3)")
    parser.add_argument("--name", help="first part of the names of functions and files (the name of the model file)")
    parser.add_argument("--html", type=Path, metavar="FILE", help="a web page with the mechanism to drag")
    parser.add_argument(
        "--point", nargs="+", metavar=("BODY", "X"), help="body and coordinates of the point whose curve the page draws"
    )
    parser.add_argument(
        "--vary", action="append", default=[], metavar="PLACE=LOW:HIGH",
        help="a slider of the page, in place of those for lengths, for a number: constraints.A.point_i.0=0.1:0.3",
    )  # fmt: skip


def run(args) -> Report:
    """Read a model, and write its functions or its page."""
    if args.c is None and args.html is None:
        raise ValueError("nothing to write: give --c FOLDER, --html FILE, or both")
    if args.html is None and (args.point or args.vary):
        raise ValueError("--point and --vary are for a page: give --html FILE")
    model = read_model(args)
    stem = re.sub(r"[^A-Za-z0-9]+", "_", args.model.name.partition(".")[0]).strip("_")
    name = args.name or (stem if stem[:1].isalpha() else f"model_{stem}")
    values = {"name": name}
    files = []
    if args.html is not None:
        with working("writing the page"):
            files.append(_write_page(model, args))
    if args.c is not None:
        with working("writing C code"):
            files += mbs.export_c(model, args.c, args.functions, guess=model.guess, step=args.step, name=name)
        values["functions"] = args.functions
    return Report(values | {"written": [str(file) for file in files]})


def _write_page(model, args) -> Path:
    """Write the page of a model."""
    point = None
    if args.point:
        body, *numbers = args.point
        try:
            point = (body, [finite(x) for x in numbers])
        except argparse.ArgumentTypeError as error:
            raise ValueError(f"--point: each coordinate {error}") from None
    title = getattr(model, "name", None) or args.model.stem
    if not args.vary:
        return mbs.export_html(model, args.html, guess=model.guess, point=point, title=title)
    design, places = {}, {}
    for text in args.vary:
        with errors_of("--vary"):
            path, (low, high) = _range(text)
            places[path] = place_of(model, path)
            check_values(model, places[path], (low, high))
            design[path] = (low, high, number_at(model, places[path]))

    def build(numbers):
        """Return the model with other numbers."""
        varied = model
        for path, value in numbers.items():
            varied = with_number(varied, places[path], value)
        return varied

    return mbs.export_html(build, args.html, guess=model.guess, design=design, point=point, title=title)


def _range(text: str) -> tuple[str, tuple[float, float]]:
    """Return the path to a number and its range, from a text such as "bodies.rod.mass=0.5:1.5"."""
    path, _, values = text.partition("=")
    try:
        low, high = map(float, values.split(":"))
    except ValueError:
        raise ValueError(f"must be PLACE=LOW:HIGH, got {text!r}") from None
    return path, (low, high)
