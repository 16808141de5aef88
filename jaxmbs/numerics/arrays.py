"""The numbers of elements: floating-point arrays, concrete or traced."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import math
import sys
import types
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array


def default_float() -> np.dtype:
    """Return float64 if the user has switched x64 on, else float32."""
    return np.dtype(jnp.result_type(float))


# Floating-point types allowed for the numbers of mechanisms; half precision is not enough to close loops.
SUPPORTED_TYPES = (np.dtype("float32"), np.dtype("float64"))


def check_precision(dtype: Any) -> None:
    """Raise `ValueError` for a floating-point type other than `SUPPORTED_TYPES`; None and other types pass."""
    if dtype is not None and dtype not in SUPPORTED_TYPES and jnp.issubdtype(dtype, np.floating):
        raise ValueError(f"numbers of a mechanism are float32 or float64, got {dtype}; write x.astype(jnp.float32)")


def as_real(x: Any) -> Any:
    """Return `x` (number, nested sequence, array, tracer) as a floating-point array; see `check_precision`.

    Concrete input becomes a NumPy array, also inside a transformation, so that it can be checked there. Anything that
    is not an array of real numbers is returned unchanged, and the check of the element names it.
    """
    if x is None:
        return None
    leaves = jax.tree.leaves(x)
    for leaf in leaves:
        check_precision(getattr(leaf, "dtype", None))
    try:
        if not all(map(is_concrete, leaves)):
            x = jnp.asarray(x)
            return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(default_float())
        x = np.asarray(x)
        if x.dtype.kind in "iub" or x.dtype == np.float64:
            return x.astype(default_float())
        return x
    except (TypeError, ValueError):
        return x


class Sparse(eqx.Module):
    """An array with entries that are zero whatever the numbers are. They are constants in programs, and cost nothing there.

    Attributes:
        values: the other entries in their order (…, k); leading axes are those of a batch.
        shape: shape of the array.
        places: indices of the values in the flat array.
    """

    values: Array
    shape: tuple[int, ...] = eqx.field(static=True)
    places: tuple[int, ...] = eqx.field(static=True)

    def dense(self) -> Any:
        """Return the full array (…, *shape); this object if `values` is no array, as in a tree that holds axes or names."""
        values, size = self.values, math.prod(self.shape)
        if not isinstance(values, (np.ndarray, jax.Array)):
            return self
        shape = values.shape[:-1] + self.shape
        if not self.places:
            return np.zeros(shape, values.dtype)
        if isinstance(values, np.ndarray):
            full = np.zeros((*values.shape[:-1], size), values.dtype)
            full[..., self.places] = values
            return full.reshape(shape)
        steps = {b - a for a, b in itertools.pairwise(self.places)} or {1}
        zero = np.zeros((), values.dtype)
        if len(steps) == 1:
            ends = (self.places[0], size - 1 - self.places[-1], steps.pop() - 1)
            full = jax.lax.pad(values, zero, [(0, 0, 0)] * (values.ndim - 1) + [ends])
        else:
            full = jnp.zeros((*values.shape[:-1], size), values.dtype).at[..., np.array(self.places)].set(values)
        return full.reshape(shape) if len(self.shape) > 1 else full

    def entries(self) -> tuple[Any, ...]:
        """Return the array as nested tuples with plain zeros; `with_known_zeros` makes them this object again."""
        known = dict(zip(self.places, self.values, strict=True))
        full: tuple[Any, ...] = tuple(known.get(k, 0) for k in range(math.prod(self.shape)))
        for size in reversed(self.shape[1:]):
            full = tuple(full[k : k + size] for k in range(0, len(full), size))
        return full


def with_known_zeros(x: Any) -> Any:
    """Return `as_real(x)`; but tuples and lists that hold plain numbers 0 as a `Sparse`: such zeros are structure."""
    found = _flat(x)
    if found is None:
        return as_real(x)
    entries, shape = found
    places = tuple(k for k, entry in enumerate(entries) if not (type(entry) in (int, float) and entry == 0))
    if len(places) == len(entries):
        return as_real(x)
    values = as_real([entries[k] for k in places])
    real_row = getattr(getattr(values, "dtype", None), "kind", "") == "f" and np.ndim(values) == 1
    return Sparse(values, shape, places) if real_row else as_real(x)


def _flat(x: Any) -> tuple[list[Any], tuple[int, ...]] | None:
    """Return (entries, shape) of a tuple or list of scalars, or of rows of these; None for anything else."""
    if not isinstance(x, (tuple, list)) or not x:
        return None
    if all(isinstance(row, (tuple, list)) for row in x):
        rows = [found for row in x if (found := _flat(row)) is not None]
        widths = {width for _, width in rows}
        if len(rows) < len(x) or len(widths) > 1 or len(*widths) > 1:
            return None
        return [entry for entries, _ in rows for entry in entries], (len(x), *widths.pop())
    if any(isinstance(entry, (tuple, list, str)) or np.ndim(entry) for entry in x):
        return None
    return list(x), (len(x),)


def as_given(element: Any, name: str) -> Any:
    """Return a field declared with `real`, by its name, as an argument for another element: known zeros are plain 0."""
    value = vars(element)[name]
    return value.entries() if isinstance(value, Sparse) else value


class Structured(eqx.Module):
    """A module whose fields made by `real` read as arrays, also those with known zeros."""

    def __getattribute__(self, name: str) -> Any:
        """Return an attribute; as a dense array if it is kept as a `Sparse` with known zeros."""
        value = super().__getattribute__(name)
        return value.dense() if type(value) is Sparse else value


def instance_of(kind: type, name: str, given: Any, default: Any) -> Any:
    """Return `given`, an argument called `name` that must be an object of the class `kind`; `default` if it is None.

    Raises:
        ValueError: it is a class, a name or anything else; the message says what to write instead.
    """
    if given is None or isinstance(given, kind):
        return default if given is None else given
    own = {found.__name__: found for found in _kinds_of(kind) if not found.__name__.startswith("Abstract")}
    meant = given if isinstance(given, type) else own.get(str(given).rpartition(".")[2].removesuffix("()"))
    got = f"the class {given.__name__}" if isinstance(given, type) else repr(given)
    write = meant.__name__ if meant is not None and issubclass(meant, kind) else type(default).__name__
    raise ValueError(f"{name} must be an object, such as mbs.{write}(), got {got}; write {name}=mbs.{write}()")


def _kinds_of(kind: type) -> list[type]:
    """Return a class and all its subclasses, direct and indirect."""
    subclasses: list[type] = type.__subclasses__(kind)
    return [kind, *(found for below in subclasses for found in _kinds_of(below))]


# Errors that JAX raises when Python, NumPy or the module `math` needs the number of a traced value.
NOT_TRACEABLE = (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError)
# Second part of the message for `NOT_TRACEABLE`, after the name of the user's function: the mistake, and its correction.
NOT_TRACEABLE_REASON = (
    "calls NumPy or the module math, or branches with `if`, on a value that is traced: write it in jax.numpy, jnp.sin for "
    "np.sin, jnp.where for if"
)


def check_function(f: Callable[..., Any], name: str, *shapes: tuple[int, ...]) -> None:
    """Check that a function can be traced for arguments of these shapes, and gives a number.

    A pytree of numbers with the same code is traced once.

    Raises:
        ValueError: it cannot or does not; the message begins with `name`.
    """
    given = [jax.ShapeDtypeStruct(shape, default_float()) for shape in shapes]
    try:
        if all(map(_is_number, jax.tree.leaves(f))):
            shape = jax.eval_shape(_call, f, *given).shape
        else:
            shape = jax.eval_shape(lambda *args: _call(f, *args), *given).shape
    except NOT_TRACEABLE as error:
        raise ValueError(f"{name} {NOT_TRACEABLE_REASON}") from error
    if shape != ():
        raise ValueError(f"{name} must give a number, got shape {shape}")


def _call(f: Callable[..., Any], *args: Array) -> jax.Array:
    """Return f(*args) as a JAX array."""
    return jnp.asarray(f(*args))


def is_concrete(x: Any) -> bool:
    """Return True if the value of `x` is known now, which means that `x` is not traced."""
    return not isinstance(x, jax.core.Tracer)


def is_plain_zero(x: Any) -> bool:
    """Return True if x is a single number that is known to be 0."""
    return bool(is_concrete(x) and not isinstance(x, str) and np.ndim(x) == 0 and np.asarray(x) == 0)


def known(x: Any) -> np.ndarray | None:
    """Return the numbers of a field as a NumPy array: 0 if the field is absent, None if they are traced or not real."""
    if x is None:
        return np.zeros(())
    if isinstance(x, Sparse):
        x = x.dense() if is_concrete(x.values) else None
    kind = getattr(getattr(x, "dtype", None), "kind", "O")
    return np.asarray(x, float) if kind in "fV" and is_concrete(x) else None


def is_scalar(x: Any) -> bool:
    """Return True if `x` has no axes, False for a vector or a tuple, whose components may be traced."""
    return not isinstance(x, (tuple, list)) and np.ndim(x) == 0


@jax.tree_util.register_static
class Same:
    """A value that equals another if it is the same object, an equal number or text, or an array with the same content.

    As a pytree it has no leaves. An array is copied, and the copy is read-only.
    """

    def __init__(self, value: Any) -> None:
        self.value: Any = value
        self._key: Any = id(value)
        if isinstance(value, (bool, int, str, bytes, type(None))):
            self._key = value
        elif _is_constant(value):
            self.value = value.copy()
            self.value.flags.writeable = False
            self._key = value.shape, value.dtype.str, hashlib.blake2b(value.tobytes()).digest()

    def __reduce__(self) -> tuple[Any, ...]:
        """For `pickle`: the object has another address in another process."""
        return Same, (self.value,)

    def __deepcopy__(self, memo: Any) -> Same:
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and (type(self.value), self._key) == (type(other.value), other._key)

    def __hash__(self) -> int:
        return hash(self._key)


class Closure(eqx.Module):
    """A plain function as a pytree.

    JAX arrays and numbers that it closes over are leaves, NumPy arrays and its code are static. So functions that are
    made again with other numbers, as in a function that builds a mechanism, count as the same, and their numbers are
    differentiated and batched like all others; functions of NumPy can be used on NumPy arrays.

    Attributes:
        code: the function's code.
        scope: the global names that it uses, a dict.
        held: values of its default arguments, then of the variables that it closes over, each as by `closure_leaf`.
        defaults: number of default arguments.
    """

    code: types.CodeType = eqx.field(static=True)
    scope: Same = eqx.field(static=True)
    held: tuple[Any, ...]
    defaults: int = eqx.field(static=True)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function with the present values of what it closes over and of its defaults."""
        values = [closure_value(x) for x in self.held]
        defaults = tuple(values[: self.defaults]) or None
        cells = tuple(types.CellType(x) for x in values[self.defaults :]) or None
        function = types.FunctionType(self.code, self.scope.value, None, defaults, cells)
        return function(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the parts for `pickle`, which writes functions of modules by name; cloudpickle writes all functions."""
        scope = self.scope.value
        function: Any = sys.modules.get(scope.get("__name__"))
        for name in self.code.co_qualname.split("."):
            function = getattr(function, name, None)
        if getattr(function, "__code__", None) is not self.code:
            empty = tuple(types.CellType(None) for _ in self.code.co_freevars)
            function = types.FunctionType(self.code, scope, None, None, empty)
        return _closure_of, (function, self.held, self.defaults)


def _closure_of(function: types.FunctionType, held: tuple[Any, ...], defaults: int) -> Closure:
    """Return a `Closure` from its parts, for `pickle`."""
    return Closure(function.__code__, Same(function.__globals__), held, defaults)


class Applied(eqx.Module):
    """The result of `functools.partial` as a pytree: its function by `as_pytree`, its arguments by `closure_leaf`."""

    f: Callable[..., Any]
    args: tuple[Any, ...]
    keywords: dict[str, Any]

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Call the function with the bound arguments first, then the given ones."""
        given = {name: closure_value(x) for name, x in self.keywords.items()}
        return self.f(*(closure_value(x) for x in self.args), *args, **given, **keywords)


def as_pytree(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that can be part of a pytree: modules unchanged, plain functions as a `Closure`."""
    if isinstance(f, (eqx.Module, jax.tree_util.Partial)):
        return f
    if isinstance(f, functools.partial):
        return Applied(
            as_pytree(f.func),
            tuple(map(closure_leaf, f.args)),
            {name: closure_leaf(x) for name, x in f.keywords.items()},
        )
    return _closure(f, ()) or jax.tree_util.Partial(f)


def _closure(f: Any, within: tuple[int, ...]) -> Closure | None:
    """Return a function as a `Closure`; None if it is not a plain function, or refers to itself (ids in `within`)."""
    if not isinstance(f, types.FunctionType) or f.__kwdefaults__ or f.__dict__ or id(f) in within:
        return None
    try:
        cells = [cell.cell_contents for cell in f.__closure__ or ()]
    except ValueError:  # a cell that is not filled yet
        return None
    values = [*(f.__defaults__ or ()), *cells]
    kept = tuple(closure_leaf(value, (*within, id(f))) for value in values)
    return Closure(f.__code__, Same(f.__globals__), kept, len(f.__defaults__ or ()))


def closure_leaf(value: Any, within: tuple[int, ...] = ()) -> Any:
    """Return a value that a function closes over as a pytree.

    Functions are `Closure`s, numbers are leaves, and NumPy arrays among them static; all else is static as a whole.
    Arrays in modules are leaves in any case.
    """
    inner = _closure(value, within)
    if inner is not None:
        return inner
    is_module = lambda x: isinstance(x, eqx.Module)
    leaves = jax.tree.leaves(value, is_leaf=is_module)
    known = lambda x: _is_constant(x) or all(map(_is_number, jax.tree.leaves(x)))
    if not leaves or not all(map(known, leaves)):
        return Same(value)
    return jax.tree.map(lambda x: Same(x) if _is_constant(x) else x, value, is_leaf=is_module)


def closure_value(value: Any) -> Any:
    """Return the value that `closure_leaf` turned into a pytree, the inverse of that function."""
    plain = lambda x: x.value if isinstance(x, Same) else x
    return jax.tree.map(plain, value, is_leaf=lambda x: isinstance(x, (Same, eqx.Module)))


def _is_constant(x: Any) -> bool:
    """Return True for a NumPy array of numbers, which is static when a function closes over it."""
    return isinstance(x, np.ndarray) and not x.dtype.hasobject


def _is_number(x: Any) -> bool:
    """Return True for a leaf that may be traced without changing the function: real arrays, and traced values."""
    return isinstance(x, (float, jax.Array)) or getattr(getattr(x, "dtype", None), "kind", "") == "f"


def real(shape: tuple[int | None, ...] = (), *, optional: bool = False, **kwargs: Any) -> Any:
    """Return a field of an element: real numbers of `shape`, in which None stands for any length.

    `check_fields` checks them. An `optional` one may be None. Plain zeros in tuples and lists are structure, see `Sparse`;
    the class of the element must be `Structured`.
    """
    converter = with_known_zeros if shape else as_real
    return eqx.field(converter=converter, metadata={"shape": shape, "optional": optional}, **kwargs)


def row(**kwargs: Any) -> Any:
    """Declare a field of a curve: any number of real numbers, all of which may change."""
    return eqx.field(converter=as_real, metadata={"shape": (None,), "optional": False}, **kwargs)


def check_fields(element: Any) -> None:
    """Raise `ValueError` for a field declared with `real` that has another shape, or that is known and not finite."""
    for field in element.__dataclass_fields__.values():
        if "shape" not in field.metadata:
            continue
        # The zeros of a `Sparse` are not written out: an operation of JAX would do that.
        shape, value, name = field.metadata["shape"], vars(element)[field.name], field.name.lstrip("_")
        if value is None and field.metadata["optional"]:
            continue
        entries = value.values if type(value) is Sparse else value
        kind = getattr(getattr(entries, "dtype", None), "kind", "O")
        found = value.shape if kind == "f" else ()
        if not (kind == "f" and len(found) == len(shape)) or any(
            want is not None and want != got for want, got in zip(shape, found, strict=True)
        ):
            what = "a number" if shape == () else f"an array of shape {shape}".replace("None", "n")
            got = f"shape {found}" if kind == "f" else repr(value)
            raise ValueError(f"{name} must be {what}, got {got}")
        if is_concrete(entries) and not np.all(np.isfinite(np.asarray(entries))):
            raise ValueError(f"{name} must be finite, got {np.asarray(getattr(element, field.name))}")


def with_fields(kind: type, module: Any, **fields: Any) -> Any:
    """Return a copy of a module as an instance of `kind`, with some fields replaced; nothing is checked.

    `copy.copy` is not used because equinox would keep such a copy in memory for ever, as if it were still being
    initialised.
    """
    same: Any = object.__new__(kind)
    for field in dataclasses.fields(kind):
        object.__setattr__(same, field.name, fields.get(field.name, getattr(module, field.name)))
    return same


def where_rows(mask: np.ndarray, yes: Any, no: Any) -> Any:
    """Return a tree of NumPy arrays with the rows of `yes` where the mask (rows,) is True, else those of `no`."""
    pick = lambda a, b: np.where(mask.reshape(-1, *[1] * (a.ndim - 1)), a, b)
    return jax.tree.map(pick, yes, no)


def where_tree(condition: Array, yes: Any, no: Any) -> Any:
    """Return the leaves of `yes` where the scalar condition holds, else those of `no`, as `jnp.where`."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def finite(tree: Any) -> tuple[Any, Array]:
    """Return a tree with 1 in place of numbers that are not finite, and True if all of them were finite."""
    params, static = eqx.partition(tree, eqx.is_inexact_array)
    leaves, structure = jax.tree.flatten(params)
    held = [_finite_or_one(x) for x in leaves]
    every = [ok for _, ok in held]
    usable = lax.reduce_and(lax.concatenate(every, 0), (0,)) if every else jnp.asarray(True)
    return eqx.combine(jax.tree.unflatten(structure, [x for x, _ in held]), static), usable


@jax.jit
def _finite_or_one(x: Array) -> tuple[Array, Array]:
    """Return x with 1 in place of numbers that are not finite, and True if there are none. Traced once per shape."""
    ok = lax.is_finite(x)
    return lax.select(ok, x, lax.full_like(x, 1)), lax.reduce_and(ok, range(ok.ndim)).reshape(1)
