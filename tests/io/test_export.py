"""Files say what was found: numbers that come back, lengths that are the design's, texts that nothing crosses."""

import csv
import json
import sys
import xml.etree.ElementTree as ElementTree
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import jaxmbs as mbs
from jaxmbs import planar, spatial, synthesis
from jaxmbs.io.results.case import case_of
from jaxmbs.io.results.drawing import drawing_of, number
from jaxmbs.io.results.entities import AngleDimension, Dimension, Line, TextEntity
from jaxmbs.io.results.layout import Sheet, crosses

ezdxf = pytest.importorskip("ezdxf")

LENGTHS = ("ground", "crank", "coupler", "rocker")
TARGETS = [(1.0, 1.0), (1.6, 1.4), (2.0, 1.2), (2.2, 0.6), (1.8, 0.2), (1.2, 0.4)]


@pytest.fixture(scope="module")
def best():
    return synthesis.path(TARGETS, starts=64, keep=1, upper=5.0, lower={**dict.fromkeys(LENGTHS, 0.05)}).best


@pytest.fixture(scope="module")
def slider():
    """As a search with a user's own builder gives: the design is any tree."""
    b = {"sizes": (1.0, 3.0, jnp.array(0.5)), "names": ["crank", "rod"]}
    mech = mbs.Mechanism(
        bodies={"crank": planar.Body(), "rod": planar.Body(), "slide": planar.Body()},
        constraints={
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "rod", (1, 0), (0, 0)),
            "B": planar.Revolute("rod", "slide", (3, 0), (0, 0)),
            "guide": planar.Translational("ground", "slide", (0, 0.5), (0, 0), (1, 0), (1, 0)),
        },
        drivers={"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(2 * jnp.pi, 0.3))},
    )
    guess = {"crank": (0, 0, 0.3), "rod": (1, 0.3, 0), "slide": (4, 0.5, 0)}
    return SimpleNamespace(
        mechanism=mech, guess=guess, design=b, error=np.inf, checks={"closed": True}, point=("rod", (1.5, 0.4))
    )


def four_bar_curve(design, angles, branch):
    """The coupler point by complex numbers."""
    pivot, point = complex(*design["pivot"]), complex(*design["point"])
    line = np.exp(1j * design["angle"])
    pin = pivot + design["crank"] * line * np.exp(1j * angles)
    away = pivot + design["ground"] * line - pin
    cosine = (design["coupler"] ** 2 + np.abs(away) ** 2 - design["rocker"] ** 2) / (
        2 * design["coupler"] * np.abs(away)
    )
    rod = away / np.abs(away) * np.exp(1j * branch * np.arccos(cosine))
    return pin + point * rod


def rows_of(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def column(rows, name):
    return np.array([float(row[name]) for row in rows])


def test_json_comes_back_as_it_was(best, tmp_path):
    path = mbs.io.export(best, tmp_path / "new" / "best.json")
    back = mbs.io.read_solution(path)
    assert back["version"] == 1
    assert back["kind"] == type(best).__name__
    assert "radians" in back["units"]
    assert "mechanism" not in back
    assert set(back["design"]) == set(best.design)
    for name, value in best.design.items():
        np.testing.assert_array_equal(back["design"][name], value)
    for name in ("crank_angles", "points"):
        np.testing.assert_array_equal(back[name], getattr(best, name))
    assert (back["error"], back["branch"], back["checks"]) == (best.error, best.branch, best.checks)
    for body, pose in best.guess.items():
        np.testing.assert_array_equal(back["guess"][body], pose)


def test_json_is_strict(slider, tmp_path):
    """Entries that are not numbers become null, and any tree of numbers is exported."""
    text = mbs.io.export(slider, tmp_path / "own.json").read_text()
    held = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert held["error"] is None
    assert held["design"] == {"sizes": [1.0, 3.0, 0.5], "names": ["crank", "rod"]}


def test_a_file_that_is_no_solution(tmp_path):
    path = tmp_path / "other.json"
    for text in ("{", "[]", '{"format": "jaxmbs solution", "version": 99}'):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"other\.json"):
            mbs.io.read_solution(path)


