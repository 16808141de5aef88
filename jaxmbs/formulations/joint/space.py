"""Joint coordinates θ of a mechanism: its spanning tree with the relative coordinates of every joint in it.

Positions of the bodies q(θ), their velocities v = R θ̇ with the velocity transformation R, and Ṙ θ̇; after Issa and
Arczewski 1998. R is made of blocks R_ij, the velocity of body i by the rates of joint j, where joint j is on the path from
the ground to body i; all follow from `Mobility`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from itertools import accumulate, pairwise
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.element import GROUND, AbstractBody, AbstractConstraint
from jaxmbs.formulations.joint.forms import FREED, OWN, Form, drivers_of, joint_of, mobility_of, traced
from jaxmbs.formulations.joint.recursion import Run, divided, forward, gathered, joined, runs_of, scattered
from jaxmbs.mobility import Given, Mobility, Motion
from jaxmbs.numerics.linear_algebra import factor_symmetric_positive
from jaxmbs.numerics.space import Flat, Manifold, Space
from jaxmbs.system.layout import Layout
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.topology import Tree, spanning_tree


class Joint(NamedTuple):
    """The static part of an edge of the tree.

    Attributes:
        name: that of the joint, or of the floating body.
        coordinates, velocities, angular, manifold, at_rest: see `Mobility`.
    """

    name: str
    coordinates: tuple[str, ...]
    velocities: tuple[str, ...]
    angular: tuple[bool, ...]
    manifold: type[Manifold]
    at_rest: tuple[float, ...]


class Edge(eqx.Module):
    """A body with what carries it.

    Attributes:
        mobility: the relative coordinates. joint: the joint, None before a floating base, without the names of its bodies,
            so that joints that are alike are the same code. body: the body.
        drivers: those that prescribe a coordinate, without names as well. swapped: whether their j is body i of the joint.
        reverse: whether the joint is traversed from its j to its i.
        given: what is known of the coordinates at some time; see `JointTree.at`.
    """

    mobility: Mobility
    joint: AbstractConstraint | None
    body: AbstractBody
    drivers: tuple[AbstractConstraint, ...]
    swapped: tuple[bool, ...] = eqx.field(static=True)
    reverse: bool = eqx.field(static=True)
    given: Given | None = None


class Link(eqx.Module):
    """A body in motion on its joint.

    Attributes:
        motion: with its own end of the joint as reference point.
        axes: (k, m) its twist by unit rates of the joint. arm: from the reference point of what carries it to its own.
    """

    motion: Motion
    axes: Float[Array, "k m"]
    arm: Float[Array, " d"]


@dataclasses.dataclass(frozen=True)
class JointSpace(Space):
    """The space of joint coordinates θ: those of the joints, in the order of the tree, then the extra coordinates of
    constraints.

    Attributes:
        tree: the spanning tree. joints: its edges. extra: names of the extra coordinates. runs: see `recursion`.
        any_angle: whether angles at which joints hold bodies are among θ; see `Mobility.at_any_angle`.
        forms: how the joints appear.
    """

    tree: Tree
    joints: tuple[Joint, ...]
    extra: tuple[str, ...]
    runs: tuple[Run, ...]
    any_angle: bool = False
    forms: tuple[Form, ...] = ()

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Entries of θ of each joint."""
        return _slices(len(joint.coordinates) for joint in self.joints)

    @cached_property
    def velocity_slices(self) -> tuple[slice, ...]:
        """Entries of θ̇ of each joint."""
        return _slices(len(joint.velocities) for joint in self.joints)

    @cached_property
    def coordinates(self) -> tuple[str, ...]:
        """Names of the entries of θ: "A.phi", …"""
        return tuple(f"{joint.name}.{c}" for joint in self.joints for c in joint.coordinates) + self.extra

    @cached_property
    def velocities(self) -> tuple[str, ...]:
        """Names of the entries of θ̇."""
        return tuple(f"{joint.name}.{c}" for joint in self.joints for c in joint.velocities) + self.extra

    @cached_property
    def angular(self) -> np.ndarray:
        """For each entry of θ̇ whether it is the rate of an angle, or else of a length."""
        return np.array([a for joint in self.joints for a in joint.angular] + [True] * len(self.extra), bool)

    @property
    def n(self) -> int:
        """Number of joint coordinates."""
        return len(self.coordinates)

    @property
    def m(self) -> int:
        """Number of joint velocities."""
        return len(self.velocities)

    @property
    def rest(self) -> np.ndarray:
        """θ of no displacement in any joint."""
        return np.array([x for joint in self.joints for x in joint.at_rest] + [0.0] * len(self.extra))

    @cached_property
    def _turning(self) -> tuple[tuple[slice, slice, type[Manifold]], ...]:
        """Entries of θ and θ̇ that are not flat."""
        out = []
        for joint, at, v_at in zip(self.joints, self.slices, self.velocity_slices, strict=True):
            if joint.manifold is not Flat:
                flat = sum(not angular for angular in joint.angular)
                out.append((slice(at.start + flat, at.stop), slice(v_at.start + flat, v_at.stop), joint.manifold))
        return tuple(out)

    def _by_part(self, function: str, *args):
        """A function of manifolds: of arrays, each with 0 where it has the places of θ, 1 where those of θ̇."""
        parts, done = [], [0, 0]
        flat = lambda ends: getattr(Flat, function)(*(x[done[k] : ends[k]] for x, k in args))
        for *places, manifold in self._turning:
            parts.append(flat([place.start for place in places]))
            parts.append(getattr(manifold, function)(*(x[places[k]] for x, k in args)))
            done = [place.stop for place in places]
        parts.append(flat([None, None]))
        return jnp.concatenate(parts) if len(parts) > 1 else parts[0]

    def rate(self, q, v):
        return self._by_part("rate", (q, 0), (v, 1))

    def retract(self, q, d):
        return self._by_part("retract", (q, 0), (d, 1))

    def difference(self, q, other):
        return self._by_part("difference", (q, 0), (other, 0))

    def chart_rate(self, d, v):
        return self._by_part("chart_rate", (d, 1), (v, 1))

    def extent(self, q):
        return self._by_part("extent", (q, 0))

    def normalised(self, q):
        return self._by_part("normalised", (q, 0))


