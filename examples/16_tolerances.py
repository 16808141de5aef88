"""Ten million four-bars within their tolerances: errors of the coupler point, and the length to make tighter.

The lengths of four links vary by ±0.1 mm, by Sobol's points. For each linkage the largest distance of its coupler point
from the nominal curve is stored, over a turn in steps of 30°. The numbers go to a folder of Parquet files. Stop the program
at any time and start it again: it continues. notebooks/11_large_studies.ipynb reads such a folder.
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

# Nominal lengths of the four-bar (mm).
NOMINAL = {"crank": 40.0, "coupler": 120.0, "rocker": 100.0, "ground": 140.0}
# Largest deviation of each length from the nominal one, either way (mm).
TOLERANCE = 0.1
# Coupler point in the frame of the coupler (mm).
POINT = (60.0, 40.0)
# Rough configuration of the four-bar at the start.
GUESS = {"coupler": (40, 0, 0.9), "rocker": (140, 0, 1.8)}
# Angles of the crank at which curves are compared (rad).
ANGLES = np.deg2rad(np.arange(0, 360, 30))
# Number of cells of the maps in each direction.
BINS = 60


def four_bar(b):
    """Return the driven four-bar; `b` has the lengths of `NOMINAL` (mm)."""
    return mbs.Mechanism(
        {name: planar.Body() for name in ("crank", "coupler", "rocker")},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "coupler", (b["crank"], 0), (0, 0)),
            "B": planar.Revolute("coupler", "rocker", (b["coupler"], 0), (b["rocker"], 0)),
            "C": planar.Revolute("ground", "rocker", (b["ground"], 0), (0, 0)),
        },
        {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0))},
    )


def curve(b):
    """Return the points (12, 2) of the coupler curve at `ANGLES` (mm), and the status."""
    motion = mbs.kinematics(four_bar(b), ANGLES, GUESS)
    return motion.point("coupler", POINT), motion.status


def measure(deviation):
    """Return the largest distance from the nominal curve, the distance in the first position (mm), and the status."""
    points, status = curve({name: NOMINAL[name] + deviation[name] for name in NOMINAL})
    away = jnp.linalg.norm(points - TARGETS, axis=1)
    return {"error": jnp.max(away), "first": away[0], "status": status}


# Points (12, 2) of the coupler curve of the nominal four-bar at `ANGLES` (mm), from which errors are counted.
TARGETS = np.asarray(jax.jit(curve)(NOMINAL)[0])


def maps(found, pairs):
    """Return the mean error over the square of deviations for pairs of lengths, computed part by part of the store."""
    sums = {pair: np.zeros((2, BINS, BINS)) for pair in pairs}
    edges = np.linspace(-TOLERANCE, TOLERANCE, BINS + 1)
    for part in found.parts():
        for x, y in pairs:
            place = part[f"design.{x}"], part[f"design.{y}"]
            for total, weights in zip(sums[x, y], (part["error"], None), strict=True):
                total += np.histogram2d(*place, bins=(edges, edges), weights=weights)[0]
    return {pair: total / np.maximum(count, 1) for pair, (total, count) in sums.items()}


def show(found, quantiles, file):
    """Draw maps of the mean error, and its distribution."""
    pairs = [("crank", "rocker"), ("coupler", "ground")]
    figure, axes = plt.subplots(1, 3, figsize=(12.5, 3.9), layout="constrained")
    images = maps(found, pairs)
    top = max(image.max() for image in images.values())
    for ax, (x, y) in zip(axes, pairs, strict=False):
        extent = (-TOLERANCE, TOLERANCE) * 2
        image = ax.imshow(images[x, y].T, origin="lower", extent=extent, cmap="viridis", vmin=0, vmax=top)
        ax.set(xlabel=f"deviation of {x} (mm)", ylabel=f"deviation of {y} (mm)", title=f"mean error by {x} and {y}")
        ax.set_xticks([-0.1, 0, 0.1])
        ax.set_yticks([-0.1, 0, 0.1])
        ax.tick_params(length=0, labelsize=8)
    figure.colorbar(image, ax=axes[:2], label="mm", shrink=0.9)
    columns, status = found.thinned(200_000)
    axes[2].hist(columns["error"][status == 0], 80, color=style.colour_of(0), alpha=0.8, density=True)
    for name in ("50%", "95%", "99%"):
        axes[2].axvline(quantiles[name], color=style.ACCENT, linewidth=1)
        axes[2].text(quantiles[name], axes[2].get_ylim()[1], f" {name}", fontsize=8, color=style.ACCENT, va="top")
    axes[2].set(xlabel="largest error over a turn (mm)", title=f"{len(found):,} four-bars", yticks=[])
    style.tidy(axes[2], equal=False)
    for ax in axes:
        ax.title.set_fontsize(10)
    figure.savefig(file, dpi=100)
    plt.close(figure)


def main():
    """Run the sweep over deviations, and draw maps and distribution of the error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the samples")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()

    within = mbs.sweeps.Uniform(-TOLERANCE, TOLERANCE)
    designs = mbs.sweeps.Sobol(dict.fromkeys(NOMINAL, within), 10**5 if options.quick else 10**7)
    began = time.time()
    found = mbs.sweep(measure, designs, store=options.output / ("tolerances_quick" if options.quick else "tolerances"))
    seconds = time.time() - began
    quantiles = found.quantiles("error")["error"]
    # To first order the shifts by each length add up: the slopes show which length to make tighter.
    slopes = jax.jit(jax.jacfwd(lambda b: curve(b)[0]))({name: jnp.asarray(x) for name, x in NOMINAL.items()})
    worst = jnp.linalg.norm(sum(TOLERANCE * jnp.abs(x) for x in slopes.values()), axis=1)
    record = {
        "samples": len(found),
        "statuses": found.statuses(),
        "seconds of this run": seconds,
        "error (mm)": quantiles,
        "largest error to first order, no more than (mm)": float(worst.max()),
        "largest shift by one length alone (mm)": {
            name: float(TOLERANCE * jnp.linalg.norm(x, axis=1).max()) for name, x in slopes.items()
        },
    }
    show(found, quantiles, options.output / "16_tolerances.png")
    (options.output / "16_tolerances.json").write_text(json.dumps(record, indent=1))
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
