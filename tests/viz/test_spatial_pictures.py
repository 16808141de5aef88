"""Pictures of space show what the mechanism does: solids at the joints, the camera above, a page that plays by itself."""

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
from matplotlib.path import Path as Outline
from mpl_toolkits.mplot3d.proj3d import proj_transform
from PIL import Image

import jaxmbs as mbs
from jaxmbs import planar, spatial
from jaxmbs.element import AbstractConstraint
from jaxmbs.numerics import rotation
from jaxmbs.spatial.element import Points
from jaxmbs.viz.attachments import attachments
from jaxmbs.viz.spatial.bodies import inertia_mesh
from jaxmbs.viz.spatial.meshes import Mesh, cylinder
from jaxmbs.viz.spatial.player import euler_parameters
from jaxmbs.viz.spatial.scene import Scene
from jaxmbs.viz.spatial.shapes import Span
from jaxmbs.viz.spatial.symbols import symbol

matplotlib.use("Agg")
RAMP = mbs.motion.Ramp(0.5, 2.0)
A, B = (0.1, 0.2, -0.1), (0.3, -0.1, 0.2)
AXIS = (1.0, 2.0, 2.0)
FRAMES = ("Revolute", "Prismatic", "Cylindrical", "Spherical", "Planar", "Rigid", "ConstantVelocity")

ELEMENTS = {name: getattr(spatial, name)("a", "b", A, B, AXIS) for name in FRAMES} | {
    "Free": spatial.Free("a", "b", A, B),
    "Universal": spatial.Universal("a", "b", A, B),
    "Distance": spatial.Distance("ground", "b", A, B, 1.0),
    "Screw": spatial.Screw("a", "b", A, B, AXIS, pitch=-0.2),
    "Gear": spatial.Gear("a", "b", A, B, AXIS, radius_i=1.0, radius_j=0.5),
    "TotalJoint": spatial.TotalJoint("a", "b", A, B, ("free", "fixed", RAMP), ("fixed", "fixed", "free")),
    "RelativeJoint": spatial.RelativeJoint("a", "b", A, B, ("fixed", "fixed", RAMP), ("free", "fixed", "free")),
    "RevoluteDriver": spatial.RevoluteDriver("a", "b", RAMP),
    "TranslationalDriver": spatial.TranslationalDriver("a", "b", A, B, RAMP),
    "DistanceDriver": spatial.DistanceDriver("a", "b", A, B, RAMP),
    "Spring": mbs.Spring("ground", "b", A, B, stiffness=1.0),
    "SpringDamper": mbs.SpringDamper("a", "b", stiffness=1.0, damping=1.0),
    "Damper": mbs.Damper("a", "b", A, B, 1.0),
    "TorsionSpring": mbs.TorsionSpring("a", "b", 1.0, axis_i=AXIS),
    "PointForce": mbs.PointForce("b", B, (0.0, 0, 1)),
    "Gravity": mbs.Gravity((0.0, 0, -9.81)),
}
WITHOUT_A_PLACE = {"Free", "Gravity"}
ARROWS = {"TranslationalDriver"}

RADIUS, ROD, HEIGHT = 1.0, 3.0, 0.5
TRACED = (0.0, 0.4, 0.0)


def pair(element, **bodies) -> mbs.Mechanism:
    """Two bodies and one element; a picture needs no more."""
    kind = "forces" if hasattr(element, "generalized") else "drivers" if hasattr(element, "motion") else "constraints"
    return mbs.Mechanism({"a": spatial.Body(), "b": spatial.Body(), **bodies}, **{kind: {"it": element}})


def apart(mech) -> np.ndarray:
    """The two bodies away from each other, turned."""
    a = spatial.coordinates((0.2, -0.3, 0.1), (0.3, -0.2, 0.5))
    b = spatial.coordinates((1.5, 0.8, 0.4), (-0.7, 0.9, 0.2))
    return np.asarray(mech.coordinates({"a": a, "b": b}))


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


def is_closed(mesh: Mesh) -> bool:
    """Whether each edge is run through once in either sense, and the inside is inside."""
    edges = np.concatenate([mesh.triangles[:, [k, (k + 1) % 3]] for k in range(3)])
    forth, back = ({tuple(edge) for edge in some.tolist()} for some in (edges, edges[:, ::-1]))
    return len(forth) == len(edges) and forth == back and mesh.volume > 0


# --- symbols ------------------------------------------------------------------------------------------------------


def test_the_list_of_elements_is_complete():
    public = {
        name
        for name, kind in vars(spatial).items()
        if isinstance(kind, type) and issubclass(kind, AbstractConstraint) and not name.startswith("Abstract")
    }
    assert public <= set(ELEMENTS)


