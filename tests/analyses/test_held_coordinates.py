"""Assembly with coordinates that are held: they stay, and the derivative is that of what is returned."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from linkages import four_bar, four_bar_guess

DESIGN = {"ground": 3.5, "crank": 1.0, "coupler": 3.0, "rocker": 2.5}
ROUGH = {"crank": (0.5, 0.1, 0.7), "coupler": (2.0, 1.0, 0.6), "rocker": (3.0, 1.0, 1.9)}


def free(b):
    mech = four_bar({name: jnp.asarray(x) for name, x in b.items()})
    return mbs.Mechanism(mech.bodies, mech.constraints)


def test_held_coordinates_stay_what_they_are():
    found = mbs.assemble(free(DESIGN), ROUGH, hold=("crank.phi",))
    assert int(found.status) == mbs.Status.CONVERGED
    assert float(found.residual) < 1e-12
    np.testing.assert_allclose(found.q[2], 0.7, atol=1e-13)
    closed = four_bar_guess({name: jnp.asarray(x) for name, x in DESIGN.items()}, 0.7)
    np.testing.assert_allclose(found.q, free(DESIGN).coordinates(closed), atol=1e-12)


@pytest.mark.parametrize("length", DESIGN)
def test_the_derivative_is_that_of_what_is_returned(length):
    q = jax.jit(lambda x: mbs.assemble(free(DESIGN | {length: x}), ROUGH, hold=("crank.phi",)).q)
    h, at = 1e-5, DESIGN[length]
    difference = (q(at + h) - q(at - h)) / (2 * h)
    np.testing.assert_allclose(jax.jacfwd(q)(at), difference, atol=1e-8)
    np.testing.assert_allclose(jax.jacrev(q)(at), difference, atol=1e-8)


def test_the_guess_of_a_held_coordinate_moves_all():
    q = jax.jit(lambda x: mbs.assemble(free(DESIGN), {**ROUGH, "crank.phi": x}, hold=("crank.phi",)).q)
    h = 1e-5
    np.testing.assert_allclose(jax.jacfwd(q)(0.7), (q(0.7 + h) - q(0.7 - h)) / (2 * h), atol=1e-8)
    assert jax.jacfwd(q)(0.7)[2] == pytest.approx(1)


def test_what_cannot_be_held():
    with pytest.raises(ValueError, match=r"crank\.psi"):
        mbs.assemble(free(DESIGN), ROUGH, hold=("crank.psi",))
    # The pivot of the crank is where it is.
    apart = mbs.assemble(free(DESIGN), {**ROUGH, "crank": (3.0, 3.0, 0.7)}, hold=("crank.x",))
    assert int(apart.status) == mbs.Status.NOT_ASSEMBLED
