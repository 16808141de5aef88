"""Binary glTF: nodes, keys and places are those of the motion; surfaces enclose the volumes of the parts."""

import json

import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial
from jaxmbs.viz.mesh_scene import quaternions

TYPES = {5126: "<f4", 5125: "<u4"}
COLUMNS = {"SCALAR": 1, "VEC3": 3, "VEC4": 4}


class Glb:
    """A GLB file, taken apart by the specification of glTF 2.0."""

    def __init__(self, path):
        data = path.read_bytes()
        magic, version, length = np.frombuffer(data[:12], "<u4")
        assert (magic, version, length) == (0x46546C67, 2, len(data))
        size = int(np.frombuffer(data[12:16], "<u4")[0])
        assert data[16:20] == b"JSON"
        self.json = json.loads(data[20 : 20 + size])
        assert data[24 + size : 28 + size] == b"BIN\0"
        self.binary = data[28 + size :]
        assert size % 4 == len(self.binary) % 4 == 0
        self.nodes = {node["name"]: node for node in self.json["nodes"]}

    def array(self, index):
        accessor = self.json["accessors"][index]
        view = self.json["bufferViews"][accessor["bufferView"]]
        data = self.binary[view["byteOffset"] : view["byteOffset"] + view["byteLength"]]
        values = np.frombuffer(data, TYPES[accessor["componentType"]]).reshape(-1, COLUMNS[accessor["type"]])
        assert len(values) == accessor["count"]
        np.testing.assert_array_equal(values.min(0), np.array(accessor["min"], values.dtype))
        np.testing.assert_array_equal(values.max(0), np.array(accessor["max"], values.dtype))
        return values

    def track(self, name, path):
        """Times and values of the track of a node."""
        (animation,) = self.json["animations"]
        for channel in animation["channels"]:
            if self.json["nodes"][channel["target"]["node"]]["name"] == name and channel["target"]["path"] == path:
                sampler = animation["samplers"][channel["sampler"]]
                return self.array(sampler["input"])[:, 0], self.array(sampler["output"])
        raise KeyError((name, path))

    def volume(self, name):
        """Volume of the surfaces of a node, positive if their triangles are anticlockwise from outside."""
        total = 0.0
        for primitive in self.json["meshes"][self.nodes[name]["mesh"]]["primitives"]:
            corners = self.array(primitive["attributes"]["POSITION"]).astype(float)
            a, b, c = np.moveaxis(corners[self.array(primitive["indices"]).reshape(-1, 3)], 1, 0)
            total += np.einsum("ij,ij->", a, np.cross(b, c)) / 6
        return total


def matrix(quaternion):
    """Rotation matrix of a quaternion of glTF, scalar part last."""
    x, y, z, w = quaternion
    v = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + 2 * w * v + 2 * v @ v


def check_motion(glb, run, bodies):
    t = np.asarray(run.t)
    for body in bodies:
        keys, places = glb.track(body, "translation")
        np.testing.assert_allclose(keys, t - t[0], atol=1e-6)
        expected = np.asarray(run.point(body))
        np.testing.assert_allclose(places[:, : expected.shape[1]], expected, atol=1e-6)
        _, turns = glb.track(body, "rotation")
        assert np.all(np.einsum("fk,fk->f", turns[1:], turns[:-1]) > 0)
        dimension = expected.shape[1]
        found = np.array([matrix(turn) for turn in turns.astype(float)])[:, :dimension, :dimension]
        np.testing.assert_allclose(found, np.asarray(run.rotation(body)), atol=1e-6)


