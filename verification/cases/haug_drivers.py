"""Haug 3.5: driving constraints."""

import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from haug_drivers import (
    CRANK_SPEED,
    CYLINDER,
    DIGGING,
    OMEGA,
    ROOT3,
    TENTHS,
    boom_angle,
    excavator,
    four_bar,
    four_bar_closed_form,
    pick,
    printed_boom_speed,
    rocker_closed_form,
    rocker_mechanism,
    with_arm,
    with_rates,
    wrecker,
)
from jaxmbs import planar
from verification.case import KINEMATICS, case, close

# Coordinates of the excavator that are compared.
ARM = ("boom.phi", "arm.x", "arm.y", "arm.phi")


def against(motion, coordinates, closed_form):
    """Compare coordinates and their rates with a closed form of t, which is differentiated automatically."""
    parts = zip(pick(motion, coordinates), with_rates(closed_form, motion.t), strict=True)
    for quantity, (found, wanted) in zip(("positions", "velocities", "accelerations"), parts, strict=True):
        yield close(f"{quantity}, closed form", found, wanted, 1e-10)


@case("Haug", "Example 3.5.1: slider-crank with a driven slider", KINEMATICS, quick=True)
def driven_slider(by):
    """Compare a slider-crank whose slider is moved by a function of time with its closed form."""
    mech = rocker_mechanism()
    motion = mbs.kinematics(mech, TENTHS, {"crank": (0, 0, 1.5), "coupler": (1.7, 0, 1.0)}, throw=True)
    yield from against(motion, ("coupler.x", "crank.phi", "coupler.phi"), rocker_closed_form)
    phi1, phi2 = np.asarray(motion.position("crank.phi")), np.asarray(motion.position("coupler.phi"))
    printed = -OMEGA * np.sin(phi2) * np.cos(OMEGA * TENTHS) / (2 * np.cos(phi1 - phi2))
    yield close("φ̇₁ by the printed formula", motion.velocity("crank.phi"), printed, 1e-11, "rad/s")


@case("Haug", "Example 3.5.2: four-bar with a driven crank", KINEMATICS, quick=True)
def driven_crank(by):
    """Compare a four-bar with a driven crank with its closed form."""
    guess = {"crank": (1.7, 1.1, 0.6), "coupler": (6.0, 2.7, 0.2), "rocker": (6.8, 1.6, 0.5)}
    motion = mbs.kinematics(four_bar(), TENTHS, guess, throw=True)
    coordinates = ("crank.phi", "coupler.x", "coupler.y", "coupler.phi", "rocker.phi")
    yield from against(motion, coordinates, four_bar_closed_form)
    q, v, _ = pick(motion, coordinates)
    phi1, _, _, phi2, phi3 = np.asarray(q).T
    w, ratio = CRANK_SPEED, np.sin(phi3 - phi1) / np.sin(phi2 - phi3)
    # The print lacks a 3 in the denominator of φ̇₃, which φ̇₂ has.
    printed = [
        w + 0 * phi1,
        -4 * w * np.sin(phi1) - 2 * w * np.sin(phi2) * ratio,
        4 * w * np.cos(phi1) + 2 * w * np.cos(phi2) * ratio,
        2 * w / 3 * ratio,
        -2 * w * np.sin(phi1 - phi2) / (3 * np.sin(phi2 - phi3)),
    ]
    yield close("velocities by the printed formulas", v.T, printed, 1e-10)


