"""Pictures of the pages of elements: a small mechanism, the frames of its bodies, and the points of the element."""

import io
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patheffects import withStroke
from matplotlib.transforms import Bbox
from mpl_toolkits.mplot3d.proj3d import proj_transform

import jaxmbs as mbs
from jaxmbs.viz import style

# Size of a picture in the plane and in space before it is cropped (in).
SIZES = {2: (4.8, 3.4), 3: (6.4, 4.8)}
# Size of the symbols, 1 by default.
SYMBOLS = 1.5
# Length of the axes of a frame, divided by the size of the mechanism.
AXIS = 0.17
# Points nearer than this part of the size of the mechanism get one label.
SAME = 0.02
# The frame of the ground is drawn for elements whose names begin so: they measure along its axes.
ALONG_GROUND = ("Absolute", "RelativeX", "RelativeY")
# Size of letters (pt).
LETTERS = 9.5
# Width and height of a letter divided by the size of letters.
LETTER = (0.62, 1.1)
# Distances of a label from its place that are tried (pt).
DISTANCES = (14, 20, 28, 38)
# Mark of a point of the element.
MARK = {"marker": "o", "markersize": 3.5, "color": style.INK, "zorder": 19}
# White edge of letters, so that they can be read on lines.
HALO = [withStroke(linewidth=3, foreground=style.PAPER)]
# Margin around the drawing (pt).
MARGIN = 6


def picture(mech: mbs.Mechanism, q, element, points) -> str:
    """Return a mechanism in configuration q as SVG, one element of it labelled; bodies are drawn out to `points`."""
    d = len(next(iter(mech.poses(q).values())).r)
    figure = plt.figure(figsize=SIZES[d])
    ax = figure.add_axes((0.05, 0.05, 0.9, 0.9), **({"projection": "3d"} if d == 3 else {}))
    mbs.viz.draw(mech, q, ax=ax, points=points, size=SYMBOLS)
    ax.set_axis_off()
    figure.draw_without_rendering()
    drawing = Drawing(ax, d)
    poses = mech.poses(q)
    size = max(np.ptp([pose.r for pose in poses.values()], axis=0).max(), drawing.size)
    for body, colour in coloured_bodies(mech, element):
        drawing.frame(poses[body], AXIS * size, colour)
    for body, colour in coloured_bodies(mech, element):
        drawing.label(body, np.asarray(poses[body].point(np.zeros(d))), color=colour, weight="bold")
    for name, place in named_points(element, poses, SAME * size):
        ax.plot(*place, **MARK)
        drawing.label(name, place, color=style.INK)
    file = io.BytesIO()
    figure.savefig(file, format="svg", metadata={"Date": None}, facecolor=style.PAPER, bbox_inches=drawing.box())
    plt.close(figure)
    return file.getvalue().decode()


def coloured_bodies(mech, element):
    """Yield the bodies whose frames are drawn, with their colours; the ground if the element refers to it."""
    for k, body in enumerate(mech.bodies):
        yield body, style.colour_of(k)
    if "ground" in (element.i, element.j) or type(element).__name__.startswith(ALONG_GROUND):
        yield "ground", style.GROUND_COLOUR


def named_points(element, poses, same):
    """Return the points of an element in the ground frame with their names; one name if they are nearer than `same`."""
    found = []
    for end in "ij":
        point, body = getattr(element, f"point_{end}", None), getattr(element, end, None)
        if point is not None and body is not None:
            found.append((f"point_{end}", np.asarray(poses[body].point(np.asarray(point, float)))))
    if len(found) == 2 and np.linalg.norm(found[0][1] - found[1][1]) < same:
        return [("point_i, point_j", found[0][1])]
    return found


