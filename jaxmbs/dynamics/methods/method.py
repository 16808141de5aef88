"""What an integration method is: a state, and a pure `step` from it to the next."""

from __future__ import annotations

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxmbs.formulations.augmented import AbstractFormulation
from jaxmbs.formulations.contact import with_step
from jaxmbs.formulations.equations import AbstractEquations, Closed, Scales
from jaxmbs.formulations.stateful import equations_of
from jaxmbs.numerics.arrays import finite, where_tree
from jaxmbs.numerics.linear_algebra import diagonal, floors
from jaxmbs.numerics.results import Status
from jaxmbs.numerics.scaling import Units, gap_limit
from jaxmbs.programs import ProgramWithFallback, save_for_reverse
from jaxmbs.system.mechanism import Mechanism

# A step that turns a body by more than this, in radians, has diverged. The limit is far below overflow, so that the
# derivatives of the rejected step stay finite.
MAX_TURN_IN_STEP = 1e3
# Newton steps at a start that is not assembled, where gaps may be larger than a step's error.
STARTING_ITERATIONS = 8
# Velocities and positions whose gaps are at most this many rounding units are not changed.
EXACT = 8
# Largest gap in Φ_q v + Φ_t that named velocities may leave, relative to the largest velocity: four digits are enough.
KEPT = 1e-3


class Motion(NamedTuple):
    """A closed state of motion, what every method carries.

    Attributes:
        q, v, a: coordinates, velocities and accelerations.
        kept: 1 for each independent row of Φ, 0 for redundant ones. If Φ is not closed, as in the middle of a step,
            redundant rows look independent. So they are found in closed configurations and kept for the next step.
        solved: True if reactions and the forces that depend on them have a common solution; None without such forces.
    """

    q: Float[Array, " n"]
    v: Float[Array, " m"]
    a: Float[Array, " m"]
    kept: Float[Array, " rows"]
    solved: Bool[Array, ""] | None = None

    @classmethod
    def of(cls, equations: AbstractEquations, q, v, t, floor=None, *, reached=None) -> Motion:
        """The motion with the accelerations of a state, whose coordinates are `reached` where these are others than q."""
        given, solved = equations.settled(q, v, t, floor=floor)
        a, _, kept = given.accelerations(q, v, t, floor=floor)
        return cls(q if reached is None else reached, v, a, kept, solved)

    @property
    def floor(self) -> Float[Array, " rows"]:
        """For `solve_saddle_point` within the next step: rows that do not count now are left out."""
        return floors(self.kept, revived=False)

    @property
    def revived(self) -> Float[Array, " rows"]:
        """The same for its end: rows may count again."""
        return floors(self.kept, revived=True)


class Start(NamedTuple):
    """The start of a simulation: coordinates, velocities, a mask of the velocities to keep, or None, and True if the
    coordinates are assembled."""

    q: Float[Array, " n"]
    v: Float[Array, " m"]
    given: tuple[bool, ...] | None
    assembled: bool = True


class Problem(eqx.Module):
    """Equations with the units in which their errors are judged.

    Attributes:
        length: the unit of coordinates that are lengths.
        rows: the units of the rows of Φ: the largest change of each with a unit of a coordinate.
        tolerance: upper bound of the gaps of redundant constraints, relative to `length`.
    """

    equations: AbstractEquations
    length: Float[Array, ""]
    rows: Float[Array, " rows"]
    tolerance: float = eqx.field(static=True)

    @classmethod
    def of(cls, equations: AbstractEquations, scales: Scales, tolerance: float) -> Problem:
        """Create a problem from equations and the scales by which their errors are measured."""
        scales = jax.lax.stop_gradient(scales)
        return cls(equations.judged_by(scales), scales.length, scales.rows, tolerance)

    def in_steps(self, h: Float[Array, ""]) -> Problem:
        """The same problem with contact forces smoothed for steps of length h."""
        return Problem(with_step(self.equations, h), self.length, self.rows, self.tolerance)

    @property
    def units(self) -> Units:
        """Units of coordinates and velocities: 1 for angles, the size of the mechanism for lengths."""
        return Units(self.equations.angular, self.length)

    def settled(self, closed: Closed, digits: float = 0.5) -> Bool[Array, ""]:
        """Return True if the last Newton correction is so small that the next would be rounding, and the gap before it is
        within the tolerance. digits: fraction of all digits that the correction must leave untouched.

        A gap that remains although corrections are small is one of constraints that contradict each other.
        """
        q, _, change, gap = closed
        scale = self._scale(q)
        small = jnp.finfo(q.dtype).eps ** digits
        return self.fits(q, gap) & (Units(self.equations.angular, scale).size(change) <= small)

    def fits(self, q, gap) -> Bool[Array, ""]:
        """Return True if a gap of Φ in the configuration q is within the tolerance.

        Redundant rows are left out, not fitted in the sense of least squares. So the whole misfit of rows that depend on
        each other shows in one of them, and the limit grows with the number of rows.
        """
        limit = gap_limit(q.dtype, self.tolerance * gap.shape[0]) * self._scale(q) / self.length
        return jnp.max(jnp.abs(gap / self.rows), initial=0) <= limit

    def _scale(self, q):
        """The length of the mechanism, or the largest position in q if that is larger."""
        extent = self.equations.space.extent(q)
        return jnp.maximum(self.length, jnp.max(jnp.where(self.equations.angular, 0, jnp.abs(extent)), initial=0))

    def vanishes(self, gap, size) -> Bool[Array, ""]:
        """Whether a gap of Φ or Φ̇ is rounding of coordinates or velocities of this size, in units of the mechanism."""
        small = EXACT * jnp.finfo(gap.dtype).eps * size
        return jax.lax.stop_gradient(jnp.max(jnp.abs(gap / self.rows), initial=0) <= small)


