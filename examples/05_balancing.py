"""A quiet four-bar: counterweights on crank and rocker, found by gradients through the inverse dynamics.

At constant speed a four-bar shakes its frame: the forces in its two bearings do not cancel. Two steel discs,
one on the crank and one on the rocker, of any mass and at any place within reach, shall make the shaking force small,
in the mean square over a turn, for little added mass. A batch of
sixteen designs, each with its own price of mass, gives the whole trade-off between force and mass at once.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax

import jaxmbs as mbs
from jaxmbs import planar
from jaxmbs.viz import style

jax.config.update("jax_enable_x64", True)

# Length of the crank (m).
CRANK = 0.10
# Length of the coupler (m).
COUPLER = 0.28
# Length of the rocker (m).
ROCKER = 0.22
# Distance of the bearings (m).
GROUND = 0.30
# Mass of the bars per length (kg/m).
BAR = 1.4
# Mass of the discs per area (kg/m²).
DISC = 7850 * 0.02
# Largest distance of a disc's centre from the bearing (m).
REACH = 0.09
# Speed of the crank (rad/s).
SPEED = 2 * np.pi * 600 / 60
# Mass of the bars together (kg).
MASS = BAR * (CRANK + COUPLER + ROCKER)
# Rough configuration of the four-bar at the start.
GUESS = {"crank": (0, 0, 0), "coupler": (CRANK, 0, 0.9), "rocker": (GROUND, 0, 1.5)}


def bar(length, disc=None):
    """Return a uniform bar with its frame at one end, as one body with a disc (mass, place) if given."""
    mass, com, inertia = BAR * length, jnp.array([length / 2, 0]), BAR * length**3 / 12
    if disc is None:
        return planar.Body(mass, inertia, com)
    added, place = disc
    both, apart = mass + added, place - com
    own = added**2 / (2 * jnp.pi * DISC)  # ½ m r² with m = DISC π r²
    return planar.Body(both, inertia + own + mass * added / both * apart @ apart, com + added / both * apart)


def four_bar(discs):
    """Return the four-bar with discs on crank and rocker."""
    return mbs.Mechanism(
        bodies={
            "crank": bar(CRANK, discs.get("crank")),
            "coupler": bar(COUPLER),
            "rocker": bar(ROCKER, discs.get("rocker")),
        },
        constraints={
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "coupler", (CRANK, 0), (0, 0)),
            "B": planar.Revolute("coupler", "rocker", (COUPLER, 0), (ROCKER, 0)),
            "C": planar.Revolute("ground", "rocker", (GROUND, 0), (0, 0)),
        },
        drivers={"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(SPEED))},
    )


def discs_of(x):
    """Return (mass, place) of both discs from six free numbers: masses are positive, places within reach."""
    place = lambda p: REACH * p / jnp.sqrt(1 + p @ p)
    return {"crank": (jnp.exp(x[0]), place(x[1:3])), "rocker": (jnp.exp(x[3]), place(x[4:6]))}


def turn(count):
    """Return the motion over a turn at `count` times, which does not depend on the discs."""
    return mbs.kinematics(four_bar({}), np.linspace(0, 2 * np.pi / SPEED, count), GUESS, throw=True)


def shaking(discs, motion):
    """Return the force on the ground over a turn (T, 2), and the driving torque, by inverse dynamics."""
    loads = mbs.reactions(four_bar(discs), motion)
    return -loads["O"].force - loads["C"].force, loads["motor"].effort


def rms(force):
    """Return the root mean square over a turn, without the last time, which repeats the first."""
    return jnp.sqrt(jnp.mean(jnp.sum(force[:-1] ** 2, axis=-1)))


def optimise(prices, motion, steps):
    """Return the best designs (prices, 6) for all prices of mass, searched at once."""
    before = rms(shaking({}, motion)[0])

    def cost(x, price):
        """Return the squared shaking force, relative to that without discs, plus the price of the mass added."""
        discs = discs_of(x)
        added = discs["crank"][0] + discs["rocker"][0]
        return (rms(shaking(discs, motion)[0]) / before) ** 2 + price * added / MASS

    optimizer = optax.adam(optax.cosine_decay_schedule(0.1, steps))

    @jax.jit
    def step(x, state):
        """Return the designs and the state of the optimiser after a step."""
        updates, state = optimizer.update(jax.vmap(jax.grad(cost))(x, prices), state)
        return optax.apply_updates(x, updates), state

    x = jnp.tile(jnp.array([np.log(0.1), -0.5, 0, np.log(0.1), -0.5, 0]), (len(prices), 1))
    state = optimizer.init(x)
    for _ in range(steps):
        x, state = step(x, state)
    return x


def show(motion, chosen, forces, trade, best, file):
    """Draw the four-bar before and after, its forces, and the trade-off."""
    figure = plt.figure(figsize=(10, 6.2), layout="constrained")
    axes = figure.subplot_mosaic([["before"] * 3 + ["after"] * 3, ["polar"] * 2 + ["time"] * 2 + ["trade"] * 2])
    colours = {"before": style.colour_of(1), "after": style.colour_of(0)}
    q, degrees = motion.q[len(motion.q) // 6], np.rad2deg(motion.position("crank.phi"))
    for name, discs in (("before", {}), ("after", chosen)):
        ax, mech = axes[name], four_bar(discs)
        for body, (mass, place) in discs.items():
            centre, look = mech.point(q, body, place), style.colour_of(list(mech.bodies).index(body))
            ax.add_patch(plt.Circle(centre, np.sqrt(mass / np.pi / DISC), color=look, alpha=0.45, linewidth=0))
        mbs.viz.draw(mech, q, ax=ax, points=[(body, place) for body, (_, place) in discs.items()])
        ax.set(title=f"{name}: {rms(forces[name]):.1f} N root mean square", xlabel="x (m)", ylabel="y (m)")
        ax.set(xlim=(-0.16, 0.42), ylim=(-0.15, 0.26))
        line = {"color": colours[name], "linewidth": 1.8, "label": name}
        axes["polar"].plot(*forces[name].T, **line)
        axes["time"].plot(degrees, np.linalg.norm(forces[name], axis=1), **line)
    axes["polar"].plot(0, 0, "+", color=style.INK, markersize=9)
    axes["polar"].set(xlabel="horizontal (N)", ylabel="vertical (N)", title="force on the ground")
    axes["time"].set(xlabel="crank angle (°)", ylabel="force (N)", xticks=range(0, 361, 90), ylim=0)
    axes["time"].set_title("its size over a turn")
    axes["time"].legend(frameon=False, fontsize=8)
    axes["trade"].plot(*trade, "o-", color=style.colour_of(2), linewidth=1.4, markersize=4)
    axes["trade"].plot(*(values[best] for values in trade), "o", color=colours["after"], markersize=8)
    axes["trade"].plot(0, rms(forces["before"]), "o", color=colours["before"], markersize=8)
    axes["trade"].set(xlabel="added mass (kg)", ylabel="root mean square (N)", title="sixteen prices of mass")
    for name, ax in axes.items():
        style.tidy(ax, equal=name in ("before", "after", "polar"))
        ax.title.set_fontsize(10)
    figure.savefig(file, dpi=100)
    plt.close(figure)


def main():
    """Search the discs for all prices of mass, and draw the best ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer steps and times")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()
    began = time.time()
    motion = turn(37 if options.quick else 145)

    x = optimise(np.geomspace(0.003, 3, 16), motion, 100 if options.quick else 300)
    designs = jax.vmap(discs_of)(x)
    added = np.asarray(designs["crank"][0] + designs["rocker"][0])
    forces, torques = jax.vmap(lambda discs: shaking(discs, motion))(designs)
    size, (force, torque) = np.asarray(jax.vmap(rms)(forces)), shaking({}, motion)
    best = np.flatnonzero(size < 0.1 * rms(force))[-1]  # the lightest with less than a tenth of the force
    chosen = jax.tree.map(lambda x: np.asarray(x[best]), designs)

    # The forces of the bearings must accelerate the masses.
    bodies = four_bar(chosen).bodies.items()
    needed = sum(body.mass * motion.point_acceleration(name, body.com) for name, body in bodies)
    record = {
        "shaking force before, root mean square (N)": float(rms(force)),
        "shaking force after (N)": float(size[best]),
        "mass before (kg)": MASS,
        "added mass (kg)": float(added[best]),
        "peak driving torque before (N m)": float(abs(torque).max()),
        "peak driving torque after (N m)": float(abs(torques[best]).max()),
        "misses Newton's law by (N)": float(abs(forces[best] + needed).max()),
    }
    for name, value in record.items():
        print(f"{name:44}{value:10.4g}")
    for body, (mass, place) in chosen.items():
        print(f"disc on the {body:6}  {mass:.3f} kg at ({place[0]:.4f}, {place[1]:.4f}) m")

    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "05_balancing.json").write_text(json.dumps(record, indent=2) + "\n")
    both = {"before": np.asarray(force), "after": np.asarray(forces[best])}
    show(motion, chosen, both, (added, size), best, options.output / "05_balancing.png")
    print(f"{time.time() - began:.0f} s with compilation and pictures")


if __name__ == "__main__":
    main()
