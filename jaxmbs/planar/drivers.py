"""Drivers: constraints that prescribe a coordinate as a function of time, Haug 3.5."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
from jaxtyping import Array

from jaxmbs.element import DrivenDistance, MeasuredConstraint
from jaxmbs.motion import AbstractMotion, motion_field
from jaxmbs.numerics.arrays import real
from jaxmbs.planar.absolute import Angle, PointCoordinate
from jaxmbs.planar.element import (
    ORIGIN,
    PlanarConstraint,
    Points,
    angle_guide,
    as_tuple,
    is_vector,
    length,
    without_points,
)
from jaxmbs.planar.relative import AngleBetween, Separation, SquaredDistance


class Driver(MeasuredConstraint):
    """A measured quantity follows a motion C(t)."""

    motion: AbstractMotion = motion_field()

    def prescribed(self, t):
        """Return C(t)."""
        return self.motion(t)


class AbsoluteXDriver(Driver, PointCoordinate):
    """Drives the x coordinate of a point: Φ = x^P − C(t); Haug (3.5.1).

    Args:
        body: name of the body.
        point: P in the body frame.
        motion: C(t) in the ground frame: a motion, a number or a function of time.

    Examples:
        >>> pull = planar.AbsoluteXDriver("a", (0, 0), mbs.motion.Ramp(rate=0.5))
        >>> mech = mbs.Mechanism({"a": planar.Body()}, drivers={"pull": pull})
        >>> print(mbs.constraints(mech, {"a": (2, 0, 0)}, t=3.0))
        [0.5]
    """

    component: ClassVar[int] = 0


class AbsoluteYDriver(Driver, PointCoordinate):
    """Drives the y coordinate of a point: Φ = y^P − C(t); Haug (3.5.2).

    Args:
        body: name of the body.
        point: P in the body frame.
        motion: C(t) in the ground frame: a motion, a number or a function of time.

    Examples:
        >>> lift = planar.AbsoluteYDriver("a", (0, 0), mbs.motion.Ramp(rate=0.5))
        >>> mech = mbs.Mechanism({"a": planar.Body()}, drivers={"lift": lift})
        >>> print(mbs.constraints(mech, {"a": (0, 2, 0)}, t=3.0))
        [0.5]
    """

    component: ClassVar[int] = 1


class AbsoluteAngleDriver(Driver, Angle):
    """Drives the angle of a body: Φ = φ − C(t); Haug (3.5.3).

    Args:
        body: name of the body.
        motion: C(t) in radians: a motion, a number or a function of time.
        point: has no effect; it is accepted, also before the motion, as in `AbsoluteXDriver`.

    Examples:
        >>> turn = planar.AbsoluteAngleDriver("a", mbs.motion.Ramp(rate=2.0))
        >>> mech = mbs.Mechanism({"a": planar.Body()}, drivers={"turn": turn})
        >>> print(mbs.velocity_rhs(mech, {"a": (0, 0, 0)}))  # ν, here φ̇
        [2.]
    """

    def __init__(self, body, *point_and_motion, point=ORIGIN, motion=None):
        self.body = body
        (self.motion,) = without_points((*point_and_motion, point, *as_tuple(motion))) or (None,)

    def guide(self, mobility, swapped):
        """Return the index of the joint's angle and the motion prescribed for it; None if the joint has no angle."""
        return angle_guide(mobility, swapped, self.motion)


class RelativeXDriver(Driver, Separation):
    """Drives the difference in x of two points: Φ = x_j^P − x_i^P − C(t); Haug (3.5.5).

    Args:
        i, j: names of the bodies.
        point_i, point_j: the points in their body frames.
        motion: C(t) in the ground frame: a motion, a number or a function of time.

    Examples:
        >>> drive = planar.RelativeXDriver("a", "b", (0, 0), (0, 0), mbs.motion.Ramp(rate=0.5))
        >>> mech = mbs.Mechanism({"a": planar.Body(), "b": planar.Body()}, drivers={"drive": drive})
        >>> print(mbs.constraints(mech, {"a": (1, 0, 0), "b": (3, 0, 0)}, t=3.0))
        [0.5]
    """

    component: ClassVar[int] = 0


class RelativeYDriver(Driver, Separation):
    """Drives the difference in y of two points: Φ = y_j^P − y_i^P − C(t); Haug (3.5.6).

    Args:
        i, j: names of the bodies.
        point_i, point_j: the points in their body frames.
        motion: C(t) in the ground frame: a motion, a number or a function of time.

    Examples:
        >>> drive = planar.RelativeYDriver("a", "b", (0, 0), (0, 0), mbs.motion.Ramp(rate=0.5))
        >>> mech = mbs.Mechanism({"a": planar.Body(), "b": planar.Body()}, drivers={"drive": drive})
        >>> print(mbs.constraints(mech, {"a": (0, 1, 0), "b": (0, 3, 0)}, t=3.0))
        [0.5]
    """

    component: ClassVar[int] = 1


