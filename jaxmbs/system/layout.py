"""Where everything is: which entries of q belong to which body, which rows of Φ to which constraint."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable
from functools import cached_property
from itertools import accumulate

import numpy as np

from jaxmbs.element import GROUND, AbstractBody


def unknown(kind: str, name: str, names: Iterable[str]) -> str:
    """A message for a name that does not exist, with the nearest one that does."""
    names = list(names)
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(map(repr, names)) or 'none'}"
    return f"unknown {kind} {name!r}; {hint}"


def _slices(names, sizes, start=0) -> dict[str, slice]:
    ends = list(accumulate(sizes, initial=start))
    return {name: slice(a, b) for name, a, b in zip(names, ends[:-1], ends[1:], strict=True)}


@dataclasses.dataclass(frozen=True)
class Layout:
    """The static structure of a mechanism: hashable, without numbers.

    Attributes:
        bodies: names and types of the bodies, in the order of their coordinates in q.
        constraints, drivers: name, number of rows and extra coordinates of each, in the order of their rows in Φ.
    """

    bodies: tuple[tuple[str, type[AbstractBody]], ...]
    constraints: tuple[tuple[str, int, tuple[str, ...]], ...]
    drivers: tuple[tuple[str, int, tuple[str, ...]], ...]

    @cached_property
    def body_slices(self) -> dict[str, slice]:
        """Entries of q for each body."""
        return _slices([name for name, _ in self.bodies], [len(kind.coordinates) for _, kind in self.bodies])

    @cached_property
    def body_types(self) -> dict[str, type[AbstractBody]]:
        """The class of each body."""
        return dict(self.bodies)

    @cached_property
    def extra_slices(self) -> dict[str, slice]:
        """Entries of q for the extra coordinates of each constraint that has any; they follow the bodies."""
        owners = [(name, len(extra)) for name, _, extra in self.constraints + self.drivers if extra]
        bodies = sum(len(kind.coordinates) for _, kind in self.bodies)
        return _slices([name for name, _ in owners], [size for _, size in owners], bodies)

    @cached_property
    def row_slices(self) -> dict[str, slice]:
        """Rows of Φ for each constraint and driver."""
        elements = self.constraints + self.drivers
        return _slices([name for name, *_ in elements], [rows for _, rows, _ in elements])

    @cached_property
    def coordinates(self) -> tuple[str, ...]:
        """Names of the entries of q: "crank.x", …, then "cam.alpha_i", …"""
        of_bodies = [f"{name}.{c}" for name, kind in self.bodies for c in kind.coordinates]
        extra = [f"{name}.{c}" for name, _, extra in self.constraints + self.drivers for c in extra]
        return tuple(of_bodies + extra)

    @cached_property
    def row_owners(self) -> tuple[str, ...]:
        """For each row of Φ the name of its constraint or driver."""
        return tuple(name for name, rows, _ in self.constraints + self.drivers for _ in range(rows))

    @cached_property
    def angular(self) -> np.ndarray:
        """For each entry of q whether it is an angle, or else a length."""
        of_bodies = [angular for _, kind in self.bodies for angular in kind.angular]
        return np.array(of_bodies + [True] * (len(self.coordinates) - len(of_bodies)))

    @property
    def n(self) -> int:
        """Number of coordinates."""
        return len(self.coordinates)

    @property
    def kinematic_rows(self) -> int:
        """Number of rows of Φ that are not drivers'."""
        return sum(rows for _, rows, _ in self.constraints)

    @property
    def driver_rows(self) -> int:
        """Number of rows of Φ that are drivers'."""
        return sum(rows for _, rows, _ in self.drivers)

    def index(self, coordinate: str) -> int:
        """The place of a coordinate, such as "crank.phi", in q."""
        if coordinate not in self.coordinates:
            raise ValueError(unknown("coordinate", coordinate, self.coordinates))
        return self.coordinates.index(coordinate)

    def entries(self, name: str) -> tuple[slice, tuple[int, ...]]:
        """Entries of q for a body, the extra coordinates of a constraint, or a single coordinate; and a value's shape."""
        slices = {**self.body_slices, **self.extra_slices}
        if name in self.coordinates:
            k = self.index(name)
            return slice(k, k + 1), ()
        if name not in slices:
            raise ValueError(unknown("name in the guess:", name, [*slices, *self.coordinates]))
        where = slices[name]
        return where, (where.stop - where.start,)

    def pose(self, body: str, q):
        """The pose of a body, or of "ground", in a configuration q (n,)."""
        if body == GROUND:
            kind = self.bodies[0][1]
            return kind.pose(kind.ground(q.dtype))
        if body not in self.body_types:
            raise ValueError(unknown("body", body, self.body_types))
        return self.body_types[body].pose(q[self.body_slices[body]])
