"""Colours and axes that all pictures share."""

from __future__ import annotations

PALETTE = ("#2a6fb0", "#dd6b3d", "#35976b", "#8a5bb5", "#c59a1d", "#c3476f", "#2f9bb3", "#8a6f5c")
GROUND_COLOUR = "#59606b"
INK = "#2b303a"
ACCENT = "#b8243a"
PAPER = "#ffffff"
GRID = "#e6e9ee"
# Of animations.
DOTS_PER_INCH = 80


def colour_of(index: int) -> str:
    """The colour of the body, or of the curve, with this number."""
    return PALETTE[index % len(PALETTE)]


def tidy(ax, *, equal: bool) -> None:
    """A light grid behind everything, no frame, and for pictures of the plane one scale for both axes."""
    ax.set_axisbelow(True)
    ax.grid(True, color=GRID, linewidth=0.8)
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.tick_params(length=0, labelsize=8, labelcolor=GROUND_COLOUR)
    if equal:
        ax.set_aspect("equal", adjustable="box")
