"""Loops of robots in URDF: frames of onshape-to-robot and YAML files close them, and they move as Pinocchio says."""

import numpy as np
import pytest

import jaxmbs as mbs
import robots
from jaxmbs import spatial

pytestmark = pytest.mark.filterwarnings("ignore:robot.urdf. passed over:UserWarning")

# Tags that onshape-to-robot writes into each joint.
PROPERTIES = '<limit effort="10" velocity="20" lower="-3" upper="3"/><joint_properties friction="0.0"/>'


def _link(name, *inertia):
    """Return a link with a mesh that does not exist."""
    mesh = f'<geometry><mesh filename="package://{name}.stl"/></geometry>'
    return (
        f'<link name="{name}"><visual>{mesh}</visual><collision>{mesh}</collision>{robots._inertial(*inertia)}</link>'
    )


def _frame(name, link, xyz, rpy=(0, 0, 0)):
    """Return a frame of onshape-to-robot: a link with almost no mass that is fixed to another."""
    inertial = robots._inertial(1e-9, (0, 0, 0), (0, 0, 0))
    return f'<link name="{name}">{inertial}</link>' + robots._joint(
        f"{name}_frame", "fixed", link, name, xyz, rpy, (0, 0, 0)
    )


H = np.pi / 2
# A five-bar in the xz plane of a plate that is tilted; axes are z of the joint frames.
FIVE_BAR = f"""
<robot name="five_bar">
  {_link("plate", 5, (0, 0, 0.1), (0.1, 0.2, 0.15))}
  {_link("left", 1, (0.1, 0, 0), (1e-3, 2e-2, 2e-2))}
  {_link("left_rod", 0.5, (0.2, 0, 0.01), (1e-3, 1e-2, 1e-2, 1e-4, 0, 0))}
  {_link("right", 1, (0.1, 0, 0), (1e-3, 2e-2, 2e-2))}
  {_link("right_rod", 0.7, (0.2, 0.02, 0), (1e-3, 1e-2, 1e-2))}
  {robots._joint("motor_left", "revolute", "plate", "left", (0, 0, 0), (H, 0, 0), more=PROPERTIES)}
  {robots._joint("motor_right", "revolute", "plate", "right", (0.5, 0, 0), (H, 0, 0), more=PROPERTIES)}
  {robots._joint("knee_left", "revolute", "left", "left_rod", (0.3, 0, 0), (0, 0, 1.2), more=PROPERTIES)}
  {robots._joint("knee_right", "revolute", "right", "right_rod", (0.3, 0, 0), (0, 0, 1.9), more=PROPERTIES)}
  {{frames}}
</robot>"""
KNEES = np.array((0.3, 0)), np.array((0.8, 0))
# Tip of the left rod in its frame, and the same point in the frame of the right rod.
TIP = np.array((0.6, 0.0))
_turn = lambda angle: np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
MEETS = _turn(-1.9) @ (KNEES[0] + _turn(1.2) @ TIP - KNEES[1])
CLOSING = _frame("closing_tip_1", "left_rod", (*TIP, 0)) + _frame(
    "closing_tip_2", "right_rod", (*MEETS, 0), (0, 0, 0.4)
)
AXIS = _frame("closing_tip_1_z", "left_rod", (*TIP, 0.1)) + _frame("closing_tip_2_z", "right_rod", (*MEETS, 0.1))

# A foot on a Cardan joint that two motors move by rods with a Cardan joint at one end and a ball at the other.
ANKLE = f"""
<robot name="ankle">
  {_link("shin", 3, (0, 0, 0.2), (0.05, 0.05, 0.01))}
  {_link("foot", 0.8, (0.05, 0, -0.03), (1e-3, 3e-3, 3e-3, 0, 2e-4, 0))}
  {robots._joint("ankle", "revolute", "shin", "foot", more=PROPERTIES)}
  {{sides}}
</robot>"""


def _side(name, y):
    """Return the motor, crank and rod of one side of the ankle."""
    return (
        _link(f"{name}_crank", 0.2, (-0.03, 0, 0), (1e-5, 1e-4, 1e-4))
        + _link(f"{name}_rod", 0.15, (0, 0, -0.15), (1e-3, 1e-3, 1e-5))
        + robots._joint(
            f"{name}_motor", "revolute", "shin", f"{name}_crank", (0, y, 0.3), axis=(0, 1, 0), more=PROPERTIES
        )
        + robots._joint(f"{name}_cardan", "revolute", f"{name}_crank", f"{name}_rod", (-0.06, 0, 0), more=PROPERTIES)
        + _frame(f"{name}_A", f"{name}_rod", (0, 0, -0.32))
        + _frame(f"{name}_B", "foot", (-0.06, y, -0.02))
    )


