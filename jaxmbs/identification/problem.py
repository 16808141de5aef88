"""All rows of an identification, and the way down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.identification.rows import Run
from jaxmbs.search.bounds import Variables
from jaxmbs.search.gauss_newton import Rows, minimised
from jaxmbs.search.multistart import Search

# Weights of the gaps between segments, one after the other; in units of the deviations of signals.
WEIGHTS = tuple(10.0**k for k in range(8))


class Problem:
    """Rows of all records and of priors, by the parameters in units of their sizes and the states where segments begin."""

    def __init__(self, variables: Variables, runs: list[Run], prior: list[tuple[int, float, float]]):
        self.variables, self.runs, self.prior = variables, runs, prior
        self.n = len(variables.start)
        self.scale = np.where(variables.start != 0, np.abs(variables.start), variables.size)
        self.unknowns = self.n + sum(run.unknowns for run in runs)

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Of all unknowns."""
        more = np.full(self.unknowns - self.n, np.inf)
        low, high = self.variables.lower / self.scale, self.variables.upper / self.scale
        return np.concatenate([low, -more]), np.concatenate([high, more])

    def starts(self, search: Search) -> np.ndarray:
        """The guess and random ones."""
        free = self.variables.starts(search.rng, search.starts)
        return np.asarray(jax.vmap(self.variables.entries)(free)) / self.scale

    def parameters(self, u: np.ndarray) -> Any:
        """A tree like the guess, with single numbers as such where it has them so."""
        tree = self.variables.unravel(jnp.asarray(u[: self.n] * self.scale))
        return jax.tree.map(lambda x: float(x) if x.ndim == 0 else np.asarray(x), tree)

    def others(self, u: np.ndarray, cost: np.ndarray, order: np.ndarray) -> list[tuple[Any, float]]:
        """Other local minima than the first of an order."""
        marks, found = [u[order[0], : self.n]], []
        for k in order[1:]:
            mark = u[k, : self.n]
            if min(np.abs(mark - other).max() for other in marks) > 1e-3:
                marks.append(mark)
                found.append((self.parameters(u[k]), float(cost[k])))
        return found

    def track(self, u: np.ndarray, noise: dict[str, float]) -> None:
        """Find where segments begin."""
        for run in self.runs:
            run.track(u * self.scale, _of(run, noise))
        self.unknowns = self.n + sum(run.unknowns for run in self.runs)

    def of(self, keep: np.ndarray) -> None:
        """Go on with some of the starts."""
        for run in self.runs:
            run.of(keep)

    def descended(
        self, u: np.ndarray, noise, steps: int, weights: Sequence[float] = WEIGHTS
    ) -> tuple[np.ndarray, Rows, np.ndarray]:
        """Where the rows are least, with gaps that count more and more, and which starts have settled there."""
        u = np.concatenate([u, np.zeros((len(u), self.unknowns - u.shape[1]))], axis=1)
        for weight in weights if self.unknowns > self.n else weights[-1:]:
            self._recentre(u)
            u[:, self.n :] = 0
            u, rows, settled = minimised(lambda u, weight=weight: self.rows(u, noise, weight), u, steps, self.bounds)
        return u, rows, settled

    def _recentre(self, u: np.ndarray) -> None:
        at = self.n
        for run in self.runs:
            run.recentre(u[:, : self.n] * self.scale, u[:, at : at + run.unknowns])
            at += run.unknowns

    def rows(self, u: np.ndarray, noise, weight: float) -> Rows:
        """Rows with their slopes by all unknowns; weight: of gaps between segments."""
        x = u[:, : self.n] * self.scale
        values, slopes, good, at = [], [], np.ones(len(u), bool), self.n
        for run in self.runs:
            rows = run.rows(x, u[:, at : at + run.unknowns], _of(run, noise), weight)
            wide = np.zeros((*rows.slopes.shape[:2], u.shape[1]))
            wide[..., : self.n] = rows.slopes[..., : self.n]
            wide[..., at : at + run.unknowns] = rows.slopes[..., self.n :]
            values.append(rows.values)
            slopes.append(wide)
            good &= rows.good
            at += run.unknowns
        for place, mean, deviation in self.prior:
            row = np.zeros((len(u), 1, u.shape[1]))
            row[:, 0, place] = 1 / deviation
            values.append((x[:, place : place + 1] - mean) / deviation)
            slopes.append(row)
        by = np.concatenate(slopes, axis=1)
        by[..., : self.n] *= self.scale
        return Rows(np.concatenate(values, axis=1), by, good)

    def signals(self, rows: Rows, noise) -> list[np.ndarray]:
        """What the model gives for each record, (T, s), from the rows of one start."""
        found, at = [], 0
        for run in self.runs:
            count = run.count * (run.length + 1) * len(run.model.names) + run.unknowns
            own = Rows(rows.values[:, at : at + count], rows.slopes, rows.good)
            found.append(run.predicted(own, _of(run, noise)))
            at += count
        return found

    def noise(self, rows: Rows, noise: dict[str, float]) -> dict[str, float]:
        """Deviations of the signals as what is left over has them."""
        squares, counts = dict.fromkeys(noise, 0.0), dict.fromkeys(noise, 0)
        for run, given in zip(self.runs, self.signals(rows, noise), strict=True):
            for k, name in enumerate(run.model.names):
                squares[name] += float(np.sum((given[:, k] - run.record.values[:, k]) ** 2))
                counts[name] += len(given)
        total = sum(counts.values())
        left = max(total - self.n, 1) / total
        least = {name: 1e-12 * max(np.abs(run.record.signals[name]).max() or 1.0 for run in self.runs
                                   if name in run.record.signals) for name in noise}  # fmt: skip
        return {name: max(math.sqrt(squares[name] / (counts[name] * left)), least[name]) for name in noise}

    @property
    def why(self) -> str:
        """What was wrong with the first start that could not be simulated."""
        found = [f"record {k}: {run.why}" for k, run in enumerate(self.runs) if run.why]
        return found[0] if found else "a prior"

    def gap(self, rows: Rows) -> float:
        """The largest gap between segments, from the rows of one start with the last weight."""
        found, at = [0.0], 0
        for run in self.runs:
            block, width = (run.length + 1) * len(run.model.names), 2 * run.freedom
            own = rows.values[0, at : at + run.count * block + run.unknowns]
            found += [np.abs(own[(k + 2) * block + k * width :][:width]).max(initial=0) for k in range(run.count - 1)]
            at += len(own)
        return float(max(found)) / WEIGHTS[-1]


def _of(run: Run, noise: dict[str, float]) -> np.ndarray:
    return np.array([noise[name] for name in run.model.names])