class RelativeAngleDriver(Driver, AngleBetween):
    """Drives the angle of one body relative to another: Φ = φ_j − φ_i − C(t); Haug (3.5.7).

    Args:
        i, j: names of the bodies. Points may follow, as in other elements; this one does not use them.
        motion: C(t) in radians: a motion, a number or a function of time.

    Examples:
        >>> drive = planar.RelativeAngleDriver("a", "b", mbs.motion.Ramp(rate=0.5))
        >>> mech = mbs.Mechanism({"a": planar.Body(), "b": planar.Body()}, drivers={"drive": drive})
        >>> print(mbs.constraints(mech, {"a": (0, 0, 1), "b": (0, 0, 3)}, t=3.0))
        [0.5]
    """

    def __init__(self, i, j, *points_and_motion, motion=None):
        self.i, self.j = i, j
        (self.motion,) = without_points((*points_and_motion, *as_tuple(motion))) or (None,)

    def guide(self, mobility, swapped):
        """Return the index of the joint's angle and the motion prescribed for it; None if the joint has no angle."""
        return angle_guide(mobility, swapped, self.motion)


class DistanceDriver(DrivenDistance, SquaredDistance):
    """An actuator sets the distance of two points: Φ = d_ijᵀ d_ij − C(t)²; Haug (3.5.8).

    Args:
        i, j: names of the bodies.
        point_i, point_j: the points in their body frames.
        motion: C(t), which must stay positive: a motion, a number or a function of time. If it is known and
            not positive, an analysis raises `ValueError`; if it is traced, the sample has a bad status.

    Examples:
        >>> cylinder = planar.DistanceDriver("ground", "a", (0, 0), (0, 0), mbs.motion.Ramp(rate=1.0, start=3.0))
        >>> mech = mbs.Mechanism({"a": planar.Body()}, drivers={"cylinder": cylinder})
        >>> print(mbs.constraints(mech, {"a": (3, 4, 0)}, t=1.0))  # 5² − 4²
        [9.]
    """

    motion: AbstractMotion = motion_field()


class RevoluteDriver(Driver, PlanarConstraint):
    """An actuator at a revolute joint: Φ = (φ_j + θ_j) − (φ_i + θ_i) − C(t); Haug (3.5.11).

    Args:
        i, j: names of the bodies. Points may follow, as in other elements; this one does not use them.
        motion: C(t) in radians, a motion, a number or a function of time. The actuator has an x″ axis on each body; C
            is the angle from the one on i to the one on j.
        angle_i, angle_j: θ_i, θ_j in radians, directions of the x″ axes in the body frames; zero unless given.

    Examples:
        >>> motor = planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(rate=2.0))
        >>> crank = mbs.Mechanism({"crank": planar.Body()}, drivers={"motor": motor})
        >>> print(mbs.constraints(crank, {"crank": (0, 0, 2.5)}, t=1.0))
        [0.5]
    """

    i: str = eqx.field(static=True)
    j: str = eqx.field(static=True)
    angle_i: Array = real()
    angle_j: Array = real()

    def __init__(self, i, j, *points_motion_angles, motion=None, angle_i=None, angle_j=None):
        self.i, self.j = i, j
        values = without_points((*points_motion_angles, *as_tuple(motion)))
        self.motion, *angles = values or (None,)
        angles = [*angles, *as_tuple(angle_i), 0.0, 0.0]
        self.angle_i = angles[0]
        self.angle_j = angles[1] if angle_j is None else angle_j

    def measure(self, i, j):
        """Return (φ_j + θ_j) − (φ_i + θ_i), the angle in radians from the x″ axis on i to that on j."""
        return j.phi + self.angle_j - i.phi - self.angle_i

    def guide(self, mobility, swapped):
        """Return the index of the joint's angle and the motion C + θ_i − θ_j for it; None if the joint has no angle."""
        return angle_guide(mobility, swapped, self.motion, self.angle_i - self.angle_j)


class TranslationalDriver(MeasuredConstraint, Points):
    """An actuator along a translational joint: Φ = v_iᵀ d_ij − ‖v_i‖ C(t); Haug (3.5.12).

    Args:
        i, j: names of the bodies.
        point_i, point_j: the points whose directed distance along v_i is driven, in the body frames.
        axis_i: v_i in the frame of i; x unless given.
        motion: C(t): a motion, a number or a function of time. As a positional argument it may precede or follow the
            axis.

    Examples:
        >>> ram = planar.TranslationalDriver("ground", "a", (0, 0), (0, 0), (0, 1), mbs.motion.Ramp(rate=0.5))
        >>> mech = mbs.Mechanism({"a": planar.Body()}, drivers={"ram": ram})
        >>> print(mbs.constraints(mech, {"a": (0, 2, 0)}, t=3.0))
        [0.5]
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
        """Return v_iᵀ d_ij, the directed distance of point_j from point_i along v_i, times ‖v_i‖."""
        return i.direction(self.axis_i) @ self.separation(i, j)

    def prescribed(self, t):
        """Return ‖v_i‖ C(t)."""
        return length(self.axis_i) * self.motion(t)
