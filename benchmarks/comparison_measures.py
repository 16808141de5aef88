"""How the tools of `comparison` are measured, and how far off they are."""

import comparison_problem as problem
import numpy as np
import timing
from comparison_problem import BATCH, CHECKED, NOMINAL, TURN
from timing import AccuracyRun, cpu_seconds

# Numbers of steps of a second.
DOUBLED = tuple(50 * 2**k for k in range(8))
LINKS = 8
# Why tools take no part.
WELDS = (
    "not measured: it closes loops by welds of frames within its contact model, for which this comparison has no model of "
    "the four-bar"
)
PLANS = "no kinematic analysis of closed loops, for which one would write Newton's method oneself"
SLOPE_STEP = 1e-5


def points(prepare, wanted, steps=DOUBLED) -> list[AccuracyRun]:
    """prepare: number of steps ↦ (run, how many motions that is); run() gives a crank's angle for each of
    `wanted`, NaN where it failed. Runs with such an angle are left out."""
    found = []
    for count in steps:
        run, motions = prepare(count)
        error = float(np.max(np.abs(np.asarray(run()) - wanted)))
        if np.isfinite(error):
            found.append(AccuracyRun(count, error, cpu_seconds(run) / motions))
    return found


def differences(run, step=SLOPE_STEP) -> dict:
    """Slopes by central differences of run: lengths ↦ crank's angle."""

    def slopes():
        return np.array([run(NOMINAL + e) - run(NOMINAL - e) for e in step * np.eye(4)]) / (2 * step)

    return {"error": slope_error(slopes()), "ms": 1e3 * cpu_seconds(slopes, 3), "how": "central differences, 8 motions"}


def slope_error(found) -> float:
    """Relative to the largest."""
    wanted = np.array(WANTED["slopes"])
    return float(np.abs(np.asarray(found) - wanted).max() / np.abs(wanted).max())


# Filled by `comparison`: angles at the end of the nominal four-bar and of the first of the batch, and slopes.
WANTED: dict = {}


def turn_error(tips) -> float:
    """Of the pin between coupler and rocker, places (360, 2)."""
    return float(np.abs(tips[:, 0] + 1j * tips[:, 1] - problem.tips(NOMINAL, TURN)[1]).max())


def chain(jax, run, batch) -> dict:
    """Of a function of one sample: angles of the chain's joints at the start ↦ at the end."""
    import chains

    angles = chains.angles_of(LINKS, BATCH)[:batch]
    compiled, seconds = timing.compiled(jax.vmap(run), angles)
    ends = np.asarray(compiled(angles))[:CHECKED]
    error = float(np.abs(ends - WANTED["chain"][: len(ends)]).max())
    ns = timing.NS * cpu_seconds(lambda: jax.block_until_ready(compiled(angles)), 3) / batch / chains.STEPS
    key, how = ("ns alone", "one system") if batch == 1 else ("ns", f"a batch of {batch:,}")
    return {key: ns, "error": error, "compile s": seconds, "how": how}
