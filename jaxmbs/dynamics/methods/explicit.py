"""Explicit methods with fixed steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.dynamics.closure import AbstractClosure, Projection
from jaxmbs.dynamics.methods.method import FixedStep, Motion
from jaxmbs.numerics.linear_algebra import dependent_columns, diagonal
from jaxmbs.programs import unrolling_pays


def runge_kutta_4(rates: Callable, motion: Motion, t, h, *, written_out: bool = False):
    """d and v after a step of the classical Runge–Kutta method, q ⊕ d, and whether all stages went well.

    With rotations this is the method of Munthe-Kaas: the unknown is the displacement from the beginning of the step, so
    that a steady rotation is exact.
    rates: (d, v, t) ↦ (ḋ, v̇, whether all is well) at a stage. written_out: the stages one after the other, not as a loop.
    """
    v, a = motion.v, motion.a

    def stage(carry, row):
        (d_s, v_s), (sum_d, sum_v), well = carry
        part, weight = row
        d_s, v_s, now = rates(part * h * d_s, v + part * h * v_s, t + part * h)
        return ((d_s, v_s), (sum_d + weight * d_s, sum_v + weight * v_s), well & now), None

    parts, weights = np.array([0.5, 0.5, 1.0], v.dtype), np.array([2.0, 2.0, 1.0], v.dtype)
    carry = (v, a), (v, a), jnp.asarray(True)
    if written_out:
        for row in zip(parts, weights, strict=True):
            carry, _ = stage(carry, row)
    else:
        carry, _ = jax.lax.scan(stage, carry, (parts, weights))
    _, (sum_d, sum_v), well = carry
    return h / 6 * sum_d, v + h / 6 * sum_v, well


class RK4(FixedStep):
    """The classical Runge–Kutta method: order 4, four evaluations in each step.

    This is the default, and the method to begin with. By default, constraints are satisfied to rounding. It damps a
    little: in a step of length h an oscillation of frequency ω loses (ωh)⁶/72 of its energy. It is stable for ωh <
    2.8. For stiff springs and dampers take `GeneralizedAlpha`.

    Args:
        closure: `Projection()` or `Baumgarte()`.

    Examples:
        >>> start = {"bob": (1, 0, jnp.pi / 2)}
        >>> run = mbs.simulate(pendulum, jnp.array([0.0, 0.5]), start, step=0.01, method=mbs.RK4())
        >>> print(run.position("bob.phi").round(3))
        [1.571 0.402]
    """

    closure: AbstractClosure = Projection()
    order: ClassVar[int] = 4

    def step(self, problem, state, t, h):
        space = problem.equations.space

        def rates(d, v, t):
            q = space.retract(state.q, d)
            return space.chart_rate(d, v), self.closure.accelerations(problem, state, q, v, t, h), jnp.asarray(True)

        d, v, _ = runge_kutta_4(rates, state, t, h, written_out=unrolling_pays(space.m))
        return self.closure.close(problem, state, space.retract(state.q, d), v, t + h, h)


class SemiImplicitEuler(FixedStep):
    """v ← v + h v̇, then q ← q ⊕ h v: order 1, one evaluation; with projection as in SHAKE and RATTLE.

    It is symplectic: the energy oscillates by an amount of order h but does not drift, however long the run, at steps
    with ωh < 2. This does not hold for bodies that spin freely in space, whose gyroscopic forces are taken at the
    beginning of a step. Use it for reinforcement learning, and for long runs of conservative systems, where many
    rough steps are worth more than a few accurate ones.

    Args:
        closure: `Projection()` or `Baumgarte()`.

    Examples:
        >>> start = {"bob": (1, 0, jnp.pi / 2)}
        >>> run = mbs.simulate(pendulum, jnp.array([0.0, 0.5]), start, step=0.001, method=mbs.SemiImplicitEuler())
        >>> print(run.position("bob.phi").round(2))
        [1.57 0.4 ]
    """

    closure: AbstractClosure = Projection(iterations=4)
    order: ClassVar[int] = 1

    def step(self, problem, state, t, h):
        return self.closure.glide(problem, state, state.v + h * state.a, t, h)


class CoordinatePartitioning(FixedStep):
    """Wehage and Haug's method: independent coordinates are integrated by Runge–Kutta, order 4; the others follow
    from the constraints.

    In every step the independent coordinates are chosen anew, by elimination in Φ_q with column pivoting. At every
    stage the dependent positions come from Φ = 0 by Newton's method, and the dependent velocities from Φ_q v = ν.
    Damping and stability are those of `RK4` in the independent coordinates. It costs more than `RK4`, since every stage
    is closed. Stages never leave the constraints, which matters where forces are singular off them.

    Args:
        iterations: Newton steps at each stage.

    Examples:
        >>> start = {"bob": (1, 0, jnp.pi / 2)}
        >>> method = mbs.CoordinatePartitioning()
        >>> run = mbs.simulate(pendulum, jnp.array([0.0, 0.5]), start, step=0.01, method=method)
        >>> print(run.position("bob.phi").round(3))
        [1.571 0.402]
    """

    iterations: int = eqx.field(static=True, default=4)
    order: ClassVar[int] = 4

    def step(self, problem, state, t, h):
        equations, unit = problem.equations, problem.units.vector
        # Rows that do not count have rounding in them, which is not a pivot.
        rows = state.kept[:, None] * equations.jacobian(state.q, t)
        inverse_metric = diagonal(dependent_columns(rows * unit[None, :]).astype(state.q.dtype))

        def closed(d, v, t):
            closed = equations.close_position(state.q, t, inverse_metric, self.iterations, shift=d, floor=state.floor)
            v = equations.close_velocity_along(closed.q, v, t, inverse_metric, state.floor)
            return Motion.of(equations, closed.q, v, t, state.revived), closed.shift, problem.settled(closed)

        def rates(d, v, t):
            motion, d, settled = closed(d, v, t)
            return equations.space.chart_rate(d, motion.v), motion.a, settled

        d, v, well = runge_kutta_4(rates, state, t, h)
        motion, _, settled = closed(d, v, t + h)
        return motion, well & settled
