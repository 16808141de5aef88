"""SDF: poses relative to frames, loops, screws and gearboxes against a URDF twin and closed forms; bad files."""

import numpy as np
import pytest
from test_urdf_loops import FIVE_BAR, MEETS, TIP

import jaxmbs as mbs
import robots
from jaxmbs import spatial

H = np.pi / 2


def _link(name, mass=1.0, com=(0, 0, 0), moments=(1, 1, 1), pose="", more=""):
    """Return the SDF of a link."""
    entries = zip(("ixx", "iyy", "izz", "ixy", "ixz", "iyz"), (*moments, 0, 0, 0)[:6], strict=True)
    inertia = "".join(f"<{key}>{value}</{key}>" for key, value in entries)
    place = f"<pose>{' '.join(map(str, com))} 0 0 0</pose><mass>{mass}</mass>"
    return f'<link name="{name}">{pose}<inertial>{place}<inertia>{inertia}</inertia></inertial>{more}</link>'


def _joint(name, kind, parent, child, axis="0 0 1", pose="", more="", in_axis=""):
    """Return the SDF of a joint."""
    axes = "" if kind in ("fixed", "ball") else f"<axis><xyz>{axis}</xyz>{in_axis}</axis>"
    return (
        f'<joint name="{name}" type="{kind}">{pose}<parent>{parent}</parent><child>{child}</child>{axes}{more}</joint>'
    )


def _model(*parts, name="m", version="1.9", more=""):
    """Return an SDF file with one model."""
    return f'<sdf version="{version}"><model name="{name}">{more}{"".join(parts)}</model></sdf>'


def loaded(tmp_path, text, **options):
    path = tmp_path / "model.sdf"
    path.write_text(text)
    return mbs.load(path, **options)


# The five-bar of the tests of URDF; the joint at the tip is one like the others.
FIVE_BAR_SDF = _model(
    _link("plate", 5, (0, 0, 0.1), (0.1, 0.2, 0.15)),
    _link("left", 1, (0.1, 0, 0), (1e-3, 2e-2, 2e-2), f'<pose relative_to="plate">0 0 0 {H} 0 0</pose>'),
    '<frame name="knee" attached_to="left"><pose degrees="true">0.3 0 0 0 0 68.75493541569878</pose></frame>',
    _link("left_rod", 0.5, (0.2, 0, 0.01), (1e-3, 1e-2, 1e-2, 1e-4, 0, 0), '<pose relative_to="knee"/>'),
    _link("right_rod", 0.7, (0.2, 0.02, 0), (1e-3, 1e-2, 1e-2), '<pose relative_to="right">0.3 0 0 0 0 1.9</pose>'),
    _link(
        "right", 1, (0.1, 0, 0), (1e-3, 2e-2, 2e-2),
        f'<pose rotation_format="quat_xyzw">0.5 0 0  {np.sin(H / 2)} 0 0 {np.cos(H / 2)}</pose>',
    ),
    _joint("base", "fixed", "world", "plate"),
    _joint("motor_left", "revolute", "plate", "left"),
    _joint("motor_right", "revolute", "plate", "right", "0 -1 0").replace("<xyz>", '<xyz expressed_in="__model__">'),
    _joint("knee_left", "continuous", "left", "left_rod"),
    _joint("knee_right", "revolute", "right", "right_rod"),
    _joint("tip", "revolute", "left_rod", "right_rod", pose='<pose relative_to="left_rod">0.6 0 0 0 0 0</pose>'),
)  # fmt: skip


def test_a_loop_moves_as_its_twin_in_urdf(tmp_path):
    model = loaded(tmp_path, FIVE_BAR_SDF.replace("0 0 -9.8", ""))
    (tmp_path / "twin.urdf").write_text(FIVE_BAR.format(frames=""))
    pin = spatial.Revolute("left_rod", "right_rod", (*TIP, 0), (*MEETS, 0), (0, 0, 1))
    with pytest.warns(UserWarning, match="joint_properties"):
        twin = mbs.load(tmp_path / "twin.urdf", loops={"tip": pin}, ignore=("limit", "collision"))
    assert mbs.diagnose(model, model.guess).dof == 2
    assert model.frames["knee"].body == "left"
    assert np.abs(mbs.constraints(model, model.guess)).max() < 1e-12
    at_rest = {name: np.asarray(twin.guess[twin.layout.body_slices[name]]) for name in twin.bodies}
    np.testing.assert_allclose(model.coordinates(at_rest), model.guess, atol=1e-12)
    faster = mbs.Model(model.bodies, model.constraints, forces={"gravity": twin.forces["gravity"]}, guess=model.guess)
    found = robots.accelerations(faster, model.guess, np.zeros(model.layout.m))
    expected = robots.accelerations(twin, twin.guess, np.zeros(twin.layout.m))
    for name, place in model.layout.velocity_slices.items():
        np.testing.assert_allclose(found[place], expected[twin.layout.velocity_slices[name]], atol=1e-9)


