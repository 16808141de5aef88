"""The planar slider-crank with a coupler point."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.synthesis.linkages.dyadic import AbstractDyadic, Dyad
from jaxmbs.synthesis.linkages.dyads import RRP
from jaxmbs.synthesis.linkages.linkage import end_on_line


@dataclass(frozen=True)
class SliderCrank(AbstractDyadic):
    """Crank, coupler, and a slide on a line, with a point of the coupler, anywhere in the plane.

    The crank turns fully for any free numbers: coupler = crank + |offset| + m with the slack m > 0.

    A design has the lengths `crank` and `coupler`; the `offset` of the slide's line from the crank's pivot, positive to
    the left of its direction; the `point` of the coupler, from the crank's pin with x towards the slide's pin; the
    `angle` of the slide's line; and `pivot`, the place of the crank's pivot. Crank angles count from the slide's line. The
    branch is +1 if the slide is ahead of the crank's pin, −1 if behind.

    Examples:
        >>> b = dict(crank=1.0, coupler=2.0, offset=0.0, point=jnp.zeros(2), angle=0.0, pivot=jnp.zeros(2))
        >>> linkage = mbs.synthesis.SliderCrank()
        >>> motion = mbs.kinematics(linkage.mechanism(b), jnp.array([0.0, 0.25]), linkage.guess(b, 0.0, 1))
        >>> print(motion.position("slider.x").round(4))
        [3.     1.7321]
    """

    dyads: Any = field(init=False, repr=False, default=(Dyad("crank", GROUND, RRP),))

    name: ClassVar[str] = "slider-crank"
    numbers: ClassVar[tuple[str, ...]] = ("log", "log", *("length",) * 3, "angle", "pivot", "pivot")

    @staticmethod
    def design(u):
        """Return the design of free numbers u (8,): ln crank, ln slack, offset, point, angle, pivot."""
        crank, slack = jnp.exp(u[0]), jnp.exp(u[1])
        return {
            "crank": crank,
            "coupler": crank + jnp.abs(u[2]) + slack,
            "offset": u[2],
            "point": u[3:5],
            "angle": u[5],
            "pivot": u[6:8],
        }

    @staticmethod
    def sample(rng, count):
        """Return free numbers (count, 8) of random linkages of about unit size."""
        u = np.zeros((count, 8))
        u[:, :2] = rng.uniform([-1.0, -1.5], [0.7, 1.0], (count, 2))
        u[:, 2:5] = rng.normal(size=(count, 3)) * [1, 2, 2]
        return u

    @staticmethod
    def joints(b: dict, angle, sign, xp: Any = jnp):
        """Return the crank's pin, the direction of the coupler, and the cosine of its angle with the normal of the line.

        Args:
            b: the design.
            angle: crank angle in radians.
            sign: the branch, 1 or −1.
            xp: see `close_links`.

        Returns:
            The pin (2,) and the unit vector (2,), in axes along the line, and a number.
        """
        pin = b["crank"] * xp.stack([xp.cos(angle), xp.sin(angle)])
        ahead, cosine = end_on_line(b["offset"] - pin[1], b["coupler"], sign, xp)
        return pin, xp.stack([ahead, cosine]), cosine

    def extreme_cosines(self, b):
        """Return the cosines (2,) between coupler and normal of the line at the crank's two extreme heights."""
        return jnp.stack([b["offset"] - b["crank"], b["offset"] + b["crank"]]) / b["coupler"]
