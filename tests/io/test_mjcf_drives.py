"""Ranges and actuators of MJCF move as MuJoCo says: exactly where it is smooth, and near stops within their softness."""

import jax
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import spatial

mujoco = pytest.importorskip("mujoco")

# A crane that swings and reaches out; every kind of actuator that is affine, armature, friction, a margin and a ref.
CRANE = """
<mujoco><compiler angle="radian"/><option timestep="0.00001" integrator="RK4"><flag contact="disable"/></option>
<worldbody><body name="boom">
  <joint name="swing" axis="0 1 0" range="-0.5 0.8" armature="0.05" damping="0.3" ref="0.1"/>
  <geom type="capsule" fromto="0 0 0 0.6 0 0" size="0.03" mass="1.2"/>
  <body name="hook" pos="0.6 0 0">
    <joint name="reach" type="slide" axis="1 0 0" range="-0.06 0.16" margin="0.01"/>
    <geom size="0.05" mass="0.5"/>
  </body>
</body></worldbody>
<actuator>
  <position name="hold" joint="swing" kp="12" kv="1" forcerange="-3 3" gear="1.5"/>
  <velocity name="brake" joint="swing" kv="0.2"/>
  <motor name="push" joint="reach" gear="3" ctrlrange="-1 1"/>
  <position name="lagging" joint="reach" kp="20" timeconst="0.1"/>
  <intvelocity name="drift" joint="reach" kp="5" actrange="-1 1"/>
  <damper name="drag" joint="reach" kv="3" ctrlrange="0 2"/>
  <general name="both" joint="swing" gainprm="2 0.5 -0.3" gaintype="affine" biastype="affine" biasprm="0.1 -0.4 -0.2"/>
</actuator>
<keyframe><key name="k" qpos="0.3 0.02" qvel="-1 0.2" ctrl="0.6 0.1 0.2 -0.05 0.3 0.7 0.4" act="0.02 -0.03"/></keyframe>
</mujoco>
"""
# Free of the ranges until here.
SMOOTH = 0.15


def loaded(tmp_path, text=CRANE, **options):
    (tmp_path / "model.xml").write_text(text)
    return mbs.load(tmp_path / "model.xml", **options)


def by_mujoco(text, times):
    """Positions of the joints (T, k), counted from qpos0."""
    m = mujoco.MjModel.from_xml_string(text)
    d = mujoco.MjData(m)
    mujoco.mj_resetDataKeyframe(m, d, 0)
    found = []
    for t in times:
        while d.time < t - 1e-9:
            mujoco.mj_step(m, d)
        found.append(d.qpos - m.qpos0)
    return np.array(found)


IN_JOINTS = mbs.JointCoordinates()


def along(model, times, formulation=IN_JOINTS):
    run = mbs.simulate(model, times, step=2.5e-4, formulation=formulation)
    assert not np.any(run.status)
    return np.stack([run.joint("swing").angle, run.joint("reach").slide], axis=1)


@pytest.mark.parametrize("formulation", [mbs.Augmented(), mbs.JointCoordinates()])
def test_actuators_follow_mujoco(tmp_path, formulation):
    """Within 1e-6 as long as no stop is touched."""
    model, times = loaded(tmp_path), np.linspace(0, SMOOTH, 6)
    expected = by_mujoco(CRANE, times)
    np.testing.assert_allclose(along(model, times, formulation), expected, atol=1e-6)
    assert np.abs(expected[-1] - expected[0]).min() > 0.01


FLAP = """
<mujoco><compiler angle="radian"/><option timestep="0.00005" integrator="RK4"><flag contact="disable"/></option>
<worldbody><body name="flap">
  <joint name="hinge" axis="0 1 0" range="-0.5 0.7" damping="0.3" ref="0.1"/>
  <geom type="capsule" fromto="0 0 0 0.6 0 0" size="0.03" mass="1.2"/>
</body></worldbody>
<actuator><position name="push" joint="hinge" kp="30" kv="1" forcerange="-9 9"/></actuator>
<keyframe><key name="k" qpos="0.2" qvel="-1" ctrl="1.4"/></keyframe>
</mujoco>
"""


