"""Curves as shapes: linkages whose point draws one, of any dyadic topology."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from jax.typing import ArrayLike

from jaxmbs.search.multistart import Search
from jaxmbs.search.stages import Report
from jaxmbs.synthesis import common
from jaxmbs.synthesis.curve_by_fit import fitted
from jaxmbs.synthesis.curve_results import Asked, CurveSolution, Front, found_by, told
from jaxmbs.synthesis.curve_search import Wanted, searched
from jaxmbs.synthesis.drawing import Layout, Limits
from jaxmbs.synthesis.linkages import AbstractDyadic, Linkage, linkage_of
from jaxmbs.synthesis.linkages.dyads import KINDS, RRR
from jaxmbs.synthesis.linkages.topologies import linkage_of_wiring, random_wirings, topologies
from jaxmbs.synthesis.shapes import COMPARED, curve_of, resampled
from jaxmbs.system.mechanism import Mechanism

# Up to this number of dyads all topologies are listed; beyond it, this many random ones are taken.
MAX_LISTED_DYADS, RANDOM_TOPOLOGIES = 3, 400
MAX_LINKS = 19
# Links that move, unless more are allowed.
DEFAULT_LINKS = 7
# Smallest angle between links, in degrees, as it is looked at between samples.
MIN_ANGLE_DEG = 2.0
# Of the longest distance in a linkage to the shortest link, unless told otherwise.
MAX_RATIO = 30.0
# What else a search with a mechanism of one's own takes.
ARGUMENTS_OF_FIT = ("design", "point", "guess", "lower", "upper", "require", "least_singular_value")
FREE = ("scale", "rotation", "translation", "reflection")


def curve(
    targets: ArrayLike | Sequence[Sequence[float]],
    closed: bool | None = None,
    *,
    free: Iterable[str] = (),
    links: int = DEFAULT_LINKS,
    mechanism: str | Linkage | Sequence[str | Linkage] | None = None,
    sliders: bool = False,
    ratio: float | None = MAX_RATIO,
    transmission_angle: float = 0.0,
    pivots: tuple | None = None,
    workspace: tuple | None = None,
    starts: int | None = None,
    seed: int = 0,
    keep: int = 5,
    progress: Report | None = None,
    resume: str | os.PathLike | None = None,
    build: Callable[[Any], Mechanism] | None = None,
    design: Any = None,
    point: tuple | None = None,
    **of_fit: Any,
) -> Front:
    """Find linkages that draw a shape, regardless of timing.

    All of the drawn curve counts: its mean square distance from the wanted one, and that of the wanted one from it,
    along the shortest way. The curves of thousands of random linkages of all topologies are each scaled, turned and
    moved to fit the shape best, then compared. The best linkages descend by the method of Levenberg and Marquardt, at
    first with few points. Then a dyad is added to the best of each number of links, so that the new point begins near
    the old one, and the search goes on. The same seed gives the same answer.

    Args:
        targets: (T, 2), points of the curve in their order along it, with straight lines between.
        closed: whether the curve is closed: then it is drawn in a whole turn of the crank, an open one in a part of a
            turn. None: it counts as closed if the gap between its ends is at most about 1.5 times the spacing of its
            points and at most 15 % of its extent.
        free: which of "scale", "rotation", "translation", "reflection" may be applied to the curve; without "translation"
            its centre stays. This matters only together with `pivots` or `workspace`, since linkages can be anywhere.
        links: the largest number of links that move: 3 of four-bars, 5 of six-bars, 7 of eight-bars, and so on.
        mechanism: names or `Dyadic`s, if only these are to be tried, such as "Stephenson III".
        sliders: whether dyads with sliders and blocks are tried as well.
        ratio: the largest allowed ratio of the longest distance to the shortest link. Distances are those of pins and
            the point from the origin of their link and from the crank's pivot. None: any ratio.
        transmission_angle: the smallest one that is allowed, in degrees.
        pivots: ((x, y), (x, y)), two corners of a box that must contain all pivots on the ground.
        workspace: two corners of a box that all pins and the point must not leave.
        starts: how many random linkages descend, 4,096 unless given; 24 times as many are compared.
        seed: the seed of the random numbers.
        keep: how many of the best solutions to return.
        progress, resume: as for `path`.
        build, design, point, of_fit: for a mechanism of your own, in the plane or in space, whose drivers make one cycle
            in a unit of time. build: design ↦ mechanism; design: a first design; point: (body, coordinates or name of an
            entry of the design); of_fit: `guess`, `lower`, `upper`, `require`, `least_singular_value` as for `fit`. Of
            the arguments above only `closed`, `starts`, `seed`, `keep`, `progress` and `resume` apply. `fit` finds
            designs for 40 places along the curve; these descend once more by the distance of the whole curve, and are
            ranked by it.

    Returns:
        A `Front`: `.best`, `.all`, and `.front` with the best of each number of links.

    Raises:
        ValueError: an argument cannot be used; the message names it.

    Examples:
        >>> letter = jnp.array([[0.0, 2.0], [0.0, 0.0], [1.0, 0.0]])  # an L
        >>> found = mbs.synthesis.curve(letter, links=5, starts=256)
        >>> found.best.error < 0.02, found.best.checks["assembled"]
        (True, True)
    """
    free = _free(free)
    if build is not None:
        bounds = {"mechanism": mechanism, "pivots": pivots, "workspace": workspace}
        given = {name for name, bound in bounds.items() if bound is not None} | ({"sliders"} if sliders else set())
        given |= ({"free"} if free else set()) | ({"transmission_angle"} if transmission_angle else set())
        given |= ({"ratio"} if ratio not in (None, MAX_RATIO) else set()) | (
            {"links"} if links != DEFAULT_LINKS else set()
        )
        if given:
            names = ", ".join(sorted(given))
            raise ValueError(f"only for dyadic linkages: {names}; a mechanism of your own has bounds of its design")
        starts = 2048 if starts is None else starts
        of_search = {"starts": starts, "seed": seed, "keep": keep, "progress": progress, "resume": resume}
        return _by_fit(targets, closed, build, design, point, of_search | of_fit)
    own = {"design": design, "point": point, **of_fit}
    for name, value in own.items():
        if name not in ARGUMENTS_OF_FIT:
            raise ValueError(f"curve has no argument {name!r}")
        if value is not None:
            raise ValueError(f"{name} is for a mechanism of your own; give its `build` as well")
    points, closed = curve_of(targets, closed)
    search = Search.of(4096 if starts is None else starts, seed, keep, progress, resume)
    shapes = _topologies(mechanism, links, KINDS if sliders else (RRR,), seed)
    kinds = tuple(kind for kind in KINDS if any(kind in names for of in shapes.values() for names in of))
    centre, spread = _unit(points, closed)
    limits, limited = _limits(ratio, pivots, workspace, transmission_angle, free, centre, spread)
    boxed = "pivots" in limited or "workspace" in limited
    layout = Layout(max(shapes), kinds, closed, boxed and bool(free))
    mirrors = layout.moves and "reflection" in free
    wanted = Wanted((points - centre) / spread, limits, limited, shapes, mechanism is None, mirrors)
    every = [bodies for of in shapes.values() for _, bodies in sorted(of.items())]
    told_apart = repr((layout, limited, mirrors, [(n, sorted(of)) for n, of in shapes.items()]))
    state = searched(layout, wanted, search, (points, *limits, *every, told_apart, search.starts, search.seed))
    return found_by(Asked(layout, wanted, points, closed, centre, spread, transmission_angle), state, search.keep)


def _by_fit(targets, closed, build, design, point, options: dict[str, Any]) -> Front:
    """With a mechanism of one's own."""
    for name in options:
        if name not in (*ARGUMENTS_OF_FIT, "starts", "seed", "keep", "progress", "resume"):
            raise ValueError(f"{name} cannot be given with `build`; its drivers make one cycle in a unit of time")
    if point is None or design is None:
        raise ValueError("a mechanism of your own needs a design to begin with, and a point: (body, coordinates)")
    points, closed = curve_of(targets, closed, (2, 3))
    every = [CurveSolution(moved=told(), **x) for x in fitted(points, closed, build, design, point, options)]
    every.sort(key=lambda x: (not x.checks["assembled"], x.error))
    return Front(every, [one for one in every if one.checks["assembled"]][:1])


