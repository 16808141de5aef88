# mypy: disable-error-code=arg-type
"""A slider-crank that moves its slider to a target."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs import forces, planar
from jaxmbs.env.environment import Environment
from jaxmbs.system.mechanism import Mechanism

# Mass of crank and rod in kg/m.
MASS_OF_BARS = 2.0
# Mass of the slider in kg.
MASS_OF_SLIDER = 0.5
# Viscous friction coefficient of the crank in N m s.
FRICTION = 0.02
# Unit of the observed rate of the crank in rad/s.
RATE_UNIT = 20.0


class SliderCrank(Environment):
    """A slider-crank with a motor that moves the slider to a target, through dead centres if needed, and holds it.

    The crank turns about the origin; the slider runs along y = 0 between rod − crank and rod + crank. For each episode
    the target is drawn from the middle 80 % of that way, and the crank's first angle from the whole turn.

    Design: `crank`, `rod` (m), rod > crank. Action: torque of the motor over `torque`.
    Reward: 1 − ((x − target) / crank)² − effort · action². Metric: `distance` |x − target| (m).

    Observations (6): cos, sin of the crank's angle, its rate over 20 rad/s; x − rod, target − rod, x − target over 0.1
    m.

    Args:
        control_step, substeps, horizon, failure, method, formulation: see `Environment`.
        torque: the largest torque (N m).
        effort: weight of action² in the reward.

    Examples:
        >>> mbs.env.SliderCrank().design
        {'crank': 0.1, 'rod': 0.25}
    """

    torque: float = 0.5
    effort: float = 0.01

    action_size: ClassVar[int] = 1
    observation_bounds: ClassVar[tuple[float, ...]] = (1.0, 1.0, 10.0, 10.0, 10.0, 10.0)

    @property
    def design(self):
        """Lengths of crank and rod in m."""
        return {"crank": 0.1, "rod": 0.25}

    def build(self, params, action):
        """Return the mechanism with the torque of an action at the crank."""
        crank, rod = params["crank"], params["rod"]
        return Mechanism(
            bodies={"crank": _bar(crank), "rod": _bar(rod), "slider": planar.Body(mass=MASS_OF_SLIDER, inertia=1e-3)},
            constraints={
                "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
                "A": planar.Revolute("crank", "rod", (crank, 0), (0, 0)),
                "B": planar.Revolute("rod", "slider", (rod, 0), (0, 0)),
                "guide": planar.Translational("ground", "slider", (0, 0), (0, 0), (1, 0)),
            },
            forces={
                "motor": forces.TorsionSpring("ground", "crank", damping=FRICTION, actuator=self.torque * action[0])
            },
        )

    def task(self, key):
        """Draw the target of the slider: its place from x = rod, the middle of the way, in crank lengths."""
        return jax.random.uniform(key, minval=-0.8, maxval=0.8)

    def target(self, params, task):
        """Return the x coordinate of the target of the slider (m)."""
        return params["rod"] + params["crank"] * task

    def start(self, params, task, key):
        """Return closed poses for a random angle of the crank; bodies are at rest."""
        angle = jax.random.uniform(key, maxval=2 * np.pi)
        crank, rod = params["crank"], params["rod"]
        pin = crank * jnp.stack([jnp.cos(angle), jnp.sin(angle)])
        down = jnp.clip(-pin[1] / rod, -0.99, 0.99)
        place = pin[0] + rod * jnp.sqrt(1 - down**2)
        return {
            "crank.phi": angle,
            "rod": jnp.append(pin, jnp.arcsin(down)),
            "slider.x": place,
        }, None

    def observe(self, params, task, now):
        """Return the observation (6,): the crank's angle and rate, places of slider and target, and the error."""
        angle, x, target = now.position("crank.phi"), now.position("slider.x"), self.target(params, task)
        places = [x - params["rod"], target - params["rod"], x - target]
        return jnp.stack(
            [
                jnp.cos(angle),
                jnp.sin(angle),
                now.velocity("crank.phi") / RATE_UNIT,
                *(place / 0.1 for place in places),
            ]
        )

    def reward(self, params, task, now, action):
        """Return 1 − (e / crank length)² for the slider's distance e from its target, less the cost of the action."""
        away = now.position("slider.x") - self.target(params, task)
        return 1 - (away / params["crank"]) ** 2 - self.effort * action @ action

    def metrics(self, params, task, now):
        """Return {"distance": distance of the slider from its target (m)}."""
        return {"distance": jnp.abs(now.position("slider.x") - self.target(params, task))}


def _bar(length):
    """Return a uniform bar along x whose frame is at one end."""
    mass = MASS_OF_BARS * length
    return planar.Body(mass=mass, inertia=mass * length**2 / 12, com=(length / 2, 0))
