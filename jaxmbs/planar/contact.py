"""Contact of outlines as a force: cams that lift off, discs that bounce, pins that enter slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxmbs.element import errors_of, require
from jaxmbs.forces.joint.touch import AbstractBodyContact, Touch
from jaxmbs.forces.springs import points_of
from jaxmbs.numerics.arrays import is_concrete, real
from jaxmbs.numerics.plane import bearing, perpendicular
from jaxmbs.numerics.roots import root_near
from jaxmbs.planar.element import length, square
from jaxmbs.planar.outlines import (
    CURVATURE_ROUNDING,
    AbstractOutline,
    FunctionOutline,
    largest_curvature,
    smallest_curvature,
)
from jaxmbs.planar.polylines import RoundedPolyline, nearest_places
from jaxmbs.programs import open_closure

# Number of angles of each outline among which the search for the nearest points starts.
START_ANGLES = 32
# Number of Newton steps for the angles of the contact.
NEWTON_STEPS = 8
# Number of solves for a derivative of these angles. The Jacobian in them counts as constant, so that second derivatives
# need a second solve.
DERIVATIVE_SOLVES = 2
# A contact with a closed outline i is discarded if its point on j is on the free side of outline i by more than this
# fraction of the radius of i: then Newton's method found the far sides of the bodies, not the near ones.
WRONG_SIDE = 1e-6


class OutlineContact(AbstractBodyContact):
    """Two outlines touch, or are apart: an elastic contact with damping and friction at their nearest points.

    At the polar angles α_i and α_j of the nearest points the outlines have a common normal. Let ν be its unit vector, away
    from outline i, and e the vector from the point on i to that on j. The depth is δ = −νᵀe, and the force is that of
    `ClearanceRevolute`: a normal force N = k δⁿ (1 + d δ̇), never negative, and friction μ N. The force acts on both bodies
    halfway between the two nearest points, and is zero at a distance, but for the smoothing of `AbstractContactForce`. The
    constraint `CamFollower` describes the same contact if it never opens.

    The angles are found by Newton's method from the nearest two of some points on both outlines; derivatives are those of
    the solution. If one outline is a disc, only the angle on the other one is searched. The outlines must have a single
    pair of nearest points. Shapes with corners and hollows, such as slots and teeth, are a `RoundedPolyline`: it touches
    discs and others of its kind, at two places at most.

    Its potential energy is V = k δⁿ⁺¹ / (n + 1) for δ > 0, else 0.

    Args:
        i, j: names of the bodies.
        point_i, point_j: centres of the outlines in the body frames; the origins unless given.
        outline_i, outline_j: ρ(α), both closed, or with the `part` that touches: no force acts outside of it. If one has a
            hollow, its radius of curvature must be larger than that of the other. A `RoundedPolyline` can touch only
            another one or a circle, `FunctionOutline(radius)`. `FunctionOutline(0.0)` is a point.
        stiffness, exponent, restitution, impact_velocity, law, friction, velocity: see `ClearanceRevolute`.
        inside: True if body j is inside outline i, as a roller in a ring; then ν is towards the inside.

    Examples:
        >>> wheel, roller = planar.FunctionOutline(1.0), planar.FunctionOutline(0.5)
        >>> touch = planar.OutlineContact("ground", "a", (0, 0), (0, 0), wheel, roller, stiffness=1e6, exponent=1.0)
        >>> mech = mbs.Mechanism({"a": planar.Body()}, forces={"touch": touch})
        >>> print(mbs.generalized_force(mech, {"a": (1.499, 0, 0)}, jnp.zeros(3)).round(3))  # 1 mm deep
        [1000.    0.    0.]
    """

    outline_i: Any = eqx.field(default=None)
    outline_j: Any = eqx.field(default=None)
    inside: bool = eqx.field(static=True, default=False, kw_only=True)

    def contacts(self, state):
        """Return the place where the outlines touch, or are nearest; two places for polylines."""
        i, j = state.poses[self.i], state.poses[self.j]
        point_i, point_j = points_of(self, i)
        # Everything in axes parallel to those of body i, from the centre of its outline.
        centre, turn = i.components(j.point(point_j) - i.point(point_i)), i.a.T @ j.a
        line_i, line_j = as_polyline(self.outline_i), as_polyline(self.outline_j)
        if line_i is not None and line_j is not None:
            found = between_polylines(self, line_i, line_j, centre, turn)
        elif line_j is not None:
            found = [on_disc(self.outline_i, self.outline_j, centre, turn, self.inside)]
        elif line_i is not None and not self.inside:
            back = on_disc(self.outline_j, self.outline_i, -(turn.T @ centre), turn.T)
            found = [
                Place(centre + turn @ back.second, centre + turn @ back.first, -(turn @ back.normal), back.is_active)
            ]
        else:
            found = [between_outlines(self, centre, turn)]
        return [
            Touch(
                i.point(point_i + (place.first + place.second) / 2),
                i.direction(place.normal),
                place.normal @ (place.second - place.first),
                place.is_active,
            )
            for place in found
        ]

    def check(self, dimension):
        """Raise `ValueError` for unusable outlines, or curvatures with which they touch at several points."""
        check_planar(dimension)
        super().check(dimension)
        check_outlines(self, "outline_i", "outline_j", kinds=(AbstractOutline, RoundedPolyline))
        outlines: tuple[Any, Any] = self.outline_i, self.outline_j
        if any(isinstance(outline, RoundedPolyline) for outline in outlines):
            require(
                all(as_polyline(outline) is not None for outline in outlines),
                "a RoundedPolyline can touch only another one, or a circle, FunctionOutline(radius)",
            )
            require(not self.inside, "inside is not for a RoundedPolyline: its hollows are part of it")
        elif self.inside:
            freedom = smallest_curvature(self.outline_j) - largest_curvature(self.outline_i)
            require(freedom > 0, "outline_j must be more curved than outline_i everywhere, to be inside of it")
        else:
            total = sum(np.inf if is_point(outline) else smallest_curvature(outline) for outline in outlines)
            require(
                total > -CURVATURE_ROUNDING,
                "the outlines are not convex enough: the radius of a hollow must be larger than that of the other outline; "
                "give the `part` that touches",
            )


class FlatContact(AbstractBodyContact):
    """An outline touches a straight face, or is apart from it: an elastic contact with damping and friction.

    It is an `OutlineContact` in which the outline of body j is a straight line without ends; its constraint is
    `CamFlatFollower`. The depth δ is that of the outline's point nearest to the face, or deepest in it.

    Its potential energy is V = k δⁿ⁺¹ / (n + 1) for δ > 0.

    Args:
        i, j: names of the bodies. The face is on j.
        point_i: centre of the outline in the frame of i; the origin unless given.
        point_j: a point of the face in the frame of j; the origin unless given.
        outline_i: ρ(α), convex, or with a convex `part` that touches: no force acts outside of it.
        stiffness, exponent, restitution, impact_velocity, law, friction, velocity: see `ClearanceRevolute`.
        axis_j: direction of the face in the frame of j; x unless given. Body i is on its left, the solid of j on its right.

    Examples:
        >>> touch = planar.FlatContact(
        ...     "a", "ground", outline_i=planar.FunctionOutline(1.0), stiffness=1e6, exponent=1.0
        ... )
        >>> mech = mbs.Mechanism({"a": planar.Body()}, forces={"touch": touch})
        >>> print(mbs.generalized_force(mech, {"a": (0, 0.999, 0)}, jnp.zeros(3)).round(3))  # 1 mm deep
        [   0. 1000.    0.]
    """

    outline_i: AbstractOutline = eqx.field(default=None)
    axis_j: Array = real((2,), default=(1.0, 0.0), kw_only=True)

    def contacts(self, state):
        """Return the one place where the outline touches the face, or is nearest to it."""
        outline = self.outline_i
        i, j = state.poses[self.i], state.poses[self.j]
        point_i, point_j = points_of(self, i)
        along = i.components(j.direction(unit(jnp.asarray(self.axis_j))))

        def residual(alpha):
            """Return the angle between the tangent of the outline and the face."""
            tangent = outline.tangent(alpha[0])
            return jnp.arctan2(perpendicular(tangent) @ along, tangent @ along)[None]

        angles, normal = start_angles(outline, along.dtype), perpendicular(along)
        lowest = jnp.argmin(jax.vmap(outline.point)(angles) @ normal)
        alpha = contact_angles(residual, angles[lowest][None], (outline,))
        place, normal = i.point(point_i + outline.point(alpha[0])), i.direction(normal)
        depth = normal @ (j.point(point_j) - place)
        return [Touch(place + depth / 2 * normal, normal, depth, is_on_part(outline, alpha[0]))]

    def check(self, dimension):
        """Raise `ValueError` for an axis without length, or an outline that is unusable or not convex."""
        check_planar(dimension)
        super().check(dimension)
        check_outlines(self, "outline_i")
        axis = self.axis_j
        require(not is_concrete(axis) or np.any(np.asarray(axis) != 0), "axis_j has no length")
        require(
            smallest_curvature(self.outline_i) > -CURVATURE_ROUNDING,
            "outline_i is not convex: a flat face cannot touch its hollows",
        )


class Place(NamedTuple):
    """A place where two outlines are near each other, in the axes of body i, from the centre of its outline.

    Attributes:
        first, second: (2,), the points on outline i and on outline j.
        normal: (2,), unit vector; the force on body j is against it.
        is_active: False outside of the parts that are meant to touch.
    """

    first: Float[Array, "2"]
    second: Float[Array, "2"]
    normal: Float[Array, "2"]
    is_active: Bool[Array, ""] | bool


def between_polylines(
    contact: OutlineContact, line_i: RoundedPolyline, line_j: RoundedPolyline, centre, turn
) -> list[Place]:
    """Return the nearest places of two polylines, or of a disc in a round hole."""
    places = []
    for near in nearest_places(line_i, line_j, lambda points: centre[None] + points @ turn.T):
        apart = near.second - near.first
        away = unit(jnp.where(jnp.all(apart == 0), jnp.asarray([1, 0], apart.dtype), apart))
        side = 1 if contact.inside else -1
        on_i, on_j = near.first + line_i.radius * away, near.second + side * line_j.radius * away
        is_active = near.exists & is_towards_part(contact.outline_i, away)
        is_active = is_active & is_towards_part(contact.outline_j, side * turn.T @ away)
        places.append(Place(on_i, on_j, side * away, is_active))
    return places


def on_disc(outline: Any, disc: Any, centre, turn, inside=False) -> Place:
    """Return the nearest place of an outline and of a disc, which is body j here."""

    def residual(alpha):
        """Return the distance of the disc's centre from the normal of the outline."""
        return (unit(outline.tangent(alpha[0])) @ (centre - outline.point(alpha[0])))[None]

    angles = start_angles(outline, centre.dtype)
    start = angles[nearest(jax.vmap(outline.point)(angles), centre)]
    (alpha,) = contact_angles(residual, start[None], (outline,))
    normal = (1 if inside else -1) * outward_normal(outline, alpha)
    is_active = is_on_part(outline, alpha) & is_towards_part(disc, turn.T @ normal)
    return Place(outline.point(alpha), centre + disc.radius(alpha) * normal, normal, is_active)


