"""Poses and velocities of the bodies in the keyframe with which a model of MuJoCo begins."""

from __future__ import annotations

import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.io.models.links.elements import Elements
from jaxmbs.io.models.links.tree import BALL, HINGE, SLIDE, Link, Matrix, Vector, from_quaternion
from jaxmbs.io.models.mjcf.source import Source


def initial_motion(source: Source, elements: Elements) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return coordinates and velocities of the bodies by name; massless bodies in chains follow from their joints."""
    mujoco, m, d = source.mujoco, source.m, source.d
    guess, velocities, rate = {}, {}, np.zeros(6)
    # Rotation, place and velocities (ṙ, ω in the frame of the body) of each body.
    motions = {GROUND: (np.eye(3), np.zeros(3), np.zeros(6))}
    for k, name in enumerate(source.bodies):
        if name in elements.bodies:
            a = d.xmat[k].reshape(3, 3)
            mujoco.mj_objectVelocity(m, d, mujoco.mjtObj.mjOBJ_XBODY, k, rate, 0)
            velocities[name] = np.concatenate([rate[3:], a.T @ rate[:3]])
            guess[name] = np.concatenate([d.xpos[k], d.xquat[k]])
            motions[name] = a, np.array(d.xpos[k]), velocities[name]
    index = {name: j for j, name in enumerate(source.joints)}
    for joint, link in elements.joints.items():
        if link.name not in motions:
            motions[link.name] = _motion_of_child(source, index[joint], link, *motions[link.parent])
            a, r, velocities[link.name] = motions[link.name]
            quaternion = np.zeros(4)
            mujoco.mju_mat2Quat(quaternion, a.reshape(-1))
            guess[link.name] = np.concatenate([r, quaternion])
    return guess, velocities


def joint_state(source: Source, j: int) -> tuple[float, float]:
    """Return the coordinate of hinge or slide j, counted from qpos0, and its rate."""
    at, dof = source.m.jnt_qposadr[j], source.m.jnt_dofadr[j]
    return float(source.d.qpos[at] - source.m.qpos0[at]), float(source.d.qvel[dof])


def _motion_of_child(
    source: Source, j: int, link: Link, a: Matrix, r: Vector, velocity: Vector
) -> tuple[Matrix, Vector, Vector]:
    """Return rotation, place and velocities of a link that joint j carries, from those of its parent."""
    [primitive] = link.primitives
    zero, spin, shift, slide = a @ link.a, np.zeros(3), np.zeros(3), np.zeros(3)
    turn = np.eye(3)
    if primitive.kind == BALL:
        at, dof = source.m.jnt_qposadr[j], source.m.jnt_dofadr[j]
        turn, spin = from_quaternion(source.d.qpos[at : at + 4]), np.array(source.d.qvel[dof : dof + 3])
    else:
        x, rate = joint_state(source, j)
        if primitive.kind == HINGE:
            half = x / 2
            turn = from_quaternion([np.cos(half), *(np.sin(half) * primitive.axis)])
            spin = rate * primitive.axis
        elif primitive.kind == SLIDE:
            shift, slide = x * primitive.axis, rate * primitive.axis
    own = zero @ turn
    anchor = r + a @ link.r + zero @ (primitive.point + shift)
    place = anchor - own @ primitive.point
    before = a @ velocity[3:]
    omega = before + own @ spin
    at_anchor = velocity[:3] + np.cross(before, anchor - r) + zero @ slide
    return own, place, np.concatenate([at_anchor + np.cross(omega, place - anchor), own.T @ omega])
