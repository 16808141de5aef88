"""URDF: robots move as Pinocchio says; loops are closed by the user's constraints; what is not a tree is refused."""

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


def test_fingers_on_one_palm_mimic_each_other(tmp_path):
    text = TWO_BARS.replace('type="revolute"><parent link="world"/><child link="right"/>', "MIMIC").replace(
        "MIMIC",
        'type="revolute"><parent link="world"/><child link="right"/><mimic joint="a" multiplier="-0.5" offset="0.1"/>',
    )
    model = loaded(tmp_path, text)
    turned = lambda x, angle: spatial.coordinates((x, 0, 0), (0, angle, 0))
    gap = {}
    for second in (0.1 - 0.5 * 0.3, 0.2):
        first = {"left": turned(0, 0.3), "right": turned(2, second), "top": model.guess[-7:]}
        gear = model.constraints["b mimic"]
        # Its own two angles follow from the line of centres.
        alpha = np.subtract(model.guess[-2:] * 0 + [gear.angle_i + 0.1, gear.angle_j], [second, 0.3])
        q = model.coordinates(first | {"b mimic": alpha})
        gap[second] = np.abs(mbs.constraints(model, q, 0.0)[-3:]).max()
    assert gap[0.1 - 0.5 * 0.3] < 1e-14
    assert gap[0.2] == pytest.approx(0.25)


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
    "tag": (
        TWO_BARS.replace("</robot>", '<gazebo reference="left"/></robot>'),
        "gazebo: cannot be represented; leave it out",
    ),
    "unknown tag": (TWO_BARS.replace("</robot>", "<spring/></robot>"), "spring: cannot be represented"),
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
    "no mass": (
        TWO_BARS.replace('<link name="right">', '<link name="right"/><link name="unused">').replace(
            "</robot>", robots._joint("e", "fixed", "left", "unused") + "</robot>"
        ),
        "link 'right' has no mass, moves and carries nothing",
    ),
    "two inertias": (TWO_BARS.replace("</inertial>", "</inertial><inertial/>", 1), "inertial appears twice"),
    "no inertia": (TWO_BARS.replace("<inertia ", "<origin ", 1), "is missing"),
    "tag in the inertia": (TWO_BARS.replace("</inertial>", "<foo/></inertial>", 1), "foo of inertial"),
    "limits": (
        TWO_BARS.replace("</joint>", '<limit lower="2" upper="-2"/></joint>', 1),
        "joint 'a': limit: lower is above upper",
    ),
    "no body": (robots.PUMA_AS_PRINTED, "body 'link3' (Body): the largest moment of inertia must not exceed the sum"),
    "mimic": (
        TWO_BARS.replace('<child link="top"/>', '<child link="top"/><mimic joint="a"/>'),
        "'c mimic': couples 'c' and 'a'; only hinges on the same body can be coupled",
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
    text = TWO_BARS.replace("</joint>", '<dynamics friction="0.1"/></joint>', 1)
    assert list(loaded(tmp_path, text, ignore=("friction",)).forces) == ["gravity"]
    friction = loaded(tmp_path, text).forces["a friction"]
    assert (friction.joint, float(friction.preload)) == ("a", 0.1)
    with pytest.raises(mbs.ModelError, match="'fricton' cannot be ignored"):
        loaded(tmp_path, text, ignore=("fricton",))
    collision = TWO_BARS.replace("</link>", "<collision/></link>", 1)
    with pytest.warns(UserWarning, match="collision of link 'left'"):
        loaded(tmp_path, collision)


def test_loops_name_bodies(tmp_path):
    for bodies, message in ((("top", "rigt"), "no body is called 'rigt'"), (("top", "world"), "part of 'ground'")):
        with pytest.raises(mbs.ModelError, match=message):
            loaded(tmp_path, TWO_BARS, loops={"d": spatial.Spherical(*bodies)})
