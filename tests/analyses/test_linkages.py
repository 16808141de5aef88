"""Published linkages: four-bar and slider-crank tables, Peaucellier's line, cognates, Jansen's leg."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar
from linkages import bar_linkage, four_bar, four_bar_guess, reference, slider_crank


@pytest.fixture(scope="module")
def four_bar_table():
    return reference("planar_four_bar_kinematics")


def lengths(parameters):
    names = {"crank": "crank_a", "coupler": "coupler_b", "rocker": "rocker_c", "ground": "ground_d"}
    return {name: jnp.asarray(parameters[key]) for name, key in names.items()}


def motion_of_four_bar(b, parameters, angles):
    """Angles, coupler point and their rates for rows of the reference table."""
    omega = parameters["crank_speed_omega2_rad_per_s"]
    motion = mbs.kinematics(four_bar(b, omega), jnp.deg2rad(angles) / omega, four_bar_guess(b, jnp.deg2rad(angles[0])))
    point = (parameters["px"] - b["coupler"] / 2, parameters["py"])
    columns = []
    for scalar, vector in (
        (motion.position, motion.point),
        (motion.velocity, motion.point_velocity),
        (motion.acceleration, motion.point_acceleration),
    ):
        columns += [scalar("coupler.phi"), scalar("rocker.phi"), *vector("coupler", point).T]
    return jnp.stack(columns, axis=1), motion.status


def test_four_bar_table_to_1e_10(four_bar_table):
    """planar_four_bar_kinematics.json: nine crank angles over a turn, up to 60° apart."""
    p = four_bar_table["parameters"]
    rows = np.array(four_bar_table["rows"])
    got, status = motion_of_four_bar(lengths(p), p, rows[:, 0])
    assert np.all(status == mbs.Status.CONVERGED)
    np.testing.assert_allclose(got, rows[:, 1:], atol=1e-12, rtol=0)


@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev])
def test_four_bar_length_sensitivities_to_1e_10(four_bar_table, mode):
    p = four_bar_table["parameters"]
    angles = np.array([0, *(case["theta2_deg"] for case in four_bar_table["length_sensitivities"]["cases"])])
    of_lengths = jax.jit(mode(lambda b: motion_of_four_bar(b, p, angles)[0][1:, :4]))(lengths(p))
    for k, case in enumerate(four_bar_table["length_sensitivities"]["cases"]):
        for name, key in (("crank", "d_da"), ("coupler", "d_db"), ("rocker", "d_dc"), ("ground", "d_dd")):
            np.testing.assert_allclose(of_lengths[name][k], case[key], atol=1e-12, rtol=0)


def test_slider_crank_table_to_1e_10():
    table = reference("slider_crank_kinematics")
    p = table["parameters"]
    rows = np.array(table["rows"])
    b = {"crank": p["crank_r"], "rod": p["rod_l"], "offset": p["offset_e"]}
    omega = p["crank_speed_omega"]
    guess = {"rod": (0.05, 0, 0.05), "slider": (0.25, 0.01, 0)}
    motion = mbs.kinematics(slider_crank(b, omega), np.deg2rad(rows[:, 0]) / omega, guess)
    assert np.all(motion.status == mbs.Status.CONVERGED)
    scale = np.array([1, omega, omega**2])
    got = np.stack([motion.position("slider.x"), motion.velocity("slider.x"), motion.acceleration("slider.x")], axis=1)
    np.testing.assert_allclose(got / scale, rows[:, 1:] / scale, atol=1e-13, rtol=0)
    np.testing.assert_allclose(got, rows[:, 1:], atol=1e-10, rtol=0)


def peaucellier(b):
    """Inversor with centre O, arms to R1 and R2, rhombus Q–R1–P–R2, and a crank of radius a that carries Q."""
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


def peaucellier_guess(a, arm, side, angle):
    q = np.array([a + a * np.cos(angle), a * np.sin(angle)])
    p = q * (arm**2 - side**2) / (q @ q)
    middle, half = (p + q) / 2, np.sqrt(side**2 - (p - q) @ (p - q) / 4)
    normal = half * np.array([-q[1], q[0]]) / np.linalg.norm(q)
    r1, r2 = middle + normal, middle - normal
    pose = lambda start, end: (*start, np.arctan2(*(end - start)[::-1]))
    origin = np.zeros(2)
    return {
        "crank": (a, 0, angle),
        "arm1": pose(origin, r1),
        "arm2": pose(origin, r2),
        "qr1": pose(q, r1),
        "qr2": pose(q, r2),
        "pr1": pose(p, r1),
        "pr2": pose(p, r2),
    }


def test_peaucellier_draws_a_straight_line_to_1e_12():
    table = reference("classic_linkages")["peaucellier"]
    p = table["parameters"]
    rows = np.array(table["rows"])
    b = {"a": jnp.asarray(p["crank_radius_a"]), "arm": jnp.asarray(p["arm"]), "side": jnp.asarray(p["rhombus_side"])}
    times = np.deg2rad(rows[:, 0])
    guess = peaucellier_guess(p["crank_radius_a"], p["arm"], p["rhombus_side"], times[0])

    def output(b):
        motion = mbs.kinematics(peaucellier(b), times, guess)
        return motion.point("pr1"), motion.status

    (points, status), of_design = output(b), jax.jit(jax.jacrev(lambda b: output(b)[0][5, 0]))(b)
    assert np.all(status == mbs.Status.CONVERGED)
    np.testing.assert_allclose(points[:, 0], table["x_of_P_exact"], atol=1e-12, rtol=0)
    np.testing.assert_allclose(points, rows[:, 1:], atol=1e-12, rtol=0)
    expected = table["derivatives_of_x_of_P"]
    assert of_design["a"] == pytest.approx(expected["with_respect_to_a"], abs=1e-11)
    assert of_design["arm"] == pytest.approx(expected["with_respect_to_arm"], abs=1e-11)
    assert of_design["side"] == pytest.approx(expected["with_respect_to_rhombus_side"], abs=1e-11)


def test_roberts_chebyshev_cognate_has_the_same_coupler_curve():
    p = reference("classic_linkages")["roberts_chebyshev_cognate"]["example"]
    b = lengths(p)
    ratio = complex(*p["lambda_real_imag"])
    times = jnp.linspace(0.0, 2 * jnp.pi, 37)
    original = mbs.kinematics(four_bar(b), times, four_bar_guess(b, 0.0))
    curve = original.point("coupler", (p["px"] - b["coupler"] / 2, p["py"]))

    # The cognate's crank only rocks, with the original's coupler; its own coupler turns with the original's crank.
    size = abs(ratio)
    c = {"crank": size * b["coupler"], "coupler": size * b["crank"]}
    c |= {"rocker": size * b["rocker"], "ground": size * b["ground"]}
    held = four_bar(c)
    driver = planar.AbsoluteAngleDriver("coupler", mbs.motion.Ramp(1.0))
    cognate = mbs.Mechanism(held.bodies, held.constraints, {"motor": driver})
    pose = lambda start, end: (*((start + end) / 2), np.arctan2(*(end - start)[::-1]))
    crank_pin = float(c["crank"]) * np.array(
        [np.cos(original.position("coupler.phi")[0]), np.sin(original.position("coupler.phi")[0])]
    )
    rocker_pin, pivot = crank_pin + np.array([float(c["coupler"]), 0]), np.array([float(c["ground"]), 0])
    guess = {
        "crank": pose(np.zeros(2), crank_pin),
        "coupler": pose(crank_pin, rocker_pin),
        "rocker": pose(pivot, rocker_pin),
    }
    motion = mbs.kinematics(cognate, times, guess)
    assert np.all(motion.status == mbs.Status.CONVERGED)

    # Its coupler point divides its coupler by 1/λ; its ground line is turned by arg λ.
    local = float(c["coupler"]) * (1 / ratio - 0.5)
    traced = motion.point("coupler", (local.real, local.imag))
    traced = (traced[:, 0] + 1j * traced[:, 1]) * ratio / size
    np.testing.assert_allclose(traced, curve[:, 0] + 1j * curve[:, 1], atol=1e-12, rtol=0)


def jansen(holy):
    """Jansen's leg; crank M, triangles Z–J–E and K–F–G, and the bars between them."""
    triangle = lambda base, left, right: _apex(base, left, right)
    link = lambda start, end, length: {start: (0, 0), end: (length, 0)}
    bars = {
        "crank": link("O", "M", holy["m"]),
        "j": link("M", "J", holy["j"]),
        "k": link("M", "K", holy["k"]),
        # The upper triangle: E lies left of the line from Z to J.
        "upper": {"Z": (0, 0), "J": (holy["b"], 0), "E": triangle(holy["b"], holy["d"], holy["e"])},
        "c": link("Z", "K", holy["c"]),
        "f": link("E", "F", holy["f"]),
        # The lower triangle: seen from K to F, the foot G is on the left.
        "lower": {"K": (0, 0), "F": (holy["g"], 0), "G": triangle(holy["g"], holy["i"], holy["h"])},
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


def _apex(base, left, right):
    """The third corner of a triangle over (0, 0)–(base, 0), above it, from the lengths of its other sides."""
    x = (base**2 + left**2 - right**2) / (2 * base)
    return (x, jnp.sqrt(left**2 - x**2))


def jansen_points(holy, t):
    """The same leg by intersections of circles, in complex numbers; the published definition."""

    def meet(centre1, r1, centre2, r2, side):
        d = centre2 - centre1
        x = (r1**2 - r2**2 + abs(d) ** 2) / (2 * abs(d))
        return centre1 + (x + side * 1j * np.sqrt(r1**2 - x**2)) * d / abs(d)

    z, m = complex(-holy["a"], -holy["l"]), holy["m"] * np.exp(1j * t)
    j = meet(z, holy["b"], m, holy["j"], 1)
    e = meet(z, holy["d"], j, holy["e"], 1)
    k = meet(z, holy["c"], m, holy["k"], -1)
    f = meet(e, holy["f"], k, holy["g"], -1)
    return {"Z": z, "M": m, "J": j, "E": e, "K": k, "F": f, "G": meet(k, holy["i"], f, holy["h"], 1)}


def test_jansens_leg_turns_a_full_revolution_along_its_published_definition():
    holy = reference("classic_linkages")["jansen"]["lengths"]
    p = jansen_points(holy, 0.0)
    pose = lambda start, end: (start.real, start.imag, np.angle(end - start))
    guess = {
        "crank": (0, 0, 0),
        "j": pose(p["M"], p["J"]),
        "k": pose(p["M"], p["K"]),
        "upper": pose(p["Z"], p["J"]),
        "c": pose(p["Z"], p["K"]),
        "f": pose(p["E"], p["F"]),
        "lower": pose(p["K"], p["F"]),
    }
    times = np.linspace(0, 2 * np.pi, 37)
    mech = jansen(holy)
    motion = mbs.kinematics(mech, times, guess)
    assert np.all(motion.status == mbs.Status.CONVERGED)
    foot = motion.point("lower", _apex(holy["g"], holy["i"], holy["h"]))
    expected = np.array([jansen_points(holy, t)["G"] for t in times])
    np.testing.assert_allclose(foot[:, 0] + 1j * foot[:, 1], expected, atol=1e-10, rtol=0)
    np.testing.assert_allclose(motion.q[-1, 3:], motion.q[0, 3:], atol=1e-11, rtol=0)
    gaps = [np.max(np.abs(mbs.constraints(mech, q, t))) for q, t in zip(motion.q[::6], times[::6], strict=True)]
    assert max(gaps) < 1e-10
    assert mbs.diagnose(mech, motion.q[3], times[3]).dof == 1
