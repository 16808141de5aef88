"""Equations with M and Φ_q as matrices, at a cost that grows with the cube of their size."""

from __future__ import annotations

import jax.numpy as jnp

from jaxmbs.formulations.abstract import AbstractEquations, AbstractSolver
from jaxmbs.numerics.implicit import jacobian, rate, second_rate
from jaxmbs.numerics.linear_algebra import factor_symmetric_positive, factor_symmetric_semidefinite


class Dense(AbstractSolver):
    """Solver with the Schur complement Φ_q M⁻¹ Φ_qᵀ, and the supporting rows added to M."""

    equations: AbstractEquations

    def accelerations(self, q, v, t, correction, floor):
        """Return v̇, λ and kept, with `correction` added to γ and pivots of at most `floor` left out."""
        given = self.equations
        gamma = -second_rate(given.residual, given.space, q, v, given.zero_velocity(q), t) + correction
        mass, phi_q, pivots = given.mass(q, t), given.jacobian(q, t), given.pivots(q, t)
        return given.solve(mass, phi_q, given.force(q, v, t), gamma, floor=floor, pivots=pivots)

    def metric(self, q, t):
        """Return the function x ↦ (M + supporting rows)⁻¹ x."""
        given = self.equations
        support = given.support().matrix(given.jacobian(q, t))
        factored = factor_symmetric_positive if given.definite else factor_symmetric_semidefinite
        return factored(given.mass(q, t) + support).solve

    def close_velocity(self, q, v, t, floor=None):
        """Return the velocity with Φ_q v + Φ_t = 0 that is nearest to v in the metric M."""
        given = self.equations
        mass, phi_q = given.mass(q, t), given.jacobian(q, t)
        right = -given.velocity_gap(q, given.zero_velocity(q), t)
        return given.solve(mass, phi_q, mass @ v, right, floor=floor, pivots=given.pivots(q, t))[0]

    def glide(self, motion, v, t, h, iterations):
        """Return the configuration closed after the step h v along the Φ_q of its start, and the closed velocity."""
        given, q = self.equations, motion.q
        direction, metric, pivots = given.jacobian(q, t), self.metric(q, t), given.pivots(q, t)
        closed = given.close_position(q, t + h, metric, iterations, direction, h * v, motion.floor, pivots)
        return closed, self.close_velocity(closed.q, closed.shift / h, t + h, motion.end_floor)


class AbstractDenseEquations(AbstractEquations):
    """Equations in coordinates that are never singular, with Φ_q by differentiation of Φ; its rows are scaled by Φ_q."""

    @property
    def inertial_efforts(self):
        """(): such forces are not part of M."""
        return ()

    @property
    def solver(self):
        """Solver with M and Φ_q as matrices."""
        return Dense(self)

    def imbalance(self, q, v, a, t):
        """Return M v̇ − Q for the accelerations a = v̇."""
        return self.mass(q, t) @ a - self.force(q, v, t)

    def jacobian(self, q, t):
        """Return Φ_q by differentiation of Φ."""
        return jacobian(self.residual, self.space, q, t)

    def velocity_gap(self, q, v, t):
        """Return Φ̇ = Φ_q v + Φ_t by differentiation of Φ."""
        return rate(self.residual, self.space, q, v, t)

    def singular(self, q, v, t, h):
        """Return False: these coordinates are never singular."""
        return jnp.asarray(False)

    def scaling_rows(self, q, t):
        """Return Φ_q, the extent (m,) of q that each velocity changes, and (m,) True for angles."""
        return self.jacobian(q, t), self.space.extent(q), self.space.angular

    def pivots(self, q, t):
        """Return None: nothing cancels in Φ_q."""
        return None

    def with_scales(self, scales):
        """Return these equations unchanged: they do not use scales."""
        return self
