"""The choice of a layer for each plate of a planar linkage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from jaxmbs.element import GROUND

# Number of orders of layers after which the search takes the best one found.
MAX_ORDERS = 20_000


class Overlaps(NamedTuple):
    """Parts of a linkage that overlap in some configuration, seen from above.

    Attributes:
        bodies: the moving bodies.
        fasteners: pins and blocks.
        same: pairs of bodies whose plates overlap.
        hits: for each fastener, bodies that it does not connect and whose plates overlap it.
        clashes: for each fastener, indices of earlier fasteners that overlap it.
        meshing: pairs of bodies that must have the same layer, because their gears mesh.
    """

    bodies: list[str]
    fasteners: list[Any]
    same: set[frozenset[str]]
    hits: list[set[str]]
    clashes: list[set[int]]
    meshing: set[frozenset[str]]


def best_layers(overlaps: Overlaps) -> tuple[dict[str, int], list[str]]:
    """Return the layer of each body, and the parts that collide in it.

    The ground has layer 0, moving bodies have layers from 1 on. Among the orders without collisions with the fewest
    layers, the one with the shortest pins is taken. If there is none, pins may collide.
    """
    for strict in (True, False):
        for count in range(1, len(overlaps.bodies) + 1):
            best, least, budget = None, float("inf"), [MAX_ORDERS]
            for layers in _orders(overlaps, {GROUND: 0}, count, strict, budget):
                length = sum(high - low for low, high in (f.layers(layers) for f in overlaps.fasteners))
                if length < least:
                    best, least = dict(layers), length
            if best is not None:
                return best, [] if strict else list(_collisions(overlaps, best))
    layers = {GROUND: 0} | {body: k for k, body in enumerate(overlaps.bodies, 1)}
    return layers, list(_collisions(overlaps, layers))


def _orders(
    overlaps: Overlaps, layers: dict[str, int], count: int, strict: bool, budget: list[int]
) -> Iterator[dict[str, int]]:
    """Yield the layers of all bodies in orders without collisions; `budget` counts down the orders tried."""
    left = [body for body in overlaps.bodies if body not in layers]
    if not left:
        yield layers
        return
    # The body with the most placed neighbours comes first, so that dead ends are seen early.
    body = max(left, key=lambda body: sum(frozenset((body, other)) in overlaps.same for other in layers))
    for layer in range(1, count + 1):
        if budget[0] <= 0:
            return
        budget[0] -= 1
        further = layers | {body: layer}
        if next(_collisions(overlaps, further, pins=strict), None) is None:
            yield from _orders(overlaps, further, count, strict, budget)


def _collisions(overlaps: Overlaps, layers: dict[str, int], *, pins: bool = True) -> Iterator[str]:
    """Yield the parts that collide among those that have a layer, with pins unless `pins` is False."""
    placed = list(layers)
    for k, body in enumerate(placed):
        for other in placed[:k]:
            pair, together = frozenset((body, other)), layers[body] == layers[other]
            if together and pair in overlaps.same:
                yield f"{other!r} and {body!r}"
            if not together and pair in overlaps.meshing:
                yield f"the gears of {other!r} and {body!r}"
    if not pins:
        return
    spans = {
        k: fastener.layers(layers)
        for k, fastener in enumerate(overlaps.fasteners)
        if all(body in layers for body in fastener.bodies)
    }
    for k, (low, high) in spans.items():
        name = overlaps.fasteners[k].name
        for body in overlaps.hits[k]:
            if low <= layers.get(body, -1) <= high:
                yield f"the pin {name!r} and {body!r}"
        for clash in overlaps.clashes[k] & set(spans):
            if spans[clash][0] <= high and low <= spans[clash][1]:
                yield f"the pins {overlaps.fasteners[clash].name!r} and {name!r}"
