"""Haug's problems of chapter 3 that ask the reader for a model, against closed forms."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from haug_gears import ROLLER, STEM, cosine_cam, roller_contact, valve_gear
from haug_relative import TENTHS, common_pin, pin, with_rates
from jaxmbs import planar

ORIGIN = (0.0, 0.0)
CRANK = 1.0
ROD = 2.0
RATE = 2.0
TURNING = mbs.motion.Ramp(RATE)
SLIDER = "slider"


def assert_follows(motion, expected, *points):
    """Positions, velocities and accelerations of points (body, s), with those of a closed form of time."""
    position, velocity, acceleration = with_rates(expected)
    for of, want in (
        (motion.point, position),
        (motion.point_velocity, velocity),
        (motion.point_acceleration, acceleration),
    ):
        np.testing.assert_allclose(jnp.concatenate([of(*p) for p in points], axis=1), want, atol=1e-10)


def far_end(t):
    """The end of the rod on the x axis, for a crank at the angle RATE t."""
    x = CRANK * jnp.cos(RATE * t) + jnp.sqrt(ROD**2 - CRANK**2 * jnp.sin(RATE * t) ** 2)
    return jnp.stack([x, 0 * t])


def test_problem_3_2_2():
    """The rod of a slider-crank as the only body: an absolute position and an absolute distance."""
    mech = mbs.Mechanism(
        {"rod": planar.Body()},
        {
            "slide": planar.AbsoluteY("rod", ORIGIN, 0.0),
            "crank": planar.AbsoluteDistance("rod", (0, ROD), ORIGIN, CRANK),
        },
        {"pull": planar.AbsoluteXDriver("rod", ORIGIN, mbs.motion.Ramp(-0.5, 2.5))},
    )
    motion = mbs.kinematics(mech, TENTHS, {"rod": (2.5, 0, 1.2)}, throw=True)

    def pin_of_crank(t):
        x = 2.5 - 0.5 * t
        angle = jnp.arccos((CRANK**2 + x**2 - ROD**2) / (2 * CRANK * x))
        return jnp.stack([CRANK * jnp.cos(angle), CRANK * jnp.sin(angle), x, 0 * t])

    assert_follows(motion, pin_of_crank, ("rod", (0, ROD)), ("rod", ORIGIN))


# Crank, rod and slider with their frames at O, at the crank's pin and at the slider's: Problem 3.3.2.
ON_AXIS = {"y": planar.AbsoluteY(SLIDER, ORIGIN, 0.0), "phi": planar.AbsoluteAngle(SLIDER, 0.0)}
THREE_BODIES = {
    "pins by relative coordinates": pin("O", "crank", ORIGIN, ORIGIN)
    | common_pin("A", "crank", "rod", (CRANK, 0), ORIGIN)
    | common_pin("B", "rod", SLIDER, (ROD, 0), ORIGIN)
    | ON_AXIS,
    "revolute joints": {
        "O": planar.Revolute("ground", "crank", ORIGIN, ORIGIN),
        "A": planar.Revolute("crank", "rod", (CRANK, 0), ORIGIN),
        "B": planar.Revolute("rod", SLIDER, (ROD, 0), ORIGIN),
    }
    | ON_AXIS,
    "slider on the rod": pin("O", "crank", ORIGIN, ORIGIN)
    | {
        "A": planar.Revolute("crank", "rod", (CRANK, 0), ORIGIN),
        "axis": planar.AbsoluteY("rod", (ROD, 0), 0.0),
        "phi": planar.AbsoluteAngle(SLIDER, 0.0),
    }
    | common_pin("B", "rod", SLIDER, (ROD, 0), ORIGIN),
}


@pytest.mark.parametrize("model", THREE_BODIES)
def test_problem_3_3_2(model):
    """Three equivalent models of a slider-crank of three bodies."""
    mech = mbs.Mechanism(
        dict.fromkeys(("crank", "rod", SLIDER), planar.Body()),
        THREE_BODIES[model],
        {"motor": planar.AbsoluteAngleDriver("crank", TURNING)},
    )
    motion = mbs.kinematics(mech, TENTHS, {"rod": (1, 0, 0), SLIDER: (3, 0, 0)}, throw=True)
    assert_follows(motion, far_end, (SLIDER, ORIGIN))


def test_problem_3_4_1():
    """The rates of gears on fixed centres are inversely proportional to their radii."""
    mech = mbs.Mechanism(
        {"i": planar.Body(), "j": planar.Body()},
        {
            "P": planar.Revolute("ground", "i", ORIGIN, ORIGIN),
            "Q": planar.Revolute("ground", "j", (0.5, 1.2), ORIGIN),
            "teeth": planar.Gear("i", "j", ORIGIN, ORIGIN, 0.3, 1.0),
        },
        {"motor": planar.RevoluteDriver("ground", "i", mbs.motion.Polynomial((0.1, 1.0, 2.0)))},
    )
    motion = mbs.kinematics(mech, TENTHS, {"i": (0, 0, 0.1), "j": (0.5, 1.2, 0.7)}, throw=True)
    rates = [[motion.velocity(f"{name}.phi"), motion.acceleration(f"{name}.phi")] for name in "ij"]
    np.testing.assert_allclose(0.3 * np.array(rates[0]), -1.0 * np.array(rates[1]), atol=1e-12)


def test_problem_3_4_2():
    """A rail trolley on a gear of 0.3 m diameter that speeds up by 5 rev/s²: R α = 4.71 m/s², at 600 rpm as ever."""
    radius, alpha = 0.15, 5 * 2 * np.pi
    mech = mbs.Mechanism(
        {"trolley": planar.Body(), "wheel": planar.Body()},
        {
            "rail": planar.Translational("ground", "trolley", (0, 1), ORIGIN, (1, 0)),
            "axle": planar.Revolute("trolley", "wheel", (0, -1 + radius), ORIGIN),
            "teeth": planar.RackPinion("ground", "wheel", ORIGIN, ORIGIN, (1, 0), radius),
        },
        {"motor": planar.RevoluteDriver("trolley", "wheel", mbs.motion.Polynomial((0.0, 0.0, -alpha / 2)))},
    )
    times = np.array([0.0, 600 / 60 * 2 * np.pi / alpha])
    motion = mbs.kinematics(mech, times, {"trolley": (0, 1, 0), "wheel": (0, radius, 0)}, throw=True)
    assert motion.velocity("wheel.phi")[1] == pytest.approx(-20 * np.pi)
    np.testing.assert_allclose(motion.acceleration("trolley.x"), 1.5 * np.pi, rtol=1e-10)
    assert motion.velocity("trolley.x")[1] == pytest.approx(3 * np.pi)


def test_problem_3_4_5():
    """Cam and roller of Example 3.4.3 touch at one point: the hollow's radius of curvature, 4/5, is above the roller's."""
    cam = planar.FunctionOutline(cosine_cam)
    radii = 1 / np.array([cam.curvature(jnp.array(alpha)) for alpha in (1e-7, 0.01, 0.1)])
    assert radii[0] == pytest.approx(-4 / 5, abs=1e-6)
    assert np.all(radii < -ROLLER)
    roller_contact(cosine_cam).check()
    tight = planar.CamFollower("cam", "lifter", ORIGIN, (0, -STEM), cam, planar.FunctionOutline(0.81))
    with pytest.raises(ValueError, match="not convex enough"):
        tight.check()


def test_example_3_4_4_on_the_convex_part():
    """The flat face rests on the lobe: it lies as high as the highest point of that, and the contact is on the part."""
    lobe = (np.pi / 3 - 0.1, np.pi / 3 + 0.1)
    flat = lambda outline: planar.CamFlatFollower("cam", "lifter", ORIGIN, (0, -STEM), outline, axis_j=(-1, 0))
    with pytest.raises(ValueError, match="not convex"):
        flat(planar.FunctionOutline(cosine_cam, part=(0.0, 1.0))).check()
    with pytest.raises(ValueError, match="part must be two angles"):
        flat(planar.FunctionOutline(cosine_cam, part=(1.0, 0.0))).check()
    mech = valve_gear(flat(planar.FunctionOutline(cosine_cam, part=lobe)))
    upright = (np.pi / 6 + 0.4) / 2
    times = upright + np.array([-0.05, 0.0, 0.03, 0.35])
    guess = {"cam": (0, 0, np.pi / 6 - 0.2), "lifter": (0, STEM + 1.5, 0), "contact": np.pi / 3}
    motion = mbs.kinematics(mech, times, guess, throw=True)
    alpha = np.linspace(*lobe, 100_001)
    heights = np.array(cosine_cam(alpha)) * np.sin(alpha + np.asarray(motion.position("cam.phi"))[:, None])
    lift = np.asarray(motion.position("lifter.y")) - STEM
    np.testing.assert_allclose(lift[:3], heights.max(axis=1)[:3], atol=1e-9)
    contact = mbs.reactions(mech, motion)["contact"]
    np.testing.assert_array_equal(contact.outside, [False, False, False, True])


def test_problem_3_4_10():
    """A slot y = 0 of the ground, ρ = 1/sin α about a centre one below it, in place of the slider."""
    slot = lambda *part: planar.FunctionOutline(lambda alpha: 1 / jnp.sin(alpha), part=part or None)
    follower = lambda outline: planar.PointFollower("rod", "ground", (ROD, 0), (0, -1), outline)
    with pytest.raises(ValueError, match=r"positive all round.*or give the part that touches"):
        follower(slot()).check()
    mech = mbs.Mechanism(
        {"crank": planar.Body(), "rod": planar.Body()},
        {
            "O": planar.Revolute("ground", "crank", ORIGIN, ORIGIN),
            "A": planar.Revolute("crank", "rod", (CRANK, 0), ORIGIN),
            # Its end is at x = 2.5.
            "slot": follower(slot(np.arctan2(1, 2.5), np.pi - 0.2)),
        },
        {"motor": planar.AbsoluteAngleDriver("crank", TURNING)},
    )
    motion = mbs.kinematics(mech, TENTHS, {"rod": (1, 0, 0), "slot": 0.3}, throw=True)
    assert_follows(motion, far_end, ("rod", (ROD, 0)))
    slot = mbs.reactions(mech, motion)["slot"]
    np.testing.assert_array_equal(slot.outside, np.asarray(motion.point("rod", (ROD, 0.0)))[:, 0] > 2.5)
    assert slot.pulls is None
    assert 0 < np.sum(slot.outside) < 11


def test_problem_3_6_1():
    """A bar of length 4 whose ends slide along the axes, its frame in the middle, from the book's estimate."""
    mech = mbs.Mechanism(
        {"bar": planar.Body()},
        {"wall": planar.AbsoluteX("bar", (-2, 0), 0.0), "floor": planar.AbsoluteY("bar", (2, 0), 0.0)},
        {"turn": planar.AbsoluteAngleDriver("bar", mbs.motion.Ramp(np.pi / 15, 5 * np.pi / 3))},
    )
    motion = mbs.kinematics(mech, 4 * TENTHS, jnp.array([1.05, 1.73, 5 * np.pi / 3]), throw=True)
    rate, phi = np.pi / 15, 5 * np.pi / 3 + np.pi / 15 * 4 * TENTHS
    columns = lambda x, y: np.stack([2 * x, -2 * y], axis=1)
    np.testing.assert_allclose(motion.q[:, :2], columns(np.cos(phi), np.sin(phi)), atol=1e-12)
    np.testing.assert_allclose(motion.v[:, :2], rate * columns(-np.sin(phi), np.cos(phi)), atol=1e-12)
    np.testing.assert_allclose(motion.a[:, :2], -(rate**2) * columns(np.cos(phi), np.sin(phi)), atol=1e-12)


