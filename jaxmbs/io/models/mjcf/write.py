"""A model as MJCF."""

from __future__ import annotations

from functools import singledispatch
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

import jax.numpy as jnp
import numpy as np

from jaxmbs import forces
from jaxmbs.analyses.assembly import assemble
from jaxmbs.dynamics.simulate import simulate
from jaxmbs.element import GROUND
from jaxmbs.formulations.joint.joint_coordinates import JointCoordinates
from jaxmbs.io.models.links.tree import BALL, HINGE, SLIDE
from jaxmbs.io.models.mjcf.outgoing import Hinged, in_space, number, numbers, place_of, quaternion, steps_of
from jaxmbs.io.models.mjcf.scene import Carried, Scene
from jaxmbs.io.models.model import Model, ModelError
from jaxmbs.numerics.results import Status
from jaxmbs.system.equations import constraints
from jaxmbs.system.topology import ROOT, spanning_tree

# As stiff as a step of a millisecond allows; loops close to about a micrometre.
STIFF = {"solref": "0.002 1", "solimp": "0.9999 0.9999 0.001 0.5 2"}
# MuJoCo's mjMINVAL.
MIN_VALUE = 1e-15
# A guess with residuals below this is taken as it is.
CLOSED = 1e-12
# An end of a range that is not there.
FAR = 1e6
# How far the cosine of two axes that are the same may be from 1.
ALIGNED = 1e-9


def write_mjcf(model: Model) -> str:
    """A model as MJCF.

    The tree of `topology.spanning_tree` makes nested bodies with MuJoCo's hinges, slides and balls, and joints that are cut
    make equalities: a ball or a pin of the plane a `connect`, a hinge of space two of them, a rigid joint a `weld`.
    Mechanisms of the plane lie in the plane xy; their bodies have equal moments of inertia about all axes.

    Coordinates are those of jaxmbs: `ref` is the value of each in the guess, brought to the constraints first, and ranges
    are the limits, which MuJoCo does enforce. Velocities are a keyframe, "start". Springs in joints of the tree become
    theirs, those between points tendons. Contacts are off.

    Raises:
        ModelError: drivers; constraints, forces and bodies that MJCF has not, by name; a guess that cannot be assembled.
    """
    for name in model.drivers:
        raise ModelError(f"driver {name!r}: MJCF has no drivers")
    tree = spanning_tree(model)
    start = _assembled(model)
    places = {name: place_of(name, pose) for name, pose in model.poses(start).items()}
    root = Element("mujoco", {"model": model.name} if model.name else {})
    SubElement(root, "compiler", angle="radian", autolimits="true")
    option = SubElement(root, "option", timestep="0.001", integrator="RK4", gravity="0 0 0")
    SubElement(option, "flag", contact="disable")
    SubElement(SubElement(root, "default"), "equality", STIFF)
    elements = {GROUND: SubElement(root, "worldbody")}
    scene = Scene(model, tree, start, places, root, elements, {}, option, [])
    for k, name in enumerate(tree.bodies):
        _add_body(scene, k, name)
    for name in tree.cut:
        _add_equality(scene, name)
    # A stop counts for the inertia that its joint sees, of which the other forces are a part.
    for name, force in sorted(model.forces.items(), key=lambda pair: isinstance(pair[1], forces.JointStop)):
        _add_force(force, scene, f"force {name!r} ({type(force).__name__})", name)
    _add_velocities(scene)
    if scene.controls:
        key = scene.section("keyframe").find("key")
        key = SubElement(scene.section("keyframe"), "key", name="start") if key is None else key
        key.set("ctrl", numbers(scene.controls))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _assembled(model: Model):
    """The guess, brought to the constraints if it is not there."""
    if (
        not model.constraints
        or np.abs(np.asarray(constraints(model, model.coordinates(), 0.0))).max(initial=0.0) < CLOSED
    ):
        return model.guess
    found = assemble(model, model.guess)
    if int(found.status) != Status.CONVERGED:
        raise ModelError(f"guess: cannot be assembled (residual {float(found.residual):.1e}); MJCF starts from it")
    return found.q