def test_a_planar_motion(tmp_path):
    """A pendulum on a spring, for more than a turn; the spring goes from the ground to its tip."""
    mech = mbs.Mechanism(
        {"arm": planar.Body()},
        {"pin": planar.Revolute("ground", "arm", (0, 0), (0, 0))},
        {"motor": planar.RevoluteDriver("ground", "arm", mbs.motion.Ramp(1.0))},
        {"coil": mbs.Spring("ground", "arm", (3.0, 0.5), (2.0, 0.0), stiffness=1.0, free_length=1.0)},
    )
    run = mbs.kinematics(mech, np.linspace(1, 9, 33), {})
    glb = Glb(mbs.viz.animate(mech, run, tmp_path / "new" / "arm.glb", traces=[("arm", (1.0, 0.0))], title="an arm"))
    (scene,) = glb.json["scenes"]
    root = glb.json["nodes"][scene["nodes"][0]]
    assert root["name"] == "an arm"
    assert {glb.json["nodes"][k]["name"] for k in root["children"]} == {"ground", "arm", "coil", "path of arm"}
    check_motion(glb, run, ["arm"])
    _, places = glb.track("coil", "translation")
    _, turns = glb.track("coil", "rotation")
    _, scales = glb.track("coil", "scale")
    np.testing.assert_allclose(places[:, :2], np.broadcast_to((3.0, 0.5), (33, 2)), atol=1e-6)
    ends = np.array([matrix(turn)[:, 2] for turn in turns.astype(float)]) * scales[:, 2:] + places
    np.testing.assert_allclose(ends[:, :2], np.asarray(run.point("arm", (2.0, 0.0))), atol=1e-5)
    path = glb.json["meshes"][glb.nodes["path of arm"]["mesh"]]["primitives"][0]
    assert path["mode"] == 3
    np.testing.assert_allclose(
        glb.array(path["attributes"]["POSITION"])[:, :2], np.asarray(run.point("arm", (1.0, 0.0))), atol=1e-6
    )
    assert glb.volume("arm") > 0


def test_a_spatial_motion(tmp_path):
    """Two bars on perpendicular hinges; gravity is along z, which becomes the axis y of glTF."""
    hinge = mbs.rotation.exp_matrix(np.array([0.3, 0.2, 0.1]))
    mech = mbs.Mechanism(
        {"first": spatial.Body(), "second": spatial.Body()},
        {
            "A": spatial.Revolute("ground", "first", (0, 0, 0), (0, 0, 0), frame_i=hinge, frame_j=hinge),
            "B": spatial.Revolute("first", "second", (1, 0, 0), (0, 0, 0), (0, 1, 0)),
        },
        forces={"gravity": mbs.Gravity((0, 0, -9.81))},
    )
    guess = {"second": spatial.coordinates((1, 0, 0), (0, 0, 0))}
    run = mbs.simulate(mech, np.linspace(0, 2, 41), guess, {"second.wy": 6.0}, step=0.01)
    glb = Glb(mbs.viz.animate(mech, run, tmp_path / "bars.glb"))
    check_motion(glb, run, mech.bodies)
    np.testing.assert_allclose(matrix(glb.nodes["mechanism"]["rotation"]) @ (0, 0, 1), (0, 1, 0), atol=1e-12)
    assert all(glb.volume(body) > 0 for body in mech.bodies)


def test_quaternions_of_any_rotation():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(200, 3))
    vectors *= rng.uniform(0, np.pi, (200, 1)) / np.linalg.norm(vectors, axis=1, keepdims=True)
    # Half turns about the axes are the cases in which one part is the only one that is not zero.
    vectors[:3] = np.pi * np.eye(3)
    axes = np.array([np.asarray(mbs.rotation.exp_matrix(vector)) for vector in vectors])
    found = quaternions(axes)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-15)
    np.testing.assert_allclose([matrix(np.roll(p, -1)) for p in found], axes, atol=1e-14)


def test_what_cannot_be_shown(tmp_path):
    mech = mbs.Mechanism({"arm": planar.Body()}, {"pin": planar.Revolute("ground", "arm", (0, 0), (0, 0))})
    run = mbs.simulate(mech, np.array([0.0, 0.1]), {}, step=0.1)
    with pytest.raises(ValueError, match=r"\.gif, \.mp4, \.html or \.glb"):
        mbs.viz.animate(mech, run, tmp_path / "arm.usd")
