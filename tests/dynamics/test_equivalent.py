"""Reduced inertia and force: textbook formulas, and Lagrange's equation against inverse dynamics."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from designed_four_bar import GUESS, PLAIN, TIMES, WEIGHT, G, four_bar, near
from jaxmbs import planar, spatial

Polynomial = mbs.motion.Polynomial
# Length of the engine's crank (m).
CRANK = 0.08
# Length of its rod (m).
ROD = 0.27


def engine(motion, rod=ROD):
    """A slider-crank with masses, weight, a constant load and a spring at the slider."""
    return mbs.Mechanism(
        {
            "crank": planar.Body(2.0, 0.004, (0.03, 0)),
            "rod": planar.Body(0.9, 0.006, (0.1, 0)),
            "piston": planar.Body(0.6, 1.0),
        },
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "rod", (CRANK, 0), (0, 0)),
            "B": planar.Revolute("rod", "piston", (rod, 0), (0, 0)),
            "guide": planar.Translational("ground", "piston", (0, 0), (0, 0)),
        },
        {"motor": planar.RevoluteDriver("ground", "crank", motion)},
        {
            "gravity": mbs.Gravity((0, -G)),
            "load": mbs.PointForce("piston", (0, 0), (-25.0, 0)),
            "spring": mbs.Spring("ground", "piston", (0.5, 0), (0, 0), 300.0, 0.1),
        },
    )


ENGINE_START = {"rod": (CRANK, 0, 0), "piston": (CRANK + ROD, 0, 0)}


def by_formula(angle, rod=ROD):
    """J, dJ/dφ and T of the engine from the places of its masses as functions of the crank's angle."""

    def places(p):
        """The centre and angle of the rod, and the stroke of the piston."""
        lean = -jnp.arcsin(CRANK * jnp.sin(p) / rod)
        x, y = CRANK * jnp.cos(p), CRANK * jnp.sin(p)
        return jnp.stack([x + 0.1 * jnp.cos(lean), y + 0.1 * jnp.sin(lean), lean, x + rod * jnp.cos(lean)])

    def inertia(p):
        x, y, turn, stroke = jax.jacfwd(places)(p)
        return 0.004 + 2.0 * 0.03**2 + 0.9 * (x**2 + y**2) + 0.006 * turn**2 + 0.6 * stroke**2

    def potential(p):
        _, y, _, stroke = places(p)
        return G * (2.0 * 0.03 * jnp.sin(p) + 0.9 * y) + 25 * stroke + 150 * (0.4 - stroke) ** 2

    return inertia(angle), jax.grad(inertia)(angle), -jax.grad(potential)(angle)


@pytest.fixture(scope="module")
def turn():
    mech = engine(mbs.motion.Ramp(1.0))
    return mech, mbs.kinematics(mech, np.linspace(0, 2 * np.pi, 9), ENGINE_START, throw=True)


def test_slider_crank_by_the_textbook(turn):
    mech, motion = turn
    found = mbs.equivalent(mech, motion)
    inertia, rate, force = jax.vmap(by_formula)(motion.t)
    near(found.inertia, inertia, 1e-13)
    near(found.inertia_rate, rate, 1e-12)
    near(found.force, force, 1e-12)
    np.testing.assert_allclose(found.coordinate, motion.t, rtol=1e-14)
    near(found.ratios, motion.v, 1e-13)


def test_a_mechanism_that_stands_still(turn):
    _, motion = turn
    held = engine(mbs.motion.Ramp(0.0, motion.t[3]))
    found = mbs.equivalent(held, mbs.kinematics(held, motion.t, motion.q[3], throw=True))
    for values, expected in zip((found.inertia, found.inertia_rate, found.force), by_formula(motion.t[3]), strict=True):
        near(values, [expected] * 9, 1e-12)


def test_batches_and_gradients(turn):
    _, motion = turn

    def all_three(rod):
        mech = engine(mbs.motion.Ramp(1.0), rod)
        found = mbs.equivalent(mech, mbs.kinematics(mech, motion.t, ENGINE_START))
        return jnp.stack([found.inertia, found.inertia_rate, found.force])

    formula = lambda rod: jnp.stack(jax.vmap(lambda p: jnp.stack(by_formula(p, rod)))(motion.t).T)
    rods = jnp.array([0.25, 0.3])
    np.testing.assert_allclose(jax.vmap(all_three)(rods), jax.vmap(formula)(rods), rtol=1e-10, atol=1e-12)
    weights = jnp.cos(jnp.arange(3 * motion.t.size)).reshape(3, -1)
    slope, expected = (jax.grad(lambda rod, f=f: jnp.sum(weights * f(rod)))(ROD) for f in (all_three, formula))
    np.testing.assert_allclose(slope, expected, rtol=1e-10)


