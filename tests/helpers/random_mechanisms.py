"""Random mechanisms for property tests, open and closed, with a configuration in which they are assembled.

First the poses of all bodies are drawn, then the joints are made to fit there, with joint coordinates that are not zero:
so nothing has to be assembled. Kinds and connectivity, a `Structure`, may come from a seed of their own: mechanisms of the
same structure share their compiled programs, and can be `stacked` for `jax.vmap`.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from jaxmbs import planar, spatial
from random_placements import (
    GROUND,
    Joint,
    Placed,
    direction,
    placed_in_plane,
    placed_in_space,
    planar_joint,
    spatial_joint,
)

# Joints of random trees, by dimension.
KINDS = {
    2: ("Revolute", "Translational", "RevoluteTranslational"),
    3: (
        "Revolute",
        "Prismatic",
        "Cylindrical",
        "Universal",
        "Spherical",
        "Planar",
        "Rigid",
        "Free",
        "ConstantVelocity",
        "Screw",
        "TotalJoint",
    ),
}
# Joints that close loops of random mechanisms, by dimension.
CLOSURES = {2: ("Revolute", "Distance", "RevoluteTranslational"), 3: ("Spherical", "Universal", "Distance", "Revolute")}
# Joints that say the same with axes as with frames, whatever the angle between these.
ABOUT_AN_AXIS = ("Revolute", "Cylindrical", "Planar")
# Wrenches count as independent if their matrix has no smaller singular value than this, relative to the largest.
CONDITION = 1e-2
# Attempts to draw a structure or its numbers before an error is raised.
ATTEMPTS = 200


@dataclasses.dataclass(frozen=True)
class Structure:
    """All of a mechanism that is not a number.

    Attributes:
        joints: those of the tree and those that close loops.
        driven: the name of the hinge that has a driver.
        springs: pairs of bodies.
        force: a body, and whether the force turns with it. torque: a body, and what bears the reaction.
    """

    dimension: int
    bodies: tuple[str, ...]
    joints: tuple[Joint, ...]
    driven: str | None
    springs: tuple[tuple[str, str], ...]
    force: tuple[str, bool]
    torque: tuple[str, str]

    @property
    def velocities(self) -> int:
        """Return the number of velocities of the structure."""
        return len(self.bodies) * (3 if self.dimension == 2 else 6)


def random_tree(rng, bodies, *, structure_seed=None, **options):
    """Return a mechanism without loops and a configuration (mech, q).

    Args:
        rng: NumPy's generator of the numbers, and of the structure if that has no seed of its own.
        bodies: their number.
        structure_seed: of kinds and connectivity.
        options: kinds, dimension, floating, branching, shuffled; see `tree_structure`.
    """
    return draw(rng, tree_structure(_structure_rng(rng, structure_seed), bodies, **options))


def random_closed(rng, bodies, *, structure_seed=None, **options):
    """Return a mechanism with loops and a configuration (mech, q): Φ_q has full row rank and fewer rows than columns.

    Args:
        rng, bodies, structure_seed: see `random_tree`.
        options: loops, closures, driver, and those of `random_tree`; see `closed_structure`.
    """
    return draw(rng, closed_structure(_structure_rng(rng, structure_seed), bodies, **options))


def random_velocity(rng, mech, q):
    """Return velocities v with Φ_q v = ν at t = 0: random ones with the smallest change that makes them hold."""
    jacobian, right = np.asarray(mbs.constraint_jacobian(mech, q)), np.asarray(mbs.velocity_rhs(mech, q))
    v = rng.normal(size=mech.layout.m)
    if not len(right):
        return v
    return v + np.linalg.lstsq(jacobian, right - jacobian @ v, rcond=None)[0]


def random_body(rng, dimension):
    """Return a body with its centre of mass off the origin and, in space, the inertia matrix of some point masses."""
    mass, com = rng.uniform(0.5, 3), rng.uniform(-0.4, 0.4, dimension)
    spread = rng.normal(size=(dimension, 5)) * 0.3
    second_moment = mass / 5 * spread @ spread.T
    if dimension == 2:
        return planar.Body(mass, np.trace(second_moment), com)
    return spatial.Body(mass, np.trace(second_moment) * np.eye(3) - second_moment, com)


def stacked(samples):
    """Return mechanisms of one structure, or pairs (mech, q), as a batch: every number gets a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *samples)


