"""Writing of MJCF."""

from __future__ import annotations

from functools import singledispatch
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

import jax.numpy as jnp
import numpy as np

from jaxmbs import forces
from jaxmbs.dynamics.simulate import simulate
from jaxmbs.element import GROUND
from jaxmbs.formulations.joint.joint_coordinates import JointCoordinates
from jaxmbs.io.models.links.tree import BALL, HINGE, SLIDE, finite_range
from jaxmbs.io.models.mjcf.outgoing import (
    assembled_guess,
    in_space,
    motions_of,
    number,
    numbers,
    place_of,
    quaternion,
)
from jaxmbs.io.models.mjcf.tendons import SlideLaw, TendonLaw
from jaxmbs.io.models.mjcf.write_couplings import add_coupling, add_tendon, complete_tendon, tendon_couplings
from jaxmbs.io.models.mjcf.xml_document import Document, WrittenJoint, inertia_matrix
from jaxmbs.io.models.model import Model, ModelError
from jaxmbs.motion import Constant
from jaxmbs.spatial import JointCoupling, TotalJoint
from jaxmbs.system.topology import spanning_tree

# Attributes of the equalities that close loops, as stiff as steps of 1 ms allow: loops stay closed to about 1 µm.
STIFF_EQUALITY = {"solref": "0.002 1", "solimp": "0.9999 0.9999 0.001 0.5 2"}
# Moving bodies whose mass or a moment of inertia is not above this are refused, as by MuJoCo (its mjMINVAL).
MIN_MASS_OR_INERTIA = 1e-15


def write_mjcf(model: Model) -> str:
    """Return a model as the text of an MJCF file.

    The bodies are nested by `topology.spanning_tree`, with MuJoCo's hinges, slides and balls. The joint of a massless body
    that carries one other body becomes one of several joints of that. Cut joints become
    equalities: a ball or a planar pin a `connect`, a spatial hinge two of them, a rigid joint a `weld`. Planar mechanisms
    lie in the plane xy; their bodies have equal moments of inertia about all axes.

    Coordinates are those of jaxmbs: `ref` is the value of each in the assembled guess, and ranges are the limits, which
    MuJoCo enforces. Velocities become a keyframe, "start". Springs in joints of the tree become springs of these joints,
    those between points tendons. Contacts are disabled.

    Raises:
        ModelError: drivers; constraints, forces and bodies that MJCF does not have, by name; a guess that cannot be
            assembled.
    """
    for name in model.drivers:
        raise ModelError(f"driver {name!r}: MJCF has no drivers")
    tree = spanning_tree(model)
    start = assembled_guess(model, "MJCF")
    places = {name: place_of(name, pose) for name, pose in model.poses(start).items()}
    root = Element("mujoco", {"model": model.name} if model.name else {})
    SubElement(root, "compiler", angle="radian", autolimits="true")
    option = SubElement(root, "option", timestep="0.001", integrator="RK4", gravity="0 0 0")
    SubElement(option, "flag", contact="disable")
    SubElement(SubElement(root, "default"), "equality", STIFF_EQUALITY)
    elements = {GROUND: SubElement(root, "worldbody")}
    document = Document(model, tree, start, places, root, elements, {}, option, [], {})
    tendons = tendon_couplings(model)
    for k, name in enumerate(tree.bodies):
        if name in tendons:
            add_tendon(document, str(tree.joints[k]), name)
        else:
            _add_body(document, k, name)
    for body, name in tendons.items():
        complete_tendon(document, str(tree.joints[tree.bodies.index(body)]), name)
    for name in tree.cut:
        if isinstance(model.constraints[name], JointCoupling):
            if name not in tendons.values():
                add_coupling(document, name)
        else:
            _add_equality(document, name)
    # Stops come last: they depend on the inertia at their joint, which other forces add to.
    for name, force in sorted(model.forces.items(), key=lambda pair: isinstance(pair[1], forces.JointStop)):
        _add_force(force, document, f"force {name!r} ({type(force).__name__})", name)
    _add_velocities(document)
    if document.controls:
        key = document.section("keyframe").find("key")
        key = SubElement(document.section("keyframe"), "key", name="start") if key is None else key
        key.set("ctrl", numbers(document.controls))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _add_body(document: Document, k: int, name: str) -> None:
    """Add the body with index k in the tree, with its joint and those of massless bodies that carry only this one."""
    tree, body, place = document.tree, document.model.bodies[name], document.places[name]
    carried = [tree.bodies[other] for other, parent in enumerate(tree.parents) if parent == k]
    joints = [*document.carriers.pop(name, []), k]
    if all(body.massless) and tree.joints[k] is not None and len(carried) == 1:
        document.carriers[carried[0]] = joints
        return
    parent = document.parent(joints[0])
    on = document.places[parent]
    element = SubElement(
        document.elements[parent], "body", name=name, pos=numbers(on.local(place.r)), quat=quaternion(on.a.T @ place.a)
    )
    for other in joints:
        document.elements[tree.bodies[other]] = element
        joint = tree.joints[other]
        if joint is None:
            _add_floating(document, name, element)
        else:
            _add_joint(document, joint, name, element, reverse=tree.reversed[other])
    inertia = inertia_matrix(body)
    moving = any(name is None or document.joints[name] for name in (tree.joints[other] for other in joints))
    if moving and (float(body.mass) <= MIN_MASS_OR_INERTIA or np.linalg.eigvalsh(inertia)[0] <= MIN_MASS_OR_INERTIA):
        raise ModelError(f"body {name!r}: MJCF needs a mass and three moments of inertia above {MIN_MASS_OR_INERTIA:g}")
    entries = [*np.diag(inertia), inertia[0, 1], inertia[0, 2], inertia[1, 2]]
    com = in_space(body.com)
    SubElement(element, "inertial", pos=numbers(com), mass=number(body.mass), fullinertia=numbers(entries))
    for frame_name, frame in getattr(body, "frames", {}).items():
        document.add_site(name, f"{name} {frame_name}", frame.origin, frame.axes)


