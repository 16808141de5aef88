"""Work and precision: error against processor time by method and step, beside other simulators if installed.

One motion at a time on one core, compiled before; the time is processor time, the median of several runs. Every tool
simulates the same motion with steps that are halved again and again.
"""

import jax
import numpy as np
from timing import AccuracyRun, cpu_seconds

import jaxmbs as mbs
import spatial_problems
from dynamic_problems import andrews, andrews_angles, andrews_start
from linkages import reference
from verification import peer_curves
from verification.curves import Curve, MotionProblem


def doubling_steps(first: int, count: int) -> tuple[int, ...]:
    """Return numbers of steps, each the double of the one before."""
    return tuple(first * 2**k for k in range(count))


def andrews_problem() -> MotionProblem:
    """Return the problem of the angles of Andrews' mechanism after 0.03 s, against the printed ones."""
    given = reference("andrews")
    length, absolute = given["parameters"]["lengths_m"], lambda q: np.array(list(andrews_angles(q).values()))
    wanted = absolute(given["reference_at_t_0.03"]["q"])
    start = lambda: (andrews(length), andrews_start(length, andrews_angles(given["q_initial"])), None)
    error = lambda run: abs(run.q[-1, 2::3] - wanted).max()
    return MotionProblem("Andrews' squeezing mechanism, 0.03 s", "rad", start, 0.03, error, doubling_steps(200, 4))


def slider_crank_problem() -> MotionProblem:
    """Return the problem of the slider of the spatial slider-crank after 1 s, against the table."""
    given = reference("spatial_slider_crank")
    rows = given["rows_centre_of_mass_at_pivot"]

    def start():
        """Return mechanism, poses and velocities at the start."""
        mech, poses = spatial_problems.slider_crank()
        return mech, poses, {"crank.wx": rows[0][4]}

    error = lambda run: abs(run.position("slider.x")[-1] - rows[-1][1])
    return MotionProblem("Spatial slider-crank, 1 s", "m", start, rows[-1][0], error, doubling_steps(125, 4))


# The formulation in joint coordinates, which several curves share.
JOINTS = mbs.JointCoordinates()
# Options of `simulate` and number of samples, by label of a curve of jaxmbs.
JAXMBS_OPTIONS = {
    "RK4": ({}, 1),
    "RK4, joint coordinates": ({"formulation": JOINTS}, 1),
    "RK4, joint coordinates, in a batch of 64": ({"formulation": JOINTS}, 64),
    "generalized-α": ({"method": mbs.GeneralizedAlpha(0.9)}, 1),
    "semi-implicit Euler": ({"method": mbs.SemiImplicitEuler()}, 1),
    "adaptive": ({}, 1),
}
# Relative tolerances of the adaptive method, one for each point of its curve.
TOLERANCES = (1e-4, 1e-6, 1e-8, 1e-10)


def own_point(problem: MotionProblem, batch: int, steps: int, **how) -> AccuracyRun | mbs.Status:
    """Measure a run of jaxmbs, per sample; return the worst status if a sample fails."""
    mech, q, v = problem.start()
    q, times = mech.coordinates(q), np.array([0.0, problem.end])
    # Named speeds are kept and the others made consistent. All samples are equal.
    start = mbs.simulate(mech, times[:1], q, v)

    def run(q, v):
        """Return the error and the status of a motion that starts with q and v."""
        motion = mbs.simulate(mech, times, q, v, **how)
        return problem.error(motion), motion.status[-1]

    states = start.q, start.v
    if batch == 1:
        states, function = (x[0] for x in states), jax.jit(run)
    else:
        states, function = (np.tile(x, (batch, 1)) for x in states), jax.jit(jax.vmap(run))
    compiled = function.lower(*(states := tuple(states))).compile()
    errors, status = compiled(*states)
    if np.any(status):
        return mbs.Status(int(np.max(status)))
    return AccuracyRun(
        steps, float(np.max(errors)), cpu_seconds(lambda: jax.block_until_ready(compiled(*states))) / batch
    )


def own_curve(problem: MotionProblem, label: str) -> Curve:
    """Measure a curve of jaxmbs."""
    how, batch = JAXMBS_OPTIONS[label]
    if label == "adaptive":
        runs = {
            f"a tolerance of {tol:.0e}": own_point(problem, 1, 0, method=mbs.Adaptive(tol, tol / 10))
            for tol in TOLERANCES
        }
    else:
        runs = {f"{n} steps": own_point(problem, batch, n, step=problem.end / n, **how) for n in problem.steps}
    jax.clear_caches()
    points = [found for found in runs.values() if isinstance(found, AccuracyRun)]
    failed = tuple(f"{run}: {found.name}" for run, found in runs.items() if isinstance(found, mbs.Status))
    return Curve("jaxmbs", label, points, failed=failed)


# Functions that return the problems of work and precision, by name.
PROBLEMS = {"andrews": andrews_problem, "slider_crank": slider_crank_problem}


def curve(name: str, label: str) -> Curve:
    """Measure a curve of a problem: a label of jaxmbs, or the name of another tool."""
    problem = PROBLEMS[name]()
    if label in JAXMBS_OPTIONS:
        return own_curve(problem, label)
    return peer_curves.peer_curve(label, *peer_curves.PEERS[name][label], problem)


def tasks() -> list[tuple[str, str]]:
    """Return (problem, label) of all curves."""
    return [(name, label) for name in PROBLEMS for label in (*JAXMBS_OPTIONS, *peer_curves.PEERS[name])]


def as_json(curves: dict[tuple[str, str], Curve]) -> list[dict]:
    """Return the problems with their curves for the results file."""
    tables = []
    for name, make in PROBLEMS.items():
        rows = [curves[task] for task in tasks() if task[0] == name]
        rows = [row._asdict() | {"points": [point._asdict() for point in row.points]} for row in rows]
        tables.append({"title": make().title, "unit": make().unit, "curves": rows})
    return tables
