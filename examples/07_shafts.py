"""Two bent shafts: a universal joint makes the second one run unevenly, a constant-velocity joint does not.

The first shaft turns uniformly, the second drives a flywheel. Kinematics gives the ratio of the speeds at all bends in one
call; inverse dynamics gives the torque of the motor that accelerates the flywheel twice in a turn.

Formula: ω₂/ω₁ = cos β / (1 − sin²β cos²θ), textbooks of machine design.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import jaxmbs as mbs
from jaxmbs import spatial
from jaxmbs.viz import style

jax.config.update("jax_enable_x64", True)

# Speed of the first shaft (rad/s).
SPEED = 100.0
# Moment of inertia of the second shaft about its axis (kg m²).
FLYWHEEL = 0.02
# Angles between the shafts (degrees).
BENDS = (10, 20, 30, 40)


def shafts(joint, bend):
    """Return a mechanism of two shafts that meet at the origin: a driven one along z, one tilted by `bend` rad about y.

    joint: constraint between "first" and "second". The bearing of the second holds its direction, not its place.
    """
    first = spatial.Body(2.0, 1e-3)
    second = spatial.Body(3.0, jnp.stack([jnp.asarray(x) for x in (FLYWHEEL, FLYWHEEL, FLYWHEEL)]))
    turn = mbs.rotation.exp_matrix(jnp.stack([0 * bend, bend, 0 * bend]))
    bearing = spatial.TotalJoint(
        "ground", "second", orientation=("fixed", "fixed", "free"), frame_i=turn, frame_j=np.eye(3)
    )
    return mbs.Mechanism(
        {"first": first, "second": second},
        {"bearing": spatial.Revolute("ground", "first"), "joint": joint, "other bearing": bearing},
        {"motor": spatial.RevoluteDriver("ground", "first", mbs.motion.Ramp(SPEED))},
    )


# Builder of each joint between the shafts, by name.
JOINTS = {
    "universal": lambda: spatial.Universal("first", "second"),
    "constant velocity": lambda: spatial.ConstantVelocity("first", "second"),
}


def turn_of(kind, bend, times):
    """Return the speed of the second shaft relative to the first, the torque of the motor, and the status."""
    mech = shafts(JOINTS[kind](), bend)
    start = {"second": spatial.coordinates((0, 0, 0), jnp.stack([0 * bend, bend, 0 * bend]))}
    motion = mbs.kinematics(mech, times, start)
    return motion.velocity("second.wz") / SPEED, mbs.reactions(mech, motion)["motor"].effort, motion.status


def show(found, angles, folder):
    """Draw ratios of the speeds and torques over a turn."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for kind, (ratios, torques, _) in found.items():
        for k, bend in enumerate(BENDS):
            line = {"color": style.colour_of(k), "linestyle": "-" if kind == "universal" else ":", "linewidth": 1.6}
            axes[0].plot(angles, ratios[k], label=f"{bend}°" if kind == "universal" else None, **line)
            axes[1].plot(angles, torques[k], **line)
    axes[0].set(xlabel="angle of the first shaft (°)", ylabel="ω₂ / ω₁", xlim=(0, 360))
    axes[1].set(xlabel="angle of the first shaft (°)", ylabel="torque of the motor (N m)", xlim=(0, 360))
    axes[0].legend(frameon=False, fontsize=9, ncols=4, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0)
    axes[1].set_title("solid: universal joint, dotted: constant velocity", fontsize=9)
    for ax in axes:
        style.tidy(ax, equal=False)
    figure.savefig(folder / "07_shafts.png", dpi=100)
    plt.close(figure)


def main():
    """Compute a turn with each joint and bend, and draw speeds and torques."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer angles")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()
    began = time.time()
    angles = np.linspace(0, 360, 37 if options.quick else 181)
    times, bends = np.deg2rad(angles) / SPEED, np.deg2rad(BENDS)

    found = {kind: jax.jit(jax.vmap(lambda bend, kind=kind: turn_of(kind, bend, times)))(bends) for kind in JOINTS}
    # The arm of the cross on the first shaft is across the plane of the shafts a quarter of a turn after the start.
    theta, beta = np.deg2rad(angles), bends[:, None]
    formula = np.cos(beta) / (1 - np.sin(beta) ** 2 * np.cos(theta) ** 2)
    record = {
        "failed": int(sum(int((status != 0).sum()) for _, _, status in found.values())),
        "universal: largest difference to the formula": float(np.abs(found["universal"][0] - formula).max()),
        "constant velocity: largest difference to 1": float(np.abs(found["constant velocity"][0] - 1).max()),
        "torque at 40° (N m)": float(np.abs(found["universal"][1][-1]).max()),
    }
    for name, value in record.items():
        print(f"{name}: {value:.3g}")
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "07_shafts.json").write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    show(found, angles, options.output)
    print(f"{time.time() - began:.0f} s")


if __name__ == "__main__":
    main()
