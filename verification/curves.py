"""Motions of the work-precision diagrams, and curves of the tools that simulate them."""

from collections.abc import Callable
from typing import NamedTuple

from timing import AccuracyRun


class Curve(NamedTuple):
    """Runs of a tool with one method.

    Attributes:
        tool: name of the tool.
        label: its method.
        points: successful runs.
        missing: reason why there are no runs, else empty.
        failed: steps or tolerance, and status, of each run that failed.
    """

    tool: str
    label: str
    points: list[AccuracyRun]
    missing: str = ""
    failed: tuple[str, ...] = ()


class MotionProblem(NamedTuple):
    """A motion whose final state is known.

    Attributes:
        title: title of the diagram.
        unit: unit of the error.
        start: function without arguments that returns mechanism, q0 and v0.
        end: final time (s).
        error: traced function from a trajectory to the error of its end.
        steps: numbers of steps, each the double of the one before.
    """

    title: str
    unit: str
    start: Callable
    end: float
    error: Callable
    steps: tuple[int, ...]
