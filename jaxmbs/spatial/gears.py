"""Gears of space: cylinders, cones, worms."""

from __future__ import annotations

import abc
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.element import MarkedConstraint, check_positive, check_pressure_angle, check_sum_of_radii, require
from jaxmbs.numerics.arrays import is_concrete, real
from jaxmbs.numerics.involute import flank_advance
from jaxmbs.numerics.plane import bearing
from jaxmbs.numerics.rotation import cross
from jaxmbs.spatial.body import Pose
from jaxmbs.spatial.element import ORIGIN, Frames, unit


class Mesh(Frames, MarkedConstraint):
    """Teeth of two bodies that mesh at a pitch point, with the angles α to the other gear as extra coordinates.

    α_i is the angle about the axis of i, from the x axis of its joint frame, of the direction from point_i to point_j;
    α_j that from point_j to point_i about the axis of j. Two rows of Φ define α_i and α_j from the positions, so that
    any number of turns counts. The third one is the advance of the teeth, by the turns α and by the place of the pitch
    points.

    Attributes:
        radius_i, radius_j: pitch radii.
        angle_i, angle_j: θ in radians, of the marks that touch at assembly.
        pressure_angle: in radians, between the normal of the teeth and the pitch surfaces.
    """

    radius_i: Array = real()
    radius_j: Array = real()
    angle_i: Array | None = real(optional=True)
    angle_j: Array | None = real(optional=True)
    pressure_angle: Array | None = real(optional=True, default=None)
    rows: ClassVar[int] = 3
    extra: ClassVar[tuple[str, ...]] = ("alpha_i", "alpha_j")

    @abc.abstractmethod
    def advance_by_turn(self, i: Pose, j: Pose) -> tuple[Array, Array]:
        """Return the derivatives of the advance by α_i and α_j."""

    @abc.abstractmethod
    def advance_by_place(self, i: Pose, j: Pose) -> Float[Array, ""] | float:
        """Return the advance by the place of the pitch points; zero where they coincide."""

    def residual(self, i, j, t, alpha_i, alpha_j):
        """Return Φ (3,): the equations of alpha_i and alpha_j, and that of the teeth."""
        angle_i, angle_j = self.marks
        by_i, by_j = self.advance_by_turn(i, j)
        advance = by_i * (alpha_i - angle_i) + by_j * (alpha_j - angle_j) + self.advance_by_place(i, j)
        on_i, on_j = self._lines_of_centres(i, j)
        return jnp.stack([_across(on_i, alpha_i), _across(on_j, alpha_j), advance])

    def _lines_of_centres(self, i: Pose, j: Pose) -> tuple[Float[Array, "3"], Float[Array, "3"]]:
        """Return the vectors from each gear's centre to the other's, each in the gear's own joint frame."""
        d = self.separation(i, j)
        return self.axes_i.T @ i.components(d), self.axes_j.T @ j.components(-d)

    def drawn_marks(self, i, j, alpha_i, alpha_j):
        """Return the angles [θ_i, θ_j] in radians with which the gears mesh, and (α_i, α_j), nearest to those given."""
        on_i, on_j = self._lines_of_centres(i, j)
        angles = [_nearest_turn(bearing(on_i[:2]), alpha_i), _nearest_turn(bearing(on_j[:2]), alpha_j)]
        return [angles[0], angles[1] + self.advance_by_place(i, j) / self.advance_by_turn(i, j)[1]], tuple(angles)

    def axes(self, i: Pose, j: Pose) -> tuple[Float[Array, "3"], Float[Array, "3"]]:
        """Return the unit vectors of the axes of both gears, in the ground frame."""
        return i.direction(self.axes_i[:, 2]), j.direction(self.axes_j[:, 2])

    def pitch_points(self, i: Pose, j: Pose, side=1) -> tuple[Float[Array, "3"], Float[Array, "3"], Float[Array, "3"]]:
        """Return the unit vector from the axis of i to j, across it, the pitch point of i, and the vector to that of j.

        A `side` of −1 is that of internal gears: the pitch points are away from the other axis. At the right distance of
        the centres both points coincide.
        """
        d, (axis_i, axis_j) = self.separation(i, j), self.axes(i, j)
        to_j, to_i = (unit(s * (d - (d @ axis) * axis)) for s, axis in ((1, axis_i), (-1, axis_j)))
        point = i.point(self.point_i) + side * self.radius_i * to_j
        return to_j, point, j.point(self.point_j) + side * self.radius_j * to_i - point

    def check(self):
        """Raise `ValueError` for a radius that is missing or zero, for wrong shapes, axes or angles of teeth."""
        for name in ("radius_i", "radius_j"):
            radius = getattr(self, name)
            require(radius is not None, f"{name} is missing")
            require(not is_concrete(radius) or np.ndim(radius) != 0 or radius != 0, f"{name} must not be zero")
        super().check()
        check_pressure_angle(self)


