"""Slow motions: efforts, mechanical advantage and efficiency against closed forms, and as a limit of inverse dynamics."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from designed_four_bar import GUESS, PLAIN, TIMES, WEIGHT, G, four_bar, near
from jaxmbs import planar, spatial

Ramp = mbs.motion.Ramp


def crank_press(friction=0.0, motion=(0.0, 1.0, 0.0), damping=0.0):
    """A slider-crank with crank 1 and rod 2, pressed with 10 against the slider, and friction in its guide."""
    return mbs.Mechanism(
        {"crank": planar.Body(), "rod": planar.Body(), "slider": planar.Body()},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "rod", (1, 0), (0, 0)),
            "B": planar.Revolute("rod", "slider", (2, 0), (0, 0)),
            "guide": planar.Translational("ground", "slider", (0, 0), (0, 0)),
        },
        {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Polynomial(motion))},
        {
            "load": mbs.PointForce("slider", (0, 0), (-10.0, 0)),
            "rub": mbs.JointFriction("guide", friction, velocity=0.01),
            "damper": mbs.Damper("ground", "slider", (9, 0), (0, 0), damping),
        },
    )


ANGLES = np.linspace(-1.5, 1.4, 7)
START = {"crank": (0, 0, 0), "rod": (1, 0, 0), "slider": (3, 0, 0)}


def press_torque(friction, angle, sense=1.0):
    """The torque of the crank by the balance of forces at the slider: rod, load, guide and friction."""
    stroke = lambda p: jnp.cos(p) + jnp.sqrt(4 - jnp.sin(p) ** 2)
    slope = jax.grad(stroke)(angle)
    leaning = jnp.abs(jnp.sin(angle)) / jnp.sqrt(4 - jnp.sin(angle) ** 2)
    return 10 / (1 - friction * leaning * jnp.sign(slope * sense)) * slope


@pytest.fixture(scope="module")
def pressing():
    motion = mbs.kinematics(crank_press(), ANGLES, START, throw=True)
    return motion, mbs.statics(crank_press(0.1, damping=7.0), motion)


def test_crank_press_with_friction_in_its_guide(pressing):
    motion, found = pressing
    expected, ideal = (jax.vmap(lambda p, f=f: press_torque(f, p))(ANGLES) for f in (0.1, 0.0))
    np.testing.assert_allclose(found.efforts["motor"], expected, rtol=1e-12)
    np.testing.assert_allclose(found.ideal_efforts["motor"], ideal, rtol=1e-12)
    # The motor drives before the dead centre and brakes after it.
    np.testing.assert_allclose(found.efficiency, np.where(ANGLES < 0, ideal / expected, expected / ideal), rtol=1e-12)
    np.testing.assert_allclose(found.advantage("motor", "load"), 10 / np.abs(expected), rtol=1e-12)
    np.testing.assert_allclose(found.advantage("motor", ("slider", (0, 0), (3.0, 0))), 10 / ideal, rtol=1e-12)
    np.testing.assert_array_equal(found.status, 0)
    assert mbs.reactions(crank_press(0.1, damping=7.0), motion)["motor"].effort[0] != found.efforts["motor"][0]


def test_speed_and_acceleration_do_not_count_but_the_direction_does(pressing):
    _, forwards = pressing
    rushing = crank_press(0.1, (-1.5, 2.0, 400.0), damping=7.0)
    found = mbs.statics(rushing, mbs.kinematics(rushing, 1e-9 * np.arange(7.0), {**START, "crank": (0, 0, -1.5)}))
    np.testing.assert_allclose(found.efforts["motor"], forwards.efforts["motor"][0], rtol=1e-7)
    back = crank_press(0.1, (0.0, -1e-3, 0.0), damping=7.0)
    found = mbs.statics(back, mbs.kinematics(back, -1e3 * ANGLES, {**START, "crank": (0, 0, -1.5)}))
    expected = jax.vmap(lambda p: press_torque(0.1, p, -1.0))(ANGLES)
    np.testing.assert_allclose(found.efforts["motor"], expected, rtol=1e-12)


def test_gradients_and_batches(pressing):
    motion, _ = pressing
    efforts = lambda friction: mbs.statics(crank_press(friction), motion).efforts["motor"]
    batch = jax.vmap(efforts)(jnp.array([0.0, 0.1, 0.2]))
    exact = jax.vmap(lambda f: jax.vmap(lambda p: press_torque(f, p))(ANGLES))(jnp.array([0.0, 0.1, 0.2]))
    np.testing.assert_allclose(batch, exact, rtol=1e-12)
    slope = jax.grad(lambda f: jnp.sum(efforts(f) ** 2))(0.1)
    by_hand = jax.grad(lambda f: jnp.sum(jax.vmap(lambda p: press_torque(f, p))(ANGLES) ** 2))(0.1)
    np.testing.assert_allclose(slope, by_hand, rtol=1e-11)
    stacked = jax.tree.map(lambda x: jnp.stack([x, x]), motion)
    found = mbs.statics(crank_press(0.1), stacked)
    assert found.efficiency.shape == (2, 7)
    assert found.advantage("motor", ("slider", None, (1, 0))).shape == (2, 7)


def block(angle, friction, rate):
    """A block of weight 5 on an incline, pushed by a horizontal force: the unrolled thread of a screw."""
    axis = (np.cos(angle), np.sin(angle))
    return mbs.Mechanism(
        {"block": planar.Body()},
        {"thread": planar.Translational("ground", "block", (0, 0), (0, 0), axis)},
        {"nut": planar.AbsoluteXDriver("block", (0, 0), Ramp(rate))},
        {
            "weight": mbs.PointForce("block", (0, 0), (0, -5.0)),
            "rub": mbs.JointFriction("thread", friction, 1.5 * friction, velocity=1e-3),
        },
    )


@pytest.mark.parametrize("angle", [0.1, 0.5])
def test_screw(angle):
    """Up with W tan(λ + ρ), down with W tan(λ − ρ), ρ = arctan μ; the flat thread locks itself."""
    friction = 0.2
    rho = np.arctan(friction)
    up, down = (
        mbs.statics(block(angle, friction, rate), mbs.kinematics(block(angle, friction, rate), [0.0]))
        for rate in (1.0, -1.0)
    )
    np.testing.assert_allclose(up.efforts["nut"], [5 * np.tan(angle + rho)], rtol=1e-12)
    np.testing.assert_allclose(up.efficiency, [np.tan(angle) / np.tan(angle + rho)], rtol=1e-12)
    np.testing.assert_allclose(up.advantage("nut", "weight"), [1 / np.tan(angle + rho)], rtol=1e-12)
    np.testing.assert_allclose(up.advantage("nut", ("block", (0, 0), (0, 1))), [1 / np.tan(angle)], rtol=1e-12)
    np.testing.assert_allclose(down.efforts["nut"], [5 * np.tan(angle - rho)], rtol=1e-12)
    np.testing.assert_allclose(down.efficiency, [np.tan(angle - rho) / np.tan(angle)], rtol=1e-12)
    assert (down.efficiency[0] < 0) == (angle < rho)


def test_no_force_moves_a_jammed_block():
    """Beyond λ + ρ = 90° a horizontal push presses harder than it lifts."""
    mech = block(1.2, 0.5, 1.0)
    found = mbs.statics(mech, mbs.kinematics(mech, [0.0]))
    assert mbs.Status(int(found.status[0])) == mbs.Status.JAMMED


def test_lever_and_toggle():
    """Ratio of the arms; half the cotangent of the angle between link and line."""
    lever = mbs.Mechanism(
        {"bar": planar.Body(mass=0, inertia=0)},
        {"pivot": planar.Revolute("ground", "bar", (0, 0), (0, 0))},
        {"hand": planar.AbsoluteYDriver("bar", (-0.9, 0), Ramp(-0.1))},
        {"load": mbs.PointForce("bar", (0.2, 0), (0, -50.0))},
    )
    found = mbs.statics(lever, mbs.kinematics(lever, [0.0, 2.0], {"bar": (0, 0, 0)}))
    np.testing.assert_allclose(found.advantage("hand", "load"), 4.5, rtol=1e-12)
    np.testing.assert_allclose(found.efforts["hand"], -50 / 4.5, rtol=1e-12)
    np.testing.assert_allclose(found.reactions["pivot"].force, [[0, 50 + 50 / 4.5]] * 2, rtol=1e-12)

    toggle = mbs.Mechanism(
        {"upper": planar.Body(), "lower": planar.Body(), "ram": planar.Body()},
        {
            "O": planar.Revolute("ground", "upper", (0, 0), (0, 0)),
            "knee": planar.Revolute("upper", "lower", (1, 0), (0, 0)),
            "B": planar.Revolute("lower", "ram", (1, 0), (0, 0)),
            "guide": planar.Translational("ground", "ram", (0, 0), (0, 0)),
        },
        {"push": planar.AbsoluteYDriver("upper", (1, 0), Ramp(-1.0, 0.5))},
        {"work": mbs.PointForce("ram", (0, 0), (-200.0, 0))},
    )
    times = jnp.array([0.0, 0.3, 0.49])
    found = mbs.statics(toggle, mbs.kinematics(toggle, times, {"lower": (0.9, 0.5, -0.5), "ram": (1.7, 0, 0)}))
    cotangent = np.sqrt(1 / np.square(0.5 - times) - 1)
    np.testing.assert_allclose(found.advantage("push", "work"), cotangent / 2, rtol=1e-11)
    np.testing.assert_allclose(found.efficiency, 1, rtol=1e-12)


def test_four_bar_by_its_instant_centre():
    """ω_in/ω_out from the pole on the line of the bearings, that is where the coupler's line meets it."""
    mech = four_bar(PLAIN, {"load": mbs.Torque("rocker", -3.0)})
    motion = mbs.kinematics(mech, TIMES[:6], GUESS)
    a, b = motion.point("coupler", (0, 0)), motion.point("coupler", (PLAIN["length"]["coupler"], 0))
    pole = a[:, 0] - a[:, 1] * (b[:, 0] - a[:, 0]) / (b[:, 1] - a[:, 1])
    found = mbs.statics(mech, motion)
    ratio = (pole - PLAIN["length"]["ground"]) / pole
    near(mbs.equivalent(mech, motion).force, -3 / ratio, 1e-11)
    near(found.efforts["motor"], 3 / ratio, 1e-11)
    near(found.advantage("motor", "load"), np.abs(ratio), 1e-11)


