"""Shared by commands that compute a motion: the analysis, and the motion as a table."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import jax
import numpy as np

import jaxmbs as mbs
from jaxmbs.cli.options import integrator_of, status_names, times_of
from jaxmbs.cli.report import FAILED, OK, Report, without_noise
from jaxmbs.dynamics.quantities import is_driven

# Suffixes of the tables that `--output` writes.
SUFFIXES = (".csv", ".json")


def motion_of(args, model):
    """Return the motion of a model, by kinematics if drivers determine it, else by simulation."""
    if is_driven(model):
        return mbs.kinematics(model, times_of(args), tolerance=args.tolerance)
    return mbs.simulate(model, times_of(args), tolerance=args.tolerance, **integrator_of(args))


def add_output(parser) -> None:
    """Add the option for the file of the table."""
    parser.add_argument(
        "--output", type=Path, metavar="FILE",
        help=f"the motion as a table, {' or '.join(SUFFIXES)}: times, coordinates, velocities, accelerations, status",
    )  # fmt: skip


def check_output(path: Path | None) -> None:
    """Raise `ValueError` if the suffix of a table is unknown."""
    if path is not None and path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{path.name}: the name of a table must end in {' or '.join(SUFFIXES)}")


def report_of(args, model, motion, **more) -> Report:
    """Return the report of a motion with `more` values by name, and write its table if `--output` is given."""
    from jaxmbs.io.files import write_text

    gaps = np.abs(jax.vmap(lambda q, t: mbs.constraints(model, q, t))(motion.q, motion.t))
    q = np.asarray(motion.q)
    last = dict(zip(model.layout.coordinates, without_noise(q[-1], np.max(np.abs(q), initial=1)), strict=True))
    values = {"name": model.name or args.model.stem, "until": args.until, "status": status_names(motion.status)}
    values |= more | {"largest gap": float(np.max(gaps, initial=0)), "last": last}
    if args.output is not None:
        write_text(args.output, _table(model, motion, args.output.suffix.lower()))
        values["written"] = args.output
    return Report(values, OK if not np.any(np.asarray(motion.status)) else FAILED)


def _table(model, motion, suffix: str) -> str:
    """Return a motion as the text of a CSV or JSON file."""
    layout = model.layout
    names = ["t", *layout.coordinates]
    names += [f"{kind}.{name}" for kind in ("velocity", "acceleration") for name in layout.velocities]
    parts = (motion.t[:, None], motion.q, motion.v, motion.a)
    rows = np.concatenate([np.asarray(part) for part in parts], axis=1).tolist()
    status = np.asarray(motion.status).tolist()
    if suffix == ".json":
        from jaxmbs.io.files import json_value

        columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        return json.dumps(json_value(columns | {"status": status}), allow_nan=False) + "\n"
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*names, "status"])
    writer.writerows([*row, code] for row, code in zip(rows, status, strict=True))
    return file.getvalue()
