"""Joints that move in proportion: `equality joint` of MJCF and `mimic` of URDF."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from jaxmbs import motion, spatial
from jaxmbs.io.models.links.elements import Elements
from jaxmbs.io.models.links.tree import EXACT, HINGE, SLIDE, Link, along_z
from jaxmbs.io.models.model import ModelError


def hold(elements: Elements, name: str, joint: str, value: float) -> None:
    """Hold a hinge or slide at a value, by a constant driver."""
    link = _link(elements, name, joint)
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
    """Add a constraint that couples the hinges `first` and `second` on one body: θ₁ = offset + ratio θ₂, in radians.

    The constraint is a `Gear` between the two bodies that turn: the angles α of the line of centres in their frames are
    constants minus θ. `start` has θ₁ and θ₂ at the start.

    Raises:
        ModelError: they are not hinges with different axes on one body, or not the only joints of their bodies.
    """
    if ratio == 0:
        return hold(elements, name, first, offset)
    links = [_link(elements, name, joint) for joint in (first, second)]
    one, two = links
    if any(link.primitives[0].kind != HINGE for link in links) or one.parent != two.parent:
        raise ModelError(f"{name!r}: couples {first!r} and {second!r}; only hinges on the same body can be coupled")
    between = np.subtract(*(link.r + link.a @ link.primitives[0].point for link in (two, one)))
    frames = [along_z(link.primitives[0].axis) for link in links]
    directions = [(link.a @ axes).T @ (sign * between) for link, axes, sign in zip(links, frames, (1, -1), strict=True)]
    if min(np.hypot(*d[:2]) for d in directions) < EXACT:
        raise ModelError(f"{name!r}: couples {first!r} and {second!r}, whose points must be apart across their axes")
    zero = [np.arctan2(d[1], d[0]) for d in directions]
    name = elements.unused_name(name)
    elements.constraints[name] = spatial.Gear(
        one.name,
        two.name,
        *(link.primitives[0].point for link in links),
        radius_i=1.0,
        radius_j=-ratio,
        angle_i=zero[0] - offset,
        angle_j=zero[1],
        frame_i=frames[0],
        frame_j=frames[1],
    )
    elements.guess[name] = np.subtract(zero, start)


def _link(elements: Elements, name: str, joint: str) -> Link:
    """Return the link of a hinge or slide; raise `ModelError` unless it is the only joint of its body."""
    link = elements.joints.get(joint)
    if link is None or link.primitives[0].kind not in (HINGE, SLIDE):
        raise ModelError(f"{name!r}: {joint!r} must be a hinge or slide that is the only joint of its body")
    return link
