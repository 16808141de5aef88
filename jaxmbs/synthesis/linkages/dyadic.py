"""Linkages of a crank and dyads: pairs of links that close one after the other, each in closed form."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxmbs import planar
from jaxmbs.element import GROUND
from jaxmbs.motion import Ramp
from jaxmbs.synthesis.linkages.dyads import KINDS, RPR, RRP, RRR, close_dyad, random_dyads
from jaxmbs.synthesis.linkages.linkage import Linkage, in_plane, placed_on, point_on_x, unit
from jaxmbs.system.mechanism import Mechanism

# Names of the joints of dyads in their order; O, which is left out, is the crank's pivot. With more joints: J1, J2, ….
JOINT_LETTERS = "ABCDEFGHIJKLMNPQRSTUVWXYZ"
# Design entries of the second and later dyads: kind ↦ name ↦ indices among the dyad's six numbers, see `dyads`.
LATER_DYAD_ENTRIES: dict[str, dict[str, tuple[int, ...]]] = {
    RRR: {"first": (0, 1), "second": (2, 3), "link": (4,), "arm": (5,)},
    RRP: {"first": (0, 1), "offset": (2,), "slope": (3,), "link": (4,)},
    RPR: {"first": (0, 1), "second": (2, 3), "offset": (4,)},
}
# Design entries of the first dyad: kind ↦ name ↦ indices among the dyad's six numbers. Its ends are on crank and
# ground, where their places are lengths along x.
FIRST_DYAD_ENTRIES: dict[str, dict[str, tuple[int, ...]]] = {
    RRR: {"second": (2,), "first": (0,), "coupler": (4,), "rocker": (5,)},
    RRP: {"first": (0,), "coupler": (4,), "offset": (2,)},
    RPR: {"second": (2,), "first": (0,), "offset": (4,)},
}
# Design entries of dyads that are positive lengths, whose free numbers are logarithms.
LENGTH_ENTRIES = ("ground", "crank", "coupler", "rocker", "link", "arm")


class Dyad(NamedTuple):
    """Two links with a common joint, between two other bodies.

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
    """A linkage of a crank and dyads: closed form, mechanism and pivots, for any choice of free numbers.

    Attributes:
        dyads: `Dyad`s in the order in which they close.
    """

    dyads: Any

    @property
    def links(self) -> int:
        """Number of moving links: the crank and two for each dyad, sliding blocks included."""
        return 1 + 2 * len(self.dyads)

    @property
    def signs(self) -> int:  # type: ignore[override]
        """Number of signs of the branch: one per dyad."""
        return len(self.dyads)

    @property
    def output(self) -> str:  # type: ignore[override]
        """Name of the body with the point: the first link of the last dyad."""
        return _link_names(len(self.dyads) - 1, self.dyads[-1].kind)[0]

    @property
    def entries(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the entries of a design, in their order."""
        return (*(name for name, *_ in self.dyad_entries()), "point", "angle", "pivot")

    @property
    def angles(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the entries that are angles."""
        return (*(name for name, *_ in self.dyad_entries() if name.startswith("slope")), "angle")

    def dyad_entries(self) -> Iterator[tuple[str, int, tuple[int, ...], str]]:
        """Yield for each entry of the dyads: name, dyad from 0, indices in its numbers, kind as `Linkage.numbers`."""
        on = {"first": self.dyads[0].link_on, "second": self.dyads[0].arm_on}
        for name, at in FIRST_DYAD_ENTRIES[self.dyads[0].kind].items():
            named = on.get(name, name)
            yield named, 0, at, "log" if named in LENGTH_ENTRIES else "length"
        for k, (*_, kind) in enumerate(self.dyads[1:], 1):
            for name, at in LATER_DYAD_ENTRIES[kind].items():
                without_number = k == 1 and name in LATER_DYAD_ENTRIES[RRR]
                kind_of_number = "log" if name in LENGTH_ENTRIES else "pure" if name == "slope" else "length"
                yield name if without_number else f"{name}{k + 1}", k, at, kind_of_number

    def six_numbers(self, b: dict) -> list[list[Any]]:
        """Return the six numbers of each dyad of a design (`linkages.dyads`); lengths are plain here, not logarithms."""
        numbers: list[list[Any]] = [[jnp.zeros_like(jnp.asarray(b["angle"]))] * 6 for _ in self.dyads]
        for name, k, at, _ in self.dyad_entries():
            x = jnp.reshape(jnp.asarray(b[name]), -1)
            for n, index in enumerate(at):
                numbers[k][index] = x[n]
        return numbers

    @property
    def bodies(self) -> np.ndarray:
        """Numbers (K, 2) of the bodies on which the links of each dyad begin.

        0 is the ground, 1 the crank; 2k + 2 and 2k + 3 are the links of dyad k, counted from 0.
        """
        names = names_of_bodies(self.dyads)
        return np.array([[names.index(i), names.index(j)] for i, j, _ in self.dyads])

    def frames(self, b, angle, signs):
        """Return the frames (origin, x axis) of all links by name, and the cosine of each dyad (K,)."""
        frames: dict[str, Any] = {
            GROUND: (jnp.zeros(2), point_on_x(jnp.ones(()))),
            "crank": (jnp.zeros(2), unit(angle)),
        }
        cosines = []
        for k, ((link_on, arm_on, kind), six) in enumerate(zip(self.dyads, self.six_numbers(b), strict=True)):
            link, arm = _link_names(k, kind)
            numbers = jnp.stack(six)
            frames[link], frames[arm], cosine = close_dyad(kind, frames[link_on], frames[arm_on], numbers, signs[k])
            cosines.append(cosine)
        return frames, jnp.stack(cosines)

    def mechanism(self, b, start=0.0, turn=1.0) -> Mechanism:  # type: ignore[override]
        """Return the mechanism with a "motor" that turns the crank by 2π `turn` in a unit of time, from the angle `start`.

        Joint "O" is the crank's pivot. Each dyad has three more letters in the order: beginning of the link, beginning
        of the arm, common joint; in the first dyad the common joint is the second.
        """
        b = {name: jnp.asarray(b[name], float) for name in self.entries}
        origin = jnp.zeros(2)
        has_letters = 3 * len(self.dyads) <= len(JOINT_LETTERS)
        joint_names = iter(JOINT_LETTERS) if has_letters else (f"J{k}" for k in itertools.count(1))
        on = lambda body, place: in_plane(b, place) if body == GROUND else place
        joints: dict[str, Any] = {"O": planar.Revolute(GROUND, "crank", b["pivot"], origin)}
        for k, ((link_on, arm_on, kind), six) in enumerate(zip(self.dyads, self.six_numbers(b), strict=True)):
            (link, arm), numbers = _link_names(k, kind), jnp.stack(six)
            first: Any = planar.Revolute(link_on, link, on(link_on, numbers[:2]), origin)
            second: Any = planar.Revolute(arm_on, arm, on(arm_on, numbers[2:4]), origin)
            if kind == RRR:
                common: Any = planar.Revolute(link, arm, point_on_x(numbers[4]), point_on_x(numbers[5]))
            elif kind == RRP:
                common = planar.Revolute(link, arm, point_on_x(numbers[4]), origin)
                way = unit(numbers[3])
                point = on(arm_on, placed_on(origin, way, jnp.stack([0 * numbers[2], numbers[2]])))
                way = placed_on(origin, unit(b["angle"]), way) if arm_on == GROUND else way
                second = planar.Translational(arm_on, arm, point, origin, way, jnp.array([1.0, 0.0]))
            else:
                place = jnp.stack([0 * numbers[4], numbers[4]])
                common = planar.Translational(link, arm, place, origin, jnp.array([1.0, 0.0]), jnp.array([1.0, 0.0]))
            order = (first, common, second) if k == 0 else (first, second, common)
            joints |= {next(joint_names): joint for joint in order}
        return Mechanism(
            bodies={name: planar.Body() for name in names_of_bodies(self.dyads)[1:]},
            constraints=joints,
            drivers={"motor": planar.RevoluteDriver(GROUND, "crank", Ramp(2 * jnp.pi * turn, start), b["angle"])},
        )

    def pivots(self, b):
        """Return the places of the pins on the ground, the crank's pivot first."""
        places = [
            in_plane(b, jnp.stack(six[at : at + 2]))
            for dyad, six in zip(self.dyads, self.six_numbers(b), strict=True)
            for body, at in ((dyad.link_on, 0), (dyad.arm_on, 2))
            if body == GROUND and not (at == 2 and dyad.kind == RRP)
        ]
        return [jnp.asarray(b["pivot"]), *places]


@dataclass(frozen=True)
class Dyadic(AbstractDyadic):
    """A crank on the ground, and dyads: each adds two links between two bodies of the linkage so far.

    Four-bars, slider-cranks, the six-bars of Watt and Stephenson, Jansen's and Klann's legs are of this kind, and many
    eight- and ten-bars. Each dyad closes by itself, so all poses have a closed form with one sign per dyad. The point
    is on the first link of the last dyad.

    The links of the first dyad are "coupler" and "rocker", those of the second "link" and "arm", then "link3" and
    "arm3"; a second link that slides, or is a block, is called "slider", "slider2", ….

    A design has, for the first dyad, the lengths `ground` between the pivots, `crank`, `coupler` and `rocker`, and the
    `offset` of a line, as far as the kind of the dyad has them. For a later dyad:

    | entry | meaning |
    |---|---|
    | `first`, `second` | beginnings of link and arm, in the frames of the bodies on which they begin |
    | `link`, `arm` | lengths, to the common joint |
    | `offset` | RRP: of the line from the origin of its body, to the left; RPR: of the block's pin from the link's line |
    | `slope` | RRP: the angle of the line in the frame of its body |

    From the third dyad on the names end with its number (`first3`), for the second one only `offset2` and `slope2`.
    A link's frame begins at its first joint, and x points to the common joint (RPR: along its line); an arm's frame
    begins at the beginning of the arm, and x points to the common joint; a slider's frame is at its pin with x along the
    line. The frames of crank and ground begin at the crank's pivot, the ground's with x along `angle`. `point` is in the
    frame of the last link. `pivot` is the place of the crank's pivot.

    The branch has a sign per dyad: +1 if the common pin is to the left of the line from `first` to `second`; if a slider
    is ahead, in the direction of its line; if a block is ahead on the link.

    Args:
        dyads: pairs of bodies (body on which the first link begins, body on which the second link begins), with a kind
            if it is not "RRR"; the first dyad is between crank and ground.

    Raises:
        ValueError: a body that is not in the linkage yet; both links on the same body; a dyad that does not move the
            point; an unknown kind.

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
        object.__setattr__(self, "dyads", _check_dyads(self.dyads))

    @property
    def name(self) -> str:  # type: ignore[override]
        """The dyads as text, such as "crank-ground, coupler-ground"."""
        return ", ".join(f"{i}-{j}{'' if kind == RRR else f' {kind}'}" for i, j, kind in self.dyads)

    @property
    def numbers(self) -> tuple[str, ...]:  # type: ignore[override]
        """Kinds of the free numbers."""
        own = [kind for *_, at, kind in self.dyad_entries() for _ in at]
        return (*own, "length", "length", "angle", "pivot", "pivot")

    def design(self, u):  # type: ignore[override]
        """Return the design of free numbers u, which are its entries with lengths as logarithms."""
        own = [(name, (kind,) * len(at)) for name, _, at, kind in self.dyad_entries()]
        last = [("point", ("length",) * 2), ("angle", ("angle",)), ("pivot", ("pivot",) * 2)]
        design, row = {}, 0
        for name, kinds in own + last:
            x = u[row : row + len(kinds)] if len(kinds) > 1 else u[row]
            design[name], row = jnp.exp(x) if kinds[0] == "log" else x, row + len(kinds)
        return design

    def free_numbers(self, dyads: np.ndarray, point: np.ndarray) -> np.ndarray:
        """Return free numbers of linkages with the crank's pivot at the origin and the angle 0.

        Args:
            dyads: the six numbers of each dyad, (count, K, 6).
            point: (count, 2).

        Returns:
            (count, n).
        """
        entries = [(dyads[:, k, at], kind) for _, k, at, kind in self.dyad_entries()]
        columns = [np.log(x) if kind == "log" else x for x, kind in entries]
        return np.column_stack([*columns, point, np.zeros((len(dyads), 3))])

    def sample(self, rng, count):  # type: ignore[override]
        """Return free numbers (count, n) of random linkages; their cranks turn fully on the branches from `random`."""
        return self.random(rng, count)[0]

    def random(self, rng, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return free numbers (count, n) and branches (count, K) of random linkages whose cranks turn fully."""
        bodies = np.broadcast_to(self.bodies, (count, len(self.dyads), 2))
        dyads, signs, point, _ = random_dyads(rng, bodies, [kind for *_, kind in self.dyads])
        return self.free_numbers(dyads, point), signs


def _link_names(k: int, kind: str) -> tuple[str, str]:
    """Return the names of the two links of dyad k, counted from 0, as in `Dyadic`."""
    number = "" if k < 2 else str(k + 1)
    slider = "slider" if k == 0 else f"slider{k + 1}"
    link, arm = ("coupler", "rocker") if k == 0 else (f"link{number}", f"arm{number}")
    return link, arm if kind == RRR else slider


def names_of_bodies(dyads) -> list[str]:
    """Return the names of all bodies in the order of their numbers, see `Dyadic.bodies`; dyads: (…, …, kind) each."""
    return [GROUND, "crank", *(name for k, (*_, kind) in enumerate(dyads) for name in _link_names(k, kind))]


def _check_dyads(dyads) -> tuple[Dyad, ...]:
    """Return an argument as `Dyad`s; raise ValueError if they do not close one after the other."""
    try:
        dyads = tuple(Dyad(*dyad) for dyad in dyads)
    except TypeError:
        raise ValueError(f"dyads must be pairs of bodies, or pairs with a kind, got {dyads!r}") from None
    if not dyads:
        raise ValueError("dyads must not be empty: the first one is between crank and ground")
    for k, (link_on, arm_on, kind) in enumerate(dyads):
        known = names_of_bodies(dyads[:k])
        if kind not in KINDS:
            raise ValueError(f"dyad {k + 1}: its kind must be one of {', '.join(KINDS)}, got {kind!r}")
        for body in (link_on, arm_on):
            if body not in known:
                raise ValueError(f"dyad {k + 1} is on {body!r}, which is not one of {', '.join(known)}")
        if link_on == arm_on:
            raise ValueError(f"dyad {k + 1} has both ends on {link_on!r} and would be rigid: the ends need two bodies")
    names = names_of_bodies(dyads)
    idle = set(range(len(dyads))) - dyads_below_last([(names.index(i), names.index(j)) for i, j, _ in dyads])
    if idle:
        raise ValueError(f"dyad {min(idle) + 1} does not move the point, which is on the last dyad; leave it out")
    return dyads


def dyads_below_last(bodies: Sequence[tuple[int, int]]) -> set[int]:
    """Return the numbers, from 0, of the last dyad and of those on which it depends; `bodies` as in `Dyadic.bodies`."""
    needed, to_visit = set(), [len(bodies) - 1]
    while to_visit:
        k = to_visit.pop()
        if k not in needed:
            needed.add(k)
            to_visit += [(body - 2) // 2 for body in bodies[k] if body > 1]
    return needed
