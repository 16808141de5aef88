"""Parameters from records: against linear least squares, statistics of noise, and runs that forget how they began."""

import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar

SLOW = pytest.mark.slow
FROM = {"bob": (1, 0, np.pi / 2)}
TIMES = np.linspace(0, 4, 101)
TRUE = {"mass": 1.0, "inertia": 0.5, "damping": 0.1}
FIXED = {"lower": {"mass": 1.0, "inertia": 0.0, "damping": 0.0}, "upper": {"mass": 1.0}}
GUESS = {"mass": 1.0, "inertia": 0.9, "damping": 0.2}


def pendulum(p):
    """About a pin 1 above its centre, with a damper."""
    return mbs.Mechanism(
        bodies={"bob": planar.Body(mass=p["mass"], inertia=p["inertia"])},
        constraints={"pin": planar.Revolute("ground", "bob", (0, 0), (0, 1))},
        forces={"gravity": mbs.Gravity((0, -9.81)), "damper": mbs.TorsionDamper("ground", "bob", p["damping"])},
    )


@pytest.fixture(scope="module")
def angles():
    """Of the true pendulum."""
    jax.config.update("jax_enable_x64", True)
    return np.asarray(mbs.simulate(pendulum(TRUE), TIMES, FROM, step=0.02).position("bob.phi"))


def noisy(angles, seed=0, deviation=0.01):
    return mbs.Record(
        TIMES, {"bob.phi": angles + deviation * np.random.default_rng(seed).normal(size=len(angles))}, deviation, FROM
    )


@pytest.mark.variant
def test_torques_of_a_driven_mechanism_are_linear_least_squares():
    """Masses enter torques linearly: estimates and covariance are those of the formula, (AᵀA)⁻¹ σ²."""

    def crank(p):
        return mbs.Mechanism(
            bodies={"arm": planar.Body(mass=p[0], inertia=p[1], com=(0.3, 0.0))},
            constraints={"pin": planar.Revolute("ground", "arm", (0, 0), (0, 0))},
            drivers={"motor": planar.RevoluteDriver("ground", "arm", mbs.motion.Polynomial([0.2, 1.0, 2.0]))},
            forces={"gravity": mbs.Gravity((0, -9.81))},
        )

    times, deviation = np.linspace(0, 1.5, 31), 0.05
    effort = lambda p: np.ravel(
        mbs.reactions(crank(p), mbs.kinematics(crank(p), times, {"arm": (0, 0, 0.2)}))["motor"].effort
    )
    columns = np.stack([effort((2.0, 1.0)) - effort((1.0, 1.0)), effort((1.0, 2.0)) - effort((1.0, 1.0))], axis=1)
    measured = effort((2.0, 0.4)) + deviation * np.random.default_rng(0).normal(size=31)
    record = mbs.Record(times, {"motor.effort": measured}, deviation, start={"arm": (0, 0, 0.2)})
    found = mbs.identify(crank, np.array([1.0, 1.0]), record, starts=1)
    expected, *_ = np.linalg.lstsq(columns, measured, rcond=None)
    np.testing.assert_allclose(found.parameters, expected, rtol=1e-8)
    np.testing.assert_allclose(found.covariance, deviation**2 * np.linalg.inv(columns.T @ columns), rtol=1e-8)
    assert found.names == ("0", "1")


def test_what_no_signal_tells_apart_is_named(angles):
    """Mass, inertia and damping times one factor give the same motion; a prior of one of them tells all."""
    found = mbs.identify(pendulum, GUESS, noisy(angles), lower=0.0, starts=2, step=0.02)
    (direction,) = found.undetermined
    assert direction == pytest.approx({"mass": 1, "inertia": 1, "damping": 1}, abs=1e-6)
    assert all(np.isinf(x) for x in found.deviations.values())
    assert "mass by +100 %" in found.explain()
    for name in ("inertia", "damping"):
        ratio = found.estimates[name] / found.estimates["mass"]
        assert ratio == pytest.approx(TRUE[name], rel=0.05)
    known = mbs.identify(pendulum, GUESS, noisy(angles), lower=0.0, starts=2, step=0.02, priors={"mass": (1.0, 0.01)})
    assert known.undetermined == []
    assert known.deviations["mass"] == pytest.approx(0.01, rel=1e-3)