def test_csv_has_the_curve(best, tmp_path):
    rows = rows_of(mbs.io.export(best, tmp_path / "best.csv"))
    assert len(rows) == 361
    assert {row["status"] for row in rows} == {"0"}
    angles = np.deg2rad(column(rows, "crank_angle_deg"))
    np.testing.assert_allclose(angles[0], best.crank_angles[0], atol=1e-12)
    np.testing.assert_allclose(abs(angles[-1] - angles[0]), 2 * np.pi, atol=1e-12)
    wanted = four_bar_curve(best.design, angles, best.branch)
    found = column(rows, "x") + 1j * column(rows, "y")
    np.testing.assert_allclose(found, wanted, atol=1e-9)


def test_csv_of_a_function(tmp_path):
    best = synthesis.function(
        jnp.sin, (0, np.pi / 3), input_span=(1.8, 2.8), output_span=(1.0, 1.9), precision_points=3
    ).best
    rows = rows_of(mbs.io.export(best, tmp_path / "sine.csv"))
    assert list(rows[0]) == ["x", "crank_angle_deg", "output_deg", "wanted_deg"]
    np.testing.assert_array_equal(column(rows, "x"), best.x)
    np.testing.assert_allclose(np.deg2rad(column(rows, "output_deg")), best.output, rtol=1e-14)
    drawing = mbs.io.export(best, tmp_path / "sine.svg").read_text()
    assert number(best.design["coupler"]) in drawing
    assert "path of the point" not in drawing


def test_csv_of_a_guided_body(tmp_path):
    poses = np.array([(0, 0, 0.0), (1, 0.5, 0.3), (2, 0.3, 0.8)])
    best = synthesis.motion(poses, starts=64, keep=1).best
    rows = rows_of(mbs.io.export(best, tmp_path / "guided.csv"))
    found = np.column_stack([column(rows, name) for name in ("x", "y", "angle_deg")])[[0, -1]]
    np.testing.assert_allclose(found[:, :2], poses[[0, 2], :2], atol=1e-7)
    np.testing.assert_allclose(np.sin((np.deg2rad(found[:, 2]) - poses[[0, 2], 2]) / 2), 0, atol=1e-7)


def test_svg_has_all_dimensions(best, tmp_path):
    path = mbs.io.export(best, tmp_path / "best.svg", title="a <crank> & a rocker")
    texts = [node.text for node in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]
    for name in LENGTHS:
        assert number(best.design[name]) in texts
    assert f"{number(np.rad2deg(best.design['angle']))}°" in texts
    for value in (*best.design["pivot"], *best.design["point"]):
        assert f"{value:.6g}" in texts
    assert {"O", "A", "B", "C", "P"} <= set(texts)


@pytest.mark.slow
def test_texts_cross_nothing(best, slider):
    for solution in (best, slider):
        entities = drawing_of(case_of(solution, np.linspace(0, 1, 361)), "", "mm").entities
        dimensions = [entity for entity in entities if isinstance(entity, Dimension | AngleDimension)]
        lines = [m.points for m in entities if isinstance(m, Line) and m.layer in ("LINKS", "PATH")]
        lines += [line for dimension in dimensions for line in dimension.lines]
        segments = np.concatenate([np.stack([line[:-1], line[1:]], axis=1) for line in lines])
        texts = [dimension.text.corners for dimension in dimensions]
        texts += [m.corners for m in entities if isinstance(m, TextEntity) and m.layer == "DIMENSIONS"]
        assert len(texts) > len(solution.mechanism.bodies)
        assert not any(crosses(text, segments).any() for text in texts)
        edges = np.concatenate([np.stack([text, np.roll(text, 1, axis=0)], axis=1) for text in texts])
        for k, text in enumerate(texts):
            assert not np.any(np.delete(crosses(text, edges), np.s_[4 * k : 4 * k + 4]))


