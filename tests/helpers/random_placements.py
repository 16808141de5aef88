"""Bodies at random places, joints that fit there, and the wrenches that these transmit.

The wrenches are written down from mechanics, not taken from Φ; they tell whether the constraints are independent before
anything is compiled.
"""

import dataclasses

import numpy as np

import jaxmbs as mbs
from jaxmbs import planar, spatial

GROUND = "ground"
# Indices of all three components.
ALL = (0, 1, 2)


@dataclasses.dataclass(frozen=True)
class Joint:
    """A joint or a rod: `held` components of a total joint; given by axes if `axes`, else by frames."""

    name: str
    kind: str
    i: str
    j: str
    held: tuple[bool, ...] = ()
    axes: bool = False


@dataclasses.dataclass(frozen=True)
class Placed:
    """A body at its place: origin, axes as columns, coordinates."""

    r: np.ndarray
    a: np.ndarray
    q: np.ndarray

    def local(self, point):
        """Return a point of the ground frame in the body's frame."""
        return self.a.T @ (point - self.r)


def _motion(rng, value):
    """Return a motion that has this value at t = 0."""
    return mbs.motion.Polynomial([value, *rng.uniform(-1, 1, 2)])


def direction(rng, dimension):
    """Return a random unit vector."""
    v = rng.normal(size=dimension)
    return v / np.linalg.norm(v)


def _displacement(rng, size=1):
    """Return random numbers that are not small."""
    return rng.uniform(0.2, 0.7, size) * rng.choice([-1, 1], size)


def _middle(rng, i, j):
    """Return a random point near the middle of two bodies."""
    return (i.r + j.r) / 2 + rng.uniform(-0.5, 0.5, len(i.r))


def placed_in_plane(rng):
    """Return a random pose of the plane."""
    r, phi = rng.uniform(-1, 1, 2), rng.uniform(-np.pi, np.pi)
    c, s = np.cos(phi), np.sin(phi)
    return Placed(r, np.array([[c, -s], [s, c]]), np.append(r, phi))


def planar_joint(rng, joint, i, j, driven):
    """Return a joint that fits, its wrenches (force, point, torque) on body j, and None or a driver and its wrench."""
    at, along, none = _middle(rng, i, j), direction(rng, 2), np.zeros(2)
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


def _matrix(p):
    """Return the rotation matrix with Euler parameters p."""
    e = p[1:]
    skew = np.cross(np.eye(3), e)
    return (2 * p[0] ** 2 - 1) * np.eye(3) + 2 * (np.outer(e, e) + p[0] * skew)


def placed_in_space(rng):
    """Return a random pose of space."""
    r, p = rng.uniform(-1, 1, 3), direction(rng, 4)
    return Placed(r, _matrix(p), np.concatenate([r, p]))


def spatial_joint(rng, joint, i, j, driven):
    """Return a joint that fits, its wrenches (force, point, torque) on body j, and None or a driver and its wrench."""
    at, none, driver = _middle(rng, i, j), np.zeros(3), None
    axes = _matrix(direction(rng, 4))
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
    """Return the numbers of the components of position and orientation that the joint holds at zero."""
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
