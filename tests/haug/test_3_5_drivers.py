"""Haug 3.5, driving constraints: Examples 3.5.1 to 3.5.5 against their closed-form solutions."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from haug_drivers import CYLINDER, ROOT3, excavator


@eqx.filter_jit
def equations(mech, q, t):
    """Φ, Φ_q, ν; compiled once per mechanism."""
    return mbs.constraints(mech, q, t), mbs.constraint_jacobian(mech, q, t), mbs.velocity_rhs(mech, q, t)


# Examples 3.5.3 and 3.5.4: an excavator's boom and arm.


def test_example_3_5_3_equations():
    """Φ of (3.5.9), Φ_q and ν of (3.5.10)."""
    t, (phi1, x2, y2, phi2) = 0.7, (0.8, 2.1, 2.9, 0.3)
    Phi, matrix, nu = equations(excavator(CYLINDER), jnp.array([0, 0, phi1, x2, y2, phi2]), jnp.asarray(t))
    s, c = np.sin(phi1), np.cos(phi1)
    s30, c30 = np.sin(phi1 + np.pi / 6), np.cos(phi1 + np.pi / 6)
    u, v = 2 * c30 - (x2 - 0.5 * np.sin(phi2)), 2 * s30 - (y2 + 0.5 * np.cos(phi2))
    expected = [
        x2 - 2 * ROOT3 * c,
        y2 - 2 * ROOT3 * s,
        (ROOT3 * c - 0.5) ** 2 + (ROOT3 * s + 0.5) ** 2 - (t / 5 + 1.8) ** 2,
        u**2 + v**2 - (t / 10 + 1.9) ** 2,
    ]
    np.testing.assert_allclose(Phi[2:], expected, atol=1e-14)
    boom_row = -2 * ROOT3 * (ROOT3 * c - 0.5) * s + 2 * ROOT3 * (ROOT3 * s + 0.5) * c
    expected = [
        [2 * ROOT3 * s, 1, 0, 0],
        [-2 * ROOT3 * c, 0, 1, 0],
        [boom_row, 0, 0, 0],
        [-4 * u * s30 + 4 * v * c30, -2 * u, -2 * v, u * np.cos(phi2) + v * np.sin(phi2)],
    ]
    np.testing.assert_allclose(matrix[2:, 2:], expected, atol=1e-14)
    np.testing.assert_allclose(nu, [0, 0, 0, 0, 2 * (t / 5 + 1.8) / 5, (t / 10 + 1.9) / 5], atol=1e-15)
