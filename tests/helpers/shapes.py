"""The check of the shapes that functions are annotated with; `conftest` puts it around those of the package."""

from typing import Any, get_args

import beartype
import jax
import jaxtyping
import numpy as np

# Numbers that are known before a trace are arrays and scalars of NumPy; an annotation means either.
jaxtyping.Array = jax.Array | np.ndarray | np.generic


def shaped(hint: Any) -> bool:
    """Return True if a type gives the shape or the dtype of an array, or of arrays in it."""
    if isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray):
        return True
    return any(shaped(part) for part in get_args(hint))


def checked(function):
    """Return the function with its arrays checked; other annotations are left to the package's own messages."""
    function.__annotations__ = {name: hint for name, hint in function.__annotations__.items() if shaped(hint)}
    return beartype.beartype(function)
