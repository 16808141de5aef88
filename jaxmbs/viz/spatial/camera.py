"""The camera of spatial pictures, and the direction that is up."""

from __future__ import annotations

import numpy as np

from jaxmbs.forces import Gravity
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.viz.planar.shapes import unit

# Default elevation of the camera above the horizon, in degrees.
ELEVATION = 22.0
# Default azimuth of the camera, in degrees.
AZIMUTH = -60.0
# Angle between the camera and the normal of a flat mechanism, in degrees: faces across it then do not hide it.
OFF_NORMAL = 32.0


class Camera:
    """The camera of a picture.

    Attributes:
        up: unit vector opposite to gravity, z without gravity.
        elevation: angle of the camera above the horizon, in degrees.
        azimuth: angle of the camera about `up`, in degrees, from the coordinate axis that follows the one nearest to
            `up` in the order x, y, z, x.
    """

    def __init__(self, mech: Mechanism, places: np.ndarray, angles: tuple[float, float] | None = None):
        """Set the camera by elevation and azimuth in degrees, by default so that places (k, 3) hide each other least."""
        gravity = [np.asarray(f.acceleration, float) for f in mech.forces.values() if isinstance(f, Gravity)]
        total = sum(gravity, np.zeros(3))
        self.up = -unit(total) if np.any(total) else np.array([0.0, 0, 1])
        self.elevation, self.azimuth = angles or (ELEVATION, self._facing(places))

    @property
    def axis(self) -> int:
        """The coordinate axis nearest to `up`, 0, 1 or 2."""
        return int(np.argmax(np.abs(self.up)))

    @property
    def sense(self) -> int:
        """+1 if the coordinate axis number `axis` points up, else −1."""
        return 1 if self.up[self.axis] > 0 else -1

    @property
    def axes(self) -> np.ndarray:
        """Columns: the horizontal directions at azimuth 0° and 90°, and `up`."""
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
        """Return the azimuth in degrees that shows the widest side of places (k, 3)."""
        level = places @ self.axes[:, :2]
        spread, directions = np.linalg.eigh(np.cov(level.T)) if len(level) > 1 else (np.zeros(2), np.eye(2))
        if spread[0] >= 0.6 * spread[1]:
            return AZIMUTH
        across = np.rad2deg(np.arctan2(directions[1, 0], directions[0, 0]))
        choices = [across + side + turn for side in (0, 180) for turn in (-OFF_NORMAL, OFF_NORMAL)]
        gap = lambda angle: abs((angle - AZIMUTH + 180) % 360 - 180)
        return min(choices, key=gap)
