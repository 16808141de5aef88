"""What natural coordinates consist of: basic points and unit vectors, frames made of them, rows of constraints."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.element import GROUND

if TYPE_CHECKING:
    from jaxmbs.formulations.natural.coordinates import NaturalCoordinates


class Basic(NamedTuple):
    """A basic point or unit vector.

    Attributes:
        places: its coordinates in the frame of each body it belongs to; the first one, or the ground, defines it.
        start: its first place in x; None on the ground.
        vector: whether it is a unit vector.
    """

    name: str
    places: dict[str, Array]
    start: int | None
    vector: bool

    @property
    def owner(self) -> str:
        """The body that defines it."""
        return GROUND if self.start is None else next(iter(self.places))


class Frame(NamedTuple):
    """The frame of a body from its points and vectors.

    Attributes:
        r, a: origin and matrix A in the ground frame. gram: inner products of the basis less their values in the body.
        further: gaps p − r − A s̄ of further points.
    """

    r: Float[Array, " d"]
    a: Float[Array, "d d"]
    gram: list
    further: list


class State(NamedTuple):
    """All points and vectors, frames and poses, and what constraints take besides: q and t."""

    values: dict[str, Array]
    frames: dict[str, Frame]
    poses: dict[str, Any]
    q: Float[Array, " n"]
    t: Float[Array, ""]


class Condition(NamedTuple):
    """Some rows of Ψ.

    Attributes:
        supporting: whether M could leave coordinates without inertia but for these rows.
        angular: whether they compare directions, not lengths.
    """

    name: str
    rows: int
    residual: Callable[[State], Array]
    supporting: bool
    angular: bool = False


class BodyFrame:
    """Which points and vectors make the frame of a body."""

    def __init__(self, natural: NaturalCoordinates, name: str, own_vector: bool):
        self.name, self.kind, geometry = name, natural.mech.layout.body_types[name], natural.geometry
        points, vectors = natural.of(name)
        shared, self.by_points = len(vectors), geometry.lean and not vectors and len(points) > 1 and not own_vector
        if not points:
            points = [natural.add(f"{name}.origin", {name: np.zeros(self.kind.dimension)}, vector=False)]
        if not self.by_points:
            local = [natural.elements[v].places[name] for v in vectors]
            for suffix, v in geometry.own_vectors(local).items():
                vectors.append(natural.add(f"{name}.{suffix}", {name: v}, vector=True))
        self.points = points
        self.basis = vectors[:1] + vectors[shared:] if shared else vectors
        self.further = vectors[1:shared]
        # A unit vector that another body defines may be opposite to this one's.
        self.second_hand = bool(shared) and natural.elements[vectors[0]].owner != name
        # Those that have inertia from this body for sure.
        self.carried = [points[0], *self.basis, *(points[1:] if self.by_points and len(points) == 2 else ())]

    def frame(self, natural: NaturalCoordinates, values, attitude) -> Frame:
        geometry, dtype = natural.geometry, values[self.points[0]].dtype
        local = lambda name: jnp.asarray(natural.elements[name].places[self.name], dtype)
        (p, s), *others = [(values[name], local(name)) for name in self.points]
        if self.by_points:
            (second, at), others = _farthest(s, others)
            basis, bars = [second - p], [at - s]
        else:
            basis, bars = [values[name] for name in self.basis], [local(name) for name in self.basis]
        a = geometry.matrix(basis, bars)
        if self.second_hand and attitude is not None:
            a = geometry.upright(a, attitude)
        pairs = [(k, m) for m in range(len(basis)) for k in range(m)] + ([(0, 0)] if self.by_points else [])
        gram = [basis[k] @ basis[m] - bars[k] @ bars[m] for k, m in pairs]
        return Frame(p - a @ s, a, gram, [other - p - a @ (at - s) for other, at in others])


def _farthest(s, others):
    """Of points with their coordinates in the body the one that is farthest from s, and the others."""
    best, rest = others[0], []
    distance = lambda place: (place[1] - s) @ (place[1] - s)
    for other in others[1:]:
        better = distance(other) > distance(best)
        swap = lambda yes, no, better=better: tuple(jnp.where(better, a, b) for a, b in zip(yes, no, strict=True))
        best, other = swap(other, best), swap(best, other)
        rest.append(other)
    return best, rest
