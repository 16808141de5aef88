"""Andrews' squeezing mechanism: seven bodies, ten pins, two and a half turns of the crank in 0.03 s.

A benchmark of multibody dynamics since 1990: a constant torque on the smallest link, from rest, against a spring. The
run compares the final angles with the published ones, and writes a film, slowed down 160 times.

Numbers: W. Schiehlen (ed.), Multibody Systems Handbook, Springer, 1990; start and end values: F. Mazzia & C. Magherini,
Test Set for Initial Value Problem Solvers, University of Bari, problem "Andrews' squeezing mechanism".
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

# Mass (kg) and moment of inertia (kg m²) of each body, named by its ends. All numbers are in metres, newtons, seconds.
BODIES = {
    "OF": (0.04325, 2.194e-6),
    "FE": (0.00365, 4.410e-7),
    "BDE": (0.02373, 5.255e-6),
    "EG": (0.00706, 5.667e-7),
    "AG": (0.07050, 1.169e-5),
    "EH": (0.00706, 5.667e-7),
    "AH": (0.05498, 1.912e-5),
}
# Points of the ground, and of each body relative to its centre of mass.
POINTS = {
    "ground": {"O": (0, 0), "A": (-0.06934, -0.00227), "B": (-0.03635, 0.03273), "C": (0.014, 0.072)},
    "OF": {"O": (-0.00092, 0), "F": (0.00608, 0)},
    "FE": {"F": (0.0115, 0), "E": (-0.0165, 0)},
    "BDE": {"B": (-0.01043, 0.01874), "D": (0.00957, 0.00074), "E": (-0.01043, -0.01626)},
    "EG": {"G": (0, 0.00579), "E": (0, -0.01421)},
    "AG": {"A": (-0.02308, -0.00916), "G": (0.01692, -0.00916)},
    "EH": {"H": (-0.00579, 0), "E": (0.01421, 0)},
    "AH": {"A": (0.00449, 0.01228), "H": (0.00449, -0.02772)},
}
# Each pin as point and two bodies; the first body is placed by earlier pins.
PINS = "O ground OF, F OF FE, B ground BDE, E FE BDE, A ground AG, G AG EG, E FE EG, A ground AH, H AH EH, E FE EH"
PINS = [pin.split() for pin in PINS.split(", ")]
# Torque of the motor (N m).
TORQUE = 0.033
# Stiffness of the spring (N/m).
STIFFNESS = 4530.0
# Length of the spring without a force (m).
FREE_LENGTH = 0.07785
# Simulated time (s).
DURATION = 0.03

# Names of the seven angles in the source.
NAMES = ["β", "Θ", "γ", "Φ", "δ", "Ω", "ε"]
# Angles at the start (rad), in the order of `NAMES`.
START = [-0.06171389001427645, 0.0, 0.45527981916307037, 0.22266839016588588]
START += [0.48736497954384256, -0.22266839016588588, 1.2305474445498212]
# Published angles at the end (rad), in the order of `NAMES`.
PUBLISHED = [15.81077119629904, -15.75637105984298, 0.04082224013073101, -0.5347301163226948]
PUBLISHED += [0.5244099658805303, 0.5347301163226948, 1.048080741042263]


def andrews():
    """Return the mechanism."""
    return mbs.Mechanism(
        bodies={name: planar.Body(mass, inertia) for name, (mass, inertia) in BODIES.items()},
        constraints={f"{p} {i} {j}": planar.Revolute(i, j, POINTS[i][p], POINTS[j][p]) for p, i, j in PINS},
        forces={
            "motor": mbs.Torque("OF", TORQUE),
            "spring": mbs.Spring("ground", "BDE", POINTS["ground"]["C"], POINTS["BDE"]["D"], STIFFNESS, FREE_LENGTH),
        },
    )


def start():
    """Return the poses at the published angles, some of which are relative, body by body."""
    β, Θ, γ, Φ, δ, Ω, ε = START
    angles = {"ground": 0, "OF": β, "FE": β + Θ, "BDE": γ, "EG": Φ + δ, "AG": δ, "EH": Ω + ε, "AH": ε}
    turned = lambda body, p: np.exp(1j * angles[body]) * complex(*POINTS[body][p])
    origins = {"ground": 0}
    for p, i, j in PINS:
        origins.setdefault(j, origins[i] + turned(i, p) - turned(j, p))
    return {body: (origins[body].real, origins[body].imag, angles[body]) for body in BODIES}


def published_angles(motion):
    """Return the angles of the source, (T, 7)."""
    OF, FE, BDE, EG, AG, EH, AH = (np.asarray(motion.position(f"{body}.phi")) for body in BODIES)
    return np.stack([OF, FE - OF, BDE, EG - AG, AG, EH - AH, AH], axis=1)


def show(mech, motion, angles, folder):
    """Write the film and the picture of the angles."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.9), layout="constrained", width_ratios=(1.05, 1, 1))
    mbs.viz.draw(mech, motion.q[0], ax=axes[0], labels=True, size=1.2)
    axes[0].set(xlabel="x (m)", ylabel="y (m)", title="at rest")
    for ax, which in zip(axes[1:], ([0, 1], [2, 3, 4, 5, 6]), strict=True):
        for k in which:
            line = {"color": style.colour_of(k), "label": NAMES[k]}
            ax.plot(motion.t * 1e3, angles[:, k], **line, linewidth=1.5)
            ax.plot(DURATION * 1e3, PUBLISHED[k], "o", color=line["color"], markersize=5, clip_on=False)
        ax.set(xlabel="time (ms)", ylabel="angle (rad)", xlim=(0, 30))
        ax.legend(frameon=False, fontsize=9, loc="lower left", bbox_to_anchor=(0, 1), ncols=5, borderaxespad=0)
    for ax in axes:
        style.tidy(ax, equal=ax is axes[0])
        ax.title.set_fontsize(10)
    figure.savefig(folder / "04_andrews.png", dpi=100)
    plt.close(figure)
    film, title = jax.tree.map(lambda x: x[::2], motion), "Andrews' squeezing mechanism, 160 times slower"
    for suffix in ("gif", "html"):
        mbs.viz.animate(mech, film, folder / f"04_andrews.{suffix}", traces=[("FE", (0, 0))], title=title, width=4.5)


def main():
    """Simulate the mechanism, compare its angles with the published ones, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="longer steps, fewer frames")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()
    began = time.time()
    times, step = np.linspace(0, DURATION, 41 if options.quick else 241), 2e-5 if options.quick else 5e-6

    mech = andrews()
    motion = mbs.simulate(mech, times, start(), step=step, throw=True)
    angles, run = published_angles(motion), time.time()
    for name, found, published in zip(NAMES, angles[-1], PUBLISHED, strict=True):
        print(f"{name}(0.03 s) = {found:16.10f}   published {published:16.10f}   difference {found - published:8.1e}")
    work = TORQUE * (angles[:, 0] - angles[0, 0])
    energy = np.asarray(motion.energy.total)
    error = abs(energy - energy[0] - work).max() / abs(work).max()
    print(f"energy: work of the motor is missed by at most {error:.1e} of it")

    options.output.mkdir(parents=True, exist_ok=True)
    record = {"angles": dict(zip(NAMES, angles[-1].tolist(), strict=True)), "energy error": error}
    record["largest difference"] = abs(angles[-1] - PUBLISHED).max()
    (options.output / "04_andrews.json").write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    show(mech, motion, angles, options.output)
    print(f"{run - began:.0f} s with compilation, {time.time() - run:.0f} s for the pictures")


if __name__ == "__main__":
    main()
