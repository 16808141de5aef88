"""Robots and linkages as MJCF and URDF, and results of MuJoCo and Pinocchio for them."""

from typing import NamedTuple

import numpy as np

# MJCF of a planar four-bar.
FOUR_BAR = """
<mujoco model="four-bar">
  <compiler angle="radian"/>
  <option integrator="RK4" timestep="1e-4" tolerance="0"><flag contact="disable" refsafe="disable"/></option>
  <default><equality solref="-1e7 -1e4" solimp=".9999 .9999 .001 .5 2"/></default>
  <worldbody>
    <body name="crank">
      <joint name="O" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 .3 0 0" size=".02"/>
      <body name="coupler" pos=".3 0 0">
        <joint name="A" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 .8 0 .3" size=".02"/>
      </body>
    </body>
    <body name="rocker" pos=".9 0 0">
      <joint name="C" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 .2 0 .3" size=".02"/>
    </body>
  </worldbody>
  <equality><connect name="B" body1="coupler" body2="rocker" anchor=".8 0 .3"/></equality>
</mujoco>
"""

# MJCF of a robot with hinges, then a spindle that slides and turns in one body; springs, dampers, `ref`, `springref`;
# degrees.
SCARA = """
<mujoco model="scara">
  <option gravity="0 0 -9.81"><flag contact="disable"/></option>
  <worldbody>
    <body name="column" pos="0 0 .4" euler="0 0 30">
      <inertial pos="0 0 -.2" mass="20" diaginertia=".5 .5 .2"/>
      <body name="upper" pos="0 .1 .1" euler="10 0 20">
        <joint name="shoulder" axis="0 0 1" ref="15" range="-130 130" stiffness="3" springref="40" damping=".4"/>
        <inertial pos=".2 .01 0" quat=".9 .1 .3 -.2" mass="5.5" diaginertia=".01 .08 .085"/>
        <body name="fore" pos=".4 0 0">
          <joint name="elbow" axis="0 .1 1" pos="0 0 .02" damping=".2"/>
          <inertial pos=".15 0 .03" mass="3.2" fullinertia=".006 .03 .032 .001 -.002 .0005"/>
          <body name="spindle" pos=".3 0 0" euler="180 0 0">
            <joint name="quill" type="slide" axis="0 0 1" ref=".05" stiffness="200" springref=".1" damping="4"/>
            <joint name="wrist" axis="0 0 -1" pos=".01 0 0" damping=".05"/>
            <inertial pos=".02 0 .1" mass=".9" diaginertia=".004 .004 .0006"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""

# MJCF of a crane: two slides in a body without hinges, a Cardan joint, a damped ball, three slides with a hinge, a
# hinge after a fixed link.
CRANE = """
<mujoco model="crane">
  <compiler angle="radian"/>
  <option gravity=".3 0 -9.81"><flag contact="disable"/></option>
  <worldbody>
    <body name="trolley" pos="0 0 5" quat=".8 .1 -.2 .3">
      <joint name="trolley.x" type="slide" axis="1 0 0" damping="30"/>
      <joint name="trolley.y" type="slide" axis="0 1 0" stiffness="50" springref=".4"/>
      <inertial pos="0 .1 .2" mass="80" diaginertia="4 5 6"/>
      <body name="boom" pos="0 0 -.2" quat=".5 .5 .5 -.5">
        <joint name="sway" axis="0 1 0"/><joint name="swing" axis="0 0 1"/>
        <inertial pos="1 0 0" mass="15" diaginertia=".1 5 5"/>
        <body name="jib" pos="2 0 0">
          <inertial pos=".3 0 0" mass="4" diaginertia=".02 .1 .1"/>
          <body name="tip" pos=".6 0 0" quat=".3 0 .2 .1">
            <joint name="wheel" axis="1 2 0" damping=".1" stiffness="2" springref="1"/>
            <inertial pos="0 0 .05" mass="1" diaginertia=".01 .02 .02"/>
          </body>
        </body>
        <body name="load" pos="2 0 .1">
          <joint name="hook" type="ball" pos="0 0 .1" damping=".7"/>
          <inertial pos="0 .1 -.8" mass="30" diaginertia="2 3 2"/>
          <body name="parcel" pos="0 0 -2">
            <joint name="lift.x" type="slide" axis="1 0 0" stiffness="400"/>
            <joint name="lift.y" type="slide" axis="0 1 0" stiffness="500" damping="3"/>
            <joint name="lift.z" type="slide" axis="0 0 1" stiffness="600"/>
            <joint name="lift.phi" axis="0 1 1" stiffness="7"/>
            <inertial pos=".1 0 0" mass="2" diaginertia=".05 .06 .07"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def _leg(name, x, y):
    """Return the MJCF of a leg of the quadruped at (x, y)."""
    return f"""
      <body name="{name}_hip" pos="{x} {y} 0">
        <joint name="{name}_roll" axis="1 0 0"/>
        <inertial pos="-.0033 0 0" quat=".5 .5 .52 .48" mass=".696" diaginertia=".00081 .00055 .00047"/>
        <body name="{name}_thigh" pos="0 {np.sign(y) * 0.0838} 0">
          <joint name="{name}_pitch" axis="0 1 0"/>
          <inertial pos="-.0032 {-np.sign(y) * 0.0223} -.0273" mass="1.013" diaginertia=".00555 .00514 .00134"/>
          <body name="{name}_calf" pos="0 0 -.2">
            <joint name="{name}_knee" axis="0 1 0" range="-2.7 -.9" damping=".01"/>
            <inertial pos=".0065 0 -.1071" mass=".166" diaginertia=".003 .003 .000035"/>
          </body>
        </body>
      </body>"""


