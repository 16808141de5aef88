"""Solids for CAD: volumes and distances of closed form, parts that never collide, files that are read back."""

import itertools
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial
from jaxmbs.viz import PartSizes

cad = pytest.importorskip("build123d")

SIZES = PartSizes(width=0.3, thickness=0.1, pin=0.15, clearance=0.01, gap=0.02)
# Millimetres in the unit of the tests, the centimetre.
MM = 10.0
LINKS = {"crank": 1.0, "coupler": 3.0, "rocker": 2.5, "ground": 3.5}
# Point of the coupler that gets a hole.
PEN = (1.5, 1.0)
TURN = np.linspace(0, 1, 25)


def four_bar():
    return mbs.Mechanism(
        {name: planar.Body() for name in ("crank", "coupler", "rocker")},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "coupler", (LINKS["crank"], 0), (0, 0)),
            "B": planar.Revolute("coupler", "rocker", (LINKS["coupler"], 0), (LINKS["rocker"], 0)),
            "C": planar.Revolute("ground", "rocker", (LINKS["ground"], 0), (0, 0)),
        },
        {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(2 * np.pi))},
    )


GUESS = {"coupler": (1, 0, 0.9), "rocker": (3.5, 0, 1.8)}


@pytest.fixture(scope="module")
def linkage():
    mech = four_bar()
    return mech, mbs.kinematics(mech, TURN, GUESS, throw=True)


def slider_crank():
    mech = mbs.Mechanism(
        {name: planar.Body() for name in ("crank", "rod", "slider")},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "rod", (1, 0), (0, 0)),
            "B": planar.Revolute("rod", "slider", (3, 0), (0, 0)),
            "guide": planar.Translational("ground", "slider", (0, 0), (0, 0)),
        },
        {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(2 * np.pi))},
    )
    return mech, mbs.kinematics(mech, TURN, {"rod": (1, 0, 0), "slider": (4, 0, 0)}, throw=True)


def by_name(assembly):
    return {part.label: part for part in assembly.children}


def area_of_plate(*points):
    """Area of all places nearer than half a width to the convex hull of two or three points."""
    points = [np.array(point, float) for point in points]
    sides = [b - a for a, b in zip(points, points[1:] + points[:1], strict=True)]
    cross = sides[0][0] * sides[1][1] - sides[0][1] * sides[1][0]
    return abs(cross) / 2 + sum(np.hypot(*side) for side in sides) * 0.15 + np.pi * 0.15**2


def holes(solid):
    """Places (k, 2) of the axes of cylindrical holes, and their radii, in millimetres."""
    found = {}
    for face in solid.faces().filter_by(cad.GeomType.CYLINDER):
        axis, radius = face.axis_of_rotation.position, face.radius
        if abs(radius - 0.08 * MM) < 1e-6:
            found[tuple(np.round([axis.X, axis.Y], 6))] = radius
    return np.array(list(found))


def test_step_has_all_parts_with_their_volumes_names_and_distances(linkage, tmp_path):
    mech, run = linkage
    path = mbs.io.solids(mech, run, tmp_path / "bar.step", unit="cm", sizes=SIZES, points=[("coupler", PEN)])
    read = cad.import_step(path)
    parts = {part.label.replace("_", " "): part for part in read.children}
    pins = {f"{pin} pin" for pin in "OABC"}
    spacers = {f"{pin} spacer 1" for pin in "OABC"}
    assert set(parts) == {"ground", "crank", "coupler", "rocker"} | pins | spacers
    assert len(read.solids()) == len(parts)
    hole = np.pi * 0.08**2
    areas = {name: area_of_plate((0, 0), (length, 0)) - 2 * hole for name, length in LINKS.items()}
    areas["coupler"] = area_of_plate((0, 0), (LINKS["coupler"], 0), PEN) - 3 * hole
    volumes = {name: 0.1 * area for name, area in areas.items()}
    # All pins go through two plates and the gap between them, which a washer fills.
    volumes |= dict.fromkeys(pins, np.pi * 0.075**2 * 0.22)
    washer = (0.16 + 0.3) / 2
    volumes |= dict.fromkeys(spacers, np.pi / 4 * (washer**2 - 0.16**2) * 0.02)
    for name, part in parts.items():
        np.testing.assert_allclose(part.volume, MM**3 * volumes[name], rtol=1e-9, err_msg=name)
    for name, length in LINKS.items():
        places = holes(parts[name])
        distances = [np.hypot(*(a - b)) for a, b in itertools.combinations(places, 2)]
        wanted = [length] if name != "coupler" else [length, np.hypot(*PEN), np.hypot(PEN[0] - length, PEN[1])]
        np.testing.assert_allclose(sorted(distances), sorted(MM * np.array(wanted)), atol=1e-5)
    colours = {name: tuple(part.color)[:3] for name, part in parts.items() if name in LINKS}
    assert len(set(colours.values())) == 4


