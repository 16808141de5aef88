"""Bricard's six-bar: five rods and six hinges that move although a count of equations denies it.

Thirty equations on thirty velocities should leave no motion, but one of them is redundant: the mechanism has one degree of
freedom. It swings for ten seconds under its weight. The run ends with the energy, the gap of the loop and the redundant
hinge, a picture of six positions, and a page that plays the motion in any browser: open 06_bricard.html.

Numbers: IFToMM Technical Committee for Multibody Dynamics, Library of Computational Benchmark Problems, problem A04.
"""

import argparse
import json
import time
from itertools import pairwise
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

import jaxmbs as mbs
from jaxmbs import spatial

jax.config.update("jax_enable_x64", True)

# Points P1 to P6 of the hinges at the start (m).
POINTS = np.array([(0, 0, 0), (1, 0, 0), (1, -1, 0), (1, -1, 1), (0, -1, 1), (0, 0, 1)], float)
# Axes of the hinges at these points at the start.
AXES = np.array([(0, 1, 0), (0, 0, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 0)], float)
# Names of the rods.
RODS = [f"rod {k}" for k in range(1, 6)]
# Mass of a rod (kg).
MASS = 1.0
# Moment of inertia of a rod about its length (kg m²).
ALONG = 1 / 600
# Moment of inertia of a rod about its middle, across its length (kg m²).
ACROSS = 0.0841666666666667
# Acceleration of gravity (m/s²).
GRAVITY = (0, -9.81, 0)


def rod_axes(k):
    """Return the axes of rod k at the start as columns: x along the rod, y along the hinge at its first end."""
    along = POINTS[k + 1] - POINTS[k]
    return np.stack([along, AXES[k], np.cross(along, AXES[k])], axis=1)


def bricard():
    """Return the mechanism and its start."""
    axes = {"ground": np.eye(3)} | {name: rod_axes(k) for k, name in enumerate(RODS)}
    middle = {"ground": np.zeros(3)} | {name: POINTS[k : k + 2].mean(axis=0) for k, name in enumerate(RODS)}
    hinges = {}
    for k, (i, j) in enumerate(pairwise(["ground", *RODS, "ground"])):
        points = [axes[body].T @ (POINTS[k] - middle[body]) for body in (i, j)]
        directions = [axes[body].T @ AXES[k] for body in (i, j)]
        hinges[f"P{k + 1}"] = spatial.Revolute(i, j, *points, *directions)
    bodies = {name: spatial.Body(MASS, (ALONG, ACROSS, ACROSS)) for name in RODS}
    mech = mbs.Mechanism(bodies, hinges, forces={"weight": mbs.Gravity(GRAVITY)})
    return mech, {name: spatial.coordinates(middle[name], axes[name]) for name in RODS}


def show(mech, motion, folder, frames):
    """Write a picture of six positions, and the page."""
    figure = plt.figure(figsize=(9, 6), layout="constrained")
    for place, row in enumerate(np.linspace(0, 45, 6).astype(int)):
        ax = figure.add_subplot(2, 3, place + 1, projection="3d")
        mbs.viz.draw(mech, motion.q[row], motion.t[row], ax=ax, view=(18, -60))
        ax.set_axis_off()
        ax.set_title(f"{motion.t[row]:.1f} s", fontsize=10)
    figure.savefig(folder / "06_bricard.png", dpi=100)
    plt.close(figure)
    film = jax.tree.map(lambda x: x[:: max(1, len(motion.t) // frames)], motion)
    mbs.viz.animate(
        mech, film, folder / "06_bricard.html", traces=[("rod 2", (0.5, 0, 0))], title="Bricard's mechanism"
    )


def main():
    """Simulate the mechanism, and write its picture and its page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two seconds instead of ten")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()
    began = time.time()
    end = 2.0 if options.quick else 10.0
    times = np.linspace(0, end, round(30 * end) + 1)

    mech, start = bricard()
    report = mbs.diagnose(mech, mech.coordinates(start))
    print(f"rank {report.rank} of {len(mech.layout.row_owners)} equations, {report.dof} degree of freedom")
    print(f"redundant: {', '.join(report.redundant)}")
    motion = mbs.simulate(mech, times, start, step=4e-3, throw=True)
    run = time.time()
    change = float(np.ptp(motion.energy.total))
    gap = max(float(np.abs(mbs.constraints(mech, q)).max()) for q in motion.q[::10])
    tip = motion.point("rod 2", (0.5, 0, 0))
    print(f"energy changes by {change:.1e} J in {end:g} s, the loop is open by {gap:.1e} m at most")

    options.output.mkdir(parents=True, exist_ok=True)
    record = {"rank": report.rank, "redundant": report.redundant, "energy change (J)": change, "gap (m)": gap}
    record |= {"P3 at the end (m)": np.asarray(tip[-1]).tolist()}
    (options.output / "06_bricard.json").write_text(json.dumps(record, indent=2) + "\n")
    show(mech, motion, options.output, 60 if options.quick else 300)
    print(f"{run - began:.0f} s with compilation, {time.time() - run:.0f} s for the pictures")


if __name__ == "__main__":
    main()