def test_problems_3_7_1_and_3_7_2():
    """A driven slider: singular at both dead centres, where crank and rod lie on the x axis, and there it locks up."""
    mech = mbs.Mechanism(
        dict.fromkeys(("crank", "rod", SLIDER), planar.Body()),
        THREE_BODIES["slider on the rod"],
        {"ram": planar.AbsoluteXDriver(SLIDER, ORIGIN, mbs.motion.Ramp(1.0, 2.0))},
    )
    bent = {"crank": (0, 0, 1.3), "rod": (0.3, 0.96, -0.5), SLIDER: (2, 0, 0)}
    for times, x in ((np.linspace(0, 2, 9), CRANK + ROD), (np.linspace(0, -2, 9), ROD - CRANK)):
        found = mbs.find_singularities(mech, times, bent)
        assert found.kinds == ("lock-up",)
        assert found.times[0] == pytest.approx(x - 2, abs=1e-9)
    # |Φ_q| is ± r ℓ sin(φ₁ − φ₂): zero where crank and rod are in line only.
    for angle in (0.0, 0.4, 1.3, np.pi):
        phi = -np.arcsin(CRANK * np.sin(angle) / ROD)
        a = CRANK * np.array([np.cos(angle), np.sin(angle)])
        q = {"crank": (0, 0, angle), "rod": (*a, phi), SLIDER: (a[0] + ROD * np.cos(phi), 0, 0)}
        determinant = np.linalg.det(mbs.constraint_jacobian(mech, q))
        assert abs(determinant) == pytest.approx(abs(CRANK * ROD * np.sin(angle - phi)), abs=1e-12)
