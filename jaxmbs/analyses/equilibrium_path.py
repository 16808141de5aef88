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

from jaxmbs.analyses.balance import Balance, balance_of_forces, equations_at_rest, loads
from jaxmbs.analyses.equilibrium import Equilibrium, equilibrium, stability_of
from jaxmbs.formulations.joint.joint_coordinates import JointCoordinates
from jaxmbs.numerics.linear_algebra import factor
from jaxmbs.numerics.results import Status
from jaxmbs.programs import ProgramWithFallback
from jaxmbs.system.mechanism import Coordinates, Mechanism

# Largest distance between points of a path, in radians and sizes of the mechanism.
MAX_DISTANCE = 0.05
# Smallest distance between points; if the corrections do not converge with it, the path ends.
MIN_DISTANCE = 1e-6
# Largest number of points of a path.
MAX_POINTS = 2000
# Number of Newton corrections for each point.
CORRECTIONS = 6
# A point has converged if its last correction is below this power of the rounding unit.
CONVERGED_POWER = 0.4
# Number of steps of bisection that locate a fold or a bifurcation; each halves the interval.
BISECTIONS = 40


class CriticalPoint(NamedTuple):
    """A point of a path of equilibria at which the stiffness is singular.

    Attributes:
        kind: "fold" if the parameter turns back: beyond this value the equilibrium does not exist; "bifurcation" if another
            path crosses.
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
        stability: (points,), "stable", "unstable" or "neutral".
        critical: folds and bifurcations, in the order of the path.
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
    """Follow an equilibrium while a parameter changes, through folds, by the length of the path.

    From the equilibrium at the first value near the guess, each point is predicted along the tangent of the path and
    corrected by Newton's method orthogonally to it, with the parameter as a further unknown. So the path can turn back, as
    in the snap-through of a truss. It ends where the parameter reaches the last value, or is as far from the first value
    on the other side. Where a path crosses another one, it is followed straight on.

    Args:
        mech: a function of the parameter that returns the mechanism. To follow a driver, let it return a mechanism with
            the constant motion `mbs.motion.Constant(parameter)`.
        values: values of the parameter (k,), from the first to the last in one direction. Points are at most as far apart
            as two of these.
        guess: near the equilibrium at the first value; see `Mechanism.coordinates`.
        t: time.
        steady: as for `equilibrium`.
        formulation: chooses the unknowns, `JointCoordinates()` by default.

    Returns:
        An `EquilibriumPath`.

    Raises:
        ValueError: fewer than two values; values not in one direction; as `equilibrium`.

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
    numbers = np.asarray(values, float)
    if numbers.ndim != 1 or numbers.size < 2:
        raise ValueError(f"values must be a row of at least two numbers, got shape {numbers.shape}")
    if not (np.all(np.diff(numbers) > 0) or np.all(np.diff(numbers) < 0)):
        raise ValueError("values must increase or decrease from the first to the last")
    formulation = formulation or JointCoordinates()
    begin, end = map(float, numbers[[0, -1]])
    first = equilibrium(mech(begin), guess, t, steady=steady, formulation=formulation)
    if first.status != Status.CONVERGED:
        return EquilibriumPath(
            numbers[:1], np.asarray(first.q)[None], np.array([first.stability]), (), int(first.status)
        )
    follower = _Follower(mech, formulation, steady, first, begin, end - begin, np.max(np.abs(np.diff(numbers))))
    return follower.path()


class _Point(NamedTuple):
    """A point of a path, as the program returns it.

    Attributes:
        x: coordinates of the formulation.
        p: the parameter, from 0 at the first value to 1 at the last one.
        tangent: of the path: displacement in units (m,), then the rate of p.
        sign: of the determinant of the stiffness.
        stiffness: `Equilibrium.stiffness`.
        converged: True if the corrections have converged.
        q: configuration of the bodies.
    """

    x: Float[Array, " n"]
    p: Float[Array, ""]
    tangent: Float[Array, " m1"]
    sign: Float[Array, ""]
    stiffness: Float[Array, "m m"]
    converged: Bool[Array, ""]
    q: Float[Array, " nq"]


