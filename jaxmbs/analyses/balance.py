"""Forces in a mechanism at rest, and the stiffness with which they change."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxmbs.formulations.abstract import AbstractEquations
from jaxmbs.formulations.augmented import AbstractFormulation
from jaxmbs.formulations.free_directions import FreeDirections, free_directions
from jaxmbs.formulations.reactive import reactive_forces, with_force_fields, with_reactive_forces
from jaxmbs.motion import AbstractMotion, Constant
from jaxmbs.numerics.arrays import finite
from jaxmbs.numerics.implicit import rate, second_rate
from jaxmbs.numerics.linear_algebra import (
    Factored,
    factor_symmetric_positive,
    factor_symmetric_semidefinite,
    redundancy,
)
from jaxmbs.numerics.scaling import Units
from jaxmbs.system.equations import map_forces, state_of
from jaxmbs.system.mechanism import Mechanism

# Forces in the free directions are balanced if they are below this many rounding units of the largest force.
BALANCED_ROUNDINGS = 100


def frozen(mech: Mechanism, t: Array) -> Mechanism:
    """Return a mechanism whose prescribed motions, of drivers, joints and forces, keep their values at the time t."""
    is_motion = lambda x: isinstance(x, AbstractMotion)
    still = lambda x: Constant(x(t)) if is_motion(x) else x
    return jax.tree.map(still, mech, is_leaf=is_motion)


def equations_at_rest(
    mech: Mechanism, t: Array, formulation: AbstractFormulation, *, steady: bool = False
) -> tuple[AbstractEquations, Bool[Array, ""]]:
    """Return the equations at rest, or of a steady motion, and True if all numbers of the mechanism are finite."""
    mech, is_finite = finite(mech if steady else frozen(mech, t))
    if not steady:
        # Friction and inertial efforts vanish at rest.
        mech = with_force_fields(mech, "size", {name: jnp.zeros((), t.dtype) for name in reactive_forces(mech)})
    return formulation.equations(mech), is_finite


def force_at_rest(
    equations: AbstractEquations, x: Array, t: Array, directions: FreeDirections, steady: bool
) -> Float[Array, " m"]:
    """Return Q − M u̇ in units of work, at rest or in a `steady_motion`."""
    u = equations.zero_velocity(x)
    if not steady:
        return directions.unit * equations.force(x, u, t)
    u, a = steady_motion(equations, x, t, directions)
    equations = with_reactive_forces(equations, x, u, t)[0]
    return -directions.unit * equations.imbalance(x, u, a, t)


def steady_motion(
    equations: AbstractEquations, x: Array, t: Array, directions: FreeDirections
) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    """Return velocities and accelerations of the motion in which the independent ones are zero, driven as at t."""
    phi_q, still = equations.jacobian(x, t), equations.zero_velocity(x)
    spins = directions.jacobian[directions.rows.size :] / directions.unit[None, :]
    held = jnp.diag(jnp.where(directions.independent, jnp.ones((), x.dtype), 0)) + spins.T @ spins
    factors = factor_symmetric_positive(phi_q.T @ phi_q + held)
    u = -factors.solve(phi_q.T @ rate(equations.residual, equations.space, x, still, t))
    return u, -factors.solve(phi_q.T @ second_rate(equations.residual, equations.space, x, u, still, t))


class Balance(NamedTuple):
    """Forces at a configuration, in units of work.

    Attributes:
        directions: the free directions.
        force: (m,), Q − M u̇.
        gap: (rows,), Φ in units, and zero for each idle spin.
        gram: factors of Φ_q Φ_qᵀ.
        multipliers: (rows,), λ of the rows in units.
        free: (m,), Zᵀ times the force.
        stiffness: (m, m), −∂(force + Φ_qᵀλ)/∂q.
        reduced: (m, m), Zᵀ K Z, with `scale` on the diagonal for dependent velocities.
        scale: the largest stiffness or force in a free direction.
        magnitude: the largest sum of absolute values of applied forces; what is small beside it may be rounding.
    """

    directions: FreeDirections
    force: Float[Array, " m"]
    gap: Float[Array, " rows"]
    gram: Factored
    multipliers: Float[Array, " rows"]
    free: Float[Array, " m"]
    stiffness: Float[Array, "m m"]
    reduced: Float[Array, "m m"]
    scale: Float[Array, ""]
    magnitude: Float[Array, ""]

    @property
    def balanced(self) -> Bool[Array, ""]:
        """True if the forces in the free directions are zero to rounding."""
        limit = BALANCED_ROUNDINGS * jnp.finfo(self.force.dtype).eps * self.magnitude
        return jnp.max(jnp.abs(self.free), initial=0) <= limit

    @property
    def least_stiffness(self) -> Float[Array, ""]:
        """The stiffness below which a direction is neutral."""
        return redundancy(self.force.dtype) * jnp.maximum(self.scale, self.magnitude)

    def closing(self, gap: Array) -> Float[Array, " m"]:
        """Return the displacement of smallest norm that closes a gap (rows,)."""
        return -self.directions.jacobian.T @ self.gram.solve(gap)


def balance_of_forces(equations: AbstractEquations, x: Array, t: Array, size: Array, steady: bool) -> Balance:
    """Return the `Balance` at x, with the `size` of the mechanism as unit of length."""
    constant = jax.lax.stop_gradient
    directions = free_directions(equations, x, t, length=size)
    unit, rows, phi_q, basis = directions.unit, directions.rows, directions.jacobian, directions.basis
    spins = jnp.zeros(phi_q.shape[0] - rows.shape[0], x.dtype)
    constants, independent = constant(directions), directions.independent
    force_at = lambda d: force_at_rest(equations, equations.space.retract(x, unit * d), t, constants, steady)
    gap_at = lambda d: equations.residual(equations.space.retract(x, unit * d), t) / rows
    still = equations.zero_velocity(x)
    force = force_at(still)
    gram = factor_symmetric_semidefinite(phi_q @ phi_q.T, None, jnp.ones(phi_q.shape[0], x.dtype))
    multipliers = constant(-gram.solve(phi_q @ force))
    held = multipliers[: rows.shape[0]]
    total = lambda d: force_at(d) + jax.vjp(gap_at, d)[1](held)[0]
    stiffness = -jax.vmap(lambda e: jax.jvp(total, (still,), (e,))[1], out_axes=-1)(np.eye(still.size, dtype=x.dtype))
    free = basis.T @ force
    reduced = directions.reduced(stiffness, 0.0)
    scale = jnp.maximum(jnp.max(jnp.abs(reduced), initial=0), jnp.max(jnp.abs(free), initial=0))
    scale = jnp.where(scale > 0, scale, 1)
    reduced = reduced + jnp.diag(jnp.where(independent, 0, scale))
    magnitude = jnp.maximum(_magnitude(equations, x, t, size), jnp.max(jnp.abs(force), initial=0))
    gap = jnp.append(gap_at(still), spins)
    return Balance(directions, force, gap, gram, multipliers, free, stiffness, reduced, scale, magnitude)


def _magnitude(equations: AbstractEquations, x: Array, t: Array, size: Array) -> Float[Array, ""]:
    """Return the largest sum of absolute values of forces on a body, before they cancel, in units of work."""
    mech, q = equations.mech, equations.configuration(x, t)
    state = state_of(mech, q, jnp.zeros(mech.layout.m, q.dtype), t)
    each = map_forces(lambda force: jnp.abs(force.generalized(state)), mech.forces)
    total = sum(each.values(), jnp.zeros(mech.layout.m, q.dtype))
    return jnp.max(total * Units(mech.layout.angular, size).vector, initial=0)


def loads(
    equations: AbstractEquations, x: Array, t: Array, at: Balance, steady: bool
) -> tuple[Float[Array, " m"], Float[Array, " rows"]]:
    """Return the force with Φ_qᵀλ (m,) and the gap (rows,) of equations at x, in the directions and with the λ of `at`."""
    directions = at.directions
    gap_at = lambda d: equations.residual(equations.space.retract(x, directions.unit * d), t) / directions.rows
    gap, pull = jax.vjp(gap_at, equations.zero_velocity(x))
    force = force_at_rest(equations, x, t, directions, steady)
    return force + pull(at.multipliers[: gap.size])[0], gap
