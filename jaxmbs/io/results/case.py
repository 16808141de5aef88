"""Solutions of synthesis with their motion and their traced point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs import planar, spatial
from jaxmbs.analyses.kinematics import kinematics
from jaxmbs.io.files import fields_of
from jaxmbs.numerics.results import Status
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.trajectory import Trajectory

# Millimetres in each unit of length.
MILLIMETRES = {"mm": 1.0, "cm": 10.0, "m": 1000.0, "in": 25.4, "ft": 304.8}
# Classes of drivers that prescribe an angle; the first such driver of a mechanism turns the crank.
ANGLE_DRIVERS = (
    planar.RevoluteDriver,
    planar.RelativeAngleDriver,
    planar.AbsoluteAngleDriver,
    spatial.RevoluteDriver,
)


class Case(NamedTuple):
    """A solution with its motion.

    Attributes:
        solution: the result of a search.
        mechanism: its mechanism.
        motion: its motion.
        point: (body, coordinates) of the traced point, or None.
        targets: places (K, d) that this point should pass, or None.
    """

    solution: Any
    mechanism: Mechanism
    motion: Trajectory
    point: tuple[str, np.ndarray] | None
    targets: np.ndarray | None

    @property
    def good(self) -> np.ndarray:
        """True at the times that the mechanism reaches, (T,)."""
        return np.asarray(self.motion.status) == Status.CONVERGED

    @property
    def curve(self) -> np.ndarray | None:
        """The path (T, d) of the traced point, NaN where the motion failed."""
        if self.point is None:
            return None
        return np.where(self.good[:, None], np.asarray(self.motion.point(*self.point)), np.nan)

    @property
    def crank_angle(self) -> np.ndarray | None:
        """The angle (T,) of the first driver of an angle, in radians, or None."""
        for driver in self.mechanism.drivers.values():
            if isinstance(driver, ANGLE_DRIVERS):
                return np.asarray(jax.vmap(driver.motion)(self.motion.t))
        return None


def case_of(solution, times: np.ndarray, *, only_planar: bool = False) -> Case:
    """Return a solution with its motion at `times` (T,), followed from time 0, to which its guess belongs.

    Raises:
        ValueError: no such solution or times; a mechanism in space if `only_planar`.
    """
    mech, guess = getattr(solution, "mechanism", None), getattr(solution, "guess", None)
    if not isinstance(mech, Mechanism) or guess is None:
        raise ValueError(
            f"solution must have .mechanism and .guess, like the results of mbs.synthesis; got {type(solution)}"
        )
    if only_planar and mech.layout.bodies[0][1].dimension != 2:
        raise ValueError("path: drawings show planar mechanisms; a mechanism in space goes to .json, .csv, .gif, .html")
    times = np.asarray(times, float)
    if times.ndim != 1 or not len(times) or not np.all(np.isfinite(times)):
        raise ValueError(f"times must be a row of finite numbers, got shape {times.shape}")
    motion = kinematics(mech, jnp.asarray(np.append(0.0, times)), guess)
    motion = jax.tree.map(lambda x: x[1:], motion)
    return Case(solution, mech, motion, point := _point(solution, mech), _targets(solution, mech) if point else None)


def _targets(solution, mech: Mechanism) -> np.ndarray | None:
    """Return the targets if they are places of the traced point, (K, d), else None."""
    given = getattr(solution, "targets", None)
    # Targets of `fit` contain an offset that the places do not have.
    targets = None if given is None else np.asarray(given, float) - getattr(solution, "offset", 0)
    fits = targets is not None and targets.ndim == 2 and targets.shape[1] == mech.layout.bodies[0][1].dimension
    return targets if fits else None


def _point(solution, mech: Mechanism) -> tuple[str, np.ndarray] | None:
    """Return the traced point as (body, point on it): that of the solution, else of a four-bar's coupler, else None."""
    named = getattr(solution, "point", None)
    if named is not None:
        return named[0], np.asarray(named[1], float)
    design = getattr(solution, "design", None)
    # A function generator is a four-bar without a point of interest.
    if not isinstance(design, Mapping) or "point" not in design or is_function_generator(solution):
        return None
    return ("coupler", np.asarray(design["point"], float)) if "coupler" in mech.bodies else None


def is_function_generator(solution) -> bool:
    """Return True for results of `synthesis.function`."""
    return hasattr(solution, "wanted")


def fields(solution) -> dict[str, Any]:
    """Return the fields of a solution by name, without the mechanism."""
    held = fields_of(solution) or vars(solution)
    return {name: value for name, value in held.items() if name != "mechanism"}
