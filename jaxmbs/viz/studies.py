"""Pictures of many samples at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float, Int, Num
from matplotlib.figure import Figure

from jaxmbs.numerics.results import Status
from jaxmbs.viz.style import ACCENT, GROUND_COLOUR, INK, PALETTE, tidy

# More points than this are a blot.
MAX_POINTS = 5000
# Columns of a matrix, and the inches that each of them takes.
MAX_COLUMNS, CELL = 10, 1.7
BINS = 40
# This part of the values, at either end, may lie outside the picture.
FAR = 0.005
# Longer names are cut.
MAX_LETTERS = 26


def scatter_matrix(
    columns: Mapping[str, Num[np.ndarray, " rows"]], status: Int[np.ndarray, " rows"], title: str | None = None
) -> Figure:
    """Columns of numbers against each other, with their histograms on the diagonal.

    Samples whose status is not 0 are red crosses, and in no histogram.

    Args:
        columns: names and numbers (N,), the first 10 of them. Of more than 5,000 rows that many are drawn at random.
        status: (N,), see `mbs.Status`.
        title: above all; how many samples unless given.

    Raises:
        ValueError: no columns.

    Examples:
        >>> x = np.linspace(0.0, 1.0, 50)
        >>> figure = mbs.viz.scatter_matrix({"x": x, "x²": x**2}, np.zeros(50, int))
        >>> figure.savefig("study.png")
    """
    names = list(columns)[:MAX_COLUMNS]
    if not names:
        raise ValueError("there are no columns with a number each")
    rows = np.arange(len(status))
    if len(rows) > MAX_POINTS:
        rows = np.random.default_rng(0).choice(rows, MAX_POINTS, replace=False)
    good, count = np.asarray(status)[rows] == Status.CONVERGED, len(names)
    values = [np.asarray(columns[name], float)[rows] for name in names]
    axes: Any
    figure, axes = plt.subplots(count, count, figsize=(CELL * count + 0.8,) * 2, squeeze=False, layout="constrained")
    for i, j in np.ndindex(count, count):
        ax = axes[i, j]
        if j > i:
            ax.set_visible(False)
            continue
        tidy(ax, equal=False)
        if i == j:
            _histogram(ax, values[i][good])
        else:
            ax.plot(values[j][good], values[i][good], ".", color=PALETTE[0], markersize=2, alpha=0.5, mew=0)
            ax.plot(values[j][~good], values[i][~good], "x", color=ACCENT, markersize=2.5, alpha=0.5, mew=0.6)
        ax.set_xlim(_limits(values[j]))
        if i != j:
            ax.set_ylim(_limits(values[i]))
        ax.locator_params(nbins=4)
        ax.tick_params(labelsize=7, labelbottom=i == count - 1, labelleft=j == 0 and i > 0)
        if i == count - 1:
            ax.set_xlabel(_short(names[j]), fontsize=8, color=INK)
        if j == 0 and i > 0:
            ax.set_ylabel(_short(names[i]), fontsize=8, color=INK)
    figure.suptitle(title or f"{len(status):,} samples", fontsize=9, color=GROUND_COLOUR)
    return figure


def _histogram(ax, values: Float[np.ndarray, " rows"]) -> None:
    limits = _limits(values)
    if limits is not None:
        ax.hist(values, BINS, range=limits, color=PALETTE[0], alpha=0.8)
    ax.grid(False)


def _limits(values: Float[np.ndarray, " rows"]) -> tuple[float, float] | None:
    """Where nearly all finite values are, with a little room: a few that are far away would hide the others."""
    values = values[np.isfinite(values)]
    if not values.size or np.ptp(values) == 0:
        return None
    low, high = np.quantile(values, [FAR, 1 - FAR])
    low, high = max(values.min(), low - (high - low) / 2), min(values.max(), high + (high - low) / 2)
    return low - 0.04 * (high - low), high + 0.04 * (high - low)


def _short(name: str) -> str:
    name = name.removeprefix("design.")
    return name if len(name) <= MAX_LETTERS else f"…{name[1 - MAX_LETTERS :]}"
