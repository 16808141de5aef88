"""Covariance of least-squares estimates, and tests of the residuals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaincc, ndtri

# A direction of the parameters is undetermined if its singular value, relative to the largest, is below this in double
# precision.
MIN_SINGULAR_VALUE = 1e-8
# A direction of the parameters is undetermined if its singular value, relative to the largest, is below this in single
# precision.
MIN_SINGULAR_VALUE_SINGLE = 1e-4
# Parameters below this fraction of their unit are scaled by that fraction of the unit, not by their own value, when the
# covariance is computed.
MIN_RELATIVE_SIZE = 1e-3
# The deviation of a parameter is infinite if its component in an undetermined direction, a unit vector, exceeds this.
MAX_KNOWN_COMPONENT = 1e-3
# Largest number of lags in the Ljung–Box test for correlation in time along a signal.
MAX_LAGS = 10
# A signal is not tested if the standard deviation of its residuals is below this fraction of the noise: they are
# rounding errors.
MIN_NOISE_FRACTION = 1e-4
# A test of the residuals is reported as failed if its probability is below this.
SIGNIFICANCE = 0.01


class Estimate(NamedTuple):
    """Covariance of estimated parameters.

    Attributes:
        covariance: (n, n), in which undetermined directions count as known.
        deviation: (n,) standard deviations, infinite where undetermined.
        undetermined: (k, n) directions of relative changes that no residual shows; the largest component of each is 1.
        rank: number of determined directions.
    """

    covariance: np.ndarray
    deviation: np.ndarray
    undetermined: np.ndarray
    rank: int

    @classmethod
    def from_jacobian(cls, jacobian: np.ndarray, x: np.ndarray, unit: np.ndarray, is_free: np.ndarray) -> Estimate:
        """Compute the covariance at the estimate x.

        Args:
            jacobian: (N, n + …) derivatives of residuals in units of their noise, by parameters in `unit`, then by other
                unknowns.
            x: (n,) the parameters.
            unit: (n,) their units.
            is_free: (n,) mask of the parameters that may change.

        Returns:
            The covariance, with directions relative to x, or to the unit where x is much smaller.
        """
        n = len(x)
        free = np.flatnonzero(is_free)
        scale = np.maximum(np.abs(x), MIN_RELATIVE_SIZE * unit)[free]
        # With the other unknowns first, the last block of the triangle depends on the parameters alone.
        columns = np.concatenate([jacobian[:, n:], jacobian[:, free] * (scale / unit[free])], axis=1)
        triangle = np.asarray(np.linalg.qr(columns, mode="r"))
        others = jacobian.shape[1] - n
        _, values, axes = np.linalg.svd(triangle[others:, others:])
        values = np.concatenate([values, np.zeros(len(free) - len(values))])
        is_double = jnp.result_type(float) == np.float64
        limit = MIN_SINGULAR_VALUE if is_double else MIN_SINGULAR_VALUE_SINGLE
        known = values > limit * values.max(initial=0)
        covariance = np.zeros((n, n))
        weighted = axes[known] / values[known, None]
        covariance[np.ix_(free, free)] = scale[:, None] * (weighted.T @ weighted) * scale
        deviation = np.sqrt(np.diagonal(covariance))
        directions = np.zeros((int((~known).sum()), n))
        directions[:, free] = axes[~known]
        deviation = np.where(np.abs(directions).max(axis=0, initial=0) > MAX_KNOWN_COMPONENT, np.inf, deviation)
        largest = np.take_along_axis(directions, np.abs(directions).argmax(axis=1)[:, None], axis=1)
        return cls(covariance, deviation, directions / largest, int(known.sum()))


class Tests(NamedTuple):
    """Probabilities of residuals at least as extreme if the assumed noise is right; small ones speak against the model.

    Attributes:
        size: for the sum of squares (χ²), priors included; None if deviations were estimated.
        whiteness: for the correlation in time of each signal (Ljung and Box, 1978), by name: the least of all records
            times their number.
        normality: for skewness and kurtosis of each signal (Jarque and Bera, 1980), likewise.

    Examples:
        >>> mbs.identification.Tests(0.4, {"bob.phi": 1e-9}, {"bob.phi": 0.3}).lines()[1]
        'the residuals of bob.phi are correlated in time (p = 1e-09): the model lacks something'
    """

    size: float | None
    whiteness: dict[str, float]
    normality: dict[str, float]

    def lines(self) -> list[str]:
        """Return the outcome of the tests as lines of text."""
        lines = []
        if self.size is not None:
            size = "as large as" if self.size > SIGNIFICANCE else "larger than"
            hint = "" if self.size > SIGNIFICANCE else ": the model lacks something"
            lines.append(f"the residuals are {size} the noise (p = {self.size:.2g}){hint}")
        for name, p in self.whiteness.items():
            if p < SIGNIFICANCE:
                lines.append(f"the residuals of {name} are correlated in time (p = {p:.2g}): the model lacks something")
        for name, p in self.normality.items():
            if p < SIGNIFICANCE:
                lines.append(f"the residuals of {name} are not normal (p = {p:.2g}): outliers?")
        return lines


def residual_tests(residuals: Sequence[dict], noise: dict[str, float], size: float | None) -> Tests:
    """Return tests of the residuals (T,) of each record, by signal; `noise` are the standard deviations by signal.

    Signals whose residuals are far below the noise pass all tests. `size` is that of `Tests`.
    """
    white: dict[str, float] = {}
    normal: dict[str, float] = {}
    for record in residuals:
        for name, x in record.items():
            if np.std(x) < MIN_NOISE_FRACTION * noise[name]:
                continue
            white[name] = min(white.get(name, 1.0), _whiteness(x))
            normal[name] = min(normal.get(name, 1.0), _normality(x))
    # Bonferroni's correction for several records.
    corrected = lambda least: {name: min(1.0, len(residuals) * least.get(name, 1.0)) for name in noise}
    return Tests(size, corrected(white), corrected(normal))


def half_width(confidence: float) -> float:
    """Return half the width of the interval with this probability, in standard deviations of a normal distribution."""
    return float(ndtri(0.5 + confidence / 2))


def chi_squared(value: float, freedom: int) -> float:
    """Return the probability of a sum of squares larger than `value` with `freedom` degrees of freedom."""
    return float(gammaincc(freedom / 2, value / 2))


def _whiteness(x: np.ndarray) -> float:
    """Return the probability of a correlation in time at least as strong, if x (T,) is white noise."""
    count = len(x)
    lags = min(MAX_LAGS, count // 5)
    centred = x - x.mean()
    square = float(centred @ centred)
    if lags == 0 or square == 0:
        return 1.0
    correlations = [float(centred[k:] @ centred[:-k]) / square for k in range(1, lags + 1)]
    return chi_squared(count * (count + 2) * sum(r * r / (count - k) for k, r in enumerate(correlations, 1)), lags)


def _normality(x: np.ndarray) -> float:
    """Return the probability of skewness and kurtosis at least as large, if x (T,) is normal."""
    centred = x - x.mean()
    variance = float(np.mean(centred**2))
    if variance == 0:
        return 1.0
    skew, kurtosis = (float(np.mean(centred**k)) / variance ** (k / 2) for k in (3, 4))
    return math.exp(-len(x) / 12 * (skew**2 + (kurtosis - 3) ** 2 / 4))