def test_scales_are_those_of_drawings():
    for size, scale in ((1.0, "100 : 1"), (20.0, "5 : 1"), (95.0, "1 : 1"), (1000.0, "1 : 10")):
        sheet = Sheet(np.array([[0, 0], [size, size]]), 1.0)
        assert sheet.scale == scale
        np.testing.assert_allclose(np.ptp(sheet.at([[0, 0], [0, size]]), axis=0)[1], sheet.ratio * size)


def test_dxf_has_true_lengths(best, tmp_path):
    path = mbs.io.export(best, tmp_path / "best.dxf", title="a four-bar", unit="in")
    drawing = ezdxf.readfile(path)
    assert not drawing.audit().errors
    assert drawing.header["$INSUNITS"] == 1
    space = drawing.modelspace()
    assert {"LINKS", "JOINTS", "PATH", "DIMENSIONS"} <= {layer.dxf.name for layer in drawing.layers}
    lengths = [(line.dxf.end - line.dxf.start).magnitude for line in space.query('LINE[layer=="LINKS"]')]
    point, pins = complex(*best.design["point"]), (0, best.design["coupler"])
    wanted = [*(best.design[name] for name in LENGTHS), *(abs(point - pin) for pin in pins)]
    np.testing.assert_allclose(sorted(lengths), sorted(wanted), atol=1e-9)
    dimensions = space.query('DIMENSION[layer=="DIMENSIONS"]')
    measured = [dimension.get_measurement() for dimension in dimensions if dimension.dimtype in (0, 1)]
    np.testing.assert_allclose(sorted(measured), sorted(best.design[name] for name in LENGTHS), atol=1e-9)
    (angle,) = (dimension.get_measurement() for dimension in dimensions if dimension.dimtype == 5)
    np.testing.assert_allclose(angle, abs(np.rad2deg(best.design["angle"])), atol=1e-9)
    assert len(space.query('CIRCLE[layer=="JOINTS"]')) == 4
    (curve,) = space.query('LWPOLYLINE[layer=="PATH"]')
    assert len(curve) == 361
    texts = [text.dxf.text for text in space.query('TEXT[layer=="SHEET"]')]
    assert {"a four-bar", "lengths in in, angles from x", *(f"{x:.6g}" for x in best.design["point"])} <= set(texts)


def test_drawings_show_gears(tmp_path):
    """A drawing has the symbols of pictures, and the true pitch radius in its table."""
    mech = mbs.Mechanism(
        bodies={"pinion": planar.Body(), "wheel": planar.Body()},
        constraints={
            "O": planar.Revolute("ground", "pinion", (0, 0), (0, 0)),
            "C": planar.Revolute("ground", "wheel", (3, 0), (0, 0)),
            "mesh": planar.Gear("pinion", "wheel", (0, 0), (0, 0), radius_i=1.0, radius_j=2.0),
        },
        drivers={"motor": planar.RevoluteDriver("ground", "pinion", mbs.motion.Ramp(2 * jnp.pi))},
    )
    found = SimpleNamespace(mechanism=mech, guess={"wheel": (3, 0, 0)})
    space = ezdxf.readfile(mbs.io.export(found, tmp_path / "gears.dxf", times=[0.0])).modelspace()
    outlines = [np.array(line.get_points("xy")) for line in space.query('LWPOLYLINE[layer=="SYMBOLS"]')]
    for centre, radius in (((0, 0), 1.0), ((3, 0), 2.0)):
        radii = [np.hypot(*(points - centre).T) for points in outlines]
        assert any(np.allclose(own, radius, atol=1e-9) for own in radii)


