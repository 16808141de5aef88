"""The augmented formulation: coordinates of all bodies, and a multiplier for each constraint."""

from __future__ import annotations

import abc
import dataclasses
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.formulations.abstract import AbstractEquations
from jaxmbs.formulations.dense import AbstractDenseEquations
from jaxmbs.formulations.reactive import loads_of, may_be_redundant
from jaxmbs.formulations.view import AbstractUnknowns, EquationsOfMotion
from jaxmbs.numerics.linear_algebra import factor_symmetric_positive, factor_symmetric_semidefinite, redundancy
from jaxmbs.numerics.scaling import Units, unit_of_length
from jaxmbs.system.equations import applied_forces, masses, residuals, velocity_forces
from jaxmbs.system.mechanism import Mechanism

# Number of proximal steps in the projection of vectors onto a null space, and from zero to the multipliers of a motion.
PROXIMAL_STEPS = 5
# Number of proximal steps that balance forces in `balance_multipliers`, from multipliers that are nearly right.
BALANCING_STEPS = 2
# Φ as a function of (mech, q, t) that jit traces once for all equations of motion that use it.
_residuals = jax.jit(residuals)


class AbstractFormulation(eqx.Module):
    """A choice of coordinates, and the equations of motion of a mechanism in them.

    Attributes:
        takes_any_velocity: False if `from_bodies` of its equations needs velocities that the joints allow.
        takes_kinematics: False if `assemble` and `kinematics` cannot use its coordinates, because their space depends on
            numbers of the mechanism.
    """

    takes_any_velocity: ClassVar[bool] = True
    takes_kinematics: ClassVar[bool] = True

    @abc.abstractmethod
    def equations(self, mech: Mechanism) -> AbstractEquations:
        """Return the equations of the mechanism that `simulate` solves in these coordinates."""

    @abc.abstractmethod
    def unknowns(self, mech: Mechanism) -> AbstractUnknowns:
        """Return the coordinates x and velocities u that users see in `EquationsOfMotion`."""

    def of(self, mech: Mechanism) -> EquationsOfMotion:
        """Return the equations of motion of `mech` in these coordinates: names, conversions, M, Q, Φ, Φ_x, ν and γ."""
        return EquationsOfMotion(mech, self.unknowns(mech))


class Augmented(AbstractFormulation):
    """Cartesian coordinates of all bodies and a multiplier for each constraint: M v̇ = Q + Φ_qᵀλ, Φ_q v̇ = γ; Haug.

    Drivers are constraints that depend on time; their multipliers are the driving forces and torques.

    Examples:
        >>> start = {"bob": (1, 0, jnp.pi / 2)}
        >>> run = mbs.simulate(pendulum, jnp.array([0.0, 0.5]), start, step=0.01, formulation=mbs.Augmented())
        >>> print(run.position("bob.phi").round(3), run.multipliers.shape)
        [1.571 0.402] (2, 2)
    """

    def equations(self, mech):
        """Return the equations in q and v of the bodies."""
        return CartesianEquations(mech)

    def unknowns(self, mech):
        """Return the unknowns q and v of the bodies."""
        return CartesianUnknowns()


@dataclasses.dataclass(frozen=True)
class CartesianUnknowns(AbstractUnknowns):
    """The unknowns of `Augmented`: q and v of the bodies."""

    def names(self, mech):
        """Return the names of q, such as "crank.x"."""
        return mech.layout.coordinates

    def velocity_names(self, mech):
        """Return the names of v, such as "crank.x" or "rod.wx"."""
        return mech.layout.velocities

    def coordinates(self, mech, q, t):
        """Return q unchanged."""
        return q

    def velocities(self, mech, q, v, t):
        """Return v unchanged."""
        return v

    def configuration(self, mech, x, t, near):
        """Return q with Euler parameters of unit length."""
        return mech.layout.normalised(x)

    def equations_at(self, mech, x, t, near):
        """Return the equations, and q with Euler parameters of unit length."""
        return CartesianEquations(mech), mech.layout.normalised(x)


