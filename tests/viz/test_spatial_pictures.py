"""Pictures of space move as the mechanism does: bars, stills, films, a page that plays by itself."""

import html
import json
import re
import shutil
import subprocess
from itertools import pairwise

import jax.numpy as jnp
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image

import jaxmbs as mbs
from jaxmbs import planar, spatial
from jaxmbs.numerics import rotation
from jaxmbs.viz.spatial.player import euler_parameters
from jaxmbs.viz.spatial.scene import Scene

matplotlib.use("Agg")

RADIUS = 1.0
ROD = 3.0
HEIGHT = 0.5
TRACED = (0.0, 0.4, 0.0)


def slider_crank(gravity=(0.0, 0, -9.81)) -> mbs.Mechanism:
    """A crank about x at the height HEIGHT, a rod, a slider along x; a spring holds the slider."""
    return mbs.Mechanism(
        bodies={"crank": spatial.Body(), "rod": spatial.Body(), "slider": spatial.Body()},
        constraints={
            "O": spatial.Revolute("ground", "crank", (0, 0, HEIGHT), (0, 0, 0), (1, 0, 0)),
            "A": spatial.Spherical("crank", "rod", (0, RADIUS, 0), (0, 0, 0)),
            "B": spatial.Spherical("rod", "slider", (ROD, 0, 0), (0, 0, 0)),
            "rail": spatial.Prismatic("ground", "slider", (0, 0, 0), (0, 0, 0), (1, 0, 0)),
        },
        drivers={"motor": spatial.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0), axis_i=(1, 0, 0))},
        forces={"weight": mbs.Gravity(gravity), "spring": mbs.Spring("ground", "slider", (5, 0, 0), None, 1.0)},
    )


def slider_crank_motion(count=12, failed=()) -> mbs.Trajectory:
    """The motion at crank angles t in closed form; the rates are stand-ins that tell rows apart."""
    mech = slider_crank()
    t = np.linspace(0, 2 * np.pi, count, endpoint=False)
    pin = np.stack([0 * t, RADIUS * np.cos(t), HEIGHT + RADIUS * np.sin(t)], axis=1)
    along = np.column_stack([np.sqrt(ROD**2 - (pin**2).sum(1)), -pin[:, 1:]]) / ROD
    # Half-way between the rod's direction and x: the shortest rotation.
    half = np.column_stack([1 + along[:, 0], 0 * t, -along[:, 2], along[:, 1]])
    half /= np.linalg.norm(half, axis=1, keepdims=True)
    still = np.tile([1.0, 0, 0, 0], (count, 1))
    crank = np.column_stack([0 * t, 0 * t, HEIGHT + 0 * t, np.cos(t / 2), np.sin(t / 2), 0 * t, 0 * t])
    slider = np.column_stack([ROD * along[:, 0], 0 * t, 0 * t, still])
    q = np.column_stack([crank, pin, half, slider])
    status = np.zeros(count, int)
    status[list(failed)] = mbs.Status.LOCKED_UP
    v = np.cos(np.arange(count * 18.0).reshape(count, 18))
    return mbs.Trajectory(jnp.asarray(t), jnp.asarray(q), jnp.asarray(v), jnp.asarray(-v), status, mech.layout)


@pytest.fixture(scope="module")
def motion():
    return slider_crank_motion()


@pytest.fixture(scope="module")
def page(motion):
    title = "</script><b>crank & slider"
    return mbs.viz.animate(slider_crank(), motion, traces=[("rod", TRACED)], title=title).html


