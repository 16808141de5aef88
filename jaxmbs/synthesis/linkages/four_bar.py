"""The planar four-bar with a coupler point, as synthesis sees it: free numbers, closed form, mechanism."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.element import GROUND
from jaxmbs.synthesis.linkages.dyadic import AbstractDyadic, Dyad, Dyadic
from jaxmbs.synthesis.linkages.linkage import PART_OF_TURN, cosine_between, dyad
from jaxmbs.system.mechanism import Mechanism

# Kinds that turn all round: the shortest link is the crank, or the ground.
CRANK, DRAG_LINK = 1.0, -1.0
# One random linkage in this many is a drag-link.
DRAG_LINK_EVERY = 4


@dataclass(frozen=True)
class FourBar(AbstractDyadic):
    """Ground, crank, coupler and rocker with a point of the coupler, anywhere in the plane.

    The last free number says which kind it is. In two of the kinds the crank turns all round whatever the other numbers
    are, Grashof's condition: with the slack m > 0, coupler + rocker = ground + crank + m, and |coupler − rocker| <
    |ground − crank|. Either the crank is the shortest link, or the ground, in a drag-link, where the rocker turns all
    round as well. (A four-bar whose coupler is the shortest link has a cognate with such a crank, which draws the same
    curve.) In the third kind lengths are free, and the driven link may pass only a part of a turn.

    A design has the lengths `ground`, `crank`, `coupler`, `rocker`; `point`, of the coupler, from the crank's pin in
    axes of which x points to the rocker's pin; `angle` of the line from the crank's pivot to the rocker's; and `pivot`,
    the crank's. Crank angles count from that line. The branch is +1 where the coupler lies to the left of the line from
    the crank's pin to the rocker's pivot, −1 to the right.

    Examples:
        >>> b = dict(ground=4.0, crank=1.0, coupler=3.0, rocker=3.0)
        >>> b |= dict(point=jnp.array([1.5, 1.0]), angle=0.0, pivot=jnp.zeros(2))
        >>> linkage = mbs.synthesis.FourBar()
        >>> motion = mbs.kinematics(linkage.mechanism(b), jnp.array([0.0, 0.25]), linkage.guess(b, 0.0, 1))
        >>> print(motion.point("coupler", b["point"]).round(3))  # at 0° and 90° of the crank
        [[0.884 1.799]
         [0.726 2.65 ]]
    """

    dyads: Any = field(init=False, repr=False, default=(Dyad("crank", GROUND),))

    name: ClassVar[str] = "four-bar"
    entries: ClassVar[tuple[str, ...]] = ("ground", "crank", "coupler", "rocker", "point", "angle", "pivot")
    numbers: ClassVar[tuple[str, ...]] = (*("log",) * 3, "pure", "length", "length", "angle", "pivot", "pivot", "pure")
    lengths: ClassVar[tuple[str, ...]] = ("ground", "crank", "coupler", "rocker")
    output: ClassVar[str] = "coupler"
    can_swing: ClassVar[bool] = True

    @staticmethod
    def design(u: Float[Array, "10"]) -> dict[str, Array]:
        """The design of free numbers u: logarithms of the shorter one of crank and ground, of what the other one is longer
        by, and of the slack; a number whose tanh says by how much coupler and rocker differ; the point, the angle, the
        pivot; the kind. Of the kind with free lengths the first four are logarithms of ground, crank and coupler, and
        of the ratio of rocker and coupler."""
        shorter, more, slack = jnp.exp(u[0]), jnp.exp(u[1]), jnp.exp(u[2])
        longer = shorter + more
        together, apart = longer + shorter + slack, more * jnp.tanh(u[3])
        drags, free = u[9] == DRAG_LINK, u[9] == PART_OF_TURN
        return {
            "ground": jnp.where(free | drags, shorter, longer),
            "crank": jnp.where(free, more, jnp.where(drags, longer, shorter)),
            "coupler": jnp.where(free, slack, (together + apart) / 2),
            "rocker": jnp.where(free, slack * jnp.exp(u[3]), (together - apart) / 2),
            "point": u[4:6],
            "angle": u[6],
            "pivot": u[7:9],
        }

    @staticmethod
    def sample(rng: np.random.Generator, count: int) -> np.ndarray:
        """Free numbers of random linkages of about unit size."""
        u = np.zeros((count, 10))
        low, high = np.array([[-1.0, -1.0, -2.0, -1.5], [0.7, 1.5, 1.0, 1.5]])
        u[:, :4] = rng.uniform(low, high, (count, 4))
        u[:, 4:6] = 2 * rng.normal(size=(count, 2))
        u[:, 9] = CRANK
        u[DRAG_LINK_EVERY - 1 :: DRAG_LINK_EVERY, 9] = DRAG_LINK
        return u

    @staticmethod
    def joints(b: dict, angle, sign, xp: Any = jnp):
        """The crank's pin in axes along the line of the pivots, the directions of coupler and rocker, and the cosine of the
        angle between these. xp: see `dyad`."""
        pin = b["crank"] * xp.stack([xp.cos(angle), xp.sin(angle)])
        line = xp.stack([b["ground"] - pin[0], -pin[1]])
        e, cosine = dyad(line, b["coupler"], b["rocker"], sign, xp)
        return pin, e, (b["coupler"] * e - line) / b["rocker"], cosine

    @staticmethod
    def point(b: dict, angle, branch) -> Float[Array, "2"]:
        """Where the coupler point is at a crank angle."""
        return Dyadic().seen(b, angle, jnp.stack([branch]))[0]

    def everywhere(self, b):
        # Where the crank lies on the line of the pivots, before and behind.
        square = jnp.stack([b["ground"] - b["crank"], b["ground"] + b["crank"]]) ** 2
        return cosine_between(b["coupler"], b["rocker"], square)

    @staticmethod
    def mechanism(b: dict, start=0.0, turn=1.0) -> Mechanism:  # type: ignore[override]
        """Bodies "crank", "coupler" and "rocker" with their origins at O, A and C and x along the links; a motor that turns
        the crank by 2π in a unit of time, from the angle `start`, backwards if `turn` is −1."""
        return Dyadic().mechanism(b, start, turn)

    @staticmethod
    def guess(b: dict, angle, branch) -> dict[str, tuple]:  # type: ignore[override]
        """The assembled poses of the bodies at a crank angle."""
        return Dyadic().guess(b, angle, branch)
