"""Cams and their followers, Haug 3.4.2 and 3.4.3. The polar angles of the contacts are extra coordinates."""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.element import errors_of, require
from jaxmbs.numerics.arrays import real
from jaxmbs.numerics.plane import perpendicular
from jaxmbs.planar.body import Pose
from jaxmbs.planar.contact import FlatContact, OutlineContact
from jaxmbs.planar.element import ORIGIN, Points, length
from jaxmbs.planar.outlines import CURVATURE_ROUNDING, AbstractOutline, FunctionOutline, smallest_curvature


class CamConstraint(Points):
    """A contact of outlines. Its extra coordinates are the polar angles of the contact on each outline, in order."""

    one_sided: eqx.AbstractVar[bool]

    @abc.abstractmethod
    def contact_force(self, **law: Any) -> OutlineContact | FlatContact:
        """Return a force instead of this constraint, which pushes only. It takes the keywords of the force's law."""

    def _fields(self, *names: str) -> dict[str, Any]:
        """Return fields by their names."""
        return {name: getattr(self, name) for name in names}

    @property
    def outlines(self) -> dict[str, AbstractOutline]:
        """The outlines of the contact by the names of their fields, that of body i first."""
        return {name: getattr(self, name) for name in ("outline_i", "outline_j") if hasattr(self, name)}

    @property
    def lengths(self):
        """Lengths and positions in body frames, and the radius of each outline in the middle of its part, or at α = 0."""
        middle = lambda outline: sum(outline.span) / 2 if outline.span is not None else jnp.zeros_like(self.point_i[0])
        return [*super().lengths, *(outline.radius(middle(outline)) for outline in self.outlines.values())]

    def within(self, *angles):
        """Return True if all contact angles are within the `part` of their outlines; None if no outline has a part."""
        inside = [outline.within(alpha) for outline, alpha in zip(self.outlines.values(), angles, strict=True)]
        known = [x for x in inside if x is not None]
        return jnp.all(jnp.stack(known)) if known else None

    def check(self):
        """Raise `ValueError` for wrong shapes, an axis without length, or an outline that cannot be used."""
        super().check()
        for name, outline in self.outlines.items():
            require(isinstance(outline, AbstractOutline), f"{name} must be an outline, got {outline!r}")
            with errors_of(name):
                outline.check()


def outward_normal(pose: Pose, outline: AbstractOutline, alpha: Float[Array, ""]) -> Float[Array, "2"]:
    """Return the outward unit normal of an outline on a body at the polar angle α, in the ground frame."""
    tangent = pose.direction(outline.tangent(alpha))
    return -perpendicular(tangent) / length(tangent)


class CamFollower(CamConstraint):
    """Two outlines touch: Φ = (r_i + A_i (s_i + ρ_i u_i) − A_j (s_j + ρ_j u_j) − r_j, g_i⊥ᵀ g_j); Haug (3.4.20).

    Extra coordinates: alpha_i, alpha_j, the polar angles of the contact in the two body frames. u points to the
    contact, g is the tangent, ⊥ turns by 90°. Tangency does not tell outside from inside: guess on the right side.

    Args:
        i, j: names of the bodies.
        point_i, point_j: centres of the outlines in the body frames.
        outline_i, outline_j: ρ(α), both closed, or with the `part` that touches. If one is hollow, its radius of
            curvature must be larger than that of the other, so that they touch at one point only.
        one_sided: True for a follower that rests on its cam: `Reactions.lifts[name]` is True at times at which the contact
            would have to pull it. False for a follower that is held on both sides, as by a groove. Both are the same
            constraint; `contact_force` simulates the lift-off.

    Examples:
        >>> wheel, roller = planar.FunctionOutline(1.0), planar.FunctionOutline(0.5)
        >>> touch = planar.CamFollower("cam", "roller", (0, 0), (0, 0), wheel, roller)
        >>> mech = mbs.Mechanism({"cam": planar.Body(), "roller": planar.Body()}, {"touch": touch})
        >>> guess = {"cam": (0, 0, 0), "roller": (1.4, 0, 0), "touch": (0, jnp.pi)}
        >>> q = mbs.assemble(mech, guess, hold=("cam.x", "cam.y", "cam.phi", "roller.y", "roller.phi")).q
        >>> print(q[3].round(6))  # x of the roller
        1.5
    """

    outline_i: AbstractOutline
    outline_j: AbstractOutline
    one_sided: bool = eqx.field(static=True, default=True, kw_only=True)
    rows: ClassVar[int] = 3
    extra: ClassVar[tuple[str, ...]] = ("alpha_i", "alpha_j")

    def residual(self, i, j, t, alpha_i, alpha_j):
        """Return Φ (3,): the vector from the contact on j to that on i, in the ground frame, and g_i⊥ᵀ g_j."""
        contact_i = i.point(self.point_i + self.outline_i.point(alpha_i))
        contact_j = j.point(self.point_j + self.outline_j.point(alpha_j))
        tangent_i = i.direction(self.outline_i.tangent(alpha_i))
        tangent_j = j.direction(self.outline_j.tangent(alpha_j))
        return jnp.append(contact_i - contact_j, perpendicular(tangent_i) @ tangent_j)

    def push(self, i, j, alpha_i, alpha_j):
        """Return the unit normal (2,), in the ground frame, along which outline i can push body j, if one-sided."""
        if not self.one_sided:
            return None
        normal_i, normal_j = outward_normal(i, self.outline_i, alpha_i), outward_normal(j, self.outline_j, alpha_j)
        # If one outline is inside the other, the more curved one is the inner one, and pushes outwards.
        inner_i = self.outline_i.curvature(alpha_i) >= self.outline_j.curvature(alpha_j)
        return jnp.where((normal_i @ normal_j < 0) | inner_i, normal_i, -normal_j)

    def contact_force(self, **law):
        """Return the `OutlineContact` of the same outlines, with its keywords, such as `inside=True`."""
        return OutlineContact(**self._fields("i", "j", "point_i", "point_j", "outline_i", "outline_j"), **law)

    def check(self):
        """Raise `ValueError` for unusable outlines, or a hollow that is narrower than the other outline's curve."""
        super().check()
        total = smallest_curvature(self.outline_i) + smallest_curvature(self.outline_j)
        require(
            total > -CURVATURE_ROUNDING,
            "the outlines are not convex enough: the radius of a hollow must be larger than that of the other outline; "
            "give the `part` that touches",
        )


