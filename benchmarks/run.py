"""All benchmarks on one core: `python benchmarks/run.py [--batch 1024] [--steps 100] [--tables dynamics …]`.

Nine tables: RK4 of a batch of four-bars ("rollout"), one "acceleration" of each model, "kinematics" of a batch of
four-bars, `mbs.simulate` by its methods ("dynamics"), mechanisms in space ("spatial"), "chains" in joint coordinates,
learning "environments", "synthesis", and the "first calls" of functions in a fresh process. Writes results.json and
results.png beside this file; `make numbers` inserts the results into the pages. A table is a list of functions that
return one row each.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

import timing

timing.use_one_core()

import chains  # noqa: E402
import dynamics  # noqa: E402
import environments  # noqa: E402
import first_calls  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import models  # noqa: E402
import numpy as np  # noqa: E402
import peer_rows  # noqa: E402
import programs  # noqa: E402
import reference_kernel  # noqa: E402
import spatial  # noqa: E402
import synthesis  # noqa: E402
import textbook  # noqa: E402
from problem import four_bars  # noqa: E402

import jaxmbs as mbs  # noqa: E402
from jaxmbs import env  # noqa: E402
from jaxmbs.programs import emission  # noqa: E402

jax.config.update("jax_enable_x64", True)


def textbook_row(problem):
    """Textbook JAX: dense equations with `jnp.linalg.solve`, `jax.vmap` over the batch."""
    run = lambda b, q, v: textbook.rollout(models.four_bar(b), q, v, problem.h, problem.steps)
    return jax_row("textbook JAX", run, problem, kind="jax", note="dense, jnp.linalg.solve, vmap", repeats=3)


def jax_row(name, rollout, problem, *, kind="jaxmbs", note="", repeats=5):
    """Return the row of a JAX function (design, q, v) → (q, v) of one system, run by `jax.vmap` over the batch."""
    run, seconds_to_compile = timing.compile_function(jax.vmap(rollout), problem.designs, problem.q, problem.v)
    (q, _), runs = timing.measure(run, problem.designs, problem.q, problem.v, repeats=repeats)
    more = {"compile s": seconds_to_compile, "gap": problem.gap(q)}
    return timing.row(name, runs, problem.count, kind=kind, **more, note=note)


def program_row(problem):
    """jaxmbs: a straight-line program, emitted as LLVM vector code."""
    run = programs.rollout(models.four_bar, problem.steps, problem.h)
    some = problem.first(1)
    row = jax_row("jaxmbs, LLVM", run, problem, note="program with its time loop, machine code", repeats=15)
    traced = run.trace(*jax.tree.map(lambda x: x[0], (some.designs, some.q, some.v)))
    return row | {"operations per step": traced.largest_region}


def cores_row(problem):
    """Return the row of a rollout on all cores, with its speed-up over one core.

    `cores.py`, a process for each measurement, has its own, larger batch in place of `problem`.
    """
    count = os.cpu_count() or 1
    if count < 2 or not hasattr(os, "sched_setaffinity"):
        return timing.skipped_row("jaxmbs, all cores", "the machine has one core, or cores cannot be chosen")
    script = Path(__file__).with_name("cores.py")
    times = {n: [] for n in (1, count)}
    for _ in range(3):
        for n in times:
            done = subprocess.run([sys.executable, script, str(n)], capture_output=True, text=True, check=True)
            times[n].append(float(done.stdout))
    one_core, all_cores = (statistics.median(times[n]) for n in (1, count))
    runs = timing.Runs(all_cores / timing.NS, min(times[count]) / timing.NS)
    more = {"cores": count, "times one core": one_core / all_cores}
    return timing.row("jaxmbs, all cores", runs, 1, kind="jaxmbs", **more)


def xla_row(problem):
    """jaxmbs by elementwise XLA."""
    with emission("xla"):
        run = programs.rollout(models.four_bar, problem.steps, problem.h)
        return jax_row("jaxmbs, XLA", run, problem, note="program by elementwise XLA", repeats=5)


def gradient_row(problem, steps=1000):
    """Value and gradient by lengths and start through a thousand steps, beside the forward run; memory of the process."""
    run = programs.rollout(models.four_bar, steps, problem.h)
    loss = lambda b, q, v: sum(jnp.sum(x**2) for x in run(b, q, v))
    args = (problem.designs, problem.q, problem.v)
    forward, forward_compile = timing.compile_function(jax.vmap(run), *args)
    _, forward_runs = timing.measure(forward, *args)
    gradient, gradient_compile = timing.compile_function(jax.vmap(jax.value_and_grad(loss, (0, 1, 2))), *args)
    _, runs = timing.measure(gradient, *args)
    more = {
        "times forward": runs.median / forward_runs.median,
        "compile s": gradient_compile,
        "compile s forward": forward_compile,
        "peak MB of the process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    return timing.row("jaxmbs, value and gradient", runs, problem.q.shape[0] * steps, kind="jaxmbs", **more)


def kernel_row(problem):
    """The handwritten kernel, with its largest difference from textbook JAX over 100 steps."""
    name = "C++ by hand"
    try:
        kernel = reference_kernel.Kernel()
    except reference_kernel.NoCompiler as error:
        return timing.skipped_row(name, error)
    arrays = jax.tree.map(np.asarray, (problem.designs, problem.q, problem.v))
    (q, _), runs = timing.measure(kernel.rollout, *arrays, problem.h, problem.steps, repeats=15)
    more = {"gap": problem.gap(q), "difference": kernel_difference(kernel, problem)}
    more |= {"operations per evaluation": kernel.per_evaluation, "operations per step": kernel.per_step}
    return timing.row(name, runs, problem.count, kind="limit", **more, note="the same equations, sparse, SIMD")


def kernel_difference(kernel, problem, size=19):
    """Return the largest difference of q and v from textbook JAX after 100 steps, for a batch that fills no vector."""
    some = problem.first(size)
    run = lambda b, q, v: textbook.rollout(models.four_bar(b), q, v, some.h, 100)
    wanted = jax.jit(jax.vmap(run))(some.designs, some.q, some.v)
    got = kernel.rollout(some.designs, some.q, some.v, some.h, 100)
    return max(float(np.max(np.abs(a - b))) for a, b in zip(got, wanted, strict=True))


def textbook_acceleration_row(name, model, batch):
    """One dense acceleration of a batch of equal systems; the flops are XLA's count, without the solve."""
    acceleration = lambda b, q, v: textbook.acceleration(model.build(b), q, v)
    return acceleration_row(f"{name}, textbook JAX", acceleration, model, batch, kind="jax")


