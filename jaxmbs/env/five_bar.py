# mypy: disable-error-code=arg-type
"""A five-bar parallel robot that follows a path."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs import forces, planar
from jaxmbs.env.environment import Environment
from jaxmbs.system.mechanism import Mechanism

# Mass of the four moving bars in kg/m.
MASS_OF_BARS = 0.8
# Viscous friction coefficient of each motor in N m s.
FRICTION = 2e-3
# Unit of the observed rates in rad/s.
RATE_UNIT = 20.0


class FiveBar(Environment):
    """A five-bar parallel robot with two motors at the frame, whose tip follows a point on a closed curve.

    The curve is p(s) = centre + (width cos s, height sin(2s) / 2), an eight, or for `path="ellipse"` centre + (width
    cos s, height sin s). Its point moves at constant ṡ = 2π / period from a phase that is drawn for each episode. The
    arm lies in a horizontal plane. The tip starts near the middle of the curve, at rest.

    Design: `base`, distance of the motors; `proximal` and `distal`, lengths of the bars at the motors and at the tip
    (m). Actions: torques of the motors over `torque`. Reward: 2 − √(1 + (d / 2 cm)²) − effort · |action|² with the
    distance d of the tip from its target. Metric: `distance` d (m).

    Observations (14): tip − centre, target − centre, target − tip, target after 3 and after 6 control steps − tip, each
    over 0.1 m; velocity of the tip over 1 m/s; rates of the motors over 20 rad/s.

    Args:
        control_step, substeps, horizon, failure, method, formulation: see `Environment`.
        torque: the largest torque of a motor (N m).
        effort: weight of |action|² in the reward.
        centre, width, height, period: centre and size of the path (m), time of a round (s).
        path: "eight" or "ellipse".
        scatter: largest distance of the tip from the centre at the start, in x and in y (m).

    Examples:
        >>> mbs.env.FiveBar(path="ellipse").design
        {'base': 0.16, 'proximal': 0.2, 'distal': 0.28}
    """

    horizon: int = 150
    torque: float = 0.3
    effort: float = 0.01
    centre: tuple[float, float] = (0.0, 0.32)
    width: float = 0.08
    height: float = 0.06
    period: float = 1.5
    path: str = "eight"
    scatter: float = 0.02

    action_size: ClassVar[int] = 2
    observation_bounds: ClassVar[tuple[float, ...]] = (10.0,) * 10 + (30.0,) * 2 + (10.0,) * 2

    def __check_init__(self):
        if self.path not in ("eight", "ellipse"):
            raise ValueError(f'path must be "eight" or "ellipse", got {self.path!r}')

    @property
    def design(self):
        """Distance of the motors, and lengths of the bars at the motors and at the tip, in m."""
        return {"base": 0.16, "proximal": 0.2, "distal": 0.28}

    def build(self, params, action):
        """Return the robot for lengths `params` (m) and an action (2,), torques of left, right motor over `torque`."""
        half, near, far = params["base"] / 2, params["proximal"], params["distal"]
        left, right = self.torque * action
        return Mechanism(
            bodies={"left": _bar(near), "right": _bar(near), "left arm": _bar(far), "right arm": _bar(far)},
            constraints={
                "A": planar.Revolute("ground", "left", (-half, 0), (0, 0)),
                "B": planar.Revolute("ground", "right", (half, 0), (0, 0)),
                "C": planar.Revolute("left", "left arm", (near, 0), (0, 0)),
                "D": planar.Revolute("right", "right arm", (near, 0), (0, 0)),
                "tip": planar.Revolute("left arm", "right arm", (far, 0), (far, 0)),
            },
            forces={
                "left motor": forces.TorsionSpring("ground", "left", damping=FRICTION, actuator=left),
                "right motor": forces.TorsionSpring("ground", "right", damping=FRICTION, actuator=right),
            },
        )

    def target(self, task, t):
        """Return the target of the tip at time t, (2,) in m; `task` is the angle at which it begins."""
        s = task + 2 * jnp.pi / self.period * t
        up = jnp.sin(2 * s) / 2 if self.path == "eight" else jnp.sin(s)
        return jnp.stack([self.width * jnp.cos(s), self.height * up]) + np.array(self.centre)

    def tip(self, params, now):
        """Return the place of the tip, (2,) in m."""
        return now.point("left arm", jnp.stack([params["distal"], 0 * params["distal"]]))

    def task(self, key):
        """Draw the place on the curve at which the target begins, an angle in [0, 2π)."""
        return jax.random.uniform(key, maxval=2 * np.pi)

    def start(self, params, task, key):
        """Return poses with the tip at a random place near the centre of the curve; bodies are at rest."""
        place = np.array(self.centre) + jax.random.uniform(key, (2,), minval=-self.scatter, maxval=self.scatter)
        return _poses_with_tip_at(params, place), None

    def observe(self, params, task, now):
        """Return places and velocity of the tip, rates of the motors, and the target now and 3 and 6 steps later."""
        tip, centre = self.tip(params, now), np.array(self.centre)
        there, soon, later = (self.target(task, now.t + k * self.control_step) for k in (0, 3, 6))
        velocity = now.point_velocity("left arm", jnp.stack([params["distal"], 0 * params["distal"]]))
        rates = jnp.stack([now.velocity("left.phi"), now.velocity("right.phi")])
        places = [tip - centre, there - centre, there - tip, soon - tip, later - tip]
        return jnp.concatenate([*(x / 0.1 for x in places), velocity, rates / RATE_UNIT])

    def reward(self, params, task, now, action):
        """Return 2 − √(1 + (d / 20 mm)²) for the distance d of the tip from its target, less the cost of the action."""
        away = self.tip(params, now) - self.target(task, now.t)
        return 2 - jnp.sqrt(1 + away @ away / 0.02**2) - self.effort * action @ action

    def metrics(self, params, task, now):
        """Return {"distance": distance of the tip from its target (m)}."""
        away = self.tip(params, now) - self.target(task, now.t)
        square = away @ away
        return {"distance": jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)}


def _bar(length):
    """Return a uniform bar along x from its frame to `length` (m), with a mass of `MASS_OF_BARS` · length."""
    mass = MASS_OF_BARS * length
    return planar.Body(mass=mass, inertia=mass * length**2 / 12, com=(length / 2, 0))


def _poses_with_tip_at(params, place):
    """Return poses with the tip at a place and elbows outwards; the loop is closed if the place can be reached."""
    half, near, far = params["base"] / 2, params["proximal"], params["distal"]
    poses = {}
    for side, name in ((1, "left"), (-1, "right")):
        pivot = jnp.stack([-side * half, 0 * half])
        line = place - pivot
        length = jnp.sqrt(line @ line)
        cosine = (near**2 + length**2 - far**2) / (2 * near * length)
        angle = jnp.arctan2(line[1], line[0]) + side * jnp.arccos(jnp.clip(cosine, -0.999, 0.999))
        elbow = pivot + near * jnp.stack([jnp.cos(angle), jnp.sin(angle)])
        onward = place - elbow
        poses[name] = jnp.append(pivot, angle)
        poses[f"{name} arm"] = jnp.append(elbow, jnp.arctan2(onward[1], onward[0]))
    return poses
