"""Actuators of MJCF on hinges and slides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jaxmbs import forces
from jaxmbs.io.models.links.parts import Parts
from jaxmbs.io.models.links.tree import HINGE, SLIDE
from jaxmbs.io.models.model import ModelError

LEAVE = "; leave it out with ignore=('actuator',)"
# What is affine, of each of MuJoCo's kinds.
KNOWN = {
    "trntype": ("JOINT", "JOINTINPARENT"),
    "gaintype": ("FIXED", "AFFINE"),
    "biastype": ("NONE", "AFFINE"),
    "dyntype": ("NONE", "INTEGRATOR", "FILTER", "FILTEREXACT"),
}
KINDS = {"trntype": "Trn", "gaintype": "Gain", "biastype": "Bias", "dyntype": "Dyn"}
# What MuJoCo 4 knows beside these.
MORE = ("actuator_armature", "actuator_damping", "actuator_dampingpoly", "actuator_delay")


def actuator_names(m) -> list[str]:
    """Names of all actuators; without one they are "actuator1", by their numbers."""
    return [m.actuator(k).name or f"actuator{k + 1}" for k in range(len(m.actuator_trntype))]


def add_actuators(mujoco, m, d, parts: Parts, joints: list[str], ignore) -> None:
    """Add an `Actuator` for each that acts on a hinge or a slide.

    Args:
        mujoco: the package. m, d: an `MjModel`, and `MjData` with controls and activations at the start.
        joints: names of the joints.

    Raises:
        ModelError: one that acts on something else, or in another way than an affine one, by name.
    """
    if "actuator" in ignore or m.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_ACTUATION:
        return
    controls = getattr(m, "actuator_ctrladr", np.arange(len(m.actuator_trntype)))
    for k, name in enumerate(actuator_names(m)):
        if m.opt.disableactuator & (1 << max(int(m.actuator_group[k]), 0)):
            continue
        for reason in _reasons(mujoco, m, k):
            raise ModelError(f"actuator {name!r}: {reason} cannot be represented{LEAVE}")
        j = int(m.actuator_trnid[k, 0])
        if joints[j] not in parts.joints or parts.joints[joints[j]].steps[0].kind not in (HINGE, SLIDE):
            raise ModelError(
                f"actuator {name!r}: acts on {joints[j]!r}, which is not the only hinge or slide of its body{LEAVE}"
            )
        control = float(d.ctrl[controls[k]])
        joint = parts.constraint_of[joints[j]]
        actuator = _actuator(mujoco, m, d, k, joint, control, parts.limits.get(joint))
        parts.forces[parts.name(name)] = actuator


def _reasons(mujoco, m, k: int) -> Iterator[str]:
    """What an actuator has that an `Actuator` has not."""
    for what, known in KNOWN.items():
        values = [
            int(getattr(getattr(mujoco, f"mjt{KINDS[what]}"), f"mj{KINDS[what].upper()}_{name}")) for name in known
        ]
        if int(getattr(m, f"actuator_{what}")[k]) not in values:
            yield f"its {what}"
            return
    for what in MORE:
        if np.any(getattr(m, what, np.zeros(k + 1))[k]):
            yield f"its {what.removeprefix('actuator_')}"
    j = int(m.actuator_trnid[k, 0])
    shared = np.count_nonzero(m.actuator_trnid[:, 0] == j) > 1
    if m.jnt_actfrclimited[j] and shared:
        yield f"actuatorfrcrange of {m.joint(j).name!r}, which others drive as well,"


def _actuator(mujoco, m, d, k: int, joint: str, control: float, limits) -> forces.Actuator:
    """The joint's coordinate begins with zero at qpos0, and the actuator's length is the ratio times MuJoCo's."""
    n, j = float(m.actuator_gear[k, 0]), int(m.actuator_trnid[k, 0])
    zero = float(m.qpos0[m.jnt_qposadr[j]])

    def seen(affine: bool, numbers) -> tuple:
        first, by_length, by_rate = map(float, numbers[:3])
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
        gain=seen(m.actuator_gaintype[k] == int(mujoco.mjtGain.mjGAIN_AFFINE), m.actuator_gainprm[k]),
        bias=seen(True, m.actuator_biasprm[k]) if affine_bias else (0, 0, 0),
        **ranges,
    )
