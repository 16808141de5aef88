"""Actuators and the play of gearboxes: closed forms, and equations written down and solved by another library."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import jaxmbs as mbs
from jaxmbs import planar, spatial

INERTIA = 0.3
TIMES = jnp.linspace(0.0, 0.6, 4)


def flywheel(**forces):
    pin = planar.Revolute("ground", "a", (0, 0), (0, 0))
    return mbs.Mechanism({"a": planar.Body(mass=2.0, inertia=INERTIA)}, {"pin": pin}, forces=forces)


def turned(mech, times=TIMES, rate=0.0, **options):
    """The angle along a motion from rest, or from a rate."""
    return mbs.simulate(mech, times, {"a": (0.0, 0.0, 0.0)}, {"a.phi": rate}, step=1e-3, **options)


def test_a_control_that_lags_and_one_that_is_integrated():
    """J φ̈ = g w: with T ẇ = u − w, φ = (g u/J) (t²/2 − T t + T² (1 − e^(−t/T))); with ẇ = u, φ = g u t³/6J."""
    g, u, lag = 2.0, 0.7, 0.15
    t = np.asarray(TIMES)
    run = turned(flywheel(drive=mbs.Actuator("pin", u, gain=(g, 0, 0), time_constant=lag)))
    phi = g * u / INERTIA * (t**2 / 2 - lag * t + lag**2 * (1 - np.exp(-t / lag)))
    np.testing.assert_allclose(run.position("a.phi"), phi, atol=1e-11)
    np.testing.assert_allclose(run.state("drive.activation"), u * (1 - np.exp(-t / lag)), atol=1e-10)
    run = turned(flywheel(drive=mbs.Actuator("pin", u, gain=(g, 0, 0), integrates=True)))
    np.testing.assert_allclose(run.position("a.phi"), g * u * t**3 / (6 * INERTIA), atol=1e-12)


def test_a_position_servo_is_a_spring_about_its_control():
    """As `JointSpring` in the plane, and in space from the other side of ±π, where the spring has been tested."""
    k, c = 30.0, 1.5
    for rest in (0.4, -0.9):
        servo = flywheel(servo=mbs.Actuator("pin", rest, gain=(k, 0, 0), bias=(0, -k, -c)))
        spring = flywheel(spring=mbs.JointSpring("pin", k, rest, c))
        np.testing.assert_allclose(turned(servo).q, turned(spring).q, atol=1e-13)
    pin = spatial.Revolute("ground", "a", (0, 0, 0), (0, 0, 0), (0, 0, 1))
    body = spatial.Body(mass=1.0, inertia=(1.0, 1.0, 1.0))
    start = {"a": spatial.coordinates()}
    found = []
    for force in (
        mbs.Actuator("pin", 3.5, gain=(k, 0, 0), bias=(0, -k, -c), middle=3.5),
        mbs.JointSpring("pin", k, 3.5, c),
    ):
        mech = mbs.Mechanism({"a": body}, {"pin": pin}, forces={"one": force})
        found.append(mbs.generalized_force(mech, start, jnp.zeros(6))[5])
    # 3.5 is reached the other way round: 3.5 − 2π is nearer.
    np.testing.assert_allclose(found, k * (3.5 - 2 * np.pi), rtol=1e-12)


def test_ranges():
    """Control, activation and effort stay within their ranges; the activation at its end does not wind up."""
    at = lambda **given: float(
        mbs.generalized_force(flywheel(one=mbs.Actuator("pin", **given)), {"a": (0, 0, 0.5)}, jnp.array([0, 0, 2.0]))[2]
    )
    assert at(control=3.0, gain=(2.0, 0, 0), control_range=(-1.0, 1.0)) == 2.0
    assert at(control=3.0, gain=(2.0, 0, 0), effort_range=(-1.0, 1.5)) == 1.5
    assert at(control=3.0, gain=(0, 0.5, -2.0)) == 3.0 * (0.25 - 4.0)
    wave = lambda state: jnp.where(state.t < 0.3, 10.0, -10.0)
    limited = mbs.Actuator("pin", wave, integrates=True, activation_range=(-0.4, 0.5))
    run = turned(flywheel(one=limited), jnp.array([0.0, 0.2, 0.35, 0.6]))
    # Full after 0.05 s; from 0.3 s on it falls at once.
    np.testing.assert_allclose(run.state("one.activation"), [0, 0.5, 0.0, -0.4], atol=0.02)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"time_constant": -1.0}, "time_constant must be positive"),
        ({"time_constant": 0.1, "integrates": True}, "exclude each other"),
        ({"effort_range": (2.0, 1.0)}, "effort_range: the lower end must be below"),
        ({"gain": (1.0, 2.0)}, r"gain must be an array of shape \(3,\)"),
    ],
)
def test_bad_actuators(given, message):
    with pytest.raises(ValueError, match=message):
        flywheel(one=mbs.Actuator("pin", 1.0, **given))


PLAY = {
    "torque_constant": 0.05,
    "resistance": 1.2,
    "ratio": 20.0,
    "inertia": 4e-5,
    "backlash": 0.05,
    "tooth_stiffness": 300.0,
    "tooth_damping": 0.4,
}
BACK_AND_FORTH = mbs.motion.Harmonic(amplitude=12.0, frequency=9.0)


def equations_with_play(t, y, inductance=None):
    """φ, φ̇, how far the rotor leads, its rate, and the current of a motor with play; written down here once more."""
    k, r, n, j = (PLAY[key] for key in ("torque_constant", "resistance", "ratio", "inertia"))
    _, rate, lead, own = y[:4]
    u = 12.0 * np.sin(9.0 * t)
    current = y[4] if inductance else (u - k * n * own) / r
    depth = abs(lead) - PLAY["backlash"] / 2
    closing = np.sign(lead) * (own - rate)
    pressed = 0.0 if depth < 0 else PLAY["tooth_stiffness"] * depth * max(1 + PLAY["tooth_damping"] * closing, 0)
    through = np.sign(lead) * pressed
    found = [rate, through / INERTIA, own - rate, (n * k * current - through) / (n**2 * j)]
    return [*found, (u - r * current - k * n * own) / inductance] if inductance else found


@pytest.mark.parametrize("inductance", [None, 2e-3])
def test_play_of_a_gearbox(inductance):
    """A motor that runs to and fro through its play, against the same equations solved by SciPy; energies balance."""
    mech = flywheel(motor=mbs.Motor("pin", voltage=BACK_AND_FORTH, inductance=inductance, **PLAY))
    run = mbs.simulate(mech, TIMES, {"a": (0.0, 0.0, 0.0)}, {"a.phi": 0.8}, step=1e-4)
    start = [0.0, 0.8, 0.0, 0.8] + [0.0] * (inductance is not None)
    found = solve_ivp(
        equations_with_play, (0, 0.6), start, t_eval=np.asarray(TIMES), rtol=1e-10, atol=1e-12, max_step=1e-3,
        args=(inductance,),
    )  # fmt: skip
    expected = dict(zip(("phi", "rate", "lead", "own"), found.y, strict=False))
    np.testing.assert_allclose(run.position("a.phi"), expected["phi"], atol=1e-6)
    np.testing.assert_allclose(run.state("motor.lead"), expected["lead"], atol=1e-6)
    np.testing.assert_allclose(run.state("motor.rate"), expected["own"], atol=1e-5)
    assert np.ptp(expected["lead"]) > PLAY["backlash"]  # both sides were touched


@pytest.mark.parametrize("formulation", [mbs.Augmented(), mbs.JointCoordinates()])
def test_power_of_a_motor_with_play(formulation):
    """Power of all forces is the rate of all kinetic energies, with the rotor's among them."""
    mech = flywheel(motor=mbs.Motor("pin", voltage=BACK_AND_FORTH, **PLAY))
    times = jnp.linspace(0.0, 0.3, 3001)
    run = mbs.simulate(mech, times, {"a": (0.0, 0.0, 0.0)}, {"a.phi": 0.8}, step=1e-4, formulation=formulation)
    power = mbs.force_elements(mech, run)["motor"].power
    kinetic = np.asarray(run.energy.kinetic)
    work = np.concatenate([[0], np.cumsum((power[1:] + power[:-1]) / 2 * 1e-4)])
    np.testing.assert_allclose(kinetic - kinetic[0], work, atol=2e-6 * np.abs(kinetic).max())


@pytest.mark.variant
def test_play_gradient():
    """The gradient by the play against differences."""

    def angle(play):
        mech = flywheel(motor=mbs.Motor("pin", voltage=BACK_AND_FORTH, **{**PLAY, "backlash": play}))
        return mbs.simulate(mech, TIMES, {"a": (0.0, 0.0, 0.0)}, step=1e-3).position("a.phi")[-1]

    found, h = jax.grad(angle)(0.05), 1e-6
    np.testing.assert_allclose(found, (angle(0.05 + h) - angle(0.05 - h)) / (2 * h), rtol=1e-5)


def test_play_needs_teeth():
    with pytest.raises(ValueError, match="backlash needs inertia and tooth_stiffness"):
        flywheel(motor=mbs.Motor("pin", 0.1, 1.0, 1.0, backlash=0.1))
    with pytest.raises(ValueError, match="tooth_stiffness needs a backlash"):
        flywheel(motor=mbs.Motor("pin", 0.1, 1.0, 1.0, tooth_stiffness=10.0))
