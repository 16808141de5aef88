"""How joints appear in a spanning tree: by their own coordinates, or others, with those left out that are prescribed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import equinox as eqx

from jaxmbs.element import GROUND, AbstractConstraint
from jaxmbs.mobility import AbstractTurning, Mobility
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.topology import Tree


class Form(NamedTuple):
    """How the joint that carries a body appears in the tree.

    Attributes:
        kind: one of the below. drivers: names of those that prescribe a coordinate of the joint, so that it is none here.
    """

    kind: str
    drivers: tuple[str, ...] = ()


# The coordinates of the joint's own `mobility`; the same with orientation angles for Euler parameters; all six, three in
# the plane, whatever the joint holds: translations with orientation angles, or with Euler parameters.
OWN, BY_ANGLES, FREE_BY_ANGLES, FREE = "own", "by angles", "free by angles", "free"
FREED = (FREE_BY_ANGLES, FREE)


def joint_of(mech: Mechanism, name: str | None) -> AbstractConstraint | None:
    """A joint without the names of its bodies; None for none."""
    return None if name is None else mech.constraints[name].anonymous()


def drivers_of(mech: Mechanism, tree: Tree, k: int, kind: str, names: Iterable[str]):
    """Drivers at the joint that carries body number k, and for each whether it counts from j to i of the `mobility_of`."""
    joint = tree.joints[k]
    j = tree.bodies[k] if joint is None or kind in FREED else mech.constraints[joint].j
    drivers = [mech.drivers[name] for name in names]
    return tuple(driver.anonymous() for driver in drivers), tuple(driver.j != j for driver in drivers)


def mobility_of(
    joint, body, drivers, *, kind: str, reverse: bool, swapped: tuple[bool, ...], any_angle: bool
) -> Mobility:
    """The relative coordinates of a body that a joint carries in a form of this kind.

    Args:
        joint, body, drivers: without names; the joint is None before a floating base. swapped: see `drivers_of`.
        reverse: whether the tree goes from the joint's j to its i. any_angle: see `Mobility.at_any_angle`.
    """
    if kind in FREED:
        angles, dtype = kind == FREE_BY_ANGLES, body.mass.dtype
        # Body j is the one that is carried, whatever the joint says.
        mobility = (
            body.floating(dtype, angles=angles) if joint is None else joint.relative(angles=angles, swapped=reverse)
        )
    else:
        mobility = body.floating(body.mass.dtype) if joint is None else joint.mobility
    if kind == BY_ANGLES:
        by_angles = body.floating(body.mass.dtype, angles=True) if joint is None else joint.relative(angles=True)
        mobility = dataclasses.replace(mobility, turning=by_angles.turning, neutral=by_angles.neutral)
    mobility = mobility.at_any_angle() if any_angle else mobility
    for driver, backwards in zip(drivers, swapped, strict=True):
        guide = driver.guide(mobility, backwards)
        if guide is not None:
            mobility = mobility.guided(*guide)
    return mobility.of_either_sign() if any_angle else mobility


def traced(make: Callable, *parts) -> Mobility:
    """A mobility without numbers, of which only the structure is used."""
    return eqx.filter_eval_shape(make, *parts)


def guided(mech: Mechanism, tree: Tree, kinds: Sequence[str]) -> tuple[Form, ...]:
    """The forms with all drivers that prescribe a coordinate of a joint of the tree whatever the other coordinates do; of
    several for the same coordinate the first."""
    forms = []
    for k, (body, name, kind) in enumerate(zip(tree.bodies, tree.joints, kinds, strict=True)):
        joint, carrier = joint_of(mech, name), GROUND if tree.parents[k] < 0 else tree.bodies[tree.parents[k]]

        def known(names, k=k, kind=kind, joint=joint) -> int:
            """How many coordinates are prescribed with these drivers."""
            drivers, swapped = drivers_of(mech, tree, k, kind, names)
            make = partial(mobility_of, kind=kind, reverse=tree.reversed[k], swapped=swapped, any_angle=True)
            return len(traced(make, joint, mech.bodies[tree.bodies[k]], drivers).known)

        taken: list[str] = []
        for name, driver in mech.drivers.items():
            if {driver.i, driver.j} == {body, carrier} and known([*taken, name]) > known(taken):
                taken.append(name)
        forms.append(Form(kind, tuple(taken)))
    return tuple(forms)


def turning_at(mech: Mechanism, tree: Tree, k: int) -> AbstractTurning | None:
    """The rotation of the joint that carries body number k; of use for its structure."""
    make = partial(mobility_of, kind=OWN, reverse=False, swapped=(), any_angle=False)
    return traced(make, joint_of(mech, tree.joints[k]), mech.bodies[tree.bodies[k]], ()).turning
