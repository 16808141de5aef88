"""Work and precision: error against processor time by method and step, beside other simulators where they are installed.

One motion at a time on one core, compiled before; the time is that of the processor, the median of several runs. Every tool
simulates the same motion with steps that are halved again and again.
"""

import jax
import numpy as np
from timing import cpu_seconds

import jaxmbs as mbs
import spatial_problems
from dynamic_problems import andrews, andrews_angles, andrews_start
from linkages import reference
from verification import others
from verification.curves import Curve, Point, Problem


def doubled(first: int, count: int) -> tuple[int, ...]:
    return tuple(first * 2**k for k in range(count))


def andrews_problem() -> Problem:
    """Angles of Andrews' mechanism after 0.03 s, against the printed ones."""
    given = reference("andrews")
    length, absolute = given["parameters"]["lengths_m"], lambda q: np.array(list(andrews_angles(q).values()))
    wanted = absolute(given["reference_at_t_0.03"]["q"])
    start = lambda: (andrews(length), andrews_start(length, andrews_angles(given["q_initial"])), None)
    error = lambda run: abs(run.q[-1, 2::3] - wanted).max()
    return Problem("Andrews' squeezing mechanism, 0.03 s", "rad", start, 0.03, error, doubled(200, 4))


def slider_crank_problem() -> Problem:
    """The slider of the mechanism in space after 1 s, against the table."""
    given = reference("spatial_slider_crank")
    rows = given["rows_centre_of_mass_at_pivot"]

    def start():
        mech, poses = spatial_problems.slider_crank()
        return mech, poses, {"crank.wx": rows[0][4]}

    error = lambda run: abs(run.position("slider.x")[-1] - rows[-1][1])
    return Problem("Spatial slider-crank, 1 s", "m", start, rows[-1][0], error, doubled(125, 4))


# What is measured of ours: label ↦ options of `simulate`, and the number of samples of a batch.
JOINTS = mbs.JointCoordinates()
WAYS = {
    "RK4": ({}, 1),
    "RK4, joint coordinates": ({"formulation": JOINTS}, 1),
    "RK4, joint coordinates, in a batch of 64": ({"formulation": JOINTS}, 64),
    "generalized-α": ({"method": mbs.GeneralizedAlpha(0.9)}, 1),
    "semi-implicit Euler": ({"method": mbs.SemiImplicitEuler()}, 1),
    "adaptive": ({}, 1),
}
TOLERANCES = (1e-4, 1e-6, 1e-8, 1e-10)


def own_point(problem: Problem, batch: int, steps: int, **how) -> Point | mbs.Status:
    """One of our runs, per sample if there are several; the worst status if it is bad."""
    mech, q, v = problem.start()
    q, times = mech.coordinates(q), np.array([0.0, problem.end])
    # Speeds that are named are kept, and the others made to fit; all samples are the same.
    begun = mbs.simulate(mech, times[:1], q, v)

    def run(q, v):
        motion = mbs.simulate(mech, times, q, v, **how)
        return problem.error(motion), motion.status[-1]

    states = begun.q, begun.v
    if batch == 1:
        states, function = (x[0] for x in states), jax.jit(run)
    else:
        states, function = (np.tile(x, (batch, 1)) for x in states), jax.jit(jax.vmap(run))
    compiled = function.lower(*(states := tuple(states))).compile()
    errors, status = compiled(*states)
    if np.any(status):
        return mbs.Status(int(np.max(status)))
    return Point(steps, float(np.max(errors)), cpu_seconds(lambda: jax.block_until_ready(compiled(*states))) / batch)


def own_curve(problem: Problem, label: str) -> Curve:
    """Ours, in one way."""
    how, batch = WAYS[label]
    if label == "adaptive":
        runs = {
            f"a tolerance of {tol:.0e}": own_point(problem, 1, 0, method=mbs.Adaptive(tol, tol / 10))
            for tol in TOLERANCES
        }
    else:
        runs = {f"{n} steps": own_point(problem, batch, n, step=problem.end / n, **how) for n in problem.steps}
    jax.clear_caches()
    points = [found for found in runs.values() if isinstance(found, Point)]
    failed = tuple(f"{run}: {found.name}" for run, found in runs.items() if isinstance(found, mbs.Status))
    return Curve("jaxmbs", label, points, failed=failed)


PROBLEMS = {"andrews": andrews_problem, "slider_crank": slider_crank_problem}


def curve(name: str, label: str) -> Curve:
    """One of the curves of a problem, ours or that of a rival."""
    problem = PROBLEMS[name]()
    if label in WAYS:
        return own_curve(problem, label)
    return others.curve(label, *others.RIVALS[name][label], problem)


def tasks() -> list[tuple[str, str]]:
    """All curves: (problem, label), that of a rival is its name."""
    return [(name, label) for name in PROBLEMS for label in (*WAYS, *others.RIVALS[name])]


def kept(curves: dict[tuple[str, str], Curve]) -> list[dict]:
    """The problems with their curves, as they are written."""
    tables = []
    for name, make in PROBLEMS.items():
        rows = [curves[task] for task in tasks() if task[0] == name]
        rows = [row._asdict() | {"points": [point._asdict() for point in row.points]} for row in rows]
        tables.append({"title": make().title, "unit": make().unit, "curves": rows})
    return tables