def test_the_parts_never_collide(linkage):
    """Neither in the first position nor later in the turn."""
    for mech, run in (linkage, slider_crank()):
        parts = mbs.io.solids(mech, run, unit="cm", sizes=SIZES).children
        # Parts follow the body whose plate they are fixed to: the one of which their joint has the first plate.
        owners = {name: name for name in ("ground", *mech.bodies)}
        for name, joint in mech.constraints.items():
            block = isinstance(joint, planar.Translational)
            owners |= {f"{name} {kind}": joint.j if block else joint.i for kind in ("pin", "spacer 1", "block")}
        for k in (0, 9, 14):
            moves = {body: pose(run, body, k) * pose(run, body, 0).inverse() for body in ("ground", *mech.bodies)}
            moved = [(part.label, part.moved(moves[owners[part.label]])) for part in parts]
            for (a, first), (b, second) in itertools.combinations(moved, 2):
                if boxes_meet(first, second):
                    assert common_volume(first, second) < 1e-6, (a, b, k)


def pose(run, body, k):
    if body == "ground":
        return cad.Location()
    turn, origin = np.asarray(run.rotation(body))[k], np.asarray(run.point(body))[k]
    return cad.Location((*(MM * origin), 0), (0, 0, float(np.rad2deg(np.arctan2(turn[1, 0], turn[0, 0])))))


def boxes_meet(a, b):
    a, b = a.bounding_box(), b.bounding_box()
    return all(
        min(getattr(a.max, x), getattr(b.max, x)) - max(getattr(a.min, x), getattr(b.min, x)) > 1e-6 for x in "XYZ"
    )


def common_volume(a, b):
    common = a.intersect(b)
    return sum(solid.volume for shape in ([] if common is None else common) for solid in shape.solids())


def test_a_block_slides_in_a_slot():
    mech, run = slider_crank()
    parts = by_name(mbs.io.solids(mech, run, unit="cm", sizes=SIZES))
    block = parts["guide block"].bounding_box().size
    np.testing.assert_allclose((block.X, block.Y), MM * np.array([0.3 + 0.15, 0.15]), rtol=1e-6)
    # The stroke is two cranks; the slot, with round ends, has a hole's width.
    slot = 2.0 * 0.16 + 0.3 * 0.16 + np.pi * 0.08**2
    plate = area_of_plate((0, 0), (4.15, 0)) - np.pi * 0.08**2 - slot
    np.testing.assert_allclose(parts["ground"].volume, MM**3 * 0.1 * plate, rtol=1e-9)


def test_gears_are_discs_in_one_layer():
    """Their pitch circles touch: half a clearance is left on each side. A pin slides in the slot of a lever."""
    mech = mbs.Mechanism(
        {name: planar.Body() for name in ("pinion", "wheel", "lever")},
        {
            "O": planar.Revolute("ground", "pinion", (0, 0), (0, 0)),
            "C": planar.Revolute("ground", "wheel", (3, 0), (0, 0)),
            "D": planar.Revolute("ground", "lever", (3, -3), (0, 0)),
            "mesh": planar.Gear("pinion", "wheel", (0, 0), (0, 0), radius_i=1.0, radius_j=2.0),
            "slot": planar.RevoluteTranslational("lever", "wheel", (0, 0), (1, 0), (0, 1)),
        },
    )
    parts = by_name(mbs.io.solids(mech, {"wheel": (3, 0, np.pi / 2), "lever": (3, -3, 0)}, unit="cm", sizes=SIZES))
    hole = np.pi * 0.08**2
    for name, radius, count in (("pinion", 1.0, 1), ("wheel", 2.0, 2)):
        area = np.pi * (radius - 0.005) ** 2 - count * hole
        np.testing.assert_allclose(parts[name].volume, MM**3 * 0.1 * area, rtol=1e-9)
    heights = [parts[name].bounding_box().min.Z for name in ("pinion", "wheel")]
    np.testing.assert_allclose(*heights)
    for (a, first), (b, second) in itertools.combinations(parts.items(), 2):
        if boxes_meet(first, second):
            assert common_volume(first, second) < 1e-6, (a, b)


