"""Linkages that turn an angle into a function of it: closed form, Freudenstein's equation, mechanism.

Lengths of the four-bar are in units of its ground, those of the slider-crank in units of the way that the slide is to go.
`x` are five numbers: logarithms of two or three lengths, the offset of the slider-crank, the angle of the crank and
what the output is where the range begins.
"""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from jaxmbs import planar
from jaxmbs.element import GROUND
from jaxmbs.motion import Ramp
from jaxmbs.synthesis.common import TINY
from jaxmbs.synthesis.linkages.four_bar import FourBar
from jaxmbs.system.mechanism import Mechanism

# Below this the sine squared of the transmission angle counts as zero: there its slope by the lengths is infinite.
FLAT = 1e-12


class FourBarGenerator:
    """The angle of the rocker, from the line of the pivots, as a function of that of the crank."""

    name: ClassVar[str] = "four-bar"
    free: ClassVar[tuple[str, ...]] = ("crank", "coupler", "rocker")
    positive: ClassVar[tuple[bool, ...]] = (True, True, True)
    output: ClassVar[str] = "rocker"
    angular: ClassVar[bool] = True

    @staticmethod
    def equation(angle, output):
        """Rows (…, 3) and right sides of Freudenstein's equation K₁ cos ψ − K₂ cos φ + K₃ = cos(φ − ψ)."""
        rows = np.stack([np.cos(output), -np.cos(angle), np.ones_like(angle)], -1)
        return rows, np.cos(angle - output)

    @staticmethod
    def lengths(k):
        """Crank and rocker, either of which is negative where its vector is reversed, and the square of the coupler:
        K₁ = d/a, K₂ = d/c, K₃ = (a² − b² + c² + d²)/(2ac) with d = 1. (…, 3) ↦ crank, squared coupler, rocker."""
        a, c = 1 / k[..., 0], 1 / k[..., 1]
        return a, a**2 + c**2 + 1 - 2 * a * c * k[..., 2], c

    @classmethod
    def numbers(cls, k, angle, output):
        """The five numbers of a solution of the equation, the offsets of crank and rocker."""
        a, square, c = cls.lengths(k)
        reversed_crank, reversed_rocker = np.pi * (a < 0), np.pi * (c < 0)
        parts = (
            np.log(np.abs(a)),
            np.log(square) / 2,
            np.log(np.abs(c)),
            angle + reversed_crank,
            output + reversed_rocker,
        )
        return np.stack(parts, -1), np.stack([reversed_crank, reversed_rocker], -1)

    @staticmethod
    def where(lengths, angle, branch, xp):
        """(cos ψ, sin ψ) and the cosine of the transmission angle, beyond ±1 where the links do not reach."""
        a, b, c = lengths
        x, y = 1 - a * xp.cos(angle), -a * xp.sin(angle)
        square = x * x + y * y + TINY
        cosine = (b * b + c * c - square) / (2 * b * c)
        along = (c * c + square - b * b) / (2 * square)
        height = branch * b * c * xp.sqrt(xp.maximum(1 - cosine * cosine, FLAT)) / square
        return ((-along * x - height * y) / c, (-along * y + height * x) / c), cosine

    @staticmethod
    def missed(seen, wanted, xp):
        """What is missed by: the chord between two directions, as long as the angle while that is small."""
        return [seen[0] - xp.cos(wanted), seen[1] - xp.sin(wanted)]

    @staticmethod
    def error(seen, wanted):
        """By how much, as an angle."""
        c, s = np.cos(wanted), np.sin(wanted)
        return np.arctan2(c * seen[1] - s * seen[0], c * seen[0] + s * seen[1])

    @staticmethod
    def sample(rng, count):
        """Logarithms of random lengths, and random beginnings."""
        return np.column_stack([rng.normal(0, 0.8, (count, 3)), rng.uniform(-np.pi, np.pi, (count, 2))])

    @staticmethod
    def design(x, offsets, unit) -> dict[str, Any]:
        a, b, c = np.exp(x[:3])
        design = {"ground": 1.0, "crank": float(a), "coupler": float(b), "rocker": float(c)}
        place = {"point": np.zeros(2), "angle": 0.0, "pivot": np.zeros(2)}
        return {**design, **place, "crank_offset": float(offsets[0]), "rocker_offset": float(offsets[1])}

    @staticmethod
    def mechanism(design, start, width) -> Mechanism:
        return FourBar.mechanism(design, start, width / (2 * np.pi))

    @staticmethod
    def guess(design, angle, branch) -> dict[str, tuple]:
        return FourBar.guess(design, angle, branch)

    @staticmethod
    def read(poses):
        """What the poses (T, 3 bodies, 3) of the mechanism show, as `where` does."""
        return np.cos(poses[:, 2, 2]), np.sin(poses[:, 2, 2])


