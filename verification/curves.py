"""What is compared by work and precision: motions, and curves of the tools that simulate them."""

from collections.abc import Callable
from typing import NamedTuple


class Point(NamedTuple):
    """A run: how many steps, how far off, and seconds of the processor."""

    steps: int
    error: float
    seconds: float


class Curve(NamedTuple):
    """A tool in one way of using it.

    Attributes:
        points: the runs that went well.
        missing: the reason why there are none at all.
        failed: steps, or tolerance, and status of each run that did not go well; it is left out of the points.
    """

    tool: str
    label: str
    points: list[Point]
    missing: str = ""
    failed: tuple[str, ...] = ()


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
