"""Implicit methods of index 3: positions satisfy the constraints at the end of a step, multipliers come with it."""

from __future__ import annotations

import abc
from functools import partial
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.dynamics.methods.method import AbstractFixedStep, Motion
from jaxmbs.formulations.equations import Closed
from jaxmbs.numerics.roots import newton_by_tangents, root_near

# Refinements of the derivatives: the tangent is that of the predicted state, its symmetric part only, so each gains a
# factor of the size of a step, 1/50 where a body turns by a tenth of a radian in it.
REFINEMENTS = 4


class Newmark(NamedTuple):
    """The numbers of a generalized-α method: α_m, α_f, β, γ."""

    alpha_m: float
    alpha_f: float
    beta: float
    gamma: float


class AlphaState(NamedTuple):
    """Motion, the method's own acceleration A, and multipliers."""

    motion: Motion
    auxiliary: Float[Array, " m"]
    multipliers: Float[Array, " rows"]


class AbstractAlpha(AbstractFixedStep):
    """q₁ = q ⊕ (h v + h²((½ − β) A + β A₁)), v₁ = v + h((1 − γ) A + γ A₁),
    (1 − α_m) A₁ + α_m A = (1 − α_f) v̇₁ + α_f v̇, with M v̇₁ = Q + Φ_qᵀλ and Φ = 0 at the end of the step.

    Rotations as by Brüls and Cardona 2010, but for the last term, a displacement from where the others lead.
    Newton's method for (q₁, λ₁) with the tangent at the predicted state: inertia, damping, stiffness, and what the
    constraint forces do when bodies turn. Its symmetric part is used. Velocities at output are projected.
    """

    @property
    @abc.abstractmethod
    def newmark(self) -> Newmark:
        """The method's numbers."""

    iterations: int = eqx.field(static=True, default=5, kw_only=True)

    def start(self, problem, motion, t):
        multipliers = problem.equations.accelerations(motion.q, motion.v, t)[1]
        return AlphaState(motion, motion.a, multipliers)

    def motion(self, state):
        return state.motion

    def step(self, problem, state, t, h):
        equations, space, (q, v, a, *_) = problem.equations, problem.equations.space, state.motion
        alpha_m, alpha_f, beta, gamma = self.newmark
        t = t + h
        by_q = (1 - alpha_m) / ((1 - alpha_f) * beta * h**2)  # dv̇₁ / dq₁
        rate_by_q = gamma / (beta * h)  # dv₁ / dq₁

        # The state if v̇ does not change; the unknown is the shift of q₁ from there.
        auxiliary = (a - alpha_m * state.auxiliary) / (1 - alpha_m)
        q_1 = space.retract(q, h * v + h**2 * ((0.5 - beta) * state.auxiliary + beta * auxiliary))
        v_1 = v + h * ((1 - gamma) * state.auxiliary + gamma * auxiliary)

        n, still = space.m, equations.still(q)
        floor = state.motion.floor

        def balance(begin, shift, multipliers):
            """M v̇₁ − Q − Φ_qᵀλ."""
            moved, moving, rates = moved_by(begin, shift)
            of_shift = lambda d: equations.residual(moved + space.rate(moved, d), t)
            pull = jax.vjp(of_shift, still)[1](multipliers)[0]
            given = equations.settled(moved, moving, t)[0]
            return given.imbalance(moved, moving, rates, t) - pull

        def moved_by(begin, shift):
            q, v, a = begin
            return space.retract(q, shift), v + rate_by_q * shift, a + by_q * shift

        predicted = q_1, v_1, a

        def gaps(unknown):
            shift, multipliers = unknown[:n], unknown[n:]
            closing = equations.residual(space.retract(q_1, shift), t)
            return jnp.concatenate([balance(predicted, shift, multipliers), closing])

        def solver(unknown):
            begin = moved_by(predicted, unknown[:n])
            tangent = jax.jacfwd(partial(balance, begin))(still, unknown[n:])
            tangent, phi_q = jax.lax.stop_gradient(((tangent + tangent.T) / 2, equations.jacobian(begin[0], t)))
            # Constraint forces and dampers leave the tangent indefinite where inertia is small. Along the constraints it
            # is positive; as much as its largest entry across them, in units of the mechanism, makes it so altogether.
            largest = jnp.max(jnp.abs(jnp.diagonal(tangent)) * problem.units.vector**2, initial=0)
            weights = jax.lax.stop_gradient(largest / problem.rows**2)
            return lambda gap: jnp.concatenate(equations.solve(tangent, phi_q, gap[:n], gap[n:], weights, floor)[:2])

        def good(unknown, change, gap):
            shift = unknown[:n]
            return problem.settled(Closed(space.retract(q_1, shift), shift, change[:n], gap[n:]))

        start = jax.lax.stop_gradient(jnp.concatenate([still, state.multipliers]))
        rest = start.at[:n].set(-v_1 / rate_by_q)
        unknown, closed = newton_by_tangents(gaps, solver, start, rest, n, self.iterations, good)
        unknown = root_near(gaps, solver(jax.lax.stop_gradient(unknown)), unknown, REFINEMENTS)
        shift, multipliers = unknown[:n], unknown[n:]
        q_end = space.retract(q_1, shift)
        kept = jax.lax.stop_gradient(equations.independent(q_end, t, state.motion.revived))
        v_end = equations.close_velocity(q_end, v_1 + rate_by_q * shift, t, state.motion.revived)
        solved = equations.settled(*jax.lax.stop_gradient((q_end, v_end, t)))[1]
        motion = Motion(q_end, v_end, a + by_q * shift, kept, solved)
        auxiliary = auxiliary + shift / (beta * h**2)
        return AlphaState(motion, auxiliary, multipliers), closed


class GeneralizedAlpha(AbstractAlpha):
    """The generalized-α method for constrained systems; Chung and Hulbert 1993, Arnold and Brüls 2007. Order 2.

    It is for stiff springs and dampers, and for steps longer than the period of the fastest oscillation: for linear
    systems it is stable at every step length. Low frequencies are hardly damped; in each step the highest ones are
    reduced to the fraction ρ∞.

    Args:
        rho: ρ∞ in [0, 1]. 1 damps nothing, 0 removes the highest frequencies in one step.
        iterations: number of Newton steps in each step; it is fixed.

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
        if not 0 <= self.rho <= 1:
            raise ValueError(f"rho must lie between 0 and 1, got {self.rho}")

    @property
    def newmark(self):
        alpha_m = (2 * self.rho - 1) / (self.rho + 1)
        alpha_f = self.rho / (self.rho + 1)
        gamma = 0.5 + alpha_f - alpha_m
        return Newmark(alpha_m, alpha_f, (gamma + 0.5) ** 2 / 4, gamma)


class HHT(AbstractAlpha):
    """The method of Hilber, Hughes and Taylor 1977 for constrained systems of index 3. Order 2.

    Forces are weighted between both ends of a step, accelerations are taken at its end. Its uses are those of
    `GeneralizedAlpha`, which damps low frequencies less for the same damping of high ones.

    Args:
        alpha: in [−1/3, 0]; 0 is the trapezoidal rule without damping.
        iterations: Newton steps, fixed.

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
        if not -1 / 3 <= self.alpha <= 0:
            raise ValueError(f"alpha must lie between -1/3 and 0, got {self.alpha}")

    @property
    def newmark(self):
        return Newmark(0.0, -self.alpha, (1 - self.alpha) ** 2 / 4, 0.5 - self.alpha)
