"""Bristles: a joint that sticks, the linear oscillator that it is then, steady sliding, and where it lets go."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar

MASS = 2.0
STIFFNESS = 1e4
DYNAMIC = 3.0
STATIC = 5.0
START = {"block": (0, 0, 0)}


def block(push, **more):
    """A block of 2 on a rail, with a push along it that comes slowly."""
    pushes = lambda state: push * (1 - jnp.exp(-2 * state.t)) if not callable(push) else push(state)
    rub = {"dynamic": DYNAMIC, "static": STATIC, "velocity": 0.01, "stiffness": STIFFNESS, "damping": 200.0} | more
    return mbs.Mechanism(
        bodies={"block": planar.Body(mass=MASS, inertia=0.3)},
        constraints={"guide": planar.Translational("ground", "block", (0, 0), (0, 0), (1, 0))},
        forces={"push": mbs.PointForce("block", (0, 0), (pushes, 0.0)), "rub": mbs.BristleFriction("guide", **rub)},
    )


def test_it_sticks_as_a_spring():
    """Below break-away the block comes to rest: σ₀ z is the push, and it does not creep."""
    run = mbs.simulate(block(4.5), jnp.array([0.0, 12.0, 14.0]), START, step=2e-3)
    np.testing.assert_allclose(run.state("rub.deflection")[1:], 4.5 / STIFFNESS, rtol=1e-8)
    assert np.abs(run.velocity("block.x")[1:]).max() < 1e-10
    rub = mbs.force_elements(block(4.5), run)["rub"]
    np.testing.assert_allclose(rub.force[1:], -4.5, rtol=1e-8)


def test_small_pushes_make_a_linear_oscillator():
    """m ẍ + (σ₁ + c) ẋ + σ₀ x = F for x ≪ g/σ₀, solved in closed form."""
    push, damping = 1e-6, 40.0
    times = np.linspace(0, 0.2, 21)
    run = mbs.simulate(block(lambda _: push, damping=30.0, viscous=10.0), times, START, step=5e-5)
    decay, rate = damping / (2 * MASS), np.sqrt(STIFFNESS / MASS - (damping / (2 * MASS)) ** 2)
    wave = np.exp(-decay * times) * (np.cos(rate * times) + decay / rate * np.sin(rate * times))
    np.testing.assert_allclose(run.joint("guide").slide, push / STIFFNESS * (1 - wave), atol=1e-6 * push / STIFFNESS)


def test_it_slides_steadily():
    """F = g(ẋ) + c ẋ: far above Stribeck's velocity F_d + c ẋ."""
    run = mbs.simulate(block(9.0, viscous=20.0), jnp.array([0.0, 12.0]), START, step=5e-4)
    np.testing.assert_allclose(run.velocity("block.x")[-1], (9.0 - DYNAMIC) / 20.0, rtol=1e-8)
    assert run.state("rub.deflection")[-1] == pytest.approx(DYNAMIC / STIFFNESS, rel=1e-8)


def test_it_breaks_away_at_its_static_effort():
    """Of pushes around F_s in one batch, those below it hold, those above slide."""
    pushes = jnp.array([4.8, 4.95, 5.05, 5.2])
    sliding = lambda push: block(push, viscous=20.0)
    end = lambda push: mbs.simulate(sliding(push), np.array([0.0, 6.0]), START, step=1e-3).velocity("block.x")[-1]
    speed = np.asarray(jax.vmap(end)(pushes))
    assert (np.abs(speed[:2]) < 1e-5).all()
    assert (speed[2:] > 0.05).all()


def test_its_numbers_are_differentiated():
    """Through a run that slides, sticks and slides back, against central differences."""

    def end(x):
        push = lambda state: 8.0 * jnp.cos(4.0 * state.t)
        mech = block(push, dynamic=x[0], static=x[1], stiffness=x[2], damping=x[3])
        return mbs.simulate(mech, np.array([0.0, 0.8]), START, step=5e-4, formulation=mbs.JointCoordinates()).q[-1, 0]

    x = jnp.array([DYNAMIC, STATIC, STIFFNESS, 200.0])
    slope = jax.jit(jax.grad(end))(x)
    value = jax.jit(end)
    for k, step in enumerate((1e-4, 1e-4, 1e-1, 1e-2)):
        e = jnp.zeros(4).at[k].set(step)
        difference = float(value(x + e) - value(x - e)) / (2 * step)
        assert float(slope[k]) == pytest.approx(difference, rel=1e-5, abs=1e-12)


BAD = {
    "stiffness must be a number, got None": {"stiffness": None},
    "velocity is missing": {"velocity": None},
    "dynamic must be positive": {"dynamic": 0.0},
    "static must not be below dynamic": {"static": 1.0},
    "damping must not be negative": {"damping": -1.0},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_named(message):
    with pytest.raises(ValueError, match=f"force 'rub' .*{message}"):
        block(1.0, **BAD[message])
