"""Topologies of linkages made of dyads, each listed once."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from jaxmbs.synthesis.linkages.dyadic import Dyad, Dyadic, dyads_below_last, names_of_bodies
from jaxmbs.synthesis.linkages.dyads import RPR, RRR

# A linkage: for each dyad the numbers of the bodies on which link and arm begin, as in `Dyadic.bodies`, and its kind.
Wiring = tuple[tuple[int, int, str], ...]


def topologies(links: int, kinds: Iterable[str] = (RRR,)) -> list[Dyadic]:
    """Return all dyadic linkages with this number of moving links and a point on the last dyad, without isomorphs.

    Two linkages are the same if renaming links makes them equal, where ground, crank, the link with the point, and the
    sliding pairs keep their roles. Linkages with the point on a link that is pinned to the ground are left out, because
    the point would move on a circle.

    Args:
        links: number of moving links: 3 for a four-bar, 5 for six-bars, 7 for eight-bars, 9 for ten-bars.
        kinds: kinds of dyads to use, from "RRR", "RRP" and "RPR"; see `Dyad`.

    Returns:
        The linkages, no two of them the same.

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
    distinct = {canonical(wiring) for wiring in _all_wirings(count, kinds)}
    return [linkage_of_wiring(wiring) for wiring in sorted(distinct, key=_sort_key)]


def linkage_of_wiring(wiring: Wiring) -> Dyadic:
    """Return the `Dyadic` with the dyads of a wiring."""
    names = names_of_bodies(wiring)
    return Dyadic(tuple(Dyad(names[i], names[j], kind) for i, j, kind in wiring))


def _all_wirings(count: int, kinds: tuple[str, ...]):
    """Yield all wirings of `count` dyads in which the last one depends on all others, isomorphic ones included."""
    ends = [list(itertools.permutations(range(2 * k + 2), 2)) for k in range(count)]
    for dyads in itertools.product(*(itertools.product(pairs, kinds) for pairs in ends)):
        bodies = [pair for pair, _ in dyads]
        on_circle = bodies[-1][0] == 0  # the link with the point is pinned to the ground
        if not on_circle and len(dyads_below_last(bodies)) == count:
            yield tuple((i, j, kind) for (i, j), kind in dyads)


def canonical(wiring: Wiring) -> Wiring:
    """Return the same wiring for all isomorphic ones: the first in order of those that describe the same linkage.

    These have the dyads in other orders, or link and arm exchanged, which are alike if both are pinned, or slide on each
    other. The last dyad, whose link has the point, stays as it is.
    """
    count, best = len(wiring), None
    swappable = [(False, True) if kind in (RRR, RPR) else (False,) for *_, kind in wiring[:-1]]
    for order in itertools.permutations(range(count - 1)):
        place = {dyad: k for k, dyad in enumerate((*order, count - 1))}
        if any(place[(body - 2) // 2] >= place[k] for k in range(count) for body in wiring[k][:2] if body > 1):
            continue
        for swapped in itertools.product(*swappable):
            one = _rename(wiring, place, (*swapped, False))
            best = one if best is None or _sort_key(one) < _sort_key(best) else best
    assert best is not None
    return best


def _sort_key(wiring: Wiring) -> tuple:
    """Return a sort key with the crank before the ground, because a coupler is on the crank."""
    other = (1, 0)
    return tuple((*(other[body] if body < 2 else body for body in (i, j)), kind) for i, j, kind in wiring)


def _rename(wiring: Wiring, place: dict[int, int], swapped: tuple[bool, ...]) -> Wiring:
    """Return the same linkage with dyad k moved to place[k], and its link and arm exchanged if swapped[k]."""

    def new_number(number: int) -> int:
        """Return the new number of a body; ground and crank keep theirs."""
        if number < 2:
            return number
        dyad, side = divmod(number - 2, 2)
        return 2 + 2 * place[dyad] + (side ^ swapped[dyad])

    out: list = [None] * len(wiring)
    for dyad, (i, j, kind) in enumerate(wiring):
        i, j = (j, i) if swapped[dyad] else (i, j)
        out[place[dyad]] = new_number(i), new_number(j), kind
    return tuple(out)


def random_wirings(dyads: int, kinds: tuple[str, ...], count: int, rng) -> list[Wiring]:
    """Return `count` random wirings of `dyads` dyads in which the last dyad depends on all others; rng: of numpy."""
    out: list[Wiring] = []
    for _ in range(count):
        ends: list[list[int]] = [[1, 0], *([] for _ in range(dyads - 1))]
        # At least one later dyad begins on each dyad.
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
