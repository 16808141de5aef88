"""Documents of FreeCAD's Assembly workbench: their models are those of the same assemblies in the solver's format."""

import io
import zipfile

import numpy as np
import pytest

import freecad_files as files
import jaxmbs as mbs
from freecad_files import (
    SAME,
    at,
    choice,
    flag,
    group,
    link,
    number,
    placement,
    prop,
    reference,
    relative,
    text,
    workbench_joint,
)
from jaxmbs import spatial

# `load` warns of what it passes over; the tests look at `passed_over`.
pytestmark = pytest.mark.filterwarnings("ignore:.*passed over")

# Frame of the body in its part, of which the joints of the crank name a face.
INNER = at((1, 2, 3), (0.2, -0.1, 0.3))
# Placements of the parts of a crank-slider, in mm.
DRAWN = {
    "Crank": at((0, 0, 10)),
    "Rod": at((200, 0, 10)),
    "Slider": at((700, 0, 10), (0.5, 0, 0)),
    "Base": at((5, 6, 7)),
}
# Axis of the slider, which has z along x.
ALONG = at((0, 0, 10), (0, np.pi / 2, 0))


def crank_slider(formula="2*pi*time", **changed):
    """Objects of a crank-slider. The crank is a part with a body; the frames of its joints are given in the body."""
    part = lambda name, kind="Part::Box": (kind, [text("Label", f"the {name}"), placement("Placement", DRAWN[name])])
    crank = ("App::Part", [*part("Crank")[1], group("Body")])
    on = lambda name, r: relative(DRAWN[name], at(r))
    in_body = lambda r: relative(INNER, on("Crank", r))
    on_slider, on_base = (relative(DRAWN[name], ALONG) for name in ("Slider", "Base"))
    limits = [flag("EnableAngleMin", True), number("AngleMin", -90.0), flag("EnableAngleMax", False)]
    joints = {
        "Ground": [text("Label", "grounded"), link("ObjectToGround", "Base")],
        "J1": workbench_joint(
            "Revolute",
            "O",
            "Base.Face1",
            "Crank.Body.Pad.Face2",
            (on("Base", (0, 0, 10)), in_body((0, 0, 10))),
            *limits,
        ),
        "J2": workbench_joint("Revolute", "A", "Crank.Body.Pad.Face3", "Rod.Face1", (in_body((200, 0, 10)), SAME)),
        "J3": workbench_joint(
            "Revolute", "B", "Rod.Face2", "Slider.Edge1", (at((500, 0, 0)), on("Slider", (700, 0, 10)))
        ),
        "J4": workbench_joint("Cylindrical", "guide", "Base.Face3", "Slider.Face5", (on_base, on_slider)),
    }
    more = {
        "Body": ("PartDesign::Body", [placement("Placement", INNER)]),
        "Pad": ("PartDesign::Pad", [placement("Placement", SAME)]),
        "Motor": (
            "App::FeaturePython",
            [
                text("Label", "motor"),
                choice("MotionType", "Angular", ["Angular", "Linear"]),
                text("Formula", formula),
                reference("Joint", "J1", ""),
            ],
        ),
        "Unused": ("Part::Box", [placement("Placement", SAME)]),
    }
    parts = {"Crank": crank, **{name: part(name) for name in ("Rod", "Slider", "Base")}}
    objects = files.assembly_objects(parts, joints, more) | changed
    kind, properties = objects["Assembly"]
    objects["Assembly"] = (kind, [*properties[:-1], group("Joints", *parts, "Unused")])
    return objects


def loaded(tmp_path, objects, name="machine.FCStd", **options):
    return mbs.load(files.write_fcstd(tmp_path / name, objects), **options)


