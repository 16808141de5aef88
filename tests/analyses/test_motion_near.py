"""The motion at one time, by Newton steps from a close estimate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from designed_four_bar import GUESS, PLAIN, SPEED, four_bar
from jaxmbs import planar
from jaxmbs.analyses.kinematics import motion_near


def test_it_is_that_of_kinematics_with_its_derivatives():
    """From a pose 0.05 rad away; the derivatives by lengths too."""
    t = jnp.asarray(0.4)
    near = mbs.kinematics(four_bar(PLAIN), jnp.array([0.4 - 0.05 / SPEED]), GUESS, throw=True).q[0]
    follow = lambda design: mbs.kinematics(four_bar(design), t[None], GUESS)
    correct = lambda design: motion_near(four_bar(design), t, near)
    parts = lambda run: (run.q, run.v, run.a)
    found, expected = correct(PLAIN), follow(PLAIN)
    assert found.status[0] == 0
    for a, b in zip(parts(found), parts(expected), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12 * np.abs(b).max())
    total = lambda run: sum(jnp.sum(jnp.sin(x)) for x in parts(run))
    found, expected = (jax.grad(lambda design, run=run: total(run(design)))(PLAIN) for run in (correct, follow))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10), found, expected)


@pytest.mark.parametrize(
    ("rod", "x", "status"),
    [
        (1.0, 0.0, mbs.Status.SINGULAR),  # folded, with the slider on the crank's axis
        (0.7, 0.0, mbs.Status.NOT_ASSEMBLED),  # the rod is too short for an upright crank of length 1
        (1.5, jnp.nan, mbs.Status.NON_FINITE),
    ],
)
def test_statuses(rod, x, status):
    pin, line = planar.Revolute, planar.Translational
    mech = mbs.Mechanism(
        {"crank": planar.Body(), "rod": planar.Body(), "slider": planar.Body()},
        {
            "O": pin("ground", "crank", (0, 0), (0, 0)),
            "A": pin("crank", "rod", (1, 0), (-rod / 2, 0)),
            "B": pin("rod", "slider", (rod / 2, 0), (0, 0)),
            "guide": line("ground", "slider", (0, 0), (0, 0), (1, 0), (1, 0)),
        },
        {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Constant(jnp.pi / 2))},
    )
    upright = (
        mech.coordinates({"crank": (0, 0, jnp.pi / 2), "rod": (0, 0.5, -jnp.pi / 2), "slider": (0, 0, 0)}).at[6].set(x)
    )
    assert motion_near(mech, jnp.asarray(0.0), upright).status[0] == status
