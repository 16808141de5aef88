"""Where an element holds its bodies: what pictures ask of any element, in the plane and in space."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np

Marked = Sequence[tuple[str, Sequence[float]]]
"""(body, point), …: points of bodies that a picture shows."""


@singledispatch
def attachments(element: Any, dimension: int = 2) -> list[tuple[str, np.ndarray]]:
    """(body, point) for the points at which an element holds its bodies, that on body i first.

    A point that is not given is the origin of its body. An element that keeps its points under other names than
    `point_i`, `point_j` and `point` registers a function of its own.

    Args:
        element: a constraint, driver or force.
        dimension: 2 or 3, of the points.

    Examples:
        >>> [(body, point.tolist()) for body, point in mbs.viz.attachments(mech.constraints["A"])]
        [('crank', [1.0, 0.0]), ('rod', [0.0, 0.0])]
    """
    owners = {"point_i": "i", "point_j": "j", "point": "body"}
    return [
        (getattr(element, owner), _as_point(getattr(element, point), dimension))
        for point, owner in owners.items()
        if hasattr(element, owner) and hasattr(element, point)
    ]


def _as_point(point, dimension: int) -> np.ndarray:
    return np.zeros(dimension) if point is None else np.asarray(point, float)


def sense(driver, t: float) -> int:
    """+1 if the driver's motion rises at a time, else −1."""
    return 1 if float(driver.motion(np.asarray(t + 1e-3))) >= float(driver.motion(np.asarray(t))) else -1


def pitch_radii(element) -> list[float]:
    """The pitch radii of gears and pinions, without their signs."""
    radii = (getattr(element, name, None) for name in ("radius_i", "radius_j"))
    return [abs(float(radius)) for radius in radii if radius is not None]
