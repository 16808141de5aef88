"""Equality constraints of MJCF as hard constraints."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from jaxmbs import spatial
from jaxmbs.io.models.links.couplings import couple, hold
from jaxmbs.io.models.links.elements import Elements
from jaxmbs.io.models.links.tree import from_quaternion
from jaxmbs.io.models.model import ModelError


def add_equalities(mujoco, m, d, elements: Elements, names, ignore: Collection[str]) -> None:
    """Add the equalities of an `MjModel`; raise `ModelError` for one that cannot be represented."""
    flags = mujoco.mjtDisableBit
    if "equality" in ignore or m.opt.disableflags & (flags.mjDSBL_EQUALITY | flags.mjDSBL_CONSTRAINT):
        return
    kinds = mujoco.mjtEq
    called = {int(kinds.mjEQ_CONNECT): "connect", int(kinds.mjEQ_WELD): "weld", int(kinds.mjEQ_JOINT): "joint"}
    for k in range(m.neq):
        tag = called.get(int(m.eq_type[k]))
        name = m.eq(k).name or f"{tag or 'equality'}{k + 1}"
        if not m.eq_active0[k]:
            continue
        if tag is None:
            raise ModelError(
                f"equality {name!r}: only connect, weld and joint can be represented; "
                "leave all equalities out with ignore=('equality',)"
            )
        if tag == "joint":
            _add_coupling(m, d, k, name, elements, names)
        else:
            _add_joint(mujoco, m, k, tag, name, elements, names)


def _add_joint(mujoco, m, k: int, tag: str, name: str, elements: Elements, names) -> None:
    """Add a `connect` or `weld` of bodies or sites.

    In a weld of bodies relpose has the place of the anchor in the frame of body 1, and the rotation of body 2 relative to
    body 1.
    """
    ids, data = (m.eq_obj1id[k], m.eq_obj2id[k]), m.eq_data[k]
    if m.eq_objtype[k] == mujoco.mjtObj.mjOBJ_SITE:
        bodies = [m.site_bodyid[s] for s in ids]
        points = [np.array(m.site_pos[s]) for s in ids]
        frames = [from_quaternion(m.site_quat[s]) for s in ids]
    else:
        bodies = list(ids)
        points = [np.array(data[:3]), np.array(data[3:6])]
        frames = [np.eye(3), np.eye(3)]
        if tag == "weld":
            points = points[::-1]
            frames[0] = from_quaternion(data[6:10])
    places = [elements.place(names.bodies[b], f"{tag} {name!r}") for b in bodies]
    if places[0].body == places[1].body:
        return
    (i, j), (point_i, point_j) = places, (p.point(s) for p, s in zip(places, points, strict=True))
    joint: spatial.Spherical | spatial.Rigid
    if tag == "connect" or data[10] == 0:
        joint = spatial.Spherical(i.body, j.body, point_i, point_j)
    else:
        frame_i, frame_j = i.a @ frames[0], j.a @ frames[1]
        joint = spatial.Rigid(i.body, j.body, point_i, point_j, frame_i=frame_i, frame_j=frame_j)
    elements.constraints[elements.unused_name(name)] = joint


def _add_coupling(m, d, k: int, name: str, elements: Elements, names) -> None:
    """Add an equality `joint`: q₁ − q₁₀ = Σ aₙ (q₂ − q₂₀)ⁿ, or a₀ without a second joint."""
    first, second = int(m.eq_obj1id[k]), int(m.eq_obj2id[k])
    coefficients = m.eq_data[k, :5]
    if second < 0:
        return hold(elements, name, names.joints[first], float(coefficients[0]))
    if np.any(coefficients[2:]):
        raise ModelError(f"equality joint {name!r}: polycoef of higher than first order cannot be represented")
    at = m.jnt_qposadr[[first, second]]
    joints = names.joints[first], names.joints[second]
    couple(elements, name, *joints, *map(float, coefficients[:2]), start=d.qpos[at] - m.qpos0[at])
