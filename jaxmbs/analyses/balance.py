"""Forces in a mechanism at rest, and the stiffness with which they change."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxmbs.formulations.abstract import AbstractEquations
from jaxmbs.formulations.augmented import AbstractFormulation
from jaxmbs.formulations.free_directions import REDUNDANT_PER_TOLERANCE, FreeDirections, free_directions
from jaxmbs.formulations.reactive import reactive_forces, with_force_fields, with_reactive_forces
from jaxmbs.motion import AbstractMotion, Constant
from jaxmbs.numerics.arrays import finite
from jaxmbs.numerics.implicit import rate, second_rate
from jaxmbs.numerics.linear_algebra import (
    Factored,
    factor_symmetric_semidefinite,
    pivot_floor,
    redundancy,
)
from jaxmbs.numerics.scaling import Units
from jaxmbs.system.equations import map_forces, state_of
from jaxmbs.system.idle import idle_spins, spin_velocities
from jaxmbs.system.mechanism import Mechanism

# Forces in the free directions are balanced if they are below this many rounding units of `Balance.magnitude`.
MAX_UNBALANCED_ROUNDINGS = 100


def hold_motions(mech: Mechanism, t: Array) -> Mechanism:
    """Return the mechanism with the prescribed motions of drivers, joints and forces held at their values at the time t."""
    is_motion = lambda x: isinstance(x, AbstractMotion)
    still = lambda x: Constant(jnp.asarray(x(t), t.dtype)) if is_motion(x) else x
    return jax.tree.map(still, mech, is_leaf=is_motion)


def equations_at_rest(
    mech: Mechanism, t: Array, formulation: AbstractFormulation, *, steady: bool = False
) -> tuple[AbstractEquations, Bool[Array, ""]]:
    """Return the equations at rest, or of a steady motion, and True if all numbers of the mechanism are finite."""
    mech, is_finite = finite(mech if steady else hold_motions(mech, t))
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
    """Return velocities and accelerations, zero for the independent ones, while drivers move as at the time t."""
    still = equations.zero_velocity(x)
    here = free_directions(equations, x, t, directions.independent, directions.length)
    u = -here.solve(rate(equations.residual, equations.space, x, still, t))
    return u, -here.solve(second_rate(equations.residual, equations.space, x, u, still, t))


def constraint_force(
    equations: AbstractEquations, x: Array, t: Array, directions: FreeDirections, multipliers: Float[Array, " rows"]
) -> tuple[Float[Array, " m"], Float[Array, " rows"]]:
    """Return Φ_qᵀλ in units of work, for λ of the rows in their units, and Φ in these units."""
    unit, rows = directions.unit, directions.rows
    gap_at = lambda d: equations.residual(equations.space.retract(x, unit * d), t) / rows
    gap, pull = jax.vjp(gap_at, equations.zero_velocity(x))
    return pull(multipliers)[0], gap


class Balance(NamedTuple):
    """Forces at a configuration, in units of work.

    Attributes:
        directions: the free directions.
        force: (m,), Q − M u̇.
        gap: (rows,), Φ in units; zero for rows that are redundant.
        gram: factors of Φ_q Φ_qᵀ.
        multipliers: (rows,), λ of the rows in units.
        free: (m,), Zᵀ times the force.
        stiffness: (m, m), −∂(force + Φ_qᵀλ)/∂q, and an arbitrary stiffness of idle spins.
        reduced: (m, m), Zᵀ K Z, with `scale` on the diagonal for dependent velocities.
        scale: the largest stiffness or force in a free direction; `magnitude`, or 1, if there is none.
        magnitude: the largest sum of absolute generalized forces of one velocity; much smaller forces may be rounding
            errors.
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
        limit = MAX_UNBALANCED_ROUNDINGS * jnp.finfo(self.force.dtype).eps * self.magnitude
        return jnp.max(jnp.abs(self.free), initial=0) <= limit

    @property
    def least_stiffness(self) -> Float[Array, ""]:
        """The stiffness below which a direction is neutral."""
        return redundancy(self.force.dtype) * jnp.maximum(self.scale, self.magnitude)

    def closing(self, gap: Array) -> Float[Array, " m"]:
        """Return the displacement of smallest norm that closes a gap (rows,)."""
        return -self.directions.jacobian.T @ self.gram.solve(gap)


