"""Implicit methods of index 3: they solve for positions that satisfy the constraints at the end of a step, and for λ."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxmbs.dynamics.methods.method import AbstractFixedStep, Motion, ScaledEquations
from jaxmbs.formulations.abstract import Closed
from jaxmbs.formulations.reactive import with_reactive_forces
from jaxmbs.numerics.roots import newton_by_tangents, root_near

# Number of linear solves for a derivative of a step. Only the symmetric part of the tangent is used, so each further one
# reduces the error by a factor of the order of the step, for example 1/50 if a body turns by a tenth of a radian in it.
STEP_SOLVES = 4


class AlphaCarry(NamedTuple):
    """Values carried from step to step: the motion, the auxiliary acceleration A, and λ."""

    motion: Motion
    auxiliary: Float[Array, " m"]
    multipliers: Float[Array, " rows"]


class EndOfStep(NamedTuple):
    """The equations at the end of a step. The unknowns are λ₁ and the shift of q₁ from a predicted state.

    Attributes:
        scaled: the equations and their scales.
        t: the time at the end of the step.
        floor: pivot floors of the rows, as for `solve_saddle_point`.
        q, v, a: the predicted state, the end of the step if v̇ stayed constant.
        v_by_q, a_by_q: dv₁ / dq₁ and dv̇₁ / dq₁.
    """

    scaled: ScaledEquations
    t: Float[Array, ""]
    floor: Float[Array, " rows"]
    q: Float[Array, " n"]
    v: Float[Array, " m"]
    a: Float[Array, " m"]
    v_by_q: Float[Array, ""]
    a_by_q: Float[Array, ""]

    @property
    def at_rest(self) -> Float[Array, " m"]:
        """The shift of q₁ (m,) from the predicted state for which v₁ = 0."""
        return -self.v / self.v_by_q

    def after_shift(self, shift) -> EndOfStep:
        """Return the equations with q₁ of the predicted state moved by a shift (m,), and v₁, v̇₁ accordingly."""
        q = self.scaled.equations.space.retract(self.q, shift)
        return self._replace(q=q, v=self.v + self.v_by_q * shift, a=self.a + self.a_by_q * shift)

    def balance(self, shift, multipliers) -> Float[Array, " m"]:
        """Return M v̇₁ − Q − Φ_qᵀλ after a shift."""
        equations, t, end = self.scaled.equations, self.t, self.after_shift(shift)
        q, v, a = end.q, end.v, end.a
        of_shift = lambda d: equations.residual(q + equations.space.rate(q, d), t)
        pull = jax.vjp(of_shift, equations.zero_velocity(q))[1](multipliers)[0]
        return with_reactive_forces(equations, q, v, t)[0].imbalance(q, v, a, t) - pull

    def gaps(self, unknown) -> Float[Array, " k"]:
        """Return the imbalance of forces (m,), then Φ, for the unknowns (shift, λ)."""
        shift, multipliers = self._parts(unknown)
        closing = self.scaled.equations.residual(self.after_shift(shift).q, self.t)
        return jnp.concatenate([self.balance(shift, multipliers), closing])

    def solver(self, unknown) -> Callable:
        """Return the function of gaps that gives corrections, with the symmetric part of the tangent at `unknown`."""
        equations, (shift, multipliers) = self.scaled.equations, self._parts(unknown)
        near = self.after_shift(shift)
        tangent = jax.jacfwd(near.balance)(equations.zero_velocity(near.q), multipliers)
        tangent, phi_q = jax.lax.stop_gradient(((tangent + tangent.T) / 2, equations.jacobian(near.q, self.t)))
        # Constraint forces and dampers may make the tangent indefinite if inertia is small. It is positive along the
        # constraints. Adding as much as its largest entry across them, in units of the mechanism, makes it definite.
        largest = jnp.max(jnp.abs(jnp.diagonal(tangent)) * self.scaled.units.vector**2, initial=0)
        weights = jax.lax.stop_gradient(largest / self.scaled.rows**2)
        solve = lambda force, right: equations.solve(tangent, phi_q, force, right, weights, self.floor)[:2]
        return lambda gap: jnp.concatenate(solve(*self._parts(gap)))

    def is_closed(self, unknown, change, gap, digits: float) -> Bool[Array, ""]:
        """Return True if the last correction of the shift was small; see `ScaledEquations.is_closed`."""
        shift = self._parts(unknown)[0]
        found = Closed(self.after_shift(shift).q, shift, self._parts(change)[0], self._parts(gap)[1])
        return self.scaled.is_closed(found, digits)

    def _parts(self, unknown):
        """Split unknowns (shift, λ), or gaps (balance, Φ), into these two parts."""
        n = self.scaled.equations.space.m
        return unknown[:n], unknown[n:]


class AbstractAlpha(AbstractFixedStep):
    """The step of generalized-α methods, with an auxiliary acceleration A.

        q₁ = q ⊕ (h v + h²((½ − β) A + β A₁)),  v₁ = v + h((1 − γ) A + γ A₁),
        (1 − α_m) A₁ + α_m A = (1 − α_f) v̇₁ + α_f v̇,  M v̇₁ = Q + Φ_qᵀλ and Φ = 0 at the end of the step.

    Rotations are those of Brüls and Cardona 2010, except for the last term, a displacement from where the others lead.
    Newton's method for (q₁, λ₁) uses the symmetric part of the tangent at the predicted state: inertia, damping,
    stiffness, and the change of the constraint forces when bodies turn. If it does not converge, as under dry friction,
    it takes new tangents and searches along the line.

    v₁ is then projected, Φ_q v₁ + Φ_t = 0: across the constraints A is left with a root −(½ − β) / β and v̇ with one of
    −ρ∞. Without the projection A, v and v̇ share a triple root, and if the constraints turn with q little damping is not
    enough: Arnold, Brüls and Cardona 2015.
    """

    @property
    @abc.abstractmethod
    def newmark(self) -> tuple[float, float, float, float]:
        """Coefficients α_m, α_f, β, γ of the method."""

    iterations: int = eqx.field(static=True, default=4, kw_only=True)

    def start(self, scaled, motion, t):
        """Return the carry of the first step, with A = v̇ and λ of the start."""
        multipliers = scaled.equations.accelerations(motion.q, motion.v, t)[1]
        return AlphaCarry(motion, motion.a, multipliers)

    def motion(self, carry):
        """Return the motion in a carry."""
        return carry.motion

    def step(self, scaled, carry, t, h):
        """Return the carry at t + h, and True if Newton's method converged."""
        equations, space, (q, v, a, *_) = scaled.equations, scaled.equations.space, carry.motion
        alpha_m, alpha_f, beta, gamma = self.newmark
        t = t + h
        auxiliary = (a - alpha_m * carry.auxiliary) / (1 - alpha_m)
        q = space.retract(q, h * v + h**2 * ((0.5 - beta) * carry.auxiliary + beta * auxiliary))
        v = v + h * ((1 - gamma) * carry.auxiliary + gamma * auxiliary)
        by_q = gamma / (beta * h), (1 - alpha_m) / ((1 - alpha_f) * beta * h**2)
        end = EndOfStep(scaled, t, carry.motion.floor, q, v, a, *by_q)

        multipliers = jax.lax.stop_gradient(carry.multipliers)
        begin, again = (jnp.concatenate([shift, multipliers]) for shift in (equations.zero_velocity(q), end.at_rest))
        unknown, closed = newton_by_tangents(
            end.gaps, end.solver, begin, again, space.m, self.iterations, end.is_closed
        )
        # Derivatives use the tangent at the end itself: forces that are steep there may not be so elsewhere.
        unknown = root_near(end.gaps, end.solver(jax.lax.stop_gradient(unknown)), unknown, STEP_SOLVES)
        shift, multipliers = unknown[: space.m], unknown[space.m :]

        end = end.after_shift(shift)
        q, a = end.q, end.a
        kept = jax.lax.stop_gradient(equations.independent(q, t, carry.motion.end_floor))
        v = equations.solver.close_velocity(q, end.v, t, carry.motion.end_floor)
        solved = with_reactive_forces(equations, *jax.lax.stop_gradient((q, v, t)))[1]
        auxiliary = auxiliary + shift / (beta * h**2)
        return AlphaCarry(Motion(q, v, a, kept, solved), auxiliary, multipliers), closed