def test_a_servo_pushes_a_flap_into_its_stop(tmp_path):
    """Within 1e-6 of MuJoCo on the way; then both give way to the blow, nearly alike, and to what presses, this one by the
    whole push over its stiffness, MuJoCo's by the twentieth part that its impedance leaves."""
    model, times = loaded(tmp_path, FLAP), np.linspace(0, 1.2, 121)
    run = mbs.simulate(model, times, step=5e-4, formulation=mbs.JointCoordinates())
    assert not np.any(run.status)
    found, expected = np.asarray(run.joint("hinge").angle), by_mujoco(FLAP, times)[:, 0]
    end = 0.7 - 0.1
    free = np.cumsum(expected > end - 0.01) == 0
    assert np.count_nonzero(free) > 10
    np.testing.assert_allclose(found[free], expected[free], atol=1e-6)
    inertia = float(model.forces["hinge stop"].stiffness) / 2500
    push = float(mbs.force_elements(model, run)["push"].torque[-1]) + 1.2 * 9.81 * 0.3 * np.cos(found[-1])
    np.testing.assert_allclose(found[-1] - end, push / (2500 * inertia), rtol=1e-4)
    # At 8 rad/s MuJoCo's limit gives way by 0.062, this one by 0.071.
    deepest = np.max(expected - end)
    assert expected[-1] > end
    assert deepest < np.max(found - end) < 1.2 * deepest
    assert np.abs(found - expected).max() < deepest


def test_stops_see_the_inertia_that_mujoco_says(tmp_path):
    """At qpos0, in a row of links with a ball between, to rounding."""
    text = """
    <mujoco><compiler angle="radian"/><option><flag contact="disable"/></option><worldbody><body name="a">
      <joint name="one" axis="0 1 0.3" range="-1 1" armature="0.2"/>
      <geom type="box" size="0.3 0.1 0.05" pos="0.3 0 0.1" euler="0.2 0.1 0.4" mass="2"/>
      <body name="b" pos="0.6 0 0" euler="0.3 0 0.2"><joint type="ball"/><geom type="box" size="0.2 0.1 0.1" mass="1"/>
        <body name="c" pos="0.2 0.1 0"><joint name="two" type="slide" axis="1 1 0" range="-1 2" solreflimit="-300 -20"/>
          <geom type="box" size="0.05 0.1 0.2" pos="0 0 0.1" mass="0.7"/></body></body></body></worldbody></mujoco>"""
    m = mujoco.MjModel.from_xml_string(text)
    model = loaded(tmp_path, text)
    inertia = 1 / m.dof_invweight0[[m.joint(name).dofadr[0] for name in ("one", "two")]]
    stops = [model.forces[f"{name} stop"] for name in ("one", "two")]
    np.testing.assert_allclose([stop.stiffness for stop in stops], inertia * [2500, 300], rtol=1e-10)
    np.testing.assert_allclose([stop.viscous for stop in stops], inertia * [100, 20], rtol=1e-10)
    assert (float(stops[1].lower), float(stops[1].upper)) == (-1, 2)


@pytest.mark.slow
def test_read_write_read(tmp_path):
    """Stops and actuators come back from a file that is written."""
    smooth = CRANE.replace(' act="0.02 -0.03"', "")
    first = loaded(tmp_path, smooth)
    mbs.save(first, tmp_path / "again.xml")
    second = mbs.load(tmp_path / "again.xml")
    # Coordinates are counted from the start there, and the stops see the inertia of the start.
    ends = [
        mbs.simulate(model, np.linspace(0, SMOOTH, 4), step=1e-3, formulation=IN_JOINTS) for model in (first, second)
    ]
    np.testing.assert_allclose(*(run.point("hook", (0.0, 0, 0)) for run in ends), atol=1e-9)


def test_json_keeps_them(tmp_path):
    model = loaded(tmp_path)
    mbs.save(model, tmp_path / "model.json")
    again = mbs.load(tmp_path / "model.json")
    assert jax.tree.structure(again.forces) == jax.tree.structure(model.forces)
    for kept, given in zip(jax.tree.leaves(again.forces), jax.tree.leaves(model.forces), strict=True):
        np.testing.assert_array_equal(kept, given)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('joint="reach" gear="3"', 'joint="reach" gear="3" delay="0.1"'), "its delay has no counterpart"),
        (('<velocity name="brake" joint="swing" kv="0.2"/>', '<adhesion body="hook" ctrlrange="0 1"/>'), "something else"),
        (('damping="0.3"', 'actuatorfrcrange="-1 1"'), "the range of the sum of several"),
    ],
)  # fmt: skip
def test_what_is_passed_over(tmp_path, change, message):
    text = CRANE.replace(*change).replace("<keyframe>", "<!--").replace("</keyframe>", "-->")
    try:
        mujoco.MjModel.from_xml_string(text)
    except ValueError:
        pytest.skip("this MuJoCo does not know it")
    with pytest.warns(UserWarning, match=f"passed over: actuator: .*{message}"):
        loaded(tmp_path, text)


def test_a_range_of_more_than_a_turn(tmp_path):
    with pytest.warns(UserWarning, match="range: 'swing'|range: joint 'swing': a range of a turn and more is stored"):
        model = loaded(tmp_path, CRANE.replace('range="-0.5 0.8"', 'range="-4 4"'))
    assert "swing" in model.limits
    assert "swing stop" not in model.forces
    assert isinstance(model.constraints["swing"], spatial.Revolute)
