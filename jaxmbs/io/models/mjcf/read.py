"""Reading of MJCF: MuJoCo parses and compiles it, and its bodies and joints become a model."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxmbs import forces
from jaxmbs.element import GROUND
from jaxmbs.io.models.links.elements import Elements, elements_of
from jaxmbs.io.models.links.tree import BALL, FREE, HINGE, SLIDE, Link, PrimitiveJoint, Softness, from_quaternion
from jaxmbs.io.models.mjcf.actuators import add_actuators
from jaxmbs.io.models.mjcf.equality import add_equalities
from jaxmbs.io.models.mjcf.files import check_files
from jaxmbs.io.models.mjcf.unsupported import IGNORABLE, check_contacts, check_ignore, check_model
from jaxmbs.io.models.model import Model, ModelError
from jaxmbs.io.models.options import ReadOptions

# Kind of primitive joint for each value of MuJoCo's enumeration `mjtJoint`.
KINDS = (FREE, BALL, SLIDE, HINGE)


def read_mjcf(path: Path, options: ReadOptions) -> Model:
    """Return the model of an MJCF file, with the masses, inertias and frames that MuJoCo compiles; see `load`.

    - A body becomes a `spatial.Body` with MuJoCo's frame; hinge, slide and ball become `Revolute`, `Prismatic` and
      `Spherical`, with their names. Several joints of one body become one joint with their motions: `Universal`,
      `Cylindrical`, `Planar`, `RelativeJoint`. A free joint becomes nothing. A body without joints becomes `Rigid` on its
      parent, "arm on base", or a frame of it if it has no mass. A body called "ground" gets the name "ground_".
    - `connect` and `weld` become `Spherical` and `Rigid`, without the softness of solref and solimp. `equality joint` of
      one joint becomes a constant driver, of two hinges on one body a `Gear`. Inactive equalities are left out.
    - `guess` and `velocity` are those of the first keyframe, or qpos0 at rest. Angles, limits and free lengths are
      relative to qpos0, that is to `ref`.
    - Ranges of hinges and slides become `.limits` and a `JointStop` with the time constant and the damping of solref for
      the inertia at the joint in qpos0. Actuators of hinges and slides become `Actuator`, with the controls of the first
      keyframe, or zero. Angles of springs are within half a turn of qpos0.
    - Solver, integrator, sites, sensors, cameras, lights, materials, tuples, texts and numbers are left out.
    - Geoms that may touch a fixed body are an error, those of two moving bodies a warning.

    Raises:
        ModelError: an element that cannot be represented, by name; a path out of the folder; errors of MuJoCo.
        ImportError: the package `mujoco` is not installed.
    """
    try:
        import mujoco
    except ImportError:
        raise ImportError("MJCF needs the package mujoco: pip install mujoco") from None

    ignore = options.ignore
    check_ignore(ignore, IGNORABLE)
    if options.loops:
        raise ModelError("loops: only for URDF; MJCF has equality constraints for them")
    check_files(Path(path))
    messages: list[str] = []
    before = mujoco.get_mju_user_warning()
    # Without this MuJoCo writes its warnings into a file of the current folder.
    mujoco.set_mju_user_warning(messages.append)
    try:
        m = mujoco.MjSpec.from_file(str(path)).compile()
    except (ValueError, mujoco.FatalError) as error:
        raise ModelError(" ".join(str(error).split())) from None
    except RuntimeError as error:
        # MuJoCo reports some errors, such as an attribute without numbers, as an unknown exception.
        raise ModelError(f"MuJoCo cannot compile it, for an unknown reason ({' '.join(str(error).split())})") from None
    finally:
        mujoco.set_mju_user_warning(before)
    for message in messages:
        warnings.warn(" ".join(message.split()), stacklevel=3)
    check_model(mujoco, m, ignore)
    d = _start(mujoco, m)
    check_contacts(mujoco, m, d, ignore)

    names = _names(m)
    elements = elements_of(
        [_link(mujoco, m, k, names, ignore) for k in range(1, m.nbody)], range_tag="range", ignore=ignore
    )
    if not elements.bodies:
        raise ModelError("worldbody: must have a body with mass")
    add_equalities(mujoco, m, d, elements, names, ignore)
    add_actuators(mujoco, m, d, elements, names.joints, ignore)
    if np.any(m.opt.gravity) and not m.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY:
        elements.forces[elements.unused_name("gravity")] = forces.Gravity(jnp.array(m.opt.gravity))
    guess, velocities = _initial_motion(mujoco, m, d, elements, names)
    return Model(
        elements.bodies,
        elements.constraints,
        elements.drivers,
        elements.forces,
        guess=guess,
        velocities=velocities,
        name=m.names.split(b"\0", 1)[0].decode(),
        limits=elements.limits,
    )


class Names(NamedTuple):
    """Names of bodies and joints in MuJoCo's order, "body1" and "joint1" for those without a name."""

    bodies: list[str]
    joints: list[str]


