"""Gears of spatial pictures. The teeth are symbols: only the pitch circles are exact."""

from __future__ import annotations

import dataclasses

import numpy as np

from jaxmbs.viz.attachments import attachments
from jaxmbs.viz.planar.shapes import TOOTH_HEIGHTS, TOOTH_PLACES, teeth, unit
from jaxmbs.viz.spatial.meshes import Mesh, extrusion, ring, tube_between, washer
from jaxmbs.viz.spatial.shapes import Poses, place

# Axes are parallel if the cosine of their angle differs from ±1 by less than this.
PARALLEL_TOLERANCE = 1e-3


@dataclasses.dataclass(frozen=True)
class Wheel:
    """A gear in the frame of its body.

    Attributes:
        body: its body.
        centre: origin of its joint frame, (3,).
        axes: axes of its joint frame, (3, 3).
        radius: radius of the pitch circle, negative for an internal gear.
        slope: decrease of the radius per length along the axis: 0 for a spur gear.
    """

    body: str
    centre: np.ndarray
    axes: np.ndarray
    radius: float
    slope: float

    @property
    def key(self) -> tuple:
        """Key by which elements find the same gear."""
        return (self.body, *np.round([*self.centre, self.radius, *self.axes[:, 2]], 6).tolist())


def wheels(element, poses: Poses) -> tuple[Wheel, Wheel]:
    """Return the two gears of an element, in the first configuration.

    Radii that do not fit the distance of the centres, such as numbers of teeth, are scaled to it.
    """
    places, axes = attachments(element, 3), [np.asarray(turned, float) for turned in (element.axes_i, element.axes_j)]
    world = [
        (place(poses, body, point[None])[0, 0], poses[body][1][0] @ turned)
        for (body, point), turned in zip(places, axes, strict=True)
    ]
    (p, a), (q, b) = ((point, turned[:, 2]) for point, turned in world)
    given = np.array([float(element.radius_i), float(element.radius_j)])
    cosine, line = float(a @ b), q - p
    spur = abs(cosine) > 1 - PARALLEL_TOLERANCE
    distance = np.linalg.norm(line - (line @ a) * a if spur else line)
    reach = np.sqrt(max(given @ given + 2 * given.prod() * cosine, 0))
    scale = distance / reach if reach > 0 and distance > 0 and abs(distance / reach - 1) > 0.02 else 1.0
    radii = given * scale
    slopes = [0.0, 0.0]
    if not spur:
        slopes = [_slope(*pair) for pair in ((p, a, q, b, *radii), (q, b, p, a, *radii[::-1]))]
    first, second = (
        Wheel(body, point, turned, radius, slope)
        for (body, point), turned, radius, slope in zip(places, axes, radii, slopes, strict=True)
    )
    return first, second


def _slope(p, a, q, b, radius: float, other: float) -> float:
    """Return tan δ of the pitch cone, with half angle δ, of a gear at p with axis a that meets a gear at q with axis b.

    Negative if the apex is on the side of −a, 0 for nearly flat cones. `radius` is that of this gear, `other` of the other.
    """
    cosine = float(a @ b)
    # The point on the line p + s a that is nearest to the other axis.
    foot = float((q - p) @ (a - cosine * b)) / (1 - cosine**2)
    half = np.arctan2(np.sqrt(1 - cosine**2), other / radius + cosine)
    return float(np.tan(half) * np.sign(foot)) if abs(half) < 1.4 else 0.0


def wheel_mesh(wheel: Wheel, tooth: float, pitch: float, width: float) -> list[Mesh]:
    """Return the surfaces of a gear, in the frame of its body, with one of its teeth at the angle `tooth`.

    `pitch` is that of the teeth along the pitch circle, `width` that of the gear along its axis.
    """
    count, height = teeth(wheel.radius, pitch), 0.32 * pitch
    inside, radius = wheel.radius < 0, abs(wheel.radius)
    angles = (tooth + (np.arange(count)[:, None] + TOOTH_PLACES) * (2 * np.pi / count)).ravel()
    radii = radius + height * np.tile(TOOTH_HEIGHTS, count) * (-1 if inside else 1)
    direction = np.column_stack([np.cos(angles), np.sin(angles)])
    profile = radii[:, None] * direction
    ends = (-width / 2, width / 2)
    if inside:
        parts = [tube_between((radius + 3 * height) * direction, profile, ends)]
    elif wheel.slope:
        # From the centre towards the apex.
        depth = np.sign(wheel.slope) * min(width, 0.5 * radius / abs(wheel.slope))
        parts = [extrusion(profile, (0, depth), (1, 1 - depth * wheel.slope / radius))]
    else:
        spoke = radius - 1.1 * height
        rim = washer(0.92 * spoke, 0.8 * spoke, 1.12 * width)
        dot = 0.055 * radius * ring() + 0.6 * radius * unit([np.cos(tooth), np.sin(tooth)])
        parts = [extrusion(profile, ends), rim, extrusion(dot, (-0.56 * width, 0.56 * width))]
    return [part.at(wheel.centre, wheel.axes) for part in parts]