def _add_floating(document: Document, name: str, element: Element) -> None:
    """Add the joints of a body that floats."""
    if document.model.bodies[name].dimension == 3:
        SubElement(element, "freejoint")
        return
    q, where = np.asarray(document.start), document.model.layout.entries(name)[0]
    for coordinate, kind, axis, x in zip(["x", "y", "phi"], (SLIDE, SLIDE, HINGE), np.eye(3), q[where], strict=True):
        local = document.places[name].a.T @ axis
        SubElement(element, "joint", name=f"{name}.{coordinate}", type=kind, axis=numbers(local), ref=number(x))


def _add_joint(document: Document, joint: str, child: str, element: Element, *, reverse: bool) -> None:
    """Add a joint of the tree; `reverse` if its body i is the child."""
    given: Any = document.model.constraints[joint]
    if isinstance(given, TotalJoint) and given.i == GROUND and all(isinstance(x, Constant) for x in given.position):
        element.set("mocap", "true")
        document.joints[joint] = []
        return
    constraint, primitives = motions_of(document.model, document.start, "MJCF", joint, reverse=reverse)
    anchor = document.places[constraint.j].point(in_space(constraint.point_j))
    place, written = document.places[child], []
    for primitive in primitives:
        name = joint if len(primitives) == 1 else f"{joint}.{primitive.name}"
        row = SubElement(element, "joint", name=name, type=primitive.kind, pos=numbers(place.local(anchor)))
        if primitive.axis is not None:
            row.attrib |= {"axis": numbers(place.a.T @ primitive.axis), "ref": number(primitive.value)}
        written.append(WrittenJoint(primitive, anchor, row))
    document.joints[joint] = written
    limits = document.model.limits.get(joint)
    if limits is not None:
        if len(primitives) != 1 or (primitives[0].kind == BALL and limits[0] != 0):
            raise ModelError(
                f"limits of {joint!r} ({type(constraint).__name__}): MJCF has ranges of single joints only"
            )
        written[0].element.set("range", numbers(finite_range(*limits)))


def _add_equality(document: Document, name: str) -> None:
    """Add a cut joint as equalities between sites."""
    constraint, primitives = motions_of(document.model, document.start, "MJCF", name, reverse=False)
    kinds = [primitive.kind for primitive in primitives]
    owner = f"constraint {name!r} ({type(constraint).__name__})"
    if kinds not in ([], [BALL], [HINGE]):
        raise ModelError(
            f"{owner}: closes a loop; only balls, hinges, planar pins and rigid joints that close loops can be written"
        )
    if name in document.model.limits:
        raise ModelError(f"{owner}: closes a loop, so its limits cannot be written")
    place_i, place_j = (document.places[body] for body in (constraint.i, constraint.j))
    ends = in_space(constraint.point_i), in_space(constraint.point_j)
    if not kinds:
        _equate(document, "weld", name, constraint, ends, axes=place_i.a.T @ place_j.a)
        return
    _equate(document, "connect", name, constraint, ends)
    if kinds == [HINGE] and constraint.dimension == 3:
        more = [end + place.a.T @ primitives[0].axis for end, place in zip(ends, (place_i, place_j), strict=True)]
        _equate(document, "connect", f"{name}.axis", constraint, more)


def _equate(document: Document, tag: str, name: str, constraint, ends, axes=None) -> None:
    """Add an equality between two points, with sites there; `axes` turn the site on body i."""
    sites = [f"{name}.{end}" for end in "ij"]
    for body, site, end in zip((constraint.i, constraint.j), sites, ends, strict=True):
        document.add_site(body, site, end, axes if site == sites[0] else None)
    SubElement(document.section("equality"), tag, name=name, site1=sites[0], site2=sites[1])


