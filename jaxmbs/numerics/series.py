"""Even functions of an angle that are smooth at zero, as functions of its square."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

# Upper limit on the argument s up to which the power series of this module are used. Above it the closed forms lose
# less than two digits.
SERIES_LIMIT = 0.25
# Number of terms with which the power series of this module are exact to rounding up to `SERIES_LIMIT`.
SERIES_TERMS = 9


def even(series: list[float], closed: Callable[[Array], Array], s: Float[Array, ""]) -> Float[Array, ""]:
    """Return a function of s = x² that is smooth at zero: its power series up to `SERIES_LIMIT`, `closed(s)` above."""
    small = s < SERIES_LIMIT
    near, far = jnp.where(small, s, 0), jnp.where(small, 1, s)
    value = jnp.full_like(s, series[-1])
    for coefficient in reversed(series[:-1]):
        value = value * near + coefficient
    return jnp.where(small, value, closed(far))


def _series(ratio: Callable[[int], float], first: float) -> list[float]:
    """Return coefficients c₀ = first, c_k = ratio(k) c_{k−1}."""
    out = [first]
    for k in range(1, SERIES_TERMS):
        out.append(out[-1] * ratio(k))
    return out


# Coefficients c_k of cos √s = Σ c_k sᵏ.
_COS = _series(lambda k: -1 / ((2 * k - 1) * 2 * k), 1.0)
# Coefficients c_k of sin √s / √s = Σ c_k sᵏ.
_SINC = _series(lambda k: -1 / (2 * k * (2 * k + 1)), 1.0)
# Coefficients c_k of (1 − cos √s) / s = Σ c_k sᵏ.
_VERSINE = _series(lambda k: -1 / ((2 * k + 1) * (2 * k + 2)), 1 / 2)
# Coefficients c_k of (√s − sin √s) / √s³ = Σ c_k sᵏ.
_EXCESS = _series(lambda k: -1 / ((2 * k + 2) * (2 * k + 3)), 1 / 6)
# Coefficients c_k of arctan(√s) / √s = Σ c_k sᵏ, three times as many because they decrease slowly.
ARCTAN = [(-1) ** k / (2 * k + 1) for k in range(3 * SERIES_TERMS)]
# |B₂ₖ| / (2k)!, k = 1, 2, …, of 1 − x/2 cot(x/2) = Σ |B₂ₖ| x²ᵏ / (2k)!.
_BERNOULLI = [
    8.333333333333333e-2, 1.388888888888889e-3, 3.306878306878307e-5, 8.267195767195768e-7, 2.0876756987868098e-8,
    5.284190138687493e-10, 1.3382536530684679e-11, 3.3896802963225827e-13, 8.586062056277845e-15,
]  # fmt: skip


def cos(s: Array) -> Array:
    """Return cos √s, smooth at s = 0."""
    return even(_COS, lambda s: jnp.cos(jnp.sqrt(s)), s)


def sinc(s: Array) -> Array:
    """Return sin √s / √s, smooth at s = 0, where it is 1."""
    return even(_SINC, lambda s: jnp.sin(jnp.sqrt(s)) / jnp.sqrt(s), s)


def versine(s: Array) -> Array:
    """Return (1 − cos √s) / s, smooth at s = 0, where it is ½."""
    return even(_VERSINE, lambda s: (1 - jnp.cos(jnp.sqrt(s))) / s, s)


def excess(s: Array) -> Array:
    """Return (√s − sin √s) / √s³, smooth at s = 0, where it is 1/6."""
    return even(_EXCESS, lambda s: (jnp.sqrt(s) - jnp.sin(jnp.sqrt(s))) / (s * jnp.sqrt(s)), s)


def cotangent_excess(s: Array) -> Array:
    """Return (1 − √s/2 cot(√s/2)) / s, smooth at s = 0, where it is 1/12."""

    def closed(s: Array) -> Array:
        """Return the function for s above `SERIES_LIMIT`, where it needs no series."""
        half = jnp.sqrt(s) / 2
        return (1 - half * jnp.cos(half) / jnp.sin(half)) / s

    return even(_BERNOULLI, closed, s)
