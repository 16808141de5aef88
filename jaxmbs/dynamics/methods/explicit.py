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
    """Return d and v after a step of the classical Runge–Kutta method from q to q ⊕ d, and True if all stages are closed.

    With rotations this is the method of Munthe-Kaas: the unknown is the displacement from the beginning of the step, so
    that a steady rotation is exact.

    Args:
        rates: function of (d, v, t) that returns ḋ, v̇ and True if the stage is closed.
        motion: the motion at the beginning of the step.
        t: time at the beginning of the step.
        h: length of the step.
        written_out: True to write the stages one after the other, not as a loop.

    Returns:
        d (m,), v (m,), and a bool.
    """
    v, a = motion.v, motion.a

    def stage(carry, row):
        """Return the carry after one more stage; `row` has its part of the step and its weight."""
        (d_s, v_s), (sum_d, sum_v), closed = carry
        part, weight = row
        d_s, v_s, now = rates(part * h * d_s, v + part * h * v_s, t + part * h)
        return ((d_s, v_s), (sum_d + weight * d_s, sum_v + weight * v_s), closed & now), None

    parts, weights = np.array([0.5, 0.5, 1.0], v.dtype), np.array([2.0, 2.0, 1.0], v.dtype)
    carry = (v, a), (v, a), jnp.asarray(True)
    if written_out:
        for row in zip(parts, weights, strict=True):
            carry, _ = stage(carry, row)
    else:
        carry, _ = jax.lax.scan(stage, carry, (parts, weights))
    _, (sum_d, sum_v), closed = carry
    return h / 6 * sum_d, v + h / 6 * sum_v, closed


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

    def step(self, scaled, motion, t, h):
        """Return the `Motion` at t + h, and True if it is closed."""
        space = scaled.equations.space

        def rates(d, v, t):
            """Return ḋ, v̇ and True for the displacement d from the start of the step."""
            q = space.retract(motion.q, d)
            return space.chart_rate(d, v), self.closure.accelerations(scaled, motion, q, v, t), jnp.asarray(True)

        d, v, _ = runge_kutta_4(rates, motion, t, h, written_out=unrolling_pays(space.m))
        return self.closure.close(scaled, motion, space.retract(motion.q, d), v, t + h)


class SemiImplicitEuler(FixedStep):
    """Semi-implicit Euler: v ← v + h v̇, then q ← q ⊕ h v. Order 1, one evaluation; projection as in SHAKE and RATTLE.

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

    def step(self, scaled, motion, t, h):
        """Return the `Motion` at t + h, and True if it is closed."""
        return self.closure.glide(scaled, motion, motion.v + h * motion.a, t, h)


class CoordinatePartitioning(FixedStep):
    """Wehage and Haug's method: Runge–Kutta of order 4 in independent coordinates; the constraints give the others.

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

    def step(self, scaled, motion, t, h):
        """Return the `Motion` at t + h, and True if all stages and the end are closed."""
        equations, unit = scaled.equations, scaled.units.vector
        # Redundant rows contain only rounding, which must not become a pivot.
        rows = motion.kept[:, None] * equations.jacobian(motion.q, t)
        inverse_metric = diagonal(dependent_columns(rows * unit[None, :]).astype(motion.q.dtype))

        def close(d, v, t):
            """Return the `Motion` with dependent coordinates solved for, its displacement, and True if closed."""
            closed = equations.close_position(motion.q, t, inverse_metric, self.iterations, shift=d, floor=motion.floor)
            v = equations.close_velocity_along(closed.q, v, t, inverse_metric, motion.floor)
            return Motion.of(equations, closed.q, v, t, motion.end_floor), closed.shift, scaled.is_closed(closed)

        def rates(d, v, t):
            """Return ḋ, v̇ and True if the stage is closed."""
            stage, d, is_closed = close(d, v, t)
            return equations.space.chart_rate(d, stage.v), stage.a, is_closed

        d, v, stages_closed = runge_kutta_4(rates, motion, t, h)
        end, _, is_closed = close(d, v, t + h)
        return end, stages_closed & is_closed
