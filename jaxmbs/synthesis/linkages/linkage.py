"""Base class of linkages for path synthesis: free numbers, closed form, mechanism."""

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

# Lower limit on the squared height of the joint of two links above the line between their ends, relative to the squared
# length of the first link: at height zero its derivatives are infinite.
MIN_SQUARED_HEIGHT = 1e-12
# Value of the last free number of a linkage whose crank need not turn fully, if `can_swing`.
PART_OF_TURN = 0.0
# Added to squared lengths so that quotients stay finite where two pins coincide.
TINY = 1e-24


@dataclass(frozen=True)
class Linkage(abc.ABC):
    """A planar linkage with one crank and a point whose place has a closed form.

    A design is a mapping of names to lengths, coordinates and angles; its `angle` turns the whole linkage, and `pivot`
    is the place of the crank's pivot. Crank angles count from the direction of `angle`. A design is a function of free
    numbers that can have any value.

    Attributes:
        name: the name that `path` takes.
        entries: names of the entries of a design.
        angles: names of the entries that are angles.
        numbers: the kind of each free number: "log" for the logarithm of a length, "length", "angle", "pivot" (two
            numbers), or "pure".
        signs: number of signs of the branch, one for each pair of circles that intersect.
        output: the body with the point.
        can_swing: True if some of these linkages have a crank that does not turn fully; the last free number tells which.

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
        """Return the design, a mapping of entries, of free numbers u."""

    @staticmethod
    @abc.abstractmethod
    def sample(rng: np.random.Generator, count: int) -> np.ndarray:
        """Return free numbers (count, n) of random linkages of about unit size."""

    @abc.abstractmethod
    def frames(self, b: dict, angle, signs: Float[Array, " s"]) -> tuple[dict[str, Any], Float[Array, " c"]]:
        """Return the frames of links at a crank angle, and the cosines of the angles between links.

        There is a cosine for each pair of circles that intersect; beyond ±1 they do not, and the links are placed as if
        stretched.

        Args:
            b: the design.
            angle: crank angle in radians.
            signs: (s,), the branch.

        Returns:
            Origin (2,) and x axis (2,) by name of the link, in axes along the linkage's own line with the origin at the
            crank's pivot; and the cosines (c,).
        """

    @abc.abstractmethod
    def mechanism(self, b: dict, start=0.0, turn=1.0) -> Mechanism:
        """Return the mechanism with a motor that turns the crank by 2π `turn` in a unit of time, from the angle `start`."""

    @abc.abstractmethod
    def pivots(self, b: dict) -> list[Float[Array, "2"]]:
        """Return the places in the plane of the pivots on the ground."""

    def extreme_cosines(self, b: dict) -> Float[Array, " c"] | None:
        """Return the cosines of angles between links that are extreme over a turn; None if they have no closed form."""
        return None

    def has_full_turn(self, u: Float[Array, " n"] | np.ndarray):
        """Return True where the crank turns fully, for free numbers (…, n); another one need only reach its targets."""
        return u[..., -1] != PART_OF_TURN if self.can_swing else np.ones(u.shape[:-1], bool)

    def without_full_turn(self, u: np.ndarray) -> np.ndarray:
        """Return free numbers (count, n) changed to cranks that need not turn fully; needs `can_swing`."""
        return np.column_stack([u[:, :-1], np.full(len(u), PART_OF_TURN)])

    def point_and_cosines(
        self, b: dict, angle, signs: Float[Array, " s"]
    ) -> tuple[Float[Array, "2"], Float[Array, " c"]]:
        """Return the place of the point at a crank angle, and the cosines of `frames`."""
        frames, cosines = self.frames(b, angle, signs)
        origin, e = frames[self.output]
        return in_plane(b, placed_on(origin, e, b["point"])), cosines

    def guess(self, b: dict, angle, branch) -> dict[str, tuple]:
        """Return the assembled poses of the bodies by name at a crank angle; branch: one or several signs."""
        frames = _placed_frames(self, b, angle, jnp.atleast_1d(jnp.asarray(branch, float)))
        poses = {
            name: (*np.asarray(r), float(np.arctan2(e[1], e[0]))) for name, (r, e) in frames.items() if name != GROUND
        }
        # The motor's angle may include whole turns.
        return {**poses, "crank": (*poses["crank"][:2], float(b["angle"] + angle))}

    @property
    def has_closed_form(self) -> bool:
        """True if the angles between links over a turn have a closed form."""
        return self.extreme_cosines(self.design(jnp.zeros(self.size))) is not None

    @property
    def size(self) -> int:
        """Number of free numbers."""
        return len(self.numbers)

    def apply_similarity(self, u: np.ndarray, scale, turn, shift) -> np.ndarray:
        """Return the free numbers of linkages after scaling and turning about the origin, and a shift.

        Args:
            u: free numbers (N, n).
            scale: (N,).
            turn: (N,), angles in radians.
            shift: (N, 2), lengths.

        Returns:
            (N, n).
        """
        u, kinds = u.copy(), np.array(self.numbers)
        u[:, kinds == "log"] += np.log(scale)[:, None]
        u[:, kinds == "length"] *= scale[:, None]
        u[:, kinds == "angle"] += turn[:, None]
        x, y = (u[:, kinds == "pivot"] * scale[:, None]).T
        c, s = np.cos(turn), np.sin(turn)
        u[:, kinds == "pivot"] = np.column_stack([c * x - s * y, s * x + c * y]) + shift
        return u

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each entry of a design."""
        design = jax.eval_shape(self.design, jax.ShapeDtypeStruct((self.size,), float))
        return {name: design[name].shape for name in self.entries}

    def flat(self, b: dict) -> Array:
        """Return all numbers (n,) of a design in the order of its entries: the flat design."""
        return jnp.concatenate([jnp.reshape(b[name], -1) for name in self.entries])

    def is_kind(self, kind: str) -> np.ndarray:
        """Return a mask (n,) of the numbers of a flat design that are of a kind: "angle", "pivot" or "length"."""
        kinds = []
        for name, shape in self.shapes().items():
            entry_kind = "angle" if name in self.angles else "pivot" if name == "pivot" else "length"
            kinds += [entry_kind] * int(np.prod(shape))
        return np.array(kinds) == kind

    def to_search_units(self, flat: np.ndarray, centre, spread) -> np.ndarray:
        """Return a flat design in units of `spread` about `centre`: pivot − centre, and all but angles by spread."""
        moved = flat.copy()
        moved[self.is_kind("pivot")] -= centre
        return np.where(self.is_kind("angle"), moved, moved / spread)

    def from_search_units(self, b: dict, centre, spread) -> dict[str, Any]:
        """Return the design in the user's units from one in units of `spread` about `centre`."""
        restore = lambda name, x: x if name in self.angles else x * spread + (centre if name == "pivot" else 0)
        return {name: restore(name, b[name]) for name in self.entries}

    def result_in_user_units(self, b: dict, centre, spread) -> dict[str, Any]:
        """Return the design in the user's units, as floats and numpy arrays, with angles between −π and π."""
        design = self.from_search_units(b, centre, spread)
        design |= {name: np.arctan2(np.sin(design[name]), np.cos(design[name])) for name in self.angles}
        return {name: np.asarray(x) if np.ndim(x) else float(x) for name, x in design.items()}


