"""The configuration of a mechanism while its design changes: closed where it can be, and what is open where it cannot."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from jaxmbs.numerics.implicit import jacobian
from jaxmbs.numerics.linear_algebra import factor_symmetric_positive
from jaxmbs.numerics.scaling import Units
from jaxmbs.system.equations import residuals
from jaxmbs.system.mechanism import Mechanism

# Newton's steps from the configuration before; no angle, and no length in units of the mechanism, moves by more in one.
NEWTON, FAR = 3, 0.3
# What is added to the diagonal of the normal equations of Φ_q, relative to it: near a singular configuration, where a loop
# just cannot close, they give the nearest configuration instead of a far one.
DAMPED = 1e-9


def scaled(phi_q, units: Units):
    """Φ_q in units of the coordinates and of what these do to its rows, and these units of the rows."""
    rows = units.rows(phi_q)
    return phi_q * units.vector[None, :] / rows[:, None], rows


def closed(mech: Mechanism, q, t, length: float, least: float):
    """The configuration near q at time t, what of Φ is left open, and how far the least singular value is too small.

    q moves by Newton's method with damped normal equations. Its derivatives, dq = −(Φ_qᵀΦ_q)⁻¹ Φ_qᵀ dΦ, are those of the
    last step, and those of the gap what of dΦ no motion of q can close.
    """
    layout = mech.layout
    phi = lambda q, t: residuals(mech, q, t)
    params, static = eqx.partition(mech, eqx.is_inexact_array)
    held, still_t = eqx.combine(jax.lax.stop_gradient(params), static), jax.lax.stop_gradient(t)
    still = lambda q, t: residuals(held, q, t)
    units = Units(layout.angular, jnp.asarray(length))
    unit = units.vector

    def linearised(q):
        matrix, rows = scaled(jacobian(still, layout, q, still_t), units)
        normal = matrix.T @ matrix
        small = max(DAMPED, 10 * float(jnp.finfo(q.dtype).eps)) * jnp.max(jnp.diagonal(normal))
        return matrix, rows, factor_symmetric_positive(normal + small * jnp.eye(layout.m))

    q = jax.lax.stop_gradient(q)
    for _ in range(NEWTON):
        matrix, rows, factors = linearised(q)
        step = -factors.solve(matrix.T @ (still(q, still_t) / rows))
        step = step / jnp.maximum(1, jnp.max(jnp.abs(step)) / FAR)
        q = jax.lax.stop_gradient(layout.retract(q, step * unit))
    matrix, rows, factors = jax.lax.stop_gradient(linearised(q))
    value = phi(q, t) / rows
    step = -factors.solve(matrix.T @ value)
    # A tiny change, cut off as the others: far from a closed configuration it means nothing.
    step = step / jax.lax.stop_gradient(jnp.maximum(1, jnp.max(jnp.abs(step)) / FAR))
    moved = layout.retract(q, step * unit)
    gap = value + matrix @ step
    opening = _opening(phi, layout, moved, t, unit, rows, matrix, factors, least)
    return moved, gap, opening


def _opening(phi, layout, q, t, unit, rows, matrix, factors, least):
    """1 − σ/least where the least singular value σ of Φ_q is below it; dσ = uᵀ dΦ_q w with its singular vectors.

    These come from two steps of inverse iteration, from a vector with no zeros.
    """
    w = jnp.cos(jnp.arange(layout.m) * 1.0) + 1.5
    for _ in range(2):
        w = factors.solve(w)
        w = w / jnp.maximum(jnp.max(jnp.abs(w)), float(jnp.finfo(q.dtype).tiny))
    w = jax.lax.stop_gradient(w / jnp.sqrt(w @ w))
    image = matrix @ w
    u = jax.lax.stop_gradient(image / jnp.maximum(jnp.sqrt(image @ image), float(jnp.finfo(q.dtype).tiny)))
    along = jax.jvp(lambda d: phi(layout.retract(q, d * unit), t), (jnp.zeros(layout.m),), (w,))[1] / rows
    return jnp.maximum(1 - (u @ along) / least, 0)[None]