def triangles(path):
    """Triangles (k, 3, 3) of a binary STL file."""
    data = path.read_bytes()
    count = int(np.frombuffer(data[80:84], "<u4")[0])
    kind = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("more", "<u2")])
    return np.frombuffer(data[84:], kind, count)["corners"].astype(float)


def test_stl_is_closed_and_has_the_volume(linkage, tmp_path):
    mech, run = linkage
    corners = triangles(mbs.io.solids(mech, run, tmp_path / "bar.stl", unit="cm", sizes=SIZES))
    a, b, c = np.moveaxis(corners, 1, 0)
    volume = np.einsum("ij,ij->", a, np.cross(b, c)) / 6
    expected = sum(part.volume for part in mbs.io.solids(mech, run, unit="cm", sizes=SIZES).children)
    np.testing.assert_allclose(volume, expected, rtol=5e-3)
    # Each edge is met once in each direction. Parts touch, and share places of corners.
    places, indices = np.unique(np.round(corners.reshape(-1, 3), 5), axis=0, return_inverse=True)
    edges = indices.reshape(-1, 3)[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)
    key = lambda pairs: np.sort(pairs[:, 0] * len(places) + pairs[:, 1])
    np.testing.assert_array_equal(key(edges), key(edges[:, ::-1]))


def test_export_of_a_result_writes_solids_with_its_point(tmp_path):
    found = SimpleNamespace(mechanism=four_bar(), guess=GUESS, point=("coupler", PEN))
    path = mbs.io.export(found, tmp_path / "bar.step", unit="cm", times=TURN, title="a four-bar")
    assembly = cad.import_step(path)
    assert assembly.label.replace("_", " ") == "a four-bar"
    assert len(assembly.solids()) == 12


def rssr():
    """A crank and a rocker on skew axes, joined by a rod with a ball and a universal joint, and a piston on a rail."""
    mech = mbs.Mechanism(
        {"crank": spatial.Body(), "rod": spatial.Body(), "piston": spatial.Body()},
        {
            "O": spatial.Revolute("ground", "crank", (0, 0, 0), (0, 0, 0), (0, 0, 1)),
            "A": spatial.Spherical("crank", "rod", (0, 1, 0), (0, 0, 0)),
            "B": spatial.Universal("rod", "piston", (3, 0, 0), (0, 0, 0), (0, 1, 0), (0, 0, 1)),
            "rail": spatial.Prismatic("ground", "piston", (0, 1, -1), (0, 0, -1), (1, 0, 0)),
        },
    )
    return mech, {"rod": spatial.coordinates((0, 1, 0), (0, 0, 0)), "piston": spatial.coordinates((3, 1, 0), (0, 0, 0))}


def test_parts_of_a_spatial_linkage_fit_together():
    mech, guess = rssr()
    assert np.abs(mbs.constraints(mech, guess, 0.0)).max() < 1e-15
    parts = by_name(mbs.io.solids(mech, guess, unit="cm", sizes=SIZES))
    assert set(parts) == {"ground", "crank", "rod", "piston", "O pin", "O spacer 1", "B cross"}
    for (name, first), (other, second) in itertools.combinations(parts.items(), 2):
        assert len(first.solids()) == 1
        assert first.is_valid
        assert common_volume(first, second) < 1e-6, (name, other)
    # The ball is where the assembly has it.
    balls = [face for face in parts["rod"].faces().filter_by(cad.GeomType.SPHERE) if abs(face.radius - 1.05) < 1e-6]
    np.testing.assert_allclose(tuple(balls[0].geom_adaptor().Sphere().Location().Coord()), (0, MM, 0), atol=1e-6)


def test_a_distance_in_space_is_a_rod_with_two_balls():
    mech = mbs.Mechanism(
        {"bob": spatial.Body()}, {"stay": spatial.Distance("ground", "bob", (0, 0, 0), (0, 0, 1), 2.0)}
    )
    parts = by_name(mbs.io.solids(mech, {"bob": spatial.coordinates((0, 0, -3), (0, 0, 0))}, unit="cm", sizes=SIZES))
    assert set(parts) == {"ground", "bob", "stay rod"}
    radius, bar = 0.105, 0.05
    # A bar between two balls, each of which it enters to the depth of a cap.
    depth = np.sqrt(radius**2 - bar**2)
    cap = np.pi / 3 * (radius - depth) ** 2 * (2 * radius + depth)
    volume = 2 * (4 / 3 * np.pi * radius**3 - cap) + np.pi * bar**2 * (2 - 2 * depth)
    np.testing.assert_allclose(parts["stay rod"].volume, MM**3 * volume, rtol=1e-9)
    for (a, first), (b, second) in itertools.combinations(parts.items(), 2):
        assert common_volume(first, second) < 1e-6, (a, b)


