"""Pictures show what the mechanism does: symbols at the joints, curves where the points go, every frame in the file."""

import json
import re
import shutil
import subprocess
import sys
from itertools import combinations, pairwise

import jax.numpy as jnp
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from jaxtyping import Array
from matplotlib.path import Path as Outline
from PIL import Image

import jaxmbs as mbs
from jaxmbs import planar
from jaxmbs.element import AbstractConstraint
from jaxmbs.numerics.arrays import real
from jaxmbs.planar.element import PlanarConstraint
from jaxmbs.viz.attachments import attachments
from jaxmbs.viz.planar.scene import Scene
from jaxmbs.viz.planar.shapes import Span, plate
from jaxmbs.viz.planar.symbols import symbol

matplotlib.use("Agg")
RAMP = mbs.motion.Ramp(0.5, 2.0)
EGG = planar.FunctionOutline(lambda a: 1 + 0.2 * jnp.cos(a))

ELEMENTS = {
    "AbsoluteX": planar.AbsoluteX("b", (0.3, 0.4), 1.0),
    "AbsoluteY": planar.AbsoluteY("b", (0.3, 0.4), 1.0),
    "AbsoluteAngle": planar.AbsoluteAngle("b", 1.0),
    "AbsoluteDistance": planar.AbsoluteDistance("b", (0.3, 0.4), (2.0, -1.0), 1.5),
    "RelativeX": planar.RelativeX("a", "b", (0.1, 0.2), (0.3, 0.4), 1.0),
    "RelativeY": planar.RelativeY("a", "b", (0.1, 0.2), (0.3, 0.4), 1.0),
    "RelativeAngle": planar.RelativeAngle("a", "b", 1.0),
    "Distance": planar.Distance("ground", "b", (0.1, 0.2), (0.3, 0.4), 1.0),
    "Revolute": planar.Revolute("ground", "b", (0.1, 0.2), (0.3, 0.4)),
    "Translational": planar.Translational("a", "b", (0.1, 0.2), (0.3, 0.4), (1.0, 0.5)),
    "RevoluteTranslational": planar.RevoluteTranslational("a", "b", (0.1, 0.2), (0.3, 0.4), (1.0, 0.5)),
    "Gear": planar.Gear("a", "b", (0.1, 0.2), (0.3, 0.4), 1.0, 0.5),
    "RackPinion": planar.RackPinion("a", "b", (0.1, 0.2), (0.3, 0.4), (1.0, 0.5), 0.5),
    "Belt": planar.Belt(("a", "b"), ((0.1, 0.2), (0.3, 0.4)), (0.5, -0.3)),
    "ElasticBelt": planar.ElasticBelt(("a", "b"), ((0.1, 0.2), (0.3, 0.4)), (0.5, -0.3), (1.0, 1.0)),
    "Rope": planar.Rope(("a", "ground", "b"), ((0.1, 0.2), (0.0, 2.0), (0.3, 0.4)), (0, -0.3, 0)),
    "CamFollower": planar.CamFollower("a", "b", (0.1, 0.2), (0.3, 0.4), EGG, planar.FunctionOutline(0.3)),
    "CamFlatFollower": planar.CamFlatFollower("a", "b", (0.1, 0.2), (0.3, 0.4), EGG),
    "PointFollower": planar.PointFollower("a", "b", (0.1, 0.2), (0.3, 0.4), EGG),
    "OutlineContact": planar.OutlineContact("a", "b", (0.1, 0.2), (0.3, 0.4), EGG, EGG, stiffness=1.0),
    "FlatContact": planar.FlatContact("a", "b", (0.1, 0.2), (0.3, 0.4), EGG, stiffness=1.0),
    "GenevaDrive": planar.GenevaDrive("a", "b", (0.1, 0.2), (0.3, 0.4), slots=4, crank=0.5),
    "AbsoluteXDriver": planar.AbsoluteXDriver("b", (0.3, 0.4), RAMP),
    "AbsoluteYDriver": planar.AbsoluteYDriver("b", (0.3, 0.4), RAMP),
    "AbsoluteAngleDriver": planar.AbsoluteAngleDriver("b", RAMP),
    "RelativeXDriver": planar.RelativeXDriver("a", "b", (0.1, 0.2), (0.3, 0.4), RAMP),
    "RelativeYDriver": planar.RelativeYDriver("a", "b", (0.1, 0.2), (0.3, 0.4), RAMP),
    "RelativeAngleDriver": planar.RelativeAngleDriver("a", "b", RAMP),
    "DistanceDriver": planar.DistanceDriver("a", "b", (0.1, 0.2), (0.3, 0.4), RAMP),
    "RevoluteDriver": planar.RevoluteDriver("a", "b", RAMP),
    "TranslationalDriver": planar.TranslationalDriver("a", "b", (0.1, 0.2), (0.3, 0.4), (1.0, 0.5), RAMP),
}
WITHOUT_A_PLACE = {"AbsoluteAngle", "RelativeAngle"}
ARROWS = {name for name in ELEMENTS if name.endswith("Driver")} - {"DistanceDriver"}
# Their symbols leave out a point.
SLOTS = {"RevoluteTranslational"}

