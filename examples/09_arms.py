"""Ten thousand arms of six links, each with its own lengths, masses and hinges, fall under their weight in one call.

Joint coordinates: six angles and no constraints, so an arm cannot come apart, and a step costs a pass over the links to
the tip and back. The run ends with the time of a step and the energy that the arms gain or lose; the picture has the paths
of some tips and the energy errors of all.
"""

import argparse
import json
import time
from itertools import pairwise
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import jaxmbs as mbs
from jaxmbs import spatial
from jaxmbs.viz import style

jax.config.update("jax_enable_x64", True)

# Number of links of an arm.
LINKS = 6
# Acceleration of gravity (m/s²).
GRAVITY = 9.81
# Step of the integrator (s).
STEP = 0.001
# Names of the links.
NAMES = [f"link {k}" for k in range(1, LINKS + 1)]
# Number of arms in the picture.
SHOWN = 5


def random_arms(count, seed=0):
    """Return random lengths (m), masses (kg), axes of the hinges and angles at the start, a row for each arm."""
    rng = np.random.default_rng(seed)
    axes = rng.normal(size=(count, LINKS, 3))
    return {
        "length": rng.uniform(0.2, 0.6, (count, LINKS)),
        "mass": rng.uniform(0.5, 2.0, (count, LINKS)),
        "axis": axes / np.linalg.norm(axes, axis=-1, keepdims=True),
        "start": rng.uniform(-np.pi, np.pi, (count, LINKS)),
    }


def arm(b):
    """Return rods along their x axes, a fifth as thick as long, each hinged to the tip of the one before."""
    bodies, hinges, before = {}, {}, (0.0, 0.0, 0.0)
    for k, (carrier, name) in enumerate(pairwise(["ground", *NAMES])):
        length, mass = b["length"][k], b["mass"][k]
        along = mass * (0.2 * length) ** 2 / 8
        across = mass * length**2 / 12 + along / 2
        half = jnp.stack([length / 2, 0 * length, 0 * length])
        bodies[name] = spatial.Body(mass, jnp.stack([along, across, across]))
        hinges[f"hinge {k + 1}"] = spatial.Revolute(carrier, name, before, -half, b["axis"][k])
        before = half
    return mbs.Mechanism(bodies, hinges, forces={"weight": mbs.Gravity((0, 0, -GRAVITY))})


def fall(times, b):
    """Simulate one arm; return the path of its tip, the energy and the status."""
    mech = arm(b)
    start = mbs.JointCoordinates().of(mech).configuration(b["start"])
    run = mbs.simulate(mech, times, start, step=STEP, formulation=mbs.JointCoordinates())
    tip = jnp.stack([b["length"][-1] / 2, 0.0, 0.0])
    return run.point(NAMES[-1], tip), run.energy.total, run.status


def scale(b):
    """Return the energy of each arm pointing straight up, relative to straight down (J)."""
    ends = np.cumsum(b["length"], axis=1)
    return 2 * GRAVITY * np.sum(b["mass"] * (ends - b["length"] / 2), axis=1)


def show(b, tips, error, duration, file):
    """Draw the paths of some tips with the arms in their first positions, and the energy errors of all."""
    figure = plt.figure(figsize=(10, 4.8), layout="constrained")
    left = figure.add_subplot(1, 2, 1, projection="3d")
    for k in range(SHOWN):
        mech = arm({name: value[k] for name, value in b.items()})
        q = mech.coordinates(mbs.JointCoordinates().of(mech).configuration(b["start"][k]))
        joints = [np.zeros(3), *(mech.layout.pose(name, q).point(half(b, k, j)) for j, name in enumerate(NAMES))]
        colour = style.colour_of(k)
        left.plot(*tips[k].T, color=colour, linewidth=1)
        left.plot(*np.array(joints).T, color=colour, linewidth=2.5, marker="o", markersize=3.5, alpha=0.55)
    left.plot([0], [0], [0], "o", color=style.GROUND_COLOUR, markersize=7)
    left.set_title(f"tips of {SHOWN} of {len(tips):,} arms in {duration:g} s", fontsize=10)
    reach = max(np.abs(tips[:SHOWN]).max(), 0.5) * 0.8
    left.set(xlim=(-reach, reach), ylim=(-reach, reach), zlim=(-reach, reach))
    left.view_init(12, -60)
    left.set_box_aspect((1, 1, 1), zoom=1.35)
    left.set_axis_off()

    right = figure.add_subplot(1, 2, 2)
    edges = np.geomspace(max(np.quantile(error, 0.005), 1e-17), max(error.max(), 1e-16), 40)
    right.hist(error, edges, color=style.PALETTE[0], alpha=0.8)
    right.axvline(np.median(error), color=style.ACCENT, linewidth=1.2)
    right.set(xscale="log", xlabel="largest energy error / (straight up − straight down)", ylabel="arms")
    right.set_title(f"energy error in {duration:g} s, median {np.median(error):.1e}", fontsize=10)
    style.tidy(right, equal=False)
    right.minorticks_off()
    figure.savefig(file, dpi=100)
    plt.close(figure)


def half(b, arm, link):
    """Return the tip of a link in its frame."""
    return jnp.array([b["length"][arm, link] / 2, 0, 0])


def main():
    """Simulate a batch of random arms, and draw some of them and all energy errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer arms for a shorter time")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()
    began = time.time()
    count, duration = (256, 0.5) if options.quick else (10_000, 2.0)

    times = np.linspace(0, duration, round(100 * duration) + 1)
    b = random_arms(count)
    # A thousand at a time, to save memory.
    fall_all = jax.jit(lambda b: jax.lax.map(lambda b: fall(times, b), b, batch_size=1000)).lower(b).compile()
    compiled = time.time()
    tips, energy, status = jax.device_get(fall_all(b))
    seconds = time.time() - compiled

    steps = round(duration / STEP)
    error = np.maximum(np.abs(energy - energy[:, :1]).max(1) / scale(b), 1e-17)
    record = {
        "arms": count,
        "steps of each": steps,
        "compilation (s)": compiled - began,
        "simulation (s)": seconds,
        "time of a step and an arm (µs)": 1e6 * seconds / (count * steps),
        "energy error, median": np.median(error),
        "energy error, 99 % are below": np.quantile(error, 0.99),
        "energy error, worst": error.max(),
    }
    record |= {f"status {mbs.Status(k).name.lower()}": int((status[:, -1] == k).sum()) for k in np.unique(status)}
    for name, value in record.items():
        print(f"{name:36}{value:14,.4g}" if isinstance(value, float) else f"{name:36}{value:14,}")

    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "09_arms.json").write_text(json.dumps(record, indent=2) + "\n")
    show(b, tips, error, duration, options.output / "09_arms.png")
    print(f"{time.time() - began:.0f} s with compilation and pictures")


if __name__ == "__main__":
    main()
