"""The search for linkages that draw a curve: random linkages of all topologies, descent, dyads added to the best."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from jaxmbs import search
from jaxmbs.synthesis.curve_problem import CurveGeneration, LinkageLimits
from jaxmbs.synthesis.drawing import Chains, RowLayout, apply_similarity, frames_along
from jaxmbs.synthesis.linkages.dyads import RRR, random_dyads
from jaxmbs.synthesis.shapes import resample

# Number of points of the wanted curve, and of crank angles, in all phases of the search but the last.
COARSE_POINTS = 48
# Number of points of the wanted curve, and of crank angles, in the last phase of the search.
FINE_POINTS = 160
# Number of random linkages that are compared with the wanted curve for each start that is asked for.
RANDOM_LINKAGES_PER_START = 24
# Number of random linkages compared with the wanted curve at once, to limit memory.
LINKAGES_PER_BLOCK = 10_000
# Number of samples, evenly spaced by length, of a random linkage's curve when it is compared with the wanted one.
SAMPLES = 48
# Fractions of the length of a random linkage's closed curve that are compared with an open wanted curve.
OPEN_FRACTIONS = (0.33, 0.42, 0.5, 0.6, 0.7, 0.8, 0.9)
# Lower limit on the squared extent of a compared part of a random linkage's curve, relative to the whole curve's.
MIN_SQUARED_EXTENT = 0.02
# Number of steps between two progress reports of the search for curves.
STEPS_PER_REPORT = 25
# Number of steps of all starts, in the first phase of the search for curves.
STEPS_ALL_STARTS = 25
# Number of steps of the better starts before dyads are added, and again of the better linkages after the last dyad.
STEPS_BETTER_STARTS = 75
# Number of steps after each dyad that is added to linkages.
STEPS_WITH_NEW_DYAD = 75
# Number of steps of the last phase, with `FINE_POINTS` points.
STEPS_LAST_PHASE = 100
# Number of linkages of each number of dyads to which a dyad is added; twice as many continue without one.
PARENTS = 96
# Number of linkages of each number of dyads that enter the last phase.
LAST_PHASE_LINKAGES = 24
# Number of linkages made from each parent by adding a dyad.
CHILDREN_PER_PARENT = 8
# Typical smallest distance of the point of a linkage with a new dyad from that of its parent, in units of the curve.
MIN_POINT_DISTANCE = 0.02
# Typical largest distance of the point of a linkage with a new dyad from that of its parent, in units of the curve.
MAX_POINT_DISTANCE = 0.5
# Penalty weight of the last phase divided by that of the first.
LAST_PENALTY_GROWTH = 10
# Scale factors of similarities below this, in units of the curve, are replaced by 1: the linkage would vanish.
MIN_SCALE_FACTOR = 1e-6


class CurveRequest(NamedTuple):
    """A wanted curve with the linkages and limits allowed for it.

    Attributes:
        layout: of the rows of the search.
        points: (T, 2) of the curve, in the user's units.
        centre: (2,) of the curve.
        spread: of the curve, the unit of length of the search.
        limits: limits on the linkages, in units of the curve.
        limited: names of the limits that apply, see `CurveGeneration`.
        transmission_angle: the smallest allowed, in degrees.
        topologies: number of dyads ↦ kinds of the dyads ↦ bodies (n, K, 2) of n topologies.
        grows: True if dyads may be added to linkages.
        mirrors: True if the curve may be mirrored.
    """

    layout: RowLayout
    points: np.ndarray
    centre: np.ndarray
    spread: float
    limits: LinkageLimits
    limited: tuple[str, ...]
    transmission_angle: float
    topologies: dict[int, dict[tuple[str, ...], np.ndarray]]
    grows: bool
    mirrors: bool

    @property
    def scaled_points(self) -> np.ndarray:
        """The points (T, 2) of the curve in units of its spread about its centre."""
        return (self.points - self.centre) / self.spread


def search_linkages(request: CurveRequest, options: search.SearchOptions, task: Any) -> search.MultistartCarry:
    """Return the carry after all phases; linkages with the same number of dyads are ordered by their costs."""
    layout = request.layout

    def steps_with(count, penalty):
        """Return the step function for curves of `count` points under this penalty weight."""
        curve = resample(request.scaled_points, count, layout.closed)
        return search.step_function(CurveGeneration(layout, count, request.limited), (curve, request.limits, penalty))

    coarse = steps_with(COARSE_POINTS, search.PENALTY_START)
    fine = steps_with(FINE_POINTS, LAST_PENALTY_GROWTH * search.PENALTY_START)
    rng = lambda k: np.random.default_rng([options.seed, k])
    carry = _random_starts(request, options.starts, rng(0))
    select = lambda count: partial(_select_best, count=count)

    def add_dyad(k):
        """Return the function that adds a dyad to the best linkages with k dyads of a carry."""
        return lambda carry: _add_dyad(layout, _select_best(carry, PARENTS), k, rng(k))

    parent_dyads = range(1, layout.dyads) if request.grows else ()
    phases = [
        search.SearchPhase(STEPS_ALL_STARTS, STEPS_PER_REPORT, coarse),
        search.SearchPhase(STEPS_BETTER_STARTS, STEPS_PER_REPORT, coarse, select(2 * PARENTS)),
        *(search.SearchPhase(STEPS_WITH_NEW_DYAD, STEPS_PER_REPORT, coarse, add_dyad(k)) for k in parent_dyads),
        search.SearchPhase(STEPS_BETTER_STARTS, STEPS_PER_REPORT, coarse, select(2 * PARENTS)),
        search.SearchPhase(STEPS_LAST_PHASE, STEPS_PER_REPORT, fine, select(LAST_PHASE_LINKAGES)),
    ]
    least_error = lambda carry: float(np.sqrt(search.finite_costs(carry.cost).min()))
    return search.run_phases(phases, carry, options, least_error=least_error, task=task)


def _select_best(carry: search.MultistartCarry, count: int) -> search.MultistartCarry:
    """Return, of each number of dyads, the `count` linkages with the least costs; Marquardt's damping is reset."""
    cost, active = search.finite_costs(carry.cost), np.asarray(carry.data.active)
    order = np.argsort(cost, kind="stable")
    rows = np.concatenate([order[active[order] == n][:count] for n in np.unique(active)])
    return _take_rows(carry, rows)


