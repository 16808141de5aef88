"""URDF: robots move as Pinocchio says; unknown tags are passed over; inertias are repaired; joints mimic others."""

import numpy as np
import pytest

import jaxmbs as mbs
import robots
from jaxmbs import spatial

ROBOTS = {"puma": robots.PUMA, "ur5": robots.UR5, "satellite": robots.SATELLITE}


def loaded(tmp_path, text, **options):
    path = tmp_path / "robot.urdf"
    path.write_text(text)
    return mbs.load(path, **options)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ROBOTS)
def test_accelerations_are_those_of_pinocchio(tmp_path, name):
    pytest.importorskip("pinocchio")
    model = loaded(tmp_path, ROBOTS[name], ignore=("limit",))  # Pinocchio knows of no stops
    for seed in range(3):
        q, v, expected = robots.states(robots.by_pinocchio(ROBOTS[name], model.bodies, seed=seed), model)
        assert np.abs(mbs.constraints(model, q, 0.0)).max() < 1e-13
        found = robots.accelerations(model, q, v)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", ROBOTS)
def test_so_are_those_in_joint_coordinates(tmp_path, name):
    pytest.importorskip("pinocchio")
    model = loaded(tmp_path, ROBOTS[name], ignore=("limit",))  # Pinocchio knows of no stops
    q, v, expected = robots.states(robots.by_pinocchio(ROBOTS[name], model.bodies, seed=5), model)
    run = mbs.simulate(model, np.array([0, 1e-6]), q, v, step=1e-6, formulation=mbs.JointCoordinates())
    np.testing.assert_allclose(run.a[0], expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())


def test_what_links_and_joints_become(tmp_path):
    model = loaded(tmp_path, robots.UR5)
    assert next(iter(model.bodies)) == "base_link"
    assert "tool0" not in model.bodies
    # A link without mass is a frame of the one that it is fixed to.
    assert list(model.bodies["wrist_3"].frames) == ["tool0"]
    assert isinstance(model.constraints["base_link on ground"], spatial.Rigid)
    assert isinstance(model.constraints["grip"], spatial.Prismatic)
    assert model.limits == {"grip": (0.0, 0.1)}
    np.testing.assert_allclose(model.forces["gravity"].acceleration, (0, 0, -9.81))
    # The tool of the arm stretched out along x: d5 and d6 down and aside, as the maker's table of lengths says.
    base = np.array([np.cos(0.5), np.sin(0.5), 0]), np.array([-np.sin(0.5), np.cos(0.5), 0])
    along, aside = 0.425 + 0.39225, 0.13585 - 0.1197 + 0.093 + 0.0823
    tip = model.point(model.guess, "wrist_3", model.bodies["wrist_3"].frames["tool0"].origin)
    expected = np.array([0.1, 0.2, 0.3 + 0.089159 - 0.09465]) + along * base[0] + aside * base[1]
    np.testing.assert_allclose(tip, expected, atol=1e-12)


TWO_BARS = f"""
<robot name="bars"><link name="world"/>
  <link name="left">{robots._inertial(1, (0, 0, 0.5), (0.1, 0.1, 0.01))}</link>
  <link name="right">{robots._inertial(1, (0, 0, 0.5), (0.1, 0.1, 0.01))}</link>
  <link name="top">{robots._inertial(2, (1, 0, 0), (0.01, 0.7, 0.7))}</link>
  {robots._joint("a", "revolute", "world", "left", axis=(0, 1, 0))}
  {robots._joint("b", "revolute", "world", "right", (2, 0, 0), axis=(0, 1, 0))}
  {robots._joint("c", "revolute", "left", "top", (0, 0, 1), axis=(0, 1, 0))}
</robot>"""


@pytest.mark.variant
def test_a_loop_is_closed_by_a_constraint_of_the_user(tmp_path):
    closing = {"d": spatial.Spherical("top", "right", (2, 0, 0), (0, 0, 1))}
    model = loaded(tmp_path, TWO_BARS, loops=closing)
    assert np.abs(mbs.constraints(model, model.guess, 0.0)).max() < 1e-15
    assert mbs.diagnose(model, model.guess, 0.0).dof == 1
    assert list(loaded(tmp_path, TWO_BARS, loops=[("d", closing["d"])]).constraints) == list(model.constraints)