# MJCF of a tree on a floating base, with the dimensions and masses of the Unitree A1.
QUADRUPED = f"""
<mujoco model="quadruped">
  <compiler angle="radian" autolimits="true"/>
  <option><flag contact="disable"/></option>
  <worldbody>
    <body name="trunk" pos="0 0 .43">
      <freejoint/>
      <inertial pos="0 .0041 -.0005" quat=".7 0 .1 .7" mass="4.713" diaginertia=".0377 .0362 .0159"/>
      {_leg("fl", 0.183, 0.047)}{_leg("fr", 0.183, -0.047)}{_leg("rl", -0.183, 0.047)}{_leg("rr", -0.183, -0.047)}
    </body>
  </worldbody>
</mujoco>
"""


def _inertial(mass, com, moments, rpy=(0, 0, 0)):
    """Return the URDF of mass, centre of mass and moments of a link."""
    xx, yy, zz, xy, xz, yz = (*moments, 0, 0, 0)[:6]
    text = lambda xs: " ".join(repr(float(x)) for x in xs)
    return (
        f'<inertial><origin xyz="{text(com)}" rpy="{text(rpy)}"/><mass value="{mass}"/>'
        f'<inertia ixx="{xx}" iyy="{yy}" izz="{zz}" ixy="{xy}" ixz="{xz}" iyz="{yz}"/></inertial>'
    )


def _joint(name, kind, parent, child, xyz=(0, 0, 0), rpy=(0, 0, 0), axis=(0, 0, 1), more=""):
    """Return the URDF of a joint."""
    text = lambda xs: " ".join(repr(float(x)) for x in xs)
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{text(xyz)}" rpy="{text(rpy)}"/><axis xyz="{text(axis)}"/>{more}</joint>'
    )


