"""The layout of a mechanism: the entries of q and v of each body, and the rows of Φ of each constraint."""

from __future__ import annotations

import dataclasses
import difflib
import itertools
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from jaxmbs.element import GROUND, AbstractBody, require_name, unknown
from jaxmbs.numerics.space import Flat, PartwiseSpace


def _slices(names: Sequence[str], sizes: Iterable[int], start: int = 0) -> dict[str, slice]:
    """Return a slice for each name, of the given sizes, one after the other from `start`."""
    ends = list(accumulate(sizes, initial=start))
    return {name: slice(a, b) for name, a, b in zip(names, ends[:-1], ends[1:], strict=True)}


def _index(kind: str, name: str, names: tuple[str, ...]) -> int:
    """Return the index of a name, or raise `ValueError` with the names of this kind."""
    require_name(kind, name, names)
    return names.index(name)


@dataclasses.dataclass(frozen=True)
class Layout(PartwiseSpace):
    """The static structure of a mechanism, hashable and without numbers; also the space of its configurations.

    Attributes:
        bodies: names and types of the bodies, in the order of their coordinates in q.
        constraints, drivers: name, number of rows and extra coordinates of each, in the order of their rows in Φ.
    """

    bodies: tuple[tuple[str, type[AbstractBody]], ...]
    constraints: tuple[tuple[str, int, tuple[str, ...]], ...]
    drivers: tuple[tuple[str, int, tuple[str, ...]], ...]

    @cached_property
    def body_slices(self) -> dict[str, slice]:
        """The slice of q of each body, by name."""
        return _slices([name for name, _ in self.bodies], [len(kind.coordinates) for _, kind in self.bodies])

    @cached_property
    def velocity_slices(self) -> dict[str, slice]:
        """The slice of v of each body, by name."""
        return _slices([name for name, _ in self.bodies], [len(kind.velocities) for _, kind in self.bodies])

    @cached_property
    def body_types(self) -> dict[str, type[AbstractBody]]:
        """The class of each body, by name."""
        return dict(self.bodies)

    @cached_property
    def extra_slices(self) -> dict[str, slice]:
        """The slice of q for each element with extra coordinates, by name; they follow those of the bodies."""
        return self._extra_slices(sum(len(kind.coordinates) for _, kind in self.bodies))

    @cached_property
    def extra_velocity_slices(self) -> dict[str, slice]:
        """The slice of v for each element with extra coordinates, by name."""
        return self._extra_slices(sum(len(kind.velocities) for _, kind in self.bodies))

    def _extra_slices(self, start: int) -> dict[str, slice]:
        """Return slices for the extra coordinates of each element that has any; the first one begins at `start`."""
        owners = [(name, len(extra)) for name, _, extra in self.constraints + self.drivers if extra]
        return _slices([name for name, _ in owners], [size for _, size in owners], start)

    @cached_property
    def row_slices(self) -> dict[str, slice]:
        """The slice of rows of Φ of each constraint and driver, by name."""
        elements = self.constraints + self.drivers
        return _slices([name for name, *_ in elements], [rows for _, rows, _ in elements])

    @cached_property
    def coordinates(self) -> tuple[str, ...]:
        """Names of the entries of q: those of bodies, such as "crank.x", then extra ones, such as "cam.alpha_i"."""
        return self._names("coordinates")

    @cached_property
    def velocities(self) -> tuple[str, ...]:
        """Names of the entries of v, such as "crank.phi" or "rod.wx", in the order of q."""
        return self._names("velocities")

    def _names(self, of_body: str) -> tuple[str, ...]:
        """Return the names of all "coordinates" or "velocities": those of the bodies, then the extra ones."""
        of_bodies = [f"{name}.{c}" for name, kind in self.bodies for c in getattr(kind, of_body)]
        extra = [f"{name}.{c}" for name, _, extra in self.constraints + self.drivers for c in extra]
        return tuple(of_bodies + extra)

    @cached_property
    def row_owners(self) -> tuple[str, ...]:
        """Name of the constraint or driver of each row of Φ."""
        return tuple(name for name, rows, _ in self.constraints + self.drivers for _ in range(rows))

    @cached_property
    def angular(self) -> np.ndarray:
        """(m,), True for each entry of v that is the rate of an angle, False for that of a length."""
        of_bodies = [angular for _, kind in self.bodies for angular in kind.angular]
        return np.array(of_bodies + [True] * (len(self.velocities) - len(of_bodies)))

    @property
    def dimension(self) -> int:
        """2 in the plane, 3 in space."""
        return self.bodies[0][1].dimension

    @property
    def n(self) -> int:
        """Number of coordinates, the length of q."""
        return len(self.coordinates)

    @property
    def m(self) -> int:
        """Number of velocities, the length of v."""
        return len(self.velocities)

    @property
    def kinematic_rows(self) -> int:
        """Number of rows of Φ of the constraints, without the drivers."""
        return sum(rows for _, rows, _ in self.constraints)

    @property
    def driver_rows(self) -> int:
        """Number of rows of Φ of the drivers."""
        return sum(rows for _, rows, _ in self.drivers)

    def index(self, coordinate: str) -> int:
        """Return the index in q of a coordinate, such as "crank.phi"."""
        return _index("coordinate", coordinate, self.coordinates)

    def velocity_index(self, velocity: str) -> int:
        """Return the index in v of a velocity, such as "crank.phi" or "rod.wx"."""
        return _index("coordinate", velocity, self.velocities)

    def entries(self, name: str, *, velocities: bool = False) -> tuple[slice, tuple[int, ...]]:
        """Return the entries of q, or of v, with a name, and the shape of a value for them.

        The name is that of a body, of a constraint with extra coordinates, or of a single coordinate.

        Raises:
            ValueError: an unknown name.
        """
        slices = {**self.body_slices, **self.extra_slices}
        names = self.coordinates
        if velocities:
            slices, names = {**self.velocity_slices, **self.extra_velocity_slices}, self.velocities
        if name in names:
            k = names.index(name)
            return slice(k, k + 1), ()
        if name not in slices:
            kind = "velocities" if velocities else "guess"
            owner = str(name).partition(".")[0]
            if owner in slices:
                own = names[slices[owner]]
                near = difflib.get_close_matches(str(name), own, n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                raise ValueError(
                    f"unknown name in the {kind}: {name!r}; {hint}{owner!r} has {', '.join(map(repr, own))}"
                )
            raise ValueError(unknown(f"name in the {kind}:", name, [*slices, *names]))
        entries = slices[name]
        return entries, (entries.stop - entries.start,)

    def pose(self, body: str, q: Array) -> Any:
        """Return the pose of a body, or of "ground", in a configuration q (n,)."""
        if body == GROUND:
            kind = self.bodies[0][1]
            return kind.pose(kind.ground(q.dtype))
        return self._body_type(body).pose(q[self.body_slices[body]])

    def coordinates_of(self, body: str, q: Array) -> Array:
        """Return the coordinates of a body, or of "ground", in configurations q (*batch, n)."""
        if body == GROUND:
            at_rest = self.bodies[0][1].ground(q.dtype)
            return jnp.broadcast_to(at_rest, (*q.shape[:-1], *at_rest.shape))
        self._body_type(body)
        return q[..., self.body_slices[body]]

    def _body_type(self, body: str) -> type[AbstractBody]:
        """Return the class of a body, or raise `ValueError` for an unknown name."""
        require_name("body", body, self.body_types)
        return self.body_types[body]

    def point(self, body: str, s: ArrayLike | Sequence[float] | None, q: Array) -> Array:
        """Return a point of a body in the ground frame, from its coordinates s in the body frame, None for the origin."""
        pose = self.pose(body, q)
        if s is None:
            return pose.r
        s = jnp.asarray(s, q.dtype)
        if s.shape != (self.dimension,):
            raise ValueError(f"a point of {body!r} must have shape ({self.dimension},), got {s.shape}")
        return pose.point(s)

    @cached_property
    def _flat(self) -> bool:
        """True if the velocities of every body are the rates of its coordinates."""
        return all(kind.manifold is Flat for _, kind in self.bodies)

    @cached_property
    def _runs(self) -> list[tuple[type, list[str]]]:
        """Pairs of a manifold and the names of consecutive bodies that share it."""
        runs = itertools.groupby(self.bodies, lambda body: body[1].manifold)
        return [(manifold, [name for name, _ in run]) for manifold, run in runs]

    def _by_part(self, function: str, *args: tuple[Array, bool]) -> Array:
        """Apply a method of `Manifold` to parts of vectors. `args` are pairs (array like q, 0) or (array like v, 1)."""
        # Equal manifolds of neighbouring bodies are traced once. Extra coordinates are flat.
        if self._flat:
            return getattr(Flat, function)(*(x for x, _ in args))
        parts, slices = [], (self.body_slices, self.velocity_slices)
        for manifold, names in self._runs:
            whole = [x[slices[k][names[0]].start : slices[k][names[-1]].stop] for x, k in args]
            each = jax.vmap(getattr(manifold, function)) if len(names) > 1 else getattr(manifold, function)
            rows = whole if len(names) == 1 else [x.reshape(len(names), -1) for x in whole]
            parts.append(each(*rows).ravel())
        rest = [x[slices[k][self.bodies[-1][0]].stop :] for x, k in args]
        return jnp.concatenate([*parts, getattr(Flat, function)(*rest)])

    @property
    def rest(self) -> np.ndarray:
        """Configuration (n,) with all bodies at the ground frame and extra coordinates zero: the default of a guess."""
        extra = np.zeros(self.n - self.body_slices[self.bodies[-1][0]].stop)
        return np.concatenate([*(kind.rest() for _, kind in self.bodies), extra])
