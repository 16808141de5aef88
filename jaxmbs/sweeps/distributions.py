"""Distributions of the numbers of a design. Each maps u, uniform over (0, 1), to values."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

# Least distance of u from 0 and 1, where the inverse of a normal distribution is infinite.
UNIT_MARGIN = 2.0**-53


class AbstractDistribution(abc.ABC):
    """Distribution of one leaf of a design: a number, or an array of independent numbers."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of the leaf, () for a number."""

    @abc.abstractmethod
    def of(self, u: Float[np.ndarray, "rows *shape"]) -> Float[np.ndarray, "rows *shape"]:
        """Return the values for u: the inverse of the cumulative distribution."""

    def description(self) -> dict[str, Any]:
        """Return the distribution as JSON."""
        return {"kind": type(self).__name__} | {name: np.asarray(x).tolist() for name, x in vars(self).items()}


@dataclass(frozen=True, eq=False)
class _Bounded(AbstractDistribution):
    """Base class of distributions between two bounds."""

    lower: Any
    upper: Any

    def __post_init__(self):
        lower, upper = _finite_arrays(self, "lower", "upper")
        if not np.all(lower <= upper):
            raise ValueError(f"{type(self).__name__}: lower must not be above upper, got {self.lower} and {self.upper}")

    @property
    def shape(self):
        """Return the shape of the leaf, that of both bounds broadcast together."""
        return np.broadcast_shapes(np.shape(self.lower), np.shape(self.upper))


@dataclass(frozen=True, eq=False)
class Uniform(_Bounded):
    """Uniform distribution between two bounds.

    Args:
        lower, upper: numbers, or arrays of them.

    Examples:
        >>> print(mbs.sweeps.Uniform(2.0, 4.0).of(np.array([0.0, 0.25, 0.5])))
        [2.  2.5 3. ]
    """

    def of(self, u):
        """Return lower + (upper − lower) u."""
        lower, upper = np.asarray(self.lower, float), np.asarray(self.upper, float)
        return lower + (upper - lower) * u


@dataclass(frozen=True, eq=False)
class LogUniform(_Bounded):
    """Uniform distribution of the logarithm, between two positive bounds.

    Args:
        lower, upper: positive numbers, or arrays of them.

    Examples:
        >>> print(mbs.sweeps.LogUniform(1.0, 100.0).of(np.array([0.0, 0.5])))
        [ 1. 10.]
    """

    def __post_init__(self):
        super().__post_init__()
        if not np.all(np.asarray(self.lower) > 0):
            raise ValueError(f"LogUniform: bounds must be positive, got {self.lower}")

    def of(self, u):
        """Return lower (upper / lower)^u."""
        low, high = np.log(np.asarray(self.lower, float)), np.log(np.asarray(self.upper, float))
        return np.exp(low + (high - low) * u)


@dataclass(frozen=True, eq=False)
class Normal(AbstractDistribution):
    """Normal distribution.

    Args:
        mean, deviation: numbers, or arrays of them; the standard deviation is not negative.

    Examples:
        >>> print(mbs.sweeps.Normal(3.0, 0.1).of(np.array([0.5, 0.8413447])).round(6))
        [3.  3.1]
    """

    mean: Any
    deviation: Any

    def __post_init__(self):
        _, deviation = _finite_arrays(self, "mean", "deviation")
        if not np.all(deviation >= 0):
            raise ValueError(f"Normal: deviation must not be negative, got {self.deviation}")

    @property
    def shape(self):
        """Return the shape of the leaf, that of mean and deviation broadcast together."""
        return np.broadcast_shapes(np.shape(self.mean), np.shape(self.deviation))

    def of(self, u):
        """Return the normal quantiles of u; u is kept off 0 and 1, where they are infinite."""
        from scipy.special import ndtri

        return np.asarray(self.mean, float) + np.asarray(self.deviation, float) * ndtri(
            np.clip(u, UNIT_MARGIN, 1 - UNIT_MARGIN)
        )


@dataclass(frozen=True, eq=False)
class Choice(AbstractDistribution):
    """One of several numbers, all equally likely.

    Args:
        values: the numbers, (n,).

    Examples:
        >>> print(mbs.sweeps.Choice([10, 12, 15]).of(np.array([0.1, 0.5, 0.9])))
        [10. 12. 15.]
    """

    values: Any

    def __post_init__(self):
        (values,) = _finite_arrays(self, "values")
        if values.ndim != 1 or not values.size:
            raise ValueError(f"Choice: values must be a row of numbers, got shape {values.shape}")

    @property
    def shape(self):
        """Return (): the leaf is one number."""
        return ()

    def of(self, u):
        """Return the values (rows,) in whose intervals of [0, 1] u lies."""
        values = np.asarray(self.values, float)
        return values[np.minimum((u * len(values)).astype(int), len(values) - 1)]


def _finite_arrays(distribution, *names: str) -> list[np.ndarray]:
    """Return parameters of a distribution as arrays, or raise `ValueError` if one is not finite."""
    arrays = []
    for name in names:
        try:
            array = np.asarray(getattr(distribution, name), float)
        except (TypeError, ValueError):
            array = np.array(np.nan)
        if not np.all(np.isfinite(array)):
            kind = type(distribution).__name__
            raise ValueError(f"{kind}: {name} must be numbers, got {getattr(distribution, name)!r}")
        arrays.append(array)
    return arrays
