"""The geared five-bar with a coupler point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from jaxmbs import planar
from jaxmbs.element import GROUND
from jaxmbs.motion import Ramp
from jaxmbs.synthesis.linkages.linkage import Linkage, close_links, in_plane, point_on_x, unit
from jaxmbs.system.mechanism import Mechanism


@dataclass(frozen=True)
class GearedFiveBar(Linkage):
    """Two geared cranks with two links between them; the point is on the first link, the coupler.

    If the first crank is at φ, the second one is at ratio · φ + phase, both from the line of the pivots. A ratio of −1 is
    a pair of equal gears, a positive ratio an internal gear, 1 a toothed belt. The curve closes in one turn if the
    ratio is an integer.

    A design has `ground`, `crank`, `coupler`, `link`, `arm`, the lengths around the loop from the first pivot, where
    `arm` is the second crank; `phase`; the `point` of the coupler, from the first crank's pin with x towards the common
    pin; the `angle` of the line from the first to the second pivot; and `pivot`, the place of the first pivot. The branch
    is +1 if the common pin is to the left of the line from the first crank's pin to the second one's.

    Args:
        ratio: angle of the second crank divided by that of the first.

    Examples:
        >>> b = dict(ground=4.0, crank=1.0, coupler=3.0, link=3.0, arm=1.0, phase=jnp.pi, point=jnp.zeros(2))
        >>> b |= dict(angle=0.0, pivot=jnp.zeros(2))
        >>> linkage = mbs.synthesis.GearedFiveBar(ratio=-1)
        >>> motion = mbs.kinematics(linkage.mechanism(b), jnp.array([0.0, 0.25]), linkage.guess(b, 0.0, 1))
        >>> print(motion.position("arm.phi").round(4))  # π − 2π t
        [3.1416 1.5708]
    """

    ratio: float = -1.0

    name: ClassVar[str] = "geared five-bar"
    entries: ClassVar[tuple[str, ...]] = (
        *("ground", "crank", "coupler", "link", "arm"),
        *("phase", "point", "angle", "pivot"),
    )
    angles: ClassVar[tuple[str, ...]] = ("phase", "angle")
    numbers: ClassVar[tuple[str, ...]] = (*("log",) * 5, "pure", "length", "length", "angle", "pivot", "pivot")
    output: ClassVar[str] = "coupler"

    def __post_init__(self):
        if not np.isfinite(self.ratio) or self.ratio == 0:
            raise ValueError(f"ratio must be a number other than zero, got {self.ratio!r}")

    @staticmethod
    def design(u):
        """Return the design of free numbers u (11,), whose first five are logarithms of lengths."""
        lengths = dict(zip(("ground", "crank", "coupler", "link", "arm"), jnp.exp(u[:5]), strict=True))
        return {**lengths, "phase": u[5], "point": u[6:8], "angle": u[8], "pivot": u[9:11]}

    @staticmethod
    def sample(rng, count):
        """Return free numbers (count, 11) of random linkages of about unit size."""
        u = np.zeros((count, 11))
        u[:, :5] = rng.uniform([-0.5, -1.5, 0.0, 0.0, -1.5], [1.0, 0.3, 1.2, 1.2, 0.3], (count, 5))
        u[:, 5] = rng.uniform(-np.pi, np.pi, count)
        u[:, 6:8] = 2 * rng.normal(size=(count, 2))
        return u

    def frames(self, b, angle, signs):
        """Return the frames (origin, x axis) of cranks and links by name, and the cosine between the links (1,)."""
        pin, far = b["crank"] * unit(angle), point_on_x(b["ground"])
        arm = unit(self.ratio * angle + b["phase"])
        line = far + b["arm"] * arm - pin
        e, cosine = close_links(line, b["coupler"], b["link"], signs[0])
        link = pin + line, (b["coupler"] * e - line) / b["link"]
        frames = {"crank": (jnp.zeros(2), unit(angle)), "coupler": (pin, e), "link": link, "arm": (far, arm)}
        return frames, cosine[None]

    def mechanism(self, b, start=0.0, turn=1.0) -> Mechanism:
        """Return the mechanism; its bodies have their origins at O, A, B and C and x along the links."""
        origin, far = jnp.zeros(2), in_plane(b, point_on_x(b["ground"]))
        joints = {
            "O": planar.Revolute(GROUND, "crank", b["pivot"], origin),
            "A": planar.Revolute("crank", "coupler", point_on_x(b["crank"]), origin),
            "P": planar.Revolute("coupler", "link", point_on_x(b["coupler"]), point_on_x(b["link"])),
            "B": planar.Revolute("link", "arm", origin, point_on_x(b["arm"])),
            "C": planar.Revolute(GROUND, "arm", far, origin),
            "gears": self._gears(b),
        }
        return Mechanism(
            bodies={name: planar.Body() for name in ("crank", "coupler", "link", "arm")},
            constraints=joints,
            drivers={"motor": planar.RevoluteDriver(GROUND, "crank", Ramp(2 * jnp.pi * turn, start), b["angle"])},
        )

    def _gears(self, b):
        """Return the constraint between the two cranks."""
        if self.ratio == 1:
            return planar.RelativeAngle("crank", "arm", b["phase"])
        # R₁ + R₂ is the distance of the pivots, ratio = −R₁/R₂; an internal gear has a negative radius.
        arm, origin = b["ground"] / (1 - self.ratio), jnp.zeros(2)
        sizes = {"radius_i": -self.ratio * arm, "radius_j": arm}
        return planar.Gear("crank", "arm", origin, origin, **sizes, angle_j=jnp.pi - b["phase"])

    def guess(self, b, angle, branch):
        """Return the assembled poses of the bodies at a crank angle; the second crank's angle includes whole turns."""
        poses = super().guess(b, angle, branch)
        # The gears count whole turns of the second crank.
        return {**poses, "arm": (*poses["arm"][:2], float(b["angle"] + self.ratio * angle + b["phase"]))}

    def pivots(self, b):
        """Return the places of the two pivots on the ground."""
        return [b["pivot"], in_plane(b, point_on_x(b["ground"]))]