def balance_of_forces(
    equations: AbstractEquations, x: Array, t: Array, size: Array, steady: bool, tolerance: float
) -> Balance:
    """Return the `Balance` at x, with the `size` of the mechanism as unit of length; `tolerance` as in `assemble`."""
    constant = jax.lax.stop_gradient
    directions = free_directions(equations, x, t, length=size, tolerance=tolerance)
    unit, phi_q, basis = directions.unit, directions.jacobian, directions.basis
    constants, still = constant(directions), equations.zero_velocity(x)
    least = max(pivot_floor(x.dtype), (REDUNDANT_PER_TOLERANCE * tolerance) ** 2)
    ones = jnp.ones(phi_q.shape[0], x.dtype)
    gram = factor_symmetric_semidefinite(phi_q @ phi_q.T, least * ones, ones)
    force = force_at_rest(equations, x, t, constants, steady)
    multipliers = constant(-gram.solve(phi_q @ force))

    def total(d: Array) -> Array:
        """Return force + Φ_qᵀλ at x ⊕ d, for constant λ."""
        moved = equations.space.retract(x, unit * d)
        pull, _ = constraint_force(equations, moved, t, constants, multipliers)
        return force_at_rest(equations, moved, t, constants, steady) + pull

    stiffness = -jax.vmap(lambda e: jax.jvp(total, (still,), (e,))[1], out_axes=-1)(np.eye(still.size, dtype=x.dtype))
    free = basis.T @ force
    reduced = directions.restrict(stiffness, 0.0)
    scale = jnp.maximum(jnp.max(jnp.abs(reduced), initial=0), jnp.max(jnp.abs(free), initial=0))
    magnitude = jnp.maximum(_magnitude(equations, x, t, size), jnp.max(jnp.abs(force), initial=0))
    # If nothing acts in the free directions, what is there is rounding.
    scale = jnp.where(scale > redundancy(x.dtype) * magnitude, scale, jnp.where(magnitude > 0, magnitude, 1))
    gap = gram.kept * equations.residual(x, t) / directions.rows
    found = Balance(directions, force, gap, gram, multipliers, free, stiffness, reduced, scale, magnitude)
    if idle_spins(equations.mech):
        stiffness = stiffness + _stiffness_of_spins(equations, x, t, found)
    reduced = directions.restrict(stiffness, scale)
    return found._replace(stiffness=stiffness, reduced=reduced)


def _stiffness_of_spins(equations: AbstractEquations, x: Array, t: Array, at: Balance) -> Float[Array, "m m"]:
    """Return a stiffness (m, m) that holds the idle spins of rods which no force turns."""
    q, total = equations.configuration(x, t), jnp.zeros_like(at.stiffness)
    at_rest = equations.from_bodies(q, jnp.zeros(equations.mech.layout.m, x.dtype), t)[1]
    for v in spin_velocities(equations.mech, q):
        spin = (equations.from_bodies(q, v, t)[1] - at_rest) / at.directions.unit
        spin = spin / jnp.sqrt(spin @ spin)
        turned = jnp.maximum(jnp.abs(spin @ at.force), jnp.max(jnp.abs(at.stiffness @ spin)))
        idle = turned <= at.least_stiffness
        total = total + jnp.where(idle, at.scale, 0) * spin[:, None] * spin[None, :]
    return jax.lax.stop_gradient(total)


def _magnitude(equations: AbstractEquations, x: Array, t: Array, size: Array) -> Float[Array, ""]:
    """Return `Balance.magnitude` of applied forces."""
    mech, q = equations.mech, equations.configuration(x, t)
    state = state_of(mech, q, jnp.zeros(mech.layout.m, q.dtype), t)
    each = map_forces(lambda force: jnp.abs(force.generalized(state)), mech.forces)
    total = sum(each.values(), jnp.zeros(mech.layout.m, q.dtype))
    return jnp.max(total * Units(mech.layout.angular, size).vector, initial=0)
