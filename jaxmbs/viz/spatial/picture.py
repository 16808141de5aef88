"""Spatial scenes in matplotlib: stills and the frames of animations."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from mpl_toolkits.mplot3d.art3d import Poly3DCollection
from mpl_toolkits.mplot3d.proj3d import proj_transform

from jaxmbs.viz.planar.shapes import unit
from jaxmbs.viz.spatial.meshes import tube
from jaxmbs.viz.spatial.scene import Scene
from jaxmbs.viz.spatial.shapes import Solid, Span
from jaxmbs.viz.style import DOTS_PER_INCH, GRID, GROUND_COLOUR, PAPER

# Factor on the colour of faces turned away from the light.
MIN_BRIGHTNESS = 0.58
# Factor on the colour of faces turned towards the light.
MAX_BRIGHTNESS = 1.12
# Shortest side of the box of a scene, divided by its longest side.
MIN_BOX_SIDE = 0.25
# Margin of the box round all shapes, in units of the symbols.
BOX_MARGIN = 2.0
# Part of new axes that the box of the scene fills. The rest is for the numbers at the right and below.
FILLED = 0.82
# Part of the axes given by the user that the box of the scene fills.
FILLED_OF_GIVEN_AXES = 0.95
# Shift of new axes to the left and upwards, divided by the size of the picture: the numbers are at the right and below.
AXES_SHIFT = 0.02
# Curves of points are thinned to at most this many points.
MAX_CURVE_POINTS = 160
# Default width of a spatial picture in inches.
WIDTH_INCHES = 6.0
# Default height of a spatial picture in inches.
HEIGHT_INCHES = 5.0


def axes(ax=None, *, height: float = HEIGHT_INCHES):
    """Return `ax` or new spatial axes, with a light grid. `height` in inches is that of a new picture."""
    if ax is None:
        ax = plt.figure(figsize=(WIDTH_INCHES, height)).add_axes((-AXES_SHIFT, AXES_SHIFT, 1, 1), projection="3d")
    if getattr(ax, "name", "") != "3d":
        raise ValueError('ax: a spatial mechanism needs spatial axes: plt.subplots(subplot_kw={"projection": "3d"})')
    for axis, name in ((ax.xaxis, "x"), (ax.yaxis, "y"), (ax.zaxis, "z")):
        axis.pane.set(facecolor=PAPER, edgecolor=GRID, alpha=1.0)
        axis.line.set_color(GRID)
        axis.set_tick_params(labelsize=7, labelcolor=GROUND_COLOUR, color=GRID, pad=0)
        axis._axinfo["grid"].update(color=GRID, linewidth=0.8)
        axis.set_label_text(name, color=GROUND_COLOUR, fontsize=8)
        axis.labelpad = -4
        axis.set_major_locator(plt.MaxNLocator(5))
    return ax


def equal_scales(ax) -> None:
    """Give all directions one scale. Call it after drawing."""
    if ax.get_autoscale_on():
        ax.autoscale_view()
        ax.set_box_aspect([max(high - low, 1e-12) for low, high in (ax.get_xlim(), ax.get_ylim(), ax.get_zlim())])


def still(scene: Scene, ax, *, labels: bool = False):
    """Draw the first configuration of a scene, with the names of the bodies if `labels`, and return the axes."""
    filled = FILLED if ax is None else FILLED_OF_GIVEN_AXES
    ax = axes(ax, height=WIDTH_INCHES * _aspect(scene))
    _frame(ax, scene, filled)
    faces = _Faces(scene, scene.shapes)
    ax.add_collection3d(faces, autolim=False)
    faces.show(0)
    for name in scene.mech.bodies if labels else ():
        ax.text(
            *(scene.middle(name)[0] + 2.5 * scene.unit * scene.view.up),
            name,
            ha="center",
            fontsize=9,
            color=scene.colours[name],
            path_effects=[withStroke(linewidth=2.5, foreground=PAPER)],
            zorder=9,
        )
    return ax


class Film:
    """The frames of an animation in matplotlib. The grid is drawn once.

    Attributes:
        canvas: the canvas of the frames.
        palette_size: number of colours of a GIF. Shaded faces need many.
        min_colour_distance: smallest distance of two colours of the palette, in steps of 256: rare colours count, too.
    """

    palette_size = 200
    min_colour_distance = 9.0

    def __init__(self, scene: Scene, curves, width: float, title: str | None):
        picture, heading = width * _aspect(scene), 0.35 if title else 0
        self.figure = Figure(figsize=(width, picture + heading), dpi=DOTS_PER_INCH)
        self.canvas = FigureCanvasAgg(self.figure)
        self.ax = axes(
            self.figure.add_axes((-AXES_SHIFT, AXES_SHIFT, 1, picture / (picture + heading)), projection="3d")
        )
        _frame(self.ax, scene, FILLED)
        if title:
            self.figure.text(0.5, 1 - 0.22 / (picture + heading), title, fontsize=10, ha="center", va="center")
        self.faces = _Faces(scene, [*scene.shapes, *(trace(scene, *curve) for curve in curves)])
        self.ax.add_collection3d(self.faces, autolim=False)
        self.count = len(next(iter(scene.poses.values()))[1])

    def __iter__(self) -> Iterator[np.ndarray]:
        """Yield the frames as arrays (height, width, 4) of bytes; each is valid until the next."""
        self.faces.set_animated(True)
        self.faces.show(0)
        self.canvas.draw()
        background = self.canvas.copy_from_bbox(self.figure.bbox)
        for k in range(self.count):
            self.canvas.restore_region(background)
            self.faces.show(k)
            self.faces.do_3d_projection()
            self.ax.draw_artist(self.faces)
            yield np.asarray(self.canvas.buffer_rgba())


def trace(scene: Scene, body: str, points: np.ndarray) -> Solid:
    """Return the curve of a point of a body (F, 3) as a thin tube."""
    points = points[np.isfinite(points).all(axis=1)]
    points = points[np.unique(np.linspace(0, len(points) - 1, MAX_CURVE_POINTS).round().astype(int))]
    return Solid("ground", tube(points, 0.22 * scene.unit, count=4), scene.colours[body])


class _Faces(Poly3DCollection):
    """All faces of a scene as one artist, so that matplotlib draws them from the back to the front.

    Faces are anticlockwise from outside. Those turned to the camera are drawn.
    """

    def __init__(self, scene: Scene, shapes: list[Solid | Span]):
        starts = np.cumsum([0, *(len(shape.mesh.points) for shape in shapes)])
        self.scene, self.shapes = scene, shapes
        self.indices = np.concatenate([s.mesh.faces + start for s, start in zip(shapes, starts, strict=False)])
        paint = [np.tile([*to_rgb(s.colour), s.opacity], (len(s.mesh.faces), 1)) for s in shapes]
        self.paint = np.concatenate(paint)
        # The direction of the light: from above, a little from the left of the camera.
        camera, up = scene.view.direction, scene.view.up
        self.light = unit(camera + 0.9 * up - 0.5 * np.cross(up, camera))
        super().__init__(np.zeros((len(self.paint), 4, 3)), linewidths=0.35)
        self.set_clip_on(False)

    def show(self, k: int) -> None:
        """Set the corners (m, 4, 3) of the faces to configuration k, and their colours (m, 4) to its light."""
        poses = {body: (origin[k : k + 1], axes[k : k + 1]) for body, (origin, axes) in self.scene.poses.items()}
        corners = np.concatenate([shape.world(poses)[0] for shape in self.shapes])[self.indices]
        normals = np.cross(corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1])
        size = np.linalg.norm(normals, axis=1, keepdims=True)
        towards = np.clip((normals / np.where(size > 0, size, 1)) @ self.light, -1, 1)
        bright = MIN_BRIGHTNESS + (MAX_BRIGHTNESS - MIN_BRIGHTNESS) * ((1 + towards) / 2) ** 1.3
        self.corners = corners
        self.colours = np.column_stack([np.clip(self.paint[:, :3] * bright[:, None], 0, 1), self.paint[:, 3]])

    def do_3d_projection(self):
        """Keep the faces that are turned to the camera, and return matplotlib's depth of the collection."""
        places = np.asarray(proj_transform(*self.corners.reshape(-1, 3).T, self.axes.M))
        x, y = places[0].reshape(-1, 4), places[1].reshape(-1, 4)
        # The cross product of the diagonals is twice the area on the screen: positive for faces turned to the camera.
        visible = (x[:, 2] - x[:, 0]) * (y[:, 3] - y[:, 1]) > (y[:, 2] - y[:, 0]) * (x[:, 3] - x[:, 1])
        colours = self.colours[visible]
        self.set_verts(self.corners[visible], closed=True)
        self.set_facecolor(colours)
        # Edges of the same colour close the hairlines between faces.
        self.set_edgecolor(np.where(colours[:, 3:] < 1, 0, colours))
        return super().do_3d_projection()