def _structure_rng(rng, seed):
    """Return the generator of the structure: a new one from a seed, or `rng`."""
    return rng if seed is None else np.random.default_rng(seed)


def tree_structure(rng, bodies, kinds=None, dimension=3, floating=False, branching=0.3, shuffled=False) -> Structure:
    """Return random kinds and connectivity of a tree.

    Args:
        rng, bodies: see `random_tree`.
        kinds: names of joint classes; `KINDS` of the dimension unless given.
        dimension: 2 in the plane, 3 in space.
        floating: whether no joint leads to the ground.
        branching: probability that a body hangs on any of those before it, not on the last one.
        shuffled: whether bodies and joints are declared in any order, not from the ground to the leaves.
    """
    names = [f"body {k}" for k in range(bodies)]
    joints = []
    for k, child in enumerate(names):
        if k == 0:
            if floating:
                continue
            parent = GROUND
        else:
            known = names[:k] if floating else [GROUND, *names[:k]]
            parent = str(rng.choice(known)) if rng.random() < branching else known[-1]
        joints.append(_random_joint(rng, f"joint {k}", kinds or KINDS[dimension], parent, child))
    if shuffled:
        names, joints = ([sequence[k] for k in rng.permutation(len(sequence))] for sequence in (names, joints))
    return Structure(dimension, tuple(names), tuple(joints), None, **_random_forces(rng, names))


def _random_joint(rng, name, kinds, *ends) -> Joint:
    """Return a joint of a random kind between two bodies, either way round."""
    kind, (i, j) = str(rng.choice(list(kinds))), ends[:: int(rng.choice([1, 1, -1]))]
    held = tuple(bool(x) for x in rng.random(6) < 0.5) if kind == "TotalJoint" else ()
    return Joint(name, kind, i, j, held, kind in ABOUT_AN_AXIS and rng.random() < 0.5)


def _random_forces(rng, names) -> dict:
    """Return the random bodies and pairs of bodies on which springs and forces act."""
    nodes = [GROUND, *names]
    pair = lambda: tuple(str(node) for node in rng.choice(nodes, 2, replace=False))
    body = str(rng.choice(names))
    return {
        "springs": (pair(), pair()),
        "force": (str(rng.choice(names)), bool(rng.random() < 0.5)),
        "torque": (body, str(rng.choice([node for node in nodes if node != body]))),
    }


def closed_structure(rng, bodies, loops=1, closures=None, driver=False, dimension=3, **options) -> Structure:
    """Return random kinds and connectivity of a tree with closures.

    Args:
        rng, bodies, dimension, options: see `tree_structure`.
        loops: number of joints or rods that close loops.
        closures: their kinds; `CLOSURES` of the dimension unless given.
        driver: whether a hinge of the tree is driven.
    """
    for _ in range(ATTEMPTS):
        tree = tree_structure(rng, bodies, dimension=dimension, **options)
        closed = _closed(rng, tree, loops, closures or CLOSURES[dimension], driver)
        if closed is not None:
            return closed
    raise ValueError(f"no mechanism of {bodies} bodies with {loops} loops found: allow more bodies, or more freedom")


def _closed(rng, structure, loops, closures, driver) -> Structure | None:
    """Return the tree with a number of closures more, and a driver; None if that was not found."""
    hinges = [joint.name for joint in structure.joints if joint.kind == "Revolute"]
    if driver:
        if not hinges:
            return None
        structure = dataclasses.replace(structure, driven=str(rng.choice(hinges)))
    for k in range(loops):
        for _ in range(20):
            trial = _with_closure(rng, structure, f"closure {k}", closures)
            if trial is not None:
                structure = trial
                break
        else:
            return None
    return structure


