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
    assert mbs.joint_space(mech).coordinates == ("R1.phi", "R2.phi", "P3.s", "R5.phi")
    with pytest.raises(ValueError, match=r"theta must have shape \(4,\), got \(3,\)"):
        mbs.velocity_transformation(mech, theta[:3])
    with pytest.raises(ValueError, match=r"theta must have shape \(4,\), got \(1, 4\)"):
        mbs.configuration(mech, theta[None])
    with pytest.raises(ValueError, match=r"theta_dot must have shape \(4,\), got \(5,\)"):
        mbs.velocity_transformation_rate(mech, theta, np.zeros(5))
    with pytest.raises(ValueError, match="coordinates must be one of 'bodies', 'natural', got 'points'"):
        mbs.velocity_transformation(mech, theta, coordinates="points")
    with pytest.raises(ValueError, match="shape"):
        mbs.joint_coordinates(mech, np.zeros(5))
    with pytest.raises(ValueError, match="shape"):
        mbs.joint_velocities(mech, np.zeros(12), np.zeros(5))
    with pytest.raises(ValueError, match="R9"):
        mbs.velocity_transformation(mech, theta, cut="R9")
    with pytest.raises(ValueError, match="nobody"):
        mbs.configuration(mech, theta, base="nobody")
    with pytest.raises(ValueError, match="cannot float"):
        mbs.joint_space(mech, base="2")