@singledispatch
def _add_force(force, document: Document, owner: str, name: str) -> None:
    """Add a force, which messages call `owner`."""
    raise ModelError(f"{owner}: MJCF has nothing like it")


@_add_force.register
def _(force: forces.Gravity, document, owner, name):
    """Add a `Gravity` to the gravity of the document."""
    before = np.array(document.option.get("gravity", "").split(), float)
    document.option.set("gravity", numbers(before + in_space(force.acceleration)))


@_add_force.register
def _(force: forces.JointInertia, document, owner, name):
    """Write a `JointInertia` as the attribute `armature` of its joint."""
    _add_to_attribute(document, force, owner, "armature", force.inertia)


@_add_force.register
def _(force: forces.JointFriction, document, owner, name):
    """Write a `JointFriction` as `frictionloss` of its joint; refuse one that depends on the load or the speed."""
    static, dynamic, preload = force.static, float(force.dynamic), force.preload
    if preload is None or float(force.viscous) or (static is not None and float(static) != dynamic):
        raise ModelError(f"{owner}: MJCF has friction of a given force or torque only")
    radius = 1.0 if force.radius is None else float(force.radius)
    _add_to_attribute(document, force, owner, "frictionloss", dynamic * float(preload) * radius)


def _add_to_attribute(document: Document, force, owner: str, tag: str, value) -> None:
    """Add a value to an attribute of a single hinge or slide of the tree."""
    element = document.single(force.joint, owner).element
    element.set(tag, number(float(element.get(tag, "0")) + float(value)))


@_add_force.register
def _(force: forces.JointStop, document, owner, name):
    """Write a `JointStop` as the range and the softness of the limits of its joint; refuse stops that are not linear."""
    written = document.single(force.joint, owner)
    if float(force.exponent) != 1 or float(force.damping):
        raise ModelError(f"{owner}: MJCF has stops of the exponent 1 and with a viscous damping only")
    k, c = float(force.stiffness), 0.0 if force.viscous is None else float(force.viscous)
    inertia = document.inertia_at(written)
    ends = [None if end is None else float(end) + written.shift for end in (force.lower, force.upper)]
    written.element.set("range", numbers(finite_range(*ends)))
    written.element.set("solreflimit", numbers((-k / inertia, -c / inertia)))


@_add_force.register
def _(force: forces.Actuator, document, owner, name):
    """Write an `Actuator` as an actuator `general` with an affine gain and bias; refuse controls that are functions."""
    written = document.single(force.joint, owner)
    if callable(force.control):
        raise ModelError(f"{owner}: a control that is a function or a motion cannot be represented")
    given: dict[str, Any] = {"gaintype": "affine", "biastype": "affine"}
    for key, (constant, by_length, by_rate) in (("gainprm", force.gain), ("biasprm", force.bias)):
        given[key] = numbers((constant - by_length * written.shift, by_length, by_rate))
    given["tendon" if written.is_tendon else "joint"] = written.element.get("name", "")
    for ours, theirs in (("control", "ctrl"), ("activation", "act"), ("effort", "force")):
        ends = getattr(force, f"{ours}_range")
        if ends is not None:
            given[f"{theirs}range"] = numbers(ends)
    if force.states:
        if float(force.initial):
            raise ModelError(f"{owner}: an activation that does not begin with zero cannot be represented")
        given["dyntype"] = "integrator" if force.integrates else "filter"
        if force.time_constant is not None:
            given["dynprm"] = number(force.time_constant)
    SubElement(document.section("actuator"), "general", name=name, **given)
    document.controls.append(float(force.control))


@_add_force.register
def _(force: forces.AbstractSpringDamper, document, owner, name):
    """Write a spring-damper between two points as a spatial tendon between two sites."""
    _refuse_functions(force, owner)
    tendon = SubElement(document.section("tendon"), "spatial", name=name, springlength=number(force.free_length))
    for key in ("stiffness", "damping"):
        if getattr(force, key) is not None:
            tendon.set(key, number(getattr(force, key)))
    for body, point, end in ((force.i, force.point_i, "i"), (force.j, force.point_j, "j")):
        document.add_site(body, f"{name}.{end}", np.zeros(3) if point is None else in_space(point))
        SubElement(tendon, "site", site=f"{name}.{end}")


