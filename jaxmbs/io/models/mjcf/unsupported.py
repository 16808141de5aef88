"""Features of a compiled MJCF model that a mechanism does not have."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from jaxmbs.io.models.mjcf.source import Source, nonzero_rows
from jaxmbs.io.models.model import ModelError

# Tags and attributes of MJCF that `ignore` of `load` may name, to be left out.
IGNORABLE = (
    "actuator",
    "armature",
    "contact",
    "damping",
    "equality",
    "flex",
    "fluid",
    "frictionloss",
    "gravcomp",
    "mocap",
    "plugin",
    "range",
    "stiffness",
    "tendon",
)


def check_ignore(ignore: Iterable[str], known: Collection[str]) -> None:
    """Raise `ModelError` for names in `ignore` that are not in `known`."""
    for name in ignore:
        if name not in known:
            raise ModelError(f"ignore: {name!r} cannot be ignored; must be one of {', '.join(known)}")


def pass_over_features(source: Source) -> None:
    """Pass over the features that no mechanism has."""
    m = source.m
    for k in range(m.nflex):
        source.pass_over("flex", "flex", k, "deformable bodies have no elasticity here")
    if m.opt.density or m.opt.viscosity:
        source.passed_over.add("fluid", "density and viscosity", "there are no forces of a medium")
    # Since MuJoCo 4 springs and dampers may be polynomials, and springs may yield.
    why = "only the linear coefficient is read"
    for field in ("jnt_stiffnesspoly", "jnt_springyield"):
        values = getattr(m, field, None)
        if values is not None and not source.is_disabled("SPRING"):
            for k in nonzero_rows(values):
                source.pass_over("stiffness", "joint", k, why)
    dampers = getattr(m, "dof_dampingpoly", None)
    if dampers is not None and not source.is_disabled("DAMPER"):
        for k in sorted({int(m.dof_jntid[dof]) for dof in nonzero_rows(dampers)}):
            source.pass_over("damping", "joint", k, why)
    if not source.is_disabled("CONTACT", "CONSTRAINT"):
        _pass_over_contacts(source)


def _pass_over_contacts(source: Source) -> None:
    """Pass over pairs of geoms that MuJoCo tests for contact, and those that are named."""
    m, count, first = source.m, source.m.npair, None
    if count:
        first = int(m.pair_geom1[0]), int(m.pair_geom2[0])
    found, pair = _count_pairs(source)
    first = pair if first is None else first
    if first is None:
        return
    of = [f"{source.name('geom', g)!r} of {source.name('body', int(m.geom_bodyid[g]))!r}" for g in first]
    pairs = f"{count + found} pairs of geoms, such as" if count + found > 1 else "geoms"
    source.passed_over.add("contact", f"{pairs} {' and '.join(of)}", "they may touch, and contacts are not simulated")


def _count_pairs(source: Source) -> tuple[int, tuple[int, int] | None]:
    """Return the number of pairs of geoms that MuJoCo tests for contact, and the first pair.

    Geoms of one body, or of parent and child, and excluded ones are not tested. Geoms of a body with the same bits are
    counted as a group.
    """
    m = source.m
    solid = np.flatnonzero(m.geom_contype | m.geom_conaffinity)
    if not len(solid):
        return 0, None
    keys = np.stack([m.geom_bodyid[solid], m.geom_contype[solid], m.geom_conaffinity[solid]], axis=1)
    groups, firsts, sizes = np.unique(keys, axis=0, return_index=True, return_counts=True)
    body, contype, conaffinity = groups.T
    weld = m.body_weldid[body]
    above = m.body_weldid[m.body_parentid[weld]]
    filters = not source.is_disabled("FILTERPARENT")
    excluded: dict[int, set[int]] = {}
    for signature in map(int, m.exclude_signature):
        one, two = signature >> 16, signature & 0xFFFF
        excluded.setdefault(one, set()).add(two)
        excluded.setdefault(two, set()).add(one)
    total, first = 0, None
    for k in range(len(groups) - 1):
        rest = slice(k + 1, None)
        touch = ((contype[k] & conaffinity[rest]) | (contype[rest] & conaffinity[k])) != 0
        touch &= weld[rest] != weld[k]
        if filters and weld[k]:
            touch &= (weld[rest] == 0) | ((above[rest] != weld[k]) & (weld[rest] != above[k]))
        if int(body[k]) in excluded:
            touch &= ~np.isin(body[rest], list(excluded[int(body[k])]))
        total += int(sizes[k] * sizes[rest][touch].sum())
        if first is None and touch.any():
            first = int(solid[firsts[k]]), int(solid[firsts[rest][np.argmax(touch)]])
    return total, first
