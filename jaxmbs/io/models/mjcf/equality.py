"""Equality constraints of MJCF as hard constraints."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jaxmbs import spatial
from jaxmbs.io.models.links.couplings import couple_all, hold
from jaxmbs.io.models.links.elements import Elements
from jaxmbs.io.models.links.tree import from_quaternion
from jaxmbs.io.models.mjcf.initial_motion import joint_state
from jaxmbs.io.models.mjcf.source import Source
from jaxmbs.io.models.mjcf.tendons import LinearTendon, linear_tendon


def add_equalities(source: Source, elements: Elements, tendons: dict[int, str]) -> None:
    """Add the equalities; `tendons` has the names of the slides of fixed tendons, by index."""
    m = source.m
    if "equality" in source.ignore or source.is_disabled("EQUALITY", "CONSTRAINT"):
        return
    kinds = source.mujoco.mjtEq
    for k in range(m.neq):
        kind, name = m.eq_type[k], m.eq(k).name
        if not m.eq_active0[k]:
            continue
        if kind in (int(kinds.mjEQ_CONNECT), int(kinds.mjEQ_WELD)):
            tag = "connect" if kind == int(kinds.mjEQ_CONNECT) else "weld"
            _add_joint(source, elements, k, tag, name or f"{tag}{k + 1}")
        elif kind == int(kinds.mjEQ_JOINT):
            _add_coupling(source, elements, k, name or f"joint{k + 1}")
        elif kind == int(kinds.mjEQ_TENDON):
            _add_tendon_coupling(source, elements, k, name or f"tendon{k + 1}", tendons)
        else:
            source.pass_over("equality", "equality", k, "only connect, weld, joint and tendon are constraints here")


def _add_joint(source: Source, elements: Elements, k: int, tag: str, name: str) -> None:
    """Add a `connect` or `weld` of bodies or sites.

    In a weld of bodies relpose has the place of the anchor in the frame of body 1, and the rotation of body 2 relative to
    body 1.
    """
    m = source.m
    ids, data = (m.eq_obj1id[k], m.eq_obj2id[k]), m.eq_data[k]
    if m.eq_objtype[k] == source.mujoco.mjtObj.mjOBJ_SITE:
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
    places = [elements.place(source.bodies[b], f"{tag} {name!r}") for b in bodies]
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


def _add_coupling(source: Source, elements: Elements, k: int, name: str) -> None:
    """Add an equality `joint`: q₁ − q₁₀ = Σ aₙ (q₂ − q₂₀)ⁿ, or a₀ without a second joint."""
    m = source.m
    first, second = int(m.eq_obj1id[k]), int(m.eq_obj2id[k])
    powers = _polynomial(m.eq_data[k, :5])
    if second < 0 or not any(powers[1:]):
        return hold(elements, name, source.joints[first], powers[0])
    joints = source.joints[first], source.joints[second]
    start = [joint_state(source, j)[0] for j in (first, second)]
    couple_all(elements, name, joints, ((powers[0], -1.0), (0.0, *powers[1:])), start)


def _polynomial(coefficients) -> list[float]:
    """Return coefficients by ascending powers without the highest ones that are zero; two at least."""
    powers = [float(x) for x in coefficients]
    while len(powers) > 2 and not powers[-1]:
        powers.pop()
    return powers


def _add_tendon_coupling(source: Source, elements: Elements, k: int, name: str, tendons: dict[int, str]) -> None:
    """Add an equality `tendon` of fixed tendons, as one of their joints: lengths count from those at qpos0."""
    m = source.m
    if "tendon" in source.ignore:
        source.pass_over("equality", "equality", k, "tendons are ignored")
        return
    ids = [int(x) for x in (m.eq_obj1id[k], m.eq_obj2id[k]) if x >= 0]
    found = [tendon for x in ids if (tendon := linear_tendon(source, x)) is not None]
    if len(found) < len(ids):
        source.pass_over("equality", "equality", k, "the length of a spatial tendon cannot be constrained")
        return
    powers = _polynomial(m.eq_data[k, :5]) if len(ids) > 1 else [float(m.eq_data[k, 0]), 0.0]
    terms: dict[str, tuple[float, list[float]]] = {}
    _add_terms(terms, found[0], -1.0)
    if len(powers) > 2:
        joint = tendons[ids[1]]
        length = LinearTendon((joint,), (1.0,), (float(np.dot(found[1].ratios, found[1].start)),))
        terms[joint] = length.start[0], [0.0, *powers[1:]]
    elif len(ids) > 1:
        _add_terms(terms, found[1], powers[1])
    polynomials = [polynomial for _, polynomial in terms.values()]
    polynomials[0] = [polynomials[0][0] + powers[0], *polynomials[0][1:]]
    start: Sequence[float] = [x for x, _ in terms.values()]
    couple_all(elements, name, tuple(terms), polynomials, start)


def _add_terms(terms: dict[str, tuple[float, list[float]]], tendon: LinearTendon, factor: float) -> None:
    """Add the length of a tendon times a factor to the polynomials of its joints, by name, with their starts."""
    for joint, ratio, start in zip(*tendon, strict=True):
        before = terms.get(joint, (start, [0.0, 0.0]))[1]
        terms[joint] = start, [before[0], before[1] + factor * ratio, *before[2:]]
