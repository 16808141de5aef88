"""The model of an assembly: bodies, constraints, drivers, limits and gravity."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxmbs import forces, motion, spatial
from jaxmbs.element import GROUND
from jaxmbs.io.models.freecad.assembly import Assembly, Joint, Limit, Motion, compose, pass_over, sentences
from jaxmbs.io.models.freecad.formula import motion_of
from jaxmbs.io.models.freecad.joints import DrawnJoint, constraints_of, gear_angles
from jaxmbs.io.models.links.tree import LinkFrame
from jaxmbs.io.models.model import Model, ModelError
from jaxmbs.io.models.options import ReadOptions

# Kinds of joints whose limits are kept, with the kinds of their limits.
LIMIT_KINDS_OF_JOINT = {
    "Revolute": ("Rotation",),
    "Translational": ("Translation",),
    "Cylindrical": ("Translation", "Rotation"),
}


@dataclasses.dataclass
class Names:
    """Names of constraints, drivers and forces that are used."""

    used: set[str]

    def unused(self, name: str) -> str:
        """Return the name, with a number if it is used already, and note it."""
        name = name or "unnamed"
        found = next(x for x in (name, *(f"{name}{k}" for k in range(2, len(self.used) + 3))) if x not in self.used)
        self.used.add(found)
        return found


def model_of_assembly(assembly: Assembly, options: ReadOptions) -> Model:
    """Return the model of an assembly in the drawn placements.

    Raises:
        ModelError: no parts, or an element that cannot be used, by name.
    """
    if not assembly.parts:
        raise ModelError(f"assembly {assembly.name!r}: has no parts")
    places = {name: LinkFrame(GROUND, part.r, part.a) for name, part in assembly.parts.items()}
    places[GROUND] = LinkFrame(GROUND, np.zeros(3), np.eye(3))
    names, constraints, drivers, guess = Names({GROUND}), {}, {}, {}
    constraint_of: dict[str, str] = {}
    for joint in assembly.joints:
        if _is_on_one_body(assembly, joint, "joint", options.strict):
            continue
        drawn = DrawnJoint(joint, *(compose(places[end.body], end) for end in (joint.i, joint.j)))
        for suffix, element in constraints_of(drawn).items():
            name = names.unused(joint.name + suffix)
            constraints[name] = element
            constraint_of.setdefault(joint.name, name)
            if isinstance(element, spatial.Gear):
                guess[name] = np.array(gear_angles(drawn))
    for given in assembly.motions:
        if _is_on_one_body(assembly, given, "motion", options.strict):
            continue
        drawn = DrawnJoint(given, *(compose(places[end.body], end) for end in (given.i, given.j)))
        drivers[names.unused(given.name)] = _driver(given, drawn)
    limits = _limits(assembly, constraint_of, options.strict)
    weight = {names.unused("gravity"): forces.Gravity(assembly.gravity)} if np.any(assembly.gravity) else {}
    bodies, velocities = {}, {}
    for name, part in assembly.parts.items():
        com = part.com if np.any(part.com) else None
        axes = None if part.axes is None or np.array_equal(part.axes, np.eye(3)) else part.axes
        bodies[name] = spatial.Body(part.mass, part.moments, com, inertia_frame=axes)
        guess[name] = np.asarray(spatial.coordinates(part.r, part.a))
        if np.any(part.velocity) or np.any(part.omega):
            velocities[name] = np.concatenate([part.velocity, part.a.T @ part.omega])
    return Model(
        bodies,
        constraints,
        drivers,
        weight,
        guess=guess,
        velocities=velocities if velocities and not drivers else None,
        name=assembly.name,
        limits=limits,
        unit=assembly.unit,
        passed_over=sentences(assembly),
    )


def _is_on_one_body(assembly: Assembly, given: Joint | Motion, kind: str, strict: bool) -> bool:
    """Return True for a joint or motion between markers of one body, and note that it is not represented."""
    found = given.i.body == given.j.body
    if found:
        pass_over(assembly, kind, given.name, strict, f"connects {given.i.body!r} with itself")
    return found


def _driver(given: Motion, drawn: DrawnJoint) -> Any:
    """Return the driver of a motion."""
    owner = f"motion {given.name!r}"
    motions = [motion_of(formula, owner) for formula in given.formulas]
    if given.kind == "Rotational":
        return spatial.RevoluteDriver(*drawn.bodies, motion=motions[0], **drawn.frames())
    if given.kind == "Translational":
        return spatial.TranslationalDriver(*drawn.bodies, motion=motions[0], **drawn.frames())
    return _general_driver(owner, given, drawn, motions)


def _general_driver(owner: str, given: Motion, drawn: DrawnJoint, motions: list[motion.AbstractMotion]) -> Any:
    """Return the driver of three positions and three angles about axes in any order.

    The joint frames are the markers with their axes in the order of the angles, the third one reversed if that order is
    odd.

    Raises:
        ModelError: an order with an axis that appears twice, unless the angle of one stays zero.
    """
    order, angles = [k - 1 for k in given.order], motions[3:]
    if any(k not in (0, 1, 2) for k in order):
        raise ModelError(f"{owner}: RotationOrder must have the numbers 1, 2 and 3, got {given.order}")
    for k in (2, 0):
        # An angle that stays zero may be about any axis.
        if order[k] in order[:k] + order[k + 1 :] and _is_zero(angles[k]):
            missing = {0, 1, 2} - {order[m] for m in range(3) if m != k}
            order[k] = min(missing)
    if len(set(order)) < 3:
        raise ModelError(f"{owner}: RotationOrder {given.order} cannot be represented; each axis may appear once")
    axes = np.eye(3)[:, order]
    sign = np.linalg.det(axes)
    axes[:, 2] *= sign
    positions = [motions[k] for k in order]
    if sign < 0:
        positions[2], angles[2] = (motion.Shifted(x[2], jnp.asarray(-1.0)) for x in (positions, angles))
    held = lambda x: "fixed" if _is_zero(x) else x
    return spatial.RelativeJoint(
        *drawn.bodies,
        drawn.joint.i.r,
        drawn.joint.j.r,
        position=tuple(map(held, positions)),
        orientation=tuple(map(held, angles)),
        frame_i=drawn.joint.i.a @ axes,
        frame_j=drawn.joint.j.a @ axes,
    )


def _is_zero(given: motion.AbstractMotion) -> bool:
    """Return True for the constant zero, also if it is reversed."""
    given = given.motion if isinstance(given, motion.Shifted) else given
    return isinstance(given, motion.Constant) and float(given.value) == 0


def _limits(assembly: Assembly, constraint_of: dict[str, str], strict: bool) -> dict[str, tuple[float, float]]:
    """Return ranges by name of the constraint; those of one kind if a joint has limits of both kinds."""
    found: dict[str, tuple[float, float]] = {}
    kinds = {joint.name: LIMIT_KINDS_OF_JOINT.get(joint.kind, ()) for joint in assembly.joints}
    given: dict[tuple[str, str], list[Limit]] = {}
    for limit in assembly.limits:
        given.setdefault((limit.joint, limit.kind), []).append(limit)
    for (joint, kind), limits in sorted(given.items(), key=lambda item: item[0][1] == "Rotation"):
        name = constraint_of.get(joint)
        if name is None or kind not in kinds[joint] or name in found:
            pass_over(assembly, f"{kind}Limit of joint", joint, strict)
            continue
        lower = max((limit.value for limit in limits if limit.is_lower), default=-np.inf)
        upper = min((limit.value for limit in limits if not limit.is_lower), default=np.inf)
        if lower > upper:
            raise ModelError(f"joint {joint!r}: the lower limit {lower} is above the upper one {upper}")
        found[name] = lower, upper
    return found
