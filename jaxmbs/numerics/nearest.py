"""The root of f(q) = 0 that is nearest to a guess, and the derivatives of this root; f may have fewer rows than q.

The unknowns y are displacements from the guess in units u of the mechanism, q = guess ⊕ u y, and F(y) = f(q) with scaled
rows. The nearest root minimises ½ zᵀz subject to F(y) = 0: g + Jᵀμ = 0 and F = 0, with J = F_y and g = z_yᵀz. The vector z
is y itself. If distances are measured in other coordinates than q, such as poses of bodies while q are joint coordinates, z
is a function of y. Newton's method for these conditions, and their derivatives by all that F and z depend on, solve

    H dy + Jᵀdμ = −(g + Jᵀμ),   J dy = −F,   H = g_y + Σ μ_k F_k,yy,

where for derivatives the right-hand sides are the changes of g + Jᵀμ and F at constant y and μ. Rows of J may depend on
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
from jaxmbs.numerics.scaling import Units, gap_limit, max_norm
from jaxmbs.numerics.search import Root
from jaxmbs.numerics.space import Space
from jaxmbs.programs import ProgramWithFallback, as_variables, convert_closure

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
# Lower limit on the curvature of ½ zᵀz along F = 0 at an accepted point. Less means that roots in another direction are
# equally near.
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
    """F, J, μ, the part g + Jᵀμ of g along the constraints, H, the factors of JᵀJ + δ H, and δ, at a point.

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
    f: Callable[[Array], Array],
    space: Space,
    guess: Float[Array, " n"],
    root: Root,
    tolerance: float,
    distance: Callable[[Array], Array] | None = None,
) -> Nearest:
    """Return the root nearest to `guess`, reached from another `root` along f = 0; the guess itself if it is a root.

    Newton's method with damping: each step decreases ½ zᵀz + μᵀF + w FᵀF. The result has no derivatives; see
    `differentiable_nearest_root`.

    Args:
        f: function of q.
        space: the space of q.
        guess: (n,).
        root: a root of f.
        tolerance: largest gap that `root` may have, in units of the mechanism.
        distance: q ↦ z; unless given, z is the displacement from the guess in units of the mechanism.
    """
    unit = root.units.vector
    shift = space.difference(guess, root.q) / unit
    value_of = lambda y: f(space.retract(guess, unit * y))
    distance_at = None if distance is None else lambda y: distance(space.retract(guess, unit * y))
    z_of = (lambda y: y) if distance_at is None else distance_at
    small = float(jnp.finfo(guess.dtype).eps) ** CONVERGED_POWER

    def step(now: _Progress) -> _Progress:
        """Take one damped Newton step, or reject it and increase the damping."""
        at = _linearised(value_of, now.y, tolerance, now.damping, STEP_REFINEMENTS, distance_at)
        change = at.solve(at.free, at.value, STEP_REFINEMENTS)
        size = max_norm(change)
        change = change / jnp.maximum(1, size / (MAX_STEP * jnp.maximum(1, max_norm(now.y))))
        trial = now.y + change
        merit = lambda z, value: 0.5 * z @ z + at.multipliers @ value + GAP_WEIGHT * value @ value
        before, after = merit(z_of(now.y), at.value), merit(z_of(trial), value_of(trial) / at.rows)
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

    undamped = as_variables(jnp.zeros((), guess.dtype))
    exact = root.exact
    if distance is not None:
        exact = exact & (max_norm(distance(guess)) <= gap_limit(guess.dtype, 0.0))
    now = _Progress(shift, undamped, jnp.zeros((), int), exact)
    now = jax.lax.while_loop(lambda now: (now.steps < MAX_STEPS) & ~now.done, step, now)
    q = jnp.where(exact, guess, space.retract(guess, unit * now.y))
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
    distance: Callable[[Array, Array, Array], Array] | None = None,
) -> Float[Array, " n"]:
    """Return `q`, the root of f(q, t) nearest to `guess`, as a differentiable function of everything it depends on.

    That is the guess, t, and everything that the functions close over. The derivatives are those of the conditions of the
    minimum, for every order and both modes of differentiation.

    Args:
        f: function of (q, t).
        space: the space of q.
        length: guess ↦ unit of displacements that are lengths.
        q: the root, as a constant.
        guess: (n,), in the coordinates of q or, with `distance`, in others.
        t: time.
        tolerance: as for `nearest_root`.
        regular: if False, the derivatives are zero.
        distance: (q, guess, t) ↦ z; unless given, z is the displacement of q from the guess in units.
    """
    none = lambda q, guess, t: jnp.zeros(0, q.dtype)
    all_of_them = lambda q, guess, t: (f(q, t), length(guess), (distance or none)(q, guess, t))
    functions, constants = convert_closure(all_of_them, q, guess, t)
    given, q = (guess, t, constants), jax.lax.stop_gradient(q)
    return _nearest(functions, space, tolerance, distance is None, jnp.asarray(regular), given, q)


@partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2, 3))
def _nearest(
    functions: Callable[..., tuple[Array, Array, Array]],
    space: Space,
    tolerance: float,
    default_distance: bool,
    regular: Array,
    given: Given,
    q: Array,
) -> Array:
    """Return q; the rule below defines its derivatives."""
    return q


