"""MJCF: models that are written move alike in MuJoCo; errors name the element that cannot be written."""

import numpy as np
import pytest

import jaxmbs as mbs
import robots
from jaxmbs import planar, spatial
from jaxmbs.io.models.mjcf import write_mjcf

mujoco = pytest.importorskip("mujoco")


def turned(*vector):
    return np.asarray(mbs.rotation.exp_matrix(np.array(vector, float)))


def tree():
    """Joints of all kinds, declared from child to parent as well, with springs; in motion."""
    body = lambda k: spatial.Body(
        1.0 + k, (0.1 + 0.01 * k, 0.12, 0.15), (0.1, -0.05 * k, 0.02), inertia_frame=turned(0.3, 0.1 * k, -0.2)
    )
    on_i, on_j, across = turned(0.3, 0.2, 0.1), turned(-0.2, 0.5, 0.1), ((1, 0, 0), (0, 1, 0.2))
    mech = mbs.Mechanism(
        {name: body(k) for k, name in enumerate("abcdefgh")},
        {
            "A": spatial.Revolute("a", "ground", (0.1, 0, 0.2), (0, 0.1, 0), frame_i=on_i, frame_j=on_j),
            "B": spatial.Spherical("b", "a", (0.1, 0.2, 0.3), (0.3, 0, 0)),
            "C": spatial.Universal("c", "b", (0, 0, 0.2), (0.1, 0, 0), *across),
            "D": spatial.Prismatic("d", "c", (0.2, 0, 0), (0, 0, 0.1), (1, 1, 0)),
            "E": spatial.Cylindrical("e", "b", (0, 0.1, 0), (0.1, 0.1, 0.1), (0, 1, 1)),
            "F": spatial.Universal("b", "f", (0, 0, 0.2), (0.1, 0, 0), *across),
            "G": spatial.Planar("a", "g", (0, 0, 0.2), (0.1, 0, 0), (1, 0, 0)),
            "H": spatial.Free("a", "h", (0, 0, 0.2), (0.1, 0, 0)),
        },
        forces={
            "weight": mbs.Gravity((0.1, 0, -9.81)),
            "coil": mbs.TorsionSpring("a", "ground", 3.0, 0.4, 0.2, axis_i=on_i[:, 2], axis_j=on_j[:, 2]),
            "ram": mbs.AxialSpring("d", "c", (0.2, 0, 0), (0, 0, 0.1), (1, 1, 0), 50.0, 0.1, 2.0),
            "rope": mbs.SpringDamper("a", "e", (0.1, 0, 0), (0, 0.2, 0), 30.0, 1.0, 0.05),
        },
    )
    joints, rng = mbs.JointCoordinates().of(mech), np.random.default_rng(1)
    theta = 0.5 * rng.normal(size=len(joints.names))
    for ball in "BH":
        k = joints.names.index(f"{ball}.e0")
        theta[k : k + 4] /= np.linalg.norm(theta[k : k + 4])
    q = mech.coordinates(joints.configuration(theta))
    transformation = np.asarray(mbs.velocity_transformation(mech, theta))
    # The sign of Euler parameters is lost on the way; R is the same.
    v = transformation @ rng.normal(size=transformation.shape[1])
    return mbs.Model(mech.bodies, mech.constraints, {}, mech.forces, guess=q, velocities=v, name="tree")


def by_mujoco_at_start(text, names):
    """Coordinates, velocities and accelerations of the bodies at the keyframe, by MuJoCo."""
    m = mujoco.MjModel.from_xml_string(text)
    d = mujoco.MjData(m)
    if m.nkey:
        mujoco.mj_resetDataKeyframe(m, d, 0)
    mujoco.mj_forward(m, d)
    return robots.answered(m, d, names)