def test_bars_that_joints_cut_are_named():
    """The bar of the upper body comes from the side of the rod, to which its socket is open."""
    mech = mbs.Mechanism(
        {"bob": spatial.Body()}, {"stay": spatial.Distance("ground", "bob", (0, 0, 0), (0, 0, -1), 2.0)}
    )
    with pytest.warns(UserWarning, match="'bob' is in several pieces"):
        mbs.io.solids(mech, {"bob": spatial.coordinates((0, 0, 1), (np.pi, 0, 0))}, unit="cm", sizes=SIZES)


def test_distances_are_rods():
    """A parallelogram of rods without mass: two of them on one pin with the crank."""
    mech = mbs.Mechanism(
        {"crank": planar.Body(), "lever": planar.Body()},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "C": planar.Revolute("ground", "lever", (2, 0), (0, 0)),
            "rod": planar.Distance("crank", "lever", (1, 0), (1, 0), 2.0),
            "brace": planar.Distance("crank", "lever", (1, 0), (2, 0), 5**0.5),
        },
    )
    up = {"crank": (0, 0, np.pi / 2), "lever": (2, 0, np.pi / 2)}
    parts = by_name(mbs.io.solids(mech, up, unit="cm", sizes=SIZES))
    pins = {"O pin", "C pin", "rod 1 pin", "rod 2 pin", "brace 2 pin"}
    assert {name for name in parts if name.endswith("pin")} == pins
    hole = np.pi * 0.08**2
    for name, length in (("rod", 2.0), ("brace", 5**0.5)):
        np.testing.assert_allclose(
            parts[name].volume, MM**3 * 0.1 * (area_of_plate((0, 0), (length, 0)) - 2 * hole), rtol=1e-9
        )
    places = {tuple(place) for place in holes(parts["rod"])}
    assert places == {(0.0, 10.0), (20.0, 10.0)}
    for (a, first), (b, second) in itertools.combinations(parts.items(), 2):
        if boxes_meet(first, second):
            assert common_volume(first, second) < 1e-6, (a, b)


def test_what_has_no_parts_is_named(linkage):
    mech, run = linkage
    more = mbs.Mechanism(
        mech.bodies, {**mech.constraints, "way": planar.RelativeX("crank", "rocker", (0, 0), (0, 0), 3.5)}
    )
    with pytest.warns(UserWarning, match=r"there are no parts for 'way' \(RelativeX\)"):
        mbs.io.solids(more, run.q[0])


def test_plates_that_must_collide_are_named():
    """Each of two bars lies on the pin of the other."""
    bars = {name: planar.Body() for name in ("a", "b")}
    mech = mbs.Mechanism(
        bars,
        {
            "A": planar.Revolute("ground", "a", (0, 0), (-1, 0)),
            "B": planar.Revolute("ground", "b", (0.5, 0.0), (-1, 0)),
        },
    )
    with pytest.warns(
        UserWarning, match="found no order of layers that keeps all parts apart: the pin '[AB]' and '[ab]' collide"
    ):
        mbs.io.solids(mech, {"a": (1, 0, 0), "b": (-0.5, 0, np.pi)})


BAD = {
    "unit": ({"unit": "furlong"}, "unit must be one of"),
    "suffix": ({"path": "bar.dwg"}, r"the name must end in one of \.step"),
    "wide pins": ({"sizes": PartSizes(width=1.0, pin=1.0)}, "need wider links"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused(linkage, name):
    options, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        mbs.io.solids(*linkage, **options)


def test_sizes_are_positive():
    for size in ({"width": 0.0}, {"gap": -1.0}, {"pin": float("nan")}):
        with pytest.raises(ValueError, match=next(iter(size))):
            PartSizes(**size)


def test_without_build123d(linkage, monkeypatch):
    monkeypatch.setitem(sys.modules, "build123d", None)
    with pytest.raises(ImportError, match="cad"):
        mbs.io.solids(*linkage)
