"""Tendons of MJCF: fixed ones as massless bodies that are coupled to joints, spatial ones as springs between sites."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from jaxmbs import forces, spatial
from jaxmbs.element import GROUND
from jaxmbs.io.models.links.couplings import couple_all
from jaxmbs.io.models.links.elements import Elements
from jaxmbs.io.models.links.joints import FRICTION_RATE
from jaxmbs.io.models.links.tree import SLIDE, Link, PrimitiveJoint, open_range
from jaxmbs.io.models.mjcf.initial_motion import joint_state
from jaxmbs.io.models.mjcf.source import Source, nonzero_rows, softness_of


class LinearTendon(NamedTuple):
    """A fixed tendon: its length is Σ_k c_k x_k plus that at qpos0, with the coordinates x_k of joints counted from there.

    Attributes:
        joints: names of the joints.
        ratios: c_k.
        start: x_k at the start.
    """

    joints: tuple[str, ...]
    ratios: tuple[float, ...]
    start: tuple[float, ...]


class TendonLaw(eqx.Module):
    """The tension of a tendon by its length ℓ and its rate, positive where it pulls.

    Attributes:
        stiffness, damping: k and c.
        rest: lengths between which the spring has no force.
        limits: least and greatest length, where stops begin; None without a stop.
        stop: stiffness and damping of the stops.
    """

    stiffness: float
    damping: float
    rest: tuple[float, float]
    limits: tuple[float | None, float | None]
    stop: tuple[float, float]

    def __call__(self, length, rate):
        """Return the tension."""
        beyond = jnp.maximum(length - self.rest[1], 0) - jnp.maximum(self.rest[0] - length, 0)
        tension: Any = self.damping * rate + self.stiffness * beyond
        for sign, limit in zip((-1, 1), self.limits, strict=True):
            if limit is not None:
                depth = sign * (length - limit)
                push = jnp.maximum(self.stop[0] * depth + self.stop[1] * sign * rate, 0)
                tension = tension + sign * jnp.where(depth > 0, push, 0)
        return tension


class ActuatorLaw(eqx.Module):
    """The tension of an actuator on a tendon by its length and rate, which a gear ratio multiplies.

    Attributes:
        control: the control.
        gear: ratio n.
        gain, bias: factors of (1, n ℓ, n ℓ̇), whose sums are the gain and the bias.
        effort_range: least and largest force of the actuator; None without limits.
    """

    control: float
    gear: float
    gain: tuple[float, ...]
    bias: tuple[float, ...]
    effort_range: tuple[float, ...] | None = None

    def __call__(self, length, rate):
        """Return the tension."""
        gain, bias = (a + b * self.gear * length + c * self.gear * rate for a, b, c in (self.gain, self.bias))
        force = gain * self.control + bias
        return -self.gear * (force if self.effort_range is None else jnp.clip(force, *self.effort_range))


class SlideLaw(eqx.Module):
    """The effort in the slide of a tendon by its displacement and rate: minus the tension."""

    tension: TendonLaw

    def __call__(self, x, rate):
        """Return the effort."""
        return -self.tension(x, rate)


class Segment(eqx.Module):
    """A straight part of a tendon.

    Attributes:
        i, j: names of its bodies.
        point_i, point_j: its ends on them, (3,).
        divisor: number by which its length is divided.
    """

    i: str = eqx.field(static=True)
    j: str = eqx.field(static=True)
    point_i: Any
    point_j: Any
    divisor: float


class SiteTendon(eqx.Module):
    """Generalized force of a tendon over points of bodies, (m,).

    Attributes:
        segments: straight parts between bodies.
        constant_length: length of parts within one body, over the divisors.
        law: tension by length and rate.
    """

    segments: tuple[Segment, ...]
    constant_length: float
    law: TendonLaw | ActuatorLaw

    def __call__(self, state):
        """Return the generalized force (m,)."""
        length: Any = self.constant_length
        rate: Any = 0.0
        lines = []
        for part in self.segments:
            i, j = state[part.i], state[part.j]
            distance, along = forces.length_and_direction(j.point(part.point_j) - i.point(part.point_i))
            length = length + distance / part.divisor
            rate = rate + along @ (j.velocity(part.point_j) - i.velocity(part.point_i)) / part.divisor
            lines.append(along / part.divisor)
        tension, total = self.law(length, rate), jnp.zeros_like(state.v)
        for part, along in zip(self.segments, lines, strict=True):
            pull = tension * along
            on_i = state[part.i].pose.force_at(jnp.asarray(part.point_i), pull)
            on_j = state[part.j].pose.force_at(jnp.asarray(part.point_j), -pull)
            total = total + forces.opposite(state, part.i, on_i, part.j, on_j)
        return total


def linear_tendon(source: Source, k: int) -> LinearTendon | None:
    """Return tendon k if it is a fixed one, else None."""
    m = source.m
    parts = range(m.tendon_adr[k], m.tendon_adr[k] + m.tendon_num[k])
    if any(m.wrap_type[w] != int(source.mujoco.mjtWrap.mjWRAP_JOINT) for w in parts):
        return None
    ratios: dict[int, float] = {}
    for w in parts:
        j = int(m.wrap_objid[w])
        ratios[j] = ratios.get(j, 0.0) + float(m.wrap_prm[w])
    joints = tuple(source.joints[j] for j in ratios)
    return LinearTendon(joints, tuple(ratios.values()), tuple(joint_state(source, j)[0] for j in ratios))


def add_tendons(source: Source, elements: Elements, guess: dict, velocities: dict) -> dict[int, str]:
    """Add the tendons that have a spring, a limit or another property, or an actuator.

    Returns:
        the name of the slide of each fixed tendon that has one, by index.
    """
    m, found = source.m, {}
    if "tendon" in source.ignore:
        return {}
    driven = set(m.actuator_trnid[m.actuator_trntype == int(source.mujoco.mjtTrn.mjTRN_TENDON), 0].tolist())
    equal = m.eq_type == int(source.mujoco.mjtEq.mjEQ_TENDON)
    # A polynomial of another tendon's length needs that length as a coordinate.
    driven |= {int(m.eq_obj2id[e]) for e in np.flatnonzero(equal) if np.any(m.eq_data[e, 2:5])}
    for field in ("tendon_stiffnesspoly", "tendon_dampingpoly", "tendon_springyield"):
        for k in nonzero_rows(getattr(m, field, ())):
            source.pass_over("tendon", "tendon", k, "only the linear coefficient is read")
    for k in range(m.ntendon):
        law = _law(source, k)
        friction_and_inertia = (
            float(m.tendon_frictionloss[k]),
            float(getattr(m, "tendon_armature", np.zeros(m.ntendon))[k]),
        )
        linear = linear_tendon(source, k)
        if linear is not None and (law is not None or any(friction_and_inertia) or k in driven):
            found[k] = _add_slide(source, elements, k, linear, guess, velocities)
            _add_slide_forces(elements, found[k], law, friction_and_inertia, float(m.tendon_length0[k]))
        elif linear is None and (law is not None or any(friction_and_inertia)):
            parts = site_segments(source, elements, k)
            if parts is None:
                source.pass_over("tendon", "tendon", k, "tendons that wrap around geoms are not represented")
                continue
            if law is not None and parts[0]:
                elements.forces[elements.unused_name(source.name("tendon", k))] = _site_force(*parts, law)
            if any(friction_and_inertia):
                source.pass_over("tendon", "tendon", k, "a spatial tendon has no friction and no inertia here")
    return found


def _law(source: Source, k: int) -> TendonLaw | None:
    """Return the law of tendon k; None if it has neither a spring, nor a damper, nor limits."""
    m = source.m
    stiffness = 0.0 if source.is_disabled("SPRING") else float(m.tendon_stiffness[k])
    damping = 0.0 if source.is_disabled("DAMPER") else float(m.tendon_damping[k])
    limited = m.tendon_limited[k] and "range" not in source.ignore and not source.is_disabled("LIMIT", "CONSTRAINT")
    limits: tuple[float | None, float | None] = (None, None)
    stop, ends = (0.0, 0.0), open_range(*map(float, m.tendon_range[k]))
    if limited and ends is not None and m.tendon_invweight0[k] > 0:
        margin = float(m.tendon_margin[k])
        lower, upper = ends[0] + margin, ends[1] - margin
        limits = lower if np.isfinite(lower) else None, upper if np.isfinite(upper) else None
        softness, inertia = softness_of(source, m.tendon_solref_lim[k]), 1 / float(m.tendon_invweight0[k])
        stop = inertia * softness.stiffness, inertia * softness.damping
    if not (stiffness or damping or limits != (None, None)):
        return None
    rest = float(m.tendon_lengthspring[k, 0]), float(m.tendon_lengthspring[k, 1])
    return TendonLaw(stiffness, damping, rest, limits, stop)


def _add_slide(source: Source, elements: Elements, k: int, tendon: LinearTendon, guess: dict, velocities: dict) -> str:
    """Add a massless body whose slide along z has the length of a fixed tendon beyond that at qpos0; return its name."""
    name = elements.unused_name(source.name("tendon", k))
    body = f"{name} length"
    point, axis, still = np.zeros(3), np.array([0.0, 0, 1]), (0.0, np.zeros(3), np.zeros(3))
    slide = PrimitiveJoint(SLIDE, name, point, axis)
    elements.bodies[body] = spatial.Body(0)
    elements.constraints[name] = spatial.Prismatic(GROUND, body)
    elements.joints[name] = Link(body, GROUND, point, np.eye(3), (slide,), *still)
    elements.constraint_of[name] = name
    start = float(np.dot(tendon.ratios, tendon.start))
    polynomials = [(0.0, -1.0), *((0.0, ratio) for ratio in tendon.ratios)]
    couple_all(elements, f"{name} coupling", (name, *tendon.joints), polynomials, (start, *tendon.start))
    rates = [joint_state(source, source.joints.index(joint))[1] for joint in tendon.joints]
    guess[body] = np.array([0.0, 0, start, 1, 0, 0, 0])
    velocities[body] = np.array([0.0, 0, np.dot(tendon.ratios, rates), 0, 0, 0])
    return name


def _add_slide_forces(
    elements: Elements, name: str, law: TendonLaw | None, friction_and_inertia: tuple[float, float], zero: float
) -> None:
    """Add springs, stops, friction and inertia of a fixed tendon to its slide; `zero` is the length at qpos0."""
    friction, armature = friction_and_inertia
    spring: Any = forces.JointSpring
    stop: Any = forces.JointStop
    inertia: Any = forces.JointInertia
    dry: Any = forces.JointFriction
    added: dict[str, Any] = {}
    if law is not None and (law.stiffness or law.damping):
        rest = [x - zero for x in law.rest]
        if rest[0] == rest[1] or not law.stiffness:
            added["spring"] = spring(name, law.stiffness or None, rest[0], law.damping or None)
        else:
            dead_band = TendonLaw(law.stiffness, law.damping, (rest[0], rest[1]), (None, None), (0.0, 0.0))
            added["spring"] = spring(name, effort_law=SlideLaw(dead_band))
    if law is not None and law.limits != (None, None):
        lower, upper = (None if x is None else x - zero for x in law.limits)
        added["stop"] = stop(name, lower, upper, stiffness=law.stop[0], viscous=law.stop[1], exponent=1.0)
        elements.limits[name] = -np.inf if lower is None else lower, np.inf if upper is None else upper
    if friction:
        added["friction"] = dry(name, 1.0, velocity=FRICTION_RATE, preload=friction)
    if armature:
        added["armature"] = inertia(name, armature)
    for suffix, force in added.items():
        elements.forces[elements.unused_name(f"{name} {suffix}")] = force


def site_segments(source: Source, elements: Elements, k: int) -> tuple[tuple[Segment, ...], float] | None:
    """Return the segments of spatial tendon k and its `constant_length`; None if it wraps around geoms."""
    m, wraps = source.m, source.mujoco.mjtWrap
    segments, last, divisor, constant_length = [], None, 1.0, 0.0
    for w in range(m.tendon_adr[k], m.tendon_adr[k] + m.tendon_num[k]):
        kind = int(m.wrap_type[w])
        if kind == int(wraps.mjWRAP_PULLEY):
            divisor, last = float(m.wrap_prm[w]), None
        elif kind == int(wraps.mjWRAP_SITE):
            site = int(m.wrap_objid[w])
            place = elements.place(source.bodies[m.site_bodyid[site]], f"tendon {source.name('tendon', k)!r}")
            here = place.body, place.point(m.site_pos[site])
            if last is not None and last[0] == here[0]:
                constant_length += float(np.linalg.norm(here[1] - last[1])) / divisor
            elif last is not None:
                segments.append(Segment(last[0], here[0], last[1], here[1], divisor))
            last = here
        else:
            return None
    return tuple(segments), constant_length


def _site_force(segments, constant_length: float, law: TendonLaw) -> forces.AbstractForce:
    """Return a `SpringDamper` for a linear law between two points, else the force of a tendon."""
    if (
        len(segments) == 1
        and not constant_length
        and segments[0].divisor == 1
        and law.stop == (0.0, 0.0)
        and law.rest[0] == law.rest[1]
    ):
        part, spring = segments[0], cast(Any, forces.SpringDamper)
        return spring(
            part.i, part.j, part.point_i, part.point_j, law.stiffness or None, law.damping or None, law.rest[0]
        )
    return forces.UserForce(SiteTendon(segments, constant_length, law))