@pytest.mark.slow
def test_what_is_written_moves_as_it_did(tmp_path):
    model = tree()
    text = write_mjcf(model)
    q, v, a = robots.states(by_mujoco_at_start(text, model.bodies), model)
    assert np.abs(mbs.constraints(model, q, 0.0)).max() < 1e-12
    np.testing.assert_allclose(v, model.velocity, atol=1e-12)
    expected = robots.accelerations(model, model.guess, np.asarray(model.velocity))
    np.testing.assert_allclose(a, expected, rtol=1e-9, atol=1e-11 * np.abs(expected).max())


def four_bar():
    rod = lambda length: planar.Body(mass=length, inertia=length**3 / 12)
    return mbs.Mechanism(
        {"crank": rod(1.0), "coupler": rod(3.0), "rocker": rod(3.5)},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (-0.5, 0)),
            "A": planar.Revolute("crank", "coupler", (0.5, 0), (-1.5, 0)),
            "B": planar.Revolute("coupler", "rocker", (1.5, 0), (1.75, 0)),
            "C": planar.Revolute("ground", "rocker", (4, 0), (-1.75, 0)),
        },
        forces={
            "gravity": mbs.Gravity((0, -9.81)),
            "coil": mbs.TorsionSpring("ground", "crank", 40.0, 0.3, 2.0),
        },
    )


def test_a_four_bar_of_the_plane_is_written_with_its_loop(tmp_path):
    mech = four_bar()
    guess = mbs.assemble(mech, {"crank": (0.3, 0.4, 1.0), "coupler": (1.9, 1.5, 0.3), "rocker": (3.6, 1.5, 1.8)})
    mbs.save(mech, tmp_path / "bar.xml", guess=guess, name="bar")
    text = (tmp_path / "bar.xml").read_text()
    m = mujoco.MjModel.from_xml_string(text)
    assert (m.njnt, m.neq, m.nu) == (3, 1, 0)
    answer = by_mujoco_at_start(text, mech.bodies)
    expected = robots.accelerations(mech, guess.q, np.zeros(9)).reshape(3, 3)
    for row, name in zip(expected, mech.bodies, strict=True):
        np.testing.assert_allclose(
            answer.q[name][:2], mech.coordinates(guess)[mech.layout.entries(name)[0]][:2], atol=1e-9
        )
        # MuJoCo's loop is soft: by a part in a thousand at this setting.
        np.testing.assert_allclose(answer.a[name][[0, 1, 5]], row, rtol=5e-3, atol=5e-3 * np.abs(expected).max())
    again = mbs.load(tmp_path / "bar.xml")
    q, v = again.guess, np.zeros(again.layout.m)
    found = robots.accelerations(again, q, v)
    for row, name in zip(expected, mech.bodies, strict=True):
        np.testing.assert_allclose(found[again.layout.velocity_slices[name]][[0, 1, 5]], row, rtol=1e-8, atol=1e-8)


COUPLED = """<mujoco><option><flag contact="disable"/></option><worldbody>
<body name="a"><joint name="h" axis="0 1 0.5" ref="20" armature="0.1"/><geom type="box" size=".1 .2 .3" mass="2"/>
  <body name="b" pos="0.5 0 0"><joint name="s" type="slide" axis="1 0 0" ref="0.1" stiffness="30" springref="0.2"/>
    <geom type="box" size=".1 .1 .2" mass="1"/>
    <body name="c" pos="0.3 0 0"><joint name="k" axis="0 1 0" damping="0.1"/>
      <geom size=".1" pos=".2 0 0" mass="1"/></body></body></body>
<body name="d" pos="0 2 0"><joint name="x" axis="1 0 0"/><joint name="y" axis="0 1 0"/>
  <geom size=".2" pos="0 0 .3" mass="3"/></body>
<body name="e" pos="0 3 0"><joint name="z" axis="1 0 0"/><geom size=".2" pos="0 0 .3" mass="3"/></body>
</worldbody><tendon>
<fixed name="t" stiffness="4" damping=".2" springlength=".1 .3" frictionloss=".2" armature=".3" range="-3 4" limited="true">
  <joint joint="h" coef=".5"/><joint joint="s" coef="-2"/></fixed>
<fixed name="u" stiffness="5"><joint joint="h" coef="1"/><joint joint="x" coef="1"/></fixed>
<fixed name="v"><joint joint="x" coef="1"/><joint joint="y" coef="2"/><joint joint="k" coef="-1"/></fixed></tendon>
<actuator><position name="servo" tendon="t" kp="6" kv="1" gear="2"/></actuator>
<equality><joint name="cubic" joint1="s" joint2="k" polycoef="0 .2 .3 .4 .5"/><tendon name="sum" tendon1="v"/>
<tendon name="bent" tendon1="v" tendon2="t" polycoef="0 0.4 0.3 0 0"/></equality>
<keyframe><key ctrl="0.5"/></keyframe></mujoco>"""


