"""Linkages whose output is a function of the crank angle: closed form, Freudenstein's equation, mechanism.

Lengths of the four-bar are in units of its ground, those of the slider-crank in units of the wanted travel of the slide.
`x` are five numbers: the logarithms of crank, coupler and rocker (slider-crank: logarithms of crank and coupler, and the
offset), then the crank angle and the output at the beginning of the range. `lengths` are the first three, without
logarithms; `free` are their names, and `positive` is True for logarithms. `xp` is numpy or jax.numpy.
"""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from jaxmbs.synthesis.linkages import FourBar, Linkage, SliderCrank

# Entries of every generator's design: crank's pivot at the origin, the linkage's own line along x, and an unused point.
AT_ORIGIN: dict[str, Any] = {"point": np.zeros(2), "angle": 0.0, "pivot": np.zeros(2)}


class FourBarGenerator:
    """The rocker angle of a four-bar as a function of the crank angle, both from the line of the pivots."""

    linkage: ClassVar[Linkage] = FourBar()
    free: ClassVar[tuple[str, ...]] = ("crank", "coupler", "rocker")
    positive: ClassVar[tuple[bool, ...]] = (True, True, True)
    angular: ClassVar[bool] = True

    @staticmethod
    def equation(angle, output):
        """Return rows (…, 3) and right sides (…) of Freudenstein's equation K₁ cos ψ − K₂ cos φ + K₃ = cos(φ − ψ)."""
        rows = np.stack([np.cos(output), -np.cos(angle), np.ones_like(angle)], -1)
        return rows, np.cos(angle - output)

    @staticmethod
    def numbers(k, angle, output):
        """Return the five numbers x and the angle offsets (crank, rocker) of a solution K of the equation, with d = 1.

        K₁ = d/a, K₂ = d/c, K₃ = (a² − b² + c² + d²)/(2ac). A link of negative length is reversed: its offset is π.
        """
        a, c = 1 / k[..., 0], 1 / k[..., 1]
        square, turned = a**2 + c**2 + 1 - 2 * a * c * k[..., 2], np.pi * np.stack([a < 0, c < 0], -1)
        lengths = np.log(np.abs(a)), np.log(square) / 2, np.log(np.abs(c))
        return np.stack([*lengths, angle + turned[..., 0], output + turned[..., 1]], -1), turned

    @classmethod
    def output_and_cosine(cls, lengths, angle, branch, xp):
        """Return (cos ψ, sin ψ) and the cosine of the transmission angle, beyond ±1 where links do not reach."""
        b = {"ground": 1.0, **dict(zip(cls.free, lengths, strict=True))}
        *_, rocker, cosine = FourBar.joints(b, angle, branch, xp)
        return rocker, cosine

    @staticmethod
    def residual(output, wanted):
        """Return output − (cos w, sin w) for output = (cos ψ, sin ψ) and the wanted angle w; near |ψ − w| long if small."""
        return [output[0] - jnp.cos(wanted), output[1] - jnp.sin(wanted)]

    @staticmethod
    def error(output, wanted):
        """Return output − wanted as an angle between −π and π."""
        c, s = np.cos(wanted), np.sin(wanted)
        return np.arctan2(c * output[1] - s * output[0], c * output[0] + s * output[1])

    @staticmethod
    def sample(rng, count):
        """Return numbers x (count, 5) of random four-bars."""
        return np.column_stack([rng.normal(0, 0.8, (count, 3)), rng.uniform(-np.pi, np.pi, (count, 2))])

    @staticmethod
    def design(x, offsets, unit) -> dict[str, Any]:
        """Return the design of numbers x and angle offsets, in units of the ground; `unit` is not used."""
        a, b, c = np.exp(x[:3])
        design = {"ground": 1.0, "crank": float(a), "coupler": float(b), "rocker": float(c)}
        return {**design, **AT_ORIGIN, "crank_offset": float(offsets[0]), "rocker_offset": float(offsets[1])}

    @staticmethod
    def output_of_poses(poses):
        """Return (cos ψ, sin ψ) (2, T) from poses (T, 3 bodies, 3) of the mechanism."""
        return np.stack([np.cos(poses[:, 2, 2]), np.sin(poses[:, 2, 2])])


class SliderCrankGenerator:
    """The travel of a slide along x as a function of the crank angle; its pin is `offset` above the crank's pivot."""

    linkage: ClassVar[Linkage] = SliderCrank()
    free: ClassVar[tuple[str, ...]] = ("crank", "coupler", "offset")
    positive: ClassVar[tuple[bool, ...]] = (True, True, False)
    angular: ClassVar[bool] = False

    @staticmethod
    def equation(angle, output):
        """Return rows (…, 3) and right sides (…) of K₁ s cos φ + K₂ sin φ + K₃ = s²."""
        rows = np.stack([output * np.cos(angle), np.sin(angle), np.ones_like(angle)], -1)
        return rows, output**2

    @staticmethod
    def numbers(k, angle, output):
        """Return the five numbers x and the angle offsets (crank, 0) of a solution K of the equation.

        K₁ = 2a, K₂ = 2ae, K₃ = b² − a² − e². A crank of negative length is reversed: its offset is π.
        """
        a, e = k[..., 0] / 2, k[..., 1] / k[..., 0]
        square, turned = k[..., 2] + a**2 + e**2, np.pi * (a < 0)
        parts = np.log(np.abs(a)), np.log(square) / 2, e, angle + turned, output + 0 * e
        return np.stack(parts, -1), np.stack([turned, 0 * turned], -1)

    @classmethod
    def output_and_cosine(cls, lengths, angle, branch, xp):
        """Return (s,) and the cosine of the angle between the coupler and the normal of the slide's line."""
        b = dict(zip(cls.free, lengths, strict=True))
        pin, e, cosine = SliderCrank.joints(b, angle, branch, xp)
        return xp.stack([pin[0] + b["coupler"] * e[0]]), cosine

    @staticmethod
    def residual(output, wanted):
        """Return [s − s*], the displacement of the slide minus the wanted one."""
        return [output[0] - wanted]

    @staticmethod
    def error(output, wanted):
        """Return s − s*, the displacement of the slide minus the wanted one."""
        return output[0] - wanted

    @staticmethod
    def sample(rng, count):
        """Return numbers x (count, 5) of random slider-cranks."""
        lengths = rng.normal([0.0, 0.7, 0.0], [0.7, 0.7, 0.7], (count, 3))
        angle = rng.uniform(-np.pi, np.pi, count)
        return np.column_stack([lengths, angle, np.exp(lengths[:, 1]) * rng.choice([-1.0, 1.0], count)])

    @staticmethod
    def design(x, offsets, unit) -> dict[str, Any]:
        """Return the design of numbers x and angle offsets; lengths are in units of `unit`, the slide's travel."""
        a, b = np.exp(x[:2]) * unit
        return {"crank": float(a), "coupler": float(b), "offset": float(x[2] * unit), "crank_offset": float(offsets[0])}

    @staticmethod
    def output_of_poses(poses):
        """Return the displacement (1, T) of the slide from poses (T, 3 bodies, 3) of the mechanism."""
        return poses[None, :, 2, 0]