def _add_body(scene: Scene, k: int, name: str) -> None:
    tree, body, place = scene.tree, scene.model.bodies[name], scene.places[name]
    parent = GROUND if tree.parents[k] == ROOT else tree.bodies[tree.parents[k]]
    on = scene.places[parent]
    element = SubElement(
        scene.elements[parent], "body", name=name, pos=numbers(on.seen(place.r)), quat=quaternion(on.a.T @ place.a)
    )
    scene.elements[name] = element
    joint = tree.joints[k]
    if joint is None:
        _add_floating(scene, name, element)
    else:
        _add_joint(scene, joint, name, element, reverse=tree.reversed[k])
    inertia = np.asarray(body.inertia, float)
    inertia = inertia * np.eye(3) if inertia.ndim == 0 else inertia
    moving = joint is None or scene.joints[joint]
    if moving and (float(body.mass) <= MIN_VALUE or np.linalg.eigvalsh(inertia)[0] <= MIN_VALUE):
        raise ModelError(f"body {name!r}: MJCF needs a mass and three moments of inertia above {MIN_VALUE:g}")
    entries = [*np.diag(inertia), inertia[0, 1], inertia[0, 2], inertia[1, 2]]
    com = in_space(body.com)
    SubElement(element, "inertial", pos=numbers(com), mass=number(body.mass), fullinertia=numbers(entries))
    for frame_name, frame in getattr(body, "frames", {}).items():
        scene.add_site(name, f"{name} {frame_name}", frame.origin, frame.axes)


def _add_floating(scene: Scene, name: str, element: Element) -> None:
    if scene.model.bodies[name].dimension == 3:
        SubElement(element, "freejoint")
        return
    q, where = np.asarray(scene.start), scene.model.layout.entries(name)[0]
    for coordinate, kind, axis, x in zip(["x", "y", "phi"], (SLIDE, SLIDE, HINGE), np.eye(3), q[where], strict=True):
        local = scene.places[name].a.T @ axis
        SubElement(element, "joint", name=f"{name}.{coordinate}", type=kind, axis=numbers(local), ref=number(x))


def _add_joint(scene: Scene, joint: str, child: str, element: Element, *, reverse: bool) -> None:
    constraint, steps = _steps(scene, joint, reverse=reverse)
    anchor = scene.places[constraint.j].point(in_space(constraint.point_j))
    place, carried = scene.places[child], []
    for step in steps:
        name = joint if len(steps) == 1 else f"{joint}.{step.name}"
        moves: Any = {} if step.axis is None else {"axis": numbers(place.a.T @ step.axis), "ref": number(step.value)}
        at = numbers(place.seen(anchor))
        carried.append(Carried(step, anchor, SubElement(element, "joint", name=name, type=step.kind, pos=at, **moves)))
    scene.joints[joint] = carried
    limits = scene.model.limits.get(joint)
    if limits is not None:
        if len(steps) != 1 or (steps[0].kind == BALL and limits[0] != 0):
            raise ModelError(
                f"limits of {joint!r} ({type(constraint).__name__}): MJCF has ranges of single joints only"
            )
        carried[0].element.set("range", numbers(limits))


def _steps(scene: Scene, name: str, *, reverse: bool) -> tuple[Any, list[Hinged]]:
    """A joint, and MuJoCo's joints that it consists of."""
    constraint: Any = scene.model.constraints[name]
    none_like = f"constraint {name!r} ({type(constraint).__name__}): MJCF has nothing like it"
    if constraint.freedom is None:
        raise ModelError(none_like)
    poses = scene.model.poses(scene.start)
    try:
        return constraint, steps_of(constraint, poses[constraint.i], poses[constraint.j], reverse=reverse)
    except ModelError as error:
        raise ModelError(f"{none_like}; {error}") from None


def _add_equality(scene: Scene, name: str) -> None:
    """A joint that is cut, between sites."""
    constraint, steps = _steps(scene, name, reverse=False)
    kinds = [step.kind for step in steps]
    if name in scene.model.limits or kinds not in ([], [BALL], [HINGE]):
        why = "; it has limits" if name in scene.model.limits else ""
        raise ModelError(f"constraint {name!r} ({type(constraint).__name__}): closes a loop, which MJCF cannot{why}")
    place_i, place_j = (scene.places[body] for body in (constraint.i, constraint.j))
    ends = in_space(constraint.point_i), in_space(constraint.point_j)
    if not kinds:
        _equate(scene, "weld", name, constraint, ends, axes=place_i.a.T @ place_j.a)
        return
    _equate(scene, "connect", name, constraint, ends)
    if kinds == [HINGE] and constraint.dimension == 3:
        more = [end + place.a.T @ steps[0].axis for end, place in zip(ends, (place_i, place_j), strict=True)]
        _equate(scene, "connect", f"{name}.axis", constraint, more)


def _equate(scene: Scene, tag: str, name: str, constraint, ends, axes=None) -> None:
    sites = [f"{name}.{end}" for end in "ij"]
    for body, site, end in zip((constraint.i, constraint.j), sites, ends, strict=True):
        scene.add_site(body, site, end, axes if site == sites[0] else None)
    SubElement(scene.section("equality"), tag, name=name, site1=sites[0], site2=sites[1])


