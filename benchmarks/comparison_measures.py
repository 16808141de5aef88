"""Measures of the tools of `comparison`: times and errors."""

import comparison_problem as problem
import numpy as np
import timing
from comparison_problem import BATCH, CHECKED, NOMINAL, TURN
from timing import AccuracyRun, cpu_seconds

# Numbers of steps of the falling four-bar, each the double of the one before.
DOUBLED = tuple(50 * 2**k for k in range(8))
# Links of the chain in the comparison of tools.
LINKS = 8
# Reason given on the page why JaxSim has no four-bar.
WELDS = (
    "not measured, because it closes loops only by welds of frames in its contact model, and this benchmark has no such "
    "model of the four-bar"
)
# Reason given on the page why tools for robots have no kinematics of a loop.
PLANS = "no kinematic analysis of closed loops; the user would have to write Newton's method"
# Step in lengths (m) of the central differences for tools without derivatives.
SLOPE_STEP = 1e-5


def accuracy_runs(prepare, wanted, steps=DOUBLED) -> list[AccuracyRun]:
    """Measure accuracy runs of the fall with several numbers of steps; `wanted` is the angle to compare with.

    `prepare(steps)` returns a run and its number of motions. The run returns the crank's angle for each of `wanted`, NaN
    if it failed; failed runs are left out.
    """
    found = []
    for count in steps:
        run, motions = prepare(count)
        error = float(np.max(np.abs(np.asarray(run()) - wanted)))
        if np.isfinite(error):
            found.append(AccuracyRun(count, error, cpu_seconds(run) / motions))
    return found


def differences(run, step=SLOPE_STEP) -> dict:
    """Measure slopes by central differences of `run(lengths)`, which returns the crank's angle."""

    def slopes():
        """Return the derivatives by the four lengths."""
        return np.array([run(NOMINAL + e) - run(NOMINAL - e) for e in step * np.eye(4)]) / (2 * step)

    return {"error": slope_error(slopes()), "ms": 1e3 * cpu_seconds(slopes, 3), "how": "central differences, 8 motions"}


def slope_error(found) -> float:
    """Return the error of slopes relative to the largest one."""
    wanted = np.array(WANTED["slopes"])
    return float(np.abs(np.asarray(found) - wanted).max() / np.abs(wanted).max())


# Reference answers by task, filled in by `comparison` before tools are measured.
WANTED: dict = {}


def turn_error(tips) -> float:
    """Return the largest error (m) over a turn of the pin between coupler and rocker, from its places (360, 2)."""
    return float(np.abs(tips[:, 0] + 1j * tips[:, 1] - problem.tips(NOMINAL, TURN)[1]).max())


def chain(jax, run, batch) -> dict:
    """Measure a JAX function from the joint angles of a batch of chains at the start to those at the end."""
    import chains

    angles = chains.angles_of(LINKS, BATCH)[:batch]
    compiled, seconds = timing.compile_function(jax.vmap(run), angles)
    ends = np.asarray(compiled(angles))[:CHECKED]
    error = float(np.abs(ends - WANTED["chain"][: len(ends)]).max())
    ns = timing.NS * cpu_seconds(lambda: jax.block_until_ready(compiled(angles)), 3) / batch / chains.STEPS
    key, how = ("ns alone", "one system") if batch == 1 else ("ns", f"a batch of {batch:,}")
    return {key: ns, "error": error, "compile s": seconds, "how": how}
