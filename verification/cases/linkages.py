"""Classic planar linkages by kinematics: four-bar, slider-crank, Peaucellier's line, a cognate, Jansen's leg."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from jaxmbs import planar
from linkages import apex, bar_linkage, four_bar, four_bar_guess, slider_crank
from verification.case import GRADIENT, KINEMATICS, case, close
from verification.cases.common import gap


def lengths(parameters):
    """Return the design of `four_bar` from the parameters of a reference problem."""
    names = {"crank": "crank_a", "coupler": "coupler_b", "rocker": "rocker_c", "ground": "ground_d"}
    return {name: jnp.asarray(parameters[key]) for name, key in names.items()}


def motion_of_four_bar(b, parameters, angles, *, throw=False):
    """Return angles, coupler point and their rates as rows of the reference table."""
    omega = parameters["crank_speed_omega2_rad_per_s"]
    guess = four_bar_guess(b, jnp.deg2rad(angles[0]))
    motion = mbs.kinematics(four_bar(b, omega), jnp.deg2rad(angles) / omega, guess, throw=throw)
    point = (parameters["px"] - b["coupler"] / 2, parameters["py"])
    columns = []
    for scalar, vector in (
        (motion.position, motion.point),
        (motion.velocity, motion.point_velocity),
        (motion.acceleration, motion.point_acceleration),
    ):
        columns += [scalar("coupler.phi"), scalar("rocker.phi"), *vector("coupler", point).T]
    return jnp.stack(columns, axis=1)


@case("Textbooks", "four-bar over a turn", KINEMATICS, references=("planar_four_bar_kinematics",), quick=True)
def four_bar_table(by, problem):
    """Compare angles and coupler point of a driven four-bar, with rates, with the reference table."""
    rows = np.array(problem["rows"])
    found = motion_of_four_bar(lengths(problem["parameters"]), problem["parameters"], rows[:, 0], throw=True)
    for k, (quantity, unit) in enumerate(
        {"angles, coupler point": "rad", "velocities": "rad/s", "accelerations": "rad/s²"}.items()
    ):
        part = slice(4 * k, 4 * k + 4)
        yield close(quantity, found[:, part], rows[:, 1:][:, part], 1e-12, unit)


@case("Textbooks", "four-bar by its lengths", GRADIENT, references=("planar_four_bar_kinematics",), quick=True)
def four_bar_sensitivities(by, problem):
    """Compare derivatives of the four-bar's angles by its lengths with the reference, in both modes."""
    p, cases = problem["parameters"], problem["length_sensitivities"]["cases"]
    angles = np.array([0, *(case["theta2_deg"] for case in cases)])
    for name, mode in (("forward", jax.jacfwd), ("reverse", jax.jacrev)):
        found = jax.jit(mode(lambda b: motion_of_four_bar(b, p, angles)[1:, :4]))(lengths(p))
        by_length = zip(("crank", "coupler", "rocker", "ground"), ("d_da", "d_db", "d_dc", "d_dd"), strict=True)
        deviations = [np.subtract(found[bar], [case[key] for case in cases]) for bar, key in by_length]
        yield close(f"derivatives of angles and coupler point by each length, {name} mode", deviations, 0, 1e-12)


@case("Textbooks", "slider-crank over a turn", KINEMATICS, references=("slider_crank_kinematics",), quick=True)
def slider_crank_table(by, problem):
    """Compare the motion of a driven slider-crank with the reference table."""
    p, rows = problem["parameters"], np.array(problem["rows"])
    b = {"crank": p["crank_r"], "rod": p["rod_l"], "offset": p["offset_e"]}
    omega = p["crank_speed_omega"]
    guess = {"rod": (0.05, 0, 0.05), "slider": (0.25, 0.01, 0)}
    motion = mbs.kinematics(slider_crank(b, omega), np.deg2rad(rows[:, 0]) / omega, guess, throw=True)
    x, v, a = (of("slider.x") for of in (motion.position, motion.velocity, motion.acceleration))
    yield close("position of the slider", x, rows[:, 1], 1e-13, "m")
    yield close("velocity", v, rows[:, 2], 1e-11, "m/s")
    yield close("acceleration", a, rows[:, 3], 1e-9, "m/s²")


