"""The joint of relative coordinates: every combination of free, fixed and prescribed translations and angles; Kamman."""

from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxmbs as mbs
import random_mechanisms as mechanisms
from jaxmbs import motion, spatial
from jaxmbs.formulations.joint import space as joint_space
from jaxmbs.mobility import FrameMotion
from jaxmbs.numerics import rotation
from jaxmbs.spatial.body import Poses
from norms import size

FREE = "free"
FIXED = "fixed"
DRIVEN = "driven"
KINDS = (FREE, FIXED, DRIVEN)
COMBINATIONS = list(product(KINDS, repeat=3))
POINT_I = (0.3, -0.2, 0.5)
POINT_J = (-0.1, 0.4, 0.2)
FRAME_I, FRAME_J = (Rotation.from_rotvec(x).as_matrix() for x in ([0.3, -0.4, 0.5], [-0.2, 0.1, 0.7]))
TIME = 0.7
MOTIONS = (motion.Harmonic(0.6, 2.0, 0.3), motion.Ramp(0.7, 0.2), motion.Polynomial([0.4, -0.3, 0.5]))
SAMPLES = 5
# Of the combinations those that always run.
QUICK = (0, 2, 4, 6, 8, 12, 16, 18, 20, 24)
ALL = range(3)


def components(kinds, motions=MOTIONS):
    return tuple(motions[k] if kind == DRIVEN else kind for k, kind in enumerate(kinds))


def joint_of(translations, angles, i="a", j="b", **more):
    frames = {"frame_i": FRAME_I, "frame_j": FRAME_J} | more
    return spatial.RelativeJoint(
        i, j, POINT_I, POINT_J, components(translations), components(angles, MOTIONS[::-1]), **frames
    )


def drawn(kinds, rng, spread, motions=MOTIONS):
    """Values of the three coordinates at `TIME`: several turns of those that are free."""
    known = [{FIXED: 0.0, DRIVEN: float(motions[k](jnp.asarray(TIME)))}.get(kind) for k, kind in enumerate(kinds)]
    return np.array([rng.uniform(-spread, spread) if x is None else x for x in known])


def pose_of(r, a):
    return spatial.Body.pose(spatial.coordinates(r, a))


def poses_of(x, theta, rng):
    """Pose of body i, drawn, and that of j from the geometry, with SciPy's rotations."""
    turn = Rotation.random(rng=rng).as_matrix()
    r = rng.normal(size=3)
    relative = FRAME_I @ Rotation.from_euler("XYZ", theta).as_matrix() @ FRAME_J.T
    end = r + turn @ (np.array(POINT_I) + FRAME_I @ x)
    return pose_of(r, turn), pose_of(end - turn @ relative @ POINT_J, turn @ relative)


def derivatives(joint, i, j, t):
    """Φ, its derivative by the velocities of both bodies and by time, and the same by differences."""
    q = [spatial.Body.coordinates_of(pose) for pose in (i, j)]

    def residual(d):
        moved = [spatial.Body.pose(x + Poses.rate(x, part)) for x, part in zip(q, (d[:6], d[6:12]), strict=True)]
        return joint.residual(*moved, t + d[12])

    h, here = 1e-5, jnp.zeros(13)
    shifted = [jax.vmap(residual)(x * jnp.eye(13)) for x in (h, -h)]
    return residual(here), jax.jacfwd(residual)(here), (shifted[0] - shifted[1]).T / (2 * h)


@mbs.program
def everything(joint, i, j, t, twist, own, rate):
    """All that follows from a pose of j on i, for coordinates and rates of the joint's `mobility`."""
    mobility = joint.mobility
    given = mobility.given(t)
    here = FrameMotion(i, i.r, twist, jnp.zeros(6))
    carried, columns = mobility.carry(here, own, rate, given)
    again = mobility.place(i, mobility.measure(i, j, given, twice=True), given)
    return {
        "Φ": derivatives(joint, i, j, t),
        "pose": (carried.pose.r, carried.pose.a),
        "again": (again.r, again.a, again.p),
        "v": jnp.concatenate([joint_space.body_velocity(m, m.twist) for m in (here, carried)]),
        "columns": columns,
        "lets go": jax.vmap(lambda column: joint_space.body_velocity(carried, column), 1, 1)(columns),
    }


