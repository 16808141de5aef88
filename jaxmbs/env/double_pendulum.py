# mypy: disable-error-code=arg-type
"""A cart that balances a double pendulum."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp

from jaxmbs import forces, planar
from jaxmbs.env.environment import Environment
from jaxmbs.system.mechanism import Mechanism

# Acceleration of gravity in m/s², along −y.
GRAVITY = 9.81
# Mass of the cart in kg.
MASS_OF_CART = 1.0
# Mass of the bars of the pendulum in kg/m.
MASS_OF_BARS = 0.5


class CartDoublePendulum(Environment):
    """A cart on a rail with a double pendulum on it, held upright by a force on the cart.

    Design: `lower`, `upper`, lengths of the uniform bars (m). Action: force on the cart over `force`. Angles are
    measured from the upright position. Reward, with the height y of the tip: y / (lower + upper) − 0.1 x² − 0.01 ẋ² −
    effort · action². The episode ends when the cart leaves the rail, |x| > `rail`, or, without `swing_up`, when the tip
    is lower than 70 % of its largest height.

    Observations (8): x, ẋ, and of each bar sin φ, cos φ and φ̇ over 10 rad/s. Metric: `height` of the tip (m).

    Args:
        control_step, substeps, horizon, failure, method, formulation: see `Environment`.
        force: the largest force (N).
        effort: weight of action² in the reward.
        rail: half of its length (m).
        swing_up: start hanging down instead of upright.
        scatter: largest deviation of the angles at the start (rad).

    Examples:
        >>> mbs.env.CartDoublePendulum(swing_up=True).design
        {'lower': 0.5, 'upper': 0.5}
    """

    horizon: int = 250
    force: float = 20.0
    effort: float = 0.01
    rail: float = 2.0
    swing_up: bool = False
    scatter: float = 0.1

    action_size: ClassVar[int] = 1
    observation_bounds: ClassVar[tuple[float, ...]] = (5.0, 20.0, 1.0, 1.0, 10.0, 1.0, 1.0, 10.0)

    @property
    def design(self):
        """Lengths of both bars in m."""
        return {"lower": 0.5, "upper": 0.5}

    def build(self, params, action):
        """Return the mechanism for lengths `params` (m) and an action (1,), push on the cart over `force`, −1 to 1."""
        lower, upper = params["lower"], params["upper"]
        return Mechanism(
            bodies={"cart": planar.Body(mass=MASS_OF_CART, inertia=0.1), "lower": _bar(lower), "upper": _bar(upper)},
            constraints={
                "rail": planar.Translational("ground", "cart", (0, 0), (0, 0), (1, 0)),
                "A": planar.Revolute("cart", "lower", (0, 0), (0, 0)),
                "B": planar.Revolute("lower", "upper", (0, lower), (0, 0)),
            },
            forces={
                "gravity": forces.Gravity((0, -GRAVITY)),
                "push": forces.PointForce("cart", (0, 0), (self.force * action[0], 0)),
            },
        )

    def start(self, params, task, key):
        """Return coordinates near the upright position, or near the hanging one with `swing_up`; bodies are at rest."""
        angles = jax.random.uniform(key, (2,), minval=-self.scatter, maxval=self.scatter)
        first, second = angles + jnp.pi if self.swing_up else angles
        joint = params["lower"] * jnp.stack([-jnp.sin(first), jnp.cos(first)])
        return {"lower.phi": first, "upper": jnp.append(joint, second)}, None

    def observe(self, params, task, now):
        """Return (8,): x (m) and ẋ (m/s) of the cart, then sin φ, cos φ, φ̇ / 10 (rad/s) of each bar."""
        of_bar = lambda phi, rate: [jnp.sin(phi), jnp.cos(phi), rate / 10]
        bars = [of_bar(now.position(f"{bar}.phi"), now.velocity(f"{bar}.phi")) for bar in ("lower", "upper")]
        return jnp.stack([now.position("cart.x"), now.velocity("cart.x"), *bars[0], *bars[1]])

    def height(self, params, now):
        """Return the height of the tip above the cart (m)."""
        lower, upper = (params[bar] * jnp.cos(now.position(f"{bar}.phi")) for bar in ("lower", "upper"))
        return lower + upper

    def reward(self, params, task, now, action):
        """Return the tip's height in pendulum lengths, less costs of the cart's place and speed and of the action."""
        height = self.height(params, now) / (params["lower"] + params["upper"])
        x, rate = now.position("cart.x"), now.velocity("cart.x")
        return height - 0.1 * x**2 - 0.01 * rate**2 - self.effort * action @ action

    def ends(self, params, task, now):
        """Return True if the cart leaves the rail or, without `swing_up`, the tip is below 0.7 pendulum lengths."""
        off = jnp.abs(now.position("cart.x")) > self.rail
        down = self.height(params, now) < 0.7 * (params["lower"] + params["upper"])
        return off if self.swing_up else off | down

    def metrics(self, params, task, now):
        """Return {"height": height of the tip above the cart (m)}."""
        return {"height": self.height(params, now)}


def _bar(length):
    """Return a uniform bar along y from its frame to `length` (m), with a mass of `MASS_OF_BARS` · length."""
    mass = MASS_OF_BARS * length
    return planar.Body(mass=mass, inertia=mass * length**2 / 12, com=(0, length / 2))