@pytest.mark.parametrize("name", sorted(ELEMENTS))
def test_every_element_has_closed_solids_at_its_points(name):
    mech = pair(ELEMENTS[name])
    scene = Scene(mech, apart(mech)[None])
    shapes = scene.symbols["it"]
    assert bool(shapes) == (name not in WITHOUT_A_PLACE)
    assert all(is_closed(shape.mesh) for shape in scene.shapes)
    margin = (4 if name in ARROWS else 1e-9) * scene.unit
    drawn = [shape.world(scene.poses)[0] for shape in scene.shapes]
    boxes = [(points.min(0) - margin, points.max(0) + margin) for points in drawn]
    for body, point in attachments(ELEMENTS[name], 3):
        place = scene.world(body, point)[0]
        assert any((lower <= place).all() and (place <= upper).all() for lower, upper in boxes)


def test_an_element_without_a_symbol_shows_its_points_and_a_new_symbol_is_one_function():
    class Latch(Points):
        rows = 1

        def residual(self, i, j, t):
            return j.point(self.point_j)[:1] - i.point(self.point_i)[:1]

    mech = pair(Latch("a", "b", A, B))
    scene = Scene(mech, apart(mech)[None])
    (line,) = [shape for shape in scene.symbols["it"] if isinstance(shape, Span)]
    ends = line.world(scene.poses)[0]
    axis = [ends[line.mesh.points[:, 2] == part].mean(0) for part in (0, 1)]
    np.testing.assert_allclose(axis, [scene.world("a", A)[0], scene.world("b", B)[0]], atol=1e-6)
    symbol.register(Latch, lambda element, scene: [])
    assert Scene(mech, apart(mech)[None]).symbols["it"] == []


def test_a_span_turns_the_shortest_way():
    random = np.random.default_rng(1)
    origin, unturned = np.zeros((1, 3)), np.eye(3)[None]
    mesh = Mesh(random.normal(size=(7, 3)), np.zeros((0, 4), int))
    for line in [*random.normal(size=(4, 3)), np.array([0.0, 0, -2])]:
        span = Span((("a", np.zeros(3)), ("a", line)), mesh, "k")
        turn = np.asarray(rotation.matrix(rotation.along(jnp.asarray(line))))
        if line[2] == -2:
            turn = np.diag([1.0, -1, -1])
        expected = (mesh.points * [1, 1, np.linalg.norm(line)]) @ turn.T
        np.testing.assert_allclose(span.world({"a": (origin, unturned)})[0], expected, atol=2e-6)


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


def test_a_body_at_a_single_point_shows_its_inertia():
    def inertia_of(mesh):
        """Of a homogeneous solid of mass 1, about the origin, from the tetrahedra of its triangles."""
        corners = mesh.points[mesh.triangles]
        volumes = np.linalg.det(corners) / 6
        sums = corners.sum(1)
        second = (np.einsum("tka,tkb->tab", corners, corners) + np.einsum("ta,tb->tab", sums, sums)) / 20
        covariance = np.einsum("t,tab->ab", volumes, second) / volumes.sum()
        return np.trace(covariance) * np.eye(3) - covariance

    turned = np.asarray(rotation.exp_matrix(jnp.array([0.3, -0.5, 0.8])))
    for moments in ((0.4, 0.4, 0.4), (0.3, 0.5, 0.5), (0.5, 0.3, 0.5), (0.3, 0.4, 0.5)):
        body = spatial.Body(2.0, 2 * np.array(moments), inertia_frame=turned)
        mesh = inertia_mesh(body, 1e-3, 1e3)
        assert is_closed(mesh)
        expected = turned @ np.diag(moments) @ turned.T
        # Round solids are a little less than round.
        np.testing.assert_allclose(inertia_of(mesh), expected, atol=0.025)
    assert np.ptp(inertia_mesh(body, 1e-3, 0.1).points, axis=0).max() < 0.18


def test_a_rotor_is_a_disc_across_its_axis():
    n = np.array([1.0, 2.0, -1.0])
    for body in (spatial.Rotor(0.3, n), spatial.Rotor(0.3, n, 2.0)):
        points = inertia_mesh(body, 0.1, 0.4).points
        along = points @ n / np.linalg.norm(n)
        # As high as what is thinnest in pictures, and four to thirteen times as wide.
        assert np.ptp(along) == pytest.approx(0.03)
        assert 0.1 < np.ptp(np.linalg.norm(points - along[:, None] * n / np.linalg.norm(n), axis=1)) < 0.21


