"""Colours and axes of all pictures."""

from __future__ import annotations

# Colours given to bodies and to curves in this order, then from the start again.
PALETTE = ("#2a6fb0", "#dd6b3d", "#35976b", "#8a5bb5", "#c59a1d", "#c3476f", "#2f9bb3", "#8a6f5c")
# Colour of the ground and of numbers at axes.
GROUND_COLOUR = "#59606b"
# Colour of lines and texts in all pictures.
INK = "#2b303a"
# Colour of drivers and of everything that should stand out.
ACCENT = "#b8243a"
# Colour of the background of all pictures.
PAPER = "#ffffff"
# Colour of grids in all pictures.
GRID = "#e6e9ee"
# Resolution of animations, in pixels per inch of the picture's width.
DOTS_PER_INCH = 80


def colour_of(index: int) -> str:
    """Return the colour of the body or of the curve with this number."""
    return PALETTE[index % len(PALETTE)]


def tidy(ax, *, equal: bool) -> None:
    """Give axes a light grid and no frame, and, if `equal`, the same scale in both directions."""
    ax.set_axisbelow(True)
    ax.grid(True, color=GRID, linewidth=0.8)
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.tick_params(length=0, labelsize=8, labelcolor=GROUND_COLOUR)
    if equal:
        ax.set_aspect("equal", adjustable="box")
