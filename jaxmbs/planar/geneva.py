"""Geneva drives: a pin on a crank turns a slotted wheel step by step, as a constraint and as contacts."""

from __future__ import annotations

import operator
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.element import check_positive, require
from jaxmbs.numerics.arrays import is_concrete, real
from jaxmbs.numerics.plane import bearing, direction, rotation_matrix
from jaxmbs.planar.contact import OutlineContact
from jaxmbs.planar.element import Points, length
from jaxmbs.planar.outlines import FunctionOutline
from jaxmbs.planar.polylines import RoundedPolyline


def _as_count(x):
    """Return a whole number as an integer, also one that a file keeps with a decimal point; other objects unchanged."""
    try:
        return int(x) if isinstance(x, float) and x.is_integer() else operator.index(x)
    except TypeError:
        return x


class GenevaDrive(Points):
    """A pin on a crank turns a wheel with n slots by 2π/n in each turn, and a disc locks the wheel until the next one.

        Φ = φ_j + θ_j − β − π + ψ(φ_i + θ_i − β),
        ψ(θ) = arctan(r sin θ / (a − r cos θ)) while the pin is in a slot, else ±π/n, and 2π/n more for each turn.

    θ is the angle of the pin from the line of centres, β the direction of this line, r the length of the crank, and a the
    distance of the centres, which other constraints must hold at r / sin(π/n): then the pin enters and leaves along the
    slot, at θ = ±(π/2 − π/n), and the wheel starts and stops without a jump of its rate. Its acceleration jumps. The
    reaction is that of the pin in the slot. The wheel turns in the opposite sense to the crank. The line of centres may
    turn, as on a carrier: full turns of β change Φ by multiples of 2π + 2π/n, and the nearest multiple is subtracted.

    Args:
        i, j: names of the bodies. The crank is i, the wheel j.
        point_i, point_j: centres of crank and wheel in the body frames.
        slots: n, at least 3.
        crank: r.
        angle_i: θ_i, direction of the pin in the frame of i, in radians; zero unless given.
        angle_j: θ_j, direction in the frame of j of the slot that the pin uses at θ = 0, in radians; zero unless given.

    Examples:
        >>> drive = planar.GenevaDrive("crank", "wheel", (0, 0), (0, 0), slots=4, crank=1.0)
        >>> print(drive.distance.round(6), drive.wheel_angle(jnp.array([0.0, jnp.pi / 4, jnp.pi, 2 * jnp.pi])).round(6))
        1.414214 [0.       0.785398 0.785398 1.570796]
    """

    slots: int = eqx.field(static=True, converter=_as_count)
    crank: Array = real()
    angle_i: Array = real(default=0.0)
    angle_j: Array = real(default=0.0)
    rows: ClassVar[int] = 1

    @property
    def distance(self) -> Array:
        """The distance a = r / sin(π/n) of the centres with which the pin enters along the slot."""
        return self.crank / np.sin(np.pi / self.slots)

    @property
    def entry(self) -> float:
        """Half the crank's angle of engagement, π/2 − π/n: the pin enters at minus and leaves at plus this angle θ."""
        return np.pi / 2 - np.pi / self.slots

    def wheel_angle(self, theta: Float[Array, "*batch"], distance=None) -> Float[Array, "*batch"]:
        """Return ψ(θ), the angle by which the wheel has turned since θ = 0 in the opposite sense to the crank.

        Args:
            theta: θ, of any number of turns.
            distance: a; `self.distance` unless given.

        Returns:
            ψ in radians.
        """
        distance = self.distance if distance is None else distance
        turns = jax.lax.stop_gradient(jnp.round(theta / (2 * jnp.pi)))
        theta = theta - 2 * jnp.pi * turns
        across, along = self.crank * jnp.sin(theta), distance - self.crank * jnp.cos(theta)
        step = np.pi / self.slots
        # Up to the angle at which the slot is tangential to the pin's circle, the rate of the wheel is not negative.
        moves = (jnp.cos(theta) > self.crank / distance) & (jnp.abs(across) < np.tan(step) * along)
        angle = jnp.where(moves, jnp.arctan2(across, along), jnp.where(theta < 0, -step, step))
        return angle + 2 * step * turns

    def wheel_rate(self, theta: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
        """Return dψ/dθ = λ (cos θ − λ) / (1 − 2 λ cos θ + λ²) in the slot, λ = sin(π/n), else 0.

        Returns:
            the rate of ψ divided by the speed ω of the crank.
        """
        ratio, cosine = np.sin(np.pi / self.slots), jnp.cos(theta)
        return jnp.where(cosine > ratio, ratio * (cosine - ratio) / (1 - 2 * ratio * cosine + ratio**2), 0)

    def wheel_acceleration(self, theta: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
        """Return d²ψ/dθ² = −λ (1 − λ²) sin θ / (1 − 2 λ cos θ + λ²)² in the slot, λ = sin(π/n), else 0.

        Returns:
            the acceleration of ψ at a constant speed ω of the crank, divided by ω².
        """
        ratio, cosine = np.sin(np.pi / self.slots), jnp.cos(theta)
        curved = -ratio * (1 - ratio**2) * jnp.sin(theta) / (1 - 2 * ratio * cosine + ratio**2) ** 2
        return jnp.where(cosine > ratio, curved, 0)

    def residual(self, i, j, t):
        """Return Φ (1,): the angle of the wheel less the one to which the pin or the locking disc holds it."""
        apart = self.separation(i, j)
        beta = bearing(apart)
        turned = self.wheel_angle(i.phi + self.angle_i - beta, length(apart))
        gap = j.phi + self.angle_j - beta - jnp.pi + turned
        turn = 2 * jnp.pi * (1 + 1 / self.slots)  # the change of the gap where β jumps by a full turn
        return (gap - turn * jax.lax.stop_gradient(jnp.round(gap / turn)))[None]

    def contact_forces(self, *, pin_radius, corner_radius, clearance=0.0, **law) -> dict[str, OutlineContact]:
        """Return the contacts "pin", with both flanks of all slots, and "lock", of the disc with the ends of the slots.

        The disc on the crank has the radius r − `pin_radius` − 2 `corner_radius` − `clearance`, and is cut out over the
        angle π/2 − π/n on both sides of the pin.

        Args:
            pin_radius: radius of the pin.
            corner_radius: radius of the rounded edges at the mouths of the slots. It is also half the thickness of their
                walls, and must be larger than any penetration.
            clearance: gap between the pin and each flank.
            **law: stiffness and other arguments of `OutlineContact`.

        Returns:
            the forces by name.
        """
        self.check()
        half = pin_radius + clearance + corner_radius
        bottom = self.distance - self.crank - pin_radius - 2 * corner_radius
        room = bottom * np.tan(np.pi / self.slots)
        if is_concrete(room) and is_concrete(half):
            require(
                room > half,
                f"the slots meet: the middles of their flanks are {half:.6g} from the axis of a slot, and there is room "
                f"for {room:.6g} at their inner ends, {bottom:.6g} from the centre of the wheel; use a thinner pin",
            )
        mouth = self.distance * np.cos(np.pi / self.slots)
        slot = jnp.stack(
            [jnp.stack([x, y]) for x, y in ((mouth, half), (bottom, half), (bottom, -half), (mouth, -half))]
        )
        angles = self.angle_j + 2 * np.pi * np.arange(self.slots) / self.slots
        slots = RoundedPolyline(jnp.einsum("abp,kb->pka", rotation_matrix(angles), slot), corner_radius)
        lock = FunctionOutline(
            self.crank - half - corner_radius,
            part=self.angle_i + jnp.array([self.entry, 2 * np.pi - self.entry]),
        )
        pin = self.point_i + self.crank * direction(self.angle_i)
        bodies: dict[str, Any] = {"i": self.i, "j": self.j, "point_j": self.point_j, "outline_j": slots}
        return {
            "pin": OutlineContact(**bodies, point_i=pin, outline_i=FunctionOutline(pin_radius), **law),
            "lock": OutlineContact(**bodies, point_i=self.point_i, outline_i=lock, **law),
        }

    def check(self):
        """Raise `ValueError` for wrong shapes, fewer than three slots, or a crank without length."""
        super().check()
        check_positive(self, "crank")
        require(
            isinstance(self.slots, int) and self.slots >= 3, f"slots must be an integer from 3 on, got {self.slots!r}"
        )