def between_outlines(contact: OutlineContact, centre, turn) -> Place:
    """Return the nearest place of any two outlines."""
    outline_i, outline_j, side = contact.outline_i, contact.outline_j, 1 if contact.inside else -1
    on_i, on_j = outline_i.point, lambda alpha: centre + turn @ outline_j.point(alpha)

    def residual(alpha):
        """Return the distance of the points along the tangent of i, and the angle between the tangents."""
        tangent_i, tangent_j = unit(outline_i.tangent(alpha[0])), side * turn @ unit(outline_j.tangent(alpha[1]))
        apart = on_j(alpha[1]) - on_i(alpha[0])
        return jnp.stack([tangent_i @ apart, jnp.arctan2(perpendicular(tangent_i) @ tangent_j, tangent_i @ tangent_j)])

    angles_i, angles_j = start_angles(outline_i, centre.dtype), start_angles(outline_j, centre.dtype)
    table_i, table_j = jax.vmap(on_i)(angles_i), jax.vmap(on_j)(angles_j)
    at_i = nearest(table_i, centre)
    at_j = nearest(table_j, table_i[at_i])
    # Once more, because the nearest points may be away from the line through the centres.
    at_i = nearest(table_i, table_j[at_j])
    at_j = nearest(table_j, table_i[at_i])
    start = jnp.stack([angles_i[at_i], angles_j[at_j]])
    alpha = contact_angles(residual, start, (outline_i, outline_j))
    first, second = on_i(alpha[0]), on_j(alpha[1])
    normal = side * outward_normal(outline_i, alpha[0])
    depth = normal @ (second - first)
    excess = -side * (length(second) - outline_i.radius(bearing(second)))
    is_active = is_on_part(outline_i, alpha[0]) & is_on_part(outline_j, alpha[1])
    if outline_i.span is None:
        is_active = is_active & ((depth <= 0) | (excess <= WRONG_SIDE * length(first)))
    return Place(first, second, normal, is_active)


