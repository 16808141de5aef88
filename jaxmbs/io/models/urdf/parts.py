"""Inertias and joints of URDF."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from jaxmbs.io.models.links.tree import BALL, FREE, HINGE, SLIDE, PrimitiveJoint, along_z, open_range
from jaxmbs.io.models.model import ModelError
from jaxmbs.io.models.notes import Notes
from jaxmbs.io.models.possible_inertia import possible_inertia
from jaxmbs.io.models.xml_lines import numbers_in, roll_pitch_yaw

# Mass, centre of mass and inertia of a link of URDF without the tag `inertial`.
NO_INERTIA: tuple[float, Any, Any] = 0.0, np.zeros(3), np.zeros((3, 3))
# Kind of the primitive joint, for the types of joints of URDF that have exactly one, and for the spherical joint of
# Bullet.
KINDS = {"revolute": HINGE, "continuous": HINGE, "prismatic": SLIDE, "spherical": BALL}


def numbers(element: Element | None, attribute: str, default: str, count: int, where: str) -> np.ndarray:
    """Return an attribute as numbers (count,); messages begin with `where`."""
    text = default if element is None else element.attrib.get(attribute, default)
    return numbers_in(text, count, where, attribute)


def number(element: Element | None, attribute: str, default: str, where: str) -> float:
    """Return an attribute as a number; messages begin with `where`."""
    return float(numbers(element, attribute, default, 1, where)[0])


def origin_of(element: Element | None, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Return r (3,) and A (3, 3) of the origin of an element."""
    origin = None if element is None else element.find("origin")
    return numbers(origin, "xyz", "0 0 0", 3, where), roll_pitch_yaw(numbers(origin, "rpy", "0 0 0", 3, where))


def inertial_of(name: str, link: Element, notes: Notes, ignore) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the mass, the centre of mass (3,), and the inertia about it (3, 3) in the frame of the link."""
    found, where = link.find("inertial"), f"link {name!r}"
    if found is None:
        return NO_INERTIA
    for parent, tag, least in ((link, "inertial", 1), (found, "mass", 1), (found, "inertia", 1), (found, "origin", 0)):
        count = len(parent.findall(tag))
        if count > 1 or count < least:
            raise ModelError(f"{where}: {tag} {'appears twice' if count > 1 else 'is missing'}")
    r, a = origin_of(found, where)
    mass = number(found.find("mass"), "value", "", where)
    if mass < 0:
        raise ModelError(f"{where}: mass must not be negative, got {mass}")
    entries = [number(found.find("inertia"), key, "0", where) for key in ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")]
    xx, yy, zz, xy, xz, yz = entries
    inertia = a @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ a.T
    possible = possible_inertia((inertia + inertia.T) / 2, mass, where, at_any_cost="inertia" in ignore)
    if possible.change:
        notes.pass_over("inertia", where, found.find("inertia"), possible.reason)
    return mass, r, possible.inertia


def primitives_of(name: str, joint: Element, notes: Notes, ignore) -> tuple[PrimitiveJoint, ...]:
    """Return the primitives of a joint: none if it is fixed, three if it is planar."""
    where, kind = f"joint {name!r}", joint.get("type", "")
    if kind not in (*KINDS, "fixed", "floating", "planar"):
        raise ModelError(f"{where}: type {kind!r} is not known")
    dynamics = joint.find("dynamics")
    damping = 0.0 if "damping" in ignore else number(dynamics, "damping", "0", where)
    friction = 0.0 if "friction" in ignore else number(dynamics, "friction", "0", where)
    if kind in ("fixed", "floating", "planar", "spherical"):
        for value, tag in ((damping, "damping"), (friction, "friction")):
            if value and (kind, tag) != ("spherical", "damping"):
                notes.pass_over(tag, where, dynamics, f"it is not read for {kind} joints")
    if kind == "fixed":
        return ()
    origin = np.zeros(3)
    if kind == "floating":
        return (PrimitiveJoint(FREE, name, origin, np.eye(3)[0]),)
    axis = numbers(joint.find("axis"), "xyz", "1 0 0", 3, where)
    if kind == "spherical":
        return (PrimitiveJoint(BALL, name, origin, np.eye(3)[0], damping=damping),)
    if not np.any(axis):
        raise ModelError(f"{where}: axis must not be zero")
    axis = axis / np.linalg.norm(axis)
    if kind == "planar":
        x, y, z = along_z(axis).T
        return tuple(
            PrimitiveJoint(primitive, f"{name}.{what}", origin, u)
            for primitive, what, u in ((SLIDE, "x", x), (SLIDE, "y", y), (HINGE, "phi", z))
        )
    limit = joint.find("limit")
    limited = limit is not None and kind != "continuous" and ("lower" in limit.attrib or "upper" in limit.attrib)
    limits = (number(limit, "lower", "0", where), number(limit, "upper", "0", where)) if limited else None
    if limits is not None and limits[0] > limits[1]:
        notes.pass_over("limit", where, limit, "lower is above upper")
        limits = None
    range_or_none = None if limits is None else open_range(*limits)
    return (PrimitiveJoint(KINDS[kind], name, origin, axis, damping=damping, limits=range_or_none, friction=friction),)
