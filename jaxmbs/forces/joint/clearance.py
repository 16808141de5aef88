"""A pin with play: two bodies that touch inside a bearing, in place of a revolute joint."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from jaxmbs.element import check_not_negative, check_positive, require
from jaxmbs.forces.joint.touch import AbstractBodyContact, Touch
from jaxmbs.forces.springs import length_and_direction, points_of
from jaxmbs.numerics.arrays import real


class ClearanceRevolute(AbstractBodyContact):
    """A pin on body j with play in a hole in body i, in place of a `Revolute`.

    Let e be the vector from the centre of the hole to that of the pin, c the clearance and δ = |e| − c. If δ > 0, the pin
    is pushed back along −e by the normal force

        N = k δⁿ (1 + d δ̇),  d = 3 (1 − ε²) / (4 v₀)  or  8 (1 − ε) / (5 ε v₀),

    the continuous forces of Lankarani and Nikravesh 1990, for a coefficient of restitution ε near 1, and of Flores,
    Machado, Silva and Martins 2011, for any ε. v₀ is the initial speed of an impact, for which you give a typical
    value. N is never negative. In simulations with fixed steps it is smoothed over about six steps, like the effort of a
    `JointStop`. Friction at the place of contact is μ N, smooth as in `JointFriction`.

    In space, each end of the pin is a separate contact, with its own k δⁿ, and the pin may slide along the axis of the
    hole.

    The potential energy is V = k δⁿ⁺¹ / (n + 1) for δ > 0, else 0.

    Args:
        i, j: names of the bodies: the hole is in i, the pin on j.
        point_i, point_j: the centres in the body frames; the origins unless given.
        clearance: c, the radius of the hole less that of the pin.
        stiffness: k, in N/mⁿ.
        exponent: n, at least 1; 1.5 unless given.
        restitution: ε, in (0, 1]; 1 unless given: no damping.
        impact_velocity: v₀, positive, in m/s; 1 unless given.
        law: "lankarani-nikravesh", unless given, or "flores".
        friction: μ; none unless given.
        velocity: v_t, the sliding velocity below which friction falls to zero with the velocity; see `JointFriction`.
        radius: radius of the pin, for friction.
        length: length of the pin, in space.
        axis_i, axis_j: in space, the axes of the hole and the pin in the body frames; z unless given, `axis_j` as
            `axis_i`.

    Examples:
        >>> pin = mbs.ClearanceRevolute(
        ...     "ground", "a", (0, 0), (0, 0), clearance=1e-3, stiffness=1e8, restitution=0.9, impact_velocity=0.1
        ... )
        >>> mech = mbs.Mechanism({"a": planar.Body()}, forces={"pin": pin})
        >>> print(mbs.generalized_force(mech, {"a": (1.1e-3, 0, 0)}, jnp.zeros(3)).round(3))  # 0.1 mm deep
        [-100.    0.    0.]
    """

    clearance: Array = real(default=None, kw_only=True)
    radius: Array | None = real(optional=True, default=None, kw_only=True)
    length: Array | None = real(optional=True, default=None, kw_only=True)
    axis_i: Array | None = real((3,), optional=True, default=None, kw_only=True)
    axis_j: Array | None = real((3,), optional=True, default=None, kw_only=True)

    def contacts(self, state):
        """Return the contact of each end of the pin; in the plane there is one end."""
        i, j = state.poses[self.i], state.poses[self.j]
        centre_of_hole, middle = points_of(self, i)
        hole = i.point(centre_of_hole)
        if i.dimension == 2:
            ends, axis = [middle], None
        else:
            own_i, own_j = _unit(self.axis_i), _unit(self.axis_i if self.axis_j is None else self.axis_j)
            assert self.length is not None  # as checked
            half = self.length / 2 * own_j
            ends, axis = [middle - half, middle + half], i.direction(own_i)
        found = []
        for end in ends:
            place = j.point(end)
            apart = place - hole
            if axis is not None:
                apart = apart - (axis @ apart) * axis
            distance, normal = length_and_direction(apart)
            if self.radius is not None:
                place = place + self.radius * normal
            found.append(Touch(place, normal, distance - self.clearance))
        return found

    def check(self, dimension):
        """Raise `ValueError` for arguments that are missing, have a wrong sign, or belong to the other dimension."""
        require(self.clearance is not None, "clearance is missing")
        super().check(dimension)
        check_positive(self, "radius", "length")
        check_not_negative(self, "clearance")
        require(self.friction is None or self.radius is not None, "radius is missing: friction needs it")
        require(dimension == 2 or self.length is not None, "length of the pin is missing")
        flat = self.length is None and self.axis_i is None and self.axis_j is None
        require(dimension == 3 or flat, "length, axis_i and axis_j are for spatial mechanisms only")


def _unit(axis: Any):
    """Return an axis scaled to length 1; z for None."""
    axis = jnp.array([0.0, 0.0, 1.0]) if axis is None else jnp.asarray(axis)
    return axis / jnp.sqrt(axis @ axis)