@pytest.mark.parametrize("kind", ["outer", "numbers of teeth", "inner"])
def test_teeth_interlock_while_gears_roll(kind):
    radii, distance, turn = {
        "outer": ((1.0, 2.0), 3.0, lambda x: -x / 2),
        "numbers of teeth": ((18.0, 36.0), 3.0, lambda x: -x / 2),
        "inner": ((-2.0, 1.0), 1.0, lambda x: 2 * x),
    }[kind]
    mesh = spatial.Gear("a", "b", axis_i=(0, 0, 1), radius_i=radii[0], radius_j=radii[1], angle_i=0.3, angle_j=1.0)
    mech = pair(mesh)
    turns = np.linspace(0, 0.7, 6)

    # At first the marks touch: those at the angles 0.3 and 1 from the x axes of the gears, towards the other's centre.
    start_a, start_b = -0.3, np.pi - 1.0

    def configuration(x):
        a, b = (
            spatial.coordinates(r, (0, 0, f))
            for r, f in (((0, 0, 0), start_a + x), ((distance, 0, 0), start_b + turn(x)))
        )
        return np.asarray(mech.coordinates({"a": a, "b": b}))

    scene = Scene(mech, np.array([configuration(x) for x in turns]))
    first, second = (next(s for s in scene.symbols["it"] if s.body == body) for body in ("a", "b"))
    size = [4 * round(18 * abs(r) / min(abs(x) for x in radii)) for r in radii]
    pitch = scene.pitch
    touch = 2.0 if kind == "inner" else 1.0
    window = np.stack(np.meshgrid(*2 * [np.linspace(-0.6, 0.6, 61) * pitch]), axis=-1).reshape(-1, 2)
    window = window + np.array([touch, 0])
    for k in range(len(turns)):
        # The first ring of an extruded outline; of a ring gear the third is its inner outline.
        start = 2 * size[0] if kind == "inner" else 0
        inside = []
        for shape, begin, count in ((first, start, size[0]), (second, 0, size[1])):
            points = shape.world(scene.poses)[k][begin : begin + count, :2]
            inside.append(Outline(np.concatenate([points, points[:1]])).contains_points(window))
        if kind == "inner":
            inside[0] = ~inside[0]
        assert (inside[0] & inside[1]).mean() < 0.04
        assert (inside[0] | inside[1]).mean() > 0.8


# --- the camera ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gravity", [(0, 0, 0), (0, 0, -9.81), (0, 0, 9.81), (0, -9.81, 0), (9.81, 0, 0), (0.5, -9, 1)])
def test_up_is_up_and_right_is_not_left(gravity):
    mech = pair(mbs.Gravity(gravity))
    scene = Scene(mech, apart(mech)[None])
    up = -np.array(gravity) / np.linalg.norm(gravity) if np.any(gravity) else np.array([0, 0, 1.0])
    np.testing.assert_allclose(scene.view.up, up, atol=1e-7)
    assert scene.view.direction @ up == pytest.approx(np.sin(np.deg2rad(scene.view.elevation)), abs=1e-6)
    ax = mbs.viz.draw(mech, apart(mech))
    ax.figure.canvas.draw()
    middle = np.array([np.mean(limit) for limit in (ax.get_xlim(), ax.get_ylim(), ax.get_zlim())])
    small = 1e-3 * scene.extent
    seen = lambda place: np.array(proj_transform(*place, ax.get_proj())[:2])
    nearest = np.round(up / np.abs(up).max() * 0.9)
    x, y = seen(middle + small * nearest) - seen(middle)
    assert y > 5 * abs(x)
    # Nothing is mirrored, and all directions have one scale: a circle across the line of sight is seen as a circle.
    right = np.cross(scene.view.up, scene.view.direction) / np.cos(np.deg2rad(scene.view.elevation))
    above = np.cross(scene.view.direction, right)
    angles = np.linspace(0, np.pi, 5)
    circle = [seen(middle + small * (np.cos(x) * right + np.sin(x) * above)) - seen(middle) for x in angles]
    size = np.linalg.norm(circle, axis=1)
    np.testing.assert_allclose(size, size[0], rtol=0.05)
    tilt = np.arctan2(circle[0][1], circle[0][0])
    np.testing.assert_allclose(np.arctan2(*np.transpose(circle)[::-1]) % 6.28, (angles + tilt) % 6.28, atol=0.05)
    assert abs(tilt) < 0.3
    plt.close(ax.figure)


def test_a_flat_mechanism_is_not_seen_from_its_edge():
    points = [(x, 0.02 * x, z) for x in (0, 1, 2) for z in (0, 1)]
    bars = {f"p{k}": mbs.PointForce("a", point, (0, 0, 1)) for k, point in enumerate(points)}
    mech = mbs.Mechanism({"a": spatial.Body(), "b": spatial.Body()}, forces=bars)
    scene = Scene(mech, np.asarray(mech.coordinates())[None])
    assert abs(scene.view.direction @ [0, 1, 0]) > 0.7
    assert Scene(mech, np.asarray(mech.coordinates())[None], view=(10, 20)).view.azimuth == 20


# --- stills and films ---------------------------------------------------------------------------------------------


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


# --- the page -----------------------------------------------------------------------------------------------------


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
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
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


def test_cylinders_are_as_large_as_they_say():
    mesh = cylinder(2.0, 3.0, count=64)
    assert is_closed(mesh)
    np.testing.assert_allclose(np.ptp(mesh.points, axis=0), [4, 4, 3], rtol=1e-3)
