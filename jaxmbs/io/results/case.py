"""What every file needs of a solution: its motion, the point that is traced, its fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs import planar, spatial
from jaxmbs.analyses.kinematics import kinematics
from jaxmbs.numerics.results import Status
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.trajectory import Trajectory

ANGLE_DRIVERS = (
    planar.RevoluteDriver,
    planar.RelativeAngleDriver,
    planar.AbsoluteAngleDriver,
    spatial.RevoluteDriver,
)


class Case(NamedTuple):
    """A solution in motion.

    Attributes:
        point: (body, coordinates) of the point that is traced, None if there is none.
        targets (K, d): the places that it is to pass, or None.
    """

    solution: Any
    mechanism: Mechanism
    motion: Trajectory
    point: tuple[str, np.ndarray] | None
    targets: np.ndarray | None

    @property
    def good(self) -> np.ndarray:
        """Which times the mechanism reaches, (T,)."""
        return np.asarray(self.motion.status) == Status.CONVERGED

    @property
    def curve(self) -> np.ndarray | None:
        """The path (T, d) of the traced point, NaN where the motion failed."""
        if self.point is None:
            return None
        return np.where(self.good[:, None], np.asarray(self.motion.point(*self.point)), np.nan)

    @property
    def crank_angle(self) -> np.ndarray | None:
        """The angle (T,) that the first driver of an angle prescribes, in radians; None without such a driver."""
        for driver in self.mechanism.drivers.values():
            if isinstance(driver, ANGLE_DRIVERS):
                return np.asarray(jax.vmap(driver.motion)(self.motion.t))
        return None


def case_of(solution, times: np.ndarray, *, only_planar: bool = False) -> Case:
    """A solution with its motion over the times, followed from time 0, where its guess belongs.

    Raises:
        ValueError: solution has no mechanism and guess, or one in space where only planar ones will do; the times are
            unusable.
    """
    mech, guess = getattr(solution, "mechanism", None), getattr(solution, "guess", None)
    if not isinstance(mech, Mechanism) or guess is None:
        raise ValueError(
            f"solution must have a mechanism and a guess, as what synthesis finds does; got {type(solution)}"
        )
    if only_planar and mech.layout.bodies[0][1].dimension != 2:
        raise ValueError("path: drawings show planar mechanisms; a mechanism in space goes to .json, .csv, .gif, .html")
    times = np.asarray(times, float)
    if times.ndim != 1 or not len(times) or not np.all(np.isfinite(times)):
        raise ValueError(f"times must be a row of finite numbers, got shape {times.shape}")
    motion = kinematics(mech, jnp.asarray(np.append(0.0, times)), guess)
    motion = jax.tree.map(lambda x: x[1:], motion)
    return Case(solution, mech, motion, point := _point(solution, mech), _places(solution, mech) if point else None)


def _places(solution, mech: Mechanism) -> np.ndarray | None:
    """The targets, where they are places of the traced point."""
    given = getattr(solution, "targets", None)
    # What `fit` adds to its values is not a part of the places.
    targets = None if given is None else np.asarray(given, float) - getattr(solution, "offset", 0)
    fits = targets is not None and targets.ndim == 2 and targets.shape[1] == mech.layout.bodies[0][1].dimension
    return targets if fits else None


def _point(solution, mech: Mechanism) -> tuple[str, np.ndarray] | None:
    """The traced point: the one that the solution names, else that of a four-bar's coupler."""
    named = getattr(solution, "point", None)
    if named is not None:
        return named[0], np.asarray(named[1], float)
    design = getattr(solution, "design", None)
    # A function generator is a four-bar without a point of interest.
    if isinstance(design, Mapping) and "point" in design and "coupler" in mech.bodies and not generates(solution):
        return "coupler", np.asarray(design["point"], float)
    return None


def generates(solution) -> bool:
    """Whether it is a solution for a function."""
    return hasattr(solution, "wanted")


def fields(solution) -> dict[str, Any]:
    """What a solution holds, by name, without the mechanism."""
    if hasattr(solution, "_asdict"):
        held = solution._asdict()
    elif dataclasses.is_dataclass(solution):
        held = {field.name: getattr(solution, field.name) for field in dataclasses.fields(solution)}
    else:
        held = dict(vars(solution))
    return {name: value for name, value in held.items() if name != "mechanism"}
