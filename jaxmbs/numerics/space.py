"""Spaces of configurations: where velocities are not the rates of the coordinates, as with rotations in space.

A configuration q has n numbers, a velocity v and a small displacement d have m. Everything that follows a motion or takes a
step of Newton's method goes through these few functions, so that it works for angles of the plane and for Euler
parameters alike.
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
        """q̇ = N(q) v."""

    @staticmethod
    @abc.abstractmethod
    def retract(q: Float[Array, " n"], d: Float[Array, " m"]) -> Float[Array, " n"]:
        """q ⊕ d: the configuration reached from q in unit time with the constant velocity d."""

    @staticmethod
    @abc.abstractmethod
    def difference(q: Float[Array, " n"], other: Float[Array, " n"]) -> Float[Array, " m"]:
        """d with q ⊕ d = other, the shortest one."""

    @staticmethod
    @abc.abstractmethod
    def chart_rate(d: Float[Array, " m"], v: Float[Array, " m"]) -> Float[Array, " m"]:
        """ḋ where q ⊕ d moves with the velocity v, to the fourth order in d: Runge–Kutta methods need no more."""

    @staticmethod
    @abc.abstractmethod
    def extent(q: Float[Array, " n"]) -> Float[Array, " m"]:
        """The coordinate that each component of v changes, by which rounding of it is judged; 0 where there is none."""

    @staticmethod
    @abc.abstractmethod
    def normalised(q: Float[Array, " n"]) -> Float[Array, " n"]:
        """q brought back to the space, where its numbers have a condition to satisfy."""


class Flat(Manifold):
    """Coordinates whose rates are the velocities, n = m."""

    @staticmethod
    def rate(q, v):
        return v

    @staticmethod
    def retract(q, d):
        return q + d

    @staticmethod
    def difference(q, other):
        return other - q

    @staticmethod
    def chart_rate(d, v):
        return v

    @staticmethod
    def extent(q):
        return q

    @staticmethod
    def normalised(q):
        return q


class Constants(Manifold):
    """Coordinates that do not change."""

    @staticmethod
    def rate(q, v):
        return 0 * q

    @staticmethod
    def retract(q, d):
        return q

    @staticmethod
    def difference(q, other):
        return q[:0]

    @staticmethod
    def chart_rate(d, v):
        return v

    @staticmethod
    def extent(q):
        return q[:0]

    @staticmethod
    def normalised(q):
        return q


class Space(Manifold):
    """The configurations of a whole mechanism.

    Attributes:
        angular: (m,) which components of v are rates of angles; the others are of lengths.
        m: number of components of v.
    """

    angular: np.ndarray

    if TYPE_CHECKING:

        @property
        def m(self) -> int: ...
