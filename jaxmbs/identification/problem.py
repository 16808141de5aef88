"""The least squares of an identification: residuals of all records and priors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.identification.segmented_record import SegmentedRecord
from jaxmbs.search import SAME_DESIGN, Residuals, SearchOptions, Variables, gauss_newton

# Weights of the gaps between segments in successive descents. With a weight w, a gap as large as the state typically is
# counts like an error of w standard deviations in a signal.
GAP_WEIGHTS = tuple(10.0**k for k in range(8))
# Lower limit on an estimated standard deviation, relative to the largest absolute value of the signal.
MIN_RELATIVE_NOISE = 1e-12


class IdentificationProblem:
    """Residuals of all records and priors.

    The unknowns are the parameters in units of `scale`, then the initial states of later segments.

    Args:
        variables: the parameters and their bounds.
        records: the records with the model of their motions.
        priors: (index of the parameter, mean, standard deviation).

    Attributes:
        n: number of parameters.
        scale: (n,) units in which the parameters are unknowns: their first guesses, or typical sizes where these are 0.
    """

    def __init__(self, variables: Variables, records: list[SegmentedRecord], priors: list[tuple[int, float, float]]):
        self.variables, self.records, self.priors = variables, records, priors
        self.n = len(variables.start)
        self.scale = np.where(variables.start != 0, np.abs(variables.start), variables.size)

    @property
    def unknowns(self) -> int:
        """Number of all unknowns."""
        return self.n + sum(record.unknowns for record in self.records)

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds of all unknowns."""
        unbounded = np.full(self.unknowns - self.n, np.inf)
        low, high = self.variables.lower / self.scale, self.variables.upper / self.scale
        return np.concatenate([low, -unbounded]), np.concatenate([high, unbounded])

    def starts(self, options: SearchOptions) -> np.ndarray:
        """Return scaled parameters (S, n) of the guess, which comes first, and of random starts."""
        free_numbers = self.variables.starts(options.rng, options.starts)
        return np.asarray(jax.vmap(self.variables.entries)(free_numbers)) / self.scale

    def parameters(self, u: np.ndarray) -> Any:
        """Return a tree like the guess, with floats in place of its single numbers, from the unknowns u of one start."""
        tree = self.variables.unravel(jnp.asarray(u[: self.n] * self.scale))
        return jax.tree.map(lambda x: float(x) if x.ndim == 0 else np.asarray(x), tree)

    def other_minima(self, u: np.ndarray, cost: np.ndarray, order: np.ndarray) -> list[tuple[Any, float]]:
        """Return parameters and costs of the local minima that differ from the first start in `order`."""
        distinct, minima = [u[order[0], : self.n]], []
        for k in order[1:]:
            scaled = u[k, : self.n]
            if min(np.abs(scaled - other).max() for other in distinct) > SAME_DESIGN:
                distinct.append(scaled)
                minima.append((self.parameters(u[k]), float(cost[k])))
        return minima

    def find_references(self, u: np.ndarray, noise: dict[str, float]) -> None:
        """Set the reference states of all segments for scaled parameters u (S, n)."""
        for record in self.records:
            record.find_references(u * self.scale, _deviations(record, noise))

    def keep_starts(self, rows: np.ndarray) -> None:
        """Drop the reference states of all starts except those with the indices `rows`."""
        for record in self.records:
            record.keep_starts(rows)

    def descend(
        self, u: np.ndarray, noise, steps: int, weights: Sequence[float] = GAP_WEIGHTS
    ) -> tuple[np.ndarray, Residuals, np.ndarray]:
        """Minimise the sum of squares under increasing weights of the gaps between segments.

        Args:
            u: (S, n) or (S, unknowns) the starts.
            noise: deviations of the signals by name.
            steps: largest number of steps for each weight.
            weights: of the gaps; without segments only the last one is used.

        Returns:
            The unknowns (S, unknowns), their residuals, and a mask of the starts that have converged.
        """
        u = np.concatenate([u, np.zeros((len(u), self.unknowns - u.shape[1]))], axis=1)
        for weight in weights if self.unknowns > self.n else weights[-1:]:
            at = self.n
            for record in self.records:
                record.recentre(u[:, : self.n] * self.scale, u[:, at : at + record.unknowns])
                at += record.unknowns
            u[:, self.n :] = 0
            evaluate = lambda u, weight=weight: self.residuals(u, noise, weight)
            u, residuals, converged = gauss_newton(evaluate, u, steps, self.bounds)
        return u, residuals, converged

    def residuals(self, u: np.ndarray, noise, weight: float) -> Residuals:
        """Return the residuals of all records, then those of the priors, with their derivatives by all unknowns.

        `u` (S, unknowns) are the unknowns of S starts, `weight` is that of gaps between segments.
        """
        x = u[:, : self.n] * self.scale
        values, jacobians, finite, at = [], [], np.ones(len(u), bool), self.n
        for record in self.records:
            own = record.residuals(x, u[:, at : at + record.unknowns], _deviations(record, noise), weight)
            wide = np.zeros((*own.jacobian.shape[:2], u.shape[1]))
            wide[..., : self.n] = own.jacobian[..., : self.n]
            wide[..., at : at + record.unknowns] = own.jacobian[..., self.n :]
            values.append(own.values)
            jacobians.append(wide)
            finite &= own.finite
            at += record.unknowns
        for number, mean, deviation in self.priors:
            row = np.zeros((len(u), 1, u.shape[1]))
            row[:, 0, number] = 1 / deviation
            values.append((x[:, number : number + 1] - mean) / deviation)
            jacobians.append(row)
        jacobian = np.concatenate(jacobians, axis=1)
        jacobian[..., : self.n] *= self.scale
        return Residuals(np.concatenate(values, axis=1), jacobian, finite)

    def _values_of_records(self, residuals: Residuals) -> list[np.ndarray]:
        """Return the residuals (row_count,) of each record for the first start."""
        ends = np.cumsum([record.row_count for record in self.records])
        return np.split(residuals.values[0], ends)[: len(self.records)]

    def signals(self, residuals: Residuals, noise) -> list[np.ndarray]:
        """Return the model's signals (T, s) of each record for the first start."""
        return [
            record.predicted_signals(values, _deviations(record, noise))
            for record, values in zip(self.records, self._values_of_records(residuals), strict=True)
        ]

    def estimate_noise(self, residuals: Residuals, noise: dict[str, float]) -> dict[str, float]:
        """Return the standard deviation of each signal's error at the first start, corrected for the fitted parameters.

        `noise` are the standard deviations with which the residuals were computed.
        """
        squares, counts = dict.fromkeys(noise, 0.0), dict.fromkeys(noise, 0)
        for record, predicted in zip(self.records, self.signals(residuals, noise), strict=True):
            for k, name in enumerate(record.model.names):
                squares[name] += float(np.sum((predicted[:, k] - record.record.values[:, k]) ** 2))
                counts[name] += len(predicted)
        total = sum(counts.values())
        degrees_of_freedom = max(total - self.n, 1) / total
        largest = {
            name: max(
                np.abs(record.record.signals[name]).max() or 1.0
                for record in self.records
                if name in record.record.signals
            )
            for name in noise
        }
        return {
            name: max(
                math.sqrt(squares[name] / (counts[name] * degrees_of_freedom)), MIN_RELATIVE_NOISE * largest[name]
            )
            for name in noise
        }

    @property
    def failure(self) -> str:
        """The reason why the first start that could not be simulated failed."""
        failures = [f"record {k}: {record.failure}" for k, record in enumerate(self.records) if record.failure]
        return failures[0] if failures else "a prior"

    def largest_gap(self, residuals: Residuals) -> float:
        """Return the largest relative gap between segments from the first start's residuals with the last weight."""
        values = self._values_of_records(residuals)
        gaps = [record.largest_gap(own) for record, own in zip(self.records, values, strict=True)]
        return max(0.0, *gaps) / GAP_WEIGHTS[-1]


def _deviations(record: SegmentedRecord, noise: dict[str, float]) -> np.ndarray:
    """Return the standard deviations (s,) of a record's signals, in the order of the signals."""
    return np.array([noise[name] for name in record.model.names])
