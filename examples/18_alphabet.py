"""A word written by linkages: each letter is a curve, drawn by a point of an eight-bar of any topology.

Letters are strokes in one line, some of them drawn twice; the timing of the pen is free. Closed letters are drawn in a
whole turn of a crank, open ones in a part of it. All pins stay within a box. The run prints for each letter the front of
links against error; the picture has the word, and each letter with its linkage. A page for the browser shows
the first one moving.
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
# Space between the letters of the word in the picture; letters are 2 high.
LETTER_SPACE = 0.55
# Lower and upper corner of the box in which all pins must stay.
ROOM = (-2.5, -2.5), (3.7, 4.5)


def show(found, file):
    """Draw the word, and below it each letter with its linkage, when a third of the letter is written."""
    columns = min(4, len(found))
    rows = -(-len(found) // columns)
    figure = plt.figure(figsize=(7, 1.8 + 1.95 * rows), layout="constrained")
    word, linkages = figure.subfigures(2, 1, height_ratios=(1.8, 1.95 * rows))
    write(word.subplots(), found)
    axes = np.atleast_1d(linkages.subplots(rows, columns)).ravel()
    for ax in axes[len(found) :]:
        ax.set_visible(False)
    for ax, (name, front) in zip(axes, found.items(), strict=False):
        best = front.best
        ax.plot(
            *wanted(name, best).T,
            color=style.PALETTE[1],
            linewidth=5,
            alpha=0.25,
            solid_capstyle="round",
            clip_on=False,
        )
        motion = mbs.kinematics(best.mechanism, np.array([0.0, 0.17, 0.33]), best.guess)
        mbs.viz.draw(best.mechanism, motion.q[-1], ax=ax, points=[best.point], size=0.5)
        ax.plot(*best.points.T, color=style.ACCENT, linewidth=1.4, zorder=5)
        ax.set_title(f"{name}: {best.links} links\nerror {best.error:.4f}", fontsize=9)
        ax.set_axis_off()
    # All linkages have one scale.
    ends = [(ax, np.array([ax.get_xlim(), ax.get_ylim()])) for ax in axes[: len(found)]]
    width, height = np.max([np.ptp(limits, axis=1) for _, limits in ends], axis=0) / 2
    for ax, limits in ends:
        (x, y) = limits.mean(axis=1)
        ax.set(xlim=(x - width, x + width), ylim=(y - height, y + height))
    figure.savefig(file, dpi=150)
    plt.close(figure)


def wanted(name, best):
    """Return the points of a letter, with the first one again at the end of a closed letter."""
    return np.vstack([best.targets, best.targets[:1]]) if name in CLOSED else best.targets


def write(ax, found):
    """Draw the wanted letters and those that the linkages draw side by side."""
    right = 0.0
    for n, (name, front) in enumerate(found.items()):
        best = front.best
        ends = np.vstack([best.targets, best.points])
        place = np.array([right - ends[:, 0].min(), 0.0])
        right += np.ptp(ends[:, 0]) + LETTER_SPACE
        labels = ("wanted", "drawn") if n == 0 else (None, None)
        line = wanted(name, best) + place
        ax.plot(
            *line.T,
            color=style.PALETTE[1],
            linewidth=9,
            alpha=0.25,
            solid_capstyle="round",
            clip_on=False,
            label=labels[0],
        )
        ax.plot(*(best.points + place).T, color=style.ACCENT, linewidth=2, label=labels[1])
    ax.legend(frameon=False, fontsize=9, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    ax.set_aspect("equal")
    ax.set_axis_off()


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
