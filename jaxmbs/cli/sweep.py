"""`jaxmbs sweep`: numbers of the motion of very many variants of a model, in a store that outlives the process."""

from __future__ import annotations

import argparse
import re
import threading
from pathlib import Path

from jaxmbs.cli.options import add_integrator, add_model, add_times, add_tolerance, designs_count, positive_count
from jaxmbs.cli.report import FAILED, INTERRUPTED, OK, Report, working

SAMPLERS = {"random": "Random", "latin": "LatinHypercube", "sobol": "Sobol", "grid": "Grid"}
# Designs, unless a number is given.
SIZE = 1000
# Suffixes of pictures, and the largest number of columns in one.
PICTURES, MAX_DRAWN = (".png", ".svg", ".pdf"), 10


def arguments(parser) -> None:
    add_model(parser, optional=True)
    parser.add_argument(
        "--vary", action="append", default=[], metavar="PLACE=HOW",
        help="bodies.rod.mass=0.5:1.5 (evenly), constraints.A.point_j.0=normal:0.3,0.001, log:A:B, A:B:N or A,B,C",
    )  # fmt: skip
    parser.add_argument("--sampler", choices=SAMPLERS, default="random", help="how designs are spread (random)")
    parser.add_argument("--size", type=designs_count, metavar="N", help=f"number of designs ({SIZE}), unless of a grid")
    parser.add_argument("--designs", type=Path, metavar="TABLE", help="CSV or Parquet: a column for each place")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (0)")
    parser.add_argument(
        "--record", action="append", default=[], metavar="WHAT",
        help='"max piston.x", "rms motor.effort", "peak acceleration.piston.x", "range point(rod,0.3,0).y", …',
    )  # fmt: skip
    add_times(parser, 101)
    add_integrator(parser)
    add_tolerance(parser)
    parser.add_argument(
        "--batch", type=positive_count, metavar="N", help="samples at once; found by trials unless given"
    )
    parser.add_argument(
        "--shard", type=shard, default=(1, 1), metavar="K/N", help="the K-th of N parts, for job arrays"
    )
    parser.add_argument("--output", type=Path, metavar="STORE", help="the folder; the same command again goes on there")
    parser.add_argument("--summary", type=Path, metavar="STORE", help="quantiles of a store, and a picture of it")
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="of a summary, by default that of the store with .png"
    )
    parser.add_argument("--merge", type=Path, nargs="+", metavar="STORE", help="copy stores of one sweep into --output")


def run(args) -> Report:
    given = [name for name in ("summary", "merge") if getattr(args, name)]
    if given and (args.model or args.vary or args.record or len(given) > 1):
        raise ValueError(
            f"--{given[0]} is of a store that is there: give no model, nothing to vary, and nothing else to do"
        )
    if args.summary is not None:
        return _summary(args)
    if args.output is None:
        raise ValueError("--output is missing: the folder of the results")
    if args.merge:
        return _merged(args)
    if args.model is None:
        raise ValueError("a model is missing: a file that ends in .json, .xml, .mjcf or .urdf")
    return _sweep(args)


