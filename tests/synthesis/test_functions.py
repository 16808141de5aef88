"""Function generation: published precision points, linkages that are found back, the half-angle solution of Freudenstein's
equation, which knows nothing of this package."""

import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import synthesis

SINE = {"f": np.sin, "x_range": (0.0, np.pi / 3), "input_span": np.pi / 3, "output_span": np.pi / 3}
LOG = {"f": np.log10, "x_range": (1.0, 2.0), "input_span": np.deg2rad([45, 105]), "output_span": np.deg2rad([135, 225])}


def freudenstein(design, phi, psi):
    """Residual of K₁ cos ψ − K₂ cos φ + K₃ − cos(φ − ψ), for angles of the links."""
    d, a, b, c = (design[name] for name in ("ground", "crank", "coupler", "rocker"))
    k3 = (a**2 - b**2 + c**2 + d**2) / (2 * a * c)
    return d / a * np.cos(psi) - d / c * np.cos(phi) + k3 - np.cos(phi - psi)


def rocker_angles(design, phi):
    """Both roots ψ of Freudenstein's equation A t² + B t + C = 0 in t = tan(ψ/2)."""
    d, a, b, c = (design[name] for name in ("ground", "crank", "coupler", "rocker"))
    k1, k2, k3 = d / a, d / c, (a**2 - b**2 + c**2 + d**2) / (2 * a * c)
    A, B = np.cos(phi) - k1 - k2 * np.cos(phi) + k3, -2 * np.sin(phi)
    C = k1 - (k2 + 1) * np.cos(phi) + k3
    root = np.sqrt(B**2 - 4 * A * C)
    return [2 * np.arctan2(-B + sign * root, 2 * A) for sign in (1, -1)]


def off(angle):
    return np.abs(np.arctan2(np.sin(angle), np.cos(angle)))


@pytest.fixture(scope="module")
def sine():
    return synthesis.function(**SINE)


def test_least_squares_beat_three_precision_points():
    exact = synthesis.function(**LOG, precision_points=3).best
    best = synthesis.function(**LOG).best
    assert best.error < exact.error
    assert best.checks["largest_error"] < exact.checks["largest_error"]


def test_sine_over_sixty_degrees_within_a_tenth_of_a_degree(sine):
    best = sine.best
    x = np.linspace(*SINE["x_range"], 1001)
    phi = best.crank_angles[0] + x
    wanted = best.wanted[0] + np.sin(x) / np.sin(np.pi / 3) * np.pi / 3
    error = min((off(psi - wanted) for psi in rocker_angles(best.design, phi)), key=np.max)
    assert np.rad2deg(error.max()) < 0.05
    assert best.checks["largest_error"] == pytest.approx(error.max(), rel=1e-3)
    assert best.error == pytest.approx(np.sqrt((error**2).mean()), rel=1e-2)


def test_all_are_ranked_and_their_mechanisms_assemble(sine):
    errors = [x.error for x in sine.all]
    assert errors == sorted(errors)
    assert all(x.checks["assembled"] and x.checks["transmission_angle"] >= 15 for x in sine.all)
    best = sine.best
    q = np.asarray(mbs.kinematics(best.mechanism, np.linspace(0, 1, 361), best.guess, throw=True).q)
    assert off(q[:, 2] - best.crank_angles).max() < 1e-9
    assert off(q[:, 8] - best.output).max() < 1e-9


def test_the_same_seed_gives_the_same_answer(sine):
    again = synthesis.function(**SINE)
    assert [x.error for x in again.all] == [x.error for x in sine.all]


def test_transmission_angle_is_kept():
    best = synthesis.function(**SINE, transmission_angle=40.0).best
    d, phi = best.design, best.crank_angles
    diagonal = d["ground"] ** 2 + d["crank"] ** 2 - 2 * d["ground"] * d["crank"] * np.cos(phi)
    cosine = (d["coupler"] ** 2 + d["rocker"] ** 2 - diagonal) / (2 * d["coupler"] * d["rocker"])
    assert np.rad2deg(np.arccos(np.abs(cosine).max())) >= 40


def test_five_precision_points_are_passed_exactly():
    best = synthesis.function(**{**LOG, "input_span": np.pi / 3, "output_span": np.pi / 3}, precision_points=5).best
    x = 1.5 - 0.5 * np.cos((2 * np.arange(5) + 1) * np.pi / 10)
    phi = best.crank_angles[0] + (x - 1) * np.pi / 3
    psi = best.wanted[0] + np.log10(x) / np.log10(2) * np.pi / 3
    assert np.abs(freudenstein(best.design, phi, psi)).max() < 1e-10
    assert best.checks["assembled"]


