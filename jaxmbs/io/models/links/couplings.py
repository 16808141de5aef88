"""Joints whose coordinates depend on each other: `equality joint` of MJCF, `mimic` of URDF, tendons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxmbs import motion, spatial
from jaxmbs.io.models.links.elements import Elements
from jaxmbs.io.models.links.tree import HINGE, SLIDE, Link, along_z
from jaxmbs.io.models.model import ModelError


def hold(elements: Elements, name: str, joint: str, value: float) -> None:
    """Hold a hinge or slide at a value, by a constant driver."""
    link = joint_link(elements, name, joint)
    axes = along_z(link.primitives[0].axis)
    frames = {"frame_i": link.a @ axes, "frame_j": axes}
    still = motion.Constant(jnp.asarray(value))
    driver: spatial.RevoluteDriver | spatial.TranslationalDriver
    if link.primitives[0].kind == HINGE:
        driver = spatial.RevoluteDriver(link.parent, link.name, motion=still, **frames)
    else:
        driver = spatial.TranslationalDriver(
            link.parent, link.name, point_i=jnp.asarray(link.r), point_j=jnp.zeros(3), motion=still, **frames
        )
    elements.drivers[elements.unused_name(name)] = driver


def couple(
    elements: Elements, name: str, first: str, second: str, offset: float, ratio: float, start=(0.0, 0.0)
) -> None:
    """Add a constraint between two hinges or slides: x₁ = offset + ratio x₂. `start` has x₁ and x₂ at the start."""
    if ratio == 0:
        return hold(elements, name, first, offset)
    couple_all(elements, name, (first, second), ((offset, -1.0), (0.0, ratio)), start)


def couple_all(
    elements: Elements, name: str, joints: Sequence[str], polynomials: Sequence[Sequence[float]], start: Sequence[float]
) -> None:
    """Add a constraint Σ_k p_k(x_k) = 0 between the coordinates x_k of hinges and slides.

    Args:
        elements: elements to add to.
        name: name of the constraint.
        joints: names of the joints.
        polynomials: coefficients of each p_k, by ascending powers.
        start: x_k at the start.

    Raises:
        ModelError: a joint is not a hinge or slide.
    """
    links = [joint_link(elements, name, joint) for joint in joints]
    axes = [along_z(link.primitives[0].axis) for link in links]
    points = np.array([link.primitives[0].point for link in links])
    powers = max(map(len, polynomials))
    bodies = [body for link in links for body in (link.parent, link.name)]
    turns = [link.primitives[0].kind == HINGE for link in links]
    name = elements.unused_name(name)
    coupling: Any = spatial.JointCoupling
    elements.constraints[name] = coupling(
        *bodies[:2],
        bodies[2:],
        ["angle" if turn else "slide" for turn in turns],
        np.array([[*p, *[0.0] * (powers - len(p))] for p in polynomials]),
        np.stack([link.a @ a for link, a in zip(links, axes, strict=True)]),
        np.stack(axes),
        np.stack([link.r + link.a @ point for link, point in zip(links, points, strict=True)]),
        points,
    )
    if any(turns):
        elements.guess[name] = np.array([x for x, turn in zip(start, turns, strict=True) if turn])


def joint_link(elements: Elements, name: str, joint: str) -> Link:
    """Return the link of a hinge or slide; raise `ModelError`, which names the owner, if it is none."""
    link = elements.joints.get(joint)
    if link is None or link.primitives[0].kind not in (HINGE, SLIDE):
        raise ModelError(f"{name!r}: joint {joint!r} is not a single hinge or slide, so it cannot be coupled")
    return link