def _limits(ratio, pivots, workspace, transmission_angle, free: tuple[str, ...], centre, spread):
    """What linkages have to keep, and which of it was asked for."""
    common.check_transmission_angle(transmission_angle)
    if ratio is not None and not common.positive("ratio", ratio) > 1:
        raise ValueError(f"ratio must be above 1, got {ratio!r}")
    given = {"ratio": ratio, "pivots": pivots, "workspace": workspace}
    boxes = [_box(name, given[name], centre, spread) for name in ("pivots", "workspace")]
    limits = Limits(
        np.cos(np.deg2rad(max(transmission_angle, MIN_ANGLE_DEG))),
        np.float64(ratio or 1.0),
        np.zeros((2, 2)) if boxes[0] is None else boxes[0],
        np.zeros((2, 2)) if boxes[1] is None else boxes[1],
        np.array([name in free for name in ("scale", "rotation", "translation", "translation")], float),
    )
    return limits, tuple(name for name, value in given.items() if value is not None)


def _unit(points: np.ndarray, closed: bool) -> tuple[np.ndarray, float]:
    """The centre of a curve, and the root mean square distance of its points from there, by length."""
    even = resampled(points, COMPARED, closed)
    return even.mean(axis=0), common.spread_of(even)


def _free(given: Iterable[str]) -> tuple[str, ...]:
    try:
        names = (given,) if isinstance(given, str) else tuple(given)
    except TypeError:
        raise ValueError(f"free must be of {', '.join(FREE)}, got {given!r}") from None
    for name in names:
        if name not in FREE:
            raise ValueError(f"free must be of {', '.join(FREE)}, got {name!r}")
    return tuple(name for name in FREE if name in names)


