"""Haug 3.4, gears and cam-followers: Examples 3.4.1 to 3.4.5 and the cam of Problem 3.4.7."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar

TENTHS = np.arange(11) / 10


@eqx.filter_jit
def equations(mech, q):
    """Φ and Φ_q; compiled once per mechanism."""
    return mbs.constraints(mech, q), mbs.constraint_jacobian(mech, q)


def unit(angle):
    return np.stack([np.cos(angle), np.sin(angle)], -1)


def turned(v):
    """v⊥, v turned by 90°."""
    return np.stack([-v[..., 1], v[..., 0]], -1)


# Example 3.4.1: a gear rolls around a fixed one.

GEARS = {
    "link": planar.Distance("ground", "gear", (0, 0), (0, 0), 3.0),
    "teeth": planar.Gear(
        "ground", "gear", (0, 0), (0, 0), radius_i=1.0, radius_j=2.0, angle_i=np.pi / 6, angle_j=7 * np.pi / 6
    ),
}


def test_example_3_4_1():
    """With P₂ on the vertical below P₁ the gear has turned by φ₂ = −π."""
    mech = mbs.Mechanism({"gear": planar.Body()}, {**GEARS, "below": planar.AbsoluteX("gear", (0, 0), 0.0)})
    result = mbs.assemble(mech, {"gear": (0.1, -2.9, -3.0)}, throw=True)
    np.testing.assert_allclose(result.q, [0, -3, -np.pi], atol=1e-12)


def test_example_3_4_1_rolling():
    """The gear rolls down from its assembly, where the marks touch: its centre turns by 2/3 of φ₂ and nothing slips."""
    drivers = {"turn": planar.AbsoluteAngleDriver("gear", mbs.motion.Ramp(-np.pi))}
    mech = mbs.Mechanism({"gear": planar.Body()}, GEARS, drivers)
    motion = mbs.kinematics(mech, TENTHS, {"gear": (2.6, 1.5, 0.0)}, throw=True)

    u = unit(np.pi / 6 - 2 / 3 * np.pi * TENTHS)
    np.testing.assert_allclose(motion.q[:, :2], 3 * u, atol=1e-12)
    np.testing.assert_allclose(motion.v[:, :2], -2 * np.pi * turned(u), atol=1e-11)
    np.testing.assert_allclose(motion.a[:, :2], -((2 / 3 * np.pi) ** 2) * 3 * u, atol=1e-10)
    # The tooth of the rolling gear that touches the fixed one is at rest.
    at_contact = motion.v[:, :2] + motion.v[:, 2:] * turned(-2 * u)
    np.testing.assert_allclose(at_contact, 0, atol=1e-11)
    np.testing.assert_allclose(motion.q[-1], [0, -3, -np.pi], atol=1e-12)
    assert mbs.diagnose(mech, motion.q[3], TENTHS[3]).dof == 1


# Example 3.4.2: slider-crank with rack and pinion.

RACK_LENGTH, RADIUS = 0.7, 0.2


def rack_and_pinion():
    """P₁ at the origin of the rack slides on the x axis; θ₂ = 3π/2 makes α₂ = φ₁ − φ₂."""
    return mbs.Mechanism(
        bodies={"rack": planar.Body(), "pinion": planar.Body()},
        constraints={
            "teeth": planar.RackPinion(
                "rack",
                "pinion",
                (0, 0),
                (0, 0),
                axis_i=(-RACK_LENGTH, 0),
                radius_j=RADIUS,
                angle_i=0.0,
                angle_j=3 * np.pi / 2,
            ),
            "bearing": planar.Revolute("ground", "pinion", (0, 0), (0, 0)),
            "slide": planar.AbsoluteY("rack", (0, 0), 0.0),
        },
        drivers={"piston": planar.AbsoluteXDriver("rack", (0, 0), mbs.motion.Ramp(0.3, 0.8))},
    )


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


def test_example_3_4_2_motion():
    """ẋ₁ = 0.3 at x₁ = 0.8 gives φ̇ = (0.0968, −1.4524) as printed; the motion from the closed form."""
    mech = rack_and_pinion()
    guess = {"rack": (0.8, 0, -0.3), "pinion": (0, 0, -0.6)}
    motion = mbs.kinematics(mech, TENTHS, guess, throw=True)
    rates = np.stack([motion.velocity("rack.phi"), motion.velocity("pinion.phi")], 1)
    np.testing.assert_allclose(rates[0], [0.0968, -1.4524], atol=5e-5)

    x1 = 0.8 + 0.3 * TENTHS
    phi1 = -np.arcsin(0.2 / x1)
    np.testing.assert_allclose(motion.position("rack.phi"), phi1, atol=1e-12)
    phi2 = phi1 - (x1 * np.cos(phi1) - RACK_LENGTH) / 0.2
    np.testing.assert_allclose(motion.position("pinion.phi"), phi2, atol=1e-12)
    w1, w2 = -0.3 * np.tan(phi1) / x1, -0.3 * np.cos(phi1) / 0.2
    np.testing.assert_allclose(rates, np.stack([w1, w2], 1), atol=1e-12)
    # d/dt of x₁ φ̇₁ = −ẋ₁ tan φ₁ and of φ̇₂ = −ẋ₁ cos φ₁ / R.
    a1 = (-0.3 * w1 / np.cos(phi1) ** 2 - 0.3 * w1) / x1
    np.testing.assert_allclose(motion.acceleration("rack.phi"), a1, atol=1e-11)
    np.testing.assert_allclose(motion.acceleration("pinion.phi"), 0.3 * np.sin(phi1) * w1 / 0.2, atol=1e-11)

    # Where they touch, rack and pinion have the same velocity.
    normal = turned(-unit(phi1))
    contact, p1 = -RADIUS * normal, np.stack([x1, 0 * x1], 1)
    of_rack = np.array([0.3, 0]) + rates[:, :1] * turned(contact - p1)
    np.testing.assert_allclose(of_rack, rates[:, 1:] * turned(contact), atol=1e-12)
    assert mbs.diagnose(mech, motion.q[3], TENTHS[3]).dof == 1


# Examples 3.4.3 to 3.4.5, Problem 3.4.7: cams of a valve lifter.


def cosine_cam(alpha):
    """Example 3.4.3."""
    return jnp.where(alpha <= 2 * jnp.pi / 3, -jnp.cos(3 * alpha) / 4 + 5 / 4, 1.0)


def quartic_cam(alpha):
    """Problem 3.4.7."""
    return jnp.where(alpha <= 2, 1 + 2 * alpha**2 - 2 * alpha**3 + alpha**4 / 2, 1.0)


CAMS = {"cosine": cosine_cam, "quartic": quartic_cam}
ROLLER, STEM = 0.25, 3.0
SPEED, START = 2.0, -0.4


def valve_gear(contact):
    """A cam on a shaft at the origin, and a lifter on the y axis whose frame is a stem's length above its lower end."""
    return mbs.Mechanism(
        bodies={"cam": planar.Body(), "lifter": planar.Body()},
        constraints={
            "shaft": planar.Revolute("ground", "cam", (0, 0), (0, 0)),
            "guide": planar.Translational("ground", "lifter", (0, 0), (0, 0), axis_i=(0, 1)),
            "contact": contact,
        },
        drivers={"speed": planar.AbsoluteAngleDriver("cam", mbs.motion.Ramp(SPEED, START))},
    )


