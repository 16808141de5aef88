"""All ways to put dyads together, each once."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from jaxmbs.synthesis.linkages.dyadic import Dyad, Dyadic, names_of_bodies, needed
from jaxmbs.synthesis.linkages.dyads import RPR, RRR

# (on which the link begins, on which the arm does, kind) of each dyad; bodies as in `Dyadic.bodies`.
Wiring = tuple[tuple[int, int, str], ...]


def topologies(links: int, kinds: Iterable[str] = (RRR,)) -> list[Dyadic]:
    """All dyadic linkages with this number of moving links and a point on the last dyad, without isomorphs.

    Two linkages are the same if the one becomes the other by giving other names to its links, where the ground, the
    crank, the link with the point and what slides on what keep their parts. Links that are pinned to the ground have no
    point, as it would go on a circle.

    Args:
        links: moving links: 3 of a four-bar, 5 of six-bars, 7 of eight-bars, 9 of ten-bars.
        kinds: of dyads that are used, of "RRR", "RRP" and "RPR"; see `Dyad`.

    Raises:
        ValueError: an even number of links, or fewer than three.

    Examples:
        >>> [len(mbs.synthesis.topologies(links)) for links in (3, 5, 7)]
        [1, 8, 84]
        >>> mbs.synthesis.topologies(5)[0].name
        'crank-ground, crank-coupler'
    """
    if isinstance(links, bool) or not isinstance(links, int) or links < 3 or links % 2 == 0:
        raise ValueError(f"links must be an odd number from 3 on: a crank and two for each dyad, got {links!r}")
    count, kinds = (int(links) - 1) // 2, tuple(kinds)
    found = {canonical(wiring) for wiring in _wirings(count, kinds)}
    return [linkage_of_wiring(wiring) for wiring in sorted(found, key=_key)]


def linkage_of_wiring(wiring: Wiring) -> Dyadic:
    """The linkage with these dyads."""
    names = names_of_bodies([(i, j, kind) for i, j, kind in wiring])
    return Dyadic(tuple(Dyad(names[i], names[j], kind) for i, j, kind in wiring))


def _wirings(count: int, kinds: tuple[str, ...]):
    """All of them, in all their names, whose dyads all matter for the last one."""
    ends = [[(i, j) for i, j in itertools.permutations(range(2 * k + 2), 2)] for k in range(count)]
    for dyads in itertools.product(*(itertools.product(pairs, kinds) for pairs in ends)):
        wiring = tuple((i, j, kind) for (i, j), kind in dyads)
        names = names_of_bodies(wiring)
        on_circle = wiring[-1][0] == 0  # a link that is pinned to the ground
        if not on_circle and len(needed([(names[i], names[j], kind) for i, j, kind in wiring])) == count:
            yield wiring


def canonical(wiring: Wiring) -> Wiring:
    """The first of all names of the same linkage: dyads in other orders; link and arm exchanged, which are alike if both
    are pinned, or slide on each other. The last dyad, whose link has the point, stays."""
    count, best = len(wiring), None
    swappable = [(False, True) if kind in (RRR, RPR) else (False,) for *_, kind in wiring[:-1]]
    for order in itertools.permutations(range(count - 1)):
        place = {dyad: k for k, dyad in enumerate((*order, count - 1))}
        if any(place[(body - 2) // 2] >= place[k] for k in range(count) for body in wiring[k][:2] if body > 1):
            continue
        for swapped in itertools.product(*swappable):
            one = _renamed(wiring, place, (*swapped, False))
            best = one if best is None or _key(one) < _key(best) else best
    assert best is not None
    return best


def _key(wiring: Wiring) -> tuple:
    """The crank comes before the ground: a coupler is on the crank."""
    other = (1, 0)
    return tuple((*(other[body] if body < 2 else body for body in (i, j)), kind) for i, j, kind in wiring)


def _renamed(wiring: Wiring, place: dict[int, int], swapped: tuple[bool, ...]) -> Wiring:
    """The same linkage with its dyads in other places, and links and arms of some exchanged."""

    def body(number: int) -> int:
        if number < 2:
            return number
        dyad, side = divmod(number - 2, 2)
        return 2 + 2 * place[dyad] + (side ^ swapped[dyad])

    out: list = [None] * len(wiring)
    for dyad, (i, j, kind) in enumerate(wiring):
        i, j = (j, i) if swapped[dyad] else (i, j)
        out[place[dyad]] = body(i), body(j), kind
    return tuple(out)


def random_wirings(dyads: int, kinds: tuple[str, ...], count: int, rng) -> list[Wiring]:
    """Random topologies whose dyads all matter for the point: for more dyads than can be listed."""
    out: list[Wiring] = []
    for _ in range(count):
        ends: list[list[int]] = [[1, 0], *([] for _ in range(dyads - 1))]
        # Each dyad carries a later one.
        for k in range(dyads - 2, -1, -1):
            later = [n for n in range(k + 1, dyads) if len(ends[n]) < 2]
            ends[int(rng.choice(later))].append(2 * k + 2 + int(rng.integers(2)))
        for k in range(1, dyads):
            others = [body for body in range(2 * k + 2) if body not in ends[k]]
            ends[k] += [int(body) for body in rng.choice(others, 2 - len(ends[k]), replace=False)]
            ends[k] = [ends[k][n] for n in rng.permutation(2)]
        if ends[-1][0] == 0:
            ends[-1].reverse()
        out.append(tuple((i, j, str(rng.choice(kinds))) for i, j in ends))
    return out
