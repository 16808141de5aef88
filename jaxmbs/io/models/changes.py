"""Changes of loaded models: joints that are driven, elements that are left out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from jaxmbs import forces, planar, spatial
from jaxmbs.element import GROUND, AbstractConstraint, require_name, unknown
from jaxmbs.io.models.model import Model, model_of

# Forces on a joint that a driver of this joint replaces.
REPLACED = (forces.Actuator, forces.JointStop, forces.Motor, forces.Servo)


def drive(model: Model, name: str, motion) -> Model:
    """Return a model with a joint that follows a motion; see `Model.drive`."""
    joint = _joint(model, name)
    if isinstance(joint, spatial.TotalJoint) and all(joint.position):
        return _at_rates_of_drivers(_with(model, constraints={**model.constraints, name: _moved(name, joint, motion)}))
    driver = driver_of(name, joint, motion)
    drivers = {key: value for key, value in model.drivers.items() if not _connects(value, joint)}
    kept = {key: force for key, force in model.forces.items() if not _is_replaced(force, name)}
    used = {*model.constraints, *drivers, *kept}
    unused = next(word for k in range(len(used) + 1) if (word := f"{name} drive{k + 1 if k else ''}") not in used)
    return _at_rates_of_drivers(_with(model, drivers={**drivers, unused: driver}, forces=kept))


def release(model: Model, name: str) -> Model:
    """Return a model without a driver, or without all drivers between the bodies of a joint; see `Model.release`."""
    if name in model.drivers:
        return without(model, (name,))
    joint = _joint(model, name, also=model.drivers)
    found = tuple(key for key, driver in model.drivers.items() if _connects(driver, joint))
    if not found:
        raise ValueError(f"no driver moves joint {name!r}; to take the joint itself out use model.without({name!r})")
    return without(model, found)


def without(model: Model, names: Collection[str]) -> Model:
    """Return a model without elements and those that need them; see `Model.without`."""
    groups = {key: getattr(model, key) for key in ("bodies", "constraints", "drivers", "forces")}
    everything = {name for group in groups.values() for name in group}
    for name in names:
        require_name("element", name, sorted(everything))
    bodies, *others = ({name: x for name, x in group.items() if name not in names} for group in groups.values())
    if not bodies:
        raise ValueError("no body is left")
    gone = {*model.bodies} - {*bodies}
    constraints, drivers = ({name: x for name, x in group.items() if not {x.i, x.j} & gone} for group in others[:2])
    kept = {
        name: x for name, x in others[2].items() if not {*x.acts_on} & gone and _has_joints(x, constraints | drivers)
    }
    return _with(model, bodies=bodies, constraints=constraints, drivers=drivers, forces=kept)


def _with(model: Model, **groups: Mapping[str, Any]) -> Model:
    """Return a model with other groups of elements; the rest of its data is kept as far as it applies to them."""
    old = {key: getattr(model, key) for key in ("bodies", "constraints", "drivers", "forces")}
    new = old | groups
    layout, q = model.layout, model.guess
    named = {**new["bodies"], **new["constraints"], **new["drivers"]}
    slices = {**layout.body_slices, **layout.extra_slices}
    return Model(
        **new,
        guess={name: q[place] for name, place in slices.items() if name in named and q[place].size},
        velocities={name: rate for name, rate in model.velocity_by_name.items() if name.rpartition(".")[0] in named},
        name=model.name,
        limits={name: limits for name, limits in model.limits.items() if name in new["constraints"]},
        unit=model.unit,
        passed_over=model.passed_over,
        frames={name: frame for name, frame in model.given_frames.items() if frame.body in (GROUND, *new["bodies"])},
    )


def _at_rates_of_drivers(model: Model) -> Model:
    """Return a model without given velocities of zero: they may contradict a driver, from which they follow instead."""
    velocities = {name: rate for name, rate in model.velocity_by_name.items() if rate}
    return model_of(model, velocities=velocities)


def _joint(model: Model, name: str, also: Collection[str] = ()) -> AbstractConstraint:
    """Return the joint of this name; raise `ValueError` if there is none. `also` has more names to suggest."""
    if name not in model.constraints:
        raise ValueError(unknown("joint", name, [*model.constraints, *also]))
    return model.constraints[name]


def _connects(driver: AbstractConstraint, joint: AbstractConstraint) -> bool:
    """Return True if a driver is between the bodies of a joint."""
    return {driver.i, driver.j} == {joint.i, joint.j}


def _is_replaced(force: forces.AbstractForce, joint: str) -> bool:
    """Return True for an actuator, motor, servo or stop of a joint, which a driver of the joint replaces."""
    return isinstance(force, REPLACED) and force.joint == joint


def _has_joints(force: forces.AbstractForce, elements: Mapping[str, AbstractConstraint]) -> bool:
    """Return True if the joints that a force needs are among the elements."""
    try:
        force.check_joints(elements)
    except ValueError:
        return False
    return True


def driver_of(name: str, joint: AbstractConstraint, motion) -> AbstractConstraint:
    """Return the driver of a hinge, a slide or a screw; raise `ValueError` for other joints."""
    match joint:
        case planar.Revolute():
            return planar.RevoluteDriver(joint.i, joint.j, motion=motion)
        case planar.Translational():
            return planar.TranslationalDriver(
                joint.i, joint.j, joint.point_i, joint.point_j, motion=motion, axis_i=joint.axis_i
            )
        case spatial.Revolute() | spatial.Screw():
            return spatial.RevoluteDriver(joint.i, joint.j, motion=motion, **_axes(joint))
        case spatial.Prismatic():
            points = {"point_i": joint.point_i, "point_j": joint.point_j}
            return spatial.TranslationalDriver(joint.i, joint.j, motion=motion, **points, **_axes(joint))
    raise ValueError(
        f"joint {name!r} ({type(joint).__name__}) is not a hinge, slide or screw; "
        "build an `mbs.Model` with a driver of your own"
    )


def _moved(name: str, joint: spatial.TotalJoint, motions) -> spatial.TotalJoint:
    """Return a joint with other motions of its position."""
    if not isinstance(motions, list | tuple) or len(motions) != 3:
        raise ValueError(f"joint {name!r} follows three motions, of x, y and z: give a tuple of three")
    total: Any = spatial.TotalJoint
    given = joint.arguments() | {"position": tuple(motions)} | _axes(joint)
    return total(joint.i, joint.j, joint.point_i, joint.point_j, **given)


def _axes(joint: Any) -> dict[str, Any]:
    """Return the axes and frames of a joint, as they were given."""
    return {name: getattr(joint, name) for name in ("axis_i", "axis_j", "frame_i", "frame_j")}
