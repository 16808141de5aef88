"""Chains, motions and checks of tests of Kane's equations; balances by Newton and Euler."""

from types import SimpleNamespace

import jax
import numpy as np
from scipy.spatial.transform import Rotation

import jaxmbs as mbs
from jaxmbs import planar, spatial
from jaxmbs.motion import Harmonic, Polynomial, Ramp
from norms import size
from random_mechanisms import random_body

GROUND = "ground"
# The formulation by Kane, with its default options.
KANE = mbs.Kane()
# Unit vectors of the axes.
X, Y, Z = np.eye(3)
# Number of the status of a singular state.
SINGULAR = int(mbs.Status.SINGULAR)
# Number of the status of success.
CONVERGED = int(mbs.Status.CONVERGED)


def close(found, expected, tolerance, of=None):
    """Fail unless arrays are equal within `tolerance` times the largest value of `of` or `expected`, at least 1."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    largest = max(1.0, size(expected if of is None else of))
    assert size(found - expected) < tolerance * largest, (size(found - expected), largest)


def turned(angles):
    """Return the rotation matrix of body-fixed angles 1-2-3, by scipy."""
    return Rotation.from_euler("XYZ", angles).as_matrix()


def named(mech, vector):
    """Return the entries of a vector, or of rows, by the names of `Kane().of(mech)`."""
    return dict(zip(mbs.Kane().of(mech).names, np.moveaxis(np.asarray(vector), -1, 0), strict=True))


def in_motion(mech, run, name):
    """Return origin, axes and mass centre of a body, its acceleration, and the rate of the momentum about it."""
    body, at = mech.bodies[name], run.layout.body_slices[name]
    speeds = run.layout.velocity_slices[name]
    q, v, a = (np.asarray(x)[:, k] for x, k in ((run.q, at), (run.v, speeds), (run.a, speeds)))
    turn = Rotation.from_quat(np.roll(q[:, 3:], -1, axis=1)).as_matrix()
    w, alpha, com, inertia = v[:, 3:], a[:, 3:], np.asarray(body.com), np.asarray(body.inertia)
    local = np.cross(alpha, com) + np.cross(w, np.cross(w, com))
    momentum_rate = alpha @ inertia + np.cross(w, w @ inertia)
    to_ground = lambda x: np.einsum("tij,tj->ti", turn, x)
    centre = q[:, :3] + turn @ com
    return SimpleNamespace(
        origin=q[:, :3], turn=turn, centre=centre, a=a[:, :3] + to_ground(local), momentum_rate=to_ground(momentum_rate)
    )


def needed(mech, run, outboard, point):
    """Return the force, and the moment about a point, that bodies need for their motion beside their weight."""
    force, moment = np.zeros_like(point), np.zeros_like(point)
    for name in outboard:
        moving = in_motion(mech, run, name)
        own = mech.bodies[name].mass * (moving.a - np.asarray(mech.forces["gravity"].acceleration))
        force += own
        moment += moving.momentum_rate + np.cross(moving.centre - point, own)
    return force, moment


def links(count, seed):
    """Return this many random bodies called "a", "b", "c"."""
    rng = np.random.default_rng(seed)
    return dict(zip("abc", (random_body(rng, 3) for _ in range(count)), strict=False))


# Gravity in an oblique direction, as forces of a mechanism.
WEIGHT = {"gravity": mbs.Gravity((1.0, -2.0, -9.0))}


def turning_joints():
    """Return a hinge about x, a universal and a spherical joint in a row, with points off the bodies' origins."""
    return mbs.Mechanism(
        links(3, 21),
        {
            "hinge": spatial.Revolute(GROUND, "a", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1), X),
            "cross": spatial.Universal("a", "b", (0.3, 0.1, 0.0), (-0.2, 0.0, 0.2)),
            "ball": spatial.Spherical("b", "c", (0.2, 0.1, 0.1), (0.1, -0.3, 0.0)),
        },
        forces=WEIGHT,
    )


# Prescribed motion of drivers: an angle in rad, or a displacement.
SWING = Harmonic(0.7, 3.0, 0.4, 0.2)


def check_specified(mech, run):
    """Fail unless Φ = 0, Φ_q v = ν and Φ_q v̇ = γ for all joints and drivers of a motion."""
    assert not run.status.any()

    @mbs.program
    def gaps(q, v, a, t):
        """Return the residuals Φ, Φ_q v − ν and Φ_q v̇ − γ."""
        jacobian = mbs.constraint_jacobian(mech, q, t)
        rates = jacobian @ v - mbs.velocity_rhs(mech, q, t), jacobian @ a - mbs.acceleration_rhs(mech, q, v, t)
        return mbs.constraints(mech, q, t), *rates

    for gap, of in zip(jax.vmap(gaps)(run.q, run.v, run.a, run.t), (run.q, run.v, run.a), strict=True):
        assert size(gap) < 1e-10 * max(1, size(of))


def check_driven(mech, run, tolerance=1e-9):
    """Return the reactions by `Kane`; fail unless `check_specified` holds and they are those of `Augmented`."""
    check_specified(mech, run)
    found, expected = (mbs.reactions(mech, run, formulation=f) for f in (KANE, None))
    for name in found:
        for part in ("force", "torque", "effort"):
            if getattr(expected[name], part) is not None:
                close(getattr(found[name], part), getattr(expected[name], part), tolerance)
    return found


# Times at which specified motions are checked.
TIMES = np.linspace(0.1, 1.1, 5)
# Prescribed angle of the first hinge of a double pendulum.
FIRST = Harmonic(0.8, 3.0, 0.3, -0.5)
# Prescribed angle of the second hinge of a double pendulum.
SECOND = Polynomial((0.3, -1.0, 0.7, 0.4))


def planar_double_pendulum(drivers):
    """Return a double pendulum of the plane with these drivers."""
    a, b = planar.Body(1.3, 0.2, (0.4, 0)), planar.Body(0.9, 0.15, (0.3, 0))
    return mbs.Mechanism(
        {"a": a, "b": b},
        {
            "O": planar.Revolute(GROUND, "a", (0, 0), (0, 0)),
            "A": planar.Revolute("a", "b", (0.7, 0), (0, 0)),
        },
        drivers,
        {"gravity": mbs.Gravity((0, -9.81))},
    )


def hinge(**axes):
    """Return a hinge between the ground and body "a" with these axes or frames."""
    return spatial.Revolute(GROUND, "a", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1), **axes)


def turner(i, j, **axes):
    """Return a driver of the angle of `hinge`, counted from i to j, with these axes and this motion."""
    return spatial.RevoluteDriver(i, j, **axes)


# Axis in an oblique direction, not of length 1.
OBLIQUE = np.array([1.0, 2.0, -0.5])
# Prescribed angle of 50 rad/s, many turns in the times of the tests.
MANY = Ramp(50.0, -1.0)
