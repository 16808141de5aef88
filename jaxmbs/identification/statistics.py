"""What least squares say about their estimates, and tests of what they leave over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaincc, ndtri

# A direction whose relative changes do less than this part of what the best known one does is undetermined.
NOTHING, NOTHING_SINGLE = 1e-8, 1e-4
# Lags of the test for correlation along a signal, at most.
LAGS = 10
# Residuals that are a smaller part of the noise than this are rounding.
NO_NOISE = 1e-4


class Estimate(NamedTuple):
    """Covariance (n, n), deviation (n,), directions that change nothing (·, n), and how many are determined."""

    covariance: np.ndarray
    deviation: np.ndarray
    undetermined: np.ndarray
    rank: int

    @classmethod
    def of(cls, slopes: np.ndarray, x: np.ndarray, unit: np.ndarray, can_change: np.ndarray) -> Estimate:
        """From slopes (N, n + …) of rows in units of their noise, by the parameters x (n,) in `unit` and by other unknowns.

        can_change: which parameters are free. Directions are relative to x, or to the unit where it is much less.
        """
        n = len(x)
        free = np.flatnonzero(can_change)
        scale = np.maximum(np.abs(x), 1e-3 * unit)[free]
        # What else is unknown goes first, so that what is left is about the parameters alone.
        triangle = np.asarray(
            np.linalg.qr(np.concatenate([slopes[:, n:], slopes[:, free] * (scale / unit[free])], axis=1), mode="r")
        )
        others = slopes.shape[1] - n
        _, values, axes = np.linalg.svd(triangle[others:, others:])
        values = np.concatenate([values, np.zeros(len(free) - len(values))])
        nothing = NOTHING if jnp.result_type(float) == np.float64 else NOTHING_SINGLE
        known = values > nothing * values.max(initial=0)
        covariance = np.zeros((n, n))
        weighted = axes[known] / values[known, None]
        covariance[np.ix_(free, free)] = scale[:, None] * (weighted.T @ weighted) * scale
        deviation = np.sqrt(np.diagonal(covariance))
        directions = np.zeros((int((~known).sum()), n))
        directions[:, free] = axes[~known]
        deviation = np.where(np.abs(directions).max(axis=0, initial=0) > 1e-3, np.inf, deviation)
        largest = np.take_along_axis(directions, np.abs(directions).argmax(axis=1)[:, None], axis=1)
        return cls(covariance, deviation, directions / largest, int(known.sum()))


class Tests(NamedTuple):
    """Probabilities that noise as it is assumed leaves over as much as was left over, or more; small ones speak against it.

    Attributes:
        size: that the sum of squares is as large as that (χ²), priors included; None where deviations were estimated.
        whiteness: by signal, that it is as correlated along time (Ljung and Box, 1978), the least of all records times
            their number.
        normality: by signal, that its skewness and kurtosis are as large (Jarque and Bera, 1980), likewise.

    Examples:
        >>> mbs.identification.Tests(0.4, {"bob.phi": 1e-9}, {"bob.phi": 0.3}).lines()[1]
        'what is left of bob.phi is correlated in time (p = 1e-09): the model lacks something'
    """

    size: float | None
    whiteness: dict[str, float]
    normality: dict[str, float]

    def lines(self) -> list[str]:
        """What they say, as text."""
        found = []
        if self.size is not None:
            says = "as large as the noise" if self.size > 0.01 else "more than the noise: the model lacks something"
            found.append(f"what is left over is {says} (p = {self.size:.2g})")
        for name, p in self.whiteness.items():
            if p < 0.01:
                found.append(f"what is left of {name} is correlated in time (p = {p:.2g}): the model lacks something")
        for name, p in self.normality.items():
            if p < 0.01:
                found.append(f"what is left of {name} is not normal (p = {p:.2g}): outliers?")
        return found


def tests(residuals: Sequence[dict], noise: dict[str, float], size: float | None) -> Tests:
    """Of the residuals of all records, which are not looked at where they are far less than the noise."""
    white: dict[str, float] = {}
    normal: dict[str, float] = {}
    for record in residuals:
        for name, x in record.items():
            if np.std(x) < NO_NOISE * noise[name]:
                continue
            white[name] = min(white.get(name, 1.0), _whiteness(x))
            normal[name] = min(normal.get(name, 1.0), _normality(x))
    number = len(residuals)
    of_all = lambda found: {name: min(1.0, number * found.get(name, 1.0)) for name in noise}
    return Tests(size, of_all(white), of_all(normal))


def quantile(confidence: float) -> float:
    """How many deviations an interval reaches to both sides."""
    return float(ndtri(0.5 + confidence / 2))


def chi_squared(value: float, freedom: int) -> float:
    """The probability of a larger sum of squares."""
    return float(gammaincc(freedom / 2, value / 2))


def _whiteness(x: np.ndarray) -> float:
    count = len(x)
    lags = min(LAGS, count // 5)
    centred = x - x.mean()
    square = float(centred @ centred)
    if lags == 0 or square == 0:
        return 1.0
    parts = [float(centred[k:] @ centred[:-k]) / square for k in range(1, lags + 1)]
    return chi_squared(count * (count + 2) * sum(r * r / (count - k) for k, r in enumerate(parts, 1)), lags)


def _normality(x: np.ndarray) -> float:
    centred = x - x.mean()
    variance = float(np.mean(centred**2))
    if variance == 0:
        return 1.0
    skew, kurtosis = (float(np.mean(centred**k)) / variance ** (k / 2) for k in (3, 4))
    return math.exp(-len(x) / 12 * (skew**2 + (kurtosis - 3) ** 2 / 4))
