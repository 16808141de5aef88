"""A row of hinges, slides and balls as the one joint that has its motions, with their springs and dampers.

Bodies without mass do not exist here, so a row whose motions are those of no joint is refused.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from jaxmbs import forces, spatial
from jaxmbs.element import GROUND
from jaxmbs.io.models.links.tree import BALL, EXACT, FREE, HINGE, SLIDE, Link, Matrix, Step, Vector, along_z, unit
from jaxmbs.io.models.model import ModelError

# Rates below which dry friction is less than it should be.
CREEP = 1e-2


def joint_of(link: Link):
    """The joint between a link and its parent; None for a link that floats.

    Raises:
        ModelError: a row of steps whose motions are those of no joint.
    """
    slides = [step for step in link.steps if step.kind == SLIDE]
    turns = [step for step in link.steps if step.kind in (HINGE, BALL)]
    if any(step.kind == FREE for step in link.steps):
        if len(link.steps) > 1:
            raise _refused(link, "a free joint and others")
        return None if link.parent == GROUND else spatial.Free(link.parent, link.name)
    k, n = len(slides), 3 if any(step.kind == BALL for step in turns) else len(turns)
    _check_independent(link, slides, turns)
    _check_order(link, slides, turns)
    if k == n == 3:
        return None if link.parent == GROUND else spatial.Free(link.parent, link.name)
    point = _anchor(link, turns, anywhere=k == 3)
    ends = link.parent, link.name, link.r + link.a @ point, point
    if (k, n) == (0, 3):
        return spatial.Spherical(*ends)
    if (k, n) == (0, 2):
        return spatial.Universal(*ends, link.a @ turns[0].axis, turns[1].axis)
    kind, axes = _kind_and_axes(link, slides, turns, n)
    turned = np.abs(link.a - np.eye(3)).max() > 0
    if kind is not None:
        if turned or kind is spatial.Rigid:
            frames = {"frame_i": link.a @ axes, "frame_j": axes} if turned else {}
            return kind(*ends, **frames)
        return kind(*ends, axes[:, 2])
    translations = [_free(any(abs(s.axis @ axis) > EXACT for s in slides)) for axis in axes.T]
    angles = [_free(m < n) for m in range(3)]
    return spatial.RelativeJoint(*ends, translations, angles, frame_i=link.a @ axes, frame_j=axes)


def _free(free: bool) -> str:
    return "free" if free else "fixed"


def _refused(link: Link, what: str) -> ModelError:
    names = ", ".join(repr(step.name) for step in link.steps)
    return ModelError(
        f"joints {names} of {link.name!r}: {what} make no joint that is known; put a body with mass between"
    )


def _check_independent(link, slides, turns) -> None:
    if slides and np.linalg.matrix_rank(np.array([s.axis for s in slides]), EXACT) < len(slides):
        raise _refused(link, "slides that depend on each other")
    if len(turns) > 1:
        if any(step.kind == BALL for step in turns):
            raise _refused(link, "a ball and other turns")
        if len(turns) > 3 or any(abs(u.axis @ w.axis) > EXACT for u, w in pairwise(turns)):
            raise _refused(link, "hinges that are not perpendicular to the next one")


def _check_order(link, slides, turns) -> None:
    """Slides are along axes of the parent: they come first, or it makes no difference."""
    kinds = [step.kind == SLIDE for step in link.steps]
    if kinds == sorted(kinds, reverse=True) or len(slides) == 3:
        return
    if len(turns) == 1 and turns[0].kind == HINGE:
        along = [abs(s.axis @ turns[0].axis) for s in slides]
        if (len(slides) == 1 and along[0] > 1 - EXACT) or (len(slides) == 2 and max(along) < EXACT):
            return
    raise _refused(link, "slides beyond a turn")


def _anchor(link, turns, *, anywhere: bool) -> Vector:
    """The point about which a link turns, in its frame."""
    if not turns or anywhere:
        return np.zeros(3)
    if len(turns) == 1:
        return turns[0].point
    across = [np.eye(3) - np.outer(step.axis, step.axis) for step in turns]
    point = np.linalg.lstsq(
        np.concatenate(across), np.concatenate([p @ s.point for p, s in zip(across, turns, strict=True)]), rcond=None
    )[0]
    gaps = [np.abs(p @ (point - s.point)).max() for p, s in zip(across, turns, strict=True)]
    if max(gaps) > EXACT * (1 + np.abs(point).max()):
        raise _refused(link, "hinges whose axes do not meet")
    return point


def _kind_and_axes(link, slides, turns, n) -> tuple[Any, Matrix]:
    """The class of a joint with its axis along z, or None for a `RelativeJoint`; and its axes in the frame of the link."""
    k = len(slides)
    normal: Any = unit(np.cross(slides[0].axis, slides[1].axis)) if k == 2 else None
    if k + n == 0:
        return spatial.Rigid, np.eye(3)
    if n == 0:
        return (spatial.Prismatic, along_z(slides[0].axis)) if k == 1 else (None, _axes(z=normal))
    if n == 3:
        return None, _axes(x=slides[0].axis) if k == 1 else _axes(z=normal)
    first = turns[0].axis
    if n == 2:
        axes = np.stack([first, turns[1].axis, np.cross(first, turns[1].axis)], axis=1)
        special = slides[0].axis if k == 1 else normal
        if k < 3 and np.abs(axes.T @ special).max() < 1 - EXACT:
            raise _refused(link, "slides that are not along the axes of the turns")
        return None, axes
    if k == 0:
        return spatial.Revolute, along_z(first)
    if k == 3:
        return None, _axes(x=first)
    special = slides[0].axis if k == 1 else normal
    if abs(first @ special) > 1 - EXACT:
        return (spatial.Cylindrical if k == 1 else spatial.Planar), along_z(first)
    if abs(first @ special) > EXACT:
        raise _refused(link, "slides neither along the axis of the turn nor across it")
    return None, np.stack([first, np.cross(special, first), special], axis=1)


def _axes(*, x=None, z=None) -> Matrix:
    """Three axes, one of which is given, or neither."""
    if x is None and z is None:
        return np.eye(3)
    if z is not None:
        return along_z(z)
    return np.roll(along_z(x), 1, axis=1)


def drag_of(link: Link, step: Step, joint: str) -> dict[str, forces.AbstractForce]:
    """Inertia and dry friction of a step, by what they are called; `joint` is the name of the joint.

    Raises:
        ModelError: they act on no coordinate of a joint, or on one of several.
    """
    found: dict[str, forces.AbstractForce] = {}
    for value, what in ((step.armature, "armature"), (step.friction, "friction")):
        if value and (len(link.steps) > 1 or step.kind not in (HINGE, SLIDE)):
            kind = "one of several joints" if len(link.steps) > 1 else f"a {step.kind} joint"
            raise ModelError(f"joint {step.name!r}: {what} of {kind} cannot be represented")
    inertia: Any = forces.JointInertia
    friction: Any = forces.JointFriction
    if step.armature:
        found["armature"] = inertia(joint, step.armature)
    if step.friction:
        radius = 1.0 if step.kind == HINGE else None
        found["friction"] = friction(joint, 1.0, velocity=CREEP, preload=step.friction, radius=radius)
    return found


def stop_of(joint: str, step: Step, inertia: float) -> forces.JointStop:
    """The stops at the limits of a step that sees an inertia; `joint` is the name of the joint.

    It is a spring with a damper.
    """
    k, c = step.softness
    stop: Any = forces.JointStop
    assert step.limits is not None
    return stop(joint, *step.limits, stiffness=inertia * k, viscous=inertia * c, exponent=1.0)


def springs_of(link: Link, step: Step) -> dict[str, forces.AbstractForce]:
    """Spring and damper of a step, by what they are called.

    Raises:
        ModelError: they act on no coordinate that the bodies alone tell.
    """
    if not step.stiffness and not step.damping:
        return {}
    stiffness, damping = step.stiffness or None, step.damping or None
    what = "stiffness" if stiffness else "damping"
    turns = [other for other in link.steps if other.kind in (HINGE, BALL)]
    slides = [other for other in link.steps if other.kind == SLIDE]
    axis_i = link.a @ step.axis
    if step.kind == SLIDE:
        before = link.steps[: link.steps.index(step)]
        oblique = [s for s in slides if s is not step and abs(s.axis @ step.axis) > EXACT]
        turned = [s for s in before if s.kind != SLIDE and abs(s.axis @ step.axis) < 1 - EXACT]
        if oblique or turned:
            raise ModelError(f"joint {step.name!r}: {what} cannot be represented in a row of oblique or turned joints")
        point = _anchor(link, turns, anywhere=False)
        ends = link.parent, link.name, link.r + link.a @ point, point
        spring: Any = forces.AxialSpring
        return {"spring": spring(*ends, axis_i, stiffness, step.rest, damping)}
    if step.kind == BALL and stiffness is None:
        # −c ω, by its components.
        damper = lambda axis: forces.TorsionDamper(link.parent, link.name, damping, axis_i=axis, axis_j=link.a.T @ axis)
        return {f"damper {name}": damper(axis) for name, axis in zip("xyz", np.eye(3), strict=True)}
    if step.kind != HINGE or len(turns) > 1:
        raise ModelError(
            f"joint {step.name!r}: {what} of a {step.kind} joint, or one of several turns, cannot be represented"
        )
    if stiffness is None:
        return {"damper": forces.TorsionDamper(link.parent, link.name, damping, axis_i=axis_i, axis_j=step.axis)}
    start = spatial.Body.pose(spatial.coordinates()), spatial.Body.pose(spatial.coordinates(rotated=link.a))
    zero = float(start[0].angle_to(start[1], axis_i, step.axis))
    # The angle is counted as that of the joint is: half a turn to each side of where the link stands at first.
    middle = {"middle": zero} if abs(zero) > EXACT else {}
    return {
        "spring": forces.TorsionSpring(
            link.parent, link.name, stiffness, zero + step.rest, damping, axis_i=axis_i, axis_j=step.axis, **middle
        )
    }
