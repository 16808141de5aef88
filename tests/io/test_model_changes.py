"""Changes of a loaded model: joints are driven and released, elements are left out, frames and points have names."""

import numpy as np
import pytest

import jaxmbs as mbs
import robots
from jaxmbs import forces, planar, spatial
from jaxmbs.motion import Ramp


@pytest.fixture
def arm():
    bodies = {"upper": spatial.Body(frames={"tip": spatial.Frame((0, 0, 1.0))}), "fore": spatial.Body()}
    joints = {
        "hip": spatial.Revolute("ground", "upper", axis_i=(0, 1, 0)),
        "rail": spatial.Prismatic("upper", "fore", (0, 0, 1), axis_i=(1, 0, 0)),
    }
    acting = {
        "gravity": mbs.Gravity((0, 0, -9.81)),
        "hip stop": forces.JointStop("hip", -1.0, 1.0, stiffness=1e3, exponent=1.0),
        "hip motor": forces.Actuator("hip", control=1.0, gain=(2.0, 0, 0)),
        "hip spring": forces.JointSpring("hip", 3.0, 0.0),
        "pull": forces.AxialSpring("upper", "fore", (0, 0, 1), (0, 0, 0), (1, 0, 0), 5.0, 0.0),
    }
    return mbs.Model(
        bodies,
        joints,
        forces=acting,
        guess={"upper": spatial.coordinates(rotated=(0, 0.2, 0)), "fore.x": 0.5},
        velocities={"upper.wy": 0.3},
        limits={"hip": (-1.0, 1.0)},
        frames={"base": ("ground", (0, 0, -1.0), np.eye(3))},
        name="arm",
        passed_over=("contact: a",),
    )


def test_a_joint_is_driven_and_released(arm):
    driven = arm.drive("hip", Ramp(rate=0.5)).drive("rail", 0.25)
    assert list(driven.drivers) == ["hip drive", "rail drive"]
    # The driver replaces the stop and the actuator of its joint, but not its spring.
    assert sorted(driven.forces) == ["gravity", "hip spring", "pull"]
    motion = mbs.kinematics(driven, np.array([0.0, 0.8]))
    expected = np.cos(0.4), 0.25
    place = motion.q[1][driven.layout.body_slices["fore"]]
    np.testing.assert_allclose(
        place[:3], (np.sin(0.4) + 0.25 * np.cos(0.4), 0, expected[0] - 0.25 * np.sin(0.4)), atol=1e-9
    )
    again = driven.drive("hip", Ramp(rate=9.0))
    assert list(again.drivers) == ["rail drive", "hip drive"]
    assert list(driven.release("hip").drivers) == ["rail drive"]
    assert list(driven.release("rail drive").drivers) == ["hip drive"]
    kept = driven.name, driven.limits, driven.passed_over, driven.velocity_by_name
    assert kept == ("arm", {"hip": (-1.0, 1.0)}, ("contact: a",), {"upper.wy": pytest.approx(0.3)})
    np.testing.assert_array_equal(driven.guess, arm.guess)


def test_elements_are_left_out(arm):
    loose = arm.without("hip", "gravity")
    assert list(loose.constraints) == ["rail"]
    assert list(loose.forces) == ["pull"]
    assert loose.limits == {}
    alone = arm.without("fore")
    assert (list(alone.bodies), list(alone.constraints)) == (["upper"], ["hip"])
    assert "pull" not in alone.forces
    np.testing.assert_array_equal(alone.guess, arm.guess[:7])
    assert alone.velocity_by_name == {"upper.wy": pytest.approx(0.3)}
    assert alone.frames.keys() == {"base", "tip"}


def test_frames_and_points_have_names(arm):
    assert arm.frames["tip"].body == "upper"
    np.testing.assert_array_equal(arm.frames["base"].axes, np.eye(3))
    body, point = arm.points["tip"]
    np.testing.assert_allclose(arm.point(arm.guess, body, point), (np.sin(0.2), 0, np.cos(0.2)), atol=1e-12)
    pinned = mbs.Model(
        arm.bodies, {"ball": spatial.Spherical("ground", *arm.points["tip"][:1], (0, 0, 0), arm.points["tip"][1])}
    )
    np.testing.assert_allclose(mbs.constraints(pinned, {}), (0, 0, 1))
    with pytest.raises(ValueError, match="frames: 'x' is on 'y', but no body has this name"):
        mbs.Model(arm.bodies, frames={"x": ("y", (0, 0, 0), np.eye(3))})
    with pytest.raises(ValueError, match="frames: origins have shape"):
        mbs.Model(arm.bodies, frames={"x": ("ground", (0, 0), np.eye(3))})


