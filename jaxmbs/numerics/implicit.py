"""Exact derivatives of roots: dq/db = −Φ_q⁻¹ Φ_b and its time derivatives, never through the iterations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.numerics.linear_algebra import inverse


def rate(f: Callable, q, v, t):
    """df/dt along a motion: f_q v + f_t, for `f(q, t)`."""
    return jax.jvp(f, (q, t), (v, jnp.ones_like(t)))[1]


def second_rate(f: Callable, q, v, a, t):
    """d²f/dt² along a motion: f_q a + (f_q v)_q v + 2 f_qt v + f_tt."""
    return jax.jvp(partial(rate, f), (q, v, t), (v, a, jnp.ones_like(t)))[1]


def jacobian(f: Callable, q, t):
    """f_q (m, n)."""
    return jax.jacfwd(f)(q, t)


def rates_at_root(f: Callable, inverse_jacobian: Float[Array, "n m"], q, t):
    """(v, a) from f_q v = −f_t and f_q a = −(f_q v)_q v − 2 f_qt v − f_tt, Haug (3.6.10) and (3.6.11).

    The inverse may be that of a point within δ of q: five corrections of each equation by its own remainder leave an
    error of the order of δ⁵.
    """

    def improve(_, rates):
        v, a = rates
        v = v - inverse_jacobian @ rate(f, q, v, t)
        a = a - inverse_jacobian @ second_rate(f, q, v, a, t)
        return v, a

    return jax.lax.fori_loop(0, 5, improve, (jnp.zeros_like(q), jnp.zeros_like(q)))


def differentiable_root(f: Callable, q: Float[Array, " n"], t, regular=True) -> Float[Array, " n"]:
    """`q`, a root of f(q, t) = 0, as a differentiable function of t and of all that `f` closes over.

    dq = −f_q⁻¹ (f_t dt + f_b db), the implicit function theorem, for every order and both modes of differentiation.
    f: q (n,), t () → (m,). Where m ≠ n or f_q is rank deficient, f_q⁻¹ is the pseudo-inverse. Where `regular` is False
    the derivative is zero. The given q itself is taken as a constant.
    """
    f, constants = jax.closure_convert(f, q, t)
    return _root(f, jnp.asarray(regular), t, constants, jax.lax.stop_gradient(q))


def differentiable_motion(f: Callable, q, v, a, t, regular=True):
    """As `differentiable_root`, for (q, v, a) that satisfy f = 0 and its first and second time derivatives.

    The tangents solve f_q dq = −df, f_q dv = −d(ḟ), f_q da = −d(f̈), all with one inverse of f_q.
    """
    f, constants = jax.closure_convert(f, q, t)
    q, v, a = (jax.lax.stop_gradient(x) for x in (q, v, a))
    return _motion(f, jnp.asarray(regular), t, constants, q, v, a)


def _regular_inverse(f, regular, q, t):
    """f_q⁻¹; a harmless matrix instead where the root is not regular."""
    matrix = jacobian(f, q, t)
    return inverse(jnp.where(regular, matrix, jnp.eye(*matrix.shape, dtype=matrix.dtype))).matrix


def _tangent(f, inverse_jacobian, regular, primals, tangents):
    """−f_q⁻¹ df for the tangents of everything but the unknown itself."""
    change = jax.jvp(f, primals, tangents)[1]
    return -inverse_jacobian @ jnp.where(regular, change, 0)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _root(f, regular, t, constants, q):
    return q


@_root.defjvp
def _root_jvp(f, primals, tangents):
    regular, t, constants, q = primals
    _, t_dot, constants_dot, _ = tangents
    q = _root(f, regular, t, constants, q)
    inverse_jacobian = _regular_inverse(lambda q, t: f(q, t, *constants), regular, q, t)
    held = lambda t, constants: f(q, t, *constants)
    return q, _tangent(held, inverse_jacobian, regular, (t, constants), (t_dot, constants_dot))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _motion(f, regular, t, constants, q, v, a):
    return q, v, a


@_motion.defjvp
def _motion_jvp(f, primals, tangents):
    regular, t, constants, *state = primals
    _, t_dot, constants_dot, *_ = tangents
    q, v, a = _motion(f, regular, t, constants, *state)
    inverse_jacobian = _regular_inverse(lambda q, t: f(q, t, *constants), regular, q, t)

    def position(t, constants):
        return f(q, t, *constants)

    def velocity(t, constants, q):
        return rate(lambda q, t: f(q, t, *constants), q, v, t)

    def acceleration(t, constants, q, v):
        return second_rate(lambda q, t: f(q, t, *constants), q, v, a, t)

    base, base_dot = (t, constants), (t_dot, constants_dot)
    q_dot = _tangent(position, inverse_jacobian, regular, base, base_dot)
    v_dot = _tangent(velocity, inverse_jacobian, regular, (*base, q), (*base_dot, q_dot))
    a_dot = _tangent(acceleration, inverse_jacobian, regular, (*base, q, v), (*base_dot, q_dot, v_dot))
    return (q, v, a), (q_dot, v_dot, a_dot)
