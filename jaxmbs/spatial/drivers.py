"""Drivers of space: an angle, an advance or a distance as a function of time. For six components at once: `TotalJoint`."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from jaxmbs.element import require
from jaxmbs.motion import AbstractMotion, motion_field
from jaxmbs.spatial.body import Frame
from jaxmbs.spatial.element import ORIGIN, Frames, Points
from jaxmbs.spatial.joints import angle_row


class _FrameDriver(Frames):
    """A driver between two joint frames."""

    motion: AbstractMotion = motion_field()
    rows: ClassVar[int] = 1

    def __init__(
        self, i, j, *points_motion_axes, motion=None, axis_i=None, axis_j=None, frame_i=None, frame_j=None, **points
    ):
        # The motion may stand anywhere after the bodies; what stands beside it are points, then axes.
        places = []
        for value in points_motion_axes:
            if not isinstance(value, Frame) and (
                isinstance(value, AbstractMotion) or callable(value) or np.ndim(value) == 0
            ):
                motion = value
            else:
                places.append(value)
        names = ("point_i", "point_j", "axis_i", "axis_j")
        require(len(places) <= len(names), f"too many vectors: {', '.join(names)} are what it takes")
        given = dict(zip(names, places, strict=False)) | points
        given |= {k: x for k, x in (("axis_i", axis_i), ("axis_j", axis_j)) if x is not None}
        super().__init__(i, j, **({"point_i": ORIGIN, "point_j": ORIGIN} | given), frame_i=frame_i, frame_j=frame_j)
        self.motion = motion


class RevoluteDriver(_FrameDriver):
    """An actuator at a hinge: Φ = 2 sin((φ − C(t)) / 2) with φ the joint's angle; any number of turns. 1 equation.

    Args:
        i, j, axis_i, axis_j, frame_i, frame_j: as those of the joint; see `Frames`. Points have no effect.
        motion: C(t) in radians.
    """

    def residual(self, i, j, t):
        return angle_row(self.turn(i, j), self.motion(t))[None]


class TranslationalDriver(_FrameDriver):
    """An actuator along an axis: Φ = s − C(t) with s the advance of point_j from point_i along the axis of i. 1 equation.

    Args:
        i, j, point_i, point_j, axis_i, axis_j, frame_i, frame_j: as those of the joint; see `Frames`.
        motion: C(t).
    """

    def residual(self, i, j, t):
        return (i.direction(self.axes_i[:, 2]) @ self.separation(i, j) - self.motion(t))[None]


class DistanceDriver(Points):
    """An actuator sets the distance of two points: Φ = d_ijᵀ d_ij − C(t)². C(t) must stay positive. 1 equation.

    Args:
        i, j: names of the bodies.
        point_i, point_j: the points in their body frames.
        motion: C(t).
    """

    motion: AbstractMotion = motion_field(default=None)
    rows: ClassVar[int] = 1

    def residual(self, i, j, t):
        d = j.point(self.point_j) - i.point(self.point_i)
        return (d @ d - self.motion(t) ** 2)[None]
