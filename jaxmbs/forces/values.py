"""Arguments of forces that are numbers, motions or functions of the state."""

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
from jaxmbs.numerics.arrays import as_pytree, default_float, is_concrete, real, with_known_zeros


class OfState(eqx.Module):
    """A user's function of the whole `State`.

    Args:
        f: the function.

    Examples:
        >>> mbs.forces.OfState(lambda state: 2 * state)(3)
        6
    """

    f: Callable

    def __call__(self, state: State):
        """Return f(state)."""
        return self.f(state)


def as_function(f: Any) -> Any:
    """Return a user's function as a pytree: an `OfState` if it takes one argument, the `State`; else f(t, q, v).

    Args:
        f: the function. Anything that is not callable is returned unchanged.

    Returns:
        The function.

    Examples:
        >>> type(mbs.forces.as_function(lambda state: state.t)).__name__
        'OfState'
    """
    if not callable(f) or isinstance(f, OfState):
        return f
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):  # functions in C have no signature
        return as_pytree(f)
    several = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    needed = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return OfState(as_pytree(f)) if len(needed) == 1 and not several else as_pytree(f)


def as_value(x: Any) -> Any:
    """Return an argument of a force in the form that `evaluate` takes. None is returned unchanged.

    Args:
        x: a number or vector, a motion, a function f(state) or f(t, q, v), or a tuple of components of these.

    Returns:
        An array, a motion, a function, or a tuple of these.

    Examples:
        >>> print(mbs.forces.as_value((1.0, 2.0)))
        [1. 2.]
    """
    if x is None or isinstance(x, AbstractMotion):
        return x
    if callable(x):
        return as_function(x)
    if isinstance(x, (tuple, list)) and any(callable(part) for part in x):
        return tuple(as_value(part) for part in x)
    return with_known_zeros(x)


def value_field(**kwargs: Any) -> Any:
    """Return a dataclass field of a force for an argument of `as_value`.

    Args:
        **kwargs: see `equinox.field`.

    Returns:
        The field.

    Examples:
        >>> class Push(mbs.forces.AbstractForce):
        ...     size: object = mbs.forces.value_field(default=0.0)
        ...     def generalized(self, state):
        ...         return mbs.forces.evaluate(self.size, state, (), "size") * jnp.ones_like(state.v)
        >>> mech = mbs.Mechanism({"a": planar.Body()}, forces={"push": Push(lambda state: 2 * state.t)})
        >>> print(mbs.generalized_force(mech, {"a": (0, 0, 0)}, jnp.zeros(3), t=3.0))
        [6. 6. 6.]
    """
    return eqx.field(converter=as_value, **kwargs)


def computed_field(shape: tuple = ()) -> Any:
    """Return a dataclass field of a force for numbers of this shape that the package computes; None until it has."""
    return real(shape, optional=True, default=None, init=False)


def evaluate(value: Any, state: State, shape: tuple[int, ...], name: str) -> Array:
    """Return the value in a state of a field made by `value_field`.

    Args:
        value: the field.
        state: the state of the mechanism.
        shape: shape of the value.
        name: name of the field, for messages.

    Returns:
        An array of this shape.

    Raises:
        ValueError: a value of another shape.

    Examples:
        >>> moving = mbs.UserForce(lambda state: mbs.forces.evaluate(mbs.motion.Ramp(2.0), state, (), "size") * state.v)
        >>> mech = mbs.Mechanism({"a": planar.Body()}, forces={"moving": moving})
        >>> print(mbs.generalized_force(mech, {"a": (0, 0, 0)}, jnp.ones(3), t=3.0))
        [6. 6. 6.]
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


def check_value(value: Any, shape: tuple[int, ...], name: str) -> None:
    """Raise `ValueError` for a value that cannot be used. Traced numbers are not checked.

    Args:
        value: result of `as_value`.
        shape: shape of the value.
        name: name of the argument, for messages.

    Examples:
        >>> mbs.forces.check_value(mbs.forces.as_value((1.0, 2.0, 3.0)), (2,), "value")
        Traceback (most recent call last):
        ValueError: value must have shape (2,), got (3,)
    """
    require(value is not None, f"{name} is missing")
    if isinstance(value, tuple):
        require(len(value) == sum(shape), f"{name} must have {sum(shape)} components, got {len(value)}")
        for part in value:
            check_value(part, (), name)
    elif isinstance(value, AbstractMotion):
        value.check()
    elif not callable(value):
        is_array = getattr(getattr(value, "dtype", None), "kind", "O") == "f"
        require(is_array, f"{name} must be numbers, a motion or a function of the state, got {value!r}")
        require(jnp.shape(value) == shape, f"{name} must have shape {shape}, got {jnp.shape(value)}")
        if is_concrete(value):
            require(np.all(np.isfinite(np.asarray(value))), f"{name} must be finite, got {np.asarray(value)}")


def law_field(*takes: str, **kwargs: Any) -> Any:
    """Return a dataclass field of a force for a function of numbers, such as "length" and "rate", that returns a number.

    Arrays that the function closes over are leaves of the force.

    Args:
        *takes: names of the function's arguments.
        **kwargs: see `equinox.field`.

    Returns:
        The field.

    Examples:
        >>> class Bumper(mbs.forces.AbstractForce):
        ...     law: object = mbs.forces.law_field("gap")
        ...     def generalized(self, state):
        ...         return state.v.at[0].set(self.law(state.q[0]))
        >>> mech = mbs.Mechanism({"a": planar.Body()}, forces={"bumper": Bumper(law=lambda gap: -3 * gap)})
        >>> print(mbs.generalized_force(mech, {"a": (2, 0, 0)}, jnp.zeros(3)))
        [-6.  0.  0.]
    """
    convert = lambda f: as_pytree(f) if callable(f) and not isinstance(f, AbstractMotion) else f
    return eqx.field(converter=convert, metadata={"takes": takes}, default=None, kw_only=True, **kwargs)


def laws_of(kind: Any) -> dict[str, tuple[str, ...]]:
    """Return the fields of a class that are made by `law_field`, and the names of the arguments of their functions.

    Args:
        kind: a class of forces.

    Returns:
        Field name → names of the arguments.

    Examples:
        >>> mbs.forces.laws_of(mbs.Spring)
        {'force': ('length', 'rate')}
    """
    return {name: f.metadata["takes"] for name, f in kind.__dataclass_fields__.items() if "takes" in f.metadata}


def check_law(law: Callable, takes: tuple[str, ...], name: str) -> None:
    """Raise `ValueError` unless a law is a function of these numbers, written in jax.numpy, that returns a number.

    Args:
        law: the function.
        takes: names of its arguments.
        name: name of the law, for messages.

    Raises:
        ValueError: it is not such a function.

    Examples:
        >>> mbs.forces.check_law(lambda length: length * jnp.ones(2), ("length",), "force")
        Traceback (most recent call last):
        ValueError: force must be a function of (length), written in jax.numpy, that gives a number; it gives shape (2,)
    """
    rule = f"{name} must be a function of ({', '.join(takes)}), written in jax.numpy, that gives a number"
    require(callable(law) and not isinstance(law, AbstractMotion), f"{rule}; got {law!r}")
    number = jax.ShapeDtypeStruct((), default_float())
    try:
        shape = jnp.shape(jax.eval_shape(lambda *xs: jnp.asarray(law(*xs)), *(number for _ in takes)))
    except TypeError as error:
        raise ValueError(f"{rule}: {str(error).partition(chr(10))[0]}") from None
    require(shape == (), f"{rule}; it gives shape {shape}")
