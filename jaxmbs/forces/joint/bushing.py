"""Elastic mounts between two bodies, in place of a joint."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxmbs.element import require
from jaxmbs.forces.force import AbstractForce
from jaxmbs.forces.springs import points_of
from jaxmbs.forces.state import opposite
from jaxmbs.numerics import rotation
from jaxmbs.numerics.arrays import is_concrete, real


class Bushing(AbstractForce):
    """A compliant mount that allows two bodies small relative motions: Q = −(∂ẋ/∂v)ᵀ (K x + C ẋ), V = ½ xᵀK x.

    x are the displacements of point_j from point_i along the axes of a frame on body i, then the rotation of body j
    relative to body i: in space the Euler vector (axis times angle, below π) along these axes, in the plane the angle.
    For small rotations K x + C ẋ is the wrench at the mount, with K and C its matrices of stiffness and damping.

    Args:
        i, j: names of the bodies.
        point_i, point_j: the mount in the body frames; the origins unless given.
        stiffness: K: 6×6 in space, 3×3 in the plane, symmetric; or its diagonal, of 6 or 3 numbers.
        damping: C, in the same form; none unless given.
        frame_i: in space the axes of the frame on body i as columns of a 3×3 matrix; those of the body unless given.

    Examples:
        >>> mount = mbs.Bushing("ground", "a", (0, 0), (0, 0), stiffness=(100.0, 200.0, 5.0))
        >>> mech = mbs.Mechanism({"a": planar.Body()}, forces={"mount": mount})
        >>> print(mbs.generalized_force(mech, {"a": (0.01, 0.02, 0.1)}, jnp.zeros(3)))
        [-1.  -4.  -0.5]
    """

    i: str = eqx.field(static=True)
    j: str = eqx.field(static=True)
    point_i: Array | None = real((None,), optional=True, default=None)
    point_j: Array | None = real((None,), optional=True, default=None)
    _stiffness: Array = real((None, None))
    _damping: Array | None = real((None, None), optional=True, default=None)
    frame_i: Array | None = real((3, 3), optional=True, default=None)

    def __init__(self, i, j, point_i=None, point_j=None, stiffness=None, damping=None, *, frame_i=None):
        self.i, self.j, self.point_i, self.point_j, self.frame_i = i, j, point_i, point_j, frame_i
        self._stiffness, self._damping = _matrix(stiffness), _matrix(damping)

    @property
    def stiffness(self) -> Array:
        """Stiffness K as a matrix, 6×6 in space, 3×3 in the plane."""
        return self._stiffness

    @property
    def damping(self) -> Array | None:
        """Damping C as a matrix of the size of K; None without damping."""
        return self._damping

    def _displacement(self, i, j):
        """Return the relative coordinates x of the poses i and j: displacements, then the rotation."""
        point_i, point_j = points_of(self, i)
        shift = i.components(j.point(point_j) - i.point(point_i))
        turn = i.rotation_to(j)
        if i.dimension == 2:
            return jnp.concatenate([shift, jnp.reshape(turn, 1)])
        axes = shift if self.frame_i is None else self.frame_i.T @ shift
        vector = rotation.log(turn)
        return jnp.concatenate([axes, vector if self.frame_i is None else self.frame_i.T @ vector])

    def _relative_motion(self, state):
        """Return relative coordinates x, their rates, and the map from forces conjugate to x to loads on the bodies."""
        kind = type(next(iter(state.bodies.values())))
        coordinates = tuple(kind.coordinates_of(state.poses[body]) for body in (self.i, self.j))
        displacement = lambda x_i, x_j: self._displacement(kind.pose(x_i), kind.pose(x_j))

        def rate_and_value(v_i, v_j):
            """Return ẋ for velocities of the two bodies, and x."""
            rates = tuple(kind.manifold.rate(x, v) for x, v in zip(coordinates, (v_i, v_j), strict=True))
            x, x_dot = jax.jvp(displacement, coordinates, rates)
            return x_dot, x

        velocities = state.velocities[self.i], state.velocities[self.j]
        x_dot, transpose, x = jax.vjp(rate_and_value, *velocities, has_aux=True)
        return x, x_dot, transpose

    def generalized(self, state):
        """Return Q (m,) = −(∂ẋ/∂v)ᵀ (K x + C ẋ)."""
        x, x_dot, transpose = self._relative_motion(state)
        load = -self.stiffness @ x
        if self.damping is not None:
            load = load - self.damping @ x_dot
        on_i, on_j = transpose(load)
        return opposite(state, self.i, on_i, self.j, on_j)

    def potential(self, state):
        """Return the potential energy ½ xᵀK x."""
        x = self._displacement(state.poses[self.i], state.poses[self.j])
        return x @ self.stiffness @ x / 2

    def measures(self, state):
        """Return force and torque −(K x + C ẋ) on body j; vectors are in the ground frame."""
        i = state.poses[self.i]
        x, x_dot, _ = self._relative_motion(state)
        load = -self.stiffness @ x - (0 if self.damping is None else self.damping @ x_dot)
        in_body = load if self.frame_i is None else jnp.concatenate([self.frame_i @ load[:3], self.frame_i @ load[3:]])
        d = i.dimension
        return {"force": i.direction(in_body[:d]), "torque": in_body[2] if d == 2 else i.direction(in_body[3:])}

    def check(self, dimension):
        """Raise `ValueError` for matrices of a wrong size, not symmetric or negative, or an unusable frame."""
        require(self._stiffness is not None, "stiffness is missing")
        super().check(dimension)
        size = 3 if dimension == 2 else 6
        for name in ("stiffness", "damping"):
            matrix = getattr(self, name)
            require(matrix is None or matrix.shape == (size, size), f"{name} must be {size}×{size}, or {size} numbers")
            known = matrix is not None and is_concrete(matrix)
            symmetric = not known or name == "damping" or np.allclose(matrix, np.asarray(matrix).T, rtol=1e-6)
            require(symmetric, f"{name} must be symmetric")
            if known:
                least = np.linalg.eigvalsh((np.asarray(matrix) + np.asarray(matrix).T) / 2)[0]
                require(least >= -1e-6 * np.abs(matrix).max(), f"{name} must not be negative in any direction")
        require(dimension == 3 or self.frame_i is None, "frame_i has no place in the plane")
        if self.frame_i is not None and is_concrete(self.frame_i):
            frame = np.asarray(self.frame_i)
            turns = np.allclose(frame.T @ frame, np.eye(3), atol=1e-5) and np.linalg.det(frame) > 0
            require(turns, "frame_i must have three perpendicular unit vectors as columns, right-handed")


def _matrix(given):
    """Return a matrix or None unchanged; for a row of numbers the matrix with this diagonal."""
    if given is None or np.ndim(given) != 1:
        return given
    known = all(map(is_concrete, jax.tree.leaves(given)))
    return np.diag(np.asarray(given, float)) if known else jnp.diag(jnp.asarray(given))