@_add_force.register
def _(force: forces.AbstractTorsionSpring, document, owner, name):
    """Write a torsion spring as spring and damper of the hinge along its axis."""
    _refuse_functions(force, owner)
    poses = document.model.poses(document.start)
    if document.model.bodies[force.i if force.i != GROUND else force.j].dimension == 2:
        axis, now = np.array([0.0, 0, 1]), float(poses[force.i].angle_to(poses[force.j]))
    else:
        axis_i = np.array([0.0, 0, 1]) if force.axis_i is None else np.asarray(force.axis_i)
        axis = np.asarray(poses[force.i].axis(axis_i))
        now = float(poses[force.i].angle_to(poses[force.j], axis_i, force.axis_j))
    if force.middle is not None:
        turns = np.round((now - float(force.middle)) / (2 * np.pi))
        now -= 2 * np.pi * turns
    written, sense = document.joint_along((force.i, force.j), HINGE, axis, owner)
    _add_spring(written, force, sense * (float(force.free_angle) - now))


@_add_force.register
def _(force: forces.AxialSpring, document, owner, name):
    """Write an `AxialSpring` as spring and damper of the slide along its axis."""
    _refuse_functions(force, owner)
    axis = np.asarray(document.model.poses(document.start)[force.i].axis(force.axis_i))
    ends = [
        document.places[body].point(np.zeros(3) if point is None else point)
        for body, point in ((force.i, force.point_i), (force.j, force.point_j))
    ]
    written, sense = document.joint_along((force.i, force.j), SLIDE, axis, owner, ends[1])
    _add_spring(written, force, sense * (float(force.free_length) - axis @ (ends[1] - ends[0])))


@_add_force.register
def _(force: forces.JointSpring, document, owner, name):
    """Write a `JointSpring` as spring and damper of its joint or tendon."""
    written, law = document.single(force.joint, owner), force.effort_law
    if isinstance(law, SlideLaw) and written.is_tendon:
        _add_dead_band(written, law.tension)
        return
    _refuse_functions(force, owner)
    _add_spring(written, force, float(force.free) - written.primitive.value)


def _add_dead_band(written: WrittenJoint, law: TendonLaw) -> None:
    """Write a spring of a tendon without a force between two lengths, with its damper."""
    ends = numbers(x + written.shift for x in law.rest)
    written.element.attrib |= {"stiffness": number(law.stiffness), "damping": number(law.damping), "springlength": ends}


def _refuse_functions(force, owner: str) -> None:
    """Raise `ModelError` for laws of the user and actuators: springs and dampers of MJCF are linear."""
    for name in ("actuator", *forces.laws_of(force)):
        if getattr(force, name, None) is not None:
            raise ModelError(f"{owner}: its {name} cannot be represented")


def _add_spring(written: WrittenJoint, force, short: float) -> None:
    """Add a spring to those of a joint. It has no force at the present coordinate plus `short`."""
    element, now = written.element, written.primitive.value + written.shift
    rest = "springlength" if written.is_tendon else "springref"
    k_before, c_before = (float(element.get(key, "0")) for key in ("stiffness", "damping"))
    before = float(element.get(rest, number(now)))
    k = 0.0 if force.stiffness is None else float(force.stiffness)
    c = 0.0 if force.damping is None else float(force.damping)
    if k + k_before:
        element.set(rest, number((k_before * before + k * (now + short)) / (k + k_before)))
        element.set("stiffness", number(k + k_before))
    if c + c_before:
        element.set("damping", number(c + c_before))


def _add_velocities(document: Document) -> None:
    """Add the velocities as a keyframe, in MuJoCo's order, which is that of the tree."""
    model, tree = document.model, document.tree
    if not np.any(model.velocity):
        return
    # Missing velocities follow from the constraints.
    whole = len(model.velocity_by_name) == model.layout.m
    velocity = model.velocity if whole else simulate(model, jnp.zeros(1), document.start, throw=True).v[0]
    joints = JointCoordinates().of(model)
    rates = joints.velocities(document.start, velocity)
    by_name = dict(zip(joints.velocity_names, np.asarray(rates), strict=True))
    qpos: list[float] = []
    qvel: list[float] = []
    for k, body in enumerate(tree.bodies):
        joint = tree.joints[k]
        if joint is None:
            qpos += [float(x) for x in np.asarray(document.start)[document.model.layout.entries(body)[0]]]
            qvel += [by_name[f"{body}.{name}"] for name in type(model.bodies[body]).velocities]
            continue
        for written in document.joints[joint]:
            if written.is_tendon:
                continue
            if written.primitive.kind != BALL:
                qpos.append(written.primitive.value)
                qvel.append(by_name[f"{joint}.{written.primitive.name}"])
                continue
            spin = np.array([by_name[f"{joint}.w{x}"] for x in "xyz"])
            if tree.reversed[k]:
                constraint = model.constraints[joint]
                spin = -document.places[constraint.i].a.T @ document.places[constraint.j].a @ spin
            qpos += [1.0, 0.0, 0.0, 0.0]
            qvel += [float(x) for x in spin]
    SubElement(SubElement(document.root, "keyframe"), "key", name="start", qpos=numbers(qpos), qvel=numbers(qvel))
