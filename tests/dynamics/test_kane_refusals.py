"""Errors of Kane's equations: they name the element and the reason."""

import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import spatial
from kane_problems import (
    CONVERGED,
    FIRST,
    GROUND,
    KANE,
    TIMES,
    WEIGHT,
    X,
    Z,
    links,
    planar_double_pendulum,
    turning_joints,
)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"angles": "nothing"}, "nothing"),
        ({"euler_parameters": ("ball", "nothing")}, "nothing"),
        ({"angles": "hinge"}, "hinge"),
        ({"angles": ("cross",)}, "cross"),
        ({"cut": "nothing"}, "nothing"),
        ({"base": "nothing"}, "nothing"),
    ],
    ids=str,
)
def test_bad_options(options, message):
    """Names that are not joints of the tree, and angles for what has axes: the error names them."""
    with pytest.raises(ValueError, match=message):
        mbs.simulate(turning_joints(), [0.0], formulation=mbs.Kane(**options))


def test_bad_input():
    """Euler parameters or angles in the plane, wrong shapes of x and y."""
    flat = planar_double_pendulum(())
    for options in ({"euler_parameters": "O"}, {"angles": "O"}):
        with pytest.raises(ValueError, match="O"):
            mbs.simulate(flat, [0.0], formulation=mbs.Kane(**options))
    for function in mbs.kane_matrices, mbs.partial_velocities:
        with pytest.raises(ValueError, match=r"x must have shape \(6,\), got \(5,\)"):
            function(flat, np.zeros(5), np.zeros(6))
        with pytest.raises(ValueError, match=r"y must have shape \(6,\), got \(7,\)"):
            function(flat, np.zeros(6), np.zeros(7))
    with pytest.raises(ValueError, match=r"x must have shape"):
        mbs.kane_matrices(flat, 0.0, np.zeros(6))
    with pytest.raises(ValueError, match="shape"):
        mbs.Kane().of(flat).coordinates(np.zeros(5))


def test_name_in_both_options():
    """A joint cannot be described by angles and by Euler parameters."""
    with pytest.raises(ValueError, match="ball"):
        mbs.simulate(turning_joints(), [0.0], formulation=mbs.Kane(angles="ball", euler_parameters="ball"))


def test_joint_moment_of_wrong_shapes():
    """Shapes of θ and λ are checked."""
    for angles, multipliers in (
        (np.zeros(2), np.zeros(6)),
        (np.zeros(3), np.zeros(5)),
        (np.zeros((3, 1)), np.zeros(6)),
    ):
        with pytest.raises(ValueError, match="shape"):
            mbs.joint_moment(angles, multipliers)


def test_driver_across_the_slide():
    """A translational driver across the axis of its joint prescribes nothing of it: that cannot be assembled."""
    joint, driver = (
        spatial.Prismatic(GROUND, "a", axis_i=X),
        spatial.TranslationalDriver(GROUND, "a", axis_i=Z, motion=FIRST),
    )
    mech = mbs.Mechanism(links(1, 3), {"rail": joint}, {"jack": driver}, WEIGHT)
    assert np.all(np.asarray(mbs.simulate(mech, TIMES[:2], step=0.1, formulation=KANE).status) != CONVERGED)
