"""The page "Beside other tools" and its picture, from the results of `comparison`."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path

import comparison_problem as problem
import comparison_tools as tools
from timing import AccuracyRun, machine

# Folder of the documentation.
DOCS = Path(__file__).parent.parent / "docs"
# File of the page on the comparison of tools.
PAGE = DOCS / "comparison.md"
# File of the picture, relative to the page.
PICTURE = "images/comparison.png"
# Errors of the falling four-bar's final crank angle (rad) for which the page gives computing times.
LEVELS = (1e-3, 1e-5, 1e-7)

# Text at the top of the page.
ABOUT = """\
# Beside other tools

This page compares jaxmbs with other tools, task by task. `make comparison` measures every tool that can do a task, and
writes this page. The reference of each task is a closed form, or a motion that SciPy integrates from Lagrange's
equation in one coordinate; that of the chain is Pinocchio. Problems with published numbers are on the page [Known
problems](verification.md), times on GPUs on the page [On GPUs](gpus.md)."""

# Text of the section on the kinematics of a turn.
TURN = """\
## Following a closed loop

The crank of a four-bar turns once, in 360 poses. The error is the largest distance of the pin between coupler and
rocker from its closed form. Times are for one pose; a batch has {batch:,} four-bars of different lengths."""

# Text of the section on the fall of a four-bar.
FALL = """\
## A motion at equal error

The four-bar falls from rest for 1 s. Every tool repeats the motion with steps of half the length. The error is that of
the final angle of the crank. The table has the milliseconds of one motion with the longest steps whose error is below
the bound.

jaxmbs closes the loop to rounding at every output, and checks every sample. The constraint of MuJoCo is a stiff spring,
here with the most accurate stiffness. Pinocchio solves the constraint for accelerations, and does not correct the drift
of positions."""

# Text of the section on the fall of a chain.
CHAIN = """\
## An open chain

Eight rods in a plane move for 100 steps of 1 ms of the classical Runge–Kutta method. The table has nanoseconds for each
step of each system, and the largest difference of a joint angle from Pinocchio."""

# Text of the section on derivatives.
SLOPES = """\
## A gradient by lengths

The final angle of the crank after a fall of 400 steps is differentiated by the four lengths. The error is relative to
the largest derivative. Tools without derivatives by dimensions compute two motions for each length, for central
differences."""

# Text of the section on the time of a first result.
FIRST = """\
## The first result

Processor seconds of a new process that imports the tool, simulates one fall and ends. jaxmbs compiles a program for the
mechanism in this time. The second column is with compiled programs on disk, as after `mbs.enable_cache()`."""

# Text of the section on path synthesis.
PATH = """\
## Synthesis

A four-bar has to draw eighteen points at given crank angles (Kunjur and Krishnamurty, 1997), with lengths and positions
within ±2. pylinkage uses a particle swarm, once as in its documentation and once with its batched solver. jaxmbs uses
least squares from many starts. The error is the sum of squared distances; that of jaxmbs is the largest of ten seeds.
pylinkage's syntheses by Burmester and Freudenstein are for a few exact points, and are not compared."""

# Section on abilities that are not measured, from the documentation of the tools: tables with a column for each tool.
ABILITIES = Path(__file__).with_name("abilities.md").read_text().rstrip()
# Name of the Python package of each tool.
DISTRIBUTIONS = {name: tool.package for name, tool in tools.TOOLS.items()}


def version(name: str) -> str | None:
    """Return the version of a tool, None if it is not installed."""
    try:
        return version_of(DISTRIBUTIONS[name])
    except PackageNotFoundError:
        return None


def setting() -> dict:
    """Return the machine and the version of JAX."""
    return machine() | {"jax": version_of("jax")}


def digits(x: float) -> str:
    """Return a number with three digits."""
    return f"{x:.1e}" if x and not 1e-3 <= abs(x) < 1e6 else f"{x:,.0f}" if abs(x) >= 99.5 else f"{x:.3g}"


def table(results: dict, task: str, columns: dict[str, str]) -> str:
    """Return a table with a row for each tool, and the reasons of others below. `columns` maps keys to heads."""
    rows = [f"| tool | how | {' | '.join(columns.values())} |", "|---|---|" + "--:|" * len(columns)]
    for name, found in results["tools"].items():
        if "missing" in (result := found[task]):
            continue
        numbers = (digits(result[key]) if result.get(key) is not None else "–" for key in columns)
        rows.append(f"| {name} | {result.get('how', '')} | {' | '.join(numbers)} |")
    return "\n".join([*rows, "", *absent(results, task)])


def absent(results: dict, task: str) -> list[str]:
    """Return lines with the tools that took no part and their reasons."""
    reasons: dict[str, list[str]] = {}
    for name, found in results["tools"].items():
        if reason := found[task].get("missing"):
            reasons.setdefault(reason, []).append(name)
    return [f"- {', '.join(names)}: {reason}." for reason, names in reasons.items()]


def cost(points: list, level: float) -> str:
    """Return the computing time in ms of the cheapest run with at most an error `level`, else the smallest error."""
    points = [AccuracyRun(*point) for point in points]
    within = [point.seconds for point in points if point.error <= level]
    if within:
        return digits(1e3 * min(within))
    return f"not reached: {min(p.error for p in points):.0e}" if points else "every run failed"


