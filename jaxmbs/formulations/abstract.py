"""Equations of constrained motion, whatever the formulation: M v̇ = Q(q, v, t) + Φ_qᵀλ with Φ(q, t) = 0, q̇ = N(q) v.

M depends on q, and on t where coordinates that are known in time have been eliminated.

A formulation gives M, Q and Φ, and a solver: accelerations, and the closing of positions and velocities. Configurations lie
in a `Space`, Φ_q stands for the derivative by displacements. Everything is array code of one sample, to become a
straight-line program as a whole.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxmbs.forces.joint.reactive import Load
from jaxmbs.formulations.reactive import with_reactive_forces
from jaxmbs.numerics.linear_algebra import Support, factor_symmetric_semidefinite, solve_saddle_point
from jaxmbs.numerics.roots import newton_steps, root_near
from jaxmbs.numerics.scaling import Units, unit_of_length
from jaxmbs.numerics.space import Space
from jaxmbs.programs.primitive import remembered
from jaxmbs.system.mechanism import Mechanism

# If masses differ much, the weight of the supporting rows is multiplied by this power of the rounding unit. It is then
# below the largest masses, so that the motion of a light body is not lost in rounding, and above those of light bodies.
LIGHT_WEIGHT_POWER = 1 / 4
# Refinements of the derivatives of `close_position`: the matrix is that of the point where the iteration begins, so two
# are right to the square of the first correction.
REFINEMENTS = 2


class Closed(NamedTuple):
    """A configuration brought back to the constraints.

    Attributes:
        q: the configuration. shift: its displacement from where the search began. change: the last correction of that.
        gap: Φ before it.
    """

    q: Float[Array, " n"]
    shift: Float[Array, " m"]
    change: Float[Array, " m"]
    gap: Float[Array, " rows"]


class Scales(NamedTuple):
    """What gaps and pivots of a system are judged by.

    Attributes:
        length: of coordinates that are lengths.
        rows: what a unit of the coordinate that matters most does to each row of Φ.
        pivots: the diagonal of Φ_q M⁻¹ Φ_qᵀ as it would be if nothing cancelled in Φ_q; None where nothing can.
    """

    length: Float[Array, ""]
    rows: Float[Array, " rows"]
    pivots: Float[Array, " rows"] | None


class AbstractSolver(eqx.Module):
    """How equations are solved for accelerations, and velocities and positions closed; see `AbstractEquations`."""

    @abc.abstractmethod
    def accelerations(self, q, v, t, correction, floor) -> tuple[Array, Array, Array]:
        """(v̇, λ, kept), with `correction` added to γ = −(Φ_q v)_q v − 2 Φ_qt v − Φ_tt."""

    @abc.abstractmethod
    def metric(self, q, t) -> Callable:
        """x ↦ M⁻¹ x; closing with it is orthogonal to the constraints in the sense of M."""

    @abc.abstractmethod
    def close_velocity(self, q, v, t, floor) -> Float[Array, " m"]:
        """The velocity with Φ_q v + Φ_t = 0 that is nearest to v in the sense of M."""

    @abc.abstractmethod
    def glide(self, motion, v, t, h, iterations: int) -> tuple[Closed, Float[Array, " m"]]:
        """Where a step of length h leads from a `Motion` with the velocity v, constraint forces acting in the directions
        that they have at its start, and the velocity then, as in SHAKE and RATTLE."""


class AbstractEquations(eqx.Module):
    """M(q, t) v̇ = Q(q, v, t) + Φ_qᵀλ, Φ(q, t) = 0, with q (n,), v (m,), Φ (rows,).

    Attributes:
        mech: the mechanism.
        own_coordinates: whether q and v are others than those of the bodies, as in `Mechanism.coordinates`.
    """

    if TYPE_CHECKING:

        @property
        def mech(self) -> Mechanism: ...

    own_coordinates: ClassVar[bool]

    @abc.abstractmethod
    def mass(self, q, t) -> Float[Array, "m m"]:
        """M, symmetric, without negative eigenvalues."""

    @abc.abstractmethod
    def force(self, q, v, t) -> Float[Array, " m"]:
        """Q, all that is not a constraint force."""

    @abc.abstractmethod
    def imbalance(self, q, v, a, t) -> Float[Array, " m"]:
        """M v̇ − Q."""

    @abc.abstractmethod
    def residual(self, q, t) -> Float[Array, " rows"]:
        """Φ."""

    @abc.abstractmethod
    def jacobian(self, q, t) -> Float[Array, "rows m"]:
        """Φ_q."""

    @abc.abstractmethod
    def velocity_gap(self, q, v, t) -> Float[Array, " rows"]:
        """Φ_q v + Φ_t."""

    @property
    @abc.abstractmethod
    def space(self) -> Space:
        """The space of the configurations q."""

    @property
    @abc.abstractmethod
    def supporting(self) -> np.ndarray:
        """Rows of Φ without which M could leave a coordinate without inertia."""

    @property
    @abc.abstractmethod
    def definite(self) -> bool:
        """True if M plus the terms of the supporting rows is sure to be positive definite."""

    @property
    @abc.abstractmethod
    def weight(self) -> Float[Array, ""]:
        """A typical mass of the system."""

    @property
    @abc.abstractmethod
    def solver(self) -> AbstractSolver:
        """The method that solves these equations."""

    @property
    @abc.abstractmethod
    def from_allowed(self) -> bool:
        """True if `from_bodies` needs velocities that the joints allow, because it does not project others onto them."""

    @abc.abstractmethod
    def from_bodies(self, q, v, t) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        """Coordinates and velocities of these equations for a state of the bodies as in `Mechanism.coordinates`; the
        nearest one, where it does not satisfy what these coordinates take for granted."""

    @abc.abstractmethod
    def to_bodies(self, q, v, a, t) -> tuple[Array, Array, Array]:
        """Coordinates, velocities and accelerations of the bodies."""

    @abc.abstractmethod
    def multipliers(self, q, v, t, a=None) -> Float[Array, " rows"]:
        """λ of the constraints and drivers of the mechanism, for the accelerations a if these are known already. Where they
        are redundant with the smallest norm: of λ in units of the mechanism, which is the plain norm if all rows are
        lengths, as those of revolute joints are."""

    @abc.abstractmethod
    def singular(self, q, v, t, h) -> Bool[Array, ""]:
        """Whether the coordinates are singular, or so near to where they are that a step of length h does not see it."""

    @abc.abstractmethod
    def scaling_rows(self, q, t) -> tuple[Float[Array, "rows k"], Float[Array, " k"], np.ndarray]:
        """Φ_q by the coordinates in which gaps are judged, what these are, and which of them are angles."""

    @abc.abstractmethod
    def pivots(self, q, t) -> Float[Array, " rows"] | None:
        """See `Scales`."""

    @abc.abstractmethod
    def with_scales(self, scales: Scales) -> AbstractEquations:
        """The same equations, which take `Scales` for granted instead of finding them in each configuration."""

    def support(self, rows: np.ndarray, weights=None) -> Support:
        """The `Support` by some rows, with the usual weights unless others are given."""
        if weights is None:
            weights = jnp.asarray(self.weight)
            weights = weights * jnp.finfo(weights.dtype).eps ** LIGHT_WEIGHT_POWER if self.mech._light else weights
        eased = any(all(body.massless) for body in self.mech.bodies.values())
        weights = jnp.broadcast_to(jnp.reshape(weights, (-1,)), rows.shape)
        return Support(rows, weights, self.angular if eased else None)

    @property
    def angular(self) -> np.ndarray:
        """(m,) which velocities are rates of angles."""
        return self.space.angular

    def scales(self, q, t) -> Scales:
        """Scales for gaps and pivots in this configuration and similar ones."""
        rows, extent, angular = self.scaling_rows(q, t)
        length = jnp.maximum(unit_of_length(rows, extent, angular), self.mech.own_length.astype(q.dtype))
        return Scales(length, Units(angular, length).rows(rows), self.pivots(q, t))

    def zero_velocity(self, q) -> Float[Array, " m"]:
        """v = 0."""
        return jnp.zeros(self.space.m, q.dtype)

    def solve(self, matrix, phi_q, force, right, weights=None, floor=None, pivots=None):
        """(a, λ, kept) with `matrix` a = force + Φ_qᵀλ and Φ_q a = right, for M or another matrix in its place.

        ρ Φ_qᵀ(Φ_q a − right) of the supporting rows is added. This changes no solution and acts as an inertia for
        coordinates that have none, or little.
        weights: ρ of each row; if given, all rows support. Then a matrix that is positive definite along the constraints
        becomes positive definite. floor, pivots: see `solve_saddle_point`.
        """
        chosen = self.supporting if weights is None else np.arange(phi_q.shape[0])
        support = self.support(chosen, weights)
        refined = bool(self.mech._light) or support.angular is not None
        return solve_saddle_point(
            matrix, phi_q, force, right, floor, pivots, definite=self.definite, support=support, refined=refined
        )

    def accelerations(self, q, v, t, correction: Float[Array, " rows"] | float = 0.0, floor=None):
        """(v̇, λ, kept), see `AbstractSolver`."""
        return _accelerations(
            self.with_reactive_forces(q, v, t, correction, floor)[0].solver, q, v, t, correction, floor
        )

    def with_reactive_forces(
        self, q, v, t, correction=0.0, floor=None
    ) -> tuple[AbstractEquations, Bool[Array, ""] | None]:
        """The same equations with the sizes of forces that depend on accelerations and reactions, as they are in this
        state, and whether these have a common solution; None where there are no such forces."""
        return with_reactive_forces(self, q, v, t, correction, floor)

    @abc.abstractmethod
    def loads(self, joints, q, v, t, a, multipliers) -> dict[str, Load]:
        """What joints of these names do to their bodies j, for the accelerations a and the multipliers of these
        equations."""

    def metric(self, q, t) -> Callable:
        """x ↦ M⁻¹ x, see `AbstractSolver`."""
        return self.solver.metric(q, t)

    def close_velocity(self, q, v, t, floor=None) -> Float[Array, " m"]:
        """The nearest velocity with Φ_q v + Φ_t = 0, see `AbstractSolver`."""
        return self.solver.close_velocity(q, v, t, floor)

    def glide(self, motion, v, t, h, iterations: int) -> tuple[Closed, Float[Array, " m"]]:
        """A step of a given velocity, see `AbstractSolver`."""
        return self.solver.glide(motion, v, t, h, iterations)

    def close_position(
        self, q, t, inverse_metric: Callable, iterations: int, direction=None, shift=None, floor=None, pivots=None
    ) -> Closed:
        """The configuration q ⊕ (d + W Φ_qᵀμ) with Φ = 0, where W is the inverse metric and d the `shift`, zero unless
        given: what is added to it is smallest in the metric W⁻¹.

        Simplified Newton steps for μ, with the matrix Φ_q W Φ_qᵀ of q ⊕ d. Differentiated implicitly.
        direction: another Φ_q (rows, m), from a configuration nearby. The matrix is then less exact, and derivatives take
        as many refinements as the iteration takes steps.
        floor, pivots: see `factor_symmetric_semidefinite`; `self.pivots` if the metric is that of M.
        """
        moved = lambda d: self.residual(self.space.retract(q, d), t)
        phi_q = direction
        if phi_q is None:
            phi_q = self.jacobian(q, t) if shift is None else jax.jacfwd(moved)(shift)
        shift = self.zero_velocity(q) if shift is None else shift
        by_multipliers = jax.lax.stop_gradient(inverse_metric(phi_q.T))
        solve = factor_symmetric_semidefinite(jax.lax.stop_gradient(phi_q) @ by_multipliers, floor, pivots).solve
        start = jnp.zeros(phi_q.shape[0], q.dtype)
        gap = lambda mu: moved(shift + by_multipliers @ mu)
        mu, change, value = newton_steps(gap, solve, start, iterations)
        # What μ does depends on the metric and on Φ_q; how μ itself changes is a correction, which is zero.
        reached = shift + inverse_metric(phi_q.T @ remembered(mu))
        refinements = REFINEMENTS if direction is None else iterations
        correction = root_near(lambda nu: moved(reached + by_multipliers @ nu), solve, start, refinements)
        shift = reached + by_multipliers @ correction
        return Closed(self.space.retract(q, shift), shift, by_multipliers @ change, value)

    def close_velocity_along(self, q, v, t, inverse_metric: Callable, floor=None, pivots=None) -> Float[Array, " m"]:
        """As `close_velocity`, for another metric."""
        phi_q = self.jacobian(q, t)
        matrix = factor_symmetric_semidefinite(phi_q @ inverse_metric(phi_q.T), floor, pivots)
        return v - inverse_metric(phi_q.T @ matrix.solve(self.velocity_gap(q, v, t)))

    def independent(self, q, t, floor) -> Float[Array, " rows"]:
        """1 for each row of Φ_q that counts, 0 for those that depend on others, as `accelerations` finds them."""
        phi_q = self.jacobian(q, t)
        return factor_symmetric_semidefinite(phi_q @ self.metric(q, t)(phi_q.T), floor, self.pivots(q, t)).kept


@jax.jit
def _accelerations(solver: AbstractSolver, q, v, t, correction, floor):
    """`AbstractSolver.accelerations`, traced once for all stages of a step and all programs."""
    return solver.accelerations(q, v, t, correction, floor)
