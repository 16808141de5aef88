"""Drawings that explain ideas on the pages of the site: frames, formulations, statuses, the step of a simulation.

The site is built with them. `python docs/site/figures.py [FOLDER]`, or `make figures`, writes them to a folder, by default
build/figures.
"""

import io
import re
import sys
from pathlib import Path

import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Arc, FancyArrowPatch, FancyBboxPatch

import jaxmbs as mbs
from jaxmbs.viz import style

# Width of all drawings, that of a page (in).
WIDTH = 7.0
# Size of letters in boxes and notes (pt).
SMALL = 8.5
# Size of names in drawings (pt).
NORMAL = 9.5
# Size of formulas (pt).
LARGE = 11
# Fonts of formulas in drawings, and a constant for names of parts, so that a drawing is the same in every build.
SETTINGS = {"mathtext.fontset": "dejavusans", "svg.hashsalt": "jaxmbs"}
# Colour of success, and of answers.
GOOD = style.PALETTE[2]
# Colour of a status that is a fact of the mechanism or of its position.
FACT = style.PALETTE[4]
# Colour of failures.
BAD = style.ACCENT
# Colours of statuses that are not failures.
STATUS_COLOURS = {"CONVERGED": GOOD, "SINGULAR": FACT, "LOCKED_UP": FACT}


def canvas(height: float):
    """Return a figure of `height` inches and axes whose unit is an inch, without frame."""
    figure = Figure(figsize=(WIDTH, height), facecolor=style.PAPER)
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, WIDTH), ylim=(0, height))
    ax.set_axis_off()
    return figure, ax


def box(ax, x, y, width, height, text, *, colour=style.INK, size=SMALL, filled=False, **font):
    """Draw a box around a text; x, y is its lower left corner. Return its left, right, lower and upper middle."""
    face = mpl.colors.to_rgba(colour, 0.16 if filled else 0.0)
    shape = "round,pad=0,rounding_size=0.08"
    ax.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=shape, facecolor=face, edgecolor=colour, linewidth=1.1))
    ax.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=size, color=style.INK, **font)
    middle_x, middle_y = x + width / 2, y + height / 2
    return (x, middle_y), (x + width, middle_y), (middle_x, y), (middle_x, y + height)


def arrow(ax, start, end, *, colour=style.INK, width=1.2, **line):
    """Draw an arrow between two places."""
    options = {"arrowstyle": "-|>", "mutation_scale": 10, "shrinkA": 0, "shrinkB": 0} | line
    ax.add_patch(FancyArrowPatch(start, end, color=colour, linewidth=width, **options))


def turned(angle: float) -> np.ndarray:
    """Return the rotation by an angle in degrees, (2, 2)."""
    c, s = np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))
    return np.array([[c, -s], [s, c]])