def test_dxf_without_ezdxf(best, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ezdxf", None)
    with pytest.raises(ImportError, match="pip install ezdxf"):
        mbs.io.export(best, tmp_path / "best.dxf")


def test_a_mechanism_of_the_user(slider, tmp_path):
    drawing = ezdxf.readfile(mbs.io.export(slider, tmp_path / "own.dxf"))
    lengths = [(line.dxf.end - line.dxf.start).magnitude for line in drawing.modelspace().query('LINE[layer=="LINKS"]')]
    np.testing.assert_allclose(sorted(lengths), sorted([1, 3, np.hypot(1.5, 0.4), np.hypot(1.5, 0.4)]), atol=1e-9)
    (way,) = drawing.modelspace().query('LINE[layer=="JOINTS"]')
    np.testing.assert_allclose([way.dxf.start.y, way.dxf.end.y], 0.5, atol=1e-9)
    # The offset of the slide is a dimension too.
    assert ">0.5<" in mbs.io.export(slider, tmp_path / "own.svg").read_text()
    plain = SimpleNamespace(mechanism=slider.mechanism, guess=slider.guess, design=None)
    rows = rows_of(mbs.io.export(plain, tmp_path / "own.csv"))[::90]
    assert list(rows[0])[:3] == ["time", "crank_angle_deg", "crank.x"]
    np.testing.assert_allclose(column(rows, "crank.phi"), 0.3 + np.pi / 2 * np.arange(5), atol=1e-12)


@pytest.mark.slow
def test_films(best, tmp_path):
    times = np.linspace(0, 1, 5)
    with Image.open(mbs.io.export(best, tmp_path / "best.gif", times=times)) as film:
        assert film.n_frames == 5
    assert "<html" in mbs.io.export(best, tmp_path / "best.html", times=times, title="best").read_text()


@pytest.fixture(scope="module")
def arm():
    mech = mbs.Mechanism(
        bodies={"arm": spatial.Body()},
        constraints={"hinge": spatial.Revolute("ground", "arm", (0, 0, 0), (0, 0, 0), (0, 0, 1))},
        drivers={
            "motor": spatial.RevoluteDriver("ground", "arm", axis_i=(0, 0, 1), motion=mbs.motion.Ramp(2 * jnp.pi))
        },
    )
    return SimpleNamespace(mechanism=mech, guess={}, design=1.0, point=("arm", (1.0, 0.0, 2.0)))


@pytest.mark.slow
def test_csv_in_space(arm, tmp_path):
    rows = rows_of(mbs.io.export(arm, tmp_path / "arm.csv", times=[0.0, 0.25]))
    np.testing.assert_allclose([float(rows[1][x]) for x in "xyz"], [0, 1, 2], atol=1e-9)


@pytest.mark.parametrize("suffix", [".svg", ".dxf"])
def test_no_drawing_in_space(arm, suffix, tmp_path):
    with pytest.raises(ValueError, match="planar"):
        mbs.io.export(arm, tmp_path / f"arm{suffix}")


def test_what_cannot_be_written(best, tmp_path):
    with pytest.raises(ValueError, match=r"\.json.*\.csv.*\.svg.*\.dxf.*\.gif.*\.html.*\.step"):
        mbs.io.export(best, tmp_path / "best.dwg")
    with pytest.raises(ValueError, match="unit"):
        mbs.io.export(best, tmp_path / "best.svg", unit="furlong")
    with pytest.raises(ValueError, match="mechanism"):
        mbs.io.export(best.design, tmp_path / "best.svg")
    with pytest.raises(ValueError, match="times"):
        mbs.io.export(best, tmp_path / "best.csv", times=[[0.0]])
    odd = SimpleNamespace(mechanism=best.mechanism, guess=best.guess, design={"f": np.sin})
    with pytest.raises(ValueError, match=r"design\.f"):
        mbs.io.export(odd, tmp_path / "odd.json")


def test_the_bar_ends_with_one_line_where_there_is_no_terminal(capsys):
    bar = mbs.viz.progress_bar("path")
    for done in (10, 20):
        bar(done, 20, 3.2e-5)
    assert capsys.readouterr().err == ""
    bar.close()
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("path: 20/20 steps, best 3.2e-05")
    bar.close()
    assert capsys.readouterr().err == ""


def test_the_bar_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    bar = mbs.viz.progress_bar("search")
    bar(10, 20, 3.2e-5)
    bar.close()
    shown = capsys.readouterr().err
    assert "search" in shown
    assert "10/20" in shown
    assert "best 3.2e-05" in shown
