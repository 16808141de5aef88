"""Batches of simulations: samples that fail leave the others alone; programs, types, statuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from dynamic_problems import four_bar, four_bar_design, four_bar_start, pendulum, pendulum_start
from jaxmbs import Status, planar
from jaxmbs.programs import EMISSIONS
from linkages import reference

TIMES = np.linspace(0, 0.05, 6)


@pytest.fixture(scope="module")
def run():
    """speed, gain ↦ a four-bar whose rocker is driven by gain·φ̇³, which blows up."""
    start, b = reference("planar_four_bar_dynamics")["initial_state"], four_bar_design()
    angles = np.array([np.deg2rad(start["theta2_deg"]), start["theta3"], start["theta4"]])
    mech = four_bar(b)
    q = mech.coordinates(four_bar_start(b, angles))

    def one(speed, gain):
        kick = mbs.UserForce(lambda state: jnp.zeros_like(state.v).at[8].set(gain * state.v[8] ** 3))
        bad = mbs.Mechanism(mech.bodies, mech.constraints, forces={**mech.forces, "kick": kick})
        return mbs.simulate(bad, TIMES, q, {"crank.phi": speed}, step=1e-3)

    return one


SPEEDS = jnp.linspace(3.0, 6.0, 29)
GAINS = jnp.where(jnp.arange(29) % 5 == 2, 1e3, 0.0)


def test_samples_that_blow_up_are_flagged_and_the_rest_is_the_same_bit_for_bit(run):
    every = jax.jit(jax.vmap(run))
    all_of_them, good = every(SPEEDS, GAINS), np.asarray(GAINS) == 0
    alone = every(SPEEDS[good], GAINS[good])
    assert (all_of_them.status[~good, -1] == Status.NON_FINITE).all()
    assert (all_of_them.status[~good, 0] == Status.CONVERGED).all()
    assert not all_of_them.status[good].any()
    for name in ("q", "v", "a", "multipliers"):
        values = np.asarray(getattr(all_of_them, name))
        assert np.isfinite(values).all()
        assert np.array_equal(values[good], np.asarray(getattr(alone, name)))


def test_failed_samples_have_finite_gradients(run):
    """They are constant from their failure on, and spoil no sum of gradients over a batch."""
    loss = lambda speeds: jnp.sum(jax.vmap(run)(speeds, GAINS).q[:, -1, 2])
    gradient = jax.jit(jax.grad(loss))(SPEEDS)
    assert jnp.isfinite(gradient).all()
    good = np.asarray(GAINS) == 0
    alone = jax.jit(jax.grad(lambda s: jnp.sum(jax.vmap(run)(s, jnp.zeros(good.sum())).q[:, -1, 2])))(SPEEDS[good])
    np.testing.assert_array_equal(gradient[good], alone)


def test_a_number_that_is_not_finite_gives_a_status():
    b = {"mass": 1.0, "g": 9.81}
    one = lambda x: mbs.simulate(pendulum({**b, "length": x}), TIMES, {"bob": (0, -1, 0.0)}, step=1e-2)
    motion = jax.vmap(one)(jnp.array([1.0, jnp.nan, 1.2]))
    assert (motion.status[1] == Status.NON_FINITE).all()
    assert not motion.status[0].any()
    assert np.isfinite(motion.q).all()


def test_a_start_that_cannot_be_assembled():
    far = {"bob": (50.0, 3.0, 0.0)}
    bars = planar.Distance("ground", "bob", (0, 0), (0, 0), 1.0), planar.Distance("ground", "bob", (5, 0), (0, 0), 1.0)
    mech = mbs.Mechanism({"bob": planar.Body()}, {"near": bars[0], "far": bars[1]})
    motion = mbs.simulate(mech, TIMES, far, step=1e-2)
    assert (motion.status == Status.NOT_ASSEMBLED).all()
    with pytest.raises(mbs.AnalysisError, match="NOT_ASSEMBLED"):
        mbs.simulate(mech, TIMES, far, step=1e-2, throw=True)


def test_a_driver_that_locks_the_mechanism_up():
    """A rocker–rocker driven past its dead centre: the motion ends with a status, at the last good state."""
    rod = lambda length: planar.Body(length, length**3 / 12)
    mech = mbs.Mechanism(
        {"a": rod(1.0), "b": rod(1.0), "c": rod(1.0)},
        {
            "O": planar.Revolute("ground", "a", (0, 0), (-0.5, 0)),
            "A": planar.Revolute("a", "b", (0.5, 0), (-0.5, 0)),
            "B": planar.Revolute("b", "c", (0.5, 0), (0.5, 0)),
            "C": planar.Revolute("ground", "c", (2.5, 0), (-0.5, 0)),
        },
        {"motor": planar.RevoluteDriver("ground", "a", mbs.motion.Ramp(1.0, 0.5))},
    )
    start = mbs.assemble(mech, {"a": (0.4, 0.2, 0.5), "b": (1.3, 0.7, 0.2), "c": (2.1, 0.5, 2.0)}, throw=True)
    motion = mbs.simulate(mech, np.linspace(0, 2, 21), start, step=1e-3)
    assert not motion.status[:2].any()
    assert motion.status[-1] != Status.CONVERGED
    assert np.isfinite(motion.q).all()
    last = np.flatnonzero(np.asarray(motion.status) == 0)[-1]
    assert (np.diff(np.asarray(motion.status) != 0) >= 0).all()
    assert np.abs(mbs.constraints(mech, motion.q[last], motion.t[last])).max() < 1e-9


@pytest.mark.one_in(2)
@pytest.mark.parametrize("method", [mbs.RK4(), mbs.GeneralizedAlpha(0.9)], ids=["RK4", "generalized-alpha"])
def test_emissions_agree(method):
    """LLVM, XLA, a GPU's kernels and array code: the same motion to rounding."""
    b = {"mass": 1.0, "length": 1.01, "g": 9.81}
    found = []
    for emission in EMISSIONS:
        with mbs.emission(emission):
            motion = mbs.simulate(pendulum(b), TIMES, pendulum_start(b, 1.0), step=5e-3, method=method)
            found.append(np.asarray(motion.position("bob.phi")))
    np.testing.assert_allclose(found[1:], [found[0]] * (len(found) - 1), rtol=0, atol=1e-13)


def test_in_single_precision():
    """float32: closed to its rounding, near the motion in float64."""
    b = {"mass": 1.0, "length": 1.0, "g": 9.81}
    start = pendulum_start(b, 1.0)
    exact = mbs.simulate(pendulum(b), TIMES, start, step=1e-3)
    start = {name: jnp.asarray(x, jnp.float32) for name, x in start.items()}
    motion = mbs.simulate(pendulum(b).astype(jnp.float32), TIMES.astype(np.float32), start, step=1e-3)
    assert motion.q.dtype == jnp.float32
    assert not motion.status.any()
    np.testing.assert_allclose(motion.q, exact.q, rtol=0, atol=3e-5)


def test_as_part_of_a_program(agree):
    """`mbs.program` takes a whole simulation in, known zeros and all; values and gradients stay."""
    b = {"mass": 1.0, "g": 9.81}

    def loss(x):
        start = pendulum_start({"length": x}, 1.0)
        return jnp.sum(mbs.simulate(pendulum({**b, "length": x}), TIMES, start, step=1e-2).q)

    whole = mbs.program(loss)
    agree(whole(jnp.asarray(1.1)), loss(jnp.asarray(1.1)), 1e-12)
    agree(jax.grad(whole)(jnp.asarray(1.1)), jax.grad(loss)(jnp.asarray(1.1)), 1e-11)
