"""Drivers of space: an angle, an advance or a distance as a function of time. For six components at once: `TotalJoint`."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from jaxmbs.element import DrivenDistance, require
from jaxmbs.motion import AbstractMotion, Shifted, motion_field
from jaxmbs.numerics import rotation
from jaxmbs.numerics.arrays import is_scalar
from jaxmbs.spatial.body import Body
from jaxmbs.spatial.element import ORIGIN, Frames
from jaxmbs.spatial.frame import Frame
from jaxmbs.spatial.joints import SquaredDistance, angle_row
from jaxmbs.spatial.turning import Turn

# A driver moves a joint's slide only if the cosine of the angle between their axes is above this, else it gives NaN.
MIN_SLIDE_COSINE = 1e-6


class _FrameDriver(Frames):
    """A driver between two joint frames."""

    motion: AbstractMotion = motion_field()
    rows: ClassVar[int] = 1

    def __init__(
        self, i, j, *points_motion_axes, motion=None, axis_i=None, axis_j=None, frame_i=None, frame_j=None, **points
    ):
        # The motion may be anywhere after the bodies; the other arguments are points, then axes.
        places = []
        for value in points_motion_axes:
            if not isinstance(value, Frame) and (
                isinstance(value, AbstractMotion) or callable(value) or is_scalar(value)
            ):
                motion = value
            else:
                places.append(value)
        names = ("point_i", "point_j", "axis_i", "axis_j")
        require(len(places) <= len(names), f"too many vectors: give {', '.join(names)} at most")
        given = dict(zip(names, places, strict=False)) | points
        given |= {k: x for k, x in (("axis_i", axis_i), ("axis_j", axis_j)) if x is not None}
        super().__init__(i, j, **({"point_i": ORIGIN, "point_j": ORIGIN} | given), frame_i=frame_i, frame_j=frame_j)
        self.motion = motion


class RevoluteDriver(_FrameDriver):
    """An actuator at a hinge: Φ = 2 sin((φ − C(t)) / 2) with φ the joint's angle, for any number of turns. 1 equation.

    Args:
        i, j: names of the bodies. Points may follow, as in other elements; this one does not use them.
        motion: C(t) in radians: a motion, a number or a function of time.
        axis_i, axis_j: those of the joint.
        frame_i, frame_j: those of the joint.

    Examples:
        >>> motor = spatial.RevoluteDriver("ground", "arm", mbs.motion.Ramp(rate=2.0), axis_i=(0, 0, 1))
        >>> mech = mbs.Mechanism({"arm": spatial.Body()}, drivers={"motor": motor})
        >>> arm = spatial.coordinates(rotated=(0, 0, 2 + jnp.pi / 3))
        >>> print(mbs.constraints(mech, {"arm": arm}, t=1.0).round(6))  # 2 sin 30°
        [1.]
    """

    def residual(self, i, j, t):
        """Return Φ (1,): 2 sin((φ − C(t)) / 2)."""
        return angle_row(self.turn(i, j), self.motion(t))[None]

    def guide(self, mobility, swapped):
        """Return the index of the hinge's angle and the motion prescribed for it; None unless it is a hinge."""
        if not isinstance(mobility.turning, Turn):
            return None

        def turn(angle):
            """Return Euler parameters of the driver's frame on j relative to that on i, with the joint at this angle."""
            p = mobility.turning.rotation(jnp.full(1, angle, self.point_i.dtype))
            p = p if mobility.neutral is None else rotation.product(p, mobility.neutral)
            on_i, on_j = (rotation.identity(p.dtype) if f is None else f for f in self.frame_parameters)
            p = rotation.inverse(p) if swapped else p
            return rotation.product(rotation.product(rotation.inverse(on_i), p), on_j)

        return mobility.free_slides, HingeAngle(self.motion, turn(0.0), turn(jnp.pi), -1.0 if swapped else 1.0)