def _puma(izz3=0.0785):
    """Return the URDF of the Puma 560 in Denavit–Hartenberg frames; `izz3` is the largest moment of link 3.

    Masses, centres and moments of links 2 to 6 are from Armstrong, Khatib and Burdick, ICRA 1986. Link 1 turns about
    its axis only: of its numbers only the moment about that counts. The printed moment of link 3, 0.086, exceeds the
    sum of the others, 0.0785: no rigid body has these.
    """
    # a, α, d; mass, centre of mass and moments in the frame at the far end of the link.
    h = np.pi / 2
    table = [
        (0.0, h, 0.0, 13.0, (0, 0, 0), (0.35, 0.35, 0.35)),
        (0.4318, 0.0, 0.0, 17.4, (-0.3638, 0.006, 0.2275), (0.13, 0.524, 0.539)),
        (0.0203, -h, 0.15005, 4.8, (-0.0203, -0.0141, 0.070), (0.066, izz3, 0.0125)),
        (0.0, h, 0.4318, 0.82, (0, 0.019, 0), (1.8e-3, 1.3e-3, 1.8e-3)),
        (0.0, -h, 0.0, 0.34, (0, 0, 0), (0.3e-3, 0.4e-3, 0.3e-3)),
        (0.0, 0.0, 0.0, 0.09, (0, 0, 0.032), (0.15e-3, 0.15e-3, 0.04e-3)),
    ]
    text, xyz, alpha = '<robot name="puma560"><link name="base"/>', (0, 0, 0), 0.0
    for k, (a, twist, d, mass, com, moments) in enumerate(table, 1):
        c, s = np.cos(twist), np.sin(twist)
        centre = np.array([a, 0, d]) + np.array([[1, 0, 0], [0, c, -s], [0, s, c]]) @ com
        text += f'<link name="link{k}">{_inertial(mass, centre, moments, (twist, 0, 0))}</link>'
        limit = '<limit lower="-2.7" upper="2.7" effort="1" velocity="1"/>'
        text += _joint(
            f"joint{k}", "revolute", "base" if k == 1 else f"link{k - 1}", f"link{k}", xyz, (alpha, 0, 0), more=limit
        )
        xyz, alpha = (a, 0, d), twist
    return text + "</robot>"


# URDF of the Puma 560.
PUMA = _puma()
# URDF of the Puma 560 with the printed moment of link 3, which no rigid body has.
PUMA_AS_PRINTED = _puma(0.086)


def _ur5():
    """Return the URDF of the UR5 by its maker's description, with a fixed link, links without mass, and dampers."""
    h = np.pi / 2
    base = _inertial(4.0, (0, 0, 0), (0.00443, 0.00443, 0.0072))
    # parent's offset and rotation, axis, mass, centre, moments
    table = [
        ("shoulder", (0, 0, 0.089159), (0, 0, 0), (0, 0, 1), 3.7, (0, 0, 0), (0.010267, 0.010267, 0.00666)),
        ("upper_arm", (0, 0.13585, 0), (0, h, 0), (0, 1, 0), 8.393, (0, 0, 0.28), (0.22689, 0.22689, 0.0151074)),
        (
            "forearm",
            (0, -0.1197, 0.425),
            (0, 0, 0),
            (0, 1, 0),
            2.275,
            (0, 0, 0.196125),
            (0.0494433, 0.0494433, 0.004095),
        ),
        ("wrist_1", (0, 0, 0.39225), (0, h, 0), (0, 1, 0), 1.219, (0, 0.093, 0), (0.11117, 0.11117, 0.21942)),
        ("wrist_2", (0, 0.093, 0), (0, 0, 0), (0, 0, 1), 1.219, (0, 0, 0.09465), (0.11117, 0.11117, 0.21942)),
        ("wrist_3", (0, 0, 0.09465), (0, 0, 0), (0, 1, 0), 0.1879, (0, 0.0823, 0), (0.017136, 0.017136, 0.033822)),
    ]
    text = f'<robot name="ur5"><link name="world"/><link name="base_link">{base}</link>'
    text += _joint("base_joint", "fixed", "world", "base_link", (0.1, 0.2, 0.3), (0, 0, 0.5))
    parent = "base_link"
    for name, xyz, rpy, axis, mass, com, moments in table:
        text += f'<link name="{name}">{_inertial(mass, com, moments, (0.1, 0.2, 0.3))}</link>'
        text += _joint(f"{name}_joint", "continuous", parent, name, xyz, rpy, axis, '<dynamics damping="0.3"/>')
        parent = name
    text += '<link name="tool0"/>' + _joint("tool", "fixed", parent, "tool0", (0, 0.0823, 0), (-h, 0, 0))
    gripper = _inertial(0.4, (0, 0, 0.03), (3e-4, 4e-4, 2e-4, 1e-5, -2e-5, 3e-5))
    text += f'<link name="finger">{gripper}</link>' + _joint(
        "grip",
        "prismatic",
        "tool0",
        "finger",
        (0, 0, 0.1),
        (0, 0.3, 0),
        (1, 1, 0),
        '<limit lower="0" upper=".1" effort="1" velocity="1"/>',
    )
    return text + "</robot>"


