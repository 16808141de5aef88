"""Closures, by which explicit methods keep the constraints: projection after each step, or stabilised accelerations."""

from __future__ import annotations

import abc

import equinox as eqx
import jax.numpy as jnp

from jaxmbs.dynamics.methods.method import Motion, ScaledEquations
from jaxmbs.formulations.reactive import with_reactive_forces


class AbstractClosure(eqx.Module):
    """Accelerations within a step, and closing of the state at its end."""

    @abc.abstractmethod
    def accelerations(self, scaled: ScaledEquations, motion: Motion, q, v, t):
        """Return v̇ (m,) at the stage (q, v, t) of a step that begins with `motion`."""

    @abc.abstractmethod
    def close(self, scaled: ScaledEquations, motion: Motion, q, v, t):
        """Return the `Motion` at the end of a step from `motion`, for the predicted q, v, and True if it is closed."""

    @abc.abstractmethod
    def glide(self, scaled: ScaledEquations, motion: Motion, v, t, h):
        """Return the `Motion` after a step with the velocity v, and True if it is closed.

        The velocity is constant except for the constraint forces at the start of the step.
        """


class Projection(AbstractClosure):
    """Projection of positions, then velocities, to the nearest ones that satisfy the constraints.

    Distances are measured with the mass matrix. Gaps are at rounding level for any step length, and the method keeps its
    order. A step that is too long to be closed gives the status NOT_CONVERGED.

    Args:
        iterations: number of Newton steps for the positions, all with the same matrix. The first reduces a gap δ to
            about δ², each further one multiplies it by about δ.

    Examples:
        >>> method = mbs.RK4(closure=mbs.Projection(iterations=2))
        >>> run = mbs.simulate(pendulum, jnp.array([0.0, 1.0]), {"bob": (1, 0, jnp.pi / 2)}, step=0.02, method=method)
        >>> print(jnp.hypot(run.position("bob.x"), run.position("bob.y")).round(9))  # the length stays
        [1. 1.]
    """

    iterations: int = eqx.field(static=True, default=3)

    def accelerations(self, scaled, motion, q, v, t):
        """Return v̇ (m,) of the equations, unchanged by the closure."""
        return scaled.equations.accelerations(q, v, t, floor=motion.floor)[0]

    def close(self, scaled, motion, q, v, t):
        """Return the `Motion` with q and v projected onto the constraints, and True if Newton's method closed them."""
        # All three use the matrices of the predicted q. It differs from the closed one by the error of a step, and so do
        # the remaining velocity gap and v̇, relative to their sizes. The order of the method does not change, and one
        # factorisation serves all three.
        equations, floor = scaled.equations, motion.end_floor
        metric, pivots = equations.solver.metric(q, t), equations.pivots(q, t)
        closed = equations.close_position(q, t, metric, self.iterations, floor=floor, pivots=pivots)
        v = equations.solver.close_velocity(q, v, t, floor)
        return Motion.of(equations, q, v, t, floor, reached=closed.q), scaled.is_closed(closed)

    def glide(self, scaled, motion, v, t, h):
        """Return the `Motion` after a step with velocity v, projected as in RATTLE, and True if it is closed."""
        equations, floor = scaled.equations, motion.end_floor
        closed, v = equations.solver.glide(motion, v, t, h, self.iterations)
        return Motion.of(equations, closed.q, v, t + h, floor), scaled.is_closed(closed)


class Baumgarte(AbstractClosure):
    """Baumgarte stabilisation, γ − 2α Φ̇ − β² Φ in place of γ: gaps decay instead of growing, but do not vanish.

    It is cheaper than a projection, for those who know their system. Gaps are of the size of the method's error.

    Args:
        alpha, beta: in 1/time. Gaps decay as exp(−αt), critically damped if both are equal. Keep them much smaller than
            1 / h, or the error of the method grows; 10 to 50 1/s for machines of the usual size.

    Examples:
        >>> method = mbs.RK4(closure=mbs.Baumgarte(alpha=10.0, beta=10.0))
        >>> run = mbs.simulate(pendulum, jnp.array([0.0, 1.0]), {"bob": (1, 0, jnp.pi / 2)}, step=0.02, method=method)
        >>> print(jnp.hypot(run.position("bob.x"), run.position("bob.y")).round(3))
        [1. 1.]
    """

    alpha: float = eqx.field(static=True, default=20.0)
    beta: float = eqx.field(static=True, default=20.0)

    def accelerations(self, scaled, motion, q, v, t):
        """Return v̇ (m,) with −2α Φ̇ − β² Φ added to γ."""
        equations = scaled.equations
        return equations.accelerations(q, v, t, self._correction(equations, q, v, t), motion.floor)[0]

    def _correction(self, equations, q, v, t):
        """Return −2α Φ̇ − β² Φ (rows,)."""
        return -2 * self.alpha * equations.velocity_gap(q, v, t) - self.beta**2 * equations.residual(q, t)

    def close(self, scaled, motion, q, v, t):
        """Return the `Motion` at the predicted q and v, unchanged, and True."""
        # Φ is never closed here: rows that do not count at the start of the simulation never count.
        correction = self._correction(scaled.equations, q, v, t)
        given, solved = with_reactive_forces(scaled.equations, q, v, t, correction, motion.floor)
        a = given.accelerations(q, v, t, correction, motion.floor)[0]
        return Motion(q, v, a, motion.kept, solved), jnp.asarray(True)

    def glide(self, scaled, motion, v, t, h):
        """Return the `Motion` after a displacement h v, and True."""
        return self.close(scaled, motion, scaled.equations.space.retract(motion.q, h * v), v, t + h)