def test_bars_reach_from_joint_to_joint():
    mech, motion = slider_crank(), slider_crank_motion()
    scene = Scene(mech, np.asarray(motion.q))
    (rod,) = scene.bodies["rod"]
    gap = rod.mesh.points - np.clip(rod.mesh.points[:, :1], 0, ROD) * [1, 0, 0]
    np.testing.assert_allclose(np.linalg.norm(gap, axis=1).max(), 0.8 * scene.unit, rtol=1e-3)
    assert rod.mesh.points[:, 0].min() < 0 < ROD < rod.mesh.points[:, 0].max()
    # The block of the slider stands for it.
    assert scene.bodies["slider"] == []
    # In the ground frame they meet: what holds the rod goes where the crank's pin goes.
    np.testing.assert_allclose(scene.world("rod", (0, 0, 0)), scene.world("crank", (0, RADIUS, 0)), atol=1e-6)
    np.testing.assert_allclose(scene.world("rod", (ROD, 0, 0)), scene.world("slider", (0, 0, 0)), atol=1e-6)


def test_draw_names_bodies_and_takes_axes_of_space(motion):
    mech = slider_crank()
    ax = mbs.viz.draw(mech, motion.q[2], points=[("rod", TRACED)], labels=True)
    assert {text.get_text() for text in ax.texts} == {"crank", "rod", "slider"}
    ax.figure.canvas.draw()
    picture = np.asarray(ax.figure.canvas.buffer_rgba())[..., :3].reshape(-1, 3).astype(int)
    # Each body is there in its colour, more or less bright.
    for index in range(3):
        colour = np.array(matplotlib.colors.to_rgb(mbs.viz.style.colour_of(index))) * 255
        brightness = picture @ colour / (colour @ colour)
        near = np.abs(picture - brightness[:, None] * colour).max(1) < 12
        assert (near & (brightness > 0.5) & (brightness < 1.1)).sum() > 60
    with pytest.raises(ValueError, match="projection"):
        mbs.viz.draw(mech, motion.q[2], ax=plt.subplots()[1])
    plt.close("all")


def test_trace_and_plot_work_in_space():
    motion = slider_crank_motion(failed=[3])
    ax = mbs.viz.trace(motion, "rod", TRACED)
    x, y, z = ax.lines[0].get_data_3d()
    expected = np.array(motion.point("rod", TRACED))
    expected[3] = np.nan
    np.testing.assert_allclose(np.column_stack([x, y, z]), expected, atol=1e-6)
    axes = mbs.viz.plot(motion, ["rod.x", "rod.e0", "rod.wx"])
    assert [[line.get_label() for line in ax.lines] for ax in axes] == [["rod.x", "rod.e0"], *2 * [["rod.x", "rod.wx"]]]
    assert len(mbs.viz.plot(motion)[0].lines) == 21
    with pytest.raises(ValueError, match="unknown coordinate"):
        mbs.viz.plot(motion, ["rod.phi"])
    plt.close("all")


def test_the_gif_moves_and_leaves_failed_times_out(tmp_path):
    motion = slider_crank_motion(count=6, failed=[4])
    path = mbs.viz.animate(slider_crank(), motion, tmp_path / "m.gif", fps=20, traces=[("rod", TRACED)], title="crank")
    with Image.open(path) as film:
        assert film.n_frames == 5
        frames = []
        for k in range(film.n_frames):
            film.seek(k)
            frames.append(np.asarray(film.convert("RGB"), int))
    assert (frames[0][0, 0] == 255).all()
    for before, after in pairwise(frames):
        assert (np.abs(before - after).max(axis=-1) > 20).mean() > 0.005
    assert path.stat().st_size < 200_000


def test_a_view_is_for_space():
    flat = mbs.Mechanism({"a": planar.Body()})
    with pytest.raises(ValueError, match="view"):
        mbs.viz.draw(flat, np.zeros(3), view=(20, 30))


def test_euler_parameters_follow_the_motion():
    t = np.linspace(0, 9, 40)
    p = np.column_stack([np.cos(t / 2), np.outer(np.sin(t / 2), [0.6, 0, 0.8])])
    axes = np.array([np.asarray(rotation.matrix(jnp.asarray(one))) for one in p])
    np.testing.assert_allclose(euler_parameters(axes), p, atol=1e-5)


