"""Singular configurations met by a motion: lock-up and bifurcation; Haug 3.7."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxmbs.analyses.assembly import assemble
from jaxmbs.analyses.branches import VANISHING_RATE, linearise, singular_near, tangents
from jaxmbs.analyses.idle import determined
from jaxmbs.analyses.kinematics import kinematics
from jaxmbs.numerics.implicit import jacobian
from jaxmbs.numerics.march import follow_root
from jaxmbs.numerics.results import Status, check_outside
from jaxmbs.numerics.scaling import DEFAULT_TOLERANCE, Units, unit_of_length
from jaxmbs.programs import ProgramWithFallback
from jaxmbs.system.marks import as_drawn
from jaxmbs.system.mechanism import Coordinates, Mechanism, as_times

LOCK_UP, BIFURCATION = "lock-up", "bifurcation"


class Singularities(NamedTuple):
    """Singular configurations along a motion, in the order in which it meets them.

    Attributes:
        times: (k,) when Φ_q is singular.
        kinds: "lock-up", where the motion ends and q̇ grows without bound, or "bifurcation", where it may branch.
        q: (k, n) the configurations.
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


# The grid of the caller is refined by this factor, so that two sign changes of the determinant between two of its
# times are still told apart.
REFINEMENT = 4
# The determinant is interpolated from points this part of a grid interval away from its zero, because at the zero
# itself the configuration is known to half of the digits only.
STENCIL = 2e-3
# A smallest singular value below this part of the largest, at its minimum along the motion, counts as zero.
TOUCHING = 1e-6


