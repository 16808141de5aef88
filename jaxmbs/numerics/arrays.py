"""Numbers as the elements hold them: floating-point arrays, concrete or traced."""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


def default_float() -> np.dtype:
    """float64 if the user has switched x64 on, else float32."""
    return jnp.zeros(()).dtype


def as_real(x):
    """`x` (number, nested sequence, array, tracer) as a floating-point array.

    Concrete input becomes a NumPy array, also inside a transformation, so that it can be checked there. What is no array
    of real numbers is returned as it came, for the check of the element to name it.
    """
    if x is None:
        return None
    try:
        if not all(is_concrete(leaf) for leaf in jax.tree.leaves(x)):
            x = jnp.asarray(x)
            return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(default_float())
        x = np.asarray(x)
        if x.dtype.kind in "iub" or x.dtype == np.float64:
            return x.astype(default_float())
        return x
    except (TypeError, ValueError):
        return x


def is_concrete(x) -> bool:
    """Whether the value of `x` is known now, i.e. `x` is not traced."""
    return not isinstance(x, jax.core.Tracer)


def is_scalar(x) -> bool:
    """Whether `x` is no vector; the components of a tuple may be traced."""
    return not isinstance(x, (tuple, list)) and np.ndim(x) == 0


@jax.tree_util.register_static
class Same:
    """A value that equals another if it is the same object, an equal number or text, or an array with the same content.

    As a pytree it has no leaves. Of an array there is a copy, which cannot be changed any more.
    """

    def __init__(self, value):
        self.value: Any = value
        self._key: Any = id(value)
        if isinstance(value, (bool, int, str, bytes, type(None))):
            self._key = value
        elif _is_constant(value):
            self.value = value.copy()
            self.value.flags.writeable = False
            self._key = value.shape, value.dtype.str, hashlib.blake2b(value.tobytes()).digest()

    def __eq__(self, other):
        return isinstance(other, Same) and (type(self.value), self._key) == (type(other.value), other._key)

    def __hash__(self):
        return hash(self._key)


class Closure(eqx.Module):
    """A plain function as a pytree: the numbers and arrays of JAX that it closes over are leaves, arrays of NumPy and its
    code are static.

    So functions that are made anew with other numbers, as in a function that builds a mechanism, count as the same, and
    what they close over is differentiated and batched like every other number; functions of NumPy can be used on arrays of
    NumPy.
    """

    code: types.CodeType = eqx.field(static=True)
    scope: Same = eqx.field(static=True)
    held: tuple
    defaults: int = eqx.field(static=True)

    def __call__(self, *args, **kwargs):
        values = [released(x) for x in self.held]
        defaults = tuple(values[: self.defaults]) or None
        cells = tuple(types.CellType(x) for x in values[self.defaults :]) or None
        function = types.FunctionType(self.code, self.scope.value, None, defaults, cells)
        return function(*args, **kwargs)


class Applied(eqx.Module):
    """What `functools.partial` makes, as a pytree like a `Closure`."""

    f: Callable
    args: tuple
    keywords: dict

    def __call__(self, *args, **keywords):
        given = {name: released(x) for name, x in self.keywords.items()}
        return self.f(*(released(x) for x in self.args), *args, **given, **keywords)


def as_pytree(f: Callable) -> Callable:
    """A function that can be part of a pytree: one with parameters (a module) as it is, a plain one as a `Closure`."""
    if isinstance(f, (eqx.Module, jax.tree_util.Partial)):
        return f
    if isinstance(f, functools.partial):
        return Applied(as_pytree(f.func), tuple(map(held, f.args)), {name: held(x) for name, x in f.keywords.items()})
    return _closure(f, ()) or jax.tree_util.Partial(f)


def _closure(f, within: tuple[int, ...]) -> Closure | None:
    """None for what is no plain function, or one that refers to itself."""
    if not isinstance(f, types.FunctionType) or f.__kwdefaults__ or f.__dict__ or id(f) in within:
        return None
    try:
        cells = [cell.cell_contents for cell in f.__closure__ or ()]
    except ValueError:  # a cell that is not filled yet
        return None
    values = [*(f.__defaults__ or ()), *cells]
    kept = tuple(held(value, (*within, id(f))) for value in values)
    return Closure(f.__code__, Same(f.__globals__), kept, len(f.__defaults__ or ()))


def held(value, within: tuple[int, ...] = ()):
    """A value that a function closes over as a pytree: functions as they are, numbers as leaves, and arrays of NumPy among
    them static; all else is static as a whole. Arrays in modules are leaves, whatever they are."""
    inner = _closure(value, within)
    if inner is not None:
        return inner
    leaves = jax.tree.leaves(value, is_leaf=_is_module)
    known = lambda x: _is_constant(x) or all(map(_is_number, jax.tree.leaves(x)))
    if not leaves or not all(map(known, leaves)):
        return Same(value)
    return jax.tree.map(lambda x: Same(x) if _is_constant(x) else x, value, is_leaf=_is_module)


def released(value):
    """What has been `held`."""
    is_leaf = lambda x: isinstance(x, Same) or _is_module(x)
    return jax.tree.map(lambda x: x.value if isinstance(x, Same) else x, value, is_leaf=is_leaf)


def _is_module(x) -> bool:
    return isinstance(x, eqx.Module)


def _is_constant(x) -> bool:
    """Whether it is an array of NumPy, with numbers in it."""
    return isinstance(x, np.ndarray) and not x.dtype.hasobject


def _is_number(x) -> bool:
    """Whether a leaf may be traced without changing what a function does: real arrays, and all that is traced already."""
    return isinstance(x, (float, jax.Array)) or getattr(getattr(x, "dtype", None), "kind", "") == "f"


def real(shape: tuple[int | None, ...] = (), *, optional: bool = False, **kwargs):
    """A field of an element: real numbers of `shape`; None stands for any length. `check_fields` checks them.

    An `optional` one may be absent.
    """
    return eqx.field(converter=as_real, metadata={"shape": shape, "optional": optional}, **kwargs)


def check_fields(element) -> None:
    """Raise `ValueError` for a field declared with `real` that has another shape, or that is known and not finite."""
    for field in element.__dataclass_fields__.values():
        if "shape" not in field.metadata:
            continue
        shape, value, name = field.metadata["shape"], getattr(element, field.name), field.name.lstrip("_")
        if value is None and field.metadata["optional"]:
            continue
        kind = getattr(getattr(value, "dtype", None), "kind", "O")
        if not (kind in "fV" and np.ndim(value) == len(shape)) or any(
            want is not None and want != got for want, got in zip(shape, np.shape(value), strict=True)
        ):
            what = "a number" if shape == () else f"an array of shape {shape}".replace("None", "n")
            got = f"shape {np.shape(value)}" if kind in "fV" else repr(value)
            raise ValueError(f"{name} must be {what}, got {got}")
        if is_concrete(value) and not np.all(np.isfinite(np.asarray(value))):
            raise ValueError(f"{name} must be finite, got {np.asarray(value)}")


def where_tree(condition, yes, no):
    """`jnp.where` leaf by leaf, for a scalar condition."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)