@pytest.mark.variant
def test_intervals_cover_the_truth(angles):
    """Of 200 sets of noise, 95 % intervals miss some ten: between 90 and 98 % of them contain the truth."""
    inside = dict.fromkeys(("inertia", "damping"), 0)
    sizes = []
    for seed in range(200):
        found = mbs.identify(pendulum, GUESS, noisy(angles, seed), **FIXED, starts=1, step=0.02)
        for name in inside:
            low, high = found.intervals[name]
            inside[name] += low < TRUE[name] < high
        sizes.append(found.tests.size)
    assert all(180 <= count <= 196 for count in inside.values()), inside
    # Probabilities are even if the noise is what it is said to be.
    assert abs(np.mean(sizes) - 0.5) < 4 / np.sqrt(12 * 200)


def test_noise_is_estimated_signal_by_signal(angles):
    """An angle and a rate, with noise of different sizes that nobody has said."""
    rates = np.asarray(mbs.simulate(pendulum(TRUE), TIMES, FROM, step=0.02).velocity("bob.phi"))
    rng = np.random.default_rng(1)
    signals = {"bob.phi": angles + 0.01 * rng.normal(size=101), "velocity.bob.phi": rates + 0.3 * rng.normal(size=101)}
    found = mbs.identify(pendulum, GUESS, mbs.Record(TIMES, signals, start=FROM), **FIXED, starts=1, step=0.02)
    assert found.noise["bob.phi"] == pytest.approx(0.01, rel=0.3)
    assert found.noise["velocity.bob.phi"] == pytest.approx(0.3, rel=0.3)
    assert found.tests.size is None
    for name in ("inertia", "damping"):
        assert abs(found.estimates[name] - TRUE[name]) < 4 * found.deviations[name]
    weighted = mbs.Record(TIMES, signals, found.noise, start=FROM)
    again = mbs.identify(pendulum, GUESS, weighted, **FIXED, starts=1, step=0.02)
    assert again.estimates == pytest.approx(found.estimates, rel=1e-6)


def test_a_model_that_lacks_something_is_told(angles):
    """Without damping, what is left over is too much and follows the time."""
    less = lambda p: pendulum(p | {"mass": 1.0, "damping": 0.0})
    found = mbs.identify(less, {"inertia": 0.9}, noisy(angles), lower=0.0, starts=1, step=0.02)
    assert found.tests.size < 1e-9
    assert found.tests.whiteness["bob.phi"] < 1e-9
    assert sum("lacks something" in line for line in found.tests.lines()) == 2


def test_the_beginning_may_be_a_parameter(angles):
    """It was let go from an angle that nobody measured, with the others given by the loop's geometry."""
    begin = lambda p: {"bob": (jnp.sin(p["angle"]), -jnp.cos(p["angle"]), p["angle"])}
    build = lambda p: pendulum(TRUE | {"inertia": p["inertia"]})
    record = mbs.Record(TIMES, {"bob.phi": angles}, 1e-3, start=begin)
    found = mbs.identify(build, {"inertia": 0.7, "angle": 1.3}, record, lower=0.0, starts=1, step=0.02)
    assert found.estimates == pytest.approx({"angle": np.pi / 2, "inertia": 0.5}, abs=1e-6)


