"""Haug 3.4: gears, rack and pinion, cams."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from haug_gears import (
    CAMS,
    GEARS,
    RACK_LENGTH,
    RADIUS,
    SPEED,
    START,
    STEM,
    TENTHS,
    cosine_cam,
    lift_of_roller,
    rack_and_pinion,
    roller_contact,
    turned,
    unit,
    valve_gear,
)
from jaxmbs import planar
from verification.case import KINEMATICS, Analysis, case, close


@case("Haug", "Example 3.4.1: gear on a fixed gear, assembled", Analysis("assemble"), quick=True)
def gear_assembled(by):
    """Compare the assembled pose of a gear below another with the closed form."""
    mech = mbs.Mechanism({"gear": planar.Body()}, {**GEARS, "below": planar.AbsoluteX("gear", (0, 0), 0.0)})
    found = mbs.assemble(mech, {"gear": (0.1, -2.9, -3.0)}, throw=True)
    yield close("pose, φ₂ = −π", found.q, [0, -3, -np.pi], 1e-12)


@case("Haug", "Example 3.4.1: gear rolls on a fixed gear", KINEMATICS, quick=True)
def gear_rolls(by):
    """Compare a gear that rolls on a fixed one with the closed form."""
    drivers = {"turn": planar.AbsoluteAngleDriver("gear", mbs.motion.Ramp(-np.pi))}
    mech = mbs.Mechanism({"gear": planar.Body()}, GEARS, drivers)
    motion = mbs.kinematics(mech, TENTHS, {"gear": (2.6, 1.5, 0.0)}, throw=True)
    # The centre turns by 2/3 of φ₂.
    rate = 2 / 3 * np.pi
    u = unit(np.pi / 6 - rate * TENTHS)
    yield close("centre", motion.q[:, :2], 3 * u, 1e-12)
    yield close("its velocity", motion.v[:, :2], -3 * rate * turned(u), 1e-11)
    yield close("its acceleration", motion.a[:, :2], -(rate**2) * 3 * u, 1e-10)
    yield close("velocity of the tooth in mesh", motion.v[:, :2] + motion.v[:, 2:] * turned(-2 * u), 0, 1e-11)


@case("Haug", "Example 3.4.2: slider-crank with rack and pinion", KINEMATICS, quick=True)
def rack(by):
    """Compare the motion of a slider-crank with rack and pinion with a closed form."""
    motion = mbs.kinematics(rack_and_pinion(), TENTHS, {"rack": (0.8, 0, -0.3), "pinion": (0, 0, -0.6)}, throw=True)
    of = lambda get: np.stack([get("rack.phi"), get("pinion.phi")], 1)
    rates = of(motion.velocity)
    x1 = 0.8 + 0.3 * TENTHS
    phi1 = -np.arcsin(RADIUS / x1)
    phi2 = phi1 - (x1 * np.cos(phi1) - RACK_LENGTH) / RADIUS
    w1, w2 = -0.3 * np.tan(phi1) / x1, -0.3 * np.cos(phi1) / RADIUS
    # d/dt of x₁ φ̇₁ = −ẋ₁ tan φ₁ and of φ̇₂ = −ẋ₁ cos φ₁ / R.
    a1 = (-0.3 * w1 / np.cos(phi1) ** 2 - 0.3 * w1) / x1
    yield close("φ̇₁, φ̇₂ at x₁ = 0.8 as printed", rates[0], [0.0968, -1.4524], 5e-5, "rad/s")
    yield close("φ₁, φ₂", of(motion.position), np.stack([phi1, phi2], 1), 1e-12, "rad")
    yield close("φ̇₁, φ̇₂", rates, np.stack([w1, w2], 1), 1e-12, "rad/s")
    yield close("φ̈₁, φ̈₂", of(motion.acceleration), np.stack([a1, 0.3 * np.sin(phi1) * w1 / RADIUS], 1), 1e-11, "rad/s²")
    contact, p1 = -RADIUS * turned(-unit(phi1)), np.stack([x1, 0 * x1], 1)
    of_rack = np.array([0.3, 0]) + rates[:, :1] * turned(contact - p1)
    yield close("rack and pinion in mesh, velocities", of_rack, rates[:, 1:] * turned(contact), 1e-12)


def roller(problem, cam, times):
    """Register the case of a cam with its roller follower."""

    @case("Haug", problem, KINEMATICS, quick=True)
    def roller_follower(by):
        """Compare the lift of a roller follower, with its rates, with a closed form."""
        mech, phi = valve_gear(roller_contact(CAMS[cam])), START + SPEED * times
        guess = {"cam": (0, 0, phi[0]), "lifter": (0, STEM + 1.6, 0), "contact": (np.pi / 2 - phi[0], -np.pi / 2)}
        motion = mbs.kinematics(mech, times, guess, throw=True)
        lift, slope, bend = jax.jit(jax.vmap(lambda phi: lift_of_roller(CAMS[cam], phi)))(jnp.asarray(phi))
        yield close("lift", motion.position("lifter.y"), STEM + lift, 1e-11)
        yield close("its velocity", motion.velocity("lifter.y"), SPEED * slope, 1e-10)
        yield close("its acceleration", motion.acceleration("lifter.y"), SPEED**2 * bend, 1e-9)


for _name, _cam in (("Example 3.4.3", "cosine"), ("Problem 3.4.7", "quartic")):
    roller(f"{_name}: roller follower, on the lobe of the {_cam} cam", _cam, np.linspace(0.06, 0.94, 11))
    roller(f"{_name}: roller follower, a turn of the {_cam} cam", _cam, TENTHS * np.pi + 0.06)


@case("Haug", "Example 3.4.5: pin in a slot of the cam's shape", KINEMATICS, quick=True)
def pin_in_a_slot(by):
    """Compare the lift of a pin in a slot with a closed form."""
    slot = planar.PointFollower("lifter", "cam", (0, -STEM), (0, 0), planar.FunctionOutline(cosine_cam))
    times = np.concatenate([np.linspace(0, 0.95, 8), [1.4, 2.0, 2.6]])
    phi = START + SPEED * times
    guess = {"cam": (0, 0, phi[0]), "lifter": (0, STEM + 1, 0), "contact": np.pi / 2 - phi[0]}
    motion = mbs.kinematics(valve_gear(slot), times, guess, throw=True)
    lobe = phi < np.pi / 2
    y = np.where(lobe, STEM + 5 / 4 + np.sin(3 * phi) / 4, STEM + 1)
    yield close("y₂", motion.position("lifter.y"), y, 1e-12)
    # The print leaves out φ̇₁.
    yield close("ẏ₂", motion.velocity("lifter.y"), lobe * 3 / 4 * np.cos(3 * phi) * SPEED, 1e-11)
    yield close("ÿ₂", motion.acceleration("lifter.y"), lobe * -9 / 4 * np.sin(3 * phi) * SPEED**2, 1e-10)
    yield close("angle of the contact", motion.position("contact.alpha_j"), np.pi / 2 - phi, 1e-12, "rad")
