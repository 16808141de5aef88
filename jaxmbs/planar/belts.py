"""Belts and chains that do not slip, also elastic ones, and ropes that slide over pulleys."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.element import MarkedConstraint, check_not_negative, check_positive, require
from jaxmbs.forces.force import AbstractForce
from jaxmbs.forces.state import State
from jaxmbs.numerics.arrays import Structured, check_fields, is_concrete, real
from jaxmbs.numerics.plane import bearing, direction, perpendicular
from jaxmbs.planar.body import Pose
from jaxmbs.planar.element import PlanarConstraint, square

# If the signed radii of two pulleys differ by at most this fraction of the length of the span between them, the span may
# turn by half a turn only.
MAX_RADIUS_RATIO = 0.1


class AbstractPath(Structured):
    """The path of a belt or rope over pulleys.

    A span is the straight part between two pulleys that follow each other. Let c_a and c_b be the centres of its pulleys,
    ρ_a and ρ_b their signed radii, d = c_b − c_a, u the unit vector along the span in the direction of travel, ψ its
    direction, and u⊥ = u turned by +90°. Then

        d = L u + (ρ_b − ρ_a) u⊥,  L = √(d² − (ρ_b − ρ_a)²),  uᵀḋ = L̇ − (ρ_b − ρ_a) ψ̇.

    The last equation is the derivative of the first, along u. ρ is positive where the belt runs counter-clockwise round the
    pulley, negative where it runs clockwise, and zero for a point: an end, or a small ring.

    Attributes:
        i, j, others: names of the bodies of the first pulley, the second one, and the others.
        points: (N, 2), centres of the pulleys in the frames of their bodies.
        radii: (N,), ρ.
    """

    i: str = eqx.field(static=True)
    j: str = eqx.field(static=True)
    others: tuple[str, ...] = eqx.field(static=True)  # type: ignore[misc]
    points: Array = real((None, 2))
    radii: Array = real((None,))

    @property
    def bodies(self) -> tuple[str, ...]:
        """Names of the bodies of the pulleys, in the order of the belt; a body may have several pulleys."""
        return (self.i, self.j, *self.others)

    def arguments(self) -> dict[str, tuple[str, ...]]:
        """Return the argument `bodies`, which is not a field."""
        return {"bodies": self.bodies}

    @property
    @abc.abstractmethod
    def closed(self) -> bool:
        """True if a span leads from the last pulley to the first one."""

    def pairs(self) -> list[tuple[int, int]]:
        """Return the numbers of the two pulleys of each span."""
        last = len(self.bodies) - 1
        return [(k, k + 1) for k in range(last)] + ([(last, 0)] if self.closed else [])

    def spans(self, poses: tuple[Pose, ...]) -> list[tuple[Array, Array]]:
        """Return length and unit vector of each span; NaN if it does not exist, because the pulleys overlap too much."""
        centres = [pose.point(self.points[k]) for k, pose in enumerate(poses)]
        found = []
        for a, b in self.pairs():
            d, change = centres[b] - centres[a], self.radii[b] - self.radii[a]
            length = jnp.sqrt(square(d) - change**2)
            # d is the sum of `length` along u and `change` along u⊥.
            found.append((length, (length * d - change * perpendicular(d)) / square(d)))
        return found

    def wraps(self, spans: list[tuple[Array, Array]]) -> list[Array]:
        """Return the angles of contact in [0, 2π) of the pulleys between two spans, in the order of the ends of spans."""
        found = []
        for k, (_, b) in enumerate(self.pairs()):
            if self.closed or k + 1 < len(spans):
                before, after = spans[k][1], spans[(k + 1) % len(spans)][1]
                sense = jnp.where(self.radii[b] < 0, -1, 1)
                turn = bearing(jnp.stack([before @ after, sense * (perpendicular(before) @ after)]))
                found.append(jnp.where(turn < 0, turn + 2 * jnp.pi, turn))
        return found

    def total_length(self, spans: list[tuple[Array, Array]]) -> Float[Array, ""]:
        """Return the length of all spans and of the arcs between them."""
        wraps = self.wraps(spans)
        # The last pulley of a belt with two ends has no arc.
        arcs = [abs(self.radii[b]) * wrap for (_, b), wrap in zip(self.pairs(), wraps, strict=False)]
        lengths = [length for length, _ in spans]
        return sum(lengths[1:] + arcs, start=lengths[0])

    def rolled_length(self, poses: tuple[Pose, ...], spans: list[tuple[Array, Array]], k: int) -> Float[Array, ""]:
        """Return L + ρ_b φ_b − ρ_a φ_a of span k."""
        a, b = self.pairs()[k]
        return spans[k][0] + self.radii[b] * poses[b].phi - self.radii[a] * poses[a].phi

    def stretch(self, poses: tuple[Pose, ...], spans: list[tuple[Array, Array]], k: int, drawn, advance) -> Array:
        """Return L − (ρ_b − ρ_a) (ψ − ψ₀) + ρ_b φ_b − ρ_a φ_a − s of span k, with ψ₀ `drawn` and s `advance`."""
        (a, b), along, u = self.pairs()[k], direction(drawn), spans[k][1]
        turned = bearing(jnp.stack([along @ u, perpendicular(along) @ u]))
        change = self.radii[b] - self.radii[a]
        gap = self.rolled_length(poses, spans, k) - change * turned - advance
        # A full turn of the span changes the gap by a multiple of this length. If it is small, a belt that is a little
        # off could be taken for one that has turned more often.
        turn = 2 * jnp.pi * change
        is_turn = change**2 > (MAX_RADIUS_RATIO * spans[k][0]) ** 2
        turns = jax.lax.stop_gradient(jnp.round(gap / jnp.where(is_turn, turn, 1)))
        return gap - jnp.where(is_turn, turns * turn, 0)

    def drawn_spans(self, poses: tuple[Pose, ...], count: int) -> list[Array]:
        """Return ψ₀ of all spans and s of the first `count` of them, of a belt that is put on at these poses."""
        spans = self.spans(poses)
        advances = [self.rolled_length(poses, spans, k) for k in range(count)]
        return [jnp.stack([bearing(u) for _, u in spans]), jnp.stack(advances)]

    def check_path(self) -> None:
        """Raise `ValueError` unless each pulley has a centre and a radius."""
        count = len(self.bodies)
        for name in ("points", "radii"):
            given = len(getattr(self, name))
            require(given == count, f"{name} must have an entry for each of the {count} bodies, got {given}")

    def check_pulleys(self) -> None:
        """Raise `ValueError` for pulleys without centre or radius, or a radius of zero except at ends."""
        self.check_path()
        inner = self.radii if self.closed else self.radii[1:-1]
        require(
            not is_concrete(inner) or np.all(np.asarray(inner) != 0),
            "radii of pulleys must not be zero, except at ends",
        )

    def check_marks(self, directions: Array | None, advances: Array | None, rows: int) -> None:
        """Raise `ValueError` unless ψ₀, for each span, and s, for each of some `rows`, are both given or both missing."""
        together = (directions is None) == (advances is None)
        require(together, "directions and advances must be given together")
        for name, given, count in (("directions", directions, len(self.pairs())), ("advances", advances, rows)):
            if given is not None:
                require(len(given) == count, f"{name} must have {count} entries, got {len(given)}")


class AbstractBelt(AbstractPath, PlanarConstraint, MarkedConstraint):
    """A belt or rope without mass that runs over pulleys, inextensible and always tight; see `AbstractPath`."""

    length_fields: ClassVar[tuple[str, ...]] = ("points", "radii")


def first_two(bodies: Sequence[str]) -> tuple[str, str, tuple[str, ...]]:
    """Return the first name, the second one, and all others; `ValueError` if there are fewer than two."""
    require(not isinstance(bodies, str) and len(bodies) >= 2, f"bodies must be two names or more, got {bodies!r}")
    first, second, *others = bodies
    return first, second, tuple(others)


class Belt(AbstractBelt):
    """A belt or chain that does not slip on its pulleys: V-belt, timing belt, roller chain, cable of a hoist.

    For each span, from pulley a to pulley b,

        Φ = L − (ρ_b − ρ_a) (ψ − ψ₀) + ρ_b φ_b − ρ_a φ_a − s,

    so that both ends of the span have the same speed along it: uᵀċ_a + ρ_a φ̇_a = uᵀċ_b + ρ_b φ̇_b. φ are the angles of
    the bodies. ψ₀ and s are the values of ψ and of L + ρ_b φ_b − ρ_a φ_a when the belt was put on. Full turns of ψ are
    counted, except if |ρ_b − ρ_a| is at most a tenth of L: then ψ − ψ₀ is in (−π, π].

    A closed belt has one such row fewer than it has spans. Without a `length`, the last span always fits, and its tension
    is zero. With `length` ℓ the last row is Σ L + Σ |ρ| w − ℓ, with the angles of contact w of all pulleys. The belt has to
    stay on all of them: if w passes through zero, Φ jumps.

    Minus the multiplier of a span is its tension; in a closed belt, its tension above that of the last span, which is minus
    the multiplier of the last row if there is a `length`. A belt never goes slack: tensions may be negative.

    Args:
        bodies: names of the bodies of the pulleys, in the order in which the belt meets them.
        points: (N, 2), centres of the pulleys in the frames of their bodies.
        radii: (N,), positive for pulleys round which the belt runs counter-clockwise, negative for the others, zero for an
            end that is fixed to a point.
        length: ℓ of a closed belt. None: the belt always fits, as it does if all centres are fixed.
        ends: True for a belt with two ends, on the first and the last pulley: drums, or points.
        directions: ψ₀ (spans,) in radians, of all spans. If neither this nor `advances` is given, the belt is put on in
            the guess; see `mbs.with_marks`.
        advances: s, a length for each span, except the last one of a closed belt.

    Examples:
        >>> belt = planar.Belt(("a", "b"), ((0, 0), (0, 0)), radii=(1.0, 2.0))
        >>> mech = mbs.Mechanism({"a": planar.Body(), "b": planar.Body()}, {"belt": belt})
        >>> drawn = mbs.with_marks(mech, {"a": (0, 0, 0), "b": (5, 0, 0)})
        >>> ratio = mbs.constraint_jacobian(drawn, {"a": (0, 0, 0), "b": (5, 0, 0)})[0, [2, 5]]
        >>> print(ratio.round(6))  # ρ_b φ̇_b = ρ_a φ̇_a while the centres rest
        [-1.  2.]
    """

    length: Array | None = real(optional=True, default=None)
    ends: bool = eqx.field(static=True, default=False)
    directions: Array | None = real((None,), optional=True, default=None)
    advances: Array | None = real((None,), optional=True, default=None)
    mark_fields: ClassVar[tuple[str, ...]] = ("directions", "advances")

    def __init__(self, bodies, points, radii, length=None, ends=False, directions=None, advances=None):
        self.i, self.j, self.others = first_two(bodies)
        self.points, self.radii = points, radii
        self.length, self.ends, self.directions, self.advances = length, ends, directions, advances

    @property
    def closed(self) -> bool:
        """True if a span leads from the last pulley to the first one."""
        return not self.ends

    @property
    def rows(self) -> int:  # type: ignore[override]
        """Length of Φ."""
        return self._own_rows + (self.length is not None)

    @property
    def _own_rows(self) -> int:
        """Number of spans with a row of their own."""
        return len(self.pairs()) - (1 if self.closed else 0)

    def residual(self, i, j, t, *others) -> Float[Array, " rows"]:
        """Return Φ: gaps of the spans, then that of the length if it is given."""
        del t
        poses, rows = (i, j, *others), []
        spans, (directions, advances) = self.spans(poses), self.marks
        for k in range(self._own_rows):
            rows.append(self.stretch(poses, spans, k, directions[k], advances[k]))
        if self.length is not None:
            rows.append(self.total_length(spans) - self.length)
        return jnp.stack(rows)

    def drawn_marks(self, i, j, *others):
        """Return [ψ₀, s] of the belt in this position; no extra coordinates."""
        return self.drawn_spans((i, j, *others), self._own_rows), ()

    def check(self) -> None:
        """Raise `ValueError` for numbers that do not fit each other, a pulley without radius, a length with `ends`."""
        super().check()
        require(
            self.closed or self.length is None,
            "length is for closed belts; leave it out if ends=True",
        )
        check_positive(self, "length")
        self.check_pulleys()
        self.check_marks(self.directions, self.advances, self._own_rows)


class ElasticBelt(AbstractPath, AbstractForce):
    """A belt or chain that stretches and does not slip on its pulleys, a force in place of a `Belt`.

    The elongation of a span is Φ of a `Belt`, e = L − (ρ_b − ρ_a) (ψ − ψ₀) + ρ_b φ_b − ρ_a φ_a − s. It is zero in all spans
    when the belt is put on, with the tension T₀. The tension of a span is

        T = T₀ + k e + c ė,

    and zero where T₀ + k e or T is negative: then it is slack. T acts on both pulleys along the span. The stretch of the
    belt on the pulleys does not count.

    V = Σ (T₀ + k e)² / (2 k) over the spans that are not slack.

    Args:
        bodies, points, radii, ends: as for `Belt`.
        stiffness: k (spans,) in N/m, E A / L for a span of length L and cross-section A.
        damping: c, one number for all spans, in N s/m; 0 unless given.
        tension: T₀ when the belt is put on, in N, the same in all spans; 0 unless given.
        directions, advances: ψ₀ and s (spans,), as for `Belt`, but with an entry for each span. `mbs.with_marks` measures
            them in the guess.

    Examples:
        >>> belt = planar.ElasticBelt(("a", "b"), ((0, 0), (0, 0)), (1.0, 2.0), stiffness=(1e4, 1e4), tension=100.0)
        >>> mech = mbs.Mechanism({"a": planar.Body(), "b": planar.Body()}, forces={"belt": belt})
        >>> drawn = mbs.with_marks(mech, {"a": (0, 0, 0), "b": (5, 0, 0)})
        >>> print(mbs.generalized_force(drawn, {"a": (0, 0, 0.001), "b": (5, 0, 0)}, jnp.zeros(6)).round(2))
        [195.96   4.    -20.   -195.96  -4.    40.  ]
    """

    stiffness: Array = real((None,))
    damping: Array = real()
    tension: Array = real()
    ends: bool = eqx.field(static=True, default=False)
    directions: Array | None = real((None,), optional=True, default=None)
    advances: Array | None = real((None,), optional=True, default=None)
    mark_fields: ClassVar[tuple[str, ...]] = ("directions", "advances")

    def __init__(
        self,
        bodies,
        points,
        radii,
        stiffness,
        damping=0.0,
        tension=0.0,
        ends=False,
        directions=None,
        advances=None,
    ):
        self.i, self.j, self.others = first_two(bodies)
        self.points, self.radii = points, radii
        self.stiffness, self.damping, self.tension = stiffness, damping, tension
        self.ends, self.directions, self.advances = ends, directions, advances

    @property
    def closed(self) -> bool:
        """True if a span leads from the last pulley to the first one."""
        return not self.ends

    @property
    def acts_on(self) -> tuple[str, ...]:
        """Names of the bodies of the pulleys, each once."""
        return tuple(dict.fromkeys(self.bodies))

    @property
    def lacks_marks(self) -> bool:
        """True if `directions` and `advances` have not been given or measured."""
        return self.directions is None

    def drawn_marks(self, *poses: Pose) -> list[Array]:
        """Return [ψ₀, s] of the belt at these poses of its bodies."""
        return self.drawn_spans(poses, len(self.pairs()))

    def _pulls(self, state: State) -> list[tuple[Array, Array, Array]]:
        """Return the unit vector, T₀ + k e, and the tension of each span."""
        require(not self.lacks_marks, "the belt has not been put on: use mbs.with_marks(mech, guess)")
        assert self.directions is not None
        assert self.advances is not None
        poses = tuple(state.poses[body] for body in self.bodies)
        speeds = [state.velocities[body] for body in self.bodies]
        spans, found = self.spans(poses), []
        for k, (a, b) in enumerate(self.pairs()):
            u = spans[k][1]
            apart = poses[b].velocity(self.points[b], speeds[b]) - poses[a].velocity(self.points[a], speeds[a])
            rate = u @ apart + self.radii[b] * speeds[b][2] - self.radii[a] * speeds[a][2]
            pull = self.tension + self.stiffness[k] * self.stretch(
                poses, spans, k, self.directions[k], self.advances[k]
            )
            found.append((u, pull, jnp.where(pull > 0, jnp.maximum(pull + self.damping * rate, 0), 0)))
        return found

    def generalized(self, state):
        """Return the generalized force (m,) of the tensions on all bodies."""
        total = jnp.zeros_like(state.v)
        for (a, b), (u, _, tension) in zip(self.pairs(), self._pulls(state), strict=True):
            for k, sign in ((a, 1), (b, -1)):
                load = state.poses[self.bodies[k]].force_at(self.points[k], sign * tension * u)
                load = load.at[2].add(sign * tension * self.radii[k])
                total = total + state.generalized({self.bodies[k]: load})
        return total

    def potential(self, state):
        """Return Σ (T₀ + k e)² / (2 k) over the spans that are not slack."""
        pulls = jnp.stack([jnp.maximum(pull, 0) for _, pull, _ in self._pulls(state)])
        return jnp.sum(pulls**2 / (2 * self.stiffness))

    def measures(self, state):
        """Return the tensions of all spans, (spans,)."""
        return {"force": jnp.stack([tension for *_, tension in self._pulls(state)])}

    def check(self, dimension):
        """Raise `ValueError` for numbers that are missing, have a wrong sign, or do not fit each other."""
        require(dimension == 2, "belts are for planar mechanisms only")
        check_fields(self)
        spans = len(self.pairs())
        require(len(self.stiffness) == spans, f"stiffness must have {spans} entries, one for each span")
        check_positive(self, "stiffness")
        check_not_negative(self, "damping", "tension")
        self.check_pulleys()
        self.check_marks(self.directions, self.advances, spans)


class Rope(AbstractBelt):
    """A rope between two points that slides over pulleys without friction: Φ = Σ L + Σ |ρ| w − ℓ.

    L are the lengths of the spans, |ρ| the radii of the pulleys and w their angles of contact, in [0, 2π). Pulleys need not
    turn, and may be parts of any body. The tension is the same in all spans: minus the multiplier. A rope never goes
    slack: its tension may be negative.

    Args:
        bodies: names of the bodies of the first end, of the pulleys in the order of the rope, and of the other end.
        points: (N, 2), ends and centres of the pulleys in the frames of their bodies.
        radii: (N,), zero at both ends; positive for pulleys round which the rope runs counter-clockwise on its way,
            negative for the others, zero for small rings.
        length: ℓ; the length in the guess unless it is given.

    Examples:
        >>> rope = planar.Rope(("ground", "ground", "load"), ((-1, 0), (0, 0), (0, 0)), (0, 0, 0), length=3.0)
        >>> mech = mbs.Mechanism({"load": planar.Body()}, {"rope": rope})
        >>> print(mbs.constraints(mech, {"load": (0, -2.5, 0)}).round(6))  # half a metre too long
        [0.5]
    """

    length: Array | None = real(optional=True, default=None)
    rows: ClassVar[int] = 1
    mark_fields: ClassVar[tuple[str, ...]] = ("length",)

    def __init__(self, bodies, points, radii, length=None):
        self.i, self.j, self.others = first_two(bodies)
        self.points, self.radii, self.length = points, radii, length

    @property
    def closed(self) -> bool:
        """A rope has two ends."""
        return False

    def residual(self, i, j, t, *others) -> Float[Array, "1"]:
        """Return Φ: the length of spans and arcs minus that of the rope."""
        del t
        (length,) = self.marks
        return (self.total_length(self.spans((i, j, *others))) - length)[None]

    def drawn_marks(self, i, j, *others):
        """Return [ℓ] of a rope that is tight in this position; no extra coordinates."""
        return [self.total_length(self.spans((i, j, *others)))], ()

    def check(self) -> None:
        """Raise `ValueError` for numbers that do not fit each other, or an end with a radius."""
        super().check()
        self.check_path()
        check_positive(self, "length")
        ends = self.radii[0], self.radii[-1]
        known = all(map(is_concrete, ends))
        require(
            not known or not any(map(float, ends)),
            "radii must be zero at both ends; for drums use a Belt with ends=True",
        )
