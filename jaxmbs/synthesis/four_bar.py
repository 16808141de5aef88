"""The planar four-bar with a coupler point, as synthesis sees it: free numbers, closed form, mechanism."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs import planar
from jaxmbs.element import GROUND
from jaxmbs.motion import Ramp
from jaxmbs.numerics.plane import perpendicular
from jaxmbs.system.mechanism import Mechanism

# Below this part of its square the height of the elbow counts as zero: there its slope by the lengths is infinite.
FLAT = 1e-12


class FourBar:
    """Ground, crank, coupler and rocker with a point of the coupler, anywhere in the plane.

    Whatever the nine free numbers are the crank is the shortest link and turns all round, Grashof's condition: with the
    slack m > 0 coupler + rocker = ground + crank + m, and |coupler − rocker| < ground − crank.

    A design has `ground`, `crank`, `coupler`, `rocker`, the lengths; `point`, of the coupler, from the crank's pin in axes
    of which x points to the rocker's pin; `angle` of the line from the crank's pivot to the rocker's; `pivot`, the crank's.
    Crank angles count from that line. The branch is +1 where the coupler lies to the left of the line from the crank's pin
    to the rocker's pivot, −1 to the right.
    """

    name: ClassVar[str] = "four-bar"
    entries: ClassVar[tuple[str, ...]] = ("ground", "crank", "coupler", "rocker", "point", "angle", "pivot")
    size: ClassVar[int] = 9
    lengths: ClassVar[tuple[str, ...]] = ("ground", "crank", "coupler", "rocker")
    output: ClassVar[str] = "coupler"

    # --- free numbers ---

    @staticmethod
    def design(u: Float[Array, "9"]) -> dict[str, Array]:
        """The design of free numbers u: logarithms of crank, ground − crank and slack; a number that is ±∞ where coupler
        and rocker differ most; the point, the angle, the pivot."""
        crank, more, slack = jnp.exp(u[0]), jnp.exp(u[1]), jnp.exp(u[2])
        ground = crank + more
        together, apart = ground + crank + slack, more * jnp.tanh(u[3])
        return {
            "ground": ground,
            "crank": crank,
            "coupler": (together + apart) / 2,
            "rocker": (together - apart) / 2,
            "point": u[4:6],
            "angle": u[6],
            "pivot": u[7:9],
        }

    @staticmethod
    def sample(rng: np.random.Generator, count: int) -> np.ndarray:
        """Free numbers of random linkages of about unit size."""
        u = np.zeros((count, 9))
        low, high = np.array([[-1.0, -1.0, -2.0, -1.5], [0.7, 1.5, 1.0, 1.5]])
        u[:, :4] = rng.uniform(low, high, (count, 4))
        u[:, 4:6] = 2 * rng.normal(size=(count, 2))
        return u

    @staticmethod
    def placed(u: np.ndarray, scale, turn, shift) -> np.ndarray:
        """Free numbers of the same linkages larger by `scale`, then turned about the origin and shifted; one row each."""
        u = u.copy()
        u[:, :3] += np.log(scale)[:, None]
        u[:, 4:6] *= scale[:, None]
        c, s = np.cos(turn), np.sin(turn)
        x, y = (u[:, 7:9] * scale[:, None]).T
        u[:, 7:9] = np.column_stack([c * x - s * y, s * x + c * y]) + shift
        u[:, 6] += turn
        return u

    # --- closed form ---

    @staticmethod
    def point(b: dict, angle, branch) -> Float[Array, "2"]:
        """Where the coupler point is at a crank angle: the two circles about the crank's pin and the rocker's pivot.

        From the pin, with d to the pivot, the rocker's pin is at α d + β d⊥, α = (l₃² + d² − l₄²) / 2d², β² = l₃²/d² − α².
        """
        crank, ground = b["crank"], b["ground"]
        pin = crank * jnp.stack([jnp.cos(angle), jnp.sin(angle)])
        d = jnp.stack([ground - pin[0], -pin[1]])
        square = d @ d
        ratio = b["coupler"] ** 2 / square
        along = (ratio + 1 - b["rocker"] ** 2 / square) / 2
        height = jnp.sqrt(jnp.maximum(ratio - along**2, FLAT * ratio))
        e = (along * d + branch * height * perpendicular(d)) / b["coupler"]
        seen = pin + b["point"][0] * e + b["point"][1] * perpendicular(e)
        c, s = jnp.cos(b["angle"]), jnp.sin(b["angle"])
        return b["pivot"] + jnp.stack([c * seen[0] - s * seen[1], s * seen[0] + c * seen[1]])

    @staticmethod
    def transmission(b: dict) -> Float[Array, "2"]:
        """The cosines of the angle between coupler and rocker at their pin where the crank lies on the line of the pivots,
        before and behind; all other cosines are in between."""
        square = jnp.stack([b["ground"] - b["crank"], b["ground"] + b["crank"]]) ** 2
        return (b["coupler"] ** 2 + b["rocker"] ** 2 - square) / (2 * b["coupler"] * b["rocker"])

    # --- mechanism ---

    @staticmethod
    def mechanism(b: dict, start=0.0, turn=1.0) -> Mechanism:
        """Bodies "crank", "coupler" and "rocker" with their origins at O, A and C and x along the links; a motor that turns
        the crank by 2π in a unit of time, from the angle `start`, backwards if `turn` is −1."""
        far = b["pivot"] + b["ground"] * jnp.stack([jnp.cos(b["angle"]), jnp.sin(b["angle"])])
        rod = lambda name: jnp.stack([b[name], 0 * b[name]])
        origin = jnp.zeros(2)
        return Mechanism(
            bodies={name: planar.Body() for name in ("crank", "coupler", "rocker")},
            constraints={
                "O": planar.Revolute(GROUND, "crank", b["pivot"], origin),
                "A": planar.Revolute("crank", "coupler", rod("crank"), origin),
                "B": planar.Revolute("coupler", "rocker", rod("coupler"), rod("rocker")),
                "C": planar.Revolute(GROUND, "rocker", far, origin),
            },
            drivers={"motor": planar.RevoluteDriver(GROUND, "crank", Ramp(2 * jnp.pi * turn, start), b["angle"])},
        )

    @staticmethod
    def guess(b: dict, angle, branch) -> dict[str, tuple]:
        """The assembled poses of the bodies at a crank angle."""
        turned = float(b["angle"] + angle)
        pivot, length = np.asarray(b["pivot"]), float(b["ground"])
        pin = pivot + float(b["crank"]) * np.array([np.cos(turned), np.sin(turned)])
        far = pivot + length * np.array([np.cos(b["angle"]), np.sin(b["angle"])])
        at_its_end = {**b, "point": jnp.stack([jnp.asarray(b["coupler"], float), jnp.zeros(())])}
        elbow = np.asarray(_point(at_its_end, angle, branch))
        toward = lambda start, end: float(np.arctan2(end[1] - start[1], end[0] - start[0]))
        return {
            "crank": (*pivot, turned),
            "coupler": (*pin, toward(pin, elbow)),
            "rocker": (*far, toward(far, elbow)),
        }


_point = jax.jit(FourBar.point)
