"""`--record "max piston.x"`: what is kept of a motion, one number each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from jaxmbs.dynamics.quantities import QUANTITIES, MotionWithReactions, quantity

REDUCED: dict[str, Callable] = {
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
    """A function of a motion that gives the number which a text names.

    Raises:
        ValueError: a text that says nothing about this model.
    """
    how, _, what = text.strip().partition(" ")
    if how not in REDUCED or not what:
        raise ValueError(f"{text!r}: begin with one of {', '.join(REDUCED)}, then {QUANTITIES}")
    values = quantity(model, what.strip())
    return lambda seen: REDUCED[how](values(seen))