@singledispatch
def _add_force(force, scene: Scene, called: str, name: str) -> None:
    raise ModelError(f"{called}: MJCF has nothing like it")


@_add_force.register
def _(force: forces.Gravity, scene, called, name):
    before = np.array(scene.option.get("gravity", "").split(), float)
    scene.option.set("gravity", numbers(before + in_space(force.acceleration)))


@_add_force.register
def _(force: forces.JointInertia, scene, called, name):
    _add_drag(scene, force, called, "armature", force.inertia)


@_add_force.register
def _(force: forces.JointFriction, scene, called, name):
    static, dynamic, preload = force.static, float(force.dynamic), force.preload
    if preload is None or float(force.viscous) or (static is not None and float(static) != dynamic):
        raise ModelError(f"{called}: MJCF has friction of a given force or torque only")
    radius = 1.0 if force.radius is None else float(force.radius)
    _add_drag(scene, force, called, "frictionloss", dynamic * float(preload) * radius)


def _add_drag(scene: Scene, force, called: str, tag: str, value) -> None:
    """What a single hinge or slide of the tree has more."""
    element = scene.single(force.joint, called).element
    element.set(tag, number(float(element.get(tag, "0")) + float(value)))


@_add_force.register
def _(force: forces.JointStop, scene, called, name):
    carried = scene.single(force.joint, called)
    if float(force.exponent) != 1 or float(force.damping):
        raise ModelError(f"{called}: MJCF has stops of the exponent 1 and with a viscous damping only")
    ends = [FAR * sign if end is None else float(end) for sign, end in ((-1, force.lower), (1, force.upper))]
    k, c = float(force.stiffness), 0.0 if force.viscous is None else float(force.viscous)
    inertia = scene.inertia_seen(carried)
    carried.element.set("range", numbers(ends))
    carried.element.set("solreflimit", numbers((-k / inertia, -c / inertia)))


@_add_force.register
def _(force: forces.Actuator, scene, called, name):
    carried = scene.single(force.joint, called)
    if callable(force.control):
        raise ModelError(f"{called}: a control that is a function or a motion cannot be represented")
    given: dict[str, Any] = {"gaintype": "affine", "biastype": "affine"}
    given |= {"gainprm": numbers(force.gain), "biasprm": numbers(force.bias)}
    for ours, theirs in (("control", "ctrl"), ("activation", "act"), ("effort", "force")):
        ends = getattr(force, f"{ours}_range")
        if ends is not None:
            given[f"{theirs}range"] = numbers(ends)
    if force.states:
        if float(force.initial):
            raise ModelError(f"{called}: an activation that does not begin with zero cannot be represented")
        given["dyntype"] = "integrator" if force.integrates else "filter"
        if force.time_constant is not None:
            given["dynprm"] = number(force.time_constant)
    SubElement(scene.section("actuator"), "general", name=name, joint=carried.element.get("name", ""), **given)
    scene.controls.append(float(force.control))


@_add_force.register
def _(force: forces.AbstractSpringDamper, scene, called, name):
    _refuse_functions(force, called)
    given: Any = {
        key: number(getattr(force, key)) for key in ("stiffness", "damping") if getattr(force, key) is not None
    }
    tendon = SubElement(scene.section("tendon"), "spatial", name=name, springlength=number(force.free_length), **given)
    for body, point, end in ((force.i, force.point_i, "i"), (force.j, force.point_j, "j")):
        scene.add_site(body, f"{name}.{end}", np.zeros(3) if point is None else in_space(point))
        SubElement(tendon, "site", site=f"{name}.{end}")


@_add_force.register
def _(force: forces.AbstractTorsionSpring, scene, called, name):
    _refuse_functions(force, called)
    poses = scene.model.poses(scene.start)
    if scene.model.bodies[force.i if force.i != GROUND else force.j].dimension == 2:
        axis, now = np.array([0.0, 0, 1]), float(poses[force.i].angle_to(poses[force.j]))
    else:
        axis_i = np.array([0.0, 0, 1]) if force.axis_i is None else np.asarray(force.axis_i)
        axis = np.asarray(poses[force.i].axis(axis_i))
        now = float(poses[force.i].angle_to(poses[force.j], axis_i, force.axis_j))
    if force.middle is not None:
        turns = np.round((now - float(force.middle)) / (2 * np.pi))
        now -= 2 * np.pi * turns
    carried, sense = _joint_along(scene, force, HINGE, axis, called)
    _add_spring(carried, force, sense * (float(force.free_angle) - now))


