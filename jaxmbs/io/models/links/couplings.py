"""Joints that move in proportion: `equality joint` of MJCF, `mimic` of URDF."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from jaxmbs import motion, spatial
from jaxmbs.io.models.links.parts import Parts
from jaxmbs.io.models.links.tree import EXACT, HINGE, SLIDE, Link, along_z
from jaxmbs.io.models.model import ModelError


def hold(parts: Parts, name: str, joint: str, value: float) -> None:
    """Hold a hinge or slide at a value, as a driver that stands still.

    Raises:
        ModelError: it is not a hinge or slide, or not alone on its body.
    """
    link = _link(parts, name, joint)
    axes = along_z(link.steps[0].axis)
    frames = {"frame_i": link.a @ axes, "frame_j": axes}
    still = motion.Constant(jnp.asarray(value))
    driver: spatial.RevoluteDriver | spatial.TranslationalDriver
    if link.steps[0].kind == HINGE:
        driver = spatial.RevoluteDriver(link.parent, link.name, motion=still, **frames)
    else:
        driver = spatial.TranslationalDriver(
            link.parent, link.name, point_i=jnp.asarray(link.r), point_j=jnp.zeros(3), motion=still, **frames
        )
    parts.drivers[parts.name(name)] = driver


def couple(parts: Parts, name: str, first: str, second: str, offset: float, ratio: float, start=(0.0, 0.0)) -> None:
    """Let a hinge turn as another one on the same body: θ₁ = offset + ratio θ₂.

    It is a `Gear` between the two bodies that turn: the angles α of the line of centres against them are constants less θ.

    Args:
        name: of the new constraint, and of what asks for it.
        start: θ₁ and θ₂ at the start.

    Raises:
        ModelError: they are not hinges of two axes on one body, or not alone on theirs.
    """
    if ratio == 0:
        return hold(parts, name, first, offset)
    links = [_link(parts, name, joint) for joint in (first, second)]
    one, two = links
    if any(link.steps[0].kind != HINGE for link in links) or one.parent != two.parent:
        raise ModelError(f"{name!r}: couples {first!r} and {second!r}; only hinges on the same body can be")
    between = np.subtract(*(link.r + link.a @ link.steps[0].point for link in (two, one)))
    frames = [along_z(link.steps[0].axis) for link in links]
    seen = [(link.a @ axes).T @ (sign * between) for link, axes, sign in zip(links, frames, (1, -1), strict=True)]
    if min(np.hypot(*d[:2]) for d in seen) < EXACT:
        raise ModelError(f"{name!r}: couples {first!r} and {second!r}, which turn about the same line or meet there")
    zero = [np.arctan2(d[1], d[0]) for d in seen]
    name = parts.name(name)
    parts.constraints[name] = spatial.Gear(
        one.name,
        two.name,
        *(link.steps[0].point for link in links),
        radius_i=1.0,
        radius_j=-ratio,
        angle_i=zero[0] - offset,
        angle_j=zero[1],
        frame_i=frames[0],
        frame_j=frames[1],
    )
    parts.guess[name] = np.subtract(zero, start)


def _link(parts: Parts, name: str, joint: str) -> Link:
    link = parts.joints.get(joint)
    if link is None or link.steps[0].kind not in (HINGE, SLIDE):
        raise ModelError(f"{name!r}: {joint!r} is not a hinge or slide that is alone on its body")
    return link