def body_frames() -> Figure:
    """Draw two bodies, their frames and angles in the global frame, and the revolute joint between them."""
    figure, ax = canvas(3.5)
    ground, i_origin, pin = np.array([0.75, 0.75]), np.array([2.15, 1.2]), np.array([3.85, 2.6])
    j_origin, angle_i, angle_j = np.array([5.35, 1.25]), 18.0, -22.0
    blue, orange, grey = style.PALETTE[0], style.PALETTE[1], style.GROUND_COLOUR
    for k in range(7):
        x = ground[0] - 0.3 + 0.1 * k
        ax.plot([x, x - 0.08], [ground[1] - 0.12, ground[1] - 0.22], color=grey, linewidth=1)
    ax.plot(ground[0] + np.array([-0.35, 0.35]), np.full(2, ground[1] - 0.12), color=grey, linewidth=1.4)
    about = 'body "ground": its frame is the global frame'
    ax.text(ground[0] - 0.35, 0.25, about, fontsize=SMALL, color=grey, va="center")
    _frame(ax, ground, 0, 0.75, grey, "x", "y")
    bodies = (("i", i_origin, angle_i, blue, "> 0"), ("j", j_origin, angle_j, orange, "< 0"))
    for name, origin, angle, colour, sign in bodies:
        along = (pin - origin) / np.linalg.norm(pin - origin)
        ends = np.array([origin - 0.1 * along, pin])
        ax.plot(*ends.T, color=colour, alpha=0.16, linewidth=52, solid_capstyle="round", zorder=1)
        arrow(ax, ground, origin, colour=grey, linestyle="--", width=1)
        _frame(ax, origin, angle, 0.75, colour, f"$x_{name}$", f"$y_{name}$")
        ax.plot(origin[0] + np.array([0, 1.2]), np.full(2, origin[1]), ":", color=grey, linewidth=1)
        ax.add_patch(Arc(origin, 2.1, 2.1, theta1=min(angle, 0), theta2=max(angle, 0), color=colour, linewidth=1.3))
        label = rf"$\varphi_{name}$ {sign}"
        ax.text(*(origin + turned(angle / 2) @ np.array([1.12, 0])), label, fontsize=NORMAL, color=colour, va="center")
        arrow(ax, origin, pin, colour=colour, width=2.2, shrinkB=5)
        rotation = np.rad2deg(np.arctan2(along[1], along[0]))
        upright = rotation if abs(rotation) < 90 else rotation - 180
        beside = np.array([-along[1], along[0]]) * np.sign(along[0])
        font = {"color": colour, "rotation": upright, "ha": "center", "va": "center"}
        ax.text(*(0.55 * pin + 0.45 * origin + 0.17 * beside), f"point_{name}", fontsize=NORMAL, **font)
        ax.text(*((pin + origin) / 2 + 0.52 * beside), f"body {name}", fontsize=NORMAL, weight="bold", **font)
    ax.text(1.32, 1.08, "$r_i$", fontsize=LARGE, color=grey)
    ax.text(3.2, 0.78, "$r_j$", fontsize=LARGE, color=grey)
    ax.plot(*pin, "o", markersize=9, markerfacecolor="w", markeredgecolor=style.INK, markeredgewidth=1.6, zorder=6)
    ax.text(pin[0], pin[1] + 0.2, "pin", fontsize=NORMAL, color=style.INK, ha="center")
    equation = r"$\Phi \;=\; r_i + A(\varphi_i)\,$point_i$\; -\; r_j - A(\varphi_j)\,$point_j$\;=\;0$"
    ax.text(WIDTH / 2, 3.27, equation, fontsize=LARGE, color=style.INK, ha="center", va="center")
    return figure


def _frame(ax, origin, angle, length, colour, x, y):
    """Draw the axes of a frame with their names."""
    for direction, name in (((1, 0), x), ((0, 1), y)):
        e = turned(angle) @ direction
        arrow(ax, origin, origin + length * e, colour=colour, width=1.4, zorder=4)
        ax.text(*(origin + (length + 0.13) * e), name, fontsize=NORMAL, color=colour, ha="center", va="center")
    ax.plot(*origin, "o", color=colour, markersize=4, zorder=5)


def which_formulation() -> Figure:
    """Draw the questions that lead to a formulation."""
    figure, ax = canvas(3.85)
    questions = (
        (
            "Are the motions of most joints\nprescribed, as in inverse dynamics?",
            "Kane()",
            "prescribed joints need no equations",
        ),
        (
            "Are most rows of Φ those of gears, cams and\nother elements that are not joints?",
            "Augmented()",
            "a tree would leave as many equations",
        ),
        (
            "Is it a chain or a tree,\nor are its loops in space?",
            "JointCoordinates()",
            "only the closed loops leave equations",
        ),
    )
    x, width, height, gap, above = 0.15, 3.45, 0.54, 0.5, None
    answers = {"colour": GOOD, "size": NORMAL, "filled": True, "family": "monospace"}
    for k, (question, answer, reason) in enumerate(questions):
        y = 3.85 - 0.08 - height - k * (height + gap)
        _, right, below, upper = box(ax, x, y, width, height, question, size=NORMAL)
        if above is not None:
            _answered(ax, above, upper, "no")
        left, _, under, _ = box(ax, 4.75, y + 0.13, 1.9, height - 0.2, answer, **answers)
        _answered(ax, (right[0], left[1]), left, "yes")
        ax.text(under[0], y + 0.03, reason, fontsize=SMALL, ha="center", va="center", color=style.GROUND_COLOUR)
        above = below
    _, right, _, upper = box(ax, x + (width - 1.9) / 2, 0.14, 1.9, height - 0.2, "Augmented()", **answers)
    _answered(ax, above, upper, "no")
    reason = "the default; where time matters, compare it with\nJointCoordinates() and Natural()"
    ax.text(right[0] + 0.12, right[1], reason, fontsize=SMALL, va="center", color=style.GROUND_COLOUR)
    return figure


