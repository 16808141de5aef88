"""Reading of MJCF: MuJoCo parses and compiles it, and its bodies and joints become a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxmbs import forces
from jaxmbs.io.models.links.elements import Elements, elements_of
from jaxmbs.io.models.links.passed_over import PassedOver
from jaxmbs.io.models.links.tree import BALL, FREE, HINGE, SLIDE, Link, PrimitiveJoint, from_quaternion, open_range
from jaxmbs.io.models.mjcf.actuators import add_actuators
from jaxmbs.io.models.mjcf.equality import add_equalities
from jaxmbs.io.models.mjcf.initial_motion import initial_motion
from jaxmbs.io.models.mjcf.source import Source, compile_file, softness_of
from jaxmbs.io.models.mjcf.tendons import add_tendons
from jaxmbs.io.models.mjcf.unsupported import IGNORABLE, check_ignore, pass_over_features
from jaxmbs.io.models.model import Model, ModelError
from jaxmbs.io.models.options import ReadOptions

# Kind of primitive joint for each value of MuJoCo's enumeration `mjtJoint`.
KINDS = (FREE, BALL, SLIDE, HINGE)


def read_mjcf(path: Path, options: ReadOptions) -> Model:
    """Return the model of an MJCF file, with the masses, inertias and frames that MuJoCo compiles; see `load`.

    - A body becomes a `spatial.Body` with MuJoCo's frame; hinge, slide and ball become `Revolute`, `Prismatic` and
      `Spherical`, with their names. Several joints of one body become one joint with their motions (`Universal`,
      `Cylindrical`, `Planar`, `RelativeJoint`), or, if there is none such or one of them has a spring, a range, an
      armature or an actuator, a chain with massless bodies, "hip carrier", between them. A free joint becomes nothing. A
      body without joints becomes `Rigid` on its parent, "arm on base", or a frame of it if it has no mass. A body called
      "ground" gets the name "ground_". A mocap body follows three motions, in a `TotalJoint` "hand on ground"; these are
      constant, see `Model.drive`.
    - `connect` and `weld` become `Spherical` and `Rigid`, without the softness of solref and solimp. `equality joint` and
      `tendon` become a constant driver or a `JointCoupling`. Inactive equalities are left out.
    - A fixed tendon that has a property or an actuator becomes a massless body on a slide, with the name of the tendon,
      whose displacement from qpos0 is coupled to the joints. A spatial tendon between two sites becomes a `SpringDamper`
      if its law is linear; any other spatial tendon becomes a `UserForce` that pulls its sites.
    - A site with a name becomes a frame of the model.
    - `guess` and `velocity` are those of the first keyframe, or qpos0 at rest. Angles, limits and free lengths are
      relative to qpos0, that is to `ref`.
    - Ranges become `.limits` and a `JointStop` with the time constant and the damping of solref for the inertia at the
      joint in qpos0. Actuators become `Actuator`, at sites and free joints `PointForce` and `Torque`, with the controls
      of the first keyframe, or zero. Angles of springs are within half a turn of qpos0. `gravcomp` is a `PointForce`.
    - Solver, integrator, sensors, cameras, lights, materials, tuples, texts and numbers have no meaning here.
      Contacts, fluids, deformable bodies, muscles and plugins are passed over.

    Raises:
        ModelError: a path out of the folder; errors of MuJoCo; a file without a body with mass; with `strict`, all
            elements that would be passed over.
        ImportError: the package `mujoco` is not installed.
    """
    try:
        import mujoco
    except ImportError:
        raise ImportError("MJCF needs the package mujoco: pip install mujoco") from None

    ignore, passed_over = options.ignore, PassedOver(options.strict, options.ignore)
    check_ignore(ignore, IGNORABLE)
    options.refuse_loops_and_base("in MJCF write an equality (loops) or a free joint (base)")
    source = compile_file(mujoco, Path(path), options, passed_over)
    elements, guess, velocities = elements_in(source)
    return Model(
        elements.bodies,
        elements.constraints,
        elements.drivers,
        elements.forces,
        guess=guess | elements.guess,
        velocities=velocities,
        name=source.m.names.split(b"\0", 1)[0].decode(),
        limits=elements.limits,
        passed_over=passed_over.report(IGNORABLE),
        frames=_frames_of_sites(source, elements) | elements.ground_frames,
    )


def elements_in(source: Source) -> tuple[Elements, dict[str, Any], dict[str, Any]]:
    """Return the elements of a file, with coordinates and velocities of the bodies at the start; pass over the others."""
    m = source.m
    pass_over_features(source)
    elements = tree_in(source)
    if not elements.bodies:
        raise ModelError("worldbody: must have a body with mass")
    guess, velocities = initial_motion(source, elements)
    tendons = add_tendons(source, elements, guess, velocities)
    add_equalities(source, elements, tendons)
    add_actuators(source, elements, tendons)
    if np.any(m.opt.gravity) and not source.is_disabled("GRAVITY"):
        elements.forces[elements.unused_name("gravity")] = forces.Gravity(jnp.array(m.opt.gravity))
        _add_compensation(source, elements)
    return elements, guess, velocities


def tree_in(source: Source) -> Elements:
    """Return the bodies and joints of a file, without its loops, tendons and actuators."""
    return elements_of(
        [_link(source, k) for k in range(1, source.m.nbody)],
        range_tag="range",
        ignore=source.ignore,
        single=_joints_in_use(source),
        passed_over=source.passed_over,
    )


def _frames_of_sites(source: Source, elements: Elements) -> dict[str, tuple[str, Any, Any]]:
    """Return body, origin (3,) and axes (3, 3) of the frame of each site with a name, by this name."""
    m, found = source.m, {}
    for k in range(m.nsite):
        place = elements.places.get(source.bodies[m.site_bodyid[k]])
        if m.site(k).name and place is not None:
            found[m.site(k).name] = place.body, place.point(m.site_pos[k]), place.a @ from_quaternion(m.site_quat[k])
    return found


def _joints_in_use(source: Source) -> set[str]:
    """Return the names of the joints to which actuators, equalities and tendons refer."""
    m, mujoco = source.m, source.mujoco
    used = [
        m.eq_obj1id[m.eq_type == int(mujoco.mjtEq.mjEQ_JOINT)],
        m.eq_obj2id[m.eq_type == int(mujoco.mjtEq.mjEQ_JOINT)],
    ]
    used.append(m.actuator_trnid[m.actuator_trntype <= int(mujoco.mjtTrn.mjTRN_JOINTINPARENT), 0])
    used.append(m.wrap_objid[m.wrap_type == int(mujoco.mjtWrap.mjWRAP_JOINT)])
    return {source.joints[j] for j in np.concatenate(used).astype(int) if j >= 0}


def _link(source: Source, k: int) -> Link:
    """Return body k with its joints."""
    m = source.m
    joints = range(m.body_jntadr[k], m.body_jntadr[k] + m.body_jntnum[k])
    plain = np.allclose(m.body_iquat[k], (1, 0, 0, 0), rtol=0, atol=1e-15)
    mocap = m.body_mocapid[k]
    place = (m.body_pos[k], m.body_quat[k]) if mocap < 0 else (source.d.mocap_pos[mocap], source.d.mocap_quat[mocap])
    return Link(
        source.bodies[k],
        source.bodies[m.body_parentid[k]],
        np.array(place[0]),
        from_quaternion(place[1]),
        tuple(_primitive(source, j) for j in joints),
        float(m.body_mass[k]),
        np.array(m.body_ipos[k]),
        np.array(m.body_inertia[k]),
        None if plain else from_quaternion(m.body_iquat[k]),
        driven=mocap >= 0 and "mocap" not in source.ignore,
    )


def _primitive(source: Source, j: int) -> PrimitiveJoint:
    """Return joint j."""
    m, ignore = source.m, source.ignore
    kind = KINDS[m.jnt_type[j]]
    dof, at = m.jnt_dofadr[j], m.jnt_qposadr[j]
    one = kind in (HINGE, SLIDE)
    zero = m.qpos0[at] if one else 0.0
    limited = m.jnt_limited[j] and kind != FREE and not source.is_disabled("LIMIT", "CONSTRAINT")
    margin = float(m.jnt_margin[j])
    ends = open_range(*map(float, m.jnt_range[j])) if limited else None
    return PrimitiveJoint(
        kind,
        source.joints[j],
        np.array(m.jnt_pos[j]),
        np.array(m.jnt_axis[j]) / np.linalg.norm(m.jnt_axis[j]),
        0.0 if "stiffness" in ignore or source.is_disabled("SPRING") else float(m.jnt_stiffness[j]),
        0.0 if "damping" in ignore or source.is_disabled("DAMPER") else float(m.dof_damping[dof]),
        float(m.qpos_spring[at] - zero) if one else 0.0,
        None if ends is None else (float(ends[0] - zero) + margin, float(ends[1] - zero) - margin),
        0.0 if "armature" in ignore else float(m.dof_armature[dof]),
        0.0 if "frictionloss" in ignore or source.is_disabled("FRICTIONLOSS") else float(m.dof_frictionloss[dof]),
        softness_of(source, m.jnt_solref[j]),
    )


def _add_compensation(source: Source, elements: Elements) -> None:
    """Add the forces at the centres of mass that take a part of the weight of bodies off."""
    m = source.m
    for k in map(int, np.flatnonzero(m.body_gravcomp)):
        name = source.bodies[k]
        if "gravcomp" not in source.ignore and name in elements.bodies and m.body_mass[k]:
            lift = -m.body_gravcomp[k] * m.body_mass[k] * m.opt.gravity
            place, value = jnp.array(m.body_ipos[k]), jnp.array(lift)
            elements.forces[elements.unused_name(f"{name} gravcomp")] = forces.PointForce(name, place, value)