RADIUS = 1.0
ROD = 2.5
TRACED = (1.0, 0.4)


def pair(element) -> mbs.Mechanism:
    """Two bodies and one element; a picture needs no more."""
    kind = "forces" if hasattr(element, "generalized") else "drivers" if hasattr(element, "motion") else "constraints"
    return mbs.Mechanism({"a": planar.Body(), "b": planar.Body()}, **{kind: {"it": element}})


def scene_of(mech, *configurations, **options) -> Scene:
    return Scene(mech, np.array([np.asarray(mech.coordinates(q)) for q in configurations]), **options)


def slider_crank() -> mbs.Mechanism:
    return mbs.Mechanism(
        bodies={"crank": planar.Body(), "rod": planar.Body(), "slider": planar.Body()},
        constraints={
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "rod", (RADIUS, 0), (0, 0)),
            "B": planar.Revolute("rod", "slider", (ROD, 0), (0, 0)),
            "rail": planar.Translational("ground", "slider", (0, 0), (0, 0)),
        },
        drivers={"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0))},
    )


def slider_crank_motion(count=12, failed=()) -> mbs.Trajectory:
    """The motion at crank angles t in closed form; rates and accelerations are stand-ins that tell rows apart."""
    t = np.linspace(0, 2 * np.pi, count, endpoint=False)
    zero = np.zeros(count)
    tilt = -np.arcsin(RADIUS * np.sin(t) / ROD)
    end = RADIUS * np.cos(t) + ROD * np.cos(tilt)
    q = np.column_stack([zero, zero, t, RADIUS * np.cos(t), RADIUS * np.sin(t), tilt, end, zero, zero])
    status = np.zeros(count, int)
    status[list(failed)] = mbs.Status.LOCKED_UP
    return mbs.Trajectory(jnp.asarray(t), jnp.asarray(q), jnp.cos(q), jnp.sin(q), status, slider_crank().layout)


def traced_curve(t):
    """Position of the traced point of the rod, in closed form."""
    tilt = -np.arcsin(RADIUS * np.sin(t) / ROD)
    x, y = TRACED
    return np.column_stack(
        [
            RADIUS * np.cos(t) + x * np.cos(tilt) - y * np.sin(tilt),
            RADIUS * np.sin(t) + x * np.sin(tilt) + y * np.cos(tilt),
        ]
    )


def polygons(ax) -> list[np.ndarray]:
    return [patch.get_xy()[:-1] if patch.get_closed() else patch.get_xy() for patch in ax.patches]


def test_the_list_of_elements_is_complete():
    public = {
        name
        for name, kind in vars(planar).items()
        if isinstance(kind, type)
        and issubclass(kind, (AbstractConstraint, mbs.forces.AbstractForce))
        and not name.startswith("Abstract")
    }
    assert public == set(ELEMENTS)


@pytest.mark.parametrize("name", sorted(ELEMENTS))
def test_every_element_is_drawn_at_its_points(name):
    mech = pair(ELEMENTS[name])
    q = {"a": (0.2, -0.3, 0.4), "b": (1.5, 0.8, -0.7)}
    scene = scene_of(mech, q)
    shapes = scene.symbols["it"]
    assert bool(shapes) == (name not in WITHOUT_A_PLACE)
    drawn = [shape.world(scene.poses)[0] for shape in shapes]
    places = attachments(ELEMENTS[name])
    # An arrow stands by the driven point, and a slot reaches as far as its pin goes.
    for body, point in places[-1:] if name in ARROWS | SLOTS else places:
        place = scene.world(body, point)[0]
        margin = 4 * scene.unit if name in ARROWS else 1e-9
        boxes = [(points.min(0) - margin, points.max(0) + margin) for points in drawn]
        assert any((lower <= place).all() and (place <= upper).all() for lower, upper in boxes)
    ax = mbs.viz.draw(mech, q)
    ax.figure.canvas.draw()
    assert len(ax.patches) == len(scene.shapes) >= 2
    plt.close(ax.figure)