def _answered(ax, start, end, answer):
    """Draw an arrow from a question to what follows from an answer, which is written beside it."""
    arrow(ax, start, end)
    middle, across = (np.array(start) + end) / 2, start[1] == end[1]
    place = middle + ((0, 0.09) if across else (0.08, 0))
    ax.text(*place, answer, fontsize=SMALL, color=style.INK, ha="center" if across else "left", va="center")


def statuses() -> Figure:
    """Draw the checks of `assemble`, `kinematics` and `simulate` in their order, and the status that each one gives."""
    figure, ax = canvas(5.65)
    left, right, top = 0.1, 3.65, 5.5
    y = _checks(ax, left, top, "assemble", [
        ("a number is not finite", "NON_FINITE"),
        ("no root of Φ near the guess", "NOT_ASSEMBLED"),
        ("the nearest configuration\nis not unique", "SINGULAR"),
        (None, "CONVERGED"),
    ])  # fmt: skip
    _checks(ax, left, y - 0.22, "kinematics", [
        ("a number is not finite", "NON_FINITE"),
        ("no root of Φ at the first time", "NOT_ASSEMBLED"),
        ("for each time", None),
        ("steps get too short because\nΦ or its rates are not finite", "NON_FINITE"),
        ("… because velocities\ngrow without bound", "LOCKED_UP"),
        ("… for another reason", "NOT_CONVERGED"),
        ("the trial steps are used up", "NOT_CONVERGED"),
        ("Φ_q is singular there,\nthe motion goes on", "SINGULAR"),
        (None, "CONVERGED"),
    ])  # fmt: skip
    y = _checks(ax, right, top, "simulate", [
        ("a number is not finite", "NON_FINITE"),
        ("no closed start near q0, or v0\nnames impossible velocities", "NOT_ASSEMBLED"),
        ("the closed start nearest\nto q0 is not unique", "SINGULAR"),
        ("the masses do not\ndetermine the motion", "SINGULAR"),
        ("at the start and after each step", None),
        ("overflow, or a body turned by\n1,000 rad in the step", "NON_FINITE"),
        ("angles of Kane(angles=…)\nin their singular position", "SINGULAR"),
        ("no common solution of\nfriction and reactions", "JAMMED"),
        ("the positions are not closed", "NOT_CONVERGED"),
        (None, "CONVERGED"),
    ])  # fmt: skip
    y = _checks(ax, right, y - 0.22, "sweep", [("the measure raises ValueError\n(with traced=False)", "REFUSED")])
    note = "The first check that applies gives the status.\nA simulation then stays at its last good state."
    ax.text(right, y - 0.1, note, fontsize=SMALL, color=style.GROUND_COLOUR, va="top")
    return figure


# Width of a check in the drawing of statuses (in).
CHECK = 1.92
# Width of a status (in).
STATUS = 1.14
# Distance between a check and its status (in).
BETWEEN = 0.2


