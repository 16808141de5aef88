"""Numbers as the elements hold them: floating-point arrays, concrete or traced."""

from __future__ import annotations

from collections.abc import Callable

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


def as_pytree(f: Callable) -> Callable:
    """A function that can be part of a pytree: one with parameters (a module) as it is, a plain one without leaves."""
    return f if isinstance(f, (eqx.Module, jax.tree_util.Partial)) else jax.tree_util.Partial(f)


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