class Gear(Mesh):
    """Pitch cylinders or cones of two bodies roll on each other: R_i (α_i − θ_i) + R_j (α_j − θ_j) = 0. 3 equations.

    α_i is the angle about the axis of i, from the x axis of its joint frame, of the direction from point_i to point_j;
    α_j that from point_j to point_i about the axis of j. Both are extra coordinates alpha_i and alpha_j, so that any
    number of turns counts. Two of the equations define α_i and α_j from the positions. The carrier may move; other
    constraints must hold the gears on it. Axes that are not parallel make bevel or skew gears. Each point must then
    be off the axis of the other gear.

    The reaction is the tangential force F_t at the pitch point. With a `pressure_angle` α, not related to α_i and α_j, and
    a `helix_angle` β it is the normal force of the teeth, with the parts F_t tan α / cos β along the normal of the pitch
    surfaces, which forces the gears apart, and F_t tan β along their common line, the axis of a cylinder. If the distance
    of the centres changes, the teeth touch as involutes do; see `planar.Gear`. Loads in the bearings of bevel gears need a
    pressure angle: without one, only the torques about the axes of cones are right.

    Args:
        i, j: names of the bodies.
        point_i, point_j: centres of the pitch circles with these radii, in the body frames; or `Frame`s of the bodies,
            origin and axes.
        axis_i, axis_j, frame_i, frame_j: axes of the gears, as for `Revolute`. External gears with parallel axes have
            them in the same sense. Those of bevel gears both point away from the apex, or both towards it.
        radius_i, radius_j: pitch radii, or numbers of teeth if there is neither pressure angle nor helix angle. An internal
            gear has a negative radius.
        angle_i, angle_j: θ in radians, of the marks that touch at assembly, from the x axes of the joint frames. If
            neither is given, the gears mesh as they are drawn: the marks are those that touch in the guess; see
            `mbs.with_marks`. Of the guessed alpha_i and alpha_j only the number of full turns is used. If one angle is
            given, the other is zero. If angles are given for an internal gear, the mark of the gear with positive radius
            is opposite to the point that touches.
        pressure_angle: α in radians, in the section normal to the teeth; for cylinders and cones. It is positive for the
            flanks whose forces turn gears of positive radius in the positive sense about their axes, negative for the other
            flanks; see `planar.Gear`.
        helix_angle: β in radians, positive if the teeth of i are right-handed; for cylinders and cones.

    Examples:
        >>> mesh = spatial.Gear("a", "b", axis_i=(0, 0, 1), radius_i=1.0, radius_j=2.0)
        >>> mech = mbs.Mechanism({"a": spatial.Body(), "b": spatial.Body()}, {"mesh": mesh})
        >>> q = {"a": spatial.coordinates(), "b": spatial.coordinates((3, 0, 0)), "mesh": (0.5, jnp.pi)}
        >>> print(mbs.constraints(mech, q)[2].round(6))  # R_i (α_i − θ_i), drawn with θ_i = 0
        0.5
    """

    helix_angle: Array | None = real(optional=True, default=None)

    def __init__(
        self,
        i,
        j,
        point_i=ORIGIN,
        point_j=ORIGIN,
        axis_i=None,
        axis_j=None,
        radius_i=None,
        radius_j=None,
        angle_i=None,
        angle_j=None,
        *,
        frame_i=None,
        frame_j=None,
        pressure_angle=None,
        helix_angle=None,
    ):
        super().__init__(i, j, point_i, point_j, axis_i, axis_j, frame_i=frame_i, frame_j=frame_j)
        self.radius_i, self.radius_j, self.angle_i, self.angle_j = radius_i, radius_j, angle_i, angle_j
        self.pressure_angle, self.helix_angle = pressure_angle, helix_angle

    def advance_by_turn(self, i, j):
        """Return (R_i, R_j)."""
        return self.radius_i, self.radius_j

    def advance_by_place(self, i, j):
        """Return the advance of the teeth along the pitch surfaces, for the vector between the pitch points."""
        if self.pressure_angle is None and self.helix_angle is None:
            return 0.0
        total, helix = self.radius_i + self.radius_j, 0.0 if self.helix_angle is None else self.helix_angle
        apart = self.pitch_points(i, j, jnp.sign(total))[2]
        tangent, along, normal = self._pitch_surfaces(i, j)
        # Pitch points of cylinders are never apart along the tangent; those of cones are where a gear is displaced.
        advance = jnp.sign(total) * (tangent @ apart) - jnp.sign(self.radius_i) * jnp.tan(helix) * (along @ apart)
        if self.pressure_angle is not None:
            distance = jnp.abs(total) + normal @ apart
            transverse = jnp.arctan(jnp.tan(self.pressure_angle) / jnp.cos(helix))
            advance = advance - flank_advance(total, distance**2, transverse)
        return advance

    def _pitch_surfaces(self, i: Pose, j: Pose) -> tuple[Float[Array, "3"], Float[Array, "3"], Float[Array, "3"]]:
        """Return unit vectors at the pitch point: tangent of the circles, common line of the surfaces, their normal."""
        axis_i, axis_j = self.axes(i, j)
        tangent = unit(cross(axis_i, self.separation(i, j)))
        along = unit(jnp.sign(self.radius_i + self.radius_j) * (self.radius_j * axis_i + self.radius_i * axis_j))
        return tangent, along, cross(tangent, along)

    def push(self, i, j, *alpha):
        """Return the unit vector in which the teeth force the gears apart; None without a `pressure_angle`."""
        if self.pressure_angle is None:
            return None
        return jnp.sign(self.radius_i + self.radius_j) * self._pitch_surfaces(i, j)[2]

    def check(self):
        """Raise `ValueError` for what is wrong in all gears, and for involute teeth of two equal radii."""
        super().check()
        if self.pressure_angle is not None or self.helix_angle is not None:
            check_sum_of_radii(self)


