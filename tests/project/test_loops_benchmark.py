"""The benchmark of closed loops: its mechanisms, its files, and its handling of tools that are missing."""

import json

import numpy as np
import pytest

import jaxmbs as mbs
from benchmarks.loops import export, geometry, models, page, run, tools


@pytest.mark.parametrize("name", models.CASES)
def test_mechanisms_are_what_their_docstrings_say(name):
    case, mech = models.CASES[name], models.model(name)
    q = mech.coordinates()
    assert np.abs(mbs.constraints(mech, q)).max() < 1e-10
    assert len(mbs.topology.spanning_tree(mech).cut) == case.loops
    words = " ".join(case.plan.__doc__.split())
    assert f"{case.loops} loop" in words
    assert f"{case.dof} degree" in words


@pytest.mark.parametrize("name", ["four-bar", "slider-crank"])
def test_degrees_of_freedom(name):
    mech = models.model(name)
    assert mbs.diagnose(mech, mech.coordinates()).dof == models.CASES[name].dof


@pytest.mark.parametrize("name", models.CASES)
def test_files_belong_to_the_mechanisms(name):
    """Numbers, start and reference motion are those of the models: run `python -m benchmarks.loops.export` if not."""
    facts, mech = export.facts(name), models.model(name)
    assert {key: facts[key] for key in export.plan_facts(name)} == export.plan_facts(name)
    assert np.array(facts["poses"]).ravel() == pytest.approx(np.asarray(mech.coordinates()), abs=1e-14)
    assert geometry.gap(facts, facts["final"]) < 1e-12
    assert facts["difference of check"] < 1e-3 * run.WANTED_ERROR * facts["size"]


@pytest.mark.parametrize("name", models.CASES)
def test_mjcf_has_the_start(name):
    """MuJoCo puts all bodies to their poses at the start, with their velocities and masses."""
    mujoco = pytest.importorskip("mujoco")
    facts, case = export.facts(name), models.CASES[name]
    model = mujoco.MjModel.from_xml_path(str(export.path_of(name, ".xml")))
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    assert model.neq == case.loops
    for (body, numbers), pose, velocity in zip(
        facts["bodies"].items(), facts["poses"], facts["velocities"], strict=True
    ):
        k, found = model.body(body).id, np.zeros(6)
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, k, found, 0)
        assert data.xpos[k] == pytest.approx(pose[:3], abs=1e-12)
        assert found[3:] == pytest.approx(velocity[:3], abs=1e-8)
        assert model.body_mass[k] == pytest.approx(numbers["mass"])
    bodies = zip(facts["bodies"].values(), facts["velocities"], strict=True)
    twice = sum(body["mass"] * np.dot(v[:3], v[:3]) + np.dot(body["inertia"], np.square(v[3:])) for body, v in bodies)
    mujoco.mj_energyVel(model, data)
    assert 2 * data.energy[1] == pytest.approx(twice, rel=1e-9)


def test_wheels_in_parts_are_joined(tmp_path):
    content = np.random.default_rng(0).bytes(1000)
    for k, begin in enumerate(range(0, 1000, 90)):
        (tmp_path / f"whole-1.0-py3-none-any.whl.part{k}").write_bytes(content[begin : begin + 90])
    (tmp_path / "torn-1.0-py3-none-any.whl.part1").write_bytes(b"second")
    assert run.join_wheels(tmp_path) == ["torn-1.0-py3-none-any.whl"]
    assert (tmp_path / "whole-1.0-py3-none-any.whl").read_bytes() == content
    assert not (tmp_path / "torn-1.0-py3-none-any.whl").exists()


def test_a_missing_tool_gives_a_row_with_its_reason(monkeypatch):
    missing = "import sys; sys.stderr.write(\"ModuleNotFoundError: No module named 'pinocchio'\"); sys.exit(1)"
    monkeypatch.setattr(run, "command_of", lambda *_: [run.sys.executable, "-c", missing])
    found = run.result_of("Pinocchio", "four-bar", [1])
    assert found == {"reason": "not installed: pinocchio"}
    machine = {"processor": "p", "system": "s", "python": "3", "date": "d"}
    text = page.text_of({"wanted error": 1e-4, "rows": {"four-bar": {"Pinocchio": found | {"machine": machine}}}})
    assert "not installed: pinocchio" in text


def test_page_is_that_of_the_run():
    assert page.PAGE.read_text() == page.text_of(json.loads(run.RESULTS.read_text()))


@pytest.mark.parametrize("name", models.CASES)
def test_joint_frames_coincide_at_the_start(name):
    facts = export.facts(name)
    poses = {"ground": [0, 0, 0, 1, 0, 0, 0]} | dict(zip(facts["bodies"], facts["poses"], strict=True))
    for joint in facts["joints"].values():
        if joint["kind"] != "Spherical":
            on_i, on_j = tools.joint_turns(facts, joint)
            both = [
                tools.rotation_matrix(poses[joint[end]][3:]) @ on for end, on in zip("ij", (on_i, on_j), strict=True)
            ]
            assert both[0] == pytest.approx(both[1], abs=1e-9)
            assert both[0].T @ both[0] == pytest.approx(np.eye(3), abs=1e-9)
