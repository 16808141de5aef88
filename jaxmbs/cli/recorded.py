"""The option `--record "max piston.x"`: scalar quantities of a motion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from jaxmbs.dynamics.quantities import QUANTITIES, MotionWithReactions, quantity

# Function that reduces a quantity over time to one number, by the name used on the command line.
REDUCTIONS: dict[str, Callable] = {
    "max": lambda x: jnp.max(x),
    "min": lambda x: jnp.min(x),
    "mean": lambda x: jnp.mean(x),
    "rms": lambda x: jnp.sqrt(jnp.mean(x * x)),
    "peak": lambda x: jnp.max(jnp.abs(x)),
    "range": lambda x: jnp.max(x) - jnp.min(x),
    "first": lambda x: x[0],
    "last": lambda x: x[-1],
}


def recorder(model, text: str) -> Callable[[MotionWithReactions], Any]:
    """Return the function that reduces a quantity of a motion to one number, from a text such as "max piston.x".

    Raises:
        ValueError: the text names no reduction, or no quantity of this model.
    """
    reduction, _, name = text.strip().partition(" ")
    if reduction not in REDUCTIONS or not name:
        raise ValueError(f"{text!r}: begin with one of {', '.join(REDUCTIONS)}, then {QUANTITIES}")
    values = quantity(model, name.strip())
    return lambda seen: REDUCTIONS[reduction](values(seen))