def _box(name: str, given, centre, spread) -> np.ndarray | None:
    """Two corners, in units of the curve."""
    if given is None:
        return None
    try:
        corners = np.asarray(given, float)
    except (TypeError, ValueError):
        corners = np.zeros(0)
    if corners.shape != (2, 2) or not np.all(np.isfinite(corners)) or np.any(corners[0] == corners[1]):
        raise ValueError(f"{name} must be two corners of a box with some room in it, ((x, y), (x, y)), got {given!r}")
    return (np.sort(corners, axis=0) - centre) / spread


def _topologies(mechanism, links: int, kinds: tuple[str, ...], seed: int):
    """By the number of dyads: by their kinds, the bodies (n, K, 2) of all topologies."""
    if isinstance(links, bool) or not isinstance(links, int) or not 3 <= links <= MAX_LINKS:
        raise ValueError(f"links must be a whole number from 3 to {MAX_LINKS}, got {links!r}")
    out: dict[int, dict[tuple[str, ...], list]] = {}
    every: list[AbstractDyadic] = []
    if mechanism is None:
        rng = np.random.default_rng(seed)
        for dyads in range(1, (int(links) - 1) // 2 + 1):
            if dyads <= MAX_LISTED_DYADS - (len(kinds) > 1):
                every += topologies(1 + 2 * dyads, kinds)
            else:
                every += map(linkage_of_wiring, random_wirings(dyads, kinds, RANDOM_TOPOLOGIES, rng))
    else:
        if not isinstance(mechanism, str | Linkage | Sequence):
            raise ValueError(f"mechanism must be a name, a Dyadic, or several, got {mechanism!r}")
        several = [mechanism] if isinstance(mechanism, str | Linkage) else list(mechanism)
        for linkage in map(linkage_of, several):
            if not isinstance(linkage, AbstractDyadic):
                raise ValueError(f"mechanism must be made of a crank and dyads, which {linkage.name!r} is not")
            every.append(linkage)
        if not every:
            raise ValueError("mechanism must name a linkage at least")
    for linkage in every:
        of_kinds = out.setdefault(len(linkage.dyads), {})
        of_kinds.setdefault(tuple(kind for *_, kind in linkage.dyads), []).append(linkage.bodies)
    return {n: {names: np.array(bodies) for names, bodies in of.items()} for n, of in sorted(out.items())}
