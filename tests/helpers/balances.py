"""Newton's and Euler's equations of the bodies of the plane along a motion, by hand."""

from types import SimpleNamespace

import jax
import numpy as np

import jaxmbs as mbs

# Acceleration of gravity (m/s²).
G = 9.81
# Gravity along −y.
DOWN = mbs.Gravity((0, -G))


def cross(a, b):
    """Return the cross product of plane vectors, a number each."""
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def turned(angle, s):
    """Return a vector (2,), or one at each time, turned by an angle at each time."""
    c, s_ = np.cos(angle), np.sin(angle)
    x, y = np.asarray(s)[..., 0], np.asarray(s)[..., 1]
    return np.stack([c * x - s_ * y, s_ * x + c * y], axis=-1)


def motion_of(run, body, s=(0.0, 0.0)):
    """Return position, velocity and acceleration of a point of a body, by hand, with the body's angle and its rates."""
    zero = np.zeros((len(run.t), 3))
    of = lambda x: zero if body == "ground" else np.asarray(x)[:, run.layout.body_slices[body]]
    q, v, a = of(run.q), of(run.v), of(run.a)
    arm = turned(q[:, 2], s)
    across = np.stack([-arm[:, 1], arm[:, 0]], axis=-1)
    return SimpleNamespace(
        position=q[:, :2] + arm,
        velocity=v[:, :2] + v[:, 2:] * across,
        acceleration=a[:, :2] + a[:, 2:] * across - v[:, 2:] ** 2 * arm,
        angle=q[:, 2],
        spin=v[:, 2],
        spin_rate=a[:, 2],
    )


def applied(mech, run):
    """Return the generalized forces (T, n) of the applied forces along a motion."""
    at = lambda q, v, t: mbs.generalized_force(mech, q, v, t)
    return np.asarray(jax.jit(jax.vmap(at))(run.q, run.v, run.t))


def unbalanced(mech, run, found):
    """Return residuals of Newton's and Euler's equations, the largest of all bodies, relative to the largest terms."""
    loads, gaps, sizes = applied(mech, run), [], [[], []]
    for name, body in mech.bodies.items():
        centre, origin = motion_of(run, name, body.com), motion_of(run, name).position
        load = loads[:, run.layout.body_slices[name]]
        forces = [load[:, :2], -body.mass * centre.acceleration]
        moments = [load[:, 2] + cross(origin - centre.position, load[:, :2]), -body.inertia * centre.spin_rate]
        for key, element in {**mech.constraints, **mech.drivers}.items():
            if name not in (element.i, element.j):
                continue
            sign, reaction = 1 if name == element.j else -1, found[key]
            point = getattr(element, "point_j", getattr(element, "point", (0.0, 0.0)))
            arm = motion_of(run, element.j, point).position - centre.position
            forces.append(sign * np.asarray(reaction.force))
            moments.append(sign * (reaction.torque + cross(arm, np.asarray(reaction.force))))
        gaps.append((np.abs(sum(forces)).max(), np.abs(sum(moments)).max()))
        for size, terms in zip(sizes, (forces, moments), strict=True):
            size.append(np.abs(np.array(terms)).max())
    return np.max(gaps, axis=0) / np.maximum(np.max(sizes, axis=1), 1e-12)


def inertial_power(mech, run):
    """Return Σ m a·v + J α ω − Q·v at each time, the power that drivers bring in."""
    power = -np.sum(applied(mech, run) * np.asarray(run.v), axis=1)
    for name, body in mech.bodies.items():
        centre = motion_of(run, name, body.com)
        power += body.mass * np.sum(centre.acceleration * centre.velocity, axis=1)
        power += body.inertia * centre.spin_rate * centre.spin
    return power


def close(found, expected, tolerance):
    """Fail unless arrays are equal within `tolerance` times the largest expected value."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())
