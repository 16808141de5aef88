"""The total joint: six components, free, fixed or prescribed in time, and its reactions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxmbs as mbs
from jaxmbs import motion, spatial
from jaxmbs.spatial.total import euler_vector

MASS, COM = 2.0, np.array([0.1, -0.2, 0.05])
INERTIA = np.array([[0.3, 0.02, -0.01], [0.02, 0.25, 0.03], [-0.01, 0.03, 0.2]])
POINT_I, POINT_J = np.array([0.1, 0.2, 0.3]), np.array([0.3, 0.1, -0.2])
FRAME_I, FRAME_J = (Rotation.from_rotvec(x).as_matrix() for x in ([0.3, -0.4, 0.5], [-0.2, 0.1, 0.7]))
G = np.array([0, 0, -9.81])
HELIX = (motion.Harmonic(1.0, 3.0, np.pi / 2), motion.Harmonic(1.0, 3.0), motion.Ramp(0.2))
ORIENTATIONS = {
    "spinning": ("fixed", "fixed", motion.Ramp(5.0)),
    "tumbling": (motion.Harmonic(0.5, 2.0), motion.Ramp(1.5, 0.2), motion.Harmonic(0.3, 3.0, 1.0)),
}
TIMES = np.linspace(0.05, 6, 25)


def expected_pose(orientation, t):
    """Origin and axes of the body from the definition: Rodrigues' formula in full."""
    theta = jnp.stack([0.0 * t if c == "fixed" else c(t) for c in orientation])
    phi = jnp.sqrt(theta @ theta + 1e-300)
    u = jnp.array([[0, -1, 0], [1, 0, 0], [0, 0, 0.0]]) * theta[2] / phi
    u += jnp.array([[0, 0, 1], [0, 0, 0], [-1, 0, 0.0]]) * theta[1] / phi
    u += jnp.array([[0, 0, 0], [0, 0, -1], [0, 1, 0.0]]) * theta[0] / phi
    turn = jnp.eye(3) + jnp.sin(phi) * u + (1 - jnp.cos(phi)) * u @ u
    a = FRAME_I @ turn @ FRAME_J.T
    return POINT_I + FRAME_I @ jnp.stack([c(t) for c in HELIX]) - a @ POINT_J, a


def newton_euler(orientation, t):
    """Force, and torque about point_j, that the motion needs, by differentiating momentum and angular momentum."""
    rate = lambda f: lambda t: jax.jvp(f, (t,), (jnp.ones_like(t),))[1]
    pose = lambda t: expected_pose(orientation, t)
    centre = lambda t: pose(t)[0] + pose(t)[1] @ COM

    def angular_momentum(t):
        a, a_dot = pose(t)[1], rate(lambda t: pose(t)[1])(t)
        spin = a_dot @ a.T
        return a @ INERTIA @ a.T @ jnp.stack([spin[2, 1], spin[0, 2], spin[1, 0]])

    force = MASS * (rate(rate(centre))(t) - G)
    arm = centre(t) - pose(t)[0] - pose(t)[1] @ POINT_J
    return force, rate(angular_momentum)(t) + jnp.cross(arm, force)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tumbling", pytest.param("spinning", marks=pytest.mark.slow)])
def test_a_body_on_a_helix(name):
    """All six components prescribed, past π many times: positions to 1e-12, multipliers are force and torque to 1e-9."""
    orientation = ORIENTATIONS[name]
    joint = spatial.TotalJoint("ground", "b", POINT_I, POINT_J, HELIX, orientation, frame_i=FRAME_I, frame_j=FRAME_J)
    body = spatial.Body(MASS, INERTIA, COM)
    mech = mbs.Mechanism({"b": body}, {"J": joint}, forces={"weight": mbs.Gravity(G)})
    pose = jax.vmap(lambda t: expected_pose(orientation, t))(TIMES)
    force, torque = jax.vmap(lambda t: newton_euler(orientation, t))(TIMES)
    analysed = mbs.kinematics(mech, TIMES, {"b": spatial.coordinates((1, 0, 0))}, throw=True)
    for run in (analysed, mbs.simulate(mech, TIMES, analysed.q[0], step=1e-2)):
        assert not run.status.any()
        np.testing.assert_allclose(run.point("b"), pose[0], rtol=0, atol=1e-12)
        np.testing.assert_allclose(run.rotation("b"), pose[1], rtol=0, atol=1e-12)
        found = mbs.reactions(mech, run)["J"]
        np.testing.assert_allclose(found.force, force, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found.torque, torque, rtol=0, atol=1e-9)
        components = np.concatenate([force @ FRAME_I, torque @ FRAME_I], axis=1)
        np.testing.assert_allclose(found.multipliers, components, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found.components, components, rtol=0, atol=1e-9)
    # The efforts do the work: Σ effort · Ċ = power that changes the energy.
    motions = joint.motions
    assert found.effort.shape == (len(TIMES), len(motions))
    rates = np.stack([jax.vmap(jax.grad(m))(TIMES) for m in motions], axis=1)
    energy = lambda q, v: mbs.energy(mech, q, v).total
    change = lambda q, v, a: jax.jvp(energy, (q, v), (mech.layout.rate(q, v), a))[1]
    np.testing.assert_allclose(np.sum(found.effort * rates, axis=1), jax.vmap(change)(run.q, run.v, run.a), atol=1e-9)


