"""Parts of the texts that `repr` of mechanisms and results returns: names, sizes, statuses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from jaxmbs.numerics.arrays import is_concrete
from jaxmbs.numerics.results import Status
from jaxmbs.system.layout import Layout

# Most names of each kind (bodies, constraints, …) that a text lists; "…" and their number stand for the others.
MAX_NAMES = 6


def named(kind: str, names: Iterable[str]) -> list[str]:
    """Return [text] with a kind and its names, such as "bodies: crank, rod"; [] if there are no names."""
    names = list(names)
    shown = ", ".join(names[:MAX_NAMES])
    more = f", … ({len(names)} in all)" if len(names) > MAX_NAMES else ""
    return [f"{kind}: {shown}{more}"] if names else []


def elements(layout: Layout, forces: Iterable[str] = ()) -> list[str]:
    """Return texts with the names of all elements, and the numbers of coordinates, velocities and equations."""
    sizes = f"{layout.n} coordinates, {layout.m} velocities, {len(layout.row_owners)} equations"
    return [
        *named("bodies", (name for name, _ in layout.bodies)),
        *named("constraints", (name for name, *_ in layout.constraints)),
        *named("drivers", (name for name, *_ in layout.drivers)),
        *named("forces", forces),
        sizes,
    ]


def statuses(status: Any) -> str:
    """Return a text that counts the statuses, or shows their type if they are traced."""
    if not _is_known(status):
        return f"status: {_kind(status)}"
    codes, counts = np.unique(np.asarray(status), return_counts=True)
    names = [Status(code).name if code in list(Status) else str(code) for code in codes.tolist()]
    if len(names) == 1:
        return f"status: {names[0]}"
    return "status: " + ", ".join(f"{count} {name}" for name, count in zip(names, counts.tolist(), strict=True))


def number(name: str, x: Any) -> str:
    """Return a text with a name and a number; with type and shape instead of the number if it is an array or traced."""
    if _is_known(x) and np.ndim(x) == 0:
        return f"{name}: {float(np.asarray(x)):.6g}"
    return f"{name}: {_kind(x)}"


def batch(shape: tuple[int, ...]) -> list[str]:
    """Return [text] with the shape of a batch, such as "batch of 2 × 3"; [] if there is no batch."""
    return [f"batch of {' × '.join(map(str, shape))}"] if shape else []


def _is_known(x: Any) -> bool:
    """Return True for an array or NumPy number that is not traced."""
    return hasattr(x, "dtype") and hasattr(x, "__array__") and is_concrete(x)


def _kind(x: Any) -> str:
    """Return the type and shape of an array as text; only the type of any other object."""
    if not hasattr(x, "dtype"):
        return type(x).__name__
    return f"{x.dtype}[{', '.join(map(str, x.shape))}]"
