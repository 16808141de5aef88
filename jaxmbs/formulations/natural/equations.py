"""Equations of motion in natural coordinates; García de Jalón and Bayo 1994, Issa and Arczewski 1998, section 3."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.formulations.augmented import AbstractFormulation, CartesianEquations
from jaxmbs.formulations.dense import AbstractDenseEquations
from jaxmbs.formulations.natural.coordinates import NaturalCoordinates
from jaxmbs.formulations.natural.view import NaturalView
from jaxmbs.formulations.reactive import loads_of
from jaxmbs.system.mechanism import Mechanism


class Natural(AbstractFormulation):
    """The coordinates x are basic points and unit vectors at the joints, in the ground frame; the bodies that a joint
    connects share its points and vectors: M ẍ = Q + Ψ_xᵀλ with Ψ(x, t) = 0 and a constant M; see
    `jaxmbs.formulations.natural.coordinates`.

    Args:
        own_vectors: names of planar bodies that get a unit vector of their own. The direction of a planar body with two
            or more pins is given by two of them; a body whose pins all coincide needs a vector of its own.

    Examples:
        >>> start = {"bob": (1, 0, jnp.pi / 2)}
        >>> formulation = mbs.Natural(own_vectors=("bob",))
        >>> run = mbs.simulate(pendulum, jnp.array([0.0, 0.5]), start, step=0.01, formulation=formulation)
        >>> print(run.position("bob.phi").round(3))
        [1.571 0.402]
    """

    own_vectors: tuple[str, ...] = eqx.field(static=True, default=(), converter=tuple)

    def equations(self, mech):
        return NaturalEquations(mech, self.own_vectors)

    def of(self, mech: Mechanism) -> NaturalView:
        """`mech` in these coordinates: names, x(q), ẋ(v), Ψ and Ψ_x."""
        return NaturalView(mech, self.own_vectors)


class NaturalEquations(AbstractDenseEquations):
    """The equations of `Natural`. A configuration has the attitudes of the bodies behind x; see `NaturalCoordinates`."""

    mech: Mechanism
    own_vectors: tuple[str, ...] = eqx.field(static=True, default=())
    own_coordinates: ClassVar[bool] = True

    @property
    def space(self):
        return NaturalCoordinates(self.mech, self.own_vectors)

    def mass(self, q, t):
        return self.space.mass(q)

    def force(self, q, v, t):
        return self.space.force(q, v, t)

    def residual(self, q, t):
        return self.space.residual(q, t)

    @property
    def definite(self):
        return not self.mech.light

    @property
    def supporting(self):
        chosen = [np.full(c.rows, c.supporting) for c in self.space.conditions]
        return np.flatnonzero(np.concatenate(chosen)) if chosen else np.zeros(0, int)

    @property
    def weight(self):
        """A mass for rows that are lengths, a moment of inertia for those that compare directions."""
        space = self.space
        moments = list(space.moments.values())
        mass = sum(w[0, 0] for w in moments) / len(moments)
        inertia = sum(jnp.trace(w[1:, 1:]) for w in moments) / len(moments)
        inertia, mass = jnp.where(inertia > 0, inertia, mass), jnp.where(mass > 0, mass, inertia)
        rows = [inertia if c.angular else mass for c in space.conditions if c.supporting for _ in range(c.rows)]
        return jnp.stack(rows)[None] if rows else mass

    @property
    def from_allowed(self):
        return True

    def from_bodies(self, q, v, t):
        space = self.space
        return space.with_attitudes(space.at(q), q), space.rates(q, v)

    def to_bodies(self, q, v, a, t):
        space = self.space
        velocities, accelerations = jax.jvp(space.velocities, (q, v), (space.rate(q, v), a))
        return space.bodies_at(q), velocities, accelerations

    def loads(self, joints, q, v, t, a, multipliers):
        at, speeds, _ = self.to_bodies(q, v, a, t)
        return loads_of(self.mech, joints, at, speeds, t, self.multipliers(q, v, t, a))

    def multipliers(self, q, v, t, a=None):
        a = self.accelerations(q, v, t)[0] if a is None else a
        return CartesianEquations(self.mech).multipliers_of(*self.to_bodies(q, v, a, t), t=t)