def test_any_two_joints_mimic_each_other(tmp_path):
    """A slide follows a hinge of another branch, and a hinge the next one in its chain, as in Pinocchio's equations."""
    pin = pytest.importorskip("pinocchio")
    mimic = lambda of, k, c: f'<mimic joint="{of}" multiplier="{k}" offset="{c}"/>'
    text = (
        TWO_BARS.replace('"b" type="revolute"', '"b" type="prismatic"')
        .replace('<child link="right"/>', '<child link="right"/>' + mimic("c", -0.4, 0.1))
        .replace('<child link="left"/>', '<child link="left"/>' + mimic("c", 0.5, 0.2))
    )
    model = loaded(tmp_path, text)
    limit = '<limit lower="-9" upper="9" effort="1" velocity="1"/></joint>'
    robot = pin.buildModelFromXML(
        TWO_BARS.replace('"b" type="revolute"', '"b" type="prismatic"').replace("</joint>", limit)
    )
    index = {name: robot.joints[robot.getJointId(name)].idx_v for name in "abc"}
    along, start = np.zeros(3), np.zeros(3)
    for name, ratio, offset in (("a", 0.5, 0.2), ("b", -0.4, 0.1), ("c", 1.0, 0.0)):
        along[index[name]], start[index[name]] = ratio, offset
    q, v = start + 0.3 * along, 0.7 * along
    data = robot.createData()
    mass, bias = pin.crba(robot, data, q), pin.nonLinearEffects(robot, data, q, v)
    mass = np.triu(mass) + np.triu(mass, 1).T
    a = along * -(along @ bias) / (along @ mass @ along)
    expected = robots.by_pinocchio(robot, model.bodies, state=(q, v, a))
    angles = {"a mimic": (q[index["a"]], 0.3), "b mimic": 0.3}
    q = model.coordinates({**expected.q, **angles})
    assert np.abs(mbs.constraints(model, q, 0.0)).max() < 1e-14
    v = model.velocities({**expected.v, "a mimic": (v[index["a"]], 0.7), "b mimic": 0.7})
    found = robots.accelerations(model, np.asarray(q), np.asarray(v))
    np.testing.assert_allclose(found[:18], np.concatenate(list(expected.a.values())), rtol=1e-9, atol=1e-9)


def test_the_base_is_fixed_or_free(tmp_path):
    pytest.importorskip("pinocchio")
    fixed = loaded(tmp_path, robots.SATELLITE, base="fixed")
    assert isinstance(fixed.constraints["hull on ground"], spatial.Rigid)
    free = loaded(tmp_path, robots.UR5, base="free", ignore=("limit",))
    assert "base_link on ground" not in free.constraints
    expected = robots.by_pinocchio(robots.UR5, free.bodies, free=True)
    q, v, a = robots.states(expected, free)
    assert np.abs(mbs.constraints(free, q, 0.0)).max() < 1e-13
    np.testing.assert_allclose(robots.accelerations(free, q, v), a, rtol=1e-8, atol=1e-9 * np.abs(a).max())
    with pytest.raises(mbs.ModelError, match='base must be "fixed" or "free"'):
        loaded(tmp_path, robots.UR5, base="floating")


def test_what_is_passed_over_is_said_once(tmp_path):
    text = robots.UR5.replace("</robot>", '<gazebo reference="tool0"/><ros2_control name="arm"/></robot>')
    text = text.replace("</link>", "\n<collision/></link>").replace("</joint>", "<joint_properties/></joint>", 1)
    text = text.replace('link="base_link"/><origin', 'link="base_link"/><dynamics damping="1" friction="2"/><origin')
    with pytest.warns(UserWarning, match="passed over") as caught:
        model = loaded(tmp_path, text)
    [warning] = caught
    assert str(warning.message) == f"robot.urdf: passed over: {'; '.join(model.passed_over)}"
    assert len(model.passed_over) == 6
    assert model.passed_over[-1].startswith("friction: joint 'base_joint' (line 2): it is not read for fixed joints")
    collisions = next(sentence for sentence in model.passed_over if sentence.startswith("collision"))
    first = "collision: link 'base_link' (line 2), link 'shoulder' (line 3), link 'upper_arm' (line 4) and 5 more: "
    assert collisions == f"{first}contacts are not simulated"
    assert mbs.Model(model.bodies, passed_over=model.passed_over).passed_over == model.passed_over
    with pytest.raises(mbs.ModelError) as error:
        loaded(tmp_path, text, strict=True)
    for words in (
        "gazebo",
        "ros2_control 'arm'",
        "collision link 'wrist_3' (line 8)",
        "damping joint 'base_joint'",
    ):
        assert words in str(error.value), words
    left_out = ("gazebo", "ros2_control", "collision", "joint_properties", "damping", "friction")
    assert loaded(tmp_path, text, strict=True, ignore=left_out).passed_over == ()


