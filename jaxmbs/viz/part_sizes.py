"""Sizes of the parts of a linkage."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

# Default width of links, divided by the size of the mechanism.
DEFAULT_WIDTH_PER_SIZE = 0.08
# Links are by default at most as wide as the shortest distance of two holes of a link, times this factor.
MAX_DEFAULT_WIDTH_PER_SHORTEST = 0.9
# Default thickness of plates, divided by their width.
DEFAULT_THICKNESS_PER_WIDTH = 0.4
# Default diameter of pins, divided by the width of links.
DEFAULT_PIN_PER_WIDTH = 0.5
# Default clearance of pins in their holes, divided by the diameter of pins.
DEFAULT_CLEARANCE_PER_PIN = 0.02
# Default gap between layers, divided by the thickness of plates.
DEFAULT_GAP_PER_THICKNESS = 0.25


@dataclasses.dataclass(frozen=True)
class PartSizes:
    """Sizes of the parts of a linkage, in the mechanism's unit of length. None chooses a size by that of the mechanism.

    Args:
        width: width of links; by default 8 % of the largest distance in the mechanism, and at most 90 % of the shortest
            distance of two joints of a link.
        thickness: thickness of plates; by default 0.4 widths.
        pin: diameter of pins; by default half a width.
        clearance: diameter of holes minus that of pins; by default 2 % of a pin.
        gap: distance between layers, which washers fill; by default a quarter of the thickness.

    Raises:
        ValueError: a size that is not positive (clearance and gap may be 0), or holes as wide as the links.

    Examples:
        >>> mbs.viz.PartSizes(width=12.0, pin=5.0).thickness is None
        True
    """

    width: float | None = None
    thickness: float | None = None
    pin: float | None = None
    clearance: float | None = None
    gap: float | None = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value, least = getattr(self, field.name), field.name not in ("clearance", "gap")
            if value is not None and not (0 < value < float("inf") if least else 0 <= value < float("inf")):
                raise ValueError(
                    f"{field.name} must be a {'positive' if least else 'non-negative'} length, got {value}"
                )

    def of(self, extent: float, shortest: float) -> Sizes:
        """Return all sizes, by the size of a mechanism and by the shortest distance of two joints of a link.

        Args:
            extent: largest distance in the mechanism.
            shortest: shortest distance of two joints of a link.

        Returns:
            the sizes, with defaults for those that are not given.

        Raises:
            ValueError: holes as wide as the links.
        """
        given = lambda value, default: float(default if value is None else value)
        width = given(self.width, min(DEFAULT_WIDTH_PER_SIZE * extent, MAX_DEFAULT_WIDTH_PER_SHORTEST * shortest))
        thickness, pin = (
            given(self.thickness, DEFAULT_THICKNESS_PER_WIDTH * width),
            given(self.pin, DEFAULT_PIN_PER_WIDTH * width),
        )
        clearance = given(self.clearance, DEFAULT_CLEARANCE_PER_PIN * pin)
        if pin + clearance >= width:
            raise ValueError(f"pin: holes of {pin + clearance:g} need wider links; the width is {width:g}")
        return Sizes(width, thickness, pin, clearance, given(self.gap, DEFAULT_GAP_PER_THICKNESS * thickness))


class Sizes(NamedTuple):
    """All sizes of parts; see `PartSizes`."""

    width: float
    thickness: float
    pin: float
    clearance: float
    gap: float

    @property
    def hole(self) -> float:
        """Diameter of holes."""
        return self.pin + self.clearance

    @property
    def washer(self) -> float:
        """Outer diameter of washers and spacers, between those of holes and of links."""
        return (self.hole + self.width) / 2

    @property
    def pitch(self) -> float:
        """Distance of a layer from the next."""
        return self.thickness + self.gap