def _take_rows(carry: search.MultistartCarry, rows) -> search.MultistartCarry:
    """Return these rows of a carry, with Marquardt's damping reset."""
    take = lambda x: np.asarray(x)[rows]
    chains = Chains(*(take(x) for x in carry.data))
    count = len(chains.active)
    return search.MultistartCarry(
        take(carry.shared), np.zeros((count, 0, 0)), (), take(carry.cost), np.full(count, search.START_DAMPING), chains
    )


def _random_starts(request: CurveRequest, starts: int, rng) -> search.MultistartCarry:
    """Return random linkages of each number of dyads whose curves fit the wanted one best after a similarity."""
    count = max(starts // len(request.topologies), 1)
    groups = [_random_linkages(request, dyads, count, rng) for dyads in request.topologies]
    u = np.concatenate([u for u, _ in groups])
    chains = Chains(*(np.concatenate(x) for x in zip(*(chains for _, chains in groups), strict=True)))
    return search.MultistartCarry.at_start(u, chains)


def _random_linkages(request: CurveRequest, dyads: int, count: int, rng) -> tuple[np.ndarray, Chains]:
    """Return rows (count, size) and chains of the random linkages with this number of dyads that fit the curve best."""
    layout, all_bodies = request.layout, request.topologies[dyads]
    all_kinds = sorted(all_bodies)
    random_kinds = rng.integers(0, len(all_kinds), count * RANDOM_LINKAGES_PER_START)
    shares = np.bincount(random_kinds, minlength=len(all_kinds))
    row_blocks, chain_blocks, curve_blocks = [], [], []
    for kinds, share in zip(all_kinds, shares, strict=True):
        bodies = all_bodies[kinds][rng.integers(0, len(all_bodies[kinds]), share)]
        numbers, signs, point, curve = random_dyads(rng, bodies, kinds)
        u, chains = _rows_of_dyads(layout, bodies, kinds, numbers, signs, point)
        row_blocks.append(u)
        chain_blocks.append(chains)
        curve_blocks.append(curve)
    u, curves = np.concatenate(row_blocks), np.concatenate(curve_blocks)
    chains = Chains(*(np.concatenate(x) for x in zip(*chain_blocks, strict=True)))
    blocks = np.array_split(curves, len(curves) // LINKAGES_PER_BLOCK + 1)
    fits = zip(*(compare_curves(block, request.scaled_points, layout.closed) for block in blocks), strict=True)
    misfit, factor, shift, begin, span = (np.concatenate(x) for x in fits)
    best = np.argsort(misfit, kind="stable")[:count]
    u, chains = u[best], Chains(*(x[best] for x in chains))
    if request.mirrors:
        chains = chains._replace(mirrored=rng.choice([-1.0, 1.0], len(best)))
    if not layout.closed:
        u[:, layout.crank_range] = np.column_stack([begin, span])[best]
    return apply_similarity(layout, u, chains.bodies, chains.kinds, factor[best], shift[best]), chains


def _rows_of_dyads(layout: RowLayout, bodies, names, numbers, signs, point) -> tuple[np.ndarray, Chains]:
    """Return rows and chains of S linkages of D dyads, at most `layout.dyads`, from arrays as of `random_dyads`.

    bodies: (S, D, 2). names: kinds of the D dyads. numbers: (S, D, 6). signs: (S, D). point: (S, 2).
    """
    count, dyads, _ = bodies.shape
    u, rest = np.zeros((count, layout.size)), layout.dyads - dyads
    of_dyads = np.zeros((count, layout.dyads, 6))
    # Unused dyads have their ends at different places of the ground.
    of_dyads[:, dyads:, 2] = 1.0
    of_dyads[:, :dyads, :4] = numbers[:, :, :4]
    is_block = np.array([name == "RPR" for name in names])
    logarithm = np.log(np.where(numbers[:, :, 4:] > 0, numbers[:, :, 4:], 1.0))
    of_dyads[:, :dyads, 4] = np.where(is_block, numbers[:, :, 4], logarithm[:, :, 0])
    of_dyads[:, :dyads, 5] = logarithm[:, :, 1]
    u[:, 2 : 2 + 6 * layout.dyads] = of_dyads.reshape(count, -1)
    u[:, layout.point] = point
    kinds = np.array([layout.kinds.index(name) for name in names] + [0] * rest)
    chains = Chains(
        np.concatenate([bodies, np.zeros((count, rest, 2), int)], axis=1),
        np.broadcast_to(kinds, (count, layout.dyads)).copy(),
        np.concatenate([signs, np.ones((count, rest))], axis=1),
        np.full(count, dyads),
        np.ones(count),
    )
    return u, chains


def compare_curves(curves: np.ndarray, points: np.ndarray, closed: bool):
    """Fit closed curves, or parts of them if the wanted curve is open, to it by similarities with the least squares.

    Args:
        curves: (S, N) complex points of the closed curves, at equal steps of the crank angle.
        points: (T, 2) of the wanted curve.
        closed: True if the wanted curve is closed.

    Returns:
        (S,) each: the squared misfit relative to the wanted curve's squared extent; complex factor and shift of the
        similarity; the crank angle at which the used part begins, and the angle by which the crank turns meanwhile.
    """
    z, places = _even_samples(curves)
    wanted = resample(points, 2 * SAMPLES, closed) @ [1, 1j]
    centred = wanted - wanted.mean()
    fractions = np.array([1.0] if closed else OPEN_FRACTIONS)
    products, means = _templates(centred / np.sqrt((np.abs(centred) ** 2).sum()), fractions, closed)
    rows = z.astype(np.complex64)
    mean, square = rows @ means, (np.abs(rows) ** 2) @ means
    extent = square - np.abs(mean) ** 2
    whole = (np.abs(z - z.mean(axis=1, keepdims=True)) ** 2).mean(axis=1, keepdims=True)
    score = np.abs(rows @ products) ** 2 / np.where(extent > MIN_SQUARED_EXTENT * whole, extent * len(wanted), np.inf)
    # Columns are numbered by fraction, direction and first sample.
    best = score.argmax(axis=1)
    part, first, backwards = fractions[best // (2 * SAMPLES)], best % SAMPLES, (best // SAMPLES) % 2 == 1
    factor, shift = _similarity(z, centred, part, first, backwards, closed)
    ends = _end_angles(places * 2 * np.pi / curves.shape[1], first, part)
    return 1 - score[np.arange(len(z)), best], factor, wanted.mean() + shift, ends[0], ends[1] - ends[0]


def _even_samples(curves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return samples (S, SAMPLES) of closed curves (S, N), evenly spaced by length, and their fractional indices."""
    count, cycle = len(curves), np.concatenate([curves, curves[:, :1]], axis=1)
    along = np.concatenate([np.zeros((count, 1)), np.cumsum(np.abs(np.diff(cycle, axis=1)), axis=1)], axis=1)
    along /= np.maximum(along[:, -1:], 1e-300)
    # One interpolation for all curves, each in an interval of its own.
    row, numbers = 2 * np.arange(count)[:, None], np.tile(np.arange(cycle.shape[1]), count) * 1.0
    place = np.interp((np.arange(SAMPLES) / SAMPLES + row).ravel(), (along + row).ravel(), numbers)
    place = place.reshape(count, SAMPLES)
    below = np.minimum(place.astype(int), curves.shape[1] - 1)
    take = lambda n: np.take_along_axis(cycle, n, axis=1)
    return take(below) + (place - below) * (take(below + 1) - take(below)), place


def _templates(wanted: np.ndarray, fractions: np.ndarray, closed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return two matrices (SAMPLES, columns): samples of curves times them are products with the wanted one, and means.

    There is a column for each fraction of the curve, both directions, and each first sample. wanted: (W,) complex.
    """
    count = len(wanted)
    at = [part * SAMPLES * (np.arange(count) / count if closed else np.linspace(0, 1, count)) for part in fractions]
    products = [_sample_weights(places, order.conj()) for places in at for order in (wanted, wanted[::-1])]
    means = [_sample_weights(places, np.full(count, 1 / count)) for places in at for _ in range(2)]
    columns = lambda rows: np.array([np.roll(row, first) for row in rows for first in range(SAMPLES)]).T
    return columns(products).astype(np.complex64), columns(means).real.astype(np.float32)


def _sample_weights(at: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return weights w (SAMPLES,) with w·z = Σ values z(at): z are samples of a closed curve, interpolated linearly."""
    out, below = np.zeros(SAMPLES, complex), np.floor(at).astype(int)
    np.add.at(out, below % SAMPLES, (1 - (at - below)) * values)
    np.add.at(out, (below + 1) % SAMPLES, (at - below) * values)
    return out


def _similarity(z, wanted, part, first, backwards, closed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return complex factors and shifts (S,) of the similarities that best fit parts of curves to the wanted one.

    z: (S, SAMPLES) samples of closed curves. wanted: (W,) complex, about its centre. part, first, backwards: (S,) the
    fraction of each curve that is used, its first sample, and True if it is passed against the order of the samples.
    """
    length = np.arange(len(wanted)) / len(wanted) if closed else np.linspace(0, 1, len(wanted))
    at = first[:, None] + SAMPLES * part[:, None] * length
    below = np.floor(at).astype(int)
    take = lambda n: np.take_along_axis(z, n % SAMPLES, axis=1)
    of_curve = take(below) + (at - below) * (take(below + 1) - take(below))
    target = np.where(backwards[:, None], wanted[::-1], wanted)
    mean = of_curve.mean(axis=1, keepdims=True)
    centred = of_curve - mean
    factor = (centred.conj() * target).sum(axis=1) / np.maximum((np.abs(centred) ** 2).sum(axis=1), 1e-300)
    factor = np.where(np.abs(factor) > MIN_SCALE_FACTOR, factor, 1.0)
    return factor, -factor * mean[:, 0]


def _end_angles(angles: np.ndarray, first, part) -> np.ndarray:
    """Return the crank angles (2, S) at the ends of parts of curves, see `_similarity`; angles: (S, SAMPLES)."""
    twice = np.concatenate([angles, angles + 2 * np.pi, angles[:, :1] + 4 * np.pi], axis=1)
    ends = np.stack([first, first + SAMPLES * part])
    low = np.floor(ends).astype(int)
    take = lambda n: np.take_along_axis(twice, n.T, axis=1).T
    return take(low) + (ends - low) * (take(low + 1) - take(low))


def _add_dyad(layout: RowLayout, carry: search.MultistartCarry, dyads: int, rng) -> search.MultistartCarry:
    """Return the linkages, followed by `CHILDREN_PER_PARENT` new ones with one more dyad for each with `dyads` dyads.

    The new link begins at the old point, and the new point lies near it, so it draws nearly the same curve at first.
    """
    parents = np.repeat(np.flatnonzero(np.asarray(carry.data.active) == dyads), CHILDREN_PER_PARENT)
    child = _take_rows(carry, parents)
    count, rows = len(parents), np.arange(len(parents))
    u, chains = child.shared.copy(), Chains(*(x.copy() for x in child.data))
    link, other = 2 * dyads, rng.integers(0, 2 * dyads + 1, count)
    other = other + (other >= link)
    frames, _ = frames_along(layout, u, chains, np.linspace(0, 1, SAMPLES))
    origins, axes = (np.asarray(x) @ [1, 1j] for x in frames)
    ends = u[:, layout.point] @ [1, 1j]
    drawn = origins[:, :, link] + ends[:, None] * axes[:, :, link]
    # The arm begins at a random place near the curve at a random time.
    moment = rng.integers(0, SAMPLES, count)
    place = 1.5 * (rng.normal(size=count) + 1j * rng.normal(size=count))
    second = (place - origins[rows, moment, other]) / axes[rows, moment, other]
    distance = np.abs(origins[rows, :, other] + second[:, None] * axes[rows, :, other] - drawn)
    # Sum and difference of the two lengths that let the dyad close at all of these distances.
    both = distance.max(axis=1) * (1 + np.exp(rng.uniform(-3, 0.7, count)))
    difference = distance.min(axis=1) * 0.97 * np.tanh(rng.uniform(-1.5, 1.5, count))
    size = np.exp(rng.uniform(np.log(MIN_POINT_DISTANCE), np.log(MAX_POINT_DISTANCE), count))[:, None]
    own, log_lengths = 2 + 6 * dyads, np.log([(both + difference) / 2, (both - difference) / 2])
    u[:, own : own + 6] = np.column_stack([ends.real, ends.imag, second.real, second.imag, *log_lengths])
    u[:, layout.point] = size * rng.normal(size=(count, 2))
    chains.bodies[:, dyads] = np.column_stack([np.full(count, link), other])
    chains.kinds[:, dyads] = layout.kinds.index(RRR)
    chains.signs[:, dyads] = rng.choice([-1.0, 1.0], count)
    chains.active[:] = dyads + 1
    join = lambda a, b: np.concatenate([a, b])
    data = Chains(*map(join, carry.data, chains))
    cost, damping = join(carry.cost, np.full(count, np.inf)), join(carry.damping, child.damping)
    return search.MultistartCarry(join(carry.shared, u), join(carry.own, child.own), (), cost, damping, data)