def test_a_four_bar_is_found_back_from_its_function():
    known = {"ground": 1.0, "crank": 0.45, "coupler": 1.1, "rocker": 0.8}
    angle = lambda phi: rocker_angles(known, np.asarray(phi))[1]
    span, ends = (0.3, 1.8), (angle(0.3), angle(1.8))
    # It turns back on its way: the output's span is then that of these values of f.
    best = synthesis.function(angle, span, input_span=span, output_span=ends, y_range=ends).best
    assert best.checks["largest_error"] < 1e-8
    assert (best.design["crank_offset"], best.design["rocker_offset"]) == (0, 0)
    for name, length in known.items():
        assert best.design[name] == pytest.approx(length, rel=1e-6)


def slide(phi, a=0.6, b=1.9, e=0.25):
    return a * np.cos(phi) + np.sqrt(b**2 - (a * np.sin(phi) - e) ** 2)


@pytest.mark.parametrize("points", [3, None])
def test_a_slider_crank_is_found_back_from_its_function(points):
    span = (0.4, 2.0)
    output = (slide(span[0]), slide(span[1]))
    task = {"mechanism": "slider-crank", "input_span": span, "output_span": output, "precision_points": points}
    best = synthesis.function(slide, span, **task).best
    assert best.checks["largest_error"] < 1e-8
    found = [best.design[name] for name in ("crank", "coupler", "offset")]
    np.testing.assert_allclose(found, [0.6, 1.9, 0.25], rtol=1e-6)
    q = np.asarray(mbs.kinematics(best.mechanism, np.linspace(0, 1, 9), best.guess, throw=True).q)
    np.testing.assert_allclose(q[:, 6], slide(np.linspace(*span, 9)), atol=1e-9)
    np.testing.assert_allclose(q[:, 7], 0.25, rtol=1e-6)


def test_a_slide_of_any_size():
    """Three precision points, twice as large a way: twice as large a linkage."""
    task = {"mechanism": "slider-crank", "input_span": (0.5, 2.0), "precision_points": 3}
    one, two = (synthesis.function(np.square, (0, 1), output_span=(2 * k, 4 * k), **task).best for k in (1, 2))
    for name in ("crank", "coupler", "offset"):
        assert two.design[name] == pytest.approx(2 * one.design[name], rel=1e-12)
    assert two.checks["largest_error"] == pytest.approx(2 * one.checks["largest_error"], rel=1e-9)


def test_bounds_are_kept():
    best = synthesis.function(**SINE, lower={"crank": 0.5}, upper=2.0).best
    assert 0.5 <= best.design["crank"] <= 2
    assert max(best.design[name] for name in ("coupler", "rocker")) <= 2


def test_the_range_of_f_that_turns_back_is_that_of_its_values():
    """y = x² on (−1, 1): the ends of the output's span are 0 and 1."""
    best = synthesis.function(np.square, (-1, 1), input_span=1.5, output_span=0.5).best
    np.testing.assert_allclose(np.ptp(best.wanted), 0.5, rtol=1e-12)
    assert best.wanted[0] == pytest.approx(best.wanted[-1])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"mechanism": "six-bar"}, "mechanism"),
        ({"x_range": (1.0, 1.0)}, "x_range"),
        ({"x_range": (1.0,)}, "x_range"),
        ({"input_span": 0.0}, "input_span"),
        ({"output_span": (1.0, np.nan)}, "output_span"),
        ({"y_range": (2, 2)}, "y_range"),
        ({"f": lambda x: 3.0}, "y_range"),
        ({"f": lambda x: x if x < 1.5 else np.nan}, "f is not finite at x = 1.5"),
        ({"precision_points": 2}, "precision_points"),
        ({"precision_points": 4}, "precision_points must be 3 points.*got 4"),
        ({"precision_points": [0.5, 1.2, 1.4]}, "precision_points"),
        ({"precision_points": [1.2, 1.2, 1.4]}, "precision_points"),
        ({"transmission_angle": 90}, "transmission_angle"),
        ({"samples": 4}, "samples"),
        ({"starts": 0}, "starts"),
        ({"keep": 1.5}, "keep"),
        ({"lower": {"ground": 1}}, "lower bounds 'ground'"),
        ({"lower": 3.0, "upper": 2.0}, "lower bound of 'crank'"),
        ({"upper": {"rocker": np.nan}}, "upper"),
    ],
)
def test_what_is_wrong_is_named(change, named):
    with pytest.raises(ValueError, match=named):
        synthesis.function(**{**LOG, **change})


def test_precision_points_that_nothing_passes():
    with pytest.raises(ValueError, match=r"no four-bar .* precision_points"):
        synthesis.function(**{**LOG, "output_span": np.pi / 2}, precision_points=4)
