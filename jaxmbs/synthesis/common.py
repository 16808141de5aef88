"""What the kinds of synthesis share: arguments by name, bounds, and following a mechanism that has been found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxmbs.analyses.kinematics import kinematics
from jaxmbs.numerics.results import Status
from jaxmbs.system.mechanism import Mechanism

# Times at which a mechanism is looked at: the same for all, so that one program does for all.
TIMES = 73
# How far inside bounds push, as a part of the width.
INSIDE = 1e-3


def table(name: str, given, what: str, columns: tuple[int, ...] | None = None) -> np.ndarray:
    """At least two rows of finite numbers.

    Raises:
        ValueError: another shape, described by `what`; not finite.
    """
    rows = np.asarray(given, float)
    if rows.ndim != 2 or len(rows) < 2 or (columns and rows.shape[1] not in columns):
        raise ValueError(f"{name} must be at least two {what}, got shape {rows.shape}")
    if not np.all(np.isfinite(rows)):
        raise ValueError(f"{name} must be finite")
    return rows


def one_each(name: str, given, count: int) -> np.ndarray:
    """A finite number for each target."""
    numbers = np.asarray(given, float)
    if numbers.shape != (count,) or not np.all(np.isfinite(numbers)):
        raise ValueError(f"{name} must be {count} finite numbers, one for each target, got shape {numbers.shape}")
    return numbers


def positive(name: str, value) -> float:
    """A finite number above zero."""
    if isinstance(value, str) or not (np.ndim(value) == 0 and np.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be positive, got {value!r}")
    return float(value)


def check_transmission_angle(degrees) -> None:
    """Refuse what is not an angle from 0 to below 90 degrees."""
    if not 0 <= degrees < 90:
        raise ValueError(f"transmission_angle must be from 0 to below 90 degrees, got {degrees!r}")


def spread_of(places: np.ndarray) -> float:
    """The root mean square distance of places (T, d) from their centre."""
    return float(np.sqrt(((places - places.mean(axis=0)) ** 2).sum(axis=1).mean()))


def limits(name: str, given: Mapping[str, Any] | float | None, shapes: Mapping[str, tuple], default, apart=()):
    """Bounds of the numbers of a flat design.

    Args:
        name: of the argument. given: a mapping by the names of entries; a number for all but those in `apart`; None.
        shapes: of the entries. default: what is not bounded has.

    Raises:
        ValueError: an unknown entry; a bound of a wrong shape, or no number.
    """
    if given is not None and not isinstance(given, Mapping):
        given = {entry: given for entry in shapes if entry not in apart}
    given = given or {}
    for entry in given:
        if entry not in shapes:
            raise ValueError(f"{name} bounds {entry!r}, which is none of {', '.join(shapes)}")
    parts = []
    for entry, shape in shapes.items():
        value = np.asarray(given.get(entry, default), float)
        if value.shape not in ((), shape) or np.any(np.isnan(value)):
            raise ValueError(f"{name}: a bound of {entry!r} is {int(np.prod(shape))} number(s), got {given[entry]!r}")
        parts.append(np.broadcast_to(value, shape).reshape(-1))
    return np.concatenate(parts)


def beyond(x, lower, upper, inside=None):
    """By how much numbers are above and below their bounds, which push from a little inside; negative elsewhere."""
    inside = INSIDE * jnp.minimum(upper - lower, 1) if inside is None else inside
    return jnp.concatenate([x - upper + inside, lower + inside - x])


def times_with(moments) -> np.ndarray:
    """`TIMES` times from 0 to 1, the given moments among them; more where there are as many moments."""
    moments = np.asarray(moments, float)
    return np.sort(np.concatenate([np.linspace(0, 1, max(TIMES - len(moments), 2)), moments]))


def followed(mech: Mechanism, times: np.ndarray, guess) -> np.ndarray | None:
    """The poses (T, bodies, 3) of a planar mechanism over times, or None where its motion cannot be followed."""
    try:
        motion = kinematics(mech, jnp.asarray(times), guess)
    except ValueError:  # singular where it begins
        return None
    if np.any(np.asarray(motion.status) != Status.CONVERGED):
        return None
    return np.asarray(motion.q).reshape(len(times), -1, 3)


def on_body(poses: np.ndarray, point) -> np.ndarray:
    """Where a point of a body is, for poses (T, 3)."""
    c, s = np.cos(poses[:, 2]), np.sin(poses[:, 2])
    return poses[:, :2] + np.column_stack([c * point[0] - s * point[1], s * point[0] + c * point[1]])


def near_zero() -> float:
    """What counts as nothing relative to what is of size 1: half of the digits of numbers."""
    return float(np.sqrt(jnp.finfo(jnp.result_type(float)).eps))


def wrapped(angle):
    """The same angle between −π and π."""
    return np.arctan2(np.sin(angle), np.cos(angle))


def is_grashof(lengths) -> bool:
    """Whether a link of a four-bar turns all round: the shortest and the longest are no longer than the other two."""
    a, b, c, d = sorted(lengths)
    return bool(a + d <= b + c)


def angle_of(cosines) -> float:
    """The least angle in degrees between links whose angles have these cosines; 0 where they do not reach."""
    return float(np.rad2deg(np.arccos(min(np.abs(np.asarray(cosines)).max(), 1.0))))
