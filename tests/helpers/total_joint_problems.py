"""A body on a total joint that moves along a helix, its pose and what it needs; the lower pairs as total joints."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial.transform import Rotation

from jaxmbs import motion

# Mass of the body on a total joint.
MASS = 2.0
# Centre of mass of this body in its frame.
COM = np.array([0.1, -0.2, 0.05])
# Inertia matrix of this body about its centre of mass.
INERTIA = np.array([[0.3, 0.02, -0.01], [0.02, 0.25, 0.03], [-0.01, 0.03, 0.2]])
# Point of the joint on the ground.
POINT_I = np.array([0.1, 0.2, 0.3])
# Point of the joint on the body.
POINT_J = np.array([0.3, 0.1, -0.2])
# Frames of the joint on the ground and on the body.
FRAME_I, FRAME_J = (Rotation.from_rotvec(x).as_matrix() for x in ([0.3, -0.4, 0.5], [-0.2, 0.1, 0.7]))
# Acceleration of gravity (3,).
G = np.array([0, 0, -9.81])
# Prescribed components of the position: a helix about z.
HELIX = (motion.Harmonic(1.0, 3.0, np.pi / 2), motion.Harmonic(1.0, 3.0), motion.Ramp(0.2))
# Prescribed components of the orientation, by name.
ORIENTATIONS = {
    "spinning": ("fixed", "fixed", motion.Ramp(5.0)),
    "tumbling": (motion.Harmonic(0.5, 2.0), motion.Ramp(1.5, 0.2), motion.Harmonic(0.3, 3.0, 1.0)),
}


# Times at which motions are compared.
TIMES = np.linspace(0.05, 6, 25)


def expected_pose(orientation, t):
    """Return origin and axes of the body from the definition: Rodrigues' formula in full."""
    theta = jnp.stack([0.0 * t if c == "fixed" else c(t) for c in orientation])
    phi = jnp.sqrt(theta @ theta + 1e-300)
    u = jnp.array([[0, -1, 0], [1, 0, 0], [0, 0, 0.0]]) * theta[2] / phi
    u += jnp.array([[0, 0, 1], [0, 0, 0], [-1, 0, 0.0]]) * theta[1] / phi
    u += jnp.array([[0, 0, 0], [0, 0, -1], [0, 1, 0.0]]) * theta[0] / phi
    turn = jnp.eye(3) + jnp.sin(phi) * u + (1 - jnp.cos(phi)) * u @ u
    a = FRAME_I @ turn @ FRAME_J.T
    return POINT_I + FRAME_I @ jnp.stack([c(t) for c in HELIX]) - a @ POINT_J, a


def newton_euler(orientation, t):
    """Return the force, and the torque about point_j, that the motion needs, from the rates of both momenta."""
    rate = lambda f: lambda t: jax.jvp(f, (t,), (jnp.ones_like(t),))[1]
    pose = lambda t: expected_pose(orientation, t)
    centre = lambda t: pose(t)[0] + pose(t)[1] @ COM

    def angular_momentum(t):
        """Return the angular momentum about the centre of mass."""
        a, a_dot = pose(t)[1], rate(lambda t: pose(t)[1])(t)
        spin = a_dot @ a.T
        return a @ INERTIA @ a.T @ jnp.stack([spin[2, 1], spin[0, 2], spin[1, 0]])

    force = MASS * (rate(rate(centre))(t) - G)
    arm = centre(t) - pose(t)[0] - pose(t)[1] @ POINT_J
    return force, rate(angular_momentum)(t) + jnp.cross(arm, force)


# Components of position and of orientation that each kind of joint holds or leaves free.
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
