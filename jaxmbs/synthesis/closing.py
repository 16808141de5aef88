"""Closing a mechanism while its design changes, with the gap that is left where its loops cannot close."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from jaxmbs.numerics.implicit import jacobian
from jaxmbs.numerics.linear_algebra import factor_symmetric_positive
from jaxmbs.numerics.scaling import Units
from jaxmbs.system.equations import residuals
from jaxmbs.system.mechanism import Mechanism

# Number of Newton steps by which `close_loops` closes the loops from the configuration that it is given.
NEWTON_STEPS = 3
# Largest change of a coordinate in one Newton step of `close_loops`, in radians and lengths of the mechanism.
MAX_STEP = 0.3
# Added by `close_loops` to the diagonal of the normal matrix of Φ_q, relative to its largest entry. So near a singular
# configuration, where a loop just fails to close, the step leads to the nearest configuration instead of a far one.
DIAGONAL_SHIFT = 1e-9


def scaled_jacobian(phi_q, units: Units):
    """Return Φ_q (rows, m) for coordinates in `units`, each row divided by its own unit, and the row units (rows,)."""
    rows = units.rows(phi_q)
    return phi_q * units.vector[None, :] / rows[:, None], rows


def close_loops(mech: Mechanism, q, t, length: float, min_singular_value: float):
    """Close the loops near q at time t by Newton's method with damped normal equations.

    The derivatives of q are those of the last step, dq = −(Φ_qᵀΦ_q)⁻¹ Φ_qᵀ dΦ. Those of the gap are the part of dΦ that no
    change of q can close.

    Args:
        mech: the mechanism.
        q: configuration to start from.
        t: time.
        length: size of the mechanism, the unit of lengths.
        min_singular_value: smallest singular value of the scaled Φ_q without a penalty.

    Returns:
        The configuration; the part of Φ (rows,) that stays open, each row in its unit; and the penalty (1,), which is
        positive where the least singular value of Φ_q is too small.
    """
    layout = mech.layout
    phi = lambda q, t: residuals(mech, q, t)
    params, static = eqx.partition(mech, eqx.is_inexact_array)
    held, still_t = eqx.combine(jax.lax.stop_gradient(params), static), jax.lax.stop_gradient(t)
    still = lambda q, t: residuals(held, q, t)
    units = Units(layout.angular, jnp.asarray(length))
    unit = units.vector

    def linearise(q):
        """Return the scaled Φ_q, the units of its rows, and the factors of its damped normal matrix."""
        matrix, rows = scaled_jacobian(jacobian(still, layout, q, still_t), units)
        normal = matrix.T @ matrix
        small = max(DIAGONAL_SHIFT, 10 * float(jnp.finfo(q.dtype).eps)) * jnp.max(jnp.diagonal(normal))
        return matrix, rows, factor_symmetric_positive(normal + small * jnp.eye(layout.m))

    q = jax.lax.stop_gradient(q)
    for _ in range(NEWTON_STEPS):
        matrix, rows, factors = linearise(q)
        step = -factors.solve(matrix.T @ (still(q, still_t) / rows))
        step = step / jnp.maximum(1, jnp.max(jnp.abs(step)) / MAX_STEP)
        q = jax.lax.stop_gradient(layout.retract(q, step * unit))
    matrix, rows, factors = jax.lax.stop_gradient(linearise(q))
    value = phi(q, t) / rows
    step = -factors.solve(matrix.T @ value)
    # Far from a closed configuration this last step is not small, and is limited like the others.
    step = step / jax.lax.stop_gradient(jnp.maximum(1, jnp.max(jnp.abs(step)) / MAX_STEP))
    moved = layout.retract(q, step * unit)
    gap = value + matrix @ step
    penalty = _singular_value_penalty(phi, layout, moved, t, unit, rows, matrix, factors, min_singular_value)
    return moved, gap, penalty


def _singular_value_penalty(phi, layout, q, t, unit, rows, matrix, factors, min_singular_value):
    """Return 1 − σ/min_singular_value (1,) where the least singular value σ of Φ_q is too small, else 0.

    Its derivative is dσ = uᵀ dΦ_q w with the singular vectors u and w, which come from two steps of inverse iteration
    from a vector without zeros.
    """
    w = jnp.cos(jnp.arange(layout.m) * 1.0) + 1.5
    for _ in range(2):
        w = factors.solve(w)
        w = w / jnp.maximum(jnp.max(jnp.abs(w)), float(jnp.finfo(q.dtype).tiny))
    w = jax.lax.stop_gradient(w / jnp.sqrt(w @ w))
    image = matrix @ w
    u = jax.lax.stop_gradient(image / jnp.maximum(jnp.sqrt(image @ image), float(jnp.finfo(q.dtype).tiny)))
    along = jax.jvp(lambda d: phi(layout.retract(q, d * unit), t), (jnp.zeros(layout.m),), (w,))[1] / rows
    return jnp.maximum(1 - (u @ along) / min_singular_value, 0)[None]