def own_coordinates(translations, angles, x, theta):
    """Those of the joint's `mobility`, with every turn counted."""
    slides = [x[k] for k in ALL if translations[k] == FREE]
    turns = [theta[k] for k in ALL if angles[k] == FREE]
    if len(turns) == 3:
        frame = rotation.from_matrix(FRAME_I)
        turns = rotation.product(
            rotation.product(frame, rotation.from_angles(jnp.array(turns))), rotation.inverse(frame)
        )
    return jnp.array([*slides, *turns])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("k", [k if k in QUICK else pytest.param(k, marks=pytest.mark.slow) for k in range(27)])
def test_every_combination(k):
    """Φ = 0 where the geometry says so; as many independent rows as there are, by differences as well; `mobility` leads to
    the same poses, along Φ_q v + Φ_t = 0, and all that Φ lets go."""
    angles, translations = COMBINATIONS[k], COMBINATIONS[7 * k % 27]
    joint, rng = joint_of(translations, angles), np.random.default_rng(k)
    joint.check()
    assert joint.rows == 6 - joint.freedom == 6 - [*translations, *angles].count(FREE)
    assert len(joint.mobility.velocities) == joint.freedom
    given = []
    for _ in range(SAMPLES):
        x, theta = drawn(translations, rng, 2.0), drawn(angles, rng, 9.0, MOTIONS[::-1])
        own, rate = own_coordinates(translations, angles, x, theta), rng.normal(size=joint.freedom)
        given.append((*poses_of(x, theta, rng), TIME, rng.normal(size=6), own, rate))
    given = jax.tree.map(lambda *xs: jnp.stack([jnp.asarray(x) for x in xs]), *given)
    found = jax.vmap(lambda *args: everything(joint, *args))(*given)

    phi, phi_q, slopes = found["Φ"]
    assert size(phi) < 1e-14
    assert size(phi_q - slopes) < 1e-9
    assert np.linalg.svd(phi_q[..., :12], compute_uv=False).min(initial=1.0) > 0.1
    j = given[1]
    for r, a in (found["pose"], found["again"][:2]):
        assert size(r - j.r) < 1e-13
        assert size(a - j.a) < 1e-13
    if FREE in angles:
        assert size(found["again"][2] - j.p) < 1e-13
    assert size(jnp.einsum("sij,sj->si", phi_q[..., :12], found["v"]) + phi_q[..., 12]) < 1e-12
    assert size(phi_q[..., 6:12] @ found["lets go"]) < 1e-13
    assert np.linalg.svd(found["columns"], compute_uv=False).min(initial=1.0) > 0.01


@pytest.mark.parametrize("held", ALL)
def test_one_held_angle(held):
    """Its row changes with it by cos θ₂ where the two others are free, so its multiplier times that is the torque of it."""
    angles = tuple(DRIVEN if k == held else FREE for k in ALL)
    joint, t, rng = joint_of((FREE,) * 3, angles), jnp.asarray(TIME), np.random.default_rng(held)
    theta = drawn(angles, rng, 1.2, MOTIONS[::-1])
    of_angle = lambda x: joint.turn_rows(rotation.from_angles(jnp.asarray(theta).at[held].set(x)), t)[0]
    assert abs(jax.grad(of_angle)(theta[held]) - np.cos(theta[1])) < 1e-14
    # Through any number of turns it stays zero and has no jump.
    for k in ALL:
        if k != held:
            rows = [
                joint.turn_rows(rotation.from_angles(jnp.asarray(theta).at[k].set(x)), t)[0] for x in np.arange(9.0)
            ]
            assert size(rows) < 1e-15


