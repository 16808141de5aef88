"""Directions of motion that the constraints leave free at one configuration."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxmbs.formulations.abstract import AbstractEquations
from jaxmbs.numerics.linear_algebra import dependent_columns, factor_symmetric_positive
from jaxmbs.numerics.scaling import Units
from jaxmbs.system.idle import idle_spins, spin_rows


class FreeDirections(NamedTuple):
    """The solutions v of Φ_q v = 0 at a configuration, without idle spins of rods, in units of the mechanism.

    Some velocities are independent: they can be chosen freely and determine all others. Their number is the number of
    degrees of freedom; redundant constraints do not count.

    Attributes:
        basis: (m, m) matrix Z with Φ_q Z = 0. The column of an independent velocity is the motion in which it is 1 and
            the other independent velocities are 0; the columns of dependent velocities are zero.
        independent: (m,), True for independent velocities.
        unit: (m,), the unit of each velocity: 1 for angles, the unit of length for the others.
        rows: (rows,), the unit of each row of Φ.
        jacobian: (rows + rods, m), Φ_q in these units, then a row for each rod that could spin, see `idle_spins`.
    """

    basis: Float[Array, "m m"]
    independent: Bool[Array, " m"]
    unit: Float[Array, " m"]
    rows: Float[Array, " rows"]
    jacobian: Float[Array, "all_rows m"]

    def reduced(self, matrix: Float[Array, "m m"], dependent: Array | float = 1.0) -> Float[Array, "m m"]:
        """Return Zᵀ A Z for a matrix A in units, with `dependent` on the diagonal for dependent velocities."""
        return self.basis.T @ matrix @ self.basis + jnp.diag(jnp.where(self.independent, 0, dependent))


def free_directions(equations: AbstractEquations, q, t, independent: Bool[Array, " m"] | None = None) -> FreeDirections:
    """Return the `FreeDirections` of equations at their coordinates q.

    The basis is differentiable; the choice of the independent velocities and the units count as constants.

    Args:
        equations: of any formulation.
        q: (n,), with Φ(q, t) = 0.
        t: time.
        independent: the independent velocities, if they are known; otherwise those that make the basis well-conditioned.
    """
    length, rows, _ = jax.lax.stop_gradient(equations.scales(q, t))
    unit = Units(equations.space.angular, length).vector
    phi_q = equations.jacobian(q, t) * unit[None, :] / rows[:, None]
    if idle_spins(equations.mech):
        spins = lambda d: spin_rows(equations.mech, equations.configuration(equations.space.retract(q, unit * d), t))
        spin_q = jax.jacfwd(spins)(equations.zero_velocity(q))
        phi_q = jnp.concatenate([phi_q, spin_q / jnp.max(jnp.abs(jax.lax.stop_gradient(spin_q)), axis=1)[:, None]])
    if independent is None:
        independent = ~dependent_columns(phi_q, jnp.ones(phi_q.shape[0], q.dtype))
    chosen = jnp.diag(jnp.where(independent, jnp.ones((), q.dtype), 0))
    factors = factor_symmetric_positive(phi_q.T @ phi_q + chosen)
    basis = factors.solve(chosen)
    # The square of Φ_q loses digits; the second solution recovers them.
    basis = basis - factors.solve(phi_q.T @ (phi_q @ basis) + chosen @ (basis - chosen))
    basis = jnp.where(independent[None, :], basis, 0)
    return FreeDirections(basis, independent, unit, rows, phi_q)
