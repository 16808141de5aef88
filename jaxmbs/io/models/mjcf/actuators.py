"""Actuators of MJCF on joints, fixed tendons, sites and floating bodies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxmbs import forces
from jaxmbs.element import GROUND
from jaxmbs.io.models.links.elements import Elements
from jaxmbs.io.models.links.tree import HINGE, SLIDE, from_quaternion
from jaxmbs.io.models.mjcf.source import Source
from jaxmbs.io.models.mjcf.tendons import ActuatorLaw, SiteTendon, site_segments

# Kinds of gain, bias and dynamics of MuJoCo that the force `Actuator` can represent, by field of `MjModel`. The field
# "gaintype" has values of the enumeration `mjtGain`, and so on.
REPRESENTED_KINDS = {
    "gaintype": ("FIXED", "AFFINE"),
    "biastype": ("NONE", "AFFINE"),
    "dyntype": ("NONE", "INTEGRATOR", "FILTER", "FILTEREXACT"),
}
# Fields of `MjModel` for properties of actuators that the force `Actuator` lacks.
UNREPRESENTED_FIELDS = ("actuator_armature", "actuator_damping", "actuator_dampingpoly", "actuator_delay")


def add_actuators(source: Source, elements: Elements, tendons: dict[int, str]) -> None:
    """Add a force to `elements` for each actuator that is not disabled; pass over those that have no counterpart.

    Args:
        source: the compiled file.
        elements: elements to add to.
        tendons: names of the slides of fixed tendons, by index.
    """
    m = source.m
    if "actuator" in source.ignore or source.is_disabled("ACTUATION"):
        return
    controls = getattr(m, "actuator_ctrladr", np.arange(len(m.actuator_trntype)))
    transmissions = source.mujoco.mjtTrn
    for k in range(len(m.actuator_trntype)):
        if m.opt.disableactuator & (1 << max(int(m.actuator_group[k]), 0)):
            continue
        reasons = list(_unrepresented_properties(source, k))
        for reason in reasons:
            source.pass_over("actuator", "actuator", k, f"{reason} has no counterpart")
        if reasons:
            continue
        control, target = float(source.d.ctrl[controls[k]]), int(m.actuator_trnid[k, 0])
        kind = int(m.actuator_trntype[k])
        on_joint = kind in (int(transmissions.mjTRN_JOINT), int(transmissions.mjTRN_JOINTINPARENT))
        if on_joint and _is_single(elements, source.joints[target]):
            _add_single(source, elements, k, source.joints[target], control, target)
        elif kind == int(transmissions.mjTRN_TENDON) and target in tendons:
            _add_single(source, elements, k, tendons[target], control, None)
        elif _is_constant(source, k) and (on_joint or kind == int(transmissions.mjTRN_SITE)):
            _add_wrench(source, elements, k, control, on_joint=on_joint)
        elif on_joint or kind == int(transmissions.mjTRN_SITE):
            reason = "at a site, ball or free joint only a force in proportion to the control is represented"
            source.pass_over("actuator", "actuator", k, reason)
        elif kind == int(transmissions.mjTRN_TENDON):
            _add_pull(source, elements, k, control, target)
        else:
            source.pass_over("actuator", "actuator", k, "it acts on something else than a joint, fixed tendon or site")


def _is_single(elements: Elements, joint: str) -> bool:
    """Return True if a joint is a hinge or slide."""
    return joint in elements.joints and elements.joints[joint].primitives[0].kind in (HINGE, SLIDE)


def _is_constant(source: Source, k: int) -> bool:
    """Return True if the force of actuator k is its control times a gain."""
    m, mujoco = source.m, source.mujoco
    none = int(mujoco.mjtBias.mjBIAS_NONE), int(mujoco.mjtDyn.mjDYN_NONE), int(mujoco.mjtGain.mjGAIN_FIXED)
    return (m.actuator_biastype[k], m.actuator_dyntype[k], m.actuator_gaintype[k]) == none


def _unrepresented_properties(source: Source, k: int) -> Iterator[str]:
    """Yield the properties of an actuator that a force does not have."""
    m = source.m
    for field, known in REPRESENTED_KINDS.items():
        kind = field.removesuffix("type")
        values = getattr(source.mujoco, f"mjt{kind.title()}")
        number = int(getattr(m, f"actuator_{field}")[k])
        if number not in [int(getattr(values, f"mj{kind.upper()}_{x}")) for x in known]:
            yield f"the {kind} of type {values(number).name.rpartition('_')[2].lower()}"
            return
    for name in UNREPRESENTED_FIELDS:
        if np.any(getattr(m, name, np.zeros(k + 1))[k]):
            yield f"its {name.removeprefix('actuator_')}"


def _add_single(source: Source, elements: Elements, k: int, name: str, control: float, j: int | None) -> None:
    """Add actuator k on the hinge or slide of this name, which is joint j, or that of a tendon if j is None.

    Its length is the gear ratio times the coordinate of MuJoCo, which is not zero at qpos0.
    """
    m, mujoco, joint = source.m, source.mujoco, elements.constraint_of[name]
    n = float(m.actuator_gear[k, 0])
    zero = float(m.tendon_length0[m.actuator_trnid[k, 0]] if j is None else m.qpos0[m.jnt_qposadr[j]])

    def at_joint(affine: bool, parameters) -> tuple:
        """Return gain or bias parameters for the coordinate of the joint, which is zero at qpos0."""
        first, by_length, by_rate = map(float, parameters[:3])
        if not affine:
            by_length = by_rate = 0.0
        found = n * (first + by_length * n * zero), n**2 * by_length, n**2 * by_rate
        return tuple(x or 0 for x in found)

    ranges: dict[str, Any] = {}
    if m.actuator_ctrllimited[k] and not source.is_disabled("CLAMPCTRL"):
        ranges["control_range"] = tuple(map(float, m.actuator_ctrlrange[k]))
    if m.actuator_forcelimited[k]:
        ranges["effort_range"] = tuple(sorted(n * float(x) for x in m.actuator_forcerange[k]))
    _limit_by_joint(source, k, j, ranges)
    limits = elements.limits.get(joint)
    if (
        limits is not None
        and np.all(np.isfinite(limits))
        and elements.joints[name].primitives[0].kind == HINGE
        and max(map(abs, limits)) > np.pi
    ):
        ranges["middle"] = (limits[0] + limits[1]) / 2
    dynamics = m.actuator_dyntype[k]
    if dynamics != int(mujoco.mjtDyn.mjDYN_NONE):
        ranges["initial"] = float(source.d.act[m.actuator_actadr[k]])
        if m.actuator_actlimited[k]:
            ranges["activation_range"] = tuple(map(float, m.actuator_actrange[k]))
        if dynamics == int(mujoco.mjtDyn.mjDYN_INTEGRATOR):
            ranges["integrates"] = True
        else:
            ranges["time_constant"] = float(m.actuator_dynprm[k, 0])
    affine_bias = m.actuator_biastype[k] == int(mujoco.mjtBias.mjBIAS_AFFINE)
    actuator: Any = forces.Actuator
    elements.forces[elements.unused_name(source.name("actuator", k))] = actuator(
        joint,
        control,
        gain=at_joint(m.actuator_gaintype[k] == int(mujoco.mjtGain.mjGAIN_AFFINE), m.actuator_gainprm[k]),
        bias=at_joint(True, m.actuator_biasprm[k]) if affine_bias else (0, 0, 0),
        **ranges,
    )


def _limit_by_joint(source: Source, k: int, j: int | None, ranges: dict[str, Any]) -> None:
    """Narrow `effort_range` to the range of the forces of actuators at the joint or tendon, if this one is the only one."""
    m, target = source.m, int(source.m.actuator_trnid[k, 0])
    limited, limits = (
        ("tendon_actfrclimited", "tendon_actfrcrange") if j is None else ("jnt_actfrclimited", "jnt_actfrcrange")
    )
    if not getattr(m, limited)[target]:
        return
    same = (m.actuator_trnid[:, 0] == target) & (m.actuator_trntype == m.actuator_trntype[k])
    if np.count_nonzero(same) > 1:
        source.pass_over("actuator", "actuator", k, "the range of the sum of several actuators' forces is not kept")
        return
    lower, upper = map(float, getattr(m, limits)[target])
    before = ranges.get("effort_range", (lower, upper))
    ranges["effort_range"] = max(lower, before[0]), min(upper, before[1])


def _add_pull(source: Source, elements: Elements, k: int, control: float, tendon: int) -> None:
    """Add actuator k on a spatial tendon as a force between its sites."""
    m, mujoco = source.m, source.mujoco
    if "tendon" in source.ignore:
        return source.pass_over("actuator", "actuator", k, "tendons are ignored")
    parts = site_segments(source, elements, tendon)
    if parts is None:
        return source.pass_over("actuator", "actuator", k, "tendons that wrap around geoms are not represented")
    if m.actuator_dyntype[k] != int(mujoco.mjtDyn.mjDYN_NONE) or m.tendon_actfrclimited[tendon]:
        reason = "on a spatial tendon an actuator has neither a state nor a range of the tendon's force"
        return source.pass_over("actuator", "actuator", k, reason)
    if m.actuator_ctrllimited[k] and not source.is_disabled("CLAMPCTRL"):
        control = float(np.clip(control, *m.actuator_ctrlrange[k]))
    gain, bias = tuple(map(float, m.actuator_gainprm[k, :3])), tuple(map(float, m.actuator_biasprm[k, :3]))
    law = ActuatorLaw(
        control,
        float(m.actuator_gear[k, 0]),
        gain if m.actuator_gaintype[k] == int(mujoco.mjtGain.mjGAIN_AFFINE) else (gain[0], 0.0, 0.0),
        bias if m.actuator_biastype[k] == int(mujoco.mjtBias.mjBIAS_AFFINE) else (0.0, 0.0, 0.0),
        tuple(map(float, m.actuator_forcerange[k])) if m.actuator_forcelimited[k] else None,
    )
    if parts[0]:
        elements.forces[elements.unused_name(source.name("actuator", k))] = forces.UserForce(SiteTendon(*parts, law))


def _add_wrench(source: Source, elements: Elements, k: int, control: float, *, on_joint: bool) -> None:
    """Add actuator k at a site, a ball or a floating body as a force and a torque in proportion to the control.

    The force of a free joint has the axes of the ground; other vectors turn with the site or body.
    """
    m, gear = source.m, source.m.actuator_gear[k]
    if m.actuator_ctrllimited[k] and not source.is_disabled("CLAMPCTRL"):
        control = float(np.clip(control, *m.actuator_ctrlrange[k]))
    effort = float(m.actuator_gainprm[k, 0]) * control
    if m.actuator_forcelimited[k]:
        effort = float(np.clip(effort, *m.actuator_forcerange[k]))
    target, reference = map(int, m.actuator_trnid[k])
    point, axes, free, base = np.zeros(3), np.eye(3), False, GROUND
    if on_joint:
        body = source.bodies[m.jnt_bodyid[target]]
        free = m.jnt_type[target] == int(source.mujoco.mjtJoint.mjJNT_FREE)
        force, torque = (gear[:3], gear[3:]) if free else (np.zeros(3), gear[:3])
        if not free:
            base = elements.joints[source.joints[target]].parent
    else:
        place = elements.place(source.bodies[m.site_bodyid[target]], f"actuator {source.name('actuator', k)!r}")
        body, point, axes = place.body, place.point(m.site_pos[target]), place.a @ from_quaternion(m.site_quat[target])
        force, torque = gear[:3], gear[3:]
    if body == GROUND:
        return source.pass_over("actuator", "actuator", k, "its site is part of the ground")
    if reference >= 0 and not on_joint:
        return source.pass_over("actuator", "actuator", k, "a force relative to another site has no counterpart")
    name = source.name("actuator", k)
    if np.any(force):
        value = jnp.array(effort * (axes @ force))
        push = forces.PointForce(body, jnp.array(point), value, follower=not free)
        elements.forces[elements.unused_name(name)] = push
    if np.any(torque):
        turn = forces.Torque(body, jnp.array(effort * (axes @ torque)), base, follower=True)
        elements.forces[elements.unused_name(f"{name} torque" if np.any(force) else name)] = turn