def test_the_page_holds_all_frames_and_needs_nothing_else(motion, page):
    film = json.loads(re.search(r'<script type="application/json" id="film">(.*?)</script>', page, re.S).group(1))
    assert film["title"] == "</script><b>crank & slider"
    # Three elements of script close: the library, the data, the program.
    assert page.count("</script>") == 3
    np.testing.assert_allclose(film["times"], motion.t, atol=1e-6)
    poses = np.array(film["poses"])
    assert poses.shape == (12, 4, 7)
    names = [body["name"] for body in film["bodies"]]
    assert names == ["crank", "rod", "slider", "ground"]
    np.testing.assert_allclose(poses[:, :3].reshape(12, -1), motion.q, atol=1e-5)
    np.testing.assert_allclose(film["curves"][0]["points"], motion.point("rod", TRACED), atol=1e-3)
    labels = {shape["label"] for shape in film["shapes"]}
    assert {"rod", "A · Spherical", "spring · Spring", "motor · RevoluteDriver"} <= labels
    # Nothing is loaded; the only addresses are names of kinds of documents.
    assert not re.search(r"(src|href)\s*=\s*[\"']|@import", page)
    assert all("www.w3.org" in address for address in re.findall(r"https?://[^\"'` )]+", page))
    assert len(page) < 900_000
    assert html.escape(page[:200]) in mbs.viz.animate(slider_crank(), motion)._repr_html_()


PROBE = """<script>
const errors = [];
addEventListener("error", event => errors.push(String(event.message)));
function ink() {
  const copy = document.createElement("canvas"), pen = copy.getContext("2d");
  [copy.width, copy.height] = [160, 100];
  pen.drawImage(document.querySelector("canvas"), 0, 0, 160, 100);
  return Array.from(pen.getImageData(0, 0, 160, 100).data);
}
addEventListener("load", () => setTimeout(() => {
  const found = {errors};
  try {
    play(false);
    const pictures = [0, 5].map(frame => { show(frame); renderer.render(scene, camera); return ink(); });
    found.drawn = pictures[0].filter((x, k) => k % 4 === 3 && x > 60).length / 16000;
    found.changed = pictures[0].filter((x, k) => Math.abs(x - pictures[1][k]) > 40).length / 64000;
    world.updateMatrixWorld(true);
    const local = p => world.worldToLocal(p).toArray();
    found.pin = local(bodies[1].localToWorld(new THREE.Vector3(3, 0, 0)));
    found.ends = [0, 1].map(part => local(spans[0].mesh.localToWorld(new THREE.Vector3(0, 0, part))));
    found.title = document.title;
    found.bold = document.querySelectorAll("b").length;
  } catch (error) { errors.push(String(error)); }
  document.body.dataset.found = JSON.stringify(found);
}, 300));
</script>"""


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_a_browser_plays_the_page(motion, page, tmp_path):
    path = tmp_path / "motion.html"
    path.write_text(page.replace("<style>", PROBE + "<style>", 1), encoding="utf-8")
    options = (
        "--headless --no-sandbox --disable-gpu --use-gl=angle --use-angle=swiftshader --enable-unsafe-swiftshader "
    )
    options += (
        "--disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync "
    )
    options += "--enable-logging=stderr --window-size=800,600 --virtual-time-budget=2500 --dump-dom"
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    command = ["chromium", *options.split(), profile, path.as_uri()]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    found = json.loads(html.unescape(re.search(r'data-found="(.*?)"', result.stdout).group(1)))
    assert found["errors"] == []
    assert not re.search(r"CONSOLE.*(Error|Uncaught|THREE\.)", result.stderr)
    assert found["drawn"] > 0.02
    assert found["changed"] > 0.005
    # The page puts things where the motion has them: a pin of the rod, and the ends of the spring.
    np.testing.assert_allclose(found["pin"], motion.point("rod", (ROD, 0, 0))[5], atol=1e-3)
    np.testing.assert_allclose(found["ends"], [(5, 0, 0), motion.point("slider")[5]], atol=1e-3)
    assert found["title"] == "</script><b>crank & slider"
    assert found["bold"] == 0
