"""Checks of a compiled MJCF model: features that a mechanism does not have are refused unless they are to be ignored."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator

import numpy as np

from jaxmbs.io.models.model import ModelError

# Tags and attributes of MJCF that `ignore` of `load` may name, to be left out.
IGNORABLE = (
    "actuator",
    "armature",
    "contact",
    "damping",
    "equality",
    "fluid",
    "frictionloss",
    "gravcomp",
    "mocap",
    "range",
    "stiffness",
    "tendon",
)


def check_ignore(ignore: Iterable[str], known: Collection[str]) -> None:
    """Raise `ModelError` for names in `ignore` that are not in `known`."""
    for name in ignore:
        if name not in known:
            raise ModelError(f"ignore: {name!r} cannot be ignored; must be one of {', '.join(known)}")


def check_model(mujoco, m, ignore: Collection[str]) -> None:
    """Raise `ModelError` for the first feature that no mechanism has, unless `ignore` names its tag."""
    for tag, what in _unsupported_features(mujoco, m):
        if tag not in ignore:
            leave = f"; leave it out with ignore=({tag!r},)" if tag in IGNORABLE else ""
            raise ModelError(f"{tag}: {what} cannot be represented{leave}")


def _unsupported_features(mujoco, m) -> Iterator[tuple[str, str]]:
    """Yield the tag and a description of each feature that no mechanism has."""
    yield from (("tendon", _description(m.tendon(k).name, "tendon", k)) for k in range(m.ntendon))
    yield from (("flex", f"deformable body {k + 1}") for k in range(m.nflex))
    if m.nplugin:
        yield "plugin", "a plugin"
    for k in map(int, np.flatnonzero(m.body_mocapid >= 0)):
        yield "mocap", _description(m.body(k).name, "body", k)
    if not m.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY:
        yield from (
            ("gravcomp", _description(m.body(k).name, "body", k)) for k in map(int, np.flatnonzero(m.body_gravcomp))
        )
    if m.opt.density or m.opt.viscosity:
        yield "fluid", "density and viscosity of a medium (option)"
    yield from _unsupported_of_joints(mujoco, m)


def _unsupported_of_joints(mujoco, m) -> Iterator[tuple[str, str]]:
    """Yield the tag and a description of each feature of joints in MuJoCo that no mechanism has."""
    flags = mujoco.mjtDisableBit
    disabled = lambda flag: bool(m.opt.disableflags & flag)
    joint = lambda k: _description(m.joint(int(k)).name, "joint", k)
    # Since MuJoCo 4 springs and dampers may be polynomials, and springs may yield.
    springs = {name: getattr(m, name, None) for name in ("jnt_stiffnesspoly", "jnt_springyield")}
    for name, values in springs.items():
        if values is not None and not disabled(getattr(flags, "mjDSBL_SPRING", 0)):
            for k in _rows(values):
                yield "stiffness", f"{name[4:]} of {joint(k)}"
    dampers = getattr(m, "dof_dampingpoly", None)
    if dampers is not None and not disabled(getattr(flags, "mjDSBL_DAMPER", 0)):
        for dof in _rows(dampers):
            yield "damping", f"dampingpoly of {joint(m.dof_jntid[dof])}"


def _rows(values) -> list[int]:
    """Return the indices of the rows of an array with an entry other than zero."""
    return [k for k, row in enumerate(values) if np.any(row)]


def _description(name: str, kind: str, k) -> str:
    """Return a description of object k of a kind."""
    return f"{kind} {name!r}" if name else f"{kind} number {int(k) + 1}"


def check_contacts(mujoco, m, d, ignore: Collection[str]) -> None:
    """Raise `ModelError` for geoms that touch or may touch a fixed body; warn of those of moving bodies."""
    flags = mujoco.mjtDisableBit
    if "contact" in ignore or m.opt.disableflags & (flags.mjDSBL_CONTACT | flags.mjDSBL_CONSTRAINT):
        return
    leave = "; leave contacts out with ignore=('contact',)"
    if m.npair:
        pair = m.pair_geom1[0], m.pair_geom2[0]
        raise ModelError(f"contact: pair of {_geoms(m, *pair)} cannot be represented{leave}")
    if d.ncon:
        raise ModelError(f"contact: {_geoms(m, *d.contact[0].geom)} touch at the start{leave}")
    may_touch = list(_pairs(mujoco, m))
    for g, h in may_touch:
        if 0 in m.body_weldid[m.geom_bodyid[[g, h]]]:
            raise ModelError(f"contact: {_geoms(m, g, h)} may collide{leave}")
    if may_touch:
        more = f" and {len(may_touch) - 1} more pairs" if len(may_touch) > 1 else ""
        warnings.warn(f"contact: {_geoms(m, *may_touch[0])}{more} may touch; contacts are not simulated", stacklevel=4)


def _pairs(mujoco, m) -> Iterator[tuple[int, int]]:
    """Yield pairs of geoms that MuJoCo tests for contact: not those of one body, of parent and child, or excluded."""
    solid = np.flatnonzero(m.geom_contype | m.geom_conaffinity)
    filters = not m.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_FILTERPARENT
    excluded = {(int(s) >> 16, int(s) & 0xFFFF) for s in m.exclude_signature}
    weld = m.body_weldid
    above = weld[m.body_parentid[weld]]
    for n, g in enumerate(map(int, solid)):
        for h in map(int, solid[n + 1 :]):
            b, c = int(m.geom_bodyid[g]), int(m.geom_bodyid[h])
            u, w = weld[b], weld[c]
            related = u and w and (above[u] == w or above[w] == u)
            mask = m.geom_contype[g] & m.geom_conaffinity[h] or m.geom_contype[h] & m.geom_conaffinity[g]
            if u != w and mask and not (filters and related) and not {(b, c), (c, b)} & excluded:
                yield g, h


def _geoms(m, g, h) -> str:
    """Return a description of two geoms."""
    names = [m.geom(int(k)).name or f"geom{int(k) + 1}" for k in (g, h)]
    of = [m.body(int(m.geom_bodyid[k])).name or f"body{int(m.geom_bodyid[k])}" for k in (g, h)]
    return " and ".join(f"geom {name!r} of {body!r}" for name, body in zip(names, of, strict=True))
