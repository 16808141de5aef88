"""MJCF: models that are read move as in MuJoCo, loops included; errors name the element that cannot be read."""

import warnings

import numpy as np
import pytest

import jaxmbs as mbs
import robots
from jaxmbs import spatial

mujoco = pytest.importorskip("mujoco")
beside_mujoco = pytest.importorskip("beside_mujoco")

SLOW = pytest.param("quadruped", marks=pytest.mark.slow)
ROBOTS = {"scara": robots.SCARA, "crane": robots.CRANE, "quadruped": robots.QUADRUPED}


def loaded(tmp_path, text, name="model.xml", **options):
    path = tmp_path / name
    path.write_text(text)
    return mbs.load(path, **options)


def turned(*vector):
    return np.asarray(mbs.rotation.exp_matrix(np.array(vector, float)))


@pytest.mark.parametrize("name", ROBOTS)
def test_masses_and_accelerations_are_those_of_mujoco(tmp_path, name):
    model, path = loaded(tmp_path, ROBOTS[name]), tmp_path / "model.xml"
    for seed in range(3):
        masses, accelerations, gap = beside_mujoco.Comparison(path, model, seed).errors()
        assert masses < 1e-12
        assert accelerations < 1e-9
        assert gap < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scara", "crane"])
def test_so_are_those_in_joint_coordinates(tmp_path, name):
    model = loaded(tmp_path, ROBOTS[name], ignore=("range",))
    case = beside_mujoco.Comparison(tmp_path / "model.xml", model, 5)
    run = mbs.simulate(model, np.array([0, 1e-6]), case.q, case.v, step=1e-6, formulation=mbs.JointCoordinates())
    expected = case.by_rates @ case.source.d.qacc + case.drift()
    heavy = np.concatenate([model.layout.velocity_slices[b] for b, x in model.bodies.items() if x.mass > 0], axis=None)
    own = [k for part in heavy for k in range(part.start, part.stop)]
    np.testing.assert_allclose(np.asarray(run.a[0])[own], expected[own], rtol=1e-8, atol=1e-9 * np.abs(expected).max())


@pytest.mark.slow
def test_four_bar_follows_a_stiff_mujoco(tmp_path):
    model = loaded(tmp_path, robots.FOUR_BAR)
    times = np.linspace(0, 2, 101)
    assert isinstance(model.constraints["B"], spatial.Spherical)
    assert mbs.assemble(model, model.guess).residual < 1e-10
    run = mbs.simulate(model, times, model.guess, model.velocity, step=1e-3)
    assert not np.any(run.status)
    assert max(np.abs(mbs.constraints(model, q, 0.0)).max() for q in run.q) < 1e-10

    m = mujoco.MjModel.from_xml_string(robots.FOUR_BAR)
    d, apart = mujoco.MjData(m), 0.0
    for k, t in enumerate(times):
        mujoco.mj_step(m, d, round((t - d.time) / m.opt.timestep))
        mujoco.mj_kinematics(m, d)
        for name in model.bodies:
            apart = max(apart, np.abs(run.q[k][model.layout.entries(name)[0]][:3] - d.body(name).xpos).max())
    assert apart < 1e-7


def test_joints_names_limits_and_start(tmp_path):
    text = robots.SCARA.replace("</mujoco>", '<keyframe><key qpos="1 .5 .1 -.3" qvel="1 -2 .3 4"/></keyframe></mujoco>')
    model = loaded(tmp_path, text)
    assert {name: type(c) for name, c in model.constraints.items()} == {
        "column on ground": spatial.Rigid,
        "shoulder": spatial.Revolute,
        "elbow": spatial.Revolute,
        "quill": spatial.Prismatic,
        "wrist": spatial.Revolute,
    }
    # The range in degrees, counted from ref.
    np.testing.assert_allclose(model.limits["shoulder"], np.deg2rad([-145, 115]), atol=1e-12)
    joints = mbs.JointCoordinates().of(model)
    theta = dict(zip(joints.names, joints.coordinates(model.guess), strict=True))
    expected = {"shoulder.phi": 1 - np.deg2rad(15), "elbow.phi": 0.5}
    found = {key: float(theta[key]) for key in expected}
    assert found == pytest.approx(expected, abs=1e-12)
    # Keyframe velocities satisfy the joints, and are the hinge's about its axis.
    v = np.asarray(model.velocity)
    assert np.abs(mbs.constraint_jacobian(model, model.guess, 0.0) @ v).max() < 1e-12
    np.testing.assert_allclose(v[model.layout.velocity_slices["upper"]][3:], (0, 0, 1), atol=1e-12)


