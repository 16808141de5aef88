"""A rotor: inertia about one axis."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.element import require
from jaxmbs.numerics.arrays import check_fields, is_concrete, is_plain_zero, real
from jaxmbs.spatial.body import Body
from jaxmbs.spatial.element import check_axis
from jaxmbs.spatial.frame import check_frames


class Rotor(Body):
    """Inertia about one axis of the body: J n nᵀ, of a motor, a flywheel or a gear, hinged on a carrier or the ground.

    With the angular velocity ω of its carrier and its own angle φ it has the angular momentum h = J (φ̇ + nᵀω) n, and
    the hinge bears dh/dt with its gyroscopic part ω × h. The rest of the real rotor, its mass and its inertia across
    the axis, belongs to the carrier. Attach it with a `Revolute`, which holds the rotations about which the
    rotor has no inertia.

    Args:
        inertia: J, positive.
        axis: n, of any length, in the body frame; z unless given.
        mass: at the origin, which lies on the axis. A plain 0, the default, is part of the structure.
        frames: further frames by name, for joints; see `Frame`.

    Examples:
        >>> hinge = spatial.Revolute("ground", "rotor", (0, 0, 0.3), (0, 0, 0), axis_i=(0, 0, 1))
        >>> mech = mbs.Mechanism({"rotor": spatial.Rotor(0.02)}, {"hinge": hinge})
        >>> print(mbs.Augmented().of(mech).mass_matrix(spatial.coordinates((0, 0, 0.3)))[5, 5])
        0.02
    """

    axis: Array = real((3,))

    of_points: ClassVar[bool] = False

    def __init__(self, inertia=1.0, axis=(0.0, 0.0, 1.0), mass=0.0, *, frames=None):
        self._inertia, self.axis, self.mass = inertia, axis, mass
        self.weightless = is_plain_zero(mass)
        self._com = self.inertia_frame = None
        self.frames = dict(frames or {})
        self.slender = True

    @property
    def inertia(self) -> Float[Array, "3 3"]:
        """Inertia matrix J n nᵀ with the unit vector n of the axis, in the body frame."""
        axis = jnp.asarray(self.axis)
        return jnp.asarray(self._inertia) * jnp.outer(axis, axis) / (axis @ axis)

    def check(self) -> None:
        """Raise `ValueError` for wrong shapes, an inertia that is not positive, a negative mass, an axis without length."""
        check_fields(self)
        inertia: Any = self._inertia
        kind = getattr(getattr(inertia, "dtype", None), "kind", "O")
        require(kind == "f" and np.ndim(inertia) == 0, f"inertia must be a number, got {inertia!r}")
        require(not is_concrete(inertia) or 0 < inertia < np.inf, f"inertia must be positive, got {inertia}")
        require(not is_concrete(self.mass) or self.mass >= 0, f"mass must not be negative, got {self.mass}")
        check_axis("axis", self.axis)
        check_frames(self.frames)