PAIRS = {
    "Revolute": ("fixed fixed fixed", "fixed fixed free"),
    "Prismatic": ("fixed fixed free", "fixed fixed fixed"),
    "Cylindrical": ("fixed fixed free", "fixed fixed free"),
    "Spherical": ("fixed fixed fixed", "free free free"),
    "Planar": ("free free fixed", "fixed fixed free"),
    "Rigid": ("fixed fixed fixed", "fixed fixed fixed"),
    "Free": ("free free free", "free free free"),
    "ConstantVelocity": ("fixed fixed fixed", "free free fixed"),
}


@pytest.mark.parametrize("name", PAIRS)
def test_lower_pairs_are_total_joints(name):
    """The same constraint: Φ_q of both span the same space."""
    position, orientation = (words.split() for words in PAIRS[name])
    total = spatial.TotalJoint("a", "b", POINT_I, POINT_J, position, orientation, frame_i=FRAME_I, frame_j=FRAME_J)
    pair = getattr(spatial, name)("a", "b", POINT_I, POINT_J, frame_i=FRAME_I, frame_j=FRAME_J)
    assert total.rows == pair.rows
    if not pair.rows:
        return
    bodies = {"a": spatial.Body(), "b": spatial.Body()}
    one, two = (mbs.Mechanism(bodies, {"J": joint}) for joint in (total, pair))
    q = mbs.assemble(one, np.random.default_rng(0).normal(size=14), throw=True).q
    np.testing.assert_allclose(mbs.constraints(two, q), 0, rtol=0, atol=1e-12)
    both = np.concatenate([mbs.constraint_jacobian(mech, q) for mech in (one, two)])
    assert np.linalg.matrix_rank(both, tol=1e-9) == pair.rows


def test_euler_vector_of_a_joint():
    """Components of the orientation as they are prescribed."""
    joint = spatial.TotalJoint("ground", "b", frame_i=FRAME_I, frame_j=FRAME_J)
    mech = mbs.Mechanism({"b": spatial.Body()}, {"J": joint})
    theta = np.array([0.3, -1.2, 2.0])
    turned = FRAME_I @ Rotation.from_rotvec(theta).as_matrix() @ FRAME_J.T
    poses = mech.poses(mech.coordinates({"b": spatial.coordinates((0, 0, 0), turned)}))
    np.testing.assert_allclose(euler_vector(joint, poses["ground"], poses["b"]), theta, rtol=0, atol=1e-14)


def test_numbers_and_functions_are_motions():
    joint = spatial.TotalJoint(
        "ground", "b", position=(0.5, lambda t: t**2, "fixed"), orientation=("fixed", "fixed", 0.3)
    )
    mech = mbs.Mechanism({"b": spatial.Body()}, {"J": joint})
    run = mbs.kinematics(mech, np.array([0.0, 2.0]), None, throw=True)
    np.testing.assert_allclose(run.point("b")[1], [0.5, 4, 0], atol=1e-12)
    np.testing.assert_allclose(run.a[1], [0, 2, 0, 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(run.rotation("b")[1], Rotation.from_rotvec([0, 0, 0.3]).as_matrix(), atol=1e-12)


@pytest.mark.slow
def test_a_mechanism_with_components_of_total_joints_in_a_loop():
    """A crank, driven by an orientation component, moves a slider that a total joint guides: the slider-crank's formula."""
    crank, rod = 0.3, 0.8
    hinge = ("fixed",) * 3
    z = ("fixed", "fixed", "free")
    mech = mbs.Mechanism(
        {name: spatial.Body() for name in ("crank", "rod", "slider")},
        {
            "O": spatial.TotalJoint(
                "ground", "crank", (0, 0, 0), (0, 0, 0), hinge, ("fixed", "fixed", motion.Ramp(2.0))
            ),
            "A": spatial.TotalJoint("crank", "rod", (crank, 0, 0), (0, 0, 0), hinge, z),
            "B": spatial.TotalJoint("rod", "slider", (rod, 0, 0), (0, 0, 0), hinge, ("free",) * 3),
            "guide": spatial.TotalJoint("ground", "slider", position=("free", "fixed", "fixed"), orientation=hinge),
        },
    )
    times = np.linspace(0, np.pi, 20)
    report = mbs.diagnose(
        mech, mbs.assemble(mech, {"rod": (crank, 0, 0, 1, 0, 0, 0), "slider": (1.1, 0, 0, 1, 0, 0, 0)}).q
    )
    # A planar loop in space: the rows out of the plane are redundant.
    assert (report.dof, report.free, report.consistent) == (0, 0, True)
    run = mbs.kinematics(mech, times, {"rod": (crank, 0, 0, 1, 0, 0, 0), "slider": (1.1, 0, 0, 1, 0, 0, 0)})
    assert not run.status.any()
    x = crank * np.cos(2 * times) + np.sqrt(rod**2 - (crank * np.sin(2 * times)) ** 2)
    np.testing.assert_allclose(run.position("slider.x"), x, rtol=0, atol=1e-12)
