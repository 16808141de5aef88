"""Small assemblies as files: the text format of FreeCAD's solver, and documents of FreeCAD."""

import zipfile
from xml.sax.saxutils import quoteattr

import numpy as np
from scipy.spatial.transform import Rotation

# Position and axes of a frame that coincides with the frame it is given in.
SAME = (np.zeros(3), np.eye(3))


def at(r=(0, 0, 0), turned=(0, 0, 0)):
    """A frame: position and, by a rotation vector, axes."""
    return np.array(r, float), Rotation.from_rotvec(turned).as_matrix()


def relative(outer, inner):
    """The second frame, given in the ground, in the first."""
    return outer[1].T @ (inner[0] - outer[0]), outer[1].T @ inner[1]


def numbers(values):
    """Numbers as a line of text, to the bit."""
    return "\t".join(repr(float(x)) for x in np.ravel(values))


def _block(key, children, depth):
    """Lines of a key with children: texts, or pairs (key, children)."""
    lines = ["\t" * depth + key]
    for child in children:
        lines += _block(*child, depth + 1) if isinstance(child, tuple) else ["\t" * (depth + 1) + child]
    return lines


def _frame(place):
    """Keys of a frame."""
    return [("Position3D", [numbers(place[0])]), ("RotationMatrix", [numbers(row) for row in place[1]])]


def _points(markers):
    """Return the keys of a part's reference points, curves and surfaces: a point for each marker of a dict name → place."""
    marker = lambda name, place: ("Marker", [("Name", [name]), *_frame(place)])
    found = [("RefPoint", [*_frame(SAME), ("Markers", [marker(*pair)])]) for pair in markers.items()]
    return [("RefPoints", found), ("RefCurves", []), ("RefSurfaces", [])]


def still():
    """Keys of a part at rest."""
    return [("Velocity3D", [numbers((0, 0, 0))]), ("Omega3D", [numbers((0, 0, 0))])]


def part(name, place=SAME, markers=None, mass=1.0, moments=(1, 1, 1), com=SAME):
    """A part of the text format."""
    mass_marker = [
        ("Name", ["MassMarker"]),
        *_frame(com),
        ("Mass", [numbers(mass)]),
        ("MomentOfInertias", [numbers(moments)]),
        ("Density", ["1"]),
    ]
    keys = [("FeatureOrder", []), ("PrincipalMassMarker", mass_marker)]
    return ("Part", [("Name", [name]), *_frame(place), *still(), *keys, *_points(markers or {})])


def joint(kind, name, i, j, **sizes):
    """A joint of the text format between markers "Part/Marker", or "Marker" of the ground."""
    ends = [("MarkerI", [f"/A/{i}"]), ("MarkerJ", [f"/A/{j}"])]
    return (f"{kind}Joint", [("Name", [name]), *ends, *((key, [numbers(x)]) for key, x in sizes.items())])


def motion(kind, name, of, formula):
    """A motion of a joint of the text format."""
    key = {"Rotational": "RotationZ", "Translational": "TranslationZ"}[kind]
    return (f"{kind}Motion", [("Name", [name]), ("MotionJoint", [f"/A/{of}"]), (key, [formula])])


def limit(kind, of, sign, formula):
    """A limit of a joint of the text format."""
    keys = [("MotionJoint", [f"/A/{of}"]), ("Limit", [formula]), ("Type", [sign]), ("Tol", ["1.0e-9"])]
    return (f"{kind}Limit", [("Name", [f"{of} {sign}"]), *keys])


def asmt(parts, ground=None, joints=(), motions=(), limits=(), forces=(), gravity=(0, 0, 0), name="A"):
    """An assembly in the text format."""
    sets = [("Joints", joints), ("Motions", motions), ("Limits", limits), ("GeneralConstraintSets", [])]
    keys = [
        ("Notes", ["(Text string: '' runs: (Core.RunArray runs: #() values: #()))"]),
        ("Name", [name]),
        *_frame(SAME),
        *still(),
        *_points(ground or {}),
        ("Parts", parts),
        ("KinematicIJs", []),
        ("ConstraintSets", sets),
        ("ForceTorques", forces),
        ("ConstantGravity", [numbers(gravity)]),
    ]
    return "\n".join(["OndselSolver", *_block("Assembly", keys, 0), "TimeSeries", "Number\tInput\t1"]) + "\n"


def placement(name, place):
    """Return the XML of a property of an object: a placement."""
    x, y, z, w = Rotation.from_matrix(place[1]).as_quat()
    values = dict(zip(("Px", "Py", "Pz", "Q0", "Q1", "Q2", "Q3"), (*place[0], x, y, z, w), strict=True))
    inner = " ".join(f'{key}="{float(value)!r}"' for key, value in values.items())
    return prop(name, "App::PropertyPlacement", f"<PropertyPlacement {inner}/>")


def prop(name, kind, inner):
    """Return the XML of a property of an object."""
    return f'<Property name="{name}" type="{kind}">{inner}</Property>'


def text(name, value):
    """Return the XML of a property of an object: a text."""
    return prop(name, "App::PropertyString", f"<String value={quoteattr(value)}/>")