@pytest.mark.parametrize("angles", COMBINATIONS[1::6])
def test_derivatives_where_everything_is_zero(angles):
    still = [motion.Polynomial([0.0, 1.0])] * 3
    joint = spatial.RelativeJoint("a", "b", position=(FIXED,) * 3, orientation=components(angles, still))
    ground = spatial.Body.pose(spatial.Body.ground(float))
    phi, phi_q, _ = mbs.program(derivatives)(joint, ground, ground, jnp.zeros(()))
    assert not phi.any()
    assert np.linalg.svd(phi_q[:, :12], compute_uv=False)[-1] > 0.5
    np.testing.assert_array_equal(
        phi_q[:, 12], [0, 0, 0, *(-1.0 * (kind == DRIVEN) for kind in angles if kind != FREE)]
    )


PAIRS = {
    "Revolute": ((FIXED,) * 3, (FIXED, FIXED, FREE)),
    "Universal": ((FIXED,) * 3, (FREE, FREE, FIXED)),
    "Prismatic": ((FIXED, FIXED, FREE), (FIXED,) * 3),
    "Cylindrical": ((FIXED, FIXED, FREE), (FIXED, FIXED, FREE)),
    "Spherical": ((FIXED,) * 3, (FREE,) * 3),
    "Rigid": ((FIXED,) * 3, (FIXED,) * 3),
}


@pytest.mark.parametrize("name", PAIRS)
def test_kinds_of_joints(name):
    """Those that have a name of their own: the same accelerations and the same force of the joint."""
    translations, angles = PAIRS[name]
    if name == "Universal":
        named = spatial.Universal("ground", "b", POINT_I, POINT_J, FRAME_I[:, 0], FRAME_J[:, 1])
    else:
        named = getattr(spatial, name)("ground", "b", POINT_I, POINT_J, frame_i=FRAME_I, frame_j=FRAME_J)
    relative = joint_of(translations, angles, "ground")
    rng = np.random.default_rng(1)
    x, theta = drawn(translations, rng, 1.0), drawn(angles, rng, 4.0)
    own, rate = own_coordinates(translations, angles, x, theta), jnp.asarray(rng.normal(size=relative.freedom))
    body = mechanisms.random_body(rng, 3)
    mechs = [
        mbs.Mechanism({"b": body}, {"J": joint}, forces={"g": mbs.Gravity((1, 2, -9))}) for joint in (relative, named)
    ]

    @mbs.program
    def moving(mechs, own, rate):
        ground = spatial.Body.pose(spatial.Body.ground(own.dtype))
        still = jnp.zeros(6, own.dtype)
        carried, _ = mechs[0].constraints["J"].mobility.carry(FrameMotion(ground, ground.r, still, still), own, rate)
        q, v = spatial.Body.coordinates_of(carried.pose), joint_space.body_velocity(carried, carried.twist)
        return [in_motion(mbs.Augmented(), mech, q, v) for mech in mechs]

    one, two = moving(mechs, own, rate)
    check_same(one, two)


def in_motion(formulation, mech, q, v, t=0.0):
    """Velocities and accelerations of the bodies, and the generalized force of each joint, a row each."""
    equations, t = formulation.equations(mech), jnp.asarray(t, q.dtype)
    x, u = equations.from_bodies(q, v, t)
    a, *_ = equations.accelerations(x, u, t)
    at, v, a = equations.to_bodies(x, u, a, t)
    phi_q, multipliers = mbs.constraint_jacobian(mech, at, t), equations.multipliers(x, u, t)
    forces = [phi_q[rows].T @ multipliers[rows] for rows in mech.layout.row_slices.values()]
    return mech.layout.difference(q, at), v, a, jnp.stack(forces)


def check_same(found, expected):
    """Of `in_motion`: states to 1e-11, accelerations and forces to 1e-9, each relative to the largest."""
    for got, wanted, limit in zip(found, expected, (1e-11, 1e-11, 1e-9, 1e-9), strict=True):
        assert size(got - wanted) < limit * max(1, size(wanted))