def shard(text: str) -> tuple[int, int]:
    """The k-th of n parts."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f"must be K/N with K from 1 to N, got {text}")
    return int(match[1]), int(match[2])


def _sweep(args) -> Report:
    import jaxmbs as mbs
    from jaxmbs.cli.main import patient

    halt = threading.Event()
    with patient(halt):
        designs, measure = _study(args)
        found = mbs.sweep(
            measure, designs, store=args.output, batch=args.batch, shard=args.shard, halt=halt, progress=not args.json
        )
    k, n = args.shard
    asked = found.size * k // n - found.size * (k - 1) // n
    stored = len(found) if n == 1 else asked - sum(_within(found, k, n))
    values = {"store": found.folder, "samples": found.size, "stored": len(found), "status": found.statuses()}
    if n > 1:
        values["shard"] = {"stored": stored, "of": asked}
    if stored < asked:
        values["stopped"] = "the same command again goes on"
        return Report(values, INTERRUPTED)
    return Report(values, OK)


def _within(found, k: int, n: int) -> list[int]:
    """Lengths of what a shard still misses."""
    start, stop = found.size * (k - 1) // n, found.size * k // n
    return [max(0, min(b, stop) - max(a, start)) for a, b in found.missing]


def _study(args):
    """Designs, and the function that measures one."""
    from jaxmbs.cli.motion import motion_of
    from jaxmbs.cli.options import read_model
    from jaxmbs.cli.recorded import recorder
    from jaxmbs.cli.varied import check_values, extremes, place_of, with_number
    from jaxmbs.dynamics.quantities import MotionWithReactions

    model = read_model(args)
    designs, varied = _designs(args)
    places = {path: _named("--vary", place_of, model, path) for path in varied}
    for path, steps in places.items():
        _named(f"--vary {path}", check_values, model, steps, extremes(varied[path], designs.size))
    if not args.record:
        raise ValueError('--record is missing: what to keep of each motion, such as "max piston.x"')
    records = {text: _named("--record", recorder, model, text) for text in args.record}

    def measure(design):
        mech = model
        for path, steps in places.items():
            mech = with_number(mech, steps, design[path])
        seen = MotionWithReactions(mech, motion_of(args, mech))
        return {"status": seen.motion.status} | {text: record(seen) for text, record in records.items()}

    measure.__qualname__ = f"{model.name or args.model.stem}: {'; '.join(args.record)}"
    return designs, measure


def _designs(args):
    """The designs, a mapping of places to numbers, and how each place varies."""
    import jaxmbs as mbs
    from jaxmbs.cli.varied import distribution_of

    if (args.designs is None) == (not args.vary):
        raise ValueError("give either --vary, as in --vary bodies.rod.mass=0.5:1.5, or --designs")
    if args.designs is not None:
        if args.size is not None or args.sampler != "random":
            raise ValueError("--size and --sampler are not for --designs: a table has its own rows")
        designs = mbs.sweeps.table(args.designs)
        return designs, designs.tree
    grid, varied = args.sampler == "grid", {}
    for text in args.vary:
        path, sign, how = text.partition("=")
        if not sign or not path or path in varied:
            raise ValueError(f"--vary {text}: give each place once, as in bodies.rod.mass=0.5:1.5")
        varied[path] = _named(f"--vary {path}", distribution_of, how, grid)
    if grid:
        if args.size is not None:
            raise ValueError("--size is not for a grid, whose size is the product of its axes")
        return mbs.sweeps.Grid(varied), varied
    sampler = getattr(mbs.sweeps, SAMPLERS[args.sampler])
    return sampler(varied, args.size or SIZE, args.seed), varied


def _named(option: str, function, *given):
    """A function whose errors say which option they are about."""
    try:
        return function(*given)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None


def _merged(args) -> Report:
    import jaxmbs as mbs

    with working("merging"):
        found = mbs.sweeps.merge(args.merge, args.output)
    missing = [f"{a} to {b - 1}" for a, b in found.missing]
    values = {"store": found.folder, "samples": found.size, "stored": len(found), "missing": missing}
    return Report(values, FAILED if missing else OK)


def _summary(args) -> Report:
    import jaxmbs as mbs

    found = mbs.sweeps.Results(args.summary)
    picture = args.picture or args.summary.resolve().with_suffix(".png")
    if picture.suffix.lower() not in PICTURES or not picture.parent.is_dir():
        raise ValueError(f"{picture}: a picture ends in {', '.join(PICTURES)}, in a folder that is there")
    with working("reading"):
        rows = [{"column": name} | numbers for name, numbers in found.quantiles().items()]
        statuses = found.statuses()
    values = {"store": found.folder, "samples": found.size, "stored": len(found), "status": statuses}
    if not rows:
        return Report(values)
    with working("drawing"):
        counts = ", ".join(f"{count:,} {name}" for name, count in statuses.items())
        columns, status = found.thinned(mbs.viz.MAX_POINTS)
        results = [name for name in columns if not name.startswith("design.")][:MAX_DRAWN]
        designs = [name for name in columns if name.startswith("design.")][: MAX_DRAWN - len(results)]
        chosen = {name: columns[name] for name in (*designs, *results)}
        mbs.viz.scatter_matrix(chosen, status, title=counts).savefig(picture)
    return Report(values | {"quantiles": rows, "written": picture})