@pytest.mark.parametrize(
    "pitch", ["<screw_thread_pitch>0.02</screw_thread_pitch>", f"<thread_pitch>{-100 * np.pi}</thread_pitch>"]
)
def test_a_nut_falls_along_its_screw(tmp_path, pitch):
    """A nut falls with g / (1 + J (2π/p)²/m) and turns with the acceleration 2π/p times this."""
    text = _model(_link("nut", 2.0, moments=(1e-4, 1e-4, 2e-5)), _joint("thread", "screw", "world", "nut", more=pitch))
    model = loaded(tmp_path, text)
    assert isinstance(model.constraints["thread"], spatial.Screw)
    turns = 2 * np.pi / 0.02
    fall = -9.8 / (1 + 2e-5 * turns**2 / 2.0)
    found = robots.accelerations(model, model.guess, np.zeros(6))
    np.testing.assert_allclose(found, (0, 0, fall, 0, 0, turns * fall), rtol=1e-9, atol=1e-9)


def test_a_gearbox_couples_two_hinges_on_one_axis(tmp_path):
    """θ₂ = −ratio θ₁ on one axis: θ̈₂ = m g l / (J₂ + m l² + J₁ / ratio²) for an arm of length l along x."""
    ratio = 0.04
    gear = f"<gearbox_ratio>{ratio}</gearbox_ratio><gearbox_reference_body>world</gearbox_reference_body>"
    gear += "<axis2><xyz>0 1 0</xyz></axis2>"
    text = _model(
        _link("motor", 0.5, moments=(1e-5, 2e-5, 1e-5)),
        _link("arm", 3.0, (0.4, 0, 0), (0.1, 0.2, 0.2)),
        _joint("shaft", "revolute", "world", "motor", "0 1 0"),
        _joint("hip", "revolute", "world", "arm", "0 1 0"),
        _joint("gear", "gearbox", "motor", "arm", "0 1 0", more=gear),
    )
    model = loaded(tmp_path, text)
    assert mbs.diagnose(model, model.guess).dof == 1
    rate = 3 * 9.8 * 0.4 / (0.2 + 3 * 0.16 + 2e-5 / ratio**2)
    found = robots.accelerations(model, model.guess, np.zeros(model.layout.m))
    slices = model.layout.velocity_slices
    np.testing.assert_allclose(found[slices["arm"]], (0, 0, 0, 0, rate, 0), atol=1e-8)
    np.testing.assert_allclose(found[slices["motor"]], (0, 0, 0, 0, -rate / ratio, 0), atol=1e-6)


def test_springs_limits_and_joints(tmp_path):
    spring = (
        "<dynamics><damping>0.5</damping><spring_stiffness>7</spring_stiffness><spring_reference>0.2</spring_reference>"
    )
    limit = "<limit><lower>-1</lower><upper>2</upper></limit>"
    text = _model(
        _link("a"), _link("b"), _link("c"), _link("d"),
        _joint("hinge", "revolute", "world", "a", in_axis=f"{spring}<friction>0.1</friction></dynamics>{limit}"),
        _joint("slide", "prismatic", "a", "b", "1 0 0", in_axis="<limit><lower>-1e16</lower><upper>1e16</upper></limit>"),
        _joint("cross", "universal", "b", "c", "1 0 0", more="<axis2><xyz>0 1 0</xyz></axis2>"),
        _joint("ball", "ball", "c", "d"),
        _joint("back", "prismatic", "d", "a", "0 1 0", in_axis=limit),
        _link("tool", 0, moments=(0, 0, 0)),
        _joint("mount", "fixed", "d", "tool", pose="<pose>0 0 0 0 0 0</pose>"),
    )  # fmt: skip
    with pytest.warns(UserWarning, match="limit: joint 'back' .line 1.: a joint that closes a loop has no stops"):
        model = loaded(tmp_path, text)
    kinds = {name: type(joint) for name, joint in model.constraints.items()}
    assert kinds == {
        "hinge": spatial.Revolute, "slide": spatial.Prismatic, "cross": spatial.Universal, "ball": spatial.Spherical,
        "back": spatial.Prismatic,
    }  # fmt: skip
    assert model.limits == {"hinge": (-1.0, 2.0)}
    assert sorted(model.forces) == ["gravity", "hinge friction", "hinge spring", "hinge stop"]
    assert (float(model.forces["hinge spring"].stiffness), float(model.forces["hinge spring"].free_angle)) == (7.0, 0.2)
    assert model.frames["tool"].body == "d"


def test_axes_of_old_files_are_in_the_frame_of_the_model(tmp_path):
    turned = _link("a", pose="<pose>0 0 0 0 1.5707963267948966 0</pose>")
    axes = {}
    for version, more in (("1.4", ""), ("1.6", ""), ("1.6", "<use_parent_model_frame>1</use_parent_model_frame>")):
        text = _model(turned, _joint("j", "revolute", "world", "a", in_axis=more), version=version)
        axes[version, more] = np.asarray(loaded(tmp_path, text).constraints["j"].axes_i)[:, 2].round(12).tolist()
    assert list(axes.values()) == [[0, 0, 1], [1, 0, 0], [0, 0, 1]]