class Setup(eqx.Module):
    """What a simulation hands to its programs, each of which makes the `Problem` of it: within a program this costs less
    than between programs, where XLA compiles it."""

    formulation: AbstractFormulation
    mech: Mechanism
    scales: Scales
    tolerance: float = eqx.field(static=True)

    @property
    def problem(self) -> Problem:
        """The equations of the mechanism with 1 in place of numbers that are not finite, judged by the scales."""
        return Problem.of(equations_of(self.formulation, finite(self.mech)[0]), self.scales, self.tolerance)


class Grid(NamedTuple):
    """Where to step and what to keep.

    Attributes:
        steps: fixed steps between two boundaries.
        interval, part: (K,) the boundaries lie in this interval of the asked-for times, at this part of it.
        rows: (T,) the boundaries that are asked-for times.
    """

    steps: int
    interval: tuple[int, ...]
    part: tuple[float, ...]
    rows: tuple[int, ...]

    def boundaries(self, times) -> Float[Array, " K"]:
        """The times of all boundaries."""
        k, part = np.array(self.interval), np.array(self.part)
        following = times[np.minimum(k + 1, len(times) - 1)]
        return times[k] + (following - times[k]) * part.astype(times.dtype)


class AbstractMethod(eqx.Module):
    """An integration method. `order` is that of the global error of positions and velocities."""

    order: ClassVar[int]

    @abc.abstractmethod
    def run(self, setup: Setup, times, grid: Grid, start: Start) -> tuple[Array, Array, Array]:
        """q (T, n), v (T, m) and status (T,) at all times."""


class AbstractFixedStep(AbstractMethod):
    """A method with steps of equal length between two outputs."""

    @abc.abstractmethod
    def start(self, problem: Problem, motion: Motion, t) -> Any:
        """The state of the method at the beginning: a `Motion`, or more."""

    @abc.abstractmethod
    def step(self, problem: Problem, state, t: Float[Array, ""], h: Float[Array, ""]) -> tuple[Any, Bool[Array, ""]]:
        """The state at t + h from that at t, and whether the constraints could be closed."""

    @abc.abstractmethod
    def motion(self, state) -> Motion:
        """The motion in a state."""

    def shown(self, problem: Problem, state, t) -> tuple[Array, Array]:
        """q and v to be shown at a time that was asked for: the velocities closed once more."""
        motion = self.motion(state)
        return motion.q, problem.equations.close_velocity(motion.q, motion.v, t, motion.floor)

    def run(self, setup, times, grid, start):
        rollout = lambda setup, times, q, v: self._rollout(
            setup.problem, times, grid.steps, Start(q, v, start.given, start.assembled)
        )
        first, rows = ProgramWithFallback(rollout)(setup, grid.boundaries(times), start.q, start.v)
        together = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, rows)
        return jax.tree.map(lambda x: x[np.array(grid.rows)], together)

    def _rollout(self, problem: Problem, times, steps: int, start: Start):
        """q, v and status at the first of the times, and rows of these for the others, with `steps` steps in between."""
        at_start = problem if len(times) == 1 else problem.in_steps((times[1] - times[0]) / steps)
        motion, status = started(at_start, start, times[0])
        state = self.start(at_start, motion, times[0])

        def advance(problem, carry, t, h):
            state, status = carry
            new, closed = self.step(problem, state, t, h)
            now = save_for_reverse(judge(problem, self.motion(new), closed, t + h, h))
            status = jnp.where(status == Status.CONVERGED, now, status)
            return where_tree(status == Status.CONVERGED, new, state), status

        def interval(carry, ends):
            t, h = ends[0], (ends[1] - ends[0]) / steps
            stepped = problem.in_steps(h)
            carry = jax.lax.fori_loop(0, steps, lambda k, carry: advance(stepped, carry, t + k * h, h), carry)
            return carry, (*self.shown(problem, carry[0], ends[1]), carry[1])

        first = (*self.shown(problem, state, times[0]), status)
        return first, jax.lax.scan(interval, (state, status), (times[:-1], times[1:]))[1]


