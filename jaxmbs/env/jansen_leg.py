# mypy: disable-error-code=arg-type
"""Theo Jansen's leg, whose crank is driven at constant speed."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs import forces, planar
from jaxmbs.env.environment import Environment
from jaxmbs.system.mechanism import Mechanism

# Lengths of Jansen's leg by his names, in cm.
LENGTHS = {"a": 38.0, "b": 41.5, "c": 39.3, "d": 40.1, "e": 55.8, "f": 39.4, "g": 36.7}
LENGTHS |= {"h": 65.7, "i": 49.0, "j": 50.0, "k": 61.9, "l": 7.8, "m": 15.0}
# Mass of the triangles in kg per m² of their bounding boxes.
MASS_OF_PLATES = 1.0
# Acceleration of gravity in m/s².
GRAVITY = 9.81
# Height in m at which the foot bears half its load.
GROUND_HEIGHT = -0.9
# Range of heights in m over which the load of the foot rises.
GROUND_SOFTNESS = 0.005
# Mass of the crank in kg.
MASS_OF_CRANK = 1.0
# Moment of inertia of the crank in kg m².
INERTIA_OF_CRANK = 0.02
# Episodes end once the error of the crank's speed exceeds this many times the desired speed.
MAX_SPEED_ERROR = 2.0
# Rough guesses at twelve equal steps of the crank's angle: angle of the upper triangle (rad), pose of the lower one (m,
# rad).
GUESSES = np.array([
    [1.23, -0.27, -0.455, 2.65], [1.38, -0.22, -0.436, 2.80], [1.57, -0.20, -0.426, 3.01], [1.78, -0.21, -0.432, 3.26],
    [1.98, -0.27, -0.456, 3.49], [2.09, -0.43, -0.468, 3.65], [1.99, -0.65, -0.361, 3.68], [1.66, -0.71, -0.292, 3.31],
    [1.33, -0.65, -0.366, 2.88], [1.16, -0.55, -0.432, 2.66], [1.10, -0.45, -0.466, 2.57], [1.13, -0.35, -0.470, 2.57],
])  # fmt: skip


class JansenLeg(Environment):
    """A leg of Theo Jansen's walking animals: the crank shall turn at constant speed under the load of the foot.

    Once in a turn the foot is on the ground, at heights y below −0.9 m: with w(y) = 1 / (1 + exp((y + 0.9 m) / 5 mm))
    it bears the weight `load` · w upwards and the drag −`drag` · w · ẋ along the ground.

    Design: the thirteen lengths `a` to `m` (m) by Jansen's names. `m` is the crank, b-d-e and g-h-i are triangles, and
    rods with two pins have no mass. Action: torque of the crank over `torque`. The crank starts at any angle, at the
    desired speed ω. Reward: 1 − 10 (φ̇ / ω − 1)² − effort · action². Metric: `speed` φ̇ / ω. The episode ends if φ̇
    differs from ω by more than 2 ω.

    Observations (6): cos, sin of the crank's angle, φ̇ / ω − 1, the foot's place over 1 m, w of the foot.

    Args:
        control_step, substeps, horizon, failure, method, formulation: see `Environment`.
        torque: the largest torque (N m).
        effort: weight of action² in the reward.
        speed: desired speed ω of the crank (rad/s).
        load: weight that the foot bears on the ground (N).
        drag: drag of the foot on the ground (N s/m).

    Examples:
        >>> len(mbs.env.JansenLeg(load=60.0).design)
        13
    """

    torque: float = 5.0
    effort: float = 0.01
    speed: float = 2 * np.pi
    load: float = 40.0
    drag: float = 10.0

    action_size: ClassVar[int] = 1
    observation_bounds: ClassVar[tuple[float, ...]] = (1.0, 1.0, 10.0, 2.0, 2.0, 1.0)

    @property
    def design(self):
        """Jansen's lengths in m by his names."""
        return {name: length / 100 for name, length in LENGTHS.items()}

    def build(self, params, action):
        """Return the leg with the torque of an action at the crank.

        Args:
            params: Jansen's lengths in m.
            action: (1,), torque at the crank divided by `torque`.

        Returns:
            The mechanism. While the foot is low, the ground acts on it with `load` and `drag`.
        """
        p = params
        pivot, pin, knee = (-p["a"], -p["l"]), (p["m"], 0), (0, 0)
        foot = self.foot(p)

        def bearing(state):
            """Return the force (2,) of the ground on the foot in a state: load upwards and viscous drag along x."""
            lower = state["lower"]
            contact = _contact(lower.point(foot)[1])
            return contact * jnp.stack([-self.drag * lower.velocity(foot)[0], self.load + 0 * contact])

        return Mechanism(
            bodies={
                "crank": planar.Body(mass=MASS_OF_CRANK, inertia=INERTIA_OF_CRANK),
                "upper": _plate(p["b"], _third_corner(p["b"], p["d"], p["e"])),
                "lower": _plate(p["g"], foot),
            },
            constraints={
                "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
                "P": planar.Revolute("ground", "upper", pivot, (0, 0)),
                "j": planar.Distance("crank", "upper", pin, (p["b"], 0), p["j"]),
                "k": planar.Distance("crank", "lower", pin, knee, p["k"]),
                "c": planar.Distance("ground", "lower", pivot, knee, p["c"]),
                "f": planar.Distance("upper", "lower", _third_corner(p["b"], p["d"], p["e"]), (p["g"], 0), p["f"]),
            },
            forces={
                "gravity": forces.Gravity((0, -GRAVITY)),
                "motor": forces.Torque("crank", self.torque * action[0]),
                "foot": forces.PointForce("lower", foot, bearing),
            },
        )

    def foot(self, params):
        """Return the foot in the frame of the lower triangle, (2,) in m."""
        return _third_corner(params["g"], params["i"], params["h"])

    def start(self, params, task, key):
        """Return rough poses at a random angle of the crank, from `GUESSES`, and the desired speed of the crank."""
        row = jax.random.uniform(key, maxval=len(GUESSES))
        before, part = jnp.floor(row).astype(int), row - jnp.floor(row)
        table = jnp.asarray(GUESSES)
        rough = table[before % len(GUESSES)] * (1 - part) + table[(before + 1) % len(GUESSES)] * part
        pivot = jnp.stack([-params["a"], -params["l"], rough[0]])
        angle = 2 * np.pi / len(GUESSES) * row
        return {"crank.phi": angle, "upper": pivot, "lower": rough[1:]}, {"crank.phi": self.speed}

    def observe(self, params, task, now):
        """Return cosine and sine of the crank's angle, its relative speed error, and place and load of the foot."""
        angle, foot = now.position("crank.phi"), now.point("lower", self.foot(params))
        faster = now.velocity("crank.phi") / self.speed - 1
        return jnp.stack([jnp.cos(angle), jnp.sin(angle), faster, *foot, _contact(foot[1])])

    def reward(self, params, task, now, action):
        """Return 1 − 10 (φ̇ / `speed` − 1)² − `effort` · |action|², φ̇ at the end `now` of a step; no task is used."""
        faster = now.velocity("crank.phi") / self.speed - 1
        return 1 - 10 * faster**2 - self.effort * action @ action

    def ends(self, params, task, now):
        """Return True if the crank's speed is off by more than `MAX_SPEED_ERROR` times the desired one."""
        return jnp.abs(now.velocity("crank.phi") / self.speed - 1) > MAX_SPEED_ERROR

    def metrics(self, params, task, now):
        """Return {"speed": the crank's speed relative to the desired one}."""
        return {"speed": now.velocity("crank.phi") / self.speed}


def _contact(height):
    """Return the fraction of the load that a foot at this height (m) bears: 1/2 at `GROUND_HEIGHT`, 0 above it."""
    return jax.nn.sigmoid((GROUND_HEIGHT - height) / GROUND_SOFTNESS)


def _third_corner(base, left, right):
    """Return the third corner (2,), with y > 0, of a triangle with the base from (0, 0) to (base, 0).

    `left` and `right` are the lengths of the sides from the third corner to the two ends.
    """
    x = (base**2 + left**2 - right**2) / (2 * base)
    return jnp.stack([x, jnp.sqrt(left**2 - x**2)])


def _plate(base, corner):
    """Return a uniform triangular plate with the corners (0, 0), (base, 0) and `corner` in its frame."""
    # Three equal masses in the middles of the sides have the centre of mass and the inertia of the plate.
    corners = [0 * corner, jnp.stack([base, 0 * base]), corner]
    centre = sum(corners) / 3
    mass = MASS_OF_PLATES * base * corner[1]
    middles = [(corners[k] + corners[k - 1]) / 2 - centre for k in range(3)]
    return planar.Body(mass=mass, inertia=mass / 3 * sum(x @ x for x in middles), com=centre)
