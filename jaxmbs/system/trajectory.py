"""The motion of a mechanism at a row of times."""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxmbs.system.equations import Energy
from jaxmbs.system.layout import Layout


class Trajectory(eqx.Module):
    """Configurations, velocities and accelerations in time, with named access.

    Leading axes are free: a batch made by `vmap` has one axis more everywhere.

    Attributes:
        t (T,), q (T, n), v, a (T, m), status (T,): see `Status`; where it is not 0, q, v and a are the last good ones.
        multipliers (T, m): λ with M v̇ = Q + Φ_qᵀλ, rows as in Φ; those of drivers are the driving forces and torques.
            None in a motion that was not computed from forces.
        energy: kinetic and potential, each (T,); None like the multipliers.
    """

    t: Float[Array, "*batch T"]
    q: Float[Array, "*batch T n"]
    v: Float[Array, "*batch T k"]
    a: Float[Array, "*batch T k"]
    status: Int[Array, "*batch T"]
    layout: Layout = eqx.field(static=True)
    multipliers: Float[Array, "*batch T m"] | None = None
    energy: Energy | None = None

    def point(self, body: str, s=None) -> Float[Array, "*batch T d"]:
        """Positions of the point `s` of a body (its origin if not given), in the ground frame."""
        return self._along(lambda q, v, a: self._position(body, s, q))

    def point_velocity(self, body: str, s=None) -> Float[Array, "*batch T d"]:
        """Velocities of the point `s` of a body."""
        return self._along(lambda q, v, a: self._velocity(body, s, q, v))

    def point_acceleration(self, body: str, s=None) -> Float[Array, "*batch T d"]:
        """Accelerations of the point `s` of a body."""
        velocity = partial(self._velocity, body, s)
        return self._along(lambda q, v, a: jax.jvp(velocity, (q, v), (self.layout.rate(q, v), a))[1])

    def rotation(self, body: str) -> Float[Array, "*batch T d d"]:
        """Rotation matrices of a body, whose columns are its axes in the ground frame."""
        axes = np.eye(self.layout.dimension)
        turned = lambda q: jnp.stack(
            [self.layout.pose(body, q).direction(jnp.asarray(e, q.dtype)) for e in axes], axis=1
        )
        return jnp.vectorize(turned, signature="(n)->(d,d)")(self.q)

    def position(self, coordinate: str) -> Float[Array, "*batch T"]:
        """A coordinate by name, such as "crank.phi"."""
        return self.q[..., self.layout.index(coordinate)]

    def velocity(self, coordinate: str) -> Float[Array, "*batch T"]:
        """The rate of a coordinate, or another velocity by name, such as "rod.wx"."""
        return self.v[..., self.layout.velocity_index(coordinate)]

    def acceleration(self, coordinate: str) -> Float[Array, "*batch T"]:
        """The second derivative of a coordinate, or the rate of another velocity."""
        return self.a[..., self.layout.velocity_index(coordinate)]

    def _position(self, body, s, q):
        return self.layout.point(body, s, q)

    def _velocity(self, body, s, q, v):
        return jax.jvp(partial(self._position, body, s), (q,), (self.layout.rate(q, v),))[1]

    def _along(self, of_state):
        return jnp.vectorize(of_state, signature="(n),(k),(k)->(d)")(self.q, self.v, self.a)
