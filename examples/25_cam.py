"""A cam of spline knots that keeps its follower at 3,000 rpm, and the first one, which throws it off.

A cam lifts a valve with a roller by 8 mm against a spring. The radii of its outline are the knots of a periodic spline.
At 3,000 rpm the valve would leave the first cam near its top, as `Reactions.lifts` of the kinematic analysis says.
`synthesis.minimise` changes the knots of the flanks until the force of the contact, from inverse dynamics over a turn, is
large enough everywhere. Then the contact of both cams is simulated as a force, `contact_force`: the first valve lifts off,
the second one stays on its cam.
"""

import argparse
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import jaxmbs as mbs
from jaxmbs import planar, synthesis
from jaxmbs.viz import style

jax.config.update("jax_enable_x64", True)

# Speed of the cam (rad/s).
SPEED = 3000 * 2 * np.pi / 60
# Radius of the base circle (m).
BASE = 0.03
# Radius of the roller (m).
ROLLER = 0.01
# Lift of the cam (m).
LIFT = 0.008
# Mass of valve and follower (kg).
MASS = 0.05
# Stiffness of the spring (N/m) and its force on the base circle (N).
SPRING = (12_000.0, 60.0)
# Stiffness of the contact (N/m).
STIFFNESS = 2e7
# Number of knots of the outline.
KNOTS = 24
# Number of knots on each flank, after that of the top. The cam is symmetric, and round behind its flanks.
FLANK = 6
# Lift of the first cam at the knots of a flank, divided by `LIFT`: harmonic, over 56° from the top.
FIRST = np.array([0.835, 0.448, 0.095, 0.0, 0.0, 0.0])
# Vertical part of the force of the contact that the search counts as enough (N).
ENOUGH = 40.0
# Number of samples of a turn.
SAMPLES = 180
# Number of turns that are simulated.
TURNS = 2
# Time step (s).
STEP = 1e-5
# Start of the cam, on its round back: the angle of its top from the upward direction (rad).
BACK = np.pi


def outline(flank):
    """Return the outline whose flanks have these lifts; the top, along the y axis of the cam, has the lift 1."""
    half = jnp.concatenate([jnp.ones(1), jnp.asarray(flank), jnp.zeros(KNOTS // 2 - FLANK)])
    around = jnp.concatenate([half, half[-2:0:-1]])
    return planar.SplineOutline(BASE + LIFT * jnp.roll(around, KNOTS // 4))


def valve(flank, free=False):
    """Return the cam at constant speed and the valve above it, held on it or, if `free`, pushed by it only."""
    roller = planar.FunctionOutline(ROLLER)
    held = planar.CamFollower("cam", "valve", (0, 0), (0, ROLLER), outline(flank), roller, one_sided=True)
    push = held.contact_force(stiffness=STIFFNESS, exponent=1.0, restitution=0.6, impact_velocity=0.5)
    stiffness, preload = SPRING
    spring = mbs.JointSpring("guide", stiffness=stiffness, free=BASE - preload / stiffness)
    return mbs.Mechanism(
        bodies={"cam": planar.Body(1.0, 1e-3), "valve": planar.Body(MASS, 1e-4)},
        constraints={
            "shaft": planar.Revolute("ground", "cam", (0, 0), (0, 0)),
            "guide": planar.Translational("ground", "valve", (0, 0), (0, 0), (0, 1)),
            **({} if free else {"contact": held}),
        },
        drivers={"motor": planar.RevoluteDriver("ground", "cam", mbs.motion.Ramp(SPEED, BACK))},
        forces={"spring": spring, **({"contact": push} if free else {})},
    )


def one_turn(flank):
    """Return the times of a turn, the reactions over it, and the motion of the valve that is held on its cam."""
    times = np.linspace(0, 2 * np.pi / SPEED, SAMPLES, endpoint=False)
    # The guess of the contact: its polar angles on cam and roller.
    guess = {"cam": (0, 0, BACK), "valve": (0, BASE, 0), "contact": (-np.pi / 2, -np.pi / 2)}
    mech = valve(flank)
    motion = mbs.kinematics(mech, times, guess)
    return times, mbs.reactions(mech, motion), motion


def shortfall(flank):
    """Return the mean square, over a turn, of the fraction of `ENOUGH` by which the vertical force is too small."""
    _, reactions, _ = one_turn(flank)
    return jnp.mean(jnp.maximum(1 - reactions["contact"].force[:, 1] / ENOUGH, 0) ** 2)


def flight(flank):
    """Return times, and the gap between valve and cam in a simulation with the contact as a force."""
    times = np.linspace(0, TURNS * 2 * np.pi / SPEED, 2 * SAMPLES * TURNS + 1)
    mech = valve(flank, free=True)
    start = {"cam.phi": BACK, "valve.y": BASE - SPRING[1] / STIFFNESS}
    run = mbs.simulate(mech, times, start, {"cam.phi": SPEED}, step=STEP, throw=True)
    return times, -mbs.force_elements(mech, run)["contact"].length


def show(flanks, file):
    """Draw outlines, forces of the contact and gaps of the cams."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.0), layout="constrained", width_ratios=(1, 1.2, 1.2))
    angles = np.linspace(0, 2 * np.pi, 361)
    for k, (name, (flank, forces, (times, gap))) in enumerate(flanks.items()):
        look = {"color": style.colour_of(k), "linewidth": 1.2, "label": name}
        points = 1e3 * np.asarray(jax.vmap(outline(flank).point)(angles))
        axes[0].plot(*points.T, **look)
        axes[1].plot(np.linspace(-180, 180, SAMPLES, endpoint=False), forces, **look)
        axes[2].plot(times * SPEED / (2 * np.pi), 1e3 * gap, **look)
    axes[0].set(xlabel="x (mm)", ylabel="y (mm)")
    axes[1].set(xlabel="cam (°)", ylabel="force of the contact if it holds (N)")
    axes[2].set(xlabel="turns", ylabel="gap between valve and cam (mm)")
    axes[2].legend(frameon=False)
    for k, ax in enumerate(axes):
        style.tidy(ax, equal=k == 0)
    figure.savefig(file, dpi=100)
    plt.close(figure)


def main():
    """Search the flanks, and simulate the valve on the first and the found cam."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer steps of the search")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()

    steps = (30, 10) if options.quick else (60, 30)
    found = synthesis.minimise(shortfall, FIRST, lower=-0.01, upper=1.0, starts=1, steps=steps)
    flanks, record = {}, {}
    for name, flank in (("first cam", FIRST), ("found", found.best.design)):
        _, reactions, _ = one_turn(flank)
        forces, (times, gap) = np.asarray(reactions["contact"].force[:, 1]), flight(flank)
        flanks[name] = flank, forces, (times, gap)
        lifts = int(np.sum(reactions.lifts["contact"]))
        print(f"{name}: force {forces.min():.0f} to {forces.max():.0f} N, lifts in {lifts} of {SAMPLES} samples")
        print(f"  simulated: the valve is up to {1e3 * float(gap.max()):.3f} mm above the cam")
        record[name] = {"least force (N)": float(forces.min()), "lifts": lifts, "gap (m)": float(gap.max())}

    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "25_cam.json").write_text(json.dumps(record, indent=2) + "\n")
    show(flanks, options.output / "25_cam.png")
    print(f"picture in {options.output / '25_cam.png'}")


if __name__ == "__main__":
    main()
