"""Tangents of the motions that meet in a singular configuration; Haug (3.7.8) to (3.7.10)."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxmbs.analyses.unknowns import constraints_without_spin
from jaxmbs.numerics.implicit import jacobian, rate, second_rate
from jaxmbs.numerics.scaling import Units, gap_limit, unit_of_length
from jaxmbs.programs import ProgramWithFallback
from jaxmbs.system.mechanism import Mechanism

# |βᵀΦ_t| counts as zero, as at a bifurcation, below this fraction of ‖Φ_t‖: bifurcations are located to √eps only.
MAX_VANISHING_RATE = 1e-4
# Largest distance, in radians and sizes of the mechanism, at which a singular configuration replaces a given one.
MAX_SINGULAR_DISTANCE = 1e-5
# If the given configuration has gaps, this distance is at least this many times the square root of the largest gap:
# gaps grow as the square of the distance from a singular configuration.
MAX_SINGULAR_DISTANCE_PER_ROOT_GAP = 4.0
# Number of Newton steps from a given configuration to the singular one near it.
LOCATING_STEPS = 6
# Number of random starts of Newton's method on the quadratic equations of the tangents at a bifurcation.
TANGENT_STARTS = 200
# Number of Newton steps from each of the `TANGENT_STARTS` on the equations of the tangents.
TANGENT_STEPS = 40
# Range of log₁₀ of the sizes of the `TANGENT_STARTS`, relative to the velocity of smallest norm.
START_POWERS = (-1.0, 3.0)
# Largest residual of the quadratic equations at an accepted tangent, relative to the sum of their terms.
MAX_TANGENT_RESIDUAL = 1e-6
# Two roots of the equations of the tangents count as one if they differ by at most this, relative to 1 plus their size.
MIN_TANGENT_DIFFERENCE = 1e-4
# A tangent is isolated if the smallest singular value of the slopes of these equations, times 1 plus the size of the
# tangent, is larger than this, relative to the sum of their terms.
MIN_ISOLATING_SLOPE = 1e-4
# If the coefficients of these equations are all smaller than this, in scaled units, no tangent is isolated.
MIN_TANGENT_COEFFICIENT = 1e-6


@ProgramWithFallback
def _linear_system(mech: Mechanism, q: Array, t: Array) -> tuple[Array, Array, Array]:
    """Return Φ, Φ_q and Φ_t at one configuration, with rows that stop idle spins."""
    phi = constraints_without_spin(mech, q, t).phi
    space, zero = mech.layout, jnp.zeros(mech.layout.m, q.dtype)
    return phi(q, t), jacobian(phi, space, q, t), rate(phi, space, q, zero, t)


@eqx.filter_jit
def linearise(mech: Mechanism, q: Array, t: Array) -> tuple[Array, Array, Array]:
    """Return Φ (T, rows), Φ_q (T, rows, m) and Φ_t (T, rows) at configurations (T, n) and times (T,)."""
    return jax.vmap(lambda q, t: _linear_system(mech, q, t))(q, t)


@ProgramWithFallback
def _curvature(mech: Mechanism, q: Array, t: Array, v: Array) -> Array:
    """Return (Φ_q v)_q v + 2 Φ_qt v + Φ_tt, (rows,), for a velocity v (m,)."""
    phi = constraints_without_spin(mech, q, t).phi
    return second_rate(phi, mech.layout, q, v, jnp.zeros_like(v), t)


@eqx.filter_jit
def _curvatures(mech: Mechanism, q: Array, t: Array, v: Array) -> Array:
    """Return (Φ_q v)_q v + 2 Φ_qt v + Φ_tt, (k, rows), for each of the velocities v (k, m)."""
    return jax.vmap(lambda v: _curvature(mech, q, t, v))(v)


class _ScaledConstraints:
    """Φ at one configuration with first and second derivatives, in scaled rows and coordinates, and the SVD of Φ_q.

    Attributes:
        mech, q, t: the mechanism, configuration and time.
        unit: (m,), units of the velocities, by which columns of Φ_q are multiplied.
        rows: (rows,), units of the rows of Φ, by which they are divided.
        value, by_time: (rows,), Φ and Φ_t in these units.
        left, singular_values, right: Φ_q in these units is leftᵀ · diag(singular_values) · right.
    """

    def __init__(self, mech: Mechanism, q: Array, t: Array):
        self.mech, self.q, self.t = mech, jnp.asarray(q), jnp.asarray(t, q.dtype)
        value, matrix, by_time = (x[0] for x in linearise(mech, self.q[None], self.t[None]))
        layout = mech.layout
        units = Units(layout.angular, unit_of_length(matrix, layout.extent(self.q), layout.angular))
        self.unit, self.rows = np.asarray(units.vector, float), np.asarray(units.rows(matrix), float)
        self.value, self.by_time = np.asarray(value, float) / self.rows, np.asarray(by_time, float) / self.rows
        left, self.singular_values, right = np.linalg.svd(np.asarray(matrix, float) * self.unit / self.rows[:, None])
        self.left, self.right = left.T, right

    def solve(self, rhs: np.ndarray, rank: int) -> np.ndarray:
        """Return the x of smallest norm with Φ_q x = rhs in scaled units, from the `rank` largest singular values."""
        return self.right[:rank].T @ ((self.left[:rank] @ rhs) / self.singular_values[:rank])

    def curvatures(self, velocities: np.ndarray) -> np.ndarray:
        """Return (Φ_q v)_q v + 2 Φ_qt v + Φ_tt, (k, rows), in scaled rows, for scaled velocities (k, m)."""
        v = jnp.asarray(np.atleast_2d(velocities) * self.unit, self.q.dtype)
        return np.asarray(_curvatures(self.mech, self.q, self.t, v), float) / self.rows


def tangents(mech: Mechanism, q: Array, t: Array) -> np.ndarray:
    """Return the velocities (k, m) of the motions through a singular configuration, the slowest first; none at a lock-up.

    A velocity satisfies Φ_q q̇ = −Φ_t. Its solutions are v + N α with Φ_q N = 0, Haug (3.7.10). The second derivative of
    Φ = 0 along a motion has to vanish as well: βᵀ((Φ_q q̇)_q q̇ + 2 Φ_qt q̇ + Φ_tt) = 0 for all β with Φ_qᵀβ = 0. These
    quadratic equations in α are solved by Newton's method from many starts. If a singular configuration is as near to q
    as `singular_near` allows, the tangents are computed there.
    """
    local = _singular_constraints(mech, q, t)
    none = np.zeros((0, mech.layout.m))
    rank = _rank(local)
    left, null = local.left[rank:], local.right[rank:]
    by_time = np.linalg.norm(local.by_time)
    if len(local.rows) < len(local.unit) or not len(null):
        return none
    if np.linalg.norm(left @ local.by_time) > MAX_VANISHING_RATE * by_time or by_time == 0:
        return none
    slowest = -local.solve(local.by_time, rank)
    size = np.linalg.norm(slowest)
    # Find the coefficients of βᵀ(second derivative), a quadratic polynomial in α, from its values at some α.
    d = len(null)
    first, second = np.triu_indices(d)
    points = [np.zeros((1, d)), np.eye(d), -np.eye(d), np.eye(d)[first] + np.eye(d)[second]]
    values = local.curvatures(slowest + size * np.concatenate(points) @ null) @ left.T
    constant, plus, minus, mixed = np.split(values, [1, 1 + d, 1 + 2 * d])
    linear, squares = (plus - minus) / 2, (plus + minus) / 2 - constant
    products = np.zeros((d, d, len(left)))
    products[first, second] = (mixed - constant - linear[first] - linear[second] - squares[first] - squares[second]) / 2
    products[second, first] = products[first, second]
    found = _common_roots(constant[0], linear, products)
    return (slowest + size * found @ null) * local.unit


def _common_roots(constant: np.ndarray, linear: np.ndarray, products: np.ndarray) -> np.ndarray:
    """Return all isolated α (k, d) with c + αᵢ lᵢ + αᵢ αⱼ pᵢⱼ = 0, the smallest first, by Newton's method from many starts.

    The arguments are c (rows,), l (d, rows), and p (d, d, rows), which is symmetric.
    """
    d = len(linear)
    sizes = [np.max(np.abs(x), initial=0) for x in (constant, linear, products)]
    if max(sizes) < MIN_TANGENT_COEFFICIENT:
        return np.zeros((0, d))
    random = np.random.default_rng(0)
    x = random.normal(size=(TANGENT_STARTS, d)) * 10 ** random.uniform(*START_POWERS, (TANGENT_STARTS, 1))
    for _ in range(TANGENT_STEPS):
        of_products = np.einsum("si,ijr->sjr", x, products)
        value = constant + x @ linear + np.einsum("sj,sjr->sr", x, of_products)
        slopes = np.swapaxes(linear + 2 * of_products, 1, 2)
        x = x - np.einsum("sir,sr->si", np.linalg.pinv(slopes, rcond=1e-12), value)
    length = np.linalg.norm(x, axis=1)
    scale = sizes[0] + sizes[1] * length + sizes[2] * length**2
    slope = np.linalg.svd(slopes, compute_uv=False)[:, -1] * (1 + length)
    isolated = (slope > MIN_ISOLATING_SLOPE * scale) | (d == 1)
    good = np.isfinite(length) & (np.max(np.abs(value), axis=1) <= MAX_TANGENT_RESIDUAL * scale) & isolated
    found: list[np.ndarray] = []
    for k in np.argsort(np.where(good, length, np.inf))[: np.sum(good)]:
        if all(np.linalg.norm(x[k] - other) > MIN_TANGENT_DIFFERENCE * (1 + length[k]) for other in found):
            found.append(x[k])
    return np.array(found).reshape(-1, d)


def _rank(local: _ScaledConstraints) -> int:
    """Return the rank of Φ_q: singular values that are errors of about √eps do not count."""
    eps = float(np.finfo(np.dtype(local.q.dtype)).eps)
    return int(np.sum(local.singular_values > max(len(local.rows), len(local.unit)) * eps**0.5))


def singular_near(mech: Mechanism, q: Array, t: Array) -> Array:
    """Return the singular configuration within `max_singular_distance` of q if there is one, else q itself."""
    return _singular_constraints(mech, q, t).q


def max_singular_distance(gap: float) -> float:
    """Return the largest distance from a configuration with this gap to a singular one that replaces it.

    Both are in radians and sizes of the mechanism.
    """
    return max(MAX_SINGULAR_DISTANCE, MAX_SINGULAR_DISTANCE_PER_ROOT_GAP * gap**0.5)


def _singular_constraints(mech: Mechanism, q: Array, t: Array) -> _ScaledConstraints:
    """Return the constraints at the singular configuration near q if there is one, else at q.

    It is found by Newton's method for Φ = 0 and Φ_q u = 0 with the current null vectors u.
    """
    given = local = _ScaledConstraints(mech, q, t)
    near = max_singular_distance(float(np.max(np.abs(given.value), initial=0)))
    if len(given.rows) < len(given.unit) or not given.singular_values[-1] <= near:
        return given
    moved = 0.0
    for _ in range(LOCATING_STEPS):
        rank = int(np.sum(local.singular_values > near))
        step = -local.solve(local.value, rank)
        for k in range(rank, len(local.unit)):
            u = local.right[k]
            still, ahead, back = local.curvatures(np.stack([0 * u, u, -u]))
            bend = local.left[rank:] @ ((ahead + back) / 2 - still)
            step = step - u * bend[k - rank] * local.singular_values[k] / max(bend @ bend, near)
        moved += np.max(np.abs(step))
        moved_q = mech.layout.retract(local.q, jnp.asarray(step * local.unit, local.q.dtype))
        local = _ScaledConstraints(mech, moved_q, t)
    closed = np.max(np.abs(local.value)) <= max(gap_limit(local.q.dtype, 0.0), np.max(np.abs(given.value)))
    return local if moved <= near and closed and _rank(local) < len(local.unit) else given