@partial(jax.jit, static_argnums=0)
def _placed_frames(linkage, b, angle, signs):
    """Return the frames (origin, x axis) of the links in the axes of the plane, by name; arguments as `frames`."""
    b = {name: jnp.asarray(x, float) for name, x in b.items()}
    frames, _ = linkage.frames(b, angle, signs)
    return {name: (in_plane(b, r), placed_on(jnp.zeros(2), unit(b["angle"]), e)) for name, (r, e) in frames.items()}


def close_links(d, length, other, sign, xp: Any = jnp):
    """Close two links that meet, of lengths l and m, between two pins with the vector d from the first to the second.

    The common joint is at α d + β d⊥ from the first pin, α = (l² + d² − m²) / 2d², β² = l²/d² − α². If
    the links do not meet, β² has a small positive lower limit, so the vector e along the first link is no unit vector
    and |cosine| > 1.

    Args:
        d: (2, …), with further axes for batches.
        length: l.
        other: m.
        sign: +1 if the common joint is to the left of d, −1 if to the right.
        xp: jax.numpy, or numpy for double precision.

    Returns:
        The unit vector e (2, …) along the first link, and the cosine (…) of the interior angle of the triangle at the
        common joint.
    """
    square = d[0] ** 2 + d[1] ** 2 + TINY
    ratio = length**2 / square
    along = (ratio + 1 - other**2 / square) / 2
    height = sign * xp.sqrt(xp.maximum(ratio - along**2, MIN_SQUARED_HEIGHT * ratio))
    e = xp.stack([along * d[0] - height * d[1], along * d[1] + height * d[0]]) / length
    return e, cosine_between(length, other, square)


def end_on_line(height, length, sign, xp: Any = jnp):
    """Return the coordinates of a link's end on a line, along and across it, from the link's beginning, in its length.

    height: of the line above the beginning. sign: +1 if the end is ahead. xp: see `close_links`.
    """
    cosine = height / length
    return sign * xp.sqrt(xp.maximum(1 - cosine**2, MIN_SQUARED_HEIGHT)), cosine


def cosine_between(length, other, square):
    """Return the cosine between two links that meet, from their lengths and the squared distance of their far ends."""
    return (length**2 + other**2 - square) / (2 * length * other)


def placed_on(origin, e, point):
    """Return the place (2,) of a point with coordinates (2,) in a frame at `origin` with x along the unit vector e."""
    return origin + point[0] * e + point[1] * perpendicular(e)


def in_plane(b: dict, place):
    """Return the place (2,) in the plane of one in axes along the design's `angle`, counted from the crank's pivot."""
    return placed_on(b["pivot"], unit(b["angle"]), place)


def point_on_x(length):
    """Return the point (length, 0) as an array."""
    return jnp.stack([length, 0 * length])
