"""Every way to write an element down gives the same element."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar
from linkages import four_bar

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
        planar.AbsoluteDistance("rod", P, centre=(1, 2), distance=3),
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


def test_angles_accept_points_as_the_other_elements_do():
    ramp, origin = mbs.motion.Ramp(2.0), (0, 0)
    spellings = {
        planar.RelativeAngle: [("a", "b", 0.3), ("a", "b", origin, origin, 0.3)],
        planar.RelativeAngleDriver: [("a", "b", ramp), ("a", "b", origin, origin, ramp)],
        planar.RevoluteDriver: [("a", "b", ramp, 0.1, 0.2), ("a", "b", origin, origin, ramp, 0.1, 0.2)],
        planar.AbsoluteAngle: [("a", 0.3), ("a", origin, 0.3)],
        planar.AbsoluteAngleDriver: [("a", ramp), ("a", origin, ramp)],
    }
    for kind, (short, long) in spellings.items():
        assert eqx.tree_equal(kind(*short), kind(*long))
    by_name = planar.RevoluteDriver("a", "b", origin, origin, motion=ramp, angle_j=0.2)
    assert (by_name.angle_i, by_name.angle_j) == (0.0, 0.2)
    assert planar.AbsoluteAngle("a", point=origin, value=0.3).value == 0.3
    assert planar.TranslationalDriver("a", "b", origin, origin, (0, 1), 2.0).motion(1.0) == 2.0


def test_units_do_not_matter():
    """Rough guesses close in millimetres as in metres, in either precision; what cannot close is not taken as closed."""
    for size in (1e-6, 1e-3, 1.0, 1e3, 1e4):
        bars = {"crank": size, "coupler": 3 * size, "rocker": 2.5 * size, "ground": 3.5 * size}
        frame = lambda x, y, phi, size=size: (x * size, y * size, phi)
        guess = {"crank": frame(0, 0.5, 1.5), "coupler": frame(0.5, 1.5, 0.5), "rocker": frame(3.5, 1, 1.9)}
        closed = mbs.assemble(four_bar(bars), guess, 0.5)
        assert closed.status == mbs.Status.CONVERGED
        assert closed.residual < 1e-14 * size + 1e-15
        open_bars = four_bar({**bars, "ground": 7 * size}).astype(jnp.float32)
        assert mbs.assemble(open_bars, guess, np.float32(0.5)).status == mbs.Status.NOT_ASSEMBLED


def test_center_is_the_deprecated_name_of_centre():
    with pytest.warns(DeprecationWarning, match="write centre") as given:
        old = planar.AbsoluteDistance("rod", P, center=(1, 2), distance=3)
    assert given[0].filename == __file__
    np.testing.assert_array_equal(old.centre, (1, 2))
    with pytest.warns(DeprecationWarning, match="write centre") as read:
        np.testing.assert_array_equal(old.center, (1, 2))
    assert read[0].filename == __file__