def is_point(outline: Any) -> bool:
    """Return True for a disc with the known radius zero."""
    known = isinstance(outline, FunctionOutline) and not callable(outline.rho) and is_concrete(outline.rho)
    return known and np.shape(outline.rho) == () and outline.rho == 0


def as_polyline(outline: AbstractOutline | RoundedPolyline) -> RoundedPolyline | None:
    """Return a polyline, or a circle as one with a single point; None for other outlines."""
    if isinstance(outline, FunctionOutline) and not callable(outline.rho):
        return RoundedPolyline(jnp.zeros((1, 1, 2)), outline.rho)
    return outline if isinstance(outline, RoundedPolyline) else None


def is_towards_part(outline: AbstractOutline | RoundedPolyline, direction: Float[Array, "2"]) -> Bool[Array, ""] | bool:
    """Return True if a direction from the disc's centre is within its `part`, or if it has none."""
    inside = None if isinstance(outline, RoundedPolyline) else outline.within(bearing(direction))
    return True if inside is None else inside


def contact_angles(
    residual: Callable[[Array], Array], start: Float[Array, " m"], outlines: tuple[AbstractOutline, ...]
) -> Float[Array, " m"]:
    """Return the polar angles (m,), one or two, at which the residual is zero, with their exact derivatives.

    Newton's method takes steps of at most the distance between starting angles, and stays on the parts that touch.
    """
    function, captured = open_closure(residual, start)
    captured, x = jax.lax.stop_gradient((captured, start))
    spans = [outline.span for outline in outlines]
    low = jnp.stack([jnp.asarray(-jnp.inf if span is None else span[0], x.dtype) for span in spans])
    high = jnp.stack([jnp.asarray(jnp.inf if span is None else span[1], x.dtype) for span in spans])
    longest = jnp.stack([jnp.asarray(_angular_width(span) / START_ANGLES, x.dtype) for span in spans])
    low, high, longest = jax.lax.stop_gradient((low, high, longest))

    def iterate(_, x):
        """Take a Newton step."""
        jacobian = jax.jacfwd(lambda x: function(captured, x))(x)
        change = solve_small(jacobian, function(captured, x))
        return jnp.clip(x - jnp.clip(change, -longest, longest), low, high)

    x = jax.lax.stop_gradient(jax.lax.fori_loop(0, NEWTON_STEPS, iterate, x))
    jacobian = jax.lax.stop_gradient(jax.jacfwd(lambda x: function(captured, x))(x))
    return root_near(residual, lambda value: solve_small(jacobian, value), x, DERIVATIVE_SOLVES)


