"""Roots and solutions with a derivative of their own: dx = −f_x⁻¹ df, however x was computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.programs import open_closure, save_for_reverse

# A function of a vector (m,), with values (m,).
VectorFunction = Callable[[Array], Array]
# A function of a tree of numbers and of a vector (m,), with values (m,).
GivenFunction = Callable[[Any, Array], Array]
# Largest number of tangents that `newton_by_tangents` takes.
MAX_TANGENTS = 20
# `newton_by_tangents` restarts at its other starting point if it has not converged with this many tangents.
TANGENTS_BEFORE_RESTART = 2
# A step of `newton_by_tangents` overshoots if the residual along it changes its sign and keeps more than this fraction
# of its size; the step is then shortened.
OVERSHOOT = 0.5
# Fraction of all digits that the last correction must leave unchanged for `newton_by_tangents` to call a root good.
ENOUGH_DIGITS = 0.5
# Fraction of all digits unchanged by the last correction from which on `newton_by_tangents` stops at once; a root with
# fewer digits gets one more tangent.
ALL_DIGITS = 0.75
# Smallest factor by which `newton_by_tangents` shortens a step that overshoots.
MIN_SHORTENING = 0.1


def simplified_newton(
    f: VectorFunction, solve: VectorFunction, x: Float[Array, " m"], iterations: int
) -> tuple[Array, Array, Array]:
    """Take steps x ← x − solve(f(x)), with one approximate inverse for all.

    The result is differentiated implicitly, dx = −f_x⁻¹ df, by everything that `f` closes over: with `solve` for f_x⁻¹, and
    as many solves as iterations, because each makes up for the difference as much as a step does. `solve` counts as
    constant.

    Args:
        f: function of x (m,).
        solve: approximate inverse of f_x.
        x: start.
        iterations: number of steps, and of solutions for a derivative.

    Returns:
        (x, last correction, f before it).
    """
    x, change, value = newton_steps(f, solve, x, iterations)
    return root_near(f, solve, x, iterations), change, value


def newton_steps(
    f: VectorFunction, solve: VectorFunction, x: Float[Array, " m"], iterations: int
) -> tuple[Array, Array, Array]:
    """Return (x, last correction, f before it) as `simplified_newton`, without derivatives."""
    f, given = open_closure(f, x)
    inverse, factors = open_closure(solve, x)
    given, factors, x = jax.lax.stop_gradient((given, factors, x))

    def iterate(_: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        """Take one step; carry: (x, last correction, f before it)."""
        value = f(given, carry[0])
        change = inverse(factors, value)
        return carry[0] - change, change, value

    return jax.lax.fori_loop(0, iterations, iterate, (x, jnp.zeros_like(x), jnp.zeros_like(x)))


def newton_by_tangents(
    f: VectorFunction,
    solver: Callable[[Array], VectorFunction],
    x: Array,
    again: Array,
    n: int,
    iterations: int,
    good: Callable[[Array, Array, Array, float], Array],
) -> tuple[Array, Array]:
    """Solve a saddle-point problem f = (balance (n,), gap) = 0 by Newton's method with a line search, without derivatives.

    Each tangent is used for `iterations` steps, and the first one is nearly always enough. A force that is steep in a
    narrow range, such as dry friction, needs more tangents. It is the derivative of a convex potential, so a step that
    overshoots the minimum along it is shortened. If the tangents near x are too flat, the search restarts once at
    `again`, where they should be steep.

    Args:
        f: function of x.
        solver: (x) ↦ (f ↦ correction), the approximate inverse of f_x at x, with a symmetric matrix for the first n.
        x: start.
        again: second start.
        n: length of the balance.
        iterations: steps with each tangent.
        good: (x, correction, f before it, fraction of all digits) ↦ True if the correction leaves these digits untouched.

    Returns:
        (x, True if it is good).
    """
    f, given = open_closure(f, x)
    given, x, again = jax.lax.stop_gradient((given, x, again))
    none, one = jnp.zeros_like(x), jnp.ones((), x.dtype)

    def search(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        """Take `iterations` steps with a new tangent; carry: (x, correction, f before it, number of tangents)."""
        x, _, _, count = carry
        x = jnp.where(count == TANGENTS_BEFORE_RESTART, again, x)
        solve = solver(x)

        def iterate(_: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
            """Take a Newton step; carry: point, step from there, its size, fraction to take, gap at the point, last f."""
            x, step, size, part, gap, _ = carry
            trial = x - part * step
            value = f(given, trial)
            change = solve(value)
            # The product of step and change by the tangent matrix, from the right-hand sides that the solver was given.
            along = step[:n] @ value[:n] + gap @ change[n:]
            overshoots = along < -OVERSHOOT * size
            shorter = part * jnp.maximum(size / jnp.where(overshoots, size - along, 1), MIN_SHORTENING)
            new_size = change[:n] @ value[:n] + value[n:] @ change[n:]
            either = lambda old, new: jnp.where(overshoots, old, new)
            accepted = either(x, trial), either(step, change), either(size, new_size)
            return *accepted, either(shorter, one), either(gap, value[n:]), value

        begun = x, none, 0 * one, one, none[n:], none
        x, change, _, part, _, value = jax.lax.fori_loop(0, iterations, iterate, begun)
        x = x - part * change
        enough, whole = (good(x, change, value, digits) for digits in (ENOUGH_DIGITS, ALL_DIGITS))
        return x, enough, enough & (whole | (count > 0)), count + 1

    goes_on = lambda carry: (carry[3] < MAX_TANGENTS) & ~carry[2]
    no = jnp.asarray(False)
    x, closed, *_ = jax.lax.while_loop(goes_on, search, (x, no, no, 0))
    return jax.lax.stop_gradient((x, closed))


def root_near(f: VectorFunction, solve: VectorFunction, x: Float[Array, " m"], solves: int) -> Array:
    """Return x, a root of `f`, with the derivative that it has in `simplified_newton`."""
    f, given = open_closure(f, x)
    inverse, factors = open_closure(solve, x)
    return implicit_solution(f, inverse, given, jax.lax.stop_gradient(factors), x, solves)


def implicit_solution(
    f: GivenFunction, inverse: GivenFunction, given: Any, factors: Any, x: Float[Array, " m"], solves: int = 1
) -> Array:
    """Return x, a root of f(given, x), with the derivative dx = −f_x⁻¹ f_g dg by everything that is `given`.

    Args:
        f: (given, x) ↦ residual. Neither function closes over traced values.
        inverse: (factors, y) ↦ f_x⁻¹ y, exact or approximate.
        given: pytree of the values that f depends on.
        factors: factorisation of f_x, the first argument of `inverse`.
        x: the root, computed in any way.
        solves: number of uses of `inverse` for each derivative: 1 if it is exact, each further one refines the derivative.
    """
    return _implicit(f, inverse, solves, given, factors, save_for_reverse(x))


@partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def _implicit(f: GivenFunction, inverse: GivenFunction, solves: int, given: Any, factors: Any, x: Array) -> Array:
    """Return x; the rule below defines its derivative by `given`."""
    return x


@partial(_implicit.defjvp, symbolic_zeros=True)
def _implicit_jvp(
    f: GivenFunction, inverse: GivenFunction, solves: int, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Array, Array]:
    """Return x and its tangent −f_x⁻¹ f_g ġ, refined because `inverse` may not be exact."""
    given, factors, x = primals
    x = _implicit(f, inverse, solves, given, factors, x)
    rates, put, take = with_respect_to(tangents[0])
    if not rates:
        return x, jnp.zeros_like(x)
    by_given = jax.jvp(lambda active: f(put(given, active), x), (take(given),), (rates,))[1]
    x_dot = -inverse(factors, by_given)
    for _ in range(solves - 1):
        by_x = jax.jvp(partial(f, given), (x,), (x_dot,))[1]
        x_dot = x_dot - inverse(factors, by_given + by_x)
    return x, x_dot


def _is_zero(tangent: Any) -> bool:
    """Return True for the symbolic zero tangent of a value that does not change."""
    return isinstance(tangent, jax.custom_derivatives.SymbolicZero)


def with_respect_to(
    tangents: Any,
) -> tuple[tuple[Array, ...], Callable[[Any, Any], Any], Callable[[Any], tuple[Array, ...]]]:
    """Return the tangents of a pytree that are not symbolic zeros, and functions for the values that have them.

    Args:
        tangents: pytree of tangents, symbolic zeros among them.

    Returns:
        (rates, put, take): a tuple of the other tangents; (values, selected) ↦ values, where `selected` replaces those
        that have tangents; values ↦ those that have tangents, in a tuple.
    """
    leaves, tree = jax.tree.flatten(tangents, is_leaf=_is_zero)
    active = [not _is_zero(x) for x in leaves]

    def put(values: Any, selected: Iterable[Array]) -> Any:
        selected = list(selected)
        old = jax.tree.leaves(values)
        return jax.tree.unflatten(tree, [selected.pop(0) if on else x for on, x in zip(active, old, strict=True)])

    def take(values: Any) -> tuple[Array, ...]:
        return tuple(x for on, x in zip(active, jax.tree.leaves(values), strict=True) if on)

    return tuple(x for x in leaves if not _is_zero(x)), put, take
