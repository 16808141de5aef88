"""Gears with backlash: elastic teeth that touch with either flank, in the plane and in space."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxmbs.element import check_not_negative, check_positive, check_pressure_angle, check_sum_of_radii, require
from jaxmbs.forces.joint.touch import AbstractBodyContact, Touch
from jaxmbs.forces.springs import points_of
from jaxmbs.forces.values import law_field
from jaxmbs.numerics import rotation
from jaxmbs.numerics.arrays import is_concrete, real
from jaxmbs.numerics.involute import flank_advance
from jaxmbs.numerics.plane import bearing

# The number of teeth that a radius makes may differ by this much from a whole number, for radii that are rounded.
MAX_TOOTH_ERROR = 1e-3
# Default of the axes of gears in the frames of their bodies.
Z = (0.0, 0.0, 1.0)


class GearMesh(AbstractBodyContact):
    """Elastic involute teeth of two gears with parallel axes, with backlash, in place of a `Gear`.

    Let ψ_i be the angle of the line of centres in the frame of body i, ψ_j that of the opposite direction in body j, and

        x = R_i (ψ_i − θ_i + (z_j / z_i) (ψ_j − θ_j)),  z_j = z_i R_j / R_i,

    the advance of the teeth along the pitch circles, to which multiples of the tooth pitch are added so that |x| is at most
    half of it; z are the numbers of teeth. With the pressure angle α, the flanks are in each other by

        δ = cos α (±x − (R_i + R_j) (inv α_w − inv α) − b / 2),

    where inv α = tan α − α and a cos α_w = |R_i + R_j| cos α at the distance a of the centres. On each flank, while δ > 0,
    the normal force N = κ k δⁿ (1 + d δ̇), never negative, acts along the line of action. In the play there is no force. d
    follows from the coefficient of restitution, and the force is smoothed over some steps, as in `ClearanceRevolute`.

    In space the gears are cylinders. With a helix angle β, x has −s tan β sgn R_i added, with the advance s of point_j from
    point_i along the axis; α in δ is that in the plane of rotation, and δ is multiplied by cos β_b, tan β_b = tan β cos α.

    V = κ k δⁿ⁺¹ / (n + 1). With a `variation` κ, the turning of the teeth adds or takes energy.

    Args:
        i, j: names of the bodies.
        point_i, point_j: centres of the gears in the body frames; the origins unless given.
        radius_i, radius_j: pitch radii R; negative for an internal gear.
        teeth_i: z_i, number of teeth of i. Both z_i and z_j must be whole; in a design z_j is rounded.
        backlash: b, the play along the pitch circles if the centres are at the distance |R_i + R_j|.
        pressure_angle: α in radians, positive, in the section normal to the teeth.
        helix_angle: β in radians, in space; positive if the teeth of i are right-handed.
        angle_i, angle_j: θ in radians, directions of a tooth of i and of a gap of j in the body frames, in space from the x
            axes of frames as for `spatial.Revolute`. For an internal gear, subtract π from the angle of the gear with
            positive radius, because the teeth touch on its other side.
        axis_i, axis_j: in space, the axes of the gears in the body frames, in the same sense; z unless given, `axis_j` as
            `axis_i`.
        stiffness: k of all teeth in contact together, in N/mⁿ along the line of action.
        variation: κ, a function of the phase of the teeth of i on the line of centres, which grows from 0 to 1 between two
            teeth; 1 unless given.
        exponent: n, at least 1; 1 unless given, unlike in `ClearanceRevolute`.
        restitution, impact_velocity, law: see `ClearanceRevolute`.
        friction, velocity: have no place here, because teeth do not slide at the pitch point.

    Examples:
        >>> mesh = mbs.GearMesh("a", "b", radius_i=1.0, radius_j=2.0, teeth_i=20, pressure_angle=0.35, stiffness=1e6)
        >>> mech = mbs.Mechanism({"a": planar.Body(), "b": planar.Body()}, forces={"mesh": mesh})
        >>> turned = {"a": (0, 0, 0), "b": (3, 0, 0.0005)}
        >>> print(mbs.generalized_force(mech, turned, jnp.zeros(6)).round(1))  # (0.001 cos α) k along the line of action
        [ -322.1  -882.4  -882.4   322.1   882.4 -1764.8]
    """

    exponent: Array = real(default=1.0, kw_only=True)
    radius_i: Array = real(default=None, kw_only=True)
    radius_j: Array = real(default=None, kw_only=True)
    teeth_i: Array = real(default=None, kw_only=True)
    backlash: Array = real(default=0.0, kw_only=True)
    pressure_angle: Array = real(default=None, kw_only=True)
    helix_angle: Array | None = real(optional=True, default=None, kw_only=True)
    angle_i: Array = real(default=0.0, kw_only=True)
    angle_j: Array = real(default=0.0, kw_only=True)
    axis_i: Array | None = real((3,), optional=True, default=None, kw_only=True)
    axis_j: Array | None = real((3,), optional=True, default=None, kw_only=True)
    variation: Any = law_field("phase")

    def contacts(self, state):
        """Return the places of both flanks, at the pitch point on the line of centres."""
        i, j = state.poses[self.i], state.poses[self.j]
        point_i, point_j = points_of(self, i)
        d, total = j.point(point_j) - i.point(point_i), self.radius_i + self.radius_j
        helix = 0.0 if self.helix_angle is None else self.helix_angle
        along = jnp.zeros_like(d)
        if i.dimension == 2:
            on_i, on_j = i.components(d), j.components(-d)
            tangent = jnp.stack([-d[1], d[0]])
        else:
            frames = [rotation.matrix(rotation.along(axis)) for axis in self._axes()]
            on_i, on_j = (frame.T @ x for frame, x in zip(frames, (i.components(d), j.components(-d)), strict=True))
            axis = i.direction(frames[0][:, 2])
            along = (d @ axis) * axis
            tangent = rotation.cross(axis, d)
        across = d - along
        square = across @ across
        distance = jnp.sqrt(square)
        across, tangent = across / distance, tangent / distance
        turned = bearing(on_i[:2]) - self.angle_i
        # With a whole number of teeth, x keeps its value modulo the pitch when α_j jumps by a full turn.
        teeth_j = jax.lax.stop_gradient(jnp.round(self._teeth_j))
        x = self.radius_i * (turned + teeth_j / self.teeth_i * (bearing(on_j[:2]) - self.angle_j))
        hand = jnp.sign(self.radius_i) * jnp.tan(helix)
        if i.dimension == 3:
            x = x - hand * (d @ axis)
        pitch = self._pitch
        x = x - pitch * jax.lax.stop_gradient(jnp.round(x / pitch))
        angle = jnp.arctan(jnp.tan(self.pressure_angle) / jnp.cos(helix))
        base_helix = jnp.arctan(jnp.tan(helix) * jnp.cos(angle))
        play = flank_advance(total, square, angle) + self.backlash / 2
        scale, side = jnp.cos(angle) * jnp.cos(base_helix), jnp.sign(total)
        cosine = jnp.minimum(jnp.abs(total) * jnp.cos(angle) / distance, 1)
        sine = jnp.sqrt(jnp.maximum(1 - cosine**2, 0))
        factor = 1.0 if self.variation is None else self.variation((self.teeth_i * turned / (2 * jnp.pi)) % 1.0)
        place, found = i.point(point_i) + self.radius_i / total * distance * across + along / 2, []
        for sign in (1, -1):
            normal = sign * side * cosine * tangent - side * sine * across
            normal = jnp.cos(base_helix) * normal
            if i.dimension == 3:
                normal = normal - sign * jnp.sign(self.radius_i) * jnp.sin(base_helix) * axis
            found.append(Touch(place, normal, scale * (sign * x - play), factor=factor))
        return found

    @property
    def _teeth_j(self):
        """Number of teeth of j that its radius makes; negative if one of the gears is internal."""
        return self.teeth_i * self.radius_j / self.radius_i

    @property
    def _pitch(self):
        """Distance of two teeth along the pitch circles."""
        return 2 * jnp.pi * jnp.abs(self.radius_i) / self.teeth_i

    def _axes(self):
        """Return the axes of both gears in the body frames, in space."""
        axis_i = jnp.array(Z) if self.axis_i is None else self.axis_i
        return axis_i, axis_i if self.axis_j is None else self.axis_j

    def check(self, dimension):
        """Raise `ValueError` for arguments that are missing, have a wrong sign, or belong to the other dimension."""
        for name in ("radius_i", "radius_j", "teeth_i", "pressure_angle"):
            require(getattr(self, name) is not None, f"{name} is missing")
        super().check(dimension)
        check_positive(self, "teeth_i", "pressure_angle")
        check_not_negative(self, "backlash")
        check_pressure_angle(self)
        for name in ("radius_i", "radius_j"):
            require(not is_concrete(getattr(self, name)) or getattr(self, name) != 0, f"{name} must not be zero")
        teeth = self.teeth_i
        require(
            not is_concrete(teeth) or np.asarray(teeth) == np.round(teeth),
            f"teeth_i must be a whole number, got {teeth}",
        )
        if is_concrete(self.radius_i) and is_concrete(self.radius_j):
            require(self.radius_i > 0 or self.radius_j > 0, "one of the radii at least must be positive")
        check_sum_of_radii(self)
        if is_concrete(self._teeth_j):
            count = float(self._teeth_j)
            require(
                abs(count - round(count)) < MAX_TOOTH_ERROR,
                f"radius_j makes {abs(count):.6g} teeth: teeth_i radius_j / radius_i must be a whole number",
            )
        if is_concrete(self._pitch) and is_concrete(self.backlash):
            require(
                self.backlash < self._pitch,
                f"backlash must be less than the pitch of the teeth, {float(self._pitch):.6g}, got {self.backlash}",
            )
        require(self.friction is None, "friction has no place here: teeth do not slide at the pitch point")
        flat = self.helix_angle is None and self.axis_i is None and self.axis_j is None
        require(dimension == 3 or flat, "helix_angle, axis_i and axis_j are for mechanisms in space only")
