"""Paths, functions and poses by a mechanism of one's own, as `fit` takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxmbs.synthesis.builders import Fitted, fit
from jaxmbs.synthesis.common import Ranked
from jaxmbs.system.mechanism import Mechanism

# So many times as many results are taken as are shown, since some may be out of order.
SPARE = 3


def check_own(kind: str, build: Any, needed: Mapping[str, Any], foreign: Mapping[str, Any]) -> None:
    """Refuse what is no builder, a builder without what it needs, and arguments that belong to linkages by name.

    Raises:
        ValueError: naming the argument.
    """
    if not callable(build):
        raise ValueError(f"mechanism must be a name, a linkage, or a function that builds one, got {build!r}")
    for name, value in needed.items():
        if value is None:
            raise ValueError(f"a {kind} by a mechanism of one's own needs {name}=")
    for name, value in foreign.items():
        if value is not None and np.any(np.asarray(value) != 0):
            raise ValueError(f"{name} is for linkages by name; take require= or least_singular_value= of `fit`")


def refuse_foreign(given: Mapping[str, Any]) -> None:
    """Refuse what has no meaning for a linkage by name.

    Raises:
        ValueError: naming the argument.
    """
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name} is for a mechanism of one's own; linkages by name have none")


def path_of(build: Callable, targets, timing, point, ordered: bool, keep: int, **options) -> list[tuple[Fitted, Any]]:
    """Results and the places of their point, those that pass the targets in order first if that matters."""
    body, place = point_of(point, options["design"])
    measure = _measure(body, place)
    times = None if timing is None else timing / (2 * np.pi)
    found = fit(
        build, targets=targets, measure=measure, times=times, floating=times is not None, keep=SPARE * keep, **options
    )
    every = _in_order_first(found.all, ordered and timing is None)[:keep]
    return [(x, (body, np.asarray(place(x.design), float))) for x in every]


def _in_order_first(found: list[Fitted], matters: bool) -> list[Fitted]:
    """Those that assemble first, and among them those that pass the targets in order if that matters; all with a check."""
    told = [x._replace(checks={**x.checks, "ordered": passes_in_order(x.times)}) for x in found]
    return sorted(told, key=lambda x: (not x.checks["assembled"], matters and not x.checks["ordered"]))


@lru_cache(maxsize=64)
def _measure(body: str, place: Callable) -> Callable:
    """The measure of a point: the same function whenever it is asked for, so that programs are found again."""
    return lambda b, mech, q: mech.point(q, body, place(b))


def point_of(point, design) -> tuple[str, Callable]:
    """The body of a point, and its coordinates as a function of the design: numbers, an entry by name, or that function."""
    if not (isinstance(point, tuple) and len(point) == 2 and isinstance(point[0], str)):
        raise ValueError(f"point must be (body, coordinates), got {point!r}")
    body, given = point
    if callable(given):
        return body, given
    if isinstance(given, str):
        if not isinstance(design, Mapping) or given not in design:
            raise ValueError(f"point is {given!r} of the design, which has no such entry")
        return body, _entry(given)
    return body, _constant(tuple(float(x) for x in given))


@lru_cache(maxsize=64)
def _entry(name: str) -> Callable:
    return lambda b: b[name]


@lru_cache(maxsize=64)
def _constant(place: tuple[float, ...]) -> Callable:
    return lambda b: jnp.asarray(place)


def passes_in_order(times) -> bool:
    """Whether times of a cycle of 1 go one way, by no more than a cycle."""
    steps = np.diff(np.asarray(times))
    return any(bool(np.all(way % 1 > 0) and (way % 1).sum() < 1) for way in (steps, -steps))


def output_of(output) -> Callable:
    """An output: a coordinate by name, such as "rocker.phi", or a function of design, mechanism and configuration."""
    if callable(output):
        return lambda b, mech, q: jnp.reshape(output(b, mech, q), (1,))
    if isinstance(output, str):
        return lambda b, mech, q: q[jnp.array([mech.layout.index(output)])]
    raise ValueError(
        f"output must be the name of a coordinate, or a function of (design, mechanism, q), got {output!r}"
    )


def motion_of(
    build: Callable, design, body: str, poses, length: float, ordered: bool, keep: int, **options
) -> Ranked[Fitted]:
    """Results that carry a body through poses (K, 3) of the plane or (K, 7) of space; angles count by `length`."""
    rows = poses.shape[1]
    if rows == 3:
        goal = np.column_stack([poses[:, :2], length * np.cos(poses[:, 2]), length * np.sin(poses[:, 2])])
    else:
        # Three axes turn by 2√2 sin(φ/2) together, in the plane two numbers by 2 sin(φ/2): the same weight for an angle.
        turned = np.array([_axes(p / np.linalg.norm(p)) for p in poses[:, 3:]])
        goal = np.column_stack([poses[:, :3], length / np.sqrt(2) * turned.reshape(len(poses), 9)])

    def measure(b, mech: Mechanism, q):
        pose = mech.layout.pose(body, q)
        if rows == 3:
            axis = pose.direction(jnp.array([1.0, 0.0]))
            return jnp.concatenate([pose.point(jnp.zeros(2)), length * axis])
        axes = jnp.concatenate([pose.direction(e) for e in jnp.eye(3)])
        return jnp.concatenate([pose.point(jnp.zeros(3)), length / np.sqrt(2) * axes])

    found = fit(build, design, goal, measure, keep=SPARE * keep, **options)
    return Ranked(_in_order_first(found.all, ordered and options["times"] is None)[:keep])


def _axes(p) -> np.ndarray:
    """The three axes of a frame with Euler parameters p, one after the other."""
    w, u = p[0], p[1:]
    cross = np.array([[0, -u[2], u[1]], [u[2], 0, -u[0]], [-u[1], u[0], 0]])
    return (np.eye(3) + 2 * w * cross + 2 * cross @ cross).T.reshape(9)
