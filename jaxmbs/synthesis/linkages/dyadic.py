"""Linkages of a crank and dyads: pairs of links that close one after the other, each in closed form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxmbs import planar
from jaxmbs.element import GROUND
from jaxmbs.motion import Ramp
from jaxmbs.synthesis.linkages.dyads import KINDS, RPR, RRP, RRR, closed, random_dyads
from jaxmbs.synthesis.linkages.linkage import Linkage, along, from_line, placed_on, unit
from jaxmbs.system.mechanism import Mechanism

# Names of joints in their order; O is the crank's.
LETTERS = "ABCDEFGHIJKLMNPQRSTUVWXYZ"
# Entries of a further dyad: where they are among its six numbers, and what these are.
ENTRIES: dict[str, dict[str, tuple[int, ...]]] = {
    RRR: {"first": (0, 1), "second": (2, 3), "link": (4,), "arm": (5,)},
    RRP: {"first": (0, 1), "offset": (2,), "slope": (3,), "link": (4,)},
    RPR: {"first": (0, 1), "second": (2, 3), "offset": (4,)},
}
# The same of the first dyad, whose ends are on the crank and the ground; their places there are lengths along x.
OF_FIRST: dict[str, dict[str, tuple[int, ...]]] = {
    RRR: {"second": (2,), "first": (0,), "coupler": (4,), "rocker": (5,)},
    RRP: {"first": (0,), "coupler": (4,), "offset": (2,)},
    RPR: {"second": (2,), "first": (0,), "offset": (4,)},
}
LOGARITHMS = ("ground", "crank", "coupler", "rocker", "link", "arm")


class Dyad(NamedTuple):
    """Two links with a common joint, between two others.

    Attributes:
        link_on: the body on which the first link begins.
        arm_on: the body on which the second link begins.
        kind: the joints in their order. "RRR": three pins. "RRP": the end of the first link is pinned to a slider on a
            straight line of the body `arm_on`. "RPR": the first link slides through a block that is pinned to `arm_on`.

    Examples:
        >>> mbs.synthesis.Dyad("coupler", "ground")
        Dyad(link_on='coupler', arm_on='ground', kind='RRR')
    """

    link_on: str
    arm_on: str
    kind: str = RRR


@dataclass(frozen=True)
class AbstractDyadic(Linkage):
    """A linkage of a crank and dyads: closed form, mechanism and pivots, whatever its free numbers are.

    Attributes:
        dyads: `Dyad`s in the order in which they close.
    """

    dyads: Any

    @property
    def links(self) -> int:
        """The number of links that move."""
        return 1 + 2 * len(self.dyads)

    @property
    def signs(self) -> int:  # type: ignore[override]
        """One per dyad."""
        return len(self.dyads)

    @property
    def output(self) -> str:  # type: ignore[override]
        """The first link of the last dyad."""
        return _names(len(self.dyads) - 1, self.dyads[-1].kind)[0]

    @property
    def entries(self) -> tuple[str, ...]:  # type: ignore[override]
        """Of a design, in their order."""
        return (*(name for name, *_ in self.places()), "point", "angle", "pivot")

    @property
    def angles(self) -> tuple[str, ...]:  # type: ignore[override]
        """The entries that are angles."""
        return (*(name for name, *_ in self.places() if name.startswith("slope")), "angle")

    def places(self) -> Iterator[tuple[str, int, tuple[int, ...], str]]:
        """Entries of the dyads: the name, the dyad, where in its six numbers, and what a free number of it is."""
        on = {"first": self.dyads[0].link_on, "second": self.dyads[0].arm_on}
        for name, at in OF_FIRST[self.dyads[0].kind].items():
            named = on.get(name, name)
            yield named, 0, at, "log" if named in LOGARITHMS else "length"
        for k, (*_, kind) in enumerate(self.dyads[1:], 1):
            for name, at in ENTRIES[kind].items():
                plain = k == 1 and name in ENTRIES[RRR]
                what = "log" if name in LOGARITHMS else "pure" if name == "slope" else "length"
                yield name if plain else f"{name}{k + 1}", k, at, what

    def six_numbers(self, b: dict) -> list[list[Any]]:
        """The six numbers of each dyad of a design."""
        out: list[list[Any]] = [[jnp.zeros_like(jnp.asarray(b["angle"]))] * 6 for _ in self.dyads]
        for name, k, at, _ in self.places():
            x = jnp.reshape(jnp.asarray(b[name]), -1)
            for n, where in enumerate(at):
                out[k][where] = x[n]
        return out

    @property
    def bodies(self) -> np.ndarray:
        """(K, 2): the bodies on which the links of each dyad begin, by numbers: 0 the ground, 1 the crank, 2k + 2 and
        2k + 3 the links of dyad k from 0."""
        index = {name: k for k, name in enumerate(names_of_bodies(self.dyads))}
        return np.array([[index[i], index[j]] for i, j, _ in self.dyads])

    def frames(self, b, angle, signs):
        frames: dict[str, Any] = {GROUND: (jnp.zeros(2), along(jnp.ones(()))), "crank": (jnp.zeros(2), unit(angle))}
        cosines = []
        for k, ((link_on, arm_on, kind), six) in enumerate(zip(self.dyads, self.six_numbers(b), strict=True)):
            link, arm = _names(k, kind)
            numbers = jnp.stack(six)
            frames[link], frames[arm], cosine = closed(kind, frames[link_on], frames[arm_on], numbers, signs[k])
            cosines.append(cosine)
        return frames, jnp.stack(cosines)

    def mechanism(self, b, start=0.0, turn=1.0) -> Mechanism:  # type: ignore[override]
        """The mechanism with a motor "motor" that turns the crank by 2π in a unit of time, from the angle `start`,
        backwards if `turn` is −1. Joint "O" is the crank's pivot; each dyad has three more letters, in the order:
        where the link begins, where the arm does, the common joint; of the first dyad the common joint is the second."""
        b = {name: jnp.asarray(b[name], float) for name in self.entries}
        origin, letters = jnp.zeros(2), iter(LETTERS if len(self.dyads) <= len(LETTERS) // 3 else _numbers())
        on = lambda body, place: from_line(b, place) if body == GROUND else place
        joints: dict[str, Any] = {"O": planar.Revolute(GROUND, "crank", b["pivot"], origin)}
        for k, ((link_on, arm_on, kind), six) in enumerate(zip(self.dyads, self.six_numbers(b), strict=True)):
            (link, arm), numbers = _names(k, kind), jnp.stack(six)
            first: Any = planar.Revolute(link_on, link, on(link_on, numbers[:2]), origin)
            second: Any = planar.Revolute(arm_on, arm, on(arm_on, numbers[2:4]), origin)
            if kind == RRR:
                common: Any = planar.Revolute(link, arm, along(numbers[4]), along(numbers[5]))
            elif kind == RRP:
                common = planar.Revolute(link, arm, along(numbers[4]), origin)
                way = unit(numbers[3])
                point = on(arm_on, placed_on(origin, way, jnp.stack([0 * numbers[2], numbers[2]])))
                way = placed_on(origin, unit(b["angle"]), way) if arm_on == GROUND else way
                second = planar.Translational(arm_on, arm, point, origin, way, jnp.array([1.0, 0.0]))
            else:
                place = jnp.stack([0 * numbers[4], numbers[4]])
                common = planar.Translational(link, arm, place, origin, jnp.array([1.0, 0.0]), jnp.array([1.0, 0.0]))
            order = (first, common, second) if k == 0 else (first, second, common)
            joints |= {next(letters): joint for joint in order}
        return Mechanism(
            bodies={name: planar.Body() for name in names_of_bodies(self.dyads)[1:]},
            constraints=joints,
            drivers={"motor": planar.RevoluteDriver(GROUND, "crank", Ramp(2 * jnp.pi * turn, start), b["angle"])},
        )

    def pivots(self, b):
        places = [
            from_line(b, jnp.stack(six[at : at + 2]))
            for dyad, six in zip(self.dyads, self.six_numbers(b), strict=True)
            for body, at in ((dyad.link_on, 0), (dyad.arm_on, 2))
            if body == GROUND and not (at == 2 and dyad.kind == RRP)
        ]
        return [jnp.asarray(b["pivot"]), *places]


@dataclass(frozen=True)
class Dyadic(AbstractDyadic):
    """A crank on the ground, and dyads: each puts two further links between two bodies that are there already.

    Four-bars, slider-cranks, the six-bars of Watt and Stephenson, Jansen's and Klann's legs are of this kind, and many
    eight- and ten-bars. Each dyad closes by itself, so that everything has a closed form with one sign per dyad. The
    point is on the first link of the last dyad.

    The links of the first dyad are "coupler" and "rocker", those of the second "link" and "arm", then "link3" and
    "arm3"; "slider", "slider2" … where the second one slides, or is a block.

    A design has, for the first dyad, the lengths `ground` between the pivots, `crank`, `coupler` and `rocker`, as far
    as there are such, and the `offset` of a line. For a further dyad:

    | entry | what it is |
    |---|---|
    | `first`, `second` | where link and arm begin, in the frames of the bodies on which they do |
    | `link`, `arm` | lengths, to the common joint |
    | `offset` | RRP: of the line from the origin of its body, to the left; RPR: of the block's pin from the link's line |
    | `slope` | RRP: the angle of the line in the frame of its body |

    From the third dyad on the entries have its number at the end (`first3`), for the second one `offset2` and `slope2`.
    A link's frame begins at its first joint, and x points to the common joint (RPR: along its line); an arm's frame
    begins where the arm does and x points to the common joint; a slider's is at its pin with x along the line. The
    frames of crank and ground begin at the crank's pivot, the ground's with x along `angle`. `point` is in the frame of
    the last link. `pivot` is the place of the crank's pivot.

    The branch has a sign per dyad: +1 where the common pin is to the left of the line from `first` to `second`; where a
    slider is ahead, in the direction of its line; where a block is ahead on the link.

    Args:
        dyads: pairs of bodies, (on which the first link begins, on which the second does), with a kind if it is not
            "RRR"; the first dyad is between crank and ground.

    Raises:
        ValueError: a body that is not there yet; both links on the same body; a dyad that does not move the point; an
            unknown kind.

    Examples:
        >>> jansen = mbs.synthesis.Dyadic([("crank", "ground"), ("crank", "ground"), ("arm", "rocker")])
        >>> jansen.output, jansen.links, jansen.size
        ('link3', 7, 21)
        >>> whitworth = mbs.synthesis.Dyadic([("ground", "crank", "RPR")])
        >>> whitworth.entries
        ('crank', 'ground', 'offset', 'point', 'angle', 'pivot')
    """

    dyads: Any = (Dyad("crank", GROUND),)

    def __post_init__(self):
        object.__setattr__(self, "dyads", _checked(self.dyads))

    @property
    def name(self) -> str:  # type: ignore[override]
        """Its dyads, such as "crank-ground, coupler-ground"."""
        return ", ".join(f"{i}-{j}{'' if kind == RRR else f' {kind}'}" for i, j, kind in self.dyads)

    @property
    def numbers(self) -> tuple[str, ...]:  # type: ignore[override]
        """What each free number is."""
        own = [kind for *_, at, kind in self.places() for _ in at]
        return (*own, "length", "length", "angle", "pivot", "pivot")

    def design(self, u):  # type: ignore[override]
        """The design of free numbers u: logarithms of lengths, and all else as it is."""
        own = [(name, (kind,) * len(at)) for name, _, at, kind in self.places()]
        last = [("point", ("length",) * 2), ("angle", ("angle",)), ("pivot", ("pivot",) * 2)]
        out, row = {}, 0
        for name, kinds in own + last:
            x = u[row : row + len(kinds)] if len(kinds) > 1 else u[row]
            out[name], row = jnp.exp(x) if kinds[0] == "log" else x, row + len(kinds)
        return out

    def free_numbers(self, dyads: np.ndarray, point: np.ndarray) -> np.ndarray:
        """Free numbers (count, n) from the six numbers of each dyad (count, K, 6), and points (count, 2), for a crank's
        pivot at the origin and an angle of 0."""
        columns = [np.log(dyads[:, k, at]) if kind == "log" else dyads[:, k, at] for _, k, at, kind in self.places()]
        return np.column_stack([*columns, point, np.zeros((len(dyads), 3))])

    def sample(self, rng, count):  # type: ignore[override]
        """Free numbers of random linkages; on the branches that `random` gives they turn all round."""
        return self.random(rng, count)[0]

    def random(self, rng, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Random linkages that turn all round: free numbers (count, n), and their branches (count, K)."""
        bodies = np.broadcast_to(self.bodies, (count, len(self.dyads), 2))
        dyads, signs, point, _ = random_dyads(rng, bodies, [kind for *_, kind in self.dyads])
        return self.free_numbers(dyads, point), signs