def test_models_of_a_world(tmp_path):
    box = _link("box", pose="<pose>0 0 1 0 0 0</pose>")
    text = (
        '<sdf version="1.7"><world name="w"><gravity>0 0 -3.7</gravity><physics/><light/><include><uri>x</uri></include>'
        f'<model name="a"><pose>1 0 0 0 0 0</pose>{box}<plugin/><model name="inner"/></model>'
        f'<model name="b"><static>true</static>{box}</model></world></sdf>'
    )
    with pytest.warns(UserWarning, match="passed over"):
        model = loaded(tmp_path, text)
    assert list(model.bodies) == ["a::box"]
    np.testing.assert_allclose(model.guess[:3], (1, 0, 1))
    assert not model.constraints
    assert model.frames["b::box"].body == "ground"
    np.testing.assert_allclose(model.forces["gravity"].acceleration, (0, 0, -3.7))
    assert [sentence.split(":")[0] for sentence in model.passed_over] == ["include", "plugin", "model"]
    with pytest.raises(mbs.ModelError, match="other files are not read"):
        loaded(tmp_path, text, strict=True)
    with pytest.warns(UserWarning, match="passed over"):
        fixed = loaded(tmp_path, text, base="fixed")
    assert isinstance(fixed.constraints["a::box on ground"], spatial.Rigid)
    free = loaded(tmp_path, FIVE_BAR_SDF, base="free")
    assert "base" not in free.constraints


def test_settings_that_change_the_motion_are_named(tmp_path):
    """Damping of a link by its medium, a recorded state and a kinematic link; not where they are zero or false."""
    world = '<sdf version="1.7"><world name="w">{}<model name="a">{}</model></world></sdf>'
    quiet = "<velocity_decay><linear>0.0</linear><angular/></velocity_decay><kinematic>false</kinematic>"
    model = loaded(tmp_path, world.format("<wind/>", _link("box", more=quiet)))
    assert model.passed_over == ()
    acting = "<velocity_decay><linear>0.1</linear></velocity_decay><kinematic>true</kinematic>"
    with pytest.warns(UserWarning, match="passed over"):
        model = loaded(
            tmp_path, world.format("<wind><linear_velocity>1 0 0</linear_velocity></wind>", _link("box", more=acting))
        )
    assert [sentence.split(":")[0] for sentence in model.passed_over] == ["wind", "velocity_decay", "kinematic"]


def test_links_in_a_ring_without_a_root(tmp_path):
    ring = [_joint(f"j{k}", "revolute", f"l{k}", f"l{(k + 1) % 4}", "1 0 0") for k in range(4)]
    model = loaded(tmp_path, _model(*(_link(f"l{k}", pose=f"<pose>{k} 0 0 0 0 0</pose>") for k in range(4)), *ring))
    assert sorted(model.constraints) == ["j0", "j1", "j2", "j3"]
    assert np.abs(mbs.constraints(model, model.guess)).max() < 1e-12


A, B = _link("a"), _link("b")
BAD = {
    "root": ("<robot/>", "the root of an SDF must be <sdf>, got <robot>"),
    "type": (_model(A, _joint("j", "plasma", "world", "a")), "line 1: joint 'j': type 'plasma' is not known"),
    "parent": (_model(A, _joint("j", "fixed", "up", "a")), "joint 'j': 'up' is not a link"),
    "itself": (_model(A, _joint("j", "ball", "a", "a")), "joint 'j': connects 'a' with itself"),
    "axis": (_model(A, _joint("j", "revolute", "world", "a", "0 0 0")), "joint 'j': axis must not be zero"),
    "number": (_model(_link("a", "heavy")), "link 'a': mass must be 1 finite number, got 'heavy'"),
    "negative": (_model(_link("a", -1)), "link 'a': mass must not be negative"),
    "frame": (_model(_link("a", pose='<pose relative_to="x"/>')), "link 'a': no frame is called 'x'"),
    "circle": (
        _model(_link("a", pose='<pose relative_to="b"/>'), _link("b", pose='<pose relative_to="a"/>')),
        "the poses of 'a', 'b' are relative to each other",
    ),
    "twice": (_model(A, A), "link 'a': two have this name"),
    "gear": (
        _model(A, B, _joint("g", "gearbox", "a", "b", more="<gearbox_reference_body>world</gearbox_reference_body>")),
        "joint 'g': there is no hinge between 'world' and 'a'",
    ),
    "auto": (_model(A.replace("<inertial>", '<inertial auto="true">')), "masses are not computed from shapes"),
    "pitch": (
        _model(A, _joint("s", "screw", "world", "a", more="<thread_pitch>0</thread_pitch>")),
        "joint 's': the pitch of a screw must not be zero",
    ),
    "scenery": (_model('<static>1</static>', A), "is scenery without a moving body"),
    "entity": ('<!DOCTYPE s [<!ENTITY a "b">]><sdf/>', "document types and entities are refused"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_in_one_line(tmp_path, name):
    text, message = BAD[name]
    with pytest.raises(mbs.ModelError) as error:
        loaded(tmp_path, text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
