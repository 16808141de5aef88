"""Rows of hinges, slides and balls as single joints with the same motions, and their springs, dampers and stops."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NoReturn

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from jaxmbs import forces, spatial
from jaxmbs.element import GROUND
from jaxmbs.io.models.links.tree import (
    BALL,
    FREE,
    HINGE,
    MAX_AXIS_ERROR,
    MAX_AXIS_GAP,
    SLIDE,
    Link,
    Matrix,
    PrimitiveJoint,
    Vector,
    along_z,
    unit,
)
from jaxmbs.io.models.model import ModelError
from jaxmbs.numerics import rotation

# Names of the rates of a joint with several, by kind.
RATES = {BALL: ("wx", "wy", "wz"), FREE: ("x", "y", "z", "wx", "wy", "wz")}
# Rate at which dry friction read from a file reaches its full value, in rad or units of length per time; below it
# friction grows from 0.
FRICTION_RATE = 1e-2


def joint_of(link: Link):
    """Return the joint between a link and its parent, None for a link that floats; refuse unknown motions."""
    slides, turns = link.slides, link.turns
    if link.driven:
        total: Any = spatial.TotalJoint
        held = {"position": tuple(map(float, link.r)), "orientation": ("fixed",) * 3}
        return total(link.parent, link.name, **held, frame_i=np.eye(3), frame_j=link.a.T)
    if any(primitive.kind == FREE for primitive in link.primitives):
        if len(link.primitives) > 1:
            _refuse(link, "a free joint and others")
        floats = link.parent == GROUND and not link.primitives[0].armature
        return None if floats else spatial.Free(link.parent, link.name)
    k, n = len(slides), 3 if any(primitive.kind == BALL for primitive in turns) else len(turns)
    _check_independent(link)
    _check_order(link)
    if k == n == 3:
        return None if link.parent == GROUND else spatial.Free(link.parent, link.name)
    point: Vector = np.zeros(3) if k == 3 else _anchor(link)
    ends = link.parent, link.name, link.r + link.a @ point, point
    if (k, n) == (0, 3):
        return spatial.Spherical(*ends)
    if (k, n) == (0, 2):
        return spatial.Universal(*ends, link.a @ turns[0].axis, turns[1].axis)
    kind, axes = _kind_and_axes(link, n)
    turned = np.abs(link.a - np.eye(3)).max() > 0
    if kind is not None:
        if turned or kind is spatial.Rigid:
            frames = {"frame_i": link.a @ axes, "frame_j": axes} if turned else {}
            return kind(*ends, **frames)
        return kind(*ends, axes[:, 2])
    translations = ["free" if any(abs(s.axis @ axis) > MAX_AXIS_ERROR for s in slides) else "fixed" for axis in axes.T]
    angles = ["free"] * n + ["fixed"] * (3 - n)
    return spatial.RelativeJoint(*ends, translations, angles, frame_i=link.a @ axes, frame_j=axes)


def _refuse(link: Link, motions: str) -> NoReturn:
    """Raise `ModelError` for a row of joints with motions that no joint has."""
    names = ", ".join(repr(primitive.name) for primitive in link.primitives)
    raise ModelError(f"joints {names} of {link.name!r}: {motions} are not the motions of one joint")


def _check_independent(link: Link) -> None:
    """Raise `ModelError` unless the axes of the slides are independent and each hinge perpendicular to the next."""
    slides, turns = link.slides, link.turns
    if slides and np.linalg.matrix_rank(np.array([s.axis for s in slides]), MAX_AXIS_ERROR) < len(slides):
        _refuse(link, "slides that depend on each other")
    if len(turns) > 1:
        if any(primitive.kind == BALL for primitive in turns):
            _refuse(link, "a ball and other turns")
        if len(turns) > 3 or any(abs(u.axis @ w.axis) > MAX_AXIS_ERROR for u, w in pairwise(turns)):
            _refuse(link, "hinges that are not perpendicular to the next one")


def _check_order(link: Link) -> None:
    """Raise `ModelError` unless slides come first, or the order makes no difference."""
    slides, turns = link.slides, link.turns
    kinds = [primitive.kind == SLIDE for primitive in link.primitives]
    if kinds == sorted(kinds, reverse=True) or len(slides) == 3:
        return
    if len(turns) == 1 and turns[0].kind == HINGE:
        along = [abs(s.axis @ turns[0].axis) for s in slides]
        if (len(slides) == 1 and along[0] > 1 - MAX_AXIS_ERROR) or (len(slides) == 2 and max(along) < MAX_AXIS_ERROR):
            return
    _refuse(link, "slides that come after a hinge or a ball")


def _anchor(link: Link) -> Vector:
    """Return the point about which a link turns, in its frame; raise `ModelError` if its axes do not meet."""
    turns = link.turns
    if not turns:
        return np.zeros(3)
    if len(turns) == 1:
        return turns[0].point
    across = [np.eye(3) - np.outer(primitive.axis, primitive.axis) for primitive in turns]
    places = [p @ s.point for p, s in zip(across, turns, strict=True)]
    point = np.linalg.lstsq(np.concatenate(across), np.concatenate(places), rcond=None)[0]
    gaps = [np.abs(p @ (point - s.point)).max() for p, s in zip(across, turns, strict=True)]
    if max(gaps) > MAX_AXIS_GAP * (1 + np.abs(point).max()):
        _refuse(link, "hinges whose axes do not meet")
    return point


def _kind_and_axes(link: Link, n: int) -> tuple[Any, Matrix]:
    """Return the class and the axes, in the frame of the link, of its joint with n angles.

    The class is None for a `RelativeJoint`; other joints have their axis along the z axis.
    """
    slides, turns, k = link.slides, link.turns, len(link.slides)
    # The direction of a single slide, or the normal of two.
    special: Any = None
    if k in (1, 2):
        special = slides[0].axis if k == 1 else unit(np.cross(slides[0].axis, slides[1].axis))
    if k + n == 0:
        return spatial.Rigid, np.eye(3)
    if n == 0:
        return spatial.Prismatic if k == 1 else None, np.eye(3) if k == 3 else along_z(special)
    if n == 3:
        return None, _along_x(special) if k == 1 else along_z(special)
    first = turns[0].axis
    if n == 2:
        axes = np.stack([first, turns[1].axis, np.cross(first, turns[1].axis)], axis=1)
        if k < 3 and np.abs(axes.T @ special).max() < 1 - MAX_AXIS_ERROR:
            _refuse(link, "slides that are not along the axes of the turns")
        return None, axes
    if k == 0:
        return spatial.Revolute, along_z(first)
    if k == 3:
        return None, _along_x(first)
    if abs(first @ special) > 1 - MAX_AXIS_ERROR:
        return (spatial.Cylindrical if k == 1 else spatial.Planar), along_z(first)
    if abs(first @ special) > MAX_AXIS_ERROR:
        _refuse(link, "slides neither along the axis of the turn nor across it")
    return None, np.stack([first, np.cross(special, first), special], axis=1)


def _along_x(axis: Vector) -> Matrix:
    """Return right-handed orthonormal axes, as columns, with the first one in a direction."""
    return np.roll(along_z(axis), 1, axis=1)


def is_one_joint(link: Link) -> bool:
    """Return True if one joint has the motions of all joints of a link."""
    try:
        joint_of(link)
    except ModelError:
        return False
    return True


def inertia_and_friction_of(link: Link, primitive: PrimitiveJoint, joint: str) -> dict[str, forces.AbstractForce]:
    """Return the inertia and the dry friction of the only joint of a link, by suffix of their names."""
    found: dict[str, forces.AbstractForce] = {}
    inertia: Any = forces.JointInertia
    friction: Any = forces.JointFriction
    if primitive.armature:
        for name in RATES.get(primitive.kind, (None,)):
            suffix = "armature" if name is None else f"armature {name}"
            found[suffix] = inertia(joint, primitive.armature, coordinate=name)
    if primitive.friction and primitive.kind != FREE:
        radius = None if primitive.kind == SLIDE else 1.0
        found["friction"] = friction(joint, 1.0, velocity=FRICTION_RATE, preload=primitive.friction, radius=radius)
    return found


def stop_of(joint: str, primitive: PrimitiveJoint, inertia: float) -> forces.JointStop:
    """Return the stop, a spring with a damper, at the limits of a primitive; `inertia` is that at the joint."""
    k, c = primitive.softness
    stop: Any = forces.JointStop
    assert primitive.limits is not None
    ends = [end if np.isfinite(end) else None for end in primitive.limits]
    return stop(joint, *ends, stiffness=inertia * k, viscous=inertia * c, exponent=1.0)


class BallTorque(eqx.Module):
    """Generalized force of a spring and of a stop against the angle θ of a ball from its rest, about its axis of rotation.

    Attributes:
        i, j: names of the bodies.
        rest: orientation of j on i without rotation, (3, 3).
        stiffness: k, of the spring.
        limit: θ at which the stop begins; None without a stop.
        stop_stiffness, stop_damping: k and c of the stop, a spring with a damper.
    """

    i: str = eqx.field(static=True)
    j: str = eqx.field(static=True)
    rest: Matrix
    stiffness: float = 0.0
    limit: float | None = None
    stop_stiffness: float = 0.0
    stop_damping: float = 0.0

    def __call__(self, state):
        """Return the generalized force (m,)."""
        i, j = state[self.i], state[self.j]
        vector = rotation.log(rotation.from_matrix(jnp.asarray(self.rest).T @ i.rotation.T @ j.rotation))
        torque = -self.stiffness * vector
        if self.limit is not None:
            square = vector @ vector
            angle = jnp.sqrt(jnp.where(square > 0, square, 1.0))
            axis = vector / angle
            beyond = angle - self.limit
            rate = axis @ (j.rotation.T @ (j.angular_velocity - i.angular_velocity))
            push = jnp.maximum(self.stop_stiffness * beyond + self.stop_damping * rate, 0)
            torque = torque - jnp.where((square > 0) & (beyond > 0), push, 0) * axis
        torque = j.rotation @ torque
        return forces.opposite(state, self.i, i.pose.torque(-torque), self.j, j.pose.torque(torque))


def springs_of(link: Link, primitive: PrimitiveJoint) -> dict[str, forces.AbstractForce]:
    """Return the springs and dampers of the only joint of a link, by suffix of their names."""
    if not primitive.stiffness and not primitive.damping:
        return {}
    stiffness, damping = primitive.stiffness or None, primitive.damping or None
    ends, axis_i = (link.parent, link.name), link.a @ primitive.axis
    axial: Any = forces.AxialSpring
    point_i = link.r + link.a @ primitive.point
    if primitive.kind == SLIDE:
        return {"spring": axial(*ends, point_i, primitive.point, axis_i, stiffness, primitive.rest, damping)}
    if primitive.kind == HINGE:
        return {"spring" if stiffness else "damper": _torsion_spring(link, primitive, axis_i)}
    found: dict[str, forces.AbstractForce] = {}
    for name, axis in zip("xyz", np.eye(3), strict=True):
        if primitive.kind == FREE:
            found[f"spring {name}"] = axial(*ends, link.r, np.zeros(3), axis, stiffness, 0.0, damping)
        if damping is not None:
            # −c ω, by its components.
            turned = {"axis_i": axis, "axis_j": link.a.T @ axis}
            found[f"damper {name}"] = forces.TorsionDamper(*ends, damping, **turned)
    if stiffness is not None:
        found["torque"] = forces.UserForce(BallTorque(*ends, link.a, stiffness))
    return found


def _torsion_spring(link: Link, primitive: PrimitiveJoint, axis_i: Vector) -> forces.AbstractForce:
    """Return the spring or the damper of a hinge."""
    ends, axes = (link.parent, link.name), {"axis_i": axis_i, "axis_j": primitive.axis}
    damping = primitive.damping or None
    if not primitive.stiffness:
        return forces.TorsionDamper(*ends, damping, **axes)
    turned = np.abs(link.a - np.eye(3)).max() > 0
    zero = _angle_between(link.a, axis_i, primitive.axis) if turned else 0.0
    # Like that of the joint, the angle is within half a turn of its value at the pose of the link.
    middle = {"middle": zero} if abs(zero) > MAX_AXIS_ERROR else {}
    return forces.TorsionSpring(*ends, primitive.stiffness, zero + primitive.rest, damping, **axes, **middle)


def _angle_between(a: Matrix, axis_i: Vector, axis_j: Vector) -> float:
    """Return the angle of a `TorsionSpring` with these axes on a body that is turned by a, in radians."""
    # Like `Pose.angle_to`: from where axis_j has been turned to axis_i by the shortest rotation.
    bent = a @ _shortest_turn(axis_i, axis_j)
    across = along_z(axis_i)[:, 0]
    return float(np.arctan2(np.cross(across, bent @ across) @ axis_i, across @ bent @ across))


def _shortest_turn(start: Vector, end: Vector) -> Matrix:
    """Return the shortest rotation that takes a unit vector to another, a half turn about some axis if it is opposite."""
    axis, cosine = np.cross(start, end), float(start @ end)
    if cosine < MAX_AXIS_ERROR - 1:
        across = along_z(start)[:, 0]
        return 2 * np.outer(across, across) - np.eye(3)
    cross = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    return np.eye(3) + cross + cross @ cross / (1 + cosine)