def _names(k: int, kind: str) -> tuple[str, str]:
    """Of the two links of dyad k, from 0."""
    number = "" if k < 2 else str(k + 1)
    slider = "slider" if k == 0 else f"slider{k + 1}"
    link, arm = ("coupler", "rocker") if k == 0 else (f"link{number}", f"arm{number}")
    return link, arm if kind == RRR else slider


def names_of_bodies(dyads) -> list[str]:
    return [GROUND, "crank", *(name for k, (*_, kind) in enumerate(dyads) for name in _names(k, kind))]


def _numbers() -> Iterator[str]:
    """Names of more joints than there are letters."""
    return (f"J{k}" for k in range(1, 10**6))


def _checked(given) -> tuple[Dyad, ...]:
    """The dyads of a topology.

    Raises:
        ValueError: it is not dyadic.
    """
    try:
        dyads = tuple(Dyad(*dyad) for dyad in given)
    except TypeError:
        raise ValueError(f"dyads must be pairs of bodies, or pairs with a kind, got {given!r}") from None
    if not dyads:
        raise ValueError("dyads must not be empty: the first one is between crank and ground")
    for k, (link_on, arm_on, kind) in enumerate(dyads):
        known = names_of_bodies(dyads[:k])
        if kind not in KINDS:
            raise ValueError(f"dyad {k + 1}: its kind must be one of {', '.join(KINDS)}, got {kind!r}")
        for body in (link_on, arm_on):
            if body not in known:
                raise ValueError(f"dyad {k + 1} is on {body!r}, which is none of {', '.join(known)}")
        if link_on == arm_on:
            raise ValueError(
                f"dyad {k + 1} has both ends on {link_on!r}; it would be rigid, so the ends need two bodies"
            )
    idle = set(range(len(dyads))) - needed(dyads)
    if idle:
        raise ValueError(f"dyad {min(idle) + 1} does not move the point, which is on the last dyad; leave it out")
    return dyads


def needed(dyads) -> set[int]:
    """The dyads on which the last one depends, itself among them."""
    made = {name: k for k, (*_, kind) in enumerate(dyads) for name in _names(k, kind)}
    found, todo = set(), [len(dyads) - 1]
    while todo:
        k = todo.pop()
        if k not in found:
            found.add(k)
            todo += [made[body] for body in dyads[k][:2] if body in made]
    return found