def roller_contact(rho):
    return planar.CamFollower(
        "cam", "lifter", (0, 0), (0, -STEM), planar.FunctionOutline(rho), planar.FunctionOutline(ROLLER)
    )


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


def lift_of_roller(rho, phi):
    """Height of the roller's centre over the shaft, and its first two derivatives by the angle of the cam.

    No tangents: the roller rests on whichever point of the cam holds it highest, h = max_α y + √(R² − x²). At the
    maximum h′ = H_φ and h″ = H_φφ − H_αφ²/H_αα.
    """

    def height(alpha, phi):
        radius = rho(jnp.mod(alpha, 2 * jnp.pi))
        x, y = radius * jnp.cos(alpha + phi), radius * jnp.sin(alpha + phi)
        below = jnp.abs(x) < ROLLER
        return jnp.where(below, y + jnp.sqrt(jnp.where(below, ROLLER**2 - x**2, 1.0)), -jnp.inf)

    grid = jnp.linspace(0, 2 * jnp.pi, 20_000)
    alpha = grid[jnp.argmax(jax.vmap(lambda alpha: height(alpha, phi))(grid))]
    slope = jax.grad(height)
    polish = lambda _, alpha: alpha - slope(alpha, phi) / jax.grad(slope)(alpha, phi)
    alpha = jax.lax.fori_loop(0, 8, polish, alpha)
    (h_aa, h_af), (_, h_ff) = jax.hessian(height, argnums=(0, 1))(alpha, phi)
    return height(alpha, phi), jax.grad(height, argnums=1)(alpha, phi), h_ff - h_af**2 / h_aa


