"""`jaxmbs sweep`: quantities of the motion of very many variants of a model, in a store."""

from __future__ import annotations

import argparse
import re
import threading
from pathlib import Path

import jaxmbs as mbs
from jaxmbs.cli.main import halt_on_interrupt
from jaxmbs.cli.motion import motion_of
from jaxmbs.cli.options import (
    MAX_DESIGNS,
    add_integrator,
    add_model,
    add_times,
    add_tolerance,
    read_model,
    whole_number,
)
from jaxmbs.cli.recorded import recorder
from jaxmbs.cli.report import FAILED, INTERRUPTED, OK, Report, working
from jaxmbs.cli.varied import check_values, distribution_of, extremes, place_of, with_number
from jaxmbs.dynamics.quantities import MotionWithReactions
from jaxmbs.element import errors_of

# Samplers: option and name of the class in `jaxmbs.sweeps`.
SAMPLERS = {"random": "Random", "latin": "LatinHypercube", "sobol": "Sobol", "grid": "Grid"}
# Number of designs of a sweep without `--size`.
DEFAULT_SIZE = 1000
# Suffixes of the pictures that `jaxmbs sweep --summary` draws.
PICTURES = (".png", ".svg", ".pdf")
# Largest number of columns in the picture of a summary, results before designs; further ones are not drawn.
MAX_DRAWN_COLUMNS = 10


def arguments(parser) -> None:
    """Add the arguments of `jaxmbs sweep` to its parser."""
    add_model(parser, optional=True)
    parser.add_argument(
        "--vary", action="append", default=[], metavar="PLACE=VALUES",
        help="bodies.rod.mass=0.5:1.5 (uniform), constraints.A.point_j.0=normal:0.3,0.001, log:A:B, A:B:N or A,B,C",
    )  # fmt: skip
    parser.add_argument("--sampler", choices=SAMPLERS, default="random", help="sampling of the designs (random)")
    parser.add_argument(
        "--size",
        type=whole_number(1, MAX_DESIGNS),
        metavar="N",
        help=f"number of designs ({DEFAULT_SIZE}), not for grids",
    )
    parser.add_argument("--designs", type=Path, metavar="TABLE", help="CSV or Parquet file, a column for each place")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers (0)")
    parser.add_argument(
        "--record", action="append", default=[], metavar="QUANTITY",
        help='"max piston.x", "rms motor.effort", "peak acceleration.piston.x", "range point(rod,0.3,0).y", …',
    )  # fmt: skip
    add_times(parser, 101)
    add_integrator(parser)
    add_tolerance(parser)
    parser.add_argument("--batch", type=whole_number(1), metavar="N", help="samples at once; tuned by default")
    parser.add_argument(
        "--shard", type=parse_shard, default=(1, 1), metavar="K/N", help="only the K-th of N parts, for job arrays"
    )
    parser.add_argument("--output", type=Path, metavar="STORE", help="folder; the same command again continues there")
    parser.add_argument("--summary", type=Path, metavar="STORE", help="print quantiles of a store and draw a picture")
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="file of the picture of a summary, by default STORE.png"
    )
    parser.add_argument("--merge", type=Path, nargs="+", metavar="STORE", help="copy stores of one sweep into --output")


def run(args) -> Report:
    """Run a sweep of a model, or merge or summarise existing stores."""
    given = [name for name in ("summary", "merge") if getattr(args, name)]
    if given and (args.model or args.vary or args.record or len(given) > 1):
        raise ValueError(f"--{given[0]} reads existing stores: give no model, --vary or --record with it")
    if args.summary is not None:
        return _summary(args)
    if args.output is None:
        raise ValueError("--output is missing: give the folder of the results")
    if args.merge:
        return _merge(args)
    if args.model is None:
        raise ValueError("MODEL is missing: give a file that ends in .json, .xml, .mjcf, .urdf or .sdf")
    return _sweep(args)


