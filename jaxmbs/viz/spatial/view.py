"""Which way is up, and from where a mechanism is seen."""

from __future__ import annotations

import numpy as np

from jaxmbs.forces import Gravity
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.viz.planar.shapes import unit

# In degrees. The camera looks from above, and so much from the side that faces across the mechanism do not cover it.
ELEVATION, ASIDE, AZIMUTH = 22.0, 32.0, -60.0


class View:
    """The camera of a picture.

    Attributes:
        up: unit vector, opposite to gravity; z without any.
        elevation, azimuth: of the direction from the mechanism to the camera, in degrees: above the horizon, and about
            `up` from the coordinate axis that follows, in turn, the one nearest to up.
    """

    def __init__(self, mech: Mechanism, places: np.ndarray, angles: tuple[float, float] | None = None):
        """Seen in two angles, or else from where places (k, 3) show most."""
        self.up = up(mech)
        self.elevation, self.azimuth = angles or (ELEVATION, self._facing(places))

    @property
    def axis(self) -> int:
        """The coordinate axis nearest to `up`, 0, 1 or 2."""
        return int(np.argmax(np.abs(self.up)))

    @property
    def sense(self) -> int:
        """+1 if this axis points up, else −1."""
        return 1 if self.up[self.axis] > 0 else -1

    @property
    def axes(self) -> np.ndarray:
        """As columns two horizontal directions, from the first to the second of which the azimuth runs, and `up`."""
        first = np.eye(3)[(self.axis + 1) % 3]
        first = unit(first - (first @ self.up) * self.up)
        return np.column_stack([first, np.cross(self.up, first), self.up])

    @property
    def direction(self) -> np.ndarray:
        """The unit vector towards the camera."""
        elevation, azimuth = np.deg2rad([self.elevation, self.azimuth])
        level = np.cos(elevation)
        return self.axes @ [level * np.cos(azimuth), level * np.sin(azimuth), np.sin(elevation)]

    def _facing(self, places: np.ndarray) -> float:
        level = places @ self.axes[:, :2]
        spread, directions = np.linalg.eigh(np.cov(level.T)) if len(level) > 1 else (np.zeros(2), np.eye(2))
        if spread[0] >= 0.6 * spread[1]:
            return AZIMUTH
        across = np.rad2deg(np.arctan2(directions[1, 0], directions[0, 0]))
        choices = [across + side + turn for side in (0, 180) for turn in (-ASIDE, ASIDE)]
        gap = lambda angle: abs((angle - AZIMUTH + 180) % 360 - 180)
        return min(choices, key=gap)


def up(mech: Mechanism) -> np.ndarray:
    """The unit vector opposite to gravity; z without any."""
    total = sum(
        (np.asarray(f.acceleration, float) for f in mech.forces.values() if isinstance(f, Gravity)), np.zeros(3)
    )
    return -unit(total) if np.any(total) else np.array([0.0, 0, 1])