def test_an_element_without_a_symbol_shows_its_points_and_a_new_symbol_is_one_function():
    class Latch(PlanarConstraint):
        i: str
        j: str
        point_i: Array = real((2,))
        point_j: Array = real((2,))
        rows = 1

        def residual(self, i, j, t):
            return j.point(self.point_j)[:1] - i.point(self.point_i)[:1]

    latch = Latch("a", "b", (0.1, 0.2), (0.3, 0.4))
    scene = scene_of(pair(latch), {"a": (0.2, -0.3, 0.4), "b": (1.5, 0.8, -0.7)})
    (line,) = [shape for shape in scene.shapes if isinstance(shape, Span)]
    ends = [scene.world("a", (0.1, 0.2))[0], scene.world("b", (0.3, 0.4))[0]]
    np.testing.assert_allclose(line.world(scene.poses)[0], ends, atol=1e-12)

    before = len(scene.shapes)
    symbol.register(Latch, lambda element, scene: [])
    assert len(scene_of(pair(latch), np.zeros(6)).shapes) == before - 3


def test_a_slot_lies_at_the_offset_of_its_line():
    element = planar.RevoluteTranslational("a", "b", (0.1, 0.2), (0.3, 0.4), (3.0, 4.0), 0.5)
    scene = scene_of(pair(element), np.zeros(6))
    slot = scene.symbols["it"][0].points - [0.1, 0.2]
    # Its corners are as far to both sides of the line that is 0.5 to the left of the given one.
    across = slot @ [-0.8, 0.6]
    np.testing.assert_allclose(sorted(across - 0.5), np.array([-1, -1, 1, 1]) * across.std(), rtol=1e-9)
    assert across.std() > 0


def test_an_open_joint_shows_both_of_its_points():
    joint = planar.Revolute("a", "b", (0, 0), (0, 0))
    count = lambda gap: len(scene_of(pair(joint), {"a": (0, 0, 0), "b": (gap, 0, 0)}).symbols["it"])
    assert count(0.0) == 1
    assert count(1.0) == 4


def test_pins_sit_on_the_joints_and_bars_end_there():
    angle = 0.8
    tilt = -np.arcsin(RADIUS * np.sin(angle) / ROD)
    pin = RADIUS * np.array([np.cos(angle), np.sin(angle)])
    end = np.array([pin[0] + ROD * np.cos(tilt), 0.0])
    mech = slider_crank()
    q = {"crank": (0, 0, angle), "rod": (*pin, tilt), "slider": (*end, 0)}
    ax = mbs.viz.draw(mech, q)
    centres = np.array([points.mean(0) for points in polygons(ax)])
    for joint in ((0, 0), pin, end):
        assert np.linalg.norm(centres - joint, axis=1).min() < 1e-9
    # The bar of the rod has round ends of its half width about both joints, and is as wide everywhere.
    scene = scene_of(mech, q)
    (rod,) = [shape.world(scene.poses)[0] for shape in scene.shapes if getattr(shape, "body", "") == "rod"][:1]
    along = np.clip((rod - pin) @ (end - pin) / ROD**2, 0, 1)
    np.testing.assert_allclose(np.linalg.norm(rod - pin - along[:, None] * (end - pin), axis=1), 1.15 * scene.unit)
    plt.close(ax.figure)


def test_plates_keep_their_distance_from_the_hull_of_their_points():
    random = np.random.default_rng(3)
    for count in (1, 2, 3, 6, 9):
        points = random.normal(size=(count, 2))
        outline = plate(points, 0.2)
        gaps = [np.linalg.norm(outline - point, axis=1) for point in points]
        for p, r in combinations(points, 2):
            part = np.clip((outline - p) @ (r - p) / ((r - p) @ (r - p)), 0, 1)[:, None]
            gaps.append(np.linalg.norm(outline - p - part * (r - p), axis=1))
        np.testing.assert_allclose(np.min(gaps, axis=0), 0.2, rtol=1e-9)
        assert Outline(np.concatenate([outline, outline[:1]])).contains_points(points).all()
    in_line = np.array([[0.0, 0.0], [0.1, 0.2], [0.3, 0.6], [1.0, 2.0]])
    np.testing.assert_allclose(plate(in_line, 0.1), plate(in_line[[0, 3]], 0.1), atol=1e-12)


