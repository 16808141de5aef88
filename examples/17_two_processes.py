"""One gradient over several processes: a robust four-bar, and a policy, as on a cluster.

The program starts itself several times; the processes find each other by `jax.distributed`, and each computes its share of
every batch. On a cluster the processes are on many machines, and nothing else changes.

1. A four-bar whose coupler point passes five points, in the mean over a thousand linkages with worn lengths:
   `synthesis.minimise(…, samples=…)` distributes the samples.
2. Policy gradients of a slider-crank: episodes are distributed, and gradients summed, by the sharding of their seeds.

The program checks that both results equal those of one process.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import jaxmbs as mbs
from jaxmbs import planar
from jaxmbs.viz import style

jax.config.update("jax_enable_x64", True)

# Number of worn linkages over which the error is averaged.
SAMPLES = 1024
# Episodes simulated in an update.
EPISODES = 64
# Control steps of an episode.
STEPS = 25
# Angles of the crank at the targets (rad).
ANGLES = np.deg2rad([0.0, 40.0, 80.0, 120.0, 160.0])
# Targets (5, 2) of the coupler point.
TARGETS = np.array([(1.317, 1.598), (1.547, 2.157), (1.152, 2.378), (0.502, 2.175), (-0.022, 1.632)])
# Design from which the search starts.
START = {"crank": 1.0, "coupler": 3.0, "rocker": 2.5, "ground": 3.5, "x": 1.2, "y": 1.0}


def four_bar(b):
    """Return the driven four-bar."""
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


def mean_squared_error(design, wear):
    """Return the mean squared distance from the targets of a worn linkage."""
    worn = {name: design[name] + wear[name] for name in wear}
    motion = mbs.kinematics(four_bar(worn), ANGLES, {"coupler": (1, 0, 0.9), "rocker": (3.5, 0, 1.8)})
    points = motion.point("coupler", jnp.stack([design["x"], design["y"]]))
    return jnp.mean(jnp.sum((points - TARGETS) ** 2, axis=1)), {"good": jnp.mean(motion.status == 0)}


def robust(quick):
    """Return the design with the least mean over worn linkages, and that mean."""
    dice = np.random.default_rng(0)
    wear = {name: 0.05 * dice.standard_normal(SAMPLES) for name in ("crank", "coupler", "rocker", "ground")}
    steps = (20, 10) if quick else (150, 60)
    best = mbs.synthesis.minimise(
        mean_squared_error, START, lower=0.2, upper=5.0, samples=wear, starts=1, steps=steps
    ).best
    return {"design": best.design, "error": best.value, "good": best.checks["good"]}


def policy(weights, observation):
    """Return the action."""
    hidden = jnp.tanh(observation @ weights["in"] + weights["bias"])
    return jnp.tanh(hidden @ weights["out"])


def train_policy(quick):
    """Train a policy; return the returns on the way, and the weights."""
    env = mbs.env.make("slider-crank")
    dice = np.random.default_rng(1)
    size, width = len(env.observation_bounds), 8
    weights = {
        "in": jnp.asarray(dice.standard_normal((size, width)) / np.sqrt(size)),
        "bias": jnp.zeros(width),
        "out": jnp.asarray(0.1 * dice.standard_normal((width, env.action_size))),
    }
    shared = NamedSharding(Mesh(jax.devices(), ("episodes",)), PartitionSpec("episodes"))

    def episode(weights, seed):
        """Return the sum of rewards over the episode of a seed."""

        def step(state, _):
            """Return the next state, and the reward before it."""
            state = env.step(state, policy(weights, state.observation), auto_reset=False)
            return state, state.reward

        return jax.lax.scan(step, env.reset(jax.random.key(seed)), None, length=STEPS)[1].sum()

    optimizer = optax.adam(0.02)

    @jax.jit
    def update(weights, state, number):
        """Return weights and optimiser state after a step, and the mean return before it."""
        # The sharding of the seeds decides which process computes an episode.
        seeds = jax.lax.with_sharding_constraint(number * EPISODES + jnp.arange(EPISODES), shared)
        loss = lambda weights: -jnp.mean(jax.vmap(lambda seed: episode(weights, seed))(seeds))
        value, slope = jax.value_and_grad(loss)(weights)
        changes, state = optimizer.update(slope, state)
        return optax.apply_updates(weights, changes), state, -value

    state, returns = optimizer.init(weights), []
    for number in range(3 if quick else 60):
        weights, state, value = update(weights, state, number)
        returns.append(float(value))
    return {"returns": returns, "weights": {name: np.asarray(x).tolist() for name, x in weights.items()}}


def work(options):
    """Run the work of one process; the first one writes the result."""
    if options.processes > 1:
        jax.distributed.initialize(options.address, options.processes, options.process)
    began = time.time()
    result = {"fit": robust(options.quick), "policy": train_policy(options.quick), "seconds": time.time() - began}
    if jax.process_index() == 0:
        options.result.write_text(json.dumps(result))


def result_of(options, processes):
    """Start a number of processes and return their result."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    result = options.output / f"17_{processes}.json"
    command = [sys.executable, __file__, "--processes", str(processes), "--address", address, "--result", str(result)]
    command += ["--quick"] * options.quick
    running = [subprocess.Popen([*command, "--process", str(k)], env=os.environ) for k in range(processes)]
    assert [process.wait() for process in running] == [0] * processes
    return json.loads(result.read_text())


