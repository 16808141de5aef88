"""Values that depend on the state."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxmbs.element import require
from jaxmbs.forces.state import State
from jaxmbs.motion import AbstractMotion
from jaxmbs.numerics.arrays import as_pytree, as_real, is_concrete


def as_value(x):
    """A number or vector, a motion, a function f(t, q, v), or components of these."""
    if x is None or isinstance(x, AbstractMotion):
        return x
    if callable(x):
        return as_pytree(x)
    if isinstance(x, (tuple, list)) and any(callable(part) for part in x):
        return tuple(as_value(part) for part in x)
    return as_real(x)


def value_field(**kwargs):
    """A field for what `as_value` takes."""
    return eqx.field(converter=as_value, **kwargs)


def evaluate(value, state: State, shape: tuple[int, ...], name: str) -> Array:
    """The value of a field made by `value_field` in a state.

    Raises:
        ValueError: it has not the shape that it should have.
    """
    if isinstance(value, tuple):
        return jnp.stack([evaluate(part, state, (), name) for part in value])
    if isinstance(value, AbstractMotion):
        value = value(state.t)
    elif callable(value):
        value = value(state.t, state.q, state.v)
    value = jnp.asarray(value, state.q.dtype)
    require(value.shape == shape, f"{name} must have shape {shape}, got {value.shape}")
    return value


def check_value(value, shape: tuple[int, ...], name: str) -> None:
    """Raise `ValueError` for a value that cannot be used, as far as it is known."""
    require(value is not None, f"{name} is missing")
    if isinstance(value, tuple):
        require(len(value) == sum(shape), f"{name} must have {sum(shape)} components, got {len(value)}")
        for part in value:
            check_value(part, (), name)
    elif isinstance(value, AbstractMotion):
        value.check()
    elif not callable(value):
        is_array = getattr(getattr(value, "dtype", None), "kind", "O") in "fV"
        require(is_array, f"{name} must be numbers, a motion or a function of (t, q, v), got {value!r}")
        require(jnp.shape(value) == shape, f"{name} must have shape {shape}, got {jnp.shape(value)}")
        if is_concrete(value):
            require(np.all(np.isfinite(np.asarray(value))), f"{name} must be finite, got {np.asarray(value)}")
