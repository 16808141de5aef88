"""Weight, and given forces and torques."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from jaxmbs.element import GROUND, require
from jaxmbs.forces.force import AbstractForce
from jaxmbs.forces.state import opposite
from jaxmbs.forces.values import OfState, as_function, check_value, evaluate, value_field
from jaxmbs.numerics.arrays import as_pytree, real


class Gravity(AbstractForce):
    """Weight of every body: V = −Σ m gᵀ r_c.

    Args:
        acceleration: g in the ground frame, (2,) in the plane or (3,) in space.
    """

    acceleration: Array = real((None,))

    @property
    def uniform(self):
        return self.acceleration

    def generalized(self, state):
        weight = lambda name, body: state.poses[name].force_at(body.com, body.mass * self.acceleration)
        return state.generalized({name: weight(name, body) for name, body in state.bodies.items()})

    def potential(self, state):
        lifted = lambda name, body: -body.mass * (self.acceleration @ body.centre_of_mass(state.poses[name]))
        return sum(lifted(name, body) for name, body in state.bodies.items())

    def measures(self, state):
        return {}

    def check(self, dimension):
        super().check(dimension)
        got = jnp.shape(self.acceleration)
        require(got == (dimension,), f"acceleration must have shape ({dimension},), got {got}")


class Torque(AbstractForce):
    """A torque on a body.

    Args:
        body: its name.
        value: a number in the plane, in space a vector in the ground frame; or a motion, or f(state).
        reaction: name of the body that bears the opposite torque; the ground unless given.
        follower: whether the vector turns with the body; in the ground frame otherwise.
    """

    body: str = eqx.field(static=True)
    value: Any = value_field()
    reaction: str = eqx.field(static=True, default=GROUND)
    follower: bool = eqx.field(static=True, default=False, kw_only=True)

    shapes: ClassVar[dict[int, tuple[int, ...]]] = {2: (), 3: (3,)}

    def generalized(self, state):
        on, other, torque = state.poses[self.body], state.poses[self.reaction], self._torque(state)
        return opposite(state, self.reaction, other.torque(-torque), self.body, on.torque(torque))

    def _torque(self, state):
        torque = evaluate(self.value, state, self.shapes[state.bodies[self.body].dimension], "value")
        return state.poses[self.body].direction(torque) if self.follower and torque.ndim else torque

    def potential(self, state):
        return jnp.zeros((), state.q.dtype)

    def measures(self, state):
        return {"torque": self._torque(state)}

    def check(self, dimension):
        require(self.body != GROUND, "a torque on the ground moves nothing")
        super().check(dimension)
        check_value(self.value, self.shapes[dimension], "value")


class PointForce(AbstractForce):
    """A force at a point of a body.

    Args:
        body: its name.
        point: in the body frame.
        value: a vector, constant or f(state), or components that are numbers, motions or such functions.
        follower: whether the vector turns with the body; in the ground frame otherwise.
    """

    body: str = eqx.field(static=True)
    point: Array = real((None,))
    value: Any = value_field()
    follower: bool = eqx.field(static=True, default=False, kw_only=True)

    def generalized(self, state):
        return state.generalized({self.body: state.poses[self.body].force_at(self.point, self._force(state))})

    def _force(self, state):
        force = evaluate(self.value, state, self.point.shape, "value")
        return state.poses[self.body].direction(force) if self.follower else force

    def potential(self, state):
        return jnp.zeros((), state.q.dtype)

    def measures(self, state):
        return {"force": self._force(state)}

    def check(self, dimension):
        super().check(dimension)
        check_value(self.value, (dimension,), "value")


class UserForce(AbstractForce):
    """Any generalized force: `f(state)` gives Q (m,), conjugate to the velocities v. Numbers and arrays of JAX
    that `f` closes over may be traced, and are differentiated; arrays of NumPy are constants.

    Args:
        f: the function, of the `State` or of (q, v, t).
        potential_energy: V(q), if the force has a potential; it counts in the energy only.
    """

    f: Callable = eqx.field(converter=as_function)
    potential_energy: Callable | None = eqx.field(default=None, converter=lambda f: as_pytree(f) if callable(f) else f)

    def generalized(self, state):
        value = self.f(state) if isinstance(self.f, OfState) else self.f(state.q, state.v, state.t)
        value = jnp.asarray(value, state.q.dtype)
        require(value.shape == state.v.shape, f"f must give shape {state.v.shape}, got {value.shape}")
        return value

    def potential(self, state):
        energy = 0.0 if self.potential_energy is None else self.potential_energy(state.q)
        return jnp.asarray(energy, state.q.dtype)

    def measures(self, state):
        return {}

    def check(self, dimension):
        require(callable(self.f), f"f must be a function of the state, got {self.f!r}")
        super().check(dimension)
