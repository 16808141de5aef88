"""Two free bodies of the plane, their states and points."""

import jax.numpy as jnp
import numpy as np

from jaxmbs import planar

# Mass of the first body, whose centre of mass is beside its frame.
MASS = 2.0
# Moment of inertia of the first body.
INERTIA = 0.3
# Centre of mass of the first body.
COM = (0.2, -0.1)
# Two bodies; the second one has its centre of mass at its origin.
BODIES = {"a": planar.Body(MASS, INERTIA, COM), "b": planar.Body(1.1, 0.2)}
# Point of body i at which forces act.
P = (0.3, 0.4)
# Point of body j at which forces act.
S = (-0.5, 0.2)
# Time at which forces are evaluated.
T = 0.7
# Five random configurations and velocities of both bodies.
Q, V = np.random.default_rng(3).normal(size=(2, 5, 6))


def place(q, body, s):
    """Return a point of a body in the ground frame, for arrays of JAX and NumPy."""
    if body == "ground":
        return jnp.asarray(s)
    x, y, phi = q[:3] if body == "a" else q[3:]
    return jnp.stack([x + s[0] * jnp.cos(phi) - s[1] * jnp.sin(phi), y + s[0] * jnp.sin(phi) + s[1] * jnp.cos(phi)])


def close(found, expected, tolerance=1e-12):
    """Fail unless arrays are equal within `tolerance` times the largest expected value."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())