class SliderCrankGenerator:
    """The way of a slide along x as a function of the angle of the crank; the slide's pin is `offset` above the crank's
    pivot."""

    name: ClassVar[str] = "slider-crank"
    free: ClassVar[tuple[str, ...]] = ("crank", "coupler", "offset")
    positive: ClassVar[tuple[bool, ...]] = (True, True, False)
    output: ClassVar[str] = "slider"
    angular: ClassVar[bool] = False

    @staticmethod
    def equation(angle, output):
        """Rows (…, 3) and right sides of K₁ s cos φ + K₂ sin φ + K₃ = s²."""
        rows = np.stack([output * np.cos(angle), np.sin(angle), np.ones_like(angle)], -1)
        return rows, output**2

    @staticmethod
    def lengths(k):
        """K₁ = 2a, K₂ = 2ae, K₃ = b² − a² − e². (…, 3) ↦ crank, squared coupler, offset."""
        a, e = k[..., 0] / 2, k[..., 1] / k[..., 0]
        return a, k[..., 2] + a**2 + e**2, e

    @classmethod
    def numbers(cls, k, angle, output):
        """The five numbers of a solution of the equation, the offset of the crank and 0."""
        a, square, e = cls.lengths(k)
        reversed_crank = np.pi * (a < 0)
        parts = np.log(np.abs(a)), np.log(square) / 2, e, angle + reversed_crank, output + 0 * e
        return np.stack(parts, -1), np.stack([reversed_crank, 0 * reversed_crank], -1)

    @staticmethod
    def where(lengths, angle, branch, xp):
        """(s,) and the cosine of the angle between coupler and the normal of the slide's way."""
        a, b, e = lengths
        cosine = (a * xp.sin(angle) - e) / b
        return (a * xp.cos(angle) + branch * b * xp.sqrt(xp.maximum(1 - cosine * cosine, FLAT)),), cosine

    @staticmethod
    def missed(seen, wanted, xp):
        return [seen[0] - wanted]

    @staticmethod
    def error(seen, wanted):
        return seen[0] - wanted

    @staticmethod
    def sample(rng, count):
        lengths = rng.normal([0.0, 0.7, 0.0], [0.7, 0.7, 0.7], (count, 3))
        angle = rng.uniform(-np.pi, np.pi, count)
        return np.column_stack([lengths, angle, np.exp(lengths[:, 1]) * rng.choice([-1.0, 1.0], count)])

    @staticmethod
    def design(x, offsets, unit) -> dict[str, Any]:
        a, b = np.exp(x[:2]) * unit
        return {"crank": float(a), "coupler": float(b), "offset": float(x[2] * unit), "crank_offset": float(offsets[0])}

    @staticmethod
    def mechanism(design, start, width) -> Mechanism:
        origin, along = jnp.zeros(2), lambda length: jnp.array([length, 0.0])
        return Mechanism(
            bodies={name: planar.Body() for name in ("crank", "coupler", "slider")},
            constraints={
                "O": planar.Revolute(GROUND, "crank", origin, origin),
                "A": planar.Revolute("crank", "coupler", along(design["crank"]), origin),
                "B": planar.Revolute("coupler", "slider", along(design["coupler"]), origin),
                "C": planar.Translational(GROUND, "slider", jnp.array([0.0, design["offset"]]), origin),
            },
            drivers={"motor": planar.RevoluteDriver(GROUND, "crank", Ramp(width, start))},
        )

    @classmethod
    def guess(cls, design, angle, branch) -> dict[str, tuple]:
        lengths = [design[name] for name in cls.free]
        (slide,), _ = cls.where(lengths, angle, branch, np)
        pin = design["crank"] * np.array([np.cos(angle), np.sin(angle)])
        toward = float(np.arctan2(design["offset"] - pin[1], slide - pin[0]))
        return {
            "crank": (0.0, 0.0, float(angle)),
            "coupler": (float(pin[0]), float(pin[1]), toward),
            "slider": (float(slide), float(design["offset"]), 0.0),
        }

    @staticmethod
    def read(poses):
        return (poses[:, 2, 0],)