def parse_shard(text: str) -> tuple[int, int]:
    """Parse K/N, the k-th of n parts."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f"must be K/N with K from 1 to N, got {text}")
    return int(match[1]), int(match[2])


def _sweep(args) -> Report:
    """Run or continue the sweep of a model."""
    halt = threading.Event()
    with halt_on_interrupt(halt):
        designs, measure = _designs_and_measure(args)
        found = mbs.sweep(
            measure, designs, store=args.output, batch=args.batch, shard=args.shard, halt=halt, progress=not args.json
        )
    k, n = args.shard
    asked = found.size * k // n - found.size * (k - 1) // n
    stored = len(found) if n == 1 else asked - sum(_missing_lengths(found, k, n))
    values = {"store": found.folder, "samples": found.size, "stored": len(found), "status": found.statuses()}
    if n > 1:
        values["shard"] = {"stored": stored, "of": asked}
    if stored < asked:
        values["stopped"] = "run the same command again to continue"
        return Report(values, INTERRUPTED)
    return Report(values, OK)


def _missing_lengths(found, k: int, n: int) -> list[int]:
    """Return the lengths of the ranges that a shard still misses."""
    start, stop = found.size * (k - 1) // n, found.size * k // n
    return [max(0, min(b, stop) - max(a, start)) for a, b in found.missing]


def _designs_and_measure(args):
    """Return the designs, and the measure of one design."""
    model = read_model(args)
    designs, varied = _designs(args)
    with errors_of("--vary"):
        places = {path: place_of(model, path) for path in varied}
    for path, steps in places.items():
        with errors_of(f"--vary {path}"):
            check_values(model, steps, extremes(varied[path], designs.size))
    if not args.record:
        raise ValueError('--record is missing: give a quantity of the motion, such as "max piston.x"')
    with errors_of("--record"):
        records = {text: recorder(model, text) for text in args.record}

    def measure(design):
        """Return the recorded numbers of the motion of a model with the varied numbers of one design."""
        mech = model
        for path, steps in places.items():
            mech = with_number(mech, steps, design[path])
        seen = MotionWithReactions(mech, motion_of(args, mech))
        return {"status": seen.motion.status} | {text: record(seen) for text, record in records.items()}

    measure.__qualname__ = f"{model.name or args.model.stem}: {'; '.join(args.record)}"
    return designs, measure


def _designs(args):
    """Return the designs, mappings of places to numbers, and the distribution or values of each place."""
    if (args.designs is None) == (not args.vary):
        raise ValueError("give either --vary, as in --vary bodies.rod.mass=0.5:1.5, or --designs")
    if args.designs is not None:
        if args.size is not None or args.sampler != "random":
            raise ValueError("--designs takes neither --size nor --sampler: each row of the table is a design")
        designs = mbs.sweeps.table(args.designs)
        return designs, designs.tree
    grid, varied = args.sampler == "grid", {}
    for text in args.vary:
        path, sign, spec = text.partition("=")
        if not sign or not path or path in varied:
            raise ValueError(f"--vary {text}: give each place once, as in bodies.rod.mass=0.5:1.5")
        with errors_of(f"--vary {path}"):
            varied[path] = distribution_of(spec, grid)
    if grid:
        if args.size is not None:
            raise ValueError("--sampler grid takes no --size: it has all combinations of the values")
        return mbs.sweeps.Grid(varied), varied
    sampler = getattr(mbs.sweeps, SAMPLERS[args.sampler])
    return sampler(varied, args.size or DEFAULT_SIZE, args.seed), varied


def _merge(args) -> Report:
    """Merge the stores of `--merge` into that of `--output`, and report its samples and those that are missing."""
    with working("merging"):
        found = mbs.sweeps.merge(args.merge, args.output)
    missing = [f"{a} to {b - 1}" for a, b in found.missing]
    values = {"store": found.folder, "samples": found.size, "stored": len(found), "missing": missing}
    return Report(values, FAILED if missing else OK)


def _summary(args) -> Report:
    """Report statuses and quantiles of the store of `--summary`, and draw its columns against each other."""
    found = mbs.sweeps.Results(args.summary)
    picture = args.picture or args.summary.resolve().with_suffix(".png")
    if picture.suffix.lower() not in PICTURES or not picture.parent.is_dir():
        raise ValueError(
            f"{picture}: the name of a picture must end in {', '.join(PICTURES)}, and its folder must exist"
        )
    with working("reading"):
        rows = [{"column": name} | numbers for name, numbers in found.quantiles().items()]
        statuses = found.statuses()
    values = {"store": found.folder, "samples": found.size, "stored": len(found), "status": statuses}
    if not rows:
        return Report(values)
    with working("drawing"):
        counts = ", ".join(f"{count:,} {name}" for name, count in statuses.items())
        columns, status = found.thinned(mbs.viz.MAX_POINTS)
        results = [name for name in columns if not name.startswith("design.")][:MAX_DRAWN_COLUMNS]
        designs = [name for name in columns if name.startswith("design.")][: MAX_DRAWN_COLUMNS - len(results)]
        chosen = {name: columns[name] for name in (*designs, *results)}
        mbs.viz.scatter_matrix(chosen, status, title=counts).savefig(picture)
    return Report(values | {"quantiles": rows, "written": picture})