def number(name, value):
    """Return the XML of a property of an object: a number."""
    return prop(name, "App::PropertyFloat", f'<Float value="{float(value)!r}"/>')


def flag(name, value):
    """Return the XML of a property of an object: a truth value."""
    return prop(name, "App::PropertyBool", f'<Bool value="{str(value).lower()}"/>')


def choice(name, value, words):
    """Return the XML of a property of an object: an enumeration."""
    enum = "".join(f'<Enum value="{word}"/>' for word in words)
    chosen = f'<Integer value="{words.index(value)}" CustomEnum="true"/>'
    return prop(
        name, "App::PropertyEnumeration", f'{chosen}<CustomEnumList count="{len(words)}">{enum}</CustomEnumList>'
    )


def link(name, target, file=""):
    """Return the XML of a property of an object: a link."""
    if file:
        return prop(name, "App::PropertyXLink", f'<XLink file="{file}" stamp="" name="{target}"/>')
    return prop(name, "App::PropertyLink", f'<Link value="{target}"/>')


def group(*names):
    """Return the XML of the property "Group" of an object: links to the objects with these names."""
    inner = "".join(f'<Link value="{name}"/>' for name in names)
    return prop("Group", "App::PropertyLinkList", f'<LinkList count="{len(names)}">{inner}</LinkList>')


def reference(name, root, path):
    """Return the XML of a property of an object: the reference of a joint, with a face and a vertex."""
    subs = f'<Sub value="{path}"/><Sub value="{path}"/>'
    return prop(name, "App::PropertyXLinkSubHidden", f'<XLink file="" stamp="" name="{root}" count="2">{subs}</XLink>')


# Types of joints of the Assembly workbench.
JOINT_TYPES = [
    "Fixed", "Revolute", "Cylindrical", "Slider", "Ball", "Distance", "Parallel", "Perpendicular", "Angle",
    "RackPinion", "Screw", "Gears", "Belt",
]  # fmt: skip


def workbench_joint(kind, label, one, other, places, *more):
    """Properties of a joint between paths below the assembly, with its two placements."""
    return [
        text("Label", label),
        choice("JointType", kind, JOINT_TYPES),
        *(reference(f"Reference{k}", "Assembly", path) for k, path in ((1, one), (2, other))),
        *(placement(f"Placement{k}", place) for k, place in enumerate(places, start=1)),
        flag("Suppressed", False),
        *more,
    ]


def document(objects):
    """The XML of a document with objects: name → (type, properties)."""
    declared = "".join(f'<Object type="{kind}" name="{name}"/>' for name, (kind, _) in objects.items())
    data = "".join(
        f'<Object name="{name}"><Properties Count="1">{"".join(properties)}</Properties></Object>'
        for name, (_, properties) in objects.items()
    )
    return (
        '<?xml version=\'1.0\' encoding=\'utf-8\'?><Document SchemaVersion="4" ProgramVersion="1.0.0" FileVersion="1">'
        f"<Objects>{declared}</Objects><ObjectData>{data}</ObjectData></Document>"
    )


def assembly_objects(parts, joints, more=None):
    """Objects of a document with an assembly of parts and joints: name → (type, properties)."""
    return {
        "Assembly": ("Assembly::AssemblyObject", [text("Label", "Machine"), group("Joints", *parts)]),
        "Joints": ("Assembly::JointGroup", [group(*joints)]),
        **parts,
        **{name: ("App::FeaturePython", properties) for name, properties in joints.items()},
        **(more or {}),
    }


def write_fcstd(path, objects, **members):
    """Write a document as an archive; further members are bytes by name."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("Document.xml", objects if isinstance(objects, (str, bytes)) else document(objects))
        for name, data in members.items():
            archive.writestr(f"{name}.brp", data)
    return path


def pendulum_text():
    """A driven pendulum with a limit in the text format."""
    parts = [part("Bob", at((0, 0, -1)), {"pin": at((0, 0, 1))}, 2.0, (0.1, 0.2, 0.25), at((0, 0, 0.1)))]
    motor, stop = motion("Rotational", "motor", "O", "0.5*sin(2*time)"), limit("Rotation", "O", "=<", "pi/2")
    return asmt(parts, {"O": SAME}, [joint("Revolute", "O", "O", "Bob/pin")], [motor], [stop], gravity=(0, 0, -9.81))


def pendulum_document():
    """The content of a document with a driven pendulum on a base."""
    parts = {
        name: ("Part::Box", [text("Label", name), placement("Placement", place)])
        for name, place in (("Base", SAME), ("Bob", at((0, 0, -1))))
    }
    ends = (SAME, at((0, 0, 1)))
    limits = (flag("EnableAngleMax", True), number("AngleMax", 90.0))
    joints = {
        "Ground": [link("ObjectToGround", "Base")],
        "O": workbench_joint("Revolute", "O", "Base.Face1", "Bob.Face1", ends, *limits),
    }
    words = [choice("MotionType", "Angular", ["Angular", "Linear"]), text("Formula", "0.5*sin(2*time)")]
    more = {"Motor": ("App::FeaturePython", [text("Label", "motor"), *words, reference("Joint", "O", "")])}
    return document(assembly_objects(parts, joints, more))