SIDES = {"ankle": _side("left", 0.04) + _side("right", -0.04)}
YAML = """
closed_loop: [['left_A', 'left_B'], [right_A, right_B]]
type: ['3d', '3D']
name_mot: [left_motor, right_motor]
joint_name: [ankle, left_cardan, right_cardan]
joint_type: [UJOINT_YX, UJOINT_XY, SPHERICAL]
"""


def loaded(tmp_path, text, yaml=None, **options):
    path = tmp_path / "robot.urdf"
    path.write_text(text)
    if yaml is not None:
        (tmp_path / "robot.yaml").write_text(yaml)
    return mbs.load(path, ignore=("limit",), **options)


def assert_moving_as_pinocchio(model, robot, pairs):
    """Assert that a closed robot moves from its zero configuration by M v̇ + Jᵀλ = −b, J v̇ = γ.

    All of these come from Pinocchio, with J and γ of the pairs of frames that coincide.
    """
    import pinocchio as pin

    data, q = robot.createData(), pin.neutral(robot)
    ends = [[robot.getFrameId(name) for name in pair] for pair in pairs]
    pin.computeJointJacobians(robot, data, q)
    pin.updateFramePlacements(robot, data)
    jacobian = lambda frame: pin.getFrameJacobian(robot, data, frame, pin.LOCAL_WORLD_ALIGNED)[:3]
    rows = np.concatenate([jacobian(one) - jacobian(two) for one, two in ends])
    free = np.linalg.svd(rows)[2][np.linalg.matrix_rank(rows, 1e-9) :]
    v = free.T @ np.arange(1.0, 1 + len(free))
    pin.forwardKinematics(robot, data, q, v, np.zeros(robot.nv))
    drift = lambda frame: pin.getFrameClassicalAcceleration(robot, data, frame, pin.LOCAL_WORLD_ALIGNED).linear
    gamma = -np.concatenate([drift(one) - drift(two) for one, two in ends])
    mass, bias = pin.crba(robot, data, q), pin.nonLinearEffects(robot, data, q, v)
    mass = np.triu(mass) + np.triu(mass, 1).T
    matrix = np.block([[mass, rows.T], [rows, np.zeros((len(rows), len(rows)))]])
    a = np.linalg.lstsq(matrix, np.concatenate([-bias, gamma]), rcond=1e-13)[0][: robot.nv]
    expected = robots.by_pinocchio(robot, model.bodies, state=(q, v, a))
    q, v, a = robots.states(expected, model)
    np.testing.assert_allclose(q, model.guess, atol=1e-12)
    assert np.abs(mbs.constraints(model, q, 0.0)).max() < 1e-12
    np.testing.assert_allclose(mbs.constraint_jacobian(model, q) @ v, 0, atol=1e-11)
    np.testing.assert_allclose(robots.accelerations(model, q, v), a, rtol=1e-7, atol=1e-9 * np.abs(a).max())


@pytest.mark.variant
def test_frames_of_onshape_to_robot_close_a_loop(tmp_path):
    pin = pytest.importorskip("pinocchio")
    text = FIVE_BAR.format(frames=CLOSING + AXIS)
    model = loaded(tmp_path, text)
    assert isinstance(model.constraints["closing_tip"], spatial.Revolute)
    assert mbs.diagnose(model, model.guess, 0.0).dof == 2
    assert any("joint_properties: joint 'motor_left'" in sentence for sentence in model.passed_over)
    robot = pin.buildModelFromXML(text)
    assert_moving_as_pinocchio(model, robot, [("closing_tip_1", "closing_tip_2")])


def test_loops_are_given_by_frames_too(tmp_path):
    ball = loaded(tmp_path, FIVE_BAR.format(frames=CLOSING))
    assert isinstance(ball.constraints["closing_tip"], spatial.Spherical)
    plain = CLOSING.replace("closing_tip", "tip")
    pairs = {
        "pin": ("tip_1", "tip_2", "hinge"),
        "guide": ("motor_left", "tip_2", "slide"),
        "weld": ("tip_1", "knee_right", "rigid"),
    }
    model = loaded(tmp_path, FIVE_BAR.format(frames=plain), loops=pairs)
    kinds = [type(model.constraints[name]) for name in pairs]
    assert kinds == [spatial.Revolute, spatial.Prismatic, spatial.Rigid]
    # The joint "motor_left" stands for the frame of its child.
    assert model.constraints["guide"].i == "left"
    # Points and axes of a constraint are in the frame of the link that it names, here of one without mass.
    massless = plain.replace('value="1e-09"', 'value="0"')
    ends = ("tip_1", "tip_2", (0, 0, 0.1), (0, 0, 0.1), (0, 0, 1))
    model = loaded(tmp_path, FIVE_BAR.format(frames=massless), loops={"pin": spatial.Revolute(*ends)})
    joint = model.constraints["pin"]
    assert (joint.i, joint.j) == ("left_rod", "right_rod")
    np.testing.assert_allclose(joint.point_j, (*MEETS, 0.1), atol=1e-12)
    assert np.abs(mbs.constraints(model, model.guess)[-5:-2]).max() < 1e-12
    assert {name: frame.body for name, frame in model.frames.items()} == {"tip_1": "left_rod", "tip_2": "right_rod"}