def test_welds_sites_and_couplings(tmp_path):
    """A weld with a given relative pose, a connect of sites, a hinge that is held, and two hinges in proportion."""
    bar = '<inertial pos="0 0 .1" mass="1" diaginertia="1 1 1"/>'
    text = f"""<mujoco><worldbody><site name="s" pos="1 2 3"/>
      <body name="a" pos="0 0 1"><freejoint/>{bar}</body>
      <body name="b" pos="0 0 2"><freejoint/>{bar}<site name="t" pos=".1 .2 .3" quat="1 1 0 0"/></body>
      <body name="c" pos="3 0 0"><joint name="c" axis="0 0 1" ref="10"/>{bar}</body>
      <body name="d" pos="3 1 0" quat="1 0 1 0"><joint name="d" axis="1 0 0"/>{bar}</body>
      <body name="e" pos="3 2 0"><joint name="e" axis="0 1 0"/>{bar}</body>
      <body name="f" pos="4 2 0"><joint name="f" axis="0 1 0"/>{bar}</body>
      </worldbody><equality>
      <weld name="w" body1="a" body2="b" anchor=".1 0 0" relpose=".3 .4 .5 .5 .5 .5 .5"/>
      <connect name="k" site1="s" site2="t"/>
      <joint name="held" joint1="e" polycoef=".2 0 0 0 0"/>
      <joint name="geared" joint1="c" joint2="d" polycoef=".1 -.5 0 0 0"/>
      <connect name="off" body1="e" body2="f" anchor="0 0 0" active="false"/>
      </equality></mujoco>"""
    model = loaded(tmp_path, text)
    assert list(model.constraints)[-3:] == ["w", "k", "geared"]
    residual = {}
    for wrong in (0.0, 0.3):
        # MuJoCo's equality: the anchor on b at (.3, .4, .5) of a, b turned by the quaternion against a.
        pose_a = np.array([0.2, 0.3, 0.4]), turned(0.3, -0.2, 0.1)
        turn_b = pose_a[1] @ turned(*(2 * np.pi / 3 / np.sqrt(3) * np.ones(3)))
        r_b = pose_a[0] + pose_a[1] @ [0.3, 0.4, 0.5] - turn_b @ [0.1, 0, 0]
        shift = np.array([1, 2, 3]) - (r_b + turn_b @ [0.1, 0.2, 0.3])
        angle_d = 0.7
        angle_c = 0.1 - 0.5 * angle_d + wrong
        gear = model.constraints["geared"]
        start = np.asarray(model.guess)[model.layout.entries("geared")[0]]
        guess = {
            "a": spatial.coordinates(pose_a[0] + shift, pose_a[1]),
            "b": spatial.coordinates(r_b + shift + wrong, turn_b),
            "c": spatial.coordinates((3, 0, 0), (0, 0, angle_c)),
            "d": spatial.coordinates((3, 1, 0), turned(0, np.pi / 2, 0) @ turned(angle_d, 0, 0)),
            "e": spatial.coordinates((3, 2, 0), (0, 0.2 + wrong, 0)),
            "f": spatial.coordinates((4, 2, 0)),
            "geared": start + np.array([angle_c, angle_d]),
        }
        assert (gear.i, gear.j, gear.others) == ("ground", "c", ("ground", "d"))
        phi = np.asarray(mbs.constraints(model, model.coordinates(guess), 0.0))
        residual[wrong] = np.abs(phi).max()
    assert residual[0.0] < 1e-14
    assert residual[0.3] > 0.1


