"""Joints as rows of MuJoCo's hinges, slides and balls."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxmbs.io.models.links.tree import BALL, HINGE, SLIDE, Place
from jaxmbs.io.models.model import ModelError
from jaxmbs.numerics import rotation


def in_space(s) -> Float[np.ndarray, "3"]:
    """A vector of the plane or of space, in space."""
    s = np.asarray(s, float)
    return np.append(s, np.zeros(3 - len(s)))


def place_of(body: str, pose) -> Place:
    """The place of a body with this pose, of the plane xy or of space."""
    along = np.stack([in_space(pose.direction(u)) for u in np.eye(len(pose.r))], axis=1)
    return Place(body, in_space(pose.r), along if len(pose.r) == 3 else np.column_stack([along, (0.0, 0.0, 1.0)]))


@dataclasses.dataclass(frozen=True)
class Hinged:
    """One of the joints that MuJoCo has.

    Attributes:
        kind: "hinge", "slide" or "ball".
        name: of its coordinate, such as "phi".
        axis: in the ground frame, with all joints as they are; None of a ball.
        value: of its coordinate now.
    """

    kind: str
    name: str
    axis: Float[np.ndarray, "3"] | None
    value: float


def steps_of(joint, i, j, *, reverse: bool) -> list[Hinged]:
    """The steps from body i of a joint to its body j, or in `reverse` back; with the coordinates and signs of the joint.

    Args:
        i, j: poses.

    Raises:
        ModelError: MuJoCo has no joints with these motions.
    """
    mobility = joint.mobility
    if mobility.known or mobility.lead is not None:
        raise ModelError("a motion or a lead cannot be represented")
    theta = np.asarray(mobility.measure(i, j))
    at = place_of(joint.i, i)
    names = mobility.velocities
    slides = [] if mobility.slides is None else [at.a @ in_space(u) for u in np.asarray(mobility.slides).T]
    steps = [Hinged(SLIDE, names[k], axis, float(theta[k])) for k, axis in enumerate(slides)]
    count, rho = len(names) - len(slides), theta[len(slides) :]
    turning = mobility.turning
    if turning is not None and count:
        names = names[len(slides) :]
        if names == ("wx", "wy", "wz"):
            steps.append(Hinged(BALL, "ball", None, 0.0))
        elif names in (("phi",), ("alpha", "beta")):
            axes = [(0.0, 0.0, 1.0)] if len(i.r) == 2 else np.asarray(turning.axes(rho)).T
            steps += [
                Hinged(HINGE, name, at.a @ axis, float(x)) for name, axis, x in zip(names, axes, rho, strict=True)
            ]
        else:
            raise ModelError(f"coordinates {', '.join(names)} are of no joint that MJCF has")
    if not reverse:
        return steps
    back = [dataclasses.replace(s, axis=None if s.axis is None else -s.axis) for s in reversed(steps)]
    return [s for s in back if s.kind != SLIDE] + [s for s in back if s.kind == SLIDE][::-1]


def number(x) -> str:
    """A number, with all its digits."""
    return repr(float(x))


def numbers(xs) -> str:
    """Numbers with blanks between them."""
    return " ".join(number(x) for x in xs)


def quaternion(a) -> str:
    """A rotation matrix as the text of a quaternion."""
    return numbers(np.asarray(rotation.from_matrix(jnp.asarray(a))))