def test_all_errors_are_in_one_message_with_their_lines(tmp_path):
    text = TWO_BARS.replace('value="2"', 'value="${m}"').replace('"b" type="revolute"', '"b" type="hinge"')
    text = text.replace('<parent link="left"/>', '<parent link="lft"/>')
    with pytest.raises(mbs.ModelError) as error:
        loaded(tmp_path, text)
    assert str(error.value) == (
        "robot.urdf: line 5: link 'top': value must be 1 finite number, got '${m}'; line 7: joint 'b': type 'hinge' is not "
        "known; line 8: joint 'c': parent 'lft' is not a link"
    )


def test_inertias_that_no_body_has_become_the_nearest_possible_ones(tmp_path):
    """The moments 1, 2 and 4 have the second moments of mass 2.5, 1.5 and −0.5, of which the last one becomes zero."""
    given = lambda moments, **turn: loaded(
        tmp_path, f'<robot name="r"><link name="a">{robots._inertial(2, (0, 0, 0), moments, **turn)}</link></robot>'
    )
    with pytest.warns(UserWarning, match=r"link 'a' \(line 1\): no body has these moments, .* 51 % of the largest"):
        model = given((1, 2, 4), rpy=(0.3, -0.2, 0.9))
    np.testing.assert_allclose(np.linalg.eigvalsh(model.bodies["a"].inertia), (1.5, 2.5, 4), rtol=1e-14)
    with pytest.warns(UserWarning, match=r"inertia: .* so the nearest possible ones are taken$"):
        rounded = given((1, 2, 3.001, 1e-3, 0, 0))
    assert np.abs(np.asarray(rounded.bodies["a"].inertia) - ((1, 1e-3, 0), (1e-3, 2, 0), (0, 0, 3.001))).max() < 6e-4
    for moments in ((-2, 2, 2), (1, 1, -0.9)):
        with pytest.raises(mbs.ModelError, match="line 1: link 'a': no rigid body has the moments of inertia"):
            given(moments)
    # Rounding of an inertia that is zero.
    np.testing.assert_array_equal(given((0, 0, 1e-30)).bodies["a"].inertia, np.zeros((3, 3)))


def test_links_without_mass_move_if_they_carry_others(tmp_path):
    more = '<link name="vane"/><link name="flag"/>' + robots._joint("mast", "revolute", "hull", "vane", (0, 1, 0))
    more += robots._joint("rope", "prismatic", "vane", "flag")
    text = robots.SATELLITE.replace("</robot>", f"{more}</robot>")
    with pytest.warns(UserWarning, match="joint: 'mast' .line 1., 'rope' .line 1.: it moves nothing that has a mass"):
        model = loaded(tmp_path, text)
    assert {"yoke", "dish"} <= set(model.bodies)
    assert {"pan", "tilt"} <= set(model.constraints)
    assert not {"vane", "flag"} & set(model.bodies)
    assert model.frames["flag"].body == "hull"
    np.testing.assert_allclose(model.points["vane"][1], (0, 1, 0))
    # A robot without any mass moves if it is driven.
    still = loaded(
        tmp_path,
        '<robot name="r"><link name="a"/><link name="b"/>' + robots._joint("j", "revolute", "a", "b") + "</robot>",
    )
    turned = mbs.kinematics(still.drive("j", mbs.motion.Ramp(rate=2.0)), np.array([0, 0.4]))
    np.testing.assert_allclose(turned.q[1], (0, 0, 0, np.cos(0.4), 0, 0, np.sin(0.4)), atol=1e-12)


