"""Dyadic topologies: counted a second time from all kinematic chains, whose numbers are published."""

import itertools

import numpy as np
import pytest

from jaxmbs import synthesis
from jaxmbs.synthesis.linkages.topologies import canonical, linkage_of_wiring, random_wirings

# Chains with one degree of freedom and their inversions, by links; T. S. Mruthyunjaya, Kinematic structure of mechanisms
# revisited, Mechanism and Machine Theory 38 (2003) 279-320.
PUBLISHED = {6: (2, 5), 8: (16, 71)}


def graphs(degrees):
    """All graphs with vertices 0, 1, … of these degrees, as adjacency matrices."""
    count = len(degrees)

    def rows(matrix, k):
        if k == count:
            yield matrix.copy()
            return
        left = degrees[k] - matrix[k].sum()
        free = [n for n in range(k + 1, count) if matrix[n].sum() < degrees[n]]
        for chosen in itertools.combinations(free, max(left, 0)):
            if left < 0:
                break
            matrix[k, list(chosen)] = matrix[list(chosen), k] = 1
            yield from rows(matrix, k + 1)
            matrix[k, list(chosen)] = matrix[list(chosen), k] = 0

    yield from rows(np.zeros((count, count), int), 0)


def moves(matrix):
    """Return True if no part of a chain is rigid: 3 (v − 1) − 2 e > 0 for all v links with e joints between them."""
    for size in range(3, len(matrix)):
        for part in itertools.combinations(range(len(matrix)), size):
            joints = matrix[np.ix_(part, part)].sum() // 2
            if 3 * (size - 1) - 2 * joints < 1:
                return False
    return True


def mark(matrix, *marked):
    """Numbers that no renaming of links changes: the characteristic polynomial, with weights at marked links."""
    weighted = matrix.astype(float)
    for weight, link in zip((7, 19, 43), marked, strict=False):
        weighted[link, link] = weight
    return tuple(np.rint(np.poly(weighted)).astype(int).tolist())


def chains(links):
    """All kinematic chains with one degree of freedom."""
    more = links // 2 * 3 - 2 - links  # joints beyond the number of links
    found = {}
    for above in itertools.combinations_with_replacement(range(2 * more + 1), links):
        if sum(above) != 2 * more:
            continue
        for matrix in graphs([2 + x for x in sorted(above, reverse=True)]):
            key = mark(matrix)
            if key not in found and moves(matrix):
                found[key] = matrix
    return list(found.values())


def dyads(matrix, ground, crank):
    """The dyads of a mechanism by the links that they are between, in an order in which they close; None if there is a part
    that is none."""
    known, out = [ground, crank], []
    while len(known) < len(matrix):
        rest = [k for k in range(len(matrix)) if k not in known]
        pairs = [(u, v) for u, v in itertools.combinations(rest, 2) if matrix[u, v]]
        pair = next((p for p in pairs if all(matrix[k, known].sum() == 1 for k in p)), None)
        if pair is None:
            return None
        out.append((pair, [next(n for n in known if matrix[k, n]) for k in pair]))
        known += pair
    return out


def all_matter(found, point):
    """Return True if the link depends on every dyad."""
    needed, todo = set(), [point]
    while todo:
        link = todo.pop()
        for k, (pair, on) in enumerate(found):
            if link in pair and k not in needed:
                needed.add(k)
                todo += on
    return len(needed) == len(found)


@pytest.mark.parametrize("links", [6, 8])
def test_counts_agree_with_all_chains(links):
    """From the published chains, every ground, crank and link with the point: those that close dyad by dyad."""
    every = chains(links)
    inversions = {mark(matrix, ground) for matrix in every for ground in range(links)}
    assert (len(every), len(inversions)) == PUBLISHED[links]
    counted = set()
    for matrix in every:
        for ground, crank in itertools.permutations(range(links), 2):
            found = dyads(matrix, ground, crank) if matrix[ground, crank] else None
            for point in range(links) if found else ():
                if not matrix[ground, point] and point != ground and all_matter(found, point):
                    counted.add(mark(matrix, ground, crank, point))
    assert len(synthesis.topologies(links - 1)) == len(counted)


def test_each_is_there_once():
    """Other names of the same linkage are recognised, and another linkage is not taken for it."""
    one = ((1, 0, "RRR"), (2, 0, "RRR"), (4, 3, "RRR"))
    exchanged = ((0, 1, "RRR"), (3, 0, "RRR"), (4, 2, "RRR"))
    assert canonical(one) == canonical(exchanged)
    assert canonical(one) != canonical(((1, 0, "RRR"), (2, 0, "RRR"), (5, 3, "RRR")))
    # A link that slides through a block is a block through which a link slides.
    block = ((1, 0, "RPR"), (2, 0, "RRR"))
    assert canonical(block) == canonical(((0, 1, "RPR"), (3, 0, "RRR"))) != canonical(((1, 0, "RPR"), (3, 0, "RRR")))
    names = [linkage.name for linkage in synthesis.topologies(7)]
    assert len({*names}) == len(names)
    known = {linkage.name for linkage in synthesis.topologies(5)}
    assert {synthesis.Dyadic(synthesis.SixBar(kind).dyads).name for kind in ("Watt I", "Stephenson III")} <= known


def test_many_links():
    """Random topologies with twenty joints: every dyad matters, which `Dyadic` checks."""
    wirings = random_wirings(6, ("RRR", "RRP"), 50, np.random.default_rng(0))
    linkages = [linkage_of_wiring(wiring) for wiring in wirings]
    assert {linkage.links for linkage in linkages} == {13}
    assert len({linkage.name for linkage in linkages}) > 40


@pytest.mark.parametrize("links", [2, 4, 6, 3.5, True])
def test_numbers_of_links(links):
    with pytest.raises(ValueError, match="odd number"):
        synthesis.topologies(links)
