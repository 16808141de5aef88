"""Bodies that are light compared with others of a mechanism, found from the numbers known when the mechanism is made.

If a body is much lighter than the bodies it carries, its M⁻¹ is so large that the M⁻¹ of the heavy bodies is lost in the
rounding of Φ_q M⁻¹ Φ_qᵀ. Such mechanisms are solved in another, more expensive way. The choice is part of the structure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from jax.typing import DTypeLike

from jaxmbs.element import GROUND, AbstractBody
from jaxmbs.numerics.arrays import known

# A body is light if its mass is below the largest mass times the rounding unit to this power: 6e-6 in float64.
LIGHT_MASS_POWER = 1 / 3


def light_bodies(bodies: Mapping[str, AbstractBody], elements: Iterable[Any], dtype: DTypeLike) -> tuple[str, ...]:
    """Return the names of the light bodies.

    A body is light if two or more elements act on it, and its mass, or a moment of inertia divided by the squared lever
    arm of its joints, is positive but small compared with the largest of these masses. Traced numbers do not count.
    """
    arms = dict.fromkeys(bodies, 0.0)
    elements = list(elements)
    holding = _holding(bodies, elements)
    given = {name: body.known_inertia for name, body in bodies.items()}
    for element in elements:
        for side in "ij":
            name = getattr(element, side)
            if name != GROUND:
                arms[name] = max(arms[name], _arm(given[name][2], getattr(element, f"point_{side}", None)))
    longest = max(arms.values(), default=0.0)
    heaviest, lightest = 0.0, {}
    for name, (mass, inertia, _) in given.items():
        masses = [] if mass is None else [float(x) for x in mass.reshape(-1)]
        moments = [] if inertia is None else _moments(inertia)
        heaviest = max(heaviest, *masses, *(x / longest**2 for x in moments if longest > 0), 0.0)
        masses += [x / arms[name] ** 2 for x in moments if arms[name] > 0]
        lightest[name] = min((x for x in masses if x > 0), default=np.inf)
    limit = float(np.finfo(dtype).eps) ** LIGHT_MASS_POWER * heaviest
    return tuple(name for name in bodies if holding[name] > 1 and lightest[name] < limit)


def holding_elements(mech: Any) -> dict[str, int]:
    """Return the number of constraints and drivers that act on each body of a mechanism."""
    return _holding(mech.bodies, [*mech.constraints.values(), *mech.drivers.values()])


def _holding(bodies: Iterable[str], elements: list[Any]) -> dict[str, int]:
    """Return the number of these elements that act on each body, by name."""
    counts = Counter(getattr(element, side) for element in elements for side in "ij")
    return {name: counts[name] for name in bodies}


def _arm(com: np.ndarray | None, point: Any) -> float:
    """Return the distance of a joint's `point` from the centre of mass `com`, both in the body; 0 if one is not known."""
    point = known(point)
    if com is None or point is None or point.ndim != 1:
        return 0.0
    return float(np.linalg.norm(point - com))


def _moments(inertia: np.ndarray) -> list[float]:
    """Return the known principal moments of inertia that are positive by more than rounding."""
    full = np.atleast_1d(inertia)
    if full.ndim == 2 and full.shape[0] == full.shape[1] and np.all(np.isfinite(full)):
        full = np.linalg.eigvalsh((full + full.T) / 2)
    full = full.reshape(-1)
    largest = np.max(np.abs(full), initial=0.0)
    return [float(x) for x in full if x > np.finfo(full.dtype).eps * largest]
