"""Singular configurations met by a motion: lock-up and bifurcation; Haug 3.7."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from jaxmbs.analyses.assembly import assembled_configuration
from jaxmbs.analyses.branches import MAX_VANISHING_RATE, linearise, singular_near, tangents
from jaxmbs.analyses.kinematics import Limits, driven_motion
from jaxmbs.analyses.unknowns import constraints_without_spin
from jaxmbs.numerics.implicit import jacobian
from jaxmbs.numerics.march import follow_root
from jaxmbs.numerics.results import Status, check_outside
from jaxmbs.numerics.scaling import DEFAULT_TOLERANCE, Units, unit_of_length
from jaxmbs.programs import ProgramWithFallback
from jaxmbs.system.inputs import as_times, motion_inputs
from jaxmbs.system.mechanism import Coordinates, Mechanism
from jaxmbs.system.trajectory import Trajectory

# Kind of a singular position in which the motion ends, in `Singularities.kinds`.
LOCK_UP = "lock-up"
# Kind of a singular position in which the motion may branch, in `Singularities.kinds`.
BIFURCATION = "bifurcation"
# Factor by which the caller's grid of times is refined, so that two sign changes of det Φ_q between two of its times
# are still told apart.
REFINEMENT = 4
# Distance from a zero of det Φ_q, as a fraction of a grid interval, of the points from which its cubic is interpolated.
# At the zero itself the configuration is known to half of the digits only.
STENCIL = 2e-3
# Φ_q counts as singular at a minimum of its smallest singular value if this is below this fraction of the largest one.
MAX_TOUCHING_RATIO = 1e-6
# A minimum of the smallest singular value of Φ_q on the grid is located only if it is below this fraction of the
# largest.
MAX_MINIMUM_RATIO = 0.1
# Largest number of steps of false position towards a sign change of det Φ_q.
MAX_CROSSING_STEPS = 60
# Number of golden sections towards a minimum of the smallest singular value of Φ_q.
GOLDEN_SECTIONS = 40
# Largest number of Newton steps towards the fold at which a motion ends.
MAX_FOLD_STEPS = 12


# Time, configuration (n,) and `Singularities.rates` of a singular position.
_Found = tuple[Any, np.ndarray, float]


class Singularities(NamedTuple):
    """Singular configurations along a motion, in the order in which it meets them.

    Attributes:
        times: (k,), the times at which Φ_q is singular.
        kinds: "lock-up", where the motion ends and q̇ grows without bound, or "bifurcation", where it may branch.
        q: (k, n), the configurations.
        rates: (k,) |βᵀΦ_t| with Φ_qᵀβ = 0, ‖β‖ = 1, rows of Φ_q scaled to unit length, relative to ‖Φ_t‖. It vanishes
            at a bifurcation and does not at lock-up; Haug (3.7.7).
        tangents: for each time the velocities (b, m) of the branches that meet there, the slowest first, Haug (3.7.10);
            none at a lock-up. Pass one of them to `kinematics` as `branch` to follow that branch. A branch along which
            the mechanism moves while its drivers stand still has no finite velocity and is not listed.

    Examples:
        >>> mbs.find_singularities(mech, jnp.linspace(0, 6, 25), guess).kinds  # the crank turns without any
        ()
    """

    times: np.ndarray
    kinds: tuple[str, ...]
    q: np.ndarray
    rates: np.ndarray
    tangents: tuple[np.ndarray, ...]


def find_singularities(
    mech: Mechanism,
    times: ArrayLike | Sequence[float],
    guess: Coordinates | None = None,
    *,
    tolerance: float = DEFAULT_TOLERANCE,
) -> Singularities:
    """Follow a motion and find the lock-ups and bifurcations on it: the times at which Φ_q is singular.

    A motion ends at a lock-up, and goes straight on through a bifurcation, where it may branch. Candidates are: sign
    changes of det Φ_q; zeros of the smallest singular value of Φ_q where det Φ_q does not change its sign; the end of a
    motion that cannot be continued. Each is located between the times of the grid. Then βᵀΦ_t, with Φ_qᵀβ = 0, tells
    the kind: it vanishes at a bifurcation and does not at a lock-up.

    All numbers of the mechanism must be known: this does not work inside jit, vmap or grad.

    Args:
        mech: the mechanism; its drivers determine the motion.
        times: (T,), the grid along which the motion is followed. Singular positions that lie much closer together than
            the times of this grid may be missed.
        guess: the mechanism is assembled near it at times[0]; see `Mechanism.coordinates`.
        tolerance: largest gap that redundant constraints may keep, relative to the size of the mechanism; see `assemble`.

    Returns:
        Times (k,), kinds, configurations (k, n) and the velocities of branches; see `Singularities`.

    Raises:
        ValueError: drivers are missing or redundant, or the mechanism cannot be assembled at times[0]; or called inside
            a transformation.

    Examples:
        >>> short = {"rod": (1, 0, 0), "slider": (1.5, 0, 0)}
        >>> found = mbs.find_singularities(slider_crank(rod=0.5), jnp.linspace(0, 1, 11), short)
        >>> print(found.kinds, found.times.round(4))  # where sin φ = 0.5: at π/6
        ('lock-up',) [0.5236]
    """
    check_outside("find_singularities", "inside, read `.status` of `kinematics`", mech, times, guess)
    times = np.asarray(as_times(times, mech.dtype))
    grid = np.interp(np.arange((len(times) - 1) * REFINEMENT + 1) / REFINEMENT, np.arange(len(times)), times).astype(
        times.dtype
    )
    mech, q, grid_times = motion_inputs(mech, guess, grid)
    motion = driven_motion(mech, grid_times, q, None, Limits(tolerance=float(tolerance)))
    status = np.asarray(motion.status)
    if status[0] not in (Status.CONVERGED, Status.SINGULAR, Status.LOCKED_UP):
        raise ValueError(f"the mechanism cannot be assembled at t = {grid[0]}: {Status(int(status[0])).name}")
    reached = int(np.sum((status == Status.CONVERGED) | (status == Status.SINGULAR)))
    found = _crossings(mech, motion, grid, status, reached) if reached else [_locked_start(mech, q, grid_times[0])]
    if 0 < reached < len(grid) and status[reached] in (Status.LOCKED_UP, Status.NOT_CONVERGED):
        end = _end_of_motion(mech, motion, grid, reached)
        found += [end] if end is not None else []
    kinds = tuple(BIFURCATION if rate < MAX_VANISHING_RATE else LOCK_UP for _, _, rate in found)
    n = mech.layout.n
    return Singularities(
        times=np.array([t for t, _, _ in found]),
        kinds=kinds,
        q=np.array([q for _, q, _ in found]).reshape(-1, n),
        rates=np.array([rate for _, _, rate in found]),
        tangents=tuple(
            tangents(mech, jnp.asarray(q, motion.q.dtype), t) if kind == BIFURCATION else np.zeros((0, mech.layout.m))
            for kind, (t, q, _) in zip(kinds, found, strict=True)
        ),
    )


def _crossings(mech: Mechanism, motion: Trajectory, grid: np.ndarray, status: np.ndarray, reached: int) -> list[_Found]:
    """Return (t, q, rate) for the zeros of det Φ_q, with or without a sign change, in the first `reached` grid times."""
    values = _measures_along(mech, motion.q[:reached], grid[:reached])
    regular = [k for k in range(reached) if status[k] == Status.CONVERGED]
    found = []
    for a, b in pairwise(regular):
        if values[a].determinant * values[b].determinant < 0:
            found.append(_locate_crossing(mech, motion, grid, a, b))
    for k in range(1, reached - 1):
        before, here, after = (values[j].smallest for j in (k - 1, k, k + 1))
        if here < min(before, after) and here < MAX_MINIMUM_RATIO:
            touching = _locate_touching(mech, motion, grid, k)
            near = touching is not None and any(
                abs(touching[0] - t) < abs(grid[k + 1] - grid[k - 1]) for t, *_ in found
            )
            found += [touching] if touching is not None and not near else []
    isolated = [k for k in range(reached) if status[k] == Status.SINGULAR]
    for k in isolated:
        if not any(abs(t - grid[k]) <= 2 * np.max(np.abs(np.diff(grid))) for t, *_ in found):
            found.append((grid[k], np.asarray(motion.q[k]), values[k].rate))
    return sorted(found, key=lambda item: np.argmin(np.abs(grid - item[0])))


def _locked_start(mech: Mechanism, guess: Array, t: Array) -> _Found:
    """Return (t, q, rate) of the singular position of a motion that locks up at its first time t."""
    q = singular_near(mech, assembled_configuration(mech, guess, t, (), DEFAULT_TOLERANCE)[0], t)
    return np.asarray(t)[()], np.asarray(q), _measures(mech, q, t).rate


class _Measures(NamedTuple):
    """Measures of singularity of a configuration, with the rows of Φ_q scaled to unit length.

    Attributes:
        determinant: of Φ_q; the product of its singular values if it is not square.
        smallest: the smallest singular value, relative to the largest.
        rate: |βᵀΦ_t| / ‖Φ_t‖ with the left null vector β.
        null: (m,), the right null vector.
    """

    determinant: float
    smallest: float
    rate: float
    null: np.ndarray


def _measures_along(mech: Mechanism, q: Array, t: Array | np.ndarray) -> list[_Measures]:
    """Return the `_Measures` of each of the configurations (T, n) at times (T,)."""
    _, matrix, by_time = (np.asarray(x, float) for x in linearise(mech, q, jnp.asarray(t, q.dtype)))
    lengths = np.linalg.norm(matrix, axis=2)
    by_time = by_time / lengths
    u, s, vt = np.linalg.svd(matrix / lengths[..., None])
    rows, n = matrix.shape[1:]
    determinant = np.prod(s, axis=1) * (np.linalg.det(u) * np.linalg.det(vt) if rows == n else 1)
    size = np.linalg.norm(by_time, axis=1)
    along = np.abs(np.sum(u[:, :, n - 1] * by_time, axis=1)) / np.where(size > 0, size, 1)
    return [_Measures(*values) for values in zip(determinant, s[:, n - 1] / s[:, 0], along, vt[:, n - 1], strict=True)]


def _measures(mech: Mechanism, q: ArrayLike, t: ArrayLike) -> _Measures:
    """Return the `_Measures` of one configuration at one time."""
    q = jnp.asarray(q)
    return _measures_along(mech, q[None], jnp.asarray(t, q.dtype)[None])[0]


@eqx.filter_jit
def _follow_motion(mech: Mechanism, q: Array, start: Array, end: Array) -> tuple[Array, Array, Array]:
    """Return q at time `end` of the motion through q at `start`, the last q that was reached, and its time."""
    phi = constraints_without_spin(mech, q, start).constant_phi
    space = mech.layout
    matrix = jacobian(phi, space, q, start)
    units = Units(space.angular, unit_of_length(matrix, space.extent(q), space.angular))
    # No limit on gaps: the motion has been checked already.
    path = follow_root(phi, space, jnp.stack([start, end]), q, jnp.asarray(True), units, tolerance=np.inf)
    return path.q[-1], path.last_q, path.last_time


def _configuration_at(mech: Mechanism, motion: Trajectory, grid: np.ndarray, k: int, t: float) -> Array:
    """Return the configuration (n,) at the time t, with the motion followed from time k of the grid."""
    q = motion.q[k]
    return _follow_motion(mech, q, jnp.asarray(grid[k], q.dtype), jnp.asarray(t, q.dtype))[0]


def _locate_crossing(mech: Mechanism, motion: Trajectory, grid: np.ndarray, a: int, b: int) -> _Found:
    """Return (t, q, rate) of a sign change of the determinant between the regular times a and b of the grid.

    False position, then a cubic through four points near the zero.
    """

    def determinant(t: float, k: int) -> float:
        """Return det Φ_q at the time t, with the motion followed from time k of the grid."""
        return _measures(mech, _configuration_at(mech, motion, grid, k, t), t).determinant

    low, high = (grid[a], determinant(grid[a], a)), (grid[b], determinant(grid[b], b))
    for _ in range(MAX_CROSSING_STEPS):
        if abs(high[0] - low[0]) < 4 * STENCIL * abs(grid[b] - grid[a]):
            break
        share = np.clip(low[1] / (low[1] - high[1]), 0.02, 0.98)
        t = low[0] + share * (high[0] - low[0])
        value = determinant(t, a)
        low, high = ((t, value), high) if value * low[1] > 0 else (low, (t, value))
    t = low[0] + low[1] / (low[1] - high[1]) * (high[0] - low[0])
    h = STENCIL * (grid[b] - grid[a])
    offsets = np.array([-2.0, -1.0, 1.0, 2.0])
    values = [determinant(t + x * h, a if x < 0 else b) for x in offsets]
    roots = np.roots(np.polyfit(offsets, values, 3))
    real = roots[np.abs(roots.imag) < 1e-6].real
    t = t + h * real[np.argmin(np.abs(real))]
    return _singular_point(mech, motion, grid, a, b, t, h)


def _singular_point(
    mech: Mechanism, motion: Trajectory, grid: np.ndarray, a: int, b: int, t: float, h: float
) -> _Found:
    """Return (t, q, rate) of a zero at t, with q interpolated from t − h and t + h, followed from grid times a and b."""
    before = _configuration_at(mech, motion, grid, a, t - h)
    after = _configuration_at(mech, motion, grid, b, t + h)
    q = np.asarray(mech.layout.retract(before, mech.layout.difference(before, after) / 2))
    return t, q, _measures(mech, jnp.asarray(q), t).rate


def _locate_touching(mech: Mechanism, motion: Trajectory, grid: np.ndarray, k: int) -> _Found | None:
    """Return (t, q, rate) of the minimum of the smallest singular value near time k of the grid; None if it is not zero."""
    a, b = grid[k - 1], grid[k + 1]
    ratio = (np.sqrt(5) - 1) / 2

    def smallest(t: float) -> float:
        """Return the smallest singular value of Φ_q at the time t, relative to the largest."""
        near = k - 1 if abs(t - grid[k - 1]) < abs(t - grid[k + 1]) else k + 1
        return _measures(mech, _configuration_at(mech, motion, grid, near, t), t).smallest

    left, right = b - ratio * (b - a), a + ratio * (b - a)
    at_left, at_right = smallest(left), smallest(right)
    for _ in range(GOLDEN_SECTIONS):
        if at_left < at_right:
            b, right, at_right = right, left, at_left
            left = b - ratio * (b - a)
            at_left = smallest(left)
        else:
            a, left, at_left = left, right, at_right
            right = a + ratio * (b - a)
            at_right = smallest(right)
    t = (a + b) / 2
    if smallest(t) > MAX_TOUCHING_RATIO:
        return None
    return _singular_point(mech, motion, grid, k - 1, k + 1, t, STENCIL * (grid[k + 1] - grid[k - 1]))


def _fold_system(mech: Mechanism, q: Array, u: Array, t: Array, direction: Array) -> tuple[Array, Array]:
    """Return the gaps of Φ = 0, Φ_q u = 0, cᵀu = 1 at (q, u, t), and their Jacobian by a displacement of q, by u and t.

    In a solution the motion turns back in time; c is the `direction`.
    """
    space, m = mech.layout, mech.layout.m

    def gaps(x: Array) -> Array:
        """Return Φ, Φ_q u and cᵀu − 1 after changes x of q, u and t."""
        q1, u1, t1 = space.retract(q, x[:m]), u + x[m : 2 * m], t + x[2 * m]
        phi = constraints_without_spin(mech, q1, t1).phi
        value, along_u = jax.jvp(lambda q: phi(q, t1), (q1,), (space.rate(q1, u1),))
        return jnp.concatenate([value, along_u, (direction @ u1 - 1)[None]])

    zero = jnp.zeros(2 * m + 1, q.dtype)
    return gaps(zero), jax.jacfwd(gaps)(zero)


# `_fold_system`, compiled.
_fold_equations = eqx.filter_jit(ProgramWithFallback(_fold_system))


def _end_of_motion(mech: Mechanism, motion: Trajectory, grid: np.ndarray, reached: int) -> _Found | None:
    """Return (t, q, rate) of the fold at which a motion ended, by Newton's method from the last configuration before it.

    None if it is not found there.
    """
    q = motion.q[reached - 1]
    start, end = (jnp.asarray(grid[k], q.dtype) for k in (reached - 1, reached))
    _, q, t = _follow_motion(mech, q, start, end)
    null = jnp.asarray(_measures(mech, q, t).null, q.dtype)
    m, u, last_t = mech.layout.m, null, float(t)
    for _ in range(MAX_FOLD_STEPS):
        value, matrix = (np.asarray(y, float) for y in _fold_equations(mech, q, u, t, null))
        change = jnp.asarray(np.linalg.lstsq(matrix, -value, rcond=None)[0], q.dtype)
        q, u, t = mech.layout.retract(q, change[:m]), u + change[m : 2 * m], t + change[2 * m]
        if np.max(np.abs(change)) < 1e-13 * (1 + max(np.max(np.abs(x)) for x in (q, u, t))):
            break
    finite = all(np.all(np.isfinite(x)) for x in (q, u, t))
    if not finite or abs(float(t) - last_t) > 0.1 * abs(grid[reached] - grid[reached - 1]):
        return None
    return float(t), np.asarray(q), _measures(mech, q, float(t)).rate
