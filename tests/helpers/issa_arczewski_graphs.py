"""The graphs of Issa and Arczewski 1998, Fig. 1 and 2, with their path matrices."""

import jaxmbs as mbs
from jaxmbs import spatial

GROUND = "ground"


def grounded_system():
    """Return joints and the two path matrices of Issa and Arczewski, Fig. 1, as `floating_system`."""
    chain = {"R1": (GROUND, "1"), "R2": ("1", "2"), "P3": ("2", "3"), "R4": ("3", "4")}
    return chain, [[-1, 1, 0, 0], [0, -1, 1, 0], [0, 0, -1, 1], [0, 0, 0, -1]], [
        [-1, 0, 0, 0], [-2, -1, 0, 0], [-3, -2, -1, 0], [-4, -3, -2, -1]
    ]  # fmt: skip


def floating_system():
    """Return joints and the two path matrices, lists of rows, of Issa and Arczewski, Fig. 2.

    Joints: name ↦ (inner body, outer body); expected results of `mbs.topology.path_matrix` and `secondary_path_matrix`.
    """
    branches = {"R2": ("1", "2"), "R3": ("2", "3"), "P4": ("3", "4"), "R7": ("1", "5")}
    return (
        branches,
        [[-1, 1, 0, 0, 1], [0, -1, 1, 0, 0], [0, 0, -1, 1, 0], [0, 0, 0, -1, 0], [0, 0, 0, 0, -1]],
        [[-1, 0, 0, 0, 0], [-2, -1, 0, 0, 0], [-3, -2, -1, 0, 0], [-4, -3, -2, -1, 0], [-2, 0, 0, 0, -1]],
    )


def in_space(joints):
    """Return a mechanism of space with these joints; the first letter of a joint's name is its kind."""
    kinds = {"R": spatial.Revolute, "P": spatial.Prismatic, "F": spatial.Free}
    bodies = dict.fromkeys(sorted({body for ends in joints.values() for body in ends} - {GROUND}), spatial.Body())
    return mbs.Mechanism(bodies, {name: kinds[name[0]](*ends) for name, ends in joints.items()})
