"""Implicit methods under dry friction that changes within a fraction of a step, and with little damping."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
import spatial_problems
from jaxmbs import planar
from linkages import reference

TIMES = np.linspace(0, 0.05, 3)


def blocks(count, push, velocity=1e-4):
    """Blocks of 2 in a row, each on the one before, pressed with 20; the last one is pushed."""
    names = [f"b{k}" for k in range(count)]
    guides = {
        f"g{k}": planar.Translational(i, j, (0, 0), (0, 0), (1, 0))
        for k, (i, j) in enumerate(zip(["ground", *names], names, strict=False))
    }
    rubs = {f"f{name}": mbs.JointFriction(name, 1.0, velocity=velocity, preload=20.0) for name in guides}
    force = mbs.PointForce(names[-1], (0, 0), push)
    return mbs.Mechanism(dict.fromkeys(names, planar.Body(2.0, 0.3)), guides, forces={**rubs, "push": force})


@pytest.mark.parametrize("method", [mbs.GeneralizedAlpha(0.9), mbs.HHT(-0.1)], ids=["generalized-alpha", "HHT"])
def test_a_block_at_rest_creeps(method):
    """Under half of what would move it, it goes at the speed u v_t with tanh 4u = ½; under more it slides away."""

    @jax.jit
    def run(push):
        mech = blocks(1, lambda t, q, v: jnp.stack([push, 0.0]))
        return mbs.simulate(mech, np.array([0, 0.1, 0.125]), {"b0": (0, 0, 0)}, step=1e-3, method=method)

    still, creeping, sliding = run(0.0), run(10.0), run(25.0)
    assert not any(found.status.any() for found in (still, creeping, sliding))
    assert still.q[-1, 0] == 0
    np.testing.assert_allclose(creeping.q[-1, 0] - creeping.q[1, 0], 0.025 * 1e-4 * np.arctanh(0.5) / 4, rtol=1e-2)
    np.testing.assert_allclose(np.diff(sliding.v[:, 0])[1], 0.025 * (25 - 20) / 2, rtol=1e-9)


def test_friction_that_changes_its_direction_in_four_joints():
    """A force to and fro: every joint sticks and slides in turn."""
    mech = blocks(4, lambda t, q, v: jnp.stack([30 * jnp.sin(100 * t), 0.0]))
    start = dict.fromkeys(mech.bodies, (0, 0, 0))
    fine = mbs.simulate(mech, TIMES, start, step=1e-5)
    for method in (mbs.GeneralizedAlpha(0.9), mbs.GeneralizedAlpha(0.5)):
        run = mbs.simulate(mech, TIMES, start, step=1e-3, method=method)
        assert not run.status.any()
        assert np.abs(run.q - fine.q).max() < 0.1 * np.abs(fine.q).max()


def test_derivative_under_steep_friction():
    """By the push and the velocity of the law, against differences: to 1e-6, in both modes."""

    def place(x):
        push = lambda t, q, v: jnp.stack([x[0] * 30 * jnp.sin(100 * t), 0.0])
        method = mbs.GeneralizedAlpha(0.9)
        mech = blocks(2, push, 1e-2 * x[1])
        return mbs.simulate(mech, TIMES, {"b0": (0, 0, 0), "b1": (0, 0, 0)}, step=1e-3, method=method).q[-1, 3]

    x, value = jnp.ones(2), jax.jit(place)
    forward, reverse = jax.jit(jax.jacfwd(place))(x), jax.jit(jax.grad(place))(x)
    np.testing.assert_allclose(forward, reverse, rtol=1e-9)
    for k, d in enumerate(1e-4 * np.eye(2)):
        difference = (8 * (value(x + d) - value(x - d)) - (value(x + 2 * d) - value(x - 2 * d))) / 12e-4
        np.testing.assert_allclose(forward[k], difference, rtol=1e-6, atol=1e-6 * np.abs(forward).max())


def crank(rho, steps):
    """Haug 12.2 over 1 s."""
    given = reference("spatial_slider_crank")["rows_centre_of_mass_at_pivot"]
    mech, poses = spatial_problems.slider_crank()
    method = mbs.RK4() if rho is None else mbs.GeneralizedAlpha(rho)
    return mbs.simulate(mech, np.array([0, 1.0]), poses, {"crank.wx": given[0][4]}, step=1 / steps, method=method)


def test_spatial_slider_crank_with_little_damping():
    """Constraint forces do not grow in 125 steps, where hardly anything is damped."""
    assert not crank(0.99, 125).status.any()


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9, 0.99])
def test_order_for_any_damping(rho):
    """Order 2 in positions, velocities and multipliers; a rougher step converges, too."""
    assert not crank(rho, 125).status.any()
    # Without ρ∞ the term h³ is the larger one for longer.
    steps = 4000 if rho else 8000
    exact, coarse, fine = crank(None, 4000), crank(rho, steps), crank(rho, 2 * steps)
    error = lambda run, name: np.abs(getattr(run, name) - getattr(exact, name)).max()
    for name in ("q", "v", "multipliers"):
        assert abs(np.log2(error(coarse, name) / error(fine, name)) - 2) < 0.2, name
