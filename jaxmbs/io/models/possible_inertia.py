"""Inertias from files, which often break the laws of mechanics by rounding."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxmbs.io.models.model import ModelError

# Inertias are repaired if no entry changes by more than this, relative to the largest moment. Half is always enough if no
# moment is negative.
MAX_REPAIR = 0.51
# Changes that are smaller than this, relative to the largest moment, are rounding of the arithmetic.
MAX_ROUNDING_CHANGE = 1e-9
# Changes up to this, relative to the largest moment, come from the rounding of numbers in files; messages name larger ones.
MAX_ROUNDED_REPAIR = 1e-3
# Bounds of larger changes that messages name, relative to the largest moment.
REPAIR_BOUNDS = (0.01, 0.1, 0.51)
# An inertia counts as zero if its moments are smaller than this for a unit mass, in units of length squared.
MAX_ZERO_INERTIA_PER_MASS = 1e-18


class PossibleInertia(NamedTuple):
    """An inertia that a rigid body can have, (3, 3), and its largest change relative to the largest given moment."""

    inertia: np.ndarray
    change: float

    @property
    def reason(self) -> str:
        """A clause for messages that says what was done, and how large the change is if it is more than rounding."""
        reason = "no body has these moments, so the nearest possible ones are taken"
        if self.change <= MAX_ROUNDED_REPAIR:
            return reason
        bound = next((x for x in REPAIR_BOUNDS if self.change <= x), self.change)
        return f"{reason}, up to {100 * bound:.3g} % of the largest away"


def possible_inertia(inertia: np.ndarray, mass: float, where: str, *, at_any_cost: bool = False) -> PossibleInertia:
    """Return the nearest inertia that a rigid body can have.

    With the matrix P = ½ tr(J) − J of second moments of mass, J is possible if P has no negative eigenvalue. These are
    set to zero. Then moments are not negative, and none exceeds the sum of the others.

    Args:
        inertia: J, (3, 3), symmetric.
        mass: mass of the body.
        where: beginning of messages.
        at_any_cost: if False, moments that are so negative that they must be an error raise one.

    Raises:
        ModelError: the given inertia is not possible, and not nearly so.
    """
    second = np.trace(inertia) / 2 * np.eye(3) - inertia
    values, axes = np.linalg.eigh(second)
    moments = np.linalg.eigvalsh(inertia)
    size = np.abs(moments).max()
    if mass and size <= MAX_ZERO_INERTIA_PER_MASS * mass:
        return PossibleInertia(np.zeros((3, 3)), 0.0)
    if values[0] >= -MAX_ROUNDING_CHANGE * size:
        return PossibleInertia(inertia, 0.0)
    second = axes @ np.diag(np.maximum(values, 0)) @ axes.T
    nearest = np.trace(second) * np.eye(3) - second
    change = float(np.abs(nearest - inertia).max() / size)
    if not at_any_cost and change > MAX_REPAIR:
        raise ModelError(
            f"{where}: no rigid body has the moments of inertia {', '.join(f'{x:.6g}' for x in moments)}: none may be "
            "negative or exceed the sum of the others; ignore=('inertia',) takes the nearest ones that are possible"
        )
    return PossibleInertia((nearest + nearest.T) / 2, change)