def gear_pair(kind):
    """A mechanism, its configuration after the first gear has turned by an angle, the place of contact, the pitch."""
    wheel = {"a": planar.Body(), "b": planar.Body()}
    if kind == "outer":
        mesh = planar.Gear("a", "b", (0, 0), (0, 0), 1.0, 2.0, 0.3, 1.0)
        return mbs.Mechanism(wheel, {"mesh": mesh}), lambda x: (0, 0, x, 3, 0, 0.7 - x / 2), (1.0, 0.0)
    if kind == "inner":
        mesh = planar.Gear("a", "b", (0, 0), (0, 0), -2.0, 1.0, 0.3, 1.0)
        return mbs.Mechanism(wheel, {"mesh": mesh}), lambda x: (0, 0, x, 1, 0, 0.7 + 2 * x), (2.0, 0.0)
    mesh = planar.RackPinion("a", "b", (0, 0), (0, 0), (1, 0), 1.0)
    return mbs.Mechanism(wheel, {"mesh": mesh}), lambda x: (x, 0, 0, 0, 1, 0.7 + x), (0.0, 0.0)


@pytest.mark.parametrize("kind", ["outer", "inner", "rack"])
def test_teeth_interlock_while_gears_roll(kind):
    mech, configuration, touch = gear_pair(kind)
    turns = np.linspace(0, 0.7, 6)
    scene = scene_of(mech, *(np.array(configuration(x), float) for x in turns))
    toothed = [s for s in scene.shapes if s.style.face and s.style.opacity == 0.2]
    assert {s.body for s in toothed} == {"a", "b"}
    window = (
        np.stack(np.meshgrid(*2 * [np.linspace(-0.6, 0.6, 61) * scene.tooth_pitch]), axis=-1).reshape(-1, 2) + touch
    )
    for k in range(len(turns)):
        inside = []
        for shape in toothed:
            points = shape.world(scene.poses)[k]
            inside.append(Outline(np.concatenate([points, points[:1]])).contains_points(window))
        both, either = inside[0] & inside[1], inside[0] | inside[1]
        # A tooth upon a tooth would cover a fifth of the window twice.
        assert both.mean() < 0.04
        assert either.mean() > 0.8


def test_the_arrow_of_a_driver_follows_its_sense():
    def turn(rate):
        driver = planar.AbsoluteAngleDriver("a", mbs.motion.Ramp(rate))
        scene = scene_of(mbs.Mechanism({"a": planar.Body()}, drivers={"it": driver}), np.zeros(3))
        line = next(s for s in scene.symbols["it"] if not s.style.closed).world(scene.poses)[0]
        return np.sign(line[0, 0] * line[1, 1] - line[0, 1] * line[1, 0])

    assert turn(2.0) == 1
    assert turn(-2.0) == -1


def test_trace_draws_the_closed_form_with_a_gap_where_the_motion_failed():
    motion = slider_crank_motion(failed=[3])
    (line,) = mbs.viz.trace(motion, "rod", TRACED).lines
    expected = traced_curve(np.asarray(motion.t))
    expected[3] = np.nan
    np.testing.assert_allclose(np.column_stack(line.get_data()), expected, atol=1e-12)
    plt.close("all")


def test_plot_shows_position_velocity_and_acceleration():
    motion = slider_crank_motion()
    axes = mbs.viz.plot(motion, ["rod.phi", "slider.x"])
    for ax, table in zip(axes, (motion.q, motion.v, motion.a), strict=True):
        for line, column in zip(ax.lines, (5, 6), strict=True):
            np.testing.assert_array_equal(line.get_ydata(), table[:, column])
    assert len(mbs.viz.plot(motion)[0].lines) == 9
    plt.close("all")


def test_draw_marks_points_and_names_bodies():
    motion = slider_crank_motion()
    ax = mbs.viz.draw(slider_crank(), motion.q[2], points=[("rod", TRACED)], labels=True)
    centres = np.array([points.mean(0) for points in polygons(ax)])
    assert np.linalg.norm(centres - traced_curve(np.asarray(motion.t))[2], axis=1).min() < 1e-9
    assert {text.get_text() for text in ax.texts} == {"crank", "rod", "slider"}
    plt.close(ax.figure)


