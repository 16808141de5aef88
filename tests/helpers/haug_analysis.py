"""Haug 3.6: a double pendulum, and its motion in closed form."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from jaxmbs import planar

# Times 0, 0.1, …, 1.
TENTHS = np.arange(11) / 10


# Half a unit in the last of the book's four decimals, the tolerance of a printed number.
PRINTED = 5e-5
# A unit in the last of the book's four decimals, the tolerance where the book computes with rounded numbers.
LAST_PLACE = 1e-4


@eqx.filter_jit
def equations(mech, q, v, t):
    """Return Φ, Φ_q, ν and γ; compiled once per mechanism."""
    return (
        mbs.constraints(mech, q, t),
        mbs.constraint_jacobian(mech, q, t),
        mbs.velocity_rhs(mech, q, t),
        mbs.acceleration_rhs(mech, q, v, t),
    )


def block(**angle):
    """Return a block of which two points, a unit before and behind its origin, stay on the x axis."""
    return mbs.Mechanism(
        bodies={"block": planar.Body()},
        constraints={
            "front": planar.AbsoluteY("block", (1, 0), 0.0),
            "back": planar.AbsoluteY("block", (-1, 0), 0.0),
            **angle,
        },
    )


def double_pendulum():
    """Return two rods of unit length with frames at the far ends; the end of the second slides on y = −1."""
    return mbs.Mechanism(
        bodies={"upper": planar.Body(), "lower": planar.Body()},
        constraints={
            "pivot x": planar.AbsoluteX("upper", (-1, 0), 0.0),
            "pivot y": planar.AbsoluteY("upper", (-1, 0), 0.0),
            "pin x": planar.RelativeX("upper", "lower", (0, 0), (-1, 0)),
            "pin y": planar.RelativeY("upper", "lower", (0, 0), (-1, 0)),
            "track": planar.AbsoluteY("lower", (0, 0), -1.0),
        },
        drivers={"motor": planar.AbsoluteAngleDriver("upper", mbs.motion.Ramp(np.pi / 6, 5 * np.pi / 3))},
    )


# Matrix from our equations to the book's, which writes the pin with x₁ and y₁ replaced by the first two equations: it
# adds those to the third and the fourth. That changes neither the determinant nor a solution.
AS_PRINTED = np.eye(6)


AS_PRINTED[2, 0] = AS_PRINTED[3, 1] = 1


# Angle of the upper rod at t = 0.
UPPER_ANGLE = 5 * np.pi / 3
# The book's estimate of q at t = 0.
ESTIMATE = np.array([0.5, -0.8660, UPPER_ANGLE, 1.5, -1.0, 6.14])


def printed_form(q, v=(0.0,) * 6, t=0.0):
    """Return Φ, Φ_q, ν and γ of the double pendulum in the form of the book."""
    q, v, t = (jnp.asarray(x, float) for x in (q, v, t))
    return [AS_PRINTED @ np.asarray(rows) for rows in equations(double_pendulum(), q, v, t)]


# The book's Φ_q at its estimate.
PRINTED_AT_ESTIMATE = [
    [1, 0, -0.8660, 0, 0, 0],
    [0, 1, -0.5, 0, 0, 0],
    [0, 0, -0.8660, 1, 0, -0.1427],
    [0, 0, -0.5, 0, 1, -0.9898],
    [0, 0, 0, 0, 1, 0],
    [0, 0, 1, 0, 0, 0],
]


# The book's Φ_q at the solution for t = 0.
PRINTED_AT_START = [
    [1, 0, -0.8660, 0, 0, 0],
    [0, 1, -0.5, 0, 0, 0],
    [0, 0, -0.8660, 1, 0, -0.1340],
    [0, 0, -0.5, 0, 1, -0.9910],
    [0, 0, 0, 0, 1, 0],
    [0, 0, 1, 0, 0, 0],
]


def pendulum_closed_form(t):
    """Return q, q̇ and q̈ from sin φ₂ = −1 − sin φ₁, with the second rod to the right of its pin."""
    w = np.pi / 6
    phi1 = UPPER_ANGLE + w * t
    s1, c1 = np.sin(phi1), np.cos(phi1)
    phi2 = 2 * np.pi + np.arcsin(-1 - s1)
    s2, c2 = np.sin(phi2), np.cos(phi2)
    w2 = -c1 * w / c2
    w2_dot = (s1 * w**2 + s2 * w2**2) / c2
    zero = 0 * t
    q = [c1, s1, phi1, c1 + c2, zero - 1, phi2]
    v = [-s1 * w, c1 * w, w + zero, -s1 * w - s2 * w2, zero, w2]
    a = [-c1 * w**2, -s1 * w**2, zero, -c1 * w**2 - c2 * w2**2 - s2 * w2_dot, zero, w2_dot]
    return [np.stack(rows, -1) for rows in (q, v, a)]
