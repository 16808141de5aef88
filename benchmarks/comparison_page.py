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
writes this page. Errors are differences from a reference solution: a closed form for positions, a motion that SciPy
integrates from Lagrange's equation in one coordinate for the four-bar, and Pinocchio's motion for the chain. Problems
with published numbers are on the page [Published problems](verification.md), times on GPUs on the page [On
GPUs](gpus.md). Times on [other pages](programs.md#how-fast) are of other runs and settings, which
differ by up to a factor of two.
`benchmarks/loops/README.md` compares tools on six mechanisms in space with one to seven loops.

The four-bar has uniform bars of 1, 3 and 2.5 m with 1 kg/m, and pivots 3.5 m apart. A *batch* has {batch:,} four-bars,
with bars within 5 % of these lengths. Times in a batch are divided by the number of its mechanisms. If a table does not
say *batch*, one mechanism is computed at a time. Compilation is not counted, except in [The first
result](#the-first-result)."""

# Text of the section on the kinematics of a turn.
TURN = """\
## Following a closed loop

The crank of a four-bar turns once, in 360 poses. The error is the largest distance of the pin between coupler and
rocker from its closed form. Times are for one pose. With fewer poses, as on other pages, a pose of a batch takes
less time, because the results need less memory. The last column is for the gradient by the lengths of a sum of
squared positions, in a batch of {batch:,}."""

# Text of the section on the fall of a four-bar.
FALL = """\
## A motion at equal error

The four-bar falls from rest for 1 s. Every tool simulates this motion with 50, 100, 200, … steps. The error is that of
the final angle of the crank. The table has the time in milliseconds, and in brackets the number of steps, of the
cheapest run whose error is at most the bound at the head of the column. Where 50 steps are enough, fewer may be, too.

jaxmbs closes the loop to rounding in every step, and checks every sample. MuJoCo closes it by a soft constraint, the
equality `connect`, here with the stiffness that gives the smallest error. Pinocchio solves the constraint for
accelerations, and does not correct the drift of positions."""

# Text of the section on the fall of a chain.
CHAIN = """\
## An open chain

A chain of eight rods in a plane is simulated for 100 steps of 1 ms by the classical Runge–Kutta method. The table has
the nanoseconds of one step of one chain, and the largest difference of a joint angle from the result of Pinocchio."""

# Text of the section on derivatives.
SLOPES = """\
## A gradient by lengths

The final angle of the crank after a fall of 1 s in 400 steps is differentiated with respect to the four lengths. The
error is relative to the largest derivative. For tools without derivatives with respect to lengths, central differences
are taken, from two motions for each length."""

# Text of the section on the time of a first result.
FIRST = """\
## The first result

The table has the processor seconds of a new process that imports the tool, simulates one fall and ends. In this time
jaxmbs also compiles a program for the mechanism. The second column is for a process that finds the compiled program on
disk, as with `mbs.enable_cache()`."""

# Text of the section on path synthesis.
PATH = """\
## Synthesis

A four-bar whose coupler point passes eighteen points at given crank angles is searched for (Kunjur and Krishnamurty,
1997), with lengths up to 2 and positions within ±2 (*narrow bounds*). pylinkage uses a particle swarm, once as in its
documentation (*documented*) and once with its batched solver (*batched*). jaxmbs uses least squares from several random
initial designs (*starts*). *As good as batched* and *as good as documented* are the runs with the fewest starts whose
error is at most that of this swarm. The error is the sum of squared distances; for jaxmbs it is the largest of ten seeds.
The first call of jaxmbs, which compiles, is not counted. A swarm is random: in another run it has other errors, see
[Published problems](synthesis/published_problems.md#beside-a-particle-swarm). pylinkage's syntheses by Burmester and
Freudenstein are for a few exact points, and are not compared."""

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
    within = [point for point in points if point.error <= level]
    if within:
        cheapest = min(within, key=lambda point: point.seconds)
        return f"{digits(1e3 * cheapest.seconds)} ({cheapest.steps:,})"
    return f"not reached (smallest error {min(p.error for p in points):.0e})" if points else "every run failed"


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
        ABOUT.format(batch=problem.BATCH),
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
    return f"""## When to use another tool

- **Contact, walking, grasping**: MuJoCo, or MJX for many at once.
- **Flexible bodies, large displacements of beams and cables**: Exudyn.
- **One evaluation at a time in a controller, in C++**: Pinocchio, with derivatives by states and torques in closed form.
  jaxmbs writes [C code](c_code.md) of a mechanism for controllers, also with closed loops.
- **A short time to the first result**: {quick} needs {soon} s, jaxmbs {ours} s (see [The first result](#the-first-result)).
- **Positions of a planar linkage of dyads (pairs of bars), one at a time**: pylinkage, whose closed forms need no solver.
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
