"""Helpers that the kinds of synthesis share: checks of arguments, bounds, and following a found mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxmbs.analyses.kinematics import kinematics
from jaxmbs.numerics.results import Status
from jaxmbs.system.mechanism import Mechanism

# Number of times at which the motion of a found mechanism is checked, the same for all so that they share a compiled
# program.
CHECK_TIMES = 73
# Distance inside a bound at which the penalty for violating it begins, as a fraction of the width between the bounds,
# at most 1.
BOUND_MARGIN = 1e-3


def rows_of_numbers(name: str, values, what: str, columns: tuple[int, ...] | None = None) -> np.ndarray:
    """Return an argument as an array of at least two rows of finite numbers.

    Args:
        name: of the argument.
        values: the argument.
        what: the rows in words, for errors.
        columns: the allowed numbers of columns; None allows any.

    Returns:
        The array.

    Raises:
        ValueError: another shape; numbers that are not finite.
    """
    rows = np.asarray(values, float)
    if rows.ndim != 2 or len(rows) < 2 or (columns and rows.shape[1] not in columns):
        raise ValueError(f"{name} must be at least two {what}, got shape {rows.shape}")
    if not np.all(np.isfinite(rows)):
        raise ValueError(f"{name} must be finite")
    return rows


def one_per_target(name: str, values, count: int) -> np.ndarray:
    """Return an argument as `count` finite numbers, one for each target."""
    numbers = np.asarray(values, float)
    if numbers.shape != (count,) or not np.all(np.isfinite(numbers)):
        raise ValueError(f"{name} must be {count} finite numbers, one for each target, got shape {numbers.shape}")
    return numbers


def positive_number(name: str, value) -> float:
    """Return an argument as a positive finite number."""
    if isinstance(value, str) or not (np.ndim(value) == 0 and np.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be positive, got {value!r}")
    return float(value)


def check_transmission_angle(degrees) -> None:
    """Raise ValueError if a transmission angle is not from 0 to below 90 degrees."""
    if not 0 <= degrees < 90:
        raise ValueError(f"transmission_angle must be from 0 to below 90 degrees, got {degrees!r}")


def spread_of(places: np.ndarray) -> float:
    """Return the root mean square distance of places (T, d) from their centre, the unit of many searches."""
    return float(np.sqrt(((places - places.mean(axis=0)) ** 2).sum(axis=1).mean()))


def box_corners(name: str, box, centre, spread) -> np.ndarray:
    """Return the corners (2, 2) of a box relative to a centre in units of a spread, the lower one first."""
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
    """Return the bounds of all numbers of a flat design: its entries one after the other in one vector.

    Args:
        name: of the argument.
        bounds: a mapping by the names of entries; a number for all entries except those in `unbounded`; or None.
        shapes: shapes of the entries by name.
        default: bound of the entries that are not bounded.
        unbounded: entries that a single number does not bound.

    Returns:
        The bounds in the order of the entries.

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
    """Return x − upper and lower − x, in a row, both plus a margin: positive where a penalty is due.

    The margin is `BOUND_MARGIN` times the width between the bounds, or at most times 1, unless given.
    """
    margin = BOUND_MARGIN * jnp.minimum(upper - lower, 1) if margin is None else margin
    return jnp.concatenate([x - upper + margin, lower + margin - x])


def times_including(moments) -> np.ndarray:
    """Return `CHECK_TIMES` times from 0 to 1 in order, the given moments among them; more if there are as many moments."""
    moments = np.asarray(moments, float)
    return np.sort(np.concatenate([np.linspace(0, 1, max(CHECK_TIMES - len(moments), 2)), moments]))


def follow_motion(mech: Mechanism, times: np.ndarray, guess) -> np.ndarray | None:
    """Return the poses (T, bodies, 3) of a planar mechanism over times, or None if its motion cannot be followed."""
    try:
        motion = kinematics(mech, jnp.asarray(times), guess)
    except ValueError:  # singular at the start
        return None
    if np.any(np.asarray(motion.status) != Status.CONVERGED):
        return None
    return np.asarray(motion.q).reshape(len(times), -1, 3)


def guess_of(mech: Mechanism, q) -> dict[str, tuple]:
    """Return a configuration q as a guess: the coordinates of each body and element by name."""
    slices = {**mech.layout.body_slices, **mech.layout.extra_slices}
    return {name: tuple(np.asarray(q)[part].tolist()) for name, part in slices.items()}


def point_positions(poses: np.ndarray, point) -> np.ndarray:
    """Return the places (T, 2) of a point of a body with poses (T, 3)."""
    c, s = np.cos(poses[:, 2]), np.sin(poses[:, 2])
    return poses[:, :2] + np.column_stack([c * point[0] - s * point[1], s * point[0] + c * point[1]])


def near_zero() -> float:
    """Return the largest error that counts as zero in numbers of size 1: √ε of the present precision."""
    return float(np.sqrt(jnp.finfo(jnp.result_type(float)).eps))


def wrap_angle(angle):
    """Return the same angle between −π and π, in radians."""
    return np.arctan2(np.sin(angle), np.cos(angle))


def is_grashof(lengths) -> bool:
    """Return True if a link of a four-bar turns fully: shortest plus longest are at most as long as the other two."""
    a, b, c, d = sorted(lengths)
    return bool(a + d <= b + c)


def smallest_angle_deg(cosines) -> float:
    """Return the smallest angle between links, in degrees, from cosines of such angles; 0 if links do not reach."""
    return float(np.rad2deg(np.arccos(min(np.abs(np.asarray(cosines)).max(), 1.0))))
