"""Least squares within bounds, for residuals that a compiled program evaluates together with their Jacobian.

The method of Gauss and Newton with Marquardt's damping. The program evaluates all starts at once; the small systems are
solved in numpy. `least_squares` compiles the whole search instead, which pays off only for thousands of starts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from jaxmbs.numerics.arrays import where_rows

# Marquardt's damping before the first step of `gauss_newton`, relative to the squared norms of the Jacobian's columns.
START_DAMPING = 1e-3
# Lower limit on Marquardt's damping in `gauss_newton`.
MIN_DAMPING = 1e-15
# Upper limit on Marquardt's damping in `gauss_newton`.
MAX_DAMPING = 1e12
# Factor on Marquardt's damping in `gauss_newton` after a step that lowers the cost.
DAMPING_DECREASE = 0.2
# Factor on Marquardt's damping in `gauss_newton` after a step that does not lower the cost.
DAMPING_INCREASE = 5.0
# A start of `gauss_newton` has converged when a step lowers its cost by less than this fraction.
MIN_COST_DECREASE = 1e-12
# A start of `gauss_newton` has also converged when this many steps in a row do not lower its cost.
MAX_FAILED_STEPS = 8
# Largest change of an unknown in one step of `gauss_newton`; largest relative change if its size is above 1.
MAX_STEP = 0.5
# Lower limit on the norm of a Jacobian column, relative to the largest: it bounds the change of unknowns without effect.
MIN_COLUMN_NORM = 1e-6


class Residuals(NamedTuple):
    """Residuals of all starts with their Jacobians.

    Attributes:
        values: (S, N) residuals of S starts.
        jacobian: (S, N, p) their derivatives.
        finite: (S,) True where all of these are finite.
    """

    values: np.ndarray
    jacobian: np.ndarray
    finite: np.ndarray

    @property
    def cost(self) -> np.ndarray:
        """Sums of squares (S,), infinite where residuals are not finite."""
        with np.errstate(invalid="ignore", over="ignore"):
            cost = np.einsum("sn,sn->s", self.values, self.values)
        return np.where(self.finite & np.isfinite(cost), cost, np.inf)


def gauss_newton(
    evaluate: Callable[[np.ndarray], Residuals],
    u: np.ndarray,
    steps: int,
    bounds: tuple[np.ndarray, np.ndarray] = (np.array(-np.inf), np.array(np.inf)),
) -> tuple[np.ndarray, Residuals, np.ndarray]:
    """Minimise the sum of squares within bounds, from all starts at once.

    Unknowns on a bound that the gradient pushes outwards stay there; the others are solved for, and stop at their bounds.

    Args:
        evaluate: u (S, p) ↦ `Residuals`.
        u: (S, p) the starts.
        steps: largest number of steps.
        bounds: lower and upper bounds (p,).

    Returns:
        The unknowns (S, p), their residuals, and a mask (S,) of the starts that have converged.
    """
    u = np.array(u, float)
    low, high = (np.broadcast_to(bound, u.shape[1:]) for bound in bounds)
    damping, failed_steps = np.full(len(u), START_DAMPING), np.zeros(len(u), int)
    converged = np.zeros(len(u), bool)
    current = evaluate(u)
    done = ~np.isfinite(current.cost)
    for _ in range(steps):
        if done.all():
            break
        trial_u = u.copy()
        for s in np.flatnonzero(~done):
            gradient = current.values[s] @ current.jacobian[s]
            free = ~((u[s] <= low) & (gradient >= 0)) & ~((u[s] >= high) & (gradient <= 0))
            change = _damped_step(current.values[s], current.jacobian[s][:, free], damping[s])
            limit = MAX_STEP * np.maximum(1, np.abs(u[s, free]))
            trial_u[s, free] = np.clip(u[s, free] + np.clip(change, -limit, limit), low[free], high[free])
        trial = evaluate(trial_u)
        better = ~done & (trial.cost < current.cost)
        cost_before = np.where(np.isfinite(current.cost) & (current.cost > 0), current.cost, 1)
        decrease = np.where(better, 1 - np.where(better, trial.cost, 0) / cost_before, 0)
        u, current = where_rows(better, (trial_u, trial), (u, current))
        damping = np.where(better, damping * DAMPING_DECREASE, damping * DAMPING_INCREASE)
        damping = np.clip(damping, MIN_DAMPING, MAX_DAMPING)
        failed_steps = np.where(better, 0, failed_steps + 1)
        no_progress = (better & (decrease < MIN_COST_DECREASE)) | (failed_steps >= MAX_FAILED_STEPS)
        converged |= ~done & (no_progress | (current.cost == 0))
        done |= converged
    return u, current, converged


def _damped_step(values: np.ndarray, jacobian: np.ndarray, damping: float) -> np.ndarray:
    """Return the change of the unknowns that minimises ‖r + J d‖² + damping ‖D d‖², D being the norms of J's columns."""
    size = np.linalg.norm(jacobian, axis=0)
    size = np.maximum(size, MIN_COLUMN_NORM * size.max(initial=0))
    size = np.where(size > 0, size, 1.0)
    matrix = np.vstack([jacobian / size, np.sqrt(damping) * np.eye(len(size))])
    return -np.linalg.lstsq(matrix, np.concatenate([values, np.zeros(len(size))]), rcond=None)[0] / size