# URDF of the UR5.
UR5 = _ur5()


def _satellite():
    """Return the URDF of a floating base with a Cardan joint of massless links and a link that slides in a plane."""
    text = '<robot name="satellite"><link name="world"/>'
    text += f'<link name="hull">{_inertial(100, (0.1, 0, 0), (10, 12, 14, 1, 0.5, -0.3))}</link>'
    text += _joint("orbit", "floating", "world", "hull", (0, 0, 1))
    text += '<link name="yoke"/><link name="cross"/>'
    text += f'<link name="dish">{_inertial(3, (0, 0, 0.4), (0.3, 0.3, 0.5), (0.4, 0, 0))}</link>'
    text += _joint("pan", "continuous", "hull", "yoke", (0, 0, 0.5), (0.2, 0, 0), (0, 0, 1))
    text += _joint("bracket", "fixed", "yoke", "cross", (0, 0, 0.2), (0, 0.3, 0))
    text += _joint("tilt", "continuous", "cross", "dish", (0, 0, 0), (0, 0.1, 0), (0, 1, 0))
    text += f'<link name="puck">{_inertial(0.5, (0.05, 0, 0), (1e-3, 1e-3, 2e-3))}</link>'
    text += _joint("table", "planar", "hull", "puck", (0.5, 0, 0), (0, 0.7, 0), (0, 0, 1))
    return text + "</robot>"


# URDF of a satellite with a floating base.
SATELLITE = _satellite()


class Answer(NamedTuple):
    """States of the bodies, and accelerations (r̈, ω̇ in the body) there, by name."""

    q: dict
    v: dict
    a: dict


def by_mujoco(text, names, *, seed=0, m=None):
    """Return a random state of an MJCF model with accelerations by MuJoCo's forward dynamics, without constraints."""
    import mujoco

    m = mujoco.MjModel.from_xml_string(text) if m is None else m
    m.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    d, rng = mujoco.MjData(m), np.random.default_rng(seed)
    d.qvel[:] = rng.normal(size=m.nv)
    mujoco.mj_integratePos(m, d.qpos, rng.normal(size=m.nv), 1.0)
    d.qvel[:] = rng.normal(size=m.nv)
    mujoco.mj_forward(m, d)
    return answered(m, d, names)


def answered(m, d, names):
    """Return q, v and accelerations of bodies by name from an `MjData` after forward dynamics."""
    import mujoco

    answer, rate = Answer({}, {}, {}), np.zeros(6)
    for name in names:
        k, turn = m.body(name).id, d.body(name).xmat.reshape(3, 3)
        mujoco.mj_objectVelocity(m, d, mujoco.mjtObj.mjOBJ_XBODY, k, rate, 0)
        answer.q[name] = np.concatenate([d.xpos[k], d.xquat[k]])
        answer.v[name] = np.concatenate([rate[3:], turn.T @ rate[:3]])
        jacobians, rates = np.zeros((2, 3, m.nv)), np.zeros((2, 3, m.nv))
        mujoco.mj_jacBody(m, d, *jacobians, k)
        mujoco.mj_jacDot(m, d, *rates, d.xpos[k], k)
        linear, angular = jacobians @ d.qacc + rates @ d.qvel
        answer.a[name] = np.concatenate([linear, turn.T @ angular])
    return answer


def by_pinocchio(robot, names, *, seed=0, free=False, state=None):
    """Return a state of a robot, URDF or Pinocchio's model, with accelerations by the articulated-body algorithm.

    The state is random unless its q, v and v̇ are given. With `free` the base floats.
    """
    import pinocchio as pin

    if isinstance(robot, str):
        robot = pin.buildModelFromXML(robot, *[pin.JointModelFreeFlyer()] * free)
    data, rng = robot.createData(), np.random.default_rng(seed)
    if state is None:
        q = pin.integrate(robot, pin.neutral(robot), rng.normal(size=robot.nv))
        v = rng.normal(size=robot.nv)
        a = pin.aba(robot, data, q, v, -robot.damping * v)
    else:
        q, v, a = state
    pin.forwardKinematics(robot, data, q, v, a)
    pin.updateFramePlacements(robot, data)
    answer = Answer({}, {}, {})
    for name in names:
        k = robot.getFrameId(name, pin.BODY)
        along, local = pin.LOCAL_WORLD_ALIGNED, pin.LOCAL
        x, y, z, w = pin.Quaternion(data.oMf[k].rotation).coeffs()
        answer.q[name] = np.array([*data.oMf[k].translation, w, x, y, z])
        answer.v[name] = np.concatenate(
            [pin.getFrameVelocity(robot, data, k, along).linear, pin.getFrameVelocity(robot, data, k, local).angular]
        )
        answer.a[name] = np.concatenate(
            [
                pin.getFrameClassicalAcceleration(robot, data, k, along).linear,
                pin.getFrameAcceleration(robot, data, k, local).angular,
            ]
        )
    return answer