class WormGear(Mesh):
    """A worm on body i moves the rim of a wheel on body j with its thread, with axes at right angles. 3 equations.

    With the angles α_i of the worm and α_j of the wheel as in `Gear`, the lead p of the thread and c = −sgn d·(z_i × z_j),
    with d from point_i to point_j and the axes z, Φ₃ = −p (α_i − θ_i) / 2π − c R_j (α_j − θ_j), plus terms that vanish with
    the centres in place. Their derivatives make the reaction the normal force of the thread at the pitch point,

        F (z − tan λ t + (tan α / cos λ) r),  tan λ = p / (2π R_i),

    on the wheel, where z is the axis of the worm, r the outward normal of its pitch cylinder and t = z × r. The worm has
    the thrust −F along z and the torque F R_i tan λ about z. With a `JointFriction`, whose `joint` is the worm gear,
    friction along the thread is μ times the normal force: the efficiency of a worm that drives is tan λ / tan(λ + ρ), and
    for λ < ρ it locks itself, with tan ρ = μ / cos α and the `pressure_angle` α.

    Args:
        i, j: names of the bodies. The worm is on i.
        point_i, point_j: centres in the body frames: the points of the two axes that are nearest to each other; or
            `Frame`s of the bodies.
        axis_i, axis_j, frame_i, frame_j: axes of worm and wheel, as for `Revolute`.
        radius_i, radius_j: pitch radii R of worm and wheel.
        pitch: p, the lead: the pitch of the thread times its number of starts, a length, positive if it is right-handed.
        angle_i, angle_j: θ in radians, as for `Gear`.
        pressure_angle: α in radians, in the section normal to the thread, positive for the flank that pushes the wheel
            along the axis of the worm, negative for the other; see `planar.Gear`. None: a square thread.

    Examples:
        >>> size = {"radius_i": 1.0, "radius_j": 5.0, "pitch": 0.5}
        >>> drive = spatial.WormGear("worm", "wheel", axis_i=(0, 0, 1), axis_j=(0, 1, 0), **size)
        >>> mech = mbs.Mechanism({"worm": spatial.Body(), "wheel": spatial.Body()}, {"mesh": drive})
        >>> q = {"wheel": spatial.coordinates((6, 0, 0)), "mesh": (2 * jnp.pi, jnp.pi)}
        >>> drawn = mbs.with_marks(mech, {**q, "mesh": (0, jnp.pi)})
        >>> print(mbs.constraints(drawn, q)[2].round(6))  # after a turn of α_i
        -0.5
    """

    pitch: Array = real()

    def __init__(
        self,
        i,
        j,
        point_i=ORIGIN,
        point_j=ORIGIN,
        axis_i=None,
        axis_j=None,
        radius_i=None,
        radius_j=None,
        pitch=None,
        angle_i=None,
        angle_j=None,
        *,
        frame_i=None,
        frame_j=None,
        pressure_angle=None,
    ):
        super().__init__(i, j, point_i, point_j, axis_i, axis_j, frame_i=frame_i, frame_j=frame_j)
        self.radius_i, self.radius_j, self.angle_i, self.angle_j = radius_i, radius_j, angle_i, angle_j
        self.pitch, self.pressure_angle = pitch, pressure_angle

    def advance_by_turn(self, i, j):
        """Return −p / 2π and −c R_j: the advances of the thread and of the rim of the wheel along the axis of the worm."""
        sense = -jnp.sign(self.separation(i, j) @ cross(*self.axes(i, j)))
        return -self.pitch / (2 * jnp.pi), -sense * self.radius_j

    def advance_by_place(self, i, j):
        """Return the distance of the pitch points along the normal of the thread, divided by its part along the axis."""
        outward, _, apart = self.pitch_points(i, j)
        axis = self.axes(i, j)[0]
        slope = self.pitch / (2 * jnp.pi * self.radius_i)
        normal = axis - slope * cross(axis, outward)
        if self.pressure_angle is not None:
            normal = normal + jnp.tan(self.pressure_angle) * jnp.sqrt(1 + slope**2) * outward
        return normal @ apart

    def contact_place(self, i, j):
        """Return the pitch point of the worm, in the ground frame."""
        return self.pitch_points(i, j)[1]

    def push(self, i, j, *alpha):
        """Return the unit vector in which the thread forces the wheel off; None without a `pressure_angle`."""
        return None if self.pressure_angle is None else self.pitch_points(i, j)[0]

    def check(self):
        """Raise `ValueError` for what is wrong in all gears, a pitch of zero, or a worm without a positive radius."""
        require(self.pitch is not None, "pitch is missing")
        require(not is_concrete(self.pitch) or np.ndim(self.pitch) != 0 or self.pitch != 0, "pitch must not be zero")
        super().check()
        check_positive(self, "radius_i")


def _nearest_turn(angle, other):
    """Return an angle plus the full turns that bring it nearest to another angle."""
    return angle + 2 * jnp.pi * jnp.round((other - angle) / (2 * jnp.pi))


def _across(d, angle):
    """Return the component of d across the direction at this angle from x in the xy plane: 0 if d points along it."""
    return d[1] * jnp.cos(angle) - d[0] * jnp.sin(angle)