def test_couplings_and_tendons_are_read_again(tmp_path):
    """Also a polynomial of a tendon's length; with the accelerations of MuJoCo, with loops closed exactly."""
    beside_mujoco = pytest.importorskip("beside_mujoco")
    (tmp_path / "first.xml").write_text(COUPLED)
    paths = [tmp_path / name for name in ("first.xml", "again.xml")]
    models = [mbs.load(paths[0])]
    mbs.save(models[0], paths[1])
    models.append(mbs.load(paths[1]))
    assert {"cubic", "sum", "bent", "t", "t coupling", "u"} <= models[1].constraints.keys()
    assert models[1].forces.keys() == models[0].forces.keys()
    cases = [beside_mujoco.Comparison(*pair, 3, 0.2, closed=True) for pair in zip(paths, models, strict=True)]
    for case in cases:
        errors = case.closed_errors()
        assert errors.mass < 1e-12
        assert errors.acceleration < 1e-9
        assert errors.gap < 1e-9
        assert errors.freedoms == 0
    first, second = (case.reference() for case in cases)
    np.testing.assert_allclose(second.mass, first.mass, atol=1e-12)
    np.testing.assert_allclose(second.accelerations(), first.accelerations(), rtol=1e-7, atol=1e-8)
    stops = [model.forces["t stop"] for model in models]
    np.testing.assert_allclose(*((x.stiffness, x.viscous, x.upper - x.lower) for x in stops), rtol=1e-9)


WRITTEN = {
    "driver": (
        {"drivers": {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0))}},
        "driver 'motor': MJCF has no drivers",
    ),
    "force": (
        {"forces": {"push": mbs.PointForce("crank", (0, 0), (1.0, 0.0))}},
        "force 'push' (PointForce): MJCF has nothing like it",
    ),
    "law of a spring": (
        {"forces": {"stop": mbs.Spring("ground", "crank", force=lambda length, rate: length**3)}},
        "force 'stop' (Spring): its force cannot be represented",
    ),
    "rotor": (
        {"bodies": {"wheel": planar.Rotor(0.1)}},
        "body 'wheel': MJCF needs a mass and three moments of inertia",
    ),
    "distance": (
        {"more": {"rod": planar.Distance("ground", "coupler", (0, 5), (0, 0), 4.0)}},
        "constraint 'rod' (Distance): MJCF has nothing like it",
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_cannot_be_written(tmp_path, name):
    options, message = WRITTEN[name]
    mech = four_bar()
    mech = mbs.Mechanism(
        mech.bodies | options.get("bodies", {}),
        mech.constraints | options.get("more", {}),
        options.get("drivers", {}),
        options.get("forces", {}),
    )
    guess = {"crank": (0.3, 0.4, 1.0), "coupler": (1.9, 1.5, 0.3), "rocker": (3.6, 1.5, 1.8)}
    with pytest.raises(mbs.ModelError) as error:
        mbs.save(mech, tmp_path / "bar.xml", guess=guess)
    assert message in str(error.value)
    assert not (tmp_path / "bar.xml").exists()