@pytest.mark.variant
def test_several_records_of_signals_of_ones_own(angles):
    """Two runs of different lengths; the measure is the height of the bob."""
    measure = lambda p, mech, motion: {"height": motion.point("bob", (0, 0))[:, 1]}
    low = {"bob": (np.sin(0.3), -np.cos(0.3), 0.3)}
    more = mbs.simulate(pendulum(TRUE), TIMES[:41], low, step=0.02).position("bob.y")
    records = [
        mbs.Record(TIMES, {"height": -np.cos(angles)}, 1e-3, FROM),
        mbs.Record(TIMES[:41], {"height": more}, 1e-3, low),
    ]
    found = mbs.identify(pendulum, GUESS, records, measure, **FIXED, starts=1, step=0.02)
    assert found.estimates == pytest.approx(TRUE, rel=1e-6)
    assert [len(x["height"]) for x in found.residuals] == [101, 41]


@pytest.mark.variant
def test_segments_give_what_one_piece_gives(angles):
    """The last segment is shorter. Estimates and deviations are the same, as the gaps are closed at the end."""
    record = noisy(angles)
    whole = mbs.identify(pendulum, GUESS, record, **FIXED, starts=1, step=0.02)
    parts = mbs.identify(pendulum, GUESS, record, **FIXED, starts=1, step=0.02, segments=7)
    assert parts.estimates == pytest.approx(whole.estimates, rel=1e-6)
    assert parts.deviations == pytest.approx(whole.deviations, rel=1e-4)
    assert parts.gap < 1e-6
    np.testing.assert_allclose(parts.signals[0]["bob.phi"], whole.signals[0]["bob.phi"], atol=1e-6)


@SLOW
def test_a_chaotic_run_is_identified_in_segments():
    """A double pendulum, 5 s, from a guess that is wrong by half and more: in one piece the search ends far away."""

    def double(p):
        return mbs.Mechanism(
            bodies={
                "a": planar.Body(mass=1.0, inertia=p["inertia"]),
                "b": planar.Body(mass=p["mass"], inertia=0.02),
            },
            constraints={
                "pin": planar.Revolute("ground", "a", (0, 0), (-0.25, 0)),
                "elbow": planar.Revolute("a", "b", (0.25, 0), (-0.2, 0)),
            },
            forces={"gravity": mbs.Gravity((0, -9.81)), "damper": mbs.TorsionDamper("ground", "a", p["damping"])},
        )

    true = {"inertia": 0.03, "mass": 0.7, "damping": 0.01}
    times, start = np.linspace(0, 5, 251), {"a": (0, 0.25, np.pi / 2), "b": (0.2, 0.5, 0)}
    run = mbs.simulate(double(true), times, start, step=0.005)
    rng = np.random.default_rng(0)
    signals = {name: np.asarray(run.position(name)) + 0.01 * rng.normal(size=251) for name in ("a.phi", "b.phi")}
    record = mbs.Record(times, signals, 0.01, start)
    options = {"lower": 0.0, "starts": 1, "step": 0.005}
    guess = {"inertia": 0.06, "mass": 1.2, "damping": 0.03}
    found = mbs.identify(double, guess, record, segments=10, **options)
    for name, value in true.items():
        assert abs(found.estimates[name] - value) < 4 * found.deviations[name]
        assert found.deviations[name] < 0.005 * value
    assert found.tests.size > 1e-3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it may not even come to rest
        assert mbs.identify(double, guess, record, **options).cost > 1000 * found.cost


@SLOW
def test_segments_follow_lengths_that_change():
    """The states at which segments begin belong to the lengths of the guess, which are wrong by a tenth."""

    def double(p):
        return mbs.Mechanism(
            bodies={
                "a": planar.Body(mass=1.0, inertia=0.03),
                "b": planar.Body(mass=p["mass"], inertia=0.02),
            },
            constraints={
                "pin": planar.Revolute("ground", "a", (0, 0), (-p["length"] / 2, 0)),
                "elbow": planar.Revolute("a", "b", (p["length"] / 2, 0), (-0.2, 0)),
            },
            forces={"gravity": mbs.Gravity((0, -9.81))},
        )

    begin = lambda p: {"a": (p["length"] / 2, 0, 0), "b": (p["length"] + 0.2, 0, 0)}
    true, times = {"mass": 1.5, "length": 0.5}, np.linspace(0, 4, 81)
    run = mbs.simulate(double(true), times, begin(true), step=0.005)
    rng = np.random.default_rng(0)
    signals = {name: np.asarray(run.position(name)) + 0.01 * rng.normal(size=81) for name in ("a.phi", "b.phi")}
    record = mbs.Record(times, signals, 0.01, begin)
    guess = {"mass": 1.2, "length": 0.55}
    found = mbs.identify(double, guess, record, lower=0.1, starts=1, step=0.005, segments=8)
    assert found.converged
    for name, value in true.items():
        assert abs(found.estimates[name] - value) < 4 * found.deviations[name]
    assert found.tests.size > 1e-3


