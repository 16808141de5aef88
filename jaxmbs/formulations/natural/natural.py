"""Equations of motion in natural coordinates; García de Jalón and Bayo 1994, Issa and Arczewski 1998, section 3."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxmbs.formulations.augmented import AbstractFormulation, CartesianEquations
from jaxmbs.formulations.dense import AbstractDenseEquations
from jaxmbs.formulations.natural.coordinates import NaturalCoordinates
from jaxmbs.formulations.natural.parts import JOINTS_ONLY, ChosenBasics, FixedVector
from jaxmbs.formulations.reactive import loads_of
from jaxmbs.formulations.view import AbstractUnknowns
from jaxmbs.numerics.arrays import NOT_TRACEABLE
from jaxmbs.system.mechanism import Mechanism


def _fixed_vectors(chosen: Mapping[str, tuple[str, ArrayLike]] | tuple[FixedVector, ...]) -> tuple[FixedVector, ...]:
    """Return a mapping of names to (body, coordinates) as a hashable tuple.

    Raises:
        ValueError: a value is not a body and numbers, or the numbers are traced.
    """
    if not isinstance(chosen, Mapping):
        return tuple(chosen)
    found = []
    for name, value in chosen.items():
        try:
            body, at = value
            found.append(FixedVector(name, body, tuple(np.asarray(at, float).tolist())))
        except (*NOT_TRACEABLE, TypeError, ValueError):
            raise ValueError(
                f"Natural: {name!r} must be a body and numbers that are known outside jit and grad, such as "
                f"('rod', (1.0, 0.0)), got {value!r}"
            ) from None
    return tuple(found)


class Natural(AbstractFormulation):
    """Natural coordinates: basic points and unit vectors in the ground frame, M ẍ = Q + Ψ_xᵀλ with Ψ(x, t) = 0.

    M is constant; see `jaxmbs.formulations.natural.coordinates`. Points and vectors at a joint are shared by the bodies
    that it connects; you may choose others in addition.

    Names of x are "A.x" for the point at joint A, "A.axis.x" for the unit vector there, "rod.origin.x" and "rod.x.x", …
    for points and vectors of a single body, "tip.x" for a chosen point; then extra coordinates as in
    `Mechanism.coordinates`.

    Args:
        own_vectors: names of planar bodies that get a unit vector of their own. The direction of a planar body with two
            or more points is given by two of them; a body whose points all coincide needs a vector of its own.
        points: further basic points by name, such as `{"tip": ("rod", (1.0, 0.0))}`: the body and the coordinates in its
            frame.
        vectors: further unit vectors by name: the body and a direction of any length in its frame. Coordinates of points
            and vectors must be known numbers.

    Examples:
        >>> start = {"bob": (1, 0, jnp.pi / 2)}
        >>> formulation = mbs.Natural(own_vectors=("bob",))
        >>> run = mbs.simulate(pendulum, jnp.array([0.0, 0.5]), start, step=0.01, formulation=formulation)
        >>> print(run.position("bob.phi").round(3))
        [1.571 0.402]
        >>> mbs.Natural(points={"tip": ("bob", (0, -0.5))}).of(pendulum).names  # the pin is at rest
        ('tip.x', 'tip.y')
    """

    own_vectors: tuple[str, ...] = eqx.field(static=True, default=(), converter=tuple)
    points: tuple[FixedVector, ...] = eqx.field(static=True, default=(), converter=_fixed_vectors, kw_only=True)
    vectors: tuple[FixedVector, ...] = eqx.field(static=True, default=(), converter=_fixed_vectors, kw_only=True)
    takes_any_velocity: ClassVar[bool] = False
    takes_kinematics: ClassVar[bool] = False

    @property
    def chosen(self) -> ChosenBasics:
        """All choices of points and vectors as one object."""
        return ChosenBasics(self.own_vectors, self.points, self.vectors)

    def equations(self, mech):
        """Return the equations in x, followed by the attitudes of the bodies."""
        return NaturalEquations(mech, self.chosen)

    def unknowns(self, mech):
        """Return the unknowns x and ẋ."""
        return NaturalUnknowns(self.chosen)


@dataclasses.dataclass(frozen=True)
class NaturalUnknowns(AbstractUnknowns):
    """The unknowns x and ẋ of `Natural`. Attitudes of the bodies, with their turns, are chosen nearest to `near`."""

    chosen: ChosenBasics

    def names(self, mech):
        """Return the names of x, such as "A.x"."""
        return NaturalCoordinates(mech, self.chosen).names

    def velocity_names(self, mech):
        """Return the names of ẋ, which are those of x."""
        return self.names(mech)

    def coordinates(self, mech, q, t):
        """Return x of a configuration q of the bodies."""
        return NaturalCoordinates(mech, self.chosen).of_bodies(q)

    def velocities(self, mech, q, v, t):
        """Return ẋ of velocities v of the bodies."""
        return NaturalCoordinates(mech, self.chosen).rates_of_bodies(q, v)

    def configuration(self, mech, x, t, near):
        """Return q of the bodies for x, with attitudes nearest to those of `near`."""
        space = NaturalCoordinates(mech, self.chosen)
        return space.bodies_at(space.with_attitudes(x, near))

    def equations_at(self, mech, x, t, near):
        """Return the equations, and x followed by the attitudes nearest to those of `near`."""
        equations = NaturalEquations(mech, self.chosen)
        return equations, equations.space.with_attitudes(x, near)


class NaturalEquations(AbstractDenseEquations):
    """The equations of `Natural`. A configuration has the attitudes of the bodies after x; see `NaturalCoordinates`."""

    mech: Mechanism
    chosen: ChosenBasics = eqx.field(static=True, default=JOINTS_ONLY)
    own_coordinates: ClassVar[bool] = True

    @property
    def space(self):
        """Space of x and the attitudes."""
        return NaturalCoordinates(self.mech, self.chosen)

    def mass(self, q, t):
        """Return M of x, constant except for rotors."""
        return self.space.mass(q)

    def force(self, q, v, t):
        """Return the applied forces, conjugate to ẋ = v."""
        return self.space.force(q, v, t)

    def residual(self, q, t):
        """Return Ψ."""
        return self.space.residual(q, t)

    @property
    def supporting(self):
        """Indices of the rows of Ψ whose `Condition` supports M; weights: mean mass for lengths, else mean inertia."""
        space = self.space
        chosen = [np.full(c.rows, c.supporting) for c in space.conditions]
        places = np.flatnonzero(np.concatenate(chosen)) if chosen else np.zeros(0, int)
        moments = list(space.moments.values())
        mass = sum(w[0, 0] for w in moments) / len(moments)
        inertia = sum(jnp.trace(w[1:, 1:]) for w in moments) / len(moments)
        inertia, mass = jnp.where(inertia > 0, inertia, mass), jnp.where(mass > 0, mass, inertia)
        rows = [inertia if c.angular else mass for c in space.conditions if c.supporting for _ in range(c.rows)]
        return places, jnp.stack(rows) if rows else mass

    def coordinates(self, q, t):
        """Return x with attitudes of a configuration of the bodies."""
        return self.space.with_attitudes(self.space.of_bodies(q), q)

    def configuration(self, q, t):
        """Return q of the bodies for x with attitudes."""
        return self.space.bodies_at(q)

    def from_bodies(self, q, v, t):
        """Return x with attitudes, and ẋ, of a state of the bodies."""
        return self.coordinates(q, t), self.space.rates_of_bodies(q, v)

    def to_bodies(self, q, v, a, t):
        """Return q, v and v̇ of the bodies for x with attitudes, ẋ = v and ẍ = a."""
        space = self.space
        velocities, accelerations = jax.jvp(space.body_velocities, (q, v), (space.rate(q, v), a))
        return space.bodies_at(q), velocities, accelerations

    def loads(self, joints, q, v, t, a, multipliers):
        """Return the loads of the named joints on their bodies j."""
        at, speeds, _ = self.to_bodies(q, v, a, t)
        return loads_of(self.mech, joints, at, speeds, t, self.multipliers(q, v, t, a))

    def multipliers(self, q, v, t, a=None):
        """Return λ of Φ, not of Ψ, from the accelerations of the bodies."""
        a = self.accelerations(q, v, t)[0] if a is None else a
        return CartesianEquations(self.mech).balance_multipliers(*self.to_bodies(q, v, a, t), t=t)
