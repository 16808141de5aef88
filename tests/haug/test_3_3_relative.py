"""Haug 3.3, constraints between pairs of bodies: the equations of Example 3.3.1; motions are in `verification`."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from haug_relative import CRANK_LENGTH, ROD_LENGTH, common_pin, two_body_slider_crank
from jaxmbs import planar


@eqx.filter_jit
def constraints(mech, q):
    return mbs.constraints(mech, q)


def test_example_3_3_1():
    """Absolute and relative x and y constraints: the equations of Example 3.1.2 (Problem 3.3.1)."""
    mech = two_body_slider_crank(lambda *ij: common_pin("P", *ij))
    q = jnp.array([0.1, -0.2, 0.7, 2.1, 0.3, 1.2])
    x1, y1, phi1, x2, y2, phi2 = np.asarray(q)
    # Example 3.1.2 writes r^P1 − r^P2, (3.3.1) and (3.3.3) the opposite.
    joint = [
        x1 - x2 + CRANK_LENGTH * np.cos(phi1) + ROD_LENGTH * np.sin(phi2),
        y1 - y2 + CRANK_LENGTH * np.sin(phi1) - ROD_LENGTH * np.cos(phi2),
    ]
    Phi = constraints(mech, q)
    np.testing.assert_allclose(Phi, [x1, y1, y2, -joint[0], -joint[1], phi1], atol=1e-14)
    revolute = two_body_slider_crank(lambda *ij: {"P": planar.Revolute(*ij)})
    np.testing.assert_allclose(constraints(revolute, q), [x1, y1, y2, *joint, phi1], atol=1e-14)