def test_wrong_names_are_named(arm):
    for change, message in (
        (lambda: arm.drive("hp", 0), "'hp'.*hip"),
        (lambda: arm.release("hip"), "no driver moves joint 'hip'"),
        (lambda: arm.release("elbow"), "'elbow'"),
        (lambda: arm.without("hip", "elbow"), "'elbow'"),
        (lambda: arm.without("upper", "fore"), "no body is left"),
    ):
        with pytest.raises(ValueError, match=message):
            change()
    ball = mbs.Model(arm.bodies, {"ball": spatial.Spherical("ground", "upper")})
    with pytest.raises(ValueError, match=r"joint 'ball' \(Spherical\) is not a hinge, slide or screw"):
        ball.drive("ball", 0)


def test_planar_joints_and_screws_are_driven(arm):
    crank = mbs.Model(
        {"crank": planar.Body(), "block": planar.Body()},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "s": planar.Translational("crank", "block", (0, 0), (0, 0)),
        },
    )
    driven = crank.drive("O", 0.3).drive("s", 2.0)
    q = mbs.assemble(driven, crank.guess).q
    np.testing.assert_allclose(q, (0, 0, 0.3, 2 * np.cos(0.3), 2 * np.sin(0.3), 0.3), atol=1e-9)
    nut = mbs.Model(
        {"nut": arm.bodies["fore"]}, {"thread": spatial.Screw("ground", "nut", axis_i=(0, 0, 1), pitch=0.1)}
    )
    assert isinstance(nut.drive("thread", 1.0).drivers["thread drive"], spatial.RevoluteDriver)


def test_a_file_of_any_format_can_be_changed(tmp_path):
    path = tmp_path / "robot.urdf"
    path.write_text(robots.UR5)
    model = mbs.load(path)
    assert model.frames["world"].body == "ground"
    assert model.points["tool0"][0] == "wrist_3"
    floating = model.without("base_link on ground")
    assert mbs.diagnose(floating, floating.guess).dof == mbs.diagnose(model, model.guess).dof + 6
    driven = model.drive("grip", 0.05)
    assert "grip stop" not in driven.forces


def test_a_mocap_body_pulls_a_load_as_in_mujoco(tmp_path):
    """A rope behind a mocap body, which `drive` moves; MuJoCo moves it in each of its steps."""
    mujoco = pytest.importorskip("mujoco")
    text = """<mujoco><option gravity="0 0 0" timestep="1e-4" integrator="RK4"><flag contact="disable"/></option><worldbody>
    <body name="hand" mocap="true" pos="1 0 .5" euler="10 20 30"><geom size=".1" mass=".1"/><site name="grip" pos=".1 0 0"/>
    </body><body name="load"><freejoint/><geom type="box" size=".1 .2 .3" mass="2"/><site name="hook"/></body></worldbody>
    <tendon><spatial stiffness="30" springlength="0"><site site="grip"/><site site="hook"/></spatial></tendon></mujoco>"""
    (tmp_path / "hand.xml").write_text(text)
    model = mbs.load(tmp_path / "hand.xml", strict=True)
    again = mbs.load(mbs.save(model, tmp_path / "again.xml"), strict=True)
    assert again.constraints.keys() == model.constraints.keys() == {"hand on ground"}
    driven = model.drive("hand on ground", (Ramp(rate=1.0, start=1.0), 0.0, 0.5))
    run = mbs.simulate(driven, np.array([0.0, 0.3]), step=2e-3, throw=True)
    m = mujoco.MjModel.from_xml_string(text)
    d = mujoco.MjData(m)
    while d.time < 0.3 - 1e-9:
        d.mocap_pos[0, 0] = 1 + d.time + 0.5 * m.opt.timestep
        mujoco.mj_step(m, d)
    np.testing.assert_allclose(run.point("load")[-1], d.qpos[:3], atol=1e-6)
    with pytest.raises(ValueError, match="three motions"):
        model.drive("hand on ground", 1.0)


def test_a_driven_model_of_a_file_starts_at_the_rates_of_its_driver(tmp_path):
    """Files of MuJoCo give velocities of zero, which the driver contradicts."""
    pytest.importorskip("mujoco")
    box = '<geom type="box" size=".1 .2 .3" mass="2"/>'
    text = f"""<mujoco><option><flag contact="disable"/></option><worldbody><body name="a"><joint name="j"/>{box}
    <body name="b" pos="1 0 0"><joint name="k" type="slide"/>{box}</body></body></worldbody></mujoco>"""
    (tmp_path / "model.xml").write_text(text)
    driven = mbs.load(tmp_path / "model.xml").drive("j", Ramp(rate=2.0))
    run = mbs.simulate(driven, np.array([0.0]), throw=True)
    np.testing.assert_allclose(run.joint("j").rate, 2.0, rtol=1e-12)