def test_a_crank_slider_is_that_of_a_model_written_in_python(tmp_path):
    model = loaded(tmp_path, crank_slider())
    assert list(model.bodies) == ["the Crank", "the Rod", "the Slider", "the Base"]
    assert list(model.constraints) == ["O", "A", "B", "guide", "grounded"]
    assert (model.unit, model.name) == ("mm", "Machine")
    assert model.limits == {"O": (-np.pi / 2, np.inf)}
    for name, (r, a) in DRAWN.items():
        q = model.guess[model.layout.body_slices[f"the {name}"]]
        np.testing.assert_array_equal(q[:3], r)
        np.testing.assert_allclose(mbs.rotation.matrix(q[3:]), a, rtol=0, atol=3e-16)
    assert np.abs(mbs.constraints(model, model.guess, 0.0)).max() < 1e-12
    on = lambda name, r: relative(DRAWN[name], at(r))[0]
    frame = lambda name, axes: relative(DRAWN[name], axes)[1]
    pin = lambda i, j, r: spatial.Revolute(
        f"the {i}", f"the {j}", on(i, r), on(j, r), frame_i=frame(i, SAME), frame_j=frame(j, SAME)
    )
    twin = mbs.Mechanism(
        {name: spatial.Body() for name in model.bodies},
        {
            "O": pin("Base", "Crank", (0, 0, 10)),
            "A": pin("Crank", "Rod", (200, 0, 10)),
            "B": pin("Rod", "Slider", (700, 0, 10)),
            "guide": spatial.Cylindrical(
                "the Base",
                "the Slider",
                on("Base", (0, 0, 10)),
                on("Slider", (0, 0, 10)),
                frame_i=frame("Base", ALONG),
                frame_j=frame("Slider", ALONG),
            ),
            "grounded": spatial.Rigid("ground", "the Base", *(spatial.Frame(*x) for x in (DRAWN["Base"], SAME))),
        },
        {
            "motor": spatial.RevoluteDriver(
                "the Base",
                "the Crank",
                motion=mbs.motion.Ramp(2 * np.pi),
                frame_i=frame("Base", SAME),
                frame_j=frame("Crank", SAME),
            )
        },
    )
    rng = np.random.default_rng(2)
    q = model.layout.retract(model.guess, 0.3 * rng.normal(size=model.layout.m))
    np.testing.assert_allclose(mbs.constraints(model, q, 0.3), mbs.constraints(twin, q, 0.3), rtol=0, atol=1e-11)
    assert "part 'Unused': no joint names it" in model.passed_over
    with pytest.raises(mbs.ModelError, match="part 'Unused'"):
        loaded(tmp_path, crank_slider(), strict=True)


def hinge_and_slide(kind, *numbers):
    """Objects of a base with a hinge about z at (0, 30, 0), a slide along x, and a joint between the two parts."""
    wheel, rail = at((0, 30, 0)), at((0, 0, 0), (0, np.pi / 2, 0))
    axis = at((0, 30, 0), (0, np.pi / 2, 0)) if kind == "Screw" else wheel
    drawn = {"Base": SAME, "Wheel": at((0, 30, 0), (0.1, 0.2, 0.3)), "Rack": at((4, 0, 0), (0, 0, 0.2))}
    parts = {name: ("Part::Box", [text("Label", name), placement("Placement", place)]) for name, place in drawn.items()}
    ends = lambda one, other, place: tuple(relative(drawn[name], place) for name in (one, other))
    rack_end = relative(drawn["Rack"], at((4, 0, 0), (0, np.pi / 2, 0)))
    joints = {
        "Ground": [link("ObjectToGround", "Base")],
        "J1": workbench_joint("Revolute", "hinge", "Base.F", "Wheel.F", ends("Base", "Wheel", axis)),
        "J2": workbench_joint("Slider", "slide", "Base.F", "Rack.F", ends("Base", "Rack", rail)),
        # The wheel is the first part: the reader finds the one that slides.
        "J3": workbench_joint(kind, "teeth", "Wheel.F", "Rack.F", (relative(drawn["Wheel"], axis), rack_end), *numbers),
    }
    return files.assembly_objects(parts, joints)


@pytest.mark.parametrize("kind", ["RackPinion", "Screw"])
def test_the_part_that_slides_is_the_rack_or_the_nut(tmp_path, kind):
    model = loaded(tmp_path, hinge_and_slide(kind, number("Distance", 30.0)))
    teeth = model.constraints["teeth"]
    assert (teeth.i, teeth.j) == ("Rack", "Wheel")
    assert np.abs(mbs.constraints(model, model.guess)).max() < 1e-12
    # Velocities that satisfy Φ_q v = 0: x of the rack and the turn of the wheel about z or, for the screw, about x.
    v = np.zeros(model.layout.m)
    wheel, rack = (model.layout.velocity_slices[name] for name in ("Wheel", "Rack"))
    v[rack.start] = 1.0
    # The pinion's centre moves by −1 along the rack; the nut advances by +1 on a screw that turns back.
    rate = np.array((0, 0, 1 / 30)) if kind == "RackPinion" else np.array((-2 * np.pi / 30, 0, 0))
    a = mbs.rotation.matrix(model.guess[model.layout.body_slices["Wheel"]][3:])
    v[wheel.start + 3 : wheel.stop] = a.T @ rate
    np.testing.assert_allclose(mbs.constraint_jacobian(model, model.guess) @ v, 0, rtol=0, atol=1e-12)