class FixedStep(AbstractFixedStep):
    """A method with steps of equal length, whose state is a `Motion`."""

    def start(self, problem, motion, t):
        return motion

    def motion(self, state):
        return state


def started(problem: Problem, start: Start, t) -> tuple[Motion, Int[Array, ""]]:
    """Return the motion with an assembled configuration and the nearest velocities that satisfy the constraints, and its
    status. Velocities that satisfy them to rounding stay as they are.

    If some velocities are given, they are kept, and the others are the smallest that satisfy the constraints, if any do.
    """
    equations, (q, v, given, assembled) = problem.equations, start
    kept = jnp.asarray(True)
    if not assembled:
        metric, pivots = equations.metric(q, t), equations.pivots(q, t)
        closed = equations.close_position(q, t, metric, STARTING_ITERATIONS, pivots=pivots)
        far = jnp.maximum(1, problem.units.size(equations.space.extent(q)))
        q = _kept_where(problem.vanishes(equations.residual(q, t), far), q, closed.q)
        kept = problem.settled(closed)
    if given is None:
        exact = problem.vanishes(equations.velocity_gap(q, v, t), problem.units.size(v))
        v = _kept_where(exact, v, equations.close_velocity(q, v, t))
    else:
        free = jnp.where(np.array(given), 0, problem.units.vector**2)
        for _ in range(2):  # twice, to remove the errors of rounding
            v = equations.close_velocity_along(q, v, t, diagonal(free))
        left = jnp.max(jnp.abs(equations.velocity_gap(q, v, t) / problem.rows), initial=0)
        kept = kept & (left <= KEPT * problem.units.size(v))
    motion = Motion.of(equations, q, v, t)
    status = jnp.where(jnp.isfinite(_size(motion)), int(Status.CONVERGED), int(Status.NON_FINITE))
    if motion.solved is not None:
        status = jnp.where(motion.solved, status, int(Status.JAMMED))
    status = jnp.where(kept, status, int(Status.NOT_ASSEMBLED))
    singular = equations.singular(*jax.lax.stop_gradient((q, start.v)), jax.lax.stop_gradient(t), jnp.zeros_like(t))
    status = jnp.where(singular, int(Status.SINGULAR), status).astype(jnp.int32)
    good = status == Status.CONVERGED
    return where_tree(good, motion, motion._replace(q=q, v=jnp.zeros_like(v), a=jnp.zeros_like(v))), status


def _kept_where(exact, given, closed):
    """Return `given` where it is exact, else `closed`, in both cases with the derivative of `closed`.

    With redundant rows, closing an exact velocity could only make it worse.
    """
    return closed + jax.lax.stop_gradient(jnp.where(exact, given - closed, 0))


def judge(problem: Problem, motion: Motion, closed, t, h) -> Int[Array, ""]:
    """The status of a step of length h that led to this motion."""
    status = jnp.where(closed, int(Status.CONVERGED), int(Status.NOT_CONVERGED))
    if motion.solved is not None:
        status = jnp.where(motion.solved, status, int(Status.JAMMED))
    singular = problem.equations.singular(*jax.lax.stop_gradient((motion.q, motion.v, t, h)))
    status = jnp.where(singular, int(Status.SINGULAR), status)
    turned = jnp.max(jnp.where(problem.equations.angular, jnp.abs(h * motion.v), 0), initial=0)
    tame = (turned <= MAX_TURN_IN_STEP) & (_size(motion) <= jnp.finfo(motion.q.dtype).eps ** -2)
    return jnp.where(tame, status, int(Status.NON_FINITE)).astype(jnp.int32)


def _size(motion: Motion) -> Float[Array, ""]:
    return sum((jnp.sum(jnp.abs(x)) for x in motion[:3]), jnp.zeros((), motion.q.dtype))
