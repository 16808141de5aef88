"""Weight, and given forces and torques."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from jaxmbs.element import GROUND, require, warn_renamed
from jaxmbs.forces.force import AbstractForce
from jaxmbs.forces.state import opposite
from jaxmbs.forces.values import OfState, as_function, check_value, evaluate, value_field
from jaxmbs.numerics.arrays import as_pytree, real


class Gravity(AbstractForce):
    """Weight of every body, at its centre of mass r_c: V = −Σ m gᵀ r_c.

    Args:
        acceleration: g in the ground frame, (2,) in the plane or (3,) in space.

    Examples:
        >>> mech = mbs.Mechanism({"a": planar.Body(mass=2.0)}, forces={"gravity": mbs.Gravity((0, -9.81))})
        >>> print(mbs.generalized_force(mech, {"a": (0, 0, 0)}, jnp.zeros(3)))
        [  0.   -19.62   0.  ]
    """

    acceleration: Array = real((None,))

    @property
    def uniform(self):
        """g, which every mass gets as acceleration."""
        return self.acceleration

    def generalized(self, state):
        """Return the weights m g at the centres of mass of all bodies as a generalized force (m,)."""
        weight = lambda name, body: state.poses[name].force_at(body.com, body.mass * self.acceleration)
        return state.generalized({name: weight(name, body) for name, body in state.bodies.items()})

    def potential(self, state):
        """Return the potential energy V = −Σ m gᵀ r_c."""
        lifted = lambda name, body: -body.mass * (self.acceleration @ body.centre_of_mass(state.poses[name]))
        return sum(lifted(name, body) for name, body in state.bodies.items())

    def check(self, dimension):
        """Raise `ValueError` unless the acceleration has 2 components in the plane, 3 in space."""
        super().check(dimension)
        got = jnp.shape(self.acceleration)
        require(got == (dimension,), f"acceleration must have shape ({dimension},), got {got}")


class Torque(AbstractForce):
    """A torque on a body; the opposite one acts on the body that bears it.

    Args:
        body: name of the body.
        value: a number in the plane, in space a vector in the ground frame; or a motion, or a function: f(state) of
            a `State` is preferred, f(t, q, v) works too.
        reaction: name of the body that bears the opposite torque; the ground unless given.
        follower: True for a vector that turns with the body, given in its frame.

    Examples:
        >>> mech = mbs.Mechanism({"a": planar.Body()}, forces={"motor": mbs.Torque("a", 3.0)})
        >>> print(mbs.generalized_force(mech, {"a": (0, 0, 0)}, jnp.zeros(3)))
        [0. 0. 3.]
    """

    body: str = eqx.field(static=True)
    value: Any = value_field()
    reaction: str = eqx.field(static=True, default=GROUND)
    follower: bool = eqx.field(static=True, default=False, kw_only=True)

    shapes: ClassVar[dict[int, tuple[int, ...]]] = {2: (), 3: (3,)}

    def generalized(self, state):
        """Return the generalized force (m,) of the torque on the body and its opposite on `reaction`."""
        on, other, torque = state.poses[self.body], state.poses[self.reaction], self._torque(state)
        return opposite(state, self.reaction, other.torque(-torque), self.body, on.torque(torque))

    def _torque(self, state):
        """Return the torque on the body: a number in the plane, a vector of the ground frame in space."""
        torque = evaluate(self.value, state, self.shapes[state.bodies[self.body].dimension], "value")
        return state.poses[self.body].direction(torque) if self.follower and torque.ndim else torque

    def measures(self, state):
        """Return the torque on the body, in the ground frame."""
        return {"torque": self._torque(state)}

    def check(self, dimension):
        """Raise `ValueError` for a torque on the ground, or a value of a wrong shape for this dimension."""
        require(self.body != GROUND, "a torque on the ground moves nothing")
        super().check(dimension)
        check_value(self.value, self.shapes[dimension], "value")


class PointForce(AbstractForce):
    """A force F at a point s of a body: Q = (F, A s × F), in space (F, s × AᵀF), with the rotation A of the body.

    Args:
        body: name of the body.
        point: s in the body frame, (2,) in the plane or (3,) in space.
        value: F: a constant vector, a function that returns a vector, or a tuple of components, each of them a number, a
            motion or a function. A function is f(state) of a `State`; f(t, q, v) works too.
        follower: True for an F that turns with the body, given in its frame; else F is a vector in the ground frame.

    Examples:
        >>> mech = mbs.Mechanism({"a": planar.Body()}, forces={"push": mbs.PointForce("a", (1, 0), (0.0, 5.0))})
        >>> print(mbs.generalized_force(mech, {"a": (0, 0, jnp.pi)}, jnp.zeros(3)).round(6))
        [ 0.  5. -5.]
    """

    body: str = eqx.field(static=True)
    point: Array = real((None,))
    value: Any = value_field()
    follower: bool = eqx.field(static=True, default=False, kw_only=True)

    def generalized(self, state):
        """Return the generalized force (m,) of F at the point."""
        return state.generalized({self.body: state.poses[self.body].force_at(self.point, self._force(state))})

    def _force(self, state):
        """Return the force F on the body in the ground frame."""
        force = evaluate(self.value, state, self.point.shape, "value")
        return state.poses[self.body].direction(force) if self.follower else force

    def measures(self, state):
        """Return the force F (d,) in the ground frame."""
        return {"force": self._force(state)}

    def check(self, dimension):
        """Raise `ValueError` for a point or a value of a wrong shape for this dimension."""
        super().check(dimension)
        check_value(self.value, (dimension,), "value")


class OfCoordinates(eqx.Module):
    """A function f(q, v, t) as a function of the `State`."""

    f: Callable

    def __call__(self, state):
        """Return f(q, v, t) for the q, v and t of the state."""
        return self.f(state.q, state.v, state.t)


def _of_state(f):
    """Return f as a function of the state. Only `UserForce` also takes f(q, v, t), which is deprecated."""
    f = as_function(f)
    if not callable(f) or isinstance(f, OfState):
        return f
    warn_renamed("UserForce(f) with f(q, v, t)", "f(state), with state.q, state.v and state.t")
    return OfState(OfCoordinates(f))


class UserForce(AbstractForce):
    """An arbitrary generalized force: Q = f(state), conjugate to the velocities v (its power is Qᵀv).

    Numbers and JAX arrays that `f` closes over may be traced, and are differentiated; NumPy arrays are constants.

    Args:
        f: a function f(state) of a `State` that returns Q (m,). A function f(q, v, t) works, but is deprecated.
        potential_energy: V(q), if the force has a potential; it is used for the energy only, the force is not derived
            from it.

    Examples:
        >>> drag = mbs.UserForce(lambda state: -0.5 * state.v)
        >>> mech = mbs.Mechanism({"a": planar.Body()}, forces={"drag": drag})
        >>> print(mbs.generalized_force(mech, {"a": (0, 0, 0)}, jnp.array([2.0, 0, 4])))
        [-1.  0. -2.]
    """

    f: Callable = eqx.field(converter=_of_state)
    potential_energy: Callable | None = eqx.field(default=None, converter=lambda f: as_pytree(f) if callable(f) else f)

    def generalized(self, state):
        """Return f(state) (m,), or raise `ValueError` if it has another shape than v."""
        value = jnp.asarray(self.f(state), state.q.dtype)
        require(value.shape == state.v.shape, f"f must give shape {state.v.shape}, got {value.shape}")
        return value

    def potential(self, state):
        """Return the potential energy V(q); zero if no potential energy was given."""
        energy = 0.0 if self.potential_energy is None else self.potential_energy(state.q)
        return jnp.asarray(energy, state.q.dtype)

    def check(self, dimension):
        """Raise `ValueError` if f is not a function, or a field has a wrong shape."""
        require(callable(self.f), f"f must be a function of the state, got {self.f!r}")
        super().check(dimension)