def check_roller(cam, times):
    mech = valve_gear(roller_contact(CAMS[cam]))
    phi = START + SPEED * times
    guess = {"cam": (0, 0, phi[0]), "lifter": (0, STEM + 1.6, 0), "contact": (np.pi / 2 - phi[0], -np.pi / 2)}
    motion = mbs.kinematics(mech, times, guess, throw=True)
    lift, slope, bend = jax.jit(jax.vmap(lambda phi: lift_of_roller(CAMS[cam], phi)))(jnp.asarray(phi))
    np.testing.assert_allclose(motion.position("lifter.y"), STEM + lift, atol=1e-11)
    np.testing.assert_allclose(motion.velocity("lifter.y"), SPEED * slope, atol=1e-10)
    np.testing.assert_allclose(motion.acceleration("lifter.y"), SPEED**2 * bend, atol=1e-9)
    np.testing.assert_allclose(motion.position("lifter.phi"), 0, atol=1e-12)
    assert mbs.diagnose(mech, motion.q[3], times[3]).dof == 1


@pytest.mark.parametrize("cam", CAMS)
def test_roller_on_lobe(cam):
    """Example 3.4.3 and Problem 3.4.7 while the roller is on the lobe, through the whole lift."""
    check_roller(cam, np.linspace(0.06, 0.94, 11))


@pytest.mark.parametrize("cam", CAMS)
def test_roller_through_whole_turn(cam):
    """On and off the lobe: at its ends the curvature jumps, the lifter's velocity is continuous, the contact's is not."""
    check_roller(cam, TENTHS * np.pi + 0.06)


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


def test_example_3_4_5():
    """A pin in a slot of the cam's shape: y₂ = ℓ + 5/4 + ¼ sin 3φ₁ on the lobe, ẏ₂ = ¾ cos 3φ₁ φ̇₁; ℓ + 1 elsewhere.

    The print leaves out φ̇₁.
    """
    slot = planar.PointFollower("lifter", "cam", (0, -STEM), (0, 0), planar.FunctionOutline(cosine_cam))
    mech = valve_gear(slot)
    times = np.concatenate([np.linspace(0, 0.95, 8), [1.4, 2.0, 2.6]])
    phi = START + SPEED * times
    guess = {"cam": (0, 0, phi[0]), "lifter": (0, STEM + 1, 0), "contact": np.pi / 2 - phi[0]}
    motion = mbs.kinematics(mech, times, guess, throw=True)

    lobe = phi < np.pi / 2
    assert lobe.sum() == 8
    y = np.where(lobe, STEM + 5 / 4 + np.sin(3 * phi) / 4, STEM + 1)
    np.testing.assert_allclose(motion.position("lifter.y"), y, atol=1e-12)
    np.testing.assert_allclose(motion.velocity("lifter.y"), lobe * 3 / 4 * np.cos(3 * phi) * SPEED, atol=1e-11)
    np.testing.assert_allclose(motion.acceleration("lifter.y"), lobe * -9 / 4 * np.sin(3 * phi) * SPEED**2, atol=1e-10)
    np.testing.assert_allclose(motion.position("contact.alpha_j"), np.pi / 2 - phi, atol=1e-12)
    assert mbs.diagnose(mech, motion.q[3], times[3]).dof == 1