def _limits(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and the upper corner of the box of the picture, with its margin."""
    lower, upper = scene.limits()
    lower, upper = lower - BOX_MARGIN * scene.unit, upper + BOX_MARGIN * scene.unit
    middle, half = (lower + upper) / 2, (upper - lower) / 2
    half = np.maximum(half, MIN_BOX_SIDE * half.max())
    return middle - half, middle + half


def _aspect(scene: Scene) -> float:
    """Return height divided by width of the box on the screen, within bounds."""
    lower, upper = _limits(scene)
    camera, up = scene.view.direction, scene.view.up
    right = unit(np.cross(up, camera)) if abs(up @ camera) < 1 - 1e-9 else scene.view.axes[:, 1]
    above = np.cross(camera, right)
    return float(np.clip(np.abs(above) @ (upper - lower) / (np.abs(right) @ (upper - lower)), 0.55, 1.3))


def _frame(ax, scene: Scene, filled: float) -> None:
    """Set limits, camera and one scale for all directions. The box fills the part `filled` of the axes."""
    view, (lower, upper) = scene.view, _limits(scene)
    ax.set(xlim=(lower[0], upper[0]), ylim=(lower[1], upper[1]), zlim=(lower[2], upper[2]))
    ax.view_init(
        elev=view.sense * view.elevation,
        azim=view.sense * view.azimuth,
        roll=0 if view.sense > 0 else 180,
        vertical_axis="xyz"[view.axis],
    )
    ax.set_box_aspect(upper - lower)
    corners = np.array(np.meshgrid(*zip(lower, upper, strict=True))).reshape(3, -1)
    x, y, _ = proj_transform(*corners, ax.get_proj())
    place, (width, height) = ax.get_position(original=True), ax.figure.get_size_inches()
    room = np.array([place.width * width, place.height * height])
    window = np.array([ax.viewLim.width, ax.viewLim.height]) * room / room.min()
    ax.set_box_aspect(upper - lower, zoom=float(filled * np.min(window / [np.ptp(x), np.ptp(y)])))
