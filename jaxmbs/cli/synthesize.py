"""`jaxmbs synthesize`: a linkage for a path, a function or a set of poses."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from jaxmbs.cli.options import positive_count
from jaxmbs.cli.report import Report, working

TASKS = ("path", "function", "motion")
MODELS = (".model.json",)


def arguments(parser) -> None:
    parser.add_argument("task", choices=TASKS, help="what the linkage has to do")
    parser.add_argument(
        "targets", type=Path, metavar="TABLE",
        help="CSV, one line each: x, y of points, with a third column their crank angles in degrees (path); x, y of a "
        "function; x, y and the angle of a body in degrees (motion). A first line of words is left out.",
    )  # fmt: skip
    parser.add_argument("--mechanism", default="four-bar", help="four-bar, slider-crank, Watt I, Stephenson III, …")
    parser.add_argument("--closed", action="store_true", help="path: the points go all round a closed curve")
    parser.add_argument("--lower", type=float, help="of all lengths")
    parser.add_argument("--upper", type=float, help="of all lengths")
    parser.add_argument("--transmission-angle", type=float, metavar="DEGREES", help="the least that is allowed")
    parser.add_argument(
        "--output-span", type=float, metavar="X", help="function: of the rocker in degrees, or the slide"
    )
    parser.add_argument("--input-span", type=float, metavar="DEGREES", help="function: of the crank")
    parser.add_argument("--starts", type=positive_count, help="number of random starts")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (0)")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="path: keep the search there, and go on from it")
    parser.add_argument(
        "--output", type=Path, action="append", default=[], metavar="FILE",
        help="write the best one: .svg or .dxf drawing, .csv path, .json numbers, .gif or .html film, .model.json model",
    )  # fmt: skip


def run(args) -> Report:
    import jaxmbs as mbs

    # Before the search, so that nothing is lost after it.
    known = (".json", ".csv", ".svg", ".dxf", ".gif", ".html", ".mp4")
    for path in args.output:
        if path.suffix.lower() not in known:
            raise ValueError(f"{path.name}: cannot be written; a name ends in {', '.join(known)}")
    table = read_table(args.targets)
    found = {"path": _path, "function": _function, "motion": _motion}[args.task](args, table)
    best = found.best
    for path in args.output:
        if path.name.endswith(MODELS):
            mbs.save(best.mechanism, path, guess=best.guess, name=path.name.removesuffix(MODELS[0]))
        else:
            mbs.io.export(best, path)
    rows = [{"rank": k + 1, "error": one.error, **one.checks} for k, one in enumerate(found.all)]
    design = {name: value for name, value in best.design.items() if value is not None}
    values = {"mechanism": args.mechanism, "error": best.error, "design": design, "checks": best.checks, "all": rows}
    return Report(values | ({"written": args.output} if args.output else {}))


def read_table(path: Path):
    """The numbers of a CSV file.

    Raises:
        ValueError: something in it is no finite number, or lines are of different lengths.
    """
    import numpy as np

    rows: list[list[float]] = []
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path.name}: is no text in UTF-8") from None
    for k, line in enumerate(text.splitlines(), 1):
        words = line.replace(";", ",").replace("\t", ",").split(",") if line.strip() else []
        if not words or line.lstrip().startswith("#"):
            continue
        try:
            row = [float(word) for word in words]
        except ValueError:
            if rows or k > 1:
                raise ValueError(f"{path.name}, line {k}: must be numbers, got {line.strip()[:40]!r}") from None
            continue
        if not all(map(math.isfinite, row)):
            raise ValueError(f"{path.name}, line {k}: numbers must be finite")
        if rows and len(row) != len(rows[0]):
            raise ValueError(f"{path.name}, line {k}: {len(row)} numbers, the lines before it have {len(rows[0])}")
        rows.append(row)
    if not rows:
        raise ValueError(f"{path.name}: there is no number in it")
    return np.array(rows)


def _options(args) -> dict[str, Any]:
    options = {"mechanism": args.mechanism, "lower": args.lower, "upper": args.upper, "seed": args.seed}
    more = {"starts": args.starts, "transmission_angle": args.transmission_angle}
    return options | {name: value for name, value in more.items() if value is not None}


def _columns(table, counts: tuple[int, ...], what: str) -> None:
    if table.shape[1] not in counts:
        raise ValueError(f"{what} have {' or '.join(map(str, counts))} columns, got {table.shape[1]}")


def _only(args, task: str, *names: str) -> None:
    """Refuse what is for other tasks."""
    for name in names:
        if getattr(args, name.replace("-", "_")) not in (None, False):
            raise ValueError(f"--{name} is not for {task}")


def _path(args, table):
    import numpy as np

    import jaxmbs as mbs

    _only(args, "path", "output-span", "input-span")
    _columns(table, (2, 3), "points of a path")
    angles = np.deg2rad(table[:, 2]) if table.shape[1] == 3 else None
    report = mbs.viz.progress_bar("path")
    try:
        return mbs.synthesis.path(
            table[:, :2],
            crank_angles=angles,
            closed=args.closed,
            progress=report,
            resume=args.resume,
            **_options(args),
        )
    finally:
        report.close()


def _function(args, table):
    import jax
    import jax.numpy as jnp
    import numpy as np

    import jaxmbs as mbs

    _only(args, "function", "closed", "resume")
    _columns(table, (2,), "points of a function")
    if args.output_span is None:
        raise ValueError("--output-span is missing: by how much the output moves")
    table = table[np.argsort(table[:, 0])]
    if len(table) < 4 or np.any(np.diff(table[:, 0]) <= 0):
        raise ValueError("a function needs at least 4 points with different x")
    x, y = (jnp.asarray(column) for column in table.T)
    spline = mbs.motion.Spline(x, y)
    curve = jax.jit(lambda at: spline(at))
    slides = args.mechanism == "slider-crank"
    spans: dict[str, Any] = {"output_span": args.output_span if slides else math.radians(args.output_span)}
    if args.input_span is not None:
        spans["input_span"] = math.radians(args.input_span)
    with working("function"):
        return mbs.synthesis.function(
            lambda x: curve(jnp.asarray(x)), (float(x[0]), float(x[-1])), **spans, **_options(args)
        )


def _motion(args, table):
    import numpy as np

    import jaxmbs as mbs

    _only(args, "motion", "closed", "resume", "output-span", "input-span")
    _columns(table, (3,), "poses")
    poses = np.column_stack([table[:, :2], np.deg2rad(table[:, 2])])
    with working("motion"):
        return mbs.synthesis.motion(poses, **_options(args))
