"""Gears, rack and pinion, Haug 3.4.1."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array

from jaxmbs.element import MarkedConstraint, require
from jaxmbs.numerics.arrays import is_concrete, real
from jaxmbs.numerics.plane import bearing, direction, perpendicular
from jaxmbs.planar.element import Points, length, square

# Pulleys (R_i and R_j of opposite signs) count as equal if |R_i + R_j| is at most this fraction of the centre distance.
MAX_PULLEY_DIFFERENCE = 0.1


class Gear(Points, MarkedConstraint):
    """Pitch circles of two bodies roll on each other; Haug (3.4.2), (3.4.3).

        Φ = (x_j^P − x_i^P) sin θ − (y_j^P − y_i^P) cos θ,
        θ = (R_i (φ_i + θ_i) + R_j (φ_j + θ_j) − R_j π) / (R_i + R_j).

    θ is the direction from P_i to P_j. Other constraints must hold the centres at the distance R_i + R_j. Φ vanishes
    for the opposite direction too, so a guess should have the marks roughly in place.

    If one radius is negative, the bodies turn in the same sense: an internal gear, or an open belt drive, in which the
    distance between the centres is arbitrary. For pulleys of about equal size, |R_i + R_j| at most a tenth of that
    distance, Φ = R_i (φ_i + θ_i) + R_j (φ_j + θ_j) − R_j π − (R_i + R_j) θ with θ in (−π, π].

    Args:
        i, j: names of the bodies.
        point_i, point_j: centres of the gears in the body frames.
        radius_i, radius_j: pitch radii; negative for an internal gear, and for one of two pulleys.
        angle_i, angle_j: directions θ in radians, in the body frames, of the marks that touch at assembly. If they are
            given for an internal gear, subtract π from the other gear's angle; Haug (3.4.7). If neither is given,
            the gears mesh as they are drawn: the marks are those that touch in the guess; see `mbs.with_marks`. If one
            is given, the other is zero.

    Examples:
        >>> mesh = planar.Gear("a", "b", (0, 0), (0, 0), radius_i=1.0, radius_j=2.0)
        >>> mech = mbs.Mechanism({"a": planar.Body(), "b": planar.Body()}, {"mesh": mesh})
        >>> ratio = mbs.constraint_jacobian(mech, {"a": (0, 0, 0), "b": (3, 0, 0)})[0, [2, 5]]
        >>> print(ratio.round(6))  # R_i φ̇_i + R_j φ̇_j = 0 while the centres rest
        [1. 2.]
    """

    radius_i: Array = real()
    radius_j: Array = real()
    angle_i: Array | None = real(optional=True, default=None)
    angle_j: Array | None = real(optional=True, default=None)
    rows: ClassVar[int] = 1

    def residual(self, i, j, t):
        """Return Φ (1,): rolling of the pitch circles, or the belt of two pulleys of about equal size."""
        angle_i, angle_j = self.marks
        d = self.separation(i, j)
        advance = self.radius_i * (i.phi + angle_i) + self.radius_j * (j.phi + angle_j - jnp.pi)
        total = self.radius_i + self.radius_j
        equal = total**2 <= (MAX_PULLEY_DIFFERENCE * MAX_PULLEY_DIFFERENCE) * square(d)
        theta = advance / jnp.where(equal, 1, total)
        # θ is compared as a number here. As a direction, many turns of θ would be close together for equal pulleys.
        belt = advance - total * bearing(d)
        return jnp.where(equal, belt, -(perpendicular(direction(theta)) @ d))[None]

    def drawn_marks(self, i, j):
        """Return the angles [θ_i, θ_j] in radians of the points that touch, in the body frames; no extra coordinates."""
        theta = bearing(self.separation(i, j))
        return [theta - i.phi, theta + jnp.pi - j.phi], ()

    def check(self):
        """Raise `ValueError` for wrong shapes, or a radius of zero."""
        super().check()
        for name, radius in (("radius_i", self.radius_i), ("radius_j", self.radius_j)):
            require(not is_concrete(radius) or radius != 0, f"{name} must not be zero")


class RackPinion(Points, MarkedConstraint):
    """A pinion on body j rolls on a rack on body i; Haug (3.4.12), (3.4.13).

    Φ = ((r_j^P − r_i^Q)ᵀ v_i − v_i R_j α_j, (r_j^P − r_i^P)ᵀ v_i⊥ − v_i R_j), α_j = φ_i + θ_i − φ_j − θ_j + 3π/2.

    Args:
        i, j: names of the bodies. The rack is on i.
        point_i: P_i, a point of the rack's pitch line in the frame of i.
        point_j: centre of the pinion in the frame of j.
        axis_i: v_i, from P_i to the point Q_i from which the advance of the pinion is measured, in the frame of i.
        radius_j: R_j, positive if the pinion is on the left of the rack seen along v_i, else negative.
        angle_i, angle_j: θ_i and θ_j in radians, which set the advance at assembly. If neither is given, the pinion
            meshes as it is drawn in the guess; see `mbs.with_marks`. If one is given, the other is zero.

    Examples:
        >>> rolling = planar.RackPinion("ground", "pinion", (0, 0), (0, 0), (1, 0), radius_j=0.5, angle_i=jnp.pi / 2)
        >>> mech = mbs.Mechanism({"pinion": planar.Body()}, {"rolling": rolling})
        >>> print(mbs.constraint_jacobian(mech, {"pinion": (1, 0.5, 0)}).round(6))  # ẋ + R_j φ̇ = 0, ẏ = 0
        [[1.  0.  0.5]
         [0.  1.  0. ]]
    """

    axis_i: Array = real((2,))
    radius_j: Array = real()
    angle_i: Array | None = real(optional=True, default=None)
    angle_j: Array | None = real(optional=True, default=None)
    rows: ClassVar[int] = 2

    def residual(self, i, j, t):
        """Return Φ (2,), times ‖v_i‖: the gap of rolling on the rack, and the distance of the centre from it minus R_j."""
        v, v_length = i.direction(self.axis_i), length(self.axis_i)
        d = self.separation(i, j)
        angle_i, angle_j = self.marks
        alpha = i.phi + angle_i - j.phi - angle_j + 3 * jnp.pi / 2
        rolling = (d - v) @ v - v_length * self.radius_j * alpha
        return jnp.stack([rolling, perpendicular(v) @ d - v_length * self.radius_j])

    def drawn_marks(self, i, j):
        """Return the angles [θ_i, θ_j] in radians with which the pinion meshes; no extra coordinates."""
        v, d = i.direction(self.axis_i), self.separation(i, j)
        alpha = (d - v) @ v / (length(self.axis_i) * self.radius_j)
        angle_i = bearing(jnp.asarray(self.axis_i))
        return [angle_i, i.phi + angle_i - j.phi + 3 * jnp.pi / 2 - alpha], ()

    def check(self):
        """Raise `ValueError` for wrong shapes, an axis without length, or a radius of zero."""
        super().check()
        require(not is_concrete(self.radius_j) or self.radius_j != 0, "radius_j must not be zero")
