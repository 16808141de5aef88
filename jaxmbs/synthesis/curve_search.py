"""The search for linkages that draw a curve: random ones of all topologies, descent, dyads added to the best."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jaxmbs.search.multistart import PUSH, START_DAMPING, Search, State, advancing, finite
from jaxmbs.search.stages import Part, in_stages
from jaxmbs.synthesis.drawing import Chains, Drawing, Layout, Limits, placed, tracks
from jaxmbs.synthesis.linkages.dyads import RRR, random_dyads
from jaxmbs.synthesis.shapes import resampled

# Points of the curve, and crank angles: of the search, and of its end.
COARSE, FINE = 48, 160
# Random linkages that are looked at for each start, and how many of them at once.
RANDOM_LINKAGES_PER_START = 24
COMPARED_AT_ONCE = 10_000
# Points by which random curves are compared with the wanted one.
SAMPLES = 48
# What parts of the length of a random curve an open one may be.
PARTS = (0.33, 0.42, 0.5, 0.6, 0.7, 0.8, 0.9)
# A part of a curve whose square extent is less than this of the whole one's is too small to be compared.
SMALL = 0.02
# Steps between two reports.
AT_ONCE = 25
# Steps of all starts, of the better ones, of those with a dyad more, and at the end.
FIRST, BETTER, GROWN, LAST = 25, 75, 75, 100
# Linkages of every number of dyads that go on, and that go to the end.
BEST, BEST_AT_END = 96, 24
# Linkages that are made by a dyad more of each one that goes on.
CHILDREN = 8
# The least and the largest distance of their point from that of the linkage before, in units of the curve.
STEPS_OF_POINT = 0.02, 0.5


class Wanted(NamedTuple):
    """What is wanted.

    Attributes:
        points: (T, 2) of the curve, in units of its spread about its centre. limits, limited: see `Drawing`.
        topologies: by the number of dyads: by their kinds, the bodies (n, K, 2) of all topologies.
        grows: whether linkages with a dyad more may be made of others. mirrors: whether the curve may be mirrored.
    """

    points: np.ndarray
    limits: Limits
    limited: tuple[str, ...]
    topologies: dict[int, dict[tuple[str, ...], np.ndarray]]
    grows: bool
    mirrors: bool


def searched(layout: Layout, wanted: Wanted, search: Search, task: Any) -> State:
    """The state after all stages: rows and chains of linkages, those with the same number of dyads by their costs."""
    curves = {count: resampled(wanted.points, count, layout.closed) for count in (COARSE, FINE)}
    stage = lambda count, push: advancing(Drawing(layout, count, wanted.limited), (curves[count], wanted.limits, push))
    coarse, fine = stage(COARSE, PUSH), stage(FINE, 10 * PUSH)
    rng = lambda k: np.random.default_rng([search.seed, k])
    start = _started(layout, wanted, search.starts, rng(0))
    keep = lambda count: lambda state: _best(state, count)
    parts = [Part(FIRST, AT_ONCE, coarse), Part(BETTER, AT_ONCE, coarse, keep(2 * BEST))]
    for k in range(1, layout.dyads if wanted.grows else 1):
        parts.append(Part(GROWN, AT_ONCE, coarse, lambda state, k=k: _grown(layout, _best(state, BEST), k, rng(k))))
    parts += [Part(BETTER, AT_ONCE, coarse, keep(2 * BEST)), Part(LAST, AT_ONCE, fine, keep(BEST_AT_END))]
    least = lambda state: float(np.sqrt(finite(state.cost).min()))
    return in_stages(parts, start, best=least, progress=search.progress, resume=search.resume, task=task)


def _best(state: State, count: int) -> State:
    """The best of each number of dyads, with Marquardt's damping as at the beginning."""
    cost, active = finite(state.cost), np.asarray(state.data.active)
    order = np.argsort(cost, kind="stable")
    rows = np.concatenate([order[active[order] == n][:count] for n in np.unique(active)])
    return _rows(state, rows)