class Drawing:
    """Axes with a mechanism, and the places on the paper (pt) that are taken, which labels keep away from."""

    def __init__(self, ax, d: int):
        self.ax, self.d = ax, d
        self.points_per_pixel = 72 / ax.figure.dpi
        if d == 3:
            faces = np.concatenate([shown.corners for shown in ax.collections])
            parts = np.linspace(0, 1, 6)[:, None, None, None]
            corners = ((1 - parts) * faces + parts * np.roll(faces, 1, axis=1)).reshape(-1, 3)
        else:
            corners = np.concatenate([resampled(patch.get_xy()) for patch in ax.patches])
        self.size = float(np.ptp(corners, axis=0).max())
        # One place is enough for all corners within 2 pt.
        self.taken = 2.0 * np.unique(np.round(self.paper(corners) / 2), axis=0)

    def flat(self, places) -> np.ndarray:
        """Return places (n, d) in the two data coordinates of the axes, (n, 2)."""
        if self.d == 2:
            return np.asarray(places)
        return np.stack(proj_transform(*np.asarray(places).T, self.ax.get_proj())[:2], axis=-1)

    def paper(self, places) -> np.ndarray:
        """Return places (n, d) on the paper in pt, (n, 2)."""
        return self.ax.transData.transform(self.flat(places)) * self.points_per_pixel

    def frame(self, pose, length, colour) -> None:
        """Draw the axes of a frame and their names."""
        origin = np.asarray(pose.point(np.zeros(self.d)))
        for e, name in zip(np.eye(self.d), "xyz", strict=False):
            ends = np.array([origin, origin + length * np.asarray(pose.direction(e))])
            start, end = self.flat(ends)
            arrow = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, "linewidth": 1.4, "mutation_scale": 9}
            arrow |= {"facecolor": colour, "edgecolor": colour}
            self.ax.annotate("", end, start, arrowprops=arrow, zorder=20, annotation_clip=False)
            along = np.diff(self.paper(ends), axis=0)[0]
            along = 8 * along / max(np.hypot(*along), 1e-9)
            self.write(name, end, along, color=colour)
            self.taken = np.vstack([self.taken, np.linspace(*self.paper(ends), 12), self.paper(ends)[1] + along])

    def label(self, text: str, place, **font) -> None:
        """Write a text near a place, where it is farthest from all that is drawn."""
        width = LETTERS * LETTER[0] * len(text)
        centre, best, choice = self.paper(place[None])[0], -np.inf, None
        for distance in DISTANCES:
            for angle in np.deg2rad(np.arange(0, 360, 15)):
                shift = np.array([np.cos(angle), np.sin(angle)]) * (distance + np.array([width / 2 - 6, 0]))
                room = self.room(centre + shift, width) - 0.25 * distance
                if room > best:
                    best, choice = room, shift
        self.write(text, self.flat(place[None])[0], choice, **font)
        across, above = np.meshgrid(np.linspace(-width / 2, width / 2, len(text) + 1), (-5, 0, 5))
        self.taken = np.vstack([self.taken, centre + choice + np.column_stack([across.ravel(), above.ravel()])])

    def room(self, centre, width) -> float:
        """Return the distance of a label of a width at a centre from all that is drawn, at most 12 pt."""
        apart = np.abs(self.taken - centre) - np.array([width / 2, LETTERS * LETTER[1] / 2])
        return min(
            float(np.where(apart.max(axis=1) < 0, apart.max(axis=1), np.hypot(*np.maximum(apart, 0).T)).min()), 12
        )

    def write(self, text, place, shift, **font) -> None:
        """Write a text at a place in data coordinates, shifted by points."""
        options = {"textcoords": "offset points", "ha": "center", "va": "center", "fontsize": LETTERS, "zorder": 21}
        self.ax.annotate(text, place, shift, path_effects=HALO, annotation_clip=False, **options, **font)

    def box(self) -> Bbox:
        """Return the box round all that is drawn, with a margin, in inches."""
        boxes = [text.get_window_extent() for text in self.ax.texts if text.get_text()]
        corners = np.concatenate([box.get_points() for box in boxes]) * self.points_per_pixel
        every = np.vstack([self.taken, corners])
        return Bbox([(every.min(axis=0) - MARGIN) / 72, (every.max(axis=0) + MARGIN) / 72])


def resampled(outline) -> np.ndarray:
    """Return points along an outline (n, 2), close to each other."""
    parts = [np.linspace(start, end, 12) for start, end in pairwise(outline)]
    return np.concatenate([outline, *parts])
