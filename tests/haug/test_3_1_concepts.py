"""Haug 3.1, basic concepts: Examples 3.1.1 to 3.1.3, Problems 3.1.1 and 3.2.3."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from haug_concepts import Slide, SlideOrthogonal, equations, inclined_slider

# Example 3.1.3: constraints that do not imply the geometry.


def test_inclined_slider_determinant():
    """|Φ_q| = −(y₁ sin φ₁ + x₁ cos φ₁), which vanishes at r₁ = 0 for every φ₁; that of Problem 3.2.3 is 1 everywhere."""
    for x, y, phi in [(0.7, -0.4, 0.9), (-1.2, 0.3, 2.0), (0, 0, 0.4), (0, 0, -2.5)]:
        q = jnp.array([x, y, phi], float)
        orthogonal, fixed = (
            np.linalg.det(equations(inclined_slider(kind), q, q, jnp.zeros(()))[1]) for kind in (SlideOrthogonal, Slide)
        )
        assert orthogonal == pytest.approx(-(y * np.sin(phi) + x * np.cos(phi)), abs=1e-15)
        assert abs(fixed) == pytest.approx(1, abs=1e-15)


def test_inclined_slider_at_origin():
    """At the origin (3.1.16) to (3.1.18) hold for any angle and leave it free; those of Problem 3.2.3 do not."""
    for phi in (np.pi / 4, -0.8, 2.0):
        q = jnp.array([0.0, 0.0, phi])
        Phi = equations(inclined_slider(SlideOrthogonal), q, q, jnp.zeros(()))[0]
        np.testing.assert_allclose(Phi, 0, atol=1e-15)
    at_origin = [0.0, 0.0, np.pi / 4]
    bad = mbs.diagnose(inclined_slider(SlideOrthogonal), at_origin)
    assert (bad.rank, bad.free, bad.redundant) == (2, 1, ("slide",))
    good = mbs.diagnose(inclined_slider(Slide), at_origin)
    assert (good.rank, good.free, good.redundant) == (3, 0, ())