@_add_force.register
def _(force: forces.AxialSpring, scene, called, name):
    _refuse_functions(force, called)
    axis = np.asarray(scene.model.poses(scene.start)[force.i].axis(force.axis_i))
    ends = [
        scene.places[body].point(np.zeros(3) if point is None else point)
        for body, point in ((force.i, force.point_i), (force.j, force.point_j))
    ]
    carried, sense = _joint_along(scene, force, SLIDE, axis, called, ends[1])
    _add_spring(carried, force, sense * (float(force.free_length) - axis @ (ends[1] - ends[0])))


def _refuse_functions(force, called: str) -> None:
    """Springs and dampers of MJCF are linear, and have no actuator."""
    for name in ("actuator", *forces.laws_of(force)):
        if getattr(force, name, None) is not None:
            raise ModelError(f"{called}: its {name} cannot be represented")


def _joint_along(scene: Scene, force, kind: str, axis, called: str, point=None) -> tuple[Carried, float]:
    """The hinge or slide between the bodies of a force along its axis, and their sense.

    Args:
        point: where a force along a slide acts on its body j. Beside a hinge the advance of other points is not the slide.
    """
    for k, name in enumerate(scene.tree.joints):
        if name is None:
            continue
        joint: Any = scene.model.constraints[name]
        if {joint.i, joint.j} != {force.i, force.j}:
            continue
        carried = scene.joints[name]
        hinges = sum(c.step.kind != SLIDE for c in carried)
        swung = point is not None and np.abs(point - carried[0].anchor).max() > ALIGNED
        if hinges > 1 or (kind == SLIDE and hinges and (swung or joint.i != force.i)):
            continue
        turned = -1 if scene.tree.reversed[k] else 1
        for one in carried:
            if one.step.kind == kind and one.step.axis is not None:
                sense = turned * float(one.step.axis @ axis) * (1 if joint.i == force.i else -1)
                if abs(abs(sense) - 1) < ALIGNED:
                    return one, float(np.sign(sense))
    raise ModelError(f"{called}: is along no {kind} of the tree, and MJCF has springs there only")


def _add_spring(carried: Carried, force, short: float) -> None:
    """A spring without force where the coordinate is `short` more than now, beside those that are there."""
    element, now = carried.element, carried.step.value
    k_before, c_before = (float(element.get(key, "0")) for key in ("stiffness", "damping"))
    before = float(element.get("springref", number(now)))
    k = 0.0 if force.stiffness is None else float(force.stiffness)
    c = 0.0 if force.damping is None else float(force.damping)
    if k + k_before:
        element.set("springref", number((k_before * before + k * (now + short)) / (k + k_before)))
        element.set("stiffness", number(k + k_before))
    if c + c_before:
        element.set("damping", number(c + c_before))


def _add_velocities(scene: Scene) -> None:
    """Velocities as a keyframe, in MuJoCo's order, which is that of the tree."""
    model, tree = scene.model, scene.tree
    if not np.any(model.velocity):
        return
    # Those that were not given follow from the constraints.
    whole = len(model.velocity_by_name) == model.layout.m
    velocity = model.velocity if whole else simulate(model, jnp.zeros(1), scene.start, throw=True).v[0]
    joints = JointCoordinates().of(model)
    rates = joints.velocities(scene.start, velocity)
    by_name = dict(zip(joints.velocity_names, np.asarray(rates), strict=True))
    qpos: list[float] = []
    qvel: list[float] = []
    for k, body in enumerate(tree.bodies):
        joint = tree.joints[k]
        if joint is None:
            qpos += [float(x) for x in np.asarray(scene.start)[scene.model.layout.entries(body)[0]]]
            qvel += [by_name[f"{body}.{name}"] for name in type(model.bodies[body]).velocities]
            continue
        for carried in scene.joints[joint]:
            if carried.step.kind != BALL:
                qpos.append(carried.step.value)
                qvel.append(by_name[f"{joint}.{carried.step.name}"])
                continue
            spin = np.array([by_name[f"{joint}.w{x}"] for x in "xyz"])
            if tree.reversed[k]:
                constraint = model.constraints[joint]
                spin = -scene.places[constraint.i].a.T @ scene.places[constraint.j].a @ spin
            qpos += [1.0, 0.0, 0.0, 0.0]
            qvel += [float(x) for x in spin]
    SubElement(SubElement(scene.root, "keyframe"), "key", name="start", qpos=numbers(qpos), qvel=numbers(qvel))
