"""Parts of robot files from the wild: chains, balls with springs, tendons, actuators at sites, polynomials, weights."""

import numpy as np
import pytest

import jaxmbs as mbs
import robots

mujoco = pytest.importorskip("mujoco")
beside_mujoco = pytest.importorskip("beside_mujoco")


def test_masses_and_accelerations_are_those_of_mujoco(tmp_path):
    (tmp_path / "model.xml").write_text(robots.WILD)
    model = mbs.load(tmp_path / "model.xml", strict=True)
    assert {"h1 carrier", "h2 carrier", "t length"} <= model.bodies.keys()
    for seed in range(2):
        case = beside_mujoco.Comparison(tmp_path / "model.xml", model, seed)
        masses, accelerations, gap = case.errors()
        assert masses < 1e-12
        assert accelerations < 1e-9
        assert gap < 1e-12
        # The polynomial of the coordinates, which MuJoCo counts from `ref`.
        d = case.source.d
        slide, knee = (d.joint(name).qpos[0] for name in ("h3", "k"))
        expected = np.polyval([0.5, 0.4, 0.3, 0.2, 0.1], knee) - (slide - 0.2)
        found = np.asarray(mbs.constraints(model, case.q))[model.layout.row_slices["cubic"]]
        np.testing.assert_allclose(found, [0, expected], atol=1e-12)


@pytest.mark.slow
def test_springs_and_stops_of_balls_and_tendons_are_simulated(tmp_path):
    """They are assembled and simulated with stops and without, and begin with MuJoCo's accelerations."""
    text = """<mujoco><option><flag contact="disable"/></option><worldbody><site name="post" pos="0.3 0 0.5"/>
    <body><joint name="b" type="ball" stiffness="2" range="0 20"/><geom type="box" size=".1 .2 .3" pos=".3 0 0" mass="1"/>
      <site name="tip" pos=".3 0 .1"/></body><site name="wall" pos="0 0.5 0"/></worldbody>
    <tendon><spatial name="rope" stiffness="7" springlength="0.1 .3" range="0 0.9"><site site="post"/><site site="tip"/>
      <site site="wall"/></spatial></tendon></mujoco>"""
    (tmp_path / "model.xml").write_text(text)
    model = mbs.load(tmp_path / "model.xml", strict=True)
    assert mbs.assemble(model, model.guess).status == mbs.Status.CONVERGED
    run = mbs.simulate(model, np.linspace(0, 0.5, 6), step=1e-3)
    assert not np.any(run.status)
    free = mbs.load(tmp_path / "model.xml", ignore=("range",))
    run = mbs.simulate(free, np.linspace(0, 0.5, 6), step=1e-3)
    assert not np.any(run.status)
    m = mujoco.MjModel.from_xml_string(text.replace("<flag ", '<flag limit="disable" '))
    d = mujoco.MjData(m)
    mujoco.mj_forward(m, d)
    np.testing.assert_allclose(run.a[0][3:6], d.qacc, rtol=1e-9)


def test_json_keeps_them(tmp_path):
    (tmp_path / "model.xml").write_text(robots.WILD)
    model = mbs.load(tmp_path / "model.xml")
    again = mbs.load(mbs.save(model, tmp_path / "model.json"))
    assert list(again.forces) == list(model.forces)
    assert again.constraints["cubic"].kinds == ("slide", "angle")
