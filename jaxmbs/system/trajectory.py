"""The motion of a mechanism at a row of times."""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxmbs.system.equations import Energy
from jaxmbs.system.layout import Layout


class Trajectory(eqx.Module):
    """Configurations, velocities and accelerations in time, with named access.

    Leading axes are free: a batch made by `vmap` has one axis more everywhere.

    Attributes:
        t (T,), q, v, a (T, n), status (T,): see `Status`; where it is not 0, q, v and a are the last good ones.
        multipliers (T, m): λ with M v̇ = Q + Φ_qᵀλ, rows as in Φ; those of drivers are the driving forces and torques.
            None in a motion that was not computed from forces.
        energy: kinetic and potential, each (T,); None like the multipliers.
    """

    t: Float[Array, "*batch T"]
    q: Float[Array, "*batch T n"]
    v: Float[Array, "*batch T n"]
    a: Float[Array, "*batch T n"]
    status: Int[Array, "*batch T"]
    layout: Layout = eqx.field(static=True)
    multipliers: Float[Array, "*batch T m"] | None = None
    energy: Energy | None = None

    def point(self, body: str, s=(0.0, 0.0)) -> Float[Array, "*batch T d"]:
        """Positions of the point `s` of a body, in the ground frame."""
        return self._along(lambda q, v, a: self._position(body, s, q))

    def point_velocity(self, body: str, s=(0.0, 0.0)) -> Float[Array, "*batch T d"]:
        """Velocities of the point `s` of a body."""
        return self._along(lambda q, v, a: jax.jvp(partial(self._position, body, s), (q,), (v,))[1])

    def point_acceleration(self, body: str, s=(0.0, 0.0)) -> Float[Array, "*batch T d"]:
        """Accelerations of the point `s` of a body."""
        velocity = lambda q, v: jax.jvp(partial(self._position, body, s), (q,), (v,))[1]
        return self._along(lambda q, v, a: jax.jvp(velocity, (q, v), (v, a))[1])

    def position(self, coordinate: str) -> Float[Array, "*batch T"]:
        """A coordinate by name, such as "crank.phi"."""
        return self.q[..., self.layout.index(coordinate)]

    def velocity(self, coordinate: str) -> Float[Array, "*batch T"]:
        """The rate of a coordinate."""
        return self.v[..., self.layout.index(coordinate)]

    def acceleration(self, coordinate: str) -> Float[Array, "*batch T"]:
        """The second derivative of a coordinate."""
        return self.a[..., self.layout.index(coordinate)]

    def _position(self, body, s, q):
        return self.layout.pose(body, q).point(jnp.asarray(s, q.dtype))

    def _along(self, of_state):
        return jnp.vectorize(of_state, signature="(n),(n),(n)->(d)")(self.q, self.v, self.a)
