"""Joint coordinates θ of a mechanism: its spanning tree with the relative coordinates of every joint in it.

Positions of the bodies q(θ), their velocities v = R θ̇ with the velocity transformation R, and Ṙ θ̇; after Issa and
Arczewski 1998. R consists of blocks R_ij, the velocity of body i by the rates of joint j, for joints j on the path from the
ground to body i; all follow from `Mobility`. Values "by run" are explained in `recursion`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from itertools import accumulate, pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.element import GROUND, AbstractBody, AbstractConstraint
from jaxmbs.formulations.joint.drives import Joint, inertias_at_joints
from jaxmbs.formulations.joint.forms import FREED, OWN, Form, drivers_of, joint_of, mobility_of
from jaxmbs.formulations.joint.recursion import (
    Run,
    concatenate_runs,
    forward,
    runs_of,
    split_runs,
    stack_runs,
    unstack_runs,
)
from jaxmbs.mobility import FrameMotion, Mobility, PrescribedCoordinates
from jaxmbs.numerics.linear_algebra import factor_symmetric_positive
from jaxmbs.numerics.space import Flat, Manifold, PartwiseSpace
from jaxmbs.system.layout import Layout
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.topology import Tree, spanning_tree


class Edge(eqx.Module):
    """A body with the joint that carries it.

    Attributes:
        mobility: the relative coordinates.
        joint: the joint, None for a floating base. It has no names of bodies, so that equal joints are the same code.
        body: the body.
        drivers: drivers that prescribe a coordinate, without names as well.
        swapped: True for each driver whose j is body i of the joint.
        reverse: True if the joint is traversed from its j to its i.
        given: prescribed coordinates at some time; see `JointTree.at`.
        inertia: inertia (m,) that forces give to the coordinates of the joint; None if no joint of the tree has any.
    """

    mobility: Mobility
    joint: AbstractConstraint | None
    body: AbstractBody
    drivers: tuple[AbstractConstraint, ...]
    swapped: tuple[bool, ...] = eqx.field(static=True)
    reverse: bool = eqx.field(static=True)
    given: PrescribedCoordinates | None = None
    inertia: Float[Array, " m"] | None = None


class Link(eqx.Module):
    """A body in motion on its joint.

    Attributes:
        motion: its motion, with its own point of the joint as reference point.
        axes: (k, m), its twist by unit rates of the joint.
        arm: (d,), from the reference point of the body that carries it to its own.
    """

    motion: FrameMotion
    axes: Float[Array, "k m"]
    arm: Float[Array, " d"]


@dataclasses.dataclass(frozen=True)
class JointSpace(PartwiseSpace):
    """The space of joint coordinates θ: those of the joints, in the order of the tree, then extra coordinates.

    Attributes:
        tree: the spanning tree.
        joints: its edges.
        extra: names of the extra coordinates of constraints.
        runs: see `recursion`.
        any_angle: True if angles at which joints hold bodies are in θ; see `Mobility.at_any_angle`.
        forms: choices of coordinates for the joints.
    """

    tree: Tree
    joints: tuple[Joint, ...]
    extra: tuple[str, ...]
    runs: tuple[Run, ...]
    any_angle: bool = False
    forms: tuple[Form, ...] = ()

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """The slice of θ of each joint, in the order of the tree."""
        return _slices(len(joint.coordinates) for joint in self.joints)

    @cached_property
    def velocity_slices(self) -> tuple[slice, ...]:
        """The slice of θ̇ of each joint, in the order of the tree."""
        return _slices(len(joint.velocities) for joint in self.joints)

    @cached_property
    def coordinates(self) -> tuple[str, ...]:
        """Names of the entries of θ, such as "A.phi"."""
        return tuple(f"{joint.name}.{c}" for joint in self.joints for c in joint.coordinates) + self.extra

    @cached_property
    def velocities(self) -> tuple[str, ...]:
        """Names of the entries of θ̇, such as "A.phi" or "ball.wx"."""
        return tuple(f"{joint.name}.{c}" for joint in self.joints for c in joint.velocities) + self.extra

    @cached_property
    def angular(self) -> np.ndarray:
        """(m,), True for each entry of θ̇ that is the rate of an angle, False for that of a length."""
        return np.array([a for joint in self.joints for a in joint.angular] + [True] * len(self.extra), bool)

    @property
    def n(self) -> int:
        """Number of joint coordinates, the length of θ."""
        return len(self.coordinates)

    @property
    def m(self) -> int:
        """Number of joint velocities, the length of θ̇."""
        return len(self.velocities)

    @cached_property
    def _turning(self) -> tuple[tuple[slice, slice, type[Manifold]], ...]:
        """(slice of θ, slice of θ̇, manifold) of each joint whose rotation is not flat."""
        out = []
        for joint, at, v_at in zip(self.joints, self.slices, self.velocity_slices, strict=True):
            if joint.manifold is not Flat:
                flat = sum(not angular for angular in joint.angular)
                out.append((slice(at.start + flat, at.stop), slice(v_at.start + flat, v_at.stop), joint.manifold))
        return tuple(out)

    def _by_part(self, function, *args):
        """Apply a method of `Manifold` joint by joint. `args` are pairs (array like θ, 0) or (array like θ̇, 1)."""
        parts, done = [], [0, 0]
        flat = lambda ends: getattr(Flat, function)(*(x[done[k] : ends[k]] for x, k in args))
        for *places, manifold in self._turning:
            parts.append(flat([place.start for place in places]))
            parts.append(getattr(manifold, function)(*(x[places[k]] for x, k in args)))
            done = [place.stop for place in places]
        parts.append(flat([None, None]))
        return jnp.concatenate(parts) if len(parts) > 1 else parts[0]


def _slices(sizes) -> tuple[slice, ...]:
    """Return slices of these sizes, one after the other from zero."""
    ends = list(accumulate(sizes, initial=0))
    return tuple(slice(a, b) for a, b in pairwise(ends))


def joint_space(mech: Mechanism, *, base=None, cut: str | Iterable[str] = (), any_angle: bool = False) -> JointSpace:
    """Return the space of the joint coordinates of a mechanism; `base` and `cut` as for `topology.spanning_tree`."""
    return space_of(mech, spanning_tree(mech, base=base, cut=cut), any_angle=any_angle)


def space_of(mech: Mechanism, tree: Tree, *, any_angle: bool, forms: Sequence[Form] | None = None) -> JointSpace:
    """Return the space of the joint coordinates for a spanning tree, with the joints in their own forms unless given."""
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
            known[key] = len(known), eqx.filter_eval_shape(make, element, mech.bodies[body], drivers)
        number, m = known[key]
        joints.append(Joint(name or body, m.coordinates, m.velocities, m.angular, m.manifold))
        keys.append(number)
    layout = mech.layout
    flat = layout.coordinates[layout.body_slices[layout.bodies[-1][0]].stop :]
    return JointSpace(tree, tuple(joints), tuple(flat), runs_of(tree.parents, keys), any_angle, forms)


def at_any_angle(mech: Mechanism, space: JointSpace) -> JointSpace:
    """Return the space with further coordinates that distinguish turns, senses and signs of the bodies."""
    return space_of(mech, space.tree, any_angle=True, forms=space.forms)


class JointTree(eqx.Module):
    """A mechanism as a tree, for recursions.

    Attributes:
        space: the joint coordinates.
        mech: the mechanism.
        edges: bodies with their joints, by run.
    """

    space: JointSpace = eqx.field(static=True)
    mech: Mechanism
    edges: list[Edge]

    @property
    def layout(self) -> Layout:
        """Layout of the mechanism."""
        return self.mech.layout

    @property
    def massless(self) -> bool:
        """True if some velocity of a body has no inertia by its structure, as with a mass of a plain 0."""
        return any(any(body.massless) for body in self.mech.bodies.values())

    @property
    def inertia(self) -> Float[Array, " m"] | None:
        """Inertia that forces give to the joint coordinates; None if there is none."""
        parts = [edge.inertia for edge in self.edges]
        if parts[0] is None:
            return None
        return jnp.concatenate(
            [*concatenate_runs(self.space.runs, parts), jnp.zeros(len(self.space.extra), parts[0].dtype)]
        )

    def without_inertia(self) -> JointTree:
        """Return the tree without the inertia that forces give to the joint coordinates."""
        return JointTree(self.space, self.mech, [dataclasses.replace(edge, inertia=None) for edge in self.edges])

    def at(self, t: Float[Array, ""]) -> JointTree:
        """Return the tree with the prescribed coordinates of its edges at the time t."""
        if not any(edge.mobility.known for edge in self.edges):
            return self
        known = map_runs(self.space.runs, lambda edge: edge.mobility.given(t), self.edges)
        edges = [dataclasses.replace(edge, given=given) for edge, given in zip(self.edges, known, strict=True)]
        return JointTree(self.space, self.mech, edges)


def joint_tree(mech: Mechanism, space: JointSpace) -> JointTree:
    """Return the tree of a mechanism with a mobility for each edge, in the forms of a space."""
    tree, runs = space.tree, space.runs
    joints = stack_runs(runs, [joint_of(mech, name) for name in tree.joints])
    bodies = stack_runs(runs, [mech.bodies[name] for name in tree.bodies])
    at_joints = [drivers_of(mech, tree, k, form.kind, form.drivers) for k, form in enumerate(space.forms)]
    drivers = stack_runs(runs, [drivers for drivers, _ in at_joints])
    inertias = stack_runs(runs, inertias_at_joints(mech, space.joints, space.forms))
    edges = []
    for run, joint, body, guides, inertia in zip(runs, joints, bodies, drivers, inertias, strict=True):
        k = run.start
        kind, reverse, swapped = space.forms[k].kind, tree.reversed[k], at_joints[k][1]
        make = partial(mobility_of, kind=kind, reverse=reverse, swapped=swapped, any_angle=space.any_angle)
        [mobility] = map_runs([run], make, [joint], [body], [guides])
        turned = reverse and kind not in FREED
        edges.append(Edge(mobility, joint, body, guides, swapped, turned, inertia=inertia))
    return JointTree(space, mech, edges)


# Traced once for equal joints.
@jax.jit
def _link(edge: Edge, parent: FrameMotion, theta, rate) -> Link:
    """Return the link of a body, from the motion of its parent and its joint coordinates and rates."""
    motion, axes = edge.mobility.carry(parent, theta, rate, edge.given, reverse=edge.reverse)
    return Link(motion, axes, motion.point - parent.point)


@jax.jit
def _child_pose(edge: Edge, pose, theta):
    """Return the pose of a body, from that of its parent and its joint coordinates."""
    return edge.mobility.place(pose, theta, edge.given, reverse=edge.reverse)


def by_run(space: JointSpace, theta, *, velocities: bool = False) -> list:
    """Return the entries of θ of each body by run; those of θ̇ with `velocities`. Columns are allowed."""
    return split_runs(space.runs, theta, space.velocity_slices if velocities else space.slices)


def links(tree: JointTree, theta, rate, gravity=None, also: Callable | None = None) -> list:
    """Return the links of all bodies, by run.

    With `gravity` g the ground has the acceleration −g, so that drifts include weight as inertia. If a function `also` of
    (edge, link) is given, pairs of links and its values are returned.
    """
    space = tree.space
    ground = tree.layout.pose(GROUND, theta)
    still = jnp.zeros(ground.dimension + ground.spins, theta.dtype)
    drift = still if gravity is None else still.at[: ground.dimension].add(-gravity)
    rates = by_run(space, rate, velocities=True)
    given = list(zip(tree.edges, by_run(space, theta), rates, strict=True))

    def step(parent, x):
        """Return the link of a body from the motion of its parent, and the value of `also`."""
        link = _link(x[0], parent, *x[1:])
        return link, None if also is None else also(x[0], link)

    found = forward(space.runs, step, FrameMotion(ground, ground.r, still, drift), given, lambda y: y[0].motion)
    return found if also else [link for link, _ in found]


def map_runs(runs: Sequence[Run], f: Callable, *values: Sequence) -> list:
    """Return f of the values of each body, by run; `values` are lists by run."""
    return [jax.lax.map(lambda x: f(*x), x) if run.loop else f(*x) for run, *x in zip(runs, *values, strict=True)]


def poses(tree: JointTree, theta) -> dict:
    """Return the poses of all bodies and of the ground, by name."""
    space = tree.space
    ground = tree.layout.pose(GROUND, theta)
    given = list(zip(tree.edges, by_run(space, theta), strict=True))
    poses_by_run = forward(
        space.runs, lambda parent, x: _child_pose(x[0], parent, x[1]), ground, given, lambda pose: pose
    )
    found = dict(zip(space.tree.bodies, unstack_runs(space.runs, poses_by_run), strict=True))
    return {GROUND: ground, **{name: found[name] for name in tree.layout.body_types}}


def coordinates_of(tree: JointTree, poses, theta) -> Float[Array, " n"]:
    """Return q (n,) of the bodies with these poses, by name, with the extra coordinates of θ."""
    space = tree.space
    parts = [kind.coordinates_of(poses[name]) for name, kind in tree.layout.bodies]
    return jnp.concatenate([*parts, theta[space.n - len(space.extra) :]])


def configuration(tree: JointTree, theta) -> Float[Array, " n"]:
    """Return the configuration q(θ) of the bodies, with extra coordinates."""
    return coordinates_of(tree, poses(tree, theta), theta)


def measure_coordinates(tree: JointTree, q) -> Float[Array, " n"]:
    """Return θ(q). If q violates joints of the tree, θ has the relative coordinates that these joints measure.

    With `any_angle`, q(θ) has the Euler parameters of q, except for the sign after a screw or a homokinetic joint.
    """
    space, layout = tree.space, tree.layout
    names = space.tree.bodies
    ground, rows = layout.pose(GROUND, q), stack_runs(space.runs, [layout.coordinates_of(name, q) for name in names])
    children = map_runs(space.runs, lambda edge, row: edge.body.pose(row), tree.edges, rows)
    pose_of = unstack_runs(space.runs, children)
    parents = stack_runs(space.runs, [ground if k < 0 else pose_of[k] for k in space.tree.parents])

    def measure(edge, parent, child):
        """Return the relative coordinates of an edge from the poses of its two bodies."""
        i, j = (child, parent) if edge.reverse else (parent, child)
        return edge.mobility.measure(i, j, edge.given, twice=space.any_angle)

    parts = map_runs(space.runs, measure, tree.edges, parents, children)
    return jnp.concatenate([*concatenate_runs(space.runs, parts), q[layout.n - len(space.extra) :]])


def tree_near(mech: Mechanism, space: JointSpace, theta, near, t) -> tuple[JointTree, Float[Array, " n"]]:
    """Return a tree and its coordinates for the θ of a space.

    If `near`, a configuration of the bodies, is given, senses, turns and signs are taken from it.
    """
    if near is None:
        return joint_tree(mech, space), theta
    tree = joint_tree(mech, at_any_angle(mech, space))
    known, parts = measure_coordinates(tree.at(t), near), []
    for own, all_of_them in zip(space.slices, tree.space.slices, strict=True):
        parts += [theta[own], known[all_of_them][own.stop - own.start :]]
    return tree, jnp.concatenate([*parts, theta[space.n - len(space.extra) :]])


@jax.jit
def shift_twist(pose, twist, arm):
    """Return a twist, or columns of them, about the end of an arm of the same body."""
    d = pose.dimension
    return jnp.concatenate([twist[:d] + pose.lever(arm) @ twist[d:], twist[d:]])


def body_twists(tree: JointTree, links: list, rate) -> list:
    """Return the twists of all bodies at the joint velocities θ̇, about their own points of the joints, by run."""
    space = tree.space

    def step(parent, x):
        """Return the twist of a body from that of its parent."""
        link, rate = x
        return shift_twist(link.motion.pose, parent, link.arm) + link.axes @ rate

    still = jnp.zeros(links[0].motion.twist.shape[-1], rate.dtype)
    given = list(zip(links, by_run(space, rate, velocities=True), strict=True))
    return forward(space.runs, step, still, given, lambda twist: twist)


@jax.jit
def body_velocity(motion: FrameMotion, twist) -> Float[Array, " k"]:
    """Return the velocities of a body, its part of v, from its twist."""
    return motion.pose.to_body(shift_twist(motion.pose, twist, motion.pose.r - motion.point))


@jax.jit
def body_drift(motion: FrameMotion, plus=None) -> Float[Array, " k"]:
    """Return Ṙ θ̇ of a body, its part of v̇ with θ̈ = 0, plus an acceleration `plus` in the ground frame if given."""
    pose, d = motion.pose, motion.pose.dimension
    arm, omega = pose.r - motion.point, motion.twist[d:]
    drift = shift_twist(pose, motion.drift, arm)
    drift = drift.at[:d].add(pose.lever(pose.lever(arm) @ omega) @ omega)
    return pose.to_body(drift if plus is None else drift.at[:d].add(plus))


def concatenate_bodies(tree: JointTree, parts: list, extra) -> Float[Array, " m"]:
    """Return vectors of the bodies, by run, as one in the order of v, followed by the extra velocities of θ̇."""
    space = tree.space
    named = dict(zip(space.tree.bodies, unstack_runs(space.runs, parts), strict=True))
    return jnp.concatenate([*(named[name] for name in tree.layout.body_types), extra[space.m - len(space.extra) :]])


def body_rates(tree: JointTree, links: list, rate) -> list:
    """Return the velocities R θ̇ of the bodies at joint velocities θ̇ = `rate`, by run."""
    twists = body_twists(tree, links, rate)
    return map_runs(tree.space.runs, lambda link, twist: body_velocity(link.motion, twist), links, twists)


def velocities(tree: JointTree, links: list, rate) -> Float[Array, " m"]:
    """Return v = R θ̇ (m,) of all bodies, then extra velocities, at θ̇ = `rate`; prescribed motion is not in it."""
    return concatenate_bodies(tree, body_rates(tree, links, rate), rate)


def rates_of(tree: JointTree, theta, v) -> Float[Array, " m"]:
    """Return θ̇ with R θ̇ = v − (velocities from prescribed coordinates), as a least-squares solution."""
    by_rates, still = transformation(tree, theta), jnp.zeros(tree.space.m, theta.dtype)
    each = links(tree, theta, still)
    known = map_runs(tree.space.runs, lambda link: body_velocity(link.motion, link.motion.twist), each)
    right = by_rates.T @ (v - concatenate_bodies(tree, known, still))
    return factor_symmetric_positive(by_rates.T @ by_rates).solve(right)


def transformation(tree: JointTree, theta) -> Float[Array, "m k"]:
    """Return R(θ) with v = R θ̇: for each body and each joint on the path to it the block R_ij, zero elsewhere."""
    space = tree.space
    still = jnp.zeros(space.m, theta.dtype)
    each = unstack_runs(space.runs, links(tree, theta, still))
    rows = {}
    for body, link in zip(space.tree.bodies, each, strict=True):
        pose = link.motion.pose
        row = jnp.zeros((link.axes.shape[0], space.m), theta.dtype)
        for j in space.tree.path(body):
            # The joint's axes about the origin of the body: (u × d, u) for a revolute, (u, 0) for a prismatic joint.
            twists = shift_twist(pose, each[j].axes, pose.r - each[j].motion.point)
            block = jax.vmap(pose.to_body, in_axes=1, out_axes=1)(twists) if twists.shape[1] else twists
            row = row.at[:, space.velocity_slices[j]].set(block)
        rows[body] = row
    count = len(space.extra)
    extra = jnp.eye(count, space.m, space.m - count, dtype=theta.dtype)
    return jnp.concatenate([*(rows[name] for name in tree.layout.body_types), extra])
