"""What is compared by work and precision: motions, and curves of the tools that simulate them."""

from collections.abc import Callable
from typing import NamedTuple


class Point(NamedTuple):
    """A run: how many steps, how far off, and seconds of the processor."""

    steps: int
    error: float
    seconds: float


class Curve(NamedTuple):
    """A tool in one way of using it; `missing` says why there are no points."""

    tool: str
    label: str
    points: list[Point]
    missing: str = ""


class Problem(NamedTuple):
    """A motion.

    Attributes:
        start: () ↦ mechanism, q0, v0.
        end: seconds.
        error: trajectory ↦ how far its end is off, traced.
        steps: numbers of steps, each the double of the one before.
    """

    title: str
    unit: str
    start: Callable
    end: float
    error: Callable
    steps: tuple[int, ...]