def test_gears_belts_angles_and_joints_that_are_off(tmp_path):
    parts = {
        name: ("Part::Box", [text("Label", name), placement("Placement", at((x, 0, 0)))])
        for name, x in (("Base", 0), ("A", 0), ("B", 30), ("C", 90))
    }
    pin = lambda name, x: workbench_joint("Revolute", f"pin {name}", "Base.F", f"{name}.F", (at((x, 0, 0)), SAME))
    pair = lambda kind, label, *more: workbench_joint(kind, label, "A.F", "B.F", (SAME, SAME), *more)
    off = [x for x in pair("Fixed", "off") if "Suppressed" not in x] + [flag("Suppressed", True)]
    joints = {
        "Ground": [link("ObjectToGround", "Base")],
        **{f"P{name}": pin(name, x) for name, x in (("A", 0), ("B", 30), ("C", 90))},
        "G": pair("Gears", "mesh", number("Distance", 10.0), number("Distance2", 20.0)),
        "L": workbench_joint(
            "Belt", "belt", "A.F", "C.F", (SAME, SAME), number("Distance", 10.0), number("Distance2", 40.0)
        ),
        "N": pair("Angle", "angle", number("Angle", -30.0)),
        "Z": pair("Angle", "no angle", number("Angle", 0.0)),
        "Off": off,
        "Half": [x for x in pair("Ball", "half") if "Reference2" not in x],
    }
    model = loaded(tmp_path, files.assembly_objects(parts, joints))
    assert "off" not in model.constraints
    assert "Ball joint 'half': a reference is missing" in model.passed_over
    v = np.zeros(model.layout.m)
    for name, rate in (("A", 1.0), ("B", -0.5), ("C", 0.25)):
        v[model.layout.velocity_slices[name].stop - 1] = rate
    for name, rate in (("mesh.alpha_i", -1.0), ("mesh.alpha_j", 0.5), ("belt.alpha_i", -1.0), ("belt.alpha_j", -0.25)):
        v[model.layout.velocities.index(name)] = rate
    rows = mbs.constraint_jacobian(model, model.guess) @ v
    for name in ("mesh", "belt", "no angle"):
        np.testing.assert_allclose(rows[model.layout.row_slices[name]], 0, rtol=0, atol=1e-12, err_msg=name)
    # Φ = cos α − cos 30° with parallel axes.
    phi = mbs.constraints(model, model.guess)[model.layout.row_slices["angle"]]
    np.testing.assert_allclose(phi, 1 - np.cos(np.pi / 6), rtol=1e-12)


def box(*sides, corner=(0.0, 0.0, 0.0)):
    """A box of build123d as the text that a document stores."""
    build123d = pytest.importorskip("build123d")
    from OCP.BRepTools import BRepTools

    solid = build123d.Solid.make_box(*sides).moved(build123d.Location(corner))
    stored = io.BytesIO()
    BRepTools.Write_s(solid.wrapped, stored)
    return stored.getvalue()


