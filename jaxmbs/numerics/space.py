"""Spaces of configurations whose velocities need not be the rates of the coordinates, as for rotations in space.

A configuration q has n numbers, a velocity v and a small displacement d have m. Integrators and Newton's method use these
functions, so that they work for angles of the plane and for Euler parameters.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Array, Float


class Manifold(abc.ABC):
    """Coordinates q (n,) with displacements d and velocities v (m,)."""

    @staticmethod
    @abc.abstractmethod
    def rate(q: Float[Array, " n"], v: Float[Array, " m"]) -> Float[Array, " n"]:
        """Return q̇ = N(q) v, where N (n, m) maps velocities v to the rates of the coordinates."""

    @staticmethod
    @abc.abstractmethod
    def retract(q: Float[Array, " n"], d: Float[Array, " m"]) -> Float[Array, " n"]:
        """Return q ⊕ d: the configuration reached from q in unit time with the constant velocity d."""

    @staticmethod
    @abc.abstractmethod
    def difference(q: Float[Array, " n"], other: Float[Array, " n"]) -> Float[Array, " m"]:
        """Return the shortest displacement d with q ⊕ d = other."""

    @staticmethod
    @abc.abstractmethod
    def chart_rate(d: Float[Array, " m"], v: Float[Array, " m"]) -> Float[Array, " m"]:
        """Return ḋ if q ⊕ d moves with the velocity v, to the fourth order in d, which suffices for Runge–Kutta methods."""

    @staticmethod
    @abc.abstractmethod
    def extent(q: Float[Array, " n"]) -> Float[Array, " m"]:
        """Return the coordinate (m,) that each component of v changes, to estimate its rounding; 0 for rotations."""

    @staticmethod
    @abc.abstractmethod
    def normalised(q: Float[Array, " n"]) -> Float[Array, " n"]:
        """Return q with conditions on its numbers restored, such as Euler parameters of unit length."""


class Flat(Manifold):
    """Coordinates whose rates are the velocities, n = m."""

    @staticmethod
    def rate(q: Array, v: Array) -> Array:
        return v

    @staticmethod
    def retract(q: Array, d: Array) -> Array:
        return q + d

    @staticmethod
    def difference(q: Array, other: Array) -> Array:
        return other - q

    @staticmethod
    def chart_rate(d: Array, v: Array) -> Array:
        return v

    @staticmethod
    def extent(q: Array) -> Array:
        return q

    @staticmethod
    def normalised(q: Array) -> Array:
        return q


class Constants(Manifold):
    """Coordinates that do not change: n numbers, but no velocities, m = 0."""

    @staticmethod
    def rate(q: Array, v: Array) -> Array:
        return 0 * q

    @staticmethod
    def retract(q: Array, d: Array) -> Array:
        return q

    @staticmethod
    def difference(q: Array, other: Array) -> Array:
        return q[:0]

    @staticmethod
    def chart_rate(d: Array, v: Array) -> Array:
        return v

    @staticmethod
    def extent(q: Array) -> Array:
        return q[:0]

    @staticmethod
    def normalised(q: Array) -> Array:
        return q


class Space(Manifold):
    """The configurations of a whole mechanism.

    Attributes:
        angular: (m,), True for components of v that are rates of angles, False for rates of lengths.
        m: number of components of v.
        velocities: names of the components of v.
    """

    angular: np.ndarray

    if TYPE_CHECKING:

        @property
        def m(self) -> int: ...

        @property
        def velocities(self) -> tuple[str, ...]: ...


class PartwiseSpace(Space):
    """A space that consists of parts, each with a manifold of its own. A subclass defines `_by_part`."""

    @abc.abstractmethod
    def _by_part(self, function: str, *args: tuple[Array, bool]) -> Array:
        """Return the values of a method of `Manifold`, part by part.

        `args` pairs each vector with False if it is indexed like q, with True if it is indexed like v.
        """

    def rate(self, q: Array, v: Array) -> Array:
        return self._by_part("rate", (q, False), (v, True))

    def retract(self, q: Array, d: Array) -> Array:
        return self._by_part("retract", (q, False), (d, True))

    def difference(self, q: Array, other: Array) -> Array:
        return self._by_part("difference", (q, False), (other, False))

    def chart_rate(self, d: Array, v: Array) -> Array:
        return self._by_part("chart_rate", (d, True), (v, True))

    def extent(self, q: Array) -> Array:
        return self._by_part("extent", (q, False))

    def normalised(self, q: Array) -> Array:
        return self._by_part("normalised", (q, False))
