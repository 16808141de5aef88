"""The planar slider-crank with a coupler point."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from jaxmbs import planar
from jaxmbs.element import GROUND
from jaxmbs.synthesis.linkages.linkage import FLAT, Linkage, along, from_line, unit, with_crank
from jaxmbs.system.mechanism import Mechanism


class SliderCrank(Linkage):
    """Crank, coupler, and a slide on a line, with a point of the coupler, anywhere in the plane.

    Whatever the free numbers are, the crank turns all round: coupler = crank + |offset| + m with the slack m > 0.

    A design has the lengths `crank`, `coupler`; `offset` of the slide's line from the crank's pivot, to the left of its
    direction; `point`, of the coupler, from the crank's pin in axes of which x points to the slide's pin; `angle`, the
    direction of the slide's line; and `pivot`, the crank's. Crank angles count from that direction. The branch is +1
    where the slide is ahead of the crank's pin.

    Examples:
        >>> b = dict(crank=1.0, coupler=2.0, offset=0.0, point=jnp.zeros(2), angle=0.0, pivot=jnp.zeros(2))
        >>> linkage = mbs.synthesis.SliderCrank()
        >>> motion = mbs.kinematics(linkage.mechanism(b), jnp.array([0.0, 0.25]), linkage.guess(b, 0.0, 1))
        >>> print(motion.position("slider.x").round(4))
        [3.     1.7321]
    """

    name: ClassVar[str] = "slider-crank"
    entries: ClassVar[tuple[str, ...]] = ("crank", "coupler", "offset", "point", "angle", "pivot")
    numbers: ClassVar[tuple[str, ...]] = ("log", "log", *("length",) * 3, "angle", "pivot", "pivot")
    output: ClassVar[str] = "coupler"

    @staticmethod
    def design(u):
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
        u = np.zeros((count, 8))
        u[:, :2] = rng.uniform([-1.0, -1.5], [0.7, 1.0], (count, 2))
        u[:, 2:5] = rng.normal(size=(count, 3)) * [1, 2, 2]
        return u

    @staticmethod
    def joints(b: dict, angle, sign, xp: Any = jnp):
        """The crank's pin, the direction of the coupler, and the cosine of its angle with the normal of the line.

        xp: see `dyad`."""
        pin = b["crank"] * xp.stack([xp.cos(angle), xp.sin(angle)])
        cosine = (b["offset"] - pin[1]) / b["coupler"]
        ahead = sign * xp.sqrt(xp.maximum(1 - cosine**2, FLAT))
        return pin, xp.stack([ahead, cosine]), cosine

    def frames(self, b, angle, signs):
        pin, e, cosine = self.joints(b, angle, signs[0])
        slide = pin + b["coupler"] * e, along(jnp.ones_like(b["coupler"]))
        return {"crank": (jnp.zeros(2), unit(angle)), "coupler": (pin, e), "slider": slide}, cosine[None]

    def everywhere(self, b):
        return jnp.stack([b["offset"] - b["crank"], b["offset"] + b["crank"]]) / b["coupler"]

    def mechanism(self, b, start=0.0, turn=1.0) -> Mechanism:
        """Bodies "crank", "coupler" and "slider" with their origins at O, A and B and x along the links, or the line."""
        origin, line = jnp.zeros(2), from_line(b, jnp.stack([0 * b["offset"], b["offset"]]))
        joints = {
            "B": planar.Revolute("coupler", "slider", along(b["coupler"]), origin),
            "C": planar.Translational(GROUND, "slider", line, origin, unit(b["angle"]), jnp.array([1.0, 0.0])),
        }
        return with_crank(b, ("slider",), joints, start, turn)

    def pivots(self, b):
        return [b["pivot"]]
