"""Random mechanisms for property tests, open and closed, with a configuration in which they are assembled.

First the poses of all bodies are drawn, then the joints are made to fit there, with joint coordinates that are not zero:
so nothing has to be assembled. Kinds and connectivity, a `Structure`, may come from a seed of their own: mechanisms of the
same structure share their compiled programs, and can be `stacked` for `jax.vmap`.

The wrenches that a joint transmits are written down here from mechanics, not taken from Φ; they tell whether the
constraints are independent before anything is compiled.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from jaxmbs import planar, spatial

GROUND = "ground"
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
CLOSURES = {2: ("Revolute", "Distance", "RevoluteTranslational"), 3: ("Spherical", "Universal", "Distance", "Revolute")}
# Joints that say the same with axes as with frames, whatever the angle between these.
ABOUT_AN_AXIS = ("Revolute", "Cylindrical", "Planar")
# The smallest singular value of the wrenches' matrix, relative to the largest, that counts as well conditioned.
CONDITION = 1e-2
ATTEMPTS = 200
ALL = (0, 1, 2)


@dataclasses.dataclass(frozen=True)
class Joint:
    """A joint or a rod; `held`: components of position and orientation of a total joint; `axes`: given by axes, or else by
    frames."""

    name: str
    kind: str
    i: str
    j: str
    held: tuple[bool, ...] = ()
    axes: bool = False


@dataclasses.dataclass(frozen=True)
class Structure:
    """All of a mechanism that is no number.

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
        """Their number."""
        return len(self.bodies) * (3 if self.dimension == 2 else 6)


# --- mechanisms ---


def random_tree(rng, bodies, *, structure_seed=None, **options):
    """A mechanism without loops and a configuration (mech, q).

    Args:
        rng: NumPy's generator of the numbers, and of the structure if that has no seed of its own.
        bodies: their number.
        structure_seed: of kinds and connectivity.
        options: kinds, dimension, floating, branching, shuffled; see `tree_structure`.
    """
    return draw(rng, tree_structure(_structure_rng(rng, structure_seed), bodies, **options))


def random_closed(rng, bodies, *, structure_seed=None, **options):
    """A mechanism with loops and a configuration (mech, q): Φ_q has full row rank, and at least one degree of freedom is
    left.

    Args:
        rng, bodies, structure_seed: see `random_tree`.
        options: loops, closures, driver, and those of `random_tree`; see `closed_structure`.
    """
    return draw(rng, closed_structure(_structure_rng(rng, structure_seed), bodies, **options))


def random_velocity(rng, mech, q):
    """Velocities v with Φ_q v = ν at t = 0: random ones, brought by the smallest change to where the constraints hold."""
    jacobian, right = np.asarray(mbs.constraint_jacobian(mech, q)), np.asarray(mbs.velocity_rhs(mech, q))
    v = rng.normal(size=mech.layout.m)
    if not len(right):
        return v
    return v + np.linalg.lstsq(jacobian, right - jacobian @ v, rcond=None)[0]


def random_body(rng, dimension):
    """A body with its centre of mass off the origin and, in space, a full inertia matrix: that of some points of mass."""
    mass, com = rng.uniform(0.5, 3), rng.uniform(-0.4, 0.4, dimension)
    spread = rng.normal(size=(dimension, 5)) * 0.3
    second_moment = mass / 5 * spread @ spread.T
    if dimension == 2:
        return planar.Body(mass, np.trace(second_moment), com)
    return spatial.Body(mass, np.trace(second_moment) * np.eye(3) - second_moment, com)


def stacked(samples):
    """Mechanisms of one structure, or pairs (mech, q), as a batch: every number gets a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *samples)


def _structure_rng(rng, seed):
    return rng if seed is None else np.random.default_rng(seed)


# --- structures ---


def tree_structure(rng, bodies, kinds=None, dimension=3, floating=False, branching=0.3, shuffled=False) -> Structure:
    """Kinds and connectivity of a tree.

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
    kind, (i, j) = str(rng.choice(list(kinds))), ends[:: int(rng.choice([1, 1, -1]))]
    held = tuple(bool(x) for x in rng.random(6) < 0.5) if kind == "TotalJoint" else ()
    return Joint(name, kind, i, j, held, kind in ABOUT_AN_AXIS and rng.random() < 0.5)


