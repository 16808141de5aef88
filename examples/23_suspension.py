"""A wheel suspension tuned by its equilibrium and its modes: ride height, ride frequency and damping.

One wheel carries a quarter of a car through two wishbones, a tyre, and a spring with a damper between the lower wishbone
and the car. Three quantities are prescribed: the height at which the car rests, and frequency and damping ratio of its
slow mode. Three parameters are adjusted: stiffness, free length and damping. Newton's method solves for them, with the
derivatives of `mbs.equilibrium` and `mbs.modes`. Then the frequencies and damping ratios of many springs and dampers
follow in one batch.
"""

import argparse
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import jaxmbs as mbs
from jaxmbs import planar
from jaxmbs.viz import style

jax.config.update("jax_enable_x64", True)

# Acceleration of gravity (m/s²).
G = 9.81
# Mass of the part of the car that the wheel carries (kg).
CAR_MASS = 320.0
# Mass of the wheel with its upright (kg).
WHEEL_MASS = 38.0
# Mass of a wishbone (kg).
WISHBONE_MASS = 4.0
# Radius of the unloaded tyre (m).
TYRE_RADIUS = 0.31
# Stiffness of the tyre (N/m).
TYRE_STIFFNESS = 2.2e5
# Damping of the tyre (N s/m).
TYRE_DAMPING = 150.0
# Pins of the wishbones on the car (m).
INNER = {"lower": (0.30, -0.12), "upper": (0.38, 0.14)}
# Pins of the wishbones on the upright, seen from the centre of the wheel (m).
OUTER = {"lower": (-0.06, -0.12), "upper": (-0.08, 0.14)}
# Centre of the wheel, seen from the car (m).
CENTRE = (0.72, 0.0)
# Upper end of spring and damper on the car (m).
STRUT_TOP = (0.40, 0.45)
# Place of their lower end on the lower wishbone, as a fraction of its length.
STRUT_FOOT = 0.72
# Largest relative change of the design in a step of Newton's method.
MAX_RELATIVE_CHANGE = 0.3
# Wanted height of the origin of the car's frame above the road (m), frequency (Hz) and damping ratio of the slow mode.
WANTED = {"height": 0.295, "frequency": 1.25, "damping ratio": 0.3}
# First stiffness (N/m), free length (m) and damping (N s/m).
START = {"stiffness": 25e3, "free length": 0.65, "damping": 2000.0}


def length(name):
    """Return the length of a wishbone."""
    return float(np.hypot(*np.subtract(np.add(CENTRE, OUTER[name]), INNER[name])))


def suspension(b):
    """Return the suspension for a stiffness, a free length and a damping; the car moves up and down only."""
    bar = lambda name: planar.Body(WISHBONE_MASS, WISHBONE_MASS * length(name) ** 2 / 12, (length(name) / 2, 0))

    def tyre(state):
        """Return the vertical force of the road on the wheel, never negative."""
        wheel = state["wheel"]
        press = TYRE_STIFFNESS * (TYRE_RADIUS - wheel.point((0, 0))[1]) - TYRE_DAMPING * wheel.velocity((0, 0))[1]
        return jnp.maximum(press, 0)

    joints = {
        "straight": planar.AbsoluteX("car", (0, 0), 0.0),
        "upright": planar.AbsoluteAngle("car", 0.0),
    }
    for name in ("lower", "upper"):
        joints[f"inner {name}"] = planar.Revolute("car", name, INNER[name], (0, 0))
        joints[f"outer {name}"] = planar.Revolute(name, "wheel", (length(name), 0), OUTER[name])
    strut = mbs.SpringDamper(
        "car", "lower", STRUT_TOP, (STRUT_FOOT * length("lower"), 0), b["stiffness"], b["damping"], b["free length"]
    )
    return mbs.Mechanism(
        {
            "car": planar.Body(CAR_MASS, 1.0),
            "lower": bar("lower"),
            "upper": bar("upper"),
            "wheel": planar.Body(WHEEL_MASS, 1.2),
        },
        joints,
        forces={"gravity": mbs.Gravity((0, -G)), "strut": strut, "tyre": mbs.PointForce("wheel", (0, 0), (0.0, tyre))},
    )


def guess():
    """Return a guess: the unloaded tyre touches the road."""
    found = {"car": (0, TYRE_RADIUS, 0), "wheel": (CENTRE[0], TYRE_RADIUS, 0)}
    for name in ("lower", "upper"):
        way = np.subtract(np.add(CENTRE, OUTER[name]), INNER[name])
        found[name] = (INNER[name][0], TYRE_RADIUS + INNER[name][1], float(np.arctan2(way[1], way[0])))
    return found


def rest_and_modes(b):
    """Return the equilibrium and the modes of a design; two degrees of freedom."""
    mech = suspension(b)
    rest = mbs.equilibrium(mech, guess())
    return rest, mbs.modes(mech, rest.q, count=2)


def performance(b):
    """Return height, frequency and damping ratio of the slow mode, and the status of both analyses."""
    rest, modes = rest_and_modes(b)
    status = jnp.maximum(rest.status, modes.status)
    return jnp.stack([rest.q[1], modes.frequencies[0], modes.damping[0]]), status


