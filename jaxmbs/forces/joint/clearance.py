"""A pin with play: two bodies that touch inside a bearing, in place of a revolute joint."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from jaxmbs.element import check_not_negative, check_positive, require
from jaxmbs.forces.joint.contact import AbstractContactForce, check_contact, contact_energy, contact_force
from jaxmbs.forces.joint.friction import friction_by_speed
from jaxmbs.forces.springs import length_and_direction, points_of
from jaxmbs.forces.state import opposite
from jaxmbs.forces.values import computed_field
from jaxmbs.numerics.arrays import is_concrete, real


class ClearanceRevolute(AbstractContactForce):
    """A pin on body j with play in a hole in body i, in place of a `Revolute`.

    Let e be the vector between the centres, c the clearance and δ = |e| − c. If δ > 0, the normal contact force on the
    pin is

        N = k δⁿ (1 + d δ̇),  d = 3 (1 − ε²) / (4 v₀)  or  8 (1 − ε) / (5 ε v₀),

    the continuous forces of Lankarani and Nikravesh 1990, for a coefficient of restitution ε near 1, and of Flores,
    Machado, Silva and Martins 2011, for any ε. v₀ is the initial speed of an impact, for which you give a typical
    value. N is never negative, and is smoothed over some steps like the effort of a `JointStop`. Friction at the place of
    contact is μ N, smooth as in `JointFriction`.

    In space, each end of the pin is a separate contact, with its own k δⁿ, and the pin may slide along the axis of the
    hole.

    V = k δⁿ⁺¹ / (n + 1).

    Args:
        i, j: names of the bodies: the hole is in i, the pin on j.
        point_i, point_j: the centres in the body frames; the origins unless given.
        clearance: c, the radius of the hole less that of the pin.
        stiffness: k.
        exponent: n, at least 1.
        restitution: ε, in (0, 1].
        impact_velocity: v₀, positive.
        law: "lankarani-nikravesh" or "flores".
        friction: μ; none unless given.
        velocity: v_t, the sliding velocity below which friction is less; see `JointFriction`.
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

    i: str = eqx.field(static=True)
    j: str = eqx.field(static=True)
    point_i: Array | None = real((None,), optional=True, default=None)
    point_j: Array | None = real((None,), optional=True, default=None)
    clearance: Array = real(default=None, kw_only=True)
    stiffness: Array = real(default=None, kw_only=True)
    exponent: Array = real(default=1.5, kw_only=True)
    restitution: Array = real(default=1.0, kw_only=True)
    impact_velocity: Array = real(default=1.0, kw_only=True)
    law: str = eqx.field(static=True, default="lankarani-nikravesh", kw_only=True)
    friction: Array | None = real(optional=True, default=None, kw_only=True)
    velocity: Array | None = real(optional=True, default=None, kw_only=True)
    radius: Array | None = real(optional=True, default=None, kw_only=True)
    length: Array | None = real(optional=True, default=None, kw_only=True)
    axis_i: Array | None = real((3,), optional=True, default=None, kw_only=True)
    axis_j: Array | None = real((3,), optional=True, default=None, kw_only=True)
    step: Array | None = computed_field()
    touching = True

    @property
    def damping(self):
        """The coefficient d of the penetration rate δ̇ in the contact force."""
        if self.law == "flores":
            return 8 * (1 - self.restitution) / (5 * self.restitution * self.impact_velocity)
        return 3 * (1 - self.restitution**2) / (4 * self.impact_velocity)

    def _contacts(self, state):
        """Return (place on body j, unit normal, δ) of each end of the pin; in the plane there is one end."""
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
            apart = j.point(end) - hole
            if axis is not None:
                apart = apart - (axis @ apart) * axis
            distance, normal = length_and_direction(apart)
            found.append((end, normal, distance - self.clearance))
        return found

    def _forces(self, state):
        """Return pairs of the place of a contact and the force on body j there, both in the ground frame."""
        i, j = state.poses[self.i], state.poses[self.j]
        found = []
        for end, normal, depth in self._contacts(state):
            place = j.point(end)
            if self.radius is not None:
                place = place + self.radius * normal
            speeds = [
                pose.velocity(pose.components(place - pose.r), state.velocities[body])
                for body, pose in ((self.j, j), (self.i, i))
            ]
            apart = speeds[0] - speeds[1]
            rate = normal @ apart
            pressure = contact_force(depth, rate, self.stiffness, self.exponent, self.damping, step=self.step)
            force = -pressure * normal
            if self.friction is not None:
                sliding = apart - rate * normal
                force = force - pressure * friction_by_speed(sliding, self.velocity, self.friction)
            found.append((place, force))
        return found

    def generalized(self, state):
        """Return the generalized force (m,) of all contacts on the two bodies."""
        i, j = state.poses[self.i], state.poses[self.j]
        total = jnp.zeros_like(state.v)
        for place, force in self._forces(state):
            on_i = i.force_at(i.components(place - i.r), -force)
            total = total + opposite(state, self.i, on_i, self.j, j.force_at(j.components(place - j.r), force))
        return total

    def potential(self, state):
        """Return the potential energy Σ k δⁿ⁺¹ / (n + 1) over the contacts with δ > 0."""
        return sum(contact_energy(depth, self.stiffness, self.exponent) for *_, depth in self._contacts(state))

    def measures(self, state):
        """Return the force on body j in the ground frame, and the largest δ as the length."""
        force = sum(force for _, force in self._forces(state))
        return {"force": force, "length": jnp.stack([depth for *_, depth in self._contacts(state)]).max()}

    def check(self, dimension):
        """Raise `ValueError` for arguments that are missing, have a wrong sign, or belong to the other dimension."""
        for name in ("clearance", "stiffness"):
            require(getattr(self, name) is not None, f"{name} is missing")
        super().check(dimension)
        check_positive(self, "restitution", "impact_velocity", "velocity", "radius", "length")
        check_contact(self)
        check_not_negative(self, "clearance", "friction")
        more = is_concrete(self.restitution) and self.restitution > 1
        require(not more, f"restitution must not be above 1, got {self.restitution}")
        known = ("lankarani-nikravesh", "flores")
        require(self.law in known, f"law must be one of {', '.join(map(repr, known))}, got {self.law!r}")
        require(self.friction is None or self.velocity is not None, "velocity is missing, for the friction")
        require(self.friction is None or self.radius is not None, "radius is missing, for the friction")
        require(dimension == 2 or self.length is not None, "length of the pin is missing")
        flat = self.length is None and self.axis_i is None and self.axis_j is None
        require(dimension == 3 or flat, "length and axes have no place in the plane")


def _unit(axis: Any):
    """Return an axis scaled to length 1; z for None."""
    axis = jnp.array([0.0, 0.0, 1.0]) if axis is None else jnp.asarray(axis)
    return axis / jnp.sqrt(axis @ axis)
