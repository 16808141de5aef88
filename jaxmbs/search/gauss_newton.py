"""The method of Gauss and Newton for rows whose derivatives are at hand, damped after Levenberg and Marquardt.

The rows come from a compiled program, for all starts at once; the small systems are solved here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

# Marquardt's damping: where it starts, its limits, and by how much it changes after a good and after a bad step.
START_DAMPING, MIN_DAMPING, MAX_DAMPING, BETTER, WORSE = 1e-3, 1e-15, 1e12, 0.2, 5.0
# Steps end where the sum of squares falls by less than this part, or where this many in a row do not lower it.
SETTLED, IN_VAIN = 1e-12, 8
# An unknown counts as if its rows were at least this part of the largest: one that does nothing would go anywhere.
MIN_SLOPE = 1e-6


class Rows(NamedTuple):
    """Rows (S, N) of S starts, their derivatives (S, N, p), and where all are numbers (S,)."""

    values: np.ndarray
    slopes: np.ndarray
    good: np.ndarray

    @property
    def cost(self) -> np.ndarray:
        """Sums of squares, infinite where they are not numbers."""
        with np.errstate(invalid="ignore", over="ignore"):
            found = np.einsum("sn,sn->s", self.values, self.values)
        return np.where(self.good & np.isfinite(found), found, np.inf)


def minimised(
    rows: Callable[[np.ndarray], Rows],
    u: np.ndarray,
    steps: int,
    bounds: tuple[np.ndarray, np.ndarray] = (np.array(-np.inf), np.array(np.inf)),
    longest: float = 0.5,
) -> tuple[np.ndarray, Rows, np.ndarray]:
    """Where sums of squares are least within bounds, from starts u (S, p), the rows there, and which have settled (S,).

    Unknowns on a bound that the slopes push outwards stay there; the others are solved for, and end at a bound at most.

    rows: u ↦ `Rows`. steps: at most. longest: no unknown changes by more in a step, or by more than that part of it.
    """
    u = np.array(u, float)
    low, high = (np.broadcast_to(bound, u.shape[1:]) for bound in bounds)
    damping, failed, settled = np.full(len(u), START_DAMPING), np.zeros(len(u), int), np.zeros(len(u), bool)
    here = rows(u)
    done = ~np.isfinite(here.cost)
    for _ in range(steps):
        if done.all():
            break
        trial = u.copy()
        for s in np.flatnonzero(~done):
            gradient = here.values[s] @ here.slopes[s]
            free = ~((u[s] <= low) & (gradient >= 0)) & ~((u[s] >= high) & (gradient <= 0))
            change = _change(here.values[s], here.slopes[s][:, free], damping[s])
            most = longest * np.maximum(1, np.abs(u[s, free]))
            trial[s, free] = np.clip(u[s, free] + np.clip(change, -most, most), low[free], high[free])
        there = rows(trial)
        better = ~done & (there.cost < here.cost)
        before = np.where(np.isfinite(here.cost) & (here.cost > 0), here.cost, 1)
        fall = np.where(better, 1 - np.where(better, there.cost, 0) / before, 0)
        here = _picked(better, there, here)
        u = np.where(better[:, None], trial, u)
        damping = np.clip(np.where(better, damping * BETTER, damping * WORSE), MIN_DAMPING, MAX_DAMPING)
        failed = np.where(better, 0, failed + 1)
        settled |= ~done & ((better & (fall < SETTLED)) | (failed >= IN_VAIN) | (here.cost == 0))
        done |= settled
    return u, here, settled


def _picked(better: np.ndarray, new: Rows, old: Rows) -> Rows:
    values = np.where(better[:, None], new.values, old.values)
    slopes = np.where(better[:, None, None], new.slopes, old.slopes)
    return Rows(values, slopes, np.where(better, new.good, old.good))


def _change(values: np.ndarray, slopes: np.ndarray, damping: float) -> np.ndarray:
    """The damped step: least squares of the rows and of the change in units of their slopes."""
    size = np.linalg.norm(slopes, axis=0)
    size = np.maximum(size, MIN_SLOPE * size.max(initial=0))
    size = np.where(size > 0, size, 1.0)
    matrix = np.vstack([slopes / size, np.sqrt(damping) * np.eye(len(size))])
    return -np.linalg.lstsq(matrix, np.concatenate([values, np.zeros(len(size))]), rcond=None)[0] / size