def solve_small(matrix: Float[Array, "m m"], right: Float[Array, " m"]) -> Float[Array, " m"]:
    """Return matrix⁻¹ right for one or two rows; a determinant of zero is replaced by 1."""
    if len(right) == 1:
        determinant, product = matrix[0, 0], right
    else:
        (a, b), (c, d) = matrix
        determinant = a * d - b * c
        product = jnp.stack([d * right[0] - b * right[1], a * right[1] - c * right[0]])
    return product / jnp.where(determinant == 0, 1, determinant)


def start_angles(outline: AbstractOutline, dtype: Any) -> Float[Array, " k"]:
    """Return the angles of an outline, within its part, among which the search for the nearest points starts."""
    start = 0.0 if outline.span is None else outline.span[0]
    steps = (jnp.arange(START_ANGLES, dtype=dtype) + 0.5) / START_ANGLES
    return jax.lax.stop_gradient(start + _angular_width(outline.span) * steps)


def _angular_width(span) -> Any:
    """Return the angle between the ends of a part, or a full turn."""
    return 2 * jnp.pi if span is None else span[1] - span[0]


def nearest(points: Float[Array, "k 2"], point: Float[Array, "2"]) -> Array:
    """Return the index of the point that is nearest to another."""
    return jnp.argmin(jax.vmap(lambda other: square(other - point))(points))


def outward_normal(outline: AbstractOutline, alpha: Float[Array, ""]) -> Float[Array, "2"]:
    """Return the outward unit normal of an outline at the polar angle α, in the body frame."""
    return -perpendicular(unit(outline.tangent(alpha)))


def unit(vector: Float[Array, "2"]) -> Float[Array, "2"]:
    """Return the unit vector along a vector that is not zero."""
    return vector / length(vector)


def is_on_part(outline: AbstractOutline, alpha: Float[Array, ""]) -> Bool[Array, ""]:
    """Return True if α is between the ends of the part that touches, or if there is no part."""
    if outline.span is None:
        return jnp.asarray(True)
    start, end = outline.span
    return (start < alpha) & (alpha < end)


def check_planar(dimension: int) -> None:
    """Raise `ValueError` unless the dimension is that of the plane."""
    require(dimension == 2, "outline contacts are for planar mechanisms only")


def check_outlines(element: Any, *names: str, kinds: tuple[type, ...] = (AbstractOutline,)) -> None:
    """Raise `ValueError` for an outline that is missing, of another kind, or cannot be used."""
    for name in names:
        outline = getattr(element, name)
        require(outline is not None, f"{name} is missing")
        if is_point(outline) and RoundedPolyline in kinds:
            continue
        require(isinstance(outline, kinds), f"{name} must be an outline, got {outline!r}")
        with errors_of(name):
            outline.check()
