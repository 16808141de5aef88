"""Problems of `comparison` and their answers: closed forms, and SciPy with one coordinate.

The four-bar of `models`: uniform bars of 1 kg/m, the crank's pivot in the origin, the rocker's on the x axis. Only `Fall`
imports JAX, so that the first result of other tools is timed without it.
"""

import numpy as np

# Names of the lengths of the four-bar that tools are compared on.
LENGTHS = ("crank", "coupler", "rocker", "ground")
# Nominal lengths (m), in the order of `LENGTHS`.
NOMINAL = (1.0, 3.0, 2.5, 3.5)
# Angle of the crank at the start of the fall (rad), where all bars are at rest.
START = 1.0
# Simulated time of the fall (s).
END = 1.0
# Acceleration of gravity in m/s².
GRAVITY = 9.81
# Angles of the driven crank in the kinematic task (rad).
TURN = np.deg2rad(np.arange(360.0))
# Four-bars of different lengths in a batch.
BATCH = 1024
# Samples of the batch whose error is computed.
CHECKED = 8


def designs(count: int) -> np.ndarray:
    """Return lengths of four-bars (count, 4) with moving bars within 5 % of nominal."""
    spread = np.random.default_rng(0).uniform(-0.05, 0.05, (count, 4)) * [1, 1, 1, 0]
    return np.array(NOMINAL) * (1 + spread)


def tips(lengths, crank):
    """Return the pins at both ends of the coupler, above the ground, as complex numbers; `crank` is its angle."""
    a, c, r, g = lengths
    pin = a * np.exp(1j * np.asarray(crank))
    away = g - pin
    far = np.abs(away)
    along = (c**2 + far**2 - r**2) / (2 * far)
    return pin, pin + away / far * (along + 1j * np.sqrt(c**2 - along**2))


def bar_angles(lengths, crank=START):
    """Return the angles of crank, coupler and rocker from the ground (rad); `crank` is the first of them."""
    pin, tip = tips(lengths, crank)
    return np.array([crank, np.angle(tip - pin), np.angle(tip - lengths[3])])


def joint_angles(lengths, crank=START):
    """Return the joint angles (rad): crank from ground, coupler from crank, rocker from ground."""
    phi = bar_angles(lengths, crank)
    return np.array([phi[0], phi[1] - phi[0], phi[2]])


def poses(lengths, crank=START):
    """Return the poses (x, y, φ) of the three bars, with frames at their middles."""
    pin, tip = tips(lengths, crank)
    middles = pin / 2, (pin + tip) / 2, (lengths[3] + tip) / 2
    return [np.array([z.real, z.imag, phi]) for z, phi in zip(middles, bar_angles(lengths, crank), strict=True)]


class Fall:
    """Motion from rest by Lagrange's equation in the crank's angle θ, m(θ) θ̈ + m'(θ) θ̇²/2 + V'(θ) = 0, by SciPy."""

    def __init__(self):
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", True)

        def middles(lengths, theta):
            """Return the places of the middles of the three bars, and their angles, for the crank angle θ."""
            a, c, r, g = lengths
            pin = a * jnp.stack([jnp.cos(theta), jnp.sin(theta)])
            away = jnp.stack([g, 0.0]) - pin
            far = jnp.sqrt(away @ away)
            along = (c**2 + far**2 - r**2) / (2 * far)
            x, y = away / far
            tip = pin + jnp.stack([x * along, y * along]) + jnp.sqrt(c**2 - along**2) * jnp.stack([-y, x])
            pairs = (pin, 0 * pin), (tip, pin), (tip, jnp.stack([g, 0.0]))
            return [(p + q) / 2 for p, q in pairs], [jnp.arctan2(*(p - q)[::-1]) for p, q in pairs]

        def inertia(lengths, theta):
            """Return m(θ), twice the kinetic energy at θ̇ = 1."""
            places, turns = jax.jvp(lambda x: middles(lengths, x), (theta,), (jnp.ones(()),))[1]
            return sum(m * (v @ v + m**2 / 12 * w**2) for m, v, w in zip(lengths[:3], places, turns, strict=True))

        potential = lambda lengths, theta: (
            GRAVITY * sum(m * place[1] for m, place in zip(lengths[:3], middles(lengths, theta)[0], strict=True))
        )

        def rates(lengths, state):
            """Return the time derivatives of (θ, θ̇)."""
            theta, omega = state
            slope = jax.grad(inertia, 1)(lengths, theta) * omega**2 / 2 + jax.grad(potential, 1)(lengths, theta)
            return jnp.stack([omega, -slope / inertia(lengths, theta)])

        self._rates = jax.jit(rates)

    def __call__(self, lengths) -> float:
        """Return the crank's angle at the end of the fall (rad)."""
        from scipy.integrate import solve_ivp

        rates = lambda t, state: np.asarray(self._rates(np.array(lengths), state))
        return float(solve_ivp(rates, (0, END), [START, 0.0], "DOP853", rtol=1e-13, atol=1e-13).y[0, -1])

    def slopes(self, step=2e-3) -> np.ndarray:
        """Return the derivatives by the four lengths at nominal ones, by differences of sixth order."""
        weights = {1: 3 / 4, 2: -3 / 20, 3: 1 / 60}
        return np.array([
            sum(w * (self(NOMINAL + k * e) - self(NOMINAL - k * e)) for k, w in weights.items()) / step
            for e in step * np.eye(4)
        ])  # fmt: skip
