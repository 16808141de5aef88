"""Moments and pin forces of an excavator for a thousand loads in the bucket.

The motion is prescribed: dig, lift while the house swings round, dump; the load sticks in the bucket to the end. With
Kane's equations every coordinate is known then, nothing is left to integrate, and the moments at the joints are what the
equations of the known coordinates say: inverse dynamics. The run checks them by the power that they put in, and ends with
the largest moments and pin forces; the picture has the work cycle, and moments and forces for all the loads.
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

# Duration of the work cycle (s).
CYCLE = 10.0
# Acceleration of gravity (m/s²).
GRAVITY = 9.81
# Mass (kg), centre of mass (m) and moments of inertia (kg m²) of each body, in frames with the origin at the body's own
# pin.
BODIES = {
    "house": (9000.0, (-0.8, 0.0, 0.9), (12e3, 16e3, 22e3)),
    "boom": (1900.0, (2.6, 0.0, 0.55), (300.0, 5.6e3, 5.6e3)),
    "stick": (900.0, (1.1, 0.0, 0.15), (80.0, 750.0, 750.0)),
    "bucket": (620.0, (0.65, 0.0, -0.1), (140.0, 160.0, 170.0)),
}
# The pin of the next body in the frame of the body, and the tip of the bucket.
PINS = {"house": (0.4, 0.0, 1.0), "boom": (5.6, 0.0, 0.0), "stick": (2.9, 0.0, 0.0), "bucket": (1.4, 0.0, 0.0)}
# Place of the load in the frame of the bucket (m).
LOAD = (0.75, 0.0, -0.15)
# Radius of the load, a ball of earth (m).
LOAD_RADIUS = 0.5
# Axis of the joint of the house.
UP = (0.0, 0.0, 1.0)
# Axis of the other joints.
ACROSS = (0.0, -1.0, 0.0)
# Each joint has a first angle (deg), and moves from one time to another (s) to a new angle (deg).
MOVES = {
    "swing": (0.0, [(3.0, 7.0, 90.0)]),
    "lift": (-25.0, [(1.5, 5.0, 38.0)]),
    "crowd": (-35.0, [(0.0, 2.5, -100.0), (6.5, 9.0, -55.0)]),
    "curl": (-10.0, [(0.2, 2.5, -70.0), (7.0, 9.0, 40.0)]),
}
# Body that each joint moves.
JOINTS = dict(zip(MOVES, BODIES, strict=True))
# End of the house in the picture, in its frame (m).
COUNTERWEIGHT = (-2.4, 0.0, 0.6)
# Times at which the picture shows the excavator (s).
INSTANTS = (0.0, 2.5, 5.0, 10.0)


def angle(name):
    """Return the angle of a joint as a function of time: moves of the fifth order, at rest at both ends."""
    first, moves = MOVES[name]

    def value(t):
        """Return the angle (rad) at time t."""
        total, last = first, first
        for begin, end, goal in moves:
            s = jnp.clip((t - begin) / (end - begin), 0, 1)
            total = total + (goal - last) * s**3 * (10 - 15 * s + 6 * s**2)
            last = goal
        return jnp.deg2rad(total)

    return mbs.motion.Function(value)


def excavator(load):
    """Return four bodies in a row with a ball of earth in the last one; `load` in kg."""
    bodies, joints, drivers = {}, {}, {}
    carrier, pin, axis = "ground", (0.0, 0.0, 0.9), UP
    for joint, name in JOINTS.items():
        mass, com, moments = BODIES[name]
        loaded = with_load(mass, com, moments, load)
        bodies[name] = spatial.Body(*loaded) if name == "bucket" else spatial.Body(mass, moments, com)
        joints[f"{joint} pin"] = spatial.Revolute(carrier, name, pin, (0, 0, 0), axis)
        drivers[joint] = spatial.RevoluteDriver(carrier, name, angle(joint), axis_i=axis)
        carrier, pin, axis = name, PINS[name], ACROSS
    return mbs.Mechanism(bodies, joints, drivers, {"weight": mbs.Gravity((0, 0, -GRAVITY))})


def with_load(mass, com, moments, load):
    """Return mass, inertia (3, 3) about the centre of mass, and centre of mass of bucket and load together."""
    com, place = jnp.array(com), jnp.array(LOAD)
    together = mass + load
    centre = (mass * com + load * place) / together

    def about_centre(point, part):
        """Return the moments of inertia of a mass `part` at a point, about the common centre of mass."""
        arm = point - centre
        return part * (arm @ arm * jnp.eye(3) - jnp.outer(arm, arm))

    ball = 0.4 * load * LOAD_RADIUS**2 * jnp.eye(3)
    return together, jnp.diag(jnp.array(moments)) + ball + about_centre(com, mass) + about_centre(place, load), centre


def work(times, load):
    """Return a dict of the work cycle at `times` (T,) in s, with a `load` in kg in the bucket.

    "moment" (N m) and "force" (N): dicts of (T,) by joint. "power" (W) of all actuators, "energy" (J), kinetic and
    potential, and "status": (T,). "tip" and "tail": (T, 3) in m. "joints": (T, bodies, 3) in m.
    """
    mech = excavator(load)
    run = mbs.simulate(mech, times, step=CYCLE, formulation=mbs.Kane())
    found = mbs.reactions(mech, run, formulation=mbs.Kane())
    rates = {name: jax.vmap(jax.grad(angle(name)))(times) for name in JOINTS}
    return {
        "moment": {name: found[name].effort for name in JOINTS},
        "force": {name: jnp.linalg.norm(found[f"{name} pin"].force, axis=-1) for name in JOINTS},
        "power": sum(found[name].effort * rates[name] for name in JOINTS),
        "energy": run.energy.total,
        "tip": run.point("bucket", PINS["bucket"]),
        "tail": run.point("house", COUNTERWEIGHT),
        "joints": jnp.stack([run.point(name, (0, 0, 0)) for name in BODIES], axis=1),
        "status": run.status,
    }


def show(times, loads, found, file):
    """Draw the cycle, the moments and the pin forces, from the empty bucket to the heaviest load."""
    figure = plt.figure(figsize=(12, 4.8), layout="constrained")
    left = figure.add_subplot(1, 3, 1, projection="3d", computed_zorder=False)
    left.set_proj_type("ortho")
    x, y = np.meshgrid(np.linspace(-3, 9, 7), np.linspace(-3, 9, 7))
    left.plot_wireframe(x, y, 0 * x, color="0.85", linewidth=0.7, zorder=0)
    tip, joints = found["tip"][-1], found["joints"][-1]
    left.plot(*tip.T, color=style.ACCENT, linewidth=1.2, zorder=1)
    for k in np.searchsorted(times, INSTANTS):
        chain = np.vstack([found["tail"][-1, k], joints[k], tip[k]])
        for n in range(len(chain) - 1):
            colour = style.colour_of(max(n - 1, 0))
            alpha = 1.0 if k == len(times) - 1 else 0.45
            left.plot(*chain[n : n + 2].T, color=colour, linewidth=4, alpha=alpha, solid_capstyle="round", zorder=2)
        left.plot(*joints[k].T, "o", color=style.GROUND_COLOUR, markersize=3, zorder=3)
    left.set(xlim=(-2.5, 8), ylim=(-2.5, 8), zlim=(-4.5, 6))
    left.set_box_aspect((1, 1, 1), zoom=1.3)
    left.view_init(20, -58)
    left.set_axis_off()
    left.set_title("dig, lift and swing, dump", fontsize=10)

    for column, (quantity, unit, title) in enumerate(
        [("moment", "kN m", "moments of the actuators"), ("force", "kN", "forces in the pins")]
    ):
        axes = figure.add_subplot(1, 3, 2 + column)
        for n, name in enumerate(JOINTS):
            values = np.asarray(found[quantity][name]) / 1e3
            colour = style.colour_of(n)
            axes.fill_between(times, values.min(0), values.max(0), color=colour, alpha=0.25, linewidth=0)
            axes.plot(times, values[0], color=colour, linewidth=0.9)
            axes.plot(times, values[-1], color=colour, linewidth=1.6, label=f"{name}")
        axes.set(xlabel="time (s)", ylabel=unit)
        axes.set_title(f"{title}, {loads[0]:.0f} to {loads[-1]:,.0f} kg", fontsize=10)
        style.tidy(axes, equal=False)
        axes.legend(fontsize=8, frameon=False)
    figure.savefig(file, dpi=100)
    plt.close(figure)


def main():
    """Compute the cycle for all loads, and draw moments and pin forces."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer loads and times")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()
    began = time.time()
    count, instants = (16, 201) if options.quick else (1000, 501)

    times = np.linspace(0, CYCLE, instants)
    loads = np.linspace(0, 1500, count)
    for_all = jax.jit(jax.vmap(lambda load: work(times, load))).lower(loads).compile()
    compiled = time.time()
    found = jax.device_get(for_all(loads))
    done = time.time()

    energy, power = found["energy"], found["power"]
    put_in = np.concatenate(
        [np.zeros((count, 1)), np.cumsum((power[:, 1:] + power[:, :-1]) / 2, axis=1) * (times[1] - times[0])], axis=1
    )
    missing = np.abs(energy - energy[:, :1] - put_in).max() / np.ptp(energy)
    numbers = {
        "loads": count,
        "all good": bool(np.all(found["status"] == 0)),
        "largest moments, heaviest load (kN m)": {
            k: float(np.abs(x[-1]).max() / 1e3) for k, x in found["moment"].items()
        },
        "moments at the end, heaviest load (kN m)": {k: float(x[-1, -1] / 1e3) for k, x in found["moment"].items()},
        "largest pin forces, heaviest load (kN)": {k: float(x[-1].max() / 1e3) for k, x in found["force"].items()},
        "energy not put in by the moments, relative": float(missing),
        "poses per second": count * instants / (done - compiled),
    }
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "11_excavator.json").write_text(json.dumps(numbers, indent=2) + "\n")
    show(times, loads, found, options.output / "11_excavator.png")
    for name, value in numbers.items():
        print(f"{name}: {value}")
    print(f"compiled in {compiled - began:.1f} s, ran in {done - compiled:.2f} s")
    print(f"picture in {options.output / '11_excavator.png'}")


if __name__ == "__main__":
    main()
