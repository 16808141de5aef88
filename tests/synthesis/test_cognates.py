"""The theorem of Roberts and Chebyshev: three four-bars, one curve."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import synthesis

LENGTHS = ("ground", "crank", "coupler", "rocker")
TURN = np.linspace(0, 2 * np.pi, 181)


def four_bar(*lengths, point=(1.6, 1.1), angle=0.3, pivot=(0.5, -0.2)):
    return {
        **dict(zip(LENGTHS, lengths, strict=True)),
        "point": np.array(point),
        "angle": angle,
        "pivot": np.array(pivot),
    }


CRANK_ROCKER = four_bar(3.0, 1.0, 2.7, 2.4)
DRAG_LINK = four_bar(1.0, 2.0, 2.2, 1.9, point=(0.4, -0.9), angle=-1.0)
FAR = four_bar(2.0, 0.7, 1.6, 1.5, point=(-2.0, 0.3), angle=2.5)
ALL = {"crank-rocker": CRANK_ROCKER, "drag link": DRAG_LINK, "point behind the pin": FAR}


def curve(b, angle, branch):
    """The coupler point by the law of cosines in complex numbers."""
    pin = b["crank"] * np.exp(1j * np.asarray(angle))
    line = b["ground"] - pin
    cosine = (b["coupler"] ** 2 + np.abs(line) ** 2 - b["rocker"] ** 2) / (2 * b["coupler"] * np.abs(line))
    assert np.abs(cosine).max() < 1 + 1e-12
    along = line / np.abs(line) * np.exp(1j * branch * np.arccos(np.clip(cosine, -1, 1)))
    return complex(*b["pivot"]) + np.exp(1j * b["angle"]) * (pin + along * complex(*b["point"]))


@pytest.mark.parametrize("branch", [1, -1])
@pytest.mark.parametrize("name", ALL)
def test_the_curves_coincide_point_by_point(name, branch):
    design = ALL[name]
    for cognate in synthesis.cognates(design):
        gap = np.abs(curve(cognate.design, *cognate.at(TURN, branch)) - curve(design, TURN, branch))
        assert gap.max() < 1e-12


@pytest.mark.parametrize("name", ALL)
def test_three_similar_triangles(name):
    """The pivots form a triangle similar to the couplers', and the links are sides of parallelograms."""
    design = ALL[name]
    first, second = (x.design for x in synthesis.cognates(design))
    pivots = lambda b: complex(*b["pivot"]) + np.array([0, b["ground"] * np.exp(1j * b["angle"])])
    o, c = pivots(design)
    ratio = complex(*design["point"]) / design["coupler"]
    np.testing.assert_allclose(pivots(first), [o, o + ratio * (c - o)], atol=1e-14)
    np.testing.assert_allclose(pivots(second), [o + ratio * (c - o), c], atol=1e-14)
    # From pin to point: the same length as the link of the neighbour that it is parallel to.
    assert first["crank"] == pytest.approx(np.hypot(*design["point"]), rel=1e-14)
    assert np.hypot(*first["point"]) == pytest.approx(design["crank"], rel=1e-14)
    assert second["rocker"] == pytest.approx(np.hypot(*(design["point"] - [design["coupler"], 0])), rel=1e-14)
    assert np.hypot(*(second["point"] - [second["coupler"], 0])) == pytest.approx(design["rocker"], rel=1e-14)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("turn", [1.0, -1.0])
@pytest.mark.parametrize("which", [0, 1])
def test_the_mechanisms_trace_the_curve_in_step(which, turn):
    cognate, times = synthesis.cognates(CRANK_ROCKER)[which], np.linspace(0, 1, 73)
    run = mbs.kinematics(cognate.mechanism(0.7, turn), times, cognate.guess(0.7, 1), throw=True)
    expected = curve(CRANK_ROCKER, 0.7 + 2 * np.pi * turn * times, 1)
    found = np.asarray(run.point("coupler", cognate.design["point"])) @ [1, 1j]
    assert np.abs(found - expected).max() < 1e-12


def test_who_turns_all_round():
    """Grashof's crank of the first cognate is its coupler, that of the second one its crank."""
    first, second = synthesis.cognates(CRANK_ROCKER)
    assert min(LENGTHS, key=first.design.get) == first.follower == "coupler"
    assert min(LENGTHS, key=second.design.get) == second.follower == "crank"
    swing, _ = first.at(TURN, 1)
    assert np.ptp(np.unwrap(swing)) < 2 * np.pi


@pytest.mark.parametrize("name", ALL)
def test_a_cognate_of_a_cognate_is_the_first_four_bar(name):
    """D C O is the third pair of pivots seen from the second: 1 − λ' = 1 / (1 − λ)."""
    again = synthesis.cognates(synthesis.cognates(ALL[name])[1].design)[1].design
    for entry, value in ALL[name].items():
        np.testing.assert_allclose(again[entry], value, rtol=1e-12, atol=1e-12)


def test_gradients_of_a_cognate():
    def ground(coupler):
        return synthesis.cognates({**CRANK_ROCKER, "coupler": coupler})[0].design["ground"]

    expected = -3.0 * np.hypot(1.6, 1.1) / 2.7**2
    assert float(jax.grad(ground)(jnp.array(2.7))) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("point", [(0.0, 0.0), (2.7, 0.0)])
def test_a_point_at_a_pin_has_no_cognates(point):
    with pytest.raises(ValueError, match="at a pin"):
        synthesis.cognates({**CRANK_ROCKER, "point": point})


def test_a_missing_entry_is_named():
    with pytest.raises(ValueError, match="'rocker' is missing"):
        synthesis.cognates({name: value for name, value in CRANK_ROCKER.items() if name != "rocker"})


def test_turned_by_more_than_once():
    """A crank angle beyond a whole turn: the cognate's mechanism is where its guess is, whichever link it drives."""
    design = {"ground": 4.0, "crank": 1.0, "coupler": 3.0, "rocker": 3.5, "point": np.array([1.5, 1.0]), "angle": 0.3}
    design["pivot"] = np.array([0.5, -1.0])
    for cognate in synthesis.cognates(design):
        mech, guess = cognate.mechanism(8.1), cognate.guess(8.1, 1)
        np.testing.assert_allclose(mbs.constraints(mech, mech.coordinates(guess), 0.0), 0, atol=1e-12)
