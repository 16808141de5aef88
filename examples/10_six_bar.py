"""A six-bar whose lever rests while the crank turns, in joint coordinates: two loops, closed by two cut joints.

A point of the coupler runs nearly on a circle for a quarter of a turn; a link as long as the radius of that circle keeps
the lever at rest. A heavy crank drives it, three turns without a motor. The run ends with the gaps of the loops
and the pin forces at the cut joints, from joint coordinates with two choices of the cut and from Cartesian coordinates.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

import jaxmbs as mbs
from jaxmbs import planar
from jaxmbs.viz import style

jax.config.update("jax_enable_x64", True)

# Length of the crank (m).
CRANK = 0.1
# Distance of the bearings of crank and rocker (m).
GROUND = 0.24
# Length of coupler, rocker and the arm to the coupler point (m); as they are equal its curve is symmetric.
SIDE = 0.25
# Angle between coupler and arm (rad).
BEND = np.deg2rad(-30)
# Length of the link from the coupler point to the lever (m).
LINK = 0.1703
# Length of the lever (m).
LEVER = 0.22
# Pivot of the lever in the ground (m).
PIVOT = (-0.061, -0.147)
# Coupler point in the frame of the coupler, from the crank pin (m).
POINT = (SIDE - SIDE * np.cos(BEND), -SIDE * np.sin(BEND))
# Mass of the bars per length (kg/m).
DENSITY = 4.0
# Speed of the crank at the start (rad/s).
SPEED = 3 * np.pi
# Step of the integrator (s).
STEP = 1e-3
# Formulations that are compared, by name.
FORMULATIONS = {
    "Cartesian": mbs.Augmented(),
    "joint coordinates": mbs.JointCoordinates(),
    "… cut at C and F": mbs.JointCoordinates(cut=("C", "F")),
}


def rod(length):
    """Return a rod with its frame at one end, x along it."""
    return planar.Body(DENSITY * length, DENSITY * length**3 / 12, com=(length / 2, 0))


def six_bar():
    """Return the mechanism: a four-bar O A B C, and the dyad D E F on its coupler."""
    plate = planar.Body(2 * DENSITY * SIDE, DENSITY * SIDE**3 / 3, com=(np.array([SIDE, 0]) + POINT) / 3)
    bodies = {
        "crank": planar.Body(5.0, 0.1),
        "coupler": plate,
        "rocker": rod(SIDE),
        "lever": rod(LEVER),
        "link": rod(LINK),
    }
    joints = {
        "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
        "A": planar.Revolute("crank", "coupler", (CRANK, 0), (0, 0)),
        "B": planar.Revolute("coupler", "rocker", (SIDE, 0), (SIDE, 0)),
        "C": planar.Revolute("ground", "rocker", (GROUND, 0), (0, 0)),
        "D": planar.Revolute("coupler", "link", POINT, (0, 0)),
        "E": planar.Revolute("link", "lever", (LINK, 0), (LEVER, 0)),
        "F": planar.Revolute("ground", "lever", PIVOT, (0, 0)),
    }
    return mbs.Mechanism(bodies, joints, forces={"weight": mbs.Gravity((0, -9.81))})


# Rough configuration of the six-bar at the start.
GUESS = {
    "coupler": (CRANK, 0, 1.3),
    "rocker": (GROUND, 0, 1.8),
    "link": (-0.01, 0.07, -0.6),
    "lever": (*PIVOT, 0.5),
}


def dwell(mech):
    """Return the range of the lever's angle in a turn, and while it rests for 100° of the crank (degrees)."""
    motor = {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0))}
    driven = mbs.Mechanism(mech.bodies, mech.constraints, motor)
    turn = mbs.kinematics(driven, np.deg2rad(np.arange(361.0)), GUESS)
    lever = np.rad2deg(turn.position("lever.phi"))
    return np.ptp(lever), np.ptp(lever[130:231])


def revolutions(run):
    """Return the angle of the crank in turns."""
    return np.asarray(run.position("crank.phi")) / (2 * np.pi)


