"""Contacts of two bodies: the force at each place where they touch, with restitution and friction."""

from __future__ import annotations

import abc
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxmbs.element import check_not_negative, check_positive, require
from jaxmbs.forces.joint.contact import AbstractContactForce, check_contact, contact_energy, contact_force
from jaxmbs.forces.joint.friction import friction_by_speed
from jaxmbs.forces.state import State, opposite
from jaxmbs.forces.values import computed_field
from jaxmbs.numerics.arrays import is_concrete, real

# Names of the laws for the damping that a coefficient of restitution needs.
LAWS = ("lankarani-nikravesh", "flores")


class Touch(NamedTuple):
    """A place where two bodies may touch.

    Attributes:
        place: (dimension,), in the ground frame.
        normal: (dimension,), unit vector in the ground frame; the force on body j is against it.
        depth: δ, the penetration; negative if the bodies are apart. δ̇ is the velocity of j relative to i along `normal`.
        is_active: False outside of the parts of the surfaces that are meant to touch, where no force acts.
        factor: by which the stiffness is multiplied here.

    Examples:
        >>> class Floor(mbs.forces.AbstractBodyContact):
        ...     def contacts(self, state):
        ...         place = state[self.j].point(self.point_j)
        ...         return [mbs.forces.Touch(place, jnp.array([0.0, -1.0]), -place[1])]
        >>> floor = Floor("ground", "a", None, (0, 0.5), stiffness=1e6, exponent=1.0)
        >>> mech = mbs.Mechanism({"a": planar.Body()}, forces={"floor": floor})
        >>> print(mbs.generalized_force(mech, {"a": (0, -0.501, 0)}, jnp.zeros(3)).round(6))
        [   0. 1000.    0.]
    """

    place: Float[Array, " d"]
    normal: Float[Array, " d"]
    depth: Float[Array, ""]
    is_active: Bool[Array, ""] | bool = True
    factor: Float[Array, ""] | float = 1


class AbstractBodyContact(AbstractContactForce):
    """Contact of two bodies with the normal force N = k δⁿ (1 + d δ̇), never negative, and friction μ N.

    k is the stiffness, n the exponent, δ the depth, and d a damping coefficient that follows from the restitution. A
    subclass defines `contacts`.

    Args:
        i, j, point_i, point_j, stiffness, exponent, restitution, impact_velocity, law, friction, velocity: see
            `ClearanceRevolute`.

    Examples:
        >>> issubclass(mbs.ClearanceRevolute, mbs.forces.AbstractBodyContact)
        True
    """

    i: str = eqx.field(static=True)
    j: str = eqx.field(static=True)
    point_i: Array | None = real((None,), optional=True, default=None)
    point_j: Array | None = real((None,), optional=True, default=None)
    stiffness: Array = real(default=None, kw_only=True)
    exponent: Array = real(default=1.5, kw_only=True)
    restitution: Array = real(default=1.0, kw_only=True)
    impact_velocity: Array = real(default=1.0, kw_only=True)
    law: str = eqx.field(static=True, default=LAWS[0], kw_only=True)
    friction: Array | None = real(optional=True, default=None, kw_only=True)
    velocity: Array | None = real(optional=True, default=None, kw_only=True)
    step: Array | None = computed_field()
    touching: ClassVar[bool] = True

    @abc.abstractmethod
    def contacts(self, state: State) -> list[Touch]:
        """Return the places where the bodies may touch in a `state`."""

    @property
    def damping(self):
        """The coefficient d of the penetration rate δ̇ in the contact force."""
        if self.law == "flores":
            return 8 * (1 - self.restitution) / (5 * self.restitution * self.impact_velocity)
        return 3 * (1 - self.restitution**2) / (4 * self.impact_velocity)

    def _force(self, state, touch):
        """Return the force on body j, in the ground frame, at one place."""
        speeds = [
            pose.velocity(pose.components(touch.place - pose.r), state.velocities[body])
            for body, pose in ((self.j, state.poses[self.j]), (self.i, state.poses[self.i]))
        ]
        relative = speeds[0] - speeds[1]
        rate = touch.normal @ relative
        stiffness = touch.factor * self.stiffness
        normal_force = contact_force(touch.depth, rate, stiffness, self.exponent, self.damping, step=self.step)
        normal_force = jnp.where(touch.is_active, normal_force, 0)
        force = -normal_force * touch.normal
        if self.friction is not None:
            sliding = relative - rate * touch.normal
            force = force - normal_force * friction_by_speed(sliding, self.velocity, self.friction)
        return force

    def generalized(self, state):
        """Return the generalized force (m,) of all contacts on the two bodies."""
        i, j = state.poses[self.i], state.poses[self.j]
        total = jnp.zeros_like(state.v)
        for touch in self.contacts(state):
            place, force = touch.place, self._force(state, touch)
            on_i = i.force_at(i.components(place - i.r), -force)
            total = total + opposite(state, self.i, on_i, self.j, j.force_at(j.components(place - j.r), force))
        return total

    def potential(self, state):
        """Return the potential energy Σ k δⁿ⁺¹ / (n + 1) over the contacts with δ > 0."""
        return sum(
            jnp.where(touch.is_active, contact_energy(touch.depth, touch.factor * self.stiffness, self.exponent), 0)
            for touch in self.contacts(state)
        )

    def measures(self, state):
        """Return the force on body j in the ground frame, and as "length" the largest δ; −|δ| of places not active."""
        found = self.contacts(state)
        force = sum(self._force(state, touch) for touch in found)
        depths = [jnp.where(touch.is_active, touch.depth, -jnp.abs(touch.depth)) for touch in found]
        return {"force": force, "length": jnp.stack(depths).max()}

    def check(self, dimension):
        """Raise `ValueError` for arguments that are missing or have a wrong sign."""
        require(self.stiffness is not None, "stiffness is missing")
        super().check(dimension)
        check_positive(self, "restitution", "impact_velocity", "velocity")
        check_not_negative(self, "friction")
        more = is_concrete(self.restitution) and self.restitution > 1
        require(not more, f"restitution must not be above 1, got {self.restitution}")
        check_contact(self)
        require(self.law in LAWS, f"law must be one of {', '.join(map(repr, LAWS))}, got {self.law!r}")
        require(self.friction is None or self.velocity is not None, "velocity is missing: friction needs it")
