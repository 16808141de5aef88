"""The planar four-bar with a coupler point: free numbers, closed form, mechanism."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.element import GROUND
from jaxmbs.synthesis.linkages.dyadic import AbstractDyadic, Dyad, Dyadic
from jaxmbs.synthesis.linkages.linkage import PART_OF_TURN, close_links, cosine_between
from jaxmbs.system.mechanism import Mechanism

# Value of the last free number of a four-bar whose shortest link is the crank, which turns fully.
CRANK = 1.0
# Value of the last free number of a drag-link, a four-bar whose shortest link is the ground.
DRAG_LINK = -1.0
# One random four-bar in this many is a drag-link.
DRAG_LINK_EVERY = 4


@dataclass(frozen=True)
class FourBar(AbstractDyadic):
    """Ground, crank, coupler and rocker with a point of the coupler, anywhere in the plane.

    There are three kinds. In two of them the crank turns fully for any free numbers, by Grashof's condition: with the
    slack m > 0, coupler + rocker = ground + crank + m, and |coupler − rocker| < |ground − crank|. Either the crank is the
    shortest link, or the ground is; that is a drag-link, whose rocker turns fully as well. (A four-bar whose coupler is
    the shortest link has a cognate with such a crank, which draws the same curve.) In the third kind lengths are free,
    and the crank may turn through a part of a turn only.

    A design has the lengths `ground`, `crank`, `coupler`, `rocker`; the `point` of the coupler, from the crank's pin with
    x towards the rocker's pin; the `angle` of the line from the crank's pivot to the rocker's; and `pivot`, the place of
    the crank's pivot. Crank angles count from that line. The branch is +1 if the coupler lies to the left of the line
    from the crank's pin to the rocker's pivot, −1 if to the right.

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
        """Return the design of free numbers.

        The first three are the logarithms of the shorter of crank and ground, of its difference to the longer one, and of
        the slack. The tanh of the fourth is the difference of coupler and rocker, relative to that of crank and ground.
        Then come point, angle, pivot and kind. In the kind with free lengths the first four are the logarithms of
        ground, crank, coupler, and of the ratio of rocker and coupler.

        Args:
            u: (10,).

        Returns:
            Lengths, angle in radians, point (2,) and pivot (2,) by name.
        """
        shorter, more, slack = jnp.exp(u[0]), jnp.exp(u[1]), jnp.exp(u[2])
        longer = shorter + more
        total, difference = longer + shorter + slack, more * jnp.tanh(u[3])
        drags, free = u[9] == DRAG_LINK, u[9] == PART_OF_TURN
        return {
            "ground": jnp.where(free | drags, shorter, longer),
            "crank": jnp.where(free, more, jnp.where(drags, longer, shorter)),
            "coupler": jnp.where(free, slack, (total + difference) / 2),
            "rocker": jnp.where(free, slack * jnp.exp(u[3]), (total - difference) / 2),
            "point": u[4:6],
            "angle": u[6],
            "pivot": u[7:9],
        }

    @staticmethod
    def sample(rng: np.random.Generator, count: int) -> np.ndarray:
        """Return free numbers (count, 10) of random linkages of about unit size."""
        u = np.zeros((count, 10))
        low, high = np.array([[-1.0, -1.0, -2.0, -1.5], [0.7, 1.5, 1.0, 1.5]])
        u[:, :4] = rng.uniform(low, high, (count, 4))
        u[:, 4:6] = 2 * rng.normal(size=(count, 2))
        u[:, 9] = CRANK
        u[DRAG_LINK_EVERY - 1 :: DRAG_LINK_EVERY, 9] = DRAG_LINK
        return u

    @staticmethod
    def joints(b: dict, angle, sign, xp: Any = jnp):
        """Return the crank's pin, the directions of coupler and rocker, and the cosine of the angle between these two.

        Args:
            b: the design.
            angle: crank angle in radians.
            sign: the branch, 1 or −1.
            xp: see `close_links`.

        Returns:
            The pin (2,), two unit vectors (2,), in axes along the line of the pivots, and a number.
        """
        pin = b["crank"] * xp.stack([xp.cos(angle), xp.sin(angle)])
        line = xp.stack([b["ground"] - pin[0], -pin[1]])
        e, cosine = close_links(line, b["coupler"], b["rocker"], sign, xp)
        return pin, e, (b["coupler"] * e - line) / b["rocker"], cosine

    @staticmethod
    def point(b: dict, angle, branch) -> Float[Array, "2"]:
        """Return the place of the coupler point at a crank angle."""
        return Dyadic().point_and_cosines(b, angle, jnp.stack([branch]))[0]

    def extreme_cosines(self, b):
        """Return the cosines (2,) of the angle between coupler and rocker at the crank's two dead positions."""
        # The crank is then on the line of the pivots.
        square = jnp.stack([b["ground"] - b["crank"], b["ground"] + b["crank"]]) ** 2
        return cosine_between(b["coupler"], b["rocker"], square)

    @staticmethod
    def mechanism(b: dict, start=0.0, turn=1.0) -> Mechanism:  # type: ignore[override]
        """Return the mechanism with a motor that turns the crank.

        Args:
            b: the design.
            start: crank angle at the time 0, in radians.
            turn: number of turns in a unit of time.

        Returns:
            The mechanism. Its bodies "crank", "coupler" and "rocker" have their origins at O, A and C and x along the
            links.
        """
        return Dyadic().mechanism(b, start, turn)

    @staticmethod
    def guess(b: dict, angle, branch) -> dict[str, tuple]:  # type: ignore[override]
        """Return the assembled poses of the bodies at a crank angle."""
        return Dyadic().guess(b, angle, branch)