def find_singularities(
    mech: Mechanism,
    times: ArrayLike | Sequence[float],
    guess: Coordinates | None = None,
    *,
    tolerance: float = DEFAULT_TOLERANCE,
) -> Singularities:
    """Follow a motion and find where Φ_q is singular, and whether that is a lock-up or a bifurcation.

    A motion ends at a lock-up, and goes straight on through a bifurcation, where it may branch. Candidates are: sign
    changes of det Φ_q; zeros of the smallest singular value of Φ_q where det Φ_q does not change its sign; the end of a
    motion that cannot be continued. Each is located between the times of the grid. Then βᵀΦ_t, with Φ_qᵀβ = 0, says
    which kind it is: it vanishes at a bifurcation and does not at a lock-up.

    All numbers of the mechanism must be known: this does not work inside jit, vmap or grad.

    Args:
        mech: the mechanism; its drivers determine the motion.
        times: (T,), the grid along which the motion is followed. Singular positions that lie much closer together than
            the times of this grid may be missed.
        guess: the mechanism is assembled near it at times[0]; see `Mechanism.coordinates`.
        tolerance: largest gap that redundant constraints may keep, relative to the size of the mechanism; see `assemble`.

    Returns:
        `Singularities`.

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
    mech, q = as_drawn(mech, mech.coordinates(guess))
    motion = kinematics(mech, grid, q, tolerance=tolerance)
    status = np.asarray(motion.status)
    if status[0] not in (Status.CONVERGED, Status.SINGULAR, Status.LOCKED_UP):
        raise ValueError(f"the mechanism cannot be assembled at t = {grid[0]}: {Status(int(status[0])).name}")
    reached = int(np.sum((status == Status.CONVERGED) | (status == Status.SINGULAR)))
    found = _crossings(mech, motion, grid, status, reached) if reached else [_start(mech, guess, motion, grid[0])]
    if 0 < reached < len(grid) and status[reached] in (Status.LOCKED_UP, Status.NOT_CONVERGED):
        end = _end_of_motion(mech, motion, grid, reached)
        found += [end] if end is not None else []
    kinds = tuple(BIFURCATION if small < VANISHING_RATE else LOCK_UP for _, _, small in found)
    n = mech.layout.n
    return Singularities(
        times=np.array([t for t, _, _ in found]),
        kinds=kinds,
        q=np.array([q for _, q, _ in found]).reshape(-1, n),
        rates=np.array([small for _, _, small in found]),
        tangents=tuple(
            tangents(mech, jnp.asarray(q, motion.q.dtype), t) if kind == BIFURCATION else np.zeros((0, mech.layout.m))
            for kind, (t, q, _) in zip(kinds, found, strict=True)
        ),
    )


def _crossings(mech, motion, grid, status, reached) -> list:
    """Sign changes and touching zeros of the determinant between the times that were reached."""
    values = _along(mech, motion.q[:reached], grid[:reached])
    regular = [k for k in range(reached) if status[k] == Status.CONVERGED]
    found = []
    for a, b in pairwise(regular):
        if values[a].determinant * values[b].determinant < 0:
            found.append(_locate_crossing(mech, motion, grid, a, b))
    for k in range(1, reached - 1):
        before, here, after = (values[j].smallest for j in (k - 1, k, k + 1))
        if here < min(before, after) and here < 0.1:
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


def _start(mech, guess, motion, t):
    """Time, configuration and rate of the singular position of a motion that locks up at its first time."""
    q = singular_near(mech, assemble(mech, guess, t).q, jnp.asarray(t, motion.q.dtype))
    return t, np.asarray(q), _measures(mech, q, t).rate


class _Measures(NamedTuple):
    determinant: float
    smallest: float
    rate: float
    null: np.ndarray


def _along(mech, q, t) -> list[_Measures]:
    """At each of these configurations: determinant and smallest singular value of the row-scaled Φ_q, its null vector,
    and |βᵀΦ_t| / ‖Φ_t‖."""
    _, matrix, by_time = (np.asarray(x, float) for x in linearise(mech, q, jnp.asarray(t, q.dtype)))
    lengths = np.linalg.norm(matrix, axis=2)
    by_time = by_time / lengths
    u, s, vt = np.linalg.svd(matrix / lengths[..., None])
    rows, n = matrix.shape[1:]
    determinant = np.prod(s, axis=1) * (np.linalg.det(u) * np.linalg.det(vt) if rows == n else 1)
    size = np.linalg.norm(by_time, axis=1)
    along = np.abs(np.sum(u[:, :, n - 1] * by_time, axis=1)) / np.where(size > 0, size, 1)
    return [_Measures(*values) for values in zip(determinant, s[:, n - 1] / s[:, 0], along, vt[:, n - 1], strict=True)]


def _measures(mech, q, t) -> _Measures:
    """Those of one configuration; see `_along`."""
    q = jnp.asarray(q)
    return _along(mech, q[None], jnp.asarray(t, q.dtype)[None])[0]


@eqx.filter_jit
def _advance(mech, q, start, end):
    """The configuration at `end` on the motion through q at `start`, the last one reached, and its time."""
    _, still, _ = determined(mech, q, start)
    space = mech.layout
    matrix = jacobian(still, space, q, start)
    units = Units(space.angular, unit_of_length(matrix, space.extent(q), space.angular))
    # No limit on gaps: the motion has been checked already.
    path = follow_root(still, space, jnp.stack([start, end]), q, jnp.asarray(True), units, tolerance=np.inf)
    return path.q[-1], path.last_q, path.last_time


def _at(mech, motion, grid, k, t):
    """The configuration at t, coming from the time k of the grid."""
    q = motion.q[k]
    return _advance(mech, q, jnp.asarray(grid[k], q.dtype), jnp.asarray(t, q.dtype))[0]


def _locate_crossing(mech, motion, grid, a, b):
    """A zero of the determinant between two regular times: false position, then a cubic through four points near it."""

    def determinant(t, k):
        return _measures(mech, _at(mech, motion, grid, k, t), t).determinant

    low, high = (grid[a], determinant(grid[a], a)), (grid[b], determinant(grid[b], b))
    for _ in range(60):
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


def _singular_point(mech, motion, grid, a, b, t, h):
    """Time, configuration and βᵀΦ_t at a zero, the configuration interpolated from both sides."""
    before, after = _at(mech, motion, grid, a, t - h), _at(mech, motion, grid, b, t + h)
    q = np.asarray(mech.layout.retract(before, mech.layout.difference(before, after) / 2))
    return t, q, _measures(mech, jnp.asarray(q), t).rate


def _locate_touching(mech, motion, grid, k):
    """A zero of the smallest singular value without change of sign: its minimum by golden sections, if that is zero."""
    a, b = grid[k - 1], grid[k + 1]
    ratio = (np.sqrt(5) - 1) / 2

    def smallest(t):
        near = k - 1 if abs(t - grid[k - 1]) < abs(t - grid[k + 1]) else k + 1
        return _measures(mech, _at(mech, motion, grid, near, t), t).smallest

    left, right = b - ratio * (b - a), a + ratio * (b - a)
    at_left, at_right = smallest(left), smallest(right)
    for _ in range(40):
        if at_left < at_right:
            b, right, at_right = right, left, at_left
            left = b - ratio * (b - a)
            at_left = smallest(left)
        else:
            a, left, at_left = left, right, at_right
            right = a + ratio * (b - a)
            at_right = smallest(right)
    t = (a + b) / 2
    if smallest(t) > TOUCHING:
        return None
    return _singular_point(mech, motion, grid, k - 1, k + 1, t, STENCIL * (grid[k + 1] - grid[k - 1]))


def _fold_system(mech, q, u, t, direction):
    """Φ = 0, Φ_q u = 0, cᵀu = 1 for (q, u, t), the configuration where a motion turns back in time; and the derivative by
    a displacement of q, by u and t."""
    space, m = mech.layout, mech.layout.m

    def equations(x):
        at, along, time = space.retract(q, x[:m]), u + x[m : 2 * m], t + x[2 * m]
        phi, _, _ = determined(mech, at, time)
        value, turned = jax.jvp(lambda q: phi(q, time), (at,), (space.rate(at, along),))
        return jnp.concatenate([value, turned, (direction @ along - 1)[None]])

    still = jnp.zeros(2 * m + 1, q.dtype)
    return equations(still), jax.jacfwd(equations)(still)


_fold_equations = eqx.filter_jit(ProgramWithFallback(_fold_system))


def _end_of_motion(mech, motion, grid, reached):
    """The fold at which a motion ended, by Newton's method from the last configuration before it."""
    q = motion.q[reached - 1]
    start, end = (jnp.asarray(grid[k], q.dtype) for k in (reached - 1, reached))
    _, q, t = _advance(mech, q, start, end)
    null = jnp.asarray(_measures(mech, q, t).null, q.dtype)
    m, u, at, first = mech.layout.m, null, t, float(t)
    for _ in range(12):
        value, matrix = (np.asarray(y, float) for y in _fold_equations(mech, q, u, at, null))
        change = jnp.asarray(np.linalg.lstsq(matrix, -value, rcond=None)[0], q.dtype)
        q, u, at = mech.layout.retract(q, change[:m]), u + change[m : 2 * m], at + change[2 * m]
        if np.max(np.abs(change)) < 1e-13 * (1 + max(np.max(np.abs(x)) for x in (q, u, at))):
            break
    finite = all(np.all(np.isfinite(x)) for x in (q, u, at))
    if not finite or abs(float(at) - first) > 0.1 * abs(grid[reached] - grid[reached - 1]):
        return None
    return float(at), np.asarray(q), _measures(mech, q, float(at)).rate