def peaucellier(b):
    """Return the inversor with centre O, arms to R1 and R2, rhombus Q–R1–P–R2, and a crank of radius a that carries Q."""
    link = lambda start, end, length: {start: (0, 0), end: (length, 0)}
    bars = {
        "crank": link("M", "Q", b["a"]),
        "arm1": link("O", "R1", b["arm"]),
        "arm2": link("O", "R2", b["arm"]),
        "qr1": link("Q", "R1", b["side"]),
        "qr2": link("Q", "R2", b["side"]),
        "pr1": link("P", "R1", b["side"]),
        "pr2": link("P", "R2", b["side"]),
    }
    joints = {
        "M": [("ground", (b["a"], 0)), "crank"],
        "O": [("ground", (0, 0)), "arm1", "arm2"],
        "Q": ["crank", "qr1", "qr2"],
        "R1": ["arm1", "qr1", "pr1"],
        "R2": ["arm2", "qr2", "pr2"],
        "P": ["pr1", "pr2"],
    }
    return bar_linkage(bars, joints, "crank")


def pose(start, end):
    """Return the pose of a bar from `start` to `end` (complex or (2,)) whose frame is at its start."""
    return (*start, np.arctan2(*(end - start)[::-1]))


def peaucellier_guess(b, angle):
    """Return a configuration in closed form."""
    q = b["a"] * np.array([1 + np.cos(angle), np.sin(angle)])
    p = q * (b["arm"] ** 2 - b["side"] ** 2) / (q @ q)
    half = np.sqrt(b["side"] ** 2 - (p - q) @ (p - q) / 4)
    normal = half * np.array([-q[1], q[0]]) / np.linalg.norm(q)
    r1, r2 = (p + q) / 2 + normal, (p + q) / 2 - normal
    ends = {"arm1": (0 * q, r1), "arm2": (0 * q, r2), "qr1": (q, r1), "qr2": (q, r2), "pr1": (p, r1), "pr2": (p, r2)}
    return {"crank": (b["a"], 0, angle)} | {name: pose(*pair) for name, pair in ends.items()}


@case(
    "Textbooks",
    "straight-line linkage of Peaucellier and Lipkin",
    KINEMATICS,
    references=("classic_linkages",),
    quick=True,
)
def straight_line(by, problem):
    """Compare the point of Peaucellier's inversor, and derivatives of its x by the lengths, with the data of a problem."""
    table = problem["peaucellier"]
    numbers = dict(zip(("a", "arm", "side"), table["parameters"].values(), strict=True))
    rows, b = np.array(table["rows"]), {name: jnp.asarray(x) for name, x in numbers.items()}
    times = np.deg2rad(rows[:, 0])
    guess = peaucellier_guess(numbers, times[0])
    point = lambda b, **options: mbs.kinematics(peaucellier(b), times, guess, **options).point("pr1")
    points, of_design = point(b, throw=True), jax.jit(jax.jacrev(lambda b: point(b)[5, 0]))(b)
    yield close("distance of P from the line", points[:, 0], table["x_of_P_exact"], 1e-12)
    yield close("position of P at each crank angle", points, rows[:, 1:], 1e-12)
    names = {"a": "a", "arm": "arm", "side": "rhombus_side"}
    wanted = [table["derivatives_of_x_of_P"][f"with_respect_to_{name}"] for name in names.values()]
    yield close("derivative of the x of P by each length", [of_design[name] for name in names], wanted, 1e-11)


@case("Textbooks", "cognate of Roberts and Chebyshev", KINEMATICS, references=("classic_linkages",), quick=True)
def cognate(by, problem):
    """Compare the coupler curve of a four-bar with that of its cognate."""
    p = problem["roberts_chebyshev_cognate"]["example"]
    b, ratio, times = lengths(p), complex(*p["lambda_real_imag"]), np.linspace(0.0, 2 * np.pi, 37)
    original = mbs.kinematics(four_bar(b), times, four_bar_guess(b, 0.0), throw=True)
    curve = original.point("coupler", (p["px"] - b["coupler"] / 2, p["py"]))
    # The cognate's crank only rocks, with the original's coupler; its own coupler turns with the original's crank.
    size = abs(ratio)
    c = {"crank": size * b["coupler"], "coupler": size * b["crank"]}
    c |= {"rocker": size * b["rocker"], "ground": size * b["ground"]}
    held = four_bar(c)
    mech = mbs.Mechanism(
        held.bodies, held.constraints, {"motor": planar.AbsoluteAngleDriver("coupler", mbs.motion.Ramp(1.0))}
    )
    middle = lambda start, end: [*((start + end) / 2).tolist(), np.arctan2(*(end - start)[::-1])]
    swing = float(original.position("coupler.phi")[0])
    crank_pin = float(c["crank"]) * np.array([np.cos(swing), np.sin(swing)])
    rocker_pin, pivot = crank_pin + np.array([float(c["coupler"]), 0]), np.array([float(c["ground"]), 0])
    ends = {"crank": (np.zeros(2), crank_pin), "coupler": (crank_pin, rocker_pin), "rocker": (pivot, rocker_pin)}
    motion = mbs.kinematics(mech, times, {name: middle(*pair) for name, pair in ends.items()}, throw=True)
    # Its coupler point divides its coupler by 1/λ; its ground line is turned by arg λ.
    local = float(c["coupler"]) * (1 / ratio - 0.5)
    traced = motion.point("coupler", (local.real, local.imag))
    traced = (traced[:, 0] + 1j * traced[:, 1]) * ratio / size
    yield close("distance of the two coupler curves", np.abs(traced - (curve[:, 0] + 1j * curve[:, 1])), 0, 1e-12)


