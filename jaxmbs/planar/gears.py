"""Gears, rack and pinion, Haug 3.4.1."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array

from jaxmbs.element import MarkedConstraint, check_pressure_angle, check_sum_of_radii, require
from jaxmbs.numerics.arrays import is_concrete, real
from jaxmbs.numerics.involute import flank_advance
from jaxmbs.numerics.plane import bearing, direction, perpendicular
from jaxmbs.planar.element import Points, length, square

# Pulleys (R_i and R_j of opposite signs) count as equal if |R_i + R_j| is at most this fraction of the centre distance.
MAX_PULLEY_DIFFERENCE = 0.1


class Gear(Points, MarkedConstraint):
    """Pitch circles of two bodies roll on each other; Haug (3.4.2), (3.4.3).

        Φ = (x_j^P − x_i^P) sin θ − (y_j^P − y_i^P) cos θ,
        θ = (R_i (φ_i + θ_i) + R_j (φ_j + θ_j) − R_j π) / (R_i + R_j).

    θ is the direction from P_i to P_j. Other constraints must hold the centres at the distance |R_i + R_j|. Φ vanishes
    for the opposite direction too, so a guess should have the marks roughly in place.

    If one radius is negative, the bodies turn in the same sense: an internal gear, or an open belt drive, in which the
    distance between the centres is arbitrary. (In `planar.Belt` the radii of an open belt have the same sign.) For pulleys
    of about equal size, |R_i + R_j| at most a tenth of that distance,
    Φ = R_i (φ_i + θ_i) + R_j (φ_j + θ_j) − R_j π − (R_i + R_j) θ with θ in (−π, π].

    The reaction is the tangential force in the pitch circles. With a `pressure_angle` α it is the normal force between
    involute teeth: R_i φ_i + R_j φ_j has (R_i + R_j) (inv α_w − inv α) added, with inv α = tan α − α and
    cos α_w = |R_i + R_j| cos α / d at the distance d of the centres. The ratio is the same at any d, and the reaction has
    the radial part tan α_w times the tangential one.

    Args:
        i, j: names of the bodies.
        point_i, point_j: centres of the gears in the body frames.
        radius_i, radius_j: pitch radii; negative for an internal gear, and for one of two pulleys.
        angle_i, angle_j: directions θ_i, θ_j in radians, in the body frames, of the marks that touch at assembly. If they
            are given for an internal gear, the mark of the gear with positive radius is opposite to the point that touches:
            subtract π from angle_i, or add π to angle_j, whichever is its angle; Haug (3.4.7). If neither is given, the
            gears mesh as they are drawn: the marks are those that touch in the guess; see `mbs.with_marks`. If one is
            given, the other is zero.
        pressure_angle: α in radians. It is positive for the flanks whose forces turn gears of positive radius
            counter-clockwise and one of negative radius clockwise, negative for the other flanks. Only these flanks touch:
            `Reaction.pulls` is True at times at which they would have to pull. `mbs.GearMesh` has both. None: the
            reaction is tangential.

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
    pressure_angle: Array | None = real(optional=True, default=None)
    rows: ClassVar[int] = 1

    def residual(self, i, j, t):
        """Return Φ (1,): rolling of the pitch circles, or the belt of two pulleys of about equal size."""
        angle_i, angle_j = self.marks
        d = self.separation(i, j)
        advance = self.radius_i * (i.phi + angle_i) + self.radius_j * (j.phi + angle_j - jnp.pi)
        total = self.radius_i + self.radius_j
        if self.pressure_angle is not None:
            advance = advance + flank_advance(total, square(d), self.pressure_angle)
        equal = total**2 <= (MAX_PULLEY_DIFFERENCE * MAX_PULLEY_DIFFERENCE) * square(d)
        theta = advance / jnp.where(equal, 1, total)
        # θ is compared as a number here. As a direction, many turns of θ would be close together for equal pulleys.
        belt = advance - total * bearing(d)
        return jnp.where(equal, belt, -(perpendicular(direction(theta)) @ d))[None]

    def drawn_marks(self, i, j):
        """Return the angles [θ_i, θ_j] in radians of the points that touch, in the body frames; no extra coordinates."""
        d = self.separation(i, j)
        theta = bearing(d)
        on_i, on_j = theta - i.phi, theta + jnp.pi - j.phi
        if self.pressure_angle is not None:
            total = self.radius_i + self.radius_j
            on_j = on_j - flank_advance(total, square(d), self.pressure_angle) / self.radius_j
        return [on_i, on_j], ()

    def push(self, i, j):
        """Return the unit vector in which the teeth force the gears apart; None without a `pressure_angle`."""
        if self.pressure_angle is None:
            return None
        d = self.separation(i, j)
        return jnp.sign(self.radius_i + self.radius_j) * d / length(d)

    def check(self):
        """Raise `ValueError` for wrong shapes, a radius of zero, or a pressure angle that no teeth have."""
        super().check()
        for name, radius in (("radius_i", self.radius_i), ("radius_j", self.radius_j)):
            require(not is_concrete(radius) or radius != 0, f"{name} must not be zero")
        check_pressure_angle(self)
        if self.pressure_angle is not None:
            check_sum_of_radii(self)


