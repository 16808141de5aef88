"""Haug 3.5: driven mechanisms and their motions in closed form."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from jaxmbs import planar

# Times 0, 0.1, …, 1.
TENTHS = np.arange(11) / 10


def with_rates(position, times):
    """Return a closed form t → (k,) and its first and second derivatives at all times, each (T, k)."""
    velocity = lambda t: jax.jvp(position, (t,), (jnp.ones_like(t),))[1]
    acceleration = lambda t: jax.jvp(velocity, (t,), (jnp.ones_like(t),))[1]
    return jax.jit(jax.vmap(lambda t: (position(t), velocity(t), acceleration(t))))(jnp.asarray(times))


def pick(motion, coordinates):
    """Return q, v and a of some coordinates, each (T, k)."""
    columns = [motion.layout.index(name) for name in coordinates]
    return motion.q[:, columns], motion.v[:, columns], motion.a[:, columns]


# Length ℓ of the coupler of `rocker_mechanism`; its crank has length 1.
LENGTH = 2.0
# Circular frequency ω of the driven slider of `rocker_mechanism`.
OMEGA = 6.0


def rocker_mechanism():
    """Return a crank of length 1 and a coupler of length ℓ along its y′ axis, x₂ = √(ℓ² − 1) + ½ sin ωt: (3.5.4)."""
    return mbs.Mechanism(
        bodies={"crank": planar.Body(), "coupler": planar.Body()},
        constraints={
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "slide": planar.AbsoluteY("coupler", (0, 0), 0.0),
            "P": planar.Revolute("crank", "coupler", (1, 0), (0, LENGTH)),
        },
        drivers={
            "cylinder": planar.AbsoluteXDriver(
                "coupler", (0, 0), mbs.motion.Harmonic(0.5, OMEGA, offset=np.sqrt(LENGTH**2 - 1))
            )
        },
    )


def rocker_closed_form(t):
    """Return x₂, φ₁ and φ₂ from the triangle with the sides 1, ℓ, x₂ and P above the x axis."""
    x2 = jnp.sqrt(LENGTH**2 - 1.0) + jnp.sin(OMEGA * t) / 2
    phi1 = jnp.arccos((x2**2 + 1 - LENGTH**2) / (2 * x2))
    phi2 = jnp.arctan2(x2 - jnp.cos(phi1), jnp.sin(phi1))
    return jnp.stack([x2, phi1, phi2])


# Speed of the crank of `four_bar`.
CRANK_SPEED = 2.0
# Angle of the crank of `four_bar` at t = 0.
CRANK_START = 0.6


def four_bar():
    """Return Example 3.3.2 (1): crank 4, coupler 6, rocker 6, ground 4, the frames at the centres of the bars."""
    at = lambda body, point, place: (
        planar.AbsoluteX(body, point, place[0]),
        planar.AbsoluteY(body, point, place[1]),
    )
    between = lambda *ij: (planar.RelativeX(*ij), planar.RelativeY(*ij))
    pairs = {
        "O": at("crank", (-2, 0), (0, 0)),
        "C": at("rocker", (-3, 0), (4, 0)),
        "A": between("crank", "coupler", (2, 0), (-3, 0)),
        "B": between("coupler", "rocker", (3, 0), (3, 0)),
    }
    return mbs.Mechanism(
        bodies=dict.fromkeys(("crank", "coupler", "rocker"), planar.Body()),
        constraints={f"{name} {axis}": c for name, pair in pairs.items() for axis, c in zip("xy", pair, strict=True)},
        drivers={"motor": planar.AbsoluteAngleDriver("crank", mbs.motion.Ramp(CRANK_SPEED, CRANK_START))},
    )


def four_bar_closed_form(t):
    """Return φ₁, x₂, y₂, φ₂ and φ₃. The linkage is a kite: B lies on its axis, at the angle φ₁/2 from O."""
    phi1 = CRANK_START + CRANK_SPEED * t
    a = 4 * jnp.stack([jnp.cos(phi1), jnp.sin(phi1)])
    reach = 4 * jnp.cos(phi1 / 2) + jnp.sqrt(36 - 16 * jnp.sin(phi1 / 2) ** 2)
    b = reach * jnp.stack([jnp.cos(phi1 / 2), jnp.sin(phi1 / 2)])
    phi2 = jnp.arctan2(b[1] - a[1], b[0] - a[0])
    phi3 = jnp.arctan2(b[1], b[0] - 4)
    return jnp.stack([phi1, *(a + b) / 2, phi2, phi3])


# √3, a length of the excavator.
ROOT3 = np.sqrt(3)
# Length of the excavator's first cylinder, over time.
LIFT = mbs.motion.Ramp(1 / 5, 1.8)
# Length of the excavator's second cylinder, over time.
CURL = mbs.motion.Ramp(1 / 10, 1.9)
# Times of the excavator's motion.
DIGGING = 2 * TENTHS


def excavator(curl):
    """Return the excavator: the boom's frame is at its pivot O, the arm's at its pivot on the boom, 2√3 from O."""
    return mbs.Mechanism(
        bodies={"boom": planar.Body(), "arm": planar.Body()},
        constraints={
            "O": planar.Revolute("boom", "ground", (0, 0), (0, 0)),
            "pivot": planar.Revolute("arm", "boom", (0, 0), (2 * ROOT3, 0)),
        },
        drivers={"lift": planar.DistanceDriver("ground", "boom", (0.5, -0.5), (ROOT3, 0), LIFT), "curl": curl},
    )


# The excavator's second cylinder. Its eye on the boom is 2 from O at 30°, that on the arm half a unit from the pivot.
CYLINDER = planar.DistanceDriver("boom", "arm", (ROOT3, 1), (0, 0.5), CURL)


def boom_angle(t):
    """Return φ₁ at time t from (3.5.9): √6 sin(φ₁ − π/4) = C₄₁² − 7/2."""
    return jnp.pi / 4 + jnp.arcsin(((1.8 + t / 5) ** 2 - 3.5) / jnp.sqrt(6.0))


def with_arm(phi1, phi2):
    """Return φ₁, x₂, y₂ and φ₂ from the angles of boom and arm."""
    return jnp.stack([phi1, 2 * ROOT3 * jnp.cos(phi1), 2 * ROOT3 * jnp.sin(phi1), phi2])


def printed_boom_speed(t, phi1):
    """Return φ̇₁ by the book's formula."""
    s, c = np.sin(phi1), np.cos(phi1)
    return (t + 9) / (-25 * ROOT3 * ((ROOT3 * c - 0.5) * s - (ROOT3 * s + 0.5) * c))


# Length of the axis v₁ of the telescope's joint on the boom.
AXIS_1 = 2.0
# Length of the axis v₂ of the telescope's joint on the telescope.
AXIS_2 = 0.5


def wrecker():
    """Return a boom that turns by 0.025 t, with a telescope that runs out by 0.1 t."""
    return mbs.Mechanism(
        bodies={"boom": planar.Body(), "telescope": planar.Body()},
        constraints={
            "O": planar.Revolute("ground", "boom", (0, 0), (0, 0)),
            "guide": planar.Translational("boom", "telescope", (0, 0), (0, 0), (AXIS_1, 0), (AXIS_2, 0)),
        },
        drivers={
            "turn": planar.AbsoluteAngleDriver("boom", mbs.motion.Ramp(0.025)),
            "run out": planar.TranslationalDriver(
                "boom", "telescope", (0, 0), (0, 0), axis_i=(AXIS_1, 0), motion=mbs.motion.Ramp(0.1)
            ),
        },
    )
