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

# Largest number of samples that a picture shows: more points hide each other.
MAX_POINTS = 5000
# Largest number of columns that a scatter matrix shows.
MAX_COLUMNS = 10
# Width and height of each plot of a scatter matrix, in inches.
PLOT_SIZE_INCHES = 1.7
# Number of bins of the histograms on the diagonal of a scatter matrix.
BINS = 40
# Fraction of the values at either end of a column that may lie outside its plot.
OUTLIER_PART = 0.005
# Names of columns with more letters are cut in pictures of studies.
MAX_NAME_LETTERS = 26


def scatter_matrix(
    columns: Mapping[str, Num[np.ndarray, " rows"]], status: Int[np.ndarray, " rows"], title: str | None = None
) -> Figure:
    """Draw columns of numbers against each other, with their histograms on the diagonal.

    Samples whose status is not 0 are red crosses. Histograms leave them out.

    Args:
        columns: numbers (N,) by name; the first 10 columns are shown. If there are more than 5,000 samples, 5,000 of
            them are chosen at random.
        status: status of each sample, (N,); see `mbs.Status`.
        title: heading; the number of samples by default.

    Returns:
        the figure.

    Raises:
        ValueError: no columns.

    Examples:
        >>> x = np.linspace(0.0, 1.0, 50)
        >>> figure = mbs.viz.scatter_matrix({"x": x, "x²": x**2}, np.zeros(50, int))
        >>> figure.savefig("study.png")
    """
    names = list(columns)[:MAX_COLUMNS]
    if not names:
        raise ValueError("columns: there must be at least one column of numbers")
    rows = np.arange(len(status))
    if len(rows) > MAX_POINTS:
        rows = np.random.default_rng(0).choice(rows, MAX_POINTS, replace=False)
    good, count = np.asarray(status)[rows] == Status.CONVERGED, len(names)
    values = [np.asarray(columns[name], float)[rows] for name in names]
    axes: Any
    figure, axes = plt.subplots(
        count, count, figsize=(PLOT_SIZE_INCHES * count + 0.8,) * 2, squeeze=False, layout="constrained"
    )
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
    """Draw a histogram of finite values, if they differ."""
    limits = _limits(values)
    if limits is not None:
        ax.hist(values, BINS, range=limits, color=PALETTE[0], alpha=0.8)
    ax.grid(False)


def _limits(values: Float[np.ndarray, " rows"]) -> tuple[float, float] | None:
    """Return limits with nearly all finite values: outliers would hide the others. None if all values are equal."""
    values = values[np.isfinite(values)]
    if not values.size or np.ptp(values) == 0:
        return None
    low, high = np.quantile(values, [OUTLIER_PART, 1 - OUTLIER_PART])
    low, high = max(values.min(), low - (high - low) / 2), min(values.max(), high + (high - low) / 2)
    return low - 0.04 * (high - low), high + 0.04 * (high - low)


def _short(name: str) -> str:
    """Return the name of a column without "design.", cut to `MAX_NAME_LETTERS`."""
    name = name.removeprefix("design.")
    return name if len(name) <= MAX_NAME_LETTERS else f"…{name[1 - MAX_NAME_LETTERS :]}"