class RackPinion(Points, MarkedConstraint):
    """A pinion on body j rolls on a rack on body i; Haug (3.4.12), (3.4.13).

    Φ = ((r_j^P − r_i^Q)ᵀ v_i − ‖v_i‖ R_j α_j, (r_j^P − r_i^P)ᵀ v_i⊥ − ‖v_i‖ R_j),
    α_j = φ_i + θ_i − φ_j − θ_j + 3π/2.

    With a `pressure_angle` α there is one equation, the first one plus tan α times the second, for a pinion whose centre
    other constraints hold at the distance R_j from the rack. The reaction is then the normal force between the teeth.

    Args:
        i, j: names of the bodies. The rack is on i.
        point_i: P_i, a point of the rack's pitch line in the frame of i.
        point_j: centre of the pinion in the frame of j.
        axis_i: v_i, from P_i to the point Q_i from which the advance of the pinion is measured, in the frame of i.
        radius_j: R_j, positive if the pinion is on the left of the rack seen along v_i, else negative.
        angle_i, angle_j: directions in radians, in the body frames: θ_i of v_i, and θ_j of the point of the pinion that
            touches the rack at Q_i, for a negative radius_j of the opposite point. If φ_j = φ_i then, θ_j is
            θ_i + 3π/2, not θ_i − π/2, because full turns count. If neither is given, the pinion meshes as it is drawn in
            the guess; see `mbs.with_marks`. If one is given, the other is zero.
        pressure_angle: α in radians, positive for the flanks whose force turns the pinion counter-clockwise; see `Gear`.

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
    pressure_angle: Array | None = real(optional=True, default=None)

    @property
    def rows(self) -> int:  # type: ignore[override]
        """Length of Φ: 1 with a `pressure_angle`, else 2."""
        return 2 if self.pressure_angle is None else 1

    def residual(self, i, j, t):
        """Return Φ: ‖v_i‖ times the gap of rolling, and ‖v_i‖ times (distance of the centre from the rack − R_j)."""
        v, v_length = i.direction(self.axis_i), length(self.axis_i)
        d = self.separation(i, j)
        angle_i, angle_j = self.marks
        alpha = i.phi + angle_i - j.phi - angle_j + 3 * jnp.pi / 2
        rolling = (d - v) @ v - v_length * self.radius_j * alpha
        apart = perpendicular(v) @ d - v_length * self.radius_j
        if self.pressure_angle is None:
            return jnp.stack([rolling, apart])
        return (rolling + jnp.tan(self.pressure_angle) * apart)[None]

    def push(self, i, j):
        """Return the unit vector in which the teeth force pinion and rack apart; None without a `pressure_angle`."""
        if self.pressure_angle is None:
            return None
        return jnp.sign(self.radius_j) * perpendicular(i.direction(self.axis_i)) / length(self.axis_i)

    def drawn_marks(self, i, j):
        """Return the angles [θ_i, θ_j] in radians with which the pinion meshes; no extra coordinates."""
        v, d = i.direction(self.axis_i), self.separation(i, j)
        alpha = (d - v) @ v / (length(self.axis_i) * self.radius_j)
        if self.pressure_angle is not None:
            apart = perpendicular(v) @ d / (length(self.axis_i) * self.radius_j) - 1
            alpha = alpha + jnp.tan(self.pressure_angle) * apart
        angle_i = bearing(jnp.asarray(self.axis_i))
        return [angle_i, i.phi + angle_i - j.phi + 3 * jnp.pi / 2 - alpha], ()

    def check(self):
        """Raise `ValueError` for wrong shapes, an axis without length, a radius of zero, or a wrong pressure angle."""
        super().check()
        require(not is_concrete(self.radius_j) or self.radius_j != 0, "radius_j must not be zero")
        check_pressure_angle(self)