def tune(steps):
    """Return the design with the wanted measures, and the largest relative misfit after each Newton step."""
    wanted, start = np.array(list(WANTED.values())), np.array(list(START.values()))
    design = lambda scales: dict(zip(START, scales * start, strict=True))

    def misfit(scales):
        """Return the relative misfits, for multiples of the first design."""
        return performance(design(scales))[0] / wanted - 1

    step = jax.jit(lambda x: (misfit(x), jnp.linalg.solve(jax.jacfwd(misfit)(x), misfit(x))))
    scales, largest = jnp.ones(3), []
    for _ in range(steps):
        value, change = step(scales)
        largest.append(float(jnp.abs(value).max()))
        scales = scales - jnp.clip(change, -MAX_RELATIVE_CHANGE, MAX_RELATIVE_CHANGE)
    return jax.tree.map(float, design(scales)), largest


def charts(b, count):
    """Return stiffnesses (count,), dampings (3,), and for all of them frequencies and damping ratios, in one batch."""
    stiffness = b["stiffness"] * np.linspace(0.6, 1.6, count)
    damping = b["damping"] * np.array([0.5, 1.0, 1.5])
    of_one = lambda k, c: performance({**b, "stiffness": k, "damping": c})
    found, status = jax.jit(jax.vmap(jax.vmap(of_one, (0, None)), (None, 0)))(stiffness, damping)
    return stiffness, damping, np.where(np.asarray(status)[..., None] == 0, found, np.nan)


def show(b, chart, file):
    """Draw the suspension at rest, and frequency and damping ratio over the stiffness."""
    mech = suspension(b)
    rest = mbs.equilibrium(mech, guess())
    figure, axes = plt.subplots(1, 3, figsize=(12, 4.2), layout="constrained", width_ratios=(1.3, 1, 1))
    poses = mech.poses(rest.q)
    place = lambda body, s: np.asarray(poses[body].point(jnp.asarray(s, float)))
    for k, name in enumerate(("lower", "upper")):
        ends = np.stack([place(name, (0, 0)), place(name, (length(name), 0))])
        axes[0].plot(*ends.T, "o-", color=style.colour_of(k), markersize=5, linewidth=3, label=f"{name} wishbone")
    upright = np.stack([place("wheel", OUTER["lower"]), place("wheel", (0, 0)), place("wheel", OUTER["upper"])])
    axes[0].plot(*upright.T, "-", color=style.colour_of(2), linewidth=3, label="upright")
    strut = np.stack([place("car", STRUT_TOP), place("lower", (STRUT_FOOT * length("lower"), 0))])
    axes[0].plot(*strut.T, "o:", color=style.INK, markersize=4, label="spring and damper")
    frame = np.stack([place("car", point) for point in (INNER["lower"], INNER["upper"], STRUT_TOP)])
    axes[0].plot(*frame.T, "-", color=style.colour_of(3), linewidth=1.5, label="car")
    wheel = place("wheel", (0, 0))
    tyre = plt.Rectangle((wheel[0] - 0.09, 0), 0.18, 2 * wheel[1], fill=False, edgecolor=style.INK, linewidth=1.2)
    axes[0].add_patch(tyre)
    axes[0].axhline(0, color=style.INK, linewidth=1)
    axes[0].set(xlabel="x (m)", ylabel="y (m)", title="at rest", xlim=(0.2, 1.25))
    axes[0].legend(fontsize=7, loc="upper right")
    stiffness, damping, found = chart
    for k, (c, row) in enumerate(zip(damping, found, strict=True)):
        look = {"color": style.colour_of(k), "label": f"{c:.0f} N s/m"}
        axes[1].plot(1e-3 * stiffness, row[:, 1], **look)
        axes[2].plot(1e-3 * stiffness, row[:, 2], **look)
    for ax, name, unit in zip(axes[1:], ("frequency", "damping ratio"), (" (Hz)", ""), strict=True):
        ax.plot(1e-3 * b["stiffness"], WANTED[name], "o", color=style.INK, markersize=6)
        ax.set(xlabel="stiffness (kN/m)", ylabel=name + unit, title=f"{name} of the slow mode")
        ax.legend(fontsize=8, title="damper")
    for k, ax in enumerate(axes):
        style.tidy(ax, equal=k == 0)
        ax.title.set_fontsize(10)
    figure.savefig(file, dpi=100)
    plt.close(figure)


def main():
    """Tune the suspension, compute the charts, and draw both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="charts with fewer points")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()

    design, largest = tune(steps=12)
    rest, modes = rest_and_modes(design)
    record = {
        "design": design,
        "largest misfit after each step": largest,
        "height (m)": float(rest.q[1]),
        "stability": rest.stability,
        "frequencies (Hz)": np.asarray(modes.frequencies).tolist(),
        "damping ratios": np.asarray(modes.damping).tolist(),
    }
    print(json.dumps(record, indent=2))
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "23_suspension.json").write_text(json.dumps(record, indent=2) + "\n")
    chart = charts(design, 11 if options.quick else 101)
    show(design, chart, options.output / "23_suspension.png")
    print(f"picture in {options.output / '23_suspension.png'}")


if __name__ == "__main__":
    main()
