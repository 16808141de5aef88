"""Guesses, times and drivers that cannot be used: refused by name, or a status."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar
from refusals import BODY, MOTOR, PIN, assert_refused, crank

P = (0.1, 0.2)


BAD_GUESSES = {
    "unknown name": ({"cranck": (0, 0, 0)}, ["unknown name in the guess", "'cranck'", "did you mean 'crank'?"]),
    "unknown coordinate": ({"crank.psi": 0.1}, ["unknown name in the guess", "'crank.psi'", "'crank.phi'"]),
    "too few numbers": ({"crank": (0, 0)}, ["guess for 'crank'", "(3,)", "(2,)"]),
    "vector for a coordinate": ({"crank.phi": (0, 0)}, ["guess for 'crank.phi'", "(2,)"]),
    "vector of another length": (np.zeros(4), ["(3,)", "(4,)"]),
    "matrix": (np.zeros((1, 3)), ["(3,)", "(1, 3)"]),
}


@pytest.mark.parametrize("case", BAD_GUESSES)
def test_bad_guesses(case):
    guess, parts = BAD_GUESSES[case]
    mech = crank(motor=MOTOR)
    for use in (
        lambda: mech.coordinates(guess),
        lambda: mbs.assemble(mech, guess),
        lambda: mbs.kinematics(mech, [0.0], guess),
        lambda: mbs.constraints(mech, guess),
        lambda: mbs.diagnose(mech, guess),
    ):
        assert_refused(use, parts)


@pytest.mark.parametrize("times", [0.3, [], [[0.0, 0.1]]])
def test_bad_times(times):
    assert_refused(lambda: mbs.kinematics(crank(motor=MOTOR), times), ["times"])


@pytest.fixture(scope="module")
def turning():
    """The motion of a driven crank."""
    return mbs.kinematics(crank(motor=MOTOR), [0.0, 0.1, 0.2])


def test_names_asked_of_a_motion(turning):
    for ask in (turning.position, turning.velocity, turning.acceleration):
        assert_refused(lambda ask=ask: ask("crank.ph"), ["unknown coordinate 'crank.ph'", "did you mean 'crank.phi'?"])
    for ask in (turning.point, turning.point_velocity, turning.point_acceleration):
        assert_refused(lambda ask=ask: ask("crnk"), ["unknown body 'crnk'", "did you mean 'crank'?"])


TIMES = [0.0, 0.1, 0.2]


def test_missing_drivers_are_counted():
    mech = mbs.Mechanism({"crank": BODY, "rod": BODY}, {"pin": PIN, "knee": planar.Revolute("crank", "rod", P, P)})
    assert_refused(lambda: mbs.kinematics(mech, TIMES), ["not determined", "2 driver(s) missing"])
    assert_refused(lambda: mbs.kinematics(crank(), TIMES), ["1 driver(s) missing"])


def test_missing_drivers_are_counted_inside_of_jit():
    assert_refused(lambda: jax.jit(lambda t: mbs.kinematics(crank(), t).q)(jnp.zeros(2)), ["1 driver(s) missing"])


def test_redundant_driver_is_named():
    # Two drivers of the same angle: as many rows as are needed would be there with one of them.
    mech = crank(motor=MOTOR, second=planar.AbsoluteAngleDriver("crank", mbs.motion.Ramp(1.0)))
    assert_refused(lambda: mbs.kinematics(mech, TIMES), ["redundant driver(s): 'second'"])


def test_redundant_driver_that_hides_a_missing_one():
    # The number of rows is right, and still the rod is free.
    mech = mbs.Mechanism(
        {"crank": BODY, "rod": BODY},
        {"pin": PIN, "knee": planar.Revolute("crank", "rod", P, P)},
        {"motor": MOTOR, "second": planar.AbsoluteAngleDriver("crank", mbs.motion.Ramp(1.0))},
    )
    assert_refused(lambda: mbs.kinematics(mech, TIMES), ["1 driver(s) missing", "redundant driver(s): 'second'"])


def test_redundant_constraint_that_hides_a_missing_driver():
    mech = mbs.Mechanism({"crank": BODY}, {"pin": PIN, "again": planar.AbsoluteX("crank", (0, 0), 0.0)}, {})
    assert_refused(
        lambda: mbs.kinematics(mech, TIMES, {"crank.phi": 0.3}),
        ["1 driver(s) missing", "redundant constraint(s): 'again'"],
    )


def contradictory():
    """Two drivers that ask for different angles."""
    return crank(motor=MOTOR, second=planar.AbsoluteAngleDriver("crank", mbs.motion.Ramp(1.0, start=0.5)))


def test_redundant_and_inconsistent_constraints():
    mech = contradictory()
    report = mbs.diagnose(mech, {"crank.phi": 0.0})
    assert report.redundant == ("second",)
    assert not report.consistent
    assert report.free == 0
    assert_refused(lambda: mbs.kinematics(mech, TIMES), ["redundant driver(s): 'second'"])
    assert mbs.assemble(mech).status == mbs.Status.NOT_ASSEMBLED


def test_redundant_and_consistent_constraints():
    report = mbs.diagnose(crank(motor=MOTOR, second=planar.AbsoluteAngleDriver("crank", mbs.motion.Ramp(2.0))), None)
    assert report.redundant == ("second",)
    assert report.consistent


def apart():
    """A crank of length one whose tip should be three away from its own pin."""
    return mbs.Mechanism(
        {"crank": BODY},
        {"pin": PIN, "bar": planar.AbsoluteDistance("crank", (1, 0), (4, 0), 1.0)},
    )


def test_what_cannot_be_assembled_has_a_status():
    mech, guess = apart(), {"crank.phi": 0.3}
    assembly = mbs.assemble(mech, guess)
    assert assembly.status == mbs.Status.NOT_ASSEMBLED
    # The closest it can get: the tip at (1, 0), 3 from the centre.
    assert assembly.residual > 1
    assert np.all(np.isfinite(assembly.q))
    motion = mbs.kinematics(mech, TIMES, guess)
    np.testing.assert_array_equal(motion.status, mbs.Status.NOT_ASSEMBLED)
    assert np.all(np.isfinite(motion.q))


def test_throw_turns_a_bad_status_into_an_error():
    mech, guess = apart(), {"crank.phi": 0.3}
    assert issubclass(mbs.AnalysisError, ValueError)
    with pytest.raises(mbs.AnalysisError, match=r"assembly.*residual.*NOT_ASSEMBLED"):
        mbs.assemble(mech, guess, throw=True)
    with pytest.raises(mbs.AnalysisError, match=r"kinematics.*NOT_ASSEMBLED"):
        mbs.kinematics(mech, TIMES, guess, throw=True)
    with pytest.raises(mbs.AnalysisError, match="NON_FINITE"):
        mbs.assemble(mech, {"crank.phi": np.nan}, throw=True)
    with pytest.raises(mbs.AnalysisError, match="NON_FINITE"):
        mbs.kinematics(crank(motor=MOTOR), [0.0, np.nan, 0.2], throw=True)


def test_throw_lets_a_good_status_pass(turning):
    again = mbs.kinematics(crank(motor=MOTOR), TIMES, throw=True)
    np.testing.assert_array_equal(again.q, turning.q)


def test_throw_inside_of_a_transformation_says_so():
    for use in (
        lambda t: mbs.assemble(crank(motor=MOTOR), None, t, throw=True).q,
        lambda t: mbs.kinematics(crank(motor=MOTOR), t[None], throw=True).q,
    ):
        with pytest.raises(ValueError, match=re.escape("throw=True works outside jit")):
            jax.eval_shape(use, 0.0 + jnp.zeros(()))
