"""The mass matrix and the velocity-dependent terms of bodies, against Lagrange's equations."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from free_bodies import BODIES, COM, INERTIA, MASS, Q, V, close, place
from jaxmbs import planar


def kinetic(q, v):
    """½ m ṙ_c² + ½ J φ̇² of the first body, from the motion of its centre of mass."""
    centre = lambda q: place(jnp.append(q, jnp.zeros(3)), "a", COM)
    velocity = jax.jvp(centre, (q,), (v,))[1]
    return MASS * velocity @ velocity / 2 + INERTIA * v[2] ** 2 / 2


def lagrange(q, v, a):
    """d/dt ∂T/∂v − ∂T/∂q."""
    momentum = lambda q, v: jax.grad(kinetic, 1)(q, v)
    return jax.jvp(momentum, (q, v), (v, a))[1] - jax.grad(kinetic)(q, v)


def test_body_terms_are_those_of_lagrange():
    body = BODIES["a"]

    @jax.jit
    @jax.vmap
    def at(q, v, a):
        pose = body.pose(q)
        mass = body.mass_matrix(pose)
        own = mass, mass @ a - body.velocity_force(pose, v), body.kinetic_energy(pose, v)
        return own, (jax.hessian(kinetic, 1)(q, v), lagrange(q, v, a), kinetic(q, v))

    own, expected = at(Q[:, :3], V[:, :3], Q[:, 3:])
    for a, b in zip(own, expected, strict=True):
        close(a, b)


def test_mass_matrix_of_the_mechanism_stacks_those_of_the_bodies():
    found = mbs.Augmented().of(mbs.Mechanism(BODIES)).mass_matrix(Q[0])
    expected = np.zeros((6, 6))
    expected[:3, :3] = jax.hessian(kinetic, 1)(Q[0, :3], V[0, :3])
    expected[3:, 3:] = np.diag([1.1, 1.1, 0.2])
    close(found, expected)


def described(beta, centre):
    """A pendulum on a spring; its frame is turned by −beta against its axis, with the centre of mass at `centre`."""
    c, s = np.cos(beta), np.sin(beta)
    inside = lambda x, y: (centre[0] + c * x - s * y, centre[1] + s * x + c * y)
    body = planar.Body(1.7, 0.2, None if centre == (0.0, 0.0) else centre)
    mech = mbs.Mechanism(
        {"rod": body},
        {"pin": planar.Revolute("ground", "rod", (0.1, 0.2), inside(-0.5, 0.0))},
        forces={
            "gravity": mbs.Gravity((0, -9.81)),
            "spring": mbs.SpringDamper("ground", "rod", (1, 1), inside(0.5, 0.1), 20.0, 0.5, 0.3),
            "jet": mbs.PointForce("rod", inside(0.5, 0.0), (0.5 * c, 0.5 * s), follower=True),
        },
    )
    angle = 0.3 - beta
    at = np.array([0.1 + 0.5 * np.cos(0.3), 0.2 + 0.5 * np.sin(0.3)])
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    start = {"rod": (*(at - turn @ centre), angle)}
    run = mbs.simulate(mech, np.linspace(0, 1, 6), start, {"rod.phi": 1.5}, step=0.0025, throw=True)
    angles = np.stack([run.position("rod.phi") + beta, run.velocity("rod.phi"), run.acceleration("rod.phi")])
    points = [run.point("rod", centre), run.point_velocity("rod", centre), run.point_acceleration("rod", centre)]
    return angles, np.stack(points), np.stack([run.energy.kinetic, run.energy.potential])


def test_where_the_frame_is_does_not_change_the_motion():
    for found, expected in zip(described(0.8, (0.4, -0.3)), described(0.0, (0.0, 0.0)), strict=True):
        assert np.ptp(expected) > 0.1
        close(found, expected, 1e-9)
