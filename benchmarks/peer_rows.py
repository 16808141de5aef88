"""Rows of other simulators on the four-bars of `problem`, if installed: `pip install mujoco mujoco-mjx pin`.

They have three joint angles, and a point constraint that closes the loop at B. Each function takes a `RolloutProblem` and
returns a row, or one with the reason why there is none.
"""

import multiprocessing
import time
from functools import wraps

import numpy as np
import peers
import reference_kernel
import timing

# MJX is stopped if it takes longer than this to compile and run, in seconds.
MJX_LIMIT_SECONDS = 180.0
# Attributes of the stiffest `connect` that MuJoCo takes: a time constant of two steps.
STIFFEST = 'solref="0.002 1" solimp="0.9999 0.9999 0.001"'


def row_named(name):
    """Decorate a function (name, problem) ↦ row: it becomes a function of the problem, and errors become skipped rows."""

    def decorate(function):
        """Return the function of the problem whose errors are skipped rows."""

        @wraps(function)
        def row_or_reason(problem):
            """Return the row, or a skipped row if the tool is missing, too slow, or does not compile."""
            try:
                return function(name, problem)
            except (ImportError, reference_kernel.NoCompiler, TimeoutError) as error:
                return timing.skipped_row(name, error)

        return row_or_reason

    return decorate


def mujoco_models(problem, softness=""):
    """Return one MuJoCo model for each design."""
    columns = (np.asarray(problem.designs[name]) for name in reference_kernel.LENGTHS)
    return [peers.mujoco_four_bar(lengths, problem.h, softness) for lengths in zip(*columns, strict=True)]


@row_named("MuJoCo (C)")
def mujoco_row(name, problem):
    """MuJoCo in one thread, one call for all samples: its default stiffness, and the gap of 16 samples at the stiffest."""
    angles, runs = _mujoco_angles(problem)
    some = problem.first(16)
    stiffest, _ = _mujoco_angles(some, STIFFEST)
    gaps = {"gap": problem.loop_gap(angles), "gap when stiffest": some.loop_gap(stiffest)}
    return timing.row(name, runs, problem.count, **gaps, note="RK4, connect, mujoco.rollout in one thread")


def _mujoco_angles(problem, softness=""):
    """Return the joint angles at the end, and the `Runs`."""
    models = mujoco_models(problem, softness)
    return timing.measure(peers.mujoco_final_positions(models, problem.steps, problem.joint_angles()))


@row_named("MJX")
def mjx_row(name, problem):
    """MJX: the batch by `jax.vmap` in float64, the steps in a scan, nominal lengths and different cranks."""
    import mujoco.mjx  # noqa: F401

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        try:
            result = pool.apply_async(_mjx_run, (problem.q.shape[0], problem.h, problem.steps)).get(MJX_LIMIT_SECONDS)
        except multiprocessing.TimeoutError:
            raise TimeoutError(f"not done within {MJX_LIMIT_SECONDS:g} s") from None
    compile_seconds, runs, gap = result
    note = "RK4, connect, vmap and scan, float64, nominal lengths"
    return timing.row(name, runs, problem.count, gap=gap, **{"compile s": compile_seconds}, note=note)


def _mjx_run(batch, h, steps):
    """Return seconds of compilation, `Runs` and gap. Runs in its own process, which can be ended."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from problem import four_bars

    problem = four_bars(batch, h, steps, jnp.linspace(0.9, 1.1, batch), spread=0.0)
    run = peers.mjx_final_positions(mujoco_models(problem.first(1))[0], steps)
    run, compile_seconds = timing.compile_function(jax.vmap(run), jnp.asarray(problem.joint_angles()))
    angles, runs = timing.measure(run, jnp.asarray(problem.joint_angles()), repeats=1)
    return compile_seconds, runs, problem.loop_gap(angles)


@row_named("Pinocchio (Python)")
def pinocchio_row(name, problem):
    """Pinocchio: four calls of `constraintDynamics` for each step in a Python loop, whose overhead counts; 16 systems."""
    some = problem.first(16)
    lengths = np.stack([some.designs[key] for key in reference_kernel.LENGTHS], axis=1)
    systems = list(zip([peers.pinocchio_four_bar(numbers) for numbers in lengths], some.joint_angles(), strict=True))
    run = lambda: np.stack([peers.runge_kutta(a, q, np.zeros_like(q), some.h, some.steps) for a, q in systems])
    angles, runs = timing.measure(run, repeats=3)
    note = "four calls of constraintDynamics from Python for each step, with their overhead"
    return timing.row(name, runs, some.count, gap=some.loop_gap(angles), note=note)


@row_named("Pinocchio (C++)")
def pinocchio_cpp_row(name, problem):
    """Pinocchio with all loops in C++: `pinocchio_four_bar.cpp` and the headers of the wheel `pin`; minutes to compile.

    It also needs Eigen's headers: `pip install cmeel-eigen`. The time of a call without steps, which builds the models,
    is subtracted.
    """
    begin = time.perf_counter()
    call = reference_kernel.rollout_of(peers.pinocchio_library("pinocchio_four_bar.cpp"))
    compile_seconds = time.perf_counter() - begin
    angles = problem.joint_angles()
    arguments = problem.designs, angles, np.zeros_like(angles), problem.h
    _, setup = timing.measure(call, *arguments, 0, repeats=5)
    (angles, _), runs = timing.measure(call, *arguments, problem.steps, repeats=5)
    runs = timing.Runs(runs.median - setup.median, runs.best - setup.best)
    more = {"compile s": compile_seconds, "gap": problem.loop_gap(angles)}
    note = "four calls of constraintDynamics for each step, all in C++"
    return timing.row(name, runs, problem.count, **more, note=note)


# Functions for the rows of other tools in the table of four-bar rollouts.
ROWS = (mujoco_row, mjx_row, pinocchio_row, pinocchio_cpp_row)