class CamFlatFollower(CamConstraint):
    """An outline touches a straight face: Φ = ((r_i^P − r_j^Q)ᵀ u_j⊥, g_iᵀ u_j⊥); Haug (3.4.29).

    Extra coordinate: alpha_i, the polar angle of the contact in the frame of i.

    Args:
        i, j: names of the bodies. The cam is i.
        point_i: centre of the outline in the frame of i.
        point_j: Q, a point of the face in the frame of j.
        outline_i: ρ(α), convex, or with a convex `part` that touches.
        axis_j: direction of the face in the frame of j; x unless given. The cam is on its left if `contact_force` is used.
        one_sided: see `CamFollower`.

    Examples:
        >>> touch = planar.CamFlatFollower("cam", "ground", (0.5, 0), (0, 0), planar.FunctionOutline(1.0))
        >>> mech = mbs.Mechanism({"cam": planar.Body()}, {"touch": touch})
        >>> print(mbs.constraints(mech, {"cam": (0, 1.25, 0), "touch": -jnp.pi / 2})[0].round(6))  # the gap
        0.25
    """

    outline_i: AbstractOutline
    axis_j: Array = real((2,), default=(1.0, 0.0))
    one_sided: bool = eqx.field(static=True, default=True, kw_only=True)
    rows: ClassVar[int] = 2
    extra: ClassVar[tuple[str, ...]] = ("alpha_i",)

    def residual(self, i, j, t, alpha_i):
        """Return Φ (2,): the distance of the contact from the face of j, and g_iᵀ u_j⊥, zero where they are tangent."""
        normal = perpendicular(j.direction(self.axis_j)) / length(self.axis_j)
        contact = i.point(self.point_i + self.outline_i.point(alpha_i))
        tangent = i.direction(self.outline_i.tangent(alpha_i))
        return jnp.stack([(contact - j.point(self.point_j)) @ normal, tangent @ normal])

    def push(self, i, j, alpha_i):
        """Return the outward unit normal (2,) of the cam, in the ground frame, along which it can push body j."""
        return outward_normal(i, self.outline_i, alpha_i) if self.one_sided else None

    def contact_force(self, **law):
        """Return the `FlatContact` of the same outline and face, with its keywords."""
        return FlatContact(**self._fields("i", "j", "point_i", "point_j", "outline_i", "axis_j"), **law)

    def check(self):
        """Raise `ValueError` for an axis without length, or an outline that is unusable or not convex."""
        super().check()
        require(
            smallest_curvature(self.outline_i) > -CURVATURE_ROUNDING,
            "outline_i is not convex: a flat face cannot touch its hollows",
        )


class PointFollower(CamConstraint):
    """A pin of body i runs in a slot of body j: Φ = r_i + A_i s_i − r_j − A_j (s_j + ρ_j u_j); Haug (3.4.31).

    Extra coordinate: alpha_j, the polar angle of the pin in the frame of j about the slot's centre.

    Args:
        i, j: names of the bodies. The slot is on j.
        point_i: the pin in the frame of i.
        point_j: centre of the slot's polar form in the frame of j; the origin unless given.
        outline_j: ρ(α). If it has a `part`, from one end of the slot to the other, `Reaction.outside` is True at times
            at which the pin is outside of it.
        one_sided: True if there is a wall on one side only, towards the centre of the outline: see `CamFollower`.

    Examples:
        >>> slot = planar.PointFollower("a", "ground", (0, 0), (0, 0), planar.FunctionOutline(lambda alpha: 2 + alpha))
        >>> mech = mbs.Mechanism({"a": planar.Body()}, {"slot": slot})
        >>> print(mbs.constraints(mech, {"a": (2.5, 0.25, 0), "slot": 0.0}).round(6))
        [0.5  0.25]
    """

    outline_j: AbstractOutline
    one_sided: bool = eqx.field(static=True)
    rows: ClassVar[int] = 2
    extra: ClassVar[tuple[str, ...]] = ("alpha_j",)

    def __init__(self, i, j, point_i, point_j=ORIGIN, outline_j=None, *, one_sided=False):
        self.i, self.j, self.point_i, self.point_j, self.outline_j = i, j, point_i, point_j, outline_j
        self.one_sided = one_sided

    def residual(self, i, j, t, alpha_j):
        """Return Φ (2,): the vector from the point of the slot at alpha_j to the pin, in the ground frame."""
        return -(j.point(self.point_j + self.outline_j.point(alpha_j)) - i.point(self.point_i))

    def push(self, i, j, alpha_j):
        """Return the inward unit normal (2,) of the outline in the ground frame, along which the pin can push body j."""
        return -outward_normal(j, self.outline_j, alpha_j) if self.one_sided else None

    def contact_force(self, **law):
        """Return an `OutlineContact`, with its keywords, in which body i has the slot and body j the pin, a point."""
        swapped: dict[str, Any] = {"i": self.j, "j": self.i, "point_i": self.point_j, "point_j": self.point_i}
        return OutlineContact(**swapped, outline_i=self.outline_j, outline_j=FunctionOutline(0.0), **law)
