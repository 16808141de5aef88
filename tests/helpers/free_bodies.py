"""Two free bodies of the plane, their states and points."""

import jax.numpy as jnp
import numpy as np

from jaxmbs import planar

# The first body has its centre of mass beside its frame, the second has not.
MASS = 2.0
INERTIA = 0.3
COM = (0.2, -0.1)
BODIES = {"a": planar.Body(MASS, INERTIA, COM), "b": planar.Body(1.1, 0.2)}
P, S = (0.3, 0.4), (-0.5, 0.2)
T = 0.7
Q, V = np.random.default_rng(3).normal(size=(2, 5, 6))


def place(q, body, s):
    """A point of a body in the ground frame, for jax and NumPy."""
    if body == "ground":
        return jnp.asarray(s)
    x, y, phi = q[:3] if body == "a" else q[3:]
    return jnp.stack([x + s[0] * jnp.cos(phi) - s[1] * jnp.sin(phi), y + s[0] * jnp.sin(phi) + s[1] * jnp.cos(phi)])


def close(found, expected, tolerance=1e-12):
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())
