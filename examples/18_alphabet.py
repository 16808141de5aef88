"""A word written by linkages: each letter is a curve, drawn by a point of an eight-bar of any topology.

Letters are strokes in one line, some of them drawn twice; the timing of the pen is free. Closed letters are drawn in a
whole turn of a crank, open ones in a part of it. All pins stay within a box. The run prints for each letter the front of
links against error; the picture has the letters with their linkages. A page for the browser shows the first one moving.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

import jaxmbs as mbs
from jaxmbs.viz import style

jax.config.update("jax_enable_x64", True)

# Angles of the arc of the letter G (rad).
ARC = np.linspace(0.15 * np.pi, 1.85 * np.pi, 40)
# Points through which each letter is written.
LETTERS = {
    "L": [(0, 2), (0, 0), (1.1, 0)],
    "I": [(0, 0), (0, 1), (0, 2)],
    "N": [(0, 0), (0, 2), (1.2, 0), (1.2, 2)],
    "K": [(0, 0), (0, 2), (0, 0.9), (1.1, 2), (0.4, 1.3), (1.2, 0)],
    "A": [(0, 0), (0.7, 2), (1.4, 0), (1.12, 0.8), (0.28, 0.8)],
    "G": [*np.column_stack([0.9 * np.cos(ARC), 1 + np.sin(ARC)]), (0.8, 0.9), (0.2, 0.9)],
    "E": [(1.1, 2), (0, 2), (0, 1), (0.9, 1), (0, 1), (0, 0), (1.1, 0)],
}
# Letters that are closed curves.
CLOSED = "A"
# Lower and upper corner of the box in which all pins must stay.
ROOM = (-2.5, -2.5), (3.7, 4.5)


def show(found, file):
    """Draw the letters with their linkages, when a third of the letter is written."""
    figure, axes = plt.subplots(1, len(found), figsize=(2.6 * len(found), 3.4), layout="constrained")
    for ax, (name, front) in zip(np.atleast_1d(axes), found.items(), strict=True):
        best = front.best
        wanted = np.vstack([best.targets, best.targets[:1]]) if name in CLOSED else best.targets
        ax.plot(*wanted.T, color=style.PALETTE[1], linewidth=7, alpha=0.25, solid_capstyle="round")
        motion = mbs.kinematics(best.mechanism, np.array([0.0, 0.17, 0.33]), best.guess)
        mbs.viz.draw(best.mechanism, motion.q[-1], ax=ax, points=[best.point], size=0.35)
        ax.plot(*best.points.T, color=style.ACCENT, linewidth=1.6, zorder=5)
        ax.set_title(f"{best.links} links, {best.error:.4f}", fontsize=10)
        style.tidy(ax, equal=True)
        ax.set(xlim=(ROOM[0][0] - 0.2, ROOM[1][0] + 0.2), ylim=(ROOM[0][1] - 0.2, ROOM[1][1] + 0.2))
    figure.savefig(file, dpi=100)
    plt.close(figure)


def main():
    """Search a linkage for each letter, and draw them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two letters, six-bars, fewer starts")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()
    letters, search = list(LETTERS), {}
    if options.quick:
        letters, search = ["L", "G"], {"links": 5, "starts": 256}

    found, record = {}, {}
    for name in letters:
        began = time.time()
        found[name] = mbs.synthesis.curve(LETTERS[name], name in CLOSED, workspace=ROOM, seed=1, **search)
        front = [(one.links, one.error, one.ordered_error) for one in found[name].front]
        record[name] = {"front": front, "seconds": time.time() - began, "topology": found[name].best.linkage.name}
        print(f"{name}: " + ", ".join(f"{links} links {error:.4f}" for links, error, _ in front), flush=True)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "18_alphabet.json").write_text(json.dumps(record, indent=2) + "\n")
    show(found, options.output / "18_alphabet.png")
    mbs.io.export(found[letters[0]].best, options.output / "18_alphabet.html")
    print(f"pictures in {options.output / '18_alphabet.png'} and 18_alphabet.html")


if __name__ == "__main__":
    main()