def test_masses_follow_from_shapes_and_materials(tmp_path):
    """A part of two boxes, one of them a link to a document in the folder; steel by FreeCAD's identifier, a density."""
    shape = lambda: prop("Shape", "Part::PropertyPartShape", '<Part file="Shape.brp"/>')
    steel = "90bbd8ef-8623-4d78-b3bf-e0bdb9b74dd3"
    of_steel = prop("ShapeMaterial", "Materials::PropertyMaterial", f'<PropertyMaterial uuid="{steel}"/>')
    light = prop("Material", "App::PropertyMap", '<Map count="1"><Item key="Density" value="1.5 g/cm^3"/></Map>')
    files.write_fcstd(
        tmp_path / "box.FCStd",
        {"Box": ("Part::Box", [placement("Placement", at((1, 1, 1))), shape(), of_steel])},
        Shape=box(2, 4, 6, corner=(1, 1, 1)),
    )
    shift = at((10, 0, 0), (0, 0, np.pi / 2))
    parts = {"P": ("App::Part", [text("Label", "P"), placement("Placement", at((5, 5, 5))), group("Own", "Other")])}
    more = {
        "Own": ("Part::Box", [placement("Placement", SAME), shape(), link("Material", "Card")]),
        "Other": ("App::Link", [placement("Placement", shift), link("LinkedObject", "Box", "box.FCStd")]),
        "Card": ("App::MaterialObjectPython", [light]),
    }
    objects = files.assembly_objects(parts, {"Ground": [link("ObjectToGround", "P")]}, more)
    path = files.write_fcstd(tmp_path / "machine.FCStd", objects, Shape=box(1, 1, 8))
    body = mbs.load(path).bodies["P"]
    masses = np.array([1.5e-6 * 8, 7.9e-6 * 48])
    centres = np.array([(0.5, 0.5, 4.0), (10 - 2.0, 1.0, 3.0)])
    moments = lambda x, y, z: np.diag([y * y + z * z, x * x + z * z, x * x + y * y]) / 12
    com = masses @ centres / masses.sum()
    inertia = sum(
        m * (own + ((c - com) @ (c - com)) * np.eye(3) - np.outer(c - com, c - com))
        for m, c, own in zip(masses, centres, (moments(1, 1, 8), moments(4, 2, 6)), strict=True)
    )
    np.testing.assert_allclose(body.mass, masses.sum(), rtol=1e-12)
    np.testing.assert_allclose(body.com, com, rtol=1e-12)
    np.testing.assert_allclose(body.inertia, inertia, rtol=1e-10, atol=1e-12)
    # Without the linked document the mass is unknown.
    (tmp_path / "box.FCStd").unlink()
    model = mbs.load(path)
    assert model.bodies["P"].mass == 1
    assert any("mass of part 'P'" in sentence for sentence in model.passed_over)


DISTANCES = {
    ("Vertex1", "Vertex3"): (spatial.Distance, "distance", 7.0),
    ("Face1", "Face2"): (spatial.Planar, None, None),
    ("Edge1", "Edge2"): (spatial.AxisDistance, "distance", 7.0),
    ("Vertex1", "Edge2"): (spatial.AxisDistance, "distance", 7.0),
    ("Face1", "Edge1"): (spatial.RelativeJoint, None, None),
    ("Face1", "Vertex2"): (spatial.TotalJoint, None, None),
}


@pytest.mark.parametrize("elements", DISTANCES, ids="-".join)
def test_a_distance_holds_what_its_elements_say(tmp_path, elements):
    shape = prop("Shape", "Part::PropertyPartShape", '<Part file="Shape.brp"/>')
    parts = {
        name: ("Part::Box", [text("Label", name), placement("Placement", at((x, 0, 0))), shape])
        for name, x in (("A", 0), ("B", 7))
    }
    paths = (f"A.{elements[0]}", f"B.{elements[1]}")
    joints = {
        "Ground": [link("ObjectToGround", "A")],
        "D": workbench_joint("Distance", "gap", *paths, (SAME, SAME), number("Distance", 7.0)),
    }
    objects = files.assembly_objects(parts, joints)
    model = mbs.load(files.write_fcstd(tmp_path / "machine.FCStd", objects, Shape=box(1, 2, 3)))
    kind, field, value = DISTANCES[elements]
    assert isinstance(model.constraints["gap"], kind)
    assert field is None or getattr(model.constraints["gap"], field) == value


