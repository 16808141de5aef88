"""Every spatial joint against the motions that it allows, made by composing rotations with SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxmbs as mbs
from jaxmbs import spatial
from jaxmbs.element import AbstractConstraint

POINT_I = (0.3, -0.2, 0.5)
POINT_J = (-0.1, 0.4, 0.2)
PITCH = 0.7
LENGTH = 1.3
FIXED = "fixed"
FREE = "free"
AT_ZERO = np.zeros(3)
about = lambda axis, angle: Rotation.from_rotvec(angle * np.eye(3)[axis])
none = Rotation.identity()


class Joint(NamedTuple):
    """A builder of the joint from frames, and the placements of its frame on j in that on i for given joint coordinates."""

    build: Callable
    placed: Callable
    freedoms: int
    rows: int


def framed(kind, **more):
    return lambda i, j, f_i, f_j: kind(i, j, POINT_I, POINT_J, frame_i=f_i, frame_j=f_j, **more)


def distance(i, j, f_i, f_j):
    return spatial.Distance(i, j, POINT_I, POINT_J, LENGTH)


def universal(i, j, f_i, f_j):
    return spatial.Universal(i, j, POINT_I, POINT_J, 2.0 * f_i[:, 0], 0.5 * f_j[:, 1])


def axes(kind, **more):
    """With axes in place of frames; the angle about z does not matter for these."""
    return lambda i, j, f_i, f_j: kind(i, j, POINT_I, POINT_J, 3.0 * f_i[:, 2], 0.2 * f_j[:, 2], **more)


ball = Rotation.from_rotvec
JOINTS = {
    "Revolute": Joint(framed(spatial.Revolute), lambda x: (about(2, x[0]), AT_ZERO), 1, 5),
    "Revolute by axes": Joint(axes(spatial.Revolute), lambda x: (about(2, x[0]), AT_ZERO), 1, 5),
    "Prismatic": Joint(framed(spatial.Prismatic), lambda x: (none, [0, 0, x[0]]), 1, 5),
    "Cylindrical": Joint(framed(spatial.Cylindrical), lambda x: (about(2, x[0]), [0, 0, x[1]]), 2, 4),
    "Cylindrical by axes": Joint(axes(spatial.Cylindrical), lambda x: (about(2, x[0]), [0, 0, x[1]]), 2, 4),
    "Spherical": Joint(framed(spatial.Spherical), lambda x: (ball(x), AT_ZERO), 3, 3),
    "Planar": Joint(framed(spatial.Planar), lambda x: (about(2, x[0]), [x[1], x[2], 0]), 3, 3),
    "Planar by axes": Joint(axes(spatial.Planar), lambda x: (about(2, x[0]), [x[1], x[2], 0]), 3, 3),
    "Rigid": Joint(framed(spatial.Rigid), lambda x: (none, AT_ZERO), 0, 6),
    "Free": Joint(framed(spatial.Free), lambda x: (ball(x[:3]), x[3:]), 6, 0),
    "Universal": Joint(universal, lambda x: (about(0, x[0]) * about(1, x[1]), AT_ZERO), 2, 4),
    "ConstantVelocity": Joint(framed(spatial.ConstantVelocity), lambda x: (ball([x[0], x[1], 0]), AT_ZERO), 2, 4),
    "Distance": Joint(
        distance, lambda x: (ball(x[:3]), about(2, x[3]).apply(about(1, x[4]).apply([LENGTH, 0, 0]))), 5, 1
    ),
    "Screw": Joint(
        framed(spatial.Screw, pitch=PITCH), lambda x: (about(2, 5 * x[0]), [0, 0, 5 * x[0] * PITCH / (2 * np.pi)]), 1, 5
    ),
    "AxisDistance": Joint(
        framed(spatial.AxisDistance, distance=LENGTH),
        lambda x: (ball(x[:3]), [LENGTH * np.cos(x[3]), LENGTH * np.sin(x[3]), x[4]]),
        5,
        1,
    ),
    # A small swing about x and y before the turn about z leaves this turn as it is.
    "Thread": Joint(
        framed(spatial.Thread, pitch=PITCH, angle_i=0.3, angle_j=0.1),
        lambda x: (ball([x[0], x[1], 0]) * about(2, x[2] + 0.2), [x[3], x[4], x[2] * PITCH / (2 * np.pi)]),
        5,
        1,
    ),
    "RackPinion": Joint(
        framed(spatial.RackPinion, radius_j=-LENGTH, angle_j=0.2),
        lambda x: (ball([x[0], x[1], 0]) * about(2, x[2] / LENGTH - 0.2), [x[2], x[3], x[4]]),
        5,
        1,
    ),
    "TotalJoint": Joint(
        framed(spatial.TotalJoint, position=(FREE, FIXED, FREE), orientation=(FREE, FIXED, FIXED)),
        lambda x: (about(0, x[0]), [x[1], 0, x[2]]),
        3,
        3,
    ),
    "TotalJoint, one orientation": Joint(
        framed(spatial.TotalJoint, position=(FIXED, FIXED, FREE), orientation=(FIXED, FREE, FREE)),
        lambda x: (ball([0, x[0], x[1]]), [0, 0, x[2]]),
        3,
        3,
    ),
    "RelativeJoint": Joint(
        framed(spatial.RelativeJoint, position=(FIXED, FREE, FIXED), orientation=(FREE, FIXED, FREE)),
        lambda x: (about(0, x[0]) * about(2, x[1]), [0, x[2], 0]),
        3,
        3,
    ),
}


def test_no_joint_is_forgotten():
    """All but drivers, which leave no motion to be made, and gears and couplings, which hold no position."""
    kinds = {name: x for name, x in vars(spatial).items() if isinstance(x, type) and issubclass(x, AbstractConstraint)}
    assert {name for name in kinds if not name.endswith(("Driver", "Gear", "Coupling"))} <= {
        name.split()[0].strip(",") for name in JOINTS
    }


def frames(seed):
    rng = np.random.default_rng(seed)
    return Rotation.random(rng=rng), Rotation.random(rng=rng), rng


def two_bodies(joint, seed=0):
    """The mechanism, and the poses of both bodies for a pose of i and coordinates of the joint."""
    f_i, f_j, _ = frames(seed)
    mech = mbs.Mechanism(
        {"a": spatial.Body(), "b": spatial.Body()}, {"J": joint.build("a", "b", f_i.as_matrix(), f_j.as_matrix())}
    )

    def poses(r_i, turn_i, x):
        turn, place = joint.placed(x)
        turn_j = turn_i * f_i * turn * f_j.inv()
        r_j = r_i + turn_i.apply(np.array(POINT_I) + f_i.apply(place)) - turn_j.apply(POINT_J)
        return (r_i, turn_i), (r_j, turn_j)

    return mech, poses


def stacked(poses):
    return jnp.concatenate([jnp.asarray(np.concatenate([r, np.roll(turn.as_quat(), 1)])) for r, turn in poses])


def motion(poses, joint, seed):
    """q, v and a at t = 0 of a motion that the joint allows, by differences of SciPy's rotations."""
    _, _, rng = frames(seed)
    r, w, x, turn = rng.normal(size=(3, 3)), rng.normal(size=(3, 3)), rng.normal(size=(3, 6)), Rotation.random(rng=rng)
    poly = lambda c, t: c[0] + c[1] * t + c[2] * t**2
    at = lambda t: poses(poly(r, t), turn * ball(poly(w, t)), poly(x, t)[: max(joint.freedoms, 1)])

    def velocity(t, h=1e-3):
        """Fourth order."""
        parts = []
        here = at(t)
        for body in range(2):
            shifted = {k: at(t + k * h)[body] for k in (-2, -1, 1, 2)}
            weights = {-2: 1 / 12, -1: -8 / 12, 1: 8 / 12, 2: -1 / 12}
            parts.append(sum(c * shifted[k][0] for k, c in weights.items()) / h)
            parts.append(sum(c * (here[body][1].inv() * shifted[k][1]).as_rotvec() for k, c in weights.items()) / h)
        return np.concatenate(parts)

    h = 1e-2
    a = (8 * (velocity(h) - velocity(-h)) - (velocity(2 * h) - velocity(-2 * h))) / (12 * h)
    return stacked(at(0.0)), jnp.asarray(velocity(0.0)), jnp.asarray(a)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", JOINTS)
