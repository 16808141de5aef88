"""Five published problems of path synthesis, each by one call: a four-bar whose coupler point passes given places.

A vertical line (Cabrera, Simon & Prado 2002), eighteen points at 20° of the crank each (Kunjur & Krishnamurty 1997), twelve
and twenty-five points (Bulatović, Miodragović & Bošković 2016), an ellipse (as quoted of Acharyya & Mandal 2009). Random
four-bars descend by thousands, those that can be assembled and turn all round only. The run prints errors beside the best
published ones and the time; the picture has the curves, the four-bars and the targets.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

from jaxmbs import synthesis
from jaxmbs.viz import style

jax.config.update("jax_enable_x64", True)

# Names of the lengths of a four-bar.
LENGTHS = ("ground", "crank", "coupler", "rocker")
# Targets of the problem "vertical line".
LINE = [(20, y) for y in range(20, 50, 5)]
# Targets of the problem "18 timed points".
EIGHTEEN = np.column_stack([
    [0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.0, 0.0, 0.03, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.6],
    [1.1, 1.1, 1.1, 1.0, 0.9, 0.75, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, 1.0],
])  # fmt: skip
# Targets of the problem "12 points".
TWELVE = np.column_stack([
    [4.15, 4.5, 4.53, 4.13, 3.67, 2.96, 2.67, 2.63, 2.92, 3.23, 3.49, 3.76],
    [2.21, 2.18, 1.83, 1.68, 1.58, 1.33, 1.06, 0.82, 0.81, 1.07, 1.45, 1.87],
])  # fmt: skip
# Targets of the problem "25 points".
TWENTY_FIVE = np.column_stack([
    [7.03, 6.95, 6.77, 6.4, 5.91, 5.43, 4.93, 4.67, 4.38, 4.04, 3.76, 3.76, 3.76, 3.76, 3.76, 3.76, 3.76, 3.8, 4.07, 4.53,
     5.07, 5.05, 5.89, 6.41, 6.92],
    [5.99, 5.45, 5.03, 4.6, 4.03, 3.56, 2.94, 2.6, 2.2, 1.67, 1.22, 1.97, 2.78, 3.56, 4.34, 4.91, 5.47, 5.98, 6.4, 6.75,
     6.85, 6.84, 6.83, 6.8, 6.58],
])  # fmt: skip
# Targets of the problem "ellipse".
ELLIPSE = [(20.0, 10.0), (17.66, 15.142), (11.736, 17.878), (5.0, 16.928), (0.60307, 12.736), (0.60307, 7.2638),
           (5.0, 3.0718), (11.736, 2.1215), (17.66, 4.8577), (20.0, 10.0)]  # fmt: skip
# For each problem: targets, crank angles at them (rad) or None, bounds on lengths, bound on the absolute values of
# other numbers, and error of the best published design; None without bounds or error.
PROBLEMS = {
    "vertical line": (LINE, None, (0, 60), 60, None),
    "18 timed points": (EIGHTEEN, np.deg2rad(20) * np.arange(18), (0, 50), 50, 0.009115),
    "12 points": (TWELVE, None, None, None, 1.488e-4),
    "25 points": (TWENTY_FIVE, None, None, None, 0.03872),
    "ellipse": (ELLIPSE, None, (5, 80), 80, None),
}
# A sum of squared distances below this is zero, apart from rounding.
ROUNDING = 1e-25
# A path that is smaller than this part of half the picture is drawn a second time, enlarged.
SMALL = 0.25


def solve(problem, starts):
    """Return the best four-bar of a problem."""
    targets, timing, lengths, rest, _ = problem
    bounds = {}
    if lengths is not None:
        bounds["lower"] = {**dict.fromkeys(LENGTHS, lengths[0]), "point": -rest, "pivot": -rest}
        bounds["upper"] = {**dict.fromkeys(LENGTHS, lengths[1]), "point": rest, "pivot": rest}
    return synthesis.path(targets, crank_angles=timing, starts=starts, keep=4, **bounds).best


def show(solutions, file):
    """Draw the curves with their four-bars at the first target."""
    figure, axes = plt.subplots(2, 3, figsize=(7, 5.3), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.1)
    for ax, (name, best) in zip(axes.flat, solutions.items(), strict=False):
        draw_problem(ax, np.array(PROBLEMS[name][0]), best)
        error = f"= {best.error:.2g}" if best.error > ROUNDING else f"< {ROUNDING:.0e}"
        ax.set_title(f"{name}\nΣ d² {error}", fontsize=9)
    axes.flat[-1].set_axis_off()
    axes.flat[-1].legend(*axes.flat[0].get_legend_handles_labels(), frameon=False, fontsize=9, loc="center")
    figure.supxlabel("x and y in the unit of length of each problem", fontsize=9, color=style.GROUND_COLOUR)
    figure.savefig(file, dpi=150)
    plt.close(figure)


def draw_problem(ax, targets, best):
    """Draw targets, the curve through them, and the four-bar at the first target."""
    b, start = best.design, best.crank_angles[0]
    turn = start + np.linspace(0, 2 * np.pi, 361)
    curve = np.array(jax.vmap(lambda angle: synthesis.FourBar.point(b, angle, best.branch))(turn))
    poses = synthesis.FourBar.guess(b, start, best.branch)
    o, a, c = (np.array(poses[body][:2]) for body in ("crank", "coupler", "rocker"))
    along = poses["coupler"][2]
    elbow = a + b["coupler"] * np.array([np.cos(along), np.sin(along)])
    # The coupler ends at the coupler point, so its triangle is the link.
    ax.fill(*np.array([a, elbow, curve[0]]).T, facecolor=style.PALETTE[1], alpha=0.25, linewidth=0)
    ax.plot(*np.array([a, elbow, curve[0], a]).T, color=style.PALETTE[1], linewidth=1.2, label="coupler")
    ax.plot(*np.array([o, a]).T, color=style.PALETTE[0], linewidth=2.4, label="crank")
    ax.plot(*np.array([elbow, c]).T, color=style.PALETTE[2], linewidth=2.4, label="rocker")
    ax.plot(*np.array([a, elbow]).T, "o", color=style.PAPER, markeredgecolor=style.INK, markersize=3.5)
    ax.plot(*np.array([o, c]).T, "^", color=style.GROUND_COLOUR, markersize=6, label="pivot on the ground")
    ax.plot(*curve.T, color=style.ACCENT, linewidth=1.3, label="path of the coupler point")
    ax.plot(*targets.T, "o", color=style.INK, markersize=2.8, zorder=3, label="target")
    every = np.vstack([targets, curve, o, a, c, elbow])
    middle, half = (every.min(0) + every.max(0)) / 2, 0.55 * np.ptp(every, axis=0).max()
    ax.set(xlim=(middle[0] - half, middle[0] + half), ylim=(middle[1] - half, middle[1] + half))
    ax.locator_params(nbins=5)
    style.tidy(ax, equal=True)
    if np.ptp(curve, axis=0).max() < SMALL * half:
        detail = ax.inset_axes((0.0, 0.0, 0.42, 0.42))
        detail.plot(*curve.T, color=style.ACCENT, linewidth=1.1)
        detail.plot(*targets.T, "o", color=style.INK, markersize=2)
        detail.set(xticks=[], yticks=[], aspect="equal")
        detail.spines[:].set_color(style.GRID)
        detail.set_title("the path", fontsize=8, pad=2)


def main():
    """Search the best four-bar of each problem, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer starts")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()
    starts = 1024 if options.quick else 4096

    solutions, record = {}, {}
    for name, problem in PROBLEMS.items():
        began = time.time()
        solutions[name] = best = solve(problem, starts)
        record[name] = {
            "error": best.error,
            "published": problem[-1],
            "seconds": time.time() - began,
            **best.checks,
            "crank angles": best.crank_angles.tolist(),
            "branch": best.branch,
            "design": {entry: np.asarray(value).tolist() for entry, value in best.design.items()},
        }
        published = "" if problem[-1] is None else f", best published {problem[-1]:.4g}"
        angle = best.checks["transmission_angle"]
        print(f"{name:16} error {best.error:9.3g}{published:28} transmission angle ≥ {angle:4.1f}°", end="")
        print(f", {record[name]['seconds']:4.1f} s")

    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "12_published_paths.json").write_text(json.dumps(record, indent=2) + "\n")
    show(solutions, options.output / "12_published_paths.png")
    print(f"picture in {options.output / '12_published_paths.png'}")


if __name__ == "__main__":
    main()
