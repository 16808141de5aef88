"""What a linkage with a crank has to say for path synthesis: free numbers, closed form, mechanism."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.element import GROUND
from jaxmbs.numerics.plane import direction as unit
from jaxmbs.numerics.plane import perpendicular
from jaxmbs.system.mechanism import Mechanism

# Below this part of its square the height of an elbow counts as zero: there its slope by the lengths is infinite.
FLAT = 1e-12
# The last free number of a linkage whose crank need not turn all round.
PART_OF_TURN = 0.0
# Keeps the quotient finite where two pins meet; no part of a length squared otherwise.
TINY = 1e-24


@dataclass(frozen=True)
class Linkage(abc.ABC):
    """A planar linkage with one crank and a point whose place has a closed form.

    A design has lengths and coordinates, and `angles`; an `angle` turns the whole linkage, a `pivot` is the place of
    the crank's. Crank angles count from the direction of `angle`. A design is a function of free numbers that can have
    any value.

    Attributes:
        name: as `path` takes it.
        entries: of a design.
        angles: those of them that are angles.
        numbers: what each free number is: "log" of a length, "length", "angle", "pivot" (two of them), or a "pure"
            number.
        signs: number of signs that say which branch it is, one for each pair of circles that intersect.
        output: the body with the point.
        can_swing: whether there are linkages among them whose crank does not turn all round; the last free number says so.

    Examples:
        >>> linkage = mbs.synthesis.SliderCrank()
        >>> linkage.name, linkage.entries, linkage.output
        ('slider-crank', ('crank', 'coupler', 'offset', 'point', 'angle', 'pivot'), 'coupler')
    """

    name: ClassVar[str]
    entries: ClassVar[tuple[str, ...]]
    angles: ClassVar[tuple[str, ...]] = ("angle",)
    numbers: ClassVar[tuple[str, ...]]
    signs: ClassVar[int] = 1
    output: ClassVar[str]
    can_swing: ClassVar[bool] = False

    @staticmethod
    @abc.abstractmethod
    def design(u: Float[Array, " n"]) -> dict[str, Array]:
        """The design of free numbers."""

    @staticmethod
    @abc.abstractmethod
    def sample(rng: np.random.Generator, count: int) -> np.ndarray:
        """Free numbers (count, n) of random linkages of about unit size."""

    @abc.abstractmethod
    def frames(self, b: dict, angle, signs: Float[Array, " s"]) -> tuple[dict[str, Any], Float[Array, " c"]]:
        """Origin and direction of x of each link at a crank angle, in axes along the linkage's own line from the crank's
        pivot; and the cosines of the angles between the links where circles intersect: beyond ±1 they do not, and the
        links are as if stretched."""

    @abc.abstractmethod
    def mechanism(self, b: dict, start=0.0, turn=1.0) -> Mechanism:
        """The mechanism with a motor that turns the crank by 2π in a unit of time, from the angle `start`, backwards if
        `turn` is −1."""

    @abc.abstractmethod
    def pivots(self, b: dict) -> list[Float[Array, "2"]]:
        """The places on the ground about which links turn."""

    def everywhere(self, b: dict) -> Float[Array, " c"] | None:
        """The least and the largest cosine over a turn; None where they have no closed form."""
        return None

    def turns(self, u: Float[Array, " n"] | np.ndarray):
        """Whether the crank turns all round, by the free numbers; where not, it need not reach more than its targets. The
        last axis of u is that of the numbers."""
        return u[..., -1] != PART_OF_TURN if self.can_swing else np.ones(u.shape[:-1], bool)

    def swinging(self, u: np.ndarray) -> np.ndarray:
        """Free numbers (count, n) of linkages whose crank need not turn all round, of numbers of any; where `can_swing`."""
        return np.column_stack([u[:, :-1], np.full(len(u), PART_OF_TURN)])

    def seen(self, b: dict, angle, signs: Float[Array, " s"]) -> tuple[Float[Array, "2"], Float[Array, " c"]]:
        """Where the point is at a crank angle, and the cosines of `frames`."""
        frames, cosines = self.frames(b, angle, signs)
        origin, e = frames[self.output]
        return from_line(b, placed_on(origin, e, b["point"])), cosines

    def guess(self, b: dict, angle, branch) -> dict[str, tuple]:
        """The assembled poses of the bodies at a crank angle."""
        return guess_of(self, b, angle, branch)

    @property
    def has_closed_form(self) -> bool:
        """Whether one is known of the angles between links over a turn."""
        return self.everywhere(self.design(jnp.zeros(self.size))) is not None

    @property
    def size(self) -> int:
        """The number of free numbers."""
        return len(self.numbers)

    def placed(self, u: np.ndarray, scale, turn, shift) -> np.ndarray:
        """Free numbers of the same linkages larger by `scale`, then turned about the origin and shifted; one row each."""
        u, kinds = u.copy(), np.array(self.numbers)
        u[:, kinds == "log"] += np.log(scale)[:, None]
        u[:, kinds == "length"] *= scale[:, None]
        u[:, kinds == "angle"] += turn[:, None]
        x, y = (u[:, kinds == "pivot"] * scale[:, None]).T
        c, s = np.cos(turn), np.sin(turn)
        u[:, kinds == "pivot"] = np.column_stack([c * x - s * y, s * x + c * y]) + shift
        return u

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each entry of a design."""
        given = jax.eval_shape(self.design, jax.ShapeDtypeStruct((self.size,), float))
        return {name: given[name].shape for name in self.entries}

    def flat(self, b: dict) -> Array:
        """All numbers of a design in the order of its entries."""
        return jnp.concatenate([jnp.reshape(b[name], -1) for name in self.entries])

    def of_kind(self, kind: str) -> np.ndarray:
        """Which numbers of a flat design are "angle"s, a "pivot", or "length"s."""
        kinds = []
        for name, shape in self.shapes().items():
            own = "angle" if name in self.angles else "pivot" if name == "pivot" else "length"
            kinds += [own] * int(np.prod(shape))
        return np.array(kinds) == kind

    def scaled(self, flat: np.ndarray, centre, spread) -> np.ndarray:
        """All numbers of a design, lengths as parts of `spread` and places after `centre` was taken away."""
        moved = flat.copy()
        moved[self.of_kind("pivot")] -= centre
        return np.where(self.of_kind("angle"), moved, moved / spread)

    def unscaled(self, b: dict, centre, spread) -> dict[str, Any]:
        """A design of which all was divided by `spread` after `centre` was taken away, as it was."""
        moved = lambda name, x: x if name in self.angles else x * spread + (centre if name == "pivot" else 0)
        return {name: moved(name, b[name]) for name in self.entries}

    def in_units(self, b: dict, centre, spread) -> dict[str, Any]:
        """The same in numpy, numbers as numbers, angles between −π and π."""
        true = self.unscaled(b, centre, spread)
        true |= {name: np.arctan2(np.sin(true[name]), np.cos(true[name])) for name in self.angles}
        return {name: np.asarray(x) if np.ndim(x) else float(x) for name, x in true.items()}


