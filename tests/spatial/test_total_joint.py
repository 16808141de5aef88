"""The total joint: six components, free, fixed or prescribed in time, and its reactions."""

import numpy as np
from scipy.spatial.transform import Rotation

import jaxmbs as mbs
from jaxmbs import spatial


def test_numbers_and_functions_are_motions():
    joint = spatial.TotalJoint(
        "ground", "b", position=(0.5, lambda t: t**2, "fixed"), orientation=("fixed", "fixed", 0.3)
    )
    mech = mbs.Mechanism({"b": spatial.Body()}, {"J": joint})
    run = mbs.kinematics(mech, np.array([0.0, 2.0]), None, throw=True)
    np.testing.assert_allclose(run.point("b")[1], [0.5, 4, 0], atol=1e-12)
    np.testing.assert_allclose(run.a[1], [0, 2, 0, 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(run.rotation("b")[1], Rotation.from_rotvec([0, 0, 0.3]).as_matrix(), atol=1e-12)
