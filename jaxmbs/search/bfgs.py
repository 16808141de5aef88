"""Broyden, Fletcher, Goldfarb and Shanno's method for many starts at once, whose values come as one batch.

optax has L-BFGS, which is meant for many unknowns. A design has few, so the whole matrix can be kept; and optax's line
search has the objective in it, which takes seconds to compile once more. Here a batch of values and slopes, compiled once
for the whole search, is all that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

# Armijo's condition: a step must lower the value by this part of what the slope promises. Nocedal & Wright, (3.6a).
ENOUGH = 1e-4
# Lengths of a step that are tried, each half of the one before.
LENGTHS = 16
# Values that differ by this many roundings count as equal.
ROUNDINGS = 10
# Curvature along a step counts if it is more than this part of what it could be.
MIN_CURVATURE = 1e-10
# No unknown changes by more in a step.
MAX_CHANGE = 0.5
# What is known of the second derivatives: nothing yet; something; or there is no way down that rounding would let us see.
FRESH, KNOWN, STUCK = 0, 1, 2


class Point(NamedTuple):
    """Places with values and slopes, one row each; where these are not finite, the value is infinite and the slope zero."""

    u: Float[np.ndarray, "starts n"]
    value: Float[np.ndarray, " starts"]
    slope: Float[np.ndarray, "starts n"]


def begin(u: Float[np.ndarray, "starts n"]) -> Float[np.ndarray, "starts k"]:
    """What the method remembers before the first step: H = I of each start, and how much is known."""
    count, n = u.shape
    return _remember(np.broadcast_to(np.eye(n, dtype=u.dtype), (count, n, n)), np.full(count, FRESH))


def step(evaluate: Callable, point: Point, memory: Float[np.ndarray, "starts k"]) -> tuple[Point, np.ndarray]:
    """The places after a step −t H g, and what is remembered of it; t is halved until the value falls enough.

    With s and y the changes of u and of the slope g, ρ = 1 / yᵀs, and V = I − ρ y sᵀ, H becomes Vᵀ H V + ρ s sᵀ where
    yᵀs > 0; before the first time it is (yᵀs / yᵀy) I. Nocedal & Wright, Numerical Optimization, 2006, (6.17) and (6.20).

    evaluate: u (starts, n) ↦ Point.
    """
    n = point.u.shape[1]
    inverse, known = memory[:, :-1].reshape(-1, n, n), memory[:, -1].astype(int)
    direction = -np.einsum("kij,kj->ki", inverse, point.slope)
    uphill = np.einsum("ki,ki->k", direction, point.slope) > 0
    direction = np.where(uphill[:, None], -point.slope, direction)
    largest = np.abs(direction).max(axis=1, initial=0)
    direction = direction * np.minimum(1, MAX_CHANGE / np.maximum(largest, MAX_CHANGE))[:, None]
    moving = (known != STUCK) & (largest > 0)
    after, found = _searched(evaluate, point, direction, moving)
    inverse, learnt = _learnt(inverse, known, after.u - point.u, after.slope - point.slope)
    # Where not even the way of steepest descent leads down the search has ended; elsewhere that is what is tried next.
    known = np.where(learnt, KNOWN, known)
    lost = moving & ~found
    inverse = np.where((lost | uphill)[:, None, None], np.eye(n, dtype=inverse.dtype), inverse)
    known = np.where(lost, np.where(known == KNOWN, FRESH, STUCK), np.where(uphill, FRESH, known))
    return after, _remember(inverse, known)


def _remember(inverse, known) -> np.ndarray:
    return np.concatenate([inverse.reshape(len(known), -1), known[:, None].astype(inverse.dtype)], axis=1)


def _searched(evaluate, point: Point, direction, moving) -> tuple[Point, Bool[np.ndarray, " starts"]]:
    """Places along a direction where the value has fallen enough, and where there are such."""
    finite = np.where(np.isfinite(point.value), point.value, 0)
    rounding = ROUNDINGS * np.finfo(point.u.dtype).eps * np.abs(finite)
    promised = np.einsum("ki,ki->k", direction, point.slope)
    after, found, part = point, ~moving, np.ones_like(point.value)
    for _ in range(LENGTHS):
        if found.all():
            break
        trial = evaluate(np.where(found[:, None], after.u, point.u + part[:, None] * direction))
        falls = ~found & (trial.value <= finite + ENOUGH * part * promised + rounding)
        after = Point(
            *(np.where(falls.reshape(-1, *[1] * (x.ndim - 1)), x, y) for x, y in zip(trial, after, strict=True))
        )
        found, part = found | falls, part / 2
    return after, found & moving


def _learnt(inverse, known, s, y) -> tuple[np.ndarray, np.ndarray]:
    """H with what a step has shown, and where it has shown something."""
    identity = np.eye(s.shape[1], dtype=inverse.dtype)
    curvature, ss, yy = (np.einsum("ki,ki->k", *pair) for pair in ((s, y), (s, s), (y, y)))
    # Squares of what is smaller are nothing.
    least = np.sqrt(np.finfo(s.dtype).tiny)
    of_use = curvature > np.maximum(MIN_CURVATURE * np.sqrt(ss * yy), least)
    rho, size = 1 / np.where(of_use, curvature, 1), curvature / np.where(of_use, yy, 1)
    first = (known == FRESH) & of_use
    inverse = np.where(first[:, None, None], size[:, None, None] * identity, inverse)
    v = identity - rho[:, None, None] * y[:, :, None] * s[:, None, :]
    new = np.swapaxes(v, 1, 2) @ inverse @ v + rho[:, None, None] * s[:, :, None] * s[:, None, :]
    return np.where(of_use[:, None, None], new, inverse), of_use