def cart(p):
    """2 kg on a rail, with a spring and a damper."""
    return mbs.Mechanism(
        bodies={"cart": planar.Body(mass=2.0, inertia=1.0)},
        constraints={"rail": planar.Translational("ground", "cart", (0, 0), (0, 0), (1, 0))},
        forces={"spring": mbs.JointSpring("rail", p["k"], damping=p["c"])},
    )


def cart_record(k, c, deviation=1e-3, until=3.0):
    times, start = np.linspace(0, until, 61), {"cart": (0.1, 0, 0)}
    x = mbs.simulate(cart({"k": k, "c": c}), times, start, step=0.01).position("cart.x")
    noise = deviation * np.random.default_rng(0).normal(size=61)
    return mbs.Record(times, {"cart.x": np.asarray(x) + noise}, deviation, start)


@pytest.mark.variant
def test_active_bounds_are_those_of_the_constrained_minimum():
    """The damping is kept above its true value: the rest is as if it were fixed there. In a corner both bounds hold."""
    record, options = cart_record(10.0, 0.1), {"starts": 1, "step": 0.01}
    bounded = mbs.identify(cart, {"k": 9.0, "c": 0.5}, record, lower={"c": 0.2, "k": 0}, **options)
    fixed = mbs.identify(cart, {"k": 9.0, "c": 0.2}, record, lower={"c": 0.2, "k": 0}, upper={"c": 0.2}, **options)
    assert bounded.at_bounds == ["c"]
    assert bounded.estimates == pytest.approx(fixed.estimates, rel=1e-8)
    corner = mbs.identify(cart, {"k": 7.0, "c": 0.5}, record, lower={"k": 1, "c": 0}, upper={"k": 8.0}, **options)
    assert corner.at_bounds == ["c", "k"]
    assert corner.estimates == {"c": 0.0, "k": 8.0}


@pytest.mark.variant
def test_a_far_guess_arrives():
    """Over few swings, from a hundredth of the stiffness."""
    record = cart_record(100.0, 0.1, until=0.3)
    found = mbs.identify(cart, {"k": 1.0, "c": 0.1}, record, lower=0.0, starts=1, step=0.005)
    assert found.converged
    assert abs(found.estimates["k"] - 100) < 4 * found.deviations["k"]


def test_what_matters_little_does_not_stop_the_rest():
    """A parameter without any influence, and one with next to none, beside two that are found."""
    build = lambda p: cart({"k": p["k"] + 1e-9 * p["weak"], "c": p["c"]})
    guess = {"k": 5.0, "c": 0.5, "weak": 1.0, "none": 3.0}
    found = mbs.identify(build, guess, cart_record(10.0, 0.1), lower={"c": 0}, starts=1, step=0.01)
    assert {name for direction in found.undetermined for name in direction} >= {"none"}
    assert abs(found.estimates["k"] - 10) < 4 * found.deviations["k"] < 0.2
    assert found.estimates["none"] == 3.0


def test_a_parameter_that_is_zero_is_known_to_be():
    found = mbs.identify(cart, {"k": 9.0, "c": 0.3}, cart_record(10.0, 0.0), starts=1, step=0.01)
    assert found.undetermined == []
    assert abs(found.estimates["c"]) < 4 * found.deviations["c"] < 0.1


