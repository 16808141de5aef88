"""URDF: what is written has the mass matrix of the model, by Pinocchio and when it is read again; loops lie beside it."""

import json

import numpy as np
import pytest

import jaxmbs as mbs
import robots
from jaxmbs import planar, spatial

pin = pytest.importorskip("pinocchio")


def turned(*vector):
    return np.asarray(mbs.rotation.exp_matrix(np.array(vector, float)))


def tree():
    """Joints of all kinds, declared from child to parent as well, away from the zeros of their coordinates."""
    body = lambda k, **more: spatial.Body(
        1.0 + k, (0.1 + 0.01 * k, 0.12, 0.15), (0.1, -0.05 * k, 0.02), inertia_frame=turned(0.3, 0.1 * k, -0.2), **more
    )
    on_i, on_j, across = turned(0.3, 0.2, 0.1), turned(-0.2, 0.5, 0.1), ((1, 0, 0), (0, 1, 0.2))
    bodies = {name: body(k) for k, name in enumerate("abcdefghk")}
    bodies["d"] = body(3, frames={"tip": spatial.Frame((0.1, 0.2, 0.3), turned(0.1, 0.2, 0.3))})
    mech = mbs.Mechanism(
        bodies,
        {
            "A": spatial.Revolute("a", "ground", (0.1, 0, 0.2), (0, 0.1, 0), frame_i=on_i, frame_j=on_j),
            "B": spatial.Spherical("b", "a", (0.1, 0.2, 0.3), (0.3, 0, 0)),
            "C": spatial.Universal("c", "b", (0, 0, 0.2), (0.1, 0, 0), *across),
            "D": spatial.Prismatic("d", "c", (0.2, 0, 0), (0, 0, 0.1), (1, 1, 0)),
            "E": spatial.Cylindrical("e", "b", (0, 0.1, 0), (0.1, 0.1, 0.1), (0, 1, 1)),
            "F": spatial.Universal("b", "f", (0, 0, 0.2), (0.1, 0, 0), *across),
            "G": spatial.Planar("a", "g", (0, 0, 0.2), (0.1, 0, 0), (1, 0, 0)),
            "K": spatial.Rigid("g", "k", (0, 0, 0.2), (0.1, 0, 0), frame_i=on_i, frame_j=on_j),
        },
        forces={
            "weight": mbs.Gravity((0, 0, -9.81)),
            "oil": mbs.TorsionDamper("a", "ground", 0.2, axis_i=on_i[:, 2], axis_j=on_j[:, 2]),
            "brake": mbs.JointFriction("A", 1.0, velocity=0.01, preload=0.4, radius=1.0),
            "grease": mbs.AxialSpring("d", "c", (0.2, 0, 0), (0, 0, 0.1), (1, 1, 0), None, 0.0, 2.0),
        },
    )
    joints, rng = mbs.JointCoordinates().of(mech), np.random.default_rng(1)
    theta = 0.5 * rng.normal(size=len(joints.names))
    for ball in (k for k, name in enumerate(joints.names) if name.endswith(".e0")):
        theta[ball : ball + 4] /= np.linalg.norm(theta[ball : ball + 4])
    q = mech.coordinates(joints.configuration(theta))
    limits = {"A": (float(joints.coordinates(q)[0]) - 1, float(joints.coordinates(q)[0]) + 2)}
    return mbs.Model(mech.bodies, mech.constraints, {}, mech.forces, guess=q, name="tree", limits=limits)


class Robot:
    """A URDF file in Pinocchio: poses of bodies that are fixed to its links, and mass matrices."""

    def __init__(self, path, model, guess):
        self.robot = pin.buildModelFromXML(path.read_text())
        self.data, self.model = self.robot.createData(), model
        self._move(pin.neutral(self.robot))
        poses = {name: (np.asarray(pose.r), np.asarray(pose.a)) for name, pose in model.poses(guess).items()}
        self.places = {name: pin.SE3(poses[name][1], poses[name][0]) for name in model.bodies}
        self.on_link = {name: self.link(name).inverse() * place for name, place in self.places.items()}

    def _move(self, q):
        pin.forwardKinematics(self.robot, self.data, q)
        pin.updateFramePlacements(self.robot, self.data)

    def link(self, name):
        return self.data.oMf[self.robot.getFrameId(name)].copy()

    def random_state(self, seed):
        rng = np.random.default_rng(seed)
        return pin.integrate(self.robot, pin.neutral(self.robot), 0.7 * rng.normal(size=self.robot.nv))

    def configuration(self, q):
        """The configuration of the model with all bodies fixed to their links at joint coordinates q."""
        self._move(q)
        found = {}
        for name, local in self.on_link.items():
            place = self.link(name) * local
            x, y, z, w = pin.Quaternion(place.rotation).coeffs()
            found[name] = np.array([*place.translation, w, x, y, z])
        return self.model.coordinates(found)

    def jacobian(self, q):
        """Velocities (ṙ, ω in the body) of all bodies of the model for unit rates of the joints, (m, nv)."""
        pin.computeJointJacobians(self.robot, self.data, q)
        rows = []
        for name, local in self.on_link.items():
            frame = self.robot.getFrameId(name)
            twist = pin.getFrameJacobian(self.robot, self.data, frame, pin.LOCAL)
            twist = local.inverse().action @ twist
            turn = (self.data.oMf[frame] * local).rotation
            rows += [turn @ twist[:3], twist[3:]]
        return np.concatenate(rows)

    def mass_matrices(self, q):
        """The mass matrix by Pinocchio, and by the bodies of the model."""
        jacobian = self.jacobian(q)
        mass = np.asarray(mbs.Augmented().of(self.model).mass_matrix(self.configuration(q)))
        own = np.triu(pin.crba(self.robot, self.data, q))
        return own + np.triu(own, 1).T, jacobian.T @ mass @ jacobian