@pytest.mark.parametrize("name", ["scara", "crane"])
def test_springs_of_joints_have_the_energy_of_mujoco(tmp_path, name):
    """Half a turn to each side of where they start, however the bodies are turned there."""
    text = ROBOTS[name].replace("<flag ", '<flag energy="enable" ')
    model = loaded(tmp_path, text, ignore=("range",))  # MuJoCo counts no energy of limits
    for seed in range(3):
        case = beside_mujoco.Comparison(tmp_path / "model.xml", model, seed, reach=3.1)
        found = mbs.energy(model, case.q, case.v)
        np.testing.assert_allclose([found.potential, found.kinetic], case.source.d.energy, atol=1e-9)


ARM = """<mujoco><option><flag contact="disable"/></option><worldbody>
  <body name="arm"><joint name="hinge" axis="0 1 0"/>
    <geom name="rod" type="capsule" fromto="0 0 0 1 0 0" size=".05"/></body>
  <geom name="floor" type="plane" size="5 5 .1" pos="0 0 -2"/>
</worldbody></mujoco>"""
TOUCHING = ARM.replace('<option><flag contact="disable"/></option>', "")


def joint(attributes):
    return ARM.replace('axis="0 1 0"', f'axis="0 1 0" {attributes}')


def beside(text):
    return ARM.replace("</mujoco>", f"{text}</mujoco>")


def shaped(text):
    return beside(text).replace('type="capsule" fromto="0 0 0 1 0 0" size=".05"', 'type="mesh" mesh="x"')


def two(first, second):
    return ARM.replace('<joint name="hinge" axis="0 1 0"/>', f"<joint name='u' {first}/><joint name='w' {second}/>")


PASSED_OVER = {
    "contact": (TOUCHING, "contact geoms 'floor' of 'ground' and 'rod' of 'arm': they may touch, and contacts are not"),
    "pair": (
        TOUCHING.replace("</mujoco>", '<contact><pair geom1="rod" geom2="floor"/></contact></mujoco>'),
        "contact 2 pairs of geoms, such as ",
    ),
    "actuator": (
        beside('<actuator><muscle name="m" joint="hinge" lengthrange="0 1"/></actuator>'),
        "actuator 'm' (line 5): the gain of type muscle has no counterpart",
    ),
    "plugin": (
        beside(
            '<extension><plugin plugin="mujoco.pid"><instance name="i"/></plugin></extension>'
            '<actuator><plugin name="p" plugin="mujoco.pid" instance="i" joint="hinge"/></actuator>'
        ),
        "plugin actuator 'p' (line 5): plugins are not run",
    ),
    "fluid": (ARM.replace("<option>", '<option density="1.2">'), "fluid density and viscosity: there are no forces"),
    "wrapped": (
        ARM.replace("</worldbody>", '<site name="s" pos="2 0 0"/></worldbody>')
        .replace(
            "</mujoco>",
            '<tendon><spatial name="rope" stiffness="1"><site site="s"/><geom geom="ball"/><site site="t"/></spatial>'
            "</tendon></mujoco>",
        )
        .replace("</body>", '<site name="t" pos="1 0 .1"/><geom name="ball" size=".01" pos="1 0 0"/></body>'),
        "tendon 'rope' (line 5): tendons that wrap around geoms are not represented",
    ),
}


@pytest.mark.parametrize("name", PASSED_OVER)
def test_elements_without_counterpart_are_passed_over(tmp_path, name):
    """With one warning and a sentence of the model; `strict` refuses them, with their lines and the way out."""
    text, message = PASSED_OVER[name]
    with pytest.warns(UserWarning, match="passed over: ") as said:
        model = loaded(tmp_path, text)
    assert len(said) == 1
    assert len(model.passed_over) == 1
    assert model.passed_over[0] in str(said[0].message)
    with pytest.raises(mbs.ModelError) as error:
        loaded(tmp_path, text, strict=True)
    assert message in str(error.value)
    tag = message.partition(" ")[0]
    assert f"ignore={(tag,)}" in str(error.value)
    assert not loaded(tmp_path, text, ignore=(tag,), strict=True).passed_over


def test_strict_lists_all_problems(tmp_path):
    text = TOUCHING.replace("</mujoco>", '<option density="1.2"/></mujoco>')
    with pytest.raises(mbs.ModelError, match=r"fluid .*; contact .*; load it without strict=True, or leave them out"):
        loaded(tmp_path, text, strict=True)


