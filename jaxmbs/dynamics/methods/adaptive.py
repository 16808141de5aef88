"""Steps of adaptive length, by diffrax."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.dynamics.closure import Projection
from jaxmbs.dynamics.methods.method import AbstractMethod, InitialState, initial_motion, step_status
from jaxmbs.numerics.results import Status
from jaxmbs.programs import ProgramWithFallback


class Adaptive(AbstractMethod):
    """The explicit method of Dormand and Prince, order 5, with steps chosen to keep an error tolerance; by diffrax.

    v̇ is computed for q and v projected onto the constraints, and outputs are projected: they satisfy the constraints
    to rounding. Use this method for motions whose speed changes by orders of magnitude, and as a reference. In a batch
    all samples wait for the slowest one, and `RK4` is much faster.

    Args:
        rtol, atol: relative and absolute tolerance of a step, in coordinates and velocities alike.
        max_steps: largest number of steps; a sample that needs more has the status NOT_CONVERGED.
        contact_step: h, the step length by which the forces of stops and other contacts are smoothed, as methods with
            fixed steps do with their step. A thirtieth of the shortest contact changes the motion little, and makes
            derivatives through contacts right. None: contact forces are not smoothed, and derivatives through them
            are wrong.

    Examples:
        >>> method = mbs.Adaptive(rtol=1e-6, atol=1e-8)
        >>> run = mbs.simulate(pendulum, jnp.array([0.0, 0.5]), {"bob": (1, 0, jnp.pi / 2)}, method=method)
        >>> print(run.position("bob.phi").round(3))
        [1.571 0.402]
    """

    rtol: float = eqx.field(static=True, default=1e-8)
    atol: float = eqx.field(static=True, default=1e-10)
    max_steps: int = eqx.field(static=True, default=16384)
    contact_step: float | None = eqx.field(static=True, default=None, kw_only=True)
    order: ClassVar[int] = 5

    def run(self, setup, times, grid, start):
        """Return q (T, n), v (T, m) and status (T,) at all times, by diffrax."""
        import diffrax

        scaled, closure = setup.scaled_equations, Projection()
        if self.contact_step is not None:
            scaled = scaled.in_steps(jnp.asarray(self.contact_step, times.dtype))
        named, assembled = start.named, start.assembled
        first, status = ProgramWithFallback(
            lambda scaled, q, v, t: initial_motion(scaled, InitialState(q, v, named, assembled), t)
        )(scaled, start.q, start.v, times[0])

        def close(scaled, first, t, q, v):
            """Return the closed `Motion` for q and v, and True if it is closed."""
            return closure.close(scaled, first, scaled.equations.space.normalised(q), v, t)

        def close_output(scaled, first, t, q, v):
            """Return the result of `close`, its velocities closed once more, in the closed configuration."""
            motion, is_closed = close(scaled, first, t, q, v)
            v = scaled.equations.solver.close_velocity(motion.q, motion.v, t, motion.floor)
            return motion._replace(v=v), is_closed

        def state_rates(scaled, first, t, q, v):
            """Return q̇ and v̇ of the closed state."""
            motion, _ = close(scaled, first, t, q, v)
            return scaled.equations.space.rate(motion.q, motion.v), motion.a

        def rates(t, y, args):
            """Return the rates of y = (q, v), as diffrax calls them."""
            return ProgramWithFallback(state_rates)(*args, t, *y)

        longest = jnp.max(jnp.abs(jnp.diff(times))) / grid.steps if len(times) > 1 else jnp.inf
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(rates),
            diffrax.Dopri5(),
            times[0],
            times[-1],
            None,
            (first.q, first.v),
            args=(scaled, first),
            saveat=diffrax.SaveAt(ts=times),
            stepsize_controller=diffrax.PIDController(self.rtol, self.atol, dtmax=longest),
            max_steps=self.max_steps,
            # For both modes of differentiation: the default of diffrax has reverse mode only.
            adjoint=diffrax.DirectAdjoint(),
            throw=False,
        )
        q, v = solution.ys
        reached = jnp.all(jnp.isfinite(q), axis=1) & jnp.all(jnp.isfinite(v), axis=1)

        def output(t, q, v, reached):
            """Return closed q and v, and the status, at one output time."""
            q, v = (jnp.where(reached, x, start) for x, start in ((q, first.q), (v, first.v)))
            motion, is_closed = ProgramWithFallback(close_output)(scaled, first, t, q, v)
            # A step of length 0: the speed is not checked.
            now = step_status(scaled, motion, is_closed, t, jnp.zeros_like(t))
            return motion.q, motion.v, jnp.where(reached, now, int(Status.NOT_CONVERGED))

        q, v, now = jax.vmap(output)(times, q, v, reached | (times == times[0]))
        status = jnp.where(status == Status.CONVERGED, now, status).astype(jnp.int32)
        # After a failure the last good row stays.
        row = jax.lax.cummax(jnp.where(_good_so_far(status), np.arange(len(times)), 0))
        bad = jnp.where(_good_so_far(status), status, jnp.max(status))
        return q[row], v[row], bad


def _good_so_far(status):
    """Return (T,), True for times before the first bad status."""
    return jnp.cumsum(status != Status.CONVERGED) == 0