def _names(m) -> Names:
    """Return names of bodies and joints that are different from each other and from "ground"."""

    def unique(kind: str, names: list[str], first: int) -> list[str]:
        """Return names of objects of a kind, those without a name numbered from `first`."""
        found: list[str] = []
        for k, name in enumerate(names):
            name = name or f"{kind}{k + first}"
            while name in (GROUND, *found) or (names[k] == "" and name in names):
                name += "_"
            found.append(name)
        return found

    bodies = unique("body", [m.body(k).name for k in range(1, m.nbody)], 1)
    joints = unique("joint", [m.joint(k).name for k in range(m.njnt)], 1)
    return Names([GROUND, *bodies], joints)


def _start(mujoco, m):
    """Return `MjData` with the poses, velocities and contacts of the first keyframe, or of qpos0."""
    d = mujoco.MjData(m)
    if m.nkey:
        d.qpos[:], d.qvel[:] = m.key_qpos[0], m.key_qvel[0]
        d.ctrl[:], d.act[:] = m.key_ctrl[0], m.key_act[0]
    # Not the whole forward dynamics: its solvers may not end with extreme masses.
    mujoco.mj_kinematics(m, d)
    mujoco.mj_comPos(m, d)
    mujoco.mj_comVel(m, d)
    mujoco.mj_collision(m, d)
    return d


def _link(mujoco, m, k: int, names: Names, ignore) -> Link:
    """Return body k with its joints."""
    joints = range(m.body_jntadr[k], m.body_jntadr[k] + m.body_jntnum[k])
    plain = np.allclose(m.body_iquat[k], (1, 0, 0, 0), rtol=0, atol=1e-15)
    return Link(
        names.bodies[k],
        names.bodies[m.body_parentid[k]],
        np.array(m.body_pos[k]),
        from_quaternion(m.body_quat[k]),
        tuple(_primitive(mujoco, m, j, names.joints[j], ignore) for j in joints),
        float(m.body_mass[k]),
        np.array(m.body_ipos[k]),
        np.array(m.body_inertia[k]),
        None if plain else from_quaternion(m.body_iquat[k]),
    )


def _primitive(mujoco, m, j: int, name: str, ignore) -> PrimitiveJoint:
    """Return joint j."""
    kind = KINDS[m.jnt_type[j]]
    dof, at = m.jnt_dofadr[j], m.jnt_qposadr[j]
    one = kind in (HINGE, SLIDE)
    zero = m.qpos0[at] if one else 0.0
    limited = m.jnt_limited[j] and kind != FREE and not _is_disabled(mujoco, m, "LIMIT", "CONSTRAINT")
    margin = float(m.jnt_margin[j])
    no_friction = m.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_FRICTIONLOSS
    return PrimitiveJoint(
        kind,
        name,
        np.array(m.jnt_pos[j]),
        np.array(m.jnt_axis[j]) / np.linalg.norm(m.jnt_axis[j]),
        0.0 if "stiffness" in ignore or _is_disabled(mujoco, m, "SPRING") else float(m.jnt_stiffness[j]),
        0.0 if "damping" in ignore or _is_disabled(mujoco, m, "DAMPER") else float(m.dof_damping[dof]),
        float(m.qpos_spring[at] - zero) if one else 0.0,
        (float(m.jnt_range[j, 0] - zero) + margin, float(m.jnt_range[j, 1] - zero) - margin) if limited else None,
        0.0 if "armature" in ignore else float(m.dof_armature[dof]),
        0.0 if "frictionloss" in ignore or no_friction else float(m.dof_frictionloss[dof]),
        _softness(mujoco, m, j),
    )


def _softness(mujoco, m, j: int) -> Softness:
    """Return the softness of the limits of joint j for the largest impedance of MuJoCo.

    solref is a time constant and a damping ratio, or minus the stiffness and the damping for the inertia 1.
    """
    first, second = map(float, m.jnt_solref[j])
    if first > 0:
        if not m.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_REFSAFE:
            first = max(first, 2 * m.opt.timestep)
        stiffness, damping = 1 / (first * second) ** 2, 2 / first
    else:
        stiffness, damping = -first, -second
    return Softness(stiffness, damping)


def _is_disabled(mujoco, m, *features: str) -> bool:
    """Return True if one of these features is disabled. Before MuJoCo 3.4 springs and dampers shared a flag."""
    flags = mujoco.mjtDisableBit
    off = [getattr(flags, f"mjDSBL_{name}", None) or getattr(flags, "mjDSBL_PASSIVE", 0) for name in features]
    return any(m.opt.disableflags & flag for flag in off)


def _initial_motion(mujoco, m, d, elements: Elements, names: Names):
    """Return coordinates and velocities of the bodies by name."""
    guess, velocities, rate = dict(elements.guess), {}, np.zeros(6)
    for k, name in enumerate(names.bodies):
        if name in elements.bodies:
            guess[name] = np.concatenate([d.xpos[k], d.xquat[k]])
            mujoco.mj_objectVelocity(m, d, mujoco.mjtObj.mjOBJ_XBODY, k, rate, 0)
            velocities[name] = np.concatenate([rate[3:], d.xmat[k].reshape(3, 3).T @ rate[:3]])
    return guess, velocities