def _slices(sizes) -> tuple[slice, ...]:
    ends = list(accumulate(sizes, initial=0))
    return tuple(slice(a, b) for a, b in pairwise(ends))


def joint_space(mech: Mechanism, *, base=None, cut: str | Iterable[str] = (), any_angle: bool = False) -> JointSpace:
    """The space of the joint coordinates of a mechanism; `base` and `cut` as for `topology.spanning_tree`."""
    return space_of(mech, spanning_tree(mech, base=base, cut=cut), any_angle=any_angle)


def space_of(mech: Mechanism, tree: Tree, *, any_angle: bool, forms: Sequence[Form] | None = None) -> JointSpace:
    """The space of the joint coordinates for a spanning tree, the joints in their own forms unless told otherwise."""
    forms = (Form(OWN),) * len(tree.bodies) if forms is None else tuple(forms)
    known: dict = {}
    joints, keys = [], []
    for k, (body, name, form) in enumerate(zip(tree.bodies, tree.joints, forms, strict=True)):
        drivers, swapped = drivers_of(mech, tree, k, form.kind, form.drivers)
        element, reverse = joint_of(mech, name), tree.reversed[k]
        leaves, structure = jax.tree.flatten((element, mech.bodies[body], drivers))
        shapes = tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
        key = structure, form.kind, swapped, reverse, shapes
        if key not in known:
            make = partial(mobility_of, kind=form.kind, reverse=reverse, swapped=swapped, any_angle=any_angle)
            known[key] = len(known), _kind(make, element, mech.bodies[body], drivers)
        number, kind = known[key]
        joints.append(Joint(body if name is None else name, *kind))
        keys.append(number)
    layout = mech.layout
    flat = layout.coordinates[layout.body_slices[layout.bodies[-1][0]].stop :]
    return JointSpace(tree, tuple(joints), tuple(flat), runs_of(tree.parents, keys), any_angle, forms)


