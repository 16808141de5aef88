"""Values that depend on the state."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxmbs.element import require
from jaxmbs.forces.state import State
from jaxmbs.motion import AbstractMotion
from jaxmbs.numerics.arrays import as_pytree, default_float, is_concrete, with_known_zeros


class OfState(eqx.Module):
    """A function of the user that takes the whole `State`."""

    f: Callable

    def __call__(self, state: State):
        return self.f(state)


def as_function(f):
    """A function of the user: f(state) if it takes one argument, of several ones otherwise."""
    if not callable(f) or isinstance(f, OfState):
        return f
    try:
        taken = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):  # of C code, which does not say
        return as_pytree(f)
    several = any(p.kind is p.VAR_POSITIONAL for p in taken)
    needed = [p for p in taken if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return OfState(as_pytree(f)) if len(needed) == 1 and not several else as_pytree(f)


def as_value(x):
    """A number or vector, a motion, a function f(state) or f(t, q, v), or components of these."""
    if x is None or isinstance(x, AbstractMotion):
        return x
    if callable(x):
        return as_function(x)
    if isinstance(x, (tuple, list)) and any(callable(part) for part in x):
        return tuple(as_value(part) for part in x)
    return with_known_zeros(x)


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
    elif isinstance(value, OfState):
        value = value(state)
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
        require(is_array, f"{name} must be numbers, a motion or a function of the state, got {value!r}")
        require(jnp.shape(value) == shape, f"{name} must have shape {shape}, got {jnp.shape(value)}")
        if is_concrete(value):
            require(np.all(np.isfinite(np.asarray(value))), f"{name} must be finite, got {np.asarray(value)}")


def law_field(*takes: str, **kwargs):
    """A field for a function of numbers, such as "length" and "rate", that gives one. What it closes over are leaves."""
    convert = lambda f: as_pytree(f) if callable(f) and not isinstance(f, AbstractMotion) else f
    return eqx.field(converter=convert, metadata={"takes": takes}, default=None, kw_only=True, **kwargs)


def laws_of(kind: Any) -> dict[str, tuple[str, ...]]:
    """The fields of a class that are made by `law_field`, and what their functions take."""
    return {name: f.metadata["takes"] for name, f in kind.__dataclass_fields__.items() if "takes" in f.metadata}


def check_law(law: Callable, takes: tuple[str, ...], name: str) -> None:
    """Raise `ValueError` unless `law` is a function of these numbers, written in jax.numpy, that gives a number."""
    what = f"{name} must be a function of ({', '.join(takes)}), written in jax.numpy, that gives a number"
    require(callable(law) and not isinstance(law, AbstractMotion), f"{what}; got {law!r}")
    number = jax.ShapeDtypeStruct((), default_float())
    try:
        shape = jnp.shape(jax.eval_shape(lambda *xs: jnp.asarray(law(*xs)), *(number for _ in takes)))
    except TypeError as error:
        raise ValueError(f"{what}: {str(error).partition(chr(10))[0]}") from None
    require(shape == (), f"{what}; it gives shape {shape}")