def rocking(rate, velocity):
    """A crank and rocker on skew axes, with a rod between balls that may spin, and friction in two joints."""
    return mbs.Mechanism(
        {
            "crank": spatial.Body(1.0, (0.01, 0.02, 0.02), (0.1, 0.02, 0.01)),
            "rod": spatial.Body(0.7, (0.01, 0.05, 0.05), (0.5, 0, 0)),
            "rocker": spatial.Body(1.5, (0.03, 0.02, 0.03), (0.2, -0.1, 0.03)),
        },
        {
            "O": spatial.Revolute("ground", "crank", (0, 0, 0), (0, 0, 0), (0, 0, 1)),
            "A": spatial.Spherical("crank", "rod", (0.2, 0, 0), (0, 0, 0)),
            "B": spatial.Spherical("rod", "rocker", (1.0, 0, 0), (0.6, 0, 0)),
            "C": spatial.Revolute("ground", "rocker", (0.9, 0.1, 0.3), (0, 0, 0), (0, 1, 0)),
        },
        {"motor": spatial.RevoluteDriver("ground", "crank", axis_i=(0, 0, 1), motion=Ramp(rate))},
        {
            "gravity": mbs.Gravity((0, 0, -G)),
            "rub O": mbs.JointFriction("O", 0.2, 0.3, velocity=velocity, radius=0.03, viscous=0.1),
            "rub A": mbs.JointFriction("A", 0.1, velocity=velocity, radius=0.02),
            "rotor": mbs.JointInertia("C", 0.1),
        },
    )