def _checks(ax, x, top, function, checks):
    """Draw the checks of a function below each other, each with an arrow to its status; return the lower end."""
    ax.text(x, top, f"mbs.{function}", fontsize=NORMAL, family="monospace", weight="bold", color=style.INK, va="center")
    y, above = top - 0.16, None
    for check, status in checks:
        height = 0.37 if check and "\n" in check else 0.24
        y -= height
        if status is None:
            font = {"style": "italic", "color": style.GROUND_COLOUR, "va": "center"}
            left = x if above is None else above[0]
            ax.text(left + 0.1, y + height / 2 - 0.01, check, fontsize=SMALL, **font)
            y -= 0.05
            continue
        colour = STATUS_COLOURS.get(status, BAD)
        place = x + CHECK + BETWEEN
        options = {"colour": colour, "filled": True, "size": SMALL - 0.5, "family": "monospace"}
        chip, *_ = box(ax, place, y + height / 2 - 0.11, STATUS, 0.22, status, **options)
        if check is None:
            end = (above[0], chip[1])
            ax.plot([end[0], end[0]], [above[1], end[1]], color=style.INK, linewidth=1.1)
            arrow(ax, end, chip, width=1.1)
            ax.text(end[0] + 0.1, chip[1] + 0.03, "none of these", fontsize=SMALL, color=style.INK, va="bottom")
        else:
            _, side, below, upper = box(ax, x, y, CHECK, height, check)
            if above is not None:
                ax.plot([above[0], upper[0]], [above[1], upper[1]], color=style.INK, linewidth=1.1)
            arrow(ax, side, chip, width=1.1)
            above = below
        y -= 0.08
    return y


def closed_step() -> Figure:
    """Draw a step of `simulate` with projection: on the left in the space of configurations, on the right its parts."""
    figure, ax = canvas(3.25)
    curve = lambda x: 2.35 - 0.16 * (x - 0.9) ** 2
    slope = lambda x: -0.32 * (x - 0.9)
    x = np.linspace(0.1, 2.75, 60)
    ax.plot(x, curve(x), color=style.GROUND_COLOUR, linewidth=2)
    ax.text(0.1, curve(0.1) - 0.27, "Φ = 0", fontsize=NORMAL, color=style.GROUND_COLOUR)
    start, end = np.array([0.9, curve(0.9)]), np.array([2.2, curve(2.2)])
    tangent = np.array([1, slope(2.2)]) / np.hypot(1, slope(2.2))
    normal = np.array([-tangent[1], tangent[0]])
    predicted = end + 0.75 * normal
    blue, red, green = style.PALETTE[0], style.ACCENT, style.PALETTE[2]
    arrow(ax, start, predicted, colour=blue, width=1.8, connectionstyle="arc3,rad=-0.06", shrinkA=4, shrinkB=4)
    arrow(ax, predicted, end, colour=red, width=1.8, shrinkA=3, shrinkB=4)
    arrow(ax, end, end + 0.85 * tangent, colour=green, width=1.8, shrinkA=3)
    for place, colour in ((start, style.INK), (predicted, blue), (end, style.INK)):
        ax.plot(*place, "o", color=colour, markersize=6, zorder=5)
    labels = (
        (start - np.array([0, 0.24]), "$q$ at $t$", style.INK),
        (end - np.array([0.25, 0.28]), "$q$ at $t + h$", style.INK),
        (predicted + np.array([0, 0.16]), "predicted $q$", blue),
        (end + 1.0 * tangent, "$v$", green),
    )
    for place, label, colour in labels:
        ax.text(*place, label, fontsize=NORMAL, color=colour, ha="center", va="center")
    marks = (
        ((start + predicted) / 2 + np.array([0, 0.2]), "1", blue),
        (end + 0.38 * normal + np.array([0.14, 0]), "2", red),
        (end + 0.5 * tangent + 0.16 * normal, "3", green),
    )
    for place, number, colour in marks:
        ax.text(*place, number, fontsize=LARGE, color=colour, weight="bold", ha="center", va="center")
    note = "At an output time the velocities\nare closed once more, for results."
    ax.text(0.1, 0.3, note, fontsize=SMALL, color=style.GROUND_COLOUR, va="center")
    _step_parts(ax, ((blue, "1"), (red, "2"), (green, "3"), (style.INK, "4"), (style.INK, "5")))
    return figure