@case("Haug", "Example 3.5.3: excavator with two cylinders", KINEMATICS, quick=True)
def two_cylinders(by):
    """Compare an excavator moved by two cylinders with its closed form."""
    guess = {"boom": (0, 0, 0.7), "arm": (2.7, 2.2, 0.5)}
    motion = mbs.kinematics(excavator(CYLINDER), DIGGING, guess, throw=True)

    def closed_form(t):
        """Return φ₁, x₂, y₂, φ₂ of boom and arm at time t, from the lengths of both cylinders."""
        # The eye on the boom is 2 from the arm's pivot at φ₁ + 5π/6, that on the arm ½ from it at φ₂ + π/2.
        phi1 = boom_angle(t)
        return with_arm(phi1, phi1 + jnp.pi / 3 - jnp.arccos((4.25 - (1.9 + t / 10) ** 2) / 2))

    yield from against(motion, ARM, closed_form)
    q, v, _ = pick(motion, ARM)
    phi1, x2, y2, phi2 = np.asarray(q).T
    w1 = printed_boom_speed(DIGGING, phi1)
    yield close("φ̇₁ by the printed formula", v[:, 0], w1, 1e-11, "rad/s")
    s30, c30 = np.sin(phi1 + np.pi / 6), np.cos(phi1 + np.pi / 6)
    u, v_ = 2 * c30 - x2 + 0.5 * np.sin(phi2), 2 * s30 - y2 - 0.5 * np.cos(phi2)
    a, b = -4 * u * s30 + 4 * v_ * c30, u * np.cos(phi2) + v_ * np.sin(phi2)
    # The print's brackets in φ̇₂ are misplaced.
    w2 = ((DIGGING + 19) / 50 - (a + 4 * ROOT3 * (u * np.sin(phi1) - v_ * np.cos(phi1))) * w1) / b
    yield close("φ̇₂ by the printed formula with corrected brackets", v[:, 3], w2, 1e-11, "rad/s")


@case("Haug", "Example 3.5.4: excavator with a motor", KINEMATICS, quick=True)
def cylinder_and_motor(by):
    """Compare Φ, Φ_q and ν of an excavator's motor, and its motion, with closed forms."""
    mech = excavator(planar.RevoluteDriver("boom", "arm", mbs.motion.Ramp(1 / 10)))
    q, t = jnp.array([0, 0, 0.8, 2.1, 2.9, 0.3]), 0.7
    yield close("Φ of the motor", mbs.constraints(mech, q, t)[-1], 0.3 - 0.8 - 0.07, 1e-15)
    yield close("Φ_q of the motor", mbs.constraint_jacobian(mech, q, t)[-1], [0, 0, -1, 0, 0, 1], 1e-15)
    # The print's right side t/10 of the velocity equation is 1/10, as its solution for φ̇₂ has it.
    yield close("ν of the motor", mbs.velocity_rhs(mech, q, t)[-1], 0.1, 1e-15)
    motion = mbs.kinematics(mech, DIGGING, {"boom": (0, 0, 0.7), "arm": (2.7, 2.2, 0.7)}, throw=True)
    yield from against(motion, ARM, lambda t: with_arm(boom_angle(t), boom_angle(t) + t / 10))
    speed = printed_boom_speed(DIGGING, np.asarray(motion.position("boom.phi")))
    yield close("φ̇₂ by the printed formula", motion.velocity("arm.phi"), speed + 1 / 10, 1e-11, "rad/s")


@case("Haug", "Example 3.5.5: boom of a crane", KINEMATICS, quick=True)
def crane(by):
    """Compare a crane that turns while it extends with its closed form."""
    motion = mbs.kinematics(wrecker(), 40 * TENTHS, {"telescope": (0.1, 0.1, 0.1)}, throw=True)
    coordinates = ("boom.phi", "telescope.x", "telescope.y", "telescope.phi")

    def closed_form(t):
        """Return φ₁, x₂, y₂, φ₂ of boom and telescope at time t."""
        phi = 0.025 * t
        return jnp.stack([phi, 0.1 * t * jnp.cos(phi), 0.1 * t * jnp.sin(phi), phi])

    yield from against(motion, coordinates, closed_form)
    q, v, _ = pick(motion, coordinates)
    phi1, x2, y2, _ = np.asarray(q).T
    # The print's first members of ẋ₂ and ẏ₂ lack the second terms.
    printed = [0.025, -0.025 * y2 + 0.1 * np.cos(phi1), 0.025 * x2 + 0.1 * np.sin(phi1), 0.025]
    yield close("velocities by the printed formulas", v.T, np.stack(np.broadcast_arrays(*printed)), 1e-12)