@pytest.mark.variant
def test_forces_that_end_with_the_record():
    """The last segment is shorter than the others, and what lies behind its end is not asked for."""
    fading = lambda p: mbs.Mechanism(
        bodies={"cart": planar.Body(mass=2.0, inertia=1.0)},
        constraints={"rail": planar.Translational("ground", "cart", (0, 0), (0, 0), (1, 0))},
        forces={"push": mbs.PointForce("cart", (0, 0), (lambda s: p["push"] * jnp.sqrt(1.55 - s.t), 0.0))},
    )
    times = np.linspace(0, 1.5, 31)
    run = mbs.simulate(fading({"push": 3.0}), times, {"cart": (0, 0, 0)}, step=0.01)
    record = mbs.Record(times, {"cart.x": run.position("cart.x")}, 1e-3, {"cart": (0, 0, 0)})
    found = mbs.identify(fading, {"push": 2.0}, record, starts=1, step=0.01, segments=4)
    assert found.estimates["push"] == pytest.approx(3.0, rel=1e-6)


def test_parameters_in_a_tuple_have_priors():
    build = lambda p: cart({"k": p[0], "c": p[1]})
    record = cart_record(10.0, 0.1)
    found = mbs.identify(build, (12.0, 0.2), record, starts=1, step=0.01, priors=((10.0, 1e-4), None))
    assert found.estimates["0"] == pytest.approx(10.0, abs=1e-3)
    assert found.names == ("0", "1")


WRONG = {
    "signal 'bob.phi' has no finite number at place 1": lambda: mbs.Record([0, 1, 2], {"bob.phi": [0, np.nan, 0]}),
    "numbers that increase": lambda: mbs.Record([0, 2, 1], {"bob.phi": [0, 0, 0]}),
    "signals must be a mapping": lambda: mbs.Record([0, 1], [0.0, 0.1]),
    "signal 'bob.phi' must be numbers": lambda: mbs.Record([0, 1], {"bob.phi": ["a", "b"]}),
    "records must be of the class mbs.Record, got dict": lambda: mbs.identify(pendulum, GUESS, [{}]),
    "priors name 'weight'": lambda: _identify({"bob.phi": [0, 0, 0]}, priors={"weight": (1.0, 1.0)}),
    "steps must be a positive integer": lambda: _identify({"bob.phi": [0, 0, 0]}, steps=-1),
    "signal 'bob.phi' must have 3 values": lambda: mbs.Record([0, 1, 2], {"bob.phi": [0, 0]}),
    "deviation of 'bob.phi' must be a positive number": lambda: mbs.Record([0, 1], {"bob.phi": [0, 0]}, 0.0),
    "deviations name 'x'": lambda: mbs.Record([0, 1], {"bob.phi": [0, 0]}, {"x": 1.0}),
    "record 0: 'bob.psi' is not a quantity": lambda: _identify({"bob.psi": [0, 0, 0]}),
    "the prior of 'mass'": lambda: _identify({"bob.phi": [0, 0, 0]}, priors={"mass": (1.0, -1.0)}),
    "2 measured values and 0 priors are fewer than the 3 parameters": lambda: _identify({"bob.phi": [0, 0]}),
    "confidence must be a probability": lambda: _identify({"bob.phi": [0, 0, 0]}, confidence=95),
    "segments must be a positive integer": lambda: _identify({"bob.phi": [0, 0, 0]}, segments=0),
    "guess['mass'] is not within its bounds": lambda: _identify({"bob.phi": [0, 0, 0]}, upper={"mass": 0.5}),
    "records must not be empty": lambda: mbs.identify(pendulum, GUESS, []),
}


def _identify(signals, **options):
    times = np.arange(len(next(iter(signals.values())))) / 10
    return mbs.identify(pendulum, GUESS, mbs.Record(times, signals, 0.1, FROM), **options)


@pytest.mark.parametrize("message", WRONG)
def test_bad_input_is_named(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        WRONG[message]()
