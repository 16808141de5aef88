"""Frames fixed in bodies of space."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Array

from jaxmbs.element import errors_of, require
from jaxmbs.numerics.arrays import Structured, check_fields, is_concrete, real

# Largest entry of AᵀA − I for which the columns of A count as orthonormal: axes typed with five digits pass.
MAX_AXES_ERROR = 1e-4


class Frame(Structured):
    """A frame fixed in a body, to place joints with.

    Args:
        origin: (3,), in the body frame.
        axes: 3×3, columns are the axes of the frame in the body frame; those of the body unless given.

    Examples:
        >>> arm = spatial.Body(frames={"tip": spatial.Frame((0.5, 0, 0))})
        >>> ball = spatial.Spherical("ground", "arm", (0, 0, 0), arm.frames["tip"])
        >>> print(ball.point_j)
        [0.5 0.  0. ]
    """

    origin: Array = real((3,), default=(0.0, 0.0, 0.0))
    axes: Array = real((3, 3), default=((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)))

    def check(self) -> None:
        """Raise `ValueError` for wrong shapes, or axes that are not a rotation."""
        check_fields(self)
        check_frame("axes", self.axes)


def check_frame(name: str, axes) -> None:
    """Raise `ValueError` for a known 3×3 matrix whose columns are not three right-handed orthonormal axes."""
    if axes is not None and is_concrete(axes):
        axes = np.asarray(axes, float)
        require(
            np.abs(axes.T @ axes - np.eye(3)).max() < MAX_AXES_ERROR and np.linalg.det(axes) > 0,
            f"{name} must have three right-handed orthonormal axes as columns",
        )


def check_frames(frames: Mapping[str, Frame]) -> None:
    """Raise `ValueError`, with the name of the frame, for a value that is not a `Frame` or that its `check` refuses."""
    for name, frame in frames.items():
        require(isinstance(frame, Frame), f"frame {name!r} must be a Frame, got {frame!r}")
        with errors_of(f"frame {name!r}"):
            frame.check()