@pytest.mark.variant
def test_limit_of_slow_motions_in_space():
    """Inverse dynamics at a rate of 1e-6, at which friction has long set in."""
    rate, guess = 1e-6, {"rod": (0.2, 0, 0, 1, 0, 0, 0), "rocker": (0.9, 0.1, 0.3, 0.8, 0, -0.6, 0)}
    slow, usual = rocking(rate, 1e-12), rocking(rate, 1e-2)
    motion = mbs.kinematics(slow, np.linspace(0, 1, 4) / rate, guess, throw=True)
    expected, found = mbs.reactions(slow, motion), mbs.statics(usual, motion)
    near(found.efforts["motor"], expected["motor"].effort, 1e-8)
    for name in ("O", "A", "B", "C"):
        near(found.reactions[name].force, expected[name].force, 1e-8)
    assert np.all(found.efficiency < 0.99)
    assert np.all(found.efforts["motor"] > found.ideal_efforts["motor"])


def test_redundant_constraints():
    """A third crank of a parallelogram: the effort is unique, the pins of the cranks are not."""
    crank = lambda x: {
        f"foot {x}": planar.Revolute("ground", f"crank {x}", (x, 0), (0, 0)),
        f"pin {x}": planar.Revolute(f"crank {x}", "table", (1, 0), (x, 0)),
    }
    mech = mbs.Mechanism(
        {**{f"crank {x}": planar.Body() for x in (0, 1, 2)}, "table": planar.Body(mass=3.0, com=(1, 0))},
        crank(0) | crank(1) | crank(2),
        {"motor": planar.RevoluteDriver("ground", "crank 0", Ramp(1.0, 0.4))},
        {"gravity": mbs.Gravity((0, -G))},
    )
    start = {f"crank {x}": (x, 0, 0.4) for x in (0, 1, 2)} | {"table": (np.cos(0.4), np.sin(0.4), 0)}
    motion = mbs.kinematics(mech, [0.0, 0.5], start)
    found = mbs.statics(mech, motion)
    np.testing.assert_allclose(found.efforts["motor"], 3 * G * np.cos([0.4, 0.9]), rtol=1e-11)
    np.testing.assert_allclose(mbs.equivalent(mech, motion).force, -3 * G * np.cos([0.4, 0.9]), rtol=1e-11)
    assert not np.any(found.reactions["pin 1"].unique)
    np.testing.assert_allclose(found.reactions.on("table").force, [[0, 3 * G]] * 2, atol=1e-9)


