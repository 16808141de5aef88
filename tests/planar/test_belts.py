"""Belts that do not slip and ropes over pulleys, against closed forms and Lagrange's equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar

G = 9.81
# Origin of a body frame.
ORIGIN = (0.0, 0.0)


def pin(body, point, on="ground"):
    return planar.Revolute(on, body, point, ORIGIN)


def rail(body, x):
    return planar.Translational("ground", body, (x, 0), ORIGIN, (0, 1))


@pytest.mark.parametrize(("radii", "crossed"), [((0.3, 0.8), False), ((0.4, 0.4), False), ((0.3, -0.8), True)])
def test_length_and_ratio_of_two_pulleys(radii, crossed):
    """Lengths of open and crossed belts by their closed forms, and the ratio over five turns."""
    distance, (a, b) = 2.0, radii
    mech = mbs.Mechanism(
        {"a": planar.Body(), "b": planar.Body()},
        {
            "A": pin("a", ORIGIN),
            "B": pin("b", (distance, 0)),
            "belt": planar.Belt(("a", "b"), (ORIGIN, ORIGIN), radii),
        },
        {"motor": planar.RevoluteDriver("ground", "a", mbs.motion.Ramp(2 * np.pi))},
    )
    motion = mbs.kinematics(mech, np.linspace(0, 5, 51), {"b": (distance, 0, 0.3)}, throw=True)
    np.testing.assert_allclose(motion.q[-1, 2], 10 * np.pi)
    np.testing.assert_allclose(motion.q[:, 5] - 0.3, a / b * motion.q[:, 2], atol=1e-12)
    large, small = max(a, abs(b)), min(a, abs(b))
    reach = large + small if crossed else large - small
    straight, extra = 2 * np.sqrt(distance**2 - reach**2), np.arcsin(reach / distance)
    arcs = reach * (np.pi + 2 * extra) if crossed else np.pi * (large + small) + 2 * reach * extra
    drawn = mbs.with_marks(mech, motion.q[0]).constraints["belt"]
    of_length = planar.Belt(
        ("a", "b"), (ORIGIN, ORIGIN), radii, straight + arcs, False, drawn.directions, drawn.advances
    )
    bodies = mbs.Mechanism(mech.bodies, {"belt": of_length})
    np.testing.assert_allclose(mbs.constraints(bodies, motion.q[13]), 0, atol=1e-12)


def block_and_tackle(load, weight, radius):
    """A load on a pulley between two parts of a rope, whose other end hangs from a fixed pulley and carries a weight."""
    centres = ((-radius, 2.0), ORIGIN, (2 * radius, 2.0), ORIGIN)
    rope = planar.Rope(("ground", "load", "ground", "weight"), centres, (0, radius, -radius, 0))
    mech = mbs.Mechanism(
        {"load": planar.Body(load), "weight": planar.Body(weight)},
        {"rail": rail("load", 0.0), "other rail": rail("weight", 3 * radius), "rope": rope},
        forces={"gravity": mbs.Gravity((0, -G))},
    )
    return mech, {"weight": (3 * radius, -0.5, 0)}


def test_block_and_tackle():
    """The rope goes twice to the load: a = g (2 m_w − m_l) / (m_l + 4 m_w), and the tension that belongs to it."""
    load, weight = 3.0, 1.2
    mech, guess = block_and_tackle(load, weight, 0.25)
    single = mbs.assemble(mech.astype(jnp.float32), guess)
    assert single.q.dtype == np.float32
    assert single.status == 0
    run = mbs.simulate(mech, np.linspace(0, 0.5, 6), guess, step=0.05, throw=True)
    rise = G * (2 * weight - load) / (load + 4 * weight)
    np.testing.assert_allclose(run.a[:, 1], rise, rtol=1e-12)
    np.testing.assert_allclose(run.a[:, 4], -2 * rise, rtol=1e-12)
    np.testing.assert_allclose(-run.multipliers[:, -1], load * (G + rise) / 2, rtol=1e-12)
    np.testing.assert_allclose(run.q[-1, 1] - run.q[0, 1], rise / 8, rtol=1e-12)


def test_a_hoist_with_heavy_pulleys():
    """A cable from a drum over a pulley to a load does not slip: a = m g / (m + J_drum/R² + J_pulley/r²)."""
    mass, drum, pulley, large, small = 5.0, 0.4, 0.03, 0.3, 0.1
    cable = planar.Belt(("drum", "pulley", "load"), (ORIGIN, ORIGIN, ORIGIN), (-large, -small, 0), ends=True)
    mech = mbs.Mechanism(
        {"drum": planar.Body(1.0, drum), "pulley": planar.Body(1.0, pulley), "load": planar.Body(mass)},
        {"D": pin("drum", ORIGIN), "P": pin("pulley", (2, 1)), "rail": rail("load", 2 + small), "cable": cable},
        forces={"gravity": mbs.Gravity((0, -G))},
    )
    start = {"pulley": (2, 1, 0), "load": (2 + small, 0, 0)}
    run = mbs.simulate(mech, np.linspace(0, 1, 5), start, step=0.05, throw=True)
    fall = mass * G / (mass + drum / large**2 + pulley / small**2)
    np.testing.assert_allclose(run.a[:, 7], -fall, rtol=1e-12)
    np.testing.assert_allclose(run.a[:, 2], -fall / large, rtol=1e-12)
    np.testing.assert_allclose(run.multipliers[:, -2] - run.multipliers[:, -1], pulley * fall / small**2, rtol=1e-11)


def pendulum(fixed, radius, inertia):
    """An arm that swings about a fixed pulley, with a pulley at its end that a belt connects to the fixed one."""
    belt = planar.Belt(("ground", "pulley"), (ORIGIN, ORIGIN), (fixed, radius))
    return mbs.Mechanism(
        {"arm": planar.Body(0), "pulley": planar.Body(2.0, inertia)},
        {"O": pin("arm", ORIGIN), "A": pin("pulley", (1.5, 0), "arm"), "belt": belt},
        forces={"gravity": mbs.Gravity((0, -G))},
    )


@pytest.mark.parametrize(("fixed", "radius"), [(0.5, 0.2), (0.5, 0.5), (-0.5, 0.2)])
def test_an_arm_that_turns_over(fixed, radius):
    """The pulley turns by (1 − R/r) times the angle of the arm, over several turns; energy gives the speed."""
    mech = pendulum(fixed, radius, 0.3)
    start = {"arm": (0, 0, 0), "pulley": (1.5, 0, 0)}
    run = mbs.simulate(mech, np.linspace(0, 2, 21), start, {"arm.phi": 9.0}, step=2e-3, throw=True)
    ratio, arm = 1 - fixed / radius, run.q[:, 2]
    assert arm[-1] > (4 * np.pi if fixed != radius else np.pi)
    np.testing.assert_allclose(run.q[:, 5], ratio * arm, atol=1e-11)
    inertia = 2.0 * 1.5**2 + 0.3 * ratio**2
    speed = np.sqrt(81 - 2 * 2.0 * G * 1.5 * np.sin(arm) / inertia)
    np.testing.assert_allclose(run.v[:, 2], speed, rtol=1e-7)
    # The belt turns the pulley, with the same sign of its multiplier in all turns.
    np.testing.assert_allclose(run.multipliers[:, -1] * radius, 0.3 * run.a[:, 5], atol=1e-9)


def tensioned(radii, place):
    """A belt round two wheels, which an idler on an arm with a spring presses together."""
    motor, wheel, idler = radii
    belt = planar.Belt(("motor", "wheel", "idler"), (ORIGIN, ORIGIN, ORIGIN), (motor, wheel, -idler), length=5.56)
    bodies = {"motor": planar.Body(1.0, 0.02), "wheel": planar.Body(1.0, 0.2), "idler": planar.Body(0.3, 1e-3)}
    return mbs.Mechanism(
        bodies | {"arm": planar.Body(0.5, 0.02)},
        {
            "M": pin("motor", ORIGIN),
            "W": pin("wheel", (1.6, 0)),
            "pivot": pin("arm", (0.3, 0.6)),
            "I": pin("idler", place, "arm"),
            "belt": belt,
        },
        forces={"drive": mbs.Torque("motor", 2.0), "spring": mbs.TorsionSpring("ground", "arm", 3.0, -1.7)},
    )


GUESS = {"wheel": (1.6, 0, 0), "arm": (0.3, 0.6, -0.6), "idler": (0.9, 0.2, 0)}


def test_a_belt_with_a_tensioner():
    """Tensions balance each pulley and the arm on its spring; the drive accelerates all inertias that it sees."""
    radii, place = (0.2, 0.5, 0.1), (0.72, 0.0)
    mech = tensioned(radii, place)
    run = mbs.simulate(mech, np.linspace(0, 0.2, 3), GUESS, step=0.02, throw=True)
    q, motor = run.q[0], radii[0]
    seen = 0.02 + 0.2 * (motor / radii[1]) ** 2 + 1e-3 * (motor / radii[2]) ** 2
    np.testing.assert_allclose(run.a[:, 2], 2.0 / seen, rtol=1e-11)
    # The belt runs from the motor along the span 0 to the wheel, 1 to the idler, and 2 back.
    first, second, last = -run.multipliers[0, -3:]
    tension = np.array([first + last, second + last, last])
    assert (tension > 0).all()
    gain = motor * 2.0 / seen
    np.testing.assert_allclose(tension[1] - tension[0], 0.2 * gain / radii[1] ** 2, rtol=1e-10)
    np.testing.assert_allclose(tension[2] - tension[1], 1e-3 * gain / radii[2] ** 2, rtol=1e-8)
    # Moment about the pivot of the arm: the belt pulls the idler along the spans that leave and come.
    centres = np.array([[0, 0], [1.6, 0], q[6:8]])
    signed = np.array([*radii[:2], -radii[2]])

    def along(a, b):
        d, step = centres[b] - centres[a], signed[b] - signed[a]
        length = np.sqrt(d @ d - step**2)
        return np.linalg.solve([[length, -step], [step, length]], d)

    pull = tension[2] * along(2, 0) - tension[1] * along(1, 2)
    arm = centres[2] - [0.3, 0.6]
    spring = -3.0 * (q[11] + 1.7)
    np.testing.assert_allclose(arm[0] * pull[1] - arm[1] * pull[0] + spring, 0, atol=1e-9)


def test_derivatives_are_those_of_differences():
    """Derivatives of the assembled tensioner and of a swinging arm with respect to radii and places."""

    def angle(x):
        return mbs.assemble(tensioned(x[:3], x[3:]), GUESS).q[11]

    def turned(x):
        run = mbs.simulate(pendulum(x[0], x[1], x[2]), np.linspace(0, 0.2, 2), {"pulley": (1.5, 0, 0)}, step=0.02)
        return run.q[-1, 2]

    for f, x in ((angle, np.array([0.2, 0.5, 0.1, 0.72, 0.0])), (turned, np.array([0.5, 0.2, 0.3]))):
        steps = 1e-5 * np.eye(len(x))
        at = jax.jit(jax.vmap(f))(np.concatenate([x + steps, x - steps]))
        differences = (at[: len(x)] - at[len(x) :]) / 2e-5
        np.testing.assert_allclose(jax.jit(jax.grad(f))(x), differences, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: planar.Belt(("a",), (ORIGIN,), (1.0,)), "two names or more"),
        (lambda: planar.Belt(("a", "a"), (ORIGIN, (3, 0)), (1.0, 1.0)), "with itself"),
        (lambda: planar.Belt(("a", "b"), (ORIGIN, ORIGIN), (1.0, 0.0)), "must not be zero"),
        (lambda: planar.Belt(("a", "b"), (ORIGIN, ORIGIN), (1.0,)), "radii must have an entry for each of the 2"),
        (lambda: planar.Belt(("a", "b"), (ORIGIN, ORIGIN), (1.0, 1.0), 3.0, ends=True), "for closed belts"),
        (lambda: planar.Belt(("a", "b"), (ORIGIN, ORIGIN), (1.0, 1.0), -3.0), "length must be positive"),
        (lambda: planar.Rope(("a", "b"), (ORIGIN, ORIGIN), (0, 0.5)), "zero at both ends"),
    ],
)
def test_bad_input(make, words):
    with pytest.raises(ValueError, match=words):
        mbs.Mechanism({"a": planar.Body(), "b": planar.Body()}, {"belt": make()})


def test_pulleys_inside_of_each_other_have_a_status():
    mech = pendulum(0.5, 0.2, 0.3)
    bodies = mbs.Mechanism(mech.bodies, {"belt": mbs.with_marks(mech, {"pulley": (1.5, 0, 0)}).constraints["belt"]})
    found = mbs.assemble(bodies, {"pulley": (0.1, 0, 0)})
    assert found.status == mbs.Status.NON_FINITE
    assert mbs.assemble(bodies, {"pulley": jnp.array([1.5, 0.1, 0])}).status == 0


def test_an_elastic_belt():
    """Tensions by hand for fixed centres, also where a span is slack; forces are slopes of the energy for any motion."""
    stiffness, tension, (a, b) = np.array([2e4, 1e4, 3e4]), 100.0, (0.2, 0.5)
    small = {"bodies": ("a", "b"), "points": (ORIGIN, ORIGIN), "radii": (a, b)}
    mech = mbs.Mechanism(
        dict.fromkeys("ab", planar.Body()),
        forces={"belt": planar.ElasticBelt(**small, stiffness=stiffness[:2], damping=5.0, tension=tension)},
    )
    q, v = np.array([0, 0, 0.3, 1.0, 0, 0.1]), np.zeros(6)
    mech = mbs.with_marks(mech, q)
    load = jax.jit(lambda q, v: mbs.generalized_force(mech, q, v))
    for turn in (0.01, -0.02, 0.2):
        # The belt runs below from a to b: this span is stretched where a turns back.
        ends = np.maximum(tension + stiffness[:2] * a * turn * np.array([-1, 1]), 0)
        moved = np.asarray(load(q + turn * np.eye(6)[2], v))
        np.testing.assert_allclose(moved[[2, 5]], np.array([a, b]) * (ends[0] - ends[1]) * [1, -1], rtol=1e-10)
        np.testing.assert_allclose(moved[0], sum(ends) * np.sqrt(1 - (b - a) ** 2), rtol=1e-10)
    # A damper of each span: a torque 2 c ρ² φ̇.
    np.testing.assert_allclose(load(q, 0.3 * np.eye(6)[2])[2], -2 * 5.0 * a**2 * 0.3, rtol=1e-10)
    path = (("a", "b", "c"), ((0.1, 0.2), (0, 0.1), ORIGIN), (0.2, 0.5, -0.1))
    three = mbs.Mechanism(
        dict.fromkeys("abc", planar.Body()), forces={"belt": planar.ElasticBelt(*path, stiffness, tension=tension)}
    )
    q = np.array([0, 0, 0.3, 1.6, 0, 0.1, 0.9, 0.25, -0.4])
    three = mbs.with_marks(three, q)
    q = q + 1e-3 * np.random.default_rng(1).normal(size=9)
    energies = jax.jit(jax.vmap(lambda q: mbs.energy(three, q, jnp.zeros(9)).potential))
    h = 1e-6
    slopes = (energies(q + h * np.eye(9)) - energies(q - h * np.eye(9))) / (2 * h)
    np.testing.assert_allclose(
        mbs.generalized_force(three, jnp.asarray(q), jnp.zeros(9)), -slopes, rtol=1e-6, atol=1e-6
    )


def test_overlapping_pulleys_have_no_marks():
    """A belt on pulleys of which one is within the other cannot be put on."""
    bodies, centres = {"a": planar.Body(), "b": planar.Body()}, ((0, 0), (0, 0))
    rope = planar.Rope(("ground", "a", "b", "ground"), ((9, 0), *centres, (-9, 0)), (0, 1, -2, 0))
    elastic = planar.ElasticBelt(("a", "b"), centres, (1.0, 2.0), stiffness=(1.0, 1.0))
    for elements in (
        {"constraints": {"it": planar.Belt(("a", "b"), centres, (1.0, 2.0))}},
        {"constraints": {"it": rope}},
        {"forces": {"it": elastic}},
    ):
        with pytest.raises(ValueError, match=r"'it'.*overlap"):
            mbs.with_marks(mbs.Mechanism(bodies, **elements), {"b": (0.5, 0, 0)})