def _with_closure(rng, structure, name, closures) -> Structure | None:
    """Return the structure with one closure more, None if constraints get dependent or leave no freedom."""
    ends = (str(node) for node in rng.choice([GROUND, *structure.bodies], 2, replace=False))
    joint = _random_joint(rng, name, closures, *ends)
    if any({joint.i, joint.j} == {other.i, other.j} for other in structure.joints):
        return None
    trial = dataclasses.replace(structure, joints=(*structure.joints, joint))
    *_, wrenches = _numbers(rng, trial)
    return trial if len(wrenches) < structure.velocities and _is_well_conditioned(wrenches) else None


def _is_well_conditioned(wrenches) -> bool:
    """Return True if the wrenches (rows) are independent, by `CONDITION`."""
    if not len(wrenches):
        return True
    values = np.linalg.svd(wrenches, compute_uv=False)
    return len(wrenches) <= wrenches.shape[1] and values[-1] > CONDITION * values[0]


def draw(rng, structure: Structure):
    """Return a mechanism of this structure and a configuration (mech, q)."""
    return draw_with_wrenches(rng, structure)[:2]


def draw_with_wrenches(rng, structure: Structure):
    """Return (mech, q) and the wrenches of its constraints as generalized forces, which span the rows of Φ_q."""
    for _ in range(ATTEMPTS):
        placed, (constraints, drivers), wrenches = _numbers(rng, structure)
        if _is_well_conditioned(wrenches):
            break
    else:
        raise ValueError(f"the constraints of {structure} seem to depend on each other")
    bodies = {name: random_body(rng, structure.dimension) for name in structure.bodies}
    mech = mbs.Mechanism(bodies, constraints, drivers, _forces(rng, structure))
    return mech, np.concatenate([placed[name].q for name in structure.bodies]), wrenches


def _numbers(rng, structure):
    """Return poses, (constraints, drivers) that fit there, and the matrix of the wrenches of all of them."""
    d = structure.dimension
    placed = {GROUND: Placed(np.zeros(d), np.eye(d), np.zeros(0))}
    placed |= {name: (placed_in_plane if d == 2 else placed_in_space)(rng) for name in structure.bodies}
    constraints, drivers, rows = {}, {}, []
    for joint in structure.joints:
        i, j = placed[joint.i], placed[joint.j]
        made = (planar_joint if d == 2 else spatial_joint)(rng, joint, i, j, joint.name == structure.driven)
        constraints[joint.name], wrenches, driver = made
        if driver is not None:
            drivers["driver"], wrench = driver
            wrenches = [*wrenches, wrench]
        rows += [_row(structure, placed, joint, *wrench) for wrench in wrenches]
    return placed, (constraints, drivers), np.array(rows).reshape(-1, structure.velocities)


def _row(structure, placed, joint, force, point, torque):
    """Return the generalized force of a force and torque at a point of body j and, reversed, of body i."""
    row = np.zeros((len(structure.bodies), structure.velocities // len(structure.bodies)))
    for name, sign in ((joint.i, -1), (joint.j, 1)):
        if name != GROUND:
            body = placed[name]
            moment = torque + _cross(point - body.r, force)
            turned = body.a.T @ moment if structure.dimension == 3 else np.atleast_1d(moment)
            row[structure.bodies.index(name)] = sign * np.concatenate([force, turned])
    return row.ravel()


def _cross(arm, force):
    """Return the cross product of two vectors of space, or that of the plane, a number."""
    return np.cross(arm, force) if len(arm) == 3 else arm[0] * force[1] - arm[1] * force[0]


def _forces(rng, structure):
    """Return gravity, and springs and forces with random numbers, on the structure's bodies."""
    d = structure.dimension
    point = lambda: rng.uniform(-0.5, 0.5, d)
    forces = {"gravity": mbs.Gravity(9.81 * direction(rng, d))}
    for k, (i, j) in enumerate(structure.springs):
        numbers = rng.uniform((5, 0.1, 0.2), (50, 2, 1.0))
        forces[f"spring {k}"] = mbs.SpringDamper(i, j, point(), point(), *numbers)
    (pushed, follower), (twisted, reaction) = structure.force, structure.torque
    forces["force"] = mbs.PointForce(pushed, point(), rng.normal(size=d) * 5, follower=follower)
    forces["torque"] = mbs.Torque(twisted, rng.normal() * 2 if d == 2 else rng.normal(size=3) * 2, reaction)
    return forces