def _random_forces(rng, names) -> dict:
    nodes = [GROUND, *names]
    pair = lambda: tuple(str(node) for node in rng.choice(nodes, 2, replace=False))
    body = str(rng.choice(names))
    return {
        "springs": (pair(), pair()),
        "force": (str(rng.choice(names)), bool(rng.random() < 0.5)),
        "torque": (body, str(rng.choice([node for node in nodes if node != body]))),
    }


def closed_structure(rng, bodies, loops=1, closures=None, driver=False, dimension=3, **options) -> Structure:
    """Kinds and connectivity of a tree with closures.

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
    """The tree with so many closures more, and a driver; None where that was not found."""
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
    """One closure more, if the constraints stay independent and leave a degree of freedom."""
    ends = (str(node) for node in rng.choice([GROUND, *structure.bodies], 2, replace=False))
    joint = _random_joint(rng, name, closures, *ends)
    if any({joint.i, joint.j} == {other.i, other.j} for other in structure.joints):
        return None
    trial = dataclasses.replace(structure, joints=(*structure.joints, joint))
    *_, wrenches = _numbers(rng, trial)
    return trial if len(wrenches) < structure.velocities and _is_well_conditioned(wrenches) else None


def _is_well_conditioned(wrenches) -> bool:
    if not len(wrenches):
        return True
    values = np.linalg.svd(wrenches, compute_uv=False)
    return len(wrenches) <= wrenches.shape[1] and values[-1] > CONDITION * values[0]


# --- numbers ---


def draw(rng, structure: Structure):
    """A mechanism of this structure and a configuration (mech, q)."""
    return draw_with_wrenches(rng, structure)[:2]


def draw_with_wrenches(rng, structure: Structure):
    """A mechanism, a configuration, and the matrix of the wrenches that the constraints transmit, as generalized forces:
    its rows span the same space as those of Φ_q."""
    for _ in range(ATTEMPTS):
        placed, (constraints, drivers), wrenches = _numbers(rng, structure)
        if _is_well_conditioned(wrenches):
            break
    else:
        raise ValueError(f"the constraints of {structure} seem to depend on each other")
    bodies = {name: random_body(rng, structure.dimension) for name in structure.bodies}
    mech = mbs.Mechanism(bodies, constraints, drivers, _forces(rng, structure))
    return mech, np.concatenate([placed[name].q for name in structure.bodies]), wrenches


@dataclasses.dataclass(frozen=True)
class Placed:
    """A body at its place: origin, axes as columns, coordinates."""

    r: np.ndarray
    a: np.ndarray
    q: np.ndarray

    def local(self, point):
        """The body coordinates of a point of the ground frame."""
        return self.a.T @ (point - self.r)


def _numbers(rng, structure):
    """Poses, (constraints, drivers) that fit there, and the matrix of the wrenches of all of them."""
    d = structure.dimension
    placed = {GROUND: Placed(np.zeros(d), np.eye(d), np.zeros(0))}
    placed |= {name: (_placed_in_plane if d == 2 else _placed_in_space)(rng) for name in structure.bodies}
    constraints, drivers, rows = {}, {}, []
    for joint in structure.joints:
        i, j = placed[joint.i], placed[joint.j]
        made = (_planar_joint if d == 2 else _spatial_joint)(rng, joint, i, j, joint.name == structure.driven)
        constraints[joint.name], wrenches, driver = made
        if driver is not None:
            drivers["driver"], wrench = driver
            wrenches = [*wrenches, wrench]
        rows += [_row(structure, placed, joint, *wrench) for wrench in wrenches]
    return placed, (constraints, drivers), np.array(rows).reshape(-1, structure.velocities)


def _row(structure, placed, joint, force, point, torque):
    """The generalized force of a wrench that acts on body j and, reversed, on body i; force and torque about the point."""
    row = np.zeros((len(structure.bodies), structure.velocities // len(structure.bodies)))
    for name, sign in ((joint.i, -1), (joint.j, 1)):
        if name != GROUND:
            body = placed[name]
            moment = torque + _cross(point - body.r, force)
            turned = body.a.T @ moment if structure.dimension == 3 else np.atleast_1d(moment)
            row[structure.bodies.index(name)] = sign * np.concatenate([force, turned])
    return row.ravel()


def _cross(arm, force):
    return np.cross(arm, force) if len(arm) == 3 else arm[0] * force[1] - arm[1] * force[0]


def _forces(rng, structure):
    d = structure.dimension
    point = lambda: rng.uniform(-0.5, 0.5, d)
    forces = {"gravity": mbs.Gravity(9.81 * _direction(rng, d))}
    for k, (i, j) in enumerate(structure.springs):
        numbers = rng.uniform((5, 0.1, 0.2), (50, 2, 1.0))
        forces[f"spring {k}"] = mbs.SpringDamper(i, j, point(), point(), *numbers)
    (pushed, follower), (twisted, reaction) = structure.force, structure.torque
    forces["force"] = mbs.PointForce(pushed, point(), rng.normal(size=d) * 5, follower=follower)
    forces["torque"] = mbs.Torque(twisted, rng.normal() * 2 if d == 2 else rng.normal(size=3) * 2, reaction)
    return forces


def _motion(rng, value):
    """A motion that has this value at t = 0."""
    return mbs.motion.Polynomial([value, *rng.uniform(-1, 1, 2)])


def _direction(rng, dimension):
    v = rng.normal(size=dimension)
    return v / np.linalg.norm(v)


def _displacement(rng, size=1):
    """Numbers that are not small."""
    return rng.uniform(0.2, 0.7, size) * rng.choice([-1, 1], size)


def _middle(rng, i, j):
    return (i.r + j.r) / 2 + rng.uniform(-0.5, 0.5, len(i.r))


# --- in the plane ---


def _placed_in_plane(rng):
    r, phi = rng.uniform(-1, 1, 2), rng.uniform(-np.pi, np.pi)
    c, s = np.cos(phi), np.sin(phi)
    return Placed(r, np.array([[c, -s], [s, c]]), np.append(r, phi))


def _planar_joint(rng, joint, i, j, driven):
    """A joint that fits, its wrenches (force, point, torque) on body j, and the driver with its wrench, or None."""
    at, along, none = _middle(rng, i, j), _direction(rng, 2), np.zeros(2)
    normal = np.array([-along[1], along[0]])
    axis_i = i.a.T @ along * rng.uniform(0.5, 2)
    end, driver = at, None
    if joint.kind == "Revolute":
        element = planar.Revolute(joint.i, joint.j, i.local(at), j.local(at))
        wrenches = [(force, at, 0.0) for force in np.eye(2)]
        if driven:
            angles = rng.uniform(-1, 1, 2)
            value = (j.q[2] if len(j.q) else 0) - (i.q[2] if len(i.q) else 0) + angles[1] - angles[0]
            driver = planar.RevoluteDriver(joint.i, joint.j, _motion(rng, value), *angles), (none, at, 1.0)
    elif joint.kind == "Translational":
        end = at + along * _displacement(rng)
        axis_j = j.a.T @ along * _displacement(rng)
        element = planar.Translational(joint.i, joint.j, i.local(at), j.local(end), axis_i, axis_j)
        wrenches = [(normal, end, 0.0), (none, end, 1.0)]
    elif joint.kind == "RevoluteTranslational":
        advance, offset = _displacement(rng, 2)
        end = at + along * advance + normal * offset
        element = planar.RevoluteTranslational(joint.i, joint.j, i.local(at), j.local(end), axis_i, offset)
        wrenches = [(normal, end, 0.0)]
    else:
        end = at + along * rng.uniform(0.5, 1.5)
        element = planar.Distance(joint.i, joint.j, i.local(at), j.local(end), np.linalg.norm(end - at))
        wrenches = [(along, end, 0.0)]
    return element, wrenches, driver


# --- in space ---


def _matrix(p):
    """The rotation matrix with Euler parameters p."""
    e = p[1:]
    skew = np.cross(np.eye(3), e)
    return (2 * p[0] ** 2 - 1) * np.eye(3) + 2 * (np.outer(e, e) + p[0] * skew)


def _placed_in_space(rng):
    r, p = rng.uniform(-1, 1, 3), _direction(rng, 4)
    return Placed(r, _matrix(p), np.concatenate([r, p]))


def _spatial_joint(rng, joint, i, j, driven):
    """A joint that fits, its wrenches (force, point, torque) on body j, and the driver with its wrench, or None."""
    at, none, driver = _middle(rng, i, j), np.zeros(3), None
    axes = _matrix(_direction(rng, 4))
    if joint.kind == "Distance":
        end = at + axes[:, 0] * rng.uniform(0.5, 1.5)
        ends = i.local(at), j.local(end)
        element = spatial.Distance(joint.i, joint.j, *ends, distance=np.linalg.norm(end - at))
        return element, [(axes[:, 0], end, none)], driver
    if joint.kind == "Universal":
        arms = i.a.T @ axes[:, 0] * rng.uniform(0.5, 2), j.a.T @ axes[:, 1] * rng.uniform(0.5, 2)
        element = spatial.Universal(joint.i, joint.j, i.local(at), j.local(at), *arms)
        return element, [*((force, at, none) for force in np.eye(3)), (none, at, axes[:, 2])], driver

    position, orientation = _held(joint)
    s = _displacement(rng, 3)
    s[list(position)] = 0
    theta = _displacement(rng, 3) * 2
    theta[list(orientation)] = 0
    more = {}
    if joint.kind == "Screw":
        more["pitch"] = _displacement(rng)[0]
        s[2] = more["pitch"] * (theta[2] / (2 * np.pi) + rng.integers(-1, 2))
    angle = np.linalg.norm(theta)
    p = np.append(np.cos(angle / 2), np.sin(angle / 2) / (angle or 1) * theta)
    end, axes_j = at + axes @ s, axes @ _matrix(p)
    wrenches = [(axes[:, k], end, none) for k in position]
    # ω in the axes of j turns the vector part of p at the rate ½ (e₀ ω + e × ω).
    torques = p[0] * np.eye(3) + np.cross(np.eye(3), p[1:])
    wrenches += [(none, end, axes_j @ torques[k]) for k in orientation]
    if joint.kind == "Screw":
        wrenches.append((-2 * np.pi / more["pitch"] * axes[:, 2], end, axes[:, 2]))

    frames = {"frame_i": i.a.T @ axes, "frame_j": j.a.T @ axes_j}
    if driven:
        driver = spatial.RevoluteDriver(joint.i, joint.j, _motion(rng, theta[2]), **frames), (none, end, axes[:, 2])
    if joint.axes:
        lengths = rng.uniform(0.5, 2, 2)
        frames = {f"axis_{k[-1]}": frame[:, 2] * x for (k, frame), x in zip(frames.items(), lengths, strict=True)}
    if joint.kind == "TotalJoint":
        words = ["fixed" if held else "free" for held in joint.held]
        more |= {"position": words[:3], "orientation": words[3:]}
    kind = getattr(spatial, joint.kind)
    return kind(joint.i, joint.j, i.local(at), j.local(end), **more, **frames), wrenches, driver


def _held(joint: Joint):
    """Numbers of the components of position and orientation that vanish."""
    if joint.kind == "TotalJoint":
        return tuple(k for k in ALL if joint.held[k]), tuple(k for k in ALL if joint.held[3 + k])
    return {
        "Revolute": (ALL, (0, 1)),
        "Prismatic": ((0, 1), ALL),
        "Cylindrical": ((0, 1), (0, 1)),
        "Screw": ((0, 1), (0, 1)),
        "Spherical": (ALL, ()),
        "Planar": ((2,), (0, 1)),
        "Rigid": (ALL, ALL),
        "Free": ((), ()),
        "ConstantVelocity": (ALL, (2,)),
    }[joint.kind]
