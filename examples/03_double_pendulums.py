"""Ten thousand double pendulums, released from rest at as many angles, in one call.

Each is a pixel of the picture at its first angles, in the colour of the time at which one of its rods first goes over
the top; white if none does. Inside the line their energy does not suffice. Neighbours of different colours mean chaotic
motion, which small changes of the start alter completely.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm

import jaxmbs as mbs
from jaxmbs import planar
from jaxmbs.viz import style

jax.config.update("jax_enable_x64", True)

# Length of each rod (m).
LENGTH = 1.0
# Acceleration of gravity (m/s²).
GRAVITY = 9.81
# Step of the integrator (s).
STEP = 0.005


def double_pendulum():
    """Return a pendulum of two uniform rods with their frames in the middle."""
    rod = planar.Body(mass=1.0, inertia=LENGTH**2 / 12)
    return mbs.Mechanism(
        bodies={"upper": rod, "lower": rod},
        constraints={
            "pivot": planar.Revolute("ground", "upper", (0, 0), (0, LENGTH / 2)),
            "elbow": planar.Revolute("upper", "lower", (0, -LENGTH / 2), (0, LENGTH / 2)),
        },
        forces={"weight": mbs.Gravity((0, -GRAVITY))},
    )


def hanging(upper, lower):
    """Return the poses of the rods at angles from the downward vertical."""
    along = lambda angle: LENGTH * jnp.stack([jnp.sin(angle), -jnp.cos(angle)])
    return {
        "upper": jnp.append(along(upper) / 2, upper),
        "lower": jnp.append(along(upper) + along(lower) / 2, lower),
    }


def fall(times, upper, lower):
    """Simulate one pendulum; return both angles, the energy and the status."""
    run = mbs.simulate(double_pendulum(), times, hanging(upper, lower), step=STEP)
    return run.position("upper.phi"), run.position("lower.phi"), run.energy.total, run.status


def first_flip(times, angles):
    """Return the time at which an angle (pendulums, T) first leaves (−π, π), interpolated; infinite if never."""
    beyond = abs(angles) > np.pi
    k = np.maximum(beyond.argmax(1), 1)
    rows = np.arange(len(angles))
    before, after = abs(angles[rows, k - 1]), abs(angles[rows, k])
    part = (np.pi - before) / np.where(beyond.any(1), after - before, 1)
    return np.where(beyond.any(1), times[k - 1] + part * (times[k] - times[k - 1]), np.inf)


def barrier(upper, lower):
    """Return the spare energy of a pendulum for lifting its lower rod over the top (m g ℓ / 2); it can if positive."""
    return 2 - 3 * np.cos(upper) - np.cos(lower)


def show(flips, drift, duration, file):
    """Draw the map, its other half by symmetry (a pendulum and its mirror image), and the energy errors."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.6), layout="constrained", width_ratios=(1.3, 1))
    whole = np.concatenate([flips[::-1, ::-1], flips])
    colours = plt.get_cmap("inferno_r").copy()
    colours.set_bad(style.PAPER)
    image = np.ma.masked_invalid(np.where(np.isfinite(whole), whole, np.nan).T)
    picture = left.imshow(
        image, origin="lower", extent=(-180, 180, -180, 180), cmap=colours, norm=LogNorm(0.25, duration)
    )
    ticks = [t for t in (0.25, 0.5, 1, 2, 5, 10, 20) if t <= duration]
    line = np.linspace(-np.pi, np.pi, 181)
    level, degrees = barrier(*np.meshgrid(line, line)), np.rad2deg(line)
    left.contour(degrees, degrees, level, [0], colors=style.GROUND_COLOUR, linewidths=1)
    bar = figure.colorbar(picture, ax=left, label="time to the first flip (s)", ticks=ticks, extend="min")
    bar.ax.set_yticklabels([f"{t:g}" for t in ticks])
    bar.ax.minorticks_off()
    bar.ax.tick_params(labelsize=8, length=0)
    bar.outline.set_visible(False)
    angles = range(-180, 181, 90)
    left.set(xlabel="first angle of the upper rod (°)", ylabel="first angle of the lower rod (°)")
    left.set(xticks=angles, yticks=angles, title=f"{flips.size:,} double pendulums")
    edges = np.geomspace(np.quantile(drift, 0.005), drift.max(), 40)
    right.hist(drift, edges, color=style.PALETTE[0], alpha=0.8)
    right.axvline(np.median(drift), color=style.ACCENT, linewidth=1.2)
    right.set(xscale="log", xlabel="largest energy error / (m g l)", ylabel="pendulums")
    right.set_title(f"energy error in {duration:g} s, median {np.median(drift):.1e}")
    for ax in (left, right):
        style.tidy(ax, equal=False)
        ax.title.set_fontsize(10)
    left.grid(False)
    right.minorticks_off()
    figure.savefig(file, dpi=100)
    plt.close(figure)


def main():
    """Simulate the grid of pendulums, and draw the map of the times at which they flip over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer pendulums for a shorter time")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()
    began = time.time()
    half, duration = (16, 6.0) if options.quick else (71, 20.0)

    times = np.arange(0, duration + 0.01, 0.1)
    angle = (np.arange(-half, half) + 0.5) * np.pi / half
    upper, lower = np.meshgrid(angle[half:], angle, indexing="ij")
    starts = upper.ravel(), lower.ravel()
    fall_all = jax.jit(jax.vmap(lambda *angles: fall(times, *angles))).lower(*starts).compile()
    compiled = time.time()
    *angles, energy, status = jax.device_get(fall_all(*starts))
    seconds = time.time() - compiled

    flips = np.minimum(*(first_flip(times, angle) for angle in angles))
    drift = np.maximum(abs(energy - energy[:, :1]).max(1) / (GRAVITY * LENGTH), 1e-17)
    ended = status[:, -1]
    record = {
        "pendulums": upper.size,
        "steps of each": round(duration / STEP),
        "compilation (s)": compiled - began,
        "simulation (s)": seconds,
        "steps per second, all together": upper.size * round(duration / STEP) / seconds,
        "energy error over m g l, median": np.median(drift),
        "energy error over m g l, worst": drift.max(),
        "flipped": int(np.isfinite(flips).sum()),
        "flipped without the energy for it": int(np.isfinite(flips[barrier(*starts) < 0]).sum()),
    }
    record |= {f"status {mbs.Status(k).name.lower()}": int((ended == k).sum()) for k in np.unique(ended)}
    for name, value in record.items():
        print(f"{name:36}{value:14,.4g}" if isinstance(value, float) else f"{name:36}{value:14,}")

    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "03_double_pendulums.json").write_text(json.dumps(record, indent=2) + "\n")
    show(flips.reshape(upper.shape), drift, duration, options.output / "03_double_pendulums.png")
    print(f"{time.time() - began:.0f} s with compilation and pictures")


if __name__ == "__main__":
    main()