def film_of(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="film">(.*?)</script>', page, re.S).group(1))


def test_the_page_holds_all_frames_and_needs_nothing_else(tmp_path):
    motion = slider_crank_motion()
    title = "</script><b>crank & slider"
    options = {"traces": [("rod", TRACED)], "title": title}
    path = mbs.viz.animate(slider_crank(), motion, tmp_path / "new" / "motion.html", **options)
    page = path.read_text(encoding="utf-8")
    film = film_of(page)
    assert film["title"] == title
    np.testing.assert_allclose(film["times"], motion.t, atol=1e-8)
    poses = np.array(film["poses"])
    assert poses.shape == (12, 4, 3)
    corner, scale = np.array(film["origin"]), film["scale"]
    for k, name in enumerate(film["bodies"]):
        if name == "ground":
            continue
        q = np.asarray(motion.q)[:, 3 * k : 3 * k + 3]
        np.testing.assert_allclose(poses[:, k, :2] / [scale, -scale] + corner, q[:, :2], atol=1e-4)
        np.testing.assert_allclose(poses[:, k, 2], -q[:, 2], atol=1e-5)
    (curve,) = film["curves"]
    points = np.array(curve["points"]) / [scale, -scale] + corner
    np.testing.assert_allclose(points, traced_curve(np.asarray(motion.t)), atol=1e-4)
    # Nothing is loaded; the only address is the name of SVG.
    assert not re.search(r"(src|href)\s*=|@import|import\(|fetch\(", page)
    assert set(re.findall(r"https?://[^\"' ]+", page)) == {"http://www.w3.org/2000/svg"}
    assert len(page) < 60_000
    assert mbs.viz.animate(slider_crank(), motion, **options).html == page
    assert "srcdoc" in mbs.viz.animate(slider_crank(), motion)._repr_html_()


def test_the_gif_moves_and_leaves_failed_times_out(tmp_path):
    motion = slider_crank_motion(failed=[4, 5])
    path = mbs.viz.animate(slider_crank(), motion, tmp_path / "motion.gif", fps=20, traces=[("rod", TRACED)])
    with Image.open(path) as film:
        assert film.n_frames == 10
        assert film.info["duration"] == 50
        frames = []
        for k in range(film.n_frames):
            film.seek(k)
            frames.append(np.asarray(film.convert("RGB"), int))
    assert (frames[0][0, 0] == 255).all()
    for before, after in pairwise(frames):
        assert np.abs(before - after).max(axis=-1).mean() > 0.5
    assert 5_000 < path.stat().st_size < 300_000
    assert len(film_of(mbs.viz.animate(slider_crank(), motion).html)["poses"]) == 10


def test_mp4_needs_ffmpeg(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(RuntimeError, match="ffmpeg"):
        mbs.viz.animate(slider_crank(), slider_crank_motion(), tmp_path / "motion.mp4")


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
def test_mp4_holds_all_frames(tmp_path):
    path = mbs.viz.animate(slider_crank(), slider_crank_motion(), tmp_path / "motion.mp4")
    ask = ["-count_frames", "-show_entries", "stream=nb_read_frames", "-of", "csv=p=0"]
    answer = subprocess.run(["ffprobe", "-v", "error", *ask, str(path)], capture_output=True, text=True, check=True)
    assert int(answer.stdout) == 12


def test_errors_say_what_is_wrong(tmp_path):
    mech, motion = slider_crank(), slider_crank_motion()
    with pytest.raises(ValueError, match=r"\.gif, \.mp4, \.html or \.glb"):
        mbs.viz.animate(mech, motion, tmp_path / "motion.avi")
    with pytest.raises(ValueError, match="nothing to show"):
        mbs.viz.animate(mech, slider_crank_motion(failed=range(12)), tmp_path / "motion.gif")
    batch = mbs.Trajectory(*(x[None] for x in (motion.t, motion.q, motion.v, motion.a, motion.status)), motion.layout)
    for show in (lambda: mbs.viz.animate(mech, batch), lambda: mbs.viz.plot(batch)):
        with pytest.raises(ValueError, match="one motion"):
            show()
    with pytest.raises(ValueError, match="did you mean 'rod'"):
        mbs.viz.trace(motion, "rodd")
    assert len(mbs.viz.trace(batch, "rod", TRACED).lines) == 1
    plt.close("all")


def test_importing_the_package_does_not_import_matplotlib():
    code = "import sys, jaxmbs; assert 'matplotlib' not in sys.modules; jaxmbs.viz.draw; assert 'matplotlib' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="vizz"):
        mbs.vizz
