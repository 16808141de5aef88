"""Curve generation: search for linkages of any dyadic topology with a point that draws a shape."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from jax.typing import ArrayLike

from jaxmbs.search import ProgressCallback, SearchOptions
from jaxmbs.synthesis import common
from jaxmbs.synthesis.curve_by_fit import fit_curve
from jaxmbs.synthesis.curve_problem import LinkageLimits
from jaxmbs.synthesis.curve_results import Front, curve_solutions
from jaxmbs.synthesis.curve_search import CurveRequest, search_linkages
from jaxmbs.synthesis.drawing import RowLayout
from jaxmbs.synthesis.linkages import AbstractDyadic, Linkage, linkage_of
from jaxmbs.synthesis.linkages.dyads import KINDS, RRR
from jaxmbs.synthesis.linkages.topologies import linkage_of_wiring, random_wirings, topologies
from jaxmbs.synthesis.shapes import COMPARED_POINTS, curve_points, resample
from jaxmbs.system.mechanism import Mechanism

# Largest number of dyads for which `curve` searches all topologies, one less if there are sliders; with more dyads it
# takes `RANDOM_TOPOLOGIES`.
MAX_LISTED_DYADS = 3
# Number of random topologies that `curve` searches for each number of dyads beyond `MAX_LISTED_DYADS`.
RANDOM_TOPOLOGIES = 400
# Upper limit on the argument `links` of `curve`; a larger one raises ValueError.
MAX_LINKS = 19
# Default of the argument `links` of `curve`, the largest number of moving links.
DEFAULT_LINKS = 7
# Lower limit on the transmission angle of linkages for `curve`, in degrees, whatever the user allows: angles are
# checked at samples only.
MIN_ANGLE_DEG = 2.0
# Default of the argument `ratio` of `curve`: the longest distance in a linkage divided by its shortest link.
MAX_RATIO = 30.0
# Default of the argument `starts` of `curve` for linkages of dyads.
DYADIC_STARTS = 4096
# Default of the argument `starts` of `curve` for a mechanism of your own (`build`).
BUILDER_STARTS = 2048
# Arguments of `curve` that are allowed only with `build`, a mechanism of your own.
BUILDER_ARGUMENTS = ("design", "point", "guess", "lower", "upper", "require", "least_singular_value")
# Allowed entries of the argument `free` of `curve`, in the order in which the search stores them.
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
    progress: ProgressCallback | None = None,
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
        progress: as for `path`.
        resume: as for `path`.
        build: for a mechanism of your own, in the plane or in space: a function design ↦ mechanism whose drivers make one
            cycle in a unit of time. Of the arguments above only `closed`, `starts`, `seed`, `keep`, `progress` and
            `resume` then apply. `fit` finds designs for 40 places along the curve; these descend once more by the
            distance of the whole curve, and are ranked by it.
        design: a first design, with `build`.
        point: (body, coordinates or name of an entry of the design), with `build`.
        **of_fit: `guess`, `lower`, `upper`, `require` and `least_singular_value` as for `fit`, with `build`.

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
        is_given = {
            "mechanism": mechanism is not None,
            "pivots": pivots is not None,
            "workspace": workspace is not None,
            "sliders": sliders,
            "free": free,
            "transmission_angle": transmission_angle,
            "ratio": ratio not in (None, MAX_RATIO),
            "links": links != DEFAULT_LINKS,
        }
        names = ", ".join(sorted(name for name, given in is_given.items() if given))
        if names:
            raise ValueError(f"only for dyadic linkages: {names}; a mechanism of your own has bounds of its design")
        for name in of_fit:
            if name not in BUILDER_ARGUMENTS:
                raise ValueError(f"{name} cannot be given with `build`; its drivers make one cycle in a unit of time")
        starts = BUILDER_STARTS if starts is None else starts
        search = {"starts": starts, "seed": seed, "keep": keep, "progress": progress, "resume": resume}
        return fit_curve(targets, closed, build, design, point, search | of_fit)
    for name, value in {"design": design, "point": point, **of_fit}.items():
        if name not in BUILDER_ARGUMENTS:
            raise ValueError(f"curve has no argument {name!r}")
        if value is not None:
            raise ValueError(f"{name} is for a mechanism of your own; give its `build` as well")
    points, closed = curve_points(targets, closed)
    options = SearchOptions.from_arguments(DYADIC_STARTS if starts is None else starts, seed, keep, progress, resume)
    shapes = _topologies(mechanism, links, KINDS if sliders else (RRR,), seed)
    kinds = tuple(kind for kind in KINDS if any(kind in names for by_kinds in shapes.values() for names in by_kinds))
    even = resample(points, COMPARED_POINTS, closed)
    centre, spread = even.mean(axis=0), common.spread_of(even)
    limits, limited = _limits(ratio, pivots, workspace, transmission_angle, free, centre, spread)
    in_box = "pivots" in limited or "workspace" in limited
    layout = RowLayout(max(shapes), kinds, closed, in_box and bool(free))
    mirrors = layout.moves and "reflection" in free
    all_bodies = [bodies for by_kinds in shapes.values() for _, bodies in sorted(by_kinds.items())]
    text = repr((layout, limited, mirrors, [(n, sorted(by_kinds)) for n, by_kinds in shapes.items()]))
    task = points, *limits, *all_bodies, text, options.starts, options.seed
    allowed = limits, limited, transmission_angle, shapes
    request = CurveRequest(layout, points, centre, spread, *allowed, grows=mechanism is None, mirrors=mirrors)
    return curve_solutions(request, search_linkages(request, options, task), options.keep)


def _limits(ratio, pivots, workspace, transmission_angle, free: tuple[str, ...], centre, spread):
    """Return the limits in units of the curve's spread about its centre, and the names of those that apply.

    The transmission angle always applies, and is not among the names.

    Raises:
        ValueError: an argument of `curve` with a limit cannot be used.
    """
    common.check_transmission_angle(transmission_angle)
    if ratio is not None and not common.positive_number("ratio", ratio) > 1:
        raise ValueError(f"ratio must be above 1, got {ratio!r}")
    limited = {"ratio": ratio, "pivots": pivots, "workspace": workspace}
    limits = LinkageLimits(
        cosine=np.cos(np.deg2rad(max(transmission_angle, MIN_ANGLE_DEG))),
        ratio=np.float64(ratio or 1.0),
        pivots=np.zeros((2, 2)) if pivots is None else common.box_corners("pivots", pivots, centre, spread),
        workspace=np.zeros((2, 2)) if workspace is None else common.box_corners("workspace", workspace, centre, spread),
        free=np.array([name in free for name in ("scale", "rotation", "translation", "translation")], float),
    )
    return limits, tuple(name for name, value in limited.items() if value is not None)


def _free(given: Iterable[str]) -> tuple[str, ...]:
    """Return the argument `free` as a tuple in the order of `FREE`."""
    try:
        names = (given,) if isinstance(given, str) else tuple(given)
    except TypeError:
        raise ValueError(f"free must be names from {', '.join(FREE)}, got {given!r}") from None
    for name in names:
        if name not in FREE:
            raise ValueError(f"free must be names from {', '.join(FREE)}, got {name!r}")
    return tuple(name for name in FREE if name in names)


def _topologies(mechanism, links: int, kinds: tuple[str, ...], seed: int):
    """Return a mapping: number of dyads ↦ kinds of the dyads ↦ bodies (n, K, 2) of n topologies with these kinds."""
    if isinstance(links, bool) or not isinstance(links, int) or not 3 <= links <= MAX_LINKS:
        raise ValueError(f"links must be a whole number from 3 to {MAX_LINKS}, got {links!r}")
    shapes: dict[int, dict[tuple[str, ...], list]] = {}
    linkages: list[AbstractDyadic] = []
    if mechanism is None:
        rng = np.random.default_rng(seed)
        for dyads in range(1, (int(links) - 1) // 2 + 1):
            if dyads <= MAX_LISTED_DYADS - (len(kinds) > 1):
                linkages += topologies(1 + 2 * dyads, kinds)
            else:
                linkages += map(linkage_of_wiring, random_wirings(dyads, kinds, RANDOM_TOPOLOGIES, rng))
    else:
        if not isinstance(mechanism, str | Linkage | Sequence):
            raise ValueError(f"mechanism must be a name, a Dyadic, or several, got {mechanism!r}")
        several = [mechanism] if isinstance(mechanism, str | Linkage) else list(mechanism)
        for linkage in map(linkage_of, several):
            if not isinstance(linkage, AbstractDyadic):
                raise ValueError(f"mechanism must be made of a crank and dyads, which {linkage.name!r} is not")
            linkages.append(linkage)
        if not linkages:
            raise ValueError("mechanism must name at least one linkage")
    for linkage in linkages:
        by_kinds = shapes.setdefault(len(linkage.dyads), {})
        by_kinds.setdefault(tuple(kind for *_, kind in linkage.dyads), []).append(linkage.bodies)
    return {
        n: {names: np.array(bodies) for names, bodies in by_kinds.items()} for n, by_kinds in sorted(shapes.items())
    }
