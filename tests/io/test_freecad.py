"""FreeCAD's assemblies in the text format of its solver: they move as closed forms say; what is damaged is refused."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import freecad_files as files
import jaxmbs as mbs
from freecad_files import SAME, at, joint, limit, motion, part, relative
from jaxmbs import spatial
from jaxmbs.io.models.freecad.formula import motion_of

# `load` warns of what it passes over; the tests look at `passed_over`.
pytestmark = pytest.mark.filterwarnings("ignore:.*passed over")

TIMES = np.linspace(0.0, 1.3, 6)
# Rotation vector that turns z to x.
TO_X = (0, np.pi / 2, 0)
# Rotation vector that turns z to y.
TO_Y = (-np.pi / 2, 0, 0)


def loaded(tmp_path, text, **options):
    path = tmp_path / "machine.asmt"
    path.write_text(text)
    return mbs.load(path, **options)


def places(model, q):
    """Positions (…, 3) and rotations of the bodies at coordinates (…, n)."""
    q = np.asarray(q)
    slices = model.layout.body_slices.items()
    return {
        name: (q[..., where][..., :3], Rotation.from_quat(np.roll(q[..., where][..., 3:], -1, axis=-1)))
        for name, where in slices
    }


def crank_slider():
    """A crank of length 2 and a rod of length 5 in the xy plane; the slider moves along x."""
    crank, rod, slider = at(turned=(0, 0, 0.6)), at((2 * np.cos(0.6), 2 * np.sin(0.6), 0)), None
    reach = 2 * np.cos(0.6) + np.sqrt(25 - (2 * np.sin(0.6)) ** 2)
    rod = rod[0], Rotation.from_rotvec((0, 0, -np.arcsin(2 * np.sin(0.6) / 5))).as_matrix()
    slider = at((reach, 0, 0), (0.3, 0, 0))
    along = at((0, 0, 0), TO_X)
    parts = [
        part("Crank", crank, {"pin": SAME, "tip": at((2, 0, 0))}, 2.0, (0.1, 0.2, 0.25), at((1, 0, 0), (0, 0, 0.3))),
        part("Rod", rod, {"tip": SAME, "end": at((5, 0, 0))}),
        part("Slider", slider, {"end": at(turned=(-0.3, 0, 0)), "rail": relative(slider, (slider[0], along[1]))}),
    ]
    joints = [
        joint("Revolute", "O", "origin", "Crank/pin"),
        joint("Revolute", "A", "Crank/tip", "Rod/tip"),
        joint("Revolute", "B", "Rod/end", "Slider/end"),
        joint("Cylindrical", "rail", "Slider/rail", "axis"),
    ]
    motors = [motion("Rotational", "motor", "O", "0.6 + 2.0d*pi*time")]
    ground = {"origin": SAME, "axis": along}
    return files.asmt(parts, ground, joints, motors, gravity=(0, -9.81, 0)), {
        "Crank": crank,
        "Rod": rod,
        "Slider": slider,
    }


def test_a_crank_slider_moves_as_its_closed_form_and_its_placements_come_back(tmp_path):
    text, drawn = crank_slider()
    model = loaded(tmp_path, text)
    for name, (r, turn) in places(model, model.guess).items():
        np.testing.assert_array_equal(r, drawn[name][0])
        np.testing.assert_allclose(turn.as_matrix(), drawn[name][1], rtol=0, atol=3e-16)
    assert model.unit == "m"
    assert model.name == "A"
    assert list(model.constraints) == ["O", "A", "B", "rail"]
    np.testing.assert_allclose(mbs.constraints(model, model.guess, 0.0), 0, rtol=0, atol=1e-14)
    run = mbs.kinematics(model, TIMES)
    angle = 0.6 + 2 * np.pi * TIMES
    reach = 2 * np.cos(angle) + np.sqrt(25 - 4 * np.sin(angle) ** 2)
    found = places(model, run.q)["Slider"][0]
    np.testing.assert_allclose(found, np.stack([reach, 0 * reach, 0 * reach], 1), rtol=0, atol=1e-12)
    crank = model.bodies["Crank"]
    axes = Rotation.from_rotvec((0, 0, 0.3)).as_matrix()
    np.testing.assert_allclose(crank.inertia, axes @ np.diag((0.1, 0.2, 0.25)) @ axes.T, rtol=1e-15, atol=1e-17)
    np.testing.assert_array_equal(crank.com, (1, 0, 0))
    np.testing.assert_array_equal(model.forces["gravity"].acceleration, (0, -9.81, 0))
    again = mbs.load(mbs.save(model, tmp_path / "machine.json"))
    np.testing.assert_array_equal(again.guess, model.guess)
    np.testing.assert_array_equal(mbs.constraints(again, again.guess, 0.3), mbs.constraints(model, model.guess, 0.3))


def test_gears_a_rack_a_screw_and_a_wobble_plate_move_as_their_closed_forms(tmp_path):
    """One shaft drives a gear, a belt, a rack, a nut and, by an inclined plane, a piston, through several turns."""
    tilt, radius = 0.4, 1.5
    parts = [
        part("Shaft", SAME, {"z": SAME, "disc": at(turned=(tilt, 0, 0)), "gear": at((0, 0, 3))}),
        part("Wheel", at((3, 0, 0)), {"z": SAME}),
        part("Pulley", at((0, 7, 0)), {"z": SAME}),
        part("Rack", at((0, -1, 0)), {"z": SAME, "slide": at(turned=TO_X)}),
        part("Nut", at((0, 0, 2)), {"z": SAME}),
        part("Piston", at((radius, 0, 0)), {"z": SAME}),
    ]
    ground = {
        "z": SAME,
        "wheel": at((3, 0, 0)),
        "pulley": at((0, 7, 0)),
        "x": at(turned=TO_X),
        "piston": at((radius, 0, 5)),
    }
    joints = [
        joint("Revolute", "shaft", "z", "Shaft/z"),
        joint("Revolute", "wheel", "wheel", "Wheel/z"),
        joint("Revolute", "pulley", "pulley", "Pulley/z"),
        joint("Translational", "rails", "Rack/slide", "x"),
        joint("Translational", "nut slide", "z", "Nut/z"),
        joint("Translational", "cylinder", "Piston/z", "piston"),
        joint("Gear", "mesh", "Shaft/gear", "Wheel/z", radiusI=1.0, radiusJ=2.0),
        joint("Gear", "belt", "Shaft/z", "Pulley/z", radiusI=1.0, radiusJ=-3.0),
        joint("RackPinion", "teeth", "Rack/z", "Shaft/z", pitchRadius=1.0),
        joint("Screw", "thread", "Nut/z", "Shaft/z", pitch=0.25),
        joint("PointInPlane", "plate", "Shaft/disc", "Piston/z", offset=0.1),
    ]
    # The rails of the rack are drawn apart from the axis along which they slide: its marker is moved there.
    ground["x"] = at((0, -1, 0), TO_X)
    text = files.asmt(parts, ground, joints, [motion("Rotational", "motor", "shaft", "3*time + time^2")])
    model = loaded(tmp_path, text)
    times = np.linspace(0, 4, 33)
    run = mbs.kinematics(model, times)
    assert np.all(np.asarray(run.status) == 0)
    angle = 3 * times + times**2
    found = places(model, run.q)
    close = {"rtol": 0, "atol": 1e-11}
    turns = lambda name, expected: np.exp(1j * (found[name][1].as_rotvec()[:, 2] - expected))
    np.testing.assert_allclose(turns("Wheel", -angle / 2), 1, **close)
    np.testing.assert_allclose(turns("Pulley", angle / 3), 1, **close)
    np.testing.assert_allclose(found["Rack"][0][:, 0], angle, **close)
    # The screw turns in a nut that does not: its advance relative to the nut is the pitch times its turns.
    np.testing.assert_allclose(found["Nut"][0][:, 2], 2 - 0.25 * angle / (2 * np.pi), **close)
    # (x − r) · n = 0.1 with n turned from z by the tilt about the shaft's x axis.
    height = (0.1 - radius * np.sin(tilt) * np.sin(angle)) / np.cos(tilt)
    np.testing.assert_allclose(found["Piston"][0][:, 2], height, **close)


def test_the_boom_of_an_excavator_stands_as_its_cylinder_says(tmp_path):
    """A boom about y, lifted by a cylinder whose length is driven: the angle follows from the law of cosines."""
    foot, length, pin, start = np.array([1.0, 0, 0]), 3.0, 2.0, 0.7
    rod_end = pin * np.array([np.cos(start), 0, np.sin(start)])
    along = (rod_end - foot) / np.linalg.norm(rod_end - foot)
    axes = np.stack([np.cross((0, 1, 0), along), (0, 1, 0), along], axis=1)
    axes[:, 0] = np.cross(axes[:, 1], axes[:, 2])
    boom, tube, rod = at(turned=(0, -start, 0)), (foot, axes), (rod_end, axes)
    about_y = at(turned=TO_Y)
    with_hinge = lambda place, r: relative(place, (r, about_y[1]))
    parts = [
        part(
            "Boom",
            boom,
            {"O": with_hinge(boom, np.zeros(3)), "B": with_hinge(boom, rod_end), "tip": at((length, 0, 0))},
        ),
        part("Tube", tube, {"A": with_hinge(tube, foot), "axis": SAME}),
        part("Rod", rod, {"B": with_hinge(rod, rod_end), "axis": SAME}),
        part("Bucket", (boom[1] @ (length, 0, 0), boom[1]), {"pin": SAME}),
    ]
    joints = [
        joint("Revolute", "O", "O", "Boom/O"),
        joint("Revolute", "A", "A", "Tube/A"),
        joint("Revolute", "B", "Rod/B", "Boom/B"),
        joint("Cylindrical", "cylinder", "Tube/axis", "Rod/axis"),
        joint("Fixed", "weld", "Boom/tip", "Bucket/pin"),
    ]
    size = float(np.linalg.norm(rod_end - foot))
    formula = f"{size!r} + 0.3*sin(2*time)"
    ground = {"O": about_y, "A": (foot, about_y[1])}
    model = loaded(tmp_path, files.asmt(parts, ground, joints, [motion("Translational", "pump", "cylinder", formula)]))
    run = mbs.kinematics(model, TIMES)
    stroke = size + 0.3 * np.sin(2 * TIMES)
    angle = np.arccos((1 + pin**2 - stroke**2) / (2 * pin))
    tip = places(model, run.q)["Bucket"][0]
    expected = length * np.stack([np.cos(angle), 0 * angle, np.sin(angle)], 1)
    np.testing.assert_allclose(tip, expected, rtol=0, atol=1e-12)


# Equations of the solver for each kind of joint, of the rotation R and the position d of marker j in marker i.
AXES = lambda R, d: [R[2, 0], R[2, 1]]
EQUATIONS = {
    "Fixed": (lambda R, d: [*d, R[1, 0], R[2, 0], R[2, 1]], {}),
    "Revolute": (lambda R, d: [*d, *AXES(R, d)], {}),
    "Cylindrical": (lambda R, d: [d[0], d[1], *AXES(R, d)], {}),
    "Translational": (lambda R, d: [d[0], d[1], *AXES(R, d), R[1, 0]], {}),
    "Spherical": (lambda R, d: [*d], {}),
    "Universal": (lambda R, d: [*d, R[2, 2]], {}),
    "ConstantVelocity": (lambda R, d: [*d, R[0, 1] + R[1, 0]], {}),
    "Planar": (lambda R, d: [d[2] - 0.3, *AXES(R, d)], {"offset": 0.3}),
    "PointInPlane": (lambda R, d: [d[2] + 0.3], {"offset": -0.3}),
    "LineInPlane": (lambda R, d: [d[2] - 0.3, R[2, 2]], {"offset": 0.3}),
    "PointInLine": (lambda R, d: [d[0], d[1]], {}),
    "NoRotation": (lambda R, d: [R[1, 0], R[2, 0], R[2, 1]], {}),
    "ParallelAxes": (lambda R, d: AXES(R, d), {}),
    "Perpendicular": (lambda R, d: [R[2, 2]], {}),
    "Angle": (lambda R, d: [R[2, 2] - np.cos(0.8)], {"theIzJz": 0.8}),
    "SphSph": (lambda R, d: [d @ d - 0.25], {"distanceIJ": 0.5}),
    "CylSph": (lambda R, d: [d[0] ** 2 + d[1] ** 2 - 0.25], {"distanceIJ": 0.5}),
    "RevCyl": (lambda R, d: [d[0] ** 2 + d[1] ** 2 - 0.25, *AXES(R, d)], {"distanceIJ": 0.5}),
    "RevRev": (lambda R, d: [d[0] ** 2 + d[1] ** 2 - 0.25, d[2], *AXES(R, d)], {"distanceIJ": 0.5}),
}
# The same joints at zero distance.
AT_ZERO = {"SphSph": "Spherical", "CylSph": "PointInLine", "RevCyl": "Cylindrical", "RevRev": "Revolute"}


def test_every_kind_of_joint_satisfies_the_equations_of_the_solver(tmp_path):
    """In the sense in which it is drawn: the z axes of some are opposite, and misfits are closed by `assemble`."""
    rng = np.random.default_rng(3)
    random = lambda size: at(rng.normal(size=3), rng.normal(size=3) * size)
    parts, joints, ground, on_part = [], [], {}, {}
    cases = [(kind, kind, sizes) for kind, (_, sizes) in EQUATIONS.items()]
    cases += [(f"{kind} at zero", kind, {"distanceIJ": 0.0}) for kind in AT_ZERO]
    for number, (name, kind, sizes) in enumerate(cases):
        marker, place = random(1.0), random(1.0)
        # Near marker i, after half a turn about x for every other joint.
        near = Rotation.from_rotvec(rng.normal(size=3) * 0.3) * Rotation.from_rotvec((np.pi * (number % 2), 0, 0))
        other = marker[0] + 0.3 * rng.normal(size=3), marker[1] @ near.as_matrix()
        ground[name], on_part[name] = marker, relative(place, other)
        parts.append(part(name, place, {"m": on_part[name]}))
        joints.append(joint(kind, f"joint of {name}", name, f"{name}/m", **sizes))
    model = loaded(tmp_path, files.asmt(parts, ground, joints))
    assembly = mbs.assemble(model)
    assert assembly.status == 0
    drawn, found = places(model, model.guess), places(model, assembly.q)
    for name, kind, _ in cases:
        kind = AT_ZERO[kind] if name != kind else kind
        r, turn = (part[...] if isinstance(part, np.ndarray) else part.as_matrix() for part in found[name])
        d = ground[name][1].T @ (r + turn @ on_part[name][0] - ground[name][0])
        gaps = EQUATIONS[kind][0](ground[name][1].T @ turn @ on_part[name][1], d)
        np.testing.assert_allclose(gaps, 0, rtol=0, atol=1e-9, err_msg=name)
        rows = sum(element.rows for element in model.constraints.values() if element.j == name)
        assert rows == len(gaps), name
        assert (found[name][1].inv() * drawn[name][1]).magnitude() < 1.6, name


GENERAL = (
    "GeneralMotion",
    [
        ("Name", ["carry"]),
        ("MarkerI", ["/A/O"]),
        ("MarkerJ", ["/A/Box/MassMarker"]),
        *((key, [formula]) for key, formula in zip(
            ("rIJI1", "rIJI2", "rIJI3", "angIJJ1", "angIJJ2", "angIJJ3"),
            ("1 + time", "0", "0.1*sin(2.0*pi*time - 0)", "0.2*time", "0.3", "time^2"),
            strict=True,
        )),
        ("RotationOrder", ["ORDER"]),
    ],
)  # fmt: skip


@pytest.mark.parametrize("order", ["1 2 3", "2 1 3", "3 1 2"])
def test_a_general_motion_has_positions_and_angles_in_any_order_of_axes(tmp_path, order):
    marker = at((0.3, 0.1, 0.2), (0.4, 0.1, -0.3))
    text = files.asmt([part("Box", SAME, com=at((0.1, 0, 0)))], {"O": marker}, motions=[GENERAL]).replace(
        "ORDER", order
    )
    model = loaded(tmp_path, text)
    r, turn = places(model, mbs.assemble(model, t=0.7).q)["Box"]
    letters = "".join("XYZ"[int(k) - 1] for k in order.split())
    turned = Rotation.from_matrix(marker[1]) * Rotation.from_euler(letters, (0.14, 0.3, 0.49))
    np.testing.assert_allclose(turn.as_matrix(), turned.as_matrix(), rtol=0, atol=1e-12)
    centre = marker[0] + marker[1] @ (1.7, 0, 0.1 * np.sin(1.4 * np.pi))
    np.testing.assert_allclose(r + turn.apply((0.1, 0, 0)), centre, rtol=0, atol=1e-12)


def test_limits_and_what_is_passed_over(tmp_path):
    text, _ = crank_slider()
    cam = joint("CurveCurve", "cam", "origin", "Crank/pin")
    spring = ("InLineForceTorque", [("Name", ["spring"]), ("tension", ["10.0d*(rIJ(self))"])])
    limits = [limit("Rotation", "O", "=>", "-30.0*pi/180.0"), limit("Translation", "rail", "=<", "8.5")]
    head, tail = text.split("\t\tLimits\n")
    block = lambda things, depth: "".join("\n".join(files._block(*thing, depth)) + "\n" for thing in things)
    text = head + "\t\tLimits\n" + block([*limits, limit("Translation", "rail", "=>", "-1")], 3) + tail
    text = text.replace("\t\tMotions\n", block([cam], 3) + "\t\tMotions\n").replace(
        "\tConstantG", block([spring], 2) + "\tConstantG"
    )
    model = loaded(tmp_path, text)
    assert model.limits == {"O": (-np.pi / 6, np.inf), "rail": (-1.0, 8.5)}
    assert model.passed_over == (
        "CurveCurveJoint 'cam': is not represented",
        "InLineForceTorque 'spring': is not represented",
    )
    assert mbs.load(mbs.save(model, tmp_path / "machine.json")).limits == model.limits
    with pytest.raises(mbs.ModelError, match=r"^machine.asmt: CurveCurveJoint 'cam': is not represented$"):
        loaded(tmp_path, text, strict=True)
    ignore = ("CurveCurveJoint", "InLineForceTorque", "RotationalMotion", "RotationLimit", "TranslationLimit")
    model = loaded(tmp_path, text, strict=True, ignore=ignore)
    assert not model.drivers
    assert not model.limits
    assert not model.passed_over


def test_initial_velocities_are_read_without_motions(tmp_path):
    """A part that turns about an axis through a hinge keeps turning."""
    turned = at((1, 0, 0), (0.3, -0.2, 0.4))
    text = files.asmt(
        [part("Top", turned, {"O": relative(turned, SAME)})], {"O": SAME}, [joint("Revolute", "O", "O", "Top/O")]
    )
    zero = "\t\t\tVelocity3D\n\t\t\t\t0.0\t0.0\t0.0\n\t\t\tOmega3D\n\t\t\t\t0.0\t0.0\t0.0\n"
    assert zero in text
    text = text.replace(
        zero, zero.replace("0.0\t0.0\t0.0", "0.0\t2.0\t0.0", 1).replace("0.0\t0.0\t0.0", "0.0\t0.0\t2.0")
    )
    model = loaded(tmp_path, text)
    np.testing.assert_allclose(model.velocity, [0, 2, 0, *turned[1].T @ (0, 0, 2)], rtol=1e-15)
    run = mbs.simulate(model, np.array([0, 0.5]), step=0.01)
    turn = places(model, run.q)["Top"][1][1] * Rotation.from_matrix(turned[1]).inv()
    np.testing.assert_allclose(turn.as_rotvec(), (0, 0, 1), rtol=0, atol=1e-7)


FORMULAS = {
    "2*pi*time": lambda t: 2 * math.pi * t,
    "(45.0d + 45.0d*sin((360.0d*time - 90.0d)*pi/180.0d))*pi/180.0d": lambda t: (
        np.pi / 4 * (1 + math.sin(2 * math.pi * t - math.pi / 2))
    ),
    '-1*("(arctan(T1))"<n>arctan(1000*(time - (-2))) <n>+<n> 2.0d2*time^2)': lambda t: (
        -math.atan(1000 * (t + 2)) - 200 * t * t
    ),
    "": lambda t: 0.0,
    "1 + time^3/4 - -time": lambda t: 1 + t**3 / 4 + t,
    "-2^2 + 2^time + time^0.5": lambda t: -4 + 2**t + t**0.5,
    "abs(sin(9*time))/time + arccos(time)*ln(2 + time)": lambda t: (
        abs(math.sin(9 * t)) / t + math.acos(t) * math.log(2 + t)
    ),
    "1e-3*time": lambda t: 1e-3 * t,
}


@pytest.mark.parametrize("formula", FORMULAS)
def test_formulas(formula):
    found = motion_of(formula, "motor")
    for t in (0.37, 0.9):
        np.testing.assert_allclose(found(jnp.asarray(t)), FORMULAS[formula](t), rtol=1e-14, atol=1e-15)


def test_formulas_that_are_polynomials_are_motions_with_parameters():
    assert isinstance(motion_of("2*pi", "m"), mbs.motion.Constant)
    ramp = motion_of("(time + 3)*2", "m")
    assert (float(ramp.rate), float(ramp.start)) == (2.0, 6.0)
    np.testing.assert_array_equal(motion_of("(time - 1)^2*time", "m").coefficients, (0, 1, -2, 1))


BAD_FORMULAS = (
    "__import__('os').system('x')", "time.real", "1/0", "9^9^9^9", "(-8)^(1/3)", "(" * 300 + "1" + ")" * 300,
    "-" * 15000 + "1", "time(", "nan", "1e999", "x*time", "sin(1, 2)", "True", "'a'", "[1 for x in y]", "lambda: 0",
    "1j*time", "\0",
    "exp(1000)", "1e200*1e200*time", "9" * 5000, "1" * 30000, "rampstep(time)", "time if 1 else 2", "sin(time)(3)",
    "*time",
)  # fmt: skip


@pytest.mark.parametrize("formula", BAD_FORMULAS, ids=lambda formula: formula[:20])
def test_formulas_of_anything_else_are_refused(formula):
    with pytest.raises(mbs.ModelError, match=r"^motor: formula [^\n]+$"):
        motion_of(formula, "motor")


TEXT = crank_slider()[0]
BAD = {
    "empty": (lambda text: "", "the first line must be"),
    "other text": (lambda text: "hello\n" + text, "the first line must be"),
    "no assembly": (lambda text: "OndselSolver\n", "Assembly is missing"),
    "no parts": (lambda text: files.asmt([]), "assembly 'A': has no parts"),
    "tabs": (lambda text: text.replace("\t\tPart\n", "\t\t\t\t\tPart\n", 1), "tabs"),
    "not a number": (lambda text: text.replace("2.0\t0.0\t0.0", "2.0\tnan\t0.0"), "marker 'tip' of part 'Crank', line"),
    "few numbers": (lambda text: text.replace("0.1\t0.2\t0.25", "0.1\t0.2"), "MomentOfInertias must be 3 finite"),
    "word": (lambda text: text.replace("0.1\t0.2\t0.25", "a\tb\tc"), "part 'Crank', line"),
    "infinite": (lambda text: text.replace("0.1\t0.2\t0.25", "1e999\t1\t1"), "MomentOfInertias must be 3 finite"),
    "impossible inertia": (lambda text: text.replace("0.1\t0.2\t0.25", "0.1\t0.1\t5.0"), "'Crank'"),
    "negative mass": (lambda text: text.replace("\t2.0\n", "\t-2.0\n"), "'Crank'"),
    "no rotation": (lambda text: text.replace("1.0\t0.0\t0.0", "2.0\t0.0\t0.0", 1), "three right-handed"),
    "marker": (lambda text: text.replace("/A/Rod/tip", "/A/Rod/other"), "RevoluteJoint 'A', line"),
    "joint": (lambda text: text.replace("/A/O\n", "/A/P\n"), "MotionJoint '/A/P' does not exist"),
    "missing key": (lambda text: text.replace("\t\t\t\tMarkerI\n\t\t\t\t\t/A/origin\n", ""), "MarkerI is missing"),
    "formula": (lambda text: text.replace("2.0d*pi*time", "import(os)"), "motion 'motor': formula"),
    "two parts": (lambda text: text.replace("\t\t\t\tRod\n", "\t\t\t\tCrank\n"), "two parts have this name"),
    "ground": (lambda text: text.replace("\t\t\t\tRod\n", "\t\t\t\tground\n"), "'ground'"),
    "name of a coordinate": (lambda text: text.replace("Rod", "Crank.x"), "Crank.x"),
    "not text": (lambda text: text.encode() + b"\xff\xfe", "is not UTF-8"),
    "gear": (lambda text: text.replace("RevoluteJoint", "GearJoint", 1), "joint 'O': radius_i must not be zero"),
    "screw": (lambda text: text.replace("RevoluteJoint", "ScrewJoint", 1), "joint 'O': pitch must not be zero"),
    "pinion": (
        lambda text: text.replace("RevoluteJoint", "RackPinionJoint", 1),
        "joint 'O': radius_j must not be zero",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_damaged_texts_are_refused_in_one_line(tmp_path, name):
    change, words = BAD[name]
    text = change(TEXT)
    path = tmp_path / "machine.asmt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(mbs.ModelError, match=r"^machine.asmt: [^\n]+$") as caught:
        mbs.load(path)
    assert words in str(caught.value), str(caught.value)


def test_a_joint_on_one_part_is_passed_over(tmp_path):
    extra = joint("Spherical", "self", "Rod/tip", "Rod/end")
    text = TEXT.replace("\t\tMotions\n", "\n".join(files._block(*extra, 3)) + "\n\t\tMotions\n")
    model = loaded(tmp_path, text)
    assert model.passed_over == ("joint 'self': connects 'Rod' with itself",)
    assert isinstance(model.constraints["O"], spatial.Revolute)


@pytest.mark.parametrize("options", [{"loops": {"a": spatial.Spherical("x", "ground")}}, {"base": "free"}])
@pytest.mark.parametrize("suffix", ["asmt", "FCStd"])
def test_options_of_robots_are_refused(tmp_path, suffix, options):
    path = tmp_path / f"machine.{suffix}"
    path.write_text("")
    with pytest.raises(mbs.ModelError, match=f"{next(iter(options))}: only for URDF and SDF; in FreeCAD add a joint"):
        mbs.load(path, **options)
