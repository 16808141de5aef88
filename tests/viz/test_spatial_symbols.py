"""Symbols of space: closed solids at the joints, teeth that interlock, the camera above."""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.path import Path as Outline
from mpl_toolkits.mplot3d.proj3d import proj_transform

import jaxmbs as mbs
from jaxmbs import spatial
from jaxmbs.element import AbstractConstraint
from jaxmbs.numerics import rotation
from jaxmbs.spatial.element import Points
from jaxmbs.viz.attachments import attachments
from jaxmbs.viz.spatial.bodies import inertia_mesh
from jaxmbs.viz.spatial.meshes import Mesh, cylinder
from jaxmbs.viz.spatial.scene import Scene
from jaxmbs.viz.spatial.shapes import Span
from jaxmbs.viz.spatial.symbols import symbol

RAMP = mbs.motion.Ramp(0.5, 2.0)
A, B = (0.1, 0.2, -0.1), (0.3, -0.1, 0.2)
AXIS = (1.0, 2.0, 2.0)
FRAMES = ("Revolute", "Prismatic", "Cylindrical", "Spherical", "Planar", "Rigid", "ConstantVelocity")

ELEMENTS = {name: getattr(spatial, name)("a", "b", A, B, AXIS) for name in FRAMES} | {
    "Free": spatial.Free("a", "b", A, B),
    "Universal": spatial.Universal("a", "b", A, B),
    "Distance": spatial.Distance("ground", "b", A, B, 1.0),
    "Screw": spatial.Screw("a", "b", A, B, AXIS, pitch=-0.2),
    "AxisDistance": spatial.AxisDistance("a", "b", A, B, AXIS, distance=0.4),
    "Thread": spatial.Thread("a", "b", A, B, AXIS, pitch=-0.2, angle_i=0.0),
    "RackPinion": spatial.RackPinion("a", "b", A, B, AXIS, radius_j=0.4, angle_i=0.0),
    "Gear": spatial.Gear("a", "b", A, B, AXIS, radius_i=1.0, radius_j=0.5),
    "WormGear": spatial.WormGear("a", "b", A, B, AXIS, radius_i=0.3, radius_j=1.0, pitch=0.2),
    "JointCoupling": spatial.JointCoupling("a", "b", (), ("angle",), ((0, 1),)),
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
WITHOUT_A_PLACE = {"Free", "Gravity", "JointCoupling"}
ARROWS = {"TranslationalDriver"}


def pair(element, **bodies) -> mbs.Mechanism:
    """Two bodies and one element; a picture needs no more."""
    kind = "forces" if hasattr(element, "generalized") else "drivers" if hasattr(element, "motion") else "constraints"
    return mbs.Mechanism({"a": spatial.Body(), "b": spatial.Body(), **bodies}, **{kind: {"it": element}})


def apart(mech) -> np.ndarray:
    """The two bodies away from each other, turned."""
    a = spatial.coordinates((0.2, -0.3, 0.1), (0.3, -0.2, 0.5))
    b = spatial.coordinates((1.5, 0.8, 0.4), (-0.7, 0.9, 0.2))
    return np.asarray(mech.coordinates({"a": a, "b": b}))


def is_closed(mesh: Mesh) -> bool:
    """Return True if each edge is run through once in either sense, and the inside is inside."""
    edges = np.concatenate([mesh.triangles[:, [k, (k + 1) % 3]] for k in range(3)])
    forth, back = ({tuple(edge) for edge in some.tolist()} for some in (edges, edges[:, ::-1]))
    return len(forth) == len(edges) and forth == back and mesh.volume > 0


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
    pitch = scene.tooth_pitch
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


def test_cylinders_are_as_large_as_they_say():
    mesh = cylinder(2.0, 3.0, count=64)
    assert is_closed(mesh)
    np.testing.assert_allclose(np.ptp(mesh.points, axis=0), [4, 4, 3], rtol=1e-3)
