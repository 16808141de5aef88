"""Exact derivatives of roots: dq/db = −Φ_q⁻¹ Φ_b and its time derivatives, not through the iterations.

Configurations lie in a `Space`: f_q is the derivative by displacements, f_q v the derivative along q̇ = N(q) v.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxmbs.numerics.linear_algebra import Factored, factor
from jaxmbs.numerics.roots import with_respect_to
from jaxmbs.numerics.space import Space
from jaxmbs.programs import ProgramWithFallback

# A function of a configuration q (n,) and the time t, with values (rows,).
MotionFunction = Callable[[Array, Array], Array]


def rate(f: MotionFunction, space: Space, q: Array, v: Array, t: Array) -> Array:
    """Return ḟ = f_q v + f_t, the time derivative of `f(q, t)` along a motion with velocity v."""
    return jax.jvp(f, (q, t), (space.rate(q, v), jnp.ones_like(t)))[1]


def second_rate(f: MotionFunction, space: Space, q: Array, v: Array, a: Array, t: Array) -> Array:
    """Return f̈ = f_q a + (f_q v)_q v + 2 f_qt v + f_tt along a motion with velocity v and acceleration a."""
    return jax.jvp(partial(rate, f, space), (q, v, t), (space.rate(q, v), a, jnp.ones_like(t)))[1]


def jacobian(f: MotionFunction, space: Space, q: Array, t: Array) -> Array:
    """Return f_q (rows, m) at (q, t), one column for each component of a displacement of q."""
    still = jnp.zeros(space.m, q.dtype)
    column = lambda d: jax.jvp(lambda d: f(q + space.rate(q, d), t), (still,), (d,))[1]
    # jax.jacfwd would compute the identity matrix entry by entry.
    return jax.vmap(column, out_axes=-1)(np.eye(space.m, dtype=q.dtype))


def rates_at_root(f: MotionFunction, space: Space, factors: Factored, q: Array, t: Array) -> tuple[Array, Array]:
    """Return (v, a) with f_q v = −f_t and f_q a = −(f_q v)_q v − 2 f_qt v − f_tt, Haug (3.6.10) and (3.6.11).

    The factors may be those of f_q within δ of q: a second solution with the remainder of the first leaves an error of
    the order of δ².
    """
    still = jnp.zeros(space.m, q.dtype)
    v = -factors.solve(rate(f, space, q, still, t))
    v = v - factors.solve(rate(f, space, q, v, t))
    a = -factors.solve(second_rate(f, space, q, v, still, t))
    return v, a - factors.solve(second_rate(f, space, q, v, a, t))


def differentiable_motion(
    f: MotionFunction,
    space: Space,
    q: Array,
    v: Array,
    a: Array,
    t: Array,
    regular: Array | bool = True,
    unit: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Return (q, v, a) as differentiable functions of t and of everything that `f` closes over.

    They satisfy f = 0 and its first and second time derivatives. The tangents solve f_q dq = −df, f_q dv = −d(ḟ),
    f_q da = −d(f̈), for every order and both modes of differentiation, all with one inverse of f_q, which has full rank.
    If `regular` is False the derivatives are zero. The given q, v and a are taken as constants. `unit` is that of `factor`.
    """
    f, constants = jax.closure_convert(f, q, t)
    q, v, a, unit = jax.lax.stop_gradient((q, v, a, unit))
    return _motion(f, space, jnp.asarray(regular), unit, t, constants, q, v, a)


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _motion(
    f: Callable[..., Array],
    space: Space,
    regular: Array,
    unit: Array | None,
    t: Array,
    constants: list[Array],
    q: Array,
    v: Array,
    a: Array,
) -> tuple[Array, Array, Array]:
    """Return q, v and a; the rule below defines their derivatives."""
    return q, v, a


@partial(_motion.defjvp, symbolic_zeros=True)
def _motion_jvp(
    f: Callable[..., Array], space: Space, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Any, Any]:
    """Return (q, v, a) and their tangents, by implicit differentiation of f = 0, ḟ = 0 and f̈ = 0."""
    regular, unit, t, constants, *state = primals
    _, _, t_dot, constants_dot, *_ = tangents
    out = _motion(f, space, regular, unit, t, constants, *state)
    given, put, take = with_respect_to((t_dot, constants_dot))
    if not given:
        return out, tuple(jnp.zeros_like(x) for x in state)

    def tangent(
        q: Array,
        v: Array,
        a: Array,
        t: Array,
        constants: list[Array],
        regular: Array,
        unit: Array | None,
        *given: Array,
    ) -> tuple[Array, Array, Array]:
        """Return the tangents of q, v and a from the rates of the differentiated numbers."""
        matrix = jacobian(lambda q, t: f(q, t, *constants), space, q, t)
        factors = factor(matrix, regular, determined=True, unit=unit)
        active = take((t, constants))

        def implicit_tangent(
            function: Callable[..., Array], arguments: tuple[Array, ...], rates: tuple[Array, ...]
        ) -> Array:
            """Return −f_q⁻¹ d(function(f, *arguments, t)), by the differentiated numbers and by the arguments."""

            def value(active: tuple[Array, ...], *arguments: Array) -> Array:
                """Return the value of `function` for changed values of the differentiated numbers."""
                t_moved, constants_moved = put((t, constants), active)
                return function(lambda q, t: f(q, t, *constants_moved), *arguments, t_moved)

            return -factors.solve(jax.jvp(value, (active, *arguments), (given, *rates))[1])

        q_dot = space.rate(q, implicit_tangent(lambda f, t: f(q, t), (), ()))
        v_dot = implicit_tangent(lambda f, q, t: rate(f, space, q, v, t), (q,), (q_dot,))
        a_dot = implicit_tangent(lambda f, q, v, t: second_rate(f, space, q, v, a, t), (q, v), (q_dot, v_dot))
        return q_dot, v_dot, a_dot

    return out, ProgramWithFallback(tangent)(*out, t, constants, regular, unit, *given)
