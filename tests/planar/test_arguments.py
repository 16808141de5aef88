"""Every way to write an element down gives the same element."""

import jax
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar

P, Q = (0.4, 0.2), (-0.1, 0.3)
RAMP = mbs.motion.Ramp(0.7, 0.1)

SAME = {
    "absolute angle with a point": (
        planar.AbsoluteAngle("rod", 0.7),
        planar.AbsoluteAngle("rod", P, 0.7),
        planar.AbsoluteAngle("rod", value=0.7),
    ),
    "absolute distance": (
        planar.AbsoluteDistance("rod", P, (1, 2), 3),
        planar.AbsoluteDistance("rod", P, (1, 2, 3)),
        planar.AbsoluteDistance("rod", P, value=(1, 2, 3)),
        planar.AbsoluteDistance("rod", P, center=(1, 2), distance=3),
    ),
    "absolute distance from the origin": (
        planar.AbsoluteDistance("rod", P, (0, 0), 3),
        planar.AbsoluteDistance("rod", P, 3),
        planar.AbsoluteDistance("rod", P, distance=3),
    ),
    "absolute value zero": (planar.AbsoluteX("rod", P, 0.0), planar.AbsoluteX("rod", P)),
    "relative coordinates of the origins": (
        planar.RelativeX("crank", "rod", (0, 0), (0, 0), 0.4),
        planar.RelativeX("crank", "rod", offset=0.4),
    ),
    "same axis on both bodies": (
        planar.Translational("crank", "rod", P, Q, (0.8, 0.5), (0.8, 0.5)),
        planar.Translational("crank", "rod", P, Q, (0.8, 0.5)),
        planar.Translational("crank", "rod", point_i=P, point_j=Q, axis_i=(0.8, 0.5)),
    ),
    "axis along x": (
        planar.Translational("crank", "rod", P, Q, (1, 0), (1, 0)),
        planar.Translational("crank", "rod", P, Q),
    ),
    "offset or distance": (
        planar.RevoluteTranslational("crank", "rod", P, Q, (1, 0), 0.3),
        planar.RevoluteTranslational("crank", "rod", P, Q, offset=0.3),
        planar.RevoluteTranslational("crank", "rod", P, Q, (1, 0), distance=0.3),
    ),
    "driven angle with a point": (
        planar.AbsoluteAngleDriver("rod", RAMP),
        planar.AbsoluteAngleDriver("rod", P, RAMP),
        planar.AbsoluteAngleDriver("rod", motion=RAMP),
    ),
    "axis before or after the motion": (
        planar.TranslationalDriver("crank", "rod", P, Q, (0.8, 0.5), RAMP),
        planar.TranslationalDriver("crank", "rod", P, Q, RAMP, (0.8, 0.5)),
        planar.TranslationalDriver("crank", "rod", P, Q, axis_i=(0.8, 0.5), motion=RAMP),
    ),
    "a number as motion": (
        planar.RevoluteDriver("crank", "rod", mbs.motion.Constant(0.7)),
        planar.RevoluteDriver("crank", "rod", 0.7),
    ),
    "slot about the origin": (
        planar.PointFollower("crank", "rod", P, (0, 0), planar.FunctionOutline(0.5)),
        planar.PointFollower("crank", "rod", P, outline_j=planar.FunctionOutline(0.5)),
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_the_same_element(case):
    first, *others = SAME[case]
    assert others
    for other in others:
        assert jax.tree.structure(other) == jax.tree.structure(first)
        for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(other), strict=True):
            np.testing.assert_array_equal(a, b)
        other.check()
