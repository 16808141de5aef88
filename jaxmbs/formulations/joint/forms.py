"""Forms of joints in a spanning tree: their own coordinates, or others, without those that drivers prescribe."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

import equinox as eqx

from jaxmbs.element import GROUND, AbstractBody, AbstractConstraint
from jaxmbs.mobility import AbstractTurning, Mobility
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.topology import Tree


class Form(NamedTuple):
    """The choice of coordinates for the joint that carries a body.

    Attributes:
        kind: `OWN`, `BY_ANGLES`, `FREE_BY_ANGLES` or `FREE`.
        drivers: names of drivers that prescribe a coordinate of the joint, which is then not in θ.
    """

    kind: str
    drivers: tuple[str, ...] = ()


# Kind of a `Form`: coordinates of the joint's own `mobility`.
OWN = "own"
# Kind of a `Form`: those of `OWN`, with orientation angles instead of Euler parameters.
BY_ANGLES = "by angles"
# Kind of a `Form`: six coordinates, three in the plane, as if there were no joint: translations and orientation angles.
FREE_BY_ANGLES = "free by angles"
# Kind of a `Form`: those of `FREE_BY_ANGLES`, with Euler parameters instead of angles.
FREE = "free"
# Kinds of a `Form` that ignore the joint, so that the equations of the joint are rows of Φ.
FREED = (FREE_BY_ANGLES, FREE)


def joint_of(mech: Mechanism, name: str | None) -> AbstractConstraint | None:
    """Return the joint of this name without the names of its bodies; None for a floating base, whose name is None."""
    return None if name is None else mech.constraints[name].anonymous()


def drivers_of(
    mech: Mechanism, tree: Tree, k: int, kind: str, names: Iterable[str]
) -> tuple[tuple[AbstractConstraint, ...], tuple[bool, ...]]:
    """Return the named drivers at the joint that carries body k, and for each True if its j is not the joint's j."""
    joint = tree.joints[k]
    j = tree.bodies[k] if joint is None or kind in FREED else mech.constraints[joint].j
    drivers = [mech.drivers[name] for name in names]
    return tuple(driver.anonymous() for driver in drivers), tuple(driver.j != j for driver in drivers)


def mobility_of(
    joint: AbstractConstraint | None,
    body: AbstractBody,
    drivers: Sequence[AbstractConstraint],
    *,
    kind: str,
    reverse: bool,
    swapped: tuple[bool, ...],
    any_angle: bool,
) -> Mobility:
    """Return the relative coordinates of a body that a joint carries in a form of this kind.

    Args:
        joint: the joint, without names; None for a floating base.
        body: the body.
        drivers: drivers that prescribe coordinates, without names.
        kind: see `Form`.
        reverse: True if the tree goes from the joint's j to its i.
        swapped: see `drivers_of`.
        any_angle: see `Mobility.at_any_angle`.

    Returns:
        A `Mobility`.
    """
    if kind in FREED:
        angles, dtype = kind == FREE_BY_ANGLES, body.mass.dtype
        # Body j is the one that is carried, even if the joint has it as body i.
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
            mobility = mobility.with_motion(*guide)
    return mobility.of_either_sign() if any_angle else mobility


def forms_with_drivers(mech: Mechanism, tree: Tree, kinds: Sequence[str]) -> tuple[Form, ...]:
    """Return the forms with all drivers that prescribe one coordinate of a tree joint independently of the others.

    If there are several for one coordinate, the first is taken.
    """
    forms = []
    for k, (body, name, kind) in enumerate(zip(tree.bodies, tree.joints, kinds, strict=True)):
        joint, carrier = joint_of(mech, name), GROUND if tree.parents[k] < 0 else tree.bodies[tree.parents[k]]

        def prescribed(names, k=k, kind=kind, joint=joint) -> int:
            """Return the number of coordinates of this tree joint that these drivers prescribe."""
            drivers, swapped = drivers_of(mech, tree, k, kind, names)
            make = partial(mobility_of, kind=kind, reverse=tree.reversed[k], swapped=swapped, any_angle=True)
            return len(eqx.filter_eval_shape(make, joint, mech.bodies[tree.bodies[k]], drivers).known)

        chosen: list[str] = []
        for name, driver in mech.drivers.items():
            if {driver.i, driver.j} == {body, carrier} and prescribed([*chosen, name]) > prescribed(chosen):
                chosen.append(name)
        forms.append(Form(kind, tuple(chosen)))
    return tuple(forms)


def turning_at(mech: Mechanism, tree: Tree, k: int) -> AbstractTurning | None:
    """Return the rotation of the joint that carries body number k, with shapes in place of numbers."""
    make = partial(mobility_of, kind=OWN, reverse=False, swapped=(), any_angle=False)
    return eqx.filter_eval_shape(make, joint_of(mech, tree.joints[k]), mech.bodies[tree.bodies[k]], ()).turning