def _rows(state: State, rows) -> State:
    take = lambda x: np.asarray(x)[rows]
    chains = Chains(*(take(x) for x in state.data))
    count = len(chains.active)
    return State(
        take(state.shared), np.zeros((count, 0, 0)), (), take(state.cost), np.full(count, START_DAMPING), chains
    )


def _started(layout: Layout, wanted: Wanted, starts: int, rng) -> State:
    """The random linkages whose curves are most like the wanted one after a similarity, of each number of dyads."""
    each = max(starts // len(wanted.topologies), 1)
    found = [_offered(layout, dyads, wanted, each, rng) for dyads in wanted.topologies]
    u = np.concatenate([u for u, _ in found])
    chains = Chains(*(np.concatenate(x) for x in zip(*(chains for _, chains in found), strict=True)))
    return State.begin(u, chains)


def _offered(layout: Layout, dyads: int, wanted: Wanted, starts: int, rng) -> tuple[np.ndarray, Chains]:
    """Of one number of dyads."""
    offered = starts * RANDOM_LINKAGES_PER_START
    shapes = wanted.topologies[dyads]
    kinds = sorted(shapes)
    shares = np.bincount(rng.integers(0, len(kinds), offered), minlength=len(kinds))
    rows, everything, drawn = [], [], []
    for names, share in zip(kinds, shares, strict=True):
        bodies = shapes[names][rng.integers(0, len(shapes[names]), share)]
        numbers, signs, point, curve = random_dyads(rng, bodies, names)
        u, chains = _embedded(layout, bodies, names, numbers, signs, point)
        rows.append(u)
        everything.append(chains)
        drawn.append(curve)
    u, curves = np.concatenate(rows), np.concatenate(drawn)
    chains = Chains(*(np.concatenate(x) for x in zip(*everything, strict=True)))
    blocks = np.array_split(curves, len(curves) // COMPARED_AT_ONCE + 1)
    found = zip(*(compared(block, wanted.points, layout.closed) for block in blocks), strict=True)
    misfit, factor, shift, begin, span = (np.concatenate(x) for x in found)
    best = np.argsort(misfit, kind="stable")[:starts]
    u, chains = u[best], Chains(*(x[best] for x in chains))
    if wanted.mirrors:
        chains = chains._replace(mirrored=rng.choice([-1.0, 1.0], len(best)))
    if not layout.closed:
        u[:, layout.way] = np.column_stack([begin, span])[best]
    return placed(layout, u, chains.bodies, chains.kinds, factor[best], shift[best]), chains


def _embedded(layout: Layout, bodies, names, numbers, signs, point) -> tuple[np.ndarray, Chains]:
    """Rows of linkages with fewer dyads than there may be."""
    count, dyads, _ = bodies.shape
    u, rest = np.zeros((count, layout.size)), layout.dyads - dyads
    of_dyads = np.zeros((count, layout.dyads, 6))
    # Further dyads are somewhere on the ground.
    of_dyads[:, dyads:, 2] = 1.0
    of_dyads[:, :dyads, :4] = numbers[:, :, :4]
    is_block = np.array([name == "RPR" for name in names])
    logarithm = np.log(np.where(numbers[:, :, 4:] > 0, numbers[:, :, 4:], 1.0))
    of_dyads[:, :dyads, 4] = np.where(is_block, numbers[:, :, 4], logarithm[:, :, 0])
    of_dyads[:, :dyads, 5] = logarithm[:, :, 1]
    u[:, 2 : 2 + 6 * layout.dyads] = of_dyads.reshape(count, -1)
    u[:, layout.point] = point
    which = np.array([layout.kinds.index(name) for name in names] + [0] * rest)
    chains = Chains(
        np.concatenate([bodies, np.zeros((count, rest, 2), int)], axis=1),
        np.broadcast_to(which, (count, layout.dyads)).copy(),
        np.concatenate([signs, np.ones((count, rest))], axis=1),
        np.full(count, dyads),
        np.ones(count),
    )
    return u, chains


def compared(curves: np.ndarray, points: np.ndarray, closed: bool):
    """How unlike closed curves (S, N), complex, or parts of them, are to the wanted one after the best similarity.

    Returns:
        The rest of the wanted square extent, the factor and the shift of the similarity, and the crank angles at which
        the part begins and through which it goes, (S,) each.
    """
    z, places = _evenly(curves)
    wanted = resampled(points, 2 * SAMPLES, closed) @ [1, 1j]
    about = wanted - wanted.mean()
    parts = np.array([1.0] if closed else PARTS)
    products, means = _templates(about / np.sqrt((np.abs(about) ** 2).sum()), parts, closed)
    rows = z.astype(np.complex64)
    mean, square = rows @ means, (np.abs(rows) ** 2) @ means
    extent = square - np.abs(mean) ** 2
    whole = (np.abs(z - z.mean(axis=1, keepdims=True)) ** 2).mean(axis=1, keepdims=True)
    score = np.abs(rows @ products) ** 2 / np.where(extent > SMALL * whole, extent * len(wanted), np.inf)
    # Columns are parts, directions, beginnings.
    best = score.argmax(axis=1)
    part, first, backwards = parts[best // (2 * SAMPLES)], best % SAMPLES, (best // SAMPLES) % 2 == 1
    factor, shift = _similarity(z, about, part, first, backwards, closed)
    ends = _angles(places * 2 * np.pi / curves.shape[1], first, part)
    return 1 - score[np.arange(len(z)), best], factor, wanted.mean() + shift, ends[0], ends[1] - ends[0]


def _evenly(curves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Samples (S, n) of closed curves at equal distances along them, and their places among the given points."""
    count, around = len(curves), np.concatenate([curves, curves[:, :1]], axis=1)
    along = np.concatenate([np.zeros((count, 1)), np.cumsum(np.abs(np.diff(around, axis=1)), axis=1)], axis=1)
    along /= np.maximum(along[:, -1:], 1e-300)
    # All rows at once: the next one goes on where the last one ended.
    row, numbers = 2 * np.arange(count)[:, None], np.tile(np.arange(around.shape[1]), count) * 1.0
    place = np.interp((np.arange(SAMPLES) / SAMPLES + row).ravel(), (along + row).ravel(), numbers)
    place = place.reshape(count, SAMPLES)
    below = np.minimum(place.astype(int), curves.shape[1] - 1)
    take = lambda n: np.take_along_axis(around, n, axis=1)
    return take(below) + (place - below) * (take(below + 1) - take(below)), place


def _templates(wanted: np.ndarray, parts: np.ndarray, closed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Matrices that multiply samples of a curve with the wanted one, and give the mean, for every part of the curve, both
    directions, and every beginning."""
    count = len(wanted)
    at = [part * SAMPLES * (np.arange(count) / count if closed else np.linspace(0, 1, count)) for part in parts]
    products = [_spread(places, way.conj()) for places in at for way in (wanted, wanted[::-1])]
    means = [_spread(places, np.full(count, 1 / count)) for places in at for _ in range(2)]
    columns = lambda rows: np.array([np.roll(row, first) for row in rows for first in range(SAMPLES)]).T
    return columns(products).astype(np.complex64), columns(means).real.astype(np.float32)


def _spread(at: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Weights of samples of a closed curve, so that values are multiplied with it between samples as well."""
    out, below = np.zeros(SAMPLES, complex), np.floor(at).astype(int)
    np.add.at(out, below % SAMPLES, (1 - (at - below)) * values)
    np.add.at(out, (below + 1) % SAMPLES, (at - below) * values)
    return out


def _similarity(z, wanted, part, first, backwards, closed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Factor and shift that take parts of curves to the wanted one, whose centre is 0, of least squares."""
    length = np.arange(len(wanted)) / len(wanted) if closed else np.linspace(0, 1, len(wanted))
    at = first[:, None] + SAMPLES * part[:, None] * length
    below = np.floor(at).astype(int)
    take = lambda n: np.take_along_axis(z, n % SAMPLES, axis=1)
    of_curve = take(below) + (at - below) * (take(below + 1) - take(below))
    target = np.where(backwards[:, None], wanted[::-1], wanted)
    mean = of_curve.mean(axis=1, keepdims=True)
    about = of_curve - mean
    factor = (about.conj() * target).sum(axis=1) / np.maximum((np.abs(about) ** 2).sum(axis=1), 1e-300)
    factor = np.where(np.abs(factor) > 1e-6, factor, 1.0)
    return factor, -factor * mean[:, 0]


def _angles(angles: np.ndarray, first, part) -> np.ndarray:
    """Crank angles (2, S) at which parts of curves begin and end, from those of the samples."""
    twice = np.concatenate([angles, angles + 2 * np.pi, angles[:, :1] + 4 * np.pi], axis=1)
    ends = np.stack([first, first + SAMPLES * part])
    low = np.floor(ends).astype(int)
    take = lambda n: np.take_along_axis(twice, n.T, axis=1).T
    return take(low) + (ends - low) * (take(low + 1) - take(low))


def _grown(layout: Layout, state: State, dyads: int, rng) -> State:
    """The linkages, and further ones made by adding a dyad to those that have `dyads`.

    The new link begins at the old point, and the new point lies near it: at first it draws nearly the same curve.
    """
    parents = np.repeat(np.flatnonzero(np.asarray(state.data.active) == dyads), CHILDREN)
    child = _rows(state, parents)
    count, rows = len(parents), np.arange(len(parents))
    u, chains = child.shared.copy(), Chains(*(x.copy() for x in child.data))
    link, other = 2 * dyads, rng.integers(0, 2 * dyads + 1, count)
    other = other + (other >= link)
    frames, _ = tracks(layout, u, chains, np.linspace(0, 1, SAMPLES))
    origins, ways = (np.asarray(x) @ [1, 1j] for x in frames)
    ends = u[:, layout.point] @ [1, 1j]
    drawn = origins[:, :, link] + ends[:, None] * ways[:, :, link]
    # The arm begins somewhere about the curve, at a time of its own.
    moment = rng.integers(0, SAMPLES, count)
    place = 1.5 * (rng.normal(size=count) + 1j * rng.normal(size=count))
    second = (place - origins[rows, moment, other]) / ways[rows, moment, other]
    apart = np.abs(origins[rows, :, other] + second[:, None] * ways[rows, :, other] - drawn)
    both = apart.max(axis=1) * (1 + np.exp(rng.uniform(-3, 0.7, count)))
    difference = apart.min(axis=1) * 0.97 * np.tanh(rng.uniform(-1.5, 1.5, count))
    size = np.exp(rng.uniform(*np.log(STEPS_OF_POINT), count))[:, None]
    own = 2 + 6 * dyads
    u[:, own : own + 6] = np.column_stack(
        [
            ends.real,
            ends.imag,
            second.real,
            second.imag,
            np.log((both + difference) / 2),
            np.log((both - difference) / 2),
        ]
    )
    u[:, layout.point] = size * rng.normal(size=(count, 2))
    chains.bodies[:, dyads] = np.column_stack([np.full(count, link), other])
    chains.kinds[:, dyads] = layout.kinds.index(RRR)
    chains.signs[:, dyads] = rng.choice([-1.0, 1.0], count)
    chains.active[:] = dyads + 1
    join = lambda a, b: np.concatenate([a, b])
    data = Chains(*map(join, state.data, chains))
    cost, damping = join(state.cost, np.full(count, np.inf)), join(state.damping, child.damping)
    return State(join(state.shared, u), join(state.own, child.own), (), cost, damping, data)
