"""Haug 3.4: gears, a rack, cams of a valve lifter."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from jaxmbs import planar

# Times 0, 0.1, …, 1.
TENTHS = np.arange(11) / 10


def unit(angle):
    """Return unit vectors (..., 2) at angles."""
    return np.stack([np.cos(angle), np.sin(angle)], -1)


def turned(v):
    """Return v⊥, v turned by 90°."""
    return np.stack([-v[..., 1], v[..., 0]], -1)


# Constraints of a gear that rolls on a fixed one, Example 3.4.1.
GEARS = {
    "link": planar.Distance("ground", "gear", (0, 0), (0, 0), 3.0),
    "teeth": planar.Gear(
        "ground", "gear", (0, 0), (0, 0), radius_i=1.0, radius_j=2.0, angle_i=np.pi / 6, angle_j=7 * np.pi / 6
    ),
}


# Length of the rack from its pin to where α₂ = 0.
RACK_LENGTH = 0.7
# Radius of the pinion.
RADIUS = 0.2


def rack_and_pinion():
    """Return the rack and pinion: P₁ at the rack's origin slides on the x axis; θ₂ = 3π/2 makes α₂ = φ₁ − φ₂."""
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


def cosine_cam(alpha):
    """Return the outline ρ(α) of the cam of Example 3.4.3."""
    return jnp.where(alpha <= 2 * jnp.pi / 3, -jnp.cos(3 * alpha) / 4 + 5 / 4, 1.0)


def quartic_cam(alpha):
    """Return the outline ρ(α) of the cam of Problem 3.4.7."""
    return jnp.where(alpha <= 2, 1 + 2 * alpha**2 - 2 * alpha**3 + alpha**4 / 2, 1.0)


# Outlines of cams by name.
CAMS = {"cosine": cosine_cam, "quartic": quartic_cam}
# Radius of the roller.
ROLLER = 0.25
# Distance of the lifter's frame from its lower end.
STEM = 3.0
# Speed of the cam.
SPEED = 2.0
# Angle of the cam at t = 0.
START = -0.4


def valve_gear(contact):
    """Return a mechanism: a cam on a shaft at the origin, driven, and a lifter guided along the y axis.

    contact: constraint between "cam" and "lifter"; the origin of the lifter is `STEM` above its lower end.
    """
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
    """Return the contact of a cam with outline ρ and a roller at the lower end of the lifter."""
    return planar.CamFollower(
        "cam", "lifter", (0, 0), (0, -STEM), planar.FunctionOutline(rho), planar.FunctionOutline(ROLLER)
    )


def lift_of_roller(rho, phi):
    """Return the height of the roller's centre over the shaft, and two derivatives by the angle φ of the cam.

    No tangents: the roller rests on whichever point of the cam holds it highest, h = max_α y + √(R² − x²). At the
    maximum h′ = H_φ and h″ = H_φφ − H_αφ²/H_αα.
    """

    def height(alpha, phi):
        """Return the height of a roller on the point α of the cam, −∞ if it cannot touch there."""
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