def at_any_angle(mech: Mechanism, space: JointSpace) -> JointSpace:
    """The same space with further coordinates that tell turns, senses and signs of the bodies apart."""
    return space_of(mech, space.tree, any_angle=True, forms=space.forms)


def _kind(make: Callable, *parts) -> tuple:
    """Names, angles, manifold and rest of a joint's coordinates."""
    m = traced(make, *parts)
    return m.coordinates, m.velocities, m.angular, m.manifold, m.at_rest


class JointTree(eqx.Module):
    """A mechanism as a tree, what recursions go over.

    Attributes:
        space: the joint coordinates. mech: the mechanism. edges: its bodies with their joints, as things of the runs.
    """

    space: JointSpace = eqx.field(static=True)
    mech: Mechanism
    edges: list[Edge]

    @property
    def layout(self) -> Layout:
        """That of the mechanism."""
        return self.mech.layout

    @property
    def light(self) -> bool:
        """True if some body has no inertia, or little of it; see `Mechanism.light`."""
        return bool(self.mech.light)

    @property
    def massless(self) -> bool:
        """True if some velocity of a body has no inertia, whatever the numbers are."""
        return any(any(body.massless) for body in self.mech.bodies.values())

    def at(self, t: Float[Array, ""]) -> JointTree:
        """The same with what is known of the coordinates at a time."""
        if not any(edge.mobility.known for edge in self.edges):
            return self
        known = mapped(self.space.runs, lambda edge: edge.mobility.given(t), self.edges)
        edges = [dataclasses.replace(edge, given=given) for edge, given in zip(self.edges, known, strict=True)]
        return JointTree(self.space, self.mech, edges)


def joint_tree(mech: Mechanism, space: JointSpace) -> JointTree:
    """The tree of a mechanism with the numbers that it has."""
    tree, runs = space.tree, space.runs
    joints = gathered(runs, [joint_of(mech, name) for name in tree.joints])
    bodies = gathered(runs, [mech.bodies[name] for name in tree.bodies])
    at_joints = [drivers_of(mech, tree, k, form.kind, form.drivers) for k, form in enumerate(space.forms)]
    drivers = gathered(runs, [drivers for drivers, _ in at_joints])
    edges = []
    for run, joint, body, guides in zip(runs, joints, bodies, drivers, strict=True):
        k = run.start
        kind, reverse, swapped = space.forms[k].kind, tree.reversed[k], at_joints[k][1]
        make = partial(mobility_of, kind=kind, reverse=reverse, swapped=swapped, any_angle=space.any_angle)
        [mobility] = mapped([run], make, [joint], [body], [guides])
        edges.append(Edge(mobility, joint, body, guides, swapped, reverse and kind not in FREED))
    return JointTree(space, mech, edges)


# Traced once for joints that are alike.
@jax.jit
def _carried(edge: Edge, parent: Motion, theta, rate) -> Link:
    motion, axes = edge.mobility.carry(parent, theta, rate, edge.given, reverse=edge.reverse)
    return Link(motion, axes, motion.point - parent.point)


@jax.jit
def _placed(edge: Edge, pose, theta):
    return edge.mobility.place(pose, theta, edge.given, reverse=edge.reverse)


def by_run(space: JointSpace, theta, *, velocities: bool = False) -> list:
    """θ, or θ̇, or columns of them, as things of the runs."""
    return divided(space.runs, theta, space.velocity_slices if velocities else space.slices)