class _Follower:
    """Follows one path of equilibria; the arguments are those of `equilibria`, checked."""

    def __init__(self, mech, formulation, steady, first: Equilibrium, begin: float, span: float, spacing: float):
        self.begin, self.span, self.spacing, self.t = begin, span, spacing / abs(span), first.t
        self.build = lambda p: mech(begin + span * p)
        self.formulation, self.steady = formulation, steady
        self.step = jax.jit(ProgramWithFallback(self._step))
        self.first = first
        start = lambda q: self._equations(jnp.zeros((), q.dtype)).coordinates(q, self.t)
        self.x = jax.jit(ProgramWithFallback(start))(first.q)
        self.m = first.stiffness.shape[-1]

    def path(self) -> EquilibriumPath:
        """Return the whole path."""
        along = jnp.zeros(self.m + 1, self.x.dtype).at[-1].set(1)
        now = self.step(self.x, jnp.zeros((), self.x.dtype), along, jnp.zeros((), self.x.dtype))
        points, critical, distance, status = [now], [], self._first_distance(), Status.NOT_CONVERGED
        while len(points) < MAX_POINTS and distance > MIN_DISTANCE:
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
            distance = min(1.5 * distance, self._first_distance())
        return self._result(points, critical, status)

    def _first_distance(self) -> float:
        """Return the largest distance between two points: it changes the parameter by no more than the spacing."""
        return min(MAX_DISTANCE, self.spacing)

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
        """Return the critical point between two neighbours, or None if the stiffness is regular between them."""
        if float(now.sign) * float(then.sign) >= 0:
            return None
        turns = float(now.tangent[-1]) * float(then.tangent[-1]) < 0
        at = self._bisect(now, distance, lambda point: float(point.sign) * float(now.sign) <= 0)
        kind = "fold" if turns else "bifurcation"
        return CriticalPoint(kind, self.begin + self.span * float(at.p), np.asarray(at.q))

    def _result(self, points: list[_Point], critical: list[CriticalPoint], status: Status) -> EquilibriumPath:
        """Return the points as an `EquilibriumPath`."""
        stack = jax.tree.map(lambda *leaves: np.stack(leaves), *points)
        stability = stability_of(stack.stiffness, np.full(len(points), True))
        return EquilibriumPath(self.begin + self.span * stack.p, stack.q, stability, tuple(critical), int(status))

    def _equations(self, p):
        """Return the equations at rest for the parameter p."""
        return equations_at_rest(self.build(p), self.t, self.formulation, steady=self.steady)[0]

    def _step(self, x: Array, p: Array, tangent: Array, distance: Array) -> _Point:
        """Return the point at a distance along the tangent, corrected, with its own tangent."""
        size = self._equations(p).mech.size(self.first.q)
        balance = lambda x, p: balance_of_forces(self._equations(p), x, self.t, size, self.steady)
        small = float(jnp.finfo(x.dtype).eps) ** CONVERGED_POWER
        space, unit = self._equations(p).space, balance(x, p).directions.unit
        moved = lambda x, d: space.retract(x, unit * d)

        def corrected(x: Array, p: Array, aim: Array) -> tuple[Array, Array, Array, Balance]:
            """Return the correction of x and p, orthogonal to the tangent, and the direction along it, at a point.

            `aim` is the length of the result along the tangent.
            """
            at = balance(x, p)
            by_p = jax.jvp(partial(self._loads, x, at), (p,), (jnp.ones_like(p),))[1]
            force_p, gap_p = by_p
            spins = jnp.zeros(at.gap.size - gap_p.size, x.dtype)
            across, across_p = at.closing(at.gap), at.closing(jnp.append(gap_p, spins))
            basis = at.directions.basis
            column = basis.T @ (force_p - at.stiffness @ across_p)
            right = at.free - basis.T @ (at.stiffness @ across)
            m = right.size
            border = jnp.append(tangent[:m] @ basis, tangent[m] + tangent[:m] @ across_p)
            matrix = jnp.concatenate([jnp.column_stack([at.reduced, -column]), border[None, :]])
            solution = factor(matrix).solve(jnp.append(right, aim - tangent[:m] @ across))
            direction = factor(matrix).solve(jnp.zeros(m + 1, x.dtype).at[m].set(1))
            full = lambda part: jnp.append(basis @ part[:m] + across_p * part[m], part[m])
            return full(solution) + jnp.append(across, 0), full(direction), factor(at.reduced).sign, at

        def iterate(_: Any, carry: tuple[Array, ...]) -> tuple[Array, ...]:
            """Take one correction; carry: (x, p, size of the last correction)."""
            x, p, _ = carry
            change = corrected(x, p, jnp.zeros((), x.dtype))[0]
            return moved(x, change[:-1]), p + change[-1], jnp.max(jnp.abs(change))

        predicted = moved(x, distance * tangent[:-1]), p + distance * tangent[-1], jnp.full((), jnp.inf, x.dtype)
        x, p, last = jax.lax.fori_loop(0, CORRECTIONS, iterate, predicted)
        _, direction, sign, at = corrected(x, p, jnp.zeros((), x.dtype))
        direction = direction / jnp.sqrt(direction @ direction)
        q = self._equations(p).configuration(x, self.t)
        converged = (last <= small) & jnp.all(jnp.isfinite(direction))
        return _Point(x, p, direction, sign, at.reduced, converged, q)

    def _loads(self, x: Array, at: Balance, p: Array) -> tuple[Float[Array, " m"], Float[Array, " rows"]]:
        """Return the forces (m,) and gaps (rows,) of `Balance` as functions of the parameter, at constant x and λ."""
        return loads(self._equations(p), x, self.t, at, self.steady)