class GeneralizedAlpha(AbstractAlpha):
    """The generalized-α method for constrained systems; Chung and Hulbert 1993, Arnold and Brüls 2007. Order 2.

    It is for stiff springs and dampers, and for steps longer than the period of the fastest oscillation: for linear
    systems it is stable at every step length. Low frequencies are hardly damped; in each step the highest ones are
    reduced to the fraction ρ∞.

    Args:
        rho: ρ∞ in [0, 1]. 1 damps nothing, 0 removes the highest frequencies in one step.
        iterations: number of Newton steps with one tangent. If they do not converge, new tangents are taken.

    Examples:
        >>> start = {"bob": (1, 0, jnp.pi / 2)}
        >>> method = mbs.GeneralizedAlpha(rho=0.8)
        >>> run = mbs.simulate(pendulum, jnp.array([0.0, 0.5]), start, step=0.002, method=method)
        >>> print(run.position("bob.phi").round(3))
        [1.571 0.402]
    """

    rho: float = eqx.field(static=True, default=0.9)
    order: ClassVar[int] = 2

    def __check_init__(self):
        """Raise `ValueError` unless rho is in [0, 1]."""
        if not 0 <= self.rho <= 1:
            raise ValueError(f"rho must lie between 0 and 1, got {self.rho}")

    @property
    def newmark(self):
        """Coefficients α_m, α_f, β, γ that give the spectral radius ρ∞ = `rho` at infinite frequency."""
        alpha_m = (2 * self.rho - 1) / (self.rho + 1)
        alpha_f = self.rho / (self.rho + 1)
        gamma = 0.5 + alpha_f - alpha_m
        return alpha_m, alpha_f, (gamma + 0.5) ** 2 / 4, gamma


class HHT(AbstractAlpha):
    """The method of Hilber, Hughes and Taylor 1977 for constrained systems of index 3. Order 2.

    Forces are weighted between both ends of a step, accelerations are taken at its end. Its uses are those of
    `GeneralizedAlpha`, which damps low frequencies less for the same damping of high ones.

    Args:
        alpha: in [−1/3, 0]; 0 is the trapezoidal rule without damping.
        iterations: number of Newton steps with one tangent.

    Examples:
        >>> start = {"bob": (1, 0, jnp.pi / 2)}
        >>> method = mbs.HHT(alpha=-0.1)
        >>> run = mbs.simulate(pendulum, jnp.array([0.0, 0.5]), start, step=0.002, method=method)
        >>> print(run.position("bob.phi").round(3))
        [1.571 0.402]
    """

    alpha: float = eqx.field(static=True, default=-0.05)
    order: ClassVar[int] = 2

    def __check_init__(self):
        """Raise `ValueError` unless alpha is in [−1/3, 0]."""
        if not -1 / 3 <= self.alpha <= 0:
            raise ValueError(f"alpha must lie between -1/3 and 0, got {self.alpha}")

    @property
    def newmark(self):
        """Coefficients α_m = 0, α_f, β, γ for α = `alpha`."""
        return 0.0, -self.alpha, (1 - self.alpha) ** 2 / 4, 0.5 - self.alpha
