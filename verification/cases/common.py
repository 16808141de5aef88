"""Functions that several cases share."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from verification.case import Comparison, below

# One object of each formulation, to run a case in all of them.
FORMULATIONS = (mbs.Augmented(), mbs.JointCoordinates(), mbs.Natural(), mbs.Kane())


def from_zero(times):
    """Return output times with 0 put before them, where the motion starts."""
    return np.append(0.0, times)


def gap(mech, run) -> Comparison:
    """Check that the largest |Φ| of a motion is at most 1e-12."""
    at = jax.jit(jax.vmap(lambda q, t: jnp.max(jnp.abs(mbs.constraints(mech, q, t)))))
    return below("gap in the joints", at(run.q, run.t), 1e-12)


def compare_with_start(quantity, values, tolerance, unit="J") -> Comparison:
    """Compare values over time with the first of them."""
    return below(quantity, np.asarray(values) - np.asarray(values)[:1], tolerance, unit)


def in_ground(run, body, vectors):
    """Return vectors (3,) or (T, 3) of a body's frame in the ground frame over time, (T, 3); also ω̇, as ω × ω = 0."""
    return np.einsum("tij,tj->ti", run.rotation(body), vectors)


def spin(run, body):
    """Return the angular velocity of a body in the ground frame, (T, 3)."""
    return in_ground(run, body, run.v[:, run.layout.velocity_slices[body]][:, 3:])


def angular_momentum(mech, run):
    """Return the angular momentum of all bodies about the origin, in the ground frame, (T, 3)."""

    def at(q, v):
        """Return the angular momentum about the origin for one state."""
        total = jnp.zeros(3)
        for name, body in mech.bodies.items():
            pose = mech.layout.pose(name, q)
            momentum = body.mass_matrix(pose) @ v[mech.layout.velocity_slices[name]]
            total += jnp.cross(pose.r, momentum[:3]) + pose.direction(momentum[3:])
        return total

    return np.asarray(jax.jit(jax.vmap(at))(run.q, run.v))


def up_to_sign(parameters, wanted):
    """Return Euler parameters with the sign of those wanted; both signs are the same rotation."""
    parameters, wanted = np.asarray(parameters), np.asarray(wanted)
    return parameters * np.sign(np.sum(parameters * wanted, axis=1, keepdims=True))