@partial(_nearest.defjvp, symbolic_zeros=True)
def _nearest_jvp(
    functions: Callable[..., tuple[Array, Array, Array]],
    space: Space,
    tolerance: float,
    default_distance: bool,
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
) -> tuple[Array, Array]:
    """Return the root and its tangent, by implicit differentiation of the conditions of the minimum.

    `functions` is (q, guess, t, …) ↦ (f, length, z). If `default_distance` is True, y is the displacement from the guess,
    and z = y; otherwise y is the displacement from q, which is zero.
    """
    regular, given, q = primals
    rates, put, take = with_respect_to(tangents[1])
    # The result, not the argument, so that its derivative is used if the tangent is differentiated again.
    q = _nearest(functions, space, tolerance, default_distance, regular, given, q)
    if not rates:
        return q, jnp.zeros_like(q)

    def tangent(q: Array, given: Given, regular: Array, *rates: Array) -> Array:
        """Return the tangent of q from the rates of the differentiated numbers; zero if `regular` is False."""

        def unit(given: Given) -> Array:
            """Return the unit of each component of a displacement (m,)."""
            guess, t, constants = given
            return Units(space.angular, functions(q, guess, t, *constants)[1]).vector

        def configuration(given: Given, y: Array) -> Array:
            """Return the configuration for a displacement y in units."""
            return space.retract(given[0], unit(given) * y) if default_distance else space.retract(q, own_unit * y)

        def value_of(given: Given, y: Array) -> Array:
            """Return f for a displacement y in units."""
            return functions(configuration(given, y), *given[:2], *given[2])[0]

        def distance_of(given: Given, y: Array) -> Array:
            """Return z for a displacement y in units."""
            return functions(configuration(given, y), *given[:2], *given[2])[2]

        own_unit = jax.lax.stop_gradient(unit(given))
        y = space.difference(given[0], q) / unit(given) if default_distance else jnp.zeros_like(own_unit)
        distance = None if default_distance else partial(distance_of, given)
        undamped = jnp.zeros((), q.dtype)
        at = _linearised(partial(value_of, given), y, tolerance, undamped, REFINEMENTS, distance)

        def conditions(active: tuple[Array, ...]) -> tuple[Array, Array]:
            """Return (g + Fᵧᵀμ, F), as far as they depend on the differentiated numbers."""
            changed = put(given, active)
            pulled, value = _pulled(partial(value_of, changed), y, at.rows, at.multipliers)
            return pulled if default_distance else pulled + _gradient(partial(distance_of, changed), y), value

        free, gap = jax.jvp(conditions, (take(given),), (rates,))[1]
        y_dot = jnp.where(regular, at.solve(free, gap, REFINEMENTS), 0)
        moved = lambda active, y: configuration(put(given, active), y)
        rate = jax.jvp(moved, (take(given), y), (rates, y_dot))[1]
        return jnp.where(regular, rate, 0)

    return q, ProgramWithFallback(tangent)(q, given, regular, *rates)


def _linearised(
    f: Callable[[Array], Array],
    y: Array,
    tolerance: float,
    damping: Array,
    refinements: int,
    distance: Callable[[Array], Array] | None = None,
) -> _Linearised:
    """Return `_Linearised` at the displacement y, for the function y ↦ F before its rows are scaled; `distance`: y ↦ z."""
    eps, m = float(jnp.finfo(y.dtype).eps), y.shape[0]
    delta = max(0.1 * eps**0.5, 100 * tolerance**2)
    unit_matrix = np.eye(m, dtype=y.dtype)
    value, matrix = f(y), jax.jacfwd(f)(y)
    # The derivative of the scaled constraints is that at constant units.
    rows = jax.lax.stop_gradient(Units(np.ones(m, bool), jnp.ones((), y.dtype)).rows(matrix))
    value, matrix = value / rows, matrix / rows[:, None]
    gram = matrix.T @ matrix
    smallest = factor_symmetric_positive(gram + delta * unit_matrix)
    gradient = y if distance is None else _gradient(distance, y)
    # Repeated Tikhonov steps converge to the multipliers of smallest norm.
    multipliers, free = jnp.zeros_like(value), gradient
    for _ in range(refinements):
        multipliers = multipliers - matrix @ smallest.solve(free)
        free = gradient + matrix.T @ multipliers
    of_distance = unit_matrix if distance is None else jax.jacfwd(partial(_gradient, distance))(y)
    curvature = of_distance + jax.jacfwd(lambda y: _pulled(f, y, rows, multipliers)[0])(y)
    factors = factor_symmetric_positive(gram + delta * (curvature + damping * unit_matrix))
    return _Linearised(rows, value, matrix, multipliers, free, curvature, factors, delta)


def _gradient(distance: Callable[[Array], Array], y: Array) -> Array:
    """Return g = z_yᵀz, the gradient of ½ zᵀz at y, with z = distance(y)."""
    z, pull = jax.vjp(distance, y)
    return pull(z)[0]


def _pulled(f: Callable[[Array], Array], y: Array, rows: Array, multipliers: Array) -> tuple[Array, Array]:
    """Return (Fᵧᵀμ, F) at y, with F = f / rows."""
    value, pull = jax.vjp(lambda y: f(y) / rows, y)
    return pull(multipliers)[0], value
