"""Haug 3.4, gears and cam-followers: Examples 3.4.1 to 3.4.5 and the cam of Problem 3.4.7."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from haug_gears import (
    CAMS,
    RACK_LENGTH,
    ROLLER,
    STEM,
    cosine_cam,
    rack_and_pinion,
    roller_contact,
    turned,
    unit,
    valve_gear,
)
from jaxmbs import planar


@eqx.filter_jit
def equations(mech, q):
    """Φ and Φ_q; compiled once per mechanism."""
    return mbs.constraints(mech, q), mbs.constraint_jacobian(mech, q)


# Example 3.4.2: slider-crank with rack and pinion.


def test_example_3_4_2_equations():
    """Both equations of the joint and their Jacobian (3.4.14); the book has divided them by ℓ and −ℓ."""
    x1, phi1, phi2 = 0.9, -0.4, 1.3
    s, c = np.sin(phi1), np.cos(phi1)
    Phi, matrix = equations(rack_and_pinion(), jnp.array([x1, 0, phi1, 0, 0, phi2]))
    scale = np.array([RACK_LENGTH, -RACK_LENGTH])
    expected = [x1 * c - RACK_LENGTH - 0.2 * (phi1 - phi2), x1 * s + 0.2]
    np.testing.assert_allclose(Phi[:2] / scale, expected, atol=1e-15)
    expected = [[c, -(x1 * s + 0.2), 0.2], [s, x1 * c, 0]]
    np.testing.assert_allclose(matrix[:2, [0, 2, 5]] / scale[:, None], expected, atol=1e-15)


# Examples 3.4.3 to 3.4.5, Problem 3.4.7: cams of a valve lifter.


def tangent_of_cosine_cam(alpha):
    """g₁′ of (3.4.23)."""
    rho, slope = 5 / 4 - np.cos(3 * alpha) / 4, 3 / 4 * np.sin(3 * alpha)
    return [slope * np.cos(alpha) - rho * np.sin(alpha), slope * np.sin(alpha) + rho * np.cos(alpha)]


def test_example_3_4_3_equations():
    """g₁′ and g₂′ of (3.4.23), and the third equation of (3.4.20) as the book expands it."""
    element = roller_contact(cosine_cam)
    residual = jax.jit(lambda i, j, a1, a2: element.residual(i, j, jnp.zeros(()), a1, a2))
    tangents = jax.jit(lambda a1, a2: (element.outline_i.tangent(a1), element.outline_j.tangent(a2)))
    rng = np.random.default_rng(343)
    for _ in range(5):
        a1, (phi1, phi2, a2) = rng.uniform(0, 2 * np.pi / 3), rng.uniform(-3, 3, 3)
        r1, r2 = rng.normal(size=(2, 2))
        g1, g2 = tangents(a1, a2)
        np.testing.assert_allclose(g1, tangent_of_cosine_cam(a1), atol=1e-14)
        np.testing.assert_allclose(g2, [-np.sin(a2) / 4, np.cos(a2) / 4], atol=1e-15)

        Phi = residual(planar.Pose(jnp.array(r1), phi1), planar.Pose(jnp.array(r2), phi2), a1, a2)
        contact_1 = r1 + (5 / 4 - np.cos(3 * a1) / 4) * unit(phi1 + a1)
        contact_2 = r2 - STEM * turned(unit(phi2)) + ROLLER * unit(phi2 + a2)
        np.testing.assert_allclose(Phi[:2], contact_1 - contact_2, atol=1e-14)
        s3, c3 = 3 / 4 * np.sin(3 * a1), 1 / 4 * np.cos(3 * a1) - 5 / 4
        first, second = s3 * np.cos(a1) + c3 * np.sin(a1), s3 * np.sin(a1) - c3 * np.cos(a1)
        printed = (first * np.cos(phi1) - second * np.sin(phi1)) * (
            -np.sin(a2) * np.sin(phi2) / 4 + np.cos(a2) * np.cos(phi2) / 4
        ) - (first * np.sin(phi1) + second * np.cos(phi1)) * (
            -np.sin(a2) * np.cos(phi2) / 4 - np.cos(a2) * np.sin(phi2) / 4
        )
        assert Phi[2] == pytest.approx(printed, abs=1e-14)


@pytest.mark.parametrize(("cam", "end"), [("cosine", 2 * np.pi / 3), ("quartic", 2.0)])
def test_cam_is_smooth(cam, end):
    """Both outlines go over into the circle without a step or a corner at α = 0 and at the end of the lobe."""
    outline = planar.FunctionOutline(CAMS[cam])
    near = jnp.array([-1e-9, 1e-9, end - 1e-9, end + 1e-9])
    np.testing.assert_allclose(jax.vmap(outline.radius)(near), 1, atol=1e-15)
    np.testing.assert_allclose(jax.vmap(outline.tangent)(near), turned(unit(np.asarray(near))), atol=1e-8)


def test_example_3_4_4_cam_is_not_convex():
    """Close to α = 0 the outline's curvature is 1 − ρ″(0) = −5/4: a flat face cannot follow it."""
    outline = planar.FunctionOutline(cosine_cam)
    assert outline.curvature(jnp.asarray(1e-6)) == pytest.approx(-5 / 4, abs=1e-6)
    flat = planar.CamFlatFollower("cam", "lifter", (0, 0), (0, -STEM), outline, axis_j=(-1, 0))
    with pytest.raises(ValueError, match=r"'contact' \(CamFlatFollower\).*not convex"):
        valve_gear(flat)


def test_example_3_4_4_equations():
    """(3.4.29) for u₂ = (−1, 0): the contact is on the face's line, and the cam's tangent parallel to it.

    The print expands the second one as g₁ᵀu₂, the outline across the face; (3.4.28) is g₁⊥ᵀu₂ up to its sign. At the top
    of the lobe, held upright, the tangent is parallel to the face, and only the latter vanishes.
    """
    flat = planar.CamFlatFollower(
        "cam", "lifter", (0, 0), (0, -STEM), planar.FunctionOutline(cosine_cam), axis_j=(-1, 0)
    )
    residual = jax.jit(lambda i, j, a1: flat.residual(i, j, jnp.zeros(()), a1))
    lifter = planar.Pose(jnp.array([0.2, 4.1]), jnp.zeros(()))
    rng = np.random.default_rng(344)
    for _ in range(5):
        a1, phi1 = rng.uniform(0, 2 * np.pi / 3), rng.uniform(-3, 3)
        Phi = residual(planar.Pose(jnp.array([0.1, -0.3]), phi1), lifter, a1)
        g_x, g_y = tangent_of_cosine_cam(a1)
        contact_y = -0.3 + (5 / 4 - np.cos(3 * a1) / 4) * np.sin(phi1 + a1)
        expected = [-(contact_y - (4.1 - STEM)), -(g_x * np.sin(phi1) + g_y * np.cos(phi1))]
        np.testing.assert_allclose(Phi, expected, atol=1e-14)

    upright = planar.Pose(jnp.zeros(2), np.pi / 6)
    Phi = residual(upright, planar.Pose(jnp.array([0, STEM + 1.5]), jnp.zeros(())), np.pi / 3)
    np.testing.assert_allclose(Phi, 0, atol=1e-15)
