"""An MJCF file, parsed and compiled by MuJoCo without the parts that have no meaning in mechanics."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.io.models.links.passed_over import PassedOver
from jaxmbs.io.models.links.tree import Softness
from jaxmbs.io.models.mjcf.files import Files
from jaxmbs.io.models.model import ModelError
from jaxmbs.io.models.options import ReadOptions

# Kinds of named objects of MuJoCo that become elements, or that messages name.
KINDS = ("body", "joint", "geom", "tendon", "actuator", "equality")
# Fields of `MjSpec` with the lists of these objects.
LISTS = ("bodies", "joints", "geoms", "tendons", "actuators", "equalities")


@dataclasses.dataclass
class Source:
    """A compiled MJCF file.

    Attributes:
        mujoco: the package.
        m: the `MjModel`.
        d: its `MjData` in the first keyframe, or in qpos0.
        bodies, joints: names in MuJoCo's order, "body1" and "joint1" for those without a name; "ground" for the world.
        lines: lines of objects in the file by kind and index, such as "line 12".
        ignore: tags that are left out.
        passed_over: collects elements that cannot be represented.
    """

    mujoco: Any
    m: Any
    d: Any
    bodies: list[str]
    joints: list[str]
    lines: dict[tuple[str, int], str]
    ignore: tuple[str, ...]
    passed_over: PassedOver

    def name(self, kind: str, k: int) -> str:
        """Return the name of object k of a kind, such as "tendon1" if it has none."""
        if kind in ("body", "joint"):
            return (self.bodies if kind == "body" else self.joints)[k]
        given = self.mujoco.mj_id2name(self.m, getattr(self.mujoco.mjtObj, f"mjOBJ_{kind.upper()}"), k)
        return given or f"{kind}{k + 1}"

    def pass_over(self, tag: str, kind: str, k: int, why: str) -> None:
        """Pass over object k of a kind, under a tag that `ignore` may name."""
        self.passed_over.add(tag, repr(self.name(kind, k)), why, line=self.lines.get((kind, k), ""))

    def is_disabled(self, *features: str) -> bool:
        """Return True if one of these features is disabled. Before MuJoCo 3.4 springs and dampers shared a flag."""
        flags = self.mujoco.mjtDisableBit
        off = [getattr(flags, f"mjDSBL_{name}", None) or getattr(flags, "mjDSBL_PASSIVE", 0) for name in features]
        return any(self.m.opt.disableflags & flag for flag in off)


def compile_file(mujoco, path: Path, options: ReadOptions, passed_over: PassedOver) -> Source:
    """Return a file as a `Source`; raise `ModelError` if a file is not allowed or MuJoCo cannot compile it."""
    files = Files(path, options.allow)
    files.check_models()
    messages: list[str] = []
    before = mujoco.get_mju_user_warning()
    # Without this MuJoCo writes its warnings into a file of the current folder.
    mujoco.set_mju_user_warning(messages.append)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            spec = mujoco.MjSpec.from_file(str(path))
        _strip(mujoco, spec, passed_over)
        files.check_assets({x.file for x in (*spec.meshes, *spec.hfields)})
        m = spec.compile()
    except ModelError:
        raise
    except (ValueError, mujoco.FatalError) as error:
        raise ModelError(" ".join(str(error).split())) from None
    except RuntimeError as error:
        # MuJoCo reports some errors, such as an attribute without numbers, as an unknown exception.
        raise ModelError(f"MuJoCo cannot compile it, for an unknown reason ({' '.join(str(error).split())})") from None
    finally:
        mujoco.set_mju_user_warning(before)
    for message in messages:
        warnings.warn(" ".join(message.split()), stacklevel=4)
    lines = {
        (kind, x.id): x.info
        for kind, field in zip(KINDS, LISTS, strict=True)
        for x in getattr(spec, field)
        if getattr(x, "info", "").startswith("line")
    }
    bodies = _unique_names("body", [m.body(k).name for k in range(1, m.nbody)], 1)
    joints = _unique_names("joint", [m.joint(k).name for k in range(m.njnt)], 1)
    return Source(mujoco, m, _start(mujoco, m), [GROUND, *bodies], joints, lines, options.ignore, passed_over)


def _strip(mujoco, spec, passed_over: PassedOver) -> None:
    """Take out pictures, plugins, and meshes that no mass depends on, so that their files are not opened."""
    delete = getattr(spec, "delete", None) or (lambda element: element.delete())
    for light in spec.lights:
        light.texture = ""
    for x in (*spec.textures, *spec.skins, *spec.materials, *spec.sensors):
        delete(x)
    for x in (*spec.geoms, *spec.sites, *spec.tendons, *spec.flexes):
        x.material = ""
    for kind, elements in (("body", spec.bodies), ("actuator", spec.actuators)):
        for x in elements:
            if x.plugin.active:
                passed_over.add("plugin", f"{kind} {x.name!r}", "plugins are not run", line=x.info)
                x.plugin.active = False
                if kind == "actuator":
                    x.set_to_motor()
                    x.actdim = -1
    # Length ranges are for muscles, and MuJoCo simulates the model to find them.
    spec.compiler.LRopt.mode = int(mujoco.mjtLRMode.mjLRMODE_NONE)
    from_geoms, groups = int(spec.compiler.inertiafromgeom), spec.compiler.inertiagrouprange
    for body in spec.bodies:
        given = body.name == "world" or from_geoms == 0 or (from_geoms == 2 and body.explicitinertial)
        for geom in body.geoms:
            shaped = geom.meshname or geom.hfieldname or geom.plugin.active
            if shaped and (given or geom.mass == 0 or not groups[0] <= geom.group <= groups[1]):
                geom.type, geom.size = mujoco.mjtGeom.mjGEOM_SPHERE, [1, 0, 0]
                geom.meshname = geom.hfieldname = ""
                geom.plugin.active = False
            elif geom.plugin.active:
                raise ModelError(f"geom {geom.name!r} of {body.name!r}: a plugin gives its shape; plugins are not run")
    meshes, fields = {geom.meshname for geom in spec.geoms}, {geom.hfieldname for geom in spec.geoms}
    for x in [*(x for x in spec.meshes if x.name not in meshes), *(x for x in spec.hfields if x.name not in fields)]:
        delete(x)
    for mesh in spec.meshes:
        if mesh.plugin.active:
            raise ModelError(f"mesh {mesh.name!r}: a plugin makes it; plugins are not run")
    for plugin in list(spec.plugins):
        delete(plugin)


def _unique_names(kind: str, names: list[str], first: int) -> list[str]:
    """Return names of objects that differ from each other and from "ground"; those without one are numbered."""
    found: dict[str, None] = {GROUND: None}
    given = set(names)
    for k, name in enumerate(names):
        new = name or f"{kind}{k + first}"
        while new in found or (name == "" and new in given):
            new += "_"
        found[new] = None
    return list(found)[1:]


def _start(mujoco, m):
    """Return `MjData` with the poses and velocities of the first keyframe, or of qpos0."""
    d = mujoco.MjData(m)
    if m.nkey:
        d.qpos[:], d.qvel[:] = m.key_qpos[0], m.key_qvel[0]
        d.ctrl[:], d.act[:] = m.key_ctrl[0], m.key_act[0]
    # Not the whole forward dynamics: its solvers may not end with extreme masses.
    mujoco.mj_kinematics(m, d)
    mujoco.mj_comPos(m, d)
    mujoco.mj_comVel(m, d)
    return d


def nonzero_rows(values) -> list[int]:
    """Return the indices of the rows of an array with an entry other than zero."""
    return [k for k, row in enumerate(values) if np.any(row)]


def softness_of(source: Source, solref) -> Softness:
    """Return the softness of limits with these parameters for the largest impedance of MuJoCo.

    solref is a time constant and a damping ratio, or minus the stiffness and the damping for the inertia 1.
    """
    first, second = map(float, solref)
    if first > 0:
        if not source.is_disabled("REFSAFE"):
            first = max(first, 2 * source.m.opt.timestep)
        stiffness, damping = 1 / (first * second) ** 2, 2 / first
    else:
        stiffness, damping = -first, -second
    return Softness(stiffness, damping)