def links(tree: JointTree, theta, rate, gravity=None, also: Callable | None = None) -> list:
    """All bodies in motion, as things of the runs. With `gravity` g the ground moves with −g, so that drifts count
    weight as inertia. also: (edge, link) ↦ something; then pairs of links and these."""
    space = tree.space
    ground = tree.layout.pose(GROUND, theta)
    still = jnp.zeros(ground.dimension + ground.spins, theta.dtype)
    drift = still if gravity is None else still.at[: ground.dimension].add(-gravity)
    rates = by_run(space, rate, velocities=True)
    given = list(zip(tree.edges, by_run(space, theta), rates, strict=True))

    def step(parent, x):
        link = _carried(x[0], parent, *x[1:])
        return link, None if also is None else also(x[0], link)

    found = forward(space.runs, step, Motion(ground, ground.r, still, drift), given, lambda y: y[0].motion)
    return found if also else [link for link, _ in found]


def mapped(runs: Sequence[Run], f: Callable, *things: Sequence) -> list:
    """f of things of the bodies, as things of the runs."""
    return [jax.lax.map(lambda x: f(*x), x) if run.loop else f(*x) for run, *x in zip(runs, *things, strict=True)]


def poses(tree: JointTree, theta) -> dict:
    """The poses of all bodies and of the ground."""
    space = tree.space
    ground = tree.layout.pose(GROUND, theta)
    given = list(zip(tree.edges, by_run(space, theta), strict=True))
    placed = forward(space.runs, lambda parent, x: _placed(x[0], parent, x[1]), ground, given, lambda pose: pose)
    found = dict(zip(space.tree.bodies, scattered(space.runs, placed), strict=True))
    return {GROUND: ground, **{name: found[name] for name in tree.layout.body_types}}


def coordinates_of(tree: JointTree, poses, theta) -> Float[Array, " n"]:
    """q of poses, with the extra coordinates of θ."""
    space = tree.space
    parts = [kind.coordinates_of(poses[name]) for name, kind in tree.layout.bodies]
    return jnp.concatenate([*parts, theta[space.n - len(space.extra) :]])


def configuration(tree: JointTree, theta) -> Float[Array, " n"]:
    """q(θ)."""
    return coordinates_of(tree, poses(tree, theta), theta)


def measured(tree: JointTree, q) -> Float[Array, " n"]:
    """θ(q): of a configuration that does not satisfy the joints of the tree what these can measure. With any
    angle, q(θ) has the same Euler parameters as q, but for the sign beyond a screw or a homokinetic joint."""
    space, layout = tree.space, tree.layout
    names = space.tree.bodies
    ground, rows = layout.pose(GROUND, q), gathered(space.runs, [layout.coordinates_of(name, q) for name in names])
    children = mapped(space.runs, lambda edge, row: edge.body.pose(row), tree.edges, rows)
    at = scattered(space.runs, children)
    parents = gathered(space.runs, [ground if k < 0 else at[k] for k in space.tree.parents])

    def measure(edge, parent, child):
        ends = (child, parent) if edge.reverse else (parent, child)
        return edge.mobility.measure(*ends, edge.given, twice=space.any_angle)

    parts = mapped(space.runs, measure, tree.edges, parents, children)
    return jnp.concatenate([*joined(space.runs, parts), q[layout.n - len(space.extra) :]])


def placed(mech: Mechanism, space: JointSpace, theta, near, t) -> tuple[JointTree, Float[Array, " n"]]:
    """Return a tree and its coordinates for the θ of a space.

    If `near`, a configuration of the bodies, is given, senses, turns and signs are taken from it.
    """
    if near is None:
        return joint_tree(mech, space), theta
    tree = joint_tree(mech, at_any_angle(mech, space))
    known, parts = measured(tree.at(t), near), []
    for own, all_of_them in zip(space.slices, tree.space.slices, strict=True):
        parts += [theta[own], known[all_of_them][own.stop - own.start :]]
    return tree, jnp.concatenate([*parts, theta[space.n - len(space.extra) :]])


@jax.jit
def moved(pose, twist, arm):
    """A twist, or columns of them, about the end of an arm of the same body."""
    d = pose.dimension
    return jnp.concatenate([twist[:d] + pose.lever(arm) @ twist[d:], twist[d:]])


