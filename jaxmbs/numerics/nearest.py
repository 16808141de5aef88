"""The root of f(q) = 0 nearest to a guess, if f leaves coordinates free, and its derivatives.

The unknowns y are displacements from the guess in units u of the mechanism, q = guess ⊕ u y, and F(y) = f(q) with scaled
rows. The nearest root minimises ½ yᵀy subject to F(y) = 0: y + Jᵀμ = 0 and F = 0, with J = F_y. Newton's method for these
conditions, and their derivatives by all that F depends on, solve

    H dy + Jᵀdμ = −(y + Jᵀμ),   J dy = −F,   H = I + Σ μ_k F_k,yy,

where for derivatives the right-hand sides are the changes of y + Jᵀμ and F at constant y and μ. Rows of J may depend on
each other. If they contradict each other, gaps remain, and are as small as possible in the sense of least squares. The
matrix that is factored is JᵀJ + δ H, with a δ between the square of rounding and the square of the smallest singular value
that counts. Refinements remove the error of δ.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxmbs.numerics.linear_algebra import Factored, factor_symmetric_positive
from jaxmbs.numerics.roots import with_respect_to
from jaxmbs.numerics.scaling import Units, max_norm
from jaxmbs.numerics.search import Root
from jaxmbs.numerics.space import Space
from jaxmbs.programs import ProgramWithFallback, convert_closure

# Guess, time, and the other numbers that a function f depends on.
Given = tuple[Array, Array, Any]
# Number of refinements of a solution with JᵀJ + δ H in place of the singular limit δ → 0, for derivatives. For a
# singular value σ of J the first solution has a relative error of δ / σ², and each refinement multiplies the error by
# this factor.
REFINEMENTS = 3
# Number of refinements in a step of `nearest_root`: the next step removes the error that is left.
STEP_REFINEMENTS = 1
# Largest number of Newton steps of `nearest_root`, rejected ones included; then it returns the last point as not
# converged.
MAX_STEPS = 100
# The iteration has converged after a step shorter than this power of the rounding unit (5e-7 in float64). As each step
# squares the error, the next one would change nothing.
CONVERGED_POWER = 0.4
# Largest length of a step, in radians and sizes of the mechanism, times the distance from the guess if that is larger
# than 1.
MAX_STEP = 0.5
# Newton steps of `nearest_root` shorter than this, in radians and sizes of the mechanism, are taken without a test of
# decrease: Newton's method converges there, and may increase gaps on its way.
TRUSTED_STEP = 0.1
# Weight w of the squared gaps FᵀF in the function that each step of `nearest_root` has to decrease.
GAP_WEIGHT = 10.0
# Damping of `nearest_root` after the first rejected step, relative to the Hessian of ½ yᵀy, the unit matrix.
FIRST_DAMPING = 0.1
# Smallest allowed curvature of ½ yᵀy along the constraints at its minimum; without constraints it is 1. A smaller one
# means that roots in another direction are equally near.
MIN_CURVATURE = 1e-6


class Nearest(NamedTuple):
    """The result of `nearest_root`: the configuration, and True if it is a strict local minimum of the distance."""

    q: Float[Array, " n"]
    found: Bool[Array, ""]


class _Progress(NamedTuple):
    """Displacement y from the guess, damping, number of steps, and True once the iteration has converged."""

    y: Float[Array, " m"]
    damping: Float[Array, ""]
    steps: Int[Array, ""]
    done: Bool[Array, ""]


class _Linearised(NamedTuple):
    """F, J, μ, the part y + Jᵀμ of y along the constraints, H, the factors of JᵀJ + δ H, and δ, at a point.

    `rows` are the units of the rows of F, by which F and J are divided.
    """

    rows: Float[Array, " rows"]
    value: Float[Array, " rows"]
    matrix: Float[Array, "rows m"]
    multipliers: Float[Array, " rows"]
    free: Float[Array, " m"]
    curvature: Float[Array, "m m"]
    factors: Factored
    delta: float

    def solve(self, free: Array, gap: Array, refinements: int) -> Array:
        """Return dy with H dy + Jᵀν = −free and J dy = −gap, the latter in the sense of least squares."""
        y, nu = jnp.zeros_like(free), jnp.zeros_like(gap)
        for _ in range(1 + refinements):
            along = free + self.curvature @ y + self.matrix.T @ nu
            across = gap + self.matrix @ y
            step = -self.factors.solve(self.delta * along + self.matrix.T @ across)
            nu = nu + (self.matrix @ step + across) / self.delta
            y = y + step
        return y


def nearest_root(
    f: Callable[[Array], Array], space: Space, guess: Float[Array, " n"], root: Root, tolerance: float
) -> Nearest:
    """Return the root nearest to `guess`, moved along f = 0 from another one. If the guess is a root, it is returned.

    Newton's method with damping: each step decreases ½ yᵀy + μᵀF + w FᵀF. `tolerance` is the largest gap that `root` may
    have, in units of the mechanism. Nothing here is differentiated.
    """
    unit = root.units.vector
    shift = space.difference(guess, root.q) / unit
    value_of = lambda y: f(space.retract(guess, unit * y))
    small = float(jnp.finfo(guess.dtype).eps) ** CONVERGED_POWER

    def step(now: _Progress) -> _Progress:
        """Take one damped Newton step, or reject it and increase the damping."""
        at = _linearised(value_of, now.y, tolerance, now.damping, STEP_REFINEMENTS)
        change = at.solve(at.free, at.value, STEP_REFINEMENTS)
        size = max_norm(change)
        change = change / jnp.maximum(1, size / (MAX_STEP * jnp.maximum(1, max_norm(now.y))))
        trial = now.y + change
        merit = lambda y, value: 0.5 * y @ y + at.multipliers @ value + GAP_WEIGHT * value @ value
        before, after = merit(now.y, at.value), merit(trial, value_of(trial) / at.rows)
        # Without positive curvature, the step would lead to a saddle point or a maximum of the distance.
        curved = at.factors.rcond > MIN_CURVATURE * at.delta
        better = curved & ((after <= before) | (size <= TRUSTED_STEP)) & jnp.isfinite(size)
        damping = jnp.where(better, now.damping / 10, jnp.maximum(10 * now.damping, FIRST_DAMPING))
        undamped = now.damping == 0
        return _Progress(
            y=jnp.where(better, trial, now.y),
            damping=jnp.where(damping < FIRST_DAMPING / 100, 0, damping),
            steps=now.steps + 1,
            done=better & undamped & (size <= small),
        )

    zero = jnp.zeros((), guess.dtype)
    now = _Progress(shift, zero, jnp.zeros((), int), root.exact)
    now = jax.lax.while_loop(lambda now: (now.steps < MAX_STEPS) & ~now.done, step, now)
    q = jnp.where(root.exact, guess, space.retract(guess, unit * now.y))
    # If a rotation exceeds half a turn, the same configuration has a shorter displacement, and y is not the nearest.
    shortest = max_norm(space.difference(guess, q) / unit - now.y) <= small
    return Nearest(q, now.done & shortest)


def differentiable_nearest_root(
    f: Callable[[Array, Array], Array],
    space: Space,
    length: Callable[[Array], Array],
    q: Float[Array, " n"],
    guess: Array,
    t: Array,
    tolerance: float,
    regular: Array | bool = True,
) -> Float[Array, " n"]:
    """Return `q`, the root of f(q, t) nearest to `guess`, as a differentiable function of everything it depends on.

    That is the guess, t, and everything that `f` and `length` close over; `length` is a function of the guess that returns
    the unit of displacements that are lengths; `tolerance` is that of `nearest_root`. The derivatives are those of the
    conditions of the minimum, for every order and both modes of differentiation. If `regular` is False they are zero.
    """
    both, constants = convert_closure(lambda q, t: (f(q, t), length(q)), guess, t)
    return _nearest(both, space, tolerance, jnp.asarray(regular), (guess, t, constants), jax.lax.stop_gradient(q))


@partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def _nearest(
    f: Callable[..., tuple[Array, Array]], space: Space, tolerance: float, regular: Array, given: Given, q: Array
) -> Array:
    """Return q; the rule below defines its derivatives."""
    return q


@partial(_nearest.defjvp, symbolic_zeros=True)
def _nearest_jvp(
    f: Callable[..., tuple[Array, Array]],
    space: Space,
    tolerance: float,
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
) -> tuple[Array, Array]:
    """Return the root and its tangent, by implicit differentiation of the conditions of the minimum."""
    regular, given, q = primals
    rates, put, take = with_respect_to(tangents[1])
    # The result, not the argument, so that its derivative is used if the tangent is differentiated again.
    q = _nearest(f, space, tolerance, regular, given, q)
    if not rates:
        return q, jnp.zeros_like(q)

    def tangent(q: Array, given: Given, regular: Array, *rates: Array) -> Array:
        """Return the tangent of q from the rates of the differentiated numbers; zero if `regular` is False."""

        def unit(given: Given) -> Array:
            """Return the unit of each component of a displacement (m,)."""
            guess, t, constants = given
            return Units(space.angular, f(guess, t, *constants)[1]).vector

        def configuration(given: Given, y: Array) -> Array:
            """Return guess ⊕ (unit · y), for a displacement y in units."""
            return space.retract(given[0], unit(given) * y)

        y = space.difference(given[0], q) / unit(given)
        value_of = lambda given, y: f(configuration(given, y), given[1], *given[2])[0]
        at = _linearised(partial(value_of, given), y, tolerance, jnp.zeros((), q.dtype), REFINEMENTS)

        def conditions(active: tuple[Array, ...]) -> tuple[Array, Array]:
            """Return (Fᵧᵀμ, F), the parts of the conditions that depend on the differentiated numbers."""
            return _pulled(partial(value_of, put(given, active)), y, at.rows, at.multipliers)

        free, gap = jax.jvp(conditions, (take(given),), (rates,))[1]
        y_dot = jnp.where(regular, at.solve(free, gap, REFINEMENTS), 0)
        moved = lambda active, y: configuration(put(given, active), y)
        rate = jax.jvp(moved, (take(given), y), (rates, y_dot))[1]
        return jnp.where(regular, rate, 0)

    return q, ProgramWithFallback(tangent)(q, given, regular, *rates)


def _linearised(
    f: Callable[[Array], Array], y: Array, tolerance: float, damping: Array, refinements: int
) -> _Linearised:
    """Return `_Linearised` at the displacement y, for the function y ↦ F before its rows are scaled."""
    eps, m = float(jnp.finfo(y.dtype).eps), y.shape[0]
    delta = max(0.1 * eps**0.5, 100 * tolerance**2)
    unit_matrix = np.eye(m, dtype=y.dtype)
    value, matrix = f(y), jax.jacfwd(f)(y)
    # The derivative of the scaled constraints is that at constant units.
    rows = jax.lax.stop_gradient(Units(np.ones(m, bool), jnp.ones((), y.dtype)).rows(matrix))
    value, matrix = value / rows, matrix / rows[:, None]
    gram = matrix.T @ matrix
    smallest = factor_symmetric_positive(gram + delta * unit_matrix)
    # Repeated Tikhonov steps converge to the multipliers of smallest norm.
    multipliers, free = jnp.zeros_like(value), y
    for _ in range(refinements):
        multipliers = multipliers - matrix @ smallest.solve(free)
        free = y + matrix.T @ multipliers
    curvature = unit_matrix + jax.jacfwd(lambda y: _pulled(f, y, rows, multipliers)[0])(y)
    factors = factor_symmetric_positive(gram + delta * (curvature + damping * unit_matrix))
    return _Linearised(rows, value, matrix, multipliers, free, curvature, factors, delta)


def _pulled(f: Callable[[Array], Array], y: Array, rows: Array, multipliers: Array) -> tuple[Array, Array]:
    """Return (Fᵧᵀμ, F) at y, with F = f / rows."""
    value, pull = jax.vjp(lambda y: f(y) / rows, y)
    return pull(multipliers)[0], value