# Kinds of translations and of angles of each joint, from the ground on.
CHAINS = {
    "short": [("fixed driven free", "driven free fixed")],
    "driven": [("fixed fixed driven", "free driven fixed"), ("fixed fixed fixed", "driven free free")],
    "known": [("driven fixed free", "driven fixed driven"), ("fixed fixed fixed", "free fixed free")],
    "angles": [
        ("fixed fixed fixed", "free driven free"),
        ("fixed free driven", "free free driven"),
        ("fixed fixed fixed", "driven fixed fixed"),
    ],
    "balls": [
        ("fixed driven fixed", "free free free"),
        ("fixed fixed free", "fixed driven free"),
        ("driven driven driven", "driven driven driven"),
        ("fixed fixed fixed", "fixed fixed driven"),
    ],
}


@pytest.mark.parametrize(
    "name", [name if name == "short" else pytest.param(name, marks=pytest.mark.slow) for name in CHAINS]
)
def test_open_chains(name):
    """Augmented, JointCoordinates, Kane and Natural: accelerations and what joints do, to 1e-9; one angle beyond π/2."""
    rng, bodies, joints = np.random.default_rng(3), {}, {}
    carrier, pose, parts = "ground", spatial.Body.pose(spatial.Body.ground(float)), []
    for k, kinds in enumerate(CHAINS[name]):
        translations, angles = (words.split() for words in kinds)
        # The second joint is declared from the far end.
        backwards, child = k == 1, f"b{k}"
        frames = [Rotation.random(rng=rng).as_matrix() for _ in range(2)]
        ends = (child, carrier) if backwards else (carrier, child)
        joint = joint_of(translations, angles, *ends, frame_i=frames[0], frame_j=frames[1])
        bodies[child], joints[f"J{k}"] = mechanisms.random_body(rng, 3), joint
        given = joint.mobility.given(jnp.zeros(()))
        theta = jnp.asarray(rng.uniform(-1, 1, len(joint.mobility.coordinates)))
        theta = theta / jnp.sqrt(theta @ theta) if angles == [FREE] * 3 else 2.2 * theta
        pose, carrier = joint.mobility.place(pose, theta, given, reverse=backwards), child
        parts.append(spatial.Body.coordinates_of(pose))
    mech = mbs.Mechanism(
        bodies,
        joints,
        forces={
            "g": mbs.Gravity((1, 2, -9)),
            "T": mbs.Torque(carrier, (0.3, 1, -2)),
            "s": mbs.Spring("ground", carrier, stiffness=9.0),
        },
    )
    q = jnp.concatenate(parts)
    assert size(mbs.constraints(mech, q)) < 1e-13
    v = mechanisms.random_velocity(rng, mech, q)
    one = lambda formulation: mbs.program(lambda mech, q, v: in_motion(formulation, mech, q, v), limit=10**6)(
        mech, q, v
    )
    wanted = one(mbs.Augmented())
    for formulation in (mbs.JointCoordinates(), mbs.Kane(), mbs.Natural()):
        check_same(one(formulation), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("held", ALL)
def test_turns_in_time(held):
    """A body that tumbles on a joint with one prescribed angle, the two others through several turns, in known coordinates
    and with multipliers."""
    angles = tuple(motion.Harmonic(0.5, 2.0, 0.3) if k == held else FREE for k in ALL)
    joint = spatial.RelativeJoint(
        "ground", "b", POINT_I, POINT_J, (FIXED,) * 3, angles, frame_i=FRAME_I, frame_j=FRAME_J
    )
    body = mechanisms.random_body(np.random.default_rng(2), 3)
    mech = mbs.Mechanism({"b": body}, {"J": joint}, forces={"g": mbs.Gravity((1, 2, -9))})
    mobility, t = joint.mobility, jnp.zeros(())
    ground = spatial.Body.pose(spatial.Body.ground(float))
    here, start = FrameMotion(ground, ground.r, jnp.zeros(6), jnp.zeros(6)), jnp.array([0.3, -0.4])
    carried, _ = mobility.carry(here, start, jnp.array([6.0, 5.0]), mobility.given(t))
    q, v = spatial.Body.coordinates_of(carried.pose), joint_space.body_velocity(carried, carried.twist)
    times = np.linspace(0, 2, 41)
    runs = [
        mbs.simulate(mech, times, q, v, step=5e-4, formulation=f)
        for f in (mbs.Kane(), mbs.JointCoordinates(), mbs.Augmented())
    ]
    for run in runs:
        assert not run.status.any()
        assert size(run.q - runs[-1].q) < 1e-8
        # The same reactions, beyond a right angle as well.
        found = [mbs.reactions(mech, run, formulation=f)["J"].components for f in (mbs.Kane(), mbs.Augmented())]
        assert size(found[0] - found[1]) < 1e-9 * size(found[1])
    a = np.einsum("ij,tjk,kl->til", FRAME_I.T, runs[0].rotation("b"), FRAME_J)
    # θ₂, or θ₁ where that is held, goes beyond a right angle.
    cosines = a[:, 2, 2] if held < 2 else a[:, 0, 0]
    assert cosines.min() < -0.3 < 0.9 < cosines.max()


@pytest.mark.slow
def test_reactions_of_a_motor():
    """Efforts of prescribed components do their work; multipliers of translations are the force in the joint frame."""
    joint = joint_of((FIXED, DRIVEN, FIXED), (FREE, DRIVEN, FREE), "ground")
    rng = np.random.default_rng(5)
    mech = mbs.Mechanism({"b": mechanisms.random_body(rng, 3)}, {"J": joint}, forces={"g": mbs.Gravity((1, 2, -9))})
    mobility = joint.mobility
    q = spatial.Body.coordinates_of(
        mobility.place(
            spatial.Body.pose(spatial.Body.ground(float)), jnp.array([0.4, -0.8]), mobility.given(jnp.zeros(()))
        )
    )
    times = np.linspace(0, 0.3, 7)
    run = mbs.simulate(mech, times, q, mechanisms.random_velocity(rng, mech, q), step=0.01)
    found = mbs.reactions(mech, run)["J"]
    np.testing.assert_allclose(found.multipliers[:, :3], found.components[:, :3], rtol=0, atol=1e-10)
    rates = np.stack([jax.vmap(jax.grad(m))(times) for m in joint.motions], axis=1)
    energy = lambda q, v: mbs.energy(mech, q, v).total
    change = lambda q, v, a: jax.jvp(energy, (q, v), (mech.layout.rate(q, v), a))[1]
    np.testing.assert_allclose(np.sum(found.effort * rates, axis=1), jax.vmap(change)(run.q, run.v, run.a), atol=1e-9)
    # The generalized torque of the held angle is that about its axis.
    theta_1 = mobility.measure(
        *(mech.layout.pose(name, run.q[3]) for name in ("ground", "b")), mobility.given(times[3])
    )[0]
    axis = FRAME_I @ [0, np.cos(theta_1), np.sin(theta_1)]
    assert abs(found.torque[3] @ axis - found.effort[3, 1]) < 1e-10


BAD = {
    "position must have three components, got 2": {"position": (FREE, FIXED)},
    "orientation must have three components, got 4": {"orientation": FREE},
    r"a component is 'free', 'fixed' or a motion, got 'held' as orientation\[1\]": {
        "orientation": (FREE, "held", FIXED)
    },
    r"got 'None' as position\[0\]": {"position": (None, FREE, FREE)},
    "orientation: rate must be finite": {"orientation": (FREE, FREE, motion.Ramp(np.nan))},
    "axis_i and frame_i exclude each other": {"axis_i": (0, 0, 1.0), "frame_i": FRAME_I},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input(message):
    with pytest.raises(ValueError, match=message):
        mbs.Mechanism({"b": spatial.Body()}, {"J": spatial.RelativeJoint("ground", "b", **BAD[message])})


def test_the_old_names_of_position_and_orientation_are_deprecated():
    kinds = components((FREE, FIXED, DRIVEN)), (FREE, FREE, FIXED)
    with pytest.warns(DeprecationWarning, match="deprecated: write") as given:
        old = spatial.RelativeJoint("a", "b", translations=kinds[0], angles=kinds[1])
    assert [warning.filename for warning in given] == [__file__] * 2
    assert eqx.tree_equal(old, spatial.RelativeJoint("a", "b", position=kinds[0], orientation=kinds[1]))
    with pytest.warns(DeprecationWarning, match="write orientation") as read:
        assert old.angles == old.orientation
    assert read[0].filename == __file__
