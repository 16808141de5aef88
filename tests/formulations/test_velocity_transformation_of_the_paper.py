"""The velocity transformation: the paper's two systems block by block.

Issa and Arczewski 1998, equations (4.9) and (4.13) and Table 1.
"""

import numpy as np
import pytest

import jaxmbs as mbs
from issa_arczewski_systems import grounded


def test_errors():
    """Wrong shapes and unknown names are told with what would be right."""
    mech, _ = grounded(np.random.default_rng(0), 2)
    theta = np.zeros(4)
    joints = mbs.JointCoordinates().of(mech)
    assert joints.names == ("R1.phi", "R2.phi", "P3.s", "R5.phi")
    with pytest.raises(ValueError, match=r"theta must have shape \(4,\), got \(3,\)"):
        mbs.velocity_transformation(mech, theta[:3])
    with pytest.raises(ValueError, match=r"x must have shape \(4,\), got \(1, 4\)"):
        joints.configuration(theta[None])
    with pytest.raises(ValueError, match=r"theta_dot must have shape \(4,\), got \(5,\)"):
        mbs.velocity_transformation_rate(mech, theta, np.zeros(5))
    with pytest.raises(ValueError, match="coordinates must be one of 'bodies', 'natural', or a Natural"):
        mbs.velocity_transformation(mech, theta, coordinates="points")
    with pytest.raises(ValueError, match="shape"):
        joints.coordinates(np.zeros(5))
    with pytest.raises(ValueError, match="shape"):
        joints.velocities(np.zeros(12), np.zeros(5))
    with pytest.raises(ValueError, match="R9"):
        mbs.velocity_transformation(mech, theta, cut="R9")
    with pytest.raises(ValueError, match="nobody"):
        mbs.JointCoordinates(base="nobody").of(mech)
    with pytest.raises(ValueError, match="cannot float"):
        mbs.JointCoordinates(base="2").of(mech)
