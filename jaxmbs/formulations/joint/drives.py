"""Forces that give inertia to the coordinates of joints in a spanning tree, such as the rotors of drives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.forces.joint.inertia import AbstractInertialEffort
from jaxmbs.formulations.joint.forms import FREED, Form
from jaxmbs.numerics.space import Manifold
from jaxmbs.relative_motion import coordinates_of
from jaxmbs.system.mechanism import Mechanism


class Joint(NamedTuple):
    """The static part of an edge of the tree.

    Attributes:
        name: name of the joint, or of the floating body.
        coordinates, velocities, angular, manifold: see `Mobility`.
    """

    name: str
    coordinates: tuple[str, ...]
    velocities: tuple[str, ...]
    angular: tuple[bool, ...]
    manifold: type[Manifold]


def inertial_efforts(mech: Mechanism, joints: Sequence[Joint], forms: Sequence[Form]) -> dict[str, tuple[int, int]]:
    """Return the forces that give inertia to a joint coordinate: name ↦ number of the joint, and of its rate there."""
    places = {
        (joint.name, rate): (number, k)
        for number, (joint, form) in enumerate(zip(joints, forms, strict=True))
        if form.kind not in FREED
        for k, rate in enumerate(joint.velocities)
    }
    elements, found = {**mech.constraints, **mech.drivers}, {}
    for name, force in mech.forces.items():
        if isinstance(force, AbstractInertialEffort) and force.reactive:
            names = coordinates_of(elements, force.joint, force.coordinate, spins=True)
            place = places.get((force.joint, names.chosen_name))
            if place is not None:
                found[name] = place
    return found


def inertias_at_joints(
    mech: Mechanism, joints: Sequence[Joint], forms: Sequence[Form]
) -> list[Float[Array, " m"]] | list[None]:
    """Return the inertia (m,) that forces give to the coordinates of each joint of the tree; None if there is none."""
    efforts = inertial_efforts(mech, joints, forms)
    if not efforts:
        return [None] * len(joints)
    total = [[jnp.zeros((), mech.dtype)] * len(joint.velocities) for joint in joints]
    for name, (number, k) in efforts.items():
        total[number][k] = total[number][k] + mech.forces[name].at_joint
    return [jnp.stack(one) if one else jnp.zeros(0, mech.dtype) for one in total]