def test_a_yaml_file_closes_loops_and_changes_joints(tmp_path):
    pin = pytest.importorskip("pinocchio")
    text = ANKLE.format(sides=SIDES["ankle"])
    model = loaded(tmp_path, text, YAML)
    types = {
        name: type(model.constraints[name]) for name in ("ankle", "left_cardan", "right_cardan", "left_A on left_B")
    }
    assert list(types.values()) == [spatial.Universal, spatial.Universal, spatial.Spherical, spatial.Spherical]
    # The robot as Pinocchio has it: joints of these types by hand.
    tree = pin.buildModelFromXML(text)
    changed = {
        "ankle": (pin.JointModelRY(), pin.JointModelRX()),
        "left_cardan": (pin.JointModelRX(), pin.JointModelRY()),
        "right_cardan": (pin.JointModelSpherical(),),
    }
    robot, index = pin.Model(), {0: 0}
    for k in range(1, tree.njoints):
        parent, place, name = index[tree.parents[k]], tree.jointPlacements[k], tree.names[k]
        for part, joint in enumerate(changed.get(name, (tree.joints[k],))):
            parent = robot.addJoint(parent, joint, place, name if part == 0 else f"{name} {part}")
            place = pin.SE3.Identity()
        index[k] = parent
        robot.appendBodyToJoint(parent, tree.inertias[k], pin.SE3.Identity())
    for frame in tree.frames:
        if frame.type == pin.BODY:
            robot.addFrame(pin.Frame(frame.name, index[frame.parentJoint], frame.placement, pin.BODY), False)
    pairs = [("left_A", "left_B"), ("right_A", "right_B")]
    assert_moving_as_pinocchio(model, robot, pairs)


BAD = {
    "pairs": ("closed_loop: [[a, b, c]]", "robot.yaml: closed_loop must be a list of pairs of names"),
    "type": ("closed_loop: [[left_A, left_B]]\ntype: [5d]", "robot.yaml: type '5d' is not known; types are 3d, 6d"),
    "count": ("closed_loop: [[left_A, left_B]]\ntype: [3d, 6d]", "robot.yaml: type must be a list of 1 names"),
    "joint type": (
        "closed_loop: []\njoint_name: [ankle]\njoint_type: [UJOINT_XQ]",
        "joint 'ankle': joint_type 'UJOINT_XQ' of the YAML file is not known",
    ),
    "frame": ("closed_loop: [[left_A, lft]]", "loop 'left_A on lft': no body is called 'lft'"),
    "same body": ("closed_loop: [[left_B, foot]]", "loop 'left_B on foot': both frames are on 'foot'"),
    "malformed": ("closed_loop: [", "robot.yaml: malformed YAML"),
    "code": ("closed_loop: !!python/object/apply:os.system ['true']", "robot.yaml: malformed YAML"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_yaml_is_refused_in_one_line(tmp_path, name):
    yaml, message = BAD[name]
    text = ANKLE.format(sides=SIDES["ankle"].replace('value="1e-09"', 'value="0"'))
    with pytest.raises(mbs.ModelError) as error:
        loaded(tmp_path, text, yaml)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_bad_loops_are_refused(tmp_path):
    for loops, message in (
        ({"a": ("left", "rgt")}, "loop 'a': no body is called 'rgt'"),
        ({"a": ("left", "right", "pin")}, "loop 'a': 'pin' is not known; kinds are ball, hinge, slide, rigid"),
        ({"a": 3}, "loop 'a': 3 is neither a constraint nor the names of two frames"),
        ({"knee_left": ("left", "right")}, "loop 'knee_left': another element has this name"),
        ("left", "loops must be a mapping, or pairs"),
    ):
        with pytest.raises(mbs.ModelError, match=message):
            loaded(tmp_path, FIVE_BAR.format(frames=""), loops=loops)
