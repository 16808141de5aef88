"""Design sensitivities: how constraints and configurations change with design parameters; Haug (3.7.12)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
from jax.typing import ArrayLike
from jaxtyping import Array

from jaxmbs.numerics.arrays import as_real
from jaxmbs.numerics.linear_algebra import factor
from jaxmbs.system.equations import constraint_jacobian, constraints
from jaxmbs.system.mechanism import Coordinates, Mechanism


def design_jacobian(build: Callable[[Any], Mechanism], b: Any, q: Coordinates, t: ArrayLike = 0.0) -> Any:
    """Return Φ_b = ∂Φ(q, t; b)/∂b, with q held constant.

    Args:
        build: function that makes the mechanism from the design.
        b: the design, any pytree of real numbers.
        q: configuration, as for `Mechanism.coordinates`.
        t: time.

    Returns:
        A pytree like b; a leaf of shape (…) becomes one of shape (rows, …).

    Raises:
        ValueError: an unknown name in q, or a wrong number of values.

    Examples:
        >>> print(mbs.design_jacobian(slider_crank, 2.0, guess))  # the rod's length is in the x equation of pin B
        [0. 0. 0. 0. 1. 0. 0. 0. 0.]
    """
    b = jax.tree.map(as_real, b)
    return jax.jacfwd(lambda b: constraints(build(b), q, t))(b)


def design_sensitivity(build: Callable[[Any], Mechanism], b: Any, q: Coordinates, t: ArrayLike = 0.0) -> Any:
    """Return dq/db = −Φ_q⁻¹ Φ_b, the change of an assembled configuration q with the design; Haug (3.7.12).

    Where Φ_q is not square or has redundant rows, Φ_q⁻¹ is the pseudo-inverse: the change of smallest norm.

    Args:
        build: function that makes the mechanism from the design.
        b: the design, any pytree of real numbers.
        q: an assembled configuration, as for `Mechanism.coordinates`.
        t: time.

    Returns:
        A pytree like b; a leaf of shape (…) becomes one of shape (n, …).

    Raises:
        ValueError: an unknown name in q, or a wrong number of values.

    Examples:
        >>> print(mbs.design_sensitivity(slider_crank, 2.0, guess).round(6))  # only the slider moves
        [0. 0. 0. 0. 0. 0. 1. 0. 0.]
    """
    by_design = design_jacobian(build, b, q, t)
    mech = build(b)
    factors = factor(constraint_jacobian(mech, q, t))

    q = mech.coordinates(q)

    def sensitivity(leaf: Array) -> Array:
        """Return −Φ_q⁻¹ times a leaf of Φ_b, as a change of q."""
        columns = -factors.solve(leaf.reshape(leaf.shape[0], math.prod(leaf.shape[1:])))
        rates = jax.vmap(lambda d: mech.layout.rate(q, d), in_axes=1, out_axes=1)(columns)
        return rates.reshape(-1, *leaf.shape[1:])

    return jax.tree.map(sensitivity, by_design)
