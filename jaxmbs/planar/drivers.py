"""Drivers: constraints that prescribe a coordinate as a function of time, Haug 3.5."""

from __future__ import annotations

from jaxtyping import Array

from jaxmbs.element import MeasuredConstraint
from jaxmbs.motion import AbstractMotion, motion_field
from jaxmbs.numerics.arrays import real
from jaxmbs.planar.absolute import Angle, PointX, PointY
from jaxmbs.planar.element import (
    ORIGIN,
    RelativeConstraint,
    angle_guide,
    check_axis,
    given,
    is_vector,
    length,
    separation,
    without_points,
)
from jaxmbs.planar.relative import AngleBetween, SeparationX, SeparationY, SquaredDistance, TwoPoints


class Driver(MeasuredConstraint):
    """A measured quantity follows a motion C(t)."""

    motion: AbstractMotion = motion_field()

    def prescribed(self, t):
        return self.motion(t)


class AbsoluteXDriver(Driver, PointX):
    """Φ = x^P − C(t); Haug (3.5.1). `point` in the body frame, `motion` C in the ground frame."""


class AbsoluteYDriver(Driver, PointY):
    """Φ = y^P − C(t); Haug (3.5.2). `point` in the body frame, `motion` C in the ground frame."""


class AbsoluteAngleDriver(Driver, Angle):
    """Φ = φ − C(t); Haug (3.5.3). `AbsoluteAngleDriver(body, point, motion)` is accepted; the point has no effect."""

    def __init__(self, body, *point_and_motion, point=ORIGIN, motion=None):
        self.body = body
        (self.motion,) = without_points((*point_and_motion, point, *given(motion))) or (None,)

    def guide(self, mobility, swapped):
        return angle_guide(mobility, swapped, self.motion)


class RelativeXDriver(Driver, SeparationX):
    """Φ = x_j^P − x_i^P − C(t); Haug (3.5.5). Points in the body frames, C in the ground frame."""


class RelativeYDriver(Driver, SeparationY):
    """Φ = y_j^P − y_i^P − C(t); Haug (3.5.6). Points in the body frames, C in the ground frame."""


class RelativeAngleDriver(Driver, AngleBetween):
    """Φ = φ_j − φ_i − C(t); Haug (3.5.7). Points before the motion are accepted; they have no effect."""

    def __init__(self, i, j, *points_and_motion, motion=None):
        self.i, self.j = i, j
        (self.motion,) = without_points((*points_and_motion, *given(motion))) or (None,)

    def guide(self, mobility, swapped):
        return angle_guide(mobility, swapped, self.motion)


class DistanceDriver(SquaredDistance):
    """An actuator sets the distance of two points: Φ = d_ijᵀ d_ij − C(t)²; Haug (3.5.8). C(t) must stay positive."""

    motion: AbstractMotion = motion_field()

    def prescribed(self, t):
        return self.motion(t) ** 2


class RevoluteDriver(Driver, RelativeConstraint):
    """An actuator at a revolute joint: Φ = (φ_j + θ_j) − (φ_i + θ_i) − C(t); Haug (3.5.11).

    Args:
        i, j: names of the bodies.
        motion: C(t) in radians, the angle of the actuator's x″ axis on j from that on i.
        angle_i, angle_j: θ, directions of those axes in the body frames.

    Points before the motion are accepted; they have no effect.
    """

    angle_i: Array = real()
    angle_j: Array = real()

    def __init__(self, i, j, *points_motion_angles, motion=None, angle_i=None, angle_j=None):
        self.i, self.j = i, j
        values = without_points((*points_motion_angles, *given(motion)))
        self.motion, *angles = values or (None,)
        angles = [*angles, *given(angle_i), 0.0, 0.0] if angle_i is not None else [*angles, 0.0, 0.0]
        self.angle_i = angles[0]
        self.angle_j = angles[1] if angle_j is None else angle_j

    def measure(self, i, j):
        return j.phi + self.angle_j - i.phi - self.angle_i

    def guide(self, mobility, swapped):
        return angle_guide(mobility, swapped, self.motion, self.angle_i - self.angle_j)


class TranslationalDriver(TwoPoints):
    """An actuator along a translational joint: Φ = v_iᵀ d_ij − ‖v_i‖ C(t); Haug (3.5.12).

    Args:
        i, j: names of the bodies.
        point_i, point_j: the points whose directed distance along v_i is driven, in the body frames.
        axis_i: v_i in the frame of i.
        motion: C(t). It may stand before the axis or after it.
    """

    axis_i: Array = real((2,))
    motion: AbstractMotion = motion_field()

    def __init__(self, i, j, point_i, point_j, *axis_and_motion, axis_i=(1.0, 0.0), motion=None):
        self.i, self.j, self.point_i, self.point_j = i, j, point_i, point_j
        for value in axis_and_motion:
            if is_vector(value):
                axis_i = value
            else:
                motion = value
        self.axis_i, self.motion = axis_i, motion

    def measure(self, i, j):
        return i.direction(self.axis_i) @ separation(i, j, self.point_i, self.point_j)

    def prescribed(self, t):
        return length(self.axis_i) * self.motion(t)

    def check(self):
        super().check()
        check_axis("axis_i", self.axis_i)