def falls(results: dict) -> str:
    """Return the table of the fall: computing time at each error in `LEVELS`, a row for each method of a tool."""
    heads = " | ".join(f"{level:.0e} rad" for level in LEVELS)
    rows = [f"| tool | how | {heads} |", "|---|---|" + "--:|" * len(LEVELS)]
    for name, found in results["tools"].items():
        if "missing" not in found["fall"]:
            for how, points in found["fall"].items():
                rows.append(f"| {name} | {how} | {' | '.join(cost(points, level) for level in LEVELS)} |")
    return "\n".join([*rows, "", *absent(results, "fall")])


def paths(rows: list[dict]) -> str:
    """Return the table of path synthesis."""
    lines = ["| tool | error | seconds | starts, or particles × rounds |", "|---|--:|--:|--:|"]
    for row in rows:
        if "skipped" in row:
            lines.append(f"| {row['name']} | {row['skipped']} | | |")
            continue
        size = row["starts"] if "starts" in row else f"{row['particles']} × {row['iterations']}"
        lines.append(f"| {row['name']} | {digits(row['error'])} | {digits(row['seconds'])} | {size} |")
    return "\n".join(lines)


def text_of(results: dict) -> str:
    """Return the text of the page on the comparison of tools."""
    where = results["setting"]
    versions = ", ".join(f"{name} {found['version']}" for name, found in results["tools"].items())
    measured = (
        f"Measured on {where['date']} on one of {where['cores']} cores of {where['processor']}, {where['system']}; "
        f"Python {where['python']}, jax {where['jax']}; {versions}. The precision is double, and times are medians."
    )
    turn = {"error": "error (m)", "µs": "µs", "µs in a batch": "µs in a batch", "µs with gradient": "µs with gradient"}
    chain = {"ns alone": "ns alone", "ns": "ns in a batch", "error": "difference (rad)", "compile s": "compile s"}
    slopes = {"error": "error", "ms": "ms", "ms in a batch": "ms in a batch", "compile s": "compile s"}
    parts = [
        ABOUT,
        measured,
        TURN.format(batch=problem.BATCH),
        table(results, "turn", turn),
        FALL,
        f"![Error against time for one motion]({PICTURE})",
        falls(results),
        CHAIN,
        table(results, "chain", chain),
        SLOPES,
        table(results, "slopes", slopes),
        FIRST,
        table(results, "first", {"s": "s", "s, from the cache on disk": "s, programs on disk"}),
        PATH,
        paths(results.get("path", [])),
        ABILITIES,
        better(results),
    ]
    return "\n\n".join(parts) + "\n"


def better(results: dict) -> str:
    """Return the section on the strengths of other tools."""
    seconds = {name: found["first"]["s"] for name, found in results["tools"].items() if "s" in found["first"]}
    quick = min(seconds, key=seconds.get)
    soon, ours = digits(seconds[quick]), digits(seconds["jaxmbs"])
    return f"""## When to use another

- **Contact, walking, grasping**: MuJoCo, or MJX for many at once.
- **Flexible bodies, large displacements of beams and cables**: Exudyn.
- **One evaluation at a time in a controller, in C++**: Pinocchio, with derivatives by states and torques in closed form.
- **A short time to the first result**: {quick} needs {soon} s, jaxmbs {ours} s.
- **Positions of a planar linkage of dyads, one at a time**: pylinkage, whose closed forms need no solver.
- **Open chains of robots in a JAX program, with contact**: JaxSim.
- **Closed loops with contact, in large batches on a GPU**: Newton with Kamino.
- **Overconstrained spatial loops through given poses**: rational-linkages."""


def diagram(results: dict) -> None:
    """Draw the error of the fall against its computing time, a line for each method of a tool."""
    import matplotlib.pyplot as plt

    from jaxmbs.viz import style

    marks = dict(zip(tools.TOOLS, "os^vDPX", strict=True))
    figure, ax = plt.subplots(figsize=(7.6, 5.2), layout="constrained")
    style.tidy(ax, equal=False)
    own = 0
    for name, found in results["tools"].items():
        for how, points in found["fall"].items() if "missing" not in found["fall"] else ():
            mine = name == "jaxmbs"
            pairs = [(1e3 * point[2], point[1]) for point in points if point[1] < 1]
            look = {"color": style.colour_of(own) if mine else style.INK, "linestyle": "-" if mine else "--"}
            ax.plot(*zip(*pairs, strict=True), marks[name], label=f"{name}, {how}", **look, lw=1.5, ms=4.5)
            own += mine
    ax.set(xscale="log", yscale="log", xlabel="time of one motion (ms)", ylabel="error of the crank's angle (rad)")
    ax.minorticks_off()
    ax.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(DOCS / PICTURE, dpi=110, facecolor=style.PAPER)
    plt.close(figure)


def write(results: dict) -> None:
    """Write the page on the comparison of tools and its picture."""
    diagram(results)
    PAGE.write_text(text_of(results))
