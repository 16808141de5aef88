"""A desk lamp that rests anywhere: two springs, found by gradients, carry it in every position.

The lower arm is a parallelogram that keeps the elbow upright, the upper arm carries the head. The springs have the free
length zero, like springs that are wound with tension or pulled by a cord over a pulley. `synthesis.balance` looks for
stiffnesses and for places of the ends at which no torque is needed to hold the lamp. By hand, a spring of stiffness k
from p to the point s of an arm balances the moment m g c of the arm if k s p̄ = −i m g c, with points as complex numbers.
The search finds this solution to rounding. Springs with another free length leave a small torque. At the end the lamp is
let go in five positions.
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

# Acceleration of gravity (m/s²).
G = 9.81
# Length of the lower arm (m).
LOWER = 0.40
# Distance of head and elbow (m).
UPPER = 0.38
# Place of the parallel rod's pins, on the base and on the elbow, seen from the pins of the arm (m).
OFFSET = (-0.05, -0.02)
# Masses (kg).
MASSES = {"lower": 0.25, "rod": 0.1, "elbow": 0.08, "upper": 0.55}
# Distance of the centre of mass of the upper arm and the head from the elbow (m).
UPPER_COM = 0.26
# Free length of ordinary springs (m), for comparison.
FREE_LENGTH = 0.06
# The first design: a spring on the base and one on the elbow, each with its stiffness (N/m), its place there (m), and its
# place on the arm, seen from the arm's pin (m).
DESIGN = {
    name: {"stiffness": jnp.array(300.0), "foot": jnp.array([0.02, 0.06]), "arm": jnp.array([0.08, 0.02])}
    for name in ("base", "elbow")
}
# Lower bounds of stiffness (N/m) and coordinates of the ends (m).
LOWER_BOUNDS = {"stiffness": 100.0, "foot": np.array([-0.05, 0.03]), "arm": np.array([0.03, -0.05])}
# Upper bounds of stiffness (N/m) and coordinates of the ends (m).
UPPER_BOUNDS = {"stiffness": 2000.0, "foot": np.array([0.05, 0.1]), "arm": np.array([0.12, 0.05])}
# Angles of lower and upper arm (rad) in the positions that are shown, and in which the lamp is let go.
POSITIONS = ((1.1, 0.5), (1.6, 0.9), (2.1, -0.4), (2.3, 0.3), (1.3, -0.5))


def lamp(design, angles=None, free_length=0.0):
    """Return the lamp with the springs of a design, with drivers for the two angles if they are given as motions."""
    bar = lambda name, length: planar.Body(MASSES[name], MASSES[name] * length**2 / 12, (length / 2, 0))
    ox, oy = OFFSET
    springs = {} if design is None else {
        f"spring at the {name}": mbs.Spring(i, j, end["foot"], end["arm"], end["stiffness"], free_length)
        for (name, end), (i, j) in zip(design.items(), (("ground", "lower"), ("elbow", "upper")), strict=True)
    }  # fmt: skip
    drivers = {} if angles is None else {
        "shoulder": planar.RevoluteDriver("ground", "lower", angles[0]),
        "wrist": planar.RevoluteDriver("elbow", "upper", angles[1]),
    }  # fmt: skip
    return mbs.Mechanism(
        bodies={
            "lower": bar("lower", LOWER),
            "rod": bar("rod", LOWER),
            "elbow": planar.Body(MASSES["elbow"], 1e-5),
            "upper": planar.Body(MASSES["upper"], 0.004, (UPPER_COM, 0)),
        },
        constraints={
            "O": planar.Revolute("ground", "lower", (0, 0), (0, 0)),
            "P": planar.Revolute("ground", "rod", (ox, oy), (0, 0)),
            "A": planar.Revolute("lower", "elbow", (LOWER, 0), (0, 0)),
            "B": planar.Revolute("rod", "elbow", (LOWER, 0), (ox, oy)),
            "C": planar.Revolute("elbow", "upper", (0, 0), (0, 0)),
        },
        drivers=drivers,
        forces={"gravity": mbs.Gravity((0, -G)), **springs},
    )


def pose(lower, upper):
    """Return the configuration of the lamp for the angles of its arms."""
    tip = LOWER * np.array([np.cos(lower), np.sin(lower)])
    return {"lower": (0, 0, lower), "rod": (*OFFSET, lower), "elbow": (*tip, 0), "upper": (*tip, upper)}


def sweep():
    """Return the motions of the two angles, which pass through all of the workspace in one unit of time."""
    return mbs.motion.Harmonic(0.65, 6 * jnp.pi, 0.0, 1.7), mbs.motion.Harmonic(0.8, 8 * jnp.pi, 0.5, 0.2)


def search(free_length, starts, steps):
    """Return the best springs of this free length."""
    bounds = [dict.fromkeys(DESIGN, bound) for bound in (LOWER_BOUNDS, UPPER_BOUNDS)]
    found = synthesis.balance(
        lambda design: lamp(design, sweep(), free_length),
        DESIGN,
        minimise={"static_rms": 1.0},
        guess=pose(1.7, 0.2 + 0.8 * np.sin(0.5)),
        samples=48,
        lower=bounds[0],
        upper=bounds[1],
        starts=starts,
        steps=steps,
    )
    return jax.tree.map(np.asarray, found.best.design)


def holding_torques(design, free_length=0.0, count=31):
    """Return both angles (count, count) and the larger of the torques of the two drivers that hold the lamp there."""
    lower, upper = np.meshgrid(np.linspace(1.05, 2.35, count), np.linspace(-0.6, 1.0, count), indexing="ij")

    def torque(lower, upper):
        """Return the larger torque at one position."""
        held = lamp(design, (mbs.motion.Constant(lower), mbs.motion.Constant(upper)), free_length)
        tip = LOWER * jnp.stack([jnp.cos(lower), jnp.sin(lower)])
        guess = {"lower": (0, 0, lower), "rod": (*OFFSET, lower), "elbow": (*tip, 0), "upper": (*tip, upper)}
        efforts = mbs.statics(held, mbs.kinematics(held, jnp.zeros(1), guess)).efforts
        return jnp.maximum(*(jnp.abs(effort[0]) for effort in efforts.values()))

    torques = jax.jit(jax.vmap(torque))(lower.ravel(), upper.ravel())
    return lower, upper, np.asarray(torques).reshape(lower.shape)


def distance_from_exact_solution(design):
    """Return |k s p̄ + i m g c| / (m g c) of both springs: zero if they balance exactly, by hand."""
    carried = MASSES["elbow"] + MASSES["upper"]
    moments = {
        "base": G * ((MASSES["lower"] + MASSES["rod"]) * LOWER / 2 + carried * LOWER),
        "elbow": G * MASSES["upper"] * UPPER_COM,
    }
    number = lambda point: complex(point[0], point[1])
    return {
        name: abs(end["stiffness"] * number(end["arm"]) * number(end["foot"]).conjugate() + 1j * moments[name])
        / moments[name]
        for name, end in design.items()
    }


def travel_after_release(design, duration):
    """Return the farthest that the head moves after the lamp is let go at rest, in each of the positions."""
    free, times = lamp(design), np.linspace(0, duration, 11)

    def travel(q):
        """Return the farthest that the head moves from a configuration."""
        run = mbs.simulate(free, times, q, step=2e-3)
        places = run.point("upper", (UPPER, 0))
        return jnp.max(jnp.linalg.norm(places - places[0], axis=-1))

    starts = jnp.stack([free.coordinates(pose(*position)) for position in POSITIONS])
    return np.asarray(jax.jit(jax.vmap(travel))(starts))


def show(design, maps, file):
    """Draw the lamp in its positions, and the torques that hold it with each kind of spring."""
    figure, axes = plt.subplots(
        1, 1 + len(maps), figsize=(12, 3.8), layout="constrained", width_ratios=(1.4, *[1] * len(maps))
    )
    for k, position in enumerate(POSITIONS):
        arm = lambda start, angle, length: start + length * np.array([np.cos(angle), np.sin(angle)])
        elbow = arm(np.zeros(2), position[0], LOWER)
        head = arm(elbow, position[1], UPPER)
        look = {"color": style.colour_of(k), "linewidth": 2.0}
        axes[0].plot(*np.array([[0, 0], elbow, head]).T, "o-", markersize=3, **look)
        axes[0].plot(*np.array([OFFSET, elbow + OFFSET]).T, **look | {"linewidth": 0.8})
        axes[0].plot(*head, "o", color=look["color"], markersize=9)
        for start, angle, end in ((np.zeros(2), position[0], design["base"]), (elbow, position[1], design["elbow"])):
            turned = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) @ end["arm"]
            ends = start + np.array([end["foot"], turned])
            axes[0].plot(*ends.T, ":", color=style.INK, linewidth=1.0)
    axes[0].set(xlabel="x (m)", ylabel="y (m)", title="rests in each of these positions")
    top = max(torque.max() for *_, torque in maps.values())
    for ax, (name, (lower, upper, torque)) in zip(axes[1:], maps.items(), strict=True):
        picture = ax.pcolormesh(np.rad2deg(lower), np.rad2deg(upper), torque, vmin=0, vmax=top, cmap="viridis")
        ax.set(xlabel="lower arm (°)", title=f"{name}\nup to {torque.max():.2g} N m")
    axes[1].set_ylabel("upper arm (°)")
    figure.colorbar(picture, ax=axes[1:], label="torque that holds the lamp (N m)")
    for k, ax in enumerate(axes):
        style.tidy(ax, equal=k == 0)
        ax.title.set_fontsize(10)
    figure.savefig(file, dpi=100)
    plt.close(figure)


def main():
    """Search the springs, measure the torques that are left, and let the lamp go."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer starts and steps, a shorter fall")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()
    effort = {"starts": 4, "steps": (60, 60)} if options.quick else {"starts": 16, "steps": (300, 100)}

    design = search(0.0, **effort)
    usual = search(FREE_LENGTH, **effort)
    maps = {
        "without springs": holding_torques(None),
        f"free length {1e3 * FREE_LENGTH:.0f} mm": holding_torques(usual, FREE_LENGTH),
        "free length zero": holding_torques(design),
    }
    record = {
        "largest torque (N m)": {name: float(torque.max()) for name, (*_, torque) in maps.items()},
        "relative distance from the exact solution": distance_from_exact_solution(design),
        "travel of the head after release (m)": travel_after_release(design, 0.5 if options.quick else 2.0).tolist(),
        "springs": jax.tree.map(lambda x: x.tolist(), design),
    }
    print(json.dumps(record, indent=2))
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "22_desk_lamp.json").write_text(json.dumps(record, indent=2) + "\n")
    show(design, maps, options.output / "22_desk_lamp.png")
    print(f"picture in {options.output / '22_desk_lamp.png'}")


if __name__ == "__main__":
    main()
