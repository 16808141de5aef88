"""Cubic splines with continuous second derivatives, differentiable in their abscissa and in their knots."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


@functools.lru_cache(maxsize=32)
def _periodic_moment_matrix(n: int) -> np.ndarray:
    """Return C with M = C y: second derivatives times h² at the n equally spaced knots of a periodic spline.

    M is the solution of M₋ + 4 M + M₊ = 6 (y₋ − 2 y + y₊), cyclically.
    """
    identity = np.eye(n)
    neighbours = np.roll(identity, 1, axis=0) + np.roll(identity, -1, axis=0)
    return np.linalg.solve(neighbours + 4 * identity, 6 * (neighbours - 2 * identity))


def _cubic(fraction: Array, left: Array, right: Array, moment_left: Array, moment_right: Array) -> Array:
    """Return a cubic at a fraction, 0 to 1, of an interval, from end values and h² times end second derivatives."""
    f, g = fraction, 1 - fraction
    return g * left + f * right + ((g**3 - g) * moment_left + (f**3 - f) * moment_right) / 6


def periodic_spline(values: Float[Array, " n"], period: float, x: Float[Array, ""] | float) -> Float[Array, ""]:
    """Return the C² cubic through `values` at x = 0, p/n, 2p/n, …, continued with period p. Needs n ≥ 3."""
    n = values.shape[0]
    position = x * (n / period)
    cell = jax.lax.stop_gradient(jnp.floor(position))
    k = jnp.mod(cell, n).astype(int)
    moments = jnp.asarray(_periodic_moment_matrix(n), values.dtype)
    after = jnp.mod(k + 1, n)
    # All moments at once: in a program they do not depend on x, and are computed once.
    moments = moments @ values
    return _cubic(position - cell, values[k], values[after], moments[k], moments[after])


def _tridiagonal(lower: Array, diagonal: Array, upper: Array, rhs: Array) -> Array:
    """Solve a tridiagonal system by Thomas' algorithm; matrices of splines are diagonally dominant and need no pivots."""

    def forward(carry: tuple[Array, Array], row: tuple[Array, ...]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Eliminate the lower entry of a row; return the scaled upper entry and right-hand side, twice."""
        c, d = carry
        low, mid, up, b = row
        pivot = mid - low * c
        return (up / pivot, (b - low * d) / pivot), (up / pivot, (b - low * d) / pivot)

    def backward(x: Array, row: tuple[Array, Array]) -> tuple[Array, Array]:
        """Return an unknown, twice, from the next one and its eliminated row."""
        c, d = row
        x = d - c * x
        return x, x

    zero = jnp.zeros((), rhs.dtype)
    _, reduced = jax.lax.scan(forward, (zero, zero), (lower, diagonal, upper, rhs))
    return jax.lax.scan(backward, zero, reduced, reverse=True)[1]


def _not_a_knot_second_derivatives(x: Array, y: Array) -> Array:
    """Return second derivatives at the knots x; the third one has no jump at the second and last but one."""
    h = jnp.diff(x)
    slope = jnp.diff(y) / h
    rhs = 6 * jnp.diff(slope)
    lower, diagonal, upper = h[:-1], 2 * (h[:-1] + h[1:]), h[1:]
    # M₀ = M₁ + (M₁ − M₂) h₀/h₁ put into the first row, and its mirror image into the last.
    first, last = h[0] / h[1], h[-1] / h[-2]
    diagonal = diagonal.at[0].add(h[0] * (1 + first)).at[-1].add(h[-1] * (1 + last))
    upper = upper.at[0].add(-h[0] * first)
    lower = lower.at[-1].add(-h[-1] * last)
    inner = _tridiagonal(lower.at[0].set(0), diagonal, upper.at[-1].set(0), rhs)
    start = inner[0] + (inner[0] - inner[1]) * first
    end = inner[-1] + (inner[-1] - inner[-2]) * last
    return jnp.concatenate([start[None], inner, end[None]])


def cubic_spline(
    knots: Float[Array, " n"], values: Float[Array, " n"], x: Float[Array, ""] | float
) -> Float[Array, ""]:
    """Return the C² cubic through (knots, values), with not-a-knot ends, so that cubics are reproduced exactly.

    Two knots give a line, three a parabola; beyond the ends the last cubic continues. `knots` must increase.
    """
    n = knots.shape[0]
    if n == 2:
        return values[0] + (values[1] - values[0]) * (x - knots[0]) / (knots[1] - knots[0])
    if n == 3:
        h = jnp.diff(knots)
        slope = jnp.diff(values) / h
        second = jnp.broadcast_to(2 * (slope[1] - slope[0]) / (h[0] + h[1]), (3,))
    else:
        second = _not_a_knot_second_derivatives(knots, values)
    k = jnp.clip(jnp.sum(knots <= jax.lax.stop_gradient(x)) - 1, 0, n - 2)
    h = knots[k + 1] - knots[k]
    return _cubic((x - knots[k]) / h, values[k], values[k + 1], second[k] * h**2, second[k + 1] * h**2)
