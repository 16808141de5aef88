"""Numbers as the elements hold them: floating-point arrays, concrete or traced."""

from __future__ import annotations

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


class Same:
    """A value that equals another if it is the same object, an equal number or text, or an array with the same content.

    Of an array there is a copy, which cannot be changed any more.
    """

    def __init__(self, value):
        self.value: Any = value
        self._key: Any = id(value)
        if isinstance(value, (bool, int, str, bytes, type(None))):
            self._key = value
        elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
            self.value = value.copy()
            self.value.flags.writeable = False
            self._key = value.shape, value.dtype.str, hashlib.blake2b(value.tobytes()).digest()

    def __eq__(self, other):
        return isinstance(other, Same) and (type(self.value), self._key) == (type(other.value), other._key)

    def __hash__(self):
        return hash(self._key)


class Closure(eqx.Module):
    """A plain function as a pytree: the numbers that it closes over are leaves, its code is static.

    So functions that are made anew with other numbers, as in a function that builds a mechanism, count as the same, and
    what they close over is differentiated and batched like every other number.
    """

    code: types.CodeType = eqx.field(static=True)
    scope: Same = eqx.field(static=True)
    held: tuple
    static: tuple = eqx.field(static=True)
    defaults: int = eqx.field(static=True)

    def __call__(self, *args, **kwargs):
        values = [b.value if a is None else a for a, b in zip(self.held, self.static, strict=True)]
        defaults = tuple(values[: self.defaults]) or None
        cells = tuple(types.CellType(x) for x in values[self.defaults :]) or None
        function = types.FunctionType(self.code, self.scope.value, None, defaults, cells)
        return function(*args, **kwargs)


def as_pytree(f: Callable) -> Callable:
    """A function that can be part of a pytree: one with parameters (a module) as it is, a plain one as a `Closure`."""
    if isinstance(f, (eqx.Module, jax.tree_util.Partial)):
        return f
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
    held = []
    for value in values:
        inner = _closure(value, (*within, id(f)))
        numbers = jax.tree.leaves(value)
        held.append(inner if inner is not None else value if numbers and all(map(_is_number, numbers)) else None)
    static = tuple(Same(None if h is not None else x) for h, x in zip(held, values, strict=True))
    return Closure(f.__code__, Same(f.__globals__), tuple(held), static, len(f.__defaults__ or ()))


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
