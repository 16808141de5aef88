"""Equations of constrained motion in any formulation: M v̇ = Q(q, v, t) + Φ_qᵀλ with Φ(q, t) = 0, q̇ = N(q) v.

M depends on q, and on t if coordinates that are prescribed in time have been eliminated.

A formulation gives M, Q and Φ, and a solver: accelerations, and the closing of positions and velocities. Configurations lie
in a `Space`; Φ_q is the derivative by displacements. Everything is array code of one sample, to become a straight-line
program as a whole.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxmbs.forces.joint.reactive import JointLoad
from jaxmbs.formulations.reactive import may_be_redundant, with_reactive_forces
from jaxmbs.numerics.linear_algebra import Support, factor_symmetric_semidefinite, solve_saddle_point
from jaxmbs.numerics.roots import newton_steps, root_near
from jaxmbs.numerics.scaling import Units, unit_of_length
from jaxmbs.numerics.space import Space
from jaxmbs.programs import save_for_reverse
from jaxmbs.system.mechanism import Mechanism, own_length_as

# If masses differ much, the weight of the supporting rows is the mean mass times the rounding unit to this power. It is
# then below the largest masses, so that the motion of a light body is not lost in rounding, and above those of light
# bodies.
LIGHT_WEIGHT_POWER = 1 / 4
# Number of linear solves for a derivative of `close_position` if the matrix is that at the start of its iteration: two
# are right to the square of the first correction.
CLOSING_SOLVES = 2


class Closed(NamedTuple):
    """A configuration that has been closed by Newton's method.

    Attributes:
        q: (n,), the configuration.
        shift: (m,), its displacement from the start of the iteration.
        change: (m,), the last correction of the shift.
        gap: (rows,), Φ before this correction.
    """

    q: Float[Array, " n"]
    shift: Float[Array, " m"]
    change: Float[Array, " m"]
    gap: Float[Array, " rows"]


class Scales(NamedTuple):
    """Units in which gaps and pivots of equations are measured.

    Attributes:
        length: unit of coordinates that are lengths.
        rows: (rows,), the largest change of each row of Φ by one unit of a coordinate.
        pivots: (rows,), the diagonal of Φ_q M⁻¹ Φ_qᵀ if nothing cancelled in Φ_q; None for coordinates of the bodies, in
            which nothing cancels.
    """

    length: Float[Array, ""]
    rows: Float[Array, " rows"]
    pivots: Float[Array, " rows"] | None


class AbstractSolver(eqx.Module):
    """Solver of `AbstractEquations` for accelerations, closed positions and closed velocities.

    A row of Φ whose pivot is below the fraction `floor` (rows,) of its diagonal entry in Φ_q M⁻¹ Φ_qᵀ counts as
    redundant; None stands for `pivot_floor`.
    """

    @abc.abstractmethod
    def accelerations(self, q, v, t, correction, floor) -> tuple[Array, Array, Array]:
        """Return v̇ (m,), λ (rows,) and kept (rows,), with `correction` added to γ = −(Φ_q v)_q v − 2 Φ_qt v − Φ_tt.

        `kept` is 1 for rows of Φ_q that are independent, 0 for redundant ones.
        """

    @abc.abstractmethod
    def metric(self, q, t) -> Callable:
        """Return the function x ↦ M⁻¹ x at q and t: closing with it moves q orthogonally to Φ = 0 in the metric M."""

    @abc.abstractmethod
    def close_velocity(self, q, v, t, floor=None) -> Float[Array, " m"]:
        """Return the velocity with Φ_q v + Φ_t = 0 that is nearest to v in the metric M."""

    @abc.abstractmethod
    def glide(self, motion, v, t, h, iterations: int) -> tuple[Closed, Float[Array, " m"]]:
        """Return configuration and velocity after a step of length h from a `Motion` with velocity v, as in RATTLE.

        Constraint forces act in the directions that they have at the start of the step. `iterations` is the number of
        Newton steps for the configuration.
        """


class AbstractEquations(eqx.Module):
    """M(q, t) v̇ = Q(q, v, t) + Φ_qᵀλ, Φ(q, t) = 0, with q (n,), v (m,), Φ (rows,).

    Attributes:
        mech: the mechanism.
        own_coordinates: False if q and v are those of the bodies, as in `Mechanism.coordinates`.
    """

    if TYPE_CHECKING:

        @property
        def mech(self) -> Mechanism:
            """The mechanism."""

    own_coordinates: ClassVar[bool]

    @abc.abstractmethod
    def mass(self, q, t) -> Float[Array, "m m"]:
        """Return the mass matrix M, which is symmetric without negative eigenvalues."""

    @abc.abstractmethod
    def force(self, q, v, t) -> Float[Array, " m"]:
        """Return Q, the sum of all forces except constraint forces, conjugate to v."""

    @abc.abstractmethod
    def imbalance(self, q, v, a, t) -> Float[Array, " m"]:
        """Return M v̇ − Q for the accelerations a = v̇; in a motion it equals Φ_qᵀλ."""

    @abc.abstractmethod
    def residual(self, q, t) -> Float[Array, " rows"]:
        """Return the constraint residuals Φ(q, t) (rows,) for q of these equations."""

    @abc.abstractmethod
    def jacobian(self, q, t) -> Float[Array, "rows m"]:
        """Return Φ_q (rows, m) at q of these equations, with a column for each velocity."""

    @abc.abstractmethod
    def velocity_gap(self, q, v, t) -> Float[Array, " rows"]:
        """Return Φ̇ = Φ_q v + Φ_t (rows,) for q and v of these equations, zero if the constraints allow v."""

    @property
    @abc.abstractmethod
    def space(self) -> Space:
        """Space of the configurations q."""

    @property
    @abc.abstractmethod
    def supporting(self) -> tuple[np.ndarray, Float[Array, "..."]]:
        """Indices of the rows of Φ that are added to M, and their weight: a typical mass, one for all or one for each.

        They support coordinates that have no inertia, or little.
        """

    @property
    @abc.abstractmethod
    def inertial_efforts(self) -> tuple[str, ...]:
        """Names of the forces −J ẍ whose inertia J is part of M."""

    @property
    @abc.abstractmethod
    def solver(self) -> AbstractSolver:
        """Solver of these equations; it needs the sizes of reactive forces, see `with_reactive_forces`."""

    @abc.abstractmethod
    def coordinates(self, q, t) -> Float[Array, " n"]:
        """Return the coordinates of these equations for a configuration q of the bodies.

        If q violates constraints that these coordinates satisfy by themselves, they are what the joints measure.
        """

    @abc.abstractmethod
    def configuration(self, q, t) -> Float[Array, " n"]:
        """Return the configuration of the bodies for coordinates q of these equations."""

    @abc.abstractmethod
    def from_bodies(self, q, v, t) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        """Return the coordinates and velocities of these equations for a state of the bodies.

        If the state violates constraints that these coordinates satisfy by themselves, the nearest one is taken.
        """

    @abc.abstractmethod
    def to_bodies(self, q, v, a, t) -> tuple[Array, Array, Array]:
        """Return q (n,), v (m,) and v̇ (m,) of the bodies for a state (q, v) of these equations with v̇ = a."""

    @abc.abstractmethod
    def multipliers(self, q, v, t, a=None) -> Float[Array, " rows"]:
        """Return λ of the constraints and drivers of the mechanism, for the accelerations a if these are known already.

        If they are redundant, it is the λ of smallest norm in units of the mechanism; this is the plain norm if all rows
        are lengths, as those of revolute joints are.
        """

    @abc.abstractmethod
    def singular(self, q, v, t, h) -> Bool[Array, ""]:
        """Return True if the coordinates are singular, or so nearly that a step of length h may cross the singularity."""

    @abc.abstractmethod
    def scaling_rows(self, q, t) -> tuple[Float[Array, "rows k"], Float[Array, " k"], np.ndarray]:
        """Return Φ_q by the coordinates that scale its rows, those coordinates (k,), and (k,) True for angles."""

    @abc.abstractmethod
    def pivots(self, q, t) -> Float[Array, " rows"] | None:
        """Return `Scales.pivots` at q; None for coordinates of the bodies, in which nothing cancels."""

    @abc.abstractmethod
    def with_scales(self, scales: Scales) -> AbstractEquations:
        """Return equations that use these scales instead of computing them in each configuration."""

    def support(self, weights=None) -> Support:
        """Return the `Support` by the supporting rows, or by all rows of Φ if their weights (rows,) are given."""
        if weights is not None:
            rows = np.arange(weights.shape[0])
        else:
            rows, weights = self.supporting
            weights = jnp.asarray(weights)
            weights = weights * jnp.finfo(weights.dtype).eps ** LIGHT_WEIGHT_POWER if self.mech._light else weights
        eased = any(all(body.massless) for body in self.mech.bodies.values())
        weights = jnp.broadcast_to(jnp.reshape(weights, (-1,)), rows.shape)
        return Support(rows, weights, self.space.angular if eased else None)

    @property
    def definite(self) -> bool:
        """True if M is positive definite for all numbers once the supporting rows are added: if no body is light."""
        return not self.mech.light

    def scales(self, q, t) -> Scales:
        """Return `Scales` of gaps and pivots for this configuration and similar ones."""
        rows, extent, angular = self.scaling_rows(q, t)
        length = jnp.maximum(unit_of_length(rows, extent, angular), own_length_as(self.mech, q.dtype))
        return Scales(length, Units(angular, length).rows(rows), self.pivots(q, t))

    def zero_velocity(self, q) -> Float[Array, " m"]:
        """Return zeros (m,) for a velocity, of the type of q."""
        return jnp.zeros(self.space.m, q.dtype)

    def solve(self, matrix, phi_q, force, right, weights=None, floor=None, pivots=None):
        """Return a, λ and kept with `matrix` a = force + Φ_qᵀλ and Φ_q a = right.

        ρ Φ_qᵀ(Φ_q a − right) of the supporting rows is added. This changes no solution and acts as an inertia for
        coordinates that have none, or little.

        Args:
            matrix: (m, m), M or another matrix in its place.
            phi_q: (rows, m).
            force: (m,).
            right: (rows,).
            weights: ρ of each row; if given, all rows support. Then a matrix that is positive definite along the
                constraints becomes positive definite.
            floor: see `solve_saddle_point`.
            pivots: see `solve_saddle_point`.

        Returns:
            a (m,), λ (rows,), kept (rows,).
        """
        support = self.support(weights)
        # In float32 the pivots of redundant constraints cost too many digits.
        redundant = right.dtype == jnp.float32 and may_be_redundant(self.mech, drivers=False)
        refined = redundant or bool(self.mech._light) or support.angular is not None
        return solve_saddle_point(
            matrix, phi_q, force, right, floor, pivots, definite=self.definite, support=support, refined=refined
        )

    def accelerations(self, q, v, t, correction: Float[Array, " rows"] | float = 0.0, floor=None):
        """Return v̇ (m,), λ (rows,) and kept (rows,), with reactive forces; see `AbstractSolver.accelerations`."""
        given, _ = with_reactive_forces(self, q, v, t, correction, floor)
        return _accelerations(given.solver, q, v, t, correction, floor)

    @abc.abstractmethod
    def loads(self, joints: Iterable[str], q, v, t, a, multipliers) -> dict[str, JointLoad]:
        """Return the `JointLoad` of each named joint on its body j, for a and multipliers of these equations."""

    def close_position(
        self, q, t, inverse_metric: Callable, iterations: int, direction=None, shift=None, floor=None, pivots=None
    ) -> Closed:
        """Return the configuration q ⊕ (d + W Φ_qᵀμ) with Φ = 0 that is nearest to q ⊕ d in the metric W⁻¹.

        Simplified Newton steps for μ, with the matrix Φ_q W Φ_qᵀ of q ⊕ d; differentiated implicitly.

        Args:
            q: (n,).
            t: time.
            inverse_metric: the function x ↦ W x.
            iterations: number of Newton steps.
            direction: another Φ_q (rows, m), from a configuration nearby. The matrix is then less exact, and derivatives
                take as many linear solves as the iteration takes steps.
            shift: d (m,); zero unless given.
            floor: see `factor_symmetric_semidefinite`.
            pivots: see `factor_symmetric_semidefinite`; `self.pivots` if the metric is that of M.

        Returns:
            `Closed`.
        """
        residual_at = lambda d: self.residual(self.space.retract(q, d), t)
        phi_q = direction
        if phi_q is None:
            phi_q = self.jacobian(q, t) if shift is None else jax.jacfwd(residual_at)(shift)
        shift = self.zero_velocity(q) if shift is None else shift
        by_multipliers = jax.lax.stop_gradient(inverse_metric(phi_q.T))
        solve = factor_symmetric_semidefinite(jax.lax.stop_gradient(phi_q) @ by_multipliers, floor, pivots).solve
        start = jnp.zeros(phi_q.shape[0], q.dtype)
        gap = lambda mu: residual_at(shift + by_multipliers @ mu)
        mu, change, value = newton_steps(gap, solve, start, iterations)
        # Derivatives of μ are those of a correction, which is zero; those of the metric and of Φ_q are taken here.
        reached = shift + inverse_metric(phi_q.T @ save_for_reverse(mu))
        solves = CLOSING_SOLVES if direction is None else iterations
        correction = root_near(lambda nu: residual_at(reached + by_multipliers @ nu), solve, start, solves)
        shift = reached + by_multipliers @ correction
        return Closed(self.space.retract(q, shift), shift, by_multipliers @ change, value)

    def close_velocity_along(self, q, v, t, inverse_metric: Callable, floor=None, pivots=None) -> Float[Array, " m"]:
        """Return the velocity with Φ_q v + Φ_t = 0 that is nearest to v in W⁻¹; `inverse_metric` is x ↦ W x."""
        phi_q = self.jacobian(q, t)
        matrix = factor_symmetric_semidefinite(phi_q @ inverse_metric(phi_q.T), floor, pivots)
        return v - inverse_metric(phi_q.T @ matrix.solve(self.velocity_gap(q, v, t)))

    def independent(self, q, t, floor) -> Float[Array, " rows"]:
        """Return 1 for each independent row of Φ_q, 0 for each redundant one, as `accelerations` finds them."""
        phi_q = self.jacobian(q, t)
        return factor_symmetric_semidefinite(phi_q @ self.solver.metric(q, t)(phi_q.T), floor, self.pivots(q, t)).kept


@jax.jit
def _accelerations(solver: AbstractSolver, q, v, t, correction, floor):
    """Return v̇, λ and kept by `solver.accelerations`; jit traces it once for all stages of a step and all programs."""
    return solver.accelerations(q, v, t, correction, floor)