def excavator(motion):
    """A boom that a cylinder raises: the driver's rows are squares of its length, with a rotor at the pin."""
    return mbs.Mechanism(
        {"boom": planar.Body(40.0, 12.0, (0.8, 0.1)), "bucket": planar.Body(9.0, 0.4, (0.1, -0.2))},
        {
            "foot": planar.Revolute("ground", "boom", (0, 0), (0, 0)),
            "tip": planar.Revolute("boom", "bucket", (1.8, 0), (0, 0)),
            "level": planar.AbsoluteAngle("bucket", 0.3),
        },
        {"cylinder": planar.DistanceDriver("ground", "boom", (0.3, -0.5), (0.7, -0.1), motion)},
        {
            **WEIGHT,
            "drive": mbs.JointInertia("foot", 5.0),
            "rub": mbs.JointFriction("tip", 0.0, velocity=1.0, radius=0.1),
        },
    )


def skew(motion):
    """A crank and rocker on skew axes."""
    return mbs.Mechanism(
        {
            "crank": spatial.Body(1.0, (0.01, 0.02, 0.02), (0.1, 0.02, 0.01)),
            "rod": spatial.Body(0.7, (0.01, 0.05, 0.05), (0.5, 0, 0)),
            "rocker": spatial.Body(1.5, (0.03, 0.02, 0.03), (0.2, -0.1, 0.03)),
        },
        {
            "O": spatial.Revolute("ground", "crank", (0, 0, 0), (0, 0, 0), (0, 0, 1)),
            "A": spatial.Universal("crank", "rod", (0.2, 0, 0), (0, 0, 0), (0, 0, 1), (0, 1, 0)),
            "B": spatial.Spherical("rod", "rocker", (1.0, 0, 0), (0.6, 0, 0)),
            "C": spatial.Revolute("ground", "rocker", (0.9, 0.1, 0.3), (0, 0, 0), (0, 1, 0)),
        },
        {"motor": spatial.RevoluteDriver("ground", "crank", axis_i=(0, 0, 1), motion=motion)},
        {"gravity": mbs.Gravity((0, 0, -G))},
    )


CASES = {
    "four-bar": (
        lambda motion: four_bar(PLAIN, WEIGHT, {"motor": planar.RevoluteDriver("ground", "crank", motion)}),
        GUESS,
        "motor",
        (0.0, 3.0, 2.5),
    ),
    "cylinder": (excavator, {"boom": (0, 0, 0.4), "bucket": (1.7, 0.6, 0.3)}, "cylinder", (0.75, 0.2, 0.1)),
    "in space": (
        skew,
        {"rod": (0.2, 0, 0, 1, 0, 0, 0), "rocker": (0.9, 0.1, 0.3, 0.8, 0, -0.6, 0)},
        "motor",
        (0.0, 2.0, -3.0),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_lagrange_gives_the_effort_of_inverse_dynamics(case):
    """J φ̈ + ½ J′ φ̇² − T is the driver's effort, and J′ the slope of J."""
    build, guess, driver, (start, rate, curve) = CASES[case]
    mech = build(Polynomial((start, rate, curve)))
    motion = mbs.kinematics(mech, TIMES[::6], guess, throw=True)
    found = mbs.equivalent(mech, motion)
    speed = rate + 2 * curve * motion.t
    near(
        found.inertia * 2 * curve + found.inertia_rate * speed**2 / 2 - found.force,
        mbs.reactions(mech, motion)[driver].effort,
        1e-10,
    )
    near(found.ratios * speed[:, None], motion.v, 1e-11)


def test_one_of_two_drivers():
    """Each arm of a double pendulum by itself, with the other one held."""
    mech = mbs.Mechanism(
        {"upper": planar.Body(2.0, 0.1, (0.5, 0)), "lower": planar.Body(1.0, 0.2, (0.4, 0))},
        {
            "pin": planar.Revolute("ground", "upper", (0, 0), (0, 0)),
            "elbow": planar.Revolute("upper", "lower", (1, 0), (0, 0)),
        },
        {
            "first": planar.RevoluteDriver("ground", "upper", mbs.motion.Ramp(1.0)),
            "second": planar.RevoluteDriver("upper", "lower", mbs.motion.Ramp(2.0, 0.3)),
        },
    )
    motion = mbs.kinematics(mech, [0.0, 0.4], {"lower": (1, 0, 0.3)}, throw=True)
    bend = np.array([0.3, 1.1])
    first, second = (mbs.equivalent(mech, motion, driver) for driver in ("first", "second"))
    near(first.inertia, 0.6 + 0.2 + 1 + 0.16 + 0.8 * np.cos(bend), 1e-13)
    np.testing.assert_allclose(first.inertia_rate, 0, atol=1e-13)
    near(second.inertia, [0.36, 0.36], 1e-13)
    with pytest.raises(ValueError, match="name the driver: one of first, second"):
        mbs.equivalent(mech, motion)
    with pytest.raises(ValueError, match="third"):
        mbs.equivalent(mech, motion, "third")
    with pytest.raises(ValueError, match="equivalent needs a motion that drivers determine; drivers for 1 degree"):
        mbs.equivalent(mbs.Mechanism(mech.bodies, mech.constraints, {"first": mech.drivers["first"]}), motion)