def test_linked_documents_are_read_in_the_folder_only(tmp_path):
    inside = {
        "P": ("App::Part", [placement("Placement", SAME), group("B")]),
        "B": ("Part::Box", [placement("Placement", INNER)]),
    }
    (tmp_path / "parts").mkdir()
    (tmp_path / "machine").mkdir()
    files.write_fcstd(tmp_path / "parts" / "part.FCStd", inside)
    linked = link("LinkedObject", "P", "../parts/part.FCStd")
    parts = {"L": ("App::Link", [text("Label", "L"), placement("Placement", at((5, 0, 0))), linked])}
    parts["M"] = ("Part::Box", [placement("Placement", SAME)])
    joints = {"J": workbench_joint("Ball", "J", "M.Face1", "L.B.Face1", (SAME, at((1, 0, 0))))}
    objects = files.assembly_objects(parts, joints)
    path = files.write_fcstd(tmp_path / "machine" / "machine.FCStd", objects)
    model = mbs.load(path, allow=("../parts",))
    np.testing.assert_allclose(model.constraints["J"].point_j, INNER[0] + INNER[1] @ (1, 0, 0), rtol=1e-15)
    with pytest.raises(
        mbs.ModelError, match=r"object 'J': needs '../parts/part.FCStd', which is neither in the folder"
    ):
        mbs.load(path)


def looped(content):
    """The content with a group that contains itself."""
    data = f'<Object name="Group"><Properties>{group("Group")}</Properties></Object>'
    content = content.replace('<Link value="Unused"/>', '<Link value="Group"/>').replace(
        "</ObjectData>", f"{data}</ObjectData>"
    )
    return content.replace("</Objects>", '<Object type="App::DocumentObjectGroup" name="Group"/></Objects>')


CONTENT = files.document(crank_slider())
BAD = {
    "no XML": ("", "malformed XML"),
    "cut off": (CONTENT[:900], "malformed XML"),
    "encoding": (CONTENT.replace("utf-8", "utf-9"), "unknown encoding"),
    "other root": ("<a/>", "the root must be <Document>"),
    "entities": ('<!DOCTYPE a [<!ENTITY b "c">]><Document/>', "document types and entities are refused"),
    "no assembly": ("<Document><Objects/><ObjectData/></Document>", "has no assembly"),
    "nan": (CONTENT.replace('Px="200.0"', 'Px="nan"'), "object 'the Rod': Px of Placement must be a finite number"),
    "quaternion": (CONTENT.replace('Q3="1.0"', 'Q3="0.0"'), "the quaternion of Placement must not be zero"),
    "choice": (CONTENT.replace('Integer value="1"', 'Integer value="99"'), "object 'O': JointType has no choice '99'"),
    "ground": (CONTENT.replace('<Link value="Base"/></Property>', '<Link value="Body"/></Property>'), "is not a part"),
    "formula": (CONTENT.replace("2*pi*time", "open('x')"), "motion 'motor': formula"),
    "number": (CONTENT.replace('Float value="-90.0"', 'Float value="x"'), "object 'O': AngleMin must be a finite number"),
    "loop": (looped(CONTENT), "contains itself"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_damaged_contents_are_refused_in_one_line(tmp_path, name):
    content, words = BAD[name]
    assert content != CONTENT
    with pytest.raises(mbs.ModelError, match=r"^machine.FCStd: [^\n]+$") as caught:
        loaded(tmp_path, content)
    assert words in str(caught.value), str(caught.value)


def bomb(path):
    """An archive that unpacks to a hundred megabytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("Document.xml", b" " * 100_000_000)


def flipped(path):
    """An archive with a damaged byte in the compressed content."""
    data = bytearray(files.write_fcstd(path, CONTENT).read_bytes())
    data[300] ^= 0xFF
    path.write_bytes(data)


def empty(path):
    """An archive without the content, with a member whose name is a path out of the folder."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../outside.xml", b"<Document/>")


ARCHIVES = {
    "bomb": (bomb, "has too many bytes unpacked"),
    "flipped byte": (flipped, "'Document.xml' cannot be read from the archive"),
    "no content": (empty, "'Document.xml' cannot be read from the archive"),
    "no archive": (lambda path: path.write_bytes(b"PK hello"), "cannot be read from the archive"),
    "cut off": (lambda path: path.write_bytes(files.write_fcstd(path, CONTENT).read_bytes()[:-40]), "cannot be read"),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_damaged_archives_are_refused_in_one_line(tmp_path, name):
    write, words = ARCHIVES[name]
    write(tmp_path / "machine.FCStd")
    with pytest.raises(mbs.ModelError, match=r"^machine.FCStd: [^\n]+$") as caught:
        mbs.load(tmp_path / "machine.FCStd")
    assert words in str(caught.value), str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["machine.FCStd"]
