"""Haug 3.2, constraints between a body and the ground; Examples 3.2.1 and 3.2.2 are in `verification`."""

import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from haug_concepts import driven_pendulum


def test_pendulum_of_example_3_1_1_by_absolute_constraints():
    """With the pivot at the origin, a unit along y′, they are equations (3.1.5)."""
    mech = driven_pendulum((0, 0), (0, 1), mbs.motion.Harmonic(1.0, 1.0))
    for x, y, phi in [(0.2, 0.5, 0.3), (-1.0, 0.7, 2.6)]:
        q = jnp.array([x, y, phi])
        np.testing.assert_allclose(mbs.constraints(mech, q)[:2], [x - np.sin(phi), y + np.cos(phi)], atol=1e-15)
