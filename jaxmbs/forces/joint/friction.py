"""Friction in joints, from the pressure of their own reactions or from a given one."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.element import check_not_negative, check_positive, require
from jaxmbs.forces.joint.reactive import AbstractReactiveForce
from jaxmbs.forces.state import State, opposite
from jaxmbs.forces.values import computed_field
from jaxmbs.numerics.arrays import is_concrete, real
from jaxmbs.relative_motion import coordinates_of


class JointFriction(AbstractReactiveForce):
    """Dry and viscous friction in a joint, smooth in the sliding velocity after Brown and McPhee 2016.

    With the sliding velocity w of the joint's surfaces, u = |w| / v_t, and the pressure N between them,

        F = −(μ(u) N + c |w|) w / |w|,  μ(u) = μ_d tanh 4u + (μ_s − μ_d) u / (u²/4 + 3/4)².

    μ has its peak, μ_s, at |w| = v_t and falls to μ_d. Below v_t a joint creeps instead of sticking; a smaller v_t
    means less creep. For a slide, w is its rate; for an angle, r times its rate; for a spherical joint, r times the
    relative angular velocity. In a joint that both slides and turns, such as a cylindrical one, the two are
    perpendicular components of w. For a pin in a slot take r = 0. For a `WormGear`, w is that of the teeth at the pitch
    point. F acts on the bodies parallel to w and against it, so its power is −|F| |w|.

    Without a `preload`, N comes from the joint's own reaction, a force F_r and a torque T_r about point_j: N = |F_r|.
    If a bearing length ℓ is given, the two ends of the bearing carry the reaction: N = |F_r/2 + f| + |F_r/2 − f|, where
    f = T_r × a / ℓ for the joint axis a. For a planar translational joint, f is T_r / ℓ, perpendicular to the axis.
    In a `Screw`, N is normal to the thread, which has the lead angle λ at r, tan λ = pitch / 2πr: the axial part of F_r is
    divided by cos λ. The torque that lifts a load W is then W r tan(λ + ρ), tan ρ = μ.
    Friction and reactions depend on each other, in all joints at once: they are found together, by Newton's method, in
    every evaluation of accelerations. Where they have no common solution (Painlevé's paradox), the status is JAMMED.
    Reactions that are not unique, of redundant constraints, are those of smallest norm, as in `reactions`.

    Brown and McPhee, A continuous velocity-based friction model for dynamics and control with physically meaningful
    parameters, J. Comput. Nonlinear Dynam. 11 (2016) 054502.

    Args:
        joint: name of the joint, which must let its bodies move relative to each other.
        dynamic: μ_d.
        static: μ_s; μ_d unless given.
        velocity: v_t, of sliding at the surface, positive.
        viscous: c, in units of a force divided by a velocity at the surface.
        radius: r of the pin or ball, a length; for joints with a rotation.
        length: ℓ of the bearing, whose middle is at point_j; None: torques of the reaction do not count.
        preload: a prescribed N; reactions are then ignored. With `radius=1` and `dynamic=1` it is the friction torque.

    Examples:
        >>> pins = {"rub": mbs.JointFriction("pin", dynamic=0.2, velocity=1e-3, radius=0.05)}
        >>> dry = mbs.Mechanism(pendulum.bodies, pendulum.constraints, forces={**pendulum.forces, **pins})
        >>> run = mbs.simulate(dry, jnp.array([0.0, 0.1]), below, {"bob.phi": 3.0}, step=0.001)
        >>> print(mbs.force_elements(dry, run)["rub"].torque.round(4))  # μ r N, N = m g + m ω² at the bottom
        [-0.3762 -0.3488]
    """

    joint: str = eqx.field(static=True)
    dynamic: Array = real()
    static: Array | None = real(optional=True, default=None)
    velocity: Array = real(default=None, kw_only=True)
    viscous: Array = real(default=0.0, kw_only=True)
    radius: Array | None = real(optional=True, default=None, kw_only=True)
    length: Array | None = real(optional=True, default=None, kw_only=True)
    preload: Array | None = real(optional=True, default=None, kw_only=True)
    size: Array | None = computed_field()

    @property
    def reactive(self):
        """True unless the normal force is given as `preload`."""
        return self.preload is None

    def generalized(self, state):
        """Return the generalized force (m,) of F on both bodies."""
        sliding, transpose, joint = self._sliding(state)
        dry = friction_by_speed(sliding, self.velocity, self.dynamic, self.static)
        on_i, on_j = transpose(-self._normal_force() * dry - self.viscous * sliding)
        return opposite(state, joint.i, on_i, joint.j, on_j)

    def _normal_force(self):
        """Return the normal force N: the preload, or the size computed from the reaction, else raise `ValueError`."""
        pressure = self.size if self.preload is None else self.preload
        require(pressure is not None, "depends on reactions, which are not known here; `force_elements` finds them")
        return pressure

    def size_inputs(self, state, a, load):
        """Return the reaction force (d,) on body j, followed by the torque if there is a bearing length."""
        del a
        return jnp.concatenate([load.force, load.torque]) if self.length is not None else load.force

    def size_from(self, state, inputs):
        """Return the normal force N for this reaction."""
        joint = state.elements[self.joint]
        d = state.poses[joint.i].dimension
        force = inputs[:d]
        lead = None if _has_teeth(joint) else joint.mobility.lead
        if lead is not None:
            axis = state.poses[joint.i].direction(joint.axes_i[:, 2])
            force = force + (jnp.sqrt(1 + (lead / self.radius) ** 2) - 1) * (axis @ force) * axis
        if self.length is None:
            return _norm(force)
        force = force / 2
        across = self._across(state, inputs[d:]) / self.length
        return _norm(force + across) + _norm(force - across)

    def _across(self, state, torque):
        """Return reaction torque × unit vector of the joint's axis; in the plane the torque times the normal."""
        joint = state.elements[self.joint]
        pose, slides = state.poses[joint.i], joint.mobility.slides
        axis = pose.direction(joint.axes_i[:, 2] if slides is None else slides[:, 0])
        if pose.dimension == 2:
            return torque[0] * jnp.stack([-axis[1], axis[0]])
        return jnp.cross(torque, axis)

    def _sliding(self, state: State):
        """Return the sliding velocity w, the map from a force along w to the loads on bodies i and j, and the joint."""
        joint = state.elements[self.joint]
        i, j = state.poses[joint.i], state.poses[joint.j]
        d, mobility = i.dimension, None if _has_teeth(joint) else joint.mobility
        if mobility is None:
            place = joint.contact_place(i, j)
            point_on_j = j.components(place - j.r)
        else:
            point_on_j, place = mobility.point_j, j.point(mobility.point_j)
        point_on_i = i.components(place - i.r)

        def sliding(v_i, v_j):
            """Return w for velocities of the two bodies."""
            apart = j.velocity(point_on_j, v_j) - i.velocity(point_on_i, v_i)
            if mobility is None:
                return apart
            parts = []
            if mobility.slides is not None:
                parts.append(mobility.slides.T @ i.components(apart))
            if mobility.turning is not None:
                parts.append(self.radius * (j.to_ground(v_j) - i.to_ground(v_i))[d:])
            return jnp.concatenate(parts)

        w, transpose = jax.vjp(sliding, state.velocities[joint.i], state.velocities[joint.j])
        return w, transpose, joint

    def measures(self, state):
        """Return the friction as torque or force, the joint's coordinate and its rate; {} if it has several."""
        if _has_teeth(state.elements[self.joint]):
            return {}
        of = coordinates_of(state.elements, self.joint, None)
        if len(of.slides) + len(of.angles) != 1:
            return {}
        along, load = state.along(self.joint), self.generalized(state)
        return along.measures(load @ along.push / (along.push @ along.push))

    def check_joints(self, elements):
        """Raise `ValueError` unless the joint moves, has a radius if it turns, and an axis if a length is given."""
        if _has_teeth(elements.get(self.joint)):
            require(self.length is None, f"length: {self.joint!r} has no bearing")
            return
        of = coordinates_of(elements, self.joint, None)
        turns = elements[self.joint].mobility.turning is not None
        slides = bool(of.slides)
        require(turns or slides, f"{of.joint} lets nothing move")
        require(not turns or self.radius is not None, f"radius is missing: {of.joint} turns")
        planar = elements[self.joint].dimension == 2
        one_slide, one_turn = len(of.slides) == 1, not of.slides and len(of.angles) == 1
        straight = (
            (one_slide and not turns) if planar else one_slide or (one_turn and hasattr(elements[self.joint], "axes_i"))
        )
        require(self.length is None or straight, f"length: {of.joint} has no axis")

    def check(self, dimension):
        """Raise `ValueError` for numbers that are missing or have a wrong sign, or `static` below `dynamic`."""
        require(self.velocity is not None, "velocity is missing")
        super().check(dimension)
        check_not_negative(self, "dynamic", "static", "viscous", "preload", "radius")
        check_positive(self, "velocity", "length")
        static, dynamic = self.static, self.dynamic
        if static is not None and is_concrete(static) and is_concrete(dynamic):
            require(static >= dynamic, f"static must not be below dynamic, got {static} and {dynamic}")


def friction_by_speed(w: Float[Array, " k"], velocity, dynamic, static=None) -> Float[Array, " k"]:
    """Return the friction (k,) for a unit normal force, along the sliding velocity w and with its sign.

    It is μ(|w| / v_t) w / |w| after Brown and McPhee, smooth at w = 0, where v_t is `velocity`; μ tends to `dynamic`, and
    has its peak at v_t: `static`, if that is given.
    """
    u = w / velocity
    u2 = u @ u
    if len(w) == 1:
        found = dynamic * jnp.tanh(4 * u)
    else:
        moves = u2 > 0
        size = jnp.sqrt(jnp.where(moves, u2, 1))
        found = dynamic * jnp.where(moves, jnp.tanh(4 * size) / size, 4) * u
    if static is not None:
        found = found + (static - dynamic) / (u2 / 4 + 0.75) ** 2 * u
    return found


def _has_teeth(element) -> bool:
    """Return True for a gear whose teeth slide on each other at one place, its `contact_place`."""
    return hasattr(element, "contact_place")


def _norm(x: Float[Array, " d"]) -> Float[Array, ""]:
    """Return the length of a vector; at zero its derivative is zero."""
    square = x @ x
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)
