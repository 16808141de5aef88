"""Forces in joints: balance of every body, driving efforts, batches and slopes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynamic_problems as problems
import jaxmbs as mbs
import planar_catalogue as catalogue
from balances import DOWN, G, close, cross, inertial_power, motion_of, turned, unbalanced
from jaxmbs import planar

DESIGN = {"crank": 0.3, "rod": 0.8, "offset": 0.05}
TURN = mbs.motion.Polynomial((0.4, 2.0, 1.5))
TIMES = np.linspace(0, 1, 7)


def slider_crank(b, drivers=(), torque=0.0):
    """Offset centres of mass, a spring on the slider, a damper on the rod, a torque on the crank."""
    return mbs.Mechanism(
        {
            "crank": planar.Body(1.2, 0.02, (0.1, 0.03)),
            "rod": planar.Body(0.8, 0.05, (0.35, -0.04)),
            "slider": planar.Body(1.5, 0.01, (0.02, 0.1)),
        },
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "rod", (b["crank"], 0), (0, 0)),
            "B": planar.Revolute("rod", "slider", (b["rod"], 0), (0.1, 0.02)),
            "guide": planar.Translational("ground", "slider", (0, b["offset"]), (0.1, 0.02), (2, 0)),
        },
        drivers,
        {
            "gravity": DOWN,
            "spring": mbs.Spring("ground", "slider", (1.5, 0.3), (0.2, 0), 40.0, 0.5),
            "damper": mbs.Damper("slider", "rod", (0.0, 0.4), (0.3, 0.1), 3.0),
            "torque": mbs.Torque("crank", torque),
        },
    )


def slider_crank_start(angle):
    r, length, offset = DESIGN["crank"], DESIGN["rod"], DESIGN["offset"]
    x, y = r * np.cos(angle), r * np.sin(angle)
    end = x + np.sqrt(length**2 - (offset - y) ** 2)
    return {
        "crank": (0.0, 0.0, angle),
        "rod": (x, y, np.arctan2(offset - y, end - x)),
        "slider": (end - 0.1, offset - 0.02, 0.0),
    }


MOTOR = {"motor": planar.RevoluteDriver("ground", "crank", TURN)}


@pytest.fixture(scope="module")
def driven():
    """Motion given, forces found."""
    mech = slider_crank(DESIGN, MOTOR)
    run = mbs.kinematics(mech, TIMES, slider_crank_start(0.4), throw=True)
    return mech, run, mbs.reactions(mech, run)


@pytest.fixture(scope="module")
def four_bar():
    """The four-bar of the dynamics reference, moving under its torque."""
    b = problems.four_bar_design()
    start = problems.reference("planar_four_bar_dynamics")["initial_state"]
    angles = np.deg2rad(start["theta2_deg"]), start["theta3"], start["theta4"]
    mech = problems.four_bar(b)
    times = np.linspace(0, 0.2, 5)
    run = mbs.simulate(mech, times, problems.four_bar_start(b, angles), {"crank.phi": 5.0}, step=0.002, throw=True)
    return mech, run, mbs.reactions(mech, run)


def test_four_bar_is_in_balance(four_bar):
    mech, run, found = four_bar
    assert np.all(unbalanced(mech, run, found) < 1e-9)
    # Pins bear no torque, and an ordinary mechanism has no other reactions than these.
    for name in mech.constraints:
        np.testing.assert_allclose(found[name].torque, 0, atol=1e-9 * np.abs(found[name].force).max())
        assert np.all(found[name].unique)
        assert found[name].effort is None
    assert set(found) == set(mech.constraints)


def test_multipliers_are_those_of_the_simulation(four_bar):
    mech, run, found = four_bar
    close(np.concatenate([found[name].multipliers for name in mech.constraints], axis=1), run.multipliers, 1e-9)


def test_slider_crank_released_is_in_balance():
    mech = slider_crank(DESIGN, torque=2.0)
    run = mbs.simulate(
        mech, np.linspace(0, 0.4, 5), slider_crank_start(0.4), {"crank.phi": 3.0}, step=0.005, throw=True
    )
    found = mbs.reactions(mech, run)
    assert np.ptp(run.position("crank.phi")) > 0.5
    assert np.all(unbalanced(mech, run, found) < 1e-9)
    # Along the guide there is no force; its torque is what keeps the slider upright.
    np.testing.assert_allclose(found["guide"].force[:, 0], 0, atol=1e-9)
    assert np.abs(found["guide"].torque).max() > 0.1


def test_driven_slider_crank_is_in_balance(driven):
    mech, run, found = driven
    assert np.all(unbalanced(mech, run, found) < 1e-9)


def train():
    """A wheel that drives by gear, bar, slot and cam: a pinion, a block on a guide, a lever, a follower."""
    mech = mbs.Mechanism(
        {
            "wheel": planar.Body(1.0, 0.05, (0.02, 0.01)),
            "pinion": planar.Body(0.5, 0.01, (0.01, -0.02)),
            "block": planar.Body(1.3, 0.1, (0.05, 0.1)),
            "lever": planar.Body(0.7, 0.2, (-0.4, 0.05)),
            "follower": planar.Body(0.9, 0.1, (0.03, 0.2)),
        },
        {
            "O": planar.Revolute("ground", "wheel", (0, 0), (0, 0)),
            "P": planar.Revolute("ground", "pinion", (0.5, 0), (0, 0)),
            "gear": planar.Gear("wheel", "pinion", (0, 0), (0, 0), 0.3, 0.2, 0.0, np.pi),
            "slide": planar.Translational("ground", "block", (0, -1), (0, 0), (2, 0.4)),
            "bar": planar.Distance("wheel", "block", (0.2, 0.1), (0, 0.05), 1.5),
            "L": planar.Revolute("ground", "lever", (1.5, 0), (0, 0)),
            "slot": planar.RevoluteTranslational("lever", "pinion", (0, 0), (0.1, 0.05), (-2, 0), 0.05),
            "cam": planar.CamFlatFollower(
                "wheel", "follower", (0, 0.02), (0.1, 0), planar.FunctionOutline(oval), (1, 0.3)
            ),
            "lift": planar.Translational("ground", "follower", (0, 0), (0, 0), (0, 1)),
        },
        {"motor": planar.RevoluteDriver("ground", "wheel", mbs.motion.Polynomial((0.3, 1.0, 0.5)))},
        {"gravity": DOWN},
    )
    start = {
        "wheel": (0, 0, 0.3),
        "pinion": (0.5, 0, -0.45),
        "block": (1.4, -0.7, 0),
        "lever": (1.5, 0, 0),
        "follower": (0, 0.22, 0),
        "cam": (1.27,),
    }
    return mech, start


def oval(alpha):
    return 0.2 + 0.03 * jnp.cos(alpha)


def test_gears_bars_slots_and_cams_are_in_balance():
    mech, start = train()
    run = mbs.kinematics(mech, TIMES, start, throw=True)
    found = mbs.reactions(mech, run)
    assert np.all(unbalanced(mech, run, found) < 1e-9)
    forces = {name: np.asarray(found[name].force) for name in found}
    for name in ("gear", "bar", "slot", "cam", "slide", "lift"):
        assert np.abs(forces[name]).max() > 0.1, name
        assert np.all(found[name].unique), name
    # A bar pulls or pushes along itself.
    line = motion_of(run, "block", (0, 0.05)).position - motion_of(run, "wheel", (0.2, 0.1)).position
    np.testing.assert_allclose(cross(line, forces["bar"]), 0, atol=1e-9)
    # A slot presses at right angles to its line, and not past the pin.
    axis = turned(motion_of(run, "lever").angle, (1, 0))
    np.testing.assert_allclose(np.sum(axis * forces["slot"], axis=1), 0, atol=1e-9)
    for name in ("bar", "slot"):
        np.testing.assert_allclose(found[name].torque, 0, atol=1e-9)
    # Teeth meet where the pitch circles touch, 0.2 to the left of the pinion's centre.
    np.testing.assert_allclose(forces["gear"][:, 0], 0, atol=1e-9)
    np.testing.assert_allclose(found["gear"].torque, -0.2 * forces["gear"][:, 1], atol=1e-9)
    # The cam presses at right angles on the slanting face, through the place of contact.
    alpha = run.position("cam.alpha_i")
    on_cam = np.array([0, 0.02]) + np.asarray(oval(alpha))[:, None] * np.stack([np.cos(alpha), np.sin(alpha)], axis=-1)
    contact = motion_of(run, "wheel").position + turned(motion_of(run, "wheel").angle, on_cam)
    np.testing.assert_allclose(forces["cam"] @ [1, 0.3], 0, atol=1e-9)
    face = motion_of(run, "follower", (0.1, 0)).position
    np.testing.assert_allclose(cross(contact - face, np.array([1, 0.3])), 0, atol=1e-9)
    np.testing.assert_allclose(found["cam"].torque, cross(contact - face, forces["cam"]), atol=1e-9)


IN_SHORT = ("RackPinion", "CamFollower", "PointFollower", "RelativeX")
EVERY = [pytest.param(name, marks=[] if name in IN_SHORT else [pytest.mark.slow]) for name in catalogue.CATALOGUE]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", EVERY)
def test_every_element_is_in_balance(name):
    entry = catalogue.CATALOGUE[name]
    mech = entry.build(entry.b)
    run = mbs.kinematics(mech, np.array(catalogue.TIMES), entry.start(), throw=True)
    found = mbs.reactions(mech, run)
    rate = lambda motion: jax.vmap(lambda t: jax.jvp(motion, (t,), (jnp.ones_like(t),))[1])(run.t)
    power = sum(found[driver].effort * rate(element.motion) for driver, element in mech.drivers.items())
    close(power, inertial_power(mech, run), 1e-9)
    assert np.all(found["element"].unique)
    force_gap, moment_gap = unbalanced(mech, run, found)
    assert force_gap < 1e-9
    # Φ of these changes when both bodies turn with the ground fixed: action and reaction have different lines.
    if not name.startswith(("RelativeX", "RelativeY")):
        assert moment_gap < 1e-9


def test_components_are_those_of_the_bodies_frames(four_bar):
    mech, run, found = four_bar
    for name, joint in mech.constraints.items():
        force, reaction = np.asarray(found[name].force), found[name]
        in_frame = lambda body, force=force: turned(-motion_of(run, body).angle, force)
        close(reaction.components[:, :2], in_frame(joint.i), 1e-12)
        close(reaction.body_force, in_frame(joint.j), 1e-12)
        np.testing.assert_array_equal(reaction.components[:, 2], reaction.torque)
        np.testing.assert_array_equal(reaction.body_torque, reaction.torque)
    assert np.abs(found["B"].components[:, :2] - found["B"].force).max() > 1


def test_effort_brings_in_the_power(driven):
    mech, run, found = driven
    rate = 2.0 + 3.0 * TIMES
    power = inertial_power(mech, run)
    assert np.abs(power).max() > 1
    close(found["motor"].effort * rate, power, 1e-10)
    # A torque on the crank and nothing else.
    close(found["motor"].torque, found["motor"].effort, 1e-12)
    np.testing.assert_array_equal(found["motor"].force, 0)


def test_effort_is_the_same_in_forward_dynamics(driven):
    mech, run, found = driven
    forward = mbs.simulate(mech, TIMES[:4], slider_crank_start(0.4), step=0.05, throw=True)
    close(forward.q, run.q[:4], 1e-9)
    again = mbs.reactions(mech, forward)
    for name in found:
        close(again[name].force, found[name].force[:4], 1e-8)
    close(again["motor"].effort, found["motor"].effort[:4], 1e-8)
    # λ has the rows of drivers last.
    close(forward.multipliers[:, -1], found["motor"].effort[:4], 1e-8)


def test_the_torque_that_was_found_makes_the_motion(driven):
    mech, run, _ = driven
    fine = np.linspace(0, 1, 81)
    inverse = mbs.kinematics(mech, fine, slider_crank_start(0.4))
    effort = mbs.reactions(mech, inverse)["motor"].effort
    free = slider_crank(DESIGN, torque=mbs.motion.Spline(fine, effort))
    forward = mbs.simulate(free, TIMES, slider_crank_start(0.4), {"crank.phi": 2.0}, step=0.005, throw=True)
    close(forward.q, run.q, 1e-6)
    close(forward.v, run.v, 1e-6)


PUSH = mbs.motion.Harmonic(0.3, 2.0, 0.4, 0.5)


def test_efforts_along_an_axis_and_between_points():
    mech = mbs.Mechanism(
        {"block": planar.Body(2.0, 0.1, (0.1, 0.2)), "arm": planar.Body(1.3, 0.2, (0.4, 0.1))},
        {
            "guide": planar.Translational("ground", "block", (0.1, 0.2), (0, 0), (1, 2)),
            "pivot": planar.Revolute("ground", "arm", (0, 0), (0, 0)),
        },
        {
            "push": planar.TranslationalDriver("ground", "block", (0.3, 0.6), (0.05, 0), (1, 2), PUSH),
            "jack": planar.DistanceDriver("ground", "arm", (2, 1), (1, 0.2), lambda t: 1.5 + 0.2 * jnp.sin(2 * t)),
        },
        {"gravity": DOWN},
    )
    run = mbs.kinematics(mech, TIMES, {"block": (0.5, 1.0, 0), "arm.phi": -0.5}, throw=True)
    found = mbs.reactions(mech, run)
    assert np.all(unbalanced(mech, run, found) < 1e-9)
    push, jack = found["push"], found["jack"]
    # The block only shifts: Newton's law along the axis.
    u, acceleration = np.array([1, 2]) / np.sqrt(5), -4 * 0.3 * np.sin(2 * TIMES + 0.4)
    close(push.effort, 2.0 * (acceleration + G * u[1]), 1e-10)
    close(push.force, np.asarray(push.effort)[:, None] * u, 1e-10)
    # The arm: work of the jack is the arm's energy; its force acts along it, positive where it pushes.
    arm = motion_of(run, "arm", (0.4, 0.1))
    power = 1.3 * np.sum((arm.acceleration + np.array([0, G])) * arm.velocity, axis=1) + 0.2 * arm.spin_rate * arm.spin
    close(jack.effort * 0.4 * np.cos(2 * TIMES), power, 1e-9)
    line = motion_of(run, "arm", (1, 0.2)).position - np.array([2, 1])
    close(jack.force, np.asarray(jack.effort)[:, None] * line / np.linalg.norm(line, axis=1)[:, None], 1e-10)
    np.testing.assert_allclose(jack.torque, 0, atol=1e-9)


def forces_of(crank):
    """Forces at the crank pin and the driving torque, for a crank of some length."""
    mech = slider_crank({**DESIGN, "crank": crank}, MOTOR)
    run = mbs.kinematics(mech, TIMES, slider_crank_start(0.4))
    found = mbs.reactions(mech, run)
    return found["A"].force, found["motor"].effort


def test_batches_of_designs():
    designs = jnp.array([0.25, 0.3, 0.35])
    batch = jax.jit(jax.vmap(forces_of))(designs)
    one = jax.jit(forces_of)
    for k, crank in enumerate(designs):
        for found, expected in zip(batch, one(crank), strict=True):
            close(found[k], expected, 1e-10)
    assert np.abs(batch[0][0] - batch[0][2]).max() > 0.1


def test_batches_of_motions(driven):
    mech, run, found = driven
    twice = mbs.reactions(mech, jax.tree.map(lambda x: jnp.stack([x, x[::-1]]), run))
    close(twice["A"].force[0], found["A"].force, 1e-12)
    close(twice["motor"].effort[1], found["motor"].effort[::-1], 1e-12)
    assert twice["guide"].unique.shape == (2, len(TIMES))


def test_peak_is_differentiated():
    peak = jax.jit(lambda crank: jnp.max(jnp.sum(forces_of(crank)[0] ** 2, axis=1)) ** 0.5)
    h = 1e-4
    f = lambda k: float(peak(0.3 + k * h))
    differences = (8 * (f(1) - f(-1)) - (f(2) - f(-2))) / (12 * h)
    np.testing.assert_allclose(jax.grad(peak)(0.3), differences, rtol=1e-6)


def test_unknown_joint_is_named(four_bar):
    with pytest.raises(KeyError, match="unknown constraint or driver 'D'"):
        four_bar[2]["D"]
    assert len(four_bar[2]) == 4