class CartesianEquations(AbstractDenseEquations):
    """The equations of `Augmented`."""

    mech: Mechanism
    own_coordinates: ClassVar[bool] = False

    def mass(self, q, t):
        """Return the mass matrix M(q) of all bodies."""
        return masses(self.mech, q)

    def force(self, q, v, t):
        """Return applied forces, gyroscopic and centrifugal forces, (m,)."""
        return applied_forces(self.mech, q, v, t) + velocity_forces(self.mech, q, v)

    def residual(self, q, t):
        """Return Φ of all constraints, then of the drivers."""
        return _residuals(self.mech, q, t)

    @property
    def space(self):
        """Layout of the mechanism, the space of its configurations."""
        return self.mech.layout

    @property
    def supporting(self):
        """Indices of the rows of elements that have extra coordinates or act on a light body, and the mean mass."""
        mech, light = self.mech, self.mech.light
        elements = {**mech.constraints, **mech.drivers}
        chosen = [name for name, e in elements.items() if e.extra or light & {e.i, e.j, *e.others}]
        slices = mech.layout.row_slices
        rows = [k for name in chosen for k in range(slices[name].start, slices[name].stop)]
        return np.array(rows, int), mean_mass(mech)

    def coordinates(self, q, t):
        """Return q unchanged: the coordinates are those of the bodies."""
        return q

    def configuration(self, q, t):
        """Return q unchanged: the coordinates are those of the bodies."""
        return q

    def from_bodies(self, q, v, t):
        """Return the arguments unchanged, except for the time: they are those of the bodies."""
        return q, v

    def to_bodies(self, q, v, a, t):
        """Return the arguments unchanged, except for the time: they are those of the bodies."""
        return q, v, a

    def loads(self, joints, q, v, t, a, multipliers):
        """Return the loads of the named joints on their bodies j; from λ of smallest norm if it may not be unique."""
        rows = self.multipliers(q, v, t) if may_be_redundant(self.mech) else multipliers
        return loads_of(self.mech, joints, q, v, t, rows)

    def multipliers(self, q, v, t, a=None):
        """Return λ in a state of motion; if it is not unique, that of smallest norm in units of the mechanism."""
        found = self.accelerations(q, v, t)[1]
        _, sizes, rows = self.jacobian_in_units(q, t)
        gram = rows @ rows.T
        redundant = ~(factor_symmetric_semidefinite(gram).rcond > redundancy(q.dtype))
        return found - jnp.where(redundant, null_part(gram, sizes * found) / sizes, 0)

    def balance_multipliers(self, q, v, a, t, near=None) -> Float[Array, " rows"]:
        """Return λ with Φ_qᵀλ = M v̇ − Q for a motion with accelerations a; if not unique, the λ of `multipliers`.

        With approximate multipliers `near` (rows,), it is the λ nearest to these, at less cost.
        """
        units, sizes, rows = self.jacobian_in_units(q, t)
        force = self.imbalance(q, v, a, t) * units
        _, solve = _regularised_solver(rows @ rows.T)
        # Repeated Tikhonov steps. From zero they converge to the solution of smallest norm, by a factor of δ / σ² each.
        found = jnp.zeros_like(sizes) if near is None else sizes * near
        for _ in range(PROXIMAL_STEPS if near is None else BALANCING_STEPS):
            found = found + solve(rows @ (force - rows.T @ found))
        return found / sizes

    def null_components(self, q, t) -> Float[Array, " rows"]:
        """Return the component (rows,) of a fixed vector in the null space of Φ_qᵀ; zero to rounding if λ is unique."""
        _, sizes, rows = self.jacobian_in_units(q, t)
        # Multiples of the golden angle: no row is special.
        return null_part(rows @ rows.T, 1 + np.sin(2.399963 * np.arange(1, sizes.size + 1)).astype(q.dtype) / 2)

    def jacobian_in_units(self, q, t):
        """Return scale factors of the velocities (m,) and of the rows of Φ (rows,), and Φ_q in scaled units."""
        phi_q, extent, angular = self.scaling_rows(q, t)
        units = Units(angular, unit_of_length(phi_q, extent, angular))
        sizes = units.rows(phi_q)
        return units.vector, sizes, phi_q * units.vector[None, :] / sizes[:, None]


def mean_mass(mech: Mechanism) -> Float[Array, ""]:
    """Return the mean mass of the bodies that have mass; without any the mean inertia, and 1 without inertia."""
    bodies = list(mech.bodies.values())
    # If no body has mass, take the inertia of the rotors, with a lever arm of 1; without any inertia, take 1.
    sizes = [jnp.asarray(body.mass) for body in bodies if not body.massless[0]]
    sizes = sizes or [jnp.trace(jnp.atleast_2d(body.inertia)) for body in bodies if not all(body.massless)]
    return sum(sizes[1:], sizes[0]) / len(sizes) if sizes else jnp.ones((), mech.dtype)


def _regularised_solver(gram):
    """Return δ and the function x ↦ (gram + δ I)⁻¹ x; δ lies between rounding and the smallest eigenvalue that counts."""
    delta = 0.1 * jnp.finfo(gram.dtype).eps ** 0.5
    return delta, factor_symmetric_positive(gram + delta * jnp.eye(gram.shape[0], dtype=gram.dtype)).solve


def null_part(gram, x):
    """Return the part of x, a vector or columns, in the null space of a semidefinite matrix, by proximal steps."""
    delta, solve = _regularised_solver(gram)
    for _ in range(PROXIMAL_STEPS):
        x = delta * solve(x)
    return x
