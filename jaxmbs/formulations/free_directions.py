"""Directions of motion that the constraints leave free at one configuration."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxmbs.formulations.abstract import AbstractEquations
from jaxmbs.numerics.linear_algebra import Factored, dependent_columns, factor_symmetric_positive, redundancy
from jaxmbs.numerics.scaling import DEFAULT_TOLERANCE, Units, unit_of_length
from jaxmbs.system.mechanism import own_length_as

# A row of Φ_q counts as redundant if its part that does not depend on other rows is below this many times the tolerance:
# gaps up to the tolerance turn rows by as much.
REDUNDANT_PER_TOLERANCE = 10.0


class FreeDirections(NamedTuple):
    """The solutions v of Φ_q v = 0 at a configuration, in units of the mechanism.

    Some velocities are independent: they can be chosen freely and determine all others. Their number is the number of
    degrees of freedom; redundant constraints do not count.

    Attributes:
        basis: (m, m) matrix Z with Φ_q Z = 0. The column of an independent velocity is the motion in which it is 1 and
            the other independent velocities are 0; the columns of dependent velocities are zero.
        independent: (m,), True for independent velocities.
        length: the unit of length.
        unit: (m,), the unit of each velocity: 1 for angles, `length` for the others.
        rows: (rows,), the unit of each row of Φ.
        jacobian: (rows, m), Φ_q in these units.
        freedom: the number of degrees of freedom.
        factors: of Φ_qᵀΦ_q plus the unit matrix of the independent velocities, in units.
    """

    basis: Float[Array, "m m"]
    independent: Bool[Array, " m"]
    length: Float[Array, ""]
    unit: Float[Array, " m"]
    rows: Float[Array, " rows"]
    jacobian: Float[Array, "rows m"]
    freedom: Int[Array, ""]
    factors: Factored

    def solve(self, right: Float[Array, " rows"]) -> Float[Array, " m"]:
        """Return the velocity v with Φ_q v = `right`, not in units, whose independent entries are zero."""
        right = self.jacobian.T @ (right / self.rows)
        found = self.factors.solve(right)
        # The square of Φ_q loses digits; the second solution recovers them.
        return self.unit * (found - self.factors.solve(self.factors.matrix @ found - right))

    def restrict(self, matrix: Float[Array, "m m"], dependent: Array | float = 1.0) -> Float[Array, "m m"]:
        """Return Zᵀ A Z for a matrix A in units, with `dependent` on the diagonal for dependent velocities."""
        filled = jnp.where(self.independent, jnp.zeros((), matrix.dtype), jnp.asarray(dependent, matrix.dtype))
        return self.basis.T @ matrix @ self.basis + jnp.diag(filled)


def free_directions(
    equations: AbstractEquations,
    q,
    t,
    independent: Bool[Array, " m"] | None = None,
    length: Float[Array, ""] | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
) -> FreeDirections:
    """Return the `FreeDirections` of equations at their coordinates q.

    The basis is differentiable. The choice of the independent velocities and the units are constants in differentiation.

    Args:
        equations: of any formulation.
        q: (n,), with Φ(q, t) = 0.
        t: time.
        independent: the independent velocities, if they are known; otherwise those that make the basis well-conditioned.
        length: the unit of length; by default the largest position or lever arm in this configuration, or
            `Mechanism.own_length` if that is larger.
        tolerance: largest gap of redundant constraints that contradict each other, relative to the mechanism's size.
    """
    scaling, extent, angular = jax.lax.stop_gradient(equations.scaling_rows(q, t))
    if length is None:
        length = jnp.maximum(unit_of_length(scaling, extent, angular), own_length_as(equations.mech, q.dtype))
    length = jax.lax.stop_gradient(length)
    rows, unit = Units(angular, length).rows(scaling), Units(equations.space.angular, length).vector
    phi_q = equations.jacobian(q, t) * unit[None, :] / rows[:, None]
    least = max(1.0, REDUNDANT_PER_TOLERANCE * tolerance / redundancy(q.dtype))
    well_conditioned = ~dependent_columns(phi_q, jnp.full(rows.size, least, q.dtype))
    independent = well_conditioned if independent is None else independent
    chosen = jnp.diag(jnp.where(independent, jnp.ones((), q.dtype), 0))
    factors = factor_symmetric_positive(phi_q.T @ phi_q + chosen)
    basis = factors.solve(chosen)
    # As in `FreeDirections.solve`.
    basis = basis - factors.solve(phi_q.T @ (phi_q @ basis) + chosen @ (basis - chosen))
    basis = jnp.where(independent[None, :], basis, 0)
    return FreeDirections(basis, independent, length, unit, rows, phi_q, jnp.sum(well_conditioned), factors)