def test_an_element_of_six_motions():
    """A body that is carried through space: the force is its weight, the torques do the work of its turning."""
    ways, turns = (Ramp(1.0), Ramp(2.0), 0.3), (Ramp(0.3), 0.1, 0.2)
    mech = mbs.Mechanism(
        {"body": spatial.Body(2.0, 0.1, (0.1, 0.2, 0.3))},
        drivers={"hand": spatial.TotalJoint("ground", "body", position=ways, orientation=turns)},
        forces={"gravity": mbs.Gravity((0, 0, -G))},
    )
    motion = mbs.kinematics(mech, [0.0, 0.5])
    found = mbs.statics(mech, motion)
    np.testing.assert_allclose(found.efforts["hand"][:, :3], [[0, 0, 2 * G]] * 2, atol=1e-12)
    power = jnp.sum(found.efforts["hand"] * found.rates["hand"], axis=1)
    np.testing.assert_allclose(power, 2 * G * motion.point_velocity("body", (0.1, 0.2, 0.3))[:, 2], rtol=1e-12)
    with pytest.raises(ValueError, match="'hand' prescribes several motions"):
        found.advantage("hand", ("body", (0, 0, 0), (1, 0, 0)))


def test_errors(pressing):
    motion, found = pressing
    free = mbs.Mechanism(crank_press().bodies, crank_press().constraints)
    with pytest.raises(ValueError, match="statics needs a motion that drivers determine; drivers for 1 degree"):
        mbs.statics(free, motion)
    for driver, load, message in (
        ("engine", "load", "engine"),
        ("motor", "rub", "rub"),
        ("motor", ("slider", (0, 0), (1, 0, 0)), r"direction must have shape \(2,\)"),
        ("motor", ("piston", (0, 0), (1, 0)), "piston"),
    ):
        with pytest.raises(ValueError, match=message):
            found.advantage(driver, load)


def test_friction_and_traced_masses_in_inverse_dynamics():
    """With traced masses the balance of forces gives λ; it needs the friction that depends on λ."""
    motion = mbs.kinematics(four_bar(PLAIN), TIMES[:4], GUESS)

    def effort(mass):
        forces = {**WEIGHT, "rub": mbs.JointFriction("B", 0.2, velocity=0.1, radius=0.03)}
        mech = four_bar({**PLAIN, "mass": {**PLAIN["mass"], "coupler": mass}}, forces)
        return mbs.reactions(mech, motion)["motor"].effort

    value, slope = jax.jvp(effort, (1.1,), (1.0,))
    np.testing.assert_allclose(value, effort(1.1), rtol=1e-9)
    np.testing.assert_allclose(slope, (effort(1.1 + 1e-4) - effort(1.1 - 1e-4)) / 2e-4, rtol=1e-6)


def table(friction):
    """Return a parallelogram whose table carries an arm; both only translate, with friction in the pin between them."""
    body = planar.Body(1.0, 0.1, (0.5, 0))
    return mbs.Mechanism(
        {"a": body, "b": body, "table": body, "arm": planar.Body(1.0, 0.1, (0.3, 0))},
        {
            "O": planar.Revolute("ground", "a", (0, 0), (0, 0)),
            "P": planar.Revolute("ground", "b", (1, 0.2), (0, 0)),
            "A": planar.Revolute("a", "table", (1, 0), (0, 0)),
            "B": planar.Revolute("b", "table", (1, 0), (1, 0.2)),
            "C": planar.Revolute("table", "arm", (0.4, 0), (0, 0)),
        },
        {
            "motor": planar.RevoluteDriver("ground", "a", mbs.motion.Ramp(2.0, 0.4)),
            "wrist": planar.AbsoluteAngleDriver("arm", mbs.motion.Constant(0.2)),
        },
        {"gravity": mbs.Gravity((0, -G)), "rub": mbs.JointFriction("C", friction, velocity=1e-3, radius=0.02)},
    )


