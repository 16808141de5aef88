"""Drivers that are not finite from some time on: the status NON_FINITE, and a message with the driver and the time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial

TIMES = np.linspace(0, 2, 11)
ENDS = mbs.motion.Function(lambda t: jnp.where(t < 1.2, t, jnp.nan))


def slider_crank(motion=ENDS):
    return mbs.Mechanism(
        {name: planar.Body() for name in ("crank", "rod", "slider")},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "rod", (1, 0), (0, 0)),
            "B": planar.Revolute("rod", "slider", (2, 0), (0, 0)),
            "guide": planar.Translational("ground", "slider", (0, 0), (0, 0), (1, 0), (1, 0)),
        },
        {"motor": planar.RevoluteDriver("ground", "crank", motion)},
    )


def drum(motion=ENDS):
    return mbs.Mechanism(
        {"drum": spatial.Body()},
        {"hinge": spatial.Revolute("ground", "drum")},
        {"motor": spatial.RevoluteDriver("ground", "drum", motion=motion)},
    )


CASES = {"plane": (slider_crank, {"slider": (3, 0, 0)}), "space": (drum, None)}


@pytest.fixture(params=CASES.values(), ids=CASES, scope="module")
def case(request):
    return request.param


def test_kinematics(case):
    build, guess = case
    motion = mbs.kinematics(build(), TIMES, guess)
    np.testing.assert_array_equal(motion.status, np.where(TIMES < 1.2, mbs.Status.CONVERGED, mbs.Status.NON_FINITE))
    assert str(motion.explain_failure()) == "NON_FINITE at t = 1.2, all is well until t = 1\n  not finite: 'motor'"
    with pytest.raises(mbs.AnalysisError, match=r"NON_FINITE at t = 1\.2(.|\n)*'motor'"):
        mbs.kinematics(build(), TIMES, guess, throw=True)


def test_assembly(case):
    build, guess = case
    found = mbs.assemble(build(), guess, 1.5)
    assert found.status == mbs.Status.NON_FINITE
    assert str(found.explain_failure()) == "NON_FINITE at t = 1.5, from the start\n  not finite: 'motor'"
    with pytest.raises(ValueError, match="not finite: 'motor'"):
        mbs.diagnose(build(), found.q, 1.5)
    assert set(mbs.kinematics(build(), TIMES[:3] + 1.5, guess).status.tolist()) == {mbs.Status.NON_FINITE}


def test_it_is_no_lock_up(case):
    build, guess = case
    assert mbs.find_singularities(build(), TIMES, guess).kinds == ()
    with pytest.raises(ValueError, match="NON_FINITE"):
        mbs.find_singularities(build(), TIMES + 1.5, guess)


def test_simulation(case):
    build, guess = case
    run = mbs.simulate(build(), TIMES, guess, step=0.1)
    np.testing.assert_array_equal(run.status, np.where(TIMES < 1.2, 0, mbs.Status.NON_FINITE))
    assert str(run.explain_failure()) == "NON_FINITE at t = 1.2, all is well until t = 1\n  not finite: 'motor'"


def test_inside_transformations():
    """Functions that need numbers say where they work and what to do instead."""
    build = lambda rate: slider_crank(mbs.motion.Ramp(rate))
    guess, inside = {"slider": (3, 0, 0)}, "outside jit, vmap and grad only; inside, "
    with pytest.raises(ValueError, match=f"^diagnose works {inside}look at `constraint_jacobian`"):
        jax.vmap(lambda rate: mbs.diagnose(build(rate), guess).rank)(np.ones(2))
    with pytest.raises(ValueError, match=f"^find_singularities works {inside}read `.status`"):
        jax.vmap(lambda rate: mbs.find_singularities(build(rate), TIMES, guess).times)(np.ones(2))
    calls = (
        lambda rate: mbs.kinematics(build(rate), TIMES[:2], guess, throw=True).q.sum(),
        lambda rate: mbs.assemble(build(rate), guess, throw=True).q.sum(),
        lambda rate: mbs.simulate(build(rate), TIMES[:2], guess, step=0.1, throw=True).q.sum(),
    )
    for call in calls:
        for transformed in (jax.grad(call), jax.jit(call)):
            with pytest.raises(ValueError, match=f"^throw=True works {inside}read `.status`"):
                transformed(1.0)
