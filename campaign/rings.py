"""Rings of four hinges in space, whose constraints repeat each other: closed forms of their configurations."""

import abc
from typing import ClassVar

import jax.numpy as jnp

import jaxmbs as mbs
from campaign.closed_forms import ClosedForm
from campaign.linkages import FourBar
from jaxmbs import spatial

# Links of a ring of hinges, in the order of their hinges.
LINKS = ("ground", "crank", "coupler", "rocker")


class Ring(ClosedForm):
    """A ring of four hinges by lengths and twists of Denavit and Hartenberg.

    Each link has its first hinge at its origin, about its z axis, and its second one on its x axis, turned about it.
    The places of the first hinges of coupler and rocker are compared.
    """

    seconds = 60.0

    @abc.abstractmethod
    def links(self, b):
        """Return the lengths and the twists of the four links, ground first."""

    @abc.abstractmethod
    def turns(self, b, angle, floor):
        """Return the angles (rad) of crank, coupler and rocker from the link before each, about their first hinges."""

    def _second_hinges(self, b):
        """Yield the place and the axes of the second hinge of each link, in the frame of the link."""
        for length, twist in zip(*self.links(b), strict=True):
            yield length * jnp.eye(3)[0], mbs.rotation.matrix(mbs.rotation.about(0, twist))

    def mechanism(self, b):
        """Return the mechanism of a design: four links, four hinges, and a driver of the crank."""
        ends, own = list(self._second_hinges(b)), jnp.eye(3)
        hinges = {
            f"to {to}": spatial.Revolute(link, to, point, jnp.zeros(3), frame_i=frame, frame_j=own)
            for link, to, (point, frame) in zip(LINKS, (*LINKS[1:], LINKS[0]), ends, strict=True)
        }
        motor = spatial.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0), frame_i=ends[0][1], frame_j=own)
        return mbs.Mechanism({link: spatial.Body() for link in LINKS[1:]}, hinges, {"motor": motor})

    def formula(self, b, angle, floor):
        """Return q by the angles of the hinges, link by link."""
        place, turn, found = jnp.zeros(3), mbs.rotation.identity(), []
        for (point, frame), by in zip(self._second_hinges(b), self.turns(b, angle, floor), strict=False):
            place = place + mbs.rotation.matrix(turn) @ point
            turn = mbs.rotation.product(turn, mbs.rotation.from_matrix(frame))
            turn = mbs.rotation.product(turn, mbs.rotation.about(2, by))
            found += [place, turn]
        return jnp.concatenate(found)

    def values(self, b, angle):
        """Return the places of the first hinges of coupler and rocker by the closed form, (6,)."""
        q = self.formula(b, angle, 0.0)
        return jnp.concatenate([q[7:10], q[14:17]])

    def quantities(self, b, q, v, a):
        """Return these places in a motion, their velocities and accelerations, (6,) each."""
        rates = (jnp.concatenate([x[6:9], x[12:15]]) for x in (v, a))
        return jnp.concatenate([q[7:10], q[14:17]]), *rates

    def names(self):
        """Return the names of the compared quantities: six lengths."""
        return [f"{link}{axis}.x" for link in LINKS[2:] for axis in "xyz"]


class HingedFourBar(Ring):
    """A planar four-bar as a ring of four parallel hinges, whose redundant rows are the same everywhere."""

    name = "four hinges in a plane"
    about = "closed form: intersection of two circles; a third of the rows of the hinges are redundant everywhere"
    plane: ClassVar = FourBar()

    def designs(self, rng, count):
        """Return random lengths of the four bars."""
        return self.plane.designs(rng, count)

    def links(self, b):
        """Return lengths, that of the ground negative, and twists of 0."""
        # From the rocker's pivot back to the crank's.
        lengths = -b["ground"], b["crank"], b["coupler"], b["rocker"]
        return lengths, [jnp.zeros_like(b["ground"])] * 4

    def turns(self, b, angle, floor):
        """Return the angles of the first hinges of crank, coupler and rocker by the planar four-bar."""
        crank, coupler, rocker = self.plane.formula(b, angle, floor)[2::3]
        return crank, coupler - crank, rocker + jnp.pi - coupler

    def margin(self, b, low, high):
        """Return the margin of assembly of the planar four-bar, and its rounding bound."""
        return self.plane.margin(b, low, high)


class Bennett(Ring):
    """Opposite links are equal, a / sin α = b / sin β: tan(θ₁/2) tan(θ₂/2) = sin((α + β)/2) / sin((α − β)/2), θ₃ = −θ₁."""

    name = "Bennett's linkage"
    about = "closed form; the rows of the hinges are redundant only on the motion of the linkage"
    # Rounded numbers admit no motion: the rows with the largest pivots are kept, and the others are missed by the rounding
    # divided by these pivots.
    roundings: ClassVar[int] = 20_000

    def designs(self, rng, count):
        """Return random lengths and both twists."""
        twist = rng.uniform(0.3, 1.2, count)
        return {"length": rng.uniform(0.3, 3.0, count), "twist": twist, "other": twist + rng.uniform(0.2, 1.6, count)}

    def links(self, b):
        """Return the lengths and the twists of the four links; opposite links are equal."""
        other = b["length"] * jnp.sin(b["other"]) / jnp.sin(b["twist"])
        return [b["length"], other] * 2, [b["twist"], b["other"]] * 2

    def turns(self, b, angle, floor):
        """Return the angles of the first hinges of crank, coupler and rocker."""
        ratio = jnp.sin((b["twist"] + b["other"]) / 2) / jnp.sin((b["twist"] - b["other"]) / 2)
        return angle, 2 * jnp.arctan2(ratio * jnp.cos(angle / 2), jnp.sin(angle / 2)), -angle

    def size(self, b):
        """Return the length of ground and coupler."""
        return b["length"]