def program_acceleration_row(name, model, batch):
    """One acceleration by a straight-line program, with the number of its scalar operations."""
    function = mbs.program(lambda b, q, v: programs.acceleration(model.build(b), q, v))
    row = acceleration_row(f"{name}, jaxmbs", function, model, batch)
    design = jax.tree.map(jnp.asarray, dict(model.design))
    q = model.start()
    traced = function.trace(design, q, q)
    del row["flops"]  # XLA cannot count operations of machine code
    return row | {"operations": traced.size, "of these divisions": traced.operations["div"]}


def acceleration_row(name, acceleration, model, batch, *, kind="jaxmbs"):
    """Return the row of a JAX function (design, q, v) → a of one system, run by `jax.vmap` over the batch."""
    q = jnp.tile(model.start(), (batch, 1))
    function = jax.vmap(acceleration, (None, 0, 0))
    design = jax.tree.map(jnp.asarray, dict(model.design))
    run, seconds_to_compile = timing.compile_function(function, design, q, jnp.zeros_like(q))
    _, runs = timing.measure(run, design, q, jnp.zeros_like(q))
    flops = (run.cost_analysis() or {}).get("flops", float("nan")) / batch
    more = {"coordinates": q.shape[1], "compile s": seconds_to_compile, "flops": flops}
    return timing.row(name, runs, batch, kind=kind, **more)


def textbook_kinematics_row(problem, times):
    """Textbook kinematics: prediction, three Newton steps, dense solves, without checks of the motion."""
    return kinematics_row(
        "textbook JAX", lambda b, start: textbook.kinematics(driven_four_bar(b), times, start), problem, times
    )


def jaxmbs_kinematics_row(problem, times):
    """`mbs.kinematics`, with all of its checks."""

    def run(b, start):
        """Return q, v and a at all times."""
        motion = mbs.kinematics(driven_four_bar(b), times, start)
        return motion.q, motion.v, motion.a

    return kinematics_row("jaxmbs", run, problem, times)


def driven_four_bar(b):
    """Return the four-bar with its motor."""
    return models.four_bar(b, motor=True)


def kinematics_row(name, run, problem, times):
    """Return the row of (design, start) → (q, v, a) at all times, per pose, with and without the gradient by the design."""
    loss = lambda b, start: sum(jnp.sum(x**2) for x in run(b, start))
    forward, compile_seconds = timing.compile_function(jax.vmap(run), problem.designs, problem.q)
    (q, _, _), runs = timing.measure(forward, problem.designs, problem.q)
    gradient, gradient_compile = timing.compile_function(jax.vmap(jax.grad(loss)), problem.designs, problem.q)
    _, gradient_runs = timing.measure(gradient, problem.designs, problem.q, repeats=3)
    residual = lambda b, q: jax.vmap(lambda q, t: jnp.max(jnp.abs(mbs.constraints(driven_four_bar(b), q, t))))(q, times)
    count = len(times) * problem.q.shape[0]
    more = {
        "ns with gradient": timing.NS * gradient_runs.median / count,
        "compile s": compile_seconds,
        "compile s with gradient": gradient_compile,
        "gap": float(jnp.max(jax.vmap(residual)(problem.designs, q))),
    }
    return timing.row(name, runs, count, **more)


