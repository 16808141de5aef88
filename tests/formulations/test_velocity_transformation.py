"""The velocity transformation: identities on random trees."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
import random_mechanisms as mechanisms
from jaxmbs import planar
from jaxmbs.formulations.joint.space import joint_space
from norms import size

GROUND = "ground"


SAMPLES = 10
# Those that always run, of few bodies; all kinds come up in the slow ones.
QUICK = {
    "plane": (2, 4, {}),
    "pairs": (3, 3, {"kinds": ("Revolute", "Prismatic", "Cylindrical", "Planar", "Screw", "Rigid")}),
    "turns": (3, 2, {"kinds": ("Universal", "Spherical", "ConstantVelocity", "TotalJoint"), "shuffled": True}),
}
STRUCTURES = [
    *(
        pytest.param(k, *case, id=name, marks=[pytest.mark.slow] * (name == "pairs"))
        for k, (name, case) in enumerate(QUICK.items())
    ),
    *(
        pytest.param(
            10 + k,
            2 if k % 4 == 0 else 3,
            4 + k % 3,
            {"floating": k % 3 == 0, "branching": (0.3, 0.8)[k % 2], "shuffled": k % 2 == 1},
            marks=pytest.mark.slow,
        )
        for k in range(20)
    ),
]


def at_rest(mech, theta):
    """Quantities that follow from θ alone."""
    joints, natural = mbs.JointCoordinates().of(mech), mbs.Natural().of(mech)
    q = joints.configuration(theta)
    x = natural.coordinates(q)
    return {
        "q": q,
        "Φ": mbs.constraints(mech, q),
        "Ψ": natural.constraints(x, near=q),
        "Φ_q": mbs.constraint_jacobian(mech, q),
        "Ψ_x": natural.constraint_jacobian(x, near=q),
        "R": mbs.velocity_transformation(mech, theta),
        "R of x": mbs.velocity_transformation(mech, theta, coordinates="natural"),
        "θ": joints.coordinates(q),
    }


def in_motion(mech, theta, rate):
    """Quantities that follow from θ and θ̇."""
    joints = mbs.JointCoordinates().of(mech)
    q, q_dot = jax.jvp(joints.configuration, (theta,), (joints.rate(theta, rate),))
    v = mbs.velocity_transformation(mech, theta) @ rate
    return {
        "q̇": q_dot,
        "R θ̇ as q̇": mech.layout.rate(q, v),
        "ẋ": mbs.Natural().of(mech).velocities(q, v),
        "Ṙ": mbs.velocity_transformation_rate(mech, theta, rate),
        "Ṙ of x": mbs.velocity_transformation_rate(mech, theta, rate, coordinates="natural"),
        "θ̇": joints.velocities(q, v),
    }


@pytest.mark.parametrize(("seed", "dimension", "bodies", "options"), STRUCTURES)
def test_random_trees(seed, dimension, bodies, options):
    """Φ_q R = 0 and Ψ_x R = 0 to 1e-12; q̇ = R θ̇ to 1e-10, by derivatives and by differences; Ṙ to 1e-9 by differences;
    θ(q(θ)) = θ and the same of rates; R has its blocks where π* has numbers."""
    rng = np.random.default_rng(seed)
    structure = mechanisms.tree_structure(np.random.default_rng(seed), bodies, dimension=dimension, **options)
    drawn = [mechanisms.draw(rng, structure) for _ in range(SAMPLES)]
    mechs, first = mechanisms.stacked([mech for mech, _ in drawn]), drawn[0][0]
    space = joint_space(first)
    theta = jax.vmap(space.normalised)(jnp.asarray(rng.uniform(-1.3, 1.3, (SAMPLES, space.n))))
    rate = jnp.asarray(rng.uniform(-1, 1, (SAMPLES, space.m)))

    still = jax.jit(jax.vmap(mbs.program(at_rest)))
    found = jax.tree.map(np.asarray, still(mechs, theta))
    moving = jax.tree.map(np.asarray, jax.jit(jax.vmap(mbs.program(in_motion)))(mechs, theta, rate))
    step = 2e-3
    shifted = [
        jax.tree.map(np.asarray, still(mechs, jax.vmap(space.retract)(theta, k * step * rate))) for k in (-2, -1, 1, 2)
    ]
    slope = lambda key: sum(w * x[key] for w, x in zip((1, -8, 8, -1), shifted, strict=True)) / (12 * step)

    assert size(found["Φ"]) < 1e-13
    assert size(found["Ψ"]) < 1e-13
    for jacobian, transformation in (("Φ_q", "R"), ("Ψ_x", "R of x")):
        product = found[jacobian] @ found[transformation]
        assert size(product) < 1e-12 * max(1, size(found[jacobian])) * max(1, size(found[transformation]))
    scale = max(1, size(moving["q̇"]))
    assert size(moving["q̇"] - moving["R θ̇ as q̇"]) < 1e-10 * scale
    assert size(moving["q̇"] - slope("q")) < 1e-10 * scale
    of_x = np.einsum("sij,sj->si", found["R of x"], rate)
    assert size(moving["ẋ"] - of_x) < 1e-12 * max(1, size(of_x))
    for transformation, its_rate in (("R", "Ṙ"), ("R of x", "Ṙ of x")):
        assert size(moving[its_rate] - slope(transformation)) < 1e-9 * max(1, size(moving[its_rate]))

    assert size(moving["θ̇"] - rate) < 1e-10
    # But for Euler parameters, of which p and −p are the same.
    assert size(jax.vmap(space.difference)(theta, jnp.asarray(found["θ"]))) < 1e-11

    secondary, tree = mbs.topology.secondary_path_matrix(first), space.tree
    for k, body in enumerate(tree.bodies):
        rows = found["R"][:, first.layout.velocity_slices[body]]
        for edge, columns in enumerate(space.velocity_slices):
            if columns.stop > columns.start:
                block = np.abs(rows[:, :, columns]).max(axis=(1, 2))
                assert np.all(block > 1e-3) if secondary[k, edge] else np.all(block == 0)


def and_back(mech, q, v, near=None):
    """The gaps of q(θ(q)) = q, turns of the plane not counted unless `near` tells them, and of R θ̇(q, v) = v."""
    joints = mbs.JointCoordinates().of(mech)
    theta = joints.coordinates(q)
    gap = mech.layout.difference(q, joints.configuration(theta, near=near))
    if near is None:
        gap = jnp.where(mech.layout.angular, gap - 2 * jnp.pi * jnp.round(gap / (2 * jnp.pi)), gap)
    return gap, mbs.velocity_transformation(mech, theta, near=near) @ joints.velocities(q, v) - v


@pytest.mark.parametrize(
    ("dimension", "kinds"),
    [
        (2, ("Revolute", "RevoluteTranslational")),
        (3, ("Revolute", "Prismatic", "Universal", "Spherical")),
        pytest.param(3, ("Screw", "ConstantVelocity", "Cylindrical", "Planar"), marks=pytest.mark.slow),
    ],
)
def test_configurations_of_bodies_and_back(dimension, kinds):
    """q(θ(q)) = q and R θ̇(q, v) = v for states of the bodies that satisfy the joints."""
    rng = np.random.default_rng(5)
    drawn = (
        mechanisms.tree_structure(np.random.default_rng(seed), max(3, len(kinds)), kinds, dimension=dimension)
        for seed in itertools.count()
    )
    structure = next(tree for tree in drawn if {joint.kind for joint in tree.joints} == set(kinds))
    there_and_back = mbs.program(and_back)
    for _ in range(SAMPLES):
        mech, q = mechanisms.draw(rng, structure)
        v = mechanisms.random_velocity(rng, mech, q)
        of_q, of_v = there_and_back(mech, q, v)
        assert size(of_q) < 1e-12
        assert size(of_v) < 1e-11 * max(1, size(v))


@pytest.mark.parametrize("sense", [1, -1])
def test_a_slide_of_the_plane_and_back(sense):
    """The same for a slide whose axes are assembled in the same sense, or in opposite ones, which its equations allow."""
    body = planar.Body(1.0, 0.1)
    pin = planar.Revolute(GROUND, "a", (0, 0), (-0.5, 0))
    rail = planar.Translational("a", "b", (0, 0), (0, 0.2), (1, 0), (sense, 0))
    mech = mbs.Mechanism({"a": body, "b": body}, {"O": pin, "rail": rail})
    # Two turns more, which the equations do not notice.
    q = np.array([0.5, 0, 0, 0.9, -0.2, 4 * np.pi])
    assert size(mbs.constraints(mech, q)) < 1e-15
    v = mechanisms.random_velocity(np.random.default_rng(0), mech, q)
    of_q, of_v = and_back(mech, q, v, near=q)
    assert size(of_q) < 1e-12
    assert size(of_v) < 1e-12