def test_joint_that_does_not_slide():
    """Its friction is zero: velocities that are only rounding errors do not count."""
    place = {"a": (0, 0, 0.4), "b": (1, 0.2, 0.4), "table": (np.cos(0.4), np.sin(0.4), 0)}
    guess = place | {"arm": (np.cos(0.4) + 0.4, np.sin(0.4), 0.2)}
    motion = mbs.kinematics(table(0.0), np.linspace(0, 1, 6), guess, throw=True)
    found = mbs.statics(table(0.3), motion)
    near(found.efforts["wrist"], np.full(6, G * 0.3 * np.cos(0.2)), 1e-6)


def test_preload_is_a_load():
    """A brake with the preload 5 and the coefficient 1 slides with 5."""
    arm = mbs.Mechanism(
        {"bob": planar.Body(1.0, 0.1)},
        {"pin": planar.Revolute("ground", "bob", (0, 0), (0, 1))},
        {"hand": planar.RevoluteDriver("ground", "bob", mbs.motion.Ramp(1.0, 0.3))},
        {"brake": mbs.JointFriction("pin", 1.0, velocity=0.01, radius=1.0, preload=5.0)},
    )
    found = mbs.statics(arm, mbs.kinematics(arm, [0.0, 0.5]))
    near(found.efforts["hand"], np.full(2, 5.0), 1e-9)
    near(found.loads["brake"], np.full(2, 5.0), 1e-9)


def test_dead_centre_of_the_driver():
    """A slider that pushes a crank in its dead centre holds nothing, also if another driver has made the motion."""
    motion = mbs.kinematics(crank_press(motion=(0.0, np.pi / 2, 0.0)), [0.0, 0.5, 1.0], throw=True)
    press = crank_press()
    pushed = mbs.Mechanism(
        press.bodies, press.constraints, {"push": planar.AbsoluteXDriver("slider", (0, 0), 0.0)}, press.forces
    )
    near(np.asarray(mbs.statics(pushed, motion).status), [mbs.Status.SINGULAR, 0, 0], 0)
    found = mbs.equivalent(pushed, motion)
    near(np.asarray(found.status), [mbs.Status.SINGULAR, 0, 0], 0)
    assert np.all(np.isfinite(found.inertia))


def test_missing_driver_of_a_redundant_mechanism():
    """Three parallel cranks have rows enough, but without a driver nothing determines their motion."""
    links = {name: planar.Body() for name in ("a", "b", "c", "bar")}
    joints = {f"foot {n}": planar.Revolute("ground", n, (k, 0), (0, 0)) for k, n in enumerate("abc")}
    joints |= {f"head {n}": planar.Revolute(n, "bar", (1, 0), (k, 0)) for k, n in enumerate("abc")}
    driver = {"motor": planar.RevoluteDriver("ground", "a", mbs.motion.Ramp(1.0, 0.5))}
    start = {n: (k, 0, 0.5) for k, n in enumerate("abc")} | {"bar": (np.cos(0.5), np.sin(0.5), 0)}
    motion = mbs.kinematics(mbs.Mechanism(links, joints, driver), [0.0, 0.1], start, throw=True)
    near(np.asarray(mbs.statics(mbs.Mechanism(links, joints), motion).status), [mbs.Status.SINGULAR] * 2, 0)


def test_gearbox_losses_are_forces():
    """With and without an element of friction the effort against a motor with a lossy gearbox is the same."""

    def arm(**friction):
        motor = mbs.Motor("pin", 0.05, 2.0, 12.0, ratio=20.0, efficiency=0.5)
        return mbs.Mechanism(
            {"bob": planar.Body(1.0, 0.1, (1, 0))},
            {"pin": planar.Revolute("ground", "bob", (0, 0), (0, 0))},
            {"hand": planar.RevoluteDriver("ground", "bob", mbs.motion.Ramp(-1.0, 0.3))},
            {"gravity": mbs.Gravity((0, -G)), "motor": motor, **friction},
        )

    motion = mbs.kinematics(arm(), [0.0, 0.2])
    plain = mbs.statics(arm(), motion)
    rubbed = mbs.statics(arm(rub=mbs.JointFriction("pin", 0.0, velocity=1e-3, radius=0.02)), motion)
    near(rubbed.ideal_efforts["hand"], plain.efforts["hand"], 1e-9)
    near(rubbed.efficiency, [1, 1], 1e-9)