def jansen(holy):
    """Return Jansen's leg: crank M, triangles Z–J–E and K–F–G, and the bars between them."""
    link = lambda start, end, length: {start: (0, 0), end: (length, 0)}
    bars = {
        "crank": link("O", "M", holy["m"]),
        "j": link("M", "J", holy["j"]),
        "k": link("M", "K", holy["k"]),
        # The upper triangle: E lies left of the line from Z to J.
        "upper": {"Z": (0, 0), "J": (holy["b"], 0), "E": apex(holy["b"], holy["d"], holy["e"])},
        "c": link("Z", "K", holy["c"]),
        "f": link("E", "F", holy["f"]),
        # The lower triangle: seen from K to F, the foot G is on the left.
        "lower": {"K": (0, 0), "F": (holy["g"], 0), "G": apex(holy["g"], holy["i"], holy["h"])},
    }
    joints = {
        "O": [("ground", (0, 0)), "crank"],
        "Z": [("ground", (-holy["a"], -holy["l"])), "upper", "c"],
        "M": ["crank", "j", "k"],
        "J": ["upper", "j"],
        "E": ["upper", "f"],
        "K": ["k", "c", "lower"],
        "F": ["f", "lower"],
    }
    return bar_linkage(bars, joints, "crank")


def jansen_points(holy, t):
    """Return the joints of the leg by intersections of circles, the published definition, as complex numbers."""

    def meet(centre1, r1, centre2, r2, side):
        """Return an intersection of two circles; `side` is 1 to the left of the line of centres, else −1."""
        d = centre2 - centre1
        x = (r1**2 - r2**2 + abs(d) ** 2) / (2 * abs(d))
        return centre1 + (x + side * 1j * np.sqrt(r1**2 - x**2)) * d / abs(d)

    z, m = complex(-holy["a"], -holy["l"]), holy["m"] * np.exp(1j * t)
    j = meet(z, holy["b"], m, holy["j"], 1)
    e = meet(z, holy["d"], j, holy["e"], 1)
    k = meet(z, holy["c"], m, holy["k"], -1)
    f = meet(e, holy["f"], k, holy["g"], -1)
    return {"Z": z, "M": m, "J": j, "E": e, "K": k, "F": f, "G": meet(k, holy["i"], f, holy["h"], 1)}


def jansen_guess(holy, angle=0.0):
    """Return a configuration of the leg."""
    points = {name: np.array([p.real, p.imag]) for name, p in jansen_points(holy, angle).items()}
    ends = {"j": "MJ", "k": "MK", "upper": "ZJ", "c": "ZK", "f": "EF", "lower": "KF"}
    return {"crank": (0, 0, angle)} | {name: pose(points[i], points[j]) for name, (i, j) in ends.items()}


@case("Textbooks", "Jansen's leg over a turn", KINEMATICS, references=("classic_linkages",), quick=True)
def jansens_leg(by, problem):
    """Compare the foot of Jansen's leg with intersections of circles."""
    holy, times = problem["jansen"]["lengths"], np.linspace(0, 2 * np.pi, 37)
    mech = jansen(holy)
    motion = mbs.kinematics(mech, times, jansen_guess(holy), throw=True)
    foot = motion.point("lower", apex(holy["g"], holy["i"], holy["h"]))
    wanted = np.array([jansen_points(holy, t)["G"] for t in times])
    yield close("foot", np.abs(foot[:, 0] + 1j * foot[:, 1] - wanted), 0, 1e-10)
    yield close("poses of all links after a turn", motion.q[-1, 3:], motion.q[0, 3:], 1e-11)
    yield gap(mech, motion)
