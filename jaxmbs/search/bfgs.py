"""The method of Broyden, Fletcher, Goldfarb and Shanno for many starts at once, whose values come as one batch.

Designs have few unknowns, so the whole inverse Hessian is kept. All that the method needs of the objective is a batch of
values and gradients, compiled once for the whole search; solvers with the objective inside their line search compile it
again, which takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from jaxmbs.numerics.arrays import where_rows

# A step is accepted if it lowers the value by at least this fraction of the linear prediction (Armijo's condition).
# Nocedal & Wright, (3.6a).
SUFFICIENT_DECREASE = 1e-4
# Largest number of step lengths tried in a line search, each half of the one before. If all fail, the inverse Hessian
# of the start is forgotten; if it was forgotten before, the start is `STUCK`.
MAX_TRIAL_LENGTHS = 16
# Values of the objective that differ by at most this many rounding errors count as equal in the line search.
EQUAL_VALUE_ROUNDINGS = 10
# A step s with the change y of the gradient updates the inverse Hessian if yᵀs exceeds this fraction of ‖y‖ ‖s‖.
MIN_CURVATURE = 1e-10
# Largest change of an unknown in one step of BFGS, in free numbers (see `Variables`).
MAX_STEP = 0.5
# Flag of a start whose inverse Hessian has not been updated yet: H = I.
FRESH = 0
# Flag of a start whose inverse Hessian has been updated at least once.
KNOWN = 1
# Flag of a start whose search has ended: not even the steepest descent lowers the value by more than rounding.
STUCK = 2


class EvaluatedStarts(NamedTuple):
    """Unknowns with their values and gradients, one row per start.

    Where the objective or its gradient is not finite, the value is infinite and the gradient zero.
    """

    u: Float[np.ndarray, "starts n"]
    value: Float[np.ndarray, " starts"]
    gradient: Float[np.ndarray, "starts n"]


def initial_memory(u: Float[np.ndarray, "starts n"]) -> Float[np.ndarray, "starts k"]:
    """Return the memory (starts, n² + 1) before the first step: for each start H = I and the flag `FRESH`."""
    count, n = u.shape
    return _pack_memory(np.broadcast_to(np.eye(n, dtype=u.dtype), (count, n, n)), np.full(count, FRESH))


def step(
    evaluate: Callable[[np.ndarray], EvaluatedStarts], current: EvaluatedStarts, memory: Float[np.ndarray, "starts k"]
) -> tuple[EvaluatedStarts, np.ndarray]:
    """Take a step −t H g from each start; t is halved until the value falls enough.

    With s and y the changes of u and of the gradient g, ρ = 1 / yᵀs, and V = I − ρ y sᵀ, H becomes Vᵀ H V + ρ s sᵀ where
    yᵀs > 0; before the first time it is (yᵀs / yᵀy) I. Nocedal & Wright, Numerical Optimization, 2006, (6.17) and (6.20).

    Args:
        evaluate: u (starts, n) ↦ `EvaluatedStarts`.
        current: where the starts are.
        memory: as of `initial_memory` or the step before.

    Returns:
        The starts after the step, and the memory for the next one.
    """
    n = current.u.shape[1]
    inverse, known = memory[:, :-1].reshape(-1, n, n), memory[:, -1].astype(int)
    direction = -np.einsum("kij,kj->ki", inverse, current.gradient)
    uphill = np.einsum("ki,ki->k", direction, current.gradient) > 0
    direction = np.where(uphill[:, None], -current.gradient, direction)
    largest = np.abs(direction).max(axis=1, initial=0)
    direction = direction * np.minimum(1, MAX_STEP / np.maximum(largest, MAX_STEP))[:, None]
    moving = (known != STUCK) & (largest > 0)
    after, success = _line_search(evaluate, current, direction, moving)
    inverse, updated = _updated_inverse(inverse, known, after.u - current.u, after.gradient - current.gradient)
    # A start that finds no lower value tries the steepest descent next; if that fails too, its search has ended.
    known = np.where(updated, KNOWN, known)
    failed = moving & ~success
    inverse = np.where((failed | uphill)[:, None, None], np.eye(n, dtype=inverse.dtype), inverse)
    known = np.where(failed, np.where(known == KNOWN, FRESH, STUCK), np.where(uphill, FRESH, known))
    return after, _pack_memory(inverse, known)


def _pack_memory(inverse: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return inverse Hessians (starts, n, n) and flags (starts,) in one array with a row per start."""
    return np.concatenate([inverse.reshape(len(known), -1), known[:, None].astype(inverse.dtype)], axis=1)


def _line_search(
    evaluate: Callable[[np.ndarray], EvaluatedStarts],
    current: EvaluatedStarts,
    direction: np.ndarray,
    moving: np.ndarray,
) -> tuple[EvaluatedStarts, Bool[np.ndarray, " starts"]]:
    """Return points along the direction where the value has fallen enough, and a mask of the starts that found one."""
    finite = np.where(np.isfinite(current.value), current.value, 0)
    rounding = EQUAL_VALUE_ROUNDINGS * np.finfo(current.u.dtype).eps * np.abs(finite)
    slope = np.einsum("ki,ki->k", direction, current.gradient)
    after, done, length = current, ~moving, np.ones_like(current.value)
    for _ in range(MAX_TRIAL_LENGTHS):
        if done.all():
            break
        trial = evaluate(np.where(done[:, None], after.u, current.u + length[:, None] * direction))
        falls = ~done & (trial.value <= finite + SUFFICIENT_DECREASE * length * slope + rounding)
        after = where_rows(falls, trial, after)
        done, length = done | falls, length / 2
    return after, done & moving


def _updated_inverse(
    inverse: np.ndarray, known: np.ndarray, s: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the inverse Hessians (starts, n, n) after steps s with gradient changes y, and a mask of those updated."""
    identity = np.eye(s.shape[1], dtype=inverse.dtype)
    curvature, ss, yy = (np.einsum("ki,ki->k", *pair) for pair in ((s, y), (s, s), (y, y)))
    # Squares of smaller numbers underflow.
    smallest = np.sqrt(np.finfo(s.dtype).tiny)
    usable = curvature > np.maximum(MIN_CURVATURE * np.sqrt(ss * yy), smallest)
    rho, size = 1 / np.where(usable, curvature, 1), curvature / np.where(usable, yy, 1)
    first = (known == FRESH) & usable
    inverse = np.where(first[:, None, None], size[:, None, None] * identity, inverse)
    v = identity - rho[:, None, None] * y[:, :, None] * s[:, None, :]
    new = np.swapaxes(v, 1, 2) @ inverse @ v + rho[:, None, None] * s[:, :, None] * s[:, None, :]
    return np.where(usable[:, None, None], new, inverse), usable
