"""Cognates of a four-bar: two other four-bars trace the same coupler curve (theorem of Roberts and Chebyshev)."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from jaxmbs import planar
from jaxmbs.motion import Ramp
from jaxmbs.numerics.arrays import is_concrete
from jaxmbs.synthesis.linkages.four_bar import FourBar
from jaxmbs.system.mechanism import Mechanism

# Smallest distance of the coupler point from a pin of the coupler, in coupler lengths. At a pin there are no cognates:
# `cognates` raises ValueError.
MIN_DISTANCE_FROM_PIN = 1e-12


class Cognate(NamedTuple):
    """A four-bar that traces the coupler curve of a given one.

    Attributes:
        design: dimensions of the cognate, named as for `FourBar`.
        follower: the link of the cognate, "crank" or "coupler", that turns with the crank of the given four-bar: its
            angle from the line of the cognate's pivots always equals the given crank angle.
        of: the design of the given four-bar.

    Examples:
        >>> design = dict(ground=2.0, crank=1.0, coupler=2.5, rocker=2.2, point=(1.0, 0.5), angle=0.0, pivot=(0.0, 0.0))
        >>> [cognate.follower for cognate in mbs.synthesis.cognates(design)]
        ['coupler', 'crank']
    """

    design: dict[str, Any]
    follower: str
    of: dict[str, Any]

    def at(self, angle: ArrayLike, branch) -> tuple[Array, Array]:
        """Return crank angle and branch of the cognate at which its point is where that of the given four-bar is.

        If the follower is the coupler, the crank may swing back and forth, and
        the branch changes where it reverses.

        Args:
            angle: crank angle of the given four-bar in radians; a number or an array (…).
            branch: its branch, 1 or −1.

        Returns:
            The crank angle in radians and the branch, both (…).
        """
        xp = _arrays(self.of, angle)
        if self.follower == "crank":
            return xp.asarray(angle), -branch * xp.ones_like(angle)
        pin, coupler, rocker, _ = FourBar.joints(self.of, xp.asarray(angle), branch, xp)
        side = pin[0] * rocker[1] - pin[1] * rocker[0]
        return xp.arctan2(coupler[1], coupler[0]), xp.where(side > 0, 1.0, -1.0)

    def mechanism(self, start=0.0, turn=1.0) -> Mechanism:
        """Return the cognate's mechanism with a motor that turns the follower by 2π `turn` in a unit of time.

        If both are driven alike, both points are at
        the same place at all times.

        Args:
            start: crank angle of the given four-bar at the time 0, in radians.
            turn: number of turns of the follower in a unit of time.

        Returns:
            The mechanism, with bodies "crank", "coupler" and "rocker" and the driver "motor".
        """
        mech = FourBar.mechanism(self.design, start, turn)
        if self.follower == "crank":
            return mech
        motor = planar.AbsoluteAngleDriver("coupler", Ramp(2 * jnp.pi * turn, start + self.design["angle"]))
        return Mechanism(bodies=mech.bodies, constraints=mech.constraints, drivers={"motor": motor})

    def guess(self, angle, branch) -> dict[str, tuple]:
        """Return the assembled poses of the bodies for a crank angle and branch of the given four-bar."""
        crank_angle, own_branch = self.at(angle, branch)
        guess = FourBar.guess(self.design, crank_angle, own_branch)
        if self.follower == "coupler":
            # The motor's angle may include whole turns.
            guess["coupler"] = (*guess["coupler"][:2], float(angle + self.design["angle"]))
        return guess


def cognates(design: dict[str, Any]) -> tuple[Cognate, Cognate]:
    """Return the two other four-bars whose coupler point traces the same curve.

    With pins A, B, pivots O, C and the point P = A + λ (B − A) as complex numbers, the third pivot is D = O + λ (C − O):

        first:  O, A₁ = O + (P − A), E = A₁ + λ (A − O), D;  ground, crank, coupler, rocker = |λ| (d, b, a, c);
        second: D, F = D + (1 − λ)(A − O), B₂ = C + (P − B), C;                              |1 − λ| (d, a, c, b).

    If the crank of the given four-bar turns fully, so does the crank of the second cognate, which can replace the given
    four-bar; of the first cognate the coupler turns fully. Roberts, Proc. London Math. Soc. 7 (1875); Hartenberg and
    Denavit, Kinematic Synthesis of Linkages (1964), chapter 6.

    Args:
        design: the entries "ground", "crank", "coupler", "rocker", "point", "angle" and "pivot", see `FourBar`. Traced
            values give traced designs.

    Returns:
        The first and the second cognate.

    Raises:
        ValueError: an entry is missing; the point is at a pin, where it traces a circle.

    Examples:
        >>> design = dict(ground=2.0, crank=1.0, coupler=2.5, rocker=2.2, point=(1.0, 0.5), angle=0.0, pivot=(0.0, 0.0))
        >>> _, second = mbs.synthesis.cognates(design)
        >>> print(round(float(second.design["crank"]), 6))  # |1 − λ| a
        0.632456
    """
    for name in FourBar.entries:
        if name not in design:
            raise ValueError(f"the design of a four-bar has {', '.join(FourBar.entries)}: {name!r} is missing")
    design = {name: design[name] for name in FourBar.entries}
    xp = _arrays(design)
    d, a, b, c = (xp.asarray(design[name]) for name in FourBar.lengths)
    point, pivot = xp.asarray(design["point"]), xp.asarray(design["pivot"])
    ratio = (point[0] + 1j * point[1]) / b
    rest = 1 - ratio
    size, other = xp.abs(ratio), xp.abs(rest)
    if xp is np and not min(size, other) > MIN_DISTANCE_FROM_PIN:
        raise ValueError("the point is at a pin of the coupler, where it traces a circle: there are no cognates")
    line = d * xp.exp(1j * xp.asarray(design["angle"]))
    third = pivot[0] + 1j * pivot[1] + ratio * line
    vector = lambda z: xp.stack([z.real, z.imag])

    def design_of(lengths, scale, point, turn, pivot):
        """Return the design of a four-bar with these lengths times `scale`, turned by a complex number `turn`."""
        sizes = {name: scale * length for name, length in zip(FourBar.lengths, lengths, strict=True)}
        return {**sizes, "point": vector(point), "angle": design["angle"] + xp.angle(turn), "pivot": pivot}

    first = design_of((d, b, a, c), size, size * a / ratio, ratio, pivot)
    second = design_of((d, a, c, b), other, -other * c * ratio / rest, rest, vector(third))
    return Cognate(first, "coupler", design), Cognate(second, "crank", design)


def _arrays(design, *more) -> Any:
    """Return the module numpy, which has double precision, if all values are known; else jax.numpy."""
    leaves = [*(design[name] for name in FourBar.entries), *more]
    return np if all(is_concrete(x) for x in leaves) else jnp
