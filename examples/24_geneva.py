"""A Geneva drive whose crank and slots are found for the least jerk of the wheel, with the contact of its pin.

A pin turns a wheel with four slots. If the crank is too long or too short, or if the slots do not point to the axis of the
wheel, the pin hits a flank when it enters the slot. The wheel is simulated with the elastic contact of the pin with the
flanks of all slots, through an entry and an exit, for hundreds of designs in one call. From the best of them
`synthesis.minimise` descends by gradients through the contacts. It finds a pin whose circle is tangential to the slot, so
that it enters without an impact: the crank is a sin(π/n) + e for the distance a of the shafts and slots that pass the axis
at the distance e. The picture has the jerk of all designs, and the acceleration of the wheel before and after beside the
closed form for e = 0.
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

# Number of slots.
SLOTS = 4
# Distance of the shafts (m).
DISTANCE = 0.1
# The textbook drive for this distance. All designs use its wheel, with shifted slots.
WHEEL = planar.GenevaDrive("crank", "wheel", (0, 0), (0, 0), slots=SLOTS, crank=DISTANCE * np.sin(np.pi / SLOTS))
# Speed of the crank (rad/s).
SPEED = 2 * np.pi
# Inertia of the wheel and what it carries (kg m²).
INERTIA = 2e-4
# Damping of the wheel's bearing (N m s/rad).
DAMPING = 0.05
# Stiffness of the contact of the pin (N/m).
STIFFNESS = 1e4
# Radius of the pin, and of the rounded edges at the mouths of the slots (m).
PIN = {"pin_radius": 0.006, "corner_radius": 0.004}
# Gap between the pin and each flank (m).
GAP = 2e-5
# The first design (m): length of the crank, and distance of the middles of the slots from the axis of the wheel, positive
# to the left of the outward direction of the slot.
DESIGN = {"crank": 0.073, "offset": 1e-3}
# Designs of the map: lengths of the crank and offsets of the slots (m).
MAP = {"crank": np.linspace(0.0692, 0.0732, 33), "offset": np.linspace(-1e-3, 1e-3, 17)}
# Time step (s).
STEP = 2e-4
# Times of the outputs (s): the pin of the textbook drive is in the slot from 0.375 s to 0.625 s.
TIMES = np.linspace(0.2, 0.8, 601)


def drive(design):
    """Return the drive with a design: a crank at constant speed, and the wheel with the contacts of the pin."""
    crank, offset = (jnp.asarray(design[name]) for name in ("crank", "offset"))
    slots = WHEEL.contact_forces(**PIN, clearance=GAP, stiffness=STIFFNESS)["pin"].outline_j
    angles = 2 * np.pi * np.arange(SLOTS) / SLOTS
    across = np.stack([-np.sin(angles), np.cos(angles)], axis=-1)
    slots = planar.RoundedPolyline(slots.points + offset * across[:, None], slots.radius)
    pin = planar.OutlineContact(
        "crank", "wheel", jnp.stack([crank, 0.0]), (0, 0), planar.FunctionOutline(PIN["pin_radius"]), slots,
        stiffness=STIFFNESS, exponent=1.0, law="flores", restitution=0.3, impact_velocity=0.05,
    )  # fmt: skip
    return mbs.Mechanism(
        bodies={"crank": planar.Body(0.2, 1e-4), "wheel": planar.Body(0.3, INERTIA)},
        constraints={
            "shaft": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "bearing": planar.Revolute("ground", "wheel", (DISTANCE, 0), (0, 0)),
        },
        drivers={"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(SPEED, -np.pi))},
        forces={"pin": pin, "brake": mbs.JointSpring("bearing", stiffness=0.0, free=0.0, damping=DAMPING)},
    )


def run(design):
    """Return the motion over one step of the wheel, which rests in its place at the start."""
    start = {"crank": (0, 0, SPEED * TIMES[0] - np.pi), "wheel": (DISTANCE, 0, np.pi + np.pi / SLOTS)}
    return mbs.simulate(drive(design), TIMES, start, {"crank.phi": SPEED}, step=STEP)


def jerk(design):
    """Return the mean square of jerk / ω³: the wheel's jerk divided by the cube of the crank's speed ω."""
    acceleration = run(design).acceleration("wheel.phi")
    return jnp.mean((jnp.diff(acceleration) / (TIMES[1] - TIMES[0]) / SPEED**3) ** 2)


def search(steps):
    """Return the jerk (33, 17) of the designs of the map, and the design that the descent from the best of them finds."""
    crank, offset = np.meshgrid(MAP["crank"], MAP["offset"], indexing="ij")
    value = jax.jit(jax.vmap(lambda crank, offset: jerk({"crank": crank, "offset": offset})))
    values = np.sqrt(value(crank.ravel(), offset.ravel())).reshape(crank.shape)
    k, m = np.unravel_index(np.argmin(values), values.shape)
    best = {"crank": MAP["crank"][k], "offset": MAP["offset"][m]}
    size = {name: x[1] - x[0] for name, x in MAP.items()}
    bounds = {
        end: {name: best[name] + sign * size[name] for name in best} for end, sign in (("lower", -1), ("upper", 1))
    }
    found = synthesis.minimise(lambda design: jnp.log(jerk(design)), best, **bounds, starts=2, steps=steps)
    return values, {name: float(x) for name, x in found.best.design.items()}


def show(values, design, motions, file):
    """Draw the jerk of all designs, and the wheel's acceleration of the first and the found one beside the closed form."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.0), layout="constrained")
    picture = left.pcolormesh(1e3 * MAP["crank"], 1e3 * MAP["offset"], np.log10(values).T, cmap="viridis")
    left.plot(1e3 * design["crank"], 1e3 * design["offset"], "o", color=style.ACCENT)
    figure.colorbar(picture, ax=left, label="jerk, root mean square in ω³, log₁₀")
    left.set(xlabel="crank (mm)", ylabel="offset of the slots (mm)")
    theta = SPEED * TIMES - np.pi
    for k, (name, motion) in enumerate(motions.items()):
        look = {"color": style.colour_of(k), "linewidth": 1.0, "label": name}
        right.plot(np.rad2deg(theta), motion.acceleration("wheel.phi"), **look)
    look = {"color": style.INK, "linewidth": 0.8, "linestyle": "--", "label": "closed form"}
    right.plot(np.rad2deg(theta), -(SPEED**2) * WHEEL.wheel_acceleration(theta), **look)
    right.set(xlabel="crank from the line of shafts (°)", ylabel="acceleration of the wheel (rad/s²)")
    right.legend(frameon=False)
    for ax in (left, right):
        style.tidy(ax, equal=False)
    figure.savefig(file, dpi=100)
    plt.close(figure)


def main():
    """Search crank and slots for the least jerk, and draw the motion before and after."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer steps of the search")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()

    values, design = search((10, 10) if options.quick else (40, 20))
    motions = {"first design": run(DESIGN), "found": run(design)}
    before, after = (float(np.sqrt(jerk(b))) for b in (DESIGN, design))
    tangential = float(WHEEL.crank) + design["offset"]
    print(f"crank {1e3 * design['crank']:.3f} mm, tangential to the slots with {1e3 * tangential:.3f} mm")
    print(f"offset of the slots {1e3 * design['offset']:.3f} mm")
    print(f"root mean square of the jerk {before:.0f} → {after:.0f} ω³")

    options.output.mkdir(parents=True, exist_ok=True)
    record = {"design (m)": design, "tangential (m)": tangential, "jerk before": before, "jerk after": after}
    (options.output / "24_geneva.json").write_text(json.dumps(record, indent=2) + "\n")
    show(values, design, motions, options.output / "24_geneva.png")
    print(f"picture in {options.output / '24_geneva.png'}")


if __name__ == "__main__":
    main()