def accelerations(model, q, v):
    """Return v̇ by the equations of motion, as a dense system, which massless bodies may belong to."""
    import jaxmbs as mbs

    bodies = mbs.Augmented().of(model)
    rows = np.asarray(bodies.constraint_jacobian(q))
    matrix = np.block([[bodies.mass_matrix(q), rows.T], [rows, np.zeros((len(rows), len(rows)))]])
    rhs = np.concatenate([bodies.force(q, v), bodies.acceleration_rhs(q, v)])
    return np.linalg.lstsq(matrix, rhs, rcond=1e-14)[0][: len(v)]


def states(answer, model):
    """Return q, v and v̇ of an `Answer` as vectors (n,), (m,), (m,) in the order of a model's bodies."""
    return model.coordinates(answer.q), *(np.asarray(model.velocities(x)) for x in (answer.v, answer.a))


# Box of a given mass.
GEOM_OF_MASS = '<geom type="box" size=".1 .2 .3" pos=".1 .2 .1" euler="20 30 40" mass="{}"/>'
# MJCF with chains, balls, tendons and actuators of all kinds, a polynomial and weights that are taken off.
WILD = f"""<mujoco><option><flag contact="disable"/></option><worldbody><site name="post" pos="1 0 2"/>
<body name="hip" euler="10 20 30" gravcomp="0.5">
  <joint name="h1" axis="0 0 1" stiffness="3" damping=".4" armature=".2" springref="20"/>
  <joint name="h2" axis="1 0 1" pos=".1 0 0" damping=".3" armature=".1" range="-60 60"/>
  <joint name="h3" type="slide" axis="0 1 1" stiffness="5" frictionloss=".1" ref=".2"/>{GEOM_OF_MASS.format(2)}
  <body name="ball" pos=".5 0 0" euler="0 40 0"><joint name="b" type="ball" stiffness="2" damping=".3" range="0 170"
    armature=".15"/>
    {GEOM_OF_MASS.format(1)}<site name="tip" pos="0 0 .3" euler="0 30 0"/>
    <body name="knee" pos=".4 0 0"><joint name="k" axis="0 1 0"/>{GEOM_OF_MASS.format(1)}</body></body></body>
<body name="free" pos="0 3 0"><joint name="f" type="free" stiffness="1.5" damping=".2"
  armature=".25"/>{GEOM_OF_MASS.format(3)}</body>
</worldbody>
<tendon><fixed name="t" stiffness="4" damping=".2" springlength=".1 .3"><joint joint="h1" coef=".5"/>
  <joint joint="k" coef="-2"/></fixed>
<spatial name="cable"><site site="post"/><site site="tip"/></spatial>
<spatial name="rope" stiffness="7" damping=".1" springlength="1"><site site="post"/><site site="tip"/></spatial></tendon>
<actuator><position name="servo" tendon="t" kp="6" gear="2"/><motor name="push" site="tip" gear="1 2 3 4 5 6"/>
  <position name="winch" tendon="cable" kp="3" kv=".5" gear="2" forcerange="-9 9"/>
  <motor name="wrench" joint="f" gear="1 2 3 4 5 6"/></actuator>
<equality><joint name="cubic" joint1="h3" joint2="k" polycoef=".1 .2 .3 .4 .5"/></equality>
<keyframe><key qpos="0 0 .2 1 0 0 0 0 0 3 0 1 0 0 0" ctrl=".5 2 .4 3"/></keyframe></mujoco>"""
