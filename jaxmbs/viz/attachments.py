"""The points at which elements hold their bodies, in the plane and in space."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from jaxmbs.element import POINT_OWNERS
from jaxmbs.numerics.arrays import is_concrete

# Points of bodies that a picture shows: (name of the body, point in its frame), …
Marked = Sequence[tuple[str, Sequence[float]]]


@singledispatch
def attachments(element: Any, dimension: int = 2) -> list[tuple[str, np.ndarray]]:
    """Return the points at which an element holds its bodies, as (body, point), that on body i first.

    The default point is the origin of the body. An element whose points are not called `point_i`, `point_j` or `point`
    registers its own function.

    Args:
        element: a constraint, driver or force.
        dimension: 2 or 3, the dimension of the points.

    Returns:
        Pairs of the name of a body, and a point (dimension,) in its frame.

    Examples:
        >>> [(body, point.tolist()) for body, point in mbs.viz.attachments(mech.constraints["A"])]
        [('crank', [1.0, 0.0]), ('rod', [0.0, 0.0])]
    """
    found = []
    for name, owner in POINT_OWNERS.items():
        if hasattr(element, owner) and hasattr(element, name):
            point = getattr(element, name)
            found.append((getattr(element, owner), np.zeros(dimension) if point is None else numbers(point)))
    return found


def numbers(x: Any) -> Any:
    """Return an array of real numbers; a traced one as it is."""
    return np.asarray(x, float) if is_concrete(x) else x


def sense(driver, t: float) -> int:
    """Return +1 if the motion of a driver does not decrease just after time t, else −1."""
    return 1 if float(driver.motion(np.asarray(t + 1e-3))) >= float(driver.motion(np.asarray(t))) else -1


def pitch_radii(element) -> list[float]:
    """Return the pitch radii of a gear pair or a rack and pinion, without their signs; [] for other elements."""
    radii = (getattr(element, name, None) for name in ("radius_i", "radius_j"))
    return [abs(float(radius)) for radius in radii if radius is not None]
