"""Inertias from files, which often break the laws of mechanics by rounding."""

from __future__ import annotations

import numpy as np

from jaxmbs.io.models.model import ModelError

# Inertias are repaired if no entry changes by more than this, relative to the largest moment.
MAX_REPAIR = 0.02
# Changes that are smaller than this, relative to the largest moment, are rounding of the arithmetic.
ROUNDING = 1e-9


def possible_inertia(inertia: np.ndarray, where: str, *, at_any_cost: bool = False) -> tuple[np.ndarray, bool]:
    """Return the nearest inertia (3, 3) that a rigid body can have, and True if it differs from the given one.

    With the matrix P = ½ tr(J) − J of second moments of mass, J is possible if P has no negative eigenvalue. These are
    set to zero. Then moments are not negative, and none exceeds the sum of the others.

    Args:
        inertia: J, (3, 3), symmetric.
        where: beginning of messages.
        at_any_cost: if False, changes of more than 2 % of the largest moment are errors.

    Raises:
        ModelError: the given inertia is not possible, and not for rounding.
    """
    second = np.trace(inertia) / 2 * np.eye(3) - inertia
    values, axes = np.linalg.eigh(second)
    size = np.abs(np.linalg.eigvalsh(inertia)).max()
    if values[0] >= -ROUNDING * size:
        return inertia, False
    kept = np.maximum(values, 0)
    second = axes @ np.diag(kept) @ axes.T
    nearest = np.trace(second) * np.eye(3) - second
    if not at_any_cost and np.abs(nearest - inertia).max() > MAX_REPAIR * size:
        moments = ", ".join(f"{x:.6g}" for x in np.linalg.eigvalsh(inertia))
        raise ModelError(
            f"{where}: no rigid body has the moments of inertia {moments}: none may be negative or exceed the sum of the "
            "others; ignore=('inertia',) takes the nearest ones that are possible"
        )
    return (nearest + nearest.T) / 2, True
