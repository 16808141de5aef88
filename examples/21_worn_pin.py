"""A four-bar whose pin between coupler and rocker is worn: its journal has play, follows the hole, flies and hits.

A motor turns the crank at a constant speed. The worn pin is a `ClearanceRevolute` with 0.3 mm of play; where the journal
touches it is pressed back after Lankarani and Nikravesh. The run is compared with a four-bar without play. It
prints how often the journal loses contact and what the impacts do to the force in the pin; the picture has the orbit of the
journal in its hole and the force over one turn.
"""

import argparse
import json
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

import jaxmbs as mbs
from jaxmbs import planar
from jaxmbs.viz import style

jax.config.update("jax_enable_x64", True)

# Length of the crank (m).
CRANK = 0.05
# Length of the coupler (m).
COUPLER = 0.15
# Length of the rocker (m).
ROCKER = 0.12
# Distance of the bearings (m).
GROUND = 0.16
# Speed of the crank (rad/s).
SPEED = 30.0
# Radial play of the worn pin (m).
PLAY = 3e-4
# Stiffness of the contact in the worn pin (N/m^1.5).
STIFFNESS = 6e9
# Time of a turn of the crank (s).
TURN = 2 * np.pi / SPEED


def four_bar(worn):
    """Return a four-bar of bars of 1.5 kg/m with their frames in the middle."""
    bar = lambda length: planar.Body(mass=1.5 * length, inertia=1.5 * length**3 / 12)
    joints = {
        "O": planar.Revolute("ground", "crank", (0, 0), (-CRANK / 2, 0)),
        "A": planar.Revolute("crank", "coupler", (CRANK / 2, 0), (-COUPLER / 2, 0)),
        "B": planar.Revolute("coupler", "rocker", (COUPLER / 2, 0), (ROCKER / 2, 0)),
        "C": planar.Revolute("ground", "rocker", (GROUND, 0), (-ROCKER / 2, 0)),
    }
    forces = {"gravity": mbs.Gravity((0, -9.81))}
    if worn:
        del joints["B"]
        forces["pin"] = mbs.ClearanceRevolute(
            "coupler", "rocker", (COUPLER / 2, 0), (ROCKER / 2, 0), clearance=PLAY, stiffness=STIFFNESS, exponent=1.5,
            restitution=0.9, impact_velocity=0.1,
        )  # fmt: skip
    return mbs.Mechanism(
        bodies={"crank": bar(CRANK), "coupler": bar(COUPLER), "rocker": bar(ROCKER)},
        constraints=joints,
        drivers={"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(SPEED))},
        forces=forces,
    )


def guess():
    """Return the closed configuration with the crank along the ground."""
    base = GROUND - CRANK
    x = (base**2 + COUPLER**2 - ROCKER**2) / (2 * base)
    a, c, tip = np.array([CRANK, 0]), np.array([GROUND, 0]), np.array([CRANK + x, np.sqrt(COUPLER**2 - x**2)])
    along = lambda p, q: (*(p + q) / 2, np.arctan2(*(q - p)[::-1]))
    return {"crank": (CRANK / 2, 0, 0), "coupler": along(a, tip), "rocker": along(c, tip)}


def runs(times):
    """Return the motions of the worn four-bar, which starts in the state of the ideal one, and of the ideal one."""
    ideal = mbs.kinematics(four_bar(False), times, guess(), throw=True)
    worn = mbs.simulate(four_bar(True), times, ideal.q[0], ideal.v[0], step=5e-6, throw=True)
    return worn, ideal


def pin_loads(worn, ideal):
    """Return displacement and force of the worn pin, and the force of the ideal pin."""
    away = np.asarray(worn.point("rocker", (ROCKER / 2, 0)) - worn.point("coupler", (COUPLER / 2, 0)))
    force = np.linalg.norm(
        np.asarray(mbs.force_elements(four_bar(True), worn)["pin"].force).reshape(len(away), -1), axis=1
    )
    proper = np.linalg.norm(np.asarray(mbs.reactions(four_bar(False), ideal)["B"].force), axis=1)
    return away, force, proper


def show(times, away, force, proper, file):
    """Draw the orbit of the journal, and the force over a turn."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", width_ratios=(1, 2))
    turn = np.linspace(0, 2 * np.pi, 300)
    left.plot(1e3 * PLAY * np.cos(turn), 1e3 * PLAY * np.sin(turn), color=style.PALETTE[3], linewidth=0.8)
    left.plot(1e3 * away[:, 0], 1e3 * away[:, 1], color=style.PALETTE[0], linewidth=0.7)
    left.set(xlabel="journal in its hole, x (mm)", ylabel="y (mm)")
    right.plot(times / TURN, force, color=style.PALETTE[0], linewidth=0.7, label="worn pin")
    right.plot(times / TURN, proper, color=style.PALETTE[1], linewidth=1.5, label="proper pin")
    right.set(xlabel="turns of the crank", ylabel="force in the pin (N)")
    right.legend(frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    style.tidy(left, equal=True)
    style.tidy(right, equal=False)
    figure.savefig(file, dpi=100)
    plt.close(figure)


def main():
    """Simulate the worn and the ideal four-bar, and draw orbit and force."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a quarter of a turn")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()
    turns = 0.25 if options.quick else 2.0
    times = np.linspace(0, turns * TURN, round(20_000 * turns) + 1)

    worn, ideal = runs(times)
    away, force, proper = pin_loads(worn, ideal)
    hits = int(np.sum((force[1:] > 0) & (force[:-1] == 0)))
    flying = float(np.mean(force == 0))
    depth = float(np.linalg.norm(away, axis=1).max() - PLAY)
    print(f"the journal hits {hits} times in {turns:g} turns and flies for {100 * flying:.0f} % of the time")
    print(f"largest force {force.max():.0f} N, with a proper pin {proper.max():.1f} N; {1e6 * depth:.1f} µm deep")
    drift = float(np.abs(worn.position("rocker.phi") - ideal.position("rocker.phi")).max())
    print(f"the rocker is up to {np.degrees(drift):.2f}° from where a proper pin has it")

    options.output.mkdir(parents=True, exist_ok=True)
    record = {
        "hits": hits,
        "flying": flying,
        "depth": depth,
        "force": float(force.max()),
        "proper": float(proper.max()),
    }
    (options.output / "21_worn_pin.json").write_text(json.dumps(record, indent=2) + "\n")
    show(times, away, force, proper, options.output / "21_worn_pin.png")
    print(f"picture in {options.output / '21_worn_pin.png'}")


if __name__ == "__main__":
    main()
