"""Gaps of joints from poses of bodies."""

import numpy as np


def point_at(pose, point) -> np.ndarray:
    """Return a point of a body in the ground frame, for a pose (x, y, z, e0, e1, e2, e3)."""
    pose = np.asarray(pose)
    twice = 2 * np.cross(pose[4:], point)
    return pose[:3] + point + pose[3] * twice + np.cross(pose[4:], twice)


def gap(facts: dict, poses) -> float:
    """Return the largest distance of the two points of a ball, a universal joint or a hinge, relative to the size.

    Args:
        facts: numbers of the mechanism, see `export.facts`.
        poses: poses of the bodies, (bodies, 7).
    """
    of = {"ground": np.array([0.0, 0, 0, 1, 0, 0, 0])} | dict(zip(facts["bodies"], poses, strict=True))
    ends = [
        point_at(of[joint["i"]], joint["point_i"]) - point_at(of[joint["j"]], joint["point_j"])
        for joint in facts["joints"].values()
        if joint["kind"] != "Prismatic"
    ]
    return float(np.max(np.linalg.norm(ends, axis=1)) / facts["size"])