def test_allowed_motions(name):
    """Φ = 0, Φ_q v = 0 and Φ_q a = γ along them; as many independent rows as there are; Φ_q by differences."""
    joint = JOINTS[name]
    for seed in range(3):
        mech, poses = two_bodies(joint, seed)
        assert len(mech.layout.row_owners) == joint.rows == 6 - joint.freedoms
        q, v, a = motion(poses, joint, seed + 10)
        np.testing.assert_allclose(mbs.constraints(mech, q), 0, rtol=0, atol=1e-14)
        if not joint.rows:
            continue
        phi_q = mbs.constraint_jacobian(mech, q)
        np.testing.assert_allclose(phi_q @ v, mbs.velocity_rhs(mech, q), rtol=0, atol=1e-8)
        np.testing.assert_allclose(phi_q @ a, mbs.acceleration_rhs(mech, q, v), rtol=0, atol=1e-5)
        assert np.linalg.matrix_rank(phi_q, tol=1e-6) == joint.rows
        # −p is the same rotation as p.
        signs = np.ones(14)
        signs[10:] = -1
        np.testing.assert_allclose(mbs.constraints(mech, q * signs), 0, rtol=0, atol=1e-14)
        # Φ_q off the constraint as well.
        d = np.random.default_rng(seed).normal(size=12)
        off = mech.layout.retract(q, 0.1 * d)
        h = 1e-4
        ahead, back = (mbs.constraints(mech, mech.layout.retract(off, k * h * d)) for k in (1, -1))
        np.testing.assert_allclose(mbs.constraint_jacobian(mech, off) @ d, (ahead - back) / (2 * h), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", JOINTS)
def test_reactions_do_no_work_and_balance(name):
    """Of any multipliers: virtual work vanishes along allowed motions, and the forces on both bodies balance."""
    joint = JOINTS[name]
    mech, poses = two_bodies(joint)
    if not joint.rows:
        return
    q, v, _ = motion(poses, joint, 20)
    multipliers = np.random.default_rng(1).normal(size=joint.rows)
    force = multipliers @ np.asarray(mbs.constraint_jacobian(mech, q))
    assert abs(force @ v) < 1e-8
    poses = mech.poses(q)
    loads = [poses[name].load(force[6 * k : 6 * k + 6], jnp.zeros(3)) for k, name in enumerate("ab")]
    np.testing.assert_allclose(loads[0][0], -loads[1][0], rtol=0, atol=1e-14)
    moments = [torque + jnp.cross(poses[name].r, f) for name, (f, torque) in zip("ab", loads, strict=True)]
    np.testing.assert_allclose(moments[0], -moments[1], rtol=0, atol=1e-13)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", [name for name in JOINTS if JOINTS[name].rows])
def test_assembly_finds_the_allowed_placements(name):
    """From a guess that is off by half a metre and half a radian; the result satisfies the joint by its own geometry."""
    joint = JOINTS[name]
    mech, poses = two_bodies(joint)
    q, _, _ = motion(poses, joint, 30)
    guess = mech.layout.retract(q, 0.3 * np.random.default_rng(2).normal(size=12))
    found = mbs.assemble(mech, guess, throw=True)
    np.testing.assert_allclose(mbs.constraints(mech, found.q), 0, rtol=0, atol=1e-12)
    for body in (0, 7):
        np.testing.assert_allclose(np.linalg.norm(found.q[body + 3 : body + 7]), 1, rtol=0, atol=1e-14)


def test_frames_of_bodies_place_joints():
    """A `Frame` gives a joint its point and its axes."""
    turned = Rotation.from_rotvec([0.3, 0.2, -0.4]).as_matrix()
    base = spatial.Body(frames={"pin": spatial.Frame(POINT_I, turned)})
    arm = spatial.Body(frames={"pin": spatial.Frame(POINT_J)})
    mech = mbs.Mechanism(
        {"base": base, "arm": arm}, {"J": spatial.Rigid("base", "arm", base.frames["pin"], arm.frames["pin"])}
    )
    by_hand = spatial.Rigid("base", "arm", POINT_I, POINT_J, frame_i=turned, frame_j=np.eye(3))
    q = mech.coordinates({"arm": spatial.coordinates((1, 2, 3), (0.1, 0.2, 0.3))})
    other = mbs.Mechanism(mech.bodies, {"J": by_hand})
    np.testing.assert_allclose(mbs.constraints(mech, q), mbs.constraints(other, q), rtol=0, atol=1e-15)


def test_inertia_in_a_frame_of_its_own():
    """J = C J′ Cᵀ; and M, kinetic energy and velocity forces with the centre of mass off the origin, by Newton–Euler."""
    axes_of_inertia = Rotation.from_rotvec([0.5, -0.3, 0.8]).as_matrix()
    moments, com, mass = np.array([0.3, 0.4, 0.5]), np.array([0.1, -0.2, 0.3]), 2.0
    body = spatial.Body(mass, moments, com, inertia_frame=axes_of_inertia)
    full = axes_of_inertia @ np.diag(moments) @ axes_of_inertia.T
    np.testing.assert_allclose(body.inertia, full, rtol=0, atol=1e-15)
    mech = mbs.Mechanism({"b": body})
    q, v = (
        mech.coordinates({"b": spatial.coordinates((1, 2, 3), (0.4, 0.5, -0.6))}),
        np.random.default_rng(0).normal(size=6),
    )
    a = np.asarray(mech.poses(q)["b"].a)
    velocity = v[:3] + a @ np.cross(v[3:], com)
    kinetic = mass * velocity @ velocity / 2 + v[3:] @ full @ v[3:] / 2
    np.testing.assert_allclose(mbs.energy(mech, q, v).kinetic, kinetic, rtol=1e-14)
    matrix = mbs.Augmented().of(mech).mass_matrix(q)
    np.testing.assert_allclose(v @ matrix @ v / 2, kinetic, rtol=1e-14)
    # M v̇ = velocity force: what a free body without forces does keeps momentum and angular momentum.
    forces = body.velocity_force(mech.poses(q)["b"], v)
    v_dot = np.linalg.solve(matrix, forces)
    acceleration = v_dot[:3] + a @ (np.cross(v_dot[3:], com) + np.cross(v[3:], np.cross(v[3:], com)))
    np.testing.assert_allclose(acceleration, 0, rtol=0, atol=1e-14)
    np.testing.assert_allclose(full @ v_dot[3:] + np.cross(v[3:], full @ v[3:]), 0, rtol=0, atol=1e-14)


P, NOT_A_ROTATION = (0, 0, 0), np.diag([1.0, 2, 1])
BAD = {
    "axis of no length": (lambda: spatial.Revolute("a", "b", P, P, (0, 0, 0)), "axis_i has no length"),
    "no rotation": (lambda: spatial.Revolute("a", "b", P, P, frame_i=NOT_A_ROTATION), "frame_i must have three"),
    "left-handed": (lambda: spatial.Rigid("a", "b", P, P, frame_j=-np.eye(3)), "frame_j must have three right-handed"),
    "axis and frame": (lambda: spatial.Revolute("a", "b", P, P, (0, 0, 1), frame_i=np.eye(3)), "exclude each other"),
    "axis here, frame there": (
        lambda: spatial.Revolute("a", "b", P, P, (0, 0, 1), frame_j=np.eye(3)),
        "axes or frames",
    ),
    "point of the plane": (lambda: spatial.Spherical("a", "b", (0, 0), P), "point_i must be an array of shape (3,)"),
    "no distance": (lambda: spatial.Distance("a", "b", P, P), "distance is missing"),
    "negative distance": (lambda: spatial.Distance("a", "b", P, P, -1.0), "distance must be positive"),
    "no pitch": (lambda: spatial.Screw("a", "b"), "pitch is missing"),
    "zero pitch": (lambda: spatial.Screw("a", "b", pitch=0.0), "pitch must not be zero"),
    "no distance from an axis": (lambda: spatial.AxisDistance("a", "b"), "distance is missing"),
    "negative distance from an axis": (lambda: spatial.AxisDistance("a", "b", distance=-1.0), "must be positive"),
    "thread without pitch": (lambda: spatial.Thread("a", "b"), "pitch is missing"),
    "thread of pitch zero": (lambda: spatial.Thread("a", "b", pitch=0.0), "pitch must not be zero"),
    "pinion without radius": (lambda: spatial.RackPinion("a", "b"), "radius_j is missing"),
    "pinion of radius zero": (lambda: spatial.RackPinion("a", "b", radius_j=0.0), "radius_j must not be zero"),
    "worm without pitch": (lambda: spatial.WormGear("a", "b", radius_i=1.0, radius_j=2.0), "pitch is missing"),
    "teeth without slope": (
        lambda: spatial.Gear("a", "b", radius_i=1.0, radius_j=2.0, pressure_angle=0.0),
        "pressure_angle must not be zero",
    ),
    "no radius": (lambda: spatial.Gear("a", "b", radius_i=1.0), "radius_j is missing"),
    "word": (lambda: spatial.TotalJoint("a", "b", P, P, ("free", "fixd", "free")), "got 'fixd'"),
    "two components": (lambda: spatial.TotalJoint("a", "b", P, P, ("free", "free")), "position must have three"),
    "nothing": (lambda: spatial.TotalJoint("a", "b", P, P, (None, "free", "free")), "got 'None'"),
    "vectors": (lambda: spatial.RevoluteDriver("a", "b", P, P, P, P, P, 1.0), "too many vectors"),
    "no motion": (lambda: spatial.RevoluteDriver("a", "b"), "motion is missing"),
    "knots of a motion": (
        lambda: spatial.TotalJoint("a", "b", P, P, (mbs.motion.Spline([0, 0], [1, 2]), "free", "free")),
        "times must increase",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_joints_are_refused(name):
    make, words = BAD[name]
    with pytest.raises(ValueError, match=r"\w") as caught:
        mbs.Mechanism({"a": spatial.Body(), "b": spatial.Body()}, {"J": make()})
    assert words in str(caught.value)
    assert "'J'" in str(caught.value) or "too many" in words


BAD_BODIES = {
    "negative moment": (lambda: spatial.Body(1.0, (1.0, 1.0, -0.1)), "must not be negative"),
    "triangle": (lambda: spatial.Body(1.0, (1.0, 1.0, 2.5)), "must not exceed the sum"),
    "not symmetric": (lambda: spatial.Body(1.0, np.eye(3) + np.eye(3, k=1)), "must be symmetric"),
    "shape": (lambda: spatial.Body(1.0, np.ones(4)), "inertia must be"),
    "text": (lambda: spatial.Body(1.0, "x"), "inertia must be"),
    "mass": (lambda: spatial.Body(-1.0), "mass must be positive"),
    "frame": (lambda: spatial.Body(frames={"pin": spatial.Frame(P, NOT_A_ROTATION)}), "frame 'pin': axes"),
    "inertia frame": (lambda: spatial.Body(inertia_frame=NOT_A_ROTATION), "inertia_frame must have"),
}


@pytest.mark.parametrize("name", BAD_BODIES)
def test_bad_bodies_are_refused(name):
    make, words = BAD_BODIES[name]
    with pytest.raises(ValueError, match=r"\w") as caught:
        mbs.Mechanism({"rod": make()})
    assert words in str(caught.value)
    assert "'rod'" in str(caught.value)


def test_planar_and_spatial_do_not_mix():
    with pytest.raises(ValueError, match="cannot be mixed"):
        mbs.Mechanism({"a": spatial.Body(), "b": mbs.planar.Body()})


@pytest.mark.slow
def test_gradients_are_finite_at_exact_zeros():
    """Two bodies at the same place, unturned: by every number of every joint."""
    for name, joint in JOINTS.items():
        mech, _ = two_bodies(joint)
        q = mech.coordinates({})

        def total(mech, q=q):
            return jnp.sum(mbs.constraints(mech, q) ** 2) + jnp.sum(mbs.constraint_jacobian(mech, q))

        if joint.rows:
            leaves = jax.tree.leaves(jax.grad(total)(mech.astype(float)))
            assert all(np.all(np.isfinite(leaf)) for leaf in leaves), name


def test_user_forces_are_conjugate_to_the_velocities():
    mech = mbs.Mechanism({"a": spatial.Body()}, forces={"drag": mbs.UserForce(lambda state: -2 * state.v)})
    np.testing.assert_array_equal(mbs.generalized_force(mech, mech.coordinates(), np.arange(6.0)), -2 * np.arange(6.0))


def test_drivers_take_frames_and_traced_numbers_as_joints_do():
    frame = spatial.Frame((0, 0, 0), ((0, 0, 1), (1, 0, 0), (0, 1, 0)))

    def turned(angle):
        mech = mbs.Mechanism(
            {"a": spatial.Body()},
            {"hinge": spatial.Revolute("ground", "a", frame, frame)},
            {"motor": spatial.RevoluteDriver("ground", "a", frame, frame, angle)},
        )
        return mbs.assemble(mech).q[4]

    np.testing.assert_allclose(turned(0.6), np.sin(0.3), rtol=1e-14)
    np.testing.assert_allclose(jax.grad(turned)(0.6), np.cos(0.3) / 2, rtol=1e-14)


def test_nothing_to_assemble():
    """A mechanism without a single equation stays where it is."""
    mech = mbs.Mechanism({"a": spatial.Body()}, {"free": spatial.Free("ground", "a")})
    start = spatial.coordinates((1, 2, 3), (0.1, 0.2, 0.3))
    found = mbs.assemble(mech, {"a": start}, throw=True)
    np.testing.assert_allclose(found.q, start, rtol=0, atol=1e-15)
    assert mbs.diagnose(mech, found.q).dof == 6


def test_directions_of_a_free_joint():
    """x, y, z count along body i, or along frame_i; an axis, which would turn them unseen, is refused."""
    q, bodies = {"a": spatial.coordinates((1, 2, 3))}, {"a": spatial.Body()}
    measured = lambda joint: mbs.JointCoordinates().of(mbs.Mechanism(bodies, {"free": joint})).coordinates(q)
    np.testing.assert_allclose(measured(spatial.Free("ground", "a"))[:3], (1, 2, 3), atol=1e-14)
    quarter = ((0, -1, 0), (1, 0, 0), (0, 0, 1))
    np.testing.assert_allclose(
        measured(spatial.Free("ground", "a", frame_i=quarter)), (2, -1, 3, 1, 0, 0, 0), atol=1e-14
    )
    with pytest.raises(ValueError, match=r"constraint 'free' \(Free\): axis_i has no place in a Free.* give frame_i"):
        measured(spatial.Free("ground", "a", axis_i=(1, 0, 0)))


def test_the_axis_of_a_ball_has_no_effect_on_its_coordinates():
    q, bodies = {"a": spatial.coordinates((0, 0, 0), (0.3, 0.2, -0.4))}, {"a": spatial.Body()}
    mech_of = lambda **axis: mbs.Mechanism(bodies, {"ball": spatial.Spherical("ground", "a", **axis)})
    measured = lambda **axis: mbs.JointCoordinates().of(mech_of(**axis)).coordinates(q)
    np.testing.assert_allclose(measured(axis_i=(1, 2, 0.5)), measured(), atol=1e-14)