def agrees(robot, seed):
    q = robot.random_state(seed)
    own, expected = robot.mass_matrices(q)
    np.testing.assert_allclose(own, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())
    gaps = mbs.constraints(robot.model, robot.configuration(q), 0.0)
    assert np.abs(gaps).max() < 1e-12
    return q


def test_a_tree_of_all_joints_has_the_mass_matrix_of_the_model(tmp_path):
    model = tree()
    path = mbs.save(model, tmp_path / "tree.urdf")
    assert not path.with_suffix(".yaml").exists()
    robot = Robot(path, model, model.guess)
    q = [agrees(robot, seed) for seed in range(2)][-1]
    joint = robot.robot.joints[robot.robot.getJointId("A")]
    assert robot.robot.damping[joint.idx_v] == pytest.approx(0.2)
    lower, upper = robot.robot.lowerPositionLimit, robot.robot.upperPositionLimit
    assert (lower[joint.idx_q], upper[joint.idx_q]) == (pytest.approx(-1), pytest.approx(2))
    tip = robot.places["d"] * pin.SE3(turned(0.1, 0.2, 0.3), np.array([0.1, 0.2, 0.3]))
    robot._move(pin.neutral(robot.robot))
    np.testing.assert_allclose(robot.link("tip").homogeneous, tip.homogeneous, atol=1e-12)
    again = mbs.load(path)
    # Slides without a range have a very large one in URDF, which means none.
    assert again.limits == {"A": pytest.approx((-1, 2))}
    assert [name for name, force in again.forces.items() if isinstance(force, mbs.JointStop)] == ["A stop"]
    # A joint with several motions comes back as several joints.
    assert {*model.constraints} - {"K"} <= {name.split(".")[0] for name in again.constraints}
    assert again.forces["A friction"].preload == 0.4
    read = Robot(path, again, again.guess)
    own, expected = read.mass_matrices(q)
    np.testing.assert_allclose(own, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("suffix", ["urdf", "xml"])
def test_a_stop_on_one_side_comes_back(tmp_path, suffix):
    if suffix == "xml":
        pytest.importorskip("mujoco")
    cart = spatial.Body(2.0, (0.1, 0.1, 0.1))
    stop = mbs.JointStop("rail", None, 0.4, stiffness=5000.0, viscous=200.0, exponent=1.0)
    model = mbs.Model(
        {"cart": cart}, {"rail": spatial.Prismatic("ground", "cart", axis_i=(1, 0, 0))}, {}, {"end": stop}
    )
    again = mbs.load(mbs.save(model, tmp_path / f"model.{suffix}"))
    assert again.limits == {"rail": (-np.inf, 0.4)}
    [found] = [force for force in again.forces.values() if isinstance(force, mbs.JointStop)]
    assert (found.lower, float(found.upper)) == (None, 0.4)
    np.testing.assert_allclose((found.stiffness, found.viscous), (5000, 200), rtol=1e-9)


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
    )


GUESS = {"crank": (0.3, 0.4, 1.0), "coupler": (1.9, 1.5, 0.3), "rocker": (3.6, 1.5, 1.8)}


