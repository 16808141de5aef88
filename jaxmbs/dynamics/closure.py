"""How explicit methods keep the constraints: by projection after each step, or by stabilised accelerations."""

from __future__ import annotations

import abc

import equinox as eqx
import jax.numpy as jnp

from jaxmbs.dynamics.methods.method import Motion, Problem


class AbstractClosure(eqx.Module):
    """Accelerations within a step, and what is done at its end."""

    @abc.abstractmethod
    def accelerations(self, problem: Problem, motion: Motion, q, v, t, h):
        """v̇ at a stage of a step of length h from a motion."""

    @abc.abstractmethod
    def close(self, problem: Problem, motion: Motion, q, v, t, h):
        """The `Motion` at the end of a step from another one and the state that was predicted, and whether it is closed."""

    @abc.abstractmethod
    def glide(self, problem: Problem, motion: Motion, v, t, h):
        """The `Motion` after a step with the constant velocity v, but for constraint forces at its start, and whether it
        is closed."""


class Projection(AbstractClosure):
    """Moves positions, then velocities, to the nearest ones that satisfy the constraints; distances are measured
    with the mass matrix.

    Gaps are at rounding level for any step length, and the method keeps its order. A step that is too long to be closed
    gives the status NOT_CONVERGED.

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

    def accelerations(self, problem, motion, q, v, t, h):
        return problem.equations.accelerations(q, v, t, floor=motion.floor)[0]

    def close(self, problem, motion, q, v, t, h):
        # All three with the matrices of the predicted q: it differs from the closed one by a step's error, and so do the
        # velocity gap that is left, and v̇, relative to their sizes. The order of the method is not touched, and one
        # factorisation serves all.
        equations, floor = problem.equations, motion.revived
        metric, pivots = equations.metric(q, t), equations.pivots(q, t)
        closed = equations.close_position(q, t, metric, self.iterations, floor=floor, pivots=pivots)
        v = equations.close_velocity(q, v, t, floor)
        return Motion.of(equations, q, v, t, floor, reached=closed.q), problem.settled(closed)

    def glide(self, problem, motion, v, t, h):
        equations, floor = problem.equations, motion.revived
        closed, v = equations.glide(motion, v, t, h, self.iterations)
        return Motion.of(equations, closed.q, v, t + h, floor), problem.settled(closed)


class Baumgarte(AbstractClosure):
    """γ − 2α Φ̇ − β² Φ in place of γ: gaps decay instead of growing, but do not vanish.

    Cheaper than a projection, for those who know their system. Gaps are of the size of the method's error.

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

    def accelerations(self, problem, motion, q, v, t, h):
        equations = problem.equations
        return equations.accelerations(q, v, t, self._correction(equations, q, v, t), motion.floor)[0]

    def _correction(self, equations, q, v, t):
        return -2 * self.alpha * equations.velocity_gap(q, v, t) - self.beta**2 * equations.residual(q, t)

    def close(self, problem, motion, q, v, t, h):
        # Φ is nowhere closed here: rows that do not count at the start never do.
        correction = self._correction(problem.equations, q, v, t)
        given, solved = problem.equations.settled(q, v, t, correction, motion.floor)
        a = given.accelerations(q, v, t, correction, motion.floor)[0]
        return Motion(q, v, a, motion.kept, solved), jnp.asarray(True)

    def glide(self, problem, motion, v, t, h):
        return self.close(problem, motion, problem.equations.space.retract(motion.q, h * v), v, t + h, h)