def show(alone, together, file):
    """Draw the robust four-bar, and the learning curves."""
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.9), layout="constrained")
    motion = mbs.kinematics(four_bar(alone["fit"]["design"]), np.linspace(0, 2 * np.pi, 121), {"rocker": (3.5, 0, 1.8)})
    design = together["fit"]["design"]
    mbs.viz.draw(four_bar(design), motion.q[7], ax=axes[0], points=[("coupler", (design["x"], design["y"]))])
    mbs.viz.trace(motion, "coupler", (design["x"], design["y"]), ax=axes[0])
    axes[0].plot(*TARGETS.T, "o", color=style.ACCENT, markersize=4)
    axes[0].set_title("best mean of 1,024 worn linkages")
    for number, (label, result) in enumerate([("one process", alone), ("two processes", together)]):
        line = {"color": style.colour_of(number), "linewidth": 4 - 2.6 * number}
        axes[1].plot(result["policy"]["returns"], label=label, **line)
    axes[1].set(xlabel=f"update, {EPISODES} episodes each", ylabel="return", title="a policy for the slider-crank")
    axes[1].legend(frameon=False, fontsize=8)
    for ax, equal in zip(axes, (True, False), strict=True):
        style.tidy(ax, equal=equal)
        ax.title.set_fontsize(10)
    figure.savefig(file, dpi=100)
    plt.close(figure)


def main():
    """Run the work in one process and in two, compare the results, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer steps")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    for name, kind in (("processes", int), ("process", int), ("address", str), ("result", Path)):
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.processes:
        work(options)
        return
    options.output.mkdir(exist_ok=True)
    alone, together = result_of(options, 1), result_of(options, 2)
    largest = lambda a, b: max(
        float(np.max(np.abs(np.asarray(x) - np.asarray(y)))) for x, y in zip(a.values(), b.values(), strict=True)
    )
    record = {
        "error of the fit": together["fit"]["error"],
        "difference of the designs": largest(alone["fit"]["design"], together["fit"]["design"]),
        "return at first, and at last": [together["policy"]["returns"][k] for k in (0, -1)],
        "difference of the weights": largest(alone["policy"]["weights"], together["policy"]["weights"]),
        "seconds of one process, and of two": [alone["seconds"], together["seconds"]],
    }
    show(alone, together, options.output / "17_two_processes.png")
    (options.output / "17_two_processes.json").write_text(json.dumps(record, indent=1))
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