def test_the_loop_of_a_four_bar_is_written_beside_it(tmp_path):
    """Read again, with the pair of frames as a ball, it moves as before."""
    mech = four_bar()
    guess = mbs.assemble(mech, GUESS).q
    path = mbs.save(mech, tmp_path / "bar.urdf", guess=guess)
    lines = dict(line.split(": ") for line in path.with_suffix(".yaml").read_text().splitlines())
    ((first, second),), kinds = json.loads(lines["closed_loop"]), json.loads(lines["type"])
    assert kinds == ["3d"]
    robot = pin.buildModelFromXML(path.read_text())
    data = robot.createData()
    pin.framesForwardKinematics(robot, data, pin.neutral(robot))
    ends = [data.oMf[robot.getFrameId(name)].translation for name in (first, second)]
    np.testing.assert_allclose(*ends, atol=1e-14)
    tree = mbs.load(path)
    owners = {frame: name for name, body in tree.bodies.items() for frame in body.frames}
    bodies = [owners[frame] for frame in (first, second)]
    points = [tree.bodies[body].frames[frame].origin for body, frame in zip(bodies, (first, second), strict=True)]
    again = mbs.Mechanism(tree.bodies, {**tree.constraints, "loop": spatial.Spherical(*bodies, *points)})
    pushed = mbs.Mechanism(
        mech.bodies, mech.constraints, forces={"push": mbs.PointForce("coupler", (0, 0), (1.0, 2.0))}
    )
    expected = robots.accelerations(pushed, guess, np.zeros(9)).reshape(3, 3)
    at = again.coordinates(tree.guess)
    # The force acts at the origin of the coupler, which is elsewhere on its link.
    shift = np.asarray(mech.point(guess, "coupler", (0, 0))) - np.asarray(again.point(at, "coupler", (0, 0, 0)))[:2]
    turn = np.asarray(again.poses(at)["coupler"].a)
    pushed = mbs.Mechanism(
        again.bodies,
        again.constraints,
        forces={"push": mbs.PointForce("coupler", turn.T @ [*shift, 0], (1.0, 2.0, 0.0))},
    )
    found = robots.accelerations(pushed, at, np.zeros(18)).reshape(3, 6)
    for row, name in zip(expected, mech.bodies, strict=True):
        np.testing.assert_allclose(found[list(again.bodies).index(name)][5], row[2], rtol=1e-9)


def hinged_loop():
    """A planar four-bar of spatial hinges: one of them is cut."""
    rod = lambda length: spatial.Body(length, (0.01, length**3 / 12, length**3 / 12))
    pins = {"O": ("ground", "crank", (0, 0, 0), (-0.5, 0, 0)), "A": ("crank", "coupler", (0.5, 0, 0), (-1.5, 0, 0))}
    pins |= {"B": ("coupler", "rocker", (1.5, 0, 0), (1.75, 0, 0)), "C": ("ground", "rocker", (4, 0, 0), (-1.75, 0, 0))}
    return mbs.Mechanism(
        {"crank": rod(1.0), "coupler": rod(3.0), "rocker": rod(3.5)},
        {name: spatial.Revolute(*ends, (0, 0, 1)) for name, ends in pins.items()},
    )


def test_hinges_in_space_are_two_pairs_and_rigid_joints_pairs_of_axes(tmp_path):
    mech = hinged_loop()
    flat = mbs.assemble(four_bar(), GUESS).q.reshape(3, 3)
    guess = {
        name: spatial.coordinates((x, y, 0), (0, 0, phi))
        for name, (x, y, phi) in zip(mech.bodies, np.asarray(flat), strict=True)
    }
    path = mbs.save(mech, tmp_path / "bar.urdf", guess=guess)
    lines = dict(line.split(": ") for line in path.with_suffix(".yaml").read_text().splitlines())
    pairs = json.loads(lines["closed_loop"])
    assert (len(pairs), json.loads(lines["type"])) == (2, ["3d", "3d"])
    robot = pin.buildModelFromXML(path.read_text())
    data = robot.createData()
    pin.framesForwardKinematics(robot, data, pin.neutral(robot))
    places = [[data.oMf[robot.getFrameId(name)] for name in pair] for pair in pairs]
    for first, second in places:
        np.testing.assert_allclose(first.homogeneous, second.homogeneous, atol=1e-12)
    np.testing.assert_allclose(np.abs(places[1][0].translation - places[0][0].translation), (0, 0, 1), atol=1e-12)


WRITTEN = {
    "driver": (
        {"drivers": {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0))}},
        "driver 'motor': URDF has no drivers",
    ),
    "spring": (
        {"forces": {"coil": mbs.TorsionSpring("ground", "crank", 40.0, 0.3, 2.0)}},
        "force 'coil' (TorsionSpring): URDF has linear dampers in joints, and no springs",
    ),
    "force": (
        {"forces": {"push": mbs.PointForce("crank", (0, 0), (1.0, 0.0))}},
        "force 'push' (PointForce): URDF has nothing like it",
    ),
    "distance": (
        {"more": {"rod": planar.Distance("ground", "coupler", (0, 5), (0, 0), 4.0)}},
        "constraint 'rod' (Distance): URDF has nothing like it",
    ),
    "slide in a loop": (
        {"more": {"way": planar.RevoluteTranslational("crank", "rocker", (0, 0), (0, 0))}},
        "constraint 'way' (RevoluteTranslational): closes a loop; only balls, hinges",
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_urdf_lacks_is_an_error_that_names_it(name, tmp_path):
    options, message = WRITTEN[name]
    mech = four_bar()
    mech = mbs.Mechanism(
        mech.bodies,
        mech.constraints | options.get("more", {}),
        options.get("drivers", {}),
        options.get("forces", {}),
    )
    guess = mbs.assemble(mech, GUESS).q
    with pytest.raises(mbs.ModelError) as error:
        mbs.save(mech, tmp_path / "bar.urdf", guess=guess)
    assert message in str(error.value)
    assert list(tmp_path.iterdir()) == []
