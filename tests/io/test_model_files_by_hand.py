"""Model files written by hand: how they are read; what cannot be is refused by name."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar

BY_HAND = """{
  "format": "jaxmbs", "version": 1, "name": "slider-crank", "space": "planar",
  "units": {"length": "m"},
  "bodies": {
    "crank": {"mass": 1, "inertia": 0.01},
    "rod": {"mass": 0.5, "inertia": 0.02, "com": [0.3, 0]},
    "piston": {"mass": 0.3, "inertia": 0}
  },
  "constraints": {
    "O": {"type": "Revolute", "i": "ground", "j": "crank", "point_i": [0, 0], "point_j": [0, 0]},
    "A": {"type": "Revolute", "i": "crank", "j": "rod", "point_i": [0.2, 0], "point_j": [0, 0]},
    "B": {"type": "Revolute", "i": "rod", "j": "piston", "point_i": [0.6, 0], "point_j": [0, 0]},
    "slide": {"type": "Translational", "i": "ground", "j": "piston", "point_i": [0, 0], "point_j": [0, 0], "axis_i": [1, 0]}
  },
  "drivers": {"motor": {"type": "RevoluteDriver", "i": "ground", "j": "crank", "motion": {"type": "Ramp", "rate": 10}}},
  "forces": {
    "gas": {"type": "PointForce", "body": "piston", "point": [0, 0],
            "value": [{"type": "expression", "operations": [["input", 2, 6], ["number", -3.0], ["mul", 0, 1]],
                       "result": [2]}, 0]}
  },
  "guess": {"rod": [0.2, 0, 0], "piston.x": 0.8},
  "limits": {"slide": [0.3, 0.9]}
}"""


def test_a_file_written_by_hand_runs(tmp_path, validator):
    validator.validate(json.loads(BY_HAND))
    path = tmp_path / "slider_crank.json"
    path.write_text(BY_HAND)
    model = mbs.load(path)
    assert model.name == "slider-crank"
    assert model.limits == {"slide": (0.3, 0.9)}
    assert isinstance(model, mbs.Mechanism)
    start = mbs.assemble(model)
    assert int(start.status) == mbs.Status.CONVERGED
    times = np.linspace(0, 1, 7)
    motion = mbs.kinematics(model, times, start.q)
    place = 0.2 * np.cos(10 * times) + np.sqrt(0.36 - (0.2 * np.sin(10 * times)) ** 2)
    np.testing.assert_allclose(motion.position("piston.x"), place, atol=1e-12)
    # The force of the file is −3 ẋ of the piston, its velocity entry number 6.
    force = mbs.generalized_force(model, motion.q[1], motion.v[1], 0.0)
    np.testing.assert_allclose(force[6], -3 * motion.v[1, 6], rtol=1e-14)


def test_a_model_has_the_leaves_of_its_mechanism(tmp_path):
    path = tmp_path / "model.json"
    path.write_text(BY_HAND)
    model = mbs.load(path)
    ours, theirs = jax.tree.leaves(model), jax.tree.leaves(model.mechanism)
    assert len(ours) == len(theirs)
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(jax.tree.map(lambda x: 2 * x, model).guess, model.guess)

    def place(model):
        return mbs.assemble(model, t=0.03).q[6]

    slope = jax.grad(place)(model).constraints["B"].point_i[0]
    # The slider of crank r at the angle φ, with a rod ℓ: dx/dℓ = ℓ / √(ℓ² − r² sin² φ).
    np.testing.assert_allclose(slope, 0.6 / np.sqrt(0.36 - (0.2 * np.sin(0.3)) ** 2), rtol=1e-10)


def test_a_model_starts_from_its_guess(tmp_path):
    path = tmp_path / "model.json"
    path.write_text(BY_HAND)
    model = mbs.load(path)
    np.testing.assert_array_equal(mbs.assemble(model).q, mbs.assemble(model.mechanism, model.guess).q)
    moved = mbs.load(mbs.save(model, tmp_path / "moved.json", guess={"crank.phi": 1.0}))
    assert float(moved.guess[2]) == 1.0


def changed(**parts):
    return json.dumps(json.loads(BY_HAND) | parts)


def with_joint(**arguments):
    joint = {"type": "Revolute", "i": "ground", "j": "crank", "point_i": [0, 0], "point_j": [0, 0]} | arguments
    return changed(constraints={"O": joint})


def with_expression(*operations, result=(0,), **more):
    motion = {"type": "Function", "f": {"type": "expression", "operations": operations, "result": result, **more}}
    return changed(drivers={"motor": {"type": "AbsoluteAngleDriver", "body": "crank", "motion": motion}})


BAD = {
    "text that is not JSON": ("{", "line 1, column 2"),
    "no model": ("[1, 2]", "is not a model"),
    "another format": ('{"format": "other"}', "is not a model"),
    "wrong version": (changed(version=2), "version 2"),
    "version as a text": (changed(version="1"), "version '1'"),
    "unknown key": (changed(bodys={}), "did you mean|bodys"),
    "wrong space": (changed(space="4d"), "space"),
    "unknown unit": (changed(units={"length": "parsec"}), "parsec"),
    "no bodies": (changed(bodies={}, forces={}), "at least one body"),
    "NaN": (BY_HAND.replace('"mass": 1,', '"mass": NaN,'), "NaN"),
    "infinite": (BY_HAND.replace('"mass": 1,', '"mass": 1e999,'), "1e999"),
    "twice": (BY_HAND.replace('"rod": {"mass"', '"crank": {"mass": 1}, "rod": {"mass"'), "'crank' appears twice"),
    "negative mass": (BY_HAND.replace('"mass": 1,', '"mass": -1,'), "crank.*mass"),
    "mass as a text": (BY_HAND.replace('"mass": 1,', '"mass": "1",'), "crank.*mass"),
    "unknown element": (with_joint(type="Weld"), "constraint 'O'.*Weld"),
    "private class": (with_joint(type="PlanarConstraint"), "constraint 'O'.*PlanarConstraint"),
    "not a class": (with_joint(type="__import__"), "constraint 'O'.*__import__"),
    "no type": (with_joint(type=None), "constraint 'O'"),
    "unknown argument": (with_joint(point_k=[0, 0]), "constraint 'O'.*point_k"),
    "missing argument": (changed(constraints={"O": {"type": "Revolute", "i": "ground", "j": "crank"}}), "'O'.*missing"),
    "unknown body": (with_joint(j="crnk"), "'O'.*crnk"),
    "body as a number": (with_joint(j=3), "'O'"),
    "wrong shape": (with_joint(point_i=[0, 0, 0]), "'O'.*point_i"),
    "ragged": (with_joint(point_i=[0, [0]]), "'O'.*point_i"),
    "guess of no body": (changed(guess={"crnk": [0, 0, 0]}), "crnk"),
    "guess too short": (changed(guess={"crank": [0, 0]}), "crank"),
    "guess as a text": (changed(guess={"crank": "up"}), "guess.*crank"),
    "limit of nothing": (changed(limits={"P": [0, 1]}), "limits.*'P'"),
    "limit of one": (changed(limits={"O": [0]}), "limits.*'O'"),
    "unknown operation": (with_expression(["system", 0]), "motor.*system"),
    "later value": (with_expression(["input", 0, 0], ["add", 0, 2], result=[1]), "motor.*earlier"),
    "no such input": (with_expression(["input", 1, 0]), "motor.*input"),
    "truth as number": (with_expression(["input", 0, 0], ["lt", 0, 0], result=[1]), "motor.*real"),
    "number as truth": (with_expression(["input", 0, 0], ["not", 0], result=[1]), "motor.*truth"),
    "too large an integer": (BY_HAND.replace('"mass": 1,', f'"mass": 1{"0" * 400},'), "too large"),
    "deep numbers": (BY_HAND.replace('"mass": 1,', f'"mass": {"[" * 900}1{"]" * 900},'), "nested|mass"),
    "type as a list": (with_joint(type=["Revolute"]), "'O'.*type"),
    "type as an object": (BY_HAND.replace('"mass": 1,', '"mass": {"type": [1]},'), "crank.*type"),
    "space as a list": (changed(space=["planar"]), "space"),
    "truth as a mass": (BY_HAND.replace('"mass": 1,', '"mass": true,'), "crank.*mass"),
    "endless result": (with_expression(["input", 0, 0], result=[0] * 30_000, shape=[30_000]), "motor.*result"),
    "endless shape": (with_expression(["input", 0, 0], shape=[2**63 - 1, 2**63 - 1]), "motor.*shape"),
    "vector as a motion": (with_expression(["input", 0, 0], shape=[1]), "motor.*shape"),
    "limits upside down": (changed(limits={"O": [2, -2]}), "limits.*'O'"),
    "a name that is a coordinate": (
        changed(bodies={"a": {}, "a.x": {}}, constraints={}, drivers={}, forces={}, guess={}, limits={}),
        "a.x",
    ),
    "too nested": ('{"a":' * 100_000, "bad.json"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_refused_in_one_line(case, tmp_path):
    text, words = BAD[case]
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(mbs.ModelError, match=words) as caught:
        mbs.load(path)
    assert str(caught.value).startswith("bad.json: ")
    assert "\n" not in str(caught.value)


def test_what_is_no_file_is_refused(tmp_path, monkeypatch):
    for name, words in (("no.json", "No such file"), ("model.txt", "must end in"), ("model", "must end in")):
        with pytest.raises(mbs.ModelError, match=words):
            mbs.load(tmp_path / name)
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(mbs.ModelError, match="is a folder, not a file"):
        mbs.load(tmp_path / "folder.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(mbs.ModelError, match="UTF-8"):
        mbs.load(tmp_path / "binary.json")
    monkeypatch.setattr("jaxmbs.io.models.front.MAX_FILE_BYTES", 10)
    (tmp_path / "large.json").write_text(BY_HAND)
    with pytest.raises(mbs.ModelError, match="more than 10 bytes"):
        mbs.load(tmp_path / "large.json")


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path):
    class Mine(planar.Revolute):
        pass

    path = tmp_path / "kept.json"
    path.write_text("what was there")
    bodies = {"a": planar.Body()}
    own = mbs.Mechanism(bodies, {"O": Mine("ground", "a", (0, 0), (0, 0))})
    looped = mbs.Mechanism(
        bodies,
        forces={"user": mbs.UserForce(lambda state: jax.lax.fori_loop(0, 5000, lambda _, x: jnp.sin(x), state.v))},
    )
    table = mbs.motion.Function(lambda t: jnp.interp(t, jnp.arange(3.0), jnp.array([1.0, 3.0, 2.0])))
    tabled = mbs.Mechanism(bodies, {}, {"turn": planar.AbsoluteAngleDriver("a", table)})
    for mech, words in (
        (tabled, "driver 'turn'.*scalar operations"),
        (own, "constraint 'O': Mine"),
        (looped, "force 'user': f: a function"),
    ):
        with pytest.raises(mbs.ModelError, match=words):
            mbs.save(mech, path)
        with pytest.raises(mbs.ModelError):
            mbs.save(mech, tmp_path / "new.json")
    with pytest.raises(mbs.ModelError, match="must end in"):
        mbs.save(mbs.Mechanism(bodies), tmp_path / "model.txt")
    with pytest.raises(mbs.ModelError, match=r"'a\.x'"):
        mbs.save(mbs.Mechanism({"a": planar.Body(), "a.x": planar.Body()}), path)
    assert [x.name for x in tmp_path.iterdir()] == ["kept.json"]
    assert path.read_text() == "what was there"
    with pytest.raises(mbs.ModelError, match="traced"):
        jax.jit(lambda m: mbs.save(mbs.Mechanism({"a": planar.Body(m)}), path) and m)(1.0)
