"""Actuators of MJCF on hinges and slides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jaxmbs import forces
from jaxmbs.io.models.links.elements import Elements
from jaxmbs.io.models.links.tree import HINGE, SLIDE
from jaxmbs.io.models.model import ModelError

# Hint at the end of messages that refuse an actuator of MJCF.
LEAVE_OUT = "; leave it out with ignore=('actuator',)"
# Kinds of transmission, gain, bias and dynamics of MuJoCo that the force `Actuator` can represent, by field of
# `MjModel`. Each field begins with the middle of the name of its enumeration: "trntype" has values of `mjtTrn`.
KNOWN = {
    "trntype": ("JOINT", "JOINTINPARENT"),
    "gaintype": ("FIXED", "AFFINE"),
    "biastype": ("NONE", "AFFINE"),
    "dyntype": ("NONE", "INTEGRATOR", "FILTER", "FILTEREXACT"),
}
# Fields of `MjModel` for properties of actuators that the force `Actuator` lacks; values that are not zero are refused.
UNSUPPORTED = ("actuator_armature", "actuator_damping", "actuator_dampingpoly", "actuator_delay")


def actuator_names(m) -> list[str]:
    """Return the names of all actuators, "actuator1" for the first if it has no name."""
    return [m.actuator(k).name or f"actuator{k + 1}" for k in range(len(m.actuator_trntype))]


def add_actuators(mujoco, m, d, elements: Elements, joints: list[str], ignore) -> None:
    """Add an `Actuator` to `elements.forces` for each actuator of an `MjModel` that is not disabled.

    Args:
        mujoco: the module.
        m: the `MjModel`.
        d: its `MjData`, with controls and activations.
        elements: elements to add to.
        joints: names of joints by index in m.
        ignore: kinds of elements to leave out; "actuator" leaves out all actuators.

    Raises:
        ModelError: an actuator is not affine, or its joint is not the only hinge or slide of its body.
    """
    if "actuator" in ignore or m.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_ACTUATION:
        return
    controls = getattr(m, "actuator_ctrladr", np.arange(len(m.actuator_trntype)))
    for k, name in enumerate(actuator_names(m)):
        if m.opt.disableactuator & (1 << max(int(m.actuator_group[k]), 0)):
            continue
        for reason in _unsupported_properties(mujoco, m, k):
            raise ModelError(f"actuator {name!r}: {reason} cannot be represented{LEAVE_OUT}")
        j = int(m.actuator_trnid[k, 0])
        if joints[j] not in elements.joints or elements.joints[joints[j]].primitives[0].kind not in (HINGE, SLIDE):
            raise ModelError(
                f"actuator {name!r}: acts on {joints[j]!r}, which is not the only hinge or slide of its body{LEAVE_OUT}"
            )
        control = float(d.ctrl[controls[k]])
        joint = elements.constraint_of[joints[j]]
        actuator = _actuator(mujoco, m, d, k, joint, control, elements.limits.get(joint))
        elements.forces[elements.unused_name(name)] = actuator


def _unsupported_properties(mujoco, m, k: int) -> Iterator[str]:
    """Yield the properties of an actuator that an `Actuator` does not have."""
    for field, known in KNOWN.items():
        kind = field.removesuffix("type")
        values = getattr(mujoco, f"mjt{kind.title()}")
        if int(getattr(m, f"actuator_{field}")[k]) not in [
            int(getattr(values, f"mj{kind.upper()}_{x}")) for x in known
        ]:
            yield f"its {field}"
            return
    for name in UNSUPPORTED:
        if np.any(getattr(m, name, np.zeros(k + 1))[k]):
            yield f"its {name.removeprefix('actuator_')}"
    j = int(m.actuator_trnid[k, 0])
    shared = np.count_nonzero(m.actuator_trnid[:, 0] == j) > 1
    if m.jnt_actfrclimited[j] and shared:
        yield f"actuatorfrcrange of {m.joint(j).name!r}, which others drive as well,"


def _actuator(mujoco, m, d, k: int, joint: str, control: float, limits) -> forces.Actuator:
    """Return actuator k. Its length is the gear ratio times the coordinate of MuJoCo, which is not zero at qpos0."""
    n, j = float(m.actuator_gear[k, 0]), int(m.actuator_trnid[k, 0])
    zero = float(m.qpos0[m.jnt_qposadr[j]])

    def at_joint(affine: bool, parameters) -> tuple:
        """Return gain or bias parameters for the coordinate of the joint, which is zero at qpos0."""
        first, by_length, by_rate = map(float, parameters[:3])
        if not affine:
            by_length = by_rate = 0.0
        found = n * (first + by_length * n * zero), n**2 * by_length, n**2 * by_rate
        return tuple(x or 0 for x in found)

    ranges: dict[str, Any] = {}
    if m.actuator_ctrllimited[k] and not m.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_CLAMPCTRL:
        ranges["control_range"] = tuple(map(float, m.actuator_ctrlrange[k]))
    if m.actuator_forcelimited[k]:
        ranges["effort_range"] = tuple(sorted(n * float(x) for x in m.actuator_forcerange[k]))
    if m.jnt_actfrclimited[j]:
        lower, upper = map(float, m.jnt_actfrcrange[j])
        before = ranges.get("effort_range", (lower, upper))
        ranges["effort_range"] = max(lower, before[0]), min(upper, before[1])
    if limits is not None and m.jnt_type[j] == mujoco.mjtJoint.mjJNT_HINGE and max(map(abs, limits)) > np.pi:
        ranges["middle"] = (limits[0] + limits[1]) / 2
    dynamics = m.actuator_dyntype[k]
    if dynamics != int(mujoco.mjtDyn.mjDYN_NONE):
        ranges["initial"] = float(d.act[m.actuator_actadr[k]])
        if m.actuator_actlimited[k]:
            ranges["activation_range"] = tuple(map(float, m.actuator_actrange[k]))
        if dynamics == int(mujoco.mjtDyn.mjDYN_INTEGRATOR):
            ranges["integrates"] = True
        else:
            ranges["time_constant"] = float(m.actuator_dynprm[k, 0])
    affine_bias = m.actuator_biastype[k] == int(mujoco.mjtBias.mjBIAS_AFFINE)
    actuator: Any = forces.Actuator
    return actuator(
        joint,
        control,
        gain=at_joint(m.actuator_gaintype[k] == int(mujoco.mjtGain.mjGAIN_AFFINE), m.actuator_gainprm[k]),
        bias=at_joint(True, m.actuator_biasprm[k]) if affine_bias else (0, 0, 0),
        **ranges,
    )