BAD = {
    "loop": (
        TWO_BARS.replace("</robot>", robots._joint("d", "revolute", "right", "top") + "</robot>"),
        "joints 'c' and 'd' both lead to link 'top': they form a loop",
    ),
    "circle": (
        TWO_BARS.replace('<parent link="world"/><child link="left"/>', '<parent link="top"/><child link="left"/>'),
        "joints 'a', 'c': form a loop",
    ),
    "two roots": (TWO_BARS.replace("</robot>", '<link name="alone"/></robot>'), "links 'world' and 'alone'"),
    "no such link": (
        TWO_BARS.replace('<parent link="left"/>', '<parent link="lft"/>'),
        "joint 'c': parent 'lft' is not a link",
    ),
    "friction": (
        TWO_BARS.replace("</joint>", '<dynamics friction="-0.1"/></joint>', 1),
        "preload must not be negative",
    ),
    "number": (TWO_BARS.replace('value="2"', 'value="${m}"'), "link 'top': value must be 1 finite number, got '${m}'"),
    "nan": (TWO_BARS.replace('value="2"', 'value="nan"'), "link 'top': value must be 1 finite number"),
    "huge": (
        TWO_BARS.replace('<mass value="2"/>', '<mass value="1e308"/>').replace(
            "</joint>", '<limit lower="-1" upper="1" effort="1" velocity="1"/></joint>', 1
        ),
        "the inertia at a joint is not finite",
    ),
    "type": (TWO_BARS.replace('"revolute"', '"screw"', 1), "joint 'a': type 'screw' is not known"),
    "entity": ('<!DOCTYPE r [<!ENTITY a "b">]>' + TWO_BARS, "<!DOCTYPE: document types and entities are refused"),
    "malformed": (TWO_BARS[:-20], "malformed XML"),
    "not a robot": ("<mujoco/>", "the root of a URDF must be <robot>, got <mujoco>"),
    "two inertias": (TWO_BARS.replace("</inertial>", "</inertial><inertial/>", 1), "inertial appears twice"),
    "no inertia": (TWO_BARS.replace("<inertia ", "<origin ", 1), "is missing"),
    "scenery": ('<robot name="floor"><link name="floor"/></robot>', "is scenery without a moving body"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused_in_one_line(tmp_path, name):
    text, message = BAD[name]
    with pytest.raises(mbs.ModelError) as error:
        loaded(tmp_path, text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_what_may_be_left_out(tmp_path):
    text = TWO_BARS.replace("</joint>", '<dynamics friction="0.1"/></joint>', 1)
    assert list(loaded(tmp_path, text, ignore=("friction",)).forces) == ["gravity"]
    friction = loaded(tmp_path, text).forces["a friction"]
    assert (friction.joint, float(friction.preload)) == ("a", 0.1)
    with pytest.raises(mbs.ModelError, match="'fricton' cannot be ignored"):
        loaded(tmp_path, text, ignore=("fricton",))
    for part in ("mimic", "limit"):
        odd = {"mimic": '<mimic joint="lost"/>', "limit": '<limit lower="2" upper="-2"/>'}[part]
        with pytest.warns(UserWarning, match=rf"{part}: joint 'a' \(line 6\): "):
            assert "a" in loaded(tmp_path, TWO_BARS.replace("</joint>", f"{odd}</joint>", 1)).constraints
        assert loaded(tmp_path, TWO_BARS.replace("</joint>", f"{odd}</joint>", 1), ignore=(part,)).passed_over == ()


def test_joints_that_mimic_others_have_the_masses_and_accelerations_of_pinocchio(tmp_path):
    """With an impossible inertia, and joints that move no mass, which are held at zero."""
    beside_pinocchio = pytest.importorskip("beside_pinocchio")
    link = lambda name, moments: f'<link name="{name}">{robots._inertial(1, (0, 0.1, 0.5), moments)}</link>'
    joint = lambda name, parent, child, axis, more="": (
        f'<joint name="{name}" type="{"prismatic" if name == "s" else "continuous"}"><parent link="{parent}"/>'
        f'<child link="{child}"/><origin xyz="0.3 0 0.2" rpy="0.1 0.2 0.3"/><axis xyz="{axis}"/>{more}</joint>'
    )
    no_limit = '<limit lower="-1e6" upper="1e6" effort="1" velocity="1"/>'
    text = "".join(
        [
            *(
                '<link name="base"/>',
                link("a", (0.1, 0.2, 0.15)),
                link("b", (0.1, 0.2, 0.4)),
                link("c", (0.1, 0.1, 0.1)),
            ),
            *('<link name="tip"/>', joint("h", "base", "a", "0 1 0", '<dynamics damping="0.3"/>')),
            joint("k", "a", "b", "1 0 0", '<mimic joint="h" multiplier="-2" offset="0.1"/>'),
            joint("s", "b", "c", "0 1 1", f'<mimic joint="k" multiplier="0.3"/>{no_limit}'),
            joint("idle", "c", "tip", "0 0 1"),
        ]
    )
    with pytest.warns(UserWarning, match="inertia: link 'b'"):
        model = loaded(tmp_path, f'<robot name="r">{text}</robot>')
    errors = beside_pinocchio.Comparison(tmp_path / "robot.urdf", model, 2).errors()
    assert errors.mass < 1e-13
    assert errors.acceleration < 1e-11
    assert errors.gap < 1e-11
    assert errors.freedoms == 0
