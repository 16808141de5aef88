"""Base classes of integration methods: a pure `step` from one carry, a `Motion` or more, to the next."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxmbs.forces.joint.contact import AbstractContactForce
from jaxmbs.formulations.abstract import AbstractEquations, Closed, Scales
from jaxmbs.formulations.augmented import AbstractFormulation
from jaxmbs.formulations.reactive import with_force_fields, with_reactive_forces
from jaxmbs.formulations.stateful import equations_of
from jaxmbs.numerics.arrays import finite, where_tree
from jaxmbs.numerics.linear_algebra import diagonal, floors
from jaxmbs.numerics.results import Status
from jaxmbs.numerics.scaling import Units, gap_limit
from jaxmbs.programs import ProgramWithFallback, save_for_reverse
from jaxmbs.system.mechanism import Mechanism

# A step that turns a body by more radians than this has the status NON_FINITE: it has diverged. The limit is far below
# overflow, so that the derivatives of the rejected step stay finite.
MAX_TURN_IN_STEP = 1e3
# Number of Newton steps that close a start that is not assembled, where gaps may be larger than the error of a step.
STARTING_ITERATIONS = 8
# Initial positions or velocities are not changed if their gaps are at most this many rounding units of the largest
# position (at least the size of the mechanism) or of the largest velocity.
EXACT_ROUNDING_UNITS = 8
# Largest gap in Φ_q v + Φ_t that named velocities may leave, relative to the largest velocity: four digits are enough.
# A larger one gives the status NOT_ASSEMBLED.
MAX_NAMED_VELOCITY_GAP = 1e-3


class Motion(NamedTuple):
    """A closed state of motion with its accelerations, in the coordinates of a formulation; every method carries it.

    Attributes:
        q: (n,), coordinates.
        v: (m,), velocities.
        a: (m,), accelerations.
        kept: (rows,), 1 for each independent row of Φ, 0 for redundant ones. If Φ is not closed, as in the middle of a
            step, redundant rows look independent. So they are found in closed configurations and kept for the next step.
        solved: True if reactions and the forces that depend on them have a common solution; None without such forces.
    """

    q: Float[Array, " n"]
    v: Float[Array, " m"]
    a: Float[Array, " m"]
    kept: Float[Array, " rows"]
    solved: Bool[Array, ""] | None = None

    @classmethod
    def of(cls, equations: AbstractEquations, q, v, t, floor=None, *, reached=None) -> Motion:
        """Return the motion with the accelerations at (q, v, t) and the coordinates `reached`, q unless given."""
        given, solved = with_reactive_forces(equations, q, v, t, floor=floor)
        a, _, kept = given.accelerations(q, v, t, floor=floor)
        return cls(q if reached is None else reached, v, a, kept, solved)

    @property
    def floor(self) -> Float[Array, " rows"]:
        """Pivot floors for `solve_saddle_point` within the next step: redundant rows are left out."""
        return floors(self.kept, revived=False)

    @property
    def end_floor(self) -> Float[Array, " rows"]:
        """Pivot floors at the end of the next step: redundant rows may become independent again."""
        return floors(self.kept, revived=True)


class InitialState(NamedTuple):
    """Initial coordinates and velocities of a simulation: of the bodies, or those of a formulation.

    Attributes:
        q: (n,), coordinates.
        v: (m,), velocities.
        named: (m,), True for each velocity that keeps its value; None if all may be changed.
        assembled: False if q is still to be closed.
    """

    q: Float[Array, " n"]
    v: Float[Array, " m"]
    named: tuple[bool, ...] | None
    assembled: bool = True


class ScaledEquations(eqx.Module):
    """Equations of motion with the units in which their errors are measured.

    Attributes:
        equations: the equations.
        length: the unit of coordinates that are lengths.
        rows: (rows,), the units of the rows of Φ: the largest change of each row by one unit of a coordinate.
        tolerance: upper bound of the gaps of redundant constraints, relative to `length`.
    """

    equations: AbstractEquations
    length: Float[Array, ""]
    rows: Float[Array, " rows"]
    tolerance: float = eqx.field(static=True)

    @classmethod
    def of(cls, equations: AbstractEquations, scales: Scales, tolerance: float) -> ScaledEquations:
        """Return equations with these scales, as constants of differentiation."""
        scales = jax.lax.stop_gradient(scales)
        return cls(equations.with_scales(scales), scales.length, scales.rows, tolerance)

    def in_steps(self, h: Float[Array, ""]) -> ScaledEquations:
        """Return the equations with contact forces smoothed for steps of length h; unchanged without contacts."""
        forces = self.equations.mech.forces.items()
        touching = [name for name, force in forces if isinstance(force, AbstractContactForce) and force.touching]
        given = with_force_fields(self.equations, "step", dict.fromkeys(touching, h))
        return ScaledEquations(given, self.length, self.rows, self.tolerance)

    @property
    def units(self) -> Units:
        """Units of coordinates and velocities: 1 for angles, the size of the mechanism for lengths."""
        return Units(self.equations.space.angular, self.length)

    def is_closed(self, closed: Closed, digits: float = 0.5) -> Bool[Array, ""]:
        """Return True if the last Newton correction is small and the gap before it is within the tolerance.

        A correction is small if it leaves the fraction `digits` of all digits unchanged: with ½ the next correction would
        be rounding. A gap that remains although corrections are small is one of constraints that contradict each other.
        """
        q, _, change, gap = closed
        scale = self._scale(q)
        small = jnp.finfo(q.dtype).eps ** digits
        return self.is_within_tolerance(q, gap) & (Units(self.equations.space.angular, scale).size(change) <= small)

    def is_within_tolerance(self, q, gap) -> Bool[Array, ""]:
        """Return True if a gap of Φ in the configuration q is within the tolerance.

        Redundant rows are left out, not fitted in the sense of least squares. So the whole misfit of rows that depend on
        each other shows in one of them, and the limit grows with the number of rows.
        """
        limit = gap_limit(q.dtype, self.tolerance * gap.shape[0]) * self._scale(q) / self.length
        return jnp.max(jnp.abs(gap / self.rows), initial=0) <= limit

    def _scale(self, q):
        """Return the size of the mechanism, `length`, or the largest position in q if that is larger."""
        extent = self.equations.space.extent(q)
        return jnp.maximum(self.length, jnp.max(jnp.where(self.equations.space.angular, 0, jnp.abs(extent)), initial=0))

    def is_rounding(self, gap, size) -> Bool[Array, ""]:
        """Return True if a gap of Φ or Φ̇ is rounding of coordinates or velocities of a size in units of the mechanism."""
        small = EXACT_ROUNDING_UNITS * jnp.finfo(gap.dtype).eps * size
        return jax.lax.stop_gradient(jnp.max(jnp.abs(gap / self.rows), initial=0) <= small)


class Setup(eqx.Module):
    """Inputs of the programs of a simulation, from which each of them makes its `ScaledEquations`.

    Within a program this costs less than between programs, where XLA compiles it.
    """

    formulation: AbstractFormulation
    mech: Mechanism
    scales: Scales
    tolerance: float = eqx.field(static=True)

    @property
    def scaled_equations(self) -> ScaledEquations:
        """Equations of the mechanism with 1 in place of numbers that are not finite."""
        return ScaledEquations.of(equations_of(self.formulation, finite(self.mech)[0]), self.scales, self.tolerance)


class Grid(NamedTuple):
    """The boundaries of a simulation, between which it takes steps of equal length.

    Attributes:
        steps: number of steps between two boundaries.
        interval: (K,), index of the interval between output times that each boundary is in.
        part: (K,), position of each boundary in its interval, from 0 to 1.
        rows: (T,), indices of the boundaries that are output times.
    """

    steps: int
    interval: tuple[int, ...]
    part: tuple[float, ...]
    rows: tuple[int, ...]

    def boundaries(self, times) -> Float[Array, " K"]:
        """Return times (K,) of boundaries, `steps` steps apart, from output times (T,), which are among them."""
        last, part = len(times) - 1, np.array(self.part)
        before, following = (times[_rows_of(k)] for k in (self.interval, [min(k + 1, last) for k in self.interval]))
        return before + (following - before) * part.astype(times.dtype)


def _rows_of(rows: Sequence[int]) -> slice | np.ndarray:
    """Return a slice that takes these rows of an array if they increase evenly, else the array of their indices.

    XLA copies a slice; other rows it gathers one by one, which takes TPUs much longer to compile and to run.
    """
    step = rows[1] - rows[0] if len(rows) > 1 else 1
    is_even = step > 0 and tuple(rows) == tuple(range(rows[0], rows[0] + step * len(rows), step))
    return slice(rows[0], rows[-1] + 1, step) if is_even else np.array(rows, dtype=int)


class AbstractMethod(eqx.Module):
    """An integration method. `order` is the order of the global error of positions and velocities."""

    order: ClassVar[int]

    @abc.abstractmethod
    def run(self, setup: Setup, times, grid: Grid, start: InitialState) -> tuple[Array, Array, Array]:
        """Return q (T, n), v (T, m) and status (T,) at all times."""


class AbstractFixedStep(AbstractMethod):
    """A method with steps of equal length between two boundaries of the grid."""

    @abc.abstractmethod
    def start(self, scaled: ScaledEquations, motion: Motion, t) -> Any:
        """Return the carry of the first step: a `Motion`, or more."""

    @abc.abstractmethod
    def step(
        self, scaled: ScaledEquations, carry, t: Float[Array, ""], h: Float[Array, ""]
    ) -> tuple[Any, Bool[Array, ""]]:
        """Return the carry at t + h from that at t, and True if the constraints could be closed."""

    @abc.abstractmethod
    def motion(self, carry) -> Motion:
        """Return the `Motion` that is in a carry."""

    def output_values(self, scaled: ScaledEquations, carry, t) -> tuple[Array, Array]:
        """Return q and v at an output time, the velocities closed once more."""
        motion = self.motion(carry)
        return motion.q, scaled.equations.solver.close_velocity(motion.q, motion.v, t, motion.floor)

    def run(self, setup, times, grid, start):
        """Return q (T, n), v (T, m) and status (T,) at the output times."""
        rollout = lambda setup, times, q, v: self._rollout(
            setup.scaled_equations, times, grid.steps, InitialState(q, v, start.named, start.assembled)
        )
        first, others = ProgramWithFallback(rollout)(setup, grid.boundaries(times), start.q, start.v)
        rows = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, others)
        return jax.tree.map(lambda x: x[_rows_of(grid.rows)], rows)

    def _rollout(self, scaled: ScaledEquations, times, steps: int, start: InitialState):
        """Return (q, v, status) at the first of the times, and rows of each at the others, `steps` steps apart."""
        at_start = scaled if len(times) == 1 else scaled.in_steps((times[1] - times[0]) / steps)
        motion, status = initial_motion(at_start, start, times[0])

        def advance(scaled, carry_and_status, t, h):
            """Return carry and status after a step; after a bad status the carry does not change."""
            carry, status = carry_and_status
            new, closed = self.step(scaled, carry, t, h)
            now = save_for_reverse(step_status(scaled, self.motion(new), closed, t + h, h))
            status = jnp.where(status == Status.CONVERGED, now, status)
            return where_tree(status == Status.CONVERGED, new, carry), status

        def interval(carry_and_status, boundaries):
            """Return carry and status after the steps between two boundaries, and the outputs there."""
            t, end = boundaries
            h = (end - t) / steps
            stepped = scaled.in_steps(h)
            carry, status = jax.lax.fori_loop(
                0, steps, lambda k, x: advance(stepped, x, t + k * h, h), carry_and_status
            )
            return (carry, status), (*self.output_values(scaled, carry, end), status)

        carry = self.start(at_start, motion, times[0])
        first = (*self.output_values(scaled, carry, times[0]), status)
        return first, jax.lax.scan(interval, (carry, status), (times[:-1], times[1:]))[1]


class FixedStep(AbstractFixedStep):
    """A method with steps of equal length that carries only a `Motion`."""

    def start(self, scaled, motion, t):
        """Return the initial motion as the carry."""
        return motion

    def motion(self, carry):
        """Return the carry, which is the motion."""
        return carry


def initial_motion(scaled: ScaledEquations, start: InitialState, t) -> tuple[Motion, Int[Array, ""]]:
    """Return the motion with the nearest velocities that satisfy the constraints, and its status.

    Velocities that satisfy them to rounding are unchanged. Named velocities are kept, and the others are the smallest that
    satisfy the constraints, if any do. A configuration that is not assembled is closed first.
    """
    equations, (q, v, named, assembled) = scaled.equations, start
    satisfied = jnp.asarray(True)
    if not assembled:
        metric, pivots = equations.solver.metric(q, t), equations.pivots(q, t)
        # With a direction, derivatives are refined as often as the iteration takes steps: the gaps may be large.
        direction = equations.jacobian(q, t)
        closed = equations.close_position(q, t, metric, STARTING_ITERATIONS, direction, pivots=pivots)
        far = jnp.maximum(1, scaled.units.size(equations.space.extent(q)))
        q = _unless_exact(scaled.is_rounding(equations.residual(q, t), far), q, closed.q)
        satisfied = scaled.is_closed(closed)
    if named is None:
        exact = scaled.is_rounding(equations.velocity_gap(q, v, t), scaled.units.size(v))
        v = _unless_exact(exact, v, equations.solver.close_velocity(q, v, t))
    else:
        free = jnp.where(np.array(named), 0, scaled.units.vector**2)
        for _ in range(2):  # twice, to remove the errors of rounding
            v = equations.close_velocity_along(q, v, t, diagonal(free))
        left = jnp.max(jnp.abs(equations.velocity_gap(q, v, t) / scaled.rows), initial=0)
        satisfied = satisfied & (left <= MAX_NAMED_VELOCITY_GAP * scaled.units.size(v))
    motion = Motion.of(equations, q, v, t)
    status = jnp.where(jnp.isfinite(_size(motion)), int(Status.CONVERGED), int(Status.NON_FINITE))
    if motion.solved is not None:
        status = jnp.where(motion.solved, status, int(Status.JAMMED))
    status = jnp.where(satisfied, status, int(Status.NOT_ASSEMBLED))
    singular = equations.singular(*jax.lax.stop_gradient((q, start.v)), jax.lax.stop_gradient(t), jnp.zeros_like(t))
    status = jnp.where(singular, int(Status.SINGULAR), status).astype(jnp.int32)
    good = status == Status.CONVERGED
    return where_tree(good, motion, motion._replace(q=q, v=jnp.zeros_like(v), a=jnp.zeros_like(v))), status


def _unless_exact(exact, given, closed):
    """Return `given` if it is exact, else `closed`, in both cases with the derivative of `closed`.

    With redundant rows, closing an exact velocity could only make it worse.
    """
    return closed + jax.lax.stop_gradient(jnp.where(exact, given - closed, 0))


def step_status(scaled: ScaledEquations, motion: Motion, closed, t, h) -> Int[Array, ""]:
    """Return the status of a step of length h that led to this motion; `closed` is False if it could not be closed."""
    status = jnp.where(closed, int(Status.CONVERGED), int(Status.NOT_CONVERGED))
    if motion.solved is not None:
        status = jnp.where(motion.solved, status, int(Status.JAMMED))
    singular = scaled.equations.singular(*jax.lax.stop_gradient((motion.q, motion.v, t, h)))
    status = jnp.where(singular, int(Status.SINGULAR), status)
    turned = jnp.max(jnp.where(scaled.equations.space.angular, jnp.abs(h * motion.v), 0), initial=0)
    tame = (turned <= MAX_TURN_IN_STEP) & (_size(motion) <= jnp.finfo(motion.q.dtype).eps ** -2)
    return jnp.where(tame, status, int(Status.NON_FINITE)).astype(jnp.int32)


def _size(motion: Motion) -> Float[Array, ""]:
    """Return the sum of all |q|, |v| and |a| of a motion, which is finite if all of them are."""
    return sum((jnp.sum(jnp.abs(x)) for x in motion[:3]), jnp.zeros((), motion.q.dtype))