def bad_samples_row(problem, times):
    """`mbs.kinematics` of a batch in which a sixth cannot be assembled and a sixth locks up, beside a good batch."""

    @jax.jit
    @jax.vmap
    def run(b, start):
        """Return statuses and q at all times."""
        motion = mbs.kinematics(driven_four_bar(b), times, start)
        return motion.status, motion.q

    size = problem.q.shape[0]
    part = np.random.default_rng(0).permutation(size) % 6
    shorter = {"coupler": np.select([part == 0, part == 1], [0.4, 0.6], 1.0), "rocker": np.where(part == 0, 0.4, 1.0)}
    spoiled = {name: x * shorter.get(name, 1.0) for name, x in problem.designs.items()}
    _, good_runs = timing.measure(run, problem.designs, problem.q)
    (status, _), runs = timing.measure(run, spoiled, problem.q)
    ends = status[:, -1]
    more = {
        "times a good batch": runs.median / good_runs.median,
        "not assembled": int(jnp.sum(ends == mbs.Status.NOT_ASSEMBLED)),
        "locked up": int(jnp.sum(ends == mbs.Status.LOCKED_UP)),
    }
    return timing.row(f"jaxmbs, {size}, a third bad", runs, len(times) * size, kind="jaxmbs", **more)


# Row functions of the table of four-bar rollouts, 100 Runge–Kutta steps of a batch.
ROLLOUT_ROWS = [kernel_row, program_row, gradient_row, cores_row, xla_row, *peer_rows.ROWS, textbook_row]
# Row functions of the table of single accelerations.
ACCELERATION_ROWS = [program_acceleration_row, textbook_acceleration_row]
# Row functions of the table of kinematics of a driven four-bar.
KINEMATICS_ROWS = [jaxmbs_kinematics_row, textbook_kinematics_row]


def measure_table(title, calls, only):
    """Measure and print the rows of a table; `calls` are row functions with arguments."""
    print(f"\n{title}")
    rows = []
    for function, *args in calls:
        if not only or any(word in function.__name__ for word in only):
            rows.append(function(*args))
            print("  " + timing.line_of(rows[-1]), flush=True)
    return rows


def main():
    """Run the command line: measure the tables, and write the results and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=100, help="steps of RK4, and times of the kinematics")
    parser.add_argument("--only", nargs="*", help="words in the names of row functions; writes no files")
    parser.add_argument("--tables", nargs="*", help="titles of the tables to measure; the results of others are kept")
    options = parser.parse_args()
    problem = four_bars(options.batch, steps=options.steps)
    driven_problem = four_bars(options.batch, steps=options.steps, angle=0.0)
    times = jnp.linspace(0.0, 6.0, options.steps)
    mechanisms = models.models().items()
    calls = {
        "rollout": [(row, problem) for row in ROLLOUT_ROWS],
        "acceleration": [(row, *pair, options.batch) for pair in mechanisms for row in ACCELERATION_ROWS],
        "kinematics": [
            *((row, driven_problem, times) for row in KINEMATICS_ROWS),
            (bad_samples_row, four_bars(10_000, angle=0.0), times),
        ],
        "dynamics": [
            *((dynamics.simulate_row, name, problem) for name in dynamics.METHODS),
            *(
                (dynamics.friction_row, name, friction, problem)
                for name in dynamics.FORMULATIONS
                for friction in (0, 1)
            ),
            *((dynamics.simulate_gradient_row, name, problem) for name in dynamics.GRADIENTS),
            (dynamics.andrews_row, options.batch),
            (dynamics.windows_row, 64),
            (dynamics.mujoco_windows_row, 4),
        ],
        "spatial": [
            row
            for case in spatial.CASES
            for row in (
                (spatial.spatial_row, case, options.batch),
                (spatial.spatial_joint_row, case, options.batch),
                (spatial.spatial_equal_accuracy_row, case, options.batch),
                (spatial.spatial_mujoco_row, case, 16),
            )
        ],
        "chains": [(*call, options.batch) for call in chains.CALLS],
        "environments": [(environments.environment_row, name, options.batch) for name in env.ENVIRONMENTS],
        "synthesis": synthesis.CALLS,
        "first calls": [
            *((first_calls.first_call_row, name) for name in first_calls.CASES),
            *((first_calls.command_row, name) for name in first_calls.COMMANDS),
        ],
    }
    chosen = options.tables or list(calls)
    tables = {title: measure_table(title, calls[title], options.only) for title in chosen}
    if not options.only:
        setting = {"batch": options.batch, "steps": options.steps, "h": problem.h, "dtype": "float64"}
        timing.save(tables, setting)
        if "rollout" in tables:
            timing.plot(
                [r for r in tables["rollout"] if not r["name"].endswith(("gradient", "cores"))],
                below=f"batch of {options.batch} with different lengths, float64, one core",
            )


if __name__ == "__main__":
    main()
