"""Derivatives through contacts: against closed forms, and differences over many phases of the steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial
from jaxmbs.dynamics.methods.method import ScaledEquations
from jaxmbs.forces.joint.contact import BLENDED_STEPS, positive_part

GRAVITY = 9.81
SLOW = pytest.mark.slow


def values_and_slopes(function, s):
    """f(s) and df/ds for a row of numbers, in one program."""
    return jax.jit(jax.vmap(lambda s: jax.jvp(function, (s,), (jnp.ones_like(s),))))(s)


def bounced(z_0, stiffness, time):
    """Height at a time of a unit mass that falls from z₀ onto a linear spring and leaves it again."""
    fallen, omega = jnp.sqrt(2 * z_0 / GRAVITY), jnp.sqrt(stiffness)
    speed = GRAVITY * fallen
    touching = (2 * jnp.pi - 2 * jnp.arctan2(speed / omega, GRAVITY / stiffness)) / omega
    left = time - fallen - touching
    return speed * left - GRAVITY * left**2 / 2


def dropped(method, formulation, step, stiffness, time=0.8):
    """z after a bounce by the height z₀."""
    guide = spatial.Prismatic("ground", "a", axis_i=(0, 0, 1))
    stop = mbs.JointStop("rail", lower=0.0, stiffness=stiffness, exponent=1.0)
    weight = mbs.Gravity((0, 0, -GRAVITY))
    mech = mbs.Mechanism({"a": spatial.Body(mass=1.0)}, {"rail": guide}, forces={"weight": weight, "stop": stop})

    def height(z_0):
        start = {"a": spatial.coordinates(jnp.array([0.0, 0.0, 1.0]) * z_0)}
        run = mbs.simulate(mech, np.array([0.0, time]), start, step=step, method=method, formulation=formulation)
        return run.position("a.z")[-1]

    return height


@pytest.mark.parametrize(
    ("method", "formulation", "step", "stiffness", "tolerance"),
    [
        (mbs.RK4(), mbs.JointCoordinates(), 1e-4, 1e6, 1e-4),
        (mbs.RK4(), mbs.JointCoordinates(), 5e-5, 1e6, 2e-5),
        (mbs.GeneralizedAlpha(0.9), mbs.JointCoordinates(), 1e-4, 1e6, 1e-3),
        pytest.param(mbs.RK4(), mbs.Augmented(), 1e-5, 1e8, 1e-3, marks=SLOW),
        pytest.param(mbs.HHT(-0.1), mbs.Augmented(), 1e-4, 1e6, 1e-3, marks=SLOW),
        pytest.param(mbs.SemiImplicitEuler(), mbs.Kane(), 1e-4, 1e6, 2e-3, marks=SLOW),
        pytest.param(mbs.CoordinatePartitioning(), mbs.Natural(), 1e-4, 1e6, 1e-4, marks=SLOW),
        pytest.param(mbs.Adaptive(contact_step=1e-4), mbs.Augmented(), None, 1e6, 3e-3, marks=SLOW),
    ],
)
def test_bounce_on_a_linear_stop(method, formulation, step, stiffness, tolerance):
    """dz/dz₀ after a contact of thirty or sixty steps, wherever in a step it begins: 0.53, not noise."""
    heights = 1 + 4.43 * (1e-4 if step is None else step) * jnp.linspace(0, 1, 6)
    z, slope = values_and_slopes(dropped(method, formulation, step, stiffness), heights)
    wanted, wanted_slope = values_and_slopes(lambda z_0: bounced(z_0, stiffness, 0.8), heights)
    np.testing.assert_allclose(z, wanted, atol=1e-4)
    np.testing.assert_allclose(slope, wanted_slope, rtol=tolerance)


def many_laws(s):
    """Places of bodies behind contacts, a clutch and dry friction, by a factor s of their initial velocities."""
    body = planar.Body(mass=1.0, inertia=1.0)
    slide = lambda name: planar.Translational("ground", name, (0, 0), (0, 0))
    pin = lambda name: planar.Revolute("ground", name, (0, 0), (0, 0))
    play = {"clearance": 0.01, "restitution": 0.9, "impact_velocity": 1.0}
    velocities = {
        "pin": (1.0, 0.3, 0.0),
        "rubbing": (0.8, 0.5, 0.0),
        "clutched": (0.0, 0.0, 1.0),
        "dry": (2.0, 0.0, 0.0),
        "geared": (0.0, 0.0, 1.0),
        "hertz": (1.0, 0.0, 0.0),
        "range": (1.0, 0.0, 0.0),
        "thrown": (0.3, -1.0, 2.0),
    }
    constraints = {
        "level": planar.AbsoluteAngle("pin", 0.0),
        "hub": pin("clutched"),
        "bed": slide("dry"),
        "shaft": pin("geared"),
        "anvil": slide("hertz"),
        "track": slide("range"),
    }
    rub = {"friction": 0.1, "velocity": 0.05, "radius": 0.05}
    gears = {"inertia": 1.0, "backlash": 0.002, "tooth_stiffness": 1e6, "tooth_damping": 0.1}
    forces = {
        "play": mbs.ClearanceRevolute("ground", "pin", stiffness=1e6, exponent=1.0, **play),
        "rub": mbs.ClearanceRevolute("ground", "rubbing", stiffness=1e7, **play, **rub),
        "clutch": mbs.OneWayClutch("hub", damping=200.0),
        "load": mbs.Torque("clutched", -30.0),
        "friction": mbs.JointFriction("bed", dynamic=0.5, velocity=0.02, preload=10.0),
        "spring": mbs.JointSpring("bed", 1000.0),
        "motor": mbs.Motor("shaft", torque_constant=3.0, resistance=1.0, voltage=0.0, **gears),
        "hill": planar.OutlineContact(
            "ground",
            "thrown",
            (0, -0.25),
            None,
            planar.SplineOutline((0.2, 0.16, 0.2, 0.16)),
            planar.FunctionOutline(0.06),
            stiffness=1e7,
            restitution=0.9,
        ),
        "buffer": mbs.JointStop("anvil", upper=0.05, stiffness=1e7, damping=0.2),
        "end": mbs.JointStop("track", upper=0.05, stiffness=1e6, exponent=1.0, viscous=400.0),
    }
    mech = mbs.Mechanism(dict.fromkeys(velocities, body), constraints, forces=forces)
    v = s * jnp.concatenate([jnp.array(v) for v in velocities.values()])
    run = mbs.simulate(mech, np.array([0.0, 0.1]), dict.fromkeys(velocities, (0, 0, 0)), v, step=1e-4)
    return dict(zip(velocities, jnp.split(run.q[-1], len(velocities)), strict=True))


def test_contacts_clutches_and_friction():
    """Derivatives at several phases of the steps as differences over many phases, to 0.2 %."""
    near, far = 1 + jnp.linspace(0, 1e-3, 4), 2e-3
    values, slopes = values_and_slopes(many_laws, jnp.concatenate([near - far, near, near + far]))
    for name, value in values.items():
        before, _, after = np.split(np.asarray(value), 3)
        wide, slope = (after - before) / (2 * far), np.split(np.asarray(slopes[name]), 3)[1]
        np.testing.assert_allclose(slope, wide, atol=2e-3 * np.max(np.abs(wide)), err_msg=name)


def test_blended_positive_part():
    """As it stands beyond three widths, never negative; slopes that are summed step by step do not depend on the phase."""
    width, none = jnp.array(0.2), jnp.array(0.0)
    blended, slope, by_width = (
        jax.jit(jax.vmap(f, (0, None))) for f in (positive_part, jax.grad(positive_part, 0), jax.grad(positive_part, 1))
    )
    beyond = jnp.array([-1.0, -1.01, 1.01, 1.0]) * width * BLENDED_STEPS / 2
    np.testing.assert_allclose(blended(beyond, width), jnp.maximum(beyond, 0), atol=1e-16)
    np.testing.assert_array_equal(blended(beyond, none), jnp.maximum(beyond, 0))
    assert jnp.all(jnp.isfinite(by_width(beyond, none)))
    assert jnp.all(blended(jnp.linspace(-1, 1, 101), width) >= 0)
    steps = jnp.arange(-5, 6) * width
    for phase in (0.0, 0.03, 0.11, 0.17):
        np.testing.assert_allclose(jnp.sum(slope(steps + phase, width) - (steps >= 0)), phase / width - 0.5, atol=1e-12)


def test_equations_without_contacts_stay():
    """Nothing is added to a mechanism in which nothing touches."""
    spring = mbs.JointSpring("pin", 1.0)
    free = {"pin": planar.Revolute("ground", "a", (0, 0), (0, 0))}
    equations = mbs.Augmented().equations(mbs.Mechanism({"a": planar.Body()}, free, forces={"spring": spring}))
    scaled = ScaledEquations(equations, jnp.ones(()), jnp.ones(2), 1e-3)
    assert scaled.in_steps(jnp.array(1e-3)).equations is equations