class HingeAngle(AbstractMotion):
    """The angle φ of a hinge at which a `RevoluteDriver` on it has the angle C(t), with the turns of C.

    The driver's Euler parameters are p = cos(φ/2) u + sin(φ/2) w, and its equation is p₃ cos(C/2) = p₀ sin(C/2): with
    φ = ±C + 2δ an equation for δ, which is constant if the axis of the driver is that of the hinge.

    Args:
        motion: C.
        start: u, the Euler parameters for φ = 0.
        half_turn: w, the Euler parameters for φ = π.
        sense: 1 if both axes have the same sense, −1 if they are opposite.
    """

    motion: AbstractMotion
    start: Array
    half_turn: Array
    sense: float = eqx.field(static=True)

    def __call__(self, t):
        """Return the hinge's angle φ at the time t."""
        angle = self.motion(t)
        c, s = jnp.cos(angle / 2), jnp.sin(angle / 2)
        alpha, beta = (p[3] * c - p[0] * s for p in (self.start, self.half_turn))
        # cos(φ/2) α + sin(φ/2) β = 0.
        s = self.sense * s
        return self.sense * angle + 2 * jnp.arctan2(-(alpha * c + beta * s), beta * c - alpha * s)


class TranslationalDriver(_FrameDriver):
    """An actuator along an axis: Φ = s − C(t). 1 equation.

    s is the advance of point_j from point_i along the axis of i.

    Args:
        i, j: names of the bodies.
        point_i, point_j: those of the joint, in the body frames. As positional arguments they may precede or follow the
            motion.
        motion: C(t): a motion, a number or a function of time.
        axis_i, axis_j: those of the joint.
        frame_i, frame_j: those of the joint.

    Examples:
        >>> ram = spatial.TranslationalDriver("ground", "a", mbs.motion.Ramp(rate=0.5), axis_i=(0, 0, 1))
        >>> mech = mbs.Mechanism({"a": spatial.Body()}, drivers={"ram": ram})
        >>> print(mbs.constraints(mech, {"a": spatial.coordinates((0, 0, 2))}, t=3.0))
        [0.5]
    """

    def residual(self, i, j, t):
        """Return Φ (1,): s − C(t)."""
        return (self.advance(i, j) - self.motion(t))[None]

    def guide(self, mobility, swapped):
        """Return index 0 and the motion prescribed for the slide; None unless a slide is the only coordinate."""
        if not mobility.lone_slide:
            return None
        ground = Body.pose(Body.ground(self.point_i.dtype))
        rest = jnp.array(mobility.at_rest, self.point_i.dtype)

        def advance_at(s):
            """Return the advance of point_j along the driver's axis if the joint has the slide s."""
            other = mobility.place(ground, rest.at[0].set(s))
            i, j = (other, ground) if swapped else (ground, other)
            return self.advance(i, j)

        start = advance_at(0.0)
        by_slide = advance_at(1.0) - start
        # A driver across the slide cannot move it.
        by_slide = jnp.where(jnp.abs(by_slide) > MIN_SLIDE_COSINE, by_slide, jnp.nan)
        return 0, Shifted(self.motion, 1 / by_slide, -start / by_slide)


class DistanceDriver(DrivenDistance, SquaredDistance):
    """An actuator sets the distance of two points: Φ = d_ijᵀ d_ij − C(t)². 1 equation.

    Args:
        i, j: names of the bodies.
        point_i, point_j: the points in their body frames.
        motion: C(t), which must stay positive: a motion, a number or a function of time. If it is known and
            not positive, an analysis raises `ValueError`; if it is traced, the sample has a bad status.

    Examples:
        >>> cylinder = spatial.DistanceDriver("ground", "a", motion=mbs.motion.Ramp(rate=1.0, start=3.0))
        >>> mech = mbs.Mechanism({"a": spatial.Body()}, drivers={"cylinder": cylinder})
        >>> print(mbs.constraints(mech, {"a": spatial.coordinates((3, 4, 0))}, t=1.0))  # 5² − 4²
        [9.]
    """

    motion: AbstractMotion = motion_field(default=None)