def show(mech, runs, pins, folder):
    """Draw the mechanism at rest, its lever over time, and the force in a cut pin."""
    reference = runs["Cartesian"]
    figure, axes = plt.subplot_mosaic("a;b;c", figsize=(7, 7), layout="constrained", height_ratios=(1.7, 1, 1))
    still = int(np.argmin(np.abs(revolutions(reference) - 0.5)))
    mbs.viz.draw(mech, reference.q[still], ax=axes["a"], points=[("coupler", POINT)], size=0.9)
    mbs.viz.trace(reference, "coupler", POINT, ax=axes["a"])
    for pin, offset in {"B": (8, 6), "D": (-14, 6), "E": (8, 2)}.items():
        joint = mech.constraints[pin]
        place = mech.poses(reference.q[still])[joint.i].point(joint.point_i)
        axes["a"].annotate(pin, place, offset, textcoords="offset points", color=style.INK)
    axes["a"].set_title("while the lever rests, D moves on a circle about E", fontsize=10)
    axes["a"].set(xlabel="x (m)", ylabel="y (m)")
    axes["b"].plot(revolutions(reference), np.rad2deg(reference.position("lever.phi")), color=style.PALETTE[3])
    axes["b"].set(ylabel="angle of\nthe lever (°)")
    axes["b"].sharex(axes["c"])
    axes["b"].tick_params(labelbottom=False)
    size = lambda name: np.linalg.norm(pins[name]["D"].force, axis=-1)
    axes["c"].plot(revolutions(reference), size("Cartesian"), color=style.PALETTE[0], label="Cartesian coordinates")
    few = slice(None, None, 8)
    axes["c"].plot(
        revolutions(reference)[few], size("joint coordinates")[few], ".", color=style.ACCENT, label="joint coordinates"
    )
    axes["c"].set(ylabel="force in\nthe pin D (N)", xlabel="turns of the crank", ylim=(0, None))
    axes["c"].legend(frameon=False, fontsize=8, ncols=2, loc="lower right", bbox_to_anchor=(1, 1))
    for key in "bc":
        style.tidy(axes[key], equal=False)
    figure.savefig(folder / "10_six_bar.png", dpi=150)
    plt.close(figure)


def main():
    """Simulate the mechanism in all formulations, and draw mechanism, lever and pin force."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one turn instead of three, and fewer frames")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()
    began = time.time()
    duration = 0.7 if options.quick else 2.0
    times = np.linspace(0, duration, round(300 * duration) + 1)

    mech = six_bar()
    swing, rest = dwell(mech)
    print(f"the lever swings by {swing:.1f}°, and by {rest:.2f}° while the crank turns from 130° to 230°\n")
    record = {"swing (°)": swing, "swing at rest (°)": rest}
    start, runs, pins = mbs.assemble(mech, GUESS), {}, {}
    print(
        f"{'':20}{'unknowns':>9}{'equations':>10}{'largest gap (m)':>17}{'energy error (J)':>18}{'force off by (N)':>18}"
    )
    for name, formulation in FORMULATIONS.items():
        run = mbs.simulate(mech, times, start, {"crank.phi": SPEED}, step=STEP, formulation=formulation, throw=True)
        runs[name], pins[name] = run, mbs.reactions(mech, run, formulation=formulation)
        counts = sizes(mech, formulation)
        gap = float(np.abs(jax.vmap(lambda q: mbs.constraints(mech, q))(run.q)).max())
        off = max(float(np.abs(pins[name][pin].force - pins["Cartesian"][pin].force).max()) for pin in mech.constraints)
        energy = float(np.abs(run.energy.total - run.energy.total[0]).max())
        print(f"{name:20}{counts[0]:9}{counts[1]:10}{gap:17.1e}{energy:18.1e}{off:18.1e}")
        record[name] = {"unknowns": counts[0], "equations": counts[1], "gap (m)": gap}
        record[name] |= {"energy error (J)": energy, "force off by (N)": off}
    apart = max(float(np.abs(run.q - runs["Cartesian"].q).max()) for run in runs.values())
    largest = float(np.linalg.norm(pins["Cartesian"]["D"].force, axis=-1).max())
    record |= {"coordinates apart": apart, "largest force in D (N)": largest}
    print(f"\nthe motions agree to {apart:.1e}; the force in D is up to {largest:.0f} N")

    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "10_six_bar.json").write_text(json.dumps(record, indent=2) + "\n")
    show(mech, runs, pins, options.output)
    turn = int(np.searchsorted(revolutions(runs["Cartesian"]), 1))
    film = jax.tree.map(lambda x: x[: turn : 12 if options.quick else 3], runs["Cartesian"])
    for suffix in ("gif", "html"):
        mbs.viz.animate(mech, film, options.output / f"10_six_bar.{suffix}", traces=[("coupler", POINT)])
    print(f"{time.time() - began:.0f} s with compilation and pictures")


def sizes(mech, formulation):
    """Return the numbers of unknown accelerations and of equations."""
    if isinstance(formulation, mbs.Augmented):
        return mech.layout.m, len(mech.layout.row_owners)
    cut = mbs.topology.spanning_tree(mech, cut=formulation.cut).cut
    return len(formulation.of(mech).velocity_names), sum(mech.constraints[name].rows for name in cut)


if __name__ == "__main__":
    main()