BAD = {
    "unknown tag": (ARM.replace("body", "bdy"), "unrecognized element"),
    "no numbers": (
        beside('<equality><connect body1="arm" body2="world" anchor=""/></equality>'),
        "MuJoCo cannot compile it, for an unknown reason",
    ),
    "malformed": (ARM[:-20], "malformed XML"),
    "nothing": ("<mujoco/>", "worldbody: must have a body with mass"),
    "URDF in disguise": ('<robot name="r"/>', "the root of an MJCF must be <mujoco>, got <robot>"),
    "not a number": (beside('<keyframe><key qpos="nan"/></keyframe>'), "key '': qpos must be finite, got 'nan'"),
    "infinite": (ARM.replace("<body ", '<body pos="inf 0 0" ', 1), "pos must be finite"),
    "huge": (ARM.replace("<body ", '<body pos="1e308 0 0" ', 1), "pos must be less than 1e+100 in size"),
    "entity": ('<!DOCTYPE m [<!ENTITY a "b">]>' + ARM, "document types and entities are refused"),
    "outside": (
        shaped('<asset><mesh name="x" file="../secret.stl"/></asset>'),
        "mesh '../secret.stl': is outside the model's folder; to read it give allow=('..',)",
    ),
    "absolute": (shaped('<asset><mesh name="x" file="/etc/passwd"/></asset>'), "mesh '/etc/passwd': is outside"),
    "folder": (
        shaped('<compiler meshdir=".."/><asset><mesh name="x" file="x.stl"/></asset>'),
        "mesh 'x.stl': is outside the model's folder",
    ),
    "include": (beside('<include file="../other.xml"/>'), "include '../other.xml': is outside"),
    "grid": (
        beside('<asset><hfield name="h" nrow="100000" ncol="100000" size="1 1 1 1"/></asset>'),
        "hfield 'h': has more than",
    ),
    "copies": (
        ARM.replace("</worldbody>", '<replicate count="1000"><replicate count="1000"/></replicate></worldbody>'),
        "more than 10000 copies",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused_in_one_line(tmp_path, name):
    text, message = BAD[name]
    with pytest.raises(mbs.ModelError) as error:
        loaded(tmp_path, text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_what_may_be_left_out(tmp_path):
    with pytest.raises(
        mbs.ModelError, match="'contacts' cannot be ignored; must be one of actuator, armature, contact"
    ):
        loaded(tmp_path, ARM, ignore=("contacts",))
    with pytest.raises(mbs.ModelError, match="loops: only for URDF and SDF; in MJCF write an equality"):
        loaded(tmp_path, ARM, loops={"a": spatial.Spherical("arm", "ground")})


@pytest.mark.one_in(2)
@pytest.mark.parametrize("form", ["hinge", "slide"])
def test_armature_and_friction(tmp_path, form):
    """Accelerations of MuJoCo where the joint moves fast; and both come back from a file that is written."""
    text = joint(f'type="{form}" armature="0.3" frictionloss="0.7"')
    model, plain = loaded(tmp_path, text), loaded(tmp_path, joint(f'type="{form}"'))
    left = loaded(tmp_path, text, ignore=("armature", "frictionloss"))
    m = mujoco.MjModel.from_xml_string(text)
    for speed in (-5.0, 3.0):
        d = mujoco.MjData(m)
        d.qvel[0] = speed
        mujoco.mj_forward(m, d)
        v = {f"arm.{'wy' if form == 'hinge' else 'y'}": speed}
        found = [mbs.simulate(x, np.array([0.0]), x.guess, v).joint("hinge") for x in (model, plain, left)]
        value = [(x.acceleration if form == "hinge" else x.slide_acceleration)[0] for x in found]
        np.testing.assert_allclose(value[0], d.qacc[0], rtol=1e-6)
        np.testing.assert_allclose(value[1], value[2])
        assert abs(value[0] - value[1]) > 0.01
    mbs.save(model, tmp_path / "again.xml")
    again = mujoco.MjModel.from_xml_path(str(tmp_path / "again.xml"))
    np.testing.assert_allclose([again.dof_armature[0], again.dof_frictionloss[0]], [0.3, 0.7])


def test_warnings_of_mujoco_are_warnings_and_no_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outdated = ARM.replace("<option>", '<compiler settotalmass="3"/><option>')
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = loaded(tmp_path, outdated)
    assert all("\n" not in str(message.message) for message in said)
    assert float(model.bodies["arm"].mass) == pytest.approx(3)
    assert [path.suffix for path in tmp_path.iterdir()] == [".xml"]


def test_links_out_of_the_folder_and_files_within(tmp_path):
    tetrahedron = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    text = ARM.replace("<worldbody>", '<asset><mesh name="corner" file="m/corner.obj"/></asset><worldbody>').replace(
        'type="capsule" fromto="0 0 0 1 0 0" size=".05"', 'type="mesh" mesh="corner" density="6"'
    )
    inside, outside = tmp_path / "in" / "m", tmp_path / "out"
    inside.mkdir(parents=True)
    outside.mkdir()
    (outside / "corner.obj").write_text(tetrahedron)
    (inside / "corner.obj").symlink_to(outside / "corner.obj")
    with pytest.raises(mbs.ModelError, match=r"mesh 'm/corner\.obj': is outside"):
        loaded(tmp_path / "in", text)
    (inside / "corner.obj").unlink()
    (inside / "corner.obj").write_text(tetrahedron)
    model = loaded(tmp_path / "in", text)
    # A corner of a cube of side 1 has a sixth of its volume, and its centre a quarter up each edge.
    assert float(model.bodies["arm"].mass) == pytest.approx(1.0)
    at = model.bodies["arm"].centre_of_mass(model.poses(model.guess)["arm"])
    assert np.linalg.norm(np.asarray(at)) < 1.0


def test_files_that_no_mass_depends_on_are_not_opened(tmp_path):
    """Textures, and meshes of bodies with a given inertia; other folders are opened if they are allowed."""
    text = shaped('<asset><mesh name="x" file="../m/x.obj"/><texture name="t" type="cube" fileup="/a.png"/></asset>')
    given = '<inertial pos="0 0 0" mass="2" diaginertia="1 1 1"/></body>'
    assert float(loaded(tmp_path, text.replace("</body>", given)).bodies["arm"].mass) == 2
    (tmp_path / "m").mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "m" / "x.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n")
    assert float(loaded(tmp_path / "in", text, allow=("../m",)).bodies["arm"].mass) == pytest.approx(1000 / 6)


@pytest.mark.parametrize("name", ["scara", SLOW])
def test_read_write_read(tmp_path, name):
    first = loaded(tmp_path, ROBOTS[name])
    mbs.save(first, tmp_path / "again.xml")
    second = mbs.load(tmp_path / "again.xml")
    assert list(second.constraints) == list(first.constraints)
    for joint, limits in first.limits.items():
        np.testing.assert_allclose(second.limits[joint], limits, atol=1e-12)
    cases = [
        beside_mujoco.Comparison(tmp_path / x, model, 7) for x, model in (("model.xml", first), ("again.xml", second))
    ]
    masses, forces = zip(*(case.equations() for case in cases), strict=True)
    np.testing.assert_allclose(*masses, atol=1e-12)
    np.testing.assert_allclose(*forces, rtol=1e-7, atol=1e-8)


def test_sites_are_frames(tmp_path):
    """Also those of a body without mass that is part of another: place and axes in the frame of the body that moves."""
    arm = """<body name="arm"><joint axis="0 1 0"/><geom size="0.1"/>
      <body name="hand" pos="0 0 1" euler="0 0 90"><site name="tip" pos="0.5 0 0" euler="0 0 90"/></body></body>"""
    path = tmp_path / "arm.xml"
    path.write_text(f"<mujoco><worldbody><site name='post' pos='1 2 3'/>{arm}</worldbody></mujoco>")
    model = mbs.load(path)
    assert model.frames["tip"].body == "arm"
    np.testing.assert_allclose(model.frames["tip"].origin, (0, 0.5, 1), atol=1e-15)
    np.testing.assert_allclose(model.frames["tip"].axes, np.diag([-1, -1, 1]), atol=1e-15)
    assert model.points["post"][0] == "ground"
    np.testing.assert_allclose(model.points["post"][1], (1, 2, 3))