def guess_of(linkage: Linkage, b: dict, angle, branch) -> dict[str, tuple]:
    """The assembled poses of the bodies of a linkage at a crank angle."""
    found = _placed_frames(linkage, b, angle, jnp.atleast_1d(jnp.asarray(branch, float)))
    poses = {name: (*np.asarray(r), float(np.arctan2(e[1], e[0]))) for name, (r, e) in found.items() if name != GROUND}
    # As the motor counts it, which may be some turns more.
    return {**poses, "crank": (*poses["crank"][:2], float(b["angle"] + angle))}


@partial(jax.jit, static_argnums=0)
def _placed_frames(linkage, b, angle, signs):
    b = {name: jnp.asarray(x, float) for name, x in b.items()}
    frames, _ = linkage.frames(b, angle, signs)
    return {name: (from_line(b, r), placed_on(jnp.zeros(2), unit(b["angle"]), e)) for name, (r, e) in frames.items()}


def dyad(d, length, other, sign, xp: Any = jnp):
    """Two links that meet, from pins with the vector d from the one to the other: the unit vector along the first link, and
    the cosine of the angle between the two.

    The joint is at α d + β d⊥ from the first pin, α = (l² + d² − m²) / 2d², β² = l²/d² − α²; a sign of +1 has it to the
    left of d. xp: jax.numpy, or numpy for its double precision; further axes of d are those of a batch.
    """
    square = d[0] ** 2 + d[1] ** 2 + TINY
    ratio = length**2 / square
    along = (ratio + 1 - other**2 / square) / 2
    height = sign * xp.sqrt(xp.maximum(ratio - along**2, FLAT * ratio))
    e = xp.stack([along * d[0] - height * d[1], along * d[1] + height * d[0]]) / length
    return e, cosine_between(length, other, square)


def slide(height, length, sign, xp: Any = jnp):
    """A link whose end is pinned to a line, from a height below it: how far the end is ahead along the line and above the
    beginning, both in lengths of the link. xp: as of `dyad`."""
    cosine = height / length
    return sign * xp.sqrt(xp.maximum(1 - cosine**2, FLAT)), cosine


def cosine_between(length, other, square):
    """The cosine of the angle between two links of which the far ends have a distance with this square."""
    return (length**2 + other**2 - square) / (2 * length * other)


def placed_on(origin, e, point):
    """Coordinates in a frame at `origin` with x along the unit vector e, as a place."""
    return origin + point[0] * e + point[1] * perpendicular(e)


def from_line(b: dict, place):
    """A place given from the crank's pivot in axes along the linkage's own line, in the plane."""
    return placed_on(b["pivot"], unit(b["angle"]), place)


def along(length):
    """A point so far along x."""
    return jnp.stack([length, 0 * length])
