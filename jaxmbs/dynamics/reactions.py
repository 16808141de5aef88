"""Forces and torques in the joints of a mechanism in motion."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxmbs.dynamics.determinacy import are_masses_known
from jaxmbs.element import GROUND, require
from jaxmbs.formulations.augmented import AbstractFormulation, Augmented
from jaxmbs.formulations.reactive import with_reactive_forces
from jaxmbs.formulations.stateful import states_along, with_states
from jaxmbs.motion import Function
from jaxmbs.numerics.arrays import instance_of
from jaxmbs.numerics.repeated import vmap_axes
from jaxmbs.programs import ProgramWithFallback
from jaxmbs.system.equations import residual_of
from jaxmbs.system.layout import Layout
from jaxmbs.system.marks import measure_marks
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.named import AbstractNamed
from jaxmbs.system.trajectory import Trajectory

# A contact counts as pulling if its force holds the bodies together by more than this fraction of the largest force in
# any joint.
MIN_PULL_RATIO = 1e-9
# A reaction is not unique if a component of its multipliers in the null space of Φ_qᵀ, from vectors with entries near
# 1, is larger than this.
MIN_NULL_COMPONENT = 1e-4


class Load(NamedTuple):
    """A force, and its torque about a point, in the frame of a body; see `Reaction.about`.

    Attributes:
        force: (T, d).
        torque: (T,) in the plane, (T, 3) in space.

    Examples:
        >>> run = mbs.simulate(pendulum, jnp.array([0.0, 0.1]), below, step=0.02)
        >>> load = mbs.reactions(pendulum, run)["pin"].about("ground", (1.0, 0.0))
        >>> print(load.torque.round(6))  # of 19.62 upwards, 1 to the left
        [-19.62 -19.62]
    """

    force: Float[Array, "*batch T d"]
    torque: Float[Array, "*batch T"] | Float[Array, "*batch T 3"]


class AbstractWrench(eqx.Module):
    """A force and a torque along a motion, in the ground frame; the fields are those of `Wrench`."""

    force: Float[Array, "*batch T d"]
    torque: Float[Array, "*batch T"] | Float[Array, "*batch T 3"]
    place: Float[Array, "*batch T d"]
    q: Float[Array, "*batch T n"]
    layout: Layout = eqx.field(static=True)

    def about(self, body: str, point=None, *, frame: str | None = None) -> Load:
        """Return the force, and its torque about a point that is fixed in a body: T + (r − r_P) × F.

        `reaction.about("ground", (0.1, 0))` is about a point at rest, `reaction.about("rod")` about the origin of the rod.
        An unknown body, or a point of another shape, raises `ValueError`.

        Args:
            body: its name, or "ground".
            point: in the frame of the body; its origin unless given.
            frame: the body in whose frame the components are; that of the point unless given.

        Returns:
            A `Load`.
        """
        dimension = self.place.shape[-1]
        point = jnp.zeros(dimension, self.q.dtype) if point is None else jnp.asarray(point, self.q.dtype)
        require(point.shape == (dimension,), f"point must have shape ({dimension},), got {point.shape}")
        of_body, of_frame = (self.layout.coordinates_of(name, self.q) for name in (body, frame or body))
        body_type = self.layout.bodies[0][1]
        return Load(*_about(body_type, point, of_body, of_frame, self.force, self.torque, self.place))


@partial(jax.jit, static_argnums=0)
def _about(body_type, point, *motion):
    """Return force and torque along a motion about a point of one body, with components in the frame of another.

    `motion`: coordinates of the two bodies, then force, torque and place in the ground frame, all with axes of time.
    """

    def at_one_time(of_body, of_frame, force, torque, place):
        """Return force and torque about the point at one time."""
        pose, frame = body_type.pose(of_body), body_type.pose(of_frame)
        torque = torque + pose.moment(place - pose.point(point), force)
        return frame.components(force), frame.components(torque) if torque.ndim else torque

    return vmap_axes(at_one_time, motion[0].ndim - 1)(*motion)


class Wrench(AbstractWrench):
    """The sum of the forces of several joints and drivers on a body; `about` gives it in other frames.

    Attributes:
        force: (T, d), in the ground frame.
        torque: about `place`, in the ground frame: (T,) in the plane, (T, 3) in space.
        place: (T, d), a point in the ground frame.
        q: (T, n), the configurations of the mechanism.
        layout: names and indices of the coordinates.

    Examples:
        >>> motion = mbs.kinematics(mech, jnp.array([0.0, jnp.pi / 2]), guess)
        >>> print(mbs.reactions(mech, motion).on("slider").force.round(6))  # m a: all that acts on the slider
        [[-1.5      0.     ]
         [ 0.57735  0.     ]]
    """


class Reaction(AbstractWrench):
    """Force and torque of a joint or driver on body j; the opposite force, at the same place, acts on body i.

    `RelativeX`, `RelativeY` and their drivers are not physical joints: they push along axes of the ground at point_i
    and at point_j, and the opposite force acts on body i at point_i.

    Attributes:
        force: (T, d), on body j from body i, in the ground frame. `about` gives it in other frames, with torques about
            other points.
        torque: on body j about point_j (its origin, if the element has no points), in the ground frame: (T,) in the
            plane, (T, 3) in space.
        components: force and torque in the joint's frame on body i, or in the frame of body i where the joint has none:
            (f_x, f_y, torque) in the plane, (f, torque) with six numbers in space.
        body_force: the force in the frame of body j.
        body_torque: the torque in the frame of body j.
        multipliers: (T, rows), λ of the element's equations.
        unique: (T,), False where constraints are redundant and this reaction is one of many that are possible.
        effort: the driving force or torque of an element that prescribes a motion C(t); its work is effort · dC. One
            for each motion of a `TotalJoint` or `RelativeJoint`; None for elements that prescribe none. It is the
            multiplier if Φ is a length or angle.
        pulls: (T,), True where a contact of cams would have to pull, so that a real follower would lift off. None for
            elements that can pull.
        outside: (T,), True where a contact, or a pin in its slot, is outside of the `part` of an outline. None for
            elements that have no outline with a `part`.
        place: (T, d), position of point_j in the ground frame.
        counter_torque: on body i, also about `place`: −torque, except for `RelativeX`, `RelativeY` and their drivers.
        q: (T, n), the configurations of the mechanism.
        layout: names and indices of the coordinates.
        i: name of body i.
        j: name of body j.

    Examples:
        >>> run = mbs.simulate(pendulum, jnp.array([0.0, 0.1]), below, step=0.02)
        >>> print(mbs.reactions(pendulum, run)["pin"].force.round(6))  # at rest the pin carries the weight
        [[ 0.   19.62]
         [ 0.   19.62]]
    """

    components: Float[Array, "*batch T k"]
    body_force: Float[Array, "*batch T d"]
    body_torque: Float[Array, "*batch T"] | Float[Array, "*batch T 3"]
    multipliers: Float[Array, "*batch T rows"]
    unique: Bool[Array, "*batch T"]
    effort: Float[Array, "*batch T"] | Float[Array, "*batch T motions"] | None
    pulls: Bool[Array, "*batch T"] | None
    outside: Bool[Array, "*batch T"] | None
    counter_torque: Float[Array, "*batch T"] | Float[Array, "*batch T 3"]
    i: str = eqx.field(static=True)
    j: str = eqx.field(static=True)


class Reactions(AbstractNamed):
    """Reactions by the names of constraints and drivers.

    `reactions["A", "motor"]` is the sum over a joint that consists of several elements: their force on body j of the
    first one, about its point_j. `reactions.on("rod")` is the sum of all reactions on a body. Both are a `Wrench`.

    Args:
        by_name: name → `Reaction`.

    Examples:
        >>> motion = mbs.kinematics(mech, jnp.array([0.0, jnp.pi / 2]), guess)
        >>> list(mbs.reactions(mech, motion))
        ['O', 'A', 'B', 'guide', 'motor']
    """

    kind = "constraint or driver"

    def __getitem__(self, name):
        """Return the `Reaction` with a name, or for a tuple of names the sum of their forces on one body as a `Wrench`.

        Raises:
            ValueError: the elements are not all between the same two bodies.
        """
        if not isinstance(name, tuple) or not name:
            return self.named(name)
        parts, first = {part: self[part] for part in name}, self[name[0]]
        for part, reaction in parts.items():
            if {reaction.i, reaction.j} != {first.i, first.j}:
                ends = [f"{k!r} is between {r.i!r} and {r.j!r}" for k, r in ((name[0], first), (part, reaction))]
                raise ValueError(f"{', '.join(ends)}; see `on` for the sum of what acts on one body")
        return _sum(list(parts.values()), first.j, first.place)

    @property
    def lifts(self) -> dict[str, Bool[Array, "*batch T"]]:
        """`pulls` of all one-sided contacts by name: True at times at which a real follower would lift off."""
        return {name: reaction.pulls for name, reaction in self.items() if reaction.pulls is not None}

    def on(self, body: str, *names: str) -> Wrench:
        """Return the sum of all reactions on a `body`, or of those with these `names`.

        Args:
            body: name of the body.
            *names: names of constraints and drivers; all unless given.

        Returns:
            Force (T, d) and torque, (T,) in the plane and (T, 3) in space, about the origin of the body.

        Raises:
            ValueError: no constraint or driver acts on the body, or a named one does not.
            KeyError: an unknown name.
        """
        chosen = {name: self[name] for name in names} or dict(self)
        parts = {name: reaction for name, reaction in chosen.items() if body in (reaction.i, reaction.j)}
        for name in names:
            require(name in parts, f"{name!r} does not act on {body!r}")
        require(chosen, "there are no constraints and drivers")
        one = next(iter(chosen.values()))
        origin = one.layout.coordinates_of(body, one.q)[..., : one.place.shape[-1]]
        require(parts, f"no constraint or driver acts on {body!r}")
        return _sum(list(parts.values()), body, origin)


def _sum(parts: list[Reaction], body: str, place) -> Wrench:
    """Return the sum of some reactions on a body as a `Wrench` about a place (T, d) in the ground frame."""
    layout, q = parts[0].layout, parts[0].q
    loads = [(r.force, r.torque, r.place) if body == r.j else (-r.force, r.counter_torque, r.place) for r in parts]
    force, torque = _resultant(layout.bodies[0][1], place, loads)
    return Wrench(force=force, torque=torque, place=place, q=q, layout=layout)


@partial(jax.jit, static_argnums=0)
def _resultant(body_type, place, loads):
    """Return force and torque about a place of loads (force, torque, its place), along a motion."""

    def at_one_time(place, loads):
        """Return the sum of the loads about the place at one time."""
        moment = body_type.pose(body_type.ground(place.dtype)).moment
        return sum(f for f, *_ in loads), sum(torque + moment(at - place, f) for f, torque, at in loads)

    return vmap_axes(at_one_time, place.ndim - 1)(place, loads)


def reactions(mech: Mechanism, run: Trajectory, *, formulation: AbstractFormulation | None = None) -> Reactions:
    """Return force and torque of every joint and driver along a motion. The constraint force on body j is Φ_qjᵀλ.

    For a motion by `kinematics` this is inverse dynamics: the multipliers λ are computed first; they are the forces and
    driving torques that the motion needs. If constraints are redundant, λ is not unique: the one of smallest norm is
    taken, and `unique` is False for the reactions that are not determined. The result is differentiable. If a status is
    bad, reactions are those of the state that `run` has there. For a batch use `jax.vmap`, or a `run` with leading axes.

    Args:
        mech: the mechanism.
        run: a `Trajectory` by `kinematics` or `simulate`.
        formulation: `Augmented()` by default.

    Returns:
        A mapping of names to `Reaction`: `reactions(mech, run)["A"].force` is (T, d).

    Raises:
        ValueError: a class in place of a formulation; or forces have states, such as the current of a motor, and `run`
            is not a motion by `simulate`.

    Examples:
        >>> motion = mbs.kinematics(mech, jnp.array([0.0, jnp.pi / 2]), guess)
        >>> print(mbs.reactions(mech, motion)["motor"].effort.round(6))  # the torque that the motor needs
        [ 0.       -0.57735]
    """
    formulation, mech = instance_of(AbstractFormulation, "formulation", formulation, Augmented()), mech.weighed()
    # If masses are traced, light bodies may be unknown. Multipliers are then improved with the accelerations of the run.
    a = None if are_masses_known(mech) else run.a
    found = _reactions(mech, run.t, run.q, run.v, a, states_along(mech, run), formulation)
    return named_reactions(mech, found, run.q)


def named_reactions(mech: Mechanism, found: dict[str, dict], q) -> Reactions:
    """Return the `Reactions` along the configurations q, from the fields that `reactions_at` finds."""
    elements = {**mech.constraints, **mech.drivers}
    return Reactions(
        {name: Reaction(**found[name], q=q, layout=mech.layout, i=e.i, j=e.j) for name, e in elements.items()}
    )


@eqx.filter_jit
def _reactions(mech: Mechanism, t, q, v, a, states, formulation: AbstractFormulation) -> dict[str, dict]:
    """Return the fields of `Reaction` that depend on the state, by the names of the elements, along a motion."""
    at_one_time = lambda mech, t, q, v, a, states: reactions_at(mech, formulation, t, q, v, a, states)[0]
    return vmap_axes(partial(ProgramWithFallback(at_one_time), mech), jnp.ndim(t))(t, q, v, a, states)


def reactions_at(mech: Mechanism, formulation, t, q, v, a, states) -> tuple[dict[str, dict], Array | None]:
    """Return the fields of `Reaction` that depend on the state, by element name, at one time.

    The second result is False if reactive forces have no common solution, None if there are no such forces.
    """
    # The states of forces are known numbers here: the equations do not need their rates.
    mech = measure_marks(with_states(mech, states), q)[0]
    equations = formulation.equations(mech)
    x, u = equations.from_bodies(q, v, t)
    equations, solved = with_reactive_forces(equations, x, u, t)
    # The same configuration, with the sign of the Euler parameters to which the multipliers belong.
    q, v, _ = equations.to_bodies(x, u, jnp.zeros_like(u), t)
    multipliers = equations.multipliers(x, u, t)
    if a is not None and mech.drivers and mech.layout.kinematic_rows + mech.layout.driver_rows >= mech.layout.m:
        # If drivers determine the motion, the balance of forces needs no M⁻¹: it is exact for any ratio of masses.
        balanced = with_reactive_forces(Augmented().equations(mech), q, v, t)[0]
        multipliers = balanced.balance_multipliers(q, v, a, t, multipliers)
    not_unique = jnp.abs(Augmented().equations(mech).null_components(q, t)) > MIN_NULL_COMPONENT
    space, poses, found = mech.layout, mech.poses(q), {}
    for name, element in {**mech.constraints, **mech.drivers}.items():
        rows = mech.layout.row_slices[name]
        own = multipliers[rows]
        moved = lambda d, element=element, name=name: residual_of(mech, name, element, q + space.rate(q, d), t)
        load = _load(mech, element, poses, jax.vjp(moved, jnp.zeros(space.m, q.dtype))[1](own)[0])
        force, torque = load["force"], load["torque"]
        found[name] = load | {
            "components": element.components(poses[element.i], force, torque),
            "body_force": poses[element.j].components(force),
            "body_torque": poses[element.j].components(torque) if torque.ndim else torque,
            "multipliers": own,
            "effort": _efforts(mech, name, element, q, t, own),
            "unique": ~jnp.any(not_unique[rows]),
        }
    largest = jnp.max(jnp.array([jnp.max(jnp.abs(load["force"])) for load in found.values()]), initial=0)
    for name, element in {**mech.constraints, **mech.drivers}.items():
        found[name] |= _contact(mech, name, element, poses, q, found[name]["force"], MIN_PULL_RATIO * largest)
    return found, solved


def _contact(mech: Mechanism, name: str, element, poses, q, force, least) -> dict[str, Array | None]:
    """Return the entries `pulls` and `outside` of a reaction. A contact pulls if its force is larger than `least`."""
    extra = q[mech.layout.extra_slices[name]] if element.extra else ()
    push, within = element.push(poses[element.i], poses[element.j], *extra), element.within(*extra)
    return {
        "pulls": None if push is None else force @ push < -least,
        "outside": None if within is None else ~within,
    }


def _efforts(mech: Mechanism, name: str, element, q, t, multipliers) -> Array | None:
    """Return −λᵀ ∂Φ/∂C for each motion C of an element: its effort, the work for a unit of C. None without motions."""
    motions = element.motions
    if not motions:
        return None

    def residual(changes):
        """Return Φ of the element with `changes` added to its motions."""
        moved = [Function(lambda t, c=c, d=d: c(t) + d) for c, d in zip(motions, changes, strict=True)]
        return residual_of(mech, name, element.with_motions(moved), q, t)

    efforts = []
    for k in range(len(motions)):
        unit = [jnp.full_like(t, float(k == other)) for other in range(len(motions))]
        efforts.append(-multipliers @ jax.jvp(residual, ([jnp.zeros_like(t)] * len(motions),), (unit,))[1])
    return efforts[0] if hasattr(element, "motion") else jnp.stack(efforts)


def _load(mech: Mechanism, element, poses, generalized) -> dict[str, Array]:
    """Return force, torque and place on body j, and counter_torque on body i, of generalized constraint forces (m,).

    If a body is the ground, which has no velocities, the force on it is the opposite of that on the other body.
    """
    slices, j, i = mech.layout.velocity_slices, poses[element.j], poses[element.i]
    origin = jnp.zeros(mech.layout.bodies[0][1].dimension, generalized.dtype)
    place = j.point(getattr(element, "point_j", getattr(element, "point", origin)))

    def on(body, pose):
        """Return the force on a body, and its torque about `place`."""
        force, torque = pose.load(generalized[slices[body]], origin)
        return force, torque + pose.moment(pose.r - place, force)

    if element.i == GROUND:
        force, torque = on(element.j, j)
        counter_torque = -torque
    else:
        counter_force, counter_torque = on(element.i, i)
        force, torque = (-counter_force, -counter_torque) if element.j == GROUND else on(element.j, j)
    return {"force": force, "torque": torque, "place": place, "counter_torque": counter_torque}
