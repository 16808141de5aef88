"""Helpers that the kinds of synthesis share: checks of arguments, bounds, and following a found mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxmbs.analyses.kinematics import kinematics
from jaxmbs.numerics.results import Status
from jaxmbs.system.mechanism import Mechanism

# Number of times at which the motion of a result is checked; the same for all, so they share a compiled program.
CHECK_TIMES = 73
# Distance inside a bound at which its penalty begins, as a fraction of the width between the bounds or of 1 if wider.
BOUND_MARGIN = 1e-3


def rows_of_numbers(name: str, values, description: str, columns: tuple[int, ...] | None = None) -> np.ndarray:
    """Return the argument `name`, at least two rows (T, d) of finite numbers, as an array; `columns`: the allowed d."""
    rows = np.asarray(values, float)
    if rows.ndim != 2 or len(rows) < 2 or (columns and rows.shape[1] not in columns):
        raise ValueError(f"{name} must be at least two {description}, got shape {rows.shape}")
    if not np.all(np.isfinite(rows)):
        raise ValueError(f"{name} must be finite")
    return rows


def one_per_target(name: str, values, count: int) -> np.ndarray:
    """Return the argument `name` as an array of `count` finite numbers, one for each target, else raise ValueError."""
    numbers = np.asarray(values, float)
    if numbers.shape != (count,) or not np.all(np.isfinite(numbers)):
        raise ValueError(f"{name} must be {count} finite numbers, one for each target, got shape {numbers.shape}")
    return numbers


def positive_number(name: str, value) -> float:
    """Return the argument `name` as a positive finite number, else raise ValueError."""
    if isinstance(value, str) or not (np.ndim(value) == 0 and np.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be positive, got {value!r}")
    return float(value)


def check_transmission_angle(degrees) -> None:
    """Raise ValueError if the argument `transmission_angle` is not from 0 to below 90 degrees."""
    if not 0 <= degrees < 90:
        raise ValueError(f"transmission_angle must be from 0 to below 90 degrees, got {degrees!r}")


def spread_of(places: np.ndarray) -> float:
    """Return the root mean square distance of places (T, d) from their mean, the unit of length of many searches."""
    return float(np.sqrt(((places - places.mean(axis=0)) ** 2).sum(axis=1).mean()))


def box_corners(name: str, box, centre, spread) -> np.ndarray:
    """Return the corners (2, 2), the lower one first, of the argument `name`, a box, as (corner − centre) / spread."""
    try:
        corners = np.asarray(box, float)
    except (TypeError, ValueError):
        corners = np.zeros(0)
    if corners.shape != (2, 2) or not np.all(np.isfinite(corners)) or np.any(corners[0] == corners[1]):
        raise ValueError(f"{name} must be two corners of a box with some room in it, ((x, y), (x, y)), got {box!r}")
    return (np.sort(corners, axis=0) - centre) / spread


def flat_bounds(
    name: str, bounds: Mapping[str, Any] | float | None, shapes: Mapping[str, tuple], default, unbounded=()
):
    """Return the bounds (n,) of a flat design, the numbers of all entries in the order of `shapes`.

    Args:
        name: of the argument, for errors.
        bounds: a mapping by the names of entries; a number for all entries except those in `unbounded`; or None.
        shapes: shapes of the entries by name.
        default: bound of the entries that are not bounded.
        unbounded: entries that a single number does not bound.

    Raises:
        ValueError: an unknown entry; a bound of a wrong shape, or not a number.
    """
    if bounds is not None and not isinstance(bounds, Mapping):
        bounds = {entry: bounds for entry in shapes if entry not in unbounded}
    bounds = bounds or {}
    for entry in bounds:
        if entry not in shapes:
            raise ValueError(f"{name} bounds {entry!r}, which is not one of {', '.join(shapes)}")
    parts = []
    for entry, shape in shapes.items():
        value = np.asarray(bounds.get(entry, default), float)
        if value.shape not in ((), shape) or np.any(np.isnan(value)):
            raise ValueError(f"{name}: a bound of {entry!r} is {int(np.prod(shape))} number(s), got {bounds[entry]!r}")
        parts.append(np.broadcast_to(value, shape).reshape(-1))
    return np.concatenate(parts)


def bound_violation(x, lower, upper, margin=None):
    """Return x − upper and lower − x (2 n,), both plus the margin: positive where a penalty is due.

    The margin is `BOUND_MARGIN` times the width between the bounds, or times 1 if wider, unless given.
    """
    margin = BOUND_MARGIN * jnp.minimum(upper - lower, 1) if margin is None else margin
    return jnp.concatenate([x - upper + margin, lower + margin - x])


def times_including(moments) -> np.ndarray:
    """Return `CHECK_TIMES` increasing times from 0 to 1 that include the moments; more if the moments are as many."""
    moments = np.asarray(moments, float)
    return np.sort(np.concatenate([np.linspace(0, 1, max(CHECK_TIMES - len(moments), 2)), moments]))


def follow_motion(mech: Mechanism, times: np.ndarray, guess) -> np.ndarray | None:
    """Return poses (T, bodies, 3) of a planar mechanism at times (T,), or None if its motion cannot be followed."""
    try:
        motion = kinematics(mech, jnp.asarray(times), guess)
    except ValueError:  # singular at the start
        return None
    if np.any(np.asarray(motion.status) != Status.CONVERGED):
        return None
    return np.asarray(motion.q).reshape(len(times), -1, 3)


def guess_of(mech: Mechanism, q) -> dict[str, tuple]:
    """Return a configuration q as a guess: the coordinates of each body, and of elements that have some, by name."""
    slices = {**mech.layout.body_slices, **mech.layout.extra_slices}
    return {name: tuple(np.asarray(q)[part].tolist()) for name, part in slices.items()}


def point_positions(poses: np.ndarray, point) -> np.ndarray:
    """Return the places (T, 2) of a point of a body with poses (T, 3)."""
    c, s = np.cos(poses[:, 2]), np.sin(poses[:, 2])
    return poses[:, :2] + np.column_stack([c * point[0] - s * point[1], s * point[0] + c * point[1]])


def zero_tolerance() -> float:
    """Return the largest error that counts as zero in numbers of size 1: √ε of the present precision."""
    return float(np.sqrt(jnp.finfo(jnp.result_type(float)).eps))


def wrap_angle(angle):
    """Return the same angles between −π and π, in radians."""
    return np.arctan2(np.sin(angle), np.cos(angle))


def is_grashof(lengths) -> bool:
    """Return True if a link of a four-bar with four lengths turns fully: shortest + longest ≤ sum of the other two."""
    a, b, c, d = sorted(lengths)
    return bool(a + d <= b + c)


def transmission_angle_deg(cosines) -> float:
    """Return the smallest angle between the lines of two links, 0 to 90 degrees, from cosines (…) between links.

    It is 0 if a cosine is beyond ±1: there the links do not reach each other.
    """
    return float(np.rad2deg(np.arccos(min(np.abs(np.asarray(cosines)).max(), 1.0))))
