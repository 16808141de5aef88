"""Forces in an engine: loads on crank, bearings and pins of a single-cylinder four-stroke engine.

The crank turns at constant speed and the gas pushes on the piston, by an indicator diagram in closed form. Inverse
dynamics gives the torque at the crank and the force in every joint over two turns. The picture shows them stroke by
stroke, the forces as polar diagrams: each in the frame of the part that wears.
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
from jaxmbs import planar
from jaxmbs.viz import style

jax.config.update("jax_enable_x64", True)

# Diameter of the piston (m).
BORE = 0.086
# Radius of the crank (m).
CRANK = 0.043
# Length of the connecting rod (m).
ROD = 0.143
# Largest volume over the piston, divided by the smallest.
COMPRESSION = 10.0
# Area of the piston (m²).
AREA = np.pi / 4 * BORE**2
# Speed of the crank (rad/s).
SPEED = 2 * np.pi * 3000 / 60
# Pressure of the air around the engine (Pa).
AMBIENT = 1e5
# Index of the colour of each stroke in the palette.
STROKES = {"power": 1, "exhaust": 3, "intake": 0, "compression": 2}


def volume(angle):
    """Return the volume over the piston, relative to the largest one; the engine fires at the crank angle 0."""
    travel = CRANK + ROD - CRANK * jnp.cos(angle) - jnp.sqrt(ROD**2 - (CRANK * jnp.sin(angle)) ** 2)
    return (1 + (COMPRESSION - 1) * travel / (2 * CRANK)) / COMPRESSION


def pressure(angle):
    """Return the gauge pressure: while the valves are shut p V^1.3 is constant, and grows as the charge burns."""
    shut = jax.nn.sigmoid(jnp.cos(angle / 2) / 0.08)
    burnt = jax.nn.sigmoid(jnp.sin(angle / 2 - 0.1) / 0.06)
    return AMBIENT * shut * ((1 + 2.5 * burnt) / volume(angle) ** 1.3 - 1)


def engine():
    """Return the engine. The x axis of the crank points to the crank pin; the piston moves along y."""
    gas = lambda state: -AREA * pressure(state.joint("main bearing").angle - jnp.pi / 2)
    return mbs.Mechanism(
        bodies={
            "crank": planar.Body(mass=2.5, inertia=4e-3, com=(-0.012, 0)),  # with counterweights
            "rod": planar.Body(mass=0.55, inertia=1.3e-3, com=(0.3 * ROD, 0)),
            "piston": planar.Body(mass=0.45, inertia=4e-4),
        },
        constraints={
            "main bearing": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "crank pin": planar.Revolute("crank", "rod", (CRANK, 0), (0, 0)),
            "piston pin": planar.Revolute("rod", "piston", (ROD, 0), (0, 0)),
            "cylinder": planar.Translational("ground", "piston", (0, 0), (0, 0), (0, 1)),
        },
        drivers={"shaft": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(SPEED, jnp.pi / 2))},
        forces={"gas": mbs.PointForce("piston", (0, 0), (0.0, gas))},
    )


# Rough configuration of the engine at the start.
GUESS = {"crank": (0, 0, np.pi / 2), "rod": (0, CRANK, np.pi / 2), "piston": (0, CRANK + ROD, 0)}


def by_stroke(ax, x, y):
    """Draw a line in the colours of the strokes, with a dot at the beginning of each."""
    quarter = (len(x) - 1) // 4
    for k, (name, colour) in enumerate(STROKES.items()):
        part, look = slice(k * quarter, (k + 1) * quarter + 1), style.colour_of(colour)
        ax.plot(x[part], y[part], color=look, linewidth=1.8, label=name, solid_capstyle="round")
        ax.plot(x[part][:1], y[part][:1], "o", color=look, markersize=4)


def show(mech, motion, degrees, curves, forces, file):
    """Draw torque and forces over two turns."""
    figure = plt.figure(figsize=(11, 5.2), layout="constrained")
    axes = figure.subplot_mosaic([list("MABGT"), list("MABCC")], width_ratios=(1, 0.72, 0.72, 1.5, 1.5))
    moment = np.argmin(abs(degrees - 50))
    mbs.viz.draw(mech, motion.q[moment], motion.t[moment], ax=axes["M"], size=1.7)
    axes["M"].set(title="50° after firing", xlabel="x (m)", ylabel="y (m)", xlim=(-0.055, 0.025), xticks=(-0.04, 0))
    for key, (name, values) in zip("GT", curves.items(), strict=True):
        by_stroke(axes[key], degrees, values)
        axes[key].set(title=name, xlabel="crank angle (°)", xticks=range(0, 721, 180))
    axes["G"].legend(frameon=False, fontsize=8)
    for key, (title, (labels, force)) in zip("ACB", forces.items(), strict=True):
        by_stroke(axes[key], *force.T / 1e3)
        axes[key].plot(0, 0, "+", color=style.INK, markersize=9)
        axes[key].set(title=title, xlabel=f"{labels[0]} (kN)", ylabel=f"{labels[1]} (kN)")
    for key, ax in axes.items():
        ax.set(**{"xlim": (-4, 4), "xticks": (-3, 0, 3)} if key in "AB" else {})
        style.tidy(ax, equal=key in "MABC")
        for text, size in ((ax.title, 10), (ax.xaxis.label, 9), (ax.yaxis.label, 9)):
            text.set_fontsize(size)
    figure.savefig(file, dpi=100)
    plt.close(figure)


def main():
    """Compute two turns of the engine with its forces, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="steps of 2° instead of 0.5°")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()
    began = time.time()
    degrees = np.linspace(0, 720, 361 if options.quick else 1441)
    times = np.deg2rad(degrees) / SPEED

    mech = engine()
    motion = mbs.kinematics(mech, times, GUESS, throw=True)
    loads, gas = mbs.reactions(mech, motion), mbs.force_elements(mech, motion)["gas"]
    pressures, torque = -np.asarray(gas.force[:, 1]) / AREA, -np.asarray(loads["shaft"].effort)
    # Reactions act on the second body of a joint, the opposite on the first; shown in the frame of the worn part.
    bearing, crank_pin, piston_pin = (loads[name] for name in ("main bearing", "crank pin", "piston pin"))
    forces = {
        "force on the\nmain bearing": (("sideways", "upwards"), -bearing.about("ground").force),
        "force on the crank pin, in the crank's frame": (("outwards", "ahead"), -crank_pin.about("crank").force),
        "force on the\npiston pin": (("sideways", "upwards"), piston_pin.about("piston").force),
    }

    # After two turns the motion repeats, so the work of shaft and gas must add up to 0.
    work_of_gas, work_of_shaft = np.trapezoid(gas.power, times), np.trapezoid(-torque * SPEED, times)
    record = {
        "work of the gas (J)": work_of_gas,
        "work of the shaft (J)": work_of_shaft,
        "sum (J)": work_of_shaft + work_of_gas,
        "power at 3000/min (kW)": -work_of_shaft / times[-1] / 1e3,
        "peak pressure (bar)": pressures.max() / 1e5,
        "mean torque (N m)": -work_of_shaft / (4 * np.pi),
        "least and largest torque (N m)": [torque.min(), torque.max()],
    }
    for title, (_, force) in forces.items():
        record[f"largest {' '.join(title.split())} (kN)"] = np.linalg.norm(force, axis=1).max() / 1e3
    for name, value in record.items():
        print(f"{name:56}", "  ".join(f"{x:10.4g}" for x in np.atleast_1d(value)))

    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "02_engine.json").write_text(json.dumps(record, indent=2) + "\n")
    curves = {"gas pressure (bar)": pressures / 1e5, "torque on the shaft (N m)": torque}
    show(mech, motion, degrees, curves, forces, options.output / "02_engine.png")
    print(f"{time.time() - began:.0f} s with compilation and pictures")


if __name__ == "__main__":
    main()