def spread(tree: JointTree, links: list, rate) -> list:
    """The twists of all bodies, about their own ends of the joints, at the joint velocities θ̇: R θ̇."""
    space = tree.space

    def step(parent, x):
        link, rate = x
        return moved(link.motion.pose, parent, link.arm) + link.axes @ rate

    still = jnp.zeros(links[0].motion.twist.shape[-1], rate.dtype)
    given = list(zip(links, by_run(space, rate, velocities=True), strict=True))
    return forward(space.runs, step, still, given, lambda twist: twist)


@jax.jit
def body_velocity(motion: Motion, twist) -> Float[Array, " k"]:
    """The velocities of a body as in v, from its twist."""
    return motion.pose.to_body(moved(motion.pose, twist, motion.pose.r - motion.point))


@jax.jit
def body_drift(motion: Motion, plus=None) -> Float[Array, " k"]:
    """Ṙ θ̇ of a body, as in v̇; plus an acceleration of all."""
    pose, d = motion.pose, motion.pose.dimension
    arm, omega = pose.r - motion.point, motion.twist[d:]
    drift = moved(pose, motion.drift, arm)
    drift = drift.at[:d].add(pose.lever(pose.lever(arm) @ omega) @ omega)
    return pose.to_body(drift if plus is None else drift.at[:d].add(plus))


def of_bodies(tree: JointTree, parts: list, extra) -> Float[Array, " m"]:
    """Vectors of the bodies, things of the runs, as one in the order of v, with the extra velocities of θ̇."""
    space = tree.space
    named = dict(zip(space.tree.bodies, scattered(space.runs, parts), strict=True))
    return jnp.concatenate([*(named[name] for name in tree.layout.body_types), extra[space.m - len(space.extra) :]])


def body_rates(tree: JointTree, links: list, rate) -> list:
    """R θ̇, as things of the runs."""
    twists = spread(tree, links, rate)
    return mapped(tree.space.runs, lambda link, twist: body_velocity(link.motion, twist), links, twists)


def velocities(tree: JointTree, links: list, rate) -> Float[Array, " m"]:
    """v = R θ̇."""
    return of_bodies(tree, body_rates(tree, links, rate), rate)


def rates_of(tree: JointTree, theta, v) -> Float[Array, " m"]:
    """θ̇ with R θ̇ = v, of least squares; R θ̇ is v less the velocities by what is known."""
    by_rates, still = transformation(tree, theta), jnp.zeros(tree.space.m, theta.dtype)
    each = links(tree, theta, still)
    known = mapped(tree.space.runs, lambda link: body_velocity(link.motion, link.motion.twist), each)
    right = by_rates.T @ (v - of_bodies(tree, known, still))
    return factor_symmetric_positive(by_rates.T @ by_rates).solve(right)


def transformation(tree: JointTree, theta) -> Float[Array, "m k"]:
    """R(θ) with v = R θ̇: for each body and each joint on the path to it the block R_ij, zero elsewhere."""
    space = tree.space
    still = jnp.zeros(space.m, theta.dtype)
    each = scattered(space.runs, links(tree, theta, still))
    rows = {}
    for body, link in zip(space.tree.bodies, each, strict=True):
        pose = link.motion.pose
        row = jnp.zeros((link.axes.shape[0], space.m), theta.dtype)
        for j in space.tree.path(body):
            # The joint's axes seen from the origin of the body: (u × d, u) for a revolute, (u, 0) for a prismatic joint.
            twists = moved(pose, each[j].axes, pose.r - each[j].motion.point)
            block = jax.vmap(pose.to_body, in_axes=1, out_axes=1)(twists) if twists.shape[1] else twists
            row = row.at[:, space.velocity_slices[j]].set(block)
        rows[body] = row
    count = len(space.extra)
    extra = jnp.eye(count, space.m, space.m - count, dtype=theta.dtype)
    return jnp.concatenate([*(rows[name] for name in tree.layout.body_types), extra])
