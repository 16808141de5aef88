"""Parts of natural coordinates: basic points and unit vectors, frames made of them, rows of constraints."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.element import GROUND, AbstractBody, unknown


class FixedVector(NamedTuple):
    """A point or vector that is fixed in a body, by its coordinates in the body's frame."""

    name: str
    body: str
    coordinates: tuple[float, ...]


class ChosenBasics(NamedTuple):
    """Basic points and unit vectors that are chosen in addition to those of the joints, see `Natural`; hashable."""

    own_vectors: tuple[str, ...] = ()
    points: tuple[FixedVector, ...] = ()
    vectors: tuple[FixedVector, ...] = ()


# Choice of no points and vectors in addition to those of the joints and those that bodies need.
JOINTS_ONLY = ChosenBasics()


class Basic(NamedTuple):
    """A basic point or unit vector.

    Attributes:
        name: its name.
        places: its coordinates in the frame of each body it belongs to; the first one, or the ground, defines it.
        start: its first index in x; None on the ground.
        vector: True for a unit vector.
    """

    name: str
    places: dict[str, Array]
    start: int | None
    vector: bool

    @property
    def owner(self) -> str:
        """Name of the body that defines it, "ground" for one at rest."""
        return GROUND if self.start is None else next(iter(self.places))


class Basics(dict[str, Basic]):
    """The basic points and unit vectors of a mechanism, by name.

    Attributes:
        dimension: 2 or 3.
        size: number of their components in x.
    """

    def __init__(self, dimension: int):
        self.dimension, self.size = dimension, 0

    def add_chosen(self, chosen: FixedVector, bodies: Iterable[str], *, vector: bool) -> None:
        """Add a point, or the unit vector of a direction, that a user chose.

        Raises:
            ValueError: the body is unknown, or the ground; the coordinates are not those of a point or direction; or the
                name is in use.
        """
        kind = "vector" if vector else "point"
        if chosen.body not in bodies:
            raise ValueError(f"Natural: {kind} {chosen.name!r}: {unknown('body', chosen.body, bodies)}")
        s = np.array(chosen.coordinates)
        size = np.linalg.norm(s)
        if s.shape != (self.dimension,) or not np.isfinite(size) or (vector and size == 0):
            needed = f"{self.dimension} finite numbers{', not all zero' if vector else ''}"
            raise ValueError(f"Natural: {kind} {chosen.name!r} must have {needed}, got {chosen.coordinates}")
        self.add(chosen.name, {chosen.body: s / size if vector else s}, vector=vector)

    def add(self, name: str, places: dict, *, vector: bool) -> str:
        """Add a point or vector of the bodies in `places`, which has its coordinates in each of their frames.

        Returns:
            Its name.

        Raises:
            ValueError: the name is in use.
        """
        if name in self:
            raise ValueError(f"Natural: two basic points or vectors are called {name!r}")
        start = None if GROUND in places else self.size
        if start is not None:
            self.size += self.dimension
        self[name] = Basic(name, places, start, vector)
        return name

    def of(self, body: str) -> tuple[list[str], list[str]]:
        """Return the names of the points and of the unit vectors of a body."""
        found = [e for e in self.values() if body in e.places]
        return [e.name for e in found if not e.vector], [e.name for e in found if e.vector]

    @property
    def moving(self) -> list[tuple[Basic, slice]]:
        """Points and vectors that are not on the ground, with their entries in x."""
        return [(e, slice(e.start, e.start + self.dimension)) for e in self.values() if e.start is not None]


class Frame(NamedTuple):
    """The frame of a body from its points and vectors.

    Attributes:
        r: (d,), origin in the ground frame.
        a: (d, d), the matrix A.
        gram: inner products of the basis minus their values in the body.
        further: gaps p − r − A s̄ of further points.
    """

    r: Float[Array, " d"]
    a: Float[Array, "d d"]
    gram: list
    further: list


class Placement(NamedTuple):
    """All points and vectors, frames and poses in a configuration, and q and t, for residuals of constraints."""

    values: dict[str, Array]
    frames: dict[str, Frame]
    poses: dict[str, Any]
    q: Float[Array, " n"]
    t: Float[Array, ""]


class Condition(NamedTuple):
    """The rows of Ψ that belong to one vector, body, constraint or driver.

    Attributes:
        rows: number of rows.
        residual: function of a `Placement` that returns them, (rows,).
        supporting: True if M could leave coordinates without inertia unless these rows are added.
        angular: True if they compare directions, not lengths.
    """

    rows: int
    residual: Callable[[Placement], Array]
    supporting: bool
    angular: bool = False


class BodyFrame:
    """The points and vectors that define the frame of a body.

    Attributes:
        by_points: True if two points are the basis.
        points: names of the points; the first one gives the origin.
        basis: names of the unit vectors of the basis.
        further: names of shared unit vectors that are not in the basis.
        carried: names of the points and vectors that get inertia from this body for any numbers.
    """

    def __init__(self, basics: Basics, geometry: Any, name: str, kind: type[AbstractBody], own_vector: bool):
        self.name, self.kind, self.geometry = name, kind, geometry
        points, vectors = basics.of(name)
        suffice = geometry.two_points_suffice and len(points) > 1
        shared, self.by_points = len(vectors), suffice and not vectors and not own_vector
        if not points:
            points = [basics.add(f"{name}.origin", {name: np.zeros(basics.dimension)}, vector=False)]
        if not self.by_points:
            local = [basics[v].places[name] for v in vectors]
            for suffix, v in geometry.own_vectors(local).items():
                vectors.append(basics.add(f"{name}.{suffix}", {name: v}, vector=True))
        self.points = points
        self.basis = vectors[:1] + vectors[shared:] if shared else vectors
        self.further = vectors[1:shared]
        # A unit vector that another body defines may be opposite to that of this body.
        self.may_be_opposite = bool(shared) and basics[vectors[0]].owner != name
        self.places = {element: basics[element].places[name] for element in (*points, *vectors)}
        self.carried = [points[0], *self.basis, *(points[1:] if self.by_points and len(points) == 2 else ())]

    def frame(self, values, attitude) -> Frame:
        """Return the frame for values of all points and vectors; of two opposite frames that nearer to the attitude."""
        dtype = values[self.points[0]].dtype
        local = lambda name: jnp.asarray(self.places[name], dtype)
        (p, s), *others = [(values[name], local(name)) for name in self.points]
        if self.by_points:
            (second, at), others = _farthest(s, others)
            basis, bars = [second - p], [at - s]
        else:
            basis, bars = [values[name] for name in self.basis], [local(name) for name in self.basis]
        a = self.geometry.matrix(basis, bars)
        if self.may_be_opposite and attitude is not None:
            a = self.geometry.upright(a, attitude)
        pairs = [(k, m) for m in range(len(basis)) for k in range(m)] + ([(0, 0)] if self.by_points else [])
        gram = [basis[k] @ basis[m] - bars[k] @ bars[m] for k, m in pairs]
        return Frame(p - a @ s, a, gram, [other - p - a @ (at - s) for other, at in others])


def _farthest(s, others):
    """Return the pair (point, coordinates in the body) that is farthest from s, and the other pairs."""
    best, rest = others[0], []
    distance = lambda pair: (pair[1] - s) @ (pair[1] - s)
    for other in others[1:]:
        better = distance(other) > distance(best)
        swap = lambda yes, no, better=better: tuple(jnp.where(better, a, b) for a, b in zip(yes, no, strict=True))
        best, other = swap(other, best), swap(best, other)
        rest.append(other)
    return best, rest
