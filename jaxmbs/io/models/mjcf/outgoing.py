"""Joints as rows of MuJoCo's hinges, slides and balls, the configuration that is written, and numbers as texts."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxmbs.analyses.assembly import assemble
from jaxmbs.io.models.links.tree import BALL, HINGE, SLIDE, LinkFrame
from jaxmbs.io.models.model import Model, ModelError
from jaxmbs.numerics import rotation
from jaxmbs.numerics.results import Status
from jaxmbs.system.equations import constraints

# Largest residual of the constraints, in units of length and radians, at which a guess is written as it is; beyond it
# the guess is assembled first.
MAX_CLOSED_RESIDUAL = 1e-12


def assembled_guess(model: Model, file_format: str) -> Any:
    """Return the guess (n,) of a model, assembled if its residuals are not small; messages name the format."""
    residuals = np.asarray(constraints(model, model.coordinates(), 0.0)) if model.constraints else np.zeros(0)
    if np.abs(residuals).max(initial=0.0) < MAX_CLOSED_RESIDUAL:
        return model.guess
    found = assemble(model, model.guess)
    if int(found.status) != Status.CONVERGED:
        raise ModelError(
            f"guess: cannot be assembled (residual {float(found.residual):.1e}), which {file_format} needs"
        )
    return found.q


def in_space(s) -> Float[np.ndarray, "3"]:
    """Return a vector of the plane or of space as a vector of space, (3,)."""
    s = np.asarray(s, float)
    return np.append(s, np.zeros(3 - len(s)))


def place_of(body: str, pose) -> LinkFrame:
    """Return the frame of a body with this planar or spatial pose, in the ground frame."""
    along = np.stack([in_space(pose.direction(u)) for u in np.eye(len(pose.r))], axis=1)
    return LinkFrame(body, in_space(pose.r), along if len(pose.r) == 3 else np.column_stack([along, (0.0, 0.0, 1.0)]))


@dataclasses.dataclass(frozen=True)
class MujocoJoint:
    """A joint of MuJoCo.

    Attributes:
        kind: "hinge", "slide" or "ball".
        name: name of its coordinate, such as "phi".
        axis: unit vector along its axis in the ground frame, (3,); None for a ball.
        value: value of its coordinate.
    """

    kind: str
    name: str
    axis: Float[np.ndarray, "3"] | None
    value: float


def primitives_of(joint, i, j, *, reverse: bool) -> list[MujocoJoint]:
    """Return the joints of MuJoCo with the motions of a joint between poses i and j, from j to i if `reverse`."""
    mobility = joint.mobility
    if mobility.known or mobility.lead is not None:
        raise ModelError("a motion or a lead cannot be represented")
    theta = np.asarray(mobility.measure(i, j))
    at = place_of(joint.i, i)
    names = mobility.velocities
    slides = [] if mobility.slides is None else [at.a @ in_space(u) for u in np.asarray(mobility.slides).T]
    primitives = [MujocoJoint(SLIDE, names[k], axis, float(theta[k])) for k, axis in enumerate(slides)]
    count, rho = len(names) - len(slides), theta[len(slides) :]
    turning = mobility.turning
    if turning is not None and count:
        names = names[len(slides) :]
        if names == ("wx", "wy", "wz"):
            primitives.append(MujocoJoint(BALL, "ball", None, 0.0))
        elif names in (("phi",), ("alpha", "beta")):
            axes = [(0.0, 0.0, 1.0)] if len(i.r) == 2 else np.asarray(turning.axes(rho)).T
            primitives += [
                MujocoJoint(HINGE, name, at.a @ axis, float(x)) for name, axis, x in zip(names, axes, rho, strict=True)
            ]
        else:
            raise ModelError(f"MJCF has no joint with the coordinates {', '.join(names)}")
    if not reverse:
        return primitives
    back = [dataclasses.replace(s, axis=None if s.axis is None else -s.axis) for s in reversed(primitives)]
    return [s for s in back if s.kind != SLIDE] + [s for s in back if s.kind == SLIDE][::-1]


def number(x) -> str:
    """Return a number as a text with all its digits."""
    return repr(float(x))


def numbers(xs) -> str:
    """Return numbers as a text, separated by blanks."""
    return " ".join(number(x) for x in xs)


def quaternion(a) -> str:
    """Return the quaternion of a rotation matrix as a text."""
    return numbers(np.asarray(rotation.from_matrix(jnp.asarray(a))))


def motions_of(model: Model, start: Any, language: str, name: str, *, reverse: bool) -> tuple[Any, list[MujocoJoint]]:
    """Return a constraint and its motions as hinges, slides and balls, in the configuration `start` (n,).

    Args:
        model: the model.
        start: the configuration.
        language: name of the format, for messages.
        name: name of the constraint.
        reverse: True if body j of the constraint carries body i.

    Raises:
        ModelError: the constraint has no such motions.
    """
    constraint: Any = model.constraints[name]
    none_like = f"constraint {name!r} ({type(constraint).__name__}): {language} has nothing like it"
    if constraint.freedom is None:
        raise ModelError(none_like)
    poses = model.poses(start)
    try:
        return constraint, primitives_of(constraint, poses[constraint.i], poses[constraint.j], reverse=reverse)
    except ModelError as error:
        raise ModelError(f"{none_like}; {error}") from None
