"""What the kinds of synthesis share: ranked results, and following a mechanism that has been found."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import jax.numpy as jnp
import numpy as np

from jaxmbs.analyses.kinematics import kinematics
from jaxmbs.numerics.results import Status
from jaxmbs.system.mechanism import Mechanism

S = TypeVar("S")
# Times at which a mechanism is looked at: the same for all, so that one program does for all.
TIMES = 73
# Keeps square roots and quotients of lengths squared from having infinite slopes; no part of a length squared otherwise.
TINY = 1e-24


@dataclasses.dataclass(frozen=True)
class Ranked(Generic[S]):
    """What a search has found.

    Attributes:
        all: solutions, the best one first. Those whose mechanism does what is asked for come before others.

    Examples:
        >>> found = mbs.synthesis.minimise(lambda b: (b - 3) ** 2, 0.0, starts=4, steps=(50, 20))
        >>> found.best is found.all[0]
        True
    """

    all: list[S]

    @property
    def best(self) -> S:
        """The first of all."""
        return self.all[0]


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


def near_zero() -> float:
    """What counts as nothing relative to what is of size 1: half of the digits of numbers."""
    return float(np.sqrt(jnp.finfo(jnp.result_type(float)).eps))


def wrapped(angle):
    """The same angle between −π and π."""
    return np.arctan2(np.sin(angle), np.cos(angle))


def in_order(angles) -> bool:
    """Whether angles go one way, by less than a turn in all."""
    steps = np.diff(angles)
    return bool((np.all(steps > 0) or np.all(steps < 0)) and abs(angles[-1] - angles[0]) < 2 * np.pi)


def finite(cost) -> np.ndarray:
    """Costs, of which those that are no number count as infinite."""
    cost = np.asarray(cost)
    return np.where(np.isfinite(cost), cost, np.inf)


def limits(
    name: str, given: Mapping[str, Any] | float | None, entries: tuple[str, ...], default: np.ndarray
) -> np.ndarray:
    """Bounds of the entries in their order: a mapping by name, a number for all of them, or None."""
    if given is not None and not isinstance(given, Mapping):
        given = dict.fromkeys(entries, given)
    given = given or {}
    for key in given:
        if key not in entries:
            raise ValueError(f"{name} bounds {key!r}, which is none of {', '.join(entries)}")
    out = np.array([given.get(entry, value) for entry, value in zip(entries, default, strict=True)], float)
    if out.shape != default.shape or np.any(np.isnan(out)):
        raise ValueError(f"{name} must hold numbers, got {given!r}")
    return out


def count_of(name: str, value) -> int:
    """A number of things, at least one."""
    if isinstance(value, bool) or int(value) != value or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}")
    return int(value)
