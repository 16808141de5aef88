"""Explanations of failures: samples, times, gaps by name, singular values, the nearest lock-up."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial

LENGTHS = {"crank": 1.0, "coupler": 3.0, "rocker": 2.5, "ground": 3.5}
TIMES = np.linspace(0, 1, 51)
GUESS = {"crank": (0.5, 0, 0), "coupler": (2, 1, 1), "rocker": (3, 1, 2)}


def four_bar(b):
    half, back = ({name: (sign * b[name] / 2, 0) for name in b} for sign in (1, -1))
    return mbs.Mechanism(
        {name: planar.Body() for name in ("crank", "coupler", "rocker")},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), back["crank"]),
            "A": planar.Revolute("crank", "coupler", half["crank"], back["coupler"]),
            "B": planar.Revolute("coupler", "rocker", half["coupler"], half["rocker"]),
            "C": planar.Revolute("ground", "rocker", (b["ground"], 0), back["rocker"]),
        },
        {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(rate=2 * jnp.pi))},
    )


def lock_up(b):
    """The time at which coupler and rocker are in line."""
    far = (b["coupler"] + b["rocker"]) ** 2
    cosine = (b["crank"] ** 2 + b["ground"] ** 2 - far) / (2 * b["crank"] * b["ground"])
    return np.arccos(cosine) / (2 * np.pi)


@pytest.fixture(scope="module")
def ended():
    return mbs.kinematics(four_bar(LENGTHS | {"crank": 2.9}), TIMES, GUESS)


def test_a_motion_that_ends_says_when_and_why(ended):
    found = ended.explain_failure()
    (failure,) = found.first
    expected = lock_up(LENGTHS | {"crank": 2.9})
    assert failure.status == mbs.Status.LOCKED_UP
    assert failure.reached < expected < failure.time
    np.testing.assert_allclose(failure.lock_up, expected, atol=0.15 * (failure.time - failure.reached))
    # Only the driver goes on; by how much is the angle that the crank falls short of.
    assert next(iter(failure.gaps)) == "motor"
    np.testing.assert_allclose(failure.gaps["motor"], 2 * np.pi * (failure.time - failure.reached), rtol=1e-9)
    row = int(np.argmax(ended.status != 0))
    expected = mbs.diagnose(four_bar(LENGTHS | {"crank": 2.9}), ended.q[row], ended.t[row]).singular_values
    np.testing.assert_allclose(failure.singular_values, expected, rtol=1e-12)
    text = str(found)
    assert text.startswith(f"LOCKED_UP at t = {failure.time:.6g}, all is well until t = {failure.reached:.6g}\n")
    assert "largest gaps: 'motor' 0.126\n" in text
    assert "nearest lock-up: about t = 0.3" in text


def test_too_few_steps_are_no_lock_up():
    """A pendulum that falls, and speeds up as something that locks up does, has all of its constraints."""
    pin = planar.Revolute("ground", "bob", (0, 0), (-1, 0))
    mech = mbs.Mechanism({"bob": planar.Body()}, {"pin": pin}, forces={"weight": mbs.Gravity((0, -9.81))})
    method = mbs.Adaptive(1e-9, 1e-9, max_steps=10)
    run = mbs.simulate(mech, np.linspace(0, 10, 101), {"bob": (1, 0, 0)}, method=method)
    (failure,) = run.explain_failure().first
    assert failure.status == mbs.Status.NOT_CONVERGED
    assert failure.lock_up is None
    assert "nearest lock-up" not in str(run.explain_failure())


def test_nothing_failed():
    run = mbs.kinematics(four_bar(LENGTHS), TIMES[:3], GUESS)
    assert not run.explain_failure()
    assert str(run.explain_failure()) == "nothing failed"
    assert str(mbs.assemble(four_bar(LENGTHS), GUESS).explain_failure()) == "nothing failed"


def test_what_cannot_be_assembled_names_the_largest_gap():
    # Pins too far apart: the whole lack is somewhere, in joints that stay open.
    mech = four_bar(LENGTHS | {"ground": 9.0})
    assembly = mbs.assemble(mech, GUESS)
    (failure,) = assembly.explain_failure().first
    gaps = np.abs(mbs.constraints(mech, assembly.q))
    assert failure.reached is None
    assert failure.gaps == {name: float(gaps[mech.layout.row_slices[name]].max()) for name in failure.gaps}
    np.testing.assert_allclose(next(iter(failure.gaps.values())), assembly.residual)
    with pytest.raises(
        mbs.AnalysisError, match=r"(?s)assembly \(residual.*NOT_ASSEMBLED\n.*largest gaps: '[OAB]' 0.625"
    ):
        mbs.assemble(mech, GUESS, throw=True)


def test_batches_name_samples_and_count_them():
    cranks = jnp.array([1.0, 2.9, jnp.nan, 9.0, 2.9, 2.8])
    one = lambda crank: mbs.kinematics(four_bar(LENGTHS | {"crank": crank}), TIMES, GUESS)
    runs = jax.jit(jax.vmap(one))(cranks)
    found = runs.explain_failure()
    assert found.samples == 6
    assert found.counts == {mbs.Status.LOCKED_UP: 4, mbs.Status.NON_FINITE: 1}
    assert [failure.sample for failure in found.first] == [(1,), (2,), (3,)]
    assert found.first[1].not_finite == ("O", "A")
    alone = one(2.9).explain_failure().first[0]
    assert found.first[0].gaps == pytest.approx(alone.gaps, abs=1e-9)
    assert found.first[0].lock_up == pytest.approx(alone.lock_up)
    text = str(found)
    assert text.startswith("5 of 6 samples failed: 4 LOCKED_UP, 1 NON_FINITE\nsample 1: LOCKED_UP at t = ")
    assert text.endswith("… and 2 more")
    starts = jax.vmap(lambda crank: mbs.assemble(four_bar(LENGTHS | {"crank": crank}), GUESS))(cranks)
    assert starts.explain_failure().first[0].not_finite == ("O", "A")


def test_the_error_of_a_simulation_explains():
    near, far = (spatial.Distance("ground", "bob", (x, 0, 0), (0, 0, 0), 1.0) for x in (0.0, 5.0))
    mech = mbs.Mechanism({"bob": spatial.Body()}, {"near": near, "far": far})
    with pytest.raises(
        mbs.AnalysisError, match=r"(?s)simulation: NOT_ASSEMBLED\n.*largest gaps: '(near|far)' .*singular"
    ) as error:
        mbs.simulate(mech, TIMES[:3], {"bob.x": 2.4}, step=0.02, throw=True)
    assert "at t = 0, from the start" in str(error.value)


def test_a_motion_that_grows_without_bound():
    mech = mbs.Mechanism({"a": planar.Body()}, forces={"pump": mbs.UserForce(lambda state: 1e4 * state.v**3)})
    run = mbs.simulate(mech, TIMES, None, {"a.phi": 5.0}, step=0.02)
    assert "or the motion grew without bound" in str(run.explain_failure())


def test_inside_of_a_transformation():
    ask = lambda t: mbs.kinematics(four_bar(LENGTHS), t, GUESS).explain_failure()
    with pytest.raises(ValueError, match=r"explained outside jit, vmap and grad only; inside, read `.status`"):
        jax.jit(ask)(TIMES[:2])
