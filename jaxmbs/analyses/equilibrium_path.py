"""Equilibria that follow a parameter, through folds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from jaxmbs.analyses.balance import Balance, balance_of_forces, constraint_force, equations_at_rest, force_at_rest
from jaxmbs.analyses.equilibrium import (
    CONVERGED_POWER,
    Equilibrium,
    equilibrium,
    formulation_for_equilibrium,
    stability_of,
)
from jaxmbs.formulations.abstract import AbstractEquations
from jaxmbs.formulations.joint.joint_coordinates import JointCoordinates
from jaxmbs.numerics.linear_algebra import factor
from jaxmbs.numerics.results import Status, check_outside
from jaxmbs.numerics.scaling import DEFAULT_TOLERANCE
from jaxmbs.programs import ProgramWithFallback
from jaxmbs.system.marks import measure_marks
from jaxmbs.system.mechanism import Coordinates, Mechanism

# Largest distance between points of a path: the length of a vector of displacements, in radians and sizes of the mechanism,
# and of the change of the parameter as a fraction of its range.
MAX_DISTANCE = 0.05
# Distance, in the same units, below which the path ends if the corrections do not converge.
MIN_DISTANCE = 1e-6
# Smallest value of the largest number of points of a path.
MAX_POINTS = 2000
# Largest number of points for each value of the parameter, if that is more.
MAX_POINTS_PER_VALUE = 20
# Number of Newton corrections of each point.
CORRECTIONS = 6
# Number of steps of bisection that locate a critical point; each halves the interval.
BISECTIONS = 40


class CriticalPoint(NamedTuple):
    """A point of a path of equilibria at which the stiffness is singular.

    Attributes:
        kind: "fold" if the parameter turns back, so that the equilibrium ends at this value; "bifurcation" if another path
            crosses.
        parameter: the value of the parameter.
        q: (n,), the configuration.
    """

    kind: Literal["fold", "bifurcation"]
    parameter: float
    q: Float[np.ndarray, " n"]


class EquilibriumPath(NamedTuple):
    """Equilibria along a parameter, in the order of the path.

    Attributes:
        parameter: (points,), values of the parameter; they turn back at folds.
        q: (points, n), configurations.
        stability: (points,), "stable" or "unstable"; "neutral" or "unknown" if there is no isolated equilibrium at the
            first value.
        critical: folds and bifurcations, where the number of negative eigenvalues of the stiffness changes, in the order of
            the path.
        status: CONVERGED if the path has reached its end; NOT_CONVERGED if it was lost or is too long; otherwise the
            status of the equilibrium at the first value.

    Examples:
        >>> def strut(load):  # a bar of length 1 with a torsion spring of 1 at its foot buckles at the load 1
        ...     pin = {"pin": planar.Revolute("ground", "bar", (0, 0), (0, -1))}
        ...     forces = {
        ...         "spring": mbs.TorsionSpring("ground", "bar", stiffness=1.0),
        ...         "load": mbs.PointForce("bar", (0, 0), (0, -load)),
        ...     }
        ...     return mbs.Mechanism({"bar": planar.Body()}, pin, forces=forces)
        >>> path = mbs.equilibria(strut, jnp.linspace(0, 1.5, 11), {"bar": (0, 1, 0)})
        >>> print(path.critical[0].kind, round(path.critical[0].parameter, 6), path.stability[[0, -1]])
        bifurcation 1.0 ['stable' 'unstable']
    """

    parameter: Float[np.ndarray, " points"]
    q: Float[np.ndarray, "points n"]
    stability: np.ndarray
    critical: tuple[CriticalPoint, ...]
    status: int

    @property
    def folds(self) -> tuple[CriticalPoint, ...]:
        """The critical points that are folds."""
        return tuple(point for point in self.critical if point.kind == "fold")


def equilibria(
    mech: Callable[[Any], Mechanism],
    values: ArrayLike | Sequence[float],
    guess: Coordinates | None = None,
    t: float = 0.0,
    *,
    steady: bool = False,
    formulation: JointCoordinates | None = None,
) -> EquilibriumPath:
    """Follow an equilibrium while a parameter changes, in steps of arc length, so that the parameter may turn back.

    From the equilibrium at the first value near the guess, each point is predicted along the tangent of the path and
    corrected by Newton's method orthogonally to it, with the parameter as a further unknown. The path ends where the
    parameter reaches the last value, or the value as far on the other side of the first one. At a bifurcation it stays on
    its branch. Two critical points within one step are found as one. This function does not work inside jit, vmap or grad.

    Args:
        mech: a function of the parameter that returns the mechanism. It is written in `jax.numpy`, because the parameter is
            traced. To follow a driver, give it the motion `mbs.motion.Constant(parameter)`.
        values: values of the parameter (k,), from the first to the last in one direction. The path does not stop at the
            inner ones; their largest difference limits the change of the parameter from point to point, to about the
            double of it.
        guess: near the equilibrium at the first value; see `Mechanism.coordinates`.
        t: time.
        steady: as for `equilibrium`.
        formulation: chooses the unknowns, `JointCoordinates()` by default.

    Returns:
        An `EquilibriumPath`.

    Raises:
        ValueError: fewer than two values; values not in one direction; a call inside jit, vmap or grad; and the errors of
            `equilibrium`.

    Examples:
        >>> def truss(load):  # two springs of length √2 from (±1, 0) to a point that moves vertically
        ...     guides = {"x": planar.AbsoluteX("apex", (0, 0), 0.0), "phi": planar.AbsoluteAngle("apex", 0.0)}
        ...     springs = {
        ...         str(x): mbs.Spring("ground", "apex", (x, 0), (0, 0), stiffness=1.0, free_length=2**0.5) for x in (-1, 1)
        ...     }
        ...     forces = springs | {"load": mbs.PointForce("apex", (0, 0), (0, -load))}
        ...     return mbs.Mechanism({"apex": planar.Body()}, guides, forces=forces)
        >>> path = mbs.equilibria(truss, jnp.linspace(0, 1, 21), {"apex": (0, 1, 0)})
        >>> print([round(fold.parameter, 4) for fold in path.folds])  # ±2 (2^⅓ − 1)^1.5
        [0.265, -0.265]
    """
    check_outside("equilibria", "follow the path outside, or call `equilibrium` inside", values, t)
    numbers = np.asarray(values, float)
    if numbers.ndim != 1 or numbers.size < 2:
        raise ValueError(f"values must have shape (k,) with k ≥ 2, got {numbers.shape}")
    if not (np.all(np.diff(numbers) > 0) or np.all(np.diff(numbers) < 0)):
        raise ValueError("values must increase or decrease from the first to the last")
    first = equilibrium(mech(numbers[0]), guess, t, steady=steady, formulation=formulation)
    check_outside("equilibria", "follow the path outside, or call `equilibrium` inside", first.q)
    if first.status != Status.CONVERGED:
        return EquilibriumPath(
            numbers[:1], np.asarray(first.q)[None], np.array([first.stability]), (), int(first.status)
        )
    return _Follower(mech, formulation, steady, first, numbers).path()


class _Point(NamedTuple):
    """A point of a path, as the program returns it.

    Attributes:
        x: coordinates of the formulation.
        p: the parameter, from 0 at the first value to 1 at the last one.
        tangent: of the path: displacement in units (m,), then the rate of p.
        stiffness: `Equilibrium.stiffness`.
        converged: True if the corrections have converged.
        q: configuration of the bodies.
    """

    x: Float[Array, " n"]
    p: Float[Array, ""]
    tangent: Float[Array, " m1"]
    stiffness: Float[Array, "m m"]
    converged: Bool[Array, ""]
    q: Float[Array, " nq"]


class _Follower:
    """Follows one path of equilibria.

    Args:
        mech: function of the parameter.
        formulation: as for `equilibria`.
        steady: as for `equilibria`.
        first: the equilibrium at the first value.
        values: (k,), values of the parameter.
    """

    def __init__(
        self,
        mech: Callable[[Any], Mechanism],
        formulation: JointCoordinates | None,
        steady: bool,
        first: Equilibrium,
        values: Float[np.ndarray, " k"],
    ):
        self.begin, self.span, self.t = float(values[0]), float(values[-1] - values[0]), first.t
        # Largest difference of neighbouring values, as a fraction of the range.
        self.spacing = float(np.max(np.abs(np.diff(values)))) / abs(self.span)
        self.max_distance = min(MAX_DISTANCE, self.spacing)
        self.max_points = max(MAX_POINTS, MAX_POINTS_PER_VALUE * values.size)
        # Gears without marks mesh in the first equilibrium.
        self.build = lambda p: measure_marks(mech(self.begin + self.span * p), first.q)[0]
        self.formulation, self.steady = formulation_for_equilibrium(mech(values[0]), formulation, steady), steady
        self.step = jax.jit(ProgramWithFallback(self._step))
        self.first = first
        start = lambda q: self._equations(jnp.zeros((), q.dtype)).coordinates(q, self.t)
        self.x = jax.jit(ProgramWithFallback(start))(first.q)
        self.m = first.stiffness.shape[-1]

    def path(self) -> EquilibriumPath:
        """Return the whole path."""
        along = jnp.zeros(self.m + 1, self.x.dtype).at[-1].set(1)
        now = self.step(self.x, jnp.zeros((), self.x.dtype), along, jnp.zeros((), self.x.dtype))
        points, critical, distance, status = [now], [], self.max_distance, Status.NOT_CONVERGED
        while len(points) < self.max_points and distance > MIN_DISTANCE:
            trial = self._advance(now, distance)
            if not trial.converged or abs(float(trial.p - now.p)) > 2 * self.spacing:
                distance /= 2
                continue
            if abs(float(trial.p)) >= 1:
                trial = self._bisect(now, distance, lambda point: abs(float(point.p)) >= 1)
                status = Status.CONVERGED
            if found := self._critical(now, trial, distance):
                critical.append(found)
            points.append(trial)
            now = trial
            if status == Status.CONVERGED:
                break
            distance = min(1.5 * distance, self.max_distance)
        return self._result(points, critical, status)

    def _advance(self, now: _Point, distance: float) -> _Point:
        """Return the next point of the path at a distance from a point."""
        return self.step(now.x, now.p, now.tangent, jnp.asarray(distance, self.x.dtype))

    def _bisect(self, now: _Point, distance: float, beyond: Callable[[_Point], bool]) -> _Point:
        """Return the first point after `now`, at most `distance` away, at which `beyond` is True."""
        low, high = 0.0, distance
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            low, high = (low, middle) if beyond(self._advance(now, middle)) else (middle, high)
        return self._advance(now, high)

    def _critical(self, now: _Point, then: _Point, distance: float) -> CriticalPoint | None:
        """Return a critical point between two neighbours, or None if both have as many negative eigenvalues."""
        before = _count_negative(now.stiffness)
        if before == _count_negative(then.stiffness):
            return None
        at = self._bisect(now, distance, lambda point: _count_negative(point.stiffness) != before)
        turns = float(now.tangent[-1]) * float(then.tangent[-1]) < 0
        return CriticalPoint("fold" if turns else "bifurcation", self.begin + self.span * float(at.p), np.asarray(at.q))

    def _result(self, points: list[_Point], critical: list[CriticalPoint], status: Status) -> EquilibriumPath:
        """Return the points as an `EquilibriumPath`."""
        stack = jax.tree.map(lambda *leaves: np.stack(leaves), *points)
        stability = stability_of(stack.stiffness, np.zeros(len(points), int))
        return EquilibriumPath(self.begin + self.span * stack.p, stack.q, stability, tuple(critical), int(status))

    def _equations(self, p: Array) -> AbstractEquations:
        """Return the equations at rest for the parameter p."""
        return equations_at_rest(self.build(p), self.t, self.formulation, steady=self.steady)[0]

    def _step(self, x: Array, p: Array, tangent: Array, distance: Array) -> _Point:
        """Return the point at a distance along the tangent, corrected, with its own tangent."""
        size = self._equations(p).mech.size(self.first.q)
        balance = lambda x, p: balance_of_forces(self._equations(p), x, self.t, size, self.steady, DEFAULT_TOLERANCE)
        converged_correction = float(jnp.finfo(x.dtype).eps) ** CONVERGED_POWER
        space, unit = self._equations(p).space, balance(x, p).directions.unit
        displace = lambda x, d: space.retract(x, unit * d)

        def correction(x: Array, p: Array) -> tuple[Array, Array, Balance]:
            """Return the Newton correction of (x, p) orthogonal to the tangent, the tangent here, and the balance here."""
            at = balance(x, p)
            basis, m = at.directions.basis, at.free.size
            force_p, gap_p = jax.jvp(partial(self._force_and_gap, x, at), (p,), (jnp.ones_like(p),))[1]
            across, across_p = at.closing(at.gap), at.closing(gap_p)
            column = basis.T @ (force_p - at.stiffness @ across_p)
            border = jnp.append(tangent[:m] @ basis, tangent[m] + tangent[:m] @ across_p)
            factors = factor(jnp.concatenate([jnp.column_stack([at.reduced, -column]), border[None, :]]))
            change = factors.solve(jnp.append(at.free - basis.T @ (at.stiffness @ across), -tangent[:m] @ across))
            direction = factors.solve(jnp.zeros(m + 1, x.dtype).at[m].set(1))
            whole = lambda part: jnp.append(basis @ part[:m] + across_p * part[m], part[m])
            return whole(change) + jnp.append(across, 0), whole(direction), at

        def iterate(_: Any, carry: tuple[Array, ...]) -> tuple[Array, ...]:
            """Take one correction; carry: (x, p, largest entry of the last correction)."""
            x, p, _ = carry
            change = correction(x, p)[0]
            return displace(x, change[:-1]), p + change[-1], jnp.max(jnp.abs(change))

        predicted = displace(x, distance * tangent[:-1]), p + distance * tangent[-1], jnp.full((), jnp.inf, x.dtype)
        x, p, last = jax.lax.fori_loop(0, CORRECTIONS, iterate, predicted)
        _, direction, at = correction(x, p)
        direction = direction / jnp.sqrt(direction @ direction)
        converged = (last <= converged_correction) & jnp.all(jnp.isfinite(direction))
        return _Point(x, p, direction, at.reduced, converged, self._equations(p).configuration(x, self.t))

    def _force_and_gap(self, x: Array, at: Balance, p: Array) -> tuple[Float[Array, " m"], Float[Array, " rows"]]:
        """Return Q + Φ_qᵀλ (m,) and Φ (rows,) at x for a parameter p, in the units and with the λ of `at`."""
        equations = self._equations(p)
        pull, gap = constraint_force(equations, x, self.t, at.directions, at.multipliers)
        return force_at_rest(equations, x, self.t, at.directions, self.steady) + pull, at.gram.kept * gap


def _count_negative(stiffness: Float[Array, "m m"]) -> int:
    """Return the number of eigenvalues with a negative real part."""
    return int(np.sum(np.linalg.eigvals(np.asarray(stiffness)).real < 0))