def _step_parts(ax, marks):
    """Draw the parts of a step below each other; `marks` has their colours and numbers."""
    parts = (
        "step of the method: v̇ at its stages,\npredicted q and v at t + h",
        "close positions: q ← q ⊕ M⁻¹Φ_qᵀμ, so that Φ = 0,\nNewton steps with one matrix Φ_q M⁻¹Φ_qᵀ",
        "close velocities: v ← v + M⁻¹Φ_qᵀμ, so that\nΦ_q v = ν, with the same matrix",
        "v̇ for the next step, with the same matrix",
        "check: is Φ closed, is all finite?",
    )
    x, width, y, above = 3.6, 3.3, 3.2, None
    for text, (colour, number) in zip(parts, marks, strict=True):
        height = 0.42 if "\n" in text else 0.27
        y -= height
        _, _, below, upper = box(ax, x, y, width, height, text, colour=colour)
        ax.text(x - 0.13, y + height / 2, number, fontsize=LARGE, color=colour, weight="bold", ha="center", va="center")
        if above is not None:
            arrow(ax, above, upper, width=1.1)
        above, y = below, y - 0.17
    # The distance to the next row is larger, for the words beside the arrows.
    start, low = y + 0.17, y - 0.46
    ends = (
        (x, 1.4, "take the next step", GOOD, "CONVERGED"),
        (x + 1.55, 1.75, "stay at q, v of time t", BAD, "any other"),
    )
    for left, size, text, colour, word in ends:
        top = box(ax, left, low, size, 0.27, text, colour=colour, filled=True)[3]
        arrow(ax, (top[0], start), top, width=1.1)
        ax.text(top[0] + 0.07, (start + top[1]) / 2, word, fontsize=SMALL, color=colour, va="center")


def names_of(page: str, word: str) -> dict:
    """Return the names that the first block of code with a `word` defines, on a page of the documentation."""
    text = (Path(__file__).parents[1] / page).read_text("utf-8")
    code = next(block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if word in block)
    names = {"mbs": mbs, "jnp": jnp}
    exec(code, names)
    return names


def lift_off():
    """Return the heights of a cam and of the follower that it throws off, and the force between them."""
    names = names_of("joint_forces.md", "FlatContact")
    times = np.linspace(0, 1.2, 601)
    start = names["lowest"], {"cam.phi": names["speed"]}
    run = mbs.simulate(names["cam"], times, *start, step=1e-4, throw=True)
    radius, offset = names["radius"], names["offset"]
    figure = Figure(figsize=(WIDTH, 2.7), facecolor=style.PAPER)
    ax = figure.add_axes((0.09, 0.18, 0.88, 0.78))
    ax.plot(
        times, 1e3 * (radius + offset * np.sin(run.q[:, 2])), color=style.PALETTE[0], lw=1.2, label="top of the cam"
    )
    ax.plot(times, 1e3 * run.position("lifter.y"), color=style.ACCENT, lw=1.8, label="follower")
    ax.set(xlabel="time (s)", ylabel="height (mm)", xlim=(0, 1.2))
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.legend(frameon=False, fontsize=SMALL)
    return figure


def belt():
    """Return the belt of the page on belts, from its code."""
    names = names_of("belts.md", "Belt")
    figure, ax = canvas(2.6)
    mbs.viz.draw(names["drive"], names["run"].q[0], ax=ax, size=1.4)
    ax.set(xlim=(-0.9, 2.8), ylim=(-0.65, 0.72))
    ax.set_axis_off()
    places = {"motor": (-0.52, -0.03), "wheel": (1.5, 0.1), "idler": (0.98, 0.3), "arm": (0.66, 0.44)}
    for name, place in places.items():
        ax.text(*place, name, fontsize=NORMAL, color=style.INK)
    # The belt moves along the line from the motor to the wheel.
    arrow(ax, (0.7, -0.4), (1.0, -0.457))
    return figure


# Functions that draw the figures, by the name of the file under docs/images.
FIGURES = {
    "body_frames": body_frames,
    "which_formulation": which_formulation,
    "statuses": statuses,
    "closed_step": closed_step,
    "belt": belt,
    "lift_off": lift_off,
}


def svg(name: str) -> str:
    """Return a drawing as SVG."""
    file = io.BytesIO()
    with mpl.rc_context(SETTINGS):
        FIGURES[name]().savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue().decode()


def main():
    """Write all drawings to a folder."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "build" / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    for name in FIGURES:
        (folder / f"{name}.svg").write_text(svg(name), "utf-8")
        print(folder / f"{name}.svg")


if __name__ == "__main__":
    main()
