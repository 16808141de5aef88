"""Kinematics of a batch of four-bars: poses per second, with and without gradient, beside a textbook version.

Both run in one process on one core, so that their ratio means something; absolute times do not. The textbook version is
`jacfwd`, `jnp.linalg.solve` and three Newton steps from the predictor, without any check of the motion.

    taskset -c 0 python benchmarks/kinematics.py [--batch 1024] [--times 100]
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import jax
import jax.numpy as jnp

import jaxmbs as mbs
from jaxmbs import planar

jax.config.update("jax_enable_x64", True)
NOMINAL = {"crank": 1.0, "coupler": 3.0, "rocker": 2.5, "ground": 3.5}


def four_bar(b):
    return mbs.Mechanism(
        {name: planar.Body() for name in ("crank", "coupler", "rocker")},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "coupler", (b["crank"], 0), (0, 0)),
            "B": planar.Revolute("coupler", "rocker", (b["coupler"], 0), (b["rocker"], 0)),
            "C": planar.Revolute("ground", "rocker", (b["ground"], 0), (0, 0)),
        },
        {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0))},
    )


def ours(b, times, start):
    motion = mbs.kinematics(four_bar(b), times, start)
    return motion.q, motion.v, motion.a


def textbook(b, times, start):
    mech = four_bar(b)

    def step(carry, t):
        q, v, a, before = carry
        h = t - before
        q = q + h * v + h**2 / 2 * a
        for _ in range(3):
            q = q - jnp.linalg.solve(mbs.constraint_jacobian(mech, q, t), mbs.constraints(mech, q, t))
        matrix = mbs.constraint_jacobian(mech, q, t)
        v = jnp.linalg.solve(matrix, mbs.velocity_rhs(mech, q, t))
        a = jnp.linalg.solve(matrix, mbs.acceleration_rhs(mech, q, v, t))
        return (q, v, a, t), (q, v, a)

    zero = jnp.zeros_like(start)
    return jax.lax.scan(step, (start, zero, zero, times[0]), times)[1]


def measure(function, *args, repeats=5):
    """Compile seconds, and the median of several runs."""
    begin = time.perf_counter()
    compiled = jax.jit(function).lower(*args).compile()
    compile_seconds = time.perf_counter() - begin
    runs = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        result = jax.block_until_ready(compiled(*args))
        runs.append(time.perf_counter() - begin)
    return result, compile_seconds, statistics.median(runs[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--times", type=int, default=100)
    options = parser.parse_args()
    times = jnp.linspace(0.0, 6.0, options.times)
    guess = {"coupler": (1, 0, 0.9), "rocker": (3.5, 0, 1.8)}
    spread = jnp.linspace(0.95, 1.05, options.batch)
    designs = {name: length * (1 if name == "ground" else spread) for name, length in NOMINAL.items()}
    designs["ground"] = jnp.full(options.batch, NOMINAL["ground"])
    starts = jax.jit(jax.vmap(lambda b: mbs.assemble(four_bar(b), guess).q))(designs)

    results = {"batch": options.batch, "times": options.times, "dtype": "float64", "rows": {}}
    for name, function in (("textbook", textbook), ("jaxmbs", ours)):
        loss = lambda b, start, f=function: sum(jnp.sum(x**2) for x in f(b, times, start))
        forward = jax.vmap(lambda b, start, f=function: f(b, times, start))
        (q, _, _), compile_seconds, seconds = measure(forward, designs, starts)
        _, gradient_compile, gradient_seconds = measure(jax.vmap(jax.grad(loss)), designs, starts, repeats=3)
        gap = jax.vmap(
            jax.vmap(lambda b, q, t: jnp.max(jnp.abs(mbs.constraints(four_bar(b), q, t))), (None, 0, 0)), (0, 0, None)
        )
        poses = options.batch * options.times
        results["rows"][name] = {
            "us per pose": 1e6 * seconds / poses,
            "us per pose with gradient": 1e6 * gradient_seconds / poses,
            "compile s": compile_seconds,
            "compile s with gradient": gradient_compile,
            "largest gap": float(jnp.max(gap(designs, q, times))),
        }
        print(f"{name:9}", {key: float(f"{value:.3g}") for key, value in results["rows"][name].items()})
    Path(__file__).with_name("kinematics.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
